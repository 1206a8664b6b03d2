"""The documentation site can be used by everyone. It is looked at if `make docs` has built it."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

SITE = Path(__file__).parents[2] / "out" / "docs"
PAGES = (
    "index",
    "tutorials/idea",
    "tutorials/first_run",
    "howto/live",
    "howto/dashboard",
    "explanation/when_not",
    "explanation/theory",
    "reference/glossary",
    "reference/api/steps",
)

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="make docs has not built the site")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_pages_have_no_serious_fault_of_accessibility(opened, scheme, width):
    page = opened((SITE / "index.html").as_uri(), color_scheme=scheme, viewport={"width": width, "height": 900})
    faults = {}
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        for fault in Axe().run(page, options={"preload": False}).response["violations"]:
            if fault["impact"] in ("serious", "critical"):
                faults[f"{name}: {fault['id']}"] = fault["nodes"][0]["html"]
    assert faults == {}

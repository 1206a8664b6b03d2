"""What `make dist` checks, on contents that are right and wrong."""

import runpy
from pathlib import Path

import siag

ROOT = Path(__file__).parents[2]
DIST = runpy.run_path(str(ROOT / "scripts" / "dist.py"))


def test_missing_and_unwanted_files_are_named():
    wrong = DIST["wrong_contents"](
        ["siag/__init__.py", "siag/__pycache__/x.nbi"], ("siag/__init__.py", "siag/py.typed")
    )
    assert wrong == ["siag/py.typed is missing", "siag/__pycache__/x.nbi does not belong there"]


def test_the_latest_version_of_the_changelog_is_the_packages():
    assert DIST["latest_version"]((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")) == siag.__version__
    assert DIST["latest_version"]("## [Unreleased]\n") == "none"


def test_every_extra_of_the_project_is_tried_or_a_collection_of_others():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    collections = {"adapters", "examples", "dev", "docs", "thorough"}
    assert set(extras) - collections <= set(DIST["EXTRAS"])

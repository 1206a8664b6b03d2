"""The release checklist finds the version and the changelog's entry of it."""

import runpy
from pathlib import Path

import siag

ROOT = Path(__file__).parents[2]
RELEASE = runpy.run_path(str(ROOT / "scripts" / "release.py"))


def test_the_version_is_that_of_the_package():
    text = (ROOT / "src" / "siag" / "foundations" / "version.py").read_text()
    assert RELEASE["version_in"](text) == siag.__version__
    assert RELEASE["version_in"]('"""The version."""\n') == "unknown"


def test_a_changelog_needs_an_entry_with_a_date_and_nothing_unreleased():
    def points(changelog):
        first, second, *_ = RELEASE["points_of"]("1.2.0", changelog).values()
        return first(), second()

    assert points("## [Unreleased]\n\n## [1.2.0] - 2026-11-18\n") == (True, True)
    assert points("## [Unreleased]\n\n- more\n\n## [1.2.0]\n") == (False, False)
    assert points("## [Unreleased]\n\n## [1x2.0] - 2026-11-18\n") == (False, True)


def test_it_runs_what_must_pass_before_a_change_lands():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    goals = {line.removeprefix("make ") for line in lines if line.startswith("make ")}
    assert "test" in goals
    assert goals <= set(RELEASE["GOALS"])

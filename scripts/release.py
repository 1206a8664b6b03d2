"""The release checklist: what must hold before a version is tagged. It changes nothing and uploads nothing.

`python scripts/release.py` also runs the commands that must pass, which takes long; `--look` only looks.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOALS = ("test", "test-thorough", "test-adapters", "docs", "test-browser", "dist")  # the browser looks at the site, too


def main() -> None:
    """Print each point with whether it holds; exit with 1 if one does not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--look", action="store_true", help=f"run none of make {', '.join(GOALS)}")
    look = parser.parse_args().look
    version = version_in((ROOT / "src/siag/foundations/version.py").read_text(encoding="utf-8"))
    points = points_of(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not look:
        points |= {f"make {goal} passes": partial(made, goal) for goal in GOALS}
    failed = 0
    for words, point in points.items():
        holds = point()
        failed += not holds
        print(f"{'ok   ' if holds else 'FAILS'} {words}", flush=True)
    if failed:
        sys.exit(1)
    print(
        f"Then: git tag v{version}, push the tag, and upload dist/* with twine." if not look else "Then without --look."
    )


def version_in(text: str) -> str:
    """The version that a module sets."""
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return found[1] if found else "unknown"


def points_of(version: str, changelog: str) -> dict[str, Callable[[], bool]]:
    """What is looked at: in words, and whether it holds."""
    dated = re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    empty = re.search(r"^## \[Unreleased\]\s+## \[", changelog, re.MULTILINE)
    return {
        f"CHANGELOG.md has [{version}] with a date": lambda: dated is not None,
        "nothing is left under Unreleased": lambda: empty is not None,
        "everything is committed": lambda: not git("status", "--porcelain"),
        f"there is no tag v{version} yet": lambda: not git("tag", "--list", f"v{version}"),
    }


def git(*words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def made(goal: str) -> bool:
    """Whether `make goal` succeeds."""
    return subprocess.run(["make", goal], cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    main()

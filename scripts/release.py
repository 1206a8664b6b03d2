"""The release checklist: what must hold before a version is tagged. It changes nothing and uploads nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print each point with whether it holds; exit with 1 if one does not."""
    version = re.search(r'"(.+)"', (ROOT / "src/siag/foundations/version.py").read_text(encoding="utf-8"))
    name = version.group(1) if version else "unknown"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    points = {
        f"CHANGELOG.md has [{name}] with a date": re.search(
            rf"^## \[{re.escape(name)}\] - \d", changelog, re.MULTILINE
        ),
        "nothing is left under Unreleased": re.search(r"^## \[Unreleased\]\s+## \[", changelog, re.MULTILINE),
        "everything is committed": not git("status", "--porcelain"),
        f"there is no tag v{name} yet": not git("tag", "--list", f"v{name}"),
        "make test passes": lambda: made("test"),
        "make dist passes": lambda: made("dist"),
    }
    failed = 0
    for words, point in points.items():
        holds = bool(point() if callable(point) else point)
        failed += not holds
        print(f"{'ok   ' if holds else 'FAILS'} {words}", flush=True)
    if failed:
        sys.exit(1)
    print(f"Then: git tag v{name}, push the tag, and upload dist/* with twine.")


def git(*words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def made(target: str) -> bool:
    """Whether `make target` succeeds."""
    return subprocess.run(["make", target], cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    main()

"""Check the built site: every link and picture within it leads somewhere, every link elsewhere is well-formed.

`python docs/links.py out/docs`. Nothing is asked of other hosts.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page names, and what it points to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note its id, and where it leads."""
        for key, value in attributes:
            if key in ("id", "name") and value:
                self.names.add(value)
            if (tag, key) in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")) and value:
                self.targets.append(value)


def faults(site: Path) -> list[str]:
    """One line for each link that leads nowhere."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if parts.scheme not in ("https", "http", "mailto", "data") or (not parts.netloc and not parts.path):
                    found.append(f"{path.name}: {target} is not well-formed")
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                found.append(f"{path.name}: {target} does not exist")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].names:
                found.append(f"{path.name}: {target} names no heading")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    print("\n".join(wrong) or "all links within the site lead somewhere")
    sys.exit(bool(wrong))

"""The pages of the documentation, and the programs they show, for the tests that run these.

A block that imports siag begins a program; those after it on the page go on with it. A block of text right after a
block of Python is what that prints, with … for what may differ,
in a line or, alone, in several.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md") if "made" not in path.parts),
]
BETWEEN = "—— the next block ——"


class Program(NamedTuple):
    """Blocks of a page that belong together, and what each of them prints, if the page says."""

    blocks: list[str]
    printed: list[str | None]

    @property
    def source(self):
        """All blocks, with a line printed between them."""
        return f"\nprint({BETWEEN!r})\n".join(self.blocks)

    def check(self, output):
        """Whether this is what the page shows."""
        parts = output.split(f"{BETWEEN}\n")
        assert len(parts) == len(self.blocks)
        for part, shown in zip(parts, self.printed, strict=True):
            if shown is not None:
                pattern = re.sub(r"(?m)^…$", r"(?s:.+)", re.escape(shown.strip())).replace("…", r"[^\n]+?")
                assert re.fullmatch(pattern, part.strip()), f"printed:\n{part}\nshown:\n{shown}"


def text(name):
    """The source of a page."""
    return (ROOT / name).read_text()


@cache
def fences(name):
    """The blocks of a page, in order: the text before it, its language, its content."""
    found, before, language, body = [], [], None, []
    for line in text(name).splitlines(keepends=True):
        if language is None and line.startswith("```"):
            language, body = line[3:].strip(), []
        elif language is None:
            before.append(line)
        elif line.rstrip() == "```":
            found.append(("".join(before), language, "".join(body)))
            language, before = None, []
        else:
            body.append(line)
    assert language is None, f"{name}: a block has no end"
    return found


def blocks(name, language="python"):
    """The blocks of a page in a language."""
    return [body for _, spoken, body in fences(name) if spoken == language]


def programs(name):
    """The programs of a page."""
    found, follows = [], False
    for before, language, body in fences(name):
        if language == "python":
            if re.search(r"^(import siag|from siag)\b", body, flags=re.M):
                found.append(Program([], []))
            found[-1].blocks.append(body)
            found[-1].printed.append(None)
        elif language == "text" and follows and not before.strip():
            found[-1].printed[-1] = body
        follows = language == "python"
    return found

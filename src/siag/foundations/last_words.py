"""An error of somebody else's code in one line, with the place in that code."""

from __future__ import annotations

import os
import sysconfig
import traceback

from siag.foundations.errors import SiagError

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
OTHERS = ("<frozen", *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")))
LONGEST = 300  # characters of an error's text


def last_words(error: BaseException) -> str:
    """An error in one line, with the place in the user's code."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # it is a user's class
        text = ""
    if isinstance(error, SiagError):
        return _printable(text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(OURS)]
    theirs = [frame for frame in frames if not frame.filename.startswith(OTHERS)] or frames
    place = f" ({os.path.basename(theirs[-1].filename)}, line {theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}{': ' if text else ''}{_printable(text)}{place}"


def _printable(text: str) -> str:
    """Short enough to be sent, and nothing in it that cannot be."""
    text = text.replace("\0", "?").encode(errors="replace").decode()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

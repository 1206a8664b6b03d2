"""Files that are either whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from siag.foundations.errors import BadFile, BadInput, reason_of


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise BadFile(f"{path}: cannot be written: {reason_of(error)}; make its folder") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp is private; a result is as readable as any other new file
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, whole or not at all."""

    def write(stream: IO[bytes]) -> None:
        stream.write(content)

    write_atomically(path, write)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, whole or not at all."""
    write_bytes(path, text.encode())


def writable_folder(parameter: str, folder: str | os.PathLike[str], names: Sequence[str] = ()) -> Path:
    """The folder, made if need be and tried by writing into it, so that a full or forbidden disk shows now.

    None of the `names` that are to be written in it may be a folder.
    """
    path = Path(folder)
    for name in names:
        if (path / name).is_dir():
            raise BadInput(parameter, str(folder), f"a folder in which {name} can be written", f"{name} is a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path, prefix=".siag-"):
            pass
    except OSError as error:
        raise BadInput(parameter, str(folder), "a folder that can be written", reason_of(error)) from None
    return path

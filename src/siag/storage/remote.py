"""A folder at a URL, reached by fsspec, in which a file is replaced whole or not at all.

Object stores do so by themselves. Elsewhere a file is written under another name, then moved into its place.
fsspec takes keys and endpoints from the environment and from its own configuration files, not from here.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from siag.foundations.errors import BadInput, reason_of

URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*(?:::|://))+")
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "ocilake", "tos", "tosfs", "memory"}
DRAFT = ".siag-draft"
PATIENCE = 30.0  # seconds for a first look at a URL
PART = 8 << 20  # bytes copied at a time


class Remote:
    """A folder at a URL.

    Args:
        url: of the folder, or of a file in it.
        file: whether it is that of a file; `name` is its name then.
    """

    def __init__(self, url: str, *, file: bool = False) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.url = url
        self._system, path = url_to_fs(url)
        self._path: str = path.rstrip("/")
        self.name = ""
        if file:
            self._path, _, self.name = self._path.rpartition("/")
        self._here = isinstance(self._system, LocalFileSystem)
        protocol = self._system.protocol
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        self._whole = bool(names & OBJECT_STORES)  # what is written appears when it is complete

    def make(self) -> None:
        """Make the folder, where there are any; a bucket must be there."""
        if not self._whole:
            self._system.makedirs(self._path, exist_ok=True)

    def sizes(self) -> dict[str, int]:
        """The files that are there."""
        self._system.invalidate_cache()
        try:
            entries = self._system.ls(self._path or "/", detail=True)
        except FileNotFoundError:
            return {}
        return {entry["name"].rsplit("/", 1)[-1]: entry["size"] for entry in entries if entry["type"] == "file"}

    def put(self, source: Path, name: str, moved: Callable[[], None]) -> None:
        """Copy a file, which must not change meanwhile, to the URL.

        Args:
            source: the file.
            name: what it is called there.
            moved: called when a part of it is there, as far as the driver tells.
        """
        self._place(name, DRAFT, lambda path: self._send(source, path, moved))

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, while others may be doing the same, or this one puts a large one there."""
        self._place(name, f"{DRAFT}-{secrets.token_hex(8)}", lambda path: self._system.pipe_file(path, content))

    def read(self, name: str) -> bytes | None:
        """What is in a small file; `None` if there is none."""
        try:
            return bytes(self._system.cat_file(self._at(name)))
        except FileNotFoundError:
            return None

    def get(self, name: str, target: Path) -> None:
        """Copy a file from the URL."""
        part = target.with_name(target.name + ".part")
        self._system.get_file(self._at(name), os.fspath(part))
        os.replace(part, target)

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            self._system.rm_file(self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _send(self, source: Path, path: str, moved: Callable[[], None]) -> None:
        from fsspec.callbacks import Callback

        if self._here:  # its driver tells nothing
            copy_file(source, Path(path), moved)
        else:
            told = Callback(hooks={"moved": lambda *_, **__: moved()})
            self._system.put_file(os.fspath(source), path, callback=told)

    def _place(self, name: str, draft: str, write: Callable[[str], Any]) -> None:
        if self._whole:
            write(self._at(name))
        else:
            write(self._at(draft))
            self._system.mv(self._at(draft), self._at(name))


def copy_file(source: Path, target: Path, moved: Callable[[], None]) -> None:
    """Copy a file on this machine; `moved` is called after each part."""
    with open(source, "rb") as here, open(target, "wb") as there:
        while part := here.read(PART):
            there.write(part)
            moved()


def is_url(place: object) -> bool:
    """Whether a folder or file is given as a URL rather than a path.

    Example:
        >>> is_url("s3://bucket/run"), is_url("/data/run"), is_url("C:/run")
        (True, False, False)
    """
    return isinstance(place, str) and URL.match(place) is not None and "://" in place


def check_url(parameter: str, url: str, *, file: bool = False, patience: float = PATIENCE) -> None:
    """Refuse a URL that cannot be written, by a small write there.

    Args:
        parameter: what the user calls it.
        url: of a folder, or of a file.
        file: whether it is that of a file.
        patience: seconds after which it counts as out of reach.
    """
    _check_driver(parameter, url)
    if file and url.endswith("/"):
        raise BadInput(parameter, url, "the URL of a file", "it must not end in /")
    outcome: list[Exception | None] = []

    def attempt() -> None:
        try:
            _try_out(Remote(url, file=file))
            outcome.append(None)
        except Exception as error:  # each driver has its own kinds
            outcome.append(error)

    thread = threading.Thread(target=attempt, name="siag-check-url", daemon=True)
    thread.start()
    thread.join(patience)
    error = outcome[0] if outcome else TimeoutError(f"no answer within {patience:g} seconds")
    if error is not None:
        raise BadInput(parameter, url, "a URL that can be written", reason_of(error)) from None


def _try_out(remote: Remote) -> None:
    name = f".siag-check-{secrets.token_hex(8)}"
    remote.make()
    try:
        remote.write(name, b"1")
        remote.write(name, b"2")
        if remote.read(name) != b"2":
            raise OSError("what was written there is not what is read back")
    finally:
        remote.remove(name)


def _check_driver(parameter: str, url: str) -> None:
    """Refuse a kind of URL that is unknown, or whose driver is not installed."""
    try:
        from fsspec import get_filesystem_class
        from fsspec.registry import known_implementations
    except ImportError:
        remedy = "pip install 'siag[ray]' on all nodes"
        raise BadInput(parameter, url, "a path, since fsspec, which opens URLs, is not installed", remedy) from None
    for protocol in re.findall(r"([A-Za-z][A-Za-z0-9+.-]*)(?:::|://)", url):
        try:
            get_filesystem_class(protocol)
        except ValueError:
            examples = "s3://, gs://, az://, hdfs://, sftp:// or file://"
            raise BadInput(parameter, url, f"a URL of a known kind, such as {examples}") from None
        except ImportError as error:
            package = known_implementations.get(protocol, {}).get("class", "fsspec").split(".")[0]
            remedy = reason_of(error) if package == "fsspec" else f"pip install {package}"
            allowed = f"a URL whose driver is installed; {protocol}:// has none here"
            raise BadInput(parameter, url, allowed, f"{remedy}, on all nodes") from None

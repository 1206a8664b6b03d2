"""Folders and files that are given as URLs: told from paths, checked before a run begins, opened."""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import closing
from pathlib import Path

from siag.foundations.errors import BadInput, reason_of
from siag.storage.disk import LOCAL, Disk, Place
from siag.storage.remote_disk import RemoteDisk

URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*(?:::|://))+")


def is_url(place: object) -> bool:
    """Whether a folder or file is given as a URL rather than a path.

    Example:
        >>> is_url("s3://bucket/run"), is_url("/data/run"), is_url("C:/run")
        (True, False, False)
    """
    return isinstance(place, str) and URL.match(place) is not None and "://" in place


def disk_of(parameter: str, place: Place, disk: Disk = LOCAL, run: str | None = None) -> tuple[Disk, str]:
    """The disk on which a folder or file is, be it given as a path or a URL, and its name there; `disk` has paths."""
    if not isinstance(place, str) or not is_url(place):
        return disk, os.fspath(Path(place))
    check_driver(parameter, place)
    return RemoteDisk(run), place.rstrip("/")


def check_url(parameter: str, url: object) -> None:
    """Refuse the URL of a folder, or of a trace, that cannot be written, by a small write there; a path may be any."""
    if not isinstance(url, str) or not is_url(url):
        return
    check_driver(parameter, url)
    file = parameter == "trace"
    if file and url.endswith("/"):
        raise BadInput(parameter, url, "the URL of a file", "it must not end in /")
    try:
        _try_out(RemoteDisk(), url.rpartition("/")[0] if file else url.rstrip("/"))
    except OSError as error:
        raise BadInput(parameter, url, "a URL that can be written", reason_of(error)) from None


def _try_out(disk: RemoteDisk, folder: str) -> None:
    """Write a file twice, read it, and remove it."""
    name = f"{folder}/.siag-check-{secrets.token_hex(8)}"
    disk.make_folder(folder)
    with closing(disk.append(name)) as file:
        for part in (b"1", b"2"):
            file.write(part)
            file.force()
    with disk.read(name) as stream:
        content = stream.read()
    disk.remove(name)
    if content != b"12":
        raise OSError(errno.EIO, "what was written there is not what is read back")


def check_driver(parameter: str, url: str) -> None:
    """Refuse a kind of URL that is unknown, or whose driver is not installed."""
    try:
        from fsspec import get_filesystem_class
        from fsspec.registry import known_implementations
    except ImportError:
        remedy = "pip install fsspec, on all nodes"
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

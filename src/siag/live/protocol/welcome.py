"""What a server says of itself to a worker that joins: the method, the worker's place, the lengths of messages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from siag import methods
from siag.foundations.encodings import ENCODINGS, FLOAT64, Encoding
from siag.foundations.errors import BadInput, SiagError, shorten
from siag.live.protocol import wire
from siag.methods import Method
from siag.methods.weighted import without_weights

SAME = "install the same version of siag at both ends"


class Dismissed(SiagError):
    """The server does not want this worker, or is not one it can work for."""


def described(method: object) -> dict[str, Any]:
    """A method in words that a worker can make it from again; just its name, if its parameters have no words."""
    if isinstance(method, Method):
        method = without_weights(method)[0]  # which workers do not see
    kind = {"kind": type(method).__name__}
    content: dict[str, Any] = {}
    if is_dataclass(method) and not isinstance(method, type):
        given = {field.name: getattr(method, field.name) for field in fields(method)}
        content = {name: described(value) if isinstance(value, Method) else value for name, value in given.items()}
    with suppress(TypeError, ValueError):
        if len(wire.text(wire.WELCOME, content)) < wire.STAGE:
            return {**kind, **content}
    return kind


def make_method(description: dict[str, Any]) -> Method:
    """The method a server has described: one of this package's, by its name."""
    content = {name: make_method(value) if _is_method(value) else value for name, value in description.items()}
    kind = getattr(methods, str(content.pop("kind", "")), None)
    if not (isinstance(kind, type) and issubclass(kind, Method) and kind is not Method):
        raise Dismissed(
            f"the server's method {shorten(description)} is not one of siag's; give it to siag.work(method=…)"
        )
    try:
        return kind(**content)
    except (TypeError, BadInput) as error:
        raise Dismissed(f"the server's method {shorten(description)} cannot be made here: {error}") from None


def _is_method(value: object) -> bool:
    """Whether this describes a method that another is around."""
    return isinstance(value, dict) and "kind" in value


def parse_welcome(content: dict[str, Any]) -> tuple[tuple[int, int, int], tuple[int, int], Encoding, int]:
    """Of a welcome: row, workers and d; the lengths of what is sent and read; in which numbers; how many samples."""
    same = content.get("d")
    found = [content.get(name) for name in ("row", "workers", "d", "samples")]
    found += [content.get(name, same) for name in ("message", "shown")]
    row, workers, d, samples, message, shown = (value if type(value) is int else -1 for value in found)
    name = content.get("messages", FLOAT64.name)
    encoding = ENCODINGS.get(name) if isinstance(name, str) else None
    if encoding is None:
        raise wire.BadFrame(f"the server's messages are of {wire.words(str(name))}, unknown here; {SAME}")
    longest = max(encoding.size(message), encoding.model.size(shown))
    if not (0 <= row < workers and 0 < d <= shown and message > 0 and longest <= wire.LARGEST and samples >= 0):
        raise wire.BadFrame("the server's welcome is not one")
    return (row, workers, d), (message, shown), encoding, samples

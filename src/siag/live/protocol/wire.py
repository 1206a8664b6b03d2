"""The protocol: frames over a stream of bytes. docs/reference/protocol.md says it in sentences.

A frame is a header of 32 bytes, little-endian, and a payload: how long the payload is (4 bytes), what kind of frame it
is (1), three bytes of zero, two whole numbers of 8 bytes, the stamp and the sample, zero where they mean nothing, and a
floating-point number of 8 bytes, the loss of a REPORT's sample, NaN where it is not told; of ALIVE that at w_0.
The payload of REPORT and MODEL is an array of floating-point numbers, of 8 bytes each, or what the welcome says:
`siag.foundations.encodings`. SKIP, which has the stamp and sample of a REPORT, and ALIVE, whose sample says how often
the worker has been through its data, have none; that of the others is a JSON object. WEIGHT, with which a relay says
what the REPORT after it is the sum of, has none either: its stamp is the mean stamp of what was summed, its sample the
oldest, its loss the weight. SHARED_REPORT and SHARED_MODEL are a REPORT and a MODEL whose array is in memory that both
ends share: `siag.live.transports.tcp.memory`.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias

from siag.foundations.errors import SiagError

HELLO, WELCOME, REPORT, MODEL, REFUSAL, SKIP, LEAVE, GOODBYE, ALIVE, WEIGHT = range(1, 11)
ORDERS, NOTE, SAID = range(16, 19)  # between the servers of a model that is split: `siag.live.sharding`
SHARED_REPORT, SHARED_MODEL = 24, 25
NAMES = {kind: name for name, kind in dict(globals()).items() if name.isupper()}  # of the kinds of frames above

PROTOCOL = 1
HEADER = struct.Struct("<IB3sqqd")
STAGE = 4096  # bytes a server receives at a time, unless a large array is on its way
JSON_FROM_WORKER = (2, STAGE - HEADER.size)  # bytes of JSON from a worker: header and all, they fit on the stage
JSON_FROM_SERVER = (2, 1 << 16)  # bytes of JSON from a server
NONE = (0, 0)
LARGEST = (1 << 32) - 1  # bytes of a payload
SAMPLES = 1 << 53  # more than anybody draws, and exact in JSON wherever it is read
REASON = 500  # letters of a reason
ZEROS = b"\0\0\0"
PORT = 7460

Expected: TypeAlias = Mapping[int, tuple[int, int]]
"""The kinds of frame that may come now, and how many bytes their payloads have, at least and at most."""

Raw: TypeAlias = bytes | bytearray | memoryview


class BadFrame(SiagError):
    """Bytes that are no frame, or one that must not come now."""


class Head(NamedTuple):
    """A frame's header."""

    length: int
    kind: int
    stamp: int
    sample: int
    loss: float = math.nan


def head(kind: int, length: int = 0, stamp: int = 0, sample: int = 0, loss: float = math.nan) -> bytes:
    """A header as bytes."""
    return HEADER.pack(length, kind, ZEROS, stamp, sample, loss)


def text(kind: int, content: dict[str, Any], stamp: int = 0) -> bytes:
    """A frame whose payload is JSON."""
    payload = json.dumps(content, allow_nan=False).encode()
    return head(kind, len(payload), stamp) + payload


def parse_head(raw: Raw, expected: Expected, at: int = 0) -> Head:
    """The header of a frame, if it is one of those expected."""
    length, kind, zeros, stamp, sample, loss = HEADER.unpack_from(raw, at)
    if zeros != ZEROS or kind not in NAMES:
        raise BadFrame("these bytes are no frame of siag's protocol")
    if kind not in expected:
        raise BadFrame(f"{NAMES[kind]}: now {' or '.join(NAMES[each] for each in expected)} is expected")
    low, high = expected[kind]
    if not low <= length <= high:
        allowed = f"{low}" if low == high else f"{low} to {high}"
        raise BadFrame(f"{NAMES[kind]}, {length} bytes: {allowed} are expected")
    return Head(length, kind, stamp, sample, loss)


def parse_text(payload: Raw) -> dict[str, Any]:
    """The JSON object of a frame."""
    try:
        content = json.loads(bytes(payload), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadFrame("a payload that should be JSON is not") from None
    if not isinstance(content, dict):
        raise BadFrame("a payload that should be a JSON object is not")
    return content


def words(value: object) -> str:
    """A text somebody sent, fit to be shown: on one line, not too long, without what a terminal might obey."""
    if not isinstance(value, str):
        return ""
    line = " ".join(value[: 2 * REASON].split())[:REASON]
    return "".join(letter if letter.isprintable() else "·" for letter in line)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)

"""The protocol: frames over a stream of bytes. docs/protocol.md says it in sentences.

A frame is a header of 24 bytes, little-endian, and a payload: how long the payload is (4 bytes), what kind of frame it
is (1), three bytes of zero, and two whole numbers of 8 bytes, the stamp and the sample, zero where they mean nothing.
The payload of REPORT and MODEL is an array of 8-byte floating-point numbers, that of the others a JSON object.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.errors import SiagError
from siag.foundations.types import Floats

PROTOCOL = 1
HEADER = struct.Struct("<IB3sqq")
HELLO, WELCOME, REPORT, MODEL, REFUSAL, SKIP, LEAVE, GOODBYE, ALIVE = range(1, 10)
ARRAYS = (REPORT, MODEL)
TEXT_LIMIT = 1 << 16  # bytes of JSON
ZEROS = b"\0\0\0"
PORT = 7460


class BadFrame(SiagError):
    """Bytes that are no frame, or one that must not come now."""


class Head(NamedTuple):
    """A frame's header."""

    length: int
    kind: int
    stamp: int
    sample: int


def head(kind: int, length: int = 0, stamp: int = 0, sample: int = 0) -> bytes:
    """A header as bytes."""
    return HEADER.pack(length, kind, ZEROS, stamp, sample)


def text(kind: int, content: dict[str, Any], stamp: int = 0) -> bytes:
    """A frame whose payload is JSON."""
    payload = json.dumps(content, allow_nan=False).encode()
    return head(kind, len(payload), stamp) + payload


def parse_head(raw: bytes | bytearray | memoryview, numbers: int | None) -> Head:
    """The header of a frame, if it can be one; `numbers` is d, `None` before it is known."""
    length, kind, zeros, stamp, sample = HEADER.unpack_from(raw)
    if zeros != ZEROS or not HELLO <= kind <= ALIVE:
        raise BadFrame("these bytes are no frame of siag's protocol")
    if kind in ARRAYS:
        if numbers is not None and length != 8 * numbers:
            raise BadFrame(f"{length} bytes of numbers: {numbers} numbers of 8 bytes are expected")
    elif length > TEXT_LIMIT:
        raise BadFrame(f"{length} bytes of text: at most {TEXT_LIMIT} are allowed")
    return Head(length, kind, stamp, sample)


def parse_text(payload: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The JSON object of a frame."""
    try:
        content = json.loads(bytes(payload))
    except (ValueError, RecursionError):
        raise BadFrame("a payload that should be JSON is not") from None
    if not isinstance(content, dict):
        raise BadFrame("a payload that should be a JSON object is not")
    return content


def numbers(payload: bytes | bytearray | memoryview) -> Floats:
    """The array of a frame, not copied."""
    return np.frombuffer(payload, "<f8")

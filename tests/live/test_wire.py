"""Frames: what is sent is what is read, and what is no frame is refused."""

import json
import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.live.protocol import wire
from siag.live.protocol.welcome import described, make_method

ANY = dict.fromkeys(range(1, 10), (0, wire.LARGEST))
long = st.integers(-(2**63), 2**63 - 1)


def test_a_header_has_the_bytes_that_the_protocol_says():
    raw = wire.head(wire.REPORT, 40, 7, -2, 0.5)
    assert raw == struct.pack("<IBBBBqqd", 40, 3, 0, 0, 0, 7, -2, 0.5)
    assert len(raw) == wire.HEADER.size == 32
    assert math.isnan(wire.parse_head(wire.head(wire.REPORT), ANY).loss)  # where none was told


@given(st.integers(1, 9), st.integers(0, wire.LARGEST), long, long, st.floats(allow_nan=False), st.integers(0, 9))
def test_a_header_is_read_as_it_was_written(kind, length, stamp, sample, loss, at):
    raw = bytes(at) + wire.head(kind, length, stamp, sample, loss)
    assert wire.parse_head(raw, ANY, at) == (length, kind, stamp, sample, loss)


@given(st.binary(min_size=32, max_size=32))
def test_bytes_are_a_header_or_no_frame(raw):
    with suppress(wire.BadFrame):
        head = wire.parse_head(raw, ANY)
        assert wire.head(head.kind, head.length, *head[2:]) == raw


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (wire.head(wire.MODEL, 40), "MODEL: now REPORT or SKIP is expected"),
        (wire.head(wire.REPORT, 41), "REPORT, 41 bytes: 40 are expected"),
        (wire.head(wire.REPORT, 2**32 - 1), "REPORT, 4294967295 bytes: 40 are expected"),
        (wire.head(wire.SKIP, 1), "SKIP, 1 bytes: 0 are expected"),
        (wire.head(0), "no frame"),
        (wire.head(11), "no frame"),
        (wire.head(wire.SKIP)[:5] + b"\1" + wire.head(wire.SKIP)[6:], "no frame"),
        (b"GET / HTTP/1.1\r\nHost: siag:7000\r\n", "no frame"),
    ],
)
def test_a_frame_that_must_not_come_now_is_refused(raw, says):
    with pytest.raises(wire.BadFrame, match=says):
        wire.parse_head(raw, {wire.REPORT: (40, 40), wire.SKIP: wire.NONE})


values = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
texts = st.dictionaries(st.text(max_size=5), values | st.lists(values, max_size=3), max_size=4)


@given(texts)
def test_text_is_read_as_it_was_written(content):
    raw = wire.text(wire.HELLO, content, 3)
    head = wire.parse_head(raw, ANY)
    assert (head.kind, head.length, head.stamp) == (wire.HELLO, len(raw) - wire.HEADER.size, 3)
    assert wire.parse_text(memoryview(raw)[wire.HEADER.size :]) == content


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"1",
        b"null",
        b"{",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": ' + b"[" * 4000 + b"]" * 4000 + b"}",
        b'{"a": ' + b"1" * 6000 + b"}",
        b"\xff\xfe{}",
        b'{"a": "\xff"}',
    ],
)
def test_a_payload_that_is_no_json_object_is_refused(payload):
    with pytest.raises(wire.BadFrame, match="JSON"):
        wire.parse_text(payload)


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_no_payload_does_worse_than_being_refused(payload):
    with suppress(wire.BadFrame):
        assert isinstance(wire.parse_text(payload), dict)


def test_words_of_others_are_one_short_line_that_no_terminal_obeys():
    assert wire.words("a\nb\t c\x1b[2J\x00é") == "a b c·[2J·é"
    assert len(wire.words("x" * 10_000)) == wire.REASON
    assert wire.words(["not", "a", "text"]) == wire.words(None) == ""


def test_a_method_travels_as_words():
    from siag.methods import SAG, SIAG

    for method in (SIAG(), SIAG(wait=0.5, rows="float32"), SAG()):
        assert make_method(json.loads(json.dumps(described(method)))) == method


def test_a_method_without_words_travels_by_name():
    class Odd:
        pass

    assert described(Odd()) == {"kind": "Odd"}
    with pytest.raises(wire.SiagError, match=r"siag.work\(method"):
        make_method({"kind": "Odd"})
    with pytest.raises(wire.SiagError, match="cannot be made"):
        make_method({"kind": "SIAG", "unknown": 1})
    with pytest.raises(wire.SiagError, match="not one of"):
        make_method({"kind": "Method"})

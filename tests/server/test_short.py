"""Messages in short numbers: widened or taken as they are, the server makes the same of them as of doubles."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import siag
from siag.foundations.encodings import ENCODINGS, FLOAT32, FLOAT64, INT8, put
from siag.foundations.packing import pack_message
from siag.foundations.rng import SAMPLES, blank, key
from siag.server.guard import Refused, square_norm, widen, widen_packed
from siag.server.parameter_server import ParameterServer
from siag.server.short import TOGETHER, Outgoing

METHODS = [siag.methods.SIAG(resum=2), siag.methods.SGD(), siag.methods.Automatic()]  # taken as they are, or widened
D, N = 11, 3


def served(method, messages):
    step = method.default_step or siag.steps.Constant(0.1)
    server = ParameterServer(method, step, np.full(D, 0.1), N, messages=messages, guard=siag.server.Guard(jump=None))
    server.warm_up()
    for row in range(N):
        server.join(row, 0.0)
    return server


def short_message(kind, numbers, sample=0):
    """A message as it travels, and the numbers that the server is to take."""
    if not kind.packed:
        return numbers.astype(kind.dtype), numbers.astype(kind.dtype).astype(np.float64)
    content, found = np.zeros(kind.length(numbers.size), np.uint8), np.zeros(numbers.size)
    pack_message(kind.way, numbers, content, key(0, 0, SAMPLES), 0, sample, blank())
    widen_packed(kind.way, content, found, 0)
    return content, found


def turn(server, row, message, square, sample, whole):
    """A report: among others, if `whole`, or by itself."""
    table, notes, figures = np.tile(message, (N, 1)), np.full((N, 2), [server.version, sample]), np.zeros((N, 2))
    figures[:, 0] = square
    one = np.array([row], np.int32)
    if not (whole and server.push_many(one, table, notes, figures, 1.0, 1, 10**6)):
        server.push(row, server.version, message, sample, 1.0)


CASES = [(method, "float32") for method in METHODS] + [(METHODS[0], "int8"), (METHODS[1], "bfloat16")]


@pytest.mark.few(2)
@pytest.mark.parametrize(("method", "messages"), CASES, ids=str)
@settings(max_examples=20, deadline=None)
@given(rows=st.lists(st.integers(0, N - 1), min_size=1, max_size=12), seed=st.integers(0, 1000), whole=st.booleans())
def test_a_server_makes_the_same_of_short_numbers_as_of_doubles(method, messages, rows, seed, whole):
    short, double = served(method, messages), served(method, "float64")
    rng = np.random.default_rng(seed)
    for sample, row in enumerate(rows):
        message, numbers = short_message(short.encoding, rng.normal(size=short.message_size), sample)
        square = square_norm(numbers, short.gradient_size)
        turn(short, row, message, -1.0 if short.encoding.packed else square, sample, whole)
        turn(double, row, numbers, square, sample, whole)
        if rng.random() < 0.7:  # a worker reads
            assert np.array_equal(short.sent.at(short.version), short.shown.astype(np.float32))
    for name, array in short.arrays().items():
        assert np.array_equal(array, double.arrays()[name]), name
    assert np.array_equal(short.ledger, double.ledger)
    copy = pickle.loads(pickle.dumps(short))
    assert copy.encoding is ENCODINGS[messages]
    assert np.array_equal(copy.sent.at(copy.version), short.shown.astype(np.float32))


@pytest.mark.parametrize("messages", ["bfloat16", "int8"])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_packed_message_that_is_not_finite_is_refused_as_such(messages, odd):
    server = served(METHODS[1], messages)
    numbers = np.ones(D)
    numbers[3] = odd
    with pytest.raises(Refused, match="not finite"):
        server.push(0, 0, short_message(server.encoding, numbers)[0], 0, 0.0)
    assert server.reports == 0


def test_a_message_of_other_numbers_than_agreed_is_refused():
    server = served(METHODS[0], "float32")
    with pytest.raises(Refused, match="11 numbers of type float64: 11 of type float32 are expected"):
        server.push(0, 0, np.ones(D), 0, 0.0)
    server = served(METHODS[1], "int8")
    for wrong in (np.ones(D, np.float32), np.zeros(D, np.uint8), np.zeros(2 * D, np.uint8)):
        with pytest.raises(Refused, match=r"numbers of type .*: 15 of type uint8 are expected"):
            server.push(0, 0, wrong, 0, 0.0)


def test_long_messages_that_must_be_widened_are_taken_one_by_one():
    d = TOGETHER + 1
    server = ParameterServer(siag.methods.SGD(), siag.steps.Constant(0.1), np.zeros(d), 1, messages="float32")
    server.join(0, 0.0)
    given = np.zeros(1, np.int32), np.ones((1, d), np.float32), np.zeros((1, 2), np.int64), np.zeros((1, 2))
    assert server.push_many(*given, 0.0, 1, 10) == 0
    server.push(0, 0, given[1][0], 0, 0.0)
    assert server.w[-1] == -0.1


def test_w_is_rounded_once_for_each_version(monkeypatch):
    whole, calls = np.array([1 / 3, 1e300]), []
    sent = Outgoing(whole, FLOAT32)
    monkeypatch.setattr("siag.server.short.put", lambda *given: calls.append(put(*given)))
    first = sent.at(0)
    assert first.tolist() == [float(np.float32(1 / 3)), np.inf]
    whole[0] = 2.0
    assert sent.at(0) is first
    assert sent.at(1)[0] == 2.0
    assert len(calls) == 2
    assert Outgoing(whole, FLOAT64).at(5) is whole


@pytest.mark.parametrize(("method", "rounds"), [(METHODS[0], (1, 2)), (METHODS[1], (5, 6))])
def test_a_table_rounds_w_while_it_is_made_if_the_one_before_was_read(monkeypatch, method, rounds):
    """Others have it rounded after each step."""
    calls = []
    monkeypatch.setattr("siag.server.short.put", lambda *given: calls.append(put(*given)))
    server = served(method, "float32")
    rng = np.random.default_rng(0)
    for sample in range(4):
        before = server.sent.at(server.version).copy()
        server.push(0, server.version, rng.normal(size=D).astype(np.float32), sample, 0.0)
        assert np.array_equal(server.sent.at(server.version), server.shown.astype(np.float32))
        assert not np.array_equal(server.sent.at(server.version), before)
    assert len(calls) == rounds[0]
    server.push(0, server.version, np.ones(D, np.float32), 4, 0.0)
    if rounds[0] == 1:
        assert server.sent.ahead().size == 0  # nobody has read it
    server.push(0, server.version, np.ones(D, np.float32), 5, 0.0)
    assert np.array_equal(server.sent.at(server.version), server.shown.astype(np.float32))
    assert len(calls) == rounds[1]


NUMBERS = arrays(np.float32, st.integers(0, 300), elements=st.floats(-(2.0**40), 2.0**40, width=32))


@settings(max_examples=100, deadline=None)
@given(message=NUMBERS, share=st.floats(0, 1))
def test_widening_measures_on_the_way(message, share):
    d, wide = int(share * message.size), np.empty(message.size)
    square = widen(message, wide, d)
    assert np.array_equal(wide, message)
    assert square == square_norm(wide, d) == square_norm(message, d) == widen.plain(message, np.empty_like(wide), d)


@pytest.mark.parametrize("d", [0, 5, 8, 300, 700])
def test_unpacking_measures_on_the_way(d):
    message, numbers = short_message(INT8, np.random.default_rng(d).normal(size=700))
    wide = np.zeros(700)
    assert widen_packed(INT8.way, message, wide, d) == square_norm(numbers, d)
    assert np.array_equal(wide, numbers)
    with np.errstate(over="ignore"):
        assert widen_packed.plain(INT8.way, message, wide, d) == square_norm(numbers, d)


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=lambda encoding: encoding.name)
def test_messages_travel_as_they_lie_in_memory(encoding):
    array = np.array([1, 2, 77]).astype(encoding.dtype)
    raw = bytearray(encoding.write(array).tobytes())
    found = encoding.read(raw)
    assert len(raw) == 3 * encoding.dtype.itemsize
    assert encoding.length(encoding.count(encoding.length(300))) == encoding.length(300)
    assert found.dtype == encoding.dtype
    assert found.tolist() == array.tolist()
    assert np.shares_memory(found, np.frombuffer(raw, np.uint8))
    place = np.empty_like(array)
    encoding.copy(raw, place)
    assert place.tolist() == array.tolist()
    assert pickle.loads(pickle.dumps(encoding)) is encoding

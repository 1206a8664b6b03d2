"""Python functions that compiled code calls by an address."""

import gc

import numpy as np
import pytest

from siag.foundations.callback import FINE, INFINITE, RAISED, Call, Callback, call
from siag.foundations.dispatch import compiled
from siag.foundations.fingerprint import fingerprint
from siag.foundations.parallel import Cancelled

A, B = np.uint64(2**64 - 1), np.uint64(7)


@compiled
def ask(address, i, a, b, w, out):
    return call(address, 3, i, a, b, w, out)


class Asked:
    """Writes down what it is called with, and doubles w."""

    def __init__(self):
        self.seen = []

    def __call__(self, what, i, a, b, w, out):
        self.seen.append((what, i, a, b, w))
        out[:] = 2.0 * w
        return bool(np.isfinite(out).all())


@pytest.fixture
def asked():
    return Asked()


@pytest.fixture
def token():
    return np.zeros(1)


@pytest.mark.parametrize("way", [ask, ask.plain], ids=["compiled", "plain"])
def test_it_gets_numbers_and_arrays_and_says_whether_what_it_wrote_is_finite(asked, token, way):
    callback = Callback(asked, 2, token)
    w, out = np.array([1.0, -3.0]), np.empty(2)
    assert way(callback.address, 5, A, B, w, out) == FINE
    assert out.tolist() == [2.0, -6.0]
    *numbers, shown = asked.seen[0]
    assert numbers == [3, 5, 2**64 - 1, 7]
    assert not shown.flags.writeable
    w[0] = np.inf
    assert way(callback.address, 5, A, B, w, out) == INFINITE


def test_what_is_lent_is_shown_as_it_is_and_stays_alive_and_all_else_is_copied(asked, token):
    callback = Callback(asked, 2, token)
    rows, other, out = np.arange(6.0).reshape(3, 2), np.ones(2), np.empty(2)
    callback.prepare([(np.zeros(1, int), (rows,))], lambda: False)
    for w in (rows[1], rows[1], other):
        ask(callback.address, 0, A, B, w, out)
    first, again, copy = (seen[-1] for seen in asked.seen)
    assert np.shares_memory(first, rows)
    assert first is again
    assert not np.shares_memory(copy, other)
    del rows, callback
    gc.collect()
    assert first.tolist() == [2.0, 3.0]


def test_an_error_is_kept_not_raised_and_plain_python_raises_it(token):
    def fail(*_):
        raise KeyError("x")

    callback = Callback(fail, 1, token)
    assert ask(callback.address, 0, A, B, np.zeros(1), np.zeros(1)) == RAISED
    assert isinstance(callback.error, KeyError)
    with pytest.raises(KeyError):
        ask.plain(callback.address, 0, A, B, np.zeros(1), np.zeros(1))


def test_once_the_loop_is_to_end_nothing_is_called(asked, token):
    callback = Callback(asked, 1, token)
    callback.prepare([], lambda: True)
    assert ask(callback.address, 0, A, B, np.zeros(1), np.zeros(1)) == RAISED
    assert isinstance(callback.error, Cancelled)
    assert asked.seen == []


def test_another_machine_code_for_the_call_is_another_fingerprint():
    one, same, other = (Call(call.plain) for _ in range(3))
    other.lowered = lambda typing, *args: None

    def with_global(value):
        source = {"call": value}
        exec("def function(x):\n    return call(x)\n", source)
        return fingerprint(source["function"], ())

    assert with_global(one) == with_global(same) != with_global(other)

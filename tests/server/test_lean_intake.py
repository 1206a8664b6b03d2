"""The machine code that takes reports counts no references and looks at no types: each would double its time."""

import numpy as np
import pytest

from siag.methods import SIAG, Automatic, Weighted
from siag.server.guard import Guard
from siag.server.intake import admit, admit_all, warm_up, warm_up_many
from siag.server.ledger import BINS, blank
from siag.server.method_state import GO, NOWHERE
from siag.server.parameter_server import ParameterServer
from siag.steps import Constant

D, N = 6, 3


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("method", [SIAG(), Automatic(), Weighted(SIAG(), "samples")], ids=repr)
def test_reports_are_taken_by_lean_machine_code(method, kind):
    state, book = method.init(np.zeros(D), N), (blank(N), np.zeros(BINS, np.int64), Guard().bounds)
    message = np.zeros(method.message(D, N), kind)
    one = 0, message, 0, 0, 0.0, 0.0, 0, 0.0, GO, 0.0, 1, NOWHERE
    rows, notes, figures = np.zeros(1, np.int32), np.zeros((N, 3), np.int64), np.zeros((N, 2))
    rows.setflags(write=False)
    many = rows, np.stack([message] * N), notes, figures, 0, 0.0, 0, 1, np.zeros(5), 0, NOWHERE
    for warmed, function, what in ((warm_up, admit, one), (warm_up_many, admit_all, many)):
        code = warmed(method, kind, state, *book)
        made = function.settled(state, *book, *what)
        assert made.targetoptions["_nrt"] is False
        assert code in [known.entry_point for known in made.overloads.values()]


def strided(numbers):
    return np.repeat(numbers, 2)[::2]


def unaligned(numbers):
    return np.frombuffer(b"\0" + numbers.tobytes(), np.uint8)[1:].view(np.float64)


@pytest.mark.parametrize("laid_out", [strided, unaligned, np.flip], ids=lambda function: function.__name__)
def test_a_message_may_lie_anywhere_in_memory(laid_out):
    numbers = np.arange(1.0, D + 1.0)
    message = laid_out(numbers)
    assert not (message.flags.c_contiguous and message.flags.aligned)
    server = ParameterServer(SIAG(), Constant(0.5), np.zeros(D), 1)
    server.warm_up()
    row = server.join(0, now=0.0).row
    server.push(row, stamp=0, message=message, sample=0, now=0.0)
    np.testing.assert_array_equal(server.w, -0.5 * np.array(message))

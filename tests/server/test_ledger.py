"""The ledger: what it keeps of the losses that workers tell, and which numbers a norm is of."""

import math

import numpy as np
import pytest
from servers import D, make

import siag
from siag.server.guard import square_norm
from siag.server.ledger import FIRST_LOSS, FIRST_NORM, LOSS, LOSSES, NORM, REPORTS, START_LOSS, WINDOW

ENTRIES = [LOSSES, LOSS, FIRST_LOSS]


def told(losses):
    """A server whose worker 0 has told these losses."""
    server = make()
    for k, loss in enumerate(losses):
        server.push(0, server.version, np.ones(D), k, 0.1 * k, None, loss)
    return server


def test_the_loss_is_the_mean_of_the_first_reports_and_then_follows():
    losses = np.linspace(5.0, 1.0, 60).tolist()
    assert told(losses).ledger[0, ENTRIES].tolist() == pytest.approx([60, 3.0, 3.0])
    level = [4.0] * WINDOW + [1.0] * (5 * WINDOW)
    count, loss, first = told(level).ledger[0, ENTRIES].tolist()
    assert (count, first) == (6 * WINDOW, 4.0)  # that of the beginning is kept
    assert loss == pytest.approx(1.0 + 3.0 * (1 - 1 / WINDOW) ** (5 * WINDOW))


def test_how_it_began_is_kept():
    server = make()
    for k, (length, loss) in enumerate([(2.0, math.nan), (3.0, 7.0), (50.0, 9.0)]):
        server.push(0, server.version, np.full(D, length / math.sqrt(D)), k, 0.1 * k, None, loss)
    assert server.ledger[0, [FIRST_NORM, START_LOSS]].tolist() == pytest.approx([3.0, 7.0])


def test_a_loss_that_was_not_told_or_is_no_number_is_left_out():
    line = told([2.0, math.nan, math.inf, -math.inf, 4.0]).ledger[0]
    assert line[ENTRIES].tolist() == [2.0, 3.0, 3.0]
    assert line[REPORTS] == 5
    silent = make()
    silent.push(0, 0, np.ones(D), 0, 0.0)
    assert silent.ledger[0, ENTRIES].tolist() == [0.0, 0.0, 0.0]


def test_a_loss_changes_nothing_but_the_ledger():
    one, other = told([1.0, 2.0, 3.0]), told([math.nan] * 3)
    for name, array in one.arrays().items():
        assert np.array_equal(array, other.arrays()[name])


def test_the_last_norm_is_kept():
    server = make()
    for k, size in enumerate((3.0, 1.0)):
        server.push(0, server.version, np.full(D, size), k, 0.1 * k)
    assert server.ledger[0, NORM] == math.sqrt(D)


def test_a_norm_is_of_the_gradient_alone_and_infinite_if_any_number_is():
    message = np.array([3.0, 4.0, 1e9, -7.0])
    assert square_norm(message, 2) == 25.0
    assert square_norm(message, 4) == pytest.approx(np.square(message).sum())
    for wrong in (math.nan, math.inf, -math.inf):
        for place in range(4):
            spoilt = message.copy()
            spoilt[place] = wrong
            assert not square_norm(spoilt, 2) < math.inf


def test_numbers_beside_the_gradient_do_not_make_a_report_large():
    server = make(siag.methods.Automatic())
    assert (server.gradient_size, server.message_size) == (D, D + 2)
    message = np.append(np.ones(D), [1e8, 1e8])
    server.push(0, 0, message, 0, 0.0)
    assert server.ledger[0, NORM] == math.sqrt(D)

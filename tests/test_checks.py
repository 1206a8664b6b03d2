"""The conformance suite: every method of the package passes it, and each of its checks catches who fails it."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag import checks
from siag.checks import CHECKS, CheckFailed, conform
from siag.methods import (
    IAG,
    SAG,
    SGD,
    SIAG,
    Averaged,
    Method,
    Table,
    advance,
    compute,
    fade,
    ready,
    receive,
    table,
)
from siag.problems import sample

BUILT_IN = [SIAG(), SIAG(resum=0), SIAG(resum=1), SIAG(wait=0.5), IAG(), SAG(resum=3), SGD(), SGD(normalization="sum")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("method", BUILT_IN, ids=repr)
def test_every_method_passes_every_check(method, check):
    check(method)


@pytest.mark.thorough
@pytest.mark.parametrize("method", [SIAG(average=2), SIAG(average=5, wait=0.5, rows="float32")], ids=repr)
def test_rows_that_average_pass_what_applies_to_them(method):
    # The mean of a worker's last gradients is not its gradient.
    conform(method, skip=["all_active_is_gradient_descent"])


def test_waiting_for_all_passes_what_applies_to_it():
    conform(SIAG(wait=1.0))


# One small server with a switch for each way to go wrong, so that all of them are compiled at once.
FINE, RESTLESS, FRAGILE, HASTY, UNFAIR, DECAYING, SHORT, OVERFLOWING = range(8)


class Flawed(NamedTuple):
    w: np.ndarray  # (d,)
    total: np.ndarray  # (d,)
    count: np.ndarray  # (2,) reports of this iteration, reports of all
    flaw: int


@receive.when(Flawed)
def take(state, i, message, age):
    state.count[0] += 1
    state.count[1] += 1
    for j in range(message.size):
        if state.flaw == HASTY:
            state.w[j] -= 1e-3 * message[j]
        elif state.flaw == UNFAIR:
            state.total[j] += message[j] * (1 + i) / 2.5
        else:
            state.total[j] += message[j]


@advance.when(Flawed)
def go(state, eta):
    if state.flaw == RESTLESS:
        state.w[0] += eta
    for j in range(state.w.size):
        if state.flaw == DECAYING:
            state.w[j] *= 1.0 - 0.1 * eta
        if state.flaw == OVERFLOWING and (j << 62) < 0:  # a whole number in Python is never negative here
            state.w[j] += eta
        if state.count[0] > 0:
            state.w[j] -= eta / (state.count[0] + (1 if state.flaw == SHORT else 0)) * state.total[j]
        elif state.flaw == FRAGILE and state.count[1] > 0:
            state.w[j] = np.nan  # the mean of no reports
        state.total[j] = 0.0
    state.count[0] = 0


@dataclasses.dataclass(frozen=True)
class Suspect(Method):
    """A method with one flaw."""

    flaw: int = FINE

    def __post_init__(self):
        if not isinstance(self.flaw, int):
            raise siag.BadInput("flaw", self.flaw, "a number")

    def init(self, w0, n):
        return Flawed(w0.copy(), np.zeros(w0.size), np.zeros(2, np.int64), self.flaw)


def test_the_suspect_without_a_flaw_passes():
    conform(Suspect())


@pytest.mark.parametrize(
    ("flaw", "check", "why"),
    [
        (RESTLESS, checks.silence_is_safe, "w moved although nobody has ever reported"),
        (FRAGILE, checks.silence_is_safe, "silent iterations led to NaN or infinity"),
        (HASTY, checks.workers_only_read, "receive wrote to w, or what else workers read; only advance may"),
        (UNFAIR, checks.relabelling_changes_nothing, "relabelled workers lead to"),
        (DECAYING, checks.shifting_shifts, "the shifted problem leads to"),
        (SHORT, checks.all_active_is_gradient_descent, "gradient descent"),
        (OVERFLOWING, checks.compiled_is_plain, "compiled code leads to .* plain Python to"),
    ],
)
def test_each_flaw_is_found_by_its_check(flaw, check, why):
    with pytest.raises(CheckFailed, match=rf"^Suspect\(flaw={flaw}\): .*{why}") as caught:
        check(Suspect(flaw))
    assert isinstance(caught.value, siag.SiagError)
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(CheckFailed):
        conform(Suspect(flaw))


# The same for what is kept of workers.
SOUND, UNFADING, WIPING, LEAKING, EAGER, IMPATIENT = range(6)


class Kept(NamedTuple):
    w: np.ndarray  # (d,) the table's own
    table: Table
    flaw: int


@receive.when(Kept)
def keep(state, i, message, age):
    receive(state.table, i, message, age)


@advance.when(Kept)
def follow(state, eta):
    n = state.table.rows.shape[0]
    if state.flaw == IMPATIENT:
        for j in range(state.w.size):
            state.w[j] -= eta / n * state.table.total[j]
    else:
        advance(state.table, eta)


class Careful(NamedTuple):
    """The same, with nothing said about departures and readiness."""

    w: np.ndarray
    table: Table
    flaw: int


receive.when(Careful)(keep)
advance.when(Careful)(follow)


@fade.when(Kept)
def fade_wrongly(state, i, factor):
    if state.flaw == WIPING and factor == 0.0:
        state.table.rows[:] = 0.0
        state.table.total[:] = 0.0
    elif state.flaw == LEAKING:
        fade(state.table, i, 0.5 * factor)
    elif state.flaw != UNFADING:
        fade(state.table, i, factor)


@ready.when(Kept)
def ready_or_not(state):
    return state.flaw == EAGER or ready(state.table)


@dataclasses.dataclass(frozen=True)
class Keeper(Method):
    """A method that holds a table, with one flaw, and its own words on departures and readiness or none."""

    flaw: int = SOUND
    wait: float = 0.0
    own: bool = True

    def init(self, w0, n):
        rows = table(w0, n, 64, self.wait)
        return (Kept if self.own else Careful)(rows.w, rows, self.flaw)


@pytest.mark.parametrize("own", [True, False], ids=["said", "left to the table"])
@pytest.mark.parametrize("check", [checks.departures_are_obeyed, checks.readiness_is_true])
def test_a_method_that_holds_a_table_passes_whether_it_speaks_for_it_or_not(check, own):
    check(Keeper(own=own))


@pytest.mark.parametrize(
    ("flaw", "check", "why"),
    [
        (UNFADING, checks.departures_are_obeyed, "worker 1 is gone, but what it sent still counts"),
        (WIPING, checks.departures_are_obeyed, "with worker 1 gone, what worker 2 sent no longer counts"),
        (LEAKING, checks.departures_are_obeyed, r"fade\(state, i, 1.0\) changed something"),
        (EAGER, checks.readiness_is_true, "ready says that advance will step before all workers have reported"),
        (IMPATIENT, checks.readiness_is_true, "ready says that advance will not step, but w moved"),
    ],
)
def test_each_flaw_in_what_is_kept_of_workers_is_found_by_its_check(flaw, check, why):
    with pytest.raises(CheckFailed, match=rf"^Keeper\(flaw={flaw}, .*: {why}"):
        check(Keeper(flaw))


def test_a_quorum_that_is_not_waited_for_is_found_in_a_method_around_it_too():
    with pytest.raises(CheckFailed, match="ready says that advance will step before all workers have reported"):
        checks.readiness_is_true(Averaged(Keeper(EAGER)))


class Meddling(NamedTuple):
    """A worker that scribbles on the w it reads."""


@compute.when(Meddling)
def meddle(memory, oracle, rng, i, w, out):
    sample(oracle, rng, i, w, out)
    w[0] = 0.0
    return True


@dataclasses.dataclass(frozen=True)
class Scribbler(Suspect):
    def recruit(self, w0, n):
        return Meddling()


def test_a_worker_that_writes_to_w_is_found():
    with pytest.raises(CheckFailed, match="compute wrote to w"):
        checks.workers_only_read(Scribbler())


@dataclasses.dataclass(frozen=True)
class Hoarder(SIAG):
    """Goes on with the table of the run before."""

    kept: dict = dataclasses.field(default_factory=dict, init=False, compare=False)

    def init(self, w0, n):
        fresh = table(w0, n, 64, 0.0)
        kept = self.kept.setdefault("table", fresh)
        return kept._replace(w=fresh.w)


def test_a_method_that_remembers_earlier_runs_is_found():
    with pytest.raises(CheckFailed, match="two runs with one seed differ: it keeps state between runs"):
        checks.same_seed_same_run(Hoarder())


class WithText(NamedTuple):
    w: np.ndarray
    name: str


class WithoutW(NamedTuple):
    x: np.ndarray


class Alien(SIAG):
    """A method whose memory is whatever it is told."""

    def __init__(self, make):
        super().__init__()
        object.__setattr__(self, "make", make)

    def init(self, w0, n):
        return self.make(w0)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda w0: [w0.copy()], "is not a NamedTuple"),
        (lambda w0: WithText(w0.copy(), "text"), "name = 'text' is neither an array nor a number"),
        (lambda w0: WithoutW(w0.copy()), "field w equals w0"),
        (lambda w0: table(w0 + 1.0, 4, 64, 0.0), "field w equals w0"),
        (lambda w0: table(w0, 4, 64, 0.0)._replace(w=w0), "init must copy w0"),
    ],
)
def test_a_memory_that_is_not_plain_is_found(make, why):
    with pytest.raises(CheckFailed, match=why):
        checks.memory_is_plain(Alien(make))


@dataclasses.dataclass(frozen=True)
class Credulous(SIAG):
    momentum: float = 0.9


def test_a_hyper_parameter_that_takes_anything_is_found():
    with pytest.raises(CheckFailed, match="accepts momentum = nan"):
        checks.bad_parameters_are_refused(Credulous())


@dataclasses.dataclass(frozen=True)
class Brusque(SIAG):
    momentum: float = 0.9

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.momentum, float) or self.momentum != self.momentum:
            raise TypeError("no")


def test_a_hyper_parameter_refused_with_another_error_is_found():
    with pytest.raises(CheckFailed, match=r"leads to TypeError\('no'\), not a ValueError"):
        checks.bad_parameters_are_refused(Brusque())


def test_a_method_that_is_no_dataclass_is_found():
    class Loose(Method):
        def init(self, w0, n):
            return table(w0, n, 64, 0.0)

    with pytest.raises(CheckFailed, match="is not a dataclass of its hyper-parameters"):
        checks.bad_parameters_are_refused(Loose())


def test_a_check_can_be_skipped_by_name():
    conform(Suspect(DECAYING), skip=["shifting_shifts", "all_active_is_gradient_descent", "silence_is_safe"])


def test_an_unknown_check_to_skip_is_refused_with_the_known_ones():
    with pytest.raises(siag.SiagError, match=r"no such checks: \['speed'\]; there are \[.*'shifting_shifts'"):
        conform(SIAG(), skip=["speed"])


class Careless(NamedTuple):
    """A worker that counts its messages, and writes all but the last number of each."""

    count: np.ndarray


@compute.when(Careless)
def omit(memory, oracle, rng, i, w, out):
    memory.count[i] += 1
    out[:-1] = 0.0
    return True


@dataclasses.dataclass(frozen=True)
class Forgetless(Suspect):
    def recruit(self, w0, n):
        return Careless(np.zeros(n, np.int64))


def test_a_message_with_a_hole_is_found():
    with pytest.raises(CheckFailed, match="not all of it was written"):
        checks.messages_are_complete(Forgetless())


def test_a_worker_that_does_not_forget_is_found():
    with pytest.raises(CheckFailed, match="a worker that forgot has count = 3"):
        checks.forgetting_is_beginning_anew(Forgetless())

"""sIAG with steps nobody has to choose: they follow from gradients, ages and curvatures that workers report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled, part
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Booleans, Floats, Integers, Record, Rng
from siag.methods.method import (
    Streaming,
    advance,
    answer,
    compute,
    cost,
    fade,
    forget,
    ready,
    receive,
    travelled,
    weigh,
)
from siag.methods.table import SINCE, Aggregated, Table, sum_anew, table, total_weight
from siag.problems import curvature, sample
from siag.problems.points import along
from siag.steps import Constant, Step, Switched

GROWTH = 1.5  # of r over S/‖w − w_0‖, which bounds the distance to the optimum from below
FIRST = 0.3  # of the length of a mean gradient over a curvature, which does too, on quadratics
FEW = 6  # curvatures that must have been measured before they set r: that of one sample may be as small as 0
TIMES = 2.0  # the factor of r²/√V
LEAST = 0.5  # over k: the least share of the newest iterate in the mean
SCALE = Constant(1.0)  # the step it is given by default: its own, as they are

# The entries of `sums`: r, S, V, the sum of the weights of iterates; over the workers heard Σ c_i, Σ c_i a_i,
# Σ c_i a_i² and Σ c_i h_i; Σ c_i of those that have sent an h_i; Σ η; Σ c_i h_i and Σ c_i of all h's that ever came.
# Of `counts`: t, whether r is to be set by the h's, k, h's that ever came.
REACH, PROGRESS, SQUARES, WEIGHTS, HEARD, AGES, AGES2, BENT, KNOWN, LENGTHS, EVER, ALL = range(12)
NOW, NEWS, STEPS, CAME = range(4)


@dataclass(frozen=True, kw_only=True)
class Automatic(Aggregated):
    r"""sIAG whose steps need no constant of the problem, no horizon and no bound on ages.

        w^{t+1} = w^t − η_t ḡ,    ḡ = (1/n) Σ_i g_i,    g_i = ∇f_i(v_i; ξ_i) the latest gradient of worker i

    With its gradient a worker sends b_i = ⟨g_i, v_i⟩ and, measured anew with its reports 2, 3, 5, 9, 17, …, the
    curvature of a sample between the points of its last two reports,

        h_i = |⟨∇f_i(v; ξ) − ∇f_i(v′; ξ), v − v′⟩| / ‖v − v′‖²,

    which takes one gradient more. Both gradients are of one sample, so however short the way is, h_i has no noise.
    The server has heard m workers; a is the root mean square age of their rows, G = ‖Σ g_i‖/m, L the mean of the h_i:

        r   ← max(r, 1.5 S/‖w − w_0‖)
        V   ← V + r² G² (1 + a)
        η   = min(2 r²/√(V + r² G² (1 + a)²), 1/(L (1 + a))),  before there is an h_i 2 r²/√V
        S   ← S + η (⟨ḡ, w_0⟩ − (1/n) Σ b_i)

    r starts at `start` (1 + ‖w_0‖). S/‖w − w_0‖ bounds the distance to the optimum from below, up to what stale rows
    and unlike workers make of it, so r grows to that distance and stops. There is no proof with stale rows; `make
    bench` shows how far this is from the best `Harmonic`. The result is the mean of the w^{t+1}, the k-th step
    counting k r²/G: later ones more, those along long gradients less. It begins anew when a worker is first heard, and
    its newest part is at least 1/(2k), so that it never freezes where gradients vanished for a while. Workers read w.

    Curvatures set r, too, at once near the distance to go: when a worker's first h_i comes, or the sixth of all, and
    half of the workers have sent one,

        r   ← max(r, 0.3 min(‖ḡ‖, ‖w − w_0‖/H)/max(L, M)).

    r never shrinks, but of single samples ḡ is mostly noise, and an h_i may be nearly 0. So M is the mean of all h_i
    that ever came, a worker's being new if it differs from its last, and ‖w − w_0‖/H, H = Σ η so far, the length of the
    mean of all directions. Both have less noise than L and ḡ.

    A stream that drifts is not followed: steps shrink for good. Use `SIAG` with `Constant` there.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`; moving from the first report on is what it was made for.
        rows: as in `SIAG`.
        start: what r starts from, far below the distance to go; it hardly matters.

    Example:
        >>> Automatic()
        Automatic(resum=64, wait=0.0, rows='float64', start=1e-06)

    References:
        A. Defazio, K. Mishchenko, "Learning-rate-free learning by D-adaptation", ICML 2023: the bound S/‖w − w_0‖.
        A. Khaled, K. Mishchenko, C. Jin, "DoWG unleashed: an efficient universal parameter-free gradient descent
        method", NeurIPS 2023: squares weighted by r².
        B. McMahan, M. Streeter, "Delay-tolerant algorithms for asynchronous distributed online learning", NeurIPS
        2014: squares counted by age.
    """

    NO_PROX = "it measures how far w has come along gradients alone; use Prox(SIAG()) and a step"
    NO_CLIP = "its curvatures would not fit clipped gradients; use Clipped(SIAG()) and a step"
    NO_MOMENTUM = "it chooses its own steps by how far w has come; use Momentum(SIAG()) and a step"

    default_step = SCALE
    relayed = True
    takes_short = True

    start: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "start", check.real("start", self.start, above=0))

    def message(self, d: int, n: int) -> int:
        """The gradient, ⟨g, v⟩ and the curvature."""
        return d + 2

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table, whose rows end with ⟨g, v⟩."""
        rows = table(w0, n, self.resum, self.wait, self.rows, w0.size + 1)
        sums, counts = np.zeros(12), np.zeros(4, np.int64)
        sums[REACH] = self.start * (1.0 + float(np.linalg.norm(w0)))
        stamps, bends, met = np.zeros(n, np.int64), np.zeros(n), np.zeros(n, np.bool_)
        return Steered(rows.w, rows, w0.copy(), w0.copy(), stamps, bends, met, sums, counts)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that have reported nothing yet."""
        zeros, due = np.zeros(n, np.int64), np.full(n, 2)
        points, scratch = np.zeros((n, w0.size)), np.zeros(w0.size)
        return Measuring(Streaming(), points, zeros, due, np.zeros(n), scratch, np.ones(1, np.int64))

    def pair(self, step: Step) -> None:
        """Refuse sizes of the user's own, but for a factor, which a run that goes on may change."""
        if isinstance(step, Switched):
            self.pair(step.before)
            self.pair(step.after)
        elif not isinstance(step, Constant):
            raise Unsuitable(
                f"Automatic chooses its steps itself and cannot take {step!r}; leave the step out, "
                "or use SIAG with it; Constant(c) makes every step c times as long"
            )

    def tuned(self, eta: float, gamma: float) -> tuple[Automatic, Step]:
        """As it is: there is nothing to search for."""
        return self, SCALE


class Measuring(NamedTuple):
    """What workers remember to measure curvatures."""

    source: Streaming
    points: Floats  # (n, d) where the last report was computed, kept if the next is to measure
    reports: Integers  # (n,) how many each has sent
    due: Integers  # (n,) from which of them on to measure next
    bends: Floats  # (n,) the curvature measured last, 0 before
    scratch: Floats  # (d,)
    work: Integers  # (1,) gradients the last message took


@compiled
def apart(x: Floats, y: Floats) -> float:
    """‖x − y‖²."""
    total = 0.0
    for j in range(x.size):
        total += (x[j] - y[j]) * (x[j] - y[j])
    return total


@compute.when(Measuring)
def send_curvature_too(memory: Measuring, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """[g, ⟨g, w⟩, h], h being measured with reports 2, 3, 5, 9, …, or at the next that read another w."""
    d = w.size
    gradient, point = out[:d], memory.points[i]
    before = rng[0]
    sample(oracle, rng, i, w, gradient)
    memory.reports[i] += 1
    memory.work[0] = 1
    number = memory.reports[i]
    square = apart(w, point) if number >= memory.due[i] else 0.0
    if square > 0.0:
        rng[0] = before
        bend = abs(curvature(oracle, rng, i, w, point, gradient, memory.scratch)) / square
        memory.work[0] = 2
        memory.due[i] = 2 * number - 1
        if bend < np.inf:
            memory.bends[i] = bend
    if number + 1 >= memory.due[i]:
        for j in range(d):  # not as slices: NumPy's way to do that allocates, and machine code would count references
            point[j] = w[j]
    out[d] = along(gradient, w)
    out[d + 1] = memory.bends[i]
    return True


@cost.when(Measuring)
def gradients_taken(memory: Measuring) -> int:
    """Two, if a curvature was measured."""
    return int(memory.work[0])


@forget.when(Measuring)
def measure_anew(memory: Measuring, i: int) -> None:
    """Nothing has been reported."""
    memory.points[i] = 0.0
    memory.reports[i] = 0
    memory.due[i] = 2
    memory.bends[i] = 0.0


class Steered(NamedTuple):
    """A table, and what its steps follow from."""

    w: Floats  # (d,) the table's own
    table: Table  # of rows (d + 1,): g_i, ⟨g_i, v_i⟩
    origin: Floats  # (d,) w_0
    mean: Floats  # (d,) the result
    stamps: Integers  # (n,) the iteration whose w worker i's row was computed from
    bends: Floats  # (n,) c_i h_i, 0 where none has come
    met: Booleans  # (n,) whether worker i has ever sent one
    sums: Floats  # (12,) see above
    counts: Integers  # (4,) see above


@part
def leave_out(state: Steered, i: int) -> None:
    """Row i is no longer among those heard."""
    count_age(state, -state.table.weights[i], float(state.counts[NOW] - state.stamps[i]))


@part
def count_age(state: Steered, weight: float, age: float) -> None:
    """A row of this age counts for so much more among those heard."""
    state.sums[HEARD] += weight
    state.sums[AGES] += weight * age
    state.sums[AGES2] += weight * age * age


@part
def sum_ages_anew(state: Steered) -> None:
    """Sums over the workers heard, of which rounding errors are left when a large one has gone."""
    sums = state.sums
    sums[HEARD] = sums[AGES] = sums[AGES2] = sums[BENT] = sums[KNOWN] = 0.0
    for i in range(state.stamps.size):
        if state.table.seen[i] and not state.table.gone[i]:
            count_age(state, state.table.weights[i], float(state.counts[NOW] - state.stamps[i]))
            state.sums[BENT] += state.bends[i]
            state.sums[KNOWN] += state.table.weights[i] if state.bends[i] > 0.0 else 0.0


@part
def set_bend(state: Steered, i: int, bend: float) -> None:
    """c_i h_i ← bend, 0 meaning that there is none."""
    state.sums[BENT] += bend - state.bends[i]
    state.sums[KNOWN] += state.table.weights[i] * (int(bend > 0.0) - int(state.bends[i] > 0.0))
    state.bends[i] = bend


@receive.when(Steered)
def take_curvature_too(state: Steered, i: int, message: Floats, age: int) -> None:
    """g_i, b_i, h_i ← message; the sums of ages with them."""
    rows, d = state.table, state.w.size
    if rows.seen[i] and not rows.gone[i]:
        leave_out(state, i)
    if not rows.seen[i]:
        state.sums[WEIGHTS] = 0.0
    count_age(state, rows.weights[i], float(age))
    state.stamps[i] = state.counts[NOW] - age
    receive(rows, i, message[: d + 1], age)
    if message[d + 1] > 0.0:
        if message[d + 1] != state.bends[i]:
            state.sums[EVER] += message[d + 1]
            state.sums[ALL] += rows.weights[i]
            state.counts[CAME] += 1
            if not state.met[i] or state.counts[CAME] == FEW:
                state.counts[NEWS] = 1
            state.met[i] = True
        set_bend(state, i, message[d + 1])


@part
def size_of_step(state: Steered, factor: float, length: float, along: float, moved: float) -> float:
    """η times a factor, given ‖Σ g_i‖, ⟨Σ g_i, w_0⟩ and ‖w − w_0‖; r, V, S and the sum of weights move on."""
    sums, counts = state.sums, state.counts
    heard, left = sums[HEARD], total_weight(state.table)
    norm, age = length / heard, math.sqrt(max(sums[AGES2], 0.0) / heard)
    bend = sums[BENT] / sums[KNOWN] if sums[KNOWN] > 0.0 else 0.0
    if moved > 0.0:
        sums[REACH] = max(sums[REACH], GROWTH * sums[PROGRESS] / moved)
    if counts[NEWS] == 1 and 2.0 * sums[KNOWN] >= left and counts[CAME] >= FEW and bend > 0.0 and moved > 0.0:
        slope = min(length / left, moved / sums[LENGTHS])
        sums[REACH] = max(sums[REACH], FIRST * slope / max(bend, sums[EVER] / sums[ALL]))
    counts[NEWS] = 0
    counts[STEPS] += 1
    reach = sums[REACH]
    square = reach * norm * reach * norm
    sums[SQUARES] += square * (1.0 + age)
    if bend > 0.0:
        eta = TIMES * reach * reach / math.sqrt(sums[SQUARES] + square * (1.0 + age) * (1.0 + age))
        eta = min(eta, 1.0 / (bend * (1.0 + age)))
    else:
        eta = TIMES * reach * reach / math.sqrt(sums[SQUARES])
    eta *= factor
    sums[LENGTHS] += eta
    sums[PROGRESS] += eta * (along - state.table.total[state.w.size]) / left
    sums[WEIGHTS] += weight_of_step(state, norm)
    return float(eta)


@part
def weight_of_step(state: Steered, norm: float) -> float:
    """k r²/G, by which the iterate counts in the mean."""
    return float(state.counts[STEPS] * state.sums[REACH] * state.sums[REACH] / norm)


@advance.when(Steered)
def step_by_itself(state: Steered, eta: float) -> None:
    """A step of the size found, times η; every row is one iteration older after it."""
    w, rows, origin, mean, counts = state.w, state.table, state.origin, state.mean, state.counts
    sum_anew(rows)
    if rows.tally[SINCE] == 0:
        sum_ages_anew(state)
    if ready(rows) and state.sums[HEARD] > 0.0:
        length2 = along = moved2 = 0.0
        for j in range(w.size):
            sum_j, way = rows.total[j], w[j] - origin[j]
            length2 += sum_j * sum_j
            along += sum_j * origin[j]
            moved2 += way * way
        if length2 > 0.0:
            length = math.sqrt(length2)
            size = size_of_step(state, eta, length, along, math.sqrt(moved2)) / total_weight(rows)
            weight = weight_of_step(state, length / state.sums[HEARD])
            share = max(weight / state.sums[WEIGHTS], LEAST / counts[STEPS])
            for j in range(w.size):
                w[j] -= size * rows.total[j]
                mean[j] += share * (w[j] - mean[j])
    counts[NOW] += 1
    state.sums[AGES2] += 2.0 * state.sums[AGES] + state.sums[HEARD]
    state.sums[AGES] += state.sums[HEARD]


@fade.when(Steered)
def fade_with_age(state: Steered, i: int, factor: float) -> None:
    """As the table does; a row of which nothing is left has no age and no curvature either."""
    rows = state.table
    if factor == 0.0 and not rows.gone[i]:
        if rows.seen[i]:
            leave_out(state, i)
        set_bend(state, i, 0.0)
    fade(rows, i, factor)


@weigh.when(Steered)
def weigh_with_age(state: Steered, i: int, weight: float) -> None:
    """As the table does; a row that is there counts for so much in the sums of ages and curvatures, too."""
    rows = state.table
    more = weight - rows.weights[i]
    if rows.seen[i] and not rows.gone[i]:
        count_age(state, more, float(state.counts[NOW] - state.stamps[i]))
        state.sums[KNOWN] += more if state.bends[i] > 0.0 else 0.0
    weigh(rows, i, weight)


@travelled.when(Steered)
def sum_of_steps(state: Steered) -> float:
    """H, the sum of all η."""
    return float(state.sums[LENGTHS])


@answer.when(Steered)
def weighted_mean(state: Steered) -> Floats:
    """The mean of the iterates."""
    return state.mean

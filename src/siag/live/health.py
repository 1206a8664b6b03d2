"""What seems to be wrong with a run, seen from its numbers alone; each warning has its remedy. No I/O, no clock."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Record
from siag.live.first_loss import FirstLoss
from siag.live.scales import SCALED, Doubt, along_one_line
from siag.live.told import ENDLESS, KNOWN, Told
from siag.methods import Automatic, Method
from siag.methods.around import Around
from siag.server.ledger import EARLY, FIRST_NORM, LARGEST, LOSSES, MEAN_NORM, NORM, REPORTS, STAMP, WINDOW, ZEROS
from siag.server.members import Member
from siag.server.parameter_server import ParameterServer
from siag.server.status import State

PATIENCE = 60.0  # seconds for a worker to report for the first time
BUSY, RARE = 100, 10_000  # reports of the others, on average, before one is missed that never came, or never reported
SIGNIFICANT, NOTABLE = 5.0, 0.1  # standard errors, and which part of it, that a loss is above where it was …
CROWD, LARGE = 8, 0.5  # … and, for at least CROWD workers, above that of their very first samples
ENOUGH = 1.0 + 1e-9  # times 1/CROWD that Σ p_i² is below if so many count, rounding or not
LIKELY, TENFOLD = 2.0, 9.0  # the same where it has grown so far that its own spread is no measure of chance
BLOCK, GROWTH = 4, 2.0  # moves whose longest is taken, as many such longest, and by how much each must grow
SAMPLE, UNEVEN = 16, 1e3  # rows that are looked at, and how much larger one parameter's derivatives may be than most
PARAMETERS = 10_000  # that are looked at, at most: a look must not take the time of training
LATER = 4  # times as many iterations, whose step is judged
LOOKS = 3  # before derivatives are judged, and in a row before gradients are
SEVERAL, OFTEN = 3, 10  # reports of each worker, on average, before gradients are judged, and before more is
SLOW = 5  # rounds of all that a gradient must be old to be called so, if it is not its worker's first
LONG = 1000  # reports, at least, of a run that is said to lead nowhere
SHORTER, STRAIGHT = 1 / 3, 0.9  # times as long as the first, on average; the cosine between any two of the last moves
FURTHER, SOARING = 1.4, 20.0  # times as long as the one before, and as the first of them: moves of w that runs away
AWAY = 30.0  # times as long as the first ones that gradients are where w goes away …
FAR = 1e-3  # … and times 1 + ‖w_0‖ that it must be off
STEADY = 0.7  # times as long as the one before a move must be, to lead anywhere
ON = 1.3  # times what it was when there were half as many versions that a loss is below 0 without end
PART = 0.25  # of the first gradients that are zero, though others are not
NAMED, OTHERS = 3, "others"  # workers that the same is said of, one by one, and the name of the rest
REMEMBERED = 8  # looks, whose directions of gradients are remembered
ONE_LINE = f"all gradients lie along one line: the model hardly learns what differs from it; {SCALED}"
UNCHOSEN = "check the sign of the gradient, and scale the features"
STEPS = "leave method and step out, for automatic steps, or make the step smaller"


class Kind(StrEnum):
    """What may be wrong."""

    STEP = "step"  # w swings to and fro, further each time, or goes away
    LOSS = "loss"  # it is above where it began
    OLD = "old"  # one worker's old gradient moves w about
    SILENT = "silent"  # a worker never reports
    ZERO = "zero"  # a worker's gradients are always zero
    SCALE = "scale"  # gradients by some parameters are much larger than by most
    ASTRAY = "astray"  # w goes straight on, and gradients are as long as at first


class Warned(NamedTuple):
    """One warning."""

    kind: Kind
    worker: str  # whom it is about; "": all
    text: str


class Health:
    """Looks at a server now and then, and says each thing that is wrong once.

    Args:
        server: the server.
        first: the loss at w_0, as far as workers tell it.
        scales: what may be wrong with the columns of the data.

    Attributes:
        warned: all that was said and is not over, in order.
    """

    def __init__(self, server: ParameterServer, first: FirstLoss | None = None, scales: Doubt | None = None) -> None:
        self._server, self._told = server, Told(server, first or FirstLoss(server.n))
        self._automatic = _automatic(server.method)
        self._scales, self._directions = scales, list[Floats]()
        self._apart = -(-server.d // PARAMETERS)  # of many parameters only some are looked at, this far apart
        self._start = self._w()
        self._before, self._looked = self._start, server.version
        self._trail = [(server.version, self._start)]  # versions, and where w was
        self._losses = [math.nan]  # and how low the loss was
        self._moves: list[Floats] = []  # the last ones …
        self._lengths: list[float] = []  # … and how long more of them were
        self._largest: Floats = np.zeros(len(self._start))  # derivative by each parameter that was seen
        self._looks = self._away = 0
        self.warned: list[Warned] = []

    def _w(self) -> Floats:
        """What is looked at of w, now."""
        return np.array(self._server.state.w[:: self._apart])

    @property
    def _kept(self) -> Record:
        """The method's own state, whose rows are multiplied by weights if there are any, within all around it."""
        state = self._server.state
        while hasattr(state, "inner"):
            state = state.inner
        return state

    def look(self, now: float, *, regular: bool = True, last: bool = False) -> list[str]:
        """What is new; `regular`: it is looked at every so often; `last`: and will not be looked at again."""
        members = [each for each in self._server.members if each.state != State.LEFT and not each.vacant]
        with np.errstate(over="ignore", invalid="ignore"):  # w may be about to leave the range of numbers
            self.warned = [each for each in self.warned if not self._over(each, members)]
            known = {each[:2] for each in self.warned}
            new = []
            for each in self._found(members, now, regular, last):
                if each[:2] not in known:
                    known.add(each[:2])
                    self.warned.append(each)
                    new.append(each.text)
        if any(each.kind in (Kind.LOSS, Kind.STEP) for each in self.warned):  # which explains zeros
            self.warned = [each for each in self.warned if each[:2] != (Kind.ZERO, "")]
        return new

    @property
    def texts(self) -> tuple[str, ...]:
        """All that was said and is not over."""
        return tuple(each.text for each in self.warned)

    def _over(self, warned: Warned, members: list[Member]) -> bool:
        """Whether what was said is so no longer."""
        if warned.kind is Kind.STEP:
            return self._growth(members) < 1.0
        if warned.kind is Kind.LOSS:
            return self._told.risen(members) < 0.0
        if warned.kind is Kind.SILENT:
            unheard = [each.name for each in members if each.reports == 0]
            return len(unheard) <= NAMED if warned.worker == OTHERS else warned.worker not in unheard
        return False

    def _found(self, members: list[Member], now: float, regular: bool, last: bool) -> Iterator[Warned]:
        self._follow()
        if regular:
            yield from self._swinging(members)
        if self._server.ledger[:-1, LOSSES].max() >= KNOWN:
            yield from self._worse(members)
        yield from self._silent(members, now, last)
        if self._server.reports >= SEVERAL * len(members):
            yield from self._going_away(members)
        if self._server.reports >= OFTEN * len(members):
            yield from self._dominated(members, now)
            yield from self._uneven(last)
            if last:
                yield from self._endless(members)
                yield from self._astray(members)
        yield from self._partly_zero()
        lines = self._server.ledger[:-1]
        idle = np.flatnonzero((lines[:, REPORTS] >= KNOWN) & (lines[:, LARGEST] == 0.0))
        zero = [member for row in idle if (member := self._server.members[row]).state != State.LEFT]
        for member in zero[:NAMED]:
            what = f"all {member.reports:,} gradients of worker {member.name} are zero: it adds nothing to the model"
            yield Warned(Kind.ZERO, member.name, f"{what}; check its gradient and its data")
        if len(zero) > NAMED:
            yield Warned(Kind.ZERO, OTHERS, f"all gradients of {len(zero) - NAMED} other workers are zero, too")

    def _swinging(self, members: list[Member]) -> Iterator[Warned]:
        """Moves over as many versions as rows are old: of each four the longest at least twice as long, four times.

        And some go back: so w swings if steps are too large, with a period of 2 to 4 ages. By chance, about an optimum,
        it did not happen once in 25 000 trials of one dimension, and in fewer of more.
        """
        server = self._server
        stamps = server.ledger[[member.row for member in members], STAMP]
        age = int(server.version - stamps[stamps >= 0.0].min(initial=server.version))
        if server.version - self._looked < max(age, 10):
            return
        w = self._w()
        self._moves = [*self._moves[1 - BLOCK :], w - self._before]
        self._lengths = [*self._lengths[1 - BLOCK * BLOCK :], float(np.linalg.norm(self._moves[-1]))]
        self._before, self._looked = w, server.version
        back = sum(float(one @ other) < 0.0 for one, other in combinations(self._moves, 2))
        longest = [max(self._lengths[k : k + BLOCK]) for k in range(0, len(self._lengths), BLOCK)]
        grown = all(0.0 < GROWTH * before < after for before, after in pairwise(longest))
        if len(self._lengths) == BLOCK * BLOCK and grown and back >= 2:
            what = f"w swings to and fro, further each time: steps are too large for gradients {age:,} versions old"
            yield Warned(Kind.STEP, "", f"{what}; {self._remedy()}")

    def _growth(self, members: list[Member], norm: int = NORM) -> float:
        """How many times as long as the first gradients are, all workers together: one may begin at its own optimum."""
        lines, weights = self._server.ledger[:-1], self._server.gauges.weights
        each = np.ones(len(lines)) if weights is None else weights
        first, rows = float(each @ lines[:, FIRST_NORM]), [member.row for member in members]
        return float(each[rows] @ lines[rows, norm]) / first if first > 0.0 else 0.0

    def _remedy(self) -> str:
        """What to do about steps."""
        return UNCHOSEN if self._automatic else STEPS

    def _going_away(self, members: list[Member]) -> Iterator[Warned]:
        """Gradients grow, look after look, with the distance from where they vanish; unless the loss falls."""
        growth, off = self._growth(members), float(np.linalg.norm(self._w() - self._start))
        far = off > FAR * (1.0 + float(np.linalg.norm(self._start)))
        self._away = self._away + 1 if growth > AWAY and far and not self._told.better(members) else 0
        if self._away >= LOOKS:
            what = f"gradients are {growth:.0e} times as long as the first: w goes away"
            yield Warned(Kind.STEP, "", f"{what}; {self._remedy()}")

    def _follow(self) -> None:
        """Remember where w was when there were half as many versions, a quarter and so on."""
        if self._server.version >= 2 * max(1, self._trail[-1][0]):
            self._trail = [*self._trail[-BLOCK:], (self._server.version, self._w())]
            self._losses = [*self._losses[-1:], self._told.now(self._server.members)]

    def _endless(self, members: list[Member]) -> Iterator[Warned]:
        """At the end of a run: the loss is far below 0, and further than when there were half as many versions."""
        start, before, now = self._told.began(members), self._losses[0], self._told.now(members)
        if now < -ENDLESS * start and now < ON * before < 0.0:
            what = f"the loss falls without end, from {start:.4g} to {now:.4g}: it has no minimum for these samples"
            yield Warned(Kind.LOSS, "", f"{what}; check that labels are those that it is for")

    def _astray(self, members: list[Member]) -> Iterator[Warned]:
        """At the end of a run: w went straight on, while versions doubled four times, and gradients are as long.

        Or it went ever further, faster than versions grew, the last two times straight on. How long gradients are is
        an average: those of some samples may be zero. Of one parameter all moves are along one line: that says nothing.
        """
        moves = [after - before for (_, before), (_, after) in pairwise(self._trail)]
        lengths = [float(np.linalg.norm(move)) for move in moves]
        if len(moves) < BLOCK or min(lengths) == 0.0 or self._server.reports < max(LONG, BUSY * len(members)):
            return
        if self._growth(members, MEAN_NORM) < SHORTER or self._told.better(members, LIKELY):
            return
        ratios = [after / before for before, after in pairwise(lengths)]
        straight = {
            (i, j): float(moves[i] @ moves[j]) > STRAIGHT * lengths[i] * lengths[j]
            for i, j in combinations(range(BLOCK), 2)
        }
        soars = min(ratios) > FURTHER and lengths[-1] > SOARING * lengths[0] and straight[BLOCK - 2, BLOCK - 1]
        if soars or (self._server.d > 1 and min(ratios) >= STEADY and all(straight.values())):
            what = "w goes straight away from where it began, and gradients are as long as the first"
            remedy = "check the sign of the gradient, and the labels; if they are right, train for longer"
            yield Warned(Kind.ASTRAY, "", f"{what}: {remedy}")

    def _dominated(self, members: list[Member], now: float) -> Iterator[Warned]:
        """A row so old, with steps so large, that w moves along this one sample further than it has come at all.

        About an optimum, on quadratics, that is so where step × curvature × age is above 1/2. Steps that fall, so that
        it will not be so for long, are judged by those of later. An age counts up to what is usual for its worker: one
        that was kept waiting once is not slow.
        """
        server = self._server
        if self._automatic or not hasattr(self._kept, "rows") or server.sizes.rule is not None:
            return
        there = [member for member in members if member.stamp >= 0]
        w = self._w()
        way = math.sqrt(self._apart) * float(max(np.linalg.norm(w - self._start), np.linalg.norm(w)))  # of all sessions
        eta = float(server.step.sizes(np.array([LATER * server.version]))[0])
        for member, part in sorted(zip(there, self._told.parts(there), strict=True), key=lambda each: each[0].stamp):
            age = min(server.version - member.stamp, server.version / max(1, member.reports))
            moved = eta * part * age * member.norm
            rounds, times = (SLOW, 1.0) if member.reports > 1 else (BUSY, 3.0)
            late = member.reports == 1 and server.seconds(now) < PATIENCE  # its process may have just begun
            if age >= rounds * len(there) and moved > times * way > 0.0 and not late:
                what = f"one gradient of worker {member.name}, {age:,.0f} versions old, moves w by {moved:.2g}"
                how = f"and all its way is {way:.2g}: the step is too large for so slow a worker; {STEPS}"
                yield Warned(Kind.OLD, "", f"{what}, {how}")
                return

    def _partly_zero(self) -> Iterator[Warned]:
        """Many of the first gradients are exactly zero, no worker's all: a label that a formula does not know."""
        lines = self._server.ledger[:-1]
        early, zero = np.minimum(lines[:, REPORTS], EARLY), lines[:, ZEROS]
        seen, zeros = int(early.sum()), int(zero.sum())
        if any(each.kind in (Kind.LOSS, Kind.STEP) for each in self.warned):  # steps that are too large do the same
            return
        if seen >= KNOWN and PART * seen <= zeros and (zero < early)[early > 0.0].all():
            what = f"{zeros} of the first {seen} gradients are zero: these samples teach the model nothing"
            remedy = "check that labels are those that the gradient is for, as −1 and 1, not 0"
            if not self._automatic:
                remedy = f"{remedy}, or make the step smaller"
            yield Warned(Kind.ZERO, "", f"{what}; {remedy}")

    def _uneven(self, last: bool) -> Iterator[Warned]:
        """Parameters whose largest derivative, of those seen so far, is far above that of most.

        Or less far, where the data are so, too.
        """
        rows = getattr(getattr(self._kept, "table", self._kept), "rows", None)
        if rows is None or self._server.d < 2:
            return
        some = rows[:: max(1, len(rows) // SAMPLE), : self._server.state.w.size : self._apart]
        self._largest = np.maximum(self._largest, np.abs(some).max(axis=0))
        seen = self._largest[self._largest > 0.0]
        self._looks += 1
        if self._apart == 1:
            lengths = np.linalg.norm(some, axis=1)
            there = some / np.where(lengths > 0.0, lengths, np.inf)[:, None]
            self._directions = [*self._directions[1 - REMEMBERED :], there]
        if self._scales is not None and self._looks >= LOOKS and self._scales.shown_by(self._largest):
            yield Warned(Kind.SCALE, "", self._scales.text)
            return
        if last and self._directions and along_one_line(np.stack(self._directions)):
            far = self._scales is not None and self._scales.low < 0
            yield Warned(Kind.SCALE, "", self._scales.text if far and self._scales is not None else ONE_LINE)
            return
        if self._looks >= LOOKS and len(seen) > 1 and self._largest.max() > UNEVEN * float(np.median(seen)):
            place, ratio = self._apart * int(self._largest.argmax()), self._largest.max() / float(np.median(seen))
            what = f"derivatives by parameter {place} are {ratio:.0e} times as large as those by most others"
            remedy = "scale the features: subtract their means, divide by their standard deviations"
            yield Warned(Kind.SCALE, "", f"{what}: the others hardly learn; {remedy}")

    def _worse(self, members: list[Member]) -> Iterator[Warned]:
        """The loss that workers tell, above where it began by more than chance."""
        losses = self._told
        yield from self._above_first(members)
        if losses.risen(members) < 0.0:  # each worker's first samples may have been of a better w, which another made
            return
        told = [member for member in members if member.losses >= KNOWN]
        if len(told) >= CROWD and CROWD * losses.inverse(told) < ENOUGH and 2 * len(told) >= len(members):
            risen = np.array([member.loss - member.start_loss for member in told]) - losses.owed(members, told)
            began = losses.mean(told, [member.start_loss for member in told])
            error = losses.spread(told, risen) * math.sqrt(losses.inverse(told))
            if losses.mean(told, risen) > max(SIGNIFICANT * error, LARGE * abs(began)):
                yield _above(losses.now(told), began)
                return
        told = [member for member in members if member.losses >= 2 * WINDOW]
        if told and 2 * len(told) >= len(members):
            now, began = (
                losses.mean(told, [getattr(member, name) for member in told]) for name in ("loss", "first_loss")
            )
            chance = math.sqrt(2.0) * losses.chance(told)
            if any(
                now - began - losses.owed(members, told) > max(errors * chance, part * abs(began))
                for errors, part in ((SIGNIFICANT, NOTABLE), (LIKELY, TENFOLD))
            ):
                yield _above(now, began)

    def _above_first(self, members: list[Member]) -> Iterator[Warned]:
        """The same where the loss at w_0 is known: above it by more than samples differ there.

        How much they differ now is no measure, since losses that grow differ ever more; but a few samples that are
        unlike all others, none of which was seen at w_0, must not be taken for all. So samples whose loss was computed
        at w_0, too, must say the same.
        """
        told = [member for member in members if member.losses >= KNOWN]
        losses, start = self._told, self._told.start(told)
        if start is None or 2 * len(told) < len(members) or start.risen <= LIKELY * start.error:
            return
        now = losses.now(told)
        chance = math.sqrt(start.spread * (start.inverse + losses.counted(told)) * losses.inverse(told))
        risen = now - start.mean - losses.owed(members, told)
        if risen > max(SIGNIFICANT * chance, LIKELY * losses.chance(told), LARGE * abs(start.mean)):
            yield _above(now, start.mean)

    def _silent(self, members: list[Member], now: float, last: bool) -> Iterator[Warned]:
        """Somebody who has never reported, while others have often; one that is at work may be just slow.

        At the end, somebody who has not reported at all, if others have several times.
        """
        server, seconds = self._server, self._server.seconds(now)
        if seconds < PATIENCE and not last:
            return
        usual = (
            dict.fromkeys((State.WORKING, State.EXPECTED), OFTEN)
            if last
            else {State.WORKING: RARE, State.EXPECTED: BUSY}
        )
        missed = [
            each
            for each in members
            if each.reports == 0 and server.reports >= usual.get(each.state, math.inf) * len(members)
        ]
        for member in missed[:NAMED]:
            what = f"worker {member.name} has reported nothing in {seconds:.3g} seconds"
            remedy = "the model does not know its data; start it, or leave it out"
            yield Warned(Kind.SILENT, member.name, f"{what}: {remedy}")
        if len(missed) > NAMED:
            yield Warned(Kind.SILENT, OTHERS, f"{len(missed) - NAMED} other workers have not reported either")


def _automatic(method: Method) -> bool:
    """Whether it chooses its steps itself, whatever is around it."""
    return isinstance(method, Automatic) or (isinstance(method, Around) and _automatic(method.method))


def _above(now: float, began: float) -> Warned:
    what = f"the loss of new samples is {now:.4g}, above the {began:.4g} it began with"
    remedy = "check the sign of the gradient and the scale of the features, or make the step smaller"
    return Warned(Kind.LOSS, "", f"{what}: the model gets worse; {remedy}")

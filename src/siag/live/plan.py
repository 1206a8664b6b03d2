"""What a run of `train` is made of, checked in the same way wherever it is to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.foundations.types import Floats
from siag.live.assembly import Options, checked, distance_from, worker_names
from siag.live.task import FromProblem, FromStream, Gradient, Task, check_method, check_stream
from siag.live.until import Until, until_of
from siag.methods import Method
from siag.problems import Problem
from siag.steps import Step

Sendable = Callable[[str, Any, str], None]
"""sendable(parameter, value, remedy): refuses what cannot be sent to a worker."""

DEFINED = "define it with def at the top of a module, not as a lambda or inside a function"
MADE_THERE = "give the function that makes it instead of a generator or an open file"


@dataclass(frozen=True)
class Source:
    """What all workers have in common: what they compute, on what, with which method."""

    gradient: Gradient | None
    problem: Problem | None
    method: Method
    seed: int
    w0: Floats

    def task(self, own: Any) -> Task:
        """The task of a worker, given what is its own: a stream; of a problem, the seconds it pauses."""
        if self.problem is not None:
            return FromProblem(self.problem, self.method, self.seed, self.w0, own)
        return FromStream(self.gradient, own, self.method, self.w0)  # type: ignore[arg-type]  # one of the two is there


@dataclass(frozen=True)
class Plan:
    """A run, checked: all that a runtime needs to know of it."""

    method: Method
    step: Step
    w0: Floats
    source: Source
    own: list[Any]
    names: list[str]
    until: Until
    options: Options
    about: dict[str, Any]


def planned(
    gradient: Gradient | None,
    streams: Sequence[Any] | None,
    w0: Floats | None,
    method: Method | None,
    step: Step | None,
    until: Until | int | None,
    *,
    problem: Problem | None,
    seed: int,
    pauses: Sequence[float] | None,
    names: Sequence[str] | None,
    loss: Callable[[Floats], float] | None,
    few_enough: Callable[[int], None],
    sendable: Sendable,
    **options: Any,
) -> Plan:
    """Check what `train` was given; see there.

    Args:
        gradient: as of `train`, and so are all but these:
        streams: as of `train`.
        w0: as of `train`.
        method: as of `train`.
        step: as of `train`.
        until: as of `train`.
        problem: as of `train`.
        seed: as of `train`.
        pauses: as of `train`.
        names: as of `train`.
        loss: as of `train`.
        few_enough: refuses more workers than there can be.
        sendable: refuses what does not reach a worker.
        options: of `Options`, but for the loss.
    """
    method, step = checked(method, step)
    start = _start(w0, problem)
    source = Source(gradient, problem, method, check.seed(seed), start)
    own = _own(source, streams, pauses, few_enough, sendable)
    measured = loss is not None
    if loss is None and problem is not None:
        loss = distance_from(problem.optimum)
    about = {
        "problem": repr(problem) if problem is not None else f"{getattr(gradient, '__name__', 'gradient')} on streams",
        "activity": f"live, {len(own)} worker{'s' * (len(own) > 1)}",
        "seed": seed,
    }
    if measured:
        about["measure"] = "loss"
    workers = worker_names("names", names, len(own))
    ending = until_of(until, streams is not None)
    return Plan(method, step, start, source, own, workers, ending, Options(loss=loss, **options), about)


def _start(w0: Any, problem: Problem | None) -> Floats:
    if problem is not None and not isinstance(problem, Problem):
        raise BadInput("problem", problem, "a Problem")
    if w0 is None:
        if problem is None:
            raise Missing("w0", "give the model's first parameters, an array of d numbers")
        return np.zeros(problem.d)
    return check.floats("w0", w0, (None if problem is None else problem.d,))


def _own(
    source: Source,
    streams: Sequence[Any] | None,
    pauses: Sequence[float] | None,
    few_enough: Callable[[int], None],
    sendable: Sendable,
) -> list[Any]:
    """What each worker has of its own, all of it known to reach the workers."""
    gradient, problem = source.gradient, source.problem
    own: list[Any]
    if problem is not None:
        if gradient is not None or streams is not None:
            raise BadInput("problem", problem, "given alone", "leave gradient and streams out, or the problem")
        waits = [0.0] * problem.n if pauses is None else list(pauses) if isinstance(pauses, Iterable) else []
        if len(waits) != problem.n:
            raise BadInput("pauses", pauses, f"{problem.n} numbers, one for each worker")
        own = [check.real("pauses", pause, low=0) for pause in waits]
        few_enough(problem.n)
        FromProblem(problem, source.method, source.seed, source.w0).warm_up()
        sendable("problem", problem, "define its class in a module")
    else:
        if pauses is not None:
            raise BadInput("pauses", pauses, "left out with streams", "siag.streams.Paced slows a stream down")
        if gradient is None or streams is None:
            raise Missing("gradient" if gradient is None else "streams", "give gradient and streams, or a problem")
        if not callable(gradient):
            raise BadInput("gradient", gradient, "a function gradient(w, sample)")
        if isinstance(streams, str | bytes) or not isinstance(streams, Sequence) or not streams:
            raise BadInput("streams", streams, "a list with one stream for each worker")
        few_enough(len(streams))
        sendable("gradient", gradient, DEFINED)
        for k, stream in enumerate(streams):
            check_stream(f"streams[{k}]", stream)
            sendable(f"streams[{k}]", stream, DEFINED if callable(stream) else MADE_THERE)
        check_method(source.method, None, source.w0, len(streams))
        own = list(streams)
    sendable("method", source.method, "define its class in a module")
    return own

"""`replay`: a live run again, from its trace, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from siag.activity import Trace
from siag.experiments.config import BASES, written
from siag.foundations import check
from siag.foundations.encodings import FLOAT64, encoding_of
from siag.foundations.errors import BadFile, BadInput, Missing, SiagError, shorten
from siag.foundations.types import Floats
from siag.methods import Method, with_weights
from siag.methods.weighted import without_weights
from siag.problems import Problem
from siag.simulation import Run, simulate
from siag.steps import Step


def replay(
    trace: str | os.PathLike[str],
    problem: Problem | None = None,
    method: Method | None = None,
    step: Step | None = None,
    *,
    seed: int | None = None,
    w0: Floats | None = None,
    record: int = 200,
    compiled: bool = True,
) -> Run:
    """Run a live run again from its trace: the same reports, from the same versions, in the same order.

    For a problem whose samples are seeded the iterates are the same, bit for bit, also if messages were short: what
    workers read and sent is rounded as it was. What is not given is made from its description in the trace; weights of
    workers are those of the trace, unless the method has others.

    Args:
        trace: the file.
        problem: what was minimised.
        method: with which method.
        step: with which steps.
        seed: of the samples; that of the trace, if it knows.
        w0: (d,) where it started; that of the trace, if it was kept.
        record: how many points of the error curve to keep.
        compiled: as in `siag.simulate`.
    """
    tape = Trace.read(trace)
    if tape.length == 0:
        raise BadFile(f"{os.fspath(trace)}: no step was taken in this run, so there is nothing to replay")
    given = {"problem": problem, "method": method, "step": step}
    parts: dict[str, Any] = {
        role: made_again(role, tape.about, trace) if part is None else part for role, part in given.items()
    }
    parts["method"] = weighted_again(parts["method"], tape.about, trace)
    workers = tape.about.get("workers", parts["problem"].n)
    if workers != parts["problem"].n:
        raise BadInput("problem", parts["problem"], f"one of {workers} workers, as the trace")
    return simulate(
        parts["problem"],
        parts["method"],
        tape,
        parts["step"],
        iterations=tape.length,
        seed=_seed(tape.about, trace) if seed is None else seed,
        record=record,
        w0=_start(tape.about, trace, parts["problem"].d) if w0 is None else w0,
        compiled=compiled,
        messages=_messages(tape.about, trace),
    )


def _messages(about: Mapping[str, Any], trace: str | os.PathLike[str]) -> str:
    """In which numbers workers read and sent."""
    try:
        return encoding_of(about.get("messages", FLOAT64.name)).name
    except BadInput as error:
        raise BadFile(f"{os.fspath(trace)}: {error}") from None


def weighted_again(method: Method, about: Mapping[str, Any], trace: str | os.PathLike[str]) -> Method:
    """The method with the weights of the run, unless it has others."""
    if without_weights(method)[1] is not None:
        return method
    try:
        return with_weights(method, about.get("weights"))
    except (SiagError, TypeError) as error:
        raise BadFile(f"{os.fspath(trace)}: {error}") from None


def _seed(about: Mapping[str, Any], trace: str | os.PathLike[str]) -> int:
    if about.get("seed") is None:
        raise Missing(
            "seed", "this server did not know its workers' seed; give it: siag.replay(trace, …, seed=…) or --seed"
        )
    try:
        return check.seed(about["seed"])
    except BadInput as error:
        raise BadFile(f"{os.fspath(trace)}: {error}") from None


def _start(about: Mapping[str, Any], trace: str | os.PathLike[str], d: int) -> Floats:
    """(d,) w⁰."""
    w0 = about.get("w0", "0")
    if w0 == "0":
        return np.zeros(d)
    if w0 == "not kept":
        raise BadFile(f"{os.fspath(trace)}: it did not start from 0, and where it did was too long to keep")
    try:
        return check.floats("w0", w0, (None,))
    except BadInput as error:
        raise BadFile(f"{os.fspath(trace)}: {error}") from None


def made_again(role: str, about: Mapping[str, Any], trace: str | os.PathLike[str]) -> Any:
    """A part from how it prints: a name and arguments, nothing that is run."""
    text = str(about.get(role, ""))
    remedy = f"give it: siag.replay(trace, {role}=…) or --{role}"
    try:
        return written(role, text)
    except (ValueError, TypeError, RecursionError, MemoryError, SiagError):
        what = BASES[role].__name__
        said = f"{shorten(text)} is not a {what} that can be made again" if text else f"it does not say which {role}"
        raise BadFile(f"{os.fspath(trace)}: {said}; {remedy}") from None

"""`replay`: a live run again, from its trace, bit for bit."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from siag.activity import Trace
from siag.experiments.config import BASES, KINDS, _part
from siag.foundations.errors import BadFile, SiagError
from siag.methods import Method
from siag.problems import Problem
from siag.simulation import Run, simulate
from siag.steps import Step


def replay(
    trace: str | os.PathLike[str],
    problem: Problem | None = None,
    method: Method | None = None,
    step: Step | None = None,
    *,
    record: int = 200,
) -> Run:
    """Run a live run again from its trace: the same reports, from the same versions, in the same order.

    For a problem whose samples are seeded the iterates are the same, bit for bit. What is not given is made from its
    description in the trace.

    Args:
        trace: the file.
        problem: what was minimised.
        method: with which method.
        step: with which steps.
        record: how many points of the error curve to keep.
    """
    tape = Trace.read(trace)
    if tape.length == 0:
        raise BadFile(f"{os.fspath(trace)}: no step was taken in this run, so there is nothing to replay")
    given = {"problem": problem, "method": method, "step": step}
    parts: dict[str, Any] = {
        role: made_again(role, tape.about, trace) if part is None else part for role, part in given.items()
    }
    w0 = tape.about.get("w0", "0")
    start = None if w0 == "0" else np.asarray(w0, float) if isinstance(w0, list) else None
    if w0 == "not kept":
        raise BadFile(f"{os.fspath(trace)}: it did not start from 0, and where it did was too long to keep")
    return simulate(
        parts["problem"],
        parts["method"],
        tape,
        parts["step"],
        iterations=tape.length,
        seed=int(tape.about.get("seed", 0)),
        record=record,
        w0=start,
    )


def made_again(role: str, about: Mapping[str, Any], trace: str | os.PathLike[str]) -> Any:
    """A part from how it prints: a name and arguments, nothing that is run."""
    text = str(about.get(role, ""))
    remedy = f"give it: siag.replay(trace, {role}=…)"
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        function = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        name = function.id if isinstance(function, ast.Name) else ""
        arguments = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        if name not in KINDS[role]:
            raise ValueError
        return _part(role, {"kind": name, **arguments}, Path())
    except (SyntaxError, ValueError, SiagError):
        kind = BASES[role].__name__
        raise BadFile(f"{os.fspath(trace)}: {text!r} is not a {kind} that can be made again; {remedy}") from None

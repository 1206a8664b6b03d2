"""What cannot work is refused before any work is done, and the refusal names what would."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.activity import Bernoulli, Clock, Cyclic, EveryArrivals, Everyone, Exponential, Sequential, Uniform
from siag.foundations.errors import BadInput, Missing, Unsuitable
from siag.live.task import FromStream
from siag.methods import IAG, SAG
from siag.methods.ace import ACE
from siag.methods.aced import ACED
from siag.methods.adpsgd import ADPSGD
from siag.methods.async_sgd import AsyncSGD
from siag.methods.averaged import Averaged
from siag.methods.curvature import CurvatureIAG
from siag.methods.dude import DuDe
from siag.methods.fedasync import FedAsync
from siag.methods.fedavg import FedAvg
from siag.methods.fedbuff import FedBuff
from siag.methods.fednova import FedNova
from siag.methods.fedprox import FedProx
from siag.methods.incremental import Incremental
from siag.methods.lag import LAG
from siag.methods.mifa import MIFA
from siag.methods.piag import PIAG
from siag.methods.prox import Prox
from siag.methods.rennala import Rennala
from siag.methods.ringmaster import Ringmaster
from siag.methods.saga import SAGA
from siag.methods.scaffnew import Scaffnew
from siag.methods.scaffold import SCAFFOLD
from siag.problems import Problem, Ridge, exact, sample
from siag.steps import Constant, DelayAdaptive

N, D = 4, 2
NAN = float("nan")
RIDGE = Ridge.random(n=N, d=D, m=3, regularization=0.1)

LOCAL = {
    kind: functools.partial(kind, **{"steps": 2, "size": 0.1} | more)
    for kind, more in (
        (FedAvg, {}),
        (FedProx, {"pull": 0.1}),
        (FedBuff, {}),
        (FedNova, {}),
        (FedAsync, {}),
        (MIFA, {}),
        (SCAFFOLD, {}),
    )
}
EXACT = (SAG(), SAGA(), IAG(), PIAG(), CurvatureIAG(), LAG(), Scaffnew(p=0.5, size=0.1), Incremental())
CHOSEN = (
    *(made(gradients="exact") for made in LOCAL.values()),
    *(kind(gradients="exact") for kind in (ADPSGD, AsyncSGD, DuDe, ACE)),
    Rennala(batch=2, gradients="exact"),
    Ringmaster(threshold=2, gradients="exact"),
    ACED(threshold=2, gradients="exact"),
)


@dataclass(frozen=True)
class Opaque(Problem):
    """A problem of which little is known."""

    record: tuple

    n, d = N, D
    optimum = property(lambda self: np.zeros(D))

    def oracle(self):
        return self.record


class Sampled(NamedTuple):
    """Only samples."""


class Sloped(NamedTuple):
    """Exact gradients, no Hessians."""


@sample.when(Sampled)
@sample.when(Sloped)
def no_sample(oracle, rng, i, w, out):
    out[:] = 0.0


@exact.when(Sloped)
def no_slope(oracle, i, w, out):
    out[:] = 0.0


def refusal(name, do, error, text):
    """A row of the table."""
    return pytest.param(do, error, text, id=name)


def run(method, activity=Everyone(), problem=RIDGE, step=Constant(0.1)):  # noqa: B008  # none of them is ever changed
    return functools.partial(siag.simulate, problem, method, activity, step, iterations=5)


def streamed(method):
    return functools.partial(FromStream(lambda w, x: w, [1.0], method, np.zeros(D)).begin, 0, 1, D, 0)


def wrong(parameter, made, values, text, **fixed):
    """One row for each value that has no meaning."""
    kind = getattr(made, "func", made)
    for value in values:
        do = functools.partial(made, **fixed | {parameter: value})
        yield refusal(f"{kind.__name__}-{parameter}-{value}", do, BadInput, rf"^{parameter} = .*must be {text}")


def parameters():
    whole, positive = "a whole number (of at least|from) 1", "a finite number above 0"
    word = "one of '"
    for made in LOCAL.values():
        yield from wrong("steps", made, (0, -1, 1.5, True, NAN, "3"), whole)
        yield from wrong("size", made, (0.0, -0.1, NAN, float("inf")), positive)
        yield from wrong("gradients", made, ("all", None), word)
    for kind in (FedProx, FedAsync):
        yield from wrong("pull", LOCAL[kind], (-0.1, NAN), "a finite number at least 0")
    yield from wrong("damp", LOCAL[FedBuff], (1, "yes"), "True or False")
    yield from wrong("damp", LOCAL[FedAsync], ("linear", True), "one of 'constant', 'polynomial', 'hinge'")
    yield from wrong("a", LOCAL[FedAsync], (-0.5, NAN), "a finite number at least 0")
    yield from wrong("a", LOCAL[FedAsync], (0.0,), "above 0 .*use damp='constant'", damp="hinge")
    yield from wrong("b", LOCAL[FedAsync], (-1.0, NAN), "a finite number at least 0")
    yield from wrong("option", LOCAL[SCAFFOLD], (0, 3, 1.5, True), "a whole number from 1 to 2")
    coin = functools.partial(Scaffnew, p=0.5, size=0.1)
    yield from wrong("p", coin, (0, 0.0, -0.1, 1.1, NAN), "a finite number above 0 and at most 1")
    yield from wrong("size", coin, (0.0, -1.0, NAN), positive)
    yield from wrong("seed", coin, (-1, 0.5, True), "a whole number from 0")
    yield from wrong("weight", LAG, (-0.1, NAN), "a finite number at least 0")
    yield from wrong("depth", LAG, (0, 1.5, True, NAN), "a whole number from 1")
    yield from wrong("trigger", LAG, ("both",), "one of 'worker', 'server'")
    yield from wrong("smoothness", LAG, (0.0, -1.0, NAN), positive, trigger="server")
    yield from wrong("smoothness", LAG, ([1.0, 0.0],), "numbers above 0", trigger="server")
    for made in (functools.partial(Prox, IAG()), PIAG):
        yield from wrong("l1", made, (-0.1, NAN), "a finite number at least 0")
        yield from wrong("low", made, (2.0,), r"at most high = 1\.0; swap low and high", high=1.0)
        yield from wrong("high", made, (NAN, float("inf")), "a finite number; None: any")
    yield from wrong("start", functools.partial(Averaged, IAG()), (-1, 0.5, NAN), "a whole number of at least 0")
    for kind in (Prox, Averaged):
        yield from wrong("method", kind, (IAG, "IAG", None), rf"a method; as in {kind.__name__}\(SIAG\(\)\)")
    yield from wrong("graph", ADPSGD, ("star", 3, [(0,)]), "'ring', 'complete' or pairs of workers")
    yield from wrong("graph", ADPSGD, ([(0, 1), (2, 2)],), r".*leave \(2, 2\) out")
    yield from wrong("adaptive", AsyncSGD, (1, None), "True or False")
    yield from wrong("threshold", AsyncSGD, (3,), "None where .*give adaptive=True")
    yield from wrong("drop", AsyncSGD, (True,), "False where .*give adaptive=True")
    yield from wrong("batch", Rennala, (0, 1.5, True, NAN), "a whole number from 1")
    for kind in (Ringmaster, ACED, functools.partial(AsyncSGD, adaptive=True)):
        yield from wrong("threshold", kind, (0, 1.5, True, NAN), whole)
    for kind in (AsyncSGD, ADPSGD, DuDe, ACE):
        yield from wrong("gradients", kind, ("all",), word)
    for kind in (SAGA, CurvatureIAG, LAG, PIAG, DuDe, ACE):
        yield from wrong("wait", kind, (-0.1, 1.1, NAN), "a finite number at least 0 and at most 1")


def parts():
    clock = Clock(Exponential(1.0), server=EveryArrivals(N))
    for method in (*EXACT, *CHOSEN):
        kind = type(method).__name__
        inexact = run(method, Sequential() if kind in ("SAG", "SAGA") else Everyone(), Opaque(Sampled()))
        yield refusal(f"{kind}-inexact", inexact, Unsuitable, rf"^{kind} needs exact.*use (SIAG|gradients=)")
    yield refusal("no-hessian", run(CurvatureIAG(), problem=Opaque(Sloped())), Unsuitable, "needs Hessians.*use IAG")
    for method in (SAG(), SAGA()):
        for activity in (Everyone(), Cyclic(), Uniform(3), clock):
            name = f"{type(method).__name__}-{type(activity).__name__}"
            yield refusal(name, run(method, activity), Unsuitable, r"use Sequential\(\), or IAG")
    for activity in (Everyone(), Sequential(), clock):
        name = f"Incremental-{type(activity).__name__}"
        yield refusal(name, run(Incremental(), activity), Unsuitable, r"use Cyclic\(\), or SGD")
    for activity in (Bernoulli(0.5), Sequential(), clock):
        name = f"Scaffnew-{type(activity).__name__}"
        yield refusal(name, run(Scaffnew(p=0.5, size=0.1), activity), Unsuitable, "or SCAFFOLD")
    graphs = {
        "parts": ([(0, 1), (2, 3)], r"in 2 parts: \[0, 1\], \[2, 3\]; .*'ring' or 'complete'"),
        "stranger": ([(0, 1), (1, 4)], r"\(1, 4\), but workers are numbered from 0 to 3; use 'ring'"),
    }
    for name, (graph, text) in graphs.items():
        yield refusal(f"ADPSGD-{name}", run(ADPSGD(graph=graph)), Unsuitable, text)
    large = Clock(Exponential(1.0), server=EveryArrivals(N + 1))
    buffered = FedBuff(steps=2, size=0.1)
    for method in (buffered, siag.methods.Momentum(buffered)):
        yield refusal(f"{type(method).__name__}-buffer", run(method, large), Unsuitable, "buffer of 5.*from 1 to 4")
    alone = Ridge.random(n=1, d=D, m=3)
    yield refusal("ADPSGD-alone", run(ADPSGD(), problem=alone), Unsuitable, "use SGD")
    no_constants = functools.partial(LAG, trigger="server")
    yield refusal("LAG-smoothness", no_constants, Missing, r"smoothness is missing; .*trigger='worker'")
    few = LAG(trigger="server", smoothness=[1.0, 2.0])
    yield refusal("LAG-few", run(few), Unsuitable, "2 numbers in smoothness do not fit 4 workers")


def steps():
    aged = DelayAdaptive(0.1)
    known = functools.partial(siag.theory.exact_error, siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.1))
    moments = functools.partial(known, siag.methods.SIAG(), Uniform(3), aged, iterations=10)
    yield refusal("DelayAdaptive-exact_error", moments, Unsuitable, "Constant")
    yield refusal("DelayAdaptive-LAG", run(LAG(), step=aged), Unsuitable, "Constant")


def compositions():
    once = r"give l1, low and high to one Prox"
    yield refusal("Prox-Prox", functools.partial(Prox, Prox(IAG())), Unsuitable, once)
    yield refusal("Prox-PIAG", functools.partial(Prox, PIAG()), Unsuitable, "give it l1, low and high itself")
    yield refusal("Prox-Averaged", functools.partial(Prox, Averaged(IAG())), Unsuitable, r"write Averaged\(Prox\(…\)\)")
    yield refusal("Averaged-Averaged", functools.partial(Averaged, Averaged(IAG())), Unsuitable, "leave one out")
    for method in (SCAFFOLD(steps=1, size=0.1), Scaffnew(p=0.5, size=0.1), LOCAL[FedAsync](), ADPSGD()):
        kind = type(method).__name__
        yield refusal(f"Prox-{kind}", functools.partial(Prox, method), Unsuitable, "use PIAG")


def live():
    yield refusal("Scaffnew-live", Scaffnew(p=0.5, size=0.1).serve, Unsuitable, "use SCAFFOLD")
    yield refusal("ADPSGD-live", ADPSGD().serve, Unsuitable, "simulate it, or serve SIAG")
    yield refusal("Incremental-live", Incremental().serve, Unsuitable, "use IAG, or SGD")
    for method in (SAG(), SAGA(), IAG(), PIAG()):
        yield refusal(f"{type(method).__name__}-stream", streamed(method), Unsuitable, "use .*SIAG")
    for method in (CurvatureIAG(), LAG(), SCAFFOLD(steps=1, size=0.1, gradients="exact")):
        yield refusal(f"{type(method).__name__}-stream", streamed(method), Unsuitable, "use .*SIAG")


@pytest.mark.parametrize(("do", "error", "text"), [*parameters(), *parts(), *steps(), *compositions(), *live()])
def test_what_cannot_work_is_refused_in_one_line_with_a_remedy(do, error, text):
    with pytest.raises(error, match=text) as refused:
        do()
    assert isinstance(refused.value, ValueError)
    assert "\n" not in str(refused.value)


MEANT = {
    "table": (
        siag.methods.SIAG(),
        siag.methods.STORM(),
        IAG(),
        PIAG(),
        DuDe(),
        ACE(),
        Averaged(Prox(siag.methods.SIAG(), l1=0.1)),
    ),
    "arrivals": (AsyncSGD(), AsyncSGD(adaptive=True), Averaged(AsyncSGD())),
    "": (siag.methods.SGD(), ADPSGD(), SAGA(), CurvatureIAG(), *(made() for made in LOCAL.values())),
}
MEANT[""] += (Rennala(batch=2), Ringmaster(threshold=2), ACED(threshold=2))


@pytest.mark.parametrize("ages", ["table", "arrivals"])
@pytest.mark.parametrize(("kind", "method"), [(kind, method) for kind in MEANT for method in MEANT[kind]], ids=repr)
def test_steps_that_look_at_ages_are_taken_only_where_there_are_such_ages(kind, method, ages):
    step = DelayAdaptive(gamma=0.1, ages=ages)
    if ages == kind:
        method.pair(step)
    else:
        remedy = f"give it ages='{kind}'" if kind else "use SIAG or AsyncSGD with it, or another step"
        with pytest.raises(Unsuitable, match=remedy):
            method.pair(step)

"""Who takes part in a comparison: by default every method there is, with the parameters one would begin with."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from siag.activity import Activity, Cyclic, Everyone, Sequential
from siag.experiments.config import METHODS, typed
from siag.foundations.errors import BadInput
from siag.methods import (
    ACE,
    ACED,
    ADPSGD,
    EF21,
    IAG,
    LAG,
    MIFA,
    PIAG,
    SAG,
    SAGA,
    SCAFFOLD,
    SGD,
    SIAG,
    STORM,
    Adam,
    AsyncSGD,
    Automatic,
    Averaged,
    CurvatureIAG,
    DuDe,
    Exact,
    FedAsync,
    FedAvg,
    FedBuff,
    FedProx,
    Incremental,
    Method,
    Momentum,
    Prox,
    Rennala,
    Ringmaster,
    Scaffnew,
    needs,
)
from siag.steps import DelayAdaptive, Step

K = 5  # local steps
TABLE, FRESH, VARIATES, EXACT = (
    "keeps every worker's latest",
    "uses what arrives",
    "control variates",
    "exact gradients",
)
HOMES: dict[str, Activity] = {"everyone": Everyone(), "in turn": Cyclic(), "one at a time": Sequential()}
FAMILIES = (TABLE, FRESH, VARIATES, EXACT)


@dataclass(frozen=True)
class Contender:
    """A method under the name it is shown by.

    Attributes:
        name: as shown.
        method: its step, or the size of its local steps, is searched for.
        family: what it has in common with others, for the figure.
        paper: whose claims are shown beside it; by default those of the method's class.
        step: a step made from η, where `Method.tuned` is not meant.
        home: one of `HOMES`, for a method that can run under no other activity.
    """

    name: str
    method: Method
    family: str = ""
    paper: str = ""
    step: Callable[[float], Step] | None = None
    home: str = ""

    def exact(self, n: int) -> bool:
        """Whether its workers compute exact gradients, of which none is a sample."""
        return needs(self.method.recruit(np.zeros(self.method.least), n), Exact)

    @property
    def elsewhere(self) -> bool:
        """Whether it minimises something else than F: with a regulariser, or in a box."""
        method = self.method.method if isinstance(self.method, Averaged) else self.method
        return isinstance(method, PIAG | Prox) and (method.l1 > 0 or method.low is not None or method.high is not None)

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """With η to begin with."""
        return self.method.tuned(eta, gamma) if self.step is None else (self.method, self.step(eta))

    def printed(self, gamma: float) -> str:
        """Method and step as Python prints them; numbers that the search sets are multiples of η."""
        one, half = (map(repr, self.tuned(eta, gamma)) for eta in (1.0, 0.5))
        return ", ".join(map(_with_eta, one, half))


CONTENDERS: Sequence[Contender] = (
    Contender("sIAG", SIAG(), TABLE),
    Contender("automatic sIAG", Automatic(), TABLE, "none"),
    Contender("delay-adaptive sIAG", SIAG(wait=1.0), TABLE, "DelayAdaptive", DelayAdaptive),
    Contender("DuDe-ASGD", DuDe(), TABLE),
    Contender("ACE", ACE(), TABLE),
    Contender("MIFA", MIFA(steps=K, size=1.0), TABLE),
    Contender("SGD", SGD(), FRESH, "none"),
    Contender("async SGD", AsyncSGD(), FRESH),
    Contender("delay-adaptive async SGD", AsyncSGD(adaptive=True), FRESH),
    Contender("AD-PSGD", ADPSGD(), FRESH),
    Contender("FedAvg", FedAvg(steps=K, size=1.0), FRESH),
    Contender("FedProx", FedProx(steps=K, size=1.0, pull=1.0), FRESH),
    Contender("FedBuff", FedBuff(steps=K, size=1.0), FRESH),
    Contender("FedAsync", FedAsync(steps=K, size=1.0), FRESH),
    Contender("SCAFFOLD", SCAFFOLD(steps=K, size=1.0), VARIATES),
    Contender("Scaffnew", Scaffnew(p=1.0 / K, size=1.0, gradients="sample"), VARIATES, home="everyone"),
    Contender("IAG", IAG(), EXACT),
    Contender("LAG", LAG(), EXACT),
    Contender("curvature-aided IAG", CurvatureIAG(), EXACT),
    Contender("incremental gradient", Incremental(), EXACT, home="in turn"),
    Contender("SAG", SAG(), EXACT, home="one at a time"),
    Contender("SAGA", SAGA(), EXACT, home="one at a time"),
    Contender("ACED", ACED(threshold=20), TABLE),
    Contender("Rennala SGD", Rennala(batch=10), FRESH),
    Contender("Ringmaster ASGD", Ringmaster(threshold=10), FRESH),
    Contender("async SGD with a threshold", AsyncSGD(adaptive=True, drop=True), FRESH, "DelayThreshold"),
    Contender("sIAG with momentum", Momentum(SIAG()), TABLE),
    Contender("FedAdam", Adam(FedAvg(steps=K, size=1.0)), FRESH),
    Contender("EF21-M", EF21(k=2, momentum=0.1), TABLE),
    Contender("STORM", STORM(), TABLE),
)


def _with_eta(one: str, half: str) -> str:
    """What prints as `one` for η = 1 and as `half` for η = 1/2: a number in which they differ is a multiple of η."""
    pairs = zip(re.split(r"([=,()])", one), re.split(r"([=,()])", half), strict=False)
    return "".join(a if a == b else "η" if a == "1.0" else f"{a}·η" for a, b in pairs)


def chosen(methods: Sequence[Method | Contender | str] | None) -> list[Contender]:
    """Those a user has asked for: by name, as Python prints them, as their own modules' name, as they are, or all."""
    if methods is None:
        return list(CONTENDERS)
    if isinstance(methods, str | Method | Contender):
        methods = [methods]
    found = [each if isinstance(each, Contender) else _contender(each) for each in methods]
    given = [contender.name for contender in found]
    if not found:
        raise BadInput("methods", methods, "at least one")
    if len(set(given)) < len(given):
        raise BadInput("methods", given, "none twice", "make a Contender with a name of its own")
    return found


def _contender(given: object) -> Contender:
    """A contender from a method, or from the name or text of one."""
    if isinstance(given, Method):
        return _like(repr(given), given)
    known = {contender.name.lower(): contender for contender in CONTENDERS}
    known |= {type(contender.method).__name__.lower(): contender for contender in reversed(CONTENDERS)}
    if isinstance(given, str) and given.lower() in known:
        return known[given.lower()]
    if isinstance(given, str) and {"(", ":"} & set(given):
        return _like(given, _typed(given))
    kinds = {name.lower(): kind for name, kind in METHODS.items()}
    if not isinstance(given, str) or given.lower() not in kinds:
        names = ", ".join(contender.name for contender in CONTENDERS)
        remedy = "or as Python prints it, FedAvg(steps=3, size=1.0); or yours as module:name(key=1.0)"
        raise BadInput("methods", given, f"a method, or one of: {names}", remedy)
    kind = kinds[given.lower()]
    parameters = inspect.signature(kind).parameters.values()
    needed = ", ".join(f"{each.name}=…" for each in parameters if each.default is inspect.Parameter.empty)
    if needed:
        raise BadInput("methods", given, "given with what it needs", f"write {kind.__name__}({needed})")
    return _like(kind.__name__, kind())


def _typed(text: str) -> Method:
    """A method as Python prints it, or the user's own with its module."""
    try:
        return typed("method", text, Path())  # type: ignore[no-any-return]  # it is a Method
    except BadInput as error:
        if error.parameter != "method":
            raise
        raise BadInput("methods", text, error.allowed, error.remedy) from None


def _like(name: str, method: Method) -> Contender:
    """A contender with the family, paper and home of the first with a method of the same kind, if there is one."""
    alike = next((each for each in CONTENDERS if type(each.method) is type(method)), Contender(name, method))
    return replace(alike, name=name, method=method)

"""`compare`: one problem, several activities, many methods, each with the best step one rule finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from siag.activity import Activity, Clock, EveryArrivals, Exponential, Nonuniform, Recorded, Uniform
from siag.experiments.claims import claims_of, verdict
from siag.experiments.comparison.contenders import HOMES, Contender, chosen
from siag.experiments.comparison.result import AXES, Comparison, Entry, no_place
from siag.experiments.comparison.tuning import Trial
from siag.experiments.comparison.warm import warm
from siag.foundations import check
from siag.foundations.encodings import FLOAT64, encoding_of
from siag.foundations.errors import BadInput, SiagError, Unsuitable
from siag.foundations.parallel import Watch, run_all
from siag.methods import Method, check_fit
from siag.methods.rounded import check_messages
from siag.methods.weighted import SAMPLES
from siag.problems import Problem, reweighted
from siag.problems.weights import POINTS, Weights
from siag.simulation.metrics import Evaluate, check_evaluate, known_of
from siag.simulation.tuning import quiet, rule, unit_of

Told = Callable[[float, str], None]
FAR, PILOT = 256.0, 100  # the step of runs that show what is spent, below the unit, and their points
SPREAD = 10.0  # how many times slower than the fastest the slowest worker of the default clock is


def activities_of(problem: Problem) -> dict[str, Activity]:
    """The paper's two, and a clock on which workers differ in speed and messages have ages."""
    slowness = np.geomspace(1.0, SPREAD, problem.n) if problem.n > 1 else np.ones(1)
    clock = Clock(compute=Exponential(1.0), slowness=slowness.tolist(), server=EveryArrivals(max(1, problem.n // 8)))
    return {"uniform": Uniform(15), "non-uniform": Nonuniform(10, 20), "clock": clock}


def compare(
    problem: Problem,
    methods: Sequence[Method | Contender | str] | None = None,
    activities: Mapping[str, Activity] | None = None,
    *,
    iterations: int = 10_000,
    repeats: int = 8,
    seed: int = 0,
    record: int = 100,
    claims: bool = True,
    eta: float | None = None,
    progress: Told | None = None,
    evaluate: Evaluate | None = None,
    axis: str = "iterations",
    objective: bool | None = None,
    messages: str = FLOAT64.name,
    weights: Weights = None,
) -> Comparison:
    """Compare methods on one problem, each with the best step that one rule finds for it.

    Methods differ in what an iteration costs them: K local steps are K samples, and on a clock K times the time. So
    there is no one order of them. `axis` says at equal what they are ranked; steps are found for just that.

    Args:
        problem: what to minimise.
        methods: methods, contenders, names of those in `siag.experiments.comparison.CONTENDERS`, or methods as Python
            prints them; by default all contenders. One that cannot run somewhere is listed with the reason.
        activities: who reports when, by name; by default the paper's two and a virtual clock. All methods and repeats
            see the same draw of the paper's two, so that a bias does not cancel over the repeats. By default a method
            that can run under none of them is shown under an activity of its own, beside the first method.
        iterations: of every run, those of the search included; of one that spends more on `axis` than another, fewer.
        repeats: of the runs that are shown.
        seed: of the runs that are shown.
        record: points of every curve.
        claims: whether to put the claims of the methods' papers to the test, for the last column.
        eta: the search for steps begins at a 16th to a 256th of it; 1/L by default.
        progress: called with the fraction done and what comes next.
        evaluate: metrics of your own by name, functions of w; the table and the curves have them, too.
        axis: `"iterations"`, `"samples"`, `"bytes"` or `"time"`: what all have the same of in the end.
        objective: as of `simulate`, for the runs that are shown. Without an optimum methods are compared by ‖∇F‖².
        messages: as of `simulate`, for the runs that are shown; steps are found with doubles.
        weights: numbers, or `"points"`, as of `simulate`. Methods that cannot weigh their workers are listed as such.

    Returns:
        The comparison: a table (`table`, `markdown`), curves, figures, and `write` for all of it.

    Example:
        >>> import siag
        >>> problem = siag.problems.LeastSquares.random(n=8, d=3, p=4, noise=0.1)
        >>> calm = {"uniform": siag.activity.Uniform(4)}
        >>> found = compare(problem, ["sIAG", "SAG"], calm, iterations=400, repeats=2, claims=False)
        >>> [(entry.contender.name, entry.reason[:4]) for entry in found.entries]
        [('sIAG', ''), ('SAG', 'SAG ')]
    """
    problem = _problem(problem, weights)
    iterations, repeats = check.integer("iterations", iterations, low=10), check.integer("repeats", repeats, low=2)
    seed, record = check.seed(seed), check.integer("record", record)
    unit, contenders, metrics = unit_of(problem, eta), chosen(methods), check_evaluate(evaluate)
    measured = None if objective is None else check.truth("objective", objective)
    check_judged(problem, measured)
    check.choice("axis", axis, tuple(AXES))
    shown: dict[str, Any] = {"evaluate": metrics, "objective": measured, "messages": encoding_of(messages).name}
    given = activities_of(problem) if activities is None else _named(activities)
    say = progress or (lambda fraction, what: None)
    pairs = [(name, activity, contender) for name, activity in given.items() for contender in contenders]
    how = iterations, shown["messages"]
    reasons = {(name, who.name): _reason(who, problem, name, activity, *how) for name, activity, who in pairs}
    if activities is None:
        homeless = [who for who in contenders if who.home and all(reasons[name, who.name] for name in given)]
        for home in dict.fromkeys(who.home for who in homeless):
            own = [who for who in homeless if who.home == home]
            there = [(home, HOMES[home], who) for who in (contenders[0], *own)]
            why = {(home, who.name): _reason(who, problem, home, HOMES[home], *how) for _, _, who in there}
            if not all(why[home, who.name] for who in own):  # else there is nothing to compare
                reasons |= why
                pairs += there
    patterns = {name: _pattern(activity, problem.n, iterations, seed) for name, activity, _ in pairs}

    def trial(name: str, who: Contender) -> Trial:
        horizon = horizons.get((name, who.name), iterations)
        return Trial(who, problem, patterns[name], horizon, seed, **shown)

    def entry(k: int, watch: Watch) -> Entry:
        name, _, who = pairs[-1 - k]  # the last, those under activities of their own, take longest
        if reasons[name, who.name]:
            return Entry(who, name, reasons[name, who.name])
        say(0.3 + 0.7 * k / len(pairs), f"{who.name}, {name}")
        tried = replace(trial(name, who), progress=lambda _: watch.did(0))
        try:
            found = tried.tune(unit)
            return Entry(who, name, "", found, tried.run(found.eta, repeats, record, threads=1))
        except SiagError as error:  # in code of the user's: the other methods are worth their time
            return Entry(who, name, str(error), failed=True)

    papers = {who.name: who.paper or type(who.method).__name__ for who in contenders} if claims else {}
    able = [(name, who) for name, _, who in pairs if not reasons[name, who.name]]
    places = {name: activity for name, activity, _ in pairs}
    _check_axis(axis, problem, able, places)
    horizons: dict[tuple[str, str], int] = {}  # iterations, where not all have as many
    suited = [trial(name, who) for name, who in able]
    with quiet():
        say(0.0, "machine code and claims" if claims else "machine code")
        warm([*(replace(each, iterations=1) for each in _once(suited)), *dict.fromkeys(papers.values())])
        if axis != "iterations":
            horizons |= _horizons({(name, who.name): trial(name, who) for name, who in able}, axis, unit)
        verdicts = {name: verdict(claims_of(paper)) for name, paper in papers.items()}
        entries = run_all(entry, len(pairs), work=1, threads=None, progress=False, title="")
    failed = [each for each in entries if each.failed]
    if failed and all(each.run is None for each in entries):
        raise SiagError(f"{failed[-1].contender.name}: {failed[-1].reason}")
    return Comparison(problem, tuple(reversed(entries)), rule(iterations, unit), verdicts, places, axis)


def _problem(problem: object, weights: Weights) -> Problem:
    """The problem with weights that were given."""
    if not isinstance(problem, Problem):
        raise BadInput("problem", problem, "a Problem")
    if isinstance(weights, str) and weights == SAMPLES:
        remedy = "with it every activity has another optimum; compare Weighted(SIAG(), 'samples') as a method"
        raise BadInput("weights", weights, f"numbers, or {POINTS!r}", remedy)
    return reweighted(problem, weights)


def _named(activities: Any) -> dict[str, Activity]:
    """Activities that a user gave, by name."""
    right = isinstance(activities, Mapping) and all(isinstance(each, Activity) for each in activities.values())
    if not right or not activities:
        raise BadInput("activities", activities, "a dict of activities by name, at least one")
    return dict(activities)


def _check_axis(
    axis: str, problem: Problem, able: Sequence[tuple[str, Contender]], places: Mapping[str, Activity]
) -> None:
    """Refuse an axis along which no method could be ranked, saying who and why."""
    why: dict[str, list[str]] = {}
    for name, who in able:
        if not (reason := no_place(who, problem, places[name], axis)):
            return
        why.setdefault(reason, []).append(who.name)
    if why:
        said = "; ".join(f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in why.items())
        raise BadInput("axis", axis, "one by which a method can be ranked", said)


def check_judged(problem: Problem, objective: bool | None) -> None:
    """Refuse a problem of which nothing is measured that methods could be ranked by."""
    if problem.optimum is None and (objective is False or not known_of(problem)):
        remedy = problem.no_exact or "give `exact` a meaning for its oracle"
        raise Unsuitable(
            f"{type(problem).__name__} knows no optimum, and neither ∇F nor F is measured, so nothing ranks methods; "
            f"{remedy}, or give it an objective, or an optimum"
        )


def _horizons(trials: Mapping[tuple[str, str], Trial], axis: str, unit: float) -> dict[tuple[str, str], int]:
    """How many iterations each has for what the thriftiest under the same activity spends in all of them.

    Who has no place along the axis has all iterations. What is spent hardly depends on the step.
    """
    spent = {}
    for place, trial in trials.items():
        if not no_place(trial.contender, trial.problem, trial.activity, axis):
            with suppress(SiagError):  # it will fail again, and be listed with the reason
                run = trial.run(unit / FAR, 1, record=PILOT, threads=1)
                spent[place] = run.t, np.asarray(getattr(run, AXES[axis])[0], float)
    found = {}
    for (name, who), (t, along) in spent.items():
        budget = min(each[-1] for (other, _), (_, each) in spent.items() if other == name)
        found[name, who] = max(1, int(np.interp(budget, along, t)))
    return found


def _reason(
    contender: Contender, problem: Problem, name: str, activity: Activity, iterations: int, messages: str
) -> str:
    """Why a contender cannot run there; nothing if it can."""
    try:
        method, step = contender.tuned(1.0, 1.0)
        check_fit(problem, method, activity, step, iterations)
        check_messages(messages, method, problem.d)
    except (Unsuitable, BadInput) as error:
        return str(error).replace(repr(activity), f"the activity “{name}”")
    return ""


def _pattern(activity: Activity, n: int, iterations: int, seed: int) -> Activity:
    """One draw of who reports when, for all methods and repeats: else one repeat's bias would cancel another's."""
    return Recorded.of(activity, n, iterations, seed=seed) if isinstance(activity, Uniform | Nonuniform) else activity


def _once(trials: list[Trial]) -> list[Trial]:
    """One of each that needs machine code of its own."""
    found: dict[tuple[Any, ...], Trial] = {}
    for each in trials:
        w0, n, who = np.zeros(each.problem.d), each.problem.n, each.contender
        parts = _kinds(who.method.recruit(w0, n)), _kinds(who.method.init(w0, n))
        found.setdefault((*parts, type(each.activity), who.step is None), each)
    return list(found.values())


def _kinds(value: Any) -> tuple[Any, ...]:
    """The types within a record."""
    if isinstance(value, tuple):
        return (type(value), *map(_kinds, value))
    return type(value), getattr(value, "dtype", None), getattr(value, "ndim", None)

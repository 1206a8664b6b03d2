"""One description of a run, from which Python, the shell, a file and Ray all start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import numpy as np

from siag.activity import EveryArrivals, Tick
from siag.foundations import check
from siag.foundations.encodings import FLOAT64
from siag.foundations.errors import BadInput, Missing
from siag.foundations.printing import prints_alike
from siag.foundations.types import Floats
from siag.live.data import check_epochs, check_streams, doubts_about, known_of_files, scale_doubt
from siag.live.model import Model, OfModel
from siag.live.monitor.dashboard.place import Wanted, dashboard_of
from siag.live.monitor.watch import Progress
from siag.live.scales import Doubt
from siag.live.standard import default_method
from siag.live.task import Gradient, Source, Task, check_method
from siag.live.until import Until, until_of
from siag.live.weights import Weights, judge_of, measure_of, objective_of, weights_by_row
from siag.losses import Loss
from siag.methods import SIAG, Method, Standardised, fade, step_of, with_weights
from siag.methods.rounded import check_messages
from siag.methods.weighted import without_weights
from siag.problems import Problem, weights_of
from siag.server.departing import DROP, Departed
from siag.server.guard import Guard
from siag.server.parameter_server import STEP_AT_ONCE
from siag.simulation.metrics import WORDS, check_evaluate
from siag.steps import Step
from siag.storage.urls import is_url

AnyPath = str | os.PathLike[str]
ROOM = 1000  # workers that there may ever be, if they may come later and nothing else is said
LEFT_OUT: Any = None  # filled in, or refused, by `validate`
AS_IN_PYTHON = "As in Python, or yours as module:attribute:"
READY_MADE = "The loss: Squared, Huber, Logistic, Softmax, Poisson, instead of --gradient, as in Python;"

WATCHED = "A page in the browser: PORT or HOST:PORT; alone, port 7461 of this machine."

DEFINED = "define it without open files, locks or generators"
MADE_THERE = "give the function that makes it instead of a generator or an open file"
IN_A_MODULE = "define its class in a module"
MODELS = "siag.adapters makes one of a network of torch, or of a pytree of JAX"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A run: `siag.train` and `siag.serve` say what each field means in Python, its note what it means in the shell.

    What was left out is filled in by `validate`, which returns a spec that is whole.
    """

    # What is trained
    gradient: Annotated[Gradient | Model | None, "module:function, called with w and a sample; or a model."] = None
    streams: Annotated[Sequence[Any] | None, "A worker's samples, module:attribute or a file; repeat it."] = None
    problem: Annotated[Problem | None, "A TOML file with a table [problem], or module:attribute."] = None
    seed: Annotated[int, "Seed of a problem's samples, or of the order of finite data.  [default: 0]"] = 0
    pauses: Sequence[float] = LEFT_OUT
    names: Annotated[Sequence[str], "A worker's name; repeat it.  [default: 0, 1, …]"] = LEFT_OUT
    open: Annotated[bool, "Let workers join that were not expected, under names of their own."] = False
    max_workers: Annotated[int | None, f"How many workers there may ever be.  [default: {ROOM} with --open]"] = None
    w0: Annotated[Floats, "A .npy file with the first parameters, instead of --dimension."] = LEFT_OUT
    method: Annotated[Method, f"{AS_IN_PYTHON} SGD, SIAG(wait=1.0), …  [default: Automatic, or SIAG with a step]"] = (
        LEFT_OUT
    )
    step: Annotated[Step, f"{AS_IN_PYTHON} DelayAdaptive(gamma=0.1), …; instead of --eta, --beta, --gamma."] = LEFT_OUT
    until: Until = LEFT_OUT
    weights: Annotated[
        Weights | None, "Who counts how much: north=2,south=1, or 2,1; or samples.  [default: all alike]"
    ] = None
    # How
    server: EveryArrivals | Tick = STEP_AT_ONCE
    guard: Guard | None = None
    departed: Annotated[Departed, "Rows of workers that left: keep, drop, or a half-life.  [default: drop]"] = DROP
    messages: Annotated[str, "How gradients travel: float64, float32, bfloat16 or int8.  [default: float64]"] = LEFT_OUT
    # What is kept
    loss: Annotated[Callable[[Floats], float] | None, f"{READY_MADE} or module:function, to show and record."] = None
    evaluate: Annotated[Mapping[str, Callable[[Floats], Any]] | None, "A metric, NAME=module:function; repeat it."] = (
        None
    )
    record: Annotated[int, "Points of the curve to keep, about.  [default: 200]"] = 200
    folder: Annotated[AnyPath | None, "Where the state is saved; the same command goes on from there."] = None
    durable: Annotated[bool, "No acknowledged report is ever lost."] = False
    keep: Annotated[int, "Versions of w to keep in the folder, for siag export --version.  [default: none]"] = 0
    keep_every: Annotated[float, "Seconds between two of them.  [default: 60]"] = 60.0
    trace: Annotated[AnyPath | None, "A file for who reported when, for siag replay."] = None
    # Who is told, and who is waited for
    progress: Progress = None
    dashboard: Annotated[Wanted, WATCHED] = None
    linger: Annotated[float | None, "Seconds to wait when no worker is there; inf: for ever.  [default: 600]"] = None
    patience: Annotated[
        float | None, "Seconds until a worker is shown as stalled.  [default: by its own habits, at least 10]"
    ] = None
    forget: Annotated[float | None, "A worker that is away for this many seconds has left."] = None
    preload: Annotated[Sequence[str], "A module to import once, before worker processes start; repeat it."] = ()

    described: tuple[dict[str, Any], dict[str, Any]] | None = (
        None  # `about` and `identity`, without the data they are of
    )
    doubts: tuple[str, ...] = ()  # what seems to be wrong with the data, seen before it begins
    scales: Doubt | None = None  # what may be wrong with it, if the gradient, the user's own, takes it as it is

    @property
    def n(self) -> int:
        """The number of rows: one for each worker that there may ever be."""
        return max(len(self.names), self.room)

    @property
    def room(self) -> int:
        """The number of rows if workers may come later, otherwise 0."""
        return self.max_workers or 0

    @property
    def per_worker(self) -> list[Any]:
        """What each worker has of its own: a stream; of a problem, the seconds it pauses."""
        return list(self.pauses if self.streams is None else self.streams)

    @property
    def source(self) -> Source:
        """What all workers have in common."""
        return Source(self.gradient, self.problem, self.method, self.seed, self.w0)

    def tasks(self) -> list[Task]:
        """What each worker does."""
        return [self.source.task(own) for own in self.per_worker]

    @property
    def weighted(self) -> Method:
        """The method as the server has it; workers see no weights."""
        weights: Any = self.weights
        return with_weights(self.method, weights)

    @property
    def model(self) -> Model | None:
        """What is trained, if it is more than w."""
        return self.gradient if isinstance(self.gradient, Model) else None

    def _of_w(self, function: Callable[[Any], Any]) -> Callable[[Floats], Any]:
        """A user's function of the model, or of w if there is no other."""
        return function if self.model is None else OfModel(function, self.model)

    @property
    def metrics(self) -> dict[str, Callable[[Floats], Any]]:
        """The user's own metrics, functions of w by name."""
        return {name: self._of_w(function) for name, function in (self.evaluate or {}).items()}

    @property
    def objective(self) -> Problem | None:
        """The problem as its workers count in it, if there is one."""
        return objective_of(self.problem, self.weights)

    @property
    def measure(self) -> Callable[[Floats], float] | None:
        """What is recorded of w: the loss; for a problem by default ‖w − w*‖², or ‖∇F‖², or F, as far as it knows."""
        if self.loss is not None:
            return self._of_w(self.loss)
        return None if self.objective is None else measure_of(self.objective)

    @property
    def about(self) -> dict[str, Any]:
        """What is run, in words."""
        if self.described is not None:
            return self.described[0]
        about = self._fixed | self._start_in_words | {"workers": self.n}
        about["activity"] = f"live, {self.n} worker{'s' * (self.n > 1)}"
        measure = WORDS.get(judge_of(self.objective)) if self.loss is None else "loss"
        return about if measure is None else about | {"measure": measure}

    @property
    def _start_in_words(self) -> dict[str, Any]:
        """For `about`: where it starts."""
        kept = self.w0.tolist() if self.w0.size <= 1000 else "not kept"
        return {"w0": kept if self.w0.any() else "0"}

    @property
    def identity(self) -> dict[str, Any]:
        """By which a folder knows its run."""
        if self.described is not None:
            return self.described[1]
        fixed = self._fixed | {"n": self.n, "d": int(self.w0.size)}
        if self.step.rule(1) is None or not prints_alike(self.step):
            del fixed["step"]  # a run may go on with another
        fixed |= {"server": repr(self.server), "workers": list(self.names), **known_of_files(self.streams or ())}
        if self.problem is not None and not prints_alike(self.problem):
            del fixed["problem"]
        return fixed

    @property
    def _fixed(self) -> dict[str, Any]:
        """What is told of a run and must stay the same when it goes on."""
        seed: int | None = self.seed
        if self.problem is not None:
            subject = repr(self.problem)
        elif self.streams is not None:
            ready = repr(self.gradient) if isinstance(self.gradient, Loss | Model) else "gradient"
            subject = f"{getattr(self.gradient, '__name__', ready)} on streams"
        else:  # nobody here knows them
            subject, seed = "streams of the workers", None
        more: dict[str, Any] = {} if self.messages == FLOAT64.name else {"messages": self.messages}
        if self.weights is not None:
            more["weights"] = self.weights if isinstance(self.weights, str) else list(self.weights)
        return {"method": repr(self.method), "step": repr(self.step), "problem": subject, "seed": seed} | more

    def validate(self, serving: bool = False) -> Spec:
        """Check everything that needs no file and no process; return the same with nothing left out.

        Args:
            serving: whether the workers are elsewhere, and bring streams of their own.
        """
        method: Any = self.method
        messages: Any = self.messages
        if method is None:
            own = default_method(self.gradient, self.streams, self.w0, self.folder) if self.step is None else SIAG()
            return replace(self, method=own).validate(serving)
        inner, known = without_weights(method)
        if known is not None and self.weights is None:
            return replace(self, method=inner, weights=known).validate(serving)
        step = step_of(method, self.step)
        if step is not self.step:
            return replace(self, step=step).validate(serving)
        if messages is None:
            return replace(self, messages=getattr(self.gradient, "messages", FLOAT64.name)).validate(serving)
        self._check_kinds()
        method.serve()  # before its step: another step would not help
        method.pair(self.step)
        check_data(self.gradient, self.streams, self.problem, "streams", here=not serving)
        if self.streams is not None:
            check_streams(self.streams)
            check_epochs(self.streams, self.until)
        pauses = self._pauses()
        w0 = self._start()
        names = self._names(serving)
        room = self._room(names, w0)
        n = max(len(names), room or 0)
        given: Any = None if self.problem is None else weights_of(self.problem)
        weights = weights_by_row(given if self.weights is None else self.weights, names, n)
        objective_of(self.problem, weights)  # refuses weights that a problem cannot have
        check_method(with_weights(method, weights), self.problem, w0, n)
        if isinstance(self.server, EveryArrivals):
            method.gather(self.server.k, n)
        check_messages(self.messages, method, int(w0.size))
        scaled = isinstance(method, Standardised)
        doubts = () if self.streams is None else doubts_about(self.gradient, self.streams, int(w0.size), scaled=scaled)
        ready = isinstance(self.gradient, Loss)
        linger = None if self.linger == np.inf and serving else self.linger
        for name, value, limit in (
            ("linger", linger, {"low": 0}),
            ("patience", self.patience, {"above": 0}),
            ("forget", self.forget, {"low": 0}),
        ):
            if value is not None:
                check.real(name, value, **limit, remedy="or leave it out")
        return replace(
            self,
            w0=w0,
            names=names,
            max_workers=room,
            weights=weights,
            pauses=pauses,
            linger=linger,
            seed=check.seed(self.seed),
            record=check.integer("record", self.record),
            keep_every=check.real("keep_every", self.keep_every, low=0),
            evaluate=check_evaluate(self.evaluate),
            dashboard=dashboard_of(self.dashboard),
            until=until_of(self.until, serving or self.streams is not None),
            doubts=tuple(dict.fromkeys((*self.doubts, *doubts))),
            scales=self.scales if self.streams is None or ready else scale_doubt(self.gradient, self.streams),
        )

    def starting_from(self, w: Floats) -> Spec:
        """The same from another w."""
        spec = replace(self, w0=w)
        return (
            spec
            if self.described is None
            else replace(spec, described=(self.about | spec._start_in_words, self.identity))
        )

    def without_data(self) -> Spec:
        """The same for a server elsewhere, without the workers' data."""
        described = self.about, self.identity
        kept: dict[str, Any] = {"loss": self.measure, "evaluate": self.metrics, "described": described}
        return replace(self, gradient=None, streams=None, problem=None, **kept)

    def sent(self) -> Iterator[tuple[str, Any, str]]:
        """What must reach workers in other processes: each parameter, its value, and the remedy if it cannot."""
        if self.problem is not None:
            yield "problem", self.problem, IN_A_MODULE
        else:
            yield "gradient", self.gradient, DEFINED
            for k, stream in enumerate(self.streams or ()):
                yield f"streams[{k}]", stream, DEFINED if callable(stream) else MADE_THERE
        yield "method", self.method, IN_A_MODULE

    def _pauses(self) -> Any:
        """The seconds that each worker of a problem pauses; what only a problem has must be left out without one."""
        pauses: Any = self.pauses
        if self.problem is None:
            if pauses is not None:
                raise BadInput("pauses", pauses, "left out without a problem", "siag.streams.Paced slows a stream down")
            if check.seed(self.seed) != 0 and self.streams is None:
                raise BadInput("seed", self.seed, "left out without a problem", "streams have samples of their own")
            return LEFT_OUT
        n = self.problem.n
        waits = [0.0] * n if pauses is None else list(pauses) if isinstance(pauses, Iterable) else []
        if len(waits) != n:
            raise BadInput("pauses", pauses, f"{n} numbers, one for each worker")
        return [check.real("pauses", pause, low=0) for pause in waits]

    def _start(self) -> Floats:
        problem = self.problem
        w0: Any = self.w0
        if self.model is not None:
            start = check.floats("model.w0", self.model.w0, (None,))
            return start if w0 is None else check.floats("w0", w0, start.shape)
        if w0 is None:
            if problem is None:
                raise Missing("w0", "give the model's first parameters, an array of d numbers, or a problem")
            return check.floats("problem.start", problem.start, (problem.d,))
        return check.floats("w0", w0, (None if problem is None else problem.d,))

    def _room(self, names: list[str], w0: Floats) -> int | None:
        """How many rows there are to be, if workers may come later."""
        most = self.max_workers
        if not check.truth("open", self.open) and most is None:
            return None
        if self.problem is not None:
            raise BadInput("open", self.open, "left out with a problem", f"it has {self.problem.n} workers")
        room = max(ROOM, len(names)) if most is None else check.integer("max_workers", most)
        if room < len(names):
            raise BadInput("max_workers", most, f"at least {len(names)}, as many as are expected")
        if self.method.quorum(room) > 0:
            raise BadInput("method", self.method, "one that waits for nobody where workers may join", "leave out wait")
        if not fade.reaches(self.method.init(w0[:1], 1)):
            raise BadInput("method", self.method, "one that keeps a table where workers may join", "use SIAG")
        return room

    def _names(self, serving: bool) -> list[str]:
        """The workers' names; their numbers by default. A server may be told how many there are."""
        count = self.problem.n if self.problem is not None else None if self.streams is None else len(self.streams)
        later = self.open or self.max_workers is not None
        names: Any = [] if later and self.names is None else self.names
        if serving and self.problem is None and names is None:
            raise Missing("names", "say how many there are, or give their names, or a problem")
        if later and names in ([], (), 0):
            return []
        if names is None or (serving and isinstance(names, int)):
            number = check.integer("names", count if names is None else names)
            if count is not None and number != count:
                raise BadInput("names", names, f"{count}, as many as the problem has")
            return [str(i) for i in range(number)]
        listed = [] if isinstance(names, str | bytes) or not isinstance(names, Iterable) else list(names)
        right = all(isinstance(name, str) and name for name in listed) and len(set(listed)) == len(listed) > 0
        if not right or (count is not None and len(listed) != count):
            allowed = (
                "different texts, none empty" if count is None else f"{count} different texts, one for each worker"
            )
            raise BadInput("names", names, allowed)
        return listed

    def _check_kinds(self) -> None:
        """Refuse what is of another kind than it must be."""
        for name, kind, allowed in (
            ("method", Method, "a Method"),
            ("step", Step, "a Step"),
            ("guard", Guard | None, "a siag.server.Guard"),
            ("departed", Departed, "a siag.server.Departed"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                remedy = f"make one: {value.__name__}(…)" if isinstance(value, type) and issubclass(value, kind) else ""
                raise BadInput(name, value, allowed, remedy)
        if self.loss is not None and not callable(self.loss):
            raise BadInput("loss", self.loss, "a function loss(w)")
        for name in ("folder", "trace"):
            check_path(name, getattr(self, name))
        if check.truth("durable", self.durable) and self.folder is None:
            raise Missing("folder", "say where a durable run is to be kept")
        if check.integer("keep", self.keep, low=0) and self.folder is None:
            raise Missing("folder", "say where versions are to be kept")
        if self.durable and is_url(self.folder):
            allowed = "False with a folder at a URL, to which it is saved every few seconds"
            raise BadInput("durable", True, allowed, "give the path of a folder")


LOCAL, SERVED = ("gradient", "streams", "pauses", "preload"), ("linger", "open", "max_workers")  # of one alone


def fields_of(serving: bool) -> tuple[str, ...]:
    """The fields that the user of `serve`, or of `train`, may give."""
    others = {*(LOCAL if serving else SERVED), "described", "doubts", "scales"}
    return tuple(each.name for each in fields(Spec) if each.name not in others)


def check_data(gradient: object, streams: object, problem: object, name: str, here: bool = True) -> None:
    """Refuse both of a problem and a gradient on streams, and neither if the workers are here.

    `name` is what the user calls the streams, or the one stream.
    """
    if problem is not None:
        if not isinstance(problem, Problem):
            raise BadInput("problem", problem, "a Problem")
        if gradient is not None or streams is not None:
            raise BadInput("problem", problem, "given alone", f"leave gradient and {name} out, or the problem")
    elif here:
        if gradient is None or streams is None:
            raise Missing("gradient" if gradient is None else name, f"give gradient and {name}, or a problem")
        if isinstance(gradient, type) and issubclass(gradient, Loss):
            raise BadInput("gradient", gradient, "a loss, not its class", f"make one: {gradient.__name__}(…)")
        if not callable(gradient) and not isinstance(gradient, Model):
            raise BadInput("gradient", gradient, "a function gradient(w, sample), or a model", MODELS)


def check_path(name: str, place: object) -> None:
    """Refuse what is neither a path nor left out."""
    if place is not None and not isinstance(place, str | os.PathLike):
        raise BadInput(name, place, "a path", "give it as text, or leave it out")


@contextmanager
def renamed(names: Mapping[str, str], missing: Mapping[str, tuple[str, str]] = {}) -> Iterator[None]:
    """Let a mistake have the name the user wrote, where that is another than the field's.

    Args:
        names: what the user calls each field that is called otherwise.
        missing: for what is missing: its name, and how to give it.
    """
    try:
        yield
    except Missing as error:
        if error.parameter not in missing and error.parameter not in names:
            raise
        usual = names.get(error.parameter, error.parameter), error.remedy
        raise Missing(*missing.get(error.parameter, usual)) from None
    except BadInput as error:
        if error.parameter not in names or hasattr(error, "__notes__"):  # a note: it is of the user's own code
            raise
        name, value = names[error.parameter], error.value
        if name == "dimension" and isinstance(value, np.ndarray):  # which it stands for
            value = value.size
        raise BadInput(name, value, error.allowed, error.remedy) from None

"""`train`: many streams, one model; the one call that needs no set-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from siag.activity import EveryArrivals, Tick
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats
from siag.live.model import Model
from siag.live.monitor.dashboard.place import Wanted
from siag.live.monitor.watch import Progress
from siag.live.runtime import Runtime
from siag.live.spec import AnyPath, Spec
from siag.live.task import Gradient
from siag.live.transports.shared_memory import SharedMemory
from siag.live.until import Until
from siag.live.weights import Weights
from siag.methods import Method
from siag.problems import Problem
from siag.server.departing import Departed
from siag.server.guard import Guard
from siag.simulation import Run
from siag.steps import Step


def train(
    gradient: Gradient | Model | None = None,
    streams: Sequence[Iterable[Any] | Callable[[], Iterable[Any]]] | None = None,
    w0: Floats | None = None,
    method: Method | None = None,
    step: Step | None = None,
    until: Until | int | None = None,
    *,
    problem: Problem | None = None,
    seed: int = 0,
    pauses: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
    server: EveryArrivals | Tick = Spec.server,
    guard: Guard | None = None,
    departed: Departed = Spec.departed,
    messages: str | None = None,
    weights: Weights | None = None,
    loss: Callable[[Any], float] | None = None,
    evaluate: Mapping[str, Callable[[Any], Any]] | None = None,
    record: int = Spec.record,
    folder: AnyPath | None = None,
    durable: bool = False,
    keep: int = Spec.keep,
    keep_every: float = Spec.keep_every,
    trace: AnyPath | None = None,
    progress: Progress = None,
    dashboard: Wanted = None,
    patience: float | None = None,
    forget: float | None = None,
    preload: Sequence[str] = (),
    runtime: Runtime | None = None,
) -> Run:
    """Train one model from many streams, each read by a worker process of its own on this machine.

    Workers come and go at their own speeds, and nobody waits for anybody. Every stream counts the same, however fast
    its worker is, and nobody has to choose a step: that is so with the methods `Automatic` and `SIAG`.

    Args:
        gradient: gradient(w, sample) returns the d numbers of a stochastic gradient, or (loss, gradient): the loss of
            samples that the model has not learned from is the honest measure of one trained on streams. Or a model,
            such as `siag.adapters.Torch(module, loss)`: it knows where to start, and `run.model` is it, trained.
        streams: one for each worker: finite data (lists, arrays, DataFrames, pairs (X, y) of arrays, datasets), which
            are read again and again, in a new order each time; or anything else to iterate over, which is read once;
            or a function that makes either, as of a generator, which cannot be sent to processes (see `siag.streams`).
        w0: (d,) where to start; 0 with a `problem`, and by default a model's own parameters.
        method: what workers send and the server does with it; by default `Automatic()`, or with a step `SIAG()`. For
            one of `siag.losses` on data that can be looked at before, by default `Standardised(Automatic(), …)`: steps
            as if columns had been standardised, w in the units of the data all the same.
        step: the sizes of the server's moves; `Automatic` finds them itself.
        until: how many iterations, or an `Until`; by default until all streams have ended, finite data after 10 epochs.
        problem: instead of `gradient` and `streams`: a problem whose n workers draw samples of their own.
        seed: of the problem's samples, or of the order in which finite data are read.
        pauses: for a problem: seconds each worker waits before each gradient, to make it slow.
        names: of the workers; their numbers by default.
        server: when to step: `EveryArrivals(k)` or `Tick(seconds)`.
        guard: what reports must be like to be accepted.
        departed: what becomes of the row of a worker whose stream has ended.
        messages: in which numbers gradients travel: `"float64"`; `"float32"`, half the bytes; `"bfloat16"`, a quarter;
            or `"int8"`, an eighth, the last two rounded at random without bias. Beside the short ones w travels as
            float32, in which `gradient` gets it; the server keeps w in doubles. By default what `gradient.messages`
            says, if there is such an attribute, else `"float64"`.
        weights: what each worker counts for, so that Σ p_i F_i is minimised: a dict by name, `{"north": 2.0, …}`, or
            numbers in the order of the workers, of which only the ratios matter; or `"samples"`: as often as it has
            reported so far. By default all count the same. Means of losses over workers are weighted likewise.
        loss: loss(w), or of the model, shown and recorded as the run's error; for a problem ‖w − w*‖² by default,
            and with weights ‖Σ p_i ∇F_i(w)‖².
        evaluate: metrics of your own by name, functions of w, or of the model, such as the accuracy on held-out data,
            each returning a number, or one for each worker; shown, and recorded as `run.metrics`.
        record: about how many points of the curve to keep.
        folder: where to save the state once a second; a run that is started again goes on from there. Samples of a
            problem go on, too; a stream begins anew, unless it can go on (`after`), as Follow and Directory do.
        durable: nothing that was accepted is ever lost, at the price of a write to disk for every report.
        keep: how many earlier versions of w to keep in the folder, plain `.npy` files, of which the oldest is removed;
            `siag.storage.read_versions` lists them, and `siag export --version` writes one.
        keep_every: seconds between two of them.
        trace: a file for who reported when, to be run again by `siag.replay`.
        progress: `True` for a view on standard error, `False` for nothing at all, or a watcher, of your own or
            `siag.adapters.MLflow()` and `TensorBoard(…)`, or a list of these. By default a view if standard error is a
            terminal, and otherwise a line there for each problem: a worker that fails, a disk that is full. All of it
            also goes to the logger named `siag`.
        dashboard: `True` for a page in the browser at http://127.0.0.1:7461/, or another port, or "host:port", or a
            `siag.runtimes.Dashboard`; it needs `pip install 'siag[dashboard]'`.
        patience: seconds without a report after which a worker is shown as stalled.
        forget: seconds after which a worker that is gone counts as one that has left, see `departed`; by default never.
        preload: names of modules such as "torch" that take long to import: they are imported once, before the
            worker processes start.
        runtime: where the workers are: processes of this machine by default, or `siag.runtimes.Ray()`: on a Ray
            cluster, where gradients may be lambdas, and `folder` and `trace` may be URLs, too; or `siag.Simulated()`:
            in virtual time, to rehearse; or any other `Runtime`.

    Returns:
        The run: its `error` is the loss, if there is one, else the progressive loss, if gradients tell their losses,
        and NaN otherwise; `metrics`, `workers` and `warnings` say more; `model` is the model, if that is what was
        trained. `about["ended"]` says why it ended,
        `about["ending"]` says it as a value of `siag.runtimes.Ending`, and `about["failed"]` says which workers did not
        end in order, if there were any.

    A worker that fails does not stop the others; only if none of them has reported anything is an error raised.

    Ctrl-C ends the run in order, with a last save, and returns it; `about["ended"]` is "interrupted". A second one
    raises `KeyboardInterrupt`. Neither is so outside the main thread, or if the program handles SIGINT itself.

    Example:
        >>> import siag
        >>> problem = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
        >>> run = train(problem=problem, until=300)
        >>> int(run.t[-1]), bool(run.error[0, -1] < run.error[0, 0])
        (300, True)
    """
    given = dict(locals())  # the fields of `Spec`, and the runtime
    del given["runtime"]
    return run_spec(Spec(**given), runtime)


def run_spec(spec: Spec, runtime: Runtime | None = None) -> Run:
    """Run what is described, where that is said; on this machine by default."""
    run = _run(spec, runtime)
    return run if spec.model is None else replace(run, restore=spec.model.restored)


def _run(spec: Spec, runtime: Runtime | None) -> Run:
    if runtime is None:
        return SharedMemory(preload=spec.preload).train(spec)
    if not isinstance(runtime, Runtime):
        raise BadInput("runtime", runtime, "a siag.runtimes.Runtime", "write siag.runtimes.Ray(), or leave it out")
    if spec.preload:
        remedy = "the runtime says what its processes import"
        raise BadInput("preload", spec.preload, "left out with a runtime of your own", remedy)
    return runtime.train(spec)

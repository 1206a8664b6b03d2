"""`train`: many streams, one model, on this machine; the one call that needs no set-up."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import process
from multiprocessing.reduction import ForkingPickler
from typing import Any

from siag.activity import EveryArrivals, Tick
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.types import Floats
from siag.live.assembly import Assembly, check_path
from siag.live.interrupt import interruptible
from siag.live.monitor.watch import Watcher
from siag.live.plan import planned
from siag.live.ray import Ray
from siag.live.session import Session
from siag.live.task import Gradient
from siag.live.transports.shared_memory import Embedded
from siag.live.until import Until
from siag.methods import Method
from siag.problems import Problem
from siag.server.guard import Guard
from siag.server.members import KEEP, Departed
from siag.server.parameter_server import STEP_AT_ONCE
from siag.simulation import Run
from siag.steps import Step

MOST_WORKERS = 1000  # processes
FILES, SPARE_FILES = 4, 50  # open files for each worker, and for all else


def train(
    gradient: Gradient | None = None,
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
    server: EveryArrivals | Tick = STEP_AT_ONCE,
    guard: Guard | None = None,
    departed: Departed = KEEP,
    loss: Callable[[Floats], float] | None = None,
    record: int = 200,
    folder: str | os.PathLike[str] | None = None,
    durable: bool = False,
    trace: str | os.PathLike[str] | None = None,
    progress: bool | Watcher | None = None,
    patience: float | None = None,
    forget: float | None = None,
    runtime: Ray | None = None,
) -> Run:
    """Train one model from many streams, each read by a worker process of its own on this machine.

    Workers come and go at their own speeds, and nobody waits for anybody. With `SIAG` every stream counts the same,
    however fast its worker is.

    Args:
        gradient: gradient(w, sample) returns the d numbers of a stochastic gradient. It is sent to the workers, so it
            must be a function that can be pickled: one of a module, not a lambda.
        streams: one for each worker: anything to iterate over, or a function that makes it (see `siag.streams`).
        w0: (d,) where to start; 0 with a `problem`.
        method: what workers send and the server does with it; `SIAG()` by default.
        step: the sizes of the server's moves.
        until: how many iterations, or an `Until`; by default until all streams have ended.
        problem: instead of `gradient` and `streams`: a problem whose n workers draw samples of their own.
        seed: of the problem's samples.
        pauses: for a problem: seconds each worker waits before each gradient, to make it slow.
        names: of the workers; their numbers by default.
        server: when to step: `EveryArrivals(k)` or `Tick(seconds)`.
        guard: what reports must be like to be accepted.
        departed: what becomes of the row of a worker whose stream has ended.
        loss: loss(w), shown and recorded as the run's error; for a problem ‖w − w*‖² by default.
        record: about how many points of the curve to keep.
        folder: where to save the state once a second; a run that is started again goes on from there. Samples of a
            problem go on, too; a stream begins anew, unless it can go on (`after`), as Follow and Directory do.
        durable: nothing that was accepted is ever lost, at the price of a write to disk for every report.
        trace: a file for who reported when, to be run again by `siag.replay`.
        progress: `True` for a view on standard error, `False` for nothing at all, or a watcher of your own. By
            default a view if standard error is a terminal, and otherwise a line there for each problem: a worker that
            fails, a disk that is full.
        patience: seconds without a report after which a worker is shown as stalled.
        forget: seconds after which a worker that is gone counts as one that has left, see `departed`; by default never.
        runtime: where the processes are: on this machine by default, or `siag.runtimes.Ray()`: on a Ray cluster, where
            gradients may be lambdas, and `folder` and `trace` may be URLs, too.

    Returns:
        The run: its `error` is the loss, if there is one, and NaN otherwise. `about["ended"]` says why it ended,
        `about["failed"]` which workers did not end in order, if there were any.

    A worker that fails does not stop the others; only if none of them has reported anything is an error raised.

    Ctrl-C ends the run in order, with a last save, and returns it; `about["ended"]` is "interrupted". A second one
    raises `KeyboardInterrupt`. Neither is so outside the main thread, or if the program handles SIGINT itself.

    Example:
        >>> import siag
        >>> problem = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
        >>> run = train(problem=problem, step=siag.steps.Harmonic(1.0, 50), until=300)
        >>> int(run.t[-1]), bool(run.error[0, -1] < run.error[0, 0])
        (300, True)
    """
    options: dict[str, Any] = {
        "problem": problem,
        "seed": seed,
        "pauses": pauses,
        "names": names,
        "server": server,
        "guard": guard,
        "departed": departed,
        "loss": loss,
        "record": record,
        "folder": folder,
        "durable": durable,
        "trace": trace,
        "progress": progress,
        "patience": patience,
        "forget": forget,
    }
    for name in ("folder", "trace"):
        check_path(name, options[name])
    if runtime is not None:
        if not isinstance(runtime, Ray):
            raise BadInput("runtime", runtime, "a siag.runtimes.Ray", "write siag.runtimes.Ray(), or leave it out")
        return runtime.train(gradient, streams, w0, method, step, until, **options)
    _not_in_a_worker()
    plan = planned(gradient, streams, w0, method, step, until, **options, few_enough=_few_enough, sendable=_sendable)
    about = plan.about | {"activity": f"live, {len(plan.own)} process{'es' * (len(plan.own) > 1)} on one machine"}
    assembly = Assembly(plan.method, plan.step, plan.w0, plan.names, plan.until, plan.options, about)
    tasks = [plan.source.task(own) for own in plan.own]

    def carry(session: Session) -> None:
        with interruptible(session.end):
            Embedded(session, tasks).run()
        if session.fruitless:
            raise SiagError(f"no worker has reported anything; {session.failures[0]}")

    return assembly.run(carry)


def _not_in_a_worker() -> None:
    """A script without the guard would start workers that start workers."""
    if getattr(process.current_process(), "_inheriting", False):
        print("siag: put the call of siag.train under  if __name__ == '__main__':", file=sys.stderr)
        sys.exit(1)


def _few_enough(workers: int) -> None:
    if workers > MOST_WORKERS:
        raise BadInput("workers", workers, f"at most {MOST_WORKERS} on one machine", "use siag serve and siag work")
    if sys.platform != "win32":
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        room = (files - SPARE_FILES) // FILES
        if files != resource.RLIM_INFINITY and workers > room:
            allowed = f"at most {room} with {files} files open at a time"
            raise BadInput("workers", workers, allowed, "raise the limit: ulimit -n")


def _sendable(parameter: str, value: Any, remedy: str) -> None:
    """Refuse what cannot be sent to another process, or cannot be found there."""
    try:
        content = bytes(ForkingPickler.dumps(value))
    except Exception as error:  # whatever pickling raises, and a user's __reduce__
        reason = " ".join(str(error).split())
        raise BadInput(parameter, value, f"something that can be pickled ({reason})", remedy) from None
    if b"__main__" in content and not os.path.isfile(getattr(sys.modules["__main__"], "__file__", None) or ""):
        raise BadInput(
            parameter, value, "defined in a file", "worker processes cannot import what was typed into a session"
        )

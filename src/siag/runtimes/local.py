"""`train`: many streams, one model, on this machine; the one call that needs no set-up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import process
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any

import numpy as np

from siag.activity import EveryArrivals, Tick
from siag.foundations import check
from siag.foundations.errors import BadInput, Missing, SiagError
from siag.foundations.types import Floats
from siag.methods import Method
from siag.problems import Problem
from siag.runtimes.assembly import Assembly, Options, checked, distance_from, worker_names
from siag.runtimes.embedded import Embedded
from siag.runtimes.session import Session
from siag.runtimes.task import FromProblem, FromStream, Gradient, Task, check_method, check_stream
from siag.runtimes.until import Until, until_of
from siag.runtimes.watch import Watcher
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
        patience: seconds of silence after which a worker is shown as stalled.
        forget: seconds after which a worker that is gone counts as one that has left, see `departed`; by default never.

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
    _not_in_a_worker()
    method, step = checked(method, step)
    start = _start(w0, problem)
    tasks = _tasks(gradient, streams, problem, method, start, check.seed(seed), pauses)
    measured = loss is not None
    if loss is None and problem is not None:
        loss = distance_from(problem.optimum)
    options = Options(
        server=server,
        guard=guard,
        departed=departed,
        loss=loss,
        record=record,
        folder=folder,
        durable=durable,
        trace=trace,
        progress=progress,
        patience=patience,
        forget=forget,
    )
    about = {
        "problem": repr(problem) if problem is not None else f"{getattr(gradient, '__name__', 'gradient')} on streams",
        "activity": f"live, {len(tasks)} processes on one machine",
        "seed": seed,
    }
    if measured:
        about["measure"] = "loss"
    workers = worker_names("names", names, len(tasks))
    assembly = Assembly(method, step, start, workers, until_of(until, streams is not None), options, about)

    def carry(session: Session) -> None:
        with _interruptible(session):
            Embedded(session, tasks).run()
        if session.fruitless:
            raise SiagError(f"no worker has reported anything; {session.failures[0]}")

    return assembly.run(carry)


@contextmanager
def _interruptible(session: Session) -> Iterator[None]:
    """Let the first Ctrl-C end the session in order; the second does what the first would have done.

    Only the main thread can have it so, and a program that handles the signal itself keeps its way.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, usual)
        session.end("interrupted")

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _not_in_a_worker() -> None:
    """A script without the guard would start workers that start workers."""
    if getattr(process.current_process(), "_inheriting", False):
        print("siag: put the call of siag.train under  if __name__ == '__main__':", file=sys.stderr)
        sys.exit(1)


def _start(w0: Any, problem: Problem | None) -> Floats:
    if problem is not None and not isinstance(problem, Problem):
        raise BadInput("problem", problem, "a Problem")
    if w0 is None:
        if problem is None:
            raise Missing("w0", "give the model's first parameters, an array of d numbers")
        return np.zeros(problem.d)
    return check.floats("w0", w0, (None if problem is None else problem.d,))


def _tasks(
    gradient: Gradient | None,
    streams: Sequence[Any] | None,
    problem: Problem | None,
    method: Method,
    w0: Floats,
    seed: int,
    pauses: Sequence[float] | None,
) -> list[Task]:
    """One task for each worker, each known to reach its process."""
    if problem is not None:
        if gradient is not None or streams is not None:
            raise BadInput("problem", problem, "given alone", "leave gradient and streams out, or the problem")
        waits = [0.0] * problem.n if pauses is None else list(pauses) if isinstance(pauses, Iterable) else []
        if len(waits) != problem.n:
            raise BadInput("pauses", pauses, f"{problem.n} numbers, one for each worker")
        waits = [check.real("pauses", pause, low=0) for pause in waits]
        _few_enough(problem.n)
        workers = [FromProblem(problem, method, seed, w0, pause) for pause in waits]
        workers[0].warm_up()
        tasks: list[Task] = list(workers)
        _sendable("problem", problem, "define its class in a module")
    else:
        if pauses is not None:
            raise BadInput("pauses", pauses, "left out with streams", "siag.streams.Paced slows a stream down")
        if gradient is None or streams is None:
            raise Missing("gradient" if gradient is None else "streams", "give gradient and streams, or a problem")
        if not callable(gradient):
            raise BadInput("gradient", gradient, "a function gradient(w, sample)")
        if isinstance(streams, str | bytes) or not isinstance(streams, Sequence) or not streams:
            raise BadInput("streams", streams, "a list with one stream for each worker")
        _few_enough(len(streams))
        _sendable(
            "gradient", gradient, "define it with def at the top of a module, not as a lambda or inside a function"
        )
        for k, stream in enumerate(streams):
            check_stream(f"streams[{k}]", stream)
            _sendable(f"streams[{k}]", stream, "give the function that makes it instead of a generator or an open file")
        check_method(method, None, w0, len(streams))
        tasks = [FromStream(gradient, stream, method, w0) for stream in streams]
    _sendable("method", method, "define its class in a module")
    return tasks


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

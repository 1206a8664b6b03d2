"""What live commands show while they run, and what they say in the end."""

from __future__ import annotations

import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from siag.cli.app import FAILED, _print_json, _print_run, _stop, tell
from siag.cli.early import Terminated, meaning
from siag.cli.files import MODEL, keep
from siag.foundations.errors import BadInput, DivergenceWarning

if TYPE_CHECKING:
    from siag.runtimes import Watcher
    from siag.server import Snapshot
    from siag.simulation import Run

MOST_NUMBERS = 1000  # of w, in a line of JSON


class Begun:
    """A watcher that knows whether there was anything to see."""

    def __init__(self) -> None:
        self.yet = False

    def show(self, snapshot: Snapshot) -> None:
        """There is a run."""
        self.yet = True

    def event(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def terminable() -> Iterator[Begun]:
    """Let SIGTERM end a run in order as Ctrl-C does, and the second time at once; before it has begun, as it was.

    It does so where Ctrl-C is ignored, too, as in the background of a script. What is yielded is to watch the run.
    """
    from siag.live.interrupt import end_in_order
    from siag.live.reasons import Ending

    before, begun = signal.getsignal(signal.SIGTERM), Begun()
    told: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        if end_in_order(Ending.STOPPED, "SIGTERM") or (begun.yet and not told):  # it may be about to end by itself
            told.append(number)
        elif callable(before) and not told:
            before(number, frame)
        else:
            raise Terminated

    with meaning(signal.SIGTERM, end):
        yield begun


def watcher_of(quiet: bool, as_json: bool, metrics: str | None, insecure: bool) -> Watcher:
    """Whoever is to be told how the run goes."""
    from siag.live.spec import renamed
    from siag.live.transports.tcp.worker import shown
    from siag.runtimes import JsonLines, Metrics, Quiet, Several, Terminal

    view: Watcher = Quiet() if quiet else JsonLines(sys.stdout) if as_json else Terminal()
    if metrics is None:
        return view
    host, colon, port = metrics.rpartition(":")
    if not port.isascii() or not port.isdigit() or (colon and not host):
        raise BadInput("metrics", metrics, "a port, or host:port")
    with renamed({"port": "metrics", "host": "metrics"}):
        measured = Metrics(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port), insecure=insecure)
    view.event(f"metrics at http://{shown((reachable(measured.host), measured.port))}/metrics")
    return Several([view, measured])


def plainly(watcher: Watcher, run: Callable[[], Run]) -> Run:
    """Run; close the watcher in any case, and say in a line what there is to be warned of."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DivergenceWarning)
            result = run()
    finally:
        watcher.close()
    for warning in caught:
        kept = "; what was recorded until then is kept" if issubclass(warning.category, DivergenceWarning) else ""
        print(f"siag: {warning.message}{kept}", file=sys.stderr)
    return result


def finish(result: Run, folder: Path | None, as_json: bool, state: str | PathLike[str] | None = None) -> int:
    """Write and print what came out; the exit status. `state` is where the run was saved.

    SIGTERM has nothing to end any more.
    """
    import numpy as np

    with meaning(signal.SIGTERM, lambda *_: None):
        written, lost = ([], []) if folder is None else keep(result, folder, MODEL)
        if as_json:
            w = result.w[0].tolist() if result.w[0].size <= MOST_NUMBERS else None
            _print_json({"result": True, **document(result), "w": w})
        else:
            print(f"w           {np.array2string(result.w[0], precision=6, threshold=10)}")
            _print_run(result, folder, written)
        tell([*lost, *_elsewhere(state)] if lost else [])
    if no_progress(result):
        _stop(f"no worker has reported anything; {result.about['failed'][0]}", FAILED)
    if deserted(result):
        _stop(f"{result.about['ended']}; {result.about['failed'][0]}", FAILED)
    return FAILED if lost else status(result)


def _elsewhere(state: str | PathLike[str] | None) -> list[str]:
    """Where the model is beside, in a line; none if it is nowhere."""
    return [] if state is None else [f"{state}: siag export reads the model from it: siag export {state} w.npy"]


def document(result: Run) -> dict[str, Any]:
    """A run, for JSON."""
    return {**result.about, **{name: values.tolist() for name, values in result.table().items()}}


def status(result: Run) -> int:
    """Exit status 1 if it diverged."""
    return FAILED if (result.diverged >= 0).any() else 0


def no_progress(result: Run) -> bool:
    """Whether a worker has failed, and none has reported anything since the server was started."""
    return bool(result.about.get("failed")) and bool(result.reads[0, -1] == result.about.get("before", 0))


def deserted(result: Run) -> bool:
    """Whether it ended because nobody was there, and a worker had failed."""
    from siag.live.reasons import Ending

    return bool(result.about.get("failed")) and Ending(result.about["ending"]).deserted


def reachable(host: str) -> str:
    """A name for workers to connect to: that of this machine, if all its addresses are listened on."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host

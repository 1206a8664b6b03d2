"""What live commands show while they run, and what they say in the end."""

from __future__ import annotations

import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from siag.cli.app import FAILED
from siag.cli.early import Terminated
from siag.cli.files import MODEL, deliver, folder_for
from siag.cli.printing import stop, tell
from siag.foundations.errors import BadInput, DivergenceWarning
from siag.foundations.signals import meaning

if TYPE_CHECKING:
    from siag.live.spec import Spec
    from siag.runtimes import Watcher
    from siag.server import Snapshot
    from siag.simulation import Run


def conduct(
    spec: Spec, run: Callable[[Spec, Watcher], Run], out: Path | None, as_json: bool, given: dict[str, Any]
) -> int:
    """Run what is described, watched as the options say; write and print the result; the exit status."""
    from siag.live.monitor.dashboard import dashboard_of
    from siag.runtimes import Several

    folder = folder_for(out, MODEL)
    page = dashboard_of(spec.dashboard)
    if page is not None:
        spec = replace(spec, dashboard=page.trusting(None, None, given["insecure"]))
    watcher = _watcher(given["quiet"], as_json, given["metrics"], given["insecure"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DivergenceWarning)
        try:
            with terminable() as begun:
                result = run(replace(spec, progress=Several([watcher, begun])), watcher)
        finally:
            watcher.close()
    for warning in caught:
        kept = "; what was recorded until then is kept" if issubclass(warning.category, DivergenceWarning) else ""
        tell(f"{warning.message}{kept}")
    return _finish(result, folder, as_json, spec.folder)


@contextmanager
def terminable() -> Iterator[Watcher]:
    """Let SIGTERM end a run in order as Ctrl-C does, and the second time at once; before it has begun, as it was.

    It does so where Ctrl-C is ignored, too, as in the background of a script. The watcher that is yielded tells
    whether the run has begun.
    """
    from siag.live.interrupt import end_in_order
    from siag.live.reasons import Ending
    from siag.runtimes import Quiet

    class Begun(Quiet):
        yet = False

        def show(self, snapshot: Snapshot) -> None:
            self.yet = True

    before, begun, told = signal.getsignal(signal.SIGTERM), Begun(), list[int]()

    def end(number: int, frame: FrameType | None) -> None:
        if end_in_order(Ending.STOPPED, "SIGTERM") or (begun.yet and not told):  # it may be about to end by itself
            told.append(number)
        elif callable(before) and not told:
            before(number, frame)
        else:
            raise Terminated

    with meaning(signal.SIGTERM, end):
        yield begun


def _watcher(quiet: bool, as_json: bool, metrics: str | None, insecure: bool) -> Watcher:
    """Who is told how the run goes: a terminal, a reader of JSON lines, Prometheus."""
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
    return Several([measured, view])  # who reads of a snapshot finds its metrics


def _finish(result: Run, folder: Path | None, as_json: bool, state: str | PathLike[str] | None) -> int:
    """Write and print what came out; the exit status. `state` is where the run was saved.

    SIGTERM has nothing to end any more.
    """
    from siag.live.reasons import Ending, no_progress

    with meaning(signal.SIGTERM, lambda *_: None):
        lost = deliver(result, folder, as_json, live=True)
        tell(*lost)
        if lost and state is not None:
            tell(f"{state}: siag export reads the model from it: siag export {state} w.npy")
    about = result.about
    if about.get("failed") and result.reads[0, -1] == about.get("before", 0):
        stop(no_progress(about["failed"]), FAILED)
    if about.get("failed") and Ending(about["ending"]).deserted:
        stop(f"{about['ended']}; {about['failed'][0]}", FAILED)
    return FAILED if lost or (result.diverged >= 0).any() else 0


def reachable(host: str) -> str:
    """A name for workers to connect to: that of this machine, if all its addresses are listened on."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host

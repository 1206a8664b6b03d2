"""The commands of the live server: `siag serve`, `siag work`, `siag replay`, `siag certs`."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from siag.cli import given as made
from siag.cli.app import (
    AS_JSON,
    FAILED,
    FILES,
    NOTHING_HALF,
    TERMINATED,
    _print_json,
    _print_run,
    _save,
    _stop,
    on_interrupt,
    siag,
)
from siag.cli.given import TYPED, check_crowd, check_name, named
from siag.foundations.errors import BadInput, DivergenceWarning, SiagError

if TYPE_CHECKING:
    from siag.problems import Problem
    from siag.runtimes import Watcher
    from siag.simulation import Run

FILE = click.Path(path_type=Path)
DESCRIPTORS = 1 << 16  # files and connections a server may have open, if the system agrees
PROBLEM = "A TOML file with a table [problem], or module:attribute"
NETWORK = ("host", "port", "key", "tokens", "insecure")
KEPT = ("folder", "durable", "trace", "record", "linger", "forget", "patience")
STAYS = "what was reported stays with the server"
MOST_NUMBERS = 1000  # of w, in a line of JSON


class Terminated(KeyboardInterrupt):
    """SIGTERM came: a worker leaves as if it were interrupted."""


@siag.command(epilog="Example: siag serve --workers 2 --dimension 3 --eta 0.05 --iterations 10000 --out out")
@click.option("--workers", type=int, help="How many workers there are.")
@click.option("--name", "names", multiple=True, help="A worker's name; repeat it, instead of --workers.")
@click.option("--dimension", type=int, help="How many parameters the model has; it starts from 0.")
@click.option("--w0", type=FILE, help="A .npy file with the first parameters, instead of --dimension.")
@click.option("--problem", help=f"{PROBLEM}; instead of --workers and --dimension.")
@click.option("--seed", type=int, help="Of the problem's samples.  [default: of the file's [run], or 0]")
@click.option("--method", default="SIAG", show_default=True, help="One of siag.methods: SGD, SIAG(wait=1.0), …")
@click.option("--eta", type=float, help="A constant step.")
@click.option("--beta", type=float, help="β of the step β/(t+γ), instead of --eta.")
@click.option("--gamma", type=float, help="γ of the step β/(t+γ).")
@click.option("--every", type=int, help="Step after every so many reports.  [default: 1]")
@click.option("--tick", type=float, help="Step every so many seconds, instead of --every.")
@click.option("--iterations", type=int, help="End after so many steps.")
@click.option("--seconds", type=float, help="End so many seconds after the first report; anew in each session.")
@click.option("--linger", type=float, default=600.0, show_default=True, help="Seconds to wait when nobody is there.")
@click.option("--forget", type=float, help="A worker that is away for so many seconds has left.")
@click.option("--patience", type=float, help="A worker silent for so many seconds is shown as stalled.  [default: 10]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=7460, show_default=True, help="Port to listen on; 0: any.")
@click.option("--cert", type=FILE, help="TLS: the server's certificate (PEM).")
@click.option("--key", type=FILE, help="TLS: its private key (PEM).")
@click.option("--tokens", type=FILE, help="tokens.json: who may write which row.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS or tokens.")
@click.option("--folder", type=FILE, help="Where the state is saved; a server started again goes on from there.")
@click.option("--durable", is_flag=True, help="No acknowledged report is ever lost.")
@click.option("--trace", type=FILE, help="A file for who reported when, for siag replay.")
@click.option(
    "--departed", default="keep", show_default=True, help="Rows of those that left: keep, drop, or a half-life."
)
@click.option("--max-age", type=int, help="Refuse reports older than so many versions.")
@click.option("--max-norm", type=float, help="Refuse reports of a larger norm.")
@click.option("--max-jump", type=float, default=1e4, show_default=True, help="… or so many times a worker's largest.")
@click.option("--strikes", type=int, default=10, show_default=True, help="Turn a worker away after so many in a row.")
@click.option("--connections", type=int, help="At most so many at a time.  [default: 2000, or twice the workers]")
@click.option("--hello", type=float, help="Seconds for a new connection to say who it is.  [default: 10]")
@click.option("--frame", type=float, help="Seconds for a message to arrive whole; long ones have more.  [default: 30]")
@click.option("--loss", help="module:function, the loss of w to show and record.")
@click.option("--record", type=int, default=200, show_default=True, help="Points of the curve to keep, about.")
@click.option("--out", type=FILE, help="Folder for w.npy, run.npz, run.csv, run.png and run.svg.")
@click.option("--metrics", help="PORT or HOST:PORT for Prometheus metrics; only this machine, unless --insecure.")
@click.option("--quiet", is_flag=True, help="Show nothing while it runs.")
@click.option("--json", "as_json", is_flag=True, help="Print lines of JSON instead of text; the last is the result.")
def serve(out: Path | None, as_json: bool, **given: Any) -> int:
    """Serve workers that connect over a network.

    With --json, a line for each look at the server ("snapshot") and each remark ("event"); the last has "result": true,
    the curve, and w unless it has more than 1000 numbers.

    Exit status 0 at the end, and also if it is stopped with Ctrl-C or SIGTERM, which is how a server without an end is
    stopped; 1 if it diverges, or if no report was accepted and a worker failed; 2 if there is a mistake.
    """
    import numpy as np

    from siag.foundations.files import writable_folder
    from siag.runtimes import Until
    from siag.runtimes import serve as run_server
    from siag.runtimes.tcp_worker import shown
    from siag.server import Guard

    folder = None if out is None else writable_folder("out", out, (*FILES, "w.npy"))
    problem, seed = _problem(given["problem"], given["seed"])
    check_crowd(given, problem)
    with named(TYPED | ({"workers": "name"} if given["names"] else {})):
        options: dict[str, Any] = {
            "w0": made.start(given["w0"], given["dimension"], problem),
            "workers": list(given["names"]) or given["workers"],
            "method": made.method(given["method"]),
            "step": made.step(given["eta"], given["beta"], given["gamma"]),
            "until": Until(iterations=given["iterations"], seconds=given["seconds"]),
            "server": made.server(given["every"], given["tick"]),
            "guard": Guard(
                age=given["max_age"], norm=given["max_norm"], jump=given["max_jump"], strikes=given["strikes"]
            ),
            "limits": made.limits(given, problem),
            "departed": made.departed(given["departed"]),
            "loss": None if given["loss"] is None else _loss(given["loss"]),
            "problem": problem,
            "seed": seed,
            "certificate": given["cert"],
        }
        options |= {name: given[name] for name in NETWORK + KEPT}
        _allow_connections()
        watcher = _watcher(given["quiet"], as_json, given["metrics"], given["insecure"])

        def ready(host: str, port: int) -> None:
            command = f"siag work {shown((_reachable(host), port))} {_workers_words(given, seed)}"
            watcher.event(f"listening on {shown((host, port))}; start workers with: {command}")

        result = _plainly(watcher, run_server, **options, progress=watcher, ready=ready)
    if folder is not None:
        _save(result, folder)
        np.save(folder / "w.npy", result.w[0])
    if as_json:
        w = result.w[0].tolist() if result.w[0].size <= MOST_NUMBERS else None
        _print_json({"result": True, **_document(result), "w": w})
    else:
        print(f"w           {np.array2string(result.w[0], precision=6, threshold=10)}")
        _print_run(result, folder, ("w.npy",))
    if _fruitless(result):
        _stop(f"no worker has reported anything; {result.about['failed'][0]}", FAILED)
    return _status(result)


@siag.command(epilog="Example: siag work 192.168.0.7:7460 --gradient job:gradient --stream job:stream")
@click.argument("address")
@click.option("--gradient", help="module:function, called with w and a sample.")
@click.option("--stream", help="module:attribute: samples, or a function that makes them.")
@click.option("--problem", help=f"{PROBLEM}, as the server's; instead of --gradient and --stream.")
@click.option(
    "--seed", type=int, help="Of the problem's samples, as the server's.  [default: of the file's [run], or 0]"
)
@click.option("--name", help="Which of the server's workers this is; by default one that is free.")
@click.option("--token", type=FILE, help="A file with this worker's secret; SIAG_TOKEN does as well.")
@click.option("--tls", is_flag=True, help="Talk over TLS, trusting the system's authorities.")
@click.option("--ca", type=FILE, help="Talk over TLS, trusting the authority of this file.")
@click.option("--insecure", is_flag=True, help="Send the token even without TLS beyond this machine.")
@click.option(
    "--give-up", type=float, help="End, with status 1, after so many seconds without a server.  [default: never]"
)
@click.option("--quiet", is_flag=True, help="Say nothing.")
def work(address: str, gradient: str | None, stream: str | None, quiet: bool, **given: Any) -> None:
    """Work for the server at ADDRESS (host:port) until it is done or the stream ends.

    Exit status 0 then; 1 if the gradient, the stream or the problem fails, or there was no server for as long as
    --give-up says; 2 if there is a mistake on the command line, or the server does not want this worker; 130 if it is
    interrupted with Ctrl-C, and 143 with SIGTERM. In either case it tells the server that it leaves.
    """
    from siag.runtimes import work as run_worker
    from siag.runtimes.task import last_words
    from siag.runtimes.tcp_worker import GaveUp

    def say(text: str) -> None:
        if not quiet:
            print(f"siag: {text}", file=sys.stderr, flush=True)

    check_name(given["name"])
    compute = None if gradient is None else reference("gradient", gradient)
    samples = None if stream is None else reference("stream", stream)
    problem, seed = _problem(given.pop("problem"), given.pop("seed"))
    on_interrupt(STAYS)
    try:
        with named(TYPED), _terminable():
            run_worker(address, compute, samples, problem=problem, seed=seed, say=say, **given)
    except Terminated:
        _stop(f"ended by SIGTERM; {STAYS}", TERMINATED)
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        notes = getattr(error, "__notes__", ())  # where it was, if it was at work
        if isinstance(error, SiagError | SystemExit) and not notes and not isinstance(error, GaveUp):
            raise
        where = "".join(f", {note}" for note in notes)
        _stop(f"{last_words(error)}{where}", FAILED)


@siag.command(epilog="Example: siag replay run.trace.gz --out out")
@click.argument("trace", type=FILE)
@click.option("--problem", help=f"{PROBLEM}, if the trace does not say enough of it.")
@click.option("--seed", type=int, help="Of the samples.  [default: as the trace says]")
@click.option("--out", type=FILE, help="Folder for run.npz, run.csv, run.png and run.svg.")
@AS_JSON
def replay(trace: Path, problem: str | None, seed: int | None, out: Path | None, as_json: bool) -> int:
    """Run a live run again from its TRACE: bit for bit, for problems whose samples are seeded."""
    from siag.experiments.replay import replay as run_again
    from siag.foundations.files import writable_folder

    on_interrupt(NOTHING_HALF)
    folder = None if out is None else writable_folder("out", out, FILES)
    given = None if problem is None else read_problem(problem)[0]
    result = run_again(trace, given, seed=seed)
    if folder is not None:
        _save(result, folder)
    if as_json:
        _print_json(_document(result))
    else:
        _print_run(result, folder)
    return _status(result)


@siag.command(epilog="Example: siag certs secrets --host server.example --workers 8")
@click.argument("folder", type=FILE)
@click.option("--host", "hosts", multiple=True, help="A name or address of the server; may be repeated.")
@click.option("--workers", type=int, required=True, help="How many tokens to make.")
@click.option("--days", type=int, default=365, show_default=True, help="How long the certificate is valid.")
def certs(folder: Path, hosts: tuple[str, ...], workers: int, days: int) -> None:
    """Make a certificate for the server and a token for every worker, in FOLDER."""
    from siag.runtimes.certificates import make_certificates

    with named({"hosts": "host"}):
        written = make_certificates(folder, hosts=hosts, workers=workers, days=days)
    for path in written:
        print(path)


def reference(parameter: str, text: str) -> Any:
    """What "module:attribute" names; modules are looked for in the current folder too."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise BadInput(parameter, text, 'of the form "module:attribute"')
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)  # for good: what it imports later is found as well
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a module of the user's may do anything
        raise BadInput(parameter, text, "something that can be imported", f"importing it raised {error!r}") from error
    return found


def read_problem(text: str) -> tuple[Problem, int]:
    """The problem of a TOML file, or "module:attribute", which may be a function that makes it; and the file's seed."""
    from siag.experiments import config
    from siag.problems import Problem

    if os.path.exists(text) or ":" not in text:
        return config.read_problem(text)
    found = reference("problem", text)
    if not isinstance(found, Problem) and callable(found):
        try:
            found = found()
        except Exception as error:  # whatever the user's code raises
            remedy = f"it raised {type(error).__name__}: {error}"
            raise BadInput("problem", text, "a Problem, or a function that makes it", remedy) from error
    if not isinstance(found, Problem):
        raise BadInput("problem", text, "a Problem, or a function that makes it")
    return found, 0


def _problem(text: str | None, seed: int | None) -> tuple[Problem | None, int]:
    """The problem and the seed of its samples."""
    if text is None:
        if seed is not None:
            raise BadInput("seed", seed, "given with --problem")
        return None, 0
    problem, usual = read_problem(text)
    return problem, usual if seed is None else seed


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM interrupt, as Ctrl-C does; only the main thread can have it so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    usual = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


def _reachable(host: str) -> str:
    """A name for workers to connect to: that of this machine, if all its addresses are listened on."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host


def _workers_words(given: dict[str, Any], seed: int) -> str:
    """What `siag work` is to be started with."""
    if given["problem"] is None:
        words = ["--gradient … --stream …"]
    else:
        words = [f"--problem {given['problem']}"] + ([f"--seed {seed}"] if given["seed"] is not None else [])
    words += ["--ca …"] if given["cert"] is not None else []
    words += ["--token …"] if given["tokens"] is not None else []
    return " ".join(words)


def _plainly(watcher: Watcher, run: Callable[..., Run], **named: Any) -> Run:
    """Run; close the watcher in any case, and say in a line what there is to be warned of."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DivergenceWarning)
            result = run(**named)
    finally:
        watcher.close()
    for warning in caught:
        kept = "; what was recorded until then is kept" if issubclass(warning.category, DivergenceWarning) else ""
        print(f"siag: {warning.message}{kept}", file=sys.stderr)
    return result


def _allow_connections() -> None:
    """Let this process have as many connections as the system allows."""
    try:
        import resource
    except ImportError:
        return
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if most == resource.RLIM_INFINITY else min(DESCRIPTORS, most)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, wanted), most))


def _loss(text: str) -> Callable[[Any], float]:
    """The user's loss; what it raises becomes one line."""
    function = reference("loss", text)

    def loss(w: Any) -> float:
        try:
            return float(function(w))
        except Exception as error:
            raise BadInput("loss", text, "a function of w", f"it raised {type(error).__name__}: {error}") from error

    return loss


def _watcher(quiet: bool, as_json: bool, metrics: str | None, insecure: bool) -> Watcher:
    from siag.runtimes import JsonLines, Metrics, Quiet, Several, Terminal
    from siag.runtimes.tcp_worker import shown

    view: Watcher = Quiet() if quiet else JsonLines(sys.stdout) if as_json else Terminal()
    if metrics is None:
        return view
    host, colon, port = metrics.rpartition(":")
    if not port.isascii() or not port.isdigit() or (colon and not host):
        raise BadInput("metrics", metrics, "a port, or host:port")
    with named({"port": "metrics", "host": "metrics"}):
        measured = Metrics(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port), insecure=insecure)
    view.event(f"metrics at http://{shown((_reachable(measured.host), measured.port))}/metrics")
    return Several([view, measured])


def _document(result: Run) -> dict[str, Any]:
    """A run, for JSON."""
    return {**result.about, **{name: values.tolist() for name, values in result.table().items()}}


def _status(result: Run) -> int:
    """Exit status 1 if it diverged."""
    return FAILED if (result.diverged >= 0).any() else 0


def _fruitless(result: Run) -> bool:
    """Whether a worker has failed, and none has reported anything since the server was started.

    A run that went on begins with the reports it had; the first point of a new one may be of the first reports, if it
    never stepped.
    """
    before = result.samples[0, 0] if result.t[0] > 0 else 0
    return bool(result.about.get("failed")) and bool(result.samples[0, -1] == before)

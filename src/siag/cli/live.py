"""The commands of the live server: `siag serve`, `siag work`, `siag replay`, `siag certs`."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siag.cli.app import AS_JSON, FAILED, FILES, _print_json, _print_run, _save, _stop, siag
from siag.foundations.errors import BadInput, DivergenceWarning, Missing, SiagError

if TYPE_CHECKING:
    from siag.methods import Method
    from siag.runtimes import Watcher
    from siag.server import Departed
    from siag.simulation import Run
    from siag.steps import Step

FILE = click.Path(path_type=Path)
DESCRIPTORS = 1 << 16  # files and connections a server may have open, if the system agrees


@siag.command(epilog="Example: siag serve --workers 2 --dimension 3 --eta 0.05 --iterations 10000 --out out")
@click.option("--workers", type=int, help="How many workers there are.")
@click.option("--name", "names", multiple=True, help="A worker's name; repeat it, instead of --workers.")
@click.option("--dimension", type=int, help="How many parameters the model has; it starts from 0.")
@click.option("--w0", type=FILE, help="A .npy file with the first parameters, instead of --dimension.")
@click.option("--method", default="SIAG", show_default=True, help="SIAG or SGD.")
@click.option("--eta", type=float, help="A constant step.")
@click.option("--beta", type=float, help="β of the step β/(t+γ), instead of --eta.")
@click.option("--gamma", type=float, help="γ of the step β/(t+γ).")
@click.option("--every", type=int, help="Step after every so many reports.  [default: 1]")
@click.option("--tick", type=float, help="Step every so many seconds, instead of --every.")
@click.option("--iterations", type=int, help="End after so many steps.")
@click.option("--seconds", type=float, help="End so many seconds after the first report.")
@click.option("--linger", type=float, default=600.0, show_default=True, help="Seconds to wait when nobody is there.")
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
@click.option("--loss", help="module:function, the loss of w to show and record.")
@click.option("--out", type=FILE, help="Folder for w.npy, run.npz, run.csv, run.png and run.svg.")
@click.option("--metrics", type=int, help="Port for Prometheus metrics, on this machine.")
@click.option("--quiet", is_flag=True, help="Show nothing while it runs.")
@AS_JSON
def serve(out: Path | None, as_json: bool, **given: Any) -> int:
    """Serve workers that connect over a network.

    With --json, one line of JSON for each look at the server, and one for the result. Exit status 1 if it diverges.
    """
    import numpy as np

    from siag.foundations.files import writable_folder
    from siag.runtimes import Until
    from siag.runtimes import serve as run_server
    from siag.runtimes.tcp_worker import shown
    from siag.server import Guard

    folder = None if out is None else writable_folder("out", out, (*FILES, "w.npy"))
    if bool(given["names"]) == (given["workers"] is not None):
        raise Missing("workers", "give --workers N, or --name A --name B …")
    if given["tick"] is not None and given["every"] is not None:
        raise BadInput("tick", given["tick"], "given without --every")
    w0 = _start(given["w0"], given["dimension"])
    _allow_connections()
    loss = None if given["loss"] is None else _loss(given["loss"])
    watcher = _watcher(given["quiet"], as_json, given["metrics"])

    def ready(host: str, port: int) -> None:
        place = shown((host, port))
        watcher.event(f"listening on {place}; start workers with: siag work {place} --gradient … --stream …")

    result = _plainly(
        watcher,
        run_server,
        w0,
        list(given["names"]) or given["workers"],
        _method(given["method"]),
        _step(given["eta"], given["beta"], given["gamma"]),
        Until(iterations=given["iterations"], seconds=given["seconds"]),
        host=given["host"],
        port=given["port"],
        certificate=given["cert"],
        key=given["key"],
        tokens=given["tokens"],
        insecure=given["insecure"],
        server=_server(given["every"], given["tick"]),
        guard=Guard(age=given["max_age"], norm=given["max_norm"], jump=given["max_jump"]),
        departed=_departed(given["departed"]),
        loss=loss,
        folder=given["folder"],
        durable=given["durable"],
        trace=given["trace"],
        progress=watcher,
        linger=given["linger"],
        ready=ready,
    )
    if folder is not None:
        _save(result, folder)
        np.save(folder / "w.npy", result.w[0])
    if not as_json:
        print(f"w           {np.array2string(result.w[0], precision=6, threshold=10)}")
    return _show(result, folder, as_json)


@siag.command(epilog="Example: siag work 192.168.0.7:7460 --gradient job:gradient --stream job:stream")
@click.argument("address")
@click.option("--gradient", required=True, help="module:function, called with w and a sample.")
@click.option("--stream", required=True, help="module:attribute: samples, or a function that makes them.")
@click.option("--name", help="Which of the server's workers this is; by default one that is free.")
@click.option("--token", type=FILE, help="A file with this worker's secret; SIAG_TOKEN does as well.")
@click.option("--tls", is_flag=True, help="Talk over TLS, trusting the system's authorities.")
@click.option("--ca", type=FILE, help="Talk over TLS, trusting the authority of this file.")
@click.option("--insecure", is_flag=True, help="Send the token even without TLS beyond this machine.")
@click.option("--give-up", type=float, help="End after so many seconds without a server; by default never.")
@click.option("--quiet", is_flag=True, help="Say nothing.")
def work(address: str, gradient: str, stream: str, quiet: bool, **given: Any) -> None:
    """Work for the server at ADDRESS (host:port) until it is done or the stream ends.

    Exit status 0 then, 1 if the gradient or the stream fails, 2 if the server does not want this worker.
    """
    from siag.runtimes import work as run_worker
    from siag.runtimes.task import last_words

    def say(text: str) -> None:
        if not quiet:
            print(f"siag: {text}", file=sys.stderr, flush=True)

    compute, samples = reference("gradient", gradient), reference("stream", stream)
    try:
        run_worker(
            address,
            compute,
            samples,
            name=given["name"],
            token=given["token"],
            tls=given["tls"],
            ca=given["ca"],
            insecure=given["insecure"],
            give_up=given["give_up"],
            say=say,
        )
    except SiagError:
        raise
    except Exception as error:  # whatever the user's code raises
        where = "".join(f", {note}" for note in getattr(error, "__notes__", ()))
        _stop(f"{last_words(error)}{where}", FAILED)


@siag.command(epilog="Example: siag replay run.trace.gz --out out")
@click.argument("trace", type=FILE)
@click.option("--out", type=FILE, help="Folder for run.npz, run.csv, run.png and run.svg.")
@AS_JSON
def replay(trace: Path, out: Path | None, as_json: bool) -> int:
    """Run a live run again from its TRACE: bit for bit, for problems whose samples are seeded."""
    from siag.experiments.replay import replay as run_again
    from siag.foundations.files import writable_folder

    folder = None if out is None else writable_folder("out", out, FILES)
    result = run_again(trace)
    if folder is not None:
        _save(result, folder)
    return _show(result, folder, as_json)


@siag.command(epilog="Example: siag certs secrets --host server.example --workers 8")
@click.argument("folder", type=FILE)
@click.option("--host", "hosts", multiple=True, help="A name or address of the server; may be repeated.")
@click.option("--workers", type=int, required=True, help="How many tokens to make.")
@click.option("--days", type=int, default=365, show_default=True, help="How long the certificate is valid.")
def certs(folder: Path, hosts: tuple[str, ...], workers: int, days: int) -> None:
    """Make a certificate for the server and a token for every worker, in FOLDER."""
    from siag.runtimes.certificates import make_certificates

    for path in make_certificates(folder, hosts=hosts, workers=workers, days=days):
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


def _plainly(watcher: Watcher, run: Callable[..., Run], *arguments: Any, **named: Any) -> Run:
    """Run; close the watcher in any case, and say in a line what there is to be warned of."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DivergenceWarning)
            result = run(*arguments, **named)
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


def _start(file: Path | None, dimension: int | None) -> Any:
    import numpy as np

    from siag.foundations import check
    from siag.foundations.errors import BadFile

    if (file is None) == (dimension is None):
        raise Missing("dimension", "give --dimension D, or --w0 FILE.npy")
    if file is None:
        return np.zeros(check.integer("dimension", dimension))
    try:
        return check.floats("w0", np.load(file, allow_pickle=False), (None,))
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadFile(f"{file}: not a .npy file of numbers; write it with numpy.save") from None


def _method(name: str) -> Method:
    from siag import methods
    from siag.experiments.config import KINDS

    if name not in KINDS["method"]:
        raise BadInput("method", name, "one of " + ", ".join(KINDS["method"]))
    return getattr(methods, name)()  # type: ignore[no-any-return]  # one of the classes above


def _step(eta: float | None, beta: float | None, gamma: float | None) -> Step:
    from siag.steps import Constant, Harmonic

    if eta is not None and beta is None and gamma is None:
        return Constant(eta)
    if eta is None and beta is not None and gamma is not None:
        return Harmonic(beta, gamma)
    raise Missing("eta", "give --eta for a constant step, or --beta and --gamma for β/(t+γ)")


def _server(every: int | None, tick: float | None) -> Any:
    from siag.activity import EveryArrivals, Tick

    return EveryArrivals(1 if every is None else every) if tick is None else Tick(tick)


def _departed(text: str) -> Departed:
    from siag.server import DROP, KEEP, Departed

    named = {"keep": KEEP, "drop": DROP}
    if text in named:
        return named[text]
    try:
        return Departed(half_life=float(text))
    except ValueError:
        raise BadInput("departed", text, "keep, drop, or a half-life in iterations") from None


def _watcher(quiet: bool, as_json: bool, metrics: int | None) -> Watcher:
    from siag.runtimes import JsonLines, Metrics, Quiet, Several, Terminal

    shown: Watcher = Quiet() if quiet else JsonLines(sys.stdout) if as_json else Terminal()
    if metrics is None:
        return shown
    measured = Metrics(port=metrics)
    shown.event(f"metrics at http://127.0.0.1:{measured.port}/metrics")
    return Several([shown, measured])


def _show(result: Run, folder: Path | None, as_json: bool) -> int:
    """The result; exit status 1 if it diverged."""
    if as_json:
        _print_json({**result.about, **{name: values.tolist() for name, values in result.table().items()}})
    else:
        _print_run(result, folder)
    return FAILED if (result.diverged >= 0).any() else 0

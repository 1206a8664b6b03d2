"""The commands of the live server: `siag serve`, `siag work`, `siag replay`, `siag certs`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from siag.cli.app import (
    AS_JSON,
    FAILED,
    NOTHING_HALF,
    TERMINATED,
    _print_json,
    _print_run,
    _stop,
    on_interrupt,
    siag,
    tell,
)
from siag.cli.early import Terminated
from siag.cli.files import FILES, MODEL, keep
from siag.cli.given import (
    TYPED,
    check_crowd,
    check_name,
    limits,
    named,
    problem_of,
    read_problem,
    reference,
    training,
)
from siag.cli.options import ABSENCE, CURVE, DURABLE, END, FILE, GUARD, METHOD, PROBLEM, SEED, SHOWN, START, takes
from siag.cli.running import document, finish, plainly, reachable, status, terminable, watcher_of
from siag.foundations.errors import SiagError

DESCRIPTORS = 1 << 16  # files and connections a server may have open, if the system agrees
NETWORK = ("host", "port", "key", "tokens", "insecure", "linger")
STAYS = "what was reported stays with the server"


@siag.command(epilog="Example: siag serve --workers 2 --dimension 3 --eta 0.05 --iterations 10000 --out out")
@click.option("--workers", type=int, help="How many workers there are.")
@click.option("--name", "names", multiple=True, help="A worker's name; repeat it, instead of --workers.")
@takes(START)
@click.option("--problem", help=f"{PROBLEM}; instead of --workers and --dimension.")
@takes(SEED, METHOD, END)
@click.option(
    "--linger",
    type=float,
    default=600.0,
    show_default=True,
    help="Seconds to wait when nobody is there; inf: for ever.",
)
@takes(ABSENCE)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=7460, show_default=True, help="Port to listen on; 0: any.")
@click.option("--cert", type=FILE, help="TLS: the server's certificate (PEM).")
@click.option("--key", type=FILE, help="TLS: its private key (PEM).")
@click.option("--tokens", type=FILE, help="tokens.json: who may write which row.")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without TLS or tokens.")
@click.option("--folder", type=FILE, help="Where the state is saved; a server started again goes on from there.")
@takes(DURABLE)
@click.option("--trace", type=FILE, help="A file for who reported when, for siag replay.")
@takes(GUARD)
@click.option("--connections", type=int, help="At most so many at a time.  [default: 2000, or twice the workers]")
@click.option("--hello", type=float, help="Seconds for a new connection to say who it is.  [default: 10]")
@click.option("--frame", type=float, help="Seconds for a message to arrive whole; long ones have more.  [default: 30]")
@takes(CURVE, SHOWN)
def serve(out: Path | None, as_json: bool, **given: Any) -> int:
    """Serve workers that connect over a network.

    With --json, a line for each look at the server ("snapshot") and each remark ("event"); the last has "result": true,
    the curve, and w unless it has more than 1000 numbers.

    Exit status 0 at the end, and also if it is stopped with Ctrl-C or SIGTERM, which is how a server without an end is
    stopped; 1 if it diverges, if a worker has failed and no report was accepted or nobody was there in the end, or if a
    file cannot be written; 2 if there is a mistake.
    """
    from siag.foundations.files import writable_folder
    from siag.live.transports.tcp.worker import shown
    from siag.runtimes import serve as run_server

    folder = None if out is None else writable_folder("out", out, (*FILES, MODEL))
    problem, seed = problem_of(given["problem"], given["seed"])
    check_crowd(given, problem)
    with named(TYPED | ({"workers": "name"} if given["names"] else {})):
        options: dict[str, Any] = {
            **training(given, problem, seed),
            "workers": list(given["names"]) or given["workers"],
            "limits": limits(given, problem),
            "certificate": given["cert"],
            **{name: given[name] for name in NETWORK},
        }
        _allow_connections()
        watcher = watcher_of(given["quiet"], as_json, given["metrics"], given["insecure"])

        def ready(host: str, port: int) -> None:
            command = f"siag work {shown((reachable(host), port))} {_workers_words(given, seed)}"
            watcher.event(f"listening on {shown((host, port))}; start workers with: {command}")

        with terminable():
            result = plainly(watcher, run_server, **options, progress=watcher, ready=ready)
    return finish(result, folder, as_json, given["folder"])


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
    from siag.live.task import last_words
    from siag.live.worker import GaveUp
    from siag.runtimes import work as run_worker

    def say(text: str) -> None:
        if not quiet:
            print(f"siag: {text}", file=sys.stderr, flush=True)

    check_name(given["name"])
    compute = None if gradient is None else reference("gradient", gradient)
    samples = None if stream is None else reference("stream", stream)
    problem, seed = problem_of(given.pop("problem"), given.pop("seed"))
    on_interrupt(STAYS)
    try:
        with named(TYPED), terminable():
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
    written, lost = ([], []) if folder is None else keep(result, folder)
    if as_json:
        _print_json(document(result))
    else:
        _print_run(result, folder, written)
    tell(lost)
    return FAILED if lost else status(result)


@siag.command(epilog="Example: siag certs secrets --host server.example --workers 8")
@click.argument("folder", type=FILE)
@click.option("--host", "hosts", multiple=True, help="A name or address of the server; may be repeated.")
@click.option("--workers", type=int, required=True, help="How many tokens to make.")
@click.option("--days", type=int, default=365, show_default=True, help="How long the certificate is valid.")
def certs(folder: Path, hosts: tuple[str, ...], workers: int, days: int) -> None:
    """Make a certificate for the server and a token for every worker, in FOLDER."""
    from siag.live.certificates import make_certificates

    with named({"hosts": "host"}):
        written = make_certificates(folder, hosts=hosts, workers=workers, days=days)
    for path in written:
        print(path)


def _workers_words(given: dict[str, Any], seed: int) -> str:
    """What `siag work` is to be started with."""
    if given["problem"] is None:
        words = ["--gradient … --stream …"]
    else:
        words = [f"--problem {given['problem']}"] + ([f"--seed {seed}"] if given["seed"] is not None else [])
    words += ["--ca …"] if given["cert"] is not None else []
    words += ["--token …"] if given["tokens"] is not None else []
    return " ".join(words)


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

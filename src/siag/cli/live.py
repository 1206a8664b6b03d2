"""The commands of live runs: `siag serve`, `siag train`, `siag work`, `siag replay`, `siag certs`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siag.cli.app import AS_JSON, FAILED, FILE, NOTHING_HALF, on_interrupt, siag
from siag.cli.early import Terminated
from siag.cli.files import deliver, folder_for
from siag.cli.given import HERE, Described
from siag.cli.options import PROBLEM, LiveCommand, relay_options, serve_options, train_options
from siag.cli.printing import stop, tell
from siag.cli.running import conduct, reachable, terminable
from siag.foundations.errors import BadInput, Missing, SiagError

if TYPE_CHECKING:
    from siag.live.serve import Network
    from siag.live.spec import Spec
    from siag.runtimes import Watcher
    from siag.simulation import Run

MEANT_ABOVE = ("name", "token", "tls", "ca", "give_up")  # options of a relay that are about its root


@siag.command(
    cls=LiveCommand,
    more=serve_options,
    epilog="Example: siag serve --workers 2 --dimension 3 --iterations 10000 --out out",
)
@click.argument("file", type=FILE, required=False)
def serve(file: Path | None, out: Path | None, as_json: bool, **given: Any) -> int:
    """Serve workers that connect over a network.

    FILE is a TOML file that describes the run (see docs/howto/experiments.md); options override what it says.

    With --json, a line for each look at the server ("snapshot") and each remark ("event"); the last has "result": true,
    the curve, and w unless it has more than 1000 numbers. On SIGHUP it reads the tokens again, and workers that were
    refused for good may come again.

    Exit status 0 at the end, and also if it is stopped with Ctrl-C or SIGTERM, which is how a server without an end is
    stopped; 1 if it diverges, if a worker has failed and no report was accepted or no worker was left at the end,
    or if a file cannot be written; 2 if there is a mistake.
    """
    from siag.live.serve import serve_spec
    from siag.live.transports.tcp.worker import shown

    run = Described(given, file, serving=True)
    with run.checked():
        spec = run.spec.validate(serving=True)
        network = run.network(spec.n)

        def start(spec: Spec, watcher: Watcher) -> Run:
            def ready(host: str, port: int) -> None:
                command = f"siag work {shown((reachable(host), port))} {_workers_words(given, spec, network)}"
                watcher.event(f"listening on {shown((host, port))}; start workers with: {command}")

            return serve_spec(spec, network, ready)

        return conduct(spec, start, out, as_json, given | {"insecure": network.insecure})


@siag.command(
    cls=LiveCommand,
    more=train_options,
    epilog="Example: siag train --gradient job:gradient --stream job:ones --dimension 3",
)
@click.argument("file", type=FILE, required=False)
def train(file: Path | None, out: Path | None, as_json: bool, **given: Any) -> int:
    """Train from many streams, each read by a worker of its own.

    FILE is a TOML file that describes the run (see docs/howto/experiments.md); options override what it says.

    The workers are processes of this machine, or with --runtime ray of a cluster; with --runtime simulated they are
    rehearsed in virtual time. What is shown and printed is as with siag serve.

    Exit status 0 at the end, and also if it is stopped with Ctrl-C or SIGTERM, which end it in order; 1 if it diverges
    or fails, if it ends because no worker is there and one has failed, or if a file cannot be written; 2 if there is a
    mistake.
    """
    from siag.live.train import run_spec

    run = Described(given, file)
    with run.checked():
        spec, runtime = run.spec, run.runtime
        return conduct(spec, lambda shown, _: run_spec(shown, runtime), out, as_json, given)


@siag.command(epilog="Example: siag work 192.168.0.7:7460 --gradient job:gradient --stream job:stream")
@click.argument("address")
@click.option("--gradient", help="module:function, called with w and a sample.")
@click.option("--stream", help="module:attribute: samples, or a function that makes them.")
@click.option("--problem", help=f"{PROBLEM}, as the server's; instead of --gradient and --stream.")
@click.option(
    "--seed", type=int, help="Seed of the problem's samples, as the server's.  [default: of the file's [run], or 0]"
)
@click.option("--name", help="Which of the server's workers this is; by default one that is free.")
@click.option("--token", type=FILE, help="A file with this worker's secret; SIAG_TOKEN does as well.")
@click.option("--tls", is_flag=True, help="Talk over TLS, trusting the system's authorities.")
@click.option("--ca", type=FILE, help="Talk over TLS, trusting the authority of this file.")
@click.option("--insecure", is_flag=True, help="Send the token even without TLS beyond this machine.")
@click.option(
    "--give-up", type=float, help="End, with status 1, after this many seconds without a server.  [default: never]"
)
@click.option("--quiet", is_flag=True, help="Say nothing.")
def work(
    address: str, gradient: str | None, stream: str | None, problem: str | None, quiet: bool, **given: Any
) -> None:
    """Work for the server at ADDRESS (host:port) until it is done or the stream ends.

    Exit status 0 then; 1 if the gradient, the stream or the problem fails, or there was no server for as long as
    --give-up says; 2 if there is a mistake on the command line, or the server does not want this worker; 130 if it is
    interrupted with Ctrl-C, and 143 with SIGTERM. In either case it tells the server that it leaves.
    """
    from siag.experiments.config import problem_named
    from siag.experiments.references import reference
    from siag.foundations.last_words import last_words
    from siag.live.protocol.worker import GaveUp
    from siag.live.spec import renamed
    from siag.runtimes import work as run_worker

    if given["name"] == "":
        raise BadInput("name", "", "not empty")
    if gradient is not None:
        given["gradient"] = reference("gradient", gradient, HERE)
    if stream is not None:
        given["stream"] = reference("stream", stream, HERE)
    usual = 0
    if problem is not None:
        given["problem"], usual = problem_named(problem, HERE)
    if given["seed"] is None:
        given["seed"] = usual
    on_interrupt("what was reported stays with the server")
    try:
        with renamed({"give_up": "give-up"}), terminable():
            run_worker(address, say=(lambda text: None) if quiet else tell, **given)
    except Terminated:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        notes = getattr(error, "__notes__", ())  # where it was, if it was at work
        if isinstance(error, SiagError | SystemExit) and not notes and not isinstance(error, GaveUp):
            raise
        stop(f"{last_words(error)}{''.join(f', {note}' for note in notes)}", FAILED)


@siag.command(
    cls=LiveCommand,
    more=relay_options,
    epilog="Example: siag relay 192.168.0.7:7460 --workers 200 --port 7470",
)
@click.argument("address")
@click.option("--name", help="Which of the root's workers this is; by default one that is free.")
@click.option("--token", type=FILE, help="A file with this relay's secret; SIAG_TOKEN does as well.")
@click.option("--tls", is_flag=True, help="Talk to the root over TLS, trusting the system's authorities.")
@click.option("--ca", type=FILE, help="Talk to the root over TLS, trusting the authority of this file.")
@click.option(
    "--give-up", type=float, help="End, with status 1, after this many seconds without a root.  [default: never]"
)
def relay(address: str, as_json: bool, **given: Any) -> int:
    """Serve workers of the server at ADDRESS (host:port), the root, and send it the sum of what they send.

    To its workers it is a server as any; to the root it is one worker that counts for many. The root must allow that:
    siag serve --max-weight, or a token with one. What is shown and printed is as with siag serve.

    Exit status 0 when the root is done or all workers have left, and if it is stopped with Ctrl-C or SIGTERM: then, or
    if it is killed, the root keeps its last sum, workers keep trying, and the same command goes on. 1 if there was no
    root for as long as --give-up says; 2 if there is a mistake, or the root does not want this relay.
    """
    from siag.live.protocol.worker import GaveUp
    from siag.live.relays.relay import Above, Relay
    from siag.live.spec import renamed
    from siag.live.transports.tcp.worker import shown

    said: list[Any] = [(lambda text: None) if given["quiet"] else tell]  # on the view, once there is one

    def say(text: str) -> None:
        said[0](text)

    upward = {name: given[name] for name in ("name", "token", "tls", "ca", "insecure", "give_up")}
    run = Described({name: each for name, each in given.items() if name not in MEANT_ABOVE}, None, serving=True)
    try:
        with run.checked(), renamed({"give_up": "give-up"}):
            spec = replace(run.spec, linger=given["linger"])
            above = Above(address=address, pace=spec.server, **upward)
            made = Relay(spec, above, run.network(_how_many(spec.names)), say)

            def start(spec: Spec, watcher: Watcher) -> Run:
                said[0] = lambda text: watcher.event(f"root: {text}")

                def ready(host: str, port: int) -> None:
                    command = f"siag work {shown((reachable(host), port))} --gradient … --stream …"
                    watcher.event(f"listening on {shown((host, port))}; start workers with: {command}")

                return made.run(ready, spec)

            return conduct(made.spec, start, None, as_json, given)
    except GaveUp as error:
        stop(str(error), FAILED)


@siag.command(epilog='Example: siag replay run.trace.gz --method "mine:Momentum(b1=0.5)" --out out')
@click.argument("trace", type=FILE)
@click.option("--problem", help=f"{PROBLEM}, if the trace does not say enough of it.")
@click.option("--method", help="As Python writes it, or yours as module:name(key=1.0).  [default: as the trace says]")
@click.option("--step", help="As Python writes it, or yours as module:name(key=1.0).  [default: as the trace says]")
@click.option("--seed", type=int, help="Seed of the samples.  [default: as the trace says]")
@click.option("--out", type=FILE, help="Folder for run.npz, run.csv, run.png and run.svg.")
@click.option(
    "--dashboard",
    is_flag=False,
    flag_value="on",
    metavar="[PORT]",
    help="Show what happened on a page in the browser, at any moment, until Ctrl-C: PORT or HOST:PORT.",
)
@click.option("--insecure", is_flag=True, help="Let --dashboard be seen from beyond this machine, in plain text.")
@AS_JSON
def replay(
    trace: Path,
    problem: str | None,
    method: str | None,
    step: str | None,
    seed: int | None,
    out: Path | None,
    dashboard: str | None,
    insecure: bool,
    as_json: bool,
) -> int:
    """Run a live run again from its TRACE: bit for bit, for problems whose samples are seeded.

    With another --method or --step: what that would have done with the same reports, of the same ages. With --dashboard
    also a run that cannot be run again can be looked at.
    """
    from siag.experiments.config import problem_named, typed
    from siag.experiments.replay import replay as run_again
    from siag.live.monitor.dashboard import dashboard_of

    on_interrupt(NOTHING_HALF)
    folder = folder_for(out)
    parts = {role: typed(role, text, HERE) for role, text in (("method", method), ("step", step)) if text is not None}
    if problem is not None:
        parts["problem"] = problem_named(problem, HERE)[0]
    if dashboard is not None:
        dashboard_of(None if dashboard == "on" else dashboard)  # a mistake in it is told at once
    result = None
    try:
        result = run_again(trace, **parts, seed=seed)
    except SiagError as error:
        if dashboard is None:
            raise
        tell(str(error))
    lost = [] if result is None else deliver(result, folder, as_json)
    tell(*lost)
    if dashboard is not None:
        _look_at(trace, parts.get("method"), result, dashboard, insecure)
    return FAILED if lost or (result is not None and (result.diverged >= 0).any()) else 0


def _look_at(trace: Path, method: Any, run: Run | None, where: str, insecure: bool) -> None:
    """Serve the page of a trace until Ctrl-C."""
    from siag.experiments.recorded import recorded
    from siag.live.monitor.dashboard import dashboard_of
    from siag.live.monitor.dashboard.server import Served

    place = dashboard_of(True if where == "on" else where)
    if place is None:
        return
    served = Served(place.trusting(None, None, insecure), recorded(trace, method, run))
    tell(f"dashboard at {served.address} until Ctrl-C")
    try:
        served.wait()
    except KeyboardInterrupt:
        pass
    finally:
        served.close()


@siag.command(epilog="Example: siag certs secrets --host server.example --name north --name south")
@click.argument("folder", type=FILE)
@click.option("--host", "hosts", multiple=True, help="A name or address of the server; may be repeated.")
@click.option("--name", "names", multiple=True, help="A worker's name; repeat it, one token is made for each.")
@click.option("--workers", type=int, help="How many tokens to make, instead of --name.")
@click.option("--guest", is_flag=True, help="Make a token for workers that join later, under names of their own.")
@click.option("--days", type=int, default=365, show_default=True, help="How long the certificate is valid.")
@click.option("--max-weight", type=float, help="What each of them may count for, if it is a relay.")
def certs(
    folder: Path,
    hosts: tuple[str, ...],
    names: tuple[str, ...],
    workers: int | None,
    guest: bool,
    days: int,
    max_weight: float | None,
) -> None:
    """Make a certificate for the server and a token for every worker, in FOLDER."""
    from siag.live.certificates import make_certificates
    from siag.live.spec import renamed

    if names and workers is not None:
        raise BadInput("workers", workers, "given alone", "leave out workers or names")
    if not names and workers is None and not guest:
        raise Missing("workers", "give --workers N, or --name A --name B …, or --guest")
    with renamed({"hosts": "host", "max_weight": "max-weight"} | ({"workers": "name"} if names else {})):
        who = list(names) or workers or 0
        written = make_certificates(folder, hosts=hosts, workers=who, guest=guest, days=days, max_weight=max_weight)
    for path in written:
        print(path)


def _workers_words(given: dict[str, Any], spec: Spec, network: Network) -> str:
    """What `siag work` is to be started with."""
    if spec.problem is None:
        words = ["--gradient … --stream …"]
    else:
        words = [f"--problem {given['problem'] or '…'}"]
        words += [f"--seed {spec.seed}"] if given["seed"] is not None else []
    words += ["--ca …"] if network.certificate is not None else []
    words += ["--token …"] if network.tokens is not None else []
    return " ".join(words)


def _how_many(names: Any) -> int:
    """Workers, given their names or their number."""
    return names if isinstance(names, int) else len(names or ())

"""`siag serve`, `siag work`, `siag replay` and `siag certs` as users meet them.

The command is in this process, and the other side in a thread, unless processes and signals are the point.
"""

import inspect
import json
import os
import signal
import socket
import sys
import threading
import urllib.request
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import siag
from siag.live import serve as module
from siag.live.protocol.reception import Limits
from siag.runtimes import Ending
from siag.server import Guard, ParameterServer
from terminals import PATIENCE, Desk, Shell, snapshots, wait_for
from waiting import wait_until

LENIENT = """

def lenient():
    from siag.streams import Follow

    return Follow(name, wait=False, bad="skip")
"""
STEP = siag.steps.Constant(0.05)
SERVE = "serve --workers 2 --dimension 3 --eta 0.1"
POSED = "serve --problem problem.toml --eta 0.1 --method SIAG(wait=1.0)"
ALONE = "serve --workers 1 --dimension 3 --eta 0.05 --json"


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path, LENIENT) as made:
        yield made


@pytest.fixture
def shell(desk, monkeypatch, capsys):
    return Shell(desk, monkeypatch, capsys)


@pytest.fixture
def port():
    """One that is free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Aside:
    """Something that goes on in a thread meanwhile; what it returns or raises."""

    def __init__(self, what, *given, **named):
        self.error = self.value = None
        self._thread = threading.Thread(target=self._run, args=(what, given, named), daemon=True)
        self._thread.start()

    def _run(self, what, given, named):
        try:
            self.value = what(*given, **named)
        except BaseException as error:
            self.error = error

    def end(self):
        """Wait for it."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.value


def come(port, **given):
    """A worker that waits until its server listens, and not longer."""

    def listens():
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return True

    wait_until(listens)
    return siag.work(f"127.0.0.1:{port}", **given)


@pytest.fixture
def server():
    """Starts servers in threads, which end when all their workers have; what they are told is in `events`."""
    made = []

    def start(workers=1, **given):
        events, up, place = [], threading.Event(), []
        watcher = siag.runtimes.Quiet()
        watcher.event = events.append

        def ready(host, port):
            place.append(f"{host}:{port}")
            up.set()

        options = {"w0": np.zeros(3), "step": STEP, "linger": 0.2, "progress": watcher} | given
        aside = Aside(siag.serve, workers=workers, port=0, ready=ready, **options)
        assert up.wait(PATIENCE), aside.error
        aside.address, aside.events = place[0], events
        made.append(aside)
        return aside

    yield start
    for aside in made:
        aside.end()


def pull(w, sample):
    return w - sample


def work(port, gradient=pull, stream=None, **given):
    """A worker of one's own, in a thread."""
    return Aside(siag.work, f"127.0.0.1:{port}", gradient, [np.ones(3)] * 5 if stream is None else stream, **given)


# In terminals


@pytest.mark.thorough
def test_a_server_and_two_workers_in_three_terminals_killed_and_terminated(desk, shell):
    words = "--name edge --method SGD --folder state"
    more = ("--out", "out", "--trace", "run.trace", "--metrics", 0)
    server = desk.serve(*words.split(), *more, model=("--dimension", 20), eta=1)
    place = json.loads(server.says("metrics at", server.out))["event"].split()[-1]
    wait_for(server, lambda snapshot: True)
    with urllib.request.urlopen(place, timeout=PATIENCE) as answer:
        assert 'siag_worker_reports_total{worker="edge"}' in answer.read().decode()
    for k in range(2):
        with open(desk.folder / "readings.csv", "a") as file:
            file.writelines(f"{10 * k + j}\n" for j in range(10))
        worker = desk.work(server, "--name", "edge", gradient="job:counted", stream="job:growing")
        wait_for(server, lambda snapshot, seen=10 * k + 10: snapshot["reports"] >= seen)
        worker.process.send_signal(signal.SIGKILL if k == 0 else signal.SIGTERM)
        assert worker.end() == (-signal.SIGKILL if k == 0 else 143)
    assert (worker.out, "joined as worker" in worker.err[0]) == ([], True)
    assert worker.err[-1] == "siag: ended by SIGTERM; what was reported stays with the server\n"
    server.says("worker edge failed: it was interrupted", server.out)
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    *lines, result = server.documents()
    assert all(set(line) in ({"seconds", "event"}, {"seconds", "snapshot"}) for line in lines)
    assert (result["result"], result["ending"], result["ended"]) == (True, Ending.STOPPED, "stopped by SIGTERM")
    assert snapshots(server)[-1]["reports"] == result["t"][-1] == 20
    assert result["w"] == np.load("out/w.npy").tolist() == [1.0] * 20  # no sample was counted twice
    assert siag.load("out/run.npz").t[-1] == 20
    assert Path("run.trace").read_text().endswith("# end 20\n")
    again = shell(f"serve --dimension 20 --eta 1 --port 0 --json --linger 0 {words}")
    assert "went on from version 20, 20 reports" in again.events


@pytest.mark.thorough
def test_sighup_lets_a_server_read_its_tokens_again(shell, port):
    pytest.importorskip("cryptography")
    assert shell("certs old --name centre --name village").status == 0
    assert shell("certs new --name centre --name village").status == 0
    Path("tokens.json").write_bytes(Path("old/tokens.json").read_bytes())
    given = {"gradient": pull, "stream": lambda: iter([np.ones(3)] * 5), "token": "new/village.token"}
    refusals = []

    def come():
        while True:
            try:
                return siag.work(f"127.0.0.1:{port}", **given)
            except siag.SiagError as error:
                if not refusals:
                    Path("tokens.json").write_bytes(Path("new/tokens.json").read_bytes())
                    os.kill(os.getpid(), signal.SIGHUP)
                refusals.append(str(error))

    worker = Aside(come)
    words = "--name centre --name village --tokens tokens.json --reports 5 --linger 10"
    ended = shell(f"serve {words} --dimension 3 --eta 0.1 --port {port} --json")
    assert worker.end().reports == 5
    assert set(refusals) == {"the server refused: the token is not one of this server's"}
    assert "the tokens were read again" in ended.events


# siag serve


@pytest.mark.thorough
def test_a_problem_is_replayed_from_the_trace_alone_bit_for_bit(shell, port):
    words = f"{POSED} --seed 4 --iterations 100 --trace run.trace.gz --out out --folder state --json --port {port}"
    posed = siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1)
    workers = [Aside(come, port, problem=posed, seed=4, pause=0.01) for _ in range(2)]
    ended = shell(words)
    assert ended.status == 0, ended.err
    assert f"siag work 127.0.0.1:{port} --problem problem.toml --seed 4" in ended.events[0]
    for worker in workers:
        worker.end()
    assert (ended.result["problem"], ended.result["seed"]) == (repr(posed), 4)
    assert ended.result["error"][-1] < ended.result["error"][0]
    assert shell("replay run.trace.gz --out again --json").status == 0
    w = siag.load("again/run.npz").w[0]
    assert np.array_equal(w, np.load("out/w.npy"))
    assert w.any()
    assert "seed is 4 there and 5 here" in shell.mistake(f"{POSED} --seed 5 --folder state --port 0")


@pytest.mark.thorough
def test_a_problem_of_ones_own_is_replayed_with_it(shell, port):
    posed = siag.problems.LeastSquares(np.eye(2), p=2, noise=0.1)
    workers = [Aside(come, port, problem=posed, seed=3, pause=0.01) for _ in range(2)]
    words = "serve --problem job:problem --seed 3 --eta 0.1 --method SIAG(wait=1.0) --iterations 50 --trace t --out out"
    ended = shell(f"{words} --port {port}")
    assert ended.status == 0, ended.err
    for worker in workers:
        worker.end()
    assert "or --problem" in shell.mistake("replay t")
    assert shell("replay t --problem job:problem --out again").status == 0
    assert np.array_equal(siag.load("again/run.npz").w[0], np.load("out/w.npy"))


def test_a_server_ends_with_its_workers_and_keeps_a_long_model_out_of_its_last_line(shell, port):
    worker = work(port, stream=iter([np.ones(1001)] * 3))
    ended = shell(f"serve --workers 1 --dimension 1001 --eta 0.05 --json --port {port}")
    assert worker.end().reports == 3
    assert (ended.status, ended.result["ending"], ended.result["w"]) == (0, Ending.ALL_LEFT, None)


def test_a_server_that_nobody_comes_to_ends(shell):
    ended = shell(f"{ALONE} --seconds 0.1 --linger 0.1 --port 0")
    assert (ended.status, ended.result["ending"]) == (0, Ending.LINGERED)


def failing(after):
    """A gradient that fails after so many calls."""
    calls = []

    def gradient(w, sample):
        calls.append(sample)
        if len(calls) > after:
            raise OSError(5, "no sensor")
        return w - sample

    return gradient


@pytest.mark.parametrize(
    ("reports", "words", "status", "line"),
    [
        (0, "", 1, "no worker has reported anything; worker 0 failed: OSError: [Errno 5] no sensor"),
        (3, "", 1, "no worker was there for 0.5 seconds; worker 0 failed: OSError: [Errno 5] no sensor"),
        (3, "--reports 3", 0, None),
    ],
    ids=["before any report", "and nobody is there", "but what was asked for is reached"],
)
def test_the_exit_status_of_a_server_whose_worker_failed(shell, port, reports, words, status, line):
    worker = work(port, gradient=failing(reports), stream=[np.ones(3)] * 20)
    ended = shell(f"{ALONE} --linger 0.5 --every 100 --port {port} {words}")
    worker.end()
    assert (ended.status, ended.result["samples"][-1]) == (status, reports)
    assert line is None or ended.err[-1].startswith(f"siag: {line}")
    assert bool(ended.err) == (status == 1)


def test_a_run_that_diverges_says_so_and_ends_with_status_1(shell, port):
    worker = work(port, gradient=lambda w, sample: -w - 1.0, stream=iter(lambda: 1.0, 0.0))
    ended = shell(f"serve --workers 1 --dimension 3 --eta 100 --port {port} --quiet --out out")
    worker.end()
    assert ended.status == 1
    assert ended.err[-1].endswith("what was recorded until then is kept")
    assert ended.out[-1] == "Written: out/w.npy, run.npz, run.csv, run.png, run.svg"


def test_a_server_for_all_names_an_address_that_can_be_reached(shell):
    ended = shell(f"{ALONE} --host 0.0.0.0 --insecure --metrics 0.0.0.0:0 --linger 0 --port 0")
    measured, listens = ended.events[:2]
    assert listens.startswith("listening on 0.0.0.0:")
    assert f"siag work {socket.gethostname()}:" in listens
    assert "--gradient … --stream …" in listens
    assert measured.startswith(f"metrics at http://{socket.gethostname()}:")


# siag work


def test_a_worker_ends_in_order_with_its_stream(shell, server):
    place = server()
    ended = shell(f"work {place.address} --gradient job:gradient --stream job:once")
    assert (ended.status, ended.out) == (0, [])
    assert "joined as worker 0" in ended.err[0]
    assert ended.err[-1] == "siag: the stream ended"
    assert place.end().about["ending"] == Ending.ALL_LEFT


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (
            "--gradient job:broken --stream job:ones",
            1,
            "siag: FileNotFoundError: [Errno 2] no such sensor (job.py, line ",
        ),
        ("--gradient job:counted --stream job:readings", 1, "siag: readings.csv, line 2: 'x' is not a finite number"),
        ("--gradient job:exits --stream job:ones", 1, "siag: SystemExit: 0 (job.py, line "),
        ("--gradient job:gradient --stream job:ones --name nobody", 2, "siag: the server refused: worker nobody: not"),
        ("--problem problem.toml", 1, "siag: problem = LeastSquares"),
        ("--gradient job:gradient --stream job:few --ca job.py", 2, "siag: job.py: holds no certificate"),
    ],
)
def test_a_worker_that_cannot_work_says_so_in_one_line(shell, server, words, status, line):
    Path("readings.csv").write_text("1\nx\n")
    ended = shell(f"work {server(w0=np.zeros(4 if 'problem' in words else 3)).address} --quiet {words}")
    assert (ended.status, ended.out) == (status, [])
    (said,) = ended.err
    assert said.startswith(line)


def test_a_worker_of_another_problem_is_told_so(shell, server):
    place = server(None, w0=None, problem=siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.2))
    ended = shell(f"work {place.address} --problem problem.toml --quiet")
    assert ended.status == 2
    assert "the server's problem is LeastSquares.random(" in ended.err[0]


@pytest.mark.parametrize("quiet", ["", "--quiet"])
def test_lines_that_are_left_out_are_told_by_the_worker_unless_it_is_to_be_quiet(shell, server, quiet):
    Path("readings.csv").write_text("1\nx\n2\ny\n")
    words = f"--gradient job:gradient --stream job:lenient --name edge {quiet}"
    ended = shell(f"work {server(['edge'], w0=np.zeros(1)).address} {words}")
    told = [line for line in ended.err if "readings.csv" in line]
    first = "siag: readings.csv, line 2: 'x' is not a finite number; it is left out"
    assert told == ([] if quiet else [first, "siag: readings.csv: 2 bad lines were left out in all"])


def test_a_worker_that_gives_up_ends_with_status_1(shell, port):
    ended = shell(f"work 127.0.0.1:{port} --gradient job:gradient --stream job:few --give-up 0.1 --quiet")
    assert ended.status == 1
    assert ended.err[0].startswith(f"siag: no server at 127.0.0.1:{port} for 0 seconds: ")


def test_tls_and_tokens_by_name_from_certs_to_goodbye(shell, port):
    pytest.importorskip("cryptography")
    made = shell("certs secrets --host localhost --name centre --name village")
    assert set(made.out) >= {"secrets/ca.pem", "secrets/tokens.json", "secrets/centre.token", "secrets/village.token"}
    keys = "--certificate secrets/server.pem --key secrets/server.key --tokens secrets/tokens.json"
    given = {"gradient": pull, "stream": lambda: iter([np.ones(3)] * 5), "ca": "secrets/ca.pem"}
    said = {"village": [], "centre": []}
    workers = [
        Aside(siag.work, f"localhost:{port}", **given, token=f"secrets/{name}.token", say=said[name].append)
        for name in said
    ]
    names = "--name centre --name village --dimension 3 --eta 0.05"
    ended = shell(f"serve {names} --host 0.0.0.0 --port {port} {keys} --json")
    assert [worker.end().reports for worker in workers] == [5, 5]
    assert all(any(f"joined as worker {name}" in line for line in lines) for name, lines in said.items())
    assert (ended.status, ended.result["samples"][-1]) == (0, 10)
    line = shell.mistake(f"{SERVE} --port 0 {keys}")
    assert line.startswith("tokens = 'centre': must be for workers of this server")


# What is typed, and what is in a file


class Seen(Exception):
    """What would have been served, and where."""


@pytest.fixture
def called(shell, monkeypatch):
    """What is served by some words."""
    from siag.cli import main

    def fake(spec, network, ready=None):
        raise Seen(spec, network)

    def call(words):
        with monkeypatch.context() as patched:
            patched.setattr(module, "serve_spec", fake)
            patched.setattr(sys, "argv", ["siag", *words.split()])
            with pytest.raises(Seen) as seen:
                main()
        return seen.value.args

    return call


def test_what_siag_serve_takes_in_python_can_be_given(called):
    words = "--reports 7 --strikes 3 --patience 2 --record 50 --connections 9 --hello 4 --frame 5"
    full, network = called(f"{SERVE} --quiet {words} --keep 10 --keep-every 5 --folder state")
    assert (full.keep, full.keep_every) == (10, 5.0)
    assert (full.guard.strikes, full.patience, full.record) == (3, 2.0, 50)
    assert full.until == siag.Until(reports=7)
    assert network.limits == Limits(connections=9, hello=4.0, frame=5.0)
    assert called(f"{SERVE} --quiet --hello 4")[1].limits == Limits(hello=4.0)
    usual, plain = called(f"{SERVE} --quiet")
    assert (usual.guard, usual.patience, plain) == (None, None, siag.runtimes.Network())
    defaults = inspect.signature(siag.serve).parameters
    assert (usual.record, usual.linger) == (defaults["record"].default, defaults["linger"].default)
    assert called("serve --workers 3000 --dimension 3 --eta 1 --frame 6")[1].limits == Limits(
        connections=6000, frame=6.0
    )
    assert called(f"{SERVE} --max-jump inf")[0].guard == Guard(jump=None)
    assert called(f"{SERVE} --linger inf")[0].linger is None


FILE = """
workers = 2
dimension = 3
linger = 5.0

[step]
kind = "Constant"
eta = 0.05

[network]
port = 0
tokens = "tokens.json"
hello = 4.0
"""


def test_a_file_says_where_to_listen_and_what_is_typed_overrides_it(called, shell):
    Path("run.toml").write_text(FILE)
    spec, network = called("serve run.toml --frame 3 --port 7")
    assert (spec.names, spec.linger) == (["0", "1"], 5.0)
    assert (network.port, network.tokens) == (7, Path("tokens.json"))
    assert network.limits == Limits(hello=4.0, frame=3.0)
    Path("run.toml").write_text(FILE.replace("hello", "helo"))
    assert "network.helo = 4.0: must be one of" in shell.mistake("serve run.toml")
    Path("run.toml").write_text('names = ["a"]\n' + FILE)
    assert shell.mistake("serve run.toml") == "workers = 2: must be given alone; leave out workers or names"
    Path("run.toml").write_text(FILE.replace("[network]", "streams = []\n[network]"))
    assert "step.streams" in shell.mistake("serve run.toml")


def test_a_folder_of_the_old_layout_is_refused_with_one_line(shell):
    from siag.storage.records import FORMAT, HEADER, MAGIC

    Path("state").mkdir()
    Path("state/state-000001.siag").write_bytes(
        HEADER.pack(MAGIC, 1, 2, zlib.crc32(b"{}", zlib.crc32(HEADER.pack(MAGIC, 1, 2, 0)))) + b"{}"
    )
    line = f"state/state-000001.siag: of format 1, not {FORMAT}; move it away, or choose another folder"
    assert shell.mistake(f"{SERVE} --port 0 --folder state") == shell.mistake("export state w.npy") == line


def test_help_says_what_the_defaults_are():
    import click

    from siag.cli import siag as group

    told = {
        option.name: option.help
        for option in group.commands["serve"].get_params(click.Context(group))
        if option.name != "file" and hasattr(option, "help")
    }
    assert told["hello"].endswith(f"[default: {Limits.hello:g}]")
    assert told["frame"].endswith(f"[default: {Limits.frame:g}]")
    assert f"[default: {Limits.connections}," in told["connections"]
    assert told["strikes"].endswith(f"[default: {Guard.strikes}]")
    assert told["max_jump"].endswith(f"[default: {Guard.jump:g}]")
    assert told["linger"].endswith(f"[default: {module.LINGER:g}]")
    assert told["record"].endswith(f"[default: {siag.runtimes.Spec.record}]")
    assert told["port"].endswith(f"[default: {siag.runtimes.Network.port}]")
    server = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(1.0), np.zeros(1), 1)
    assert told["patience"].endswith(f"[default: by its own habits, at least {server.members[0].patience:g}]")


def test_a_metrics_port_in_use_is_named_as_it_was_typed(shell):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert shell.mistake(f"{SERVE} --metrics {port}").startswith(f"metrics = {port}: must be one to listen on at")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("serve --dimension 3 --eta 0.1", "workers is missing; give --workers N, or --name A"),
        (f"{SERVE} --name a", "workers = 2: must be given alone; leave out workers or names"),
        (f"{SERVE} --w0 w.npy", "dimension = 3: must be given alone; leave out dimension or w0"),
        ("serve --name= --dimension 3 --eta 0.1", "name = ['']: must be different texts, none empty"),
        ("work x --gradient job:gradient --stream job:ones --name=", "name = '': must be not empty"),
        (f"{SERVE} --patience 0 --port 0", "patience = 0.0: must be a finite number above 0; or leave it out"),
        (f"{SERVE} --record 0 --port 0", "record = 0: must be"),
        (f"{SERVE} --strikes 0", "strikes = 0: must be"),
        (f"{SERVE} --connections 0", "connections = 0: must be"),
        (f"{SERVE} --hello 0", "hello = 0.0: must be"),
        (f"{SERVE} --frame -1", "frame = -1.0: must be"),
        ("certs secrets --workers 2 --host a_b:7", "host = 'a_b:7': must be DNS names and IP addresses"),
        ("certs secrets --workers 2 --name a", "workers = 2: must be given alone"),
        ("certs secrets", "workers is missing; give --workers N, or --name A"),
        ("certs secrets --name a/b", "name = 'a/b': must be names of letters"),
        ("serve --workers 2 --eta 0.1", "dimension is missing; give --dimension D, or --w0 FILE.npy"),
        ("serve --workers 2 --dimension 3 --method SIAG", "eta is missing; this method needs one: --eta"),
        (f"{SERVE} --every 2 --tick 1", "tick = 1.0: must be given alone; a server steps by the clock or by reports"),
        (f"{SERVE} --method X", "method = 'X': must be one of"),
        (f"{SERVE} --method IAG", "IAG needs exact gradients, a stream has none; use SIAG, or give a problem"),
        (f"{SERVE} --method SAG", "SAG draws one sample per iteration, which no live server can; use SIAG, or IAG"),
        (f"{SERVE} --method SIAG(wait=2)", "method.wait = 2: must be a finite number at least 0 and at most 1"),
        (f"{SERVE} --method SIAG(0.5)", "method = 0.5: must be an argument with its name, one of resum, wait, rows"),
        (f"{SERVE} --method open('x','w')", "must be one of ACE"),
        (f"{SERVE} --every 0", "every = 0: must be"),
        (f"{SERVE} --tick 0", "tick = 0.0: must be"),
        (f"{SERVE} --max-age -1", "max-age = -1: must be"),
        (f"{SERVE} --max-norm 0", "max-norm = 0.0: must be"),
        (f"{SERVE} --max-jump 1", "max-jump = 1.0: must be"),
        (f"{SERVE} --linger -1", "linger = -1.0: must be"),
        (f"{SERVE} --forget -1 --port 0", "forget = -1.0: must be a finite number at least 0; or leave it out"),
        (f"{SERVE} --linger nan", "linger = nan: must be"),
        (f"{SERVE} --seed 1", "seed = 1: must be left out without a problem"),
        (f"{SERVE} --key job.py", "certificate is missing"),
        (f"{SERVE} --metrics x", "metrics = 'x': must be a port, or host:port"),
        (f"{SERVE} --metrics 70000", "metrics = 70000: must be"),
        (f"{SERVE} --metrics 0.0.0.0:0", "metrics = '0.0.0.0': must be a loopback address"),
        ("serve --name a --name a --dimension 3 --eta 0.1", "name = ['a', 'a']: must be different texts"),
        (f"{POSED} --workers 3", "workers = 3: must be 2, as many as the problem has"),
        (f"{POSED} --dimension 4", "dimension = 4: must be 3, as many as the problem has"),
        (f"{POSED} --name a", "name = ['a']: must be 2 different texts, one for each worker"),
        (f"{POSED} --seed -1", "seed = -1: must be"),
        ("serve --problem nowhere.toml --eta 0.1", "nowhere.toml: no such file"),
        ("serve --problem job:few --eta 0.1", "problem = 'job:few': must be a Problem, or a function"),
        ("serve --problem job:no_problem --eta 0.1", "it raised KeyError: 'no data'"),
        ("work x --problem job:problem --gradient job:gradient", "must be given alone"),
        ("work x --gradient job:gradient", "stream is missing; give gradient and stream, or a problem"),
        ("work x --problem job:problem --seed -1", "seed = -1: must be"),
        ("work x --gradient job:gradient --stream job:name", "stream = 'readings.csv': must be a stream, not a name"),
        ("work x --gradient job:gradient --stream job:few --give-up -1", "give-up = -1.0: must be"),
        ("work ::1 --gradient job:gradient --stream job:few", "write an IPv6 address in brackets, as in [::1]:7460"),
        (f"{SERVE} --departed x", "departed = 'x': must be keep, drop, or"),
        (f"{SERVE} --host 0.0.0.0", "or insecure if you trust everyone"),
        (f"{SERVE} --certificate job.py", "key is missing; TLS needs both"),
        ("serve --workers 2 --w0 job.py --eta 0.1", "job.py: not a .npy file"),
        (
            "serve --workers 2 --w0 w.npy --eta 0.1",
            "w.npy: no such file or directory; give the path of a .npy file",
        ),
        (f"{SERVE} --loss job:nothing", "importing it raised AttributeError"),
        ("work x:y --gradient job:gradient --stream job:ones", "address = 'x:y': must be like host:7460"),
        ("work :1 --gradient gradient --stream job:ones", 'of the form "module:attribute"'),
        ("work x --gradient job:gradient --stream nowhere:ones", "importing it raised ModuleNotFoundError"),
        ("work x --gradient job:few --stream job:ones", "must be a function gradient(w, sample)"),
        ("work x --gradient job:gradient --stream job:ones --token job.py", "does not hold one word"),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(words, says, shell):
    assert says in shell.mistake(words)


@pytest.mark.parametrize("command", ["serve", "work", "certs", "replay", "train"])
def test_help_has_an_example(command, shell):
    ended = shell(command, "--help")
    assert ended.status == 0
    assert any("Example" in line for line in ended.out)

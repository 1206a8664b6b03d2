"""`siag serve` and `siag work` as users meet them: processes, in two or more terminals."""

import inspect
import json
import signal
import socket
import sys
import urllib.request

import numpy as np
import pytest

import siag
from siag.live.transports.tcp.server import Limits
from siag.server import Guard, ParameterServer
from terminals import JOB, PATIENCE, Desk, mistake, run, snapshots, wait_for

LENIENT = """

def lenient():
    from siag.streams import Follow

    return Follow(name, wait=False, bad="skip")
"""
WORDS = f"OSError: [Errno 5] no sensor (job.py, line {JOB[: JOB.index('raise OSError')].count(chr(10)) + 1})"


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path) as made:
        yield made


def events(server):
    return [document["event"] for document in server.documents() if "event" in document]


def stop(server):
    """Stop it; the exit status."""
    server.process.send_signal(signal.SIGTERM)
    return server.end()


def test_a_server_and_two_workers_in_three_terminals(desk):
    server = desk.serve("--workers", 2, "--iterations", 2000, "--out", "out", "--trace", "run.trace")
    one, three = desk.work(server, stream="job:slow_ones"), desk.work(server, stream="job:slow_threes")
    assert [each.end() for each in (server, one, three)] == [0, 0, 0], server.err + one.err + three.err
    assert one.out == three.out == []
    assert "joined as worker" in one.err[0]
    assert one.err[-1] == "siag: as many iterations or reports as asked\n"
    *lines, result = server.documents()
    assert all(set(line) in ({"seconds", "event"}, {"seconds", "snapshot"}) for line in lines)
    assert result["result"] is True
    assert result["w"] == np.load(desk.folder / "out" / "w.npy").tolist()
    assert result["t"][-1] == 2000
    assert result["ended"] == "as many iterations or reports as asked"
    assert np.abs(np.load(desk.folder / "out" / "w.npy") - 2.0).max() < 0.5
    assert siag.load(desk.folder / "out" / "run.npz").t[-1] == 2000
    assert (desk.folder / "run.trace").read_text().endswith("# end 2000\n")


@pytest.mark.parametrize("seed", [(), ("--seed", 4)])
def test_a_problem_is_replayed_from_the_trace_alone_bit_for_bit(desk, seed):
    model = ("--problem", "problem.toml", *seed)
    options = ("--iterations", 300, "--trace", "run.trace.gz", "--out", "out", "--folder", "state")
    server = desk.serve(*options, model=model)
    assert f"siag work {server.address} {' '.join(map(str, model))}\n" in events(server)[0] + "\n"
    workers = [desk.siag("work", server.address, *model) for _ in range(2)]
    assert [each.end() for each in (server, *workers)] == [0, 0, 0], server.err + workers[0].err
    result = server.documents()[-1]
    assert result["problem"] == repr(siag.problems.LeastSquares.random(n=2, d=3, p=2, noise=0.1))
    assert result["seed"] == (seed[1] if seed else 9)
    assert result["error"][-1] < result["error"][0]
    again = desk.siag("replay", "run.trace.gz", "--out", "again", "--json")
    assert again.end() == 0, again.err
    w = siag.load(desk.folder / "again" / "run.npz").w[0]
    assert np.array_equal(w, np.load(desk.folder / "out" / "w.npy"))
    assert w.any()
    other = desk.siag("serve", "--problem", "problem.toml", "--seed", 5, "--eta", 0.05, "--folder", "state")
    assert other.end() == 2
    assert "seed" in other.err[-1]


def test_a_problem_of_ones_own_is_named_by_its_module_and_replayed_with_it(desk):
    model = ("--problem", "job:problem", "--seed", 3)
    server = desk.serve("--method", "IAG(wait=1.0)", "--iterations", 50, "--trace", "t", "--out", "out", model=model)
    workers = [desk.siag("work", server.address, *model) for _ in range(2)]
    assert [each.end() for each in (server, *workers)] == [0, 0, 0], server.err + workers[0].err
    assert server.documents()[-1]["method"] == "IAG(resum=64, wait=1.0, rows='float64')"
    alone, again = desk.siag("replay", "t"), desk.siag("replay", "t", *model[:2], "--out", "again")
    assert (alone.end(), again.end()) == (2, 0), again.err
    assert "or --problem" in alone.err[0]
    assert np.array_equal(siag.load(desk.folder / "again" / "run.npz").w[0], np.load(desk.folder / "out" / "w.npy"))


@pytest.mark.parametrize(
    ("model", "status", "words"),
    [
        (("--problem", "problem.toml"), 2, "the server's problem is LeastSquares.random("),
        (("--dimension", 3, "--workers", 2), 1, "must be one of 2 workers and 3 parameters, as the server's"),
    ],
)
def test_a_worker_of_another_problem_is_told_so(desk, model, status, words):
    server = desk.serve(model=model)
    other = desk.siag("work", server.address, "--problem", "job:problem", "--quiet")
    assert other.end() == status
    (line,) = other.err
    assert words in line


def test_a_worker_that_was_killed_goes_on_in_its_file_and_no_sample_counts_twice(desk):
    server = desk.serve("--name", "edge", "--method", "SGD", "--out", "out", model=("--dimension", 30), eta=1)
    for k in range(3):
        with open(desk.folder / "readings.csv", "a") as file:
            file.writelines(f"{10 * k + j}\n" for j in range(10))
        worker = desk.work(server, "--name", "edge", gradient="job:counted", stream="job:growing")
        wait_for(server, lambda snapshot, seen=10 * k + 10: snapshot["reports"] >= seen)
        worker.process.kill()
        worker.end()
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    assert np.array_equal(np.load(desk.folder / "out" / "w.npy"), np.ones(30))


def test_a_new_worker_reuses_the_row_of_one_that_left_and_reads_its_own_stream_whole(desk):
    (desk.folder / "readings.csv").write_text("".join(f"{k}\n" for k in range(10)))
    server = desk.serve("--workers", 2, "--method", "SGD", "--out", "out", model=("--dimension", 10), eta=1)
    stays = desk.work(server, gradient="job:gradient", stream="job:quiet")
    stays.says("joined as worker 0")
    for _ in range(2):
        reader = desk.work(server, gradient="job:counted", stream="job:readings")
        assert reader.end() == 0
        assert "joined as worker 1" in reader.err[0]
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    assert np.array_equal(np.load(desk.folder / "out" / "w.npy"), np.full(10, 2.0))


def test_a_bad_line_of_a_stream_is_one_line_with_its_place_and_status_1(desk):
    (desk.folder / "readings.csv").write_text("1\nx\n")
    server = desk.serve("--workers", 1)
    worker = desk.work(server, "--quiet", gradient="job:counted", stream="job:readings")
    assert worker.end() == 1
    (line,) = worker.err
    assert "readings.csv, line 2: 'x' is not a finite number" in line
    assert "in worker 0" in line


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_lines_that_are_left_out_are_told_by_the_worker_unless_it_is_to_be_quiet(desk, quiet):
    (desk.folder / "job.py").write_text(JOB + LENIENT)
    (desk.folder / "readings.csv").write_text("1\nx\n2\ny\n")
    server = desk.serve("--name", "edge", model=("--dimension", 1))
    worker = desk.work(server, *quiet, "--name", "edge", stream="job:lenient")
    assert (worker.end(), server.end()) == (0, 0), worker.err + server.err
    told = [line for line in worker.err if "readings.csv" in line]
    first = "siag: readings.csv, line 2: 'x' is not a finite number; it is left out\n"
    assert told == ([] if quiet else [first, "siag: readings.csv: 2 bad lines were left out in all\n"])


def test_a_worker_that_is_away_for_long_is_forgotten(desk):
    server = desk.serve("--name", "a", "--name", "b", "--forget", 0.1, "--loss", "job:size")
    stays, goes = desk.work(server, "--name", "a"), desk.work(server, "--name", "b")
    wait_for(server, lambda snapshot: all(worker["reports"] for worker in snapshot["workers"]))
    goes.process.kill()
    server.says("not heard of for 0.1 seconds", server.out)
    seen = wait_for(server, lambda snapshot: snapshot["workers"][1]["state"] == "left")
    assert seen["workers"][0]["state"] == "working"
    server.process.send_signal(signal.SIGTERM)
    assert (server.end(), stays.process.poll()) == (0, None)
    assert server.documents()[-1]["measure"] == "loss"


def test_a_server_that_nobody_comes_to_ends(desk):
    server = desk.serve("--workers", 1, "--seconds", 0.1, "--linger", 0.1)
    assert server.end() == 0
    assert server.documents()[-1]["ended"] == "no worker was there for 0.1 seconds"


def test_a_server_whose_workers_have_all_failed_ends_with_status_1(desk):
    server = desk.serve("--workers", 1, "--linger", 8)  # the worker must have come by then
    assert desk.work(server, stream="job:bad").end() == 1
    assert server.end() == 1
    (line,) = server.err
    assert line.startswith("siag: no worker was there for 8 seconds; worker 0 failed: RuntimeError: torn cable (job")
    assert server.documents()[-1]["samples"][-1] == 2


def test_a_server_for_all_names_an_address_that_can_be_reached(desk):
    server = desk.serve("--workers", 1, "--host", "0.0.0.0", "--insecure", "--metrics", "0.0.0.0:0")
    measured, listens = events(server)[:2]
    name = socket.gethostname()
    assert listens.startswith("listening on 0.0.0.0:")
    assert f"siag work {name}:{server.address.rpartition(':')[2]} --gradient … --stream …" in listens
    assert measured.startswith(f"metrics at http://{name}:")


def test_workers_fail_leave_and_are_refused_each_with_one_clear_line(desk):
    server = desk.serve("--name", "north", "--name", "south", "--name", "west")
    broken = desk.work(server, "--name", "north", gradient="job:broken")
    few = desk.work(server, "--name", "south", stream="job:few")
    unknown = desk.work(server, "--name", "nobody", "--quiet")
    west = desk.work(server, "--name", "west", "--quiet")
    assert few.end() == 0
    assert few.err[-1] == "siag: the stream ended\n"
    assert broken.end() == 1
    place = (
        f"(job.py, line {JOB[: JOB.rindex('raise OSError')].count(chr(10)) + 1}), in worker north of {server.address}"
    )
    assert broken.err[-1] == f"siag: FileNotFoundError: [Errno 2] no such sensor {place}\n"
    assert len(broken.err) == 2
    assert unknown.end() == 2
    assert unknown.err == ["siag: the server refused: worker nobody: not among this server's, or another's row\n"]
    server.says("worker north failed: FileNotFoundError", server.out)
    server.says("worker south left: its stream ended", server.out)
    states = ["away", "left", "working"]
    wait_for(server, lambda snapshot: [worker["state"] for worker in snapshot["workers"]] == states)
    wait_for(server, lambda snapshot: snapshot["workers"][2]["reports"] > 10)
    west.process.send_signal(signal.SIGINT)
    assert west.end() == 130
    assert west.err == ["siag: interrupted; what was reported stays with the server\n"]
    server.says("worker west failed: it was interrupted", server.out)
    server.process.send_signal(signal.SIGINT)
    assert server.end() == 0
    assert server.documents()[-1]["ended"] == "stopped by SIGINT"


def test_a_server_that_was_ended_or_killed_goes_on_with_its_workers(desk):
    options = ("--workers", 2, "--folder", "state")
    server = desk.serve(*options)
    port = int(server.address.rpartition(":")[2])
    one, three = desk.work(server), desk.work(server, stream="job:threes")
    wait_for(server, lambda snapshot: all(worker["reports"] > 20 for worker in snapshot["workers"]))
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0
    reports = snapshots(server)[-1]["reports"]
    one.says("stopped by SIGTERM); trying again")
    again = desk.serve(*options, port=port)
    again.says(f"went on from version {reports}, {reports} reports", again.out)
    wait_for(again, lambda snapshot: all(worker["state"] == "working" for worker in snapshot["workers"]))
    three.process.send_signal(signal.SIGSTOP)
    stopped = wait_for(again, lambda snapshot: snapshot["workers"][int(name(three))]["silent"] > 0.5)
    assert stopped["workers"][int(name(three))]["state"] == "working"
    three.process.send_signal(signal.SIGCONT)
    row = stopped["workers"][int(name(three))]
    wait_for(again, lambda snapshot: snapshot["workers"][row["row"]]["reports"] > row["reports"] + 20)
    again.process.kill()
    again.end()
    last = desk.serve(*options, port=port)
    wait_for(last, lambda snapshot: all(worker["state"] == "working" for worker in snapshot["workers"]))
    assert len({line.split("worker ")[1] for line in one.err if "joined" in line}) == 1


def name(worker):
    """The name a worker was given."""
    return worker.says("joined as worker").split("worker ")[1].split(",")[0]


def test_metrics_are_served(desk):
    server = desk.serve("--workers", 1, "--metrics", 0)
    place = json.loads(server.says("metrics at", server.out))["event"].split()[-1]
    desk.work(server)
    wait_for(server, lambda snapshot: snapshot["reports"] > 10)
    with urllib.request.urlopen(place, timeout=PATIENCE) as answer:
        text = answer.read().decode()
    assert 'siag_worker_reports_total{worker="0"}' in text
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == 0


def test_tls_and_tokens_from_certs_to_goodbye(desk):
    pytest.importorskip("cryptography")
    made = desk.siag("certs", "secrets", "--host", "localhost", "--workers", 2)
    assert made.end() == 0
    assert {line.strip() for line in made.out} >= {"secrets/ca.pem", "secrets/tokens.json", "secrets/worker-1.token"}
    keys = ("--certificate", "secrets/server.pem", "--key", "secrets/server.key", "--tokens", "secrets/tokens.json")
    server = desk.serve("--workers", 2, "--host", "0.0.0.0", *keys)
    address = server.address.replace("0.0.0.0", "localhost")
    stranger = desk.work(address, "--ca", "secrets/ca.pem")
    plain = desk.work(address, "--give-up", 0.1, "--token", "secrets/worker-0.token")
    assert (stranger.end(), plain.end()) == (2, 1)
    assert stranger.err == ["siag: the server refused: the token is missing; give the worker's .token file\n"]
    trusted = ("--ca", "secrets/ca.pem", "--token")
    workers = [desk.work(address, *trusted, f"secrets/worker-{k}.token", stream="job:few") for k in range(2)]
    assert [each.end() for each in (server, *workers)] == [0, 0, 0], workers[0].err


def test_a_run_that_diverges_says_so_and_ends_with_status_1(desk):
    server = desk.siag("serve", "--workers", 1, "--dimension", 3, "--eta", 100, "--port", 0, "--out", "out")
    address = server.says("listening on").split("listening on ")[1].split(";")[0]
    worker = desk.work(address)
    assert (server.end(), worker.end()) == (1, 0)
    assert server.err[-1].startswith("siag: w left the range of numbers")
    assert "what was recorded until then is kept" in server.err[-1]
    assert (desk.folder / "out" / "run.npz").exists()
    assert server.out[-1] == "Written: out/w.npy, run.npz, run.csv, run.png, run.svg\n"


def test_a_server_whose_workers_all_failed_before_any_report_ends_with_status_1(desk):
    server = desk.serve("--workers", 1)
    assert (desk.work(server, gradient="job:fails").end(), stop(server)) == (1, 1)
    assert server.err == [f"siag: no worker has reported anything; worker 0 failed: {WORDS}\n"]
    assert server.documents()[-1]["result"] is True


def test_whoever_reported_before_does_not_count_in_a_session_without_reports(desk):
    for gradient, status in (("job:broken", 0), ("job:fails", 1)):
        server = desk.serve("--workers", 1, "--folder", "state")
        assert (desk.work(server, gradient=gradient).end(), stop(server)) == (1, status)
    assert server.documents()[-1]["samples"][-1] > 0
    assert server.err == [f"siag: no worker has reported anything; worker 0 failed: {WORDS}\n"]


def test_a_server_that_has_had_reports_but_no_step_ends_with_status_0(desk):
    server = desk.serve("--workers", 1, "--every", 100)
    assert (desk.work(server, gradient="job:counts").end(), stop(server)) == (1, 0)
    assert server.documents()[-1]["samples"] == [3]


def test_a_worker_that_is_terminated_tells_the_server_and_ends_with_status_143(desk):
    server = desk.serve("--workers", 1)
    worker = desk.work(server, "--quiet")
    wait_for(server, lambda snapshot: snapshot["reports"] > 10)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end() == 143
    assert worker.err == ["siag: ended by SIGTERM; what was reported stays with the server\n"]
    server.says("worker 0 failed: it was interrupted", server.out)


def test_a_worker_that_waits_for_its_stream_can_be_terminated(desk):
    server = desk.serve("--workers", 1)
    worker = desk.work(server, stream="job:quiet")
    worker.says("joined as worker 0")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end() == 143
    server.says("worker 0 failed: it was interrupted", server.out)


def test_a_gradient_that_ends_the_program_has_failed(desk):
    server = desk.serve("--workers", 1)
    worker = desk.work(server, "--quiet", gradient="job:exits")
    assert worker.end() == 1
    (line,) = worker.err
    assert line.startswith("siag: SystemExit: 0 (job.py, line ")
    server.says("worker 0 failed: SystemExit: 0", server.out)


def test_a_worker_that_gives_up_ends_with_status_1(desk):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    worker = desk.work(f"127.0.0.1:{port}", "--give-up", 0.1, "--quiet")
    assert worker.end() == 1
    (line,) = worker.err
    assert line.startswith(f"siag: no server at 127.0.0.1:{port} for 0 seconds: ")


def test_a_long_model_is_not_in_the_line_of_the_result(desk):
    server = desk.serve("--workers", 1, "--linger", 0.1, model=("--dimension", 1001))
    assert server.end() == 0
    result = server.documents()[-1]
    assert (result["result"], result["w"]) == (True, None)


def test_what_siag_serve_takes_in_python_can_be_given(desk, monkeypatch):
    from siag import runtimes

    class Seen(Exception):
        pass

    def fake(**options):
        seen.append(options)
        raise Seen

    seen, points = [], inspect.signature(runtimes.serve).parameters["record"].default
    monkeypatch.setattr(runtimes, "serve", fake)
    words = "--reports 7 --strikes 3 --patience 2 --record 50 --connections 9 --hello 4 --frame 5"
    for more in (words, "--hello 4", "", "--workers 3000 --frame 6", "--max-jump inf"):
        with pytest.raises(Seen):
            run(f"{SERVE} --quiet {more}", desk, monkeypatch)
    full, hello, usual, many, any_jump = seen
    assert (full["guard"].strikes, full["patience"], full["record"]) == (3, 2.0, 50)
    assert full["until"] == siag.Until(reports=7)
    assert full["limits"] == Limits(connections=9, hello=4.0, frame=5.0)
    assert hello["limits"] == Limits(hello=4.0)
    assert (usual["guard"], usual["patience"], usual["limits"]) == (Guard(), None, None)
    assert usual["record"] == points
    assert many["limits"] == Limits(connections=6000, frame=6.0)
    assert any_jump["guard"] == Guard(jump=None)


def test_help_says_what_the_defaults_are():
    from siag.cli import siag as group

    told = {option.name: option.help for option in group.commands["serve"].params}
    assert told["hello"].endswith(f"[default: {Limits.hello:g}]")
    assert told["frame"].endswith(f"[default: {Limits.frame:g}]")
    assert f"[default: {Limits.connections}," in told["connections"]
    server = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(1.0), np.zeros(1), 1)
    assert "last report" in told["patience"]
    assert told["patience"].endswith(f"[default: {server.members[0].patience:g}]")


def test_a_metrics_port_in_use_is_named_as_it_was_typed(desk, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = mistake(f"{SERVE} --metrics {port}", desk, monkeypatch, capsys)
    assert line.startswith(f"siag: metrics = {port}: must be a free port of 127.0.0.1")


SERVE = "serve --workers 2 --dimension 3 --eta 0.1"
POSED = "serve --problem problem.toml --eta 0.1"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("serve --dimension 3 --eta 0.1", "workers is missing; give --workers N, or --name A"),
        (
            "serve --workers 2 --name a --dimension 3 --eta 0.1",
            "workers = 2: must be given alone; leave out --workers or --name",
        ),
        (f"{SERVE} --w0 w.npy", "dimension = 3: must be given alone; leave out --dimension or --w0"),
        (f"{POSED} --workers 2 --name a", "workers = 2: must be given alone"),
        ("serve --name= --dimension 3 --eta 0.1", "siag: name = '': must be not empty"),
        ("work x --gradient job:gradient --stream job:ones --name=", "siag: name = '': must be not empty"),
        (f"{SERVE} --patience 0 --port 0", "patience = 0.0: must be a finite number above 0; or leave it out"),
        (f"{SERVE} --record 0 --port 0", "siag: record = 0: must be"),
        (f"{SERVE} --strikes 0", "siag: strikes = 0: must be"),
        (f"{SERVE} --connections 0", "siag: connections = 0: must be"),
        (f"{SERVE} --hello 0", "siag: hello = 0.0: must be"),
        (f"{SERVE} --frame -1", "siag: frame = -1.0: must be"),
        ("certs secrets --workers 2 --host a_b:7", "siag: host = 'a_b:7': must be DNS names and IP addresses"),
        ("serve --workers 2 --eta 0.1", "dimension is missing; give --dimension D, or --w0 FILE.npy"),
        ("serve --workers 2 --dimension 3", "eta is missing; give --eta for a constant step"),
        ("serve --workers 2 --dimension 3 --eta 0.1 --every 2 --tick 1", "tick = 1.0: must be given without --every"),
        ("serve --workers 2 --dimension 3 --eta 0.1 --method X", "method = 'X': must be one of"),
        (f"{SERVE} --method IAG", "IAG needs exact gradients, a stream has none; use SIAG, or give a problem"),
        (f"{SERVE} --method SAG", "SAG draws one sample per iteration, which no live server can; use SIAG, or IAG"),
        (f"{SERVE} --method SIAG(wait=2)", "method.wait = 2: must be a finite number at least 0 and at most 1"),
        (f"{SERVE} --method SIAG(0.5)", "method = 0.5: must be an argument with its name, one of resum, wait, rows"),
        (f"{SERVE} --method FedAvg", "method.steps is missing; write FedAvg(steps=…, size=…)"),
        (f"{SERVE} --step Constant(1)", "step = 'Constant(1)': must be given without --eta, --beta and --gamma"),
        (f"{SERVE} --method open('x','w')", "must be one of ACE"),
        (f"{SERVE} --every 0", "siag: every = 0: must be"),
        (f"{SERVE} --tick 0", "siag: tick = 0.0: must be"),
        (f"{SERVE} --max-age -1", "siag: max-age = -1: must be"),
        (f"{SERVE} --max-norm 0", "siag: max-norm = 0.0: must be"),
        (f"{SERVE} --max-jump 1", "siag: max-jump = 1.0: must be"),
        (f"{SERVE} --linger -1", "siag: linger = -1.0: must be"),
        (
            f"{SERVE} --forget -1 --port 0",
            "siag: forget = -1.0: must be a finite number at least 0; or leave it out",
        ),
        (f"{SERVE} --linger nan", "siag: linger = nan: must be"),
        (f"{SERVE} --seed 1", "seed = 1: must be given with --problem"),
        (f"{SERVE} --key job.py", "siag: cert is missing"),
        (f"{SERVE} --metrics x", "metrics = 'x': must be a port, or host:port"),
        (f"{SERVE} --metrics 70000", "metrics = 70000: must be"),
        (f"{SERVE} --metrics 0.0.0.0:0", "metrics = '0.0.0.0': must be a loopback address"),
        ("serve --name a --name a --dimension 3 --eta 0.1", "name = ['a', 'a']: must be different texts"),
        (f"{SERVE} --problem problem.toml", "workers = 2: must be left out with --problem"),
        (f"{POSED} --dimension 3", "dimension = 3: must be left out with --problem"),
        (f"{POSED} --name a", "name = ['a']: must be 2, as many as the problem has"),
        (f"{POSED} --seed -1", "seed = -1: must be"),
        (f"{POSED} --method SAG", "SAG draws one sample per iteration"),
        ("serve --problem nowhere.toml --eta 0.1", "nowhere.toml: no such file"),
        ("serve --problem job:few --eta 0.1", "problem = 'job:few': must be a Problem, or a function"),
        ("serve --problem job:no_problem --eta 0.1", "it raised KeyError: 'no data'"),
        ("work x --problem job:problem --gradient job:gradient", "must be given alone"),
        ("work x --gradient job:gradient", "stream is missing; give gradient and stream, or a problem"),
        ("work x --problem job:problem --seed -1", "seed = -1: must be"),
        ("work x --gradient job:gradient --stream job:name", "stream = 'readings.csv': must be a stream, not a name"),
        ("work x --gradient job:gradient --stream job:few --give-up -1", "siag: give-up = -1.0: must be"),
        ("work ::1 --gradient job:gradient --stream job:few", "write an IPv6 address in brackets, as in [::1]:7460"),
        ("serve --workers 2 --dimension 3 --eta 0.1 --departed x", "departed = 'x': must be keep, drop, or"),
        ("serve --workers 2 --dimension 3 --eta 0.1 --host 0.0.0.0", "or --insecure if you trust everyone"),
        ("serve --workers 2 --dimension 3 --eta 0.1 --certificate job.py", "key is missing; TLS needs both"),
        ("serve --workers 2 --dimension 3 --eta 0.1 --durable", "folder is missing"),
        ("serve --workers 2 --w0 job.py --eta 0.1", "job.py: not a .npy file"),
        ("serve --workers 2 --dimension 3 --eta 0.1 --loss job:nothing", "importing it raised AttributeError"),
        ("work x:y --gradient job:gradient --stream job:ones", "address = 'x:y': must be like host:7460"),
        ("work :1 --gradient gradient --stream job:ones", 'of the form "module:attribute"'),
        ("work x --gradient job:gradient --stream nowhere:ones", "importing it raised ModuleNotFoundError"),
        ("work x --gradient job:few --stream job:ones", "must be a function gradient(w, sample)"),
        ("work x --gradient job:gradient --stream job:ones --token job.py", "does not hold one word"),
        ("work x --gradient job:gradient --stream job:ones --ca job.py", "holds no certificate"),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(words, says, desk, monkeypatch, capsys):
    assert says in mistake(words, desk, monkeypatch, capsys)


@pytest.mark.parametrize("command", ["serve", "work", "certs", "replay"])
def test_help_has_an_example(command, monkeypatch, capsys):
    from siag.cli import main

    monkeypatch.setattr(sys, "argv", ["siag", command, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "Example" in capsys.readouterr().out

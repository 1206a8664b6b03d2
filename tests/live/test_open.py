"""Workers that were not expected: they join a server that is open to them, count from then on, and leave."""

import time
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread

import numpy as np
import pytest
from pair import D, Desk, begun
from sessions import STEP

import siag
from siag.activity.trace import Trace
from siag.foundations.errors import SiagError
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.reasons import Ending
from siag.live.security import ANY, Tokens, read_token
from siag.live.spec import Spec
from siag.methods import SIAG, Automatic, Weighted, compute, forget, total_weight
from siag.steps import Constant

ROOM = 5


@pytest.fixture
def opened():
    return Desk(open_session(["a"]), open=True)


def open_session(names, **given):
    return begun(names, room=ROOM, **given)


def refused(answer):
    kind, _, content = answer
    assert kind == wire.REFUSAL
    return content


def test_a_newcomer_gets_a_row_and_counts_from_its_first_report_on(opened):
    old, new = opened.call(), opened.call()
    old.join(worker="a")
    old.report(np.ones(D))
    assert opened.server.w.tolist() == [-0.5] * D  # alone, it is all there is
    welcome = new.join(worker="north")
    assert (welcome["name"], welcome["row"], welcome["workers"]) == ("north", 1, ROOM)
    assert total_weight(opened.server.state) == 1.0
    new.report(np.full(D, 3.0), 1, 0)
    assert total_weight(opened.server.state) == 2.0
    assert opened.server.w.tolist() == [-1.5] * D  # half of each
    assert [worker.name for worker in opened.server.snapshot(1.0).workers] == ["a", "north"]


def test_a_newcomer_counts_1_beside_those_that_have_weights():
    desk = Desk(open_session(["a"], method=Weighted(SIAG(), (3.0, 1.0, 1.0, 1.0, 1.0))), open=True)
    old, new = desk.call(), desk.call()
    old.join(worker="a")
    old.report(np.ones(D))
    new.join(worker="north")
    new.report(np.full(D, 5.0), 1, 0)
    assert desk.server.w.tolist() == [-0.5 - 0.5 * (3 * 1.0 + 5.0) / 4] * D
    new.give(wire.text(wire.LEAVE, {"reason": "", "failed": False}))
    old.report(np.ones(D), 2, 1)
    assert desk.server.w.tolist() == [-2.0] * D  # it is alone again


def test_who_leaves_leaves_its_weight_to_the_others_and_may_come_back(opened):
    old, new = opened.call(), opened.call()
    old.join(worker="a")
    new.join(worker="north")
    old.report(np.ones(D))
    new.report(np.full(D, 3.0), 1, 0)
    new.give(wire.text(wire.LEAVE, {"reason": "", "failed": False}))
    assert total_weight(opened.server.state) == 1.0
    again = opened.call()
    assert again.join(worker="north")["samples"] == 1
    assert again.report(np.full(D, 3.0), 2, 1)[0] == wire.MODEL
    assert (total_weight(opened.server.state), len(opened.server.snapshot(1.0).workers)) == (2.0, 2)


def test_there_is_room_for_a_number_of_workers_and_no_more(opened):
    for k in range(ROOM - 1):
        opened.call().join(worker=f"w{k}")
    before = opened.state()
    content = refused(opened.call().hello(worker="one more"))
    assert content["final"]
    assert "no room for worker one more: this server has 5 rows; give it more with max_workers" in content["reason"]
    assert opened.call().join(worker="a")["row"] == 0  # who is expected has its row all the same
    assert opened.state() == before


@pytest.mark.parametrize("name", ["", "x" * 61, "two\nlines", "\x1b[2J", 7, "*"])
def test_a_name_that_is_none_is_refused_and_changes_nothing(opened, name):
    before = opened.state(), opened.server.roster.saved()
    assert refused(opened.call().hello(worker=name))["final"]
    assert (opened.state(), opened.server.roster.saved()) == before


def test_a_newcomer_without_a_name_gets_a_row_of_its_own_and_its_number_as_name(opened):
    opened.call().join(worker="a")
    opened.call().join(worker="1")  # which is the number of the row after it, too
    assert [opened.call().join()["name"] for _ in range(3)] == ["2", "3", "4"]
    desk = Desk(open_session([]), open=True)
    desk.call().join(worker="1")
    assert desk.call().join()["name"] == "2"


def test_a_server_that_is_not_open_takes_nobody_it_does_not_expect():
    desk = Desk(open_session(["a"]))
    assert "not among this server's" in refused(desk.call().hello(worker="north"))["reason"]
    desk.call().join()
    assert "all rows are taken" in refused(desk.call().hello())["reason"]


def test_a_token_for_guests_brings_a_name_and_never_anothers(tmp_path):
    make_certificates(tmp_path, hosts=[], workers=["a"], guest=True)
    tokens = Tokens.load(tmp_path / "tokens.json", ["a"])
    own, guest = (read_token(tmp_path / f"{name}.token") for name in ("a", "guest"))
    assert tokens.guests
    assert (tokens.row_of(own), tokens.row_of(guest), tokens.row_of("x" * 43)) == (0, ANY, None)
    desk = Desk(open_session(["a"]), tokens)
    assert desk.call().join(token=guest, worker="north")["row"] == 1
    assert "another's row" in refused(desk.call().hello(token=guest, worker="a"))["reason"]
    assert "say their name" in refused(desk.call().hello(token=guest))["reason"]
    assert "another's row" in refused(desk.call().hello(token=own, worker="north"))["reason"]
    assert "token is missing" in refused(desk.call().hello(worker="south"))["reason"]
    assert desk.call().join(token=own)["row"] == 0


def test_an_open_server_waits_for_others_when_all_have_left():
    session = open_session([], linger=10.0)
    desk = Desk(session, open=True)
    caller = desk.call()
    caller.join(worker="north")
    caller.report(np.ones(D))
    caller.give(wire.text(wire.LEAVE, {"reason": "", "failed": False}))
    session.look_after(1.0)
    assert not session.over
    session.look_after(12.0)
    assert session.ended.ending is Ending.LINGERED


def test_epochs_are_counted_of_those_who_are_there():
    session = open_session([], until=siag.Until(epochs=2))
    desk = Desk(session, open=True)
    desk.call().join(worker="north")
    session.passes[0] = 2
    session.look_after(1.0)
    assert session.ended.ending is Ending.EPOCHS


PROBLEM = siag.problems.LeastSquares.random(n=ROOM, d=3, p=4, noise=0.1, seed=1)
SEED, REPORTS = 7, 60


class Crowd:
    """The workers of a problem, by hand; their k-th samples are those of a simulation with the same seed."""

    def __init__(self, method):
        self.memory, self.oracle = method.recruit(np.zeros(3), ROOM), PROBLEM.oracle()
        self.key, self.rng, self.out = key(SEED, 0, SAMPLES), blank(), np.zeros(method.message(3, ROOM))

    def report(self, session, row, now):
        number = session.server.members[row].samples
        rewind(self.rng, self.key, row, number)
        compute(self.memory, self.oracle, self.rng, row, session.server.shown, self.out)
        session.push(row, session.server.version, self.out, number, now)


def grow(session, crowd, reports, names=("a", "north", "south", "east", "west")):
    """Let workers join one after the other, and report; each report is on disk when the next comes."""
    desk = Desk(session, open=True)
    for k in reports:
        desk.now = time.monotonic()
        row = (k * k + k // 3) % min(ROOM, 1 + k // 4)
        for each in range(len(desk.connections.by_row), row + 1):
            before = session.server.fades
            desk.call().hello(worker=names[each])
            if session.server.fades > before:
                forget(crowd.memory, each)
        crowd.report(session, row, time.monotonic())
        session.commit()


@pytest.mark.parametrize("method", [SIAG(), Automatic()], ids=repr)
def test_a_durable_run_that_is_killed_while_it_grows_loses_nothing_that_was_acknowledged(assembled, tmp_path, method):
    """After each of twenty kills all is there; in the end the trace, run again, gives the same w to the bit."""
    options = {"open": True, "max_workers": ROOM, "method": method, "durable": True}
    options |= {"step": None} if isinstance(method, Automatic) else {}
    places = {"folder": tmp_path / "state", "trace": tmp_path / "trace"}
    crowd, done = Crowd(method), 0
    kills = sorted(np.random.default_rng(3).choice(np.arange(1, REPORTS), 20, replace=False).tolist())
    for until in [*kills, REPORTS]:
        session = assembled(workers=["a"], **options, **places)
        session.begin(time.monotonic())
        assert session.server.reports == done
        grow(session, crowd, range(done, until))
        done = until
        if until < REPORTS:
            session.disk.kill()
    session.finish(time.monotonic())
    assert [member.name for member in session.server.members] == ["a", "north", "south", "east", "west"]
    again = Trace.read(tmp_path / "trace")
    step = None if isinstance(method, Automatic) else STEP
    replayed = siag.simulate(PROBLEM, method, again, step, iterations=again.length, seed=SEED)
    assert np.array_equal(replayed.w[0], session.server.w)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"max_workers": 1, "names": ["a", "b"]}, "at least 2"),
        ({"max_workers": 0}, "max_workers = 0"),
        ({"open": 1}, "True or False"),
        ({"open": True, "method": siag.methods.SGD(), "step": Constant(0.1)}, "keeps a table"),
        ({"open": True, "method": SIAG(wait=1.0), "step": Constant(0.1)}, "leave out wait"),
        (
            {"open": True, "problem": siag.problems.LeastSquares.random(n=2, d=2, p=2, noise=0.1)},
            "left out with a problem",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(given, word):
    described = {"w0": np.zeros(2)} | given
    if "problem" in given:
        del described["w0"]
    with pytest.raises(SiagError, match=word):
        Spec(**described).validate(serving=True)


def test_room_for_nobody_in_particular_is_refused():
    with pytest.raises(SiagError, match=r"max_workers = 3: .*give open, or tokens"):
        siag.serve(np.zeros(2), ["a"], max_workers=3, port=0)


def test_over_a_network_a_newcomer_changes_what_is_minimised():
    """Gradients are exact, and both read samples in step, so that w ends at the mean of the two."""
    both, threads = Barrier(2), []

    def samples(target):
        with suppress(BrokenBarrierError):
            while True:
                both.wait(60.0)
                yield np.full(2, target)

    def come(host, port):
        for name, target in (("a", 1.0), ("north", 3.0)):
            given = f"{host}:{port}", lambda w, sample: w - sample, samples(target)
            threads.append(Thread(target=siag.work, args=given, kwargs={"name": name, "give_up": 60.0}))
            threads[-1].start()

    told = {"port": 0, "ready": come, "progress": False}
    run = siag.serve(np.zeros(2), ["a"], SIAG(), Constant(0.2), siag.Until(reports=200), open=True, **told)
    both.abort()
    for thread in threads:
        thread.join()
    assert [each["name"] for each in run.workers] == ["a", "north"]
    assert np.linalg.norm(run.w[0] - 2.0) < 0.1


def test_rows_that_nobody_has_take_no_room_on_disk(assembled, tmp_path):
    """A thousand rows, two workers: the file is as large as that of two rows, and comes back whole."""
    given = {"open": True, "max_workers": 1000, "d": 500, "folder": tmp_path / "state"}
    session = assembled(workers=["a"], **given)
    session.begin(0.0)
    row = session.admit("north", 0.0)
    for each in (0, row):
        session.join(each, 0.0)
        session.push(each, session.server.version, np.full(500, 1.0 + each), 0, 0.1)
    session.finish(1.0)
    session.disk.kill()
    size = sum(path.stat().st_size for path in (tmp_path / "state").iterdir())
    assert 8 * 500 * 2 < size < 8 * 500 * 200
    again = assembled(workers=["a"], **given)
    for name, array in session.server.arrays().items():
        assert np.array_equal(array, again.server.arrays()[name]), name
    assert [each.name for each in again.server.members[:3]] == ["a", "north", ""]

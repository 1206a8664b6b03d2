"""What the driver and the actors of a run on Ray do, without a cluster: Ray, and time, are made up."""

from types import SimpleNamespace

import jobs
import pytest
from hypothesis import given
from hypothesis import strategies as some

import siag
from siag.foundations.errors import SiagError
from siag.live.announcer import Announcer
from siag.live.ray import actors, cluster, driver, server_actor
from siag.live.ray.actors import Gone, WorkerActor
from siag.live.ray.driver import CROWDED, Driver
from siag.live.ray.resources import room_for
from siag.live.ray.server_actor import Look, Orders, Outcome, ServerActor
from siag.live.reasons import Ended, Ending, Failure
from siag.runtimes import Ray

pytestmark = pytest.mark.ray

VERSION = siag.__version__


class Clock:
    """Time that passes when somebody waits."""

    now = 1000.0

    def __call__(self):
        return self.now


class FakeServers:
    """A server that answers as it is told to, and may have no room; the run is over after so many seconds."""

    def __init__(self, clock, seconds, answers=lambda now: True, placed=lambda now: True):
        self.clock, self.end = clock, clock() + seconds
        self.answers, self._placed = answers, placed
        self.first, self.missed, self.removed, self.heard = "server", False, False, []

    def start(self):
        pass

    @property
    def over(self):
        return self.clock() >= self.end

    @property
    def placed(self):
        return self._placed(self.clock())

    def wait(self, seconds):
        self.clock.now += seconds
        return self.over

    def look(self, life, known, orders):
        self.missed = not self.answers(self.clock())
        if self.missed:
            return None
        self.heard.append(orders)
        return Look("life", True, 0, [], None)

    def outcome(self):
        return Outcome("run", b"", [])

    def finish(self):
        pass

    def remove(self):
        self.removed = True


class FakeWorkers:
    """Workers of which so many come up; what is done with them is noted."""

    def __init__(self, clock, up):
        self.clock, self._up = clock, up
        self.up, self.gone, self.paused, self.done = set(), {}, False, []

    def start(self):
        self.up, self.paused = set(range(self._up)), False
        self.done.append("start")

    def pause(self):
        self.paused = True
        self.done.append("pause")

    def meet(self, patience=0.0):
        self.clock.now += patience

    def work(self, server):
        self.done.append("work")

    def note_ends(self):
        pass

    def adjust(self):
        pass

    def finish(self, patience):
        pass

    def remove(self):
        self.done.append("remove")


class Watched(jobs.Notes):
    """A driver with made-up servers and workers, and what it says."""

    def __init__(self, workers=2, up=None, *, seconds=100.0, **given):
        super().__init__()
        self.clock = Clock()
        self.servers = FakeServers(self.clock, seconds, **given)
        self.workers = FakeWorkers(self.clock, workers if up is None else up)
        parts = Announcer(self), self.servers, self.workers
        self.driver = Driver(Ray(), SimpleNamespace(n=workers), *parts, clock=self.clock)

    def start(self):
        self.driver._start_servers()
        self.driver._start_workers()


@pytest.fixture(autouse=True)
def _nothing_is_free(monkeypatch):
    monkeypatch.setattr(driver, "free", lambda resources: "free: 0 CPU")


def test_workers_that_do_not_come_are_not_waited_for_for_ever():
    seen = Watched(3, up=1)
    with pytest.raises(SiagError, match=r"^1 of 3 workers were there after 60 seconds: .* by fewest=1$"):
        seen.driver.run()
    assert seen.servers.removed
    assert seen.workers.done == ["start", "remove"]


def test_workers_make_room_for_a_server_that_has_none_for_a_while_and_come_back():
    seen = Watched(placed=lambda now: not 1010.0 < now < 1050.0)
    seen.start()
    seen.driver._watch()
    assert seen.workers.done == ["start", "work", "pause", "start"]
    assert seen.events == ["problem: there is no room for a server; the workers make room until it has some"]


def test_workers_make_no_room_for_a_server_that_is_only_slow():
    seen = Watched(placed=lambda now: not 1010.0 < now < 1010.0 + CROWDED - 2, answers=lambda now: now < 1010.0)
    seen.start()
    seen.driver._watch()
    assert seen.workers.done == ["start", "work"]
    assert seen.events == ["problem: the server is gone; Ray restarts it, from its last save"]


def test_a_run_that_is_to_end_does_not_wait_for_a_server_that_is_gone():
    seen = Watched(answers=lambda now: now < 1010.0)
    seen.start()
    seen.clock.now = 1011.0
    seen.driver.end(Ending.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        seen.driver._watch()
    assert seen.heard("interrupted while the server is away: the run ends at once; its last save is kept")


def test_a_server_is_told_of_the_end_and_of_workers_that_are_gone_each_time_it_is_asked():
    seen = Watched()
    seen.start()
    seen.workers.gone = {row: Gone(None, "") for row in (0, 1)}
    seen.driver.end(Ending.STOPPED, "SIGTERM")
    seen.driver._watch()
    assert seen.servers.heard[-1] == Orders(Ended(Ending.STOPPED, "SIGTERM"), seen.workers.gone)


@pytest.mark.parametrize(("placed", "said"), [(True, "was not ready"), (False, "could not be placed")])
def test_a_server_that_does_not_come_is_not_waited_for_for_ever(placed, said):
    seen = Watched(answers=lambda now: False, placed=lambda now: placed)
    with pytest.raises(SiagError, match=rf"^the server {said} within 60 seconds: the cluster is busy \(free: 0 CPU\)"):
        seen.driver.run()
    assert seen.servers.removed


def test_ctrl_c_before_the_server_is_there_ends_the_run_at_once():
    seen = Watched(answers=lambda now: False)
    seen.driver.end(Ending.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        seen.driver.run()
    assert seen.servers.removed


@pytest.mark.parametrize(("ours", "workers", "said"), [(True, 80, True), (True, 3, False), (False, 80, False)])
def test_more_processes_than_cores_are_mentioned(monkeypatch, ours, workers, said):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    notes = jobs.Notes()
    Ray()._mention_size(SimpleNamespace(n=workers, w0=SimpleNamespace(size=3)), Announcer(notes), ours)
    assert notes.heard("81 processes share the 4 cores of this machine", "memory of its own; use fewer workers") is said


@pytest.fixture
def _on_a_node(monkeypatch):
    import ray

    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")


@pytest.mark.usefixtures("_on_a_node")
def test_another_version_on_a_node_is_refused():
    import ray

    said = "the node at 10.0.0.7 has siag .*, the driver 99.0; install the same version on all nodes"
    with pytest.raises(SiagError, match=said):
        raise ray.cloudpickle.loads(ServerActor("99.0").run(b"", []).error)
    assert WorkerActor("99.0", 0, "0", "token").load(b"", b"").startswith("the node at 10.0.0.7 has siag ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The actor died.\n  ...\nModuleNotFoundError: No module named 'siag'\n", "cannot be imported on the node"),
        ("The actor died because of an error in its creation task, \x1b[36mray::x\x1b[39m\nOSError: no", "OSError: no"),
        ("It died.\nfor some reason", "It died."),
    ],
)
def test_what_ray_says_of_a_lost_actor_becomes_a_line(text, said):
    found = cluster.why_lost(RuntimeError(text))
    assert said in found
    assert "\n" not in found


class FakeSession:
    """As much of a session as is told of workers that are gone."""

    def __init__(self, *names):
        members = [SimpleNamespace(name=name, state="expected", reason="", reports=0) for name in names]
        self.server, self.over, self.told, self.failures = SimpleNamespace(members=members), False, [], []

    def failed(self, row, why, kind):
        self.told.append((kind, row, why))

    def left(self, row, now, why):
        self.told.append(("left", row, why))

    def end(self, ending, detail):
        self.told.append(ending)

    def whereabouts(self):
        return Ended(Ending.NOBODY)

    def soon(self, act):
        act()


def test_a_server_obeys_orders_once_and_does_not_repeat_what_it_knows():
    server, session = ServerActor(VERSION), FakeSession("1", "11", "2", "3")
    server._session = session
    session.failures = [SimpleNamespace(row=2, kind=Failure.OWN_CODE)]  # the worker itself has said so
    session.server.members[3].state = "refused"
    gone = {row: Gone(Failure.OWN_CODE, "no stream") for row in (1, 2)} | {0: Gone(None, "done")}
    for _ in range(2):
        server.look("", 0, Orders(gone=gone))
    assert session.told == [(Failure.OWN_CODE, 1, "no stream"), ("left", 0, "done")]
    server.look("", 0, Orders(gone=gone | {3: Gone(Failure.GAVE_UP, "dismissed")}))
    assert session.told[2:] == [Ending.NOBODY]


def test_remarks_reach_the_driver_once_each_and_again_in_another_life():
    server = ServerActor(VERSION)
    server._relay.event("one")
    server._relay.problem("two")
    look = server.look("", 0, Orders())
    assert (look.told, look.lines) == (2, [(False, "one"), (True, "two")])
    server._relay.event("three")
    again = server.look(look.life, 2, Orders())
    assert (again.told, again.lines) == (3, [(False, "three")])
    assert len(server.look("another life", 7, Orders()).lines) == 3


@pytest.mark.usefixtures("_on_a_node")
def test_a_worker_that_dies_again_and_again_before_any_report_is_given_up(monkeypatch):
    import ray

    server, session = ServerActor(VERSION), FakeSession("0")
    server._session = session
    session.server.members[0].reports = 1
    assert [server.came_again(0) for _ in range(4)] == [1, 2, 3, 4]
    session.server.members[0].reports = 2
    assert [server.came_again(0) for _ in range(3)] == [1, 2, 3]
    monkeypatch.setattr(ray, "get", lambda answer, timeout: answer)
    monkeypatch.setattr(actors, "restarted", lambda: True)
    parts = ray.cloudpickle.dumps((None, None)), ray.cloudpickle.dumps(None)
    calls = SimpleNamespace(came_again=SimpleNamespace(remote=server.came_again))
    gone = WorkerActor(VERSION, 0, "0", "token").run(*parts, calls)
    assert gone == Gone(Failure.GAVE_UP, "its process has died 3 times before it could report anything")


@pytest.mark.usefixtures("_on_a_node")
def test_what_cannot_be_loaded_on_a_node_is_said_with_the_remedy():
    gone = WorkerActor(VERSION, 0, "0", "token").run(b"no pickle", b"", None)
    assert gone.failure is Failure.OWN_CODE
    assert gone.why.startswith("gradient, problem or method cannot be loaded on the node at 10.0.0.7: ")
    assert gone.why.endswith("ray.init(runtime_env={'working_dir': '.'})")


@pytest.mark.parametrize(
    ("folder", "again", "recovered", "refused"),
    [
        ("/runs/1", True, False, True),
        ("/runs/1", True, True, False),
        ("/runs/1", False, False, False),
        (None, True, False, False),
    ],
)
@pytest.mark.usefixtures("_on_a_node")
def test_a_restarted_server_where_nothing_of_the_run_is_says_so(monkeypatch, folder, again, recovered, refused):
    monkeypatch.setattr(server_actor, "restarted", lambda: again)
    server, session = ServerActor(VERSION), SimpleNamespace(recovered=recovered)
    if not refused:
        server._check_seen(folder, session)
        return
    with pytest.raises(SiagError, match=r"and /runs/1 holds nothing of the run on the node at 10.0.0.7; give a folder"):
        server._check_seen(folder, session)


def test_an_error_that_cannot_be_pickled_reaches_the_driver_in_words():
    import ray

    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(a)

    found = ray.cloudpickle.loads(server_actor._portable(Odd("the loss", 2)))
    assert isinstance(found, SiagError)
    assert str(found).startswith("the server failed: Odd: the loss")
    assert isinstance(ray.cloudpickle.loads(server_actor._portable(KeyError("x"))), KeyError)


AMOUNTS = some.dictionaries(some.sampled_from(["CPU", "GPU"]), some.sampled_from([0.5, 1.0, 2.0]), min_size=1)


@given(some.lists(AMOUNTS, max_size=3), some.lists(AMOUNTS, max_size=3), AMOUNTS)
def test_what_is_said_to_fit_does(nodes, first, worker):
    placed, fit = room_for(nodes, first, worker, 10)
    for what in ("CPU", "GPU"):
        used = sum(need.get(what, 0) for need in first[:placed]) + fit * worker.get(what, 0)
        assert used <= sum(node.get(what, 0) for node in nodes)
    assert room_for([*nodes, worker], first, worker, 10)[1] >= fit
    alone = sum(min(int(node.get(what, 0) / amount) for what, amount in worker.items()) for node in nodes)
    assert room_for(nodes, [], worker, 10) == (0, min(10, alone))
    assert fit <= min(10, alone)

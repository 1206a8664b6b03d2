"""What the driver and the actors of a run on Ray do, without a cluster: Ray, and time, are made up."""

from types import SimpleNamespace

import jobs
import pytest
from hypothesis import given
from hypothesis import strategies as some
from siag.live.ray.room import room_for

import siag
from siag.foundations.errors import SiagError
from siag.live.ray import actors, cluster, driver, server_actor
from siag.live.ray.actors import STALE, Ended, How, WorkerActor
from siag.live.ray.driver import CROWDED, FIRST, HEARING, Driver
from siag.live.ray.server_actor import Look, Orders, Outcome, ServerActor
from siag.live.ray.servers import Servers, greeted
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

    def start(self, check):
        check()

    def check_patience(self):
        assert not self.over

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
        self.up, self.ended, self.paused, self.done = set(), {}, False, []

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

    def __init__(self, workers=2, up=None, *, seconds=100.0, ours=False, reads=False, **given):
        super().__init__()
        self.clock = Clock()
        self.servers = FakeServers(self.clock, seconds, **given)
        self.workers = FakeWorkers(self.clock, workers if up is None else up)
        plan = SimpleNamespace(own=[None] * workers, names=[str(i) for i in range(workers)])
        plan.options, plan.w0 = SimpleNamespace(folder="folder"), SimpleNamespace(size=3)
        parts = self, self.servers, self.workers
        self.driver = Driver(Ray(), plan, *parts, ours=ours, reads=reads, clock=self.clock)

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
    assert seen.events[1:] == ["problem: there is no room for a server; the workers make room until it has some"]


def test_workers_make_no_room_for_a_server_that_is_only_slow():
    seen = Watched(placed=lambda now: not 1010.0 < now < 1010.0 + CROWDED - 2, answers=lambda now: now < 1010.0)
    seen.start()
    seen.driver._watch()
    assert seen.workers.done == ["start", "work"]
    assert seen.events[1:] == ["problem: the server is gone; Ray restarts it, from its last save"]


def test_a_server_that_does_not_hear_of_the_end_is_not_waited_for():
    seen = Watched(answers=lambda now: now < 1010.0)
    seen.start()
    seen.clock.now = 1011.0
    seen.driver._end("interrupted")
    with pytest.raises(KeyboardInterrupt):
        seen.driver._watch()
    assert seen.clock() <= 1012.0 + HEARING
    assert seen.heard("interrupted while the server is away: the run ends at once; start it again with the same folder")


def test_a_server_is_told_of_the_end_and_of_workers_that_ended_each_time_it_is_asked():
    seen = Watched()
    seen.start()
    seen.workers.ended = {row: Ended(How.LEFT, "") for row in (0, 1)}
    seen.driver._end("interrupted")
    seen.driver._watch()
    assert seen.servers.heard[-1] == Orders("interrupted", seen.workers.ended, True)


def test_ctrl_c_before_the_server_is_there_ends_the_run_at_once():
    seen = Watched(answers=lambda now: False)
    seen.driver._end("interrupted")
    with pytest.raises(KeyboardInterrupt):
        seen.driver.run()
    assert seen.servers.removed


@pytest.mark.parametrize(("reads", "said"), [(True, 1), (False, 0)])
def test_it_is_said_once_that_a_dataset_has_given_no_rows(reads, said):
    seen = Watched(reads=reads, seconds=3 * FIRST)
    seen.start()
    seen.driver._watch()
    begin = "waiting for the Dataset's first rows (free: 0 CPU; reading needs a free CPU; use fewer workers"
    assert sum(event.startswith(begin) for event in seen.events) == said


@pytest.mark.parametrize(("ours", "workers", "said"), [(True, 80, True), (True, 3, False), (False, 80, False)])
def test_more_processes_than_cores_are_mentioned(monkeypatch, ours, workers, said):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    seen = Watched(workers, ours=ours)
    seen.start()
    assert seen.heard("81 processes share the 4 cores of this machine", "memory of its own; use fewer workers") is said


def broken(ref, timeout=None):
    from ray.exceptions import RayActorError

    raise RayActorError


@pytest.mark.parametrize("get", [lambda stop: STALE, broken])
def test_a_shard_whose_last_copy_failed_is_warned_of(monkeypatch, get):
    import ray

    spec = SimpleNamespace(plan=SimpleNamespace(options=SimpleNamespace(folder="folder")), shards=2)
    found = Servers(spec, {}, 60.0, "name")
    monkeypatch.setattr(ray, "get", get)
    found._actors = [None, SimpleNamespace(stop=SimpleNamespace(remote=lambda: "stop"))]
    with pytest.warns(RuntimeWarning, match="shard 1: what is at the URL is older than this run's end"):
        found.finish()


def test_other_versions_on_the_nodes_are_refused(monkeypatch):
    import ray

    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    monkeypatch.setattr(ray, "get", lambda hello: hello)
    greeted("the server", ServerActor(VERSION).hello())
    with pytest.raises(SiagError, match=r"^the server, on the node at 10.0.0.7: it has siag .*, the driver 99.0; inst"):
        greeted("the server", ServerActor("99.0").hello())
    monkeypatch.setattr(ray, "get", broken)
    with pytest.raises(SiagError, match=r"^the server could not be started: "):
        greeted("the server", None)


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
        self.server, self.over, self.told = SimpleNamespace(members=members), False, []

    def failed(self, row, why):
        self.told.append(("failed", row, why))

    def left(self, row, now, why):
        self.told.append(("left", row, why))

    def end(self, why):
        self.told.append(why)

    def whereabouts(self):
        return "nobody is there"


def test_a_server_obeys_orders_once_and_does_not_repeat_what_it_knows():
    server, session = ServerActor(VERSION), FakeSession("1", "11", "2", "3")
    server._session = session
    members = session.server.members
    members[2].state, members[2].reason = "away", "no stream"  # the worker itself has said so
    members[3].state = "refused"
    ended = {row: Ended(How.OWN_CODE, "no stream") for row in (1, 2, 3)} | {0: Ended(How.LEFT, "done")}
    for _ in range(2):
        server.look("", 0, Orders(ended=ended))
        server._obey()
    assert session.told == [("failed", 1, "no stream"), ("left", 0, "done")]
    server.look("", 0, Orders(nobody=True))
    server._obey()
    assert session.told[2:] == ["nobody is there"]


def test_remarks_reach_the_driver_once_each_and_again_in_another_life():
    server = ServerActor(VERSION)
    server._relay.event("one")
    server._relay.problem("two")
    look = server.look("", 0, Orders())
    assert (look.after, look.lines) == (0, [(False, "one"), (True, "two")])
    server._relay.event("three")
    again = server.look(look.life, 2, Orders())
    assert (again.after, again.lines) == (2, [(False, "three")])
    assert server.look("another life", 7, Orders()).lines == [(False, "three")]


def test_a_worker_that_dies_again_and_again_before_any_report_is_given_up(monkeypatch):
    import ray

    server, session = ServerActor(VERSION), FakeSession("0")
    server._session = session
    calls = SimpleNamespace(came_again=SimpleNamespace(remote=server.came_again))
    monkeypatch.setattr(ray, "get", lambda answer, timeout: answer)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    monkeypatch.setattr(actors, "restarted", lambda: True)
    worker = WorkerActor(VERSION, 0, "0", "token")
    worker._server = calls
    assert [worker._keeps_dying() for _ in range(3)] == [False] * 3
    parts = ray.cloudpickle.dumps((None, None)), ray.cloudpickle.dumps(None)
    assert worker.run(*parts, calls) == Ended(
        How.GAVE_UP, "its process has died 3 times before it could report anything"
    )
    session.server.members[0].reports = 1
    assert not worker._keeps_dying()


def test_what_cannot_be_loaded_on_a_node_is_said_with_the_remedy(monkeypatch):
    import ray

    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    ended = WorkerActor(VERSION, 0, "0", "token").run(b"no pickle", b"", None)
    assert ended.how is How.OWN_CODE
    assert "gradient, problem or method cannot be loaded there: " in ended.why
    assert "install it on all nodes, or have Ray send it" in ended.why


@pytest.mark.parametrize(
    ("folder", "again", "recovered", "refused"),
    [
        ("/runs/1", True, False, True),
        ("/runs/1", True, True, False),
        ("/runs/1", False, False, False),
        (None, True, False, False),
    ],
)
def test_a_restarted_server_where_nothing_of_the_run_is_says_so(monkeypatch, folder, again, recovered, refused):
    import ray

    monkeypatch.setattr(server_actor, "restarted", lambda: again)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
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


def test_servers_without_resources_have_no_placement_group(monkeypatch):
    import ray

    made = []
    monkeypatch.setattr(ray.util, "placement_group", lambda *given, **named: made.append(given))
    spec = SimpleNamespace(plan=SimpleNamespace(options=SimpleNamespace(folder=None)), shards=1)
    found = Servers(spec, {"CPU": 0.0}, 60.0, "name")
    monkeypatch.setattr(found, "_actor", lambda kind, k, name: (_ for _ in ()).throw(InterruptedError))
    with pytest.raises(InterruptedError):
        found.start(lambda: None)
    assert not made
    assert found.placed

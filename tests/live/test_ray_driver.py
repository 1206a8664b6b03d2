"""What the driver of a run on Ray decides, without a cluster: its servers and workers, and time, are made up."""

import jobs
import pytest
from fake_ray import fake_ray

import siag
from siag.foundations.errors import SiagError
from siag.live.announcer import Announcer
from siag.live.ray.actors import Gone
from siag.live.ray.driver import CROWDED, Driver, mention_size
from siag.live.ray.resources import ONE_CPU, Needs
from siag.live.ray.server_actor import Look, Outcome
from siag.live.reasons import Ended, Ending

pytestmark = pytest.mark.ray


@pytest.fixture
def ray(monkeypatch):
    return fake_ray(monkeypatch)


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
        self.found = Outcome(None, b"", [])

    def start(self):
        pass

    def over(self, patience=0.0):
        self.clock.now += patience
        return self.clock() >= self.end

    @property
    def placed(self):
        return self._placed(self.clock())

    def look(self, why, gone):
        self.missed = not self.answers(self.clock())
        if self.missed:
            return None
        self.heard.append((why, gone))
        return Look(True, [(True, "problem: x"), (False, "y")] if len(self.heard) == 1 else [], None)

    def outcome(self):
        return self.found

    def finish(self):
        pass

    def remove(self):
        self.removed = True


class FakeWorkers:
    """Workers of which so many come up; what is done with them is noted."""

    def __init__(self, clock, up):
        self.clock, self._up = clock, up
        self.up, self.gone, self.done = set(), {}, []

    def keep(self, most):
        ended = most < len(self.up)
        self.up = set(range(min(most, self._up)))
        if not self.done or self.done[-1] != most:
            self.done.append(most)
        return ended

    def look(self, patience=0.0):
        self.clock.now += patience

    def work(self, server):
        self.done.append("work")

    def finish(self, patience):
        self.done.append("finish")

    def remove(self):
        self.done.append("remove")


class Watched(jobs.Notes):
    """A driver with made-up servers and workers, and what it says."""

    def __init__(self, workers=2, up=None, *, fewest=None, seconds=100.0, reads=False, **given):
        super().__init__()
        self.clock = Clock()
        self.servers = FakeServers(self.clock, seconds, **given)
        self.workers = FakeWorkers(self.clock, workers if up is None else up)
        needs = Needs(ONE_CPU, 1, ONE_CPU, workers, reads)
        parts = Announcer(self), self.servers, self.workers
        self.driver = Driver(needs, fewest or workers, 60.0, *parts, clock=self.clock)


@pytest.mark.usefixtures("ray")
def test_workers_that_do_not_come_are_not_waited_for_for_ever():
    seen = Watched(3, up=1)
    with pytest.raises(SiagError, match=r"^1 of 3 workers were there after 60 seconds: .* by fewest=1$"):
        seen.driver.run()
    assert seen.servers.removed
    assert seen.workers.done == [3, "remove"]


def test_a_run_begins_with_the_fewest_and_with_datasets_only_as_many_are_started_as_leave_a_cpu(ray):
    seen = Watched(3, up=2, fewest=2, reads=True)
    cpus = {1000.0: 4.0}
    ray.cluster_resources = lambda: {"CPU": cpus[max(at for at in cpus if at <= seen.clock())]}
    cpus[1050.0] = 5.0
    seen.servers.found = Outcome(None, ray.cloudpickle.dumps(ZeroDivisionError("no such loss")), [(UserWarning, "w")])
    with pytest.raises(ZeroDivisionError, match="no such loss"), pytest.warns(UserWarning, match="w"):
        seen.driver.run()
    assert seen.workers.done == [2, "work", 2, 3, "finish", "remove"]
    assert seen.events == ["problem: x", "y", "2 of 3 workers are there; the others wait for room"]


def outlived(seen):
    """Run it to its end; what it said after it had begun."""
    seen.driver._start_servers()
    seen.driver._start_workers()
    seen.driver._watch()
    return seen.events[2:]


@pytest.mark.usefixtures("ray")
def test_workers_make_room_for_a_server_that_has_none_for_a_while_and_come_back():
    seen = Watched(placed=lambda now: not 1010.0 < now < 1050.0)
    said = outlived(seen)
    assert seen.workers.done == [2, "work", 2, 0, 2]
    assert said == ["problem: there is no room for a server; the workers make room until it has some"]


@pytest.mark.usefixtures("ray")
def test_workers_make_no_room_for_a_server_that_is_only_slow():
    seen = Watched(placed=lambda now: not 1010.0 < now < 1010.0 + CROWDED - 2, answers=lambda now: now < 1010.0)
    said = outlived(seen)
    assert seen.workers.done == [2, "work", 2]
    assert said == ["problem: the server is gone; Ray restarts it, from its last save"]


@pytest.mark.usefixtures("ray")
def test_a_run_that_is_to_end_does_not_wait_for_a_server_that_is_gone():
    seen = Watched(answers=lambda now: now < 1010.0 or seen.driver.end(Ending.INTERRUPTED))
    with pytest.raises(KeyboardInterrupt):
        seen.driver.run()
    assert seen.heard("interrupted while the server is away: the run ends at once; its last save is kept")


@pytest.mark.usefixtures("ray")
def test_a_server_is_told_of_the_end_and_of_workers_that_are_gone_each_time_it_is_asked():
    seen = Watched()
    seen.workers.gone = {row: Gone(None, "") for row in (0, 1)}
    seen.driver._start_servers()
    seen.driver.end(Ending.STOPPED, "SIGTERM")
    seen.driver._watch()
    assert seen.servers.heard[-1] == (Ended(Ending.STOPPED, "SIGTERM"), seen.workers.gone)


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(("placed", "said"), [(True, "was not ready"), (False, "could not be placed")])
def test_a_server_that_does_not_come_is_not_waited_for_for_ever(placed, said):
    seen = Watched(answers=lambda now: False, placed=lambda now: placed)
    with pytest.raises(SiagError, match=rf"^the server {said} within 60 seconds: the cluster is busy \(free: 0 CPU\)"):
        seen.driver.run()
    assert seen.servers.removed


@pytest.mark.usefixtures("ray")
def test_ctrl_c_before_the_server_is_there_ends_the_run_at_once():
    seen = Watched(placed=lambda now: False)
    seen.driver.end(Ending.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        seen.driver.run()
    assert seen.servers.removed


@pytest.mark.parametrize(("ours", "workers", "said"), [(True, 80, True), (True, 3, False), (False, 80, False)])
def test_more_processes_than_cores_are_mentioned(monkeypatch, ours, workers, said):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    notes = jobs.Notes()
    mention_size(Announcer(notes), workers, 3, 1, ours)
    assert notes.heard("81 processes share the 4 cores of this machine", "memory of its own; use fewer workers") is said


CLUSTER = {"CPU": 4.0, "GPU": 1.0, "node:10.0.0.1": 1.0, "memory": 1e9}


@pytest.mark.parametrize(
    ("server", "worker", "reads", "room"),
    [
        (ONE_CPU, ONE_CPU, False, 3),
        (ONE_CPU, ONE_CPU, True, 2),
        (ONE_CPU, {"CPU": 2.0}, False, 1),
        (ONE_CPU, {"CPU": 0.1, "GPU": 0.1}, False, 10),
        ({"GPU": 1.0}, {"GPU": 0.5}, False, 0),
        (ONE_CPU, {"unicorn": 1.0}, False, 0),
        (ONE_CPU, {"CPU": 0.0}, True, 20),
        ({"CPU": 9.0}, ONE_CPU, False, 0),
    ],
)
def test_how_many_workers_a_cluster_has_room_for(server, worker, reads, room):
    needs = Needs(server, 1, worker, 20, reads)
    assert needs.room(CLUSTER) == room
    assert needs.room(needs.total(7)) >= 7
    if room:
        needs.check(CLUSTER, room)


def test_what_does_not_fit_is_refused_with_what_the_cluster_has():
    needs = Needs(ONE_CPU, 2, {"CPU": 0.5}, 4, True)
    said = r"^fewest = 3: must be at most 2: the cluster has 4 CPU, servers and reading need 3 CPU, each worker "
    with pytest.raises(siag.BadInput, match=said + r"0.5 CPU; ask for less with resources=, add nodes, or .*fewest=2$"):
        needs.check(CLUSTER, 3)

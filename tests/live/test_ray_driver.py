"""What the driver and the actors of a run on Ray do, without a cluster: Ray, and time, are made up."""

from types import SimpleNamespace

import jobs
import numpy as np
import pytest

import siag
from siag.foundations.errors import SiagError
from siag.live.announcer import Announcer
from siag.live.ray import actors, cluster, driver, server_actor, servers, workers
from siag.live.ray.actors import Gone, Secrets, WorkerActor
from siag.live.ray.driver import CROWDED, Driver
from siag.live.ray.places import STALE
from siag.live.ray.resources import ONE_CPU, Needs
from siag.live.ray.server_actor import Look, Outcome, ServerActor, ServerSpec
from siag.live.ray.servers import Servers
from siag.live.ray.workers import Workers
from siag.live.reasons import Ended, Ending, Failure
from siag.live.spec import Spec
from siag.runtimes import Ray

pytestmark = pytest.mark.ray

VERSION = siag.__version__
DIED = "The actor died unexpectedly before finishing this task."


class FakeRay:
    """As much of Ray as the driver calls: actors that are their names, and calls that are answered as told."""

    def __init__(self):
        import ray

        self.exceptions, self.cloudpickle = ray.exceptions, ray.cloudpickle
        self.names, self.answers, self.kinds = [], {}, []

    def remote(self, kind):
        self.kinds.append(kind.__name__)
        return FakeHandle(self)

    def available_resources(self):
        return {}

    def put(self, content):
        return content

    def kill(self, actor):
        self.names.remove(actor.how["name"])

    def wait(self, calls, num_returns=1, timeout=None):
        return [call for call in calls if call in self.answers][:num_returns], []

    def get(self, call, timeout=None):
        answer = self.answers[call]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, beginning, answer=None):
        """From now on, answer this call to all actors that are there, if their names begin so."""
        who, call = beginning.rsplit(" ", 1)
        self.answers |= {f"{name} {call}": answer for name in self.names if name.startswith(who)}


class FakeHandle:
    """An actor or a call of Ray's, with its options."""

    def __init__(self, ray, name="", how=None):
        self.ray, self.name, self.how = ray, name, how or {}

    def options(self, **how):
        return FakeHandle(self.ray, self.name, self.how | how)

    def __getattr__(self, name):
        return FakeHandle(self.ray, name, self.how)

    def remote(self, *given):
        if self.name:
            return f"{self.how['name']} {self.name}"
        self.ray.names.append(self.how["name"])
        return self


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay()
    for module in (cluster, driver, servers, workers):
        monkeypatch.setattr(module, "installed", lambda: fake)
    return fake


# Workers


def some_workers(n=3):
    spec = Spec(gradient=jobs.pull, streams=[[1.0]] * n, w0=np.zeros(2), step=siag.steps.Constant(0.1)).validate()
    return Workers(spec, Secrets.new(n, False), ONE_CPU, "run")


def names(ray):
    return sorted(" ".join(name.split()[:3]) for name in ray.names)


def test_workers_are_up_when_they_answer_and_gone_when_their_work_has_ended(ray):
    some = some_workers()
    some.keep(3)
    assert names(ray) == ["siag worker 0", "siag worker 1", "siag worker 2"]
    ray.answer("siag worker 1 load")
    some.look()
    assert some.up == {1}
    some.work("server")
    ray.answer("siag worker 1 run", Gone(None, "its stream has ended"))
    ray.answer("siag worker 2 run", ray.exceptions.ActorDiedError())
    some.look()
    assert some.gone == {1: Gone(None, "its stream has ended"), 2: Gone(Failure.GAVE_UP, DIED)}
    assert (some.up, names(ray)) == (set(), ["siag worker 0"])
    some.remove()
    assert not ray.names


def test_a_worker_that_cannot_be_started_ends_a_run_that_has_not_begun(ray):
    some = some_workers()
    some.keep(3)
    ray.answer("siag worker 2 load", ray.exceptions.ActorDiedError())
    with pytest.raises(SiagError, match=f"^worker 2 could not be started: {DIED}"):
        some.look()


def test_workers_that_may_not_be_there_wait_and_come_back_to_work(ray):
    some = some_workers()
    some.keep(2)
    some.work("server")
    assert names(ray) == ["siag worker 0", "siag worker 1"]
    ray.answer("siag worker 0 run", Gone(None, ""))
    some.look()
    assert not some.keep(2)
    assert names(ray) == ["siag worker 1", "siag worker 2"]
    assert some.keep(0)
    assert not ray.names
    some.keep(2)
    assert names(ray) == ["siag worker 1", "siag worker 2"]
    ray.answer("siag worker 1 run", Gone(None, ""))
    some.look()
    assert some.gone.keys() == {0, 1}


# Servers


@pytest.fixture
def groups(monkeypatch):
    """The placement groups there are, each with its state."""
    from ray import util

    found = []

    def placement_group(bundles, **options):
        found.append({"state": "PENDING", "bundles": bundles, **options})
        return found[-1]

    monkeypatch.setattr(util, "placement_group", placement_group)
    monkeypatch.setattr(util, "placement_group_table", lambda group: group)
    monkeypatch.setattr(util, "remove_placement_group", found.remove)
    return found


def some_servers(shards=1, resources=ONE_CPU, folder=None):
    return Servers(ServerSpec(Spec(folder=folder), None, None, None, shards), resources, "run")


def test_servers_have_a_place_each_and_leave_nothing(ray, groups):
    some = some_servers(2, {"CPU": 1.0, "GPU": 0.0})
    some.start()
    assert groups[0]["bundles"] == [{"CPU": 1.0}] * 2
    assert ray.names == ["siag server run", "siag shard 1 run"]
    assert not some.placed
    groups[0]["state"] = "CREATED"
    assert some.placed
    assert not some.over()
    ray.answer("siag server run", "outcome")
    assert some.over()
    assert some.outcome() == "outcome"
    some.remove()
    assert not groups
    assert not ray.names
    assert some_servers(resources={"CPU": 0.0}).placed  # which need no room


def test_a_server_that_does_not_answer_is_busy_being_restarted_or_gone(ray, groups):
    some, errors = some_servers(folder="state"), ray.exceptions
    some.start()
    ray.answer("siag server look", errors.ActorDiedError())
    with pytest.raises(SiagError, match=f"^the server could not be started: {DIED}"):
        some.look(None, {})
    look = Look(True, [], ("life", 3), None)
    answers = (errors.GetTimeoutError(), None, False), (look, look, False), (errors.RayActorError(), None, True)
    for answer, found, missed in answers:
        ray.answer("siag server look", answer)
        assert (some.look(None, {}), some.missed) == (found, missed)
    ray.answer("siag server look", errors.ActorDiedError())
    with pytest.raises(SiagError, match=f"^the server.s process is gone: {DIED}; start the run again with the same"):
        some.look(None, {})


def test_a_server_that_is_gone_without_a_folder_says_what_would_help(ray, groups):
    some = some_servers()
    some.start()
    ray.answer("siag server look", Look(True, [], ("life", 3), None))
    some.look(None, {})
    ray.answer("siag server run", ray.exceptions.ActorDiedError())
    with pytest.raises(SiagError, match=f"is gone: {DIED}; with folder= it would be restarted"):
        some.outcome()


@pytest.mark.parametrize("lost", [True, False])
def test_a_shard_whose_last_copy_failed_is_warned_of(ray, groups, lost):
    some = some_servers(2)
    some.start()
    ray.answer("siag shard 1 stop", ray.exceptions.RayActorError() if lost else STALE)
    with pytest.warns(RuntimeWarning, match="shard 1: what is at the URL is older than this run's end"):
        some.finish()


# The driver


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
        return Look(True, [(True, "problem: x"), (False, "y")] if len(self.heard) == 1 else [], ("life", 0), None)

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
    Ray()._mention_size(SimpleNamespace(n=workers, w0=SimpleNamespace(size=3)), Announcer(notes), ours)
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


# Actors


@pytest.fixture
def _on_a_node(monkeypatch):
    import ray

    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    monkeypatch.setattr(ray, "get", lambda there, timeout=None: there)


@pytest.mark.usefixtures("_on_a_node")
def test_another_version_on_a_node_is_refused():
    import ray

    said = "the node at 10.0.0.7 has siag .*, the driver 99.0; install the same version on all nodes"
    with pytest.raises(SiagError, match=said):
        raise ray.cloudpickle.loads(ServerActor("99.0").run(b"", []).error)
    with pytest.raises(SiagError, match=said):
        WorkerActor("99.0", 0, "0", "token").load(b"", b"")


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


def test_a_server_obeys_once_and_does_not_repeat_what_it_knows():
    server, session = ServerActor(VERSION), FakeSession("1", "11", "2", "3")
    server._session = session
    session.failures = [SimpleNamespace(row=2, kind=Failure.OWN_CODE)]  # the worker itself has said so
    session.server.members[3].state = "refused"
    gone = {row: Gone(Failure.OWN_CODE, "no stream") for row in (1, 2)} | {0: Gone(None, "done")}
    for _ in range(2):
        server.look(None, None, gone)
    assert session.told == [(Failure.OWN_CODE, 1, "no stream"), ("left", 0, "done")]
    server.look(None, None, gone | {3: Gone(Failure.GAVE_UP, "dismissed")})
    assert session.told[2:] == [Ending.NOBODY]
    server.look(None, Ended(Ending.INTERRUPTED), {})
    assert session.told[3:] == [Ending.INTERRUPTED]


def test_remarks_reach_the_driver_once_each_and_again_in_another_life():
    server = ServerActor(VERSION)
    server._relay.event("one")
    server._relay.problem("two")
    look = server.look(None, None, {})
    assert look.lines == [(False, "one"), (True, "two")]
    server._relay.event("three")
    again = server.look(look.place, None, {})
    assert again.lines == [(False, "three")]
    assert server.look(again.place, None, {}).lines == []
    assert len(server.look(("another life", 7), None, {}).lines) == 3


@pytest.mark.usefixtures("_on_a_node")
def test_a_worker_that_dies_again_and_again_before_any_report_is_given_up(monkeypatch):
    import ray

    server, session = ServerActor(VERSION), FakeSession("0")
    server._session = session
    session.server.members[0].reports = 1
    assert [server.came_again(0) for _ in range(4)] == [1, 2, 3, 4]
    session.server.members[0].reports = 2
    assert [server.came_again(0) for _ in range(3)] == [1, 2, 3]
    monkeypatch.setattr(actors, "restarted", lambda: True)
    parcels = ray.cloudpickle.dumps((None, None)), ray.cloudpickle.dumps(None)
    calls = SimpleNamespace(came_again=SimpleNamespace(remote=server.came_again))
    gone = WorkerActor(VERSION, 0, "0", "token").run(*parcels, calls)
    assert gone == Gone(Failure.GAVE_UP, "its process has died 3 times before it could report anything")


@pytest.mark.usefixtures("_on_a_node")
def test_what_cannot_be_loaded_on_a_node_is_said_with_the_remedy():
    import ray

    said = r"^gradient, problem or method cannot be loaded on the node at 10.0.0.7: .*{'working_dir': '.'}\)$"
    with pytest.raises(SiagError, match=said):
        WorkerActor(VERSION, 0, "0", "token").run(b"no pickle", ray.cloudpickle.dumps([]), None)


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

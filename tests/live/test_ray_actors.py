"""What the actors of a run on Ray do, without a cluster: they are called as any other objects."""

from types import SimpleNamespace

import pytest

import siag
from siag.foundations.errors import SiagError
from siag.live.ray import actors, cluster, server_actor
from siag.live.ray.actors import Gone, WorkerActor
from siag.live.ray.server_actor import ServerActor
from siag.live.reasons import Ended, Ending, Failure

pytestmark = pytest.mark.ray

VERSION = siag.__version__


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
        self.server, self.over, self.told, self.departures = SimpleNamespace(members=members), False, [], self
        self.failures = []

    def failed(self, row, why, kind):
        self.told.append((kind, row, why))
        self.failures.append(SimpleNamespace(row=row, kind=kind))

    def left(self, row, now, why):
        self.told.append(("left", row, why))
        self.server.members[row].state = "left"

    def end(self, ending, detail):
        self.told.append(ending)

    def desertion(self):
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
        server.look(None, gone)
    assert session.told == [(Failure.OWN_CODE, 1, "no stream"), ("left", 0, "done")]
    server.look(None, gone | {3: Gone(Failure.GAVE_UP, "dismissed")})
    assert session.told[2:] == [Ending.NOBODY]
    server.look(Ended(Ending.INTERRUPTED), {})
    assert session.told[3:] == [Ending.INTERRUPTED]


def test_remarks_reach_the_driver_once_each():
    server = ServerActor(VERSION)
    server._relay.event("one")
    server._relay.problem("two")
    assert server.look(None, {}).lines == [(False, "one"), (True, "two")]
    server._relay.event("three")
    assert server.look(None, {}).lines == [(False, "three")]
    assert server.look(None, {}).lines == []


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
    server, session = ServerActor(VERSION), SimpleNamespace(past=SimpleNamespace(recovered=recovered))
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

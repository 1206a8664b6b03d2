"""The servers and the workers of a run on Ray, as its driver sees them, without a cluster: Ray is made up."""

import jobs
import numpy as np
import pytest
from fake_ray import fake_ray

import siag
from siag.foundations.errors import SiagError
from siag.live.ray.actors import Gone, Secrets
from siag.live.ray.processes import Servers, Workers
from siag.live.ray.resources import ONE_CPU
from siag.live.ray.server_actor import Look, ServerSpec
from siag.live.reasons import Failure
from siag.live.spec import Spec

pytestmark = pytest.mark.ray

DIED = "The actor died unexpectedly before finishing this task."


@pytest.fixture
def ray(monkeypatch):
    return fake_ray(monkeypatch)


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
    ray.answer("siag worker 2 load", ray.exceptions.ActorDiedError())
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
    ray.answer("siag worker 0 load")
    ray.answer("siag worker 0 run", Gone(None, ""))
    some.look()
    some.look()
    assert not some.keep(2)
    assert names(ray) == ["siag worker 1", "siag worker 2"]
    assert some.keep(0)
    assert not ray.names
    some.keep(2)
    assert names(ray) == ["siag worker 1", "siag worker 2"]
    ray.answer("siag worker 1 load")
    ray.answer("siag worker 1 run", Gone(None, ""))
    some.look()
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
    look = Look(True, [], None)
    ray.answers.clear()
    assert (some.look(None, {}), some.missed) == (None, False)
    for answer, found, missed in (look, look, False), (errors.RayActorError(), None, True):
        ray.answer("siag server look", answer)
        assert (some.look(None, {}), some.missed) == (found, missed)
    ray.answer("siag server look", errors.ActorDiedError())
    with pytest.raises(SiagError, match=f"^the server.s process is gone: {DIED}; start the run again with the same"):
        some.look(None, {})


def test_a_server_that_is_gone_without_a_folder_says_what_would_help(ray, groups):
    some = some_servers()
    some.start()
    ray.answer("siag server look", Look(True, [], None))
    some.look(None, {})
    ray.answer("siag server run", ray.exceptions.ActorDiedError())
    with pytest.raises(SiagError, match=f"is gone: {DIED}; with folder= it would be restarted"):
        some.outcome()


@pytest.mark.parametrize("lost", [True, False])
def test_the_other_shards_end_in_order_if_they_are_there(ray, groups, lost):
    some = some_servers(2)
    some.start()
    ray.answer("siag shard 1 stop", ray.exceptions.RayActorError() if lost else None)
    some.finish()

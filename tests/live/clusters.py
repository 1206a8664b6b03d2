"""What tests of the Ray runtime share: a small cluster on this machine, a run there, and ways to look at its actors."""

import os
import time
from contextlib import contextmanager

import numpy as np
import pytest

import siag
from siag.runtimes import Ray

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

STEP = siag.steps.Harmonic(5.0, 20)
LIMIT = siag.Until(seconds=300)  # never reached, unless something is wrong
PAUSES = (0.002, 0.004, 0.008)
PATIENCE = 120.0  # seconds; nothing here takes nearly as long, however busy the machine is


@contextmanager
def small_cluster(cpus):
    """A cluster of one node with so many CPUs; this process is connected."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)  # where gradients of the tests are
        ray.init(num_cpus=cpus, include_dashboard=False, address="local", log_to_driver=False, logging_level="ERROR")
        try:
            yield
        finally:
            ray.shutdown()


def wait_until(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"not within {PATIENCE} seconds"
        time.sleep(0.02)


def actors(part, state="ALIVE"):
    """The entries of Ray's table of actors whose names begin like this, by name."""
    from ray._private.state import actors as table

    return {each["Name"]: each for each in table().values() if each["Name"].startswith(part) and each["State"] == state}


def groups(part):
    """The placement groups whose names begin like this."""
    from ray.util import placement_group_table

    table = placement_group_table().values()
    return [each for each in table if each["name"].startswith(part) and each["state"] != "REMOVED"]


def only(part):
    """The one actor whose name begins like this, once it is up."""
    wait_until(lambda: len(actors(part)) == 1)
    (found,) = actors(part).values()
    return found


def kill(part):
    """An action: end the process of an actor."""

    def act():
        os.kill(only(part)["Pid"], 9)

    return act


def all_gone():
    """Whether nothing of any run is left."""
    wait_until(lambda: not actors("siag") and not groups("siag"))
    return True


def problem(n=3):
    return siag.problems.LeastSquares.random(n=n, d=4, p=2, noise=0.1)


def train(until=LIMIT, n=3, runtime=None, **options):
    runtime = Ray(start_timeout=PATIENCE) if runtime is None else runtime
    run = siag.train(problem=problem(n), step=STEP, until=until, pauses=PAUSES[:n], runtime=runtime, **options)
    assert all_gone()
    return run


def own_lines(text):
    """What was said on standard error, without Ray's remark that there is no way out of this network."""
    return [line for line in text.splitlines() if "network_util.cc" not in line]


def exactly_replayed(run, trace):
    again = siag.replay(trace)
    return np.array_equal(run.w, again.w) and run.t[-1] == again.t[-1] and run.error[0, -1] == again.error[0, -1]

"""What tests of the Ray runtime share: a small cluster on this machine, a run there, and ways to look at its actors."""

import os
import time
from contextlib import contextmanager

import numpy as np

import siag
from siag.runtimes import Ray

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

STEP = siag.steps.Harmonic(5.0, 20)
LIMIT = siag.Until(seconds=300)  # never reached, unless something is wrong
PAUSES = (0.002, 0.004, 0.008)
PATIENCE = 120.0  # seconds; nothing here takes nearly as long, however busy the machine is
QUICK = {  # a lost node is noticed within a second or two
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}


@contextmanager
def small_cluster(cpus):
    """A cluster of one node with so many CPUs and a `site`; this process is connected."""
    import ray
    from ray.cluster_utils import Cluster

    given = {"num_cpus": cpus, "resources": {"site": 1}, "include_dashboard": False, "_system_config": QUICK}
    path = os.environ.get("PYTHONPATH")
    here = os.path.dirname(__file__)  # where gradients of the tests are
    os.environ["PYTHONPATH"] = here if path is None else f"{here}{os.pathsep}{path}"
    cluster = Cluster(initialize_head=True, head_node_args=given)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path


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
    runtime = Ray(patience=PATIENCE) if runtime is None else runtime
    run = siag.train(problem=problem(n), step=STEP, until=until, pauses=PAUSES[:n], runtime=runtime, **options)
    assert all_gone()
    return run


def own_lines(text):
    """What was said on standard error, without Ray's remark that there is no way out of this network."""
    return [line for line in text.splitlines() if "network_util.cc" not in line]


def exactly_replayed(run, trace):
    again = siag.replay(trace)
    return np.array_equal(run.w, again.w) and run.t[-1] == again.t[-1] and run.error[0, -1] == again.error[0, -1]

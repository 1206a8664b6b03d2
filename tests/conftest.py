"""The same tests every time: what hypothesis tries is fixed, as are all seeds and the order."""

import os
import signal
from importlib.util import find_spec

import pytest
from hypothesis import settings

from namespaces import enter_own_network

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

os.environ.setdefault("RAY_worker_niceness", "0")  # or other tests would keep Ray's processes, at 15, from the cores

if find_spec("ray") is None:  # `make test-thorough` and `make test-adapters` install it
    collect_ignore_glob = ["live/*ray*.py", "streams/test_rows.py", "adapters/*ray*.py"]

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests may ignore it


LONGEST = [  # begun last, one of these would keep one core busy while the others have nothing left to do
    "tests/experiments/claims/test_ablations.py",
    "tests/torture/test_torture.py",
    "tests/experiments/test_reproduce.py",
    "tests/test_cli_live.py",
    "tests/test_cli_train.py",
    "tests/experiments/test_comparison_shown.py",
    "tests/experiments/test_comparison_warm.py",
    "tests/live/test_methods_live.py",
    "tests/methods/test_automatic.py",
    "tests/test_documents.py",
    "tests/live/test_embedded_faults.py",
    "tests/live/test_simulated.py",
]


@pytest.hookimpl(tryfirst=True)  # before others are deselected
def pytest_collection_modifyitems(items):
    """The longest files first; those on Ray last: it leaves handlers and threads in a process for others to meet."""
    _leave_few(items)

    def place(item):
        file = item.nodeid.partition("::")[0]
        return item.get_closest_marker("ray") is not None, LONGEST.index(file) if file in LONGEST else len(LONGEST)

    items.sort(key=place)


def _leave_few(items):
    """Of a test marked `few(k)`, k cases, spread evenly, stay as they are; the others become thorough ones."""
    cases = {}
    for item in items:
        if item.get_closest_marker("few") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        kept = same[0].get_closest_marker("few").args[0]
        for place, item in enumerate(same):
            if place * kept // len(same) == (place - 1) * kept // len(same):
                item.add_marker(pytest.mark.thorough)


def pytest_runtest_setup(item):
    """Those on Ray have a network of their own; no other test follows in this process."""
    if item.get_closest_marker("ray") is not None:
        enter_own_network()


@pytest.hookimpl(optionalhook=True)  # the environment of the adapters has no xdist
def pytest_xdist_auto_num_workers():
    """One more process than cores: many tests wait for others."""
    return len(os.sched_getaffinity(0)) + 1

"""No stale machine code: a user edits a file, runs again in a new process, and sees what the file now says.

Numba's own cache would run the old code silently. All edits are made to one set of files and seen by one process each,
because a process that compiles takes seconds; every test looks at one of them.
"""

import json
import os
import subprocess
import sys

import pytest

RULE = """
from typing import NamedTuple

import numpy as np
from siag.methods import Method, advance, receive
from siag.problems import Problem, sample

from helper import pull

RATE = 2.0


class Hill(Problem):
    n = 1
    d = 1
    optimum = np.zeros(1)

    def oracle(self):
        return Slope(1.0)


class Slope(NamedTuple):
    start: float


@sample.when(Slope)
def downhill(oracle, rng, i, w, out):
    out[0] = pull(oracle.start + w[0])


class Rule(Method):
    def init(self, w0, n):
        return Memory(w0.copy(), np.zeros(1))


class Memory(NamedTuple):
    w: np.ndarray
    last: np.ndarray


@receive.when(Memory)
def keep(state, i, message, age):
    state.last[:] = message


@advance.when(Memory)
def move(state, eta):
    state.w[0] -= eta * RATE * state.last[0]
"""

PIECES = """
from typing import NamedTuple

import siag
from siag.foundations.dispatch import verb

A, B, C = 1, 1, 2


class First(NamedTuple):
    x: float


class Second(NamedTuple):
    x: float


@verb
def worth(inner):
    pass


@worth.when(First)
def worth_of_first(inner):
    return inner.x


@worth.when(Second)
def worth_of_second(inner):
    return 2.0 * inner.x


@siag.compiled
def blend(x):
    return 100.0 * A * x + 10.0 * B + C
"""

# This file is never edited: Numba itself notices edits of the outermost function's file, and of no other.
OUTER = """
from typing import NamedTuple

import siag

import tools.deep
from pieces import blend, worth


class Outer(NamedTuple):
    inner: tuple


@siag.compiled
def worth_inside(outer):
    return worth(outer.inner)


@siag.compiled
def through_package(x):
    return tools.deep.push(x)


@siag.compiled
def equal_constants(x):
    return blend(x)
"""

HELPER = """
import siag


@siag.compiled
def pull(x):
    return 3.0 * x
"""

DEEP = HELPER.replace("pull", "push")

DRIVER = """
import json

import siag
import outer
import pieces
import rule
from siag.methods import advance


def run():
    activity, step = siag.activity.Everyone(), siag.steps.Constant(1.0)
    return siag.simulate(rule.Hill(), rule.Rule(), activity, step, iterations=1).w[0, 0]


def redefine():
    before = run()
    try:
        advance.when(rule.Memory)(lambda state, eta: None)
    except siag.SiagError:
        return "refused"
    return "obeyed" if run() != before else "ignored"


print(json.dumps({
    "w": run(),
    "inside": [outer.worth_inside(outer.Outer(kind(1.0))) for kind in (pieces.First, pieces.Second)],
    "package": outer.through_package(1.0),
    "constants": outer.equal_constants(1.0),
    "redefined": redefine(),
}))
"""


FILES = {
    "rule.py": RULE,
    "helper.py": HELPER,
    "pieces.py": PIECES,
    "outer.py": OUTER,
    "tools/__init__.py": "",
    "tools/deep.py": DEEP,
    "run.py": DRIVER,
}


class Project:
    """A user's folder, a cache of its own, and a way to run it in a new process."""

    def __init__(self, folder):
        self.folder, self.cache = folder / "mine", folder / "cache"
        (self.folder / "tools").mkdir(parents=True)
        for name, text in FILES.items():
            (self.folder / name).write_text(text)

    def edit(self, name, old, new):
        text = (self.folder / name).read_text()
        assert text.count(old) == 1
        (self.folder / name).write_text(text.replace(old, new))

    def run(self):
        # Python's own byte code is told apart by seconds only, too coarse for edits in quick succession.
        extra = {"NUMBA_CACHE_DIR": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "run.py"],
            cwd=self.folder,
            env=os.environ | extra,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def machine_code(self):
        """The cached machine code: file names with their times of writing."""
        return {path.name: path.stat().st_mtime_ns for path in self.cache.rglob("*.nb[ci]")}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """What a user saw who ran, ran again, edited their own file, then a helper's, and a comment at last."""
    project = Project(tmp_path_factory.mktemp("project"))
    seen = {"first": project.run()}
    seen["kept"] = project.machine_code()
    seen["again"] = project.run()
    seen["kept again"] = project.machine_code()
    project.edit("rule.py", "RATE = 2.0", "RATE = 5.0")
    project.edit("pieces.py", "2.0 * inner.x", "4.0 * inner.x")
    project.edit("pieces.py", "A, B, C = 1, 1, 2", "A, B, C = 2, 1, 2")
    project.edit("tools/deep.py", "3.0", "7.0")
    seen["edited"] = project.run()
    project.edit("helper.py", "3.0", "7.0")
    project.edit("rule.py", "class Hill", "# a comment\n\n\nclass Hill")
    seen["helper edited"] = project.run()
    return seen


def test_a_users_own_method_and_problem_run(story):
    assert story["first"]["w"] == -2.0 * 3.0


def test_an_unchanged_module_runs_from_the_cache(story):
    # Whatever is compiled is written, so nothing was: neither a new file nor an old one anew.
    assert any(name.startswith("iterate") for name in story["kept"])
    assert story["kept again"] == story["kept"]
    assert story["again"]["w"] == story["first"]["w"]


def test_an_edited_constant_of_the_users_file_is_seen(story):
    assert story["edited"]["w"] == -5.0 * 3.0


def test_an_edited_helper_module_is_seen(story):
    assert story["helper edited"]["w"] == -5.0 * 7.0


def test_an_edited_module_of_a_package_is_seen(story):
    assert story["first"]["package"] == 3.0
    assert story["edited"]["package"] == 7.0


def test_an_edited_constant_that_equals_another_is_seen(story):
    assert story["first"]["constants"] == 112.0
    assert story["edited"]["constants"] == 212.0


def test_an_edited_meaning_for_a_nested_type_is_seen(story):
    assert story["first"]["inside"] == [1.0, 2.0]
    assert story["edited"]["inside"] == [1.0, 4.0]


@pytest.mark.parametrize("which", ["first", "again"])
def test_a_meaning_in_use_is_not_ignored_when_redefined(story, which):
    # "first" was compiled, "again" came from the cache: in neither may the new meaning be dropped in silence.
    assert story[which]["redefined"] == "refused"

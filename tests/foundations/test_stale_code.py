"""No stale machine code: a user edits a file, runs again in a new process, and sees what the file now says.

Numba's own cache would run the old code silently. All edits are made to one set of files and seen by one process each,
because a process that compiles takes seconds; every test looks at one of them.
"""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough

RULE = """
from typing import NamedTuple

import numpy as np
from siag.foundations.dispatch import delegated_verb, optional_verb
from siag.methods import advance, receive

RATE = 2.0


class Memory(NamedTuple):
    w: np.ndarray
    last: np.ndarray


@receive.when(Memory)
def keep(state, i, message, age):
    state.last[0] = message[0]


@advance.when(Memory)
def move(state, eta):
    state.w[0] -= eta * RATE * state.last[0]


@optional_verb
def worth(state):
    return 42.0


class Inner(NamedTuple):
    x: float


class Holder(NamedTuple):
    inner: Inner


@delegated_verb
def depth(state):
    return 0.0


@depth.when(Inner)
def depth_of_inner(state):
    return 3.0 * state.x
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
from siag.methods import advance, receive

import rule
import tools.deep
from helper import pull
from pieces import blend, worth


class Outer(NamedTuple):
    inner: tuple


@siag.compiled
def one_step(state, message, eta):
    receive(state, 0, message, 0)
    advance(state, eta)


@siag.compiled
def all_of_it(outers, state, holder, x):
    through = pull(x), tools.deep.push(x), blend(x)
    return through, (worth(outers[0].inner), worth(outers[1].inner)), (rule.worth(state), rule.depth(holder))
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

import numpy as np
import siag
import outer
import pieces
import rule
from siag.methods import advance


def run():
    state = rule.Memory(np.zeros(1), np.zeros(1))
    outer.one_step(state, np.ones(1), 1.0)
    return state.w[0]


def redefine(verb, kind):
    try:
        verb.when(kind)(lambda state, eta=1.0: None)
    except siag.SiagError:
        return "refused"
    return "taken"


w = run()
outers = outer.Outer(pieces.First(1.0)), outer.Outer(pieces.Second(1.0))
state, holder = rule.Memory(np.zeros(1), np.zeros(1)), rule.Holder(rule.Inner(1.0))
through, inside, optional = outer.all_of_it(outers, state, holder, 1.0)
late = redefine(advance, rule.Memory), redefine(rule.worth, rule.Memory), redefine(rule.depth, rule.Holder)
print(json.dumps([w, *through, *inside, *optional, *late]))
"""

SEEN = ("constant", "helper", "package", "equal", "first", "second", "default", "field", "advance", "worth", "depth")


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
        return dict(zip(SEEN, json.loads(done.stdout), strict=True))

    def machine_code(self):
        """The cached machine code: file names with their times of writing."""
        return {path.name: path.stat().st_mtime_ns for path in self.cache.rglob("*.nb[ci]")}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """What a user saw who ran, added a comment and ran again, and then edited everything there is to edit."""
    project = Project(tmp_path_factory.mktemp("project"))
    seen = {"first": project.run()}
    seen["kept"] = project.machine_code()
    project.edit("rule.py", "class Memory", "# a comment\n\n\nclass Memory")
    seen["again"] = project.run()
    seen["kept again"] = project.machine_code()
    project.edit("rule.py", "RATE = 2.0", "RATE = 5.0")
    project.edit("rule.py", "return 42.0", "return 43.0")
    project.edit("rule.py", "3.0 * state.x", "9.0 * state.x")
    project.edit("pieces.py", "2.0 * inner.x", "4.0 * inner.x")
    project.edit("pieces.py", "A, B, C = 1, 1, 2", "A, B, C = 2, 1, 2")
    project.edit("helper.py", "3.0", "8.0")
    project.edit("tools/deep.py", "3.0", "7.0")
    seen["edited"] = project.run()
    return seen


@pytest.mark.thorough
def test_an_unchanged_module_runs_from_the_cache(story):
    # Whatever is compiled is written, so nothing was: neither a new file nor an old one anew.
    assert {name.partition("_")[0] for name in story["kept"]} >= {"outer.one", "outer.all"}
    assert story["kept again"] == story["kept"]
    assert story["again"] == story["first"]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        pytest.param("constant", -2.0, -5.0, id="a constant of the user's file"),
        pytest.param("helper", 3.0, 8.0, id="a helper module"),
        pytest.param("package", 3.0, 7.0, id="a module of a package"),
        pytest.param("equal", 112.0, 212.0, id="a constant that equals another"),
        pytest.param("second", 2.0, 4.0, id="a meaning for a nested type"),
        pytest.param("default", 42.0, 43.0, id="a verb's default"),
        pytest.param("field", 3.0, 9.0, id="the meaning of the field a verb is delegated to"),
    ],
)
def test_an_edit_is_seen(story, what, before, after):
    assert (story["first"][what], story["edited"][what]) == (before, after)
    assert story["edited"]["first"] == 1.0  # what was not edited stays


@pytest.mark.parametrize("which", ["first", "again"])
@pytest.mark.parametrize("verb", ["advance", "worth", "depth"])
def test_a_meaning_in_use_is_not_ignored_when_redefined(story, which, verb):
    # "first" was compiled, "again" came from the cache: in neither may the new meaning be dropped in silence.
    assert story[which][verb] == "refused"

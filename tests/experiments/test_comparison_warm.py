"""Machine code made by other processes before a comparison."""

import importlib
import io
import pickle

import numba
import pytest
from compared import CLOCK, PROBLEM

import siag
from siag.activity import Everyone, Recorded, Uniform
from siag.experiments.comparison import CONTENDERS, Contender, compare
from siag.experiments.comparison import warm as warming
from siag.experiments.comparison.contenders import chosen
from siag.experiments.comparison.contest import _once
from siag.experiments.comparison.tuning import Trial
from siag.experiments.comparison.warm import _delegate, warm

pytestmark = pytest.mark.usefixtures("compiled_here")


class Opaque(siag.problems.LeastSquares):
    """Cannot be sent to another process."""

    def __reduce__(self):
        raise TypeError("no")


@pytest.mark.thorough
def test_what_cannot_be_sent_is_compiled_here():
    own = Opaque(PROBLEM.centers, PROBLEM.p, PROBLEM.noise)
    assert _delegate([Trial(CONTENDERS[0], own, Everyone(), 1)], 1) == 0
    found = compare(own, ["sIAG"], {"all": Everyone()}, iterations=50, repeats=2, claims=False)
    assert found.ran("all")


@pytest.mark.thorough
def test_processes_are_started_only_if_machine_code_is_missing(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(warming, "_delegate", lambda work, processes: given.append(list(work)) or len(work))
    known = Trial(CONTENDERS[0], PROBLEM, Uniform(4), 1)
    warm([known])  # it may have to be made, once
    given.clear()
    assert warm([known, known]) == 0
    assert given == []
    (tmp_path / "own_to_warm.py").write_text(NEW)
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh = Trial(Contender("new", importlib.import_module("own_to_warm").New()), PROBLEM, Uniform(4), 1)
    assert warm([known, fresh, known, "SIAG"]) == 2
    assert given == [[known, "SIAG"]]


NEW = """
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np
from siag.methods import SGD, Method, advance, receive

class Last(NamedTuple):
    w: np.ndarray
    latest: np.ndarray

Last.__module__ = "__main__"  # so that its machine code is not kept

@dataclass(frozen=True, kw_only=True)
class New(SGD):
    def init(self, w0, n):
        return Last(w0.copy(), np.zeros(w0.size))

@receive.when(Last)
def keep(state, i, message, age):
    for j in range(message.size):
        state.latest[j] = message[j]

@advance.when(Last)
def move(state, eta):
    for j in range(state.w.size):
        state.w[j] -= eta * state.latest[j]
"""


@pytest.mark.thorough
def test_other_processes_do_all_work_given_and_survive_what_fails():
    given, answers = io.BytesIO(), io.BytesIO()
    bad = Trial(CONTENDERS[0], PROBLEM, Recorded.of(Uniform(3), PROBLEM.n + 1, 5, seed=0), 1)
    for piece in (bad, Trial(CONTENDERS[0], PROBLEM, Uniform(4), 1)):
        given.write(warming.packed(piece))
    given.seek(0)
    warming.main(given, answers)
    assert answers.getvalue() == b".."
    assert _delegate([Trial(CONTENDERS[0], PROBLEM, Uniform(4), 1)] * 3, 2) == 3


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_every_contender_can_be_sent_to_another_process(contender):
    assert pickle.loads(warming.packed(Trial(contender, PROBLEM, CLOCK, 1))).contender == contender


def test_what_other_processes_compile_is_what_is_needed_here():
    sent = Trial(CONTENDERS[0], PROBLEM, Recorded.of(Uniform(3), PROBLEM.n, 5, seed=0), 1)
    received = pickle.loads(warming.packed(sent))
    assert numba.typeof(received.problem.oracle()) == numba.typeof(sent.problem.oracle())
    assert not received.problem.centers.flags.writeable
    assert pickle.loads(pickle.dumps(PROBLEM)).centers.flags.writeable  # or there is nothing to be done


def test_methods_that_share_machine_code_are_warmed_once():
    def trials(*names):
        return [Trial(who, PROBLEM, CLOCK, 1) for who in chosen(names)]

    assert len(_once(trials("sIAG", "DuDe-ASGD", "ACE", "FedAvg", "FedProx"))) == 2
    assert len(_once(trials("sIAG", "SGD", "FedAvg", "FedBuff", "delay-adaptive sIAG"))) == 5

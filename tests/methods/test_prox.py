"""`Prox`: the proximal map of an ℓ₁ norm and of bounds, after the steps of another method."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import conform
from siag.foundations.errors import BadInput, Unsuitable
from siag.methods import IAG, SGD, SIAG, AsyncSGD, Method, advance, fade, ready, receive, shown
from siag.methods.averaged import Averaged
from siag.methods.piag import PIAG
from siag.methods.prox import Prox

quick = settings(deadline=None, max_examples=200)
numbers = st.floats(-5, 5)
SKIPS = ["shifting_shifts", "all_active_is_gradient_descent"]  # 0 and the bounds stay where they are; R counts


def mapped(v, eta, l1=0.0, low=None, high=None):
    """prox_{ηR}(v), through the method itself: a step of size η along a gradient of 0."""
    state = Prox(SIAG(), l1=l1, low=low, high=high).init(np.array([float(v)]), 1)
    receive(state, 0, np.zeros(1), 0)
    advance(state, eta)
    return float(state.w[0])


@pytest.mark.parametrize("method", [Prox(SIAG()), Prox(IAG(wait=1.0))], ids=repr)
def test_without_r_it_conforms_in_all_respects(method):
    conform(method)


@pytest.mark.parametrize("method", [Prox(SIAG(), l1=0.1), Prox(IAG(), l1=0.05, low=-0.1, high=0.3)], ids=repr)
def test_it_conforms(method):
    conform(method, skip=SKIPS)


@quick
@given(v=numbers, eta=st.floats(0, 3), l1=st.floats(0, 2), ends=st.tuples(numbers, numbers).map(sorted))
def test_the_map_is_the_minimiser_it_is_defined_by(v, eta, l1, ends):
    low, high = ends
    found = mapped(v, eta, l1, low, high)
    assert low <= found <= high
    grid = np.append(np.linspace(low, high, 2001), np.clip([0.0, v, found], low, high))
    values = eta * l1 * np.abs(grid) + (grid - v) ** 2 / 2
    assert values[-1] <= values.min() + 1e-12


@quick
@given(v=numbers, eta=st.floats(0, 3), l1=st.floats(0, 2))
def test_without_bounds_it_is_soft_thresholding(v, eta, l1):
    assert mapped(v, eta, l1) == pytest.approx(math.copysign(max(abs(v) - eta * l1, 0.0), v), abs=1e-15)


@pytest.mark.parametrize(
    "method", [SIAG(), SGD(), SGD(normalization="sum"), AsyncSGD(), AsyncSGD(adaptive=True)], ids=repr
)
def test_the_regulariser_weighs_the_same_however_few_reported_and_however_old_they_were(method):
    """Workers that agree on F = ‖w − c‖²/2: whoever reports, and when, the minimum of F + R is c, shrunk by λ."""
    n, c, l1, rng = 4, np.array([1.0, -0.05, 0.3]), 0.1, np.random.default_rng(1)
    state = Prox(method, l1=l1).init(np.zeros(3), n)
    for _ in range(3000):
        for i in rng.permutation(n)[: rng.integers(1, n)]:
            receive(state, i, state.w - c, int(rng.integers(40)))
        advance(state, 0.02)
    np.testing.assert_allclose(state.w, np.sign(c) * np.maximum(np.abs(c) - l1, 0.0), atol=2e-3)


@pytest.mark.parametrize(("v", "low", "high"), [(2.0, None, 1.0), (-2.0, -1.0, None), (0.5, -1.0, 1.0)])
def test_either_bound_may_be_left_out(v, low, high):
    assert mapped(v, 1.0, low=low, high=high) == np.clip(v, low, high)


def test_what_is_not_a_number_is_not_made_one():
    assert math.isnan(mapped(math.nan, 1.0, l1=1.0))
    assert mapped(math.inf, 1.0, l1=1.0) == math.inf


@pytest.mark.thorough
def test_without_r_it_is_the_method_bit_for_bit():
    problem = siag.problems.LeastSquares.random(n=5, d=3, p=2, noise=0.1)
    step = siag.steps.Harmonic(1.0, 20)
    for method in (SIAG(), SIAG(wait=0.6)):
        one, two = (
            siag.simulate(problem, each, siag.activity.Uniform(4), step, iterations=300)
            for each in (method, Prox(method))
        )
        assert np.array_equal(one.error, two.error)


def test_w_stays_while_the_method_waits():
    state = Prox(SIAG(wait=1.0), l1=1.0).init(np.ones(2), 2)
    receive(state, 0, np.zeros(2), 0)
    advance(state, 0.25)
    assert not ready(state)
    assert state.w.tolist() == [1.0, 1.0]
    receive(state, 1, np.zeros(2), 0)
    advance(state, 0.25)
    assert ready(state)
    assert state.w.tolist() == [0.75, 0.75]


def test_what_is_the_methods_own_is_passed_on():
    state = Prox(SIAG(), l1=0.1).init(np.zeros(2), 2)
    receive(state, 1, np.array([1.0, 2.0]), 0)
    fade(state, 1, 0.5)
    assert state.inner.rows.tolist() == [[0.0, 0.0], [0.5, 1.0]]
    assert shown(state) is state.w is state.inner.w
    assert Prox(SIAG()).message(7, 3) == 7
    assert Prox(SIAG()).traffic(7, 3) == (7, 7)


class Stubborn(SIAG):
    """Refuses everything."""

    def message(self, d, n):
        return d + 2

    def traffic(self, d, n):
        return 11, 12

    def serve(self):
        raise Unsuitable("not live")

    def suit(self, problem, activity):
        raise Unsuitable("not here")


def test_what_the_method_refuses_is_refused():
    method, problem = Prox(Stubborn()), siag.problems.LeastSquares.random(n=2, d=2, p=1, noise=0.1)
    assert method.message(3, 2) == 5
    assert method.traffic(3, 2) == (11, 12)
    with pytest.raises(Unsuitable, match="not live"):
        method.serve()
    with pytest.raises(Unsuitable, match="not here"):
        siag.simulate(problem, method, siag.activity.Everyone(), siag.steps.Constant(0.1), iterations=2)


class Wide(NamedTuple):
    w: np.ndarray  # the first two of model
    model: np.ndarray


class Telling(Method):
    """Shows how often it has stepped, behind w."""

    def init(self, w0, n):
        model = np.append(w0, 0.0)
        return Wide(model[:-1], model)


@receive.when(Wide)
def ignore(state, i, message, age):
    pass


@advance.when(Wide)
def count(state, eta):
    state.model[-1] += 1.0


@shown.when(Wide)
def whole(state):
    return state.model


def test_a_method_that_shows_more_than_w_still_does():
    method = Prox(Telling(), l1=0.5)
    state = method.init(np.ones(2), 3)
    advance(state, 1.0)
    assert shown(state).tolist() == [0.5, 0.5, 1.0]
    assert method.traffic(2, 3) == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"l1": -0.1}, r"^l1 = -0.1: must be a finite number at least 0$"),
        ({"l1": math.nan}, r"^l1 = nan: "),
        ({"low": math.nan}, r"^low = nan: must be a finite number; None: any$"),
        ({"high": math.inf}, r"^high = inf: must be a finite number; None: any$"),
        ({"low": 1.0, "high": 0.0}, r"^low = 1.0: must be at most high = 0.0; swap low and high$"),
    ],
)
@pytest.mark.parametrize("make", [lambda **terms: Prox(SIAG(), **terms), PIAG], ids=["Prox", "PIAG"])
def test_an_r_that_makes_no_sense_is_refused(make, arguments, message):
    with pytest.raises(BadInput, match=message):
        make(**arguments)


@pytest.mark.parametrize("wrong", [None, SIAG, "SIAG", 1.0])
def test_what_is_no_method_is_refused(wrong):
    with pytest.raises(BadInput, match=r"^method = .*: must be a method; as in Prox\(SIAG\(\)\)$"):
        Prox(wrong)


class Mixing(SIAG):
    """A method that says Prox would make no sense."""

    NO_PROX = "its server does not step along gradients; use Prox(SIAG())"


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (Prox(SIAG(), l1=0.1), "give l1, low and high to one Prox"),
        (PIAG(l1=0.1), "give it l1, low and high itself"),
        (Averaged(SIAG()), r"write Averaged\(Prox\(…\)\)"),
        (Mixing(), r"its server does not step along gradients; use Prox\(SIAG\(\)\)"),
    ],
    ids=["Prox", "PIAG", "Averaged", "Mixing"],
)
def test_what_it_cannot_follow_is_refused_with_what_works(method, remedy):
    assert isinstance(method, Method)
    with pytest.raises(Unsuitable, match=f"^Prox cannot follow .*; {remedy}"):
        Prox(method)

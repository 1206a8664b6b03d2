"""Theorem 1's step against the paper's formulas, computed again in exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations.errors import BadInput
from siag.steps import Harmonic, lemma_constant, rho_bar, theorem

quick = settings(deadline=None, max_examples=100)
GOOD = {"mu": 10.0, "L": 10.0, "sigma2": 825.0, "n": 10, "T": 15, "beta": 0.5}


@st.composite
def constants(draw):
    mu = draw(st.floats(0.01, 100))
    return {
        "mu": mu,
        "L": mu * draw(st.floats(1, 100)),
        "sigma2": draw(st.floats(0, 1e4)),
        "n": draw(st.integers(1, 1000)),
        "T": draw(st.integers(0, 1000)),
        "beta": 4 / mu * draw(st.floats(1.001, 100)),
    }


def gamma_of_the_paper(mu, L, sigma2, n, T, beta):
    """What Theorem 1 asks of γ, mended below β = 4.3/μ, rounded only at the root and at the end."""
    mu, L, sigma2, beta = map(Fraction, (mu, L, sigma2, beta))
    c_l = 20 * L**2 + 2 * sigma2 / n
    rho = 1 + 2 * T + (mu / 2 + 5 * L**2 / mu) * beta * T
    first = 16 * c_l * beta**2 / (mu * beta - 2) * rho
    second = math.sqrt(8 * c_l * beta**2 / (mu * beta - 4) * rho)
    third = Fraction(202, 100) * c_l * beta**2 / (mu * beta - 4) * rho
    return 2 * T + max(float(first), second, float(third))


@quick
@given(constants())
def test_gamma_is_the_smallest_the_theorem_allows(values):
    step = theorem(**values)
    assert isinstance(step, Harmonic)
    assert step.beta == values["beta"]
    assert step.gamma == pytest.approx(gamma_of_the_paper(**values), rel=1e-9)


def test_gamma_of_the_papers_own_problem_worked_by_hand():
    # C_L = 2000 + 165 = 2165, ρ̄ = 1 + 30 + (5 + 50)·0.5·15 = 443.5, μβ − 2 = 3.
    assert lemma_constant(10.0, 825.0, 10) == 2165.0
    assert rho_bar(10.0, 10.0, 15, 0.5) == 443.5
    assert theorem(**GOOD).gamma == pytest.approx(30 + 16 * 2165 * 0.25 * 443.5 / 3, rel=1e-12)


def test_the_mended_term_takes_over_close_to_four_over_mu_and_only_there():
    values = {"mu": 1.0, "L": 1.0, "sigma2": 0.0, "n": 1, "T": 0, "beta": 4.0 + 1e-6}
    assert theorem(**values).gamma == pytest.approx(2.02 * 20 * 16 / 1e-6, rel=1e-4)
    for beta in (4.3, 5.0, 50.0):
        assert theorem(**(values | {"beta": beta})).gamma == 16 * 20 * beta * beta / (beta - 2)


@quick
@given(constants(), st.floats(0, 1))
def test_beta_up_to_four_over_mu_is_refused(values, fraction):
    # The paper says β > 2/μ, but its γ has √(…/(μβ − 4)).
    beta = 4 / values["mu"] * fraction
    with pytest.raises(BadInput, match=r"^beta = .*; Theorem 1 needs beta > 4/mu$"):
        theorem(**(values | {"beta": beta}))


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        *(("mu", value) for value in (0, -1, math.nan, math.inf, None, True, "1")),
        *(("L", value) for value in (9.999, 0, -1, math.nan, math.inf, None)),
        *(("sigma2", value) for value in (-1e-9, math.nan, math.inf, None)),
        *(("n", value) for value in (0, -1, 1.5, None, True)),
        *(("T", value) for value in (-1, 1.5, None, True, math.inf)),
        *(("beta", value) for value in (0.4, 0.2, 0, -1, math.nan, math.inf, None)),
    ],
)
def test_constants_to_which_the_theorem_does_not_apply_are_refused_by_name(parameter, value):
    with pytest.raises(BadInput) as caught:
        theorem(**(GOOD | {parameter: value}))
    assert caught.value.parameter == parameter
    assert str(caught.value).startswith(f"{parameter} = {value!r}: must be ")


def test_constants_at_their_limits_are_accepted():
    theorem(**(GOOD | {"sigma2": 0.0, "T": 0, "n": 1, "L": GOOD["mu"]}))


def test_a_gamma_beyond_the_range_of_numbers_is_refused_like_any_bad_constant():
    with pytest.raises(ValueError, match=r"^(L|gamma) = "):
        theorem(**(GOOD | {"L": 1e200}))

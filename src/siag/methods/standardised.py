"""Another method in other coordinates: those in which the columns of a linear model's data have mean 0 and size 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, Unsuitable, shorten
from siag.foundations.types import Floats, Record, Rng
from siag.methods.around import Around, receive_within
from siag.methods.curvature import CurvatureIAG
from siag.methods.method import advance, answer, arrive, compute, receive
from siag.problems import again, curvature, exact, sample

OUTSIDE = "it knows only its own coordinates; write Standardised(…) around all"


@dataclass(frozen=True, repr=False)
class Standardised(Around):
    r"""A method that trains a linear model as if its p columns had been standardised: mean 0, standard deviation 1.

        x·v + b = Σ_j z_j (x_j − m_j)/s_j + z_p,    v_j = z_j/s_j,    b = z_p − Σ_j m_j v_j,    w = (v, b) = T z

    The other method minimises z ↦ F(T z): its workers read z, compute ∇F at w = T z, on samples as they are, and send
    Tᵀ∇F; the result is T z. So F is the same, a ridge on v included, and so is its optimum; but steps along gradients
    lead there in far fewer iterations if columns are of unequal size or have means far from 0. What is told of a run, w
    and w_0, is in the coordinates of the data; steps, where there are any to choose, and lengths that a guard looks at,
    are in those of z.

    Without an intercept nothing makes up for a shift of columns, and all samples have the part μ = (m_j/s_j) in common
    instead. Along it they are made shorter, so that E[x xᵀ] is 1 in every direction if columns do not depend on each
    other:

        v_j = (z_j − μ_j μ·z/(q (1 + q)))/s_j,    q = √(1 + ‖μ‖²),    v = S⁻¹ (I + μ μᵀ)^{−1/2} z

    `siag.train` with one of `siag.losses` on finite data looks at these, and runs `Standardised(Automatic(), …)`.

    Args:
        method: the other.
        means: (p,) m_j.
        deviations: (p,) s_j > 0.
        intercept: whether w ends with b. For several classes w has as many parts (v_k, b_k), one after the other.

    Example:
        >>> from siag.methods import SGD
        >>> Standardised(SGD(), means=[8.0, 12.0], deviations=[1.0, 2.0])
        Standardised(method=SGD(normalization='mean'), means=(8.0, 12.0), deviations=(1.0, 2.0), intercept=True)
    """

    NO_PROX = "a proximal step is in the coordinates of w; use Prox(SIAG()), and data that are standardised"
    NO_MOMENTUM = OUTSIDE
    NO_CLIP = OUTSIDE

    _: KW_ONLY
    means: Sequence[float]
    deviations: Sequence[float]
    intercept: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.method, Standardised):
            raise Unsuitable(f"Standardised cannot follow {shorten(self.method)}; leave one out")
        if isinstance(self.method, CurvatureIAG):
            raise Unsuitable(f"Standardised cannot follow {self.method!r}; its steps bear any coordinates as it is")
        check.truth("intercept", self.intercept)
        for name in ("means", "deviations"):
            numbers = check.floats(name, getattr(self, name), (None,)).tolist()
            object.__setattr__(self, name, tuple(numbers))
        if len(self.means) != len(self.deviations):
            raise BadInput("deviations", self.deviations, f"{len(self.means)} numbers, as many as there are means")
        if not min(self.deviations) > 0.0:
            raise BadInput("deviations", self.deviations, "above 0", "write 1.0 for a column that is constant")
        object.__setattr__(self, "split", False)  # an intercept depends on all other parameters

    def __repr__(self) -> str:
        """All of it: a trace has nothing else to make it from again."""
        numbers = f"means={self.means!r}, deviations={self.deviations!r}, intercept={self.intercept!r}"
        return f"Standardised(method={self.method!r}, {numbers})"

    @property
    def least(self) -> int:
        """The parameters of one class."""
        return len(self.means) + self.intercept

    def _turned(self, w0: Floats) -> tuple[tuple[Floats, Floats, int], Floats]:
        """What T is made of, and z where w is w_0."""
        if w0.size % self.least:
            columns = f"{len(self.means)} column{'s' * (len(self.means) > 1)}"
            wanted = f"these must be {self.least}, or a multiple of that for several classes"
            raise Unsuitable(f"Standardised of {columns} does not fit {w0.size} parameters; {wanted}")
        scales, z = (np.array(self.means), np.array(self.deviations), int(self.intercept)), np.empty(w0.size)
        to_z(*scales, np.array(w0, np.float64), z)
        return scales, z

    def init(self, w0: Floats, n: int) -> Record:
        """The method's own memory, at z."""
        scales, z = self._turned(w0)
        inner = self.method.init(z, n)
        return Turned(inner.w, inner, w0.copy(), *scales)

    def recruit(self, w0: Floats, n: int) -> Record:
        """The method's own workers, who see F as a function of z."""
        scales, z = self._turned(w0)
        return Turning(self.method.recruit(z, n), np.zeros(w0.size), np.zeros(w0.size), np.zeros(w0.size), *scales)


# Called by workers that run as plain Python: a call with arrays alone takes a quarter of the time of one with a tuple.


@compiled
def stretch(means: Floats, deviations: Floats, out: Floats, first: int, sign: int) -> None:
    """out ← (I + μ μᵀ)^{±1/2} out, from `first` on, in as many numbers as there are means."""
    square = product = 0.0
    for j in range(means.size):
        mu = means[j] / deviations[j]
        square += mu * mu
        product += mu * out[first + j]
    q = np.sqrt(1.0 + square)
    part = product / (1.0 + q) if sign > 0 else -product / (q * (1.0 + q))
    for j in range(means.size):
        out[first + j] += part * (means[j] / deviations[j])


@compiled
def to_w(means: Floats, deviations: Floats, intercept: int, z: Floats, w: Floats) -> None:
    """w ← T z."""
    p = means.size
    for first in range(0, w.size, p + intercept):
        for j in range(p):
            w[first + j] = z[first + j]
        if intercept == 0:
            stretch(means, deviations, w, first, -1)
        shift = 0.0
        for j in range(p):
            w[first + j] /= deviations[j]
            shift += means[j] * w[first + j]
        if intercept == 1:
            w[first + p] = z[first + p] - shift


@compiled
def to_z(means: Floats, deviations: Floats, intercept: int, w: Floats, z: Floats) -> None:
    """z ← T⁻¹ w."""
    p = means.size
    for first in range(0, w.size, p + intercept):
        shift = 0.0
        for j in range(p):
            z[first + j] = w[first + j] * deviations[j]
            shift += means[j] * w[first + j]
        if intercept == 1:
            z[first + p] = w[first + p] + shift
        else:
            stretch(means, deviations, z, first, 1)


@compiled
def pull_back(means: Floats, deviations: Floats, intercept: int, gradient: Floats) -> None:
    """A gradient by w ← Tᵀ of it, that by z."""
    p = means.size
    for first in range(0, gradient.size, p + intercept):
        slope = gradient[first + p] if intercept == 1 else 0.0
        for j in range(p):
            gradient[first + j] = (gradient[first + j] - means[j] * slope) / deviations[j]
        if intercept == 0:
            stretch(means, deviations, gradient, first, -1)


@compiled
def push_forward(means: Floats, deviations: Floats, intercept: int, gradient: Floats, out: Floats) -> None:
    """Of a gradient by z, out ← that by w."""
    p = means.size
    for first in range(0, gradient.size, p + intercept):
        for j in range(p):
            out[first + j] = gradient[first + j]
        if intercept == 0:
            stretch(means, deviations, out, first, 1)
        slope = gradient[first + p] if intercept == 1 else 0.0
        for j in range(p):
            out[first + j] = out[first + j] * deviations[j] + means[j] * slope
        if intercept == 1:
            out[first + p] = slope


class Turned(NamedTuple):
    """A method's memory in the coordinates z, and its result in those of w."""

    w: Floats  # (d,) z, the method's own
    inner: Record
    result: Floats  # (d,) T z, z being the method's own result
    means: Floats  # (p,)
    deviations: Floats  # (p,)
    intercept: int


receive.when(Turned)(receive_within)


@advance.when(Turned)
def step_in_z(state: Turned, eta: float) -> None:
    """As the method does; then its result in the coordinates of w."""
    advance(state.inner, eta)
    to_w(state.means, state.deviations, state.intercept, answer(state.inner), state.result)


@arrive.when(Turned)
def arrive_in_z(state: Turned, i: int, message: Floats, age: int, eta: float) -> None:
    """The same, with the method's own way to do both at once."""
    arrive(state.inner, i, message, age, eta)
    to_w(state.means, state.deviations, state.intercept, answer(state.inner), state.result)


@answer.when(Turned)
def result_in_w(state: Turned) -> Floats:
    """T z."""
    return state.result


class Turning(NamedTuple):
    """What workers remember; or, with an oracle in its place, that oracle as a function of z."""

    inner: Record
    point: Floats  # (d,) scratch: w
    other: Floats  # (d,) scratch: another
    gradient: Floats  # (d,) scratch: a gradient by w
    means: Floats  # (p,)
    deviations: Floats  # (p,)
    intercept: int


@compute.when(Turning)
def compute_in_z(memory: Turning, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """The method's own message, of F as a function of z."""
    turned = Turning(
        oracle,
        memory.point,
        memory.other,
        memory.gradient,
        memory.means,
        memory.deviations,
        memory.intercept,
    )
    return compute(memory.inner, turned, rng, i, w, out)


@sample.when(Turning)
def sample_in_z(oracle: Turning, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """Tᵀ∇f_i(T z; ξ)."""
    to_w(oracle.means, oracle.deviations, oracle.intercept, w, oracle.point)
    sample(oracle.inner, rng, i, oracle.point, out)
    pull_back(oracle.means, oracle.deviations, oracle.intercept, out)


@again.when(Turning)
def again_in_z(oracle: Turning, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The same of the sample drawn last."""
    to_w(oracle.means, oracle.deviations, oracle.intercept, w, oracle.point)
    again(oracle.inner, rng, i, oracle.point, out)
    pull_back(oracle.means, oracle.deviations, oracle.intercept, out)


@exact.when(Turning)
def exact_in_z(oracle: Turning, i: int, w: Floats, out: Floats) -> None:
    """Tᵀ∇F_i(T z)."""
    to_w(oracle.means, oracle.deviations, oracle.intercept, w, oracle.point)
    exact(oracle.inner, i, oracle.point, out)
    pull_back(oracle.means, oracle.deviations, oracle.intercept, out)


@curvature.when(Turning)
def curvature_in_z(oracle: Turning, rng: Rng, i: int, w: Floats, v: Floats, gradient: Floats, scratch: Floats) -> float:
    """That along the same way in the coordinates of w, which is the same number."""
    to_w(oracle.means, oracle.deviations, oracle.intercept, w, oracle.point)
    to_w(oracle.means, oracle.deviations, oracle.intercept, v, oracle.other)
    push_forward(oracle.means, oracle.deviations, oracle.intercept, gradient, oracle.gradient)
    return curvature(oracle.inner, rng, i, oracle.point, oracle.other, oracle.gradient, scratch)

"""Heavy-ball momentum at the server, for any method whose server moves w by steps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple

from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Record
from siag.methods.around import Around, receive_within
from siag.methods.method import Method, advance, ready, receive
from siag.steps import Step


@dataclass(frozen=True)
class Momentum(Around):
    r"""A method whose server goes on with a share β of its last move.

        w^{t+1} = S_t(w^t) + β (w^t − w^{t−1}),    S_t(w) where the method's own step leads from w

    With Δ_t = w^t − S_t(w^t) that is v ← β v + Δ_t, w ← w − v. So `Momentum(FedAvg(…))` with the server's step
    `Constant(1.0)` is FedAvgM, and `Momentum(IAG())` with everyone active is Polyak's heavy ball. In the long run a
    step counts 1/(1 − β) times: give (1 − β) of the step that the method would have alone. Iterations in which the
    method does not step, since it waits for workers or nobody reported, do not move w, nor use up the velocity.

    Workers see no difference, and what a worker's crash means is up to the method. `Prox(Momentum(…), …)` is the
    inertial proximal step; `Averaged` goes around all. `Clipped` goes inside.

    Args:
        method: whose steps.
        beta: β, above 0 and below 1.

    Example:
        >>> from siag.methods import SGD
        >>> Momentum(SGD(), beta=0.5)
        Momentum(method=SGD(normalization='mean'), beta=0.5)

    References:
        B. Polyak, "Some methods of speeding up the convergence of iteration methods", USSR Computational Mathematics
        and Mathematical Physics 1964. T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the effects of non-identical data
        distribution for federated visual classification", arXiv 1909.06335, 2019 (FedAvgM).
    """

    NO_MOMENTUM = "one momentum is enough: Momentum has its beta, Adam and its relatives their b1"

    _: KW_ONLY
    beta: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_moves(self)
        object.__setattr__(self, "NO_PROX", self.method.NO_PROX)
        object.__setattr__(self, "beta", check.real("beta", self.beta, above=0, below=1))

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The method's own steps are (1 − β) as long, so that η is what they come to."""
        inner, step = self.method.tuned(round(1.0 - self.beta, 12) * eta, gamma)  # 0.1 for 0.9, not 0.09999999999999998
        return replace(self, method=inner), step

    def init(self, w0: Floats, n: int) -> Record:
        """At rest."""
        inner = self.method.init(w0, n)
        return Rolling(inner.w, inner, w0.copy(), w0.copy(), self.beta)


def check_moves(method: Record) -> None:
    """Refuse, for a method around another, one whose server's moves cannot be changed."""
    if method.method.NO_MOMENTUM:
        raise Unsuitable(f"{type(method).__name__} cannot follow {method.method!r}; {method.method.NO_MOMENTUM}")


class Rolling(NamedTuple):
    """A method's memory, and where w was."""

    w: Floats  # (d,) the method's own
    inner: Record
    before: Floats  # (d,) w before the last step
    now: Floats  # (d,) scratch: w before this one
    beta: float


receive.when(Rolling)(receive_within)


@advance.when(Rolling)
def step_and_roll(state: Rolling, eta: float) -> None:
    """The method's step, and β of the last move, a proximal step that followed it included."""
    steps = ready(state.inner)  # asked first: some know only until they have stepped
    for j in range(state.w.size):
        state.now[j] = state.w[j]
    advance(state.inner, eta)
    if steps:
        for j in range(state.w.size):
            state.w[j] += state.beta * (state.now[j] - state.before[j])
            state.before[j] = state.now[j]

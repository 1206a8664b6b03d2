"""A network with one hidden layer that tells classes apart, on data that differ from worker to worker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.rng import below
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.problems.points import OnPoints
from siag.problems.problem import exact, sample
from siag.problems.weights import Weights, drawn_counts, listed

ACTIVATIONS = ("tanh", "relu")
CLUSTERS = 2  # of each class, so that no straight line tells them apart


@dataclass(frozen=True, eq=False, repr=False)
class Network(OnPoints):
    r"""A hidden layer, then softmax regression; worker i holds m_i labelled points, drawn with replacement.

        F_i(w) = (1/m_i) Σ_k [log Σ_c exp(s_c) − s_{y_ik}],    s = W₂ φ(W₁ x_ik + b₁) + b₂

    w holds W₁ (h × p), b₁, W₂ (C × h) and b₂, one after the other. F is not convex, and no L holds everywhere: runs are
    judged by ‖∇F‖², and begin at random weights, since w = 0 is a saddle point. Where φ has no derivative (ReLU at 0),
    it is taken to be 0.

    Args:
        features: (n, m, p) the x_ik; or a list of n arrays (m_i, p).
        labels: (n, m) the y_ik, whole numbers from 0 to C − 1; or a list of n arrays (m_i,).
        classes: C, at least 2.
        hidden: h, the width of the hidden layer.
        activation: φ, `"tanh"` or `"relu"`.
        batch: points per stochastic gradient.
        seed: of the weights at which runs begin.
        weights: what workers count for, one number of 0 or more for each; `"points"`: by their number of points, so
            that all points count the same, FedAvg's n_k/n; by default all workers count the same.
        counts: (n,) m_i, if the rows from there on are no points of worker i; lists of unequal lengths tell it.

    Example:
        >>> problem = Network.random(n=10, heterogeneity=1.0, seed=1)
        >>> problem.d, sorted(set(problem.labels[3].tolist())), round(problem.objective(np.zeros(problem.d)), 4)
        (261, [3], 1.6094)
    """

    VALUES = "labels"

    features: Floats
    labels: Integers
    classes: int
    hidden: int = 16
    activation: str = "tanh"
    batch: int = 1
    seed: int = 0
    weights: Any = None
    counts: Any = None
    origin: str = field(default="", init=False)  # how it was drawn, for the record of a run

    VALUES = "labels"

    def __post_init__(self) -> None:
        self._check_points()
        numbers = np.asarray(self.labels)
        sizes = {"hidden": check.integer("hidden", self.hidden)}
        sizes["classes"] = check.integer("classes", self.classes, low=2)
        labels = numbers.astype(np.int64)
        if (labels != numbers).any() or labels.min() < 0 or labels.max() >= self.classes:
            raise BadInput("labels", self.labels, f"whole numbers from 0 to {self.classes - 1}, the classes")
        labels.setflags(write=False)
        check.choice("activation", self.activation, ACTIVATIONS)
        vars(self).update(labels=labels, seed=check.seed(self.seed), **sizes)

    @classmethod
    def random(
        cls,
        *,
        n: int,
        p: int = 10,
        m: int | Sequence[int] = 50,
        classes: int = 5,
        spread: float = 2.0,
        heterogeneity: float = 0.5,
        hidden: int = 16,
        activation: str = "tanh",
        batch: int = 1,
        seed: int = 0,
        weights: Weights = None,
    ) -> Network:
        """Draw points around centres, two for each class.

        Args:
            n: workers.
            p: dimension of the points.
            m: points per worker; one number, or one for each.
            classes: C, at least 2.
            spread: standard deviation of the centres' coordinates; that of the points around them is 1.
            heterogeneity: the share of a worker's points that are of its own class, i mod C; the others are of any.
                0: all classes everywhere; 1: one class a worker.
            hidden: h.
            activation: `"tanh"` or `"relu"`.
            batch: points per stochastic gradient.
            seed: of the draw, and of the weights at which runs begin.
            weights: what workers count for: numbers, `"points"`, or by default all the same.
        """
        n, p = check.integer("n", n), check.integer("p", p)
        m, counts = drawn_counts(m, n)
        classes = check.integer("classes", classes, low=2)
        spread = check.real("spread", spread, low=0, high=1e6)
        share = check.real("heterogeneity", heterogeneity, low=0, high=1)
        draw = np.random.default_rng(check.seed(seed))
        centres = spread * draw.standard_normal((classes, CLUSTERS, p))
        own = draw.random((n, m)) < share
        labels = np.where(own, np.arange(n)[:, None] % classes, draw.integers(classes, size=(n, m)))
        features = centres[labels, draw.integers(CLUSTERS, size=(n, m))] + draw.standard_normal((n, m, p))
        made = cls(features, labels, classes, hidden, activation, batch, seed, weights, counts)
        of_each = m if counts is None else listed(counts)
        drawn = f"n={n}, p={p}, m={of_each}, classes={classes}, spread={spread}, heterogeneity={share}"
        rest = f"hidden={hidden}, activation={activation!r}, batch={batch}, seed={seed}"
        object.__setattr__(made, "origin", f"Network.random({drawn}, {rest})")
        return made

    @property
    def d(self) -> int:
        """Weights and thresholds of both layers."""
        return self.hidden * (int(self.features.shape[2]) + 1 + self.classes) + self.classes

    @cached_property
    def start(self) -> Floats:
        """(d,) normal weights of variance 1/inputs, of ReLU 2/inputs in the first layer; no thresholds."""
        draw, p, h = np.random.default_rng(self.seed), self.features.shape[2], self.hidden
        gain = 2.0 if self.activation == "relu" else 1.0
        first = draw.standard_normal(h * p) * math.sqrt(gain / p)
        second = draw.standard_normal(self.classes * h) * math.sqrt(1.0 / h)
        w = np.concatenate([first, np.zeros(h), second, np.zeros(self.classes)])
        w.setflags(write=False)
        return w

    def objective(self, w: Floats) -> float:
        """F(w), the mean cross-entropy."""
        scores = self.scores(w, self.features)
        own = np.take_along_axis(scores, self.labels[..., None], axis=-1)[..., 0]
        return self._mean(np.logaddexp.reduce(scores, axis=-1) - own)

    def accuracy(self, w: Floats) -> float:
        """The share of the workers' points that w classifies rightly; `evaluate={"accuracy": problem.accuracy}`."""
        return float((self.scores(w, self.features).argmax(axis=-1) == self.labels)[self._there].mean())

    def scores(self, w: Floats, points: Floats) -> Floats:
        """(…, C) the scores s of points (…, p)."""
        p, h, C = self.features.shape[2], self.hidden, self.classes
        inner, thresholds, outer, last = np.split(w, np.cumsum([h * p, h, C * h]))
        u = points @ inner.reshape(h, p).T + thresholds
        z = np.maximum(u, 0.0) if self.activation == "relu" else np.tanh(u)
        return np.asarray(z @ outer.reshape(C, h).T + last)

    def oracle(self) -> Record:
        """The points, and scratch space."""
        layers = make_layers(self.hidden, self.classes, self.activation)
        features, labels, counts = check.read_only(self.features), check.read_only(self.labels), self.counts
        return Labelled(layers, features, labels, check.read_only(counts), self.batch)

    def __repr__(self) -> str:
        """How it was drawn, or what it is."""
        sizes = f"{self._sizes}, p={self.features.shape[2]}, classes={self.classes}, hidden={self.hidden}"
        return self._printed(f"Network({sizes}, activation={self.activation!r}, batch={self.batch})")


class Layers(NamedTuple):
    """What the layers make of a point, on the way there and back."""

    relu: bool
    hidden: Floats  # (h,) φ
    back: Floats  # (h,) the derivatives by φ
    odds: Floats  # (C,)


def make_layers(hidden: int, classes: int, activation: str) -> Layers:
    """Room for layers of these widths."""
    return Layers(activation == "relu", np.zeros(hidden), np.zeros(hidden), np.zeros(classes))


class Labelled(NamedTuple):
    """Layers, and labelled points per worker."""

    layers: Layers
    features: Floats  # (n, m, p)
    labels: Integers  # (n, m)
    counts: Integers  # (n,) m_i, how many points worker i has
    batch: int


@compiled
def add_example(layers: Layers, x: Floats, label: int, count: int, w: Floats, out: Floats) -> None:
    """Add the gradient of the cross-entropy of one of `count` points."""
    hidden, back, odds = layers.hidden, layers.back, layers.odds
    p, h, classes = x.size, hidden.size, odds.size
    b1, w2 = h * p, h * p + h
    b2 = w2 + classes * h
    for a in range(h):
        u = w[b1 + a]
        for j in range(p):
            u += w[a * p + j] * x[j]
        hidden[a] = max(u, 0.0) if layers.relu else math.tanh(u)
    top = -np.inf
    for c in range(classes):
        u = w[b2 + c]
        for a in range(h):
            u += w[w2 + c * h + a] * hidden[a]
        odds[c] = u
        top = max(top, u)
    total = 0.0
    for c in range(classes):
        odds[c] = math.exp(odds[c] - top)
        total += odds[c]
    back[:] = 0.0
    for c in range(classes):
        miss = (odds[c] / total - (1.0 if c == label else 0.0)) / count
        out[b2 + c] += miss
        for a in range(h):
            out[w2 + c * h + a] += miss * hidden[a]
            back[a] += miss * w[w2 + c * h + a]
    for a in range(h):
        slope = (1.0 if hidden[a] > 0.0 else 0.0) if layers.relu else 1.0 - hidden[a] * hidden[a]
        pull = back[a] * slope
        if pull != 0.0:
            out[b1 + a] += pull
            for j in range(p):
                out[a * p + j] += pull * x[j]


@sample.when(Labelled)
def sample_labelled(oracle: Labelled, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The mean over `batch` of the worker's points, drawn with replacement."""
    out[:] = 0.0
    for _ in range(oracle.batch):
        k = below(rng, oracle.counts[i])
        add_example(oracle.layers, oracle.features[i, k], oracle.labels[i, k], oracle.batch, w, out)


@exact.when(Labelled)
def exact_labelled(oracle: Labelled, i: int, w: Floats, out: Floats) -> None:
    """The mean over all of the worker's points."""
    m = oracle.counts[i]
    out[:] = 0.0
    for k in range(m):
        add_example(oracle.layers, oracle.features[i, k], oracle.labels[i, k], m, w, out)

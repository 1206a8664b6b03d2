"""Small networks on handwritten digits, one class a worker: a problem written as a user would write one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from siag.foundations.rng import below
from siag.problems import Problem, sample

CLASSES, PIXELS, HELD_OUT = 10, 64, 450


class Network(NamedTuple):
    """A hidden layer, the images of each class, and scratch space."""

    images: np.ndarray  # (m, 64)
    labels: np.ndarray  # (m,)
    own: np.ndarray  # (10, most) the numbers of each worker's images
    sizes: np.ndarray  # (10,)
    relu: int
    batch: int
    hidden: np.ndarray  # (h,) scratch
    back: np.ndarray  # (h,) scratch
    odds: np.ndarray  # (10,) scratch


class Digits(Problem):
    """Softmax regression after one hidden layer; w holds W₁ (h, 64), b₁, W₂ (10, h), b₂.

    Args:
        hidden: h.
        relu: or tanh.
        batch: images per gradient.
        seed: of the split into training and test images, and of `w0`.
    """

    def __init__(self, hidden: int, relu: bool, batch: int, seed: int) -> None:
        self.hidden, self.relu, self.batch, self.seed = hidden, relu, batch, seed
        images, labels = load_digits(return_X_y=True)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(images))
        self.test, train = order[:HELD_OUT], order[HELD_OUT:]
        self.images, self.labels = images / 16.0, labels.astype(np.int64)
        lists = [train[labels[train] == digit] for digit in range(CLASSES)]
        self.sizes = np.array(list(map(len, lists)))
        self.own = np.zeros((CLASSES, self.sizes.max()), np.int64)
        for digit, numbers in enumerate(lists):
            self.own[digit, : len(numbers)] = numbers
        first = rng.standard_normal(hidden * PIXELS) * math.sqrt(2 / PIXELS)
        second = rng.standard_normal(CLASSES * hidden) * math.sqrt(1 / hidden)
        self.w0 = np.concatenate([first, np.zeros(hidden), second, np.zeros(CLASSES)])

    n = CLASSES

    @property
    def d(self) -> int:
        """Weights and thresholds of both layers."""
        return self.w0.size

    @property
    def optimum(self) -> np.ndarray:
        """There is none; errors are measured from where it starts."""
        return self.w0

    def oracle(self) -> Network:
        """Arrays and scratch space."""
        scratch = np.zeros(self.hidden), np.zeros(self.hidden), np.zeros(CLASSES)
        return Network(self.images, self.labels, self.own, self.sizes, int(self.relu), self.batch, *scratch)

    def accuracy(self, w: np.ndarray) -> float:
        """On the images that no worker has."""
        return float((self._scores(w, self.images[self.test]).argmax(axis=1) == self.labels[self.test]).mean())

    def loss(self, w: np.ndarray, digit: int, rng: np.random.Generator) -> float:
        """The cross-entropy of one of a worker's images."""
        scores = self._scores(w, self.images[self.own[digit, rng.integers(self.sizes[digit])]])
        return float(np.logaddexp.reduce(scores) - scores[digit])

    def _scores(self, w: np.ndarray, images: np.ndarray) -> np.ndarray:
        inner, thresholds, outer, last = np.split(w, np.cumsum([self.hidden * PIXELS, self.hidden, 10 * self.hidden]))
        x = images @ inner.reshape(self.hidden, PIXELS).T + thresholds
        z = np.maximum(x, 0.0) if self.relu else np.tanh(x)
        return z @ outer.reshape(CLASSES, self.hidden).T + last


@sample.when(Network)
def through_both_layers(oracle: Network, rng: np.ndarray, i: int, w: np.ndarray, out: np.ndarray) -> None:
    """The mean gradient of the cross-entropy over `batch` of the worker's images."""
    h, hidden, back, odds = oracle.hidden.size, oracle.hidden, oracle.back, oracle.odds
    b1, w2 = h * PIXELS, h * PIXELS + h
    b2 = w2 + CLASSES * h
    out[:] = 0.0
    for _ in range(oracle.batch):
        k = oracle.own[i, below(rng, oracle.sizes[i])]
        x = oracle.images[k]
        for a in range(h):
            u = w[b1 + a]
            for j in range(PIXELS):
                u += w[a * PIXELS + j] * x[j]
            hidden[a] = max(u, 0.0) if oracle.relu == 1 else math.tanh(u)
        top = -np.inf
        for c in range(CLASSES):
            u = w[b2 + c]
            for a in range(h):
                u += w[w2 + c * h + a] * hidden[a]
            odds[c] = u
            top = max(top, u)
        total = 0.0
        for c in range(CLASSES):
            odds[c] = math.exp(odds[c] - top)
            total += odds[c]
        back[:] = 0.0
        for c in range(CLASSES):
            miss = (odds[c] / total - (1.0 if c == oracle.labels[k] else 0.0)) / oracle.batch
            out[b2 + c] += miss
            for a in range(h):
                out[w2 + c * h + a] += miss * hidden[a]
                back[a] += miss * w[w2 + c * h + a]
        for a in range(h):
            bend = (1.0 if hidden[a] > 0.0 else 0.0) if oracle.relu == 1 else 1.0 - hidden[a] * hidden[a]
            pull = back[a] * bend
            if pull != 0.0:
                out[b1 + a] += pull
                for j in range(PIXELS):
                    out[a * PIXELS + j] += pull * x[j]

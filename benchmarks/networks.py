"""Small networks on handwritten digits, one class a worker: the package's layers on data that are unequally many."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from siag.foundations.rng import below
from siag.problems import Problem, sample
from siag.problems.network import Layers, add_example, make_layers

CLASSES, PIXELS, HELD_OUT = 10, 64, 450


class Images(NamedTuple):
    """A hidden layer, and the images of each class."""

    layers: Layers
    images: np.ndarray  # (m, 64)
    labels: np.ndarray  # (m,)
    own: np.ndarray  # (10, most) the numbers of each worker's images
    sizes: np.ndarray  # (10,)
    batch: int


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

    def oracle(self) -> Images:
        """Arrays and scratch space."""
        layers = make_layers(self.hidden, CLASSES, "relu" if self.relu else "tanh")
        return Images(layers, self.images, self.labels, self.own, self.sizes, self.batch)

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


@sample.when(Images)
def through_both_layers(oracle: Images, rng: np.ndarray, i: int, w: np.ndarray, out: np.ndarray) -> None:
    """The mean gradient of the cross-entropy over `batch` of the worker's images."""
    out[:] = 0.0
    for _ in range(oracle.batch):
        k = oracle.own[i, below(rng, oracle.sizes[i])]
        add_example(oracle.layers, oracle.images[k], oracle.labels[k], oracle.batch, w, out)

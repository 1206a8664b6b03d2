"""A model for tests that worker processes can import: a pair of numbers by name, and what it was asked."""

import numpy as np

from siag.live.model import Model


class Pair(Model):
    """{"a": w₁, "b": w₂}, of F(w) = ½‖w − sample‖², with noise that follows from the seed alone."""

    noise = 0.1

    def __init__(self, start=(0.0, 0.0)):
        self.start, self.asked = np.array(start), []

    def __repr__(self):
        return "Pair()"

    @property
    def w0(self):
        return self.start

    def value_and_gradient(self, w, sample, seed):
        self.asked.append((sample, seed))
        noise = self.noise * np.random.default_rng(seed).standard_normal(2)
        return 0.5 * float(np.square(w - sample).sum()), (w - sample + noise).astype(np.float32)

    def read(self, stream, worker, seed):
        """Texts are read as numbers."""
        return [float(text) for text in stream] if isinstance(stream[0], str) else stream

    def restored(self, w):
        return dict(zip("ab", w.tolist(), strict=True))


class Preloading(Pair):
    preload = ("colorsys",)

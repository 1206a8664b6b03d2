"""The weight that delay-adaptive steps give to ages on a clock."""

import numpy as np

from siag.activity import Clock, Exponential
from siag.experiments.claims.arrivals import mean_weight


def test_the_mean_weight_is_that_of_a_clocks_ages():
    slowness = np.linspace(1.0, 10.0, 10)
    shares = (1 / slowness) / (1 / slowness).sum()
    weights = [[] for _ in range(10)]
    clock = Clock(Exponential(1.0), slowness=slowness.tolist())
    for chunk in clock.events(10, 40_000, 0, 0, 1):
        reports = (chunk.code >= 0) & (chunk.code < 10)
        for i, age in zip(chunk.code[reports], chunk.age[reports], strict=True):
            weights[i].append(min(1.0, 10 / max(age, 1)))
    expected = mean_weight(shares)
    for own, mean in zip(weights, expected, strict=True):
        # 5 standard errors, ten times: less than once in 100 000 by chance.
        assert abs(np.mean(own) - mean) < 5 * np.std(own) / np.sqrt(len(own)) + 1e-12

"""Two shops fit one line to their sales; the first reports twenty times as often, and counts no more for it."""

import time

import numpy as np

import siag

SLOPES = {"centre": [1.0, 2.0, 3.0], "village": [3.0, 2.0, 1.0]}  # the model should find their mean
PAUSES = {"centre": 0.002, "village": 0.04}  # seconds between two reports
SALES = 200  # in a report


def sales(shop):
    """An endless stream of (features, targets), many sales at a time."""
    rng = np.random.default_rng()
    while True:
        time.sleep(PAUSES[shop])
        x = rng.standard_normal((SALES, 3))
        yield x, x @ SLOPES[shop] + 0.1 * rng.standard_normal(SALES)


def centre():
    return sales("centre")


def village():
    return sales("village")


def gradient(w, report):
    """Of ½ (x·w − y)², the mean over the sales."""
    x, y = report
    return x.T @ (x @ w - y) / len(y)


if __name__ == "__main__":
    sgd = {"method": siag.methods.SGD(), "step": siag.steps.Harmonic(beta=2.0, gamma=100.0)}
    for name, chosen in {"automatic": {}, "SGD": sgd}.items():
        run = siag.train(gradient, [centre, village], np.zeros(3), until=siag.Until(seconds=4), **chosen)
        print(f"{name}: {run.w[0].round(1)} from {run.samples[0, -1]} reports")

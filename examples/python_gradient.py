"""A problem from a function: any library may compute the gradients. Run it: python examples/python_gradient.py."""

import numpy as np

import siag

N, D, POINTS = 6, 3, 40  # every worker has points of its own, of two classes
draw = np.random.default_rng(0)
x = draw.standard_normal((N, 1, D)) + draw.standard_normal((N, POINTS, D))
y = np.sign(x @ np.array([2.0, -1.0, 1.0]) + draw.standard_normal((N, POINTS)))


def gradient(i, w, rng):
    """Of the logistic loss at a few of worker i's points, with a ridge."""
    k = rng.integers(POINTS, size=4)
    miss = 1.0 / (1.0 + np.exp(y[i, k] * (x[i, k] @ w)))
    return 0.1 * w - (y[i, k] * miss) @ x[i, k] / 4


def objective(w):
    """F(w), the mean over all workers."""
    return np.logaddexp(0.0, -y * (x @ w)).mean() + 0.05 * w @ w


if __name__ == "__main__":
    problem = siag.problems.FromFunction(gradient, n=N, d=D, objective=objective)
    run = siag.simulate(problem, siag.methods.Automatic(), siag.activity.Nonuniform(2, 9), iterations=2000)
    print(f"{run.measure}: {run.mean[0]:.3f} → {run.mean[-1]:.3f}")

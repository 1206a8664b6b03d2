"""Ready-made losses of linear models, to be given to `siag.train` and `siag.work` as their gradient.

- `Squared`, `Huber`: a number, by least squares; the latter bears outliers.
- `Poisson`: a count.
- `Logistic`: one of two classes. `Softmax`: one of several.
- `Loss`: what they have in common.

A sample is a pair `(x, y)`: features and label. A batch is a pair `(X, y)` with a row of X and an entry of y for each
sample, as `siag.streams.Batched` makes it; its loss and gradient are the means over its samples. `loss(w, sample)` is
the gradient, `loss.value(w, sample)` the loss, `loss.predict(w, X)` what the model says.

Example:
    >>> import numpy as np
    >>> import siag
    >>> loss, w = siag.losses.Squared(), np.zeros(3)  # two weights, then the intercept
    >>> loss(w, ([1.0, 2.0], 5.0)).tolist()
    [-5.0, -10.0, -5.0]
    >>> data = [([x, 1.0 - x], 3.0 * x + 1.0) for x in (0.0, 0.3, 0.6, 1.0)] * 20
    >>> step = siag.steps.Constant(0.3)
    >>> run = siag.train(loss, [data, data[::-1]], np.zeros(loss.dimension(2)), step=step, runtime=siag.Simulated())
    >>> loss.predict(run.w[0], [[0.5, 0.5], [1.0, 0.0]]).round(3).tolist()
    [2.5, 4.0]
"""

from siag.losses.classes import Logistic, Softmax
from siag.losses.loss import Loss
from siag.losses.numbers import Huber, Poisson, Squared

__all__ = ["Huber", "Logistic", "Loss", "Poisson", "Softmax", "Squared"]

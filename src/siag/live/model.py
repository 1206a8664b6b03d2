"""What is trained, where that is more than w: a network, a pytree; it knows where to start and what comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from siag.foundations.types import Floats


class Model(ABC):
    """A model in the form its library has it in, for `siag.train(model, streams)` in place of a gradient and w0.

    One object serves all workers of a process, of which there may be thousands in virtual time: it remembers nothing of
    a worker, and everything random in it follows from a seed that it is given. It is sent to worker processes by
    pickle.

    Attributes:
        preload: names of modules that worker processes need, imported once before these start.
        messages: the type of the numbers that travel.

    Example:
        >>> import numpy as np, siag
        >>> class Level(Model):
        ...     "A number near all samples, called level."
        ...     w0 = np.zeros(1)
        ...     def value_and_gradient(self, w, sample, seed):
        ...         return 0.5 * float(w[0] - sample) ** 2, w - sample
        ...     def restored(self, w):
        ...         return {"level": float(w[0])}
        >>> streams, runtime = [[1.0] * 30, [3.0] * 30], siag.Simulated(seed=1)
        >>> distance = lambda model: abs(model["level"] - 2.0)
        >>> run = siag.train(Level(), streams, runtime=runtime, evaluate={"distance": distance})
        >>> bool(abs(run.model["level"] - 2.0) < 0.1), bool(run.metrics["distance"][0, -1] < 0.1)
        (True, True)
    """

    preload: Sequence[str] = ()
    messages: str = "float64"

    @property
    @abstractmethod
    def w0(self) -> Floats:
        """(d,) its parameters as they are now."""

    @abstractmethod
    def value_and_gradient(self, w: Floats, sample: Any, seed: int) -> tuple[float, Any]:
        """The loss and its (d,) gradient at w on a sample, an array or `Pieces`, copied before this is called again.

        Args:
            w: (d,) the parameters, not to be written to.
            sample: what `read` gives.
            seed: of everything random, as dropout; a function of the run's seed, the worker and the sample's number, so
                that the same sample at another w sees the same.
        """

    @abstractmethod
    def restored(self, w: Floats) -> Any:
        """The model with these parameters, for good: nothing that is trained later changes it."""

    def read(self, stream: Any, worker: int, seed: int) -> Any:
        """The stream as a worker reads it: batches of a dataset, for example; called in the worker."""
        return stream

    def seed(self, seed: int) -> None:  # noqa: B027  # most draw no random numbers but their gradient's
        """What its library draws next follows from this number; called before a sample is drawn from the stream."""

    def evaluated(self, function: Callable[[Any], Any], w: Floats) -> Any:
        """What a function of the model says of it with these parameters."""
        return function(self.restored(w))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """It serves all workers, also those of virtual time that begin anew after a crash."""
        return self


@dataclass(frozen=True)
class OfModel:
    """A user's function of the model, as a function of w."""

    function: Callable[[Any], Any]
    model: Model

    def __call__(self, w: Floats) -> Any:
        """What it says of the model with these parameters."""
        return self.model.evaluated(self.function, w)

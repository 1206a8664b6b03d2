"""`Jax`: a pytree and its loss as a model that `siag.train` takes, and gives back trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from siag.adapters.batches import Rows, arrays, in_batches
from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.extras import needed
from siag.foundations.types import Floats
from siag.live.model import Model
from siag.streams.finite import is_pair

jax = needed("jax", "jax")
ravel_pytree = needed("jax.flatten_util", "jax").ravel_pytree

ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
SCALAR = "it must return one real number, such as the mean over a batch"


class Jax(Model):
    """Parameters and their loss: `siag.train(siag.adapters.Jax(params, loss), streams)`; `run.model` are they, trained.

        F_i(w) = E loss(params(w), batch) over the batches of worker i

    w are the arrays of floating-point numbers in the pytree, one after the other. All its other leaves stay as they
    are: whole numbers, functions, texts. So an Equinox module can be given as it is; of Flax, what `init` or
    `nnx.split` returns as parameters.

    The gradient is compiled once in each process, for each shape of batches. A stream is a pair (X, y) of arrays, which
    is read in batches, shuffled anew for each pass; or anything else to iterate over that gives batches, which may be
    any pytree of arrays.

    Args:
        params: any pytree.
        loss: loss(params, batch), one real number; with `keyed`, loss(params, batch, key).
        keyed: whether the loss draws random numbers, as for dropout: its key follows from the run's seed, the worker
            and the number of its batch.
        batch: how many rows of a pair of arrays are a batch.
        parallel: whether a gradient may use several cores; there are as many workers as streams, at the same time.

    Example:
        >>> import jax.numpy as jnp, siag
        >>> def loss(params, batch):
        ...     x, y = batch
        ...     return jnp.mean((params["slope"] * x + params["level"] - y) ** 2)
        >>> x = np.linspace(-1.0, 1.0, 20)
        >>> model = Jax({"slope": jnp.zeros(()), "level": jnp.zeros(())}, loss, batch=5)
        >>> streams = [(x, 2.0 * x + 1.0), (x, 2.0 * x + 3.0)]
        >>> run = siag.train(model, streams, until=2000, runtime=siag.Simulated(seed=1))
        >>> {name: round(float(value), 1) for name, value in run.model.items()}
        {'level': 2.0, 'slope': 2.0}
    """

    preload = ("siag.adapters.jax",)

    def __init__(
        self,
        params: Any,
        loss: Callable[..., Any],
        *,
        keyed: bool = False,
        batch: int = 32,
        parallel: bool = False,
    ) -> None:
        if isinstance(loss, type) or not callable(loss):
            raise BadInput("loss", loss, "a function loss(params, batch)")
        self._loss, self._keyed = loss, check.truth("keyed", keyed)
        self._batch, self._parallel = check.integer("batch", batch), check.truth("parallel", parallel)
        self._params = jax.tree_util.tree_map(_kept, params)
        numbers = [_checked(path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(self._params)]
        trained = [leaf for leaf in numbers if leaf is not None and leaf.size]
        if not trained:
            remedy = "give jax or NumPy arrays; Python's own numbers stay as they are"
            raise BadInput("params", params, "a pytree with arrays of floating-point numbers", remedy)
        self._w0 = np.concatenate([leaf.astype(np.float64).ravel() for leaf in trained])
        self._double = bool(jax.config.jax_enable_x64)  # without it JAX computes with float32, whatever it is given
        self.messages = "float64" if self._double and any(leaf.dtype == np.float64 for leaf in trained) else "float32"
        self._compiled: Any = None

    def __repr__(self) -> str:
        return f"Jax({getattr(self._loss, '__name__', 'loss')}, d={self._w0.size})"

    def __getstate__(self) -> dict[str, Any]:
        """It is sent with NumPy arrays; the other process compiles for itself."""
        return self.__dict__ | {"_compiled": None}

    @property
    def w0(self) -> Floats:
        """(d,) the parameters as given."""
        return self._w0

    def read(self, stream: Any, worker: int, seed: int) -> Any:
        """The batches of a worker."""
        return in_batches(stream, self._batch, _samples)

    def value_and_gradient(self, w: Floats, sample: Any, seed: int) -> tuple[float, Any]:
        """The loss of a batch, and its gradient."""
        rebuild, kind, function = self._ready()
        with np.errstate(over="ignore"):  # w may be beyond float32 in a run that diverges
            given = w.astype(kind), sample, np.uint32(seed & 0xFFFFFFFF)
        if function is None:
            function = self._compile(rebuild, given)
        value, slopes = function(*given)
        found = np.asarray(slopes)
        return float(value), found if found.dtype.kind == "f" else found.astype(np.float32)  # bfloat16 is not NumPy's

    def restored(self, w: Floats) -> Any:
        """The pytree with these parameters."""
        rebuild, kind, _ = self._ready()
        with np.errstate(over="ignore"):
            return rebuild(jax.numpy.asarray(w.astype(kind)))

    def _ready(self) -> Any:
        """From a flat array to the pytree, the type of that array, and the gradient if it was compiled."""
        if self._compiled is None:
            if self._double and not jax.config.jax_enable_x64:  # as where it was made
                jax.config.update("jax_enable_x64", True)
            leaves, tree = jax.tree_util.tree_flatten(self._params)
            which = [k for k, leaf in enumerate(leaves) if _is_trained(leaf)]
            flat, unravel = ravel_pytree([leaves[k] for k in which])

            def rebuild(w: Any) -> Any:
                trained = dict(zip(which, unravel(w), strict=True))
                return tree.unflatten([trained.get(k, leaf) for k, leaf in enumerate(leaves)])

            self._compiled = rebuild, flat.dtype, None
        return self._compiled

    def _compile(self, rebuild: Callable[[Any], Any], given: Any) -> Any:
        """The loss and its gradient as one function of w, batch and seed."""

        def objective(w: Any, batch: Any, seed: Any) -> Any:
            keys = (jax.random.key(seed),) if self._keyed else ()
            return self._loss(rebuild(w), batch, *keys)

        said = jax.eval_shape(objective, *given)
        if getattr(said, "shape", None) != () or not jax.numpy.issubdtype(said.dtype, jax.numpy.floating):
            raise SiagError(f"the loss returned {said}; {SCALAR}")
        options = None if self._parallel else ONE_THREAD
        function = jax.jit(jax.value_and_grad(objective), compiler_options=options)
        self._compiled = (*self._compiled[:2], function)
        return function


def _is_trained(leaf: Any) -> bool:
    """Whether a leaf is an array of floating-point numbers."""
    return isinstance(leaf, np.ndarray) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)


def _kept(leaf: Any) -> Any:
    """A leaf as it is kept: arrays of numbers as NumPy's, which any process can read; others as they are."""
    numbers = isinstance(leaf, jax.Array) and not jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended)
    return np.array(leaf) if numbers or isinstance(leaf, np.ndarray) else leaf


def _checked(path: Any, leaf: Any) -> Any:
    """A leaf if it is trained; complex numbers are refused."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "c":
        name = jax.tree_util.keystr(path)
        raise BadInput("params", name, f"of real numbers, not {leaf.dtype}", "keep real and imaginary parts apart")
    return leaf if _is_trained(leaf) else None


def _samples(source: Any) -> Any:
    """A pair of arrays; `None` for what gives batches."""
    rows = arrays(source, (jax.Array, np.ndarray))
    return source if rows is None and is_pair(source) else rows and Rows(*map(np.asarray, rows.parts))

"""`siag.adapters.Jax`: pytrees as they are, those of Flax and Equinox too, trained from arrays and batches."""

import pickle
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import siag
from siag.adapters import Jax
from siag.foundations.errors import SiagError
from siag.live.task import FromStream
from siag.methods import SIAG, STORM

STEP = siag.steps.Constant(0.1)
RUNTIME = siag.Simulated(seed=1)
X = np.linspace(-1.0, 1.0, 24)
FEATURES = X[:, None]


def line(level):
    """y = 2 x + level."""
    return X, 2.0 * X + level


def loss(params, batch):
    x, y = batch
    return jnp.mean((params["slope"] * x + params["level"] - y) ** 2)


def zeros(kind=np.float32):
    return {"slope": jnp.zeros((), kind), "level": jnp.zeros((), kind)}


def train(model, streams=None, **options):
    given = {"step": STEP, "until": 200, "runtime": RUNTIME, "progress": False} | options
    return siag.train(model, streams or [line(1.0), line(3.0)], **given)


def gradient(model, batch, w=None, seed=0):
    value, found = model.value_and_gradient(model.w0 if w is None else np.asarray(w), batch, seed)
    return value, np.array(found)


def test_the_gradient_is_jaxs_own_in_the_order_of_the_leaves():
    model, params = Jax(zeros(), loss), {"slope": jnp.float32(0.5), "level": jnp.float32(-1.0)}
    value, slopes = jax.value_and_grad(loss)(params, tuple(map(jnp.asarray, line(1.0))))
    found = gradient(model, line(1.0), [-1.0, 0.5])
    assert found[0] == pytest.approx(float(value), rel=1e-6)
    assert found[1] == pytest.approx([float(slopes["level"]), float(slopes["slope"])], rel=1e-6)


@pytest.mark.parametrize("runtime", [None, RUNTIME], ids=["processes", "virtual time"])
def test_the_pytree_comes_back_trained(runtime):
    evaluate = {"level": lambda params: params["level"]}
    run = train(Jax(zeros(), loss), runtime=runtime, until=400, evaluate=evaluate)
    assert isinstance(run.model["slope"], jax.Array)
    assert float(run.model["slope"]) == pytest.approx(2.0, abs=0.1)
    assert float(run.model["level"]) == pytest.approx(2.0, abs=0.1)
    assert run.metrics["level"][0, -1] == float(run.model["level"])


def test_what_is_no_array_of_real_numbers_stays_as_it_is():
    params = {"w": jnp.ones(2), "n": jnp.arange(3), "f": jnp.tanh, "name": "layer", "none": None, "p": 0.5}
    params["key"] = jax.random.key(0)

    def own(params, batch):
        return jnp.sum(params["f"](params["w"]) * batch * params["p"]) + params["n"].sum()

    model = Jax(params, own)
    assert model.w0.tolist() == [1.0, 1.0]
    assert gradient(model, np.ones(2))[1] == pytest.approx(0.5 * (1 - np.tanh(1.0) ** 2) * np.ones(2))
    found = model.restored(np.array([3.0, 4.0]))
    assert found["w"].tolist() == [3.0, 4.0]
    assert (found["f"], found["name"], found["none"], found["p"]) == (jnp.tanh, "layer", None, 0.5)
    assert found["n"].tolist() == [0, 1, 2]


def test_leaves_keep_their_types():
    params = {"a": jnp.ones(2, jnp.bfloat16), "b": jnp.ones(2, jnp.float32)}
    model = Jax(params, lambda params, batch: (params["a"].sum() + params["b"].sum()) * batch)
    assert gradient(model, np.float32(2.0))[1].tolist() == [2.0] * 4
    restored = model.restored(2.0 * model.w0)
    assert (restored["a"].dtype, restored["b"].dtype) == (jnp.bfloat16, jnp.float32)
    short = Jax(jnp.ones(2, jnp.bfloat16), lambda w, batch: w.sum() * batch)
    assert gradient(short, jnp.bfloat16(2.0))[1].tolist() == [2.0, 2.0]
    assert model.messages == short.messages == "float32"


def test_double_precision_is_kept_where_it_is_switched_on():
    with jax.enable_x64(True):
        model = Jax(zeros(np.float64), loss)
        assert model.messages == "float64"
        assert gradient(model, line(1.0), [1e-12, 2.0])[1].dtype == np.float64
    assert Jax({"w": np.zeros(2)}, loss).messages == "float32"


def test_random_numbers_follow_from_seed_worker_and_number_of_the_batch():
    def noisy(params, batch, key):
        return loss(params, batch) + params["slope"] * jax.random.normal(key)

    model = Jax(zeros(), noisy, keyed=True)
    assert np.array_equal(gradient(model, line(1.0), seed=2**63 + 5)[1], gradient(model, line(1.0), seed=2**63 + 5)[1])
    assert not np.array_equal(gradient(model, line(1.0), seed=1)[1], gradient(model, line(1.0), seed=2)[1])
    one, two = (train(Jax(zeros(), noisy, keyed=True), seed=3, until=30) for _ in range(2))
    assert np.array_equal(one.w, two.w)


def test_it_is_compiled_once_for_all_workers_of_a_process():
    traced = []

    def counted(params, batch):
        traced.append(1)
        return loss(params, batch)

    train(Jax(zeros(), counted, batch=8), [line(float(k % 3)) for k in range(100)], until=300)
    assert len(traced) == 2  # for its shape, and for its code


@pytest.mark.parametrize("stream", [line(1.0), tuple(map(jnp.asarray, line(1.0)))], ids=["NumPy", "JAX"])
def test_pairs_of_arrays_are_read_in_batches(stream):
    task = FromStream(Jax(zeros(), loss, batch=4), stream, SIAG(), np.zeros(2))
    task.begin(0, 1, 2, 0)
    found = [task._pull() for _ in range(6)]
    assert [x.shape for x, _ in found] == [(4,)] * 6
    assert np.sort(np.concatenate([x for x, _ in found])) == pytest.approx(X)


def test_it_travels_and_is_known_by_its_loss():
    model = Jax(zeros(), loss)
    gradient(model, line(1.0))
    other = pickle.loads(pickle.dumps(model))
    assert repr(other) == repr(model) == "Jax(loss, d=2)"
    assert np.array_equal(gradient(other, line(1.0))[1], gradient(model, line(1.0))[1])


def test_a_method_that_looks_at_a_sample_twice_trains_it():
    assert float(train(Jax(zeros(), loss), method=STORM()).model["slope"]) == pytest.approx(2.0, abs=0.5)


def test_importing_the_adapter_starts_neither_jax_nor_threads_so_that_workers_can_be_forked():
    code = "import siag.adapters.jax; from jax._src import xla_bridge; print(xla_bridge.backends_are_initialized())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# Flax and Equinox


def squared(outputs, batch):
    return jnp.mean((outputs - batch[1]) ** 2)


def curves():
    return [(FEATURES, np.sin(3.0 * FEATURES) + level) for level in (0.0, 1.0)]


def fits(predict):
    """Whether it is the mean of the two curves, about."""
    return float(np.abs(np.asarray(predict(FEATURES.astype(np.float32))) - np.sin(3.0 * FEATURES) - 0.5).max()) < 0.5


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1)(linen.tanh(linen.Dense(16)(x)))


def test_a_module_of_flax_linen():
    module = Linen()
    params = module.init(jax.random.key(0), FEATURES.astype(np.float32))
    model = Jax(params, lambda params, batch: squared(module.apply(params, batch[0]), batch))
    run = train(model, curves(), until=1500)
    assert set(run.model["params"]) == {"Dense_0", "Dense_1"}
    assert fits(lambda x: module.apply(run.model, x))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = nnx.Linear(1, 16, rngs=rngs), nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


def test_a_module_of_flax_nnx():
    graph, params = nnx.split(Nnx(nnx.Rngs(0)), nnx.Param)
    model = Jax(params, lambda params, batch: squared(nnx.merge(graph, params)(batch[0]), batch))
    run = train(model, curves(), until=1500)
    assert fits(nnx.merge(graph, run.model))


def test_a_module_of_equinox():
    network = eqx.nn.MLP(1, 1, 16, 1, jnp.tanh, key=jax.random.key(0))
    model = Jax(network, lambda network, batch: squared(jax.vmap(network)(batch[0]), batch))
    run = train(model, curves(), until=1500)
    assert isinstance(run.model, eqx.nn.MLP)
    assert fits(jax.vmap(run.model))


# What is refused


BAD = {
    "no arrays": (lambda: Jax({"a": 1, "b": 0.5}, loss), "must be a pytree with arrays of floating-point numbers"),
    "whole numbers": (lambda: Jax({"a": jnp.arange(3)}, loss), "must be a pytree with arrays of floating-point"),
    "complex": (
        lambda: Jax({"a": jnp.zeros(2, jnp.complex64)}, loss),
        r"params = \"\['a'\]\": must be of real numbers, not complex64; keep real and imaginary parts apart",
    ),
    "loss": (lambda: Jax(zeros(), 3), r"loss = 3: must be a function loss\(params, batch\)"),
    "batch": (lambda: Jax(zeros(), loss, batch=0), "batch = 0: must be a whole number of at least 1"),
    "keyed": (lambda: Jax(zeros(), loss, keyed=1), "keyed = 1: must be True or False"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_clear_line(case):
    make, words = case
    with pytest.raises(siag.BadInput, match=words) as error:
        make()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", [lambda params, batch: params["slope"] * batch[0], lambda params, batch: (0.0, 1.0)])
def test_a_loss_that_is_not_a_number_is_an_error_that_says_so(wrong):
    with pytest.raises(SiagError, match=r"the loss returned .*; it must return one real number, such as the mean"):
        train(Jax(zeros(), wrong))

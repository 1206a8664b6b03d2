"""JAX: one compiled scan over the iterations, vmapped over repeats.

Shapes must be fixed, so a gradient of every worker is drawn each time and those of idle workers are masked. Only useful
gradients are counted.
"""

from __future__ import annotations

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from job import BETA, GAMMA, NOISE, D, N, P, T, answer, centers
from serving import serve

jax.config.update("jax_enable_x64", True)
CENTERS = jnp.asarray(centers())
REPEATS = 8


def iteration(state, t):
    """One iteration of one repeat."""
    w, table, due, key = state
    key, a, b, c = jax.random.split(key, 4)
    A = jax.random.normal(a, (N, P, D))
    residual = jnp.einsum("npd,nd->np", A, w - CENTERS) - NOISE * jax.random.normal(b, (N, P))
    g = jnp.einsum("npd,np->nd", A, residual)
    active = due == t
    table = jnp.where(active[:, None], g, table)
    due = jnp.where(active, t + jax.random.randint(c, (N,), 1, T + 1), due)
    w = w - BETA / (t + GAMMA) / N * table.sum(axis=0)
    return (w, table, due, key), active.sum()


@partial(jax.jit, static_argnums=1)
def many(keys, iterations):
    """All repeats."""

    def one(key):
        key, first = jax.random.split(key)
        start = (jnp.zeros(D), jnp.zeros((N, D)), jax.random.randint(first, (N,), 0, T), key)
        (w, _, _, _), active = jax.lax.scan(iteration, start, jnp.arange(iterations))
        return w, active.sum()

    return jax.vmap(one)(keys)


def run(seed: int, iterations: int) -> dict[str, object]:
    """Some repeats at once; compiling is not counted."""
    keys = jax.random.split(jax.random.key(seed), REPEATS)
    jax.block_until_ready(many.lower(keys, iterations).compile())
    many(keys, iterations)[0].block_until_ready()
    began = time.perf_counter()
    w, gradients = many(keys, iterations)
    w.block_until_ready()
    return answer(time.perf_counter() - began, int(gradients.sum()), np.asarray(w))


if __name__ == "__main__":
    serve(run)

# SPDX-License-Identifier: Apache-2.0
"""A training step of jax.jit that has warm.graph.value_and_grad inside: XLA calls the graph by its FFI, on its stream.
If the losses are those of JAX on a GPU, WARM_GRAPH_FFI may become the default."""

import os

import device

os.environ["WARM_GRAPH_FFI"] = "1"
jax = device.wanted("jax")
import jax.numpy as jnp
import numpy
import warm.graph

WIDTH, BATCH, STEPS = 256, 128, 20


def loss(p, x, y):
    return jnp.mean((jnp.tanh(x @ p[0] + p[1]) @ p[2] - y) ** 2)


def losses(grad, p, x, y):
    def step(p, _):
        value, g = grad(p, x, y)
        return jax.tree_util.tree_map(lambda a, d: a - 0.1 * d, p, g), value

    return jax.jit(lambda p: jax.lax.scan(step, p, None, length=STEPS)[1])(p).tolist()


def main():
    random = numpy.random.default_rng(0)
    f = lambda *s: jnp.asarray(random.standard_normal(s) / WIDTH**0.5, jnp.float32)
    p, x, y = (f(WIDTH, WIDTH), f(WIDTH), f(WIDTH, 1)), f(BATCH, WIDTH), f(BATCH, 1)
    on = "CPU" if jax.default_backend() == "cpu" else "GPU"
    ours = losses(warm.graph.value_and_grad(loss, device="cpu" if on == "CPU" else 0), p, x, y)
    with jax.default_matmul_precision("highest"):
        theirs = losses(jax.value_and_grad(loss), p, x, y)
    far = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    wrong = {} if far < 1e-3 else {"wrong": f"losses {ours[0]} to {ours[-1]}, of JAX {theirs[0]} to {theirs[-1]}"}
    device.done(ours, on=on, note=f"losses of JAX to {far:.0e}", **wrong)


main()

# SPDX-License-Identifier: Apache-2.0
"""A training step of JAX: a perceptron behind one layer of attention, with Adam, on JAX's first device."""

import time

import device

jax = device.wanted("jax")
import jax.numpy as jnp
import numpy

WIDTH, LENGTH, BATCH, STEPS = 256, 128, 8, 5


def forward(p, x):
    q, k, v = (x @ p[name] for name in "qkv")
    x = x + jax.nn.softmax(q @ k.swapaxes(-1, -2) / WIDTH**0.5) @ v
    x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


@jax.jit
def step(p, m, s, x, y, t):
    loss, g = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(p)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    s = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, s, g)
    p = jax.tree.map(lambda p, m, s: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(s / (1 - 0.999**t)) + 1e-8), p, m, s)
    return p, m, s, loss


def main():
    random = numpy.random.default_rng(0)

    def numbers(*shape):
        return jnp.asarray(0.05 * random.standard_normal(shape), jnp.float32)

    p = {name: numbers(WIDTH, WIDTH) for name in "qkv"}
    p.update(up=numbers(WIDTH, 4 * WIDTH), down=numbers(4 * WIDTH, WIDTH))
    m = s = jax.tree.map(jnp.zeros_like, p)
    x, y = numbers(BATCH, LENGTH, WIDTH), numbers(BATCH, LENGTH, WIDTH)
    began, losses, first = time.perf_counter(), [], 0
    for t in range(1, STEPS + 1):
        p, m, s, loss = step(p, m, s, x, y, float(t))
        losses.append(float(loss))
        first = first or time.perf_counter() - began
    on = "CPU" if jax.default_backend() == "cpu" else "GPU"
    wrong = {} if losses[-1] < losses[0] else {"wrong": "the loss does not fall"}
    device.done(losses, tolerance=1e-4, on=on, first_s=round(first, 3), note=f"first step {first:.1f} s", **wrong)


main()

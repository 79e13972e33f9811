# SPDX-License-Identifier: Apache-2.0
"""Writes the models of train_mlp.c beside this script, as StableHLO.

    python kernels/examples/models.py

needs JAX (tests/clients/jax.txt). A model is a chain of dense layers with ReLU between them. Its file NAME.mlir
has the loss alone: weights and biases in order, then 128 points x and y, give the mean squared error. Its
derivative is the graph compiler's work. NAME is the widths: mlp_1_16_1.
"""
import os

import jax
import jax.numpy as jnp

jax.config.update("jax_platforms", "cpu")

POINTS = 128
MODELS = [[1, 16, 1], [1, 256, 1], [1, 16, 16, 1], [1, 16, 16, 16, 1], [1, 16, 16, 16, 16, 1]]


def loss(parameters, x, y):
    for i, (w, b) in enumerate(parameters):
        x = x @ w + b
        if i + 1 < len(parameters):
            x = jax.nn.relu(x)
    return jnp.mean((x - y) ** 2)


def arguments(widths):
    """Returns types for the loss of a model: [(weights, biases) of each layer], x, y."""
    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
    return [(f32(m, n), f32(n)) for m, n in zip(widths, widths[1:])], f32(POINTS, 1), f32(POINTS, 1)


if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    for widths in MODELS:
        text = jax.jit(loss).lower(*arguments(widths)).as_text()
        with open(os.path.join(folder, f"mlp_{'_'.join(map(str, widths))}.mlir"), "w") as f:
            f.write(text)

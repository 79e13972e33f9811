# SPDX-License-Identifier: Apache-2.0
"""Writes the models of train.py beside this script, as StableHLO, and the losses of their training by JAX.

    python kernels/examples/models.py

Needs JAX (tests/clients/jax.txt). A model is a chain of dense layers with ReLU between them. NAME has its widths,
as in mlp_1_16_1:

    NAME.mlir   the loss: weights and biases in order, then 128 points x and y, give the mean squared error. Its
                derivative and the optimizer are the graph compiler's work
    ../../tests/data/mlp_losses.txt   NAME, then the loss before each of 100 steps, in double precision
"""
import os

import jax
import jax.numpy as jnp
import numpy as np

from data import POINTS, number, points

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

STEPS = 100
RATE, BETA1, BETA2, EPSILON = 0.03, 0.9, 0.999, 1e-8
MODELS = [[1, 16, 1], [1, 256, 1], [1, 16, 16, 1], [1, 16, 16, 16, 1], [1, 16, 16, 16, 16, 1]]


def loss(parameters, x, y):
    for i in range(0, len(parameters), 2):
        x = x @ parameters[i] + parameters[i + 1]
        if i + 2 < len(parameters):
            x = jax.nn.relu(x)
    return jnp.mean((x - y) ** 2)


def adam(parameters, gradients, means, squares, step):
    """Takes one step: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014, algorithm 1."""
    step = step + 1
    means = [BETA1 * m + (1 - BETA1) * g for m, g in zip(means, gradients)]
    squares = [BETA2 * v + (1 - BETA2) * g * g for v, g in zip(squares, gradients)]
    rate1, rate2 = RATE / (1 - BETA1**step), 1 / (1 - BETA2**step)
    parameters = [p - rate1 * m / (jnp.sqrt(v * rate2) + EPSILON)
                  for p, m, v in zip(parameters, means, squares)]
    return parameters, means, squares, step


def shapes(widths):
    """Returns the shapes of a model's parameters: weights and biases of each layer."""
    return [s for m, n in zip(widths, widths[1:]) for s in ((m, n), (n,))]


def initial(widths):
    """Returns parameters: weights by Glorot and Bengio (2010), biases of 0."""
    parameters, i = [], 0
    for shape in shapes(widths):
        limit = (6 / sum(shape)) ** 0.5 if len(shape) == 2 else 0.0
        row = [(2 * number(i + k) - 1) * limit for k in range(int(np.prod(shape)))]
        i += len(row)
        parameters.append(np.array(row, np.float32).reshape(shape))
    return parameters


def losses(widths):
    """Yields the loss before each step."""
    double = lambda tensors: [jnp.asarray(t, jnp.float64) for t in tensors]
    x, y = double([np.array(v, np.float32).reshape(POINTS, 1) for v in points()])
    parameters = double(initial(widths))
    state = [parameters, double([0 * p for p in parameters]), double([0 * p for p in parameters]), 0.0]
    gradient, update = jax.jit(jax.value_and_grad(loss)), jax.jit(adam)
    for _ in range(STEPS):
        value, gradients = gradient(state[0], x, y)
        yield float(value)
        state = update(state[0], gradients, *state[1:])


if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
    with open(os.path.join(folder, "../../tests/data/mlp_losses.txt"), "w") as curves:
        for widths in MODELS:
            name = "mlp_" + "_".join(map(str, widths))
            types = [f32(*shape) for shape in shapes(widths)]
            lowered = jax.jit(loss).lower(types, f32(POINTS, 1), f32(POINTS, 1))
            with open(os.path.join(folder, f"{name}.mlir"), "w") as f:
                f.write(lowered.as_text())
            print(name, *(f"{x:.9g}" for x in losses(widths)), file=curves)

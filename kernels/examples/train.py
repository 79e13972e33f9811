# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron from its StableHLO alone: no framework, no NumPy. Without a GPU it runs on the CPU.

    warm run python3 kernels/examples/train.py [MODEL [ARCH]]

A model's name has its widths; mlp_1_16_1.mlir is the loss of one with 16 hidden units, the mean squared error of
y = x² - 2x + noise at 128 points. The daemon derives it, adds Adam, and compiles one training step. models.py has the
same in JAX."""
import math
import os
import sys
import time

import warm.graph
from data import number, points

STEPS = 100


def layers(model):
    widths = [int(n) for n in model.split("_")[1:]]
    return list(zip(widths, widths[1:]))


def compile_step(model, arch):
    arguments = range(2 * len(layers(model)))  # weights and biases
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), model + ".mlir")) as f:
        return warm.graph.compile(f.read(), arch=arch, vjp=True, arguments=arguments, optimizer="adam,lr=0.03")


def train(step, model):
    """Yields the loss before each step. A step takes and returns parameters, count and two moments."""
    parameters = []  # packed: weights by Glorot and Bengio (2010), and biases of 0, of each layer
    for m, n in layers(model):
        first, limit = len(parameters), math.sqrt(6 / (m + n))
        parameters += [(2 * number(first + k) - 1) * limit for k in range(m * n)] + [0] * n
    x, y = (step.array(values, type) for values, type in zip(points(), step.arguments[4:]))
    state = [parameters, 0, [0] * len(parameters), [0] * len(parameters)]
    for _ in range(STEPS):
        *state, loss = step(*state, x, y)
        yield float(loss)


def picture(losses, rows=8):
    """Returns the losses, on a logarithmic scale, as lines of text."""
    low, high = math.log(min(losses)), math.log(max(losses))
    heights = [round((math.log(v) - low) / (high - low or 1) * (rows - 1)) for v in losses[:: len(losses) // 50]]
    lines = ["".join("*" if h == row else " " for h in heights) for row in range(rows - 1, -1, -1)]
    labels = {0: losses[0], rows - 1: losses[-1]}
    return "\n".join(f"{labels.get(i, 0):8.3g} |{line}" if i in labels else f"         |{line}" for i, line in enumerate(lines))


if __name__ == "__main__":
    model, arch = (sys.argv[1:] + ["mlp_1_16_1", "sm_90"][len(sys.argv) - 1 :])[:2]
    began = time.perf_counter()
    bundle = compile_step(model, arch)
    try:
        step, device = warm.graph.load(bundle), "the GPU"
    except warm.graph.GraphError as e:
        step, device = warm.graph.load(bundle, device="cpu"), f"the CPU ({e})"
    curve = train(step, model)
    losses = [next(curve)]
    first = time.perf_counter() - began
    losses += curve
    print(f"{model}, a perceptron, trained from its StableHLO on {device}: {bundle.kernels} kernels, {bundle.hits} "
          f"from the cache, first gradient after {first:.2f} s, loss {losses[0]:.3g} -> {losses[-1]:.3g} in {STEPS} steps")
    print(picture(losses))

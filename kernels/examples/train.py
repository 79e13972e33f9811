# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron from its StableHLO alone: no framework, no NumPy. Without a GPU it runs on the CPU.

    warm run python3 kernels/examples/train.py [sm_90]

mlp_1_16_1.mlir is the loss: 16 hidden units, the mean squared error of y = x² - 2x + noise at 128 points. The daemon
derives it, adds Adam, and compiles one training step. models.py has the same in JAX."""
import math
import os
import sys
import time

import warm.graph
from data import number, points

STEPS = 100


def compile_step(arch):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mlp_1_16_1.mlir")) as f:
        return warm.graph.compile(f.read(), arch=arch, vjp=True, arguments=range(4), optimizer="adam,lr=0.03")


def train(step):
    """Yields the loss before each step. A step takes and returns parameters, count and two moments."""
    limit = math.sqrt(6 / 17)  # weights by Glorot and Bengio (2010), biases of 0
    weight = lambda i: (2 * number(i) - 1) * limit
    # packed: weights and biases of both layers
    parameters = [*map(weight, range(16)), *[0] * 16, *map(weight, range(32, 48)), 0]
    x, y = (step.array(values, type) for values, type in zip(points(), step.arguments[4:]))
    state = [parameters, 0, [0] * 49, [0] * 49]
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
    began = time.perf_counter()
    bundle = compile_step(sys.argv[1] if len(sys.argv) > 1 else "sm_90")
    try:
        step, device = warm.graph.load(bundle), "the GPU"
    except warm.graph.GraphError as e:
        step, device = warm.graph.load(bundle, device="cpu"), f"the CPU ({e})"
    curve = train(step)
    losses = [next(curve)]
    first = time.perf_counter() - began
    losses += curve
    print(f"a perceptron of 16 units, trained from its StableHLO on {device}: {bundle.kernels} kernels, "
          f"first gradient after {first:.2f} s, loss {losses[0]:.3g} -> {losses[-1]:.3g} in {STEPS} steps")
    print(picture(losses))

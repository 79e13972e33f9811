# SPDX-License-Identifier: Apache-2.0
"""Trains a perceptron from its StableHLO alone: no framework, no NumPy. Without a GPU it runs on the CPU.

    warm run python3 kernels/examples/train.py [MODEL [ARCH]]

A model's name has its widths; mlp_1_16_1.mlir is the loss of one with 16 hidden units, the mean squared error of
y = x² - 2x + noise at 128 points. The daemon derives it, adds Adam, and compiles one training step. models.py has the
same in JAX."""
import pathlib
import sys
import time

import warm.graph
from data import points, weights
from picture import picture


def compile_step(model, arch):
    return warm.graph.compile(pathlib.Path(__file__).with_name(model + ".mlir").read_text(), arch=arch, vjp=True,
                              arguments=range(2 * model.count("_") - 2), optimizer="adam,lr=0.03")  # weights, biases


def train(step, model, steps=100):
    """Yields the loss before each step. A step takes and returns parameters, count and two moments."""
    parameters = weights([int(n) for n in model.split("_")[1:]])
    state = [parameters, 0, [0] * len(parameters), [0] * len(parameters)]
    x, y = (step.array(values, type) for values, type in zip(points(), step.arguments[4:]))
    for _ in range(steps):
        *state, loss = step(*state, x, y)
        yield float(loss)


if __name__ == "__main__":
    model, arch = (sys.argv[1:] + ["mlp_1_16_1", "sm_90"][len(sys.argv) - 1 :])[:2]
    began = time.perf_counter()
    bundle = compile_step(model, arch)
    try:
        step, device = warm.graph.load(bundle), "the GPU"
    except warm.graph.GraphError as e:
        step, device = warm.graph.load(bundle, device="cpu"), f"the CPU ({e})"
    losses = [next(curve := train(step, model))]
    first = time.perf_counter() - began
    losses += curve
    print(f"{model}, a perceptron, trained from its StableHLO on {device}: {bundle.kernels} kernels, {bundle.hits} "
          f"from the cache, first gradient after {first:.2f} s, loss {losses[0]:.3g} -> {losses[-1]:.3g} "
          f"in {len(losses)} steps\n{picture(losses)}")

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
    text = pathlib.Path(__file__).with_name(model + ".mlir").read_text()
    arguments = range(2 * model.count("_") - 2)  # weights and biases of each layer
    return warm.graph.compile(text, arch=arch, vjp=True, arguments=arguments, optimizer="adam,lr=0.03")


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
    curve = train(step, model)
    losses = [next(curve)]
    first = time.perf_counter() - began
    losses += curve
    print(f"{model}, a perceptron, trained from its StableHLO on {device}: {bundle.kernels} kernels, {bundle.hits} "
          f"from the cache, first gradient after {first:.2f} s, loss {losses[0]:.3g} -> {losses[-1]:.3g} in {len(losses)} steps")
    print(picture(losses))

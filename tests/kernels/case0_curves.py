# SPDX-License-Identifier: Apache-2.0
"""Prints tests/data/case0_curves.txt: how JAX and optax train the models of kernels/examples.

    python tests/kernels/case0_curves.py >tests/data/case0_curves.txt

Needs JAX (tests/clients/jax.txt) and optax 0.2.8. The data are 128 points of y = x² - 2x + noise, the loss is
the mean squared error. Each model is

    model NAME
    parameters, x or y: the word, then the numbers; the parameters one behind the other
    adam: the losses before each of 101 steps of optax.adam(0.03)
    OPTIMIZER (sgd, momentum, adamw): the parameters after 3 of its steps; for the first model alone
    end
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/examples"))
import models

OPTIMIZERS = {
    "sgd": optax.sgd(0.03),
    "momentum": optax.sgd(0.03, momentum=0.9),
    "adamw": optax.adamw(0.03, weight_decay=0.25),
}


def put(word, numbers):
    print(word, " ".join(f"{v:.9g}" for v in numbers))


def trained(optimizer, parameters, x, y, steps):
    state, losses = optimizer.init(parameters), []

    @jax.jit
    def step(parameters, state):
        value, grads = jax.value_and_grad(models.loss)(parameters, x, y)
        updates, state = optimizer.update(grads, state, parameters)
        return optax.apply_updates(parameters, updates), state, value
    for _ in range(steps):
        parameters, state, value = step(parameters, state)
        losses.append(float(value))
    return parameters, losses


def packed(parameters):
    return np.concatenate([np.ravel(p) for layer in parameters for p in layer])


def main():
    random = np.random.default_rng(0)
    x = np.linspace(-2, 2, models.POINTS, dtype=np.float32).reshape(-1, 1)
    y = np.float32(x ** 2 - 2 * x + 0.1 * random.normal(size=x.shape))
    for widths in models.MODELS:
        parameters = [(np.float32(random.normal(size=(m, n)) * np.sqrt(2 / (m + n))), np.zeros(n, np.float32))
                      for m, n in zip(widths, widths[1:])]
        print("model", "mlp_" + "_".join(map(str, widths)))
        put("parameters", packed(parameters))
        put("x", np.ravel(x))
        put("y", np.ravel(y))
        put("adam", trained(optax.adam(0.03), parameters, x, y, 101)[1])
        for name, optimizer in OPTIMIZERS.items() if widths == models.MODELS[0] else ():
            put(name, packed(trained(optimizer, parameters, x, y, 3)[0]))
        print("end")


main()

# SPDX-License-Identifier: Apache-2.0
"""The points and the initial weights of the models here."""
import math

POINTS = 128


def number(i):
    """Returns the i-th of a row of numbers from 0 to 1 that look random."""
    h = (i + 1) * 2654435761 & 0xFFFFFFFF
    h = (h ^ h >> 15) * 2246822519 & 0xFFFFFFFF
    return ((h ^ h >> 13) & 0xFFFFFF) / float(1 << 24)


def points():
    """Returns y = x² - 2x + noise on [-2, 2]."""
    x = [-2 + 4 * i / (POINTS - 1) for i in range(POINTS)]
    noise = [0.2 * (sum(number(1000000 + 3 * i + k) for k in range(3)) - 1.5) for i in range(POINTS)]
    return x, [v * v - 2 * v + n for v, n in zip(x, noise)]


def weights(widths):
    """Returns the parameters of all layers in a row: weights by Glorot and Bengio (2010), biases of 0."""
    parameters = []
    for m, n in zip(widths, widths[1:]):
        first, limit = len(parameters), math.sqrt(6 / (m + n))
        parameters += [(2 * number(first + k) - 1) * limit for k in range(m * n)] + [0] * n
    return parameters

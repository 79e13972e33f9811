# SPDX-License-Identifier: Apache-2.0
"""Products of a few matrices that come in disguise: as parts of others, out of loops, branches and calls, or
changed by what turns out to be nothing. Which of them are one operand a compiler finds out, and so must keys."""

import run  # before JAX, of which it says where it runs
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Products:
    """Of the same choices whenever it is traced."""

    def __init__(self, random, platform):
        self.random = np.random.default_rng(int(random.integers(1 << 31)))
        self.size = self.one_of((4, 16) if platform == "cpu" else (4, 16, 64, 128))
        self.disguises = [self.joined, self.taken, self.put, self.chosen, self.summed, self.turned, self.kept,
                          self.counted, self.stopped, self.branched, self.called, self.nothing,
                          self.held, self.padded, self.scattered, self.gathered, self.windowed, self.wide,
                          *[self.counted, self.stopped, self.made, self.said, self.said, self.left] * 3]

    def one_of(self, things):
        return things[int(self.random.integers(len(things)))]

    def traced(self):
        """Of two matrices as operands and as many to multiply them with, and a number that is 0."""
        matrix = jax.ShapeDtypeStruct((self.size, self.size), jnp.float32)
        return jax.jit(self.products).trace(*[matrix] * 5, jax.ShapeDtypeStruct((), jnp.int32))

    def products(self, x, y, a, b, c, i):
        self.y, self.i = y, i
        results = []
        for w in (a, b, c)[:self.one_of((2, 2, 3))]:
            operand = self.one_of((x, x, x, x, x, y))
            for _ in range(self.one_of((0, 1, 1, 2, 3))):
                operand = self.one_of(self.disguises)(operand)
            results.append(self.one_of((*[self.product] * 6, self.turning, self.convolution))(
                operand, w))
        return results

    # ---- products ----

    def product(self, x, w):
        sides = self.one_of((1, 1, 1, 0)), self.one_of((0, 0, 0, 1))
        operands = self.one_of(((x, w), (x, w), (x, w), (w, x)))
        return lax.dot_general(*operands, (([sides[0]], [sides[1]]), ([], [])))

    def turning(self, x, w):
        """In a loop that carries one of the two, or both, or has one from outside."""
        n, other = self.one_of((0, 1, 2, 3)), self.product
        if self.one_of((True, False)):
            return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, other(x, s[1])), (0, w))[1]
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1], jnp.sin(s[2]) + other(s[1], w)),
                              (0, x, self.y))[2]

    def convolution(self, x, w):
        size = self.size
        return lax.conv_general_dilated(x.reshape(1, size, 1, size), w.reshape(1, 1, size, size), (1, 1),
                                        "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    # ---- disguises ----

    def joined(self, x):
        return lax.slice(jnp.concatenate([x, self.y]), (0, 0), x.shape)

    def taken(self, x):
        return lax.dynamic_slice(x, (self.i, self.i), x.shape)

    def put(self, x):
        return lax.dynamic_update_slice(self.y, x, self.one_of(((0, 0), (self.i, self.i))))

    def chosen(self, x):
        return lax.select(self.one_of((jnp.array(True), self.i == self.i)), x, self.y)

    def summed(self, x):
        return x[None].sum(0)

    def turned(self, x):
        return self.one_of((lambda x: x.T.T, lambda x: x.T, lambda x: x[::-1][::-1], lambda x: x[::-1],
                            lambda x: x.reshape(-1, 2).T.T.reshape(x.shape)))(x)

    def kept(self, x):
        n = self.one_of((0, 1, 2, 5))
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1], jnp.sin(s[2])),
                              (0, x, self.y))[1]

    def counted(self, x):
        n = self.one_of((0, 1, 2, 5))
        start = self.one_of((x, self.y))
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, x + 0 * s[1]), (0, start))[1]

    def stopped(self, x):
        n = self.one_of((0, 1, 2))
        return lax.fori_loop(0, n, lambda _, s: s * self.y, x)

    def branched(self, x):
        return lax.cond(jnp.array(True), lambda a, b: a, lambda a, b: a + b, x, self.y)

    def called(self, x):
        return jax.jit(lambda a, b: a + b)(x, self.one_of((jnp.zeros_like(x), self.y)))

    def nothing(self, x):
        return self.one_of((lambda x: x * 1, lambda x: x + (self.i - self.i), lambda x: x * 2, jnp.abs,
                            lambda x: -(-x), lambda x: x.astype(jnp.float64).astype(x.dtype),
                            lambda x: jnp.maximum(x, x), lambda x: jnp.clip(x, -1, 1)))(x)

    def held(self, x):
        return lax.optimization_barrier((x, self.y))[0]

    def padded(self, x):
        return lax.slice(jnp.pad(x, ((0, 2), (0, 0))), (0, 0), x.shape)

    def scattered(self, x):
        return self.y.at[:].set(x)

    def gathered(self, x):
        return x[jnp.arange(self.size)]

    def windowed(self, x):
        return lax.reduce_window(x, 0., lax.add, (1, 1), (1, 1), "VALID")

    def wide(self, x):
        return lax.real(lax.complex(x, self.y))

    def made(self, x):
        """The same each time, of two."""
        return jax.jit(lambda a, b: a * b - a)(x, self.y)

    def said(self, x):
        """One of a few, each said in several ways."""
        y = self.y
        return self.one_of((lambda: x + y, lambda: y + x, lambda: x - (-y), lambda: x * y, lambda: y * x,
                            lambda: x / jnp.sqrt(y), lambda: x * lax.rsqrt(y), lambda: jnp.maximum(x, y),
                            lambda: jnp.maximum(y, x), lambda: (x.T * y.T).T, lambda: x * jax.nn.sigmoid(y),
                            lambda: x / (1 + jnp.exp(-y))))()

    def left(self, x):
        """With what may turn out to be 0 or 1."""
        y = self.y
        return self.one_of((lambda: x + jnp.where(jnp.abs(y) < 0, y, 0), lambda: x * (jnp.exp(y) >= 0),
                            lambda: x + jnp.where(y > 0, 0, 0.), lambda: x * y ** 0, lambda: x + (y - y),
                            lambda: x * jnp.where(y > 0, y, 0), lambda: x + jnp.where(y > 0, y, 0),
                            lambda: x + jnp.maximum(-jnp.abs(y), 0), lambda: x + y * 0))()

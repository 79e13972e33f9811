# SPDX-License-Identifier: Apache-2.0
"""Arrays that lie in memory in different ways: what convolutions, products, transforms, decompositions and
sorts ask for meets in sums, and is summed over. How the values between them lie a compiler chooses."""

import run  # before JAX, of which it says where it runs
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LABELS = "NHWC", "NCHW", "HWNC", "CHWN", "HWCN", "NHCW"
KERNELS = "HWIO", "OIHW", "OHWI", "IOHW"


class Layouts:
    """Of the same choices whenever it is traced. All arrays have four equal sides."""

    def __init__(self, random, platform):
        self.random = np.random.default_rng(int(random.integers(1 << 31)))
        self.size = self.one_of((4, 8) if platform == "cpu" else (8, 16))
        self.type = self.one_of((jnp.float32, jnp.float32, jnp.float16, jnp.bfloat16))
        self.steps = int(self.random.integers(3, 12))
        self.ways = [self.convolved] * 4 + [self.multiplied] * 2 + [
            self.moved, self.moved, self.transformed, self.solved, self.sorted, self.windowed, self.normal,
            self.softmax, self.scaled, self.joined] + [self.unary] * 3 + [self.binary] * 5
        self.state = self.random.bit_generator.state

    def one_of(self, things):
        return things[int(self.random.integers(len(things)))]

    def traced(self):
        array = jax.ShapeDtypeStruct((self.size,) * 4, self.type)
        kernel = jax.ShapeDtypeStruct((3, 3, self.size, self.size), self.type)
        return jax.jit(self.program).trace([array] * 3, [kernel] * self.steps, [array] * self.steps)

    def program(self, arrays, kernels, weights):
        self.random.bit_generator.state = self.state
        values = list(arrays)
        for kernel, weight in zip(kernels, weights):
            self.kernel, self.weight = kernel, weight
            self.values = values
            values.append(self.one_of(self.ways)(self.one_of(values[-3:])))
        results = []
        for _ in range(self.one_of((1, 2, 3))):
            x = self.one_of(values[3:])
            results.append(self.one_of((self.summed, self.summed, self.most, lambda x: x))(x))
        return results

    def axes(self):
        n = self.one_of((1, 1, 2, 3))
        return tuple(int(i) for i in self.random.permutation(4)[:n])

    def summed(self, x):
        return x.sum(self.axes())

    def most(self, x):
        return x.max(self.axes())

    # ---- what makes arrays of arrays ----

    def convolved(self, x):
        label, kernels = self.one_of(LABELS), self.one_of(KERNELS)
        kernel = jnp.transpose(self.kernel, ["HWIO".index(c) for c in kernels])
        out = label if self.one_of((True, True, False)) else self.one_of(LABELS)
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=(label, kernels, out))

    def multiplied(self, x):
        sides = [list(map(int, self.random.permutation(4))) for _ in range(2)]
        batch, over = [s[:2] for s in sides], [s[2:3] for s in sides]
        return lax.dot_general(x, self.weight, ((over[0], over[1]), (batch[0], batch[1])))

    def moved(self, x):
        return self.one_of((lambda x: jnp.transpose(x, [int(i) for i in self.random.permutation(4)]),
                            lambda x: x[::-1], lambda x: jnp.swapaxes(x, 2, 3),
                            lambda x: x.reshape(self.size ** 2, -1).T.reshape(x.shape)))(x)

    def transformed(self, x):
        n = self.one_of((1, 2))
        axes = sorted(int(i) for i in self.random.permutation(4)[:n])
        return jnp.abs(jnp.fft.fftn(x.astype(jnp.float32), axes=axes)).astype(x.dtype)

    def solved(self, x):
        wide = x.astype(jnp.float32)
        low = jnp.tril(wide) + 4 * jnp.eye(self.size)
        return lax.linalg.triangular_solve(low, self.weight.astype(jnp.float32),
                                           left_side=self.one_of((True, False)), lower=True).astype(x.dtype)

    def sorted(self, x):
        return lax.sort(x, dimension=self.one_of((0, 1, 2, 3)))

    def windowed(self, x):
        axis = self.one_of((0, 1, 2, 3))
        return self.one_of((lambda x: lax.cumsum(x, axis), lambda x: lax.cummax(x, axis), self.pooled))(x)

    def pooled(self, x):
        return lax.reduce_window(x, jnp.array(0, x.dtype), lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")

    def normal(self, x):
        axes = self.axes()
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1)

    def softmax(self, x):
        return jax.nn.softmax(x, self.one_of((0, 1, 2, 3)))

    def scaled(self, x):
        axis = self.one_of((0, 1, 2, 3))
        vector = self.weight[0, 0, 0]
        return self.one_of((lambda x, v: x * v, lambda x, v: x + v, lambda x, v: v * x))(
            x, lax.broadcast_in_dim(vector, x.shape, (axis,)))

    def joined(self, x):
        axis = self.one_of((0, 1, 2, 3))
        both = jnp.concatenate([x, self.one_of(self.values)], axis)
        return lax.slice_in_dim(both, self.size // 2, self.size // 2 + self.size, axis=axis)

    def unary(self, x):
        return self.one_of((jnp.tanh, jax.nn.relu, lambda x: -x, jnp.abs, lambda x: x * 2, lambda x: x + 1,
                            jnp.sqrt, jnp.exp, lax.optimization_barrier))(x)

    def binary(self, x):
        return self.one_of((lax.add, lax.add, lax.mul, lax.mul, lax.sub, lax.max))(x, self.one_of(self.values))

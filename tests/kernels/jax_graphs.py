# SPDX-License-Identifier: Apache-2.0
"""Prints tests/data/jax_graphs.txt: StableHLO graphs that JAX lowers, with what JAX computes for them.

    python tests/kernels/jax_graphs.py >tests/data/jax_graphs.txt

Needs JAX (tests/clients/jax.txt). The graphs are lowered for f32. The numbers come from the same
functions on doubles, so about 12 digits of them are exact. Gradients are those of result 0, for the
f32 arguments. Each graph is

    graph NAME
    the module
    arg, result or gradient: the word, then the elements
    end
"""
import random
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

N_RANDOM = 150  # without loops
N_LOOPS = 100  # with loops, indices and whole numbers
SHAPES = [(), (3,), (4,), (2, 3), (3, 4), (4, 1), (1, 3), (2, 3, 2), (2, 2, 3)]


def unary(r, x):
    return r.choice([
        lax.neg, lax.abs, lax.sign, lax.tanh, lax.logistic, lax.sin, lax.cos, lax.floor, lax.ceil,
        lambda x: lax.exp(lax.tanh(x)), lambda x: lax.expm1(lax.tanh(x)),
        lambda x: lax.log(lax.abs(x) + 0.5), lambda x: lax.log1p(lax.abs(x)),
        lambda x: lax.sqrt(lax.abs(x) + 0.25), lambda x: lax.rsqrt(lax.abs(x) + 0.25),
        jax.nn.relu, lambda x: jnp.clip(x, -0.5, 0.75), lambda x: lax.integer_pow(x, 3),
        lambda x: lax.clamp(x * 0 - 0.5, x, lax.abs(x) * 0.5 + 0.25),
    ])(x)


def binary(r, x, y):
    return r.choice([
        lax.add, lax.sub, lax.mul, lax.max, lax.min,
        lambda x, y: lax.div(x, y * y + 1.0),
        lambda x, y: lax.pow(lax.abs(x) + 0.5, lax.tanh(y)),
        lambda x, y: lax.rem(x, lax.abs(y) + 1.5),
        lambda x, y: lax.select(lax.gt(x, y), x * y, y),
        lambda x, y: jnp.where((x < y) & ~(x < 0), x, y + 1.0),
    ])(x, y)


def reshaped(r, x):
    rank = x.ndim
    kind = r.randrange(9)
    axis = r.randrange(rank) if rank else 0
    if rank == 0:
        return lax.broadcast_in_dim(x, (2, 3), ())
    if kind == 0:
        return lax.transpose(x, r.sample(range(rank), rank))
    if kind == 1:
        return lax.reshape(x, (x.size,))
    if kind == 2:
        return lax.slice_in_dim(x, r.randrange(2) if x.shape[axis] > 1 else 0, None, r.choice([1, 2]), axis)
    if kind == 3:
        low, high, inner = r.choice([(1, 0, 0), (0, 2, 1), (-1, 2, 0), (1, -1, 1)])
        config = [(0, 0, 0)] * rank
        config[axis] = (low, high, inner)
        return lax.pad(x, x.dtype.type(0.5), config)
    if kind == 4:
        return lax.concatenate([x, x * 2.0], axis)
    if kind == 5:
        return lax.broadcast_in_dim(x, (2, *x.shape), tuple(range(1, rank + 1)))
    if kind == 6:
        start = [jnp.int32(r.choice([-1, 0, 1, 5])) for _ in x.shape]
        return lax.dynamic_slice(x, start, [max(1, n - 1) for n in x.shape])
    if kind == 7:
        part = lax.slice_in_dim(x, 0, 1, 1, axis) * 3.0
        start = [jnp.int32(r.choice([0, 1, 7])) for _ in x.shape]
        return lax.dynamic_update_slice(x, part, start)
    ones = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return x * (ones % 3 - 1).astype(x.dtype)


def reduced(r, x):
    axes = tuple(sorted(r.sample(range(x.ndim), r.randint(1, x.ndim)))) if x.ndim else ()
    kind = r.randrange(6)
    if not axes:
        return x
    if kind == 0:
        return jnp.max(x, axis=axes)
    if kind == 1:
        return jnp.min(x, axis=axes)
    if kind == 2:
        return jnp.prod(x, axis=axes)
    if kind == 3:
        return jax.nn.softmax(x, axis=axes[0])
    if kind == 4:
        return jnp.mean(x, axis=axes)
    return jnp.sum(x, axis=axes)


def product(r, pool, x):
    for y in r.sample(pool, len(pool)):
        for i, n in enumerate(x.shape):
            for k, m in enumerate(y.shape):
                if n != m or x.ndim + y.ndim > 5:
                    continue
                batch = [(a, b) for a in range(x.ndim) for b in range(y.ndim)
                         if a != i and b != k and x.shape[a] == y.shape[b]][:r.randrange(2)]
                return lax.dot_general(x, y, (((i,), (k,)), ([a for a, _ in batch], [b for _, b in batch])))
    return x


def looped(r, pool, x):
    """Runs a loop over x, or over its first dimension, that uses another value of the same shape."""
    y = r.choice([y for y in pool if y.shape == x.shape])
    kind = r.randrange(4)
    if kind == 0 or x.ndim == 0:
        return lax.scan(lambda c, _: (jnp.tanh(c * 0.5 + y), None), x, None, length=r.randint(1, 4))[0]
    if kind == 1:
        return lax.scan(lambda c, v: (c * 0.5 + lax.sin(v[0]), c * v[1]), x[0] * 0.25, (x, y), reverse=r.random() < 0.5)[1]
    if kind == 2:
        def body(i, c):
            part = jnp.sin(lax.dynamic_index_in_dim(c, i) + lax.dynamic_index_in_dim(y, i))
            return lax.dynamic_update_slice_in_dim(c, part, i, 0)
        return lax.fori_loop(0, x.shape[0], body, x)
    steps = r.randint(2, 4)
    return lax.scan(lambda c, i: ((c[1] * 0.5, c[0] + y * i), jnp.max(c[0])), (x, y), jnp.arange(steps, dtype=x.dtype))[0][0]


def indexed(r, x):
    """Returns elements of x that whole numbers or truth values choose."""
    kind = r.randrange(4)
    i = lax.broadcasted_iota(jnp.int32, x.shape, r.randrange(x.ndim) if x.ndim else 0) if x.ndim else jnp.int32(3)
    if kind == 0:
        return jnp.where((i & jnp.int32(1)) == 0, x, x * x)
    if kind == 1:
        return x * lax.convert_element_type(lax.rem(i * jnp.int32(7), jnp.int32(5)) - jnp.int32(2), x.dtype)
    if kind == 2 and x.ndim:
        k = lax.convert_element_type(jnp.sum(jnp.abs(x)), jnp.int32)
        start = [lax.rem(k, jnp.int32(n)) for n in x.shape]
        return lax.dynamic_update_slice(x, lax.dynamic_slice(x * 2.0, start[::-1] if len(set(x.shape)) == 1 else start,
                                                             [1] * x.ndim), start)
    return jnp.where(jnp.logical_xor(x > 0.25, ~(x < 1.0)), jnp.minimum(x, 0.5), lax.clamp(x * 0 - 1.0, x, x * 0 + 2.0))


def random_graph(seed):
    def f(*args):
        r = random.Random(seed)
        pool = list(args)
        for _ in range(r.randint(3, 10)):
            x = r.choice(pool)
            kind = r.randrange(10 if seed < N_RANDOM else 14)
            if kind >= 12:
                x = looped(r, pool, x)
            elif kind >= 10:
                x = indexed(r, x)
            elif kind < 3:
                x = unary(r, x)
            elif kind < 6:
                same = [y for y in pool if y.shape == x.shape]
                x = binary(r, x, r.choice(same))
            elif kind < 8:
                x = reshaped(r, x)
            elif kind < 9:
                x = reduced(r, x)
            else:
                x = product(r, pool, x)
            if x.size <= 64:
                pool.append(x * 0.75)
        return sum(jnp.sum(lax.sin(x)) for x in pool[-3:]), pool[-1]
    r = random.Random(seed + 1000)
    return f, [r.choice(SHAPES) for _ in range(r.randint(1, 3))]


def mlp(sizes):
    """Returns a chain of dense layers with the mean squared error, and the shapes of its arguments."""
    def f(x, y, *weights):
        h = x
        for i in range(0, len(weights), 2):
            h = h @ weights[i] + weights[i + 1]
            h = jax.nn.relu(h) if i + 2 < len(weights) else h
        return (jnp.mean((h - y) ** 2),)
    shapes = [(16, 1), (16, 1)]
    for a, b in zip(sizes, sizes[1:]):
        shapes += [(a, b), (b,)]
    return f, shapes


def loop(x, w):
    def body(i, h):
        return jnp.tanh(h @ w + i.astype(h.dtype))
    h = lax.fori_loop(jnp.int32(0), jnp.int32(5), body, x)
    total, each = lax.scan(lambda c, a: (c + a, c * a), h[0] * 0, h)
    return jnp.sum(total), each


def counted(x, w):
    """Runs a loop over i = 1, 3, 5, 7 that carries two values and exchanges them."""
    def body(i, carry):
        a, b = carry
        return jnp.sin(b * 0.5 + i.astype(x.dtype)), a @ w
    a, b = x, x * 0.25
    i = jnp.int32(1)
    _, a, b = lax.while_loop(lambda s: s[0] < 8, lambda s: (s[0] + 2, *body(s[0], s[1:])), (i, a, b))
    return jnp.sum(a * a), b


def scanned(x, w, b):
    """Scans layers with weights of their own, and returns a sum of each layer's values, too."""
    def layer(h, wb):
        h = jnp.tanh(h @ wb[0] + wb[1])
        return h, jnp.sum(h, axis=0)
    h, each = lax.scan(layer, x, (w, b))
    return jnp.sum(h ** 2) + jnp.sum(each[1] * 0.5), each


def backwards(x, a):
    """Scans several values from the last element to the first, and uses a captured value."""
    def step(c, v):
        c = c * a + jnp.maximum(v, 0.125)
        return c, c * v
    c, ys = lax.scan(step, a * 0, x, reverse=True)
    return jnp.sum(c) + jnp.sum(ys * x), ys


def nested(x, w):
    """Runs a loop inside of a loop. The inner one uses a value of the outer one."""
    def outer(h, v):
        def inner(g, _):
            return jnp.tanh(g * h + v), None
        g, _ = lax.scan(inner, v * 0.5, None, length=3)
        return h + g @ w, jnp.sum(g)
    h, s = lax.scan(outer, x[0], x)
    return jnp.sum(h * h) + jnp.prod(s), h


def kept(x, w):
    """Computes products that are so large beside the rows of their operands that the backward pass keeps them."""
    def step(h, _):
        return h + jnp.tanh(h @ w) * 0.125, None
    h, _ = lax.scan(step, x, None, length=3)
    return jnp.sum(h ** 2), jnp.sum(h, axis=1)


def chain(n, width, batch, scan):
    """Returns n equal modules, one behind the other or as a scan over them, and the shapes of the arguments."""
    def module(h, w):
        return h + jnp.tanh(h @ w[0] + w[1]) @ w[2]

    def f(x, y, *weights):
        if scan:
            h, _ = lax.scan(lambda h, w: (module(h, w), None), x, weights)
        else:
            h = x
            for i in range(n):
                h = module(h, weights[3 * i:3 * i + 3])
        return (jnp.mean((h - y) ** 2),)
    shapes = [(width, width), (width,), (width, width)]
    shapes = [(n, *s) for s in shapes] if scan else shapes * n
    return f, [(batch, width), (batch, width)] + shapes


def trained(n, width, batch, steps):
    """Returns the training of a scanned chain, by gradient descent inside of a while_loop."""
    loss, shapes = chain(n, width, batch, True)

    def f(x, y, *weights):
        def step(state):
            i, weights, _ = state
            value, grads = jax.value_and_grad(lambda w: loss(x, y, *w)[0])(weights)
            return i + 1, tuple(w - 0.0625 * g for w, g in zip(weights, grads)), value
        _, weights, value = lax.while_loop(lambda s: s[0] < steps, step,
                                           (jnp.int32(0), weights, jnp.zeros((), x.dtype)))
        return (value, *weights)
    return f, shapes


def whole_numbers(x):
    i = lax.convert_element_type(x * 1000000.0, jnp.int32)
    j = lax.broadcasted_iota(jnp.int32, x.shape, 0) * jnp.int32(70001) - jnp.int32(100000)
    k = lax.mul(i, j)
    return (jnp.sum(x), k, lax.div(i, j | jnp.int32(1)), lax.rem(k, i | jnp.int32(1)), lax.max(i, j) ^ (i & ~j),
            lax.abs(k), lax.sign(k), lax.neg(i), lax.dot_general(k, k, (((0,), (0,)), ((), ()))),
            (i > j).astype(jnp.int32), (i != j) | (x > 0), jnp.any(x > 3), jnp.all(x < 3), jnp.max(k), jnp.sum(k, dtype=jnp.int32))


def loop_of_64_bits(x, w):
    """Runs loops whose counters are of 64 bits. Their indices and factors follow from these."""
    def body(i, c):
        row = jnp.tanh(lax.dynamic_index_in_dim(c, i, keepdims=False) @ w + (i * 3 - 4).astype(x.dtype))
        return lax.dynamic_update_index_in_dim(c, row, jnp.where(i < 2, i, 6 - i), 0)
    h = lax.fori_loop(0, 5, body, x)
    total, each = lax.scan(lambda c, v: (c + 0.25 * v[0] * v[1].astype(x.dtype), c * v[0]), h[0] * 0,
                           (h, jnp.arange(5) // 2))
    return jnp.sum(total), each


def counted_by_64_bits(x, w):
    """Counts 9, 6, 3 and from a number that has more than 32 bits; sums the counters up."""
    def body(s):
        i, a, total = s
        return i - 3, jnp.sin(a @ w + i.astype(x.dtype) * 0.125), total + i
    _, a, total = lax.while_loop(lambda s: s[0] > 0, body, (jnp.int64(9), x, jnp.int64(0)))
    far = jnp.int64(5_000_000_000)
    _, a, total = lax.while_loop(lambda s: s[0] != far + 4,
                                 lambda s: (s[0] + 2, s[1] * (s[0] - far + 1).astype(x.dtype), total + s[0]),
                                 (far, a, total))
    return jnp.sum(a * a), a, total


def whole_numbers_of_64_bits(x):
    i = lax.convert_element_type(x * 7168.0, jnp.int64)
    j = lax.broadcasted_iota(jnp.int64, x.shape, 0) * 70001 - 100000
    k = i * j * 1000
    return (jnp.sum(x), k, lax.div(i, j | 1), lax.rem(k, i | 1), lax.max(i, j) ^ (i & ~j), lax.abs(k), lax.sign(k), lax.neg(i),
            lax.dot_general(i, j, (((0,), (0,)), ((), ()))), (i > j).astype(jnp.int64), (i != j) | (x > 0),
            jnp.sum(k), jnp.prod(j[:3]), k.astype(jnp.int32), (k // 1024).astype(x.dtype), i.astype(bool),
            lax.clamp(jnp.int64(-5_000_000_000), k, jnp.int64(5_000_000_000)), jnp.where(i > 0, k, j))


# These modules are as Reactant prints them; the functions compute the same.
REACTANT = "tests/data/reactant_%s.mlir"


def reactant_for(x, w):
    def step(h, v):
        h = jnp.tanh(h @ w + v[0] * 0.125 * v[1])
        return h, h
    _, each = lax.scan(step, x[0] * 0, (jnp.arange(1, 7).astype(x.dtype), x))
    return jnp.sum(each), each


def reactant_trace(x):
    steps = jnp.arange(3, 17, 4)
    y = lax.scan(lambda y, i: (jnp.sin(y) + i.astype(x.dtype) * 0.03125 * y, None), x, steps)[0]
    return jnp.sum(y), y, jnp.sum(steps)


def functions(x):
    """Runs the functions of one or two numbers that lax and scipy.special have."""
    p = jnp.abs(x) + 0.25
    u = jnp.tanh(x) * 0.875
    y = [lax.erf(x), lax.erfc(x), lax.erf_inv(u), lax.tan(u), lax.cbrt(p), lax.sinh(u), lax.cosh(u), lax.asin(u), lax.acos(u),
         lax.atan(x), lax.asinh(x), lax.acosh(p + 1), lax.atanh(u), lax.atan2(x, p), x * lax.erfc(-x) * 0.5]
    flat = [lax.round(x * 3, lax.RoundingMethod.AWAY_FROM_ZERO),
            lax.round(x * 3, lax.RoundingMethod.TO_NEAREST_EVEN), jnp.where(jnp.isfinite(1 / (x - x[0])), x, 0)]
    return sum(jnp.sum(jnp.sin(v)) for v in y), *y, *map(lax.stop_gradient, flat)


def bits(x):
    """Computes with the bits of whole numbers of each size."""
    n = lax.convert_element_type(x * 100, jnp.int32)
    y = []
    for t in (jnp.int8, jnp.int16, jnp.int32, jnp.uint8, jnp.uint16, jnp.uint32):
        a = n.astype(t)
        s = jnp.asarray([0, 1, 3, 7, 9, 31, 40], t)
        y += [lax.shift_left(a, s), lax.shift_right_logical(a, s), lax.shift_right_arithmetic(a, s), a * a - s, ~a | s,
              lax.population_count(a), lax.clz(a), lax.div(a, s), lax.rem(a, s), lax.max(a, s), lax.integer_pow(a, 3),
              jnp.sum(a, dtype=t), jnp.max(a), a > s, lax.convert_element_type(a >> 1 if jnp.iinfo(t).min < 0 else a & t(127), jnp.float32), a.astype(bool)]
    u = lax.shift_right_logical(n.astype(jnp.uint32) * jnp.uint32(2654435761), jnp.uint32(9)) | jnp.uint32(0x3F800000)
    f = lax.bitcast_convert_type(u, jnp.float32) - jnp.float32(1)
    return (jnp.sum(x), lax.lgamma(jnp.abs(x) + 0.25), *y, f, lax.bitcast_convert_type(f, jnp.int32), n.astype(jnp.int8) @ n.astype(jnp.int8),
            lax.dot(n.astype(jnp.int8), n.astype(jnp.int8), preferred_element_type=jnp.int32))


def long_sums(x, w):
    """Reduces so many elements that the code has trees of sums, and products with a long inner dimension."""
    t = jnp.tanh(x)
    y = [jnp.sum(t), jnp.sum(t, 0), jnp.sum(t, 1), jnp.max(x), jnp.min(x, 0), jnp.max(x, 1), t @ w, t.T @ t[:, :3] * 0.125,
         jax.nn.softmax(x, 0), jnp.prod(1 + t * 0.0625, 1)]
    return sum(jnp.sum(jnp.sin(v)) for v in y), *y


def slices_at_indices(x, w):
    """Gathers and scatters slices at indices, of which some are equal and some are outside."""
    i = jnp.asarray([[2, 0], [5, 2], [2, 2], [-1, 9]], jnp.int32)
    h = x[i % 6] @ w
    y = [h, jnp.take(x, i, axis=0, mode="clip"), jnp.take_along_axis(x[:4], i % 4, 1), x[i[:, 0] % 6, i[:, 1] % 4]]
    s = [x.at[i[:, 0] % 6].add(w), x.at[i[:, 0] % 6].set(w * 2), x.at[i[:3, 0], i[:3, 1]].add(w[0, :3]),
         x.at[jnp.asarray([1, 3])].set(w[:2], unique_indices=True),
         lax.dynamic_update_slice(x, w, (jnp.int32(1), jnp.int32(0)))]
    one = jax.nn.one_hot(i[:, 1] % 4, 4)
    picked = jnp.take_along_axis(jax.nn.log_softmax(x[:4]), (i[:, 1] % 4)[:, None], 1)
    both = jax.vmap(lambda a, k: a[k])(x[:4], i % 4)
    y += s + [picked, both, one.astype(x.dtype) * x[:4], jnp.sin(x)[::-1, ::2]]
    return sum(jnp.sum(jnp.sin(v)) for v in y), *y


def slices_that_win(x, w):
    """Scatters by other reducers than add, in chains of equal indices and in windows that overlap."""
    i = jnp.asarray([2, 5, 2, 4], jnp.int32)
    dims = lax.ScatterDimensionNumbers(update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,))
    return (jnp.sum(x), x.at[i].max(w), x.at[i].min(w), x.at[i].multiply(w), x.at[i].set(w),
            lax.scatter_add(x, jnp.asarray([[0], [1], [3], [9]], jnp.int32), jnp.stack([w[:2]] * 4, 0) * 0.5, dims))


def sorted_rows(x):
    """Sorts, finds the largest elements and where they are."""
    a, b = lax.sort((x, -x * 2), dimension=1, num_keys=1)
    top, at = lax.top_k(x, 3)
    y = [jnp.sort(x, 0), a, b, top, jnp.sort(x, axis=None)]
    return (sum(jnp.sum(jnp.sin(v) * (k + 1)) for k, v in enumerate(y)), *y, at, jnp.argsort(x, axis=1).astype(jnp.int32))


def largest(x):
    """Finds where the largest and the least elements are, in long rows and of several tensors."""
    n = lax.broadcasted_iota(jnp.int32, x.shape, 1)
    def both(a, b):
        return a[0] + b[0], lax.max(a[1], b[1])
    total, last = lax.reduce((x, n), (jnp.zeros((), x.dtype), jnp.int32(-1)), both, (0,))
    return (jnp.sum(x), jnp.argmax(x, 1).astype(jnp.int32), jnp.argmin(x, 0).astype(jnp.int32),
            jnp.argmax(jnp.where(x > 1, jnp.nan, x), 1).astype(jnp.int32), total, last)


def windows(x, w):
    """Pools, and sums up along rows."""
    pooled = [lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
              lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 2, 1), "SAME", None, (1, 2, 1, 1)),
              lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 1, 1), (1, 1, 1, 1), "VALID", (1, 2, 1, 1))]
    long = jnp.tanh(w).reshape(2, -1)
    sums = [jnp.cumsum(x, 1), lax.cumsum(w, 0, reverse=True), jnp.cumsum(long, 1), lax.cummax(w, 0), lax.cumprod(w * 0.5, 1)]
    y = pooled + sums
    return sum(jnp.sum(jnp.sin(v)) for v in y), *y


def pool_gradient(x):
    """Has the gradient of a pooling inside: select_and_scatter."""
    def loss(x):
        y = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return jnp.sum(y * y)
    return jnp.sum(x), jax.grad(loss)(x)


def convolutions(x, w, k):
    """Convolves with strides, dilations, groups and other layouts."""
    def conv(x, w, *a, **o):
        return lax.conv_general_dilated(x, w, *a, dimension_numbers=("NHWC", "HWIO", "NHWC"), **o)
    y = [conv(x, w, (1, 1), "SAME"), conv(x, w, (2, 1), "VALID", rhs_dilation=(1, 2)),
         conv(x, w, (1, 1), ((1, 2), (0, 1)), lhs_dilation=(2, 1)), conv(x, k, (1, 1), "SAME", feature_group_count=2),
         conv(x, w[:1, :1], (1, 1), "VALID"), lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
         lax.conv_general_dilated(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 1), "VALID"),
         lax.conv_general_dilated(x[:, 0], w[0], (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"))]
    grads = jax.grad(lambda x, w: jnp.sum(jnp.sin(conv(x, w, (2, 1), "SAME"))), (0, 1))(x, w)
    groups = jax.grad(lambda k: jnp.sum(jnp.sin(conv(x, k, (1, 1), "SAME", feature_group_count=2))))(k)
    return sum(jnp.sum(jnp.sin(v)) for v in (*y, *grads, groups)), *y, *grads, groups


def choices(x, w):
    """Chooses between functions, of which some have no value or slope where they are not chosen."""
    safe = lax.cond(x[0, 0] > 100.0, lambda a: jnp.log(a - 100.0), lambda a: a * 2.0, x)
    k = (jnp.sum(jnp.abs(x)) * 1000).astype(jnp.int32)
    s = lax.switch(k % 3, [lambda a: jnp.sin(a), lambda a: a @ w.T @ a, lambda a: jnp.sqrt(a - 7.0)], x)
    inner = lax.cond(x[0, 1] > 0.0, lambda a: lax.cond(a[0, 0] > 0.0, lambda b: jnp.exp(b), lambda b: b * w, a),
                     lambda a: lax.fori_loop(0, 3, lambda i, b: jnp.tanh(b + w), a), x)
    y = [safe, jnp.where(jnp.isfinite(s), s, 0.0), inner]
    return sum(jnp.sum(jnp.sin(v)) for v in y), *y


def until(x, w):
    """Runs loops whose number of trips depends on the numbers, one inside of another, beside counted ones."""
    def halve(c):
        a, n = c
        return a * 0.5 + 0.0 * w, n + 1
    a, n = lax.while_loop(lambda c: (jnp.max(jnp.abs(c[0])) > 0.125) & (c[1] < 40), halve, (x, jnp.int32(0)))
    def outer(c):
        b, m, k = c
        b, m = lax.while_loop(lambda d: (jnp.sum(d[0] * d[0]) < 8.0) & (d[1] < 20), lambda d: (d[0] * 1.25 + 0.0625, d[1] + 1), (b, m))
        b = lax.fori_loop(jnp.int32(0), jnp.int32(3), lambda i, v: v * 0.5, b)
        return b, m, k + 1
    b, m, k = lax.while_loop(lambda c: c[2] < jnp.minimum(n, 3), outer, (x + 1.0, jnp.int32(0), jnp.int32(0)))
    none, z = lax.while_loop(lambda c: c[0] < -1e9, lambda c: (c[0] - 1, c[1] * 2), (x[0, 0], w))
    return jnp.sum(a), a, n, b, m, k, none, z


def dropped(x):
    """Draws random numbers as JAX does, by threefry."""
    key = lax.bitcast_convert_type(lax.convert_element_type(jnp.round(x[0, :2] * 0 + jnp.asarray([3, 7], x.dtype)), jnp.int32), jnp.uint32)
    keep = jax.random.bernoulli(key, jnp.float32(0.75), x.shape)
    bits = jax.random.bits(key, (5,), jnp.uint32)
    u = jax.random.uniform(jax.random.fold_in(key, 5), (4,), jnp.float32)
    return jnp.sum(jnp.where(keep, jnp.sin(x), 0)), bits, lax.convert_element_type(u * 1024, jnp.int32), keep


def random_bits(x):
    """Draws by rng_bit_generator, as JAX's keys rbg and unsafe_rbg do; and takes bytes apart and together."""
    zeros = lax.bitcast_convert_type(lax.convert_element_type(x[0, :4] * 0, jnp.int32), jnp.uint32)
    y = []
    for state in ([1, 2, 3, 4], [0x9abcdef0, 5, 0xffffffff, 0xffffffff], [0xffffffff, 0xffffffff, 0xfffffffe, 0xffffffff]):
        for algorithm in lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_PHILOX, lax.RandomAlgorithm.RNG_THREE_FRY:
            for shape, t in ((3, 5), jnp.uint32), ((), jnp.uint32), ((3, 4, 5), jnp.uint8), ((7,), jnp.uint16), ((1, 3, 2), jnp.uint32):
                y += lax.rng_bit_generator(zeros ^ jnp.asarray(state, jnp.uint32), shape, t, algorithm)
    for impl in "rbg", "unsafe_rbg":
        key = jax.random.wrap_key_data(zeros ^ jnp.asarray([7, 8, 9, 10], jnp.uint32), impl=impl)
        a, b = jax.random.split(jax.random.fold_in(key, 3))
        y += [jax.random.key_data(b), jax.random.bernoulli(a, jnp.float32(0.75), x.shape), jax.random.permutation(b, 9),
              lax.convert_element_type(jax.random.normal(a, (4, 3), jnp.float32) * 1024, jnp.int32)]
    f = y[0].astype(jnp.uint32) + jnp.uint32(258)
    rows = lax.bitcast_convert_type(f, jnp.uint8)
    y += [rows, lax.bitcast_convert_type(rows, jnp.int32), lax.bitcast_convert_type(f, jnp.int16),
          lax.bitcast_convert_type(lax.bitcast_convert_type(f, jnp.bfloat16), jnp.float32).astype(jnp.int32)]
    return jnp.sum(x), *y


def random_bits_of_64_bits(x):
    zeros = lax.convert_element_type(x[0, :2] * 0, jnp.uint64)
    y = []
    for algorithm in lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_THREE_FRY:
        for shape, t in ((3, 5), jnp.uint64), ((4,), jnp.uint32), ((2, 3), jnp.uint8):
            state, drawn = lax.rng_bit_generator(zeros ^ jnp.asarray([0x123456789abcdef0, 0xfffffffffffffffe], jnp.uint64), shape, t, algorithm)
            y += [state, lax.bitcast_convert_type(state, jnp.uint32), drawn]
        y += [lax.bitcast_convert_type(y[-7] if t == jnp.uint64 else state, jnp.uint16)]
    double = lax.bitcast_convert_type(y[1], jnp.uint64)
    return jnp.sum(x), *y, double, lax.bitcast_convert_type(double, jnp.int8)


def winners(x, v):
    """Scatters by maximum, minimum and multiplication, with ties, equal indices and some outside."""
    i = jnp.asarray([1, 1, 3, 9])
    tied = v.at[0, 0].set(x[1, 0]).at[1, 1].set(v[0, 1])
    y = [x.at[i].max(tied), x.at[i].min(tied), x.at[i].multiply(jnp.arange(12).reshape(4, 3).astype(x.dtype) * 0.25), x.at[jnp.asarray([5, 0, 2, 7])].multiply(v, unique_indices=True),
         jax.ops.segment_max(v, jnp.asarray([0, 2, 2, 1]), 3)]
    return sum(jnp.sum(jnp.sin(u * (k + 1))) for k, u in enumerate(y)), *y


def gammas(x):
    p = jnp.abs(x) + 0.25
    y = [lax.lgamma(p), lax.digamma(x * 3 + 0.125), lax.lgamma(p * 9), lax.lgamma(x - 2.3125)]
    return sum(jnp.sum(jnp.sin(v)) for v in y), *y


def neighbours(x):
    """Takes numbers that follow others, and draws as initializers do."""
    y = jnp.float32(0) * x.astype(jnp.float32)
    one, zero, limit = y + 1, y, y + jnp.float32(3.4028235e38)
    pairs = [(one, zero), (one, one + 1), (-one, zero), (-one, -one * 2), (zero, one), (-zero, -one), (one, one), (limit, limit * 2), (zero, -zero), (y / zero, one), (one, y / zero)]
    bits = [lax.bitcast_convert_type(jnp.nextafter(a, b), jnp.int32) for a, b in pairs[:-2]]
    nans = [jnp.isnan(jnp.nextafter(a, b)) for a, b in pairs[-2:]]
    key = lax.bitcast_convert_type(lax.convert_element_type(x[:2] * 0, jnp.int32), jnp.uint32)
    return jnp.sum(x), *bits, *nans, lax.convert_element_type(jax.random.truncated_normal(key, -2, 2, (9,), jnp.float32) * 1024, jnp.int32)


def large_convolutions(x, w):
    """Convolves tensors so large that codegen does it by tiles. They are made from few numbers."""
    def large(x, *shape):
        return (jnp.arange(np.prod(shape), dtype=jnp.int32) % 23 - 11).astype(x.dtype).reshape(shape) / 16 * x
    y = lax.conv_general_dilated(large(x, 3, 17, 13, 32), large(w, 2, 2, 32, 72), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    groups = lax.conv_general_dilated(large(x[1], 3, 64, 18, 17), large(w[2], 132, 32, 3, 2), (2, 1), "VALID", rhs_dilation=(1, 2), feature_group_count=2)
    some = y[:, ::5, ::4, ::9], groups[:, ::17, ::3, ::5]
    return sum(jnp.mean(jnp.sin(v / 8)) for v in (y, groups)), *some


def put(word, x):
    if np.asarray(x).dtype.kind == "f":
        print(word, " ".join(f"{v:.13g}" for v in np.ravel(x)))
    else:
        print(word, " ".join(str(int(v)) for v in np.ravel(x)))


# JAX lowers a logistic to simpler operations; other frameworks keep it.
LOGISTIC = """func.func public @main(%x: tensor<7xf32>) -> tensor<f32> {
  %0 = stablehlo.logistic %x : tensor<7xf32>
  %1 = stablehlo.multiply %0, %x : tensor<7xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
"""


def graph(name, f, shapes, gradients=True, reverse=True, scale=1, module=None, of_64_bits=False):
    """Prints a graph. JAX has no reverse mode for while_loop: without `reverse` it takes forward mode."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    random_numbers = np.random.default_rng(sum(name.encode()))
    args = [np.float32(np.round(random_numbers.normal(size=s) * scale * 1024) / 1024) for s in shapes]
    wide = [a.astype(np.float64) for a in args]
    with jax.enable_x64(of_64_bits):
        module = module or jax.jit(f, keep_unused=True).lower(*args).as_text()
    numbers = re.sub(r"array<i64|: tensor<\d+x2xi64>}|tensor<\d+x2xi64>, ", "", module)
    if "f64" in module or (re.search(r"[x<]i64>", numbers) and not of_64_bits):
        raise SystemExit(f"{name}: the module is not of f32\n{module}")
    results = jax.jit(f)(*wide)
    for a, b in zip(jax.jit(f)(*args), results):
        if np.asarray(b).dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    print("graph", name)
    print(module, end="")
    for a in wide:
        put("arg", a)
    for r in results:
        put("result", r)
    if gradients:
        derivative = jax.grad if reverse else jax.jacfwd
        for g in jax.jit(derivative(lambda *a: f(*a)[0], argnums=tuple(range(len(args)))))(*wide):
            put("gradient", g)
    print("end")


def main():
    graph("functions", functions, [(7,)])
    graph("bits", bits, [(7,)], gradients=False)
    graph("slices_at_indices", slices_at_indices, [(6, 4), (4, 4)])
    graph("slices_that_win", slices_that_win, [(6, 4), (4, 4)], gradients=False)
    graph("sorted_rows", sorted_rows, [(5, 9)])
    graph("largest", largest, [(5, 83)], gradients=False)
    graph("windows", windows, [(2, 6, 6, 3), (4, 600)])
    graph("pool_gradient", pool_gradient, [(1, 7, 6, 2)], gradients=False)
    graph("convolutions", convolutions, [(2, 6, 5, 4), (3, 2, 4, 6), (3, 3, 2, 4)], scale=0.5)
    graph("large_convolutions", large_convolutions, [(32,), (72,)], scale=0.5)
    graph("choices", choices, [(3, 3), (3, 3)])
    graph("until", until, [(2, 3), (2, 3)], gradients=False)
    graph("dropped", dropped, [(4, 6)])
    graph("long_sums", long_sums, [(70, 331), (331, 2)], scale=0.25)
    for sizes in [(1, 16, 1), (1, 16, 16, 1), (1, 16, 16, 16, 1)]:
        graph("mlp_" + "_".join(map(str, sizes)), *mlp(sizes))
    graph("loop", loop, [(3, 4), (4, 4)], reverse=False)
    graph("logistic", lambda x: (jnp.sum(lax.logistic(x) * x),), [(7,)], module=LOGISTIC)
    graph("counted", counted, [(3, 4), (4, 4)], reverse=False)
    graph("scanned", scanned, [(3, 4), (5, 4, 4), (5, 4)])
    graph("backwards", backwards, [(6, 3), (3,)])
    graph("nested", nested, [(4, 3), (3, 3)])
    graph("kept", kept, [(2, 24), (24, 24)])
    graph("chain", *chain(16, 8, 4, False), scale=0.25)
    graph("chain_scanned", *chain(16, 8, 4, True), scale=0.25)
    graph("chain_trained", *trained(16, 8, 4, 5), gradients=False, scale=0.25)
    graph("whole_numbers", whole_numbers, [(7,)], gradients=False)
    for seed in range(N_RANDOM + N_LOOPS):
        f, shapes = random_graph(seed)
        graph(f"random_{seed}", f, shapes)
    graph("loop_of_64_bits", loop_of_64_bits, [(5, 4), (4, 4)], of_64_bits=True)
    graph("counted_by_64_bits", counted_by_64_bits, [(3, 4), (4, 4)], reverse=False, of_64_bits=True)
    graph("whole_numbers_of_64_bits", whole_numbers_of_64_bits, [(7,)], gradients=False, of_64_bits=True)
    graph("reactant_for", reactant_for, [(6, 4), (4, 4)], module=open(REACTANT % "for").read(), of_64_bits=True)
    graph("reactant_trace", reactant_trace, [(3,)], module=open(REACTANT % "trace").read(), of_64_bits=True)

    graph("random_bits", random_bits, [(2, 5)], gradients=False)
    graph("random_bits_of_64_bits", random_bits_of_64_bits, [(2, 5)], gradients=False, of_64_bits=True)

    graph("winners", winners, [(6, 3), (4, 3)])
    graph("gammas", gammas, [(11,)])

    graph("neighbours", neighbours, [(3,)], gradients=False)


main()

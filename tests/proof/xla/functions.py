# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX's own functions, put together at random, differentiated and repeated: what nobody wrote
with keys in mind."""

import inspect
import warnings

import numpy as np
import run  # before JAX, of which it says where it runs
import jax
import jax.numpy as jnp
import jax.scipy
from jax import lax

from program import DTYPES

MODULES = (jnp, jnp, jnp, jnp.linalg, jnp.fft, jax.nn, jax.scipy.special, jax.scipy.signal,
           jax.scipy.linalg, jax.scipy.integrate, jax.scipy.fft, jax.scipy.stats.norm,
           jax.scipy.stats.beta, jax.scipy.stats.gamma, jax.scipy.stats.t, jax.image, lax, lax.linalg,
           jax.ops, jax.random)
SHAPES = ((8,), (5, 7), (4, 4), (2, 3, 4), (33,), (16, 16), ())
LARGE = ((1000,), (32, 257), (4, 64, 64))  # where the program is not run
ELEMENTS = ("f32", "f32", "f32", "bf16", "f16", "f64", "i32")
NUMBERS = (0, 1, 2, -1, 0.5, 3)
NAMES = {np.dtype(t).name for t in DTYPES.values()}
SIZE_MAX = {"cpu": 4096, "cuda": 65536}  # elements of what goes on
TRIES = 60  # functions that are given what there is

warnings.simplefilter("ignore")  # of functions that are given what they are not for


def functions_of(module):
    """The public functions of a module, in the order of their names."""
    return [f for name, f in sorted(vars(module).items())
            if not name.startswith("_") and callable(f) and not inspect.isclass(f)]


class Composer:
    """A function of a few arrays, made step by step whenever it is traced, of the same steps each time."""

    def __init__(self, random, platform):
        self.random, self.platform = random, platform
        self.seed = int(random.integers(1 << 31))
        self.steps = int(random.integers(1, 7))
        kind = jax.ShapeDtypeStruct(self.one_of(SHAPES + LARGE if platform == "cuda" else SHAPES),
                                    DTYPES[self.one_of(ELEMENTS)])
        self.given = [kind] * int(random.integers(1, 4))
        self.around = self.one_of([None] * 14 + [jax.grad, jax.grad, jax.value_and_grad, remade,
                                                 repeated, chosen])

    def one_of(self, things):
        return things[int(self.random.integers(len(things)))]

    def traced(self):
        what = self.body
        if self.around in (jax.grad, jax.value_and_grad, remade):
            what = total(what)
        return jax.jit(self.around(what) if self.around else what).trace(*self.given)

    def body(self, *given):
        self.random = np.random.default_rng(self.seed)
        seen = list(given)
        for _ in range(self.steps):
            seen += self.step(seen)
        return seen[len(given):][-4:]

    def step(self, seen):
        """What some function gives that takes some of what there is."""
        for _ in range(TRIES):
            module = self.one_of(MODULES)
            f = self.one_of(functions_of(module))
            operands = [self.one_of(seen[-4:]) for _ in range(self.one_of((1, 1, 1, 2, 2, 3)))]
            if self.random.random() < 0.15:
                operands[-1] = self.one_of(NUMBERS)
            if module is jax.random:
                operands.insert(0, jax.random.key(3))
            try:
                made = jax.jit(f)(*operands) if self.random.random() < 0.4 else f(*operands)
                made = [v for v in jax.tree.leaves(made) if isinstance(v, jax.Array)
                        and v.dtype.name in NAMES and v.size <= SIZE_MAX[self.platform]]
            except Exception:  # not for these operands
                continue
            if made:
                return made[:3]
        raise ValueError("no function takes what there is")


def total(f):
    """One number, which can be differentiated."""
    return lambda *given: sum(jnp.sum(jnp.real(v)).astype(jnp.float32) for v in f(*given))


def remade(f):
    return jax.grad(jax.checkpoint(f))


def repeated(f):
    def step(carry, _):
        made = [v for v in f(*carry) if (v.shape, v.dtype) == (carry[0].shape, carry[0].dtype)]
        return (*made, *carry)[:len(carry)], None
    return lambda *given: lax.scan(step, given, None, length=3)[0]


def chosen(f):
    return lambda *given: lax.cond(jnp.sum(jnp.real(given[0])) > 0, lambda: f(*given),
                                   lambda: f(*given[::-1]))

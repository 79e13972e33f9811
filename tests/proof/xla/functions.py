# SPDX-License-Identifier: Apache-2.0
"""Programs of JAX's own functions, put together at random, differentiated and repeated: what nobody wrote
with keys in mind. Read from the module that JAX makes of them into the objects of program.py."""

import inspect
import warnings

import numpy as np
import run  # before JAX, of which it says where it runs
import jax
import jax.numpy as jnp
import jax.scipy
from jax import lax
from jax._src.lib.mlir import ir

from program import DTYPES, Block, Op, Program, Type

MODULES = (jnp, jnp, jnp, jnp.linalg, jnp.fft, jax.nn, jax.scipy.special, jax.scipy.signal,
           jax.scipy.linalg, jax.scipy.integrate, jax.scipy.fft, jax.scipy.stats.norm,
           jax.scipy.stats.beta, jax.scipy.stats.gamma, jax.scipy.stats.t, jax.image, lax, lax.linalg,
           jax.ops, jax.random)
SHAPES = ((8,), (5, 7), (4, 4), (2, 3, 4), (33,), (16, 16), (1000,), (32, 257), (4, 64, 64), ())
ELEMENTS = ("f32", "f32", "f32", "bf16", "f16", "f64", "i32")
NUMBERS = (0, 1, 2, -1, 0.5, 3)
NAMES = {np.dtype(t).name for t in DTYPES.values()}
SIZE_MAX = 65536  # elements of what goes on
OPS_MAX = 1500  # operations of a program
TRIES = 60  # functions that are given what there is

warnings.simplefilter("ignore")  # of functions that are given what they are not for


class Unfit(Exception):
    """The program is none that this proof can do."""


def functions_of(module):
    """The public functions of a module, in the order of their names."""
    return [f for name, f in sorted(vars(module).items())
            if not name.startswith("_") and callable(f) and not inspect.isclass(f)]


class Composer:
    """A function of a few arrays, made step by step whenever it is traced, of the same steps each time."""

    def __init__(self, random):
        self.random = random
        self.seed = int(random.integers(1 << 31))
        self.steps = int(random.integers(1, 7))
        kind = jax.ShapeDtypeStruct(self.one_of(SHAPES), DTYPES[self.one_of(ELEMENTS)])
        self.given = [kind] * int(random.integers(1, 4))
        self.around = self.one_of([None] * 14 + [jax.grad, jax.grad, jax.value_and_grad, remade,
                                                 repeated, chosen])

    def one_of(self, things):
        return things[int(self.random.integers(len(things)))]

    def module(self, platform):
        """The module that JAX makes of it."""
        what = self.body
        if self.around in (jax.grad, jax.value_and_grad, remade):
            what = total(what)
        try:
            return jax.jit(self.around(what) if self.around else what).trace(*self.given).lower(
                lowering_platforms=(platform,)).compiler_ir("stablehlo")
        except Exception as error:  # of whatever function, for whatever reason
            raise Unfit from error

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
                        and v.dtype.name in NAMES and v.size <= SIZE_MAX]
            except Exception:  # not for these operands
                continue
            if made:
                return made[:3]
        raise Unfit


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


def generate(random, platform):
    """A random program that can be used."""
    while True:
        try:
            module = Composer(random).module(platform)
            with module.context:
                return read(module)
        except Unfit:
            continue


# ---- reading ----

def read(module):
    """A module in MLIR's objects, as Program."""
    found = {f.sym_name.value: f for f in module.body.operations if f.OPERATION_NAME == "func.func"}
    functions = {}  # each behind those that it calls

    def function(symbol):
        if symbol not in functions:
            block, = found[symbol[1:]].regions[0].blocks
            functions[symbol] = body(block, {}, function, "function")
        return functions[symbol]

    function("@main")
    program = Program(list(functions.values()))
    if sum(len(b.ops) for b in program.blocks()) > OPS_MAX or not program.main.ops[-1].operands:
        raise Unfit
    return program


def body(block, values, function, name=None):
    """A block in which `values` are known already."""
    made = Block([type_of(v) for v in block.arguments], name)
    values = {**values, **dict(zip(block.arguments, made.arguments))}
    for op in block.operations:
        made.ops.append(operation(op.operation, values, function))
        values.update(zip(op.results, made.ops[-1].results))
    return made


def operation(op, values, function):
    attributes = dict(said(op))
    named = {key: function(attributes.pop(key)) for key in ("callee", "decomposition") if key in attributes}
    if any("@" in text for text in attributes.values()) or any(len(r.blocks) != 1 for r in op.regions):
        raise Unfit
    regions = [body(region.blocks[0], values, function) for region in op.regions]
    return Op(op.name, [values[v] for v in op.operands], [type_of(v) for v in op.results],
              attributes.items(), regions, named.get("callee"),
              [named[key] for key in named if key == "decomposition"])


def said(op):
    """The attributes, as text."""
    if op.name == "stablehlo.constant":  # the objects have no complex numbers
        return [("value", str(op).split("stablehlo.constant ", 1)[1])]
    return [(name, str(op.attributes[name])) for name in op.attributes]


def type_of(value):
    try:
        type = ir.RankedTensorType(value.type)
    except ValueError:
        raise Unfit from None  # a token
    element = str(type.element_type)
    if element not in DTYPES or type.encoding:
        raise Unfit
    return Type(type.shape, element)

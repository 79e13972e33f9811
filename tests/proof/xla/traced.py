# SPDX-License-Identifier: Apache-2.0
"""Programs that JAX traced, read from the module that it makes of them into the objects of program.py."""

import run  # before JAX, of which it says where it runs
from jax._src.lib.mlir import ir

import disguised
import functions
import layouts
import models
from program import DTYPES, Block, Op, Program, Type

OPS_MAX = 1500  # operations of a program
MAKERS = functions.Composer, models.Network, disguised.Products, layouts.Layouts
PARTS = 0.5, 0.25, 0.1, 0.15


class Unfit(Exception):
    """The program is none that this proof can do."""


def generate(random, platform):
    """A random program that can be used."""
    while True:
        try:
            maker = random.choice(MAKERS, p=PARTS)
            module = lowered(maker(random, platform), platform)
            with module.context:
                return read(module)
        except Unfit:
            continue


def lowered(maker, platform):
    try:
        return maker.traced().lower(lowering_platforms=(platform,)).compiler_ir("stablehlo")
    except Exception as error:  # of whatever function, for whatever reason
        raise Unfit from error


def read(module):
    """A module in MLIR's objects, as Program."""
    found = {f.sym_name.value: f for f in module.body.operations if f.OPERATION_NAME == "func.func"}
    functions = {}  # each behind those that it calls

    def function(symbol):
        if symbol not in functions:
            block, = found[symbol[1:].strip('"')].regions[0].blocks
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

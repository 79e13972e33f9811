# SPDX-License-Identifier: Apache-2.0
"""A StableHLO program as objects: what generate.py makes, variants.py changes, and MLIR
reads as text in its generic form.

A program is a list of functions, the last of which is the public one. A function is a block: its
arguments, and operations of which the last is its terminator. A value has a type and nothing else;
names exist in the text only. Literals are written as the bytes of their elements, so every NaN and
every zero is what it was made as."""

import re

import numpy as np
import ml_dtypes

MESH = (("x", 2), ("y", 2))  # axes that four devices stand along, and how many
AXIS = re.compile('"([xy])"')
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
          "i64": np.int64, "i32": np.int32, "i8": np.int8, "ui8": np.uint8, "ui32": np.uint32,
          "ui64": np.uint64, "i1": np.bool_, "i4": ml_dtypes.int4, "ui4": ml_dtypes.uint4,
          "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
          "complex<f32>": np.complex64, "complex<f64>": np.complex128}
DEFAULTS = (("indices_are_sorted", "false"), ("unique_indices", "false"), ("is_stable", "false"))
FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i8", "ui8", "ui32", "ui64")
COMPLEX = ("complex<f32>", "complex<f64>")


class Type(tuple):
    """(shape, element type)."""

    def __new__(cls, shape, element):
        return super().__new__(cls, (tuple(shape), element))

    shape = property(lambda self: self[0])
    element = property(lambda self: self[1])
    rank = property(lambda self: len(self[0]))

    def of(self, element):
        return Type(self.shape, element)

    def shaped(self, *shape):
        return Type(shape, self.element)

    def __str__(self):
        return "tensor<" + "".join(f"{n}x" for n in self.shape) + self.element + ">"


class Value:
    __slots__ = ("type", "said")

    def __init__(self, type, said=""):
        self.type = type
        self.said = said  # of an argument: its attributes


class Op:
    __slots__ = ("name", "operands", "results", "attributes", "regions", "callee", "bodies")

    def __init__(self, name, operands, types, attributes=(), regions=(), callee=None, bodies=()):
        self.name = name
        self.operands = list(operands)
        self.results = [Value(t) for t in types]
        self.attributes = list(attributes)  # (name, text)
        self.regions = list(regions)
        self.callee = callee  # a function
        self.bodies = bodies  # functions that it names otherwise, as HLO does in place of regions

    def copy(self, values):
        """With the values of `values` in place of its operands; the results are new, and put there."""
        other = Op(self.name, [values.get(v, v) for v in self.operands],
                   [v.type for v in self.results], self.attributes,
                   [region.copy(values) for region in self.regions], self.callee, self.bodies)
        values.update(zip(self.results, other.results))
        return other

    def functions(self):
        return [f for f in (self.callee, *self.bodies) if f]

    def blocks(self):
        """The blocks of its regions, and of what is in them."""
        for region in self.regions:
            yield region
            for op in region.ops:
                yield from op.blocks()


class Block:
    __slots__ = ("arguments", "ops", "name")

    def __init__(self, types=(), name=None):
        self.arguments = [Value(t) for t in types]
        self.ops = []
        self.name = name  # of a function

    def copy(self, values):
        other = Block(name=self.name)
        other.arguments = [Value(v.type, v.said) for v in self.arguments]
        values.update(zip(self.arguments, other.arguments))
        other.ops = [op.copy(values) for op in self.ops]
        return other


class Program:
    """Functions; each calls only those before it. What the last operation of the public one has as
    attributes are those of the results, where there are any."""

    kind = b"mlir"
    partitions = replicas = 1  # devices that run it, together or each on numbers of its own
    shardy = True  # says how values lie, or GSPMD does
    axes = tuple(name for name, _ in MESH)

    def __init__(self, functions):
        self.functions = functions

    main = property(lambda self: self.functions[-1])

    def copy(self, values=None):
        """`values` tells of each value here which one it is there."""
        values, functions = {} if values is None else values, {}
        for function in self.functions:
            functions[function] = function.copy(values)
        other = type(self)(list(functions.values()))
        other.partitions, other.replicas = self.partitions, self.replicas
        other.shardy, other.axes = self.shardy, self.axes
        for block in other.blocks():
            for op in block.ops:
                op.callee = functions.get(op.callee)
                op.bodies = tuple(functions[f] for f in op.bodies)
        return other

    def blocks(self):
        for function in self.functions:
            yield function
            for op in function.ops:
                yield from op.blocks()

    def text(self, style=None):
        return Writer(style or Style()).program(self)


class Style:
    """How a program is spelt: of no account to any key."""

    def __init__(self, random=None):
        self.random = random
        self.prefix = random.choice(["", "v", "a.b", "arg"]) if random else ""

    def attributes(self, entries):
        entries = list(entries)
        if self.random:
            self.random.shuffle(entries)
            entries = [e for e in entries if e not in DEFAULTS or self.random.random() < 0.5]
        return ", ".join(f"{k} = {v}" if v else k for k, v in entries)

    def location(self):
        if not self.random or self.random.random() < 0.7:
            return ""
        return f' loc("file{self.random.randrange(9)}.py":{self.random.randrange(1, 99)}:3)'

    def metadata(self):
        if not self.random or self.random.random() < 0.7:
            return ""
        return f', metadata={{op_name="{self.random.randrange(9)}" source_line={self.random.randrange(99)}}}'

    def function(self, i):
        return f"f{i}" if not self.random else f"f{i}_{self.random.randrange(10)}"


class Writer:
    def __init__(self, style):
        self.style = style
        self.lines, self.names, self.functions = [], {}, {}

    def program(self, program):
        for i, function in enumerate(program.functions):
            self.functions[function] = self.style.function(i)
        self.functions[program.main] = "main"
        devices = (f"attributes {{mhlo.num_partitions = {program.partitions} : i32, "
                   f"mhlo.num_replicas = {program.replicas} : i32}} ")
        said = devices if program.partitions * program.replicas > 1 else ""
        self.lines.append(f"module @m {said}{{")
        if program.partitions > 1 and program.shardy:
            axes = ", ".join(f'"{name}"={size}' for name, size in MESH)
            self.lines.append(f"sdy.mesh @mesh = <[{axes}]>")
        for function in program.functions:
            self.function(function, function is program.main)
        self.lines.append("}")
        text = "\n".join(self.lines) + "\n"
        return AXIS.sub(lambda m: f'"{program.axes[[n for n, _ in MESH].index(m[1])]}"', text)

    def bind(self, values):
        for value in values:
            self.names[value] = f"%{self.style.prefix}{len(self.names)}"
        return ", ".join(self.names[v] for v in values)

    def function(self, function, public):
        self.bind(function.arguments)
        last = function.ops[-1]
        said = [f"{k} = {v}" if k else "" for k, v in last.attributes] or [""] * len(last.operands)
        results = ", ".join(typed(v.type, text) for v, text in zip(last.operands, said))
        arguments = ", ".join(f"{self.names[v]}: {typed(v.type, v.said)}" for v in function.arguments)
        self.lines.append(f"func.func {'public' if public else 'private'} "
                          f"@{self.functions[function]}({arguments}) -> ({results}) {{")
        for op in function.ops:
            self.op(op)
        self.lines.append("}")

    def op(self, op):
        operands = ", ".join(self.names[v] for v in op.operands)
        attributes = [] if op.name == "func.return" else list(op.attributes)
        if op.callee:
            attributes.append(("callee", "@" + self.functions[op.callee]))
        attributes += [("decomposition", "@" + self.functions[f]) for f in op.bodies]
        start = len(self.lines)
        self.lines.append(f'"{op.name}"({operands})')
        for i, region in enumerate(op.regions):
            self.region(region, "({" if i == 0 else "}, {")
        tail = "}) " if op.regions else ""
        tail += "{" + self.style.attributes(attributes) + "} " if attributes else ""
        tail += ": (" + ", ".join(str(v.type) for v in op.operands) + ") -> ("
        tail += ", ".join(str(v.type) for v in op.results) + ")" + self.style.location()
        if op.regions:
            self.lines.append(tail)
        else:
            self.lines[-1] += tail
        if op.results:
            self.lines[start] = self.bind(op.results) + " = " + self.lines[start]

    def region(self, region, opening):
        self.lines.append(opening)
        if region.arguments:
            self.bind(region.arguments)
            self.lines.append("^bb0(" + ", ".join(
                f"{self.names[v]}: {v.type}" for v in region.arguments) + "):")
        for op in region.ops:
            self.op(op)


def typed(type, said):
    return f"{type} {{{said}}}" if said else str(type)


def ints(numbers):
    return "array<i64" + (": " if numbers else "") + ", ".join(str(n) for n in numbers) + ">"


def literal(type, array):
    """The constant with these elements; one element stands for all."""
    array = np.asarray(array).astype(DTYPES[type.element])
    if type.element == "i1":
        if array.size != 1:
            raise ValueError("a boolean constant has one element here")
        text = "true" if array.reshape(-1)[0] else "false"
    else:
        text = '"0x' + array.tobytes().hex().upper() + '"'
    return Op("stablehlo.constant", [], [type], [("value", f"dense<{text}> : {type}")])

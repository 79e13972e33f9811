# SPDX-License-Identifier: Apache-2.0
"""HLO text as the objects of program.py, and those as HLO text.

A computation is a function; an instruction is an operation named by its opcode, whose type is the
text of its shape. The root of the entry computation, if a tuple, is not an operation: a function that
gives several values is written with a tuple. A call that gives several values, as variants.py makes it, is written
with what takes the tuple apart."""

import re

from program import Block, Op, Program, Style, Value

HEAD = re.compile(r"^(ENTRY )?%?([\w.-]+)(?: \(.*)? \{$")
LINE = re.compile(r"^  (ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$")
NAMED = ("to_apply", "condition", "body", "true_computation", "false_computation",
         "branch_computations", "calls", "select", "scatter")
ELEMENTS = {"pred": "i1", "s8": "i8", "s32": "i32", "s64": "i64", "u8": "ui8", "u32": "ui32",
            "u64": "ui64", "c64": "complex<f32>", "c128": "complex<f64>"}


class Shape(str):
    """As HLO writes it: `f32[5,7]{1,0}`, or a tuple of such."""

    is_tuple = property(lambda self: self.startswith("("))
    element = property(lambda self: ELEMENTS.get(self.split("[")[0], self.split("[")[0]))
    shape = property(lambda self: tuple(
        int(n) for n in self[self.index("[") + 1:self.index("]")].split(",") if n))


class Module(Program):
    kind = b"hlo"

    def text(self, style=None):
        return Writer(style or Style()).program(self)


def read(text, replicas=1):
    """The module of a text that XLA printed, as Program for so many devices."""
    functions, values, block = {}, {}, None
    for line in re.sub(r"/\*index=\d+\*/", "", text).split("\n"):
        head, instruction = HEAD.match(line), LINE.match(line)
        if head:
            block, values, parameters, root = Block(name="function"), {}, {}, None
            entry, functions[head[2]] = bool(head[1]), block
        elif instruction:
            name, shape, opcode = instruction[2], Shape(instruction[3]), instruction[4]
            inner, rest = split_at(instruction[5])
            if opcode == "parameter":
                value = parameters[int(inner)] = Value(shape)
            else:
                op = operation(opcode, inner, shape, rest, values, functions)
                block.ops.append(op)
                value = op.results[0]
            values[name] = value
            root = value if instruction[1] else root
        elif line == "}":
            block.arguments = [parameters[i] for i in sorted(parameters)]
            finish(block, root, entry)
    module = Module(list(functions.values()))
    module.replicas = replicas
    return module


def finish(block, root, entry):
    last = next((op for op in block.ops if root in op.results), None)
    if entry and last and last.name == "tuple" and len(last.operands) > 1:
        block.ops.remove(last)
        block.ops.append(Op("func.return", last.operands, []))
    else:
        block.ops.append(Op("func.return", [root], []))


def split_at(text):
    """What is before the bracket that closes, and the attributes behind it."""
    depth, quoted = 1, False
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "({") - (c in ")}")
        if not depth:
            return text[:i], text[i + 1:]
    raise ValueError(text)


def parts(text):
    """What stands between the commas of the outermost level."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "({[") - (c in ")}]")
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return [part.strip() for part in found if part.strip()]


def operation(opcode, inner, shape, rest, values, functions):
    attributes, bodies = [], []
    for part in parts(rest):
        key, value = part.split("=", 1)
        if key in NAMED:
            names = [n.strip().lstrip("%") for n in value.strip("{}").split(",")]
            bodies += [functions[n] for n in names]
            attributes.append((key, len(names)))
        elif key != "metadata":
            attributes.append((key, value))
    if opcode in ("constant", "iota", "replica-id", "partition-id"):
        return Op(opcode, [], [shape], attributes + ([("", inner)] if inner else []))
    operands = [values[name.lstrip("%")] for name in parts(inner)]
    if opcode == "call":
        return Op("func.call", operands, [shape], callee=bodies[0])
    return Op(opcode, operands, [shape], attributes, bodies=tuple(bodies))


class Writer:
    def __init__(self, style):
        self.style, self.lines, self.names, self.functions = style, [], {}, {}
        self.count = 0

    def program(self, program):
        main = program.main
        types = [v.type for v in main.ops[-1].operands]
        self.lines.append(f"HloModule {self.fresh('m')}, entry_computation_layout={{("
                          + ", ".join(v.type for v in main.arguments) + ")->" + tuple_of(types) + "}"
                          + (f", replica_count={program.replicas}" if program.replicas > 1 else ""))
        for function in program.functions:
            self.function(function, function is main)
        return "\n".join(self.lines) + "\n"

    def fresh(self, what):
        self.count += 1
        return f"{self.style.prefix}{what}.{self.count}"

    def function(self, function, entry):
        self.functions[function] = self.fresh("f")
        self.lines += ["", ("ENTRY " if entry else "") + self.functions[function] + " {"]
        last = function.ops[-1].operands
        root = last[0] if len(last) == 1 else None
        for i, v in enumerate(function.arguments):
            self.line(v.type, f"parameter({i})", v, root)
        for op in function.ops[:-1]:
            self.op(op, root)
        if not root:
            self.line(tuple_of([v.type for v in last]), "tuple(" + self.list(last) + ")", None, None)
            self.lines[-1] = "  ROOT " + self.lines[-1].lstrip()
        self.lines.append("}")

    def list(self, values):
        return ", ".join(self.names[v] for v in values)

    def line(self, shape, what, value, root):
        name = self.fresh("v")
        if value is not None:
            self.names[value] = name
        mark = "ROOT " if value is root and root is not None else ""
        self.lines.append(f"  {mark}{name} = {shape} {what}{self.style.metadata()}")
        return name

    def op(self, op, root):
        if op.name == "func.call":
            return self.call(op, root)
        attributes, bodies, inner = [], list(op.bodies), self.list(op.operands)
        for key, value in op.attributes:
            if key in NAMED:
                names = [self.functions[bodies.pop(0)] for _ in range(value)]
                value = names[0] if key != "branch_computations" else "{" + ", ".join(names) + "}"
            if key:
                attributes.append(f", {key}={value}")
            else:
                inner = value
        self.line(op.results[0].type, f"{op.name}({inner})" + "".join(attributes), op.results[0], root)

    def call(self, op, root):
        text = f"call({self.list(op.operands)}), to_apply={self.functions[op.callee]}"
        if len(op.results) == 1:
            self.line(op.results[0].type, text, op.results[0], root)
            return
        whole = self.line(tuple_of([v.type for v in op.results]), text, None, root)
        for i, v in enumerate(op.results):
            self.line(v.type, f"get-tuple-element({whole}), index={i}", v, root)


def tuple_of(types):
    return types[0] if len(types) == 1 else "(" + ", ".join(types) + ")"

# SPDX-License-Identifier: Apache-2.0
"""What a module that XLA has optimized computes, without its order, its names and its fusions: a digest
for each result, of all that it is computed from. Two modules with equal digests give the same bits, as
long as each operation does. Fusions, branches and loops are opened, so what is passed to them beside
what they need does not show, nor in which order. But how an operation of HEAVY sums is decided by the
fusion that it is in: by its kind, by whether something else sums what comes out, and by how many bits the
numbers have that go in and come out, if all that sums in it are plain reductions (XLA's emitters of those
look at the reduction itself, and at that) or windows (which it sums one number after the other), else by
all of it."""

import hashlib
import json
import re

import hlo
from program import COMPLEX, FLOATS

COMMUTING = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
HEAVY = ("reduce", "dot", "convolution", "reduce-window", "scatter", "select-and-scatter", "custom-call")
SAID = ("metadata", "sharding", "frontend_attributes", "control-predecessors", "backend_config")
WIDTH = re.compile(r"(?:pred|[a-z]+(\d+)[a-z0-9]*)\[")  # f8e4m3fn[4]: 8; pred[4]: none
PLANNED = ("reification_cost", "operation_queue_id", "force_earliest_schedule")  # when it runs


def digest(*what):
    return hashlib.sha256(repr(what).encode()).hexdigest()


def results(text):
    """The digests of what the entry computation of a module gives."""
    main = hlo.read(text).main
    found = values(main, [digest("argument", i) for i in range(len(main.arguments))])
    return list(found[0]) if isinstance(found[0], tuple) else found


def values(block, arguments, within=None):
    """The digests of a computation's results, of a tuple those of its parts in a tuple. `within`: of what
    decides how the fusion sums that it is, a digest and the operations whose results it sums again."""
    known = dict(zip(block.arguments, arguments))
    for op in block.ops[:-1]:
        known[op.results[0]] = value(op, [known[v] for v in op.operands], within)
    return [known[v] for v in block.ops[-1].operands]


def value(op, operands, within):
    plain = simple(op, operands)
    if plain:
        return plain
    if op.name == "copy":
        return operands[0]
    if op.name == "tuple":
        return tuple(operands)
    if op.name == "get-tuple-element" and isinstance(operands[0], tuple):
        return operands[0][int(dict(op.attributes)["index"])]
    if op.name == "func.call":
        return values(op.callee, operands)[0]
    if op.name == "fusion":
        return fused(op, operands)
    if op.name == "conditional":
        return branched(op, *operands)
    if op.name == "while":
        return looped(op, *operands)
    if op.name in COMMUTING:
        operands = sorted(operands)
    bodies = [values(f, [digest("argument", i) for i in range(len(f.arguments))]) for f in op.bodies]
    return digest(op.name, op.results[0].type, said(op), bodies, operands,
                  (within[0], op in within[1]) if within and op.name in HEAVY else None)


def simple(op, operands):
    """The digest of what needs no computation: the compiler sees that two operands are one only if they
    are one operation."""
    type, found = op.results[0].type, set(operands[-2:])
    integer = not type.is_tuple and type.element not in FLOATS + COMPLEX
    zero = digest("zero", type)
    if op.name in ("and", "or", "maximum", "minimum", "select") and len(found) == 1:
        return operands[-1]
    if integer and op.name in ("xor", "subtract") and len(found) == 1:
        return zero
    if integer and op.name == "constant" and set(dict(op.attributes)[""]) <= set("{0, }"):
        return zero
    if op.name == "broadcast" and operands[0] == digest("zero", op.operands[0].type):
        return zero
    return None


def branched(op, which, *given):
    branches = [values(body, [one])[0] for body, one in zip(op.bodies, given)]
    if not isinstance(branches[0], tuple):
        return digest("conditional", said(op), which, branches)
    return tuple(digest("conditional", said(op), which, results) for results in zip(*branches))


def looped(op, given):
    """What goes round is told apart by what it starts as and, in as many turns as it has parts, by what
    becomes of it."""
    bodies = dict(zip([key for key, _ in op.attributes if key in hlo.NAMED], op.bodies))
    whole = op.results[0].type
    if not whole.is_tuple:  # one value, which is not in a tuple
        then, = values(bodies["body"], [given])
        test, = values(bodies["condition"], [digest(given, then)])
        return digest("while", test, given, then)
    now = parts(given, whole)
    for _ in now:
        then, = values(bodies["body"], [now])
        now = tuple(map(digest, now, then))
    test, = values(bodies["condition"], [now])
    return tuple(digest("while", test, one) for one in now)


def parts(given, type):
    """Those of a tuple."""
    if isinstance(given, tuple):
        return given
    return tuple(digest("part", i, given) for i in range(len(hlo.parts(type[1:-1]))))


def fused(op, operands):
    body, = op.bodies
    heavy = {inner.name for inner in body.ops if inner.name in HEAVY}
    if not heavy:
        return values(body, operands)[0]
    given, kind = [v.type for v in body.arguments], dict(op.attributes)["kind"]
    if heavy <= {"reduce", "reduce-window"} and kind != "kCustom":
        within = digest(kind, widths("".join(given)), widths(op.results[0].type))
    else:
        own = values(body, [digest("argument", type) for type in given])[0]
        within = digest(said(op), sorted(own) if isinstance(own, tuple) else own)
    return values(body, operands, (within, summed(body)))[0]


def summed(body):
    """The operations whose results go into one of HEAVY."""
    found, into = set(), set()
    for op in reversed(body.ops):
        if into & set(op.results):
            found.add(op)
        if op in found or op.name in HEAVY:
            into.update(op.operands)
    return found


def widths(shapes):
    """How many bits their numbers have."""
    return sorted({int(n or 8) for n in WIDTH.findall(shapes)})


def said(op):
    """Its attributes; of the compiler's own ones those that say how it is computed."""
    attributes = [(k, v if k != "channel_id" else "") for k, v in op.attributes if k not in SAID]
    config = dict(op.attributes).get("backend_config")
    if config and not config.startswith('{"'):  # that of a call of a library, in MLIR's attributes
        attributes.append(config)
    elif config and (op.name in HEAVY or op.name == "fusion"):
        config = json.loads(config)
        attributes.append({k: v for k, v in config.items() if k not in PLANNED})
    return sorted(map(repr, attributes))

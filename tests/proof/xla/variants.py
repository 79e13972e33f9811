# SPDX-License-Identifier: Apache-2.0
"""Changes to a program that keygen/KEYS.md 2.2 calls irrelevant, one at a time.

Each function changes a program in place, a random bit of it, and says something true if it found
anything to change. Whether the keys of before and after are equal is for the caller to see: some changes are
irrelevant in some places only (an addition's operands)."""

import re

import numpy as np

from generate import Maker
from program import FLOATS, Block, Op, Type

BARRIERS = ("stablehlo.optimization_barrier", "opt-barrier")
REDUCING = ("stablehlo.reduce", "stablehlo.sort", "stablehlo.map")
MANUAL = "sdy.manual_computation"  # takes nothing from outside
TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
COMMUTING = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def one_of(random, things):
    return things[int(random.integers(len(things)))] if things else None


def places(program):
    """(block, index, operation) of every operation."""
    return [(block, i, op) for block in program.blocks() for i, op in enumerate(block.ops)]


def uses(program, value):
    return [(op, i) for block in program.blocks() for op in block.ops
            for i, v in enumerate(op.operands) if v is value]


def inside(ops):
    """The operations, and all in their regions."""
    for op in ops:
        yield op
        for block in op.blocks():
            yield from block.ops


def needs(op):
    """The values that an operation with its regions takes from outside."""
    own = {v for block in op.blocks() for v in block.arguments}
    own.update(v for o in inside([op]) if o is not op for v in o.results)
    return [v for o in inside([op]) for v in o.operands if v not in own]


def is_distinct(op):
    """True where two of it are never one: a barrier, or what holds or calls one."""
    return any(o.name in BARRIERS or any(is_distinct(inner) for f in o.functions() for inner in f.ops)
               for o in inside([op]))


def has_effect(op):
    """True where its place among its like counts."""
    return any(o.name.removeprefix("stablehlo.").replace("-", "_") in TOGETHER or
               any(has_effect(inner) for f in o.functions() for inner in f.ops) for o in inside([op]))


def order(program, random):
    """The order of independent operations of a block."""
    block = one_of(random, [b for b in program.blocks() if len(b.ops) > 2])
    if not block:
        return False
    left, placed, result = list(block.ops[:-1]), set(), []
    own = {v for op in left for v in op.results}
    while left:
        first = next((op for op in left if has_effect(op)), None)
        ready = [op for op in left if all(v in placed for v in needs(op) if v in own)
                 and (op is first or not has_effect(op))]
        op = one_of(random, ready)
        left.remove(op)
        placed.update(op.results)
        result.append(op)
    if result == block.ops[:-1]:
        return False
    block.ops[:-1] = result
    return True


def operands(program, random):
    """The order of the operands of an operation that commutes somewhere."""
    op = one_of(random, [op for _, _, op in places(program)
                         if op.name.removeprefix("stablehlo.") in COMMUTING
                         and op.operands[0] is not op.operands[1]])
    if op:
        op.operands.reverse()
    return op and f"{op.name.removeprefix('stablehlo.')} {op.results[0].type.element}"


def duplicate(program, random):
    """An operation twice, some of its uses going to the second."""
    block, i, op = one_of(random, [p for p in places(program) if p[2].results and
                                   not is_distinct(p[2]) and not has_effect(p[2])]) or (None, 0, None)
    if not block:
        return False
    other = op.copy({})
    used = [use for v in op.results for use in uses(program, v)]
    block.ops.insert(i + 1, other)
    for user, k in used:
        if random.random() < 0.5:
            user.operands[k] = other.results[op.results.index(user.operands[k])]
    return True


def merge(program, random):
    """The second of two equal operations."""
    pairs = []
    for block in program.blocks():
        seen = {}
        for op in block.ops[:-1]:
            if op.regions or is_distinct(op) or has_effect(op) or not op.results:
                continue
            what = (op.name, tuple(op.operands), tuple(op.attributes), tuple(op.functions()),
                    tuple(v.type for v in op.results))
            if what in seen:
                pairs.append((block, seen[what], op))
            seen.setdefault(what, op)
    block, first, second = one_of(random, pairs) or (None, None, None)
    if not block:
        return False
    block.ops.remove(second)
    for of_first, of_second in zip(first.results, second.results):
        for user, k in uses(program, of_second):
            user.operands[k] = of_first
    return True


def dead(program, random):
    """Operations that nothing needs: a few more, or one less."""
    if random.random() < 0.3:
        unused = [(b, op) for b, _, op in places(program)
                  if op.results and not has_effect(op)
                  and not any(uses(program, v) for v in op.results)]
        block, op = one_of(random, unused) or (None, None)
        if block:
            block.ops.remove(op)
        return bool(block)
    function = one_of(random, program.functions)
    i = int(random.integers(len(function.ops)))
    seen = function.arguments + [v for op in function.ops[:i] for v in op.results]
    if program.kind == b"hlo":
        made = needless_hlo(function.ops[:i], seen, random)
    else:
        made = needless(program, function, seen, random)
    function.ops[i:i] = made
    return bool(made)


def needless(program, function, seen, random):
    made = Block(name="function")
    main = one_of(random, [v.type for v in seen if v.type.element in FLOATS]) or Type((8,), "f32")
    before = program.functions[:program.functions.index(function)]
    Maker(random, made, seen, before, main).steps(int(random.integers(1, 4)), 1)
    return made.ops


def needless_hlo(ops, seen, random):
    """Operations that are there already, and such as HLO names as StableHLO does."""
    made = []
    for _ in range(int(random.integers(1, 4))):
        v = one_of(random, [v for v in seen if v.type.element in FLOATS])
        op = one_of(random, [op for op in ops if not is_distinct(op)])
        if v and (not op or random.random() < 0.6):
            name = one_of(random, ("negate", "sqrt", "add", "multiply", "divide"))
            others = [v for _ in range(1 if name in ("negate", "sqrt") else 2)]
            others[-1] = one_of(random, [w for w in seen if w.type == v.type])
            made.append(Op(name, others, [v.type]))
        elif op:
            made.append(op.copy({}))
        if made:
            seen = seen + made[-1].results
    return made


def constants(program, random):
    """A constant into a region that uses it from outside, or out of it; not out of what reduces, which
    XLA takes constants into only if they are no results of calls by then."""
    found = []
    for block, i, op in places(program):
        for region in op.regions if op.name != MANUAL else ():
            for v in needs(op):
                found.append((region, v, None))
            for constant in region.ops:
                if constant.name == "stablehlo.constant" and op.name != "stablehlo.reduce":
                    found.append((region, constant, (block, op)))
    defined = {op.results[0]: op for _, _, op in places(program) if op.name == "stablehlo.constant"}
    found = [f for f in found if f[2] or f[1] in defined]
    region, what, outside = one_of(random, found) or (None, None, None)
    if not region:
        return False
    if outside:
        block, op = outside
        region.ops.remove(what)
        block.ops.insert(block.ops.index(op), what)
        return True
    own = defined[what].copy({})
    used = [(op, k) for op in inside(region.ops) for k, v in enumerate(op.operands) if v is what]
    region.ops.insert(0, own)
    for op, k in used:
        op.operands[k] = own.results[0]
    return bool(used)


def inline(program, random):
    """A call, by what it calls."""
    block, i, call = one_of(random, [p for p in places(program) if p[2].callee]) or (None, 0, None)
    if not block:
        return False
    values = dict(zip(call.callee.arguments, call.operands))
    body = [op.copy(values) for op in call.callee.ops]
    block.ops[i:i + 1] = body[:-1]
    for v, result in zip(call.results, body[-1].operands):
        for user, k in uses(program, v):
            user.operands[k] = result
    return True


def outline(program, random):
    """Some operations that follow each other, by a call of a new function. Not in what reduces: XLA
    crashes (jaxlib 0.10.2) on a reduction that nothing needs and that calls something."""
    bodies = {b for _, _, op in places(program) if op.name in REDUCING
              for b in op.regions}
    block = one_of(random, [b for b in program.blocks() if len(b.ops) > 2 and b not in bodies])
    if not block:
        return False
    first = int(random.integers(len(block.ops) - 1))
    last = min(first + int(random.integers(1, 8)), len(block.ops) - 1)
    ops = block.ops[first:last]
    own = {v for op in ops for v in op.results}
    given = list(dict.fromkeys(v for op in ops for v in needs(op) if v not in own))
    body = set(inside(ops))
    taken = [v for op in ops for v in op.results
             if any(user not in body for user, _ in uses(program, v))]
    if not taken:
        return False
    if random.random() < 0.5:
        random.shuffle(given)
    function = Block([v.type for v in given], "function")
    values = dict(zip(given, function.arguments))
    function.ops = [op.copy(values) for op in ops]
    function.ops.append(Op("func.return", [values[v] for v in taken], []))
    call = Op("func.call", given, [v.type for v in taken], callee=function)
    later = [use for v in taken for use in uses(program, v) if use[0] not in body]
    for user, k in later:
        user.operands[k] = call.results[taken.index(user.operands[k])]
    block.ops[first:last] = [call]
    program.functions.insert(last_called(program, function) + 1, function)
    return True


def calls(program):
    """The calls of each function that nothing else names."""
    found, named = {}, set()
    for _, _, op in places(program):
        named.update(op.bodies)
        if op.callee:
            found.setdefault(op.callee, []).append(op)
    return {function: them for function, them in found.items() if function not in named}


def signature(program, random):
    """The order of a function's arguments and of its results."""
    if program.kind == b"hlo":
        return False
    of = calls(program)
    function = one_of(random, [f for f in of if len(f.arguments) + len(f.ops[-1].operands) > 2])
    if not function:
        return False
    last = function.ops[-1]
    inputs, outputs = random.permutation(len(function.arguments)), random.permutation(len(last.operands))
    function.arguments = [function.arguments[i] for i in inputs]
    last.operands = [last.operands[i] for i in outputs]
    for call in of[function]:
        call.operands = [call.operands[i] for i in inputs]
        call.results = [call.results[i] for i in outputs]
    return True


def twin(program, random):
    """A call of a function, by one of another that is the same."""
    of = calls(program)
    function = one_of(random, [f for f in of if len(of[f]) > 1])
    if not function:
        return False
    other = function.copy({})
    one_of(random, of[function]).callee = other
    program.functions.insert(program.functions.index(function) + 1, other)
    return True


def last_called(program, function):
    """The place of the last function that this one calls."""
    callees = {f for op in inside(function.ops) for f in op.functions()}
    return max((i for i, f in enumerate(program.functions) if f in callees), default=-1)


def axes(program, random):
    """The names of the axes that devices stand along."""
    names = ("x", "y", "a", "z", "data", "_1")
    program.axes = tuple(str(name) for name in random.permutation(names)[:len(program.axes)])
    return program.partitions > 1 and program.shardy


def channels(program, random):
    """The numbers of channels."""
    numbers = random.permutation(np.arange(1, 99))
    found = {}

    def other(match):
        return f"handle = {found.setdefault(match[1], numbers[len(found)])},"
    for _, _, op in places(program):
        op.attributes = [(k, re.sub(r"handle = (\d+),", other, v) if k == "channel_handle" else v)
                         for k, v in op.attributes]
    return bool(found)


CHANGES = (order, operands, duplicate, merge, dead, constants, inline, outline, signature, twin, axes,
           channels)


def changed(program, random, change):
    """A copy with that change, where the values of the program are in it, and what the change is in
    words; or three times None."""
    values = {}
    other = program.copy(values)
    said = change(other, random)
    if not said:
        return None, None, None
    return other, values, change.__name__ if said is True else f"{change.__name__} of {said}"

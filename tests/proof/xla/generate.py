# SPDX-License-Identifier: Apache-2.0
"""Random StableHLO programs: what a compiler may rewrite, in every company.

A program keeps to few types, so that what it computes meets itself: products in sums, exponentials
in products, constants beside constants, the same thing twice. Bits of a NaN show nowhere but in a
result, where they do not count: what is cast to an integer bit by bit has none."""

import numpy as np

from library import TINY, Library
from program import COMPLEX, DTYPES, FLOATS, INTEGERS, Block, Op, Program, Type, ints, literal

SHAPES = ((33,), (8,), (5, 7), (2, 3, 4), (1,), (), (4, 1), (64,), (3, 16), (1024,), (64, 128),
          (4, 1000))
UNARY = ("exponential",) * 4 + (
    "log", "tanh", "sqrt", "rsqrt", "negate", "negate", "abs", "floor", "logistic", "sine", "cosine",
    "cbrt", "exponential_minus_one", "log_plus_one", "sign", "ceil", "round_nearest_even", "tan")
BINARY = ("add",) * 8 + ("multiply",) * 8 + ("subtract",) * 4 + ("divide",) * 3 + (
    "maximum", "minimum", "power", "remainder", "atan2")
INTEGER_BINARY = ("add", "add", "multiply", "multiply", "subtract", "maximum", "minimum", "and", "or",
                  "xor", "divide", "remainder", "shift_left", "shift_right_logical")
COMPLEX_BINARY = ("add", "add", "multiply", "multiply", "subtract", "divide")
COMPLEX_UNARY = ("exponential", "log", "negate", "tanh", "sqrt")
# What algebra joins: products and quotients, powers and exponentials, constants and scalars.
ALGEBRA = ("add",) * 6 + ("multiply",) * 6 + ("subtract", "subtract", "divide", "divide", "power")
ALGEBRA_UNARY = ("exponential", "exponential", "negate", "abs", "sqrt", "rsqrt", "log")
BITS = {"f64": "i64", "f32": "i32"}


def specials(type):
    """Numbers of a type that compilers treat in a way of their own."""
    if type.element in FLOATS:
        info = np.finfo(np.float32) if type.element == "bf16" else np.finfo(DTYPES[type.element])
        return [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -2.0, 3.0, np.inf, -np.inf, np.nan, float(info.tiny),
                float(info.tiny) / 4, float(info.max), float(info.eps), 1 / 3, 0.1]
    return [0, 1, 2, 3, 7, 5 if type.element in TINY else 100]


def numbers(random, type):
    """An array of a type: plain numbers, of one size or many, with special ones among them or not."""
    shape = type.shape
    if type.element == "i1":
        return random.integers(0, 2, shape).astype(bool)
    if type.element in INTEGERS:
        return random.integers(0, random.choice([3, 100]), shape).astype(DTYPES[type.element])
    plain = random.standard_normal(shape) * random.choice([0.25, 1.0, 1.0, 4.0])
    if random.random() < 0.3:
        plain = np.abs(plain)
    if type.element in COMPLEX:
        plain = plain + 1j * random.standard_normal(shape)
    elif random.random() < 0.25:
        chosen = random.random(shape) < 0.2
        plain = np.where(chosen, random.choice(specials(type), shape), plain)
    with np.errstate(over="ignore"):
        return np.asarray(plain).astype(DTYPES[type.element])


class Maker(Library):
    """Makes the operations of one block; `seen` is what it may use, its own values and those around
    it."""

    def __init__(self, random, block, seen, functions, main):
        self.random, self.block, self.functions, self.main = random, block, functions, main
        self.seen = list(seen) + block.arguments

    # ---- values ----

    def one_of(self, *things):
        return things[int(self.random.integers(len(things)))]

    def chance(self, p):
        return self.random.random() < p

    def add(self, op):
        self.block.ops.append(op)
        self.seen.extend(op.results)
        return op.results[0] if op.results else None

    def do(self, name, operands, type, attributes=(), regions=()):
        return self.add(Op("stablehlo." + name, operands, [type], attributes, regions))

    def value(self, type, reuse=0.9):
        """Some value of that type, made where there is none."""
        fitting = [v for v in self.seen if v.type == type]
        if fitting and self.chance(reuse):
            recent = fitting[-6:] if self.chance(0.7) else fitting
            return self.one_of(*recent)
        others = [v for v in self.seen if v.type.shape == type.shape and v.type.element != "i1"
                  and v.type.element in FLOATS + INTEGERS]
        scalars = [v for v in self.seen if v.type == Type((), type.element)]
        if others and type.element in FLOATS + INTEGERS and self.chance(0.3):
            return self.do("convert", [self.one_of(*others)], type)
        if scalars and type.rank and self.chance(0.4):
            return self.broadcast(self.one_of(*scalars), type)
        return self.constant(type)

    def constant(self, type):
        if type.element == "i1":
            return self.add(literal(type, self.chance(0.5)))
        if not type.rank or self.chance(0.7):
            array = self.one_of(*specials(type)) if self.chance(0.5) else numbers(
                self.random, Type((), type.element))
        else:
            array = numbers(self.random, type)
        if type.rank and np.size(array) == 1 and self.chance(0.5):
            return self.broadcast(self.add(literal(Type((), type.element), array)), type)
        return self.add(literal(type, array))

    def broadcast(self, value, type):
        return self.do("broadcast_in_dim", [value], type, [("broadcast_dimensions", ints(
            range(type.rank - value.type.rank, type.rank)))])

    def type(self):
        """Mostly the type that the program is about."""
        if self.chance(0.75):
            return self.main
        if self.chance(0.5):
            return self.main.of(self.one_of("i32", "i1", "ui8", "f32"))
        return self.one_of(*self.seen).type if self.seen else self.main

    # ---- operations ----

    def step(self, depth):
        makers = [self.elementwise] * 22 + [self.move] * 6 + [self.choose] * 2 + [
            self.constants, self.again, self.again, self.late, self.convert, self.reduce, self.reduce,
            self.dot, self.barrier, self.bits, self.call, self.call, self.call, self.mixed_call] + [
            self.library] * 6
        if depth:
            makers += [self.loop, self.branch, self.branch]
        self.one_of(*makers)(depth)

    def elementwise(self, _):
        t = self.type()
        e = t.element
        binary = (BINARY if e in FLOATS else INTEGER_BINARY if e in INTEGERS else
                  COMPLEX_BINARY if e.startswith("c") else ("and", "or", "xor") if e == "i1" else
                  ("add", "multiply", "maximum"))
        if e in FLOATS and self.chance(0.3):
            return self.do(self.one_of(*UNARY), [self.value(t)], t)
        if e.startswith("c") and self.chance(0.2):
            return self.do(self.one_of(*COMPLEX_UNARY), [self.value(t)], t)
        name, left, right = self.one_of(*binary), self.value(t), self.value(t)
        if e in INTEGERS and name in ("divide", "remainder"):  # XLA crashes on a constant 0
            right = self.do("or", [right, self.add(literal(t, 1))], t)
        return self.do(name, [left, right], t)

    def constants(self, _):
        self.constant(self.type())

    def again(self, _):
        """An operation that is there already, once more."""
        there = [op for op in self.block.ops if op.results and op.callee is None
                 and op.name != "stablehlo.optimization_barrier"]
        if there:
            self.add(self.one_of(*there).copy({}))

    def late(self, _):
        """Constant, and not a constant as it is written: made of constants alone or not even that."""
        t = self.main if self.main.element in FLOATS else self.main.of("f32")
        c = self.add(literal(t, numbers(self.random, t)))
        how = self.one_of("sort", "power", "reduce", "plain", "while", "root", "none", "chosen")
        if how == "sort" and t.rank:
            body = Block([Type((), t.element)] * 2)
            lt = Op("stablehlo.compare", body.arguments, [Type((), "i1")],
                    [("comparison_direction", "#stablehlo<comparison_direction LT>")])
            body.ops = [lt, Op("stablehlo.return", lt.results, [])]
            return self.do("sort", [c], t, [("dimension", f"{t.rank - 1} : i64")], [body])
        if how == "reduce" and t.rank:
            return self.spread(self.fold(c, "add"), t)
        if how == "power":
            return self.do("power", [c, self.constant(t)], t)
        if how == "root":
            splat = self.add(literal(t, self.one_of(*specials(t))))
            return self.do(self.one_of("cbrt", "log_plus_one", "tanh", "logistic"), [splat], t)
        if how == "none":
            return self.do("power", [self.value(t), self.add(literal(t, 0.0))], t)
        if how == "chosen":
            i = self.value(t.of("i32"))
            never = self.do("compare", [i, i], t.of("i1"), [
                ("comparison_direction", "#stablehlo<comparison_direction NE>")])
            return self.do("select", [never, self.value(t), c], t)
        return self.do(self.one_of("add", "multiply", "subtract"), [c, self.constant(t)], t)

    def spread(self, value, type):
        """A value of fewer dimensions over all of a type's, the last ones left out."""
        return self.do("broadcast_in_dim", [value], type,
                       [("broadcast_dimensions", ints(range(value.type.rank)))])

    def convert(self, _):
        t = self.type()
        if t.element in FLOATS + INTEGERS:
            element = self.one_of("f32", "f16", "bf16", "i32", "f64", "i1", "ui8", "i8", "i64")
            narrow = self.do("convert", [self.value(t)], t.of(element))
            if self.chance(0.6):
                self.do("convert", [narrow], t)

    def choose(self, _):
        t = self.type()
        if t.element.startswith("c") or t.element == "i1":
            return None
        if self.chance(0.3):
            return self.do("clamp", [self.value(t), self.value(t), self.value(t)], t)
        if self.chance(0.7):
            p = self.do("compare", [self.value(t), self.value(t)], t.of("i1"),
                        [("comparison_direction", "#stablehlo<comparison_direction "
                          + self.one_of("EQ", "NE", "LT", "LE", "GT", "GE") + ">")])
        else:
            p = self.value(t.of("i1"))
        return self.do("select", [p, self.value(t), self.value(t)], t)

    def move(self, _):
        ranked = [v for v in self.seen if v.type.rank and all(v.type.shape)]
        if not ranked:
            return None
        v = self.one_of(*ranked[-8:])
        t, shape = v.type, v.type.shape
        how = self.one_of("reshape", "transpose", "slice", "reverse", "pad", "concatenate", "iota",
                          "broadcast", "reshape")
        if how == "reshape":
            flat = t.shaped(int(np.prod(shape)))
            there = self.do("reshape", [v], flat)
            return self.do("reshape", [there], t) if self.chance(0.5) else there
        if how == "transpose":
            order = [int(i) for i in self.random.permutation(t.rank)]
            return self.do("transpose", [v], t.shaped(*(shape[i] for i in order)),
                           [("permutation", ints(order))])
        if how == "reverse":
            return self.do("reverse", [v], t, [("dimensions", ints([t.rank - 1]))])
        if how == "iota":
            if t.element == "i1":
                return None
            return self.do("iota", [], t, [("iota_dimension", f"{t.rank - 1} : i64")])
        if how == "broadcast":
            lower = self.value(t.shaped(*shape[1:]))
            return self.broadcast(lower, t)
        first = int(self.random.integers(0, shape[-1]))
        lows = [0] * (t.rank - 1)
        part = self.do("slice", [v], t.shaped(*shape[:-1], shape[-1] - first),
                       [("start_indices", ints(lows + [first])), ("limit_indices", ints(shape)),
                        ("strides", ints([1] * t.rank))])
        if how == "pad":
            return self.do("pad", [part, self.value(Type((), t.element))], t,
                           [("edge_padding_low", ints(lows + [first])),
                            ("edge_padding_high", ints([0] * t.rank)),
                            ("interior_padding", ints([0] * t.rank))])
        if how == "concatenate" and first:
            rest = self.do("slice", [self.value(t)], t.shaped(*shape[:-1], first),
                           [("start_indices", ints([0] * t.rank)),
                            ("limit_indices", ints(list(shape[:-1]) + [first])),
                            ("strides", ints([1] * t.rank))])
            return self.do("concatenate", [part, rest], t, [("dimension", f"{t.rank - 1} : i64")])
        return part

    def fold(self, value, how):
        """A reduction of the last dimension."""
        t = value.type
        scalar = Type((), t.element)
        body = Block([scalar] * 2)
        maker = Maker(self.random, body, [], [], scalar)
        a, b = body.arguments if self.chance(0.5) else body.arguments[::-1]
        if how == "product of sums":
            b = maker.do("multiply", [b, maker.constant(scalar)], scalar)
            how = "add"
        elif how == "sum of squares":
            b = maker.do("multiply", [b, b], scalar)
            how = "add"
        if how == "sums":
            maker.sums(int(self.random.integers(1, 6)))
            how, b = "add", maker.value(scalar, 1.0)
        result = maker.do(how, [a, b] if self.chance(0.5) else [b, a], scalar)
        body.ops.append(Op("stablehlo.return", [result], []))
        start = self.value(scalar, 0.3)
        return self.do("reduce", [value, start], t.shaped(*t.shape[:-1]),
                       [("dimensions", ints([t.rank - 1]))], [body])

    def reduce(self, _):
        t = self.type()
        if not t.rank or t.element == "i1" or t.element.startswith("c"):
            return
        how = self.one_of("add", "add", "add", "multiply", "maximum", "minimum", "product of sums",
                          "sum of squares", "sums", "sums")
        folded = self.fold(self.value(t), how)
        if self.chance(0.6):
            self.spread(folded, t)

    def dot(self, _):
        """A matrix product, often over one element."""
        t = self.main
        if t.element not in FLOATS or not t.rank:
            return
        inner = self.one_of(1, 1, 1, 2, 5)
        n = t.shape[-1]
        a, b = self.value(t.shaped(n, inner), 0.5), self.value(t.shaped(inner, n), 0.5)
        product = self.do("dot_general", [a, b], t.shaped(n, n),
                          [("dot_dimension_numbers", "#stablehlo.dot<lhs_contracting_dimensions = [1], "
                            "rhs_contracting_dimensions = [0]>")])
        if self.chance(0.7):
            self.do("add", [product, self.value(t.shaped(n, n), 0.6)], t.shaped(n, n))

    def barrier(self, _):
        values = [self.value(self.type()) for _ in range(self.one_of(1, 2))]
        self.add(Op("stablehlo.optimization_barrier", values, [v.type for v in values]))

    def bits(self, _):
        """The bits of numbers none of which is a NaN, and back."""
        t = self.main
        if t.element not in BITS:
            return
        v = self.value(t)
        real = self.do("compare", [v, v], t.of("i1"),
                       [("comparison_direction", "#stablehlo<comparison_direction EQ>")])
        v = self.do("select", [real, v, self.add(literal(t, 1.0))], t)
        i = self.do("bitcast_convert", [v], t.of(BITS[t.element]))
        if self.chance(0.5):
            self.do("bitcast_convert", [i], t)

    # ---- functions and regions ----

    def call(self, _):
        if self.functions:
            function = self.one_of(*self.functions)
            self.add(Op("func.call", [self.value(v.type) for v in function.arguments],
                        [v.type for v in function.ops[-1].operands], callee=function))

    def mixed_call(self, depth):
        """A function of what is in it already, called twice."""
        self.call(depth)
        self.call(depth)

    def inside(self, types, results, depth, size):
        """A region with these arguments that gives values of these types."""
        block = Block(types)
        maker = Maker(self.random, block, self.seen, self.functions, self.main)
        maker.steps(int(self.random.integers(1, size)), depth - 1)
        block.ops.append(Op("stablehlo.return", [maker.value(t, 1.0) for t in results], []))
        return block

    def branch(self, depth):
        types = [self.type() for _ in range(self.one_of(1, 1, 2))]
        if self.chance(0.5):
            index, name, n = self.value(Type((), "i1")), "stablehlo.if", 2
        else:
            index, name, n = self.value(Type((), "i32")), "stablehlo.case", self.one_of(1, 2, 3)
        regions = [self.inside([], types, depth, 6) for _ in range(n)]
        self.add(Op(name, [index], types, regions=regions))

    def loop(self, depth):
        """A number of turns that is known or not; what goes round is of the main type."""
        counter, flag = Type((), "i32"), Type((), "i1")
        types = [counter] + [self.main] * self.one_of(1, 1, 2, 2, 6)
        condition = Block(types)
        limit = literal(counter, self.one_of(0, 1, 2, 5))
        if self.chance(0.5):
            condition.ops.append(limit)
        else:
            self.add(limit)
        test = Op("stablehlo.compare", [condition.arguments[0], limit.results[0]], [flag],
                  [("comparison_direction", "#stablehlo<comparison_direction LT>")])
        condition.ops += [test, Op("stablehlo.return", test.results, [])]
        body = Block(types)
        maker = type(self)(self.random, body, self.seen, self.functions, self.main)
        maker.steps(int(self.random.integers(1, 8)), depth - 1)
        one = maker.add(literal(counter, 1))
        turn = maker.do("add", [body.arguments[0], one], counter)
        carried = [maker.value(t, 1.0) for t in types[1:]]
        if self.chance(0.3):  # some go on as they are, or change places
            carried[1:] = body.arguments[2:]
            self.random.shuffle(carried)
        body.ops.append(Op("stablehlo.return", [turn] + carried, []))
        start = self.add(literal(counter, 0))
        self.add(Op("stablehlo.while", [start] + [self.value(t) for t in types[1:]], types,
                    regions=[condition, body]))

    def steps(self, n, depth):
        for _ in range(n):
            self.step(depth)

    def algebra(self, n):
        """Sums, products and the like of few values of one type."""
        t = self.main
        for _ in range(n):
            if self.chance(0.2):
                self.do(self.one_of(*ALGEBRA_UNARY), [self.value(t)], t)
            elif self.chance(0.1):
                self.one_of(self.late, self.constants, self.move, self.again, self.call)(0)
            else:
                self.do(self.one_of(*ALGEBRA), [self.value(t, 0.8), self.value(t, 0.8)], t)


    def sums(self, n):
        """Sums mostly, of what a compiler is free to take apart in a reduction."""
        for _ in range(n):
            name = self.one_of("add", "add", "add", "add", "subtract", "multiply", "maximum")
            self.do(name, [self.value(self.main), self.value(self.main)], self.main)


def generate(random):
    """A program drawn by a numpy.random.Generator."""
    def one_of(*things):
        return things[int(random.integers(len(things)))]

    if random.random() < 0.4:
        main = Type(one_of((33,), (8,), (5, 7), ()), one_of(*["f32"] * 6, "f64", "bf16", "f16"))
        functions = [function(random, [], main, 4, ALGEBRA_DEPTH)] * one_of(0, 0, 1)
        return Program(functions + [function(random, functions, main, 14, ALGEBRA_DEPTH, True)])
    element = one_of(*["f32"] * 12, "f64", "f64", "f16", "bf16", "bf16", "i32", "complex<f32>")
    main = Type(one_of(*SHAPES), element)
    functions = []
    for _ in range(one_of(0, 1, 2, 3)):
        functions.append(function(random, functions, main, 8, one_of(0, 0, 1)))
    return Program(functions + [function(random, functions, main, 40, 2, True)])


ALGEBRA_DEPTH = -1


def function(random, functions, main, size, depth, public=False, by=Maker):
    """A function of at most `size` steps, with regions in one another to that depth."""
    types = [main] * int(random.integers(1, 5))
    if public:
        types += [Type((), main.element), main.of("i32"), Type((), "i32"), Type((), "i1")]
    elif random.random() < 0.3:
        types.append(Type((), main.element))
    block = Block(types, "function")
    maker = by(random, block, [], functions, main)
    if depth == ALGEBRA_DEPTH:
        maker.algebra(int(random.integers(2, size + 1)))
    else:
        maker.steps(int(random.integers(1, size + 1)), depth)
    made = [v for op in block.ops for v in op.results
            if v.type.element != "i1" and (v.type.rank or not main.rank or maker.chance(0.5))]
    results = made[-1:] or block.arguments[:1]
    for _ in range(maker.one_of(0, 1, 3) if public else maker.one_of(0, 0, 1)):
        results.append(maker.one_of(*made or block.arguments))
    if public and maker.chance(0.1):
        maker.one_of(*block.arguments).said = "jax.buffer_donor = true"
    if public and maker.chance(0.1):
        results.append(maker.one_of(*block.arguments, results[0]))
    block.ops.append(Op("func.return", results, []))
    return block

# SPDX-License-Identifier: Apache-2.0
"""Random FX graphs of aten's operations on the CPU, and changes to them that keygen/KEYS.md 8 calls
irrelevant."""

import operator
import random as randomness

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
TYPES = FLOATS + (torch.int64, torch.int32)
SIZES = (1, 2, 3, 5, 8, 16, 17, 33, 64, 128)
COMMUTING = (aten.add.Tensor, aten.mul.Tensor)
SWAPPED = COMMUTING + (operator.add, operator.mul, torch.add, torch.mul)
BINARY = COMMUTING * 3 + (aten.sub.Tensor, aten.maximum.default, aten.minimum.default)
UNARY = (aten.sin.default, aten.exp.default, aten.tanh.default, aten.sigmoid.default, aten.relu.default,
         aten.neg.default, aten.abs.default, aten.sqrt.default, aten.rsqrt.default, aten.log1p.default,
         aten.erf.default, aten.floor.default, aten.gelu.default, aten.silu.default,
         aten.reciprocal.default, aten.expm1.default, aten.detach.default, aten.clone.default)
INTEGER_UNARY = (aten.neg.default, aten.abs.default, aten.bitwise_not.default, aten.clone.default)
ALIKE = 0.6  # of the programs: arithmetic on tensors of one type that lie row by row
LIBRARY = 0.5  # of the others: with matrix products and what compilers look for around them


class Unfit(Exception):
    """The program is none that this proof can do."""


class Value:
    """Of an input also how it lies in memory and its name, if they count."""

    def __init__(self, shape, dtype, stride=None, name=None):
        self.shape, self.dtype, self.stride, self.name = tuple(shape), dtype, stride, name

    def empty(self):
        if self.stride is None:
            return torch.empty(self.shape, dtype=self.dtype)
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype)


def every(tree, f):
    """Arguments with f of each value in place of the value."""
    return _pytree.tree_map(lambda v: f(v) if isinstance(v, Value) else v, tree)


class Statement:
    """A call of a function, or of a method, of which the name is given."""

    def __init__(self, result, operation, arguments, named=None):
        self.result, self.operation = result, operation
        self.arguments, self.named = list(arguments), named or {}

    def operands(self):
        return [v for v in _pytree.tree_leaves((self.arguments, self.named)) if isinstance(v, Value)]


class Program:
    def __init__(self, inputs, statements, results):
        self.inputs, self.statements, self.results = inputs, statements, results

    def changed(self, statements):
        return Program(self.inputs, statements, self.results)

    def module(self):
        """As the GraphModule that a compiler takes."""
        graph, nodes = torch.fx.Graph(), {}
        for i, v in enumerate(self.inputs):
            nodes[v] = graph.placeholder(v.name or f"arg{i}_1")
        for s in self.statements:
            call = graph.call_method if isinstance(s.operation, str) else graph.call_function
            nodes[s.result] = call(s.operation, tuple(every(s.arguments, nodes.get)),
                                   every(s.named, nodes.get))
        graph.output(tuple(every(self.results, nodes.get)))
        module = torch.fx.GraphModule(torch.nn.Module(), graph)
        FakeTensorProp(module, FakeTensorMode()).propagate(*[v.empty() for v in self.inputs])
        return module

    def text(self):
        return self.module().print_readable(print_output=False, include_stride=True,
                                            include_device=True)


def read(module):
    """A graph of functions and methods alone, as Program."""
    inputs, statements, values = [], [], {}

    def known(tree):
        return torch.fx.node.map_arg(tree, values.get)

    for node in module.graph.nodes:
        if node.op == "placeholder":
            like = node.meta["val"] if "val" in node.meta else node.meta["example_value"]
            if not isinstance(like, torch.Tensor):
                raise Unfit  # a size
            values[node] = Value(like.shape, like.dtype, like.stride(), node.name)
            inputs.append(values[node])
        elif node.op in ("call_function", "call_method"):
            values[node] = Value((), None)
            statements.append(Statement(values[node], node.target, known(node.args), known(node.kwargs)))
        elif node.op != "output":
            raise Unfit  # a constant, or a graph inside
    return Program(inputs, statements, list(known(node.args[0])))


def fill(values, draw):
    """Numbers for inputs."""
    generator = torch.Generator().manual_seed(draw)
    made = []
    for v in values:
        if v.dtype.is_floating_point:
            size = 10.0 if draw % 3 == 1 else 1.0
            made.append((torch.randn(v.shape, generator=generator) * size).to(v.dtype))
        else:
            made.append(torch.randint(-5, 100, v.shape, generator=generator).to(v.dtype))
    return made


class Maker:
    """Keeps to one type and one shape, mostly, so that what it makes meets itself. What is `alike` is what
    may change most: KEYS.md 8."""

    def __init__(self, random):
        self.random = random
        self.dtype = random.choice(TYPES)
        self.shape = tuple(random.choice(SIZES) for _ in range(random.choice((1, 2, 2, 2, 3))))
        self.real = self.dtype in FLOATS
        self.alike = random.random() < ALIKE
        self.library = not self.alike and self.real and len(self.shape) > 1 and random.random() < LIBRARY
        if self.library and random.random() < 0.7:
            self.shape = (2, 3) + self.shape[-2:]  # which attention has
        self.inputs = [Value(self.shape, self.dtype) for _ in range(random.randint(1, 4))]
        for shape in (self.shape[-1:], self.shape[:-1] + (1,)):
            if random.random() < 0.3:
                self.inputs.append(Value(shape, self.dtype))
        self.seen, self.statements = list(self.inputs), []

    def program(self):
        n = self.random.choice((3, 6, 10, 16, 25, 40))
        while len(self.statements) < n:
            self.step()
        used = {v for s in self.statements for v in s.operands()}
        leaves = [s.result for s in self.statements if s.result not in used]
        self.random.shuffle(leaves)
        return Program(self.inputs, self.statements, leaves[:self.random.randint(1, 6)])

    # ---- values ----

    def input(self, *shape):
        self.inputs.append(Value(shape, self.dtype))
        return self.inputs[-1]

    def do(self, operation, arguments, shape=None, dtype=None, **named):
        result = Value(self.shape if shape is None else shape, dtype or self.dtype)
        self.statements.append(Statement(result, operation, arguments, named))
        self.seen.append(result)
        return result

    def value(self):
        """One of the shape and type that the program is about."""
        return self.recent([v for v in self.seen if (v.shape, v.dtype) == (self.shape, self.dtype)])

    def fitting(self):
        """One that is broadcast to that shape."""
        def fits(shape):
            return len(shape) <= len(self.shape) and all(
                n in (1, m) for n, m in zip(shape[::-1], self.shape[::-1]))
        return self.recent([v for v in self.seen if v.dtype == self.dtype and fits(v.shape)])

    def recent(self, values):
        return self.random.choice(values[-6:] if self.random.random() < 0.7 else values)

    def pair(self, operation, a, b, shape=None):
        """Of two operands in one order or the other."""
        return self.do(operation, [a, b] if self.random.random() < 0.5 else [b, a], shape)

    # ---- operations ----

    def step(self):
        steps = [self.binary] * 8 + [self.number] * 2 + [self.unary] * 4 + [self.reduce] * 3 + [self.choose]
        if not self.alike:
            steps += [self.turn, self.flat, self.join]
        if self.real and not self.alike:
            steps += [self.convert]
        if self.library:
            steps += [self.attention] * 4 + [self.linear, self.linear, self.gelu, self.normalize,
                                             self.softmax, self.softmax]
        self.random.choice(steps)()

    def binary(self):
        self.pair(self.random.choice(BINARY + (aten.div.Tensor,) * self.real), self.value(),
                  self.fitting())

    def number(self):
        numbers = (0.0, 1.0, 2.0, 0.5, -1.0, 3.1, -0.0, 1e-5, 2) if self.real else (0, 1, 2, -1, 3)
        self.do(self.random.choice(BINARY[:2] + (aten.sub.Tensor,)),
                [self.value(), self.random.choice(numbers)])

    def unary(self):
        self.do(self.random.choice(UNARY if self.real else INTEGER_UNARY), [self.value()])

    def reduce(self):
        axes = self.random.choice([[len(self.shape) - 1], [0], list(range(len(self.shape)))])
        shape = [1 if i in axes else n for i, n in enumerate(self.shape)]
        how = self.random.choice((aten.sum.dim_IntList, aten.sum.dim_IntList,
                                  *(() if self.alike else (aten.amax.default,)),
                                  *((aten.mean.dim, aten.var.correction) if self.real else ())))
        named = {"dtype": self.dtype} if how is aten.sum.dim_IntList else {}
        if how is aten.var.correction:
            self.do(how, [self.value(), axes], shape, correction=0, keepdim=True)
        else:
            self.do(how, [self.value(), axes, True], shape, **named)
        if self.random.random() < 0.4:
            self.do(aten.expand.default, [self.seen[-1], list(self.shape)])

    def choose(self):
        how = self.random.choice((aten.gt.Tensor, aten.eq.Tensor, aten.le.Tensor))
        test = self.do(how, [self.value(), self.value()], dtype=torch.bool)
        self.do(aten.where.self, [test, self.value(), self.value()])

    def turn(self):
        order = list(range(len(self.shape)))
        self.random.shuffle(order)
        shape = [self.shape[i] for i in order]
        a, b = (self.do(aten.permute.default, [self.value(), order], shape) for _ in range(2))
        turned = self.pair(self.random.choice(BINARY), a, b, shape)
        self.do(aten.permute.default, [turned, [order.index(i) for i in range(len(order))]])

    def flat(self):
        size = torch.Size(self.shape).numel()
        flat = self.do(aten.reshape.default, [self.value(), [size]], [size])
        if self.real and self.random.random() < 0.3:
            flat = self.do(aten.cumsum.default, [flat, 0], [size])
        self.do(aten.reshape.default, [flat, list(self.shape)])

    def join(self):
        axis = self.random.randrange(len(self.shape))
        n = self.shape[axis]
        start = self.random.randint(0, n)
        whole = self.do(aten.cat.default, [[self.value(), self.value()], axis],
                        [m * 2 if i == axis else m for i, m in enumerate(self.shape)])
        self.do(aten.slice.Tensor, [whole, axis, start, start + n])

    def convert(self):
        other = self.random.choice(FLOATS)
        wide = self.do(torch.ops.prims.convert_element_type.default, [self.value(), other], dtype=other)
        wide = self.do(self.random.choice(COMMUTING), [wide, wide], dtype=other)
        self.do(torch.ops.prims.convert_element_type.default, [wide, self.dtype])

    # ---- what compilers look for ----

    def attention(self):
        q, k, v = self.value(), self.value(), self.value()
        *lead, m, n = self.shape
        square = (*lead, m, m)
        turned = self.do(aten.permute.default, [k, [*range(len(lead)), len(lead) + 1, len(lead)]],
                         (*lead, n, m))
        if self.random.random() < 0.3:
            q = self.do(aten.mul.Tensor, [q, self.random.choice((0.5, 0.125))])
        scores = self.do(aten.matmul.default, [q, turned], square)
        if self.random.random() < 0.6:
            scores = self.do(self.random.choice((aten.div.Tensor, aten.mul.Tensor)),
                             [scores, self.random.choice((2.0, 0.5, 8.0))], square)
        if self.random.random() < 0.7:
            scores = self.pair(aten.add.Tensor, scores, self.input(*square), square)
        scores = self.do(aten._softmax.default, [scores, -1, False], square)
        self.do(aten.matmul.default, [scores, v])

    def linear(self):
        n = self.shape[-1]
        w, bias = self.input(n, n), self.input(n)
        if self.random.random() < 0.3:
            product = self.do(aten.linear.default, [self.value(), w, bias])
        else:
            product = self.do(aten.matmul.default, [self.value(), w])
            other = bias if self.random.random() < 0.6 else self.do(
                aten.matmul.default, [self.value(), w])
            product = self.pair(self.random.choice(BINARY), product, other)
        if self.random.random() < 0.5:
            self.pair(self.random.choice(COMMUTING), product, self.value())

    def gelu(self):
        x = self.value()
        half = self.do(aten.mul.Tensor, [x, 0.5])
        inner = self.do(aten.erf.default, [self.do(aten.mul.Tensor, [x, 0.7071067811865476])])
        self.pair(aten.mul.Tensor, half, self.do(aten.add.Tensor, [inner, 1]))

    def normalize(self):
        x, last = self.value(), (*self.shape[:-1], 1)
        off = self.do(aten.sub.Tensor, [x, self.do(aten.mean.dim, [x, [-1], True], last)])
        mean = self.do(aten.mean.dim, [self.do(aten.mul.Tensor, [off, off]), [-1], True], last)
        mean = self.do(aten.add.Tensor, [mean, 1e-5], last)
        normal = self.pair(aten.mul.Tensor, off, self.do(aten.rsqrt.default, [mean], last))
        if self.random.random() < 0.7:
            scaled = self.pair(aten.mul.Tensor, normal, self.input(self.shape[-1]))
            self.pair(aten.add.Tensor, scaled, self.input(self.shape[-1]))

    def softmax(self):
        x, last = self.value(), (*self.shape[:-1], 1)
        if self.random.random() < 0.3:
            self.do(aten._softmax.default, [x, self.random.randrange(len(self.shape)), False])
            return
        if self.random.random() < 0.7:
            x = self.pair(aten.mul.Tensor, x, self.fitting())
        top = self.do(aten.amax.default, [x, [-1], True], last)
        x = self.do(aten.exp.default, [self.do(aten.sub.Tensor, [x, top])])
        self.do(aten.div.Tensor, [x, self.do(aten.sum.dim_IntList, [x, [-1], True], last)])


def generate(seed):
    return Maker(randomness.Random(seed)).program()


# ---- changes: each gives the statements anew ----

def order(statements, random):
    """All in another order."""
    made, left, result = {s.result for s in statements}, list(statements), []
    while left:
        ready = [s for s in left if not made.intersection(s.operands())]
        s = random.choice(ready)
        left.remove(s)
        made.remove(s.result)
        result.append(s)
    return result


def move(statements, random):
    """One at another place."""
    statements = list(statements)
    s = statements.pop(random.randrange(len(statements)))
    first = max((i + 1 for i, t in enumerate(statements) if t.result in s.operands()), default=0)
    last = min((i for i, t in enumerate(statements) if s.result in t.operands()),
               default=len(statements))
    statements.insert(random.randint(first, last), s)
    return statements


def operands(statements, random):
    """The order of the operands of some that commute."""
    return [Statement(s.result, s.operation, s.arguments[::-1])
            if s.operation in SWAPPED and len(s.operands()) == 2 and not s.named and random.random() < 0.5
            else s for s in statements]


def dead(statements, random):
    """One more that nothing needs."""
    at = random.randint(1, len(statements))
    s = random.choice(statements[:at])
    extra = Statement(Value(s.result.shape, s.result.dtype), s.operation, s.arguments, s.named)
    return statements[:at] + [extra] + statements[at:]


CHANGES = (order, move, operands, operands, dead)

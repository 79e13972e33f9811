# SPDX-License-Identifier: Apache-2.0
"""Random programs for four devices, of what generate.py makes: with shardings on it, by which XLA divides
it; with a part that says itself what each device does; or run by each device on numbers of its own."""

from generate import Maker, function
from program import MESH, Block, Op, Program, Type, ints

NOTHING = ("", "")  # said of a result
GROUPS = ([[0, 1, 2, 3]], [[3, 1, 0, 2]], [[0, 1], [2, 3]], [[0, 2], [1, 3]])
SHAPES = ((8,), (64,), (8, 4), (4, 8), (4, 4), (4, 2, 4), (64, 128), (4,))


class Shardings:
    """How values lie, as Shardy says it, or as GSPMD does."""

    def __init__(self, random, shardy):
        self.random, self.shardy = random, shardy

    def dims(self, type, even):
        """The axes of each dimension. `even`: all devices have as much of it."""
        axes = [i for i in range(len(MESH)) if self.random.random() < 0.7]
        self.random.shuffle(axes)
        dims = []
        for size in type.shape:
            dims.append([])
            while axes and self.random.random() < 0.6 and not (even and size % (2 << len(dims[-1]))):
                dims[-1].append(axes.pop())
        return dims

    def of(self, type, even):
        dims = self.dims(type, even)
        if not self.shardy:
            return devices_of(dims)
        texts = [", ".join([f'"{MESH[i][0]}"' for i in axes] +
                           ["?"] * (not even and self.random.random() < 0.4)) for axes in dims]
        return f"<@mesh, [{', '.join('{' + text + '}' for text in texts)}]>"

    def said(self, type):
        """Of an argument or a result."""
        if not self.shardy:
            return "mhlo.sharding", self.of(type, True)
        return "sdy.sharding", "#sdy.sharding" + self.of(type, True)

    def constraint(self, value):
        t = value.type
        if not self.shardy:
            return Op("stablehlo.custom_call", [value], [t], [
                ("call_target_name", '"Sharding"'), ("mhlo.sharding", self.of(t, True))])
        return Op("sdy.sharding_constraint", [value], [t],
                  [("sharding", "#sdy.sharding" + self.of(t, False))])

    def of_op(self, op):
        if not self.shardy:
            return "mhlo.sharding", self.of(op.results[0].type, True)
        each = ", ".join(self.of(v.type, False) for v in op.results)
        return "sdy.sharding", f"#sdy.sharding_per_value<[{each}]>"


def devices_of(dims):
    """The devices of each part, as GSPMD writes them."""
    used = [i for axes in dims for i in axes]
    if not used:
        return '"{replicated}"'
    left = [i for i in range(len(MESH)) if i not in used]
    tiles = [2 ** len(axes) for axes in dims] + [2 ** len(left)] * bool(left)
    order = used + left
    how = "<=[4]" if order == sorted(order) else f"<=[2,2]T({','.join(map(str, order))})"
    tail = " last_tile_dim_replicate" if left else ""
    return f'"{{devices=[{",".join(map(str, tiles))}]{how}{tail}}}"'


def shard(random, program):
    """Says of some arguments, results and values how they lie on the devices."""
    program.partitions = 4
    shardings = Shardings(random, program.shardy)
    main = program.main
    for v in main.arguments:
        if random.random() < 0.8:
            v.said = " = ".join(shardings.said(v.type))
    last = main.ops[-1]
    last.attributes = [shardings.said(v.type) if random.random() < 0.3 else NOTHING for v in last.operands]
    for function in program.functions:
        for op in list(function.ops[:-1]):
            if op.results and random.random() < 0.15:
                constrain(random, function, op.results[0], shardings)
            elif op.results and not op.callee and not op.regions and random.random() < 0.1:
                op.attributes = op.attributes + [shardings.of_op(op)]


def constrain(random, block, v, shardings):
    """From here on a value lies so; for all who use it, or for some."""
    made = shardings.constraint(v)
    i = next(i for i, op in enumerate(block.ops) if v in op.results)
    for user in block.ops[i + 1:]:
        for k, w in enumerate(user.operands):
            if w is v and random.random() < 0.7:
                user.operands[k] = made.results[0]
    block.ops.insert(i + 1, made)


class Divided(Maker):
    """Makes what devices sum up together, and no reductions that XLA cannot divide."""

    def step(self, depth):
        if self.chance(0.15):
            return self.one_of(self.reduce, self.dot)(depth)
        return super().step(depth)

    def fold(self, value, how):
        return super().fold(value, how if how in ("add", "multiply", "maximum", "minimum") else "add")

    def two_sums(self):
        self.arg_reduce()


class Together(Maker):
    """Makes operations in which devices know of each other, where all of them come along."""

    channel = None  # the number of the last one, where they have numbers

    def step(self, depth):
        if self.chance(0.25):
            return self.collective()
        return super().step(depth)

    def said(self, devices):
        """What an operation among groups of so many devices says of them."""
        groups = self.one_of(*(g for g in GROUPS if len(g[0]) == devices))
        how = [("replica_groups", f"dense<{groups}> : tensor<{len(groups)}x{devices}xi64>")]
        if self.channel is not None:
            how.append(("use_global_device_ids", ""))
        return how + self.handle()

    def handle(self):
        if self.channel is None:
            return []
        type(self).channel += self.one_of(1, 1, 3)
        return [("channel_handle", f"#stablehlo.channel_handle<handle = {self.channel}, type = 1>")]

    def collective(self):
        t, n = self.main, self.one_of(2, 4)
        makers = [self.summed] * 4 + [self.permuted, self.number]
        if t.rank and t.shape[-1] % n == 0:
            makers += [self.gathered, self.scattered, self.exchanged]
        self.one_of(*makers)(t, n)

    def summed(self, t, n):
        self.do("all_reduce", [self.value(t)], t, self.said(n), [
            self.sum_region(Type((), t.element), ("add", "add", "add", "maximum", "multiply"))])

    def permuted(self, t, _):
        pairs = self.one_of([[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 2], [2, 0], [1, 1], [3, 3]])
        self.do("collective_permute", [self.value(t)], t, [
            ("source_target_pairs", f"dense<{pairs}> : tensor<4x2xi64>")] + self.handle())

    def number(self, t, _):
        """That of the device."""
        mine = self.do("replica_id" if self.channel is None else "partition_id", [], Type((), "ui32"))
        one = self.do("convert", [mine], Type((), t.element))
        if t.rank:
            self.broadcast(one, t)

    def gathered(self, t, n):
        """What all have, and of that a part."""
        size, d = t.shape[-1], t.rank - 1
        wide = self.do("all_gather", [self.value(t)], t.shaped(*t.shape[:-1], size * n),
                       self.said(n) + [("all_gather_dim", f"{d} : i64")])
        self.do("slice", [wide], t, [("start_indices", ints([0] * d + [2])),
                                     ("limit_indices", ints([*t.shape[:-1], 2 + size])),
                                     ("strides", ints([1] * t.rank))])

    def scattered(self, t, n):
        d = t.rank - 1
        part = self.do("reduce_scatter", [self.value(t)], t.shaped(*t.shape[:-1], t.shape[-1] // n),
                       self.said(n) + [("scatter_dimension", f"{d} : i64")],
                       [self.sum_region(Type((), t.element))])
        self.do("concatenate", [part] * n, t, [("dimension", f"{d} : i64")])

    def exchanged(self, t, n):
        d = t.rank - 1
        said = [(k, v) for k, v in self.said(n) if k != "use_global_device_ids"]
        self.do("all_to_all", [self.value(t)], t, said + [
            ("split_dimension", f"{d} : i64"), ("concat_dimension", f"{d} : i64"),
            ("split_count", f"{n} : i64")])


class TogetherNumbered(Together):
    channel = 0


def manual(random, program, main):
    """A part of the public function that says itself what each device does: of the rows of its values each
    has a fourth."""
    block = program.main
    local = main.shaped(main.shape[0] // 4, *main.shape[1:])
    given = [v for v in block.arguments + [v for op in block.ops for v in op.results] if v.type == main]
    random.shuffle(given)
    given = given[:int(random.integers(1, 4))]
    body = Block([local] * len(given))
    TogetherNumbered.channel = 0
    maker = TogetherNumbered(random, body, [], [], local)
    maker.steps(int(random.integers(1, 12)), 1)
    made = [v for op in body.ops for v in op.results if v.type == local] or body.arguments
    results = [made[-1]] + [maker.one_of(*made) for _ in range(maker.one_of(0, 1))]
    body.ops.append(Op("sdy.return", results, []))
    rows = ", ".join(['{"x", "y"}'] + ["{}"] * (main.rank - 1))

    def shardings(values):
        return f"#sdy.sharding_per_value<[{', '.join([f'<@mesh, [{rows}]>'] * len(values))}]>"
    op = Op("sdy.manual_computation", given, [main] * len(results), [
        ("in_shardings", shardings(given)), ("manual_axes", '#sdy<manual_axes{"x", "y"}>'),
        ("out_shardings", shardings(results))], [body])
    block.ops.insert(-1, op)
    block.ops[-1].operands += op.results
    block.ops[-1].attributes += [NOTHING] * len(op.results)


def generate(random):
    """A program for four devices drawn by a numpy.random.Generator."""
    def one_of(*things):
        return things[int(random.integers(len(things)))]

    main = Type(one_of(*SHAPES), one_of(*["f32"] * 8, "f64", "bf16", "i32"))
    how = one_of("sharded", "sharded", "gspmd", "manual", "replicas")
    functions = []
    for _ in range(one_of(0, 0, 1, 2)):
        functions.append(function(random, functions, main, 8, one_of(0, 0, 1), by=Divided))
    by = Together if how == "replicas" else Divided
    made = Program(functions + [function(random, functions, main, 25, 1, True, by)])
    if how == "replicas":
        made.replicas = 4
        return made
    made.shardy = how != "gspmd"
    shard(random, made)
    if how == "manual":
        manual(random, made, main)
    return made

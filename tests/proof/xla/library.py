# SPDX-License-Identifier: Apache-2.0
"""Random operations of the larger kind, for generate.py: what compilers expand into loops, hand to a
library or rewrite as another operation (products of matrices, convolutions, windows, sorting, gathering
and scattering, normalization, decompositions, complex numbers, random bits), and what is rare."""

import numpy as np

from program import FLOATS, INTEGERS, Block, Op, Type, ints, literal

CHLO = ("erf", "erf", "square", "sinh", "cosh", "asin", "acos", "atan", "lgamma", "digamma", "erfc",
        "asinh", "acosh", "atanh", "tan", "erf_inv")
TINY = ("f8E4M3FN", "f8E5M2", "i4", "ui4")
PADDING = "dense<[{}]> : tensor<{}x2xi64>"


def numbered(n):
    return f"{n} : i64"


def compare(a, b, how):
    return Op("stablehlo.compare", [a, b], [a.type.of("i1")],
              [("comparison_direction", f"#stablehlo<comparison_direction {how}>")])


class Library:
    """What Maker can do beside what it has of its own; its values and types are the Maker's."""

    def library(self, _):
        self.one_of(self.matrix, self.matrix, self.convolve, self.window, self.arg_reduce, self.two_sums,
                    self.order, self.gather, self.scatter, self.dynamic, self.normalize, self.decompose,
                    self.complex_parts, self.random_bits, self.chlo, self.chlo, self.precision,
                    self.interior, self.mapped, self.small_integers, self.tiny, self.truth, self.rare,
                    self.rare, self.static)()

    def real(self):
        """The type that the program is about, or one like it of real numbers."""
        return self.main if self.main.element in FLOATS else self.main.of("f32")

    def region(self, types, make):
        """A block whose operations `make` gives from a maker and its arguments, and the values it ends
        with."""
        block = Block(types)
        maker = type(self)(self.random, block, [], [], types[0])
        block.ops.append(Op("stablehlo.return", make(maker, *block.arguments), []))
        return block

    def sum_region(self, type, names=("add",)):
        name = self.one_of(*names)
        swap = self.chance(0.5)
        return self.region([type] * 2, lambda maker, a, b: [
            maker.do(name, [b, a] if swap else [a, b], type)])

    def matrix(self):
        """A product of matrices, of a matrix and a vector, or of many; in another type or not."""
        t, n = self.real(), self.one_of(1, 2, 3, 8, 20, 64)
        m, k = self.one_of(1, 4, 16, 128), self.one_of(1, 2, 7, 16, 64)
        how = self.one_of("plain", "batch", "transposed", "vector", "wide")
        wide = t.of("f32") if how == "wide" and t.element in ("f16", "bf16") else t
        left, right, out, batch, sides = (m, k), (k, n), (m, n), "", (1, 0)
        if how == "batch":
            left, right, out, batch, sides = (3, m, k), (3, k, n), (3, m, n), (
                "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "), (2, 1)
        elif how == "transposed":
            left, right, sides = (k, m), (n, k), (0, 1)
        elif how == "vector":
            right, out = (k,), (m,)
        a, b = self.value(t.shaped(*left), 0.6), self.value(t.shaped(*right), 0.6)
        numbers = (f"#stablehlo.dot<{batch}lhs_contracting_dimensions = [{sides[0]}], "
                   f"rhs_contracting_dimensions = [{sides[1]}]>")
        product = self.do("dot_general", [a, b], wide.shaped(*out), [("dot_dimension_numbers", numbers)])
        bias = self.value(wide.shaped(*out), 0.4)
        if self.chance(0.7):
            product = self.do(self.one_of("add", "multiply", "maximum"),
                              [product, bias] if self.chance(0.5) else [bias, product], product.type)
        return product

    def convolve(self):
        t, width, channels = self.real(), self.one_of(5, 8), self.one_of(1, 2)
        kernel, filters = self.one_of(1, 3), self.one_of(1, 4)
        a = self.value(t.shaped(2, width, channels), 0.6)
        b = self.value(t.shaped(kernel, channels, filters), 0.6)
        pad = self.one_of(0, 1)
        out = t.shaped(2, width + 2 * pad - kernel + 1, filters)
        product = self.do("convolution", [a, b], out, [
            ("window_strides", ints([1])), ("padding", PADDING.format(f"[{pad}, {pad}]", 1)),
            ("dimension_numbers", "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>"),
            ("feature_group_count", numbered(1)), ("batch_group_count", numbered(1))])
        if self.chance(0.6):
            self.do("add", [product, self.value(out, 0.5)], out)

    def window(self):
        """Sums over a window that moves; sums up to each place."""
        t = self.real()
        if not t.rank:
            return
        n = t.shape[-1]
        size = self.one_of(1, 2, n, n)
        low = size - 1
        zeros, ones = [0] * (t.rank - 1), [1] * (t.rank - 1)
        rows = ", ".join(["[0, 0]"] * (t.rank - 1) + [f"[{low}, 0]"])
        scalar = Type((), t.element)
        self.do("reduce_window", [self.value(t), self.value(scalar, 0.4)], t, [
            ("window_dimensions", ints(ones + [size])), ("window_strides", ints(ones + [1])),
            ("padding", PADDING.format(rows, len(zeros) + 1))],
            [self.sum_region(scalar, ("add", "add", "maximum", "multiply"))])

    def arg_reduce(self):
        """The largest element and its place."""
        t = self.real()
        if not t.rank:
            return
        place = t.of("i32")
        where = self.do("iota", [], place, [("iota_dimension", numbered(t.rank - 1))])
        scalar, count = Type((), t.element), Type((), "i32")

        def larger(maker, x, i, y, j):
            test = maker.add(compare(x, y, "GE"))
            return [maker.do("select", [test, x, y], scalar), maker.do("select", [test, i, j], count)]
        start = [self.value(scalar, 0.3), self.add(literal(count, 0))]
        self.add(Op("stablehlo.reduce", [self.value(t), where] + start,
                    [t.shaped(*t.shape[:-1]), place.shaped(*t.shape[:-1])],
                    [("dimensions", ints([t.rank - 1]))],
                    [self.region([scalar, count] * 2, larger)]))

    def two_sums(self):
        """Two reductions in one, of which one needs the other's element."""
        t = self.real()
        if not t.rank:
            return
        scalar, keep = Type((), t.element), t.shaped(*t.shape[1:])

        def sums(maker, a, b, x, y):
            made = [maker.do("add", [a, x], scalar), maker.do("add", [y, b], scalar)]
            if maker.chance(0.5):
                made[1] = maker.do("add", [b, maker.do("multiply", [y, y], scalar)], scalar)
            elif maker.chance(0.5):
                maker.sums(3)
                made = [maker.do("add", [one, maker.value(scalar, 1.0)], scalar) for one in made]
            return made
        self.add(Op("stablehlo.reduce", [self.value(t), self.value(t)] +
                    [self.value(scalar, 0.4) for _ in range(2)], [keep, keep],
                    [("dimensions", ints([0]))], [self.region([scalar] * 4, sums)]))

    def order(self):
        """Sorted by the first of several, by a comparison of what is computed of it."""
        t = self.real()
        if not t.rank:
            return
        others = [self.one_of(t, t.of("i32")) for _ in range(self.one_of(0, 1, 2))]
        types = [x for one in [t] + others for x in [Type((), one.element)] * 2]
        twist, stable = self.chance(0.3), "true" if self.chance(0.5) or others else "false"

        def less(maker, a, b, *_):
            if twist:
                a, b = (maker.do("multiply", [v, v], v.type) for v in (a, b))
            return [maker.add(compare(a, b, "LT"))]
        self.add(Op("stablehlo.sort", [self.value(one) for one in [t] + others], [t] + others,
                    [("dimension", numbered(t.rank - 1)), ("is_stable", stable)],
                    [self.region(types, less)]))

    def table(self, rows):
        """A table and indices into its rows."""
        t = self.real()
        return (self.value(t.shaped(rows, 4), 0.6),
                self.value(Type((6, 1), "i32"), 0.7), t)

    def gather(self):
        table, places, t = self.table(self.one_of(1, 8))
        self.do("gather", [table, places], t.shaped(6, 4), [
            ("dimension_numbers", "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
             "start_index_map = [0], index_vector_dim = 1>"), ("slice_sizes", ints([1, 4])),
            ("indices_are_sorted", "false")])

    def scatter(self):
        table, places, t = self.table(self.one_of(1, 8))
        scalar = Type((), t.element)
        self.do("scatter", [table, places, self.value(t.shaped(6, 4), 0.6)], table.type, [
            ("scatter_dimension_numbers", "#stablehlo.scatter<update_window_dims = [1], "
             "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"),
            ("indices_are_sorted", "false"), ("unique_indices", "false")],
            [self.sum_region(scalar, ("add", "add", "multiply", "maximum"))])

    def dynamic(self):
        t, place = self.real(), Type((), "i32")
        if not t.rank:
            return
        part = t.shaped(*t.shape[:-1], max(1, t.shape[-1] // 2))
        starts = [self.value(place) for _ in t.shape]
        if self.chance(0.5):
            self.do("dynamic_slice", [self.value(t)] + starts, part, [("slice_sizes", ints(part.shape))])
        else:
            self.do("dynamic_update_slice", [self.value(t), self.value(part, 0.7)] + starts, t)

    def normalize(self):
        t = self.real()
        if t.rank < 2 or t.element == "f64":
            return
        features = t.shaped(t.shape[-1])
        given = [("epsilon", "1.000000e-03 : f32"), ("feature_index", numbered(t.rank - 1))]
        scale, offset, mean, variance = (self.value(features, 0.6) for _ in range(4))
        how = self.one_of("inference", "training", "grad")
        if how == "inference":
            self.do("batch_norm_inference", [self.value(t), scale, offset, mean, variance], t, given)
        elif how == "training":
            self.add(Op("stablehlo.batch_norm_training", [self.value(t), scale, offset],
                        [t, features, features], given))
        else:
            self.add(Op("stablehlo.batch_norm_grad", [self.value(t), scale, mean, variance, self.value(t)],
                        [t, features, features], given))

    def decompose(self):
        element = self.main.element if self.main.element in ("f32", "f64") else "f32"
        square = Type((3, 3), element)
        a = self.value(square, 0.7)
        if self.chance(0.5):
            a = self.do("cholesky", [a], square, [("lower", self.one_of("true", "false"))])
        if self.chance(0.5):
            self.do("triangular_solve", [a, self.value(square, 0.6)], square, [
                ("left_side", self.one_of("true", "false")), ("lower", self.one_of("true", "false")),
                ("unit_diagonal", "false"), ("transpose_a", "#stablehlo<transpose NO_TRANSPOSE>")])

    def complex_parts(self):
        """Complex numbers of two real ones, and their parts."""
        t = self.real()
        if t.element not in ("f32", "f64"):
            return
        c = t.of("complex<" + t.element + ">")
        if self.chance(0.5):
            value = self.do("complex", [self.value(t), self.value(t)], c)
        else:
            value = self.value(c, 0.9)
        name = self.one_of("add", "multiply", "multiply", "divide", "exponential", "negate", "tanh")
        value = self.do(name, [value] if name in ("exponential", "negate", "tanh") else
                        [value, self.value(c)], c)
        if self.chance(0.7):
            self.do(self.one_of("real", "imag", "abs"), [value], t)

    def random_bits(self):
        state, bits = Type((2,), "ui64"), self.main.of("ui32")
        both = Op("stablehlo.rng_bit_generator", [self.value(state)], [state, bits],
                  [("rng_algorithm", "#stablehlo<rng_algorithm THREE_FRY>")])
        self.add(both)
        if self.chance(0.7):
            self.do("convert", [both.results[1]], self.real())

    def chlo(self):
        t = self.real()
        self.add(Op("chlo." + self.one_of(*CHLO), [self.value(t)], [t]))

    def precision(self):
        t = self.real()
        self.do("reduce_precision", [self.value(t)], t, [
            ("exponent_bits", self.one_of("5 : i32", "8 : i32")),
            ("mantissa_bits", self.one_of("10 : i32", "7 : i32"))])

    def interior(self):
        """Padding between elements, and below what is there."""
        t = self.real()
        if not t.rank:
            return
        lows = [0] * (t.rank - 1)
        low, high, inner = self.one_of((0, 0, 1), (-1, 1, 0), (1, 0, 1), (2, 0, 0))
        n = t.shape[-1]
        out = t.shaped(*t.shape[:-1], n + low + high + inner * (n - 1))
        self.do("pad", [self.value(t), self.value(Type((), t.element))], out, [
            ("edge_padding_low", ints(lows + [low])), ("edge_padding_high", ints(lows + [high])),
            ("interior_padding", ints(lows + [inner]))])

    def mapped(self):
        """The same for each element, as a region."""
        t = self.real()
        scalar = Type((), t.element)
        arguments = [self.value(t) for _ in range(self.one_of(1, 2))]

        def make(maker, *_):
            maker.algebra(int(self.random.integers(1, 4)))
            return [maker.value(scalar, 1.0)]
        self.do("map", arguments, t, [("dimensions", ints(range(t.rank)))],
                [self.region([scalar] * len(arguments), make)])

    def small_integers(self):
        """Integers of few bits, or of many."""
        t = self.main.of(self.one_of(*INTEGERS))
        name = self.one_of("add", "multiply", "maximum", "and", "xor", "shift_right_arithmetic",
                           "subtract")
        value = self.do(name, [self.value(t), self.value(t)], t)
        if self.chance(0.3):
            value = self.do(self.one_of("not", "popcnt", "count_leading_zeros", "negate"), [value], t)
        if self.chance(0.6):
            self.do("convert", [value], self.real())

    def tiny(self):
        """Numbers of a byte and less."""
        t = self.main.of(self.one_of(*TINY))
        value = self.do("convert", [self.value(self.real())], t)
        other = self.do("convert", [self.value(self.real())], t) if self.chance(0.5) else self.constant(t)
        for _ in range(self.one_of(1, 1, 2)):
            value = self.do(self.one_of("add", "multiply", "subtract", "maximum"),
                            [value, other] if self.chance(0.5) else [other, value], t)
        self.do("convert", [value], self.real())

    def truth(self):
        """Of booleans: sums, products, whether all hold or any; and what is true of a number."""
        t = self.main.of("i1")
        how = self.one_of("fold", "fold", "is_finite", "is_inf", "plain")
        if how == "fold" and t.rank:
            scalar, name = Type((), "i1"), self.one_of("and", "or", "add", "maximum", "xor")
            start = self.add(literal(scalar, name == "and"))
            return self.do("reduce", [self.value(t), start], t.shaped(*t.shape[:-1]),
                           [("dimensions", ints([t.rank - 1]))], [self.sum_region(scalar, (name,))])
        if how == "is_finite":
            return self.do(how, [self.value(self.real())], t)
        if how == "is_inf":
            return self.add(Op("chlo.is_inf", [self.value(self.real())], [t]))
        return self.do(self.one_of("add", "multiply", "maximum", "minimum", "xor", "and"),
                       [self.value(t), self.value(t)], t)

    def rare(self):
        self.one_of(self.old_dot, self.fourier, self.pooled, self.select_rows, self.largest, self.of_two,
                    self.conjugate, self.composite, self.away)()

    def old_dot(self):
        t, n, k = self.real(), self.one_of(1, 3, 8), self.one_of(1, 2, 7)
        a, b = self.value(t.shaped(4, k), 0.6), self.value(t.shaped(k, n), 0.6)
        if self.chance(0.5):
            return self.do("dot", [a, b], t.shaped(4, n))
        return self.do("einsum", [a, b], t.shaped(4, n), [("einsum_config", '"ab,bc->ac"')])

    def fourier(self):
        element = self.main.element if self.main.element in ("f32", "f64") else "f32"
        n = self.one_of(4, 8, 9)
        real, wide = Type((3, n), element), Type((3, n // 2 + 1), f"complex<{element}>")
        there = self.do("fft", [self.value(real, 0.7)], wide, [
            ("fft_type", "#stablehlo<fft_type RFFT>"), ("fft_length", ints([n]))])
        if self.chance(0.6):
            there = self.do("multiply", [there, self.value(wide)], wide)
        self.do("fft", [there], real, [
            ("fft_type", "#stablehlo<fft_type IRFFT>"), ("fft_length", ints([n]))])

    def pooled(self):
        """What a maximum over windows gives back to those that were it."""
        t = self.real()
        wide, narrow, scalar = t.shaped(2, 8), t.shaped(2, 4), Type((), t.element)
        self.do("select_and_scatter", [self.value(wide, 0.7), self.value(narrow, 0.7),
                                       self.value(scalar, 0.4)], wide,
                [("window_dimensions", ints([1, 2])), ("window_strides", ints([1, 2]))],
                [self.region([scalar] * 2, lambda maker, a, b: [maker.add(compare(a, b, "GE"))]),
                 self.sum_region(scalar)])

    def select_rows(self):
        table, places, t = self.table(8)
        places = self.do("reshape", [places], Type((6,), "i32"))
        self.do("torch_index_select", [table, places], t.shaped(6, 4),
                [("dim", numbered(0)), ("batch_dims", numbered(0))])

    def largest(self):
        t = self.real().shaped(3, 16)
        self.add(Op("chlo.top_k", [self.value(t, 0.7)], [t.shaped(3, 4), Type((3, 4), "i32")],
                    [("k", numbered(4))]))

    def of_two(self):
        t = self.real()
        if t.element not in ("f32", "f64"):
            return
        a, b = self.value(t), self.value(t)
        name = self.one_of("zeta", "polygamma", "next_after", "bessel_i1e")
        self.add(Op("chlo." + name, [a] if name == "bessel_i1e" else [a, b], [t]))

    def conjugate(self):
        t = self.main.of("complex<f32>")
        self.add(Op("chlo.conj", [self.value(t)], [t]))

    def composite(self):
        """An operation that is known by a name, and by what it is made of."""
        if self.functions:
            function = self.one_of(*self.functions)
            self.add(Op("stablehlo.composite", [self.value(v.type) for v in function.arguments],
                        [v.type for v in function.ops[-1].operands],
                        [("name", '"warm.known"'), ("version", "1 : i32")], bodies=(function,)))

    def away(self):
        t = self.real()
        self.do("round_nearest_afz", [self.value(t)], t)

    def static(self):
        """What could be of any size, and is of one."""
        t = self.real().shaped(4, 3)
        value = self.value(t, 0.7)

        def sizes(*numbers):
            return self.add(literal(Type((len(numbers),), "i32"), numbers))
        how = self.one_of("reshape", "broadcast", "pad", "slice", "iota", "size")
        if how == "reshape":
            self.do("dynamic_reshape", [value, sizes(3, 4)], t.shaped(3, 4))
        elif how == "broadcast":
            self.do("dynamic_broadcast_in_dim", [value, sizes(2, 4, 3)], t.shaped(2, 4, 3),
                    [("broadcast_dimensions", ints([1, 2]))])
        elif how == "pad":
            self.do("dynamic_pad", [value, self.value(t.shaped()), sizes(1, 0), sizes(0, 2), sizes(0, 0)],
                    t.shaped(5, 5))
        elif how == "slice":
            self.do("real_dynamic_slice", [value, sizes(1, 0), sizes(4, 2), sizes(1, 1)], t.shaped(3, 2))
        elif how == "iota":
            self.do("dynamic_iota", [sizes(4, 3)], t, [("iota_dimension", numbered(0))])
        else:
            size = self.do("get_dimension_size", [value], Type((), "i32"), [("dimension", numbered(0))])
            self.do("convert", [size], t.shaped())

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_products.c - of two matrix products that share an operand, and sum over the same of it, XLA for GPUs
 * makes one, in an order and of a choice that the order of the text decides (KEYS.md 2.2). So it counts there,
 * and nowhere else.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "keygen/canon.h"

#define TYPE "tensor<4x4xf32>"

static struct key key_of(const char *text, enum canon_kind kind)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = kind};
    struct canon_result r;
    struct err e = {0};
    cr_assert_eq(canon_key(&input, &r, NULL, &e), 0, "%s in\n%s", e.text, text);
    cr_assert(!r.exact);
    return r.key;
}

/* Of a program of x, a and b with these two operations, the first of which is %0, behind others, in a module
 * with a function f. */
static struct key mlir_key(const char *before, const char *one, const char *two, const char *f)
{
    char text[8192];
    snprintf(text, sizeof text,
             "func.func public @main(%%x: " TYPE ", %%a: " TYPE ", %%b: " TYPE ") -> (" TYPE
             ", " TYPE ") {\n%s%s%sreturn %%0, %%1 : " TYPE ", " TYPE "\n}\n"
             "func.func private @f(%%p: " TYPE ", %%q: " TYPE ") -> " TYPE " {\n%s"
             "return %%r : " TYPE "\n}\n",
             before, one, two, f);
    return key_of(text, CANON_MLIR);
}

/* A product of two values over a dimension of each. */
static const char *product(const char *result, const char *of, const char *sides)
{
    static char texts[4][256];
    static int turn;
    char *text = texts[++turn % 4];
    snprintf(text, sizeof texts[0],
             "%s = stablehlo.dot_general %s, contracting_dims = %s : (" TYPE ", " TYPE ") -> " TYPE
             "\n",
             result, of, sides);
    return text;
}

static bool moves_in(const char *before, const char *one, const char *two, const char *f)
{
    struct key x = mlir_key(before, one, two, f), y = mlir_key(before, two, one, f);
    return key_equal(&x, &y);
}

#define NOTHING "%r = stablehlo.negate %p : " TYPE "\n"
#define ROWS "[1] x [0]"

/* Whether two products may stand in any order. */
static bool moves(const char *before, const char *one, const char *sides_of_one, const char *two,
                  const char *sides_of_two)
{
    return moves_in(before, product("%0", one, sides_of_one), product("%1", two, sides_of_two),
                    NOTHING);
}

Test(products, order_counts_where_they_share_an_operand)
{
    cr_expect(!moves("", "%x, %a", ROWS, "%x, %b", ROWS));
    cr_expect(!moves("", "%a, %x", ROWS, "%b, %x", ROWS));
    cr_expect(!moves("", "%x, %a", ROWS, "%b, %x", "[0] x [1]"), "on the other side");
    cr_expect(moves("", "%x, %a", ROWS, "%x, %b", "[0] x [0]"), "over other dimensions");
    cr_expect(moves("", "%x, %a", ROWS, "%b, %b", ROWS));
    cr_expect(moves("", "%x, %x", ROWS, "%b, %b", "[0] x [0]"), "none meets itself");
    cr_expect(moves("", "%x, %a", ROWS, "%x, %a", ROWS), "equal ones are one");
}

Test(products, order_counts_where_a_compiler_may_find_one_operand)
{
#define Y(how) "%y = stablehlo." how " : " TYPE "\n"
#define TURNED "%y = stablehlo.transpose %x, dims = [1, 0] : (" TYPE ") -> " TYPE "\n"
#define TWO "%c = stablehlo.constant dense<2.0> : " TYPE "\n"
    cr_expect(!moves(TURNED, "%x, %a", ROWS, "%y, %b", ROWS));
    cr_expect(!moves(TURNED, "%x, %a", ROWS, "%y, %b", "[0] x [0]"), "whatever it sums");
    cr_expect(!moves(Y("negate %x"), "%x, %a", ROWS, "%y, %b", ROWS));
    cr_expect(!moves(TWO Y("multiply %c, %x"), "%x, %a", ROWS, "%y, %b", ROWS));
    cr_expect(moves(Y("negate %x"), "%x, %a", ROWS, "%y, %b", "[0] x [0]"));
    cr_expect(!moves("%z = stablehlo.atan2 %x, %b : " TYPE "\n" Y("atan2 %x, %b"), "%z, %a", ROWS,
                     "%y, %b", ROWS),
              "computed twice");
    cr_expect(moves(Y("atan2 %x, %b"), "%x, %a", ROWS, "%y, %b", ROWS));
}

/* Of one value in two ways each may be the other one's. */
Test(products, order_counts_where_one_product_takes_a_value_in_two_ways)
{
    cr_expect(!moves(TURNED, "%x, %y", ROWS, "%x, %b", "[0] x [0]"));
    cr_expect(!moves(TURNED, "%x, %y", ROWS, "%b, %x", "[0] x [1]"));
    cr_expect(moves(TURNED, "%x, %y", ROWS, "%b, %b", ROWS), "none meets itself");
    cr_expect(moves("", "%x, %x", "[1] x [1]", "%x, %b", "[0] x [0]"));
}

/* Calls are inlined before products become one. */
Test(products, order_counts_where_they_share_an_operand_across_calls)
{
#define CALL(result, of) result " = call @f(" of ") : (" TYPE ", " TYPE ") -> " TYPE "\n"
#define DOT(of)                                                                                    \
    "%r = stablehlo.dot_general " of ", contracting_dims = " ROWS " : (" TYPE ", " TYPE            \
    ") -> " TYPE "\n"
    const char *beside = product("%1", "%x, %b", ROWS);
    cr_expect(!moves_in("", CALL("%0", "%x, %a"), CALL("%1", "%x, %b"), DOT("%p, %q")));
    cr_expect(!moves_in("", CALL("%0", "%x, %a"), beside, DOT("%p, %q")));
    cr_expect(moves_in("", CALL("%0", "%x, %a"), CALL("%1", "%b, %b"), DOT("%p, %q")));
    static const char made[] = "%t = stablehlo.atan2 %p, %p : " TYPE "\n" DOT("%t, %q");
    cr_expect(!moves_in("", CALL("%0", "%x, %a"), CALL("%1", "%x, %b"), made));
    cr_expect(moves_in("", CALL("%0", "%x, %a"), CALL("%1", "%b, %b"), made));
    static const char turns[] =
        "%r = stablehlo.transpose %p, dims = [1, 0] : (" TYPE ") -> " TYPE "\n";
    beside = product("%0", "%x, %a", ROWS);
    cr_expect(!moves_in(CALL("%y", "%x, %x"), beside, product("%1", "%y, %b", ROWS), turns));
    cr_expect(moves_in(CALL("%y", "%x, %x"), beside, product("%1", "%b, %b", ROWS), turns));
}

Test(products, order_counts_where_a_function_called_twice_has_a_constant_operand)
{
    static const char made[] = "%c = stablehlo.constant dense<2.0> : " TYPE "\n" DOT("%p, %c");
    cr_expect(!moves_in("", CALL("%0", "%x, %a"), CALL("%1", "%b, %a"), made));
    cr_expect(moves_in("", CALL("%0", "%x, %a"), product("%1", "%b, %b", ROWS), made));
    cr_expect(moves_in("", CALL("%0", "%x, %a"), CALL("%1", "%x, %a"), NOTHING));
}

/* N calls of a function, each of other values, in a function. */
static void calls_put(char *text, size_t size, const char *name, const char *callee, int n)
{
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, size - at,
                           "func.func private @%s(%%0: " TYPE ", %%q: " TYPE ") -> " TYPE " {\n",
                           name);
    for (int i = 1; i <= n; i++)
        at +=
            (size_t)snprintf(text + at, size - at,
                             "%%%d = stablehlo.atan2 %%%d, %%q : " TYPE "\n%%c%d = call @%s(%%%d, "
                             "%%q) : (" TYPE ", " TYPE ") -> " TYPE "\n",
                             i, i - 1, i, callee, i);
    snprintf(text + at, size - at, "return %%c%d : " TYPE "\n}\n", n);
}

/* Whether all operations move in a module in which the calls of n functions each have n products. */
static bool many_move(int n)
{
    static char text[262144];
    struct key keys[2];
    for (int turn = 0; turn < 2; turn++) {
        const char *ops[] = {"%1 = stablehlo.tanh %a : " TYPE "\n",
                             "%2 = call @h(%b, %a) : (" TYPE ", " TYPE ") -> " TYPE "\n"};
        snprintf(text, sizeof text,
                 "func.func public @main(%%a: " TYPE ", %%b: " TYPE ") -> (" TYPE ", " TYPE
                 ") {\n%s%sreturn %%1, %%2 : " TYPE ", " TYPE "\n}\n%s",
                 ops[turn], ops[!turn],
                 "func.func private @f(%p: " TYPE ", %q: " TYPE ") -> " TYPE
                 " {\n" DOT("%p, %p") "return %r : " TYPE "\n}\n");
        calls_put(text, sizeof text, "g", "f", n);
        calls_put(text, sizeof text, "h", "g", n);
        keys[turn] = key_of(text, CANON_MLIR);
    }
    return key_equal(&keys[0], &keys[1]);
}

/* Nor can a function be looked through that calls itself. */
Test(products, order_counts_where_there_are_too_many_to_look_at)
{
    cr_expect(
        !moves_in("", CALL("%0", "%x, %a"), product("%1", "%b, %b", ROWS), CALL("%r", "%p, %q")));
    cr_expect(many_move(20));
    cr_expect(!many_move(250));
}

/* Where order counts, calls stay, and nothing is dropped or changes places; names and constants do not
 * count there either. */
Test(products, all_but_names_and_constants_counts_with_the_order)
{
    const char *one = product("%0", "%x, %a", ROWS), *two = product("%1", "%x, %b", ROWS);
    struct key key = mlir_key("", one, two, NOTHING);
    struct key dead = mlir_key("%d = stablehlo.add %a, %b : " TYPE "\n", one, two, NOTHING);
    struct key names = mlir_key(TWO, one, two, "%r = stablehlo.negate %q : " TYPE "\n");
    cr_expect(!key_equal(&key, &dead));
    cr_expect(key_equal(&key, &names), "a function and a constant that nothing names");
    struct key a = mlir_key("%d = stablehlo.add %a, %b : " TYPE "\n", one, two, NOTHING);
    struct key b = mlir_key("%d = stablehlo.add %b, %a : " TYPE "\n", one, two, NOTHING);
    cr_expect(!key_equal(&a, &b));
    a = mlir_key("%d = stablehlo.negate %a : " TYPE "\n", one, two, NOTHING);
    b = mlir_key(CALL("%d", "%a, %b"), one, two, NOTHING);
    cr_expect(!key_equal(&a, &b));
}

/* Whether x * a may change places with s * b, where `before` says what s is. */
static bool apart(const char *before) { return moves(before, "%x, %a", ROWS, "%s, %b", ROWS); }

#define LINE(how) "%s = stablehlo." how "\n"
#define SCALAR(name, number, type)                                                                 \
    "%" name " = stablehlo.constant dense<" number "> : tensor<" type ">\n"
#define ZERO SCALAR("i", "0", "i32")

#define BOOLS "tensor<4x4xi1>"
#define NONE                                                                                       \
    SCALAR("o", "0.0", "f32")                                                                      \
    "%z = stablehlo.broadcast_in_dim %o, dims = [] : (tensor<f32>) -> " TYPE "\n"
#define LESS(a, b)                                                                                 \
    "%p = stablehlo.compare LT, " a ", " b ", FLOAT : (" TYPE ", " TYPE ") -> " BOOLS "\n"
#define CHOSEN "%v = stablehlo.select %p, %b, %z : " BOOLS ", " TYPE "\n"

Test(products, order_counts_where_an_operand_may_come_out_as_another)
{
    cr_expect(
        !apart("%q = stablehlo.concatenate %x, %a, dim = 0 : (" TYPE ", " TYPE
               ") -> tensor<8x4xf32>\n" LINE("slice %q [0:4, 0:4] : (tensor<8x4xf32>) -> " TYPE)));
    cr_expect(!apart(ZERO LINE("dynamic_slice %x, %i, %i, sizes = [4, 4] : (" TYPE
                               ", tensor<i32>, tensor<i32>) -> " TYPE)));
    cr_expect(!apart(ZERO LINE("dynamic_update_slice %a, %x, %i, %i : (" TYPE ", " TYPE
                               ", tensor<i32>, tensor<i32>) -> " TYPE)));
    cr_expect(!apart(SCALAR("t", "true", "i1") LINE("select %t, %x, %a : tensor<i1>, " TYPE)));
    cr_expect(!apart("%q = stablehlo.reshape %x : (" TYPE ") -> tensor<1x4x4xf32>\n" SCALAR(
        "z", "0.0", "f32") LINE("reduce(%q init: %z) applies stablehlo.add across dimensions = "
                                "[0] : (tensor<1x4x4xf32>, tensor<f32>) -> " TYPE)));
    cr_expect(!apart(SCALAR("t", "true", "i1") "%s = \"stablehlo.if\"(%t) ({\n"
                                               "stablehlo.return %x : " TYPE "\n}, {\n"
                                               "stablehlo.return %a : " TYPE
                                               "\n}) : (tensor<i1>) -> " TYPE "\n"));
    cr_expect(!apart(LINE("maximum %x, %x : " TYPE)), "of one value");
    cr_expect(!apart(SCALAR(
                  "z", "0",
                  "i32") "%d = stablehlo.subtract %z, %z : tensor<i32>\n"
                         "%e = stablehlo.convert %d : (tensor<i32>) -> tensor<f32>\n"
                         "%f = stablehlo.broadcast_in_dim %e, dims = [] : (tensor<f32>) -> " TYPE
                         "\n" LINE("add %x, %f : " TYPE)),
              "plus 0");
    cr_expect(!apart(NONE "%m = stablehlo.abs %a : " TYPE "\n" LESS("%m", "%z")
                         CHOSEN LINE("add %x, %v : " TYPE)),
              "none is less than 0");
    cr_expect(!apart(NONE LESS("%a", "%b") "%v = stablehlo.select %p, %z, %z : " BOOLS ", " TYPE
                                           "\n" LINE("add %x, %v : " TYPE)),
              "either is 0");
    cr_expect(apart(NONE LESS("%a", "%z") CHOSEN LINE("multiply %x, %v : " TYPE)), "0, but not 1");
    cr_expect(apart(LINE("add %x, %a : " TYPE)));
    cr_expect(apart(LINE("maximum %x, %a : " TYPE)));
    cr_expect(apart(product("%s", "%x, %b", "[0] x [1]")));
}

Test(products, order_counts_where_the_same_is_made_of_equal_values)
{
    const char *one = product("%0", "%x, %a", ROWS), *two = product("%1", "%s, %a", ROWS);
    cr_expect(!moves_in(LINE("tanh %x : " TYPE), one, two, NOTHING), "the right one is shared");
    static const char sum[] = "%r = stablehlo.add %p, %q : " TYPE "\n";
    const char *calls = CALL("%s", "%x, %a") CALL("%t", "%x, %a");
    one = product("%0", "%s, %a", ROWS);
    two = product("%1", "%t, %b", ROWS);
    cr_expect(!moves_in(calls, one, two, sum), "in two calls");
    calls = CALL("%s", "%x, %a") CALL("%t", "%x, %b");
    cr_expect(moves_in(calls, one, two, sum));
    one = product("%0", "%x, %a", ROWS);
    cr_expect(!moves_in(TWO CALL("%t", "%x, %c"), one, two, sum), "of a constant");
    cr_expect(moves_in(CALL("%t", "%x, %b"), one, two, sum));
}

/* There are many ways to say the same: of what is made of equal classes nothing is known. */
Test(products, order_counts_where_operands_may_be_made_alike)
{
#define Q(how) "%q = stablehlo." how " : " TYPE "\n"
#define T(how) "%t = stablehlo." how " : " TYPE "\n"
    const char *one = product("%0", "%q, %b", ROWS), *two = product("%1", "%t, %c", ROWS);
    cr_expect(!moves_in(TWO Q("add %x, %a") T("add %a, %x"), one, two, NOTHING));
    cr_expect(!moves_in(TWO "%s = stablehlo.sqrt %a : " TYPE "\n%r = stablehlo.rsqrt %a : " TYPE
                            "\n" Q("divide %x, %s") T("multiply %x, %r"),
                        one, two, NOTHING));
    cr_expect(!moves_in(TWO "%s = stablehlo.add %x, %c : " TYPE "\n" Q("multiply %s, %a")
                            T("multiply %x, %a"),
                        one, two, NOTHING));
    cr_expect(moves_in(TWO Q("add %x, %a") T("add %b, %x"), one, two, NOTHING));
    cr_expect(!moves_in(TWO Q("add %x, %a")
                            SCALAR("y", "true",
                                   "i1") "%s = stablehlo.select %y, %x, %b : tensor<i1>, " TYPE
                                         "\n" T("add %a, %s"),
                        one, two, NOTHING),
              "one operand comes out as the other later");
}

Test(products, order_counts_where_constants_may_be_one)
{
#define ONES "%c = stablehlo.constant dense<1.0> : " TYPE "\n"
    const char *one = product("%0", "%x, %c", ROWS), *two = product("%1", "%a, %s", ROWS);
    cr_expect(!moves_in(ONES SCALAR("z", "1.0", "f32")
                            LINE("broadcast_in_dim %z, dims = [] : (tensor<f32>) -> " TYPE),
                        one, two, NOTHING));
    cr_expect(!moves_in(ONES LINE("iota dim = 0 : " TYPE), one, two, NOTHING));
}

/* A loop that carries s, which is `first` and then `next`, which each turn makes by `makes`. */
static const char *loop(const char *turns, const char *first, const char *makes, const char *next)
{
    static char text[2048];
    snprintf(text, sizeof text,
             "%s%%n = stablehlo.constant dense<%s> : tensor<i32>\n"
             "%%l:2 = stablehlo.while(%%s = %s, %%k = %%i) : " TYPE ", tensor<i32>\ncond {\n"
             "%%m = stablehlo.compare LT, %%k, %%n, SIGNED : (tensor<i32>, tensor<i32>) -> "
             "tensor<i1>\nstablehlo.return %%m : tensor<i1>\n} do {\n"
             "%%j = stablehlo.constant dense<1> : tensor<i32>\n"
             "%%o = stablehlo.add %%k, %%j : tensor<i32>\n%s"
             "stablehlo.return %s, %%o : " TYPE ", tensor<i32>\n}\n",
             ZERO, turns, first, makes, next);
    return text;
}

#define MAKES_V "%v = stablehlo.atan2 %s, %b : " TYPE "\n"

Test(products, order_counts_where_a_loop_may_give_what_it_was_given)
{
    const char *one = product("%0", "%x, %a", ROWS), *two = product("%1", "%l#0, %b", ROWS);
    cr_expect(!moves_in(loop("9", "%x", "", "%s"), one, two, NOTHING), "no turn changes it");
    cr_expect(!moves_in(loop("1", "%a", "", "%x"), one, two, NOTHING), "one turn gives it");
    cr_expect(!moves_in(loop("0", "%x", MAKES_V, "%v"), one, two, NOTHING), "there is none");
    cr_expect(moves_in(loop("2", "%x", MAKES_V, "%v"), one, two, NOTHING));
    cr_expect(moves_in(loop("2", "%a", MAKES_V, "%v"), one, two, NOTHING));
}

/* A loop that turns several times is not opened; but what is the same in each turn may be taken out of it. */
Test(products, order_counts_where_products_may_stand_in_one_place)
{
    static const struct {
        const char *turns, *makes;
        bool moves;
    } cases[] = {
        {"9", DOT("%s, %x"), true},
        {"1", DOT("%s, %x"), false},
        {"9",
         "%w = stablehlo.dot_general %a, %x, contracting_dims = " ROWS " : (" TYPE ", " TYPE
         ") -> " TYPE "\n%r = stablehlo.atan2 %s, %w : " TYPE "\n",
         false},
    };
    const char *two = product("%1", "%b, %x", ROWS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char one[4096];
        snprintf(one, sizeof one, "%s%s", loop(cases[i].turns, "%a", cases[i].makes, "%r"),
                 "%0 = stablehlo.negate %l#0 : " TYPE "\n");
        cr_expect_eq(moves_in("", one, two, NOTHING), cases[i].moves, "case %zu", i);
    }
}

Test(products, order_counts_where_a_convolution_may_be_a_product)
{
#define IMAGE "tensor<2x8x8x4xf32>"
#define WINDOW(size) "tensor<" size "x" size "x4x4xf32>"
    static const char *const windows[] = {WINDOW("1"), WINDOW("3")};
    for (int i = 0; i < 2; i++) {
        struct key keys[2];
        for (int turn = 0; turn < 2; turn++) {
            char ops[2][512], text[2048];
            for (int k = 0; k < 2; k++)
                snprintf(ops[k], sizeof ops[k],
                         "%%%d = stablehlo.convolution(%%x, %%%c) dim_numbers = [b, 0, 1, f]x[0, "
                         "1, i, o]->[b, 0, 1, f], window = {pad = [[%d, %d], [%d, %d]]} "
                         "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (" IMAGE
                         ", %s) -> " IMAGE "\n",
                         k, "ab"[k], i, i, i, i, windows[i]);
            snprintf(text, sizeof text,
                     "func.func public @main(%%x: " IMAGE ", %%a: %s, %%b: %s) -> (" IMAGE
                     ", " IMAGE ") {\n%s%sreturn %%0, %%1 : " IMAGE ", " IMAGE "\n}\n",
                     windows[i], windows[i], ops[turn], ops[!turn]);
            keys[turn] = key_of(text, CANON_MLIR);
        }
        cr_expect_eq(key_equal(&keys[0], &keys[1]), i == 1, "%s", windows[i]);
    }
}

/* Of sizes of one, and of a product whose parts are summed up later. */
Test(products, order_counts_over_the_dimensions_that_are_left)
{
#define WIDE "tensor<3x1x4xf32>"
    static const struct {
        const char *one, *two;
        bool moves;
    } cases[] = {
        {"contracting_dims = [2] x [2]", "contracting_dims = [1, 2] x [1, 2]", false},
        {"batching_dims = [0] x [0], contracting_dims = [2] x [2]",
         "contracting_dims = [0, 2] x [0, 2]", false},
        {"contracting_dims = [0, 1] x [0, 1]", "contracting_dims = [2] x [2]", true},
    };
    static const char *const types[] = {"tensor<3x1x3x1xf32>", "tensor<3x3xf32>",
                                        "tensor<3x1x1xf32>",   "tensor<1x1xf32>",
                                        "tensor<4x4xf32>",     "tensor<3x1x3x1xf32>"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct key keys[2];
        const char *const *type = types + 2 * i;
        for (int turn = 0; turn < 2; turn++) {
            char ops[2][512], text[2048];
            for (int k = 0; k < 2; k++)
                snprintf(ops[k], sizeof ops[k],
                         "%%%d = stablehlo.dot_general %%x, %%%c, %s : (" WIDE ", " WIDE
                         ") -> %s\n",
                         k, "ab"[k], k ? cases[i].two : cases[i].one, type[k]);
            snprintf(text, sizeof text,
                     "func.func public @main(%%x: " WIDE ", %%a: " WIDE ", %%b: " WIDE
                     ") -> (%s, %s) {\n%s%sreturn %%0, %%1 : %s, %s\n}\n",
                     type[0], type[1], ops[turn], ops[!turn], type[0], type[1]);
            keys[turn] = key_of(text, CANON_MLIR);
        }
        cr_expect_eq(key_equal(&keys[0], &keys[1]), cases[i].moves, "case %zu", i);
    }
}

/* Operations that say less than they should: no operands, no blocks in a region, none that end one. */
Test(products, operations_may_lack_what_they_need)
{
    static const char *const names[] = {"add",
                                        "case",
                                        "clamp",
                                        "compare",
                                        "convert",
                                        "copy",
                                        "dynamic_update_slice",
                                        "gather",
                                        "if",
                                        "map",
                                        "optimization_barrier",
                                        "reduce",
                                        "select",
                                        "sort",
                                        "transpose",
                                        "tuple",
                                        "while"};
    static const char *const forms[] = {
        "() : () -> ", "() ({}, {}) : () -> ", "(%x) ({\n}, {\n}) : (" TYPE ") -> ",
        "(%x) ({\n^bb0(%i: " TYPE "):\n}, {\n^bb0(%j: " TYPE "):\n}) : (" TYPE ") -> ",
        "(%x) ({\n^bb0:\n}, {}) : (" TYPE ") -> "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            char text[1024];
            snprintf(text, sizeof text,
                     "func.func public @main(%%x: " TYPE ", %%a: " TYPE ") -> (" TYPE ", " TYPE
                     ") {\n%%s = \"stablehlo.%s\"%s" TYPE "\n%sreturn %%0, %%s : " TYPE ", " TYPE
                     "\n}\n",
                     names[i], forms[k], product("%0", "%x, %a", ROWS));
            key_of(text, CANON_MLIR);
        }
}

/* Nothing is made of anything then, but one value may be another. */
Test(products, one_that_nothing_calls_meets_none)
{
    cr_expect(moves_in(SCALAR("t", "true", "i1") LINE("select %t, %x, %a : tensor<i1>, " TYPE),
                       "%0 = stablehlo.negate %s : " TYPE "\n",
                       "%1 = stablehlo.abs %b : " TYPE "\n", DOT("%p, %q")));
}

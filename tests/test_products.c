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
    char text[4096];
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
                             "%%%d = stablehlo.atan2 %%%d, %%%d : " TYPE "\n%%c%d = call @%s(%%%d, "
                             "%%%d) : (" TYPE ", " TYPE ") -> " TYPE "\n",
                             i, i - 1, i - 1, i, callee, i, i);
    snprintf(text + at, size - at, "return %%c%d : " TYPE "\n}\n", n);
}

/* Whether all operations move in a module in which the calls of n functions each have n products. */
static bool many_move(int n)
{
    static char text[262144];
    struct key keys[2];
    for (int turn = 0; turn < 2; turn++) {
        const char *ops[] = {"%1 = stablehlo.tanh %a : " TYPE "\n",
                             "%2 = call @h(%b, %b) : (" TYPE ", " TYPE ") -> " TYPE "\n"};
        snprintf(text, sizeof text,
                 "func.func public @main(%%a: " TYPE ", %%b: " TYPE ") -> (" TYPE ", " TYPE
                 ") {\n%s%sreturn %%1, %%2 : " TYPE ", " TYPE "\n}\n%s",
                 ops[turn], ops[!turn],
                 "func.func private @f(%p: " TYPE ", %q: " TYPE ") -> " TYPE
                 " {\n" DOT("%p, %q") "return %r : " TYPE "\n}\n");
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

Test(products, order_counts_in_hlo)
{
#define HLO(first, second)                                                                         \
    "HloModule m\nENTRY %e (x: f32[4,4], a: f32[4,4], b: f32[4,4]) -> (f32[4,4], f32[4,4]) {\n"    \
    "  %x = f32[4,4]{1,0} parameter(0)\n  %a = f32[4,4]{1,0} parameter(1)\n"                       \
    "  %b = f32[4,4]{1,0} parameter(2)\n" first second                                             \
    "  ROOT %t = (f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(%0, %1)\n}\n"
#define HLO_DOT(result, of, left)                                                                  \
    "  " result " = f32[4,4]{1,0} dot(" of "), lhs_contracting_dims={" left "}, "                  \
    "rhs_contracting_dims={0}\n"
    struct key a =
        key_of(HLO(HLO_DOT("%0", "%x, %a", "1"), HLO_DOT("%1", "%x, %b", "1")), CANON_HLO);
    struct key b =
        key_of(HLO(HLO_DOT("%1", "%x, %b", "1"), HLO_DOT("%0", "%x, %a", "1")), CANON_HLO);
    cr_expect(!key_equal(&a, &b));
    a = key_of(HLO(HLO_DOT("%0", "%x, %a", "1"), HLO_DOT("%1", "%x, %b", "0")), CANON_HLO);
    b = key_of(HLO(HLO_DOT("%1", "%x, %b", "0"), HLO_DOT("%0", "%x, %a", "1")), CANON_HLO);
    cr_expect(key_equal(&a, &b));
}

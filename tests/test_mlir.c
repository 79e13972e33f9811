/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mlir.c - the key of MLIR text: what it depends on, what not, and that it never changes by
 * accident. Each fact is a change of one place in a module that has a bit of everything.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "keygen/canon.h"

static int key_of(const char *text, struct canon_result *out, struct err *e)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_MLIR};
    memset(e, 0, sizeof *e);
    return canon_key(&input, out, NULL, e);
}

static struct key good_key(const char *text)
{
    struct canon_result r;
    struct err e;
    int rc = key_of(text, &r, &e);
    cr_assert_eq(rc, 0, "%u:%u: %s in\n%s", e.line, e.column, e.text, text);
    cr_assert(!r.exact);
    return r.key;
}

static bool same(const char *a, const char *b)
{
    struct key x = good_key(a), y = good_key(b);
    return key_equal(&x, &y);
}

/* `text` with each `from` replaced by `to`; free() it. */
static char *changed(const char *text, const char *from, const char *to)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, from)); p += strlen(from))
        n++;
    cr_assert(n > 0, "'%s' is not in the text", from);
    char *out = malloc(strlen(text) + n * strlen(to) + 1), *at = out;
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        memcpy(at, text, (size_t)(p - text));
        at += p - text;
        strcpy(at, to);
        at += strlen(to);
    }
    strcpy(at, text);
    return out;
}

static const char model[] =
    "module @jit_step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {\n"
    "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
    "  func.func public @main(%arg0: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}, "
    "%arg1: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>}, "
    "%arg2: tensor<i32>) -> (tensor<4x4xf32> {jax.result_info = \"result\"}, tensor<4x4xf32>) {\n"
    "    %cst = stablehlo.constant dense<0x7FC00001> : tensor<f32>\n"
    "    %cst_0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
    "    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], "
    "precision = [DEFAULT, HIGHEST] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>\n"
    "    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4xf32>\n"
    "    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>\n"
    "    %3 = stablehlo.compare GT, %0, %1, FLOAT : (tensor<4x4xf32>, tensor<4x4xf32>) -> "
    "tensor<4x4xi1>\n"
    "    %4 = stablehlo.select %3, %0, %2 : tensor<4x4xi1>, tensor<4x4xf32>\n"
    "    %5 = call @inner(%4, %arg2) : (tensor<4x4xf32>, tensor<i32>) -> tensor<4x4xf32>\n"
    "    %6 = \"stablehlo.all_reduce\"(%5) <{channel_handle = #stablehlo.channel_handle<handle = "
    "7, "
    "type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({\n"
    "    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):\n"
    "      %8 = stablehlo.add %arg3, %arg4 : tensor<f32>\n"
    "      stablehlo.return %8 : tensor<f32>\n"
    "    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>\n"
    "    %7 = stablehlo.subtract %6, %2 : tensor<4x4xf32>\n"
    "    return %7, %6 : tensor<4x4xf32>, tensor<4x4xf32>\n"
    "  }\n"
    "  func.func private @inner(%arg0: tensor<4x4xf32>, %arg1: tensor<i32>) -> tensor<4x4xf32> {\n"
    "    %c = stablehlo.constant dense<0> : tensor<i32>\n"
    "    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<4x4xf32>\n"
    "    cond {\n"
    "      %1 = stablehlo.compare LT, %iterArg, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> "
    "tensor<i1>\n"
    "      stablehlo.return %1 : tensor<i1>\n"
    "    } do {\n"
    "      %c_1 = stablehlo.constant dense<1> : tensor<i32>\n"
    "      %1 = stablehlo.add %iterArg, %c_1 : tensor<i32>\n"
    "      %2 = stablehlo.tanh %iterArg_0 : tensor<4x4xf32>\n"
    "      stablehlo.return %1, %2 : tensor<i32>, tensor<4x4xf32>\n"
    "    }\n"
    "    return %0#1 : tensor<4x4xf32>\n"
    "  }\n"
    "}\n";

static void expect_same(const char *from, const char *to)
{
    char *other = changed(model, from, to);
    cr_expect(same(model, other), "'%s' -> '%s' must keep the key", from, to);
    free(other);
}

static void expect_different(const char *from, const char *to)
{
    char *other = changed(model, from, to);
    cr_expect(!same(model, other), "'%s' -> '%s' must change the key", from, to);
    free(other);
}

Test(mlir, each_part_that_counts_changes_the_key)
{
    static const char *const changes[][2] = {
        {"num_partitions = 4", "num_partitions = 8"},
        {"\"y\"=2", "\"y\"=4"},
        {"tf.aliasing_output = 0", "tf.aliasing_output = 1"},
        {" {tf.aliasing_output = 0 : i32}", ""},
        {" {tf.aliasing_output = 0 : i32}", " {jax.buffer_donor = true}"},
        {"[{\"x\"}, {\"y\"}]", "[{\"y\"}, {\"x\"}]"},
        {"[{\"x\"}, {\"y\"}]", "[{\"x\"}, {}]"},
        {"0x7FC00001", "0x7FC00002"},
        {"0x7FC00001", "0x7F800001"},
        {"[1.0, 2.0, 3.0, 4.0]", "[1.0, 2.0, 4.0, 3.0]"},
        {"[1.0, 2.0, 3.0, 4.0]", "[1.0, 2.0, 3.0, 4.0000005]"},
        {"[1.0, 2.0, 3.0, 4.0]", "[-0.0, 2.0, 3.0, 4.0]"},
        {"[DEFAULT, HIGHEST]", "[HIGHEST, DEFAULT]"},
        {"dims = [1]", "dims = [0]"},
        {"compare GT", "compare GE"},
        {", FLOAT", ", TOTALORDER"},
        {"select %3, %0, %2", "select %3, %2, %0"},
        {"subtract %6, %2", "subtract %2, %6"},
        {"return %7, %6", "return %6, %7"},
        {"[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]"},
        {"type = 1>", "type = 0>"},
        {"handle = 7", "handle = 0"},
        {"%8 = stablehlo.add", "%8 = stablehlo.multiply"},
        {"dense<1> : tensor<i32>", "dense<2> : tensor<i32>"},
        {"compare LT, %iterArg, %arg1, SIGNED", "compare LT, %arg1, %iterArg, SIGNED"},
        {"stablehlo.tanh", "stablehlo.sine"},
        {"%arg3, %arg4 :", "%arg4, %arg3 :"},
        {"add %iterArg, %c_1", "add %c_1, %iterArg"},
        {"tensor<i32>", "tensor<i64>"},
        {"4x4xf32>", "4x4xbf16>"},
        {"4x4xf32>", "4x4xf16>"},
        {"4x8xf32>", "6x8xf32>"},
        {"0x7FC00001", "0x7FC00003"},
        {"call @inner(%4", "call @inner(%0"},
        {"<4x8xf32>", "<4x8xf32, #stablehlo.bounds<4, 8>>"},
        {"{tf.aliasing_output = 0 : i32}",
         "{mhlo.layout_mode = \"{0,1}\", tf.aliasing_output = 0 : i32}"},
        {"tensor<i32>", "tensor<ui32>"},
        {"tensor<i32>", "tensor<si32>"},
        {"%arg3, %arg4 :", "%arg4, %arg3 :"},
        {"add %iterArg, %c_1", "add %c_1, %iterArg"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        expect_different(changes[i][0], changes[i][1]);
}

Test(mlir, each_name_that_does_not_count_keeps_the_key)
{
    expect_same("@jit_step", "@module_0076.reactant_loop");
    expect_same("@main", "@train");
    expect_same("@inner", "@closed_call_17");
    expect_same("@mesh", "@empty_mesh");
    expect_same("\"x\"", "\"data\"");
    expect_same("%arg3", "%lhs");
    expect_same("%iterArg", "%carry");
    expect_same("%cst_0", "%42");
    expect_same("^bb0", "^entry");
    expect_same("handle = 7", "handle = 1234");
    expect_same("jax.result_info = \"result\"", "jax.result_info = \"result['loss']\"");
    expect_same(" {jax.result_info = \"result\"}", "");
    expect_same(" {jax.result_info = \"result\"}", " {mhlo.layout_mode = \"default\"}");
    expect_same("\n", " // a comment\n");
    expect_same("    ", "\t");
    expect_same(", ", " , \n ");
    expect_same("}\n", "} loc(\"f.py\":3:4)\n");
    expect_same("dense<0x7FC00001>", "dense<\"0x0100C07F\">");
    expect_same("[1.0, 2.0, 3.0, 4.0]", "\"0x0000803F000000400000404000008040\"");
    expect_same("%1 = stablehlo.broadcast_in_dim",
                "%dead = stablehlo.negate %cst : tensor<f32>\n%1 = stablehlo.broadcast_in_dim");
}

#define FUNC(args, body) "func.func @main(" args ") -> tensor<4xf32> {\n" body "\n}\n"

Test(mlir, independent_operations_may_stand_in_any_order)
{
    cr_expect(same(FUNC("%a: tensor<4xf32>", "%0 = stablehlo.sine %a : tensor<4xf32>\n"
                                             "%1 = stablehlo.cosine %a : tensor<4xf32>\n"
                                             "%2 = stablehlo.divide %0, %1 : tensor<4xf32>\n"
                                             "return %2 : tensor<4xf32>"),
                   FUNC("%a: tensor<4xf32>", "%1 = stablehlo.cosine %a : tensor<4xf32>\n"
                                             "%0 = stablehlo.sine %a : tensor<4xf32>\n"
                                             "%2 = stablehlo.divide %0, %1 : tensor<4xf32>\n"
                                             "return %2 : tensor<4xf32>")));
}

Test(mlir, a_constant_is_the_same_inside_and_outside_of_a_region)
{
    static const char form[] =
        "func.func public @main(%%a: tensor<i32>, %%n: tensor<i32>) -> tensor<i32> {\n%s"
        "  %%0 = stablehlo.while(%%i = %%a) : tensor<i32>\n  cond {\n"
        "    %%1 = stablehlo.compare LT, %%i, %%n, SIGNED : (tensor<i32>, tensor<i32>) -> "
        "tensor<i1>\n    stablehlo.return %%1 : tensor<i1>\n  } do {\n%s"
        "    %%2 = stablehlo.subtract %%i, %%c : tensor<i32>\n"
        "    %%3 = stablehlo.subtract %%2, %s : tensor<i32>\n"
        "    stablehlo.return %%3 : tensor<i32>\n  }\n"
        "  return %%0 : tensor<i32>\n}\n";
    static const char one[] = "    %c = stablehlo.constant dense<1> : tensor<i32>\n";
    static const char two[] = "    %c = stablehlo.constant dense<2> : tensor<i32>\n";
    static const char sum[] = "    %c = stablehlo.subtract %a, %n : tensor<i32>\n";
    char inside[1024], outside[1024], other[1024], value[1024], within[1024];
    snprintf(inside, sizeof inside, form, "", one, "%c");
    snprintf(outside, sizeof outside, form, one, "", "%c");
    snprintf(other, sizeof other, form, two, "", "%c");
    snprintf(value, sizeof value, form, sum, "", "%c");
    snprintf(within, sizeof within, form, "", sum, "%c");
    cr_expect(same(inside, outside));
    cr_expect(!same(outside, other), "another constant");
    cr_expect(!same(value, within), "what depends on something stands where it stands");
}

#define F32 "tensor<f32>"
#define V32 "tensor<8xf32>"
/* A reduction of %arg to %name with a body of one operation. */
#define REDUCTION(name, arg, op)                                                                   \
    name " = \"stablehlo.reduce\"(" arg ", %z) <{dimensions = array<i64: 0>}> ({ ^bb0(%a: " F32    \
         ", %b: " F32 "): %c = \"stablehlo." op "\"(%a, %b) : (" F32 ", " F32 ") -> " F32          \
         " \"stablehlo.return\"(%c) : (" F32 ") -> () }) : (" V32 ", " F32 ") -> " F32 "\n"
#define ZERO "%z = stablehlo.constant dense<0.0> : " F32 "\n"
#define SUMS(body)                                                                                 \
    "func.func public @main(%x: " V32 ", %y: " V32 ") -> (" F32 ", " F32 ") {\n" ZERO body         \
    "return %0, %1 : " F32 ", " F32 "\n}\n"

Test(mlir, regions_that_come_again_mean_what_they_mean_alone)
{
    static const char two_sums[] = SUMS(REDUCTION("%0", "%x", "add") REDUCTION("%1", "%y", "add"));
    static const char turned[] = SUMS(REDUCTION("%1", "%y", "add") REDUCTION("%0", "%x", "add"));
    static const char sum_max[] =
        SUMS(REDUCTION("%0", "%x", "add") REDUCTION("%1", "%y", "maximum"));
    static const char sum_max_turned[] =
        SUMS(REDUCTION("%1", "%y", "maximum") REDUCTION("%0", "%x", "add"));
    static const char max_sum[] =
        SUMS(REDUCTION("%0", "%x", "maximum") REDUCTION("%1", "%y", "add"));
    cr_assert(same(two_sums, turned));
    cr_assert(same(sum_max, sum_max_turned));
    cr_assert(!same(two_sums, sum_max));
    cr_assert(!same(sum_max, max_sum));
}

Test(mlir, a_region_that_takes_from_outside_is_no_other)
{
    /* the same body but for where its second operand comes from */
    static const char inside[] = SUMS(REDUCTION("%0", "%x", "add") REDUCTION("%1", "%y", "add"));
    char *outside = changed(inside, "return %0, %1", "return %0, %2");
    char *taken = changed(outside, "%1 = \"stablehlo.reduce\"(%y",
                          "%1 = stablehlo.negate %0 : " F32 "\n%2 = \"stablehlo.reduce\"(%y");
    char *first = strstr(taken, "%2 = "), *operand = strstr(first, "\"(%a, %b)");
    char *closed = strdup(taken);
    operand[strlen("\"(%a, %")] = '1';
    cr_assert(!same(taken, closed));
    free(closed);
    free(taken);
    free(outside);
}

Test(mlir, equal_constants_that_are_moved_are_one)
{
#define SPREAD(name)                                                                               \
    name " = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>\n"
    static const char two[] =
        FUNC("%a: tensor<4xf32>", "%c = stablehlo.constant dense<2.0> : tensor<f32>\n" SPREAD("%0")
                                      SPREAD("%1") "%2 = stablehlo.divide %0, %1 : "
                                                   "tensor<4xf32>\nreturn %2 : tensor<4xf32>");
    static const char one[] =
        FUNC("%a: tensor<4xf32>",
             "%c = stablehlo.constant dense<2.0> : tensor<f32>\n" SPREAD(
                 "%0") "%2 = stablehlo.divide %0, %0 : tensor<4xf32>\nreturn %2 : tensor<4xf32>");
    cr_expect(same(one, two));
#undef SPREAD
}

/* What a compiler that divides a program among devices reads of it as it is written, in two ways. */
static const char *const divided[][2] = {
    {"%0 = stablehlo.add %x, %y : tensor<4xi32>\n", "%0 = stablehlo.add %y, %x : tensor<4xi32>\n"},
    {"%c = stablehlo.constant dense<[5, 6]> : tensor<2xi32>\n"
     "%i = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<2xi32>) -> tensor<2x2xi32>\n"
     "%j = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<2xi32>) -> tensor<2x2xi32>\n"
     "%0 = stablehlo.divide %i, %j : tensor<2x2xi32>\n",
     "%c = stablehlo.constant dense<[5, 6]> : tensor<2xi32>\n"
     "%i = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<2xi32>) -> tensor<2x2xi32>\n"
     "%0 = stablehlo.divide %i, %i : tensor<2x2xi32>\n"},
    {"%0 = call @f(%x) : (tensor<4xi32>) -> tensor<4xi32>\n",
     "%0 = stablehlo.negate %x : tensor<4xi32>\n"},
};

/* Has the program the same key in both ways? */
static bool same_divided(const char *const ways[2], const char *module, const char *argument)
{
    char *text[2];
    for (int i = 0; i < 2; i++) {
        const char *type = strstr(ways[i], "2x2xi32") ? "tensor<2x2xi32>" : "tensor<4xi32>";
        cr_assert(asprintf(&text[i],
                           "module%s {\nfunc.func public @main(%%x: tensor<4xi32>%s, "
                           "%%y: tensor<4xi32>) -> %s {\n%sreturn %%0 : %s\n}\n"
                           "func.func private @f(%%x: tensor<4xi32>) -> tensor<4xi32> {\n"
                           "%%0 = stablehlo.negate %%x : tensor<4xi32>\nreturn %%0 : "
                           "tensor<4xi32>\n}\n}\n",
                           module, argument, type, ways[i], type) > 0);
    }
    bool equal = same(text[0], text[1]);
    free(text[0]);
    free(text[1]);
    return equal;
}

Test(mlir, what_divides_a_program_among_devices_reads_it_as_it_is_written)
{
    static const char *const one[] = {
        "", " attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}"};
    static const char *const several[] = {
        " attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}",
        " attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 12 : i32}",
        " attributes {a.num_partitions = 1 : i32, mhlo.num_partitions = 2 : i32}",
        " attributes {mhlo.frontend_attributes = {xla.sdy.meshes = \"{mesh = 1}\"}}"};
    for (size_t i = 0; i < sizeof divided / sizeof *divided; i++) {
        for (size_t k = 0; k < sizeof one / sizeof *one; k++)
            cr_expect(same_divided(divided[i], one[k], ""), "%s", divided[i][0]);
        for (size_t k = 0; k < sizeof several / sizeof *several; k++)
            cr_expect(!same_divided(divided[i], several[k], ""), "%s", divided[i][0]);
        static const char lies[] = " {mhlo.sharding = \"{devices=[2]<=[2]}\"}";
        cr_expect(!same_divided(divided[i], "", lies));
        cr_expect(same_divided(divided[i], one[1], lies), "all of it lies on the one device");
    }
}

Test(mlir, constants_are_one_on_several_devices_too)
{
    static const char *const ways[2] = {
        "%c = stablehlo.constant dense<5> : tensor<4xi32>\n"
        "%d = stablehlo.constant dense<5> : tensor<4xi32>\n"
        "%0 = stablehlo.divide %c, %d : tensor<4xi32>\n",
        "%c = stablehlo.constant dense<5> : tensor<4xi32>\n"
        "%0 = stablehlo.divide %c, %c : tensor<4xi32>\n"};
    cr_expect(same_divided(
        ways, " attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}", ""));
}

Test(mlir, a_constraint_that_nothing_uses_says_how_its_operand_lies)
{
    expect_different("%1 = stablehlo.broadcast_in_dim",
                     "%dead = sdy.sharding_constraint %cst <@mesh, []> : tensor<f32>\n"
                     "%1 = stablehlo.broadcast_in_dim");
    expect_different("%1 = stablehlo.broadcast_in_dim",
                     "%dead = sdy.sharding_constraint %cst <mesh<[\"x\"=2]>, []> : tensor<f32>\n"
                     "%1 = stablehlo.broadcast_in_dim");
    expect_different("%1 = stablehlo.broadcast_in_dim",
                     "%dead = stablehlo.custom_call @Sharding(%cst) {mhlo.sharding = "
                     "\"{replicated}\"} : (tensor<f32>) -> tensor<f32>\n"
                     "%1 = stablehlo.broadcast_in_dim");
}

Test(mlir, a_region_may_stand_in_a_function_further_down_too)
{
    static const char caller[] =
        "func.func public @main(%x: " V32 ") -> " F32 " {\n" ZERO "%1 = call @sum(%x) : (" V32
        ") -> " F32 "\n" REDUCTION("%0", "%x", "add") "%2 = stablehlo.subtract %0, %1 : " F32
                                                      "\nreturn %2 : " F32 "\n}\n";
    static const char callee[] =
        "func.func private @sum(%x: " V32 ") -> " F32
        " {\n" ZERO REDUCTION("%0", "%x", "add") "return %0 : " F32 "\n}\n";
    static const char alone[] =
        "func.func public @main(%x: " V32 ") -> " F32 " {\n" ZERO REDUCTION("%1", "%x", "add")
            REDUCTION("%0", "%x", "add") "%2 = stablehlo.subtract %0, %1 : " F32
                                         "\nreturn %2 : " F32 "\n}\n";
    char before[4096], after[4096];
    snprintf(before, sizeof before, "%s%s", callee, caller);
    snprintf(after, sizeof after, "%s%s", caller, callee);
    cr_assert(same(before, after));
    cr_assert(same(before, alone));
}

/* A loop that needs no truth values, whose numbers have other numbers of bits. */
Test(mlir, a_reduction_is_the_same_when_its_function_is_called_in_a_loop)
{
#define LOOP(step, more)                                                                           \
    "func.func public @main(%x: " V32 ") -> " V32 " {\n"                                           \
    "%0 = \"x.loop\"(%x) ({ ^bb0(%v: " V32 "): " step                                              \
    "%w = \"stablehlo.broadcast_in_dim\"(%s) <{broadcast_dimensions = array<i64>}> : (" F32        \
    ") -> " V32 " \"stablehlo.return\"(%w) : (" V32 ") -> () }) : (" V32 ") -> " V32               \
    "\nreturn %0 : " V32 "\n}\n" more
    static const char called[] =
        LOOP("%s = \"func.call\"(%v) <{callee = @sum}> : (" V32 ") -> " F32 "\n",
             "func.func private @sum(%x: " V32 ") -> " F32
             " {\n" ZERO REDUCTION("%0", "%x", "add") "return %0 : " F32 "\n}\n");
    static const char inlined[] = LOOP(ZERO REDUCTION("%s", "%v", "add"), "");
    static const char other[] = LOOP(ZERO REDUCTION("%s", "%v", "minimum"), "");
    cr_assert(same(called, inlined));
    cr_assert(!same(called, other));
#undef LOOP
}

Test(mlir, constants_that_are_written_over_and_over_are_one)
{
    static const char once[] =
        "func.func public @main(%x: " V32 ") -> " V32 " {\n"
        "%c = stablehlo.constant dense<2.0> : " F32 "\n"
        "%b = stablehlo.broadcast_in_dim %c, dims = [] : (" F32 ") -> " V32 "\n"
        "%0 = stablehlo.subtract %x, %b : " V32 "\n"
        "%1 = stablehlo.divide %0, %b : " V32 "\nreturn %1 : " V32 "\n}\n";
    static const char twice[] =
        "func.func public @main(%x: " V32 ") -> " V32 " {\n"
        "%c = stablehlo.constant dense<2.0> : " F32 "\n"
        "%b = stablehlo.broadcast_in_dim %c, dims = [] : (" F32 ") -> " V32 "\n"
        "%0 = stablehlo.subtract %x, %b : " V32 "\n"
        "%c2 = stablehlo.constant dense<2.0> : " F32 "\n"
        "%b2 = stablehlo.broadcast_in_dim %c2, dims = [] : (" F32 ") -> " V32 "\n"
        "%1 = stablehlo.divide %0, %b2 : " V32 "\nreturn %1 : " V32 "\n}\n";
    char *other = changed(twice, "%c2 = stablehlo.constant dense<2.0>",
                          "%c2 = stablehlo.constant dense<3.0>");
    cr_assert(same(once, twice));
    cr_assert(!same(once, other));
    free(other);
}

Test(mlir, a_decimal_is_the_double_that_the_c_library_reads)
{
    static const char *const decimals[] = {"0.1",
                                           "-0.0",
                                           "9.99999993E-9",
                                           "0.899999976",
                                           "1.500000e-01",
                                           "1.0e+22",
                                           "1.0e22",
                                           "1.0e+23",
                                           "123456789012345.0",
                                           "1234567890123456.7",
                                           "8.5e-22",
                                           "1.25e-21",
                                           "0.000000000000001",
                                           "0.30000000000000004",
                                           "-2.560000e+02",
                                           "4.9e-324",
                                           "9.99e-0005",
                                           "1.7976931348623157e+308"};
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals; i++) {
        char said[256], bits[256];
        double d = strtod(decimals[i], NULL);
        uint64_t raw;
        memcpy(&raw, &d, sizeof raw);
        static const char form[] = "func.func public @main() -> tensor<f64> {\n"
                                   "%%0 = stablehlo.constant dense<%s> : tensor<f64>\n"
                                   "return %%0 : tensor<f64>\n}\n";
        char hex[32];
        snprintf(hex, sizeof hex, "0x%016" PRIX64, raw);
        snprintf(said, sizeof said, form, decimals[i]);
        snprintf(bits, sizeof bits, form, hex);
        cr_assert(same(said, bits), "%s", decimals[i]);
    }
}

Test(mlir, a_sharding_rule_among_the_frontend_attributes_is_the_attribute)
{
    static const char form[] =
        "func.func public @main(%%a: tensor<4x4xf32>) -> tensor<4x4xf32> {\n"
        "  %%0 = stablehlo.custom_call @f(%%a) {%s} : (tensor<4x4xf32>) -> tensor<4x4xf32>\n"
        "  return %%0 : tensor<4x4xf32>\n}\n";
    static const char *const dicts[] = {
        "mhlo.frontend_attributes = {n = \"0\"}, sdy.sharding_rule = "
        "#sdy.op_sharding_rule<([i, j]) -> ([i, j]) {i = 4, j = 4}, custom>",
        "mhlo.frontend_attributes = {n = \"0\", xla.sdy.sharding_rule = "
        "\"#sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=4}, custom>\"}",
        "mhlo.frontend_attributes = {n = \"1\", xla.sdy.sharding_rule = "
        "\"#sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=4}, custom>\"}",
        "mhlo.frontend_attributes = {n = \"0\", xla.sdy.sharding_rule = "
        "\"#sdy.op_sharding_rule<([i, j])->([j, i]) {i=4, j=4}, custom>\"}",
        "mhlo.frontend_attributes = {n = \"0\", xla.sdy.sharding_rule = \"another\"}",
        "mhlo.frontend_attributes = {n = \"0\"}",
    };
    char text[6][512];
    for (size_t i = 0; i < 6; i++)
        snprintf(text[i], sizeof text[i], form, dicts[i]);
    cr_expect(same(text[0], text[1]));
    for (size_t i = 2; i < 6; i++)
        cr_expect(!same(text[0], text[i]), "%s", dicts[i]);
}

Test(mlir, equal_constants_are_one_but_nothing_else_is)
{
    static const char two[] =
        FUNC("%a: tensor<4xf32>", "%0 = stablehlo.constant dense<2.0> : tensor<4xf32>\n"
                                  "%1 = stablehlo.constant dense<2.0> : tensor<4xf32>\n"
                                  "%2 = stablehlo.divide %a, %0 : tensor<4xf32>\n"
                                  "%3 = stablehlo.divide %2, %1 : tensor<4xf32>\n"
                                  "return %3 : tensor<4xf32>");
    static const char one[] =
        FUNC("%a: tensor<4xf32>", "%0 = stablehlo.constant dense<2.0> : tensor<4xf32>\n"
                                  "%2 = stablehlo.divide %a, %0 : tensor<4xf32>\n"
                                  "%3 = stablehlo.divide %2, %0 : tensor<4xf32>\n"
                                  "return %3 : tensor<4xf32>");
    cr_expect(same(one, two));
    static const char *const others[] = {
        "stablehlo.tanh %a : tensor<4xf32>",
        "stablehlo.iota dim = 0 : tensor<4xf32>",
        "stablehlo.reshape %a : (tensor<4xf32>) -> tensor<4xf32>",
        "stablehlo.optimization_barrier %a : tensor<4xf32>",
        "stablehlo.custom_call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *a = changed(one, "stablehlo.constant dense<2.0> : tensor<4xf32>", others[i]);
        char *b = changed(two, "stablehlo.constant dense<2.0> : tensor<4xf32>", others[i]);
        cr_expect(!same(a, b), "%s", others[i]);
        free(a);
        free(b);
    }
}

Test(mlir, a_call_is_the_function_in_its_place)
{
    static const char called[] =
        FUNC("%a: tensor<4xf32>",
             "%0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
             "%1 = call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %1 : "
             "tensor<4xf32>") "func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                              "%0 = stablehlo.tanh %x : tensor<4xf32>\nreturn %0 : "
                              "tensor<4xf32>\n}\n";
    static const char written_out[] =
        FUNC("%a: tensor<4xf32>", "%0 = stablehlo.tanh %a : tensor<4xf32>\n"
                                  "%1 = stablehlo.tanh %0 : tensor<4xf32>\n"
                                  "return %1 : tensor<4xf32>");
    cr_expect(same(called, written_out));
    char *kept = changed(called, "private @f(%x: tensor<4xf32>) -> tensor<4xf32>",
                         "private @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline}");
    cr_expect(!same(kept, written_out), "an attribute of the function counts");
    char *renamed = changed(kept, "@f", "@g");
    cr_expect(same(kept, renamed));
    free(renamed);
    free(kept);
}

Test(mlir, what_is_computed_from_constants_beside_a_call_is_not_what_is_without)
{
#define LOG                                                                                        \
    "%c = stablehlo.constant dense<3.0> : tensor<4xf32>\n%l = stablehlo.log %c : tensor<4xf32>\n"  \
    "%r = stablehlo.subtract %0, %l : tensor<4xf32>\nreturn %r : tensor<4xf32>"
    static const char called[] =
        FUNC("%a: tensor<4xf32>",
             "%0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n" LOG) "func.func private "
                                                                          "@f(%x: tensor<4xf32>) "
                                                                          "-> tensor<4xf32> {\n"
                                                                          "%0 = stablehlo.tanh %x "
                                                                          ": tensor<4xf32>\nreturn "
                                                                          "%0 : tensor<4xf32>\n}\n";
    static const char written_out[] =
        FUNC("%a: tensor<4xf32>", "%0 = stablehlo.tanh %a : tensor<4xf32>\n" LOG);
#undef LOG
    cr_expect(!same(called, written_out));
    static const char log[] = "%l = stablehlo.log %c";
    char *moved = changed(called, log, "%l = stablehlo.negate %a");
    char *moved_out = changed(written_out, log, "%l = stablehlo.negate %a");
    cr_expect(same(moved, moved_out), "without what is computed from constants they are one");
    free(moved_out);
    free(moved);
}

/* What a call is given stays in use until the compiler inlines it. */
Test(mlir, a_call_that_needs_not_all_is_not_what_stands_there)
{
#define CALL(body)                                                                                 \
    FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>",                                                   \
         "%0 = call @f(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"                \
         "return %0 : tensor<4xf32>")                                                              \
    "func.func private @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n" body         \
    "return %0 : tensor<4xf32>\n}\n"
#define HERE(body) FUNC("%x: tensor<4xf32>, %y: tensor<4xf32>", body "return %0 : tensor<4xf32>")
#define TANH "%0 = stablehlo.tanh %x : tensor<4xf32>\n"
#define UNUSED TANH "%1 = stablehlo.negate %y : tensor<4xf32>\n"
#define BOTH "%0 = stablehlo.subtract %x, %y : tensor<4xf32>\n"
    cr_expect(same(CALL(BOTH), HERE(BOTH)));
    cr_expect(!same(CALL(TANH), HERE(TANH)));
    cr_expect(!same(CALL(UNUSED), HERE(TANH)));
    cr_expect(same(CALL(UNUSED), CALL(TANH)) && same(HERE(UNUSED), HERE(TANH)));
}

/* No module is like that, but texts may be. */
Test(mlir, a_function_that_uses_a_value_of_the_module_has_a_key)
{
    static const char text[] = "module {\n%0 = \"x.op\"() {f = @f} : () -> tensor<f32>\n"
                               "func.func private @f() -> tensor<f32> {\n"
                               "%1 = stablehlo.tanh %0 : tensor<f32>\n"
                               "return %1 : tensor<f32>\n}\n}\n";
    char *other = changed(text, "tanh", "sine");
    cr_expect(same(text, text) && !same(text, other));
    free(other);
}

/* A compiler knows of a call only later that nothing comes of it. */
Test(mlir, a_call_of_which_nothing_is_needed_counts)
{
#define WITH(dead, more)                                                                           \
    FUNC("%a: tensor<4xf32>", "%t = stablehlo.tanh %a : tensor<4xf32>\n" dead                      \
                              "%0 = stablehlo.sine %a : tensor<4xf32>\nreturn %0 : "               \
                              "tensor<4xf32>")                                                     \
    more
#define F                                                                                          \
    "func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n%0 = stablehlo.cosine %x : "      \
    "tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n"
#define CALL_F "%d = func.call @f(%t) : (tensor<4xf32>) -> tensor<4xf32>\n"
#define WRITTEN "%d = stablehlo.cosine %t : tensor<4xf32>\n"
#define BRANCH(body)                                                                               \
    "%p = stablehlo.constant dense<false> : tensor<i1>\n%b = \"stablehlo.if\"(%p) ({ " body        \
    "\"stablehlo.return\"(%d) : (tensor<4xf32>) -> () }, { \"stablehlo.return\"(%t) : "            \
    "(tensor<4xf32>) -> () }) : (tensor<i1>) -> tensor<4xf32>\n"
    cr_expect(same(WITH("", F), WITH(WRITTEN, "")));
    cr_expect(!same(WITH("", F), WITH(CALL_F, F)));
    cr_expect(same(WITH("", F), WITH(BRANCH(WRITTEN), "")));
    cr_expect(!same(WITH("", F), WITH(BRANCH(CALL_F), F)));
    static const char in_function[] =
        FUNC("%a: tensor<4xf32>", "%0 = call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
                                  "return %0 : tensor<4xf32>") F
        "func.func private @g(%a: tensor<4xf32>) -> tensor<4xf32> {\n%t = stablehlo.tanh %a : "
        "tensor<4xf32>\n" CALL_F "%0 = stablehlo.sine %a : tensor<4xf32>\nreturn %0 : "
        "tensor<4xf32>\n}\n";
    cr_expect(!same(WITH("", F), in_function));
}

/* What a loop hands on as it is, a compiler takes out of it; but not through a call. */
Test(mlir, what_goes_through_a_call_in_a_loop_as_it_is_counts)
{
#define HANDS_ON(step, more)                                                                       \
    "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"                               \
    "%0 = \"x.loop\"(%a) ({ ^bb0(%c: tensor<4xf32>): " step                                        \
    "\"stablehlo.return\"(%k) : (tensor<4xf32>) -> () }) : (tensor<4xf32>) -> tensor<4xf32>\n"     \
    "return %0 : tensor<4xf32>\n}\n" more
#define STEP(f) "%k = " f "(%c) : (tensor<4xf32>) -> tensor<4xf32>\n"
#define STEP_AS(f)                                                                                 \
    "func.func private @f(%c: tensor<4xf32>) -> tensor<4xf32> {\n" STEP(f) "return %k : "          \
    "tensor<4xf32>\n}\n"
#define CALL_IN_LOOP STEP("func.call @f")
#define RESHAPE_OF "\"stablehlo.reshape\""
#define TANH_OF "\"stablehlo.tanh\""
    cr_expect(!same(HANDS_ON(STEP(RESHAPE_OF), ""), HANDS_ON(CALL_IN_LOOP, STEP_AS(RESHAPE_OF))));
    cr_expect(same(HANDS_ON(STEP(TANH_OF), ""), HANDS_ON(CALL_IN_LOOP, STEP_AS(TANH_OF))));
}

/* Compilers hand to a loop what it takes from outside, needed or not. */
Test(mlir, what_a_loop_takes_from_outside_counts)
{
#define IN_LOOP(body)                                                                              \
    FUNC("%x: tensor<4xf32>, %y: tensor<4xf32>",                                                   \
         "%t = stablehlo.tanh %y : tensor<4xf32>\n%c = stablehlo.constant dense<2.0> : "           \
         "tensor<4xf32>\n%0 = \"stablehlo.while\"(%x) ({ ^bb0(%v: tensor<4xf32>): %p = "           \
         "stablehlo.constant dense<false> : tensor<i1> \"stablehlo.return\"(%p) : (tensor<i1>) "   \
         "-> () }, { ^bb0(%v: tensor<4xf32>): " body                                               \
         " %w = stablehlo.sine %v : tensor<4xf32> \"stablehlo.return\"(%w) : (tensor<4xf32>) -> "  \
         "() }) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0, %t : tensor<4xf32>, tensor<4xf32>")
    cr_expect(same(IN_LOOP(""), IN_LOOP("%d = stablehlo.negate %v : tensor<4xf32>\n")));
    cr_expect(same(IN_LOOP(""), IN_LOOP("%d = stablehlo.add %v, %c : tensor<4xf32>\n")));
    cr_expect(!same(IN_LOOP(""), IN_LOOP("%d = stablehlo.add %v, %t : tensor<4xf32>\n")));
    cr_expect(!same(IN_LOOP("%d = stablehlo.add %x, %t : tensor<4xf32>\n"),
                    IN_LOOP("%d = stablehlo.add %v, %t : tensor<4xf32>\n")));
}

/* A compiler comes to the users of a value in another order where a call is among them. That decides what it
 * computes together with a sum, and where not all numbers have as many bits, how it adds. */
Test(mlir, a_call_is_not_what_stands_there_where_numbers_have_not_all_as_many_bits)
{
#define USERS(type, what, more)                                                                    \
    FUNC("%x: tensor<4xf32>, %y: tensor<4x" type ">",                                              \
         "%t = stablehlo.tanh %x : tensor<4xf32>\n%0 = " what                                      \
         "%1 = stablehlo.convert %y : (tensor<4x" type ">) -> tensor<4xf32>\n"                     \
         "%2 = stablehlo.power %0, %1 : tensor<4xf32>\nreturn %2 : tensor<4xf32>")                 \
    more
#define IS_ONE(type, what)                                                                         \
    same(USERS(type, what, ""),                                                                    \
         USERS(type, "call @f(%t) : (tensor<4xf32>) -> tensor<4xf32>\n",                           \
               "func.func private @f(%t: tensor<4xf32>) -> tensor<4xf32> {\n%r = " what            \
               "return %r : tensor<4xf32>\n}\n"))
#define TWICE "stablehlo.atan2 %t, %t : tensor<4xf32>\n"
    cr_expect(IS_ONE("f32", TWICE) && IS_ONE("i32", TWICE) && IS_ONE("ui32", TWICE));
    cr_expect(!IS_ONE("bf16", TWICE) && !IS_ONE("i1", TWICE) && !IS_ONE("f64", TWICE));
    cr_expect(!IS_ONE("complex<f32>", TWICE) && !IS_ONE("f8E4M3FN", TWICE));
}

/* For the same reason only what nothing stands behind may change places there. */
Test(mlir, operands_keep_their_order_where_numbers_have_not_all_as_many_bits)
{
#define SWAPPED_IN(type, a, b)                                                                     \
    (same(FUNC("%x: tensor<4xf32>, %y: tensor<4x" type ">", IN_ORDER(a, b)),                       \
          FUNC("%x: tensor<4xf32>, %y: tensor<4x" type ">", IN_ORDER(b, a))))
#define IN_ORDER(a, b)                                                                             \
    "%s = stablehlo.sine %x : tensor<4xf32>\n%c = stablehlo.cosine %x : tensor<4xf32>\n"           \
    "%k = stablehlo.constant dense<3.0> : tensor<4xf32>\n"                                         \
    "%0 = stablehlo.multiply " a ", " b " : tensor<4xf32>\nreturn %0 : tensor<4xf32>"
    cr_expect(SWAPPED_IN("f32", "%s", "%c") && SWAPPED_IN("i32", "%s", "%x"));
    cr_expect(!SWAPPED_IN("f64", "%s", "%c") && !SWAPPED_IN("i1", "%s", "%c"));
    cr_expect(SWAPPED_IN("f64", "%s", "%x") && SWAPPED_IN("i1", "%s", "%k"));
}

Test(mlir, one_of_several_results_of_a_call_is_not_what_stands_there)
{
    static const char called[] =
        FUNC("%a: tensor<4xf32>",
             "%0, %1 = call @f(%a) : (tensor<4xf32>) -> (tensor<4xf32>, "
             "tensor<4xf32>)\n"
             "%2 = stablehlo.divide %0, %1 : tensor<4xf32>\n"
             "return %2 : tensor<4xf32>") "func.func private @f(%x: tensor<4xf32>) -> "
                                          "(tensor<4xf32>, tensor<4xf32>) {\n"
                                          "%0 = stablehlo.tanh %x : tensor<4xf32>\n%1 = "
                                          "stablehlo.sine %x : tensor<4xf32>\n"
                                          "return %0, %1 : tensor<4xf32>, tensor<4xf32>\n}\n";
    static const char written_out[] =
        FUNC("%a: tensor<4xf32>", "%0 = stablehlo.tanh %a : tensor<4xf32>\n"
                                  "%1 = stablehlo.sine %a : tensor<4xf32>\n"
                                  "%2 = stablehlo.divide %0, %1 : tensor<4xf32>\n"
                                  "return %2 : tensor<4xf32>");
    cr_expect(!same(called, written_out));
    char *renamed = changed(called, "@f", "@g");
    cr_expect(same(called, renamed));
    free(renamed);
}

Test(mlir, a_constant_that_goes_into_a_function_is_not_one_that_stands_there)
{
    static const char passed[] = FUNC(
        "%a: tensor<4xf32>",
        "%c = stablehlo.constant dense<2.0> : tensor<4xf32>\n"
        "%0 = call @f(%c, %a) : (tensor<4xf32>, tensor<4xf32>) -> "
        "tensor<4xf32>\nreturn %0 : tensor<4xf32>") "func.func private @f(%c: tensor<4xf32>, %x: "
                                                    "tensor<4xf32>) -> tensor<4xf32> {\n"
                                                    "%0 = stablehlo.divide %x, %c : "
                                                    "tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n";
    static const char inside[] =
        FUNC("%a: tensor<4xf32>", "%c = stablehlo.constant dense<2.0> : tensor<4xf32>\n"
                                  "%0 = stablehlo.divide %a, %c : tensor<4xf32>\n"
                                  "return %0 : tensor<4xf32>");
    cr_expect(!same(passed, inside));
    /* through another function: passed all the same */
    char *called = changed(passed, "call @f", "call @g");
    char further[2048];
    snprintf(further, sizeof further, "%s%s", called,
             "func.func private @g(%c: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {\n"
             "%0 = call @f(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
             "return %0 : tensor<4xf32>\n}\n");
    cr_expect(same(passed, further));
    /* what is made of constants is one, what is made of an argument is not */
    static const char constant[] = "stablehlo.constant dense<2.0> : tensor<4xf32>\n";
    char *made = changed(passed, constant,
                         "stablehlo.constant dense<2.0> : tensor<4xf32>\n"
                         "%k = stablehlo.sine %c : tensor<4xf32>\n");
    char *made_passed = changed(made, "call @f(%c", "call @f(%k");
    char *made_inside = changed(inside, constant,
                                "stablehlo.constant dense<2.0> : tensor<4xf32>\n"
                                "%k = stablehlo.sine %c : tensor<4xf32>\n");
    char *both_inside = changed(made_inside, "%a, %c", "%a, %k");
    cr_expect(!same(made_passed, both_inside));
    char *given_passed = changed(passed, constant, "stablehlo.sine %a : tensor<4xf32>\n");
    char *given_inside = changed(inside, constant, "stablehlo.sine %a : tensor<4xf32>\n");
    cr_expect(same(given_passed, given_inside));
    char *all[] = {called, made, made_passed, made_inside, both_inside, given_passed, given_inside};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

Test(mlir, a_constant_that_comes_out_of_a_function_is_not_one_that_stands_outside)
{
    static const char passed[] =
        FUNC("%a: tensor<4xf32>",
             "%c = call @f() : () -> tensor<4xf32>\n"
             "%0 = stablehlo.divide %a, %c : tensor<4xf32>\n"
             "return %0 : tensor<4xf32>") "func.func private @f() -> tensor<4xf32> {\n"
                                          "%0 = stablehlo.constant dense<2.0> : "
                                          "tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n";
    char *inside =
        changed(passed, "call @f() : ()", "stablehlo.constant dense<2.0> : tensor<4xf32> //");
    cr_expect(!same(passed, inside));
    free(inside);
}

Test(mlir, complex_products_and_unknown_operations_do_not_commute)
{
    static const char product[] =
        "func.func @main(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>) -> "
        "tensor<complex<f32>> {\n%0 = stablehlo.multiply %a, %b : tensor<complex<f32>>\n"
        "return %0 : tensor<complex<f32>>\n}\n";
    char *swapped = changed(product, "%a, %b :", "%b, %a :");
    cr_expect(!same(product, swapped));
    free(swapped);
    swapped = changed(product, "complex<f32>", "f32");
    char *real = changed(swapped, "%a, %b :", "%b, %a :");
    cr_expect(same(swapped, real));
    free(swapped);
    free(real);
}

Test(mlir, maxima_of_floats_do_not_commute)
{
    static const char floats[] = FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>",
                                      "%0 = stablehlo.maximum %a, %b : tensor<4xf32>\n"
                                      "return %0 : tensor<4xf32>");
    char *swapped = changed(floats, "%a, %b :", "%b, %a :");
    cr_expect(!same(floats, swapped), "of two zeros it may be the first");
    free(swapped);
    char *whole = changed(floats, "f32", "i32");
    swapped = changed(whole, "%a, %b :", "%b, %a :");
    cr_expect(same(whole, swapped));
    free(swapped), free(whole);
}

Test(mlir, two_products_are_not_added_in_another_order)
{
    static const char products[] = FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>",
                                        "%0 = stablehlo.multiply %a, %a : tensor<4xf32>\n"
                                        "%1 = stablehlo.tanh %b : tensor<4xf32>\n"
                                        "%2 = stablehlo.add %0, %1 : tensor<4xf32>\n"
                                        "return %2 : tensor<4xf32>");
    char *swapped = changed(products, "%0, %1 :", "%1, %0 :");
    cr_expect(!same(products, swapped), "a compiler fuses one of them with the addition");
    free(swapped);
    char *argument = changed(products, "add %0, %1 :", "add %0, %b :");
    swapped = changed(argument, "%0, %b :", "%b, %0 :");
    cr_expect(same(argument, swapped), "an argument is no product");
    free(swapped), free(argument);
}

/* Compilers for GPUs look for x * broadcast(reduce(x)), which is made in one go, whatever x is. */
Test(mlir, what_may_come_from_a_reduction_does_not_commute)
{
    static const char square[] = FUNC("%a: tensor<4xi32>, %b: tensor<4xi32>",
                                      "%0 = stablehlo.multiply %a, %b : tensor<4xi32>\n"
                                      "%1 = stablehlo.multiply %0, %a : tensor<4xi32>\n"
                                      "return %1 : tensor<4xi32>");
    char *swapped = changed(square, "%a, %b :", "%b, %a :");
    cr_expect(same(square, swapped), "arguments are no reductions, and whole numbers are not rounded");
    free(swapped);
    swapped = changed(square, "%0, %a :", "%a, %0 :");
    cr_expect(!same(square, swapped), "what a product may be is not looked at");
    free(swapped);
}

Test(mlir, two_exponentials_are_not_multiplied_in_another_order)
{
    /* XLA makes exp(%1 + %0) of them, and of two products it fuses one with the sum. */
    static const char product[] = FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>",
                                       "    %0 = stablehlo.multiply %a, %b : tensor<4xf32>\n"
                                       "    %1 = stablehlo.multiply %b, %b : tensor<4xf32>\n"
                                       "    %2 = stablehlo.exponential %0 : tensor<4xf32>\n"
                                       "    %3 = stablehlo.exponential %1 : tensor<4xf32>\n"
                                       "    %4 = stablehlo.tanh %3 : tensor<4xf32>\n"
                                       "    %5 = stablehlo.multiply %2, %4 : tensor<4xf32>\n"
                                       "return %5 : tensor<4xf32>");
    static const char *const may_be_one[] = {"%3", "%4"}, *const is_none[] = {"%a", "%1"};
    for (size_t i = 0; i < 4; i++) {
        char new[32], back[32];
        const char *other = i < 2 ? may_be_one[i] : is_none[i - 2];
        (void)snprintf(new, sizeof new, "%%5 = stablehlo.multiply %%2, %s", other);
        (void)snprintf(back, sizeof back, "%%5 = stablehlo.multiply %s, %%2", other);
        char *text = changed(product, "%5 = stablehlo.multiply %2, %4", new);
        char *swapped = changed(product, "%5 = stablehlo.multiply %2, %4", back);
        cr_expect_eq(same(text, swapped), i >= 2, "%s", new);
        free(text), free(swapped);
    }
    char *power = changed(product, "stablehlo.tanh %3", "stablehlo.power %3, %a");
    char *swapped = changed(power, "%2, %4 :", "%4, %2 :");
    cr_expect(!same(power, swapped), "a power of an exponential is one");
    free(power), free(swapped);
}

Test(mlir, what_comes_out_as_a_constant_stays_where_it_stands)
{
    /* XLA makes %a of (%a + %0) - %0, and not of (%0 + %a) - %0: it sees late what %0 is. */
    static const char text[] = FUNC(
        "%a: tensor<4xf32>, %b: tensor<4xf32>",
        "    %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "    %c = stablehlo.constant dense<1.3> : tensor<4x4xf32>\n"
        "    %d = stablehlo.constant dense<1.3> : tensor<4xf32>\n"
        "    %0 = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : "
        "(tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>\n"
        "    %1 = stablehlo.add %0, %a : tensor<4xf32>\n"
        "    %2 = stablehlo.subtract %1, %0 : tensor<4xf32>\n"
        "return %2 : tensor<4xf32>");
    char *swapped = changed(text, "add %0, %a :", "add %a, %0 :");
    cr_expect(!same(text, swapped));
    free(swapped);
    char *product = changed(text, "add %0, %a :", "multiply %0, %a :");
    swapped = changed(product, "%0, %a :", "%a, %0 :");
    cr_expect(!same(product, swapped));
    free(product), free(swapped);
    char *written = changed(text, "add %0, %a :", "add %d, %a :");
    swapped = changed(written, "add %d, %a :", "add %a, %d :");
    cr_expect(same(written, swapped), "a constant as it is written");
    free(written), free(swapped);
}

Test(mlir, what_a_compiler_finds_to_be_constant_does_not_commute)
{
    /* Of (k + %a) + 0.7 XLA makes no k' + %a: it puts k second only where it stands as a constant. */
    static const struct {
        const char *gives;
        bool commutes;
    } k[] = {
        {"%k = stablehlo.power %b, %z : tensor<4xf32>", false},
        {"%k = stablehlo.cbrt %c : tensor<4xf32>", false},
        {"%k = stablehlo.dynamic_update_slice %b, %c, %i : (tensor<4xf32>, tensor<4xf32>, "
         "tensor<i32>) -> tensor<4xf32>",
         false},
        {"%n = stablehlo.compare NE, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
         "%k = stablehlo.select %n, %b, %c : tensor<i1>, tensor<4xf32>",
         false},
        {"%e = stablehlo.slice %b [0:0] : (tensor<4xf32>) -> tensor<0xf32>\n"
         "%k = stablehlo.concatenate %e, %e, %b, dim = 0 : (tensor<0xf32>, tensor<0xf32>, "
         "tensor<4xf32>) -> tensor<4xf32>",
         false},
        {"%k = stablehlo.multiply %b, %c : tensor<4xf32>", true},
        {"%k = stablehlo.tanh %b : tensor<4xf32>", true},
        {"%s = stablehlo.constant dense<0.3> : tensor<f32>\n"
         "%k = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4xf32>",
         true},
    };
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        char *text = changed(FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>, %i: tensor<i32>",
                                  "%c = stablehlo.constant dense<0.1> : tensor<4xf32>\n"
                                  "%d = stablehlo.constant dense<0.7> : tensor<4xf32>\n"
                                  "%z = stablehlo.constant dense<0.0> : tensor<4xf32>\nK\n"
                                  "%1 = stablehlo.multiply %k, %a : tensor<4xf32>\n"
                                  "%2 = stablehlo.multiply %1, %d : tensor<4xf32>\n"
                                  "return %2 : tensor<4xf32>"),
                             "K", k[i].gives);
        char *swapped = changed(text, "%k, %a :", "%a, %k :");
        cr_expect_eq(same(text, swapped), k[i].commutes, "%s", k[i].gives);
        free(text), free(swapped);
    }
}

Test(mlir, nothing_commutes_where_two_products_are_added)
{
    /* LLVM fuses one of them, and which one depends on the order in which all operands were loaded. */
    static const char text[] =
        FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>",
             "%0 = stablehlo.sqrt %a : tensor<4xf32>\n"
             "%1 = stablehlo.add %b, %c : tensor<4xf32>\n"
             "%2 = stablehlo.multiply %0, %1 : tensor<4xf32>\n"
             "%3 = stablehlo.multiply %c, %d : tensor<4xf32>\n"
             "%4 = stablehlo.add %2, %3 : tensor<4xf32>\n"
             "return %4 : tensor<4xf32>");
    char *swapped = changed(text, "%0, %1 :", "%1, %0 :");
    cr_expect(!same(text, swapped));
    char *one = changed(text, "add %2, %3", "add %2, %d");
    char *other = changed(swapped, "add %2, %3", "add %2, %d");
    cr_expect(same(one, other), "only one product is added");
    free(swapped), free(one), free(other);
}

/* Compilers make one of two equal operations with regions, but compare what is in them as it is written. */
Test(mlir, nothing_commutes_in_a_region)
{
#define REDUCED(sum, more)                                                                         \
    "func.func public @main(%a: tensor<4xi32>, %i: tensor<i32>) -> tensor<i32> {\n"                \
    "%0 = \"stablehlo.reduce\"(%a, %i) ({\n^bb0(%x: tensor<i32>, %y: tensor<i32>):\n" sum          \
    "stablehlo.return %1 : tensor<i32>\n}) {dimensions = array<i64: 0>} : (tensor<4xi32>, "        \
    "tensor<i32>) -> tensor<i32>\nreturn %0 : tensor<i32>\n}\n" more
#define SUM(x, y) "%1 = stablehlo.add " x ", " y " : tensor<i32>\n"
#define CALLED "%1 = func.call @f(%x, %y) : (tensor<i32>, tensor<i32>) -> tensor<i32>\n"
#define FUNCTION(said, x, y)                                                                       \
    "func.func private @f(%x: tensor<i32>, %y: tensor<i32>) -> tensor<i32>" said " {\n" SUM(x, y)  \
    "return %1 : tensor<i32>\n}\n"
    cr_expect(!same(REDUCED(SUM("%x", "%y"), ""), REDUCED(SUM("%y", "%x"), "")));
    static const char called[] = REDUCED(CALLED, FUNCTION("", "%x", "%y"));
    cr_expect(!same(called, REDUCED(CALLED, FUNCTION("", "%y", "%x"))));
    static const char kept[] = REDUCED(CALLED, FUNCTION(" attributes {no_inline}", "%x", "%y"));
    cr_expect(!same(kept, REDUCED(CALLED, FUNCTION(" attributes {no_inline}", "%y", "%x"))));
}

Test(mlir, nothing_moves_between_sums_of_devices_unless_it_is_divided)
{
    /* A compiler makes one of two sums, in an order that depends on where what needs them stands, and the
     * order in which devices are added depends on the place in what is sent. */
#define OF_ALL(name, of)                                                                           \
    name " = \"stablehlo.all_reduce\"(" of ") <{replica_groups = dense<[[0, 1]]> : "               \
         "tensor<1x2xi64>}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"                         \
         "%s = stablehlo.add %x, %y : tensor<f32>\nstablehlo.return %s : tensor<f32>\n}) : "       \
         "(tensor<4xf32>) -> tensor<4xf32>\n"
#define SAID(partitions, replicas)                                                                 \
    " attributes {mhlo.num_partitions = " partitions " : i32, mhlo.num_replicas = " replicas       \
    " : i32}"
    static const struct {
        const char *said;
        bool moves;
    } modules[] = {
        {"", false},
        {SAID("1", "2"), false},
        {SAID("2", "2"), false},
        {SAID("2", "1"), true},
        {SAID("1", "1"), true},
        {" attributes {jax.uses_shape_polymorphism = false}", false},
    };
    static const char *const orders[2] = {
        "%2 = stablehlo.sine %0 : tensor<4xf32>\n%3 = stablehlo.cosine %1 : tensor<4xf32>\n",
        "%3 = stablehlo.cosine %1 : tensor<4xf32>\n%2 = stablehlo.sine %0 : tensor<4xf32>\n"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        char *text[2];
        for (int k = 0; k < 2; k++)
            cr_assert(asprintf(&text[k], "module%s {\n%s%s%s\n}\n", modules[i].said,
                               "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> "
                               "tensor<4xf32> {\n" OF_ALL("%0", "%a") OF_ALL("%1", "%b"),
                               orders[k],
                               "%4 = stablehlo.subtract %2, %3 : tensor<4xf32>\n"
                               "return %4 : tensor<4xf32>\n}") > 0);
        cr_expect_eq(same(text[0], text[1]), modules[i].moves, "%s", modules[i].said);
        free(text[0]);
        free(text[1]);
    }
#undef SAID
#undef OF_ALL
}

Test(mlir, what_commutes_in_a_function_is_settled_where_it_is_called)
{
    static const char called[] =
        "func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = call @f(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
        "  return %0 : tensor<4xf32>\n}\n"
        "func.func private @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = stablehlo.multiply %x, %y : tensor<4xf32>\n"
        "  return %0 : tensor<4xf32>\n}\n";
    static const char plain[] = FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>",
                                     "    %0 = stablehlo.multiply %a, %b : tensor<4xf32>\n"
                                     "return %0 : tensor<4xf32>");
    char *swapped = changed(called, "%x, %y :", "%y, %x :");
    cr_expect(same(called, plain));
    cr_expect(same(swapped, plain));
    free(swapped);
}

Test(mlir, what_becomes_a_product_is_not_added_in_another_order)
{
    /* XLA drops the addition of 0, and makes a multiplication of a product of inner size 1. */
    static const char nothing[] = FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>",
                                       "    %z = stablehlo.constant dense<0.0> : tensor<4xf32>\n"
                                       "    %t = stablehlo.tanh %a : tensor<4xf32>\n"
                                       "    %0 = stablehlo.multiply %a, %b : tensor<4xf32>\n"
                                       "    %1 = stablehlo.multiply %a, %t : tensor<4xf32>\n"
                                       "    %2 = stablehlo.add %0, %z : tensor<4xf32>\n"
                                       "    %3 = stablehlo.add %1, %2 : tensor<4xf32>\n"
                                       "return %3 : tensor<4xf32>");
    static const char dot[] =
        FUNC("%a: tensor<4x1xf32>, %b: tensor<1xf32>, %c: tensor<4xf32>",
             "    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
             "(tensor<4x1xf32>, tensor<1xf32>) -> tensor<4xf32>\n"
             "    %1 = stablehlo.multiply %c, %c : tensor<4xf32>\n"
             "    %3 = stablehlo.add %1, %0 : tensor<4xf32>\n"
             "return %3 : tensor<4xf32>");
    char *swapped = changed(nothing, "add %1, %2 :", "add %2, %1 :");
    cr_expect(!same(nothing, swapped));
    free(swapped);
    swapped = changed(dot, "add %1, %0 :", "add %0, %1 :");
    cr_expect(!same(dot, swapped));
    free(swapped);
    char *sum = changed(nothing, "add %0, %z :", "add %a, %b :");
    swapped = changed(sum, "add %1, %2 :", "add %2, %1 :");
    cr_expect(same(sum, swapped), "a sum of arguments is no product");
    free(swapped);
    free(sum);
}

Test(mlir, what_refers_to_the_printing_process_is_refused)
{
    static const char call[] =
        FUNC("%a: tensor<4xf32>", "%0 = stablehlo.custom_call @plain(%a) : (tensor<4xf32>) -> "
                                  "tensor<4xf32>\nreturn %0 : tensor<4xf32>");
    static const char *const targets[] = {"@enzymexla_compile_cpu", "@xla_python_cpu_callback",
                                          "@xla_ffi_python_gpu_callback", "@CustomSPMDPartitioning",
                                          "@InspectSharding"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char *bound = changed(call, "@plain", targets[i]);
        struct canon_input input = {.data = bound, .len = strlen(bound), .kind = CANON_MLIR};
        struct canon_result result;
        struct err e;
        cr_expect_eq(canon_key(&input, &result, NULL, &e), WARM_EREFUSED, "%s", targets[i]);
        free(bound);
    }
}

Test(mlir, operations_with_effects_keep_their_order)
{
    static const char ab[] =
        FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>", "%0 = mine.print %a : tensor<4xf32>\n"
                                                     "%1 = mine.print %b : tensor<4xf32>\n"
                                                     "return %a : tensor<4xf32>");
    static const char ba[] =
        FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>", "%1 = mine.print %b : tensor<4xf32>\n"
                                                     "%0 = mine.print %a : tensor<4xf32>\n"
                                                     "return %a : tensor<4xf32>");
    static const char once[] =
        FUNC("%a: tensor<4xf32>, %b: tensor<4xf32>", "%1 = mine.print %b : tensor<4xf32>\n"
                                                     "return %a : tensor<4xf32>");
    cr_expect(!same(ab, ba));
    cr_expect(!same(ba, once), "what is not known is never dropped");
    char *renamed = changed(ab, "%a", "%q");
    cr_expect(same(ab, renamed), "the values among its tokens are numbered");
    free(renamed);
}

Test(mlir, labels_among_tokens_go_with_their_blocks)
{
    static const char one[] =
        "func.func @main(%a: tensor<f32>, %p: i1) -> tensor<f32> {\n"
        "cf.cond_br %p, ^left, ^right\n"
        "^left:\n%0 = stablehlo.sine %a : tensor<f32>\nreturn %0 : tensor<f32>\n"
        "^right:\n%1 = stablehlo.cosine %a : tensor<f32>\nreturn %1 : tensor<f32>\n}\n";
    char *swapped = changed(one, "^left, ^right", "^right, ^left");
    cr_expect(!same(one, swapped));
    char *renamed = changed(one, "^left", "^bb7");
    cr_expect(same(one, renamed));
    free(swapped);
    free(renamed);
}

Test(mlir, which_result_counts_in_an_operation_that_is_kept_as_tokens)
{
    static const char one[] =
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
        "%0 = new.loop %a {\n %x:2 = new.pair %a\n new.yield %x#0\n} : tensor<f32>\n"
        "return %0 : tensor<f32>\n}\n";
    char *other = changed(one, "%x#0", "%x#1"), *renamed = changed(one, "%x", "%y");
    cr_expect(!same(one, other));
    cr_expect(same(one, renamed));
    free(other);
    free(renamed);
}

/* A function of `line`s on values of two types; the line stands for each "LINE". */
static char *repeated(const char *first, const char *second, const char *third)
{
    static const char text[] =
        "func.func public @main(%%a: tensor<2xf32>, %%b: tensor<3xf32>, %%c: tensor<2xf32>) -> "
        "(tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {\n"
        "  %%0 = %s\n  %%1 = %s\n  %%2 = %s\n"
        "  return %%0, %%1, %%2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>\n}\n";
    char *out = NULL;
    cr_assert_geq(asprintf(&out, text, first, second, third), 0);
    return out;
}

Test(mlir, a_line_that_repeats_means_what_it_means_alone)
{
    static const struct {
        const char *second, *third; /* after "stablehlo.add %a, %c : tensor<2xf32>" */
        bool same;                  /* as with that line again, of other values */
    } cases[] = {
        {"stablehlo.add %c, %c : tensor<2xf32>", "stablehlo.add %0, %1 : tensor<2xf32>", true},
        {"stablehlo.add  %c,%c : tensor<2xf32>", "stablehlo.add %0, %1  :tensor<2xf32>", true},
        {"stablehlo.add %c, %c : tensor<2xf32> loc(#loc7)",
         "stablehlo.add %0, %1 : tensor<2xf32> loc(#loc123)", true},
        {"stablehlo.add %c, %c : tensor<2xf32> loc(\"x.py\":1:2)",
         "stablehlo.add %0, %1 : tensor<2xf32> // loc(#loc1)", true},
        {"stablehlo.add %c, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
         "\"stablehlo.add\"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", true},
        {"stablehlo.add %a, %c : tensor<2xf32>", "stablehlo.add %0, %1 : tensor<2xf32>", false},
        {"stablehlo.add %c, %c : tensor<2xf32>", "stablehlo.add %0, %0 : tensor<2xf32>", false},
        {"stablehlo.subtract %c, %c : tensor<2xf32>", "stablehlo.add %0, %1 : tensor<2xf32>",
         false},
        {"stablehlo.add %c, %c {k = 1 : i64} : tensor<2xf32>",
         "stablehlo.add %0, %1 : tensor<2xf32>", false},
    };
    char *base =
        repeated("stablehlo.add %a, %c : tensor<2xf32>", "stablehlo.add %c, %c : tensor<2xf32>",
                 "stablehlo.add %0, %1 : tensor<2xf32>");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *other =
            repeated("stablehlo.add %a, %c : tensor<2xf32>", cases[i].second, cases[i].third);
        cr_expect_eq(same(base, other), cases[i].same, "%s", other);
        free(other);
    }
    free(base);
}

/* (a - b) - a, with a few words behind the last name or none. */
static struct key key_of_names(const char *a, const char *b, const char *tail)
{
    char text[512];
    snprintf(text, sizeof text,
             "func.func public @main(%%%s: tensor<2xi32>, %%%s: tensor<2xi32>) -> tensor<2xi32> {\n"
             "  %%r = stablehlo.subtract %%%s, %%%s : tensor<2xi32>\n"
             "  %%q = stablehlo.subtract %%r, %%%s : tensor<2xi32>\n"
             "  return %%q : tensor<2xi32>\n}%s",
             a, b, a, b, a, tail);
    return good_key(text);
}

Test(mlir, whatever_a_name_looks_like_it_is_a_name)
{
    static const char *const names[] = {
        "0",
        "1",
        "01",
        "00",
        "1234567",
        "12345678",
        "a",
        "a1",
        "a01",
        "a1_1",
        "x1y2",
        "123456789",
        "arg1",
        "_1",
        "$1",
        "-1",
        "a.1",
        "a-1",
        "abcdefg",
        "abcdefg1",
        "abcdefgh1",
        "abcdefgh",
        "abcdefghijkl1",
        "abcdefgi1",
        "A1",
        "cst_1",
        "cst",
        "4294967296",
        "a4294967297",
        "abcdefghijklmnopqrstuvwxyz1",
    };
    struct key want = key_of_names("left", "right", "");
    size_t n = sizeof names / sizeof *names;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            if (i == j)
                continue;
            struct key have = key_of_names(names[i], names[j], j % 2 ? "" : "  // end");
            cr_expect(key_equal(&have, &want), "%%%s and %%%s", names[i], names[j]);
        }
}

Test(mlir, a_line_of_operands_of_another_type_repeats_nothing)
{
    struct canon_result result;
    struct err e = {0};
    char *good =
        repeated("stablehlo.add %a, %c : tensor<2xf32>", "stablehlo.add %a, %c : tensor<2xf32>",
                 "stablehlo.add %a, %c : tensor<2xf32>");
    char *text = repeated("stablehlo.add %a, %c : tensor<2xf32>",
                          "stablehlo.add %b, %c : tensor<2xf32>", /* kept as its tokens */
                          "stablehlo.add %a, %c : tensor<2xf32>");
    cr_expect(!same(good, text));
    char *wrong = repeated("stablehlo.add %a, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
                           "stablehlo.add %b, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
                           "stablehlo.add %a, %c : tensor<2xf32>");
    cr_expect_eq(key_of(wrong, &result, &e), WARM_EMALFORMED);
    cr_expect_eq(e.line, 3u);
    free(good);
    free(text);
    free(wrong);
}

Test(mlir, the_generic_form_agrees_with_the_printed_one)
{
    static const char *const pairs[][2] = {
        {"%0 = stablehlo.slice %a [0:4, 1:8:2] : (tensor<4x8xf32>) -> tensor<4x4xf32>",
         "%0 = \"stablehlo.slice\"(%a) <{limit_indices = array<i64: 4, 8>, start_indices = "
         "array<i64: 0, 1>, strides = array<i64: 1, 2>}> : (tensor<4x8xf32>) -> tensor<4x4xf32>"},
        {"%0 = stablehlo.pad %a, %s, low = [0, 1], high = [2, 0], interior = [0, 0] : "
         "(tensor<4x8xf32>, tensor<f32>) -> tensor<6x9xf32>",
         "%0 = \"stablehlo.pad\"(%a, %s) <{edge_padding_high = array<i64: 2, 0>, edge_padding_low "
         "= "
         "array<i64: 0, 1>, interior_padding = array<i64: 0, 0>}> : (tensor<4x8xf32>, tensor<f32>) "
         "-> tensor<6x9xf32>"},
        {"%0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [0] : "
         "(tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>",
         "%0 = \"stablehlo.reduce\"(%a, %s) <{dimensions = array<i64: 0>}> ({\n"
         "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
         "%1 = \"stablehlo.add\"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
         "\"stablehlo.return\"(%1) : (tensor<f32>) -> ()\n"
         "}) : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>"},
        {"%0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4x8xf32>",
         "%0 = \"stablehlo.reduce_precision\"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 10 : "
         "i32}> : (tensor<4x8xf32>) -> tensor<4x8xf32>"},
        {"%0 = stablehlo.iota dim = 1 : tensor<4x8xi32>",
         "%0 = \"stablehlo.iota\"() <{iota_dimension = 1 : i64}> : () -> tensor<4x8xi32>"},
        {"%0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> "
         "tensor<8x8xf32>",
         "%0 = \"stablehlo.concatenate\"(%a, %a) <{dimension = 0 : i64}> : (tensor<4x8xf32>, "
         "tensor<4x8xf32>) -> tensor<8x8xf32>"},
        {"%0 = stablehlo.custom_call @f(%a) {backend_config = \"q\"} : (tensor<4x8xf32>) -> "
         "tensor<4xf32>",
         "%0 = \"stablehlo.custom_call\"(%a) <{api_version = 1 : i32, backend_config = \"q\", "
         "call_target_name = \"f\", has_side_effect = false}> : (tensor<4x8xf32>) -> "
         "tensor<4xf32>"},
        {"%0 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> "
         "tensor<2xui64>",
         "%0 = \"stablehlo.rng_bit_generator\"(%k) <{rng_algorithm = #stablehlo<rng_algorithm "
         "THREE_FRY>}> : (tensor<2xui64>) -> tensor<2xui64>"},
        {"%0 = stablehlo.fft %z, type = FFT, length = [8] : (tensor<8xcomplex<f32>>) -> "
         "tensor<8xcomplex<f32>>",
         "%0 = \"stablehlo.fft\"(%z) <{fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type "
         "FFT>}> : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>"},
        {"%0 = chlo.top_k(%a, k = 2) : tensor<4x8xf32> -> tensor<4x2xf32>",
         "%0 = \"chlo.top_k\"(%a) <{k = 2 : i64}> : (tensor<4x8xf32>) -> tensor<4x2xf32>"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *texts[2];
        for (size_t k = 0; k < 2; k++) {
            static const char frame[] =
                "func.func @main(%a: tensor<4x8xf32>, %s: tensor<f32>, %k: tensor<2xui64>, "
                "%z: tensor<8xcomplex<f32>>) {\nBODY\n\"mine.use\"(%0) : (TYPE) -> ()\nreturn\n}\n";
            char *body = changed(frame, "BODY", pairs[i][k]);
            const char *colon = strrchr(pairs[i][0], ' ');
            texts[k] = changed(body, "TYPE", colon + 1);
            free(body);
        }
        cr_expect(same(texts[0], texts[1]), "%s", pairs[i][0]);
        free(texts[0]);
        free(texts[1]);
    }
}

Test(mlir, aliases_are_what_they_stand_for)
{
    static const char with[] = "#groups = dense<[[0, 1]]> : tensor<1x2xi64>\n"
                               "!t = tensor<4xf32>\n" FUNC("%a: !t", "%0 = \"mine.op\"(%a) {g = "
                                                                     "#groups} : (!t) -> !t\n"
                                                                     "return %0 : !t");
    static const char without[] =
        FUNC("%a: tensor<4xf32>", "%0 = \"mine.op\"(%a) {g = dense<[[0, 1]]> : tensor<1x2xi64>} : "
                                  "(tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>");
    cr_expect(same(with, without));
    char *other = changed(with, "[[0, 1]]", "[[1, 0]]");
    cr_expect(!same(with, other));
    free(other);
}

Test(mlir, resources_are_constants)
{
    static const char resource[] =
        FUNC("", "%0 = stablehlo.constant dense_resource<w> : tensor<4xf32>\n"
                 "return %0 : tensor<4xf32>") "{-#\n  dialect_resources: {\n    builtin: {\n"
                                              "      w: \"0x040000000000803F00000040000040400000"
                                              "8040\"\n    }\n  }\n#-}\n";
    static const char dense[] =
        FUNC("", "%0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
                 "return %0 : tensor<4xf32>");
    cr_expect(same(resource, dense));
}

/* As MLIR prints them, and in the generic form. */
Test(mlir, attributes_of_ones_own_stand_where_the_operation_prints_them)
{
    static const char *const lines[][2] = {
        {"%0 = stablehlo.slice %a [0:2] {mine = \"x\"} : (tensor<4xf32>) -> tensor<2xf32>\n",
         "%0 = \"stablehlo.slice\"(%a) <{limit_indices = array<i64: 2>, start_indices = array<i64: 0>, "
         "strides = array<i64: 1>}> {mine = \"x\"} : (tensor<4xf32>) -> tensor<2xf32>\n"},
        {"%0 = stablehlo.compare  LT, %a, %a,  FLOAT {mine = \"x\"} : (tensor<4xf32>, tensor<4xf32>) -> "
         "tensor<4xi1>\n",
         "%0 = \"stablehlo.compare\"(%a, %a) <{compare_type = #stablehlo<comparison_type FLOAT>, "
         "comparison_direction = #stablehlo<comparison_direction LT>}> {mine = \"x\"} : "
         "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>\n"},
        {"%0 = stablehlo.optimization_barrier {mine = \"x\"} %a : tensor<4xf32>\n",
         "%0 = \"stablehlo.optimization_barrier\"(%a) {mine = \"x\"} : (tensor<4xf32>) -> "
         "tensor<4xf32>\n"},
        {"%0:2 = chlo.top_k(%a, k = 4) {mine = \"x\"} : tensor<4xf32> -> (tensor<4xf32>, tensor<4xi32>)\n",
         "%0:2 = \"chlo.top_k\"(%a) {k = 4 : i64, mine = \"x\"} : (tensor<4xf32>) -> (tensor<4xf32>, "
         "tensor<4xi32>)\n"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char texts[2][1024];
        for (int k = 0; k < 2; k++)
            snprintf(texts[k], sizeof texts[k],
                     "func.func @main(%%a: tensor<4xf32>) {\n%sreturn %%0%s : %s\n}\n", lines[i][k],
                     i == 3 ? "#0" : "",
                     i == 0   ? "tensor<2xf32>"
                     : i == 1 ? "tensor<4xi1>"
                              : "tensor<4xf32>");
        cr_expect(same(texts[0], texts[1]), "%s", lines[i][0]);
        char *other = changed(texts[0], "\"x\"", "\"y\"");
        cr_expect(!same(texts[0], other), "%s", lines[i][0]);
        free(other);
    }
}

/* The widths of what attributes say count for nothing: operands change places where values are alike. */
Test(mlir, types_that_only_attributes_have_are_none_of_the_program)
{
    static const char form[] =
        "func.func @main(%%a: tensor<4xf32>, %%b: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%%0 = stablehlo.sqrt %%a {mine = dense<1> : tensor<2x2xi64>} : tensor<4xf32>\n"
        "%%1 = stablehlo.tanh %%b : tensor<4xf32>\n"
        "%%2 = stablehlo.%s %%%c, %%%c : tensor<4xf32>\nreturn %%2 : tensor<4xf32>\n}\n";
    char texts[4][512];
    for (int i = 0; i < 4; i++)
        snprintf(texts[i], sizeof texts[i], form, i < 2 ? "multiply" : "divide", '0' + i % 2,
                 '1' - i % 2);
    cr_expect(same(texts[0], texts[1]));
    cr_expect(!same(texts[2], texts[3]));
}

/* With an argument too: both are converted to 32 bits, in their order. */
Test(mlir, floats_of_less_than_32_bits_commute_with_nothing)
{
    static const char form[] =
        "func.func public @main(%%a: tensor<4x%s>, %%b: tensor<4x%s>) -> tensor<4x%s> {\n"
        "  %%0 = stablehlo.tanh %%b : tensor<4x%s>\n  %s\n  return %%1 : tensor<4x%s>\n}\n"
        "func.func private @f(%%x: tensor<4x%s>, %%y: tensor<4x%s>) -> tensor<4x%s> {\n"
        "  %%z = stablehlo.multiply %%x, %%y : tensor<4x%s>\n  return %%z : tensor<4x%s>\n}\n";
    static const char *const types[] = {"f32", "bf16", "f16", "f8E4M3FN", "f64"};
    for (int i = 0; i < 5; i++) {
        const char *t = types[i];
        char products[3][128], texts[3][1024];
        snprintf(products[0], 128, "%%1 = stablehlo.multiply %%a, %%0 : tensor<4x%s>", t);
        snprintf(products[1], 128, "%%1 = stablehlo.multiply %%0, %%a : tensor<4x%s>", t);
        snprintf(products[2], 128,
                 "%%1 = func.call @f(%%a, %%0) : (tensor<4x%s>, tensor<4x%s>) -> tensor<4x%s>", t, t,
                 t);
        for (int k = 0; k < 3; k++)
            snprintf(texts[k], sizeof texts[k], form, t, t, t, t, products[k], t, t, t, t, t, t);
        bool free = i == 0 || i == 4;
        cr_expect_eq(same(texts[0], texts[1]), free, "operands in %s", t);
        cr_expect_eq(same(texts[0], texts[2]), free, "calls in %s", t);
    }
}

#define CUBE "tensor<8x4x4xf32>"
#define SQUARE "tensor<4x4xf32>"

/* Of t, which is made of x, and y a sum, or a function that gives it, that is multiplied. */
static bool sum_is_free(const char *t, const char *made, const char *product, const char *gives)
{
    static const char form[] =
        "func.func public @main(%%x: %s, %%y: %s, %%w: %s) -> %s {\n  %%t = %s\n  %s\n"
        "  %%d = stablehlo.dot_general %%s, %%w, %s : (%s, %s) -> %s\n  return %%d : %s\n}\n"
        "func.func private @f(%%a: %s, %%b: %s) -> %s {\n  %%0 = stablehlo.add %%a, %%b : %s\n"
        "  return %%0 : %s\n}\n";
    char sums[3][128], texts[3][2048];
    snprintf(sums[0], sizeof sums[0], "%%s = stablehlo.add %%t, %%y : %s", t);
    snprintf(sums[1], sizeof sums[1], "%%s = stablehlo.add %%y, %%t : %s", t);
    snprintf(sums[2], sizeof sums[2], "%%s = func.call @f(%%t, %%y) : (%s, %s) -> %s", t, t, t);
    for (int i = 0; i < 3; i++)
        snprintf(texts[i], sizeof texts[i], form, t, t, t, gives, made, sums[i], product, t, t, gives,
                 gives, t, t, t, t, t);
    bool one = same(texts[0], texts[1]);
    cr_expect_eq(same(texts[0], texts[2]), one, "%s, %s", made, product);
    return one;
}

Test(mlir, how_a_product_takes_what_lies_otherwise_follows_from_operands_and_calls)
{
    static const char
        sine[] = "stablehlo.sine %x : " CUBE,
        turned[] = "stablehlo.transpose %x, dims = [0, 2, 1] : (" CUBE ") -> " CUBE,
        lying[] = "stablehlo.custom_call @f(%x) {operand_layouts = [dense<[2, 1, 0]> : tensor<3xindex>], "
                  "result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>]} : (" CUBE ") -> " CUBE,
        square[] = "stablehlo.transpose %x, dims = [1, 0] : (" SQUARE ") -> " SQUARE,
        batches[] = "batching_dims = [0] x [0], contracting_dims = [2] x [1]";
    cr_expect(sum_is_free(CUBE, sine, batches, CUBE));
    cr_expect(!sum_is_free(CUBE, turned, batches, CUBE));
    cr_expect(!sum_is_free(CUBE, lying, batches, CUBE));
    cr_expect(sum_is_free(SQUARE, square, "contracting_dims = [1] x [0]", SQUARE));
    cr_expect(!sum_is_free(SQUARE, square, "contracting_dims = [0, 1] x [0, 1]", "tensor<f32>"));
    cr_expect(!sum_is_free(SQUARE, square, "batching_dims = [0] x [0], contracting_dims = [1] x [1]",
                           "tensor<4xf32>"));
}

static bool same_number(const char *one, const char *other, const char *type)
{
    static const char form[] =
        "func.func @main() -> tensor<%s> {\n"
        "  %%0 = stablehlo.constant dense<%s> : tensor<%s>\n  return %%0 : tensor<%s>\n}\n";
    char texts[2][512];
    snprintf(texts[0], sizeof texts[0], form, type, one, type, type);
    snprintf(texts[1], sizeof texts[1], form, type, other, type, type);
    return same(texts[0], texts[1]);
}

/* As MLIR reads them. */
Test(mlir, numbers_of_small_floats_are_their_bits)
{
    cr_expect(same_number("1.5", "1.500000e+00", "f8E4M3FN"));
    cr_expect(same_number("1.5", "0x3C", "f8E4M3FN"));
    cr_expect(same_number("1.5", "\"0x3C\"", "f8E4M3FN"));
    cr_expect(same_number("[1.5, -448.0]", "\"0x3CFE\"", "2xf8E4M3FN"));
    cr_expect(same_number("[1.5, 1.5]", "0x3C", "2xf8E4M3FN"));
    cr_expect(same_number("1.953130e-03", "0x01", "f8E4M3FN"), "the smallest, printed in short");
    cr_expect(same_number("1.0625", "0x38", "f8E4M3FN"), "to the even one below");
    cr_expect(same_number("1.1875", "0x3A", "f8E4M3FN"), "and above");
    cr_expect(same_number("57344.0", "0x7B", "f8E5M2"));
    cr_expect(same_number("1.0e-30", "0.0", "f8E5M2"));
    cr_expect(same_number("240.0", "0x77", "f8E4M3"));
    cr_expect(same_number("15.5", "0x6F", "f8E3M4"));
    cr_expect(same_number("240.0", "0x7F", "f8E4M3FNUZ"));
    cr_expect(same_number("57344.0", "0x7F", "f8E5M2FNUZ"));
    cr_expect(same_number("30.0", "0x7F", "f8E4M3B11FNUZ"));
    cr_expect(same_number("-7.5", "0x3F", "f6E2M3FN"));
    cr_expect(same_number("28.0", "0x1F", "f6E3M2FN"));
    cr_expect(same_number("-6.0", "0xF", "f4E2M1FN"));
    cr_expect(same_number("-0.0", "0x80", "f8E4M3FN"));
    cr_expect(!same_number("-0.0", "0.0", "f8E4M3FN"));
    cr_expect(!same_number("-0.0", "0x80", "f8E4M3FNUZ"), "which has no such zero, but a NaN");
    cr_expect(!same_number("1.5", "1.625", "f8E4M3FN"));
    cr_expect(!same_number("1.5", "-1.5", "f8E4M3FN"));
    cr_expect(!same_number("0x7F", "0xFF", "f8E4M3FN"), "two NaNs");
    cr_expect(!same_number("500.0", "0x7E", "f8E4M3FN"), "what is too large stays as it is");
    cr_expect(!same_number("500.0", "600.0", "f8E4M3FN"));
}

static void expect_error(const char *text, int code, unsigned line)
{
    struct canon_result r;
    struct err e;
    cr_expect_eq(key_of(text, &r, &e), code, "%s: %s", err_name(e.code), text);
    cr_expect_eq(e.line, line, "line %u of %s", e.line, text);
    cr_expect_gt(e.column, 0);
}

Test(mlir, elided_text_is_refused_with_its_place)
{
    expect_error(FUNC("", "%0 = stablehlo.constant dense<...> : tensor<4xf32>\nreturn %0 : "
                          "tensor<4xf32>"),
                 WARM_EREFUSED, 2);
    expect_error(FUNC("", "%0 = stablehlo.constant dense_resource<__elided__> : tensor<4xf32>\n"
                          "return %0 : tensor<4xf32>"),
                 WARM_EREFUSED, 2);
    expect_error(FUNC("", "%0 = \"mine.op\"() {a = [...]} : () -> tensor<4xf32>\n"
                          "return %0 : tensor<4xf32>"),
                 WARM_EREFUSED, 2);
}

Test(mlir, what_is_no_program_has_no_key)
{
    expect_error(FUNC("", "%0 = stablehlo.constant dense<0x10> : tensor<f4E2M1FN>"),
                 WARM_EMALFORMED, 2);
    expect_error(FUNC("%a: tensor<4xf32>", "return %b : tensor<4xf32>"), WARM_EMALFORMED, 2);
    expect_error(FUNC("%a: tensor<4xf32>", "%0 = stablehlo.convert %a : (tensor<5xf32>) -> "
                                           "tensor<4xf32>\nreturn %0 : tensor<4xf32>"),
                 WARM_EMALFORMED, 2);
    expect_error("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n", WARM_ETRUNCATED, 2);
    expect_error("module {\n  func.func @f(", WARM_ETRUNCATED, 2);
    expect_error(FUNC("", "%0 = stablehlo.constant dense<300> : tensor<4xi8>\n"
                          "return %0 : tensor<4xf32>"),
                 WARM_EMALFORMED, 2);
    expect_error("}\n", WARM_EMALFORMED, 1);
    expect_error(FUNC("%a: tensor<4xf32>", "%0 = \"mine.op\"(%a) {m = #map} : (tensor<4xf32>) -> "
                                           "tensor<4xf32>\nreturn %0 : tensor<4xf32>"),
                 WARM_EMALFORMED, 2);
}

Test(mlir, each_prefix_of_a_module_is_an_error_or_another_key)
{
    size_t len = strlen(model);
    struct key whole = good_key(model);
    for (size_t n = 0; n + 2 < len; n++) {
        struct canon_input input = {.data = model, .len = n, .kind = CANON_MLIR};
        struct canon_result r;
        struct err e;
        if (canon_key(&input, &r, NULL, &e) == 0)
            cr_expect(!key_equal(&whole, &r.key), "%zu bytes", n);
    }
}

/* A program large enough that pages are given back behind the reader. */
static void mapped_agrees(const char *path, size_t n_lines, const char *last, enum canon_kind kind)
{
    FILE *f = fopen(path, "w+");
    cr_assert_not_null(f);
    fputs("func.func public @main(%x0: tensor<4xf32>) -> tensor<4xf32> {\n", f);
    for (size_t i = 1; i <= n_lines; i++)
        fprintf(f, "%%x%zu = stablehlo.tanh %%x%zu : tensor<4xf32>\n", i, i - 1);
    fprintf(f, "return %%x%zu : tensor<4xf32>\n}\n%s", n_lines, last);
    size_t len = (size_t)ftell(f);
    cr_assert_eq(fflush(f), 0);
    void *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    char *copy = malloc(len);
    cr_assert(map != MAP_FAILED && copy);
    memcpy(copy, map, len);
    struct canon_input mapped = {.data = map, .len = len, .kind = kind, .mapped = true};
    struct canon_input plain = {.data = copy, .len = len, .kind = kind};
    struct canon_result a, b;
    cr_assert_eq(canon_key(&mapped, &a, NULL, NULL), 0);
    cr_assert_eq(canon_key(&plain, &b, NULL, NULL), 0);
    cr_expect(key_equal(&a.key, &b.key));
    cr_expect_eq(a.exact, b.exact);
    cr_expect(memcmp(map, copy, len) == 0, "what was given back is read again");
    munmap(map, len);
    free(copy);
    fclose(f);
}

Test(mlir, a_mapped_input_has_the_key_of_its_bytes)
{
    char path[] = "/tmp/warm-mapped-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    mapped_agrees(path, 30000, "", CANON_MLIR);
    mapped_agrees(path, 30000, "// the end\n", CANON_RAW);
    close(fd);
    unlink(path);
}

Test(mlir, deep_nesting_needs_no_stack)
{
    enum { DEPTH = 100000 };
    static const char open[] = "\"mine.op\"() ({\n", close[] = "}) : () -> ()\n";
    char *text = malloc(DEPTH * (sizeof open + sizeof close) + 1), *at = text;
    for (int i = 0; i < DEPTH; i++)
        at = stpcpy(at, open);
    for (int i = 0; i < DEPTH; i++)
        at = stpcpy(at, close);
    struct canon_input input = {.data = text, .len = (size_t)(at - text), .kind = CANON_MLIR};
    struct canon_result r;
    struct err e;
    cr_assert_eq(canon_key(&input, &r, NULL, &e), 0, "%s", e.text);
    cr_expect(r.exact, "beyond the bound the exact bytes are the form");
    cr_expect_not_null(r.why_exact);
    free(text);
}

Test(mlir, aliases_of_aliases_cannot_blow_up)
{
    char text[8192], *at = text;
    at += sprintf(at, "#a0 = [1, 2, 3, 4, 5, 6, 7, 8]\n");
    for (int i = 1; i < 60; i++)
        at += sprintf(at, "#a%d = [#a%d, #a%d]\n", i, i - 1, i - 1);
    sprintf(at, "func.func @main() {\n\"mine.op\"() {x = #a59} : () -> ()\nreturn\n}\n");
    struct canon_result r;
    struct err e;
    cr_assert_eq(key_of(text, &r, &e), 0, "%s", e.text);
    cr_expect(r.exact);
}

Test(mlir, the_canonical_text_is_readable_and_is_what_is_hashed)
{
    struct canon_input input = {.data = FUNC("%x: tensor<4xf32>",
                                             "%c = stablehlo.constant dense<1.0> : tensor<4xf32>\n"
                                             "%y = stablehlo.add %x, %c : tensor<4xf32>\n"
                                             "return %y : tensor<4xf32>"),
                                .kind = CANON_MLIR};
    input.len = strlen(input.data);
    struct canon_result r;
    struct writer text;
    writer_init(&text, 0);
    cr_assert_eq(canon_key(&input, &r, &text, NULL), 0);
    writer_u8(&text, 0);
    cr_expect_str_eq((const char *)text.data,
                     "module\n"
                     "func public (%0 : tensor<4xf32>) -> (tensor<4xf32>) {\n"
                     "  %1 = stablehlo.constant {value = dense<0000803F> : tensor<4xf32>} : "
                     "tensor<4xf32>\n"
                     "  %2 = stablehlo.add %1, %0 : tensor<4xf32>\n"
                     "  func.return %2\n"
                     "}\n");
    writer_close(&text);
}

Test(mlir, golden_keys)
{
    char text[WARM_KEY_TEXT];
    struct key key = good_key(model);
    key_to_text(&key, text);
    cr_expect_str_eq(text, "3d300f30f253bf6118825bb377f0bab9");
    key = good_key("module {\n}\n");
    key_to_text(&key, text);
    cr_expect_str_eq(text, "acfac2c9020740d2d9b8258c748351a2");
}

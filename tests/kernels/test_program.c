/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_program.c - the graph compiler's reader and writer: every operation, inputs that it refuses, and
 * the round trip: a program that is written and read again has the canonical text that it had.
 */
#include "kernels/program/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "keygen/canon/canon.h"
#include "tests/kernels/print_program.h"

#define MAIN(args, results, body) "func.func public @main(" args ") -> (" results ") {\n" body "}\n"

/* Each operation, with attributes in all their forms. */
static const char EVERYTHING[] = "module {\n" MAIN(
    "%x: tensor<3x4xf32>, %i: tensor<3x4xi32>, %b: tensor<3x4xi1>, %k: tensor<i32>", "tensor<f32>",
    "%abs = stablehlo.abs %x : tensor<3x4xf32>\n"
    "%neg = stablehlo.negate %i : tensor<3x4xi32>\n"
    "%sign = stablehlo.sign %x : tensor<3x4xf32>\n"
    "%exp = stablehlo.exponential %x : tensor<3x4xf32>\n"
    "%expm1 = stablehlo.exponential_minus_one %x : tensor<3x4xf32>\n"
    "%log = stablehlo.log %x : tensor<3x4xf32>\n"
    "%log1p = stablehlo.log_plus_one %x : tensor<3x4xf32>\n"
    "%logistic = stablehlo.logistic %x : tensor<3x4xf32>\n"
    "%tanh = stablehlo.tanh %x : tensor<3x4xf32>\n"
    "%sqrt = stablehlo.sqrt %x : tensor<3x4xf32>\n"
    "%rsqrt = stablehlo.rsqrt %x : tensor<3x4xf32>\n"
    "%sine = stablehlo.sine %x : tensor<3x4xf32>\n"
    "%cosine = stablehlo.cosine %x : tensor<3x4xf32>\n"
    "%floor = stablehlo.floor %x : tensor<3x4xf32>\n"
    "%ceil = stablehlo.ceil %x : tensor<3x4xf32>\n"
    "%not = stablehlo.not %b : tensor<3x4xi1>\n"
    "%add = stablehlo.add %x, %abs : tensor<3x4xf32>\n"
    "%sub = stablehlo.subtract %i, %neg : tensor<3x4xi32>\n"
    "%mul = stablehlo.multiply %x, %x : tensor<3x4xf32>\n"
    "%div = stablehlo.divide %x, %exp : tensor<3x4xf32>\n"
    "%rem = stablehlo.remainder %i, %sub : tensor<3x4xi32>\n"
    "%pow = stablehlo.power %x, %exp : tensor<3x4xf32>\n"
    "%max = stablehlo.maximum %b, %not : tensor<3x4xi1>\n"
    "%min = stablehlo.minimum %x, %exp : tensor<3x4xf32>\n"
    "%and = stablehlo.and %b, %not : tensor<3x4xi1>\n"
    "%or = stablehlo.or %i, %neg : tensor<3x4xi32>\n"
    "%xor = stablehlo.xor %b, %not : tensor<3x4xi1>\n"
    "%lt = stablehlo.compare LT, %x, %abs, FLOAT : (tensor<3x4xf32>, tensor<3x4xf32>) -> "
    "tensor<3x4xi1>\n"
    "%ge = stablehlo.compare GE, %i, %neg, SIGNED : (tensor<3x4xi32>, tensor<3x4xi32>) -> "
    "tensor<3x4xi1>\n"
    "%ne = stablehlo.compare NE, %b, %lt, UNSIGNED : (tensor<3x4xi1>, tensor<3x4xi1>) -> "
    "tensor<3x4xi1>\n"
    "%sel = stablehlo.select %lt, %x, %abs : tensor<3x4xi1>, tensor<3x4xf32>\n"
    "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "%one = stablehlo.constant dense<1.0> : tensor<f32>\n"
    "%clamp = stablehlo.clamp %zero, %x, %one : (tensor<f32>, tensor<3x4xf32>, tensor<f32>) "
    "-> tensor<3x4xf32>\n"
    "%conv = stablehlo.convert %b : (tensor<3x4xi1>) -> tensor<3x4xf32>\n"
    "%c = stablehlo.constant dense<[[1.5, -0.0], [0x7FC00001, 3.0]]> : tensor<2x2xf32>\n"
    "%ci = stablehlo.constant dense<[[-1, 2147483647, -2147483648]]> : tensor<1x3xi32>\n"
    "%cb = stablehlo.constant dense<[true, false]> : tensor<2xi1>\n"
    "%ce = stablehlo.constant dense<> : tensor<0x2xf32>\n"
    "%iota = stablehlo.iota dim = 1 : tensor<3x4xi32>\n"
    "%bc = stablehlo.broadcast_in_dim %ci, dims = [2, 0] : (tensor<1x3xi32>) -> "
    "tensor<3x5x7xi32>\n"
    "%bs = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<3x4xf32>\n"
    "%rs = stablehlo.reshape %x : (tensor<3x4xf32>) -> tensor<2x6xf32>\n"
    "%tr = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>\n"
    "%sl = stablehlo.slice %x [0:3:2, 1:4] : (tensor<3x4xf32>) -> tensor<2x3xf32>\n"
    "%pad = stablehlo.pad %x, %zero, low = [1, -1], high = [0, 2], interior = [2, 0] : "
    "(tensor<3x4xf32>, tensor<f32>) -> tensor<8x5xf32>\n"
    "%cat = stablehlo.concatenate %x, %abs, dim = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> "
    "tensor<3x8xf32>\n"
    "%ds = stablehlo.dynamic_slice %x, %k, %k, sizes = [2, 3] : (tensor<3x4xf32>, "
    "tensor<i32>, tensor<i32>) -> tensor<2x3xf32>\n"
    "%du = stablehlo.dynamic_update_slice %x, %ds, %k, %k : (tensor<3x4xf32>, "
    "tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>\n"
    "%red = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = "
    "[0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>\n"
    "%dot = stablehlo.dot_general %x, %tr, contracting_dims = [1] x [0], precision = "
    "[DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>\n"
    "%bat = stablehlo.dot_general %x, %abs, batching_dims = [0] x [0], contracting_dims = "
    "[1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<3x4xf32>) -> "
    "tensor<3xf32>\n"
    "%outer = stablehlo.dot_general %red, %bat, contracting_dims = [] x [], precision = "
    "[DEFAULT, DEFAULT] : (tensor<4xf32>, tensor<3xf32>) -> tensor<4x3xf32>\n"
    "%w:2 = stablehlo.while(%a0 = %k, %a1 = %x) : tensor<i32>, tensor<3x4xf32>\n"
    "cond {\n"
    "  %lim = stablehlo.constant dense<5> : tensor<i32>\n"
    "  %go = stablehlo.compare LT, %a0, %lim, SIGNED : (tensor<i32>, tensor<i32>) -> "
    "tensor<i1>\n"
    "  stablehlo.return %go : tensor<i1>\n"
    "} do {\n"
    "  %step = stablehlo.constant dense<1> : tensor<i32>\n"
    "  %next = stablehlo.add %a0, %step : tensor<i32>\n"
    "  %called = func.call @f(%a1) : (tensor<3x4xf32>) -> tensor<3x4xf32>\n"
    "  stablehlo.return %next, %called : tensor<i32>, tensor<3x4xf32>\n"
    "}\n"
    "%sum = stablehlo.reduce(%w#1 init: %zero) applies stablehlo.add across dimensions = "
    "[0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>\n"
    "return %sum : tensor<f32>\n") "func.func private @f(%x: tensor<3x4xf32>) -> tensor<3x4xf32> "
                                   "{\n"
                                   "%y = stablehlo.tanh %x : tensor<3x4xf32>\n"
                                   "return %y : tensor<3x4xf32>\n"
                                   "}\n}\n";

/* Returns the canonical text of a module up to its dictionary. free() it. */
static char *canonical(const void *data, size_t len)
{
    struct canon_input input = {.data = data, .len = len, .kind = canon_detect(NULL, data, len)};
    struct canon_result result;
    struct writer text;
    struct err e = {0};
    writer_init(&text, 0);
    cr_assert_eq(canon_key(&input, &result, &text, &e), 0, "%u:%u: %s", e.line, e.column, e.text);
    writer_u8(&text, 0);
    size_t taken;
    char *all = writer_take(&text, &taken), *module = strstr(all, "\nmodule");
    cr_assert_not_null(module);
    *module = 0;
    return all;
}

/* Reads a module, writes it, and compares the canonical texts. */
static void goes_round(const void *data, size_t len)
{
    struct program *p;
    struct writer text;
    struct err e = {0};
    cr_assert_eq(program_read(data, len, &p, &e), 0, "line %u: %s", e.line, e.text);
    writer_init(&text, 0);
    program_write(p, &text);
    cr_assert_not(text.failed);
    char *was = canonical(data, len), *is = canonical(text.data, text.len);
    cr_expect_str_eq(is, was);
    free(was);
    free(is);
    writer_close(&text);
    program_free(p);
}

Test(program, every_operation_is_written_as_it_was_read)
{
    goes_round(EVERYTHING, strlen(EVERYTHING));
}

Test(program, real_modules_are_written_as_they_were_read)
{
    static const char *const FILES[] = {"tests/data/layers.mlir", "tests/data/layers.mlirbc"};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        static char data[1 << 20];
        FILE *f = fopen(FILES[i], "rb");
        cr_assert_not_null(f, "%s", FILES[i]);
        size_t len = fread(data, 1, sizeof data, f);
        fclose(f);
        goes_round(data, len);
    }
}

Test(program, a_program_keeps_shapes_and_ints)
{
    struct program *p;
    struct err e = {0};
    cr_assert_eq(program_read(EVERYTHING, strlen(EVERYTHING), &p, &e), 0, "%s", e.text);
    uint32_t f = program_function(p, NULL);
    cr_assert_neq(f, PROGRAM_NONE);
    cr_assert_eq(program_function(p, "main"), f);
    cr_assert_eq(program_function(p, "f"), PROGRAM_NONE, "a private function has no name");
    cr_assert_eq(p->blocks.at[p->functions.at[f].block].n_args, 4);
    uint32_t n_pads = 0;
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const struct operation *op = &p->ops.at[i];
        if (op->op != OP_PAD)
            continue;
        const struct tensor *t = program_tensor(p, op->results);
        n_pads++;
        cr_expect_eq(t->dims[0], 8);
        cr_expect_eq(t->dims[1], 5);
        cr_expect_eq(t->n, 40);
        cr_expect_eq(p->ints.at[op->ints + 1], -1);
    }
    cr_expect_eq(n_pads, 1);
    program_free(p);
}

static const struct {
    const char *body, *says;
    int code;
    unsigned line; /* of the canonical text */
} REFUSED[] = {
    {"%0 = stablehlo.fft %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "stablehlo.fft: an operation that the compiler lacks", WARM_EUNSUPPORTED, 2},
    {"%0 = stablehlo.add %x, %x : tensor<4xf32>\n%1 = stablehlo.custom_call @f(%0) : "
     "(tensor<4xf32>) -> tensor<4xf32>\nreturn %1 : tensor<4xf32>\n",
     "stablehlo.custom_call", WARM_EUNSUPPORTED, 3},
    {"%0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf8E4M3FN>\nreturn %x : "
     "tensor<4xf32>\n",
     "tensor<4xf8E4M3FN>: elements that the compiler lacks", WARM_EUNSUPPORTED, 2},
    {"%0 = \"stablehlo.reshape\"(%x) : (tensor<4xf32>) -> tensor<?xf32>\nreturn %x : "
     "tensor<4xf32>\n",
     "a dynamic shape", WARM_EUNSUPPORTED, 2},
    {"%0 = stablehlo.exponential %x {result_accuracy = #stablehlo.result_accuracy<mode = "
     "#stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "result_accuracy: an attribute that the compiler lacks", WARM_EUNSUPPORTED, 2},
    {"%0 = \"stablehlo.add\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<5xf32>\nreturn %x "
     ": tensor<4xf32>\n",
     "add: the result's type", WARM_EINVALID, 2},
    {"%0 = \"stablehlo.not\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "not: it does not take such elements", WARM_EINVALID, 2},
    {"%0 = \"stablehlo.tanh\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\nreturn "
     "%0 : tensor<4xf32>\n",
     "tanh: wrong number of operands", WARM_EINVALID, 2},
    {"%0 = \"stablehlo.slice\"(%x) <{start_indices = array<i64: 1>, limit_indices = array<i64: "
     "5>, strides = array<i64: 1>}> : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : "
     "tensor<4xf32>\n",
     "slice: the slice is not inside", WARM_EINVALID, 2},
    {"%0 = \"stablehlo.transpose\"(%x) <{permutation = array<i64: 1>}> : (tensor<4xf32>) -> "
     "tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "transpose: the permutation", WARM_EINVALID, 2},
    {"%0 = \"stablehlo.iota\"() <{iota_dimension = 0 : i64}> : () -> "
     "tensor<9223372036854775807x9223372036854775807xf32>\nreturn %x : tensor<4xf32>\n",
     "2^40 elements", WARM_ETOO_BIG, 2},
    {"%0 = \"stablehlo.iota\"() <{iota_dimension = 0 : i64}> : () -> "
     "tensor<0x1099511627776x1099511627776xf32>\nreturn %x : tensor<4xf32>\n",
     "2^40 elements", WARM_ETOO_BIG, 2},
    {"%c = stablehlo.constant dense<0.0> : tensor<f32>\n%s = stablehlo.slice %x [0:1] : "
     "(tensor<4xf32>) -> tensor<1xf32>\n%0 = stablehlo.pad %s, %c, low = [0], high = [0], interior "
     "= [9223372036854775807] : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>\n"
     "return %x : tensor<4xf32>\n",
     "pad: the padding is more than 2^40", WARM_EINVALID, 4},
    {"%c = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = stablehlo.pad %x, %c, low = "
     "[-9223372036854775807], high = [9223372036854775807], interior = [0] : (tensor<4xf32>, "
     "tensor<f32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "pad: the padding is more than 2^40", WARM_EINVALID, 3},
    {"%c = stablehlo.constant dense<0.0> : tensor<f32>\n%0 = stablehlo.pad %x, %c, low = "
     "[-1099511627777], high = [1099511627776], interior = [0] : (tensor<4xf32>, tensor<f32>) -> "
     "tensor<3xf32>\nreturn %x : tensor<4xf32>\n",
     "pad: the padding is more than 2^40", WARM_EINVALID, 3},
    {"%0 = stablehlo.constant dense<\"0x0808\"> : tensor<2xi1>\nreturn %x : tensor<4xf32>\n",
     "stablehlo.constant: attribute value", WARM_EUNSUPPORTED, 2},
    {"%0 = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "call: a function that calls itself", WARM_EUNSUPPORTED, 2},
    {"%0 = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n"
     "func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
     "%0 = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n"
     "func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
     "%0 = stablehlo.abs %x : tensor<4xf32>\n"
     "%1 = func.call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %1 : tensor<4xf32>\n",
     "call: a function that calls itself", WARM_EUNSUPPORTED, 6},
    {"return %x : tensor<4xf32>\n}\nfunc.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
     "return %x : tensor<4xf32>\n}\nfunc.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
     "%0 = stablehlo.abs %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "func.func: an earlier function has this name", WARM_EINVALID, 7},
    {"%0 = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>\n",
     "call: no such function", WARM_EINVALID, 2},
    {"return %x, %x : tensor<4xf32>, tensor<4xf32>\n", "return: the values' types", WARM_EINVALID,
     3},
};

/* Returns the canonical text of a module, as the program that was read from it is written. free() it. */
static char *rewritten(const char *module)
{
    struct program *p;
    struct writer text;
    struct err e = {0};
    cr_assert_eq(program_read(module, strlen(module), &p, &e), 0, "line %u: %s\n%s", e.line, e.text,
                 module);
    writer_init(&text, 0);
    program_write(p, &text);
    char *is = canonical(text.data, text.len);
    writer_close(&text);
    program_free(p);
    return is;
}

#define LAYER(module, dict, x, w, b, transpose, dot)                                               \
    "module @" module " {\n  func.func @main(%arg0: tensor<8x4xf32>" x                             \
    ", %arg1: tensor<16x4xf32>" w ", %arg2: tensor<16xf32>" b                                      \
    ") -> (tensor<8x16xf32>, tensor<16xf32>)" dict " {\n"                                          \
    "    %cst = stablehlo.constant dense<0.000000e+00> : tensor<8x16xf32>\n"                       \
    "    %0 = stablehlo.transpose %arg1, dims = [1, 0]" transpose                                  \
    " : (tensor<16x4xf32>) -> tensor<4x16xf32>\n    %1 = " dot                                     \
    " : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>\n"                                 \
    "    %2 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<16xf32>) -> "                 \
    "tensor<8x16xf32>\n    %3 = stablehlo.add %1, %2 : tensor<8x16xf32>\n"                         \
    "    %4 = stablehlo.maximum %3, %cst : tensor<8x16xf32>\n"                                     \
    "    return %4, %arg2 : tensor<8x16xf32>, tensor<16xf32>\n  }\n}\n"
#define GENERAL                                                                                    \
    "stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0], precision = [DEFAULT, "        \
    "DEFAULT]"

/* One layer, with the attributes and operations of each framework. */
Test(program, modules_of_jax_reactant_and_torch_xla_are_one_program)
{
    static const char JAX[] =
        LAYER("jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}", "",
              "", " {jax.buffer_donor = true}", "", "", GENERAL);
    static const char REACTANT[] =
        LAYER("\"reactant_Chain{...\" attributes {mhlo.num_partitions = 1 : i64, mhlo.num_replicas "
              "= 1 : i64}",
              " attributes {enzymexla.memory_effects = []}", " {enzymexla.memory_effects = []}",
              " {enzymexla.memory_effects = [], reactant.donated}",
              " {enzymexla.memory_effects = [], tf.aliasing_output = 1 : i32}", "", GENERAL);
    static const char REACTANT_2024[] =
        LAYER("reactant_f attributes {transform.with_named_sequence}", "", "", "", "", "", GENERAL);
    static const char TORCH_XLA[] =
        LAYER("IrToHlo.18 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias "
              "= [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false}",
              "", "", "", "",
              " {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "
              "\"f32[4,16]{0,1}\"}",
              "stablehlo.dot %arg0, %0, precision = [DEFAULT, DEFAULT]");
    static const char MANY[] =
        LAYER("jit_f attributes {mhlo.num_partitions = 2 : i64, mhlo.num_replicas = 1 : i64}", "",
              "", "", "", "", GENERAL);
    static const char *const OTHERS[] = {REACTANT, REACTANT_2024, TORCH_XLA};
    struct program *p;
    struct err e = {0};
    char *want = rewritten(JAX);
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        char *is = rewritten(OTHERS[i]);
        cr_expect_str_eq(is, want);
        free(is);
    }
    free(want);
    cr_expect_eq(program_read(MANY, strlen(MANY), &p, &e), WARM_EUNSUPPORTED);
    cr_expect(strstr(e.text, "mhlo.num_partitions: an attribute"), "%s", e.text);
}

/* JAX writes it for an argument that is a key of jax.random.key(). */
Test(program, a_mesh_of_one_device_changes_nothing)
{
#define KEYED(mesh, constraint, key)                                                               \
    "module @jit_f {\n" mesh                                                                       \
    "func.func public @main(%k: tensor<2xui32>) -> tensor<2xui32> {\n" constraint                  \
    "%1 = stablehlo.add " key ", " key " : tensor<2xui32>\nreturn %1 : tensor<2xui32>\n}\n}\n"
    static const char CONSTRAINT[] =
        KEYED("sdy.mesh @empty_mesh = <[]>\n",
              "%0 = sdy.sharding_constraint %k <@empty_mesh, [{}]> : tensor<2xui32>\n", "%0");
    static const char MESH[] = KEYED("sdy.mesh @mesh = <[\"x\"=2]>\n", "", "%k");
    struct program *p;
    struct err e = {0};
    char *is = rewritten(CONSTRAINT), *want = rewritten(KEYED("", "", "%k"));
    cr_expect_str_eq(is, want);
    free(is);
    free(want);
    cr_expect_eq(program_read(MESH, strlen(MESH), &p, &e), WARM_EUNSUPPORTED);
    cr_expect(strstr(e.text, "sdy.mesh: an operation that the compiler lacks"), "%s", e.text);
}

Test(program, a_product_of_vectors_has_no_dimension_numbers)
{
    char *is = rewritten("func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: "
                         "tensor<4x3xf32>) -> (tensor<f32>, tensor<3xf32>) {\n"
                         "%0 = \"stablehlo.dot\"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> "
                         "tensor<f32>\n%1 = \"stablehlo.dot\"(%x, %z) : (tensor<4xf32>, "
                         "tensor<4x3xf32>) -> tensor<3xf32>\n"
                         "return %0, %1 : tensor<f32>, tensor<3xf32>\n}\n");
    cr_expect(strstr(is, "contracting_dimensions = [0], rhs_contracting_dimensions = [0]"), "%s",
              is);
    free(is);
}

Test(program, refusals_name_operation_and_line)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        char text[2048];
        struct program *p = NULL;
        struct err e = {0};
        snprintf(text, sizeof text, MAIN("%%x: tensor<4xf32>", "tensor<4xf32>", "%s"),
                 REFUSED[i].body);
        int rc = program_read(text, strlen(text), &p, &e);
        cr_expect_eq(rc, REFUSED[i].code, "%zu: %d %s", i, rc, e.text);
        cr_expect_not_null(strstr(e.text, REFUSED[i].says), "%zu: %s", i, e.text);
        cr_expect_eq(e.line, REFUSED[i].line, "%zu: line %u", i, e.line);
        cr_expect_null(p);
    }
}

/* Pointers go into these arrays, which UBSan reports for NULL. */
Test(program, arrays_without_an_entry_are_there)
{
    static const char NEGATE[] =
        MAIN("%x: tensor<f32>", "tensor<f32>",
             "%0 = stablehlo.negate %x : tensor<f32>\nreturn %0 : tensor<f32>\n");
    struct program *p = NULL;
    cr_assert_eq(program_read(NEGATE, strlen(NEGATE), &p, NULL), 0);
    cr_expect_eq(p->ints.n, 0);
    cr_expect(p->ints.at && p->operands.at && p->data.at);
    program_free(p);
}

Test(program, other_inputs_are_refused)
{
    struct program *p = NULL;
    struct err e = {0};
    static const char SPLIT[] = "module attributes {mhlo.num_partitions = 4 : i32} {\n}\n";
    static const char UNDEFINED[] =
        MAIN("%x: tensor<f32>", "tensor<f32>", "return %y : tensor<f32>\n");
    cr_expect_eq(program_read("HloModule m", 11, &p, &e), WARM_EUNSUPPORTED);
    cr_expect_eq(program_read(SPLIT, strlen(SPLIT), &p, &e), WARM_EUNSUPPORTED);
    cr_expect_not_null(strstr(e.text, "mhlo.num_partitions"), "%s", e.text);
    cr_expect_eq(program_read(UNDEFINED, strlen(UNDEFINED), &p, &e), WARM_EMALFORMED);
    cr_expect_eq(e.line, 2, "%u: %s", e.line, e.text);
    cr_expect_null(p);
}

/* Cuts and damages a module everywhere: the reader never fails badly, which ASan watches. */
Test(program, damaged_modules_are_read_or_refused)
{
    size_t len = strlen(EVERYTHING);
    char *text = malloc(len);
    for (size_t i = 0; i < len; i += 3) {
        struct program *p = NULL;
        struct err e = {0};
        memcpy(text, EVERYTHING, len);
        if (i % 2)
            text[i] = "0%x<>[]{}(9:-"[i % 13];
        int rc = program_read(text, i % 2 ? len : i, &p, &e);
        cr_expect_eq(rc == 0, p != NULL);
        program_free(p);
    }
    free(text);
}

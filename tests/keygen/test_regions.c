/* SPDX-License-Identifier: Apache-2.0 */
/* test_regions.c - parts of modules that are compiled alike: which are found, and their keys. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/canon.h"

struct list {
    struct canon_region *at;
    size_t n;
};

static struct list regions_of(const char *text, size_t len)
{
    struct canon_input input = {.data = text, .len = len, .kind = CANON_MLIR};
    struct list list = {0};
    struct err e = {0};
    int rc = canon_regions(&input, &list.at, &list.n, &e);
    cr_assert_eq(rc, 0, "%u:%u: %s", e.line, e.column, e.text);
    return list;
}

static const struct canon_region *with_count(struct list list, uint64_t count)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].count == count)
            return &list.at[i];
    return NULL;
}

static const struct canon_region *with_key(struct list list, const struct key *key)
{
    for (size_t i = 0; i < list.n; i++)
        if (key_equal(&list.at[i].key, key))
            return &list.at[i];
    return NULL;
}

/* A chain of `n` layers written out: dot, bias, relu, and the input added to the result. `head` is what
 * is done to the model's argument before; NULL: nothing. */
static struct list chain(unsigned n, const char *head, const char *function)
{
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "module @%s {\nfunc.func public @main(%%x: tensor<4x4xf32>", function);
    for (unsigned i = 0; i < n; i++)
        writer_format(&w, ", %%w%u: tensor<4x4xf32>, %%b%u: tensor<4xf32>", i, i);
    writer_format(&w, ") -> tensor<4x4xf32> {\n");
    if (head)
        writer_format(&w, "%%h = stablehlo.%s %%x : tensor<4x4xf32>\n", head);
    for (unsigned i = 0; i < n; i++) {
        char in[16];
        snprintf(in, sizeof in, i ? "%%y%u" : head ? "%%h" : "%%x", i - 1);
        writer_format(&w,
                      "%%d%u = stablehlo.dot_general %s, %%w%u, contracting_dims = [1] x [0] : "
                      "(tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n"
                      "%%c%u = stablehlo.broadcast_in_dim %%b%u, dims = [1] : (tensor<4xf32>) -> "
                      "tensor<4x4xf32>\n%%s%u = stablehlo.add %%d%u, %%c%u : tensor<4x4xf32>\n"
                      "%%z%u = stablehlo.constant dense<0.0> : tensor<4x4xf32>\n"
                      "%%r%u = stablehlo.maximum %%s%u, %%z%u : tensor<4x4xf32>\n"
                      "%%y%u = stablehlo.add %%r%u, %s : tensor<4x4xf32>\n",
                      i, in, i, i, i, i, i, i, i, i, i, i, i, i, in);
    }
    writer_format(&w, "return %%y%u : tensor<4x4xf32>\n}\n}\n", n - 1);
    struct list list = regions_of((const char *)w.data, w.len);
    writer_close(&w);
    return list;
}

Test(regions, equal_layers_are_one_region)
{
    struct list list = chain(64, "sine", "jit_step");
    const struct canon_region *layer = with_count(list, 64);
    cr_assert_not_null(layer);
    cr_expect_eq(layer->n_ops, 6, "%lu operations", (unsigned long)layer->n_ops);
    cr_expect_eq(list.n, 2, "the layer and the model, not %zu", list.n);
    free(list.at);
}

/* An argument is surely no product, so the first layer's additions would commute in the module's key, and
 * the others' would not. */
Test(regions, what_enters_the_first_layer_does_not_matter)
{
    struct list list = chain(16, NULL, "jit_step"), other = chain(16, "sine", "jit_step");
    const struct canon_region *layer = with_count(list, 16), *same = with_count(other, 16);
    cr_assert_not_null(layer);
    cr_assert_not_null(same);
    cr_expect(key_equal(&layer->key, &same->key));
    free(list.at);
    free(other.at);
}

Test(regions, a_deeper_model_with_another_head_and_name_shares_its_layers)
{
    struct list shallow = chain(12, "sine", "jit_step"), deep = chain(40, "cosine", "jit_other");
    const struct canon_region *layer = with_count(shallow, 12);
    cr_assert_not_null(layer);
    const struct canon_region *found = with_key(deep, &layer->key);
    cr_assert_not_null(found);
    cr_expect_eq(found->count, 40);
    cr_expect_eq(memcmp(&found->proof, &layer->proof, sizeof layer->proof), 0);
    free(shallow.at);
    free(deep.at);
}

static const char two_functions[] =
    "module @a {\n"
    "func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
    "%0 = call @outer(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
    "%1 = call @outer(%0, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
    "%2 = call @inner(%1) : (tensor<4xf32>) -> tensor<4xf32>\n"
    "return %2 : tensor<4xf32>\n}\n"
    "func.func private @outer(%p: tensor<4xf32>, %q: tensor<4xf32>) -> tensor<4xf32> {\n"
    "%0 = call @inner(%p) : (tensor<4xf32>) -> tensor<4xf32>\n"
    "%1 = stablehlo.subtract %0, %q : tensor<4xf32>\n"
    "return %1 : tensor<4xf32>\n}\n"
    "func.func private @inner(%v: tensor<4xf32>) -> tensor<4xf32> {\n"
    "%0 = stablehlo.tanh %v : tensor<4xf32>\n"
    "return %0 : tensor<4xf32>\n}\n}\n";

static struct canon_region labelled(struct list list, const char *label)
{
    for (size_t i = 0; i < list.n; i++)
        if (strcmp(list.at[i].label, label) == 0)
            return list.at[i];
    cr_assert_fail("no region called %s", label);
    return (struct canon_region){0};
}

/* Beside a power, of which a compiler may make a sum of products, nothing in a module commutes. */
Test(regions, what_commutes_in_the_module_does_not_matter)
{
    static const char *const heads[] = {"stablehlo.sine %x", "stablehlo.power %x, %x"};
    struct list lists[2];
    for (size_t i = 0; i < 2; i++) {
        char text[1024];
        int n = snprintf(
            text, sizeof text,
            "func.func public @main(%%x: tensor<f32>, %%i: tensor<i32>, %%j: tensor<i32>) -> "
            "(tensor<f32>, tensor<i32>) {\n%%h = %s : tensor<f32>\n"
            "%%0 = call @one(%%i, %%j) : (tensor<i32>, tensor<i32>) -> tensor<i32>\n"
            "%%1 = call @other(%%0, %%j) : (tensor<i32>, tensor<i32>) -> tensor<i32>\n"
            "return %%h, %%1 : tensor<f32>, tensor<i32>\n}\n"
            "func.func private @one(%%a: tensor<i32>, %%b: tensor<i32>) -> tensor<i32> {\n"
            "%%0 = stablehlo.add %%a, %%b : tensor<i32>\nreturn %%0 : tensor<i32>\n}\n"
            "func.func private @other(%%a: tensor<i32>, %%b: tensor<i32>) -> tensor<i32> {\n"
            "%%0 = stablehlo.add %%b, %%a : tensor<i32>\nreturn %%0 : tensor<i32>\n}\n",
            heads[i]);
        lists[i] = regions_of(text, (size_t)n);
    }
    struct key one = labelled(lists[0], "one").key, other = labelled(lists[0], "other").key;
    cr_expect_not_null(with_key(lists[1], &one));
    cr_expect_not_null(with_key(lists[1], &other));
    cr_expect(!key_equal(&one, &other), "which operand is first is not known to be of no matter");
    free(lists[0].at);
    free(lists[1].at);
}

Test(regions, functions_count_as_often_as_calls_reach_them)
{
    struct list list = regions_of(two_functions, strlen(two_functions));
    cr_expect_eq(labelled(list, "main").count, 1);
    cr_expect_eq(labelled(list, "outer").count, 2);
    cr_expect_eq(labelled(list, "inner").count, 3);
    cr_expect_eq(labelled(list, "inner").n_ops, 1);
    cr_expect_eq(labelled(list, "outer").n_ops, 2, "what it calls is in it");
    cr_expect_str_eq(list.at[0].label, "main", "in the order of the text");
    free(list.at);
}

Test(regions, a_function_has_its_key_wherever_it_stands)
{
    static const char elsewhere[] =
        "module @completely_different attributes {mhlo.num_partitions = 1 : i32, "
        "mhlo.num_replicas = 1 : i32} {\n"
        "func.func private @layer_7(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%9 = stablehlo.tanh %a : tensor<4xf32>\nreturn %9 : tensor<4xf32>\n}\n"
        "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%0 = stablehlo.sine %x : tensor<4xf32>\n"
        "%1 = call @layer_7(%0) : (tensor<4xf32>) -> tensor<4xf32>\n"
        "return %1 : tensor<4xf32>\n}\n}\n";
    struct list here = regions_of(two_functions, strlen(two_functions));
    struct list there = regions_of(elsewhere, strlen(elsewhere));
    struct canon_region a = labelled(here, "inner"), b = labelled(there, "layer_7");
    cr_expect(key_equal(&a.key, &b.key));
    cr_expect_eq(b.count, 1);
    free(here.at);
    free(there.at);
}

Test(regions, parameters_count_by_position)
{
    static const char one[] =
        "func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%0 = stablehlo.subtract %x, %y : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n";
    static const char other[] =
        "func.func public @main(%y: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%0 = stablehlo.subtract %x, %y : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}\n";
    struct list a = regions_of(one, strlen(one)), b = regions_of(other, strlen(other));
    cr_assert_eq(a.n, 1);
    cr_assert_eq(b.n, 1);
    cr_expect(!key_equal(&a.at[0].key, &b.at[0].key));
    free(a.at);
    free(b.at);
}

Test(regions, the_mesh_that_a_region_names_counts)
{
    static const char text[] =
        "module {\nsdy.mesh @mesh = <[\"x\"=2]>\n"
        "func.func public @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, "
        "[{\"x\"}]>}) -> tensor<4xf32> {\nreturn %x : tensor<4xf32>\n}\n}\n";
    char *other = strdup(text);
    *strstr(other, "=2") = '=';
    strstr(other, "=2")[1] = '4';
    struct list a = regions_of(text, strlen(text)), b = regions_of(other, strlen(other));
    cr_expect(!key_equal(&a.at[0].key, &b.at[0].key));
    free(a.at);
    free(b.at);
    free(other);
}

Test(regions, text_kinds_have_none)
{
    struct canon_input input = {.data = "x", .len = 1, .kind = CANON_RAW};
    struct canon_region *list;
    size_t n;
    struct err e;
    cr_expect_eq(canon_regions(&input, &list, &n, &e), WARM_EUNSUPPORTED);
}

Test(regions, golden_key_of_a_layer)
{
    struct list list = chain(8, "sine", "jit_step");
    const struct canon_region *layer = with_count(list, 8);
    cr_assert_not_null(layer);
    char text[WARM_KEY_TEXT];
    key_to_text(&layer->key, text);
    cr_expect_str_eq(text, "870e460ef9e8d07070a69129ca29b3e2"); /* region/2 mlir/15 */
    free(list.at);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_regions.c - `warm hash --regions` and `warm compile` agree: modules of equal regions ask the store
 * for equal kernels, and one more repetition of a layer is no new region and no new kernel.
 *
 * A kernel is no region: it may be a part of one, and it fuses what stands around a border. So each layer here
 * has a product, where the code generator begins a launch (codegen.h).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codegen/codegen.h"
#include "kernels/vjp/vjp.h"
#include "keygen/canon/canon.h"
#include "tests/kernels/for_cpu.h"

/* ---- regions and kernels of a module ---- */

struct regions {
    struct canon_region *at;
    size_t n;
};

static struct regions regions_of(const char *text, size_t len)
{
    struct canon_input input = {.data = text, .len = len, .kind = CANON_MLIR};
    struct regions r = {NULL, 0};
    struct err e = {0};
    cr_assert_eq(canon_regions(&input, &r.at, &r.n, &e), 0, "%u: %s", e.line, e.text);
    return r;
}

/* Returns the key of the region that stands n times. */
static struct key region_of_count(const char *text, uint64_t n)
{
    struct regions r = regions_of(text, strlen(text));
    struct key key = {{0}};
    size_t found = 0;
    for (size_t i = 0; i < r.n; i++)
        if (r.at[i].count == n) {
            key = r.at[i].key;
            found++;
        }
    cr_expect_eq(found, (size_t)1, "%zu regions stand %lu times\n%s", found, (unsigned long)n,
                 text);
    free(r.at);
    return key;
}

static struct program *read_text(const char *text, size_t len)
{
    struct program *p = NULL;
    struct err e = {0};
    cr_assert_eq(program_read(text, len, &p, &e), 0, "%u: %s", e.line, e.text);
    return p;
}

/* Returns the code of a module's function, or of its derivative for all arguments: what the store is asked. */
static struct codegen code_of(const struct program *p, bool vjp)
{
    uint32_t f = program_function(p, NULL), arguments[JAX_TENSORS_MAX];
    uint32_t n = p->blocks.at[p->functions.at[f].block].n_args;
    struct program *made = NULL;
    struct codegen c;
    struct err e = {0};
    cr_assert_leq(n, (uint32_t)JAX_TENSORS_MAX);
    for (uint32_t i = 0; i < n; i++)
        arguments[i] = i;
    int rc = vjp ? vjp_function(p, f, arguments, n, &made, &e) : program_flatten(p, f, &made, &e);
    if (rc == 0)
        rc = codegen_function(made, program_function(made, NULL), &c, &e);
    cr_assert_eq(rc, 0, "%s", e.text);
    program_free(made);
    return c;
}

static bool has_kernel(const struct codegen *c, const struct codegen *of, uint32_t kernel)
{
    const struct kernel_text *t = &of->texts.at[kernel];
    for (uint32_t i = 0; i < c->n_kernels; i++)
        if (c->texts.at[i].len == t->len &&
            memcmp(c->source.data + c->texts.at[i].at, of->source.data + t->at, t->len) == 0)
            return true;
    return false;
}

/* Returns how many kernels of a module another one has not. */
static uint32_t n_new(const struct program *a, const struct program *b, bool vjp)
{
    struct codegen x = code_of(a, vjp), y = code_of(b, vjp);
    uint32_t n = 0;
    for (uint32_t i = 0; i < x.n_kernels; i++)
        n += !has_kernel(&y, &x, i);
    codegen_free(&x);
    codegen_free(&y);
    return n;
}

static uint32_t n_differ(const char *a, const char *b, bool vjp)
{
    struct program *p = read_text(a, strlen(a)), *q = read_text(b, strlen(b));
    uint32_t n = n_new(p, q, vjp) + n_new(q, p, vjp);
    program_free(p);
    program_free(q);
    return n;
}

/* ---- modules of JAX, and the same in another spelling ---- */

/* True if a module has Enzyme's attributes. A program does not keep them, and they count in a region's key. */
static bool has_more_attributes(const struct jax_graph *g)
{
    return memmem(g->module, g->module_len, "enzymexla.", 10) != NULL;
}

/* Returns the module in MLIR's generic form, with other names. free() it. */
static char *written(const struct program *p)
{
    struct writer w;
    size_t len;
    writer_init(&w, 0);
    program_write(p, &w);
    writer_u8(&w, 0);
    char *text = writer_take(&w, &len);
    cr_assert_not_null(text);
    return text;
}

Test(graph_regions, modules_of_equal_regions_ask_for_equal_kernels)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), n_regions = 0;
    for (size_t i = 0; i < n; i++) {
        struct program *p = read_text(graphs[i].module, graphs[i].module_len);
        char *text = written(p);
        struct program *q = read_text(text, strlen(text));
        struct regions a = regions_of(graphs[i].module, graphs[i].module_len),
                       b = regions_of(text, strlen(text));
        cr_assert_eq(a.n, b.n, "%s: %zu, %zu", graphs[i].name, a.n, b.n);
        for (size_t k = 0; k < a.n && !has_more_attributes(graphs + i); k++)
            cr_expect(a.at[k].count == b.at[k].count && key_equal(&a.at[k].key, &b.at[k].key),
                      "%s: region %zu", graphs[i].name, k);
        for (int vjp = 0; vjp < 1 + (graphs[i].n_gradients > 0); vjp++)
            cr_expect_eq(n_new(p, q, vjp) + n_new(q, p, vjp), 0u, "%s", graphs[i].name);
        n_regions += a.n;
        free(a.at);
        free(b.at);
        free(text);
        program_free(p);
        program_free(q);
    }
    cr_expect_gt(n_regions, n);
}

/* ---- layers ---- */

/* Bodies of a layer of width W: %x and %w are given, and %y is its result. */
static const char *const LAYERS[] = {
    "%d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (T, V) -> T\n"
    "%y = stablehlo.tanh %d : T\n",
    "%d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (T, V) -> T\n"
    "%z = stablehlo.constant dense<0.0> : T\n%r = stablehlo.maximum %d, %z : T\n"
    "%s = stablehlo.logistic %r : T\n"
    "%e = stablehlo.dot_general %s, %w, contracting_dims = [1] x [1] : (T, V) -> T\n"
    "%y = stablehlo.add %x, %e : T\n"};

/* Appends text with T, V for the types of a tensor and of weights. */
static void write_typed(struct writer *w, const char *text, int width)
{
    for (; *text; text++)
        if (*text == 'T')
            writer_format(w, "tensor<8x%dxf32>", width);
        else if (*text == 'V')
            writer_format(w, "tensor<%dx%dxf32>", width, width);
        else
            writer_bytes(w, text, 1);
}

/* Returns a module that calls a layer n times, or that has it n times in a row. free() it. */
static char *chain(const char *layer, int n, int width, bool unrolled)
{
    struct writer w;
    size_t len;
    writer_init(&w, 0);
    write_typed(&w, "func.func private @layer(%x: T, %w: V) -> T {\n", width);
    write_typed(&w, layer, width);
    write_typed(&w, "return %y : T\n}\nfunc.func public @main(%x0: T", width);
    for (int i = 0; i < n; i++) {
        writer_format(&w, ", %%w%d: ", i);
        write_typed(&w, "V", width);
    }
    write_typed(&w, ") -> T {\n", width);
    for (int i = 0; i < n; i++) {
        writer_format(&w, "%%x%d = func.call @layer(%%x%d, %%w%d) : ", i + 1, i, i);
        write_typed(&w, "(T, V) -> T\n", width);
    }
    writer_format(&w, "return %%x%d : ", n);
    write_typed(&w, "T\n}\n", width);
    writer_u8(&w, 0);
    char *text = writer_take(&w, &len);
    if (unrolled) {
        struct program *p = read_text(text, strlen(text)), *flat;
        struct err e = {0};
        cr_assert_eq(program_flatten(p, program_function(p, NULL), &flat, &e), 0, "%s", e.text);
        free(text);
        text = written(flat);
        program_free(flat);
        program_free(p);
    }
    return text;
}

Test(graph_regions, one_more_layer_is_no_new_region_and_no_new_kernel)
{
    for (size_t i = 0; i < sizeof LAYERS / sizeof *LAYERS; i++)
        for (int unrolled = 0; unrolled < 2; unrolled++) {
            char *three = chain(LAYERS[i], 3, 16, unrolled),
                 *wide = chain(LAYERS[i], 3, 32, unrolled);
            struct key of_three = region_of_count(three, 3), of_wide = region_of_count(wide, 3);
            cr_expect_not(key_equal(&of_three, &of_wide));
            cr_expect_gt(n_differ(three, wide, false), 0u);
            for (int n = 4; n <= 16; n *= 2) {
                char *more = chain(LAYERS[i], n, 16, unrolled);
                struct key of_more = region_of_count(more, (uint64_t)n);
                cr_expect(key_equal(&of_three, &of_more), "layer %zu, %d times", i, n);
                for (int vjp = 0; vjp < 2; vjp++)
                    cr_expect_eq(n_differ(three, more, vjp), 0u, "layer %zu, %d times, %d", i, n,
                                 vjp);
                free(more);
            }
            free(three);
            free(wide);
        }
}

/* How a layer is written makes another region, and the same kernels. */
Test(graph_regions, calls_and_layers_in_a_row_ask_for_equal_kernels)
{
    for (size_t i = 0; i < sizeof LAYERS / sizeof *LAYERS; i++) {
        char *calls = chain(LAYERS[i], 5, 16, false), *row = chain(LAYERS[i], 5, 16, true);
        for (int vjp = 0; vjp < 2; vjp++)
            cr_expect_eq(n_differ(calls, row, vjp), 0u, "layer %zu", i);
        free(calls);
        free(row);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_bundle.c - the plan of a bundle, run on the CPU: its kernels on its arena give the numbers of
 * JAX. A bundle that is damaged anywhere is refused.
 */
#include "kernels/bundle/graph_bundle.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/vjp/vjp.h"
#include "tests/kernels/for_cpu.h"
#include "tests/kernels/jax_graphs.h"

/* Returns bytes of a bundle: the plan of this code, with names for cubins. */
static struct writer bytes_of(const struct codegen *c)
{
    struct graph_bundle b;
    struct err e = {0};
    struct writer w;
    cr_assert_eq(graph_bundle_plan(c, &b, &e), 0, "%s", e.text);
    b.target = view_of_text("sm_90");
    b.compiler = view_of_text("NVRTC");
    for (uint32_t i = 0; i < b.kernels.n; i++)
        b.kernels.at[i] = (struct graph_kernel){view_of_text("key"), view_of_text("cubin")};
    writer_init(&w, 0);
    graph_bundle_write(&b, &w);
    cr_assert(!w.failed);
    graph_bundle_close(&b);
    return w;
}

/* Returns the address of each buffer. Arguments are the graph's; the arena has bytes that are no numbers. */
static void **buffers_of(const struct jax_graph *g, const struct graph_bundle *b, char *arena)
{
    void **at = calloc((size_t)b->buffers.n + 1, sizeof *at);
    memset(arena, 0xFF, (size_t)b->arena);
    for (uint32_t i = 0; i < b->buffers.n; i++) {
        const struct graph_buffer *buffer = &b->buffers.at[i];
        at[i] = buffer->place == PLACE_ARENA ? arena + buffer->at
                                             : (void *)(b->constants.data + buffer->at);
        if (buffer->place != PLACE_ARGUMENT)
            continue;
        at[i] = calloc((size_t)buffer->type.n + 1, sizeof(float));
        for_cpu_argument(g, i, buffer->type.elem, at[i]);
    }
    return at;
}

static void run_plan(const struct jax_graph *g, const struct graph_bundle *b, void (*run)(void **))
{
    char *arena = malloc((size_t)b->arena + 1);
    void **at = buffers_of(g, b, arena);
    run(at);
    for (uint32_t i = 0; i < b->results.n; i++)
        for_cpu_agrees(g, i, b->buffers.at[b->results.at[i]].type.elem, at[b->results.at[i]]);
    for (uint32_t i = 0; i < b->n_arguments; i++)
        free(at[i]);
    free(at);
    free(arena);
}

/* Expects the forward part to read no cotangent, and the graph's results to be written by it. */
static void forward_stands_alone(const struct jax_graph *g, const struct graph_bundle *b)
{
    for (uint32_t i = 0; i < b->launches.n; i++) {
        const struct graph_launch *l = &b->launches.at[i];
        for (uint32_t k = 0; k < l->n_args; k++) {
            uint32_t buffer = b->operands.at[l->args + k];
            cr_expect(i >= b->n_forward || buffer >= b->n_arguments || buffer < g->n_args,
                      "%s: launch %u reads cotangent %u", g->name, i, buffer);
            for (size_t r = 0;
                 i >= b->n_forward && k >= l->n_args - l->n_writes && r < g->n_results; r++)
                cr_expect(buffer != b->results.at[r], "%s: launch %u writes result %zu", g->name, i,
                          r);
        }
    }
}

/* Compiles graphs for the CPU, runs them, and compares with JAX. Counts their operations in `seen`. */
static void agree(const struct jax_graph *graphs, size_t n, uint32_t *seen)
{
    struct writer *bytes = calloc(n, sizeof *bytes);
    struct graph_bundle *bundles = calloc(n, sizeof *bundles);
    struct err e = {0};
    struct for_cpu cpu = for_cpu_open();
    for (size_t i = 0; i < n; i++) {
        struct program *d = for_cpu_derivative(&graphs[i]);
        struct codegen c;
        cr_assert_eq(codegen_function(d, program_function(d, NULL), &c, &e), 0, "%s", e.text);
        bytes[i] = bytes_of(&c);
        cr_assert_eq(graph_bundle_read(bytes[i].data, bytes[i].len, &bundles[i], &e), 0, "%s: %s",
                     graphs[i].name, e.text);
        for_cpu_plan(cpu.f, i, &bundles[i], &c);
        forward_stands_alone(&graphs[i], &bundles[i]);
        for (uint32_t k = 0; k < c.p->ops.n; k++)
            seen[c.p->ops.at[k].op]++;
        codegen_free(&c);
        program_free(d);
    }
    for_cpu_compile(&cpu);
    for (size_t i = 0; i < n; i++)
        run_plan(&graphs[i], &bundles[i], for_cpu_run(&cpu, i));
    for (size_t i = 0; i < n; i++) {
        graph_bundle_close(&bundles[i]);
        writer_close(&bytes[i]);
    }
    for_cpu_close(&cpu);
    free(bundles);
    free(bytes);
}

/* Copies each graph that has a new operation, and one of four others; with WARM_TEST_ALL, or a file of the caller's, all. Returns their number. */
static size_t take_sample(const struct jax_graph *graphs, size_t n, struct jax_graph *out)
{
    bool seen[OP_N] = {false};
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        struct program *d = for_cpu_derivative(&graphs[i]);
        bool taken = i % 4 == 0 || getenv("WARM_TEST_ALL") || getenv("WARM_JAX_GRAPHS");
        for (uint32_t k = 0; k < d->ops.n; k++) {
            taken |= !seen[d->ops.at[k].op];
            seen[d->ops.at[k].op] = true;
        }
        program_free(d);
        if (taken)
            out[n_out++] = graphs[i];
    }
    return n_out;
}

Test(graph_bundle, the_plan_gives_the_numbers_of_jax)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs);
    struct jax_graph *sample = calloc(n, sizeof *sample);
    uint32_t seen[OP_N] = {0};
    agree(sample, take_sample(graphs, n, sample), seen);
    free(sample);
    for (int op = 0; op < OP_CALL && !getenv("WARM_JAX_GRAPHS"); op++) /* a call is written out */
        cr_expect(seen[op] > 0, "%s is in no graph that was run", program_op_name((enum op)op));
}

/* Under ThreadSanitizer (`make tsan`) these have a thread for each of the GPU's. */
Test(graph_bundle, barriers_are_where_threads_need_them)
{
    static const char *const NAMES[] = {"mlp_1_16_16_1", "scanned", "nested", "backwards"};
    struct jax_graph *graphs, sample[4];
    size_t n = jax_graphs_read(&graphs), n_sample = 0;
    uint32_t seen[OP_N] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 4; k++)
            if (strcmp(graphs[i].name, NAMES[k]) == 0)
                sample[n_sample++] = graphs[i];
    cr_assert_eq(n_sample, (size_t)4);
    agree(sample, n_sample, seen);
}

/* Returns the bundle of a graph with a constant. */
static struct writer small_bundle(void)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        "%c = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>\n"
        "%0 = func.call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>\n"
        "%1 = stablehlo.add %0, %c : tensor<3xf32>\nreturn %1 : tensor<3xf32>\n}\n"
        "func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        "%0 = stablehlo.tanh %x : tensor<3xf32>\nreturn %0 : tensor<3xf32>\n}\n";
    struct program *p, *f;
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(program_read(MODULE, strlen(MODULE), &p, &e), 0, "%s", e.text);
    cr_assert_eq(program_flatten(p, program_function(p, NULL), &f, &e), 0, "%s", e.text);
    cr_assert_eq(codegen_function(f, program_function(f, NULL), &c, &e), 0, "%s", e.text);
    cr_expect_eq(c.launches.n, 1u);
    struct writer w = bytes_of(&c);
    codegen_free(&c);
    program_free(f);
    program_free(p);
    return w;
}

/* Expects that a reader refuses bytes, with this code or with any. */
static void refused(const void *data, size_t len, int code)
{
    struct graph_bundle b;
    struct err e = {0};
    int rc = graph_bundle_read(data, len, &b, &e);
    cr_expect(code ? rc == code : rc != 0, "%zu bytes: %d, not %d", len, rc, code);
    graph_bundle_close(&b);
}

Test(graph_bundle, damaged_bytes_are_refused)
{
    struct writer w = small_bundle();
    for (size_t len = 0; len < w.len; len++)
        refused(w.data, len, 0);
    for (size_t i = 0; i < w.len; i++) {
        w.data[i] ^= 4;
        if (i < 12 || i >= 24) /* the arguments and the arena are checked by themselves */
            refused(w.data, w.len,
                    i < 8    ? WARM_EMALFORMED
                    : i < 12 ? WARM_EVERSION
                             : WARM_ECORRUPT);
        w.data[i] ^= 4;
    }
    writer_close(&w);
}

/* The checksum put right, a changed number is in range, or the bundle is refused. */
Test(graph_bundle, numbers_are_in_range)
{
    struct writer w = small_bundle();
    size_t n_refused = 0;
    for (size_t i = 12; i < w.len; i++) {
        uint8_t old = w.data[i];
        struct graph_bundle b;
        struct err e = {0};
        w.data[i] = 0xFF;
        uint64_t sum = XXH3_64bits(w.data + 32, w.len - 32);
        if (i < 24 || i >= 32)
            bytes_store(w.data + 24, sum, 8);
        n_refused += graph_bundle_read(w.data, w.len, &b, &e) != 0;
        for (uint32_t k = 0; k < b.operands.n; k++)
            cr_expect(b.operands.at[k] < b.buffers.n);
        graph_bundle_close(&b);
        w.data[i] = old;
        bytes_store(w.data + 24, XXH3_64bits(w.data + 32, w.len - 32), 8);
    }
    cr_expect(n_refused > 100);
    writer_close(&w);
}

/* ---- cubins ---- */

/* Appends the header of a section of an ELF file. */
static void put_section(struct writer *w, uint32_t name, uint64_t at, uint64_t len)
{
    writer_u32(w, name);
    writer_u32(w, 1);
    for (int i = 0; i < 2; i++)
        writer_u64(w, 0);
    writer_u64(w, at);
    writer_u64(w, len);
    for (int i = 0; i < 3; i++)
        writer_u64(w, 0);
}

/* A cubin has one such section. A file with many is not searched once for each of them. */
Test(graph_bundle, registers_are_those_of_the_first_section)
{
    static const char NAMES[16] = "x.nv.info";
    static const uint32_t COUNTS[] = {16, 99};
    uint32_t registers = 0;
    uint64_t shared;
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, "\177ELF\2\1", 6);
    memset(writer_reserve(&w, 34), 0, 34);
    writer_u64(&w, 64); /* 0x28: the sections */
    memset(writer_reserve(&w, 12), 0, 12);
    writer_u16(&w, 3);
    writer_u16(&w, 0);
    put_section(&w, 0, 64 + 3 * 64, sizeof NAMES);
    for (uint64_t i = 0; i < 2; i++)
        put_section(&w, 1, 64 + 3 * 64 + 16 + 12 * i, 12);
    writer_bytes(&w, NAMES, sizeof NAMES);
    for (int i = 0; i < 2; i++) {
        writer_u16(&w, 0x2f04);
        writer_u16(&w, 8);
        writer_u32(&w, 5);
        writer_u32(&w, COUNTS[i]);
    }
    cr_assert(!w.failed);
    cr_expect(graph_cubin_needs((struct view){w.data, w.len}, &registers, &shared));
    cr_expect_eq(registers, 16u, "%u", registers);
    writer_close(&w);
}

/* ---- loops ---- */

static int note(void *context, const struct graph_launch *l)
{
    char *at = strchr(context, 0);
    snprintf(at, 2, "%c", (char)('a' + l->kernel));
    return *at == 'x';
}

/* Expects that launches a, b, c, … run in this order with these loops, from `first` on. */
static void runs(const struct graph_loop *loops, uint32_t n_loops, uint32_t first, uint32_t n,
                 const char *want)
{
    struct graph_launch launches[8];
    char order[64] = "";
    struct graph_bundle b = {.n_arguments = 0};
    for (uint32_t i = 0; i < 8; i++)
        launches[i] = (struct graph_launch){.kernel = i};
    b.launches.at = launches;
    b.launches.n = n;
    b.loops.at = (struct graph_loop *)(uintptr_t)loops; /* only read */
    b.loops.n = n_loops;
    cr_expect_eq(graph_bundle_run(&b, first, n, note, NULL, order), 0);
    cr_expect(strcmp(order, want) == 0, "%s, not %s", order, want);
}

Test(graph_bundle, loops_run_their_launches_again)
{
    runs(NULL, 0, 0, 3, "abc");
    runs((struct graph_loop[]){{1, 3, 2, GRAPH_NONE}}, 1, 0, 4, "abcbcd");
    runs((struct graph_loop[]){{0, 3, 2, GRAPH_NONE}, {0, 1, 3, GRAPH_NONE}}, 2, 0, 3,
         "aaabcaaabc");
    runs((struct graph_loop[]){{0, 3, 2, GRAPH_NONE}, {1, 3, 2, GRAPH_NONE}, {2, 3, 2, GRAPH_NONE}},
         3, 0, 3, "abccbccabccbcc");
    runs((struct graph_loop[]){{1, 4, 0, GRAPH_NONE}, {2, 3, 5, GRAPH_NONE}, {4, 5, 2, GRAPH_NONE}},
         3, 0, 6, "aeef");
    runs((struct graph_loop[]){{0, 1, 3, GRAPH_NONE}, {2, 3, 2, GRAPH_NONE}}, 2, 1, 4, "bccd");
}

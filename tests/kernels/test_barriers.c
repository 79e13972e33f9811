/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_barriers.c - each barrier of a kernel is needed: without it ThreadSanitizer finds a race, and with all
 * of them none. So the runs under ThreadSanitizer (make tsan) show something. Each run is a process of its own,
 * with a thread for each of the GPU's.
 *
 * A kernel is compiled once, with barriers that a number switches off. Kernels with equal texts are one. Nothing is
 * optimised: an access that one compiler drops is there for the next.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kernels/codegen/tiled.h"
#include "tests/kernels/for_cpu.h"

#define BARRIER "__syncthreads();"
#define BATCH_MAX 48 /* kernels in a program: its compile takes some tens of seconds at most */
#define EXIT_RACE 66 /* ThreadSanitizer's own */
#define TRIES_MAX 5  /* it remembers the last four accesses of a word, and misses a race at times */
#define ARGS_MAX 64  /* of a kernel */
#define ROOM (1 << 18) /* elements of a tensor */

/* A kernel with barriers. */
struct kernel {
    const char *graph; /* that it is of */
    char *text;
    size_t n_barriers;
    bool needs_all; /* none of them is needless */
};

struct kernels {
    struct kernel *at;
    size_t n;
};

/* Adds a kernel, if it has barriers and is a new one. Takes the text. */
static void add_kernel(struct kernels *all, const char *graph, struct writer *w, bool needs_all)
{
    struct kernel k = {.graph = graph, .needs_all = needs_all};
    size_t i = 0, len;
    writer_u8(w, 0);
    k.text = writer_take(w, &len);
    cr_assert_not_null(k.text);
    for (const char *at = k.text; (at = strstr(at, BARRIER)); at++)
        k.n_barriers++;
    while (i < all->n && strcmp(all->at[i].text, k.text) != 0)
        i++;
    if (i < all->n)
        all->at[i].needs_all |= needs_all;
    if (i < all->n || !k.n_barriers) {
        free(k.text);
        return;
    }
    all->at = realloc(all->at, (all->n + 1) * sizeof *all->at);
    all->at[all->n++] = k;
}

/* Adds the kernels of a program, which it takes. */
static void add_program(struct kernels *all, const char *name, struct program *d, bool needs_all)
{
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(codegen_function(d, program_function(d, NULL), &c, &e), 0, "%s", e.text);
    for (uint32_t i = 0; i < c.launches.n; i++) {
        const struct launch *l = &c.launches.at[i];
        cr_assert_leq(l->n_args, (uint32_t)ARGS_MAX);
        for (uint32_t k = 0; k < l->n_args; k++)
            cr_assert_leq(program_tensor(c.p, c.args.at[l->args + k])->n, ROOM, "%s", name);
    }
    for (uint32_t k = 0; k < c.n_kernels; k++) {
        struct writer w;
        writer_init(&w, 0);
        codegen_write_kernel(&c, k, &w);
        add_kernel(all, name, &w, needs_all);
    }
    codegen_free(&c);
    program_free(d);
}

/* ---- runs ---- */

/* Writes kernel i with barriers that can be left out. */
static void write_kernel(FILE *f, size_t i, const char *text)
{
    unsigned n = 0;
    fprintf(f, "namespace of_%zu {\n#define kernel kernel_%zu\n", i, i);
    for (const char *at; (at = strstr(text, BARRIER)); text = at + strlen(BARRIER))
        fprintf(f, "%.*sif (missing != %u) " BARRIER, (int)(at - text), text, n++);
    fprintf(f, "%s\n#undef kernel\n}\n", text);
}

/* Writes a program that runs the kernel of its first argument, without the barrier of its second one, on tensors
 * of zeros. */
static void write_batch(FILE *f, const struct kernel *kernels, size_t n)
{
    fputs("static int missing;\n", f);
    for (size_t i = 0; i < n; i++)
        write_kernel(f, i, kernels[i].text);
    fprintf(f,
            "int main(int, char **argv)\n{\nstatic float room[%d][%d];\nvoid *at[%d], "
            "*args[%d];\nfor (int i = 0; i < %d; i++) {\nat[i] = room[i];\nargs[i] = &at[i];\n}\n"
            "missing = atoi(argv[2]);\nswitch (atoi(argv[1])) {\n",
            ARGS_MAX, ROOM, ARGS_MAX, ARGS_MAX, ARGS_MAX);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "case %zu: launch<of_%zu::kernel_%zu>(1, %d, true, args); break;\n", i, i, i,
                CODEGEN_BLOCK);
    fputs("}\n}\n", f);
}

/* Runs a command line in the batch's folder. Returns its status. */
static int run(const struct for_cpu *cpu, const char *format, size_t kernel, int missing)
{
    char command[256], line[512];
    snprintf(command, sizeof command, format, cpu->folder, kernel, missing);
    snprintf(line, sizeof line, "TSAN_OPTIONS=halt_on_error=1:symbolize=0 %s", command);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Expects a race without a barrier of kernel i, or none with all: `missing` is -1. */
static void expect_race(const struct for_cpu *cpu, const struct kernel *k, size_t i, int missing)
{
    int status = 0;
    for (int tries = 0; status == 0 && tries < (missing < 0 ? 1 : TRIES_MAX); tries++)
        status = run(cpu, "%1$s/batch %2$zu %3$d 2>%1$s/log", i, missing);
    bool said = run(cpu, "grep -q 'data race' %s/log", i, missing) == 0;
    cr_expect(status == (missing < 0 ? 0 : EXIT_RACE) && said == (missing >= 0),
              "%s: without barrier %d: status %d\n%s", k->graph, missing, status, k->text);
}

static void expect_races(const struct kernel *kernels, size_t n)
{
    struct for_cpu cpu = for_cpu_open();
    write_batch(cpu.f, kernels, n);
    fclose(cpu.f);
    cr_assert_eq(run(&cpu,
                     "c++ -std=c++17 -O0 -w -ffp-contract=off -fsanitize=thread -I. -pthread "
                     "%1$s/graphs.cpp -o %1$s/batch",
                     0, 0),
                 0);
    for (size_t i = 0; i < n; i++) {
        int n_barriers = kernels[i].needs_all ? (int)kernels[i].n_barriers : 0;
        for (int missing = -1; missing < n_barriers; missing++)
            expect_race(&cpu, &kernels[i], i, missing);
    }
    cr_expect_eq(run(&cpu, "rm -r %s", 0, 0), 0);
}

/* Runs all kernels, and frees them. Returns how many barriers were left out, one at a time. */
static size_t expect_all(struct kernels *all)
{
    size_t n_missing = 0;
    for (size_t i = 0; i < all->n; i += BATCH_MAX)
        expect_races(all->at + i, all->n - i < BATCH_MAX ? all->n - i : BATCH_MAX);
    for (size_t i = 0; i < all->n; i++) {
        n_missing += all->at[i].needs_all ? all->at[i].n_barriers : 0;
        free(all->at[i].text);
    }
    free(all->at);
    return n_missing;
}

/* As a product of matrices, and forward and back as a convolution. */
Test(barriers, each_one_of_the_template_is_needed)
{
    struct kernels all = {NULL, 0};
    cr_assert_eq(TILED_THREADS, CODEGEN_BLOCK);
    add_program(&all, "tiles",
                for_cpu_program(
                    "17x40x40xf32", "17x40x33xf32", "17x40x33xf32",
                    "dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]",
                    false),
                true);
    cr_assert_eq(all.n, (size_t)1);
    add_program(&all, "convolution",
                for_cpu_program("1x34x34x32xf32", "3x3x32x32xf32", "1x34x34x32xf32",
                                "convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, "
                                "0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = "
                                "1 : i64, feature_group_count = 1 : i64}",
                                true),
                true);
    cr_assert_eq(all.n, (size_t)4);
    cr_expect_eq(expect_all(&all), (size_t)8);
}

/* True if a graph has indices that are known at run time alone. A barrier may then turn out to be
 * needless, because each thread happens to read only elements that it wrote. */
static bool has_indices(const struct jax_graph *g)
{
    static const char *const WORDS[] = {"stablehlo.dynamic_", "stablehlo.while"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (memmem(g->module, g->module_len, WORDS[i], strlen(WORDS[i])))
            return true;
    return false;
}

/* With WARM_TEST_ALL it runs the kernels of all graphs, and takes out the barriers of those without such
 * indices. */
Test(barriers, each_one_of_forward_and_backward_kernels_is_needed)
{
    static const char *const NAMES[] = {"mlp_1_16_16_1", "chain",     "scanned",
                                        "mlp_1_16_1",    "random_12", "random_11",
                                        "random_133",    "random_88", "random_220"};
    struct jax_graph *graphs;
    struct kernels all = {NULL, 0};
    size_t n = jax_graphs_read(&graphs);
    for (size_t i = 0; i < n; i++) {
        bool chosen = false;
        for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++)
            chosen |= strcmp(graphs[i].name, NAMES[k]) == 0;
        if (chosen || getenv("WARM_TEST_ALL"))
            add_program(&all, graphs[i].name, for_cpu_derivative(&graphs[i]),
                        chosen || !has_indices(&graphs[i]));
    }
    if (getenv("WARM_TEST_SHOW"))
        fprintf(stderr, "%zu kernels with barriers\n", all.n);
    size_t n_missing = expect_all(&all);
    cr_expect_gt(n_missing, (size_t)(getenv("WARM_TEST_ALL") ? 200 : 20), "%zu", n_missing);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_barriers.c - each barrier of a kernel is needed: without it ThreadSanitizer finds a race, and with all
 * of them none. So the runs under ThreadSanitizer (make tsan) show something. Each kernel runs in a program of
 * its own, with a thread for each of the GPU's.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kernels/codegen/tiled.h"
#include "tests/kernels/for_cpu.h"

#define BARRIER "__syncthreads();"
#define MUTANTS_MAX 64
#define EXIT_RACE 66 /* ThreadSanitizer's own */
#define TRIES_MAX 5  /* it remembers the last four accesses of a word, and misses a race at times */

struct mutants {
    struct for_cpu cpu;
    bool broken[MUTANTS_MAX]; /* a barrier is missing */
    size_t n;
};

/* Writes a kernel that is called "kernel" as number n of the mutants. */
static void write_mutant(struct mutants *m, const char *text, bool broken)
{
    cr_assert_lt(m->n, (size_t)MUTANTS_MAX);
    fprintf(m->cpu.f, "namespace of_%zu {\n#define kernel kernel_%zu\n%s\n#undef kernel\n}\n", m->n,
            m->n, text);
    m->broken[m->n++] = broken;
}

/* Writes a kernel as it is, and without each of its barriers. Takes the text. */
static void write_mutants(struct mutants *m, struct writer *w)
{
    writer_u8(w, 0);
    char *text = (char *)w->data, *at = strstr(text, BARRIER);
    cr_assert(!w->failed);
    if (at)
        write_mutant(m, text, false);
    for (; at; at = strstr(at + 1, BARRIER)) {
        memset(at, ' ', strlen(BARRIER));
        write_mutant(m, text, true);
        memcpy(at, BARRIER, strlen(BARRIER));
    }
    writer_close(w);
}

/* Writes main, which runs the mutant that its argument says on tensors of zeros. */
static void write_main(struct mutants *m)
{
    fputs("int main(int, char **argv)\n{\nstatic float room[64][1 << 14];\nvoid *at[64], "
          "*args[64];\nfor (int i = 0; i < 64; i++) {\nat[i] = room[i];\nargs[i] = &at[i];\n}\n"
          "switch (atoi(argv[1])) {\n",
          m->cpu.f);
    for (size_t i = 0; i < m->n; i++)
        fprintf(m->cpu.f, "case %zu: launch<of_%zu::kernel_%zu>(1, %d, true, args); break;\n", i, i,
                i, CODEGEN_BLOCK);
    fputs("}\n}\n", m->cpu.f);
    fclose(m->cpu.f);
}

/* Runs a command line in the mutants' folder. Returns its status. */
static int run(const struct mutants *m, const char *format, size_t n)
{
    char command[256], line[512];
    snprintf(command, sizeof command, format, m->cpu.folder, n);
    snprintf(line, sizeof line, "env -u TSAN_OPTIONS %s", command);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_template(struct mutants *m)
{
    static const struct tiled SIZES = {1, 40, 40, 40, 0, 40, 1, 0, 40, 1};
    struct writer w;
    cr_assert_eq(TILED_THREADS, CODEGEN_BLOCK);
    writer_init(&w, 0);
    writer_format(&w, "extern \"C\" __global__ void kernel");
    tiled_write(&SIZES, &w);
    write_mutants(m, &w);
}

/* Writes each kernel of a graph, forward and back, once. */
static void write_graph(struct mutants *m, const struct jax_graph *graph)
{
    struct codegen c;
    struct err e = {0};
    struct program *d = for_cpu_derivative(graph);
    cr_assert_eq(codegen_function(d, program_function(d, NULL), &c, &e), 0, "%s", e.text);
    for (uint32_t k = 0; k < c.n_kernels; k++) {
        struct writer w;
        writer_init(&w, 0);
        codegen_write_kernel(&c, k, &w);
        write_mutants(m, &w);
    }
    codegen_free(&c);
    program_free(d);
}

/* Runs each mutant; expects a race without a barrier, and none with all. Ends the mutants. */
static void expect_races(struct mutants *m, const char *name)
{
    write_main(m);
    cr_assert_eq(run(m,
                     "c++ -std=c++17 -O1 -w -ffp-contract=off -fsanitize=thread -I. -pthread "
                     "%1$s/graphs.cpp -o %1$s/mutants",
                     0),
                 0);
    for (size_t i = 0; i < m->n; i++) {
        int status = 0;
        for (int tries = 0; status == 0 && tries < (m->broken[i] ? TRIES_MAX : 1); tries++)
            status = run(m, "%1$s/mutants %2$zu 2>%1$s/log", i);
        cr_expect_eq(status, m->broken[i] ? EXIT_RACE : 0, "%s: mutant %zu: status %d", name, i,
                     status);
        cr_expect_eq(run(m, "grep -q 'data race' %s/log", 0), m->broken[i] ? 0 : 1,
                     "%s: mutant %zu", name, i);
    }
    cr_expect_eq(run(m, "rm -r %s", 0), 0);
}

Test(barriers, each_one_of_the_template_is_needed)
{
    struct mutants m = {.cpu = for_cpu_open()};
    write_template(&m);
    cr_assert_eq(m.n, (size_t)3); /* it has two */
    expect_races(&m, "tiles");
}

/* True if a graph has indices that are known at run time alone. Behind them a barrier may turn out to be
 * needless: each thread reads what it has written itself. */
static bool has_indices(const struct jax_graph *g)
{
    static const char *const WORDS[] = {"stablehlo.dynamic_", "stablehlo.while"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (memmem(g->module, g->module_len, WORDS[i], strlen(WORDS[i])))
            return true;
    return false;
}

/* With WARM_TEST_ALL it takes out the barriers of all graphs without such indices. */
Test(barriers, each_one_of_forward_and_backward_kernels_is_needed)
{
    static const char *const NAMES[] = {"mlp_1_16_16_1", "chain", "scanned"};
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), n_mutants = 0;
    for (size_t i = 0; i < n; i++) {
        bool chosen = getenv("WARM_TEST_ALL") && !has_indices(&graphs[i]);
        for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++)
            chosen |= strcmp(graphs[i].name, NAMES[k]) == 0;
        if (!chosen)
            continue;
        struct mutants m = {.cpu = for_cpu_open()};
        write_graph(&m, &graphs[i]);
        n_mutants += m.n;
        expect_races(&m, graphs[i].name);
    }
    cr_expect_gt(n_mutants, (size_t)20);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* jax_graphs.c - reads tests/data/jax_graphs.txt and compares numbers with it. */
#include "tests/kernels/jax_graphs.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/eval/eval.h"
#include "kernels/program/program.h"

#define FILE_NAME "tests/data/jax_graphs.txt"

/* Reads the whole file, with a NUL behind it. */
static char *whole_file(void)
{
    const char *other = getenv("WARM_JAX_GRAPHS"), *name = other ? other : FILE_NAME;
    FILE *f = fopen(name, "rb");
    cr_assert_not_null(f, "%s", name);
    fseek(f, 0, SEEK_END);
    long len = ftell(f);
    rewind(f);
    char *text = malloc((size_t)len + 1);
    cr_assert_eq(fread(text, 1, (size_t)len, f), (size_t)len);
    text[len] = 0;
    fclose(f);
    return text;
}

/* Reads the numbers of a line. */
static struct jax_tensor numbers(const char *at, const char *end)
{
    struct jax_tensor t = {malloc((size_t)(end - at + 1) * sizeof(double)), 0};
    while (at < end) {
        char *next;
        double x = strtod(at, &next);
        if (next == at || next > end)
            break;
        t.at[t.n++] = x;
        at = next;
    }
    return t;
}

static struct jax_graph *graphs; /* these two: until the process ends */
static size_t n_graphs;

/* Reads the file into `graphs`. */
static void read_all(void)
{
    char *at = whole_file(), *line_end;
    size_t cap = 0;
    struct jax_graph *g = NULL;
    for (; *at; at = line_end + 1) {
        char word[16] = "";
        int skip = 0;
        line_end = strchr(at, '\n');
        cr_assert_not_null(line_end);
        sscanf(at, "%15s%n", word, &skip);
        if (strcmp(word, "graph") == 0) {
            if (n_graphs == cap)
                graphs = realloc(graphs, (cap = cap ? 2 * cap : 64) * sizeof *graphs);
            g = &graphs[n_graphs++];
            *g = (struct jax_graph){.module = line_end + 1};
            cr_assert_eq(sscanf(at, "graph %63s", g->name), 1);
        } else if (*at != ' ' && (strcmp(word, "arg") == 0 || strcmp(word, "result") == 0 ||
                                  strcmp(word, "gradient") == 0)) {
            cr_assert_not_null(g);
            struct jax_tensor *to = *word == 'a'   ? g->args
                                    : *word == 'r' ? g->results
                                                   : g->gradients;
            size_t *n_to = *word == 'a'   ? &g->n_args
                           : *word == 'r' ? &g->n_results
                                          : &g->n_gradients;
            if (!g->module_len)
                g->module_len = (size_t)(at - g->module);
            cr_assert_lt(*n_to, (size_t)JAX_TENSORS_MAX);
            to[(*n_to)++] = numbers(at + skip, line_end);
        }
    }
}

size_t jax_graphs_read(struct jax_graph **out)
{
    if (!graphs)
        read_all();
    *out = graphs;
    return n_graphs;
}

int eval_doubles(const struct program *p, uint32_t function, const double *const *args,
                 double *const *results, struct err *e)
{
    const struct block *b = &p->blocks.at[p->functions.at[function].block];
    uint32_t n_all = b->n_args + b->n_results;
    number **all = calloc((size_t)n_all + 1, sizeof *all);
    for (uint32_t i = 0; i < n_all; i++) {
        uint32_t value = i < b->n_args ? b->args + i : p->operands.at[b->results + i - b->n_args];
        int64_t n = program_tensor(p, value)->n;
        all[i] = calloc((size_t)n + 1, sizeof **all);
        for (int64_t k = 0; i < b->n_args && k < n; k++)
            all[i][k] = args[i][k];
    }
    int rc = eval_function(p, function, (const number *const *)all, all + b->n_args, e);
    for (uint32_t i = 0; i < n_all; i++) {
        uint32_t result = i - b->n_args;
        for (int64_t k = 0; rc == 0 && i >= b->n_args &&
                            k < program_tensor(p, p->operands.at[b->results + result])->n;
             k++)
            results[result][k] = (double)all[i][k];
        free(all[i]);
    }
    free(all);
    return rc;
}

void jax_graph_run(const struct jax_graph *g, const struct program *p, double **out)
{
    uint32_t f = program_function(p, NULL);
    cr_assert_neq(f, PROGRAM_NONE, "%s", g->name);
    const struct block *b = &p->blocks.at[p->functions.at[f].block];
    const double *args[JAX_TENSORS_MAX];
    struct err e = {0};
    cr_assert_eq(b->n_args, g->n_args, "%s", g->name);
    for (uint32_t i = 0; i < b->n_args; i++) {
        cr_assert_eq(program_tensor(p, b->args + i)->n, g->args[i].n, "%s: argument %u", g->name,
                     i);
        args[i] = g->args[i].at;
    }
    for (uint32_t i = 0; i < b->n_results; i++)
        out[i] =
            calloc((size_t)program_tensor(p, p->operands.at[b->results + i])->n + 1, sizeof **out);
    cr_assert_eq(eval_doubles(p, f, args, out, &e), 0, "%s: %s", g->name, e.text);
}

void jax_expect(const char *name, const char *what, size_t i, const double *is,
                const struct jax_tensor *want, int64_t n, double tolerance)
{
    cr_assert_eq(n, want->n, "%s: %s %zu has %ld elements", name, what, i, (long)n);
    for (int64_t k = 0; k < n; k++) {
        double w = want->at[k], size = fmax(1, fabs(w));
        bool same = is[k] == w || (isnan(is[k]) && isnan(w)) || fabs(is[k] - w) <= tolerance * size;
        cr_expect(same, "%s: %s %zu, element %ld is %.17g, not %.17g", name, what, i, (long)k,
                  is[k], w);
        if (!same)
            return;
    }
}

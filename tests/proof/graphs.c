/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphs.c - the metamorphic proof of the keys of graphs.
 *
 *     graphs [--cases N] [--seed N] FILE.mlir|FILE.hlo...
 *
 * Each case draws a file and makes a variant or a mutant of it. A variant must have the file's key. A mutant must have
 * another one, or be refused. For both, keys must be equal exactly if canonical texts are, and the hashed records must
 * stand for that text (short_text.h). A failure is printed with the seed that repeats it, and the first few are kept
 * beside the program, as graphs-fail-N.txt. Exit status 0 if nothing failed.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/canon.h"
#include "tests/proof/graph_variants.h"
#include "tests/proof/short_text.h"

#define BASES_MAX 256
#define FAILURES_MAX 10
#define UNLIKE "keys and canonical texts do not agree"
#define TRIES_MAX 16 /* draws for one mutant: most lines offer only some of the changes */

struct base {
    const char *name;
    enum graph_language language;
    struct text text;
    struct short_text form;
};

struct tally {
    const char *program;
    uint64_t variants, mutants, refused, failures;
};

static int key_of(const struct base *b, struct text t, struct short_text *out, struct err *e)
{
    struct canon_input input = {
        .data = t.data, .len = t.len, .kind = b->language == GRAPH_HLO ? CANON_HLO : CANON_MLIR};
    return short_text_of(&input, out, e);
}

static void report(struct tally *t, const struct base *b, uint64_t seed, struct text text,
                   const char *what)
{
    char name[PATH_MAX];
    printf("FAIL %s seed %" PRIu64 ": %s\n", b->name, seed, what);
    if (t->failures++ >= FAILURES_MAX)
        return;
    snprintf(name, sizeof name, "%s-fail-%" PRIu64 ".txt", t->program, t->failures);
    FILE *f = fopen(name, "wb");
    if (!f || fwrite(text.data, 1, text.len, f) != text.len)
        perror(name);
    if (f)
        fclose(f);
}

static void try_variant(struct tally *t, const struct base *b, uint64_t seed, struct random *r)
{
    struct text variant = variant_of_graph(r, b->language, b->text);
    struct short_text form;
    struct err e = {0};
    if (key_of(b, variant, &form, &e))
        report(t, b, seed, variant, e.text);
    else if (!key_equal(&form.key, &b->form.key))
        report(t, b, seed, variant, "a variant has another key");
    else if (!short_text_agree(&form, &b->form))
        report(t, b, seed, variant, UNLIKE);
    t->variants++;
    free(variant.data);
}

static void try_mutant(struct tally *t, const struct base *b, uint64_t seed, struct random *r)
{
    const char *what = "";
    struct text mutant = {NULL, 0};
    for (int tries = 0; tries < TRIES_MAX && !mutant.data; tries++)
        mutant = mutant_of_graph(r, b->language, b->text, &what);
    struct short_text form;
    struct err e = {0};
    if (!mutant.data)
        return;
    if (key_of(b, mutant, &form, &e))
        t->refused++;
    else if (key_equal(&form.key, &b->form.key))
        report(t, b, seed, mutant, what);
    else if (!short_text_agree(&form, &b->form))
        report(t, b, seed, mutant, UNLIKE);
    t->mutants++;
    free(mutant.data);
}

static bool load(const char *path, struct base *b)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return false;
    }
    size_t cap = 1 << 24;
    const char *dot = strrchr(path, '.');
    struct err e = {0};
    *b = (struct base){.name = path,
                       .language = dot && strncmp(dot, ".hlo", 4) == 0 ? GRAPH_HLO : GRAPH_MLIR};
    b->text.data = calloc(1, cap);
    b->text.len = fread(b->text.data, 1, cap - 1, f);
    fclose(f);
    if (!key_of(b, b->text, &b->form, &e))
        return true;
    fprintf(stderr, "%s:%u:%u: %s\n", path, e.line, e.column, e.text);
    return false;
}

int main(int argc, char **argv)
{
    static struct base bases[BASES_MAX];
    struct tally t = {.program = argv[0]};
    uint64_t cases = 100000, seed = 1;
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--cases") == 0 && i + 1 < argc)
            cases = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (n == BASES_MAX || !load(argv[i], &bases[n++]))
            return 2;
    }
    if (!n) {
        fputs("usage: graphs [--cases N] [--seed N] FILE...\n", stderr);
        return 2;
    }
    while (t.variants + t.mutants < cases) {
        struct random r = {seed};
        const struct base *b = &bases[random_below(&r, (uint32_t)n)];
        if (random_below(&r, 2))
            try_variant(&t, b, seed, &r);
        else
            try_mutant(&t, b, seed, &r);
        seed++;
    }
    printf("%" PRIu64 " variants, %" PRIu64 " mutants (%" PRIu64 " of them refused), %" PRIu64
           " failures\n",
           t.variants, t.mutants, t.refused, t.failures);
    for (size_t i = 0; i < n; i++)
        free(bases[i].text.data);
    return t.failures ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_memory.c - plans a graph again and again, and lets the 1st, 2nd, 3rd … allocation fail: alone, and with all
 * that follow. Each plan must fail, or be the one that there is with memory.
 *
 *     plan_memory MODULE.mlir forward|vjp|adam
 *
 * It is linked with --wrap, so that allocations of the planner come here. A sanitizer sees what is not freed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bundle/graph_bundle.h"
#include "kernels/vjp/optimizer.h"
#include "kernels/vjp/vjp.h"

#define ARGUMENTS_MAX 64
#define NEVER (-1)

static long left = NEVER; /* allocations until one fails */
static bool once;         /* only that one fails */
static long n_asked;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool fails(void)
{
    n_asked++;
    if (left == NEVER || left-- > 0)
        return false;
    left = once ? NEVER : 0;
    return true;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }

/* Makes what is compiled: the function, its derivative, or a training step whose data are arguments 0 and 1. */
static int make(const struct program *p, const char *mode, struct program **out, struct err *e)
{
    uint32_t f = program_function(p, NULL), n = 0, arguments[ARGUMENTS_MAX];
    const struct block *b = &p->blocks.at[p->functions.at[f].block];
    struct optimizer adam;
    for (uint32_t i = *mode == 'a' ? 2 : 0; i < b->n_args && n < ARGUMENTS_MAX; i++)
        arguments[n++] = i;
    if (*mode == 'f')
        return program_flatten(p, f, out, e);
    if (*mode == 'v')
        return vjp_function(p, f, arguments, n, out, e);
    int rc = optimizer_parse("adam,lr=0.03", &adam, e);
    return rc ? rc : optimizer_step(p, f, arguments, n, &adam, out, e);
}

/* Plans as warm_graph_compile does. Appends code and plan. */
static int plan(const struct view *module, const char *mode, struct writer *out)
{
    struct program *p = NULL, *made = NULL;
    struct codegen code = {.n_kernels = 0};
    struct graph_bundle bundle = {.n_arguments = 0};
    struct err e = {0};
    int rc = program_read(module->data, module->len, &p, &e);
    if (rc == 0)
        rc = make(p, mode, &made, &e);
    program_free(p);
    if (rc == 0)
        rc = codegen_function(made, program_function(made, NULL), &code, &e);
    if (rc == 0)
        rc = graph_bundle_plan(&code, &bundle, &e);
    program_free(made);
    if (rc == 0) {
        writer_blob(out, code.source.data, code.source.len);
        graph_bundle_write(&bundle, out);
    }
    graph_bundle_close(&bundle);
    codegen_free(&code);
    return rc ? rc : out->failed ? WARM_ENOMEM : 0;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    FILE *f = argc == 3 ? fopen(argv[1], "rb") : NULL;
    struct view module = {text, f ? fread(text, 1, sizeof text, f) : 0};
    struct writer want;
    writer_init(&want, 0);
    if (!f)
        return 2;
    n_asked = 0;
    int rc = plan(&module, argv[2], &want);
    long n = n_asked, n_errors = 0, n_wrong = 0;
    for (long i = 0; rc == 0 && i < 2 * n; i++) {
        struct writer got;
        writer_init(&got, 0);
        once = i < n;
        left = i % n;
        int code = plan(&module, argv[2], &got);
        left = NEVER;
        n_errors += code != 0;
        n_wrong += code == 0 && (got.len != want.len || memcmp(got.data, want.data, want.len) != 0);
        writer_close(&got);
    }
    printf("%d, %ld wrong, %s\n", rc, n_wrong, n > 100 && n_errors > n ? "many errors" : "few");
    writer_close(&want);
    fclose(f);
    return rc || n_wrong;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c - any bytes as a graph to compile: no crash on the way to a plan, forward and with gradients.
 * What was read is written as a text that reads as the same program.
 */
#include <assert.h>
#include <string.h>

#include "kernels/bundle/graph_bundle.h"
#include "kernels/vjp/vjp.h"
#include "tests/kernels/print_program.h"

#define OPS_MAX 5000u /* larger graphs take longer, and show nothing else */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compile(const struct program *p, uint32_t function)
{
    struct codegen code;
    struct graph_bundle plan;
    struct writer bytes;
    if (codegen_function(p, function, &code, NULL) == 0) {
        writer_init(&bytes, 0);
        if (graph_bundle_plan(&code, &plan, NULL) == 0)
            graph_bundle_write(&plan, &bytes);
        graph_bundle_close(&plan);
        writer_close(&bytes);
    }
    codegen_free(&code);
}

/* Writes a program, reads that, and writes it again. */
static void write_and_read(const struct program *p)
{
    struct writer first, second;
    struct program *again = NULL;
    writer_init(&first, 0);
    writer_init(&second, 0);
    program_write(p, &first);
    assert(first.failed || program_read(first.data, first.len, &again, NULL) == 0);
    if (again) {
        program_write(again, &second);
        program_free(again);
    }
    writer_close(&first);
    writer_close(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct program *p = NULL, *f = NULL, *d = NULL;
    if (program_read(data, size, &p, NULL))
        return 0;
    uint32_t function = program_function(p, NULL);
    if (function != PROGRAM_NONE && p->ops.n < OPS_MAX) {
        const struct block *b = &p->blocks.at[p->functions.at[function].block];
        uint32_t arguments[8], n = 0;
        write_and_read(p);
        for (uint32_t i = 0; i < b->n_args && n < 8; i++)
            if (program_tensor(p, b->args + i)->elem == ELEM_F32)
                arguments[n++] = i;
        if (program_flatten(p, function, &f, NULL) == 0)
            compile(f, 0);
        if (n && vjp_function(p, function, arguments, n, &d, NULL) == 0)
            compile(d, 0);
    }
    program_free(f);
    program_free(d);
    program_free(p);
    return 0;
}

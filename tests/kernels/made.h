/* SPDX-License-Identifier: Apache-2.0 */
/*
 * made.h - a graph's bundle, made in the test: with cubins for this machine's GPU, or images that stand for them.
 *
 *     text, or a program ─▶ made_of_text, made_of_program ─┬─▶ .b, the bundle
 *                                                          └─▶ its kernels in a source for the CPU (for_cpu.h)
 *
 * Thread: the test's. Memory: made_free.
 */
#ifndef WARM_TESTS_KERNELS_MADE_H
#define WARM_TESTS_KERNELS_MADE_H

#include <stdio.h>

#include "kernels/bundle/graph_bundle.h"
#include "tests/kernels/for_cpu.h"

struct made {
    struct program *p;
    struct graph_bundle b;
    uint8_t **images;
};

/* Makes the bundle of a program, which it takes. Without a GPU, writes its kernels for the CPU. */
struct made made_of_program(struct program *p, FILE *f);
/* Does so for a text. The bundle has no module. */
struct made made_of_text(const char *text, FILE *f);
/* Frees it. */
void made_free(struct made *m);

#endif

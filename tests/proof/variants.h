/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variants.h - other texts of the same program, and texts of another one.
 *
 *     base ──equal──▶ variant    another spelling: the key must stay, the compiler's bytes too
 *          ──other──▶ mutant     one token that means something is another: the key must change
 *
 * The generators know nothing of keygen: they have a small lexer of their own, so that a fault in
 * keygen's is not repeated here.
 *
 * Thread: any; the state is in struct random. Memory: what is returned is free()d by the caller.
 */
#ifndef WARM_TESTS_PROOF_VARIANTS_H
#define WARM_TESTS_PROOF_VARIANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};
/* 0 ... n-1; n > 0. */
uint32_t random_below(struct random *r, uint32_t n);

struct text {
    char *data;
    size_t len;
};

/* Several changes at once that mean nothing: comments, white space, line breaks, CRLF; for PTX
 * also .loc lines, unused registers, and other names of registers, labels and parameters.
 * `lines_count` keeps line numbers as they are. `debug_labels` adds labels as debug information has
 * them: they mean nothing, but ptxas may order instructions otherwise. */
struct text variant_of_cuda(struct random *r, struct text base, bool lines_count);
struct text variant_of_ptx(struct random *r, struct text base, bool debug_labels);

/* One changed token. *out_what says which kind of change it was (static memory). data is NULL if
 * the draw found nothing to change: try again. */
struct text mutant_of_cuda(struct random *r, struct text base, const char **out_what);
struct text mutant_of_ptx(struct random *r, struct text base, const char **out_what);

#endif

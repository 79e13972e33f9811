/* SPDX-License-Identifier: Apache-2.0 */
/*
 * short_text.h - reads what is hashed of a graph (KEYS.md, section 2.3) back into its canonical text.
 *
 * The reader shares no code with the writer. It finds the readable text in the hashed bytes alone. So no two
 * texts have the same hashed bytes.
 *
 * Thread: any; no state. Memory: the input is borrowed; the writer is the caller's.
 */
#ifndef WARM_TESTS_PROOF_SHORT_TEXT_H
#define WARM_TESTS_PROOF_SHORT_TEXT_H

#include "keygen/canon/canon.h"

/* Appends the text that `hashed` stands for; false if it stands for none. */
bool short_text_expand(struct view hashed, struct writer *out);

struct short_text {
    struct key key;
    struct proof text; /* of the canonical text; of the input if that is the form */
    const char *wrong; /* why what is hashed does not stand for that text; NULL: it does */
};

/* The key of MLIR or MLIR bytecode, and what is behind it; of HLO the key and its text. As canon_key. */
int short_text_of(const struct canon_input *input, struct short_text *out, struct err *e);

/* Whether nothing is wrong with either, and the keys are equal if and only if the texts are. */
bool short_text_agree(const struct short_text *a, const struct short_text *b);

#endif

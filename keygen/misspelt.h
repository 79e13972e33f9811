/* SPDX-License-Identifier: Apache-2.0 */
/*
 * misspelt.h - finds the word that a person meant: of all words that it is shown, the one with the fewest
 * mistakes.
 *
 *     struct misspelt m = {.word = "max_sise"};
 *     misspelt_try(&m, "max_size"), misspelt_try(&m, "max_value");
 *     misspelt_meant(&m)  ──▶  "max_size"
 *
 * Thread: any; no state. Memory: borrows the words.
 */
#ifndef WARM_KEYGEN_MISSPELT_H
#define WARM_KEYGEN_MISSPELT_H

struct misspelt {
    const char *word;
    const char *nearest; /* NULL: none is near */
    unsigned n_mistakes; /* of `nearest` */
};

/* Compares a word that exists. Words of more than 31 letters are never near. */
void misspelt_try(struct misspelt *m, const char *exists);
/* Returns the nearest word of those that were tried; NULL if all have too many mistakes. */
const char *misspelt_meant(const struct misspelt *m);

#endif

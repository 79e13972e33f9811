/* SPDX-License-Identifier: Apache-2.0 */
/*
 * misspelt.c - counts the mistakes in a word: letters to insert, remove, replace or swap. The command line
 * of `warm` and the settings of warmd call it before they refuse a name.
 *
 * Source: the optimal string alignment distance.
 *
 * Thread: any; no state.
 */
#include "keygen/misspelt.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MISTAKES_MAX 2u
#define LETTERS_MAX 31u

/* Options have '-' where settings have '_'. */
static bool is_same(char a, char b)
{
    return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

/* Returns the mistakes that turn `b` into `a`, at most MISTAKES_MAX + 1 for long words. */
static unsigned mistakes(const char *a, const char *b)
{
    unsigned d[LETTERS_MAX + 1][LETTERS_MAX + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > LETTERS_MAX || n > LETTERS_MAX)
        return MISTAKES_MAX + 1;
    for (size_t i = 0; i <= m; i++)
        for (size_t j = 0; j <= n; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned least = d[i - 1][j - 1] + !is_same(a[i - 1], b[j - 1]);
            if (d[i - 1][j] + 1 < least)
                least = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < least)
                least = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < least)
                least = d[i - 2][j - 2] + 1;
            d[i][j] = least;
        }
    return d[m][n];
}

void misspelt_try(struct misspelt *m, const char *exists)
{
    assert(m && m->word && exists);
    unsigned n = mistakes(m->word, exists);
    if (n > MISTAKES_MAX || n >= strlen(exists) || (m->nearest && n >= m->n_mistakes))
        return;
    m->nearest = exists;
    m->n_mistakes = n;
}

const char *misspelt_meant(const struct misspelt *m) { return m->nearest; }

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx_sizes.c - sizes that are not known yet, in types of FX graph code; fx_internal.h. No state.
 *
 * They are named by the place that they come from, and sums and products of them are printed in the
 * order of these names. So they are numbered by first use, and what is added or multiplied is sorted:
 *
 *     f32[s77*s27, s94 + s27]   ─▶   f32[$0*$1, $1 + $2]
 *
 * Sizes are integers: neither order changes them. Only plain sums of plain products are sorted.
 */
#include "keygen/fx_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define TERMS_MAX 16
#define FACTORS_MAX 8
#define TERM_LEN 64

struct term {
    char text[TERM_LEN];
};

static uint32_t number_of(struct fx *f, const char *s, uint32_t len)
{
    struct token t = {NAME, (uint32_t)(s - f->text), len};
    uint32_t number = fx_get_name(f, &f->symbols, t);
    if (number == NONE) {
        number = f->symbols.n;
        fx_set_name(f, &f->symbols, t, number);
    }
    return number;
}

void fx_put_number(struct fx *f, const char *s, uint32_t len)
{
    form_put_u64(f->out, number_of(f, s, len));
}

void fx_put_symbol(struct fx *f, const char *s, uint32_t len)
{
    form_put(f->out, "$", 1);
    fx_put_number(f, s, len);
}

static int compare_terms(const void *a, const void *b)
{
    return strcmp(((const struct term *)a)->text, ((const struct term *)b)->text);
}

/* Sorted, with `between` between them; false if it does not fit. */
static bool join(struct term *terms, unsigned n, const char *between, char *out, size_t size)
{
    size_t used = 0;
    qsort(terms, n, sizeof *terms, compare_terms);
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(terms[i].text), gap = i > 0 ? strlen(between) : 0;
        if (used + gap + len >= size)
            return false;
        memcpy(out + used, between, gap);
        memcpy(out + used + gap, terms[i].text, len);
        used += gap + len;
    }
    out[used] = '\0';
    return true;
}

/* `2*s77*s27` into *out. */
static bool read_product(struct fx *f, const char *s, uint32_t len, struct term *out)
{
    struct term factors[FACTORS_MAX];
    unsigned n = 0;
    for (uint32_t at = 0; at <= len;) {
        const char *star = memchr(s + at, '*', len - at);
        uint32_t end = star != NULL ? (uint32_t)(star - s) : len, word = end - at;
        if (word == 0 || word >= 12 || n == FACTORS_MAX || fx_word_end(s, at, len) != end)
            return false;
        char *text = factors[n++].text;
        if (fx_is_symbol(s + at, word)) {
            snprintf(text, TERM_LEN, "$%u", number_of(f, s + at, word));
        } else {
            memcpy(text, s + at, word);
            text[word] = '\0';
        }
        at = end + 1;
    }
    return join(factors, n, "*", out->text, sizeof out->text);
}

/* Puts a sum of products in order; false, and nothing put, if it is none. */
static bool put_sum(struct fx *f, const char *s, uint32_t len)
{
    static const char plus[] = " + ";
    struct term terms[TERMS_MAX];
    char text[TERMS_MAX * TERM_LEN];
    unsigned n = 0;
    for (uint32_t at = 0; at <= len;) {
        const char *next = memmem(s + at, len - at, plus, 3);
        uint32_t end = next != NULL ? (uint32_t)(next - s) : len;
        if (n == TERMS_MAX || !read_product(f, s + at, end - at, &terms[n++]))
            return false;
        at = end == len ? len + 1 : end + 3;
    }
    if (!join(terms, n, plus, text, sizeof text))
        return false;
    form_put_text(f->out, text);
    return true;
}

/* As it stands, but for the names. */
static void put_plain(struct fx *f, const char *s, uint32_t len)
{
    uint32_t from = 0, symbol_len;
    for (;;) {
        uint32_t at = fx_find_symbol(s, from, len, &symbol_len);
        form_put(f->out, s + from, at - from);
        if (at == len)
            return;
        fx_put_symbol(f, s + at, symbol_len);
        from = at + symbol_len;
    }
}

static bool is_delimiter(char c)
{
    return c == '[' || c == ']' || c == '(' || c == ')' || c == ',';
}

void fx_put_sizes(struct fx *f, const char *s, uint32_t len)
{
    for (uint32_t at = 0; at < len;) {
        uint32_t end = at;
        while (at < len && (is_delimiter(s[at]) || s[at] == ' ')) /* between two sizes */
            at++;
        form_put(f->out, s + end, at - end);
        for (end = at; end < len && !is_delimiter(s[end]);)
            end++;
        char next = end < len ? s[end] : '\0';
        bool is_size = next == ',' || next == ']' || next == ')';
        if (at == end)
            continue;
        if (next == '[' || next == '(')
            form_put(f->out, s + at, end - at); /* a dtype, a class or a function */
        else if (!is_size || !put_sum(f, s + at, end - at))
            put_plain(f, s + at, end - at);
        at = end;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_order.c - HLO text is keyed in its own order: the rule, at random.
 *
 * The test numbers the names of a text by first mention, with code of its own. It changes the text: exchanges
 * lines or words, alters a word or a digit, doubles or removes a line, exchanges two names everywhere. The keys must
 * be equal exactly if the numbered texts are. A variant with other names, locations, comments and white space must
 * have the key of the text.
 *
 * WARM_CASES: how many cases for each text; `make proof` runs many.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/canon.h"
#include "tests/support/support.h"

#define CASES 1500
#define NAMES_MAX 1024

struct random {
    uint64_t state;
};

/* 0 ... n-1; n > 0. SplitMix64 (Steele, Lea, Flood 2014). */
static uint32_t drawn(struct random *r, uint32_t n)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ z >> 31) % n);
}
static bool drawn_in(struct random *r, uint32_t n) { return drawn(r, n) == 0; }

struct names_of {
    struct view at[NAMES_MAX];
    size_t n;
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/* The next word from *at on that is in no string; *at is behind it then. Empty at the end. */
static struct view word_next(const char *text, size_t *at)
{
    size_t i = *at;
    while (text[i]) {
        size_t begin = i;
        if (text[i] == '"')
            i += 1 + strcspn(text + i + 1, "\"") + 1;
        else if (!is_word(text[i]))
            i++;
        else
            while (is_word(text[i]))
                i++;
        *at = i;
        if (is_word(text[begin]))
            return (struct view){text + begin, i - begin};
    }
    *at = i;
    return (struct view){"", 0};
}

static size_t name_index(const struct names_of *names, struct view word)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->at[i].len == word.len && memcmp(names->at[i].data, word.data, word.len) == 0)
            return i;
    return NAMES_MAX;
}

/* What the text defines: "name = shape ..." and "name {". */
static void names_find_all(const char *text, struct names_of *names)
{
    static const char *const none[] = {"ROOT", "ENTRY"};
    struct view word;
    names->n = 0;
    for (size_t at = 0; (word = word_next(text, &at)).len;) {
        const char *behind = text + at;
        bool assigns = strncmp(behind, " = ", 3) == 0;
        bool defines = assigns || strncmp(behind, " {\n", 3) == 0;
        for (size_t i = 0; i < 2; i++)
            defines &= strlen(none[i]) != word.len || memcmp(word.data, none[i], word.len) != 0;
        if (defines && name_index(names, word) == NAMES_MAX && names->n < NAMES_MAX)
            names->at[names->n++] = word;
    }
}

/* The text with its names as `to` says (NULL: numbers by first mention), and without its own name. */
static char *renamed(const char *text, char *const *to)
{
    struct names_of names;
    size_t numbers[NAMES_MAX] = {0}, n = 0, from = 0, n_words = 0;
    names_find_all(text, &names);
    struct writer w;
    struct view word;
    writer_init(&w, 0);
    for (size_t at = 0; (word = word_next(text, &at)).len; from = at) {
        size_t begin = (size_t)((const char *)word.data - text), name = name_index(&names, word);
        char number[32];
        writer_bytes(&w, text + from, begin - from);
        if (name != NAMES_MAX && !numbers[name])
            numbers[name] = ++n;
        snprintf(number, sizeof number, "<%zu>", name == NAMES_MAX ? 0 : numbers[name]);
        if (n_words++ == 1)
            writer_bytes(&w, "Other", 5);
        else if (name == NAMES_MAX)
            writer_bytes(&w, word.data, word.len);
        else if (to)
            writer_bytes(&w, to[name], strlen(to[name]));
        else
            writer_bytes(&w, number, strlen(number));
    }
    writer_bytes(&w, text + from, strlen(text + from) + 1);
    size_t len;
    char *out = writer_take(&w, &len);
    cr_assert_not_null(out);
    return out;
}

/* ---- variants ---- */

static char *with_other_names(struct random *r, const char *text)
{
    static const char *const stems[] = {"add", "x", "constant", "region_0", "torch_", "ROOT_", "p"};
    struct names_of names;
    char *to[NAMES_MAX] = {NULL};
    names_find_all(text, &names);
    for (size_t i = 0; i < names.n; i++) {
        to[i] = malloc(64);
        snprintf(to[i], 64, "%s.%zu", stems[drawn(r, 7)], i);
    }
    char *out = renamed(text, to);
    for (size_t i = 0; i < names.n; i++)
        free(to[i]);
    return out;
}

/* White space is longer, and stands behind brackets and commas; comments and metadata are put in. */
static char *respelt(struct random *r, const char *text)
{
    static const char *const hlo[] = {" ", "  ", "\t", "\n", "/*index=5*/", " // ) {\n"};
    struct writer w;
    bool in_string = false, at_start = true;
    writer_init(&w, 0);
    for (const char *p = text; *p; p++) {
        if (*p == '\n' && p[-1] == ')' && drawn_in(r, 2)) {
            char line[64];
            snprintf(line, sizeof line, ", metadata={op_name=\"a}b\" source_line=%u}",
                     (unsigned)drawn(r, 99));
            writer_bytes(&w, line, strlen(line));
        }
        writer_u8(&w, (uint8_t)*p);
        in_string ^= *p == '"';
        at_start = *p == '\n' || (at_start && *p == ' ');
        bool open = *p == ',' || *p == '(' || (*p == ' ' && !at_start);
        if (!open || in_string || !drawn_in(r, 4))
            continue;
        const char *blank = hlo[drawn(r, 6)];
        writer_bytes(&w, blank, strlen(blank));
    }
    writer_u8(&w, 0);
    size_t len;
    char *out = writer_take(&w, &len);
    cr_assert_not_null(out);
    return out;
}

/* ---- changes ---- */

static size_t lines_of(const char *text, size_t *out, size_t max)
{
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < max; p = strchr(p, '\n') + 1)
        out[n++] = (size_t)(p - text);
    out[n] = strlen(text);
    return n;
}

static char *joined(const char *a, size_t a_len, const char *b, size_t b_len, const char *c,
                    size_t c_len, const char *rest)
{
    char *out = malloc(a_len + b_len + c_len + strlen(rest) + 1);
    memcpy(out, a, a_len);
    memcpy(out + a_len, b, b_len);
    memcpy(out + a_len + b_len, c, c_len);
    strcpy(out + a_len + b_len + c_len, rest);
    return out;
}

/* Two lines, one behind the other, exchanged; or a line twice; or gone. */
static char *changed_lines(struct random *r, const char *text, unsigned how)
{
    size_t at[512], n = lines_of(text, at, 512), i = drawn(r, (uint32_t)n - 1);
    const char *a = text + at[i], *b = text + at[i + 1], *c = text + at[i + 2];
    size_t a_len = at[i + 1] - at[i], b_len = at[i + 2] - at[i + 1];
    if (how == 0)
        return joined(text, at[i], b, b_len, a, a_len, c);
    return how == 1 ? joined(text, at[i], a, a_len, a, a_len, b)
                    : joined(text, at[i], "", 0, "", 0, b);
}

static struct view word_drawn(struct random *r, const char *text, size_t from, size_t end)
{
    struct view word, found = {"", 0};
    uint32_t n = 0;
    for (size_t at = from; (word = word_next(text, &at)).len && at <= end;)
        if (drawn(r, ++n) == 0)
            found = word;
    return found;
}

/* Two words of a line exchanged. */
static char *changed_places(struct random *r, const char *text)
{
    size_t lines[512], n = lines_of(text, lines, 512), i = drawn(r, (uint32_t)n);
    struct view a = word_drawn(r, text, lines[i], lines[i + 1]),
                b = word_drawn(r, text, lines[i], lines[i + 1]);
    if (!a.len || !b.len || a.data == b.data)
        return NULL;
    struct view first = a.data < b.data ? a : b, last = a.data < b.data ? b : a;
    const char *x = first.data, *y = last.data;
    size_t gap = (size_t)(y - x) - first.len;
    char *head = joined(text, (size_t)(x - text), y, last.len, x + first.len, gap, "");
    char *out = joined(head, strlen(head), x, first.len, "", 0, y + last.len);
    free(head);
    return out;
}

static size_t n_names(const char *text)
{
    struct names_of names;
    names_find_all(text, &names);
    return names.n;
}

/* A word longer, or a digit anywhere another one. Not one that makes a name another computation's: this
 * test knows one scope only. */
static char *changed_text(struct random *r, const char *text)
{
    struct view word = word_drawn(r, text, 0, strlen(text));
    size_t begin = (size_t)((const char *)word.data - text);
    bool longer = drawn_in(r, 3);
    char *out = longer ? joined(text, begin + word.len, "x", 1, "", 0, text + begin + word.len)
                       : strdup(text);
    size_t i = drawn(r, (uint32_t)strlen(text));
    i += strcspn(text + i, "0123456789");
    if (!longer && out[i])
        out[i] = (char)('0' + (out[i] - '0' + 1 + (char)drawn(r, 9)) % 10);
    if (n_names(out) == n_names(text))
        return out;
    free(out);
    return NULL;
}

static char *changed(struct random *r, const char *text)
{
    unsigned how = drawn(r, 6);
    return how < 3    ? changed_lines(r, text, how)
           : how == 3 ? changed_places(r, text)
           : how == 4 ? changed_text(r, text)
                      : with_other_names(r, text);
}

/* ---- the rule ---- */

/* False if it has no key, or that of its exact bytes. */
static bool key_of(const char *text, struct key *out)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_HLO};
    struct canon_result result;
    struct err e = {0};
    if (canon_key(&input, &result, NULL, &e) || result.exact)
        return false;
    *out = result.key;
    return true;
}

/* Returns b from the first line on that differs from a, for people. */
static const char *difference(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] && a[i] == b[i])
        i++;
    while (i && b[i - 1] != '\n')
        i--;
    return b + i;
}

static void follows_the_rule(const char *text)
{
    const char *cases = getenv("WARM_CASES");
    int n = cases ? atoi(cases) : CASES, keyed = 0, equal = 0;
    char *plain = renamed(text, NULL);
    struct key key, other, again;
    cr_assert(key_of(text, &key), "%s", text);
    for (int i = 0; i < n; i++) {
        struct random r = {(uint64_t)i};
        char *change = changed(&r, text);
        if (change && key_of(change, &other)) {
            char *numbered = renamed(change, NULL), *spelt = respelt(&r, change);
            bool same = strcmp(plain, numbered) == 0;
            cr_assert_eq(key_equal(&key, &other), same, "case %d: %.300s", i,
                         difference(text, change));
            cr_assert(key_of(spelt, &again), "case %d: %s", i, spelt);
            cr_assert(key_equal(&other, &again), "case %d: %.300s", i, difference(change, spelt));
            free(numbered), free(spelt);
            keyed++;
            equal += same;
        }
        free(change);
    }
    cr_expect_gt(equal, n / 10, "%d of %d cases are the same program", equal, n);
    cr_expect_gt(keyed - equal, n / 10, "%d of %d cases are another program", keyed - equal, n);
    free(plain);
}

static void file_follows(const char *path)
{
    size_t len;
    char *text = file_read(path, &len);
    for (char *at; (at = strstr(text, "/*"));) /* neither comments nor empty lines count */
        memset(at, ' ', (size_t)(strstr(at, "*/") + 2 - at));
    for (char *at; (at = strstr(text, "\n\n"));)
        memmove(at, at + 1, strlen(at));
    follows_the_rule(text);
    free(text);
}

Test(own_order, of_hlo_is_all_that_counts_beside_the_text)
{
    file_follows("tests/data/train.hlo");
    file_follows("tests/data/loop.hlo");
}

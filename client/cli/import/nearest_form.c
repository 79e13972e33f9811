/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest_form.c - chooses the nearest form and finds the first difference. why.c calls it for each miss.
 *
 * Thread: main; no state.
 */
#include "client/cli/import/nearest_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/filter.h"
#include "client/cli/listing.h"
#include "client/tool/unpack.h"

#define FORM_MAX (8u << 20)  /* bytes of one, unpacked */
#define CANDIDATES_MAX 16u   /* that are fetched for one miss */
#define LINES_MAX (1u << 18) /* of one form that are compared */
#define TEXT_SHOWN 120u      /* bytes of a text */
#define NAME_SHOWN 32u       /* bytes of a name that stands for a label */
#define OPTION "option "

/* ---- texts ---- */

static bool next_line(struct view *rest, struct view *out)
{
    if (!rest->len)
        return false;
    const char *data = rest->data, *end = memchr(data, '\n', rest->len);
    size_t len = end ? (size_t)(end - data) : rest->len, whole = len + (end != NULL);
    *out = (struct view){data, len};
    *rest = (struct view){data + whole, rest->len - whole};
    return true;
}

/* Returns FNV-1a of a line: a wrong equality only makes a worse neighbour. */
static uint64_t line_hash(struct view line)
{
    uint64_t hash = 14695981039346656037ull;
    for (size_t i = 0; i < line.len; i++)
        hash = (hash ^ ((const unsigned char *)line.data)[i]) * 1099511628211ull;
    return hash;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

struct lines {
    uint64_t *hash; /* sorted */
    size_t n;
};

static bool lines_of(struct view text, struct lines *out)
{
    struct view line, rest = text;
    size_t n = 0;
    while (n < LINES_MAX && next_line(&rest, &line))
        n++;
    *out = (struct lines){calloc(n ? n : 1, sizeof *out->hash), 0};
    rest = text;
    while (out->hash && out->n < n && next_line(&rest, &line))
        out->hash[out->n++] = line_hash(line);
    if (out->hash)
        qsort(out->hash, out->n, sizeof *out->hash, by_number);
    return out->hash;
}

static size_t n_common(const struct lines *a, const struct lines *b)
{
    size_t n = 0;
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        n += a->hash[i] == b->hash[k];
        bool next_a = a->hash[i] <= b->hash[k], next_b = b->hash[k] <= a->hash[i];
        i += next_a;
        k += next_b;
    }
    return n;
}

/* ---- the difference ---- */

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.';
}

/* Copies at most `most` bytes; an ellipsis stands for the rest. */
static void copy_cut(struct view v, size_t most, char out[FORMS_TEXT])
{
    bool is_cut = v.len > most;
    snprintf(out, FORMS_TEXT, "%.*s%s", (int)(is_cut ? most : v.len),
             v.len ? (const char *)v.data : "", is_cut ? "\xe2\x80\xa6" : "");
}

/* Keeps the words in which two lines differ. */
static void narrow(struct view *a, struct view *b)
{
    const char *x = a->data, *y = b->data;
    size_t least = a->len < b->len ? a->len : b->len, front = 0, back = 0;
    while (front < least && x[front] == y[front])
        front++;
    while (front && is_word(x[front - 1]))
        front--;
    while (back < least - front && x[a->len - 1 - back] == y[b->len - 1 - back])
        back++;
    while (back && is_word(x[a->len - back]))
        back--;
    *a = (struct view){x + front, a->len - front - back};
    *b = (struct view){y + front, b->len - front - back};
}

static struct view trimmed(struct view v)
{
    const char *data = v.data;
    while (v.len && *data == ' ')
        data++, v.len--;
    return (struct view){data, v.len};
}

/* True if both lines are of one option; then keeps the values. */
static bool is_option(struct view *old, struct view *now, struct forms_change *out)
{
    const char *x = old->data, *y = now->data;
    const char *colon = now->len ? memchr(y, ':', now->len) : NULL;
    size_t len = colon ? (size_t)(colon - y) + 1 : 0;
    if (len < sizeof OPTION || old->len < len || memcmp(x, y, len) != 0 ||
        memcmp(y, OPTION, sizeof OPTION - 1) != 0)
        return false;
    snprintf(out->option, sizeof out->option, "%.*s", (int)(len - 1 < 100 ? len - 1 : 100), y);
    out->line = 0;
    *old = trimmed((struct view){x + len, old->len - len});
    *now = trimmed((struct view){y + len, now->len - len});
    return true;
}

/* The first lines that differ. */
struct first {
    struct view old, now; /* empty: the text has ended */
    size_t line;          /* of the program: options do not count */
    size_t n;             /* lines that differ in all */
};

static struct first find_first(struct view old, struct view now)
{
    struct first f = {.n = 0};
    size_t line = 0;
    for (;;) {
        struct view a = {"", 0}, b = {"", 0};
        bool has_old = next_line(&old, &a), has_now = next_line(&now, &b);
        if (!has_old && !has_now)
            return f;
        line += !view_begins(has_now ? b : a, OPTION);
        if (has_old == has_now && view_equal(a, b))
            continue;
        if (f.n++ == 0) {
            f.old = a;
            f.now = b;
            f.line = line;
        }
    }
}

bool forms_differ(struct view old, struct view now, struct forms_change *out)
{
    struct first f = find_first(old, now);
    if (!f.n)
        return false;
    bool is_of_option = is_option(&f.old, &f.now, out);
    if (!is_of_option)
        out->line = f.line ? f.line : 1;
    if (!is_of_option || f.old.len > TEXT_SHOWN || f.now.len > TEXT_SHOWN)
        narrow(&f.old, &f.now);
    copy_cut(trimmed(f.old), TEXT_SHOWN, out->old);
    copy_cut(trimmed(f.now), TEXT_SHOWN, out->now);
    out->n_lines = f.n;
    return true;
}

/* ---- fetching ---- */

static bool fetch(struct remote *r, struct view name, struct writer *out)
{
    struct warm_value value;
    writer_init(out, FORM_MAX);
    if (warm_get(r->w, name.data, name.len, 0, &value))
        return false;
    int code = unpack_zlib((struct view){value.data, value.len}, FORM_MAX, out);
    warm_value_free(&value);
    return code == 0;
}

struct search {
    struct view name; /* of the form */
    struct view family;
    char label[WIRE_NAME_MAX + 1]; /* of the miss's own form */
    uint64_t own_ms;               /* when that was made; 0: not seen yet */
    struct listing found;
};

static int on_row(void *arg, const struct wire_row *row, struct view frame)
{
    struct search *s = arg;
    if (view_equal(row->name, s->name)) {
        snprintf(s->label, sizeof s->label, "%.*s", (int)row->label.len,
                 (const char *)row->label.data);
        s->own_ms = row->created_ms;
        return 0;
    }
    if (row->name.len < s->family.len || memcmp(row->name.data, s->family.data, s->family.len) != 0)
        return 0;
    return listing_keep(&s->found, frame, row->created_ms);
}

static bool list(struct remote *r, struct search *s)
{
    struct wire_list message = {.filter = filter_all()};
    message.filter.kind = WIRE_KIND_FORM;
    message.filter.text = s->family;
    int code = listing_ask(r, &message, on_row, s);
    listing_sort(&s->found);
    return code == 0;
}

/* Returns "form:jax:" of "form:jax:abc": the forms that can be compared. */
static struct view family_of(struct view name)
{
    const char *data = name.data, *first = memchr(data, ':', name.len);
    const char *second =
        first ? memchr(first + 1, ':', name.len - (size_t)(first + 1 - data)) : NULL;
    const char *end = second ? second : first;
    return (struct view){data, end ? (size_t)(end - data) + 1 : name.len};
}

struct best {
    struct writer text;
    struct wire_row row;
    size_t common;
    bool there;
};

/* Compares with the forms that were made before; of those with the same label first. */
static void choose(struct remote *r, const struct search *s, const struct lines *mine,
                   bool same_label, struct best *best)
{
    struct wire_row row;
    unsigned n = 0;
    for (size_t i = 0; i < s->found.n && n < CANDIDATES_MAX; i++) {
        struct writer text;
        struct lines lines;
        if (!listing_row(&s->found, i, &row) || row.created_ms >= s->own_ms ||
            view_equal(row.label, view_of_text(s->label)) != same_label)
            continue;
        n++;
        if (fetch(r, row.name, &text) && lines_of((struct view){text.data, text.len}, &lines)) {
            size_t common = n_common(mine, &lines);
            free(lines.hash);
            if (!best->there || common > best->common) {
                writer_close(&best->text);
                *best = (struct best){text, row, common, true};
                continue;
            }
        }
        writer_close(&text);
    }
}

bool forms_explain(struct remote *r, struct view name, struct forms_change *out)
{
    char own_name[WIRE_NAME_MAX + sizeof FORMS_PREFIX];
    int len = snprintf(own_name, sizeof own_name, FORMS_PREFIX "%.*s", (int)name.len,
                       name.len ? (const char *)name.data : "");
    if (name.len == 0 || len > (int)WIRE_NAME_MAX)
        return false;
    struct search s = {.name = view_of_text(own_name)};
    struct writer mine;
    struct lines lines = {NULL, 0};
    struct best best = {.there = false};

    writer_init(&best.text, 0);
    s.family = family_of(s.name);
    bool found = fetch(r, s.name, &mine) && list(r, &s) && s.own_ms &&
                 lines_of((struct view){mine.data, mine.len}, &lines);
    if (found)
        choose(r, &s, &lines, true, &best);
    if (found && !best.there)
        choose(r, &s, &lines, false, &best);
    found = found && best.there && best.common &&
            forms_differ((struct view){best.text.data, best.text.len},
                         (struct view){mine.data, mine.len}, out);
    if (found) {
        size_t prefix = sizeof FORMS_PREFIX - 1;
        struct view whole = {(const char *)best.row.name.data + prefix, best.row.name.len - prefix};
        if (best.row.label.len)
            copy_cut(best.row.label, TEXT_SHOWN, out->label);
        else
            copy_cut(whole, NAME_SHOWN, out->label);
        out->made_ms = best.row.created_ms;
    }
    free(lines.hash);
    writer_close(&mine);
    writer_close(&best.text);
    listing_close(&s.found);
    return found;
}

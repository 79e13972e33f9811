/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.c - writes recipes and compares them: recipe.h has their bytes. A recipe names what an
 * artifact was made of, part by part, so that a comparison says which part differs.
 *
 * The service makes them of jobs and of what clients say; history.c compares them.
 *
 * Thread: any; no state.
 */
#include "daemon/history/recipe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/cuda/options.h"
#include "keygen/key.h"

#define DIFFER_MAX 64u /* parts of one side alone that are compared */

/* ---- building ---- */

void recipe_begin(struct recipe *r)
{
    r->n = 0;
    r->others = 0;
}

void recipe_add(struct recipe *r, const char *name, struct view value)
{
    assert(name && r->n <= RECIPE_PARTS_MAX);
    if (r->n == RECIPE_PARTS_MAX) {
        struct key key = key_of_bytes(value.data, value.len);
        uint64_t mixed;
        memcpy(&mixed, key.bytes, sizeof mixed);
        r->others = r->others * 31 + mixed;
        return;
    }
    snprintf(r->part[r->n].name, sizeof r->part[r->n].name, "%s", name);
    snprintf(r->part[r->n].value, sizeof r->part[r->n].value, "%.*s", (int)value.len,
             value.len ? (const char *)value.data : "");
    r->n++;
}

static int by_name_and_value(const void *a, const void *b)
{
    const char *x = a, *y = b; /* the name, then the value */
    int order = strcmp(x, y);
    return order ? order : strcmp(x + 64, y + 64);
}
_Static_assert(sizeof(((struct recipe *)0)->part[0].name) == 64, "by_name_and_value knows");

static void write_part(struct writer *out, const char *name, const char *value)
{
    writer_text(out, name);
    writer_text(out, value);
}

void recipe_end(struct recipe *r, struct writer *out)
{
    char digest[20];
    assert(r->n <= RECIPE_PARTS_MAX && out->len == 0);
    qsort(r->part, r->n, sizeof *r->part, by_name_and_value);
    for (size_t i = 0; i < r->n && out->len < RECIPE_MAX - 512; i++)
        write_part(out, r->part[i].name, r->part[i].value);
    if (!r->others)
        return;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)r->others);
    write_part(out, "~others", digest); /* '~' sorts behind all names */
}

/* ---- a compile job ---- */

static void add_digest(struct recipe *r, const char *name, struct view bytes)
{
    char text[WARM_KEY_TEXT + 32];
    struct key key = key_of_bytes(bytes.data, bytes.len);
    key_to_text(&key, text);
    snprintf(text + 16, sizeof text - 16, " (%zu bytes)", bytes.len);
    recipe_add(r, name, view_of_text(text));
}

static void add_named(struct recipe *r, const char *what, struct view name, struct view value)
{
    char text[64];
    snprintf(text, sizeof text, "%s %.*s", what, (int)name.len, (const char *)name.data);
    recipe_add(r, text, value);
}

/* Returns the length of an option's name: "-DN=4" is -D, "--std=c++17" is --std. */
static size_t stem_of(struct view option)
{
    const char *text = option.data;
    static const char attached[] = "DUIl";
    if (option.len > 2 && text[0] == '-' && text[1] != '-' && strchr(attached, text[1]) &&
        memcmp(text, "-lineinfo", option.len < 9 ? option.len : 9) != 0)
        return 2;
    const char *equals = memchr(text, '=', option.len);
    return equals ? (size_t)(equals - text) : option.len;
}

/* True for options whose value is the next argument. */
static bool takes_next(struct view option)
{
    return view_is_one_of(option, ONE_OF("-D", "-U", "-I", "-include", "--pre-include", "-arch"));
}

static void add_options(struct recipe *r, const struct job *job)
{
    for (size_t i = 0; i < job->n_options; i++) {
        struct view option = job->options[i], value = {"given", 5};
        size_t stem = stem_of(option);
        if (stem < option.len) {
            size_t skip = stem + (((const char *)option.data)[stem] == '=');
            value = (struct view){(const char *)option.data + skip, option.len - skip};
        } else if (takes_next(option) && i + 1 < job->n_options) {
            value = job->options[++i];
        }
        struct view name = {option.data, stem};
        if (!view_is(name, "-arch") && !view_is(name, "--gpu-architecture")) /* the target's part */
            add_named(r, "option", name, value);
    }
}

/* Adds the working folder if the key has it. */
static void add_folder(struct recipe *r, const struct job *job)
{
    enum options_tool tool = job->language == JOB_CUDA ? OPTIONS_NVRTC : OPTIONS_PTXAS;
    struct options options;
    if (options_parse(tool, 0, job->options, job->n_options, &options, NULL))
        return;
    if (options.shows_cwd)
        recipe_add(r, "working folder", job->cwd);
    options_close(&options);
}

void recipe_add_job(struct recipe *r, const struct job *job)
{
    recipe_add(r, "name", job->name);
    add_digest(r, "source", job->source);
    add_options(r, job);
    add_folder(r, job);
    for (size_t i = 0; i < job->n_headers; i++) {
        char name[64];
        snprintf(name, sizeof name, "header %.*s", (int)job->headers[i].name.len,
                 (const char *)job->headers[i].name.data);
        add_digest(r, name, job->headers[i].bytes);
    }
    for (size_t i = 0; i < job->n_expressions; i++)
        recipe_add(r, "expression", job->expressions[i]);
}

/* ---- descriptions of clients ---- */

static void add_word(struct recipe *r, struct view word)
{
    const char *equals = memchr(word.data, '=', word.len);
    struct view name = {word.data, equals ? (size_t)(equals - (const char *)word.data) : word.len};
    struct view value = {"given", 5};
    if (equals)
        value = (struct view){equals + 1, word.len - name.len - 1};
    if (word.len && *(const char *)word.data != '-' && equals) {
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)name.len, (const char *)name.data);
        recipe_add(r, text, value);
    } else if (word.len) {
        add_named(r, "option", name, value);
    }
}

void recipe_add_text(struct recipe *r, const char *name, struct view text)
{
    const char *at = text.data, *end = at + text.len;
    for (bool first = true; at < end; first = false) {
        const char *stop = memmem(at, (size_t)(end - at), "; ", 2);
        struct view word = {at, (size_t)((stop ? stop : end) - at)};
        if (first)
            recipe_add(r, name, word);
        else
            add_word(r, word);
        at = stop ? stop + 2 : end;
    }
}

/* ---- comparing ---- */

struct part {
    struct view name, value;
};

static bool part_next(struct reader *r, struct part *out)
{
    if (r->failed || r->len == 0)
        return false;
    out->name = reader_blob(r, RECIPE_TEXT_MAX);
    out->value = reader_blob(r, RECIPE_TEXT_MAX);
    return !r->failed;
}

static int part_order(const struct part *a, const struct part *b)
{
    int order = view_order(a->name, b->name);
    return order ? order : view_order(a->value, b->value);
}

bool recipe_find(struct view recipe, const char *name, struct view *out)
{
    struct reader r = reader_over(recipe.data, recipe.len);
    struct part part;
    while (part_next(&r, &part))
        if (view_is(part.name, name)) {
            *out = part.value;
            return true;
        }
    return false;
}

struct differ {
    struct part old[DIFFER_MAX], now[DIFFER_MAX];
    size_t n_old, n_now;
};

/* Collects the parts that only one side has. Both are sorted. */
static void collect(struct view old, struct view now, struct differ *d)
{
    struct reader a = reader_over(old.data, old.len), b = reader_over(now.data, now.len);
    struct part x, y;
    bool has_x = part_next(&a, &x), has_y = part_next(&b, &y);
    while ((has_x || has_y) && d->n_old < DIFFER_MAX && d->n_now < DIFFER_MAX) {
        int order = !has_x ? 1 : !has_y ? -1 : part_order(&x, &y);
        if (order < 0)
            d->old[d->n_old++] = x;
        if (order > 0)
            d->now[d->n_now++] = y;
        if (order <= 0)
            has_x = part_next(&a, &x);
        if (order >= 0)
            has_y = part_next(&b, &y);
    }
}

/* Joins old and new value of one name into one change. */
size_t recipe_compare(struct view old, struct view now, struct recipe_change *out, size_t cap)
{
    struct differ d = {.n_old = 0};
    size_t n = 0, i = 0, k = 0;
    collect(old, now, &d);
    assert(d.n_old <= DIFFER_MAX && d.n_now <= DIFFER_MAX);
    while (i < d.n_old || k < d.n_now) {
        int order = i == d.n_old ? 1 : k == d.n_now ? -1 : view_order(d.old[i].name, d.now[k].name);
        struct recipe_change change = {.old = {"", 0}, .now = {"", 0}};
        if (order >= 0) {
            change.part = d.now[k].name;
            change.now = d.now[k++].value;
        }
        if (order <= 0) {
            change.part = d.old[i].name;
            change.old = d.old[i++].value;
        }
        if (n < cap)
            out[n] = change;
        n++;
    }
    return n;
}

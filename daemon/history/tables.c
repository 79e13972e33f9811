/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.c - decides which entries the tables of the history keep, and which give way. history.c notes
 * and explains misses with them; file.c fills them from the file.
 *
 *   left    8192 places in sets of four, found by the key's own bytes: a new entry takes the place of
 *           the oldest of its set
 *   known   a ring of recipes. An index by key finds one
 *   misses  a table with a share for each user (shares.h)
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/history/internal.h"

/* ---- small things ---- */

static uint64_t digest_of(struct view v)
{
    uint64_t bits;
    if (v.len == 0)
        return 0;
    struct key key = key_of_bytes(v.data, v.len);
    memcpy(&bits, key.bytes, sizeof bits);
    return bits ? bits : 1;
}

/* ---- entries that have left the store ---- */

static struct store_departure *left_set(struct history *h, const struct store_id *id)
{
    return &h->left[history_hash(id) % (HISTORY_LEFT / SET) * SET];
}

struct store_departure *history_left_find(struct history *h, const struct store_id *id)
{
    struct store_departure *set = left_set(h, id);
    for (size_t i = 0; i < SET; i++)
        if (set[i].cause && store_id_equal(&set[i].id, id))
            return &set[i];
    return NULL;
}

void history_left_add(struct history *h, const struct store_departure *gone)
{
    struct store_departure *to = history_left_find(h, &gone->id), *set = left_set(h, &gone->id);
    assert(gone->cause); /* 0 marks a free place */
    for (size_t i = 0; i < SET && !to; i++)
        if (!set[i].cause)
            to = &set[i];
    if (!to) {
        to = set;
        for (size_t i = 1; i < SET; i++)
            if (set[i].at_ms < to->at_ms)
                to = &set[i];
    }
    assert(to >= set && to < set + SET);
    *to = *gone;
}

/* ---- known recipes ---- */

struct known *history_known_find(struct history *h, const struct store_id *id)
{
    uint16_t i = h->bucket[history_hash(id) % BUCKETS];
    while (i != NOBODY && !store_id_equal(&h->known[i].id, id))
        i = h->known[i].next;
    return i == NOBODY ? NULL : &h->known[i];
}

void history_known_drop(struct history *h, struct known *k)
{
    uint16_t *link = &h->bucket[history_hash(&k->id) % BUCKETS];
    if (k->at_ms == 0)
        return;
    while (*link != NOBODY && &h->known[*link] != k)
        link = &h->known[*link].next;
    assert(*link != NOBODY); /* a place in use is in its bucket */
    *link = k->next;
    assert(h->known_bytes >= k->len);
    h->known_bytes -= k->len;
    free(k->recipe);
    *k = (struct known){.at_ms = 0};
}

void history_kinship(struct view recipe, uint64_t *source, uint64_t *label)
{
    struct view text = {"", 0};
    recipe_find(recipe, "source", &text);
    *source = digest_of(text);
    text.len = 0;
    if (!recipe_find(recipe, "label", &text))
        recipe_find(recipe, "name", &text);
    *label = digest_of(text);
}

void history_known_add(struct history *h, const struct known *from, struct view recipe)
{
    assert(from->at_ms); /* 0 marks a free place */
    uint8_t *bytes = malloc(recipe.len ? recipe.len : 1);
    if (!bytes)
        return;
    struct known *k = history_known_find(h, &from->id);
    if (k)
        history_known_drop(h, k);
    /* The next place of the ring is emptied; older recipes go until there is room for this one. */
    k = &h->known[h->next_known];
    history_known_drop(h, k);
    for (size_t n = 1; h->known_bytes + recipe.len > HISTORY_KNOWN_BYTES && n < HISTORY_KNOWN; n++)
        history_known_drop(h, &h->known[(h->next_known + n) % HISTORY_KNOWN]);
    h->next_known = (h->next_known + 1) % HISTORY_KNOWN;
    assert(k->at_ms == 0 && h->next_known < HISTORY_KNOWN);
    *k = *from;
    history_kinship(recipe, &k->source, &k->label_digest);
    if (recipe.len)
        memcpy(bytes, recipe.data, recipe.len);
    k->recipe = bytes;
    k->len = recipe.len;
    h->known_bytes += recipe.len;
    h->n_added++;
    uint16_t *bucket = &h->bucket[history_hash(&k->id) % BUCKETS];
    k->next = *bucket;
    *bucket = (uint16_t)(k - h->known);
}

/* ---- misses ---- */

struct miss *history_miss_at(struct history *h, uint64_t number)
{
    struct miss *m = &h->miss[number % HISTORY_MISSES];
    return number && m->number == number ? m : NULL;
}

void history_miss_clear(struct miss *m)
{
    for (size_t i = 0; i < TEXTS; i++)
        free(m->text[i]);
    writer_close(&m->changes);
    *m = (struct miss){.number = 0};
}

struct miss *history_miss_new(struct history *h, uint32_t uid)
{
    uint64_t number = shares_take(&h->miss_shares, uid);
    struct miss *m = &h->miss[number % HISTORY_MISSES];
    history_miss_clear(m);
    assert(number); /* 0 marks a free place */
    m->number = number;
    writer_init(&m->changes, HISTORY_CHANGES_MAX * (3 * (RECIPE_TEXT_MAX + 4)));
    h->miss_hash[number % HISTORY_MISSES] = 0;
    h->dirty = true;
    return m;
}

static int by_number(const void *a, const void *b)
{
    const struct miss *const *x = a, *const *y = b;
    return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

size_t history_misses(const struct history *h, const struct miss *out[HISTORY_MISSES])
{
    size_t n = 0;
    for (size_t i = 0; i < HISTORY_MISSES; i++)
        if (h->miss[i].number)
            out[n++] = &h->miss[i];
    if (n)
        qsort(out, n, sizeof *out, by_number);
    return n;
}

void history_set_text(struct miss *m, enum history_text which, struct view text)
{
    assert(which < TEXTS);
    free(m->text[which]);
    size_t len = text.len < HISTORY_TEXT_MAX ? text.len : HISTORY_TEXT_MAX;
    m->text[which] = len ? strndup(text.data, len) : NULL;
}

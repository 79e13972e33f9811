/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_reach.c - the macros that lead to __FILE__ or __LINE__; cuda_reach.h says what for. One
 * thread at a time.
 *
 * Words are their hashes: two that collide are taken for one, which at worst finds one macro too
 * many. Definitions are kept as their name and the words of their body; those that lead there are
 * found by going over all of them until nothing changes.
 */
#define XXH_INLINE_ALL
#include "keygen/cuda_reach.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "keygen/bytes.h"
#include "keygen/cuda.h"

/* A set of words. Zero stands for an empty slot, and is in no set. */
struct words {
    uint64_t *slots;
    size_t n, cap; /* a power of two, or 0 */
};

struct macro {
    uint64_t name;
    size_t first, n; /* of its body, in `bodies` */
    bool leads;
};

struct cuda_reach {
    struct words places; /* what shows a place, and the macros that lead to it */
    struct macro *macros;
    size_t n_macros, cap_macros;
    uint64_t *bodies;
    size_t n_bodies, cap_bodies;
    bool is_followed; /* `places` has all of them */
    bool is_unclear;  /* some text asks for its caller's place, or memory ran out */
    bool is_met;      /* by the text that is looked at */
};

/* ---- words ---- */

static uint64_t hash_of(struct view word)
{
    uint64_t h = XXH3_64bits(word.data, word.len);
    return h ? h : 1;
}

static size_t slot_of(const struct words *s, uint64_t word)
{
    size_t at = (size_t)word & (s->cap - 1);
    while (s->slots[at] && s->slots[at] != word)
        at = (at + 1) & (s->cap - 1);
    return at;
}

static bool words_have(const struct words *s, uint64_t word)
{
    return s->cap && s->slots[slot_of(s, word)] == word;
}

static bool words_grow(struct words *s)
{
    struct words bigger = {.cap = s->cap ? 2 * s->cap : 64, .n = s->n};
    bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    for (size_t i = 0; i < s->cap; i++)
        if (s->slots[i])
            bigger.slots[slot_of(&bigger, s->slots[i])] = s->slots[i];
    free(s->slots);
    *s = bigger;
    return true;
}

static bool words_add(struct words *s, uint64_t word)
{
    if (2 * s->n >= s->cap && !words_grow(s))
        return false;
    uint64_t *slot = &s->slots[slot_of(s, word)];
    s->n += !*slot;
    *slot = word;
    return true;
}

/* ---- definitions ---- */

/* Room for one more. `*items` has `n` of `cap`. */
static bool make_room(void **items, size_t size, size_t n, size_t *cap)
{
    if (n < *cap)
        return true;
    size_t more = *cap ? 2 * *cap : 256;
    void *grown = reallocarray(*items, more, size);
    if (!grown)
        return false;
    *items = grown;
    *cap = more;
    return true;
}

static bool add_macro(struct cuda_reach *r, uint64_t name)
{
    void *items = r->macros;
    bool ok = make_room(&items, sizeof *r->macros, r->n_macros, &r->cap_macros);
    r->macros = items;
    if (ok)
        r->macros[r->n_macros++] = (struct macro){.name = name, .first = r->n_bodies};
    return ok;
}

static bool add_body(struct cuda_reach *r, uint64_t word)
{
    void *items = r->bodies;
    bool ok = make_room(&items, sizeof *r->bodies, r->n_bodies, &r->cap_bodies);
    r->bodies = items;
    if (ok) {
        r->bodies[r->n_bodies++] = word;
        r->macros[r->n_macros - 1].n++;
    }
    return ok;
}

/* As the default of a parameter these are of whoever calls, without a macro. */
static bool asks_for_caller(struct view word)
{
    static const char *const names[] = {"source_location", "__builtin_source_location",
                                        "__builtin_FILE",  "__builtin_FILE_NAME",
                                        "__builtin_LINE",  "__BASE_FILE__"};
    if (word.len < strlen("__BASE_FILE__"))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (word.len == strlen(names[i]) && memcmp(word.data, names[i], word.len) == 0)
            return true;
    return false;
}

static void on_definition(void *self, enum cuda_place place, struct view word)
{
    struct cuda_reach *r = self;
    bool is_odd = place == CUDA_TEXT && *(const char *)word.data == '#'; /* a directive, perhaps */
    if (is_odd || asks_for_caller(word))
        r->is_unclear = true;
    if (place == CUDA_MACRO)
        r->is_unclear |= !add_macro(r, hash_of(word));
    else if (place == CUDA_BODY && r->n_macros)
        r->is_unclear |= !add_body(r, hash_of(word));
}

static bool leads_there(const struct cuda_reach *r, const struct macro *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (words_have(&r->places, r->bodies[m->first + i]))
            return true;
    return false;
}

/* Each turn but the last finds one more at least. */
static void follow(struct cuda_reach *r)
{
    bool changed = true;
    while (changed && !r->is_unclear) {
        changed = false;
        for (size_t i = 0; i < r->n_macros; i++) {
            struct macro *m = &r->macros[i];
            if (m->leads || !leads_there(r, m))
                continue;
            m->leads = changed = true;
            r->is_unclear |= !words_add(&r->places, m->name);
        }
    }
    r->is_followed = true;
}

/* ---- the unit ---- */

struct cuda_reach *cuda_reach_new(void)
{
    /* `assert` is the compiler's own, in no text that we see. */
    static const char *const places[] = {"__FILE__", "__FILE_NAME__", "__LINE__", "assert", "##"};
    struct cuda_reach *r = calloc(1, sizeof *r);
    for (size_t i = 0; r && i < sizeof places / sizeof *places; i++)
        if (!words_add(&r->places, hash_of((struct view){places[i], strlen(places[i])}))) {
            cuda_reach_free(r);
            return NULL;
        }
    return r;
}

void cuda_reach_free(struct cuda_reach *r)
{
    if (!r)
        return;
    free(r->places.slots);
    free(r->macros);
    free(r->bodies);
    free(r);
}

void cuda_reach_add(struct cuda_reach *r, const void *text, size_t len)
{
    cuda_read_words(text, len, on_definition, r);
}

static void on_text(void *self, enum cuda_place place, struct view word)
{
    struct cuda_reach *r = self;
    (void)place;
    r->is_met |= words_have(&r->places, hash_of(word));
}

bool cuda_reach_shows_place(struct cuda_reach *r, const void *text, size_t len)
{
    if (!r->is_followed)
        follow(r);
    r->is_met = r->is_unclear;
    if (!r->is_met)
        cuda_read_words(text, len, on_text, r);
    return r->is_met;
}

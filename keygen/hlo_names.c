/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_names.c - what the names in HLO text stand for. Any thread; no state but the caller's.
 *
 * Names of computations, opcodes and attributes are looked up in tables by hash. Those of instructions
 * are mostly a word and a number, "add.123". Those of one word are a family, and their values lie side
 * by side by number, in chunks that are made as they are needed:
 *
 *     family "add."   chunks [0] [1] [7] ...        by number / 16; 0: none
 *                             │
 *                      values [16..31]              value + 1; 0: none
 *
 * So what stands together in the text lies together in memory, of a module of any size, and a number
 * that other words use up costs little. Names of another look, and of words that come when there are
 * too many families, are in a table.
 */
#define XXH_INLINE_ALL
#include "keygen/hlo_internal.h"
#include "keygen/vector.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define NAME_START 256u /* slots that a table of names begins with, a power of two */
#define DIGITS_MAX 9    /* of a number that is not hashed */
/* Words of parameters, which may all differ, take no more families than this. */
#define FAMILIES_OF_PARAMETERS (HLO_FAMILIES_MAX / 4)

/* ---- tables of names ---- */

static uint32_t hash_bytes(const char *s, uint32_t len) { return (uint32_t)XXH3_64bits(s, len); }

/* The slot of a name, or the empty one where it would be. */
static uint64_t *names_slot(const struct hlo *h, const struct names *t, struct span name,
                            uint32_t hash)
{
    for (uint32_t i = hash & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
        uint64_t *s = &t->slots[i];
        if (!*s)
            return s;
        if (*s >> 32 != hash)
            continue;
        struct span have = t->entries[(uint32_t)*s - 1].name;
        if (have.len == name.len && memcmp(h->base + have.at, h->base + name.at, name.len) == 0)
            return s;
    }
}

/* Keeps at most three of four slots in use, so that a search always ends. */
static bool names_reserve(struct hlo *h, struct names *t)
{
    if (!hlo_grow(h, &t->entries, t->n_entries, &t->cap_entries, sizeof *t->entries))
        return false;
    if (t->n_slots && t->n_entries < t->n_slots / 4 * 3)
        return true;
    uint32_t n_slots = t->n_slots ? t->n_slots * 2 : NAME_START;
    uint64_t *slots = n_slots ? vector_zeroes(n_slots, sizeof *slots) : NULL;
    if (!slots) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return false;
    }
    for (uint32_t e = 0; e < t->n_entries; e++) {
        uint32_t i = t->entries[e].hash & (n_slots - 1);
        while (slots[i])
            i = (i + 1) & (n_slots - 1);
        slots[i] = (uint64_t)t->entries[e].hash << 32 | (e + 1);
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    return true;
}

void hlo_names_clear(struct names *t)
{
    for (uint32_t e = 0; e < t->n_entries; e++) {
        uint32_t i = t->entries[e].hash & (t->n_slots - 1);
        while ((uint32_t)t->slots[i] != e + 1)
            i = (i + 1) & (t->n_slots - 1);
        t->slots[i] = 0;
    }
    t->n_entries = 0;
}

void hlo_names_close(struct names *t)
{
    free(t->entries);
    free(t->slots);
}

/* False if the name is there already. */
bool hlo_names_add(struct hlo *h, struct names *t, struct span name, uint32_t value)
{
    if (!names_reserve(h, t))
        return true;
    uint32_t hash = hash_bytes(h->base + name.at, name.len);
    uint64_t *s = names_slot(h, t, name, hash);
    if (*s)
        return false;
    t->entries[t->n_entries++] = (struct name_entry){name, hash, value};
    *s = (uint64_t)hash << 32 | t->n_entries;
    return true;
}

/* The value of a name, or GRAPH_NONE. */
uint32_t hlo_names_find(const struct hlo *h, const struct names *t, struct span name)
{
    if (!t->n_slots)
        return GRAPH_NONE;
    uint64_t s = *names_slot(h, t, name, hash_bytes(h->base + name.at, name.len));
    return s ? t->entries[(uint32_t)s - 1].value : GRAPH_NONE;
}

/* ---- instructions ---- */

/* "add.123" as a word and 123 + 1, "add" as a word and 0. False if the number is an unusual one. */
static bool name_split(const struct hlo *h, struct span name, uint32_t *out_word,
                       uint32_t *out_number)
{
    const char *s = h->base + name.at;
    uint32_t word = name.len, number = 0, unit = 1;
    for (; word && s[word - 1] >= '0' && s[word - 1] <= '9'; word--, unit *= 10)
        number += (uint32_t)(s[word - 1] - '0') * unit;
    *out_word = word;
    *out_number = 0;
    if (word == name.len)
        return true;
    if (name.len - word > DIGITS_MAX || (s[word] == '0' && name.len - word > 1))
        return false;
    *out_number = number + 1;
    return number < h->values.number_max;
}

/* The first eight letters of a word as a number. */
static uint64_t front_of(const struct hlo *h, struct span word)
{
    const char *s = h->base + word.at;
    uint64_t front = 0;
    if (h->len - word.at < sizeof front) {
        memcpy(&front, s, word.len);
        return le64toh(front);
    }
    memcpy(&front, s, sizeof front); /* what follows the word is taken off again */
    front = le64toh(front);
    return word.len < sizeof front ? front & (((uint64_t)1 << 8 * word.len) - 1) : front;
}

static bool family_is(const struct hlo *h, const struct family *f, uint64_t front, struct span word)
{
    return f->front == front && f->word.len == word.len &&
           (word.len <= sizeof front ||
            memcmp(h->base + f->word.at, h->base + word.at, word.len) == 0);
}

/* The number of a word's family, or GRAPH_NONE: looked up where words of this look were found last, then
 * one by one. It is made if there are fewer than `make`. */
static uint32_t family_of(struct hlo *h, struct span word, uint32_t make)
{
    struct values *v = &h->values;
    uint64_t front = front_of(h, word);
    uint8_t *hint = &v->hints[(front + word.len) * 0x9E3779B97F4A7C15u >> 56];
    uint32_t i = *hint;
    if (i < v->n_families && family_is(h, &v->families[i], front, word))
        return i;
    for (i = 0; i < v->n_families; i++)
        if (family_is(h, &v->families[i], front, word))
            break;
    if (i == v->n_families) {
        if (i >= make)
            return GRAPH_NONE;
        v->families[v->n_families++] = (struct family){.word = word, .front = front};
    }
    *hint = (uint8_t)i;
    return i;
}

/* Where the value of a number of a family is; NULL if nothing is near it. */
static inline uint32_t *value_place(struct values *v, uint32_t family, uint32_t number)
{
    const struct family *f = &v->families[family];
    uint32_t at = number / HLO_CHUNK;
    return at < f->n_chunks && f->chunks[at]
               ? &v->chunks[f->chunks[at] - 1].values[number % HLO_CHUNK]
               : NULL;
}

/* The same, made if there is none; NULL without memory. */
static uint32_t *value_place_new(struct hlo *h, uint32_t family, uint32_t number)
{
    struct values *v = &h->values;
    struct family *f = &v->families[family];
    uint32_t at = number / HLO_CHUNK;
    if (at >= f->n_chunks) {
        uint32_t n = at + at / 2 + 16;
        uint32_t *chunks = realloc(f->chunks, n * sizeof *chunks);
        if (!chunks) {
            hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
            return NULL;
        }
        memset(chunks + f->n_chunks, 0, (n - f->n_chunks) * sizeof *chunks);
        f->chunks = chunks;
        f->n_chunks = n;
    }
    if (!f->chunks[at]) {
        if (!hlo_grow(h, &v->chunks, v->n_chunks, &v->cap_chunks, sizeof *v->chunks))
            return NULL;
        v->chunks[v->n_chunks++] = (struct value_chunk){.family = family, .at = at};
        f->chunks[at] = v->n_chunks;
    }
    return value_place(v, family, number);
}

uint32_t hlo_value_find(struct hlo *h, struct span name)
{
    struct values *v = &h->values;
    uint32_t word, number;
    if (name_split(h, name, &word, &number)) {
        uint32_t family = family_of(h, (struct span){name.at, word}, 0);
        const uint32_t *place = family == GRAPH_NONE ? NULL : value_place(v, family, number);
        if (place && *place)
            return *place - 1;
    }
    return v->others.n_entries ? hlo_names_find(h, &v->others, name) : GRAPH_NONE;
}

bool hlo_value_add(struct hlo *h, struct span name, uint32_t value, bool parameter)
{
    hlo_lines_named(h, name);
    struct values *v = &h->values;
    uint32_t word, number, make = parameter ? FAMILIES_OF_PARAMETERS : HLO_FAMILIES_MAX;
    if (name_split(h, name, &word, &number)) {
        uint32_t family = family_of(h, (struct span){name.at, word}, make);
        uint32_t *place = family == GRAPH_NONE ? NULL : value_place_new(h, family, number);
        if (place) {
            if (*place ||
                (v->others.n_entries && hlo_names_find(h, &v->others, name) != GRAPH_NONE))
                return false;
            *place = value + 1;
            return true;
        }
    }
    return hlo_names_add(h, &v->others, name, value);
}

void hlo_values_clear(struct hlo *h)
{
    struct values *v = &h->values;
    for (uint32_t i = 0; i < v->n_chunks; i++)
        v->families[v->chunks[i].family].chunks[v->chunks[i].at] = 0;
    v->n_chunks = 0;
    hlo_names_clear(&v->others);
}

void hlo_values_close(struct values *v)
{
    for (uint32_t i = 0; i < v->n_families; i++)
        free(v->families[i].chunks);
    free(v->chunks);
    hlo_names_close(&v->others);
}

/* ---- words, computations, axes ---- */

uint32_t hlo_word_kind(struct hlo *h, struct names *known, struct span word,
                       uint32_t (*compute)(const struct hlo *, struct span))
{
    uint32_t kind = hlo_names_find(h, known, word);
    if (kind == GRAPH_NONE) {
        kind = compute(h, word);
        hlo_names_add(h, known, word, kind);
    }
    return kind;
}

struct computation *hlo_computation_of(struct hlo *h, struct span name)
{
    uint32_t i = hlo_names_find(h, &h->computed_names, name);
    if (i != GRAPH_NONE)
        return &h->computations[i];
    if (!hlo_grow(h, &h->computations, h->n_computations, &h->cap_computations,
                  sizeof *h->computations))
        return NULL;
    i = h->n_computations++;
    h->computations[i] = (struct computation){
        .name = name, .symbol = graph_symbol(h->g, h->base + name.at, name.len)};
    hlo_names_add(h, &h->computed_names, name, i);
    return &h->computations[i];
}

uint32_t hlo_axis_of(const struct hlo *h, struct span name)
{
    for (uint32_t i = 0; i < h->n_axes; i++)
        if (h->axes[i].len == name.len &&
            memcmp(h->base + h->axes[i].at, h->base + name.at, name.len) == 0)
            return i;
    return GRAPH_NONE;
}

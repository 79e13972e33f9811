/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.c - finds the macros that lead to __FILE__ or __LINE__. The compile worker and `warm tool` call it;
 * cuda/reach.h says why.
 *
 * A word is kept as its hash. Two words that collide count as one: at worst that finds one macro too
 * many. A definition is its name and the words of its body. The search goes over all definitions until
 * a round finds no further macro.
 *
 * Thread: one at a time.
 */
#define XXH_INLINE_ALL
#include "keygen/cuda/reach.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "keygen/bytes.h"
#include "keygen/cuda/cuda.h"
#include "keygen/expect.h"
#include "keygen/vector.h"

/* A set of words. Zero marks an empty slot; no word has the hash zero. */
struct words {
    uint64_t *slots;
    size_t n, cap; /* a power of two, or 0 */
};

struct macro {
    struct view name;
    uint64_t hash;   /* of the name */
    size_t first, n; /* of its body, in `bodies` */
};

struct cuda_reach {
    struct words places;    /* names that show a place, and the macros that lead to them */
    struct words callers;   /* the same for the place of a caller */
    struct words files;     /* the same for __FILE__ alone */
    struct words functions; /* the same for __PRETTY_FUNCTION__ */
    struct words spelled;   /* all words of all texts */
    struct words
        pieces; /* words of texts that are not the system's, and what macros make of them */
    struct words in_systems,
        own;              /* words of system texts outside of directives; macros of the others */
    struct words in_text; /* words outside of directives */
    VECTOR(struct macro) macros;
    VECTOR(uint64_t) bodies;
    bool is_followed;       /* `places` and `callers` are complete */
    bool is_unclear;        /* some text may ask for its caller's place, or memory ran out */
    bool is_met;            /* the current text has a word of `wanted` */
    bool is_systems;        /* the current text is */
    bool skips_definitions; /* those of macros do not count */
    const struct words *wanted;
    bool failed; /* a vector has no memory */
};

static const char *const caller_names[] = {
    "source_location", "__builtin_source_location", "__builtin_FILE", "__builtin_FILE_NAME",
    "__builtin_LINE",  "__builtin_COLUMN",          "__BASE_FILE__"};
enum { N_CALLER_NAMES = sizeof caller_names / sizeof *caller_names };

/* ---- words ---- */

static uint64_t hash_of(struct view word)
{
    uint64_t h = XXH3_64bits(word.data, word.len);
    return h ? h : 1;
}

static size_t slot_of(const struct words *s, uint64_t word)
{
    (void)WARM_EXPECT(word && s->cap && !(s->cap & (s->cap - 1)));
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
    if ((2 * s->n >= s->cap && !words_grow(s)) || !WARM_EXPECT(s->n < s->cap))
        return false; /* else the search of a free slot does not end */
    uint64_t *slot = &s->slots[slot_of(s, word)];
    s->n += !*slot;
    *slot = word;
    return true;
}

/* ---- definitions ---- */

static void on_definition(void *self, enum cuda_place place, struct view word)
{
    struct cuda_reach *r = self;
    uint64_t hash = hash_of(word);
    bool ok = words_add(&r->spelled, hash) && (r->is_systems || words_add(&r->pieces, hash)) &&
              (!(r->is_systems && place == CUDA_TEXT) || words_add(&r->in_systems, hash)) &&
              (r->is_systems || place != CUDA_MACRO || words_add(&r->own, hash));
    if (place == CUDA_TEXT) {
        ok = ok && words_add(&r->in_text, hash) &&
             *(const char *)word.data != '#'; /* a digraph: a directive, perhaps */
    } else if (place == CUDA_MACRO) {
        PUSH(r, r->macros, (struct macro){word, hash, r->bodies.n, 0});
    } else if (place == CUDA_BODY && r->macros.n) {
        PUSH(r, r->bodies, hash);
        r->macros.at[r->macros.n - 1].n += !r->failed;
    }
    r->is_unclear |= !ok || r->failed;
}

/* ---- where macros lead ---- */

static bool leads_to(const struct cuda_reach *r, const struct macro *m, const struct words *set)
{
    if (!WARM_EXPECT(m->n <= r->bodies.n && m->first <= r->bodies.n - m->n))
        return true;
    for (size_t i = 0; i < m->n; i++)
        if (words_have(set, r->bodies.at[m->first + i]))
            return true;
    return false;
}

/* Adds the macros that lead to words of the set. Each round but the last adds at least one. */
static void follow(struct cuda_reach *r, struct words *set)
{
    size_t before;
    do {
        before = set->n;
        for (size_t i = 0; i < r->macros.n; i++)
            if (!words_have(set, r->macros.at[i].hash) && leads_to(r, &r->macros.at[i], set))
                r->is_unclear |= !words_add(set, r->macros.at[i].hash);
    } while (set->n > before && !r->is_unclear);
}

/* True if ## can make this word from two or more words of a set. Digits need not be spelt. */
static bool can_be_pasted(const struct cuda_reach *r, const struct words *set, struct view word)
{
    enum { LONGEST = 256 };
    bool reached[LONGEST + 1] = {true};
    const char *text = word.data;
    if (!words_have(&r->spelled, hash_of((struct view){"##", 2})))
        return false;
    if (word.len > LONGEST)
        return true;
    for (size_t i = 0; i < word.len; i++)
        for (size_t k = i + 1; reached[i] && k <= word.len; k++)
            if (k - i < word.len && ((text[i] >= '0' && text[i] <= '9') ||
                                     words_have(set, hash_of((struct view){text + i, k - i}))))
                reached[k] = true;
    return reached[word.len];
}

/* True if this word, which leads to the caller's place, can stand in a text. */
static bool can_stand(const struct cuda_reach *r, struct view word)
{
    return words_have(&r->in_text, hash_of(word)) || can_be_pasted(r, &r->spelled, word);
}

/* ---- the unit ---- */

static bool add_names(struct words *set, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!words_add(set, hash_of((struct view){names[i], strlen(names[i])})))
            return false;
    return true;
}

struct cuda_reach *cuda_reach_new(void)
{
    /* `assert` is the compiler's own: no text of the unit defines it. */
    static const char *const places[] = {"__FILE__", "__FILE_NAME__", "__LINE__", "assert", "##"};
    static const char *const files[] = {"__FILE__", "__FILE_NAME__"};
    static const char *const functions[] = {"__PRETTY_FUNCTION__", "__FUNCSIG__"};
    struct cuda_reach *r = calloc(1, sizeof *r);
    if (r && add_names(&r->files, files, sizeof files / sizeof *files) &&
        add_names(&r->functions, functions, sizeof functions / sizeof *functions) &&
        add_names(&r->places, places, sizeof places / sizeof *places) &&
        add_names(&r->callers, caller_names, N_CALLER_NAMES))
        return r;
    cuda_reach_free(r);
    return NULL;
}

void cuda_reach_free(struct cuda_reach *r)
{
    if (!r)
        return;
    free(r->places.slots);
    free(r->callers.slots);
    free(r->files.slots);
    free(r->functions.slots);
    free(r->spelled.slots);
    free(r->pieces.slots);
    free(r->in_systems.slots);
    free(r->own.slots);
    free(r->in_text.slots);
    free(r->macros.at);
    free(r->bodies.at);
    free(r);
}

void cuda_reach_add(struct cuda_reach *r, const void *text, size_t len)
{
    r->is_unclear |= !WARM_EXPECT(!r->is_followed); /* every text comes first */
    r->is_systems = false;
    cuda_read_words(text, len, on_definition, r);
}

void cuda_reach_add_systems(struct cuda_reach *r, const void *text, size_t len)
{
    r->is_unclear |= !WARM_EXPECT(!r->is_followed);
    r->is_systems = true;
    cuda_read_words(text, len, on_definition, r);
}

/* True if a system text may use a macro of another text, and give it words. */
static bool systems_use_others(const struct cuda_reach *r)
{
    for (size_t i = 0; i < r->own.cap; i++)
        if (r->own.slots[i] && words_have(&r->in_systems, r->own.slots[i]))
            return true;
    return false;
}

bool cuda_reach_can_paste(struct cuda_reach *r, const char *word)
{
    /* The pieces become what the macros stand for. Each round but the last adds at least one word. */
    size_t before;
    do {
        before = r->pieces.n;
        for (size_t i = 0; i < r->macros.n; i++) {
            const struct macro *m = &r->macros.at[i];
            for (size_t k = 0; k < m->n && words_have(&r->pieces, m->hash); k++)
                r->is_unclear |= !words_add(&r->pieces, r->bodies.at[m->first + k]);
        }
    } while (r->pieces.n > before && !r->is_unclear);
    return r->is_unclear || can_be_pasted(r, systems_use_others(r) ? &r->spelled : &r->pieces,
                                          (struct view){word, strlen(word)});
}

void cuda_reach_ignore(struct cuda_reach *r, const char *name)
{
    uint64_t hash = hash_of((struct view){name, strlen(name)});
    for (size_t i = 0; i < r->macros.n; i++)
        if (r->macros.at[i].hash == hash)
            r->macros.at[i].n = 0;
}

static void on_text(void *self, enum cuda_place place, struct view word)
{
    struct cuda_reach *r = self;
    bool defines = place == CUDA_MACRO || place == CUDA_BODY;
    r->is_met |= !(r->skips_definitions && defines) && words_have(r->wanted, hash_of(word));
}

/* True if a text has a word of a complete set. */
static bool meets(struct cuda_reach *r, const struct words *set, const void *text, size_t len)
{
    r->wanted = set;
    r->is_met = r->is_unclear;
    if (!r->is_met)
        cuda_read_words(text, len, on_text, r);
    return r->is_met;
}

bool cuda_reach_shows_place(struct cuda_reach *r, const void *text, size_t len)
{
    if (!r->is_followed) {
        follow(r, &r->places);
        follow(r, &r->callers);
        for (size_t i = 0; i < N_CALLER_NAMES; i++)
            r->is_unclear |= can_stand(r, (struct view){caller_names[i], strlen(caller_names[i])});
        for (size_t i = 0; i < r->macros.n && !r->is_unclear; i++)
            if (words_have(&r->callers, r->macros.at[i].hash))
                r->is_unclear |= can_stand(r, r->macros.at[i].name);
        r->is_followed = true;
    }
    return meets(r, &r->places, text, len);
}

bool cuda_reach_spells_file(struct cuda_reach *r, const void *text, size_t len)
{
    follow(r, &r->files);
    r->skips_definitions = true; /* what uses the macro names it */
    bool spells = meets(r, &r->files, text, len);
    r->skips_definitions = false;
    return spells;
}

bool cuda_reach_spells_function(struct cuda_reach *r, const void *text, size_t len)
{
    follow(r, &r->functions);
    return meets(r, &r->functions, text, len);
}

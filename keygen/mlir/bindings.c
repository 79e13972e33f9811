/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bindings.c - finds the value of a name. All readers of operations in this folder call it.
 *
 * Most names are a word and a number (%12, %arg3, %cst_7) or a word (%cst). Those of one word are a
 * family: their bindings lie side by side by number and need no hashing. Other names (odd numbers,
 * the 25th family) have a number in `named`. A slot identifies a binding:
 *
 *     family + 1 << 32 | number + 1        0 for the bare word
 *     index into named_bindings            upper half 0
 *
 * A binding holds until its scope ends; then `undo` restores the earlier one. A function sees no
 * name from outside. So at its end all families are empty again, and its own level needs no undo.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <string.h>

#define DIGITS_MAX 9 /* longer numbers are hashed */

/* Sets the highest bit of each byte that is no decimal digit. */
static inline uint64_t no_digits(uint64_t x)
{
    x ^= EACH('0');
    return (((x & EACH(0x7F)) + EACH(0x80 - 10)) | x) & EACH(0x80);
}

/* Returns how many digits the text begins with, up to 8. */
static inline unsigned digits_of(uint64_t x)
{
    uint64_t other = no_digits(x);
    return other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
}

/* Returns the number of the first n digits of x, 1 <= n <= 8: by pairs, then fours, then eight at
 * once. */
static inline uint32_t number_of(uint64_t x, unsigned n)
{
    x = (x ^ EACH('0')) << (64 - 8 * n);
    x = x * 10 + (x >> 8);
    x = (x & 0x000000FF000000FFu) * 0x000F424000000064u +
        (x >> 16 & 0x000000FF000000FFu) * 0x0000271000000001u;
    return (uint32_t)(x >> 32);
}

/* Returns how many letters (and '_') the text begins with, up to 8. It may take other bytes for
 * letters, but none that ends a name. */
static inline unsigned letters_of(uint64_t x)
{
    uint64_t other = ~x & EACH(0x40);
    return other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
}

/* Returns the place in family_hints of a word with these first letters. */
static inline size_t family_hint(uint64_t first, size_t len)
{
    return (first + len) * 0x9E3779B97F4A7C15u >> 58;
}

/* Returns the family of a word. It tries the last family of such letters, then each one. The first
 * family is that of the empty word. */
static uint32_t family_of(struct mlir *m, struct slice word, bool make)
{
    size_t len = slice_len(word);
    char text[sizeof m->families[0].letters] = {0};
    struct family fresh = {.len = (uint32_t)len};
    if (!len)
        return 0;
    if (len > sizeof text)
        return GRAPH_NONE;
    memcpy(text, word.at, len);
    for (size_t i = 0; i < FAMILY_EIGHTS; i++)
        fresh.letters[i] = eight(text + 8 * i);
    uint32_t i = 1;
    while (i < m->n_families &&
           (m->families[i].len != len ||
            memcmp(m->families[i].letters, fresh.letters, sizeof fresh.letters) != 0))
        i++;
    if (i == m->n_families) {
        if (!make || i == FAMILIES_MAX)
            return GRAPH_NONE;
        m->families[m->n_families++] = fresh;
    }
    m->family_hints[family_hint(fresh.letters[0], len)] = (uint8_t)i;
    return i;
}

static uint64_t slot_by_hash(struct mlir *m, struct slice name, bool make)
{
    uint32_t hash;
    uint32_t slot = cache_find(&m->named, 0, name, &hash);
    if (slot == GRAPH_NONE && make) {
        slot = m->named_bindings.n;
        PUSH(m, m->named_bindings, (struct binding){GRAPH_NONE, 0});
        cache_add(m, &m->named, 0, name, hash, slot);
    }
    return slot;
}

static __attribute__((noinline)) uint64_t slot_of_word(struct mlir *m, struct slice *s, bool make)
{
    const char *p = s->at, *digits;
    uint32_t number = 0;
    while (p < s->end && slice_id_goes_on(*p))
        p++;
    for (digits = p; digits > s->at && digits[-1] >= '0' && digits[-1] <= '9';)
        digits--;
    struct slice name = {s->at, p}, word = {s->at, digits};
    s->at = p;
    if (digits < p) {
        if (p - digits > DIGITS_MAX || (*digits == '0' && digits + 1 < p))
            return slot_by_hash(m, name, make);
        for (const char *d = digits; d < p; d++)
            number = number * 10 + (uint32_t)(*d - '0');
        if (number++ >= m->number_max)
            return slot_by_hash(m, name, make);
    }
    uint32_t family = family_of(m, word, make);
    return family == GRAPH_NONE ? slot_by_hash(m, name, make)
                                : (uint64_t)(family + 1) << 32 | number;
}

/* Finds the slot of a usual name: up to seven digits, a word of up to 16 letters, or both. The
 * word's family must be that of its last hint. Returns the name's end; NULL for other names. */
static inline __attribute__((always_inline)) const char *
slot_at_once(const struct mlir *m, const char *p, const char *end, uint32_t *out_family,
             uint32_t *out_number)
{
    if (end - p <= 24)
        return NULL;
    uint64_t x = eight(p);
    unsigned n_letters = letters_of(x), n;
    uint32_t family = 0, number = 0;
    if (n_letters) {
        uint64_t first = first_of(x, n_letters), second = 0;
        if (n_letters == 8 && (n = letters_of(x = eight(p + 8)))) {
            second = first_of(x, n);
            n_letters += n;
        }
        family = m->family_hints[family_hint(first, n_letters)];
        const struct family *f = &m->families[family];
        if (f->letters[0] != first || f->letters[1] != second || f->len != n_letters)
            return NULL; /* past this, all are letters: a family has no other bytes */
        x = eight(p += n_letters);
    }
    if ((n = digits_of(x))) {
        number = number_of(x, n);
        if (n == 8 || number >= m->number_max || (*p == '0' && n > 1))
            return NULL;
        number++;
    }
    if (slice_id_goes_on(p[n]) || n_letters + n == 0)
        return NULL;
    *out_family = family;
    *out_number = number;
    return p + n;
}

const char *mlir_slot(struct mlir *m, const char *p, const char *end, bool make, uint64_t *out)
{
    uint32_t family, number;
    const char *behind = slot_at_once(m, p, end, &family, &number);
    if (behind) {
        *out = (uint64_t)(family + 1) << 32 | number;
        return behind;
    }
    struct slice s = {p, end};
    *out = slot_of_word(m, &s, make);
    return s.at;
}

static struct binding *binding_of(struct mlir *m, uint64_t slot)
{
    if (slot >> 32 == 0)
        return slot < m->named_bindings.n ? &m->named_bindings.at[slot] : NULL;
    if (!MLIR_EXPECT(m, slot >> 32 <= m->n_families))
        return NULL;
    struct family *f = &m->families[(slot >> 32) - 1];
    return (uint32_t)slot < f->bindings.n ? &f->bindings.at[(uint32_t)slot] : NULL;
}

/* Makes room for bindings up to this number. */
static __attribute__((noinline)) void family_widen(struct mlir *m, struct family *f,
                                                   uint32_t number)
{
    while (f->bindings.n <= number && !m->failed)
        PUSH(m, f->bindings, (struct binding){GRAPH_NONE, 0});
}

static __attribute__((noinline)) void bind_any(struct mlir *m, uint64_t slot, uint32_t value,
                                               uint32_t n)
{
    struct family *f = slot >> 32 ? &m->families[(slot >> 32) - 1] : NULL;
    bool forgotten = f && m->scopes.n == m->function_scopes; /* by mlir_function_end */
    uint32_t number = (uint32_t)slot;
    if (f && number >= f->bindings.n)
        family_widen(m, f, number);
    if (m->failed || !MLIR_EXPECT(m, f || number < m->named_bindings.n))
        return;
    struct binding *b = f ? &f->bindings.at[number] : &m->named_bindings.at[number];
    if (b->n && b->value >= (m->scopes.n ? m->scopes.at[m->scopes.n - 1].first : 0))
        mlir_malformed(m, "a name that has a value already");
    if (!forgotten)
        PUSH(m, m->undo, (struct undo){slot, *b});
    *b = (struct binding){value, n};
}

void mlir_bind(struct mlir *m, uint64_t slot, uint32_t value, uint32_t n)
{
    uint32_t number = (uint32_t)slot;
    if (slot >> 32 && m->scopes.n == m->function_scopes) {
        struct family *f = &m->families[(slot >> 32) - 1];
        if (number == f->bindings.n && number < f->bindings.cap) { /* the next number */
            f->bindings.at[f->bindings.n++] = (struct binding){value, n};
            return;
        }
    }
    bind_any(m, slot, value, n);
}

void mlir_unbind_to(struct mlir *m, uint32_t mark)
{
    while (m->undo.n > mark) {
        struct undo u = m->undo.at[--m->undo.n];
        struct binding *b = binding_of(m, u.slot);
        if (MLIR_EXPECT(m, b)) /* a slot that was bound stays */
            *b = u.was;
    }
}

void mlir_function_begin(struct mlir *m)
{
    m->function_scopes = m->scopes.n;
    for (uint32_t i = 0; i < m->n_families; i++)
        if (m->families[i].bindings.n)
            m->function_scopes = 0; /* the module's own level has names, which must stay */
}

void mlir_function_end(struct mlir *m, uint32_t mark)
{
    mlir_unbind_to(m, mark);
    for (uint32_t i = 0; m->function_scopes && i < m->n_families; i++)
        m->families[i].bindings.n = 0;
    m->function_scopes = 0;
}

uint32_t mlir_value_find(struct mlir *m, struct slice *s)
{
    const char *p = s->at, *end = s->end;
    const struct binding *b = NULL;
    uint32_t family, number, index = 0;
    const char *behind = slot_at_once(m, p, end, &family, &number);
    if (!behind) {
        struct slice word = *s;
        b = binding_of(m, slot_of_word(m, &word, false));
        behind = word.at;
    } else if (number < m->families[family].bindings.n) {
        b = &m->families[family].bindings.at[number];
    }
    p = behind;
    if (p < end && *p == '#' && end - p > 1 && p[1] >= '0' && p[1] <= '9') {
        p++;
        while (p < end && *p >= '0' && *p <= '9' && index < 100000000)
            index = index * 10 + (uint32_t)(*p++ - '0');
    }
    s->at = p;
    return b && index < b->n ? b->value + index : GRAPH_NONE;
}

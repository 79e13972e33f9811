/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_names.c - which value a name stands for. Any thread; no state.
 *
 * Names are mostly a word and a number: %12, %arg3, %cst_7, or a bare word: %cst. Those of one word
 * are a family: their bindings lie side by side by number, found without hashing. Other names (odd
 * numbers, the 25th family) have a number in `named`. A slot says which binding:
 *
 *     family + 1 << 32 | number + 1        0 for the bare word
 *     index into named_bindings            upper half 0
 *
 * A binding holds until its scope ends: `undo` has what was there before. A function sees no name
 * from outside, so at its end all families are empty again, and its own level needs no undo.
 */
#include "keygen/mlir_internal.h"

#include <string.h>

#define DIGITS_MAX 9 /* longer numbers are hashed */

/* The family of a word: looked up where words of this look were found last, then one by one. The
 * first family is that of the empty word. */
static uint32_t family_of(struct mlir *m, struct slice word, bool make)
{
    size_t len = slice_len(word);
    if (!len)
        return 0;
    uint8_t *hint = &m->family_hints[((uint8_t)word.at[0] * 7u + (uint8_t)word.end[-1] + len * 3) %
                                     sizeof m->family_hints];
    uint32_t i = *hint;
    if (m->families[i].len == len && memcmp(m->families[i].word, word.at, len) == 0)
        return i;
    for (i = 1; i < m->n_families; i++)
        if (m->families[i].len == len && memcmp(m->families[i].word, word.at, len) == 0)
            break;
    if (i == m->n_families) {
        if (!make || len > sizeof m->families[0].word || i == FAMILIES_MAX)
            return GRAPH_NONE;
        memcpy(m->families[i].word, word.at, len);
        m->families[i].len = (uint32_t)len;
        m->n_families++;
    }
    *hint = (uint8_t)i;
    return i;
}

static uint64_t slot_by_hash(struct mlir *m, struct slice name, bool make)
{
    uint64_t hash;
    uint32_t slot = cache_find(&m->named, 0, name, &hash);
    if (slot == GRAPH_NONE && make) {
        slot = m->named_bindings.n;
        PUSH(m, m->named_bindings, (struct binding){GRAPH_NONE, 0});
        cache_add(m, &m->named, 0, name, hash, slot);
    }
    return slot;
}

static uint64_t slot_of_word(struct mlir *m, struct slice *s, bool make)
{
    const char *p = s->at, *digits = NULL;
    uint32_t number = 0;
    for (; p < s->end && slice_id_goes_on(*p); p++) {
        unsigned digit = (unsigned char)*p - (unsigned)'0';
        if (digit > 9) {
            digits = NULL;
            continue;
        }
        if (!digits) {
            digits = p;
            number = 0;
        }
        number = number * 10 + digit; /* wraps for long ones, which are not used */
    }
    struct slice name = {s->at, p}, word = {s->at, digits ? digits : p};
    s->at = p;
    if (!digits) {
        number = 0;
    } else {
        bool plain = p - digits <= DIGITS_MAX && (*digits != '0' || digits + 1 == p);
        if (!plain || number >= m->number_max)
            return slot_by_hash(m, name, make);
        number++;
    }
    uint32_t family = family_of(m, word, make);
    return family == GRAPH_NONE ? slot_by_hash(m, name, make)
                                : (uint64_t)(family + 1) << 32 | number;
}

/* A number alone is the commonest name. */
uint64_t mlir_slot(struct mlir *m, struct slice *s, bool make)
{
    const char *p = s->at, *end = s->end;
    uint32_t number = 0;
    if (end - p > DIGITS_MAX)
        end = p + DIGITS_MAX;
    for (unsigned digit; p < end && (digit = (unsigned char)*p - (unsigned)'0') <= 9; p++)
        number = number * 10 + digit;
    bool whole = p > s->at && p < end && !slice_id_goes_on(*p) && number < m->number_max &&
                 (*s->at != '0' || number == 0);
    if (!whole || (number == 0 && p - s->at > 1))
        return slot_of_word(m, s, make);
    s->at = p;
    return (uint64_t)1 << 32 | (number + 1);
}

static struct binding *binding_of(struct mlir *m, uint64_t slot)
{
    if (slot >> 32 == 0)
        return slot < m->named_bindings.n ? &m->named_bindings.at[slot] : NULL;
    struct family *f = &m->families[(slot >> 32) - 1];
    return (uint32_t)slot < f->bindings.n ? &f->bindings.at[(uint32_t)slot] : NULL;
}

void mlir_bind(struct mlir *m, uint64_t slot, uint32_t value, uint32_t n)
{
    struct family *f = slot >> 32 ? &m->families[(slot >> 32) - 1] : NULL;
    while (f && f->bindings.n <= (uint32_t)slot && !m->failed)
        PUSH(m, f->bindings, (struct binding){GRAPH_NONE, 0});
    if (m->failed)
        return;
    struct binding *b = binding_of(m, slot);
    if (!f || m->scopes.n != m->function_scopes) /* else mlir_function_end forgets it */
        PUSH(m, m->undo, (struct undo){slot, *b});
    *b = (struct binding){value, n};
}

void mlir_bind_name(struct mlir *m, struct slice name, uint32_t value)
{
    uint64_t slot = mlir_slot(m, &name, true);
    if (!m->failed)
        mlir_bind(m, slot, value, 1);
}

void mlir_unbind_to(struct mlir *m, uint32_t mark)
{
    while (m->undo.n > mark) {
        struct undo u = m->undo.at[--m->undo.n];
        *binding_of(m, u.slot) = u.was;
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
    const struct binding *b = binding_of(m, mlir_slot(m, s, false));
    uint32_t index = 0;
    if (s->end - s->at > 1 && *s->at == '#' && s->at[1] >= '0' && s->at[1] <= '9') {
        s->at++;
        while (s->at < s->end && *s->at >= '0' && *s->at <= '9' && index < 100000000)
            index = index * 10 + (uint32_t)(*s->at++ - '0');
    }
    return b && index < b->n ? b->value + index : GRAPH_NONE;
}

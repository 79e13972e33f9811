/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scopes.c - decides the meaning of a name in PTX: a register or one of a family, a label, a
 * parameter, or a symbol that counts by its name. It keeps the scopes of a function. ptx.c calls
 * it; ptx/internal.h has the contract.
 *
 * Thread: any; the state is struct ptx.
 */
#include "keygen/expect.h"
#include "keygen/ptx/internal.h"

#include <stdlib.h>

#define MAX_DIGITS 9 /* of a register's number: PTX counts registers in 32 bits */

/* --- symbols --- */

uint32_t ptx_hash_name(const char *s, uint32_t len)
{
    uint64_t h = len * 0x9e3779b97f4a7c15u, w;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    for (w = 0; len > 0; len--)
        w = w << 8 | (uint8_t)s[len - 1];
    h = (h ^ w) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h >> 32);
}

static bool wanted(enum want want, enum sym_kind kind)
{
    return want == LABELS     ? kind == LABEL
           : want == FAMILIES ? kind == FAMILY
                              : kind == REGISTER || kind == KEPT;
}

uint32_t ptx_find(const struct ptx *p, enum want want, uint32_t at, uint32_t len, uint32_t hash,
                  uint32_t depth)
{
    uint32_t found = NONE;
    if (p->n_buckets == 0)
        return NONE;
    for (uint32_t i = p->buckets[hash & (p->n_buckets - 1)]; i != NONE;
         i = p->syms[i].next_in_bucket) {
        const struct sym *s = &p->syms[i];
        if (s->hash == hash && s->len == len && wanted(want, s->kind) &&
            (depth == ANY_DEPTH || s->depth == depth) &&
            (found == NONE || s->depth > p->syms[found].depth) &&
            memcmp(p->text + s->at, p->text + at, len) == 0)
            found = i;
    }
    return found;
}

static bool grow_buckets(struct ptx *p)
{
    uint32_t n = p->n_buckets == 0 ? 256 : p->n_buckets * 2;
    uint32_t *buckets = malloc((size_t)n * sizeof *buckets);
    if (buckets == NULL) {
        ptx_fail(p, WARM_ENOMEM, 0, "no memory for its names");
        return false;
    }
    memset(buckets, 0xff, (size_t)n * sizeof *buckets);
    for (uint32_t b = 0; b < p->n_buckets; b++) {
        for (uint32_t i = p->buckets[b], next; i != NONE; i = next) {
            next = p->syms[i].next_in_bucket;
            p->syms[i].next_in_bucket = buckets[p->syms[i].hash & (n - 1)];
            buckets[p->syms[i].hash & (n - 1)] = i;
        }
    }
    free(p->buckets);
    p->buckets = buckets;
    p->n_buckets = n;
    return true;
}

static void link_sym(struct ptx *p, uint32_t i, uint32_t depth)
{
    struct sym *s = &p->syms[i];
    s->depth = depth;
    s->next_in_scope = p->scopes[depth].first;
    p->scopes[depth].first = i;
}

/* Adds a symbol to the scope at `depth`. Returns it, or NONE. */
static uint32_t add(struct ptx *p, enum sym_kind kind, uint32_t at, uint32_t len, uint32_t hash,
                    uint32_t depth)
{
    if (p->used_syms >= p->n_buckets && !grow_buckets(p))
        return NONE;
    uint32_t i = p->free_syms;
    if (i != NONE) {
        p->free_syms = p->syms[i].next_in_scope;
    } else {
        if (!ptx_grow(p, &p->syms, &p->cap_syms, p->n_syms, sizeof *p->syms))
            return NONE;
        i = p->n_syms++;
    }
    uint32_t *bucket = &p->buckets[hash & (p->n_buckets - 1)];
    p->syms[i] = (struct sym){at, len, hash, *bucket, NONE, depth, NONE, NONE, 0, kind};
    *bucket = i;
    link_sym(p, i, depth);
    p->used_syms++;
    return i;
}

static void forget(struct ptx *p, uint32_t i)
{
    uint32_t *link = &p->buckets[p->syms[i].hash & (p->n_buckets - 1)];
    while (*link != i && WARM_EXPECT(*link != NONE))
        link = &p->syms[*link].next_in_bucket;
    *link = p->syms[i].next_in_bucket;
    p->syms[i].next_in_scope = p->free_syms;
    p->free_syms = i;
    p->used_syms--;
}

/* --- labels --- */

uint32_t ptx_entity_of(struct ptx *p, uint32_t i)
{
    while (i != NONE && p->entities[i].alias != NONE)
        i = p->entities[i].alias;
    return i;
}

/* Returns the entity of a label symbol. Adds the entity at the first reference. */
static uint32_t ptx_need_entity(struct ptx *p, uint32_t sym)
{
    struct sym *s = &p->syms[sym];
    if (s->id != NONE)
        return s->id;
    if (!ptx_grow(p, &p->entities, &p->cap_entities, p->n_entities, sizeof *p->entities))
        return NONE;
    p->entities[p->n_entities] =
        (struct entity){.alias = NONE, .statement = s->more, .at = s->at, .len = s->len};
    s->id = p->n_entities++;
    return s->id;
}

uint32_t ptx_refer(struct ptx *p, struct token t, uint32_t hash)
{
    uint32_t i = ptx_find(p, LABELS, t.at, t.len, hash, p->depth);
    if (i == NONE)
        i = add(p, LABEL, t.at, t.len, hash, p->depth);
    return i == NONE ? NONE : ptx_need_entity(p, i);
}

/* True for $L__tmp12, $L__func_begin0 and the like. LLVM and NVVM put them for a .loc or a debug
 * section. */
static bool is_debug_label(const char *name, uint32_t len)
{
    static const char *const prefixes[] = {"$L__tmp", "$L__func_begin", "$L__func_end",
                                           "Ltmp",    "Lfunc_begin",    "Lfunc_end"};
    while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (len == strlen(prefixes[i]) && memcmp(name, prefixes[i], len) == 0)
            return true;
    return false;
}

/* Defines a label. One without references changes no result of the code. But it ends a basic block, and ptxas
 * may then order instructions differently. So it counts, without its name. A label for debug
 * information does not count: the form drops it with that information. */
void ptx_define_label(struct ptx *p, struct token t)
{
    uint32_t hash = ptx_hash_name(p->text + t.at, t.len);
    uint32_t i = ptx_find(p, LABELS, t.at, t.len, hash, p->depth);

    if (i == NONE)
        i = add(p, LABEL, t.at, t.len, hash, p->depth);
    if (i == NONE)
        return;
    if (p->syms[i].more != NONE) {
        ptx_give_up(p, "a label stands twice in one block");
        return;
    }
    p->syms[i].more = p->n_statements;
    bool stands = !is_debug_label(p->text + t.at, t.len);
    uint32_t entity = stands ? ptx_need_entity(p, i) : p->syms[i].id;
    if (entity != NONE) {
        p->entities[entity].statement = p->n_statements;
        p->entities[entity].stands = stands;
    }
}

/* Moves a label reference that its block did not resolve to the block around it. */
static void move_out(struct ptx *p, uint32_t i)
{
    struct sym *s = &p->syms[i];
    uint32_t outer = ptx_find(p, LABELS, s->at, s->len, s->hash, s->depth - 1);
    if (outer == NONE) {
        link_sym(p, i, s->depth - 1);
        return;
    }
    uint32_t entity = s->id;
    forget(p, i);
    uint32_t target = ptx_need_entity(p, outer);
    if (target != NONE)
        p->entities[entity].alias = target;
}

/* --- scopes --- */

void ptx_open_scope(struct ptx *p)
{
    if (!ptx_grow(p, &p->scopes, &p->cap_scopes, p->depth + 1, sizeof *p->scopes))
        return;
    p->scopes[++p->depth].first = NONE;
}

void ptx_close_scope(struct ptx *p)
{
    if (!WARM_EXPECT(p->depth > 0))
        return;
    for (uint32_t i = p->scopes[p->depth].first, next; i != NONE; i = next) {
        struct sym *s = &p->syms[i];
        next = s->next_in_scope;
        if (s->kind == LABEL && s->more == NONE && p->depth > 1)
            move_out(p, i);
        else
            forget(p, i);
    }
    p->depth--;
    if (p->family_depth > p->depth)
        p->family_depth = p->depth;
}

/* --- names --- */

uint32_t ptx_declare(struct ptx *p, enum sym_kind kind, struct token t)
{
    uint32_t hash = ptx_hash_name(p->text + t.at, t.len);
    if (ptx_find(p, kind == FAMILY ? FAMILIES : DECLARED, t.at, t.len, hash, p->depth) != NONE) {
        ptx_give_up(p, "a name is declared twice in one block");
        return NONE;
    }
    return add(p, kind, t.at, t.len, hash, p->depth);
}

uint32_t ptx_find_in_family(struct ptx *p, struct token t, uint32_t hash, uint32_t above)
{
    const char *s = p->text + t.at;
    uint32_t family = NONE;
    uint64_t number = 0, scale = 1;

    for (uint32_t digits = 1; digits <= MAX_DIGITS && digits < t.len; digits++, scale *= 10) {
        char c = s[t.len - digits];
        if (c < '0' || c > '9')
            break;
        number += (uint64_t)(c - '0') * scale;
        if (c == '0' && digits > 1) /* no leading zeros */
            continue;
        uint32_t len = t.len - digits;
        uint32_t i = ptx_find(p, FAMILIES, t.at, len, ptx_hash_name(s, len), ANY_DEPTH);
        if (i != NONE && number < p->syms[i].count && p->syms[i].depth >= above &&
            (family == NONE || p->syms[i].depth > p->syms[family].depth))
            family = i;
    }
    if (family == NONE)
        return NONE;
    uint32_t made = add(p, REGISTER, t.at, t.len, hash, p->syms[family].depth);
    if (made != NONE)
        p->syms[made].more = p->syms[family].more;
    return made;
}

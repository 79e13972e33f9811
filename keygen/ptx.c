/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx.c - the canonical form of PTX assembly (KEYS.md, "PTX").
 *
 * Owner: nobody; no state. Thread: any.
 *
 * One pass over the tokens. Comments, .file, .loc and debug sections go. In a function, registers
 * and parameters are numbered by first appearance, a register with its type where it first stands,
 * so that declarations go too; labels become numbers, and where they stand is told at the end of
 * the function:
 *
 *     $L__BB0_1:                       add.s32 #3<.b32>,#1,#2;
 *       add.s32 %r9, %r7, %r8;    ─▶   @#4<.pred> bra #L0;
 *       @%p1 bra $L__BB0_1;            label #L0 7         (before statement 7)
 *
 * '#' is in no name of PTX. Other names stay. What is not understood makes the whole text exact.
 *
 * Blocks { } have scopes. A symbol lives in the scope that declares it, a label reference first in
 * the scope where it stands; when that closes without the label, the reference moves outwards.
 */
#include <stdlib.h>
#include <string.h>

#include "keygen/forms.h"

#define NONE UINT32_MAX
#define MAX_DIGITS 9 /* of a register's number: PTX counts them in 32 bits */

enum token_kind { END, NAME, DOT_WORD, NUMBER, STRING, MARK };

struct token {
    enum token_kind kind;
    uint32_t at, len;
    bool glued; /* no white space before it */
};

/* What a name stands for. */
enum sym_kind {
    REGISTER, /* printed as a number */
    FAMILY,   /* %r<10>: the prefix of registers */
    KEPT,     /* declared here, printed as it is */
    LABEL,    /* defined or referred to */
};

struct sym {
    uint32_t at, len, hash;
    uint32_t next_in_bucket, next_in_scope;
    uint32_t depth;
    uint32_t id;   /* REGISTER: its number, or NONE before it appears. LABEL: its entity, or NONE */
    uint32_t more; /* REGISTER, FAMILY: where its type stands. LABEL: the statement, or NONE */
    uint32_t count; /* FAMILY: how many */
    enum sym_kind kind;
};

/* A label, if it is not one of debug information alone. */
struct entity {
    uint32_t alias;     /* the entity that it turned out to be, or NONE */
    uint32_t statement; /* where the label stands, or NONE */
    uint32_t at, len;   /* its name */
    bool numbered;      /* a branch refers to it */
    bool named;         /* something else does, by name */
    bool stands;        /* counts even if nothing refers to it */
};

struct scope {
    uint32_t first; /* symbol */
};

struct ptx {
    const char *text;
    uint32_t len, at;
    struct form *out;
    struct err *e;
    int rc;

    struct sym *syms;
    uint32_t n_syms, cap_syms, free_syms, used_syms;
    uint32_t *buckets;
    uint32_t n_buckets; /* a power of two */
    struct scope *scopes;
    uint32_t depth, cap_scopes; /* depth 0: the module; 1: a function and its parameters */
    uint32_t family_depth;      /* no family is declared deeper than this */
    struct entity *entities;
    uint32_t n_entities, cap_entities;
    uint32_t n_registers;  /* numbered so far in this function */
    uint32_t n_statements; /* put so far in this function */

    char last; /* what was put last: 'w' a word, a mark, '\n', or 0 */
    uint32_t statement_at;
};

/* --- failing --- */

static void fail(struct ptx *p, int code, uint32_t at, const char *what)
{
    unsigned line = 1, column = 1;
    if (p->rc < 0)
        return;
    p->rc = code;
    for (uint32_t i = 0; i < at && i < p->len; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    err_set(p->e, code, "PTX: %s", what);
    if (p->e != NULL) {
        p->e->line = line;
        p->e->column = column;
    }
}

/* Not all of it is understood: the exact text is the form. */
static void give_up(struct ptx *p, const char *why)
{
    if (p->rc < 0)
        return;
    p->rc = WARM_EUNSUPPORTED;
    p->out->why_exact = why;
}

/* Room for one more in an array of `size`-byte elements. */
static bool grow(struct ptx *p, void **array, uint32_t *cap, uint32_t n, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap == 0 ? 64 : *cap + *cap / 2;
    void *moved = more > *cap ? realloc(*array, (size_t)more * size) : NULL;
    if (moved == NULL) {
        fail(p, WARM_ENOMEM, 0, "no memory for its names");
        return false;
    }
    *array = moved;
    *cap = more;
    return true;
}

/* --- tokens --- */

enum class { C_MARK, C_NAME, C_DIGIT, C_SPACE, C_DOT, C_STRING, C_SLASH, C_BAD };

#define N8 C_NAME, C_NAME, C_NAME, C_NAME, C_NAME, C_NAME, C_NAME, C_NAME
#define B8 C_BAD, C_BAD, C_BAD, C_BAD, C_BAD, C_BAD, C_BAD, C_BAD
static const uint8_t classes[256] = {
    B8,       C_BAD,
    C_SPACE,  C_SPACE,
    C_SPACE,  C_SPACE,
    C_SPACE,  C_BAD,
    C_BAD,    B8,
    B8, /* 0x00 */
    C_SPACE,  C_MARK,
    C_STRING, C_BAD /* # */,
    C_NAME,   C_NAME /* % */,
    C_MARK,   C_BAD, /* 0x20 */
    C_MARK,   C_MARK,
    C_MARK,   C_MARK,
    C_MARK,   C_MARK,
    C_DOT,    C_SLASH,
    C_DIGIT,  C_DIGIT,
    C_DIGIT,  C_DIGIT,
    C_DIGIT,  C_DIGIT,
    C_DIGIT,  C_DIGIT, /* 0x30 */
    C_DIGIT,  C_DIGIT,
    C_MARK,   C_MARK,
    C_MARK,   C_MARK,
    C_MARK,   C_MARK,
    C_MARK,   C_NAME,
    C_NAME,   C_NAME,
    C_NAME,   C_NAME,
    C_NAME,   C_NAME,
    N8,       N8, /* 0x40 */
    C_NAME,   C_NAME,
    C_NAME,   C_MARK,
    C_BAD,    C_MARK,
    C_MARK,   C_NAME,
    C_BAD,    C_NAME,
    C_NAME,   C_NAME,
    C_NAME,   C_NAME,
    C_NAME,   C_NAME,
    N8,       N8, /* 0x60 */
    C_NAME,   C_NAME,
    C_NAME,   C_MARK,
    C_MARK,   C_MARK,
    C_MARK,   C_BAD,
    B8,       B8,
    B8,       B8,
    B8,       B8,
    B8,       B8,
    B8,       B8,
    B8,       B8,
    B8,       B8,
    B8,       B8, /* 0x80 */
};

static enum class class_of(const struct ptx *p, uint32_t at) {
    return at < p->len ? (enum class)classes[(uint8_t)p->text[at]] : C_SPACE;
}

/* At a '/': true if it began a comment, which is then skipped. */
static bool skip_comment(struct ptx *p)
{
    const char *from = p->text + p->at, *end = p->text + p->len;
    if (end - from < 2)
        return false;
    if (from[1] == '/') {
        const char *nl = memchr(from, '\n', (size_t)(end - from));
        p->at = (uint32_t)((nl != NULL ? nl : end) - p->text);
        return true;
    }
    if (from[1] != '*')
        return false;
    const char *close = memmem(from + 2, (size_t)(end - from - 2), "*/", 2);
    if (close == NULL)
        fail(p, WARM_ETRUNCATED, p->at, "a comment is not closed");
    p->at = close != NULL ? (uint32_t)(close + 2 - p->text) : p->len;
    return true;
}

static void skip_blanks(struct ptx *p)
{
    for (;;) {
        while (p->at < p->len && classes[(uint8_t)p->text[p->at]] == C_SPACE)
            p->at++;
        if (p->at == p->len || p->text[p->at] != '/' || !skip_comment(p))
            return;
    }
}

/* The end of a name, a number or a word that begins with a dot. */
static uint32_t word_end(const struct ptx *p, uint32_t at, bool dots, bool colons)
{
    for (;;) {
        enum class c = class_of(p, at);
        if (c == C_NAME || c == C_DIGIT || (dots && c == C_DOT))
            at++;
        else if (colons && at + 2 < p->len && p->text[at] == ':' && p->text[at + 1] == ':')
            at += 2;
        else
            return at;
    }
}

static uint32_t string_end(struct ptx *p, uint32_t at)
{
    uint32_t begin = at++;
    while (at < p->len && p->text[at] != '"')
        at += p->text[at] == '\\' ? 2 : 1;
    if (at >= p->len) {
        fail(p, WARM_ETRUNCATED, begin, "a string is not closed");
        return p->len;
    }
    return at + 1;
}

static struct token next_token(struct ptx *p)
{
    uint32_t before = p->at;
    skip_blanks(p);
    struct token t = {END, p->at, 0, p->at == before};
    if (p->at == p->len || p->rc < 0)
        return t;
    uint32_t end = p->at + 1;
    switch (class_of(p, p->at)) {
    case C_NAME:
        t.kind = NAME;
        end = word_end(p, end, false, false);
        break;
    case C_DIGIT:
        t.kind = NUMBER;
        end = word_end(p, end, true, false);
        break;
    case C_DOT:
        t.kind = class_of(p, end) == C_DIGIT ? NUMBER : DOT_WORD;
        end = word_end(p, end, false, true);
        break;
    case C_STRING:
        t.kind = STRING;
        end = string_end(p, p->at);
        break;
    case C_BAD: give_up(p, "characters that PTX does not have"); return t;
    default: t.kind = MARK; break;
    }
    t.len = end - p->at;
    p->at = end;
    return t;
}

static struct token peek_token(struct ptx *p)
{
    uint32_t at = p->at;
    struct token t = next_token(p);
    p->at = at;
    return t;
}

static bool token_is(const struct ptx *p, struct token t, const char *text)
{
    size_t len = strlen(text);
    return t.len == len && memcmp(p->text + t.at, text, len) == 0;
}

static bool is_mark(const struct ptx *p, struct token t, char c)
{
    return t.kind == MARK && p->text[t.at] == c;
}

/* --- putting --- */

static bool is_operator(char c) { return memchr("<>=&|!+-*/^~?", c, 13) != NULL; }

/* White space counts between two words, and between marks that could make one. */
static void put_gap(struct ptx *p, struct token t)
{
    bool word = t.kind != MARK && t.kind != STRING;
    if (word && p->last == 'w' && !(t.kind == DOT_WORD && t.glued))
        form_put(p->out, " ", 1);
    else if (t.kind == MARK && !t.glued && is_operator(p->last) && is_operator(p->text[t.at]))
        form_put(p->out, " ", 1);
    p->last = word ? 'w' : p->text[t.at];
}

static void put_token(struct ptx *p, struct token t)
{
    put_gap(p, t);
    form_put(p->out, p->text + t.at, t.len);
}

static void put_line_end(struct ptx *p)
{
    form_put(p->out, "\n", 1);
    p->last = '\n';
}

static void put_register(struct ptx *p, struct token t, struct sym *s)
{
    put_gap(p, t);
    form_put(p->out, "#", 1);
    if (s->id != NONE) {
        form_put_u64(p->out, s->id);
        return;
    }
    s->id = p->n_registers++;
    form_put_u64(p->out, s->id);
    if (s->more == NONE) /* a parameter: its type stands before it */
        return;
    form_put(p->out, "<", 1);
    uint32_t back = p->at;
    p->at = s->more;
    for (struct token type = next_token(p); type.kind == DOT_WORD; type = next_token(p))
        form_put(p->out, p->text + type.at, type.len);
    p->at = back;
    if (s->depth != p->depth) { /* declared outside this block */
        form_put(p->out, "^", 1);
        form_put_u64(p->out, p->depth - s->depth);
    }
    form_put(p->out, ">", 1);
}

/* --- symbols --- */

static uint32_t hash_name(const char *s, uint32_t len)
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

/* The innermost symbol of this name that is, or is not, of a kind; at `depth` only, unless ANY. */
#define ANY_DEPTH UINT32_MAX
enum want { DECLARED, FAMILIES, LABELS };

static bool wanted(enum want want, enum sym_kind kind)
{
    return want == LABELS     ? kind == LABEL
           : want == FAMILIES ? kind == FAMILY
                              : kind == REGISTER || kind == KEPT;
}

static uint32_t find(const struct ptx *p, enum want want, uint32_t at, uint32_t len, uint32_t hash,
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
        fail(p, WARM_ENOMEM, 0, "no memory for its names");
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

/* A new symbol in the scope at `depth`, or NONE. */
static uint32_t add(struct ptx *p, enum sym_kind kind, uint32_t at, uint32_t len, uint32_t hash,
                    uint32_t depth)
{
    if (p->used_syms >= p->n_buckets && !grow_buckets(p))
        return NONE;
    uint32_t i = p->free_syms;
    if (i != NONE) {
        p->free_syms = p->syms[i].next_in_scope;
    } else {
        void *syms = p->syms;
        if (!grow(p, &syms, &p->cap_syms, p->n_syms, sizeof *p->syms))
            return NONE;
        p->syms = syms;
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
    while (*link != i)
        link = &p->syms[*link].next_in_bucket;
    *link = p->syms[i].next_in_bucket;
    p->syms[i].next_in_scope = p->free_syms;
    p->free_syms = i;
    p->used_syms--;
}

/* --- labels --- */

static uint32_t entity_of(struct ptx *p, uint32_t i)
{
    while (i != NONE && p->entities[i].alias != NONE)
        i = p->entities[i].alias;
    return i;
}

/* The entity of a label symbol, made when it is first referred to. */
static uint32_t need_entity(struct ptx *p, uint32_t sym)
{
    struct sym *s = &p->syms[sym];
    if (s->id != NONE)
        return s->id;
    void *entities = p->entities;
    if (!grow(p, &entities, &p->cap_entities, p->n_entities, sizeof *p->entities))
        return NONE;
    p->entities = entities;
    p->entities[p->n_entities] =
        (struct entity){.alias = NONE, .statement = s->more, .at = s->at, .len = s->len};
    s->id = p->n_entities++;
    return s->id;
}

/* A reference from here to what may be a label, now or further down. */
static uint32_t refer(struct ptx *p, struct token t, uint32_t hash)
{
    uint32_t i = find(p, LABELS, t.at, t.len, hash, p->depth);
    if (i == NONE)
        i = add(p, LABEL, t.at, t.len, hash, p->depth);
    return i == NONE ? NONE : need_entity(p, i);
}

/* $L__tmp12, $L__func_begin0 and the like, which LLVM and NVVM put where a .loc or a debug section
 * wants them. */
static bool is_debug_label(const char *name, uint32_t len)
{
    static const char *const prefixes[] = {"$L__tmp", "$L__func_begin", "$L__func_end",
                                           "Ltmp",    "Lfunc_begin",    "Lfunc_end"};
    while (len > 0 && classes[(uint8_t)name[len - 1]] == C_DIGIT)
        len--;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (len == strlen(prefixes[i]) && memcmp(name, prefixes[i], len) == 0)
            return true;
    return false;
}

/* A label without references changes nothing that the code computes, but it ends a basic block, and
 * ptxas may order instructions otherwise. So it counts, nameless, unless it is there for debug
 * information that is dropped with it. */
static void define_label(struct ptx *p, struct token t)
{
    uint32_t hash = hash_name(p->text + t.at, t.len);
    uint32_t i = find(p, LABELS, t.at, t.len, hash, p->depth);

    if (i == NONE)
        i = add(p, LABEL, t.at, t.len, hash, p->depth);
    if (i == NONE)
        return;
    if (p->syms[i].more != NONE) {
        give_up(p, "a label stands twice in one block");
        return;
    }
    p->syms[i].more = p->n_statements;
    bool stands = !is_debug_label(p->text + t.at, t.len);
    uint32_t entity = stands ? need_entity(p, i) : p->syms[i].id;
    if (entity != NONE) {
        p->entities[entity].statement = p->n_statements;
        p->entities[entity].stands = stands;
    }
}

/* A label reference that its block did not resolve is one of the block around it. */
static void move_out(struct ptx *p, uint32_t i)
{
    struct sym *s = &p->syms[i];
    uint32_t outer = find(p, LABELS, s->at, s->len, s->hash, s->depth - 1);
    if (outer == NONE) {
        link_sym(p, i, s->depth - 1);
        return;
    }
    uint32_t entity = s->id;
    forget(p, i);
    uint32_t target = need_entity(p, outer);
    if (target != NONE)
        p->entities[entity].alias = target;
}

static void put_labels(struct ptx *p)
{
    for (uint32_t i = 0; i < p->n_entities; i++) {
        struct entity *o = &p->entities[i], *to = &p->entities[entity_of(p, i)];
        if (o->alias != NONE) /* what leads on leads straight: chains stay short */
            o->alias = entity_of(p, i);
        bool defined = to->statement != NONE;
        if (!o->numbered && !o->stands && !(o->named && defined))
            continue;
        form_put_text(p->out, "label");
        if (o->numbered) {
            form_put_text(p->out, " #L");
            form_put_u64(p->out, i);
        }
        if (o->named || !defined) { /* the name is said where it is used */
            form_put(p->out, " ", 1);
            form_put(p->out, p->text + o->at, o->len);
        }
        if (defined) {
            form_put(p->out, " ", 1);
            form_put_u64(p->out, to->statement);
        }
        put_line_end(p);
    }
}

/* --- scopes --- */

static void open_scope(struct ptx *p)
{
    void *scopes = p->scopes;
    if (!grow(p, &scopes, &p->cap_scopes, p->depth + 1, sizeof *p->scopes))
        return;
    p->scopes = scopes;
    p->scopes[++p->depth].first = NONE;
}

static void close_scope(struct ptx *p)
{
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

static uint32_t declare(struct ptx *p, enum sym_kind kind, struct token t)
{
    uint32_t hash = hash_name(p->text + t.at, t.len);
    if (find(p, kind == FAMILY ? FAMILIES : DECLARED, t.at, t.len, hash, p->depth) != NONE) {
        give_up(p, "a name is declared twice in one block");
        return NONE;
    }
    return add(p, kind, t.at, t.len, hash, p->depth);
}

/* The register `t` of a family such as %r<10>, made when it first appears. */
static uint32_t find_in_family(struct ptx *p, struct token t, uint32_t hash, uint32_t above)
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
        uint32_t i = find(p, FAMILIES, t.at, len, hash_name(s, len), ANY_DEPTH);
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

static void put_name(struct ptx *p, struct token t, bool is_branch)
{
    uint32_t hash = hash_name(p->text + t.at, t.len);
    uint32_t i = find(p, DECLARED, t.at, t.len, hash, ANY_DEPTH);

    if (i == NONE || p->syms[i].depth < p->family_depth) {
        uint32_t member = find_in_family(p, t, hash, i == NONE ? 0 : p->syms[i].depth + 1);
        i = member != NONE ? member : i;
    }
    if (i != NONE && p->syms[i].kind == REGISTER) {
        put_register(p, t, &p->syms[i]);
        return;
    }
    if (i == NONE) {
        uint32_t entity = refer(p, t, hash);
        if (entity == NONE)
            return;
        if (is_branch) {
            p->entities[entity].numbered = true;
            put_gap(p, t);
            form_put(p->out, "#L", 2);
            form_put_u64(p->out, entity);
            return;
        }
        p->entities[entity].named = true;
    }
    put_token(p, t);
}

/* --- what goes: .loc, .file, debug sections --- */

static bool skip_numbers(struct ptx *p, int n)
{
    for (int i = 0; i < n; i++)
        if (next_token(p).kind != NUMBER)
            return false;
    return true;
}

/* .loc FILE LINE COLUMN [, function_name LABEL [+ N], inlined_at FILE LINE COLUMN] */
static void skip_loc(struct ptx *p)
{
    bool good = skip_numbers(p, 3);
    if (good && is_mark(p, peek_token(p), ',')) {
        next_token(p);
        good = token_is(p, next_token(p), "function_name") && next_token(p).kind == NAME;
        if (good && is_mark(p, peek_token(p), '+')) {
            next_token(p);
            good = skip_numbers(p, 1);
        }
        good = good && is_mark(p, next_token(p), ',') && token_is(p, next_token(p), "inlined_at") &&
               skip_numbers(p, 3);
    }
    if (!good)
        give_up(p, "a .loc that is not understood");
}

/* .file N "NAME" [, TIME, SIZE] */
static void skip_file(struct ptx *p)
{
    bool good = skip_numbers(p, 1) && next_token(p).kind == STRING;
    for (int i = 0; i < 2 && good && is_mark(p, peek_token(p), ','); i++) {
        next_token(p);
        good = skip_numbers(p, 1);
    }
    if (!good)
        give_up(p, "a .file that is not understood");
}

/* .section .debug_NAME { ... }, where the braces hold only data. */
static void skip_section(struct ptx *p)
{
    struct token name = next_token(p), t = next_token(p);
    uint32_t begin = name.at;

    if (name.kind != DOT_WORD || name.len < 7 || memcmp(p->text + name.at, ".debug_", 7) != 0 ||
        !is_mark(p, t, '{')) {
        give_up(p, "a section that is not debug information");
        return;
    }
    do {
        t = next_token(p);
        if (is_mark(p, t, '{'))
            give_up(p, "a debug section that is not understood");
    } while (t.kind != END && !is_mark(p, t, '}'));
    if (t.kind == END)
        fail(p, WARM_ETRUNCATED, begin, "a section is not closed");
}

/* --- functions --- */

/* In decimal: 010 would be 8. */
static bool read_count(const struct ptx *p, struct token n, uint64_t *out)
{
    if (n.kind != NUMBER || n.len > 10 || (n.len > 1 && p->text[n.at] == '0'))
        return false;
    *out = 0;
    for (uint32_t i = 0; i < n.len; i++) {
        if (p->text[n.at + i] < '0' || p->text[n.at + i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(p->text[n.at + i] - '0');
    }
    return true;
}

/* .reg TYPE NAME[<N>] {, NAME[<N>]}; nothing is put: each register brings its type along. */
static void take_registers(struct ptx *p)
{
    uint32_t type = p->at;
    struct token t = next_token(p);

    while (t.kind == DOT_WORD)
        t = next_token(p);
    for (;; t = next_token(p)) {
        struct token after = next_token(p);
        if (t.kind != NAME)
            break;
        bool family = is_mark(p, after, '<');
        uint32_t i = declare(p, family ? FAMILY : REGISTER, t);
        if (i == NONE)
            return;
        p->syms[i].more = type;
        if (family) {
            struct token n = next_token(p);
            uint64_t count = 0;
            if (!read_count(p, n, &count) || !is_mark(p, next_token(p), '>'))
                break;
            p->syms[i].count = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
            p->family_depth = p->depth;
            after = next_token(p);
        }
        if (is_mark(p, after, ';'))
            return;
        if (!is_mark(p, after, ','))
            break;
    }
    give_up(p, "a register declaration that is not understood");
}

static void end_statement(struct ptx *p)
{
    put_line_end(p);
    p->n_statements++;
}

/* .param, .shared, .local, ... in a block. Parameters are numbered; the names of memory stay, since
 * they stand in the symbol table. */
static void put_variables(struct ptx *p, struct token t)
{
    bool is_param = token_is(p, t, ".param");
    bool in_value = false;

    for (; t.kind != END; t = next_token(p)) {
        if (t.kind == NAME && !in_value) {
            uint32_t i = declare(p, is_param ? REGISTER : KEPT, t);
            if (i == NONE)
                return;
            if (is_param)
                put_register(p, t, &p->syms[i]);
            else
                put_token(p, t);
            if (is_mark(p, peek_token(p), '<'))
                give_up(p, "variables that are declared by number");
            continue;
        }
        if (t.kind == NAME) {
            put_name(p, t, false);
            continue;
        }
        in_value |= is_mark(p, t, '=');
        put_token(p, t);
        if (is_mark(p, t, ';')) {
            end_statement(p);
            return;
        }
    }
}

/* The rest of a statement, up to its ';'. */
static void put_operands(struct ptx *p, bool is_branch)
{
    for (struct token t = next_token(p); t.kind != END; t = next_token(p)) {
        if (t.kind == NAME) {
            put_name(p, t, is_branch);
            continue;
        }
        put_token(p, t);
        if (is_mark(p, t, ';')) {
            end_statement(p);
            return;
        }
    }
}

/* [@[!]p] opcode operands; */
static void put_instruction(struct ptx *p, struct token t)
{
    if (is_mark(p, t, '@')) {
        put_token(p, t);
        t = next_token(p);
        if (is_mark(p, t, '!')) {
            put_token(p, t);
            t = next_token(p);
        }
        if (t.kind != NAME) {
            give_up(p, "a guard that is not understood");
            return;
        }
        put_name(p, t, false);
        t = next_token(p);
    }
    if (t.kind != NAME) {
        give_up(p, "a statement that is not understood");
        return;
    }
    put_token(p, t);
    put_operands(p, token_is(p, t, "bra") || token_is(p, t, "brx"));
}

static void put_directive(struct ptx *p, struct token t)
{
    static const char *const memory[] = {".param", ".local", ".shared", ".global", ".const"};

    if (token_is(p, t, ".loc")) {
        skip_loc(p);
        return;
    }
    if (token_is(p, t, ".file")) {
        skip_file(p);
        return;
    }
    if (token_is(p, t, ".reg")) {
        take_registers(p);
        return;
    }
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        if (token_is(p, t, memory[i])) {
            put_variables(p, t);
            return;
        }
    }
    put_token(p, t);
    put_operands(p, token_is(p, t, ".branchtargets"));
}

/* A name and a single ':' at a statement's beginning. */
static bool take_label(struct ptx *p, struct token t)
{
    if (t.kind != NAME)
        return false;
    struct token colon = peek_token(p);
    if (!is_mark(p, colon, ':'))
        return false;
    next_token(p);
    define_label(p, t);
    return true;
}

static void put_brace(struct ptx *p, struct token t)
{
    if (is_mark(p, t, '{'))
        open_scope(p);
    put_token(p, t);
    end_statement(p);
}

/* From behind a function's '{' to its '}'. */
static void put_body(struct ptx *p)
{
    uint32_t outside = p->depth, begin = p->at;
    open_scope(p);
    while (p->rc == 0) {
        struct token t = next_token(p);
        if (t.kind == END) {
            fail(p, WARM_ETRUNCATED, begin, "a function is not closed");
        } else if (is_mark(p, t, '}')) {
            close_scope(p);
            put_brace(p, t);
            if (p->depth == outside)
                return;
        } else if (is_mark(p, t, '{')) {
            put_brace(p, t);
        } else if (t.kind == DOT_WORD) {
            put_directive(p, t);
        } else if (!take_label(p, t)) {
            put_instruction(p, t);
        }
    }
}

/* From behind .entry or .func to the end of the function or of its prototype. What is declared in
 * parentheses is a parameter; other names stay. */
static void put_function(struct ptx *p)
{
    int parens = 0;
    bool declares = false;

    p->n_registers = p->n_statements = p->n_entities = 0;
    open_scope(p);
    for (struct token t = next_token(p); p->rc == 0; t = next_token(p)) {
        if (t.kind == END) {
            fail(p, WARM_ETRUNCATED, p->at, "a function has no end");
            return;
        }
        parens += is_mark(p, t, '(') - is_mark(p, t, ')');
        if (is_mark(p, t, '(') || is_mark(p, t, ',') || is_mark(p, t, ')'))
            declares = false;
        declares |= parens > 0 && (token_is(p, t, ".param") || token_is(p, t, ".reg"));
        if (t.kind == NAME && declares && !token_is(p, t, "_")) {
            uint32_t i = declare(p, REGISTER, t);
            if (i != NONE)
                put_register(p, t, &p->syms[i]);
            continue;
        }
        if (is_mark(p, t, '{') && parens == 0) {
            put_line_end(p);
            put_token(p, t);
            put_line_end(p);
            put_body(p);
            break;
        }
        put_token(p, t);
        if (is_mark(p, t, ';')) {
            put_line_end(p);
            break;
        }
    }
    if (p->rc == 0)
        close_scope(p);
    if (p->rc == 0)
        put_labels(p);
}

/* --- the module --- */

/* ptxas looks for .version before it reads anything: its number stands behind blanks, not behind a
 * comment or a line's end. */
static bool is_version_line(const struct ptx *p)
{
    uint32_t at = p->at;
    while (at < p->len && (p->text[at] == ' ' || p->text[at] == '\t'))
        at++;
    return class_of(p, at) == C_DIGIT;
}

/* .version N, .target A {, B}, .address_size N: they end with what they are given. */
static bool put_header(struct ptx *p, struct token t)
{
    bool target = token_is(p, t, ".target"), version = token_is(p, t, ".version");
    if (!target && !version && !token_is(p, t, ".address_size"))
        return false;
    if (version && !is_version_line(p))
        give_up(p, "a .version that ptxas does not find");
    do {
        put_token(p, t);
        t = next_token(p);
        if (token_is(p, t, "debug"))
            give_up(p, "the target asks for debug output, which shows names and lines");
        put_token(p, t);
        t = target ? peek_token(p) : (struct token){.kind = END};
    } while (is_mark(p, t, ',') && next_token(p).kind == MARK && p->rc == 0);
    put_line_end(p);
    return true;
}

/* One directive of the module, to its ';' or the end of its function. */
static void put_module_statement(struct ptx *p, struct token t)
{
    uint32_t begin = t.at;
    int braces = 0;

    for (; p->rc == 0; t = next_token(p)) {
        if (t.kind == END) {
            fail(p, WARM_ETRUNCATED, begin, "a directive has no end");
            return;
        }
        put_token(p, t);
        if (token_is(p, t, ".entry") || token_is(p, t, ".func")) {
            put_function(p);
            return;
        }
        braces += is_mark(p, t, '{') - is_mark(p, t, '}');
        if (is_mark(p, t, ';') && braces <= 0) {
            put_line_end(p);
            return;
        }
    }
}

static void put_module(struct ptx *p)
{
    struct token t = next_token(p);
    if (!token_is(p, t, ".version"))
        fail(p, WARM_EMALFORMED, t.at, "it does not begin with .version");
    for (; t.kind != END && p->rc == 0; t = next_token(p)) {
        if (token_is(p, t, ".file"))
            skip_file(p);
        else if (token_is(p, t, ".loc"))
            skip_loc(p);
        else if (token_is(p, t, ".section"))
            skip_section(p);
        else if (t.kind != DOT_WORD)
            give_up(p, "a statement that is not understood");
        else if (!put_header(p, t))
            put_module_statement(p, t);
    }
}

int form_ptx(const struct canon_input *input, struct form *out, struct err *e)
{
    size_t len = input->len;
    const char *text = input->data;

    while (len > 0 && text[len - 1] == '\0') /* as nvrtcGetPTX gives it */
        len--;
    if (len >= NONE)
        return err_set(e, WARM_ETOO_BIG, "PTX: more than 4 GiB");
    if (input->debug_info) {
        out->why_exact = "debug output was asked for: it shows lines, names and the text itself";
        return WARM_EUNSUPPORTED;
    }
    struct ptx p = {.text = text, .len = (uint32_t)len, .out = out, .e = e, .free_syms = NONE};
    form_begin(out, "ptx/2");
    void *scopes = NULL;
    if (grow(&p, &scopes, &p.cap_scopes, 0, sizeof *p.scopes)) {
        p.scopes = scopes;
        p.scopes[0].first = NONE;
        put_module(&p);
    }
    free(p.syms);
    free(p.buckets);
    free(p.scopes);
    free(p.entities);
    return p.rc;
}

/* PTX begins with .version; comments may stand before it. */
bool form_ptx_claims(const char *data, size_t len)
{
    struct form no_form;
    no_form.why_exact = NULL;
    struct ptx p = {.text = data, .len = (uint32_t)len, .out = &no_form, .free_syms = NONE};
    struct token t = next_token(&p);
    return p.rc == 0 && t.kind == DOT_WORD && token_is(&p, t, ".version") &&
           peek_token(&p).kind == NUMBER;
}

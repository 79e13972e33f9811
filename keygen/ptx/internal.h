/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the inside of the reader of PTX, for the files of this folder only.
 *
 *   text.c     splits bytes into tokens
 *   scopes.c   resolves names: registers, families, labels; scopes
 *   ptx.c      puts statements, functions and the module into the form
 *
 * Only the first fault sets ptx.rc. Every loop then ends. Symbols, entities and places are 32-bit
 * indices, because inputs are below 4 GiB.
 *
 * Thread: one at a time for a reader. Memory: tokens and symbols point into the input. The reader
 * owns the arrays, whose size depends on the names of the largest function only.
 */
#ifndef WARM_KEYGEN_PTX_INTERNAL_H
#define WARM_KEYGEN_PTX_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "keygen/canon/form.h"

#define NONE UINT32_MAX

enum token_kind { END, NAME, DOT_WORD, NUMBER, STRING, MARK };

struct token {
    enum token_kind kind;
    uint32_t at, len;
    bool glued; /* no white space before it */
};

/* The meaning of a name. */
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
    uint32_t more; /* REGISTER, FAMILY: place of its type. LABEL: the statement, or NONE */
    uint32_t count; /* FAMILY: number of registers */
    enum sym_kind kind;
};

/* A label that is not only for debug information. */
struct entity {
    uint32_t alias;     /* the entity that this one resolved to, or NONE */
    uint32_t statement; /* the statement behind the label, or NONE */
    uint32_t at, len;   /* its name */
    bool numbered;      /* a branch refers to it */
    bool named;         /* another statement refers to it by name */
    bool stands;        /* counts even without a reference */
};

struct scope {
    uint32_t first; /* symbol */
};

struct ptx {
    const char *text;
    uint32_t len, at;
    bool drops_debug_info;
    struct form *out;
    struct err *e;
    int rc;

    struct sym *syms;
    uint32_t n_syms, cap_syms, free_syms, used_syms;
    uint32_t *buckets;
    uint32_t n_buckets; /* a power of two */
    struct scope *scopes;
    uint32_t depth, cap_scopes; /* depth 0: the module; 1: a function and its parameters */
    uint32_t family_depth;      /* no family is deeper than this */
    struct entity *entities;
    uint32_t n_entities, cap_entities;
    uint32_t n_registers;  /* numbered so far in this function */
    uint32_t n_statements; /* put so far in this function */

    char last; /* the last output: 'w' a word, a mark, '\n', or 0 */
};

/* --- ptx/text.c --- */

/* Ends the reading with an error at a place of the text. */
void ptx_fail(struct ptx *p, int code, uint32_t at, const char *what);
/* Ends the reading at an unknown construct: the exact text becomes the form. `why` is static. */
void ptx_give_up(struct ptx *p, const char *why);
/* Makes room for one more element of `size` bytes in the array to which `array_at` points. False if
 * memory runs out. */
bool ptx_grow(struct ptx *p, void *array_at, uint32_t *cap, uint32_t n, size_t size);

/* Returns the next token, behind blanks and comments. Returns END at the end and after a failure. */
struct token ptx_next(struct ptx *p);
/* Returns the next token without moving behind it. */
struct token ptx_peek(struct ptx *p);

/* True if the token is this word, of two characters or more. Most words begin with the same dot. */
static inline bool ptx_is(const struct ptx *p, struct token t, const char *text)
{
    return t.len > 1 && p->text[t.at + 1] == text[1] && t.len == strlen(text) &&
           memcmp(p->text + t.at, text, t.len) == 0;
}

/* True if the token is this mark. */
static inline bool ptx_is_mark(const struct ptx *p, struct token t, char c)
{
    return t.kind == MARK && p->text[t.at] == c;
}

/* --- ptx/scopes.c --- */

/* Returns the hash of a name. */
uint32_t ptx_hash_name(const char *s, uint32_t len);

#define ANY_DEPTH UINT32_MAX
enum want { DECLARED, FAMILIES, LABELS };
/* Returns the innermost symbol of this name and this sort, or NONE; at `depth` only, unless
 * ANY_DEPTH. */
uint32_t ptx_find(const struct ptx *p, enum want want, uint32_t at, uint32_t len, uint32_t hash,
                  uint32_t depth);
/* Declares a symbol in this block. If it is declared already, gives up and returns NONE. */
uint32_t ptx_declare(struct ptx *p, enum sym_kind kind, struct token t);
/* Returns the register `t` of a family such as %r<10>, declared at depth `above` or deeper. Adds
 * the register at its first use. Returns NONE if no family has it. */
uint32_t ptx_find_in_family(struct ptx *p, struct token t, uint32_t hash, uint32_t above);

/* Returns the entity of a label that a statement uses here. The definition may follow later. */
uint32_t ptx_refer(struct ptx *p, struct token t, uint32_t hash);
/* Defines a label here. */
void ptx_define_label(struct ptx *p, struct token t);
/* Returns the entity that a reference was resolved to. */
uint32_t ptx_entity_of(struct ptx *p, uint32_t entity);

/* Opens a block. */
void ptx_open_scope(struct ptx *p);
/* Closes a block and forgets its names. Unresolved references move to the outer block. */
void ptx_close_scope(struct ptx *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the inside of the MLIR text reader, for mlir*.c only.
 *
 *   mlir.c         the walk: one pass, a stack of open scopes
 *   mlir/func.c    functions and the module
 *   mlir/plain.c      operations without regions, mlir/region.c those with
 *   mlir/parts.c   what they are put together from: operands, types
 *   mlir/names.c   which value a name stands for
 *   mlir/line.c    operations a line at a time: like an earlier one, or as printers write them
 *   mlir/pretty.c  the operations that StableHLO and its neighbours print in their own way
 *   mlir/attr.c    attributes and types: token by token into one spelling
 *   mlir/dense.c   constants into the bytes of their elements
 *   mlir/scan.c    words, brackets, white space, errors, caches
 *
 * The reader walks over the text once. Attributes and types are not taken apart again when the same
 * letters come again: caches map a slice of the input to the number that it got.
 *
 * Thread: one at a time. Memory: struct mlir owns its tables; slices point into the input, and of text
 * that comes in pieces (mlir/pieces.h) those that outlive an operation into copies (mlir_keep).
 */
#ifndef WARM_KEYGEN_MLIR_INTERNAL_H
#define WARM_KEYGEN_MLIR_INTERNAL_H

#include <endian.h>
#include <string.h>

#include "keygen/graph/graph.h"
#include "keygen/mlir/follow.h"
#include "keygen/mlir/ops.h"
#include "keygen/mlir/pieces.h"
#include "keygen/vector.h"

struct slice {
    const char *at, *end;
};

/* Maps (tag, text) to a number. */
struct cache_entry {
    uint64_t hash;
    const char *at;
    uint32_t len, tag, value;
};
struct cache {
    VECTOR(struct cache_entry) entries;
    uint32_t *slots, mask;
};

struct binding { /* what a value's name stands for: `n` results from `value` on */
    uint32_t value, n;
};

/* Where a name's binding lies: see mlir/names.c. */
struct undo {
    uint64_t slot;
    struct binding was;
};

/* A name on the left of an operation. */
struct result_name {
    uint64_t slot;
    uint32_t n;
};

#define FAMILIES_MAX 24 /* words before numbers; what comes later is hashed */
#define FAMILY_EIGHTS 3 /* longer words are hashed */

struct family { /* names that are one word and a number: %arg, %arg0, %arg1, ... */
    uint64_t letters[FAMILY_EIGHTS]; /* the word's, eight each, the first lowest */
    uint32_t len;
    VECTOR(struct binding) bindings; /* by number + 1 */
};

#define TAG_TEXT 0x80000000u /* of labels: names of a text's own */

enum syntax { /* how an operation is written when not in the generic form */
              SYNTAX_UNKNOWN,
              SYNTAX_SIMPLE,   /* operands, clauses, a dictionary, ':' types */
              SYNTAX_CONSTANT, /* dictionary, elements with their type */
              SYNTAX_COMPARE,  /* LT, operands, a type of comparison */
              SYNTAX_CALL,     /* @f(operands) */
              SYNTAX_CUSTOM_CALL,
              SYNTAX_COMPOSITE,
              SYNTAX_WHILE,
              SYNTAX_REDUCE,
              SYNTAX_MANUAL, /* sdy.manual_computation */
              SYNTAX_MESH,
              SYNTAX_FUNC,
              SYNTAX_MODULE,
};

struct opinfo { /* of an operation's name, by its number in the graph */
    enum syntax syntax;
    uint32_t graph_name;
    char name[40]; /* full; empty if longer */
    uint32_t name_len;
    uint32_t n_fallbacks; /* times that its clauses were not understood */
};

enum scope_kind {
    SCOPE_MODULE,  /* module { } */
    SCOPE_FUNC,    /* func.func @f() { } */
    SCOPE_GENERIC, /* ({ }, { }) of an operation */
    SCOPE_COND,    /* stablehlo.while: cond { } */
    SCOPE_BODY,    /* do { } */
    SCOPE_REDUCER, /* stablehlo.reduce: reducer(..)(..) { } */
    SCOPE_MANUAL,
    SCOPE_MODULE_GENERIC,
    SCOPE_FUNC_GENERIC,
};

/* A '{' that is not closed yet, and the operation it belongs to. */
struct scope {
    enum scope_kind kind;
    uint32_t undo;    /* length of the undo log when it began */
    uint32_t results; /* first of the operation's names in `lhs`; */
    uint32_t n_results;
    uint32_t operands; /* first of the operation's operands in `operands` */
    uint32_t types;    /* first of its result types in `types_stack` */
    uint32_t args;     /* first of the slots of its arguments' names in `arg_slots` */
    uint32_t info;
    uint32_t region; /* a number of its own, for labels */
    uint32_t n_labels;
    bool in_block;                  /* the region's first block has begun */
    struct slice props, successors; /* generic form: {...} and [...] */
};

#define MLIR_NOT_UNDERSTOOD (GRAPH_NONE - 1) /* in place of a dictionary: a clause is not known */

#define LINE_OPERANDS_MAX 32 /* longer lists are not remembered */

/* The line at hand: mlir/line.c. */
struct line {
    bool split; /* what follows was found in it */
    bool open;  /* it may be remembered when its operation ends */
    struct slice head, tail;
    uint32_t tag;  /* of what is before the tail */
    uint64_t hash; /* of the tag and the tail */
    uint32_t values[LINE_OPERANDS_MAX], n_values;
};

/* A remembered line, and what it says of its operation. */
struct line_shape {
    uint32_t op; /* its number in the graph */
    uint32_t n_operands, n_results;
    const char *head, *tail;
    uint32_t head_len, tail_len;
    uint32_t types; /* where those of its operands are in line_types */
    uint32_t info;
};

/* What "applies stablehlo.add across dimensions = [0] : (types) -> type" says of a reduction of one value. */
struct reduction {
    uint32_t types[2], result;
    uint32_t dict;
    uint32_t name, info; /* of the reduction, in the graph and in `op_infos`; */
    uint32_t inner;      /* in `op_infos`, of what it applies */
};

struct mlir {
    const char *begin, *end;    /* of the text, or of the piece at hand */
    struct slice s;             /* what is left of it */
    struct mlir_pieces *pieces; /* NULL: the whole text is there, and lives as long as the graph */
    struct graph *g;
    struct err *e;
    int code;    /* first error */
    bool failed; /* no memory in a VECTOR of ours */
    const char *why_exact;

    struct cache types, dicts, named, labels, resources, axes, aliases, infos;
    struct cache lines; /* by what follows the operands, tagged with what is before */
    VECTOR(struct line_shape) line_shapes;
    VECTOR(uint32_t) line_types;
    struct line line;
    struct graph_op_shape ended; /* the operation that ended last, of a text in pieces */
    struct cache reduced;        /* what stands behind the operands of a reduction */
    VECTOR(struct reduction) reductions;
    struct follow follow;              /* shapes of remembered lines, + 1 */
    uint32_t n_lines_met, n_lines_new; /* looked up; not found. GRAPH_NONE: given up */
    VECTOR(struct slice) alias_values;
    VECTOR(struct slice) resource_values;
    VECTOR(struct binding) named_bindings;
    struct family families[FAMILIES_MAX];
    uint32_t n_families;
    uint32_t
        function_scopes; /* scopes that are open in a function's own level; 0: undo everything */
    uint8_t family_hints[64]; /* the family that a word of such letters had last */
    uint32_t number_max;      /* from it on, a name is hashed */
    VECTOR(struct undo) undo;
    VECTOR(struct result_name) lhs;
    VECTOR(struct scope) scopes;
    VECTOR(uint32_t) operands;
    VECTOR(uint32_t) types_stack;
    VECTOR(uint64_t) arg_slots;
    VECTOR(struct opinfo) op_infos;
    VECTOR(struct slice) pending; /* texts around an alias that is being written */
    struct writer scratch;
    struct writer bytes; /* elements of a constant */
    uint64_t expanded;   /* bytes that aliases stood for */
    uint32_t unknown_type;
    uint32_t n_regions; /* seen so far: tags of labels */
    uint32_t n_axes;
    uint32_t n_texts, n_own; /* operations kept as tokens; names of the present one's own */
    uint32_t text_operands;  /* where its operands begin in `operands` */
    bool many_processes;     /* see canon_input */
    bool resources_read;
    bool module_seen;
    void *c_locale;
};

/* ---- mlir/scan.c ---- */

/* Records the first error, with the place of `at`; always false. */
bool mlir_fail(struct mlir *m, const char *at, int code, const char *what);
static inline bool mlir_ok(const struct mlir *m) { return m->code == 0; }

/* True for what a name may go on with: letters, digits, '_', '.', '$', '-'. */
extern const uint8_t slice_classes[256];
static inline bool slice_id_goes_on(char c) { return slice_classes[(uint8_t)c] & 6; }
/* True for letters and digits. */
static inline bool slice_is_plain(char c) { return slice_classes[(uint8_t)c] & 16; }

void slice_skip_slow(struct slice *s);
/* Eight bytes of text as a number, the first one lowest. */
static inline uint64_t eight(const char *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return le64toh(x);
}
#define EACH(byte) (0x0101010101010101u * (byte))
/* The first n bytes of eight, 1 <= n <= 8. */
static inline uint64_t first_of(uint64_t x, unsigned n) { return x & UINT64_MAX >> (64 - 8 * n); }

/* White space and comments. */
static inline void slice_skip(struct slice *s)
{
    if (s->at < s->end && *s->at == ' ')
        s->at++;
    if (s->at < s->end && (unsigned char)*s->at > ' ' && *s->at != '/')
        return;
    slice_skip_slow(s);
}
/* After white space. */
static inline bool slice_take(struct slice *s, char c)
{
    slice_skip(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}
bool slice_take_word(struct slice *s, const char *word); /* a whole word, after white space */
struct slice slice_word(struct slice *s);                /* [A-Za-z0-9_.$]*, after white space */
struct slice slice_id(struct slice *s);                  /* the same and '-', at once */
struct slice
slice_string(struct slice *s); /* "…" with its quotes, at once; empty if it never ends */
/* The end of what is bracketed from s.at on (the first bracket is at s.at), or s.end. */
const char *slice_close(struct slice s);
/* The first `stop` outside of brackets and strings, the bracket that closes what was open before, or
 * s.end. `stop` is one of , : { ) or a new line. */
const char *slice_find(struct slice s, char stop);
struct slice slice_type(struct slice *s); /* a type, not looked into; after white space */
static inline size_t slice_len(struct slice s) { return (size_t)(s.end - s.at); }
static inline bool slice_is(struct slice s, const char *text)
{
    return slice_len(s) == strlen(text) && memcmp(s.at, text, strlen(text)) == 0;
}
static inline bool slice_begins(struct slice s, const char *text)
{
    return slice_len(s) >= strlen(text) && memcmp(s.at, text, strlen(text)) == 0;
}
void slice_trim(struct slice *s);

/* The same text, where it lives as long as the graph. */
struct slice mlir_keep_copy(struct mlir *m, struct slice text);
static inline struct slice mlir_keep(struct mlir *m, struct slice text)
{
    return m->pieces && text.at ? mlir_keep_copy(m, text) : text;
}

uint32_t cache_find(const struct cache *c, uint32_t tag, struct slice text, uint64_t *out_hash);
void cache_add(struct mlir *m, struct cache *c, uint32_t tag, struct slice text, uint64_t hash,
               uint32_t value);
void cache_close(struct cache *c);

/* ---- mlir/attr.c ---- */

enum attr_flags {
    ATTR_AXES = 1,    /* strings that name a mesh axis are numbered */
    ATTR_MESH = 2,    /* strings name new axes */
    ATTR_CHANNEL = 4, /* the first number is a channel's */
    ATTR_TYPE = 8,    /* into the scratch buffer, not the open dictionary */
    ATTR_VALUES = 16, /* %names become the operands of the open operation */
};

/* Writes an attribute's tokens in the one spelling into the open dictionary's value. */
bool mlir_attr(struct mlir *m, struct slice text, unsigned flags);
/* A string (with its quotes) may name a function to somebody: then the name counts. */
void mlir_string_names(struct mlir *m, struct slice string);
/* The symbol at s->at, which is '@'. */
uint32_t mlir_symbol(struct mlir *m, struct slice *s);
/* The number of a type; of the type at the cursor, after white space, moving behind it. */
uint32_t mlir_type(struct mlir *m, struct slice text);
uint32_t mlir_type_take(struct mlir *m);
/* The entries of a dictionary (without its braces) into the open one. */
bool mlir_dict_entries(struct mlir *m, struct slice entries, const struct opinfo *info);
/* One entry. */
bool mlir_dict_entry(struct mlir *m, struct slice key, struct slice value, bool unit,
                     const struct opinfo *info);
/* A whole dictionary "{...}", cached. */
uint32_t mlir_dict(struct mlir *m, struct slice braces, const struct opinfo *info);
/* Writes a piece of text into the open value or, with ATTR_TYPE, the scratch buffer. */
void mlir_emit(struct mlir *m, unsigned flags, const char *text, size_t len);

/* ---- mlir/dense.c ---- */

/* `s` stands behind "dense" or "dense_resource": writes "dense<HEX> : type" and moves behind the
 * type. */
bool mlir_dense(struct mlir *m, struct slice *s, bool resource, unsigned flags);

/* The same from what stands in the brackets and a type as it is. */
bool mlir_dense_typed(struct mlir *m, struct slice body, struct slice type);

/* ---- mlir/pretty.c ---- */

/* Of an operation with this full name, of which this is known. */
enum syntax mlir_syntax(const char *name, size_t len, enum mlir_op known);
/* What stands between operands and ':' of an operation: clauses and a dictionary. The first error
 * is out->not_understood. */
bool mlir_clauses(struct mlir *m, struct slice text, const struct opinfo *info);

/* ---- mlir/names.c ---- */

/* The slot of the name at p (behind '%'); gives where the name ends. One that is not known yet gets a slot
 * if `make`; else the answer is a slot without binding. */
const char *mlir_slot(struct mlir *m, const char *p, const char *end, bool make, uint64_t *out);
void mlir_bind(struct mlir *m, uint64_t slot, uint32_t value, uint32_t n);
void mlir_bind_name(struct mlir *m, struct slice name, uint32_t value);
/* Takes bindings back until `mark` are left in the undo log. */
void mlir_unbind_to(struct mlir *m, uint32_t mark);
/* Around a function, whose scope is the innermost one: at its end its names are forgotten, and the
 * undo log is as long as `mark` again. */
void mlir_function_begin(struct mlir *m);
void mlir_function_end(struct mlir *m, uint32_t mark);
/* A value by its name at p (behind '%'), GRAPH_NONE if it is not bound; gives where the name ends. The second
 * moves there. */
const char *mlir_value_at(struct mlir *m, const char *p, const char *end, uint32_t *out);
uint32_t mlir_value_find(struct mlir *m, struct slice *s);

/* ---- mlir/line.c ---- */

/* Reads the lines from the cursor on that say of their operands what earlier lines said of others, and
 * those that are written in one of the usual ways, as many as there are: their operations are in the
 * graph then and their names bound. The cursor stays at the first line that is none of them. False with
 * an error. */
bool mlir_lines_read(struct mlir *m);
/* The same for the rest of a line whose names are in `lhs` already; the cursor is then at the line's
 * end. Else nothing has changed, and m->line says what to remember the line by. */
bool mlir_line_repeats(struct mlir *m, uint32_t lhs);
/* An operation is about to end whose types stand from `types` on, and m->line is open. */
void mlir_line_record(struct mlir *m, const struct opinfo *info, uint32_t types);

/* The open operation is about to get its region, and `tail` was all that stood behind its operands. */
void mlir_reduction_record(struct mlir *m, struct slice tail, const struct reduction *r);

/* ---- mlir/parts.c: false with an error, unless said otherwise ---- */

static inline bool mlir_malformed(struct mlir *m, const char *what)
{
    return mlir_fail(m, m->s.at, WARM_EMALFORMED, what);
}
static inline bool mlir_expect(struct mlir *m, char c, const char *what)
{
    return slice_take(&m->s, c) || mlir_malformed(m, what);
}
/* No error: does the text go on with `c`, after white space? */
static inline bool mlir_peek(struct mlir *m, char c)
{
    slice_skip(&m->s);
    return m->s.at < m->s.end && *m->s.at == c;
}
/* "->", if it is there. */
bool mlir_take_arrow(struct mlir *m);
/* "loc(...)", if it is there. */
void mlir_skip_loc(struct mlir *m);
/* "{...}", at whose first brace the cursor is. */
bool mlir_take_braces(struct mlir *m, struct slice *out);
/* "%0, %1:2 =", onto `lhs`. */
bool mlir_lhs_read(struct mlir *m);
/* How many results the names from `first` on stand for; binding them, and forgetting the names. */
uint32_t mlir_n_results(const struct mlir *m, uint32_t first);
void mlir_bind_results(struct mlir *m, uint32_t first, uint32_t value);
/* "%name" at the cursor, or any number of them with ',' between, onto `operands` and those of the open
 * operation. */
bool mlir_operand_read(struct mlir *m);
bool mlir_operands_read(struct mlir *m);
/* A type, onto `types_stack`; one that is likely that of operand `like`. */
bool mlir_type_read(struct mlir *m);
bool mlir_type_read_like(struct mlir *m, uint32_t like);
/* "type" or "(types)" behind an arrow, onto `types_stack`. */
bool mlir_results_read(struct mlir *m, uint32_t operands);
/* "(types) -> types": those of the operands from `operands` on must be theirs. */
bool mlir_function_type_read(struct mlir *m, uint32_t operands);
/* No error: do `n` types from `types` on say what the operands have? */
bool mlir_list_fits(const struct mlir *m, uint32_t operands, uint32_t types, uint32_t n);
/* What stands behind ':' of an operation: leaves the results' types from `types` on. *fits is false if a
 * list says something else of the operands. */
bool mlir_op_types_read(struct mlir *m, uint32_t operands, uint32_t types, uint32_t n_results,
                        bool *fits);

/* ---- mlir/plain.c: each op_ reads on behind the operation's name; its names are in `lhs` ---- */

/* The number in `op_infos` of an operation's name, which may be in short: "call". */
uint32_t mlir_info_of(struct mlir *m, struct slice word);
/* The clauses and dictionary of an operation, cached; or MLIR_NOT_UNDERSTOOD. */
uint32_t mlir_clauses_of(struct mlir *m, struct slice text, const struct opinfo *info,
                         struct slice lead);
/* Ends the open operation, whose result types are on the stack from `types` on, and binds its names. */
bool mlir_op_finish(struct mlir *m, const struct opinfo *info, uint32_t types, uint32_t lhs);
/* An operation whose syntax is not known: its tokens to the end of the line. */
bool mlir_op_as_text(struct mlir *m, const struct opinfo *info, uint32_t lhs);
bool mlir_op_simple(struct mlir *m, const struct opinfo *info, uint32_t lhs);
bool mlir_op_constant(struct mlir *m, const struct opinfo *info, uint32_t lhs);
bool mlir_op_call(struct mlir *m, const struct opinfo *info, uint32_t lhs);
bool mlir_op_mesh(struct mlir *m, const struct opinfo *info, uint32_t lhs);

/* ---- mlir/region.c ---- */

/* NULL if there is no memory. Lives until the next one is pushed. */
struct scope *mlir_scope_push(struct mlir *m, enum scope_kind kind, const struct opinfo *info,
                              uint32_t lhs);
/* Ends the operation whose scope is the innermost. */
bool mlir_scope_finish(struct mlir *m);
/* The unlabelled first block of a region. */
void mlir_block_open(struct mlir *m, struct scope *s);
/* "%a: type loc(...)", giving the slot of its name; the same up to ')' for a block, bound. */
bool mlir_arg_read(struct mlir *m, uint64_t *slot, uint32_t *type);
bool mlir_block_args_read(struct mlir *m);
/* The number of a block's label (without '^') in the innermost region. */
uint32_t mlir_label(struct mlir *m, struct slice name);
/* True outside of all functions. */
bool mlir_in_module(const struct mlir *m);
bool mlir_op_while(struct mlir *m, const struct opinfo *info, uint32_t lhs);
bool mlir_while_region(struct mlir *m); /* "{" of the next one */
bool mlir_op_reduce(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* The region of "applies stablehlo.add" in the open operation: of what `op_infos` has at `inner`. */
bool mlir_reduction_body(struct mlir *m, uint32_t inner, uint32_t type);
bool mlir_op_manual(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* `"name"(...)...`: up to its end, or to the '{' of its first region; the next region; what follows the
 * last. */
bool mlir_op_generic(struct mlir *m, uint32_t lhs);
bool mlir_generic_region(struct mlir *m);
bool mlir_generic_tail(struct mlir *m, bool has_regions);

/* ---- mlir/func.c ---- */

bool mlir_op_func(struct mlir *m, const struct opinfo *info);
bool mlir_op_module(struct mlir *m, const struct opinfo *info);
/* The generic form: behind the '{' of a function, with its first block; behind the '}' of a function or
 * module. */
bool mlir_func_generic_open(struct mlir *m, struct scope *s);
bool mlir_named_tail(struct mlir *m);

#endif

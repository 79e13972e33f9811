/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the inside of the MLIR text reader, for the files of this folder only.
 *
 *   mlir.c      the walk: one pass, a stack of open scopes
 *   func.c      functions and the module
 *   plain.c     operations without regions
 *   region.c    operations with regions
 *   parts.c     operands, types and other parts of operations
 *   bindings.c  values of names
 *   pretty.c    the operations that StableHLO and its neighbours print in their own way
 *   attr.c      attributes and types: token by token into one spelling
 *   dense.c     constants into the bytes of their elements
 *   reader.c    reader.h: types and attributes of a program in another encoding
 *   scan.c      words, brackets, white space, errors, caches
 *
 * The reader walks over the text once. It parses an attribute or type once for each spelling: caches
 * map a slice of the input to its number.
 *
 * Terms
 *   slice      a part of the input, from `at` to `end`
 *   slot       the place of a name's binding (bindings.c)
 *   family     names of one word and a number: %arg0, %arg1
 *   scope      an open '{' and the operation that it belongs to
 *   clause     "dims = [1, 0]": a spelling of an attribute between an operation's operands and ':'
 *   short      said of the name of an operation without its dialect: "return"
 *   fall back  to keep an operation as its tokens, because a clause is unknown
 *
 * Thread: one at a time for a reader. Memory: struct mlir owns its tables; slices point into the input.
 * If they are parts of a short-lived text (reader.h), mlir_keep copies them.
 */
#ifndef WARM_KEYGEN_MLIR_INTERNAL_H
#define WARM_KEYGEN_MLIR_INTERNAL_H

#include <endian.h>
#include <string.h>

#include "keygen/canon/names.h"
#include "keygen/expect.h"
#include "keygen/graph/graph.h"
#include "keygen/mlir/ops.h"
#include "keygen/vector.h"

/* True if the promise is kept. If it is false, the reading stops as without memory. */
#define MLIR_EXPECT(m, promise) (WARM_EXPECT(promise) || !((m)->failed = true))

struct slice {
    const char *at, *end;
};

struct binding { /* the values of a name: `n` results from `value` on */
    uint32_t value, n;
};

/* A binding to restore at the end of a scope. */
struct undo {
    uint64_t slot;
    struct binding was;
};

/* A name on the left of an operation. */
struct result_name {
    uint64_t slot;
    uint32_t n;
    const char *at; /* its '%' */
};

#define FAMILIES_MAX 24 /* families; later ones are hashed */
#define FAMILY_EIGHTS 3 /* longer words are hashed */

struct family { /* names that are one word and a number: %arg, %arg0, %arg1, ... */
    uint64_t letters
        [FAMILY_EIGHTS]; /* of the word, eight in each number, the first in the lowest byte */
    uint32_t len;
    VECTOR(struct binding) bindings; /* by number + 1 */
};

#define TAG_TEXT                                                                                   \
    0x80000000u /* of the cache of labels: names inside of an operation kept as tokens */

enum syntax { /* an operation's own syntax, besides the generic form */
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
    char name[40]; /* the full name; empty if it is longer */
    uint32_t name_len;
    uint32_t n_fallbacks; /* times that its clauses were unknown */
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

/* An open '{', and its operation. */
struct scope {
    enum scope_kind kind;
    uint32_t undo;    /* the undo log's length at its beginning */
    uint32_t first;   /* the first value of its region: names of earlier ones are from outside */
    uint32_t results; /* first of the operation's names in `lhs` */
    uint32_t n_results;
    uint32_t operands; /* first of the operation's operands in `operands` */
    uint32_t types;    /* first of its result types in `types_stack` */
    uint32_t args;     /* first slot of its arguments' names in `arg_slots` */
    uint32_t info;
    uint32_t region; /* a unique number, for labels */
    uint32_t n_labels;
    bool in_block;                  /* the region's first block has begun */
    struct slice props, successors; /* generic form: {...} and [...] */
};

#define MLIR_NOT_UNDERSTOOD                                                                        \
    (GRAPH_NONE - 1) /* returned in place of a dictionary: a clause is unknown */

struct mlir {
    const char *begin, *end; /* of the text */
    struct slice s;          /* what is left of it */
    bool copies;             /* the text does not live as long as the graph: see mlir_keep */
    struct graph *g;
    struct err *e;
    int code;    /* first error */
    bool failed; /* a VECTOR had no memory */
    const char *why_exact;

    struct names types, dicts, named, labels, resources, axes, aliases, infos;
    VECTOR(struct slice) alias_values;
    VECTOR(struct slice) resource_values;
    VECTOR(struct binding) named_bindings;
    struct family families[FAMILIES_MAX];
    uint32_t n_families;
    uint32_t
        function_scopes; /* open scopes at a function's own level; 0: every binding needs undo */
    uint8_t family_hints[64]; /* last family of a word with these letters */
    uint32_t number_max;      /* a name with such a number, or a higher one, is hashed */
    VECTOR(struct undo) undo;
    VECTOR(struct result_name) lhs;
    VECTOR(struct scope) scopes;
    VECTOR(uint32_t) operands;
    VECTOR(uint32_t) types_stack;
    VECTOR(uint64_t) arg_slots;
    VECTOR(struct opinfo) op_infos;
    VECTOR(struct slice) pending; /* rests of the texts around the current alias */
    struct writer scratch;
    struct writer bytes; /* elements of a constant */
    uint64_t expanded;   /* bytes of all alias values so far */
    uint32_t unknown_type;
    uint32_t n_regions; /* so far; tags of labels */
    uint32_t n_axes;
    uint32_t n_texts,
        n_own;              /* operations kept as tokens; names defined inside of the current one */
    uint32_t text_operands; /* index of its first operand in `operands` */
    bool many_processes;    /* see canon_input */
    bool resources_read;
    bool module_seen;
    void *c_locale;
};

/* ---- mlir/mlir.c ---- */

/* Prepares the tables and the graph. Without memory, m->failed is true. */
void mlir_begin(struct mlir *m, struct form *out, struct err *e);
/* Frees the tables and the graph. If the program is `complete`, ends its form. Errors: m->code; NOMEM. */
int mlir_end(struct mlir *m, bool complete, struct form *out, struct err *e);

/* ---- mlir/scan.c ---- */

/* Records the first error, with the place of `at`. Always returns false. */
bool mlir_fail(struct mlir *m, const char *at, int code, const char *what);
static inline bool mlir_ok(const struct mlir *m) { return m->code == 0; }

extern const uint8_t slice_classes[256];
/* True for bytes that may continue a name: letters, digits, '_', '.', '$', '-'. */
static inline bool slice_id_goes_on(char c) { return slice_classes[(uint8_t)c] & 6; }
/* True for letters and digits. */
static inline bool slice_is_plain(char c) { return slice_classes[(uint8_t)c] & 16; }

/* Skips any white space and comments. */
void slice_skip_slow(struct slice *s);
/* Returns eight bytes of text as a number, the first one in the lowest byte. */
static inline uint64_t eight(const char *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return le64toh(x);
}
#define EACH(byte) (0x0101010101010101u * (byte))
/* Returns the first n bytes of eight, 1 <= n <= 8. */
static inline uint64_t first_of(uint64_t x, unsigned n) { return x & UINT64_MAX >> (64 - 8 * n); }

/* Skips white space and comments. */
static inline void slice_skip(struct slice *s)
{
    if (s->at < s->end && *s->at == ' ')
        s->at++;
    if (s->at < s->end && (unsigned char)*s->at > ' ' && *s->at != '/')
        return;
    slice_skip_slow(s);
}
/* Skips white space, then takes `c`. False if it is not there. */
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
/* Returns the end of the bracketed text that begins with the bracket at s.at, or s.end. */
const char *slice_close(struct slice s);
/* Finds the first `stop` outside of brackets and strings. Returns it, or an unmatched closing bracket
 * before it, or s.end. `stop` is one of , : { ) or a new line. */
const char *slice_find(struct slice s, char stop);
/* Returns the end of a type such as tensor<2xf32> at s.at; NULL if another one stands there. */
const char *slice_tensor(struct slice s);
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
/* Removes white space at both ends. */
void slice_trim(struct slice *s);

/* Copies a text for the life of the graph. */
struct slice mlir_keep_copy(struct mlir *m, struct slice text);
/* Returns the text in memory that lives as long as the graph. */
static inline struct slice mlir_keep(struct mlir *m, struct slice text)
{
    return m->copies && text.at ? mlir_keep_copy(m, text) : text;
}

/* Returns the number of a text under `tag`, or GRAPH_NONE; *out_hash is for cache_add. */
static inline uint32_t cache_find(const struct names *c, uint32_t tag, struct slice text,
                                  uint32_t *out_hash)
{
    const uint32_t *number = names_look(c, tag, text.at, slice_len(text), out_hash);
    return number ? *number : GRAPH_NONE;
}
/* Adds a text that cache_find did not find. */
void cache_add(struct mlir *m, struct names *c, uint32_t tag, struct slice text, uint32_t hash,
               uint32_t value);

/* ---- mlir/attr.c ---- */

enum attr_flags {
    ATTR_AXES = 1,    /* strings that name a mesh axis are numbered */
    ATTR_MESH = 2,    /* strings name new axes */
    ATTR_CHANNEL = 4, /* the first number is a channel's */
    ATTR_TYPE = 8,    /* into the scratch buffer, not the open dictionary */
    ATTR_VALUES = 16, /* %names become the operands of the open operation */
};

/* Appends an attribute, in its canonical spelling, to the open entry's value. */
bool mlir_attr(struct mlir *m, struct slice text, unsigned flags);
/* Makes the name of a function count if this string, with its quotes, contains it. */
void mlir_string_names(struct mlir *m, struct slice string);
/* Takes the symbol at s->at, which is '@', and returns its number. */
uint32_t mlir_symbol(struct mlir *m, struct slice *s);
/* Returns the number of a type. */
uint32_t mlir_type(struct mlir *m, struct slice text);
/* Skips white space, takes the type at the cursor and returns its number. */
uint32_t mlir_type_take(struct mlir *m);
/* Adds the entries of a dictionary, given without its braces, to the open one. Here and below, `info` is
 * that of its operation; NULL: an argument or a result of a function has it. */
bool mlir_dict_entries(struct mlir *m, struct slice entries, const struct opinfo *info);
/* Adds the entries of "{...}", or none if it is {NULL, NULL}. */
static inline bool mlir_dict_part(struct mlir *m, struct slice braces, const struct opinfo *info)
{
    return !braces.at || mlir_dict_entries(m, (struct slice){braces.at + 1, braces.end - 1}, info);
}
/* Adds one entry to the open dictionary. */
bool mlir_dict_entry(struct mlir *m, struct slice key, struct slice value, bool unit,
                     const struct opinfo *info);
/* Returns the number of a dictionary "{...}". Cached. */
uint32_t mlir_dict(struct mlir *m, struct slice braces, const struct opinfo *info);
/* Appends text to the open value, or with ATTR_TYPE to the scratch buffer. */
void mlir_emit(struct mlir *m, unsigned flags, const char *text, size_t len);

/* ---- mlir/dense.c ---- */

/* Reads a constant behind "dense" or "dense_resource" and its type, and moves behind both. Writes
 * "dense<HEX> : type". */
bool mlir_dense(struct mlir *m, struct slice *s, bool resource, unsigned flags);

/* Writes a constant from the text between its brackets and a type's own spelling. */
bool mlir_dense_typed(struct mlir *m, struct slice body, struct slice type);

/* ---- mlir/pretty.c ---- */

/* Returns the syntax of an operation. `name` is its full name. */
enum syntax mlir_syntax(const char *name, size_t len);
/* Adds the clauses and the dictionary between an operation's operands and ':' to the open dictionary.
 * False with an error, or if a clause is unknown. */
bool mlir_clauses(struct mlir *m, struct slice text, const struct opinfo *info);

/* ---- mlir/bindings.c ---- */

/* Finds the slot of the name at p, behind '%', and returns the end of the name. With `make`, a new name
 * gets a slot; else *out is a slot without binding. */
const char *mlir_slot(struct mlir *m, const char *p, const char *end, bool make, uint64_t *out);
/* Binds a slot to `n` results from `value` on. Fails if its name has a value in this region. */
void mlir_bind(struct mlir *m, uint64_t slot, uint32_t value, uint32_t n);
/* Restores bindings until the undo log has length `mark`. */
void mlir_unbind_to(struct mlir *m, uint32_t mark);
/* Begins a function, whose scope is the innermost one. */
void mlir_function_begin(struct mlir *m);
/* Ends a function: forgets its names, and shortens the undo log to `mark`. */
void mlir_function_end(struct mlir *m, uint32_t mark);
/* Returns the value of the name at s->at, behind '%', or GRAPH_NONE, and moves behind the name. */
uint32_t mlir_value_find(struct mlir *m, struct slice *s);

/* ---- mlir/parts.c: false with an error, unless said otherwise ---- */

static inline bool mlir_malformed(struct mlir *m, const char *what)
{
    return mlir_fail(m, m->s.at, WARM_EMALFORMED, what);
}
static inline bool mlir_expect(struct mlir *m, char c, const char *what)
{
    return slice_take(&m->s, c) || mlir_malformed(m, what);
}
/* True if `c` comes next, after white space. */
static inline bool mlir_peek(struct mlir *m, char c)
{
    slice_skip(&m->s);
    return m->s.at < m->s.end && *m->s.at == c;
}
/* Takes "->" if it comes next. */
bool mlir_take_arrow(struct mlir *m);
/* Skips "loc(...)" if it comes next. */
void mlir_skip_loc(struct mlir *m);
/* Takes "{...}", at whose first brace the cursor is. */
bool mlir_take_braces(struct mlir *m, struct slice *out);
/* Reads "%0, %1:2 =" onto `lhs`. */
bool mlir_lhs_read(struct mlir *m);
/* Returns the number of results that the names from `first` on need. */
uint32_t mlir_n_results(const struct mlir *m, uint32_t first);
/* Binds the names from `first` on to results from `value` on, and removes them from `lhs`. */
void mlir_bind_results(struct mlir *m, uint32_t first, uint32_t value);
/* Reads "%name" at the cursor onto `operands` and as an operand of the open operation. */
bool mlir_operand_read(struct mlir *m);
/* Reads any number of operands with ',' between them. */
bool mlir_operands_read(struct mlir *m);
/* Reads a type onto `types_stack`. */
bool mlir_type_read(struct mlir *m);
/* Reads a type that is probably that of operand `like`. */
bool mlir_type_read_like(struct mlir *m, uint32_t like);
/* Reads "type" or "(types)" behind an arrow onto `types_stack`. */
bool mlir_results_read(struct mlir *m, uint32_t operands);
/* Reads "(types) -> types". Those before the arrow must be the types of the operands from `operands` on. */
bool mlir_function_type_read(struct mlir *m, uint32_t operands);
/* True if `n` types from `types` on agree with those of the operands: one for all, one for each, or for a
 * selection the predicate's and that of the others. */
bool mlir_list_fits(const struct mlir *m, uint32_t operands, uint32_t types, uint32_t n);
/* Reads the types behind ':' of an operation and leaves those of the results from `types` on. *fits is
 * false if a list disagrees with the types of the operands. */
bool mlir_op_types_read(struct mlir *m, uint32_t operands, uint32_t types, uint32_t n_results,
                        bool *fits);

/* ---- mlir/plain.c: each op_ reads on behind the operation's name; its names are in `lhs` ---- */

/* Returns the number in `op_infos` of an operation's name, which may be short: "call". */
uint32_t mlir_info_of(struct mlir *m, struct slice word);
/* Returns the dictionary of an operation's clauses, cached; or MLIR_NOT_UNDERSTOOD. `lead`: the text in
 * front of the operands: LT of a comparison, or more clauses. */
uint32_t mlir_clauses_of(struct mlir *m, struct slice text, const struct opinfo *info,
                         struct slice lead);
/* Ends the open operation, whose result types are on the stack from `types` on. Binds its names. */
bool mlir_op_finish(struct mlir *m, uint32_t types, uint32_t lhs);
/* Keeps an operation of unknown syntax as its tokens, to the end of the line. */
bool mlir_op_as_text(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* Reads an operation in the usual order: operands, clauses, dictionary, types. */
bool mlir_op_simple(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* Reads a constant. */
bool mlir_op_constant(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* Reads "@f(%0) {attrs} : (t) -> t", of a callee or a target, or `composite "name" %0 {attrs} : …`. */
bool mlir_op_call(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* Reads "sdy.mesh @mesh = <["x"=2]> {attrs}". */
bool mlir_op_mesh(struct mlir *m, const struct opinfo *info, uint32_t lhs);

/* ---- mlir/region.c ---- */

/* Pushes a scope. It lives until the next one is pushed. NULL without memory. */
struct scope *mlir_scope_push(struct mlir *m, enum scope_kind kind, const struct opinfo *info,
                              uint32_t lhs);
/* Ends the operation of the innermost scope. */
bool mlir_scope_finish(struct mlir *m);
/* Begins the first block of a region, which has no label. */
void mlir_block_open(struct mlir *m, struct scope *s);
/* Reads an argument "%a: type loc(...)" and sets the slot of its name and its type. */
bool mlir_arg_read(struct mlir *m, uint64_t *slot, uint32_t *type);
/* Reads the arguments of a block up to ')', and binds their names. */
bool mlir_block_args_read(struct mlir *m);
/* Returns the number of a block's label, given without '^', in the innermost region. */
uint32_t mlir_label(struct mlir *m, struct slice name);
/* True outside of all functions. */
bool mlir_in_module(const struct mlir *m);
/* Reads "while(%a = %0, ...) : types attributes {...} cond {". */
bool mlir_op_while(struct mlir *m, const struct opinfo *info, uint32_t lhs);
bool mlir_while_region(struct mlir *m); /* begins its next region at '{' */
/* Reads stablehlo.reduce, up to the '{' of its region if it has one. */
bool mlir_op_reduce(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* Reads "sdy.manual_computation(%0) in_shardings=[..] out_shardings=[..] manual_axes={..} (%a: t) {". */
bool mlir_op_manual(struct mlir *m, const struct opinfo *info, uint32_t lhs);
/* Reads an operation in the generic form, `"name"(...)...`, to its end or to the '{' of a region. */
bool mlir_op_generic(struct mlir *m, uint32_t lhs);
/* Begins the next region of such an operation. */
bool mlir_generic_region(struct mlir *m);
/* Reads "{attrs} : (types) -> types" behind its last region, and ends it. */
bool mlir_generic_tail(struct mlir *m, bool has_regions);

/* ---- mlir/func.c ---- */

/* Reads func.func as func prints it, up to its body. */
bool mlir_op_func(struct mlir *m, const struct opinfo *info);
/* Reads a module as printed, up to its body. */
bool mlir_op_module(struct mlir *m, const struct opinfo *info);
/* The properties of a function in the generic form; at NULL: it has none of that name. */
struct func_props {
    struct slice name, type, args, results, visibility;
    bool has_others; /* entries of other names, for mlir_other_attrs */
};
/* Reads the properties "{...}" and begins the function. */
bool mlir_func_begin(struct mlir *m, struct slice braces, struct func_props *out);
/* Adds the next argument and returns its value. */
uint32_t mlir_func_arg(struct mlir *m, uint32_t type, struct func_props *props);
/* Adds the results. The type must have the arguments from value `first` on; GRAPH_NONE adds them for a
 * declaration. */
bool mlir_func_types(struct mlir *m, struct func_props *props, uint32_t first);
/* Makes the dictionary of the other attributes of a function or module in the generic form. */
bool mlir_other_attrs(struct mlir *m, const struct opinfo *info, struct slice props,
                      struct slice attrs, uint32_t *out);
/* Begins a function in the generic form, with its first block, behind the '{' of its region. */
bool mlir_func_generic_open(struct mlir *m, struct scope *s);
/* Reads "){attrs} : () -> ()" behind the region of a function or module in the generic form. */
bool mlir_named_tail(struct mlir *m);

#endif

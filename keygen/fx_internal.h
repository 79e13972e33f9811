/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx_internal.h - the inside of the reader of FX graph code, for fx*.c only.
 *
 *   fx_text.c   bytes into tokens of Python; names; which devices the text names
 *   fx_ops.c    what an operation may do: move, go, exchange its operands
 *   fx_read.c   statements into nodes and edges
 *   fx_sizes.c  sizes that are not known yet, numbered and in order
 *   fx.c        the walk from the results that puts the form; graphs and the text as a whole
 *
 *     text ──fx_next──▶ tokens ──fx_take_statement──▶ nodes, edges, roots ──walk──▶ struct form
 *
 * What fails sets fx.rc, the first time for good; every loop ends then. Numbers of nodes, edges and
 * places are 32 bits: inputs are below 4 GiB.
 *
 * Thread: one at a time. Memory: tokens and nodes point into the input; the arrays are the reader's.
 */
#ifndef WARM_KEYGEN_FX_INTERNAL_H
#define WARM_KEYGEN_FX_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "keygen/forms.h"

#define NONE UINT32_MAX
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FX_HOW_TO_PRINT                                                                            \
    "print it with print_readable(print_output=False, include_stride=True, include_device=True)"

enum token_kind { END, LINE, NAME, NUMBER, STRING, MARK };

struct token {
    enum token_kind kind;
    uint32_t at, len;
};

enum node_kind { INPUT, FLATTEN, PURE, BARRIER, RESULT };

struct node {
    uint32_t at, len;           /* its expression */
    uint32_t type_at, type_len; /* its annotation's inside, or 0, 0 */
    uint32_t tag_at, tag_len;   /* what the comment before it says of it, or 0, 0 */
    uint32_t first_edge, n_edges;
    uint32_t segment; /* barriers before it */
    uint32_t number;  /* in the form, or NONE */
    uint64_t hash;    /* of all that it computes: only sorts operands */
    enum node_kind kind;
    bool commutes; /* the two simple operands at its edges may be exchanged, unless fx.keep_operands */
    bool opened;   /* the walk has been here */
};

/* A name in an expression that stands for a node. */
struct edge {
    uint32_t at, node;
};

struct name {
    uint32_t at, len, hash, value;
};

/* Names and what they stand for: open addressing. */
struct fx_names {
    struct name *slots;
    uint32_t n, cap; /* a power of two, or 0 */
};

struct fx {
    const char *text;
    uint32_t len, at;
    struct form *out;
    struct err *e;
    int rc;
    int parens; /* inside brackets, line ends do not count */

    struct node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct edge *edges;
    uint32_t n_edges, cap_edges;
    struct fx_names names;   /* of nodes, in this graph */
    struct fx_names graphs;  /* of the graphs inside the text */
    struct fx_names symbols; /* s0, u3: their numbers in the form */
    struct token *needed;    /* attributes that must be such graphs */
    uint32_t n_needed, cap_needed;
    uint32_t tag_at, tag_len; /* of the nodes that follow */
    uint32_t *stack;
    uint32_t n_stack, cap_stack;
    uint32_t *roots; /* barriers and the result, in order */
    uint32_t n_roots, cap_roots;
    uint32_t segment;
    uint32_t n_numbered;
    bool keep_index; /* the graph uses two devices of a kind */
    bool keep_order; /* it uses another device than the CPU, or keeps operands: the order of its
                      * statements counts */
    bool keep_operands; /* more than arithmetic on one kind of tensors, or a graph inside it: the order
                         * of all operands counts */
    bool lowered; /* it calls torch.ops: nobody takes away what nothing needs before it counts */
    bool has_types;
    uint32_t n_graphs;
    uint32_t inner_column; /* where the first graph inside another begins */
    char last;
    struct peeked {
        struct token token;
        uint32_t at, end; /* from where it was read, and to where */
        int parens, parens_after;
    } peeked;
};

/* What a dotted name calls: the word to look up, and whether it is one of torch's own functions.
 * "torch.ops.aten.add.Tensor": add; "torch.nn.functional.relu": relu; "x.sin": sin. */
struct callee {
    struct token words[6];
    int n_words;
    bool is_method; /* the first word is an operand */
};

/* What reading an expression found. */
struct shape {
    struct callee callee; /* of the first call */
    int n_tokens;
    struct token first[4];   /* the first tokens, for what is no call */
    int n_calls;             /* opening brackets behind a name */
    struct token fourth;     /* how the fourth argument begins */
    bool has_keyword_effect; /* out=, inplace=True */
    bool says_true;          /* in-place, perhaps, where arguments have no names */
};

/* --- fx_text.c --- */

/* Ends the reading with an error at a place of the text. */
void fx_fail(struct fx *f, int code, uint32_t at, const char *what);
/* Ends it because not all is understood: the exact text is the form. `why` is static. */
void fx_give_up(struct fx *f, const char *why);
/* Room for one more in an array of `size`-byte elements, to which `array_at` points; false if there is
 * none. */
bool fx_grow(struct fx *f, void *array_at, uint32_t *cap, uint32_t n, size_t size);

/* The next token, behind blanks and comments; END at the end and after a failure. */
struct token fx_next(struct fx *f);
struct token fx_peek(struct fx *f);
/* Over blanks and comments, and line ends inside brackets. False at a line end that counts. */
bool fx_skip_blanks(struct fx *f);

static inline char fx_char_at(const struct fx *f, uint32_t at)
{
    return at < f->len ? f->text[at] : '\0';
}
static inline bool fx_is(const struct fx *f, struct token t, const char *text)
{
    return t.len > 0 && f->text[t.at] == text[0] && t.len == strlen(text) &&
           memcmp(f->text + t.at, text, t.len) == 0;
}
static inline bool fx_is_mark(const struct fx *f, struct token t, char c)
{
    return t.kind == MARK && f->text[t.at] == c;
}

/* Hashes, which only sort. */
uint64_t fx_mix(uint64_t h, uint64_t v);
uint64_t fx_hash_bytes(uint64_t h, const char *s, uint32_t len);
uint64_t fx_hash_token(const struct fx *f, uint64_t hash, struct token t, bool is_index);

/* From here on the name stands for `value` (NONE: for nothing). */
void fx_set_name(struct fx *f, struct fx_names *names, struct token t, uint32_t value);
/* What a name stands for, or NONE. */
uint32_t fx_get_name(const struct fx *f, const struct fx_names *names, struct token t);

/* A type, and what is in it: "Parameter(f32[2, 3][3, 1]cuda:0)" is f32 at 10, its device at 26. */
struct fx_type {
    uint32_t wrapper; /* length of the class's name, or 0 */
    uint32_t dtype;   /* where the tensor begins */
    uint32_t device;  /* where the device does; NONE: it, or the stride, is missing */
    uint32_t end;
    bool is_tensor;
};
struct fx_type fx_read_type(const char *type, uint32_t len);
/* True of a tensor that lies in memory row by row without gaps, of sizes that are known, or repeats such. */
bool fx_lies_in_rows(const char *type, uint32_t len);
/* The end of the word at a place, the place itself if there is none. */
uint32_t fx_word_end(const char *s, uint32_t at, uint32_t len);
/* Is this word a size that is not known yet: s0, u3? */
bool fx_is_symbol(const char *word, uint32_t len);
/* Where in a type the next such size stands, from `from` on; `len` if there is none. */
uint32_t fx_find_symbol(const char *s, uint32_t from, uint32_t len, uint32_t *out_len);
/* The length of a quoted text without the index of the device that it names, where only one index
 * is used in all. */
uint32_t fx_device_len(const struct fx *f, const char *s, uint32_t len);
/* Sets f->keep_index and f->keep_order from all that the text says of devices, and checks its
 * brackets. */
void fx_scan_devices(struct fx *f);

/* --- fx_ops.c --- */

/* An operation that may move, go, or be put off: known, and with no effect asked for. */
bool fx_is_pure(const struct fx *f, const struct shape *shape, uint32_t n_edges);
/* A function whose code is torch's or Python's, by the first word of its name. */
bool fx_is_known_function(const struct fx *f, struct token first);
/* Arithmetic element for element, sums, and what only moves elements: nothing that a compiler looks for in
 * a graph in order to replace it. */
bool fx_is_arithmetic(const struct fx *f, const struct shape *shape);
/* Its two operands may change places, if all of the graph is arithmetic. */
bool fx_is_commutative(const struct fx *f, const struct node *n, const struct shape *shape);
/* Gives such a node a hash that does not depend on their order. */
void fx_hash_commutative(struct fx *f, struct node *n, const struct shape *shape);

/* --- fx_read.c --- */

/* An input: a parameter of forward, or one of the names that tree_flatten_spec fills. `type` is its
 * annotation, or of another kind than STRING. */
void fx_take_input(struct fx *f, struct token name, struct token type);
/* Is this name an operand? Not behind a dot, and not a keyword of a call. */
bool fx_is_operand(struct fx *f, struct token t, struct token before);
/* At the end: refuses a text that names modules or values whose content it does not hold. */
void fx_check_needed(struct fx *f);
/* The statement that begins with `t`, up to its line's end or ';'. */
void fx_take_statement(struct fx *f, struct token t);

/* --- fx_sizes.c --- */

/* The number of a word, by first use in the text: of a size with a '$' before it, or of what else only
 * counts by which are equal. */
void fx_put_symbol(struct fx *f, const char *s, uint32_t len);
void fx_put_number(struct fx *f, const char *s, uint32_t len);
/* The text of a type, its sizes numbered and in order. */
void fx_put_sizes(struct fx *f, const char *s, uint32_t len);

#endif

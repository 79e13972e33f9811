/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_internal.h - the inside of the HLO reader, for hlo*.c only.
 *
 *   hlo_scan.c   bytes into words, values and fields; errors with their place
 *   hlo_names.c  which value, computation or kind a name stands for
 *   hlo_ops.c    what may be done with an instruction of each opcode
 *   hlo_attr.c   the values of attributes into dictionaries of the graph
 *   hlo_line.c   instructions like ones that were read before
 *   hlo.c        instructions, computations and the module into the graph
 *
 * Thread: one at a time. Memory: spans into the input; the arrays are the reader's own.
 */
#ifndef WARM_KEYGEN_HLO_INTERNAL_H
#define WARM_KEYGEN_HLO_INTERNAL_H

#include <string.h>

#include "keygen/follow.h"
#include "keygen/forms.h"
#include "keygen/graph.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define HLO_AXIS_MAX 64u /* mesh axes of a module */

/* A piece of the input: inputs are below 4 GiB. */
struct span {
    uint32_t at, len;
};

struct attr {
    struct span key, value;
};

struct instr {
    struct span name, type, opcode;
    uint32_t end;                  /* behind its last byte */
    uint32_t operands, n_operands; /* into hlo.operands; of a constant: one, the literal */
    uint32_t attrs, n_attrs;       /* into hlo.attrs */
};

/* Names with what they stand for, and an index of them: open addressing, of each slot the upper half is
 * the name's hash and the lower its place in `entries`, + 1; 0 is an empty slot. Emptying it costs as
 * much as there is in it. */
struct name_entry {
    struct span name;
    uint32_t hash, value;
};
struct names {
    struct name_entry *entries;
    uint64_t *slots;
    uint32_t n_entries, cap_entries, n_slots;
};

#define HLO_FAMILIES_MAX 96u
#define HLO_CHUNK 16u /* values of neighbouring numbers */

/* The values of the instructions of a computation by their names: see hlo_names.c. */
struct values {
    struct family {
        struct span word;
        uint64_t front;   /* its first eight letters */
        uint32_t *chunks; /* by number / HLO_CHUNK: index + 1 */
        uint32_t n_chunks;
    } families[HLO_FAMILIES_MAX];
    uint8_t hints[256];
    struct value_chunk {
        uint32_t family, at; /* where its index is */
        uint32_t values[HLO_CHUNK];
    } * chunks;
    uint32_t n_families, n_chunks, cap_chunks;
    uint32_t
        number_max; /* so that the arrays of all families together are smaller than the input */
    struct names others;
};

/* What is known of a computation by its name. */
struct computation {
    struct span name, first_use;
    uint32_t symbol;
    bool defined, used;
    bool loose; /* a word that may have meant it came before its definition */
};

/* A large literal without its blanks; the graph borrows it. */
struct literal {
    struct literal *next;
    char text[];
};

#define HLO_OPERANDS_MAX 32u /* longer lists are not remembered */

/* A line as hlo_line.c takes it apart. */
struct line {
    struct span pieces[HLO_OPERANDS_MAX + 2]; /* before, between and behind the operands' names, and
                                               * behind the metadata */
    struct span names[HLO_OPERANDS_MAX];
    uint32_t n_operands, hash;
    bool has_metadata;
    bool open; /* it may be remembered */
};

/* What was made of a line. */
struct line_shape {
    uint32_t op; /* graph_shape */
    uint32_t n_operands, hash;
    uint32_t types, pieces; /* into the arrays below: n_operands types, and 2 pieces more */
    bool has_metadata;
};
struct lines {
    struct line_shape *shapes;
    uint32_t *types;
    struct span *pieces;
    uint32_t *slots; /* by hash: shape + 1; 0: empty */
    uint32_t n_shapes, n_types, n_pieces, cap_shapes, cap_types, cap_pieces, mask;
    uint32_t n_met, n_forgotten;
    struct follow follow; /* shapes, + 1 */
    bool given_up;
    struct names loose; /* words that would be instructions if there were any of that name */
    uint64_t loose_bits;
};

struct hlo {
    const char *base;
    uint32_t at, len;
    struct graph *g;
    struct form *out;
    struct err *e;
    int code; /* the first error; parsing stops */
    bool scheduled, has_entry;
    struct span axes[HLO_AXIS_MAX]; /* names of mesh axes, in the order of the meshes */
    uint32_t n_axes;
    struct values values;        /* of the computation at hand: name → value */
    struct names computed_names; /* name → index into computations */
    struct names opcodes, keys;  /* word → what hlo.c and hlo_attr.c know of it */
    struct computation *computations;
    struct instr *instrs; /* the parameters of the computation at hand */
    struct literal *literals;
    struct span *operands;
    struct attr *attrs;
    uint32_t *extra; /* values that the attributes of an instruction refer to */
    uint32_t n_computations, n_instrs, n_operands, n_attrs, n_extra;
    uint32_t cap_computations, cap_instrs, cap_operands, cap_attrs, cap_extra;
    uint32_t n_noted; /* instructions of the computation that are still to be put */
    bool has_root;
    struct instr root; /* the instruction that is the computation's result */
    bool by_lines;     /* each instruction is taken to stand on a line of its own */
    struct lines lines;
    struct line line;
    bool config_is_json; /* the backend_config of the instruction at hand is XLA's own message */
};

enum byte_class {
    WORD = 0, /* part of a name or number, or a sign that needs no care */
    OTHER,    /* punctuation that separates words by itself */
    OPEN,
    CLOSE,
    QUOTE,
    COMMA,
    SPACE,
    SLASH,
};

extern const uint8_t hlo_classes[256];

static inline enum byte_class hlo_class_of(char c)
{
    return (enum byte_class)hlo_classes[(uint8_t)c];
}

/* ---- hlo_scan.c ---- */

/* Marks the input as wrong at byte `at`; the first mark stays. Returns the code. */
int hlo_fail(struct hlo *h, int code, uint32_t at, const char *what);
/* At the end of the input what is missing was cut off; elsewhere it is wrong. */
int hlo_expected(struct hlo *h, const char *what);
/* Of the kind, but not understood: the exact bytes are the form. `why` is static. */
int hlo_unsupported(struct hlo *h, const char *why);
/* Room for one more in an array (given by its address) that grows by half. */
bool hlo_grow(struct hlo *h, void *array, uint32_t n, uint32_t *cap, size_t size);

/* `text` is a literal at every call of these, so its length costs nothing. */
static inline bool hlo_span_is(const struct hlo *h, struct span s, const char *text)
{
    size_t len = strlen(text);
    return s.len == len && memcmp(h->base + s.at, text, len) == 0;
}
static inline bool hlo_starts_with(const struct hlo *h, uint32_t at, const char *text)
{
    size_t len = strlen(text);
    return h->len - at >= len && memcmp(h->base + at, text, len) == 0;
}
bool hlo_key_in(const struct hlo *h, struct span key, const char *const *keys, size_t n);
bool hlo_in_braces(const struct hlo *h, struct span value);
struct span hlo_without_percent(const struct hlo *h, struct span name);
/* True if the span is a decimal number of at most 17 digits. */
bool hlo_number_of(const struct hlo *h, struct span s, int64_t *out);

/* The index after a comment that begins at `at`, or `at` itself if none does. */
uint32_t hlo_after_comment(struct hlo *h, uint32_t at);
/* The index after the string whose opening quote is at `at`. */
uint32_t hlo_after_string(struct hlo *h, uint32_t at);

/* These take from h->at and leave it after what they took. */
void hlo_skip_blank_slow(struct hlo *h);
static inline void hlo_skip_blank(struct hlo *h)
{
    if (h->at < h->len && h->base[h->at] == ' ') /* most are one blank */
        h->at++;
    if (h->at < h->len && hlo_class_of(h->base[h->at]) >= SPACE)
        hlo_skip_blank_slow(h);
}
/* Up to the first byte outside of brackets that ends a value: white space or a closing bracket
 * always, a comma if `comma_ends`. */
struct span hlo_take_value(struct hlo *h, bool comma_ends);
/* A name, number or keyword: up to white space or punctuation; may be empty. */
static inline struct span hlo_take_word(struct hlo *h)
{
    const char *at = h->base + h->at, *end = h->base + h->len, *p = at;
    while (p < end && hlo_class_of(*p) == WORD)
        p++;
    struct span word = {h->at, (uint32_t)(p - at)};
    h->at += word.len;
    return word;
}
/* White space and then `c`; false if another byte comes. */
static inline bool hlo_take_byte(struct hlo *h, char c)
{
    hlo_skip_blank(h);
    if (h->at >= h->len || h->base[h->at] != c)
        return false;
    h->at++;
    return true;
}
/* Calls `each` for every `name=value` of "{name=value, name=value}", apart by commas or blanks. */
void hlo_for_each_field(struct hlo *h, struct span braces,
                        void (*each)(struct hlo *, struct span key, struct span value));

/* ---- hlo_names.c ---- */

void hlo_names_clear(struct names *t);
void hlo_names_close(struct names *t);
/* False if the name is there already. */
bool hlo_names_add(struct hlo *h, struct names *t, struct span name, uint32_t value);
/* The value of a name, or GRAPH_NONE. */
uint32_t hlo_names_find(const struct hlo *h, const struct names *t, struct span name);
/* The value of an instruction's name, or GRAPH_NONE. */
uint32_t hlo_value_find(struct hlo *h, struct span name);
/* False if the name is there already. */
bool hlo_value_add(struct hlo *h, struct span name, uint32_t value, bool parameter);
void hlo_values_clear(struct hlo *h);
void hlo_values_close(struct values *v);
/* What `compute` says of a word: asked once for each different word. */
uint32_t hlo_word_kind(struct hlo *h, struct names *known, struct span word,
                       uint32_t (*compute)(const struct hlo *, struct span));
/* What is known of a computation; made if it is new. NULL without memory. */
struct computation *hlo_computation_of(struct hlo *h, struct span name);
/* The number of a mesh axis, or GRAPH_NONE. */
uint32_t hlo_axis_of(const struct hlo *h, struct span name);

/* ---- hlo_line.c ---- */

/* Puts instructions from h->at on into the graph as long as each is like one before. */
void hlo_lines_repeat(struct hlo *h);
/* Takes the line of an instruction apart that was read. */
void hlo_line_split(struct hlo *h, const struct instr *in);
/* Puts it into the graph, and gives its value, if one like it was there before; or GRAPH_NONE. */
uint32_t hlo_line_known(struct hlo *h);
/* Remembers it as the operation that is open in the graph and has operands; `type`: its result's. */
void hlo_line_record(struct hlo *h, uint32_t type);
/* A word did not name an instruction of the computation at hand, but might have. */
void hlo_line_loose(struct hlo *h, struct span word);
/* An instruction has this name now: lines in which it was a mere word are forgotten. */
void hlo_lines_named(struct hlo *h, struct span name);
void hlo_lines_close(struct lines *l);

/* ---- hlo_ops.c ---- */

/* What the graph may do with the instruction: traits of graph.h. */
unsigned hlo_traits_of(struct hlo *h, const struct instr *in);

/* ---- hlo_attr.c ---- */

/* True for the fields of metadata that say where an instruction came from. */
bool hlo_is_origin_key(const char *key, size_t len);

/* Puts one attribute into the open dictionary. */
void hlo_put_attr(struct hlo *h, const struct attr *a);
/* The dictionary of `n` attributes from index `first`. */
uint32_t hlo_dict_of(struct hlo *h, uint32_t first, uint32_t n);

#endif

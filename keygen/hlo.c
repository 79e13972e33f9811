/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo.c - HLO text, before and after optimization, into a graph.
 *
 *     HloModule name, attribute=value, ...            the module's dictionary
 *     FileNames / FunctionNames / ... tables          source locations: dropped
 *     %name (p: shape, ...) -> shape { ... }          a private function
 *     ENTRY %name ... { ... }                         the public one
 *       ROOT %x = shape opcode(%a, %b), attribute=value, ...
 *
 * A computation goes in two steps, because its parameters may stand anywhere in it: first each
 * instruction is cut into views (one scan of the text), then parameters become the function's
 * arguments and the rest its operations, with the root as the operand of a final "return".
 * Names, `metadata`, comments and white space end here; what an attribute that we do not know
 * says is kept. KEYS.md, section HLO, argues each thing that is dropped.
 *
 * Nothing recurses: values of attributes are scanned with a depth count.
 *
 * Thread: any; no state. Memory: views into the input; per computation 24 bytes an instruction and
 * 8 to 20 for each operand and attribute, reused by the next one.
 */
#define XXH_INLINE_ALL
#include <stdlib.h>
#include <string.h>

#include "keygen/forms.h"
#include "keygen/graph.h"

#define NAME_START 256u /* slots that a table of names begins with, a power of two */
#define AXIS_MAX 64u    /* mesh axes of a module */
#define PIECE 4096      /* bytes of a value that are cleaned at a time */

/* A piece of the input: inputs are below 4 GiB. */
struct span {
    uint32_t at, len;
};

struct attr {
    struct span key, value;
};

struct instr {
    struct span name, type, opcode;
    uint32_t operands, n_operands; /* into hlo.operands; of a constant: one, the literal */
    uint32_t attrs, n_attrs;       /* into hlo.attrs */
};

/* Open addressing; a slot is in use if `epoch` is the table's. Emptying it costs nothing. */
struct name_slot {
    struct span name;
    uint32_t hash, epoch, value;
};
struct names {
    struct name_slot *slots;
    uint32_t n_slots, n_used, epoch;
};

/* What is known of a computation by its name. */
struct computation {
    struct span name, first_use;
    uint32_t symbol;
    bool defined, used, effect;
    bool loose; /* a word that may have meant it came before its definition */
};

struct hlo {
    const char *base;
    uint32_t at, len;
    struct graph *g;
    struct form *out;
    struct err *e;
    int code; /* the first error; parsing stops */
    bool scheduled, has_entry;
    struct span axes[AXIS_MAX]; /* names of mesh axes, in the order of the meshes */
    uint32_t n_axes;
    struct names values;         /* of the computation at hand: name → value */
    struct names computed_names; /* name → index into computations */
    struct computation *computations;
    struct instr *instrs;
    struct span *operands;
    struct attr *attrs;
    uint32_t *extra; /* values that the attributes of an instruction refer to */
    uint32_t n_computations, n_instrs, n_operands, n_attrs, n_extra;
    uint32_t cap_computations, cap_instrs, cap_operands, cap_attrs, cap_extra;
    uint32_t root; /* index into instrs, or GRAPH_NONE */
    bool effect;   /* the computation at hand has an operation with an effect */
};

/* ---- errors ---- */

static int hlo_fail(struct hlo *h, int code, uint32_t at, const char *what)
{
    if (h->code)
        return h->code;
    h->code = err_set(h->e, code, "%s", what);
    if (h->e) {
        unsigned line = 1, column = 1;
        for (uint32_t i = 0; i < at && i < h->len; i++) {
            column = h->base[i] == '\n' ? 1 : column + 1;
            line += h->base[i] == '\n';
        }
        h->e->line = line;
        h->e->column = column;
    }
    return h->code;
}

/* At the end of the input what is missing was cut off; elsewhere it is wrong. */
static int hlo_expected(struct hlo *h, const char *what)
{
    return hlo_fail(h, h->at >= h->len ? WARM_ETRUNCATED : WARM_EMALFORMED, h->at, what);
}

static int hlo_unsupported(struct hlo *h, const char *why)
{
    if (!h->code)
        h->out->why_exact = why;
    return hlo_fail(h, WARM_EUNSUPPORTED, h->at, why);
}

/* Room for one more in an array that grows by half. */
static bool grow(struct hlo *h, void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap + *cap / 2 + 64;
    void *old;
    memcpy(&old, array, sizeof old);
    void *new = more > *cap ? realloc(old, more * size) : NULL;
    if (!new) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return false;
    }
    memcpy(array, &new, sizeof new);
    *cap = more;
    return true;
}

/* ---- bytes ---- */

enum byte_class {
    WORD = 0, /* part of a name or number, or a sign that needs no care */
    OPEN,
    CLOSE,
    QUOTE,
    COMMA,
    SPACE,
    SLASH,
    OTHER, /* punctuation that separates words by itself */
};

/* clang-format off */
static const uint8_t classes[256] = {
    ['('] = OPEN, ['['] = OPEN, ['{'] = OPEN, [')'] = CLOSE, [']'] = CLOSE, ['}'] = CLOSE,
    ['"'] = QUOTE, [','] = COMMA, [' '] = SPACE, ['\t'] = SPACE, ['\n'] = SPACE, ['\r'] = SPACE,
    ['/'] = SLASH, ['='] = OTHER, [':'] = OTHER, ['<'] = OTHER, ['>'] = OTHER,
};
/* clang-format on */

static enum byte_class class_of(char c) { return (enum byte_class)classes[(uint8_t)c]; }

static bool span_is(const struct hlo *h, struct span s, const char *text)
{
    size_t len = strlen(text);
    return s.len == len && memcmp(h->base + s.at, text, len) == 0;
}

static bool starts_with(const struct hlo *h, uint32_t at, const char *text)
{
    size_t len = strlen(text);
    return h->len - at >= len && memcmp(h->base + at, text, len) == 0;
}

/* The index after a comment that begins at `at`, or `at` itself if none does. */
static uint32_t after_comment(struct hlo *h, uint32_t at)
{
    const char *from = h->base + at;
    if (starts_with(h, at, "/*")) {
        const char *end = memmem(from + 2, h->len - at - 2, "*/", 2);
        if (!end)
            hlo_fail(h, WARM_ETRUNCATED, at, "comment without end");
        return end ? (uint32_t)(end - h->base) + 2 : h->len;
    }
    if (starts_with(h, at, "//")) {
        const char *end = memchr(from, '\n', h->len - at);
        return end ? (uint32_t)(end - h->base) : h->len;
    }
    return at;
}

static void skip_blank(struct hlo *h)
{
    while (h->at < h->len) {
        enum byte_class c = class_of(h->base[h->at]);
        uint32_t next = c == SPACE ? h->at + 1 : c == SLASH ? after_comment(h, h->at) : h->at;
        if (next == h->at)
            return;
        h->at = next;
    }
}

/* The index after the string whose opening quote is at `at`. */
static uint32_t after_string(struct hlo *h, uint32_t at)
{
    for (uint32_t i = at + 1; i < h->len; i++) {
        const char *stop = h->base + i;
        while (stop < h->base + h->len && *stop != '"' && *stop != '\\')
            stop++;
        i = (uint32_t)(stop - h->base);
        if (i < h->len && *stop == '"')
            return i + 1;
        i++; /* the escaped byte */
    }
    hlo_fail(h, WARM_ETRUNCATED, at, "string without end");
    return h->len;
}

/* Scans from h->at to the first byte outside of brackets that ends a value: white space or a
 * closing bracket always, a comma if `comma_ends`. Leaves h->at there. */
static struct span take_value(struct hlo *h, bool comma_ends)
{
    uint32_t start = h->at, depth = 0, i = start;
    while (i < h->len && !h->code) {
        enum byte_class c = class_of(h->base[i]);
        if (c == WORD || c == OTHER) {
            i++;
            continue;
        }
        if (c == QUOTE) {
            i = after_string(h, i);
            continue;
        }
        if (!depth && (c == SPACE || c == CLOSE || (c == COMMA && comma_ends)))
            break;
        depth += c == OPEN;
        depth -= c == CLOSE;
        uint32_t next = c == SLASH ? after_comment(h, i) : i;
        i = next > i ? next : i + 1;
    }
    h->at = i;
    if (depth)
        hlo_fail(h, WARM_ETRUNCATED, start, "bracket without its partner");
    return (struct span){start, i - start};
}

/* A name, number or keyword: up to white space or punctuation; may be empty. */
static struct span take_word(struct hlo *h)
{
    uint32_t start = h->at;
    while (h->at < h->len && class_of(h->base[h->at]) == WORD)
        h->at++;
    return (struct span){start, h->at - start};
}

static struct span without_percent(const struct hlo *h, struct span name)
{
    if (name.len && h->base[name.at] == '%')
        return (struct span){name.at + 1, name.len - 1};
    return name;
}

static bool take_byte(struct hlo *h, char c)
{
    skip_blank(h);
    if (h->at >= h->len || h->base[h->at] != c)
        return false;
    h->at++;
    return true;
}

/* ---- tables of names ---- */

static uint32_t hash_bytes(const char *s, uint32_t len) { return (uint32_t)XXH3_64bits(s, len); }

static struct name_slot *names_slot(const struct hlo *h, const struct names *t, struct span name,
                                    uint32_t hash)
{
    for (uint32_t i = hash & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
        struct name_slot *s = &t->slots[i];
        if (s->epoch != t->epoch ||
            (s->hash == hash && s->name.len == name.len &&
             memcmp(h->base + s->name.at, h->base + name.at, name.len) == 0))
            return s;
    }
}

/* Keeps at most half of the slots in use, so that a search always ends. */
static bool names_reserve(struct hlo *h, struct names *t)
{
    if (t->n_slots && t->n_used < t->n_slots / 2)
        return true;
    struct names bigger = {
        .n_slots = t->n_slots ? t->n_slots * 2 : NAME_START, .n_used = t->n_used, .epoch = 1};
    bigger.slots = bigger.n_slots ? calloc(bigger.n_slots, sizeof *bigger.slots) : NULL;
    if (!bigger.slots) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < t->n_slots; i++)
        if (t->slots[i].epoch == t->epoch) {
            struct name_slot *s = names_slot(h, &bigger, t->slots[i].name, t->slots[i].hash);
            *s = t->slots[i];
            s->epoch = 1;
        }
    free(t->slots);
    *t = bigger;
    return true;
}

static void names_clear(struct names *t)
{
    t->n_used = 0;
    if (++t->epoch == 0) {
        memset(t->slots, 0, t->n_slots * sizeof *t->slots);
        t->epoch = 1;
    }
}

/* False if the name is there already. */
static bool names_add(struct hlo *h, struct names *t, struct span name, uint32_t value)
{
    if (!names_reserve(h, t))
        return true;
    uint32_t hash = hash_bytes(h->base + name.at, name.len);
    struct name_slot *s = names_slot(h, t, name, hash);
    if (s->epoch == t->epoch)
        return false;
    *s = (struct name_slot){name, hash, t->epoch, value};
    t->n_used++;
    return true;
}

/* The value of a name, or GRAPH_NONE. */
static uint32_t names_find(const struct hlo *h, const struct names *t, struct span name)
{
    if (!t->n_slots)
        return GRAPH_NONE;
    const struct name_slot *s = names_slot(h, t, name, hash_bytes(h->base + name.at, name.len));
    return s->epoch == t->epoch ? s->value : GRAPH_NONE;
}

static struct computation *computation_of(struct hlo *h, struct span name)
{
    uint32_t i = names_find(h, &h->computed_names, name);
    if (i != GRAPH_NONE)
        return &h->computations[i];
    if (!grow(h, &h->computations, h->n_computations, &h->cap_computations,
              sizeof *h->computations))
        return NULL;
    i = h->n_computations++;
    h->computations[i] = (struct computation){
        .name = name, .symbol = graph_symbol(h->g, h->base + name.at, name.len)};
    names_add(h, &h->computed_names, name, i);
    return &h->computations[i];
}

/* ---- instructions into views ---- */

static void take_attrs(struct hlo *h, uint32_t *n)
{
    *n = 0;
    while (!h->code && take_byte(h, ',')) {
        skip_blank(h);
        struct attr a = {.key = take_word(h)};
        if (!a.key.len || !take_byte(h, '=')) {
            hlo_expected(h, "an attribute `name=value` was expected");
            return;
        }
        skip_blank(h);
        a.value = take_value(h, true);
        if (!a.value.len)
            hlo_expected(h, "an attribute without a value");
        if (!h->code && grow(h, &h->attrs, h->n_attrs, &h->cap_attrs, sizeof *h->attrs)) {
            h->attrs[h->n_attrs++] = a;
            (*n)++;
        }
    }
}

static void add_operand(struct hlo *h, struct instr *in, struct span operand)
{
    if (grow(h, &h->operands, h->n_operands, &h->cap_operands, sizeof *h->operands)) {
        h->operands[h->n_operands++] = operand;
        in->n_operands++;
    }
}

/* "%a, f32[2]{0} %b": an operand's name is the last word; the shape before it repeats what its
 * definition says. h->at is after the opening bracket; leaves it after the closing one. */
static void take_operands(struct hlo *h, struct instr *in)
{
    struct span last = {0};
    while (!h->code) {
        skip_blank(h);
        if (h->at >= h->len) {
            hlo_expected(h, "`)` was expected");
            return;
        }
        char c = h->base[h->at];
        if (c == ',' || c == ')') {
            if (last.len)
                add_operand(h, in, without_percent(h, last));
            else if (c == ',' || in->n_operands)
                hlo_expected(h, "an operand was expected");
            last.len = 0;
            h->at++;
            if (c == ')')
                return;
            continue;
        }
        last = take_value(h, true);
        if (!last.len)
            hlo_expected(h, "an operand was expected");
    }
}

/* The literal of a constant or the number of a parameter: all up to the closing bracket. */
static void take_literal(struct hlo *h, struct instr *in)
{
    uint32_t start = h->at, depth = 1, i = start;
    for (; i < h->len; i++) {
        char c = h->base[i];
        if (c == '"') {
            i = after_string(h, i) - 1;
        } else if (c == '(') {
            depth++;
        } else if (c == ')' && --depth == 0) {
            break;
        }
    }
    h->at = i < h->len ? i + 1 : h->len;
    if (depth)
        hlo_fail(h, WARM_ETRUNCATED, start, "literal without end");
    add_operand(h, in, (struct span){start, i - start});
}

/* One instruction, from its name to its last attribute. */
static void take_instr(struct hlo *h, struct span name)
{
    struct instr in = {.name = without_percent(h, name)};
    if (!in.name.len || !take_byte(h, '=')) {
        hlo_expected(h, "an instruction `name = shape opcode(...)` was expected");
        return;
    }
    skip_blank(h);
    in.type = take_value(h, false);
    skip_blank(h);
    in.opcode = take_word(h);
    if (!in.type.len || !in.opcode.len || !take_byte(h, '(')) {
        hlo_expected(h, "an instruction `name = shape opcode(...)` was expected");
        return;
    }
    in.operands = h->n_operands;
    if (span_is(h, in.opcode, "constant") || span_is(h, in.opcode, "parameter"))
        take_literal(h, &in);
    else
        take_operands(h, &in);
    in.attrs = h->n_attrs;
    take_attrs(h, &in.n_attrs);
    if (!h->code && grow(h, &h->instrs, h->n_instrs, &h->cap_instrs, sizeof *h->instrs))
        h->instrs[h->n_instrs++] = in;
}

/* The instructions between the braces; h->at is after the opening one. */
static void take_body(struct hlo *h)
{
    h->n_instrs = h->n_operands = h->n_attrs = 0;
    h->root = GRAPH_NONE;
    while (!h->code) {
        skip_blank(h);
        if (take_byte(h, '}'))
            break;
        struct span name = take_word(h);
        if (span_is(h, name, "ROOT")) {
            if (h->root != GRAPH_NONE)
                hlo_fail(h, WARM_EMALFORMED, name.at, "a computation with two roots");
            h->root = h->n_instrs;
            skip_blank(h);
            name = take_word(h);
        }
        take_instr(h, name);
    }
    /* The parser of HLO takes the last instruction where none is marked. */
    if (h->root == GRAPH_NONE && h->n_instrs)
        h->root = h->n_instrs - 1;
    if (!h->n_instrs)
        hlo_expected(h, "a computation without instructions");
}

/* ---- values of attributes ---- */

/* Attributes whose words name computations even without `%`. */
static const char *const computation_keys[] = {
    "to_apply",           "calls",  "condition", "body",       "branch_computations",
    "true_computation",   "select", "scatter",   "comparator", "false_computation",
    "called_computations"};

/* Attributes whose words are never names of anything in the module: their words need no look-up.
 * All others that are not listed here or above are unknown. */
static const char *const plain_keys[] = {"dimensions",
                                         "lhs_contracting_dims",
                                         "rhs_contracting_dims",
                                         "lhs_batch_dims",
                                         "rhs_batch_dims",
                                         "direction",
                                         "index",
                                         "slice",
                                         "iota_dimension",
                                         "dynamic_slice_sizes",
                                         "offset_dims",
                                         "collapsed_slice_dims",
                                         "start_index_map",
                                         "index_vector_dim",
                                         "slice_sizes",
                                         "update_window_dims",
                                         "inserted_window_dims",
                                         "scatter_dims_to_operand_dims",
                                         "window",
                                         "dim_labels",
                                         "padding",
                                         "is_stable",
                                         "type",
                                         "kind",
                                         "feature_group_count",
                                         "batch_group_count",
                                         "operand_precision",
                                         "replica_groups",
                                         "source_target_pairs",
                                         "use_global_device_ids",
                                         "constrain_layout",
                                         "custom_call_has_side_effect",
                                         "api_version",
                                         "output_to_operand_aliasing",
                                         "operand_layout_constraints",
                                         "indices_are_sorted",
                                         "unique_indices",
                                         "fft_type",
                                         "fft_length",
                                         "lower",
                                         "left_side",
                                         "transpose_a",
                                         "unit_diagonal",
                                         "exponent_bits",
                                         "mantissa_bits",
                                         "epsilon",
                                         "feature_index",
                                         "algorithm",
                                         "distribution",
                                         "entry_computation_layout",
                                         "input_output_alias",
                                         "num_partitions",
                                         "replica_count",
                                         "is_scheduled",
                                         "allow_spmd_sharding_propagation_to_parameters",
                                         "allow_spmd_sharding_propagation_to_output",
                                         "buffer_donor",
                                         "largest",
                                         "k"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool key_in(const struct hlo *h, struct span key, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (h->base[key.at] == keys[i][0] && span_is(h, key, keys[i]))
            return true;
    return false;
}

/* How the words of a value are read. */
enum reading {
    PLAIN,        /* as they are */
    COMPUTATIONS, /* words are names of computations */
    VALUES,       /* words are names of instructions of this computation */
    UNKNOWN,      /* words may be names of anything */
    SHARDY,       /* a text of the sdy dialect: quoted words are axes */
};

/* A value on its way into the dictionary. */
struct cleaner {
    struct hlo *h;
    enum reading reading;
    bool effect; /* refers to a computation that has one, or that is not yet known */
    char last;   /* the byte before, to know whether white space separates two words */
    bool space;  /* white space is pending */
    size_t used;
    char piece[PIECE];
};

static void clean_flush(struct cleaner *c)
{
    if (c->used)
        graph_dict_text(c->h->g, c->piece, c->used);
    c->used = 0;
}

static void clean_put(struct cleaner *c, const char *text, size_t len)
{
    if (len > sizeof c->piece - c->used)
        clean_flush(c);
    if (len > sizeof c->piece) {
        graph_dict_text(c->h->g, text, len);
        return;
    }
    memcpy(c->piece + c->used, text, len);
    c->used += len;
}

static void clean_text(struct cleaner *c, const char *text) { clean_put(c, text, strlen(text)); }

static void clean_number(struct cleaner *c, const char *before, uint32_t n, const char *after)
{
    char digits[10];
    size_t i = sizeof digits;
    do
        digits[--i] = (char)('0' + n % 10);
    while (n /= 10);
    clean_text(c, before);
    clean_put(c, digits + i, sizeof digits - i);
    clean_text(c, after);
}

static void clean_symbol(struct cleaner *c, struct computation *of)
{
    clean_flush(c);
    graph_dict_symbol(c->h->g, of->symbol);
    of->used = true;
    c->effect |= !of->defined || of->effect;
}

/* Puts a reference to a value: it becomes one more operand, its place in the value a number. */
static void clean_value(struct cleaner *c, uint32_t value)
{
    struct hlo *h = c->h;
    if (!grow(h, &h->extra, h->n_extra, &h->cap_extra, sizeof *h->extra))
        return;
    clean_number(c, "$", h->n_extra, "");
    h->extra[h->n_extra++] = value;
}

static uint32_t axis_of(const struct hlo *h, struct span name)
{
    for (uint32_t i = 0; i < h->n_axes; i++)
        if (h->axes[i].len == name.len &&
            memcmp(h->base + h->axes[i].at, h->base + name.at, name.len) == 0)
            return i;
    return GRAPH_NONE;
}

/* "%name" or, where the attribute says so, a bare name. */
static void clean_reference(struct cleaner *c, struct span word)
{
    struct hlo *h = c->h;
    struct span name = without_percent(h, word);
    uint32_t value = c->reading == COMPUTATIONS ? GRAPH_NONE : names_find(h, &h->values, name);
    if (value != GRAPH_NONE) {
        clean_value(c, value);
        return;
    }
    if (c->reading == VALUES) {
        hlo_fail(h, WARM_EMALFORMED, word.at, "no such instruction before this one");
        return;
    }
    struct computation *of = computation_of(h, name);
    if (!of)
        return;
    if (!of->used)
        of->first_use = word;
    clean_symbol(c, of);
}

/* A word of an attribute that we do not know: kept as it is and, if something in the module has
 * that name, followed by what it then is. So it is right whether or not the word means that. */
static void clean_unknown_word(struct cleaner *c, struct span word)
{
    struct hlo *h = c->h;
    clean_put(c, h->base + word.at, word.len);
    uint32_t axis = axis_of(h, word), value = names_find(h, &h->values, word);
    if (axis != GRAPH_NONE)
        clean_number(c, "<axis ", axis, ">");
    if (value != GRAPH_NONE)
        clean_value(c, value);
    char first = h->base[word.at];
    if (first == '-' || (first >= '0' && first <= '9'))
        return; /* no computation has a number for a name */
    struct computation *of = computation_of(h, word);
    if (of && of->defined)
        clean_symbol(c, of);
    else if (of)
        of->loose = true;
}

static void clean_word(struct cleaner *c, struct span word)
{
    bool percent = c->h->base[word.at] == '%';
    if (percent || c->reading == COMPUTATIONS || c->reading == VALUES)
        clean_reference(c, word);
    else if (c->reading == UNKNOWN)
        clean_unknown_word(c, word);
    else
        clean_put(c, c->h->base + word.at, word.len);
}

/* The text of the sdy dialect inside a string: `\"x\"` is an axis, by its place in the meshes. */
static void clean_shardy_string(struct cleaner *c, struct span s)
{
    const struct hlo *h = c->h;
    uint32_t i = s.at, end = s.at + s.len;
    while (i < end) {
        const char *quote = memmem(h->base + i, end - i, "\\\"", 2);
        uint32_t open = quote ? (uint32_t)(quote - h->base) : end;
        clean_put(c, h->base + i, open - i);
        if (!quote)
            return;
        const char *close = memmem(quote + 2, end - open - 2, "\\\"", 2);
        struct span name = {open + 2, close ? (uint32_t)(close - quote) - 2 : 0};
        uint32_t axis = close ? axis_of(h, name) : GRAPH_NONE;
        i = close ? (uint32_t)(close - h->base) + 2 : end;
        if (axis != GRAPH_NONE)
            clean_number(c, "<axis ", axis, ">");
        else
            clean_put(c, quote, i - open);
    }
}

static void clean_string(struct cleaner *c, struct span s)
{
    const struct hlo *h = c->h;
    struct span inner = {s.at + 1, s.len - 2};
    uint32_t axis = h->n_axes ? axis_of(h, inner) : GRAPH_NONE;
    if (c->reading == SHARDY && axis != GRAPH_NONE) {
        clean_number(c, "<axis ", axis, ">");
    } else if (c->reading == SHARDY) {
        clean_shardy_string(c, s);
    } else {
        clean_put(c, h->base + s.at, s.len);
        if (axis != GRAPH_NONE && c->reading == UNKNOWN)
            clean_number(c, "<axis ", axis, ">");
    }
}

/* Puts a value without comments and without white space but between two words. */
static void clean(struct cleaner *c, struct span value)
{
    struct hlo *h = c->h;
    uint32_t end = value.at + value.len;
    for (uint32_t i = value.at; i < end && !h->code;) {
        enum byte_class kind = class_of(h->base[i]);
        uint32_t next = kind == SLASH ? after_comment(h, i) : i;
        if (kind == SPACE || next > i) {
            c->space = true;
            i = next > i ? next : i + 1;
            continue;
        }
        if (c->space && kind == WORD && class_of(c->last) == WORD)
            clean_text(c, " ");
        c->space = false;
        h->at = i;
        if (kind == QUOTE) {
            uint32_t after = after_string(h, i);
            clean_string(c, (struct span){i, after - i});
            i = after;
        } else if (kind == WORD) {
            struct span word = take_word(h);
            clean_word(c, word);
            i = word.at + word.len;
        } else {
            clean_put(c, h->base + i, 1);
            i++;
        }
        c->last = h->base[i - 1];
    }
}

/* Puts one value and flushes it. True if it refers to a computation with an effect. */
static bool put_value(struct hlo *h, struct span value, enum reading reading)
{
    struct cleaner c = {.h = h, .reading = reading, .last = ','};
    uint32_t at = h->at;
    clean(&c, value);
    clean_flush(&c);
    h->at = at;
    return c.effect;
}

/* Calls `each` for every `name=value` of "{name=value, name=value}", separated by commas or spaces.
 */
static void for_each_field(struct hlo *h, struct span braces,
                           void (*each)(struct hlo *, struct span, struct span, void *), void *user)
{
    uint32_t at = h->at, end = braces.at + braces.len - 1;
    h->at = braces.at + 1;
    while (!h->code) {
        skip_blank(h);
        if (h->at >= end)
            break;
        if (h->base[h->at] == ',') {
            h->at++;
            continue;
        }
        struct span key = take_word(h), value = {h->at, 0};
        if (take_byte(h, '=')) {
            skip_blank(h);
            value = take_value(h, true);
        } else if (!key.len) {
            key = take_value(h, true);
        }
        if (!key.len && !value.len) {
            hlo_expected(h, "a field `name=value` was expected");
            break;
        }
        each(h, key, value, user);
    }
    h->at = at;
}

static bool in_braces(const struct hlo *h, struct span value)
{
    return value.len >= 2 && h->base[value.at] == '{';
}

/* Says where an operation came from, and nothing that a pass decides by. `preserve_layout` and
 * fields that we do not know are kept. */
static const char *const origin_keys[] = {
    "op_type",       "op_name",           "source_file",    "source_line",      "source_end_line",
    "source_column", "source_end_column", "stack_frame_id", "deduplicated_name"};

static void put_metadata_field(struct hlo *h, struct span key, struct span value, void *user)
{
    (void)user;
    if (key_in(h, key, origin_keys, COUNT(origin_keys)))
        return;
    graph_dict_key(h->g, "metadata", 8);
    put_value(h, key, PLAIN);
    graph_dict_text(h->g, "=", 1);
    put_value(h, value, UNKNOWN);
}

/* A sharding may carry metadata of its own; it says where the sharding was written. */
static void put_sharding(struct hlo *h, struct span value)
{
    graph_dict_key(h->g, "sharding", 8);
    uint32_t at = value.at, end = value.at + value.len;
    for (;;) {
        const char *from = h->base + at, *found = memmem(from, end - at, "metadata={", 10);
        uint32_t start = found ? (uint32_t)(found - h->base) : end;
        put_value(h, (struct span){at, start - at}, UNKNOWN);
        if (!found)
            return;
        uint32_t saved = h->at;
        h->at = start + 9;
        take_value(h, true);
        at = h->at;
        h->at = saved;
    }
}

static void put_frontend_field(struct hlo *h, struct span key, struct span value, void *user)
{
    (void)user;
    bool shardy = key.len > 8 && memcmp(h->base + key.at, "xla.sdy.", 8) == 0;
    char name[256] = "frontend.";
    size_t len = key.len < sizeof name - 9 ? key.len : 0;
    memcpy(name + 9, h->base + key.at, len);
    graph_dict_key(h->g, name, 9 + len);
    if (!len) { /* too long for a key: both go into the value */
        put_value(h, key, PLAIN);
        graph_dict_text(h->g, "=", 1);
    }
    put_value(h, value, shardy ? SHARDY : UNKNOWN);
}

/* True if the span is a decimal number of at most 17 digits. */
static bool number_of(const struct hlo *h, struct span s, int64_t *out)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < s.len; i++) {
        char c = h->base[s.at + i];
        if (c < '0' || c > '9' || i == 17)
            return false;
        n = n * 10 + (c - '0');
    }
    *out = n;
    return s.len > 0;
}

/* Puts one attribute into the open dictionary. True if it refers to a computation with an effect.
 */
static bool put_attr(struct hlo *h, const struct attr *a)
{
    if (span_is(h, a->key, "metadata") && in_braces(h, a->value)) {
        for_each_field(h, a->value, put_metadata_field, NULL);
        return false;
    }
    if (span_is(h, a->key, "frontend_attributes") && in_braces(h, a->value)) {
        for_each_field(h, a->value, put_frontend_field, NULL);
        return false;
    }
    if (span_is(h, a->key, "sharding")) {
        put_sharding(h, a->value);
        return false;
    }
    graph_dict_key(h->g, h->base + a->key.at, a->key.len);
    int64_t channel;
    if (span_is(h, a->key, "channel_id") && number_of(h, a->value, &channel)) {
        graph_dict_channel(h->g, channel);
        return false;
    }
    enum reading reading = UNKNOWN;
    if (key_in(h, a->key, plain_keys, COUNT(plain_keys)))
        reading = PLAIN;
    else if (key_in(h, a->key, computation_keys, COUNT(computation_keys)))
        reading = COMPUTATIONS;
    else if (span_is(h, a->key, "control-predecessors"))
        reading = VALUES;
    return put_value(h, a->value, reading);
}

/* The dictionary of the attributes from `first`. */
static uint32_t dict_of(struct hlo *h, uint32_t first, uint32_t n, bool *effect)
{
    if (!n)
        return 0;
    graph_dict_begin(h->g);
    for (uint32_t i = 0; i < n; i++)
        *effect |= put_attr(h, &h->attrs[first + i]);
    return graph_dict_end(h->g);
}

/* ---- computations into the graph ---- */

/* What XLA itself may do with an instruction of each opcode: `pure` ones may be merged, moved and
 * removed. COMMUTES_INT: the operands may change places if they are integers; COMMUTES also if they
 * are real numbers. The sum of reals is not among those: of a*b + c*d one product may be fused with
 * the sum, and which one depends on the order. Any opcode that is not here has an effect. */
enum opcode_kind { PURE, COMMUTES_INT, COMMUTES, DISTINCT };

struct opcode {
    const char *name;
    enum opcode_kind kind;
};

/* Sorted by name. */
static const struct opcode opcodes[] = {
    {"abs", PURE},
    {"acos", PURE},
    {"acosh", PURE},
    {"add", COMMUTES_INT},
    {"and", COMMUTES_INT},
    {"asin", PURE},
    {"asinh", PURE},
    {"atan2", PURE},
    {"atanh", PURE},
    {"batch-norm-grad", PURE},
    {"batch-norm-inference", PURE},
    {"batch-norm-training", PURE},
    {"bitcast", PURE},
    {"bitcast-convert", PURE},
    {"broadcast", PURE},
    {"cbrt", PURE},
    {"ceil", PURE},
    {"cholesky", PURE},
    {"clamp", PURE},
    {"compare", PURE},
    {"complex", PURE},
    {"concatenate", PURE},
    {"conditional", PURE},
    {"constant", PURE},
    {"convert", PURE},
    {"convolution", PURE},
    {"copy", PURE},
    {"cosh", PURE},
    {"cosine", PURE},
    {"count-leading-zeros", PURE},
    {"divide", PURE},
    {"dot", PURE},
    {"dynamic-reshape", PURE},
    {"dynamic-slice", PURE},
    {"dynamic-update-slice", PURE},
    {"erf", PURE},
    {"exponential", PURE},
    {"exponential-minus-one", PURE},
    {"fft", PURE},
    {"floor", PURE},
    {"fusion", PURE},
    {"gather", PURE},
    {"get-dimension-size", PURE},
    {"get-tuple-element", PURE},
    {"imag", PURE},
    {"iota", PURE},
    {"is-finite", PURE},
    {"log", PURE},
    {"log-plus-one", PURE},
    {"logistic", PURE},
    {"map", PURE},
    {"maximum", COMMUTES_INT},
    {"minimum", COMMUTES_INT},
    {"multiply", COMMUTES},
    {"negate", PURE},
    {"not", PURE},
    {"or", COMMUTES_INT},
    {"pad", PURE},
    {"partition-id", PURE},
    {"popcnt", PURE},
    {"power", PURE},
    {"ragged-dot", PURE},
    {"real", PURE},
    {"reduce", PURE},
    {"reduce-precision", PURE},
    {"reduce-window", PURE},
    {"remainder", PURE},
    {"replica-id", PURE},
    {"reshape", PURE},
    {"reverse", PURE},
    {"rng-bit-generator", PURE},
    {"round-nearest-afz", PURE},
    {"round-nearest-even", PURE},
    {"rsqrt", PURE},
    {"scaled-dot", PURE},
    {"scan", PURE},
    {"scatter", PURE},
    {"select", PURE},
    {"select-and-scatter", PURE},
    {"set-dimension-size", PURE},
    {"shift-left", PURE},
    {"shift-right-arithmetic", PURE},
    {"shift-right-logical", PURE},
    {"sign", PURE},
    {"sine", PURE},
    {"sinh", PURE},
    {"slice", PURE},
    {"sort", PURE},
    {"sqrt", PURE},
    {"stochastic-convert", PURE},
    {"subtract", PURE},
    {"tan", PURE},
    {"tanh", PURE},
    {"topk", PURE},
    {"transpose", PURE},
    {"triangular-solve", PURE},
    {"tuple", PURE},
    {"while", PURE},
    {"xor", COMMUTES_INT},
};

static int compare_opcode(const void *key, const void *element)
{
    const struct view *name = key;
    const struct opcode *o = element;
    int order = strncmp(name->data, o->name, name->len);
    return order ? order : o->name[name->len] ? -1 : 0;
}

static unsigned traits_of(const struct hlo *h, const struct instr *in)
{
    struct view name = {h->base + in->opcode.at, in->opcode.len};
    const struct opcode *o =
        bsearch(&name, opcodes, COUNT(opcodes), sizeof *opcodes, compare_opcode);
    if (!o)
        return GRAPH_EFFECT;
    char t = h->base[in->type.at]; /* s32, u8, pred; f32, bf16; c64; a tuple's bracket */
    bool whole = t == 's' || t == 'u' || t == 'p', real = t == 'f' || t == 'b';
    bool commutes = (o->kind == COMMUTES_INT && whole) || (o->kind == COMMUTES && (whole || real));
    return (unsigned)GRAPH_PURE | (commutes && in->n_operands == 2 ? GRAPH_COMMUTES : 0u);
}

/* A custom call is the program's own code: it may only be moved and dropped, and not even that if
 * it says that it has a side effect. */
static unsigned custom_call_traits(const struct hlo *h, const struct instr *in)
{
    for (uint32_t i = 0; i < in->n_attrs; i++) {
        const struct attr *a = &h->attrs[in->attrs + i];
        if (span_is(h, a->key, "custom_call_has_side_effect") && !span_is(h, a->value, "false"))
            return GRAPH_EFFECT;
    }
    return GRAPH_DISTINCT;
}

/* Shapes as the printer gives them have no blanks; tuples have them, and comments. */
static uint32_t type_of(struct hlo *h, struct span type)
{
    const char *text = h->base + type.at;
    uint32_t blank = 0;
    while (blank < type.len && class_of(text[blank]) != SPACE && class_of(text[blank]) != SLASH)
        blank++;
    if (blank == type.len)
        return graph_type(h->g, text, type.len);
    char *clean_shape = malloc(type.len);
    if (!clean_shape) {
        hlo_fail(h, WARM_ENOMEM, type.at, "out of memory");
        return 0;
    }
    size_t n = 0;
    for (uint32_t i = 0; i < type.len;) {
        enum byte_class c = class_of(text[i]);
        uint32_t next = c == SLASH ? after_comment(h, type.at + i) - type.at : i;
        if (c != SPACE && next == i)
            clean_shape[n++] = text[i];
        i = next > i ? next : i + 1;
    }
    uint32_t id = graph_type(h->g, clean_shape, n);
    free(clean_shape);
    return id;
}

/* The literal of a constant without blanks and comments: values are separated by commas. */
static void put_literal(struct hlo *h, struct span literal)
{
    const char *text = h->base + literal.at;
    const char *elided = memmem(text, literal.len, "...", 3);
    if (elided) {
        hlo_fail(h, WARM_EREFUSED, (uint32_t)(elided - h->base),
                 "the value of a constant is elided: print it with --xla_dump_large_constants");
        return;
    }
    graph_dict_key(h->g, "literal", 7);
    char piece[PIECE];
    size_t n = 0;
    bool commented = memmem(text, literal.len, "/*", 2) != NULL;
    for (uint32_t i = 0; i < literal.len; i++) {
        if (n == sizeof piece) {
            graph_dict_text(h->g, piece, n);
            n = 0;
        }
        if (commented && text[i] == '/')
            i = after_comment(h, literal.at + i) - literal.at;
        piece[n] = text[i];
        n += i < literal.len && class_of(text[i]) != SPACE;
    }
    graph_dict_text(h->g, piece, n);
}

/* Artifacts of these hold an address or a callback's number of the process that made the text. */
static void refuse_process_bound(struct hlo *h, const struct instr *in)
{
    for (uint32_t i = 0; i < in->n_attrs; i++) {
        const struct attr *a = &h->attrs[in->attrs + i];
        if (!span_is(h, a->key, "custom_call_target"))
            continue;
        const char *t = h->base + a->value.at;
        if (memmem(t, a->value.len, "enzymexla_compile_", 18) ||
            memmem(t, a->value.len, "CustomSPMDPartitioning", 22) ||
            memmem(t, a->value.len, "InspectSharding", 15) ||
            (memmem(t, a->value.len, "python", 6) && memmem(t, a->value.len, "callback", 8)))
            hlo_fail(h, WARM_EREFUSED, a->value.at,
                     "a custom call that refers to the process that printed it");
    }
}

/* A call that says nothing but what it calls: XLA's first pass puts the body in its place. */
static const struct attr *plain_callee(const struct hlo *h, const struct instr *in)
{
    const struct attr *callee = NULL;
    for (uint32_t i = 0; i < in->n_attrs; i++) {
        const struct attr *a = &h->attrs[in->attrs + i];
        if (span_is(h, a->key, "to_apply") && !callee)
            callee = a;
        else if (!span_is(h, a->key, "metadata") ||
                 memmem(h->base + a->value.at, a->value.len, "preserve_layout", 15))
            return NULL;
    }
    return callee;
}

static void put_operands(struct hlo *h, const struct instr *in)
{
    for (uint32_t i = 0; i < in->n_operands; i++) {
        struct span name = h->operands[in->operands + i];
        uint32_t value = names_find(h, &h->values, name);
        if (value == GRAPH_NONE)
            hlo_fail(h, WARM_EMALFORMED, name.at, "no such instruction before this one");
        else
            graph_op_operand(h->g, value);
    }
    for (uint32_t i = 0; i < h->n_extra; i++)
        graph_op_operand(h->g, h->extra[i]);
}

/* Puts a call whose body may take its place. */
static uint32_t put_call(struct hlo *h, const struct instr *in, const struct attr *callee,
                         unsigned traits)
{
    struct span name = without_percent(h, callee->value);
    struct computation *of = computation_of(h, name);
    if (!of)
        return GRAPH_NONE;
    if (!of->used)
        of->first_use = callee->value;
    of->used = true;
    if (!of->defined || of->effect)
        traits = GRAPH_EFFECT;
    h->effect |= traits == GRAPH_EFFECT;
    h->n_extra = 0;
    graph_op_begin(h->g, graph_opname(h->g, "call", 4, GRAPH_CALL | GRAPH_EFFECT));
    graph_op_traits(h->g, traits | GRAPH_CALL);
    graph_op_callee(h->g, of->symbol);
    put_operands(h, in);
    graph_op_result(h->g, type_of(h, in->type));
    return graph_op_end(h->g);
}

static uint32_t put_op(struct hlo *h, const struct instr *in)
{
    bool is_constant = span_is(h, in->opcode, "constant"), effect = false;
    unsigned traits = traits_of(h, in);
    if (span_is(h, in->opcode, "custom-call")) {
        refuse_process_bound(h, in);
        traits = custom_call_traits(h, in);
    }
    const struct attr *callee = NULL;
    if (span_is(h, in->opcode, "call")) {
        traits = GRAPH_PURE;
        callee = h->scheduled ? NULL : plain_callee(h, in);
    }
    if (callee)
        return put_call(h, in, callee, traits);
    h->n_extra = 0;
    graph_dict_begin(h->g);
    if (is_constant)
        put_literal(h, h->operands[in->operands]);
    for (uint32_t i = 0; i < in->n_attrs; i++)
        effect |= put_attr(h, &h->attrs[in->attrs + i]);
    uint32_t dict = graph_dict_end(h->g);
    if (effect || h->scheduled || h->n_extra)
        traits = GRAPH_EFFECT; /* a schedule and control edges say when: nothing may move */
    h->effect |= traits == GRAPH_EFFECT;
    graph_op_begin(h->g, graph_opname(h->g, h->base + in->opcode.at, in->opcode.len, traits));
    graph_op_traits(h->g, traits);
    graph_op_dict(h->g, dict);
    if (!is_constant)
        put_operands(h, in);
    graph_op_result(h->g, type_of(h, in->type));
    return graph_op_end(h->g);
}

/* In a module that is scheduled also the places of the parameters are kept. */
static void put_scheduled_parameter(struct hlo *h, uint32_t value)
{
    graph_op_begin(h->g, graph_opname(h->g, "parameter", 9, GRAPH_EFFECT));
    graph_op_operand(h->g, value);
    graph_op_end(h->g);
}

/* Makes the arguments in the order of their numbers, though the instructions may stand anywhere. */
static void put_parameters(struct hlo *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n_instrs; i++)
        n += span_is(h, h->instrs[i].opcode, "parameter");
    if (!n)
        return;
    uint32_t *instr_of = malloc(n * sizeof *instr_of);
    if (!instr_of) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return;
    }
    memset(instr_of, 0xff, n * sizeof *instr_of);
    for (uint32_t i = 0; i < h->n_instrs; i++) {
        const struct instr *in = &h->instrs[i];
        int64_t number;
        if (!span_is(h, in->opcode, "parameter"))
            continue;
        if (!number_of(h, h->operands[in->operands], &number) || number >= n ||
            instr_of[number] != UINT32_MAX) {
            hlo_fail(h, WARM_EMALFORMED, h->operands[in->operands].at,
                     "parameters must be numbered from 0, each once");
            break;
        }
        instr_of[number] = i;
    }
    for (uint32_t i = 0; i < n && !h->code; i++) {
        const struct instr *in = &h->instrs[instr_of[i]];
        bool effect = false;
        h->n_extra = 0;
        uint32_t dict = dict_of(h, in->attrs, in->n_attrs, &effect);
        uint32_t value = graph_func_arg(h->g, type_of(h, in->type), dict);
        if (h->n_extra)
            hlo_fail(h, WARM_EMALFORMED, in->name.at, "a parameter that depends on an instruction");
        if (!names_add(h, &h->values, in->name, value))
            hlo_fail(h, WARM_EMALFORMED, in->name.at, "an instruction with this name exists");
    }
    free(instr_of);
}

static void put_return(struct hlo *h)
{
    const struct instr *root = &h->instrs[h->root];
    uint32_t value = names_find(h, &h->values, root->name);
    if (value == GRAPH_NONE)
        return; /* only after an error */
    graph_op_begin(h->g, graph_opname(h->g, "return", 6, GRAPH_PURE));
    graph_op_operand(h->g, value);
    graph_op_end(h->g);
}

/* The computation whose instructions were taken. Its own attributes stand after them. */
static void put_computation(struct hlo *h, struct span name, bool entry, uint32_t first_attr,
                            uint32_t n_attrs)
{
    struct computation *c = computation_of(h, name);
    if (!c)
        return;
    if (c->defined)
        hlo_fail(h, WARM_EMALFORMED, name.at, "a computation with this name exists");
    if (c->loose)
        hlo_unsupported(h, "an unknown attribute may name a computation that comes later");
    uint32_t index = (uint32_t)(c - h->computations);
    names_clear(&h->values);
    h->effect = false;
    graph_func_begin(h->g, c->symbol, entry);
    put_parameters(h);
    graph_func_result(h->g, type_of(h, h->instrs[h->root].type), 0);
    bool ignored = false;
    graph_func_dict(h->g, dict_of(h, first_attr, n_attrs, &ignored));
    for (uint32_t i = 0; i < h->n_instrs && !h->code; i++) {
        const struct instr *in = &h->instrs[i];
        if (span_is(h, in->opcode, "parameter")) {
            if (h->scheduled)
                put_scheduled_parameter(h, names_find(h, &h->values, in->name));
            continue;
        }
        uint32_t value = put_op(h, in);
        if (!h->code && !names_add(h, &h->values, in->name, value))
            hlo_fail(h, WARM_EMALFORMED, in->name.at, "an instruction with this name exists");
    }
    if (!h->code)
        put_return(h);
    graph_func_end(h->g);
    h->computations[index].defined = true;
    h->computations[index].effect = h->effect;
}

/* "%name (p: shape, ...) -> shape {": only the name says what the instructions do not. */
static void take_computation(struct hlo *h, struct span name, bool entry)
{
    skip_blank(h);
    if (h->at < h->len && h->base[h->at] == '(') {
        take_value(h, false);
        skip_blank(h);
        if (!starts_with(h, h->at, "->")) {
            hlo_expected(h, "`-> shape {` was expected");
            return;
        }
        h->at += 2;
        skip_blank(h);
        take_value(h, false);
    }
    if (!take_byte(h, '{')) {
        hlo_expected(h, "`{` was expected");
        return;
    }
    take_body(h);
    uint32_t first_attr = h->n_attrs, n_attrs = 0;
    if (!h->code)
        take_attrs(h, &n_attrs);
    if (entry && h->has_entry)
        hlo_fail(h, WARM_EMALFORMED, name.at, "a module with two entries");
    h->has_entry |= entry;
    if (!h->code)
        put_computation(h, without_percent(h, name), entry, first_attr, n_attrs);
}

/* ---- the module ---- */

static void add_axis(struct hlo *h, struct span name)
{
    if (axis_of(h, name) != GRAPH_NONE)
        return;
    if (h->n_axes == AXIS_MAX) {
        hlo_unsupported(h, "more mesh axes than are followed");
        return;
    }
    h->axes[h->n_axes++] = name;
}

/* The quoted words of "{mesh = #sdy.mesh<["x"=2, "y"=2]>}", or of the same inside a string. */
static void add_axes(struct hlo *h, struct span key, struct span value, void *user)
{
    (void)user;
    if (!span_is(h, key, "xla.sdy.meshes") || !value.len)
        return;
    bool escaped = h->base[value.at] == '"';
    uint32_t i = value.at + escaped, end = value.at + value.len - escaped;
    for (;;) {
        const char *open = memchr(h->base + i, '"', end - i);
        const char *close = open ? memchr(open + 1, '"', (size_t)(h->base + end - open) - 1) : NULL;
        if (!close)
            return;
        uint32_t at = (uint32_t)(open - h->base) + 1;
        uint32_t len = (uint32_t)(close - open) - 1;
        add_axis(h, (struct span){at, len > 0 && escaped ? len - 1 : len});
        i = (uint32_t)(close - h->base) + 1;
    }
}

static void take_header(struct hlo *h)
{
    skip_blank(h);
    if (!span_is(h, take_word(h), "HloModule")) {
        hlo_expected(h, "`HloModule` was expected");
        return;
    }
    skip_blank(h);
    /* The name is any text that the program chose: up to the comma or the end of the line. */
    while (h->at < h->len && h->base[h->at] != ',' && h->base[h->at] != '\n')
        h->at++;
    uint32_t n = 0;
    take_attrs(h, &n);
    for (uint32_t i = 0; i < n; i++) {
        const struct attr *a = &h->attrs[i];
        if (span_is(h, a->key, "is_scheduled") && !span_is(h, a->value, "false"))
            h->scheduled = true;
        if (span_is(h, a->key, "frontend_attributes") && in_braces(h, a->value))
            for_each_field(h, a->value, add_axes, NULL);
    }
    bool ignored = false;
    graph_module_dict(h->g, dict_of(h, 0, n, &ignored));
}

/* The tables of source locations: a number and a text or fields on each line. */
static void skip_table(struct hlo *h)
{
    for (;;) {
        skip_blank(h);
        if (h->code || h->at >= h->len || h->base[h->at] < '0' || h->base[h->at] > '9')
            return;
        take_word(h);
        skip_blank(h);
        if (!take_value(h, false).len)
            hlo_expected(h, "an entry of the table was expected");
    }
}

static void take_module(struct hlo *h)
{
    static const char *const tables[] = {"FileNames", "FunctionNames", "FileLocations",
                                         "StackFrames"};
    take_header(h);
    for (;;) {
        skip_blank(h);
        if (h->code || h->at >= h->len)
            return;
        struct span word = take_word(h);
        bool entry = span_is(h, word, "ENTRY");
        if (key_in(h, word, tables, COUNT(tables))) {
            skip_table(h);
            continue;
        }
        if (span_is(h, word, "HloModule"))
            hlo_fail(h, WARM_EMALFORMED, word.at, "more than one module in one input");
        if (entry) {
            skip_blank(h);
            word = take_word(h);
        }
        if (!word.len)
            hlo_expected(h, "a computation was expected");
        if (!h->code)
            take_computation(h, word, entry);
    }
}

static void check_references(struct hlo *h)
{
    if (!h->code && !h->has_entry)
        hlo_expected(h, "a module without an entry computation");
    for (uint32_t i = 0; i < h->n_computations && !h->code; i++)
        if (h->computations[i].used && !h->computations[i].defined)
            hlo_fail(h, WARM_EMALFORMED, h->computations[i].first_use.at,
                     "a computation that the module does not define");
}

static void hlo_close(struct hlo *h)
{
    graph_free(h->g);
    free(h->values.slots);
    free(h->computed_names.slots);
    free(h->computations);
    free(h->instrs);
    free(h->operands);
    free(h->attrs);
    free(h->extra);
}

int form_hlo(const struct canon_input *input, struct form *out, struct err *e)
{
    if (input->len >= UINT32_MAX)
        return err_set(e, WARM_ETOO_BIG, "HLO text of 4 GiB and more is not read");
    struct hlo h = {.base = input->data, .len = (uint32_t)input->len, .out = out, .e = e};
    h.values.epoch = h.computed_names.epoch = 1;
    h.g = graph_new(input->len);
    if (!h.g || !names_reserve(&h, &h.values) || !names_reserve(&h, &h.computed_names)) {
        hlo_close(&h);
        return err_set(e, WARM_ENOMEM, "out of memory");
    }
    take_module(&h);
    check_references(&h);
    int code = h.code ? h.code : graph_write(h.g, "hlo/1", out, e);
    hlo_close(&h);
    return code;
}

bool form_hlo_claims(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && class_of(data[i]) == SPACE)
        i++;
    return len - i > 10 && memcmp(data + i, "HloModule", 9) == 0 && class_of(data[i + 9]) == SPACE;
}

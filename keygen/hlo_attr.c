/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_attr.c - the values of HLO attributes, canonical, into dictionaries of the graph.
 *
 * A value is copied without white space and comments; names of computations and instructions in it
 * become references; metadata and names of mesh axes end here. What is in an attribute that we do
 * not know stays as it is, and if a word of it is a name, what it names is added.
 * No state but the caller's.
 */
#include "keygen/hlo_internal.h"

#include <stdio.h>
#include <string.h>

#define PIECE 4096    /* bytes of a value that are cleaned at a time */
#define JSON_DEPTH 32 /* objects and arrays of a backend_config in one another */

/* ---- values of attributes ---- */

/* Attributes whose words name computations even without `%`. */
/* clang-format off */
static const char *const computation_keys[] = {
    "to_apply", "calls", "condition", "body", "branch_computations", "true_computation",
    "select", "scatter", "comparator", "false_computation", "called_computations",
};
/* clang-format on */

/* Attributes whose words are never names of anything in the module: their words need no look-up.
 * All others that are not listed here or above are unknown. */
/* clang-format off */
static const char *const plain_keys[] = {
    "dimensions", "lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims",
    "rhs_batch_dims", "direction", "index", "slice", "iota_dimension", "dynamic_slice_sizes",
    "offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "slice_sizes",
    "update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "window",
    "dim_labels", "padding", "is_stable", "type", "kind", "feature_group_count",
    "batch_group_count", "operand_precision", "replica_groups", "source_target_pairs",
    "use_global_device_ids", "constrain_layout", "custom_call_has_side_effect", "api_version",
    "output_to_operand_aliasing", "operand_layout_constraints", "indices_are_sorted",
    "unique_indices", "fft_type", "fft_length", "lower", "left_side", "transpose_a",
    "unit_diagonal", "exponent_bits", "mantissa_bits", "epsilon", "feature_index", "algorithm",
    "distribution", "entry_computation_layout", "input_output_alias", "num_partitions",
    "replica_count", "is_scheduled", "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output", "buffer_donor", "largest", "k",
};
/* clang-format on */

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
    char last;  /* the byte before, to know whether white space separates two words */
    bool space; /* white space is pending */
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
}

/* Puts a reference to a value: it becomes one more operand, its place in the value a number. */
static void clean_value(struct cleaner *c, uint32_t value)
{
    struct hlo *h = c->h;
    if (!hlo_grow(h, &h->extra, h->n_extra, &h->cap_extra, sizeof *h->extra))
        return;
    clean_number(c, "$", h->n_extra, "");
    h->extra[h->n_extra++] = value;
}

/* "%name" or, where the attribute says so, a bare name. */
static void clean_reference(struct cleaner *c, struct span word)
{
    struct hlo *h = c->h;
    struct span name = hlo_without_percent(h, word);
    uint32_t value = c->reading == COMPUTATIONS ? GRAPH_NONE : hlo_value_find(h, name);
    if (value != GRAPH_NONE) {
        clean_value(c, value);
        return;
    }
    if (c->reading == VALUES) {
        hlo_fail(h, WARM_EMALFORMED, word.at, "no such instruction before this one");
        return;
    }
    if (c->reading != COMPUTATIONS)
        hlo_line_loose(h, name);
    struct computation *of = hlo_computation_of(h, name);
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
    uint32_t axis = hlo_axis_of(h, word), value = hlo_value_find(h, word);
    if (axis != GRAPH_NONE)
        clean_number(c, "<axis ", axis, ">");
    if (value != GRAPH_NONE)
        clean_value(c, value);
    else
        hlo_line_loose(h, word);
    char first = h->base[word.at];
    if (first == '-' || (first >= '0' && first <= '9'))
        return; /* no computation has a number for a name */
    struct computation *of = hlo_computation_of(h, word);
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
        uint32_t axis = close ? hlo_axis_of(h, name) : GRAPH_NONE;
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
    uint32_t axis = h->n_axes ? hlo_axis_of(h, inner) : GRAPH_NONE;
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
        enum byte_class kind = hlo_class_of(h->base[i]);
        uint32_t next = kind == SLASH ? hlo_after_comment(h, i) : i;
        if (kind == SPACE || next > i) {
            c->space = true;
            i = next > i ? next : i + 1;
            continue;
        }
        if (c->space && kind == WORD && hlo_class_of(c->last) == WORD)
            clean_text(c, " ");
        c->space = false;
        h->at = i;
        if (kind == QUOTE) {
            uint32_t after = hlo_after_string(h, i);
            clean_string(c, (struct span){i, after - i});
            i = after;
        } else if (kind == WORD) {
            struct span word = hlo_take_word(h);
            clean_word(c, word);
            i = word.at + word.len;
        } else {
            clean_put(c, h->base + i, 1);
            i++;
        }
        c->last = h->base[i - 1];
    }
}

/* Puts one value. */
static void put_value(struct hlo *h, struct span value, enum reading reading)
{
    struct cleaner c; /* not initialised as a whole: most of it is the buffer */
    c.h = h;
    c.reading = reading;
    c.last = ',';
    c.space = false;
    c.used = 0;
    uint32_t at = h->at;
    clean(&c, value);
    clean_flush(&c);
    h->at = at;
}

/* Says where an operation came from, and nothing that a pass decides by. `preserve_layout` and
 * fields that we do not know are kept. */
bool hlo_is_origin_key(const char *key, size_t len)
{
    static const struct {
        size_t len;
        const char *text;
    } keys[] = {
        {7, "op_name"},        {14, "stack_frame_id"},    {7, "op_type"},
        {11, "source_file"},   {11, "source_line"},       {15, "source_end_line"},
        {13, "source_column"}, {17, "source_end_column"}, {17, "deduplicated_name"},
    };
    for (size_t i = 0; i < COUNT(keys); i++)
        if (keys[i].len == len && memcmp(keys[i].text, key, len) == 0)
            return true;
    return false;
}

static void put_metadata_field(struct hlo *h, struct span key, struct span value)
{
    if (hlo_is_origin_key(h->base + key.at, key.len))
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
        hlo_take_value(h, true);
        at = h->at;
        h->at = saved;
    }
}

static void put_frontend_field(struct hlo *h, struct span key, struct span value)
{
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

/* ---- backend_config ---- */

/* XLA prints a message of its own as JSON, with the fields of each object in an order that differs
 * from print to print. So each leaf becomes an entry of the dictionary, which is sorted:
 * {"a":{"n":"10"},"b":[1]} is `backend_config."a"."n" = "10"` and `backend_config."b"[0] = 1`. */
struct flattener {
    struct hlo *h;
    uint32_t end;
    bool put; /* second pass: the first only finds out whether the text is such JSON */
    size_t len;
    char path[512];
    struct {
        size_t len; /* of the path up to this object or array */
        uint32_t next;
        char close; /* '}' or ']' */
        bool empty;
    } open[JSON_DEPTH];
    unsigned depth;
};

static bool flat_path(struct flattener *f, size_t keep, const char *text, size_t len)
{
    if (keep + len + 1 > sizeof f->path)
        return false;
    memcpy(f->path + keep, text, len);
    f->len = keep + len;
    return true;
}

static void flat_leaf(struct flattener *f, const char *text, size_t len)
{
    if (!f->put)
        return;
    graph_dict_key(f->h->g, f->path, f->len);
    graph_dict_text(f->h->g, text, len);
}

static bool flat_value(struct flattener *f)
{
    struct span value = hlo_take_value(f->h, true);
    flat_leaf(f, f->h->base + value.at, value.len);
    return value.len > 0;
}

/* The path of the next element of the innermost object or array: takes `"name":` of an object. */
static bool flat_element(struct flattener *f)
{
    struct hlo *h = f->h;
    size_t keep = f->open[f->depth - 1].len;
    if (f->open[f->depth - 1].close == ']') {
        char text[16];
        int n = snprintf(text, sizeof text, "[%u]", f->open[f->depth - 1].next++);
        return flat_path(f, keep, text, (size_t)n);
    }
    if (h->at >= f->end || h->base[h->at] != '"')
        return false;
    struct span name = {h->at, hlo_after_string(h, h->at) - h->at};
    h->at = name.at + name.len;
    return flat_path(f, keep, ".", 1) && flat_path(f, f->len, h->base + name.at, name.len) &&
           hlo_take_byte(h, ':');
}

static bool flat_open(struct flattener *f, char bracket)
{
    if (f->depth == JSON_DEPTH)
        return false;
    f->open[f->depth].len = f->len;
    f->open[f->depth].next = 0;
    f->open[f->depth].empty = true;
    f->open[f->depth++].close = bracket == '{' ? '}' : ']';
    f->h->at++;
    return true;
}

/* Closes what ends here; an empty object or array is a leaf itself. False if an element follows. */
static bool flat_close(struct flattener *f)
{
    struct hlo *h = f->h;
    if (!f->depth)
        return false;
    hlo_skip_blank(h);
    if (h->at >= f->end || h->base[h->at] != f->open[f->depth - 1].close)
        return false;
    f->depth--;
    f->len = f->open[f->depth].len;
    h->at++;
    if (f->open[f->depth].empty)
        flat_leaf(f, f->open[f->depth].close == '}' ? "{}" : "[]", 2);
    return true;
}

static bool flatten(struct hlo *h, struct span value, bool put)
{
    struct flattener f = {.h = h, .end = value.at + value.len, .put = put};
    flat_path(&f, 0, "backend_config", 14);
    h->at = value.at;
    do {
        hlo_skip_blank(h);
        char c = h->at < f.end ? h->base[h->at] : 0;
        if (c == '{' || c == '[') {
            if (!flat_open(&f, c))
                return false;
        } else if (!flat_value(&f)) {
            return false;
        }
        while (flat_close(&f))
            ;
        if (f.depth && !f.open[f.depth - 1].empty && !hlo_take_byte(h, ','))
            return false;
        if (f.depth) {
            f.open[f.depth - 1].empty = false;
            hlo_skip_blank(h);
            if (!flat_element(&f))
                return false;
        }
    } while (f.depth && !h->code && h->at < f.end);
    return !f.depth && h->at == f.end && !h->code;
}

/* True if the value was put entry by entry. */
static bool put_backend_config(struct hlo *h, struct span value)
{
    uint32_t at = h->at;
    bool is_json = hlo_in_braces(h, value) && flatten(h, value, false);
    if (is_json)
        flatten(h, value, true);
    h->at = at;
    return is_json;
}

static uint32_t reading_of(const struct hlo *h, struct span key)
{
    if (hlo_key_in(h, key, plain_keys, COUNT(plain_keys)))
        return PLAIN;
    if (hlo_key_in(h, key, computation_keys, COUNT(computation_keys)))
        return COMPUTATIONS;
    return hlo_span_is(h, key, "control-predecessors") ? VALUES : UNKNOWN;
}

void hlo_put_attr(struct hlo *h, const struct attr *a)
{
    if (hlo_span_is(h, a->key, "metadata") && hlo_in_braces(h, a->value)) {
        hlo_for_each_field(h, a->value, put_metadata_field);
        return;
    }
    if (hlo_span_is(h, a->key, "frontend_attributes") && hlo_in_braces(h, a->value)) {
        hlo_for_each_field(h, a->value, put_frontend_field);
        return;
    }
    if (hlo_span_is(h, a->key, "sharding")) {
        put_sharding(h, a->value);
        return;
    }
    if (h->config_is_json && hlo_span_is(h, a->key, "backend_config") &&
        put_backend_config(h, a->value))
        return;
    graph_dict_key(h->g, h->base + a->key.at, a->key.len);
    int64_t channel;
    if (hlo_span_is(h, a->key, "channel_id") && hlo_number_of(h, a->value, &channel)) {
        graph_dict_channel(h->g, channel);
        return;
    }
    enum reading reading = (enum reading)hlo_word_kind(h, &h->keys, a->key, reading_of);
    put_value(h, a->value, reading);
}

uint32_t hlo_dict_of(struct hlo *h, uint32_t first, uint32_t n)
{
    if (!n)
        return 0;
    graph_dict_begin(h->g);
    for (uint32_t i = 0; i < n; i++)
        hlo_put_attr(h, &h->attrs[first + i]);
    return graph_dict_end(h->g);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo.c - the canonical form of HLO text (KEYS.md, "HLO text").
 *
 * The program as it is written, in other names:
 *
 *     HloModule jit_f, replica_count=1                   module, replica_count=1
 *     FileNames ...                                      (dropped, as metadata is)
 *     %sum.1 (a: f32[], b: f32[]) -> f32[] {             @0 {
 *       %a = f32[] parameter(0)                            #0 = f32[]parameter(0)
 *       %b = f32[] parameter(1)                   ─▶       #1 = f32[]parameter(1)
 *       ROOT %c = f32[] add(f32[] %a, %b),                 ROOT #2 = f32[]add(#0,#1)
 *           metadata={op_name="add"}
 *     }                                                  }
 *
 * One pass from the front. '#' and '@' are in no word of HLO, so a number is never taken for a word where
 * there may be one.
 * XLA's parser knows a computation or an instruction only behind its definition, so every name is
 * numbered when it is defined. A word that may be a name, in an attribute that this file does not know,
 * stays as it is, and what it would name is put beside it: behind the word if that is defined already,
 * else, if such a thing is defined later, its name behind its number.
 *
 * Nothing recurses: brackets are counted.
 *
 * Thread: any; no state. Memory: the names of the computations, and of the instructions of one.
 */
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/form.h"
#include "keygen/canon/names.h"
#include "keygen/domains.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LOOSE UINT32_MAX /* the number of a name that came in a word before it was defined */

/* A piece of the input: inputs are below 4 GiB. */
struct span {
    uint32_t at, len;
};

struct hlo {
    const char *text;
    uint32_t at, len;
    struct form *out;
    struct err *e;
    int rc; /* the first error; parsing stops */
    struct names instructions, computations, axes;
    uint32_t n_instructions, n_computations, n_axes;
    bool has_entry, has_root;
    bool was_word; /* what was put last is part of a word */
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
    BAD, /* in no word of HLO */
};

/* clang-format off */
static const uint8_t classes[256] = {
    ['('] = OPEN, ['['] = OPEN, ['{'] = OPEN, [')'] = CLOSE, [']'] = CLOSE, ['}'] = CLOSE,
    ['"'] = QUOTE, [','] = COMMA, [' '] = SPACE, ['\t'] = SPACE, ['\n'] = SPACE, ['\r'] = SPACE,
    ['/'] = SLASH, ['='] = OTHER, [':'] = OTHER, ['<'] = OTHER, ['>'] = OTHER,
    ['#'] = BAD, ['@'] = BAD, ['\0'] = BAD,
};
/* clang-format on */

static enum byte_class class_of(char c) { return (enum byte_class)classes[(uint8_t)c]; }

/* ---- errors ---- */

static void fail(struct hlo *h, int code, uint32_t at, const char *what)
{
    if (h->rc)
        return;
    h->rc = err_set(h->e, code, "HLO: %s", what);
    err_place(h->e, h->text, h->len, at);
}

/* At the end of the input what is missing was cut off; elsewhere it is wrong. */
static void expected(struct hlo *h, const char *what)
{
    fail(h, h->at >= h->len ? WARM_ETRUNCATED : WARM_EMALFORMED, h->at, what);
}

/* The exact bytes are the form. `why` is static. */
static void give_up(struct hlo *h, const char *why)
{
    if (h->rc)
        return;
    h->rc = WARM_EUNSUPPORTED;
    h->out->why_exact = why;
}

/* ---- bytes into words and values ---- */

static bool span_is(const struct hlo *h, struct span s, const char *text)
{
    return s.len == strlen(text) && memcmp(h->text + s.at, text, s.len) == 0;
}

static bool span_in(const struct hlo *h, struct span s, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (span_is(h, s, texts[i]))
            return true;
    return false;
}

/* The index after a comment that begins at `at`, or `at` itself if none does. */
static uint32_t after_comment(struct hlo *h, uint32_t at)
{
    const char *from = h->text + at, *end = NULL;
    size_t left = h->len - at;
    if (left < 2 || from[0] != '/' || (from[1] != '*' && from[1] != '/'))
        return at;
    if (from[1] == '/') {
        end = memchr(from, '\n', left);
        return end ? (uint32_t)(end - h->text) : h->len;
    }
    end = memmem(from + 2, left - 2, "*/", 2);
    if (!end)
        fail(h, WARM_ETRUNCATED, at, "a comment without end");
    return end ? (uint32_t)(end - h->text) + 2 : h->len;
}

/* The index after the string whose opening quote is at `at`. */
static uint32_t after_string(struct hlo *h, uint32_t at)
{
    const char *from = h->text + at + 1, *end = h->text + h->len, *quote;
    while (from < end && (quote = memchr(from, '"', (size_t)(end - from)))) {
        const char *escape = memchr(from, '\\', (size_t)(quote - from));
        if (!escape)
            return (uint32_t)(quote - h->text) + 1;
        from = escape + 2; /* behind the escaped byte */
    }
    fail(h, WARM_ETRUNCATED, at, "a string without end");
    return h->len;
}

static void skip_blank(struct hlo *h)
{
    while (h->at < h->len) {
        enum byte_class c = class_of(h->text[h->at]);
        uint32_t next = c == SPACE ? h->at + 1 : c == SLASH ? after_comment(h, h->at) : h->at;
        if (next == h->at)
            return;
        h->at = next;
    }
}

/* A name, number or keyword: up to white space or punctuation; may be empty. */
static struct span take_word(struct hlo *h)
{
    skip_blank(h);
    struct span word = {h->at, 0};
    uint32_t end = h->at;
    while (end < h->len && class_of(h->text[end]) == WORD)
        end++;
    h->at = end;
    word.len = end - word.at;
    return word;
}

/* White space and then `c`; false if another byte comes. */
static bool take_byte(struct hlo *h, char c)
{
    skip_blank(h);
    if (h->at >= h->len || h->text[h->at] != c)
        return false;
    h->at++;
    return true;
}

/* Up to the first byte outside of brackets that ends a value: a closing bracket always, white space and a
 * comma as said. */
static struct span take_until(struct hlo *h, bool space_ends, bool comma_ends)
{
    skip_blank(h);
    uint32_t start = h->at, depth = 0, i = start;
    while (!h->rc) {
        while (i < h->len && class_of(h->text[i]) <= OTHER)
            i++;
        if (i >= h->len)
            break;
        enum byte_class c = class_of(h->text[i]);
        if (!depth && (c == CLOSE || (c == SPACE && space_ends) || (c == COMMA && comma_ends)))
            break;
        depth += c == OPEN;
        depth -= c == CLOSE;
        uint32_t next = c == QUOTE ? after_string(h, i) : c == SLASH ? after_comment(h, i) : i;
        i = next > i ? next : i + 1;
    }
    h->at = i;
    if (depth)
        fail(h, WARM_ETRUNCATED, start, "a bracket without its partner");
    return (struct span){start, i - start};
}

/* The value of an attribute, which goes on in brackets behind a blank: mesh['x'=2] {'x'}. */
static struct span take_value(struct hlo *h)
{
    struct span value = take_until(h, true, true);
    while (value.len && !h->rc) {
        uint32_t end = h->at;
        while (h->at < h->len && (h->text[h->at] == ' ' || h->text[h->at] == '\t'))
            h->at++;
        if (h->at == end || h->at >= h->len || class_of(h->text[h->at]) != OPEN) {
            h->at = end;
            break;
        }
        take_until(h, true, true);
        value.len = h->at - value.at;
    }
    return value;
}

static struct span without_percent(const struct hlo *h, struct span name)
{
    bool percent = name.len && h->text[name.at] == '%';
    return (struct span){name.at + percent, name.len - percent};
}

/* ---- putting ---- */

static void put(struct hlo *h, const char *text)
{
    form_put_text(h->out, text);
    h->was_word = false;
}

static void put_span(struct hlo *h, struct span s)
{
    form_put(h->out, h->text + s.at, s.len);
    h->was_word = true;
}

static void put_reference(struct hlo *h, char sign, uint32_t number)
{
    form_put(h->out, &sign, 1);
    form_put_u64(h->out, number);
    h->was_word = true;
}

/* How the words of a value are read. */
enum reading {
    PLAIN,        /* as they are */
    COMPUTATIONS, /* each is the name of a computation */
    INSTRUCTIONS, /* each is the name of an instruction of this computation */
    UNKNOWN,      /* they may be names of anything */
};

/* A word of an attribute that is not known, and what it may name. */
static void put_unknown_word(struct hlo *h, struct span word)
{
    struct span name = without_percent(h, word);
    struct names *scopes[] = {&h->instructions, &h->computations};
    uint32_t found[COUNT(scopes)] = {LOOSE, LOOSE};
    char first = name.len ? h->text[name.at] : '-';
    bool is_number = word.len == name.len && (first == '-' || (first >= '0' && first <= '9'));
    for (size_t i = 0; i < COUNT(scopes) && !is_number; i++) {
        bool is_new = false;
        uint32_t *number = names_add(scopes[i], h->text + name.at, name.len, &is_new);
        if (!number)
            fail(h, WARM_ENOMEM, word.at, "no memory for its names");
        else if (is_new)
            *number = LOOSE;
        else
            found[i] = *number;
    }
    bool is_found = found[0] != LOOSE || found[1] != LOOSE;
    if (is_found && word.len > name.len)
        put(h, "%"); /* it is a name, so the word itself says nothing more */
    else
        put_span(h, word);
    for (size_t i = 0; i < COUNT(scopes); i++)
        if (found[i] != LOOSE)
            put_reference(h, i ? '@' : '#', found[i]);
}

static void put_name(struct hlo *h, struct span word, bool is_instruction)
{
    struct span name = without_percent(h, word);
    const uint32_t *number = names_find(is_instruction ? &h->instructions : &h->computations,
                                        h->text + name.at, name.len);
    if (!number || *number == LOOSE)
        fail(h, WARM_EMALFORMED, word.at,
             is_instruction ? "no such instruction before this one"
                            : "no such computation before this one");
    else
        put_reference(h, is_instruction ? '#' : '@', *number);
}

/* Puts the tokens up to `end`. White space and comments go, but for a blank between two words. */
static void put_tokens(struct hlo *h, struct span value, enum reading reading)
{
    uint32_t after = h->at, end = value.at + value.len;
    bool blank = false;
    h->at = value.at;
    h->was_word = false;
    while (h->at < end && !h->rc) {
        uint32_t at = h->at;
        enum byte_class c = class_of(h->text[at]);
        if (c == WORD) {
            struct span word = take_word(h);
            bool is_field = h->at < end && h->text[h->at] == '=';
            if (blank && h->was_word)
                put(h, " ");
            if (reading == PLAIN || (is_field && reading == UNKNOWN))
                put_span(h, word);
            else if (reading == UNKNOWN)
                put_unknown_word(h, word);
            else
                put_name(h, word, reading == INSTRUCTIONS);
            blank = false;
            continue;
        }
        uint32_t next = c == QUOTE ? after_string(h, at) : c == SLASH ? after_comment(h, at) : at;
        h->at = next > at ? next : at + 1;
        if (c == BAD && reading != PLAIN)
            give_up(h, "a character that HLO text does not have");
        if (c == SPACE || (c == SLASH && next > at)) {
            blank = true;
            continue;
        }
        put_span(h, (struct span){at, h->at - at});
        h->was_word = blank = false;
    }
    h->at = after;
}

/* ---- attributes ---- */

/* Where an instruction came from, and nothing that a pass decides by. */
static const char *const origin_keys[] = {
    "op_type",       "op_name",           "source_file",    "source_line",       "source_end_line",
    "source_column", "source_end_column", "stack_frame_id", "deduplicated_name",
};

/* {op_name="x" source_line=7 preserve_layout=true}: puts the fields that are no origin. */
static void put_metadata(struct hlo *h, struct span value)
{
    uint32_t after = h->at, end = value.at + value.len - 1;
    h->at = value.at + 1;
    while (!h->rc) {
        take_byte(h, ','); /* between fields there is a blank, or a comma */
        struct span key = take_word(h), field = {h->at, 0};
        if (h->at >= end)
            break;
        if (!key.len || !take_byte(h, '=') || !(field = take_until(h, true, true)).len) {
            expected(h, "a field `name=value` was expected");
        } else if (!span_in(h, key, origin_keys, COUNT(origin_keys))) {
            put(h, ", metadata.");
            put_span(h, key);
            put(h, "=");
            put_tokens(h, field, UNKNOWN);
        }
    }
    h->at = after;
}

/* A sharding says at each place where it was written: {replicated metadata={op_name="x"}}. */
static void put_sharding(struct hlo *h, struct span value)
{
    static const char key[] = "metadata={";
    uint32_t after = h->at, at = value.at, end = value.at + value.len;
    while (!h->rc) {
        const char *found = memmem(h->text + at, end - at, key, sizeof key - 1);
        uint32_t start = found ? (uint32_t)(found - h->text) : end;
        put_tokens(h, (struct span){at, start - at}, PLAIN);
        if (!found)
            break;
        h->at = start + (uint32_t)sizeof key - 2;
        take_until(h, true, true);
        at = h->at;
    }
    h->at = after;
}

/* The text of the sdy dialect: the words in quotes that a mesh declares are its axes. In a string the
 * quotes are escaped. */
static void put_axes(struct hlo *h, struct span value, bool declares)
{
    const char *at = h->text + value.at, *end = at + value.len, *open;
    size_t escaped = at[0] == '"';
    const char *quote = escaped ? "\\\"" : "\"";
    while ((open = memmem(at, (size_t)(end - at), quote, 1 + escaped))) {
        const char *word = open + 1 + escaped;
        const char *close = memmem(word, (size_t)(end - word), quote, 1 + escaped);
        if (!close)
            break;
        bool is_new = false;
        uint32_t *axis = declares ? names_add(&h->axes, word, (size_t)(close - word), &is_new)
                                  : names_find(&h->axes, word, (size_t)(close - word));
        if (declares && !axis)
            fail(h, WARM_ENOMEM, value.at, "no memory for its names");
        if (is_new)
            *axis = h->n_axes++;
        if (*word == '#')
            give_up(h, "a mesh axis that has a number for a name");
        form_put(h->out, at, (size_t)((axis ? open : close) - at) + 1 + escaped);
        if (axis) {
            put_reference(h, '#', *axis);
            form_put(h->out, quote, 1 + escaped);
        }
        at = close + 1 + escaped;
    }
    form_put(h->out, at, (size_t)(end - at));
}

/* {name=text,name=text}, for the front end; of Shardy's, the names of mesh axes are numbered. */
static void put_frontend(struct hlo *h, struct span value)
{
    static const char shardy[] = "xla.sdy.";
    uint32_t after = h->at, end = value.at + value.len - 1;
    h->at = value.at + 1;
    put(h, "{");
    for (uint32_t n = 0; !h->rc && h->at < end; n++) {
        struct span key = take_word(h), text = {h->at, 0};
        if (!key.len || !take_byte(h, '=') || !(text = take_value(h)).len) {
            give_up(h, "frontend_attributes that are not understood");
            break;
        }
        put(h, n ? "," : "");
        put_span(h, key);
        put(h, "=");
        if (key.len > 8 && memcmp(h->text + key.at, shardy, sizeof shardy - 1) == 0)
            put_axes(h, text, span_is(h, key, "xla.sdy.meshes"));
        else
            put_tokens(h, text, PLAIN);
        take_byte(h, ',');
    }
    put(h, "}");
    h->at = after;
}

/* Attributes that name computations, also without '%'; the last two name several. */
static const char *const computation_keys[] = {
    "to_apply",
    "calls",
    "condition",
    "body",
    "true_computation",
    "false_computation",
    "select",
    "scatter",
    "comparator",
    "branch_computations",
    "called_computations",
};

static void put_attribute(struct hlo *h, struct span key, struct span value)
{
    bool braces = h->text[value.at] == '{';
    if (span_is(h, key, "metadata") && braces) {
        put_metadata(h, value);
        return;
    }
    put(h, ", ");
    put_span(h, key);
    put(h, "=");
    if (span_is(h, key, "custom_call_target") &&
        form_is_process_bound(h->text + value.at, value.len))
        fail(h, WARM_EREFUSED, value.at, FORM_PROCESS_BOUND);
    if (span_is(h, key, "backend_config")) { /* for the back end to read, to the last byte */
        put_span(h, value);
    } else if (span_is(h, key, "sharding")) {
        put_sharding(h, value);
    } else if (span_is(h, key, "frontend_attributes") && braces) {
        put_frontend(h, value);
    } else if (span_in(h, key, computation_keys, COUNT(computation_keys))) {
        if (braces && !span_in(h, key, computation_keys + COUNT(computation_keys) - 2, 2))
            give_up(h, "a computation that stands inside an instruction");
        put_tokens(h, value, COMPUTATIONS);
    } else {
        bool edges = span_is(h, key, "control-predecessors");
        put_tokens(h, value, edges ? INSTRUCTIONS : UNKNOWN);
    }
}

/* {, name=value} */
static void put_attributes(struct hlo *h)
{
    while (!h->rc && take_byte(h, ',')) {
        struct span key = take_word(h), value = {h->at, 0};
        if (!key.len || !take_byte(h, '='))
            expected(h, "an attribute `name=value` was expected");
        else if (!(value = take_value(h)).len)
            expected(h, "an attribute without a value");
        if (!h->rc)
            put_attribute(h, key, value);
    }
}

/* ---- instructions ---- */

/* The literal of a constant or the number of a parameter: all up to the closing bracket. */
static void put_literal(struct hlo *h)
{
    struct span literal = take_until(h, false, false);
    const char *elided = memmem(h->text + literal.at, literal.len, "...", 3);
    if (elided)
        fail(h, WARM_EREFUSED, (uint32_t)(elided - h->text),
             "the value of a constant is elided: print it with --xla_dump_large_constants");
    put_tokens(h, literal, PLAIN);
    if (!take_byte(h, ')'))
        expected(h, "a literal without end");
}

/* "%a, f32[2]{0} %b": an operand's name is the last word; the shape before it repeats what its
 * definition says. From behind the opening bracket to behind the closing one. */
static void put_operands(struct hlo *h)
{
    struct span last = {0};
    for (uint32_t n = 0; !h->rc;) {
        skip_blank(h);
        if (h->at >= h->len) {
            expected(h, "`)` was expected");
            return;
        }
        char c = h->text[h->at];
        if (c != ',' && c != ')') {
            last = take_until(h, true, true);
            if (!last.len)
                expected(h, "an operand was expected");
            continue;
        }
        if (last.len && n++)
            put(h, ",");
        if (last.len && memchr(h->text + last.at, '(', last.len))
            give_up(h, "an instruction that stands inside the operands of another");
        else if (last.len)
            put_name(h, last, true);
        else if (c == ',' || n)
            expected(h, "an operand was expected");
        last.len = 0;
        h->at++;
        if (c == ')')
            return;
    }
}

/* The line's end, behind which a name is known: its number is the next of its scope. */
static void put_defined(struct hlo *h, struct names *scope, uint32_t *n, struct span name)
{
    bool is_new = false;
    uint32_t *number = names_add(scope, h->text + name.at, name.len, &is_new);
    if (!number) {
        fail(h, WARM_ENOMEM, name.at, "no memory for its names");
        return;
    }
    if (!is_new && *number != LOOSE)
        fail(h, WARM_EMALFORMED, name.at, "this name is defined already");
    if (!is_new) { /* a word before may have meant it */
        put(h, " :");
        put_span(h, name);
    }
    *number = (*n)++;
    put(h, "\n");
}

/* [ROOT] name = shape opcode(operands), attributes */
static void put_instruction(struct hlo *h)
{
    struct span name = take_word(h), type = {0}, opcode = {0};
    bool is_root = span_is(h, name, "ROOT");
    if (is_root && h->has_root)
        fail(h, WARM_EMALFORMED, name.at, "a computation with two roots");
    h->has_root |= is_root;
    name = without_percent(h, is_root ? take_word(h) : name);
    if (name.len && take_byte(h, '=')) {
        type = take_until(h, true, false);
        opcode = take_word(h);
    }
    if (!type.len || !opcode.len || !take_byte(h, '(')) {
        expected(h, "an instruction `name = shape opcode(...)` was expected");
        return;
    }
    put(h, is_root ? "  ROOT " : "  ");
    put_reference(h, '#', h->n_instructions);
    put(h, " = ");
    put_tokens(h, type, PLAIN);
    put(h, " ");
    put_span(h, opcode);
    put(h, "(");
    if (span_is(h, opcode, "constant") || span_is(h, opcode, "parameter"))
        put_literal(h);
    else
        put_operands(h);
    put(h, ")");
    put_attributes(h);
    if (!h->rc)
        put_defined(h, &h->instructions, &h->n_instructions, name);
}

/* ---- computations and the module ---- */

/* "(p: shape, ...) -> shape", which XLA's parser only checks against the instructions. */
static void skip_signature(struct hlo *h)
{
    if (h->at >= h->len || h->text[h->at] != '(')
        return;
    take_until(h, true, false);
    skip_blank(h);
    if (h->len - h->at < 2 || memcmp(h->text + h->at, "->", 2) != 0) {
        expected(h, "`-> shape {` was expected");
        return;
    }
    h->at += 2;
    take_until(h, true, false);
}

/* [ENTRY] name [signature] { instructions } attributes */
static void put_computation(struct hlo *h, struct span word)
{
    bool is_entry = span_is(h, word, "ENTRY");
    struct span name = without_percent(h, is_entry ? take_word(h) : word);
    if (is_entry && h->has_entry)
        fail(h, WARM_EMALFORMED, word.at, "a module with two entries");
    h->has_entry |= is_entry;
    h->has_root = false;
    h->n_instructions = 0;
    names_clear(&h->instructions);
    skip_blank(h);
    skip_signature(h);
    if (!name.len || !take_byte(h, '{')) {
        expected(h, "a computation `name {` was expected");
        return;
    }
    put(h, is_entry ? "ENTRY " : "");
    put_reference(h, '@', h->n_computations);
    put(h, " {\n");
    while (!h->rc && !take_byte(h, '}'))
        put_instruction(h);
    if (!h->n_instructions)
        expected(h, "a computation without instructions");
    put(h, "}");
    put_attributes(h);
    if (!h->rc)
        put_defined(h, &h->computations, &h->n_computations, name);
}

/* The entries of a table of source locations, "1 {file_name_id=1 ...}" or "1 "a.py"". */
static void skip_table(struct hlo *h)
{
    for (;;) {
        skip_blank(h);
        if (h->rc || h->at >= h->len || h->text[h->at] < '0' || h->text[h->at] > '9')
            return;
        take_word(h);
        if (!take_until(h, true, false).len)
            expected(h, "an entry of the table was expected");
    }
}

static void put_module(struct hlo *h)
{
    static const char *const tables[] = {"FileNames", "FunctionNames", "FileLocations",
                                         "StackFrames"};
    if (!span_is(h, take_word(h), "HloModule") || !take_word(h).len) {
        expected(h, "`HloModule name` was expected");
        return;
    }
    put(h, "module");
    put_attributes(h);
    put(h, "\n");
    for (skip_blank(h); !h->rc && h->at < h->len; skip_blank(h)) {
        struct span word = take_word(h);
        if (span_in(h, word, tables, COUNT(tables)))
            skip_table(h);
        else if (span_is(h, word, "HloModule"))
            fail(h, WARM_EMALFORMED, word.at, "more than one module in one input");
        else
            put_computation(h, word);
    }
    if (!h->has_entry)
        expected(h, "a module without an entry computation");
}

int form_hlo(const struct canon_input *input, struct form *out, struct err *e)
{
    if (input->len >= UINT32_MAX)
        return err_set(e, WARM_ETOO_BIG, "HLO: 4 GiB and more are not read");
    struct hlo h = {.text = input->data, .len = (uint32_t)input->len, .out = out, .e = e};
    form_begin(out, DOMAIN_HLO);
    put_module(&h);
    names_close(&h.instructions);
    names_close(&h.computations);
    names_close(&h.axes);
    return h.rc;
}

bool form_hlo_claims(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && class_of(data[i]) == SPACE)
        i++;
    return len - i > 10 && memcmp(data + i, "HloModule", 9) == 0 && class_of(data[i + 9]) == SPACE;
}

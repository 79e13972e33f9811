/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo.c - the canonical form of HLO text (KEYS.md, "HLO text"). canon.c calls it.
 *
 * The program as it is written, in other names:
 *
 *     HloModule jit_f, replica_count=1                   module, replica_count=1
 *     FileNames ...                                      (dropped, as metadata is)
 *     %sum.1 (a: f32[], b: f32[]) -> f32[] {             @0 {
 *       %a = f32[] parameter(0)                            #0 = f32[] parameter(0)
 *       %b = f32[] parameter(1)                   ─▶       #1 = f32[] parameter(1)
 *       ROOT %c = f32[] add(f32[] %a, %b),                 ROOT #2 = f32[] add(#0,#1)
 *           metadata={op_name="add"}
 *     }                                                  }
 *
 * One pass from the front. Nothing else reads like a number: an attribute with '#' or '@' before a
 * digit is refused.
 * XLA's parser knows a computation or an instruction only behind its definition, so a definition
 * gives a name its number. In an attribute that this file does not know, a word may be a name. Such
 * a word stays, and the thing that it names follows it. If its definition comes later, the
 * definition keeps its name, too.
 *
 * Thread: any; no state. Memory: the names of the axes, the computations, and the instructions of one.
 */
#include <string.h>

#include "keygen/canon/tokens.h"
#include "keygen/domains.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LOOSE UINT32_MAX /* the number of a name that came in a word before its definition */

/* clang-format off */
static const uint8_t classes[256] = {
    ['\0'] = CLASS_BAD, ['#'] = CLASS_MARK, ['@'] = CLASS_MARK,
    ['('] = CLASS_OPEN, ['['] = CLASS_OPEN, ['{'] = CLASS_OPEN,
    [')'] = CLASS_CLOSE, [']'] = CLASS_CLOSE, ['}'] = CLASS_CLOSE, ['"'] = CLASS_QUOTE,
    [' '] = CLASS_BLANK, ['\t'] = CLASS_BLANK, ['\n'] = CLASS_BLANK, ['\r'] = CLASS_BLANK,
    ['/'] = CLASS_SLASH, [','] = CLASS_MARK, ['='] = CLASS_MARK, [':'] = CLASS_MARK,
    ['<'] = CLASS_MARK, ['>'] = CLASS_MARK,
};
/* clang-format on */

struct hlo {
    struct tokens t;
    struct names instructions, computations, axes;
    uint32_t n_instructions, n_computations, n_axes;
    uint32_t meshes; /* in the value of xla.sdy.meshes: the depth inside; else 0 */
    bool has_entry, has_root;
};

static bool take_mark(struct hlo *h, char c)
{
    bool is_there = tokens_mark(&h->t, c);
    if (is_there)
        tokens_next(&h->t);
    return is_there;
}

/* Takes a word. Its length is 0 if another token comes. */
static struct token take_word(struct hlo *h)
{
    struct token word = h->t.now;
    if (word.kind == TOKEN_WORD)
        tokens_next(&h->t);
    else
        word.len = 0;
    return word;
}

static bool take_text(struct hlo *h, const char *text)
{
    bool is_there = tokens_is(&h->t, text);
    if (is_there)
        tokens_next(&h->t);
    return is_there;
}

static struct token without_percent(const struct hlo *h, struct token name)
{
    bool percent = name.len && h->t.text[name.at] == '%';
    name.at += percent;
    name.len -= percent;
    return name;
}

/* ---- names ---- */

static void put_name(struct hlo *h, struct token word, bool is_instruction)
{
    struct token name = without_percent(h, word);
    const uint32_t *number = names_find(is_instruction ? &h->instructions : &h->computations,
                                        h->t.text + name.at, name.len);
    if (!number || *number == LOOSE)
        tokens_fail(&h->t, WARM_EMALFORMED, word.at,
                    is_instruction ? "no such instruction before this one"
                                   : "no such computation before this one");
    else
        tokens_put_number(&h->t, word, is_instruction ? '#' : '@', *number);
}

/* Puts a word of an attribute that this file does not know, and the things that it may name. */
static void put_unknown_word(struct hlo *h, struct token word)
{
    struct token name = without_percent(h, word);
    struct names *scopes[] = {&h->instructions, &h->computations};
    char first = name.len ? h->t.text[name.at] : '-';
    bool is_number = word.len == name.len && (first == '-' || (first >= '0' && first <= '9'));
    tokens_put(&h->t, &word);
    word.spaced = false;
    for (size_t i = 0; i < COUNT(scopes) && !is_number; i++) {
        bool is_new = false;
        uint32_t *number = tokens_number(&h->t, scopes[i], name, &is_new);
        if (number && is_new)
            *number = LOOSE;
        else if (number && *number != LOOSE)
            tokens_put_number(&h->t, word, i ? '@' : '#', *number);
    }
}

/* Ends the line of a definition. Its name has the next number of its scope from now on. */
static void put_defined(struct hlo *h, struct names *scope, uint32_t *n, struct token name)
{
    bool is_new = false;
    uint32_t *number = h->t.rc ? NULL : tokens_number(&h->t, scope, name, &is_new);
    if (!number)
        return;
    if (!is_new && *number != LOOSE)
        tokens_fail(&h->t, WARM_EMALFORMED, name.at, "this name is defined already");
    if (!is_new) {
        tokens_put_text(&h->t, " :");
        tokens_put(&h->t, &name);
    }
    *number = (*n)++;
    tokens_put_text(&h->t, "\n");
}

/* ---- attributes ---- */

/* Numbers the name of a mesh axis, a string before '='. */
static void put_axis(struct hlo *h, struct token string)
{
    bool is_new = false;
    struct token name = {.at = string.at + 1, .len = string.len - 2};
    uint32_t *number = tokens_number(&h->t, &h->axes, name, &is_new);
    if (number && is_new)
        *number = h->n_axes++;
    if (number)
        tokens_put_number(&h->t, string, '#', *number);
}

/* Puts a string. In one of Shardy, \"name\" becomes the number of the mesh axis. */
static void put_string(struct hlo *h, struct token string)
{
    struct tokens *t = &h->t;
    const char *from = t->text + string.at, *end = from + string.len, *quote, *close;
    if (string.len < 6 || memcmp(from, "\"#sdy", 5) != 0) {
        tokens_put(t, &string);
        return;
    }
    for (const char *p = from; p < end; p++)
        if (*p == '#' && p[1] >= '0' && p[1] <= '9')
            tokens_fail(t, WARM_EREFUSED, (uint32_t)(p - t->text),
                        "a name that begins with a digit");
    for (const char *p = from; (quote = memmem(p, (size_t)(end - p), "\\\"", 2)); p = close + 2) {
        if (!(close = memmem(quote + 2, (size_t)(end - quote - 2), "\\\"", 2)))
            break;
        const uint32_t *axis = names_find(&h->axes, quote + 2, (size_t)(close - quote - 2));
        if (!axis)
            continue;
        tokens_put_exact(t, (uint32_t)(from - t->text), (uint32_t)(quote - t->text));
        tokens_put_number(t, string, '#', *axis);
        from = close + 2;
    }
    tokens_put_exact(t, (uint32_t)(from - t->text), (uint32_t)(end - t->text));
}

enum reading {
    DROPPED,
    EXACT,        /* for the back end to read: every byte counts */
    COMPUTATIONS, /* each word is the name of a computation */
    INSTRUCTIONS, /* each word is the name of an instruction of this computation */
    UNKNOWN,      /* a word may be the name of anything */
};

static void put_value_token(struct hlo *h, enum reading how)
{
    struct tokens *t = &h->t;
    char behind = t->at < t->len ? t->text[t->at] : '\0';
    bool is_field = behind == '=', is_sign = tokens_mark(t, '#') || tokens_mark(t, '@');
    if (how == DROPPED || how == EXACT)
        return;
    if (is_sign && behind >= '0' && behind <= '9')
        tokens_fail(t, WARM_EREFUSED, t->now.at, "a name that begins with a digit");
    if (is_field && t->now.kind == TOKEN_WORD && t->now.depth < h->meshes)
        h->meshes = 0;
    if (is_field && tokens_is(t, "xla.sdy.meshes"))
        h->meshes = t->now.depth + 1;
    if (t->now.kind == TOKEN_STRING && is_field && h->meshes)
        put_axis(h, t->now);
    else if (t->now.kind == TOKEN_STRING)
        put_string(h, t->now);
    else if (t->now.kind != TOKEN_WORD || (how == UNKNOWN && is_field))
        tokens_put(t, &t->now);
    else if (how == UNKNOWN)
        put_unknown_word(h, t->now);
    else
        put_name(h, t->now, how == INSTRUCTIONS);
}

/* Puts a value: up to a comma, to a word behind white space, or to the bracket that closes around it.
 * A value may go on in brackets behind white space: mesh['x'=2] {'x'}. A dropped one does not, as
 * the bracket behind a signature opens the body. */
static void put_value(struct hlo *h, enum reading how)
{
    struct tokens *t = &h->t;
    uint32_t first = t->now.at, end = first, depth = t->now.depth;
    h->meshes = 0;
    if (first < t->len && classes[(uint8_t)t->text[first]] == CLASS_CLOSE)
        tokens_expected(t, "a value was expected");
    for (; t->now.kind != TOKEN_END && t->now.depth >= depth; tokens_next(t)) {
        bool begins = t->now.kind == TOKEN_WORD || (how == DROPPED && t->depth > t->now.depth);
        bool is_next = t->now.spaced && begins && t->now.at > first;
        if (t->now.depth == depth && (tokens_mark(t, ',') || is_next))
            break;
        put_value_token(h, how);
        end = t->now.at + t->now.len;
    }
    if (end == first)
        tokens_expected(t, "a value was expected");
    else if (how == EXACT)
        tokens_put_exact(t, first, end);
}

/* Puts {name=value name=value} without the fields that tell where an instruction came from. */
static void put_metadata(struct hlo *h)
{
    static const char *const origin_keys[] = {
        "op_type",           "op_name",         "source_file",
        "source_line",       "source_end_line", "source_column",
        "source_end_column", "stack_frame_id",  "deduplicated_name",
    };
    tokens_next(&h->t);
    while (!h->t.rc && !tokens_mark(&h->t, '}')) {
        take_mark(h, ',');
        struct token key = take_word(h);
        bool is_origin = tokens_in(&h->t, &key, origin_keys, COUNT(origin_keys));
        if (!key.len || !take_mark(h, '='))
            tokens_expected(&h->t, "a field `name=value` was expected");
        if (!is_origin) {
            tokens_put_text(&h->t, ", metadata.");
            tokens_put(&h->t, &key);
            tokens_put_text(&h->t, "=");
        }
        put_value(h, is_origin ? DROPPED : UNKNOWN);
    }
    tokens_next(&h->t);
}

/* Returns how to read the value of an attribute. */
static enum reading reading_of(const struct hlo *h, struct token key)
{
    static const char *const exact[] = {"backend_config"};
    static const char *const instructions[] = {"control-predecessors"};
    static const char *const computations[] = {
        "to_apply",           "calls",  "condition", "body",       "true_computation",
        "false_computation",  "select", "scatter",   "comparator", "branch_computations",
        "called_computations"};
    return tokens_in(&h->t, &key, exact, COUNT(exact))                 ? EXACT
           : tokens_in(&h->t, &key, instructions, COUNT(instructions)) ? INSTRUCTIONS
           : tokens_in(&h->t, &key, computations, COUNT(computations)) ? COMPUTATIONS
                                                                       : UNKNOWN;
}

/* Puts {, name=value}. */
static void put_attributes(struct hlo *h)
{
    static const char *const metadata[] = {"metadata"}, *const target[] = {"custom_call_target"};
    struct tokens *t = &h->t;
    while (take_mark(h, ',')) {
        struct token key = take_word(h);
        if (!key.len || !take_mark(h, '='))
            tokens_expected(t, "an attribute `name=value` was expected");
        if (tokens_in(t, &key, metadata, 1) && tokens_mark(t, '{')) {
            put_metadata(h);
            continue;
        }
        if (tokens_in(t, &key, target, 1) && form_is_process_bound(t->text + t->now.at, t->now.len))
            tokens_fail(t, WARM_EREFUSED, t->now.at, FORM_PROCESS_BOUND);
        tokens_put_text(t, ", ");
        tokens_put(t, &key);
        tokens_put_text(t, "=");
        put_value(h, reading_of(h, key));
    }
}

/* ---- instructions ---- */

/* Puts the literal of a constant, or the number of a parameter. */
static void put_literal(struct hlo *h, uint32_t depth)
{
    struct tokens *t = &h->t;
    for (; t->now.depth > depth && t->now.kind != TOKEN_END; tokens_next(t)) {
        if (t->now.len >= 3 && memcmp(t->text + t->now.at + t->now.len - 3, "...", 3) == 0)
            tokens_fail(t, WARM_EREFUSED, t->now.at,
                        "the value of a constant is elided: print it with "
                        "--xla_dump_large_constants");
        tokens_put(t, &t->now);
    }
}

/* Puts "f32[2]{0} %a, %b": an operand's name is the last word. The shape before it repeats its
 * definition. */
static void put_operands(struct hlo *h, uint32_t depth)
{
    struct tokens *t = &h->t;
    struct token last = {.kind = TOKEN_END};
    for (uint32_t n = 0; t->now.kind != TOKEN_END; tokens_next(t)) {
        bool is_end = t->now.depth == depth;
        if (!is_end && (t->now.depth > depth + 1 || !tokens_mark(t, ','))) {
            last = t->now;
            continue;
        }
        if (is_end && !n && last.kind == TOKEN_END)
            return;
        if (last.kind != TOKEN_WORD) {
            tokens_expected(t, "an operand was expected");
            return;
        }
        tokens_put_text(t, n++ ? "," : "");
        put_name(h, last, true);
        last.kind = TOKEN_END;
        if (is_end)
            return;
    }
}

/* Puts [ROOT] name = shape opcode(operands), attributes. */
static void put_instruction(struct hlo *h)
{
    static const char *const literals[] = {"constant", "parameter"};
    struct tokens *t = &h->t;
    uint32_t depth = t->now.depth, at = t->now.at;
    bool is_root = take_text(h, "ROOT");
    if (is_root && h->has_root)
        tokens_fail(t, WARM_EMALFORMED, at, "a computation with two roots");
    h->has_root |= is_root;
    struct token name = without_percent(h, take_word(h));
    if (!name.len || !take_mark(h, '='))
        tokens_expected(t, "an instruction `name = shape opcode(...)` was expected");
    tokens_put_text(t, is_root ? "  ROOT " : "  ");
    tokens_put_number(t, name, '#', h->n_instructions);
    tokens_put_text(t, " = ");
    do { /* the opcode is the first word behind the shape */
        tokens_put(t, &t->now);
        tokens_next(t);
    } while (t->now.kind != TOKEN_END && t->now.depth >= depth &&
             (t->now.kind != TOKEN_WORD || t->now.depth > depth));
    struct token opcode = take_word(h);
    if (!opcode.len || opcode.depth != depth || !tokens_mark(t, '('))
        tokens_expected(t, "an opcode and `(` were expected");
    tokens_put_text(t, " ");
    tokens_put(t, &opcode);
    tokens_put_text(t, "(");
    tokens_next(t);
    if (tokens_in(t, &opcode, literals, COUNT(literals)))
        put_literal(h, depth);
    else
        put_operands(h, depth);
    tokens_put_text(t, ")");
    tokens_next(t);
    put_attributes(h);
    put_defined(h, &h->instructions, &h->n_instructions, name);
}

/* ---- computations and the module ---- */

/* Puts [ENTRY] name [(parameters) -> shape] { instructions } attributes. XLA only compares the signature
 * with the instructions. */
static void put_computation(struct hlo *h)
{
    struct tokens *t = &h->t;
    uint32_t at = t->now.at;
    bool is_entry = take_text(h, "ENTRY");
    if (is_entry && h->has_entry)
        tokens_fail(t, WARM_EMALFORMED, at, "a module with two entries");
    h->has_entry |= is_entry;
    h->has_root = false;
    h->n_instructions = 0;
    names_clear(&h->instructions);
    struct token name = without_percent(h, take_word(h));
    if (name.len && tokens_mark(t, '(')) {
        put_value(h, DROPPED);
        if (!take_text(h, "-") || !take_mark(h, '>'))
            tokens_expected(t, "`-> shape {` was expected");
        put_value(h, DROPPED);
    }
    if (!name.len || !take_mark(h, '{'))
        tokens_expected(t, "a computation `name {` was expected");
    tokens_put_text(t, is_entry ? "ENTRY " : "");
    tokens_put_number(t, name, '@', h->n_computations);
    tokens_put_text(t, " {\n");
    while (!t->rc && !tokens_mark(t, '}'))
        put_instruction(h);
    if (!h->n_instructions)
        tokens_expected(t, "a computation without instructions");
    tokens_next(t);
    tokens_put_text(t, "}");
    put_attributes(h);
    put_defined(h, &h->computations, &h->n_computations, name);
}

/* Skips the entries of a table of source locations: 1 {file_name_id=1 ...} or 1 "a.py". */
static void skip_table(struct hlo *h)
{
    struct tokens *t = &h->t;
    for (tokens_next(t); t->now.kind == TOKEN_WORD;) {
        if (t->text[t->now.at] < '0' || t->text[t->now.at] > '9')
            return;
        tokens_next(t);
        put_value(h, DROPPED);
    }
}

static void put_module(struct hlo *h)
{
    static const char *const tables[] = {"FileNames", "FunctionNames", "FileLocations",
                                         "StackFrames"};
    struct tokens *t = &h->t;
    tokens_next(t);
    if (!take_text(h, "HloModule") || !take_word(h).len)
        tokens_expected(t, "`HloModule name` was expected");
    tokens_put_text(t, "module");
    put_attributes(h);
    tokens_put_text(t, "\n");
    while (t->now.kind != TOKEN_END) {
        if (tokens_in(t, &t->now, tables, COUNT(tables)))
            skip_table(h);
        else if (tokens_is(t, "HloModule"))
            tokens_fail(t, WARM_EMALFORMED, t->now.at, "more than one module in one input");
        else
            put_computation(h);
    }
    if (!h->has_entry)
        tokens_expected(t, "a module without an entry computation");
}

int form_hlo(const struct canon_input *input, struct form *out, struct err *e)
{
    struct hlo h = {.t = {.classes = classes, .language = "HLO"}};
    int rc = tokens_begin(&h.t, input, out, e);
    if (rc)
        return rc;
    form_begin(out, DOMAIN_HLO);
    put_module(&h);
    names_close(&h.instructions);
    names_close(&h.computations);
    names_close(&h.axes);
    return tokens_end(&h.t);
}

bool form_hlo_claims(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && classes[(uint8_t)data[i]] == CLASS_BLANK)
        i++;
    return len - i > 10 && memcmp(data + i, "HloModule", 9) == 0 &&
           classes[(uint8_t)data[i + 9]] == CLASS_BLANK;
}

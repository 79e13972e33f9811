/* SPDX-License-Identifier: Apache-2.0 */
/* short_text.c - hashed bytes of a graph back into text. No state, any thread. */
#include "tests/proof/short_text.h"

#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"
#include "keygen/canon/form.h"

#define KINDS_MAX 65536
#define INDENT_MAX 32

enum { RECORD_TEXT, RECORD_SHAPE, RECORD_FUNC, RECORD_LINE };
enum { LINE_OP, LINE_OPEN, LINE_BLOCK, LINE_NEXT, LINE_EMPTY, LINE_NEXT_EMPTY, LINE_CLOSE };

struct shape {
    uint64_t kind, label, n_operands, n_types;
    struct view name, dict;
    struct view *types;
};

struct expander {
    struct writer *out;
    struct reader in;
    uint64_t depth, next;
    struct shape shapes[KINDS_MAX];
    uint64_t n_shapes;
    struct view texts[KINDS_MAX];
    uint64_t n_texts;
};

static uint64_t take_number(struct expander *x)
{
    uint64_t number = 0;
    uint8_t byte;
    unsigned shift = 0;
    do {
        byte = reader_u8(&x->in);
        number |= (uint64_t)(byte & 0x7F) << shift;
        shift += 7;
    } while (byte & 0x80 && shift < 64);
    return number;
}

static struct view take_text(struct expander *x) { return reader_bytes(&x->in, take_number(x)); }

/* A text by its number; behind 0 stands a new one. */
static struct view take_ref(struct expander *x)
{
    uint64_t number = take_number(x);
    if (number > x->n_texts || (!number && x->n_texts == KINDS_MAX))
        x->in.failed = true;
    if (x->in.failed)
        return (struct view){"", 0};
    if (!number)
        x->texts[x->n_texts++] = take_text(x);
    return x->texts[number ? number - 1 : x->n_texts - 1];
}

static void put_view(struct expander *x, struct view v) { writer_bytes(x->out, v.data, v.len); }

/* A text that closes a function begins with '}'. */
static void take_piece(struct expander *x)
{
    struct view text = take_text(x);
    x->next = take_number(x);
    put_view(x, text);
    x->depth = 0;
}

/* The head of a function. */
static void take_func(struct expander *x)
{
    uint64_t symbol = take_number(x), bits = take_number(x);
    uint64_t n_args = take_number(x), n_results = take_number(x);
    writer_format(x->out, bits & 1 ? "func public " : "func ");
    writer_format(x->out, "@#%llu(", (unsigned long long)symbol - 1);
    for (uint64_t i = 0; i < n_args + n_results && !x->in.failed; i++) {
        uint64_t in_list = i < n_args ? i : i - n_args;
        writer_format(x->out, i == n_args ? ") -> (" : in_list ? ", " : "");
        if (i < n_args)
            writer_format(x->out, "%%%llu : ", (unsigned long long)x->next++);
        put_view(x, take_ref(x));
        struct view dict = take_ref(x);
        writer_format(x->out, dict.len ? " " : "");
        put_view(x, dict);
    }
    writer_format(x->out, n_results ? ")" : ") -> ()");
    writer_format(x->out, bits & 2 ? " {\n" : "");
    x->depth = bits >> 1 & 1;
}

static bool take_shape(struct expander *x)
{
    if (x->n_shapes == KINDS_MAX)
        return false;
    struct shape *s = &x->shapes[x->n_shapes++];
    s->kind = take_number(x);
    if (s->kind == LINE_OP || s->kind == LINE_OPEN)
        s->name = take_ref(x);
    else
        s->label = take_number(x);
    s->dict = take_ref(x);
    s->n_operands = take_number(x);
    s->n_types = take_number(x);
    if (x->in.failed || s->n_types > x->in.len)
        return false;
    s->types = calloc(s->n_types + 1, sizeof *s->types);
    for (uint64_t i = 0; i < s->n_types; i++)
        s->types[i] = take_ref(x);
    return true;
}

static void put_values(struct expander *x, const struct shape *s, bool typed)
{
    for (uint64_t i = 0; i < s->n_types; i++) {
        writer_format(x->out, i ? ", %%%llu" : "%%%llu", (unsigned long long)x->next + i);
        if (typed) {
            writer_format(x->out, " : ");
            put_view(x, s->types[i]);
        }
    }
}

static void put_dict_and_types(struct expander *x, const struct shape *s, bool types)
{
    writer_format(x->out, s->dict.len ? " " : "");
    put_view(x, s->dict);
    for (uint64_t i = 0; types && i < s->n_types; i++) {
        writer_format(x->out, i ? ", " : " : ");
        put_view(x, s->types[i]);
    }
}

static void put_op(struct expander *x, const struct shape *s)
{
    if (s->kind == LINE_OP)
        put_values(x, s, false);
    writer_format(x->out, s->kind == LINE_OP && s->n_types ? " = " : "");
    put_view(x, s->name);
    for (uint64_t i = 0; i < s->n_operands && !x->in.failed; i++)
        writer_format(x->out, i ? ", %%%llu" : " %%%llu",
                      (unsigned long long)(x->next - take_number(x)));
    put_dict_and_types(x, s, s->kind == LINE_OP);
    writer_format(x->out, s->kind == LINE_OPEN ? " (" : "");
}

static void put_line(struct expander *x, const struct shape *s)
{
    x->depth -= s->kind == LINE_CLOSE;
    for (uint64_t i = 0; i < 2 * x->depth && i < INDENT_MAX; i++)
        writer_u8(x->out, ' ');
    switch (s->kind) {
    case LINE_OP:
    case LINE_OPEN: put_op(x, s); break;
    case LINE_BLOCK:
    case LINE_NEXT:
        writer_format(x->out, s->kind == LINE_NEXT ? "| ^%llu (" : "^%llu (",
                      (unsigned long long)s->label);
        put_values(x, s, true);
        writer_format(x->out, ")");
        break;
    case LINE_EMPTY: writer_format(x->out, "()"); break;
    case LINE_NEXT_EMPTY: writer_format(x->out, "| ()"); break;
    default:
        writer_format(x->out, ")");
        put_dict_and_types(x, s, true);
        writer_format(x->out, s->n_types ? " = " : "");
        put_values(x, s, false);
    }
    writer_format(x->out, "\n");
    x->depth += s->kind == LINE_OPEN;
    x->next += s->n_types;
}

bool short_text_expand(struct view hashed, struct writer *out)
{
    struct expander *x = calloc(1, sizeof *x);
    bool good = true;
    x->out = out;
    x->in = reader_over(hashed.data, hashed.len);
    while (good && x->in.len && !x->in.failed) {
        uint64_t record = take_number(x);
        if (record == RECORD_TEXT)
            take_piece(x);
        else if (record == RECORD_SHAPE)
            good = take_shape(x);
        else if (record == RECORD_FUNC)
            take_func(x);
        else if (record - RECORD_LINE < x->n_shapes)
            put_line(x, &x->shapes[record - RECORD_LINE]);
        else
            good = false;
    }
    good = good && reader_done(&x->in);
    for (uint64_t i = 0; i < x->n_shapes; i++)
        free(x->shapes[i].types);
    free(x);
    return good;
}

/* ---- beside a key ---- */

static const char *short_text_check(const struct writer *text, const struct writer *hashed)
{
    struct writer back;
    writer_init(&back, 0);
    bool good = short_text_expand((struct view){(const char *)hashed->data, hashed->len}, &back);
    bool same = good && back.len == text->len &&
                (!back.len || memcmp(back.data, text->data, back.len) == 0);
    writer_close(&back);
    return !good  ? "the hashed bytes stand for no text"
           : same ? NULL
                  : "the hashed bytes stand for another text";
}

int short_text_of(const struct canon_input *input, struct short_text *out, struct err *e)
{
    struct canon_result result;
    struct writer text, hashed;
    struct form form;
    int rc = canon_key(input, &result, NULL, e);
    if (rc)
        return rc;
    *out = (struct short_text){.key = result.key};
    out->text = proof_of_bytes(input->data, input->len);
    if (result.exact)
        return 0;
    memset(&form, 0, offsetof(struct form, buffer));
    writer_init(form.text = &text, 0);
    writer_init(form.hashed = &hashed, 0);
    rc = result.kind == CANON_MLIR            ? form_mlir(input, &form, e)
         : result.kind == CANON_MLIR_BYTECODE ? form_mlir_bytecode(input, &form, e)
                                              : form_hlo(input, &form, e);
    if (!rc) {
        form_text_apart(&form); /* what waits goes its way */
        if (result.kind != CANON_HLO)
            out->wrong = short_text_check(&text, &hashed);
        out->text = proof_of_bytes(text.data, text.len);
    }
    writer_close(&text);
    writer_close(&hashed);
    return rc;
}

bool short_text_agree(const struct short_text *a, const struct short_text *b)
{
    bool same = memcmp(&a->text, &b->text, sizeof a->text) == 0;
    return !a->wrong && !b->wrong && key_equal(&a->key, &b->key) == same;
}

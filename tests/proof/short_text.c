/* SPDX-License-Identifier: Apache-2.0 */
/* short_text.c - hashed bytes of a graph back into text. No state, any thread. */
#include "tests/proof/short_text.h"

#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"
#include "keygen/forms.h"

#define KINDS_MAX 65536
#define INDENT_MAX 32
#define LENS_BYTES 16 /* behind each chunk */

enum { ITEM_TEXT, ITEM_CLOSE, ITEM_OP_KIND, ITEM_HEAD_KIND, ITEM_LINE };

struct kind {
    bool is_head, flag; /* of a head: of a later region; of an operation: it has regions */
    struct view name, dict;
    uint64_t label, n_operands, n_types;
    struct view *types;
};

struct expander {
    struct writer *out;
    struct reader text, items;
    uint64_t depth, values;
    struct kind kinds[KINDS_MAX];
    uint64_t n_kinds;
};

/* ---- chunks: texts and items, which are told apart from the back ---- */

static void put_front(struct writer *w, const uint8_t *data, size_t len)
{
    size_t had = w->len;
    if (!len)
        return;
    writer_reserve(w, len);
    memmove(w->data + len, w->data, had);
    memcpy(w->data, data, len);
    w->len = had + len;
}

static bool chunks_split(struct view hashed, struct writer *text, struct writer *items)
{
    const uint8_t *data = (const uint8_t *)hashed.data;
    size_t left = hashed.len;
    while (left) {
        if (left < LENS_BYTES)
            return false;
        left -= LENS_BYTES;
        struct reader lens = reader_over(data + left, LENS_BYTES);
        uint64_t text_len = reader_u64(&lens), items_len = reader_u64(&lens);
        if (items_len > left || text_len > left - items_len)
            return false;
        put_front(items, data + left - items_len, items_len);
        put_front(text, data + left - items_len - text_len, text_len);
        left -= items_len + text_len;
    }
    return true;
}

/* ---- items ---- */

static uint64_t take_number(struct expander *x)
{
    uint64_t number = 0;
    uint8_t byte;
    unsigned shift = 0;
    do {
        byte = reader_u8(&x->items);
        number |= (uint64_t)(byte & 0x7F) << shift;
        shift += 7;
    } while (byte & 0x80 && shift < 64);
    return number;
}

static struct view take_text(struct expander *x, uint64_t len)
{
    return reader_bytes(&x->text, len);
}

static bool take_types(struct expander *x, struct kind *k)
{
    if (k->n_types > x->items.len)
        return false;
    k->types = calloc(k->n_types + 1, sizeof *k->types);
    for (uint64_t i = 0; i < k->n_types; i++)
        k->types[i] = take_text(x, take_number(x));
    return true;
}

static bool take_kind(struct expander *x, bool is_head)
{
    if (x->n_kinds == KINDS_MAX)
        return false;
    struct kind *k = &x->kinds[x->n_kinds++];
    k->is_head = is_head;
    k->flag = take_number(x) != 0;
    if (is_head) {
        k->label = take_number(x);
    } else {
        uint64_t name_len = take_number(x), dict_len = take_number(x);
        k->name = take_text(x, name_len);
        k->dict = take_text(x, dict_len);
        k->n_operands = take_number(x);
    }
    k->n_types = take_number(x);
    return take_types(x, k);
}

/* ---- lines ---- */

static void put_view(struct writer *out, struct view v) { writer_bytes(out, v.data, v.len); }

static void put_indent(struct expander *x)
{
    for (uint64_t i = 0; i < 2 * x->depth && i < INDENT_MAX; i++)
        writer_u8(x->out, ' ');
}

static void put_head(struct expander *x, const struct kind *k)
{
    writer_format(x->out, "%s^%llu (", k->flag ? "| " : "", (unsigned long long)k->label);
    for (uint64_t i = 0; i < k->n_types; i++) {
        writer_format(x->out, "%s%%%llu : ", i ? ", " : "", (unsigned long long)x->values++);
        put_view(x->out, k->types[i]);
    }
    writer_format(x->out, ")\n");
}

static void put_op(struct expander *x, const struct kind *k)
{
    uint64_t first = x->values;
    for (uint64_t i = 0; i < k->n_types; i++)
        writer_format(x->out, "%s%%%llu", i ? ", " : "", (unsigned long long)x->values++);
    writer_format(x->out, k->n_types ? " = " : "");
    put_view(x->out, k->name);
    for (uint64_t i = 0; i < k->n_operands && !x->items.failed; i++)
        writer_format(x->out, "%s%%%llu", i ? ", " : " ",
                      (unsigned long long)(first - take_number(x)));
    if (k->dict.len) {
        writer_u8(x->out, ' ');
        put_view(x->out, k->dict);
    }
    for (uint64_t i = 0; i < k->n_types; i++) {
        writer_format(x->out, i ? ", " : " : ");
        put_view(x->out, k->types[i]);
    }
    writer_format(x->out, k->flag ? " (\n" : "\n");
    x->depth += k->flag;
}

static bool expand_line(struct expander *x, uint64_t kind)
{
    if (kind >= x->n_kinds)
        return false;
    put_indent(x);
    if (x->kinds[kind].is_head)
        put_head(x, &x->kinds[kind]);
    else
        put_op(x, &x->kinds[kind]);
    return true;
}

static bool expand_item(struct expander *x)
{
    uint64_t what = take_number(x);
    switch (what) {
    case ITEM_TEXT:
        put_view(x->out, take_text(x, take_number(x)));
        x->depth = take_number(x);
        x->values = take_number(x);
        return true;
    case ITEM_CLOSE:
        x->depth--;
        put_indent(x);
        writer_format(x->out, ")\n");
        return true;
    case ITEM_OP_KIND: return take_kind(x, false);
    case ITEM_HEAD_KIND: return take_kind(x, true);
    default: return expand_line(x, what - ITEM_LINE);
    }
}

bool short_text_expand(struct view hashed, struct writer *out)
{
    struct writer text, items;
    struct expander *x = calloc(1, sizeof *x);
    writer_init(&text, 0);
    writer_init(&items, 0);
    bool good = chunks_split(hashed, &text, &items);
    x->out = out;
    x->text = reader_over(text.data, text.len);
    x->items = reader_over(items.data, items.len);
    while (good && x->items.len && !x->items.failed && !x->text.failed)
        good = expand_item(x);
    good = good && reader_done(&x->items) && reader_done(&x->text);
    for (uint64_t i = 0; i < x->n_kinds; i++)
        free(x->kinds[i].types);
    free(x);
    writer_close(&text);
    writer_close(&items);
    return good;
}

/* ---- beside a key ---- */

static const char *short_text_check(const struct writer *text, const struct writer *hashed)
{
    struct writer back;
    writer_init(&back, 0);
    bool good = short_text_expand((struct view){(const char *)hashed->data, hashed->len}, &back);
    bool same = good && back.len == text->len && memcmp(back.data, text->data, back.len) == 0;
    writer_close(&back);
    return !good  ? "the hashed bytes stand for no text"
           : same ? NULL
                  : "the hashed bytes stand for another text";
}

static int form_of(const struct canon_input *input, enum canon_kind kind, struct form *out,
                   struct err *e)
{
    return kind == CANON_MLIR ? form_mlir(input, out, e) : form_mlir_bytecode(input, out, e);
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
    rc = form_of(input, result.kind, &form, e);
    if (!rc) {
        form_goes(&form, FORM_READ); /* what waits goes its way */
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

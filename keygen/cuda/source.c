/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.c - writes the canonical source (CUDA.md, "CUDA C++"). canon.c calls it for CUDA C++.
 *
 * The form is the sequence of tokens. The mode says which white space stays:
 *   LOOSE   no macro can turn an argument into a string: only blanks that keep two tokens apart
 *   SQUEEZE there are headers, or a # operator: every run of white space is one blank
 *   LINES   __LINE__ may show: as SQUEEZE, and every line break keeps its place
 *
 * Thread: any; no state.
 */
#include "keygen/canon/form.h"
#include "keygen/cuda/internal.h"
#include "keygen/domains.h"

enum mode { LOOSE, SQUEEZE, LINES };

struct printer {
    struct form *out;
    enum mode mode;
    bool any;          /* something was put */
    bool fresh;        /* the last byte is a line break of our own */
    struct token last; /* the token before */
};

static void put_many(struct form *out, char c, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        form_put(out, &c, 1);
}

/* Writes the bytes of a token without its splices. */
static void put_token(struct form *out, const struct token *t)
{
    if (!t->spliced) {
        form_put(out, t->data, t->len);
        return;
    }
    const char *at = t->data, *end = at + t->len;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        const char *stop = slash != NULL ? slash : end;
        form_put(out, at, (size_t)(stop - at));
        if (stop == end || !WARM_EXPECT(stop + 1 < end)) /* a literal ends with its quote */
            return;
        if (stop[1] == '\n' || stop[1] == '\r') {
            at = stop + (stop[1] == '\n' ? 2 : 3);
        } else {
            form_put(out, stop, 2);
            at = stop + 2;
        }
    }
}

/* True for marks that no longer operator begins or ends with. */
static bool is_bracket(const struct token *t)
{
    return t->kind == PUNCT && memchr("()[]{};,", *t->data, 8) != NULL;
}

/* True if the two stay two tokens without white space between them. */
static bool stays_apart(const struct token *a, const struct token *b)
{
    if (is_bracket(a) || is_bracket(b))
        return true;
    if (a->kind == PUNCT)
        return b->kind == WORD || b->kind == LITERAL || (b->kind == NUMBER && *a->data != '.');
    if (b->kind == PUNCT)
        return a->kind != NUMBER || strchr(".+-", *b->data) == NULL;
    return false;
}

static bool ends_statement(const struct token *t)
{
    return t->kind == PUNCT && (*t->data == ';' || *t->data == '{' || *t->data == '}');
}

/* Writes the line breaks of a LINES form: each kind has a mark of its own. */
static void put_lines(struct printer *p, const struct token *t)
{
    put_many(p->out, '\f', t->splices);
    put_many(p->out, '\v', t->comment_lines);
    put_many(p->out, '\n', t->lines);
    if (t->lines == 0 && t->space && p->any)
        form_put(p->out, " ", 1);
}

/* Writes the gap between the last token and `t`, outside directives. Line by line a form is easier to
 * compare, so the end of a statement breaks the line if a blank may stand there. Not before a '#', which
 * would then look like a directive. */
static void put_gap(struct printer *p, const struct token *t)
{
    if (p->mode == LINES) {
        put_lines(p, t);
        return;
    }
    if (!p->any || p->fresh)
        return;
    bool breaks = ends_statement(&p->last) && *t->data != '#';
    if (p->mode == LOOSE && breaks)
        form_put(p->out, "\n", 1);
    else if (t->space && !(p->mode == LOOSE && stays_apart(&p->last, t)))
        form_put(p->out, breaks ? "\n" : " ", 1);
}

/* Writes a directive: on its own line, runs of white space as one blank, the header's name as spelt. */
static void put_directive(struct printer *p, struct lexer *x, struct token *t)
{
    if (p->mode == LINES)
        put_lines(p, t);
    else if (p->any && !p->fresh)
        form_put(p->out, "\n", 1);
    form_put(p->out, "#", 1);
    cuda_next(x, t);
    if (!t->starts_line)
        cuda_note_directive(t, x->scan);
    for (bool first = true; !t->starts_line; first = false) {
        if (p->mode == LINES) {
            put_many(p->out, '\f', t->splices);
            put_many(p->out, '\v', t->comment_lines);
        }
        if (t->space && !first)
            form_put(p->out, " ", 1);
        put_token(p->out, t);
        cuda_note_token(x, t);
        struct view header = {NULL, 0};
        if (first && cuda_is_include(t))
            header = cuda_take_header(x);
        if (header.len > 0) {
            form_put(p->out, " ", 1);
            form_put(p->out, header.data, header.len);
        }
        cuda_next(x, t);
    }
    if (p->mode != LINES)
        form_put(p->out, "\n", 1);
    p->any = true;
    p->fresh = true;
}

/* Writes the form of this mode and scans on the way. */
static void put_source(const struct canon_input *input, enum mode mode, struct form *out,
                       struct cuda_scan *scan)
{
    struct lexer x = cuda_lexer_over(input->data, input->len, scan);
    struct printer p = {.out = out, .mode = mode};
    struct token t;

    form_begin(out, DOMAIN_CUDA);
    cuda_next(&x, &t);
    while (t.kind != END) {
        if (cuda_begins_directive(&t)) {
            put_directive(&p, &x, &t);
        } else {
            cuda_note_token(&x, &t);
            (void)WARM_EXPECT(t.kind != END && t.len > 0);
            put_gap(&p, &t);
            put_token(p.out, &t);
            p.any = true;
            p.fresh = false;
            p.last = t;
            cuda_next(&x, &t);
        }
    }
}

static const char *why_exact(const struct cuda_scan *scan)
{
    if (scan->opaque)
        return "trigraphs or splices that compilers may read differently";
    if (scan->unclear)
        return "characters or literals that compilers may read differently";
    if (scan->uses_column)
        return "the source asks for its columns";
    return NULL;
}

static enum mode mode_of(const struct cuda_scan *scan)
{
    if (cuda_scan_uses_line(scan))
        return LINES;
    return cuda_scan_has_includes(scan) || scan->stringizes ? SQUEEZE : LOOSE;
}

/* Guesses the mode, which is known only after the text was read. A wrong guess costs a second reading. */
int form_cuda(const struct canon_input *input, struct form *out, struct err *e)
{
    struct cuda_scan scan = {0}, again = {0};
    (void)e;

    if (input->debug_info) {
        out->why_exact = "debug output was asked for: it shows lines and columns";
        return WARM_EUNSUPPORTED;
    }
    bool has_include = input->len > 0 && memmem(input->data, input->len, "#include", 8) != NULL;
    enum mode guess = has_include ? SQUEEZE : LOOSE;
    put_source(input, guess, out, &scan);
    out->why_exact = why_exact(&scan);
    if (out->why_exact != NULL)
        return WARM_EUNSUPPORTED;
    if (mode_of(&scan) == guess)
        return 0;
    put_source(input, mode_of(&scan), out, &again);
    (void)WARM_EXPECT(mode_of(&again) == mode_of(&scan)); /* it depends on the text alone */
    return 0;
}

/* True if the text has a word of CUDA C++. The forms that claim a text before this one have none. */
bool form_cuda_claims(const char *data, size_t len)
{
    static const char *const words[] = {"__global__", "__device__",       "__host__",
                                        "__shared__", "__constant__",     "#include",
                                        "threadIdx",  "__launch_bounds__"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (memmem(data, len, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

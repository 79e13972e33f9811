/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variants.c - see variants.h.
 *
 * CUDA: the text is cut into pieces (words, literals, comments, blanks, line ends, marks); a variant
 * copies the pieces and changes what lies between them. PTX: line by line, as compilers print it.
 */
#include "tests/proof/variants.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"

uint32_t random_below(struct random *r, uint32_t n)
{
    r->state += 0x9e3779b97f4a7c15u; /* splitmix64, Steele, Lea, Flood 2014 */
    uint64_t z = r->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) % n);
}

static bool one_in(struct random *r, uint32_t n) { return random_below(r, n) == 0; }

static void put(struct writer *w, const char *text) { writer_bytes(w, text, strlen(text)); }

static struct text taken(struct writer *w)
{
    struct text t;
    writer_u8(w, 0); /* as a C string too */
    t.data = writer_take(w, &t.len);
    t.len -= t.data != NULL;
    return t;
}

/* --- CUDA --- */

enum piece_kind { WORD, NUMBER, LITERAL, COMMENT, BLANK, LINE_END, MARK, DONE };

struct piece {
    enum piece_kind kind;
    const char *data;
    size_t len;
};

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

static size_t literal_len(const char *s, const char *end)
{
    const char *at = s + 1;
    while (at < end && *at != *s && *at != '\n')
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    return (size_t)(at < end ? at + 1 - s : end - s);
}

static size_t raw_len(const char *s, const char *end) /* at R" */
{
    char close[32] = ")";
    const char *paren = memchr(s, '(', (size_t)(end - s));
    size_t n = paren != NULL ? (size_t)(paren - s - 2) : 0;
    if (paren == NULL || n > 16)
        return (size_t)(end - s);
    memcpy(close + 1, s + 2, n);
    close[n + 1] = '"';
    const char *found = memmem(paren, (size_t)(end - paren), close, n + 2);
    return found != NULL ? (size_t)(found - s) + n + 2 : (size_t)(end - s);
}

static size_t comment_len(const char *s, const char *end)
{
    if (s[1] == '/') {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        return (size_t)((nl != NULL ? nl : end) - s);
    }
    const char *close = memmem(s + 2, (size_t)(end - s - 2), "*/", 2);
    return close != NULL ? (size_t)(close + 2 - s) : (size_t)(end - s);
}

static struct piece next_piece(const char **at, const char *end)
{
    const char *s = *at, *to = s;
    struct piece p = {DONE, s, 0};
    if (s == end)
        return p;
    if (*s == '\n' || (*s == '\\' && s + 1 < end && s[1] == '\n')) {
        p.kind = *s == '\n' ? LINE_END : BLANK; /* a splice */
        to = s + (*s == '\n' ? 1 : 2);
    } else if (*s == ' ' || *s == '\t' || *s == '\r') {
        p.kind = BLANK;
        while (to < end && (*to == ' ' || *to == '\t' || *to == '\r'))
            to++;
    } else if (*s == '/' && s + 1 < end && (s[1] == '/' || s[1] == '*')) {
        p.kind = COMMENT;
        to = s + comment_len(s, end);
    } else if (*s == 'R' && s + 1 < end && s[1] == '"') {
        p.kind = LITERAL;
        to = s + raw_len(s, end);
    } else if (*s == '"' || *s == '\'') {
        p.kind = LITERAL;
        to = s + literal_len(s, end);
    } else if (is_word(*s)) {
        p.kind = isdigit((unsigned char)*s) ? NUMBER : WORD;
        while (to < end && (is_word(*to) || (p.kind == NUMBER && *to == '.')))
            to++;
    } else {
        p.kind = MARK;
        to = s + 1;
    }
    p.len = (size_t)(to - s);
    *at = to;
    return p;
}

static void put_comment(struct random *r, struct writer *w)
{
    static const char *const inside[] = {"x",           "don't", "\"",      "a * b",
                                         "#define Z 1", "//",    "__TIME__"};
    put(w, " /*"); /* a '/' may stand before it */
    put(w, inside[random_below(r, sizeof inside / sizeof inside[0])]);
    put(w, "*/");
}

/* White space in the place of white space; a line break only where one may stand. */
static void put_blank(struct random *r, struct writer *w, bool may_break)
{
    switch (random_below(r, may_break ? 7 : 4)) {
    case 0: put(w, "\t "); return;
    case 1: put_comment(r, w); return;
    case 2: put(w, "    "); return;
    case 4: put(w, "\n"); return;
    case 5: put(w, " // note: \"it's\"\n"); return;
    case 6: put(w, "\n\n\t"); return;
    default: put(w, " ");
    }
}

static void put_line_end(struct random *r, struct writer *w, bool crlf, bool may_add)
{
    if (one_in(r, 8))
        put(w, one_in(r, 2) ? "  " : " // end of \"line\"");
    put(w, crlf ? "\r\n" : "\n");
    while (may_add && one_in(r, 10))
        put(w, one_in(r, 2) ? "\n" : "/* a line\n   of its own */\n");
}

struct text variant_of_cuda(struct random *r, struct text base, bool lines_count)
{
    struct writer w;
    const char *at = base.data, *end = at + base.len;
    bool directive = false, line_start = true, crlf = one_in(r, 4);
    uint32_t rate = 2 + random_below(r, 20);

    writer_init(&w, 0);
    for (struct piece p = next_piece(&at, end); p.kind != DONE; p = next_piece(&at, end)) {
        if (p.kind == MARK && *p.data == '#' && line_start)
            directive = true;
        bool splice = p.kind == BLANK && *p.data == '\\';
        bool has_header = directive && memchr("<\"", *p.data, 2) != NULL;
        if (has_header) { /* to the line's end as it is: it may be a header's name */
            const char *nl = memchr(p.data, '\n', (size_t)(end - p.data));
            at = nl != NULL ? nl : end;
            writer_bytes(&w, p.data, (size_t)(at - p.data));
        } else if (p.kind == LINE_END) {
            if (at < end)
                put_line_end(r, &w, crlf, !lines_count);
            else
                put(&w, "\n");
            directive = false;
        } else if (p.kind == COMMENT && one_in(r, 2) && !lines_count) {
            put(&w, " ");
        } else if (p.kind == BLANK && !splice && one_in(r, rate)) {
            put_blank(r, &w, !directive && !lines_count);
        } else {
            writer_bytes(&w, p.data, p.len);
        }
        line_start = p.kind == LINE_END || (line_start && (p.kind == BLANK || p.kind == COMMENT));
    }
    return taken(&w);
}

/* The text with `len` bytes at `at` replaced. */
static struct text replaced(struct text base, const char *at, size_t len, const char *by)
{
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, base.data, (size_t)(at - base.data));
    put(&w, by);
    writer_bytes(&w, at + len, base.len - (size_t)(at + len - base.data));
    return taken(&w);
}

struct text mutant_of_cuda(struct random *r, struct text base, const char **out_what)
{
    const char *end = base.data + base.len;
    const char *at = base.data;
    uint32_t skip = random_below(r, (uint32_t)base.len / 3 + 1);
    char by[2] = "";
    struct piece p;

    do {
        p = next_piece(&at, end);
        skip -= skip > 0;
    } while (p.kind != DONE &&
             (skip > 0 || p.kind == COMMENT || p.kind == BLANK || p.kind == LINE_END));
    *out_what = "";
    switch (p.kind) {
    case NUMBER:
        *out_what = "another digit";
        by[0] = *p.data == '7' ? '3' : '7';
        return replaced(base, p.data, 1, by);
    case WORD:
        *out_what = "another word";
        by[0] = p.data[p.len - 1] == 'q' ? 'p' : 'q';
        return replaced(base, p.data + p.len - 1, 1, by);
    case LITERAL:
        if (p.len < 3 || p.data[p.len - 2] == '\\' || *p.data == 'R' || p.data[1] == '\\')
            return (struct text){NULL, 0};
        *out_what = "another character in a literal";
        return replaced(base, p.data + 1, 1, p.data[1] == 'z' ? "y" : "z");
    case MARK:
        *out_what = "another mark";
        if (strchr("+-*<>", *p.data) == NULL)
            return (struct text){NULL, 0};
        return replaced(base, p.data, 1, *p.data == '+' ? "-" : "+");
    default: return (struct text){NULL, 0};
    }
}

/* --- PTX --- */

struct names { /* how this variant calls things */
    char register_letter, label_letter, parameter_letter;
};

static bool is_name(char c) { return is_word(c) || c == '%'; }

/* A name as the variant spells it: registers and labels get a letter behind their sigil, parameters
 * at their end. Special registers and everything else stay. */
static void put_name(struct writer *w, const char *s, size_t len, const struct names *names)
{
    size_t digits = len;
    while (digits > 0 && isdigit((unsigned char)s[digits - 1]))
        digits--;
    bool numbered = len > 1 && *s == '%' && digits > 1 && (digits < len || s[len] == '<');
    bool special = memmem(s, len, "clock", 5) != NULL || memmem(s, len, "pm", 2) != NULL ||
                   memmem(s, len, "envreg", 6) != NULL;
    if (numbered && !special) {
        writer_u8(w, '%');
        writer_u8(w, (uint8_t)names->register_letter);
        writer_bytes(w, s + 1, len - 1);
    } else if (len > 6 && memcmp(s, "$L__BB", 6) == 0) {
        writer_bytes(w, s, 2);
        writer_u8(w, (uint8_t)names->label_letter);
        writer_bytes(w, s + 2, len - 2);
    } else if (digits < len && digits > 7 && memcmp(s + digits - 7, "_param_", 7) == 0) {
        writer_bytes(w, s, len);
        writer_u8(w, (uint8_t)names->parameter_letter);
    } else {
        writer_bytes(w, s, len);
    }
}

static void put_ptx_line(struct random *r, struct writer *w, const char *s, size_t len,
                         const struct names *names)
{
    size_t at = 0;
    while (at < len) {
        size_t to = at;
        if (s[at] == '"' || (s[at] == '/' && at + 1 < len && s[at + 1] == '/')) {
            to = s[at] == '"' ? at + literal_len(s + at, s + len) : len;
            writer_bytes(w, s + at, to - at);
        } else if (is_name(s[at])) {
            while (to < len && is_name(s[to]))
                to++;
            put_name(w, s + at, to - at, names);
        } else {
            to = at + 1;
            writer_bytes(w, s + at, 1);
            if ((s[at] == ' ' || s[at] == '\t' || s[at] == ',') && one_in(r, 12))
                put(w, one_in(r, 2) ? "  " : "/* c */");
        }
        at = to;
    }
}

/* Lines that mean nothing, at the beginning of a statement in a function. */
static void put_idle_line(struct random *r, struct writer *w, bool debug_labels)
{
    switch (random_below(r, debug_labels ? 4 : 3)) {
    case 0: put(w, "\n"); return;
    case 1: put(w, "\t// a comment; with { braces }\n"); return;
    case 2: put(w, "\t.loc\t77 17 3\n"); return;
    default: /* two of the same name are as good as impossible */
        writer_format(w, "$L__tmp9%09u%09u:\n", random_below(r, 999999999),
                      random_below(r, 999999999));
    }
}

static bool begins(const char *s, size_t len, const char *with)
{
    return len >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

struct text variant_of_ptx(struct random *r, struct text base, bool debug_labels)
{
    struct names names = {(char)('a' + random_below(r, 26)), (char)('A' + random_below(r, 26)),
                          (char)('a' + random_below(r, 26))};
    const char *at = base.data, *end = at + base.len;
    bool in_body = false;
    uint32_t rate = 2 + random_below(r, 12);
    struct writer w;

    writer_init(&w, 0);
    while (at < end) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((nl != NULL ? nl : end) - at);
        /* a call goes over several lines: between statements means behind a ';' */
        bool statement = in_body && at > base.data + 1 && at[-2] == ';' && len > 2 &&
                         at[0] == '\t' && islower((unsigned char)at[1]);
        if (statement && one_in(r, rate))
            put_idle_line(r, &w, debug_labels);
        if (begins(at, len, ".version")) /* ptxas finds it by its looks */
            writer_bytes(&w, at, len);
        else
            put_ptx_line(r, &w, at, len, &names);
        put(&w, "\n");
        if (len == 1 && *at == '{') {
            in_body = true;
            put(&w, "\t.reg .b64 \t%zidle<3>;\n");
        } else if (len > 0 && *at == '}') {
            in_body = false;
        }
        at += len + 1;
    }
    put(&w, "\t.file\t77 \"/some/where/else.cu\"\n");
    return taken(&w);
}

/* "\tadd.s32 \t%r1, %r2, %r3;": exchanges the last two operands where that is another text. */
static struct text exchanged(struct text base, const char *line, size_t len)
{
    const char *semicolon = memchr(line, ';', len), *c, *b;
    struct text none = {NULL, 0};
    if (semicolon == NULL || memchr(line, '{', len) != NULL || memchr(line, '[', len) != NULL)
        return none;
    for (c = semicolon; c > line && c[-1] != ' ' && c[-1] != ','; c--)
        ;
    if (c < line + 4 || c[-1] != ' ' || c[-2] != ',')
        return none;
    for (b = c - 2; b > line && b[-1] != ' ' && b[-1] != '\t'; b--)
        ;
    size_t b_len = (size_t)(c - 2 - b), c_len = (size_t)(semicolon - c);
    if (b == line || b[-2] != ',' || *b != '%' || *c != '%' ||
        (b_len == c_len && memcmp(b, c, b_len) == 0))
        return none;
    char text[256];
    if (b_len + c_len + 3 > sizeof text)
        return none;
    memcpy(text, c, c_len);
    memcpy(text + c_len, ", ", 2);
    memcpy(text + c_len + 2, b, b_len);
    text[c_len + 2 + b_len] = '\0';
    return replaced(base, b, b_len + c_len + 2, text);
}

struct text mutant_of_ptx(struct random *r, struct text base, const char **out_what)
{
    const char *end = base.data + base.len;
    const char *at = base.data + random_below(r, (uint32_t)base.len);
    const char *nl = memchr(at, '\n', (size_t)(end - at));
    *out_what = "";
    if (nl == NULL || nl + 2 >= end || nl[1] != '\t' || !islower((unsigned char)nl[2]))
        return (struct text){NULL, 0};
    const char *line = nl + 1;
    nl = memchr(line, '\n', (size_t)(end - line));
    size_t len = (size_t)((nl != NULL ? nl : end) - line);
    const char *blank = memchr(line + 1, ' ', len - 1);

    switch (random_below(r, 3)) {
    case 0: *out_what = "operands exchanged"; return exchanged(base, line, len);
    case 1: { /* an immediate, which no letter or sigil stands before */
        *out_what = "another immediate";
        for (const char *s = line + len - 1; s > line + 1; s--)
            if (isdigit((unsigned char)*s) && (s[-1] == ' ' || s[-1] == '-' || s[-1] == 'x'))
                return replaced(base, s, 1, *s == '5' ? "6" : "5");
        return (struct text){NULL, 0};
    }
    default:
        *out_what = "another opcode";
        if (blank == NULL)
            return (struct text){NULL, 0};
        return replaced(base, blank - 1, 1, blank[-1] == '2' ? "4" : "2");
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* graph_variants.c - see graph_variants.h. */
#include "tests/proof/graph_variants.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"

#define LINES_MAX 4096

struct line {
    const char *at;
    size_t len; /* without the line end */
};

struct lines {
    struct line at[LINES_MAX];
    size_t n;
};

static bool drawn_in(struct random *r, uint32_t n) { return random_below(r, n) == 0; }

static void emit(struct writer *w, const char *text) { writer_bytes(w, text, strlen(text)); }

static struct text emitted(struct writer *w)
{
    struct text t;
    writer_u8(w, 0); /* as a C string too */
    t.data = writer_take(w, &t.len);
    t.len -= t.data != NULL;
    return t;
}

static void cut_lines(struct text base, struct lines *out)
{
    const char *at = base.data, *end = base.data + base.len;
    for (out->n = 0; at < end && out->n < LINES_MAX; out->n++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        out->at[out->n] = (struct line){at, (size_t)(stop - at)};
        at = stop + (stop < end);
    }
}

/* ---- words ---- */

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$' || c == '-';
}

static size_t word_len(const char *at, const char *end)
{
    const char *stop = at;
    while (stop < end && is_word_byte(*stop))
        stop++;
    return (size_t)(stop - at);
}

/* The length of the string that begins here. */
static size_t string_len(const char *at, const char *end)
{
    const char *stop = at + 1;
    while (stop < end && *stop != '"')
        stop += *stop == '\\' && stop + 1 < end ? 2 : 1;
    return (size_t)((stop < end ? stop + 1 : end) - at);
}

static bool has(struct line l, const char *what)
{
    return memmem(l.at, l.len, what, strlen(what)) != NULL;
}

static struct line trimmed(struct line l)
{
    while (l.len && isspace((unsigned char)*l.at))
        l = (struct line){l.at + 1, l.len - 1};
    while (l.len && isspace((unsigned char)l.at[l.len - 1]))
        l.len--;
    return l;
}

/* ---- operations ---- */

/* What a line of one operation says: "%3 = stablehlo.add %1, %2 : type", "ROOT c.3 = s add(a, b)".
 */
struct operation {
    struct line result; /* with its sigil */
    struct line name;   /* without the dialect */
    struct line operands;
};

static bool parse_operation(enum graph_language language, struct line l, struct operation *out)
{
    l = trimmed(l);
    if (language == GRAPH_HLO && l.len > 5 && memcmp(l.at, "ROOT ", 5) == 0)
        l = (struct line){l.at + 5, l.len - 5};
    const char *equals = memmem(l.at, l.len, " = ", 3), *end = l.at + l.len;
    if (!equals)
        return false;
    out->result = (struct line){l.at, (size_t)(equals - l.at)};
    const char *at = equals + 3, *open;
    if (language == GRAPH_MLIR) {
        const char *dot = memmem(at, (size_t)(end - at), "stablehlo.", 10);
        if (dot != at)
            return false;
        at += 10;
        out->name = (struct line){at, word_len(at, end)};
        open = at + out->name.len;
    } else {
        open = memchr(at, '(', (size_t)(end - at));
        if (!open || open == at) /* a tuple's shape begins with a bracket: not looked into */
            return false;
        const char *name = open;
        while (name > at && is_word_byte(name[-1]))
            name--;
        out->name = (struct line){name, (size_t)(open - name)};
        open++;
    }
    const char *origin = memmem(open, (size_t)(end - open), ", metadata=", 11);
    end = origin ? origin : end; /* what comes after says nothing that counts */
    out->operands = (struct line){open, (size_t)(end - open)};
    return true;
}

/* The two operands of a binary operation: "%1, %2 :" or "a, b)". */
static bool two_operands(enum graph_language language, const struct operation *o,
                         struct line *first, struct line *second)
{
    const char *end = o->operands.at + o->operands.len;
    const char *comma = memmem(o->operands.at, o->operands.len, ", ", 2);
    const char *stop = language == GRAPH_MLIR ? memmem(o->operands.at, o->operands.len, " :", 2)
                                              : memchr(o->operands.at, ')', o->operands.len);
    if (!comma || !stop || comma > stop || stop > end)
        return false;
    *first = trimmed((struct line){o->operands.at, (size_t)(comma - o->operands.at)});
    *second = (struct line){comma + 2, (size_t)(stop - comma) - 2};
    return first->len && second->len && !has(*second, ",") && !has(*first, " ");
}

/* ---- names ---- */

static uint64_t mixed(const char *text, size_t len, uint64_t salt)
{
    uint64_t h = salt ^ 0xcbf29ce484222325u; /* FNV-1a, Fowler, Noll, Vo */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

/* "region_0.1", "add.23": a name that HLO's printer numbered. */
static bool is_hlo_name(const char *at, size_t len)
{
    size_t digits = 0;
    while (digits < len && isdigit((unsigned char)at[len - 1 - digits]))
        digits++;
    return digits && len > digits + 1 && at[len - 1 - digits] == '.' &&
           (isalpha((unsigned char)*at) || *at == '_');
}

/* What the words of one variant become. */
struct renaming {
    enum graph_language language;
    uint64_t salt; /* 0: names stay */
    bool percent;  /* HLO: names with % */
    struct line privates[64], module;
    size_t n_privates;
};

/* Whether a string says a name. */
static bool is_quoted(struct text base, struct line name)
{
    char quoted[128];
    int n = snprintf(quoted, sizeof quoted, "\"%.*s\"", (int)name.len, name.at);
    return memmem(base.data, base.len, quoted, (size_t)n) != NULL;
}

static void find_names(struct text base, const struct lines *l, struct renaming *n)
{
    static const char private[] = "func.func private @", module[] = "module @";
    for (size_t i = 0; i < l->n; i++) {
        struct line line = l->at[i];
        const char *end = line.at + line.len;
        const char *at = memmem(line.at, line.len, private, sizeof private - 1);
        if (at && n->n_privates < 64) {
            at += sizeof private - 1;
            struct line name = {at, word_len(at, end)};
            n->privates[n->n_privates] = name;
            n->n_privates += !is_quoted(base, name);
        }
        if (line.len > 8 && memcmp(line.at, module, 8) == 0)
            n->module = (struct line){line.at + 8, word_len(line.at + 8, end)};
    }
}

static bool is_renamed(const struct renaming *n, const char *at, size_t len, char before)
{
    if (!n->salt || !len)
        return false;
    if (n->language == GRAPH_HLO)
        return is_hlo_name(at, len);
    if (before == '%')
        return true;
    for (size_t i = 0; before == '@' && i < n->n_privates; i++)
        if (n->privates[i].len == len && memcmp(n->privates[i].at, at, len) == 0)
            return true;
    return before == '@' && n->module.len == len && memcmp(n->module.at, at, len) == 0;
}

/* ---- attributes that do not count on arguments and results of functions: KEYS.md 2.1 ---- */

static const struct {
    const char *name, *value; /* NULL: any string */
} dropped[] = {{"jax.result_info", NULL}, {"mhlo.layout_mode", "\"default\""}};

static void emit_dropped(struct random *r, struct writer *w, size_t which)
{
    if (dropped[which].value)
        writer_format(w, "%s = %s", dropped[which].name, dropped[which].value);
    else
        writer_format(w, "%s = \"note %u\"", dropped[which].name, random_below(r, 9999));
}

/* Emits one at `at` in the head of a function, if an argument or result there may have one: behind '{', or
 * before ',' and ')' where there is no dictionary. `depth`: the open brackets. */
static void emit_attribute(struct random *r, struct writer *w, struct line l, const char *at,
                           int depth)
{
    size_t which = random_below(r, sizeof dropped / sizeof *dropped);
    const char *close = memchr(at, '}', (size_t)(l.at + l.len - at));
    if (drawn_in(r, 2) || at == l.at || at[-1] == '(' || at[-1] == '}')
        return;
    if (depth == 2 && at[-1] == '{' && close &&
        !has((struct line){at, (size_t)(close - at)}, dropped[which].name)) {
        emit_dropped(r, w, which);
        emit(w, ", ");
    } else if (depth == 1 && (*at == ',' || *at == ')')) {
        emit(w, " {");
        emit_dropped(r, w, which);
        emit(w, "}");
    }
}

/* The open brackets behind this byte, if `depth` are open before it. */
static int depth_behind(const char *at, const char *begin, int depth)
{
    bool arrow = *at == '>' && at > begin && at[-1] == '-';
    return depth + (strchr("([{<", *at) != NULL) - (!arrow && strchr(")]}>", *at) != NULL);
}

/* ---- variants ---- */

static void emit_blank(struct random *r, struct writer *w, enum graph_language language)
{
    emit(w, drawn_in(r, 12) ? "  " : " ");
    if (language == GRAPH_HLO && drawn_in(r, 200))
        emit(w, "/*index=5*/");
}

static void emit_line(struct random *r, struct writer *w, const struct renaming *n, struct line l)
{
    const char *end = l.at + l.len;
    bool head = n->language == GRAPH_MLIR && has(l, "func.func ");
    int depth = 0;
    for (const char *at = l.at; at < end;) {
        size_t len = *at == '"' ? string_len(at, end) : word_len(at, end);
        char before = at > l.at ? at[-1] : ' ';
        head = head && !(len == 10 && memcmp(at, "attributes", len) == 0);
        if (head)
            emit_attribute(r, w, l, at, depth);
        depth = depth_behind(at, l.at, depth);
        if (*at != '"' && is_renamed(n, at, len, before)) {
            if (n->percent && before != '%')
                emit(w, "%");
            writer_format(w, "n%016llx", (unsigned long long)mixed(at, len, n->salt));
        } else if (len) {
            writer_bytes(w, at, len);
        } else if (*at == ' ') {
            emit_blank(r, w, n->language);
            len = 1;
        } else {
            writer_bytes(w, at, 1);
            len = 1;
        }
        at += len;
    }
}

/* True if an operation ends with this line, so that something may follow it. */
static bool ends_operation(struct line l, struct line next)
{
    next = trimmed(next);
    bool continues =
        next.len > 4 && (memcmp(next.at, "cond", 4) == 0 || memcmp(next.at, "redu", 4) == 0);
    char last = l.len ? l.at[l.len - 1] : '{';
    return !continues && last != '{' && last != '(' && last != ',' && last != ':';
}

static void emit_trailer(struct random *r, struct writer *w, enum graph_language language,
                         struct line l, struct line next)
{
    struct operation o;
    bool is_operation = parse_operation(language, l, &o);
    if (language == GRAPH_HLO && is_operation && drawn_in(r, 4) && !has(l, "metadata"))
        writer_format(w, ", metadata={op_name=\"pad.%u\" source_line=%u}", random_below(r, 9999),
                      random_below(r, 500));
    if (language == GRAPH_MLIR && is_operation && drawn_in(r, 4) && ends_operation(l, next) &&
        !has(l, "({"))
        writer_format(w, " loc(\"f.py\":%u:%u)", random_below(r, 500) + 1, random_below(r, 80));
    if (drawn_in(r, 10))
        emit(w, drawn_in(r, 2) ? "  // a remark, with a \"quote\" and a }" : "  ");
    emit(w, "\n");
    if (drawn_in(r, 30) && language == GRAPH_MLIR)
        emit(w, "\n");
}

struct text variant_of_graph(struct random *r, enum graph_language language, struct text base)
{
    struct lines *l = malloc(sizeof *l);
    struct writer w;
    struct renaming names = {.language = language,
                             .salt = drawn_in(r, 4) ? 0 : (uint64_t)random_below(r, 1u << 30) + 1,
                             .percent = language == GRAPH_HLO && drawn_in(r, 2)};
    cut_lines(base, l);
    find_names(base, l, &names);
    writer_init(&w, 0);
    for (size_t i = 0; i < l->n; i++) {
        if (i == 0 && language == GRAPH_HLO) {
            const char *comma = memchr(l->at[0].at, ',', l->at[0].len);
            writer_format(&w, "HloModule module_%04u.loop", random_below(r, 10000));
            writer_bytes(&w, comma, (size_t)(l->at[0].at + l->at[0].len - comma));
        } else {
            emit_line(r, &w, &names, l->at[i]);
        }
        emit_trailer(r, &w, language, l->at[i], i + 1 < l->n ? l->at[i + 1] : (struct line){"", 0});
    }
    free(l);
    return emitted(&w);
}

/* ---- mutants ---- */

/* The base with `len` bytes at `at` replaced. */
static struct text with_other(struct text base, const char *at, size_t len, const char *by,
                              size_t by_len)
{
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, base.data, (size_t)(at - base.data));
    writer_bytes(&w, by, by_len);
    writer_bytes(&w, at + len, (size_t)(base.data + base.len - at) - len);
    return emitted(&w);
}

static struct text nothing(void) { return (struct text){NULL, 0}; }

/* Another operation of the same arity and type. */
static struct text other_operation(struct text base, const struct operation *o)
{
    static const char *const pairs[][2] = {
        {"add", "subtract"},    {"subtract", "add"},    {"multiply", "divide"},
        {"divide", "multiply"}, {"maximum", "minimum"}, {"minimum", "maximum"},
        {"tanh", "sine"},       {"sine", "cosine"},     {"cosine", "tanh"},
        {"negate", "abs"},      {"abs", "negate"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (o->name.len == strlen(pairs[i][0]) && memcmp(o->name.at, pairs[i][0], o->name.len) == 0)
            return with_other(base, o->name.at, o->name.len, pairs[i][1], strlen(pairs[i][1]));
    return nothing();
}

/* A digit of a number that is no part of a name, in what follows the operation's name. */
static struct text other_digit(struct random *r, struct text base, const struct operation *o)
{
    const char *places[512], *end = o->operands.at + o->operands.len;
    size_t n = 0;
    for (const char *at = o->operands.at; at < end && n < 512;) {
        size_t len = *at == '"' ? string_len(at, end) : word_len(at, end);
        bool number = len && (isdigit((unsigned char)*at) || *at == '-') && at[-1] != '%' &&
                      at[-1] != '#' && at[-1] != '+';
        /* 0e3 is 0e4, and the ninth digit of a float may say nothing */
        for (size_t i = 0; number && i < len && i < 7 && n < 512 && at[i] != 'e'; i++)
            if (isdigit((unsigned char)at[i]))
                places[n++] = at + i;
        at += len ? len : 1;
    }
    if (!n)
        return nothing();
    const char *at = places[random_below(r, (uint32_t)n)];
    char digit = (char)('0' + (*at - '0' + 1 + (int)random_below(r, 9)) % 10);
    return with_other(base, at, 1, &digit, 1);
}

static struct text other_word(struct text base, struct line l, const char *from, const char *to)
{
    const char *at = memmem(l.at, l.len, from, strlen(from));
    return at ? with_other(base, at, strlen(from), to, strlen(to)) : nothing();
}

/* a - b as b - a. */
static struct text other_order(enum graph_language language, struct text base,
                               const struct operation *o)
{
    struct line a, b;
    if (!two_operands(language, o, &a, &b) || (a.len == b.len && memcmp(a.at, b.at, a.len) == 0))
        return nothing();
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, b.at, b.len);
    emit(&w, ", ");
    writer_bytes(&w, a.at, a.len);
    struct text both = emitted(&w),
                out = with_other(base, a.at, (size_t)(b.at + b.len - a.at), both.data, both.len);
    free(both.data);
    return out;
}

/* True if two lines say the same but for the names in them. */
static bool says_the_same(const struct renaming *n, struct line a, struct line b)
{
    const char *x = a.at, *y = b.at, *x_end = a.at + a.len, *y_end = b.at + b.len;
    while (x < x_end && y < y_end) {
        size_t k = word_len(x, x_end), m = word_len(y, y_end);
        bool names = k && m && is_renamed(n, x, k, x > a.at ? x[-1] : ' ') &&
                     is_renamed(n, y, m, y > b.at ? y[-1] : ' ');
        k = k ? k : 1;
        m = m ? m : 1;
        if (!names && (k != m || memcmp(x, y, k) != 0))
            return false;
        x += k;
        y += m;
    }
    return x == x_end && y == y_end;
}

/* The line of an operation and the one behind it in the other order, if that says something else. */
static struct text other_place(enum graph_language language, struct text base,
                               const struct lines *l, size_t i)
{
    struct operation next;
    struct renaming names = {.language = language, .salt = 1};
    if (i + 1 >= l->n || !parse_operation(language, l->at[i + 1], &next) ||
        !ends_operation(l->at[i], l->at[i + 1]) ||
        !ends_operation(l->at[i + 1], i + 2 < l->n ? l->at[i + 2] : (struct line){"", 0}) ||
        says_the_same(&names, l->at[i], l->at[i + 1]))
        return nothing();
    struct line a = l->at[i], b = l->at[i + 1];
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, b.at, b.len);
    emit(&w, "\n");
    writer_bytes(&w, a.at, a.len);
    struct text both = emitted(&w);
    struct text out = with_other(base, a.at, (size_t)(b.at + b.len - a.at), both.data, both.len);
    free(both.data);
    return out;
}

/* An attribute that does not count elsewhere, in the dictionary before the types. */
static struct text other_attribute(struct random *r, struct text base, const struct operation *o)
{
    struct writer w;
    const char *colon = memmem(o->operands.at, o->operands.len, " : ", 3);
    if (!colon || has(o->operands, "{") || has(o->operands, "dense"))
        return nothing();
    writer_init(&w, 0);
    emit(&w, " {");
    emit_dropped(r, &w, random_below(r, sizeof dropped / sizeof *dropped));
    emit(&w, "}");
    struct text attribute = emitted(&w),
                out = with_other(base, colon, 0, attribute.data, attribute.len);
    free(attribute.data);
    return out;
}

/* The line twice, the first time of another result; or not at all. */
static struct text other_count(struct random *r, enum graph_language language, struct text base,
                               const struct lines *l, size_t i, const struct operation *o)
{
    struct line line = l->at[i], next = i + 1 < l->n ? l->at[i + 1] : (struct line){"", 0};
    if (!ends_operation(line, next) || has(line, "({"))
        return nothing();
    if (drawn_in(r, 4))
        return with_other(base, line.at, line.len, "", 0);
    if (has(line, "ROOT") || has(o->result, ":"))
        return nothing();
    struct writer w;
    writer_init(&w, 0);
    emit(&w, language == GRAPH_MLIR || *o->result.at == '%' ? "%again.7" : "again.7");
    writer_bytes(&w, o->result.at + o->result.len,
                 (size_t)(line.at + line.len - o->result.at) - o->result.len);
    emit(&w, "\n");
    struct text first = emitted(&w), out = with_other(base, line.at, 0, first.data, first.len);
    free(first.data);
    return out;
}

struct text mutant_of_graph(struct random *r, enum graph_language language, struct text base,
                            const char **out_what)
{
    static const char *const kinds[] = {"operation",  "digit", "type",  "operands", "layout",
                                        "comparison", "place", "count", "attribute"};
    struct lines *l = malloc(sizeof *l);
    struct operation o;
    struct text out = nothing();
    cut_lines(base, l);
    uint32_t kind = random_below(r, 9);
    size_t i = random_below(r, (uint32_t)l->n);
    struct line line = l->at[i];
    *out_what = kinds[kind];
    if (parse_operation(language, line, &o)) {
        switch (kind) {
        case 0: out = other_operation(base, &o); break;
        case 1: out = other_digit(r, base, &o); break;
        case 2: out = other_word(base, line, "f32", drawn_in(r, 2) ? "f16" : "bf16"); break;
        case 3: out = other_order(language, base, &o); break;
        case 4: out = other_word(base, line, "{1,0}", "{0,1}"); break;
        case 5: out = other_word(base, line, "GT", drawn_in(r, 2) ? "LT" : "GE"); break;
        case 6: out = other_place(language, base, l, i); break;
        case 7: out = other_count(r, language, base, l, i, &o); break;
        case 8: out = language == GRAPH_MLIR ? other_attribute(r, base, &o) : nothing(); break;
        }
    }
    free(l);
    if (out.data && out.len == base.len && memcmp(out.data, base.data, out.len) == 0) {
        free(out.data);
        return nothing();
    }
    return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attr.c - reads attributes and types of MLIR text, token by token, into one spelling. All readers
 * of operations in this folder call it.
 *
 * White space and comments go. An alias becomes the text that it stands for, and a constant becomes
 * its bytes (mlir/dense.c). Symbols become holes for numbers, and mesh axes get numbers. All other
 * tokens stay as they are, with white space between them that depends on the tokens alone.
 *
 * Aliases nest without recursion: the rest of the text around an alias waits on a stack. The size
 * of the input limits the total text of all aliases.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <stdio.h>
#include <string.h>

#define EXPANDED_FREE (1u << 20) /* bytes of alias text that any input may have */
#define PENDING_MAX 64           /* aliases inside one another */

enum token { TOKEN_NONE, TOKEN_WORD, TOKEN_COMMA, TOKEN_SPACED, TOKEN_OTHER };

void mlir_emit(struct mlir *m, unsigned flags, const char *text, size_t len)
{
    if (flags & ATTR_TYPE)
        writer_bytes(&m->scratch, text, len);
    else
        graph_dict_text(m->g, text, len);
}

static void put_token(struct mlir *m, unsigned flags, enum token *before, enum token now,
                      const char *text, size_t len)
{
    bool space = *before == TOKEN_COMMA || *before == TOKEN_SPACED ||
                 (*before != TOKEN_NONE && now == TOKEN_SPACED) ||
                 (*before == TOKEN_WORD && now == TOKEN_WORD);
    if (space)
        mlir_emit(m, flags, " ", 1);
    mlir_emit(m, flags, text, len);
    *before = now;
}

static void put_number(struct mlir *m, unsigned flags, enum token *before, const char *prefix,
                       uint32_t number)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%s%u", prefix, number);
    put_token(m, flags, before, TOKEN_WORD, text, (size_t)n);
}

/* Writes the number of the mesh axis that the string names. False if it names none. */
static bool put_axis(struct mlir *m, struct slice string, unsigned flags, enum token *before)
{
    uint32_t hash;
    uint32_t axis = cache_find(&m->axes, 0, string, &hash);
    if (axis == GRAPH_NONE && flags & ATTR_MESH) {
        axis = m->n_axes++;
        cache_add(m, &m->axes, 0, string, hash, axis);
    }
    if (axis == GRAPH_NONE)
        return false;
    put_number(m, flags, before, "axis", axis);
    return true;
}

#define NAME_MAX_LEN 256 /* a longer string counts as no name */

void mlir_string_names(struct mlir *m, struct slice string)
{
    struct slice name = {string.at + 1, string.end - 1}, ahead = name;
    if (slice_len(string) < NAME_MAX_LEN && slice_id(&ahead).end == name.end && name.at < name.end)
        graph_symbol_keep(m->g, graph_symbol(m->g, name.at, slice_len(name)));
}

static bool put_string(struct mlir *m, struct slice *s, unsigned flags, enum token *before)
{
    const char *at = s->at;
    struct slice string = slice_string(s);
    if (string.at == string.end)
        return mlir_fail(m, at, WARM_EMALFORMED, "a string that does not end");
    if (slice_is(string, "\"elided_large_const\""))
        return mlir_fail(
            m, at, WARM_EREFUSED,
            "a constant is elided; print without --mlir-elide-elementsattrs-if-larger");
    if (!(flags & (ATTR_AXES | ATTR_MESH)) || !put_axis(m, string, flags, before)) {
        mlir_string_names(m, string);
        put_token(m, flags, before, TOKEN_WORD, string.at, slice_len(string));
    }
    return true;
}

/* Reads "#name" or "!name": an alias, which it replaces by its value, or an attribute or type of a
 * dialect. */
static bool put_sigil(struct mlir *m, struct slice *s, unsigned flags, enum token *before)
{
    const char *at = s->at++;
    struct slice name = slice_id(s);
    bool dialect =
        (s->at < s->end && *s->at == '<') || memchr(name.at, '.', slice_len(name)) != NULL;
    uint32_t hash;
    uint32_t alias = cache_find(&m->aliases, (uint32_t)*at, name, &hash);
    if (alias == GRAPH_NONE) {
        if (!dialect)
            return mlir_fail(m, at, WARM_EMALFORMED, "an alias that is not defined before its use");
        put_token(m, flags, before, TOKEN_WORD, at, (size_t)(s->at - at));
        return true;
    }
    if (!MLIR_EXPECT(m, alias < m->alias_values.n))
        return false;
    struct slice value = m->alias_values.at[alias];
    m->expanded += slice_len(value) + 1;
    if (m->pending.n >= PENDING_MAX ||
        m->expanded > (uint64_t)(m->end - m->begin) + EXPANDED_FREE) {
        m->why_exact = "aliases stand for too much text";
        return mlir_fail(m, at, WARM_EUNSUPPORTED, m->why_exact);
    }
    PUSH(m, m->pending, *s);
    *s = value;
    return true;
}

uint32_t mlir_symbol(struct mlir *m, struct slice *s)
{
    struct slice name;
    s->at++;
    if (s->at < s->end && *s->at == '"') {
        name = slice_string(s);
        struct slice bare = {name.at + 1, name.end - 1};
        if (slice_len(name) > 2 && slice_id(&bare).end == name.end - 1)
            name = (struct slice){name.at + 1, name.end - 1};
    } else {
        name = slice_id(s);
    }
    if (name.at == name.end)
        mlir_fail(m, s->at, WARM_EMALFORMED, "expected a symbol's name");
    return graph_symbol(m->g, name.at, slice_len(name));
}

static void put_symbol(struct mlir *m, struct slice *s, unsigned flags, enum token *before)
{
    const char *at = s->at;
    uint32_t symbol = mlir_symbol(m, s);
    if (flags & ATTR_TYPE) {
        graph_symbol_keep(m->g, symbol);
        put_token(m, flags, before, TOKEN_WORD, at, (size_t)(s->at - at));
        return;
    }
    put_token(m, flags, before, TOKEN_WORD, "", 0);
    graph_dict_symbol(m->g, symbol);
}

/* Reads "%name". A bound name becomes an operand; any other is a name of the text's own and gets a
 * number. */
static void put_value(struct mlir *m, struct slice *s, unsigned flags, enum token *before)
{
    struct slice ahead = {s->at + 1, s->end};
    uint32_t value = mlir_value_find(m, &ahead);
    if (value != GRAPH_NONE) {
        s->at = ahead.at;
        graph_op_operand(m->g, value);
        PUSH(m, m->operands, value);
        put_number(m, flags, before, "%", m->operands.n - 1 - m->text_operands);
        return;
    }
    s->at++;
    struct slice name = slice_id(s);
    uint32_t hash;
    uint32_t tag = TAG_TEXT | m->n_texts, number = cache_find(&m->labels, tag, name, &hash);
    if (number == GRAPH_NONE) {
        number = m->n_own++;
        cache_add(m, &m->labels, tag, name, hash, number);
    }
    put_number(m, flags, before, "%own", number);
    if (s->end - s->at > 1 && *s->at == '#' && s->at[1] >= '0' && s->at[1] <= '9') {
        const char *at = s->at++; /* the index of a result */
        slice_word(s);
        put_token(m, flags, before, TOKEN_OTHER, at, (size_t)(s->at - at));
    }
}

/* Takes a word, or a number with its exponent. */
static struct slice word_of(struct slice *s)
{
    struct slice word = slice_word(s);
    const char *p = word.at;
    while (p < word.end && ((*p >= '0' && *p <= '9') || *p == '.'))
        p++;
    bool exponent = p > word.at && word.end == p + 1 && (*p == 'e' || *p == 'E');
    if (exponent && s->end - s->at > 1 && (*s->at == '+' || *s->at == '-')) {
        s->at++;
        word.end = slice_word(s).end;
    }
    return word;
}

/* Writes the hole of a channel. False if the word is no number, or is 0, which means no channel. */
static bool put_channel(struct mlir *m, struct slice word, enum token *before)
{
    uint64_t channel = 0;
    for (const char *p = word.at; p < word.end; p++) {
        if (*p < '0' || *p > '9' || channel > UINT64_MAX / 10 - 9)
            return false;
        channel = channel * 10 + (uint64_t)(*p - '0');
    }
    if (!channel)
        return false;
    put_token(m, 0, before, TOKEN_WORD, "", 0);
    graph_dict_channel(m->g, channel);
    return true;
}

static bool put_word(struct mlir *m, struct slice *s, unsigned *flags, enum token *before)
{
    const char *at = s->at;
    struct slice word = word_of(s);
    if (word.at == word.end) { /* not a word */
        put_token(m, *flags, before, TOKEN_OTHER, s->at, 1);
        s->at++;
        return true;
    }
    bool list = s->at < s->end && *s->at == '<';
    if (list && slice_is(word, "dense")) {
        put_token(m, *flags, before, TOKEN_WORD, "", 0);
        return mlir_dense(m, s, false, *flags);
    }
    if (list && slice_is(word, "dense_resource")) {
        put_token(m, *flags, before, TOKEN_WORD, "", 0);
        return mlir_dense(m, s, true, *flags);
    }
    if (slice_is(word, "..."))
        return mlir_fail(
            m, at, WARM_EREFUSED,
            "the text is elided: print constants in full "
            "(--xla_dump_large_constants, or enable_debug_info with large_elements_limit unset)");
    if (*flags & ATTR_VALUES && slice_is(word, "loc")) {
        slice_skip(s);
        if (s->at < s->end && *s->at == '(') {
            const char *close = slice_close(*s);
            s->at = close < s->end ? close + 1 : s->end;
            return true;
        }
    }
    if (*flags & ATTR_CHANNEL && word.at[0] >= '0' && word.at[0] <= '9') {
        *flags &= ~(unsigned)ATTR_CHANNEL;
        if (put_channel(m, word, before))
            return true;
    }
    put_token(m, *flags, before, TOKEN_WORD, word.at, slice_len(word));
    return true;
}

/* Reads one token. */
static bool put_next(struct mlir *m, struct slice *s, unsigned *flags, enum token *before)
{
    switch (*s->at) {
    case '"': return put_string(m, s, *flags, before);
    case '#':
    case '!': return put_sigil(m, s, *flags, before);
    case '@': put_symbol(m, s, *flags, before); return true;
    case '%':
        if (*flags & ATTR_VALUES) {
            put_value(m, s, *flags, before);
            return true;
        }
        break;
    case '^':
        if (*flags & ATTR_VALUES) {
            s->at++;
            put_number(m, *flags, before, "^", mlir_label(m, slice_id(s)));
            return true;
        }
        break;
    case ',': put_token(m, *flags, before, TOKEN_COMMA, s->at++, 1); return true;
    case '=':
    case ':': put_token(m, *flags, before, TOKEN_SPACED, s->at++, 1); return true;
    case '-':
        if (s->end - s->at > 1 && s->at[1] == '>') {
            put_token(m, *flags, before, TOKEN_SPACED, "->", 2);
            s->at += 2;
            return true;
        }
        break;
    default: return put_word(m, s, flags, before);
    }
    put_token(m, *flags, before, TOKEN_OTHER, s->at++, 1);
    return true;
}

/* True for numbers in their usual spelling, such as "0, 12, 3". */
static bool plain_numbers(struct slice text)
{
    const char *p = text.at;
    while (p < text.end && *p >= '0' && *p <= '9') {
        while (p < text.end && *p >= '0' && *p <= '9')
            p++;
        if (p == text.end)
            return true;
        if (text.end - p < 3 || p[0] != ',' || p[1] != ' ')
            return false;
        p += 2;
    }
    return false;
}

bool mlir_attr(struct mlir *m, struct slice text, unsigned flags)
{
    enum token before = TOKEN_NONE;
    uint32_t floor = m->pending.n;
    if (!(flags & ATTR_CHANNEL) && plain_numbers(text)) {
        mlir_emit(m, flags, text.at, slice_len(text));
        return mlir_ok(m);
    }
    for (;;) {
        slice_skip(&text);
        if (text.at < text.end) {
            if (!put_next(m, &text, &flags, &before))
                return false;
        } else if (m->pending.n > floor) {
            text = m->pending.at[--m->pending.n];
        } else {
            return mlir_ok(m);
        }
    }
}

uint32_t mlir_type(struct mlir *m, struct slice text)
{
    uint32_t hash;
    uint32_t type = cache_find(&m->types, 0, text, &hash);
    if (type != GRAPH_NONE)
        return type;
    if (text.at == text.end) {
        mlir_fail(m, text.at, WARM_EMALFORMED, "a type is missing");
        return 0;
    }
    m->scratch.len = 0;
    if (!mlir_attr(m, text, ATTR_TYPE))
        return 0;
    if (m->scratch.failed) {
        m->failed = true;
        return 0;
    }
    type = graph_type(m->g, (const char *)m->scratch.data, m->scratch.len);
    cache_add(m, &m->types, 0, text, hash, type);
    return type;
}

uint32_t mlir_type_take(struct mlir *m)
{
    slice_skip(&m->s);
    const char *at = m->s.at, *end = slice_tensor(m->s);
    if (!end)
        return mlir_type(m, slice_type(&m->s));
    m->s.at = end;
    return graph_type(m->g, at, (size_t)(end - at)); /* its tokens as they are */
}

/* ---- dictionaries ---- */

static unsigned entry_flags(const struct mlir *m, struct slice key, struct slice value,
                            const struct opinfo *info)
{
    bool sdy = info && memcmp(info->name, "sdy.", 4) == 0;
    unsigned flags = 0;
    if (sdy || slice_begins(key, "sdy.") || slice_begins(value, "#sdy") ||
        slice_is(key, "stablehlo.mesh") || slice_begins(value, "#stablehlo.replica_group_mesh"))
        flags |= ATTR_AXES;
    if (sdy && slice_is((struct slice){info->name, info->name + info->name_len}, "sdy.mesh"))
        flags |= ATTR_MESH;
    if (!m->many_processes && (slice_is(key, "channel_handle") || slice_is(key, "channel_id")))
        flags |= ATTR_CHANNEL;
    return flags;
}

/* True if the value is one string and nothing else. */
static bool is_string(struct slice value)
{
    if (value.at == value.end || *value.at != '"')
        return false;
    struct slice string = slice_string(&value);
    return string.at < string.end && value.at == value.end;
}

bool mlir_dict_entry(struct mlir *m, struct slice key, struct slice value, bool unit,
                     const struct opinfo *info)
{
    slice_trim(&value);
    if (!unit && value.at == value.end)
        return mlir_fail(m, value.at, WARM_EMALFORMED, "an attribute has no value");
    if (slice_len(key) > 2 && key.at[0] == '"') { /* quotes only if needed */
        struct slice bare = {key.at + 1, key.end - 1};
        if (slice_word(&bare).end == key.end - 1)
            key = (struct slice){key.at + 1, key.end - 1};
    }
    if (slice_is(key, "call_target_name") && form_is_process_bound(value.at, slice_len(value)))
        return mlir_fail(m, value.at, WARM_EREFUSED, FORM_PROCESS_BOUND);
    const char *op = info ? info->name : NULL;
    size_t op_len = info ? info->name_len : 0;
    if (mlir_attr_is_dropped(op, op_len, key.at, slice_len(key), NULL, 0) && is_string(value))
        return true; /* unread: a string could make a function's name count; other values go on below */
    graph_dict_key(m->g, key.at, slice_len(key));
    bool symbol = info && slice_is(key, "sym_name") && info->syntax == SYNTAX_MESH;
    if (symbol && slice_len(value) > 2 && value.at[0] == '"') {
        uint32_t id = graph_symbol(m->g, value.at + 1, slice_len(value) - 2);
        graph_symbol_private(m->g, id);
        graph_dict_symbol(m->g, id);
        return true;
    }
    if (!unit && !mlir_attr(m, value, entry_flags(m, key, value, info)))
        return false;
    struct view text = graph_dict_last(m->g);
    if (mlir_attr_is_dropped(op, op_len, key.at, slice_len(key), text.data, text.len))
        graph_dict_drop(m->g);
    return true;
}

bool mlir_dict_entries(struct mlir *m, struct slice entries, const struct opinfo *info)
{
    slice_trim(&entries);
    while (entries.at < entries.end) {
        struct slice key;
        slice_skip(&entries);
        if (entries.at < entries.end && *entries.at == '"')
            key = slice_string(&entries);
        else
            key = slice_word(&entries);
        if (key.at == key.end)
            return mlir_fail(m, entries.at, WARM_EMALFORMED, "an attribute has no name");
        bool unit = !slice_take(&entries, '=');
        struct slice value = {entries.at, slice_find(entries, ',')};
        if (unit && slice_find(entries, ',') != entries.at)
            return mlir_fail(m, entries.at, WARM_EMALFORMED, "expected '=' or ','");
        entries.at = value.end;
        if (!mlir_dict_entry(m, key, value, unit, info))
            return false;
        slice_skip(&entries);
        if (entries.at < entries.end && !slice_take(&entries, ','))
            return mlir_fail(m, entries.at, WARM_EMALFORMED, "expected ','");
    }
    return mlir_ok(m);
}

uint32_t mlir_dict(struct mlir *m, struct slice braces, const struct opinfo *info)
{
    uint32_t hash;
    uint32_t tag = info ? 2 * info->graph_name + 3 : 1;
    uint32_t known = cache_find(&m->dicts, tag, braces, &hash);
    if (known != GRAPH_NONE)
        return known;
    graph_dict_begin(m->g);
    if (!mlir_dict_entries(m, (struct slice){braces.at + 1, braces.end - 1}, info))
        return 0;
    uint32_t dict = graph_dict_end(m->g);
    if (dict) /* of the empty ones, most had a result's name, which comes only once */
        cache_add(m, &m->dicts, tag, braces, hash, dict);
    return dict;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx_type.c - types, sizes and devices of FX graph code; fx_internal.h. No state.
 *
 * A size that is not known yet is named by the place that it comes from, and a device has the index that
 * the process gave it. Sizes are numbered by first use in the text; the first index in it is '$', and the
 * end of the form says which one that is if the text names another device, too:
 *
 *     "f32[s77*s27, 3][3, 1]cuda:2"   ─▶   "f32[s$0*s$1, 3][3, 1]cuda$"
 *
 * '$' is in no word of Python, and a type that has one is not read.
 */
#include "keygen/fx_internal.h"

/* ---- devices ---- */

static bool is_number(const char *s, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return len > 0;
}

/* Puts a kind and, if it has one, an index: '$' if it is the first of the text. Devices that have none by
 * nature are not counted. */
static void put_device(struct fx *f, const char *kind, uint32_t kind_len, const char *index,
                       uint32_t index_len)
{
    bool single = (kind_len == 3 && memcmp(kind, "cpu", 3) == 0) ||
                  (kind_len == 4 && memcmp(kind, "meta", 4) == 0);
    form_put(f->out, kind, kind_len);
    if (!index_len) {
        f->several_devices |= !single;
        return;
    }
    if (!f->index_len) {
        f->index = index;
        f->index_len = index_len;
    }
    bool first = index_len == f->index_len && memcmp(index, f->index, index_len) == 0;
    form_put(f->out, first ? "$" : ":", 1);
    if (!first)
        form_put(f->out, index, index_len);
    f->several_devices |= !first;
}

/* "cuda:0", "cpu" */
static void put_device_text(struct fx *f, const char *s, uint32_t len)
{
    const char *colon = memchr(s, ':', len);
    uint32_t kind = colon ? (uint32_t)(colon - s) : len;
    if (colon && is_number(colon + 1, len - kind - 1))
        put_device(f, s, kind, colon + 1, len - kind - 1);
    else if (colon)
        form_put(f->out, s, len);
    else
        put_device(f, s, len, NULL, 0);
}

/* The length of the kind of "cuda:0", "xpu" and the like; 0 if it is no device. */
static uint32_t device_kind(const char *s, uint32_t len)
{
    static const char *const kinds[] = {"cuda", "xpu", "mps", "mtia",
                                        "hpu",  "npu", "xla", "privateuseone"};
    const char *colon = memchr(s, ':', len);
    uint32_t kind = colon ? (uint32_t)(colon - s) : len;
    if (colon && !is_number(colon + 1, len - kind - 1))
        return 0;
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strlen(kinds[i]) == kind && memcmp(s, kinds[i], kind) == 0)
            return kind;
    return 0;
}

void fx_put_string(struct fx *f, struct token t)
{
    const char *s = f->text + t.at;
    if (!device_kind(s + 1, t.len - 2)) {
        form_put(f->out, s, t.len);
        return;
    }
    form_put(f->out, "$", 1);
    put_device_text(f, s + 1, t.len - 2);
}

bool fx_put_device_call(struct fx *f)
{
    enum { BRACKET, TYPE, EQUALS, KIND, COMMA, INDEX, EQUALS_AGAIN, NUMERAL, CLOSE, N };
    struct token t[N];
    uint32_t at = f->at;
    int parens = f->parens;
    for (int i = 0; i < N; i++)
        t[i] = fx_next(f);
    if (fx_is(f, t[TYPE], "type") && fx_is_mark(f, t[EQUALS], '=') && t[KIND].kind == STRING &&
        fx_is_mark(f, t[COMMA], ',') && fx_is(f, t[INDEX], "index") &&
        fx_is_mark(f, t[EQUALS_AGAIN], '=') && fx_is_mark(f, t[CLOSE], ')') &&
        is_number(f->text + t[NUMERAL].at, t[NUMERAL].len)) {
        form_put_text(f->out, "($");
        put_device(f, f->text + t[KIND].at + 1, t[KIND].len - 2, f->text + t[NUMERAL].at,
                   t[NUMERAL].len);
        form_put_text(f->out, ")");
        return true;
    }
    f->at = at;
    f->parens = parens;
    return false;
}

void fx_put_devices(struct fx *f)
{
    if (!f->index_len || !f->several_devices)
        return;
    form_put_text(f->out, "$ is ");
    form_put(f->out, f->index, f->index_len);
    form_put(f->out, "\n", 1);
}

/* ---- types ---- */

/* "Parameter(f32[2, 3][3, 1]cuda:0)": f32 at 10, its device at 26. */
struct type {
    uint32_t wrapper; /* length of the class's name, or 0 */
    uint32_t device;  /* where the device begins; NONE: it, or the stride, is missing */
    uint32_t end;     /* of the device */
    bool is_tensor;
};

static struct type read_type(const char *s, uint32_t len)
{
    struct type t = {.device = NONE, .end = len};
    uint32_t at = fx_word_end(s, 0, len), groups = 0, dtype = 0;
    if (at > 0 && at < len && s[at] == '(' && s[len - 1] == ')') {
        t.wrapper = at;
        t.end = len - 1;
        dtype = at + 1;
        at = fx_word_end(s, dtype, t.end);
    }
    t.is_tensor = at > dtype && at < t.end && s[at] == '[';
    for (; at < t.end && s[at] == '['; groups++) {
        int depth = 0;
        do {
            depth += (s[at] == '[') - (s[at] == ']');
            at++;
        } while (at < t.end && depth > 0);
    }
    if (t.is_tensor && groups == 2 && at < t.end)
        t.device = at;
    return t;
}

/* A size that is not known: s0, u3. */
static bool is_symbol(const char *word, uint32_t len)
{
    return len >= 2 && (word[0] == 's' || word[0] == 'u') && is_number(word + 1, len - 1);
}

/* The text of a type up to `len`, its sizes numbered. */
static void put_sizes(struct fx *f, const char *s, uint32_t len)
{
    for (uint32_t at = 0, end; at < len; at = end) {
        end = fx_word_end(s, at, len);
        bool is_dtype = end < len && s[end] == '['; /* u8[2] */
        if (end == at || is_dtype || !is_symbol(s + at, end - at)) {
            end += end == at;
            form_put(f->out, s + at, end - at);
            continue;
        }
        bool is_new = false;
        uint32_t *number = names_add(&f->symbols, s + at, end - at, &is_new);
        if (!number) {
            fx_fail(f, WARM_ENOMEM, 0, "no memory for its names");
            return;
        }
        if (is_new)
            *number = f->n_symbols++;
        form_put(f->out, s + at, 1);
        form_put(f->out, "$", 1);
        form_put_u64(f->out, *number);
    }
}

static bool word_is(const char *s, uint32_t len, const char *word)
{
    return len == strlen(word) && memcmp(s, word, len) == 0;
}

bool fx_put_type(struct fx *f, struct token token)
{
    const char *s = f->text + token.at + 1;
    uint32_t len = token.len - 2;
    struct type t = read_type(s, len);
    if (memchr(s, '$', len))
        fx_give_up(f, "a type that is not understood");
    if (t.is_tensor && t.device == NONE)
        fx_fail(f, WARM_EREFUSED, token.at,
                "a tensor without its stride or device: " FX_HOW_TO_PRINT);
    else if (t.is_tensor && t.wrapper && !word_is(s, t.wrapper, "Parameter") &&
             !word_is(s, t.wrapper, "Buffer"))
        fx_fail(f, WARM_EREFUSED, token.at,
                "a tensor of a class whose inside the text does not hold: print the graph behind "
                "AOTAutograd");
    form_put(f->out, "\"", 1);
    put_sizes(f, s, t.device == NONE ? len : t.device);
    if (t.device != NONE) {
        put_device_text(f, s + t.device, t.end - t.device);
        form_put(f->out, s + t.end, len - t.end);
    }
    form_put(f->out, "\"", 1);
    f->last = '"';
    f->has_types |= t.is_tensor;
    return t.is_tensor;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_writer.c - writes JSON to a stream, with commas, escapes and valid UTF-8. Every command with
 * --json calls it; json_writer.h has the contract.
 *
 * Thread: main.
 */
#include "client/cli/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void json_init(struct json *j, FILE *out) { *j = (struct json){.out = out}; }

static void json_separate(struct json *j)
{
    if (j->comma)
        fputc(',', j->out);
    j->comma = true;
}

void json_open(struct json *j, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    json_separate(j);
    fputc(bracket, j->out);
    j->comma = false;
    if (j->depth == 0)
        j->is_array = bracket == '[';
    j->depth++;
    if (bracket == '{' && j->depth == 1 + (unsigned)j->is_array) {
        json_key(j, "schema");
        json_u64(j, JSON_SCHEMA);
    }
}

void json_close(struct json *j, char bracket)
{
    assert(j->depth > 0 && (bracket == '}' || bracket == ']'));
    fputc(bracket, j->out);
    j->comma = true;
    if (--j->depth == 0) {
        fputc('\n', j->out);
        j->comma = false;
    }
}

/* Returns the length of the well-formed UTF-8 character at `s`: 1 to 4; or, negated, the number of
 * bytes that one U+FFFD replaces. The table is Unicode 15's table 3-7: only the second byte's range
 * depends on the first. */
static int utf8_take(const uint8_t *s, size_t len)
{
    uint8_t first = s[0], low = 0x80, high = 0xbf;
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return -1;
    int need = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    switch (first) {
    case 0xe0: low = 0xa0; break;  /* no overlong forms */
    case 0xed: high = 0x9f; break; /* no surrogates */
    case 0xf0: low = 0x90; break;
    case 0xf4: high = 0x8f; break; /* nothing above U+10FFFF */
    }
    for (int i = 1; i < need; i++) {
        if ((size_t)i >= len || s[i] < low || s[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return need;
}

static void json_escape(FILE *out, uint8_t c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
    const char *at = c ? strchr(plain, c) : NULL;
    if (at)
        fprintf(out, "\\%c", escaped[at - plain]);
    else
        fprintf(out, "\\u%04x", c);
}

void json_bytes(struct json *j, const void *data, size_t len)
{
    assert(data || len == 0);
    const uint8_t *s = data;
    json_separate(j);
    fputc('"', j->out);
    for (size_t i = 0; i < len;) {
        int n = utf8_take(s + i, len - i);
        if (n < 0)
            fputs("\\ufffd", j->out);
        else if (n == 1 && (s[i] < 0x20 || s[i] == '"' || s[i] == '\\' || s[i] == 0x7f))
            json_escape(j->out, s[i]);
        else
            fwrite(s + i, 1, (size_t)n, j->out);
        i += (size_t)(n < 0 ? -n : n);
    }
    fputc('"', j->out);
}

void json_text(struct json *j, const char *text) { json_bytes(j, text, strlen(text)); }

void json_key(struct json *j, const char *key)
{
    assert(j->depth > 0 && key);
    json_text(j, key);
    fputc(':', j->out);
    j->comma = false;
}

void json_u64(struct json *j, uint64_t value)
{
    json_separate(j);
    fprintf(j->out, "%" PRIu64, value);
}

void json_f64(struct json *j, double value)
{
    if (!isfinite(value)) {
        json_null(j);
        return;
    }
    json_separate(j);
    fprintf(j->out, "%.15g", value);
}

void json_bool(struct json *j, bool value)
{
    json_separate(j);
    fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j)
{
    json_separate(j);
    fputs("null", j->out);
}

void json_print(FILE *out, struct view object)
{
    const char *text = object.data, *rest = text + 1;
    assert(object.len >= 2 && *text == '{');
    fprintf(out, "{\"schema\": %u%s%.*s\n", JSON_SCHEMA, *rest == '}' ? "" : ", ",
            (int)object.len - 1, rest);
}

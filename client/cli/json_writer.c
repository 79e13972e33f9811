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

#include "keygen/shown.h"

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

/* Writes a character that may not stand for itself: by its letter, or its number in UTF-16. */
static void json_escape(FILE *out, uint32_t c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
    const char *at = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (at)
        fprintf(out, "\\%c", escaped[at - plain]);
    else if (c < 0x10000)
        fprintf(out, "\\u%04x", c);
    else
        fprintf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

void json_bytes(struct json *j, const void *data, size_t len)
{
    assert(data || len == 0);
    const uint8_t *s = data;
    uint32_t code;
    json_separate(j);
    fputc('"', j->out);
    for (size_t i = 0, n; i < len; i += n) {
        n = shown_take(s + i, len - i, &code);
        if (code == SHOWN_BAD || code == '"' || code == '\\' || !shown_is_plain(code))
            json_escape(j->out, code);
        else
            fwrite(s + i, 1, n, j->out);
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

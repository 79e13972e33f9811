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

#include "keygen/json.h"

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

void json_bytes(struct json *j, const void *data, size_t len)
{
    assert(data || len == 0);
    struct writer text;
    writer_init(&text, 0);
    json_write_text(&text, data, len);
    json_separate(j);
    if (text.failed)
        fputs("null", j->out);
    else
        fwrite(text.data, 1, text.len, j->out);
    writer_close(&text);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_writer.h - writes JSON to a stream, one token a call; the commas and colons place themselves.
 *
 *     json_open(&j, '[');
 *         json_open(&j, '{');
 *             json_key(&j, "file"); json_text(&j, name);
 *             json_key(&j, "bytes"); json_u64(&j, n);
 *         json_close(&j, '}');
 *     json_close(&j, ']');                       [{"file":"a","bytes":3}] and a newline
 *
 * Strings are any bytes: what is not UTF-8 comes out as U+FFFD, one for each maximal part of a
 * sequence that is ill-formed (Unicode 15, section 3.9), so the output always parses.
 *
 * Thread: none. Memory: a struct json is embedded by its user and owns nothing.
 */
#ifndef WARM_CLI_JSON_WRITER_H
#define WARM_CLI_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;      /* borrowed */
    unsigned depth; /* open brackets */
    bool comma;     /* the next value or key follows another in the same bracket */
};

void json_init(struct json *j, FILE *out);
void json_open(struct json *j, char bracket);  /* '{' or '[' */
void json_close(struct json *j, char bracket); /* '}' or ']'; the outermost ends the line */
void json_key(struct json *j, const char *key);
void json_text(struct json *j, const char *text);
void json_bytes(struct json *j, const void *data, size_t len); /* a string of any bytes */
void json_u64(struct json *j, uint64_t value);
void json_f64(struct json *j, double value); /* null if it is not finite */
void json_bool(struct json *j, bool value);
void json_null(struct json *j);

#endif

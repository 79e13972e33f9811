/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_writer.h - writes JSON to a stream, one token a call, and adds the commas and colons.
 *
 *     struct json j = {.out = stdout};
 *     json_open(&j, '[');
 *         json_open(&j, '{');
 *             json_key(&j, "file"); json_text(&j, name);
 *             json_key(&j, "bytes"); json_u64(&j, n);
 *         json_close(&j, '}');
 *     json_close(&j, ']');            [{"schema":1,"file":"a","bytes":3}] and a newline
 *
 * Strings are any bytes. One U+FFFD replaces each maximal part of an ill-formed UTF-8 sequence
 * (Unicode 15, section 3.9), so the output always parses.
 *
 * Thread: main. Memory: its user embeds a struct json, which owns nothing.
 */
#ifndef WARM_CLI_JSON_WRITER_H
#define WARM_CLI_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "keygen/bytes.h"

/* A document on a stream; the rest begins as zero. Its outermost object, and each object of an outermost
 * array, begins with "schema": JSON_SCHEMA. */
struct json {
    FILE *out;      /* borrowed */
    unsigned depth; /* open brackets */
    bool is_array;  /* the outermost bracket is '[' */
    bool comma;     /* the next value or key follows another in the same bracket */
};

/* The version of what the commands print: grows when a member goes away or gets another meaning. A
 * new member does not change it. */
#define JSON_SCHEMA 1u

/* Prints an object that another program wrote, with "schema" in front, and a newline. */
void json_print(FILE *out, struct view object);
/* Writes '{' or '['. */
void json_open(struct json *j, char bracket);
/* Writes '}' or ']'; the outermost one ends the line. */
void json_close(struct json *j, char bracket);
/* Writes the key of the next value. */
void json_key(struct json *j, const char *key);
/* Writes a value: a text. */
void json_text(struct json *j, const char *text);
/* Writes a value: a string of any bytes. */
void json_bytes(struct json *j, const void *data, size_t len);
/* Writes a value: a whole number. */
void json_u64(struct json *j, uint64_t value);
/* Writes a value: a number, or null if it is not finite. */
void json_f64(struct json *j, double value);
/* Writes a value: true or false. */
void json_bool(struct json *j, bool value);
/* Writes a value: null. */
void json_null(struct json *j);

#endif

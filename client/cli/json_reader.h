/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_reader.h - looks values up in JSON, such as the daemon's STATS and INFO.
 *
 * It finds values by walking the text, and builds nothing. In a text that is not JSON it finds
 * nothing, and never faults.
 *
 * Thread: any; no state. Memory: values are views into the document.
 */
#ifndef WARM_CLI_JSON_READER_H
#define WARM_CLI_JSON_READER_H

#include <stdbool.h>

#include "keygen/bytes.h"

/* Finds a member of an object by "name" or "outer.inner": the raw text of its value. */
bool json_reader_find(struct view object, const char *path, struct view *out);
/* Finds the i-th value of an array. */
bool json_reader_item(struct view array, size_t i, struct view *out);
/* Reads the next value of an array and moves `*rest` behind it. At first `*rest` is the whole array. False
 * at the end. */
bool json_reader_next(struct view *rest, struct view *out);
/* Finds the i-th member of an object, and its name. */
bool json_reader_member(struct view object, size_t i, struct view *out_name, struct view *out);

/* Reads a value as a number. False if it is none. */
bool json_reader_number(struct view value, double *out);
/* Returns the member of an object as a whole number; 0 if it is missing, negative or no number. */
unsigned long long json_reader_count(struct view object, const char *path);
/* Copies a value as text without its quotes and escapes, cut to `cap`. */
void json_reader_text(struct view value, char *out, size_t cap);
/* Copies the member of an object as such a text; "" if it is missing. */
void json_reader_copy(struct view object, const char *path, char *out, size_t cap);
/* True if the member of an object stands as `json`: "true", or "\"stays\"" with its quotes. */
bool json_reader_is(struct view object, const char *path, const char *json);
#endif

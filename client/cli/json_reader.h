/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_reader.h - looks values up in JSON that the daemon sent (STATS, INFO).
 *
 * Values are found by walking the text; nothing is built. Input that is not JSON gives "not found",
 * never a fault.
 *
 * Thread: any; no state. Memory: what is found is a view into the document.
 */
#ifndef WARM_CLI_JSON_READER_H
#define WARM_CLI_JSON_READER_H

#include <stdbool.h>

#include "keygen/bytes.h"

/* The raw text of a value: of a member of an object by "name" or "outer.inner". */
bool json_reader_find(struct view object, const char *path, struct view *out);
/* The i-th value of an array, or the i-th member of an object and its name. */
bool json_reader_item(struct view array, size_t i, struct view *out);
bool json_reader_member(struct view object, size_t i, struct view *out_name, struct view *out);

/* A found value as a number, and as text without its quotes and escapes (cut to `cap`). */
bool json_reader_number(struct view value, double *out);
void json_reader_text(struct view value, char *out, size_t cap);
bool json_reader_is(struct view value, const char *text); /* "true", "null", "12" */

#endif

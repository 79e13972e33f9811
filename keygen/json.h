/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - a text as a JSON string; the rest of a document is plain formatting.
 *
 * Thread: any; no state. Memory: appends to the caller's writer.
 */
#ifndef WARM_KEYGEN_JSON_H
#define WARM_KEYGEN_JSON_H

#include "keygen/bytes.h"

/* Appends `len` bytes of text as a JSON string (RFC 8259), quotes included. A byte that is not part
 * of well-formed UTF-8 becomes U+FFFD; what steers a terminal is escaped. */
void json_write_text(struct writer *out, const void *text, size_t len);

#endif

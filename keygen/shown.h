/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shown.h - decides which characters of a stranger's text may reach a terminal, or a JSON that ends there. Names and
 * labels are bytes of any client.
 *
 * Not shown as they are: control characters of ASCII and of U+0080 to U+009F (a terminal takes CSI and OSC from
 * there), what changes the direction of text, what has no width, separators of lines, and bytes that are not
 * well-formed UTF-8 (RFC 3629).
 *
 * Thread: any; no state. Memory: nothing is owned.
 */
#ifndef WARM_KEYGEN_SHOWN_H
#define WARM_KEYGEN_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHOWN_BAD 0xfffdu /* in place of bytes that are no character */

/* Takes the next character of a text that is not empty. Returns its bytes, 1 to 4; *code is SHOWN_BAD for bytes that
 * are none. */
size_t shown_take(const void *text, size_t len, uint32_t *code);
/* True if a character may be shown as it is. */
bool shown_is_plain(uint32_t code);
/* Replaces all else by '?', in place. Returns the new length; `text` needs no NUL. */
size_t shown_clean(char *text, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - writes JSON strings. Names are bytes of any client: keygen/shown.h decides what stands for itself.
 *
 * warmd and the commands of `warm` with --json call it.
 *
 * Thread: any; no state.
 */
#include "keygen/json.h"

#include <assert.h>

#include "keygen/shown.h"

/* Writes a character that may not stand for itself: by its letter, or its number in UTF-16. */
static void write_escaped(struct writer *out, uint32_t c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt";
    const char *at = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (at)
        writer_format(out, "\\%c", escaped[at - plain]);
    else if (c < 0x10000)
        writer_format(out, "\\u%04x", c);
    else
        writer_format(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

void json_write_text(struct writer *out, const void *text, size_t len)
{
    const uint8_t *p = text;
    uint32_t code;
    writer_u8(out, '"');
    for (size_t n; len; p += n, len -= n) {
        n = shown_take(p, len, &code);
        assert(n && n <= len);
        if (code == SHOWN_BAD || code == '"' || code == '\\' || !shown_is_plain(code))
            write_escaped(out, code);
        else
            writer_bytes(out, p, n);
    }
    writer_u8(out, '"');
}

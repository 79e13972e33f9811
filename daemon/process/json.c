/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - writes JSON strings: decides which bytes are well-formed UTF-8, since names are bytes of any client.
 *
 * config.c, inspect.c and the history call it.
 *
 * Thread: any; no state.
 */
#include "daemon/process/json.h"

#include <assert.h>

/* Bytes of the well-formed UTF-8 sequence at `p` (RFC 3629), or 0. */
static size_t utf8_len(const uint8_t *p, size_t len)
{
    size_t n = p[0] < 0x80   ? 1
               : p[0] < 0xc2 ? 0
               : p[0] < 0xe0 ? 2
               : p[0] < 0xf0 ? 3
               : p[0] < 0xf5 ? 4
                             : 0;
    if (n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if (n > 2 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
                  (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)))
        return 0; /* overlong, a surrogate, or above U+10FFFF */
    return n;
}

void json_write_text(struct writer *out, const void *text, size_t len)
{
    const uint8_t *p = text;
    writer_u8(out, '"');
    while (len) {
        size_t n = utf8_len(p, len);
        if (n == 0)
            writer_bytes(out, "\\ufffd", 6);
        else if (*p == '"' || *p == '\\')
            writer_format(out, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            writer_format(out, "\\u%04x", *p);
        else
            writer_bytes(out, p, n);
        n = n ? n : 1;
        assert(n <= len);
        p += n;
        len -= n;
    }
    writer_u8(out, '"');
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - writes JSON strings. Names are bytes of any client: keygen/shown.h decides what stands for itself.
 *
 * config.c, inspect.c and the history call it.
 *
 * Thread: any; no state.
 */
#include "daemon/process/json.h"

#include <assert.h>

#include "keygen/shown.h"

void json_write_text(struct writer *out, const void *text, size_t len)
{
    const uint8_t *p = text;
    uint32_t code;
    writer_u8(out, '"');
    for (size_t n; len; p += n, len -= n) {
        n = shown_take(p, len, &code);
        assert(n && n <= len);
        if (code == '"' || code == '\\')
            writer_format(out, "\\%c", (char)code);
        else if (code == SHOWN_BAD || (code < 0x10000 && !shown_is_plain(code)))
            writer_format(out, "\\u%04x", code);
        else if (!shown_is_plain(code))
            writer_format(out, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
        else
            writer_bytes(out, p, n);
    }
    writer_u8(out, '"');
}

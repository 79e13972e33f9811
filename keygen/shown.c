/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shown.c - reads UTF-8 and knows the characters that steer instead of showing. The writers of JSON of daemon and
 * commands, and all that prints for a person, ask here.
 *
 * Thread: any.
 */
#include "keygen/shown.h"

#include <string.h>

size_t shown_take(const void *text, size_t len, uint32_t *code)
{
    const uint8_t *s = text;
    /* Unicode 15, table 3-7: only the second byte's range depends on the first. */
    uint8_t first = s[0],
            low = first == 0xe0   ? 0xa0
                  : first == 0xf0 ? 0x90
                                  : 0x80,
            high = first == 0xed   ? 0x9f
                   : first == 0xf4 ? 0x8f
                                   : 0xbf;
    size_t need = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    *code = SHOWN_BAD;
    if (need == 1) {
        *code = first;
        return 1;
    }
    if (first < 0xc2 || first > 0xf4)
        return 1;
    uint32_t value = first & (0x7fu >> need);
    for (size_t i = 1; i < need; i++) {
        if (i >= len || s[i] < low || s[i] > high)
            return i;
        value = value << 6 | (s[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *code = value;
    return need;
}

bool shown_is_plain(uint32_t code)
{
    /* Source: UnicodeData.txt, categories Cc, Cf, Zl and Zp, and what has no width beside them. */
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
                  {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
                  {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},
                  {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfe00, 0xfe0f},
                  {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},   {0x110bd, 0x110bd},
                  {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
                  {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden && code >= hidden[i].first; i++)
        if (code <= hidden[i].last)
            return false;
    return true;
}

size_t shown_clean(char *text, size_t len)
{
    size_t n = 0;
    uint32_t code;
    for (size_t i = 0, took; i < len; i += took) {
        took = shown_take(text + i, len - i, &code);
        bool is_plain = shown_is_plain(code) && (code != SHOWN_BAD || took == 3);
        if (is_plain)
            memmove(text + n, text + i, took);
        else
            text[n] = '?';
        n += is_plain ? took : 1;
    }
    return n;
}

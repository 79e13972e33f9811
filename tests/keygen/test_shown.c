/* SPDX-License-Identifier: Apache-2.0 */
/* test_shown.c - which characters of a stranger's text reach a terminal. */
#include <criterion/criterion.h>
#include <string.h>

#include "keygen/shown.h"

static void expect(const char *text, size_t len, const char *want)
{
    char copy[64];
    memcpy(copy, text, len);
    size_t n = shown_clean(copy, len);
    cr_expect(n == strlen(want) && memcmp(copy, want, n) == 0, "%.*s is not %s", (int)n, copy,
              want);
}
#define EXPECT(text, want) expect(text, sizeof text - 1, want)

Test(shown, what_people_write_stays)
{
    EXPECT("", "");
    EXPECT("name_1 <\"x\"> & 'y'", "name_1 <\"x\"> & 'y'");
    EXPECT("f\xc3\xbcr \xe2\x86\x92 \xe6\xbc\xa2 \xf0\x9f\x98\x80",
           "f\xc3\xbcr \xe2\x86\x92 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
    EXPECT("\xef\xbf\xbd", "\xef\xbf\xbd"); /* U+FFFD itself */
}

Test(shown, what_steers_a_terminal_does_not)
{
    EXPECT("a\x1b[31m\r\n\tb\x7f", "a?[31m???b?");
    EXPECT("\x9b"
           "31m",
           "?31m"); /* a C1 byte */
    EXPECT("\xc2\x9b"
           "31m",
           "?31m"); /* CSI */
    EXPECT("\xc2\x9d"
           "0;t\xc2\x9c",
           "?0;t?");         /* OSC, ST */
    EXPECT("\xc2\x85", "?"); /* next line */
    EXPECT("\xe2\x80\xae"
           "a\xe2\x81\xa6"
           "b\xd8\x9c",
           "?a?b?"); /* directions */
    EXPECT("\xe2\x80\x8b\xef\xbb\xbf\xe2\x80\xa8\xf3\xa0\x81\x81", "????");
}

Test(shown, what_is_no_character_does_not)
{
    EXPECT("\xff\xc0\x80", "???");
    EXPECT("\xed\xa0\x80", "???");      /* half of a surrogate pair */
    EXPECT("\xe2\x82", "?");            /* cut off */
    EXPECT("\xf4\x90\x80\x80", "????"); /* above U+10FFFF */
}

Test(shown, every_text_is_taken_to_its_end)
{
    uint32_t code, state = 7;
    for (int round = 0; round < 20000; round++) {
        unsigned char text[8];
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (unsigned char)((state = state * 1103515245u + 12345u) >> 16);
        for (size_t i = 0; i < sizeof text;) {
            size_t n = shown_take(text + i, sizeof text - i, &code);
            cr_assert(n >= 1 && n <= sizeof text - i && code <= 0x10ffff);
            i += n;
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collision.c - makes two texts of equal XXH3-128 that define VALUE differently. Suites of headers call
 * it, to see whether an XXH3 alone decides.
 *
 * Thread: any; no state.
 *
 * XXH3 multiplies the low half of (8 bytes XOR secret) with its high half. If the low half of the
 * bytes equals the secret's, the product is 0 for every high half. Then only the sum of the bytes
 * counts. Two such words of one lane in one block can then pass a value from one to the other.
 *
 *     block 0   a comment begins
 *     block 1   word A: low half of the secret, then "    " or the comment's end; word B makes up for it
 *               "#define VALUE 2" behind word A: inside the comment or behind it
 *     block 2   blanks
 */
#include "tests/support/collision.h"

#include <stdint.h>
#include <string.h>

/* The low halves of lane 3 in stripes 2 and 10 of a block: bytes 40 and 104 of XXH3's secret. */
static const uint8_t low_2[4] = {0x82, 0x5a, 0xd0, 0x7d};
static const uint8_t low_10[4] = {0xf9, 0xdc, 0xbb, 0xc7};

static void put_high(char *at, uint32_t high)
{
    memcpy(at, &high, sizeof high); /* XXH3 reads little-endian words, as this machine does */
}

void collision_make(char *one, char *two)
{
    static const char text[] = "\n#define VALUE 2\n// */\n#ifndef VALUE\n#define VALUE 1\n#endif\n";
    char *a = one + 1024 + 10 * 64 + 3 * 8, *b = one + 1024 + 2 * 64 + 3 * 8;
    uint32_t blank, end, other;
    memset(one, ' ', COLLISION_LEN);
    memcpy(one, "/*", 2);
    memcpy(a, low_10, 4);
    memcpy(b, low_2, 4);
    memcpy(a + 8, text, sizeof text - 1);
    one[COLLISION_LEN - 1] = '\n';
    memcpy(two, one, COLLISION_LEN);
    memcpy(&blank, "    ", 4);
    memcpy(&end, " */ ", 4);
    memcpy(&other, "qqqq", 4);
    put_high(a + 4, blank);
    put_high(b + 4, other);
    put_high(two + (a - one) + 4, end);
    put_high(two + (b - one) + 4, other + blank - end);
}

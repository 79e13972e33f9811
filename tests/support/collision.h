/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collision.h - two headers of equal length and equal XXH3-128 that say different things, so that a
 * test sees where an XXH3 alone decides.
 *
 * XXH3 multiplies, of each 8 bytes, the low half of (bytes XOR secret) with its high half. Where the
 * low half of the bytes is the secret's, the product is 0, whatever the high half is, and only the sum
 * of the bytes counts: two such words of one lane in one block may pass a value from one to the other.
 *
 *     block 0   a comment begins
 *     block 1   word A: low half of the secret, then "    " or the comment's end; word B makes up for it
 *               "#define VALUE 2" behind word A: inside the comment or behind it
 *     block 2   blanks
 */
#ifndef WARM_TESTS_SUPPORT_COLLISION_H
#define WARM_TESTS_SUPPORT_COLLISION_H

#include <stdint.h>
#include <string.h>

#define COLLISION_LEN 3200u

/* The low halves of lane 3 in stripes 2 and 10 of a block: bytes 40 and 104 of XXH3's secret. */
static const uint8_t collision_low_2[4] = {0x82, 0x5a, 0xd0, 0x7d};
static const uint8_t collision_low_10[4] = {0xf9, 0xdc, 0xbb, 0xc7};

static inline void collision_put(char *at, uint32_t high)
{
    memcpy(at, &high, sizeof high); /* XXH3 reads little-endian words, as this machine does */
}

/* Fills both with COLLISION_LEN bytes: the first defines VALUE as 1, the second as 2. */
static inline void collision_make(char *one, char *two)
{
    static const char text[] = "\n#define VALUE 2\n// */\n#ifndef VALUE\n#define VALUE 1\n#endif\n";
    char *a = one + 1024 + 10 * 64 + 3 * 8, *b = one + 1024 + 2 * 64 + 3 * 8;
    uint32_t blank, end, other;
    memset(one, ' ', COLLISION_LEN);
    memcpy(one, "/*", 2);
    memcpy(a, collision_low_10, 4);
    memcpy(b, collision_low_2, 4);
    memcpy(a + 8, text, sizeof text - 1);
    one[COLLISION_LEN - 1] = '\n';
    memcpy(two, one, COLLISION_LEN);
    memcpy(&blank, "    ", 4);
    memcpy(&end, " */ ", 4);
    memcpy(&other, "qqqq", 4);
    collision_put(a + 4, blank);
    collision_put(b + 4, other);
    collision_put(two + (a - one) + 4, end);
    collision_put(two + (b - one) + 4, other + blank - end);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_compress.c - objects of the tier as zstd frames: what is packed, and what is no good. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tier/compress.h"

/* Makes a memfd with bytes: `period` different ones again and again, or random ones (0). */
static int file_of(size_t len, size_t period, const char *begin)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    char *bytes = malloc(len + 1);
    uint64_t state = 7;
    for (size_t i = 0; i < len; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = period ? (char)(i % period) : (char)(state >> 56);
    }
    memcpy(bytes, begin, strlen(begin) < len ? strlen(begin) : len);
    cr_assert_eq(pwrite(fd, bytes, len, 0), (ssize_t)len);
    free(bytes);
    return fd;
}

static bool same_bytes(int a, int b, size_t len)
{
    char *x = malloc(2 * len + 1), *y = x + len;
    bool same = pread(a, x, len, 0) == (ssize_t)len && pread(b, y, len, 0) == (ssize_t)len &&
                memcmp(x, y, len) == 0;
    free(x);
    return same;
}

/* Unpacks a frame into a memfd and into memory: both are one, or none. */
static int unpack_both(int frame, uint64_t len, uint64_t limit, uint64_t *out_len)
{
    int fd = compress_unpack(frame, len, limit, out_len);
    uint8_t *in = malloc(len + 1), *out = malloc(2 * limit), *same = out + limit;
    cr_assert_eq(pread(frame, in, len, 0), (ssize_t)len);
    uint64_t n = compress_unpack_bytes(in, len, out, limit);
    cr_assert_eq(n, fd < 0 ? 0 : *out_len, "%zu", (size_t)n);
    cr_assert(fd < 0 || (pread(fd, same, n, 0) == (ssize_t)n && memcmp(out, same, n) == 0));
    free(in);
    free(out);
    return fd;
}

static void expect_round_trip(size_t len, size_t period, const char *begin, bool packed)
{
    uint64_t frame_len = 0, back_len = 0;
    int fd = file_of(len, period, begin), frame = compress_pack(fd, len, &frame_len);
    cr_assert_eq(frame >= 0, packed, "%zu bytes", len);
    if (packed) {
        cr_assert_leq(frame_len, compress_bound(len));
        cr_assert_eq(unpack_both(frame, frame_len, len - 1, &back_len), -1, "one byte more");
        int back = unpack_both(frame, frame_len, len, &back_len);
        cr_assert_geq(back, 0);
        cr_assert_eq(back_len, len);
        cr_assert(same_bytes(fd, back, len));
        close(back);
        close(frame);
    } else {
        cr_assert_eq(unpack_both(fd, len, len, &back_len), -1, "it is no frame");
    }
    close(fd);
}

Test(tier_compress, what_shrinks_is_packed_and_comes_back)
{
    expect_round_trip(1, 1, "", false);
    expect_round_trip(1024, 7, "", false);
    expect_round_trip(1025, 7, "", true);
    expect_round_trip(100000, 300, "", true);
    expect_round_trip(5000000, 5000, "", true);
    expect_round_trip(5000000, 0, "", false);
}

Test(tier_compress, bytes_that_look_like_a_frame_are_packed)
{
    expect_round_trip(20, 0, "\x28\xb5\x2f\xfd", true);
    expect_round_trip(100000, 0, "\x28\xb5\x2f\xfd", true);
}

Test(tier_compress, a_bomb_ends_at_the_limit)
{
    size_t len = 64u << 20;
    uint64_t frame_len, out_len = 0;
    int fd = memfd_create("test", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, (off_t)len), 0);
    int frame = compress_pack(fd, len, &frame_len);
    cr_assert_lt(frame_len, 10000u);
    cr_assert_eq(unpack_both(frame, frame_len, 1 << 20, &out_len), -1);
    cr_assert_leq(out_len, 1u << 20);
    close(frame);
    close(fd);
}

Test(tier_compress, no_cut_or_changed_frame_is_taken_for_more_than_bytes)
{
    uint64_t frame_len, out_len;
    uint8_t bytes[3000], unpacked[3000];
    size_t len = 3000;
    int fd = file_of(len, 70, ""), frame = compress_pack(fd, len, &frame_len);
    for (uint64_t cut = 0; cut < frame_len; cut++)
        cr_assert_eq(unpack_both(frame, cut, len, &out_len), -1, "%zu", (size_t)cut);
    for (uint64_t at = 0; at < frame_len; at++) {
        uint8_t byte, flipped;
        cr_assert_eq(pread(frame, &byte, 1, (off_t)at), 1);
        flipped = byte ^ 4;
        cr_assert_eq(pwrite(frame, &flipped, 1, (off_t)at), 1);
        int back = compress_unpack(frame, frame_len, len, &out_len);
        cr_assert(back < 0 || out_len <= len);
        cr_assert_eq(pread(frame, bytes, frame_len, 0), (ssize_t)frame_len);
        cr_assert_leq(compress_unpack_bytes(bytes, frame_len, unpacked, len), len);
        if (back >= 0)
            close(back);
        cr_assert_eq(pwrite(frame, &byte, 1, (off_t)at), 1);
    }
    close(frame);
    close(fd);
}

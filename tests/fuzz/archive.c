/* SPDX-License-Identifier: Apache-2.0 */
/* archive.c - reads any bytes as an archive of entries. */
#include <string.h>

#include "client/cli/import/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int take(void *arg, void *out, size_t len, struct err *e)
{
    struct reader *from = arg;
    (void)e;
    if (from->len == 0)
        return WARM_ENOT_FOUND;
    reader_copy(from, out, len);
    return from->failed ? WARM_ETRUNCATED : 0;
}

/* Fills in the sums of the blocks, which the fuzzer would hardly find. */
static void seal(uint8_t *data, size_t len)
{
    for (uint8_t *m = data; len - (size_t)(m - data) >= 512; m += 512) {
        unsigned sum = 8 * ' ';
        if (memcmp(m + 257, "ustar", 6) != 0)
            continue;
        for (size_t i = 0; i < 512; i++)
            sum += i >= 148 && i < 156 ? 0 : m[i];
        for (int i = 5; i >= 0; i--, sum /= 8)
            m[148 + i] = (uint8_t)('0' + sum % 8);
        m[154] = '\0', m[155] = ' ';
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static uint8_t copy[1 << 20];
    struct archive_entry entry;
    struct err e;
    if (len > sizeof copy)
        return 0;
    memcpy(copy, data, len);
    seal(copy, len);
    struct reader from = reader_over(copy, len);
    struct archive_reader r = {.read = take, .arg = &from};
    int code = archive_open(&r, &e);
    for (uint64_t n = 0; !code || code == WARM_ECORRUPT; n++)
        code = archive_next(&r, n, &entry, &e);
    archive_close(&r);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_archive.c - archives of entries, and the streams of zlib and zstd in cache folders. */
#include "client/archive.h"
#include "client/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct archive_entry entry;
    struct reader r;
    struct err e;
    int code = archive_open(data, len, &r, &e);
    for (uint64_t n = 0; !code || code == WARM_ECORRUPT; n++)
        code = archive_next(&r, n, &entry, &e);
    inflate_zlib(data, len, 1 << 20, NULL);
    inflate_zstd_is_whole(data, len);
    return 0;
}

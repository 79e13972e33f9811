/* SPDX-License-Identifier: Apache-2.0 */
/* archive.c - reads any bytes as an archive of entries. */
#include "client/cli/import/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct archive_entry entry;
    struct reader r;
    struct err e;
    int code = archive_open(data, len, &r, &e);
    for (uint64_t n = 0; !code || code == WARM_ECORRUPT; n++)
        code = archive_next(&r, n, &entry, &e);
    return 0;
}

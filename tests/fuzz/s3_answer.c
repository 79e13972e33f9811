/* SPDX-License-Identifier: Apache-2.0 */
/* s3_answer.c - errors of S3 over any bytes: only NoSuchKey is an absence, and what is said is one clean line. */
#include <assert.h>
#include <string.h>

#include "tier/backends/s3_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct s3_answer a;
    if (size < 2)
        return 0;
    int status = 100 + (data[0] << 8 | data[1]) % 500;
    s3_answer_read(status, (const char *)data + 2, size - 2, "", "", &a);
    assert(a.outcome != TIER_OK && a.outcome != TIER_LEASE && a.outcome != TIER_WAIT);
    assert(a.outcome != TIER_ABSENT || (status >= 300 && strcmp(a.code, "NoSuchKey") == 0));
    for (const char *c = a.said; *c; c++)
        assert(*c >= ' ' && *c < 127);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* resp_reply.c - replies of a Redis server over any bytes: bounded, and the same in pieces. */
#include <assert.h>
#include <string.h>

#include "tier/resp_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct resp_reply reply, part;
    long took = resp_reply_parse(text, size, 1000, &reply);
    assert(took <= (long)size);
    if (took > 0) {
        assert(reply.item.type == RESP_ARRAY || reply.item.len <= size);
        for (long len = 0; len < took; len++)
            assert(resp_reply_parse(text, (size_t)len, 1000, &part) == 0);
    }
    return 0;
}

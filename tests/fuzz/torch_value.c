/* SPDX-License-Identifier: Apache-2.0 */
/* torch_value.c - PyTorch's values: what is taken apart comes back byte for byte; the keys in an
 * entry are found within it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/pytorch/torch_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_apart(const uint8_t *json, size_t size)
{
    uint32_t cost_ms = 0;
    uint8_t *stored = malloc(size + TORCH_VALUE_MAGIC);
    size_t len = torch_value_take_apart((struct view){json, size}, stored, &cost_ms);
    if (len) {
        assert(torch_value_is_stored(stored, len));
        assert(torch_value_json_len(len, cost_ms) == size);
        uint8_t *again = malloc(size);
        torch_value_put_together(stored, len, cost_ms, again);
        assert(memcmp(again, json, size) == 0);
        free(again);
    }
    free(stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char head[] = "{\"data\": \"", tail[] = "\", \"time_taken_ms\": 7}";
    take_apart(data, size);
    /* the same bytes as the base64 of a value, which they seldom are by chance */
    size_t len = sizeof head - 1 + size + sizeof tail - 1;
    uint8_t *json = malloc(len);
    memcpy(json, head, sizeof head - 1);
    if (size)
        memcpy(json + sizeof head - 1, data, size);
    memcpy(json + sizeof head - 1 + size, tail, sizeof tail - 1);
    take_apart(json, len);
    free(json);
    for (size_t at = 0; at < size;) {
        size_t before = at;
        struct view key = torch_value_next_fx_key((struct view){data, size}, &at);
        assert(at > before && at <= size);
        assert(!key.len || (key.len == TORCH_VALUE_FX_KEY && (const uint8_t *)key.data >= data &&
                            (const uint8_t *)key.data + key.len <= data + size));
    }
    return 0;
}

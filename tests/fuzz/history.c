/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - reads any bytes as the file of the history. Whatever was read of it can be compared, shown and
 * evicted. */
#include <stdlib.h>
#include <string.h>

#include "daemon/history/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char label[] = "\5\0\0\0label\1\0\0\0k";
    struct session before;
    if (history_session_read(data, size, &before))
        id_set_clear(&before.used);
    struct history *h = history_new(NULL);
    struct writer json;
    if (!h)
        abort();
    history_read(h, data, size);
    struct store_id id = {.owner = 1};
    uint64_t miss = history_miss(h, &(struct history_ask){.id = id, .name = {"n", 1}}, 1);
    history_explain(h, miss, (struct view){label, sizeof label - 1});
    writer_init(&json, 1 << 20);
    struct history_query query = {
        .of = WIRE_HISTORY_KEY, .id = {"n", 1}, .uid = -1, .max_bytes = 1 << 19};
    if (!history_write_json(h, &query, &json) || json.failed)
        abort(); /* the miss that was just made is there */
    writer_close(&json);
    history_free(h);
    return 0;
}

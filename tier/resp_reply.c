/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resp_reply.c - parses one reply at a time. backends/redis_link.c calls it for each piece that arrives.
 *
 * Thread: any.
 */
#include "tier/resp_reply.h"

#include <string.h>

/* Parses a decimal number of at most 18 digits, with an optional minus. */
static int parse_number(const char *at, size_t len, int64_t *out)
{
    int64_t n = 0;
    size_t sign = len && *at == '-';
    if (len == sign || len - sign > 18)
        return -1;
    for (size_t i = sign; i < len; i++) {
        if (at[i] < '0' || at[i] > '9')
            return -1;
        n = n * 10 + (at[i] - '0');
    }
    *out = sign ? -n : n;
    return 0;
}

long resp_item_parse(const char *data, size_t len, size_t bulk_max, struct resp_item *out)
{
    size_t seen = len < RESP_LINE_MAX ? len : RESP_LINE_MAX;
    const char *end = seen ? memchr(data, '\n', seen) : NULL;
    if (!end)
        return len < RESP_LINE_MAX ? 0 : -1;
    size_t line = (size_t)(end - data) + 1;
    if (line < 3 || data[line - 2] != '\r')
        return -1;
    *out = (struct resp_item){.data = data + 1, .len = line - 3};
    if (*data == '+' || *data == '-') {
        out->type = *data == '+' ? RESP_TEXT : RESP_ERROR;
        return (long)line;
    }
    if (!strchr(":$*", *data) || !*data || parse_number(data + 1, line - 3, &out->number) != 0)
        return -1;
    out->type = *data == ':' ? RESP_NUMBER : *data == '*' ? RESP_ARRAY : RESP_BULK;
    if (out->type == RESP_NUMBER)
        return (long)line;
    if (out->number == -1) {
        out->type = RESP_NIL;
        return (long)line;
    }
    if (out->number < 0)
        return -1;
    if (out->type == RESP_ARRAY)
        return (long)line;
    if ((uint64_t)out->number > bulk_max)
        return -1;
    out->data = data + line;
    out->len = (size_t)out->number;
    if (len < line + out->len + 2)
        return 0;
    return memcmp(out->data + out->len, "\r\n", 2) == 0 ? (long)(line + out->len + 2) : -1;
}

long resp_reply_parse(const char *data, size_t len, size_t bulk_max, struct resp_reply *out)
{
    out->n_items = 0;
    long took = resp_item_parse(data, len, bulk_max, &out->item);
    if (took <= 0 || out->item.type != RESP_ARRAY)
        return took;
    if (out->item.number > RESP_ITEMS_MAX)
        return -1;
    for (; out->n_items < (size_t)out->item.number; out->n_items++) {
        struct resp_item *item = &out->items[out->n_items];
        long n = resp_item_parse(data + took, len - (size_t)took, bulk_max, item);
        if (n <= 0)
            return n;
        if (item->type == RESP_ARRAY)
            return -1;
        took += n;
    }
    return took;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resp_reply.h - replies of a Redis server (RESP2) out of the bytes of a connection.
 *
 *     +text  -ERROR text  :17  $5 bytes  $-1 (nil)  *2 and so many of these
 *
 * It knows one level of arrays, as replies to our commands have.
 *
 * daemon/net/resp.h reads what a client sends: commands, whose elements are all bulks. A server's replies have other
 * types, so the two share nothing but the line's end.
 *
 * Thread: any. Memory: a reply points into the bytes that were parsed.
 */
#ifndef WARM_TIER_RESP_REPLY_H
#define WARM_TIER_RESP_REPLY_H

#include <stddef.h>
#include <stdint.h>

enum resp_type { RESP_TEXT, RESP_ERROR, RESP_NUMBER, RESP_BULK, RESP_NIL, RESP_ARRAY };

enum { RESP_ITEMS_MAX = 4, RESP_LINE_MAX = 1024 };

struct resp_item {
    enum resp_type type;
    const char *data; /* TEXT, ERROR, BULK */
    size_t len;
    int64_t number; /* NUMBER */
};

struct resp_reply {
    struct resp_item item;                  /* its type may be ARRAY */
    struct resp_item items[RESP_ITEMS_MAX]; /* of an ARRAY */
    size_t n_items;
};

/* Parses the reply that `data` begins with. Returns its bytes, 0 if some are not there yet, or -1 for rubbish and for
 * a bulk longer than `bulk_max`. */
long resp_reply_parse(const char *data, size_t len, size_t bulk_max, struct resp_reply *out);

/* Parses one item; of an array, its line alone, with the number of its items in `number`. Returns as
 * resp_reply_parse does. */
long resp_item_parse(const char *data, size_t len, size_t bulk_max, struct resp_item *out);

#endif

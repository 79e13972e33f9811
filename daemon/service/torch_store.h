/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_store.h - PyTorch's values on their way in and out (torch_value.h has their form), and the
 * groups of what refers to one another.
 *
 *     AOTAutograd entry ──refers to──▶ FX graph, forward
 *             │                        FX graph, backward
 *             └────── one group: evicted together; without one of them the others are of no use
 *
 * FX graphs are put first and do not know who will refer to them. When the entry comes, their rows
 * are written anew with its group, which is made of the names it refers to: entries that refer to the
 * same graphs are in the same group.
 *
 * Thread: loop thread.
 */
#ifndef WARM_DAEMON_SERVICE_TORCH_STORE_H
#define WARM_DAEMON_SERVICE_TORCH_STORE_H

#include "daemon/service/service.h"

/*
 * A put of JSON becomes one of its stored form, if it can be taken apart: data, fd (the old one is
 * closed), len and cost_ms change. Gives *out_bytes, to be freed after the put; NULL if there is
 * nothing to free. Errors: INVALID, for bytes that only the store's own form begins with.
 */
int torch_store_take_apart(struct service_put *put, void **out_bytes, struct err *e);

/* What a RESP client gets. Exactly one of bytes (free) and fd (close) is set. */
struct torch_json {
    void *bytes;
    int fd; /* -1 if there are bytes */
    size_t len;
};
/* True if `data` (or, where that is NULL, the file) is the stored form: then the client gets *out,
 * if that could be made; else there is no value to be had, and len is 0. */
bool torch_store_put_together(const void *data, int fd, uint64_t len, uint32_t cost_ms,
                              struct torch_json *out);

/* The group that an AOTAutograd entry is to be in, and its FX graphs with it; zero: none. */
struct key torch_store_group(struct service *s, const struct peer *peer, struct view name,
                             const struct artifact *entry);

#endif

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
 * Thread: loop thread, unless a function says other.
 */
#ifndef WARM_DAEMON_SERVICE_TORCH_STORE_H
#define WARM_DAEMON_SERVICE_TORCH_STORE_H

#include "daemon/service/service.h"

/*
 * A put of JSON in memory becomes one of its stored form, if it can be taken apart: data, len and
 * cost_ms change. Gives *out_bytes, to be freed after the put; NULL if there is nothing to free.
 * Errors: INVALID, for bytes (or a file's) that only the store's own form begins with.
 */
int torch_store_take_apart(struct service_put *put, void **out_bytes, struct err *e);

/* True if a put may be JSON in a file. To take that apart is work of some ms for a pool thread. */
bool torch_store_is_long(const struct service_put *put);
/* The same for that: fd (the old one is closed), len and cost_ms may change. Any thread. */
void torch_store_take_file_apart(struct service_put *put);

/* True if bytes, or the file where `data` is NULL, are the stored form. */
bool torch_store_is_stored(const void *data, int fd, uint64_t len);

/* The group that an AOTAutograd entry is to be in, and its FX graphs with it; zero: none. */
struct key torch_store_group(struct service *s, const struct peer *peer, struct view name,
                             const struct artifact *entry);

#endif

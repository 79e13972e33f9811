/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_store.h - PyTorch's values on their way in and out (torch_value.h has their form), and the
 * groups of entries that refer to one another.
 *
 *     AOTAutograd entry ──refers to──▶ FX graph, forward
 *             │                        FX graph, backward
 *             └────── one group: evicted together; without one of them the others are of no use
 *
 * FX graphs are put first, before the entry that refers to them. When the entry comes, their rows
 * are stored again with its group. The names that it refers to make the group: entries that refer
 * to the same graphs are in the same group.
 *
 * Thread: loop thread, unless a function says other. Memory: see each function.
 */
#ifndef WARM_DAEMON_PYTORCH_TORCH_STORE_H
#define WARM_DAEMON_PYTORCH_TORCH_STORE_H

#include "daemon/service/service.h"

/* Turns a put of JSON in memory into one of its stored form, if it can be taken apart: data, len
 * and cost_ms change. Gives *out_bytes, to be freed after the put; NULL if there is nothing to
 * free. Errors: INVALID, if bytes or file begin as only the store's own form does. */
int torch_store_take_apart(struct service_put *put, void **out_bytes, struct err *e);

/* True if a put may be JSON in a file, which takes a pool thread some ms to take apart. */
bool torch_store_is_long(const struct service_put *put);
/* Turns a put of JSON in a file into one of its stored form, if it can be taken apart. Changes fd
 * (and closes the old one), len and cost_ms. Any thread. */
void torch_store_take_file_apart(struct service_put *put);

/* True if bytes, or the file if `data` is NULL, are the stored form. */
bool torch_store_is_stored(const void *data, int fd, uint64_t len);

/* Returns the group of an AOTAutograd entry, and moves its FX graphs into that group; zero:
 * none. */
struct key torch_store_group(struct service *s, const struct peer *peer, struct view name,
                             const struct artifact *entry);

#endif

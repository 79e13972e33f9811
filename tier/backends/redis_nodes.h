/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_nodes.h - the servers of a Redis, one or a cluster, and which of them has a slot.
 *
 * A cluster's keys are in 16 384 slots. The map of slots is asked for with CLUSTER SLOTS, and again after a MOVED or a
 * server's failure. Until it is there, any server is asked: it answers MOVED. Each server has two connections, so that a
 * large value does not hold up the leases.
 *
 * Thread: loop thread. Memory: links are the nodes' own.
 */
#ifndef WARM_TIER_BACKENDS_REDIS_NODES_H
#define WARM_TIER_BACKENDS_REDIS_NODES_H

#include "tier/backends/redis_link.h"
#include "tier/url.h"

struct redis_nodes;

/* Makes the nodes of a URL's hosts. `settings` are copied. */
struct redis_nodes *redis_nodes_new(const struct redis_link_settings *settings,
                                    const struct tier_url *url, bool is_cluster);
/* Ends all commands and frees the nodes, then calls `closed`. */
void redis_nodes_close(struct redis_nodes *nodes, void (*closed)(void *user), void *user);

/* Returns the slot of a key: of its part in braces. */
unsigned redis_nodes_slot(const char *key);
/* Returns the connection for a slot. */
struct redis_link *redis_nodes_find(struct redis_nodes *nodes, unsigned slot, bool is_large);
/* Follows "MOVED SLOT HOST:PORT" or "ASK SLOT HOST:PORT" of a server. Returns the connection to go on with, or NULL. */
struct redis_link *redis_nodes_follow(struct redis_nodes *nodes, const struct resp_item *error,
                                      bool is_large);
/* Asks for the map of slots again, soon: a server failed or is no master any more. */
void redis_nodes_doubt(struct redis_nodes *nodes);

#endif

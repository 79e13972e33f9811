/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closure.h - the entries that belong to an entry: without them it is not found, or they are of no use without
 * it. Those of one group (store.h) belong together:
 *
 *     a compile with headers   manifest ─▶ results, and the aliases that lead to a shared key
 *     a compiler under tool    marks ─▶ manifest ─▶ results of one command
 *     PyTorch                  the entry of AOTAutograd ─▶ its graphs
 *
 * `warm export`, `warm tier push`, `warm pin` and `warm evict` move or change whole closures.
 *
 * Thread: loop thread. Memory: the set is the caller's.
 */
#ifndef WARM_DAEMON_SERVICE_CLOSURE_H
#define WARM_DAEMON_SERVICE_CLOSURE_H

#include "store/id_set.h"

#define CLOSURE_MAX 65536u /* entries of one request, with what belongs to them */

struct service;
/* Adds an entry, and what belongs to it. Errors: TOO_BIG, NOMEM. */
int closure_add(struct service *s, const struct store_id *id, struct id_set *out, struct err *e);

#endif

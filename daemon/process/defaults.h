/* SPDX-License-Identifier: Apache-2.0 */
/*
 * defaults.h - where the store and the settings are if nobody says where.
 *
 *     the store      root   /var/cache/warm
 *                    users  $XDG_CACHE_HOME/warm, else ~/.cache/warm
 *                    both   then /var/tmp/warm-UID and /tmp/warm-UID/store
 *     the settings   root   /etc/warm/warmd.conf
 *                    users  $XDG_CONFIG_HOME/warm/warmd.conf, else ~/.config/warm/warmd.conf
 *
 * The first place that serves is taken. A place for the store serves if it can be made and written, and
 * belongs to this user alone. It must also lie on a file system of this machine: the index is mapped memory
 * with locks in it, which network file systems do not keep coherent between machines (lmdb.h, "Caveats").
 *
 * Thread: any. Memory: texts go into the caller's buffers.
 */
#ifndef WARM_DAEMON_PROCESS_DEFAULTS_H
#define WARM_DAEMON_PROCESS_DEFAULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "keygen/err.h"

/* Writes the store's folder, and makes it. Logs each place that does not serve, with the reason.
 * Errors: IO if none does. */
int defaults_store(char *out, size_t cap, struct err *e);
/* Writes the settings' file. False if there is none. */
bool defaults_settings(char *out, size_t cap);

/* Returns the name of a network file system by statfs(2)'s f_type; NULL if it is not known as one. */
const char *defaults_network_name(unsigned long type);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.h - how much of its file system the store may take: what others leave, and at most max_size.
 *
 *     total ──▶ defaults of max_size and min_free
 *     free  ──▶ the cap that holds now: the store shrinks while less than min_free is left
 *
 * Thread: any; no state.
 */
#ifndef WARM_DAEMON_PROCESS_ROOM_H
#define WARM_DAEMON_PROCESS_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#define ROOM_SHARE 20u /* by default the store takes one in so many bytes, and leaves as much */
#define ROOM_LEAST (1ull << 20) /* bytes: the store shrinks no further */

/* Reads the size of a folder's file system, and the space that users without privileges can have there. If the
 * folder does not exist, the nearest one above it counts. False if nothing can be read. */
bool room_of(const char *folder, uint64_t *out_total, uint64_t *out_free);

/* Returns the cap of a store that takes `disk_bytes` now. */
uint64_t room_cap(uint64_t max_size, uint64_t min_free, uint64_t disk_bytes, uint64_t free_bytes);

#endif

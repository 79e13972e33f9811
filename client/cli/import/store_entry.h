/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_entry.h - stores an entry of an archive in the daemon: `warm import` calls it.
 *
 * Thread: main; no state. Memory: borrows all.
 */
#ifndef WARM_CLI_IMPORT_STORE_ENTRY_H
#define WARM_CLI_IMPORT_STORE_ENTRY_H

#include "client/cli/import/archive.h"
#include "client/lib/request.h"

enum store_entry_done {
    STORE_ENTRY_STORED,
    STORE_ENTRY_KEPT,
    STORE_ENTRY_EXPIRED,
    STORE_ENTRY_DONES
};

/* Stores an entry, unless it has expired, or is there and the flags are WARM_KEEP_EXISTING. An enum
 * store_entry_done, or the error of the put. */
int store_entry(struct warm *w, const struct archive_entry *entry, unsigned flags);
/* Copies a text and its NUL, and returns the copy. */
const char *store_entry_text(struct view v, char out[ARCHIVE_TEXT_MAX + 1]);
/* True for an error of one entry, after which others may still be stored. */
bool store_entry_failed_alone(int code);

#endif

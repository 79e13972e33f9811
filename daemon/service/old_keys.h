/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_keys.h - tells the store which entries a daemon with other keys left.
 *
 * The store keeps, under OLD_KEYS_META, the time since when the daemon has made its present keys, and
 * their domains and versions:
 *
 * | OFFSET | SIZE | FIELD |
 * |---|---|---|
 * | 0 | 8 | Unix time in ms, little-endian; 0: the store has no others |
 * | 8 | n | the text: domains and versions, one blank after each |
 *
 * Thread: loop thread. Memory: none.
 */
#ifndef WARM_DAEMON_SERVICE_OLD_KEYS_H
#define WARM_DAEMON_SERVICE_OLD_KEYS_H

#include "store/store.h"

#define OLD_KEYS_META "keys"

/* Compares the stored text with the program's own; if it differs, the time becomes now. */
void old_keys_begin(struct store *s);

#endif

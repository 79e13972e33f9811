/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned_path.h - tells if another user could change what a path leads to. A program asks before it reads
 * what it must be able to believe: a store, its settings, a key, a program to start.
 *
 *     /  ─▶  home  ─▶  alice  ─▶  .cache  ─▶  warm         each part, and each link on the way:
 *     └────────── folders above ──────────┘   └ the end    root's or this user's, written by nobody else
 *
 * Exceptions:
 *   - a folder above with the sticky bit, such as /tmp: only the owner of an entry can replace it;
 *   - a folder or file that its owner's private group may write: the group has the user's name, and no other
 *     member. An access control list ends this exception;
 *   - a folder above whose owner has no number in this user namespace: it is the machine's outside. What it
 *     leads to must be this user's or root's all the same.
 *
 * A part that is missing ends the walk: only the owners of the parts before it can make it.
 *
 * It reads the user database, whose libraries a static program cannot load: so not for `warm`.
 *
 * Thread: any. Memory: nothing is owned.
 */
#ifndef WARM_CLIENT_LIB_OWNED_PATH_H
#define WARM_CLIENT_LIB_OWNED_PATH_H

#include "keygen/err.h"

/* Checks a file or folder. `what` is a name for people, such as "the store". DENIED: another user could
 * change it; INVALID: it is a pipe or a socket; IO: nobody can tell. */
int owned_path_check(const char *path, const char *what, struct err *e);
/* Checks only the folders above: nobody else can replace the entry at the path. */
int owned_path_check_folders(const char *path, const char *what, struct err *e);

#endif

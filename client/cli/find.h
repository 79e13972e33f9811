/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.h - finds the entry that a user means.
 *
 * Thread: main. Memory: as each function says.
 */
#ifndef WARM_CLI_FIND_H
#define WARM_CLI_FIND_H

#include "client/cli/listing.h"

/* Asks for the entry under a key or a name alone. 0, CLI_FINDING, or another exit status after printing the
 * reason. */
int find_shown(struct remote *r, enum wire_space space, struct view id, struct answer *out);
/* Asks likewise by the text of a key, or for a name. */
int find_exact(struct remote *r, const char *text, struct answer *out);

/* Finds an entry by its key, its name, its label, or the first digits of its key, if one entry alone has
 * them. 0 and *out, or an exit status after printing the reason. *out borrows the connection's buffer or
 * *out_kept, which the caller closes. */
int find_entry(struct remote *r, const char *text, struct listing *out_kept, struct wire_row *out);
/* Finds an entry as find_entry does, and writes its key. */
int find_key(struct remote *r, const char *text, char out[WARM_KEY_TEXT]);
/* True if the text has the form of a key's first digits, 8 or more. */
bool find_is_part(const char *text);

#endif

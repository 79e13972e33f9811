/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_map.h - the folder that a command of GCC replaces in names by an option of its own: people write
 * -ffile-prefix-map=$PWD=. for builds that are equal in each folder. cc.c calls it for the key, run_cached.c before a hit.
 *
 *     -ffile-prefix-map=/home/a/src=.   __FILE__ and names in debug information are ./m.cc in each checkout
 *     -fmacro-prefix-map=/home/a/src=.  __FILE__ alone
 *
 * That folder is the only root. GCC replaces the beginning of each name of a file, and of no other text. So the result is the
 * same in another checkout, if in both
 *     no file outside of the folder has a name that begins like it: /home/a/src2/m.h
 *     no text that is read spells the folder, as #line could
 * The second is looked up again before each hit. That it shows nowhere else is seen in the result (result.c).
 *
 * Thread: main; no state.
 */
#ifndef WARM_USER_MAP_H
#define WARM_USER_MAP_H

#include "client/tool/inputs.h"
#include "client/tool/tool.h"

/* Adds the folder as the root if all its options name one, the working folder lies in it, and so does `source` if that is a
 * whole name. `debugs`: the result has debug information. False: no root is added. */
bool user_map_add_root(struct tool_job *job, const char *source, bool debugs);

/* Adds one of the two options to the key without the root: two checkouts have one key. Returns false, and adds nothing, for
 * another argument. */
bool user_map_key(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                  const char *arg);

/* True for one of the two options. */
bool user_map_is_option(const char *arg);

/* True if the names and texts of a set of inputs let the result stand for this folder, too. */
bool user_map_fits(const struct tool_job *job, const struct inputs *in, size_t set);

#endif

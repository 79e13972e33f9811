/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - this user's file of the daemon's settings: ~/.config/warm/warmd.conf, root's
 * /etc/warm/warmd.conf.
 *
 * Thread: main. Memory: none.
 */
#ifndef WARM_CLI_RUN_SETTINGS_H
#define WARM_CLI_RUN_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes the file's path. False, after printing the reason, if it is not known. */
bool settings_path(char out[PATH_MAX]);
/* Cuts the unit from a name in INFO: "max_size_bytes" is the setting max_size. Returns the unit. */
const char *settings_cut_unit(char *name);
/* Asks warmd about a file of settings. False if warmd would not start with it. `said` gets its complaint, or a warning,
 * of one line. */
bool settings_check(const char *path, char *said, size_t cap);
/* Sets a value in the file, if warmd accepts it, and prints the path. Other lines stay. Returns an exit
 * status. */
int settings_set(const char *key, const char *value);
/* Adds a value to those of a setting that may be given more than once. Returns an exit status. */
int settings_add(const char *key, const char *value);

#endif

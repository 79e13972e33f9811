/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setting_line.h - a line of a file of settings: "name = value", a comment, or neither.
 *
 * Thread: any. Memory: nothing is owned; the results lie in the line.
 */
#ifndef WARM_TIER_SETTING_LINE_H
#define WARM_TIER_SETTING_LINE_H

#include <stdbool.h>

/* Cuts spaces and line ends off both ends of `text`, which it changes. Returns the rest, in `text`. */
char *setting_trim(char *text);

/* True if `name`, in which a '-' stands for a '_', is the setting. */
bool setting_is(const char *name, const char *setting);
/* Splits `line`, which it changes, at its first '='. An empty line and a comment, which begins with '#', have a NULL
 * name and value. False, and both are NULL, if the line is none of these. */
bool setting_line_split(char *line, char **name, char **value);

#endif

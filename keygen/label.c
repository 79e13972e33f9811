/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.c - finds a file's name in a label, as a whole: it may have blanks itself. `warm show` and the daemon's history
 * take a file's name for the entry, or the miss, of its compile.
 */
#include "keygen/label.h"

#include <string.h>

bool label_has_file(struct view label, struct view path)
{
    const char *slash = path.len ? memrchr(path.data, '/', path.len) : NULL;
    const char *name = slash ? slash + 1 : path.data, *text = label.data;
    size_t len = path.len - (size_t)(name - (const char *)path.data);
    for (size_t at = 1; len && at + len <= label.len; at++)
        if (text[at - 1] == ' ' && (at + len == label.len || text[at + len] == ' ') &&
            memcmp(text + at, name, len) == 0)
            return true;
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spelling.c - decides if a host compiler gets the names of its sources in one spelling. cc.c calls
 * it for each command, run_cached.c for the name of a note.
 *
 *     m.cc, ./m.cc, $PWD/m.cc ──▶ m.cc: in the key, and on a miss in the compiler's arguments
 *
 * All three leave the same bytes, unless the result shows the spelling. They share one key, so the
 * compiler gets the one spelling whoever asks: equal keys mean equal arguments. ccache's base_dir
 * does the same, but for results that show the name too. Here such results keep the user's own:
 *     options   -g, dependencies, -E, -S and each that cc_options.c does not know to hide names
 *     texts     __FILE__ and other names of a file, in any text that is read (root_names.c)
 *     bytes     the spelling stands in the result, except as the name of the object's file (result.c)
 *     messages  any, and any failure
 * The last three are known after the run. Its messages are held back. Then the user's own command
 * runs, and its result has the larger key of run_cached.c. If the user's own is the one spelling, the same result is kept
 * under a key of that command, which no other spelling shares (COUNTS_SOURCE). A note in the cache, by the command without
 * the contents of its files, spares the first run the next time. It is a hint: the result is the same
 * without it.
 *
 * Only names below the working folder change: to relative ones without "." and "..". So a compiler
 * finds the same source, and its headers in the same folder.
 *
 * For TorchInductor's sources cc.c adds options instead. Their messages do not depend on the options, and
 * are passed on after the run. All else is the same.
 *
 * Thread: main; no state.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/tool.h"
#include "keygen/domains.h"

/* Appends the parts of a path. False if one is "..", which may lead elsewhere through a link. */
static bool add_parts(const char *path, char *out)
{
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        if (len == 2 && memcmp(at, "..", 2) == 0)
            return false;
        if (len && !(len == 1 && *at == '.')) {
            if (*out)
                strcat(out, "/");
            strncat(out, at, len);
        }
        at += len + (at[len] != '\0');
    }
    return true;
}

char *spelling_of(const struct tool_job *job, const char *path)
{
    assert(job && path);
    size_t len = strlen(job->cwd);
    bool below = strncmp(path, job->cwd, len) == 0 && path[len] == '/';
    if (job->in_top || (path[0] == '/' && !below))
        return NULL;
    char *out = calloc(1, strlen(path) + 1);
    if (out && (!add_parts(below ? path + len : path, out) || strchr("-@", *out))) {
        free(out);
        return NULL;
    }
    return out;
}

void spelling_note_name(const struct tool_job *job, char out[TOOL_NAME_TEXT])
{
    assert(job && out);
    struct key_builder key;
    key_begin(&key, DOMAIN_CC_NOTE);
    key_add_text(&key, 1, job->program);
    key_add_text(&key, 1, job->cwd);
    for (int i = 0; i < job->argc; i++)
        key_add_text(&key, 1, job->argv[i]);
    tool_name(job, "2n", &key, out);
}

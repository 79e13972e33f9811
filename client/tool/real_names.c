/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real_names.c - decides what counts of a name without links that a compiler asked for (realpath). trace_log.c calls it
 * after a run, inputs.c at each look; inputs.h has the kinds.
 *
 * GCC asks for each header of a system folder. It opens and shows the name without links if that is shorter. A link that
 * leads elsewhere then counts, though the file that was opened before is unchanged.
 *
 * Many headers lie in few folders: the real names of the last folders are remembered for the process.
 *
 * Thread: main. Memory: static.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/tool/inputs.h"
#include "keygen/key.h"

#define REMEMBERED 64

struct folder {
    char *name, *real;
};

/* Returns the real name of a folder; NULL: none, or no memory. The table owns it until the next call. */
static const char *real_folder(const char *name)
{
    static struct folder table[REMEMBERED];
    struct folder *f = &table[XXH3_64bits(name, strlen(name)) % REMEMBERED];
    if (f->name && strcmp(f->name, name) == 0)
        return f->real;
    free(f->name);
    free(f->real);
    *f = (struct folder){strdup(name), realpath(name, NULL)};
    return f->name ? f->real : NULL;
}

/* Writes the name without links of an absolute path. False if there is none. */
static bool real_of(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/'), *leaf = slash + 1;
    size_t len = (size_t)(slash - path);
    if (lstat(path, &st) < 0)
        return false;
    if (S_ISLNK(st.st_mode) || len == 0 || *leaf == '\0' || strcmp(leaf, ".") == 0 ||
        strcmp(leaf, "..") == 0)
        return realpath(path, out) != NULL;
    memcpy(folder, path, len);
    folder[len] = '\0';
    const char *real = real_folder(folder);
    int n = real ? snprintf(out, PATH_MAX, "%s/%s", strcmp(real, "/") == 0 ? "" : real, leaf) : -1;
    return n > 0 && n < PATH_MAX;
}

/* Takes "." and ".." out of an absolute path, in place, as if it had no links. */
static void normalize(char *path)
{
    char *to = path;
    for (const char *at = path; *at;) {
        const char *part = at + strspn(at, "/");
        size_t len = strcspn(part, "/");
        at = part + len;
        if (len == 2 && part[0] == '.' && part[1] == '.') {
            while (to > path && *--to != '/')
                continue;
        } else if (len && !(len == 1 && *part == '.')) {
            *to++ = '/';
            memmove(to, part, len);
            to += len;
        }
    }
    *to = '\0';
}

char real_name(const struct tool_job *job, const char *path, char out[PATH_MAX])
{
    assert(job && path && out);
    char whole[PATH_MAX], real[PATH_MAX], plain[2 * PATH_MAX];
    const char *rest, *slash = path[0] == '/' ? "" : "/", *base = *slash ? job->cwd : "";
    int root = *slash ? -1 : tool_root_of(job, path, &rest);
    if (root >= 0)
        base = job->roots[root];
    int n = snprintf(whole, sizeof whole, "%s%s%s", *slash ? base : "", slash, path);
    if (n < 0 || n >= PATH_MAX || !real_of(whole, real))
        return 0;
    const char *real_base = *base ? real_folder(base) : "";
    if (!real_base)
        return 0;
    snprintf(plain, sizeof plain, "%s%s", real_base, whole + strlen(base));
    normalize(plain);
    bool shorter = strlen(real) < strlen(path);
    if (!shorter && strcmp(real, plain) == 0) {
        *out = '\0';
        return REAL_PLAIN;
    }
    bool is_named = root >= 0 && strcmp(base, real_base) == 0; /* messages name it with its root */
    bool is_below = *base && tool_is_below(real, real_base) && (!shorter || is_named);
    if (!is_below && *slash && job->short_names)
        return 0; /* it may have been a longer name, which decides which one shows */
    snprintf(out, PATH_MAX, "%s", real + (is_below ? strlen(real_base) : 0));
    if (is_below)
        return shorter ? REAL_SHORTER_BELOW : REAL_BELOW;
    return shorter ? REAL_SHORTER : REAL_ELSEWHERE;
}

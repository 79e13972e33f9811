/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folders.c - what counts of folders to search beside their names. The front ends (cc.c, nvidia.c) call it.
 *
 * One folder: a compiler searches a folder once, also if it has two names, and an -I that is a system's folder not at all.
 * #include_next, messages and files of dependencies differ if one of the names leads to a copy instead.
 *
 * Short names: GCC names a file of a folder of -isystem or -idirafter without links, if that is shorter (real_names.c). Messages show
 * that name, preprocessed texts and files of dependencies, too.
 *
 * Thread: main; no state.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/tool.h"

static char *real_of(struct view folder)
{
    char path[PATH_MAX];
    if (folder.len >= sizeof path)
        return NULL;
    memcpy(path, folder.data, folder.len);
    path[folder.len] = '\0';
    return realpath(path, NULL);
}

/* True for a folder that the compiler may search by itself. */
static bool is_of_compiler(const struct tool_job *job, const char *real)
{
    static const char *const variables[] = {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
                                            "OBJC_INCLUDE_PATH", "INCLUDES"};
    static const char *const folders[] = {"/usr/include", "/usr/lib", "/usr/local/include"};
    static const char *const parts[] = {"/lib/gcc/", "/lib/clang/", "/include/c++/", "/sysroot/"};
    char prefix[PATH_MAX];
    bool is = !realpath(job->program, prefix);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        is |= getenv(variables[i]) != NULL;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        is |= strcmp(real, folders[i]) == 0 || tool_is_below(real, folders[i]);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        is |= strstr(real, parts[i]) != NULL;
    for (size_t i = 0; !is && i < 2; i++) { /* PREFIX/bin/gcc */
        char *slash = strrchr(prefix, '/');
        if (slash)
            *slash = '\0';
    }
    const char *rest = !is && tool_is_below(real, prefix) ? real + strlen(prefix) : "";
    return is || strncmp(rest, "/include", 8) == 0 || strncmp(rest, "/lib", 4) == 0 ||
           strncmp(rest, "/targets/", 9) == 0;
}

/* Returns the root in which a folder lies by its name; -1: none, or no memory. */
static int root_of(const struct tool_job *job, struct view folder)
{
    const char *rest;
    char *path = strndup(folder.data, folder.len);
    int root = path ? tool_root_of(job, path, &rest) : -1;
    free(path);
    return root;
}

/* True for a folder in a root, or one that is named from the working folder: what it leads to shows in the inputs. */
static bool is_placed(const struct tool_job *job, struct view folder)
{
    return *(const char *)folder.data != '/' || root_of(job, folder) >= 0;
}

bool tool_may_shorten(const struct tool_job *job, struct view folder)
{
    assert(job);
    int root = root_of(job, folder);
    char *real = root >= 0 ? real_of(folder) : NULL;
    bool is_plain = real && view_is(folder, real) && !job->leads_to[root];
    free(real);
    return root >= 0 && !is_plain;
}

int tool_key_folders(struct tool_job *job, struct key_builder *key, uint32_t tag,
                     const struct tool_folder *folders, size_t n, struct err *e)
{
    assert(job && key && (folders || n == 0));
    char **reals = calloc(n + 1, sizeof *reals);
    size_t there = 0;
    if (!reals)
        return err_set(e, WARM_ENOMEM, "no memory for folders");
    for (size_t i = 0; i < n; i++) {
        char *real = real_of(folders[i].path);
        size_t same = 0;
        if (!real)
            continue; /* absent: it is not searched */
        while (same < there && strcmp(reals[same], real) != 0)
            same++;
        key_add_u64(key, tag, same);
        key_add_text(key, tag, is_of_compiler(job, real) ? real : "");
        if (folders[i].is_system) {
            bool shortens = tool_may_shorten(job, folders[i].path);
            job->shortens |= shortens;
            key_add_u64(key, tag, shortens);
            key_add_text(key, tag, is_placed(job, folders[i].path) ? "" : real);
        }
        reals[there++] = real;
    }
    for (size_t i = 0; i < there; i++)
        free(reals[i]);
    free(reals);
    return 0;
}

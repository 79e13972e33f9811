/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compilers.c - decides from a program's name if it is a compiler that `warm tool` stands in for.
 * The preload library asks it before each exec, `warm run` and `warm tool` for their commands.
 *
 * Thread: any; no state.
 */
#include "client/exec/compilers.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    "g++",  "gcc",    "c++",       "cc",   "clang++",         "clang",   "ptxas",
    "cicc", "nvlink", "fatbinary", "nvcc", "ptxas-blackwell", "tileiras"};

/* True for "-12", "-12.2" or nothing. */
static bool is_version_suffix(const char *s)
{
    if (*s == '\0')
        return true;
    return *s == '-' && s[1] >= '0' && s[1] <= '9' && s[1 + strspn(s + 1, "0123456789.")] == '\0';
}

/* True if `name` is all of `base`, or stands between the name of a target and a version. */
static bool is_named(const char *base, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = strstr(base, name); at; at = strstr(at + 1, name))
        if ((at == base || at[-1] == '-') && is_version_suffix(at + len))
            return true;
    return false;
}

const char *compiler_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_named(base, names[i]))
            return names[i];
    return NULL;
}

/* True for programs that go by a compiler's name, as /usr/lib/ccache/g++ does, and start it. */
static bool is_launcher(const char *path)
{
    static const char *const launchers[] = {"ccache", "sccache", "distcc", "icecc"};
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (strcmp(base, launchers[i]) == 0)
            return true;
    return false;
}

const char *compiler_at(const char *path)
{
    char target[PATH_MAX];
    const char *name = compiler_name(path);
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len <= 0)
        return name;
    target[len] = '\0';
    if (name)
        return is_launcher(target) ? NULL : name;
    name = compiler_name(target);
    return name && (strcmp(name, "g++") == 0 || strcmp(name, "gcc") == 0) ? name : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - decides if a program that is about to start is a compiler, and then starts it through
 * `warm tool`. Programs call these functions instead of the C library's.
 *
 *     execve("/usr/bin/g++", {"g++", …}, env) ──▶ execve($WARM_EXE,
 *                                {"warm", "tool", "--argv0", "g++", "--", "/usr/bin/g++", …}, env)
 *
 * The environment of the new program counts. Without WARM_EXE, or with WARM_TOOL_ACTIVE (which
 * `warm tool` sets for its own programs) or WARM_DISABLE, the call is passed on as it is. So are
 * programs that are no compilers by name, and those that cannot run, so that the kernel reports the
 * error.
 *
 * A program is started without this library if it would end with it, or complain: it is linked with
 * AddressSanitizer's runtime, which must be the first; musl loads it; it is for another processor; or the library
 * is not where the program will look, as after chroot.
 *
 * Thread: any, and between fork or vfork and exec: no allocation, no lock, errno kept unless a call
 * failed. Memory: the stack of the caller, at most EXEC_ARGS_MAX pointers.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/exec/compilers.h"
#include "client/exec/elf.h"
#include "client/exec/functions.h"
#include "client/lib/debug.h"
#include "client/preload/preload.h"
#include "keygen/expect.h"

#define EXEC_ARGS_MAX 16384 /* arguments; a longer command line is passed on */
#define EXEC_ADDED 6        /* warm tool --argv0 NAME -- PROGRAM, in place of argv[0] */
#define PRELOAD_MAX 8192    /* bytes of LD_PRELOAD; a longer list stays as it is */

typedef int execve_fn(const char *, char *const[], char *const[]);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                     const posix_spawnattr_t *, char *const[], char *const[]);
static execve_fn *real_execve, *real_execvpe;
static spawn_fn *real_spawn, *real_spawnp;

/* Looks the real functions up before the program runs: between vfork and exec it is too late. */
__attribute__((constructor)) static void find_real(void)
{
    real_execve = (execve_fn *)preload_real_dlsym(RTLD_NEXT, "execve");
    real_execvpe = (execve_fn *)preload_real_dlsym(RTLD_NEXT, "execvpe");
    real_spawn = (spawn_fn *)preload_real_dlsym(RTLD_NEXT, "posix_spawn");
    real_spawnp = (spawn_fn *)preload_real_dlsym(RTLD_NEXT, "posix_spawnp");
    debug_say(DEBUG_ALL, "loaded into %s", program_invocation_name);
}

/* Looks them up now if our constructor has not run yet: those of other libraries may start
 * programs. */
static void ready(void)
{
    if (!real_spawnp)
        find_real();
}

/* ---- which programs ---- */

static const char *env_value(char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; env && env[i]; i++)
        if (strncmp(env[i], name, len) == 0 && env[i][len] == '=')
            return env[i] + len + 1;
    return NULL;
}

static bool is_on(const char *value) { return value && *value && strcmp(value, "0") != 0; }

/* Returns the path of `warm` in the environment of a new program; NULL if it must not stand in. */
static const char *warm_in(char *const *env)
{
    const char *warm = expect_is_off() ? NULL : env_value(env, "WARM_EXE");
    if (!warm || warm[0] != '/' || is_on(env_value(env, "WARM_TOOL_ACTIVE")) ||
        is_on(env_value(env, "WARM_DISABLE")))
        return NULL;
    return warm;
}

/* ---- the command line of `warm tool` ---- */

static size_t count(char *const *argv)
{
    size_t n = 0;
    while (argv && argv[n] && n <= EXEC_ARGS_MAX)
        n++;
    return n;
}

static bool can_run(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0 &&
           !(st.st_mode & (S_ISUID | S_ISGID));
}

/* True if `program` must be started through `warm`, whose path is then *out_warm. */
static bool is_ours(const char *program, char *const *argv, char *const *env, const char **out_warm,
                    size_t *out_n)
{
    int kept = errno;
    *out_n = 0;
    bool ours = program && compiler_at(program) && (*out_warm = warm_in(env)) != NULL &&
                (*out_n = count(argv)) >= 1 && *out_n <= EXEC_ARGS_MAX && can_run(program) &&
                access(*out_warm, X_OK) == 0;
    errno = kept;
    return ours;
}

static const char warm_name[] = "warm", tool_name[] = "tool", argv0_name[] = "--argv0",
                  end_name[] = "--";

/* Writes the command line of `warm tool` to `out`, which has room for n + EXEC_ADDED pointers. exec
 * takes pointers to char, and writes to none. */
static void stand_in(const char *program, char *const *argv, size_t n, const char **out)
{
    const char *head[EXEC_ADDED] = {warm_name, tool_name, argv0_name, argv[0], end_name, program};
    memcpy(out, head, sizeof head);
    for (size_t i = 1; i <= n; i++) /* with the NULL at the end */
        out[EXEC_ADDED + i - 1] = argv[i];
}

static int pass_on(const char *path, char *const *argv, char *const *env)
{
    if (real_execve)
        return real_execve(path, argv, env);
    return (int)syscall(SYS_execve, path, argv, env);
}

/* ---- programs that must not have us ---- */

struct preload_list { /* "LD_PRELOAD=" and the others of it */
    char text[PRELOAD_MAX];
};

/* Writes the entries of an environment's LD_PRELOAD but ours, and ours to `out_own`. False if ours is not there. */
static bool list_without_us(char *const *env, struct preload_list *out, char out_own[PATH_MAX])
{
    static const char own[] = "libwarm-preload.so", name[] = "LD_PRELOAD=";
    const char *at = env_value(env, "LD_PRELOAD");
    char *to = stpcpy(out->text, name);
    bool found = false;
    if (!at || strlen(at) + sizeof name > sizeof out->text)
        return false;
    for (size_t len; *at; at += len + (at[len] != '\0')) {
        len = strcspn(at, ": ");
        bool is_own = len >= strlen(own) && memcmp(at + len - strlen(own), own, strlen(own)) == 0;
        if (is_own && len < PATH_MAX) {
            *(char *)mempcpy(out_own, at, len) = '\0';
            found = true;
        }
        if (is_own || !len)
            continue;
        *to = ':';
        to = mempcpy(to + (to[-1] != '='), at, len);
    }
    *to = '\0';
    return found;
}

/* True if a program must start without us. Then *list is its LD_PRELOAD, and *out_n the number of variables. */
static bool starts_without_us(const char *program, char *const *env, struct preload_list *list,
                              size_t *out_n)
{
    char own[PATH_MAX];
    int kept = errno;
    *out_n = count(env);
    bool without = program && *out_n <= EXEC_ARGS_MAX && list_without_us(env, list, own) &&
                   (access(own, R_OK) < 0 || elf_cannot_load_ours(program));
    errno = kept;
    return without;
}

/* Copies the environment, with another LD_PRELOAD. `out` has room for n + 1 pointers. */
static void env_with(char *const *env, size_t n, struct preload_list *list, char **out)
{
    for (size_t i = 0; i <= n; i++)
        out[i] = env[i] && strncmp(env[i], "LD_PRELOAD=", 11) == 0 ? list->text : env[i];
}

/* Starts a program as its caller wants it, but without us if it must. `run` is execve or execvpe. */
static int exec_as_is(execve_fn *run, const char *program, char *const *argv, char *const *env)
{
    struct preload_list list;
    size_t n;
    if (!starts_without_us(program, env, &list, &n))
        return run(program, argv, env);
    char *others[n + 1];
    env_with(env, n, &list, others);
    return run(program, argv, others);
}

/* Does the same with posix_spawn or posix_spawnp. */
static int spawn_as_is(spawn_fn *run, pid_t *pid, const char *program,
                       const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
    struct preload_list list;
    size_t n;
    if (!starts_without_us(program, env, &list, &n))
        return run(pid, program, actions, attributes, argv, env);
    char *others[n + 1];
    env_with(env, n, &list, others);
    return run(pid, program, actions, attributes, argv, others);
}

/* ---- exec ---- */

int execve(const char *path, char *const argv[], char *const env[])
{
    const char *warm;
    size_t n;
    if (!is_ours(path, argv, env, &warm, &n))
        return exec_as_is(pass_on, path, argv, env);
    const char *other[n + EXEC_ADDED];
    stand_in(path, argv, n, other);
    return pass_on(warm, (char *const *)(void *)other, env);
}

int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }

/* Finds a name without a slash on the caller's PATH. False: the C library must look, and report. */
static bool search(const char *name, char out[PATH_MAX])
{
    const char *path = env_value(environ, "PATH");
    size_t name_len = strlen(name);
    for (const char *at = path; at && *name; at = *at ? at + 1 : NULL) {
        size_t len = strcspn(at, ":");
        if (len && len + 1 + name_len < PATH_MAX) {
            memcpy(out, at, len);
            out[len] = '/';
            memcpy(out + len + 1, name, name_len + 1);
            if (can_run(out))
                return true;
        }
        if (len == 0) /* an empty entry is the working folder: leave that to the C library */
            return false;
        at += len;
    }
    return false;
}

int execvpe(const char *file, char *const argv[], char *const env[])
{
    char found[PATH_MAX];
    int kept = errno;
    ready();
    if (strchr(file, '/') && compiler_name(file))
        return execve(file, argv, env);
    bool ours = !strchr(file, '/') && compiler_name(file) && warm_in(env) && search(file, found);
    errno = kept;
    if (ours)
        return execve(found, argv, env);
    return exec_as_is(real_execvpe, file, argv, env);
}

int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

/* ---- spawn ---- */

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
    const char *warm;
    size_t n;
    ready();
    if (!is_ours(path, argv, env, &warm, &n))
        return spawn_as_is(real_spawn, pid, path, actions, attributes, argv, env);
    const char *other[n + EXEC_ADDED];
    stand_in(path, argv, n, other);
    return real_spawn(pid, warm, actions, attributes, (char *const *)(void *)other, env);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
    char found[PATH_MAX];
    int kept = errno;
    ready();
    bool by_path = strchr(file, '/') != NULL;
    bool ours = compiler_name(file) && warm_in(env) && (by_path || search(file, found));
    errno = kept;
    if (!ours)
        return spawn_as_is(real_spawnp, pid, file, actions, attributes, argv, env);
    return posix_spawn(pid, by_path ? file : found, actions, attributes, argv, env);
}

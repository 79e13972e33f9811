/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.c - sets the environment of a program that `warm run` starts. commands/run.c calls it.
 *
 * Each line of the table is one variable. A user's own value stays, with two exceptions: lists get
 * our item in front (behind AddressSanitizer's runtime), and our own places are always set. No variable here may be one that a
 * framework puts into its keys: CXX, XLA_FLAGS, OMP_NUM_THREADS, a cache's folder.
 *
 * Thread: main.
 */
#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"
#include "client/exec/elf.h"

enum how {
    ALWAYS,       /* replaces the user's value */
    UNLESS_SET,   /* the user's own value wins, even an empty one */
    UNLESS_REDIS, /* also not if the user gave PyTorch a Redis by its host's name */
    IN_FRONT,     /* in front of a list with colons, unless it is in it */
};

/* {exe}, {socket}, {session} and {prefix} stand for members of struct run_places. A value that
 * begins with {prefix} is a path: if no file is there, the variable is not set. */
static const struct setting {
    const char *name;
    enum how how;
    const char *value;
} settings[] = {
    {"WARM_SOCKET", ALWAYS, "{socket}"},
    {"WARM_EXE", ALWAYS, "{exe}"},
    {"WARM_SESSION", UNLESS_SET, "{session}"},
    {"WARM_LIBRARY", UNLESS_SET, "{prefix}/lib/libwarm.so"},
    {"LD_PRELOAD", IN_FRONT, "{prefix}/lib/libwarm-preload.so"},
    {"PYTHONPATH", IN_FRONT, "{prefix}/share/warm/python"},
    /* PyTorch's remote caches. warm/torch.py asks for them; if it is not loaded, the redis package
     * does, which waits 30 s for an answer (daemon/redis/lease.c answers sooner). */
    {"TORCHINDUCTOR_REDIS_URL", UNLESS_REDIS,
     "unix://{socket}?socket_timeout=30&client_name=warm-session-{session}"},
    {"TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", UNLESS_SET, "1"},
    {"TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE", UNLESS_SET, "1"},
    {"TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE", UNLESS_SET, "1"},
    {"TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO", UNLESS_SET, "1"},
    {"TRITON_CACHE_MANAGER", UNLESS_SET, "warm.triton:CacheManager"},
};

/* Returns the text for a name in braces; NULL: none. */
static const char *stands_for(const struct run_places *places, const char *name, size_t len)
{
    const struct {
        const char *name, *value;
    } words[] = {{"exe", places->exe},
                 {"prefix", places->prefix},
                 {"socket", places->socket},
                 {"session", places->session}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == len && memcmp(words[i].name, name, len) == 0)
            return words[i].value;
    return NULL;
}

/* Writes the value with its words filled in. False if it does not fit. */
static bool fill_in(const struct run_places *places, const char *from, char *out, size_t cap)
{
    size_t len = 0;
    while (*from) {
        const char *end = *from == '{' ? strchr(from, '}') : NULL;
        const char *word = end ? stands_for(places, from + 1, (size_t)(end - from - 1)) : NULL;
        size_t n = word ? strlen(word) : 1;
        if (len + n >= cap)
            return false;
        memcpy(out + len, word ? word : from, n);
        len += n;
        from = word ? end + 1 : from + 1;
    }
    out[len] = '\0';
    return true;
}

/* ---- the preloaded library ---- */

#define PROBE_PROGRAM "/bin/true"
#define PROBE_MS 2000 /* after that the file system hangs, and the library is not used */

/* Runs the smallest program with the library, in a child. Its complaints go to `complaints_fd`. */
static _Noreturn void probe_exec(char *preload, int complaints_fd)
{
    char *argv[] = {(char[]){PROBE_PROGRAM}, NULL}, *env[] = {preload, NULL};
    int null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
    }
    if (dup2(complaints_fd, 2) == 2)
        execve(PROBE_PROGRAM, argv, env);
    _exit(0);
}

/* Reads until the other end closes. Returns the bytes read, or -1 after PROBE_MS of silence. */
static ssize_t read_to_end(int fd, char *out, size_t cap)
{
    size_t len = 0;
    for (;;) {
        struct pollfd readable = {fd, POLLIN, 0};
        if (poll(&readable, 1, PROBE_MS) != 1)
            return -1;
        ssize_t n = len < cap ? read(fd, out + len, cap - len) : 0;
        if (n <= 0)
            return (ssize_t)len;
        len += (size_t)n;
    }
}

/*
 * True if the dynamic linker can load the library into programs here. It cannot in an older
 * container, with another C library, or from a file system without execute permission; it would
 * then end every program, or complain in each. Prints one line in that case. True also if there is
 * no program to try.
 */
static bool preload_loads(const char *path)
{
    char *preload, said[512];
    int pipe_fds[2], status = 0;
    if (access(PROBE_PROGRAM, X_OK) != 0 || asprintf(&preload, "LD_PRELOAD=%s", path) < 0)
        return true;
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        free(preload);
        return true;
    }
    pid_t pid = fork();
    if (pid == 0)
        probe_exec(preload, pipe_fds[1]);
    free(preload);
    close(pipe_fds[1]);
    ssize_t len = pid > 0 ? read_to_end(pipe_fds[0], said, sizeof said - 1) : 0;
    close(pipe_fds[0]);
    if (len < 0)
        kill(pid, SIGKILL);
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (len == 0 && status == 0)
        return true;
    said[len > 0 ? len : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    cli_say("programs here cannot load %s: running without it%s%s", path, *said ? ": " : "", said);
    return false;
}

/* True if a program has the dynamic linker of this machine's programs, as far as is known. Prints one line if
 * not: it is of another C library, and would end with our library. */
static bool has_usual_loader(const char *program)
{
    char usual[PATH_MAX], loader[PATH_MAX];
    if (!elf_loader_of(PROBE_PROGRAM, usual) || !elf_loader_of(program, loader) ||
        strcmp(usual, loader) == 0)
        return true;
    cli_say("%s is loaded by %s, not by %s: running without the library", program, loader, usual);
    return false;
}

/* True if our library may stand in a program's list of preloaded ones. Prints one line if not. */
static bool preload_fits(const char *program, const char *path)
{
    if (elf_needs_asan_first(program)) {
        cli_say("%s is built with AddressSanitizer, whose library must be the first: running "
                "without ours",
                program);
        return false;
    }
    return has_usual_loader(program) && preload_loads(path);
}

/* True if the user preloads the runtime of AddressSanitizer, which must be the first library. */
static bool preloads_asan(const char *list)
{
    for (size_t len; list && *list; list += len + (list[len] != '\0')) {
        len = strcspn(list, ": ");
        if (elf_is_asan_runtime(list, len))
            return true;
    }
    return false;
}

/* ---- lists and single values ---- */

static bool list_has(const char *list, const char *item)
{
    size_t len = strlen(item);
    for (const char *at = list; (at = strstr(at, item)); at += len)
        if ((at == list || strchr(": ", at[-1])) && (!at[len] || strchr(": ", at[len])))
            return true;
    return false;
}

static bool set_one(const struct run_places *places, const struct setting *s, const char *program)
{
    char value[PATH_MAX + 256];
    if (s->how != ALWAYS && s->how != IN_FRONT && getenv(s->name))
        return true;
    if (s->how == UNLESS_REDIS && getenv("TORCHINDUCTOR_REDIS_HOST"))
        return true;
    if (!fill_in(places, s->value, value, sizeof value))
        return true; /* too long to be a path */
    if (strncmp(s->value, "{prefix}", 8) == 0 && access(value, R_OK) != 0)
        return true;
    if (s->how != IN_FRONT)
        return setenv(s->name, value, 1) == 0;
    if (strpbrk(value, ": ")) { /* these separate the items of the list */
        cli_say("%s: a colon or a blank in this path: without it", value);
        return true;
    }
    if (strcmp(s->name, "LD_PRELOAD") == 0 && !preload_fits(program, value))
        return true;
    const char *old = getenv(s->name);
    char *list;
    if (!old || !*old)
        return setenv(s->name, value, 1) == 0;
    if (list_has(old, value))
        return true;
    bool is_behind = strcmp(s->name, "LD_PRELOAD") == 0 && preloads_asan(old);
    if (asprintf(&list, "%s:%s", is_behind ? old : value, is_behind ? value : old) < 0)
        return false;
    bool done = setenv(s->name, list, 1) == 0;
    free(list);
    return done;
}

bool run_env_set(const struct run_places *places, const char *program)
{
    assert(places && places->exe[0] && program);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (!set_one(places, &settings[i], program))
            return false;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start_daemon.c - decides if a daemon serves this user, and starts one otherwise. commands/run.c and the
 * commands that show the store call it.
 *
 *     connect ── a daemon accepts ──▶ root's or our own? ──▶ ANSWERS │ REFUSED
 *        │ nobody
 *        ▼
 *     the folder is ours ─▶ lock SOCKET.start ─▶ connect again ─▶ fork, setsid, fork, exec warmd
 *                                                                 └▶ connect until it listens
 * Two processes that start at once: the second gets the lock when the first is done, and finds its
 * daemon.
 *
 * The daemon outlives the job and is no part of it. It has a session of its own, "/" as its folder, and the
 * default action for each signal. It may run on all CPUs, even if the rank that starts it is bound to one. It has
 * no terminal, no descriptor but its log, and none of the program's variables.
 *
 * Thread: main.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"
#include "client/lib/conn.h"

#define START_WAIT_MS 5000 /* the first start reads the compilers: some 100 ms from a slow disk */
#define LOOK_MS 1          /* between two looks */
#define LAST_LINE_MAX 400  /* bytes of the log's end that a message shows */
#define LOG_MAX (1024 * 1024) /* bytes; a longer log is started again */

/* ---- the listener ---- */

/* True for a folder in which only root can have placed a socket. */
static bool is_roots_folder(const char *folder)
{
    struct stat st;
    return stat(folder, &st) == 0 && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* True if only root and this user can replace a socket in the folder. */
static bool is_safe_folder(const char *folder)
{
    struct stat link, st;
    return lstat(folder, &link) == 0 && stat(folder, &st) == 0 &&
           (link.st_uid == 0 || link.st_uid == geteuid()) &&
           (st.st_uid == 0 || st.st_uid == geteuid()) &&
           (!(st.st_mode & (S_IWGRP | S_IWOTH)) || st.st_mode & S_ISVTX);
}

static void folder_of(const char *path, char out[RUN_SOCKET_MAX])
{
    snprintf(out, RUN_SOCKET_MAX, "%s", path);
    char *slash = strrchr(out, '/');
    if (slash)
        *(slash == out ? slash + 1 : slash) = '\0';
    else
        strcpy(out, ".");
}

/* Decides if the listener may be trusted, because its artifacts run in this user's programs: root,
 * this user, or any listener in a folder where only root can place a socket. */
static enum run_daemon judge(const struct run_places *places, int fd)
{
    char folder[RUN_SOCKET_MAX];
    struct ucred who;
    socklen_t len = sizeof who;
    folder_of(places->socket, folder);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
        return RUN_DAEMON_REFUSED;
    if (who.uid != 0 && who.uid != geteuid() && (geteuid() == 0 || !is_roots_folder(folder))) {
        cli_say("%s belongs to another user (uid %u): not used", places->socket, (unsigned)who.uid);
        return RUN_DAEMON_REFUSED;
    }
    if (is_safe_folder(folder)) /* else another user could take its place */
        return RUN_DAEMON_ANSWERS;
    cli_say("%s can be written by other users: the daemon there is not used", folder);
    return RUN_DAEMON_REFUSED;
}

enum run_daemon run_daemon_look(const struct run_places *places)
{
    assert(places && places->socket[0]);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", places->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return RUN_DAEMON_NONE;
    enum run_daemon answer = RUN_DAEMON_NONE;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        answer = judge(places, fd);
    } else if (errno == EAGAIN) { /* its queue is full: a daemon with much work */
        answer = RUN_DAEMON_ANSWERS;
    } else if (errno != ENOENT && errno != ECONNREFUSED && errno != ENOTDIR) {
        cli_say("cannot connect to %s: %s", places->socket, strerror(errno));
        answer = RUN_DAEMON_REFUSED;
    }
    close(fd);
    return answer;
}

/* ---- the socket's folder ---- */

static bool prepare_folder(const struct run_places *places)
{
    char folder[RUN_SOCKET_MAX];
    folder_of(places->socket, folder);
    if (mkdir(folder, 0700) == 0)
        return geteuid() != 0 || chmod(folder, 0755) == 0; /* root's daemon is everybody's */
    if (errno != EEXIST) {
        cli_say("cannot make %s for a daemon: %s", folder, strerror(errno));
        return false;
    }
    if (is_safe_folder(folder))
        return true;
    cli_say("%s can be written by other users: no daemon is started there", folder);
    return false;
}

void run_find_warmd(const struct run_places *places, char out[PATH_MAX])
{
    char beside[PATH_MAX];
    snprintf(beside, sizeof beside, "%s", places->exe);
    char *name = strrchr(beside, '/');
    size_t room = sizeof beside - (size_t)(name + 1 - beside);
    snprintf(name + 1, room, "warmd");
    snprintf(out, PATH_MAX, "%s", access(beside, X_OK) == 0 ? beside : "warmd");
}

static int open_log(const struct run_places *places)
{
    char path[RUN_SOCKET_MAX + 8];
    struct stat st;
    snprintf(path, sizeof path, "%s.log", places->socket);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > LOG_MAX && ftruncate(fd, 0) != 0)
        return fd; /* then it grows */
    return fd;
}

/* ---- the new process ---- */

static void forget_the_job(int log)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t none;
    cpu_set_t all;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log >= 0 ? log : null, STDERR_FILENO);
    closefrom(STDERR_FILENO + 1);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all); /* as far as the machine, or a container, lets it */
    umask(077);
    if (chdir("/") != 0)
        _exit(126);
    static const char *const ours[] = {
        "LD_PRELOAD",    "LD_AUDIT",      "WARM_SOCKET", "WARM_SESSION", "WARM_DISABLE",
        "WARM_READONLY", "WARM_RECACHE",  "WARM_EXE",    "WARM_LIBRARY", "NOTIFY_SOCKET",
        "WATCHDOG_PID",  "WATCHDOG_USEC", "LISTEN_PID",  "LISTEN_FDS",   "LISTEN_FDNAMES"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        unsetenv(ours[i]);
}

static _Noreturn void become_warmd(const struct run_places *places, int log)
{
    char path[PATH_MAX], name[] = "warmd", option[] = "--socket", socket[RUN_SOCKET_MAX];
    char *argv[] = {name, option, socket, NULL};
    snprintf(socket, sizeof socket, "%s", places->socket);
    run_find_warmd(places, path);
    forget_the_job(log);
    execvp(path, argv);
    dprintf(STDERR_FILENO, "warmd: cannot start %s: %s\n", path, strerror(errno));
    _exit(127);
}

/* Starts the daemon as no child of ours. Returns a descriptor that becomes readable at its end, or
 * -1. */
static int spawn(const struct run_places *places)
{
    int ends[2];
    pid_t pid = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t between = fork();
    if (between == 0) {
        setsid();
        int log = open_log(places);
        pid = fork();
        if (pid == 0)
            become_warmd(places, log);
        ssize_t n = write(ends[1], &pid, sizeof pid);
        _exit(n != sizeof pid);
    }
    close(ends[1]);
    if (between > 0)
        while (waitpid(between, NULL, 0) < 0 && errno == EINTR)
            ;
    if (read(ends[0], &pid, sizeof pid) != sizeof pid)
        pid = -1;
    close(ends[0]);
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

/* ---- starting ---- */

/* Waits until the daemon listens, has ended, or until `end_ms`. */
static enum run_daemon await(const struct run_places *places, int pidfd, uint64_t end_ms)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    for (;;) {
        enum run_daemon answer = run_daemon_look(places);
        if (answer != RUN_DAEMON_NONE)
            return answer;
        if (poll(&ended, 1, LOOK_MS) > 0 || conn_now_ms() > end_ms)
            return run_daemon_look(places);
    }
}

/* Takes the lock for starting a daemon here; waits for it unless a daemon answers meanwhile. -1:
 * none. */
static int lock_start(const struct run_places *places, uint64_t end_ms)
{
    char path[RUN_SOCKET_MAX + 8];
    snprintf(path, sizeof path, "%s.start", places->socket);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        cli_say("cannot make %s: %s", path, strerror(errno));
        return -1;
    }
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (conn_now_ms() > end_ms) {
            cli_say("somebody else is starting a daemon at %s, and does not end", places->socket);
            close(fd);
            return -1;
        }
        poll(NULL, 0, LOOK_MS);
    }
    return fd;
}

/* Says that no daemon came up, with the last line of its log. */
static void say_why_not(const struct run_places *places)
{
    char path[RUN_SOCKET_MAX + 8], tail[LAST_LINE_MAX + 1] = "";
    snprintf(path, sizeof path, "%s.log", places->socket);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n =
        end > 0 ? pread(fd, tail, LAST_LINE_MAX, end > LAST_LINE_MAX ? end - LAST_LINE_MAX : 0) : 0;
    if (fd >= 0)
        close(fd);
    while (n > 0 && tail[n - 1] == '\n')
        tail[--n] = '\0';
    const char *line = strrchr(tail, '\n');
    line = line ? line + 1 : tail;
    if (strncmp(line, "warmd: ", 7) == 0)
        line += 7;
    cli_say("no daemon could be started at %s: %s%ssee %s", places->socket, line, *line ? "; " : "",
            path);
}

enum run_daemon run_daemon_start(const struct run_places *places)
{
    assert(places && places->socket[0]);
    uint64_t end_ms = conn_now_ms() + START_WAIT_MS;
    if (!prepare_folder(places))
        return RUN_DAEMON_NONE;
    int lock = lock_start(places, end_ms);
    if (lock < 0)
        return RUN_DAEMON_NONE;
    enum run_daemon answer = run_daemon_look(places);
    if (answer == RUN_DAEMON_NONE) {
        int pidfd = spawn(places);
        answer = await(places, pidfd, pidfd < 0 ? 0 : end_ms);
        if (pidfd >= 0)
            close(pidfd);
        if (answer == RUN_DAEMON_NONE)
            say_why_not(places);
    }
    close(lock);
    return answer;
}

/* True if this user has a store where a daemon at the default socket would look for it. With $WARM_SOCKET, where
 * $WARM_STORE says. */
static bool has_store(void)
{
    const char *named = getenv("WARM_STORE"), *socket = getenv("WARM_SOCKET");
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char index[PATH_MAX];
    struct stat st;
    int n = -1;
    if (named && *named)
        n = snprintf(index, sizeof index, "%s/index", named);
    else if (socket && *socket)
        return false;
    else if (geteuid() == 0)
        n = snprintf(index, sizeof index, "/var/cache/warm/index");
    else if (cache && *cache == '/')
        n = snprintf(index, sizeof index, "%s/warm/index", cache);
    else if (home)
        n = snprintf(index, sizeof index, "%s/.cache/warm/index", home);
    return n > 0 && (size_t)n < sizeof index && stat(index, &st) == 0 && st.st_uid == geteuid();
}

void run_daemon_wake(const char *socket)
{
    struct run_places places;
    const char *off = getenv("WARM_DISABLE");
    if (!socket && !(off && *off && strcmp(off, "0") != 0) && has_store() &&
        run_places_fill(&places, NULL) && run_daemon_look(&places) == RUN_DAEMON_NONE)
        run_daemon_start(&places);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawner.c - starts, kills and reaps the fork servers in a small process of its own; both ends of its
 * socket are here.
 *
 * The happy path of one fork server:
 *   1. warmd sends RUN with the fork server's end of a socket pair;
 *   2. the spawner forks; the child takes its limits, its scrubbed environment and the socket, and
 *      becomes the fork server;
 *   3. the fork server ends; SIGCHLD arrives through a signalfd; the spawner reaps it and sends EXITED.
 * Failures:
 *   - fork or exec fails: EXITED with status -1 (fork), or exit status 127 (exec);
 *   - the daemon dies: the socket ends, the spawner kills its children and ends; if it is killed itself,
 *     the kernel kills them (PR_SET_PDEATHSIG);
 *   - the spawner dies, and all its children with it: spawner_read says CLOSED; pool.c starts another one.
 *
 * main.c starts it; pool.c and toolchain.c call it.
 *
 * Thread: see spawner.h; the spawner itself has one.
 */
#include "daemon/compiler/spawner.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/worker/message.h"

#define SPAWN_PACKET_MAX 8192u         /* bytes: the arguments of one process */
#define SPAWN_CHILDREN_MAX 1024u       /* processes at once */
#define SPAWN_STACK (1024ul << 20)     /* bytes: 200 000 nested parentheses take 0.6 GB of stack */
#define SPAWN_FILES 32u                /* descriptors of a compile */
#define SPAWN_FILE_SIZE (256ull << 20) /* bytes that a compile may write to one file */
#define SPAWN_NICE 5                   /* compiles give way to the programs of the machine */

enum { SPAWN_RUN = 1, SPAWN_KILL = 2, SPAWN_NETWORK = 3 };

struct spawn_command {
    uint32_t type;
    uint32_t n_args; /* NUL-terminated texts that follow */
    uint64_t id;
};

/* The environment of every fork server; nothing of the daemon's is handed on. NVRTC puts its
 * temporary files into WORKER_TMP, which files.c serves. */
static char *const spawn_environment[] = {"LC_ALL=C", "TZ=:/etc/localtime", "TMPDIR=" WORKER_TMP,
                                          NULL};

#define SPAWN_NETWORK_FILES 512u /* descriptors of warm-tier */
#define SPAWN_VARIABLES_MAX 64u

/* True for a variable that warm-tier needs: the user's folders, credentials, proxies, certificates. */
static bool is_for_network(const char *variable)
{
    static const char *const names[] = {"HOME=",
                                        "AWS_",
                                        "SSL_CERT_",
                                        "http_proxy=",
                                        "https_proxy=",
                                        "HTTPS_PROXY=",
                                        "all_proxy=",
                                        "ALL_PROXY=",
                                        "no_proxy=",
                                        "NO_PROXY=",
                                        "CREDENTIALS_DIRECTORY=",
                                        NULL};
    const char *const *name = names;
    while (*name && strncmp(variable, *name, strlen(*name)) != 0)
        name++;
    return *name != NULL;
}

/* ---- the child, between fork and exec ---- */

static void child_limit(int resource, rlim_t soft)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit))
        return;
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > soft)
        limit.rlim_max = soft;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(resource, &limit);
}

static void child_exec(char **argv, int fd, pid_t spawner, bool has_network)
{
    char *variables[SPAWN_VARIABLES_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != spawner)
        _exit(0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
        _exit(127);
    if (fd == WORKER_FD ? fcntl(fd, F_SETFD, 0) : dup2(fd, WORKER_FD) < 0)
        _exit(127);
    close_range(WORKER_FD + 1, ~0u, 0);
    child_limit(RLIMIT_CORE, 0);
    if (has_network) {
        child_limit(RLIMIT_NOFILE, SPAWN_NETWORK_FILES);
        /* warm-tier needs some of our variables. */
        size_t n = 0;
        variables[n++] = spawn_environment[0];
        for (char **v = environ; *v && n < SPAWN_VARIABLES_MAX - 1; v++)
            if (is_for_network(*v))
                variables[n++] = *v;
        variables[n] = NULL;
    } else {
        child_limit(RLIMIT_STACK, SPAWN_STACK);
        child_limit(RLIMIT_NOFILE, SPAWN_FILES);
        child_limit(RLIMIT_FSIZE, SPAWN_FILE_SIZE);
        /* Compiles give way: long time slices, less of the CPU, the end of the disk's queue. A system that allows none of this
         * runs them as it runs the daemon. */
        struct sched_param none = {0};
        sched_setscheduler(0, SCHED_BATCH, &none);
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + SPAWN_NICE);
        syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
                IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, IOPRIO_NR_LEVELS - 1));
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(argv[0], argv, has_network ? variables : spawn_environment);
    _exit(127);
}

/* ---- the spawner ---- */

struct child {
    uint64_t id;
    pid_t pid;
    bool has_network;
};
struct spawner_state {
    int fd, signals;
    pid_t pid;
    struct child children[SPAWN_CHILDREN_MAX];
    size_t n_children;
};

static void state_report(struct spawner_state *s, const struct child *child, int status, int error)
{
    struct spawner_event event = {
        .id = child->id, .pid = child->pid, .status = status, .error = error};
    while (send(s->fd, &event, sizeof event, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

/* Splits the texts after the command into argv; false if their number is not n_args. */
static bool command_args(char *texts, size_t len, uint32_t n_args, char **argv)
{
    if (n_args == 0 || n_args > SPAWN_ARGS_MAX || len == 0 || texts[len - 1] != '\0')
        return false;
    size_t at = 0;
    for (uint32_t i = 0; i < n_args; i++) {
        if (at >= len)
            return false;
        argv[i] = texts + at;
        at += strlen(texts + at) + 1;
    }
    argv[n_args] = NULL;
    return at == len;
}

static void state_run(struct spawner_state *s, const struct spawn_command *command, char *texts,
                      size_t len, int fd)
{
    char *argv[SPAWN_ARGS_MAX + 1];
    struct child child = {.id = command->id, .has_network = command->type == SPAWN_NETWORK};
    if (fd < 0 || !command_args(texts, len, command->n_args, argv)) {
        state_report(s, &child, -1, EINVAL);
        return;
    }
    if (s->n_children == SPAWN_CHILDREN_MAX) {
        state_report(s, &child, -1, EAGAIN);
        return;
    }
    child.pid = fork();
    if (child.pid == 0)
        child_exec(argv, fd, s->pid, command->type == SPAWN_NETWORK);
    if (child.pid < 0)
        state_report(s, &child, -1, errno);
    else
        s->children[s->n_children++] = child;
}

/* Reaps all children that have ended, and reports each. */
static void state_reap(struct spawner_state *s)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
        for (size_t i = 0; i < s->n_children; i++) {
            if (s->children[i].pid != pid)
                continue;
            if (!WIFSTOPPED(status)) {
                state_report(s, &s->children[i], status, 0);
                s->children[i] = s->children[--s->n_children];
            } else if (!s->children[i].has_network) {
                kill(
                    pid,
                    SIGKILL); /* it would hold all who wait for it; the link ends a warm-tier in time */
            }
            break;
        }
}

/* Takes one command from the daemon; false when there is no daemon any more. */
static bool state_command(struct spawner_state *s)
{
    union {
        struct spawn_command command;
        char bytes[SPAWN_PACKET_MAX];
    } packet;
    int fd;
    ssize_t n = packet_receive(s->fd, &packet, sizeof packet, &fd, 1);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        return false;
    bool starts = packet.command.type == SPAWN_RUN || packet.command.type == SPAWN_NETWORK;
    if (n >= (ssize_t)sizeof packet.command && starts)
        state_run(s, &packet.command, packet.bytes + sizeof packet.command,
                  (size_t)n - sizeof packet.command, fd);
    else if (n >= (ssize_t)sizeof packet.command && packet.command.type == SPAWN_KILL) {
        for (size_t i = 0; i < s->n_children; i++)
            if (s->children[i].id == packet.command.id)
                kill(s->children[i].pid, SIGKILL);
    }
    if (n > 0 && fd >= 0)
        close(fd);
    return true;
}

/* Serves the daemon until it ends. Ctrl-C at a terminal is for the daemon, which drains: so the
 * spawner has a process session of its own, and takes no signal but SIGCHLD. */
static void state_loop(int fd, pid_t daemon)
{
    static struct spawner_state state;
    struct spawner_state *s = &state;
    s->fd = fd;
    s->pid = getpid();
    prctl(PR_SET_NAME, "warmd-spawner");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != daemon)
        _exit(0);
    setsid();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    s->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0)
        _exit(1);
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = s->signals, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        struct signalfd_siginfo info;
        while (read(s->signals, &info, sizeof info) > 0)
            ;
        state_reap(s);
        if (fds[0].revents && !state_command(s))
            break;
    }
    for (size_t i = 0; i < s->n_children; i++)
        kill(s->children[i].pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    _exit(0);
}

/* ---- warmd's end ---- */

struct spawner {
    int fd;
    pid_t pid;
    _Atomic uint64_t last_id;
};

/* Forks a spawner; gives warmd's end of its socket. */
static int fork_spawner(pid_t *out_pid, int *out_fd, struct err *e)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return err_sys(e, WARM_EIO, errno, "cannot make a socket to the spawner");
    pid_t daemon = getpid(), pid = fork();
    if (pid == 0) { /* keeps the socket and the standard streams */
        if (pair[1] > 3)
            close_range(3, (unsigned)pair[1] - 1, 0);
        close_range((unsigned)pair[1] + 1, ~0u, 0);
        state_loop(pair[1], daemon);
    }
    close(pair[1]);
    if (pid < 0) {
        int code = err_sys(e, WARM_EIO, errno, "cannot fork the spawner");
        close(pair[0]);
        return code;
    }
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    *out_pid = pid;
    *out_fd = pair[0];
    return 0;
}

int spawner_start(struct spawner **out, struct err *e)
{
    struct spawner *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, WARM_ENOMEM, "out of memory");
    int code = fork_spawner(&s->pid, &s->fd, e);
    if (code)
        free(s);
    else
        *out = s;
    return code;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int spawner_restart(struct spawner *s, struct err *e)
{
    pid_t pid;
    int fd, code = fork_spawner(&pid, &fd, e);
    if (code)
        return code;
    kill(s->pid, SIGKILL); /* it may live, and have sent what it must not */
    reap(s->pid);
    s->pid = pid;
    dup3(fd, s->fd, O_CLOEXEC); /* at once: other threads may be sending */
    close(fd);
    return 0;
}

void spawner_stop(struct spawner *s)
{
    if (!s)
        return;
    close(s->fd);
    reap(s->pid);
    free(s);
}

uint64_t spawner_next_id(struct spawner *s) { return atomic_fetch_add(&s->last_id, 1) + 1; }

int spawner_run(struct spawner *s, const struct spawn *spawn, struct err *e)
{
    assert(spawn->id && spawn->argv[0]);
    char packet[SPAWN_PACKET_MAX];
    struct spawn_command command = {.type = spawn->has_network ? SPAWN_NETWORK : SPAWN_RUN,
                                    .id = spawn->id};
    size_t len = sizeof command;
    for (; spawn->argv[command.n_args]; command.n_args++) {
        size_t n = strlen(spawn->argv[command.n_args]) + 1;
        if (n > sizeof packet - len || command.n_args == SPAWN_ARGS_MAX)
            return err_set(e, WARM_ETOO_BIG, "too many arguments for a fork server");
        memcpy(packet + len, spawn->argv[command.n_args], n);
        len += n;
    }
    memcpy(packet, &command, sizeof command);
    if (packet_send(s->fd, packet, len, &spawn->fd, 1))
        return err_sys(e, WARM_EIO, errno, "cannot ask the spawner for a fork server");
    return 0;
}

void spawner_kill(struct spawner *s, uint64_t id)
{
    struct spawn_command command = {.type = SPAWN_KILL, .id = id};
    packet_send(s->fd, &command, sizeof command, NULL, 0);
}

int spawner_fd(const struct spawner *s) { return s->fd; }

int spawner_read(struct spawner *s, struct spawner_event *out)
{
    ssize_t n = recv(s->fd, out, sizeof *out, 0);
    if (n == (ssize_t)sizeof *out)
        return 1;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : WARM_ECLOSED;
}

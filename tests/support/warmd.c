/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warmd.c - starts a real warmd on a store and a socket of its own, speaks to it byte by byte, and
 * ends it. Suites call it; every wait has a deadline, and a wait that reaches it fails the test.
 *
 * Thread: the test's own.
 */
#include "tests/support/warmd.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "tests/support/support.h"

uint64_t clock_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int warmd_try_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0, "socket: %s", strerror(errno));
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

int warmd_connect(const struct warmd *k)
{
    int fd = warmd_try_connect(k->socket);
    cr_assert_geq(fd, 0, "nobody listens at %s", k->socket);
    return fd;
}

pid_t warmd_spawn(const struct warmd *k, char *const *options)
{
    char *program = k->program ? strdup(k->program) : bin_path("warmd");
    /* an audit is drawn by lot, and its hit has another outcome: only test_audit.c asks for audits */
    char *argv[40] = {program,    "--config",      "" /* not this machine's */,
                      "--socket", k->socket,       "--store",
                      k->store,   "--verify-hits", "0"};
    size_t n = 9;
    for (size_t i = 0; options && options[i] && n < 39; i++)
        argv[n++] = options[i];
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int log = open(k->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(log, 2);
        execv(program, argv);
        _exit(127);
    }
    free(program);
    return pid;
}

/* True if the daemon, a child of this process, has ended. */
static bool has_ended(const struct warmd *k)
{
    siginfo_t info = {.si_pid = 0};
    return k->pid > 0 && waitid(P_PID, (id_t)k->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == k->pid;
}

void warmd_await(const struct warmd *k)
{
    uint64_t end = clock_now_ms() + WARMD_WAIT_MS;
    for (bool ended = false; !ended && clock_now_ms() < end; usleep(2000)) {
        ended = has_ended(k); /* then there is one more try */
        int fd = warmd_try_connect(k->socket);
        if (fd >= 0) {
            close(fd);
            return;
        }
    }
    size_t len;
    char *log = file_read(k->log, &len);
    cr_assert_fail("the daemon does not answer: %s", log);
}

void warmd_start(struct warmd *k, char *const *options)
{
    k->pid = warmd_spawn(k, options);
    warmd_await(k);
}

struct warmd warmd_new(void)
{
    struct warmd k = {.dir = temp_dir_new()};
    setenv("WARM_TIMEOUT_MS", "30000", 0); /* a busy machine is no hang */
    k.socket = path_join(k.dir, "warmd.sock");
    k.store = path_join(k.dir, "store");
    k.log = path_join(k.dir, "log");
    chmod(k.dir, 0755);
    return k;
}

struct warmd warmd_up(char *const *options)
{
    struct warmd k = warmd_new();
    warmd_start(&k, options);
    return k;
}

int warmd_reap(pid_t pid)
{
    int status;
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(2000))
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    cr_assert_fail("the process does not end");
    return -1;
}

char *warmd_read_terminal(int fd, pid_t pid)
{
    static char out[16384];
    size_t len = 0;
    for (ssize_t n; len + 1 < sizeof out && (n = read(fd, out + len, sizeof out - 1 - len)) > 0;)
        len += (size_t)n;
    out[len] = '\0';
    close(fd);
    warmd_reap(pid);
    return out;
}

void warmd_free(struct warmd *k)
{
    temp_dir_free(k->dir);
    free(k->program);
    free(k->socket);
    free(k->store);
    free(k->log);
}

void warmd_shell(const struct warmd *k, int status, const char *command, const char *text)
{
    char *out, *program = bin_path("warm");
    int got = run_command(&out, "cd %s && export WARM_SOCKET=%s W=%s; exec 2>&1; %s", k->dir,
                          k->socket, program, command);
    cr_assert_eq(got, status, "%s: %d: %s", command, got, out);
    cr_assert_not_null(strstr(out, text), "%s: no `%s` in: %s", command, text, out);
    free(program);
    free(out);
}

void warmd_down(struct warmd *k)
{
    kill(k->pid, SIGTERM);
    int status = warmd_reap(k->pid);
    size_t len;
    char *log = file_read(k->log, &len);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "warmd ended with %x: %s", status,
              log);
    free(log);
    warmd_free(k);
}

bool warmd_log_has(const struct warmd *k, const char *text)
{
    size_t len;
    char *log = file_read(k->log, &len);
    bool has = strstr(log, text) != NULL;
    free(log);
    return has;
}

/* ---- bytes ---- */

void warmd_send(int fd, const void *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);
        cr_assert_gt(n, 0, "send: %s", strerror(errno));
        at += (size_t)n;
    }
}

bool warmd_recv(int fd, void *out, size_t len)
{
    for (size_t at = 0; at < len;) {
        struct pollfd p = {fd, POLLIN, 0};
        cr_assert_eq(poll(&p, 1, WARMD_WAIT_MS), 1, "no answer in time");
        ssize_t n = recv(fd, (char *)out + at, len - at, 0);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

bool warmd_is_closed(int fd)
{
    char bytes[4096];
    struct pollfd p = {fd, POLLIN, 0};
    while (poll(&p, 1, WARMD_WAIT_MS) == 1)
        if (recv(fd, bytes, sizeof bytes, 0) <= 0)
            return true;
    return false;
}

bool warmd_is_silent(int fd, int ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, ms) == 0;
}

void warmd_redis(int fd, const char *command, const char *answer)
{
    char got[512] = "";
    warmd_send(fd, command, strlen(command));
    cr_assert(warmd_recv(fd, got, strlen(answer)), "the connection ended after %s", command);
    cr_assert_str_eq(got, answer, "to %s", command);
}

/* ---- frames ---- */

void warmd_send_fds(int fd, const void *data, size_t len, const int *fds, size_t n_fds)
{
    cr_assert(send_with_fds(fd, data, len, fds, n_fds));
}

bool warmd_frame_try(int fd, struct warmd_frame *out)
{
    char control[CMSG_SPACE(2 * sizeof(int))];
    size_t at = 0, want = WIRE_HEADER;
    out->fd = -1;
    while (at < want) {
        struct iovec iov = {out->bytes + at, want - at};
        struct msghdr m = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        struct pollfd p = {fd, POLLIN, 0};
        cr_assert_eq(poll(&p, 1, WARMD_WAIT_MS), 1, "no frame in time");
        ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        if (n <= 0)
            return false;
        if (m.msg_controllen)
            memcpy(&out->fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof out->fd);
        at += (size_t)n;
        if (at == WIRE_HEADER && want == WIRE_HEADER) {
            uint32_t len;
            memcpy(&len, out->bytes + 4, sizeof len);
            cr_assert_leq(len, sizeof out->bytes - WIRE_HEADER);
            want += len;
        }
    }
    cr_assert_eq(wire_parse(out->bytes, want, &out->frame, NULL), (long)want);
    return true;
}

void warmd_frame(int fd, struct warmd_frame *out, uint8_t type, uint64_t tag)
{
    struct wire_error error;
    cr_assert(warmd_frame_try(fd, out), "the connection ended; expected %s", wire_type_name(type));
    if (out->frame.type == WIRE_ERROR && type != WIRE_ERROR &&
        wire_get_error(&out->frame, &error, NULL) == 0)
        cr_assert_fail("expected %s, got ERROR: %.*s", wire_type_name(type), (int)error.text.len,
                       (const char *)error.text.data);
    cr_assert_eq(out->frame.type, type, "expected %s, got %s", wire_type_name(type),
                 wire_type_name(out->frame.type));
    cr_assert_eq(out->frame.tag, tag);
}

void warmd_flush(int fd, struct writer *w)
{
    cr_assert(!w->failed);
    warmd_send(fd, w->data, w->len);
    writer_close(w);
    writer_init(w, 0);
}

void warmd_hello(int fd)
{
    static struct warmd_frame f;
    struct writer w;
    writer_init(&w, 0);
    wire_put_hello(&w, 1,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = {"test", 4}});
    warmd_flush(fd, &w);
    writer_close(&w);
    warmd_frame(fd, &f, WIRE_WELCOME, 1);
}

int warmd_native(const struct warmd *k)
{
    int fd = warmd_connect(k);
    warmd_hello(fd);
    return fd;
}

int warmd_native_as(const struct warmd *k, uid_t uid)
{
    cr_assert_eq(seteuid(uid), 0);
    int fd = warmd_try_connect(k->socket);
    cr_assert_eq(seteuid(0), 0);
    cr_assert_geq(fd, 0, "uid %u cannot connect to %s", (unsigned)uid, k->socket);
    warmd_hello(fd);
    return fd;
}

int warmd_admin(const struct warmd *k)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    cr_assert(conn_admin_path(k->socket, path, sizeof path));
    int fd =
        -1; /* the daemon listens at its socket first: this one may be there without a listener */
    for (uint64_t end = clock_now_ms() + 5000; fd < 0 && clock_now_ms() < end; usleep(2000))
        fd = warmd_try_connect(access(path, F_OK) == 0 ? path : k->socket);
    cr_assert_geq(fd, 0, "nobody listens at %s", path);
    warmd_hello(fd);
    return fd;
}

struct warm *warmd_libwarm(const struct warmd *k)
{
    struct warm_options options = {.socket = k->socket,
                                   .connect_timeout_ms = WARMD_WAIT_MS,
                                   .request_timeout_ms = WARMD_WAIT_MS};
    struct warm *w;
    cr_assert_eq(warm_open(&w, &options), 0);
    return w;
}

char *warmd_stats(const struct warmd *k)
{
    static struct warmd_frame f;
    struct wire_text m;
    struct writer w;
    int fd = warmd_native(k);
    writer_init(&w, 0);
    wire_put_empty(&w, WIRE_STATS, 1);
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_TEXT, 1);
    cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
    writer_close(&w);
    close(fd);
    return strndup(m.text.data, m.text.len);
}

bool warmd_stats_have(const struct warmd *k, const char *text)
{
    char *json = warmd_stats(k);
    bool has = strstr(json, text) != NULL;
    if (!has)
        fprintf(stderr, "%s not in %s\n", text, json);
    free(json);
    return has;
}

void warmd_get(int fd, uint64_t tag, const char *name, bool lease, uint32_t wait_ms)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_get(&w, tag,
                 &(struct wire_get){.space = WIRE_SPACE_NAME,
                                    .want_lease = lease,
                                    .deadline_ms = wait_ms,
                                    .key = {name, strlen(name)}});
    warmd_flush(fd, &w);
    writer_close(&w);
}

void warmd_put(int fd, uint64_t tag, const char *name, const char *value, uint64_t token)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_put(&w, tag,
                 &(struct wire_put){.space = WIRE_SPACE_NAME,
                                    .token = token,
                                    .len = strlen(value),
                                    .check = key_of_bytes(value, strlen(value)),
                                    .key = {name, strlen(name)},
                                    .value = {value, strlen(value)}});
    warmd_flush(fd, &w);
    writer_close(&w);
}

void warmd_expect_hit(int fd, uint64_t tag, const char *value)
{
    static struct warmd_frame f;
    struct wire_hit hit;
    warmd_frame(fd, &f, WIRE_HIT, tag);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(hit.len, strlen(value));
    cr_assert_eq(memcmp(hit.value.data, value, strlen(value)), 0);
}

uint64_t warmd_expect_lease(int fd, uint64_t tag)
{
    static struct warmd_frame f;
    struct wire_lease lease;
    warmd_frame(fd, &f, WIRE_LEASE, tag);
    cr_assert_eq(wire_get_lease(&f.frame, &lease, NULL), 0);
    return lease.token;
}

void warmd_expect(int fd, uint64_t tag, uint8_t type)
{
    static struct warmd_frame f;
    warmd_frame(fd, &f, type, tag);
    if (f.fd >= 0)
        close(f.fd);
}

bool warmd_may_verify(int fd)
{
    static struct warmd_frame f;
    struct writer w;
    writer_init(&w, 0);
    wire_put_verify(&w, 1, &(struct wire_verify){0});
    warmd_flush(fd, &w);
    writer_close(&w);
    do
        cr_assert(warmd_frame_try(fd, &f), "the connection ended");
    while (f.frame.type == WIRE_PROGRESS);
    close(fd);
    return f.frame.type == WIRE_REPORT;
}

void warmd_expect_alive(const struct warmd *k)
{
    int native = warmd_native(k), redis = warmd_connect(k);
    warmd_get(native, 9, "no such name", false, 0);
    warmd_expect(native, 9, WIRE_MISS);
    warmd_redis(redis, "PING\r\n", "+PONG\r\n");
    close(native);
    close(redis);
}

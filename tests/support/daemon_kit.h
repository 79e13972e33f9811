/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_kit.h - for suites that talk to a real warmd: it is started on a store and a socket of its
 * own, spoken to byte by byte, and ended; every wait has a deadline.
 */
#ifndef WARM_TESTS_SUPPORT_DAEMON_KIT_H
#define WARM_TESTS_SUPPORT_DAEMON_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
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
#include "client/wire/wire.h"
#include "tests/support/support.h"

#define KIT_WAIT_MS 60000 /* for anything that should come; sanitizers are slow */

struct kit {
    char *dir, *socket, *store, *log;
    pid_t pid;
};

static inline uint64_t kit_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* -1 if nobody listens there. */
static inline int kit_try_connect(const char *path)
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

static inline int kit_connect(const struct kit *k)
{
    int fd = kit_try_connect(k->socket);
    cr_assert_geq(fd, 0, "nobody listens at %s", k->socket);
    return fd;
}

/* Starts warmd with further options (ends with NULL); its stderr goes to k->log. */
static inline pid_t kit_spawn(const struct kit *k, char *const *options)
{
    char *program = bin_path("warmd");
    char *argv[40] = {program, "--socket", k->socket, "--store", k->store};
    size_t n = 5;
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

static inline void kit_await(const struct kit *k)
{
    for (uint64_t end = kit_now_ms() + KIT_WAIT_MS; kit_now_ms() < end; usleep(2000)) {
        int fd = kit_try_connect(k->socket);
        if (fd >= 0) {
            close(fd);
            return;
        }
    }
    size_t len;
    char *log = file_read(k->log, &len);
    cr_assert_fail("the daemon does not answer: %s", log);
}

static inline void kit_start(struct kit *k, char *const *options)
{
    k->pid = kit_spawn(k, options);
    kit_await(k);
}

static inline struct kit kit_new(void)
{
    struct kit k = {.dir = temp_dir_new()};
    k.socket = path_join(k.dir, "warmd.sock");
    k.store = path_join(k.dir, "store");
    k.log = path_join(k.dir, "log");
    chmod(k.dir, 0755);
    return k;
}

static inline struct kit kit_up(char *const *options)
{
    struct kit k = kit_new();
    kit_start(&k, options);
    return k;
}

/* The exit status of a process that is to end by itself. */
static inline int kit_reap(pid_t pid)
{
    int status;
    for (uint64_t end = kit_now_ms() + KIT_WAIT_MS; kit_now_ms() < end; usleep(2000))
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    cr_assert_fail("the process does not end");
    return -1;
}

static inline void kit_free(struct kit *k)
{
    temp_dir_free(k->dir);
    free(k->socket);
    free(k->store);
    free(k->log);
}

/* SIGTERM: drains, exits 0. */
static inline void kit_down(struct kit *k)
{
    kill(k->pid, SIGTERM);
    int status = kit_reap(k->pid);
    size_t len;
    char *log = file_read(k->log, &len);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "warmd ended with %x: %s", status,
              log);
    free(log);
    kit_free(k);
}

static inline bool kit_log_has(const struct kit *k, const char *text)
{
    size_t len;
    char *log = file_read(k->log, &len);
    bool has = strstr(log, text) != NULL;
    free(log);
    return has;
}

/* ---- bytes ---- */

static inline void kit_send(int fd, const void *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);
        cr_assert_gt(n, 0, "send: %s", strerror(errno));
        at += (size_t)n;
    }
}

/* Reads exactly `len` bytes. False at the end of the connection. */
static inline bool kit_recv(int fd, void *out, size_t len)
{
    for (size_t at = 0; at < len;) {
        struct pollfd p = {fd, POLLIN, 0};
        cr_assert_eq(poll(&p, 1, KIT_WAIT_MS), 1, "no answer in time");
        ssize_t n = recv(fd, (char *)out + at, len - at, 0);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* True if the daemon ends the connection; what it still sends is read over. */
static inline bool kit_is_closed(int fd)
{
    char bytes[4096];
    struct pollfd p = {fd, POLLIN, 0};
    while (poll(&p, 1, KIT_WAIT_MS) == 1)
        if (recv(fd, bytes, sizeof bytes, 0) <= 0)
            return true;
    return false;
}

/* True if nothing comes within `ms`. */
static inline bool kit_is_silent(int fd, int ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, ms) == 0;
}

/* Sends a command by hand and compares the answer. */
static inline void kit_redis(int fd, const char *command, const char *answer)
{
    char got[512] = "";
    kit_send(fd, command, strlen(command));
    cr_assert(kit_recv(fd, got, strlen(answer)), "the connection ended after %s", command);
    cr_assert_str_eq(got, answer, "to %s", command);
}

/* ---- frames ---- */

struct kit_frame {
    struct wire_frame frame;
    uint8_t bytes[WIRE_HEADER + (128u << 10)];
    int fd; /* that came along; -1 */
};

static inline void kit_send_fds(int fd, const void *data, size_t len, const int *fds, size_t n_fds)
{
    cr_assert(send_with_fds(fd, data, len, fds, n_fds));
}

/* The next frame; false at the end of the connection. */
static inline bool kit_frame_try(int fd, struct kit_frame *out)
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
        cr_assert_eq(poll(&p, 1, KIT_WAIT_MS), 1, "no frame in time");
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

static inline void kit_frame(int fd, struct kit_frame *out, uint8_t type, uint64_t tag)
{
    struct wire_error error;
    cr_assert(kit_frame_try(fd, out), "the connection ended; expected %s", wire_type_name(type));
    if (out->frame.type == WIRE_ERROR && type != WIRE_ERROR &&
        wire_get_error(&out->frame, &error, NULL) == 0)
        cr_assert_fail("expected %s, got ERROR: %.*s", wire_type_name(type), (int)error.text.len,
                       (const char *)error.text.data);
    cr_assert_eq(out->frame.type, type, "expected %s, got %s", wire_type_name(type),
                 wire_type_name(out->frame.type));
    cr_assert_eq(out->frame.tag, tag);
}

/* Sends what the writer holds, and empties it. */
static inline void kit_flush(int fd, struct writer *w)
{
    cr_assert(!w->failed);
    kit_send(fd, w->data, w->len);
    writer_close(w);
    writer_init(w, 0);
}

static inline void kit_hello(int fd)
{
    static struct kit_frame f;
    struct writer w;
    writer_init(&w, 0);
    wire_put_hello(&w, 1,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = {"test", 4}});
    kit_flush(fd, &w);
    writer_close(&w);
    kit_frame(fd, &f, WIRE_WELCOME, 1);
}

static inline int kit_native(const struct kit *k)
{
    int fd = kit_connect(k);
    kit_hello(fd);
    return fd;
}

/* A connection of another user, of a test that is root: the kernel notes who connects. */
static inline int kit_native_as(const struct kit *k, uid_t uid)
{
    cr_assert_eq(seteuid(uid), 0);
    int fd = kit_try_connect(k->socket);
    cr_assert_eq(seteuid(0), 0);
    cr_assert_geq(fd, 0, "uid %u cannot connect to %s", (unsigned)uid, k->socket);
    kit_hello(fd);
    return fd;
}

/* As an administrator: root's daemon, which others may use, has a socket of its own for that. */
static inline int kit_admin(const struct kit *k)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    cr_assert(conn_admin_path(k->socket, path, sizeof path));
    int fd = kit_try_connect(access(path, F_OK) == 0 ? path : k->socket);
    cr_assert_geq(fd, 0, "nobody listens at %s", path);
    kit_hello(fd);
    return fd;
}

/* The JSON of STATS. free() it. */
static inline char *kit_stats(const struct kit *k)
{
    static struct kit_frame f;
    struct wire_text m;
    struct writer w;
    int fd = kit_native(k);
    writer_init(&w, 0);
    wire_put_empty(&w, WIRE_STATS, 1);
    kit_flush(fd, &w);
    kit_frame(fd, &f, WIRE_TEXT, 1);
    cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
    writer_close(&w);
    close(fd);
    return strndup(m.text.data, m.text.len);
}

static inline void kit_get(int fd, uint64_t tag, const char *name, bool lease, uint32_t wait_ms)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_get(&w, tag,
                 &(struct wire_get){.space = WIRE_SPACE_NAME,
                                    .want_lease = lease,
                                    .deadline_ms = wait_ms,
                                    .key = {name, strlen(name)}});
    kit_flush(fd, &w);
    writer_close(&w);
}

static inline void kit_put(int fd, uint64_t tag, const char *name, const char *value,
                           uint64_t token)
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
    kit_flush(fd, &w);
    writer_close(&w);
}

/* The next frame is a HIT with this inline value. */
static inline void kit_expect_hit(int fd, uint64_t tag, const char *value)
{
    static struct kit_frame f;
    struct wire_hit hit;
    kit_frame(fd, &f, WIRE_HIT, tag);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(hit.len, strlen(value));
    cr_assert_eq(memcmp(hit.value.data, value, strlen(value)), 0);
}

static inline uint64_t kit_expect_lease(int fd, uint64_t tag)
{
    static struct kit_frame f;
    struct wire_lease lease;
    kit_frame(fd, &f, WIRE_LEASE, tag);
    cr_assert_eq(wire_get_lease(&f.frame, &lease, NULL), 0);
    return lease.token;
}

static inline void kit_expect(int fd, uint64_t tag, uint8_t type)
{
    static struct kit_frame f;
    kit_frame(fd, &f, type, tag);
    if (f.fd >= 0)
        close(f.fd);
}

/* Whether VERIFY, which is for administrators, is answered. Closes the connection. */
static inline bool kit_may_verify(int fd)
{
    static struct kit_frame f;
    struct writer w;
    writer_init(&w, 0);
    wire_put_verify(&w, 1, &(struct wire_verify){0});
    kit_flush(fd, &w);
    writer_close(&w);
    do
        cr_assert(kit_frame_try(fd, &f), "the connection ended");
    while (f.frame.type == WIRE_PROGRESS);
    close(fd);
    return f.frame.type == WIRE_REPORT;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - sends and receives frames on one connection, and ends every wait by its deadline.
 * request.c calls it for libwarm.
 *
 * A hit is two system calls, send and recvmsg, each with a look at the descriptor (conn.h). A recvmsg
 * waits for CONN_SLICE_MS at most, a limit that the socket keeps; poll waits for the rest of a deadline.
 *
 * Descriptors arrive with the first byte of their frame, and the kernel ends a read at such a
 * boundary. So they queue up in the order of the frames that announce them.
 *
 * Invariants of the input buffer:
 *   (1) in_start <= in_end <= in_cap; the bytes from in_start to in_end are not parsed yet;
 *   (2) n_fds <= CONN_FDS_WAITING.
 *
 * Thread: one at a time.
 */
#include "client/lib/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/wire/version.h"
#include "keygen/expect.h"

/* Room for an inline value and its frame, so that most connections never grow the buffer. */
#define IN_START_BYTES (WIRE_INLINE_MAX + 1024u)
/* The first frame begins here, so that the value of a HIT is aligned. */
#define IN_BEGIN (16u - WIRE_HIT_VALUE_AT % 16)
/* Longer waits look at the deadline, and at the descriptor, this often. */
#define CONN_SLICE_MS 250u

uint64_t conn_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t); /* a hit asks for it three times */
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- the descriptor ---- */

/* False if the program has closed our descriptor, or uses its number for something else. */
static bool is_ours(const struct conn *c)
{
    struct stat st;
    return c->fd >= 0 && fstat(c->fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == c->fd_dev &&
           st.st_ino == c->fd_ino;
}

static int not_ours(struct err *e)
{
    return err_set(e, WARM_ECLOSED, "the program closed the connection's descriptor");
}

/* ---- connecting ---- */

static int limit_wait(int fd, int option, uint64_t ms)
{
    struct timeval t = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    return setsockopt(fd, SOL_SOCKET, option, &t, sizeof t);
}

/* Connects; waits for a place in the daemon's queue. 0 or an errno. */
static int connect_until(int fd, const struct sockaddr_un *address, uint64_t deadline_ms)
{
    for (;;) {
        uint64_t now = conn_now_ms();
        if (now >= deadline_ms)
            return ETIMEDOUT;
        if (limit_wait(fd, SO_SNDTIMEO, deadline_ms - now) < 0)
            return errno;
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return limit_wait(fd, SO_RCVTIMEO, CONN_SLICE_MS) < 0 ? errno : 0;
        if (errno != EINTR && errno != EAGAIN)
            return errno;
    }
}

static int connect_error(int error, const char *path, struct err *e)
{
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR: return err_sys(e, WARM_ENO_DAEMON, error, "no daemon answers at %s", path);
    case EACCES:
    case EPERM: return err_sys(e, WARM_EDENIED, error, "cannot connect to %s", path);
    case ETIMEDOUT:
        return err_set(e, WARM_ETIMEOUT, "the daemon at %s does not accept connections", path);
    default: return err_sys(e, WARM_EIO, error, "cannot connect to %s", path);
    }
}

bool conn_admin_path(const char *path, char *out, size_t cap)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int n = strcmp(name, "warmd.sock") == 0
                ? snprintf(out, cap, "%.*sadmin.sock", (int)(name - path), path)
                : snprintf(out, cap, "%s.admin", path);
    return n > 0 && (size_t)n < cap;
}

/* Checks that we may trust the daemon, because programs run the artifacts that it sends. Under
 * /run/warm/ only root can have put the socket, so the daemon may be any user. Elsewhere it must be
 * root or our own user. */
static int check_owner(int fd, const char *path, struct err *e)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return err_sys(e, WARM_EIO, errno, "cannot tell which user's daemon this is");
    if (peer.uid == 0 || peer.uid == geteuid() || strncmp(path, "/run/warm/", 10) == 0)
        return 0;
    return err_set(e, WARM_EDENIED,
                   "the daemon at %s runs as uid %u, which is neither you nor root: not used", path,
                   (unsigned)peer.uid);
}

static bool administers;

void conn_administer(void) { administers = true; }

/* Makes a socket, never with the number of standard input, output or error: if a program has
 * closed these, its output would go to the daemon. Returns -1 with errno. */
static int make_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return higher;
}

int conn_open(struct conn *c, const char *path, uint64_t deadline_ms, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    *c = (struct conn){.fd = -1};
    if (!WARM_EXPECT(path))
        return err_set(e, WARM_EINVALID, "no path of a socket");
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof address.sun_path)
        return err_set(e, WARM_EINVALID, "a socket's path has 1 to %zu bytes, not %zu",
                       sizeof address.sun_path - 1, len);
    memcpy(address.sun_path, path, len + 1);
    int fd = make_socket();
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "cannot make a socket");
    int error = connect_until(fd, &address, deadline_ms);
    int code = error ? connect_error(error, path, e) : check_owner(fd, path, e);
    if (!code && fstat(fd, &st) < 0)
        code = err_sys(e, WARM_EIO, errno, "cannot look at a socket");
    if (code) {
        close(fd);
        return code;
    }
    c->fd = fd;
    c->fd_dev = st.st_dev;
    c->fd_ino = st.st_ino;
    /* HELLO has our name, and the `warm run` that this process belongs to. */
    char name[sizeof "libwarm " WARM_VERSION " administers session= project=" + WIRE_SESSION_MAX +
              WIRE_PROJECT_MAX] = "libwarm " WARM_VERSION;
    const char *session = getenv("WARM_SESSION"), *project = getenv("WARM_PROJECT");
    if (administers)
        strcat(name, " administers");
    if (session && wire_session_ok(session, strlen(session)))
        strcat(strcat(name, " session="), session);
    if (project && strlen(project) <= WIRE_PROJECT_MAX && wire_session_ok(project, strlen(project)))
        strcat(strcat(name, " project="), project);
    struct wire_hello hello = {
        .version_min = WIRE_VERSION, .version_max = WIRE_VERSION, .client = {name, strlen(name)}};
    wire_put_hello(&c->out, 0, &hello);
    if (c->out.failed) {
        conn_close(c);
        return err_set(e, WARM_ENOMEM, "no memory for a connection");
    }
    return 0;
}

void conn_close(struct conn *c)
{
    for (size_t i = 0; i < c->n_fds; i++)
        close(c->fds[i]);
    if (is_ours(c))
        close(c->fd);
    free(c->in);
    writer_close(&c->out);
    *c = (struct conn){.fd = -1};
}

/* ---- waiting ---- */

/* Waits for `events` on the socket: 0. CONN_OTHER if other_fd (-1: none) can be read first. */
static int wait_for(struct conn *c, short events, int other_fd, uint64_t deadline_ms, struct err *e)
{
    for (;;) {
        uint64_t now = conn_now_ms(), left = deadline_ms > now ? deadline_ms - now : 0;
        struct pollfd fds[2] = {{.fd = c->fd, .events = events},
                                {.fd = other_fd, .events = POLLIN}};
        int n = poll(fds, other_fd < 0 ? 1 : 2, left > INT32_MAX ? INT32_MAX : (int)left);
        if (n > 0)
            return fds[0].revents ? 0 : CONN_OTHER;
        if (n < 0 && errno != EINTR)
            return err_sys(e, WARM_EIO, errno, "cannot wait for the daemon");
        if (n == 0 && left == 0)
            return err_set(e, WARM_ETIMEOUT, "the daemon did not answer in time");
    }
}

/* ---- sending ---- */

/* Control data of one frame's descriptors. */
union fds_message {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
};

static void attach_fds(struct msghdr *m, union fds_message *control, const int *fds, size_t n_fds)
{
    memset(control, 0, sizeof *control);
    m->msg_control = control->bytes;
    m->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(m);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
    memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
}

/* Sends all of `data`, the descriptors with its first byte. */
static int send_all(struct conn *c, const uint8_t *data, size_t len, const int *fds, size_t n_fds,
                    uint64_t deadline_ms, struct err *e)
{
    union fds_message control;
    while (len) {
        if (!is_ours(c))
            return not_ours(e);
        struct iovec part = {(void *)(uintptr_t)data, len};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
        if (n_fds)
            attach_fds(&m, &control, fds, n_fds);
        ssize_t n = n_fds ? sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
            n_fds = 0;
        } else if (errno == EAGAIN) {
            int code = wait_for(c, POLLOUT, -1, deadline_ms, e);
            if (code)
                return code;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return err_set(e, WARM_ECLOSED, "the daemon closed the connection");
        } else if (errno != EINTR) {
            return err_sys(e, WARM_EIO, errno, "cannot send to the daemon");
        }
    }
    return 0;
}

int conn_send(struct conn *c, size_t frame_at, const int *fds, size_t n_fds, uint64_t deadline_ms,
              struct err *e)
{
    if (!WARM_EXPECT(frame_at <= c->out.len && n_fds <= WIRE_FDS_MAX))
        return err_set(e, WARM_EINVALID, "a request with %zu descriptors", n_fds);
    if (c->out.failed)
        return err_set(e, WARM_ENOMEM, "no memory for a request");
    int code = 0;
    if (n_fds && frame_at)
        code = send_all(c, c->out.data, frame_at, NULL, 0, deadline_ms, e);
    size_t from = n_fds ? frame_at : 0;
    if (!code)
        code = send_all(c, c->out.data + from, c->out.len - from, fds, n_fds, deadline_ms, e);
    c->out.len = 0;
    return code;
}

/* ---- receiving ---- */

void conn_fds_close(int fds[WIRE_FDS_MAX])
{
    for (size_t i = 0; i < WIRE_FDS_MAX; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Queues the descriptors of a read. False if there are more than frames can have announced. */
static bool keep_fds(struct conn *c, struct msghdr *m)
{
    bool fits = !(m->msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
            if (c->n_fds < CONN_FDS_WAITING) {
                c->fds[c->n_fds++] = fd;
            } else {
                close(fd);
                fits = false;
            }
        }
    }
    return fits;
}

/* Buffers that came back with values. The allocator would return such memory to the kernel, and ask
 * for it again, each time. */
static _Atomic(void *) spare_buffers[2];

void conn_buffer_free(void *buffer)
{
    for (size_t i = 0; i < sizeof spare_buffers / sizeof *spare_buffers; i++) {
        void *none = NULL;
        if (atomic_compare_exchange_strong(&spare_buffers[i], &none, buffer))
            return;
    }
    free(buffer);
}

void *conn_give_buffer(struct conn *c)
{
    if (c->in_start != c->in_end || c->in_cap != IN_START_BYTES)
        return NULL;
    void *buffer = c->in;
    c->in = NULL;
    c->in_cap = c->in_start = c->in_end = 0;
    return buffer;
}

/* Makes room for at least one more byte, at last for the largest frame. */
static int make_room(struct conn *c, struct err *e)
{
    if (!WARM_EXPECT(c->in_start <= c->in_end && c->in_end <= c->in_cap)) /* (1) */
        return err_set(e, WARM_EINVALID, "a damaged buffer");
    if (!c->in) {
        void *buffer = NULL;
        for (size_t i = 0; !buffer && i < sizeof spare_buffers / sizeof *spare_buffers; i++)
            buffer = atomic_exchange(&spare_buffers[i], NULL);
        c->in = buffer ? buffer : malloc(IN_START_BYTES);
        c->in_cap = c->in ? IN_START_BYTES : 0;
        if (!c->in)
            return err_set(e, WARM_ENOMEM, "no memory for an answer");
    }
    if (c->in_start == c->in_end)
        c->in_start = c->in_end = IN_BEGIN;
    if (c->in_end < c->in_cap)
        return 0;
    if (c->in_start <= IN_BEGIN) {
        size_t cap = IN_BEGIN + WIRE_HEADER + WIRE_PAYLOAD_MAX;
        uint8_t *in = realloc(c->in, cap);
        if (!in)
            return err_set(e, WARM_ENOMEM, "no memory for an answer");
        c->in = in;
        c->in_cap = cap;
        return 0;
    }
    memmove(c->in + IN_BEGIN, c->in + c->in_start, c->in_end - c->in_start);
    c->in_end -= c->in_start - IN_BEGIN;
    c->in_start = IN_BEGIN;
    return 0;
}

/* Reads once, and waits for CONN_SLICE_MS at most if `waits`. 0: bytes came; EAGAIN: not yet; or an error
 * code. */
static int read_some(struct conn *c, bool waits, struct err *e)
{
    if (!is_ours(c))
        return not_ours(e);

    union fds_message control;
    struct iovec part = {c->in + c->in_end, c->in_cap - c->in_end};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | (waits ? 0 : MSG_DONTWAIT));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return EAGAIN;
    if (n < 0 && errno != ECONNRESET)
        return err_sys(e, WARM_EIO, errno, "cannot read from the daemon");
    if (n <= 0)
        return err_set(e, WARM_ECLOSED, "the daemon closed the connection");
    c->in_end += (size_t)n;
    if (!keep_fds(c, &m))
        return err_set(e, WARM_EMALFORMED, "the daemon sent more descriptors than it may");
    return 0;
}

/* Reads until bytes came: 0. CONN_OTHER if other_fd can be read first. */
static int fill(struct conn *c, int other_fd, uint64_t deadline_ms, struct err *e)
{
    int code = make_room(c, e);
    if (code)
        return code;
    do {
        bool waits = other_fd < 0 && deadline_ms >= conn_now_ms() + CONN_SLICE_MS;
        code = waits ? 0 : wait_for(c, POLLIN, other_fd, deadline_ms, e);
        if (!code)
            code = read_some(c, waits, e);
    } while (code == EAGAIN);
    return code;
}

/* Moves the descriptors of `frame` from the queue to out_fds. */
static int claim_fds(struct conn *c, const struct wire_frame *frame, int out_fds[WIRE_FDS_MAX],
                     struct err *e)
{
    if (!WARM_EXPECT(c->n_fds <= CONN_FDS_WAITING && frame->n_fds <= WIRE_FDS_MAX)) /* (2) */
        return err_set(e, WARM_EINVALID, "a damaged queue of descriptors");
    if (frame->n_fds > c->n_fds)
        return err_set(e, WARM_EMALFORMED, "%s announces %u descriptors, %zu came",
                       wire_type_name(frame->type), frame->n_fds, c->n_fds);
    for (size_t i = 0; i < WIRE_FDS_MAX; i++)
        out_fds[i] = i < frame->n_fds ? c->fds[i] : -1;
    c->n_fds -= frame->n_fds;
    memmove(c->fds, c->fds + frame->n_fds, c->n_fds * sizeof *c->fds);
    return 0;
}

int conn_error(const struct wire_frame *frame, struct err *e)
{
    struct wire_error error;
    int code = wire_get_error(frame, &error, e);
    if (code)
        return code;
    code = error.code && error.code < 256 ? -(int)error.code : WARM_EIO;
    return err_set(e, code, "%.*s", (int)error.text.len, (const char *)error.text.data);
}

/* Checks the first frame: it must be WELCOME, or an ERROR with the reason of a refusal. */
static int take_welcome(struct conn *c, const struct wire_frame *frame, struct err *e)
{
    struct wire_welcome welcome;
    if (frame->type == WIRE_ERROR)
        return conn_error(frame, e);
    if (frame->type != WIRE_WELCOME)
        return err_set(e, WARM_EMALFORMED, "the daemon begins with %s, not with WELCOME",
                       wire_type_name(frame->type));
    int code = wire_get_welcome(frame, &welcome, e);
    if (code)
        return code;
    if (welcome.version != WIRE_VERSION)
        return err_set(e, WARM_EVERSION, "the daemon speaks version %u, this program version %u",
                       welcome.version, WIRE_VERSION);
    size_t len = welcome.daemon.len < sizeof c->daemon ? welcome.daemon.len : sizeof c->daemon - 1;
    memcpy(c->daemon, welcome.daemon.data, len);
    c->daemon[len] = '\0';
    c->daemon_uid = welcome.daemon_uid;
    c->welcomed = true;
    return 0;
}

/* Parses a whole frame of the buffer: 1 and *out, 0 if there is none yet, or an error code. */
static int parse_one(struct conn *c, struct wire_frame *out, struct err *e)
{
    long n = wire_parse(c->in + c->in_start, c->in_end - c->in_start, out, e);
    if (n <= 0)
        return (int)n;
    c->in_start += (size_t)n;
    return 1;
}

int conn_recv(struct conn *c, int other_fd, struct wire_frame *out, int out_fds[WIRE_FDS_MAX],
              uint64_t deadline_ms, struct err *e)
{
    for (size_t i = 0; i < WIRE_FDS_MAX; i++)
        out_fds[i] = -1;
    for (;;) {
        int code = parse_one(c, out, e);
        if (code < 0)
            return code;
        if (code == 1 && c->welcomed)
            return claim_fds(c, out, out_fds, e);
        code = code == 1 ? take_welcome(c, out, e) : fill(c, other_fd, deadline_ms, e);
        if (code)
            return code;
    }
}

int conn_shake_hands(struct conn *c, uint64_t deadline_ms, struct err *e)
{
    struct wire_frame frame;
    int code = c->out.len ? conn_send(c, 0, NULL, 0, deadline_ms, e) : 0;
    while (!code && !c->welcomed) {
        int n = parse_one(c, &frame, e);
        if (n < 0)
            return n;
        code = n == 1 ? take_welcome(c, &frame, e) : fill(c, -1, deadline_ms, e);
    }
    return code;
}

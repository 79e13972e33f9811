/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile.c - ways to harm others that a daemon may once have allowed. Each is called again and again, in
 * a process of its own and as a user of its own; whatever the daemon answers, it goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/wire/wire.h"
#include "keygen/cuda/job.h"
#include "tests/siege/siege.h"
#include "tests/support/support.h"

#define PATIENCE_MS 3000 /* for an answer */

/* ---- frames ---- */

static int dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%.107s", shared->socket);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    usleep(20000);
    return -1;
}

/* Sends what the writer holds, and empties it. */
static bool flush(int fd, struct writer *w, const int *fds, size_t n_fds)
{
    bool sent = !w->failed && send_with_fds(fd, w->data, w->len, fds, n_fds);
    writer_close(w);
    writer_init(w, 0);
    return sent;
}

struct answer {
    uint8_t bytes[WIRE_HEADER + WIRE_PAYLOAD_MAX];
    struct wire_frame frame;
    int fd; /* that came along; -1 */
};
static struct answer answer;

/* The next frame; false at the end, or if none comes. */
static bool hear(int fd)
{
    size_t at = 0, want = WIRE_HEADER;
    if (answer.fd > 0)
        close(answer.fd);
    answer.fd = -1;
    while (at < want) {
        char control[CMSG_SPACE(2 * sizeof(int))];
        struct iovec part = {answer.bytes + at, want - at};
        struct msghdr m = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        if (n <= 0)
            return false;
        if (m.msg_controllen)
            memcpy(&answer.fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof answer.fd);
        at += (size_t)n;
        if (at >= WIRE_HEADER && want == WIRE_HEADER) {
            uint32_t len;
            memcpy(&len, answer.bytes + 4, sizeof len);
            if (len > WIRE_PAYLOAD_MAX)
                return false;
            want += len;
        }
    }
    return wire_parse(answer.bytes, want, &answer.frame, NULL) == (long)want;
}

static int greet(const char *client)
{
    struct writer w;
    int fd = dial();
    if (fd < 0)
        return -1;
    writer_init(&w, 0);
    wire_put_hello(&w, 0,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = {client, strlen(client)}});
    if (flush(fd, &w, NULL, 0) && hear(fd) && answer.frame.type == WIRE_WELCOME)
        return fd;
    close(fd);
    return -1;
}

static int memfd_of(size_t len, bool filled)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char block[4096];
    memset(block, 'x', sizeof block);
    for (size_t at = 0; filled && at < len; at += sizeof block)
        if (pwrite(fd, block, len - at < sizeof block ? len - at : sizeof block, (off_t)at) < 0)
            break;
    if (!filled && ftruncate(fd, (off_t)len) != 0)
        return fd;
    return fd;
}

static bool put(int fd, const char *name, size_t len, bool filled, uint32_t cost_ms)
{
    struct writer w;
    int value = memfd_of(len, filled);
    writer_init(&w, 0);
    wire_put_put(&w, 1,
                 &(struct wire_put){.cost_ms = cost_ms, .len = len, .key = {name, strlen(name)}});
    bool done = flush(fd, &w, &value, 1) && hear(fd);
    close(value);
    return done;
}

/* ---- values ---- */

/* Up to 4 GiB of nothing, to be hashed and copied. */
static void sparse_values(uint64_t *state)
{
    int fd = greet("sparse");
    char name[32];
    snprintf(name, sizeof name, "sparse %u", (unsigned)random_next(state) % 4);
    put(fd, name, (size_t)1 << (26 + random_next(state) % 7), false, 1);
    close(fd);
}

/* All of the store, at a price that nobody paid. */
static void expensive_values(uint64_t *state)
{
    int fd = greet("expensive");
    char name[32];
    for (int i = 0; fd >= 0 && i < 50; i++) {
        struct writer w, list;
        snprintf(name, sizeof name, "dear %u", (unsigned)random_next(state) % 100000);
        if (!put(fd, name, 1 << 20, true, UINT32_MAX))
            break;
        writer_init(&w, 0);
        writer_init(&list, 0);
        wire_keys_add(&list, WIRE_SPACE_NAME, name, strlen(name));
        wire_put_pin(&w, 2, &(struct wire_pin){true, 1, {list.data, list.len}});
        flush(fd, &w, NULL, 0);
        writer_close(&list);
        hear(fd);
    }
    close(fd);
}

/* Asks 4096 times for a value that is not read, on many connections. */
static void ask_and_not_read(size_t len)
{
    int fds[16];
    struct writer w, list;
    writer_init(&w, 0);
    for (unsigned i = 0; i < 16; i++) {
        fds[i] = greet("unread");
        if (fds[i] < 0 || (i == 0 && !put(fds[i], "unread", len, true, 1)))
            continue;
        writer_init(&list, 0);
        for (unsigned k = 0; k < WIRE_KEYS_MAX; k++)
            wire_keys_add(&list, WIRE_SPACE_NAME, "unread", 6);
        wire_put_mget(&w, 10,
                      &(struct wire_mget){.n = WIRE_KEYS_MAX, .keys = {list.data, list.len}});
        flush(fds[i], &w, NULL, 0);
        writer_close(&list);
    }
    writer_close(&w);
    usleep(2000000);
    for (unsigned i = 0; i < 16; i++)
        close(fds[i]);
}
static void unread_values(uint64_t *state)
{
    (void)state;
    ask_and_not_read(65536);
}
static void unread_descriptors(uint64_t *state)
{
    (void)state;
    ask_and_not_read(100000);
}

/* ---- connections ---- */

static void idle_connections(uint64_t *state)
{
    static int fds[900];
    (void)state;
    for (unsigned i = 0; i < 900; i++)
        fds[i] = i % 2 ? greet("idle") : dial();
    usleep(1000000);
    for (unsigned i = 0; i < 900; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Whole, cut and changed frames. */
static void nonsense(uint64_t *state)
{
    int fd = dial();
    struct writer w;
    if (fd < 0)
        return;
    writer_init(&w, 0);
    wire_put_hello(&w, 0, &(struct wire_hello){WIRE_VERSION, WIRE_VERSION, 0, {"nonsense", 8}});
    for (unsigned i = 0; i < 20; i++)
        wire_put_get(&w, i, &(struct wire_get){.key = {"nonsense", 8}});
    for (uint64_t n = random_next(state) % 8; n > 0; n--)
        ((uint8_t *)w.data)[random_next(state) % w.len] = (uint8_t)random_next(state);
    w.len -= random_next(state) % 20;
    flush(fd, &w, NULL, 0);
    writer_close(&w);
    if (random_next(state) % 2)
        hear(fd);
    close(fd);
}

static void long_redis_commands(uint64_t *state)
{
    static char glob[60000];
    int fd = dial();
    char head[64];
    if (fd < 0)
        return;
    memset(glob, random_next(state) % 2 ? '*' : '?', sizeof glob);
    int n = snprintf(head, sizeof head, "*4\r\n$4\r\nSCAN\r\n$1\r\n0\r\n$5\r\nMATCH\r\n$%zu\r\n",
                     sizeof glob);
    for (int i = 0; i < 20; i++)
        if (send(fd, head, (size_t)n, MSG_NOSIGNAL) < 0 ||
            send(fd, glob, sizeof glob, MSG_NOSIGNAL) < 0 || send(fd, "\r\n", 2, MSG_NOSIGNAL) < 0)
            break;
    recv(fd, glob, sizeof glob, 0);
    close(fd);
}

static void ranks_of_many_jobs(uint64_t *state)
{
    char client[64];
    int fds[32];
    for (unsigned i = 0; i < 32; i++) {
        snprintf(client, sizeof client, "rank job=%u", (unsigned)random_next(state) % 100000);
        fds[i] = greet(client);
        if (i == 0 && fds[i] >= 0)
            put(fds[i], "rank", 65536, true, 1);
        for (unsigned k = 0; fds[i] >= 0 && k < 64; k++) {
            struct writer w;
            writer_init(&w, 0);
            wire_put_get(&w, k, &(struct wire_get){.key = {"rank", 4}});
            bool sent = flush(fds[i], &w, NULL, 0);
            writer_close(&w);
            if (!sent || !hear(fds[i]))
                break;
        }
    }
    for (unsigned i = 0; i < 32; i++)
        close(fds[i]);
}

/* ---- compiles ---- */

struct ask {
    struct writer job;
    struct key graph;
    struct proof proof;
    char hardware[WARM_HARDWARE_MAX];
};

/* The user's own job, as libwarm encodes it. */
static bool ask_of(struct ask *a, const char *name, const char *source)
{
    char include[128];
    snprintf(include, sizeof include, "-I%s/include", shared->folder);
    struct view options[] = {{"--gpu-architecture=sm_90", 24}, {include, strlen(include)}};
    struct job job = {.language = JOB_CUDA,
                      .name = {name, strlen(name)},
                      .cwd = {shared->folder, strlen(shared->folder)},
                      .source = {source, strlen(source)},
                      .options = options,
                      .n_options = 2};
    writer_init(&a->job, 0);
    job_encode(&job, &a->job);
    return job_key(&job, a->hardware, &a->graph, &a->proof, NULL) == 0;
}

static void send_compile(int fd, uint64_t tag, const struct ask *a, const char *compiler,
                         uint32_t flags)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_compile(&w, tag,
                     &(struct wire_compile){.flags = flags,
                                            .language = JOB_CUDA,
                                            .graph = a->graph,
                                            .proof = a->proof,
                                            .hardware = {a->hardware, strlen(a->hardware)},
                                            .compiler = {compiler, strlen(compiler)}});
    flush(fd, &w, NULL, 0);
    writer_close(&w);
}

/* Sends the source; returns our end of the channel, or -1. */
static int send_source(int fd, uint64_t tag, const struct ask *a)
{
    int ends[2];
    struct writer w;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    writer_init(&w, 0);
    wire_put_source(&w, tag,
                    &(struct wire_source){.len = a->job.len, .job = {a->job.data, a->job.len}});
    flush(fd, &w, &ends[1], 1);
    writer_close(&w);
    close(ends[1]);
    return ends[0];
}

/* Takes the lead of the popular source; returns the channel, or -1. *out_fd is the connection. */
static int take_lead(int *out_fd)
{
    struct ask a;
    char source[256];
    int channel = -1;
    source_popular(source);
    *out_fd = greet("leader");
    if (*out_fd >= 0 && ask_of(&a, "popular.cu", source)) {
        send_compile(*out_fd, 1, &a, "", 0);
        do
            if (!hear(*out_fd))
                break;
        while (answer.frame.type == WIRE_WAIT);
        if (answer.frame.type == WIRE_NEED)
            channel = send_source(*out_fd, 1, &a);
        writer_close(&a.job);
    }
    return channel;
}

static void silent_leader(uint64_t *state)
{
    int fd, channel = take_lead(&fd);
    (void)state;
    usleep(3000000);
    close(channel);
    close(fd);
}

static void leader_without_a_source(uint64_t *state)
{
    struct ask a;
    char source[256];
    int fd = greet("no source");
    (void)state;
    source_popular(source);
    if (ask_of(&a, "popular.cu", source))
        send_compile(fd, 1, &a, "", 0);
    writer_close(&a.job);
    usleep(1500000);
    close(fd);
}

static void nonsense_of_a_leader(uint64_t *state)
{
    int fd, channel = take_lead(&fd);
    char packet[256];
    for (int i = 0; channel >= 0 && i < 20; i++) {
        for (size_t at = 0; at < sizeof packet; at++)
            packet[at] = (char)random_next(state);
        send(channel, packet, 1 + random_next(state) % sizeof packet, MSG_NOSIGNAL);
    }
    hear(fd);
    close(channel);
    close(fd);
    usleep(100000);
}

/* Shows a header that the compiler does not survive, or does not come back from. */
static void deadly_header(uint64_t *state)
{
    int fd, channel = take_lead(&fd);
    bool deep = random_next(state) % 2;
    char packet[WIRE_OPEN_MAX];
    struct timeval patience = {.tv_sec = 2};
    if (channel >= 0)
        setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (ssize_t n; channel >= 0 && (n = recv(channel, packet, sizeof packet, 0)) > 0;) {
        struct wire_open question;
        struct writer w;
        int file = memfd_create("header", MFD_CLOEXEC);
        static const char slow[] =
            "typedef float T; constexpr int f(int n) { return n < 2 ? n : f(n-1) + f(n-2); }\n"
            "constexpr int K = f(27) + f(28) + f(29) + f(30);\n";
        static char parentheses[2000000];
        memset(parentheses, '(', sizeof parentheses);
        if (wire_get_open(packet, (size_t)n, &question, NULL) != 0 ||
            pwrite(file, "typedef float T; int k = ", 25, 0) < 0 ||
            pwrite(file, deep ? parentheses : slow, deep ? sizeof parentheses : sizeof slow - 1,
                   deep ? 25 : 0) < 0)
            break;
        writer_init(&w, 0);
        wire_put_opened(&w, &(struct wire_opened){question.id, WIRE_PATH_FILE});
        flush(channel, &w, &file, 1);
        writer_close(&w);
        close(file);
    }
    close(channel);
    close(fd);
}

/* More slow compiles at once than there are slots. */
static void many_slow_compiles(uint64_t *state)
{
    int fd = greet("slow");
    struct ask asks[32];
    for (unsigned i = 0; i < 32; i++) {
        char source[512];
        snprintf(source, sizeof source,
                 "template <int N> struct S { static constexpr int v = S<N - 1>::v + %u; };\n"
                 "template <> struct S<0> { static constexpr int v = 1; };\n"
                 "extern \"C\" __global__ void s(int *x) { *x = S<%u>::v; }\n",
                 (unsigned)random_next(state), 100 + (unsigned)random_next(state) % 700);
        ask_of(&asks[i], "slow.cu", source);
        send_compile(fd, i, &asks[i], "", 0);
    }
    for (unsigned n = 0; fd >= 0 && n < 32 && hear(fd);) {
        if (answer.frame.type == WIRE_NEED && answer.frame.tag < 32)
            close(send_source(fd, answer.frame.tag, &asks[answer.frame.tag]));
        n += answer.frame.type != WIRE_NEED && answer.frame.type != WIRE_WAIT;
    }
    for (unsigned i = 0; i < 32; i++)
        writer_close(&asks[i].job);
    close(fd);
}

/* Asks the tier for keys that nobody made. */
static void random_keys(uint64_t *state)
{
    int fd = greet("random keys");
    struct ask a;
    ask_of(&a, "x.cu", "int x;");
    for (unsigned i = 0; fd >= 0 && i < 200; i++) {
        for (size_t k = 0; k < sizeof a.graph.bytes; k++)
            a.graph.bytes[k] = a.proof.bytes[k] = (uint8_t)random_next(state);
        send_compile(fd, i, &a, "", 4); /* only if it is known */
    }
    for (unsigned n = 0; n < 200 && fd >= 0 && hear(fd);)
        n += answer.frame.type != WIRE_WAIT;
    writer_close(&a.job);
    close(fd);
}

/* Names places where there is, or is not, a compiler. */
static void named_compilers(uint64_t *state)
{
    int fd = greet("compilers");
    struct ask a;
    ask_of(&a, "x.cu", "int x;");
    for (unsigned i = 0; fd >= 0 && i < 100; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%u/\n/libnvrtc.so.%u", i % 2 ? "/usr/lib" : "/tmp",
                 (unsigned)random_next(state) % 1000, i);
        send_compile(fd, i, &a, path, 0);
    }
    for (unsigned i = 0; i < 100 && fd >= 0 && hear(fd); i++)
        ;
    writer_close(&a.job);
    close(fd);
}

/* ---- what others made ---- */

/* The HIT of a source of the user's, which everybody knows; false if it is not there. */
static bool get_users(int fd, const char *name, const char *source, struct wire_hit *out)
{
    struct ask a;
    bool found = false;
    if (fd >= 0 && ask_of(&a, name, source)) {
        send_compile(fd, 1, &a, "", 4); /* only if it is known */
        do
            found = hear(fd);
        while (found && answer.frame.type == WIRE_WAIT);
        found = found && answer.frame.type == WIRE_HIT && !wire_get_hit(&answer.frame, out, NULL);
        writer_close(&a.job);
    }
    return found;
}

static void called_damaged(uint64_t *state)
{
    char source[256];
    struct wire_hit hit;
    struct writer w;
    int fd = greet("damaged");
    unsigned n = shared->n_compiled;
    writer_init(&w, 0);
    source_plain(n ? (unsigned)random_next(state) % n : 0, source);
    for (int big = 0; big < 2; big++)
        if (big ? get_users(fd, "big.cu", source_big, &hit)
                : get_users(fd, "plain.cu", source, &hit)) {
            wire_put_damaged(&w, 2, &(struct wire_damaged){hit.key, hit.check});
            flush(fd, &w, NULL, 0);
        }
    writer_close(&w);
    close(fd);
    usleep(10000);
}

/* Changes what can be changed of a description that others might share. */
static void changed_descriptor(uint64_t *state)
{
    struct wire_hit hit;
    int fd = greet("descriptor");
    (void)state;
    if (get_users(fd, "big.cu", source_big, &hit) && answer.fd >= 0) {
        fcntl(answer.fd, F_SETFL, O_DIRECT | O_APPEND | O_NONBLOCK);
        lseek(answer.fd, 77777, SEEK_SET);
        flock(answer.fd, LOCK_EX | LOCK_NB);
        fchmod(answer.fd, 0666);
        if (ftruncate(answer.fd, 0) == 0 || write(answer.fd, "x", 1) == 1)
            abort(); /* the siege sees it */
    }
    close(fd);
    usleep(10000);
}

const struct hostile hostiles[] = {
    {"sparse values", sparse_values},
    {"expensive values", expensive_values},
    {"unread values", unread_values},
    {"unread descriptors", unread_descriptors},
    {"idle connections", idle_connections},
    {"nonsense", nonsense},
    {"long Redis commands", long_redis_commands},
    {"ranks of many jobs", ranks_of_many_jobs},
    {"silent leader", silent_leader},
    {"leader without a source", leader_without_a_source},
    {"nonsense of a leader", nonsense_of_a_leader},
    {"deadly header", deadly_header},
    {"many slow compiles", many_slow_compiles},
    {"random keys", random_keys},
    {"named compilers", named_compilers},
    {"called damaged", called_damaged},
    {"changed descriptor", changed_descriptor},
};
const unsigned n_hostiles = sizeof hostiles / sizeof *hostiles;

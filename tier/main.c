/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warm-tier: carries objects between warmd and one backend. It has the network and the
 * credentials, and neither the store nor the signing key.
 *
 *     warm-tier URL CREDENTIALS CA      with the socket to warmd as descriptor 3; "" is none
 *     warm-tier --config FILE           the same as a system's service: it reads them itself from warmd's configuration
 *
 * Objects are packed on their way out and unpacked on their way back (compress.h), large ones on a pool thread.
 *
 * warmd starts it, and starts it again if it ends; so does systemd for each connection to the service's socket. It ends
 * with its socket.
 *
 * Thread: one, and the pool for packing.
 */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/owned_path.h"
#include "client/lib/packet.h"
#include "keygen/bytes.h"
#include "keygen/key.h"
#include "keygen/list.h"
#include "tier/compress.h"
#include "tier/message.h"
#include "tier/service_settings.h"

#define CONNECTIONS 16u
#define RATE_MIN (1u << 20)       /* bytes a second */
#define PACK_HERE_MAX (64u << 10) /* bytes: some 0.2 ms; more goes to the pool */

struct carry {
    struct carry *prev, *next;
    struct tier_request request;
    uint64_t id, limit; /* of the object as warmd knows it */
    uv_work_t work;
    int packed_fd; /* what the work made; -1: the object stays as it is */
    uint64_t packed_length;
    bool is_started, is_cancelled, wants_bytes;
};

static uv_loop_t loop;
static struct tier_backend *backend;
static unsigned n_carried;
static struct carry *carried;

/* Sends an answer with `bytes` after it. The socket blocks: a daemon that does not read now will soon, or is gone. */
static void answer(const struct tier_answer *a, struct view bytes, int fd)
{
    struct iovec parts[2] = {packet_part(a, sizeof *a), packet_part(bytes.data, bytes.len)};
    if (packet_send_parts(TIER_FD, parts, bytes.len ? 2 : 1, &fd, fd >= 0) != 0)
        _exit(0);
}

static bool has_object(const struct tier_request *r)
{
    return (r->operation == TIER_GET || r->operation == TIER_ASK) && r->outcome == TIER_OK &&
           (r->result_fd >= 0 || r->result_data);
}

/* Returns the object of a request as warmd knows it, until the next call; empty if it is none or too long. Bytes that
 * are no frame stay as and where they are. */
static struct view take_bytes(struct carry *c)
{
    static uint8_t raw[TIER_BYTES_MAX + (TIER_BYTES_MAX >> 3)]; /* compress_bound of it is less */
    static uint8_t unpacked[TIER_BYTES_MAX];
    const struct tier_request *r = &c->request;
    const uint8_t *bytes = r->result_data ? r->result_data : raw;
    size_t len = (size_t)r->result_length;
    if (!r->result_data && (len > sizeof raw || pread(r->result_fd, raw, len, 0) != (ssize_t)len))
        return (struct view){NULL, 0};
    size_t n = (size_t)compress_unpack_bytes(bytes, len, unpacked, c->limit);
    if (n)
        return (struct view){unpacked, n};
    return (struct view){bytes, len > c->limit ? 0 : len};
}

/* Answers a request that has ended, and frees it. */
static void finish(struct carry *c)
{
    assert(c->is_started && n_carried);
    struct tier_request *r = &c->request;
    bool has = has_object(r);
    struct view bytes = has && c->wants_bytes ? take_bytes(c) : (struct view){NULL, 0};
    int fd = has && !c->wants_bytes ? r->result_fd : -1;
    struct tier_answer a = {.id = c->id,
                            .outcome = r->outcome,
                            .length = bytes.len ? bytes.len : r->result_length,
                            .wait_ms = r->wait_ms,
                            .capabilities = r->capabilities};
    memcpy(a.said, r->said, sizeof a.said);
    if (has && c->wants_bytes && !bytes.len) {
        a.outcome = TIER_TOO_LARGE;
        snprintf(a.said, sizeof a.said,
                 r->result_length ? "larger than expected" : "the object is empty");
    }
    if (fd >= 0)
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL); /* warmd looks at them */
    answer(&a, bytes, fd);
    if (has && r->result_fd >= 0)
        close(r->result_fd);
    if (r->fd >= 0)
        close(r->fd);
    LIST_REMOVE(carried, c);
    free(c);
    n_carried--;
}

/* ---- what comes back ---- */

static void unpack(uv_work_t *work)
{
    struct carry *c = work->data;
    c->packed_fd = compress_unpack(c->request.result_fd, c->request.result_length, c->limit,
                                   &c->packed_length);
}

static void on_unpacked(uv_work_t *work, int status)
{
    struct carry *c = work->data;
    (void)status;
    if (c->packed_fd >= 0) {
        close(c->request.result_fd);
        c->request.result_fd = c->packed_fd;
        c->request.result_length = c->packed_length;
    }
    finish(c);
}

static void on_done(struct tier_request *r)
{
    struct carry *c = r->user;
    c->work.data = c;
    if (!has_object(r) || c->wants_bytes) {
        finish(c);
    } else if (c->limit <= PACK_HERE_MAX * 2 ||
               uv_queue_work(&loop, &c->work, unpack, on_unpacked) != 0) {
        unpack(&c->work);
        on_unpacked(&c->work, 0);
    }
}

/* ---- what goes out ---- */

static void start(struct carry *c)
{
    assert(!c->is_started);
    struct tier_request *r = &c->request;
    c->is_started = true;
    if (c->is_cancelled) {
        r->outcome = TIER_FAILED;
        snprintf(r->said, sizeof r->said, "cancelled");
        finish(c);
    } else {
        backend->functions->start(backend, r);
    }
}

static void pack(uv_work_t *work)
{
    struct carry *c = work->data;
    struct tier_request *r = &c->request;
    c->packed_fd = compress_pack(r->fd, r->length, &c->packed_length);
    if (c->packed_fd < 0)
        return;
    void *bytes = mmap(NULL, (size_t)c->packed_length, PROT_READ, MAP_SHARED, c->packed_fd, 0);
    if (bytes == MAP_FAILED) {
        close(c->packed_fd);
        c->packed_fd = -1;
        return;
    }
    struct proof sum = proof_of_bytes(bytes, (size_t)c->packed_length);
    memcpy(r->sha256, sum.bytes, sizeof sum.bytes);
    munmap(bytes, (size_t)c->packed_length);
}

static void on_packed(uv_work_t *work, int status)
{
    struct carry *c = work->data;
    (void)status;
    if (c->packed_fd >= 0) {
        close(c->request.fd);
        c->request.fd = c->packed_fd;
        c->request.length = c->packed_length;
    }
    start(c);
}

/* Starts a request, after its object is packed. */
static void pack_and_start(struct carry *c)
{
    bool has_value = c->request.operation == TIER_PUT || c->request.operation == TIER_FINISH;
    c->work.data = c;
    if (!has_value || c->request.fd < 0) {
        start(c);
    } else if (c->request.length <= PACK_HERE_MAX ||
               uv_queue_work(&loop, &c->work, pack, on_packed) != 0) {
        pack(&c->work);
        on_packed(&c->work, 0);
    }
}

static void cancel(uint64_t id)
{
    struct carry *c = carried;
    while (c && c->id != id)
        c = c->next;
    if (c && c->is_started)
        backend->functions->cancel(backend, &c->request);
    else if (c)
        c->is_cancelled = true;
}

/* Starts a request; takes `fd`. */
static void carry(const struct tier_ask *ask, int fd)
{
    struct carry *c = n_carried < TIER_ASKS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        struct tier_answer busy = {
            .id = ask->id, .outcome = TIER_LATER, .said = "too many requests"};
        if (fd >= 0)
            close(fd);
        answer(&busy, (struct view){NULL, 0}, -1);
        return;
    }
    c->id = ask->id;
    c->wants_bytes = ask->wants_bytes && ask->limit <= TIER_BYTES_MAX;
    c->limit = ask->limit;
    c->request = (struct tier_request){.operation = ask->operation,
                                       .timeout_ms = ask->timeout_ms,
                                       .fd = fd,
                                       .length = ask->length,
                                       .limit = compress_bound(ask->limit),
                                       .may_lend = c->wants_bytes,
                                       .expire_ms = ask->expire_ms,
                                       .only_if_absent = ask->only_if_absent,
                                       .lease_ms = ask->lease_ms,
                                       .slot = ask->slot,
                                       .result_fd = -1,
                                       .done = on_done,
                                       .user = c};
    memcpy(c->request.name, ask->name, sizeof ask->name);
    memcpy(c->request.sha256, ask->sha256, sizeof ask->sha256);
    memcpy(c->request.token, ask->token, sizeof ask->token);
    memcpy(c->request.job, ask->job, sizeof ask->job);
    LIST_ADD(carried, c);
    n_carried++;
    pack_and_start(c);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct tier_ask ask;
    int fd;
    (void)poll;
    (void)events;
    if (status != 0)
        _exit(0);
    ssize_t n = packet_receive(TIER_FD, &ask, sizeof ask, &fd, 1);
    if (n == (ssize_t)sizeof ask && ask.operation == TIER_CANCEL)
        cancel(ask.id);
    else if (n == (ssize_t)sizeof ask)
        carry(&ask, fd);
    else if (n >= 0 || errno != EINTR)
        _exit(0); /* a hung name server must not delay the end */
}

/* Makes the backend of the arguments. False and one line in `why` if there can be none. */
static bool make_backend(char **argv, char *why, size_t why_size)
{
    static struct service_settings service;
    bool is_service = !argv[3];
    if (is_service && !service_settings_read(argv[2], &service, why, why_size))
        return false;
    const char *url = is_service ? service.url : argv[1],
               *credentials = is_service ? service.credentials : argv[2],
               *ca = is_service ? service.ca : argv[3];
    struct err e;
    if (*ca && owned_path_check(ca, "tier_ca", &e) != 0) {
        snprintf(why, why_size, "%.*s", (int)why_size - 1, e.text);
        return false;
    }
    struct tier_settings settings = {.url = url,
                                     .credentials = *credentials ? credentials : NULL,
                                     .ca = *ca ? ca : NULL,
                                     .connections = CONNECTIONS,
                                     .min_rate = RATE_MIN};
    backend = tier_backend_new(&loop, &settings, why, why_size);
    return backend;
}

int main(int argc, char **argv)
{
    uv_poll_t poll;
    struct tier_answer hello = {.outcome = TIER_OK};
    if (argc != 4 && (argc != 3 || strcmp(argv[1], "--config") != 0)) {
        fprintf(stderr, "warm-tier: warmd starts this program\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (uv_loop_init(&loop) != 0)
        return 1;
    if (!make_backend(argv, hello.said, sizeof hello.said))
        hello.outcome = TIER_MISSET;
    answer(&hello, (struct view){NULL, 0}, -1);
    if (!backend || uv_poll_init(&loop, &poll, TIER_FD) != 0)
        return 1;
    fcntl(TIER_FD, F_SETFL, fcntl(TIER_FD, F_GETFL) & ~O_NONBLOCK); /* libuv set it */
    uv_poll_start(&poll, UV_READABLE, on_readable);
    return uv_run(&loop, UV_RUN_DEFAULT);
}

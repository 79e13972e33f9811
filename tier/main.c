/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warm-tier: carries objects between warmd and one backend. It has the network and the
 * credentials, and neither the store nor the signing key.
 *
 *     warm-tier URL CREDENTIALS CA      with the socket to warmd as descriptor 3; "" is none
 *
 * warmd starts it, and starts it again if it ends. It ends with its socket.
 *
 * Thread: one.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "tier/message.h"

#define CONNECTIONS 16u
#define RATE_MIN (1u << 20) /* bytes a second */

struct carry {
    struct carry *next;
    struct tier_request request;
    uint64_t id;
};

static struct tier_backend *backend;
static unsigned n_carried;
static struct carry *carried;

/* Sends an answer. The socket blocks: a daemon that does not read now will soon, or is gone. */
static void answer(const struct tier_answer *a, int fd)
{
    if (packet_send(TIER_FD, a, sizeof *a, &fd, fd >= 0) != 0)
        _exit(0);
}

static void on_done(struct tier_request *r)
{
    struct carry *c = r->user;
    struct tier_answer a = {.id = c->id,
                            .outcome = r->outcome,
                            .length = r->result_length,
                            .wait_ms = r->wait_ms,
                            .capabilities = r->capabilities};
    bool has_object = (r->operation == TIER_GET || r->operation == TIER_ASK) &&
                      r->outcome == TIER_OK && r->result_fd >= 0;
    memcpy(a.said, r->said, sizeof a.said);
    if (has_object)
        fcntl(r->result_fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL); /* warmd looks at them */
    answer(&a, has_object ? r->result_fd : -1);
    if (has_object)
        close(r->result_fd);
    if (r->fd >= 0)
        close(r->fd);
    struct carry **at = &carried;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c);
    n_carried--;
}

static void cancel(uint64_t id)
{
    struct carry *c = carried;
    while (c && c->id != id)
        c = c->next;
    if (c)
        backend->functions->cancel(backend, &c->request);
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
        answer(&busy, -1);
        return;
    }
    c->id = ask->id;
    c->request = (struct tier_request){.operation = ask->operation,
                                       .timeout_ms = ask->timeout_ms,
                                       .fd = fd,
                                       .length = ask->length,
                                       .limit = ask->limit,
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
    c->next = carried;
    carried = c;
    n_carried++;
    backend->functions->start(backend, &c->request);
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
        _exit(0); /* a name server that hangs must not hold the end up */
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    uv_poll_t poll;
    struct tier_answer hello = {.outcome = TIER_OK};
    if (argc != 4) {
        fprintf(stderr, "warm-tier: warmd starts this program\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    struct tier_settings settings = {.url = argv[1],
                                     .credentials = *argv[2] ? argv[2] : NULL,
                                     .ca = *argv[3] ? argv[3] : NULL,
                                     .connections = CONNECTIONS,
                                     .min_rate = RATE_MIN};
    if (uv_loop_init(&loop) != 0)
        return 1;
    backend = tier_backend_new(&loop, &settings, hello.said, sizeof hello.said);
    if (!backend)
        hello.outcome = TIER_MISSET;
    answer(&hello, -1);
    if (!backend || uv_poll_init(&loop, &poll, TIER_FD) != 0)
        return 1;
    fcntl(TIER_FD, F_SETFL, fcntl(TIER_FD, F_GETFL) & ~O_NONBLOCK); /* libuv set it */
    uv_poll_start(&poll, UV_READABLE, on_readable);
    return uv_run(&loop, UV_RUN_DEFAULT);
}

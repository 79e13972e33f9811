/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - decides when warm-tier is started, when it hangs, and how each request to it ends.
 *
 * daemon/nodes/tier.c starts it; tier_fetch.c, tier_lease.c and tier_send.c send requests.
 *
 * Thread: loop thread.
 */
#include "daemon/tier/link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "daemon/process/log.h"
#include "daemon/process/loop_timer.h"
#include "keygen/list.h"

#define TICK_MS 50u
#define GRACE_MS 200u       /* for the answer of a helper whose own timer ends the request */
#define PAUSE_MIN_MS 500u   /* before the helper is started again; doubled each time, */
#define PAUSE_MAX_MS 60000u /* up to this */
#define ANSWERS_A_TURN 16u

struct tier_link {
    struct tier_link_config config;
    char *program, *url, *credentials, *ca, *socket;
    uv_poll_t poll;
    bool polls;                   /* `poll` is on the loop */
    int fd;                       /* -1: there is no helper */
    bool ready, greeted, closing; /* greeted: its first answer came */
    uint64_t process;             /* of the spawner; 0: a service */
    uint64_t last_id, pause_ms;
    struct tier_errand *errands;
    struct loop_timer *tick, *restart;
    struct {
        struct tier_answer head;
        uint8_t bytes[TIER_BYTES_MAX];
    } packet; /* that has come */
};

/* ---- the end of the helper ---- */

static void end_errand(struct tier_link *l, struct tier_errand *r, const struct tier_answer *a,
                       int fd)
{
    assert(l->errands && r->done);
    LIST_REMOVE(
        l->errands,
        r); /* on_tick stops when there are none: to stop here costs each request two calls */
    r->done(r, a, fd);
}

static void link_free(struct tier_link *l)
{
    assert(!l->errands && l->fd < 0); /* each request ends, and the helper's socket is closed */
    free(l->program);
    free(l->url);
    free(l->credentials);
    free(l->ca);
    free(l->socket);
    free(l);
}

static void on_poll_closed(uv_handle_t *poll)
{
    struct tier_link *l = poll->data;
    assert(l->polls && l->fd >= 0 && !l->errands);
    close(l->fd);
    l->fd = -1;
    l->polls = false;
    if (l->closing)
        link_free(l);
    else
        loop_timer_start(l->restart, l->pause_ms, 0);
}

/* Ends the helper, and all that it was asked; it is started again after a pause. */
static void end_helper(struct tier_link *l, const char *why)
{
    if (!l->polls || uv_is_closing((uv_handle_t *)&l->poll))
        return;
    l->ready = false;
    if (l->process)
        spawner_kill(l->config.spawner, l->process);
    uv_close((uv_handle_t *)&l->poll, on_poll_closed);
    l->pause_ms = l->pause_ms * 2 < PAUSE_MAX_MS ? l->pause_ms * 2 : PAUSE_MAX_MS;
    struct tier_answer failed = {.outcome = TIER_FAILED};
    snprintf(failed.said, sizeof failed.said, "%s", why);
    while (l->errands)
        end_errand(l, l->errands, &failed, -1);
}

/* ---- answers ---- */

static void take_hello(struct tier_link *l, const struct tier_answer *a)
{
    l->greeted = true;
    if (a->outcome != TIER_OK) {
        log_warning("the tier cannot be used: %s", a->said);
        l->pause_ms = PAUSE_MAX_MS;
        end_helper(l, "the tier cannot be used");
        return;
    }
    l->config.on_ready(l->config.arg);
}

/* Takes an answer, which may be anything: who took the helper over chooses each byte. */
static void take_answer(struct tier_link *l, size_t n_bytes, int fd)
{
    struct tier_answer *a = &l->packet.head;
    assert(!l->closing);
    struct tier_errand *r = l->errands;
    while (r && r->ask.id != a->id)
        r = r->next;
    bool is_hello = a->id == 0 && !l->greeted;
    const char *fault = r || is_hello ? tier_answer_fault(a, r ? &r->ask : NULL, n_bytes, fd >= 0)
                        : a->id == 0  ? "a second greeting"
                                      : NULL;
    if ((!r || fault) && fd >= 0)
        close(fd);
    if (fault) {
        log_warning("warm-tier is ended: it sent %s", fault);
        end_helper(l, "warm-tier sent what no warm-tier sends");
        return;
    }
    if (a->outcome != TIER_FAILED)
        l->pause_ms = PAUSE_MIN_MS;
    if (r && n_bytes)
        r->bytes = (struct view){(const char *)l->packet.bytes, n_bytes};
    if (r)
        end_errand(l, r, a, fd);
    else if (is_hello)
        take_hello(l, a);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct tier_link *l = poll->data;
    (void)events;
    for (unsigned i = 0; i < ANSWERS_A_TURN && !uv_is_closing((uv_handle_t *)poll); i++) {
        int fd;
        ssize_t n = status ? 0 : packet_receive(l->fd, &l->packet, sizeof l->packet, &fd, 1);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < (ssize_t)sizeof l->packet.head) {
            if (n > 0 && fd >= 0)
                close(fd);
            log_warning("warm-tier ended; it starts again in %llu ms",
                        (unsigned long long)l->pause_ms * 2);
            end_helper(l, "warm-tier ended");
            return;
        }
        take_answer(l, (size_t)n - sizeof l->packet.head, fd);
    }
}

static void on_tick(void *arg)
{
    struct tier_link *l = arg;
    uint64_t now = uv_now(l->config.loop);
    struct tier_errand *r = l->errands;
    while (r && r->ends_ms > now)
        r = r->next;
    if (!l->errands)
        loop_timer_stop(l->tick);
    if (r) {
        log_warning("warm-tier does not answer: it is ended and starts again");
        end_helper(l, "warm-tier did not answer");
    }
}

/* ---- its start ---- */

/* Connects to the service. */
static int connect_service(struct tier_link *l, int *out_fd, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (strlen(l->socket) >= sizeof address.sun_path)
        return err_set(e, WARM_EINVALID, "tier_socket: %s is too long", l->socket);
    memcpy(address.sun_path, l->socket, strlen(l->socket));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "cannot make a socket to warm-tier");
    int code = 0;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        code = err_sys(e, WARM_EIO, errno, "cannot connect to %s", l->socket);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        code = err_sys(e, WARM_EIO, errno, "cannot tell who listens at %s", l->socket);
    else if (peer.uid != 0 && peer.uid != geteuid())
        code =
            err_set(e, WARM_EDENIED, "user %u listens at %s, who is neither root nor warmd's own",
                    (unsigned)peer.uid, l->socket);
    if (code)
        close(fd);
    else
        *out_fd = fd;
    return code;
}

/* Has the spawner start the program. */
static int spawn_helper(struct tier_link *l, int *out_fd, struct err *e)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return err_sys(e, WARM_EIO, errno, "cannot make a socket to warm-tier");
    char *argv[] = {l->program, l->url, l->credentials, l->ca, NULL};
    l->process = spawner_next_id(l->config.spawner);
    struct spawn spawn = {.id = l->process, .argv = argv, .fd = pair[1], .has_network = true};
    int code = spawner_run(l->config.spawner, &spawn, e);
    close(pair[1]);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    if (code)
        close(pair[0]);
    else
        *out_fd = pair[0];
    return code;
}

static int start_helper(struct tier_link *l, struct err *e)
{
    assert(!l->polls && l->fd < 0 && !l->closing); /* one helper at a time */
    int fd = -1, code = *l->socket ? connect_service(l, &fd, e) : spawn_helper(l, &fd, e);
    if (code)
        return code;
    if (uv_poll_init(l->config.loop, &l->poll, fd) != 0) {
        close(fd);
        return err_set(e, WARM_EIO, "cannot watch the socket to warm-tier");
    }
    l->fd = fd;
    l->poll.data = l;
    l->polls = l->ready = true;
    l->greeted = false;
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
    return 0;
}

static void on_restart(void *arg)
{
    struct tier_link *l = arg;
    struct err e = {0};
    if (start_helper(l, &e) == 0)
        return;
    log_warning("warm-tier does not start: %s", e.text);
    l->pause_ms = PAUSE_MAX_MS;
    loop_timer_start(l->restart, l->pause_ms, 0);
}

int tier_link_new(struct tier_link **out, const struct tier_link_config *config, struct err *e)
{
    assert(config->loop && config->spawner && config->on_ready);
    assert(config->program && config->url && config->credentials && config->ca && config->socket);
    struct tier_link *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, WARM_ENOMEM, "no memory for the tier");
    *l = (struct tier_link){.config = *config,
                            .fd = -1,
                            .pause_ms = PAUSE_MIN_MS,
                            .program = strdup(config->program),
                            .url = strdup(config->url),
                            .credentials = strdup(config->credentials),
                            .ca = strdup(config->ca),
                            .socket = strdup(config->socket),
                            .tick = loop_timer_new(config->loop, on_tick, l),
                            .restart = loop_timer_new(config->loop, on_restart, l)};
    if (!l->program || !l->url || !l->credentials || !l->ca || !l->socket || !l->tick ||
        !l->restart) {
        loop_timer_free(l->tick);
        loop_timer_free(l->restart);
        link_free(l);
        return err_set(e, WARM_ENOMEM, "no memory for the tier");
    }
    on_restart(l);
    *out = l;
    return 0;
}

void tier_link_close(struct tier_link *l)
{
    if (!l)
        return;
    l->closing = true;
    loop_timer_free(l->restart);
    end_helper(l, "warmd is stopping");
    loop_timer_free(l->tick);
    if (!l->polls)
        link_free(l);
}

bool tier_link_is_ready(const struct tier_link *l) { return l->ready; }

void tier_link_cancel(struct tier_link *l, const struct tier_errand *r)
{
    assert(r->ask.id); /* it was sent */
    struct tier_ask cancel = {.id = r->ask.id, .operation = TIER_CANCEL};
    if (l->ready)
        packet_send(l->fd, &cancel, sizeof cancel, NULL,
                    0); /* a full socket: it ends by its time */
}

bool tier_link_send(struct tier_link *l, struct tier_errand *r)
{
    bool has_object = r->ask.operation == TIER_PUT || r->ask.operation == TIER_FINISH;
    assert(r->done && has_object == (r->fd >= 0));
    assert(memchr(r->ask.name, '\0', sizeof r->ask.name));
    if (!l->ready)
        return false;
    r->ask.id = ++l->last_id;
    if (packet_send(l->fd, &r->ask, sizeof r->ask, &r->fd, r->fd >= 0) != 0)
        return false;
    if (!loop_timer_runs(l->tick))
        loop_timer_start(l->tick, TICK_MS, TICK_MS);
    r->bytes = (struct view){NULL, 0};
    r->ends_ms = uv_now(l->config.loop) + r->ask.timeout_ms + GRACE_MS;
    LIST_ADD(l->errands, r);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * long.c - collects arguments that are too long for memory: each goes into a memfd as it comes, and the store
 * takes that. resp.h tells which arguments are long.
 *
 *     *3 $3 SET $1 k $9000000 │ ………………………… CRLF │  the next command
 *     └────── head ──────────┘ └── memfd ──┘
 *
 * redis.c calls it for the bytes of a command with long arguments.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/whole_io.h"
#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/redis/internal.h"
#include "daemon/users/budget.h"

/* A command's long arguments on their way in. */
struct spills {
    struct writer head; /* the command without them, while it is being put together */
    unsigned n;         /* complete arguments */
    uint64_t left;      /* bytes left of the argument that comes now, with CRLF; 0: none */
    uint64_t n_counted; /* bytes of BUDGET_puts */
    int fds[RESP_SPILLS_MAX + 1]; /* -1: it could not be kept */
    uint8_t line_end[2];
};

/* Gives back its budgets: the memfds are counted elsewhere from now on, or gone. */
static void spill_uncount(struct redis *r)
{
    budget_give(r->peer->uid, BUDGET_puts, r->spills->n_counted);
    r->spills->n_counted = 0;
}

void redis_long_free(struct redis *r)
{
    struct spills *s = r->spills;
    if (!s)
        return;
    assert(s->n <= RESP_SPILLS_MAX);
    for (unsigned i = 0; i < s->n + (s->left > 0); i++)
        if (s->fds[i] >= 0)
            fd_close_later(s->fds[i]);
    spill_uncount(r);
    writer_close(&s->head);
    free(s);
    r->spills = NULL;
}

/* True if the user's budget has room for a long argument. A value that is larger than the budget
 * comes alone. */
static bool spill_count(struct redis *r, uint64_t len)
{
    uint32_t uid = r->peer->uid;
    uint64_t most = service_max_value(r->service) + budget_total_limit(BUDGET_puts);
    bool alone = budget_used(uid, BUDGET_puts) == 0 && len <= service_max_value(r->service) &&
                 budget_used_by_all(BUDGET_puts) + len <= most;
    if (!budget_take(uid, BUDGET_puts, len) && !(alone && budget_charge(uid, BUDGET_puts, len)))
        return false;
    r->spills->n_counted += len;
    return true;
}

long redis_long_begin(struct redis *r, const struct resp_command *parsed, const uint8_t *data)
{
    struct err e = {0};
    if (!r->spills) {
        r->spills = calloc(1, sizeof *r->spills);
        if (!r->spills) {
            err_set(&e, WARM_ENOMEM, "out of memory");
            return redis_fail(r, &e);
        }
        writer_init(&r->spills->head, RESP_COMMAND_MAX);
    }
    struct spills *s = r->spills;
    size_t before = s->head.len;
    if (s->n == RESP_SPILLS_MAX) {
        err_set(&e, WARM_ETOO_BIG, "more than %u long arguments", RESP_SPILLS_MAX);
        return redis_fail(r, &e);
    }
    assert(parsed->spill_at >= before); /* behind the header line of the argument before */
    writer_bytes(&s->head, data, parsed->spill_at - before);
    if (s->head.failed) {
        err_set(&e, WARM_ETOO_BIG, "command longer than %u bytes", RESP_COMMAND_MAX);
        return redis_fail(r, &e);
    }
    bool fits =
        parsed->spill_len <= service_max_value(r->service) && spill_count(r, parsed->spill_len);
    s->fds[s->n] = fits ? memfd_create("warm-value", MFD_CLOEXEC) : -1;
    if (s->fds[s->n] < 0)
        log_user(r->peer->uid, LOG_LEVEL_WARNING, "a value of %llu bytes is not received: %s",
                 (unsigned long long)parsed->spill_len,
                 fits ? strerror(errno) : "it is too large, or too many are under way");
    s->left = parsed->spill_len + 2;
    return (long)(parsed->spill_at - before);
}

/* Parses the command. If it is complete, its long arguments are counted elsewhere from now on. Returns as
 * resp_parse. */
static long spill_parse(struct redis *r, const int **out_fds, struct err *e)
{
    struct spills *s = r->spills;
    long took = resp_parse(s->head.data, s->head.len, s->n, connection_command(r->connection), e);
    if (took > 0) {
        spill_uncount(r);
        *out_fds = s->fds;
    }
    return took;
}

/* Takes bytes of the long argument that comes now. An argument that cannot be kept is skipped. */
static long take_argument(struct redis *r, const uint8_t *data, size_t len, const int **out_fds)
{
    struct spills *s = r->spills;
    struct err e = {0};
    size_t body = s->left > 2 ? (size_t)(s->left - 2 < len ? s->left - 2 : len) : 0;
    assert(s->left && s->n < RESP_SPILLS_MAX);
    int *fd = &s->fds[s->n];
    int errnum = *fd >= 0 ? whole_write(*fd, data, body) : 0;
    if (errnum) {
        log_user(r->peer->uid, LOG_LEVEL_WARNING, "a value is not received: %s", strerror(errnum));
        fd_close_later(*fd);
        *fd = -1;
    }
    s->left -= body;
    size_t taken = body;
    for (; s->left && s->left <= 2 && taken < len; s->left--)
        s->line_end[2 - s->left] = data[taken++];
    if (s->left == 0) {
        s->n++;
        if (memcmp(s->line_end, "\r\n", 2) != 0)
            err_set(&e, WARM_EMALFORMED, "no line end after an argument");
        if (e.code || spill_parse(r, out_fds, &e) < 0) /* usually it was the last argument */
            return redis_fail(r, &e);
    }
    return (long)taken;
}

/* Takes the rest of a command that has long arguments. */
static long take_rest(struct redis *r, const uint8_t *data, size_t len, const int **out_fds)
{
    struct resp_command *parsed = connection_command(r->connection);
    struct spills *s = r->spills;
    struct err e = {0};
    size_t before = s->head.len;
    assert(!s->left && before <= RESP_COMMAND_MAX);
    size_t room = RESP_COMMAND_MAX - before;
    if (len > room)
        len = room;
    writer_bytes(&s->head, data, len);
    if (s->head.failed) {
        err_set(&e, WARM_ENOMEM, "out of memory");
        return redis_fail(r, &e);
    }
    long took = spill_parse(r, out_fds, &e);
    if (took < 0)
        return redis_fail(r, &e);
    if (took > 0)
        return took - (long)before;
    s->head.len = before;
    if (parsed->spill_len)
        return redis_long_begin(r, parsed, data);
    if (len == room) {
        err_set(&e, WARM_ETOO_BIG, "command longer than %u bytes", RESP_COMMAND_MAX);
        return redis_fail(r, &e);
    }
    return 0;
}

long redis_long_take(struct redis *r, const uint8_t *data, size_t len, const int **out_fds)
{
    assert(r->spills && !*out_fds);
    return r->spills->left ? take_argument(r, data, len, out_fds)
                           : take_rest(r, data, len, out_fds);
}

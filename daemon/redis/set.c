/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set.c - SET, MSET and DEL, and what is left of a time to live: decides what is stored, and when the answer goes
 * out.
 *
 * The store's work for a command is a struct redis_op: the answer comes when all its parts are done.
 *
 * A long value of PyTorch is taken apart on a pool thread, and put after that. Meanwhile the connection is
 * held. If it ends, the value is put all the same: it came whole.
 *
 * DEL must not remove what no look-up found: that may be a value that could not be read. A failed write is counted
 * as dropped; the answer does not change.
 *
 * redis.c runs the commands.
 *
 * Thread: loop thread, but for the work on a pool thread.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/process/log.h"
#include "daemon/pytorch/torch_store.h"
#include "daemon/redis/internal.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"
#include "store/clock.h"

#define TTL_MAX_MS (100ull * 365 * 24 * 3600 * 1000)
#define MSET_ARGS_MAX 257u /* of an MSET with a long argument, which runs in one turn */

enum op_answer { OP_OK, OP_SET_NX, OP_COUNT };

/* An operation of the store: the answer comes when all its parts are done. */
struct redis_op {
    struct redis *redis; /* NULL when the connection is gone */
    struct redis_op *prev, *next;
    enum op_answer answer;
    unsigned n_parts;
    bool existed;
    uint64_t count;
};

/* ---- operations of the store ---- */

static struct redis_op *op_new(struct redis *r, enum op_answer answer, unsigned n_parts)
{
    assert(n_parts);
    struct redis_op *op = malloc(sizeof *op);
    if (!op)
        return NULL;
    *op = (struct redis_op){.redis = r, .answer = answer, .n_parts = n_parts};
    LIST_ADD(r->ops, op);
    r->n_ops++;
    return op;
}

static void op_answer(const struct redis_op *op)
{
    struct redis *r = op->redis;
    if (op->answer == OP_OK || (op->answer == OP_SET_NX && !op->existed))
        redis_send_status(r, "OK");
    else if (op->answer == OP_SET_NX)
        redis_send_null(r);
    else
        redis_send_number(r, (int64_t)op->count);
}

static void op_part_done(struct redis_op *op)
{
    struct redis *r = op->redis;
    assert(op->n_parts && (!r || r->n_ops));
    if (--op->n_parts)
        return;
    if (r) {
        op_answer(op);
        LIST_REMOVE(r->ops, op);
        if (--r->n_ops == 0)
            connection_resume(r->connection);
    }
    free(op);
}

static void on_put(void *arg, int status, bool existed, const struct key *key, const struct err *e)
{
    struct redis_op *op = arg;
    (void)status, (void)key, (void)e; /* the service has logged and counted a failure */
    op->existed |= existed;
    op_part_done(op);
}

static void on_report(void *arg, int status, const struct store_report *report, const struct err *e)
{
    struct redis_op *op = arg;
    (void)e;
    if (status == 0)
        op->count = report->n_entries;
    op_part_done(op);
}

void redis_ops_forget(struct redis *r)
{
    for (struct redis_op *op = r->ops; op; op = op->next)
        op->redis = NULL;
    if (r->mset) /* its remaining parts will not come */
        op_part_done(r->mset);
}

/* ---- values ---- */

/* Reads the cost at the end of PyTorch's values: {"data": …, "time_taken_ms": 123}. 0 if there is
 * none. */
static uint32_t cost_of_value(const struct resp_arg *value, int fd)
{
    static const char mark[] = "\"time_taken_ms\": ";
    char tail[65];
    size_t len = value->len < sizeof tail - 1 ? (size_t)value->len : sizeof tail - 1;
    if (value->data)
        memcpy(tail, value->data + value->len - len, len);
    else if (fd < 0 || pread(fd, tail, len, (off_t)(value->len - len)) != (ssize_t)len)
        return 0;
    tail[len] = '\0';
    const char *at = memmem(tail, len, mark, sizeof mark - 1);
    unsigned long ms = at ? strtoul(at + sizeof mark - 1, NULL, 10) : 0;
    return ms < UINT32_MAX ? (uint32_t)ms : 0;
}

/* Returns the descriptor of a spilled argument; they are in the order in which they came. */
static int spill_fd(const struct redis_command *c, size_t arg)
{
    size_t n = 0;
    assert(c->spill_fds && arg < c->n_args && !c->args[arg].data);
    for (size_t i = 0; i < arg; i++)
        n += !c->args[i].data;
    return c->spill_fds[n];
}

struct set_options {
    uint64_t ttl_ms;
    bool keep_existing; /* NX */
    bool only_existing; /* XX */
};

/* Drops a value that cannot be stored. `r` NULL: the connection is gone. */
static void put_dropped(struct redis *r, struct service *s, uint32_t uid,
                        const struct service_put *put, struct redis_op *op, const struct err *e)
{
    if (r)
        redis_lease_give_back(r, put->name);
    stats_add(service_stats(s), STATS_dropped, STORE_OTHER, 1);
    log_user(uid, LOG_LEVEL_WARNING, "a value of uid %u is not stored: %s", (unsigned)uid, e->text);
    op_part_done(op);
}

/* A long value that a pool thread takes apart. */
struct long_put {
    struct service_work work; /* first */
    struct peer peer;
    struct redis_op *op;
    struct service_put put;
    char name[STORE_NAME_MAX];
    uint64_t n_bytes; /* of BUDGET_puts */
};

/* Takes the value apart. Pool thread. */
static void long_put_run(struct service_work *w)
{
    torch_store_take_file_apart(&((struct long_put *)w)->put);
}

static void long_put_done(struct service_work *w)
{
    struct long_put *l = (struct long_put *)w;
    struct redis *r = l->op->redis;
    struct err e = {0};
    budget_give(l->peer.uid, BUDGET_puts, l->n_bytes);
    if (!r)
        l->peer.session = 0; /* the session ended with the connection */
    if (service_put(w->service, &l->peer, &l->put, &e) != 0)
        put_dropped(r, w->service, l->peer.uid, &l->put, l->op, &e);
    free(l);
}

/* Has a pool thread take the value apart before it is put. False if there is no memory. */
static bool put_later(struct redis *r, const struct service_put *put, struct redis_op *op)
{
    assert(op->n_parts == 1 && put->name.len <= STORE_NAME_MAX);
    struct long_put *l = malloc(sizeof *l);
    if (!l)
        return false;
    *l = (struct long_put){.peer = *r->peer, .op = op, .put = *put};
    memcpy(l->name, put->name.data, put->name.len);
    l->put.name.data = l->name;
    if (!service_work_start(r->service, &l->work, long_put_run, long_put_done)) {
        free(l);
        return false;
    }
    service_used(r->service, r->peer, put->name); /* when it is put, the session may be over */
    l->n_bytes = budget_charge(r->peer->uid, BUDGET_puts, put->len) ? put->len : 0;
    connection_hold(r->connection);
    return true;
}

/* Puts a value, taken apart if that is possible. Values of one command keep their order, so of
 * several the long ones are put as they came. */
static int put_or_later(struct redis *r, struct service_put *put, struct redis_op *op,
                        struct err *e)
{
    void *bytes;
    int code = torch_store_take_apart(put, &bytes, e);
    if (code) {
        if (put->fd >= 0)
            close(put->fd);
        return code;
    }
    if (op->n_parts == 1 && torch_store_is_long(put) && put_later(r, put, op))
        return 0;
    code = service_put(r->service, r->peer, put, e);
    free(bytes);
    return code;
}

/* Stores args[name] = args[value] as a part of `op`. */
static void put_value(const struct redis_command *c, size_t name, size_t value,
                      const struct set_options *options, struct redis_op *op)
{
    struct redis *r = c->redis;
    assert(name < c->n_args && value < c->n_args && op->n_parts);
    const struct resp_arg *v = &c->args[value];
    struct err e = {0};
    int fd = v->data ? -1 : spill_fd(c, value);
    int code = 0;
    struct service_put put = {.name = redis_view(&c->args[name]),
                              .kind = wire_kind_of_name(redis_view(&c->args[name])),
                              .keep_existing = options->keep_existing,
                              .cost_ms = cost_of_value(v, fd),
                              .ttl_ms = options->ttl_ms,
                              .data = v->data,
                              .fd = -1,
                              .is_ours = true,
                              .len = v->len,
                              .on_done = on_put,
                              .arg = op};
    if (!redis_is_name(&c->args[name]))
        code = err_set(&e, WARM_EINVALID, "its name has not 1 to %u bytes", STORE_NAME_MAX);
    else if (!v->data && fd < 0)
        code = err_set(&e, WARM_ENOMEM, "there was no room to receive it");
    else if (fd >= 0 && (put.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0)
        code = err_set(&e, WARM_EIO, "no descriptor is left");
    else
        code = put_or_later(r, &put, op, &e);
    if (code)
        put_dropped(r, r->service, r->peer->uid, &put, op, &e);
}

/* ---- SET, MSET, DEL ---- */

/* Reads a time to live from an argument in `unit_ms`. */
static bool parse_ttl(const struct resp_arg *a, uint64_t unit_ms, uint64_t *out)
{
    int64_t n;
    if (!resp_arg_number(a, &n) || n <= 0 || (uint64_t)n > TTL_MAX_MS / unit_ms)
        return false;
    *out = (uint64_t)n * unit_ms;
    return true;
}

/* Reads the options of SET. Returns NULL, or the text of an error. */
static const char *parse_set(const struct redis_command *c, struct set_options *out)
{
    *out = (struct set_options){0};
    for (size_t i = 3; i < c->n_args; i++) {
        const struct resp_arg *a = &c->args[i];
        bool in_seconds = resp_arg_is(a, "EX");
        if ((in_seconds || resp_arg_is(a, "PX")) && i + 1 < c->n_args) {
            if (!parse_ttl(&c->args[++i], in_seconds ? 1000 : 1, &out->ttl_ms))
                return "ERR value is not an integer or out of range";
        } else if (resp_arg_is(a, "NX")) {
            out->keep_existing = true;
        } else if (resp_arg_is(a, "XX")) {
            out->only_existing = true;
        } else {
            return "ERR syntax error";
        }
    }
    return out->keep_existing && out->only_existing ? "ERR syntax error" : NULL;
}

/* Makes an operation. Without memory, counts a dropped value and answers. */
static struct redis_op *op_or_drop(struct redis *r, enum op_answer answer, unsigned n_parts)
{
    struct redis_op *op = op_new(r, answer, n_parts);
    if (op)
        return op;
    stats_add(service_stats(r->service), STATS_dropped, STORE_OTHER, 1);
    op_answer(&(struct redis_op){.redis = r, .answer = answer});
    return NULL;
}

void redis_do_set(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct set_options options;
    struct store_row row;
    const char *wrong = parse_set(c, &options);
    if (wrong) {
        redis_send_error(r, wrong);
        return;
    }
    if (options.only_existing && !redis_peek(r, &c->args[1], &row)) {
        redis_send_null(r);
        return;
    }
    struct redis_op *op = op_or_drop(r, options.keep_existing ? OP_SET_NX : OP_OK, 1);
    if (!op)
        return;
    if (options.keep_existing)
        connection_hold(r->connection);
    put_value(c, 1, 2, &options, op);
}

/* Answers MSET in slices, as MGET; the operation has one more part until the last slice. */
void redis_do_mset(struct redis_command *c)
{
    struct redis *r = c->redis;
    if (c->n_args % 2 == 0) {
        redis_send_error(r, "ERR wrong number of arguments for 'mset' command");
        return;
    }
    if (c->spill_fds &&
        c->n_args > MSET_ARGS_MAX) { /* a long argument's file does not come again */
        redis_send_error(r, "ERR too many values beside a long one");
        return;
    }
    if (r->n_taken == 0) {
        r->mset = op_or_drop(r, OP_OK, 1);
        if (!r->mset)
            return;
        r->n_taken = 1;
    }
    for (bool first = true; r->n_taken < c->n_args; first = false, r->n_taken += 2) {
        if (!first && !c->spill_fds && redis_must_yield(r))
            return;
        r->mset->n_parts++;
        put_value(c, r->n_taken, r->n_taken + 1, &(struct set_options){0}, r->mset);
    }
    struct redis_op *op = r->mset;
    r->mset = NULL;
    r->n_taken = 0;
    connection_hold(r->connection);
    op_part_done(op);
}

/* Answers DEL in slices, as MGET. */
void redis_do_del(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct err e = {0};
    struct store_row row;
    if (redis_cannot_yield(c))
        return;
    if (r->n_taken == 0) {
        r->found = calloc(c->n_args, sizeof *r->found);
        r->n_found = 0;
        r->n_taken = 1;
    }
    for (bool first = true; r->n_taken < c->n_args; first = false, r->n_taken++) {
        if (!first && redis_must_yield(r))
            return;
        if (r->found && redis_peek(r, &c->args[r->n_taken], &row))
            r->found[r->n_found++] = row.id;
    }
    r->n_taken = 0;
    struct redis_op *op = r->n_found ? op_new(r, OP_COUNT, 1) : NULL;
    if (!op) {
        redis_send_number(r, 0);
    } else {
        connection_hold(r->connection);
        if (store_remove(service_store(r->service), r->found, r->n_found, on_report, op, &e) != 0)
            op_part_done(op);
    }
    free(r->found);
    r->found = NULL;
}

/* ---- times to live ---- */

static void do_ttl_in(struct redis_command *c, uint64_t unit_ms)
{
    struct store_row row;
    uint64_t now = clock_wall_ms();
    if (!redis_peek(c->redis, &c->args[1], &row))
        redis_send_number(c->redis, -2);
    else if (row.expires_ms == 0)
        redis_send_number(c->redis, -1);
    else
        redis_send_number(c->redis, row.expires_ms > now
                                        ? (int64_t)((row.expires_ms - now + unit_ms / 2) / unit_ms)
                                        : 0);
}
void redis_do_ttl(struct redis_command *c) { do_ttl_in(c, 1000); }
void redis_do_pttl(struct redis_command *c) { do_ttl_in(c, 1); }

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.c - GET and the other commands that read values: decides whether one answers, waits, or runs again.
 *
 * redis.c runs the commands; the service calls on_get_answer and on_ready.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stddef.h>

#include "daemon/redis/internal.h"
#include "daemon/service/bookkeeping.h"

struct view redis_view(const struct resp_arg *a)
{
    return (struct view){a->data, a->data ? (size_t)a->len : 0};
}

bool redis_is_name(const struct resp_arg *a)
{
    return a->data && a->len >= 1 && a->len <= STORE_NAME_MAX;
}

/* Finds the value of a name in the peer's own space, as service_get, and sends it. That is a hit. */
static int send_found(struct redis *r, const struct resp_arg *name, struct err *e)
{
    struct store_value v;
    struct question q = {.space = WIRE_SPACE_NAME, .key = redis_view(name)};
    if (!redis_is_name(name))
        return err_set(e, WARM_ENOT_FOUND, "no name");
    int code = service_get(r->service, r->peer, &q, &v, e);
    if (code == 0 && !redis_send_stored(r, &v))
        code = err_set(e, WARM_EIO, "no descriptor or memory for a value");
    if (code == 0)
        service_count_hit(r->service, r->peer, &q, &v.row);
    return code;
}

bool redis_peek(struct redis *r, const struct resp_arg *name, struct store_row *out)
{
    return redis_is_name(name) &&
           service_peek(r->service, r->peer, WIRE_SPACE_NAME, redis_view(name), out, NULL) == 0;
}

static void on_get_answer(struct ask *ask, const struct answer *a)
{
    struct redis *r = (struct redis *)(void *)((char *)ask - offsetof(struct redis, wait));
    if (a->kind == ANSWER_WAIT) {
        r->waiting = true;
        connection_hold(r->connection);
        return;
    }
    redis_send_answer(r, a);
    if (r->waiting)
        connection_resume(r->connection);
    r->waiting = false;
}

/* Goes on after a look-up that brought nothing. */
static void wait_begin(struct redis *r, const struct question *q,
                       void (*answer)(struct ask *ask, const struct answer *a))
{
    assert(!r->waiting); /* a connection waits for one value */
    r->wait = (struct ask){.service = r->service, .peer = r->peer, .on_answer = answer};
    service_ask(&r->wait, q);
}

/* Answers with the value, or with null: after a failure of the daemon, too, which is logged and counted. */
void redis_do_get(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct err e = {0};
    const struct resp_arg *name = &c->args[1];
    struct question q = {.space = WIRE_SPACE_NAME,
                         .key = redis_view(name),
                         .wait_ms = service_wait_ms(r->service),
                         .why = &e};
    int code = send_found(r, name, &e);
    if (code == 0)
        return;
    q.mode = q.wait_ms && code != WARM_EBUSY ? ASK_WAIT : ASK_KNOWN;
    if (!redis_is_name(name))
        redis_send_null(r);
    else if (q.mode == ASK_WAIT && redis_name_is_leased(q.key))
        redis_lease_ask(r, q.key, &e);
    else
        wait_begin(r, &q, on_get_answer);
}

/* Runs the command again: its large value is ready, or cannot be had. */
static void on_ready(struct ask *ask, const struct answer *a)
{
    struct redis *r = (struct redis *)(void *)((char *)ask - offsetof(struct redis, wait));
    if (a->kind == ANSWER_WAIT) {
        r->waiting = r->again = true;
        connection_hold(r->connection);
    } else if (r->waiting) {
        r->waiting = false;
        connection_resume(r->connection);
    }
}

/* Verifies a large value before the command reads it. False if the command will run again. True after as many
 * tries as the command has names, even if one is still unverified: that one is then not found. */
static bool value_ready(struct redis_command *c, const struct resp_arg *name)
{
    struct redis *r = c->redis;
    struct store_row row;
    struct store_value v;
    struct err why = {.code = WARM_EBUSY};
    r->again = false;
    if (r->n_tries <= c->n_args && redis_peek(r, name, &row) && row.len > SERVICE_CHECK_MAX &&
        store_get(service_store(r->service), &row.id, &v, NULL) == WARM_EBUSY) {
        r->n_tries++;
        wait_begin(
            r, &(struct question){.space = WIRE_SPACE_NAME, .key = redis_view(name), .why = &why},
            on_ready);
    }
    if (!r->again)
        r->n_tries = 0;
    return !r->again;
}

bool redis_must_yield(struct redis *r)
{
    if (!connection_must_yield(r->connection))
        return false;
    connection_yield(r->connection);
    r->again = true;
    return true;
}

bool redis_cannot_yield(const struct redis_command *c)
{
    if (c->spill_fds)
        redis_send_error(c->redis, "ERR a name is too long");
    return c->spill_fds != NULL;
}

/* Answers MGET in slices: the command stays in the input until the last one. */
void redis_do_mget(struct redis_command *c)
{
    struct redis *r = c->redis;
    if (redis_cannot_yield(c))
        return;
    if (r->n_taken == 0) {
        resp_put_array(redis_begin(r), c->n_args - 1);
        redis_commit(r);
        r->n_taken = 1;
    }
    for (bool first = true; r->n_taken < c->n_args; first = false, r->n_taken++) {
        if (!first && redis_must_yield(r))
            return;
        const struct resp_arg *name = &c->args[r->n_taken];
        struct err e = {0};
        if (!value_ready(c, name))
            return;
        if (send_found(r, name, &e) == 0)
            continue;
        service_count_miss(r->service, r->peer, redis_view(name), &e);
        redis_send_null(r);
    }
    r->n_taken = 0;
}

/* Answers EXISTS in slices, as MGET. */
void redis_do_exists(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct store_row row;
    if (redis_cannot_yield(c))
        return;
    if (r->n_taken == 0) {
        r->n_found = 0;
        r->n_taken = 1;
    }
    for (bool first = true; r->n_taken < c->n_args; first = false, r->n_taken++) {
        if (!first && redis_must_yield(r))
            return;
        r->n_found += redis_peek(r, &c->args[r->n_taken], &row);
    }
    r->n_taken = 0;
    redis_send_number(r, (int64_t)r->n_found);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis.c - the commands of Redis that caches and their tools use, on the asker's own space.
 *
 * Answers come in the order of the commands. A SET is answered when it is durable; SETs that were
 * sent together share a commit. Any other command waits for the SETs before it (the connection is
 * held), so that it sees them. A GET of a key under lease is held until the key is made, or
 * wait_timeout has passed.
 *
 * A training process dies of an error to SET or HELLO. So SET never fails for a reason of ours: what
 * cannot be stored is dropped, counted and logged, and the answer is OK.
 *
 * PyTorch's FX graphs are made under leases, though Redis knows none: the first who asks for one that
 * is not there is answered with null and has the turn, until it SETs that name or hangs up; others
 * are held as above. Its values are JSON around base64: the store has them taken apart (torch_store.h).
 *
 * A long value is not collected in memory: it goes into a memfd as it comes (struct spills), and the
 * store takes that.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/version.h"
#include "daemon/connection_internal.h"
#include "daemon/log.h"
#include "daemon/resp.h"
#include "daemon/torch_store.h"

#define COPY_MAX 4096u       /* bytes of a value that is copied rather than sent from where it is */
#define ROWS_LOOKED_AT 1000u /* in one turn, by SCAN, KEYS and DBSIZE */
#define KEYS_MAX 10000u      /* names that KEYS returns */
#define KEYS_BYTES_MAX (4u << 20)
#define SCANS 256u     /* cursors of SCAN that are remembered */
#define LEASES_MAX 64u /* of a connection */
/* How long a GET of an FX graph waits for who makes it. The URL that `warm run` sets allows 30 s; a
 * client that nobody told waits for its answers for 5. */
#define TORCH_WAIT_MS 25000u
#define TORCH_WAIT_STRANGER_MS 4000u
#define TTL_MAX_MS (100ull * 365 * 24 * 3600 * 1000)

/* A command's long arguments on their way in. */
struct spills {
    struct writer head;           /* the command without them, while it is being put together */
    unsigned n;                   /* complete ones */
    uint64_t left;                /* bytes of the one that comes now, CRLF included; 0: none */
    int fds[RESP_SPILLS_MAX + 1]; /* -1: it could not be kept */
    uint8_t line_end[2];
};

/* KEYS and DBSIZE: a walk over the store in slices. */
struct walk {
    bool active;
    struct store_cursor cursor;
    struct writer names; /* bulk strings */
    uint64_t n_names, n_seen;
};

/* A turn to make something, or the wait for it. */
struct redis_lease {
    struct call call; /* first: on_lease_answer casts back */
    struct redis *redis;
    struct redis_lease *prev, *next;
    bool waits;
};

struct redis {
    struct connection *connection;
    struct service *service;
    const struct peer *peer;
    unsigned version;     /* 2 or 3 */
    struct redis_op *ops; /* what the store is doing for this connection */
    unsigned n_ops;
    bool waiting;       /* `wait` is in flight */
    bool waiting_lease; /* one of `leases` waits */
    struct call wait;
    bool again;            /* the command is run again when `wait` is answered */
    size_t n_tries;        /* of that command */
    struct spills *spills; /* NULL: no command is being put together */
    struct walk walk;
    struct redis_lease *leases;
    unsigned n_leases;
    bool quit;
};

enum op_answer { OP_OK, OP_SET_NX, OP_SETNX, OP_COUNT, OP_NONE, OP_TRUE };

/* Something that the store does: the answer comes when all its parts are done. */
struct redis_op {
    struct redis *redis; /* NULL when the connection is gone */
    struct redis_op *prev, *next;
    enum op_answer answer;
    unsigned n_parts;
    bool existed;
    uint64_t count;
};

/* A command that is being answered. */
struct redis_command {
    struct redis *redis;
    const struct resp_arg *args;
    size_t n_args;
    const int *spill_fds; /* of the spilled arguments, in order */
};

static uint64_t unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- answers ---- */

static struct writer *begin(struct redis *r) { return connection_begin(r->connection); }
static void commit(struct redis *r) { connection_commit(r->connection, NULL, 0); }

static void send_status(struct redis *r, const char *text)
{
    resp_put_status(begin(r), text);
    commit(r);
}

static void send_error(struct redis *r, const char *text)
{
    resp_put_error(begin(r), text);
    commit(r);
}

static void send_number(struct redis *r, int64_t n)
{
    resp_put_number(begin(r), n);
    commit(r);
}

static void send_null(struct redis *r)
{
    resp_put_null(begin(r), r->version);
    commit(r);
}

static void send_bytes(struct redis *r, const void *data, size_t len)
{
    struct writer *w = begin(r);
    if (len <= COPY_MAX) {
        resp_put_bulk(w, data, len);
        commit(r);
        return;
    }
    resp_put_bulk_head(w, len);
    commit(r);
    connection_borrow(r->connection, data, len);
    resp_put_crlf(begin(r));
    commit(r);
}

/* A value that is a file; `fd` is borrowed. */
static void send_file(struct redis *r, int fd, uint64_t len)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) {
        log_warning("a value is not sent: %s", strerror(errno));
        send_null(r);
        return;
    }
    resp_put_bulk_head(begin(r), len);
    commit(r);
    connection_send_file(r->connection, copy, len);
    resp_put_crlf(begin(r));
    commit(r);
}

/* A value as the store has it: `data`, or where that is NULL a file. */
static void send_value(struct redis *r, const void *data, int fd, uint64_t len, uint32_t cost_ms)
{
    struct torch_json json;
    if (!torch_store_put_together(data, fd, len, cost_ms, &json)) {
        if (data)
            send_bytes(r, data, len);
        else
            send_file(r, fd, len);
    } else if (json.bytes) {
        resp_put_bulk(begin(r), json.bytes, json.len);
        commit(r);
        free(json.bytes);
    } else if (json.fd >= 0) {
        send_file(r, json.fd, json.len);
        close(json.fd);
    } else {
        send_null(r);
    }
}

static void send_stored(struct redis *r, const struct store_value *v)
{
    send_value(r, v->data, v->fd, v->row.len, v->row.cost_ms);
}

static void send_artifact(struct redis *r, const struct artifact *a)
{
    send_value(r, a->data, a->fd, a->len, a->cost_ms);
}

/* ---- what the store does for us ---- */

static struct redis_op *op_new(struct redis *r, enum op_answer answer, unsigned n_parts)
{
    struct redis_op *op = malloc(sizeof *op);
    if (!op)
        return NULL;
    *op = (struct redis_op){.redis = r, .next = r->ops, .answer = answer, .n_parts = n_parts};
    if (r->ops)
        r->ops->prev = op;
    r->ops = op;
    r->n_ops++;
    return op;
}

static void op_answer(const struct redis_op *op)
{
    struct redis *r = op->redis;
    if (op->answer == OP_OK || (op->answer == OP_SET_NX && !op->existed))
        send_status(r, "OK");
    else if (op->answer == OP_SET_NX)
        send_null(r);
    else if (op->answer == OP_SETNX || op->answer == OP_TRUE)
        send_number(r, !op->existed);
    else if (op->answer == OP_COUNT)
        send_number(r, (int64_t)op->count);
}

static void op_part_done(struct redis_op *op)
{
    struct redis *r = op->redis;
    if (--op->n_parts)
        return;
    if (r) {
        op_answer(op);
        if (op->next)
            op->next->prev = op->prev;
        *(op->prev ? &op->prev->next : &r->ops) = op->next;
        if (--r->n_ops == 0)
            connection_resume(r->connection);
    }
    free(op);
}

static void on_put(void *arg, int status, bool existed, const struct key *key, const struct err *e)
{
    struct redis_op *op = arg;
    (void)status, (void)key, (void)e; /* the service has logged and counted what failed */
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

/* ---- names and values ---- */

static struct view arg_view(const struct resp_arg *a)
{
    return (struct view){a->data, a->data ? (size_t)a->len : 0};
}

static bool arg_is_name(const struct resp_arg *a)
{
    return a->data && a->len >= 1 && a->len <= STORE_NAME_MAX;
}

static int get_name(struct redis *r, const struct resp_arg *name, struct store_value *out)
{
    if (!arg_is_name(name))
        return WARM_ENOT_FOUND;
    return service_get(r->service, r->peer, WIRE_SPACE_NAME, arg_view(name), NULL, out, NULL);
}

static bool peek_name(struct redis *r, const struct resp_arg *name, struct store_row *out)
{
    return arg_is_name(name) &&
           service_peek(r->service, r->peer, WIRE_SPACE_NAME, arg_view(name), out, NULL) == 0;
}

/* ---- leases: the turn to make what was not there ---- */

static void send_answer(struct redis *r, const struct answer *a)
{
    if (a->kind == ANSWER_VALUE && a->value)
        send_stored(r, a->value);
    else if (a->kind == ANSWER_VALUE)
        send_artifact(r, a->artifact);
    else
        send_null(r);
}

static bool name_is_leased(struct view name)
{
    static const char fx_graphs[] = "pt2:fx-graph";
    size_t len = sizeof fx_graphs - 1;
    return name.len > len && memcmp(name.data, fx_graphs, len) == 0;
}

static struct redis_lease *lease_find(const struct redis *r, const struct store_id *id)
{
    struct redis_lease *l = r->leases;
    while (l && (l->call.id.owner != id->owner || !key_equal(&l->call.id.key, &id->key)))
        l = l->next;
    return l;
}

static void lease_free(struct redis_lease *l)
{
    if (l->next)
        l->next->prev = l->prev;
    *(l->prev ? &l->prev->next : &l->redis->leases) = l->next;
    l->redis->n_leases--;
    free(l);
}

/* The value did not come, or cannot be kept: the next one's turn. */
static void lease_give_back(struct redis *r, struct view name)
{
    struct store_id id = service_name_id(r->peer, name);
    struct redis_lease *l = lease_find(r, &id);
    if (!l)
        return;
    service_drop(&l->call, false);
    lease_free(l);
}

static void on_lease_answer(struct call *call, const struct answer *a)
{
    struct redis_lease *l = (struct redis_lease *)call;
    struct redis *r = l->redis;
    if (a->kind == ANSWER_WAIT) {
        l->waits = r->waiting_lease = true;
        connection_hold(r->connection);
        return;
    }
    if (a->kind != ANSWER_OVER)
        send_answer(r, a); /* null where it is our turn */
    if (l->waits) {
        l->waits = r->waiting_lease = false;
        connection_resume(r->connection);
    }
    if (a->kind != ANSWER_LEASE)
        lease_free(l);
}

/* Answers a GET: with null if it is this client's turn, else when somebody has made it. */
static void lease_ask(struct redis *r, struct view name)
{
    struct store_id id = service_name_id(r->peer, name);
    struct redis_lease *l = NULL;
    if (!lease_find(r, &id) && r->n_leases < LEASES_MAX)
        l = calloc(1, sizeof *l);
    if (!l) { /* it has the turn already */
        service_count_miss(r->service, r->peer, name);
        send_null(r);
        return;
    }
    l->call = (struct call){.service = r->service, .peer = r->peer, .on_answer = on_lease_answer};
    l->redis = r;
    l->next = r->leases;
    if (r->leases)
        r->leases->prev = l;
    r->leases = l;
    r->n_leases++;
    service_ask(&l->call, ASK_LEASE, WIRE_SPACE_NAME, name, NULL,
                r->peer->session ? TORCH_WAIT_MS : TORCH_WAIT_STRANGER_MS);
}

static void leases_free(struct redis *r)
{
    while (r->leases) {
        service_drop(&r->leases->call, false);
        lease_free(r->leases);
    }
}

/* ---- values that are put ---- */

/* The kinds that PyTorch's names tell. */
static enum store_kind kind_of_name(struct view name)
{
    static const struct {
        const char *part;
        enum store_kind kind;
    } parts[] = {{"pt2:autograd", STORE_BACKWARD},
                 {"pt2:fx-graph", STORE_FX_GRAPH},
                 {"pt2:bundled-autotune", STORE_AUTOTUNE},
                 {"pt2:autotune", STORE_AUTOTUNE}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (name.len >= strlen(parts[i].part) &&
            memcmp(name.data, parts[i].part, strlen(parts[i].part)) == 0)
            return parts[i].kind;
    return STORE_OTHER;
}

/* What PyTorch says at the end of its values: {"data": …, "time_taken_ms": 123}. 0 if nothing. */
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

/* The descriptor of a spilled argument: they are numbered in the order in which they came. */
static int spill_fd(const struct redis_command *c, size_t arg)
{
    size_t n = 0;
    for (size_t i = 0; i < arg; i++)
        n += !c->args[i].data;
    return c->spill_fds[n];
}

struct set_options {
    uint64_t ttl_ms;
    bool keep_existing; /* NX */
    bool only_existing; /* XX */
    bool keep_ttl, want_old;
};

static int put_taken_apart(struct redis *r, struct service_put *put, struct err *e)
{
    void *bytes;
    int code = torch_store_take_apart(put, &bytes, e);
    if (code == 0)
        code = service_put(r->service, r->peer, put, e);
    else if (put->fd >= 0)
        close(put->fd);
    free(bytes);
    return code;
}

/* Stores args[name] = args[value] as a part of `op`. What cannot be stored is dropped. */
static void put_value(const struct redis_command *c, size_t name, size_t value,
                      const struct set_options *options, struct redis_op *op)
{
    struct redis *r = c->redis;
    const struct resp_arg *v = &c->args[value];
    struct err e = {0};
    int fd = v->data ? -1 : spill_fd(c, value);
    int code = 0;
    if (!arg_is_name(&c->args[name]))
        code = err_set(&e, WARM_EINVALID, "its name has not 1 to %u bytes", STORE_NAME_MAX);
    else if (!v->data && fd < 0)
        code = err_set(&e, WARM_ENOMEM, "there was no room to receive it");
    if (code == 0) {
        struct service_put put = {.name = arg_view(&c->args[name]),
                                  .kind = kind_of_name(arg_view(&c->args[name])),
                                  .keep_existing = options->keep_existing,
                                  .cost_ms = cost_of_value(v, fd),
                                  .ttl_ms = options->ttl_ms,
                                  .data = v->data,
                                  .fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3),
                                  .len = v->len,
                                  .on_done = on_put,
                                  .arg = op};
        code = fd >= 0 && put.fd < 0 ? err_set(&e, WARM_EIO, "no descriptor is left")
                                     : put_taken_apart(r, &put, &e);
    }
    if (code) {
        lease_give_back(r, arg_view(&c->args[name]));
        stats_add(service_stats(r->service), STATS_dropped, STORE_OTHER, 1);
        log_warning("a value of uid %u is not stored: %s", (unsigned)r->peer->uid, e.text);
        op_part_done(op);
    }
}

/* ---- GET and its kin ---- */

static void on_answer(struct call *call, const struct answer *a)
{
    struct redis *r = (struct redis *)(void *)((char *)call - offsetof(struct redis, wait));
    if (a->kind == ANSWER_WAIT) {
        r->waiting = true;
        connection_hold(r->connection);
        return;
    }
    send_answer(r, a);
    if (r->waiting)
        connection_resume(r->connection);
    r->waiting = false;
}

static struct call *wait_begin(struct redis *r,
                               void (*answer)(struct call *call, const struct answer *a))
{
    r->wait = (struct call){.service = r->service, .peer = r->peer, .on_answer = answer};
    return &r->wait;
}

static void do_get(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct store_value v;
    const struct resp_arg *name = &c->args[1];
    uint64_t wait_ms = service_wait_ms(r->service);
    int code = get_name(r, name, &v);
    if (code == 0)
        send_stored(r, &v);
    else if (!arg_is_name(name))
        send_null(r);
    else if (code == WARM_EBUSY)
        service_get_later(wait_begin(r, on_answer), WIRE_SPACE_NAME, arg_view(name), NULL);
    else if (wait_ms && name_is_leased(arg_view(name)))
        lease_ask(r, arg_view(name));
    else
        service_ask(wait_begin(r, on_answer), wait_ms ? ASK_WAIT : ASK_KNOWN, WIRE_SPACE_NAME,
                    arg_view(name), NULL, wait_ms);
}

/* A large value is ready, or is not to be had: the command that needs it is run again. */
static void on_ready(struct call *call, const struct answer *a)
{
    struct redis *r = (struct redis *)(void *)((char *)call - offsetof(struct redis, wait));
    if (a->kind == ANSWER_WAIT) {
        r->waiting = r->again = true;
        connection_hold(r->connection);
    } else if (r->waiting) {
        r->waiting = false;
        connection_resume(r->connection);
    }
}

/* For commands other than GET that need the values of args[from…]: false if the command has to run
 * again, when a large one is verified. After as many tries as it has values it goes on without. */
static bool values_ready(struct redis_command *c, size_t from, size_t to)
{
    struct redis *r = c->redis;
    struct store_row row;
    struct store_value v;
    r->again = false;
    for (size_t i = from; i < to && r->n_tries <= c->n_args; i++) {
        if (!peek_name(r, &c->args[i], &row) || row.len <= SERVICE_CHECK_MAX ||
            store_get(service_store(r->service), &row.id, &v, NULL) != WARM_EBUSY)
            continue;
        r->n_tries++;
        service_get_later(wait_begin(r, on_ready), WIRE_SPACE_NAME, arg_view(&c->args[i]), NULL);
        if (r->again)
            return false;
    }
    r->n_tries = 0;
    return true;
}

static void send_value_or_null(struct redis *r, const struct resp_arg *name)
{
    struct store_value v;
    if (get_name(r, name, &v) == 0) {
        send_stored(r, &v);
    } else {
        service_count_miss(r->service, r->peer, arg_view(name));
        send_null(r);
    }
}

static void do_mget(struct redis_command *c)
{
    if (!values_ready(c, 1, c->n_args))
        return;
    resp_put_array(begin(c->redis), c->n_args - 1);
    commit(c->redis);
    for (size_t i = 1; i < c->n_args; i++)
        send_value_or_null(c->redis, &c->args[i]);
}

static void do_strlen(struct redis_command *c)
{
    struct store_row row;
    send_number(c->redis, peek_name(c->redis, &c->args[1], &row) ? (int64_t)row.len : 0);
}

static void do_exists(struct redis_command *c)
{
    struct store_row row;
    int64_t n = 0;
    for (size_t i = 1; i < c->n_args; i++)
        n += peek_name(c->redis, &c->args[i], &row);
    send_number(c->redis, n);
}

static void do_type(struct redis_command *c)
{
    struct store_row row;
    send_status(c->redis, peek_name(c->redis, &c->args[1], &row) ? "string" : "none");
}

/* ---- SET and its kin ---- */

/* A time to live from an argument in `unit_ms`, or a moment of Unix time. */
static bool parse_ttl(const struct resp_arg *a, uint64_t unit_ms, bool absolute, uint64_t *out)
{
    int64_t n;
    if (!resp_arg_number(a, &n) || n <= 0 || (uint64_t)n > TTL_MAX_MS / unit_ms)
        return false;
    uint64_t ms = (uint64_t)n * unit_ms, now = unix_ms();
    *out = !absolute ? ms : ms > now ? ms - now : 1;
    return true;
}

/* NULL, or what is wrong. */
static const char *parse_set(const struct redis_command *c, struct set_options *out)
{
    static const struct {
        const char *name;
        uint64_t unit_ms;
        bool absolute;
    } ttls[] = {{"EX", 1000, false}, {"PX", 1, false}, {"EXAT", 1000, true}, {"PXAT", 1, true}};
    *out = (struct set_options){0};
    for (size_t i = 3; i < c->n_args; i++) {
        const struct resp_arg *a = &c->args[i];
        size_t t = 0;
        while (t < 4 && !resp_arg_is(a, ttls[t].name))
            t++;
        if (t < 4 && i + 1 < c->n_args) {
            if (!parse_ttl(&c->args[++i], ttls[t].unit_ms, ttls[t].absolute, &out->ttl_ms))
                return "ERR value is not an integer or out of range";
        } else if (resp_arg_is(a, "NX")) {
            out->keep_existing = true;
        } else if (resp_arg_is(a, "XX")) {
            out->only_existing = true;
        } else if (resp_arg_is(a, "KEEPTTL")) {
            out->keep_ttl = true;
        } else if (resp_arg_is(a, "GET")) {
            out->want_old = true;
        } else {
            return "ERR syntax error";
        }
    }
    if ((out->keep_existing && out->only_existing) || (out->keep_ttl && out->ttl_ms))
        return "ERR syntax error";
    return NULL;
}

/* No memory for so much as the answer's place: the value is dropped. */
static struct redis_op *op_or_drop(struct redis *r, enum op_answer answer, unsigned n_parts)
{
    struct redis_op *op = op_new(r, answer, n_parts);
    if (op)
        return op;
    stats_add(service_stats(r->service), STATS_dropped, STORE_OTHER, 1);
    op_answer(&(struct redis_op){.redis = r, .answer = answer});
    return NULL;
}

static void do_set(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct set_options options;
    struct store_row row;
    enum op_answer answer = OP_OK;
    const char *wrong = parse_set(c, &options);
    if (wrong) {
        send_error(r, wrong);
        return;
    }
    bool exists = (options.only_existing || options.keep_ttl || options.want_old) &&
                  peek_name(r, &c->args[1], &row);
    if (options.keep_ttl && exists && row.expires_ms)
        options.ttl_ms = row.expires_ms > unix_ms() ? row.expires_ms - unix_ms() : 1;
    if (options.want_old && !c->spill_fds && !values_ready(c, 1, 2))
        return;
    if (options.want_old)
        send_value_or_null(r, &c->args[1]);
    if (options.only_existing && !exists) {
        if (!options.want_old)
            send_null(r);
        return;
    }
    if (options.want_old)
        answer = OP_NONE;
    else if (options.keep_existing)
        answer = OP_SET_NX;
    struct redis_op *op = op_or_drop(r, answer, 1);
    if (!op)
        return;
    if (answer != OP_OK)
        connection_hold(r->connection);
    put_value(c, 1, 2, &options, op);
}

static void put_with(struct redis_command *c, size_t value, enum op_answer answer,
                     const struct set_options *options)
{
    struct redis_op *op = op_or_drop(c->redis, answer, 1);
    if (!op)
        return;
    if (answer != OP_OK)
        connection_hold(c->redis->connection);
    put_value(c, 1, value, options, op);
}

static void do_setnx(struct redis_command *c)
{
    put_with(c, 2, OP_SETNX, &(struct set_options){.keep_existing = true});
}

static void do_setex_in(struct redis_command *c, uint64_t unit_ms)
{
    struct set_options options = {0};
    if (parse_ttl(&c->args[2], unit_ms, false, &options.ttl_ms))
        put_with(c, 3, OP_OK, &options);
    else
        send_error(c->redis, "ERR value is not an integer or out of range");
}
static void do_setex(struct redis_command *c) { do_setex_in(c, 1000); }
static void do_psetex(struct redis_command *c) { do_setex_in(c, 1); }

static void do_getset(struct redis_command *c)
{
    if (!c->spill_fds && !values_ready(c, 1, 2))
        return;
    send_value_or_null(c->redis, &c->args[1]);
    put_with(c, 2, OP_NONE, &(struct set_options){0});
}

static void do_mset(struct redis_command *c)
{
    struct redis *r = c->redis;
    if (c->n_args % 2 == 0) {
        send_error(r, "ERR wrong number of arguments for 'mset' command");
        return;
    }
    unsigned n = (unsigned)(c->n_args / 2);
    struct redis_op *op = op_or_drop(r, OP_OK, n);
    if (!op)
        return;
    connection_hold(r->connection);
    for (unsigned i = 0; i < n; i++)
        put_value(c, 1 + 2 * i, 2 + 2 * i, &(struct set_options){0}, op);
}

static void do_del(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct err e = {0};
    struct store_row row;
    size_t n = 0;
    struct store_id *ids = calloc(c->n_args, sizeof *ids);
    for (size_t i = 1; ids && i < c->n_args; i++)
        if (peek_name(r, &c->args[i], &row))
            ids[n++] = row.id;
    struct redis_op *op = n ? op_new(r, OP_COUNT, 1) : NULL;
    if (!op) {
        send_number(r, 0);
    } else {
        connection_hold(r->connection);
        if (store_remove(service_store(r->service), ids, n, on_report, op, &e) != 0)
            op_part_done(op);
    }
    free(ids);
}

static void do_flush(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct err e = {0};
    struct store_filter own = store_filter_all();
    own.owner = r->peer->space;
    struct redis_op *op = op_or_drop(r, OP_OK, 1);
    if (!op)
        return;
    connection_hold(r->connection);
    if (store_evict(service_store(r->service), &own, 0, false, on_report, op, &e) != 0)
        op_part_done(op);
}

/* ---- times to live ---- */

static void do_ttl_in(struct redis_command *c, uint64_t unit_ms)
{
    struct store_row row;
    uint64_t now = unix_ms();
    if (!peek_name(c->redis, &c->args[1], &row))
        send_number(c->redis, -2);
    else if (row.expires_ms == 0)
        send_number(c->redis, -1);
    else
        send_number(c->redis, row.expires_ms > now
                                  ? (int64_t)((row.expires_ms - now + unit_ms / 2) / unit_ms)
                                  : 0);
}
static void do_ttl(struct redis_command *c) { do_ttl_in(c, 1000); }
static void do_pttl(struct redis_command *c) { do_ttl_in(c, 1); }

static void on_rewritten(void *arg, int status, bool existed, const struct err *e)
{
    struct redis_op *op = arg;
    (void)existed, (void)e;
    op->existed |= status != 0; /* answered with 0: not done */
    op_part_done(op);
}

/* Writes an entry anew with another end: rows are never changed in place. */
static void set_expiry(struct redis *r, const struct resp_arg *name, uint64_t expires_ms)
{
    struct store_value v;
    struct err e = {0};
    struct redis_op *op = NULL;
    if (get_name(r, name, &v) != 0 || !(op = op_new(r, OP_TRUE, 1))) {
        send_number(r, 0);
        return;
    }
    struct store_put put = {.row = v.row,
                            .data = v.data,
                            .fd = v.data ? -1 : fcntl(v.fd, F_DUPFD_CLOEXEC, 3),
                            .on_done = on_rewritten,
                            .arg = op};
    put.row.expires_ms = expires_ms;
    connection_hold(r->connection);
    if ((!v.data && put.fd < 0) || store_put(service_store(r->service), &put, &e) != 0) {
        if (put.fd >= 0)
            close(put.fd);
        op->existed = true;
        op_part_done(op);
    }
}

static void do_expire_in(struct redis_command *c, uint64_t unit_ms)
{
    uint64_t ttl_ms;
    if (!values_ready(c, 1, 2))
        return;
    if (parse_ttl(&c->args[2], unit_ms, false, &ttl_ms))
        set_expiry(c->redis, &c->args[1], unix_ms() + ttl_ms);
    else
        send_error(c->redis, "ERR value is not an integer or out of range");
}
static void do_expire(struct redis_command *c) { do_expire_in(c, 1000); }
static void do_pexpire(struct redis_command *c) { do_expire_in(c, 1); }
static void do_persist(struct redis_command *c)
{
    struct store_row row;
    if (!values_ready(c, 1, 2))
        return;
    if (peek_name(c->redis, &c->args[1], &row) && row.expires_ms)
        set_expiry(c->redis, &c->args[1], 0);
    else
        send_number(c->redis, 0);
}

/* ---- walks over the names ---- */

struct name_filter {
    const struct redis *redis;
    struct view pattern; /* empty: all */
    struct writer *out;  /* NULL: only counts */
    uint64_t n, max;
};

static void on_row(void *arg, const struct store_row *row)
{
    struct name_filter *f = arg;
    if (row->id.owner != f->redis->peer->space || row->name.len == 0 || f->n >= f->max)
        return;
    if (f->pattern.len && !resp_glob(f->pattern, row->name))
        return;
    f->n++;
    if (f->out)
        resp_put_bulk(f->out, row->name.data, row->name.len);
}

/* One slice of KEYS or DBSIZE; the command stays in the input until the last one. True if done. */
static bool walk_slice(struct redis *r, struct view pattern, bool names)
{
    struct walk *walk = &r->walk;
    if (!walk->active) {
        *walk = (struct walk){.active = true};
        writer_init(&walk->names, KEYS_BYTES_MAX);
    }
    struct name_filter f = {.redis = r,
                            .pattern = pattern,
                            .out = names ? &walk->names : NULL,
                            .n = walk->n_names,
                            .max = names ? KEYS_MAX : UINT64_MAX};
    int more =
        store_scan(service_store(r->service), &walk->cursor, ROWS_LOOKED_AT, on_row, &f, NULL);
    walk->n_names = f.n;
    if (more > 0 && f.n < f.max && !walk->names.failed) {
        connection_hold(r->connection);
        connection_resume_later(r->connection);
        return false;
    }
    walk->active = false;
    return true;
}

static void do_keys(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct walk *walk = &r->walk;
    if (!walk_slice(r, arg_view(&c->args[1]), true))
        return;
    if (walk->names.failed) {
        send_error(r, "ERR too many keys: use SCAN");
    } else {
        struct writer *w = begin(r);
        resp_put_array(w, walk->n_names);
        writer_bytes(w, walk->names.data, walk->names.len);
        commit(r);
    }
    writer_close(&walk->names);
}

static void do_dbsize(struct redis_command *c)
{
    struct redis *r = c->redis;
    if (!walk_slice(r, (struct view){NULL, 0}, false))
        return;
    writer_close(&r->walk.names);
    send_number(r, (int64_t)r->walk.n_names);
}

/* Redis cursors are numbers, the store's are not: the last ones that were given out, of all
 * connections, since clients may go on with another. Loop thread. */
static struct scan {
    uint64_t number; /* 0: none */
    uint32_t uid;
    struct store_cursor cursor;
} scans[SCANS];
static uint64_t scan_count;

static const struct scan *scan_find(const struct redis *r, uint64_t number)
{
    const struct scan *s = &scans[number % SCANS];
    return s->number == number && s->uid == r->peer->uid ? s : NULL;
}

static uint64_t scan_add(const struct redis *r, const struct store_cursor *cursor)
{
    uint64_t number = ++scan_count;
    scans[number % SCANS] = (struct scan){number, r->peer->uid, *cursor};
    return number;
}

static void send_scan(struct redis *r, uint64_t number, const struct name_filter *f)
{
    char text[24];
    struct writer *w = begin(r);
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    resp_put_array(w, 2);
    resp_put_text(w, text);
    resp_put_array(w, f->n);
    writer_bytes(w, f->out->data, f->out->len);
    commit(r);
}

static void do_scan(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct store_cursor cursor = {{0}};
    struct writer names;
    struct name_filter f = {.redis = r, .out = &names, .max = UINT64_MAX};
    int64_t number;
    if (!resp_arg_number(&c->args[1], &number) || number < 0) {
        send_error(r, "ERR invalid cursor");
        return;
    }
    const struct scan *known = number ? scan_find(r, (uint64_t)number) : NULL;
    if (number && !known) {
        send_error(r, "ERR invalid cursor");
        return;
    }
    if (known)
        cursor = known->cursor;
    for (size_t i = 2; i + 1 < c->n_args; i += 2) /* COUNT and TYPE change nothing here */
        if (resp_arg_is(&c->args[i], "MATCH"))
            f.pattern = arg_view(&c->args[i + 1]);
    writer_init(&names, 0);
    int more = store_scan(service_store(r->service), &cursor, ROWS_LOOKED_AT, on_row, &f, NULL);
    if (names.failed)
        send_error(r, "ERR out of memory");
    else
        send_scan(r, more > 0 ? scan_add(r, &cursor) : 0, &f);
    writer_close(&names);
}

/* ---- the connection and the server ---- */

static void do_ping(struct redis_command *c)
{
    if (c->n_args == 1)
        send_status(c->redis, "PONG");
    else
        send_bytes(c->redis, c->args[1].data, c->args[1].data ? (size_t)c->args[1].len : 0);
}

static void do_echo(struct redis_command *c)
{
    send_bytes(c->redis, c->args[1].data, c->args[1].data ? (size_t)c->args[1].len : 0);
}

static void do_ok(struct redis_command *c) { send_status(c->redis, "OK"); }

/* "warm-session-ID" tells which `warm run` this is. */
static void join_session(struct redis *r, struct view name)
{
    static const char mark[] = "warm-session-";
    size_t len = sizeof mark - 1;
    if (name.len > len && memcmp(name.data, mark, len) == 0)
        connection_join(r->connection,
                        (struct view){(const char *)name.data + len, name.len - len});
}

/* HELLO [2|3 [AUTH user password] [SETNAME name]]: who asks is known by the socket. */
static void do_hello(struct redis_command *c)
{
    struct redis *r = c->redis;
    int64_t version = r->version;
    if (c->n_args > 1 && (!resp_arg_number(&c->args[1], &version) || version < 2 || version > 3))
        version = 3; /* the answer says so */
    r->version = (unsigned)version;
    for (size_t i = 2; i + 1 < c->n_args; i++)
        if (resp_arg_is(&c->args[i], "SETNAME"))
            join_session(r, arg_view(&c->args[i + 1]));
    struct writer *w = begin(r);
    resp_put_map(w, 7, r->version);
    resp_put_text(w, "server");
    resp_put_text(w, "redis");
    resp_put_text(w, "version");
    resp_put_text(w, "7.0.0");
    resp_put_text(w, "proto");
    resp_put_number(w, version);
    resp_put_text(w, "id");
    resp_put_number(w, 1);
    resp_put_text(w, "mode");
    resp_put_text(w, "standalone");
    resp_put_text(w, "role");
    resp_put_text(w, "master");
    resp_put_text(w, "modules");
    resp_put_array(w, 0);
    commit(r);
}

static void do_client(struct redis_command *c)
{
    if (resp_arg_is(&c->args[1], "GETNAME"))
        send_null(c->redis);
    else if (resp_arg_is(&c->args[1], "ID"))
        send_number(c->redis, 1);
    else if (resp_arg_is(&c->args[1], "REPLY"))
        send_error(c->redis, "ERR CLIENT REPLY is not supported");
    else {
        if (resp_arg_is(&c->args[1], "SETNAME") && c->n_args == 3)
            join_session(c->redis, arg_view(&c->args[2]));
        send_status(c->redis, "OK");
    }
}

static void do_reset(struct redis_command *c)
{
    c->redis->version = 2;
    send_status(c->redis, "RESET");
}

static void do_quit(struct redis_command *c)
{
    c->redis->quit = true;
    send_status(c->redis, "OK");
}

static void do_config(struct redis_command *c)
{
    struct redis *r = c->redis;
    char max[24];
    struct store_stats store;
    store_stats(service_store(r->service), &store);
    snprintf(max, sizeof max, "%llu", (unsigned long long)store.max_bytes);
    const char *const settings[][2] = {
        {"save", ""}, {"appendonly", "yes"}, {"maxmemory", max}, {"databases", "1"}};
    if (!resp_arg_is(&c->args[1], "GET") || c->n_args < 3) {
        send_error(r, "ERR only CONFIG GET is supported");
        return;
    }
    struct view wanted = arg_view(&c->args[2]);
    bool match[4];
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        n += match[i] = resp_glob(wanted, (struct view){settings[i][0], strlen(settings[i][0])});
    struct writer *w = begin(r);
    resp_put_map(w, n, r->version);
    for (size_t i = 0; i < 4; i++)
        if (match[i]) {
            resp_put_text(w, settings[i][0]);
            resp_put_text(w, settings[i][1]);
        }
    commit(r);
}

static void do_info(struct redis_command *c)
{
    struct redis *r = c->redis;
    const struct stats *stats = service_stats(r->service);
    struct store_stats store;
    struct writer text;
    store_stats(service_store(r->service), &store);
    writer_init(&text, 0);
    writer_format(&text,
                  "# Server\r\nredis_version:7.0.0\r\nserver_name:warm\r\nwarm_version:%s\r\n"
                  "redis_mode:standalone\r\nprocess_id:%ld\r\nuptime_in_seconds:%llu\r\n\r\n",
                  WARM_VERSION, (long)getpid(),
                  (unsigned long long)((service_now_ms(r->service) - stats->started_ms) / 1000));
    writer_format(&text,
                  "# Memory\r\nmaxmemory:%llu\r\n\r\n# Persistence\r\nloading:0\r\n\r\n"
                  "# Stats\r\nkeyspace_hits:%llu\r\nkeyspace_misses:%llu\r\nevicted_keys:%llu\r\n"
                  "\r\n# Replication\r\nrole:master\r\n\r\n# Keyspace\r\ndb0:keys=%llu\r\n",
                  (unsigned long long)store.max_bytes,
                  (unsigned long long)stats_total(stats, STATS_hits),
                  (unsigned long long)stats_total(stats, STATS_misses),
                  (unsigned long long)store.n_evictions, (unsigned long long)store.n_entries);
    resp_put_bulk(begin(r), text.data, text.len);
    commit(r);
    writer_close(&text);
}

static void do_command(struct redis_command *c);

/* name, arguments at least and at most (the name counts), what it does. The commonest first. */
static const struct redis_entry {
    const char *name;
    size_t min_args, max_args;
    void (*run)(struct redis_command *c);
} redis_table[] = {
    {"get", 2, 2, do_get},
    {"set", 3, 10, do_set},
    {"mget", 2, RESP_ARGS_MAX, do_mget},
    {"mset", 3, RESP_ARGS_MAX, do_mset},
    {"exists", 2, RESP_ARGS_MAX, do_exists},
    {"del", 2, RESP_ARGS_MAX, do_del},
    {"unlink", 2, RESP_ARGS_MAX, do_del},
    {"setex", 4, 4, do_setex},
    {"psetex", 4, 4, do_psetex},
    {"setnx", 3, 3, do_setnx},
    {"getset", 3, 3, do_getset},
    {"ttl", 2, 2, do_ttl},
    {"pttl", 2, 2, do_pttl},
    {"expire", 3, 3, do_expire},
    {"pexpire", 3, 3, do_pexpire},
    {"persist", 2, 2, do_persist},
    {"type", 2, 2, do_type},
    {"strlen", 2, 2, do_strlen},
    {"scan", 2, 10, do_scan},
    {"keys", 2, 2, do_keys},
    {"dbsize", 1, 1, do_dbsize},
    {"flushall", 1, 2, do_flush},
    {"flushdb", 1, 2, do_flush},
    {"ping", 1, 2, do_ping},
    {"echo", 2, 2, do_echo},
    {"hello", 1, 8, do_hello},
    {"auth", 2, 3, do_ok},
    {"client", 2, RESP_ARGS_MAX, do_client},
    {"select", 2, 2, do_ok},
    {"info", 1, RESP_ARGS_MAX, do_info},
    {"config", 2, RESP_ARGS_MAX, do_config},
    {"command", 1, RESP_ARGS_MAX, do_command},
    {"reset", 1, 1, do_reset},
    {"quit", 1, 1, do_quit},
};
#define REDIS_COMMANDS (sizeof redis_table / sizeof *redis_table)

/* redis-cli asks for documents of commands, and does without. */
static void do_command(struct redis_command *c)
{
    struct redis *r = c->redis;
    if (c->n_args > 1 && resp_arg_is(&c->args[1], "COUNT")) {
        send_number(r, (int64_t)REDIS_COMMANDS);
        return;
    }
    struct writer *w = begin(r);
    if (c->n_args > 1 && resp_arg_is(&c->args[1], "DOCS")) {
        resp_put_map(w, 0, r->version);
    } else {
        resp_put_array(w, REDIS_COMMANDS);
        for (size_t i = 0; i < REDIS_COMMANDS; i++)
            resp_put_text(w, redis_table[i].name);
    }
    commit(r);
}

/* ---- commands in order ---- */

static const struct redis_entry *find_entry(const struct resp_arg *name)
{
    for (size_t i = 0; i < REDIS_COMMANDS; i++)
        if (resp_arg_is(name, redis_table[i].name))
            return &redis_table[i];
    return NULL;
}

/* A SET without conditions: its answer is the same whichever of several is durable first. */
static bool is_plain_set(const struct resp_command *c)
{
    if (c->n_args < 3)
        return false;
    if (resp_arg_is(&c->args[0], "setex") || resp_arg_is(&c->args[0], "psetex"))
        return true;
    return resp_arg_is(&c->args[0], "set") &&
           (c->n_args == 3 ||
            (c->n_args == 5 && (resp_arg_is(&c->args[3], "EX") || resp_arg_is(&c->args[3], "PX"))));
}

static void run_command(struct redis *r, const struct resp_command *parsed, const int *spill_fds)
{
    char text[160];
    struct redis_command c = {r, parsed->args, parsed->n_args, spill_fds};
    const struct redis_entry *entry = find_entry(&c.args[0]);
    if (!entry) {
        size_t len = c.args[0].data && c.args[0].len < 64 ? (size_t)c.args[0].len : 0;
        snprintf(text, sizeof text, "ERR unknown command '%.*s'", (int)len,
                 len ? (const char *)c.args[0].data : "");
        send_error(r, text);
    } else if (c.n_args < entry->min_args || c.n_args > entry->max_args) {
        snprintf(text, sizeof text, "ERR wrong number of arguments for '%s' command", entry->name);
        send_error(r, text);
    } else {
        entry->run(&c);
    }
}

static long fail(struct redis *r, const struct err *e)
{
    char text[300];
    snprintf(text, sizeof text, "ERR Protocol error: %s", e->text);
    send_error(r, text);
    return -1;
}

/* ---- long arguments ---- */

static void spills_free(struct redis *r)
{
    struct spills *s = r->spills;
    if (!s)
        return;
    for (unsigned i = 0; i < s->n + (s->left > 0); i++)
        if (s->fds[i] >= 0)
            close(s->fds[i]);
    writer_close(&s->head);
    free(s);
    r->spills = NULL;
}

/* A long argument begins: what came of the command before it is kept. */
static long spill_begin(struct redis *r, const struct resp_command *parsed, const uint8_t *data)
{
    struct err e = {0};
    if (!r->spills) {
        r->spills = calloc(1, sizeof *r->spills);
        if (!r->spills) {
            err_set(&e, WARM_ENOMEM, "out of memory");
            return fail(r, &e);
        }
        writer_init(&r->spills->head, RESP_COMMAND_MAX);
    }
    struct spills *s = r->spills;
    size_t before = s->head.len;
    if (s->n == RESP_SPILLS_MAX) {
        err_set(&e, WARM_ETOO_BIG, "more than %u long arguments", RESP_SPILLS_MAX);
        return fail(r, &e);
    }
    assert(parsed->spill_at >= before); /* behind the header line of the one before */
    writer_bytes(&s->head, data, parsed->spill_at - before);
    if (s->head.failed) {
        err_set(&e, WARM_ETOO_BIG, "command longer than %u bytes", RESP_COMMAND_MAX);
        return fail(r, &e);
    }
    s->fds[s->n] = memfd_create("warm-value", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->fds[s->n] < 0)
        log_warning("a value of %llu bytes is not received: %s",
                    (unsigned long long)parsed->spill_len, strerror(errno));
    s->left = parsed->spill_len + 2;
    return (long)(parsed->spill_at - before);
}

/* Runs the command if it is complete. Returns as resp_parse. */
static long spill_run(struct redis *r, struct err *e)
{
    struct spills *s = r->spills;
    struct resp_command *parsed = connection_command(r->connection);
    long took = resp_parse(s->head.data, s->head.len, s->n, parsed, e);
    if (took > 0) {
        connection_greeted(r->connection);
        run_command(r, parsed, s->fds);
        spills_free(r);
    }
    return took;
}

/* Takes bytes of the long argument that comes now. What cannot be kept is read over. */
static long spill_take(struct redis *r, const uint8_t *data, size_t len)
{
    struct spills *s = r->spills;
    struct err e = {0};
    size_t body = s->left > 2 ? (size_t)(s->left - 2 < len ? s->left - 2 : len) : 0;
    int *fd = &s->fds[s->n];
    for (size_t at = 0; at < body && *fd >= 0;) {
        ssize_t n = write(*fd, data + at, body - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            log_warning("a value is not received: %s", strerror(errno));
            close(*fd);
            *fd = -1;
            break;
        }
        at += (size_t)n;
    }
    s->left -= body;
    size_t taken = body;
    for (; s->left && s->left <= 2 && taken < len; s->left--)
        s->line_end[2 - s->left] = data[taken++];
    if (s->left == 0) {
        s->n++;
        if (memcmp(s->line_end, "\r\n", 2) != 0)
            err_set(&e, WARM_EMALFORMED, "no line end after an argument");
        if (e.code || spill_run(r, &e) < 0) /* mostly it was the last argument */
            return fail(r, &e);
    }
    return (long)taken;
}

/* The rest of a command that has long arguments. */
static long spill_rest(struct redis *r, const uint8_t *data, size_t len)
{
    struct resp_command *parsed = connection_command(r->connection);
    struct spills *s = r->spills;
    struct err e = {0};
    size_t before = s->head.len;
    size_t room = RESP_COMMAND_MAX - before;
    if (len > room)
        len = room;
    writer_bytes(&s->head, data, len);
    if (s->head.failed) {
        err_set(&e, WARM_ENOMEM, "out of memory");
        return fail(r, &e);
    }
    long took = spill_run(r, &e);
    if (took < 0)
        return fail(r, &e);
    if (took > 0)
        return took - (long)before;
    s->head.len = before;
    if (parsed->spill_len)
        return spill_begin(r, parsed, data);
    if (len == room) {
        err_set(&e, WARM_ETOO_BIG, "command longer than %u bytes", RESP_COMMAND_MAX);
        return fail(r, &e);
    }
    return 0;
}

/* ---- a protocol ---- */

static long redis_on_bytes(void *state, const uint8_t *data, size_t len)
{
    struct redis *r = state;
    struct err e = {0};
    if (r->spills && r->spills->left)
        return spill_take(r, data, len);
    if (r->spills) {
        long took = spill_rest(r, data, len);
        return took < 0 || !r->quit ? took : -1;
    }
    struct resp_command *parsed = connection_command(r->connection);
    long took = resp_parse(data, len, 0, parsed, &e);
    if (took < 0)
        return fail(r, &e);
    /* What sees the SETs before it, or takes long to receive, waits for them. */
    if (r->n_ops && ((took > 0 && parsed->n_args && !is_plain_set(parsed)) || parsed->spill_len)) {
        connection_hold(r->connection);
        return 0;
    }
    if (took == 0)
        return parsed->spill_len ? spill_begin(r, parsed, data) : 0;
    if (parsed->n_args == 0)
        return took;
    connection_greeted(r->connection);
    r->again = false;
    run_command(r, parsed, NULL);
    if (r->walk.active || r->again)
        return 0; /* it comes again, for the next slice or when a value is ready */
    return r->quit ? -1 : took;
}

static void *redis_open(struct connection *c)
{
    struct redis *r = calloc(1, sizeof *r);
    if (r) {
        r->connection = c;
        r->service = connection_service(c);
        r->peer = connection_peer(c);
        r->version = 2;
    }
    return r;
}

static bool redis_on_end(void *state)
{
    const struct redis *r = state;
    return r->n_ops > 0 || r->waiting || r->waiting_lease || r->walk.active;
}

static bool redis_is_partial(const void *state)
{
    const struct redis *r = state;
    return r->spills != NULL;
}

static void redis_on_close(void *state)
{
    struct redis *r = state;
    if (r->waiting)
        service_drop(&r->wait, false);
    leases_free(r);
    for (struct redis_op *op = r->ops; op; op = op->next)
        op->redis = NULL;
    if (r->walk.active)
        writer_close(&r->walk.names);
    spills_free(r);
    free(r);
}

const struct protocol redis_protocol = {redis_open, redis_on_bytes, redis_on_end, redis_is_partial,
                                        redis_on_close};

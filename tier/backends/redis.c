/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis.c - redis://[USER@]HOST[:PORT][/DB], with TLS as rediss://…: objects as strings, leases as strings with a
 * time to live. backends.c chooses it.
 *
 *     {v1:ID}:e       an object; its kind comes last
 *     {v1:ID}:l       the lease: the maker's token; l1, l2, … are the slots beside it. One without expiry is none
 *     {v1:ID}:j:JOB   "h" or "m": what the first rank of a job was told, for 10 minutes
 *
 * A request is an op: one round trip. redis_link.c has the two connections: a large value does not hold up the leases.
 * What may go wrong beyond what stands there:
 * 1. The user may not EVAL (NOPERM): there are no leases, and nodes that miss at once make at once.
 * 2. A reply is late: the request ends by its timer; the reply is dropped when it comes.
 *
 * Not hiredis: version 0.14 of Debian 12 has no TLS, and over its libuv adapter a refused connection calls nothing.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "keygen/list.h"
#include "tier/backends/backends.h"
#include "tier/backends/credentials.h"
#include "tier/backends/redis_link.h"
#include "tier/url.h"

#define PENDING_MAX                                                                                \
    (64u << 20) /* bytes of commands that wait for their replies on one connection */
#define LARGE_BYTES (64u << 10)
#define PORT 6379u
#define TICK_MS 10u
#define JOB_MS "600000"
#define ARGS_MAX 12
#define NO_EVAL "the user may not EVAL, so there are no leases"

static const char ask_script[] =
    "local v=redis.call('GETRANGE',KEYS[1],0,ARGV[3]) "
    "local j=KEYS[3] and redis.call('SET',KEYS[3],#v>0 and 'h' or 'm','NX','PX'," JOB_MS ") "
    "local told=KEYS[3] and redis.call('GET',KEYS[3]) "
    "if #v>0 and told~='m' then return {1,v} end "
    "if redis.call('SET',KEYS[2],ARGV[1],'NX','PX',ARGV[2]) then return {2} end "
    "if told then return {4} end " /* another's object would be no answer for this job */
    "local left=redis.call('PTTL',KEYS[2]) if left>=0 then return {3,left} end "
    "redis.call('SET',KEYS[2],ARGV[1],'PX',ARGV[2]) return {2}"; /* no node of ours left it so */
static const char finish_script[] =
    "if ARGV[3]=='0' then redis.call('SET',KEYS[1],ARGV[2]) "
    "else redis.call('SET',KEYS[1],ARGV[2],'PX',ARGV[3]) end "
    "if redis.call('GET',KEYS[2])==ARGV[1] then redis.call('DEL',KEYS[2]) end return 1";
static const char renew_script[] = "if redis.call('GET',KEYS[2])==ARGV[1] then return "
                                   "redis.call('PEXPIRE',KEYS[2],ARGV[2]) end return 0";
static const char release_script[] =
    "if redis.call('GET',KEYS[2])==ARGV[1] then return redis.call('DEL',KEYS[2]) end return 0";

struct redis_backend {
    struct tier_backend base;
    uv_loop_t *loop;
    struct redis_link *link, *large; /* for leases and small values; for large ones */
    struct tls_settings *tls;
    struct tier_url url;
    char credentials[PATH_MAX];
    struct op *ops;
    unsigned n_ops;  /* that are not freed */
    uv_timer_t tick; /* one for all: a timer for each op would cost a turn of the loop to close */
    unsigned n_open; /* links, and the timer */
    bool closing;
    void (*closed)(void *user);
    void *closed_user;
};

struct op {
    struct op *prev, *next;
    struct redis_backend *backend;
    struct tier_request *request; /* NULL: ended */
    uint64_t ends_ms;             /* late, cancelled, or never sent */
    enum tier_outcome given_up;
    char why[TIER_SAID_MAX];
    struct redis_command command;
    bool is_sent;                      /* the link has the command, which holds the op's memory */
    enum tier_outcome trouble_outcome; /* PROBE */
    char trouble[TIER_SAID_MAX];
};

/* ---- the end of an op ---- */

static void backend_settle(struct redis_backend *b)
{
    if (b->n_ops || b->n_open)
        return;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    tls_settings_free(b->tls);
    free(b);
    closed(user);
}

static void op_settle(struct op *o)
{
    struct redis_backend *b = o->backend;
    if (o->is_sent || o->request)
        return;
    assert(b->n_ops);
    free(o);
    b->n_ops--;
    backend_settle(b);
}

/* Ends an op's request. The op is gone then, unless the link still has its command. */
static void op_end(struct op *o, enum tier_outcome outcome, const char *said)
{
    struct tier_request *r = o->request;
    if (!r)
        return;
    LIST_REMOVE(o->backend->ops, o);
    o->request = NULL;
    o->command.unwanted = true;
    r->backend_data = NULL;
    r->outcome = outcome;
    if (outcome != TIER_OK)
        snprintf(r->said, sizeof r->said, "%s", said);
    bool is_sent = o->is_sent; /* then the command's end frees it, perhaps within `done` */
    r->done(r);
    if (!is_sent)
        op_settle(o);
}

/* Ends all that is due, one after the other: an answer may lead to the next request, or to the backend's end. */
static void on_tick(uv_timer_t *tick)
{
    struct redis_backend *b = tick->data;
    uint64_t now = uv_now(b->loop);
    struct op *o;
    do {
        for (o = b->ops; o && o->ends_ms > now; o = o->next)
            ;
        if (o)
            op_end(o, o->given_up, o->why);
    } while (o);
    if (!b->ops)
        uv_timer_stop(&b->tick);
}

/* Ends a request in the loop's next turn. */
static void op_give_up(struct op *o, enum tier_outcome outcome, const char *why)
{
    o->given_up = outcome;
    snprintf(o->why, sizeof o->why, "%s", why);
    o->ends_ms = 0;
    uv_timer_start(&o->backend->tick, on_tick, 0, TICK_MS);
}

/* ---- commands ---- */

/* Writes the key of an object's name, "HH/e-ID" or "probe-HOST"; `suffix` replaces its kind. */
static struct redis_arg write_key(const char *name, const char *suffix, char out[160])
{
    const char *slash = strchr(name, '/'), *kind = slash ? slash + 1 : name;
    size_t len = strcspn(kind, "-");
    const char *id = kind[len] ? kind + len + 1 : kind;
    int n = suffix ? snprintf(out, 160, "{v1:%s}:%s", id, suffix)
                   : snprintf(out, 160, "{v1:%s}:%.*s", id, (int)len, kind);
    return (struct redis_arg){out, (size_t)n};
}

static struct redis_arg number(uint64_t n, char text[24])
{
    return (struct redis_arg){text, (size_t)snprintf(text, 24, "%llu", (unsigned long long)n)};
}

static void add(struct op *o, const struct redis_arg *args, size_t n)
{
    redis_command_add(&o->command, args, n);
}

/* The keys and numbers of one request. */
struct words {
    char e[160], l[160], j[160], ms[24], more[24];
    struct redis_arg key, lease, job, token, value;
};

static void add_probe(struct op *o, const struct words *w)
{
    struct redis_arg set[] = {redis_text("SET"),   w->key,
                              redis_text("probe"), redis_text("PX"),
                              redis_text("60000"), redis_text("NX")};
    struct redis_arg get[] = {redis_text("GETRANGE"), w->key, redis_text("0"), redis_text("16")};
    struct redis_arg eval[] = {redis_text("EVAL"), redis_text(release_script),
                               redis_text("2"),    w->key,
                               w->lease,           w->token};
    struct redis_arg del[] = {redis_text("DEL"), w->key};
    add(o, set, 5);
    add(o, set, 6);
    add(o, get, 4);
    add(o, eval, 6);
    add(o, del, 2);
}

static void add_set(struct op *o, const struct words *w, bool only_if_absent)
{
    struct redis_arg a[ARGS_MAX] = {redis_text("SET"), w->key, w->value};
    char ms[24];
    size_t n = 3;
    if (o->request->expire_ms)
        a[n++] = redis_text("PX"), a[n++] = number(o->request->expire_ms, ms);
    if (only_if_absent)
        a[n++] = redis_text("NX");
    add(o, a, n);
}

static void add_get(struct op *o, const struct words *w)
{
    uint64_t limit = o->request->limit;
    char most[24];
    struct redis_arg get[] = {redis_text("GETRANGE"), w->key, redis_text("0"),
                              number(limit < REDIS_VALUE_MAX ? limit : REDIS_VALUE_MAX, most)};
    add(o, get, 4);
}

static void add_eval(struct op *o, struct words *w)
{
    const struct tier_request *r = o->request;
    const char *script = r->operation == TIER_ASK      ? ask_script
                         : r->operation == TIER_FINISH ? finish_script
                         : r->operation == TIER_RENEW  ? renew_script
                                                       : release_script;
    bool job = r->operation == TIER_ASK && *r->job;
    struct redis_arg a[ARGS_MAX] = {redis_text("EVAL"), redis_text(script),
                                    redis_text(job ? "3" : "2"), w->key, w->lease};
    size_t n = 5;
    if (job)
        a[n++] = w->job;
    a[n++] = w->token;
    if (r->operation == TIER_ASK)
        a[n++] = number(r->lease_ms, w->ms),
        a[n++] = number(r->limit < REDIS_VALUE_MAX ? r->limit : REDIS_VALUE_MAX, w->more);
    else if (r->operation == TIER_FINISH)
        a[n++] = w->value, a[n++] = number(r->expire_ms, w->ms);
    else if (r->operation == TIER_RENEW)
        a[n++] = number(r->lease_ms, w->ms);
    add(o, a, n);
}

static void on_reply(struct redis_command *command, const struct resp_reply *reply);
static void on_command_end(struct redis_command *command, enum tier_outcome outcome,
                           const char *why);

static void op_send(struct op *o)
{
    struct tier_request *r = o->request;
    struct redis_backend *b = o->backend;
    assert(r && !o->is_sent && !o->command.bytes); /* one command of an op at a time */
    bool puts = r->operation == TIER_PUT || r->operation == TIER_FINISH;
    char *value = puts ? malloc(r->length) : NULL, suffix[80];
    struct words w;
    if (puts &&
        (!value || pread(r->fd, value, r->length, (off_t)r->offset) != (ssize_t)r->length)) {
        free(value);
        op_give_up(o, TIER_FAILED, "the object cannot be read");
        return;
    }
    w.key = write_key(r->name, NULL, w.e);
    snprintf(suffix, sizeof suffix, r->slot ? "l%u" : "l", r->slot);
    w.lease = write_key(r->name, suffix, w.l);
    snprintf(suffix, sizeof suffix, "j:%s", r->job);
    w.job = write_key(r->name, suffix, w.j);
    w.token = (struct redis_arg){r->token, TIER_TOKEN_SIZE};
    w.value = (struct redis_arg){value, r->length};
    o->command = (struct redis_command){.on_reply = on_reply, .on_end = on_command_end};
    switch (r->operation) {
    case TIER_PROBE: add_probe(o, &w); break;
    case TIER_GET: add_get(o, &w); break;
    case TIER_PUT: add_set(o, &w, r->only_if_absent); break;
    default: add_eval(o, &w);
    }
    free(value);
    const char *slash = strchr(r->name, '/');
    bool is_large = (slash && slash[1] == 'b') || (puts && r->length > LARGE_BYTES);
    struct redis_link *link = is_large ? b->large : b->link;
    if (puts && redis_link_pending(link) + r->length > PENDING_MAX) {
        free(o->command.bytes);
        o->command.bytes = NULL;
        op_give_up(o, TIER_LATER, "too many objects wait for Redis");
        return;
    }
    o->is_sent = true;
    redis_link_send(link, &o->command);
}

/* ---- replies ---- */

static void end_with_bytes(struct op *o, const struct resp_item *v)
{
    struct tier_request *r = o->request;
    assert(r->result_fd < 0);
    if (v->len > r->limit) {
        op_end(o, TIER_TOO_LARGE, "larger than expected");
        return;
    }
    if (r->may_lend) {
        r->result_data = v->data;
        r->result_length = v->len;
        op_end(o, TIER_OK, "");
        return;
    }
    int fd = memfd_create("warm-tier", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || pwrite(fd, v->data, v->len, 0) != (ssize_t)v->len) {
        if (fd >= 0)
            close(fd);
        op_end(o, TIER_FAILED, "no memory for the object");
        return;
    }
    r->result_fd = fd;
    r->result_length = v->len;
    op_end(o, TIER_OK, "");
}

static void end_waiting(struct op *o, const struct resp_item *left)
{
    o->request->wait_ms = left->number > 0 ? (uint64_t)left->number : 0;
    op_end(o, TIER_WAIT, "another one makes it");
}

static void take_ask(struct op *o, const struct resp_reply *reply)
{
    const struct resp_item *at = reply->items;
    int64_t kind = reply->item.type == RESP_ARRAY && reply->n_items && at->type == RESP_NUMBER
                       ? at->number
                       : 0;
    if (kind == 1 && reply->n_items == 2 && at[1].type == RESP_BULK)
        end_with_bytes(o, &at[1]);
    else if (kind == 2)
        op_end(o, TIER_LEASE, "the lease is ours");
    else if (kind == 3 && reply->n_items == 2 && at[1].type == RESP_NUMBER)
        end_waiting(o, &at[1]);
    else if (kind == 4)
        op_end(o, TIER_ABSENT, "the job began without it");
    else
        op_end(o, TIER_FAILED, "the reply is rubbish");
}

/* Takes one of the replies to a probe: SET, SET NX, GETRANGE, EVAL, DEL. */
static void take_probe(struct op *o, unsigned i, unsigned n, const struct resp_item *item)
{
    struct tier_request *r = o->request;
    struct tier_capabilities *k = &r->capabilities;
    switch (i) {
    case 1: k->writes = item->type == RESP_TEXT; break;
    case 2: k->conditional = k->writes && item->type == RESP_NIL; break;
    case 3: k->reads = item->type == RESP_BULK && (!k->writes || item->len == 5); break;
    case 4: k->leases = item->type == RESP_NUMBER; break; /* EVAL works */
    default: break;
    }
    if (item->type == RESP_ERROR && (i == 3 || !*o->trouble))
        o->trouble_outcome = redis_error(item, o->trouble);
    if (i < n)
        return;
    if (!k->reads) {
        op_end(o, *o->trouble ? o->trouble_outcome : TIER_FAILED,
               *o->trouble ? o->trouble : "the reply is rubbish");
        return;
    }
    if (k->writes && !k->leases)
        snprintf(k->said, sizeof k->said, "reads and writes work; " NO_EVAL);
    else if (*o->trouble)
        snprintf(k->said, sizeof k->said, "reads work; not all else does: %.100s", o->trouble);
    else
        snprintf(k->said, sizeof k->said, "reads, writes and leases work");
    op_end(o, TIER_OK, "");
}

static void take_reply(struct op *o, const struct resp_reply *reply)
{
    const struct resp_item *i = &reply->item;
    enum tier_operation op = o->request->operation;
    if (op == TIER_GET && i->type == RESP_BULK && i->len == 0)
        op_end(o, TIER_ABSENT, "no such key"); /* no object is empty */
    else if (op == TIER_GET && i->type == RESP_BULK)
        end_with_bytes(o, i);
    else if (op == TIER_PUT && i->type == RESP_NIL)
        op_end(o, TIER_EXISTS, "the key is there");
    else if (op == TIER_PUT && i->type == RESP_TEXT)
        op_end(o, TIER_OK, "");
    else if (op == TIER_ASK)
        take_ask(o, reply);
    else if (op > TIER_ASK && i->type == RESP_NUMBER)
        op_end(o, i->number ? TIER_OK : TIER_ABSENT, "the lease is lost");
    else
        op_end(o, TIER_FAILED, "the reply is rubbish");
}

/* True for the answer to EVAL of a server or a user without it. */
static bool lacks_eval(const struct tier_request *r, const struct resp_item *e)
{
    return r->operation >= TIER_ASK && r->operation != TIER_PROBE &&
           (redis_error_is(e, "NOPERM") ||
            (redis_error_is(e, "ERR") && memmem(e->data, e->len, "unknown command", 15)));
}

static struct op *op_of(struct redis_command *command)
{
    return (struct op *)((char *)command - offsetof(struct op, command));
}

static void on_reply(struct redis_command *command, const struct resp_reply *reply)
{
    struct op *o = op_of(command);
    const struct resp_item *item = &reply->item;
    char said[TIER_SAID_MAX];
    if (!o->request)
        return;
    if (o->request->operation == TIER_PROBE) {
        take_probe(o, command->n_seen, command->n_replies, item);
    } else if (item->type == RESP_ERROR && lacks_eval(o->request, item)) {
        op_end(o, TIER_CANNOT, NO_EVAL);
    } else if (item->type == RESP_ERROR) {
        enum tier_outcome outcome = redis_error(item, said);
        o->request->wait_ms = 0;
        op_end(o, redis_error_is(item, "READONLY") ? TIER_LATER : outcome, said);
    } else {
        take_reply(o, reply);
    }
}

static void on_command_end(struct redis_command *command, enum tier_outcome outcome,
                           const char *why)
{
    struct op *o = op_of(command);
    assert(o->is_sent);
    o->is_sent = false;
    if (!o->request)
        op_settle(o);
    else
        op_end(o, outcome == TIER_OK ? TIER_FAILED : outcome,
               outcome == TIER_OK ? "the reply is rubbish" : why);
}

/* ---- requests ---- */

static void redis_start(struct tier_backend *backend, struct tier_request *r)
{
    struct redis_backend *b = (struct redis_backend *)backend;
    assert(!b->closing && r->done && *r->name);
    struct op *o = calloc(1, sizeof *o);
    if (!o)
        abort(); /* warmd starts the helper again */
    bool puts = r->operation == TIER_PUT || r->operation == TIER_FINISH;
    r->result_fd = -1;
    r->backend_data = o;
    if (r->operation == TIER_PROBE)
        r->capabilities = (struct tier_capabilities){0};
    o->backend = b;
    o->request = r;
    LIST_ADD(b->ops, o);
    b->n_ops++;
    uv_update_time(b->loop);
    o->given_up = TIER_FAILED;
    snprintf(o->why, sizeof o->why, "timed out after %llu ms", (unsigned long long)r->timeout_ms);
    o->ends_ms = uv_now(b->loop) + r->timeout_ms;
    if (!uv_is_active((uv_handle_t *)&b->tick))
        uv_timer_start(&b->tick, on_tick, TICK_MS, TICK_MS);
    if (puts && (r->length > REDIS_VALUE_MAX || r->length == 0))
        op_give_up(o, TIER_CANNOT, "an object in Redis has 1 byte to 16 MiB");
    else
        op_send(o);
}

static void redis_cancel(struct tier_backend *backend, struct tier_request *r)
{
    (void)backend;
    if (r->backend_data)
        op_give_up(r->backend_data, TIER_FAILED, "cancelled");
}

static void on_closed(void *user)
{
    struct redis_backend *b = user;
    assert(b->closing && b->n_open);
    b->n_open--;
    backend_settle(b);
}

static void on_tick_closed(uv_handle_t *tick) { on_closed(tick->data); }

static void redis_close(struct tier_backend *backend, void (*closed)(void *user), void *user)
{
    struct redis_backend *b = (struct redis_backend *)backend;
    b->closing = true;
    b->closed = closed;
    b->closed_user = user;
    while (b->ops)
        op_end(b->ops, TIER_FAILED, "closed");
    uv_close((uv_handle_t *)&b->tick, on_tick_closed);
    redis_link_close(b->link, on_closed, b);
    redis_link_close(b->large, on_closed, b);
}

static const struct tier_backend_functions redis_functions = {"redis", redis_start, redis_cancel,
                                                              redis_close};

/* ---- its URL ---- */

/* Checks the URL's parts. */
static bool check_url(const struct tier_url *u, char *why, size_t why_size)
{
    static const char *const known[] = {NULL};
    if (!tier_url_check_options(u, known, why, why_size))
        return false;
    if (strspn(u->path, "0123456789") != strlen(u->path)) {
        snprintf(why, why_size, "the URL of a Redis server is %s://[USER@]HOST[:PORT][/DB]",
                 u->scheme);
        return false;
    }
    return true;
}

struct tier_backend *tier_redis_new(uv_loop_t *loop, const struct tier_settings *settings,
                                    char *why, size_t why_size)
{
    struct redis_backend *b = calloc(1, sizeof *b);
    struct credentials c = {0};
    if (!b)
        abort(); /* warmd starts the helper again */
    struct tier_url *u = &b->url;
    bool good = tier_url_parse(settings->url, u, why, why_size) && check_url(u, why, why_size) &&
                credentials_read_file(settings->credentials, &c, why, why_size);
    if (good && strncmp(u->scheme, "rediss", 6) == 0) {
        b->tls = tls_settings_new(settings->ca, c.certificate, c.key, why, why_size);
        good = b->tls != NULL;
    }
    credentials_wipe(&c);
    if (!good) {
        free(b);
        return NULL;
    }
    snprintf(b->credentials, sizeof b->credentials, "%s",
             settings->credentials ? settings->credentials : "");
    struct redis_link_settings links = {.loop = loop,
                                        .tls = b->tls,
                                        .credentials = b->credentials,
                                        .user = u->user,
                                        .database = u->path,
                                        .min_rate = settings->min_rate};
    b->base.functions = &redis_functions;
    b->loop = loop;
    uv_timer_init(loop, &b->tick);
    b->tick.data = b;
    uint16_t port = u->port ? u->port : PORT;
    b->link = redis_link_new(&links, u->host, port);
    b->large = redis_link_new(&links, u->host, port);
    b->n_open = 3;
    return &b->base;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis.c - redis://[USER@]HOST[:PORT][/DB]: objects as strings, leases as strings with a time to live.
 * backends.c chooses it.
 *
 *     {v1:ID}:e       an object; its kind comes last, so that all keys of an ID are in one slot of a cluster
 *     {v1:ID}:l       the lease: the maker's token; l1, l2, … are the slots beside it
 *     {v1:ID}:j:JOB   "h" or "m": what the first rank of a job was told, for 10 minutes
 *
 * A request is a command on the one connection, without waiting for the replies of those before; replies come in
 * order. The first request connects. What goes wrong:
 * 1. The connection fails or ends: all its requests fail, and those of the next 0.1 to 5 s fail at once.
 * 2. A reply is late: its request ends by the timer; the reply is dropped when it comes.
 * 3. Nothing comes for SILENCE_MS while requests wait: the connection is dropped.
 * 4. The server refuses the password or the database: all requests end with that.
 *
 * Not hiredis: version 0.14 of Debian 12 has no TLS, and over its libuv adapter a refused connection calls nothing.
 *
 * Thread: loop thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tier/backends/backends.h"
#include "tier/resp_reply.h"
#include "tier/url.h"

#define VALUE_MAX (16u << 20)   /* a larger value would hold up the leases on the connection */
#define PENDING_MAX (64u << 20) /* bytes of commands that wait for their replies */
#define TICK_MS 10u
#define SILENCE_MS 5000u
#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 5000u
#define READ_BYTES (64u << 10)
#define JOB_MS "600000"
#define ARGS_MAX 12

static const char ask_script[] =
    "local v=redis.call('GETRANGE',KEYS[1],0,ARGV[3]) "
    "local j=KEYS[3] and redis.call('SET',KEYS[3],#v>0 and 'h' or 'm','NX','PX'," JOB_MS ") "
    "local told=KEYS[3] and redis.call('GET',KEYS[3]) "
    "if #v>0 and told~='m' then return {1,v} end "
    "if redis.call('SET',KEYS[2],ARGV[1],'NX','PX',ARGV[2]) then return {2} end "
    "if told then return {4} end " /* another's object would be no answer for this job */
    "return {3,redis.call('PTTL',KEYS[2])}";
static const char finish_script[] =
    "if ARGV[3]=='0' then redis.call('SET',KEYS[1],ARGV[2]) "
    "else redis.call('SET',KEYS[1],ARGV[2],'PX',ARGV[3]) end "
    "if redis.call('GET',KEYS[2])==ARGV[1] then redis.call('DEL',KEYS[2]) end return 1";
static const char renew_script[] = "if redis.call('GET',KEYS[2])==ARGV[1] then return "
                                   "redis.call('PEXPIRE',KEYS[2],ARGV[2]) end return 0";
static const char release_script[] =
    "if redis.call('GET',KEYS[2])==ARGV[1] then return redis.call('DEL',KEYS[2]) end return 0";

struct redis_backend;

/* A command, or several of one request, and the replies that are still to come. */
struct command {
    struct command *next;
    struct tier_request *request; /* NULL: ended, or the connection's own */
    uint64_t deadline_ms;
    char *bytes; /* until they are written */
    size_t len;
    unsigned n_replies, n_seen;
    bool own; /* AUTH or SELECT */
    enum tier_outcome fail;
    char why[TIER_SAID_MAX];
};

/* A connection. It outlives its place in the backend until libuv lets go of it. */
struct link {
    struct redis_backend *backend;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_getaddrinfo_t resolve;
    bool resolving, ready, dropped;
    char *in;
    size_t in_len, in_cap;
};

struct redis_backend {
    struct tier_backend base;
    uv_loop_t *loop;
    uv_timer_t tick;
    struct link *link; /* NULL: none */
    unsigned n_links;
    struct command *first, **last; /* in the order of their replies */
    size_t pending_bytes;
    uint64_t heard_ms, retry_at_ms, backoff_ms;
    struct command *doomed;      /* are not sent */
    char trouble[TIER_SAID_MAX]; /* why there is no connection */
    enum tier_outcome trouble_outcome;
    struct tier_url url;
    char credentials[512];
    bool closing, tick_closed;
    void (*closed)(void *user);
    void *closed_user;
};

/* ---- answers ---- */

static void command_end(struct command *c, enum tier_outcome outcome, const char *said)
{
    struct tier_request *r = c->request;
    if (!r)
        return;
    c->request = NULL;
    r->backend_data = NULL;
    r->outcome = outcome;
    if (outcome != TIER_OK)
        snprintf(r->said, sizeof r->said, "%.*s", TIER_SAID_MAX - 1, said);
    r->done(r);
}

static struct command *backend_pop(struct redis_backend *b)
{
    struct command *c = b->first;
    b->first = c->next;
    if (!b->first)
        b->last = &b->first;
    b->pending_bytes -= c->len;
    return c;
}

static void command_free(struct command *c)
{
    free(c->bytes);
    free(c);
}

static void backend_settle(struct redis_backend *b)
{
    if (!b->closing || b->n_links || !b->tick_closed)
        return;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    free(b);
    closed(user);
}

static void on_link_closed(uv_handle_t *handle)
{
    struct link *l = handle->data;
    struct redis_backend *b = l->backend;
    free(l->in);
    free(l);
    b->n_links--;
    backend_settle(b);
}

/* Drops the connection. Its requests end with `outcome`, the next ones at once until the time of the next try. */
static void link_drop(struct redis_backend *b, enum tier_outcome outcome, const char *why)
{
    struct link *l = b->link;
    struct command *list = b->first;
    if (l) {
        b->link = NULL;
        l->dropped = true;
        if (l->resolving)
            uv_cancel((uv_req_t *)&l->resolve); /* on_resolved closes it */
        else
            uv_close((uv_handle_t *)&l->tcp, on_link_closed);
    }
    memmove(b->trouble, why, strlen(why) + 1);
    b->trouble_outcome = outcome;
    b->backoff_ms = b->backoff_ms ? b->backoff_ms * 2 : BACKOFF_MIN_MS;
    if (b->backoff_ms > BACKOFF_MAX_MS)
        b->backoff_ms = BACKOFF_MAX_MS;
    b->retry_at_ms = uv_now(b->loop) + b->backoff_ms;
    b->first = NULL;
    b->last = &b->first;
    b->pending_bytes = 0;
    while (list) {
        struct command *next = list->next;
        command_end(list, outcome, b->trouble);
        command_free(list);
        list = next;
    }
}

/* Maps an error of the server; `said` gets its first word alone: the rest may repeat the command. */
static enum tier_outcome error_outcome(const struct resp_item *e, char said[TIER_SAID_MAX])
{
    static const struct {
        const char *word;
        enum tier_outcome outcome;
    } known[] = {
        {"NOAUTH", TIER_DENIED},   {"WRONGPASS", TIER_DENIED},  {"NOPERM", TIER_DENIED},
        {"OOM", TIER_LATER},       {"LOADING", TIER_LATER},     {"BUSY", TIER_LATER},
        {"TRYAGAIN", TIER_LATER},  {"CLUSTERDOWN", TIER_LATER}, {"MASTERDOWN", TIER_LATER},
        {"READONLY", TIER_MISSET}, {"MOVED", TIER_MISSET},      {"ASK", TIER_MISSET},
    };
    size_t len = 0;
    while (len < e->len && len < 32 && e->data[len] > ' ' && e->data[len] < 127)
        len++;
    snprintf(said, TIER_SAID_MAX, "the server says %.*s", (int)len, e->data);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].word) == len && memcmp(known[i].word, e->data, len) == 0)
            return known[i].outcome;
    return TIER_FAILED;
}

static void end_with_bytes(struct command *c, const struct resp_item *v)
{
    struct tier_request *r = c->request;
    if (v->len > r->limit) {
        command_end(c, TIER_TOO_LARGE, "larger than expected");
        return;
    }
    int fd = memfd_create("warm-tier", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || pwrite(fd, v->data, v->len, 0) != (ssize_t)v->len) {
        if (fd >= 0)
            close(fd);
        command_end(c, TIER_FAILED, "no memory for the object");
        return;
    }
    r->result_fd = fd;
    r->result_length = v->len;
    command_end(c, TIER_OK, "");
}

static void end_ask(struct command *c, const struct resp_reply *reply)
{
    const struct resp_item *at = reply->items;
    int64_t kind = reply->item.type == RESP_ARRAY && reply->n_items && at->type == RESP_NUMBER
                       ? at->number
                       : 0;
    if (kind == 1 && reply->n_items == 2 && at[1].type == RESP_BULK) {
        end_with_bytes(c, &at[1]);
    } else if (kind == 2) {
        command_end(c, TIER_LEASE, "the lease is ours");
    } else if (kind == 3 && reply->n_items == 2 && at[1].type == RESP_NUMBER) {
        c->request->wait_ms = at[1].number > 0 ? (uint64_t)at[1].number : 0;
        command_end(c, TIER_WAIT, "another one makes it");
    } else if (kind == 4) {
        command_end(c, TIER_ABSENT, "the job began without it");
    } else {
        command_end(c, TIER_FAILED, "the reply is rubbish");
    }
}

/* Takes one of the five replies to a probe: SET, SET NX, GETRANGE, the lease's EVAL, DEL. */
static void take_probe(struct command *c, const struct resp_item *i)
{
    struct tier_capabilities *k = &c->request->capabilities;
    switch (c->n_seen) {
    case 1: k->writes = i->type == RESP_TEXT; break;
    case 2: k->conditional = k->writes && i->type == RESP_NIL; break;
    case 3: k->reads = i->type == RESP_BULK && (!k->writes || i->len == 5); break;
    case 4: k->leases = i->type == RESP_NUMBER; break;
    default: break;
    }
    if (i->type == RESP_ERROR && (c->n_seen == 3 || !*k->said))
        c->fail = error_outcome(i, k->said);
    if (c->n_seen < c->n_replies)
        return;
    if (!*k->said)
        snprintf(k->said, sizeof k->said, "reads, writes and leases work");
    command_end(c, k->reads ? TIER_OK : c->fail ? c->fail : TIER_FAILED, k->said);
}

static void command_take(struct command *c, const struct resp_reply *reply)
{
    const struct resp_item *i = &reply->item;
    char said[TIER_SAID_MAX];
    enum tier_operation op = c->request->operation;
    if (op == TIER_PROBE)
        take_probe(c, i);
    else if (i->type == RESP_ERROR)
        command_end(c, error_outcome(i, said), said);
    else if (op == TIER_GET && i->type == RESP_BULK && i->len == 0)
        command_end(c, TIER_ABSENT, "no such key"); /* no object is empty */
    else if (op == TIER_GET && i->type == RESP_BULK)
        end_with_bytes(c, i);
    else if (op == TIER_PUT && i->type == RESP_NIL)
        command_end(c, TIER_EXISTS, "the key is there");
    else if (op == TIER_PUT && i->type == RESP_TEXT)
        command_end(c, TIER_OK, "");
    else if (op == TIER_ASK)
        end_ask(c, reply);
    else if (op > TIER_ASK && i->type == RESP_NUMBER)
        command_end(c, i->number ? TIER_OK : TIER_ABSENT, "the lease is lost");
    else
        command_end(c, TIER_FAILED, "the reply is rubbish");
}

/* ---- the connection ---- */

/* Takes one reply. False if the connection is of no use any more. */
static bool backend_take(struct redis_backend *b, const struct resp_reply *reply)
{
    struct command *c = b->first;
    char said[TIER_SAID_MAX];
    if (!c) {
        link_drop(b, TIER_FAILED, "the server sent a reply to no command");
        return false;
    }
    if (c->own && reply->item.type == RESP_ERROR) {
        enum tier_outcome outcome = error_outcome(&reply->item, said);
        link_drop(b, outcome == TIER_FAILED ? TIER_MISSET : outcome, said);
        return false;
    }
    b->backoff_ms = 0;
    c->n_seen++;
    bool whole = c->n_seen == c->n_replies;
    if (whole)
        backend_pop(b);
    if (c->request)
        command_take(c, reply);
    if (whole)
        command_free(c);
    return b->link != NULL;
}

static void on_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *out)
{
    struct link *l = handle->data;
    (void)hint;
    if (l->in_cap - l->in_len < READ_BYTES) {
        size_t cap = l->in_cap + l->in_cap / 2 + READ_BYTES;
        char *in = realloc(l->in, cap);
        if (!in) {
            *out = uv_buf_init(NULL, 0);
            return;
        }
        l->in = in;
        l->in_cap = cap;
    }
    *out = uv_buf_init(l->in + l->in_len, (unsigned)(l->in_cap - l->in_len));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link *l = stream->data;
    struct redis_backend *b = l->backend;
    struct resp_reply reply;
    size_t at = 0;
    long took = 0;
    (void)buf;
    if (n == 0 || l->dropped)
        return;
    if (n < 0) {
        link_drop(b, TIER_FAILED,
                  n == UV_EOF ? "the server closed the connection" : uv_strerror((int)n));
        return;
    }
    l->in_len += (size_t)n;
    b->heard_ms = uv_now(b->loop);
    while ((took = resp_reply_parse(l->in + at, l->in_len - at, VALUE_MAX + 1, &reply)) > 0) {
        if (!backend_take(b, &reply) || b->link != l)
            return;
        at += (size_t)took;
    }
    if (took < 0) {
        link_drop(b, TIER_FAILED, "the server sent rubbish");
        return;
    }
    memmove(l->in, l->in + at, l->in_len - at);
    l->in_len -= at;
    if (l->in_len == 0) {
        free(l->in);
        l->in = NULL;
        l->in_cap = 0;
    }
}

struct written {
    uv_write_t write;
    char *bytes;
};

static void on_written(uv_write_t *write, int status)
{
    struct written *w = (struct written *)write;
    (void)status; /* the reader hears of it, too */
    free(w->bytes);
    free(w);
}

static void command_write(struct redis_backend *b, struct command *c)
{
    struct written *w = calloc(1, sizeof *w);
    if (!w)
        abort(); /* warmd starts the helper again */
    uv_buf_t buf = uv_buf_init(c->bytes, (unsigned)c->len);
    w->bytes = c->bytes;
    c->bytes = NULL;
    if (uv_write(&w->write, (uv_stream_t *)&b->link->tcp, &buf, 1, on_written) != 0)
        on_written(&w->write, UV_EPIPE); /* the timers end the request */
}

struct arg {
    const void *at;
    size_t len;
};

static struct arg text_arg(const char *text) { return (struct arg){text, strlen(text)}; }

/* Adds a command to the bytes of `c`. An argument without an address is the request's value. */
static bool command_add(struct command *c, const struct arg *args, size_t n)
{
    size_t cap = c->len + 32;
    for (size_t i = 0; i < n; i++)
        cap += args[i].len + 32;
    char *bytes = realloc(c->bytes, cap);
    if (!bytes)
        abort(); /* warmd starts the helper again */
    c->bytes = bytes;
    c->len += (size_t)sprintf(bytes + c->len, "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) {
        c->len += (size_t)sprintf(bytes + c->len, "$%zu\r\n", args[i].len);
        if (args[i].at)
            memcpy(bytes + c->len, args[i].at, args[i].len);
        else if (pread(c->request->fd, bytes + c->len, args[i].len, (off_t)c->request->offset) !=
                 (ssize_t)args[i].len)
            return false;
        c->len += args[i].len;
        memcpy(bytes + c->len, "\r\n", 2);
        c->len += 2;
    }
    c->n_replies++;
    return true;
}

/* Reads `name = value` of the file of credentials, at each connection: it may have changed. */
static bool read_credential(const char *path, const char *name, char *out, size_t cap)
{
    char line[1024];
    bool found = false;
    FILE *f = *path ? fopen(path, "re") : NULL;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *at = line + strspn(line, " \t"), *equals = strchr(at, '=');
        size_t len = strcspn(at, " \t=");
        if (!equals || strlen(name) != len || memcmp(at, name, len) != 0)
            continue;
        at = equals + 1 + strspn(equals + 1, " \t");
        at[strcspn(at, "\r\n")] = '\0';
        found = *at && (size_t)snprintf(out, cap, "%s", at) < cap;
    }
    if (f)
        fclose(f);
    explicit_bzero(line, sizeof line);
    return found;
}

/* Puts AUTH and SELECT, as one command, before all others. */
static void add_own(struct redis_backend *b)
{
    char password[512], user[64];
    struct command *c = calloc(1, sizeof *c);
    if (!c)
        abort(); /* warmd starts the helper again */
    c->own = true;
    if (read_credential(b->credentials, "password", password, sizeof password)) {
        bool named = read_credential(b->credentials, "user", user, sizeof user);
        struct arg args[3] = {text_arg("AUTH")};
        size_t n = 1;
        if (named || *b->url.user)
            args[n++] = text_arg(named ? user : b->url.user);
        args[n++] = text_arg(password);
        command_add(c, args, n);
        explicit_bzero(password, sizeof password);
    }
    if (*b->url.path) {
        struct arg args[] = {text_arg("SELECT"), text_arg(b->url.path)};
        command_add(c, args, 2);
    }
    if (!c->n_replies) {
        command_free(c);
        return;
    }
    c->next = b->first;
    if (!c->next)
        b->last = &c->next;
    b->first = c;
    b->pending_bytes += c->len;
}

/* Drops the commands whose requests ended before there was a connection: a lease would have no user. */
static void drop_ended(struct redis_backend *b)
{
    struct command **at = &b->first;
    while (*at) {
        struct command *c = *at;
        if (c->request) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        b->pending_bytes -= c->len;
        command_free(c);
    }
    b->last = at;
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct link *l = connect->data;
    struct redis_backend *b = l->backend;
    char said[TIER_SAID_MAX];
    if (l->dropped)
        return;
    if (status != 0) {
        snprintf(said, sizeof said, "cannot connect: %s", uv_strerror(status));
        link_drop(b, TIER_FAILED, said);
        return;
    }
    l->ready = true;
    b->heard_ms = uv_now(b->loop);
    uv_tcp_nodelay(&l->tcp, 1);
    uv_read_start((uv_stream_t *)&l->tcp, on_alloc, on_read);
    drop_ended(b);
    add_own(b);
    for (struct command *c = b->first; c; c = c->next)
        command_write(b, c);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
    struct link *l = resolve->data;
    struct redis_backend *b = l->backend;
    char said[TIER_SAID_MAX];
    l->resolving = false;
    if (l->dropped) {
        uv_freeaddrinfo(found);
        uv_close((uv_handle_t *)&l->tcp, on_link_closed);
        return;
    }
    if (status == 0)
        status = uv_tcp_connect(&l->connect, &l->tcp, found->ai_addr, on_connected);
    uv_freeaddrinfo(found);
    if (status != 0) {
        snprintf(said, sizeof said, "cannot connect: %s", uv_strerror(status));
        link_drop(b, TIER_FAILED, said);
    }
}

static void link_open(struct redis_backend *b)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[8];
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        abort(); /* warmd starts the helper again */
    l->backend = b;
    l->tcp.data = l->connect.data = l->resolve.data = l;
    uv_tcp_init(b->loop, &l->tcp);
    b->n_links++;
    b->link = l;
    b->heard_ms = uv_now(b->loop);
    snprintf(port, sizeof port, "%u", b->url.hosts[0].port ? b->url.hosts[0].port : 6379u);
    l->resolving =
        uv_getaddrinfo(b->loop, &l->resolve, on_resolved, b->url.hosts[0].name, port, &hints) == 0;
}

/* ---- requests ---- */

/* Ends what is doomed or late. What is late stays in the list: its reply is still to come. */
static void on_tick(uv_timer_t *tick)
{
    struct redis_backend *b = tick->data;
    uint64_t now = uv_now(b->loop);
    struct command *doomed = b->doomed;
    b->doomed = NULL; /* an answer may lead to the next request */
    for (struct command *c = doomed, *after; c; c = after) {
        after = c->next;
        command_end(c, c->fail, c->why);
        command_free(c);
    }
    for (struct command *c = b->first, *next; c; c = next) {
        next = c->next;
        if (c->request && now >= c->deadline_ms)
            command_end(c, TIER_FAILED, c->why);
    }
    if (b->first && !b->link)
        link_drop(b, TIER_FAILED, b->trouble);
    else if (b->first && now - b->heard_ms > SILENCE_MS)
        link_drop(b, TIER_FAILED, "the server is silent");
    if (!b->first && !b->doomed)
        uv_timer_stop(&b->tick);
}

/* Writes the key of an object's name, "HH/e-ID" or "probe-HOST"; `suffix` replaces its kind. */
static size_t write_key(const char *name, const char *suffix, char out[160])
{
    const char *slash = strchr(name, '/'), *kind = slash ? slash + 1 : name;
    size_t len = strcspn(kind, "-");
    const char *id = kind[len] ? kind + len + 1 : kind;
    if (suffix)
        return (size_t)snprintf(out, 160, "{v1:%s}:%s", id, suffix);
    return (size_t)snprintf(out, 160, "{v1:%s}:%.*s", id, (int)len, kind);
}

static struct arg number_arg(uint64_t n, char text[24])
{
    return (struct arg){text, (size_t)snprintf(text, 24, "%llu", (unsigned long long)n)};
}

static bool add_probe(struct command *c, struct arg key, struct arg lease, struct arg token)
{
    struct arg set[] = {text_arg("SET"),   key,           text_arg("probe"), text_arg("PX"),
                        text_arg("60000"), text_arg("NX")};
    struct arg get[] = {text_arg("GETRANGE"), key, text_arg("0"), text_arg("16")};
    struct arg eval[] = {
        text_arg("EVAL"), text_arg(release_script), text_arg("2"), key, lease, token};
    struct arg del[] = {text_arg("DEL"), key};
    return command_add(c, set, 5) && command_add(c, set, 6) && command_add(c, get, 4) &&
           command_add(c, eval, 6) && command_add(c, del, 2);
}

/* Makes the command of a request. False if its value cannot be read. */
static bool add_request(struct command *c, const struct tier_request *r)
{
    char e[160], l[160], j[160], suffix[80], ms[24], more[24];
    snprintf(suffix, sizeof suffix, r->slot ? "l%u" : "l", r->slot);
    struct arg key = {e, write_key(r->name, NULL, e)}, lease = {l, write_key(r->name, suffix, l)};
    struct arg token = {r->token, TIER_TOKEN_SIZE}, value = {NULL, r->length};
    struct arg a[ARGS_MAX];
    size_t n = 0;
    if (r->operation == TIER_PROBE)
        return add_probe(c, key, lease, token);
    if (r->operation == TIER_GET) {
        struct arg get[] = {text_arg("GETRANGE"), key, text_arg("0"),
                            number_arg(r->limit < VALUE_MAX ? r->limit : VALUE_MAX, ms)};
        return command_add(c, get, 4);
    }
    if (r->operation == TIER_PUT) {
        a[n++] = text_arg("SET"), a[n++] = key, a[n++] = value;
        if (r->expire_ms)
            a[n++] = text_arg("PX"), a[n++] = number_arg(r->expire_ms, ms);
        if (r->only_if_absent)
            a[n++] = text_arg("NX");
        return command_add(c, a, n);
    }
    bool job = r->operation == TIER_ASK && *r->job;
    const char *script = r->operation == TIER_ASK      ? ask_script
                         : r->operation == TIER_FINISH ? finish_script
                         : r->operation == TIER_RENEW  ? renew_script
                                                       : release_script;
    a[n++] = text_arg("EVAL"), a[n++] = text_arg(script), a[n++] = text_arg(job ? "3" : "2");
    a[n++] = key, a[n++] = lease;
    if (job) {
        snprintf(suffix, sizeof suffix, "j:%s", r->job);
        a[n++] = (struct arg){j, write_key(r->name, suffix, j)};
    }
    a[n++] = token;
    if (r->operation == TIER_ASK)
        a[n++] = number_arg(r->lease_ms, ms),
        a[n++] = number_arg(r->limit < VALUE_MAX ? r->limit : VALUE_MAX, more);
    else if (r->operation == TIER_FINISH)
        a[n++] = value, a[n++] = number_arg(r->expire_ms, ms);
    else if (r->operation == TIER_RENEW)
        a[n++] = number_arg(r->lease_ms, ms);
    return command_add(c, a, n);
}

/* Ends a request that is not sent, at the next turn of the loop. */
static void command_doom(struct redis_backend *b, struct command *c, enum tier_outcome outcome,
                         const char *why)
{
    c->fail = outcome;
    snprintf(c->why, sizeof c->why, "%s", why);
    c->next = b->doomed;
    b->doomed = c;
    uv_timer_start(&b->tick, on_tick, 0, TICK_MS);
}

static void redis_start(struct tier_backend *backend, struct tier_request *r)
{
    struct redis_backend *b = (struct redis_backend *)backend;
    struct command *c = calloc(1, sizeof *c);
    if (!c)
        abort(); /* warmd starts the helper again */
    bool puts = r->operation == TIER_PUT || r->operation == TIER_FINISH;
    r->result_fd = -1;
    r->backend_data = c;
    c->request = r;
    uv_update_time(b->loop);
    c->deadline_ms = uv_now(b->loop) + r->timeout_ms;
    if (puts && (r->length > VALUE_MAX || r->length == 0)) {
        command_doom(b, c, TIER_CANNOT, "an object in Redis has 1 byte to 16 MiB");
    } else if (puts && b->pending_bytes + r->length > PENDING_MAX) {
        command_doom(b, c, TIER_LATER, "too many objects wait for Redis");
    } else if (!b->link && uv_now(b->loop) < b->retry_at_ms) {
        command_doom(b, c, b->trouble_outcome, b->trouble);
    } else if (!add_request(c, r)) {
        command_doom(b, c, TIER_FAILED, "the object cannot be read");
    } else {
        snprintf(c->why, sizeof c->why, "timed out after %llu ms",
                 (unsigned long long)r->timeout_ms);
        if (!b->first)
            b->heard_ms = uv_now(b->loop);
        *b->last = c;
        b->last = &c->next;
        b->pending_bytes += c->len;
        if (!b->link)
            link_open(b);
        else if (b->link->ready)
            command_write(b, c);
        if (!uv_is_active((uv_handle_t *)&b->tick))
            uv_timer_start(&b->tick, on_tick, TICK_MS, TICK_MS);
    }
}

static void redis_cancel(struct tier_backend *backend, struct tier_request *r)
{
    struct redis_backend *b = (struct redis_backend *)backend;
    struct command *c = r->backend_data;
    if (!c)
        return;
    c->deadline_ms = 0;
    c->fail = TIER_FAILED;
    snprintf(c->why, sizeof c->why, "cancelled");
    uv_timer_start(&b->tick, on_tick, 0, TICK_MS);
}

static void on_tick_closed(uv_handle_t *tick)
{
    struct redis_backend *b = tick->data;
    b->tick_closed = true;
    backend_settle(b);
}

static void redis_close(struct tier_backend *backend, void (*closed)(void *user), void *user)
{
    struct redis_backend *b = (struct redis_backend *)backend;
    b->closing = true;
    b->closed = closed;
    b->closed_user = user;
    link_drop(b, TIER_FAILED, "closed");
    uv_close((uv_handle_t *)&b->tick, on_tick_closed);
}

static const struct tier_backend_functions redis_functions = {"redis", redis_start, redis_cancel,
                                                              redis_close};

struct tier_backend *tier_redis_new(uv_loop_t *loop, const struct tier_settings *settings,
                                    char *why, size_t why_size)
{
    static const char *const known[] = {NULL};
    struct redis_backend *b = calloc(1, sizeof *b);
    if (!b || !tier_url_parse(settings->url, &b->url, why, why_size) ||
        !tier_url_check_options(&b->url, known, why, why_size)) {
        free(b);
        return NULL;
    }
    if (b->url.n_hosts != 1 || strspn(b->url.path, "0123456789") != strlen(b->url.path)) {
        snprintf(why, why_size, "the URL of a Redis server is redis://[USER@]HOST[:PORT][/DB]");
        free(b);
        return NULL;
    }
    snprintf(b->credentials, sizeof b->credentials, "%s",
             settings->credentials ? settings->credentials : "");
    b->base.functions = &redis_functions;
    b->loop = loop;
    b->last = &b->first;
    b->tick.data = b;
    uv_timer_init(loop, &b->tick);
    return &b->base;
}

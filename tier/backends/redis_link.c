/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_link.c - decides when to connect to a Redis server, and to which command a reply belongs. redis.c calls it.
 *
 * 1. The first command resolves the host's name; its addresses are tried in turn.
 * 2. TLS, if wanted; then AUTH and SELECT, as one command before all others.
 * 3. Commands are written as they come. Each reply belongs to the first command that still waits.
 *
 * What may go wrong:
 * 1. No address answers, or the connection ends: all commands end, and those of the next 0.1 to 5 s end at once.
 * 2. Nothing comes for SILENCE_MS while commands wait, or less than min_rate: the connection is dropped.
 * 3. The server refuses the password or the database, or its certificate does not verify: all commands end with that.
 * 4. The file of credentials cannot be read: the same. No password is sent in place of one that is not known.
 *
 * Thread: loop thread.
 */
#include "tier/backends/redis_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "tier/backends/credentials.h"

#define TICK_MS 50u
#define CONNECT_MS 1500u /* for one address, with TLS and the password */
#define SILENCE_MS 5000u
#define RATE_GRACE_MS 2000u
#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 5000u
#define READ_BYTES (64u << 10)

/* A connection. It outlives its place in the link until libuv lets go of it. */
struct connection {
    struct redis_link *link;
    uv_tcp_t tcp;
    uv_connect_t connect;
    struct tls *tls;
    bool dropped, connected;
    char *in; /* plain bytes */
    size_t in_len, in_cap;
    char raw[READ_BYTES]; /* with TLS: bytes of the network */
};

struct redis_link {
    struct redis_link_settings settings;
    char host[256];
    uint16_t port;
    uv_timer_t tick;
    uv_getaddrinfo_t resolve;
    bool resolving, ready, tick_closed, closing;
    struct addrinfo *addresses, *next_address;
    struct connection *connection;       /* NULL: none */
    unsigned n_connections;              /* that libuv still has */
    struct redis_command *first, **last; /* in the order of their replies */
    struct redis_command *doomed;        /* are not sent: on_tick ends them */
    struct redis_command own;            /* AUTH and SELECT */
    bool own_waits;
    size_t pending_bytes, unsent;
    uint64_t began_ms, heard_ms, head_ms, head_bytes; /* head: of the first command that waits */
    uint64_t retry_at_ms, backoff_ms;
    char trouble[TIER_SAID_MAX]; /* why there is no connection */
    enum tier_outcome trouble_outcome;
    void (*closed)(void *user);
    void *closed_user;
};

/* ---- errors ---- */

bool redis_error_is(const struct resp_item *item, const char *word)
{
    size_t len = strlen(word);
    return item->type == RESP_ERROR && item->len >= len && memcmp(item->data, word, len) == 0 &&
           (item->len == len || item->data[len] == ' ');
}

enum tier_outcome redis_error(const struct resp_item *e, char said[TIER_SAID_MAX])
{
    static const struct {
        const char *word;
        enum tier_outcome outcome;
    } known[] = {
        {"NOAUTH", TIER_DENIED},    {"WRONGPASS", TIER_DENIED}, {"NOPERM", TIER_DENIED},
        {"OOM", TIER_LATER},        {"LOADING", TIER_LATER},    {"BUSY", TIER_LATER},
        {"MASTERDOWN", TIER_LATER}, {"READONLY", TIER_MISSET},  {"CLUSTERDOWN", TIER_MISSET},
        {"MOVED", TIER_MISSET},     {"ASK", TIER_MISSET},
    };
    size_t len = 0;
    while (len < e->len && len < 32 && e->data[len] > ' ' && e->data[len] < 127)
        len++;
    snprintf(said, TIER_SAID_MAX, "the server says %.*s", (int)len, e->data);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (redis_error_is(e, known[i].word)) {
            if (known[i].outcome == TIER_MISSET && i + 3 >= sizeof known / sizeof *known)
                snprintf(said, TIER_SAID_MAX, "the server is part of a cluster: use a single one");
            return known[i].outcome;
        }
    return TIER_FAILED;
}

/* ---- the end of a connection ---- */

static void link_settle(struct redis_link *l)
{
    if (!l->closing || l->n_connections || !l->tick_closed || l->resolving)
        return;
    assert(!l->first && !l->doomed && !l->connection && !l->addresses);
    void (*closed)(void *user) = l->closed;
    void *user = l->closed_user;
    free(l);
    closed(user);
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    struct redis_link *l = c->link;
    assert(c->dropped && l->n_connections);
    tls_free(c->tls);
    free(c->in);
    free(c);
    l->n_connections--;
    link_settle(l);
}

static void connection_drop(struct redis_link *l)
{
    struct connection *c = l->connection;
    l->connection = NULL;
    l->ready = l->own_waits = false;
    if (!c)
        return;
    c->dropped = true;
    uv_close((uv_handle_t *)&c->tcp, on_connection_closed);
}

static void command_end(struct redis_command *c, enum tier_outcome outcome, const char *why)
{
    free(c->bytes);
    c->bytes = NULL;
    c->on_end(c, outcome, why);
}

/* Drops the connection. All commands end with `outcome`, the next ones at once until the time of the next try. */
static void link_drop(struct redis_link *l, enum tier_outcome outcome, const char *why)
{
    struct redis_command *list = l->first;
    connection_drop(l);
    if (l->addresses)
        uv_freeaddrinfo(l->addresses);
    l->addresses = l->next_address = NULL;
    memmove(l->trouble, why, strlen(why) + 1);
    l->trouble_outcome = outcome;
    l->backoff_ms = l->backoff_ms ? l->backoff_ms * 2 : BACKOFF_MIN_MS;
    if (l->backoff_ms > BACKOFF_MAX_MS)
        l->backoff_ms = BACKOFF_MAX_MS;
    l->retry_at_ms = uv_now(l->settings.loop) + l->backoff_ms;
    l->first = NULL;
    l->last = &l->first;
    l->pending_bytes = 0;
    char said[TIER_SAID_MAX];
    snprintf(said, sizeof said, "%s", l->trouble);
    while (list) {
        struct redis_command *next = list->next;
        command_end(list, outcome, said);
        list = next;
    }
}

/* ---- bytes out ---- */

struct written {
    uv_write_t write;
    char *bytes;
    struct connection *connection;
};

static void on_written(uv_write_t *write, int status)
{
    struct written *w = (struct written *)write;
    struct connection *c = w->connection;
    if (status == 0 && !c->dropped)
        c->link->heard_ms = uv_now(c->link->settings.loop);
    free(w->bytes); /* the reader hears of a failure, too */
    free(w);
}

/* Writes bytes to the network; takes them. */
static void write_raw(struct connection *c, char *bytes, size_t len)
{
    struct written *w = calloc(1, sizeof *w);
    if (!w)
        abort(); /* warmd starts the helper again */
    uv_buf_t buf = uv_buf_init(bytes, (unsigned)len);
    *w = (struct written){.bytes = bytes, .connection = c};
    if (uv_write(&w->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written) != 0)
        on_written(&w->write, UV_EPIPE);
}

/* Writes what TLS has for the network. */
static void flush_tls(struct connection *c)
{
    for (;;) {
        char *bytes = malloc(READ_BYTES);
        size_t n = bytes ? tls_take(c->tls, bytes, READ_BYTES) : 0;
        if (!n) {
            free(bytes);
            return;
        }
        write_raw(c, bytes, n);
    }
}

static void command_write(struct redis_link *l, struct redis_command *command)
{
    struct connection *c = l->connection;
    char *bytes = command->bytes;
    assert(l->ready && c && bytes); /* each is written once */
    command->bytes = NULL;
    if (!c->tls) {
        write_raw(c, bytes, command->len);
        return;
    }
    tls_write(c->tls, bytes, command->len); /* a failure shows when it reads */
    free(bytes);
    flush_tls(c);
}

void redis_command_add(struct redis_command *c, const struct redis_arg *args, size_t n)
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
        memcpy(bytes + c->len, args[i].at, args[i].len);
        c->len += args[i].len;
        memcpy(bytes + c->len, "\r\n", 2);
        c->len += 2;
    }
    c->n_replies++;
}

/* ---- replies ---- */

static void link_greet(struct redis_link *l);

/* Takes the reply to AUTH or SELECT. False if the connection is of no use. */
static bool take_own(struct redis_link *l, const struct resp_reply *reply)
{
    assert(l->own.n_seen < l->own.n_replies);
    char said[TIER_SAID_MAX];
    if (reply->item.type == RESP_ERROR) {
        enum tier_outcome outcome = redis_error(&reply->item, said);
        link_drop(l, outcome == TIER_FAILED ? TIER_MISSET : outcome, said);
        return false;
    }
    l->own_waits = ++l->own.n_seen < l->own.n_replies;
    return true;
}

/* Takes one reply out of the bytes at `data`. Returns its length, 0, or -1 if the connection is dropped. */
static long take_reply(struct redis_link *l, const char *data, size_t len)
{
    struct redis_command *c = l->first;
    struct connection *connection = l->connection;
    struct resp_reply reply;
    long took = resp_reply_parse(data, len, REDIS_VALUE_MAX + 1, &reply);
    if (took < 0 || (took > 0 && !c && !l->own_waits)) {
        link_drop(l, TIER_FAILED,
                  took < 0 ? "the server sent rubbish" : "the server sent a reply to no command");
        return -1;
    }
    if (took == 0)
        return 0;
    if (l->own_waits)
        return take_own(l, &reply) ? took : -1;
    l->backoff_ms = 0;
    c->n_seen++;
    bool is_last = c->n_seen == c->n_replies;
    if (is_last) { /* the next reply belongs to the next command */
        assert(l->pending_bytes >= c->len);
        l->first = c->next;
        if (!l->first)
            l->last = &l->first;
        l->pending_bytes -= c->len;
        l->head_ms = uv_now(l->settings.loop);
        l->head_bytes = 0;
    }
    c->on_reply(c, &reply);
    if (is_last)
        command_end(c, TIER_OK, "");
    return l->connection == connection ? took : -1;
}

/* Takes all replies that are whole. */
static void take_replies(struct connection *c)
{
    struct redis_link *l = c->link;
    size_t at = 0;
    long took = 0;
    while (at < c->in_len && (took = take_reply(l, c->in + at, c->in_len - at)) > 0)
        at += (size_t)took;
    if (took < 0 || at == 0)
        return;
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    if (c->in_len == 0 && c->in_cap > 2 * READ_BYTES) { /* else it is there for the next reply */
        free(c->in);
        c->in = NULL;
        c->in_cap = 0;
    }
}

/* Makes room for a piece. */
static bool reserve(struct connection *c)
{
    if (c->in_cap - c->in_len >= READ_BYTES)
        return true;
    size_t cap = c->in_cap + c->in_cap / 2 + READ_BYTES;
    char *in = realloc(c->in, cap);
    if (!in)
        return false;
    c->in = in;
    c->in_cap = cap;
    return true;
}

static void on_alloc(uv_handle_t *handle, size_t hint, uv_buf_t *out)
{
    struct connection *c = handle->data;
    (void)hint;
    if (c->tls)
        *out = uv_buf_init(c->raw, sizeof c->raw);
    else if (reserve(c))
        *out = uv_buf_init(c->in + c->in_len, (unsigned)(c->in_cap - c->in_len));
    else
        *out = uv_buf_init(NULL, 0);
}

/* Takes the network's bytes through TLS. False if the connection is dropped. */
static bool take_raw(struct connection *c, size_t n)
{
    struct redis_link *l = c->link;
    long got = 0;
    bool good = tls_receive(c->tls, c->raw, n);
    flush_tls(c);
    if (good && tls_is_ready(c->tls) && !l->ready)
        link_greet(l);
    if (l->connection != c)
        return false;
    while (good && tls_is_ready(c->tls) && reserve(c) &&
           (got = tls_read(c->tls, c->in + c->in_len, c->in_cap - c->in_len)) > 0)
        c->in_len += (size_t)got;
    if (good && got >= 0)
        return true;
    char why[TIER_SAID_MAX];
    bool is_misset = tls_why(c->tls, why, sizeof why);
    link_drop(c->link, is_misset ? TIER_MISSET : TIER_FAILED, why);
    return false;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct connection *c = stream->data;
    struct redis_link *l = c->link;
    (void)buf;
    if (n == 0 || c->dropped)
        return;
    if (n < 0) {
        link_drop(l, TIER_FAILED,
                  n == UV_EOF ? "the server closed the connection" : uv_strerror((int)n));
        return;
    }
    l->heard_ms = uv_now(l->settings.loop);
    l->head_bytes += (size_t)n;
    if (c->tls && !take_raw(c, (size_t)n))
        return;
    if (!c->tls)
        c->in_len += (size_t)n;
    take_replies(c);
}

/* ---- a connection's start ---- */

/* Makes AUTH and SELECT. False if the credentials cannot be read. */
static bool make_own(struct redis_link *l, char *why, size_t why_size)
{
    const struct redis_link_settings *s = &l->settings;
    struct redis_command *own = &l->own;
    struct credentials c;
    free(own->bytes);
    *own = (struct redis_command){0};
    if (!credentials_read_file(s->credentials, &c, why, why_size))
        return false;
    const char *user = *c.user ? c.user : s->user;
    if (*c.password) {
        struct redis_arg args[3] = {redis_text("AUTH")};
        size_t n = 1;
        if (*user)
            args[n++] = redis_text(user);
        args[n++] = redis_text(c.password);
        redis_command_add(own, args, n);
    }
    if (*s->database) {
        struct redis_arg args[] = {redis_text("SELECT"), redis_text(s->database)};
        redis_command_add(own, args, 2);
    }
    credentials_wipe(&c);
    return true;
}

/* Drops the commands that nobody waits for: a lease would have no user. */
static void drop_unwanted(struct redis_link *l)
{
    struct redis_command **at = &l->first, *list = NULL;
    while (*at) {
        struct redis_command *c = *at;
        if (!c->unwanted) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        l->pending_bytes -= c->len;
        c->next = list;
        list = c;
    }
    l->last = at;
    while (list) {
        struct redis_command *next = list->next;
        command_end(list, TIER_FAILED, "nobody waits");
        list = next;
    }
}

/* Sends what waited for the connection. */
static void link_greet(struct redis_link *l)
{
    assert(l->connection && !l->ready);
    char why[TIER_SAID_MAX];
    if (!make_own(l, why, sizeof why)) {
        link_drop(l, TIER_DENIED, why);
        return;
    }
    l->ready = true;
    l->heard_ms = l->head_ms = uv_now(l->settings.loop);
    l->head_bytes = 0;
    l->own_waits = l->own.n_replies > 0;
    drop_unwanted(l);
    if (l->own_waits)
        command_write(l, &l->own);
    for (struct redis_command *c = l->first; c; c = c->next)
        command_write(l, c);
}

static void connect_next(struct redis_link *l, int status);

static void on_connected(uv_connect_t *connect, int status)
{
    struct connection *c = connect->data;
    struct redis_link *l = c->link;
    if (c->dropped)
        return;
    if (status != 0) {
        connect_next(l, status);
        return;
    }
    c->connected = true;
    uv_tcp_nodelay(&c->tcp, 1);
    uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    if (!l->settings.tls) {
        link_greet(l);
        return;
    }
    c->tls = tls_new(l->settings.tls, l->host);
    flush_tls(c);
}

/* Tries the host's next address. `status` says why the one before was none. */
static void connect_next(struct redis_link *l, int status)
{
    char said[TIER_SAID_MAX];
    connection_drop(l);
    assert(!l->ready);
    while (l->next_address) {
        struct addrinfo *address = l->next_address;
        struct connection *c = calloc(1, sizeof *c);
        if (!c)
            abort(); /* warmd starts the helper again */
        l->next_address = address->ai_next;
        c->link = l;
        c->tcp.data = c->connect.data = c;
        uv_tcp_init(l->settings.loop, &c->tcp);
        l->n_connections++;
        l->connection = c;
        l->began_ms = uv_now(l->settings.loop);
        status = uv_tcp_connect(&c->connect, &c->tcp, address->ai_addr, on_connected);
        if (status == 0)
            return;
        connection_drop(l);
    }
    snprintf(said, sizeof said, "cannot connect: %s", uv_strerror(status));
    link_drop(l, TIER_FAILED, said);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
    struct redis_link *l = resolve->data;
    char said[TIER_SAID_MAX];
    l->resolving = false;
    if (l->closing) {
        uv_freeaddrinfo(found);
        link_settle(l);
    } else if (status != 0) {
        snprintf(said, sizeof said, "cannot find the host %.60s: %s", l->host, uv_strerror(status));
        link_drop(l, TIER_FAILED, said);
    } else {
        l->addresses = l->next_address = found;
        connect_next(l, UV_EADDRNOTAVAIL);
    }
}

static void link_open(struct redis_link *l)
{
    assert(!l->connection && !l->resolving && !l->closing);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[8];
    if (l->addresses)
        uv_freeaddrinfo(l->addresses);
    l->addresses = l->next_address = NULL;
    l->heard_ms = l->began_ms = uv_now(l->settings.loop);
    snprintf(port, sizeof port, "%u", l->port);
    l->resolving =
        uv_getaddrinfo(l->settings.loop, &l->resolve, on_resolved, l->host, port, &hints) == 0;
}

/* ---- commands ---- */

static bool is_slow(const struct redis_link *l, uint64_t now)
{
    uint64_t rate = l->settings.min_rate;
    return rate && l->head_bytes > 0 &&
           now - l->head_ms > RATE_GRACE_MS + l->head_bytes * 1000 / rate;
}

/* Ends what is doomed, and a connection that hangs. */
static void on_tick(uv_timer_t *tick)
{
    struct redis_link *l = tick->data;
    uint64_t now = uv_now(l->settings.loop);
    struct redis_command *doomed = l->doomed;
    char trouble[TIER_SAID_MAX];
    snprintf(trouble, sizeof trouble, "%s", l->trouble);
    enum tier_outcome outcome = l->trouble_outcome;
    l->doomed = NULL; /* an end may lead to the next command */
    for (struct redis_command *next; doomed; doomed = next) {
        next = doomed->next;
        command_end(doomed, outcome, trouble);
    }
    size_t unsent = l->connection ? l->connection->tcp.write_queue_size : 0;
    if (unsent < l->unsent)
        l->heard_ms = now; /* a long upload moves */
    l->unsent = unsent;
    if (l->first && !l->connection && !l->resolving)
        link_drop(l, TIER_FAILED, "cannot look for the host: it is no name");
    else if (!l->ready && l->connection && now - l->began_ms > CONNECT_MS)
        connect_next(l, UV_ETIMEDOUT);
    else if (l->ready && l->first && now - l->heard_ms > SILENCE_MS)
        link_drop(l, TIER_FAILED, "the server is silent");
    else if (l->ready && l->first && is_slow(l, now))
        link_drop(l, TIER_FAILED, "the server is slower than the smallest rate");
    if (!l->first && !l->doomed && (l->ready || !l->connection))
        uv_timer_stop(&l->tick);
}

bool redis_link_is_off(const struct redis_link *l)
{
    return !l->connection && !l->resolving && uv_now(l->settings.loop) < l->retry_at_ms;
}

void redis_link_send(struct redis_link *l, struct redis_command *c)
{
    assert(c->bytes && c->len && c->n_replies && c->on_reply && c->on_end && !l->closing);
    uint64_t now = uv_now(l->settings.loop);
    c->next = NULL;
    c->n_seen = 0;
    if (redis_link_is_off(l)) {
        c->next = l->doomed;
        l->doomed = c;
        uv_timer_start(&l->tick, on_tick, 0, TICK_MS);
        return;
    }
    if (!l->first) {
        l->heard_ms = l->head_ms = now;
        l->head_bytes = 0;
    }
    *l->last = c;
    l->last = &c->next;
    l->pending_bytes += c->len;
    if (l->ready)
        command_write(l, c);
    else if (!l->connection && !l->resolving)
        link_open(l);
    if (!uv_is_active((uv_handle_t *)&l->tick))
        uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS);
}

size_t redis_link_pending(const struct redis_link *l) { return l->pending_bytes; }

struct redis_link *redis_link_new(const struct redis_link_settings *settings, const char *host,
                                  uint16_t port)
{
    assert(*host && port);
    struct redis_link *l = calloc(1, sizeof *l);
    if (!l)
        abort(); /* warmd starts the helper again */
    l->settings = *settings;
    snprintf(l->host, sizeof l->host, "%s", host);
    l->port = port;
    l->last = &l->first;
    l->tick.data = l->resolve.data = l;
    uv_timer_init(settings->loop, &l->tick);
    return l;
}

static void on_tick_closed(uv_handle_t *tick)
{
    struct redis_link *l = tick->data;
    l->tick_closed = true;
    link_settle(l);
}

void redis_link_close(struct redis_link *l, void (*closed)(void *user), void *user)
{
    assert(!l->closing && closed);
    l->closing = true;
    l->closed = closed;
    l->closed_user = user;
    link_drop(l, TIER_FAILED, "closed");
    for (struct redis_command *c = l->doomed, *next; c; c = next) {
        next = c->next;
        command_end(c, TIER_FAILED, "closed");
    }
    l->doomed = NULL;
    free(l->own.bytes);
    l->own.bytes = NULL;
    if (l->resolving)
        uv_cancel((uv_req_t *)&l->resolve); /* on_resolved comes all the same */
    uv_close((uv_handle_t *)&l->tick, on_tick_closed);
}

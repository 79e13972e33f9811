/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis.c - decides in which order the commands of a RESP connection run, and answers those about the
 * connection and the server.
 *
 *     redis.c   commands in the order in which they come; the connection and the server
 *     long.c    arguments that do not fit in memory
 *     get.c     GET, MGET, EXISTS …      lease.c   who makes a value
 *     set.c     SET, MSET, DEL, TTL      keys.c    SCAN, DBSIZE
 *     answer.c  the answers
 *
 * Answers come in the order of the commands. A SET is answered when it is durable; SETs that were
 * sent together share a commit. Any other command waits for the SETs before it (the connection is
 * held), so that it sees them. A GET of a key under lease is held until the key is made, or
 * wait_timeout has passed.
 *
 * A training process dies of an error to SET or HELLO. So no fault of the daemon's fails a SET. A
 * value that cannot be stored is dropped, counted and logged, and the answer is OK.
 *
 * connection.c calls it through redis_protocol.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/version.h"
#include "daemon/net/connection.h"
#include "daemon/net/protocols.h"
#include "daemon/redis/internal.h"
#include "daemon/users/budget.h"

/* ---- the connection and the server ---- */

void redis_do_ping(struct redis_command *c)
{
    if (c->n_args == 1)
        redis_send_status(c->redis, "PONG");
    else
        redis_send_bytes(c->redis, c->args[1].data, c->args[1].data ? (size_t)c->args[1].len : 0);
}

void redis_do_echo(struct redis_command *c)
{
    redis_send_bytes(c->redis, c->args[1].data, c->args[1].data ? (size_t)c->args[1].len : 0);
}

void redis_do_ok(struct redis_command *c) { redis_send_status(c->redis, "OK"); }

/* Joins the session of a `warm run`, whose name is "warm-session-ID". */
static void join_session(struct redis *r, struct view name)
{
    static const char mark[] = "warm-session-";
    size_t len = sizeof mark - 1;
    if (name.len > len && memcmp(name.data, mark, len) == 0)
        connection_join(r->connection,
                        (struct view){(const char *)name.data + len, name.len - len});
}

/* Answers HELLO [2|3 [AUTH user password] [SETNAME name]]. The socket tells the user, so AUTH
 * changes nothing. */
void redis_do_hello(struct redis_command *c)
{
    struct redis *r = c->redis;
    int64_t version = r->version;
    if (c->n_args > 1 && (!resp_arg_number(&c->args[1], &version) || version < 2 || version > 3))
        version = 3; /* the answer is in version 3 */
    r->version = (unsigned)version;
    for (size_t i = 2; i + 1 < c->n_args; i++)
        if (resp_arg_is(&c->args[i], "SETNAME"))
            join_session(r, redis_view(&c->args[i + 1]));
    struct writer *w = redis_begin(r);
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
    redis_commit(r);
}

void redis_do_client(struct redis_command *c)
{
    if (resp_arg_is(&c->args[1], "GETNAME"))
        redis_send_null(c->redis);
    else if (resp_arg_is(&c->args[1], "ID"))
        redis_send_number(c->redis, 1);
    else if (resp_arg_is(&c->args[1], "REPLY"))
        redis_send_error(c->redis, "ERR CLIENT REPLY is not supported");
    else {
        if (resp_arg_is(&c->args[1], "SETNAME") && c->n_args == 3)
            join_session(c->redis, redis_view(&c->args[2]));
        redis_send_status(c->redis, "OK");
    }
}

void redis_do_quit(struct redis_command *c)
{
    c->redis->quit = true;
    redis_send_status(c->redis, "OK");
}

void redis_do_config(struct redis_command *c)
{
    struct redis *r = c->redis;
    char max[24];
    struct store_stats store;
    store_stats(service_store(r->service), &store);
    snprintf(max, sizeof max, "%llu", (unsigned long long)store.max_bytes);
    const char *const settings[][2] = {
        {"save", ""}, {"appendonly", "yes"}, {"maxmemory", max}, {"databases", "1"}};
    if (!resp_arg_is(&c->args[1], "GET") || c->n_args < 3) {
        redis_send_error(r, "ERR only CONFIG GET is supported");
        return;
    }
    struct view wanted = redis_view(&c->args[2]);
    bool match[4];
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        n += match[i] = resp_glob(wanted, (struct view){settings[i][0], strlen(settings[i][0])});
    struct writer *w = redis_begin(r);
    resp_put_map(w, n, r->version);
    for (size_t i = 0; i < 4; i++)
        if (match[i]) {
            resp_put_text(w, settings[i][0]);
            resp_put_text(w, settings[i][1]);
        }
    redis_commit(r);
}

void redis_do_info(struct redis_command *c)
{
    struct redis *r = c->redis;
    const struct stats *stats = service_stats(r->service);
    struct store_stats store;
    struct writer text;
    uint64_t n_names;
    if (redis_cannot_yield(c) || !redis_count_names(r, &n_names))
        return;
    store_stats(service_store(r->service), &store);
    writer_init(&text, 0);
    writer_format(&text,
                  "# Server\r\nredis_version:7.0.0\r\nserver_name:warm\r\nwarm_version:%s\r\n"
                  "redis_mode:standalone\r\nprocess_id:%ld\r\nuptime_in_seconds:%llu\r\n\r\n",
                  WARM_VERSION, (long)getpid(),
                  (unsigned long long)((service_now_ms(r->service) - stats->started_ms) / 1000));
    writer_format(&text,
                  "# Clients\r\nconnected_clients:%llu\r\n\r\n"
                  "# Memory\r\nused_memory:%llu\r\nmaxmemory:%llu\r\n\r\n"
                  "# Persistence\r\nloading:0\r\n\r\n"
                  "# "
                  "Stats\r\ntotal_commands_processed:%llu\r\nkeyspace_hits:%llu\r\nkeyspace_misses:"
                  "%llu\r\nevicted_keys:%llu\r\n"
                  "\r\n# Replication\r\nrole:master\r\n\r\n# Keyspace\r\ndb0:keys=%llu\r\n",
                  (unsigned long long)budget_used_by_all(BUDGET_connections),
                  (unsigned long long)store.n_bytes, (unsigned long long)store.max_bytes,
                  (unsigned long long)(stats_total(stats, STATS_hits) +
                                       stats_total(stats, STATS_misses) +
                                       stats_total(stats, STATS_puts)),
                  (unsigned long long)stats_total(stats, STATS_hits),
                  (unsigned long long)stats_total(stats, STATS_misses),
                  (unsigned long long)store.n_evictions, (unsigned long long)n_names);
    resp_put_bulk(redis_begin(r), text.data, text.len);
    redis_commit(r);
    writer_close(&text);
}

static const struct redis_entry {
    const char *name;
    size_t min_args, max_args;
    void (*run)(struct redis_command *c);
} redis_table[] = {
#define X(name, min_args, max_args, run) {#name, min_args, max_args, redis_do_##run},
    REDIS_COMMAND_LIST(X)
#undef X
};
#define REDIS_COMMANDS (sizeof redis_table / sizeof *redis_table)

/* Answers COMMAND with the names, COMMAND COUNT with their number, and COMMAND DOCS with an empty list:
 * redis-cli asks for documents, and needs none. */
void redis_do_command(struct redis_command *c)
{
    struct redis *r = c->redis;
    if (c->n_args > 1 && resp_arg_is(&c->args[1], "COUNT")) {
        redis_send_number(r, (int64_t)REDIS_COMMANDS);
        return;
    }
    struct writer *w = redis_begin(r);
    if (c->n_args > 1 && resp_arg_is(&c->args[1], "DOCS")) {
        resp_put_map(w, 0, r->version);
    } else {
        resp_put_array(w, REDIS_COMMANDS);
        for (size_t i = 0; i < REDIS_COMMANDS; i++)
            resp_put_text(w, redis_table[i].name);
    }
    redis_commit(r);
}

/* ---- commands in order ---- */

static const struct redis_entry *find_entry(const struct resp_arg *name)
{
    for (size_t i = 0; i < REDIS_COMMANDS; i++)
        if (resp_arg_is(name, redis_table[i].name))
            return &redis_table[i];
    return NULL;
}

/* True for a SET without NX or XX: several of them may share a commit. */
static bool is_plain_set(const struct resp_command *c)
{
    return c->n_args >= 3 && resp_arg_is(&c->args[0], "set") &&
           (c->n_args == 3 ||
            (c->n_args == 5 && (resp_arg_is(&c->args[3], "EX") || resp_arg_is(&c->args[3], "PX"))));
}

/* Runs a complete command. */
static void run(struct redis *r, const struct resp_command *parsed, const int *spill_fds)
{
    assert(parsed->n_args);
    char text[160];
    struct redis_command c = {r, parsed->args, parsed->n_args, spill_fds};
    const struct redis_entry *entry = find_entry(&c.args[0]);
    if (!entry) {
        size_t len = c.args[0].data && c.args[0].len < 64 ? (size_t)c.args[0].len : 0;
        snprintf(text, sizeof text, "ERR unknown command '%.*s'", (int)len,
                 len ? (const char *)c.args[0].data : "");
        redis_send_error(r, text);
    } else if (c.n_args < entry->min_args || c.n_args > entry->max_args) {
        snprintf(text, sizeof text, "ERR wrong number of arguments for '%s' command", entry->name);
        redis_send_error(r, text);
    } else {
        entry->run(&c);
    }
}

/* ---- a protocol ---- */

/* Takes bytes of a command with long arguments, and runs it if they complete it. */
static long take_long(struct redis *r, const uint8_t *data, size_t len)
{
    const int *spill_fds = NULL;
    long took = redis_long_take(r, data, len, &spill_fds);
    if (spill_fds) {
        connection_greeted(r->connection);
        run(r, connection_command(r->connection), spill_fds);
        redis_long_free(r);
    }
    return took < 0 || !r->quit ? took : -1;
}

static long redis_on_bytes(void *state, const uint8_t *data, size_t len)
{
    struct redis *r = state;
    struct err e; /* the function that fails fills it; it is not cleared for each command */
    if (r->spills)
        return take_long(r, data, len);
    struct resp_command *parsed = connection_command(r->connection);
    long took = resp_parse(data, len, 0, parsed, &e);
    if (took < 0)
        return redis_fail(r, &e);
    /* A command that sees the SETs before it, or takes long to receive, waits for them. */
    if (r->n_ops && !r->n_taken &&
        ((took > 0 && parsed->n_args && !is_plain_set(parsed)) || parsed->spill_len)) {
        connection_hold(r->connection);
        return 0;
    }
    if (took == 0)
        return parsed->spill_len ? redis_long_begin(r, parsed, data) : 0;
    if (parsed->n_args == 0)
        return took;
    connection_greeted(r->connection);
    r->again = false;
    run(r, parsed, NULL);
    if (r->walk.active || r->again)
        return 0; /* the command comes again, for the next slice or when a value is ready */
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
        ask_drop(&r->wait, false);
    redis_leases_free(r);
    redis_ops_forget(r);
    free(r->found);
    redis_long_free(r);
    free(r);
}

static bool redis_is_idle(const void *state)
{
    const struct redis *r = state;
    return !r->n_ops && !r->waiting && !r->leases && !r->walk.active && !r->spills && !r->n_taken;
}

static enum protocol_fit redis_fits(const uint8_t *data, size_t len)
{
    (void)data, (void)len;
    return PROTOCOL_FITS;
}

const struct protocol redis_protocol = {.fits = redis_fits,
                                        .open = redis_open,
                                        .on_bytes = redis_on_bytes,
                                        .on_end = redis_on_end,
                                        .is_partial = redis_is_partial,
                                        .is_idle = redis_is_idle,
                                        .on_close = redis_on_close};

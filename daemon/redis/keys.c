/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c - SCAN and DBSIZE: walks over the names of the asker's space, in slices, so that other
 * connections are answered in between.
 *
 * redis.c runs the commands.
 *
 * Thread: loop thread.
 */
#include <stdio.h>

#include "daemon/redis/internal.h"

#define ROWS_LOOKED_AT 1000u /* rows, in one turn */
#define SCANS 256u           /* cursors of SCAN that are remembered */

struct name_filter {
    const struct redis *redis;
    struct view pattern; /* empty: all */
    struct writer *out;  /* NULL: the walk only counts */
    uint64_t n;
};

static void on_row(void *arg, const struct store_row *row)
{
    struct name_filter *f = arg;
    if (row->id.owner != f->redis->peer->space || row->name.len == 0)
        return;
    if (f->pattern.len && !resp_glob(f->pattern, row->name))
        return;
    f->n++;
    if (f->out)
        resp_put_bulk(f->out, row->name.data, row->name.len);
}

bool redis_count_names(struct redis *r, uint64_t *out)
{
    struct walk *walk = &r->walk;
    if (!walk->active)
        *walk = (struct walk){.active = true};
    struct name_filter f = {.redis = r, .n = walk->n_names};
    int more =
        store_scan(service_store(r->service), &walk->cursor, ROWS_LOOKED_AT, on_row, &f, NULL);
    *out = walk->n_names = f.n;
    walk->active = more > 0;
    if (walk->active) {
        connection_hold(r->connection);
        connection_resume_later(r->connection);
    }
    return !walk->active;
}

void redis_do_dbsize(struct redis_command *c)
{
    uint64_t n;
    if (redis_count_names(c->redis, &n))
        redis_send_number(c->redis, (int64_t)n);
}

/* The last cursors that were given out. Redis cursors are numbers, the store's are not. The table
 * is for all connections, since a client may go on with another one. */
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

void redis_do_scan(struct redis_command *c)
{
    struct redis *r = c->redis;
    struct store_cursor cursor = {{0}};
    struct writer names;
    struct name_filter f = {.redis = r, .out = &names};
    int64_t number;
    if (!resp_arg_number(&c->args[1], &number) || number < 0) {
        redis_send_error(r, "ERR invalid cursor");
        return;
    }
    const struct scan *known = number ? scan_find(r, (uint64_t)number) : NULL;
    if (number && !known) {
        redis_send_error(r, "ERR invalid cursor");
        return;
    }
    if (known)
        cursor = known->cursor;
    for (size_t i = 2; i + 1 < c->n_args; i += 2) /* COUNT and TYPE change nothing here */
        if (resp_arg_is(&c->args[i], "MATCH"))
            f.pattern = redis_view(&c->args[i + 1]);
    writer_init(&names, 0);
    int more = store_scan(service_store(r->service), &cursor, ROWS_LOOKED_AT, on_row, &f, NULL);
    uint64_t next = more > 0 ? ++scan_count : 0; /* 0: this was all */
    if (next)
        scans[next % SCANS] = (struct scan){next, r->peer->uid, cursor};
    if (names.failed)
        redis_send_error(r, "ERR out of memory");
    else {
        char text[24];
        struct writer *w = redis_begin(r);
        snprintf(text, sizeof text, "%llu", (unsigned long long)next);
        resp_put_array(w, 2);
        resp_put_text(w, text);
        resp_put_array(w, f.n);
        writer_bytes(w, f.out->data, f.out->len);
        redis_commit(r);
    }
    writer_close(&names);
}

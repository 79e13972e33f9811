/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.c - answers the native protocol's messages for people: lists, statistics, removals, checks.
 *
 * An operation of the store on many entries is a struct native_op (internal.h); it ends with a REPORT.
 * native.c asks native_admin_handler for the messages that it does not know.
 *
 * Thread: loop thread.
 */
#include "daemon/native/internal.h"
#include "daemon/process/log.h"
#include "daemon/service/closure.h"
#include "store/clock.h"

#include <string.h>

#define ROWS_LOOKED_AT 1000u /* rows that one LIST looks at, at most */
#define IDS_OF_CALL 32u      /* keys that count as one request */
#define ROWS_STEP 50u        /* rows; after so many, LIST may leave the rest for another turn */

/* ---- answers ---- */

static void send_text(struct native *n, uint64_t tag,
                      void (*write)(struct service *s, const struct peer *peer, struct writer *out))
{
    struct writer text;
    writer_init(&text, WIRE_PAYLOAD_MAX / 2);
    write(n->service, n->peer, &text);
    struct wire_text m = {{text.data, text.len}};
    wire_put_text(connection_begin(n->connection), tag, &m);
    connection_commit(n->connection, NULL, 0);
    writer_close(&text);
}

/* Sends the row of an entry, for LIST and SHOW. */
static void send_row(struct native *n, uint64_t tag, const struct store_row *row)
{
    char signer[64] = "";
    if (row->tier & STORE_TIER_CAME)
        service_signer_name(n->service, row->signer, signer);
    struct wire_row m = {
        .key = row->id.key,
        .owner = row->id.owner,
        .maker = row->maker,
        .kind = (uint8_t)row->kind,
        .pinned = row->pinned,
        .is_blob = row->is_blob,
        .len = row->len,
        .created_ms = row->created_ms,
        .accessed_ms = row->accessed_ms,
        .expires_ms = row->expires_ms,
        .cost_ms = row->cost_ms,
        .hits = row->hits,
        .check = row->check,
        .compiler = row->compiler,
        .graph = row->graph,
        .group = row->group,
        .proof = row->proof,
        .content = row->content,
        .hardware = row->hardware,
        .compiler_text = row->compiler_text,
        .name = row->name,
        .label = row->label,
        .tier = row->tier & STORE_TIER_CAME      ? 2
                : row->tier & STORE_TIER_WAITS   ? 1
                : service_keeps(n->service, row) ? 3
                                                 : 0,
        .signer = view_of_text(signer),
    };
    wire_put_row(connection_begin(n->connection), tag, &m);
    connection_commit(n->connection, NULL, 0);
}

static void on_report(void *arg, int status, const struct store_report *r, const struct err *e)
{
    struct native_op *op = arg;
    if (!status && op->done && r->n_entries)
        log_asked(op->uid, (long)op->pid, "%s %llu %s, %llu bytes", op->done,
                  (unsigned long long)r->n_entries, r->n_entries == 1 ? "entry" : "entries",
                  (unsigned long long)r->n_bytes);
    if (op->native && status) {
        native_send_error(op->native, op->tag, e);
    } else if (op->native) {
        struct wire_report m = {r->n_entries, r->n_bytes, r->n_corrupt};
        wire_put_report(connection_begin(op->native->connection), op->tag, &m);
        connection_commit(op->native->connection, NULL, 0);
    }
    native_op_free(op);
}

static void on_progress(void *arg, uint64_t done, uint64_t total)
{
    struct native_op *op = arg;
    if (!op->native)
        return;
    struct wire_progress m = {done, total};
    wire_put_progress(connection_begin(op->native->connection), op->tag, &m);
    connection_commit(op->native->connection, NULL, 0);
}

static void send_empty_report(const struct request *r)
{
    struct wire_report m = {0};
    wire_put_report(connection_begin(r->native->connection), r->frame->tag, &m);
    connection_commit(r->native->connection, NULL, 0);
}

/* ---- requests ---- */

struct list_walk {
    struct native *native;
    uint64_t tag, now_ms;
    struct store_filter filter;
};

static void on_row(void *arg, const struct store_row *row)
{
    struct list_walk *walk = arg;
    if (store_filter_match(&walk->filter, row, walk->now_ms))
        send_row(walk->native, walk->tag, row);
}

static int take_list(struct request *r, struct err *e)
{
    struct wire_list m;
    struct wire_end end = {0};
    struct store_cursor cursor;
    struct native *n = r->native;
    struct list_walk walk = {.native = n, .tag = r->frame->tag, .now_ms = clock_wall_ms()};
    int code = wire_get_list(r->frame, &m, e);
    if (code)
        return code;
    if (service_filter(n->peer, &m.filter, &walk.filter)) {
        uint32_t rows = m.max_rows && m.max_rows < ROWS_LOOKED_AT ? m.max_rows : ROWS_LOOKED_AT;
        uint64_t done = n->rest.done;
        cursor = n->rest.cursor;
        if (!n->rest.there)
            memcpy(&cursor, m.cursor, sizeof cursor);
        for (bool first = true; first || (code > 0 && done < rows); first = false) {
            if (!first && connection_must_yield(n->connection))
                return native_yield(
                    n, &(struct native_rest){.there = true, .done = done, .cursor = cursor});
            size_t step = rows - done < ROWS_STEP ? (size_t)(rows - done) : ROWS_STEP;
            code = store_scan(service_store(n->service), &cursor, step, on_row, &walk, e);
            done += step;
        }
        if (code < 0)
            return code;
        end.more = code > 0;
        memcpy(end.cursor, &cursor, sizeof end.cursor);
    }
    wire_put_end(connection_begin(n->connection), r->frame->tag, &end);
    connection_commit(n->connection, NULL, 0);
    return 0;
}
_Static_assert(sizeof(struct store_cursor) == WIRE_CURSOR, "a cursor travels as it is");

static int take_show(struct request *r, struct err *e)
{
    struct wire_show m;
    struct store_row row;
    struct native *n = r->native;
    int code = wire_get_show(r->frame, &m, e);
    if (code)
        return code;
    if (service_peek(n->service, n->peer, m.space, m.key, &row, e) == 0)
        send_row(n, r->frame->tag, &row);
    else
        native_send_empty(n, r->frame->tag, WIRE_MISS);
    return 0;
}

static int take_stats(struct request *r, struct err *e)
{
    (void)e;
    send_text(r->native, r->frame->tag, service_write_stats);
    return 0;
}

static int take_note(struct request *r, struct err *e)
{
    struct wire_note m;
    int code = wire_get_note(r->frame, &m, e);
    if (code == 0)
        service_note(r->native->service, r->native->peer, &m);
    return code;
}

static int take_history(struct request *r, struct err *e)
{
    struct wire_history m;
    struct writer text;
    struct native *n = r->native;
    int code = wire_get_history(r->frame, &m, e);
    if (code)
        return code;
    writer_init(&text, WIRE_PAYLOAD_MAX - 4);
    if (service_write_history(n->service, n->peer, &m, &text) && !text.failed) {
        wire_put_text(connection_begin(n->connection), r->frame->tag,
                      &(struct wire_text){{text.data, text.len}});
        connection_commit(n->connection, NULL, 0);
    } else {
        native_send_empty(n, r->frame->tag, WIRE_MISS);
    }
    writer_close(&text);
    return 0;
}

static int take_info(struct request *r, struct err *e)
{
    (void)e;
    send_text(r->native, r->frame->tag, service_write_info);
    return 0;
}

enum keys_change { KEYS_REMOVE, KEYS_PIN, KEYS_UNPIN, KEYS_PUSH, KEYS_CLOSURE };

/* Adds the ids of the entries under the listed keys that this peer may change, and those that belong to
 * them: to remove one, its own alone. 1 if the rest is left for another turn, or an error. */
static int resolve_keys(struct native *n, struct view list, enum keys_change change,
                        struct native_rest *rest, struct err *e)
{
    struct reader keys = reader_over(list.data, list.len);
    struct store_id found[RESOLVE_MAX];
    enum wire_space space;
    struct view key;
    uint64_t done = rest->done;
    int code = 0;
    for (uint64_t i = 0; !code && wire_keys_next(&keys, &space, &key); i++) {
        if (i < done)
            continue;
        if (i > done && connection_must_yield(n->connection))
            return 1;
        size_t n_found = service_resolve(n->service, n->peer, space, key, found, RESOLVE_MAX);
        for (size_t j = 0; j < n_found && !code; j++)
            if (change != KEYS_REMOVE)
                code = closure_add(n->service, &found[j], &rest->ids, e);
            else if (!id_set_add(&rest->ids, &found[j]))
                code = err_set(e, WARM_ENOMEM, "no memory for a list of keys");
        rest->done++;
    }
    return code;
}

/* Finds the entries of a request. 0: *out has them, which it gives; 1: it goes on in another turn; or an
 * error. */
static int begin_keys(const struct request *r, const struct wire_remove *m, enum keys_change change,
                      struct native_rest *out, struct err *e)
{
    struct native *n = r->native;
    *out = n->rest;
    if (!out->there) {
        *out = (struct native_rest){.there = true};
        out->op = native_op_new(r, 1 + m->n / IDS_OF_CALL, e);
        if (!out->op)
            return e->code;
    }
    int code = resolve_keys(n, m->keys, change, out, e);
    if (code > 0)
        return native_yield(n, out), 1;
    n->rest = (struct native_rest){0};
    if (!code)
        return 0;
    native_op_free(out->op);
    id_set_clear(&out->ids);
    return code;
}

static int change_keys(const struct request *r, struct view list, uint32_t n_keys,
                       enum keys_change change, struct err *e)
{
    static const char *const done[] = {"removed", "pinned", "unpinned", "queued for the tier"};
    struct native *n = r->native;
    struct store *store = service_store(n->service);
    struct native_rest rest;
    int code = begin_keys(r, &(struct wire_remove){n_keys, list}, change, &rest, e);
    if (code)
        return code > 0 ? 0 : code;
    const struct store_id *ids = rest.ids.id;
    rest.op->done = done[change];
    if (rest.ids.n == 0)
        send_empty_report(r);
    else if (change == KEYS_REMOVE)
        code = store_remove(store, ids, rest.ids.n, on_report, rest.op, e);
    else if (change == KEYS_PUSH)
        code = service_push(n->service, ids, rest.ids.n, on_report, rest.op, e);
    else
        code = store_pin(store, ids, rest.ids.n, change == KEYS_PIN, on_report, rest.op, e);
    if (code || rest.ids.n == 0)
        native_op_free(rest.op);
    id_set_clear(&rest.ids);
    return code;
}

static int take_remove(struct request *r, struct err *e)
{
    struct wire_remove m;
    int code = wire_get_remove(r->frame, &m, e);
    return code ? code : change_keys(r, m.keys, m.n, KEYS_REMOVE, e);
}

static int take_push(struct request *r, struct err *e)
{
    struct wire_remove m;
    int code = wire_get_push(r->frame, &m, e);
    return code ? code : change_keys(r, m.keys, m.n, KEYS_PUSH, e);
}

/* Sends the rows of the listed entries and of what belongs to them, from `done` on. */
static int take_closure(struct request *r, struct err *e)
{
    struct wire_remove m;
    struct native *n = r->native;
    struct native_rest rest = n->rest;
    struct store_row row;
    int code = wire_get_closure(r->frame, &m, e);
    if (!code && !rest.found_all)
        code = begin_keys(r, &m, KEYS_CLOSURE, &rest, e);
    if (code)
        return code > 0 ? 0 : code;
    if (!rest.found_all)
        rest.found_all = true, rest.done = 0;
    for (uint64_t from = rest.done; rest.done < rest.ids.n; rest.done++) {
        if (rest.done > from && connection_must_yield(n->connection))
            return native_yield(n, &rest);
        if (store_peek(service_store(n->service), &rest.ids.id[rest.done], &row, NULL) == 0)
            send_row(n, r->frame->tag, &row);
    }
    n->rest = (struct native_rest){0};
    native_op_free(rest.op);
    id_set_clear(&rest.ids);
    wire_put_end(connection_begin(n->connection), r->frame->tag, &(struct wire_end){0});
    connection_commit(n->connection, NULL, 0);
    return 0;
}

static int take_pin(struct request *r, struct err *e)
{
    struct wire_pin m;
    int code = wire_get_pin(r->frame, &m, e);
    return code ? code : change_keys(r, m.keys, m.n, m.pinned ? KEYS_PIN : KEYS_UNPIN, e);
}

static int take_evict(struct request *r, struct err *e)
{
    struct wire_evict m;
    struct store_filter filter;
    int code = wire_get_evict(r->frame, &m, e);
    if (code)
        return code;
    if (!service_filter(r->native->peer, &m.filter, &filter)) {
        send_empty_report(r);
        return 0;
    }
    struct native_op *op = native_op_new(r, 1, e);
    if (!op)
        return e->code;
    op->done = m.dry_run ? NULL : "evicted";
    code = store_evict(service_store(r->native->service), &filter, m.to_bytes, m.dry_run, on_report,
                       op, e);
    if (code)
        native_op_free(op);
    return code;
}

static int take_verify(struct request *r, struct err *e)
{
    struct wire_verify m;
    int code = wire_get_verify(r->frame, &m, e);
    if (code)
        return code;
    if (!r->native->peer->is_admin)
        return err_set(e, WARM_EDENIED, "only root and the daemon's own user may verify");
    struct native_op *op = native_op_new(r, 1, e);
    if (!op)
        return e->code;
    code = store_verify(service_store(r->native->service), m.sample, on_progress, on_report, op, e);
    if (code)
        native_op_free(op);
    return code;
}

native_take native_admin_handler(uint8_t type)
{
    switch (type) {
    case WIRE_LIST: return take_list;
    case WIRE_SHOW: return take_show;
    case WIRE_STATS: return take_stats;
    case WIRE_INFO: return take_info;
    case WIRE_REMOVE: return take_remove;
    case WIRE_EVICT: return take_evict;
    case WIRE_PIN: return take_pin;
    case WIRE_PUSH: return take_push;
    case WIRE_CLOSURE: return take_closure;
    case WIRE_VERIFY: return take_verify;
    case WIRE_NOTE: return take_note;
    case WIRE_HISTORY: return take_history;
    default: return NULL;
    }
}

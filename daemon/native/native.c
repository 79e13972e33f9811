/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.c - the native protocol: decides which call of the service a frame is, and turns answers into
 * frames.
 *
 * A request has a tag; its answers carry the tag, in whatever order they come. A request that
 * cannot be answered at once waits in a list of its connection. It is a struct native_call (a
 * look-up, a lease, a compile) or a struct native_op (an operation of the store). When the
 * connection ends, calls are dropped. Ops run to their end, and nobody gets their results.
 *
 * Malformed bytes end the connection, after one ERROR. A message with a wrong field is answered with ERROR,
 * and the connection goes on. Messages for people are in admin.c.
 *
 * connection.c calls it through native_protocol; the service calls on_answer.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/wire/version.h"
#include "daemon/headers/manifest.h"
#include "daemon/native/internal.h"
#include "daemon/net/protocols.h"
#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"

#define COPY_MAX 4096u /* bytes; a longer value is not copied, but sent from its place */
#define STATE_BYTES_MAX (1u + sizeof(struct proof)) /* of one state in CHECKED */

/* ---- answers ---- */

static void send_ok(struct native *n, uint64_t tag, bool existed, const struct key *key)
{
    struct wire_ok m = {.existed = existed};
    if (key)
        m.key = *key;
    wire_put_ok(connection_begin(n->connection), tag, &m);
    connection_commit(n->connection, NULL, 0);
}

/* Opens the descriptor of a stored value that is a file; else gives -1. */
static int open_stored(const struct store_value *v, int *out, struct err *e)
{
    *out = v->data ? -1 : fd_reopen(v->fd);
    return v->data || *out >= 0 ? 0 : err_sys(e, WARM_EIO, errno, "no descriptor for a value");
}

/* Sends a stored value: a short one is copied, a longer one sent from the index's own pages, a file
 * as a descriptor, which is taken. */
static void send_stored(struct native *n, uint64_t tag, enum wire_outcome outcome,
                        const struct store_value *v, int own)
{
    struct connection *c = n->connection;
    struct writer *w = connection_begin(c);
    struct wire_hit m = {.outcome = outcome,
                         .kind = (uint8_t)v->row.kind,
                         .key = v->row.id.key,
                         .check = v->row.check,
                         .cost_ms = v->row.cost_ms,
                         .len = v->row.len};
    if (v->data)
        m.value = (struct view){v->data, v->row.len};
    if (v->data && v->row.len > COPY_MAX) {
        wire_put_hit_head(w, WIRE_HIT, tag, &m);
        connection_commit(c, NULL, 0);
        connection_borrow(c, v->data, v->row.len);
    } else {
        wire_put_hit(w, tag, &m);
        connection_commit(c, &own, v->data ? 0 : 1);
    }
}

static void send_artifact(struct native *n, uint64_t tag, enum wire_outcome outcome,
                          struct artifact *a)
{
    assert(a->refs);
    struct connection *c = n->connection;
    struct writer *w = connection_begin(c);
    struct wire_hit m = {.outcome = outcome,
                         .kind = (uint8_t)a->kind,
                         .key = a->key,
                         .check = a->check,
                         .cost_ms = a->cost_ms,
                         .len = a->len};
    if (a->data)
        m.value = (struct view){a->data, a->len};
    bool shares = a->data && a->len > COPY_MAX;
    if (shares)
        wire_put_hit_head(w, a->failed ? WIRE_FAILED : WIRE_HIT, tag, &m);
    else if (a->failed)
        wire_put_failed(w, tag, &m);
    else
        wire_put_hit(w, tag, &m);
    if (a->data)
        connection_commit(c, NULL, 0);
    else
        connection_commit_artifact(c, a);
    if (shares)
        connection_share(c, a);
}

static void send_check(struct native *n, uint64_t tag, const struct manifest *m)
{
    assert(m && m->refs);
    struct writer list;
    struct err e = {0};
    int fd = -1;
    writer_init(&list, WIRE_CHECK_MAX);
    for (uint32_t i = 0; i < m->n_paths; i++) { /* as the client of this job knows them */
        char whole[WIRE_PATH_MAX];
        wire_paths_add(&list, whole, bases_path(m->bases, m->paths[i], whole, sizeof whole));
    }
    struct wire_check check = {.n = m->n_paths, .len = list.len};
    int code = list.failed ? err_set(&e, WARM_ENOMEM, "no memory for a list of headers") : 0;
    if (code == 0 && list.len <= WIRE_INLINE_MAX)
        check.list = (struct view){list.data, list.len};
    else if (code == 0)
        code = memfd_from_bytes(list.data, list.len, &fd, &e);
    if (code) {
        native_send_error(n, tag, &e);
    } else {
        wire_put_check(connection_begin(n->connection), tag, &check);
        connection_commit(n->connection, &fd, fd >= 0);
    }
    writer_close(&list);
}

/* ---- calls ---- */

static void call_unlink(struct native_call *call)
{
    assert(call->native && call->native->calls);
    struct native *n = call->native;
    LIST_REMOVE(n->calls, call);
    budget_give(n->peer->uid, BUDGET_calls, 1);
    budget_give(n->peer->uid, BUDGET_leases, call->leases);
    free(call);
}

/* Keeps an answer for the other ranks of this machine. A lease is one only if the tier has decided: else the others
 * wait for its holder. */
static void note_answer(const struct native_call *call, const struct answer *a)
{
    struct native *n = call->native;
    struct store_value v;
    if (a->kind == ANSWER_VALUE && a->artifact)
        v = artifact_as_stored(a->artifact);
    if (a->kind == ANSWER_VALUE || a->kind == ANSWER_MISS ||
        (a->kind == ANSWER_LEASE && call->ask.n_tier_asks))
        rank_agreement_note(n->ranks, &call->rank_name, n->peer->pid, service_now_ms(n->service),
                            a->artifact ? &v : a->value);
}

static void on_answer(struct ask *base, const struct answer *a)
{
    struct native_call *call = (struct native_call *)base;
    struct native *n = call->native;
    uint64_t tag = call->tag;
    struct connection *c = n->connection;
    struct err e;
    int own;
    if (call->notes && n->ranks)
        note_answer(call, a);
    switch (a->kind) {
    case ANSWER_VALUE:
    case ANSWER_FAILED:
        if (a->value && a->outcome == WIRE_WAS_HIT_AUDIT) {
            n->asked_audit = true;
            n->audit = a->value->row.id.key;
        }
        if (a->value && open_stored(a->value, &own, &e) != 0)
            native_send_error(n, tag, &e);
        else if (a->value)
            send_stored(n, tag, a->outcome, a->value, own);
        else
            send_artifact(n, tag, a->outcome, a->artifact);
        break;
    case ANSWER_MISS: native_send_empty(n, tag, WIRE_MISS); break;
    case ANSWER_ERROR: native_send_error(n, tag, a->err); break;
    case ANSWER_OVER: break;
    case ANSWER_LEASE: {
        struct wire_lease m = {a->token, a->deadline_ms};
        wire_put_lease(connection_begin(c), tag, &m);
        connection_commit(c, NULL, 0);
        return;
    }
    case ANSWER_WAIT: {
        struct wire_wait m = {a->n_waiters, a->elapsed_ms};
        wire_put_wait(connection_begin(c), tag, &m);
        connection_commit(c, NULL, 0);
        return;
    }
    case ANSWER_NEED: {
        struct wire_need m = {SERVICE_JOB_MAX};
        wire_put_need(connection_begin(c), tag, &m);
        connection_commit(c, NULL, 0);
        return;
    }
    case ANSWER_CHECK: send_check(n, tag, a->manifest); return;
    }
    call_unlink(call); /* this was the last answer */
}

static struct native_call *call_new(struct native *n, uint64_t tag, struct err *e)
{
    if (budget_ask(n->peer->uid, BUDGET_calls, 1, e) != 0)
        return NULL;
    struct native_call *call = calloc(1, sizeof *call);
    if (!call) {
        budget_give(n->peer->uid, BUDGET_calls, 1);
        err_set(e, WARM_ENOMEM, "no memory for a request");
        return NULL;
    }
    call->ask.service = n->service;
    call->ask.peer = n->peer;
    call->ask.on_answer = on_answer;
    call->native = n;
    call->tag = tag;
    LIST_ADD(n->calls, call);
    return call;
}

static struct native_call *call_of_tag(struct native *n, uint64_t tag)
{
    struct native_call *call = n->calls;
    while (call && call->tag != tag)
        call = call->next;
    return call;
}

static struct native_call *call_of_token(struct native *n, uint64_t token)
{
    struct native_call *call = token ? n->calls : NULL;
    while (call && (call->ask.compile || call->ask.waiter.token != token))
        call = call->next;
    return call;
}

/* ---- ops ---- */

static void on_put(void *arg, int status, bool existed, const struct key *key, const struct err *e)
{
    struct native_op *op = arg;
    if (op->native && status)
        native_send_error(op->native, op->tag, e);
    else if (op->native)
        send_ok(op->native, op->tag, existed, key);
    if (op->native && !status && !existed && op->imported_bytes) {
        op->native->n_imported++;
        op->native->imported_bytes += op->imported_bytes;
    }
    native_op_free(op);
}

/* ---- requests: each returns 0, or an error that is then sent ---- */

static int take_hello(struct request *r, struct err *e)
{
    struct wire_hello m;
    int code = wire_get_hello(r->frame, &m, e);
    if (code)
        return code;
    if (m.version_min > WIRE_VERSION || m.version_max < WIRE_VERSION)
        return err_set(e, WARM_EVERSION,
                       "this daemon speaks version %u of the protocol, the client %u to %u",
                       WIRE_VERSION, m.version_min, m.version_max);
    static const char name[] = "warmd " WARM_VERSION;
    struct wire_welcome welcome = {.version = WIRE_VERSION,
                                   .daemon_uid = (uint32_t)geteuid(),
                                   .daemon = {name, sizeof name - 1}};
    wire_put_welcome(connection_begin(r->native->connection), r->frame->tag, &welcome);
    connection_commit(r->native->connection, NULL, 0);
    r->native->greeted = true;
    struct view session = wire_session_of(m.client);
    if (session.len)
        connection_join(r->native->connection, session);
    connection_set_project(r->native->connection, wire_project_of(m.client));
    if (wire_administers(m.client))
        connection_administer(r->native->connection);
    rank_agreement_leave(r->native->ranks);
    r->native->ranks = rank_agreement_join(r->native->peer->uid, m.client);
    log_debug("uid %u (pid %ld) connects with %.*s", (unsigned)r->native->peer->uid,
              (long)r->native->peer->pid, (int)m.client.len, (const char *)m.client.data);
    return 0;
}

/* Answers a rank as the other ranks of its job were answered. False if the question is new. */
static bool get_as_rank(struct native *n, uint64_t tag, struct view name, const struct proof *proof)
{
    struct artifact *known;
    enum rank_agreement_said said =
        rank_agreement_recall(n->ranks, proof, n->peer->pid, service_now_ms(n->service), &known);
    if (said == RANK_HIT) {
        send_artifact(n, tag, WIRE_WAS_HIT, known);
    } else if (said == RANK_MISS) {
        service_count_miss(n->service, n->peer, name, NULL);
        native_send_empty(n, tag, WIRE_MISS);
    }
    return said != RANK_NEW;
}

/* Answers with a stored value, and opens its descriptor. A hit counts once both are there. */
static bool get_at_once(struct native *n, uint64_t tag, const struct question *q,
                        const struct proof *rank_name, struct err *e)
{
    struct store_value v;
    int own;
    if (service_get(n->service, n->peer, q, &v, e) != 0 || open_stored(&v, &own, e) != 0)
        return false;
    if (rank_name)
        rank_agreement_note(n->ranks, rank_name, n->peer->pid, service_now_ms(n->service), &v);
    send_stored(n, tag, WIRE_WAS_HIT, &v, own);
    service_count_hit(n->service, n->peer, q, &v.row);
    return true;
}

/* Answers with a stored value at once; else an ask goes on, which may have to wait. Ranks on several machines always
 * make an ask: the tier decides for them. */
static int get_one(struct native *n, uint64_t tag, const struct wire_get *m, struct err *e)
{
    char job[65] = "";
    struct proof name;
    struct err why;
    struct question q = {.space = m->space,
                         .key = m->key,
                         .proof = m->has_proof ? &m->proof : NULL,
                         .wait_ms = m->deadline_ms,
                         .why = &why};
    bool as_rank = n->ranks && m->space == WIRE_SPACE_NAME, spans = false;
    why.code = 0; /* it is large: no more is cleared for each hit */
    why.text[0] = '\0';
    if (as_rank) {
        name = proof_of_bytes(m->key.data, m->key.len);
        if (get_as_rank(n, tag, m->key, &name))
            return 0;
        spans = rank_agreement_spans(n->ranks, &name, job);
    }
    if (!spans && get_at_once(n, tag, &q, as_rank ? &name : NULL, &why))
        return 0;
    struct native_call *call = call_new(n, tag, e);
    if (!call)
        return e->code;
    call->leases = m->want_lease && budget_take(n->peer->uid, BUDGET_leases, 1);
    q.mode = call->leases ? ASK_LEASE : ASK_KNOWN;
    call->ask.tells_errors = true;
    call->ask.is_rank = as_rank;
    call->notes =
        as_rank && (spans || !call->leases); /* else the others wait for the lease holder */
    if (as_rank)
        call->rank_name = name;
    if (spans)
        memcpy(call->ask.job, job, sizeof job);
    service_ask(&call->ask, &q);
    return 0;
}

static int take_get(struct request *r, struct err *e)
{
    struct wire_get m;
    int code = wire_get_get(r->frame, &m, e);
    return code ? code : get_one(r->native, r->frame->tag, &m, e);
}

static int take_mget(struct request *r, struct err *e)
{
    struct wire_mget m;
    int code = wire_get_mget(r->frame, &m, e);
    if (code)
        return code;
    struct native *n = r->native;
    struct reader keys = reader_over(m.keys.data, m.keys.len);
    struct wire_get get = {.want_lease = m.want_lease, .deadline_ms = m.deadline_ms};
    uint64_t done = n->rest.done;
    for (uint64_t i = 0; wire_keys_next(&keys, &get.space, &get.key); i++) {
        struct err one = {0};
        if (i < done)
            continue;
        if (i > done && connection_must_yield(n->connection))
            return native_yield(n, &(struct native_rest){.there = true, .done = i});
        if (get_one(n, r->frame->tag + i, &get, &one) != 0)
            native_send_error(n, r->frame->tag + i, &one);
    }
    return 0;
}

/* Reads the place of a PUT without a name. */
static int read_made(const struct wire_put *m, struct service_made *out, struct err *e)
{
    struct reader r = reader_over(m->key.data, m->key.len);
    if (m->hardware.len == 0 || m->hardware.len >= sizeof out->address.hardware)
        return err_set(e, WARM_EINVALID, "the name of the hardware is empty or too long");
    *out = (struct service_made){0};
    memcpy(out->address.hardware, m->hardware.data, m->hardware.len);
    reader_copy(&r, out->address.compiler.bytes, sizeof out->address.compiler.bytes);
    reader_copy(&r, out->address.graph.bytes, sizeof out->address.graph.bytes);
    reader_copy(&r, out->proof.bytes, sizeof out->proof.bytes);
    return 0;
}

static int take_put(struct request *r, struct err *e)
{
    static const struct key not_said;
    struct wire_put m;
    struct service_made made;
    struct native *n = r->native;
    int code = wire_get_put(r->frame, &m, e);
    bool is_made = !code && m.space == WIRE_SPACE_KEY;
    if (is_made)
        code = read_made(&m, &made, e);
    if (code)
        return code;
    struct native_call *lease = call_of_token(n, m.token);
    struct native_op *op = native_op_new(r, 1, e);
    if (!op)
        return e->code;
    if (is_made && n->peer->is_admin && !m.token)
        op->imported_bytes = m.len;
    struct service_put put = {.name = is_made ? (struct view){0} : m.key,
                              .made = is_made ? &made : NULL,
                              .kind = m.kind == STORE_OTHER && !is_made ? wire_kind_of_name(m.key)
                                                                        : m.kind,
                              .keep_existing = m.keep_existing,
                              .cost_ms = m.cost_ms,
                              .ttl_ms = m.ttl_ms,
                              .group = m.group,
                              .hardware = m.hardware,
                              .compiler = m.compiler,
                              .label = m.label,
                              .data = m.value.data,
                              .fd = r->frame->n_fds ? r->fds[0] : -1,
                              .len = m.len,
                              .check = key_equal(&m.check, &not_said) ? NULL : &m.check,
                              .lease = lease ? &lease->ask : NULL,
                              .lease_lost = m.token && !lease,
                              .on_done = on_put,
                              .arg = op};
    if (put.fd >= 0)
        r->fds[0] = -1;
    code = service_put(n->service, n->peer, &put, e);
    if (code)
        native_op_free(op);
    return code;
}

static int take_release(struct request *r, struct err *e)
{
    struct wire_release m;
    int code = wire_get_release(r->frame, &m, e);
    if (code)
        return code;
    struct native_call *call = call_of_token(r->native, m.token);
    if (call) {
        ask_drop(&call->ask, false);
        call_unlink(call);
    }
    send_ok(r->native, r->frame->tag, false, NULL);
    return 0;
}

static int take_renew(struct request *r, struct err *e)
{
    struct wire_release m;
    int code = wire_get_renew(r->frame, &m, e);
    struct native_call *call = code ? NULL : call_of_token(r->native, m.token);
    if (call)
        ask_renew(&call->ask);
    return code;
}

static int take_compile(struct request *r, struct err *e)
{
    struct wire_compile m;
    int code = wire_get_compile(r->frame, &m, e);
    if (code)
        return code;
    struct native_call *call = call_new(r->native, r->frame->tag, e);
    if (!call)
        return e->code;
    service_compile(&call->ask, &m);
    return 0;
}

/* Takes the source. The descriptors are the job, if it is not inline, and the channel, which is
 * last. */
static int take_source(struct request *r, struct err *e)
{
    struct wire_source m;
    int code = wire_get_source(r->frame, &m, e);
    if (code)
        return code;
    struct native_call *call = call_of_tag(r->native, r->frame->tag);
    if (!call || !call->ask.compile)
        return err_set(e, WARM_EINVALID, "SOURCE for a tag that has no COMPILE");
    unsigned channel = r->frame->n_fds - 1u;
    int job_fd = channel ? r->fds[0] : -1, channel_fd = r->fds[channel];
    r->fds[0] = r->fds[1] = -1;
    service_source(&call->ask, m.job.data, m.len, job_fd, channel_fd);
    return 0;
}

/* True if the list can have one state for each path of the CHECK: its count fits, and its size may. */
static bool may_be_states(const struct native_call *call, const struct wire_checked *m)
{
    const struct manifest *asked = ask_checking(&call->ask);
    return asked && m->n == asked->n_paths && m->len <= m->n * (uint64_t)STATE_BYTES_MAX;
}

/* Reads the states of CHECKED, one for each path of the manifest. */
static int read_states(struct native_call *call, const struct wire_checked *m, struct view list,
                       struct err *e)
{
    struct wire_path_seen *states = calloc((size_t)m->n + 1, sizeof *states);
    if (!states)
        return err_set(e, WARM_ENOMEM, "no memory for a list of headers");
    struct reader r = reader_over(list.data, list.len);
    uint32_t n = 0;
    while (n < m->n && wire_states_next(&r, states, n))
        n++;
    int code = 0;
    if (n != m->n || !reader_done(&r))
        code = err_set(e, WARM_EMALFORMED, "CHECKED: not one state for each path");
    else
        service_checked(&call->ask, states);
    free(states);
    return code;
}

static int read_states_fd(struct native_call *call, const struct wire_checked *m, int fd,
                          struct err *e)
{
    int code = memfd_check(fd, m->len, e);
    if (code)
        return code;
    void *map = mmap(NULL, m->len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return err_set(e, WARM_ENOMEM, "cannot map a list of headers");
    code = read_states(call, m, (struct view){map, m->len}, e);
    munmap(map, m->len);
    return code;
}

static int take_checked(struct request *r, struct err *e)
{
    struct wire_checked m;
    int code = wire_get_checked(r->frame, &m, e);
    if (code)
        return code;
    struct native_call *call = call_of_tag(r->native, r->frame->tag);
    if (!call || !ask_checking(&call->ask))
        return err_set(e, WARM_EINVALID, "CHECKED for a tag that was not asked");
    if (!may_be_states(call, &m))
        code = err_set(e, WARM_EMALFORMED, "CHECKED: not one state for each path");
    else if (r->frame->n_fds)
        code = read_states_fd(call, &m, r->fds[0], e);
    else
        code = read_states(call, &m, m.list, e);
    if (code) {
        ask_drop(&call->ask, false);
        call_unlink(call);
    }
    return code;
}

static int take_cancel(struct request *r, struct err *e)
{
    (void)e;
    struct native_call *call = call_of_tag(r->native, r->frame->tag);
    if (call) {
        ask_drop(&call->ask, true);
        call_unlink(call);
    }
    return 0;
}

static int take_damaged(struct request *r, struct err *e)
{
    struct wire_damaged m;
    int code = wire_get_damaged(r->frame, &m, e);
    if (code == 0)
        service_damaged(r->native->service, r->native->peer, &m.key, &m.seen);
    return code;
}

/* Takes the job of an AUDIT that was asked for. It has no answer. */
static int take_audit(struct request *r, struct err *e)
{
    struct native *n = r->native;
    struct wire_audit m;
    int code = wire_get_audit(r->frame, &m, e);
    if (code == 0 && n->asked_audit && key_equal(&n->audit, &m.key)) {
        n->asked_audit = false;
        service_audit(n->service, n->peer, &m);
    }
    return code;
}

/* ---- frames ---- */

static native_take handler_of(uint8_t type)
{
    static const native_take handlers[0x20] = {
        [WIRE_HELLO] = take_hello,     [WIRE_GET] = take_get,         [WIRE_MGET] = take_mget,
        [WIRE_PUT] = take_put,         [WIRE_RELEASE] = take_release, [WIRE_COMPILE] = take_compile,
        [WIRE_SOURCE] = take_source,   [WIRE_CHECKED] = take_checked, [WIRE_CANCEL] = take_cancel,
        [WIRE_DAMAGED] = take_damaged, [WIRE_AUDIT] = take_audit,     [WIRE_RENEW] = take_renew,
    };
    bool ours = type < sizeof handlers / sizeof *handlers && handlers[type];
    return ours ? handlers[type] : native_admin_handler(type);
}

/* Answers one frame. False if the connection must end. */
static bool take_frame(struct native *n, const struct wire_frame *frame)
{
    struct request r = {.native = n, .frame = frame, .fds = {-1, -1}};
    struct err e; /* it is large: only two fields are cleared for each frame */
    e.code = 0;
    e.text[0] = '\0';
    int code;
    native_take handler = handler_of(frame->type);
    bool fatal = !n->greeted; /* an error before WELCOME ends the connection */
    if (!connection_take_fds(n->connection, frame->n_fds, r.fds)) {
        code = err_set(&e, WARM_EMALFORMED, "the descriptors of a frame did not come with it");
        fatal = true;
    } else if (!n->greeted && frame->type != WIRE_HELLO) {
        code = err_set(&e, WARM_EMALFORMED, "%s before HELLO", wire_type_name(frame->type));
    } else if (!handler) {
        code =
            err_set(&e, WARM_EUNSUPPORTED, "message type 0x%02x is not for a daemon of version %u",
                    frame->type, WIRE_VERSION);
    } else {
        code = handler(&r, &e);
    }
    for (unsigned i = 0; i < WIRE_FDS_MAX; i++)
        if (r.fds[i] >= 0)
            fd_close_later(r.fds[i]);
    if (code)
        native_send_error(n, frame->tag, &e);
    return !code || !fatal;
}

static long native_on_bytes(void *state, const uint8_t *data, size_t len)
{
    struct native *n = state;
    struct wire_frame frame;
    struct err e;       /* the function that fails fills it */
    assert(!n->yields); /* a turn ended the frame before */
    long took = wire_parse(data, len, &frame, &e);
    if (took < 0)
        native_send_error(n, 0, &e);
    if (took <= 0)
        return took;
    bool good = take_frame(n, &frame);
    connection_greeted(n->connection);
    if (n->yields) { /* the same frame comes again */
        n->yields = false;
        return 0;
    }
    n->rest = (struct native_rest){0};
    return good ? took : -1;
}

static void *native_open(struct connection *c)
{
    struct native *n = calloc(1, sizeof *n);
    if (n) {
        n->connection = c;
        n->service = connection_service(c);
        n->peer = connection_peer(c);
    }
    return n;
}

static void drop_calls(struct native *n)
{
    while (n->calls) {
        ask_drop(&n->calls->ask, false);
        call_unlink(n->calls);
    }
}

/* Frees leases at once when the socket ends. Operations of the store are still answered. */
static bool native_on_end(void *state)
{
    struct native *n = state;
    drop_calls(n);
    return n->n_ops > 0;
}

static void native_on_close(void *state)
{
    struct native *n = state;
    if (n->n_imported)
        log_asked(n->peer->uid, (long)n->peer->pid, "imported %llu compiled %s, %llu bytes",
                  (unsigned long long)n->n_imported, n->n_imported == 1 ? "entry" : "entries",
                  (unsigned long long)n->imported_bytes);
    drop_calls(n);
    assert(!n->calls);
    rank_agreement_leave(n->ranks);
    for (struct native_op *op = n->ops; op; op = op->next)
        op->native = NULL;
    if (n->rest.op)
        native_op_free(n->rest.op);
    id_set_clear(&n->rest.ids);
    free(n);
}

static bool native_is_idle(const void *state)
{
    const struct native *n = state;
    return !n->calls && !n->ops && !n->rest.there;
}

static enum protocol_fit native_fits(const uint8_t *data, size_t len)
{
    (void)len;
    return data[0] == WIRE_MAGIC ? PROTOCOL_FITS : PROTOCOL_IS_OTHER;
}

const struct protocol native_protocol = {.takes_fds = true,
                                         .fits = native_fits,
                                         .open = native_open,
                                         .on_bytes = native_on_bytes,
                                         .on_end = native_on_end,
                                         .is_idle = native_is_idle,
                                         .on_close = native_on_close};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bookkeeping.c - counts requests and tells the history: which were missed, why, and what each compile
 * or put was made of.
 *
 * ask.c calls bookkeeping_answer for each answer of an ask; lookup.c counts hits that need none.
 * put.c and the compile's files tell the rest. Nothing in here changes an answer.
 *
 * Notes of clients (wire_name_is_note) are in internal counters, and in no session.
 *
 * Thread: loop thread, but for bookkeeping_job.
 */
#include "daemon/service/bookkeeping.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compiler/pool.h"
#include "daemon/headers/manifest.h"
#include "daemon/history/recipe.h"
#include "daemon/process/log.h"
#include "daemon/service/compile_request.h"
#include "daemon/service/forms.h"
#include "daemon/service/internal.h"
#include "store/clock.h"

#define PASSING_MS 60000u /* what lives no longer is no part of a result */
#define DEPARTURES 64u    /* that are read from the store at once */

bool bookkeeping_is_note(enum wire_space space, struct view key)
{
    return space == WIRE_SPACE_NAME && (wire_name_is_note(key) || wire_name_is_catalogue(key));
}

bool bookkeeping_is_unlisted(enum wire_space space, struct view key)
{
    return bookkeeping_is_note(space, key) ||
           (space == WIRE_SPACE_NAME && wire_name_is_second(key));
}

/* ---- sessions ---- */

uint32_t service_join_session(struct service *s, uint32_t uid, struct view id)
{
    return history_join(s->history, uid, id, clock_wall_coarse_ms());
}

void service_set_project(struct service *s, const struct peer *peer)
{
    history_set_project(s->history, peer->session, peer->project);
}

void service_leave_session(struct service *s, uint32_t session)
{
    history_leave(s->history, session);
}

void bookkeeping_asked(struct service *s, const struct peer *peer)
{
    if (peer->session && !peer->administers)
        history_count(s->history, peer->session, HISTORY_asked, 1, clock_wall_coarse_ms());
}

/* Counts for the daemon, for the asker, and for the asker's session. */
static void count(struct service *s, const struct peer *peer, enum stats_counter what,
                  enum store_kind kind, uint64_t n)
{
    static const struct {
        enum stats_counter what;
        enum history_counter of_session;
        enum usage_counter of_user;
    } counters[] = {{STATS_hits, HISTORY_hits, USAGE_hits},
                    {STATS_misses, HISTORY_misses, USAGE_misses},
                    {STATS_coalesced, HISTORY_coalesced, USAGE_coalesced},
                    {STATS_errors, HISTORY_errors, USAGE_errors},
                    {STATS_saved_ms, HISTORY_saved_ms, USAGE_saved_ms}};
    size_t i = 0;
    stats_add(&s->stats, what, kind, n);
    while (i < sizeof counters / sizeof *counters && counters[i].what != what)
        i++;
    if (i == sizeof counters / sizeof *counters)
        return;
    /* by hour, user and project */
    history_use(s->history, peer->uid, peer->session, peer->project, counters[i].of_user, n,
                clock_wall_coarse_ms());
    if (peer->session)
        history_count(s->history, peer->session, counters[i].of_session, n, clock_wall_coarse_ms());
}

/* Writes what a peer got, at debug, and tells `warm events`. */
static void log_answer(struct service *s, const struct peer *peer, const char *what,
                       enum store_kind kind, struct view label)
{
    log_debug("uid %u (pid %ld) %s: %s %.*s", (unsigned)peer->uid, (long)peer->pid, what,
              wire_kind_name(kind), (int)(label.len < 200 ? label.len : 200),
              (const char *)label.data);
    history_feed(&(struct feed_thing){.uid = peer->uid,
                                      .kind = kind,
                                      .what = what,
                                      .session = history_session_id(s->history, peer->session),
                                      .label = label});
}

static void count_stored(struct service *s, const struct peer *peer, const struct store_row *row,
                         const struct store_id *id, uint64_t began_us)
{
    count(s, peer, STATS_hits, row->kind, 1);
    count(s, peer, STATS_saved_ms, row->kind, row->cost_ms);
    log_answer(s, peer, "hit", row->kind, row->label.len ? row->label : row->name);
    if (!peer->session)
        return;
    history_used(s->history, peer->session, id);
    history_hit(s->history, peer->session, id);
    uint64_t now_us = clock_wall_us();
    history_event(s->history, &(struct history_event){
                                  .what = HISTORY_HIT,
                                  .kind = row->kind,
                                  .session = peer->session,
                                  .pid = (uint32_t)peer->pid,
                                  .at_us = began_us ? began_us : now_us,
                                  .us = began_us && began_us < now_us ? now_us - began_us : 0,
                                  .cost_ms = row->cost_ms,
                                  .made_ms = row->created_ms,
                                  .bytes = row->len,
                                  .key = id->key,
                                  .label = row->label.len ? row->label : row->name});
}

void bookkeeping_hit(struct service *s, const struct peer *peer, bool is_note,
                     const struct store_row *row)
{
    if (peer->administers)
        return;
    if (is_note || row->kind == STORE_MANIFEST) { /* the value that it leads to is the hit */
        history_used(s->history, peer->session, &row->id);
        stats_add(&s->stats, STATS_internal_hits, row->kind, 1);
    } else {
        bookkeeping_asked(s, peer);
        count_stored(s, peer, row, &row->id, 0);
    }
}

/* ---- what is gone ---- */

void bookkeeping_departures(struct service *s)
{
    struct store_departure gone[DEPARTURES];
    size_t n;
    do {
        n = store_departures(s->config.store, gone, DEPARTURES);
        for (size_t i = 0; i < n; i++)
            history_left(s->history, &gone[i]);
    } while (n == DEPARTURES);
}

void bookkeeping_stored(struct service *s, const struct store_id *id)
{
    bookkeeping_departures(s);
    history_put(s->history, id);
}

/* ---- answers ---- */

#define LOOK_MS 10000u /* a process that comes back later is another asker */

/* Notes an answer that is no hit of a stored value. `miss`: its number; 0: none. */
static void note_event(const struct ask *ask, enum history_what what, const struct artifact *a,
                       uint64_t miss)
{
    uint64_t now_us = clock_wall_us();
    if (!ask->peer->session)
        return;
    history_event(ask->service->history,
                  &(struct history_event){.what = what,
                                          .kind = a          ? a->kind
                                                  : ask->ops ? ask->ops->kind
                                                             : STORE_OTHER,
                                          .session = ask->peer->session,
                                          .pid = (uint32_t)ask->peer->pid,
                                          .at_us = ask->began_us,
                                          .us = now_us > ask->began_us ? now_us - ask->began_us : 0,
                                          .cost_ms = a ? a->cost_ms : 0,
                                          .bytes = a ? a->len : 0,
                                          .miss = miss,
                                          .key = ask->id.key,
                                          .label = ask->compile ? view_of_text(ask->compile->label)
                                                                : ask->name});
}

bool bookkeeping_is_failure(int code)
{
    return code && code != WARM_ENOT_FOUND && code != WARM_EBUSY && code != WARM_ECORRUPT;
}

void bookkeeping_failure(struct ask *ask, const struct err *e)
{
    assert(e->code);
    snprintf(ask->failure, sizeof ask->failure, "%.*s", (int)sizeof ask->failure - 1,
             *e->text ? e->text : err_text(e->code));
    log_user(ask->peer->uid, LOG_LEVEL_WARNING, "a stored value is not given: %s", ask->failure);
}

void bookkeeping_get_miss(struct ask *ask, bool is_lease)
{
    struct service *s = ask->service;
    enum store_kind kind = wire_kind_of_name(ask->name);
    if (ask->is_unlisted) {
        stats_add(&s->stats, STATS_internal_misses, kind, 1);
        return;
    }
    count(s, ask->peer, *ask->failure ? STATS_errors : STATS_misses, kind, 1);
    log_answer(ask->service, ask->peer, *ask->failure ? "failed" : "miss", kind, ask->name);
    bookkeeping_departures(s);
    uint64_t miss = history_miss(s->history,
                                 &(struct history_ask){.id = ask->id,
                                                       .uid = ask->peer->uid,
                                                       .session = ask->peer->session,
                                                       .kind = kind,
                                                       .name = ask->name,
                                                       .tier = view_of_text(ask->tier_said),
                                                       .was_corrupt = ask->was_corrupt,
                                                       .failure = view_of_text(ask->failure)},
                                 clock_wall_coarse_ms());
    note_event(ask, is_lease ? HISTORY_LEASED : HISTORY_MISSED, NULL, miss);
}

static void answered_miss(struct ask *ask)
{
    if (ask->compile) {
        count(ask->service, ask->peer, *ask->failure ? STATS_errors : STATS_misses, STORE_CUBIN, 1);
        log_answer(ask->service, ask->peer, "miss", STORE_CUBIN, view_of_text(ask->compile->label));
        note_event(ask, HISTORY_MISSED, NULL, bookkeeping_compile_miss(ask));
    } else {
        bookkeeping_get_miss(ask, false);
        struct service *s = ask->service;
        if (!ask->is_unlisted)
            s->looks[s->next_look++ % LOOKS] =
                (struct recent_miss){.id = ask->id,
                                     .miss = history_find(s->history, &ask->id),
                                     .at_ms = clock_wall_coarse_ms(),
                                     .session = ask->peer->session,
                                     .pid = ask->peer->pid};
    }
}

/* Counts a result that is in memory. A remembered refusal is an error, but no hit. */
static void answered_artifact(struct ask *ask, const struct artifact *a, enum wire_outcome outcome)
{
    static const struct {
        const char *said;
        enum stats_counter counter;
        enum history_what event;
    } words[] = {[WIRE_WAS_HIT] = {"hit", STATS_hits, HISTORY_HIT},
                 [WIRE_WAS_MISS] = {"compiled", STATS_misses, HISTORY_COMPILED},
                 [WIRE_WAS_COALESCED] = {"got another's compile", STATS_coalesced, HISTORY_WAITED}};
    struct service *s = ask->service;
    bool is_miss = outcome == WIRE_WAS_MISS;
    log_answer(s, ask->peer, a->failed ? "refused by the compiler" : words[outcome].said, a->kind,
               ask->compile ? view_of_text(ask->compile->label) : ask->name);
    if (!a->failed || outcome != WIRE_WAS_HIT)
        count(s, ask->peer, words[outcome].counter, a->kind, 1);
    if (a->failed) {
        count(s, ask->peer, STATS_errors, a->kind, 1);
        note_event(ask, HISTORY_FAILED, a, 0);
        return;
    }
    if (!is_miss)
        count(s, ask->peer, STATS_saved_ms, a->kind, a->cost_ms);
    history_used(s->history, ask->peer->session, &ask->id);
    note_event(ask, words[outcome].event, a, is_miss ? history_find(s->history, &ask->id) : 0);
}

/* Counts an error. A compiler that the daemon does not load is none: its client asks again by content, or
 * makes the artifact itself. */
static void answered_error(struct ask *ask, const struct err *e)
{
    struct service *s = ask->service;
    if (ask->compile && e->code == WARM_ENO_TOOLCHAIN && ask->peer->session) {
        history_count(s->history, ask->peer->session, HISTORY_asked, UINT64_MAX,
                      clock_wall_coarse_ms()); /* one less */
        return;
    }
    if (*ask->failure && !ask->compile) { /* `warm why` tells it beside the misses */
        bookkeeping_get_miss(ask, false);
        return;
    }
    count(s, ask->peer, STATS_errors, ask->ops->kind, 1);
    log_answer(ask->service, ask->peer, "error", ask->ops->kind, view_of_text(e->text));
    note_event(ask, HISTORY_FAILED, NULL, 0);
    if (!ask->compile && e->code == WARM_ETIMEOUT)
        history_note(s->history, ask->peer->uid, ask->peer->session, WIRE_REASON_TIMEOUT,
                     (struct view){"", 0}, view_of_text(e->text), clock_wall_coarse_ms());
}

/* Counts a value that is no result: a note, or a list of files, whose result is the hit. True if it is one. */
static bool answered_lead(const struct ask *ask, enum store_kind kind)
{
    struct service *s = ask->service;
    if (kind != STORE_MANIFEST && !ask->is_unlisted)
        return false;
    stats_add(&s->stats, STATS_internal_hits, kind, 1);
    history_used(s->history, ask->peer->session, &ask->id);
    if (!ask->is_unlisted && ask->peer->session) /* it was counted when it came */
        history_count(s->history, ask->peer->session, HISTORY_asked, UINT64_MAX,
                      clock_wall_coarse_ms());
    return true;
}

/* Counts a lease as a miss, unless the client waited first: then its miss was counted. */
void bookkeeping_answer(struct ask *ask, const struct answer *a)
{
    assert(ask->ops);
    if (ask->peer->administers || ask->ops->is_child)
        return;
    switch (a->kind) {
    case ANSWER_VALUE:
    case ANSWER_FAILED:
        if (answered_lead(ask, a->value ? a->value->row.kind : a->artifact->kind))
            break;
        if (a->value)
            count_stored(ask->service, ask->peer, &a->value->row, &ask->id, ask->began_us);
        else
            answered_artifact(ask, a->artifact, a->outcome);
        break;
    case ANSWER_MISS: answered_miss(ask); break;
    case ANSWER_ERROR: answered_error(ask, a->err); break;
    case ANSWER_LEASE:
        if (!ask->waits)
            bookkeeping_get_miss(ask, true);
        break;
    case ANSWER_OVER:
    case ANSWER_WAIT:
    case ANSWER_NEED:
    case ANSWER_CHECK: break;
    }
}

/* Forgets the look: its process asks once more for what it had asked for. */
void bookkeeping_look_is_over(const struct ask *ask)
{
    struct service *s = ask->service;
    uint64_t now_ms = clock_wall_coarse_ms();
    for (size_t i = 0; i < LOOKS; i++) {
        struct recent_miss *l = &s->looks[i];
        if (!l->miss || l->pid != ask->peer->pid || l->session != ask->peer->session ||
            !store_id_equal(&l->id, &ask->id))
            continue;
        if (now_ms - l->at_ms < LOOK_MS) {
            history_forget(s->history, l->session, l->miss);
            stats_add(&s->stats, STATS_misses, wire_kind_of_name(ask->name), UINT64_MAX);
            history_use(s->history, ask->peer->uid, l->session, ask->peer->project, USAGE_misses,
                        UINT64_MAX, l->at_ms);
        }
        *l = (struct recent_miss){.miss = 0};
    }
}

void bookkeeping_put(struct service *s, const struct peer *peer, const struct service_put *put,
                     const struct store_id *id)
{
    static struct recipe recipe; /* too large for the stack */
    struct writer w;
    bool is_note = bookkeeping_is_note(WIRE_SPACE_NAME, put->name);
    stats_add(&s->stats, is_note ? STATS_internal_puts : STATS_puts, put->kind, 1);
    log_answer(s, peer, "put", put->kind, put->label.len ? put->label : put->name);
    if (!peer->administers && (!put->ttl_ms || put->ttl_ms > PASSING_MS))
        history_used(s->history, peer->session, id);
    if (put->cost_ms)
        stats_add_time(&s->stats.compile_times, put->kind, put->cost_ms * 1000000ull);
    if (is_note)
        return;
    uint64_t miss = history_find(s->history, id);
    history_event_made(s->history, miss,
                       &(struct history_event){.kind = put->kind,
                                               .at_us = clock_wall_us(),
                                               .cost_ms = put->cost_ms,
                                               .bytes = put->len});
    if (put->hardware.len + put->compiler.len + put->label.len == 0)
        return;
    recipe_begin(&recipe);
    recipe_add(&recipe, "kind", view_of_text(wire_kind_name(put->kind)));
    recipe_add_text(&recipe, "hardware", put->hardware);
    recipe_add_text(&recipe, "compiler", put->compiler);
    recipe_add_text(&recipe, "label", put->label);
    writer_init(&w, RECIPE_MAX);
    recipe_end(&recipe, &w);
    struct view bytes = {w.data, w.failed ? 0 : w.len};
    history_tell(s->history, miss, put->kind, put->label, put->hardware, put->compiler);
    history_explain(s->history, miss, bytes);
    history_remember(s->history,
                     &(struct history_made){.id = *id, .uid = peer->uid, .session = peer->session},
                     bytes, clock_wall_coarse_ms());
    writer_close(&w);
}

/* ---- compiles ---- */

void bookkeeping_job(const struct job *job, const struct compile *compile, struct writer *out)
{
    struct recipe *recipe = malloc(sizeof *recipe);
    if (!recipe)
        return;
    recipe_begin(recipe);
    recipe_add(recipe, "arch", view_of_text(compile->address.hardware));
    recipe_add(recipe, "compiler", view_of_text(compile->toolchain->text));
    recipe_add_job(recipe, job);
    recipe_end(recipe, out);
    free(recipe);
}

uint64_t bookkeeping_compile_miss(struct ask *ask)
{
    struct service *s = ask->service;
    const struct compile *c = ask->compile;
    bookkeeping_departures(s);
    uint64_t miss =
        history_miss(s->history,
                     &(struct history_ask){.id = ask->id,
                                           .also = ask->chosen.id,
                                           .uid = ask->peer->uid,
                                           .session = ask->peer->session,
                                           .kind = STORE_CUBIN,
                                           .label = view_of_text(c->label),
                                           .hardware = view_of_text(c->address.hardware),
                                           .compiler = view_of_text(c->toolchain->text),
                                           .tier = view_of_text(ask->tier_said),
                                           .was_corrupt = ask->was_corrupt,
                                           .failure = view_of_text(ask->failure)},
                     clock_wall_coarse_ms());
    if (c->flags & WIRE_COMPILE_RECACHE)
        history_settle(s->history, miss, WIRE_REASON_DISABLED,
                       view_of_text("compiled anew: WARM_RECACHE, or --recache"));
    else if (c->flags & WIRE_COMPILE_ONLY_IF_CACHED && !history_is_settled(s->history, miss))
        history_settle(s->history, miss, WIRE_REASON_COLD,
                       view_of_text("not here; --only-if-cached sends no source to compare"));
    for (unsigned i = 0; i < c->n_changed; i++)
        history_change(s->history, miss,
                       &(struct recipe_change){view_of_text(c->changed[i].part),
                                               view_of_text(c->changed[i].old),
                                               view_of_text(c->changed[i].now)});
    return miss;
}

void bookkeeping_source(struct service *s, uint64_t miss, const struct writer *recipe)
{
    history_explain(s->history, miss,
                    (struct view){recipe->data, recipe->failed ? 0 : recipe->len});
}

void bookkeeping_made(struct service *s, const struct history_made *made,
                      const struct writer *recipe)
{
    if (!recipe->failed && recipe->len)
        history_remember(s->history, made, (struct view){recipe->data, recipe->len},
                         clock_wall_coarse_ms());
}

void bookkeeping_lines(struct service *s, uint64_t miss, const struct pool_result *done)
{
    for (size_t i = 0; i < done->n_paths; i++)
        if (done->paths[i].lines.len)
            history_lines(s->history, &done->paths[i].sha256, done->paths[i].lines);
    history_locate(s->history, miss);
}

void bookkeeping_failed(struct service *s, uint64_t miss, const struct err *e)
{
    if (e->code == WARM_ETIMEOUT)
        history_settle(s->history, miss, WIRE_REASON_TIMEOUT, view_of_text(e->text));
    else if (e->code == WARM_EREFUSED)
        history_settle(s->history, miss, WIRE_REASON_UNCACHEABLE, view_of_text(e->text));
}

/* ---- headers ---- */

#define ABSENT "absent"

static void digest_text(const struct proof *sha256, char out[WARM_KEY_TEXT])
{
    struct key key;
    memcpy(key.bytes, sha256->bytes, sizeof key.bytes);
    key_to_text(&key, out);
    out[16] = '\0';
}

/* Writes "header PATH"; of a long path the end, which tells more. */
static void name_change(const struct manifest *m, struct view path, struct changed_header *out)
{
    char whole[4096];
    bases_path(m->bases, path, whole, sizeof whole);
    size_t room = sizeof out->part - sizeof "header ", len = strlen(whole);
    const char *from = len > room ? whole + len - room : whole;
    snprintf(out->part, sizeof out->part, "header %.*s", (int)room, from);
}

/* Finds a change of the same file under another of its paths: one is enough, best an absolute
 * one. */
static struct changed_header *same_change(struct compile *c, const struct changed_header *like)
{
    for (unsigned i = 0; i < c->n_changed && strcmp(like->old, ABSENT) != 0; i++)
        if (strcmp(c->changed[i].old, like->old) == 0 && strcmp(c->changed[i].now, like->now) == 0)
            return &c->changed[i];
    return NULL;
}

static bool is_rooted(const struct changed_header *h)
{
    return h->part[sizeof "header " - 1] == '/';
}

/* Describes a change of identity: the contents agree, but one file is two now, or the reverse. */
static void describe_other_file(struct compile *c, const struct manifest *m,
                                const struct manifest_alternative *a,
                                const struct wire_path_seen *states)
{
    static const char own[] = "a file of its own", other[] = "one file with another header";
    uint32_t i = manifest_other_file(m, a, states);
    if (i == a->n_states)
        return;
    struct changed_header *change = &c->changed[c->n_changed++];
    const struct manifest_state *was = &a->states[i];
    name_change(m, m->paths[was->path], change);
    strcpy(change->old, was->same == i ? own : other);
    strcpy(change->now, states[was->path].same == was->path ? own : other);
}

void bookkeeping_headers(struct ask *ask, const struct manifest *m,
                         const struct wire_path_seen *states)
{
    struct compile *c = ask->compile;
    if (m->n_alternatives == 0)
        return;
    const struct manifest_alternative *newest = &m->alternatives[0];
    c->n_changed = 0;
    for (uint32_t i = 0; i < newest->n_states; i++) {
        const struct manifest_state *was = &newest->states[i];
        struct changed_header change, *same;
        if (!manifest_differs(was, &states[was->path]))
            continue;
        /* Describes a change by the digests of the contents, or by a word if there is no content. */
        const struct wire_path_seen *is = &states[was->path];
        strcpy(change.old, ABSENT);
        strcpy(change.now, is->state == WIRE_PATH_REFUSED ? "not shown" : ABSENT);
        if (!was->absent)
            digest_text(&was->sha256, change.old);
        if (is->state == WIRE_PATH_FILE)
            digest_text(&is->sha256, change.now);
        name_change(m, m->paths[was->path], &change);
        same = same_change(c, &change);
        if (same && is_rooted(&change) && !is_rooted(same))
            *same = change;
        else if (!same && c->n_changed < CHANGED_HEADERS)
            c->changed[c->n_changed++] = change;
    }
    if (!c->n_changed)
        describe_other_file(c, m, newest, states);
}

/* ---- notes and questions ---- */

void service_note(struct service *s, const struct peer *peer, const struct wire_note *note)
{
    if (note->reason == WIRE_REASON_STARTED)
        history_started(s->history, peer->session, note->text);
    else
        history_note(s->history, peer->uid, peer->session, note->reason, note->label, note->text,
                     clock_wall_coarse_ms());
}

void service_used(struct service *s, const struct peer *peer, struct view name)
{
    struct store_id id = service_name_id(peer, name);
    history_used(s->history, peer->session, &id);
}

bool service_write_history(struct service *s, const struct peer *peer,
                           const struct wire_history *ask, struct writer *out)
{
    bookkeeping_departures(s);
    return history_write_json(
        s->history,
        &(struct history_query){.of = ask->of,
                                .id = ask->id,
                                .max_misses = ask->max_misses,
                                .uid = peer->is_admin ? -1 : (int64_t)peer->uid,
                                .asker = peer->uid,
                                .max_bytes = WIRE_PAYLOAD_MAX / 2},
        out);
}

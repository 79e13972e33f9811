/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bookkeeping.h - counts requests, for the daemon and for the session of the asker, and tells the
 * history of misses, puts and compiles (history.h).
 *
 *     ask.c, lookup.c ──▶ counters of the daemon and of the asker's session
 *                      ──▶ a miss ──▶ its recipe, as soon as a compile or a put tells it
 *     the store        ──▶ entries that were evicted, removed, quarantined
 *
 * Thread: loop thread, but for bookkeeping_job. Memory: everything is copied.
 */
#ifndef WARM_DAEMON_SERVICE_BOOKKEEPING_H
#define WARM_DAEMON_SERVICE_BOOKKEEPING_H

#include "daemon/history/history.h"
#include "daemon/service/service.h"

struct pool_result;
struct job;

/* ---- requests ---- */

/* True for clients' own notes, and PyTorch's catalogue. They count in the daemon's totals, but never as a hit or miss of a session. */
bool bookkeeping_is_note(enum wire_space space, struct view key);
/* True for names whose miss counts in the daemon's totals alone: notes, and names that a client tries
 * after the first one missed. */
bool bookkeeping_is_unlisted(enum wire_space space, struct view key);

/* Counts a request of the peer's session. */
void bookkeeping_asked(struct service *s, const struct peer *peer);
/* Counts a hit that is answered without an ask. */
void bookkeeping_hit(struct service *s, const struct peer *peer, bool is_note,
                     const struct store_row *row);
/* True for the code of a look-up that failed, rather than found nothing: no descriptor, no memory, the disk. It is
 * no miss. */
bool bookkeeping_is_failure(int code);
/* Notes in an ask that a look-up failed, and logs it in the user's share of the log. The ask then counts as an
 * error, and `warm why` says "failed", whether its answer is an error or a lease. */
void bookkeeping_failure(struct ask *ask, const struct err *e);
/* Counts the miss of a GET and notes it in the history. `is_lease`: the client was told to make it. */
void bookkeeping_get_miss(struct ask *ask, bool is_lease);
/* Counts an answer and notes it in the history: called once for each answer. */
void bookkeeping_answer(struct ask *ask, const struct answer *a);
/* Forgets a recent miss of this process for the same entry: it comes back for the lease, and both
 * count as one. */
void bookkeeping_look_is_over(const struct ask *ask);

/* ---- the store ---- */

/* Tells the history which entries have left the store. */
void bookkeeping_departures(struct service *s);
/* Tells the history of an entry that is being stored. */
void bookkeeping_stored(struct service *s, const struct store_id *id);
/* Counts a client's put, and notes its description as the recipe of the entry. */
void bookkeeping_put(struct service *s, const struct peer *peer, const struct service_put *put,
                     const struct store_id *id);

/* ---- compiles ---- */

/* Writes the recipe of a job. Any thread. */
void bookkeeping_job(const struct job *job, const struct compile *compile, struct writer *out);
/* Notes the miss of a compile. Returns its number in the history. */
uint64_t bookkeeping_compile_miss(struct ask *ask);
/* Notes the recipe of a miss. */
void bookkeeping_source(struct service *s, uint64_t miss, const struct writer *recipe);
/* Notes a compiled entry with its recipe. */
void bookkeeping_made(struct service *s, const struct history_made *made,
                      const struct writer *recipe);
/* Notes the lines of the headers that a compile read, so that a miss can name the changed line. */
void bookkeeping_lines(struct service *s, uint64_t miss, const struct pool_result *done);
/* Notes that a compile ended without a result. */
void bookkeeping_failed(struct service *s, uint64_t miss, const struct err *e);
/* Keeps the headers in which the client differs from the manifest's newest alternative, for the
 * explanation of the miss. */
void bookkeeping_headers(struct ask *ask, const struct manifest *m,
                         const struct wire_path_seen *states);

#endif

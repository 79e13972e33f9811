/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_agreement.h - the ranks of one job get one answer to one question: all hit, or all miss.
 *
 * Ranks that take different turns at a cache take different paths: one traces and compiles, another
 * loads, and where compiling talks to the other ranks they wait for each other for ever. So the first
 * answer that a job gets to a name is kept, and given to its other ranks, though the entry was put, or
 * evicted, in between.
 *
 *     rank 0  GET k ──▶ not there ──────▶ miss, noted
 *     rank 0            … PUT k
 *     rank 1  GET k ──▶ noted: miss        (though k is there by now)
 *     rank 0  GET k ──▶ asks again: a new question ──▶ hit, noted
 *     rank 1  GET k ──▶ its second question, too ────▶ noted: hit
 *
 * What is made under a lease needs no such note for a miss: who waits for the maker gets what it made.
 *
 * Decided here rather than by the ranks, because they need not know of one another, may come at any
 * time, and have nothing in common but this daemon and the job's name (HELLO: " job=NAME"). A job is
 * over when its last connection ends, so that one started anew under the same name begins with no
 * notes; a note is good for RANK_KEEP_MS.
 *
 * Thread: loop thread. Memory: bounded, for each user, by BUDGET_rank_jobs and BUDGET_rank_bytes; a job belongs to this module, and is counted by join and
 * leave.
 */
#ifndef WARM_DAEMON_NATIVE_RANK_AGREEMENT_H
#define WARM_DAEMON_NATIVE_RANK_AGREEMENT_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/service/artifact.h"
#include "store/store.h"

#define RANK_KEEP_MS 600000u /* the slowest rank of a job may be that late */
#define RANK_NAME_MAX 128u   /* bytes of a job's name */
#define RANK_ANSWERS 256u    /* of a job; then the oldest is forgotten */
#define RANK_MEMBERS 64u     /* processes that are known to have had an answer */

struct rank_group;

/* The job named in a client's introduction, one more of whose connections this is. NULL: it names
 * none, or there is no room. */
struct rank_group *rank_agreement_join(uint32_t uid, struct view client);
void rank_agreement_leave(struct rank_group *job); /* NULL is fine */

enum rank_agreement_said {
    RANK_NEW,  /* to be looked up, and noted */
    RANK_MISS, /* the others were told that it is not there */
    RANK_HIT,  /* the others have got *out, borrowed */
};
/* What the job was told to this question, whose name has this SHA-256; a process that asks again asks
 * the next one. */
enum rank_agreement_said rank_agreement_recall(struct rank_group *job, const struct proof *name,
                                               pid_t pid, uint64_t now_ms, struct artifact **out);
/* What one of its processes is told now: a value, or NULL: a miss. Without memory nothing is noted. */
void rank_agreement_note(struct rank_group *job, const struct proof *name, pid_t pid,
                         uint64_t now_ms, const struct store_value *value);

#endif

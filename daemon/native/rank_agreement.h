/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_agreement.h - gives the ranks of one job one answer to one question: all hit, or all miss.
 *
 * Ranks with different answers take different paths: one traces and compiles, another loads. If
 * compiling talks to the other ranks, they wait for each other for ever. So the first answer that a
 * job gets to a name is kept. Its other ranks get the same, even if the entry was put or evicted in
 * between.
 *
 *     rank 0  GET k ──▶ not there ──────▶ miss, noted
 *     rank 0            … PUT k
 *     rank 1  GET k ──▶ noted: miss        (though k is there by now)
 *     rank 0  GET k ──▶ asks again: a new question ──▶ hit, noted
 *     rank 1  GET k ──▶ its second question, too ────▶ noted: hit
 *
 * A miss under a lease needs no note: waiters get the value that the lease holder makes.
 *
 * Ranks on several machines (HELLO: " nodes=2" and more) have one answer if the daemons share a tier with
 * leases: the tier's answer to the first of them is the answer to all (tier.h). Without such a tier, each
 * machine decides for its own ranks.
 *
 * The daemon decides, so the ranks need not know of one another and may come at any time. They
 * share only this daemon and the job's name (HELLO: " job=NAME"). A job is over when its last
 * connection ends: a new job of the same name begins without notes. A note holds for RANK_KEEP_MS.
 *
 * Thread: loop thread. Memory: bounded, for each user, by BUDGET_rank_jobs, BUDGET_rank_bytes and
 * BUDGET_descriptors. A group belongs to this module; join and leave count its connections.
 */
#ifndef WARM_DAEMON_NATIVE_RANK_AGREEMENT_H
#define WARM_DAEMON_NATIVE_RANK_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/service/artifact.h"
#include "store/store.h"

#define RANK_KEEP_MS 600000u /* the slowest rank of a job may be that late */
#define RANK_NAME_MAX 128u   /* bytes of a job's name */
#define RANK_ANSWERS 256u    /* of a job; a further one replaces the oldest */
#define RANK_MEMBERS 64u     /* processes that are known to have an answer */

struct rank_group;

/* Joins the group of the job that a client's introduction names. NULL: it names none, or there is
 * no room. */
struct rank_group *rank_agreement_join(uint32_t uid, struct view client);
/* Leaves the group when the connection ends. NULL is fine. */
void rank_agreement_leave(struct rank_group *job);

/* True if the job runs on several machines. *out is then the SHA-256, in hex, of its name and of the number of
 * answers that it had to this question. It is the same on all machines. */
bool rank_agreement_spans(const struct rank_group *job, const struct proof *name, char out[65]);

enum rank_agreement_said {
    RANK_NEW,  /* the question is new: look it up, and note the answer */
    RANK_MISS, /* the others were told that it is not there */
    RANK_HIT,  /* the others have got *out, borrowed */
};
/* Recalls the job's answer to a name with this SHA-256. A process that asks again asks a new
 * question. */
enum rank_agreement_said rank_agreement_recall(struct rank_group *job, const struct proof *name,
                                               pid_t pid, uint64_t now_ms, struct artifact **out);
/* Notes the answer to one of its processes: a value, or NULL: a miss. Without memory nothing is
 * noted. */
void rank_agreement_note(struct rank_group *job, const struct proof *name, pid_t pid,
                         uint64_t now_ms, const struct store_value *value);

#endif

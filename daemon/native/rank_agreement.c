/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_agreement.c - decides whether a rank's question is new, or has the answer that another rank of its
 * job got.
 *
 * native.c joins, recalls and notes.
 *
 * Thread: loop thread.
 */
#include "daemon/native/rank_agreement.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/wire.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"

#define FDS_LEFT 128u /* of a user's budget that kept answers leave for others */

struct rank_answer {
    struct proof name; /* SHA-256 of the name that was asked for */
    uint64_t noted_ms;
    bool used;
    struct artifact *value; /* NULL: a miss */
    uint64_t n_bytes;       /* of BUDGET_rank_bytes, */
    unsigned n_fds;         /* and of BUDGET_descriptors */
    pid_t members[RANK_MEMBERS];
    unsigned n_members;
};

struct rank_group {
    struct rank_group *prev, *next;
    uint32_t uid;
    unsigned n_connections;
    bool spans; /* several machines */
    char name[RANK_NAME_MAX + 1];
    unsigned next_answer; /* the place of the next answer: the oldest, if all are used */
    struct rank_answer answers[RANK_ANSWERS];
};

static struct rank_group *jobs;

/* ---- jobs ---- */

struct rank_group *rank_agreement_join(uint32_t uid, struct view client)
{
    struct view name = wire_word_after(client, " job="), nodes = wire_word_after(client, " nodes=");
    if (name.len == 0 || name.len > RANK_NAME_MAX)
        return NULL;
    struct rank_group *job = jobs;
    while (job && (job->uid != uid || strlen(job->name) != name.len ||
                   memcmp(job->name, name.data, name.len) != 0))
        job = job->next;
    if (!job) {
        if (!budget_take(uid, BUDGET_rank_jobs, 1))
            return NULL;
        job = calloc(1, sizeof *job);
        if (!job) {
            budget_give(uid, BUDGET_rank_jobs, 1);
            return NULL;
        }
        job->uid = uid;
        memcpy(job->name, name.data, name.len);
        LIST_ADD(jobs, job);
    }
    job->n_connections++;
    job->spans |= nodes.len > 1 || (nodes.len == 1 && *(const char *)nodes.data > '1');
    return job;
}

bool rank_agreement_spans(const struct rank_group *job, const struct proof *name, char out[65])
{
    char text[RANK_NAME_MAX + 16];
    unsigned n = 0;
    for (size_t i = 0; i < RANK_ANSWERS; i++)
        n += job->answers[i].used && proof_equal(&job->answers[i].name, name);
    snprintf(text, sizeof text, "%s %u", job->name, n);
    struct proof digest = proof_of_bytes(text, strlen(text));
    bytes_to_hex(digest.bytes, sizeof digest.bytes, out);
    return job->spans;
}

static void answer_clear(struct rank_group *job, struct rank_answer *a)
{
    budget_give(job->uid, BUDGET_rank_bytes, a->n_bytes);
    budget_give(job->uid, BUDGET_descriptors, a->n_fds);
    artifact_unref(a->value);
    memset(a, 0, sizeof *a);
}

void rank_agreement_leave(struct rank_group *job)
{
    assert(!job || job->n_connections);
    if (!job || --job->n_connections)
        return;
    for (unsigned i = 0; i < RANK_ANSWERS; i++)
        answer_clear(job, &job->answers[i]);
    LIST_REMOVE(jobs, job);
    budget_give(job->uid, BUDGET_rank_jobs, 1);
    free(job);
}

/* ---- answers ---- */

static bool had_it(const struct rank_answer *a, pid_t pid)
{
    assert(a->used && a->n_members <= RANK_MEMBERS);
    if (a->n_members == RANK_MEMBERS)
        return true; /* the list is full: a new process looks like one that had it */
    for (unsigned i = 0; i < a->n_members; i++)
        if (a->members[i] == pid)
            return true;
    return false;
}

static void add_member(struct rank_answer *a, pid_t pid)
{
    if (a->n_members < RANK_MEMBERS)
        a->members[a->n_members++] = pid;
}

/* Finds the oldest answer to a name that this process has not had yet. So its third question gets
 * the answer that the others got to their third. */
static struct rank_answer *answer_find(struct rank_group *job, const struct proof *name, pid_t pid,
                                       uint64_t now_ms)
{
    for (unsigned i = 0; i < RANK_ANSWERS; i++) {
        struct rank_answer *a = &job->answers[(job->next_answer + i) % RANK_ANSWERS];
        if (a->used && memcmp(&a->name, name, sizeof *name) == 0 &&
            now_ms - a->noted_ms <= RANK_KEEP_MS && !had_it(a, pid))
            return a;
    }
    return NULL;
}

enum rank_agreement_said rank_agreement_recall(struct rank_group *job, const struct proof *name,
                                               pid_t pid, uint64_t now_ms, struct artifact **out)
{
    assert(job && name && job->n_connections);
    struct rank_answer *a = answer_find(job, name, pid, now_ms);
    if (!a)
        return RANK_NEW;
    add_member(a, pid);
    *out = a->value;
    return a->value ? RANK_HIT : RANK_MISS;
}

static bool has_room(const struct rank_group *job, uint64_t n_bytes, unsigned n_fds)
{
    return budget_has(job->uid, BUDGET_rank_bytes, n_bytes) &&
           (!n_fds || budget_has(job->uid, BUDGET_descriptors, n_fds + FDS_LEFT));
}

/* Forgets the job's oldest answers until there is room for one more. False if that is not
 * enough. */
static bool make_room(struct rank_group *job, uint64_t n_bytes, unsigned n_fds)
{
    for (unsigned i = 0; i < RANK_ANSWERS && !has_room(job, n_bytes, n_fds); i++)
        answer_clear(job, &job->answers[(job->next_answer + i) % RANK_ANSWERS]);
    return has_room(job, n_bytes, n_fds);
}

void rank_agreement_note(struct rank_group *job, const struct proof *name, pid_t pid,
                         uint64_t now_ms, const struct store_value *value)
{
    uint64_t n_bytes = value && value->data ? value->row.len : 0;
    unsigned n_fds = value && !value->data;
    struct artifact *kept = NULL;
    if (!make_room(job, n_bytes, n_fds) || (value && !(kept = artifact_from_stored(value))))
        return;
    assert(job->next_answer < RANK_ANSWERS);
    struct rank_answer *a = &job->answers[job->next_answer];
    job->next_answer = (job->next_answer + 1) % RANK_ANSWERS;
    answer_clear(job, a);
    *a = (struct rank_answer){.name = *name, .noted_ms = now_ms, .used = true, .value = kept};
    if (budget_charge(job->uid, BUDGET_rank_bytes, n_bytes))
        a->n_bytes = n_bytes;
    if (budget_charge(job->uid, BUDGET_descriptors, n_fds))
        a->n_fds = n_fds;
    add_member(a, pid);
}

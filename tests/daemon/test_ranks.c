/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranks.c - one answer to one question for all ranks of a job. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/native/ranks.h"
#include "daemon/users/budget.h"

static struct view introduction(const char *text) { return (struct view){text, strlen(text)}; }

static const struct proof key_a = {{1}}, key_b = {{2}};

static struct store_value value_of(const char *text)
{
    return (struct store_value){.row = {.len = strlen(text), .cost_ms = 5}, .data = text, .fd = -1};
}

static struct rank_job *join(void) { return ranks_join(1, introduction("python job=train.3 x=1")); }

Test(ranks, a_client_without_a_job_has_none)
{
    cr_assert_null(ranks_join(1, introduction("python-warm 0.1.0 train.py session=abc")));
    cr_assert_null(ranks_join(1, introduction("python job=")));
    cr_assert_null(ranks_join(1, introduction("")));
    ranks_leave(NULL);
}

Test(ranks, connections_of_one_job_share_it_and_those_of_others_do_not)
{
    struct rank_job *one = join(), *other = join();
    struct rank_job *stranger = ranks_join(2, introduction("python job=train.3"));
    struct rank_job *second = ranks_join(1, introduction("python job=train.4"));
    cr_assert_not_null(one);
    cr_assert_eq(one, other);
    cr_assert(stranger && stranger != one && second && second != one);
    ranks_leave(one);
    ranks_leave(other);
    ranks_leave(stranger);
    ranks_leave(second);
}

Test(ranks, a_miss_stays_a_miss_for_the_others)
{
    struct rank_job *job = join();
    struct artifact *got;
    cr_assert_eq(ranks_recall(job, &key_a, 100, 0, &got), RANKS_NEW);
    ranks_note(job, &key_a, 100, 0, NULL);
    cr_assert_eq(ranks_recall(job, &key_a, 101, 50, &got), RANKS_MISS);
    cr_assert_eq(ranks_recall(job, &key_b, 101, 50, &got), RANKS_NEW);
    ranks_leave(job);
}

Test(ranks, a_hit_stays_a_hit_with_the_same_bytes)
{
    struct rank_job *job = join();
    struct store_value v = value_of("forward");
    struct artifact *got;
    ranks_note(job, &key_a, 100, 0, &v);
    cr_assert_eq(ranks_recall(job, &key_a, 101, 50, &got), RANKS_HIT);
    cr_assert_eq(got->len, 7);
    cr_assert_arr_eq(got->data, "forward", 7);
    cr_assert_eq(got->cost_ms, 5);
    ranks_leave(job);
}

Test(ranks, the_second_question_of_each_gets_the_second_answer)
{
    struct rank_job *job = join();
    struct store_value v = value_of("made");
    struct artifact *got;
    ranks_note(job, &key_a, 100, 0, NULL);
    cr_assert_eq(ranks_recall(job, &key_a, 100, 10, &got), RANKS_NEW, "it has had the first");
    ranks_note(job, &key_a, 100, 10, &v);
    cr_assert_eq(ranks_recall(job, &key_a, 101, 20, &got), RANKS_MISS);
    cr_assert_eq(ranks_recall(job, &key_a, 101, 20, &got), RANKS_HIT);
    cr_assert_eq(ranks_recall(job, &key_a, 101, 20, &got), RANKS_NEW);
    ranks_leave(job);
}

Test(ranks, notes_end_with_their_time_and_with_the_job)
{
    struct rank_job *job = join();
    struct artifact *got;
    ranks_note(job, &key_a, 100, 0, NULL);
    cr_assert_eq(ranks_recall(job, &key_a, 101, RANKS_KEEP_MS + 1, &got), RANKS_NEW);
    cr_assert_eq(ranks_recall(job, &key_a, 101, RANKS_KEEP_MS, &got), RANKS_MISS);
    ranks_leave(job);
    job = join();
    cr_assert_eq(ranks_recall(job, &key_a, 102, 1, &got), RANKS_NEW);
    ranks_leave(job);
}

Test(ranks, jobs_and_notes_are_bounded)
{
    enum { JOBS = 16 }; /* the budget of one user */
    struct rank_job *jobs[JOBS + 1], *others;
    struct artifact *got;
    char text[32];
    for (unsigned i = 0; i <= JOBS; i++) {
        snprintf(text, sizeof text, "python job=%u", i);
        jobs[i] = ranks_join(1, introduction(text));
    }
    cr_assert_not_null(jobs[JOBS - 1]);
    cr_assert_null(jobs[JOBS]);
    others = ranks_join(2, introduction("python job=0"));
    cr_assert_not_null(others, "another user has a budget of his own");
    ranks_leave(others);
    for (unsigned i = 0; i < RANKS_ANSWERS + 1; i++) {
        struct proof id = {{(uint8_t)i, (uint8_t)(i >> 8), 9}};
        ranks_note(jobs[0], &id, 100, 0, NULL);
    }
    struct proof first = {{0, 0, 9}}, last = {{0, 1, 9}};
    cr_assert_eq(ranks_recall(jobs[0], &first, 101, 1, &got), RANKS_NEW);
    cr_assert_eq(ranks_recall(jobs[0], &last, 101, 1, &got), RANKS_MISS);
    for (unsigned i = 0; i < JOBS; i++)
        ranks_leave(jobs[i]);
}

/* The oldest go when what is kept is too much. */
Test(ranks, what_is_kept_is_bounded_in_bytes)
{
    enum { LEN = 64 << 10 };
    static char bytes[LEN];
    struct rank_job *job = join();
    struct artifact *got;
    uint64_t n = budget_limit(BUDGET_rank_bytes) / LEN / 16;
    struct proof first = {{0, 7}}, last = {{(uint8_t)n, 7}};
    budget_set(BUDGET_rank_bytes, n * LEN, 0);
    for (unsigned i = 0; i <= n; i++) {
        struct proof id = {{(uint8_t)i, 7}};
        struct store_value v = {.row.len = LEN, .data = bytes, .fd = -1};
        ranks_note(job, &id, 100, 0, &v);
    }
    cr_assert_leq(budget_used_by_all(BUDGET_rank_bytes), n * LEN);
    cr_assert_eq(ranks_recall(job, &first, 101, 1, &got), RANKS_NEW);
    cr_assert_eq(ranks_recall(job, &last, 101, 1, &got), RANKS_HIT);
    ranks_leave(job);
    cr_assert_eq(budget_used_by_all(BUDGET_rank_bytes), 0);
    cr_assert_eq(budget_used_by_all(BUDGET_rank_jobs), 0);
}

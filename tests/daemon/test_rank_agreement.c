/* SPDX-License-Identifier: Apache-2.0 */
/* test_rank_agreement.c - one answer to one question for all ranks of a job. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/native/rank_agreement.h"
#include "daemon/users/budget.h"

static const struct proof key_a = {{1}}, key_b = {{2}};

static struct store_value value_of(const char *text)
{
    return (struct store_value){.row = {.len = strlen(text), .cost_ms = 5}, .data = text, .fd = -1};
}

static struct rank_group *join(void)
{
    return rank_agreement_join(1, view_of_text("python job=train.3 x=1"));
}

Test(rank_agreement, a_client_without_a_job_has_none)
{
    cr_assert_null(rank_agreement_join(1, view_of_text("python-warm 0.1.0 train.py session=abc")));
    cr_assert_null(rank_agreement_join(1, view_of_text("python job=")));
    cr_assert_null(rank_agreement_join(1, view_of_text("")));
    rank_agreement_leave(NULL);
}

Test(rank_agreement, connections_of_one_job_share_it_and_those_of_others_do_not)
{
    struct rank_group *one = join(), *other = join();
    struct rank_group *stranger = rank_agreement_join(2, view_of_text("python job=train.3"));
    struct rank_group *second = rank_agreement_join(1, view_of_text("python job=train.4"));
    cr_assert_not_null(one);
    cr_assert_eq(one, other);
    cr_assert(stranger && stranger != one && second && second != one);
    rank_agreement_leave(one);
    rank_agreement_leave(other);
    rank_agreement_leave(stranger);
    rank_agreement_leave(second);
}

Test(rank_agreement, a_miss_stays_a_miss_for_the_others)
{
    struct rank_group *job = join();
    struct artifact *got;
    cr_assert_eq(rank_agreement_recall(job, &key_a, 100, 0, &got), RANK_NEW);
    rank_agreement_note(job, &key_a, 100, 0, NULL);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 101, 50, &got), RANK_MISS);
    cr_assert_eq(rank_agreement_recall(job, &key_b, 101, 50, &got), RANK_NEW);
    rank_agreement_leave(job);
}

Test(rank_agreement, a_hit_stays_a_hit_with_the_same_bytes)
{
    struct rank_group *job = join();
    struct store_value v = value_of("forward");
    struct artifact *got;
    rank_agreement_note(job, &key_a, 100, 0, &v);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 101, 50, &got), RANK_HIT);
    cr_assert_eq(got->len, 7);
    cr_assert_arr_eq(got->data, "forward", 7);
    cr_assert_eq(got->cost_ms, 5);
    rank_agreement_leave(job);
}

Test(rank_agreement, the_second_question_of_each_gets_the_second_answer)
{
    struct rank_group *job = join();
    struct store_value v = value_of("made");
    struct artifact *got;
    rank_agreement_note(job, &key_a, 100, 0, NULL);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 100, 10, &got), RANK_NEW,
                 "it has had the first");
    rank_agreement_note(job, &key_a, 100, 10, &v);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 101, 20, &got), RANK_MISS);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 101, 20, &got), RANK_HIT);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 101, 20, &got), RANK_NEW);
    rank_agreement_leave(job);
}

Test(rank_agreement, notes_end_with_their_time_and_with_the_job)
{
    struct rank_group *job = join();
    struct artifact *got;
    rank_agreement_note(job, &key_a, 100, 0, NULL);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 101, RANK_KEEP_MS + 1, &got), RANK_NEW);
    cr_assert_eq(rank_agreement_recall(job, &key_a, 101, RANK_KEEP_MS, &got), RANK_MISS);
    rank_agreement_leave(job);
    job = join();
    cr_assert_eq(rank_agreement_recall(job, &key_a, 102, 1, &got), RANK_NEW);
    rank_agreement_leave(job);
}

Test(rank_agreement, jobs_and_notes_are_bounded)
{
    enum { JOBS = 16 }; /* the budget of one user */
    struct rank_group *jobs[JOBS + 1], *others;
    struct artifact *got;
    char text[32];
    for (unsigned i = 0; i <= JOBS; i++) {
        snprintf(text, sizeof text, "python job=%u", i);
        jobs[i] = rank_agreement_join(1, view_of_text(text));
    }
    cr_assert_not_null(jobs[JOBS - 1]);
    cr_assert_null(jobs[JOBS]);
    others = rank_agreement_join(2, view_of_text("python job=0"));
    cr_assert_not_null(others, "another user has a budget of his own");
    rank_agreement_leave(others);
    for (unsigned i = 0; i < RANK_ANSWERS + 1; i++) {
        struct proof id = {{(uint8_t)i, (uint8_t)(i >> 8), 9}};
        rank_agreement_note(jobs[0], &id, 100, 0, NULL);
    }
    struct proof first = {{0, 0, 9}}, last = {{0, 1, 9}};
    cr_assert_eq(rank_agreement_recall(jobs[0], &first, 101, 1, &got), RANK_NEW);
    cr_assert_eq(rank_agreement_recall(jobs[0], &last, 101, 1, &got), RANK_MISS);
    for (unsigned i = 0; i < JOBS; i++)
        rank_agreement_leave(jobs[i]);
}

/* The oldest agreements go if there are too many. */
Test(rank_agreement, what_is_kept_is_bounded_in_bytes)
{
    enum { LEN = 64 << 10 };
    static char bytes[LEN];
    struct rank_group *job = join();
    struct artifact *got;
    uint64_t n = budget_limit(BUDGET_rank_bytes) / LEN / 16;
    struct proof first = {{0, 7}}, last = {{(uint8_t)n, 7}};
    budget_set(BUDGET_rank_bytes, n * LEN, 0);
    for (unsigned i = 0; i <= n; i++) {
        struct proof id = {{(uint8_t)i, 7}};
        struct store_value v = {.row.len = LEN, .data = bytes, .fd = -1};
        rank_agreement_note(job, &id, 100, 0, &v);
    }
    cr_assert_leq(budget_used_by_all(BUDGET_rank_bytes), n * LEN);
    cr_assert_eq(rank_agreement_recall(job, &first, 101, 1, &got), RANK_NEW);
    cr_assert_eq(rank_agreement_recall(job, &last, 101, 1, &got), RANK_HIT);
    rank_agreement_leave(job);
    cr_assert_eq(budget_used_by_all(BUDGET_rank_bytes), 0);
    cr_assert_eq(budget_used_by_all(BUDGET_rank_jobs), 0);
}

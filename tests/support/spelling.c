/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spelling.c - compiles one job in several spellings through a real daemon and libwarm. The suites of shared
 * keys call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/spelling.h"

#include <stdlib.h>
#include <string.h>

int spelling_try(struct warm *w, const struct spelling *s, struct warm_result *out)
{
    const char *options[6] = {"--gpu-architecture=sm_90"};
    struct warm_job job = {.name = s->name,
                           .source = s->source,
                           .source_len = strlen(s->source),
                           .options = options,
                           .n_options = 1,
                           .expressions = s->expressions,
                           .cwd = s->cwd ? s->cwd : "/",
                           .compiler = s->version,
                           .flags = s->flags};
    for (size_t i = 0; i < 4 && s->options[i]; i++)
        options[job.n_options++] = s->options[i];
    while (job.n_expressions < 2 && s->expressions[job.n_expressions])
        job.n_expressions++;
    return warm_compile(w, &job, out);
}

int spelling_compile(struct warm *w, const struct spelling *s, struct key *out_digest)
{
    struct warm_result result;
    int code = spelling_try(w, s, &result);
    cr_assert_eq(code, 0, "%s: %s: %s", s->name, warm_error_name(code), warm_message(w));
    cr_assert_eq(result.status, 0, "%.*s", (int)result.log.len, (const char *)result.log.data);
    cr_assert_gt(result.ptx.len + result.ltoir.len, 100);
    if (out_digest)
        *out_digest = key_of_bytes(result.value.data, result.value.len);
    int outcome = result.value.outcome;
    warm_result_free(&result);
    return outcome;
}

struct key spelling_own_result(struct warm *w, const struct spelling *s)
{
    struct spelling own = *s;
    struct key digest;
    own.flags = WARM_RECACHE | WARM_NO_STORE;
    cr_assert_eq(spelling_compile(w, &own, &digest), WARM_MISS);
    return digest;
}

unsigned long long n_compiles(const struct warmd *k)
{
    char *json = warmd_stats(k);
    const char *at = strstr(json, "\"compiles\": ");
    cr_assert_not_null(at);
    unsigned long long n = strtoull(at + 12, NULL, 10);
    free(json);
    return n;
}

int spelling_expect_own(struct warm *w, const struct spelling *s)
{
    struct key own = spelling_own_result(w, s), got;
    int outcome = spelling_compile(w, s, &got);
    cr_expect(key_equal(&got, &own), "%s, %s: another's result", s->version, s->source);
    return outcome;
}

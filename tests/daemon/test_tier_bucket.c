/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_bucket.c - daemons with stores of their own and one bucket of S3: values, one maker, one answer for a job. */
#include "tests/support/engine.h"
#include "tests/support/tier_kit.h"

static struct engine s3;

static void setup(void)
{
    static const char *const argv[] = {"python3", "tests/tier/fake_s3.py", NULL};
    tier_setup();
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    engine_start(&s3, argv);
    snprintf(tier_url, sizeof tier_url, "s3://warm/t?endpoint=http://127.0.0.1:%d", s3.port);
}

static void teardown(void)
{
    engine_stop(&s3);
    tier_teardown();
}

TestSuite(tier_bucket, .init = setup, .fini = teardown);

Test(tier_bucket, values_travel)
{
    static char large[3000000];
    struct warm_value got;
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)('a' + (i * 2654435761u >> 13) % 26);
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "small", "the bytes");
    struct warm *w = warmd_libwarm(&first);
    cr_assert_eq(warm_put(w, "large", 5, large, sizeof large, NULL), 0);
    warm_close(w);
    await_stats(&first, "\"tier_sent\": 2,");
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    expect_value(&second, "small", "the bytes");
    expect_miss(&second, "another");
    w = warmd_libwarm(&second);
    cr_assert_eq(warm_get(w, "large", 5, 0, &got), 0);
    cr_assert_eq(got.len, sizeof large);
    cr_assert_eq(memcmp(got.data, large, sizeof large), 0);
    warm_value_free(&got);
    warm_close(w);
    warmd_down(&first);
    warmd_down(&second);
}

/* Asks for the turn to make a name. */
static int ask_for_turn(const struct warmd *k)
{
    int fd = warmd_native(k);
    warmd_get(fd, 1, "graph-1", true, 0);
    warmd_expect(fd, 1, WIRE_WAIT);
    return fd;
}

Test(tier_bucket, one_machine_makes_it_and_the_other_waits)
{
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    int maker = ask_for_turn(&first);
    uint64_t token = warmd_expect_lease(maker, 1);
    await_stats(&first, "\"leases_held\": 1");
    int waiter = ask_for_turn(&second);
    await_stats(&second, "\"tier_waits\": 1,");
    warmd_put(maker, 2, "graph-1", "the bytes", token);
    warmd_expect(maker, 2, WIRE_OK);
    warmd_expect(waiter, 1, WIRE_HIT);
    close(maker);
    close(waiter);
    warmd_down(&first);
    warmd_down(&second);
}

Test(tier_bucket, a_bucket_that_vanishes_costs_hits_alone)
{
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    put_one(&k, "here", "the bytes");
    await_stats(&k, "\"tier_sent\": 1,");
    engine_tell(&s3, "bucket=gone", NULL, 0);
    expect_miss(&k, "another");
    await_log(&k, "404 NoSuchBucket: the bucket is not there");
    expect_value(&k, "here", "the bytes");
    put_one(&k, "new", "other bytes");
    expect_value(&k, "new", "other bytes");
    warmd_down(&k);
}

/* Tells the server something. Returns how many requests it has seen since it was told something before. */
static int tell(const char *text)
{
    char counts[400];
    int n = 0;
    engine_tell(&s3, text, counts, sizeof counts);
    for (const char *at = counts; (at = strchr(at, ' ')); at++)
        n += atoi(at);
    return n;
}

Test(tier_bucket, a_server_that_says_when_to_come_again_is_left_alone_until_then)
{
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    expect_miss(&k, "graph-0");
    tell("retry=3");
    tell("answer=503");
    uint64_t began = clock_now_ms();
    expect_miss(&k, "graph-1");
    put_one(&k, "graph-2", "the bytes");
    await_stats(&k, "\"writes\": {\"state\": \"off\"");
    await_log(&k, "503");
    cr_assert_eq(tell("answer="), 2, "one GET, one PUT");
    for (int i = 0; i < 20; i++)
        expect_miss(&k, "graph-1");
    int early = tell("retry=");
    cr_assert(early == 0 || clock_now_ms() - began >= 3000, "%d requests within 3 s", early);
    await_stats(&k, "\"tier_sent\": 1,");
    cr_assert_geq(clock_now_ms() - began, 3000);
    await_stats(&k, "\"reads\": {\"state\": \"on\"");
    warmd_down(&k);
}

Test(tier_bucket, a_put_that_is_answered_404_is_sent_again)
{
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    tell("lose=PUT");
    put_one(&k, "graph-1", "the bytes");
    await_log(&k, "writes fail: 404 NoSuchKey");
    tell("lose=");
    await_stats(&k, "\"tier_sent\": 1,");
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    expect_value(&second, "graph-1", "the bytes");
    warmd_down(&second);
    warmd_down(&k);
}

/* Amazon answers 403 then. Who wrote nothing there cannot tell that from keys that may not read. */
Test(tier_bucket, who_may_not_list_the_bucket_is_told_so_and_no_error_is_a_miss)
{
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "here", "the bytes");
    await_stats(&first, "\"tier_sent\": 1,");
    engine_tell(&s3, "list=no", NULL, 0);
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    expect_value(&k, "here", "the bytes");
    expect_miss(&k, "another");
    await_log(&k,
              "403 AccessDenied: the policy does not allow it; without s3:ListBucket, an absent "
              "object looks so, too");
    cr_assert(warmd_stats_have(&k, "\"tier_misses\": 0,"));
    expect_value(&k, "here", "the bytes");
    warmd_down(&first);
    warmd_down(&k);
}

Test(tier_bucket, who_writes_and_may_not_list_the_bucket_has_its_misses)
{
    engine_tell(&s3, "list=no", NULL, 0);
    struct warmd k = tier_up(NULL, tier_key_file, NULL);
    put_one(&k, "here", "the bytes");
    await_stats(&k, "\"tier_sent\": 1,");
    expect_miss(&k, "another");
    cr_assert(warmd_stats_have(&k, "\"tier_misses\": 1,"));
    cr_assert(warmd_stats_have(&k, "\"reads\": {\"state\": \"on\""));
    warmd_down(&k);
}

Test(tier_bucket, a_certificate_that_does_not_verify_costs_hits_alone)
{
    static const char *const names[] = {"expired", "elsewhere", "server"};
    static const char *const said[] = {"expired", "host name", NULL};
    char certificate[400], key[400], *ca = path_join(tier_folder, "ca.crt");
    char *options[] = {"--tier-ca", ca, "--tier-breaker", "300ms", NULL};
    struct engine server = {0};
    engine_make_certificates(tier_folder);
    snprintf(key, sizeof key, "%s/server.key", tier_folder);
    struct warmd k = warmd_new();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(certificate, sizeof certificate, "%s/%s.crt", tier_folder, names[i]);
        const char *const argv[] = {"python3", "tests/tier/fake_s3.py", certificate, key, NULL};
        engine_start(&server, argv);
        snprintf(tier_url, sizeof tier_url, "s3://warm/t?endpoint=https://127.0.0.1:%d",
                 server.port);
        tier_up_again(&k, NULL, tier_key_file, options);
        uint64_t began = clock_now_ms();
        expect_miss(&k, "absent");
        cr_assert_lt(clock_now_ms() - began, 10000, "%s: its budget is 2 s", names[i]);
        put_one(&k, names[i], "the bytes");
        expect_value(&k, names[i], "the bytes");
        if (said[i])
            await_log(&k, said[i]);
        else
            await_stats(&k, "\"tier_sent\": 3,"); /* what waited meanwhile, too */
        kill(k.pid, SIGTERM);
        cr_assert_eq(warmd_reap(k.pid), 0);
        engine_stop(&server);
    }
    warmd_free(&k);
    free(ca);
}

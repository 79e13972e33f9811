/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_s3.c - S3 as a backend, against a strict server of the test's own (fake_s3.py). */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/engine.h"
#include "tests/support/support.h"
#include "tier/backends/s3_answer.h"

static struct engine s3;
static struct backend_kit kit;
static char url[200];

static void set_up(void)
{
    static const char *const argv[] = {"python3", "tests/tier/fake_s3.py", NULL};
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    setenv("HOME", "/nonexistent", 1);
    engine_start(&s3, argv);
    snprintf(url, sizeof url, "s3://warm/pre/fix?endpoint=http://127.0.0.1:%d", s3.port);
    backend_open(&kit, url, NULL);
}

static void tear_down(void)
{
    backend_close(&kit);
    engine_stop(&s3);
}

TestSuite(tier_s3, .init = set_up, .fini = tear_down);

static struct tier_request request(enum tier_operation op, const char *name, char token)
{
    struct tier_request r = {.operation = op, .fd = -1, .limit = 64 << 20, .lease_ms = 5000};
    snprintf(r.name, sizeof r.name, "%s", name);
    memset(r.token, token, sizeof r.token);
    return r;
}

static void expect(enum tier_outcome outcome, struct tier_request *r, const char *said)
{
    cr_assert_eq(backend_run(&kit, r), outcome, "%d: %s", r->outcome, r->said);
    cr_assert(strstr(r->said, said), "%s", r->said);
}

static void expect_bytes(struct tier_request *r, const char *value)
{
    char out[64] = "";
    cr_assert_eq(r->outcome, TIER_OK, "%s", r->said);
    cr_assert_eq(r->result_length, strlen(value));
    cr_assert_eq(pread(r->result_fd, out, 63, 0), (ssize_t)strlen(value));
    cr_assert_str_eq(out, value);
    close(r->result_fd);
}

Test(tier_s3, an_object_comes_back_as_it_was_put)
{
    struct tier_request get = request(TIER_GET, "ab/e-abcd", 0),
                        put = request(TIER_PUT, "ab/e-abcd", 0);
    expect(TIER_ABSENT, &get, "404 NoSuchKey");
    cr_assert_eq(backend_send(&kit, put, "value\r\n"), TIER_OK);
    backend_run(&kit, &get);
    expect_bytes(&get, "value\r\n");
    put.only_if_absent = true;
    cr_assert_eq(backend_send(&kit, put, "other"), TIER_EXISTS);
    get.limit = 3;
    expect(TIER_TOO_LARGE, &get, "larger");
}

Test(tier_s3, of_any_size)
{
    static const size_t sizes[] = {1, 65536, (1 << 20) + 1, 32 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tier_request put = request(TIER_PUT, "ab/b-1", 0),
                            get = request(TIER_GET, "ab/b-1", 0);
        put.timeout_ms = get.timeout_ms = 30000;
        put.fd = memfd_create("test", MFD_CLOEXEC);
        put.length = sizes[i];
        cr_assert_eq(ftruncate(put.fd, (off_t)sizes[i]), 0);
        unsigned char *at = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE, MAP_SHARED, put.fd, 0);
        cr_assert_neq(at, MAP_FAILED);
        for (size_t k = 0; k < sizes[i]; k++)
            at[k] = (unsigned char)(k * 7 + k / 251);
        SHA256(at, sizes[i], put.sha256);
        expect(TIER_OK, &put, "");
        expect(TIER_OK, &get, "");
        cr_assert_eq(get.result_length, sizes[i]);
        void *got = mmap(NULL, sizes[i], PROT_READ, MAP_SHARED, get.result_fd, 0);
        cr_assert_eq(memcmp(got, at, sizes[i]), 0);
        munmap(got, sizes[i]);
        munmap(at, sizes[i]);
        close(put.fd);
        close(get.result_fd);
    }
}

Test(tier_s3, a_damaged_upload_is_refused_by_the_server)
{
    struct tier_request put = request(TIER_PUT, "ab/e-1", 0);
    put.fd = memfd_create("test", MFD_CLOEXEC);
    put.length = 5;
    cr_assert_eq(write(put.fd, "bytes", 5), 5);
    expect(TIER_FAILED, &put, "400 ");
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    expect(TIER_ABSENT, &get, "404");
    put.length = 6; /* longer than its file */
    expect(TIER_FAILED, &put, "");
    close(put.fd);
}

Test(tier_s3, both_styles_of_address)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    backend_close(&kit);
    snprintf(url, sizeof url, "s3://warm?style=virtual&endpoint=http://localhost:%d", s3.port);
    backend_open(&kit, url, NULL); /* warm.localhost is this machine, too */
    expect(TIER_ABSENT, &get, "404 NoSuchKey");
}

Test(tier_s3, wrong_credentials_are_no_miss)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    engine_tell(&s3, "keys=AKID:OTHER", NULL, 0);
    expect(TIER_DENIED, &get, "403 SignatureDoesNotMatch: secret_key is wrong");
    engine_tell(&s3, "keys=OTHER:SECRET", NULL, 0);
    expect(TIER_DENIED, &get, "403 InvalidAccessKeyId");
    engine_tell(&s3, "keys=AKID:SECRET", NULL, 0);
    engine_tell(&s3, "deny=GET", NULL, 0);
    expect(TIER_DENIED, &get, "403 AccessDenied");
}

/* Was: each miss of those who may not list the bucket looked like refused credentials. */
Test(tier_s3, to_those_who_may_not_list_a_refusal_is_an_absence_once_their_own_entry_was_read)
{
    struct tier_request get = request(TIER_GET, "ab/e-none", 0);
    struct tier_request own = request(TIER_PUT, "cd/e-own", 0);
    char count[200];
    engine_tell(&s3, "list=no", NULL, 0);
    expect(TIER_DENIED, &get,
           "403 AccessDenied"); /* nothing tells it from keys that may not read */
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, "cd/b-own", 0), "x"), TIER_OK);
    expect(TIER_DENIED, &get, "403 AccessDenied"); /* a large value is not read for this */
    engine_tell(&s3, "x=", NULL, 0);
    cr_assert_eq(backend_send(&kit, own, "x"), TIER_OK);
    expect(TIER_ABSENT, &get, "403: absent");
    cr_assert_eq(get.result_fd, -1);
    expect(TIER_ABSENT, &get, "403: absent");
    engine_tell(&s3, "x=", count, sizeof count);
    cr_assert_str_eq(count, "GET 3\nPUT 1\n", "our own is read once");
}

Test(tier_s3, keys_that_may_not_read_are_refused_whatever_they_have_written)
{
    struct tier_request get = request(TIER_GET, "ab/e-none", 0);
    struct tier_request own = request(TIER_PUT, "cd/e-own", 0);
    cr_assert_eq(backend_send(&kit, own, "x"), TIER_OK);
    engine_tell(&s3, "list=no", NULL, 0);
    engine_tell(&s3, "deny=GET", NULL, 0);
    expect(TIER_DENIED, &get, "403 AccessDenied");
    engine_tell(&s3, "deny=", NULL, 0);
    expect(TIER_DENIED, &get,
           "403 AccessDenied"); /* our own entry was not read: perhaps it is gone */
    cr_assert_eq(backend_send(&kit, own, "x"), TIER_OK);
    expect(TIER_ABSENT, &get, "403: absent");
}

Test(tier_s3, those_who_may_not_list_have_leases)
{
    struct tier_request a = request(TIER_ASK, "ab/e-1", 1), b = request(TIER_ASK, "ab/e-1", 2);
    struct tier_request get = request(TIER_GET, "ab/e-none", 0);
    engine_tell(&s3, "list=no", NULL, 0);
    expect(TIER_LEASE, &a, "");
    expect(TIER_WAIT, &b, "");
    expect(TIER_ABSENT, &get, ""); /* the probe before the lease has read what it wrote */
}

Test(tier_s3, a_wrong_region_is_named)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    engine_tell(&s3, "region=eu-west-7", NULL, 0);
    expect(TIER_MISSET, &get, "write region=eu-west-7");
    backend_close(&kit);
    snprintf(url, sizeof url, "s3://warm?region=eu-west-7&endpoint=http://127.0.0.1:%d", s3.port);
    backend_open(&kit, url, NULL);
    expect(TIER_ABSENT, &get, "");
}

Test(tier_s3, a_bucket_that_vanishes_is_no_miss)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    engine_tell(&s3, "bucket=gone", NULL, 0);
    expect(TIER_MISSET, &get, "404 NoSuchBucket: the bucket is not there");
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, "ab/e-1", 0), "x"), TIER_MISSET);
    engine_tell(&s3, "bucket=", NULL, 0);
    expect(TIER_ABSENT, &get, "");
}

Test(tier_s3, clocks_may_differ)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0),
                        probe = request(TIER_PROBE, "probe-x", 0);
    char count[200];
    engine_tell(&s3, "clock=1020", NULL, 0);
    expect(TIER_ABSENT, &get, "");
    expect(TIER_ABSENT, &get, "");
    engine_tell(&s3, "x=", count, sizeof count);
    cr_assert_str_eq(count, "GET 3\n", "the second one is right at once");
    expect(TIER_OK, &probe, "");
    cr_assert(probe.capabilities.clock_skew_ms > 1000000 &&
              probe.capabilities.clock_skew_ms < 1040000);
}

Test(tier_s3, a_server_that_has_enough_says_when_to_come_again)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    engine_tell(&s3, "retry=7", NULL, 0);
    engine_tell(&s3, "answer=503", NULL, 0);
    expect(TIER_LATER, &get, "503");
    cr_assert_eq(get.wait_ms, 7000);
    engine_tell(&s3, "answer=429", NULL, 0);
    expect(TIER_LATER, &get, "429");
    engine_tell(&s3, "retry=Fri,%2001%20Jan%202100%2000:00:00%20GMT", NULL, 0);
    expect(TIER_LATER, &get, "429");
    cr_assert_gt(get.wait_ms, 86400000u);
}

Test(tier_s3, a_page_is_never_an_object)
{
    static const struct {
        const char *answer;
        enum tier_outcome outcome;
        const char *said;
    } pages[] = {{"answer=200", TIER_FAILED, "not from S3"},
                 {"answer=404", TIER_FAILED, "404 without a code"},
                 {"answer=403", TIER_DENIED, "403"},
                 {"answer=500", TIER_FAILED, "500"},
                 {"answer=301", TIER_MISSET, "127.0.0.1:1/elsewhere"}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        struct tier_request get = request(TIER_GET, "ab/e-1", 0),
                            ask = request(TIER_ASK, "ab/e-1", 1);
        engine_tell(&s3, pages[i].answer, NULL, 0);
        expect(pages[i].outcome, &get, pages[i].said);
        cr_assert_eq(get.result_fd, -1);
        cr_assert_eq(backend_send(&kit, request(TIER_PUT, "ab/e-1", 0), "x"), pages[i].outcome);
        backend_run(&kit, &ask);
        cr_assert(ask.outcome != TIER_OK && ask.outcome != TIER_LEASE && ask.outcome != TIER_ABSENT,
                  "%s: %d %s", pages[i].answer, ask.outcome, ask.said);
    }
}

Test(tier_s3, the_time_of_a_request_is_kept)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    engine_tell(&s3, "hold=GET", NULL, 0);
    get.timeout_ms = 200;
    uint64_t began = uv_hrtime();
    expect(TIER_FAILED, &get, "timed out after 200 ms");
    cr_assert_lt((uv_hrtime() - began) / 1000000, 1000);
    engine_tell(&s3, "hold=", NULL, 0);
    get.timeout_ms = 0;
    expect(TIER_ABSENT, &get, "");
}

Test(tier_s3, cancelled)
{
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    unsigned n = 0;
    engine_tell(&s3, "hold=GET", NULL, 0);
    get.timeout_ms = 30000;
    get.done = backend_on_done;
    get.user = &n;
    kit.backend->functions->start(kit.backend, &get);
    kit.backend->functions->cancel(kit.backend, &get);
    while (!n)
        uv_run(&kit.loop, UV_RUN_ONCE);
    cr_assert_eq(get.outcome, TIER_FAILED);
    cr_assert_str_eq(get.said, "cancelled");
}

/* ---- what the server can do ---- */

static void on_closed(void *user) { *(bool *)user = true; }
static bool is_closed;

static void close_backend(struct tier_request *r)
{
    struct backend_kit *own = r->user;
    own->backend->functions->close(own->backend, on_closed, &is_closed);
}

Test(tier_s3, an_answer_may_lead_to_the_end_of_the_backend)
{
    struct backend_kit own;
    struct tier_request get[4];
    unsigned n_done = 0;
    backend_open(&own, url, NULL);
    for (int i = 0; i < 4; i++) {
        get[i] = request(TIER_GET, "ab/e-1", 0);
        get[i].timeout_ms = 5000;
        get[i].done = i ? backend_on_done : close_backend;
        get[i].user = i ? (void *)&n_done : &own;
        own.backend->functions->start(own.backend, &get[i]);
    }
    uv_run(&own.loop, UV_RUN_DEFAULT);
    cr_assert(is_closed);
    cr_assert_eq(n_done, 3, "each ends once");
    cr_assert_eq(get[0].outcome, TIER_ABSENT, "%s", get[0].said);
    cr_assert_eq(uv_loop_close(&own.loop), 0);
}

Test(tier_s3, a_probe_tells_what_works)
{
    struct tier_request probe = request(TIER_PROBE, "probe-x", 0),
                        get = request(TIER_GET, "probe-x", 0);
    struct tier_capabilities *c = &probe.capabilities;
    expect(TIER_OK, &probe, "");
    cr_assert(c->reads && c->writes && c->conditional && c->leases && c->checksums, "%s", c->said);
    cr_assert_leq(c->clock_skew_ms, 1000);
    expect(TIER_ABSENT, &get, "");
    engine_tell(&s3, "conditions=off", NULL, 0);
    engine_tell(&s3, "checksums=off", NULL, 0);
    expect(TIER_OK, &probe, "");
    cr_assert(c->reads && c->writes && !c->conditional && !c->leases && !c->checksums, "%s",
              c->said);
    engine_tell(&s3, "deny=PUT", NULL, 0);
    expect(TIER_OK, &probe, "");
    cr_assert(c->reads && !c->writes && strstr(c->said, "AccessDenied"), "%s", c->said);
    engine_tell(&s3, "bucket=gone", NULL, 0);
    expect(TIER_MISSET, &probe, "NoSuchBucket");
}

Test(tier_s3, without_conditions_there_are_no_leases_and_puts_go_on)
{
    struct tier_request ask = request(TIER_ASK, "ab/e-1", 1), put = request(TIER_PUT, "ab/e-1", 0);
    engine_tell(&s3, "conditions=off", NULL, 0);
    expect(TIER_CANNOT, &ask, "conditional");
    put.only_if_absent = true;
    cr_assert_eq(backend_send(&kit, put, "one"), TIER_OK);
    cr_assert_eq(backend_send(&kit, put, "two"), TIER_OK);
    backend_close(&kit);
    engine_tell(&s3, "conditions=501", NULL, 0);
    backend_open(&kit, url, NULL);
    cr_assert_eq(backend_send(&kit, put, "three"), TIER_OK);
}

/* ---- leases ---- */

static void server_forgets_after_ten_minutes(void) { engine_tell(&s3, "clock=700", NULL, 0); }

Test(tier_s3, one_has_the_lease)
{
    struct tier_request a = request(TIER_ASK, "ab/e-1", 'a'), b = request(TIER_ASK, "ab/e-1", 'b');
    expect(TIER_LEASE, &a, "");
    expect(TIER_WAIT, &b, "");
    cr_assert(b.wait_ms > 3000 && b.wait_ms <= 6000, "%lu", b.wait_ms);
    struct tier_request renew = request(TIER_RENEW, "ab/e-1", 'b');
    expect(TIER_ABSENT, &renew, "lost");
    renew = request(TIER_RENEW, "ab/e-1", 'a');
    expect(TIER_OK, &renew, "");
    cr_assert_eq(backend_send(&kit, request(TIER_FINISH, "ab/e-1", 'a'), "made"), TIER_OK);
    expect(TIER_ABSENT, &renew, "lost");
    backend_run(&kit, &b);
    expect_bytes(&b, "made");
}

Test(tier_s3, a_job_has_one_answer)
{
    struct tier_request first = request(TIER_ASK, "ab/e-1", 'a'),
                        late = request(TIER_ASK, "ab/e-1", 'b');
    struct tier_request other = request(TIER_ASK, "ab/e-1", 'c');
    snprintf(first.job, sizeof first.job, "0123");
    late = other = first;
    memset(late.token, 'b', sizeof late.token);
    memset(other.token, 'c', sizeof other.token);
    snprintf(other.job, sizeof other.job, "4567");
    expect(TIER_LEASE, &first, "");
    expect(TIER_ABSENT, &late, "the job began without it");
    cr_assert_eq(backend_send(&kit, request(TIER_FINISH, "ab/e-1", 'a'), "made"), TIER_OK);
    expect(TIER_LEASE, &late, "");
    expect(TIER_ABSENT, &first, "the job began without it");
    backend_run(&kit, &other); /* another job finds it from its start */
    expect_bytes(&other, "made");
    server_forgets_after_ten_minutes();
    backend_run(&kit, &first);
    expect_bytes(&first, "made");
}

Test(tier_s3, a_released_lease_is_free)
{
    struct tier_request a = request(TIER_ASK, "ab/e-1", 'a'), b = request(TIER_ASK, "ab/e-1", 'b');
    struct tier_request release = request(TIER_RELEASE, "ab/e-1", 'a');
    expect(TIER_LEASE, &a, "");
    expect(TIER_OK, &release, "");
    expect(TIER_ABSENT, &release, "lost");
    expect(TIER_LEASE, &b, "");
    expect(TIER_WAIT, &a, "");
}

Test(tier_s3, a_dead_makers_lease_ends_by_the_servers_clock)
{
    struct tier_request a = request(TIER_ASK, "ab/e-1", 'a'), b = request(TIER_ASK, "ab/e-1", 'b');
    expect(TIER_LEASE, &a, "");
    engine_tell(&s3, "clock=4", NULL, 0);
    expect(TIER_WAIT, &b, "");
    engine_tell(&s3, "clock=8", NULL, 0);
    expect(TIER_LEASE, &b, "");
    struct tier_request renew = request(TIER_RENEW, "ab/e-1", 'a');
    expect(TIER_ABSENT, &renew, "lost");
}

/* Whoever may write the bucket takes leases: no wait that a lease asks for is longer than an hour. */
Test(tier_s3, a_lease_of_more_than_an_hour_is_none)
{
    static const uint32_t none[] = {0, 3600001, UINT32_MAX};
    struct tier_request a = request(TIER_ASK, "ab/e-1", 'a'), b = request(TIER_ASK, "ab/e-1", 'b');
    a.lease_ms = 3600000;
    expect(TIER_LEASE, &a, "");
    expect(TIER_WAIT, &b, "");
    cr_expect_leq(b.wait_ms, 3601000u);
    for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
        char name[16];
        snprintf(name, sizeof name, "ab/e-%u", 2 + i);
        a = request(TIER_ASK, name, 'a'), b = request(TIER_ASK, name, 'b');
        a.lease_ms = none[i];
        expect(TIER_LEASE, &a, "");
        expect(TIER_LEASE, &b, "");
    }
}

/* Runs the same request of `n` askers at once; returns how many had this outcome. */
static unsigned race(struct tier_request *asks, unsigned n, enum tier_outcome outcome)
{
    unsigned done = 0, count = 0;
    for (unsigned i = 0; i < n; i++) {
        asks[i].done = backend_on_done;
        asks[i].user = &done;
        asks[i].timeout_ms = 20000;
        kit.backend->functions->start(kit.backend, &asks[i]);
    }
    while (done < n)
        uv_run(&kit.loop, UV_RUN_ONCE);
    for (unsigned i = 0; i < n; i++) {
        cr_assert(asks[i].outcome == outcome || asks[i].outcome == TIER_WAIT, "%d %s",
                  asks[i].outcome, asks[i].said);
        count += asks[i].outcome == outcome;
    }
    return count;
}

Test(tier_s3, of_many_at_once_one_gets_the_lease_and_one_takes_it_over)
{
    struct tier_request asks[16];
    for (unsigned round = 0; round < 5; round++) {
        char name[20], clock[20];
        snprintf(name, sizeof name, "ab/e-%u", round);
        for (unsigned take_over = 0; take_over < 2; take_over++) {
            for (unsigned i = 0; i < 16; i++)
                asks[i] = request(TIER_ASK, name, (char)(1 + i + 16 * take_over));
            snprintf(clock, sizeof clock, "clock=%u", (2 * round + take_over) * 10);
            engine_tell(&s3, clock, NULL, 0);
            cr_assert_eq(race(asks, 16, TIER_LEASE), 1);
        }
    }
}

/* ---- keys ---- */

Test(tier_s3, a_file_of_credentials_is_read_again_when_it_changes)
{
    char path[] = "/tmp/warm-tier-XXXXXX";
    int fd = mkstemp(path);
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    backend_close(&kit);
    cr_assert_gt(dprintf(fd, "access_key = NEW1\nsecret_key = S1\nsession_token = T1\n"), 0);
    backend_open(&kit, url, path);
    expect(TIER_DENIED, &get, "InvalidAccessKeyId");
    engine_tell(&s3, "keys=NEW1:S1:T1", NULL, 0);
    expect(TIER_ABSENT, &get, "");
    engine_tell(&s3, "keys=NEW2:S2:T2", NULL, 0);
    cr_assert_eq(ftruncate(fd, 0), 0);
    cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
    cr_assert_gt(dprintf(fd, "access_key = NEW2\nsecret_key = S2\nsession_token = T2\n"), 0);
    for (int i = 0; i < 1000 && backend_run(&kit, &get) == TIER_DENIED; i++)
        usleep(10000);
    cr_assert_eq(get.outcome, TIER_ABSENT, "%s", get.said);
    close(fd);
    unlink(path);
}

/* ---- answers, URLs ---- */

Test(tier_s3, codes_are_found_in_any_xml)
{
    struct s3_answer a;
    static const char aws[] =
        "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Key>x</Key></Error>";
    s3_answer_read(404, aws, sizeof aws - 1, "", "", &a);
    cr_assert_eq(a.outcome, TIER_ABSENT);
    for (size_t len = 0; len < sizeof aws - sizeof "/Code><Key>x</Key></Error>"; len++) {
        s3_answer_read(404, aws, len, "", "", &a);
        cr_assert_eq(a.outcome, TIER_FAILED, "cut after %zu bytes", len);
    }
    static const char *const bad[] = {"<Code></Code>", "<Code>No Such</Code>",
                                      "<Code>a<b",     "<Code>",
                                      "Code",          "<Code>NoSuchKey</Kode>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        s3_answer_read(404, bad[i], strlen(bad[i]), "", "", &a);
        cr_assert_eq(a.outcome, TIER_FAILED, "%s", bad[i]);
        cr_assert_str_eq(a.said, "404 without a code of S3's");
    }
    s3_answer_read(301, "", 0, "eu-central-1", "", &a);
    cr_assert_eq(a.outcome, TIER_MISSET);
    cr_assert(strstr(a.said, "write region=eu-central-1"), "%s", a.said);
}

Test(tier_s3_url, malformed_ones_are_refused)
{
    static const struct {
        const char *url, *why;
    } bad[] = {{"s3://b:80/p", "s3://BUCKET"},
               {"s3://a,b", "HOST or HOST:PORT"},
               {"s3://user@b", "s3://BUCKET"},
               {"s3://b?style=other", "neither path nor virtual"},
               {"s3://b?endpoint=https://", "endpoint="},
               {"s3://b?endpoint=https://h/path", "endpoint="},
               {"s3://b?regoin=x", "no option regoin"}};
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char why[200] = "";
        struct tier_settings settings = {.url = bad[i].url};
        cr_assert_null(tier_backend_new(&loop, &settings, why, sizeof why), "%s", bad[i].url);
        cr_assert(strstr(why, bad[i].why), "%s: %s", bad[i].url, why);
    }
    cr_assert_eq(uv_loop_close(&loop), 0);
}

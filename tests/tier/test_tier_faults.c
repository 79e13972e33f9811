/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_faults.c - each backend behind a proxy that spoils what goes through it. In each fault, GET, PUT and ASK end
 * in time, with nothing wrong; what is there is never said to be absent; and when the fault is over, all works again.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/engine.h"
#include "tests/support/support.h"

#define TIMEOUT_MS 400u
#define SPARE_MS 1500u /* of a machine under load */
#define VALUE_BYTES 50000u

static struct engine server, proxy;
static struct backend_kit kit;
static char value[VALUE_BYTES + 1];
static bool has_no_leases; /* the backend never has */

static struct tier_request request(enum tier_operation op, const char *name)
{
    struct tier_request r = {
        .operation = op, .fd = -1, .limit = 1 << 20, .lease_ms = 5000, .timeout_ms = TIMEOUT_MS};
    snprintf(r.name, sizeof r.name, "%s", name);
    memset(r.token, 'a', sizeof r.token);
    return r;
}

static void set_fault(const char *name)
{
    char text[40];
    snprintf(text, sizeof text, "fault=%s", name);
    engine_tell(&proxy, text, NULL, 0);
}

/* Opens the backend of SCHEME through the proxy, with one object there. */
static void open_through_proxy(const char *scheme, const char *rest, const char *credentials)
{
    char port[16], url[200];
    snprintf(port, sizeof port, "%d", server.port);
    const char *const argv[] = {"python3", "tests/tier/fault_proxy.py", port, NULL};
    engine_start(&proxy, argv);
    if (strcmp(scheme, "s3") == 0)
        snprintf(url, sizeof url, "s3://warm/x?endpoint=http://127.0.0.1:%d", proxy.port);
    else
        snprintf(url, sizeof url, "%s://127.0.0.1:%d%s", scheme, proxy.port, rest);
    backend_open_with(
        &kit, &(struct tier_settings){
                  .url = url, .credentials = credentials, .connections = 4, .min_rate = 1 << 20});
    for (size_t i = 0; i < VALUE_BYTES; i++)
        value[i] = (char)('a' + i * 7 % 26);
    struct tier_request put = request(TIER_PUT, "ab/e-1");
    put.timeout_ms = 5000;
    cr_assert_eq(backend_send(&kit, put, value), TIER_OK);
}

static void close_all(void)
{
    backend_close(&kit);
    engine_stop(&proxy);
    engine_stop(&server);
}

static uint64_t now_ms(void) { return uv_hrtime() / 1000000; }

/* True if a GET's answer is the value. */
static bool has_value(struct tier_request *r)
{
    static char out[VALUE_BYTES];
    bool same = r->result_length == VALUE_BYTES &&
                pread(r->result_fd, out, VALUE_BYTES, 0) == (ssize_t)VALUE_BYTES &&
                memcmp(out, value, VALUE_BYTES) == 0;
    close(r->result_fd);
    return same;
}

static void expect_trouble(const char *fault, const struct tier_request *r)
{
    if (getenv("WARM_FAULTS"))
        fprintf(stderr, "%s: operation %d: %d %s\n", fault, r->operation, r->outcome, r->said);
    cr_assert(r->outcome == TIER_FAILED || r->outcome == TIER_LATER || r->outcome == TIER_DENIED ||
                  r->outcome == TIER_MISSET || r->outcome == TIER_CANNOT,
              "%s: operation %d ended with %d: %s", fault, r->operation, r->outcome, r->said);
    cr_assert(*r->said, "%s", fault);
}

/* Returns how much of ours the proxy has spoilt. */
static int seen(void)
{
    char text[40];
    engine_tell(&proxy, "seen", text, sizeof text);
    return atoi(text);
}

/* Runs an operation until the proxy has seen it: the first ones may find a connection that it ended, or a pause after a
 * failure. Each must end in time. */
static struct tier_request run_until_seen(const char *fault, enum tier_operation op,
                                          const char *name)
{
    int before = seen();
    uint64_t began = now_ms();
    for (;;) {
        struct tier_request r = request(op, name);
        uint64_t start = now_ms();
        if (op == TIER_PUT)
            r = backend_send_whole(&kit, r, value);
        else
            backend_run(&kit, &r);
        cr_assert_leq(now_ms() - start, TIMEOUT_MS + SPARE_MS, "%s", fault);
        if (seen() > before || r.outcome == TIER_CANNOT)
            return r;
        cr_assert_leq(now_ms() - began, 20000, "%s: the proxy sees nothing: %s", fault, r.said);
    }
}

/* Runs the three operations in a fault, then without it. */
static void go_through(const char *fault)
{
    bool flips = strcmp(fault, "flip") == 0;
    set_fault(fault);
    struct tier_request get = run_until_seen(fault, TIER_GET, "ab/e-1");
    struct tier_request put = run_until_seen(fault, TIER_PUT, "ab/e-3");
    struct tier_request ask = run_until_seen(fault, TIER_ASK, "ab/e-2");
    if (flips) {
        cr_assert(get.outcome != TIER_OK || !has_value(&get), "the proxy does not flip");
    } else {
        expect_trouble(fault, &get);
        expect_trouble(fault, &put);
        expect_trouble(fault, &ask);
    }
    set_fault("none");
    uint64_t began = now_ms();
    do {
        get = request(TIER_GET, "ab/e-1");
        cr_assert_leq(now_ms() - began, 20000, "%s: does not heal: %s", fault, get.said);
    } while (backend_run(&kit, &get) != TIER_OK);
    cr_assert(has_value(&get), "%s", fault);
    do {
        ask = request(TIER_ASK, "ab/e-2");
        cr_assert_leq(now_ms() - began, 20000, "%s: ASK does not heal: %s", fault, ask.said);
        backend_run(&kit, &ask);
        if (ask.outcome == TIER_OK)
            close(ask.result_fd);
    } while (ask.outcome != TIER_LEASE && ask.outcome != TIER_WAIT &&
             !(ask.outcome == TIER_CANNOT && has_no_leases));
}

static const char *const on_the_way[] = {"reset", "hole", "slow", "cut", "flip", "rubbish"};
static const char *const pages[] = {"http-500", "http-503", "http-403", "http-301", "http-200"};
static const char *const errors[] = {"resp-LOADING", "resp-NOPERM", "resp-MOVED", "resp-ERR"};

static void start_fake(void)
{
    static const char *const argv[] = {"python3", "tests/tier/fake_s3.py", NULL};
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    engine_start(&server, argv);
}

Test(tier_faults, s3)
{
    start_fake();
    open_through_proxy("s3", "", NULL);
    for (size_t i = 0; i < sizeof on_the_way / sizeof *on_the_way; i++)
        go_through(on_the_way[i]);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        go_through(pages[i]);
    close_all();
}

/* A flipped bit of an upload is found by the server's look at the checksum. */
Test(tier_faults, s3_refuses_a_flipped_upload)
{
    struct tier_request get = request(TIER_GET, "ab/e-9");
    start_fake();
    open_through_proxy("s3", "", NULL);
    set_fault("flip");
    cr_assert_neq(backend_send(&kit, request(TIER_PUT, "ab/e-9"), value), TIER_OK);
    set_fault("none");
    get.timeout_ms = 5000;
    cr_assert_eq(backend_run(&kit, &get), TIER_ABSENT, "%s", get.said);
    close_all();
}

Test(tier_faults, http)
{
    char path[] = "/tmp/warm-tier-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_gt(dprintf(fd, "token = s3cret\n"), 0);
    close(fd);
    start_fake();
    engine_tell(&server, "bearer=s3cret", NULL, 0);
    has_no_leases = true;
    open_through_proxy("http", "/x", path);
    for (size_t i = 0; i < sizeof on_the_way / sizeof *on_the_way; i++)
        go_through(on_the_way[i]);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        go_through(pages[i]);
    close_all();
    unlink(path);
}

static void start_redis(void)
{
    char port[16];
    server.port = engine_free_port();
    snprintf(port, sizeof port, "%d", server.port);
    const char *const argv[] = {"redis-server", "--port", port,        "--bind",    "127.0.0.1",
                                "--save",       "",       "--logfile", "/dev/null", NULL};
    engine_start_on_port(&server, argv);
}

static void go_through_redis(void)
{
    for (size_t i = 0; i < sizeof on_the_way / sizeof *on_the_way; i++)
        go_through(on_the_way[i]);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        go_through(errors[i]);
    close_all();
}

Test(tier_faults, redis)
{
    start_redis();
    open_through_proxy("redis", "", NULL);
    go_through_redis();
}

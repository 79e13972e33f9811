/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_tls.c - S3, HTTP and Redis over TLS: certificates that have expired or are another host's, handshakes
 * that are cut, a client's own certificate. test_tier_web.c has that of HTTP.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/engine.h"
#include "tests/support/redis_server.h"
#include "tests/support/support.h"

static struct engine server;
static struct backend_kit kit;
static char *dir, *ca, *credentials;
static const char *const schemes[] = {"s3", "https", "rediss"};
#define SCHEMES (sizeof schemes / sizeof *schemes)

static void set_up(void)
{
    dir = temp_dir_new();
    ca = path_join(dir, "ca.crt");
    credentials = path_join(dir, "credentials");
    engine_make_certificates(dir);
    file_write(credentials, "token = s3cret\n", strlen("token = s3cret\n"));
    chmod(credentials, 0600);
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
}

static void tear_down(void)
{
    free(ca);
    free(credentials);
    temp_dir_free(dir);
}

TestSuite(tier_tls, .init = set_up, .fini = tear_down);

/* Starts the server of a scheme, which shows NAME.crt. */
static void start_server(const char *scheme, const char *name)
{
    struct redis_server redis;
    char certificate[400], key[400];
    snprintf(certificate, sizeof certificate, "%s/%s.crt", dir, name);
    snprintf(key, sizeof key, "%s/server.key", dir);
    if (strcmp(scheme, "rediss") != 0) {
        const char *const argv[] = {"python3", "tests/tier/fake_s3.py", certificate, key, NULL};
        engine_start(&server, argv);
        return;
    }
    redis_server_start_tls(&redis, dir, name, false);
    server = (struct engine){.pid = redis.pid, .port = redis.port};
}

static void open_at(const char *scheme, int port)
{
    char url[200];
    bool is_s3 = strcmp(scheme, "s3") == 0, is_web = strcmp(scheme, "https") == 0;
    snprintf(url, sizeof url,
             is_s3    ? "s3://warm/x?endpoint=https://127.0.0.1:%d"
             : is_web ? "https://127.0.0.1:%d/x"
                      : "rediss://127.0.0.1:%d",
             port);
    backend_open_with(&kit, &(struct tier_settings){
                                .url = url, .ca = ca, .credentials = is_web ? credentials : NULL});
}

static struct tier_request get_once(void)
{
    struct tier_request r = {.operation = TIER_GET, .fd = -1, .limit = 100, .name = "ab/e-1"};
    backend_run(&kit, &r);
    return r;
}

/* True if the answer is one of the server's. That of https:// is S3 here, and refuses who does not sign. */
static bool is_reached(const char *scheme, const struct tier_request *get)
{
    return get->outcome == (strcmp(scheme, "https") == 0 ? TIER_DENIED : TIER_ABSENT);
}

static enum tier_outcome put_once(void)
{
    return backend_send(
        &kit, (struct tier_request){.operation = TIER_PUT, .name = "ab/e-1", .limit = 100}, "x");
}

Test(tier_tls, a_certificate_that_has_expired_or_is_another_hosts_is_named)
{
    static const struct {
        const char *certificate, *said, *of_redis;
    } rows[] = {{"expired", "expired", "expired"}, {"elsewhere", "host name", "mismatch"}};
    for (size_t s = 0; s < SCHEMES; s++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            start_server(schemes[s], rows[i].certificate);
            open_at(schemes[s], server.port);
            struct tier_request get = get_once();
            cr_assert_eq(get.outcome, TIER_MISSET, "%s, %s: %d %s", schemes[s], rows[i].certificate,
                         get.outcome, get.said);
            cr_assert(strstr(get.said, rows[i].said) || strstr(get.said, rows[i].of_redis),
                      "%s: %s", schemes[s], get.said);
            cr_assert_eq(put_once(), TIER_MISSET, "%s: a PUT", schemes[s]);
            backend_close(&kit);
            engine_stop(&server);
        }
        start_server(schemes[s], "server");
        open_at(schemes[s], server.port);
        struct tier_request get = get_once();
        cr_assert(is_reached(schemes[s], &get), "%s: %d %s", schemes[s], get.outcome, get.said);
        backend_close(&kit);
        engine_stop(&server);
    }
}

Test(tier_tls, a_cut_handshake_is_a_failure_of_the_network)
{
    static const char *const faults[] = {"cut", "end", "hole", "rubbish"};
    char port[16], text[40];
    for (size_t s = 0; s < SCHEMES; s++) {
        struct engine proxy;
        start_server(schemes[s], "server");
        snprintf(port, sizeof port, "%d", server.port);
        const char *const argv[] = {"python3", "tests/tier/fault_proxy.py", port, NULL};
        engine_start(&proxy, argv);
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
            snprintf(text, sizeof text, "fault=%s", faults[i]);
            engine_tell(&proxy, text, NULL, 0);
            open_at(schemes[s], proxy.port);
            struct tier_request get = get_once();
            bool is_rubbish = strcmp(faults[i], "rubbish") == 0; /* perhaps it has no TLS */
            cr_assert(get.outcome == TIER_FAILED || (is_rubbish && get.outcome == TIER_MISSET),
                      "%s, %s: %d %s", schemes[s], faults[i], get.outcome, get.said);
            engine_tell(&proxy, "fault=none", NULL, 0);
            for (int n = 0; n < 200 && !is_reached(schemes[s], &get); n++, usleep(20000))
                get = get_once();
            cr_assert(is_reached(schemes[s], &get), "%s, %s: %d %s", schemes[s], faults[i],
                      get.outcome, get.said);
            backend_close(&kit);
        }
        engine_stop(&proxy);
        engine_stop(&server);
    }
}

/* ---- a client's own certificate ---- */

/* Returns a request for an object of at most `limit` bytes. */
static struct tier_request request(enum tier_operation op, const char *name, uint64_t limit)
{
    struct tier_request r = {.operation = op, .fd = -1, .limit = limit, .lease_ms = 5000};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

/* Puts a value of `len` bytes and gets it back. */
static void expect_round_trip(const char *name, size_t len)
{
    char *value = malloc(len + 1), *back = malloc(len);
    for (size_t i = 0; i < len; i++)
        value[i] = (char)('a' + i * 7 % 26);
    value[len] = '\0';
    struct tier_request get = request(TIER_GET, name, len);
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, name, 0), value), TIER_OK);
    cr_assert_eq(backend_run(&kit, &get), TIER_OK, "%s", get.said);
    cr_assert_eq(get.result_length, len);
    cr_assert_eq(pread(get.result_fd, back, len, 0), (ssize_t)len);
    cr_assert_eq(memcmp(back, value, len), 0);
    close(get.result_fd);
    free(back);
    free(value);
}

Test(tier_tls, redis_is_reached_with_the_clients_certificate_and_by_no_other_way)
{
    char *own = path_join(dir, "own"), *other = path_join(dir, "other.crt"), text[600];
    struct redis_server redis;
    struct tier_request get = request(TIER_GET, "ab/e-1", 1 << 20);
    redis_server_start_tls(&redis, dir, "server", true);
    snprintf(text, sizeof text, "certificate = %s/client.crt\nkey = %s/client.key\n", dir, dir);
    file_write(own, text, strlen(text));
    chmod(own, 0600);
    struct tier_settings settings = {.url = redis.url, .credentials = own, .ca = ca};
    backend_open_with(&kit, &settings);
    cr_assert_eq(backend_run(&kit, &get), TIER_ABSENT, "%s", get.said);
    expect_round_trip("ab/e-1", 5);
    expect_round_trip("ab/b-1", 3 << 20);
    backend_close(&kit);

    settings.ca = other;
    backend_open_with(&kit, &settings);
    cr_assert_eq(backend_run(&kit, &get), TIER_MISSET);
    cr_assert(strstr(get.said, "certificate"), "%s", get.said);
    backend_close(&kit);
    settings.ca = ca;
    settings.credentials = NULL; /* the server wants a client's certificate */
    backend_open_with(&kit, &settings);
    cr_assert_eq(backend_run(&kit, &get), TIER_MISSET, "%s", get.said);
    backend_close(&kit);
    settings.credentials = own;
    snprintf(text, sizeof text, "redis://127.0.0.1:%d", redis.port);
    settings.url = text;
    backend_open_with(&kit, &settings);
    get.timeout_ms = 300;
    cr_assert_eq(backend_run(&kit, &get), TIER_FAILED, "no TLS: %s", get.said);
    backend_close(&kit);
    redis_server_stop(&redis);
    free(own);
    free(other);
}

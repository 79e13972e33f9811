/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_tls.c - S3, HTTP and Redis over TLS: certificates that have expired or are another host's, and handshakes
 * that are cut.
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
    char certificate[400], key[400], port[16];
    snprintf(certificate, sizeof certificate, "%s/%s.crt", dir, name);
    snprintf(key, sizeof key, "%s/server.key", dir);
    if (strcmp(scheme, "rediss") != 0) {
        const char *const argv[] = {"python3", "tests/tier/fake_s3.py", certificate, key, NULL};
        engine_start(&server, argv);
        return;
    }
    server.port = engine_free_port();
    snprintf(port, sizeof port, "%d", server.port);
    const char *const argv[] = {"redis-server",
                                "--port",
                                "0",
                                "--tls-port",
                                port,
                                "--bind",
                                "127.0.0.1",
                                "--save",
                                "",
                                "--logfile",
                                "/dev/null",
                                "--tls-auth-clients",
                                "no",
                                "--tls-ca-cert-file",
                                ca,
                                "--tls-cert-file",
                                certificate,
                                "--tls-key-file",
                                key,
                                NULL};
    engine_start_on_port(&server, argv);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_redis_access.c - how a Redis server is reached: addresses, passwords, rights, TLS, URLs. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/engine.h"
#include "tests/support/support.h"

struct server {
    struct engine engine;
    char url[64];
    struct backend_kit kit;
};

static void start_server(struct server *s, const char *option, const char *value)
{
    char port[16];
    s->engine.port = engine_free_port();
    snprintf(port, sizeof port, "%d", s->engine.port);
    snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%d/1", s->engine.port);
    const char *const argv[] = {"redis-server", "--port", port,           "--bind", "127.0.0.1",
                                "--save",       "",       "--appendonly", "no",     "--logfile",
                                "/dev/null",    option,   value,          NULL};
    engine_start_on_port(&s->engine, argv);
}

static void stop_server(struct server *s) { engine_stop(&s->engine); }

static struct tier_request request(enum tier_operation op, const char *name, char token)
{
    struct tier_request r = {.operation = op, .fd = -1, .limit = 1 << 20, .lease_ms = 5000};
    snprintf(r.name, sizeof r.name, "%s", name);
    memset(r.token, token, sizeof r.token);
    return r;
}

static void expect_bytes(struct tier_request *r, const char *value)
{
    char out[64] = "";
    cr_assert_eq(r->result_length, strlen(value));
    cr_assert_eq(pread(r->result_fd, out, 63, 0), (ssize_t)strlen(value));
    cr_assert_str_eq(out, value);
    close(r->result_fd);
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void shell(const char *format, ...)
{
    char line[600], *out;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cr_assert_eq(run_command(&out, "%s 2>&1", line), 0, "%s: %s", line, out);
    free(out);
}

/* Was: the first address alone. localhost is ::1 first, where nobody listens. */
Test(tier_redis_access, each_address_of_a_name_is_tried)
{
    struct server s;
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    start_server(&s, "--maxclients", "100");
    snprintf(s.url, sizeof s.url, "redis://localhost:%d", s.engine.port);
    backend_open(&s.kit, s.url, NULL);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_ABSENT, "%s", get.said);
    backend_close(&s.kit);
    stop_server(&s);
}

/* Was: credentials that cannot be read meant that there is no password. */
Test(tier_redis_access, credentials_that_cannot_be_read_are_no_empty_password)
{
    struct server s;
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    char path[] = "/tmp/warm-tier-XXXXXX", why[200];
    close(mkstemp(path));
    start_server(&s, "--maxclients", "100");
    backend_open(&s.kit, s.url, path);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_ABSENT);
    stop_server(&s);
    chmod(path, 0644);
    start_server(&s, "--maxclients", "100");
    backend_close(&s.kit);
    struct tier_settings settings = {.url = s.url, .credentials = path};
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_null(tier_backend_new(&loop, &settings, why, sizeof why));
    cr_assert(strstr(why, "others can read"), "%s", why);
    cr_assert_eq(uv_loop_close(&loop), 0);
    chmod(path, 0600);
    backend_open(&s.kit, s.url, path);
    unlink(path); /* before it connects */
    cr_assert_eq(backend_run(&s.kit, &get), TIER_DENIED);
    cr_assert(strstr(get.said, "cannot read tier_credentials"), "%s", get.said);
    backend_close(&s.kit);
    stop_server(&s);
}

Test(tier_redis_access, a_user_who_may_not_eval_has_leases_all_the_same)
{
    struct server s;
    char path[] = "/tmp/warm-tier-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_gt(dprintf(fd, "user = ada\npassword = hunter2\n"), 0);
    close(fd);
    start_server(&s, "--maxclients", "100");
    shell("redis-cli -p %d acl setuser ada on '>hunter2' '~*' +@all -eval", s.engine.port);
    backend_open(&s.kit, s.url, path);
    struct tier_request probe = request(TIER_PROBE, "probe-here", 0);
    cr_assert_eq(backend_run(&s.kit, &probe), TIER_OK, "%s", probe.said);
    cr_assert(probe.capabilities.leases && strstr(probe.capabilities.said, "EVAL"), "%s",
              probe.capabilities.said);
    struct tier_request a = request(TIER_ASK, "ab/e-1", 'a'), b = request(TIER_ASK, "ab/e-1", 'b');
    cr_assert_eq(backend_run(&s.kit, &a), TIER_LEASE, "%s", a.said);
    cr_assert_eq(backend_run(&s.kit, &b), TIER_WAIT, "%s", b.said);
    cr_assert(b.wait_ms > 0 && b.wait_ms <= 5000);
    struct tier_request renew = request(TIER_RENEW, "ab/e-1", 'b');
    cr_assert_eq(backend_run(&s.kit, &renew), TIER_ABSENT, "not ours");
    memset(renew.token, 'a', sizeof renew.token);
    cr_assert_eq(backend_run(&s.kit, &renew), TIER_OK, "%s", renew.said);
    cr_assert_eq(backend_send(&s.kit, request(TIER_FINISH, "ab/e-1", 'b'), "late"), TIER_OK);
    cr_assert_eq(backend_run(&s.kit, &renew), TIER_OK, "the lease is still a's");
    cr_assert_eq(backend_send(&s.kit, request(TIER_FINISH, "ab/e-1", 'a'), "made"), TIER_OK);
    cr_assert_eq(backend_run(&s.kit, &renew), TIER_ABSENT);
    cr_assert_eq(backend_run(&s.kit, &b), TIER_OK);
    expect_bytes(&b, "made");
    a = request(TIER_ASK, "ab/e-2", 'a');
    cr_assert_eq(backend_run(&s.kit, &a), TIER_LEASE);
    struct tier_request release = request(TIER_RELEASE, "ab/e-2", 'a');
    cr_assert_eq(backend_run(&s.kit, &release), TIER_OK, "%s", release.said);
    cr_assert_eq(backend_run(&s.kit, &release), TIER_ABSENT);
    snprintf(a.job, sizeof a.job, "0123");
    cr_assert_eq(backend_run(&s.kit, &a), TIER_CANNOT);
    backend_close(&s.kit);
    unlink(path);
    stop_server(&s);
}

Test(tier_redis_access, over_tls)
{
    char *dir = temp_dir_new(), *ca = path_join(dir, "ca.crt"),
         *other = path_join(dir, "other.crt");
    char *credentials = path_join(dir, "credentials"), text[600], port[16], files[3][400];
    struct engine e = {.port = engine_free_port()};
    struct backend_kit kit;
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    engine_make_certificates(dir);
    shell("chmod a+rX %s %s/*", dir, dir);
    snprintf(port, sizeof port, "%d", e.port);
    static const char *const names[] = {"ca.crt", "server.crt", "server.key"};
    for (int i = 0; i < 3; i++)
        snprintf(files[i], sizeof files[i], "%s/%s", dir, names[i]);
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
                                "--tls-ca-cert-file",
                                files[0],
                                "--tls-cert-file",
                                files[1],
                                "--tls-key-file",
                                files[2],
                                NULL};
    engine_start_on_port(&e, argv);
    snprintf(text, sizeof text, "certificate = %s/client.crt\nkey = %s/client.key\n", dir, dir);
    file_write(credentials, text, strlen(text));
    chmod(credentials, 0600);
    snprintf(text, sizeof text, "rediss://127.0.0.1:%d", e.port);
    struct tier_settings settings = {.url = text, .credentials = credentials, .ca = ca};
    backend_open_with(&kit, &settings);
    cr_assert_eq(backend_run(&kit, &get), TIER_ABSENT, "%s", get.said);
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, "ab/e-1", 0), "value"), TIER_OK);
    cr_assert_eq(backend_run(&kit, &get), TIER_OK, "%s", get.said);
    expect_bytes(&get, "value");
    size_t len = 3 << 20;
    char *large = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        large[i] = (char)('a' + i * 7 % 26);
    large[len] = '\0';
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, "ab/b-1", 0), large), TIER_OK);
    struct tier_request big = request(TIER_GET, "ab/b-1", 0);
    big.limit = 4 << 20;
    cr_assert_eq(backend_run(&kit, &big), TIER_OK, "%s", big.said);
    char *back = malloc(len);
    cr_assert_eq(pread(big.result_fd, back, len, 0), (ssize_t)len);
    cr_assert_eq(memcmp(back, large, len), 0);
    close(big.result_fd);
    free(back);
    free(large);
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
    settings.credentials = credentials;
    snprintf(text, sizeof text, "redis://127.0.0.1:%d", e.port);
    backend_open_with(&kit, &settings);
    get.timeout_ms = 300;
    cr_assert_eq(backend_run(&kit, &get), TIER_FAILED, "no TLS: %s", get.said);
    backend_close(&kit);
    engine_stop(&e);
    free(ca);
    free(other);
    free(credentials);
    temp_dir_free(dir);
}

Test(tier_redis_access, urls)
{
    static const struct {
        const char *url, *why;
    } bad[] = {{"redis://a,b", "redis://[USER@]HOST"},
               {"redis://h/x", "redis://[USER@]HOST"},
               {"redis-cluster://a,b/1", "no databases"},
               {"rediss://h?ca=x", "no option ca"}};
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char why[200] = "";
        struct tier_settings settings = {.url = bad[i].url};
        cr_assert_null(tier_backend_new(&loop, &settings, why, sizeof why), "%s", bad[i].url);
        cr_assert(strstr(why, bad[i].why), "%s: %s", bad[i].url, why);
    }
    struct tier_settings settings = {.url = "rediss://h", .ca = "/nonexistent"};
    char why[200] = "";
    cr_assert_null(tier_backend_new(&loop, &settings, why, sizeof why));
    cr_assert(strstr(why, "/nonexistent"), "%s", why);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_redis_access.c - how a Redis server is reached: addresses, passwords, rights, URLs. TLS: test_tier_tls.c. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/redis_server.h"
#include "tests/support/support.h"

struct server {
    struct redis_server redis;
    struct backend_kit kit;
};

static void start_server(struct server *s) { redis_server_start(&s->redis, "--maxclients", "100"); }

static void stop_server(struct server *s) { redis_server_stop(&s->redis); }

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
    start_server(&s);
    snprintf(s.redis.url, sizeof s.redis.url, "redis://localhost:%d", s.redis.port);
    backend_open(&s.kit, s.redis.url, NULL);
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
    start_server(&s);
    backend_open(&s.kit, s.redis.url, path);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_ABSENT);
    stop_server(&s);
    chmod(path, 0644);
    start_server(&s);
    backend_close(&s.kit);
    struct tier_settings settings = {.url = s.redis.url, .credentials = path};
    uv_loop_t loop;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_null(tier_backend_new(&loop, &settings, why, sizeof why));
    cr_assert(strstr(why, "others can read"), "%s", why);
    cr_assert_eq(uv_loop_close(&loop), 0);
    chmod(path, 0600);
    backend_open(&s.kit, s.redis.url, path);
    unlink(path); /* before it connects */
    cr_assert_eq(backend_run(&s.kit, &get), TIER_DENIED);
    cr_assert(strstr(get.said, "cannot read tier_credentials"), "%s", get.said);
    backend_close(&s.kit);
    stop_server(&s);
}

Test(tier_redis_access, a_user_who_may_not_eval_has_no_leases)
{
    struct server s;
    char path[] = "/tmp/warm-tier-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_gt(dprintf(fd, "user = ada\npassword = hunter2\n"), 0);
    close(fd);
    start_server(&s);
    shell("redis-cli -p %d acl setuser ada on '>hunter2' '~*' +@all -eval", s.redis.port);
    backend_open(&s.kit, s.redis.url, path);
    struct tier_request probe = request(TIER_PROBE, "probe-here", 0);
    cr_assert_eq(backend_run(&s.kit, &probe), TIER_OK, "%s", probe.said);
    cr_assert(probe.capabilities.reads && probe.capabilities.writes);
    cr_assert(!probe.capabilities.leases && strstr(probe.capabilities.said, "EVAL"), "%s",
              probe.capabilities.said);
    struct tier_request ask = request(TIER_ASK, "ab/e-1", 'a');
    cr_assert_eq(backend_run(&s.kit, &ask), TIER_CANNOT);
    cr_assert(strstr(ask.said, "EVAL"), "%s", ask.said);
    cr_assert_eq(backend_send(&s.kit, request(TIER_PUT, "ab/e-1", 0), "made"), TIER_OK);
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_OK);
    expect_bytes(&get, "made");
    backend_close(&s.kit);
    unlink(path);
    stop_server(&s);
}

Test(tier_redis_access, urls)
{
    static const struct {
        const char *url, *why;
    } bad[] = {{"redis://a,b", "HOST:PORT"},
               {"redis://h/x", "redis://[USER@]HOST"},
               {"redis-cluster://a", "no backend serves redis-cluster://"},
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

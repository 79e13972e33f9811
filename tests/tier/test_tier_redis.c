/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_redis.c - Redis as a backend, with a server of the test's own on loopback. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/redis_server.h"
#include "tests/support/support.h"
#include "tier/backends/redis_link.h"

struct server {
    struct redis_server redis;
    struct backend_kit kit;
};

static void start_server(struct server *s, const char *option, const char *value)
{
    redis_server_start(&s->redis, option, value);
}

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

Test(tier_redis, an_object_comes_back_as_it_was_put)
{
    struct server s;
    start_server(&s, "--maxclients", "100");
    backend_open(&s.kit, s.redis.url, NULL);
    struct tier_request get = request(TIER_GET, "ab/e-abcd", 0),
                        put = request(TIER_PUT, "ab/e-abcd", 0);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_ABSENT, "%s", get.said);
    cr_assert_eq(backend_send(&s.kit, put, "value\r\n$"), TIER_OK);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_OK, "%s", get.said);
    expect_bytes(&get, "value\r\n$");
    put.only_if_absent = true;
    cr_assert_eq(backend_send(&s.kit, put, "other"), TIER_EXISTS);
    get.limit = 3;
    cr_assert_eq(backend_run(&s.kit, &get), TIER_TOO_LARGE);
    struct tier_request probe = request(TIER_PROBE, "probe-here", 0);
    cr_assert_eq(backend_run(&s.kit, &probe), TIER_OK, "%s", probe.said);
    struct tier_capabilities c = probe.capabilities;
    cr_assert(c.reads && c.writes && c.conditional && c.leases && !c.checksums, "%s", c.said);
    backend_close(&s.kit);
    stop_server(&s);
}

Test(tier_redis, one_has_the_lease_and_a_job_has_one_answer)
{
    struct server s;
    start_server(&s, "--maxclients", "100");
    backend_open(&s.kit, s.redis.url, NULL);
    struct tier_request a = request(TIER_ASK, "ab/e-1", 'a'), b = request(TIER_ASK, "ab/e-1", 'b');
    struct tier_request job = request(TIER_ASK, "ab/e-1", 'c');
    snprintf(job.job, sizeof job.job, "0123");
    cr_assert_eq(backend_run(&s.kit, &a), TIER_LEASE, "%s", a.said);
    cr_assert_eq(backend_run(&s.kit, &b), TIER_WAIT);
    cr_assert(b.wait_ms > 0 && b.wait_ms <= 5000);
    struct tier_request beside = b;
    beside.slot = 1;
    cr_assert_eq(backend_run(&s.kit, &beside), TIER_LEASE, "a slot beside the lease");
    cr_assert_eq(backend_run(&s.kit, &job), TIER_ABSENT, "the job's first rank misses");
    struct tier_request renew = request(TIER_RENEW, "ab/e-1", 'b');
    cr_assert_eq(backend_run(&s.kit, &renew), TIER_ABSENT, "not ours");
    memset(renew.token, 'a', sizeof renew.token);
    cr_assert_eq(backend_run(&s.kit, &renew), TIER_OK);
    cr_assert_eq(backend_send(&s.kit, request(TIER_FINISH, "ab/e-1", 'a'), "made"), TIER_OK);
    cr_assert_eq(backend_run(&s.kit, &renew), TIER_ABSENT, "the lease went with the object");
    cr_assert_eq(backend_run(&s.kit, &b), TIER_OK);
    expect_bytes(&b, "made");
    cr_assert_eq(backend_run(&s.kit, &job), TIER_LEASE, "and all its others miss, too");
    struct tier_request release = request(TIER_RELEASE, "ab/e-1", 'a');
    cr_assert_eq(backend_run(&s.kit, &release), TIER_ABSENT);
    memset(release.token, 'c', sizeof release.token);
    cr_assert_eq(backend_run(&s.kit, &release), TIER_OK);
    backend_close(&s.kit);
    stop_server(&s);
}

Test(tier_redis, a_wrong_password_and_a_right_one)
{
    struct server s;
    char path[] = "/tmp/warm-tier-XXXXXX";
    int fd = mkstemp(path);
    start_server(&s, "--requirepass", "hunter2");
    cr_assert_gt(dprintf(fd, "password = wrong\n"), 0);
    backend_open(&s.kit, s.redis.url, path);
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_DENIED);
    cr_assert(strstr(get.said, "WRONGPASS"), "%s", get.said);
    for (int i = 0; i < 60; i++, usleep(20000))
        cr_assert_eq(backend_run(&s.kit, &get), TIER_DENIED, "and so until the next try");
    backend_close(&s.kit);
    /* Within 1.2 s: at 0, 0.1, 0.3 and 0.7 s, wait_for's and this one. Each 0.1 s would be 12. */
    char *count;
    cr_assert_eq(run_command(&count,
                             "redis-cli -u redis://default:hunter2@%s info stats 2>/dev/null | "
                             "sed -n 's/^total_connections_received://p'",
                             s.redis.url + strlen("redis://")),
                 0);
    cr_assert_leq(atoi(count), 8, "connections: %s", count);
    cr_assert_gt(atoi(count), 2);
    free(count);
    cr_assert_eq(ftruncate(fd, 0), 0);
    cr_assert_eq(pwrite(fd, "password = hunter2\n", 19, 0), 19);
    backend_open(&s.kit, s.redis.url, path);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_ABSENT, "%s", get.said);
    backend_close(&s.kit);
    close(fd);
    unlink(path);
    stop_server(&s);
}

Test(tier_redis, a_dead_server_is_no_miss)
{
    struct server s;
    start_server(&s, "--maxclients", "100");
    backend_open(&s.kit, s.redis.url, NULL);
    struct tier_request get = request(TIER_GET, "ab/e-1", 0);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_ABSENT);
    kill(s.redis.pid, SIGSTOP);
    get.timeout_ms = 100;
    cr_assert_eq(backend_run(&s.kit, &get), TIER_FAILED);
    cr_assert_str_eq(get.said, "timed out after 100 ms");
    stop_server(&s);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_FAILED);
    cr_assert_eq(backend_run(&s.kit, &get), TIER_FAILED, "refused, or not tried yet");
    backend_close(&s.kit);
}

static void on_reply(struct redis_command *command, const struct resp_reply *reply)
{
    (void)command;
    (void)reply;
    cr_assert_fail("nobody can answer");
}

static enum tier_outcome ended_with = TIER_OK;
static void on_end(struct redis_command *command, enum tier_outcome outcome, const char *why)
{
    (void)command;
    cr_assert(*why);
    ended_with = outcome;
}

static void on_closed(void *user) { *(bool *)user = true; }

/* As a cluster's server may name it: getaddrinfo is not even asked for such a host. */
Test(tier_redis, a_host_that_is_no_name_ends_its_commands)
{
    uv_loop_t loop;
    bool closed = false;
    struct redis_command command = {.on_reply = on_reply, .on_end = on_end};
    struct redis_arg word = redis_text("PING");
    cr_assert_eq(uv_loop_init(&loop), 0);
    struct redis_link_settings settings = {
        .loop = &loop, .credentials = "", .user = "", .database = ""};
    struct redis_link *link = redis_link_new(&settings, "\xff\xfe", 6379);
    redis_command_add(&command, &word, 1);
    redis_link_send(link, &command);
    for (uint64_t end = uv_hrtime() + 5000000000u; ended_with == TIER_OK && uv_hrtime() < end;)
        uv_run(&loop, UV_RUN_ONCE);
    cr_assert_eq(ended_with, TIER_FAILED);
    redis_link_close(link, on_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert(closed);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_squatters.c - a redis-server in which somebody took the leases of a program, and makes nothing.
 *
 * Needs a toolchain where it compiles: see support/pool.h.
 */
#include "tests/support/redis_server.h"
#include "tests/support/tier_kit.h"

#define SLACK_MS 5000u /* of a busy machine; a wait without a bound never ends */

static struct redis_server redis;

static void redis_up(void)
{
    tier_setup();
    redis_server_start(&redis, "--maxclients", "100");
    snprintf(tier_url, sizeof tier_url, "%s", redis.url);
}

static void redis_down(void)
{
    redis_server_stop(&redis);
    tier_teardown();
}

TestSuite(tier_squatters, .init = redis_up, .fini = redis_down, .timeout = 300);

static const char other[] = "extern \"C\" __global__ void g(float *x) { x[threadIdx.x] += 5; }\n";

/* Compiles two sources on a machine with this tier, and leaves their leases alone in Redis: somebody took them all. */
static void squat(char *nvrtc, const char *expiry)
{
    char *out;
    struct ask a = ask_of(TIER_SOURCE), b = ask_of(other);
    struct warmd k = tier_up(nvrtc, tier_key_file, NULL);
    int fd = warmd_native(&k);
    lead_compile(fd, 1, &a, 0, "");
    expect_cubin(fd, 1, NULL);
    lead_compile(fd, 2, &b, 0, "");
    expect_cubin(fd, 2, NULL);
    close(fd);
    await_stats(&k, "\"queue\": 0,");
    await_stats(&k, "\"sending\": 0,");
    warmd_down(&k);
    run_command(&out,
                "redis-cli -p %d -n 1 --scan >%s/keys; redis-cli -p %d -n 1 flushdb >%s/said; "
                "sed -n 's/.*{\\(.*\\)}.*/\\1/p' %s/keys | sort -u | awk '{for (i = 0; i < 9; i++) "
                "print \"SET {\" $1 \"}:l\" (i ? i : \"\") \" evil %s\"}' | redis-cli -p %d -n 1 | "
                "grep -c OK",
                redis.port, tier_folder, redis.port, tier_folder, tier_folder, expiry, redis.port);
    cr_assert_geq(atoi(out), 18, "%s", out);
    free(out);
}

/* Asks for a source; returns how long it took until the client was to bring it. */
static uint64_t until_need(int fd, uint64_t tag, const char *source)
{
    static struct warmd_frame f;
    struct ask a = ask_of(source);
    uint64_t began = clock_now_ms();
    send_compile(fd, tag, &a, 0);
    do
        cr_assert(warmd_frame_try(fd, &f));
    while (f.frame.type == WIRE_WAIT);
    cr_assert_eq(f.frame.type, WIRE_NEED);
    uint64_t took = clock_now_ms() - began;
    int channel = send_source(fd, tag, &a);
    serve_headers(channel, "");
    expect_cubin(fd, tag, NULL);
    return took;
}

Test(tier_squatters, all_leases_of_a_program_cost_it_tier_hedge_once)
{
    NEEDS_TOOLCHAIN(nvrtc);
    char *options[] = {"--tier-hedge", "3s", NULL};
    squat(nvrtc, "PX 36000000");
    struct warmd k = tier_up(nvrtc, tier_key_file, options);
    int fd = warmd_native(&k);
    uint64_t first = until_need(fd, 1, TIER_SOURCE), second = until_need(fd, 2, other);
    cr_expect_lt(first, 3000u + SLACK_MS, "%llu ms", (unsigned long long)first);
    cr_expect_lt(second, 2500u, "%llu ms: nobody waits again", (unsigned long long)second);
    await_log(&k, "nobody waits for others");
    close(fd);
    warmd_down(&k);
}

Test(tier_squatters, leases_without_expiry_are_none)
{
    NEEDS_TOOLCHAIN(nvrtc);
    char *options[] = {"--tier-hedge", "60s", NULL};
    squat(nvrtc, "");
    struct warmd k = tier_up(nvrtc, tier_key_file, options);
    int fd = warmd_native(&k);
    cr_expect_lt(until_need(fd, 1, TIER_SOURCE), 20000u);
    cr_expect_lt(until_need(fd, 2, other), 20000u);
    close(fd);
    warmd_down(&k);
}

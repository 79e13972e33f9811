/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_trouble.c - two daemons, and one Redis behind a proxy that spoils what goes through it.
 * In each fault a GET, an ASK and a PUT end in time and without a wrong byte, and a local hit is a
 * hit. After it, all that waited is sent.
 */
#include "tests/support/engine.h"
#include "tests/support/redis_server.h"
#include "tests/support/tier_kit.h"

#define VALUE_BYTES 50000u
#define LIMIT_MS 10000u /* the budget is 2 s; the rest is for a busy machine */

static const char *const faults[] = {"reset",      "hole",    "slow",         "cut",
                                     "flip",       "rubbish", "resp-LOADING", "resp-NOPERM",
                                     "resp-MOVED", "resp-ERR"};
#define FAULTS (sizeof faults / sizeof *faults)

static struct redis_server redis;
static struct engine proxy;
static char value[VALUE_BYTES + 1];

static void setup(void)
{
    char port[16];
    tier_setup();
    redis_server_start(&redis, "--maxclients", "100");
    snprintf(port, sizeof port, "%d", redis.port);
    const char *const argv[] = {"python3", "tests/tier/fault_proxy.py", port, NULL};
    engine_start(&proxy, argv);
    snprintf(tier_url, sizeof tier_url, "redis://127.0.0.1:%d", proxy.port);
    for (size_t i = 0; i < VALUE_BYTES; i++)
        value[i] = (char)('a' + (i * 2654435761u >> 13) % 26);
}

static void teardown(void)
{
    engine_stop(&proxy);
    redis_server_stop(&redis);
    tier_teardown();
}

TestSuite(tier_trouble, .init = setup, .fini = teardown);

static void set_fault(const char *name)
{
    char text[40];
    snprintf(text, sizeof text, "fault=%s", name);
    engine_tell(&proxy, text, NULL, 0);
}

static void put(struct warm *w, const char *what, size_t i)
{
    char name[40];
    snprintf(name, sizeof name, "%s-%zu", what, i);
    cr_assert_eq(warm_put(w, name, strlen(name), value, VALUE_BYTES, NULL), 0, "%s", name);
}

/* True if the daemon has it. What it has is the value, in time. */
static bool has(struct warm *w, const char *what, size_t i)
{
    char name[40];
    struct warm_value got;
    uint64_t began = clock_now_ms();
    snprintf(name, sizeof name, "%s-%zu", what, i);
    bool hit = warm_get(w, name, strlen(name), 0, &got) == 0;
    cr_assert_lt(clock_now_ms() - began, LIMIT_MS, "%s: %s", faults[i], name);
    if (hit) {
        cr_assert_eq(got.len, VALUE_BYTES, "%s: %s", faults[i], name);
        cr_assert_eq(memcmp(got.data, value, VALUE_BYTES), 0, "%s: %s", faults[i], name);
        warm_value_free(&got);
    }
    return hit;
}

/* Becomes the maker of a name for all nodes, and returns the connection. */
static int lead(const struct warmd *k, const char *name)
{
    static struct warmd_frame f;
    int fd = warmd_native(k);
    warmd_get(fd, 1, name, true, 0);
    do
        cr_assert(warmd_frame_try(fd, &f));
    while (f.frame.type == WIRE_WAIT);
    cr_assert_eq(f.frame.type, WIRE_LEASE, "%s", name);
    return fd;
}

/* Does so in time, and leaves. */
static void make(const struct warmd *k, size_t i)
{
    char name[40];
    uint64_t began = clock_now_ms();
    snprintf(name, sizeof name, "made-%zu", i);
    int fd = lead(k, name);
    cr_assert_lt(clock_now_ms() - began, LIMIT_MS, "%s: the lease", faults[i]);
    close(fd);
}

/* Asks for names that nobody has until the tier is asked again: it is the next question that tries. */
static void await_reads(const struct warmd *k, struct warm *w, size_t fault)
{
    for (size_t i = 0; i < 200; i++) {
        has(w, "absent", fault);
        if (warmd_stats_have(k, "\"reads\": {\"state\": \"on\""))
            return;
        usleep(50000);
    }
    cr_assert_fail("%s: the tier is not asked again: %s", faults[fault], warmd_stats(k));
}

/* Waits until the proxy has seen a command. */
static void await_seen(void)
{
    char seen[16] = "";
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(10000)) {
        engine_tell(&proxy, "seen", seen, sizeof seen);
        if (atoi(seen))
            return;
    }
    cr_assert_fail("nothing goes through the proxy");
}

static int count_leases(void)
{
    char *out;
    run_command(&out, "redis-cli -p %d --scan --pattern '*:l' | wc -l", redis.port);
    int n = atoi(out);
    free(out);
    return n;
}

Test(tier_trouble, a_lease_that_is_being_renewed_is_given_back_at_the_end, .timeout = 120)
{
    char *options[] = {"--tier-lease", "15s", NULL};
    struct warmd k = tier_up(NULL, tier_key_file, options);
    int fd = lead(&k, "graph-1");
    cr_assert_eq(count_leases(), 1);
    set_fault("hole");
    await_seen(); /* RENEW: nothing else is asked for */
    close(fd);
    kill(k.pid, SIGTERM);
    await_log(&k, "stopping");
    set_fault("none"); /* and RENEW fails */
    cr_assert_eq(warmd_reap(k.pid), 0);
    cr_assert_eq(count_leases(), 0, "others would wait for the rest of 15 s");
    warmd_free(&k);
}

/* Waits until all nodes together have so many leases. */
static void await_leases(int n)
{
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(10000))
        if (count_leases() == n)
            return;
    cr_assert_fail("%d leases, not %d", count_leases(), n);
}

Test(tier_trouble, a_lease_that_nobody_hears_of_is_given_back, .timeout = 120)
{
    char *options[] = {"--tier-lease", "10m", NULL};
    struct warmd k = tier_up(NULL, tier_key_file, options);
    int fd = warmd_native(&k);
    set_fault("mute");
    warmd_get(fd, 1, "graph-1", true, 0);
    await_leases(1); /* its answer does not come */
    close(fd);
    await_leases(0);
    set_fault("none");
    warmd_down(&k);
}

Test(tier_trouble, no_fault_makes_a_wrong_byte_or_a_long_wait, .timeout = 300)
{
    char *options[] = {"--tier-breaker", "300ms", NULL}, sent[40];
    struct warmd writer = tier_up(NULL, tier_key_file, options);
    struct warmd reader = tier_up(NULL, tier_key_file, options);
    struct warm *w = warmd_libwarm(&writer), *r = warmd_libwarm(&reader);
    for (size_t i = 0; i < FAULTS; i++)
        put(w, "known", i);
    snprintf(sent, sizeof sent, "\"tier_sent\": %zu,", FAULTS);
    await_stats(&writer, sent);
    for (size_t i = 0; i < FAULTS; i++) {
        set_fault(faults[i]);
        has(r, "known", i);
        put(w, "late", i);
        cr_assert(has(w, "late", i), "%s: a local hit", faults[i]);
        make(&reader, i);
        set_fault("none");
        await_stats(&writer, "\"queue\": 0,");
        await_reads(&reader, r, i);
    }
    struct warmd third = tier_up(NULL, tier_key_file, options);
    struct warm *t = warmd_libwarm(&third);
    for (size_t i = 0; i < FAULTS; i++)
        cr_assert(has(t, "known", i) && has(t, "late", i), "%s: it is not there", faults[i]);
    warm_close(t);
    warm_close(r);
    warm_close(w);
    warmd_down(&third);
    warmd_down(&reader);
    warmd_down(&writer);
}

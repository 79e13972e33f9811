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

/* Asks for a name that nobody has, as one who can make it; then makes it. */
static void make(const struct warmd *k, size_t i)
{
    char name[40];
    int fd = warmd_native(k);
    uint64_t began = clock_now_ms();
    snprintf(name, sizeof name, "made-%zu", i);
    warmd_get(fd, 1, name, true, 0);
    static struct warmd_frame f;
    do
        cr_assert(warmd_frame_try(fd, &f));
    while (f.frame.type == WIRE_WAIT);
    cr_assert_eq(f.frame.type, WIRE_LEASE, "%s", faults[i]);
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

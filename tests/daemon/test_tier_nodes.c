/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_nodes.c - daemons with stores of their own and one redis-server: what one made, the others
 * have.
 *
 * Needs a toolchain where it compiles: see support/pool.h.
 */
#include "tests/support/redis_server.h"
#include "tests/support/tier_kit.h"

static const char source[] = "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= 3; }\n";
static const char with_header[] =
    "#include \"h.h\"\nextern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= N; }\n";

static struct redis_server redis;

static void setup(void)
{
    tier_setup();
    redis_server_start(&redis, "--maxclients", "100");
    snprintf(tier_url, sizeof tier_url, "%s", redis.url);
}

static void teardown(void)
{
    redis_server_stop(&redis);
    tier_teardown();
}

TestSuite(tier_nodes, .init = setup, .fini = teardown);

Test(tier_nodes, a_second_node_starts_with_the_first_ones_kernels)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd first = tier_up(nvrtc, tier_key_file, NULL);
    struct ask a = ask_of(source), b = ask_of(with_header);
    struct key made, found;
    int fd = warmd_native(&first);
    lead_compile(fd, 1, &a, 0, "");
    expect_cubin(fd, 1, &made);
    lead_compile(fd, 2, &b, 0, "#define N 7\n");
    warmd_expect(fd, 2, WIRE_HIT);
    close(fd);
    await_stats(&first, "\"tier_sent\": 5");

    struct warmd second = tier_up(nvrtc, tier_key_file, NULL);
    fd = warmd_native(&second);
    send_compile(fd, 3, &a, 0);
    cr_assert_eq(expect_cubin(fd, 3, &found), WIRE_WAS_HIT);
    cr_assert(key_equal(&made, &found));
    send_compile(fd, 4, &b, 0);
    cr_assert_eq(expect_cubin_with(fd, 4, "#define N 7\n", NULL), WIRE_WAS_HIT);
    close(fd);
    cr_assert(warmd_stats_have(&second, "\"compiles\": 0"));
    warmd_down(&first);
    warmd_down(&second);
}

/* Makes a value of printable bytes that do not repeat. */
static char *value_of(size_t len)
{
    char *value = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        value[i] = (char)('a' + (i * 2654435761u >> 13) % 26);
    value[len] = '\0';
    return value;
}

Test(tier_nodes, values_of_all_sizes_travel_through_redis)
{
    static const size_t sizes[] = {1, 1000, 61440, 61441, 65536, 65537, 3000000};
    size_t n = sizeof sizes / sizeof *sizes;
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    struct warm *w = warmd_libwarm(&first);
    char name[24], text[32];
    for (size_t i = 0; i < n; i++) {
        char *value = value_of(sizes[i]);
        snprintf(name, sizeof name, "value-%zu", sizes[i]);
        cr_assert_eq(warm_put(w, name, strlen(name), value, sizes[i], NULL), 0);
        free(value);
    }
    warm_close(w);
    snprintf(text, sizeof text, "\"tier_sent\": %zu", n);
    await_stats(&first, text);
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    w = warmd_libwarm(&second);
    for (size_t i = 0; i < n; i++) {
        char *value = value_of(sizes[i]);
        struct warm_value got;
        snprintf(name, sizeof name, "value-%zu", sizes[i]);
        cr_assert_eq(warm_get(w, name, strlen(name), 0, &got), 0, "%s", name);
        cr_assert_eq(got.len, sizes[i]);
        cr_assert_eq(memcmp(got.data, value, sizes[i]), 0);
        warm_value_free(&got);
        free(value);
    }
    warm_close(w);
    warmd_down(&first);
    warmd_down(&second);
    char *out;
    run_command(&out, "redis-cli -p %d -n 1 --scan --pattern '*:b' | wc -l", redis.port);
    cr_assert_eq(atoi(out), 2, "only what is larger than 64 KiB is an object of its own: %s", out);
    free(out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failed_value.c - a stored value that the daemon cannot give, since it has no descriptor left: that is an
 * error, neither a miss nor a hit, on each wire. Once there are descriptors, the value is there.
 */
#include <dirent.h>
#include <sys/resource.h>

#include "tests/support/warmd.h"

#define LARGE 100000u /* bytes: a file, and a descriptor in the answer */

static struct warmd k;
static int native, redis;
static struct rlimit usual;

/* Allows a descriptor with the lowest number that is free, and `more` after it; fewer than that: none. */
static void allow(int more)
{
    char *folder = NULL;
    bool taken[1024] = {false};
    struct rlimit limit = usual;
    cr_assert_geq(asprintf(&folder, "/proc/%ld/fd", (long)k.pid), 0);
    DIR *listing = opendir(folder);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (atoi(entry->d_name) < 1024)
            taken[atoi(entry->d_name)] |= entry->d_name[0] != '.';
    closedir(listing);
    free(folder);
    for (limit.rlim_cur = 0; taken[limit.rlim_cur] || more-- > 0; limit.rlim_cur++)
        ;
    cr_assert_eq(prlimit(k.pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

static void allow_all(void) { cr_assert_eq(prlimit(k.pid, RLIMIT_NOFILE, &usual, NULL), 0); }

/* Stores a large value, and starts the daemon anew: it has no descriptor of the file. */
static void setup(void)
{
    static char value[LARGE];
    k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    cr_assert_eq(warm_put(w, "large", 5, value, sizeof value, NULL), 0);
    warm_close(w);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    native = warmd_native(&k);
    redis = warmd_connect(&k);
    warmd_redis(redis, "PING\r\n", "+PONG\r\n");
    cr_assert_eq(prlimit(k.pid, RLIMIT_NOFILE, NULL, &usual), 0);
}

/* The value is there, and only this is a hit. */
static void teardown(void)
{
    allow_all();
    warmd_get(native, 99, "large", false, 0);
    warmd_expect(native, 99, WIRE_HIT);
    cr_expect(warmd_stats_have(&k, "\"hits\": 1,"));
    cr_expect(warmd_log_has(&k, "a stored value is not given: "));
    close(native);
    close(redis);
    warmd_down(&k);
}

TestSuite(failed_value, .init = setup, .fini = teardown, .timeout = 120);

Test(failed_value, is_an_error_for_a_client_that_wants_no_lease)
{
    for (int more = 0; more < 2; more++) { /* no file; then a file, and none for the answer */
        allow(more);
        warmd_get(native, 1, "large", false, 0);
        warmd_expect(native, 1, WIRE_ERROR);
    }
    allow_all();
    cr_expect(warmd_stats_have(&k, "\"misses\": 0,"));
    cr_expect(warmd_stats_have(&k, "\"errors\": 2,"));
}

Test(failed_value, is_a_lease_for_who_can_make_it_and_the_others_wait)
{
    allow(0);
    warmd_get(native, 1, "large", true, 0);
    uint64_t token = warmd_expect_lease(native, 1);
    warmd_get(native, 2, "large", true, 0);
    warmd_expect(native, 2, WIRE_WAIT);
    allow_all();
    warmd_put(native, 3, "large", "made anew", token);
    warmd_expect(native, 2, WIRE_HIT);
    warmd_expect(native, 3, WIRE_OK);
}

Test(failed_value, is_null_on_the_wire_of_redis)
{
    for (int more = 0; more < 2; more++) {
        allow(more);
        warmd_redis(redis, "GET large\r\n", "$-1\r\n");
        warmd_redis(redis, "MGET large\r\n", "*1\r\n$-1\r\n");
    }
    allow_all();
    cr_expect(warmd_stats_have(&k, "\"misses\": 0,"));
}

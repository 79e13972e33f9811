/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lease.c - who makes it, who waits, who gets it: over real sockets, without sleeps. What one
 * client must have done before another goes on is awaited as an answer of the daemon.
 */
#include "tests/support/warmd.h"

Test(lease, the_first_asker_makes_it_and_all_waiters_get_it)
{
    enum { N = 64 };
    struct warmd k = warmd_up(NULL);
    int holder = warmd_native(&k), waiters[N];
    warmd_get(holder, 7, "key", true, 0);
    uint64_t token = warmd_expect_lease(holder, 7);
    for (int i = 0; i < N; i++) {
        waiters[i] = warmd_native(&k);
        warmd_get(waiters[i], (uint64_t)i, "key", true, 0);
        warmd_expect(waiters[i], (uint64_t)i, WIRE_WAIT);
    }
    warmd_put(holder, 8, "key", "made once", token);
    for (int i = 0; i < N; i++) {
        warmd_expect_hit(waiters[i], (uint64_t)i, "made once");
        close(waiters[i]);
    }
    warmd_expect(holder, 8, WIRE_OK);
    close(holder);
    warmd_down(&k);
}

Test(lease, the_end_of_the_holders_socket_passes_the_lease_on)
{
    struct warmd k = warmd_up(NULL);
    int a = warmd_native(&k), b = warmd_native(&k), c = warmd_native(&k);
    warmd_get(a, 1, "key", true, 0);
    warmd_expect_lease(a, 1);
    warmd_get(b, 2, "key", true, 0);
    warmd_expect(b, 2, WIRE_WAIT);
    warmd_get(c, 3, "key", true, 0);
    warmd_expect(c, 3, WIRE_WAIT);
    close(a);
    uint64_t token = warmd_expect_lease(b, 2);
    warmd_put(b, 4, "key", "from b", token);
    warmd_expect_hit(c, 3, "from b");
    warmd_expect(b, 4, WIRE_OK);
    close(b);
    close(c);
    warmd_down(&k);
}

Test(lease, a_released_lease_goes_to_the_next_waiter)
{
    struct warmd k = warmd_up(NULL);
    int a = warmd_native(&k), b = warmd_native(&k);
    struct writer w;
    writer_init(&w, 0);
    warmd_get(a, 1, "key", true, 0);
    struct wire_release release = {warmd_expect_lease(a, 1)};
    warmd_get(b, 2, "key", true, 0);
    warmd_expect(b, 2, WIRE_WAIT);
    wire_put_release(&w, 3, &release);
    warmd_flush(a, &w);
    warmd_expect(a, 3, WIRE_OK);
    warmd_expect_lease(b, 2);
    writer_close(&w);
    close(a);
    close(b);
    warmd_down(&k);
}

Test(lease, a_stalled_holder_is_hedged_and_the_first_result_goes_to_all)
{
    char *options[] = {"--lease-timeout", "200ms", NULL};
    struct warmd k = warmd_up(options);
    int stalled = warmd_native(&k), hedge = warmd_native(&k), waiter = warmd_native(&k);
    warmd_get(stalled, 1, "key", true, 0);
    uint64_t late_token = warmd_expect_lease(stalled, 1);
    warmd_get(hedge, 2, "key", true, 0);
    warmd_expect(hedge, 2, WIRE_WAIT);
    warmd_get(waiter, 3, "key", false, 0); /* does not wait */
    warmd_expect(waiter, 3, WIRE_MISS);
    uint64_t token = warmd_expect_lease(hedge, 2); /* when the first one's time is over */
    warmd_get(waiter, 4, "key", true, 0);
    warmd_expect(waiter, 4, WIRE_WAIT);
    warmd_put(hedge, 5, "key", "hedge", token);
    warmd_expect_hit(waiter, 4, "hedge");
    warmd_expect(hedge, 5, WIRE_OK);
    warmd_put(stalled, 6, "key", "too late", late_token);
    warmd_expect(stalled, 6, WIRE_ERROR);
    warmd_get(waiter, 7, "key", false, 0);
    warmd_expect_hit(waiter, 7, "hedge");
    close(stalled);
    close(hedge);
    close(waiter);
    warmd_down(&k);
}

Test(lease, a_waiter_is_told_when_its_time_is_over)
{
    struct warmd k = warmd_up(NULL);
    int holder = warmd_native(&k), waiter = warmd_native(&k);
    warmd_get(holder, 1, "key", true, 0);
    warmd_expect_lease(holder, 1);
    warmd_get(waiter, 2, "key", true, 100);
    warmd_expect(waiter, 2, WIRE_WAIT);
    warmd_expect(waiter, 2, WIRE_ERROR);
    close(holder);
    close(waiter);
    warmd_down(&k);
}

Test(lease, a_put_without_the_lease_serves_those_who_wait)
{
    struct warmd k = warmd_up(NULL);
    int holder = warmd_native(&k), waiter = warmd_native(&k), other = warmd_connect(&k);
    warmd_get(holder, 1, "key", true, 0);
    warmd_expect_lease(holder, 1);
    warmd_get(waiter, 2, "key", true, 0);
    warmd_expect(waiter, 2, WIRE_WAIT);
    warmd_redis(other, "SET key quick\r\n", "+OK\r\n");
    warmd_expect_hit(waiter, 2, "quick");
    close(holder);
    close(waiter);
    close(other);
    warmd_down(&k);
}

Test(lease, a_redis_get_waits_for_the_holder)
{
    struct warmd k = warmd_up(NULL);
    int holder = warmd_native(&k), redis = warmd_connect(&k);
    warmd_get(holder, 1, "key", true, 0);
    uint64_t token = warmd_expect_lease(holder, 1);
    warmd_send(redis, "GET key\r\nPING\r\n", 15);
    warmd_redis(redis, "", "");
    warmd_put(holder, 2, "key", "v", token);
    warmd_redis(redis, "", "$1\r\nv\r\n+PONG\r\n");
    close(holder);
    close(redis);
    warmd_down(&k);
}

Test(lease, a_redis_get_is_answered_nil_when_the_holder_dies_or_takes_too_long)
{
    char *options[] = {"--wait-timeout", "100ms", NULL};
    struct warmd k = warmd_up(options);
    int holder = warmd_native(&k), redis = warmd_connect(&k);
    warmd_get(holder, 1, "slow", true, 0);
    warmd_expect_lease(holder, 1);
    warmd_redis(redis, "GET slow\r\n", "$-1\r\n");
    warmd_get(holder, 2, "dead", true, 0);
    warmd_expect_lease(holder, 2);
    warmd_send(redis, "GET dead\r\n", 10);
    close(holder);
    warmd_redis(redis, "", "$-1\r\n");
    close(redis);
    warmd_down(&k);
}

Test(lease, nobody_hangs_when_the_daemon_stops_or_dies)
{
    struct warmd k = warmd_up(NULL);
    for (int killed = 0; killed < 2; killed++) {
        int holder = warmd_native(&k), waiter = warmd_native(&k);
        warmd_get(holder, 1, "key", true, 0);
        uint64_t token = warmd_expect_lease(holder, 1);
        warmd_get(waiter, 2, "key", true, 0);
        warmd_expect(waiter, 2, WIRE_WAIT);
        kill(k.pid, killed ? SIGKILL : SIGTERM);
        if (!killed)
            warmd_expect(waiter, 2, WIRE_ERROR);
        cr_assert(warmd_is_closed(waiter));
        cr_assert(warmd_is_closed(holder));
        close(holder);
        close(waiter);
        warmd_reap(k.pid);
        warmd_start(&k, NULL);
        /* The old lease means nothing to the new daemon, but what was made is welcome. */
        holder = warmd_native(&k);
        warmd_put(holder, 3, killed ? "b" : "a", "made before", token);
        warmd_expect(holder, 3, WIRE_OK);
        warmd_get(holder, 4, killed ? "b" : "a", false, 0);
        warmd_expect_hit(holder, 4, "made before");
        close(holder);
    }
    warmd_down(&k);
}

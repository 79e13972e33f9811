/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lease.c - who makes it, who waits, who gets it: over real sockets, without sleeps. What one
 * client must have done before another goes on is awaited as an answer of the daemon.
 */
#include "tests/support/daemon_kit.h"

Test(lease, the_first_asker_makes_it_and_all_waiters_get_it)
{
    enum { N = 64 };
    struct kit k = kit_up(NULL);
    int holder = kit_native(&k), waiters[N];
    kit_get(holder, 7, "key", true, 0);
    uint64_t token = kit_expect_lease(holder, 7);
    for (int i = 0; i < N; i++) {
        waiters[i] = kit_native(&k);
        kit_get(waiters[i], (uint64_t)i, "key", true, 0);
        kit_expect(waiters[i], (uint64_t)i, WIRE_WAIT);
    }
    kit_put(holder, 8, "key", "made once", token);
    for (int i = 0; i < N; i++) {
        kit_expect_hit(waiters[i], (uint64_t)i, "made once");
        close(waiters[i]);
    }
    kit_expect(holder, 8, WIRE_OK);
    close(holder);
    kit_down(&k);
}

Test(lease, the_end_of_the_holders_socket_passes_the_lease_on)
{
    struct kit k = kit_up(NULL);
    int a = kit_native(&k), b = kit_native(&k), c = kit_native(&k);
    kit_get(a, 1, "key", true, 0);
    kit_expect_lease(a, 1);
    kit_get(b, 2, "key", true, 0);
    kit_expect(b, 2, WIRE_WAIT);
    kit_get(c, 3, "key", true, 0);
    kit_expect(c, 3, WIRE_WAIT);
    close(a);
    uint64_t token = kit_expect_lease(b, 2);
    kit_put(b, 4, "key", "from b", token);
    kit_expect_hit(c, 3, "from b");
    kit_expect(b, 4, WIRE_OK);
    close(b);
    close(c);
    kit_down(&k);
}

Test(lease, a_released_lease_goes_to_the_next_waiter)
{
    struct kit k = kit_up(NULL);
    int a = kit_native(&k), b = kit_native(&k);
    struct writer w;
    writer_init(&w, 0);
    kit_get(a, 1, "key", true, 0);
    struct wire_release release = {kit_expect_lease(a, 1)};
    kit_get(b, 2, "key", true, 0);
    kit_expect(b, 2, WIRE_WAIT);
    wire_put_release(&w, 3, &release);
    kit_flush(a, &w);
    kit_expect(a, 3, WIRE_OK);
    kit_expect_lease(b, 2);
    writer_close(&w);
    close(a);
    close(b);
    kit_down(&k);
}

Test(lease, a_stalled_holder_is_hedged_and_the_first_result_goes_to_all)
{
    char *options[] = {"--lease-timeout", "200ms", NULL};
    struct kit k = kit_up(options);
    int stalled = kit_native(&k), hedge = kit_native(&k), waiter = kit_native(&k);
    kit_get(stalled, 1, "key", true, 0);
    uint64_t late_token = kit_expect_lease(stalled, 1);
    kit_get(hedge, 2, "key", true, 0);
    kit_expect(hedge, 2, WIRE_WAIT);
    kit_get(waiter, 3, "key", false, 0); /* does not wait */
    kit_expect(waiter, 3, WIRE_MISS);
    uint64_t token = kit_expect_lease(hedge, 2); /* when the first one's time is over */
    kit_get(waiter, 4, "key", true, 0);
    kit_expect(waiter, 4, WIRE_WAIT);
    kit_put(hedge, 5, "key", "hedge", token);
    kit_expect_hit(waiter, 4, "hedge");
    kit_expect(hedge, 5, WIRE_OK);
    kit_put(stalled, 6, "key", "too late", late_token);
    kit_expect(stalled, 6, WIRE_ERROR);
    kit_get(waiter, 7, "key", false, 0);
    kit_expect_hit(waiter, 7, "hedge");
    close(stalled);
    close(hedge);
    close(waiter);
    kit_down(&k);
}

Test(lease, a_waiter_is_told_when_its_time_is_over)
{
    struct kit k = kit_up(NULL);
    int holder = kit_native(&k), waiter = kit_native(&k);
    kit_get(holder, 1, "key", true, 0);
    kit_expect_lease(holder, 1);
    kit_get(waiter, 2, "key", true, 100);
    kit_expect(waiter, 2, WIRE_WAIT);
    kit_expect(waiter, 2, WIRE_ERROR);
    close(holder);
    close(waiter);
    kit_down(&k);
}

Test(lease, a_put_without_the_lease_serves_those_who_wait)
{
    struct kit k = kit_up(NULL);
    int holder = kit_native(&k), waiter = kit_native(&k), other = kit_connect(&k);
    kit_get(holder, 1, "key", true, 0);
    kit_expect_lease(holder, 1);
    kit_get(waiter, 2, "key", true, 0);
    kit_expect(waiter, 2, WIRE_WAIT);
    kit_redis(other, "SET key quick\r\n", "+OK\r\n");
    kit_expect_hit(waiter, 2, "quick");
    close(holder);
    close(waiter);
    close(other);
    kit_down(&k);
}

Test(lease, a_redis_get_waits_for_the_holder)
{
    struct kit k = kit_up(NULL);
    int holder = kit_native(&k), redis = kit_connect(&k);
    kit_get(holder, 1, "key", true, 0);
    uint64_t token = kit_expect_lease(holder, 1);
    kit_send(redis, "GET key\r\nPING\r\n", 15);
    kit_redis(redis, "", "");
    kit_put(holder, 2, "key", "v", token);
    kit_redis(redis, "", "$1\r\nv\r\n+PONG\r\n");
    close(holder);
    close(redis);
    kit_down(&k);
}

Test(lease, a_redis_get_is_answered_nil_when_the_holder_dies_or_takes_too_long)
{
    char *options[] = {"--wait-timeout", "100ms", NULL};
    struct kit k = kit_up(options);
    int holder = kit_native(&k), redis = kit_connect(&k);
    kit_get(holder, 1, "slow", true, 0);
    kit_expect_lease(holder, 1);
    kit_redis(redis, "GET slow\r\n", "$-1\r\n");
    kit_get(holder, 2, "dead", true, 0);
    kit_expect_lease(holder, 2);
    kit_send(redis, "GET dead\r\n", 10);
    close(holder);
    kit_redis(redis, "", "$-1\r\n");
    close(redis);
    kit_down(&k);
}

Test(lease, nobody_hangs_when_the_daemon_stops_or_dies)
{
    struct kit k = kit_up(NULL);
    for (int killed = 0; killed < 2; killed++) {
        int holder = kit_native(&k), waiter = kit_native(&k);
        kit_get(holder, 1, "key", true, 0);
        uint64_t token = kit_expect_lease(holder, 1);
        kit_get(waiter, 2, "key", true, 0);
        kit_expect(waiter, 2, WIRE_WAIT);
        kill(k.pid, killed ? SIGKILL : SIGTERM);
        if (!killed)
            kit_expect(waiter, 2, WIRE_ERROR);
        cr_assert(kit_is_closed(waiter));
        cr_assert(kit_is_closed(holder));
        close(holder);
        close(waiter);
        kit_reap(k.pid);
        kit_start(&k, NULL);
        /* The old lease means nothing to the new daemon, but what was made is welcome. */
        holder = kit_native(&k);
        kit_put(holder, 3, killed ? "b" : "a", "made before", token);
        kit_expect(holder, 3, WIRE_OK);
        kit_get(holder, 4, killed ? "b" : "a", false, 0);
        kit_expect_hit(holder, 4, "made before");
        close(holder);
    }
    kit_down(&k);
}

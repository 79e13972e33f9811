/* SPDX-License-Identifier: Apache-2.0 */
/* test_redis_set.c - the commands that write, and those about times to live, beside a real redis-server. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/redis_pair.h"

static struct redis_pair p;

static void up(void) { redis_pair_up(&p); }
static void down(void) { redis_pair_down(&p); }
TestSuite(redis_set, .init = up, .fini = down, .timeout = 120);

static void same_of_each(const char *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        redis_pair_same(&p, lines[i]);
}

Test(redis_set, each_option_of_set_does_what_it_does_in_redis)
{
    static const char *const lines[] = {"SET a 1",
                                        "SET a 2 NX",
                                        "GET a",
                                        "SET b 1 NX",
                                        "SET c 1 XX",
                                        "EXISTS c",
                                        "SET b 2 XX",
                                        "GET b",
                                        "SET b 3 GET",
                                        "SET new 1 GET",
                                        "GET new",
                                        "SET b 4 XX GET",
                                        "SET none 1 XX GET",
                                        "EXISTS none",
                                        "SET b 5 EX 100",
                                        "TTL b",
                                        "SET b 6 KEEPTTL",
                                        "TTL b",
                                        "GET b",
                                        "SET b 7",
                                        "TTL b",
                                        "SET b 8 PX 100000",
                                        "TTL b",
                                        "SET b 9 KEEPTTL GET",
                                        "TTL b",
                                        "SET b 1 ex 50 xx",
                                        "TTL b",
                                        "SET k 1 KEEPTTL",
                                        "TTL k",
                                        "SET k 2 NX EX 30",
                                        "TTL k",
                                        "SET fresh 2 NX EX 30",
                                        "TTL fresh",
                                        "GET fresh"};
    same_of_each(lines, sizeof lines / sizeof *lines);
}

/* Waits until half a second has just passed: TTL rounds there, so the two servers have a second to say the same. */
static void await_rounding(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    usleep((useconds_t)(1550 - now.tv_nsec / 1000000) % 1000 * 1000);
}

Test(redis_set, a_moment_of_unix_time_is_a_time_to_live)
{
    char line[80];
    await_rounding();
    long now = (long)time(NULL);
    snprintf(line, sizeof line, "SET a 1 EXAT %ld", now + 1000);
    redis_pair_same(&p, line);
    redis_pair_same(&p, "TTL a");
    await_rounding();
    snprintf(line, sizeof line, "SET a 2 PXAT %ld", (now + 2000) * 1000);
    redis_pair_same(&p, line);
    redis_pair_same(&p, "TTL a");
}

Test(redis_set, a_command_that_is_wrong_changes_nothing)
{
    static const char *const lines[] = {
        "SET a",         "SET a 2 EX",    "SET a 2 EX 0",      "SET a 2 EX -5",
        "SET a 2 EX x",  "SET a 2 PX",    "SET a 2 NX XX",     "SET a 2 KEEPTTL EX 5",
        "SET a 2 BOGUS", "SET a 2 3",     "SETEX a 0 2",       "SETEX a x 2",
        "SETEX a 5",     "PSETEX a -1 2", "SETNX a",           "MSET a",
        "MSET a 2 b",    "MSET",          "GETSET a",          "DEL",
        "EXPIRE a x",    "EXPIRE a",      "PEXPIRE a 5 6 7 8", "SET a 2 EX 99999999999999999999"};
    redis_pair_same(&p, "SET a 1");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        redis_pair_refuse(&p, lines[i]);
        redis_pair_same(&p, "MGET a b");
        redis_pair_same(&p, "TTL a");
    }
}

Test(redis_set, the_other_commands_that_write)
{
    static const char *const lines[] = {"SETNX a 1",
                                        "SETNX a 2",
                                        "GET a",
                                        "GETSET a 3",
                                        "GETSET new 4",
                                        "MGET a new",
                                        "MSET x 1 y 2 x 3",
                                        "MGET x y",
                                        "SETEX t 100 v",
                                        "TTL t",
                                        "PSETEX t 50000 w",
                                        "TTL t",
                                        "GET t",
                                        "DEL x nope y x",
                                        "EXISTS x y",
                                        "UNLINK t",
                                        "UNLINK t",
                                        "EXISTS t",
                                        "GETSET t 1",
                                        "TTL t",
                                        "SETEX t 100 v",
                                        "GETSET t 2",
                                        "TTL t",
                                        "FLUSHALL",
                                        "DBSIZE",
                                        "GET a"};
    same_of_each(lines, sizeof lines / sizeof *lines);
}

Test(redis_set, times_to_live_begin_change_and_end)
{
    static const char *const lines[] = {
        "TTL nope",  "PTTL nope", "EXPIRE nope 5", "PERSIST nope",  "SET a 1",         "TTL a",
        "PTTL a",    "PERSIST a", "EXPIRE a 100",  "TTL a",         "PEXPIRE a 40000", "TTL a",
        "PERSIST a", "TTL a",     "GET a",         "PEXPIRE a 400", "SET b 1 PX 400"};
    same_of_each(lines, sizeof lines / sizeof *lines);
    nanosleep(&(struct timespec){0, 500000000}, NULL); /* both are over by then */
    redis_pair_same(&p, "MGET a b");
    redis_pair_same(&p, "EXISTS a b");
    redis_pair_same(&p, "TTL a");
    redis_pair_same(&p, "SET a 2 NX");
    redis_pair_same(&p, "SET b 2 XX");
    redis_pair_same(&p, "MGET a b");
}

Test(redis_set, answers_keep_their_order_whatever_waits_for_the_disk)
{
    static const char lines[] = "SET a 1\r\nGET a\r\nSET a 2 NX\r\nSETNX b 1\r\nDEL a\r\nGET a\r\n"
                                "MSET a 5 c 6\r\nSET c 7 GET\r\nMGET a b c\r\nPING\r\n";
    redis_pair_send(&p, lines, sizeof lines - 1);
    for (int i = 0; i < 10; i++)
        redis_pair_equal(&p, "the pipeline");
}

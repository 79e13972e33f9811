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
                                        "SET b 5 EX 100",
                                        "TTL b",
                                        "SET b 7",
                                        "TTL b",
                                        "SET b 8 PX 100000",
                                        "TTL b",
                                        "SET b 1 ex 50 xx",
                                        "TTL b",
                                        "SET k 2 NX EX 30",
                                        "TTL k",
                                        "SET fresh 2 NX EX 30",
                                        "TTL fresh",
                                        "GET fresh"};
    same_of_each(lines, sizeof lines / sizeof *lines);
}

Test(redis_set, a_command_that_is_wrong_changes_nothing)
{
    static const char *const lines[] = {"SET a",         "SET a 2 EX",
                                        "SET a 2 EX 0",  "SET a 2 EX -5",
                                        "SET a 2 EX x",  "SET a 2 PX",
                                        "SET a 2 NX XX", "SET a 2 BOGUS",
                                        "SET a 2 3",     "MSET a",
                                        "MSET a 2 b",    "MSET",
                                        "DEL",           "SET a 2 EX 99999999999999999999"};
    redis_pair_same(&p, "SET a 1");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        redis_pair_refuse(&p, lines[i]);
        redis_pair_same(&p, "MGET a b");
        redis_pair_same(&p, "TTL a");
    }
}

Test(redis_set, the_other_commands_that_write)
{
    static const char *const lines[] = {"MSET x 1 y 2 x 3", "MGET x y", "DEL x nope y x",
                                        "EXISTS x y",       "DEL x",    "DBSIZE"};
    same_of_each(lines, sizeof lines / sizeof *lines);
}

Test(redis_set, times_to_live_begin_and_end)
{
    static const char *const lines[] = {"TTL nope", "PTTL nope",      "SET a 1",       "TTL a",
                                        "PTTL a",   "SET a 1 PX 400", "SET b 1 PX 400"};
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
    static const char lines[] = "SET a 1\r\nGET a\r\nSET a 2 NX\r\nSET b 1 NX\r\nDEL a\r\nGET a\r\n"
                                "MSET a 5 c 6\r\nSET c 7 XX\r\nMGET a b c\r\nPING\r\n";
    redis_pair_send(&p, lines, sizeof lines - 1);
    for (int i = 0; i < 10; i++)
        redis_pair_equal(&p, "the pipeline");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_redis_long.c - arguments that are too long for memory, beside a real redis-server, and malformed ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/net/resp.h"
#include "tests/support/redis_pair.h"

#define LEN (3 * RESP_SPILL_MIN)

static struct redis_pair p;
static char value[LEN];

static void up(void)
{
    redis_pair_up(&p);
    for (size_t i = 0; i < LEN; i++)
        value[i] = (char)(i * 31 ^ i >> 9);
}

static void down(void) { redis_pair_down(&p); }
TestSuite(redis_long, .init = up, .fini = down, .timeout = 120);

static struct view text(const char *t) { return view_of_text(t); }

/* Sends SET of `len` bytes and compares the answers. */
static void set(const char *name, size_t len)
{
    redis_pair_words(&p, 3, (const struct view[]){text("SET"), text(name), {value, len}});
    redis_pair_equal(&p, name);
}

Test(redis_long, values_around_the_limit_come_back)
{
    for (size_t len = RESP_SPILL_MIN - 2; len <= RESP_SPILL_MIN + 2; len++) {
        set("v", len);
        redis_pair_same(&p, "GET v");
    }
}

/* The pieces end in each header, at each end of an argument, and between CR and LF. */
Test(redis_long, a_command_that_comes_in_pieces_is_the_same_command)
{
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$%u\r\n", RESP_SPILL_MIN);
    size_t first = w.len;
    writer_bytes(&w, value, RESP_SPILL_MIN);
    writer_format(&w, "\r\n$1\r\nb\r\n$%u\r\n", RESP_SPILL_MIN + 7);
    size_t second = w.len;
    writer_bytes(&w, value + 5, RESP_SPILL_MIN + 7);
    writer_bytes(&w, "\r\n", 2);
    cr_assert_not(w.failed);
    const size_t cuts[] = {first - 3,   first - 2,  first - 1, first,     first + 1, second - 20,
                           second - 19, second - 1, second,    w.len - 2, w.len - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        redis_pair_same(&p, "DEL a b");
        redis_pair_send(&p, w.data, cuts[i]);
        usleep(2000); /* it may come as one piece all the same: then it tells less */
        redis_pair_send(&p, w.data + cuts[i], w.len - cuts[i]);
        redis_pair_equal(&p, "MSET");
        redis_pair_same(&p, "MGET a b");
    }
    writer_close(&w);
}

Test(redis_long, what_stands_behind_a_long_value_counts)
{
    const struct view long_value = {value, LEN};
    redis_pair_words(
        &p, 5, (const struct view[]){text("SET"), text("a"), long_value, text("EX"), text("100")});
    redis_pair_equal(&p, "SET EX");
    redis_pair_same(&p, "TTL a");
    redis_pair_words(&p, 4,
                     (const struct view[]){text("SET"), text("a"), {value, LEN - 1}, text("NX")});
    redis_pair_equal(&p, "SET NX");
    redis_pair_same(&p, "GET a");
    redis_pair_words(&p, 4,
                     (const struct view[]){text("SET"), text("a"), {value, LEN - 1}, text("XX")});
    redis_pair_equal(&p, "SET XX");
    redis_pair_same(&p, "GET a");
    redis_pair_words(&p, 4, (const struct view[]){text("MSET"), text("b"), long_value, text("c")});
    redis_pair_equal(&p, "MSET of three");
    redis_pair_same(&p, "EXISTS b c");
}

Test(redis_long, a_long_name_is_none_and_the_connection_goes_on)
{
    redis_pair_words(&p, 2, (const struct view[]){text("GET"), {value, LEN}});
    redis_pair_equal(&p, "GET");
    redis_pair_words(&p, 2, (const struct view[]){text("TTL"), {value, LEN}});
    redis_pair_equal(&p, "TTL");
    redis_pair_same(&p, "SET a 1");
    redis_pair_same(&p, "GET a");
}

/* Expects that warmd answers these bytes with an error of this text, and ends the connection. */
static void expect_end(const void *bytes, size_t len, const char *error)
{
    char got[200] = "";
    int fd = warmd_connect(&p.warmd);
    warmd_send(fd, bytes, len);
    cr_assert(warmd_recv(fd, got, strlen(error)), "%s", error);
    cr_assert_str_eq(got, error);
    cr_assert(warmd_is_closed(fd));
    close(fd);
}

Test(redis_long, malformed_arguments_end_the_connection_and_no_other)
{
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$%u\r\n", LEN);
    writer_bytes(&w, value, LEN);
    writer_bytes(&w, "xx", 2);
    expect_end(w.data, w.len, "-ERR Protocol error: no line end after an argument\r\n");
    w.len -= 2;
    writer_bytes(&w, "\r\r", 2);
    expect_end(w.data, w.len, "-ERR Protocol error: no line end after an argument\r\n");

    w.len = 0;
    writer_format(&w, "*%u\r\n$4\r\nMSET\r\n", 2 * (RESP_SPILLS_MAX + 1) + 1);
    for (unsigned i = 0; i < RESP_SPILLS_MAX + 1; i++) {
        writer_format(&w, "$2\r\n%02u\r\n$%u\r\n", i, RESP_SPILL_MIN);
        if (i == RESP_SPILLS_MAX)
            break;
        writer_bytes(&w, value, RESP_SPILL_MIN);
        writer_bytes(&w, "\r\n", 2);
    }
    expect_end(w.data, w.len, "-ERR Protocol error: more than 16 long arguments\r\n");
    cr_assert_not(w.failed);
    writer_close(&w);
    redis_pair_same(&p, "EXISTS a 00");
}

/* Each leaves half an argument behind. The user's budget has room for some of them alone. */
Test(redis_long, a_client_that_leaves_gives_its_room_back)
{
    enum { CLIENTS = 300, CLAIMED = 1 << 20 };
    char head[80];
    snprintf(head, sizeof head, "PING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$%u\r\n", (unsigned)CLAIMED);
    for (int i = 0; i < CLIENTS; i++) {
        int fd = warmd_connect(&p.warmd);
        warmd_redis(fd, head, "+PONG\r\n"); /* the turn that answers PING has seen the rest, too */
        warmd_send(fd, value, 1000);
        close(fd);
    }
    struct view ours, theirs;
    int tries = 0;
    do { /* until the daemon has seen that all have left */
        cr_assert_lt(tries++, 1000, "its room does not come back");
        usleep(10000);
        set("a", LEN);
        redis_pair_send(&p, "GET a\r\n", 7);
        ours = redis_pair_answer(&p, PAIR_WARM);
        theirs = redis_pair_answer(&p, PAIR_REDIS);
    } while (ours.len != theirs.len || memcmp(ours.data, theirs.data, ours.len) != 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_redis_answer.c - how values go out, beside a real redis-server: copied, from their place, as a file, or put
 * together again.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/redis_pair.h"

#define LEN 200000u

static struct redis_pair p;
static char value[LEN];

static void up(void)
{
    redis_pair_up(&p);
    for (size_t i = 0; i < LEN; i++)
        value[i] = (char)(i * 31 ^ i >> 9);
}

static void down(void) { redis_pair_down(&p); }
TestSuite(redis_answer, .init = up, .fini = down, .timeout = 120);

static void set(const char *name, struct view bytes)
{
    redis_pair_words(&p, 3, (const struct view[]){view_of_text("SET"), view_of_text(name), bytes});
    redis_pair_equal(&p, name);
}

Test(redis_answer, a_value_is_the_same_however_it_goes_out)
{
    static const size_t sizes[] = {0,     1,     4095,  4096,  4097,  16383,
                                   16384, 65535, 65536, 65537, 65538, LEN};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        set("v", (struct view){value, sizes[i]});
        redis_pair_same(&p, "GET v");
        redis_pair_send(&p, "GET v\r\nPING\r\nGET v\r\nECHO x\r\n", 28);
        for (int n = 0; n < 4; n++)
            redis_pair_equal(&p, "the pipeline");
    }
}

/* The daemon may hold on to no value that a client reads later, or that is replaced meanwhile. */
Test(redis_answer, a_slow_reader_gets_what_it_asked_for)
{
    enum { N = 60 };
    static const size_t sizes[] = {100, 5000, 65000, 70000, LEN};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        set("v", (struct view){value, sizes[i]});
        for (int n = 0; n < N; n++)
            redis_pair_send(&p, "GET v\r\n", 7);
        int fd = warmd_connect(&p.warmd);
        warmd_redis(fd, "SET v other\r\nGET v\r\n", "+OK\r\n$5\r\nother\r\n");
        close(fd);
        for (int n = 0; n < N; n++) {
            struct view ours = redis_pair_answer(&p, PAIR_WARM);
            struct view theirs = redis_pair_answer(&p, PAIR_REDIS);
            bool is_old = ours.len == theirs.len && memcmp(ours.data, theirs.data, ours.len) == 0;
            bool is_new = ours.len == 11 && memcmp(ours.data, "$5\r\nother\r\n", 11) == 0;
            cr_assert(is_old || is_new, "%zu bytes, GET %d", sizes[i], n);
        }
    }
}

/* Returns the JSON of a value of PyTorch: base64 of a pickle, `n` letters, a multiple of 4; free() it. */
static char *json_of(size_t n, const char *end)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *json = malloc(n + 80);
    size_t at = (size_t)sprintf(json, "{\"data\": \"");
    for (size_t i = 0; i < n; i++)
        json[at++] = i < 4 ? "gASV"[i] : letters[(i * 7 + i / 64) % 64];
    sprintf(json + at, "\"%s", end);
    return json;
}

Test(redis_answer, a_value_of_pytorch_comes_back_byte_for_byte)
{
    static const size_t sizes[] = {4, 400, 8000, 64000, 100000, 400000};
    static const char *const ends[] = {", \"time_taken_ms\": 123}", ", \"time_taken_ms\": 0}",
                                       ",\"time_taken_ms\": 123}", "}",
                                       ", \"time_taken_ms\": 1.5}"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
            char *json = json_of(sizes[i], ends[e]);
            set("pt2:autograd-experiments:x:1:abc", view_of_text(json));
            redis_pair_same(&p, "GET pt2:autograd-experiments:x:1:abc");
            redis_pair_same(&p, "MGET nope pt2:autograd-experiments:x:1:abc");
            free(json);
        }
}

/* Sends a line to both, and expects exactly these bytes of each. */
static void expect_both(const char *line, const char *answer)
{
    for (int i = 0; i < PAIR_BOTH; i++)
        warmd_redis(p.side[i].fd, line, answer);
}

Test(redis_answer, nothing_is_null_in_the_protocol_that_the_client_chose)
{
    char hello[2][400];
    expect_both("GET nope\r\n", "$-1\r\n");
    for (int i = 0; i < PAIR_BOTH; i++) {
        warmd_send(p.side[i].fd, "HELLO 3\r\nECHO over\r\n", 20);
        size_t len = 0;
        do
            cr_assert(len < 399 && warmd_recv(p.side[i].fd, &hello[i][len], 1));
        while (hello[i][len++] != '\n' || len < 10 ||
               memcmp(&hello[i][len - 10], "$4\r\nover\r\n", 10));
        cr_assert_eq(hello[i][0], '%', "a map");
    }
    expect_both("GET nope\r\n", "_\r\n");
    expect_both("MGET nope nope\r\n", "*2\r\n_\r\n_\r\n");
    expect_both("SET a 1\r\nSET a 2 NX\r\n", "+OK\r\n_\r\n");
    expect_both("TTL a\r\n", ":-1\r\n");
    expect_both("GET a\r\n", "$1\r\n1\r\n");
}

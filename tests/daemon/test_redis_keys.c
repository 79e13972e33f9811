/* SPDX-License-Identifier: Apache-2.0 */
/* test_redis_keys.c - SCAN and DBSIZE, beside a real redis-server: each name once, in any order. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/redis_pair.h"

static struct redis_pair p;

static void up(void) { redis_pair_up(&p); }
static void down(void) { redis_pair_down(&p); }
TestSuite(redis_keys, .init = up, .fini = down, .timeout = 120);

Test(redis_keys, patterns_match_as_in_redis)
{
    static const char *const patterns[] = {
        "*",        "a*",        "?",     "??",    "*o",    "h?llo", "h*llo", "h[ae]llo",
        "h[^e]llo", "h[a-c]llo", "h[",    "nope",  "a\\*b", "a\\?",  "*\\**", "*a*b*",
        "**",       "?*?",       "[a-z]", "[z-a]", "hello", "HELLO", "*:*",   "h[^a-d]llo"};
    redis_pair_same(&p, "MSET a 1 b 2 hello 3 hallo 4 hbllo 5 hllo 6 heello 7 a*b 8 a? 9 x:y:z 10");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char line[64];
        snprintf(line, sizeof line, "SCAN 0 MATCH %s COUNT 1000", patterns[i]);
        redis_pair_same_set(&p, line);
    }
    redis_pair_same(&p, "DEL a hello");
    redis_pair_same_set(&p, "SCAN 0 COUNT 1000");
    redis_pair_same(&p, "DBSIZE");
    redis_pair_refuse(&p, "SCAN");
}

/* Sets so many names, more than the daemon looks at in one turn. */
static void set_names(int n)
{
    struct writer w;
    writer_init(&w, 0);
    for (int from = 0; from < n; from += 500) {
        w.len = 0;
        writer_format(&w, "*1001\r\n$4\r\nMSET\r\n");
        for (int i = from; i < from + 500; i++)
            writer_format(&w, "$6\r\nn-%04d\r\n$1\r\nv\r\n", i);
        redis_pair_send(&p, w.data, w.len);
        redis_pair_equal(&p, "MSET");
    }
    cr_assert_not(w.failed);
    writer_close(&w);
}

Test(redis_keys, many_names_are_counted)
{
    set_names(2500);
    redis_pair_same(&p, "DBSIZE");
    redis_pair_same(&p, "DEL n-0000 n-2499");
    redis_pair_same(&p, "DBSIZE");
    redis_pair_send(&p, "DBSIZE\r\nPING\r\n", 14); /* what follows waits for its turn */
    redis_pair_equal(&p, "DBSIZE");
    redis_pair_equal(&p, "PING");
}

/* Counts in `seen` the names "n-NNNN" of an answer to SCAN. Returns the next cursor. */
static unsigned long take_page(struct view answer, unsigned *seen, size_t n)
{
    char *text = strndup(answer.data, answer.len), *at = text;
    unsigned long cursor;
    cr_assert_eq(sscanf(text, "*2\r\n$%*d\r\n%lu", &cursor), 1, "%.60s", text);
    while ((at = strstr(at, "\r\nn-"))) {
        size_t i = strtoul(at + 4, NULL, 10);
        cr_assert_lt(i, n);
        seen[i]++;
        at += 4;
    }
    free(text);
    return cursor;
}

/* Walks with SCAN; each page on another connection. Returns the number of pages. */
static unsigned walk(const char *more, unsigned *seen, size_t n)
{
    unsigned pages = 0;
    unsigned long cursor = 0;
    struct redis_side first = p.side[PAIR_WARM];
    do {
        char line[80];
        snprintf(line, sizeof line, "SCAN %lu%s\r\n", cursor, more);
        p.side[PAIR_WARM] = (struct redis_side){.fd = warmd_connect(&p.warmd)};
        writer_init(&p.side[PAIR_WARM].in, 0);
        warmd_send(p.side[PAIR_WARM].fd, line, strlen(line));
        cursor = take_page(redis_pair_answer(&p, PAIR_WARM), seen, n);
        close(p.side[PAIR_WARM].fd);
        writer_close(&p.side[PAIR_WARM].in);
        cr_assert_lt(pages++, 100u);
    } while (cursor);
    p.side[PAIR_WARM] = first;
    return pages;
}

Test(redis_keys, scan_finds_each_name_once)
{
    enum { N = 2500 };
    static unsigned all[N], some[N];
    set_names(N);
    cr_assert_gt(walk("", all, N), 1u);
    for (int i = 0; i < N; i++)
        cr_assert_eq(all[i], 1, "%d", i);
    walk(" MATCH n-1?00 COUNT 5", some, N);
    for (int i = 0; i < N; i++)
        cr_assert_eq(some[i], i >= 1000 && i < 2000 && i % 100 == 0, "%d", i);
}

Test(redis_keys, a_cursor_that_was_not_given_out_is_refused)
{
    static const char *const lines[] = {"SCAN x\r\n", "SCAN -1\r\n", "SCAN 123456\r\n",
                                        "SCAN 99999999999999999999\r\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        warmd_redis(p.side[PAIR_WARM].fd, lines[i], "-ERR invalid cursor\r\n");
    warmd_redis(p.side[PAIR_WARM].fd, "SCAN 0\r\n", "*2\r\n$1\r\n0\r\n*0\r\n");
}

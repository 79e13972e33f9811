/* SPDX-License-Identifier: Apache-2.0 */
/* test_redis_get.c - the commands that read values or rows, beside a real redis-server. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/redis_pair.h"

static struct redis_pair p;

static void up(void) { redis_pair_up(&p); }
static void down(void) { redis_pair_down(&p); }
TestSuite(redis_get, .init = up, .fini = down, .timeout = 120);

static void same_of_each(const char *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        redis_pair_same(&p, lines[i]);
}

Test(redis_get, values_and_rows_are_read_as_redis_reads_them)
{
    static const char *const lines[] = {"GET nope",
                                        "SET a 1",
                                        "GET a",
                                        "gEt a",
                                        "GET A",
                                        "SET b 22",
                                        "MGET a b",
                                        "MGET nope",
                                        "MGET a nope b a nope",
                                        "EXISTS a",
                                        "EXISTS nope",
                                        "EXISTS a a a",
                                        "EXISTS nope a b nope",
                                        "DEL a",
                                        "GET a",
                                        "MGET a b",
                                        "EXISTS a b"};
    same_of_each(lines, sizeof lines / sizeof *lines);
}

Test(redis_get, any_bytes_are_a_name_and_a_value)
{
    static const char bytes[] = "\0\r\n$5\r\n*1\xff\x80 \t\"'";
    const struct view name = {bytes, sizeof bytes - 1}, empty = {"", 0};
    const struct view set[] = {view_of_text("SET"), name, name};
    const struct view set_empty[] = {view_of_text("SET"), view_of_text("e"), empty};
    const struct view get[] = {
        view_of_text("MGET"), name, view_of_text("e"), {bytes, sizeof bytes - 2}};
    redis_pair_words(&p, 3, set);
    redis_pair_equal(&p, "SET");
    redis_pair_words(&p, 3, set_empty);
    redis_pair_equal(&p, "SET of no bytes");
    redis_pair_words(&p, 4, get);
    redis_pair_equal(&p, "MGET");
    redis_pair_same(&p, "GET e");
    redis_pair_same(&p, "EXISTS e");
}

Test(redis_get, a_wrong_number_of_arguments_is_told_in_redis_words)
{
    static const char *const lines[] = {"GET", "GET a b", "MGET", "EXISTS"};
    same_of_each(lines, sizeof lines / sizeof *lines);
    redis_pair_same(&p, "GET a"); /* the connection goes on */
}

/* More than the daemon answers in one turn. */
Test(redis_get, many_names_in_one_command_keep_their_order)
{
    enum { N = 3000 };
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "*%d\r\n$4\r\nMSET\r\n", 2 * (N / 3) + 1);
    for (int i = 0; i < N; i += 3)
        writer_format(&w, "$6\r\nn-%04d\r\n$7\r\nvalue-%d\r\n", i, i % 7);
    redis_pair_send(&p, w.data, w.len);
    redis_pair_equal(&p, "MSET");
    static const char *const commands[] = {"$4\r\nMGET", "$6\r\nEXISTS"};
    for (size_t c = 0; c < 2; c++) {
        w.len = 0;
        writer_format(&w, "*%d\r\n%s\r\n", N + 1, commands[c]);
        for (int i = 0; i < N; i++)
            writer_format(&w, "$6\r\nn-%04d\r\n", i);
        redis_pair_send(&p, w.data, w.len);
        redis_pair_send(&p, "PING\r\n", 6);
        redis_pair_equal(&p, commands[c]);
        redis_pair_equal(&p, "PING after it");
    }
    cr_assert_not(w.failed);
    writer_close(&w);
}

Test(redis_get, values_of_all_sizes_in_one_command)
{
    static const size_t sizes[] = {0, 1, 4096, 4097, 65536, 65537, 300000};
    static char value[300000];
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (char)(i * 31 ^ i >> 9);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[8];
        snprintf(name, sizeof name, "v%zu", i);
        redis_pair_words(
            &p, 3,
            (const struct view[]){view_of_text("SET"), view_of_text(name), {value, sizes[i]}});
        redis_pair_equal(&p, name);
    }
    redis_pair_same(&p, "MGET v0 v1 v2 v3 v4 v5 v6 v0");
    redis_pair_same(&p, "GET v6");
}

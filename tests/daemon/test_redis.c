/* SPDX-License-Identifier: Apache-2.0 */
/* test_redis.c - the commands, and Redis' own clients: redis-cli, redis-benchmark, Python's redis. */
#include "tests/support/warmd.h"

Test(redis, commands_answer_as_redis_does)
{
    static const char *const talk[][2] = {
        {"SET a 1\r\n", "+OK\r\n"},
        {"SET a 2 NX\r\n", "$-1\r\n"},
        {"SET b 2 NX\r\n", "+OK\r\n"},
        {"SET c 3 XX\r\n", "$-1\r\n"},
        {"SET b 3 XX\r\n", "+OK\r\n"},
        {"GET b\r\n", "$1\r\n3\r\n"},
        {"FLUSHALL\r\n", "-ERR unknown command 'FLUSHALL'\r\n"},
        {"MSET e 5 f 6\r\n", "+OK\r\n"},
        {"MSET e 5 f\r\n", "-ERR wrong number of arguments for 'mset' command\r\n"},
        {"MGET e nope f\r\n", "*3\r\n$1\r\n5\r\n$-1\r\n$1\r\n6\r\n"},
        {"EXISTS a b nope a\r\n", ":3\r\n"},
        {"TTL nope\r\n", ":-2\r\n"},
        {"TTL a\r\n", ":-1\r\n"},
        {"SET t v EX 100\r\n", "+OK\r\n"},
        {"TTL t\r\n", ":100\r\n"},
        {"GET t\r\n", "$1\r\nv\r\n"},
        {"DEL a b nope\r\n", ":2\r\n"},
        {"GET a\r\n", "$-1\r\n"},
        {"ECHO hi\r\n", "$2\r\nhi\r\n"},
        {"PING hi\r\n", "$2\r\nhi\r\n"},
        {"SELECT 1\r\n", "+OK\r\n"},
        {"AUTH user pw\r\n", "+OK\r\n"},
        {"CLIENT SETINFO LIB-NAME x\r\n", "+OK\r\n"},
        {"CONFIG GET appendonly\r\n", "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n"},
        {"COMMAND DOCS\r\n", "*0\r\n"},
        {"HELLO 3\r\n", "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n"
                        "$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
                        "$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"},
        {"GET nope\r\n", "_\r\n"},
        {"DBSIZE\r\n", ":3\r\n"},
        {"QUIT\r\n", "+OK\r\n"},
    };
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    for (size_t i = 0; i < sizeof talk / sizeof *talk; i++)
        warmd_redis(fd, talk[i][0], talk[i][1]);
    cr_assert(warmd_is_closed(fd));
    close(fd);
    warmd_down(&k);
}

Test(redis, a_pipeline_is_answered_in_order_and_sees_what_it_set)
{
    enum { N = 500 };
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    struct writer ask, want;
    writer_init(&ask, 0);
    writer_init(&want, 0);
    for (int i = 0; i < N; i++) {
        writer_format(&ask, "SET k%d %d\r\nSET j%d %d\r\nGET k%d\r\nDEL j%d\r\n", i, i % 7, i, i, i,
                      i);
        writer_format(&want, "+OK\r\n+OK\r\n$1\r\n%d\r\n:1\r\n", i % 7);
    }
    char *got = malloc(want.len + 1);
    warmd_send(fd, ask.data, ask.len);
    cr_assert(warmd_recv(fd, got, want.len));
    cr_assert_eq(memcmp(got, want.data, want.len), 0);
    free(got);
    writer_close(&ask);
    writer_close(&want);
    close(fd);
    warmd_down(&k);
}

Test(redis, an_expired_value_is_gone)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_redis(fd, "SET t v PX 1\r\n", "+OK\r\n");
    for (int i = 0; i < 10000; i++) {
        char got[6] = "";
        warmd_send(fd, "GET t\r\n", 7);
        cr_assert(warmd_recv(fd, got, 5));
        if (memcmp(got, "$-1\r\n", 5) == 0)
            break;
        cr_assert(warmd_recv(fd, got, 2));
        cr_assert_lt(i, 9999);
    }
    close(fd);
    warmd_down(&k);
}

/* Sends SET name with a value of `len` bytes; cut in two at `cut`. */
static void set_large(int fd, const char *name, const char *value, size_t len)
{
    char head[128];
    snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(name), name,
             len);
    warmd_send(fd, head, strlen(head));
    warmd_send(fd, value, len);
    warmd_send(fd, "\r\n", 2);
    warmd_redis(fd, "", "+OK\r\n");
}

Test(redis, values_of_all_sizes_come_back_as_they_were)
{
    static const size_t sizes[] = {0,     1,     4095,   4096,   4097,    65535,   65536,
                                   65537, 65538, 262144, 262145, 5000000, 40000000};
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    size_t max = sizes[sizeof sizes / sizeof *sizes - 1];
    char *value = malloc(max), *got = malloc(max);
    for (size_t i = 0; i < max; i++)
        value[i] = (char)(i * 31 ^ i >> 11);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char head[32];
        set_large(fd, "large", value, sizes[i]);
        snprintf(head, sizeof head, "$%zu\r\n", sizes[i]);
        warmd_redis(fd, "GET large\r\n", head);
        cr_assert(warmd_recv(fd, got, sizes[i]));
        cr_assert_eq(memcmp(got, value, sizes[i]), 0, "%zu bytes", sizes[i]);
        warmd_redis(fd, "", "\r\n");
    }
    free(value);
    free(got);
    close(fd);
    warmd_down(&k);
}

Test(redis, several_long_values_in_one_command)
{
    enum { LEN = 100000 };
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    char *x = malloc(LEN + 1), *got = malloc(LEN);
    memset(x, 'x', LEN);
    x[LEN] = '\0';
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "*7\r\n$4\r\nMSET\r\n$1\r\na\r\n$%d\r\n", LEN);
    writer_bytes(&w, x, LEN);
    writer_format(&w, "\r\n$1\r\ns\r\n$5\r\nshort\r\n$1\r\nb\r\n$%d\r\n", LEN);
    writer_bytes(&w, x, LEN);
    writer_format(&w, "\r\nGET s\r\nGET b\r\n");
    for (size_t at = 0; at < w.len; at += 9973) /* in pieces that hit every place */
        warmd_send(fd, w.data + at, w.len - at < 9973 ? w.len - at : 9973);
    warmd_redis(fd, "", "+OK\r\n$5\r\nshort\r\n$100000\r\n");
    cr_assert(warmd_recv(fd, got, LEN));
    cr_assert_eq(memcmp(got, x, LEN), 0);
    free(x);
    free(got);
    writer_close(&w);
    close(fd);
    warmd_down(&k);
}

Test(redis, large_values_are_there_after_a_restart_for_every_command)
{
    enum { LEN = 3000000 };
    static const struct {
        const char *command, *head;
        bool has_second; /* the answer has another large value */
    } rows[] = {{"GET large\r\n", "$3000000\r\n", false},
                {"MGET large other\r\n", "*2\r\n$3000000\r\n", true}};
    struct warmd k = warmd_up(NULL);
    char *value = malloc(LEN), *got = malloc(LEN);
    memset(value, 'v', LEN);
    /* each in a daemon that has not seen the value yet */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = warmd_connect(&k);
        set_large(fd, "large", value, LEN);
        set_large(fd, "other", value, LEN);
        close(fd);
        kill(k.pid, SIGTERM);
        warmd_reap(k.pid);
        warmd_start(&k, NULL);
        fd = warmd_connect(&k);
        warmd_redis(fd, rows[i].command, rows[i].head);
        cr_assert(warmd_recv(fd, got, LEN));
        cr_assert_eq(memcmp(got, value, LEN), 0);
        if (rows[i].has_second) {
            warmd_redis(fd, "", "\r\n$3000000\r\n");
            cr_assert(warmd_recv(fd, got, LEN));
            cr_assert_eq(memcmp(got, value, LEN), 0);
        }
        warmd_redis(fd, "PING\r\n", "\r\n+PONG\r\n");
        close(fd);
    }
    free(value);
    free(got);
    warmd_down(&k);
}

Test(redis, set_never_fails_for_a_reason_of_ours)
{
    char *options[] = {"--max-size", "1M", NULL};
    struct warmd k = warmd_up(options);
    int fd = warmd_connect(&k);
    char *value = calloc(1, 5000000);
    set_large(fd, "more than the store may hold", value, 5000000);
    warmd_redis(fd, "PING\r\n", "+PONG\r\n");
    free(value);
    close(fd);
    warmd_down(&k);
}

/* False, with a line, if a program is not there. */
static bool have(const char *probe, const char *what)
{
    char *out;
    int code = run_command(&out, "%s 2>&1", probe);
    free(out);
    if (code != 0)
        fprintf(stderr, "skipped: %s is not installed: not tested with it\n", what);
    return code == 0;
}

Test(redis, redis_cli_works)
{
    if (!have("redis-cli --version", "redis-cli"))
        return;
    struct warmd k = warmd_up(NULL);
    char *out;
    cr_assert_eq(run_command(&out,
                             "redis-cli -s %s set a b; redis-cli -3 -s %s get a; "
                             "redis-cli -s %s --scan; redis-cli -s %s info server | head -2 | tail "
                             "-1; redis-cli -s %s config get save",
                             k.socket, k.socket, k.socket, k.socket, k.socket),
                 0);
    cr_assert_str_eq(out, "OK\nb\na\nredis_version:7.0.0\r\nsave\n\n");
    free(out);
    warmd_down(&k);
}

Test(redis, info_counts_the_names_that_dbsize_counts_and_the_connections)
{
    if (!have("redis-cli --version", "redis-cli"))
        return;
    struct warmd k = warmd_up(NULL);
    char *out;
    cr_assert_eq(
        run_command(&out,
                    "redis-cli -s %s mset a 1 b 2 c 3; redis-cli -s %s dbsize; redis-cli "
                    "-s %s info | tr -d '\\r' | grep -e ^db0 -e ^conn; timeout 2 redis-cli -s "
                    "%s --stat 2>&1",
                    k.socket, k.socket, k.socket, k.socket),
        124, "%s", out);
    cr_assert_not_null(strstr(out, "OK\n3\nconnected_clients:1\ndb0:keys=3\n"), "%s", out);
    cr_assert_null(strstr(out, "-9223372036854775808"), "%s", out);
    free(out);
    warmd_down(&k);
}

/* INFO counts names in several turns, and a long argument's file is gone in the second. */
Test(redis, info_with_a_long_argument_is_answered)
{
    enum { NAMES = 1100, LEN = 70000 };
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    char *x = calloc(1, LEN + 1);
    memset(x, 'x', LEN);
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "*%d\r\n$4\r\nMSET\r\n", 2 * NAMES + 1);
    for (int i = 0; i < NAMES; i++)
        writer_format(&w, "$4\r\n%04d\r\n$1\r\nv\r\n", i);
    warmd_flush(fd, &w);
    warmd_redis(fd, "", "+OK\r\n");
    writer_format(&w, "*2\r\n$4\r\nINFO\r\n$%d\r\n%s\r\n", LEN, x);
    warmd_flush(fd, &w);
    warmd_redis(fd, "", "-ERR a name is too long\r\n");
    warmd_redis(fd, "DBSIZE\r\n", ":1100\r\n");
    free(x);
    close(fd);
    warmd_down(&k);
}

Test(redis, redis_benchmark_works)
{
    if (!have("redis-benchmark --version", "redis-benchmark"))
        return;
    struct warmd k = warmd_up(NULL);
    char *out;
    cr_assert_eq(run_command(&out,
                             "redis-benchmark -s %s -t ping,set,get,mset -n 2000 -c 20 -P 8 -d "
                             "1000 --csv 2>&1",
                             k.socket),
                 0, "%s", out);
    cr_assert_not_null(strstr(out, "\"GET\""), "%s", out);
    cr_assert_null(strstr(out, "rror"), "%s", out);
    free(out);
    warmd_down(&k);
}

Test(redis, pythons_client_works_over_unix)
{
    if (!have("/usr/bin/python3 -c 'import redis'", "Python's redis"))
        return;
    struct warmd k = warmd_up(NULL);
    char *script = path_join(k.dir, "client.py");
    static const char text[] =
        "import redis, sys\n"
        "knows_3 = int(redis.__version__.split('.')[0]) >= 5\n"
        "for query in ('?protocol=2', '?protocol=3') if knows_3 else ('',):\n"
        "    r = redis.Redis.from_url('unix://' + sys.argv[1] + query)\n"
        "    assert r.get('missing') is None\n"
        "    big = bytes(range(256)) * 2000\n"
        "    assert r.set('pt2:fx-graph-v1::fabc:c1', big)\n"
        "    assert r.get('pt2:fx-graph-v1::fabc:c1') == big\n"
        "    assert r.mget(['missing', 'pt2:fx-graph-v1::fabc:c1']) == [None, big]\n"
        "    p = r.pipeline(transaction=False)\n"
        "    for i in range(100): p.set('k%d' % i, i)\n"
        "    for i in range(100): p.get('k%d' % i)\n"
        "    assert p.execute()[100:] == [b'%d' % i for i in range(100)]\n"
        "    assert len(list(r.scan_iter())) == 101\n"
        "    assert r.delete('k1') == 1 and r.set('k1', 1, nx=True) and not r.set('k1', 1, "
        "nx=True)\n";
    file_write(script, text, sizeof text - 1);
    char *out;
    cr_assert_eq(run_command(&out, "/usr/bin/python3 %s %s 2>&1", script, k.socket), 0, "%s", out);
    free(out);
    free(script);
    warmd_down(&k);
}

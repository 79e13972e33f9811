/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_redis_nodes.c - slots of keys, and which server has a slot: by MOVED, and by a map that servers of the
 * test's own give. test_tier_redis_cluster.c has a real cluster.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "tier/backends/redis_nodes.h"

#define SLOTS 16384u
#define TICK_MS 5u
#define TICKS_MAX 12000 /* a minute, for anything that must happen */

static uv_loop_t loop;
static struct redis_nodes *nodes;

static void on_closed(void *user) { *(bool *)user = true; }

static void up(void) { cr_assert_eq(uv_loop_init(&loop), 0); }

static void close_nodes(void)
{
    bool closed = false;
    if (nodes)
        redis_nodes_close(nodes, on_closed, &closed);
    nodes = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void down(void)
{
    close_nodes();
    cr_assert_eq(uv_loop_close(&loop), 0, "a handle was left open");
}
TestSuite(redis_nodes, .init = up, .fini = down, .timeout = 120);

static void make_nodes(const char *text, bool is_cluster)
{
    struct redis_link_settings settings = {
        .loop = &loop, .credentials = "", .user = "", .database = ""};
    struct tier_url url;
    char why[200];
    cr_assert(tier_url_parse(text, &url, why, sizeof why), "%s", why);
    nodes = redis_nodes_new(&settings, &url, is_cluster);
}

static bool is_at(unsigned slot, const char *host, uint16_t port)
{
    return redis_link_is_to(redis_nodes_find(nodes, slot, false), host, port);
}

static struct redis_link *follow(const char *text)
{
    struct resp_item error = {.type = RESP_ERROR, .data = text, .len = strlen(text)};
    return redis_nodes_follow(nodes, &error, false);
}

/* ---- slots ---- */

/* The values and the rules of the braces are those of the specification of Redis Cluster. */
Test(redis_nodes, a_slot_is_that_of_the_part_in_braces)
{
    cr_expect_eq(redis_nodes_slot("123456789"), 0x31C3);
    cr_expect_eq(redis_nodes_slot("foo"), 12182);
    cr_expect_eq(redis_nodes_slot(""), 0);
    cr_expect_eq(redis_nodes_slot("{user1000}.following"), redis_nodes_slot("user1000"));
    cr_expect_eq(redis_nodes_slot("foo{{bar}}zap"), redis_nodes_slot("{bar"));
    cr_expect_eq(redis_nodes_slot("foo{bar}{zap}"), redis_nodes_slot("bar"));
    cr_expect_eq(redis_nodes_slot("foo}{bar}"), redis_nodes_slot("bar"));
    cr_expect_eq(redis_nodes_slot("foo{}{bar}"), 8363, "empty: the whole key");
    cr_expect_eq(redis_nodes_slot("foo{bar"), 15278, "not closed: the whole key");
    for (int i = 0; i < 1000; i++) {
        char key[32];
        snprintf(key, sizeof key, "key:%d", i * 7919);
        cr_assert_lt(redis_nodes_slot(key), SLOTS);
    }
}

/* ---- one server ---- */

Test(redis_nodes, one_server_has_all_slots_and_follows_nobody)
{
    make_nodes("redis://h", false);
    cr_expect(is_at(0, "h", 6379) && is_at(SLOTS - 1, "h", 6379));
    struct redis_link *small = redis_nodes_find(nodes, 5, false);
    cr_expect_eq(redis_nodes_find(nodes, 6, false), small);
    cr_expect_neq(redis_nodes_find(nodes, 5, true), small, "large values have their own");
    cr_expect_null(follow("MOVED 5 other:7000"));
    cr_expect(is_at(5, "h", 6379));
}

/* ---- MOVED and ASK ---- */

Test(redis_nodes, moved_is_for_all_later_requests_and_ask_for_one)
{
    make_nodes("redis-cluster://seed:7000", true);
    cr_expect(is_at(5, "seed", 7000));
    struct redis_link *other = follow("ASK 5 other:7001");
    cr_expect(other && redis_link_is_to(other, "other", 7001));
    cr_expect(is_at(5, "seed", 7000), "ASK");
    cr_expect_eq(follow("MOVED 5 other:7001"), other, "the same server");
    cr_expect(is_at(5, "other", 7001) && is_at(4, "seed", 7000) && is_at(6, "seed", 7000));
    follow("MOVED 5 ::1:7002"); /* an IPv6 address has colons of its own */
    cr_expect(is_at(5, "::1", 7002));
    follow("MOVED 16383 last:65535");
    cr_expect(is_at(SLOTS - 1, "last", 65535));
}

Test(redis_nodes, without_a_name_it_is_the_server_that_answered)
{
    make_nodes("redis-cluster://seed:7000", true);
    follow("MOVED 5 :7003");
    cr_expect(is_at(5, "seed", 7003));
    follow("MOVED 5 other:7001");
    follow("MOVED 5 :7004");
    cr_expect(is_at(5, "other", 7004));
}

Test(redis_nodes, an_error_that_names_no_server_is_not_followed)
{
    static const char *const errors[] = {
        "MOVED",       "MOVED 5",      "MOVED 5 ",        "MOVED 5 host",
        "MOVED 5 h:",  "MOVED 5 h:0",  "MOVED 5 h:65536", "MOVED 5 h:port",
        "MOVED x h:1", "MOVED -1 h:1", "MOVED 16384 h:1", "MOVED 99999999999 h:1",
        "MOVED:1",     "MOVED 5:1",    "MOVED 5:1 host",  "ASK 16384 h:1"};
    make_nodes("redis-cluster://seed:7000", true);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        cr_expect_null(follow(errors[i]), "%s", errors[i]);
    for (unsigned slot = 0; slot < SLOTS; slot += 1)
        cr_assert(is_at(slot, "seed", 7000), "%u", slot);
}

Test(redis_nodes, a_name_of_any_length_stays_in_its_room)
{
    char text[600], name[400];
    make_nodes("redis-cluster://seed:7000", true);
    memset(name, 'h', sizeof name);
    name[255] = '\0';
    snprintf(text, sizeof text, "MOVED 5 %s:7001", name);
    cr_expect(follow(text) && is_at(5, name, 7001), "the longest");
    name[255] = 'h', name[399] = '\0';
    snprintf(text, sizeof text, "MOVED 6 %s:7001", name);
    cr_expect_null(follow(text));
    cr_expect(is_at(6, "seed", 7000));
}

Test(redis_nodes, more_servers_than_there_is_room_for_are_not_followed)
{
    char text[64];
    make_nodes("redis-cluster://seed:7000", true);
    for (unsigned i = 1; i < 128; i++) {
        snprintf(text, sizeof text, "MOVED %u h:%u", i, 8000 + i);
        cr_assert_not_null(follow(text), "%u", i);
    }
    cr_expect_null(follow("MOVED 500 h:9000"));
    cr_expect(is_at(500, "seed", 7000));
    cr_expect(follow("MOVED 500 h:8127") && is_at(500, "h", 8127), "one that is known");
    cr_expect(is_at(127, "h", 8127) && is_at(1, "h", 8001));
}

/* ---- the map ---- */

/* A server on loopback that answers each command with the same bytes. */
struct server {
    uv_tcp_t listener, peer;
    int port;
    const char *reply;
    unsigned n_asked;
    char seen[64];
    bool has_peer;
};

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *out)
{
    static char bytes[4096];
    (void)handle, (void)size;
    *out = uv_buf_init(bytes, sizeof bytes);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *in)
{
    struct server *s = stream->data;
    if (n <= 0)
        return;
    snprintf(s->seen, sizeof s->seen, "%.*s", (int)n, in->base);
    s->n_asked++;
    uv_buf_t out = uv_buf_init((char *)(uintptr_t)s->reply, (unsigned)strlen(s->reply));
    cr_assert_eq(uv_try_write(stream, &out, 1), (int)out.len);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct server *s = listener->data;
    cr_assert(status == 0 && !s->has_peer);
    s->has_peer = true;
    uv_tcp_init(&loop, &s->peer);
    s->peer.data = s;
    cr_assert_eq(uv_accept(listener, (uv_stream_t *)&s->peer), 0);
    uv_read_start((uv_stream_t *)&s->peer, on_alloc, on_read);
}

static void serve(struct server *s, const char *reply)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int len = sizeof a;
    *s = (struct server){.reply = reply};
    uv_tcp_init(&loop, &s->listener);
    s->listener.data = s;
    cr_assert_eq(uv_tcp_bind(&s->listener, (struct sockaddr *)&a, 0), 0);
    cr_assert_eq(uv_listen((uv_stream_t *)&s->listener, 8, on_connection), 0);
    cr_assert_eq(uv_tcp_getsockname(&s->listener, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
}

static void stop(struct server *s)
{
    uv_close((uv_handle_t *)&s->listener, NULL);
    if (s->has_peer)
        uv_close((uv_handle_t *)&s->peer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void on_tick(uv_timer_t *timer) { ++*(int *)timer->data; }

/* Runs the loop until server `s` was asked n times and slot 5 is at that host; NULL: at any. */
static void run_until(const struct server *s, unsigned n, const char *host, uint16_t port)
{
    uv_timer_t timer;
    int ticks = 0;
    uv_timer_init(&loop, &timer);
    timer.data = &ticks;
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    while (ticks < TICKS_MAX && (s->n_asked < n || (host && !is_at(5, host, port))))
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_lt(ticks, TICKS_MAX, "nothing happened");
}

static void make_cluster(const struct server *a, const struct server *b)
{
    char url[120];
    snprintf(url, sizeof url,
             b ? "redis-cluster://127.0.0.1:%d,127.0.0.1:%d" : "redis-cluster://127.0.0.1:%d",
             a->port, b ? b->port : 0);
    make_nodes(url, true);
    redis_nodes_find(nodes, 5, false); /* the first look asks for the map */
}

#define RANGE(first, last, host, port)                                                             \
    "*3\r\n:" first "\r\n:" last "\r\n*3\r\n" host ":" port "\r\n$2\r\nid\r\n"
#define NAME_A "$1\r\na\r\n"
#define NAME_B "$1\r\nb\r\n"

Test(redis_nodes, the_map_names_the_master_of_each_range)
{
    struct server s;
    serve(&s, "*3\r\n" RANGE("0", "5", NAME_A,
                             "7001") "*4\r\n:6\r\n:16382\r\n*4\r\n$1\r\nb\r\n:7002\r\n$2\r\nid\r\n*"
                                     "2\r\n+ip\r\n+1\r\n"
                                     "*3\r\n$1\r\nr\r\n:7009\r\n$2\r\nid\r\n" /* a replica */
          RANGE("16383", "16383", "$0\r\n\r\n", "7003"));
    make_cluster(&s, NULL);
    run_until(&s, 1, "a", 7001);
    cr_expect_not_null(strstr(s.seen, "CLUSTER"), "%s", s.seen);
    cr_expect(is_at(0, "a", 7001) && is_at(5, "a", 7001));
    cr_expect(is_at(6, "b", 7002) && is_at(16382, "b", 7002), "and not its replica");
    cr_expect(is_at(16383, "127.0.0.1", 7003), "no name: the server that was asked");
    stop(&s);
}

Test(redis_nodes, after_a_doubt_the_map_is_asked_for_again)
{
    struct server s;
    serve(&s, "*1\r\n" RANGE("0", "16383", NAME_A, "7001"));
    make_cluster(&s, NULL);
    run_until(&s, 1, "a", 7001);
    s.reply = "*1\r\n" RANGE("0", "9", NAME_B, "7002");
    /* "a" cannot be reached: the seed is asked next */
    redis_nodes_doubt(nodes);
    redis_nodes_doubt(nodes);
    run_until(&s, 2, "b", 7002);
    cr_expect(is_at(9, "b", 7002) && is_at(10, "a", 7001), "the rest is as it was");
    follow("MOVED 10 b:7002");
    cr_expect(is_at(10, "b", 7002));
    run_until(&s, 3, NULL, 0);
    stop(&s);
}

/* A part of such a map may have been taken: MOVED would mend it. It is asked for at the other server. */
Test(redis_nodes, a_map_that_is_rubbish_is_asked_of_the_next_server)
{
    static const char *const maps[] = {
        "-ERR This instance has cluster support disabled\r\n",
        "*0\r\n",
        "+OK\r\n",
        "*1\r\n+OK\r\n",
        "*1\r\n*2\r\n:0\r\n:16383\r\n",
        "*1\r\n" RANGE("-1", "16383", NAME_A, "7001"),
        "*1\r\n" RANGE("0", "16384", NAME_A, "7001"),
        "*1\r\n" RANGE("0", "16383", NAME_A, "0"),
        "*1\r\n" RANGE("0", "16383", NAME_A, "65536"),
        "*1\r\n*3\r\n+0\r\n:16383\r\n*2\r\n$1\r\na\r\n:7001\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*1\r\n$1\r\na\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n+7001\r\n",
    };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        struct server bad, good;
        serve(&bad, maps[i]);
        serve(&good, "*1\r\n" RANGE("0", "16383", NAME_B, "7002"));
        make_cluster(&bad, &good);
        run_until(&bad, 1, NULL, 0);
        cr_expect_not(is_at(5, "a", 7001), "%zu", i);
        run_until(&good, 1, "b", 7002);
        cr_expect(is_at(0, "b", 7002) && is_at(SLOTS - 1, "b", 7002), "%zu", i);
        stop(&bad), stop(&good);
        close_nodes();
    }
}

Test(redis_nodes, a_name_in_the_map_fits_its_room)
{
    char map[600], name[300];
    for (unsigned len = 255; len <= 256; len++) {
        struct server bad, good;
        memset(name, 'h', sizeof name);
        name[len] = '\0';
        snprintf(map, sizeof map, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%u\r\n%s\r\n:7001\r\n", len,
                 name);
        serve(&bad, map);
        serve(&good, "*1\r\n" RANGE("0", "16383", NAME_B, "7002"));
        make_cluster(&bad, &good);
        if (len == 255)
            run_until(&bad, 1, name, 7001);
        else
            run_until(&good, 1, "b", 7002);
        stop(&bad), stop(&good);
        close_nodes();
    }
}

Test(redis_nodes, a_server_without_a_map_that_cannot_be_reached_is_passed_over)
{
    struct server gone, good;
    serve(&gone, "");
    stop(&gone);
    serve(&good, "*1\r\n" RANGE("0", "16383", NAME_B, "7002"));
    make_cluster(&gone, &good);
    run_until(&good, 1, "b", 7002);
    stop(&good);
}

Test(redis_nodes, closing_while_the_map_is_on_its_way_ends_all)
{
    struct server s;
    bool closed = false;
    serve(&s, "*1\r\n");
    make_cluster(&s, NULL);
    run_until(&s, 1, NULL, 0);
    redis_nodes_close(nodes, on_closed, &closed);
    nodes = NULL;
    stop(&s);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_expect(closed);
}

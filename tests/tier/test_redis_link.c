/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_redis_link.c - which reply belongs to which command, and what ends a connection: with a real redis-server, and
 * with a server of the test's own for what no redis-server sends.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/redis_server.h"
#include "tests/support/scripted.h"
#include "tests/support/support.h"
#include "tier/backends/redis_link.h"

static uv_loop_t loop;
static struct redis_link *link_;
static struct redis_server redis;
static struct engine script;
static char *dir;

static void up(void)
{
    dir = temp_dir_new();
    cr_assert_eq(uv_loop_init(&loop), 0);
}

static void on_closed(void *user) { *(bool *)user = true; }

static void close_link(void)
{
    bool closed = false;
    if (link_)
        redis_link_close(link_, on_closed, &closed);
    link_ = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void down(void)
{
    close_link();
    cr_assert_eq(uv_loop_close(&loop), 0, "a handle was left open");
    if (redis.pid)
        redis_server_stop(&redis);
    if (script.pid)
        engine_stop(&script);
    temp_dir_free(dir);
}
TestSuite(redis_link, .init = up, .fini = down, .timeout = 120);

/* A command and all that was told about it. */
struct told {
    struct redis_command command; /* first */
    unsigned n_replies, n_ends;
    enum tier_outcome outcome;
    char why[TIER_SAID_MAX], last[200]; /* the last reply's bytes, or its number */
    enum resp_type type;
};

static unsigned n_ended;

static void on_reply(struct redis_command *command, const struct resp_reply *reply)
{
    struct told *t = (struct told *)command;
    cr_assert_eq(t->n_ends, 0);
    t->n_replies++;
    t->type = reply->item.type;
    if (t->type == RESP_NUMBER)
        snprintf(t->last, sizeof t->last, "%lld", (long long)reply->item.number);
    else if (t->type != RESP_NIL && t->type != RESP_ARRAY)
        snprintf(t->last, sizeof t->last, "%.*s", (int)reply->item.len, reply->item.data);
}

static void on_end(struct redis_command *command, enum tier_outcome outcome, const char *why)
{
    struct told *t = (struct told *)command;
    t->outcome = outcome;
    snprintf(t->why, sizeof t->why, "%s", why);
    t->n_ends++;
    n_ended++;
}

static void make_link(int port, const char *credentials, const char *database)
{
    struct redis_link_settings settings = {
        .loop = &loop, .credentials = credentials, .user = "", .database = database};
    link_ = redis_link_new(&settings, "127.0.0.1", (uint16_t)port);
}

static void start_script(const struct scripted_answer *answers, size_t n)
{
    scripted_start(&script, answers, n);
    make_link(script.port, "", "");
}

/* Adds a command of up to three words to `t`, which zeros begin. */
static void add(struct told *t, const char *a, const char *b, const char *c)
{
    struct redis_arg args[3] = {redis_text(a)};
    size_t n = 1;
    if (b)
        args[n++] = redis_text(b);
    if (c)
        args[n++] = redis_text(c);
    redis_command_add(&t->command, args, n);
    t->command.on_reply = on_reply;
    t->command.on_end = on_end;
}

static void send_words(struct told *t, const char *a, const char *b, const char *c)
{
    *t = (struct told){0};
    add(t, a, b, c);
    redis_link_send(link_, &t->command);
    cr_assert_eq(t->n_ends, 0, "not from within");
}

static void until_ended(unsigned n)
{
    while (n_ended < n) {
        bool more = uv_run(&loop, UV_RUN_ONCE) != 0;
        cr_assert(more || n_ended >= n, "nothing goes on");
    }
    cr_assert_eq(n_ended, n);
    n_ended = 0;
}

/* Sends one command, and expects this end. */
static void expect_end(const char *word, enum tier_outcome outcome, const char *why)
{
    struct told t;
    send_words(&t, word, NULL, NULL);
    until_ended(1);
    cr_assert_eq(t.outcome, outcome, "%d: %s", t.outcome, t.why);
    cr_assert(strstr(t.why, why), "%s", t.why);
    cr_assert_eq(t.n_ends, 1);
    cr_assert_eq(redis_link_pending(link_), 0);
}

/* ---- a real server ---- */

Test(redis_link, each_command_gets_its_own_replies_in_order)
{
    enum { N = 300 };
    static struct told told[N];
    char word[24];
    redis_server_start(&redis, "--maxclients", "100");
    make_link(redis.port, "", "");
    for (int i = 0; i < N; i++) {
        told[i] = (struct told){0};
        snprintf(word, sizeof word, "word-%d", i);
        add(&told[i], "ECHO", word, NULL);
        if (i % 3 == 0)
            add(&told[i], "INCR", "n", NULL);
        redis_link_send(link_, &told[i].command);
    }
    cr_assert_gt(redis_link_pending(link_), N * 20u);
    until_ended(N);
    for (int i = 0; i < N; i++) {
        snprintf(word, sizeof word, i % 3 ? "word-%d" : "%d", i % 3 ? i : i / 3 + 1);
        cr_assert_eq(told[i].outcome, TIER_OK);
        cr_assert_eq(told[i].n_replies, i % 3 ? 1 : 2);
        cr_assert_str_eq(told[i].last, word);
        cr_assert_eq(told[i].n_ends, 1);
    }
    cr_assert_eq(redis_link_pending(link_), 0);
    struct told error, nil;
    send_words(&error, "NOSUCHCOMMAND", NULL, NULL);
    send_words(&nil, "GET", "nothing", NULL);
    until_ended(2);
    cr_assert(error.outcome == TIER_OK && error.type == RESP_ERROR, "an error is a reply");
    cr_assert(nil.outcome == TIER_OK && nil.type == RESP_NIL);
}

Test(redis_link, a_long_value_goes_out_and_comes_back)
{
    size_t len = 5 << 20;
    char *value = malloc(len + 1);
    struct told set, get;
    for (size_t i = 0; i < len; i++)
        value[i] = (char)('a' + i * 7 % 26);
    value[len] = '\0';
    redis_server_start(&redis, "--maxclients", "100");
    make_link(redis.port, "", "");
    send_words(&set, "SET", "long", value);
    send_words(&get, "GETRANGE", "long", "5242870");
    until_ended(2);
    cr_assert(get.type == RESP_ERROR, "too few words");
    send_words(&get, "STRLEN", "long", NULL);
    until_ended(1);
    cr_assert_str_eq(get.last, "5242880");
    send_words(&get, "GET", "long", NULL);
    until_ended(1);
    cr_assert(get.type == RESP_BULK && memcmp(get.last, value, 199) == 0);
    free(value);
}

Test(redis_link, a_password_and_a_database_come_before_all_commands)
{
    struct told get;
    char *file = path_join(dir, "credentials");
    redis_server_start(&redis, "--requirepass", "hunter2");
    make_link(redis.port, "", "");
    send_words(&get, "GET", "a", NULL);
    until_ended(1);
    cr_assert(get.type == RESP_ERROR && strncmp(get.last, "NOAUTH", 6) == 0, "%s", get.last);
    close_link();
    file_write(file, "password = wrong\n", 17);
    cr_assert_eq(chmod(file, 0600), 0);
    make_link(redis.port, file, "");
    expect_end("PING", TIER_DENIED, "WRONGPASS");
    close_link();
    file_write(file, "password = hunter2\n", 19);
    make_link(redis.port, file, "99");
    expect_end("PING", TIER_MISSET, "the server says ERR");
    close_link();
    make_link(redis.port, file, "3");
    expect_end("PING", TIER_OK, "");
    struct told list;
    send_words(&list, "CLIENT", "INFO", NULL);
    until_ended(1);
    cr_assert(strstr(list.last, "addr="), "%s", list.last);
    free(file);
}

Test(redis_link, after_a_failure_commands_fail_at_once_until_the_next_try)
{
    struct told t[3];
    redis_server_start(&redis, "--maxclients", "100");
    make_link(redis.port, "", "");
    expect_end("PING", TIER_OK, "");
    cr_assert_not(redis_link_is_off(link_));
    redis_server_stop(&redis);
    until_ended(0);
    uv_run(&loop, UV_RUN_NOWAIT);
    for (int i = 0; i < 6000 && !redis_link_is_off(link_); i++, usleep(5000))
        uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert(redis_link_is_off(link_));
    uint64_t began = uv_hrtime();
    for (int i = 0; i < 3; i++)
        send_words(&t[i], "PING", NULL, NULL);
    until_ended(3);
    for (int i = 0; i < 3; i++)
        cr_assert(t[i].outcome == TIER_FAILED && strstr(t[i].why, "closed the connection"), "%s",
                  t[i].why);
    cr_assert_lt((uv_hrtime() - began) / 1000000, 90u);
    redis_server_restart(&redis);
    do {
        usleep(20000);
        send_words(&t[0], "PING", NULL, NULL);
        until_ended(1);
        cr_assert_lt((uv_hrtime() - began) / 1000000000, 30u, "%s", t[0].why);
    } while (t[0].outcome != TIER_OK);
    cr_assert_str_eq(t[0].last, "PONG");
}

/* ---- a server that sends what no redis-server sends ---- */

Test(redis_link, replies_in_pieces_are_whole_with_their_last_byte)
{
    static const struct scripted_answer answers[] = {
        {.await = "LAST", .bytes = "+OK\r\n$5\r\na\r\nbc\r\n:-7\r\n$-1\r\n", .in_pieces = true}};
    struct told t[4];
    start_script(answers, 1);
    for (int i = 0; i < 4; i++)
        send_words(&t[i], i < 3 ? "PING" : "LAST", NULL, NULL);
    until_ended(4);
    cr_assert_str_eq(t[0].last, "OK");
    cr_assert_str_eq(t[1].last, "a\r\nbc");
    cr_assert_str_eq(t[2].last, "-7");
    cr_assert_eq(t[3].type, RESP_NIL);
}

Test(redis_link, rubbish_ends_the_connection_and_all_its_commands)
{
    static const char *const rubbish[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                          "$99999999\r\n",
                                          "$x\r\n",
                                          "?\r\n",
                                          ":1x\r\n",
                                          "*-5\r\n",
                                          "$3\r\nabcde\r\n"};
    enum { N = sizeof rubbish / sizeof *rubbish };
    for (size_t i = 0; i < N; i++) {
        const struct scripted_answer answers[] = {{.await = "SECOND", .bytes = "+OK\r\n"},
                                                  {.bytes = rubbish[i]}};
        struct told t[3];
        start_script(answers, 2);
        send_words(&t[0], "FIRST", NULL, NULL);
        send_words(&t[1], "SECOND", NULL, NULL);
        send_words(&t[2], "THIRD", NULL, NULL);
        until_ended(3);
        cr_assert_eq(t[0].outcome, TIER_OK, "%s: it came before", rubbish[i]);
        for (int k = 1; k < 3; k++) {
            cr_assert_eq(t[k].outcome, TIER_FAILED, "%s", rubbish[i]);
            cr_assert_str_eq(t[k].why, "the server sent rubbish", "%s: %s", rubbish[i], t[k].why);
            cr_assert_eq(t[k].n_replies, 0);
        }
        cr_assert_eq(redis_link_pending(link_), 0);
        close_link();
        engine_stop(&script);
    }
}

Test(redis_link, a_reply_that_nobody_asked_for_ends_the_connection)
{
    static const struct scripted_answer answers[] = {{.await = "PING", .bytes = "+OK\r\n+OK\r\n"}};
    struct told t;
    start_script(answers, 1);
    expect_end("PING", TIER_OK, "");
    for (int i = 0; i < 6000 && !redis_link_is_off(link_); i++, usleep(5000))
        uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert(redis_link_is_off(link_));
    send_words(&t, "PING", NULL, NULL);
    until_ended(1);
    cr_assert_str_eq(t.why, "the server sent a reply to no command");
}

Test(redis_link, a_connection_that_ends_within_a_reply_is_a_failure)
{
    static const struct scripted_answer answers[] = {
        {.await = "GET", .bytes = "$10\r\nhalf", .then_closes = true}};
    start_script(answers, 1);
    expect_end("GET", TIER_FAILED, "closed the connection");
}

Test(redis_link, a_silent_server_is_left_after_its_time)
{
    static const struct scripted_answer answers[] = {{.await = "PING", .bytes = "+PO"}};
    uint64_t began = uv_hrtime();
    start_script(answers, 1);
    expect_end("PING", TIER_FAILED, "the server is silent");
    uint64_t ms = (uv_hrtime() - began) / 1000000;
    cr_assert(ms >= 4900 && ms < 20000, "%d ms", (int)ms);
}

Test(redis_link, a_command_that_nobody_waits_for_is_not_sent)
{
    static const struct scripted_answer answers[] = {{.await = "LAST", .bytes = "+last\r\n"}};
    struct told t[2];
    start_script(answers, 1);
    send_words(&t[0], "FIRST", NULL, NULL);
    send_words(&t[1], "LAST", NULL, NULL);
    t[0].command.unwanted = true; /* before it is connected */
    until_ended(2);
    cr_assert_eq(t[0].outcome, TIER_FAILED);
    cr_assert_str_eq(t[0].why, "nobody waits");
    cr_assert_eq(t[1].outcome, TIER_OK);
    cr_assert_str_eq(t[1].last, "last", "the first reply is its own");
}

Test(redis_link, closing_ends_each_command_once)
{
    static const struct scripted_answer answers[] = {{.await = "NEVER"}};
    struct told t[3];
    start_script(answers, 1);
    for (int i = 0; i < 3; i++)
        send_words(&t[i], "PING", NULL, NULL);
    for (int i = 0; i < 20; i++, usleep(1000))
        uv_run(&loop, UV_RUN_NOWAIT);
    close_link();
    for (int i = 0; i < 3; i++)
        cr_assert(t[i].n_ends == 1 && t[i].outcome == TIER_FAILED &&
                  strcmp(t[i].why, "closed") == 0);
}

/* ---- errors ---- */

Test(redis_link, an_error_is_classified_by_its_first_word_alone)
{
    static const struct {
        const char *text;
        enum tier_outcome outcome;
        const char *said;
    } rows[] = {{"NOAUTH Authentication required.", TIER_DENIED, "the server says NOAUTH"},
                {"WRONGPASS invalid", TIER_DENIED, "the server says WRONGPASS"},
                {"NOPERM this user", TIER_DENIED, "the server says NOPERM"},
                {"OOM command not allowed", TIER_LATER, "the server says OOM"},
                {"LOADING", TIER_LATER, "the server says LOADING"},
                {"CLUSTERDOWN Hash slot", TIER_MISSET, "part of a cluster"},
                {"READONLY You can't", TIER_MISSET, "the server says READONLY"},
                {"MOVED 5 h:1", TIER_MISSET, "part of a cluster"},
                {"ASK 5 h:1", TIER_MISSET, "part of a cluster"},
                {"OOMX", TIER_FAILED, "the server says OOMX"},
                {"ERR unknown command 's3cret'", TIER_FAILED, "the server says ERR"},
                {"", TIER_FAILED, "the server says "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct resp_item e = {
            .type = RESP_ERROR, .data = rows[i].text, .len = strlen(rows[i].text)};
        char said[TIER_SAID_MAX];
        cr_expect_eq(redis_error(&e, said), rows[i].outcome, "%s", rows[i].text);
        cr_expect(strstr(said, rows[i].said), "%s: %s", rows[i].text, said);
        cr_expect_null(strstr(said, "s3cret"), "%s", said);
    }
    struct resp_item text = {.type = RESP_TEXT, .data = "OOM x", .len = 5};
    cr_expect_not(redis_error_is(&text, "OOM"), "no error");
}

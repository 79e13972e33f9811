/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer.c - one HTTP request and its answer, with a server of the test's own: what becomes an object, what is a
 * text, and what is no answer.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/scripted.h"
#include "tier/backends/transfer.h"

#define GET_END "\r\n\r\n"

static uv_loop_t loop;
static struct transfer_pool *pool;
static struct engine server;
static struct transfer t;
static unsigned n_done;

static void make_pool(uint64_t min_rate)
{
    char why[200] = "";
    pool = transfer_pool_new(&loop, &(struct transfer_settings){.min_rate = min_rate}, why,
                             sizeof why);
    cr_assert(pool, "%s", why);
}

static void up(void)
{
    cr_assert_eq(uv_loop_init(&loop), 0);
    make_pool(0);
}

static void on_closed(void *user) { *(bool *)user = true; }

static void close_pool(void)
{
    bool closed = false;
    transfer_pool_close(pool, on_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert(closed);
}

static void down(void)
{
    close_pool();
    cr_assert_eq(uv_loop_close(&loop), 0, "a handle was left open");
    if (server.pid)
        engine_stop(&server);
}
TestSuite(transfer, .init = up, .fini = down, .timeout = 120);

static void on_done(struct transfer *transfer)
{
    cr_assert_eq(transfer, &t);
    n_done++;
}

/* Begins a transfer of `t`, whose request is filled in. */
static void start(enum transfer_method method)
{
    t.method = method;
    snprintf(t.url, sizeof t.url, "http://127.0.0.1:%d/object", server.port);
    t.avoids_proxy = true;
    t.done = on_done;
    n_done = 0;
    if (!t.timeout_ms)
        t.timeout_ms = 20000;
    transfer_start(pool, &t);
    cr_assert_eq(n_done, 0, "not from within");
}

static void until_done(void)
{
    while (!n_done) {
        bool more = uv_run(&loop, UV_RUN_ONCE) != 0;
        cr_assert(more || n_done, "nothing goes on");
    }
    cr_assert_eq(n_done, 1);
}

static void get(uint64_t limit)
{
    t = (struct transfer){.fd = -1, .wants_file = true, .limit = limit};
    start(TRANSFER_GET);
    until_done();
}

static void expect_object(const char *text)
{
    char out[64] = "";
    cr_assert(t.outcome == TIER_OK && t.result_fd >= 0, "%d: %s", t.outcome, t.said);
    cr_assert_eq(t.result_length, strlen(text));
    cr_assert_eq(pread(t.result_fd, out, 63, 0), (ssize_t)strlen(text));
    cr_assert_str_eq(out, text);
    close(t.result_fd);
}

#define SERVE(...)                                                                                 \
    do {                                                                                           \
        const struct scripted_answer answers_[] = {__VA_ARGS__};                                   \
        if (server.pid)                                                                            \
            engine_stop(&server);                                                                  \
        scripted_start(&server, answers_, sizeof answers_ / sizeof *answers_);                     \
    } while (0)

/* ---- answers ---- */

Test(transfer, an_object_is_the_body_of_a_200_however_it_comes)
{
    static const char *const bodies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nvalue",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nva\r\n3\r\nlue\r\n0\r\n\r\n"};
    for (int i = 0; i < 4; i++) {
        SERVE({.await = GET_END, .bytes = bodies[i % 2], .in_pieces = i >= 2});
        get(5);
        expect_object("value");
        cr_assert_eq(t.status, 200);
        cr_assert_eq(t.has_length, i % 2 == 0);
        cr_assert_eq(t.text_length, 0);
    }
    SERVE({.await = GET_END, .bytes = "HTTP/1.1 200 OK\r\n\r\nvalue", .then_closes = true});
    get(5);
    expect_object("value"); /* its end is that of the connection */
}

Test(transfer, any_other_body_is_a_text_and_no_object)
{
    static const char *const heads[] = {"404 Not Found", "403 Forbidden", "500 Oops", "206 Partial",
                                        "301 Moved"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char bytes[200];
        snprintf(bytes, sizeof bytes,
                 "HTTP/1.1 %s\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 4\r\n\r\npage",
                 heads[i]);
        SERVE({.await = GET_END, .bytes = bytes}, {.await = GET_END, .bytes = "rubbish"});
        get(2); /* the limit is an object's */
        cr_assert_eq(t.outcome, TIER_OK, "%s: %s", heads[i], t.said);
        cr_assert_eq(t.status, atoi(heads[i]));
        cr_assert(t.result_fd == -1 && t.result_length == 0);
        cr_assert_str_eq(t.text, "page");
        cr_assert_str_eq(t.location, "http://127.0.0.1:1/x", "it is not followed");
    }
    SERVE({.await = GET_END, .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"});
    t = (struct transfer){.fd = -1, .limit = 2};
    start(TRANSFER_GET); /* without wants_file */
    until_done();
    cr_assert(t.outcome == TIER_OK && t.result_fd == -1);
    cr_assert_str_eq(t.text, "page");
}

Test(transfer, a_long_text_is_cut_off)
{
    size_t len = TRANSFER_TEXT_MAX + 5000;
    char *bytes = malloc(len + 100);
    size_t at = (size_t)sprintf(bytes, "HTTP/1.1 500 Oops\r\nContent-Length: %zu\r\n\r\n", len);
    memset(bytes + at, 'x', len);
    SERVE({.await = GET_END, .bytes = bytes, .len = at + len});
    get(10);
    cr_assert_eq(t.outcome, TIER_OK, "%s", t.said);
    cr_assert_eq(t.text_length, TRANSFER_TEXT_MAX);
    cr_assert_eq(strlen(t.text), TRANSFER_TEXT_MAX);
    free(bytes);
}

Test(transfer, an_object_larger_than_the_limit_is_refused_whether_it_says_so_or_not)
{
    static const char *const bodies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nvalue!",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nval\r\n3\r\nue!\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"};
    for (size_t i = 0; i < 3; i++) {
        SERVE({.await = GET_END, .bytes = bodies[i]});
        get(5);
        cr_assert_eq(t.outcome, TIER_TOO_LARGE, "%d: %s", t.outcome, t.said);
        cr_assert_eq(t.result_fd, -1);
    }
}

Test(transfer, a_body_that_is_cut_off_is_no_object)
{
    static const char *const bodies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nvalue",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nvalue\r\n", "rubbish\r\n\r\n",
        ""};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        SERVE({.await = GET_END, .bytes = bodies[i], .then_closes = true});
        get(100);
        cr_assert_eq(t.outcome, TIER_FAILED, "%s: %d, status %d", bodies[i], t.outcome, t.status);
        cr_assert(*t.said && t.result_fd == -1);
    }
    SERVE({.await = GET_END, .bytes = "HTTP/1.1 200 OK\r\nContent-Le", .then_closes = true});
    get(100); /* libcurl takes this for an answer without a body */
    cr_assert(t.result_fd == -1 && !t.has_length);
}

Test(transfer, headers_are_kept_without_what_no_log_should_have)
{
    char longer[600], bytes[1200];
    memset(longer, 'e', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    SERVE({.await = GET_END,
           .bytes =
               "HTTP/1.1 100 Continue\r\nETag: \"early\"\r\n\r\n"
               "HTTP/1.1 503 Busy\r\nETAG:   \"a\x1b[31m\tb\"  \r\ncontent-type: text/x\r\n"
               "x-amz-bucket-region: eu-1\r\nRetry-After: 7\r\n"
               "Date: Thu, 01 Jan 2026 00:00:10 GMT\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 "
               "GMT\r\nContent-Length: 0\r\n\r\n"});
    get(10);
    cr_assert_eq(t.outcome, TIER_OK, "%s", t.said);
    cr_assert_str_eq(t.etag, "\"a?[31m?b\"");
    cr_assert_str_eq(t.content_type, "text/x");
    cr_assert_str_eq(t.region, "eu-1");
    cr_assert_eq(t.retry_ms, 7000);
    cr_assert_eq(t.date - t.modified, 10);
    snprintf(bytes, sizeof bytes,
             "HTTP/1.1 429 Busy\r\nETag: %s\r\nRetry-After: Thu, 01 Jan 2026 00:01:00 GMT\r\n"
             "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
             longer);
    SERVE({.await = GET_END, .bytes = bytes});
    get(10);
    cr_assert_eq(strlen(t.etag), sizeof t.etag - 1);
    SERVE({.await = GET_END,
           .bytes = "HTTP/1.1 429 Busy\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                    "Retry-After: Thu, 01 Jan 2026 00:01:00 GMT\r\n"
                    "Content-Length: 0\r\n\r\n"});
    get(10);
    cr_assert_eq(t.retry_ms, 60000, "by the server's clock");
    cr_assert_str_eq(t.etag, "", "none of the answer before");
}

/* ---- requests ---- */

Test(transfer, a_body_is_the_part_of_its_file)
{
    SERVE({.await = GET_END "value", .bytes = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"});
    t = (struct transfer){.fd = memfd_create("test", MFD_CLOEXEC), .offset = 3, .length = 5};
    cr_assert_eq(write(t.fd, "...value...", 11), 11);
    int fd = t.fd;
    start(TRANSFER_PUT);
    until_done();
    cr_assert(t.outcome == TIER_OK && t.status == 201, "%s", t.said);
    SERVE({.await = "never"});
    t = (struct transfer){.fd = fd, .offset = 8, .length = 50};
    start(TRANSFER_PUT);
    until_done();
    cr_assert_eq(t.outcome, TIER_FAILED, "the file is shorter");
    close(fd);
    SERVE({.await = "\r\nX-One: 1\r\n"},
          {.await = GET_END "text", .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"});
    t = (struct transfer){.fd = -1, .body = "text", .length = 4, .n_headers = 1};
    t.headers[0] = "X-One: 1";
    start(TRANSFER_PUT);
    until_done();
    cr_assert(t.outcome == TIER_OK && t.status == 200, "%s", t.said);
}

Test(transfer, each_method_is_its_own)
{
    static const char *const lines[] = {"GET /object HTTP/1.1\r\n", "PUT /object HTTP/1.1\r\n",
                                        "DELETE /object HTTP/1.1\r\n",
                                        "MKCOL /object HTTP/1.1\r\n"};
    for (enum transfer_method m = TRANSFER_GET; m <= TRANSFER_MKCOL; m++) {
        SERVE({.await = lines[m]},
              {.await = GET_END, .bytes = "HTTP/1.1 204 Done\r\nContent-Length: 0\r\n\r\n"});
        t = (struct transfer){.fd = -1, .body = ""};
        start(m);
        until_done();
        cr_assert(t.outcome == TIER_OK && t.status == 204, "%s: %s", lines[m], t.said);
    }
}

/* The server closes the connection that is kept, when the next request is on its way. */
Test(transfer, a_kept_connection_that_is_dead_costs_nothing)
{
    static const char first[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst";
    static const char second[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";
    SERVE({.await = GET_END, .bytes = first}, {.await = GET_END, .then_closes = true},
          {.await = GET_END, .bytes = second});
    get(10);
    expect_object("first");
    get(10);
    expect_object("second");
    SERVE({.await = GET_END, .then_closes = true}, {.await = GET_END, .bytes = second});
    get(10);
    cr_assert_eq(t.outcome, TIER_FAILED, "a new one is not made twice");
}

/* ---- time ---- */

Test(transfer, ends_when_its_time_is_over)
{
    uint64_t began = uv_hrtime();
    SERVE({.await = GET_END, .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nval"});
    t = (struct transfer){.fd = -1, .wants_file = true, .limit = 10, .timeout_ms = 300};
    start(TRANSFER_GET);
    until_done();
    uint64_t ms = (uv_hrtime() - began) / 1000000;
    cr_assert(t.outcome == TIER_FAILED && t.result_fd == -1);
    cr_assert_str_eq(t.said, "timed out after 300 ms");
    cr_assert(ms >= 290 && ms < 10000, "%d ms", (int)ms);
}

Test(transfer, ends_when_fewer_bytes_come_than_must)
{
    uint64_t began = uv_hrtime();
    close_pool();
    make_pool(1 << 20);
    SERVE({.await = GET_END, .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nval"});
    get(10);
    uint64_t ms = (uv_hrtime() - began) / 1000000;
    cr_assert(t.outcome == TIER_FAILED && strstr(t.said, "too slow: 3 bytes"), "%s", t.said);
    cr_assert(ms >= 1900 && ms < 15000, "%d ms", (int)ms);
}

Test(transfer, is_cancelled_in_the_next_turn)
{
    SERVE({.await = "never"});
    t = (struct transfer){.fd = -1, .limit = 10};
    start(TRANSFER_GET);
    transfer_cancel(&t);
    cr_assert_eq(n_done, 0, "not from within");
    until_done();
    cr_assert_eq(t.outcome, TIER_FAILED);
    cr_assert_str_eq(t.said, "cancelled");
    transfer_cancel(&t); /* it has ended */
    uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(n_done, 1);
}

Test(transfer, closing_the_pool_ends_what_runs)
{
    SERVE({.await = "never"});
    t = (struct transfer){.fd = -1, .limit = 10};
    start(TRANSFER_GET);
    close_pool();
    cr_assert_eq(n_done, 1);
    cr_assert(t.outcome == TIER_FAILED && strcmp(t.said, "closed") == 0);
    make_pool(0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_request.c - libwarm's layer of requests by itself: tags, sealed memory, and a daemon that is
 * gone. test_client and test_failopen have it with a real daemon.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/request.h"
#include "client/wire/memfd.h"

Test(request, each_request_has_tags_of_its_own)
{
    struct warm w = {.conn.fd = -1, .pid = getpid()};
    uint64_t one = request_begin(&w), many = request_begin_many(&w, 5), next = request_begin(&w);
    cr_expect_eq(many, one + 1);
    cr_expect_eq(next, many + 5);
    writer_close(&w.request);
}

Test(request, memory_for_the_daemon_cannot_change)
{
    struct err e;
    char text[6] = "";
    int fd = memfd_sealed("warm", "hello", 5, &e);
    cr_assert_geq(fd, 0);
    cr_expect_eq(pread(fd, text, 5, 0), 5);
    cr_expect_str_eq(text, "hello");
    cr_expect_eq(pwrite(fd, "x", 1, 0), -1);
    cr_expect_eq(ftruncate(fd, 1), -1);
    cr_expect(fcntl(fd, F_GET_SEALS) & F_SEAL_SEAL);
    close(fd);
}

Test(request, after_a_failure_the_next_request_fails_at_once)
{
    struct warm w = {.conn.fd = -1, .pid = getpid(), .connect_timeout_ms = 50, .silence_ms = 1000};
    struct answer answer;
    strcpy(w.socket, "/nonexistent/warmd.sock");
    uint64_t tag = request_begin(&w);
    wire_put_release(&w.request, tag, &(struct wire_release){0});
    cr_expect_eq(request_ask(&w, tag, NULL, 0, conn_now_ms() + 1000, &answer), WARM_ENO_DAEMON);
    cr_expect_not_null(strstr(w.err.text, "no daemon answers"), "%s", w.err.text);
    cr_expect_eq(request_ask(&w, tag, NULL, 0, conn_now_ms() + 1000, &answer), WARM_ENO_DAEMON);
    cr_expect_not_null(strstr(w.err.text, "a moment ago"), "%s", w.err.text);
    writer_close(&w.request);
}

Test(request, a_child_does_not_use_its_parents_connection)
{
    struct warm w = {.conn.fd = -1, .pid = getppid(), .connected = true};
    struct answer answer;
    uint64_t tag = request_begin(&w);
    wire_put_release(&w.request, tag, &(struct wire_release){0});
    cr_expect_eq(request_ask(&w, tag, NULL, 0, conn_now_ms() + 1000, &answer), WARM_ECLOSED);
    writer_close(&w.request);
}

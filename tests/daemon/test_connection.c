/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_connection.c - connections to a server without a daemon, on a loop of the test's own: which wire it speaks,
 * the order of answers, back-pressure, and what a closed connection leaves.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/server_rig.h"
#include "tests/support/support.h"

static struct server_rig rig;

static void setup(void) { server_rig_up(&rig); }
static void teardown(void) { server_rig_down(&rig); }
TestSuite(connection, .init = setup, .fini = teardown, .timeout = 120);

static void turn(void) { server_rig_turn(&rig); }
static int client(void) { return server_rig_client(&rig); }
static void say(int fd, const char *text) { server_rig_say(fd, text); }
static void expect(int fd, const char *want) { server_rig_expect(&rig, fd, want); }

/* ---- bytes ---- */

Test(connection, the_first_byte_chooses_the_wire)
{
    char got[WIRE_HEADER];
    struct writer w;
    struct wire_frame frame;
    int resp = client(), native = client();
    say(resp, "PING\r\n");
    expect(resp, "+PONG\r\n");
    writer_init(&w, 0);
    wire_put_hello(&w, 7,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = {"test", 4}});
    cr_assert_eq(send(native, w.data, w.len, 0), (ssize_t)w.len);
    cr_assert_eq(server_rig_receive(&rig, native, got, sizeof got), sizeof got);
    long missing = wire_parse((const uint8_t *)got, sizeof got, &frame, NULL);
    cr_assert(missing == 0 || frame.type == WIRE_WELCOME, "a header of a frame");
    cr_assert_eq(server_count(rig.server), 2u);
    writer_close(&w);
    close(resp);
    close(native);
}

Test(connection, a_message_in_single_bytes_is_answered_once)
{
    static const char set[] = "*3\r\n$3\r\nSET\r\n$4\r\nname\r\n$5\r\nvalue\r\n";
    int fd = client();
    for (size_t i = 0; i < sizeof set - 1; i++) {
        cr_assert_eq(send(fd, set + i, 1, 0), 1);
        turn();
    }
    expect(fd, "+OK\r\n");
    say(fd, "GET name\r\n");
    expect(fd, "$5\r\nvalue\r\n");
    close(fd);
}

Test(connection, answers_come_in_the_order_of_the_requests)
{
    char message[64], want[64];
    int fd = client();
    for (int i = 0; i < 1000; i++) {
        snprintf(message, sizeof message, "ECHO %d\r\n", i);
        say(fd, message);
        if (i % 100 == 0)
            turn();
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(message, sizeof message, "%d", i);
        snprintf(want, sizeof want, "$%zu\r\n%d\r\n", strlen(message), i);
        expect(fd, want);
    }
    close(fd);
}

Test(connection, a_client_that_does_not_read_is_not_read_from)
{
    static const char ping[] = "PING\r\n";
    int fd = client();
    size_t sent = 0;
    bool full = false;
    for (int i = 0; !full && i < 10000000; i++) {
        ssize_t n = send(fd, ping, sizeof ping - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n == (ssize_t)sizeof ping - 1) {
            sent++;
            continue;
        }
        cr_assert_lt(n, 0, "a part of a message was sent");
        for (int k = 0; k < 100; k++)
            turn();
        struct pollfd p = {fd, POLLOUT, 0};
        full = poll(&p, 1, 0) == 0;
    }
    cr_assert(full, "all was read, and no answer was taken");
    for (size_t i = 0; i < sent; i++)
        expect(fd, "+PONG\r\n");
    close(fd);
}

/* ---- the end ---- */

/* Waits until no connection is left, and libuv has closed the handles. */
static void await_no_client(void)
{
    for (int i = 0; server_count(rig.server) && i < 200000; i++)
        turn();
    cr_assert_eq(server_count(rig.server), 0u);
    turn();
}

Test(connection, garbage_gets_one_error_and_the_end)
{
    char got[4] = "";
    int fd = client();
    say(fd, "*1\r\nnonsense\r\n");
    cr_assert_eq(server_rig_receive(&rig, fd, got, 4), 4u);
    cr_assert_eq(memcmp(got, "-ERR", 4), 0);
    cr_assert(server_rig_is_ended(&rig, fd));
    close(fd);
}

Test(connection, a_client_that_goes_away_leaves_nothing)
{
    int fd = client();
    say(fd, "*3\r\n$3\r\nSET\r\n$4\r\nna");
    turn();
    cr_assert_eq(server_count(rig.server), 1u);
    close(fd);
    await_no_client();
}

static bool name_is(const char *want)
{
    char got[5];
    int fd = client();
    say(fd, "GET name\r\n");
    cr_assert_eq(server_rig_receive(&rig, fd, got, sizeof got), sizeof got);
    close(fd);
    SERVER_RIG_AWAIT(&rig, server_count(rig.server) == 0);
    return memcmp(got, want, sizeof got) == 0;
}

/* A compiler that we pass on says why and is gone at once, with the daemon's greeting unread. */
Test(connection, the_last_words_of_a_client_that_reads_nothing_count)
{
    enum { PING = 6, MORE_THAN_A_TURN_READS = 20000 * PING };
    char *pings = malloc(MORE_THAN_A_TURN_READS);
    for (size_t at = 0; at < MORE_THAN_A_TURN_READS; at += PING)
        memcpy(pings + at, "PING\r\n", PING);
    for (int i = 0; i < 2; i++) {
        ssize_t len = i == 0 ? PING : MORE_THAN_A_TURN_READS;
        int fd = client();
        cr_assert_eq(send(fd, pings, (size_t)len, 0), len);
        if (i == 0)
            turn(); /* the answer lies unread when the client closes */
        say(fd, i == 0 ? "SET name 0\r\n" : "SET name 1\r\n");
        close(fd);
        SERVER_RIG_AWAIT(&rig, server_count(rig.server) == 0);
        SERVER_RIG_AWAIT(&rig, name_is(i == 0 ? "$1\r\n0" : "$1\r\n1"));
    }
    free(pings);
}

Test(connection, descriptors_that_no_message_takes_are_closed)
{
    unsigned before = 0;
    for (int i = 0; i < 20; i++) {
        before = i == 1 ? open_descriptors() : before; /* the first one opens more for all */
        int fd = client(), passed = memfd_create("passed", MFD_CLOEXEC);
        cr_assert(send_with_fds(fd, "PING\r\n", 6, &passed, 1));
        expect(fd, "+PONG\r\n");
        close(passed);
        close(fd);
        await_no_client();
    }
    for (int i = 0; open_descriptors() > before; i++) { /* another thread closes them */
        cr_assert_lt(i, 10000, "%u, not %u", open_descriptors(), before);
        usleep(1000);
    }
}

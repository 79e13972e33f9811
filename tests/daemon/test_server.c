/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_server.c - who may connect to a server without a daemon, how many, and how it ends. test_listener.c has the
 * path of the socket, test_connection.c the bytes, test_budgets.c crowds of users at a daemon.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/process/log.h"
#include "daemon/users/budget.h"
#include "tests/support/server_rig.h"
#include "tests/support/support.h"

#define PLACES 8u         /* connections; an eighth is for users without one */
#define MINE 7u           /* of these, those of one user alone */
#define PARKED 8u         /* further ones of a user, which wait */
#define OTHER_USER 12345u /* of a connection; two of them need root */

static struct server_rig rig;
static int fds[MINE + PARKED + 1]; /* those that the test left are closed with it */

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    server_rig_prepare(&rig);
    rig.base.config.max_connections = PLACES;
}

static void teardown(void)
{
    server_rig_down(&rig);
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] > 0)
            close(fds[i]);
}

TestSuite(server, .init = setup, .fini = teardown, .timeout = 120);

static unsigned n_open(void) { return server_count(rig.server); }

static void ping(int fd)
{
    server_rig_say(fd, "PING\r\n");
    server_rig_expect(&rig, fd, "+PONG\r\n");
}

static bool has_answer(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

/* Runs the loop for as many turns as whatever was sent needs. */
static void settle(void)
{
    for (int i = 0; i < 100; i++)
        server_rig_turn(&rig);
}

/* Opens all connections that one user may have. */
static void fill(void)
{
    server_rig_start(&rig);
    for (unsigned i = 0; i < MINE; i++) {
        fds[i] = server_rig_client(&rig);
        ping(fds[i]);
    }
}

/* Opens `n` more, which must wait. */
static void park(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        fds[MINE + i] = server_rig_connect(&rig);
        server_rig_say(fds[MINE + i], "PING\r\n");
    }
    settle();
    cr_assert_eq(n_open(), MINE);
    for (unsigned i = 0; i < n; i++)
        cr_assert_not(has_answer(fds[MINE + i]), "%u", i);
}

static void end(unsigned i)
{
    close(fds[i]);
    fds[i] = 0;
}

/* ---- its start ---- */

Test(server, a_listener_that_cannot_be_watched_is_an_error)
{
    struct err e = {0};
    char *path = path_join(rig.dir, "file");
    file_write(path, "", 0);
    rig.config.listener_fd = open(path, O_RDONLY | O_CLOEXEC); /* epoll takes no regular files */
    cr_expect_eq(server_start(&rig.server, &rig.config, &e), WARM_EIO);
    cr_expect_null(rig.server);
    cr_expect_not_null(strstr(e.text, "cannot watch the socket"), "%s", e.text);
    close(rig.config.listener_fd);
    free(path);
} /* the teardown expects that no handle is left */

Test(server, without_the_administrators_socket_it_serves_all_the_same)
{
    char *path = path_join(rig.dir, "file");
    file_write(path, "", 0);
    rig.config.admin_fd = open(path, O_RDONLY | O_CLOEXEC);
    server_rig_start(&rig);
    fds[0] = server_rig_client(&rig);
    ping(fds[0]);
    server_rig_close_server(&rig);
    close(rig.config.admin_fd);
    free(path);
}

/* ---- who may connect ---- */

/* True if the peer of a connection may verify the store: it is an administrator. */
static bool is_admin(int fd)
{
    static struct server_rig_frame f;
    struct writer w;
    server_rig_hello(&rig, fd);
    writer_init(&w, 0);
    wire_put_verify(&w, 1, &(struct wire_verify){.sample = 1});
    server_rig_send(fd, &w, NULL, 0);
    writer_close(&w);
    do
        cr_assert(server_rig_take(&rig, fd, &f));
    while (f.frame.type == WIRE_PROGRESS);
    return f.frame.type == WIRE_REPORT;
}

Test(server, the_daemons_user_administers_through_a_socket_that_is_its_own)
{
    server_rig_start(&rig);
    cr_expect(is_admin(fds[0] = server_rig_connect(&rig)));
}

Test(server, a_shared_socket_has_no_administrators_and_their_own_one_has)
{
    rig.config.is_shared = true;
    rig.config.admin_fd = rig.admin;
    server_rig_start(&rig);
    cr_expect_not(is_admin(fds[0] = server_rig_connect(&rig)));
    cr_expect(is_admin(fds[1] = server_rig_connect_admin(&rig)));
}

Test(server, a_reserved_uid_is_refused)
{
    NEEDS_TWO_USERS();
    server_rig_start(&rig);
    fds[0] = server_rig_connect_as(&rig, PEER_TRUST_SPACE);
    cr_expect(server_rig_is_ended(&rig, fds[0]));
    cr_expect_eq(n_open(), 0u);
    fds[1] = server_rig_connect_as(&rig, PEER_TRUST_SPACE - 1);
    ping(fds[1]);
}

/* ---- how many ---- */

Test(server, a_user_over_the_budget_of_connections_loses_the_new_one)
{
    budget_set(BUDGET_connections, 2, 0);
    server_rig_start(&rig);
    fds[0] = server_rig_client(&rig);
    fds[1] = server_rig_client(&rig);
    fds[2] = server_rig_connect(&rig);
    cr_expect(server_rig_is_ended(&rig, fds[2]));
    ping(fds[0]);
    ping(fds[1]);
    end(0);
    SERVER_RIG_AWAIT(&rig, n_open() == 1);
    cr_expect_eq(budget_used(geteuid(), BUDGET_connections), 1u);
    fds[2] = (close(fds[2]), server_rig_client(&rig));
    ping(fds[2]);
}

Test(server, a_connection_beyond_the_limit_waits_for_a_place)
{
    fill();
    park(2);
    end(3);
    server_rig_expect(&rig, fds[MINE], "+PONG\r\n"); /* the first that came */
    settle();
    cr_expect_eq(n_open(), MINE);
    cr_expect_not(has_answer(fds[MINE + 1]));
    end(4);
    server_rig_expect(&rig, fds[MINE + 1], "+PONG\r\n");
    ping(fds[0]);
}

Test(server, a_user_with_too_many_that_wait_loses_the_new_one)
{
    fill();
    park(PARKED);
    fds[MINE + PARKED] = server_rig_connect(&rig);
    cr_expect(server_rig_is_ended(&rig, fds[MINE + PARKED]));
    for (unsigned i = 0; i < PARKED; i++) { /* the others still wait */
        char byte;
        cr_expect_lt(recv(fds[MINE + i], &byte, 1, MSG_DONTWAIT), 0, "%u", i);
    }
}

Test(server, the_administrators_socket_has_always_a_place)
{
    rig.config.admin_fd = rig.admin;
    fill();
    for (unsigned i = 0; i < 3; i++)
        ping(fds[MINE + i] = server_rig_connect_admin(&rig));
    cr_expect_eq(n_open(), MINE + 3);
}

Test(server, the_last_places_are_for_users_without_a_connection)
{
    NEEDS_TWO_USERS();
    fill();
    park(1);
    fds[MINE + 1] = server_rig_connect_as(&rig, OTHER_USER);
    ping(fds[MINE + 1]);
    cr_expect_eq(n_open(), PLACES);
    cr_expect_not(has_answer(fds[MINE]));
}

Test(server, a_user_with_fewer_gets_the_place_of_the_largest_users_idle_one)
{
    NEEDS_TWO_USERS();
    fill();
    uint64_t then = uv_now(&rig.base.loop) + 5;
    SERVER_RIG_AWAIT(&rig, uv_now(&rig.base.loop) > then);
    for (unsigned i = 0; i < MINE; i++)
        if (i != 2)
            ping(fds[i]); /* so that the third is silent for longest */
    fds[MINE] = server_rig_connect_as(&rig, OTHER_USER);
    ping(fds[MINE]);
    fds[MINE + 1] = server_rig_connect_as(&rig, OTHER_USER);
    ping(fds[MINE + 1]);
    cr_expect(server_rig_is_ended(&rig, fds[2]));
    for (unsigned i = 0; i < MINE; i++)
        if (i != 2)
            ping(fds[i]);
    cr_expect_eq(n_open(), PLACES);
}

Test(server, a_user_with_nearly_as_many_takes_no_place_of_another)
{
    NEEDS_TWO_USERS();
    server_rig_start(&rig);
    for (unsigned i = 0; i < MINE; i++) /* four of one user, and three of the other */
        ping(fds[i] = i < 4 ? server_rig_client(&rig) : server_rig_connect_as(&rig, OTHER_USER));
    fds[MINE] = server_rig_connect_as(&rig, OTHER_USER);
    server_rig_say(fds[MINE], "PING\r\n");
    settle();
    cr_expect_not(has_answer(fds[MINE]), "it waits: they would take it from each other in turn");
    cr_expect_eq(n_open(), MINE);
    for (unsigned i = 0; i < MINE; i++)
        ping(fds[i]);
}

Test(server, a_busy_connection_keeps_its_place)
{
    NEEDS_TWO_USERS();
    fill();
    for (unsigned i = 0; i < MINE; i++)
        server_rig_say(fds[i], "*2\r\n$3\r\nGET\r\n"); /* half a command */
    settle();
    fds[MINE] = server_rig_connect_as(&rig, OTHER_USER);
    ping(fds[MINE]);
    fds[MINE + 1] = server_rig_connect_as(&rig, OTHER_USER);
    server_rig_say(fds[MINE + 1], "PING\r\n");
    settle();
    cr_expect_not(has_answer(fds[MINE + 1]), "it waits");
    for (unsigned i = 0; i < MINE; i++) {
        server_rig_say(fds[i], "$1\r\nk\r\n");
        server_rig_expect(&rig, fds[i], "$-1\r\n");
    }
    server_rig_expect(&rig, fds[MINE + 1], "+PONG\r\n");
}

/* ---- its end ---- */

Test(server, it_stops_accepting_and_serves_those_who_are_connected)
{
    server_rig_start(&rig);
    fds[0] = server_rig_client(&rig);
    server_stop_accepting(rig.server);
    server_stop_accepting(rig.server); /* once more is fine */
    fds[1] = server_rig_connect(&rig); /* into the socket's queue */
    server_rig_say(fds[1], "PING\r\n");
    ping(fds[0]);
    settle();
    cr_expect_eq(n_open(), 1u);
    cr_expect_not(has_answer(fds[1]));
}

Test(server, its_end_closes_open_and_waiting_connections)
{
    fill();
    park(1);
    server_rig_say(fds[0], "*2\r\n$3\r\nGET\r\n"); /* half a command */
    settle();
    server_rig_close_server(&rig);
    for (unsigned i = 0; i <= MINE; i++)
        cr_expect(server_rig_is_ended(&rig, fds[i]), "%u", i);
    cr_expect_eq(budget_used(geteuid(), BUDGET_connections), 0u);
}

Test(server, it_is_quiet_when_all_answers_have_left)
{
    static char answer[64 << 10];
    server_rig_start(&rig);
    fds[0] = server_rig_client(&rig);
    cr_expect(server_is_quiet(rig.server));
    int n = 0;
    do {
        server_rig_say(fds[0], "INFO\r\n");
        server_rig_turn(&rig);
    } while (server_is_quiet(rig.server) && ++n < 10000);
    cr_expect_not(server_is_quiet(rig.server), "the socket takes all");
    SERVER_RIG_AWAIT(&rig, recv(fds[0], answer, sizeof answer, MSG_DONTWAIT) >= 0 ||
                               server_is_quiet(rig.server));
    while (!server_is_quiet(rig.server)) {
        recv(fds[0], answer, sizeof answer, MSG_DONTWAIT);
        server_rig_turn(&rig);
    }
    cr_expect_eq(n_open(), 1u);
}

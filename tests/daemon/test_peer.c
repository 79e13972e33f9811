/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer.c - who is at the other end of a socket, and which entries that peer may see. */
#include <criterion/criterion.h>
#include <grp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/users/peer.h"
#include "tests/support/support.h"

#define GROUP 4711u
#define STRANGER 65534u

/* Identifies this process over a socket of its own. */
static struct peer me(gid_t trust_group, bool admits_admin)
{
    int ends[2];
    struct peer p;
    struct err e = {0};
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert_eq(peer_identify(ends[0], trust_group, admits_admin, &p, &e), 0, "%s", e.text);
    close(ends[0]);
    close(ends[1]);
    return p;
}

Test(peer, the_kernel_names_the_peer)
{
    struct peer p = me(PEER_NO_GROUP, false);
    cr_expect_eq(p.uid, getuid());
    cr_expect_eq(p.space, getuid());
    cr_expect_eq(p.pid, getpid());
    cr_expect(!p.is_admin, "no administrators on a socket that others reach");
    cr_expect(me(PEER_NO_GROUP, true).is_admin, "the daemon's own user is one");
}

Test(peer, what_is_no_socket_is_an_error)
{
    struct peer p;
    struct err e = {0};
    cr_expect_eq(peer_identify(STDIN_FILENO, PEER_NO_GROUP, true, &p, &e), WARM_EIO);
}

Test(peer, members_of_the_trusted_group_share_a_space)
{
    NEEDS_TWO_USERS();
    gid_t groups[] = {1, GROUP, 2};
    cr_assert_eq(setgroups(3, groups), 0);
    cr_expect_eq(me(GROUP, false).space, PEER_TRUST_SPACE, "a further group");
    cr_expect_eq(me(GROUP + 1, false).space, getuid());
    cr_expect_eq(me(getgid(), false).space, PEER_TRUST_SPACE, "the first group");
    static gid_t many[300];
    for (size_t i = 0; i < 300; i++)
        many[i] = (gid_t)(10000 + i);
    many[299] = GROUP;
    cr_assert_eq(setgroups(300, many), 0);
    cr_expect_eq(me(GROUP, false).space, PEER_TRUST_SPACE, "the last one of many");
}

Test(peer, a_reserved_uid_is_nobody)
{
    NEEDS_TWO_USERS();
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        int ends[2];
        struct peer p;
        if (setresuid(PEER_TRUST_SPACE, PEER_TRUST_SPACE, PEER_TRUST_SPACE) != 0 ||
            socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
            _exit(77);
        _exit(peer_identify(ends[0], PEER_NO_GROUP, true, &p, NULL) == WARM_EDENIED ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        cr_skip_test("this container has no such uid");
    cr_expect_eq(status, 0);
}

Test(peer, a_group_is_found_by_name_or_number)
{
    struct err e = {0};
    gid_t gid;
    cr_assert_eq(peer_find_group("", &gid, &e), 0);
    cr_expect_eq(gid, PEER_NO_GROUP);
    cr_assert_eq(peer_find_group("4711", &gid, &e), 0);
    cr_expect_eq(gid, GROUP);
    const struct group *own = getgrgid(getgid());
    if (own) {
        cr_assert_eq(peer_find_group(own->gr_name, &gid, &e), 0);
        cr_expect_eq(gid, getgid());
    }
    static const char *const bad[] = {"47x", "4294967295", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(peer_find_group(bad[i], &gid, &e), WARM_EINVALID, "%s", bad[i]);
    cr_expect_eq(peer_find_group("no-such-group-of-warm", &gid, &e), WARM_ENOT_FOUND);
}

Test(peer, an_entry_is_seen_by_its_space_its_maker_and_administrators)
{
    static const struct {
        uint32_t owner, maker;
        bool user, member, stranger;
    } rows[] = {
        {1000, 1000, true, false, false},
        {STORE_MADE_HERE, 1000, true, true, false},
        {STORE_MADE_HERE, 1001, false, false, false},
        {PEER_TRUST_SPACE, 1001, false, true, false},
        {PEER_TRUST_SPACE, 1000, true, true, false},
    };
    struct peer user = {.uid = 1000, .space = 1000}, admin = {.uid = 0, .is_admin = true};
    struct peer member = {.uid = 1000, .space = PEER_TRUST_SPACE};
    struct peer stranger = {.uid = STRANGER, .space = STRANGER};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct store_row row = {.id.owner = rows[i].owner, .maker = rows[i].maker};
        cr_expect_eq(peer_may_see(&user, &row), rows[i].user, "user, row %zu", i);
        cr_expect_eq(peer_may_see(&stranger, &row), rows[i].stranger, "stranger, row %zu", i);
        cr_expect(peer_may_see(&admin, &row), "administrator, row %zu", i);
        if (i)
            cr_expect_eq(peer_may_see(&member, &row), rows[i].member, "member, row %zu", i);
    }
}

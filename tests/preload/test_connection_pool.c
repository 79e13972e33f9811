/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_connection_pool.c - the connections that the threads of a program share, with a real daemon, and
 * without one.
 *
 * The source is included: the shim is a library of its own, and no archive has it.
 */
#include "client/preload/connection_pool.c"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tests/support/warmd.h"

static void use(const struct warmd *d)
{
    setenv("WARM_SOCKET", d->socket, 1);
    setenv("WARM_TIMEOUT_MS", "20000", 1); /* a busy or emulated machine is no hang */
}

Test(connection_pool, a_returned_connection_is_lent_again_and_two_borrowers_have_two)
{
    struct warmd d = warmd_up(NULL);
    use(&d);
    struct warm *one = connection_pool_borrow(), *two = connection_pool_borrow();
    cr_assert(one && two && one != two);
    connection_pool_return(one);
    cr_expect_eq(connection_pool_borrow(), one);
    connection_pool_return(one);
    connection_pool_return(two);
    connection_pool_return(NULL);
    warmd_down(&d);
}

Test(connection_pool, a_process_without_descriptors_gets_that_of_a_failed_request_back)
{
    struct warmd d = warmd_up(NULL);
    use(&d);
    struct warm *w = connection_pool_borrow();
    cr_assert_not_null(w);
    w->err.code = WARM_EIO; /* as if no channel could be made */
    connection_pool_return(w);
    for (size_t i = 0; i < SLOTS; i++)
        cr_expect_eq(atomic_load(&slots[i].state), EMPTY);
    warmd_down(&d);
}

Test(connection_pool, there_are_as_many_as_slots_and_no_more)
{
    struct warmd d = warmd_up(NULL);
    struct warm *all[SLOTS];
    use(&d);
    for (size_t i = 0; i < SLOTS; i++)
        cr_assert_not_null(all[i] = connection_pool_borrow());
    cr_expect_null(connection_pool_borrow(), "the program goes on without");
    for (size_t i = 0; i < SLOTS; i++)
        connection_pool_return(all[i]);
    cr_expect_not_null(all[0] = connection_pool_borrow());
    connection_pool_return(all[0]);
    warmd_down(&d);
}

/* Borrows many times, and loses each seventh connection. Returns how often another thread had the same slot. */
static void *borrow_and_return(void *arg)
{
    static _Atomic int borrowers[SLOTS];
    size_t n_shared = 0;
    (void)arg;
    for (int i = 1; i < 300; i++) {
        struct warm *w = connection_pool_borrow();
        if (!w)
            continue;
        _Atomic int *mine = &borrowers[slot_of(w) - slots];
        n_shared += atomic_fetch_add(mine, 1) != 0;
        w->connected = i % 7 != 0;
        atomic_fetch_sub(mine, 1);
        connection_pool_return(w);
    }
    return (void *)n_shared;
}

Test(connection_pool, threads_never_have_one_connection_together)
{
    struct warmd d = warmd_up(NULL);
    pthread_t thread[8];
    void *n_shared;
    use(&d);
    for (size_t i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, borrow_and_return, NULL), 0);
    for (size_t i = 0; i < 8; i++) {
        pthread_join(thread[i], &n_shared);
        cr_expect_null(n_shared);
    }
    for (size_t i = 0; i < SLOTS; i++)
        cr_expect_neq(slots[i].state, BUSY, "no slot is lost");
    warmd_down(&d);
}

Test(connection_pool, without_a_daemon_one_attempt_is_made_and_then_a_pause)
{
    struct warmd d = warmd_new();
    use(&d);
    cr_expect_null(connection_pool_borrow());
    cr_expect_eq(atomic_load(&n_failures), 1);
    cr_expect_gt(atomic_load(&paused_until_ms), conn_now_ms());
    for (int i = 0; i < 100; i++)
        cr_assert_null(connection_pool_borrow());
    cr_expect_eq(atomic_load(&n_failures), 1, "a pause makes no attempt");
    warmd_start(&d, NULL);
    atomic_store(&paused_until_ms, 1); /* the pause is over */
    struct warm *w = connection_pool_borrow();
    cr_assert_not_null(w, "the daemon that was started is found");
    cr_expect_eq(atomic_load(&n_failures), 0);
    connection_pool_return(w);
    warmd_down(&d);
}

Test(connection_pool, a_child_has_none_of_its_parents)
{
    struct warmd d = warmd_up(NULL);
    use(&d);
    struct warm *w = connection_pool_borrow();
    cr_assert_not_null(w);
    pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < SLOTS; i++)
            if (atomic_load(&slots[i].state) != EMPTY || slots[i].w)
                _exit(1);
        struct warm *own = connection_pool_borrow();
        bool works = own && warm_put(own, "k", 1, "v", 1, NULL) == 0;
        connection_pool_return(own);
        _exit(works ? 0 : 2);
    }
    int status = warmd_reap(child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
    struct warm_value v;
    cr_expect_eq(warm_get(w, "k", 1, 0, &v), 0, "the parent's connection works");
    warm_value_free(&v);
    connection_pool_return(w);
    warmd_down(&d);
}

Test(connection_pool, a_process_that_drops_its_user_has_none_of_the_one_before)
{
    NEEDS_TWO_USERS();
    struct warmd d = warmd_up(NULL);
    use(&d);
    connection_pool_return(connection_pool_borrow());
    cr_assert_eq(atomic_load(&slots[0].state), IDLE);
    cr_assert_eq(seteuid(65534), 0);
    cr_expect_null(connection_pool_borrow());
    cr_expect_eq(atomic_load(&slots[0].state), EMPTY, "and its connection is closed");
    cr_assert_eq(seteuid(0), 0);
    struct warm *w = connection_pool_borrow();
    cr_expect_not_null(w, "the first user has one again");
    connection_pool_return(w);
    warmd_down(&d);
}

Test(connection_pool, a_switch_turns_it_off)
{
    struct warmd d = warmd_up(NULL);
    use(&d);
    setenv("WARM_DISABLE", "1", 1);
    cr_expect_null(connection_pool_borrow());
    setenv("WARM_DISABLE", "0", 1);
    struct warm *w = connection_pool_borrow();
    cr_expect_not_null(w);
    connection_pool_return(w);
    warmd_down(&d);
}

Test(connection_pool, a_connection_whose_daemon_has_gone_is_not_lent_again)
{
    struct warmd d = warmd_up(NULL);
    struct warm_value v;
    use(&d);
    struct warm *w = connection_pool_borrow();
    cr_assert_not_null(w);
    kill(d.pid, SIGKILL);
    warmd_reap(d.pid);
    cr_expect_neq(warm_get(w, "k", 1, 0, &v), 0);
    connection_pool_return(w);
    for (size_t i = 0; i < SLOTS; i++)
        cr_expect_eq(atomic_load(&slots[i].state), EMPTY);
    warmd_free(&d);
}

/* Closes all descriptors as `close` does, and has socket pairs at their numbers afterwards. */
static void become_another(void (*close_all)(void))
{
    enum { PAIRS = 6 };
    int pairs[PAIRS][2];
    char byte;
    struct warm *w = connection_pool_borrow();
    if (!w || warm_put(w, "k", 1, "v", 1, NULL) != 0)
        _exit(1);
    connection_pool_return(w);
    close_all();
    for (int i = 0; i < PAIRS; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[i]) != 0)
            _exit(2);
    struct warm_value v;
    w = connection_pool_borrow();
    if (!w || warm_get(w, "k", 1, 0, &v) != 0)
        _exit(3);
    warm_value_free(&v);
    connection_pool_return(w);
    for (int i = 0; i < 2 * PAIRS; i++) {
        int fd = pairs[i / 2][i % 2];
        if (fcntl(fd, F_GETFD) < 0)
            _exit(4);
        if (recv(fd, &byte, 1, 0) != -1 || errno != EAGAIN)
            _exit(5);
    }
    _exit(0);
}

static void by_range(void) { close_range(3, ~0u, 0); }

static void one_by_one(void)
{
    for (int fd = 3; fd < 256; fd++)
        close(fd);
}

static void twice(void)
{
    one_by_one();
    one_by_one();
}

static void by_copies(void) /* of standard error onto each of them, then closed */
{
    for (int fd = 3; fd < 256; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            dup2(STDERR_FILENO, fd);
    one_by_one();
}

Test(connection_pool, a_program_that_closes_all_descriptors_gets_its_numbers_for_itself)
{
    static void (*const ways[])(void) = {by_range, one_by_one, twice, by_copies};
    struct warmd d = warmd_up(NULL);
    use(&d);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        pid_t child = fork();
        if (child == 0)
            become_another(ways[i]);
        int status = warmd_reap(child);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "way %zu: %d", i, status);
    }
    warmd_down(&d);
}

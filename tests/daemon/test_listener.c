/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_listener.c - who may listen at a path, and what becomes of the file that is there. test_lifecycle.c
 * has the sockets of a service manager.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/net/listener.h"
#include "tests/support/support.h"
#include "tests/support/warmd.h"

static char *dir, *path;
static struct err e;

static void up(void)
{
    dir = temp_dir_new();
    path = path_join(dir, "socket");
}

static void down(void)
{
    free(path);
    temp_dir_free(dir);
}
TestSuite(listener, .init = up, .fini = down, .timeout = 120);

static mode_t mode_of(const char *file)
{
    struct stat st;
    cr_assert_eq(lstat(file, &st), 0, "%s", file);
    return st.st_mode & 07777;
}

/* Binds a socket by hand, as a daemon of another kind does; listens if asked to. */
static int bind_by_hand(bool listens)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert(!listens || listen(fd, 1) == 0);
    return fd;
}

/* ---- a path of its own ---- */

Test(listener, the_socket_is_its_users_alone_or_roots_for_all)
{
    struct listener_socket s, admin;
    bool is_root = geteuid() == 0;
    char *folder = path_join(dir, "new"), *inside = path_join(folder, "socket");
    char *second = path_join(folder, "admin");
    umask(0); /* must not count */
    cr_assert_eq(listener_open(&s, inside, &e), 0, "%s", e.text);
    cr_assert_eq(listener_open_admin(&admin, second, &e), 0, "%s", e.text);
    cr_expect_eq(mode_of(folder), is_root ? 0755 : 0700);
    cr_expect_eq(mode_of(inside), is_root ? 0666 : 0600);
    cr_expect_eq(mode_of(second), 0600);
    cr_expect_eq(listener_is_shared(&s), is_root);
    cr_expect(!listener_is_shared(&admin));
    cr_expect(!s.passed);
    listener_shut(&s);
    listener_shut(&admin);
    cr_expect_neq(access(inside, F_OK), 0, "its file goes with it");
    free(folder), free(inside), free(second);
}

Test(listener, a_path_has_one_daemon)
{
    struct listener_socket s, second;
    cr_assert_eq(listener_open(&s, path, &e), 0, "%s", e.text);
    cr_assert_eq(unlink(path), 0); /* somebody tidies up; the lock stays */
    cr_expect_eq(listener_open(&second, path, &e), WARM_EBUSY);
    listener_shut(&s);
    cr_assert_eq(listener_open(&second, path, &e), 0, "%s", e.text);
    listener_shut(&second);
}

Test(listener, a_daemon_without_the_lock_keeps_its_socket)
{
    struct listener_socket s;
    int other = bind_by_hand(true);
    cr_expect_eq(listener_open(&s, path, &e), WARM_EBUSY);
    int client = warmd_try_connect(path);
    cr_expect(client >= 0, "its file was taken away");
    cr_expect_eq(listener_open(&s, path, &e), WARM_EBUSY, "a full queue is a daemon, too");
    close(client);
    close(other);
}

Test(listener, a_socket_without_a_daemon_is_replaced)
{
    struct listener_socket s;
    close(bind_by_hand(false));
    cr_assert_eq(listener_open(&s, path, &e), 0, "%s", e.text);
    cr_expect_lt(warmd_try_connect(path), 0, "the administrator's socket is made before");
    cr_assert_eq(listener_listen(&s, &e), 0, "%s", e.text);
    int client = warmd_try_connect(path);
    cr_expect(client >= 0);
    close(client);
    listener_shut(&s);
}

Test(listener, another_file_at_the_path_stays)
{
    struct listener_socket s;
    file_write(path, "mine", 4);
    cr_expect_eq(listener_open(&s, path, &e), WARM_EINVALID);
    size_t len;
    char *text = file_read(path, &len);
    cr_expect_str_eq(text, "mine");
    free(text);
    unlink(path);
    cr_assert_eq(listener_open(&s, path, &e), 0, "the failure has left its lock: %s", e.text);
    listener_shut(&s);
}

Test(listener, a_path_that_does_not_fit_is_refused)
{
    struct listener_socket s;
    char file[160];
    int n = snprintf(file, sizeof file, "%s/new/", dir);
    memset(file + n, 'x', 120);
    file[108] = '\0'; /* the size of sun_path: its NUL has no room */
    cr_assert_lt(n, 100);
    cr_expect_eq(listener_open(&s, file, &e), WARM_EINVALID);
    file[n] = '\0';
    cr_expect_neq(access(file, F_OK), 0, "and its folder is not made");
}

Test(listener, a_folder_that_others_may_write_is_refused)
{
    struct listener_socket s;
    cr_assert_eq(chmod(dir, 0777), 0);
    cr_expect_eq(listener_open(&s, path, &e), WARM_EDENIED);
    if (geteuid() == 0) { /* a group that others are in */
        cr_assert(chown(dir, 0, 1) == 0 && chmod(dir, 0770) == 0);
        cr_expect_eq(listener_open(&s, path, &e), WARM_EDENIED);
    }
    cr_assert_eq(chmod(dir, 01777), 0);
    cr_assert_eq(listener_open(&s, path, &e), 0, "as in /tmp, they cannot replace it: %s", e.text);
    listener_shut(&s);
}

Test(listener, a_folder_of_another_user_is_refused)
{
    struct listener_socket s;
    NEEDS_TWO_USERS();
    char *theirs = path_join(dir, "theirs"), *inside = path_join(theirs, "socket");
    char *link = path_join(dir, "link"), *through = path_join(link, "socket");
    cr_assert_eq(mkdir(theirs, 0755), 0);
    cr_assert_eq(chown(theirs, 1000, 1000), 0);
    cr_expect_eq(listener_open(&s, inside, &e), WARM_EDENIED);
    cr_assert_eq(chown(theirs, 0, 0), 0);
    cr_assert_eq(symlink(theirs, link), 0);
    cr_assert_eq(lchown(link, 1000, 1000), 0); /* which they can turn to another folder */
    cr_expect_eq(listener_open(&s, through, &e), WARM_EDENIED);
    free(theirs), free(inside), free(link), free(through);
}

/* ---- accepting ---- */

struct door {
    uv_loop_t loop;
    struct listener_socket socket;
    struct listener listener;
    unsigned n, room; /* connections that came, and those that may still come */
    int fd[8];
    bool closed;
};

static bool on_connection(void *arg, int fd)
{
    struct door *d = arg;
    cr_assert_lt(d->n, 8);
    d->fd[d->n++] = fd;
    return --d->room > 0;
}

static void on_closed(void *arg) { ((struct door *)arg)->closed = true; }

static void open_door(struct door *d, unsigned room)
{
    *d = (struct door){.room = room};
    cr_assert_eq(uv_loop_init(&d->loop), 0);
    cr_assert_eq(listener_open(&d->socket, path, &e), 0, "%s", e.text);
    cr_assert_eq(listener_listen(&d->socket, &e), 0, "%s", e.text);
    cr_assert_eq(listener_start(&d->listener, &d->loop, d->socket.fd, on_connection, d, &e), 0,
                 "%s", e.text);
}

static void close_door(struct door *d)
{
    int late = warmd_try_connect(path);
    unsigned n = d->n;
    listener_close(&d->listener, on_closed);
    listener_resume(&d->listener);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    cr_expect(d->closed);
    cr_expect_eq(d->n, n, "it went on accepting");
    close(late);
    cr_expect_eq(uv_loop_close(&d->loop), 0);
    for (unsigned i = 0; i < d->n; i++)
        close(d->fd[i]);
    listener_shut(&d->socket);
}

static void run_until_connections(struct door *d, unsigned n)
{
    uint64_t end = clock_now_ms() + WARMD_WAIT_MS;
    while (d->n < n && clock_now_ms() < end)
        uv_run(&d->loop, UV_RUN_NOWAIT);
    cr_assert_eq(d->n, n);
}

Test(listener, connections_wait_while_their_server_has_no_room)
{
    struct door d;
    int clients[3];
    open_door(&d, 2);
    for (int i = 0; i < 3; i++)
        clients[i] = warmd_try_connect(path);
    run_until_connections(&d, 2);
    for (int i = 0; i < 20; i++)
        uv_run(&d.loop, UV_RUN_NOWAIT);
    cr_expect_eq(d.n, 2, "the third was taken without room");
    d.room = 9;
    listener_resume(&d.listener);
    run_until_connections(&d, 3);
    for (int i = 0; i < 3; i++) {
        cr_expect(clients[i] >= 0);
        cr_expect(fcntl(d.fd[i], F_GETFL) & O_NONBLOCK);
        cr_expect(fcntl(d.fd[i], F_GETFD) & FD_CLOEXEC);
        close(clients[i]);
    }
    close_door(&d);
}

Test(listener, accepting_goes_on_once_there_are_descriptors_again)
{
    struct door d;
    struct rlimit before, none;
    open_door(&d, 9);
    uv_run(&d.loop, UV_RUN_NOWAIT);
    int client = warmd_try_connect(path);
    cr_assert(client >= 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)client; /* all below it are in use */
    for (int fd = 0; (fd = fcntl(0, F_DUPFD, 0)) < client && fd >= 0;)
        ;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 20 && !d.listener.paused; i++)
        uv_run(&d.loop, UV_RUN_NOWAIT);
    cr_expect_eq(d.n, 0);
    cr_expect(d.listener.paused, "it must not spin meanwhile");
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    run_until_connections(&d, 1); /* nobody calls listener_resume */
    close(client);
    close_door(&d);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify.c - what the service manager hears from the daemon. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/process/notify.h"
#include "tests/support/support.h"

/* Binds a socket as the manager does: a path, or with '@' in front a name without a file. */
static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    cr_assert_lt(len, sizeof address.sun_path);
    memcpy(address.sun_path, path, len);
    if (*path == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, address_len), 0);
    setenv("NOTIFY_SOCKET", path, 1);
    return fd;
}

static void expect_text(int fd, const char *want)
{
    char text[1024] = "";
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    cr_assert_eq(n, (ssize_t)strlen(want), "%zd bytes: %s", n, text);
    cr_expect_str_eq(text, want);
}

Test(notify, a_line_reaches_the_managers_socket)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "notify");
    int fd = listen_at(path);
    notify_send("READY=1\nSTATUS=%d entries", 7);
    expect_text(fd, "READY=1\nSTATUS=7 entries");
    close(fd);
    free(path);
    temp_dir_free(dir);
}

Test(notify, a_name_without_a_file_is_reached_too)
{
    char name[64];
    snprintf(name, sizeof name, "@warm-test-notify-%ld", (long)getpid());
    int fd = listen_at(name);
    notify_send("STOPPING=1");
    expect_text(fd, "STOPPING=1");
    close(fd);
}

Test(notify, a_long_line_is_cut)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "notify"), want[512];
    int fd = listen_at(path);
    memset(want, 'x', sizeof want - 1);
    want[sizeof want - 1] = '\0';
    notify_send("%s%s", want, want);
    expect_text(fd, want);
    close(fd);
    free(path);
    temp_dir_free(dir);
}

Test(notify, no_manager_or_a_deaf_one_costs_nothing)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "notify");
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", path, 1);
    notify_send("READY=1"); /* nobody listens there */
    int fd = listen_at(path);
    for (int i = 0; i < 5000; i++)
        notify_send("WATCHDOG=1"); /* the queue of a manager that reads nothing gets full */
    expect_text(fd, "WATCHDOG=1");
    close(fd);
    free(path);
    temp_dir_free(dir);
}

Test(notify, the_watchdog_is_fed_twice_in_its_time)
{
    char pid[24];
    unsetenv("WATCHDOG_USEC");
    cr_expect_eq(notify_watchdog_ms(), 0u);
    setenv("WATCHDOG_USEC", "30000000", 1);
    cr_expect_eq(notify_watchdog_ms(), 15000u);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    cr_expect_eq(notify_watchdog_ms(), 15000u);
    setenv("WATCHDOG_PID", "1", 1);
    cr_expect_eq(notify_watchdog_ms(), 0u, "the limit is another process's");
}

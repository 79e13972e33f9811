/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_defaults.c - the places of the store, the settings and the socket without options. Each case
 * runs in a child as a user without files on this machine. Needs root, or skips.
 */
#include <criterion/criterion.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/warm.h"
#include "daemon/process/defaults.h"
#include "store/store.h"
#include "tests/support/support.h"

#define STRANGER 54321 /* in no user database */

static char *dir;

static void setup(void)
{
    dir = temp_dir_new();
    cr_assert_eq(chmod(dir, 0755), 0);
}

/* Their stores, empty as they were made. */
static void teardown(void)
{
    rmdir("/var/tmp/warm-54321");
    rmdir("/tmp/warm-54321/store");
    rmdir("/tmp/warm-54321");
    temp_dir_free(dir);
}

TestSuite(defaults, .init = setup, .fini = teardown);

static bool is_root(void)
{
    if (geteuid() != 0)
        fprintf(stderr, "skipped: only root can act as another user\n");
    return geteuid() == 0;
}

static bool become_stranger(void)
{
    return setgroups(0, NULL) == 0 && setgid(STRANGER) == 0 && setuid(STRANGER) == 0;
}

/* defaults_store of the stranger with this HOME (NULL: none). */
static void expect_store(const char *home, const char *want)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char got[4096] = "";
        struct err e = {0};
        unsetenv("XDG_CACHE_HOME");
        unsetenv("HOME");
        if (home)
            setenv("HOME", home, 1);
        int code = become_stranger() ? defaults_store(got, sizeof got, &e) : -1;
        if (code || strcmp(got, want))
            fprintf(stderr, "store in %s, not %s: %s\n", got, want, e.text);
        _exit(code || strcmp(got, want) || access(got, W_OK));
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
}

Test(defaults, cache_folder_of_a_new_account_is_made)
{
    if (!is_root())
        return;
    char *home = path_join(dir, "home"), *store = path_join(dir, "home/.cache/warm");
    struct stat st;
    cr_assert_eq(mkdir(home, 0755), 0);
    cr_assert_eq(chown(home, STRANGER, STRANGER), 0);
    expect_store(home, store);
    cr_assert_eq(stat(store, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0700);
    free(home);
    free(store);
}

Test(defaults, home_that_cannot_be_written_is_passed_over)
{
    if (is_root())
        expect_store(dir, "/var/tmp/warm-54321");
}

Test(defaults, user_without_a_home_has_a_store)
{
    if (is_root())
        expect_store(NULL, "/var/tmp/warm-54321");
}

Test(defaults, folder_that_another_user_made_is_not_used)
{
    if (!is_root())
        return;
    cr_assert_eq(mkdir("/var/tmp/warm-54321", 0777), 0);
    expect_store(NULL, "/tmp/warm-54321/store");
}

/* A process of a stranger has the store at `place`, on a machine of that name; it ends with its stdin. */
static pid_t hold_store(const char *place, const char *host, int *out_end)
{
    int ready[2], ends[2];
    char byte = 0;
    cr_assert_eq(pipe(ready) + pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct store_config config = {.dir = place, .max_bytes = 1 << 20};
        struct store *store;
        struct err e;
        close(ends[1]);
        if ((*host && (unshare(CLONE_NEWUTS) || sethostname(host, strlen(host)))) ||
            !become_stranger() || store_open(&store, &config, &e) || write(ready[1], "", 1) != 1)
            _exit(1);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    close(ready[1]);
    close(ends[0]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *out_end = ends[1];
    return pid;
}

Test(defaults, two_nodes_with_one_home_have_a_store_each)
{
    if (!is_root())
        return;
    char *home = path_join(dir, "home"), *cache = path_join(home, ".cache"),
         *place = path_join(cache, "warm");
    int end;
    mkdir(home, 0755);
    cr_assert_eq(chown(home, STRANGER, STRANGER), 0);
    expect_store(home, place);
    pid_t other = hold_store(place, "another-node", &end);
    expect_store(home, "/var/tmp/warm-54321");
    close(end);
    waitpid(other, NULL, 0);
    pid_t ending = hold_store(place, "", &end);
    expect_store(home, place); /* a daemon of this machine, which may be about to end */
    close(end);
    waitpid(ending, NULL, 0);
    free(place);
    free(cache);
    free(home);
}

Test(defaults, network_file_systems_are_known)
{
    cr_assert_str_eq(defaults_network_name(0x6969), "NFS");
    cr_assert_str_eq(defaults_network_name(0x0bd00bd0), "Lustre");
    cr_assert_null(defaults_network_name(0xef53), "ext4");
    cr_assert_null(defaults_network_name(0x01021994), "tmpfs");
}

Test(defaults, settings_of_a_user_are_in_the_home_folder)
{
    char got[4096], *file = path_join(dir, "warm/warmd.conf"), *folder = path_join(dir, "warm");
    setenv("XDG_CONFIG_HOME", dir, 1);
    if (!is_root())
        return;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        bool none = become_stranger() && !defaults_settings(got, sizeof got);
        _exit(!none);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "there is no file");
    cr_assert_eq(mkdir(folder, 0755), 0);
    file_write(file, "jobs = 3\n", 9);
    pid = fork();
    if (pid == 0)
        _exit(!(become_stranger() && defaults_settings(got, sizeof got) && strcmp(got, file) == 0));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    free(file);
    free(folder);
}

/* ---- the socket ---- */

static int listener_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(path, 0666) != 0 || listen(fd, 8) != 0)
        return -1;
    return fd;
}

static bool default_is(const char *want)
{
    char got[108];
    bool is = warm_default_socket(got, sizeof got) == 0 && strcmp(got, want) == 0;
    if (!is)
        fprintf(stderr, "the default socket is %s, not %s\n", got, want);
    return is;
}

/* In a child with a /run of its own. */
static int look_for_sockets(const char *runtime)
{
    char own[108];
    snprintf(own, sizeof own, "%s/warm/warmd.sock", runtime);
    unsetenv("WARM_SOCKET");
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/run", "tmpfs", 0, "mode=755") || mkdir("/run/warm", 0755))
        return 77;
    int systems = listener_at("/run/warm/warmd.sock");
    if (systems < 0 || !become_stranger() || !default_is("/run/warm/warmd.sock"))
        return 1;
    int users = listener_at(own);
    if (users < 0 || !default_is(own))
        return 2;
    close(users); /* the file is left over */
    if (!default_is("/run/warm/warmd.sock"))
        return 3;
    close(systems);
    return default_is(own) ? 0 : 4;
}

Test(defaults, own_daemon_comes_before_the_systems)
{
    if (!is_root())
        return;
    char *folder = path_join(dir, "warm");
    cr_assert_eq(mkdir(folder, 0755), 0);
    cr_assert_eq(chown(folder, STRANGER, STRANGER), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(look_for_sockets(dir));
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        fprintf(stderr, "skipped: no mount namespace is to be had here\n");
    else
        cr_assert_eq(status, 0);
    free(folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lifecycle.c - warmd from its start to its end: sockets and folders that it must refuse, options, the
 * service manager, signals, and what is left after a restart.
 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/support/warmd.h"

/* ---- starting ---- */

/* Starts a daemon that must fail with one line that has `text`. */
static void expect_start_fails(struct warmd *k, char *const *options, int code, const char *text)
{
    char *log = k->log;
    k->log = path_join(k->dir, "failed-log");
    unlink(k->log);
    int status = warmd_reap(warmd_spawn(k, options));
    size_t len;
    char *said = file_read(k->log, &len);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %x: %s", status, said);
    cr_assert_not_null(strstr(said, text), "%s", said);
    cr_assert_eq(strchr(said, '\n'), said + len - 1, "more than one line: %s", said);
    free(said);
    free(k->log);
    k->log = log;
}

Test(lifecycle, a_second_one_on_the_same_socket_or_store_is_told_so)
{
    struct warmd k = warmd_up(NULL), other = warmd_new();
    char *socket = k.socket, *store = k.store;
    k.store = other.store;
    expect_start_fails(&k, NULL, 1, k.socket);
    k.store = store;
    k.socket = other.socket;
    expect_start_fails(&k, NULL, 1, "warmd: ");
    k.socket = socket;
    warmd_expect_alive(&k);
    warmd_free(&other);
    warmd_down(&k);
}

Test(lifecycle, a_stale_socket_is_replaced_and_anything_else_is_left_alone)
{
    struct warmd k = warmd_up(NULL);
    kill(k.pid, SIGKILL);
    warmd_reap(k.pid);
    cr_assert_eq(access(k.socket, F_OK), 0, "the socket file is still there");
    warmd_start(&k, NULL);
    warmd_expect_alive(&k);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    cr_assert_neq(access(k.socket, F_OK), 0, "a daemon that ends takes its socket along");
    file_write(k.socket, "a file", 6);
    expect_start_fails(&k, NULL, 1, "is no socket");
    cr_assert_eq(access(k.socket, F_OK), 0);
    warmd_free(&k);
}

Test(lifecycle, a_missing_folder_of_the_socket_is_made_and_a_missing_parent_is_an_error)
{
    struct warmd k = warmd_new();
    char *folder = path_join(k.dir, "run");
    struct stat st;
    free(k.socket);
    k.socket = path_join(folder, "warmd.sock");
    warmd_start(&k, NULL);
    cr_assert_eq(stat(folder, &st), 0);
    cr_assert_eq(st.st_mode & 0777, geteuid() == 0 ? 0755 : 0700);
    cr_assert_eq(stat(k.socket, &st), 0);
    cr_assert_eq(st.st_mode & 0777, geteuid() == 0 ? 0666 : 0600);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    free(k.socket);
    k.socket = path_join(folder, "no/such/warmd.sock");
    expect_start_fails(&k, NULL, 1, "the folder of the socket");
    free(folder);
    warmd_free(&k);
}

Test(lifecycle, a_folder_in_which_others_could_replace_the_socket_is_refused)
{
    struct warmd k = warmd_new();
    char *folder = path_join(k.dir, "run"), *link = path_join(k.dir, "link");
    cr_assert(mkdir(folder, 0700) == 0 && chmod(folder, 0777) == 0);
    free(k.socket);
    k.socket = path_join(folder, "warmd.sock");
    expect_start_fails(&k, NULL, 1, "can be written by other users");
    if (geteuid() == 0) { /* a group that others are in */
        cr_assert(chown(folder, 0, 1) == 0 && chmod(folder, 0770) == 0);
        expect_start_fails(&k, NULL, 1, "can be written by other users");
    }
    cr_assert_neq(access(k.socket, F_OK), 0);
    cr_assert_eq(chmod(folder, 01777), 0); /* as /tmp */
    warmd_start(&k, NULL);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    if (two_users_can_be()) {
        cr_assert(chmod(folder, 0755) == 0 && chown(folder, 65534, 65534) == 0);
        expect_start_fails(&k, NULL, 1, "belongs to another user (uid 65534)");
        cr_assert(chown(folder, 0, 0) == 0 && symlink("run", link) == 0);
        cr_assert_eq(lchown(link, 65534, 65534), 0);
        free(k.socket);
        k.socket = path_join(link, "warmd.sock");
        expect_start_fails(&k, NULL, 1, "belongs to another user (uid 65534)");
    }
    free(folder);
    free(link);
    warmd_free(&k);
}

/* A socket that listens says that the daemon has started. The folder of this one is refused, too, but later. */
Test(lifecycle, the_socket_is_the_last_that_is_opened)
{
    struct warmd k = warmd_new();
    char *folder = path_join(k.dir, "run");
    char *options[] = {"--tier", "file:///nowhere", "--tier-revoked", "no-key", NULL};
    cr_assert(mkdir(folder, 0700) == 0 && chmod(folder, 0777) == 0);
    free(k.socket);
    k.socket = path_join(folder, "warmd.sock");
    expect_start_fails(&k, options, 1, "a key is written NAME:BASE64");
    expect_start_fails(&k, NULL, 1, "can be written by other users");
    free(folder);
    warmd_free(&k);
}

/* Starts a daemon that must refuse what another user could change. */
static void expect_refused(struct warmd *k, char *const *options)
{
    expect_start_fails(k, options, 1, "belongs to another user (uid 65534), who could change");
}

Test(lifecycle, a_store_that_another_user_owns_or_filled_is_refused)
{
    NEEDS_TWO_USERS();
    static const char *const parts[] = {"index", "index/data.mdb", "blobs", "tmp", "quarantine"};
    struct warmd k = warmd_new();
    warmd_start(&k, NULL);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    cr_assert(chmod(k.store, 0755) == 0 && chown(k.store, 65534, 65534) == 0);
    expect_refused(&k, NULL);
    cr_assert_eq(chown(k.store, 0, 0), 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *part = path_join(k.store, parts[i]);
        cr_assert_eq(chown(part, 65534, 65534), 0);
        expect_refused(&k, NULL);
        cr_assert_eq(chown(part, 0, 0), 0);
        free(part);
    }
    char *link = path_join(k.dir, "link"), *own = k.store;
    cr_assert(symlink(own, link) == 0 && lchown(link, 65534, 65534) == 0);
    k.store = link;
    expect_refused(&k, NULL);
    cr_assert_eq(lchown(link, 0, 0), 0);
    warmd_start(&k, NULL); /* root's link to root's store */
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    k.store = own;
    cr_assert_eq(chmod(own, 0777), 0);
    expect_start_fails(&k, NULL, 1, "can be written by other users");
    free(link);
    warmd_free(&k);
}

Test(lifecycle, a_file_in_the_store_of_another_user_is_not_served)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    char *out = NULL, value[100001];
    struct warm *w = warmd_libwarm(&k);
    struct warm_value got;
    memset(value, 'v', sizeof value);
    cr_assert_eq(warm_put(w, "big", 3, value, sizeof value, NULL), 0);
    warm_close(w);
    cr_assert_eq(run_command(&out, "chown -R 65534 '%s'/blobs/*/*", k.store), 0);
    free(out);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    w = warmd_libwarm(&k);
    cr_expect_neq(warm_get(w, "big", 3, 0, &got), 0);
    warm_close(w);
    warmd_down(&k);
}

Test(lifecycle, settings_and_a_worker_that_another_user_could_change_are_refused)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_new();
    char *file = path_join(k.dir, "warmd.conf"), *worker = path_join(k.dir, "warm-nvrtc");
    char *options[] = {"--config", file, NULL}, *named[] = {"--worker", worker, NULL};
    file_write(file, "max_size = 1G\n", 14);
    file_write(worker, "#!/bin/sh\n", 10);
    cr_assert_eq(chown(file, 65534, 65534), 0);
    expect_refused(&k, options);
    cr_assert(chown(file, 0, 0) == 0 && chmod(file, 0666) == 0);
    expect_start_fails(&k, options, 1, "can be written by other users");
    cr_assert(chown(worker, 65534, 65534) == 0 && chmod(worker, 0755) == 0);
    expect_refused(&k, named);
    char *tier[] = {"--tier", "file:///tmp/none", "--tier-key", file, NULL};
    cr_assert(chmod(file, 0600) == 0 && chown(file, 65534, 65534) == 0);
    expect_refused(&k, tier);
    free(file);
    free(worker);
    warmd_free(&k);
}

Test(lifecycle, wrong_options_are_named)
{
    struct warmd k = warmd_new();
    static char *const wrong[][3] = {{"--no-such", "1"}, {"--max-size", "much"}, {"--jobs"}, {"x"}};
    static const char *const named[] = {"no-such", "max_size", "--jobs", "\"x\""};
    for (size_t i = 0; i < 4; i++)
        expect_start_fails(&k, wrong[i], 2, named[i]);
    warmd_free(&k);
}

Test(lifecycle, a_store_that_cannot_be_written_is_an_error_of_one_line)
{
    struct warmd k = warmd_new();
    file_write(k.store, "a file", 6);
    expect_start_fails(&k, NULL, 1, k.store);
    warmd_free(&k);
}

Test(lifecycle, a_socket_that_was_passed_is_used_and_survives_the_daemon)
{
    struct warmd k = warmd_new();
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", k.socket);
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(listening, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(listening, 16), 0);
    for (int round = 0; round < 2; round++) {
        int early = warmd_connect(&k); /* before there is a daemon */
        char *program = bin_path("warmd");
        k.pid = fork();
        if (k.pid == 0) {
            char pid[16];
            int log = open(k.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
            dup2(log, 2);
            dup2(listening, 3);
            snprintf(pid, sizeof pid, "%d", (int)getpid());
            setenv("LISTEN_PID", pid, 1);
            setenv("LISTEN_FDS", "1", 1);
            execl(program, "warmd", "--store", k.store, (char *)NULL);
            _exit(127);
        }
        free(program);
        warmd_redis(early, "PING\r\n", "+PONG\r\n");
        close(early);
        kill(k.pid, SIGSEGV); /* it starts again, with the same socket */
        early = warmd_connect(&k);
        warmd_redis(early, "PING\r\n", "+PONG\r\n");
        close(early);
        kill(k.pid, SIGTERM);
        warmd_reap(k.pid);
        cr_assert_eq(access(k.socket, F_OK), 0);
    }
    close(listening);
    warmd_free(&k);
}

/* As systemd passes warmd.socket and warmd-admin.socket, in either order. */
Test(lifecycle, the_socket_that_is_called_admin_is_the_administrators)
{
    static const char *const orders[] = {"warmd.socket:admin", "admin:warmd"};
    for (int admin_first = 0; admin_first < 2; admin_first++) {
        struct warmd k = warmd_new();
        int fds[2];
        char *admin = path_join(k.dir, "admin.sock");
        for (int i = 0; i < 2; i++) {
            struct sockaddr_un a = {.sun_family = AF_UNIX};
            snprintf(a.sun_path, sizeof a.sun_path, "%s", i ? admin : k.socket);
            fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
            cr_assert_eq(bind(fds[i], (struct sockaddr *)&a, sizeof a), 0);
            cr_assert_eq(chmod(a.sun_path, i ? 0600 : 0666), 0);
            cr_assert_eq(listen(fds[i], 16), 0);
        }
        char *program = bin_path("warmd");
        k.pid = fork();
        if (k.pid == 0) {
            char pid[16];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int log = open(k.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
            int high[2] = {fcntl(fds[admin_first], F_DUPFD, 20),
                           fcntl(fds[!admin_first], F_DUPFD, 20)};
            dup2(log, 2);
            dup2(high[0], 3);
            dup2(high[1], 4);
            snprintf(pid, sizeof pid, "%d", (int)getpid());
            setenv("LISTEN_PID", pid, 1);
            setenv("LISTEN_FDS", "2", 1);
            setenv("LISTEN_FDNAMES", orders[admin_first], 1);
            execl(program, "warmd", "--store", k.store, (char *)NULL);
            _exit(127);
        }
        free(program);
        warmd_await(&k);
        cr_expect(warmd_may_verify(warmd_admin(&k)));
        cr_expect_not(warmd_may_verify(warmd_native(&k)));
        close(fds[0]);
        close(fds[1]);
        kill(k.pid, SIGTERM);
        warmd_reap(k.pid);
        cr_assert(access(k.socket, F_OK) == 0 && access(admin, F_OK) == 0, "they are systemd's");
        free(admin);
        warmd_free(&k);
    }
}

Test(lifecycle, the_service_manager_is_told)
{
    struct warmd k = warmd_new();
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/notify", k.dir);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    setenv("NOTIFY_SOCKET", a.sun_path, 1);
    setenv("WATCHDOG_USEC", "200000", 1);
    warmd_start(&k, NULL);
    static const char *const said[] = {"READY=1", "WATCHDOG=1", "RELOADING=1", "STOPPING=1"};
    for (size_t i = 0; i < 4; i++) {
        char text[512] = "";
        if (i == 2)
            kill(k.pid, SIGHUP);
        if (i == 3)
            kill(k.pid, SIGTERM);
        while (!strstr(text, said[i])) {
            struct pollfd p = {fd, POLLIN, 0};
            cr_assert_eq(poll(&p, 1, WARMD_WAIT_MS), 1, "%s did not come", said[i]);
            ssize_t n = recv(fd, text, sizeof text - 1, 0);
            text[n > 0 ? n : 0] = '\0';
        }
    }
    warmd_reap(k.pid);
    close(fd);
    warmd_free(&k);
}

/* Returns the slice of a process's first thread in ns, as sched_getattr(2) has it; 0 before Linux 6.12. */
static uint64_t slice_of(pid_t pid)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attr = {0};
    cr_assert_eq(syscall(SYS_sched_getattr, pid, &attr, sizeof attr, 0), 0);
    return attr.runtime_ns;
}

Test(lifecycle, the_loop_has_shorter_slices_than_other_processes)
{
    uint64_t usual = slice_of(getpid());
    struct warmd k = warmd_up(NULL);
    if (usual == 0) {
        warmd_down(&k);
        cr_skip_test("the kernel has no slices of a thread's own");
    }
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS;
         slice_of(k.pid) == usual && clock_now_ms() < end; usleep(5000))
        ;
    cr_expect_lt(slice_of(k.pid), usual);
    warmd_down(&k);
}

/* ---- signals ---- */

Test(lifecycle, sighup_reads_the_limits_again)
{
    struct warmd k = warmd_new();
    char *config = path_join(k.dir, "conf");
    file_write(config, "max_connections_per_user = 1\n", 29);
    char *options[] = {"--config", config, NULL};
    warmd_start(&k, options);
    file_write(config, "max_connections_per_user = 9\n", 29);
    kill(k.pid, SIGHUP);
    for (int i = 0; i < 1000 && !warmd_log_has(&k, "read again"); i++)
        usleep(10000);
    int a = warmd_connect(&k), b = warmd_connect(&k);
    warmd_redis(a, "PING\r\n", "+PONG\r\n");
    warmd_redis(b, "PING\r\n", "+PONG\r\n");
    file_write(config, "nonsense\n", 9);
    kill(k.pid, SIGHUP);
    for (int i = 0; i < 1000 && !warmd_log_has(&k, "not read again"); i++)
        usleep(10000);
    warmd_redis(a, "PING\r\n", "+PONG\r\n");
    close(a);
    close(b);
    free(config);
    warmd_down(&k);
}

/* Waits until the daemon's INFO or STATS has a text. */
static void await_text(const struct warmd *k, uint8_t type, const char *text)
{
    static struct warmd_frame f;
    struct wire_text m;
    bool has = false;
    int fd = warmd_native(k);
    for (uint64_t tag = 1; !has; tag++) {
        struct writer w;
        cr_assert_lt(tag, WARMD_WAIT_MS / 10, "%s", text);
        writer_init(&w, 0);
        wire_put_empty(&w, type, tag);
        warmd_flush(fd, &w);
        writer_close(&w);
        warmd_frame(fd, &f, WIRE_TEXT, tag);
        cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
        has = memmem(m.text.data, m.text.len, text, strlen(text)) != NULL;
        if (!has)
            usleep(10000);
    }
    close(fd);
}

Test(lifecycle, sighup_changes_the_cap_and_evicts_down_to_it)
{
    static const char before[] = "max_size = 64M\njobs = 3\n";
    static const char after[] = "max_size = 1M\nquota = 512K\njobs = 1\n";
    struct warmd k = warmd_new();
    char *config = path_join(k.dir, "conf"), *value = malloc(40000);
    file_write(config, before, sizeof before - 1);
    char *options[] = {"--config", config, NULL};
    warmd_start(&k, options);
    int fd = warmd_connect(&k);
    memset(value, 'x', 40000);
    for (int i = 0; i < 60; i++) {
        char head[64];
        int n = snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$2\r\n%02d\r\n$40000\r\n", i);
        warmd_send(fd, head, (size_t)n);
        warmd_send(fd, value, 40000);
        warmd_redis(fd, "\r\n", "+OK\r\n");
    }
    await_text(&k, WIRE_STATS, "\"entries\": 60,");
    await_text(&k, WIRE_INFO, "\"max_bytes\": 67108864,");
    file_write(config, after, sizeof after - 1);
    kill(k.pid, SIGHUP);
    await_text(&k, WIRE_INFO, "\"max_bytes\": 1048576,");
    await_text(&k, WIRE_INFO, "\"jobs\": {\"value\": 1, \"origin\": \"file\"}");
    await_text(&k, WIRE_INFO, "\"quota_bytes\": {\"value\": 524288, \"origin\": \"file\"}");
    for (int i = 0;; i++) { /* evicted in the background */
        static struct warmd_frame f;
        struct wire_text m;
        struct writer w;
        int native = warmd_native(&k);
        cr_assert_lt(i, WARMD_WAIT_MS / 10);
        writer_init(&w, 0);
        wire_put_empty(&w, WIRE_STATS, 1);
        warmd_flush(native, &w);
        writer_close(&w);
        warmd_frame(native, &f, WIRE_TEXT, 1);
        cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
        char *json = strndup(m.text.data, m.text.len);
        uint64_t bytes = strtoull(strstr(json, "\"bytes\": ") + 9, NULL, 10);
        free(json);
        close(native);
        if (bytes <= 1 << 20)
            break;
        usleep(10000);
    }
    close(fd);
    free(config);
    free(value);
    kill(k.pid, SIGTERM);
    cr_expect_eq(warmd_reap(k.pid), 0);
    cr_expect(warmd_log_has(&k, " bytes: the store was full\n"));
    warmd_free(&k);
}

Test(lifecycle, unknown_option_is_named_and_a_file_of_settings_is_checked)
{
    struct warmd k = warmd_new();
    char *program = bin_path("warmd"), *file = path_join(k.dir, "conf"), *out;
    cr_expect_eq(run_command(&out, "%s --nope 2>&1", program), 2);
    cr_expect_not_null(strstr(out, "unknown option --nope"), "%s", out);
    free(out);
    cr_expect_eq(run_command(&out, "%s --max-sise 1G 2>&1", program), 2);
    cr_expect_not_null(strstr(out, "did you mean --max-size?"), "as --help spells it: %s", out);
    free(out);
    file_write(file, "jobs = 2\n", 9);
    cr_expect_eq(run_command(&out, "%s --check-config %s 2>&1", program, file), 0);
    cr_expect_str_eq(out, "");
    free(out);
    file_write(file, "jobs = x\n", 9);
    cr_expect_eq(run_command(&out, "%s --check-config %s 2>&1", program, file), 2);
    cr_expect_not_null(strstr(out, ":1: jobs: "), "%s", out);
    free(out);
    free(file);
    free(program);
    warmd_free(&k);
}

Test(lifecycle, store_is_checked_without_a_daemon)
{
    struct warmd k = warmd_up(NULL);
    char *program = bin_path("warmd"), *out;
    cr_expect_eq(run_command(&out, "%s --check-store %s 2>&1", program, k.store), 1);
    cr_expect_not_null(strstr(out, "is in use by process"), "%s", out);
    free(out);
    kill(k.pid, SIGTERM);
    cr_expect_eq(warmd_reap(k.pid), 0);
    cr_expect_eq(run_command(&out, "%s --check-store %s 2>&1", program, k.store), 0);
    cr_expect_not_null(strstr(out, ": format 2, "), "%s", out);
    free(out);
    free(program);
    warmd_free(&k);
}

Test(lifecycle, idle_exit_ends_a_daemon_without_clients_and_no_other)
{
    struct warmd k = warmd_new();
    warmd_start(&k, (char *[]){"--idle-exit", "1s", NULL});
    int fd = warmd_native(&k);
    cr_expect(warmd_is_silent(fd, 2500), "it stays while a client is connected");
    cr_expect_eq(waitpid(k.pid, NULL, WNOHANG), 0);
    close(fd);
    int status = warmd_reap(k.pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    cr_expect(warmd_log_has(&k, "no client for idle_exit"));
    warmd_free(&k);
}

Test(lifecycle, a_daemon_whose_socket_was_removed_ends_after_its_last_client)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native(&k);
    cr_assert_eq(unlink(k.socket), 0);
    cr_expect(warmd_is_silent(fd, 1500), "it stays while a client is connected");
    cr_expect_eq(waitpid(k.pid, NULL, WNOHANG), 0);
    close(fd);
    int status = warmd_reap(k.pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    cr_expect(warmd_log_has(&k, "its socket was removed"));
    warmd_free(&k);
}

Test(lifecycle, sigterm_answers_what_was_put_before)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_send(fd, "SET a 1\r\nSET b 2\r\n", 18);
    warmd_redis(fd, "", "+OK\r\n");
    kill(k.pid, SIGTERM);
    warmd_redis(fd, "", "+OK\r\n");
    cr_assert(warmd_is_closed(fd));
    close(fd);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    fd = warmd_connect(&k);
    warmd_redis(fd, "MGET a b\r\n", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    close(fd);
    warmd_down(&k);
}

Test(lifecycle, what_was_acknowledged_survives_sigkill)
{
    struct warmd k = warmd_up(NULL);
    for (int round = 0; round < 5; round++) {
        char command[64], answer[64];
        int fd = warmd_connect(&k);
        snprintf(command, sizeof command, "SET round %d\r\n", round);
        warmd_redis(fd, command, "+OK\r\n");
        warmd_send(fd, "SET round x", 11); /* and one that never was whole */
        kill(k.pid, SIGKILL);
        warmd_reap(k.pid);
        close(fd);
        warmd_start(&k, NULL);
        fd = warmd_connect(&k);
        snprintf(answer, sizeof answer, "$1\r\n%d\r\n", round);
        warmd_redis(fd, "GET round\r\n", answer);
        close(fd);
    }
    warmd_down(&k);
}

Test(lifecycle, statistics_survive_a_restart)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_redis(fd, "SET a 1\r\n", "+OK\r\n");
    for (int i = 0; i < 3; i++)
        warmd_redis(fd, "GET a\r\n", "$1\r\n1\r\n");
    close(fd);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, NULL);
    static struct warmd_frame f;
    struct wire_text text;
    struct writer w;
    writer_init(&w, 0);
    fd = warmd_native(&k);
    wire_put_empty(&w, WIRE_STATS, 2);
    warmd_flush(fd, &w);
    warmd_frame(fd, &f, WIRE_TEXT, 2);
    cr_assert_eq(wire_get_text(&f.frame, &text, NULL), 0);
    char *json = strndup(text.text.data, text.text.len);
    cr_assert_not_null(strstr(json, "{\"hits\": 0,"), "%s", json);
    cr_assert_not_null(strstr(json, "\"lifetime\": {\"hits\": 3,"), "%s", json);
    free(json);
    writer_close(&w);
    close(fd);
    warmd_down(&k);
}

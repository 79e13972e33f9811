/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_file.c - a folder as a backend: objects are whole or absent, and errors are no misses. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/support.h"

struct folder {
    char *path;
    struct backend_kit kit;
};

static void open_folder(struct folder *f)
{
    char url[4096];
    f->path = temp_dir_new();
    snprintf(url, sizeof url, "file://%s", f->path);
    backend_open(&f->kit, url, NULL);
}

static void close_folder(struct folder *f)
{
    backend_close(&f->kit);
    temp_dir_free(f->path);
}

static enum tier_outcome put(struct folder *f, const char *name, const char *text, bool if_absent)
{
    struct tier_request r = {.operation = TIER_PUT, .only_if_absent = if_absent};
    snprintf(r.name, sizeof r.name, "%s", name);
    return backend_send(&f->kit, r, text);
}

static enum tier_outcome get(struct folder *f, const char *name, uint64_t limit, char out[64])
{
    struct tier_request r = {.operation = TIER_GET, .limit = limit};
    snprintf(r.name, sizeof r.name, "%s", name);
    memset(out, 0, 64);
    if (backend_run(&f->kit, &r) == TIER_OK) {
        cr_assert_eq(pread(r.result_fd, out, 63, 0), (ssize_t)r.result_length);
        close(r.result_fd);
    } else {
        cr_assert(*r.said, "it says why");
    }
    return r.outcome;
}

Test(tier_file, an_object_comes_back_as_it_was_put)
{
    struct folder f;
    char out[64];
    open_folder(&f);
    cr_assert_eq(get(&f, "ab/e-abcd", 64, out), TIER_ABSENT);
    cr_assert_eq(put(&f, "ab/e-abcd", "value", false), TIER_OK);
    cr_assert_eq(get(&f, "ab/e-abcd", 64, out), TIER_OK);
    cr_assert_str_eq(out, "value");
    cr_assert_eq(put(&f, "ab/e-abcd", "another", false), TIER_OK);
    cr_assert_eq(get(&f, "ab/e-abcd", 64, out), TIER_OK);
    cr_assert_str_eq(out, "another");
    cr_assert_eq(put(&f, "ab/e-abcd", "third", true), TIER_EXISTS);
    cr_assert_eq(get(&f, "ab/e-abcd", 6, out), TIER_TOO_LARGE);
    close_folder(&f);
}

Test(tier_file, a_folder_that_is_gone_is_no_miss)
{
    struct folder f;
    char out[64];
    open_folder(&f);
    cr_assert_eq(rmdir(f.path), 0);
    cr_assert_eq(get(&f, "ab/e-abcd", 64, out), TIER_MISSET);
    cr_assert_eq(put(&f, "ab/e-abcd", "value", false), TIER_MISSET);
    cr_assert_neq(access(f.path, F_OK), 0, "and is not made");
    close_folder(&f);
}

Test(tier_file, the_probe_tells_what_the_folder_can_do)
{
    struct folder f;
    open_folder(&f);
    struct tier_request r = {.operation = TIER_PROBE, .name = "probe-here"};
    cr_assert_eq(backend_run(&f.kit, &r), TIER_OK);
    cr_assert(r.capabilities.reads && r.capabilities.writes && r.capabilities.conditional);
    cr_assert_not(r.capabilities.leases);
    cr_assert_lt(r.capabilities.clock_skew_ms, 5000);
    struct tier_request ask = {.operation = TIER_ASK, .name = "ab/e-abcd"};
    cr_assert_eq(backend_run(&f.kit, &ask), TIER_CANNOT);
    close_folder(&f);
}

/* Makes the folder a file system of its own, of 1 MiB, for this test alone. */
static void mount_folder(const struct folder *f)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("warm-test", f->path, "tmpfs", 0, "size=1m,mode=755") != 0)
        cr_skip_test("needs root, to mount a file system");
}

static unsigned count_files(const struct folder *f)
{
    char *out;
    run_command(&out, "find %s -type f | wc -l", f->path);
    unsigned n = (unsigned)atoi(out);
    free(out);
    return n;
}

Test(tier_file, a_full_folder_keeps_what_it_has_and_no_part_of_the_rest)
{
    struct folder f;
    char out[64], *large = malloc(2 << 20);
    open_folder(&f);
    mount_folder(&f);
    memset(large, 'x', (2 << 20) - 1);
    large[(2 << 20) - 1] = '\0';
    cr_assert_eq(put(&f, "ab/e-1", "value", false), TIER_OK);
    struct tier_request r = {.operation = TIER_PUT, .name = "ab/e-2"};
    r = backend_send_whole(&f.kit, r, large);
    cr_assert_eq(r.outcome, TIER_FAILED, "%s", r.said);
    cr_assert_str_eq(r.said, "No space left on device");
    cr_assert_eq(get(&f, "ab/e-2", 64, out), TIER_ABSENT);
    cr_assert_eq(get(&f, "ab/e-1", 64, out), TIER_OK);
    cr_assert_str_eq(out, "value");
    cr_assert_eq(count_files(&f), 1, "no .new- is left");
    cr_assert_eq(put(&f, "ab/e-3", "there is room again", false), TIER_OK);
    free(large);
    close_folder(&f);
}

Test(tier_file, a_folder_that_is_read_only_is_read)
{
    struct folder f;
    char out[64];
    open_folder(&f);
    mount_folder(&f);
    cr_assert_eq(put(&f, "ab/e-1", "value", false), TIER_OK);
    cr_assert_eq(mount("none", f.path, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    cr_assert_eq(get(&f, "ab/e-1", 64, out), TIER_OK);
    cr_assert_str_eq(out, "value");
    struct tier_request r = {.operation = TIER_PUT, .name = "ab/e-2"};
    r = backend_send_whole(&f.kit, r, "x");
    cr_assert_eq(r.outcome, TIER_DENIED, "%s", r.said);
    cr_assert_str_eq(r.said, "Read-only file system");
    cr_assert_eq(put(&f, "cd/e-2", "x", false), TIER_DENIED, "and makes no folder");
    struct tier_request probe = {.operation = TIER_PROBE, .name = "probe-here"};
    cr_assert_eq(backend_run(&f.kit, &probe), TIER_OK);
    cr_assert(probe.capabilities.reads && !probe.capabilities.writes);
    cr_assert(strstr(probe.capabilities.said, "not written"), "%s", probe.capabilities.said);
    cr_assert_eq(mount("none", f.path, NULL, MS_REMOUNT, NULL), 0);
    close_folder(&f);
}

Test(tier_file, a_folder_of_somebody_else_is_read_and_what_is_no_file_is_no_object)
{
    struct folder f;
    char out[64];
    if (geteuid() != 0)
        cr_skip_test("needs root, to become another user");
    open_folder(&f);
    cr_assert_eq(put(&f, "ab/e-1", "value", false), TIER_OK);
    cr_assert_eq(put(&f, "ab/e-2", "nobody else's", false), TIER_OK);
    char *shell;
    cr_assert_eq(run_command(&shell,
                             "cd %s && chmod 755 . v1 v1/ab && chmod 600 v1/ab/e-2 && "
                             "mkfifo -m 644 v1/ab/e-3 && ln -s e-1 v1/ab/e-4 && mkdir v1/ab/e-5",
                             f.path),
                 0);
    free(shell);
    cr_assert_eq(seteuid(12345), 0);
    cr_assert_eq(get(&f, "ab/e-1", 64, out), TIER_OK);
    cr_assert_str_eq(out, "value");
    cr_assert_eq(get(&f, "ab/e-2", 64, out), TIER_FAILED, "an error of that object alone");
    cr_assert_eq(get(&f, "ab/e-3", 64, out), TIER_FAILED, "a pipe");
    cr_assert_eq(get(&f, "ab/e-4", 64, out), TIER_FAILED, "a link may lead anywhere");
    cr_assert_eq(get(&f, "ab/e-5", 64, out), TIER_FAILED, "a folder");
    cr_assert_eq(put(&f, "ab/e-6", "x", false), TIER_DENIED);
    cr_assert_eq(put(&f, "cd/e-7", "x", false), TIER_DENIED);
    cr_assert_eq(seteuid(0), 0);
    run_command(&shell, "chmod 700 %s/v1/ab", f.path);
    free(shell);
    cr_assert_eq(seteuid(12345), 0);
    cr_assert_eq(get(&f, "ab/e-1", 64, out), TIER_FAILED, "a folder of some objects");
    cr_assert_eq(get(&f, "cd/e-1", 64, out), TIER_ABSENT, "the others are read");
    cr_assert_eq(seteuid(0), 0);
    run_command(&shell, "chmod 700 %s/v1", f.path);
    free(shell);
    cr_assert_eq(seteuid(12345), 0);
    cr_assert_eq(get(&f, "ab/e-1", 64, out), TIER_DENIED, "no object can be read");
    cr_assert_eq(seteuid(0), 0);
    close_folder(&f);
}

/* Was: DENIED, which switches all writes off; with mode 0700 even EXISTS, which counts as sent. */
Test(tier_file, a_subfolder_of_another_user_refuses_its_own_objects_alone)
{
    static const char *const modes[] = {"755", "700"};
    struct folder f;
    char *shell, out[64];
    if (geteuid() != 0)
        cr_skip_test("needs root, to become another user");
    open_folder(&f);
    cr_assert_eq(put(&f, "ab/e-1", "root's", false), TIER_OK);
    cr_assert_eq(run_command(&shell, "cd %s && chmod 777 . v1", f.path), 0);
    free(shell);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cr_assert_eq(run_command(&shell, "chmod %s %s/v1/ab", modes[i], f.path), 0);
        free(shell);
        cr_assert_eq(seteuid(12345), 0);
        struct tier_request r = {.operation = TIER_PUT, .name = "ab/e-2"};
        r = backend_send_whole(&f.kit, r, "x");
        cr_assert_eq(r.outcome, TIER_CANNOT, "%s: %d %s", modes[i], r.outcome, r.said);
        cr_assert(strstr(r.said, "another user's: Permission denied"), "%s", r.said);
        cr_assert_eq(put(&f, "cd/e-3", "x", false), TIER_OK, "the others are written");
        cr_assert_eq(seteuid(0), 0);
    }
    cr_assert_eq(get(&f, "ab/e-2", 64, out), TIER_ABSENT);
    cr_assert_eq(run_command(&shell, "chmod 755 %s/v1", f.path), 0);
    free(shell);
    cr_assert_eq(seteuid(12345), 0);
    cr_assert_eq(put(&f, "ab/e-2", "x", false), TIER_DENIED, "nothing of it can be written");
    cr_assert_eq(seteuid(0), 0);
    close_folder(&f);
}

/* Puts, gets and probes with a link in place of a folder; nothing may come to be where it leads. */
static void expect_not_followed(struct folder *f, const char *link, const char *name)
{
    char out[64], *target = temp_dir_new(), *at = path_join(f->path, link);
    char *inside = path_join(target, "e-abcd"), *sub = path_join(target, "ab");
    cr_assert_eq(mkdir(sub, 0700), 0);
    file_write(inside, "secret", 6);
    cr_assert_eq(symlink(target, at), 0);
    cr_expect_eq(put(f, name, "the object", false), TIER_CANNOT, "%s", link);
    cr_expect_eq(put(f, name, "the object", true), TIER_CANNOT, "%s", link);
    cr_expect_eq(get(f, name, 64, out), TIER_FAILED, "%s", link);
    struct tier_request probe = {.operation = TIER_PROBE, .name = "probe-host"};
    backend_run(&f->kit, &probe);
    cr_expect_eq(rmdir(sub), 0, "something was written by the link %s", link);
    cr_assert_eq(unlink(inside), 0);
    cr_expect_eq(rmdir(target), 0, "something was written by the link %s", link);
    cr_assert_eq(unlink(at), 0);
    free(target);
    free(at);
    free(inside);
    free(sub);
}

Test(tier_file, a_folder_with_the_name_of_an_object_refuses_that_object_alone)
{
    struct folder f;
    char *shell;
    open_folder(&f);
    cr_assert_eq(run_command(&shell, "mkdir -p %s/v1/ab/e-1", f.path), 0);
    free(shell);
    cr_expect_eq(put(&f, "ab/e-1", "x", false), TIER_CANNOT, "not a failure of the tier");
    cr_expect_eq(put(&f, "ab/e-2", "x", false), TIER_OK);
    close_folder(&f);
}

Test(tier_file, no_link_below_the_folder_is_followed)
{
    struct folder f;
    open_folder(&f);
    expect_not_followed(&f, "v1", "ab/e-abcd");
    cr_assert_eq(put(&f, "cd/e-abcd", "the object", false), TIER_OK);
    expect_not_followed(&f, "v1/ab", "ab/e-abcd");
    cr_assert_eq(put(&f, "ab/e-abcd", "the object", false), TIER_OK);
    close_folder(&f);
}

Test(tier_file, a_cancelled_request_ends_once)
{
    struct folder f;
    unsigned n = 0;
    open_folder(&f);
    struct tier_request r = {.operation = TIER_GET,
                             .name = "ab/e-abcd",
                             .timeout_ms = 5000,
                             .user = &n,
                             .done = backend_on_done};
    f.kit.backend->functions->start(f.kit.backend, &r);
    f.kit.backend->functions->cancel(f.kit.backend, &r);
    uv_run(&f.kit.loop, UV_RUN_DEFAULT);
    cr_assert_eq(n, 1);
    close_folder(&f);
}

Test(tier_file, wrong_urls_are_refused_with_a_line_that_says_what_to_write)
{
    static const char *const wrong[] = {
        "file://host/folder", "file:///a?mode=ro", "ftp://host/", "/folder", "://", ""};
    uv_loop_t loop;
    uv_loop_init(&loop);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char why[200] = "";
        cr_assert_null(
            tier_backend_new(&loop, &(struct tier_settings){.url = wrong[i]}, why, sizeof why));
        cr_assert(strstr(why, "file://"), "%s: %s", wrong[i], why);
    }
    uv_loop_close(&loop);
}

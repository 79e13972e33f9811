/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_file.c - a folder as a backend: objects are whole or absent, and errors are no misses. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/support.h"
#include "tier/backend.h"

struct folder {
    char path[64];
    uv_loop_t loop;
    struct tier_backend *backend;
};

static void on_closed(void *user) { *(bool *)user = true; }

static void open_folder(struct folder *f)
{
    char url[128], why[200];
    snprintf(f->path, sizeof f->path, "/tmp/warm-tier-XXXXXX");
    cr_assert(mkdtemp(f->path));
    snprintf(url, sizeof url, "file://%s", f->path);
    cr_assert_eq(uv_loop_init(&f->loop), 0);
    f->backend = tier_backend_new(&f->loop, &(struct tier_settings){.url = url}, why, sizeof why);
    cr_assert(f->backend, "%s", why);
}

static void close_folder(struct folder *f)
{
    bool closed = false;
    f->backend->functions->close(f->backend, on_closed, &closed);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    cr_assert(closed);
    cr_assert_eq(uv_loop_close(&f->loop), 0);
}

static void on_done(struct tier_request *r) { *(unsigned *)r->user += 1; }

/* Runs one request to its end, which comes once. */
static enum tier_outcome run(struct folder *f, struct tier_request *r)
{
    unsigned n = 0;
    r->user = &n;
    r->done = on_done;
    r->timeout_ms = 5000;
    f->backend->functions->start(f->backend, r);
    cr_assert_eq(n, 0, "not from within the call");
    uv_run(&f->loop, UV_RUN_DEFAULT);
    cr_assert_eq(n, 1);
    return r->outcome;
}

static enum tier_outcome put(struct folder *f, const char *name, const char *text, bool if_absent)
{
    struct tier_request r = {.operation = TIER_PUT, .only_if_absent = if_absent};
    snprintf(r.name, sizeof r.name, "%s", name);
    r.fd = memfd_create("test", MFD_CLOEXEC);
    r.offset = 3; /* the value lies inside a longer file */
    r.length = strlen(text);
    cr_assert_eq(pwrite(r.fd, text, strlen(text), 3), (ssize_t)strlen(text));
    cr_assert_eq(pwrite(r.fd, "more", 4, (off_t)strlen(text) + 3), 4);
    enum tier_outcome outcome = run(f, &r);
    close(r.fd);
    return outcome;
}

static enum tier_outcome get(struct folder *f, const char *name, uint64_t limit, char out[64])
{
    struct tier_request r = {.operation = TIER_GET, .limit = limit};
    snprintf(r.name, sizeof r.name, "%s", name);
    memset(out, 0, 64);
    if (run(f, &r) == TIER_OK) {
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
    cr_assert_eq(run(&f, &r), TIER_OK);
    cr_assert(r.capabilities.reads && r.capabilities.writes && r.capabilities.conditional);
    cr_assert_not(r.capabilities.leases);
    cr_assert_lt(r.capabilities.clock_skew_ms, 5000);
    struct tier_request ask = {.operation = TIER_ASK, .name = "ab/e-abcd"};
    cr_assert_eq(run(&f, &ask), TIER_CANNOT);
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
                             .done = on_done};
    f.backend->functions->start(f.backend, &r);
    f.backend->functions->cancel(f.backend, &r);
    uv_run(&f.loop, UV_RUN_DEFAULT);
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

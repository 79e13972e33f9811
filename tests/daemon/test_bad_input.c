/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bad_input.c - sources that attack, and a disk that is full, from the client to the compiler and
 * back: each costs its own request, says what is wrong in one line, and loses nothing. (What never
 * ends is in test_pool_sources.c, where a deadline is short.)
 *
 * Needs a toolchain: see support/pool.h.
 */
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "client/lib/warm.h"
#include "tests/support/warmd.h"

#define GOOD "extern \"C\" __global__ void k(float *x) { x[threadIdx.x] *= 2; }\n"

static int compile(struct warm *w, const char *source, size_t len, const char *option,
                   struct warm_result *out)
{
    const char *options[] = {"--gpu-architecture=sm_90", option};
    struct warm_job job = {.name = "/nowhere/k.cu",
                           .source = source,
                           .source_len = len,
                           .options = options,
                           .n_options = option ? 2 : 1,
                           .cwd = "/"};
    *out = (struct warm_result){0};
    return warm_compile(w, &job, out);
}

static void expect_good(struct warm *w, int outcome)
{
    struct warm_result r;
    cr_assert_eq(compile(w, GOOD, strlen(GOOD), NULL, &r), 0, "%s", warm_message(w));
    cr_assert_eq(r.status, 0);
    cr_assert_eq((int)r.value.outcome, outcome);
    warm_result_free(&r);
}

/* ---- sources ---- */

static struct view nested(char *out)
{
    enum { DEPTH = 200000 };
    size_t n = (size_t)sprintf(out, "extern \"C\" __global__ void p(int *x) { x[0] = ");
    memset(out + n, '(', DEPTH);
    out[n + DEPTH] = '1';
    memset(out + n + DEPTH + 1, ')', DEPTH);
    n += 2 * DEPTH + 1;
    return (struct view){out, n + (size_t)sprintf(out + n, "; }\n")};
}

/* A comment of that many bytes, and a kernel. */
static struct view large(char *out, size_t bytes)
{
    memset(out, '/', bytes);
    return (struct view){out, bytes + (size_t)sprintf(out + bytes, "\n" GOOD)};
}

/* `code`: the expected result of warm_compile; if 0, the compiler must refuse. */
static void expect(struct warm *w, const char *what, struct view source, const char *option,
                   int code, bool refused, const char *text)
{
    struct warm_result r;
    int got = compile(w, source.data, source.len, option, &r);
    cr_assert_eq(got, code, "%s: %s: %s", what, warm_error_name(got), warm_message(w));
    if (code) {
        cr_assert_not_null(strstr(warm_message(w), text), "%s: %s", what, warm_message(w));
        cr_assert_null(strchr(warm_message(w), '\n'), "%s", what);
    } else {
        cr_assert_eq(r.status != 0, refused, "%s: %d", what, r.status);
        cr_assert(!refused || memmem(r.log.data, r.log.len, text, strlen(text)), "%s: %.*s", what,
                  (int)r.log.len, (const char *)r.log.data);
        cr_assert(!r.log.len || !memmem(r.log.data, r.log.len, "root:", 5), "%s", what);
        warm_result_free(&r);
    }
    expect_good(w, WARM_HIT);
}

Test(bad_input, each_costs_its_own_request_and_says_what_is_wrong, .timeout = 300)
{
    char *lib = toolchain_lib("13.5.37");
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {"--nvrtc", lib, "--jobs", "2", NULL};
    struct warmd k = warmd_up(options);
    struct warm *w = warmd_libwarm(&k);
    static const char nul[] = "// fine\n// not \0 fine\n" GOOD,
                      passwd[] = "#include \"/etc/passwd\"\n";
    char *out = malloc((66u << 20) + 4096);
    struct view good = {GOOD, strlen(GOOD)};
    expect_good(w, WARM_MISS);
    expect(w, "empty", (struct view){"", 0}, NULL, 0, false, "");
    expect(w, "NUL", (struct view){nul, sizeof nul - 1}, NULL, WARM_EINVALID, false,
           "NUL byte in line 2");
    expect(w, "unknown option", good, "--no-such-option", WARM_EREFUSED, false,
           "an unknown option");
    expect(w, "unknown target", good, "-arch=sm_12345", WARM_EREFUSED, false, "an unknown target");
    expect(w, "/etc/passwd", (struct view){passwd, sizeof passwd - 1}, NULL, 0, true,
           "cannot open source file");
    expect(w, "parentheses", nested(out), NULL, 0, false, "");
    expect(w, "50 MB", large(out, 50u << 20), NULL, 0, false, "");
    expect(w, "65 MiB", large(out, 65u << 20), NULL, WARM_ETOO_BIG, false, "limit");
    free(out);
    warm_close(w);
    free(lib);
    warmd_down(&k);
}

/* ---- a full disk ---- */

Test(bad_input, a_full_disk_is_served_from_and_compiled_on_and_told)
{
    static uint8_t value[1 << 20];
    char *lib = toolchain_lib("13.5.37");
    struct warmd k = warmd_new();
    cr_assert_eq(mkdir(k.store, 0700), 0);
    if (!lib ||
        mount("warm-test", k.store, "tmpfs", MS_NOSUID | MS_NODEV, "size=24m,mode=700") != 0) {
        warmd_free(&k);
        cr_skip_test("needs a CUDA toolchain and the right to mount a tmpfs");
    }
    /* by default the store would leave room on the disk */
    char *options[] = {"--nvrtc", lib, "--jobs", "1", "--max-size", "1G", "--min-free", "0", NULL},
         *ballast = path_join(k.store, "ballast");
    warmd_start(&k, options);
    struct warm *w = warmd_libwarm(&k);
    struct warm_value v;
    struct statvfs vfs;
    cr_assert_eq(warm_put(w, "before", 6, value, 1000, NULL), 0);
    cr_assert_eq(statvfs(k.store, &vfs), 0);
    int fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_eq(posix_fallocate(fd, 0, (off_t)(vfs.f_bavail * vfs.f_frsize - 60000)), 0);
    close(fd);
    cr_assert_eq(warm_put(w, "large", 5, value, sizeof value, NULL), WARM_EFULL, "%s",
                 warm_message(w));
    expect_good(w, WARM_MISS);
    cr_assert_eq(warm_get(w, "before", 6, 0, &v), 0, "%s", warm_message(w));
    warm_value_free(&v);
    cr_assert(warmd_log_has(&k, "no space"), "it says so");
    cr_assert_eq(unlink(ballast), 0);
    cr_assert_eq(warm_put(w, "large", 5, value, sizeof value, NULL), 0, "%s", warm_message(w));
    warm_close(w);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    umount2(k.store, MNT_DETACH);
    free(ballast);
    free(lib);
    warmd_free(&k);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_kit.c - runs daemons with a tier. Suites of the daemon's side of the tier call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/tier_kit.h"

#include <ftw.h>

#include "tier/signing.h"

#define OPTIONS_MAX 24

char *tier_folder, *tier_key_file, tier_url[128];

void tier_make_key(const char *name, const char *path)
{
    struct signing_key key;
    char text[KEY_TEXT_MAX];
    cr_assert(signing_init());
    cr_assert_eq(signing_make(name, &key, NULL), 0);
    signing_write(&key, text);
    file_write(path, text, strlen(text));
    cr_assert_eq(chmod(path, 0600), 0);
}

void tier_setup(void)
{
    tier_folder = temp_dir_new();
    tier_key_file = path_join(tier_folder, "key");
    snprintf(tier_url, sizeof tier_url, "file://%s", tier_folder);
    tier_make_key("node-1", tier_key_file);
}

void tier_teardown(void)
{
    compile_teardown();
    temp_dir_free(tier_folder);
    free(tier_key_file);
}

void tier_up_again(struct warmd *k, char *nvrtc, char *key, char *const *more)
{
    char *options[OPTIONS_MAX] = {"--tier",          tier_url, "--tier-key", key,
                                  "--tier-min-cost", "0",      "--nvrtc",    nvrtc};
    size_t n = nvrtc ? 8 : 6;
    while (more && *more && n < OPTIONS_MAX - 1)
        options[n++] = *more++;
    options[n] = NULL;
    warmd_start(k, options);
}

struct warmd tier_up(char *nvrtc, char *key, char *const *more)
{
    struct warmd k = warmd_new();
    tier_up_again(&k, nvrtc, key, more);
    return k;
}

static unsigned n_objects;
static int count_object(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    n_objects += type == FTW_F && strstr(path, "/v1/") && !strstr(path, "/.new-") && at->level > 1;
    return 0;
}

unsigned count_objects(void)
{
    n_objects = 0;
    nftw(tier_folder, count_object, 8, FTW_PHYS);
    return n_objects;
}

void await_objects(unsigned n)
{
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(5000))
        if (count_objects() >= n)
            return;
    cr_assert_fail("%u objects instead of %u", n_objects, n);
}

void await_log(const struct warmd *k, const char *text)
{
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(5000))
        if (warmd_log_has(k, text))
            return;
    cr_assert_fail("the log has no \"%s\"", text);
}

void await_stats(const struct warmd *k, const char *text)
{
    char *stats = NULL;
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(5000)) {
        free(stats);
        stats = warmd_stats(k);
        if (strstr(stats, text)) {
            free(stats);
            return;
        }
    }
    cr_assert_fail("the stats have no %s: %s", text, stats);
}

void put_one(const struct warmd *k, const char *name, const char *value)
{
    int fd = warmd_native(k);
    warmd_put(fd, 1, name, value, 0);
    warmd_expect(fd, 1, WIRE_OK);
    close(fd);
}

/* Reads frames up to the answer of a GET, and returns its type. */
static uint8_t get_one(const struct warmd *k, const char *name, struct warmd_frame *f)
{
    int fd = warmd_native(k);
    warmd_get(fd, 2, name, false, 0);
    do
        cr_assert(warmd_frame_try(fd, f));
    while (f->frame.type == WIRE_WAIT);
    close(fd);
    return f->frame.type;
}

void expect_value(const struct warmd *k, const char *name, const char *value)
{
    static struct warmd_frame f;
    struct wire_hit hit;
    cr_assert_eq(get_one(k, name, &f), WIRE_HIT);
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(hit.len, strlen(value));
    cr_assert_eq(memcmp(hit.value.data, value, strlen(value)), 0);
}

void expect_miss(const struct warmd *k, const char *name)
{
    static struct warmd_frame f;
    cr_assert_eq(get_one(k, name, &f), WIRE_MISS);
}

struct key make_kernels(const struct warmd *k)
{
    struct ask a = ask_of(TIER_SOURCE), b = ask_of(TIER_WITH_HEADER);
    struct key made;
    int fd = warmd_native(k);
    lead_compile(fd, 1, &a, 0, "");
    expect_cubin(fd, 1, &made);
    lead_compile(fd, 2, &b, 0, "#define N 7\n");
    warmd_expect(fd, 2, WIRE_HIT);
    close(fd);
    return made;
}

void expect_kernels(const struct warmd *k, const struct key *made)
{
    struct ask a = ask_of(TIER_SOURCE), b = ask_of(TIER_WITH_HEADER);
    struct key found;
    int fd = warmd_native(k);
    send_compile(fd, 3, &a, 0);
    cr_assert_eq(expect_cubin(fd, 3, &found), WIRE_WAS_HIT);
    cr_assert(key_equal(made, &found));
    send_compile(fd, 4, &b, 0);
    cr_assert_eq(expect_cubin_with(fd, 4, "#define N 7\n", NULL), WIRE_WAS_HIT);
    close(fd);
    cr_assert(warmd_stats_have(k, "\"compiles\": 0"));
}

pid_t helper_of(const struct warmd *k)
{
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; clock_now_ms() < end; usleep(5000)) {
        char *out;
        run_command(&out, "pgrep -x warm-tier -s $(pgrep -P %d)", (int)k->pid);
        pid_t pid = (pid_t)atoi(out);
        free(out);
        if (pid > 0)
            return pid;
    }
    cr_assert_fail("there is no helper");
    return -1;
}

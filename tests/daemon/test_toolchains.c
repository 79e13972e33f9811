/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_toolchains.c - toolchains are found by version and by identity, remembered, and seen to change.
 *
 * Needs a toolchain, see tests/support/pool.h.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keygen/key.h"
#include "tests/support/pool.h"
#include "tests/support/support.h"

TestSuite(toolchains, .timeout = 300);

/* ---- toolchains ---- */

static void add_content(struct key_builder *b, uint32_t tag, const char *folder, const char *name)
{
    size_t len;
    char *path = path_join(folder, name), *data = file_read(path, &len);
    struct proof proof = proof_of_bytes(data, len);
    key_add_u64(b, tag, len);
    key_add(b, tag, &proof, sizeof proof);
    free(path);
    free(data);
}

/* One library's results stand for another's if both have one identity. */
Test(toolchains, identity_of_a_toolchain_is_its_sha256)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *folder = toolchain_lib("13.5.37");
    const struct toolchain *t;
    struct key_builder b;
    struct key xxh3;
    struct proof proof;
    key_begin(&b, "nvrtc/2");
    add_content(&b, 1, folder, "libnvrtc.so.13");
    add_content(&b, 2, folder, "libnvrtc-builtins.so.13.5");
    key_end(&b, &xxh3, &proof);
    cr_assert_eq(pool_find(r.pool, (struct view){"13.5", 4}, true, &t, NULL), 0);
    cr_assert_eq(memcmp(&t->id, &proof, sizeof t->id), 0);
    rig_stop(&r);
    free(folder);
}

Test(toolchains, finds_toolchains_by_version_and_by_identity)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    const struct toolchain *list[4], *t;
    cr_assert_eq(pool_toolchains(r.pool, list, 4), 2u);
    struct err e;
    cr_assert_eq(pool_find(r.pool, (struct view){"", 0}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[0]);
    cr_assert(t->major == 13 && t->minor == 5);
    cr_assert(strstr(t->archs, "90"), "%s", t->archs);
    cr_assert_eq(strncmp(t->text, "NVRTC 13.5 (libnvrtc.so.13, ", 28), 0, "%s", t->text);
    cr_assert_eq(pool_find(r.pool, (struct view){"12", 2}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[1]);
    cr_assert_eq(pool_find(r.pool, (struct view){"13.5", 4}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[0]);
    char id[WARM_KEY_TEXT];
    key_to_text(&list[1]->id, id);
    cr_assert_eq(pool_find(r.pool, (struct view){id, 8}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[1]);
    cr_assert_eq(pool_find(r.pool, (struct view){id, 7}, geteuid(), &t, &e), WARM_ENO_TOOLCHAIN);
    cr_assert_eq(pool_find(r.pool, (struct view){"11", 2}, geteuid(), &t, &e), WARM_ENO_TOOLCHAIN);
    cr_assert(strstr(e.text, "12.9") && strstr(e.text, "13.5"), "%s", e.text);
    rig_stop(&r);
}

static struct {
    char name[4][64];
    char data[4][1024];
    size_t len[4];
    int n, n_recalled;
} memory;
static int on_recall(void *arg, const char *name, void *out, size_t cap, size_t *out_len)
{
    (void)arg;
    for (int i = 0; i < memory.n; i++)
        if (strcmp(memory.name[i], name) == 0 && memory.len[i] <= cap) {
            memcpy(out, memory.data[i], memory.len[i]);
            *out_len = memory.len[i];
            memory.n_recalled++;
            return 0;
        }
    return WARM_ENOT_FOUND;
}
static int on_remember(void *arg, const char *name, const void *data, size_t len)
{
    (void)arg;
    int i = 0;
    while (i < memory.n && strcmp(memory.name[i], name) != 0)
        i++;
    cr_assert(i < 4 && len <= sizeof memory.data[0]);
    snprintf(memory.name[i], sizeof memory.name[0], "%s", name);
    memcpy(memory.data[i], data, len);
    memory.len[i] = len;
    memory.n += i == memory.n;
    return 0;
}

Test(toolchains, remembers_identities_and_then_starts_in_a_moment)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.recall = on_recall;
    r.config.remember = on_remember;
    rig_open(&r);
    cr_assert_eq(memory.n, 2);
    const struct toolchain *t;
    struct err e;
    cr_assert_eq(pool_find(r.pool, (struct view){"", 0}, geteuid(), &t, &e), 0);
    struct key id = t->id;
    rig_stop(&r);

    rig_configure(&r);
    r.config.recall = on_recall;
    r.config.remember = on_remember;
    uint64_t begun = uv_hrtime();
    rig_open(&r);
    uint64_t took = uv_hrtime() - begun;
    cr_assert_eq(memory.n_recalled, 2);
    cr_assert_lt(took, 20000000ull, "%llu ns", (unsigned long long)took);
    pid_t pids[16];
    cr_assert_eq(pool_find(r.pool, (struct view){"", 0}, geteuid(), &t, &e), 0);
    cr_assert(key_equal(&t->id, &id));
    run_until_condition(&r, has_one_server, pids); /* for the first source that will come */
    expect_saxpy(&r);
    rig_stop(&r);
}

static void open_with_memory(struct rig *r)
{
    rig_configure(r);
    r->config.recall = on_recall;
    r->config.remember = on_remember;
    rig_open(r);
}

/* True if there is one fork server, and it was started for this library. Right after the fork, it is not. */
static bool has_loaded(void *library)
{
    pid_t pids[16];
    char path[64], line[2 * PATH_MAX];
    if (!has_one_server(pids))
        return false;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pids[0]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, line, sizeof line);
    close(fd);
    return len > 0 && memmem(line, (size_t)len, library, strlen(library));
}

static void expect_loaded(struct rig *r, const char *library)
{
    run_until_condition(r, has_loaded, (void *)(uintptr_t)library);
}

static bool is_found(void *arg)
{
    const struct rig *r = arg;
    char *path = path_join(r->nvrtc[1], "lib/libnvrtc.so.12");
    const struct toolchain *t;
    int code = pool_find(r->pool, (struct view){path, strlen(path)}, geteuid(), &t, NULL);
    cr_assert(code == 0 || code == WARM_EBUSY);
    free(path);
    return code == 0;
}

Test(toolchains, starts_with_the_library_that_was_loaded_last)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    const struct toolchain *t;
    open_with_memory(&r);
    expect_loaded(&r, "libnvrtc.so.13");
    run_until_condition(&r, is_found, &r);
    rig_stop(&r);

    open_with_memory(&r);
    expect_loaded(&r, "libnvrtc.so.12");
    cr_assert_eq(pool_find(r.pool, (struct view){"", 0}, geteuid(), &t, NULL), 0);
    rig_stop(&r);

    open_with_memory(&r);
    expect_loaded(&r, "libnvrtc.so.13");
    rig_stop(&r);
}

/* Nothing of a record is believed but which path to try. */
Test(toolchains, starts_with_the_default_if_the_last_library_is_gone)
{
    NEEDS_TOOLCHAIN();
    static const char *const records[] = {"\0\0\0\0/nowhere/libnvrtc.so.12", "\0\0\0\0/",
                                          "\0\0\0\0x", "\0\0\0\0", "\0\0"};
    static const size_t lens[] = {27, 5, 5, 4, 2};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        struct rig r;
        on_remember(NULL, "nvrtc-last", records[i], lens[i]);
        open_with_memory(&r);
        expect_loaded(&r, "libnvrtc.so.13");
        rig_stop(&r);
    }
}

static bool is_identified(void *arg)
{
    const struct toolchain *t;
    struct err e;
    int code = pool_find(arg, (struct view){"", 0}, geteuid(), &t, &e);
    cr_assert(code == 0 || code == WARM_EBUSY, "%s", e.text);
    return code == 0;
}

Test(toolchains, identifies_a_library_again_when_its_file_changes)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    char *lib = path_join(r.dir, "lib"), *link = path_join(lib, "libnvrtc.so.12");
    char *old = path_join(r.nvrtc[1], "lib/libnvrtc.so.12");
    char *new = path_join(r.nvrtc[0], "lib/libnvrtc.so.13");
    mkdir(lib, 0700);
    cr_assert_eq(symlink(old, link), 0);
    char *given[] = {link};
    r.config.nvrtc = given;
    r.config.n_nvrtc = 1;
    rig_open(&r);
    const struct toolchain *before, *after;
    struct err e;
    cr_assert_eq(pool_find(r.pool, (struct view){"", 0}, geteuid(), &before, &e), 0, "%s", e.text);
    cr_assert_eq(before->major, 12);
    expect_saxpy(&r);
    unlink(link);
    cr_assert_eq(symlink(new, link), 0);
    cr_assert_eq(pool_find(r.pool, (struct view){"", 0}, geteuid(), &after, &e), WARM_EBUSY);
    run_until_condition(&r, is_identified, r.pool);
    cr_assert_eq(pool_find(r.pool, (struct view){"", 0}, geteuid(), &after, &e), 0);
    cr_assert_eq(after->major, 13);
    cr_assert(!key_equal(&before->id, &after->id));
    expect_saxpy(&r);
    free(lib);
    free(link);
    free(old);
    free(new);
    rig_stop(&r);
}

Test(toolchains, leaves_out_what_is_no_library)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    char *text = in_dir(&r, "libnvrtc.so.13", "not a library\n"), *none = path_join(r.dir, "none");
    char *given[] = {text, none, r.nvrtc[0]};
    r.config.nvrtc = given;
    r.config.n_nvrtc = 3;
    rig_open(&r);
    const struct toolchain *t[3];
    cr_assert_eq(pool_toolchains(r.pool, t, 3), 1u);
    expect_saxpy(&r);
    free(text);
    free(none);
    rig_stop(&r);
}

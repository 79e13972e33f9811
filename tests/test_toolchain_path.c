/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_toolchain_path.c - compilers that a client names by their path, through a real daemon and
 * libwarm: which are loaded, which not, and that nobody is told to ask again.
 *
 * Needs a toolchain, see test_compiler.c. Libraries are copied where a test changes them, or who may.
 */
#include <limits.h>

#include "client/warm.h"
#include "keygen/err.h"
#include "tests/daemon_kit.h"

#define NOBODY 65534u

static const char source[] = "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= 3; }\n";

/* What one test works with: a daemon with NVRTC 13.5, and both versions' folders. */
struct rig {
    struct kit kit;
    char *lib13, *lib12, *own;
    struct warm *warm;
};

static void rig_up(struct rig *r)
{
    char *options[] = {"--nvrtc", r->lib13, "--jobs", "2", NULL};
    r->kit = kit_up(options);
    r->own = path_join(r->kit.dir, "own");
    cr_assert_eq(mkdir(r->own, 0755), 0);
    struct warm_options to = {.socket = r->kit.socket,
                              .connect_timeout_ms = KIT_WAIT_MS,
                              .request_timeout_ms = KIT_WAIT_MS};
    cr_assert_eq(warm_open(&r->warm, &to), 0);
}

static void rig_down(struct rig *r)
{
    warm_close(r->warm);
    free(r->own);
    free(r->lib13);
    free(r->lib12);
    kit_down(&r->kit);
}

#define NEEDS_TOOLCHAIN(r)                                                                         \
    struct rig r = {.lib13 = toolchain_lib("13.5.37"), .lib12 = toolchain_lib("12.9.86")};         \
    if (!r.lib13 || !r.lib12)                                                                      \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* Copies a version's two libraries into a new folder of the rig; gives the library's path. */
static char *copy_library(const struct rig *r, const char *lib, const char *name)
{
    char *folder = path_join(r->own, name), *out = NULL;
    cr_assert_eq(run_command(&out,
                             "mkdir -m 755 '%s' && cd '%s' && for f in libnvrtc.so.1? "
                             "libnvrtc-builtins.so.1?.?; do cp --reflink=auto $f '%s'/ || exit 1; "
                             "done && chmod 644 '%s'/*",
                             folder, lib, folder, folder),
                 0);
    free(out);
    char *path = path_join(folder, strstr(lib, "13.5") ? "libnvrtc.so.13" : "libnvrtc.so.12");
    free(folder);
    return path;
}

static int compile(struct rig *r, const char *compiler, const char *text, struct warm_result *out)
{
    static const char *const options[] = {"--gpu-architecture=sm_90"};
    struct warm_job job = {.name = "f.cu",
                           .source = text,
                           .source_len = strlen(text),
                           .options = options,
                           .n_options = 1,
                           .compiler = compiler};
    return warm_compile(r->warm, &job, out);
}

/* The outcome of a compile that must work; *out_key is the entry's. */
static int outcome(struct rig *r, const char *compiler, char out_key[33])
{
    struct warm_result result;
    int code = compile(r, compiler, source, &result);
    cr_assert_eq(code, 0, "%s: %s", warm_error_name(code), warm_message(r->warm));
    cr_assert_eq(result.status, 0);
    cr_assert_gt(result.cubin.len, 100);
    int how = result.value.outcome;
    memcpy(out_key, result.value.key, 33);
    warm_result_free(&result);
    return how;
}

static void expect_refused(struct rig *r, const char *compiler, const char *why)
{
    struct warm_result result;
    cr_assert_eq(compile(r, compiler, source, &result), WARM_ENO_TOOLCHAIN, "%s was loaded",
                 compiler);
    cr_assert(strstr(warm_message(r->warm), why), "%s", warm_message(r->warm));
}

Test(toolchain_path, the_same_library_shares_its_entries_however_it_is_named)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *path = copy_library(&r, r.lib13, "13"), *link = path_join(r.own, "libnvrtc.so");
    cr_assert_eq(symlink(path, link), 0);
    char first[33], key[33];
    cr_assert_eq(outcome(&r, path, first), WARM_MISS);
    cr_assert_eq(outcome(&r, "", key), WARM_HIT);
    cr_assert_str_eq(key, first);
    cr_assert_eq(outcome(&r, link, key), WARM_HIT);
    cr_assert_str_eq(key, first);
    free(path);
    free(link);
    rig_down(&r);
}

Test(toolchain_path, another_library_is_another_compiler)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *path = copy_library(&r, r.lib12, "12");
    char first[33], key[33];
    cr_assert_eq(outcome(&r, "", first), WARM_MISS);
    cr_assert_eq(outcome(&r, path, key), WARM_MISS);
    cr_assert_str_neq(key, first);
    cr_assert_eq(outcome(&r, path, key), WARM_HIT);
    free(path);
    rig_down(&r);
}

Test(toolchain_path, a_library_that_changes_is_identified_while_the_request_waits)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *path = copy_library(&r, r.lib12, "12"), *other = copy_library(&r, r.lib13, "13");
    char *link = path_join(r.own, "libnvrtc.so"), *next = path_join(r.own, "next");
    char first[33], key[33];
    cr_assert_eq(symlink(path, link), 0);
    cr_assert_eq(outcome(&r, link, first), WARM_MISS);
    cr_assert_eq(symlink(other, next), 0);
    cr_assert_eq(rename(next, link), 0);
    cr_assert_eq(outcome(&r, link, key), WARM_MISS);
    cr_assert_str_neq(key, first);
    cr_assert_eq(outcome(&r, "", key), WARM_HIT, "it is the configured one by content");
    free(path);
    free(other);
    free(link);
    free(next);
    rig_down(&r);
}

Test(toolchain_path, a_configured_library_that_changes_keeps_nobody_from_its_answer)
{
    NEEDS_TOOLCHAIN(r);
    char *dir = temp_dir_new(), *link = path_join(dir, "libnvrtc.so"),
         *next = path_join(dir, "next");
    char *path12 = path_join(r.lib12, "libnvrtc.so.12"),
         *path13 = path_join(r.lib13, "libnvrtc.so.13");
    cr_assert_eq(symlink(path12, link), 0);
    char *lib13 = r.lib13;
    r.lib13 = link;
    rig_up(&r);
    r.lib13 = lib13;
    char first[33], key[33];
    cr_assert_eq(outcome(&r, "", first), WARM_MISS);
    cr_assert_eq(symlink(path13, next), 0);
    cr_assert_eq(rename(next, link), 0);
    cr_assert_eq(outcome(&r, "", key), WARM_MISS);
    cr_assert_str_neq(key, first);
    free(path12);
    free(path13);
    free(next);
    free(link);
    temp_dir_free(dir);
    rig_down(&r);
}

Test(toolchain_path, says_wait_and_then_goes_on)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *path = copy_library(&r, r.lib12, "12");
    int fd = kit_native(&r.kit);
    struct writer w;
    writer_init(&w, 0);
    wire_put_compile(&w, 7,
                     &(struct wire_compile){.language = 1,
                                            .graph = key_of_bytes("g", 1),
                                            .proof = proof_of_bytes("g", 1),
                                            .hardware = {"sm_90", 5},
                                            .compiler = {path, strlen(path)}});
    kit_flush(fd, &w);
    kit_expect(fd, 7, WIRE_WAIT);
    kit_expect(fd, 7, WIRE_NEED);
    close(fd);
    free(path);
    rig_down(&r);
}

Test(toolchain_path, who_leaves_while_it_waits_holds_up_nobody)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *path = copy_library(&r, r.lib12, "12");
    struct writer w;
    writer_init(&w, 0);
    for (uint64_t i = 0; i < 8; i++) {
        int fd = kit_native(&r.kit);
        wire_put_compile(&w, i,
                         &(struct wire_compile){.language = 1,
                                                .graph = key_of_bytes("g", 1),
                                                .proof = proof_of_bytes("g", 1),
                                                .hardware = {"sm_90", 5},
                                                .compiler = {path, strlen(path)}});
        if (i % 2)
            wire_put_empty(&w, WIRE_CANCEL, i);
        kit_flush(fd, &w);
        kit_expect(fd, i, WIRE_WAIT);
        close(fd);
    }
    char key[33];
    cr_assert_eq(outcome(&r, path, key), WARM_MISS);
    free(path);
    rig_down(&r);
}

/* Nothing of such a library is ever run, so any file will do. */
Test(toolchain_path, a_library_that_others_can_change_is_not_loaded)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *path = path_join(r.own, "libnvrtc.so.13");
    char *builtins = path_join(r.own, "libnvrtc-builtins.so.13.5");
    static const struct {
        mode_t folder, library, builtins;
    } modes[] = {{0755, 0666, 0644},
                 {0755, 0664, 0644},
                 {0775, 0644, 0644},
                 {01777, 0644, 0644},
                 {0755, 0644, 0646}};
    file_write(builtins, "x", 1);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        /* a new file each time: a path that led nowhere is not looked at again at once */
        char name[32];
        snprintf(name, sizeof name, "libnvrtc.so.13.%zu", i);
        char *other = path_join(r.own, name), *no_builtins = NULL;
        file_write(other, "x", 1);
        cr_assert_eq(chmod(other, modes[i].library), 0);
        char beside[64];
        snprintf(beside, sizeof beside, "libnvrtc-builtins.so.13.%zu", i);
        no_builtins = path_join(r.own, beside);
        file_write(no_builtins, "x", 1);
        cr_assert_eq(chmod(no_builtins, modes[i].builtins), 0);
        cr_assert_eq(chmod(r.own, modes[i].folder), 0);
        expect_refused(&r, other, "may be written by others");
        cr_assert_eq(chmod(r.own, 0755), 0);
        free(other);
        free(no_builtins);
    }
    cr_assert_eq(chmod(r.kit.dir, 0777), 0); /* a folder above */
    file_write(path, "x", 1);
    cr_assert_eq(chmod(path, 0644), 0);
    expect_refused(&r, path, "may be written by others");
    cr_assert_eq(chmod(r.kit.dir, 0755), 0);
    free(path);
    free(builtins);
    rig_down(&r);
}

Test(toolchain_path, a_library_of_another_user_is_not_loaded)
{
    NEEDS_TOOLCHAIN(r);
    if (geteuid() != 0)
        cr_skip_test("needs root");
    rig_up(&r);
    char *path = path_join(r.own, "libnvrtc.so.13");
    file_write(path, "x", 1);
    cr_assert_eq(chmod(path, 0644), 0);
    cr_assert_eq(chown(path, NOBODY, NOBODY), 0);
    expect_refused(&r, path, "belongs to user 65534");
    free(path);
    rig_down(&r);
}

Test(toolchain_path, what_is_no_library_is_refused_in_one_line)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *text = path_join(r.own, "libnvrtc.so.13"), *folder = path_join(r.own, "libnvrtc.so.d");
    char *link = path_join(r.own, "libnvrtc.so.12"), *none = path_join(r.own, "libnvrtc.so.11");
    file_write(text, "not a library\n", 14);
    cr_assert_eq(chmod(text, 0644), 0);
    cr_assert_eq(mkdir(folder, 0755), 0);
    cr_assert_eq(symlink("/etc/passwd", link), 0);
    expect_refused(&r, text, "libnvrtc.so.13");
    expect_refused(&r, text, "libnvrtc.so.13"); /* also at once again */
    expect_refused(&r, folder, "libnvrtc.so.d");
    expect_refused(&r, link, "no libnvrtc.so at");
    expect_refused(&r, none, "no libnvrtc.so at");
    expect_refused(&r, "/etc/passwd", "no libnvrtc.so at /etc/passwd");
    expect_refused(&r, "/", "no libnvrtc.so at /");
    free(text);
    free(folder);
    free(link);
    free(none);
    rig_down(&r);
}

Test(toolchain_path, any_number_of_names_costs_no_more_than_some)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *path = copy_library(&r, r.lib13, "13");
    char key[33], first[33];
    cr_assert_eq(outcome(&r, path, first), WARM_MISS);
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "libnvrtc.so.13.%d", i);
        char *link = path_join(r.own, name);
        cr_assert_eq(symlink(path, link), 0);
        cr_assert_eq(outcome(&r, link, key), WARM_HIT);
        cr_assert_str_eq(key, first);
        free(link);
    }
    cr_assert_eq(outcome(&r, path, key), WARM_HIT);
    free(path);
    rig_down(&r);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_toolchain_path.c - compilers that a client names by their path, through a real daemon and
 * libwarm: which are loaded, which not, and that nobody is told to ask again.
 *
 * Needs a toolchain: see support/pool.h. Libraries are copied where a test changes them, or who may.
 */
#include <grp.h>
#include <limits.h>

#include "client/lib/warm.h"
#include "daemon/compiler/toolchain.h"
#include "keygen/err.h"
#include "tests/support/two_nvrtc.h"

#define NOBODY 65534u

static const char source[] = "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= 3; }\n";

/* Starts a daemon with NVRTC 13.5, and makes a folder. With `from`, other users may name the libraries
 * beneath it. */
static void path_up_from(struct rig *r, char *from)
{
    char *options[] = {"--nvrtc", r->lib13, "--jobs", "2", from ? "--nvrtc-from" : NULL,
                       from,      NULL};
    rig_up_with(r, options);
    r->own = path_join(r->kit.dir, "own");
    cr_assert_eq(mkdir(r->own, 0755), 0);
}

static void path_up(struct rig *r) { path_up_from(r, NULL); }

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
    path_up(&r);
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
    path_up(&r);
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
    path_up(&r);
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
    path_up(&r);
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

/* As while a package is installed: its builtins come a moment later, and the library stays as it was. */
Test(toolchain_path, a_configured_library_that_failed_is_looked_at_again)
{
    NEEDS_TOOLCHAIN(r);
    char *dir = temp_dir_new(), *lib13 = r.lib13, *out, key[33];
    cr_assert_eq(run_command(&out, "cp -a '%s'/libnvrtc* '%s'/", lib13, dir), 0, "%s", out);
    free(out);
    r.lib13 = dir;
    path_up(&r);
    r.lib13 = lib13;
    cr_expect_eq(outcome(&r, "", key), WARM_MISS);
    cr_assert_eq(run_command(&out,
                             "cd '%s' && mkdir away && mv libnvrtc-builtins* away/ && "
                             "for f in away/*; do ln -s /nowhere ${f##*/} || exit 1; done",
                             dir),
                 0, "%s", out);
    free(out);
    struct warm_result result;
    cr_expect_eq(compile(&r, "", source, &result), WARM_ENO_TOOLCHAIN);
    cr_assert_eq(run_command(&out, "cd '%s' && rm libnvrtc-builtins* && mv away/* .", dir), 0, "%s",
                 out);
    free(out);
    int code = WARM_ENO_TOOLCHAIN;
    for (int i = 0; code == WARM_ENO_TOOLCHAIN && i < 600; i++) {
        usleep(100000);
        code = compile(&r, "", source, &result);
    }
    cr_assert_eq(code, 0, "%s", warm_message(r.warm));
    warm_result_free(&result);
    rig_down(&r);
    temp_dir_free(dir);
}

Test(toolchain_path, says_wait_and_then_goes_on)
{
    NEEDS_TOOLCHAIN(r);
    path_up(&r);
    char *path = copy_library(&r, r.lib12, "12");
    int fd = warmd_native(&r.kit);
    struct writer w;
    writer_init(&w, 0);
    wire_put_compile(&w, 7,
                     &(struct wire_compile){.language = 1,
                                            .graph = key_of_bytes("g", 1),
                                            .proof = proof_of_bytes("g", 1),
                                            .hardware = {"sm_90", 5},
                                            .compiler = {path, strlen(path)}});
    warmd_flush(fd, &w);
    warmd_expect(fd, 7, WIRE_WAIT);
    warmd_expect(fd, 7, WIRE_NEED);
    close(fd);
    free(path);
    rig_down(&r);
}

Test(toolchain_path, who_leaves_while_it_waits_holds_up_nobody)
{
    NEEDS_TOOLCHAIN(r);
    path_up(&r);
    char *path = copy_library(&r, r.lib12, "12");
    struct writer w;
    writer_init(&w, 0);
    for (uint64_t i = 0; i < 8; i++) {
        int fd = warmd_native(&r.kit);
        wire_put_compile(&w, i,
                         &(struct wire_compile){.language = 1,
                                                .graph = key_of_bytes("g", 1),
                                                .proof = proof_of_bytes("g", 1),
                                                .hardware = {"sm_90", 5},
                                                .compiler = {path, strlen(path)}});
        if (i % 2)
            wire_put_empty(&w, WIRE_CANCEL, i);
        warmd_flush(fd, &w);
        warmd_expect(fd, i, WIRE_WAIT);
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
    path_up(&r);
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
        bool is_for_all = (modes[i].folder | modes[i].library | modes[i].builtins) & 02;
        if (!is_for_all && geteuid() != 0)
            continue; /* a user's own group is trusted */
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
        if (geteuid() == 0) /* a group that others are in */
            cr_assert(chown(r.own, 0, 1) == 0 && chown(other, 0, 1) == 0);
        cr_assert_eq(chmod(r.own, modes[i].folder), 0);
        expect_refused(&r, other, "can be written by other users");
        cr_assert_eq(chmod(r.own, 0755), 0);
        free(other);
        free(no_builtins);
    }
    cr_assert_eq(chmod(r.kit.dir, 0777), 0); /* a folder above */
    file_write(path, "x", 1);
    cr_assert_eq(chmod(path, 0644), 0);
    expect_refused(&r, path, "can be written by other users");
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
    path_up(&r);
    char *path = path_join(r.own, "libnvrtc.so.13");
    file_write(path, "x", 1);
    cr_assert_eq(chmod(path, 0644), 0);
    cr_assert_eq(chown(path, NOBODY, NOBODY), 0);
    expect_refused(&r, path, "belongs to another user (uid 65534)");
    free(path);
    rig_down(&r);
}

/* A virtual environment's NVRTC belongs to its user, and is often the daemon's own to the byte. */
Test(toolchain_path, a_copy_of_the_daemons_library_is_that_library)
{
    NEEDS_TOOLCHAIN(r);
    if (geteuid() != 0)
        cr_skip_test("needs root");
    path_up(&r);
    char *path = copy_library(&r, r.lib13, "venv"), *folder = strdup(path);
    char *warm = bin_path("warm"), *out, key[33], own[33];
    *strrchr(folder, '/') = '\0';
    cr_assert_eq(run_command(&out, "chown -R %u '%s'", NOBODY, folder), 0);
    free(out);
    cr_expect_eq(outcome(&r, path, key), WARM_MISS);
    cr_expect_eq(outcome(&r, path, key), WARM_HIT);
    cr_expect_eq(outcome(&r, "13.5", own), WARM_HIT);
    cr_expect_str_eq(key, own);
    cr_assert_eq(run_command(&out, "printf x >>'%s'", path), 0, "it is another library now");
    free(out);
    expect_refused(&r, path, "belongs to another user (uid 65534)");
    cr_assert_eq(run_command(&out, "WARM_SOCKET='%s' '%s' why", r.kit.socket, warm), 0);
    cr_expect(strstr(out, "uncacheable") && strstr(out, "belongs to another user (uid 65534)"),
              "%s", out);
    free(out);
    free(warm);
    free(folder);
    free(path);
    rig_down(&r);
}

/* What another user is told of a path: "", or the error. free() it. */
static char *told_to_nobody(const struct rig *r, const char *path)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        struct rig mine = {0};
        struct warm_options to = {.socket = r->kit.socket,
                                  .connect_timeout_ms = WARMD_WAIT_MS,
                                  .request_timeout_ms = WARMD_WAIT_MS};
        struct warm_result result;
        if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY) || warm_open(&mine.warm, &to))
            _exit(2);
        int code = compile(&mine, path, source, &result);
        const char *text = code ? warm_message(mine.warm) : "";
        _exit(write(ends[1], text, strlen(text)) != (ssize_t)strlen(text));
    }
    close(ends[1]);
    char *text = calloc(1, 1024);
    size_t len = 0;
    for (ssize_t n; len < 1023 && (n = read(ends[0], text + len, 1023 - len)) > 0;)
        len += (size_t)n;
    close(ends[0]);
    cr_assert_eq(warmd_reap(pid), 0);
    return text;
}

/* Gives the place of the path in the one message that there is, so that texts can be compared. */
static void expect_one_answer(const struct rig *r, const char *path)
{
    char expected[1024], *told = told_to_nobody(r, path);
    snprintf(expected, sizeof expected, "no libnvrtc.so that this daemon loads for you at %s",
             path);
    cr_expect_str_eq(told, expected);
    free(told);
}

Test(toolchain_path, another_user_may_name_what_lies_beside_a_configured_library)
{
    NEEDS_TOOLCHAIN(r);
    NEEDS_TWO_USERS();
    path_up(&r);
    char *real = realpath(r.lib13, NULL), *path = path_join(real, "libnvrtc.so.13");
    char *told = told_to_nobody(&r, path);
    cr_expect_str_eq(told, "");
    free(told);
    free(real);
    free(path);
    rig_down(&r);
}

/* What is wrong with a path outside of the folders, and whether there is one, is not told; and
 * nothing of it is loaded. */
Test(toolchain_path, another_user_learns_nothing_of_other_places)
{
    NEEDS_TOOLCHAIN(r);
    NEEDS_TWO_USERS();
    path_up(&r);
    char *path = copy_library(&r, r.lib12, "12"), *secret = path_join(r.own, "secret");
    char *real = realpath(r.lib13, NULL), *beside, *through;
    cr_assert_eq(mkdir(secret, 0700), 0);
    cr_assert_gt(asprintf(&beside, "%s/none/../libnvrtc.so.13", real), 0);
    cr_assert_gt(asprintf(&through, "%s/../..%s/libnvrtc.so.13", secret, real), 0);
    expect_one_answer(&r, path);
    expect_one_answer(&r, beside);
    expect_one_answer(&r, through);
    expect_one_answer(&r, "/no/such/folder/libnvrtc.so.13");
    expect_one_answer(&r, "/usr/libnvrtc.so.13");
    expect_one_answer(&r, "/etc/passwd");
    char *none = path_join(real, "libnvrtc.so.99");
    expect_one_answer(&r, none);
    expect_one_answer(&r, none); /* also when the answer is remembered */
    char key[33];
    cr_expect_eq(outcome(&r, path, key), WARM_MISS, "the daemon's own user may name it");
    expect_one_answer(&r, path);
    free(path);
    free(secret);
    free(real);
    free(beside);
    free(through);
    free(none);
    rig_down(&r);
}

Test(toolchain_path, another_user_may_name_what_the_administrator_lists)
{
    NEEDS_TOOLCHAIN(r);
    NEEDS_TWO_USERS();
    char *dir = temp_dir_new(), *listed = path_join(dir, "listed"),
         *outside = path_join(dir, "out");
    char *real = realpath(dir, NULL);
    cr_assert(chmod(dir, 0755) == 0 && mkdir(listed, 0755) == 0 && mkdir(outside, 0755) == 0);
    path_up_from(&r, listed);
    char *own = r.own;
    r.own = listed;
    char *path = copy_library(&r, r.lib12, "12");
    r.own = outside;
    char *other = copy_library(&r, r.lib12, "12"), *link = path_join(listed, "libnvrtc.so.12");
    r.own = own;
    char *told = told_to_nobody(&r, path);
    cr_expect_str_eq(told, "");
    cr_assert_eq(symlink(other, link), 0);
    expect_one_answer(&r, link);
    free(told);
    free(path);
    free(other);
    free(link);
    free(listed);
    free(outside);
    free(real);
    rig_down(&r);
    temp_dir_free(dir);
}

/* A desktop mounts what a user plugs in nosuid; its owners are what the user wrote. */
Test(toolchain_path, a_library_on_a_mount_that_a_user_may_have_brought_is_not_loaded_for_others)
{
    static const char *const mounts[] = {"nosuid", "noexec", "rw"};
    NEEDS_TOOLCHAIN(r);
    NEEDS_TWO_USERS();
    char *dir = temp_dir_new(), *out;
    cr_assert_eq(chmod(dir, 0755), 0);
    path_up_from(&r, dir);
    char *own = r.own;
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        r.own = path_join(dir, mounts[i]);
        cr_assert_eq(mkdir(r.own, 0755), 0);
        if (run_command(&out, "mount -t tmpfs -o mode=755,size=256M,%s none '%s'", mounts[i],
                        r.own) != 0)
            cr_skip_test("cannot mount anything here");
        free(out);
        char *path = copy_library(&r, r.lib12, "12");
        char *told = told_to_nobody(&r, path);
        run_command(&out, "umount -l '%s'", r.own);
        free(out);
        cr_expect_eq(*told == '\0', strcmp(mounts[i], "rw") == 0, "%s: %s", mounts[i], told);
        free(told);
        free(path);
        free(r.own);
    }
    r.own = own;
    rig_down(&r);
    temp_dir_free(dir);
}

/* A library that tells, as its version, whom its constructor ran as and what it could open. */
static const char telling_library[] =
    "#include <fcntl.h>\n#include <unistd.h>\n"
    "static int who, opened;\n"
    "__attribute__((constructor)) static void look(void)\n"
    "{\n"
    "    who = (int)geteuid();\n"
    "    opened = open(\"/etc/passwd\", O_RDONLY) >= 0;\n"
    "    opened += 2 * (open(SCRATCH \"/made\", O_WRONLY | O_CREAT, 0600) >= 0);\n"
    "}\n"
    "int nvrtcVersion(int *major, int *minor) { *major = who; *minor = opened; return 0; }\n"
    "int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }\n"
    "int nvrtcGetSupportedArchs(int *archs) { *archs = 90; return 0; }\n"
    "#define F(name) int nvrtc##name(void); int nvrtc##name(void) { return 1; }\n"
    "F(CreateProgram) F(DestroyProgram) F(AddNameExpression) F(CompileProgram) F(GetLoweredName)\n"
    "F(GetProgramLogSize) F(GetProgramLog) F(GetCUBINSize) F(GetCUBIN) F(GetPTXSize) F(GetPTX)\n";

Test(toolchain_path, a_librarys_constructors_run_with_no_privilege)
{
    struct rig r = {.kit = warmd_new()};
    char *lib = path_join(r.kit.dir, "libnvrtc.so.13"), *text = path_join(r.kit.dir, "lib.c"), *out;
    char *scratch = path_join(r.kit.dir, "open-to-all");
    cr_assert(mkdir(scratch, 0700) == 0 && chmod(scratch, 0777) == 0);
    file_write(text, telling_library, sizeof telling_library - 1);
    cr_assert_eq(run_command(&out, "cc -shared -fPIC -DSCRATCH='\"%s\"' -o '%s' '%s' 2>&1", scratch,
                             lib, text),
                 0, "%s", out);
    free(out);
    char *options[] = {"--nvrtc", lib, NULL}, *warm = bin_path("warm");
    warmd_start(&r.kit, options);
    /* The daemon knows of Landlock when the first worker has said that it is ready. */
    for (uint64_t end_ms = clock_now_ms() + WARMD_WAIT_MS;; free(out)) {
        cr_assert_eq(run_command(&out, "'%s' doctor --json --socket '%s'", warm, r.kit.socket), 0,
                     "%s", out);
        if (strstr(out, "Landlock"))
            break;
        cr_assert_lt(clock_now_ms(), end_ms, "no worker is ready: %s", out);
    }
    const char *at = strstr(out, "NVRTC ");
    unsigned who = 0, opened = 0;
    cr_assert(at && sscanf(at, "NVRTC %u.%u", &who, &opened) == 2, "%s", out);
    cr_expect(geteuid() == 0 ? who != 0 : who == geteuid(), "it ran as %u", who);
    if (strstr(out, "no Landlock"))
        fprintf(stderr, "skipped: this kernel has no Landlock\n");
    else
        cr_expect_eq(opened, 0, "it opened files: %u", opened);
    free(out);
    free(warm);
    free(text);
    free(scratch);
    free(lib);
    warmd_down(&r.kit);
}

Test(toolchain_path, what_is_no_library_is_refused_in_one_line)
{
    NEEDS_TOOLCHAIN(r);
    path_up(&r);
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

Test(toolchain_path, a_name_forges_no_line_of_the_log)
{
    NEEDS_TOOLCHAIN(r);
    path_up(&r);
    char path[200];
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "/tmp/%d/\n00:00:00.000 warmd: forged/libnvrtc.so.13", i);
        expect_refused(&r, path, "no libnvrtc.so at");
    }
    size_t len;
    unsigned n = 0;
    char *log = file_read(r.kit.log, &len);
    cr_expect_null(strstr(log, "\n00:00:00.000"));
    for (const char *at = log; (at = strstr(at, "warmd: forged")); at++)
        n++;
    cr_expect(n > 0 && n < 100, "%u lines of one user's", n);
    free(log);
    rig_down(&r);
}

/* As the wheels of 11.8 have them. */
Test(toolchain_path, builtins_of_another_minor_version_do_if_there_are_no_others)
{
    static const char *const builtins[] = {"libnvrtc-builtins.so.11.8",
                                           "libnvrtc-builtins.so.11.2"};
    char *dir = temp_dir_new(), *library = path_join(dir, "libnvrtc.so.11.2");
    struct err e;
    file_write(library, "x", 1);
    for (size_t i = 0; i < 2; i++) {
        struct toolchain_files files;
        char *path = path_join(dir, builtins[i]);
        file_write(path, "x", 1);
        cr_assert_eq(toolchain_locate(dir, &files, &e), 0, "%s", e.text);
        cr_expect(strstr(files.builtins, builtins[i]), "%s", files.builtins);
        toolchain_files_close(&files);
        free(path);
    }
    free(library);
    temp_dir_free(dir);
}

Test(toolchain_path, any_number_of_names_costs_no_more_than_some)
{
    NEEDS_TOOLCHAIN(r);
    path_up(&r);
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

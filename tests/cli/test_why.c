/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_why.c - `warm why`: one seeded cause of each kind against a real daemon, as a shell sees it.
 *
 * Compiles need a toolchain in $WARM_TOOLCHAIN, or beside the tests' folder.
 */
#include "tests/support/warmd.h"

#include <ftw.h>

#include "client/lib/warm.h"

/* Runs `warm ARGUMENTS` in the kit's folder, with variables in front; its status. */
static int warm(const struct warmd *k, char **out, const char *variables, const char *arguments)
{
    char *program = bin_path("warm");
    int status = run_command(out, "cd %s && WARM_PROJECT=t %s WARM_SOCKET=%s %s %s 2>&1", k->dir,
                             variables, k->socket, program, arguments);
    free(program);
    return status;
}

static void must(const struct warmd *k, int status, const char *arguments)
{
    char *out;
    int got = warm(k, &out, "", arguments);
    cr_assert_eq(got, status, "warm %s: %d: %s", arguments, got, out);
    free(out);
}

/* `warm why ARGUMENTS` says `text`. */
static void expect_why(const struct warmd *k, const char *arguments, const char *text)
{
    char *out, *command;
    cr_assert_geq(asprintf(&command, "why %s", arguments), 0);
    int status = warm(k, &out, "", command);
    cr_assert_eq(status, 0, "warm %s: %d: %s", command, status, out);
    cr_assert_not_null(strstr(out, text), "warm %s: no `%s` in: %s", command, text, out);
    free(command);
    free(out);
}

static void write_in(const struct warmd *k, const char *name, const char *text)
{
    char *path = path_join(k->dir, name);
    file_write(path, text, strlen(text));
    free(path);
}

/* `to` becomes another name of `from`. */
static void link_in(const struct warmd *k, const char *from, const char *to)
{
    char *old = path_join(k->dir, from), *new = path_join(k->dir, to);
    cr_assert_eq(unlink(new) | link(old, new), 0);
    free(old);
    free(new);
}

static void restart(struct warmd *k)
{
    kill(k->pid, SIGTERM);
    warmd_reap(k->pid);
    warmd_start(k, NULL);
}

/* ---- causes that need no compiler ---- */

Test(why, nothing_like_it_is_cold)
{
    struct warmd k = warmd_up(NULL);
    must(&k, 1, "get never -o out");
    expect_why(&k, "never", "cold: nothing like it was made here before");
    expect_why(&k, "", "cold");
    must(&k, 1, "why another");
    warmd_down(&k);
}

Test(why, evicted_expired_and_removed_entries_say_when_and_by_what)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "v", "some value");
    must(&k, 0, "put a v");
    must(&k, 0, "evict --min-size 1B");
    must(&k, 1, "get a -o out");
    expect_why(&k, "a", "evicted: 20");
    expect_why(&k, "a", "Z: evicted by `warm evict`");
    must(&k, 0, "put b v");
    must(&k, 0, "rm b");
    must(&k, 1, "get b -o out");
    expect_why(&k, "b", "removed by `warm rm`");
    warmd_down(&k);
}

Test(why, eviction_is_remembered_over_a_restart)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "v", "some value");
    must(&k, 0, "put a v");
    must(&k, 0, "evict --min-size 1B");
    restart(&k);
    must(&k, 1, "get a -o out");
    expect_why(&k, "a", "evicted by `warm evict`");
    restart(&k);
    expect_why(&k, "a", "evicted by `warm evict`");
    warmd_down(&k);
}

static char damaged_file[4096];

static int on_blob(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_F && st->st_size >= 100000)
        snprintf(damaged_file, sizeof damaged_file, "%s", path);
    return 0;
}

Test(why, damaged_values_are_corrupt)
{
    struct warmd k = warmd_up(NULL);
    char *big = calloc(1, 200000), *path = path_join(k.dir, "big"),
         *blobs = path_join(k.store, "blobs");
    file_write(path, big, 200000);
    must(&k, 0, "put a big");
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    nftw(blobs, on_blob, 16, FTW_PHYS);
    chmod(damaged_file, 0600);
    int fd = open(damaged_file, O_WRONLY);
    cr_assert(fd >= 0 && pwrite(fd, "x", 1, 1000) == 1, "%s", damaged_file);
    close(fd);
    warmd_start(&k, NULL);
    must(&k, 1, "get a -o out");
    expect_why(&k, "a", "corrupt: ");
    free(blobs);
    free(path);
    free(big);
    warmd_down(&k);
}

Test(why, what_cannot_be_kept_names_its_token)
{
    struct warmd k = warmd_up(NULL);
    write_in(&k, "k.cu", "__global__ void k(const char **s) { *s = __TIME__; }\n");
    must(&k, 2, "compile k.cu --arch sm_90");
    expect_why(&k, "k.cu", "uncacheable: ");
    expect_why(&k, "k.cu", "__TIME__");
    warmd_down(&k);
}

Test(why, what_was_switched_off_is_disabled)
{
    struct warmd k = warmd_up(NULL);
    char *out;
    warm(&k, &out, "WARM_RECACHE=1", "get a -o out");
    free(out);
    expect_why(&k, "--last", "disabled: WARM_RECACHE is set");
    cr_assert_eq(warm(&k, &out, "WARM_DISABLE=1", "run true"), 0);
    cr_assert_str_eq(out, "");
    free(out);
    expect_why(&k, "--last", "disabled: WARM_DISABLE was set");
    expect_why(&k, "true", "disabled");
    warmd_down(&k);
}

Test(why, requests_that_a_hung_daemon_did_not_answer_are_timeouts)
{
    struct warmd k = warmd_up(NULL);
    struct warm_options options = {
        .socket = k.socket, .connect_timeout_ms = 10, .request_timeout_ms = 10};
    struct warm *w;
    struct warm_value v;
    setenv("WARM_SESSION", "hung", 1);
    cr_assert_eq(warm_open(&w, &options), 0);
    kill(k.pid, SIGSTOP);
    cr_assert_eq(warm_get(w, "a", 1, 0, &v), WARM_ETIMEOUT);
    kill(k.pid, SIGCONT);
    warm_close(w);
    options.connect_timeout_ms = options.request_timeout_ms = WARMD_WAIT_MS;
    int code;
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; /* it is left alone for a second */
         (code = warm_open(&w, &options)) == WARM_ENO_DAEMON && clock_now_ms() < end;)
        usleep(10000);
    cr_assert_eq(code, 0);
    cr_assert_eq(warm_get(w, "b", 1, 0, &v), WARM_ENOT_FOUND);
    cr_assert_eq(warm_get(w, "c", 1, 0, &v), WARM_ENOT_FOUND);
    warm_close(w);
    expect_why(&k, "--session hung", "timeout: 1 request was not answered in time");
    warmd_down(&k);
}

Test(why, name_of_a_redis_client_tells_its_session)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k);
    warmd_redis(fd, "CLIENT SETNAME warm-session-r.1\r\n", "+OK\r\n");
    warmd_redis(fd, "GET a\r\n", "$-1\r\n");
    warmd_redis(fd, "SET a 1\r\n", "+OK\r\n");
    warmd_redis(fd, "GET a\r\n", "$1\r\n1\r\n");
    close(fd);
    expect_why(&k, "--session r.1", "session r.1: asked 2: 1 hit, 0 coalesced, 1 miss");
    warmd_down(&k);
}

/* ---- artifacts of clients ---- */

static void make(struct warm *w, const char *name, const char *hardware, const char *compiler,
                 const char *label)
{
    struct warm_value v;
    cr_assert_eq(warm_get(w, name, strlen(name), WARM_WANT_LEASE, &v), WARM_LEASE);
    struct warm_put_options put = {.token = v.token,
                                   .kind = "executable",
                                   .hardware = hardware,
                                   .compiler = compiler,
                                   .label = label};
    cr_assert_eq(warm_put(w, name, strlen(name), "x", 1, &put), 0);
}

Test(why, what_clients_say_of_their_artifacts_is_compared)
{
    struct warmd k = warmd_up(NULL);
    struct warm_options options = {.socket = k.socket, .connect_timeout_ms = WARMD_WAIT_MS};
    struct warm *w;
    cr_assert_eq(warm_open(&w, &options), 0);
    make(w, "ptxas:1", "sm_90", "ptxas 12.9; driver=550.54", "step.ptx; -O3");
    make(w, "ptxas:2", "sm_90", "ptxas 13.0; driver=550.54", "step.ptx; -O3");
    make(w, "ptxas:3", "sm_90", "ptxas 13.0; driver=560.10", "step.ptx; -O3");
    make(w, "ptxas:4", "sm_90", "ptxas 13.0; driver=560.10", "step.ptx; -O0");
    make(w, "ptxas:5", "sm_90a", "ptxas 13.0; driver=560.10", "step.ptx; -O0");
    make(w, "ptxas:6", "sm_90a", "ptxas 13.0; driver=560.10", "step.ptx; -O0");
    make(w, "ptxas:7", "sm_90a", "ptxas 13.0; driver=560.10", "other.ptx; -O0");
    warm_close(w);
    expect_why(&k, "ptxas:1", "cold");
    expect_why(&k, "ptxas:2", "compiler: ptxas 12.9 \xe2\x86\x92 ptxas 13.0");
    expect_why(&k, "ptxas:3", "driver: 550.54 \xe2\x86\x92 560.10");
    expect_why(&k, "ptxas:4", "option -O3: given \xe2\x86\x92 (none)");
    expect_why(&k, "ptxas:5", "hardware: sm_90 \xe2\x86\x92 sm_90a");
    expect_why(&k, "ptxas:6", "in a part of its input that has no name");
    expect_why(&k, "ptxas:7", "cold");
    warmd_down(&k);
}

/* JAX's own key is asked for when the canonical one has missed: one compile, one miss. */
Test(why, second_name_that_misses_is_no_second_miss)
{
    struct warmd k = warmd_up(NULL);
    char *out;
    static const char *const names[] = {"jax:1:0123", "jax:stock:jit_f-0123"};
    write_in(&k, "v", "value");
    for (size_t i = 0; i < 2; i++) {
        char command[64];
        snprintf(command, sizeof command, "get %s -o o", names[i]);
        cr_assert_eq(warm(&k, &out, "WARM_SESSION=s", command), 1, "%s", out);
        free(out);
    }
    expect_why(&k, "--session s", "asked 1: 0 hits, 0 coalesced, 1 miss");
    must(&k, 0, "put jax:stock:jit_f-0123 v");
    cr_assert_eq(warm(&k, &out, "WARM_SESSION=s", "get jax:stock:jit_f-0123 -o o"), 0, "%s", out);
    free(out);
    expect_why(&k, "--session s", "asked 2: 1 hit, 0 coalesced, 1 miss");
    warmd_down(&k);
}

/* ---- compiles ---- */

Test(why, each_part_of_a_compile_is_named)
{
    char *lib = toolchain_lib("13.5.37");
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *options[] = {(char *)(uintptr_t) "--nvrtc", lib, NULL};
    struct warmd k = warmd_up(options);
    write_in(&k, "h.h", "#define A 1\n");
    write_in(&k, "k.cu", "#include \"h.h\"\n__global__ void k(int *x) { *x = A; }\n");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "k.cu", "cold");
    must(&k, 0, "compile k.cu --arch sm_90 -o o --std=c++20");
    expect_why(&k, "--last", "option --std: (none) \xe2\x86\x92 c++20");
    must(&k, 0, "compile k.cu --arch sm_80 -o o");
    expect_why(&k, "--last", "arch: sm_90 \xe2\x86\x92 sm_80");
    must(&k, 0, "compile k.cu --arch sm_90 -o o --name renamed");
    expect_why(&k, "--last", "name: k.cu \xe2\x86\x92 renamed");
    write_in(&k, "h.h", "#define A 2\n");
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    warmd_start(&k, options); /* what it knew of the header outlives it */
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "header ");
    expect_why(&k, "--last", "h.h line 1, which has changed");
    char *out;
    cr_assert_eq(warm(&k, &out, "", "why --last"), 0);
    char *first = strstr(out, "header ");
    cr_assert(first && !strstr(first + 1, "header "), "one file is named once: %s", out);
    free(out);
    write_in(&k, "k.cu", "#include \"h.h\"\n__global__ void k(int *x) { *x = A + 1; }\n");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "in source, which has changed");
    write_in(&k, "h.h", "#pragma once\n#define A 2\n");
    write_in(&k, "copy.h", "#pragma once\n#define A 2\n");
    write_in(&k, "k.cu", "#include \"h.h\"\n#include \"copy.h\"\n__global__ void k(int *x) {}\n");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    link_in(&k, "h.h", "copy.h");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "copy.h: a file of its own \xe2\x86\x92 one file with another header");
    must(&k, 0, "compile k.cu --arch sm_90 -o o --recache");
    expect_why(&k, "--last", "disabled: compiled anew");
    must(&k, 0, "clear --yes");
    must(&k, 0, "compile k.cu --arch sm_90 -o o");
    expect_why(&k, "--last", "evicted by `warm evict` or `warm clear`");
    warmd_down(&k);
    free(lib);
}

/* LTO IR holds the working folder: bytes made in another one would not be those of this compile. */
Test(why, working_folder_is_named_where_the_result_holds_it)
{
    static const char *const options[] = {"-dlto", "-lineinfo"};
    char *lib = toolchain_lib("13.5.37");
    if (!lib)
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    char *flags[] = {(char *)(uintptr_t) "--nvrtc", lib, NULL}, command[128];
    struct warmd k = warmd_up(flags);
    char *program = bin_path("warm");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        for (const char *folder = "ab"; *folder; folder++) {
            char *out;
            int status = run_command(
                &out,
                "mkdir -p %s/%c && cd %s/%c && echo '__global__ void k() {}' >k.cu && "
                "WARM_SOCKET=%s WARM_SESSION=%c%zu %s compile k.cu --arch sm_90 -o o %s 2>&1",
                k.dir, *folder, k.dir, *folder, k.socket, *folder, i, program, options[i]);
            cr_assert_eq(status, 0, "%s", out);
            free(out);
        }
        snprintf(command, sizeof command, "--session b%zu", i);
        expect_why(&k, command, " from the nearest entry in working folder: ");
        expect_why(&k, command, "/a \xe2\x86\x92 ");
    }
    free(program);
    warmd_down(&k);
    free(lib);
}

Test(why, a_compile_is_found_by_its_file_and_names_its_options)
{
    struct warmd k = warmd_up(NULL);
    char *out, *program = bin_path("warm");
    cr_assert_eq(run_command(&out,
                             "exec 2>&1; cd %s && export WARM_SOCKET=%s && echo 'int x;' >a.cc && "
                             "for o in 2 3; do %s run --no-report g++ -O$o -c a.cc || exit; done",
                             k.dir, k.socket, program),
                 0, "%s", out);
    free(out), free(program);
    expect_why(&k, "--last", "differs from the nearest entry in option -O2 \xe2\x86\x92 -O3\n");
    expect_why(&k, "a.cc", "g++ a.cc");
    expect_why(&k, "some/folder/a.cc", "g++ a.cc");
    warmd_down(&k);
}

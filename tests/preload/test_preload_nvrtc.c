/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preload_nvrtc.c - programs that use NVRTC, with libwarm-preload.so and without: whatever the
 * daemon does, they see the same.
 *
 * The program is tests/programs/nvrtc_client.c, which prints all that its handles show; it is
 * compiled here. Needs a toolchain: see support/pool.h, and a C compiler.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>

#include "tests/support/nvrtc_rig.h"

TestSuite(preload_nvrtc, .fini = nvrtc_rig_down, .timeout = 300);

/* For how long one waits for a daemon that hangs. */
static const char hang_ms[] = "500";

/* ---- the same as without ---- */

static void expect_hits_of(const char *version, const char *command)
{
    nvrtc_rig_up(version);
    nvrtc_rig_expect_hits(nvrtc_rig.client, "",
                          nvrtc_rig_arguments("", nvrtc_rig.library, command));
}

Test(preload_nvrtc, a_hit_shows_what_a_compile_shows_on_13) { expect_hits_of(NVRTC_13, "cases"); }
Test(preload_nvrtc, a_hit_shows_what_a_compile_shows_on_12) { expect_hits_of(NVRTC_12, "cases"); }
Test(preload_nvrtc, calls_out_of_order_get_the_same_answers_on_13)
{
    expect_hits_of(NVRTC_13, "edges");
}
Test(preload_nvrtc, calls_out_of_order_get_the_same_answers_on_12)
{
    expect_hits_of(NVRTC_12, "edges");
}
Test(preload_nvrtc, what_became_of_a_precompiled_header_is_told_truly_on_13)
{
    expect_hits_of(NVRTC_13, "pch");
}
Test(preload_nvrtc, what_became_of_a_precompiled_header_is_told_truly_on_12)
{
    expect_hits_of(NVRTC_12, "pch");
}

Test(preload_nvrtc, a_program_that_opens_it_by_soname_hits)
{
    nvrtc_rig_up(NVRTC_13);
    char settings[4200], *lib_folder = strdup(nvrtc_rig.library);
    *strrchr(lib_folder, '/') = '\0';
    snprintf(settings, sizeof settings, "LD_LIBRARY_PATH=%s", lib_folder);
    nvrtc_rig_expect_hits(nvrtc_rig.client, settings, "libnvrtc.so.13 simple");
    free(lib_folder);
}

Test(preload_nvrtc, flags_of_dlopen_keep_their_meaning)
{
    nvrtc_rig_up(NVRTC_13);
    nvrtc_rig_expect_hits(nvrtc_rig.client, "",
                          nvrtc_rig_arguments("NOLOAD:", nvrtc_rig.library, "simple"));
    nvrtc_rig_expect_hits(nvrtc_rig.client, "",
                          nvrtc_rig_arguments("DEEPBIND:", nvrtc_rig.library, "simple"));
}

Test(preload_nvrtc, the_global_scope_has_no_nvrtc_that_nobody_brought)
{
    nvrtc_rig_up(NVRTC_13);
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client, "- default");
    char *with = nvrtc_rig_run("/nowhere", "", nvrtc_rig.client, "- default");
    nvrtc_rig_expect_same(direct, with, "dlsym(RTLD_DEFAULT)");
    free(direct);
    free(with);
}

Test(preload_nvrtc, threads_compile_in_parallel)
{
    nvrtc_rig_up(NVRTC_13);
    nvrtc_rig_expect_hits(nvrtc_rig.client, "",
                          nvrtc_rig_arguments("", nvrtc_rig.library, "threads 4 #"));
}

Test(preload_nvrtc, a_child_that_is_forked_in_the_middle_goes_on)
{
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_up(nvrtc_rig_options);
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client,
                                 nvrtc_rig_arguments("", nvrtc_rig.library, "fork 0 #"));
    for (int i = 0; i < 2; i++) {
        char *with = nvrtc_rig_run(k.socket, "", nvrtc_rig.client,
                                   nvrtc_rig_arguments("", nvrtc_rig.library, "fork 4 #"));
        nvrtc_rig_expect_same(direct, with, i ? "a child, on hits" : "a child, on misses");
        free(with);
    }
    free(direct);
    warmd_down(&k);
}

Test(preload_nvrtc, what_the_compiler_could_not_be_shown_is_compiled_by_the_program)
{
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_up(nvrtc_rig_options);
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client,
                                 nvrtc_rig_arguments("", nvrtc_rig.library, "hidden"));
    char *with = nvrtc_rig_run(k.socket, "", nvrtc_rig.client,
                               nvrtc_rig_arguments("", nvrtc_rig.library, "hidden"));
    nvrtc_rig_expect_same(direct, with, "a file that the daemon does not read");
    cr_assert_eq(nvrtc_rig_counter(&k, "entries"), 0);
    free(direct);
    free(with);
    warmd_down(&k);
}

/* ---- settings ---- */

static void expect_counters(const char *settings, long compiles, long entries)
{
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_up(nvrtc_rig_options);
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client,
                                 nvrtc_rig_arguments("", nvrtc_rig.library, "one"));
    for (int i = 0; i < 2; i++) {
        char *with = nvrtc_rig_run(k.socket, settings, nvrtc_rig.client,
                                   nvrtc_rig_arguments("", nvrtc_rig.library, "one"));
        nvrtc_rig_expect_same(direct, with, settings);
        free(with);
    }
    cr_assert_eq(nvrtc_rig_counter(&k, "hits"), 0);
    cr_assert_eq(nvrtc_rig_counter(&k, "compiles"), compiles);
    cr_assert_eq(nvrtc_rig_counter(&k, "entries") > 0, entries > 0);
    free(direct);
    warmd_down(&k);
}

Test(preload_nvrtc, warm_disable_asks_nobody) { expect_counters("WARM_DISABLE=1", 0, 0); }
Test(preload_nvrtc, warm_readonly_stores_nothing) { expect_counters("WARM_READONLY=1", 2, 0); }
Test(preload_nvrtc, warm_recache_takes_nothing) { expect_counters("WARM_RECACHE=1", 2, 1); }

/* NVRTC gives the PTX that its ptxas refused, too; and it refuses a folder for precompiled headers that is absent. */
Test(preload_nvrtc, a_compile_that_fails_shows_what_it_shows_without)
{
    static const char *const commands[] = {"refused", "nowhere"};
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_up(nvrtc_rig_options);
    free(nvrtc_rig_run(k.socket, "", nvrtc_rig.client,
                       nvrtc_rig_arguments("", nvrtc_rig.library, "simple")));
    for (int i = 0; i < 4; i++) {
        char *arguments = nvrtc_rig_arguments("", nvrtc_rig.library, commands[i / 2]);
        char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client, arguments);
        char *with = nvrtc_rig_run(k.socket, "", nvrtc_rig.client, arguments);
        nvrtc_rig_expect_same(direct, with, commands[i / 2]);
        free(direct);
        free(with);
    }
    warmd_down(&k);
}

/* Runs a program under settings, after another run without them has filled the store. */
static void expect_same_under(const char *settings, const char *command)
{
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_up(nvrtc_rig_options);
    char *arguments = nvrtc_rig_arguments("", nvrtc_rig.library, command);
    char *usual = nvrtc_rig_run(k.socket, "", nvrtc_rig.client, arguments);
    char *direct = nvrtc_rig_run(NULL, settings, nvrtc_rig.client, arguments);
    char *with = nvrtc_rig_run(k.socket, settings, nvrtc_rig.client, arguments);
    cr_expect_str_neq(usual, direct, "%s decides nothing", settings);
    nvrtc_rig_expect_same(direct, with, settings);
    free(usual);
    free(direct);
    free(with);
    warmd_down(&k);
}

Test(preload_nvrtc, a_variable_that_nvrtc_reads_keeps_the_program_out)
{
    expect_same_under("FINALIZER_USE_LEGACY_ELF_BUILDER=1", "simple");
}

/* Debug information has the name of the working folder that $PWD has. */
Test(preload_nvrtc, the_working_folder_has_the_name_that_the_compiler_gives_it)
{
    expect_same_under("PWD=/proc/self/cwd", "debug");
}

Test(preload_nvrtc, other_preloads_keep_working)
{
    nvrtc_rig_up(NVRTC_13);
    static const char source[] =
        "#include <dlfcn.h>\n#include <string.h>\n#include <unistd.h>\n"
        "void *dlsym(void *h, const char *name)\n"
        "{ static void *(*real)(void *, const char *);\n"
        "  if (!real) { void *f = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.34\");\n"
        "    if (!f) f = dlvsym(RTLD_NEXT, \"dlsym\", \"GLIBC_2.2.5\");\n"
        "    memcpy(&real, &f, sizeof real); }\n"
        "  if (!strcmp(name, \"nvrtcGetCUBIN\")) write(1, \"seen\\n\", 5);\n"
        "  return real(h, name); }\n";
    char *path = path_join(nvrtc_rig.folder, "other.c"), how[4200];
    file_write(path, source, sizeof source - 1);
    snprintf(how, sizeof how, "-shared -fPIC -Wno-unused-result %s -ldl", path);
    char *other = nvrtc_rig_build("other.so", how), settings[9000];
    for (int order = 0; order < 2; order++) {
        snprintf(settings, sizeof settings, "LD_PRELOAD=%s:%s", order ? nvrtc_rig.preload : other,
                 order ? other : nvrtc_rig.preload);
        char *out = nvrtc_rig_run("/nowhere", settings, nvrtc_rig.client,
                                  nvrtc_rig_arguments("", nvrtc_rig.library, "one"));
        cr_assert_eq(strncmp(out, "seen\n", 5), 0, "%s: %s", settings, out);
        free(out);
    }
    free(other);
    free(path);
}

Test(preload_nvrtc, a_broken_nvrtc_stays_as_broken_as_it_is)
{
    nvrtc_rig_up(NVRTC_13);
    char *path = path_join(nvrtc_rig.folder, "broken.c"), how[4200];
    char text[4096];
    int len = snprintf(text, sizeof text,
                       "int nvrtcVersion(int *a, int *b) { *a = 13; *b = 5; return 0; }\n"
                       "int nvrtcCreateProgram(void **p) { *p = p; return 0; }\n"
                       "int nvrtcGetPTXSize(void *p, unsigned long *n) { *n = 0; return 0; }\n"
                       "int nvrtcGetPTX(void *p, char *n) { return 0; }\n");
    static const char *const names[] = {"GetCUBIN",          "GetLTOIR",       "GetOptiXIR",
                                        "GetProgramLog",     "DestroyProgram", "AddNameExpression",
                                        "CompileProgram",    "GetLoweredName", "SetFlowCallback",
                                        "GetPCHCreateStatus"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "int nvrtc%s(void) { return 7; }\n",
                        names[i]);
    len += snprintf(
        text + len, sizeof text - (size_t)len,
        "#define S(n) int nvrtc##n##Size(void *p, unsigned long *o) { *o = 1; return 7; }\n"
        "S(GetCUBIN) S(GetLTOIR) S(GetOptiXIR) S(GetProgramLog)\n"
        "int nvrtcGetPCHHeapSizeRequired(void *p, unsigned long *o) { return 7; }\n");
    file_write(path, text, (size_t)len);
    snprintf(how, sizeof how, "-shared -fPIC %s", path);
    char *broken = nvrtc_rig_build("libnvrtc.so.13", how);
    struct warmd k = warmd_up(nvrtc_rig_options);
    char *direct =
        nvrtc_rig_run(NULL, "", nvrtc_rig.client, nvrtc_rig_arguments("", broken, "one"));
    char *with =
        nvrtc_rig_run(k.socket, "", nvrtc_rig.client, nvrtc_rig_arguments("", broken, "one"));
    nvrtc_rig_expect_same(direct, with, "a broken compiler");
    free(direct);
    free(with);
    free(broken);
    free(path);
    warmd_down(&k);
}

/* ---- a client in steps ---- */

struct steps {
    pid_t pid;
    FILE *in, *out;
};

static struct steps steps_of(const char *socket, const char *command)
{
    int to[2], from[2];
    cr_assert(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        if (socket) {
            setenv("WARM_SOCKET", socket, 1);
            setenv("WARM_TIMEOUT_MS", nvrtc_rig.timeout_ms, 1);
            setenv("LD_PRELOAD", nvrtc_rig.preload, 1);
        }
        execl(nvrtc_rig.client, nvrtc_rig.client, nvrtc_rig.library, command, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    struct steps s = {pid, fdopen(to[1], "w"), fdopen(from[0], "r")};
    setvbuf(s.out, NULL, _IONBF, 0); /* so that poll tells of every line */
    return s;
}

static void steps_expect(struct steps *s, char *out, size_t cap)
{
    struct pollfd ready = {fileno(s->out), POLLIN, 0};
    cr_assert_eq(poll(&ready, 1, 120000), 1, "the program does not go on");
    cr_assert_not_null(fgets(out, (int)cap, s->out), "the program has ended");
}

static void steps_await_created(struct steps *s)
{
    char line[1024];
    steps_expect(s, line, sizeof line);
    cr_assert_str_eq(line, "created\n");
}

/* Lets it compile; the next program is created then. */
static void steps_compile(struct steps *s, char *out, size_t cap)
{
    fputs("\n", s->in);
    fflush(s->in);
    steps_expect(s, out, cap);
    steps_await_created(s);
}

static void steps_end(struct steps *s)
{
    fclose(s->in);
    fclose(s->out);
    int status = warmd_reap(s->pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the program ended with %x", status);
}

enum { STEPS = 6 };

static char without[STEPS][1024]; /* the answers without warm */

static struct steps steps_start(const char *socket)
{
    struct steps s = steps_of(socket, "steps");
    steps_await_created(&s);
    return s;
}

/* Makes the test ready, and fills `without`. */
static void steps_without(void)
{
    nvrtc_rig_up(NVRTC_13);
    struct steps s = steps_start(NULL);
    for (int i = 0; i < STEPS; i++)
        steps_compile(&s, without[i], sizeof without[i]);
    steps_end(&s);
}

/* Takes step i, and expects the answer that it has without warm. */
static void steps_expect_same(struct steps *s, int i, const char *when)
{
    char line[1024];
    steps_compile(s, line, sizeof line);
    nvrtc_rig_expect_same(without[i], line, when);
}

Test(preload_nvrtc, a_daemon_restarted_between_create_and_compile_serves)
{
    steps_without();
    struct warmd k = warmd_up(nvrtc_rig_options);
    struct steps s = steps_start(k.socket);
    for (int i = 0; i < STEPS; i++) {
        if (i) {
            kill(k.pid, i % 2 ? SIGKILL : SIGTERM);
            warmd_reap(k.pid);
            warmd_start(&k, nvrtc_rig_options);
        }
        steps_expect_same(&s, i, "after a restart");
        cr_assert_eq(nvrtc_rig_counter(&k, "compiles"), 1, "step %d did not reach the daemon", i);
    }
    steps_end(&s);
    warmd_down(&k);
}

Test(preload_nvrtc, a_client_that_is_killed_in_mid_request_costs_nobody_anything)
{
    static const unsigned moments_ms[] = {0, 30, 100, 300, 1000};
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_up(nvrtc_rig_options);
    for (size_t i = 0; i < sizeof moments_ms / sizeof *moments_ms; i++) {
        struct steps s = steps_of(k.socket, "large");
        steps_await_created(&s);
        usleep(moments_ms[i] * 1000);
        kill(s.pid, SIGKILL);
        cr_assert(WIFSIGNALED(warmd_reap(s.pid)));
        fclose(s.in);
        fclose(s.out);
    }
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client,
                                 nvrtc_rig_arguments("", nvrtc_rig.library, "one"));
    char *with = nvrtc_rig_run(k.socket, "", nvrtc_rig.client,
                               nvrtc_rig_arguments("", nvrtc_rig.library, "one"));
    nvrtc_rig_expect_same(direct, with, "after another client's death");
    cr_assert_geq(nvrtc_rig_counter(&k, "compiles"), 1);
    free(direct);
    free(with);
    warmd_down(&k);
}

Test(preload_nvrtc, a_daemon_that_hangs_is_asked_again_when_it_goes_on)
{
    nvrtc_rig_up(NVRTC_13);
    char line[1024];
    struct warmd k = warmd_up(nvrtc_rig_options);
    /* The pause is a hundred times as long. With less, a compile on a busy machine is given up again and
     * again: half of that is all that the daemon may take for a sign of life. */
    nvrtc_rig.timeout_ms = "100";
    struct steps s = steps_start(k.socket);
    steps_compile(&s, line, sizeof line);
    long compiles = nvrtc_rig_counter(&k, "compiles");
    kill(k.pid, SIGSTOP);
    usleep(1100 * 1000); /* so that the connection is asked for a sign of life */
    steps_compile(&s, line, sizeof line);
    kill(k.pid, SIGCONT);
    for (uint64_t end = clock_now_ms() + 600000; nvrtc_rig_counter(&k, "compiles") == compiles;) {
        cr_assert_lt(clock_now_ms(), end, "the daemon is not found again");
        usleep(500 * 1000);
        steps_compile(&s, line, sizeof line);
    }
    steps_end(&s);
    warmd_down(&k);
}

Test(preload_nvrtc, children_inherit_no_descriptor)
{
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_up(nvrtc_rig_options);
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client,
                                 nvrtc_rig_arguments("", nvrtc_rig.library, "child"));
    for (int i = 0; i < 2; i++) {
        char *with = nvrtc_rig_run(k.socket, "", nvrtc_rig.client,
                                   nvrtc_rig_arguments("", nvrtc_rig.library, "child"));
        nvrtc_rig_expect_same(direct, with, i ? "after a hit" : "after a miss");
        free(with);
    }
    cr_assert_gt(nvrtc_rig_counter(&k, "hits"), 0);
    free(direct);
    warmd_down(&k);
}

Test(preload_nvrtc, a_store_without_space_serves_what_it_compiles)
{
    nvrtc_rig_up(NVRTC_13);
    struct warmd k = warmd_new();
    cr_assert_eq(mkdir(k.store, 0700), 0);
    if (mount("warm-test", k.store, "tmpfs", MS_NOSUID | MS_NODEV, "size=160k,mode=700") != 0) {
        warmd_free(&k);
        cr_skip_test("needs the right to mount a tmpfs");
    }
    warmd_start(&k, nvrtc_rig_options);
    char *filler = path_join(k.store, "filler"), block[4096] = {0};
    int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof block) == sizeof block)
        ;
    close(fd);
    free(filler);
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client,
                                 nvrtc_rig_arguments("", nvrtc_rig.library, "threads 2 #"));
    for (int i = 0; i < 2; i++) {
        char *with = nvrtc_rig_run(k.socket, "", nvrtc_rig.client,
                                   nvrtc_rig_arguments("", nvrtc_rig.library, "threads 2 #"));
        nvrtc_rig_expect_same(direct, with, "a full store");
        free(with);
    }
    cr_assert_geq(nvrtc_rig_counter(&k, "compiles"), 16);
    free(direct);
    kill(k.pid, SIGTERM);
    warmd_reap(k.pid);
    umount2(k.store, MNT_DETACH);
    warmd_free(&k);
}

Test(preload_nvrtc, a_daemon_that_goes_is_done_without_and_found_again)
{
    steps_without();
    struct warmd k = warmd_up(nvrtc_rig_options);
    struct steps s = steps_start(k.socket);
    for (int i = 0; i < STEPS; i++) {
        if (i == 1) {
            kill(k.pid, SIGKILL);
            warmd_reap(k.pid);
        }
        if (i == 3)
            warmd_start(&k, nvrtc_rig_options);
        if (i == 5)
            usleep(1100 * 1000); /* a quarter of a second, and twice as long after each failure */
        steps_expect_same(&s, i, "without a daemon");
    }
    cr_assert_geq(nvrtc_rig_counter(&k, "compiles"), 1, "the daemon was not found again");
    steps_end(&s);
    warmd_down(&k);
}

Test(preload_nvrtc, a_daemon_that_hangs_is_done_without)
{
    steps_without();
    struct warmd k = warmd_up(nvrtc_rig_options);
    nvrtc_rig.timeout_ms = hang_ms;
    struct steps s = steps_start(k.socket);
    for (int i = 0; i < STEPS; i++) {
        if (i == 1)
            kill(k.pid, SIGSTOP);
        steps_expect_same(&s, i, "while the daemon hangs");
    }
    kill(k.pid, SIGCONT);
    steps_end(&s);
    warmd_down(&k);
}

/* ---- daemons that are none ---- */

struct fake {
    char *path;
    int listener;
    void (*script)(int fd);
    _Atomic int n_accepted;
    pthread_t thread;
};

static void put_frame(int fd, void (*put)(struct writer *w, uint64_t tag, const void *message),
                      uint64_t tag, const void *message)
{
    struct writer w;
    writer_init(&w, 0);
    put(&w, tag, message);
    send(fd, w.data, w.len, MSG_NOSIGNAL);
    writer_close(&w);
}

static void put_welcome(struct writer *w, uint64_t tag, const void *message)
{
    wire_put_welcome(w, tag, message);
}

static void put_need(struct writer *w, uint64_t tag, const void *message)
{
    wire_put_need(w, tag, message);
}

/* Answers HELLO, and gives the tag of the request behind it. */
static bool greet(int fd, uint16_t version, uint64_t *out_tag)
{
    static const struct wire_welcome right = {
        .version = WIRE_VERSION, .capabilities = 0, .daemon_uid = 0, .daemon = {"fake", 4}};
    struct warmd_frame *f = calloc(1, sizeof *f);
    struct wire_welcome welcome = right;
    welcome.version = version;
    bool ok = f && warmd_frame_try(fd, f);
    if (ok) {
        put_frame(fd, put_welcome, f->frame.tag, &welcome);
        ok = warmd_frame_try(fd, f);
        *out_tag = ok ? f->frame.tag : 0;
    }
    free(f);
    return ok;
}

static void await_end(int fd)
{
    char bytes[512];
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        ;
}

static void script_silent(int fd) { await_end(fd); }

static void script_other_version(int fd)
{
    uint64_t tag;
    greet(fd, WIRE_VERSION + 1, &tag);
}

static void script_garbage(int fd)
{
    uint64_t tag;
    if (greet(fd, WIRE_VERSION, &tag))
        send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
    await_end(fd);
}

/* As a daemon that is killed while it compiles. */
static void script_dies(int fd)
{
    uint64_t tag;
    struct wire_need need = {1 << 20};
    struct warmd_frame *f = calloc(1, sizeof *f);
    if (f && greet(fd, WIRE_VERSION, &tag)) {
        put_frame(fd, put_need, tag, &need);
        warmd_frame_try(fd, f);
    }
    free(f);
}

static void *fake_main(void *arg)
{
    struct fake *f = arg;
    int fd;
    while ((fd = accept(f->listener, NULL, NULL)) >= 0) {
        atomic_fetch_add(&f->n_accepted, 1);
        f->script(fd);
        close(fd);
    }
    return NULL;
}

static void fake_start(struct fake *f, void (*script)(int fd))
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    f->path = path_join(nvrtc_rig.folder, "fake.sock");
    f->script = script;
    strcpy(a.sun_path, f->path);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(f->listener, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(f->listener, 64), 0);
    cr_assert_eq(pthread_create(&f->thread, NULL, fake_main, f), 0);
}

static void fake_end(struct fake *f)
{
    shutdown(f->listener, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    close(f->listener);
    free(f->path);
}

/* The same as without, and not asked for every compile anew. */
static void expect_done_without(void (*script)(int fd), int accepted_max)
{
    steps_without();
    struct fake f = {0};
    fake_start(&f, script);
    struct steps s = steps_start(f.path);
    for (int i = 0; i < STEPS; i++) {
        steps_expect_same(&s, i, "with a daemon that is none");
    }
    steps_end(&s);
    fake_end(&f);
    int n = atomic_load(&f.n_accepted);
    cr_assert(n >= 1 && n <= accepted_max, "%d connections", n);
}

Test(preload_nvrtc, a_daemon_that_never_answers_costs_one_wait)
{
    nvrtc_rig.timeout_ms = hang_ms;
    expect_done_without(script_silent, 2);
}

Test(preload_nvrtc, a_daemon_of_another_version_is_done_without)
{
    expect_done_without(script_other_version, STEPS);
}

Test(preload_nvrtc, a_daemon_that_talks_rubbish_is_done_without)
{
    expect_done_without(script_garbage, 2 * STEPS);
}

Test(preload_nvrtc, a_daemon_that_dies_in_the_middle_is_done_without)
{
    expect_done_without(script_dies, 2 * STEPS);
}

Test(preload_nvrtc, a_socket_that_another_user_listens_at_is_refused)
{
    NEEDS_TWO_USERS();
    nvrtc_rig_up(NVRTC_13);
    struct fake f = {0};
    cr_assert_eq(chmod(nvrtc_rig.folder, 0777), 0);
    cr_assert_eq(seteuid(65534), 0);
    fake_start(&f, script_silent); /* whoever calls listen is who the kernel names */
    cr_assert_eq(seteuid(0), 0);
    char *direct = nvrtc_rig_run(NULL, "", nvrtc_rig.client,
                                 nvrtc_rig_arguments("", nvrtc_rig.library, "one"));
    char *with = nvrtc_rig_run(f.path, "", nvrtc_rig.client,
                               nvrtc_rig_arguments("2>told ", nvrtc_rig.library, "one"));
    nvrtc_rig_expect_same(direct, with, "another user's daemon");
    size_t len;
    char *path = path_join(nvrtc_rig.folder, "told"), *told = file_read(path, &len);
    cr_assert_not_null(strstr(told, "belongs to another user"), "%s", told);
    free(told);
    free(path);
    free(direct);
    free(with);
    fake_end(&f);
}

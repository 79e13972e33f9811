/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compiler.c - the worker pool with real NVRTC: the same bytes as in process, hostile sources,
 * deaths, deadlines, clients that vanish, headers that change.
 *
 * Each test has a spawner, a loop and a pool of its own. A thread plays the client that serves
 * headers. What the same library yields in process is found out in a forked child.
 * Needs a toolchain in $WARM_TOOLCHAIN or beside the tests' folder; skips with a line without one.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/wire/bundle.h"
#include "client/wire/wire.h"
#include "daemon/compiler/compiler.h"
#include "daemon/process/log.h"
#include "daemon/worker/message.h"
#include "daemon/worker/nvrtc.h"
#include "keygen/cuda/job.h"
#include "tests/support/collision.h"
#include "tests/support/support.h"

#define WAIT_MAX_MS 120000 /* for anything that must end */

/* ---- where things are ---- */

/* "FOLDER OF THIS PROGRAM/../NAME" */
static char *beside_tests(const char *name)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    cr_assert(n > 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    *strrchr(exe, '/') = '\0';
    return path_join(exe, name);
}

static const char *const versions[] = {"13.5.37", "12.9.86"};

/* The folder of one toolchain, or NULL if it is not there. */
static char *toolchain_folder(const char *version)
{
    char *root =
        getenv("WARM_TOOLCHAIN") ? strdup(getenv("WARM_TOOLCHAIN")) : beside_tests("toolchain");
    char *folder = path_join(root, version);
    free(root);
    if (access(folder, R_OK) == 0)
        return folder;
    free(folder);
    return NULL;
}

static bool have_toolchains(void)
{
    for (size_t i = 0; i < 2; i++) {
        char *folder = toolchain_folder(versions[i]);
        if (!folder)
            return false;
        free(folder);
    }
    return true;
}

#define NEEDS_TOOLCHAIN()                                                                          \
    if (!have_toolchains())                                                                        \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* ---- the client's end of the channel ---- */

enum manner { SERVES, SILENT, LEAVES };
struct server {
    pthread_t thread;
    int fd, worker_fd;
    enum manner manner;
    int leaves_after; /* questions */
    _Atomic int n_asked;
    sem_t *gate;      /* taken before each answer, if there is one */
    const char *root; /* serves only beneath */
};

static void server_answer(struct server *s, const struct wire_open *question)
{
    char path[4200];
    snprintf(path, sizeof path, "%s%.*s", *(const char *)question->path.data == '/' ? "" : s->root,
             (int)question->path.len, (const char *)question->path.data);
    if (*(const char *)question->path.data != '/')
        snprintf(path, sizeof path, "%s/%.*s", s->root, (int)question->path.len,
                 (const char *)question->path.data);
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct wire_opened answer = {question->id, fd < 0 ? WIRE_PATH_ABSENT : WIRE_PATH_FILE};
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        answer.state = WIRE_PATH_REFUSED;
        close(fd);
        fd = -1;
    }
    struct writer w;
    writer_init(&w, 0);
    wire_put_opened(&w, &answer);
    worker_send(s->fd, w.data, w.len, &fd, fd >= 0);
    writer_close(&w);
    if (fd >= 0)
        close(fd);
}

static void *server_run(void *arg)
{
    struct server *s = arg;
    char packet[WIRE_OPEN_MAX];
    ssize_t n;
    while ((n = recv(s->fd, packet, sizeof packet, 0)) > 0) {
        struct wire_open question;
        cr_assert_eq(wire_get_open(packet, (size_t)n, &question, NULL), 0);
        s->n_asked++;
        if (s->manner == LEAVES && s->n_asked >= s->leaves_after)
            break;
        if (s->gate)
            sem_wait(s->gate);
        if (s->manner != SILENT)
            server_answer(s, &question);
    }
    close(s->fd);
    return NULL;
}

static void server_start(struct server *s)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    s->fd = pair[0];
    s->worker_fd = pair[1];
    cr_assert_eq(pthread_create(&s->thread, NULL, server_run, s), 0);
}

/* ---- one pool ---- */

struct rig {
    uv_loop_t loop;
    struct spawner *spawner;
    struct compiler *compiler;
    char *dir, *worker;
    char *nvrtc[2];
    struct compiler_config config;
};

static void rig_configure(struct rig *r)
{
    struct err e;
    memset(r, 0, sizeof *r);
    log_set_level(LOG_LEVEL_ERROR);
    r->dir = temp_dir_new();
    r->worker = beside_tests("libexec/warm/warm-nvrtc");
    for (size_t i = 0; i < 2; i++) {
        r->nvrtc[i] = toolchain_folder(versions[i]);
        cr_assert_not_null(r->nvrtc[i]);
    }
    cr_assert_eq(spawner_start(&r->spawner, &e), 0, "%s", e.text);
    cr_assert_eq(uv_loop_init(&r->loop), 0);
    r->config = (struct compiler_config){
        .spawner = r->spawner,
        .loop = &r->loop,
        .worker_path = r->worker,
        .nvrtc = r->nvrtc,
        .n_nvrtc = 2,
        .limits = {.jobs = 2, .worker_memory = 8ull << 30, .timeout_ms = 60000, .idle_ms = 60000}};
}

static void rig_open(struct rig *r)
{
    struct err e;
    cr_assert_eq(compiler_open(&r->compiler, &r->config, &e), 0, "%s", e.text);
}

static void rig_start(struct rig *r)
{
    rig_configure(r);
    rig_open(r);
}

static void on_closed(void *arg) { *(bool *)arg = true; }

static void rig_stop(struct rig *r)
{
    bool closed = false;
    compiler_close(r->compiler, on_closed, &closed);
    while (!closed)
        uv_run(&r->loop, UV_RUN_ONCE);
    cr_assert_eq(uv_loop_close(&r->loop), 0, "a handle was left open");
    spawner_stop(r->spawner);
    for (size_t i = 0; i < 2; i++)
        free(r->nvrtc[i]);
    free(r->worker);
    temp_dir_free(r->dir);
}

/* ---- one compile ---- */

struct text_list {
    const char *texts[16];
};
struct ask { /* what a test wants compiled */
    const char *source;
    size_t source_len; /* 0: strlen */
    const char *name;
    struct text_list options, expressions;
    struct text_list header_names, headers;
    struct server *server; /* NULL: no channel */
    const char *version;   /* NULL: the default */
    uint64_t timeout_ms;
    uint32_t uid;
};

struct outcome {
    bool finished;
    int status, nvrtc_status;
    bool keep;
    char text[244];
    void *bundle;
    uint64_t len;
    char **paths;
    struct proof *digests;
    bool *absent;
    size_t n_paths;
    struct compile *compile;
    int job_fd;
};

static void on_compiled(void *arg, struct compile_done *done)
{
    struct outcome *o = arg;
    cr_assert(!o->finished, "answered twice");
    o->finished = true;
    o->status = done->status;
    o->nvrtc_status = done->nvrtc_status;
    o->keep = done->keep;
    snprintf(o->text, sizeof o->text, "%s", done->status ? done->err.text : "");
    close(o->job_fd);
    if (done->status)
        return;
    o->len = done->len;
    o->bundle = mmap(NULL, done->len, PROT_READ, MAP_PRIVATE, done->fd, 0);
    cr_assert_neq(o->bundle, MAP_FAILED);
    close(done->fd);
    o->n_paths = done->n_paths;
    o->paths = calloc(done->n_paths + 1, sizeof *o->paths);
    o->digests = calloc(done->n_paths + 1, sizeof *o->digests);
    o->absent = calloc(done->n_paths + 1, sizeof *o->absent);
    for (size_t i = 0; i < done->n_paths; i++) {
        o->paths[i] = strndup(done->paths[i].path.data, done->paths[i].path.len);
        o->digests[i] = done->paths[i].sha256;
        o->absent[i] = done->paths[i].absent;
    }
}

static void outcome_close(struct outcome *o)
{
    if (o->bundle)
        munmap(o->bundle, o->len);
    for (size_t i = 0; i < o->n_paths; i++)
        free(o->paths[i]);
    free(o->paths);
    free(o->digests);
    free(o->absent);
    memset(o, 0, sizeof *o);
}

static struct view outcome_section(const struct outcome *o, uint32_t type)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n;
    struct err e;
    cr_assert_eq(bundle_read(o->bundle, o->len, sections, &n, &e), 0, "%s", e.text);
    return bundle_find(sections, n, type);
}

/* The log as a C string that the caller frees. */
static char *outcome_log(const struct outcome *o)
{
    struct view log = outcome_section(o, BUNDLE_LOG);
    return strndup(log.data ? log.data : "", log.len);
}

static size_t views_of(const struct text_list *list, struct view out[16])
{
    size_t n = 0;
    for (; n < 16 && list->texts[n]; n++)
        out[n] = (struct view){list->texts[n], strlen(list->texts[n])};
    return n;
}

static int job_memfd(const struct rig *r, const struct ask *a, uint64_t *out_len)
{
    struct view options[16], expressions[16], names[16], bytes[16];
    struct job_header headers[16];
    struct job job = {.language = JOB_CUDA,
                      .name = {a->name ? a->name : "k.cu", strlen(a->name ? a->name : "k.cu")},
                      .cwd = {r->dir, strlen(r->dir)},
                      .source = {a->source, a->source_len ? a->source_len : strlen(a->source)},
                      .options = options,
                      .headers = headers,
                      .expressions = expressions};
    job.n_options = views_of(&a->options, options);
    job.n_expressions = views_of(&a->expressions, expressions);
    job.n_headers = views_of(&a->header_names, names);
    views_of(&a->headers, bytes);
    for (size_t i = 0; i < job.n_headers; i++)
        headers[i] = (struct job_header){names[i], bytes[i]};
    struct writer w;
    writer_init(&w, 0);
    job_encode(&job, &w);
    cr_assert(!w.failed);
    int fd = memfd_create("job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(write(fd, w.data, w.len), (ssize_t)w.len);
    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    *out_len = w.len;
    writer_close(&w);
    return fd;
}

static void ask_start(struct rig *r, const struct ask *a, struct outcome *o)
{
    struct err e;
    memset(o, 0, sizeof *o);
    const struct toolchain *t;
    const char *version = a->version ? a->version : "";
    cr_assert_eq(
        compiler_find(r->compiler, (struct view){version, strlen(version)}, geteuid(), &t, &e), 0,
        "%s", e.text);
    struct compile_request request = {.toolchain = t,
                                      .channel_fd = -1,
                                      .timeout_ms = a->timeout_ms,
                                      .uid = a->uid,
                                      .cb = on_compiled,
                                      .arg = o};
    request.job_fd = o->job_fd = job_memfd(r, a, &request.job_len);
    if (a->server) {
        server_start(a->server);
        request.channel_fd = a->server->worker_fd;
    }
    cr_assert_eq(compiler_start(r->compiler, &request, &o->compile, &e), 0, "%s", e.text);
    cr_assert(!o->finished, "answered from within compiler_start");
}

#define TICK_MS 5
static void on_tick(uv_timer_t *timer) { ++*(int *)timer->data; }

/* Runs the loop until *flag, or the test fails. The tick is for what timers alone bring about:
 * UV_RUN_ONCE waits for something more after it has run them. */
static void run_until(struct rig *r, const bool *flag)
{
    uv_timer_t timer;
    int ticks = 0;
    uv_timer_init(&r->loop, &timer);
    timer.data = &ticks;
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    while (!*flag && ticks < WAIT_MAX_MS / TICK_MS)
        uv_run(&r->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&r->loop, UV_RUN_NOWAIT);
    cr_assert(*flag, "nothing happened for %d ms", WAIT_MAX_MS);
}

static void ask_finish(struct rig *r, const struct ask *a, struct outcome *o)
{
    run_until(r, &o->finished);
    if (a->server)
        pthread_join(a->server->thread, NULL);
}

static void ask_run(struct rig *r, const struct ask *a, struct outcome *o)
{
    ask_start(r, a, o);
    ask_finish(r, a, o);
}

/* ---- what the library yields in process ---- */

/* In a child of the test, where the framework's assertions would wait for ever. */
static void child_needs(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "cannot use %s\n", what);
    _exit(1);
}

static void *must_find(void *library, const char *symbol)
{
    void *found = dlsym(library, symbol);
    child_needs(found != NULL, symbol);
    return found;
}

static void reference_load(struct nvrtc *n, const char *folder)
{
    bool new = strstr(folder, "/13.") != NULL;
    char *builtins =
        path_join(folder, new ? "lib/libnvrtc-builtins.so.13.5" : "lib/libnvrtc-builtins.so.12.9");
    char *path = path_join(folder, new ? "lib/libnvrtc.so.13" : "lib/libnvrtc.so.12");
    child_needs(dlopen(builtins, RTLD_LAZY) != NULL, builtins);
    void *library = dlopen(path, RTLD_NOW);
    child_needs(library != NULL, path);
#define FN(name, parameters)                                                                       \
    void *name##_found = must_find(library, "nvrtc" #name);                                        \
    memcpy(&n->name, &name##_found, sizeof name##_found);
#define FN_OPTIONAL(name, parameters) FN(name, parameters)
#include "daemon/worker/nvrtc.fn"
#undef FN
#undef FN_OPTIONAL
    free(builtins);
    free(path);
}

static size_t list_length(const struct text_list *list)
{
    size_t n = 0;
    while (n < 16 && list->texts[n])
        n++;
    return n;
}

static void put_output(FILE *out, nvrtc_program p, int (*size)(nvrtc_program, size_t *),
                       int (*bytes)(nvrtc_program, char *), bool is_text)
{
    size_t len = 0;
    char *data = NULL;
    if (size(p, &len) || len <= (is_text ? 1u : 0u) || bytes(p, data = malloc(len)))
        len = 0;
    len -= is_text && len;
    fprintf(out, "%zu:", len);
    if (len)
        fwrite(data, 1, len, out);
    free(data);
}

/* Compiles in this process and writes everything down. */
static void reference_compile(const char *folder, const struct ask *a, FILE *out)
{
    struct nvrtc n;
    nvrtc_program p;
    reference_load(&n, folder);
    struct text_list options = a->options;
    int n_options = (int)list_length(&options);
    options.texts[n_options++] = "--no-cache";
    child_needs(n.CreateProgram(&p, a->source, a->name ? a->name : "k.cu",
                                (int)list_length(&a->header_names), a->headers.texts,
                                a->header_names.texts) == 0,
                "nvrtcCreateProgram");
    for (size_t i = 0; i < list_length(&a->expressions); i++)
        n.AddNameExpression(p, a->expressions.texts[i]);
    int rc = n.CompileProgram(p, n_options, options.texts);
    fprintf(out, "%d:", rc);
    put_output(out, p, n.GetProgramLogSize, n.GetProgramLog, true);
    put_output(out, p, n.GetCUBINSize, n.GetCUBIN, false);
    put_output(out, p, n.GetPTXSize, n.GetPTX, true);
    put_output(out, p, n.GetLTOIRSize, n.GetLTOIR, false);
    put_output(out, p, n.GetOptiXIRSize, n.GetOptiXIR, false);
    for (size_t i = 0; i < list_length(&a->expressions); i++) {
        const char *lowered;
        if (rc == 0 && n.GetLoweredName(p, a->expressions.texts[i], &lowered) == 0)
            fprintf(out, "%s=%s;", a->expressions.texts[i], lowered);
    }
}

static char *reference(const struct rig *r, const char *version, const struct ask *a,
                       size_t *out_len)
{
    char *file = path_join(r->dir, "reference");
    char *folder = toolchain_folder(version);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        FILE *out = fopen(file, "wb");
        if (chdir(r->dir) || !out)
            _exit(1);
        setenv("PWD", r->dir, 1);
        reference_compile(folder, a, out);
        fclose(out);
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "the compile in process died");
    char *data = file_read(file, out_len);
    unlink(file);
    free(file);
    free(folder);
    return data;
}

/* The same form as reference_compile's, from a bundle. */
static char *outcome_form(const struct outcome *o, size_t *out_len)
{
    static const uint32_t order[] = {BUNDLE_LOG, BUNDLE_CUBIN, BUNDLE_PTX, BUNDLE_LTOIR,
                                     BUNDLE_OPTIXIR};
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "%d:", o->nvrtc_status);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        struct view v = outcome_section(o, order[i]);
        writer_format(&w, "%zu:", v.len);
        writer_bytes(&w, v.data, v.len);
    }
    struct view lowered = outcome_section(o, BUNDLE_LOWERED);
    struct reader in = reader_over(lowered.data, lowered.len);
    while (in.len) {
        struct view from = reader_blob(&in, JOB_TEXT_MAX), to = reader_blob(&in, 1 << 20);
        writer_format(&w, "%.*s=%.*s;", (int)from.len, (const char *)from.data, (int)to.len,
                      (const char *)to.data);
    }
    struct view status = outcome_section(o, BUNDLE_STATUS);
    struct reader s = reader_over(status.data, status.len);
    cr_assert_eq((int)reader_u32(&s), o->nvrtc_status);
    return writer_take(&w, out_len);
}

/* Compiles through the pool and in process with each version: everything must be equal. */
static void expect_same(struct rig *r, const struct ask *given)
{
    for (size_t v = 0; v < 2; v++) {
        struct server server = {.manner = SERVES, .root = r->dir};
        struct ask a = *given;
        struct outcome o;
        char version[5];
        snprintf(version, sizeof version, "%.4s", versions[v]);
        a.version = version;
        a.server = &server;
        ask_run(r, &a, &o);
        cr_assert_eq(o.status, 0, "%s: %s", version, o.text);
        size_t want_len, got_len;
        char *want = reference(r, versions[v], &a, &want_len);
        char *got = outcome_form(&o, &got_len);
        cr_expect(want_len == got_len && memcmp(want, got, got_len) == 0,
                  "NVRTC %s, option %s: in process\n%.400s\nthrough a worker\n%.400s", version,
                  a.options.texts[1], want, got);
        free(want);
        free(got);
        outcome_close(&o);
    }
}

/* ---- sources ---- */

#define SAXPY                                                                                      \
    "extern \"C\" __global__ void saxpy(int n, float a, const float *x, float *y)\n"               \
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }\n"

static char *in_dir(const struct rig *r, const char *name, const char *content)
{
    char *path = path_join(r->dir, name);
    file_write(path, content, strlen(content));
    return path;
}

TestSuite(compiler, .timeout = 300);

Test(compiler, compiles_a_kernel)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = SAXPY, .options = {{"--gpu-architecture=sm_90"}}};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    cr_assert_eq(o.nvrtc_status, 0);
    cr_assert(o.keep);
    cr_assert_gt(outcome_section(&o, BUNDLE_CUBIN).len, 1000u);
    cr_assert_eq(outcome_section(&o, BUNDLE_LOG).len, 0u);
    outcome_close(&o);
    rig_stop(&r);
}

/* ---- equality ---- */

Test(compiler, yields_the_bytes_of_the_library_in_process)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *there = path_join(r.dir, "there");
    mkdir(there, 0700);
    free(there);
    static const char *const options[] = {"-DN=3",     "-lineinfo",      "-G",          "-dlto",
                                          "-rdc=true", "-use_fast_math", "--std=c++20", "-w"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect_same(&r, &(struct ask){.source = SAXPY,
                                      .name = i % 2 ? "there/saxpy.cu" : "not_there/saxpy.cu",
                                      .options = {{"--gpu-architecture=sm_90", options[i]}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=compute_90"}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=sm_80", "-optix-ir"}}});
    rig_stop(&r);
}

/* NVRTC takes later compiles of its process as if -restrict had been given again. */
Test(compiler, yields_the_same_after_options_that_stay_on_in_the_process)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.jobs = 2; /* one for each toolchain, kept between compiles */
    rig_open(&r);
    static const char aliasing[] = "__global__ void k(float *x, const float *y, float *z)\n"
                                   "{ x[0] = y[0]; z[0] = y[0] + x[1]; x[2] = y[0] * z[1]; }\n";
    struct ask plain = {.source = aliasing, .options = {{"-arch=sm_90"}}};
    expect_same(&r, &plain);
    expect_same(&r, &(struct ask){.source = aliasing, .options = {{"-arch=sm_90", "-restrict"}}});
    expect_same(&r, &plain);
    rig_stop(&r);
}

Test(compiler, yields_the_same_errors_warnings_and_names)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char sm_90[] = "-arch=sm_90";
    expect_same(&r, &(struct ask){.source = "__global__ void k( { }\n", .options = {{sm_90}}});
    expect_same(&r, &(struct ask){.source = "static __device__ int f() { int unused; return 1; }\n",
                                  .options = {{sm_90}}});
    expect_same(&r, &(struct ask){.source = "", .options = {{sm_90}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{sm_90, "--no-such-option"}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=sm_12345"}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=sm_90", "-I"}}});
    expect_same(&r, &(struct ask){.source = "#include \"no_such_header.h\"\n" SAXPY});
    expect_same(&r,
                &(struct ask){.source = "template <class T, int N> __global__ void add(T *x)\n"
                                        "{ x[threadIdx.x] += N; }\n"
                                        "namespace n { __device__ int counter; }\n",
                              .options = {{sm_90}},
                              .expressions = {{"add<float, 3>", "&n::counter", "add<int, 7>"}}});
    expect_same(&r, &(struct ask){.source = SAXPY,
                                  .options = {{sm_90}},
                                  .expressions = {{"no_such_kernel<int>"}}});
    rig_stop(&r);
}

Test(compiler, yields_the_same_with_headers_from_memory_and_from_files)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *sub = path_join(r.dir, "inc");
    mkdir(sub, 0700);
    free(in_dir(&r, "inc/outer.h",
                "#pragma once\n#include \"inner.h\"\n#define TWICE(x) inner(x) * 2\n"));
    free(in_dir(&r, "inc/inner.h",
                "#pragma once\n__device__ inline float inner(float x) { return x + 1; }\n"));
    free(in_dir(&r, "beside.h", "#define BESIDE 5\n"));
    static const char source[] = "#include <outer.h>\n#include \"beside.h\"\n#include <inner.h>\n"
                                 "#include \"memory.h\"\n__global__ void k(float *x)\n"
                                 "{ x[0] = TWICE(x[1]) + BESIDE + MEMORY; }\n";
    static const char *const debug[] = {NULL, "-lineinfo", "-G"};
    char include[4096];
    snprintf(include, sizeof include, "-I%s", sub);
    for (size_t i = 0; i < 3; i++)
        expect_same(&r, &(struct ask){.source = source,
                                      .options = {{"-arch=sm_90", include, debug[i]}},
                                      .header_names = {{"memory.h", "unused.h"}},
                                      .headers = {{"#define MEMORY 3\n", "#error unused\n"}}});
    expect_same(&r, &(struct ask){.source = source,
                                  .options = {{"-arch=sm_90", "-Iinc", "-include=beside.h"}},
                                  .header_names = {{"memory.h"}},
                                  .headers = {{"#define MEMORY 3\n"}}});
    free(sub);
    rig_stop(&r);
}

/* What a compile of each version asked its client for. */
static int questions(struct rig *r, const struct ask *given)
{
    int sum = 0;
    for (size_t v = 0; v < 2; v++) {
        struct server server = {.manner = SERVES, .root = r->dir};
        struct ask a = *given;
        struct outcome o;
        char version[5];
        snprintf(version, sizeof version, "%.4s", versions[v]);
        a.version = version;
        a.server = &server;
        ask_run(r, &a, &o);
        cr_assert_eq(o.status, 0, "%s", o.text);
        cr_assert_eq((size_t)server.n_asked, o.n_paths);
        sum += server.n_asked;
        outcome_close(&o);
    }
    return sum;
}

Test(compiler, what_includes_no_file_depends_on_no_file)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask plain = {.source = SAXPY, .options = {{"-arch=sm_90"}}};
    cr_expect_eq(questions(&r, &plain), 0);
    struct ask more = {.source = "template <class T> __global__ "
                                 "void k(T *x) { *x = 3; }\n",
                       .name = "/some/where/name.cu",
                       .options = {{"-arch=compute_80", "-I.", "-I/nowhere", "-rdc=true"}},
                       .expressions = {{"k<float>", "&k<int>"}}};
    cr_expect_eq(questions(&r, &more), 0);
    rig_stop(&r);
}

/* NVRTC looks for these three in every compile; this is the measurement that it may find nothing. */
Test(compiler, yields_the_same_whether_the_program_is_a_file_or_not)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char source[] = "static __device__ int a[3];\n__global__ void k(int *x)\n"
                                 "{ int unused; x[0] = a[x[1]] + __LINE__ + __FILE__[2]; }\n";
    static const char *const options[][2] = {
        {NULL}, {"-rdc=true", "-dlto"}, {"-std=c++20", "-w"}, {"-lineinfo"}, {"-G"}};
    char *program = in_dir(&r, "f.cu", "#error this is not read\n");
    for (int present = 0; present < 2; present++) {
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            expect_same(&r,
                        &(struct ask){.source = source,
                                      .name = "f.cu",
                                      .options = {{"-arch=sm_90", options[i][0], options[i][1]}}});
        free(in_dir(&r, "__nv_nvrtc_builtin_header.h", "#error\n"));
        free(in_dir(&r, "__nv_name_map", "#error\n"));
    }
    unlink(program);
    free(program);
    rig_stop(&r);
}

Test(compiler, a_program_that_includes_itself_gets_the_file)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char *const sources[] = {
        "#ifndef A\n#define A 1\n#include \"f.cu\"\n#endif\n" SAXPY,
        "#pragma once\n#include \"f.cu\"\n" SAXPY,
        "#include \"by.h\"\n" SAXPY,
        "#include \"__nv_name_map\"\n" SAXPY,
        "#if __has_include(\"__nv_nvrtc_builtin_header.h\")\n__device__ int there;\n#endif\n" SAXPY,
    };
    char *program = in_dir(&r, "f.cu", "#pragma once\n__device__ int other;\n");
    free(in_dir(&r, "by.h", "#pragma once\n#include \"f.cu\"\n"));
    free(in_dir(&r, "__nv_name_map", "__device__ int named;\n"));
    free(in_dir(&r, "__nv_nvrtc_builtin_header.h", "__device__ int built;\n"));
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        expect_same(
            &r, &(struct ask){.source = sources[i], .name = "f.cu", .options = {{"-arch=sm_90"}}});
    free(program);
    rig_stop(&r);
}

Test(compiler, lists_each_path_once_in_order_with_what_was_absent)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *first = path_join(r.dir, "first"), *second = path_join(r.dir, "second");
    mkdir(first, 0700);
    mkdir(second, 0700);
    static const char content[] = "#define H 1\n";
    free(in_dir(&r, "second/h.h", content));
    char i1[4096], i2[4096], absent[4096], present[4096];
    snprintf(i1, sizeof i1, "-I%s", first);
    snprintf(i2, sizeof i2, "-I%s", second);
    snprintf(absent, sizeof absent, "%s/h.h", first);
    snprintf(present, sizeof present, "%s/h.h", second);
    struct server server = {.manner = SERVES, .root = r.dir};
    struct ask a = {.source = "#include <h.h>\n#include <h.h>\n" SAXPY,
                    .options = {{"-arch=sm_90", i1, i2}},
                    .server = &server};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, 0);
    size_t at_absent = SIZE_MAX, at_present = SIZE_MAX;
    for (size_t i = 0; i < o.n_paths; i++) {
        for (size_t k = 0; k < i; k++)
            cr_assert_str_neq(o.paths[i], o.paths[k], "listed twice");
        if (strcmp(o.paths[i], absent) == 0)
            at_absent = i;
        if (strcmp(o.paths[i], present) == 0)
            at_present = i;
    }
    cr_assert(at_absent < at_present && at_present < o.n_paths);
    cr_assert(o.absent[at_absent] && !o.absent[at_present]);
    struct proof want = proof_of_bytes(content, strlen(content));
    cr_assert_eq(memcmp(&o.digests[at_present], &want, sizeof want), 0);
    cr_assert_eq((size_t)server.n_asked, o.n_paths, "one question a path");
    outcome_close(&o);
    free(first);
    free(second);
    rig_stop(&r);
}

/* ---- what may be kept ---- */

static bool is_kept(struct rig *r, const char *version, const char *source, const char *option)
{
    struct server server = {.manner = SERVES, .root = r->dir};
    struct ask a = {.source = source,
                    .options = {{"-arch=sm_90", option}},
                    .server = &server,
                    .version = version};
    struct outcome o;
    ask_run(r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    bool keep = o.keep;
    outcome_close(&o);
    return keep;
}

Test(compiler, keeps_what_depends_on_the_job_and_the_headers_alone)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    free(in_dir(&r, "plain.h", "#define PLAIN 1\n"));
    free(in_dir(&r, "clock.h", "#define WHEN __TIME__\n"));
    cr_expect(is_kept(&r, "", SAXPY, NULL));
    cr_expect(is_kept(&r, "", "#include \"plain.h\"\n" SAXPY, NULL));
    cr_expect(is_kept(&r, "", "this is an error\n", NULL), "the compiler's verdict stands");
    cr_expect(!is_kept(&r, "", "__device__ const char t[] = __DATE__;\n" SAXPY, NULL));
    cr_expect(!is_kept(&r, "", "#include \"clock.h\"\n" SAXPY, NULL));
    cr_expect(!is_kept(&r, "", "#include \"/etc/passwd\"\n" SAXPY, NULL), "a path was refused");
    cr_expect(is_kept(&r, "13.5", "#include \"plain.h\"\n" SAXPY, "-lineinfo"));
    cr_expect(!is_kept(&r, "12.9", "#include \"plain.h\"\n" SAXPY, "-lineinfo"),
              "its line tables hold the header's time");
    rig_stop(&r);
}

Test(compiler, keeps_what_has_its_source_in_a_folder_that_is_there)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    char *folder = path_join(r.dir, "there"), *absolute = path_join(folder, "k.cu");
    mkdir(folder, 0700);
    const char *const names[] = {absolute, "there/k.cu", "./there/k.cu",        "/tmp/k.cu",
                                 "k.cu",   "../k.cu",    "there/../there/k.cu", "//tmp//k.cu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t v = 0; v < 2; v++) {
            struct server server = {.manner = SERVES, .root = r.dir};
            struct ask a = {.source = SAXPY,
                            .name = names[i],
                            .options = {{"-arch=sm_90", "-lineinfo"}},
                            .server = &server,
                            .version = v ? "12.9" : "13.5"};
            struct outcome o;
            ask_run(&r, &a, &o);
            cr_assert_eq(o.status, 0, "%s", o.text);
            cr_expect(o.keep, "%s", names[i]);
            outcome_close(&o);
        }
    free(absolute);
    free(folder);
    rig_stop(&r);
}

/* ---- hostile sources ---- */

/* Compiles and gives the log, which the caller frees. */
static char *log_of(struct rig *r, const char *source, int want)
{
    struct server server = {.manner = SERVES, .root = r->dir};
    struct ask a = {.source = source, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    ask_run(r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    cr_expect_eq(o.nvrtc_status, want, "%.60s: %d", source, o.nvrtc_status);
    char *log = outcome_log(&o);
    outcome_close(&o);
    return log;
}

Test(compiler, shows_nothing_of_files_that_are_no_headers)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char *const paths[] = {"/etc/passwd",     "/etc/shadow", "/proc/self/environ",
                                        "/proc/self/maps", "/dev/zero",   "//etc/passwd",
                                        "/etc/hostname"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        char source[256];
        snprintf(source, sizeof source, "#include \"%s\"\n" SAXPY, paths[i]);
        char *log = log_of(&r, source, NVRTC_COMPILATION);
        cr_expect(strstr(log, "cannot open source file"), "%s: %s", paths[i], log);
        cr_expect(!strstr(log, "root:") && !strstr(log, "LC_ALL"), "%s: %s", paths[i], log);
        free(log);
    }
    char *log = log_of(&r, "#if __has_include(\"/etc/passwd\")\n#error there\n#endif\n" SAXPY, 0);
    free(log);
    rig_stop(&r);
}

Test(compiler, asks_nobody_where_there_is_no_client)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = "#include \"some.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, 0);
    cr_assert_eq(o.nvrtc_status, NVRTC_COMPILATION);
    outcome_close(&o);
    rig_stop(&r);
}

Test(compiler, survives_deep_templates)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    free(
        log_of(&r,
               "template <unsigned long N> struct F { static const unsigned long v = F<N - 1>::v + "
               "F<N - 2>::v; };\ntemplate <> struct F<0> { static const unsigned long v = 0; };\n"
               "template <> struct F<1> { static const unsigned long v = 1; };\n"
               "__global__ void k(unsigned long *x) { x[0] = F<100000>::v; }\n",
               NVRTC_COMPILATION));
    free(log_of(&r,
                "template <class T> struct W { typename W<W<T>>::t v; typedef int t; };\n"
                "__global__ void k(int *x) { W<int> w; x[0] = sizeof(w); }\n",
                NVRTC_COMPILATION));
    rig_stop(&r);
}

Test(compiler, compiles_200000_nested_parentheses)
{
    NEEDS_TOOLCHAIN();
    enum { DEPTH = 200000 };
    struct rig r;
    rig_start(&r);
    char *source = malloc(2 * DEPTH + 256);
    size_t n = (size_t)sprintf(source, "extern \"C\" __global__ void k(int *x) { x[0] = ");
    memset(source + n, '(', DEPTH);
    n += DEPTH;
    source[n++] = '1';
    memset(source + n, ')', DEPTH);
    strcpy(source + n + DEPTH, "; }\n");
    free(log_of(&r, source, 0));
    free(source);
    rig_stop(&r);
}

Test(compiler, compiles_a_source_of_50_megabytes)
{
    NEEDS_TOOLCHAIN();
    enum { SIZE = 50 << 20 };
    struct rig r;
    rig_start(&r);
    char *source = malloc(SIZE + sizeof SAXPY);
    for (size_t i = 0; i < SIZE; i += 64)
        memcpy(source + i, "// a comment line of sixty-four characters, as machines write..\n", 64);
    strcpy(source + SIZE, SAXPY);
    free(log_of(&r, source, 0));
    free(source);
    rig_stop(&r);
}

Test(compiler, refuses_a_source_with_a_nul_in_one_line)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char source[] = "// fine\n// not \0 fine\n" SAXPY;
    struct ask a = {.source = source, .source_len = sizeof source - 1};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, WARM_EINVALID);
    cr_assert_str_eq(o.text, "the source has a NUL byte in line 2");
    outcome_close(&o);
    rig_stop(&r);
}

/* A thousand million statements: the front end neither ends nor listens. */
#define TEN(a) a a a a a a a a a a
#define BOMB                                                                                       \
    "#define A0 x[0]+=x[1]*3;\n"                                                                   \
    "#define A1 A0 A0 A0 A0 A0 A0 A0 A0 A0 A0\n#define A2 A1 A1 A1 A1 A1 A1 A1 A1 A1 A1\n"         \
    "#define A3 A2 A2 A2 A2 A2 A2 A2 A2 A2 A2\n#define A4 A3 A3 A3 A3 A3 A3 A3 A3 A3 A3\n"         \
    "#define A5 A4 A4 A4 A4 A4 A4 A4 A4 A4 A4\n#define A6 A5 A5 A5 A5 A5 A5 A5 A5 A5 A5\n"         \
    "#define A7 A6 A6 A6 A6 A6 A6 A6 A6 A6 A6\n#define A8 A7 A7 A7 A7 A7 A7 A7 A7 A7 A7\n"         \
    "#define A9 A8 A8 A8 A8 A8 A8 A8 A8 A8 A8\n"                                                   \
    "extern \"C\" __global__ void k(volatile int *x) { A9 }\n"

static void expect_saxpy(struct rig *r) { free(log_of(r, SAXPY, 0)); }

Test(compiler, kills_a_compile_at_its_deadline_and_goes_on)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = BOMB, .options = {{"-arch=sm_90"}}, .timeout_ms = 1000};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, WARM_ETIMEOUT, "%s", o.text);
    struct compiler_stats stats;
    compiler_stats(r.compiler, &stats);
    cr_assert_eq(stats.n_timeouts, 1u);
    cr_assert_eq(stats.n_crashes, 0u, "a deadline is not tried again");
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(compiler, does_not_keep_an_error_for_want_of_memory)
{
    NEEDS_TOOLCHAIN();
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("the address sanitizer needs more address space than any limit leaves");
#endif
    struct rig r;
    rig_configure(&r);
    r.config.limits.worker_memory = 1500ull << 20;
    rig_open(&r);
    struct ask a = {.source = BOMB, .options = {{"-arch=sm_90"}}};
    struct outcome o;
    ask_run(&r, &a, &o);
    if (o.status == 0) {
        char *log = outcome_log(&o);
        cr_expect(strstr(log, "out of memory"), "%s", log);
        cr_expect(!o.keep);
        free(log);
    } else {
        cr_expect_eq(o.status, WARM_ECRASHED, "%s", o.text);
    }
    outcome_close(&o);
    expect_saxpy(&r);
    rig_stop(&r);
}

/* ---- deaths ---- */

/* The processes whose parent is `parent`. */
static size_t children_of(pid_t parent, pid_t out[16])
{
    size_t n = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *d; (d = readdir(proc));) {
        char path[300], text[512];
        long pid = strtol(d->d_name, NULL, 10);
        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        FILE *f = pid > 0 ? fopen(path, "r") : NULL;
        if (!f)
            continue;
        long its_parent = 0;
        if (fgets(text, sizeof text, f) && strrchr(text, ')') &&
            sscanf(strrchr(text, ')') + 1, " %*c %ld", &its_parent) == 1 && its_parent == parent &&
            n < 16)
            out[n++] = (pid_t)pid;
        fclose(f);
    }
    closedir(proc);
    return n;
}

/* The fork servers. */
static size_t server_pids(pid_t out[16])
{
    pid_t spawner[16];
    cr_assert_eq(children_of(getpid(), spawner), 1u);
    return children_of(spawner[0], out);
}

static size_t worker_pids(pid_t out[16])
{
    pid_t servers[16], workers[16];
    size_t n = 0, n_servers = server_pids(servers);
    for (size_t i = 0; i < n_servers; i++) {
        size_t n_workers = children_of(servers[i], workers);
        for (size_t k = 0; k < n_workers && n < 16; k++)
            out[n++] = workers[k];
    }
    return n;
}

struct wait_for {
    bool (*condition)(void *arg);
    void *arg;
    bool met;
};
static void on_look(uv_timer_t *timer)
{
    struct wait_for *w = timer->data;
    w->met = w->condition(w->arg);
}

/* Runs the loop until a condition holds that no callback tells of. */
static void run_until_condition(struct rig *r, bool (*condition)(void *arg), void *arg)
{
    struct wait_for wait = {condition, arg, false};
    uv_timer_t timer;
    uv_timer_init(&r->loop, &timer);
    timer.data = &wait;
    uv_timer_start(&timer, on_look, 0, 2);
    run_until(r, &wait.met);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&r->loop, UV_RUN_NOWAIT);
}

/* The process table is read while others change it, so a look may miss one. */
static bool has_one_worker(void *pids) { return worker_pids(pids) == 1; }
static bool has_no_server(void *pids) { return server_pids(pids) == 0; }
static bool has_one_server(void *pids) { return server_pids(pids) == 1; }

static bool was_asked(void *arg) { return ((struct server *)arg)->n_asked >= 1; }
static bool was_asked_again(void *arg) { return ((struct server *)arg)->n_asked >= 2; }

static void kill_all(size_t (*find)(pid_t out[16]))
{
    pid_t pids[16];
    size_t n = find(pids);
    cr_assert_gt(n, 0u);
    for (size_t i = 0; i < n; i++)
        kill(pids[i], SIGKILL);
}

Test(compiler, tries_again_when_a_worker_is_killed_in_mid_compile)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    free(in_dir(&r, "h.h", "#define H 1\n"));
    sem_t gate;
    sem_init(&gate, 0, 0);
    struct server server = {.manner = SERVES, .root = r.dir, .gate = &gate};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    ask_start(&r, &a, &o);
    run_until_condition(&r, was_asked, &server);
    kill_all(worker_pids);
    for (int i = 0; i < 100; i++)
        sem_post(&gate);
    ask_finish(&r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    cr_assert_eq(o.nvrtc_status, 0);
    struct compiler_stats stats;
    compiler_stats(r.compiler, &stats);
    cr_assert_eq(stats.n_crashes, 1u);
    cr_assert_eq(stats.n_compiles, 1u);
    size_t want_len, got_len;
    char *want = reference(&r, versions[0], &a, &want_len), *got = outcome_form(&o, &got_len);
    cr_assert(want_len == got_len && memcmp(want, got, got_len) == 0);
    free(want);
    free(got);
    outcome_close(&o);
    rig_stop(&r);
}

Test(compiler, gives_up_when_a_second_worker_dies_too)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct server server = {.manner = SILENT, .root = r.dir};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    ask_start(&r, &a, &o);
    run_until_condition(&r, was_asked, &server);
    kill_all(worker_pids);
    run_until_condition(&r, was_asked_again, &server);
    kill_all(worker_pids);
    ask_finish(&r, &a, &o);
    cr_assert_eq(o.status, WARM_ECRASHED);
    cr_assert(strstr(o.text, "signal 9"), "%s", o.text);
    outcome_close(&o);
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(compiler, an_idle_fork_server_that_dies_costs_nothing)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    expect_saxpy(&r);
    kill_all(server_pids);
    expect_saxpy(&r);
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(compiler, tries_again_when_a_fork_server_dies_with_its_workers)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    free(in_dir(&r, "h.h", "#define H 1\n"));
    sem_t gate;
    sem_init(&gate, 0, 0);
    struct server server = {.manner = SERVES, .root = r.dir, .gate = &gate};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    pid_t worker[16];
    ask_start(&r, &a, &o);
    run_until_condition(&r, was_asked, &server);
    run_until_condition(&r, has_one_worker, worker);
    kill_all(server_pids);
    for (int tries = 0; kill(worker[0], 0) == 0; tries++) {
        cr_assert_lt(tries, 2000, "a worker outlived its fork server");
        poll(NULL, 0, 5);
    }
    for (int i = 0; i < 100; i++)
        sem_post(&gate);
    ask_finish(&r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    outcome_close(&o);
    rig_stop(&r);
}

Test(compiler, fails_cleanly_when_the_spawner_dies)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    log_set_level(0);
    struct server server = {.manner = SILENT, .root = r.dir};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    ask_start(&r, &a, &o);
    run_until_condition(&r, was_asked, &server);
    pid_t spawner[16], workers[16];
    size_t n_workers = worker_pids(workers);
    cr_assert_eq(children_of(getpid(), spawner), 1u);
    kill(spawner[0], SIGKILL);
    ask_finish(&r, &a, &o);
    cr_assert_eq(o.status, WARM_EIO, "%s", o.text);
    ask_run(&r, &(struct ask){.source = SAXPY}, &o);
    cr_assert_eq(o.status, WARM_EIO, "%s", o.text);
    for (size_t i = 0; i < n_workers; i++)
        for (int tries = 0; kill(workers[i], 0) == 0; tries++) {
            cr_assert_lt(tries, 2000, "a worker outlived the spawner");
            poll(NULL, 0, 5);
        }
    rig_stop(&r);
}

/* ---- clients ---- */

Test(compiler, says_closed_when_the_client_goes_away)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct server server = {.manner = LEAVES, .leaves_after = 1, .root = r.dir};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, WARM_ECLOSED, "%s", o.text);
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(compiler, a_client_that_never_answers_meets_the_deadline)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct server server = {.manner = SILENT, .root = r.dir};
    struct ask a = {.source = "#include \"h.h\"\n" SAXPY,
                    .options = {{"-arch=sm_90"}},
                    .server = &server,
                    .timeout_ms = 500};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, WARM_ETIMEOUT, "%s", o.text);
    rig_stop(&r);
}

Test(compiler, a_client_that_never_answers_holds_a_slot_for_ten_seconds_at_most)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct server server = {.manner = SILENT, .root = r.dir};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    uint64_t begun = uv_hrtime();
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, WARM_ETIMEOUT);
    cr_assert(strstr(o.text, "does not answer"), "%s", o.text);
    cr_assert_lt(uv_hrtime() - begun, 20000000000ull);
    rig_stop(&r);
}

/* A compile that keeps its slot until its gate is opened. */
struct gated {
    struct server server;
    struct ask ask;
    struct outcome outcome;
    sem_t gate;
};

static void gated_start(struct rig *r, struct gated *g, uint32_t uid)
{
    *g = (struct gated){.server = {.manner = SERVES, .root = r->dir}};
    sem_init(&g->gate, 0, 0);
    g->server.gate = &g->gate;
    g->ask = (struct ask){.source = "#include \"h.h\"\n" SAXPY,
                          .options = {{"-arch=sm_90"}},
                          .server = &g->server,
                          .uid = uid};
    ask_start(r, &g->ask, &g->outcome);
}

static void gated_finish(struct rig *r, struct gated *g)
{
    for (int i = 0; i < 100; i++)
        sem_post(&g->gate);
    ask_finish(r, &g->ask, &g->outcome);
    cr_assert_eq(g->outcome.status, 0, "%s", g->outcome.text);
    outcome_close(&g->outcome);
}

static bool has_slot(struct gated *g) { return was_asked(&g->server); }

Test(compiler, gives_slots_to_users_in_turn_and_one_more_to_who_has_none)
{
    enum { ALICE = 100, BOB = 200, CAROL = 300 };
    NEEDS_TOOLCHAIN();
    struct rig r;
    static struct gated alice[3], bob[2], carol;
    rig_configure(&r);
    r.config.limits.jobs = 1;
    rig_open(&r);
    free(in_dir(&r, "h.h", "#define H 1\n"));
    for (int i = 0; i < 3; i++)
        gated_start(&r, &alice[i], ALICE);
    run_until_condition(&r, was_asked, &alice[0].server);
    for (int i = 0; i < 2; i++)
        gated_start(&r, &bob[i], BOB);
    gated_start(&r, &carol, CAROL);
    run_until_condition(&r, was_asked, &bob[0].server); /* the one slot more */
    struct compiler_stats stats;
    compiler_stats(r.compiler, &stats);
    cr_assert_eq(stats.n_queued, 4u);
    cr_assert_eq(stats.n_workers, 2u);
    gated_finish(&r, &alice[0]); /* the next is CAROL: she follows BOB, and has none */
    run_until_condition(&r, was_asked, &carol.server);
    cr_assert(!has_slot(&alice[1]) && !has_slot(&bob[1]));
    gated_finish(&r, &bob[0]);
    run_until_condition(&r, was_asked, &alice[1].server);
    cr_assert(!has_slot(&bob[1]));
    gated_finish(&r, &carol);
    run_until_condition(&r, was_asked, &bob[1].server);
    gated_finish(&r, &alice[1]);
    gated_finish(&r, &bob[1]); /* ALICE has the slot when nobody else has one */
    gated_finish(&r, &alice[2]);
    rig_stop(&r);
}

Test(compiler, cancels_what_runs_and_what_waits)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.jobs = 1;
    rig_open(&r);
    struct server server = {.manner = SILENT, .root = r.dir};
    struct ask running = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct ask waiting = {.source = SAXPY, .options = {{"-arch=sm_90"}}};
    struct outcome o1, o2, o3;
    ask_start(&r, &running, &o1);
    run_until_condition(&r, was_asked, &server);
    ask_start(&r, &waiting, &o2);
    ask_start(&r, &waiting, &o3);
    compiler_cancel(r.compiler, o2.compile);
    cr_assert(!o2.finished);
    run_until(&r, &o2.finished);
    cr_assert_eq(o2.status, WARM_ECANCELLED);
    cr_assert(!o1.finished && !o3.finished);
    compiler_cancel(r.compiler, o1.compile);
    ask_finish(&r, &running, &o1);
    cr_assert_eq(o1.status, WARM_ECANCELLED);
    ask_finish(&r, &waiting, &o3);
    cr_assert_eq(o3.status, 0, "the slot came back");
    outcome_close(&o3);
    rig_stop(&r);
}

/* ---- the pool ---- */

Test(compiler, runs_no_more_workers_than_jobs_and_answers_all)
{
    NEEDS_TOOLCHAIN();
    enum { N = 12 };
    struct rig r;
    rig_start(&r);
    struct ask asks[N];
    struct outcome outcomes[N];
    for (int i = 0; i < N; i++) {
        asks[i] = (struct ask){
            .source = SAXPY, .options = {{"-arch=sm_90"}}, .version = i % 2 ? "13.5" : "12.9"};
        ask_start(&r, &asks[i], &outcomes[i]);
    }
    for (int i = 0; i < N; i++) {
        ask_finish(&r, &asks[i], &outcomes[i]);
        struct compiler_stats stats;
        compiler_stats(r.compiler, &stats);
        cr_assert_leq(stats.n_workers, 2u);
        cr_assert_eq(outcomes[i].status, 0, "%s", outcomes[i].text);
        outcome_close(&outcomes[i]);
    }
    rig_stop(&r);
}

/* Compiles, and tells which process did it. */
static pid_t worker_of_compile(struct rig *r)
{
    sem_t gate;
    sem_init(&gate, 0, 0);
    struct server server = {.manner = SERVES, .root = r->dir, .gate = &gate};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    pid_t pids[16];
    ask_start(r, &a, &o);
    run_until_condition(r, was_asked, &server);
    run_until_condition(r, has_one_worker, pids);
    for (int i = 0; i < 100; i++)
        sem_post(&gate);
    ask_finish(r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    outcome_close(&o);
    return pids[0];
}

Test(compiler, no_process_sees_two_sources)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.jobs = 1;
    rig_open(&r);
    free(in_dir(&r, "h.h", "#define H 1\n"));
    pid_t before[16], after[16];
    pid_t first = worker_of_compile(&r);
    cr_assert_eq(server_pids(before), 1u);
    pid_t second = worker_of_compile(&r);
    cr_assert_eq(server_pids(after), 1u);
    cr_assert_eq(before[0], after[0], "the fork server stays");
    cr_assert_neq(first, second);
    cr_assert(kill(first, 0) < 0 && errno == ESRCH, "the first ended before the second began");
    rig_stop(&r);
}

static bool no_workers(void *arg)
{
    struct compiler_stats stats;
    compiler_stats(arg, &stats);
    return stats.n_workers == 0;
}

Test(compiler, ends_fork_servers_that_are_idle)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.idle_ms = 50;
    rig_open(&r);
    expect_saxpy(&r);
    run_until_condition(&r, no_workers, r.compiler);
    pid_t pids[16];
    run_until_condition(&r, has_no_server, pids);
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(compiler, closes_with_compiles_running_and_waiting)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = BOMB, .options = {{"-arch=sm_90"}}};
    struct outcome outcomes[4];
    for (int i = 0; i < 4; i++)
        ask_start(&r, &a, &outcomes[i]);
    uv_run(&r.loop, UV_RUN_ONCE);
    rig_stop(&r);
    for (int i = 0; i < 4; i++) {
        cr_assert(outcomes[i].finished);
        cr_assert_eq(outcomes[i].status, WARM_ESHUTDOWN);
    }
}

/* ---- the sandbox, from outside ---- */

/* "NAME:\tvalue" out of /proc/PID/status. */
static void status_value(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    *out = '\0';
    while (fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            snprintf(out, cap, "%.*s", (int)strcspn(line + strlen(name) + 2, "\n"),
                     line + strlen(name) + 2);
    fclose(f);
}

/* What worker and fork server have in common. */
static void expect_confined(pid_t pid)
{
    char value[256], path[64], environment[4096] = "";
    status_value(pid, "NoNewPrivs", value, sizeof value);
    cr_expect_str_eq(value, "1");
    status_value(pid, "CapEff", value, sizeof value);
    cr_expect_str_eq(value, "0000000000000000");
    status_value(pid, "Uid", value, sizeof value);
    if (geteuid() == 0)
        cr_expect_neq(strtol(value, NULL, 10), 0, "root's workers are not root: %s", value);
    cr_expect_eq(sched_getscheduler(pid), SCHED_BATCH);
    cr_expect_geq(getpriority(PRIO_PROCESS, (id_t)pid), 5);
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(environment, 1, sizeof environment - 1, f) : 0;
    if (f)
        fclose(f);
    cr_expect_gt(n, 0u);
    cr_expect_null(memmem(environment, n, "WARM_TEST_SECRET", 16));
}

Test(compiler, workers_run_confined)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    setenv("WARM_TEST_SECRET", "must not be handed on", 1);
    rig_start(&r);
    struct server server = {.manner = SILENT, .root = r.dir};
    struct ask a = {
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    pid_t servers[16], pids[16];
    ask_start(&r, &a, &o);
    run_until_condition(&r, was_asked, &server);
    run_until_condition(&r, has_one_worker, pids);
    run_until_condition(&r, has_one_server, servers);
    expect_confined(servers[0]);
    expect_confined(pids[0]);
    char value[256], link[64], target[256];
    status_value(pids[0], "Seccomp", value, sizeof value);
    cr_expect_str_eq(value, "2");
    status_value(servers[0], "Threads", value, sizeof value);
    cr_expect_str_eq(value, "1", "what forks has no thread that a worker would lack");
    snprintf(link, sizeof link, "/proc/%ld/fd/2", (long)pids[0]);
    ssize_t n = readlink(link, target, sizeof target - 1);
    cr_assert_gt(n, 0);
    target[n] = '\0';
#ifndef __SANITIZE_ADDRESS__
    cr_expect_str_eq(target, "/dev/null", "no source writes into the daemon's log");
#endif
    compiler_cancel(r.compiler, o.compile);
    ask_finish(&r, &a, &o);
    rig_stop(&r);
}

/* Makes the kernel one without Landlock and system-call filters, for this process and its children. */
static void forget_confinement(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

Test(compiler, keeps_nothing_that_was_made_without_confinement)
{
    NEEDS_TOOLCHAIN();
    forget_confinement();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = SAXPY, .options = {{"-arch=sm_90"}}};
    struct outcome o;
    ask_run(&r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    cr_assert_eq(o.nvrtc_status, 0);
    cr_expect(!o.keep, "it is for the asker alone");
    struct compiler_stats stats;
    compiler_stats(r.compiler, &stats);
    cr_expect_eq(stats.landlock, 0);
    cr_expect(!stats.seccomp);
    outcome_close(&o);
    rig_stop(&r);
}

/* ---- headers that change ---- */

/* Many bytes of headers, as libraries have. */
static void write_big_header(const struct rig *r)
{
    char *path = path_join(r->dir, "big.h");
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 4000; i++)
        fprintf(
            f,
            "template <class T> struct S%d { T x; __device__ T f(T a) { return a * x + %d; } };\n",
            i, i);
    fclose(f);
    free(path);
}

/* Replaces a header by another of the same size; its time stays. */
static void replace_header(const struct rig *r, const char *name, const char *text, size_t len)
{
    struct stat st;
    char *path = path_join(r->dir, name);
    bool there = stat(path, &st) == 0;
    file_write(path, text, len);
    struct timespec times[] = {st.st_atim, st.st_mtim};
    if (there)
        utimensat(AT_FDCWD, path, times, 0);
    free(path);
}

/* A kernel that nobody has compiled before, with VALUE of a header. */
static void expect_value_of(struct rig *r, const char *header, const char *option, int k)
{
    char source[512];
    snprintf(source, sizeof source,
             "#include \"%s\"\n#include \"big.h\"\nextern \"C\" __global__ void k%d(int *x)\n"
             "{ S3<int> s; s.x = VALUE; x[%d] = s.f(x[1]); }\n",
             header, k, k);
    expect_same(r, &(struct ask){.source = source, .options = {{"-arch=sm_90", "-I.", option}}});
}

/* Four kernels with one text, two with the other: each is compiled with what is there now, however
 * often the compiler saw the first. */
static void expect_each_text(const char *header, const char *one, const char *two, size_t len)
{
    static const char *const options[] = {NULL, "-lineinfo"};
    struct rig r;
    rig_start(&r);
    write_big_header(&r);
    for (size_t i = 0; i < 2; i++)
        for (int k = 0; k < 6; k++) {
            if (k % 4 == 0)
                replace_header(&r, header, k ? two : one, len);
            expect_value_of(&r, header, options[i], k);
        }
    rig_stop(&r);
}

Test(compiler, headers_of_equal_size_and_XXH3_are_told_apart)
{
    NEEDS_TOOLCHAIN();
    static char one[COLLISION_LEN], two[COLLISION_LEN];
    collision_make(one, two);
    struct key a = key_of_bytes(one, sizeof one), b = key_of_bytes(two, sizeof two);
    cr_assert(key_equal(&a, &b) && memcmp(one, two, sizeof one) != 0, "this is no collision");
    expect_each_text("collision.h", one, two, sizeof one);
}

Test(compiler, headers_named_like_the_compilers_own_are_seen_to_change)
{
    NEEDS_TOOLCHAIN();
    static const char one[] = "#define VALUE 111\n", two[] = "#define VALUE 222\n";
    expect_each_text("__nv_k.h", one, two, sizeof one - 1);
}

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
Test(compiler, identity_of_a_toolchain_is_its_sha256)
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
    cr_assert_eq(compiler_find(r.compiler, (struct view){"13.5", 4}, true, &t, NULL), 0);
    cr_assert_eq(memcmp(&t->id, &proof, sizeof t->id), 0);
    rig_stop(&r);
    free(folder);
}

Test(compiler, finds_toolchains_by_version_and_by_identity)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    const struct toolchain *list[4], *t;
    cr_assert_eq(compiler_toolchains(r.compiler, list, 4), 2u);
    struct err e;
    cr_assert_eq(compiler_find(r.compiler, (struct view){"", 0}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[0]);
    cr_assert(t->major == 13 && t->minor == 5);
    cr_assert(strstr(t->archs, "90"), "%s", t->archs);
    cr_assert_eq(strncmp(t->text, "NVRTC 13.5 (libnvrtc.so.13, ", 28), 0, "%s", t->text);
    cr_assert_eq(compiler_find(r.compiler, (struct view){"12", 2}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[1]);
    cr_assert_eq(compiler_find(r.compiler, (struct view){"13.5", 4}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[0]);
    char id[WARM_KEY_TEXT];
    key_to_text(&list[1]->id, id);
    cr_assert_eq(compiler_find(r.compiler, (struct view){id, 8}, geteuid(), &t, &e), 0);
    cr_assert_eq(t, list[1]);
    cr_assert_eq(compiler_find(r.compiler, (struct view){id, 7}, geteuid(), &t, &e),
                 WARM_ENO_TOOLCHAIN);
    cr_assert_eq(compiler_find(r.compiler, (struct view){"11", 2}, geteuid(), &t, &e),
                 WARM_ENO_TOOLCHAIN);
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
    cr_assert(memory.n < 4 && len <= sizeof memory.data[0]);
    snprintf(memory.name[memory.n], sizeof memory.name[0], "%s", name);
    memcpy(memory.data[memory.n], data, len);
    memory.len[memory.n++] = len;
    return 0;
}

Test(compiler, remembers_identities_and_then_starts_in_a_moment)
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
    cr_assert_eq(compiler_find(r.compiler, (struct view){"", 0}, geteuid(), &t, &e), 0);
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
    cr_assert_eq(compiler_find(r.compiler, (struct view){"", 0}, geteuid(), &t, &e), 0);
    cr_assert(key_equal(&t->id, &id));
    run_until_condition(&r, has_one_server, pids); /* for the first source that will come */
    expect_saxpy(&r);
    rig_stop(&r);
}

static bool is_identified(void *arg)
{
    const struct toolchain *t;
    struct err e;
    int code = compiler_find(arg, (struct view){"", 0}, geteuid(), &t, &e);
    cr_assert(code == 0 || code == WARM_EBUSY, "%s", e.text);
    return code == 0;
}

Test(compiler, identifies_a_library_again_when_its_file_changes)
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
    cr_assert_eq(compiler_find(r.compiler, (struct view){"", 0}, geteuid(), &before, &e), 0, "%s",
                 e.text);
    cr_assert_eq(before->major, 12);
    expect_saxpy(&r);
    unlink(link);
    cr_assert_eq(symlink(new, link), 0);
    cr_assert_eq(compiler_find(r.compiler, (struct view){"", 0}, geteuid(), &after, &e),
                 WARM_EBUSY);
    run_until_condition(&r, is_identified, r.compiler);
    cr_assert_eq(compiler_find(r.compiler, (struct view){"", 0}, geteuid(), &after, &e), 0);
    cr_assert_eq(after->major, 13);
    cr_assert(!key_equal(&before->id, &after->id));
    expect_saxpy(&r);
    free(lib);
    free(link);
    free(old);
    free(new);
    rig_stop(&r);
}

Test(compiler, leaves_out_what_is_no_library)
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
    cr_assert_eq(compiler_toolchains(r.compiler, t, 3), 1u);
    expect_saxpy(&r);
    free(text);
    free(none);
    rig_stop(&r);
}

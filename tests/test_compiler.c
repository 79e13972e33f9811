/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compiler.c - the worker pool with real NVRTC: the same bytes as in process, hostile sources,
 * deaths, deadlines, clients that vanish, precompiled headers.
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
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/bundle.h"
#include "client/wire.h"
#include "daemon/compiler.h"
#include "daemon/log.h"
#include "daemon/worker/message.h"
#include "daemon/worker/nvrtc.h"
#include "keygen/job.h"
#include "tests/support.h"

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
    int n_asked;
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
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    struct wire_opened answer = {question->id, fd < 0 ? WIRE_PATH_ABSENT : WIRE_PATH_FILE};
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
    char *dir, *worker, *work;
    char *nvrtc[2];
    struct compiler_config config;
};

static void rig_configure(struct rig *r)
{
    struct err e;
    memset(r, 0, sizeof *r);
    log_set_level(LOG_LEVEL_ERROR);
    r->dir = temp_dir_new();
    r->work = path_join(r->dir, "work");
    r->worker = beside_tests("libexec/warm/warm-nvrtc");
    for (size_t i = 0; i < 2; i++) {
        r->nvrtc[i] = toolchain_folder(versions[i]);
        cr_assert_not_null(r->nvrtc[i]);
    }
    cr_assert_eq(spawner_start(&r->spawner, &e), 0, "%s", e.text);
    cr_assert_eq(uv_loop_init(&r->loop), 0);
    r->config = (struct compiler_config){.spawner = r->spawner,
                                         .loop = &r->loop,
                                         .worker_path = r->worker,
                                         .work_dir = r->work,
                                         .nvrtc = r->nvrtc,
                                         .n_nvrtc = 2,
                                         .jobs = 2,
                                         .worker_memory = 8ull << 30,
                                         .timeout_ms = 60000,
                                         .idle_ms = 60000};
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
    free(r->work);
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
    struct key *digests;
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
        o->digests[i] = done->paths[i].xxh3;
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
__attribute__((unused)) static char *outcome_log(const struct outcome *o)
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
    cr_assert_eq(compiler_find(r->compiler, (struct view){version, strlen(version)}, &t, &e), 0,
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

static void on_give_up(uv_timer_t *timer) { *(bool *)timer->data = true; }

/* Runs the loop until *flag, or the test fails. */
static void run_until(struct rig *r, const bool *flag)
{
    uv_timer_t timer;
    bool late = false;
    uv_timer_init(&r->loop, &timer);
    timer.data = &late;
    uv_timer_start(&timer, on_give_up, WAIT_MAX_MS, 0);
    while (!*flag && !late)
        uv_run(&r->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&r->loop, UV_RUN_NOWAIT);
    cr_assert(!late, "nothing happened for %d ms", WAIT_MAX_MS);
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

static void *must_find(void *library, const char *symbol)
{
    void *found = dlsym(library, symbol);
    cr_assert_not_null(found, "%s", symbol);
    return found;
}

static void reference_load(struct nvrtc *n, const char *folder)
{
    bool new = strstr(folder, "/13.") != NULL;
    char *builtins =
        path_join(folder, new ? "lib/libnvrtc-builtins.so.13.5" : "lib/libnvrtc-builtins.so.12.9");
    char *path = path_join(folder, new ? "lib/libnvrtc.so.13" : "lib/libnvrtc.so.12");
    cr_assert_not_null(dlopen(builtins, RTLD_LAZY));
    void *library = dlopen(path, RTLD_NOW);
    cr_assert_not_null(library, "%s", dlerror());
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
    cr_assert_eq(n.CreateProgram(&p, a->source, a->name ? a->name : "k.cu",
                                 (int)list_length(&a->header_names), a->headers.texts,
                                 a->header_names.texts),
                 0);
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

__attribute__((unused)) static char *in_dir(const struct rig *r, const char *name, const char *content)
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

Test(compiler, yields_the_bytes_of_the_library_in_process)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    static const char *const options[] = {"-DN=3",     "-lineinfo",      "-G",          "-dlto",
                                          "-rdc=true", "-use_fast_math", "--std=c++20", "-w"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect_same(&r, &(struct ask){.source = SAXPY,
                                      .options = {{"--gpu-architecture=sm_90", options[i]}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=compute_90"}}});
    expect_same(&r, &(struct ask){.source = SAXPY, .options = {{"-arch=sm_80", "--pch"}}});
    rig_stop(&r);
}

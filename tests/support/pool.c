/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - a spawner, a loop and a pool of workers with real NVRTC for one test. A thread plays
 * the client, which serves headers. The suites of daemon/compiler call it.
 *
 * Thread: the test's own; header_server_run has one for each server.
 */
#include "tests/support/pool.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/wire/wire.h"
#include "daemon/process/log.h"
#include "daemon/worker/message.h"
#include "keygen/cuda/job.h"
#include "tests/support/support.h"

#define WAIT_MAX_MS 120000 /* for anything that must end */

/* ---- where things are ---- */

char *beside_tests(const char *name)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    cr_assert(n > 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    *strrchr(exe, '/') = '\0';
    return path_join(exe, name);
}

const char *const versions[2] = {"13.5.37", "12.9.86"};

char *toolchain_folder(const char *version)
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

bool have_toolchains(void)
{
    for (size_t i = 0; i < 2; i++) {
        char *folder = toolchain_folder(versions[i]);
        if (!folder)
            return false;
        free(folder);
    }
    return true;
}

/* ---- the client's end of the channel ---- */

static void header_server_answer(struct header_server *s, const struct wire_open *question)
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
    packet_send(s->fd, w.data, w.len, &fd, fd >= 0);
    writer_close(&w);
    if (fd >= 0)
        close(fd);
}

static void *header_server_run(void *arg)
{
    struct header_server *s = arg;
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
            header_server_answer(s, &question);
    }
    close(s->fd);
    return NULL;
}

void header_server_start(struct header_server *s)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    s->fd = pair[0];
    s->worker_fd = pair[1];
    cr_assert_eq(pthread_create(&s->thread, NULL, header_server_run, s), 0);
}

/* ---- one pool ---- */

void rig_configure(struct rig *r)
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
    r->config = (struct pool_config){
        .spawner = r->spawner,
        .loop = &r->loop,
        .worker_path = r->worker,
        .nvrtc = r->nvrtc,
        .n_nvrtc = 2,
        .limits = {.jobs = 2, .worker_memory = 8ull << 30, .timeout_ms = 60000, .idle_ms = 60000}};
}

void rig_open(struct rig *r)
{
    struct err e;
    cr_assert_eq(pool_open(&r->pool, &r->config, &e), 0, "%s", e.text);
}

void rig_start(struct rig *r)
{
    rig_configure(r);
    rig_open(r);
}

static void on_closed(void *arg) { *(bool *)arg = true; }

void rig_stop(struct rig *r)
{
    bool closed = false;
    pool_close(r->pool, on_closed, &closed);
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

static void on_compiled(void *arg, struct pool_result *done)
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

void outcome_close(struct outcome *o)
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

struct view outcome_section(const struct outcome *o, uint32_t type)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n;
    struct err e;
    cr_assert_eq(bundle_read(o->bundle, o->len, sections, &n, &e), 0, "%s", e.text);
    return bundle_find(sections, n, type);
}

char *outcome_log(const struct outcome *o)
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

void ask_start(struct rig *r, const struct ask *a, struct outcome *o)
{
    struct err e;
    memset(o, 0, sizeof *o);
    const struct toolchain *t;
    const char *version = a->version ? a->version : "";
    cr_assert_eq(pool_find(r->pool, (struct view){version, strlen(version)}, geteuid(), &t, &e), 0,
                 "%s", e.text);
    struct pool_request request = {.toolchain = t,
                                   .channel_fd = -1,
                                   .timeout_ms = a->timeout_ms,
                                   .uid = a->uid,
                                   .cb = on_compiled,
                                   .arg = o};
    request.job_fd = o->job_fd = job_memfd(r, a, &request.job_len);
    if (a->server) {
        header_server_start(a->server);
        request.channel_fd = a->server->worker_fd;
    }
    cr_assert_eq(pool_start(r->pool, &request, &o->compile, &e), 0, "%s", e.text);
    cr_assert(!o->finished, "answered from within pool_start");
}

#define TICK_MS 5
static void on_tick(uv_timer_t *timer) { ++*(int *)timer->data; }

void run_until(struct rig *r, const bool *flag)
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

void ask_finish(struct rig *r, const struct ask *a, struct outcome *o)
{
    run_until(r, &o->finished);
    if (a->server)
        pthread_join(a->server->thread, NULL);
}

void ask_run(struct rig *r, const struct ask *a, struct outcome *o)
{
    ask_start(r, a, o);
    ask_finish(r, a, o);
}

int ask_serving(struct rig *r, const struct ask *a, size_t v, struct outcome *o)
{
    struct header_server server = {.manner = SERVES, .root = r->dir};
    struct ask served = *a;
    char version[5];
    snprintf(version, sizeof version, "%.4s", versions[v]);
    served.version = version;
    served.server = &server;
    ask_run(r, &served, o);
    cr_assert_eq(o->status, 0, "%s: %s", version, o->text);
    return server.n_asked;
}

char *in_dir(const struct rig *r, const char *name, const char *content)
{
    char *path = path_join(r->dir, name);
    file_write(path, content, strlen(content));
    return path;
}

char *log_of(struct rig *r, const char *source, int want)
{
    struct header_server server = {.manner = SERVES, .root = r->dir};
    struct ask a = {.source = source, .options = {{"-arch=sm_90"}}, .server = &server};
    struct outcome o;
    ask_run(r, &a, &o);
    cr_assert_eq(o.status, 0, "%s", o.text);
    cr_expect_eq(o.nvrtc_status, want, "%.60s: %d", source, o.nvrtc_status);
    char *log = outcome_log(&o);
    outcome_close(&o);
    return log;
}

void expect_saxpy(struct rig *r) { free(log_of(r, SAXPY, 0)); }

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

void run_until_condition(struct rig *r, bool (*condition)(void *arg), void *arg)
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

size_t children_of(pid_t parent, pid_t out[16])
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

size_t server_pids(pid_t out[16])
{
    pid_t spawner[16];
    cr_assert_eq(children_of(getpid(), spawner), 1u);
    return children_of(spawner[0], out);
}

size_t worker_pids(pid_t out[16])
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

bool has_one_server(void *pids) { return server_pids(pids) == 1; }

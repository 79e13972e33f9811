/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - decides which compile gets a worker next, and gives each compile one answer.
 *
 * The happy path of one compile:
 *   1. pool_start queues it; a zero timer runs on_dispatch from the loop;
 *   2. on_dispatch gives it a worker, which is one of `jobs` slots, and the fork server of its toolchain,
 *      which is started if there is none. Users get slots round robin (next_job), and one slot more than
 *      `jobs` is for a user who has none: nobody can hold them all;
 *   3. the fork server says READY (if it is new); the job, the client's channel and a socket for the
 *      answer go to it; it forks the worker;
 *   4. DONE comes on that socket with two memfds; they are checked; the callback runs;
 *   5. the fork server tells that the worker is reaped; the slot is free.
 * Failures:
 *   - the worker dies (SIGKILL, SIGSEGV, a limit): the fork server says so; the job goes back to the
 *     head of the queue once, the second time it fails with CRASHED;
 *   - the worker, or its fork server, is stopped (SIGSTOP): its parent kills it, and it is dead;
 *   - the deadline passes: the worker is killed (the compiler's front end listens to nothing else),
 *     the job fails with TIMEOUT and is not tried again;
 *   - cancelled: a queued job fails at once; the worker of a running one is killed;
 *   - the worker's answer is malformed: it is killed, and that counts as its death;
 *   - the fork server dies: the kernel kills its workers with it, and each counts as dead;
 *   - the library changed since it was identified: NO_TOOLCHAIN, and it is identified anew;
 *   - the spawner dies, and with it all of them: each counts as dead, and another spawner is forked; while
 *     there is none, each job fails with IO.
 *
 * Life of a worker; it holds a slot until it is freed:
 *
 *     STARTING ──READY of its fork server──▶ BUSY ──DONE, or killed──▶ ENDING ──EXITED──▶ freed
 *
 * Life of a fork server. It ends when it had no worker for idle_ms, or by an error:
 *
 *     STARTING ──READY──▶ BUSY ──▶ ENDING ──reaped by the spawner──▶ freed
 *
 * build.c and audit.c start jobs; compile_request.c asks for toolchains.
 *
 * Thread: loop thread.
 */
#include "daemon/compiler/pool.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/wire/bundle.h"
#include "daemon/compiler/spawner.h"
#include "daemon/compiler/toolchains.h"
#include "daemon/process/log.h"
#include "daemon/process/loop_timer.h"
#include "daemon/worker/message.h"
#include "keygen/list.h"

#define ATTEMPTS_MAX 2u /* of one job, in different workers */
#define RESPAWN_MS                                                                                 \
    1000u /* between two spawners, and the oldest age of one that is replaced at once */
#define EVENTS_A_TURN 64u  /* of the spawner */
#define SERVERS_MAX 4u     /* fork servers; with more, an idle one is ended */
#define KILL_WAIT_MS 10000 /* how long the end of a killed process may take */
#define DEFAULT_TIMEOUT_MS 600000u
#define NOBODY 65534u
#define LAST_NAME "nvrtc-last"               /* of the record of the library that was loaded last */
#define PATH_FIXED (4u + 1u + 32u + 4u + 4u) /* bytes of a path's record beside its text */

enum state { STARTING, BUSY, ENDING };

struct server { /* the fork server of one toolchain */
    struct pool *pool;
    struct server *prev, *next;
    uint64_t id; /* with the spawner */
    int fd;
    enum state state; /* BUSY: it takes jobs */
    const struct toolchain *toolchain;
    bool is_noted; /* as the one that was loaded last */
    size_t n_workers;
    uv_poll_t poll;
    struct loop_timer *timer; /* ends it when it starts for too long, or has no worker for long */
};

struct worker { /* the process of one compile */
    struct pool *pool;
    struct worker *prev, *next;
    struct server *server;
    uint64_t id;       /* with the fork server */
    int fd, answer_fd; /* the socket of its answer; the other end, until the worker has it */
    enum state state;
    uint32_t uid;         /* the user of its job */
    struct pool_job *job; /* NULL once the job is answered */
    uv_poll_t poll;
    struct loop_timer *timer; /* ends BUSY, and its fork server if ENDING lasts too long */
};

struct pool_job {
    struct pool *pool;
    struct pool_job *next; /* in the queue */
    struct pool_request request;
    uint64_t deadline; /* uv_now; 0 until it first runs */
    unsigned n_attempts;
    struct worker *worker;
    bool cancelled, timed_out;
};

struct pool {
    struct pool_config config;
    struct worker_program program;
    char *worker_path;
    struct toolchains *toolchains;
    struct server *servers;
    struct worker *workers;
    struct pool_job *queue, **queue_tail;
    uint64_t last_id;
    uint32_t last_uid; /* the user who got the last slot */
    struct pool_stats stats;
    bool closing;
    uint64_t respawned_ms; /* when the last spawner was forked; 0: at the start */
    struct loop_timer *respawn_timer;
    void (*on_closed)(void *arg);
    void *closed_arg;
    char
        last_path[PATH_MAX]; /* which library to load at the start, and for whom; "": the default */
    uint32_t last_path_uid;
    struct toolchain_wait last_wait;
    uv_poll_t spawner_poll;
    uv_timer_t dispatch_timer;
    int n_handles; /* of the pool, of fork servers and of workers */
};

static void dispatch_soon(struct pool *p);

/* ---- the end of a compile ---- */

static void job_finish(struct pool_job *j, struct pool_result *done)
{
    assert(j->request.cb);
    if (j->request.channel_fd >= 0)
        close(j->request.channel_fd);
    pool_cb cb = j->request.cb;
    j->request.cb = NULL; /* a job has one answer */
    cb(j->request.arg, done);
    free(j);
}

static void job_fail(struct pool_job *j, int code, const char *text)
{
    struct pool_result done = {.status = code, .fd = -1};
    err_set(&done.err, code, "%s", text);
    job_finish(j, &done);
}

static void queue_push(struct pool *p, struct pool_job *j, bool first)
{
    j->worker = NULL;
    j->next = first ? p->queue : NULL;
    if (first)
        p->queue = j;
    else
        *p->queue_tail = j;
    if (!j->next)
        p->queue_tail = &j->next;
    p->stats.n_queued++;
}

static void queue_remove(struct pool *p, struct pool_job *j)
{
    struct pool_job **at = &p->queue;
    assert(p->stats.n_queued && !j->worker);
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    if (!*at)
        p->queue_tail = at;
    p->stats.n_queued--;
}

/* ---- ending ---- */

static void pool_closed_maybe(struct pool *p);

static void on_worker_handle_closed(uv_handle_t *handle)
{
    struct worker *w = handle->data;
    struct pool *p = w->pool;
    assert(p->n_handles > 0);
    p->n_handles--;
    free(w);
    pool_closed_maybe(p);
}

static void worker_free(struct worker *w)
{
    struct pool *p = w->pool;
    assert(p->stats.n_workers && w->server->n_workers);
    LIST_REMOVE(p->workers, w);
    p->stats.n_workers--;
    w->server->n_workers--;
    if (!w->server->n_workers && w->server->state == BUSY)
        loop_timer_start(w->server->timer, p->config.limits.idle_ms, 0);
    uv_poll_stop(&w->poll);
    close(w->fd);
    if (w->answer_fd >= 0)
        close(w->answer_fd);
    uv_close((uv_handle_t *)&w->poll, on_worker_handle_closed);
    loop_timer_free(w->timer);
}

/* Kills a worker. Its job goes on in worker_exited, when the fork server has reaped it. */
static void worker_end(struct worker *w)
{
    struct worker_kill message = {.type = WORKER_KILL, .id = w->id};
    if (w->state != ENDING) {
        /* from now on only its end counts */
        if (w->state == BUSY)
            w->pool->stats.n_busy--;
        w->state = ENDING;
        uv_poll_stop(&w->poll);
        loop_timer_start(w->timer, KILL_WAIT_MS, 0);
    }
    packet_send(w->server->fd, &message, sizeof message, NULL, 0);
}

/* Decides what becomes of a job whose worker died. */
static void job_lost(struct pool_job *j, int status, bool started)
{
    struct pool *p = j->pool;
    assert(j->request.cb && j->n_attempts <= ATTEMPTS_MAX);
    char text[128];
    const char *when = started ? "while it compiled" : "before it could compile";
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "the compiler process died %s (signal %d, %s)", when,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, sizeof text, "the compiler process ended %s (status %d)", when,
                 WEXITSTATUS(status));
    if (j->cancelled) {
        job_fail(j, WARM_ECANCELLED, "the compile was cancelled");
    } else if (j->timed_out) {
        job_fail(j, WARM_ETIMEOUT, "the compile took longer than its deadline");
    } else if (p->closing) {
        job_fail(j, WARM_ESHUTDOWN, "the daemon is stopping");
    } else if (p->stats.spawner_gone) {
        job_fail(j, WARM_EIO, "the process that starts the compilers is gone");
    } else {
        p->stats.n_crashes++;
        log_user(j->request.uid, LOG_LEVEL_WARNING, "%s, attempt %u of %u", text, j->n_attempts,
                 ATTEMPTS_MAX);
        if (j->n_attempts < ATTEMPTS_MAX)
            queue_push(p, j, true);
        else
            job_fail(j, WARM_ECRASHED, text);
    }
}

static bool worker_take_done(struct worker *w);

/* Takes the end of a worker, which is reaped. Its answer may still be in the socket. */
static void worker_exited(struct worker *w, int status)
{
    struct pool *p = w->pool;
    bool started = w->state != STARTING;
    if (w->state == BUSY)
        worker_take_done(w);
    if (w->state == BUSY)
        p->stats.n_busy--;
    struct pool_job *j = w->job;
    worker_free(w);
    if (j)
        job_lost(j, status, started);
    dispatch_soon(p);
}

static void on_server_handle_closed(uv_handle_t *handle)
{
    struct server *s = handle->data;
    struct pool *p = s->pool;
    assert(p->n_handles > 0);
    p->n_handles--;
    free(s);
    pool_closed_maybe(p);
}

/* Kills a fork server and with it its workers. Their jobs go on in server_exited. */
static void server_end(struct server *s)
{
    if (s->state == ENDING)
        return;
    s->state = ENDING;
    uv_poll_stop(&s->poll);
    loop_timer_start(s->timer, KILL_WAIT_MS, 0);
    spawner_kill(s->pool->config.spawner, s->id);
}

/* Takes the end of a fork server, which the spawner has reaped. */
static void server_exited(struct server *s, int status)
{
    struct pool *p = s->pool;
    s->state = ENDING;
    for (struct worker *w = p->workers, *next; w; w = next) {
        next = w->next;
        if (w->server == s)
            worker_exited(w, status);
    }
    assert(!s->n_workers);
    LIST_REMOVE(p->servers, s);
    uv_poll_stop(&s->poll); /* before close(): a spawner forked just now may still hold the socket,
                             * and its events would go to the next one of this number */
    close(s->fd);
    loop_timer_free(s->timer);
    uv_close((uv_handle_t *)&s->poll, on_server_handle_closed);
    dispatch_soon(p);
}

static void spawner_lost(struct pool *p);

static void on_spawner(uv_poll_t *poll, int status, int events)
{
    struct pool *p = poll->data;
    struct spawner_event event;
    int rc = 0;
    (void)status, (void)events;
    for (unsigned i = 0; i < EVENTS_A_TURN && (rc = spawner_read(p->config.spawner, &event)) == 1;
         i++) {
        struct server *s = p->servers;
        while (s && s->id != event.id)
            s = s->next;
        if (s && event.status == -1)
            log_error("cannot start a compiler process: %s", strerror(event.error));
        if (s)
            server_exited(s, event.status == -1 ? W_EXITCODE(127, 0) : event.status);
    }
    if (rc < 0 && !p->stats.spawner_gone)
        spawner_lost(p);
}

/* Forks another spawner. One that dies again and again is left alone for a while each time. */
static void spawner_replace(void *arg)
{
    struct pool *p = arg;
    struct err e;
    uint64_t now = uv_now(p->config.loop);
    if (p->closing)
        return;
    if (now - p->respawned_ms < RESPAWN_MS || spawner_restart(p->config.spawner, &e) != 0) {
        loop_timer_start(p->respawn_timer, RESPAWN_MS, 0);
        return;
    }
    log_info("another process that starts the compilers is there");
    p->respawned_ms = now;
    p->stats.spawner_gone = false;
    uv_poll_start(&p->spawner_poll, UV_READABLE | UV_DISCONNECT, on_spawner);
    dispatch_soon(p);
}

/* Takes the end of the spawner, and of all that it has started. */
static void spawner_lost(struct pool *p)
{
    log_error("the process that starts the compilers is gone, and all compilers with it");
    p->stats.spawner_gone = true;
    uv_poll_stop(&p->spawner_poll);
    spawner_replace(p);
    while (p->servers)
        server_exited(p->servers, 0);
}

/* ---- workers: their answers ---- */

/* True if a descriptor is a memfd of exactly `len` bytes, which nobody can change any more. */
static bool is_sealed(int fd, uint64_t len)
{
    const int needed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & needed) == needed && !fstat(fd, &st) &&
           (uint64_t)st.st_size == len;
}

static void *map_whole(int fd, uint64_t len)
{
    void *data = len ? mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    return data == MAP_FAILED ? NULL : data;
}

static bool is_bundle(int fd, uint64_t len)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n;
    void *data = map_whole(fd, len);
    bool ok = data && bundle_read(data, len, sections, &n, NULL) == 0;
    if (data)
        munmap(data, len);
    return ok;
}

/* Reads the list of paths from its memfd's bytes; NULL if it is malformed, or memory ran out. */
static struct pool_path *read_paths(const void *data, uint64_t len, uint32_t n)
{
    struct reader r = reader_over(data, len);
    struct pool_path *paths = calloc(n ? n : 1, sizeof *paths);
    for (uint32_t i = 0; paths && i < n; i++) {
        paths[i].path = reader_blob(&r, len);
        uint8_t state = reader_u8(&r);
        r.failed |= state > 1;
        paths[i].absent = state == 0;
        reader_copy(&r, &paths[i].sha256, sizeof paths[i].sha256);
        paths[i].same = reader_u32(&r);
        r.failed |= paths[i].same > i || (state && paths[paths[i].same].absent);
        paths[i].lines = reader_blob(&r, len);
    }
    if (paths && reader_done(&r))
        return paths;
    free(paths);
    return NULL;
}

void pool_paths_free(struct pool_result *done)
{
    free((void *)(uintptr_t)done->paths);
    if (done->list)
        munmap(done->list, done->list_len);
    done->paths = NULL;
    done->list = NULL;
}

/* Calls the job's callback with a worker's answer. False if the answer is not valid: the job then
 * stays. Takes the descriptors. */
static bool job_answer(struct pool_job *j, const struct worker_done *message, const int fds[2])
{
    struct pool_result done = {.status = message->status, .fd = -1};
    bool listed = message->n_paths <= COMPILE_PATHS_MAX;
    bool valid = true;
    if (message->status == 0) {
        valid = message->n_paths <= WORKER_PATHS_MAX + 1u &&
                message->paths_len / PATH_FIXED >= message->n_paths &&
                is_sealed(fds[0], message->len) && is_sealed(fds[1], message->paths_len) &&
                is_bundle(fds[0], message->len);
        if (valid && listed && message->n_paths)
            done.list = map_whole(fds[1], message->paths_len);
        done.list_len = done.list ? message->paths_len : 0;
        done.n_paths = listed ? message->n_paths : 0;
        if (valid)
            done.paths = read_paths(done.list, done.list_len, (uint32_t)done.n_paths);
        valid = done.paths != NULL;
        done.fd = valid ? fcntl(fds[0], F_DUPFD_CLOEXEC, 0) : -1;
        valid = done.fd >= 0;
    } else {
        err_set(&done.err, message->status, "%s", message->text);
    }
    done.keep = message->keep && listed && j->pool->stats.seccomp;
    done.shareable = message->shareable;
    done.names_places = message->names_places;
    done.has_once = message->has_once;
    done.movable = message->movable;
    done.names_inner = message->names_inner;
    done.nvrtc_status = message->nvrtc_status;
    done.len = message->len;
    done.ms = message->ms;
    if (valid)
        job_finish(j, &done);
    pool_paths_free(&done);
    return valid;
}

/* Reads DONE, if it is there, and passes it on. False if there was none, or it was malformed. */
static bool worker_take_done(struct worker *w)
{
    struct pool *p = w->pool;
    struct worker_done done;
    int fds[2];
    ssize_t n = packet_receive(w->fd, &done, sizeof done, fds, 2);
    struct pool_job *j = w->job;
    bool ok = n == (ssize_t)sizeof done && worker_done_is_sound(&done) && j && done.id == w->id;
    if (ok) {
        w->job = NULL; /* the callback may do anything, even close the pool */
        p->stats.n_compiles += done.status == 0;
        ok = job_answer(j, &done, fds);
        if (!ok)
            w->job = j;
    }
    for (int i = 0; n > 0 && i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return ok;
}

static void on_worker(uv_poll_t *poll, int status, int events)
{
    struct worker *w = poll->data;
    (void)status, (void)events;
    worker_take_done(w);
    worker_end(w); /* it has answered, or never will */
}

static void on_worker_timer(void *arg)
{
    struct worker *w = arg;
    if (w->state == ENDING) {
        log_error("a compiler process does not end: the process that started it is killed");
        server_end(w->server);
        return;
    }
    w->job->timed_out = true;
    w->pool->stats.n_timeouts++;
    worker_end(w);
}

/* ---- fork servers: their messages ---- */

/* Hands a worker's job to the fork server. */
static void worker_send_job(struct worker *w)
{
    struct pool *p = w->pool;
    struct pool_job *j = w->job;
    uint64_t now = uv_now(p->config.loop);
    uint64_t timeout_ms =
        j->request.timeout_ms ? j->request.timeout_ms : p->config.limits.timeout_ms;
    if (!timeout_ms)
        timeout_ms = DEFAULT_TIMEOUT_MS;
    if (!j->deadline)
        j->deadline = now + timeout_ms;
    uint64_t left = j->deadline > now ? j->deadline - now : 1;
    struct worker_job job = {.type = WORKER_JOB,
                             .has_channel = j->request.channel_fd >= 0,
                             .id = w->id,
                             .len = j->request.job_len,
                             .timeout_ms = left,
                             .memory = p->config.limits.worker_memory};
    const struct toolchain *toolchain = j->request.toolchain;
    char id[WARM_KEY_TEXT];
    key_to_text(&toolchain->id, id);
    snprintf(job.compiler, sizeof job.compiler, "NVRTC %d.%d %s", toolchain->major,
             toolchain->minor, id);
    int fds[] = {j->request.job_fd, w->answer_fd, j->request.channel_fd};
    w->state = BUSY;
    p->stats.n_busy++;
    loop_timer_start(w->timer, left, 0);
    uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, on_worker);
    if (packet_send(w->server->fd, &job, sizeof job, fds, job.has_channel ? 3 : 2))
        server_end(w->server);
    close(w->answer_fd);
    w->answer_fd = -1;
}
static void note_sandbox(struct pool *p, const struct worker_ready *ready)
{
    if (p->stats.landlock >= 0)
        return;
    p->stats.landlock = ready->landlock;
    p->stats.seccomp = ready->seccomp;
    if (!ready->seccomp)
        log_warning(
            "this kernel has no system-call filters: compilers are confined by %s, and what "
            "they make is given to nobody but who asked for it",
            ready->landlock ? "Landlock alone" : "nothing");
    else if (!ready->landlock)
        log_warning(
            "this kernel has no Landlock: compilers are confined by their system-call filter "
            "alone");
}

/* Ends a fork server that cannot be used. Its jobs fail. */
static void server_refuse(struct server *s, int code, const char *text)
{
    struct pool *p = s->pool;
    log_error("%s", text);
    for (struct worker *w = p->workers, *next; w; w = next) {
        next = w->next;
        if (w->server != s)
            continue;
        struct pool_job *j = w->job;
        worker_free(w);
        job_fail(j, code, text);
    }
    server_end(s);
}

/* Lets a fork server take jobs from now on. */
static void server_begin(struct server *s)
{
    s->state = BUSY;
    loop_timer_stop(s->timer);
    if (!s->n_workers)
        loop_timer_start(s->timer, s->pool->config.limits.idle_ms, 0);
}

static void server_ready(struct server *s, const struct worker_ready *ready)
{
    struct pool *p = s->pool;
    const struct toolchain_files *files = toolchains_files(s->toolchain);
    bool same = worker_file_equal(&ready->library, &files->library_file) &&
                worker_file_equal(&ready->builtins, &files->builtins_file);
    if (ready->status || !same) {
        server_refuse(s, ready->status ? ready->status : WARM_ENO_TOOLCHAIN,
                      ready->status ? ready->text
                                    : "the compiler was replaced just now: ask again");
        return;
    }
    note_sandbox(p, ready);
    server_begin(s);
    for (struct worker *w = p->workers; w; w = w->next)
        if (w->server == s)
            worker_send_job(w);
}

static void on_server(uv_poll_t *poll, int status, int events)
{
    struct server *s = poll->data;
    union {
        uint32_t type;
        struct worker_ready ready;
        struct worker_exited exited;
    } message;
    (void)status, (void)events;
    ssize_t n = packet_receive(s->fd, &message, sizeof message, NULL, 0);
    if (s->state == STARTING && n == (ssize_t)sizeof message.ready &&
        worker_ready_is_sound(&message.ready)) {
        server_ready(s, &message.ready);
    } else if (s->state == BUSY && n == (ssize_t)sizeof message.exited &&
               message.type == WORKER_EXITED) {
        struct worker *w = s->pool->workers;
        while (w && !(w->server == s && w->id == message.exited.id))
            w = w->next;
        if (w && message.exited.status == -1)
            log_error("cannot fork a compiler process: %s", strerror(message.exited.error));
        if (w)
            worker_exited(w,
                          message.exited.status == -1 ? W_EXITCODE(127, 0) : message.exited.status);
    } else {
        server_end(s); /* its end, or no message of the protocol */
    }
}

static void on_server_timer(void *arg)
{
    struct server *s = arg;
    if (s->state == ENDING)
        server_exited(s, 0); /* it ended, and the spawner's report was lost */
    else
        server_end(s);
}

/* ---- starting ---- */

static struct server *server_of(struct pool *p, const struct toolchain *toolchain)
{
    struct server *s = p->servers;
    while (s && (s->toolchain != toolchain || s->state == ENDING))
        s = s->next;
    return s;
}

/* Ends an idle fork server, if there are many. */
static void servers_thin_out(struct pool *p)
{
    struct server *idle = NULL;
    size_t n = 0;
    for (struct server *s = p->servers; s; s = s->next) {
        n += s->state != ENDING;
        if (s->state == BUSY && !s->n_workers)
            idle = s; /* the last in the list is the oldest */
    }
    if (n >= SERVERS_MAX && idle)
        server_end(idle);
}

/* Watches a fork server that was started; takes its descriptor, even if it fails. */
static int server_watch(struct pool *p, const struct toolchain *toolchain, int fd, uint64_t id,
                        struct server **out, struct err *e)
{
    struct server *s = calloc(1, sizeof *s);
    struct loop_timer *timer = s ? loop_timer_new(p->config.loop, on_server_timer, s) : NULL;
    if (!timer || uv_poll_init(p->config.loop, &s->poll, fd)) {
        loop_timer_free(timer);
        close(fd); /* its end */
        free(s);
        return err_set(e, WARM_ENOMEM, "cannot watch a compiler process");
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    s->poll.data = s;
    s->pool = p;
    s->toolchain = toolchain;
    s->fd = fd;
    s->id = id;
    s->timer = timer;
    LIST_ADD(p->servers, s);
    p->n_handles++;
    uv_poll_start(&s->poll, UV_READABLE | UV_DISCONNECT, on_server);
    *out = s;
    return 0;
}

static int server_new(struct pool *p, const struct toolchain *toolchain, struct server **out,
                      struct err *e)
{
    int fd;
    uint64_t id;
    servers_thin_out(p);
    int code = worker_start(&p->program, toolchains_files(toolchain), &fd, &id, e);
    if (!code)
        code = server_watch(p, toolchain, fd, id, out, e);
    if (!code)
        loop_timer_start((*out)->timer, TOOLCHAIN_PROBE_MS, 0);
    return code;
}

static int worker_new(struct pool *p, struct pool_job *j, struct server *s, struct err *e)
{
    int pair[2];
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, WARM_ENOMEM, "no memory for a compiler process");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
        free(w);
        return err_sys(e, WARM_EIO, errno, "cannot make a socket to a compiler process");
    }
    w->fd = pair[0];
    w->answer_fd = pair[1];
    w->timer = loop_timer_new(p->config.loop, on_worker_timer, w);
    if (!w->timer || uv_poll_init(p->config.loop, &w->poll, w->fd)) {
        loop_timer_free(w->timer);
        close(pair[0]);
        close(pair[1]);
        free(w);
        return err_set(e, WARM_EIO, "cannot watch a compiler process");
    }
    w->poll.data = w;
    w->pool = p;
    w->server = s;
    w->id = ++p->last_id;
    w->job = j;
    w->uid = j->request.uid;
    p->n_handles++;
    LIST_ADD(p->workers, w);
    p->stats.n_workers++;
    s->n_workers++;
    if (s->state == BUSY)
        loop_timer_stop(s->timer); /* it is not idle any more */
    j->worker = w;
    j->n_attempts++;
    return 0;
}

/* ---- the queue ---- */

/* Chooses the next job. Among the users with the fewest slots, the turn goes round the circle of
 * uids. Of that user's jobs the first in the queue is next. NULL if there is no slot. */
static struct pool_job *next_job(const struct pool *p)
{
    struct pool_job *best = NULL;
    size_t jobs = p->config.limits.jobs, fewest = 0;
    uint32_t nearest = 0;
    for (struct pool_job *j = p->queue; j && p->stats.n_workers <= jobs; j = j->next) {
        uint32_t distance = j->request.uid - p->last_uid - 1; /* the last comes last */
        if (best && j->request.uid == best->request.uid)
            continue;
        size_t n = 0;
        for (const struct worker *w = p->workers; w; w = w->next)
            n += w->uid == j->request.uid;
        if (best && (n > fewest || (n == fewest && distance >= nearest)))
            continue;
        best = j;
        fewest = n;
        nearest = distance;
    }
    return p->stats.n_workers == jobs && fewest ? NULL : best;
}

/* Gives the next job a slot. False if none can have one. */
static bool dispatch_one(struct pool *p)
{
    struct err e = {0};
    struct pool_job *j = next_job(p);
    if (!j)
        return false;
    p->last_uid = j->request.uid;
    queue_remove(p, j);
    struct server *s = server_of(p, j->request.toolchain);
    int code = s ? 0 : server_new(p, j->request.toolchain, &s, &e);
    if (!code)
        code = worker_new(p, j, s, &e);
    if (!code && s->state == BUSY)
        worker_send_job(j->worker);
    if (code)
        job_fail(j, code, e.text);
    return true;
}

static void on_dispatch(uv_timer_t *timer)
{
    struct pool *p = timer->data;
    for (struct pool_job *j = p->queue, *next; j; j = next) {
        next = j->next;
        if (!j->cancelled && !p->closing)
            continue;
        queue_remove(p, j);
        job_fail(j, j->cancelled ? WARM_ECANCELLED : WARM_ESHUTDOWN,
                 j->cancelled ? "the compile was cancelled" : "the daemon is stopping");
        next = p->queue; /* the callback may have changed the queue */
    }
    while (dispatch_one(p))
        ;
    pool_closed_maybe(p);
}

static void dispatch_soon(struct pool *p)
{
    if (!uv_is_closing((uv_handle_t *)&p->dispatch_timer))
        uv_timer_start(&p->dispatch_timer, on_dispatch, 0, 0);
}

void pool_set_limits(struct pool *p, const struct pool_limits *limits)
{
    p->config.limits = *limits;
    dispatch_soon(p);
}

int pool_start(struct pool *p, const struct pool_request *request, struct pool_job **out,
               struct err *e)
{
    assert(request->toolchain && request->job_fd >= 0 && request->cb);
    if (p->closing)
        return err_set(e, WARM_ESHUTDOWN, "the daemon is stopping");
    struct pool_job *j = calloc(1, sizeof *j);
    if (!j)
        return err_set(e, WARM_ENOMEM, "no memory for a compile");
    j->pool = p;
    j->request = *request;
    queue_push(p, j, false);
    dispatch_soon(p);
    *out = j;
    return 0;
}

void pool_cancel(struct pool *p, struct pool_job *j)
{
    struct worker *w = j->worker;
    j->cancelled = true;
    if (w && w->state != STARTING) {
        worker_end(w);
        return;
    }
    if (w) {
        worker_free(w);
        queue_push(p, j, true);
    }
    dispatch_soon(p);
}

void pool_stats(struct pool *p, struct pool_stats *out) { *out = p->stats; }

/* ---- toolchains ---- */

/* Starts a fork server before the first compile comes. */
static void pool_prepare(struct pool *p, const struct toolchain *toolchain)
{
    struct server *s;
    struct err e;
    if (!p->closing && !p->stats.spawner_gone && !server_of(p, toolchain) &&
        server_new(p, toolchain, &s, &e))
        log_debug("%s", e.text);
}

/* Remembers a client's path, whose library was loaded now, for the next start of the daemon. */
static void note_last(struct pool *p, struct view selector, uint32_t uid)
{
    struct writer w;
    bool is_path = selector.len && *(const char *)selector.data == '/';
    size_t len = is_path && selector.len < sizeof p->last_path ? selector.len : 0;
    if (!p->config.remember ||
        (strlen(p->last_path) == len && memcmp(p->last_path, selector.data, len) == 0 &&
         (!len || p->last_path_uid == uid)))
        return;
    memcpy(p->last_path, selector.data, len);
    p->last_path[len] = '\0';
    p->last_path_uid = uid;
    writer_init(&w, 0);
    writer_u32(&w, uid);
    writer_bytes(&w, p->last_path, len);
    if (w.failed || p->config.remember(p->config.memory_arg, LAST_NAME, w.data, w.len))
        log_debug("the last library could not be remembered");
    writer_close(&w);
}

int pool_find(struct pool *p, struct view selector, uint32_t uid, const struct toolchain **out,
              struct err *e)
{
    int code = toolchains_find(p->toolchains, selector, uid, out, e);
    if (code)
        return code;
    pool_prepare(p, *out);
    struct server *s = server_of(p, *out);
    if (s && !s->is_noted) {
        s->is_noted = true;
        note_last(p, selector, uid);
    }
    return 0;
}

static void prepare_last(struct pool *p);

static void on_last_identified(struct toolchain_wait *wait)
{
    prepare_last((struct pool *)((char *)wait - offsetof(struct pool, last_wait)));
}

/* Loads the library that was loaded last, before its first compile comes; in its absence, the default's.
 * It is found as its user would find it now. */
static void prepare_last(struct pool *p)
{
    const struct toolchain *found;
    struct err e;
    int code = *p->last_path
                   ? pool_find(p, view_of_text(p->last_path), p->last_path_uid, &found, &e)
                   : WARM_ENO_TOOLCHAIN;
    p->last_wait.on_change = on_last_identified;
    if (code == WARM_EBUSY)
        toolchains_await(p->toolchains, &p->last_wait);
    else if (code && code != WARM_ESHUTDOWN && pool_toolchains(p, &found, 1))
        pool_prepare(p, found);
}

static void recall_last(struct pool *p)
{
    uint8_t record[4 + PATH_MAX];
    size_t len;
    if (!p->config.recall ||
        p->config.recall(p->config.memory_arg, LAST_NAME, record, sizeof record - 1, &len))
        return;
    struct reader r = reader_over(record, len);
    p->last_path_uid = reader_u32(&r);
    struct view path = reader_bytes(&r, r.failed ? 0 : len - 4);
    if (!r.failed && path.len && *(const char *)path.data == '/')
        memcpy(p->last_path, path.data, path.len); /* zeroed before, and longer */
}

void pool_await(struct pool *p, struct toolchain_wait *wait)
{
    toolchains_await(p->toolchains, wait);
}

void pool_stop_identifying(struct pool *p) { toolchains_stop(p->toolchains); }

size_t pool_toolchains(struct pool *p, const struct toolchain **out, size_t cap)
{
    return toolchains_list(p->toolchains, out, cap);
}

size_t pool_refused(struct pool *p, int64_t uid, struct toolchain_refusal *out, size_t cap)
{
    return toolchains_refused(p->toolchains, uid, out, cap);
}

/* ---- opening and closing ---- */

static void pool_free(struct pool *p)
{
    toolchains_free(p->toolchains);
    free(p->worker_path);
    free(p);
}

/* Copies the configuration, whose texts belong to the caller. */
static int copy_config(struct pool *p, const struct pool_config *config, struct err *e)
{
    p->config = *config;
    p->config.limits.jobs = config->limits.jobs ? config->limits.jobs : 1;
    p->worker_path = strdup(config->worker_path);
    p->program = (struct worker_program){.spawner = config->spawner, .path = p->worker_path};
    /* The fork servers of a root daemon run as a user of their own, if the system has one. */
    p->program.uid = p->program.gid = NOBODY;
    struct passwd *own = geteuid() == 0 ? getpwnam("warm") : NULL;
    if (own && own->pw_uid) {
        p->program.uid = own->pw_uid;
        p->program.gid = own->pw_gid;
    }
    return p->worker_path ? 0 : err_set(e, WARM_ENOMEM, "out of memory");
}

/* Takes over the fork server that identified a library: it compiles from now on. */
static void on_started(void *arg, const struct toolchain *toolchain,
                       const struct worker_started *started)
{
    struct pool *p = arg;
    struct server *s;
    struct err e;
    note_sandbox(p, &started->ready);
    servers_thin_out(p);
    if (server_of(p, toolchain))
        close(started->fd);
    else if (server_watch(p, toolchain, started->fd, started->id, &s, &e))
        log_debug("%s", e.text);
    else
        server_begin(s);
}
static void on_identified(void *arg) { pool_closed_maybe(arg); }

static int open_toolchains(struct pool *p, struct err *e)
{
    struct toolchains_config config = {.loop = p->config.loop,
                                       .program = &p->program,
                                       .given = p->config.nvrtc,
                                       .n_given = p->config.n_nvrtc,
                                       .from = p->config.nvrtc_from,
                                       .n_from = p->config.n_nvrtc_from,
                                       .recall = p->config.recall,
                                       .remember = p->config.remember,
                                       .memory_arg = p->config.memory_arg,
                                       .on_started = on_started,
                                       .on_idle = on_identified,
                                       .arg = p};
    return toolchains_open(&p->toolchains, &config, e);
}

int pool_open(struct pool **out, const struct pool_config *config, struct err *e)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, WARM_ENOMEM, "out of memory");
    p->queue_tail = &p->queue;
    p->stats.landlock = -1;
    int code = copy_config(p, config, e);
    if (!code)
        code = open_toolchains(p, e);
    if (code) {
        pool_free(p);
        return code;
    }
    p->respawn_timer = loop_timer_new(config->loop, spawner_replace, p);
    if (!p->respawn_timer ||
        uv_poll_init(config->loop, &p->spawner_poll, spawner_fd(config->spawner))) {
        loop_timer_free(p->respawn_timer);
        pool_free(p);
        return err_set(e, WARM_EIO, "cannot watch the spawner");
    }
    uv_timer_init(config->loop, &p->dispatch_timer);
    p->spawner_poll.data = p->dispatch_timer.data = p;
    p->n_handles = 2;
    uv_poll_start(&p->spawner_poll, UV_READABLE | UV_DISCONNECT, on_spawner);
    recall_last(p);
    prepare_last(p);
    *out = p;
    return 0;
}

static void on_pool_handle_closed(uv_handle_t *handle)
{
    struct pool *p = handle->data;
    p->n_handles--;
    pool_closed_maybe(p);
}

/* Takes the last step of pool_close, as soon as nothing refers to the pool any more. */
static void pool_closed_maybe(struct pool *p)
{
    if (!p->closing || p->servers || p->queue || toolchains_busy(p->toolchains))
        return;
    if (!uv_is_closing((uv_handle_t *)&p->spawner_poll)) {
        uv_close((uv_handle_t *)&p->spawner_poll, on_pool_handle_closed);
        uv_close((uv_handle_t *)&p->dispatch_timer, on_pool_handle_closed);
        loop_timer_free(p->respawn_timer);
    }
    if (p->n_handles)
        return;
    void (*on_closed)(void *arg) = p->on_closed;
    void *arg = p->closed_arg;
    pool_free(p);
    if (on_closed)
        on_closed(arg);
}

void pool_close(struct pool *p, void (*on_closed)(void *arg), void *arg)
{
    assert(!p->closing);
    p->closing = true;
    toolchains_stop(p->toolchains);
    p->on_closed = on_closed;
    p->closed_arg = arg;
    for (struct server *s = p->servers; s; s = s->next)
        server_end(s);
    dispatch_soon(p);
}

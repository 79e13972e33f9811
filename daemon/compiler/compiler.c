/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler.c - the fork servers, their workers, and the compiles that wait for one. Loop thread.
 *
 * The happy path of one compile:
 *   1. compiler_start queues it; a zero timer runs dispatch() from the loop;
 *   2. dispatch() gives it a worker, which is one of `jobs` slots, and the fork server of its toolchain,
 *      which is started if there is none. Slots go to users in turn (next_in_turn), and one more than
 *      `jobs` to a user who has none: nobody can hold them all;
 *   3. the fork server says READY (if it is new); the job, the client's channel and a socket for the
 *      answer go to it; it forks the worker;
 *   4. DONE comes on that socket with two memfds; they are checked; the callback runs;
 *   5. the fork server tells that the worker is reaped; the slot is free.
 * What may go wrong:
 *   - the worker dies (SIGKILL, SIGSEGV, a limit): the fork server says so; the compile goes back to
 *     the head of the queue once, the second time it fails with CRASHED;
 *   - the deadline passes: the worker is killed (the compiler's front end listens to nothing else),
 *     the compile fails with TIMEOUT and is not tried again;
 *   - cancelled: queued, it fails at once; running, its worker is killed;
 *   - the worker answers rubbish: it is killed, and that counts as its death;
 *   - the fork server dies: the kernel kills its workers with it, and each counts as dead;
 *   - the library changed since it was identified: NO_TOOLCHAIN, and it is identified anew;
 *   - the spawner dies, and with it all of them: each compile fails with IO from then on.
 *
 * Life of a worker; it holds a slot until it is freed:
 *
 *     STARTING ──READY of its fork server──▶ BUSY ──DONE, or killed──▶ ENDING ──EXITED──▶ freed
 *
 * Life of a fork server. It ends when it had no worker for idle_ms, or by an error:
 *
 *     STARTING ──READY──▶ READY ──▶ ENDING ──reaped by the spawner──▶ freed
 */
#include "daemon/compiler/compiler.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
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
#include "daemon/process/ticker.h"
#include "daemon/worker/message.h"

#define ATTEMPTS_MAX 2u    /* of one compile, in different workers */
#define SERVERS_MAX 4u     /* fork servers that have nothing to do, and all others */
#define KILL_WAIT_MS 10000 /* for the word that a killed process has ended */
#define DEFAULT_TIMEOUT_MS 600000u
#define NOBODY 65534u
#define PATH_FIXED (4u + 1u + 32u + 4u + 4u) /* bytes of a path's record beside its text */

enum state { STARTING, BUSY, ENDING };

struct server { /* the fork server of one toolchain */
    struct compiler *compiler;
    struct server *next;
    uint64_t id; /* with the spawner */
    int fd;
    enum state state; /* BUSY: it is ready */
    const struct toolchain *toolchain;
    size_t n_workers;
    uv_poll_t poll;
    struct ticker *timer; /* ends it when it starts for too long, or has no worker for long */
};

struct worker { /* the process of one compile */
    struct compiler *compiler;
    struct worker *next;
    struct server *server;
    uint64_t id;       /* with the fork server */
    int fd, answer_fd; /* where its answer comes from; the other end until the worker has it */
    enum state state;
    uint32_t uid;            /* whose compile it has, or had */
    struct compile *compile; /* NULL once that is answered */
    uv_poll_t poll;
    struct ticker *timer; /* ends BUSY, and its fork server if ENDING lasts too long */
};

struct compile {
    struct compiler *compiler;
    struct compile *next; /* in the queue */
    struct compile_request request;
    uint64_t deadline; /* uv_now; 0 until it first runs */
    unsigned n_attempts;
    struct worker *worker;
    bool cancelled, timed_out;
};

struct compiler {
    struct compiler_config config;
    struct worker_program program;
    char *worker_path;
    struct toolchains *toolchains;
    struct server *servers;
    struct worker *workers;
    struct compile *queue, **queue_tail;
    uint64_t last_id;
    uint32_t last_uid; /* who got the last slot */
    struct compiler_stats stats;
    bool closing, spawner_gone;
    void (*on_closed)(void *arg);
    void *closed_arg;
    uv_poll_t spawner_poll;
    uv_timer_t dispatch_timer;
    int n_handles; /* ours, the fork servers' and the workers' */
};

static void dispatch_soon(struct compiler *c);

/* ---- the end of a compile ---- */

static void compile_finish(struct compile *j, struct compile_done *done)
{
    if (j->request.channel_fd >= 0)
        close(j->request.channel_fd);
    j->request.cb(j->request.arg, done);
    free(j);
}

static void compile_fail(struct compile *j, int code, const char *text)
{
    struct compile_done done = {.status = code, .fd = -1};
    err_set(&done.err, code, "%s", text);
    compile_finish(j, &done);
}

static void queue_push(struct compiler *c, struct compile *j, bool first)
{
    j->worker = NULL;
    j->next = first ? c->queue : NULL;
    if (first)
        c->queue = j;
    else
        *c->queue_tail = j;
    if (!j->next)
        c->queue_tail = &j->next;
    c->stats.n_queued++;
}

static void queue_remove(struct compiler *c, struct compile *j)
{
    struct compile **at = &c->queue;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    if (!*at)
        c->queue_tail = at;
    c->stats.n_queued--;
}

/* ---- ending ---- */

static void compiler_closed_maybe(struct compiler *c);

static void on_worker_handle_closed(uv_handle_t *handle)
{
    struct worker *w = handle->data;
    struct compiler *c = w->compiler;
    c->n_handles--;
    free(w);
    compiler_closed_maybe(c);
}

static void worker_free(struct worker *w)
{
    struct compiler *c = w->compiler;
    struct worker **at = &c->workers;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    c->stats.n_workers--;
    w->server->n_workers--;
    if (!w->server->n_workers && w->server->state == BUSY)
        ticker_start(w->server->timer, c->config.limits.idle_ms, 0);
    close(w->fd);
    if (w->answer_fd >= 0)
        close(w->answer_fd);
    uv_close((uv_handle_t *)&w->poll, on_worker_handle_closed);
    ticker_free(w->timer);
}

/* From now on only its end is waited for. */
static void worker_leave(struct worker *w)
{
    if (w->state == BUSY)
        w->compiler->stats.n_busy--;
    w->state = ENDING;
    uv_poll_stop(&w->poll);
    ticker_start(w->timer, KILL_WAIT_MS, 0);
}

/* Kills it; what becomes of its compile is decided when the fork server has reaped it. */
static void worker_end(struct worker *w)
{
    struct worker_kill message = {.type = WORKER_KILL, .id = w->id};
    if (w->state != ENDING)
        worker_leave(w);
    worker_send(w->server->fd, &message, sizeof message, NULL, 0);
}

static void describe_death(char *out, size_t cap, int status, bool started)
{
    const char *when = started ? "while it compiled" : "before it could compile";
    if (WIFSIGNALED(status))
        snprintf(out, cap, "the compiler process died %s (signal %d, %s)", when, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(out, cap, "the compiler process ended %s (status %d)", when, WEXITSTATUS(status));
}

/* Its worker is dead. */
static void compile_lost(struct compile *j, int status, bool started)
{
    struct compiler *c = j->compiler;
    char text[128];
    describe_death(text, sizeof text, status, started);
    if (j->cancelled) {
        compile_fail(j, WARM_ECANCELLED, "the compile was cancelled");
    } else if (j->timed_out) {
        compile_fail(j, WARM_ETIMEOUT, "the compile took longer than its deadline");
    } else if (c->closing) {
        compile_fail(j, WARM_ESHUTDOWN, "the daemon is stopping");
    } else if (c->spawner_gone) {
        compile_fail(j, WARM_EIO, "the process that starts the compilers is gone");
    } else {
        c->stats.n_crashes++;
        log_user(j->request.uid, LOG_LEVEL_WARNING, "%s, attempt %u of %u", text, j->n_attempts,
                 ATTEMPTS_MAX);
        if (j->n_attempts < ATTEMPTS_MAX)
            queue_push(c, j, true);
        else
            compile_fail(j, WARM_ECRASHED, text);
    }
}

static bool worker_take_done(struct worker *w);

/* It is reaped. Its last words may still be in the socket. */
static void worker_exited(struct worker *w, int status)
{
    struct compiler *c = w->compiler;
    bool started = w->state != STARTING;
    if (w->state == BUSY)
        worker_take_done(w);
    if (w->state == BUSY)
        c->stats.n_busy--;
    struct compile *j = w->compile;
    worker_free(w);
    if (j)
        compile_lost(j, status, started);
    dispatch_soon(c);
}

static void on_server_handle_closed(uv_handle_t *handle)
{
    struct server *s = handle->data;
    struct compiler *c = s->compiler;
    c->n_handles--;
    free(s);
    compiler_closed_maybe(c);
}

/* Kills it, and with it its workers; they are dealt with when the spawner has reaped it. */
static void server_end(struct server *s)
{
    if (s->state == ENDING)
        return;
    s->state = ENDING;
    uv_poll_stop(&s->poll);
    ticker_start(s->timer, KILL_WAIT_MS, 0);
    spawner_kill(s->compiler->config.spawner, s->id);
}

/* The spawner has reaped it. */
static void server_exited(struct server *s, int status)
{
    struct compiler *c = s->compiler;
    s->state = ENDING;
    for (struct worker *w = c->workers, *next; w; w = next) {
        next = w->next;
        if (w->server == s)
            worker_exited(w, status);
    }
    struct server **at = &c->servers;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    close(s->fd);
    ticker_free(s->timer);
    uv_close((uv_handle_t *)&s->poll, on_server_handle_closed);
    dispatch_soon(c);
}

static void on_spawner(uv_poll_t *poll, int status, int events)
{
    struct compiler *c = poll->data;
    struct spawner_event event;
    int rc;
    (void)status, (void)events;
    while ((rc = spawner_read(c->config.spawner, &event)) == 1) {
        struct server *s = c->servers;
        while (s && s->id != event.id)
            s = s->next;
        if (s && event.status == -1)
            log_error("cannot start a compiler process: %s", strerror(event.error));
        if (s)
            server_exited(s, event.status == -1 ? W_EXITCODE(127, 0) : event.status);
    }
    if (rc == 0 || c->spawner_gone)
        return;
    log_error("the process that starts the compilers is gone: no compiles from now on");
    c->spawner_gone = true;
    uv_poll_stop(&c->spawner_poll);
    while (c->servers)
        server_exited(c->servers, 0);
}

/* ---- workers: their answers ---- */

/* A descriptor that is a memfd of exactly `len` bytes, which nobody can change any more. */
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

/* The list of paths out of its memfd's bytes; NULL if it is not one, or memory ran out. */
static struct compile_path *read_paths(const void *data, uint64_t len, uint32_t n)
{
    struct reader r = reader_over(data, len);
    struct compile_path *paths = calloc(n ? n : 1, sizeof *paths);
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

void compile_paths_free(struct compile_done *done)
{
    free((void *)(uintptr_t)done->paths);
    if (done->list)
        munmap(done->list, done->list_len);
    done->paths = NULL;
    done->list = NULL;
}

/* Calls the compile's callback with a worker's answer. False if the answer is not valid: then the
 * compile is still there. Takes the descriptors. */
static bool compile_answer(struct compile *j, const struct worker_done *message, const int fds[2])
{
    struct compile_done done = {.status = message->status, .fd = -1};
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
        err_set(&done.err, message->status, "%.*s", (int)sizeof message->text - 1, message->text);
    }
    done.keep = message->keep && listed && j->compiler->stats.seccomp;
    done.shareable = message->shareable;
    done.names_places = message->names_places;
    done.has_once = message->has_once;
    done.movable = message->movable;
    done.names_inner = message->names_inner;
    done.nvrtc_status = message->nvrtc_status;
    done.len = message->len;
    done.ms = message->ms;
    if (valid)
        compile_finish(j, &done);
    compile_paths_free(&done);
    return valid;
}

/* Reads DONE, if it is there, and passes it on. False if there was none, or it was rubbish. */
static bool worker_take_done(struct worker *w)
{
    struct compiler *c = w->compiler;
    struct worker_done done;
    int fds[2];
    ssize_t n = worker_receive(w->fd, &done, sizeof done, fds, 2);
    struct compile *j = w->compile;
    bool ok = n == (ssize_t)sizeof done && done.type == WORKER_DONE && j && done.id == w->id;
    if (ok) {
        w->compile = NULL; /* the callback may do anything, even close the pool */
        c->stats.n_compiles += done.status == 0;
        ok = compile_answer(j, &done, fds);
        if (!ok)
            w->compile = j;
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
    worker_end(w); /* it has answered, or will not: nothing more is wanted of it */
}

static void on_worker_timer(void *arg)
{
    struct worker *w = arg;
    if (w->state == ENDING) {
        log_error("a compiler process does not end: the process that started it is killed");
        server_end(w->server);
        return;
    }
    w->compile->timed_out = true;
    w->compiler->stats.n_timeouts++;
    worker_end(w);
}

/* ---- fork servers: their words ---- */

/* Hands a worker's compile to the fork server. */
static void worker_send_job(struct worker *w)
{
    struct compiler *c = w->compiler;
    struct compile *j = w->compile;
    uint64_t now = uv_now(c->config.loop);
    uint64_t timeout_ms =
        j->request.timeout_ms ? j->request.timeout_ms : c->config.limits.timeout_ms;
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
                             .memory = c->config.limits.worker_memory};
    const struct toolchain *toolchain = j->request.toolchain;
    char id[WARM_KEY_TEXT];
    key_to_text(&toolchain->id, id);
    snprintf(job.compiler, sizeof job.compiler, "NVRTC %d.%d %s", toolchain->major,
             toolchain->minor, id);
    int fds[] = {j->request.job_fd, w->answer_fd, j->request.channel_fd};
    w->state = BUSY;
    c->stats.n_busy++;
    ticker_start(w->timer, left, 0);
    uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, on_worker);
    if (worker_send(w->server->fd, &job, sizeof job, fds, job.has_channel ? 3 : 2))
        server_end(w->server);
    close(w->answer_fd);
    w->answer_fd = -1;
}
static void note_sandbox(struct compiler *c, const struct worker_ready *ready)
{
    if (c->stats.landlock >= 0)
        return;
    c->stats.landlock = ready->landlock;
    c->stats.seccomp = ready->seccomp;
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

/* It cannot be used. What waits for it fails. */
static void server_refuse(struct server *s, int code, const char *text)
{
    struct compiler *c = s->compiler;
    log_error("%s", text);
    for (struct worker *w = c->workers, *next; w; w = next) {
        next = w->next;
        if (w->server != s)
            continue;
        struct compile *j = w->compile;
        worker_free(w);
        compile_fail(j, code, text);
    }
    server_end(s);
}

/* It takes jobs from now on. */
static void server_begin(struct server *s)
{
    s->state = BUSY;
    ticker_stop(s->timer);
    if (!s->n_workers)
        ticker_start(s->timer, s->compiler->config.limits.idle_ms, 0);
}

static void server_ready(struct server *s, const struct worker_ready *ready)
{
    struct compiler *c = s->compiler;
    const struct toolchain_files *files = toolchains_files(s->toolchain);
    bool same = worker_file_equal(&ready->library, &files->library_file) &&
                worker_file_equal(&ready->builtins, &files->builtins_file);
    if (ready->status || !same) {
        server_refuse(s, ready->status ? ready->status : WARM_ENO_TOOLCHAIN,
                      ready->status ? ready->text
                                    : "the compiler was replaced just now: ask again");
        return;
    }
    note_sandbox(c, ready);
    server_begin(s);
    for (struct worker *w = c->workers; w; w = w->next)
        if (w->server == s)
            worker_send_job(w);
}

static void server_told_exit(struct server *s, const struct worker_exited *exited)
{
    struct worker *w = s->compiler->workers;
    while (w && !(w->server == s && w->id == exited->id))
        w = w->next;
    if (w && exited->status == -1)
        log_error("cannot fork a compiler process: %s", strerror(exited->error));
    if (w)
        worker_exited(w, exited->status == -1 ? W_EXITCODE(127, 0) : exited->status);
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
    ssize_t n = worker_receive(s->fd, &message, sizeof message, NULL, 0);
    if (s->state == STARTING && n == (ssize_t)sizeof message.ready &&
        message.type == WORKER_READY) {
        message.ready.text[sizeof message.ready.text - 1] = '\0';
        server_ready(s, &message.ready);
    } else if (s->state == BUSY && n == (ssize_t)sizeof message.exited &&
               message.type == WORKER_EXITED) {
        server_told_exit(s, &message.exited);
    } else {
        server_end(s); /* its end */
    }
}

static void on_server_timer(void *arg)
{
    struct server *s = arg;
    if (s->state == ENDING)
        server_exited(s, 0); /* it had ended before the spawner's word of it could be understood */
    else
        server_end(s);
}

/* ---- starting ---- */

static struct server *server_of(struct compiler *c, const struct toolchain *toolchain)
{
    struct server *s = c->servers;
    while (s && (s->toolchain != toolchain || s->state == ENDING))
        s = s->next;
    return s;
}

/* Ends one that has nothing to do, if there are many. */
static void servers_thin_out(struct compiler *c)
{
    struct server *idle = NULL;
    size_t n = 0;
    for (struct server *s = c->servers; s; s = s->next) {
        n += s->state != ENDING;
        if (s->state == BUSY && !s->n_workers)
            idle = s; /* the last in the list is the oldest */
    }
    if (n >= SERVERS_MAX && idle)
        server_end(idle);
}

/* Watches a fork server that was started; takes its descriptor, even if it fails. */
static int server_watch(struct compiler *c, const struct toolchain *toolchain, int fd, uint64_t id,
                        struct server **out, struct err *e)
{
    struct server *s = calloc(1, sizeof *s);
    struct ticker *timer = s ? ticker_new(c->config.loop, on_server_timer, s) : NULL;
    if (!timer || uv_poll_init(c->config.loop, &s->poll, fd)) {
        ticker_free(timer);
        close(fd); /* its end */
        free(s);
        return err_set(e, WARM_ENOMEM, "cannot watch a compiler process");
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    s->poll.data = s;
    s->compiler = c;
    s->toolchain = toolchain;
    s->fd = fd;
    s->id = id;
    s->timer = timer;
    s->next = c->servers;
    c->servers = s;
    c->n_handles++;
    uv_poll_start(&s->poll, UV_READABLE | UV_DISCONNECT, on_server);
    *out = s;
    return 0;
}

static int server_new(struct compiler *c, const struct toolchain *toolchain, struct server **out,
                      struct err *e)
{
    int fd;
    uint64_t id;
    servers_thin_out(c);
    int code = worker_start(&c->program, toolchains_files(toolchain), &fd, &id, e);
    if (!code)
        code = server_watch(c, toolchain, fd, id, out, e);
    if (!code)
        ticker_start((*out)->timer, TOOLCHAIN_PROBE_MS, 0);
    return code;
}

static int worker_new(struct compiler *c, struct compile *j, struct server *s, struct err *e)
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
    w->timer = ticker_new(c->config.loop, on_worker_timer, w);
    if (!w->timer || uv_poll_init(c->config.loop, &w->poll, w->fd)) {
        ticker_free(w->timer);
        close(pair[0]);
        close(pair[1]);
        free(w);
        return err_set(e, WARM_EIO, "cannot watch a compiler process");
    }
    w->poll.data = w;
    w->compiler = c;
    w->server = s;
    w->id = ++c->last_id;
    w->compile = j;
    w->uid = j->request.uid;
    c->n_handles++;
    w->next = c->workers;
    c->workers = w;
    c->stats.n_workers++;
    s->n_workers++;
    if (s->state == BUSY)
        ticker_stop(s->timer); /* it is not idle any more */
    j->worker = w;
    j->n_attempts++;
    return 0;
}

/* Gives a compile a slot. */
static int compile_begin(struct compiler *c, struct compile *j, struct err *e)
{
    struct server *s = server_of(c, j->request.toolchain);
    int code = s ? 0 : server_new(c, j->request.toolchain, &s, e);
    if (!code)
        code = worker_new(c, j, s, e);
    if (!code && s->state == BUSY)
        worker_send_job(j->worker);
    return code;
}

/* ---- the queue ---- */

static size_t slots_of(const struct compiler *c, uint32_t uid)
{
    size_t n = 0;
    for (const struct worker *w = c->workers; w; w = w->next)
        n += w->uid == uid;
    return n;
}

/* The compile whose turn it is: of the users with the fewest slots the one who follows the last in the
 * circle of all uids, and of that user's compiles the first in the queue. NULL if there is no slot. */
static struct compile *next_in_turn(const struct compiler *c)
{
    struct compile *best = NULL;
    size_t jobs = c->config.limits.jobs, fewest = 0;
    uint32_t nearest = 0;
    for (struct compile *j = c->queue; j && c->stats.n_workers <= jobs; j = j->next) {
        uint32_t distance = j->request.uid - c->last_uid - 1; /* the last comes last */
        if (best && j->request.uid == best->request.uid)
            continue;
        size_t n = slots_of(c, j->request.uid);
        if (best && (n > fewest || (n == fewest && distance >= nearest)))
            continue;
        best = j;
        fewest = n;
        nearest = distance;
    }
    return c->stats.n_workers == jobs && fewest ? NULL : best;
}

/* Gives the next compile a slot. False if it has to wait. */
static bool dispatch_one(struct compiler *c)
{
    struct err e = {0};
    struct compile *j = next_in_turn(c);
    if (!j)
        return false;
    c->last_uid = j->request.uid;
    queue_remove(c, j);
    int code = compile_begin(c, j, &e);
    if (code)
        compile_fail(j, code, e.text);
    return true;
}

static void drop_cancelled(struct compiler *c)
{
    for (struct compile *j = c->queue, *next; j; j = next) {
        next = j->next;
        if (!j->cancelled && !c->closing)
            continue;
        queue_remove(c, j);
        compile_fail(j, j->cancelled ? WARM_ECANCELLED : WARM_ESHUTDOWN,
                     j->cancelled ? "the compile was cancelled" : "the daemon is stopping");
        next = c->queue; /* the callback may have changed what follows */
    }
}

static void on_dispatch(uv_timer_t *timer)
{
    struct compiler *c = timer->data;
    drop_cancelled(c);
    while (dispatch_one(c))
        ;
    compiler_closed_maybe(c);
}

static void dispatch_soon(struct compiler *c)
{
    if (!uv_is_closing((uv_handle_t *)&c->dispatch_timer))
        uv_timer_start(&c->dispatch_timer, on_dispatch, 0, 0);
}

void compiler_set_limits(struct compiler *c, const struct compiler_limits *limits)
{
    c->config.limits = *limits;
    dispatch_soon(c);
}

int compiler_start(struct compiler *c, const struct compile_request *request, struct compile **out,
                   struct err *e)
{
    if (c->closing)
        return err_set(e, WARM_ESHUTDOWN, "the daemon is stopping");
    struct compile *j = calloc(1, sizeof *j);
    if (!j)
        return err_set(e, WARM_ENOMEM, "no memory for a compile");
    j->compiler = c;
    j->request = *request;
    queue_push(c, j, false);
    dispatch_soon(c);
    *out = j;
    return 0;
}

void compiler_cancel(struct compiler *c, struct compile *j)
{
    struct worker *w = j->worker;
    j->cancelled = true;
    if (w && w->state != STARTING) {
        worker_end(w);
        return;
    }
    if (w) {
        worker_free(w);
        queue_push(c, j, true);
    }
    dispatch_soon(c);
}

void compiler_stats(struct compiler *c, struct compiler_stats *out) { *out = c->stats; }

/* ---- toolchains ---- */

/* A fork server is there when the first compile comes. */
static void compiler_prepare(struct compiler *c, const struct toolchain *toolchain)
{
    struct server *s;
    struct err e;
    if (!c->closing && !c->spawner_gone && !server_of(c, toolchain) &&
        server_new(c, toolchain, &s, &e))
        log_debug("%s", e.text);
}

int compiler_find(struct compiler *c, struct view selector, uint32_t uid,
                  const struct toolchain **out, struct err *e)
{
    int code = toolchains_find(c->toolchains, selector, uid, out, e);
    if (!code)
        compiler_prepare(c, *out);
    return code;
}

void compiler_await(struct compiler *c, struct toolchain_wait *wait)
{
    toolchains_await(c->toolchains, wait);
}

void compiler_await_cancel(struct toolchain_wait *wait)
{
    if (!wait->at)
        return;
    if (wait->next)
        wait->next->at = wait->at;
    *wait->at = wait->next;
    wait->at = NULL;
}

void compiler_stop_identifying(struct compiler *c) { toolchains_stop(c->toolchains); }

size_t compiler_toolchains(struct compiler *c, const struct toolchain **out, size_t cap)
{
    return toolchains_list(c->toolchains, out, cap);
}

/* ---- opening and closing ---- */

static void compiler_free(struct compiler *c)
{
    toolchains_free(c->toolchains);
    free(c->worker_path);
    free(c);
}

/* Whom a fork server becomes if the daemon is root: a user of its own, where the system has one. */
static void choose_user(struct worker_program *program)
{
    program->uid = program->gid = NOBODY;
    struct passwd *own = geteuid() == 0 ? getpwnam("warm") : NULL;
    if (own && own->pw_uid) {
        program->uid = own->pw_uid;
        program->gid = own->pw_gid;
    }
}

/* Keeps what the caller's configuration only lends. */
static int copy_config(struct compiler *c, const struct compiler_config *config, struct err *e)
{
    c->config = *config;
    c->config.limits.jobs = config->limits.jobs ? config->limits.jobs : 1;
    c->worker_path = strdup(config->worker_path);
    c->program = (struct worker_program){.spawner = config->spawner, .path = c->worker_path};
    choose_user(&c->program);
    return c->worker_path ? 0 : err_set(e, WARM_ENOMEM, "out of memory");
}

/* The fork server that identified the library goes on to compile with it. */
static void on_started(void *arg, const struct toolchain *toolchain,
                       const struct worker_started *started)
{
    struct compiler *c = arg;
    struct server *s;
    struct err e;
    note_sandbox(c, &started->ready);
    servers_thin_out(c);
    if (server_of(c, toolchain))
        close(started->fd);
    else if (server_watch(c, toolchain, started->fd, started->id, &s, &e))
        log_debug("%s", e.text);
    else
        server_begin(s);
}
static void on_identified(void *arg) { compiler_closed_maybe(arg); }

static int open_toolchains(struct compiler *c, struct err *e)
{
    struct toolchains_config config = {.loop = c->config.loop,
                                       .program = &c->program,
                                       .given = c->config.nvrtc,
                                       .n_given = c->config.n_nvrtc,
                                       .from = c->config.nvrtc_from,
                                       .n_from = c->config.n_nvrtc_from,
                                       .recall = c->config.recall,
                                       .remember = c->config.remember,
                                       .memory_arg = c->config.memory_arg,
                                       .on_started = on_started,
                                       .on_idle = on_identified,
                                       .arg = c};
    return toolchains_open(&c->toolchains, &config, e);
}

int compiler_open(struct compiler **out, const struct compiler_config *config, struct err *e)
{
    struct compiler *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, WARM_ENOMEM, "out of memory");
    c->queue_tail = &c->queue;
    c->stats.landlock = -1;
    int code = copy_config(c, config, e);
    if (!code)
        code = open_toolchains(c, e);
    if (code) {
        compiler_free(c);
        return code;
    }
    if (uv_poll_init(config->loop, &c->spawner_poll, spawner_fd(config->spawner))) {
        compiler_free(c);
        return err_set(e, WARM_EIO, "cannot watch the spawner");
    }
    uv_timer_init(config->loop, &c->dispatch_timer);
    c->spawner_poll.data = c->dispatch_timer.data = c;
    c->n_handles = 2;
    uv_poll_start(&c->spawner_poll, UV_READABLE | UV_DISCONNECT, on_spawner);
    const struct toolchain *first;
    if (compiler_toolchains(c, &first, 1))
        compiler_prepare(c, first);
    *out = c;
    return 0;
}

static void on_compiler_handle_closed(uv_handle_t *handle)
{
    struct compiler *c = handle->data;
    c->n_handles--;
    compiler_closed_maybe(c);
}

/* The last step of compiler_close, as soon as nothing refers to *c any more. */
static void compiler_closed_maybe(struct compiler *c)
{
    if (!c->closing || c->servers || c->queue || toolchains_busy(c->toolchains))
        return;
    if (!uv_is_closing((uv_handle_t *)&c->spawner_poll)) {
        uv_close((uv_handle_t *)&c->spawner_poll, on_compiler_handle_closed);
        uv_close((uv_handle_t *)&c->dispatch_timer, on_compiler_handle_closed);
    }
    if (c->n_handles)
        return;
    void (*on_closed)(void *arg) = c->on_closed;
    void *arg = c->closed_arg;
    compiler_free(c);
    if (on_closed)
        on_closed(arg);
}

void compiler_close(struct compiler *c, void (*on_closed)(void *arg), void *arg)
{
    c->closing = true;
    toolchains_stop(c->toolchains);
    c->on_closed = on_closed;
    c->closed_arg = arg;
    for (struct server *s = c->servers; s; s = s->next)
        server_end(s);
    dispatch_soon(c);
}

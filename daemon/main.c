/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warmd: starts everything in order, runs the loop, and takes it down in reverse.
 *
 *   start: spawner (before there is anything to copy) ─▶ settings ─▶ store ─▶ pool ─▶ socket
 *          ─▶ service ─▶ connections ─▶ "ready"
 *   SIGTERM, SIGINT:
 *     1. no new connections, no new waits; running requests may end                  (DRAIN_MS)
 *     2. waiters are told SHUTDOWN, compiles are cancelled, leases are given back    (END_MS)
 *     3. connections, workers, service are closed; the store commits; the loop ends
 *   SIGHUP: the file is read again; settings that can change while the daemon runs do.
 *   a fatal signal, an endless loop: the process starts again at once (restart.h, watch.h)
 *
 * Thread: the loop thread. The store's threads call on_store_wake and on_store_event.
 */
#include <assert.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "client/lib/conn.h"
#include "client/wire/version.h"
#include "daemon/compiler/pool.h"
#include "daemon/compiler/spawner.h"
#include "daemon/http/port.h"
#include "daemon/net/listener.h"
#include "daemon/net/protocols.h"
#include "daemon/net/server.h"
#include "daemon/process/config.h"
#include "daemon/process/defaults.h"
#include "daemon/process/log.h"
#include "daemon/process/loop_timer.h"
#include "daemon/process/notify.h"
#include "daemon/process/restart.h"
#include "daemon/process/room.h"
#include "daemon/process/watch.h"
#include "daemon/pytorch/torch_store.h"
#include "daemon/service/old_keys.h"
#include "daemon/service/service.h"
#include "daemon/users/budget.h"
#include "daemon/users/peer.h"
#include "keygen/expect.h"
#include "store/store.h"

#define DRAIN_MS 3000u   /* for running requests to end by themselves */
#define END_MS 3000u     /* for cancelled requests to end, and leases to be given back */
#define STOP_TICK_MS 10u /* how often that is checked */
#define FDS_SPARE 256u   /* descriptors for everything but connections */
#define ROOM_MS 2000u    /* how often the free space is looked at */
#define IDLE_TICK_MS 500u
#define ROOM_STEP (1u << 20) /* bytes: a smaller change of the cap waits */
#define COMMIT_DELAY_MS 0u   /* a put does not wait; puts that queue meanwhile share a commit */

#define STUCK_MS 20000u        /* CPU time of one turn of the loop */
#define WRITER_STUCK_MS 60000u /* of one round of the store's writer */
#define LATE_MS                                                                                    \
    20000u /* after SIGTERM, without a turn of the loop: a store may have much to write */

#define LOOP_SLICE_NS 100000u /* the least that Linux takes */

enum phase { PHASE_RUNNING, PHASE_DRAINING, PHASE_ENDING, PHASE_CLOSING };

struct daemon {
    int argc;
    char **argv;
    struct config config;
    struct spawner *spawner;
    struct store *store;
    struct pool *pool;
    struct service *service;
    struct server *server;
    struct port *port; /* of the metrics; NULL: none */
    struct listener_socket socket, admin;
    gid_t trust_group;
    bool has_socket, has_admin;
    uv_loop_t loop;
    uv_async_t wake;
    uv_signal_t signals[3];
    uv_timer_t stop_timer;
    uv_prepare_t turn;
    bool is_watched;
    struct loop_timer *watchdog, *room_timer, *idle_timer;
    uint64_t last_seen_ms; /* when a client was connected */
    uint64_t cap;          /* of the store, now; 0: not set yet */
    bool has_handles;
    enum phase phase;
    uint64_t phase_ends_ms;
};

static const int daemon_signals[] = {SIGTERM, SIGINT, SIGHUP};

/* ---- settings ---- */

static void usage(FILE *out)
{
    struct writer w;
    writer_init(&w, 0);
    config_help(&w);
    fprintf(
        out,
        "usage: warmd [options]\n"
        "The daemon of the warm compilation cache. Runs in the foreground.\n\n"
        "  --config FILE\n        settings, one `key = value` a line; options come on top; "
        "\"\": none\n        [~/.config/warm/warmd.conf, root: /etc/warm/warmd.conf]\n"
        "%.*s"
        "  --check-config FILE\n        only says if the settings in FILE are right: exit status "
        "0, or 2\n"
        "  --check-store FOLDER\n        only says if this version can use a store, and reads "
        "every "
        "value: exit status 0, or 1\n"
        "  --help, --version\n\n"
        "Sizes take B, K, M, G, T; times ms, s, m, h, d.\n"
        "Example: warmd --socket /tmp/warm.sock --store /tmp/warm-store --max-size 2G\n",
        (int)w.len, w.data ? (const char *)w.data : "");
    writer_close(&w);
}

/* Splits "--name=value" or "--name value". Returns how many arguments it took; 0: no value. */
static int split_option(char **argv, int left, char name[64], const char **out_value)
{
    const char *text = argv[0] + 2, *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    snprintf(name, 64, "%.*s", (int)len, text);
    *out_value = equals ? equals + 1 : left > 1 ? argv[1] : NULL;
    return equals ? 1 : *out_value ? 2 : 0;
}

/* Goes through the options: takes --config alone (`file`), or all others. */
static int read_options(struct config *c, int argc, char **argv, const char **file, struct err *e)
{
    for (int i = 1; i < argc;) {
        char name[64];
        const char *value;
        if (strncmp(argv[i], "--", 2) != 0)
            return err_set(e, WARM_EINVALID, "unexpected argument \"%s\"", argv[i]);
        int took = split_option(argv + i, argc - i, name, &value);
        if (strcmp(name, "config") != 0 && !config_has(name)) {
            const char *meant = config_meant(name);
            char option[64] = "";
            for (size_t k = 0; meant && meant[k] && k < sizeof option - 1; k++)
                option[k] = meant[k] == '_' ? '-' : meant[k];
            if (!meant)
                return err_set(e, WARM_EINVALID, "unknown option --%s (see warmd --help)", name);
            return err_set(e, WARM_EINVALID, "unknown option --%s: did you mean --%s?", name,
                           option);
        }
        if (took == 0)
            return err_set(e, WARM_EINVALID, "--%s needs a value", name);
        int code = 0;
        if (strcmp(name, "config") == 0)
            *file = value;
        else if (c)
            code = config_set(c, name, value, e);
        if (code)
            return code;
        i += took;
    }
    return 0;
}

/* Reads the settings: defaults, then the file, then the environment, then the options. */
static int read_settings(struct config *out, int argc, char **argv, struct err *e)
{
    char usual[PATH_MAX];
    const char *file = NULL;
    int code = config_init(out, e);
    if (code)
        return code;
    code = read_options(NULL, argc, argv, &file, e);
    if (code == 0 && !file && defaults_settings(usual, sizeof usual))
        file = usual;
    if (code == 0 && file && *file)
        code = config_read_file(out, file, e);
    if (code == 0)
        code = config_read_environment(out, e);
    if (code == 0)
        code = read_options(out, argc, argv, &file, e);
    if (code == 0)
        code = config_resolve(out, e);
    if (code == 0 && *out->metrics_listen)
        code = port_address(out->metrics_listen, &(struct sockaddr_storage){0}, e);
    if (code)
        config_close(out);
    return code;
}

static void tell_warnings(const struct config *c)
{
    for (size_t i = 0; i < c->n_warnings; i++)
        log_warning("%s", c->warnings[i]);
}

static void use_log_settings(const struct config *c)
{
    enum log_level level = LOG_LEVEL_INFO;
    log_level_from_name(c->log_level, &level); /* checked by config_set */
    log_set_level(level);
    enum log_format format = LOG_FORMAT_TEXT;
    log_format_from_name(c->log_format, &format); /* likewise */
    log_set_format(format);
}

static void set_budgets(const struct config *c)
{
    budget_set(BUDGET_connections, c->max_connections_per_user, 0);
}

static struct pool_limits pool_limits(const struct config *c)
{
    return (struct pool_limits){.jobs = (size_t)c->jobs,
                                .worker_memory = c->worker_memory,
                                .timeout_ms = c->compile_timeout_ms,
                                .idle_ms = c->worker_idle_ms};
}

/* Takes over the settings that may change while the daemon runs. */
static void take_settings(struct config *c, struct config *fresh)
{
#define TAKE(key, field)                                                                           \
    do {                                                                                           \
        c->field = fresh->field;                                                                   \
        c->origin[CONFIG_KEY_##key] = fresh->origin[CONFIG_KEY_##key];                             \
    } while (0)
#define TAKE_NUMBER(key, field)                                                                    \
    do {                                                                                           \
        if (c->field != fresh->field)                                                              \
            log_info("setting %s: %llu, was %llu", #field, (unsigned long long)fresh->field,       \
                     (unsigned long long)c->field);                                                \
        TAKE(key, field);                                                                          \
    } while (0)
    TAKE_NUMBER(max_size, max_size);
    TAKE_NUMBER(min_free, min_free);
    TAKE_NUMBER(quota, quota);
    TAKE_NUMBER(quota, quota_percent);
    TAKE_NUMBER(max_value, max_value);
    TAKE_NUMBER(jobs, jobs);
    TAKE_NUMBER(compile_timeout, compile_timeout_ms);
    TAKE_NUMBER(worker_memory, worker_memory);
    TAKE_NUMBER(worker_idle, worker_idle_ms);
    TAKE_NUMBER(idle_exit, idle_exit_ms);
    TAKE_NUMBER(verify_hits, verify_hits);
    TAKE_NUMBER(lease_timeout, lease_timeout_ms);
    TAKE_NUMBER(wait_timeout, wait_timeout_ms);
    TAKE_NUMBER(negative_ttl, negative_ttl_ms);
    TAKE_NUMBER(max_connections, max_connections);
    TAKE_NUMBER(max_connections_per_user, max_connections_per_user);
    char *level = c->log_level;
    TAKE(log_level, log_level);
    fresh->log_level = level;
    char *format = c->log_format;
    TAKE(log_format, log_format);
    fresh->log_format = format;
#undef TAKE_NUMBER
#undef TAKE
}

/* Sets the store's cap by what its file system has left, and says when that is less than max_size. */
static void look_at_room(void *arg)
{
    struct daemon *d = arg;
    struct store_stats stats;
    uint64_t total, left, most = d->config.max_size;
    if (!d->store || !room_of(d->config.store, &total, &left))
        return;
    store_stats(d->store, &stats);
    uint64_t cap = room_cap(most, d->config.min_free, stats.disk_bytes, left);
    uint64_t step = cap > d->cap ? cap - d->cap : d->cap - cap;
    if (step <= (cap == most ? 0 : ROOM_STEP))
        return;
    if (cap < most && (d->cap == most || !d->cap))
        log_warning(
            "the file system of %s has %llu MiB left, less than min_free: the store shrinks",
            d->config.store, (unsigned long long)(left >> 20));
    else if (cap == most && d->cap && d->cap < most)
        log_info("the file system of %s has room again: the store may have max_size",
                 d->config.store);
    d->cap = cap;
    store_set_caps(d->store, cap, d->config.quota < cap ? d->config.quota : cap);
}

/* Says which changed settings count at the next start only. */
static void tell_fixed(const struct config *c, const struct config *fresh)
{
    const struct {
        const char *name, *old, *now;
    } fixed[] = {{"socket", c->socket, fresh->socket},
                 {"store", c->store, fresh->store},
                 {"worker", c->worker, fresh->worker},
                 {"admin", c->admin, fresh->admin},
                 {"tier", c->tier, fresh->tier},
                 {"trust_group", c->trust_group, fresh->trust_group},
                 {"metrics_listen", c->metrics_listen, fresh->metrics_listen}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (strcmp(fixed[i].old, fixed[i].now) != 0)
            log_warning("setting %s: \"%s\" counts after a restart; it is \"%s\" until then",
                        fixed[i].name, fixed[i].now, fixed[i].old);
    bool same = c->n_nvrtc == fresh->n_nvrtc;
    for (size_t i = 0; same && i < c->n_nvrtc; i++)
        same = strcmp(c->nvrtc[i], fresh->nvrtc[i]) == 0;
    if (!same)
        log_warning("setting nvrtc: another list counts after a restart");
}

/* Reads the settings again at SIGHUP: sizes, limits and times change; files, sockets and compilers
 * stay. */
static void reload(struct daemon *d)
{
    struct config fresh;
    struct err e = {0};
    notify_send("RELOADING=1");
    if (read_settings(&fresh, d->argc, d->argv, &e) != 0) {
        log_error("the settings are not read again: %s", e.text);
    } else {
        struct pool_limits limits;
        tell_fixed(&d->config, &fresh);
        take_settings(&d->config, &fresh);
        tell_warnings(&fresh);
        char *file = d->config.file;
        d->config.file = fresh.file;
        fresh.file = file;
        config_close(&fresh);
        use_log_settings(&d->config);
        set_budgets(&d->config);
        limits = pool_limits(&d->config);
        if (d->pool)
            pool_set_limits(d->pool, &limits);
        d->cap = 0; /* set it again */
        look_at_room(d);
        log_info("settings read again");
    }
    notify_send("READY=1");
}

/* Raises the limit of descriptors: one for each connection, some for requests and answers, and some
 * for the rest. If fewer are allowed, connections have their part all the same. */
static void raise_descriptor_limit(struct config *c)
{
    struct rlimit limit;
    uint64_t in_flight = budget_total_limit(BUDGET_descriptors);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    uint64_t wanted = c->max_connections + in_flight + FDS_SPARE;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted)
        return;
    uint64_t rest = limit.rlim_cur > FDS_SPARE ? limit.rlim_cur - FDS_SPARE : 0;
    uint64_t left = rest > c->max_connections ? rest - c->max_connections : 0;
    in_flight = left > rest / 4 ? left : rest / 4;
    budget_set(BUDGET_descriptors, budget_limit(BUDGET_descriptors), in_flight ? in_flight : 1);
    log_info("%llu descriptors are allowed: connections that find none wait to be accepted",
             (unsigned long long)limit.rlim_cur);
}

/* ---- callbacks of the store's threads ---- */

static void on_store_wake(void *arg)
{
    struct daemon *d = arg;
    uv_async_send(&d->wake);
}

static void on_store_event(void *arg, const char *line)
{
    (void)arg;
    log_warning("store: %s", line);
}

static void on_wake(uv_async_t *wake)
{
    struct daemon *d = wake->data;
    if (d->service)
        service_poll(d->service);
}

static int recall(void *arg, const char *name, void *out, size_t cap, size_t *out_len)
{
    return store_meta_get(arg, name, out, cap, out_len);
}

static int remember(void *arg, const char *name, const void *data, size_t len)
{
    return store_meta_put(arg, name, data, len);
}

/* ---- stopping ---- */

static void on_handle_closed(uv_handle_t *handle) { (void)handle; }

static void on_pool_closed(void *arg)
{
    struct daemon *d = arg;
    assert(d->phase == PHASE_CLOSING);
    d->pool = NULL;
    /* Nothing uses the store any more: it commits its queue, and wakes nobody after that. */
    port_close(d->port);
    service_close(d->service);
    store_close(d->store);
    d->store = NULL;
    uv_close((uv_handle_t *)&d->wake, on_handle_closed);
    uv_close((uv_handle_t *)&d->stop_timer, on_handle_closed);
    if (d->is_watched)
        uv_close((uv_handle_t *)&d->turn, on_handle_closed);
    loop_timer_free(d->watchdog);
    loop_timer_free(d->room_timer);
    loop_timer_free(d->idle_timer);
    d->room_timer = d->idle_timer = NULL;
    for (size_t i = 0; i < sizeof daemon_signals / sizeof *daemon_signals; i++)
        uv_close((uv_handle_t *)&d->signals[i], on_handle_closed);
}

static void on_server_closed(void *arg)
{
    struct daemon *d = arg;
    assert(d->phase == PHASE_CLOSING && service_is_idle(d->service));
    pool_close(d->pool, on_pool_closed, d);
}

static void enter(struct daemon *d, enum phase phase, uint64_t limit_ms)
{
    assert(phase == d->phase + 1); /* phases never go back, and none is left out */
    d->phase = phase;
    d->phase_ends_ms = uv_now(&d->loop) + limit_ms;
}

/* Enters the next phase of the end, when it is due. An answer is quiet once its client has taken
 * it. */
static void on_stop_tick(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    bool late = uv_now(&d->loop) >= d->phase_ends_ms;
    if (d->phase == PHASE_DRAINING && (late || service_is_drained(d->service))) {
        service_shutdown(d->service);
        enter(d, PHASE_ENDING, END_MS);
    } else if (d->phase == PHASE_ENDING && service_is_idle(d->service) &&
               (late || (server_is_quiet(d->server) && service_owes_nothing(d->service)))) {
        enter(d, PHASE_CLOSING, 0);
        uv_timer_stop(timer);
        server_close(d->server, on_server_closed, d);
    }
}

static void stop(struct daemon *d, const char *why)
{
    if (d->phase != PHASE_RUNNING)
        return;
    log_info("stopping: %s", why);
    notify_send("STOPPING=1\nSTATUS=ending what is in flight");
    server_stop_accepting(d->server);
    service_drain(d->service);
    enter(d, PHASE_DRAINING, DRAIN_MS);
    uv_timer_start(&d->stop_timer, on_stop_tick, 0, STOP_TICK_MS);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    if (signum == SIGHUP)
        reload(handle->data);
    else
        stop(handle->data, strsignal(signum));
}

static void on_idle_tick(void *arg)
{
    struct daemon *d = arg;
    uint64_t now = uv_now(&d->loop);
    if (server_count(d->server))
        d->last_seen_ms = now;
    else if (d->config.idle_exit_ms && now - d->last_seen_ms >= d->config.idle_exit_ms)
        stop(d, "no client for idle_exit");
    else if (!listener_is_there(&d->socket))
        stop(d, "its socket was removed, and no client is left");
}

static void on_watchdog(void *arg)
{
    (void)arg;
    notify_send("WATCHDOG=1");
}

/* Starts again at once. A damaged index, read through a memory map, may have caused the signal: the store is
 * marked as suspect, and the start checks it. */
static void on_crash(int signum)
{
    store_mark_suspect();
    if (!watch_was_asked())
        restart_now();
    signal(signum, SIG_DFL);
    raise(signum);
}

/* Starts again: a thread is in an endless loop. The watch's thread calls it. */
static void on_stuck(const char *who)
{
    log_error("%s is in an endless loop", who);
    store_mark_suspect();
    restart_now();
    _exit(1);
}

static void on_late(void)
{
    log_error("it was told to end, and does not: it ends without what it would still write");
    store_mark_suspect();
    _exit(1);
}

static uint64_t writer_ms(void *arg) { return store_writer_ms(arg); }

static void on_turn(uv_prepare_t *prepare)
{
    (void)prepare;
    watch_beat();
}

/* libuv's handlers of SIGTERM and SIGINT, which only write to a pipe: a loop that hangs reads no pipe. */
static struct sigaction usual[2];

static void on_end(int signum)
{
    watch_asked();
    usual[signum == SIGINT].sa_handler(signum);
}

/* Begins to watch the loop and the store's writer. */
static void watch(struct daemon *d)
{
    uv_prepare_init(&d->loop, &d->turn);
    uv_prepare_start(&d->turn, on_turn);
    uv_unref((uv_handle_t *)&d->turn);
    d->is_watched = true;
    static const int ends[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        if (sigaction(ends[i], NULL, &usual[i]) != 0)
            continue;
        struct sigaction ours = usual[i];
        ours.sa_handler = on_end;
        sigaction(ends[i], &ours, NULL);
    }
    watch_start(&(struct watch_config){.stuck_ms = STUCK_MS,
                                       .end_ms = LATE_MS,
                                       .other_ms = writer_ms,
                                       .other_stuck_ms = WRITER_STUCK_MS,
                                       .arg = d->store,
                                       .on_stuck = on_stuck,
                                       .on_late = on_late});
}

/* ---- starting ---- */

static int start_loop(struct daemon *d, struct err *e)
{
    int rc = uv_loop_init(&d->loop);
    if (rc == 0 && (rc = uv_async_init(&d->loop, &d->wake, on_wake)) != 0)
        uv_loop_close(&d->loop);
    if (rc)
        return err_set(e, WARM_EIO, "cannot make an event loop: %s", uv_strerror(rc));
    uv_timer_init(&d->loop, &d->stop_timer);
    d->wake.data = d->stop_timer.data = d;
    for (size_t i = 0; i < sizeof daemon_signals / sizeof *daemon_signals; i++) {
        uv_signal_init(&d->loop, &d->signals[i]);
        d->signals[i].data = d;
        uv_signal_start(&d->signals[i], on_signal, daemon_signals[i]);
    }
    d->has_handles = true;
    return 0;
}

static int start_store(struct daemon *d, struct err *e)
{
    struct store_config config = {.dir = d->config.store,
                                  .max_bytes = d->config.max_size,
                                  .quota_bytes = d->config.quota,
                                  .commit_delay_ms = COMMIT_DELAY_MS,
                                  .async_check_bytes = SERVICE_CHECK_MAX,
                                  .on_wake = on_store_wake,
                                  .on_wake_arg = d,
                                  .on_event = on_store_event,
                                  .on_event_arg = d};
    int code = store_open(&d->store, &config, e);
    if (code == 0)
        old_keys_begin(d->store);
    return code;
}

static int start_pool(struct daemon *d, struct err *e)
{
    struct pool_config config = {.spawner = d->spawner,
                                 .loop = &d->loop,
                                 .worker_path = d->config.worker,
                                 .nvrtc = d->config.nvrtc,
                                 .n_nvrtc = d->config.n_nvrtc,
                                 .nvrtc_from = d->config.nvrtc_from,
                                 .n_nvrtc_from = d->config.n_nvrtc_from,
                                 .limits = pool_limits(&d->config),
                                 .recall = recall,
                                 .remember = remember,
                                 .memory_arg = d->store};
    return pool_open(&d->pool, &config, e);
}

/* Opens the administrator's socket. Without it the daemon serves all the same. */
static void open_admin_socket(struct daemon *d)
{
    char beside[sizeof d->socket.path];
    const char *path = d->config.admin;
    struct err e = {0};
    if (strcmp(path, "none") == 0 || (!*path && !listener_is_shared(&d->socket)))
        return;
    if (!*path && !conn_admin_path(d->socket.path, beside, sizeof beside))
        err_set(&e, WARM_EINVALID, "the path of the administrator's socket is too long");
    else
        d->has_admin = listener_open_admin(&d->admin, *path ? path : beside, &e) == 0;
    if (d->has_admin && listener_listen(&d->admin, &e) != 0) {
        listener_shut(&d->admin);
        d->has_admin = false;
    }
    if (e.code)
        log_warning("nobody can list or evict what other users have: %s", e.text);
}

static int start_serving(struct daemon *d, struct err *e)
{
    struct service_config service = {.loop = &d->loop,
                                     .config = &d->config,
                                     .store = d->store,
                                     .pool = d->pool,
                                     .spawner = d->spawner,
                                     .group_of = torch_store_group};
    int code = service_new(&d->service, &service, e);
    if (code == 0)
        code = listener_open(&d->socket, d->config.socket, e);
    if (code)
        return code;
    d->has_socket = true;
    open_admin_socket(d);
    code = listener_listen(&d->socket, e); /* last: it says that the daemon has started */
    if (code)
        return code;
    static const struct protocol *const protocols[] = {&native_protocol, &http_protocol,
                                                       &redis_protocol, NULL};
    struct server_config server = {.loop = &d->loop,
                                   .config = &d->config,
                                   .service = d->service,
                                   .listener_fd = d->socket.fd,
                                   .admin_fd = d->has_admin ? d->admin.fd : -1,
                                   .is_shared = listener_is_shared(&d->socket),
                                   .trust_group = d->trust_group,
                                   .protocols = protocols};
    code = server_start(&d->server, &server, e);
    if (code == 0) {
        struct err why = {0}; /* without the port the daemon serves all the same */
        if (*d->config.metrics_listen &&
            port_open(&d->port, &d->loop, d->service, d->config.metrics_listen, &why) != 0)
            log_warning("there are no metrics on a port: %s", why.text);
    }
    return code;
}

static void say_ready(struct daemon *d)
{
    uint64_t watchdog_ms = notify_watchdog_ms();
    d->watchdog = watchdog_ms ? loop_timer_new(&d->loop, on_watchdog, d) : NULL;
    if (d->watchdog)
        loop_timer_start(d->watchdog, watchdog_ms, watchdog_ms);
    d->room_timer = loop_timer_new(&d->loop, look_at_room, d);
    if (d->room_timer)
        loop_timer_start(d->room_timer, ROOM_MS, ROOM_MS);
    look_at_room(d);
    d->last_seen_ms = uv_now(&d->loop);
    d->idle_timer = loop_timer_new(&d->loop, on_idle_tick, d);
    if (d->idle_timer)
        loop_timer_start(d->idle_timer, IDLE_TICK_MS, IDLE_TICK_MS);
    if (restart_was())
        waitpid(-1, NULL, WNOHANG); /* the spawner of the process that failed */
    fprintf(stderr, "warmd: ready on %s\n", d->socket.path);
    notify_send("READY=1\nSTATUS=serving on %s", d->socket.path);
}

/* Frees everything that exists, in reverse: after a start that failed half-way, and after the
 * loop. */
static void tear_down(struct daemon *d)
{
    server_free(d->server);
    service_free(d->service);
    if (d->store)
        store_close(d->store);
    if (d->has_socket)
        listener_shut(&d->socket);
    if (d->has_admin)
        listener_shut(&d->admin);
    if (d->has_handles && d->phase == PHASE_CLOSING)
        uv_loop_close(&d->loop);
    spawner_stop(d->spawner);
    config_close(&d->config);
}

/* Asks for short time slices for the loop thread: when a request wakes it up, it need not wait until a compile has
 * used up its own slice. Linux before 6.12 ignores it. Later threads and processes have the usual slice. */
static void take_short_slices(void)
{
    struct { /* struct sched_attr of linux/sched/types.h, which newer C libraries also have */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attr = {.size = sizeof attr,
              .policy = SCHED_OTHER,
              .flags = SCHED_FLAG_RESET_ON_FORK,
              .nice = getpriority(PRIO_PROCESS, 0),
              .runtime_ns = LOOP_SLICE_NS};
    if (sched_getscheduler(0) == SCHED_OTHER) /* else an administrator chose another */
        syscall(SYS_sched_setattr, 0, &attr, 0);
}

static int run(struct daemon *d)
{
    struct err e = {0};
    if (spawner_start(&d->spawner, &e) != 0 ||
        read_settings(&d->config, d->argc, d->argv, &e) != 0) {
        fprintf(stderr, "warmd: %s\n", e.text);
        return e.code == WARM_EINVALID ? 2 : 1;
    }
    use_log_settings(&d->config);
    set_budgets(&d->config);
    signal(SIGPIPE, SIG_IGN);
    struct sigaction crash = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &crash, NULL);
    log_open_journal(LOG_JOURNAL);
    tell_warnings(&d->config);
    raise_descriptor_limit(&d->config);
    int code = peer_find_group(d->config.trust_group, &d->trust_group, &e);
    if (code == 0)
        code = start_loop(d, &e);
    if (code == 0)
        code = start_store(d, &e);
    if (code == 0)
        code = start_pool(d, &e);
    if (code == 0)
        code = start_serving(d, &e);
    if (code) {
        fprintf(stderr, "warmd: %s\n", e.text);
    } else {
        say_ready(d);
        watch(d);
        take_short_slices();
        uv_run(&d->loop, UV_RUN_DEFAULT);
    }
    tear_down(d);
    return code ? 1 : 0;
}

/* Reads a file of settings and nothing else. Returns the exit status. */
/* Checks a file, argv[0], then the options after it. */
static int check_config(int argc, char **argv)
{
    struct config c;
    struct err e = {0};
    const char *file = NULL;
    int code = config_init(&c, &e);
    if (code == 0) {
        code = config_read_file(&c, argv[0], &e);
        if (code == 0)
            code = read_options(&c, argc, argv, &file, &e);
        for (size_t i = 0; code == 0 && i < c.n_warnings; i++)
            fprintf(stderr, "warmd: %s\n", c.warnings[i]);
        config_close(&c);
    }
    if (code)
        fprintf(stderr, "warmd: %s\n", e.text);
    return code ? 2 : 0;
}

/* Reads a whole store and changes nothing. Returns the exit status: 1 for a finding. */
static int check_store(const char *dir)
{
    struct store_findings found;
    struct err e = {0};
    if (config_check_store(dir, &e) != 0 || store_check(dir, &found, &e) != 0) {
        fprintf(stderr, "warmd: %s\n", e.text);
        return 1;
    }
    if (*found.fault)
        printf("%s: the index is damaged (%s): warmd rebuilds it from the files\n", dir,
               found.fault);
    else if (!found.is_known)
        printf("%s: format %llu is of another version: warmd sets the index aside and keeps large "
               "values alone\n",
               dir, (unsigned long long)found.format);
    else
        printf("%s: format %llu, %llu entries, %llu bytes, %llu unreadable\n", dir,
               (unsigned long long)found.format, (unsigned long long)found.n_entries,
               (unsigned long long)found.n_bytes, (unsigned long long)found.n_unreadable);
    return *found.fault || !found.is_known || found.n_unreadable;
}

int main(int argc, char **argv)
{
    static struct daemon d;
    restart_prepare(argv);
    expect_abort();
    if (argc >= 3 && strcmp(argv[1], "--check-config") == 0)
        return check_config(argc - 2, argv + 2);
    if (argc == 3 && strcmp(argv[1], "--check-store") == 0)
        return check_store(argv[2]);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("warmd %s\n", WARM_VERSION);
            return 0;
        }
    }
    d.argc = argc;
    d.argv = argv;
    return run(&d);
}

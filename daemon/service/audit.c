/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.c - compiles the job of a few hits once more, and compares the bytes with the stored ones.
 *
 * The happy path:
 *   1. one of `verify_hits` hits on a result that read no files says that an AUDIT is welcome;
 *   2. the client, which has its value, sends the job again; it waits for nothing;
 *   3. a pool thread computes the job's keys: one of them must be that of the entry;
 *   4. when no compile waits or runs, a worker compiles it;
 *   5. the bytes are those of the entry: a pool thread compares large ones.
 * If they differ, the key lacks something that decides the result, or one of the two compiles went wrong.
 * That is an alarm in the log and in STATS, and the entry is set aside (quarantined). The next client
 * that asks makes it anew.
 *
 * Any other end has no effect: the entry has gone, the compile failed or asked for a file, there is
 * another audit. Results with debug information are left out: not every compiler repeats their bytes.
 *
 * compile_request.c asks audit_wanted for each hit; native.c passes the job on.
 *
 * Thread: loop thread, but for audit_read and audit_compare. Memory: one audit at a time.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/service/compile_request.h"
#include "daemon/service/internal.h"
#include "keygen/cuda/job.h"
#include "keygen/cuda/options.h"

#define LOOK_MS 500u /* between two checks that the compilers are idle */
#define COMPARE_PIECE (64u << 10)
#define AUDIT_RARE (1u << 30)     /* hits: almost never */
#define GIVE_UP_MS (600u * 1000u) /* how long an audit waits for idle compilers */

struct audit {
    struct service *service;
    uv_work_t work;
    struct loop_timer *tick;
    uint64_t begun_ms;
    const struct toolchain *toolchain;
    struct store_id id; /* of the entry */
    uint32_t uid;
    int job_fd;
    uint64_t job_len;
    struct pool_job *running;
    bool cancelled;
    /* of the comparison: */
    int stored_fd, made_fd; /* -1: there is none */
    uint64_t len;
    struct key check; /* of the entry that is compared */
    bool differs;
    /* of the pool thread: */
    int code;
    struct key graphs[2]; /* exact, shared */
    struct proof proofs[2];
    size_t n_keys;
    char hardware[WARM_HARDWARE_MAX];
};

/* Returns the number of hits until the next audit: one_of on average, and unpredictable. */
static uint32_t hits_until_next(uint64_t one_of)
{
    return arc4random_uniform(one_of < AUDIT_RARE ? 2 * (uint32_t)one_of - 1 : AUDIT_RARE);
}

void audit_init(struct service *s)
{
    uint64_t one_of = s->config.config->verify_hits;
    s->n_before_audit = one_of ? hits_until_next(one_of) : 0;
}

bool audit_wanted(struct service *s, const struct call *call, const struct store_row *row)
{
    static const struct key none;
    uint64_t one_of = s->config.config->verify_hits;
    if (!one_of || s->audit || row->kind != STORE_CUBIN ||
        !key_equal(&call->compile->checked, &none) || s->n_before_audit--)
        return false;
    s->n_before_audit = hits_until_next(one_of);
    return true;
}

static void audit_free(struct audit *a)
{
    assert(a->service->audit == a);
    a->service->audit = NULL;
    loop_timer_free(a->tick);
    fd_close_later(a->job_fd);
    if (a->stored_fd >= 0)
        fd_close_later(a->stored_fd);
    if (a->made_fd >= 0)
        fd_close_later(a->made_fd);
    free(a);
}

/* Maps the bytes of a descriptor; NULL if that fails. */
static void *map_bytes(int fd, uint64_t len)
{
    void *data = len ? mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    return data == MAP_FAILED ? NULL : data;
}

/* ---- the comparison ---- */

static void audit_alarm(struct service *s, const struct store_row *row)
{
    char key[WARM_KEY_TEXT];
    key_to_text(&row->id.key, key);
    stats_add(&s->stats, STATS_audit_differences, row->kind, 1);
    log_error("ALARM: %s (%.*s, for uid %u) is not what its source compiles to: set aside. Run "
              "`warm doctor`, and check memory and disk",
              key, (int)row->label.len, (const char *)row->label.data, (unsigned)row->maker);
    store_refuse(s->config.store, &row->id, &row->check);
}

/* Compares the two files, which have equal lengths. Pool thread. */
static void audit_compare(uv_work_t *work)
{
    struct audit *a = work->data;
    uint8_t stored[COMPARE_PIECE], made[COMPARE_PIECE];
    a->code = 0;
    for (uint64_t at = 0; at < a->len && !a->code && !a->differs; at += sizeof made) {
        size_t n = a->len - at < sizeof made ? (size_t)(a->len - at) : sizeof made;
        a->code = file_read_at(a->stored_fd, stored, n, at, NULL);
        if (!a->code)
            a->code = file_read_at(a->made_fd, made, n, at, NULL);
        a->differs = !a->code && memcmp(stored, made, n) != 0;
    }
}

static void on_compared(uv_work_t *work, int status)
{
    struct audit *a = work->data;
    struct store_row row;
    (void)status;
    if (!a->code)
        stats_add(&a->service->stats, STATS_audits, STORE_CUBIN, 1);
    if (a->differs && store_peek(a->service->config.store, &a->id, &row, NULL) == 0 &&
        key_equal(&row.check, &a->check)) /* the entry may have been replaced meanwhile */
        audit_alarm(a->service, &row);
    audit_free(a);
}

/* Compares the compiled bytes with the entry. True if a pool thread does that, and ends the
 * audit. */
static bool audit_compare_begin(struct audit *a, const struct pool_result *done)
{
    struct service *s = a->service;
    struct store_value v;
    uint8_t made[ARTIFACT_INLINE_MAX];
    if (done->status || !done->keep || done->nvrtc_status || done->n_paths ||
        store_get(s->config.store, &a->id, &v, NULL) != 0 || v.row.kind != STORE_CUBIN)
        return false;
    bool equal_len = v.row.len == done->len;
    if (equal_len && !v.data) {
        a->len = done->len;
        a->check = v.row.check;
        a->stored_fd = fcntl(v.fd, F_DUPFD_CLOEXEC, 3);
        a->made_fd = fcntl(done->fd, F_DUPFD_CLOEXEC, 3);
        return a->stored_fd >= 0 && a->made_fd >= 0 &&
               uv_queue_work(s->config.loop, &a->work, audit_compare, on_compared) == 0;
    }
    if (equal_len &&
        (v.row.len > sizeof made || file_read_start(done->fd, made, (size_t)done->len, NULL) != 0))
        return false;
    stats_add(&s->stats, STATS_audits, v.row.kind, 1);
    if (!equal_len || memcmp(v.data, made, (size_t)done->len) != 0)
        audit_alarm(s, &v.row);
    return false;
}

static void on_compiled(void *arg, struct pool_result *done)
{
    struct audit *a = arg;
    a->running = NULL;
    bool goes_on = audit_compare_begin(a, done);
    if (done->status == 0)
        close(done->fd);
    if (!goes_on)
        audit_free(a);
}

/* ---- the compile ---- */

static void audit_look(void *arg)
{
    struct audit *a = arg;
    struct service *s = a->service;
    struct pool_stats c;
    pool_stats(s->config.pool, &c);
    if (a->cancelled || s->stopping || service_clock_ms(s) - a->begun_ms > GIVE_UP_MS) {
        audit_free(a);
        return;
    }
    if (c.n_workers || c.n_queued) {
        loop_timer_start(a->tick, LOOK_MS, 0);
        return;
    }
    struct pool_request request = {.toolchain = a->toolchain,
                                   .job_fd = a->job_fd,
                                   .job_len = a->job_len,
                                   .channel_fd = -1,
                                   .uid = a->uid,
                                   .cb = on_compiled,
                                   .arg = a};
    if (pool_start(s->config.pool, &request, &a->running, NULL))
        audit_free(a);
}

/* True if the job is the entry's: by its exact key, or by its shared one. */
static bool is_of_entry(const struct audit *a)
{
    struct store_row row;
    if (store_peek(a->service->config.store, &a->id, &row, NULL) != 0)
        return false;
    for (size_t i = 0; i < a->n_keys; i++) {
        struct address address = {.compiler = a->toolchain->id, .graph = a->graphs[i]};
        memcpy(address.hardware, a->hardware, sizeof address.hardware);
        struct key key = address_key(&address);
        if (key_equal(&key, &a->id.key) && proof_equal(&row.proof, &a->proofs[i]))
            return true;
    }
    return false;
}

/* ---- the job ---- */

static int read_keys(struct audit *a, const struct job *job)
{
    struct options options;
    unsigned version = (unsigned)(a->toolchain->major * 100 + a->toolchain->minor);
    if (job->language != JOB_CUDA ||
        options_parse(OPTIONS_NVRTC, 0, job->options, job->n_options, &options, NULL))
        return WARM_EUNSUPPORTED;
    int code = options.debug ? WARM_EUNSUPPORTED : 0;
    options_close(&options);
    if (!code)
        code = job_key(job, a->hardware, &a->graphs[0], &a->proofs[0], NULL);
    if (!code)
        a->n_keys = job_shared_key(job, version, &a->graphs[1], &a->proofs[1], NULL) == 0 ? 2 : 1;
    return code;
}

/* Computes the keys of the job. Pool thread. */
static void audit_read(uv_work_t *work)
{
    struct audit *a = work->data;
    struct job job;
    void *bytes = map_bytes(a->job_fd, a->job_len);
    a->code = bytes ? job_decode(bytes, a->job_len, &job, NULL) : WARM_ENOMEM;
    if (!a->code) {
        a->code = read_keys(a, &job);
        job_close(&job);
    }
    if (bytes)
        munmap(bytes, a->job_len);
}

static void on_read(uv_work_t *work, int status)
{
    struct audit *a = work->data;
    (void)status;
    if (a->code || !is_of_entry(a))
        audit_free(a);
    else
        audit_look(a);
}

void service_audit(struct service *s, const struct peer *peer, const struct wire_audit *ask)
{
    struct audit *a = s->audit || s->stopping ? NULL : calloc(1, sizeof *a);
    if (!a)
        return;
    *a = (struct audit){.service = s,
                        .begun_ms = service_clock_ms(s),
                        .id = {STORE_MADE_HERE, ask->key},
                        .uid = peer->uid,
                        .job_fd = -1,
                        .stored_fd = -1,
                        .made_fd = -1,
                        .job_len = ask->job.len};
    a->work.data = a;
    a->tick = loop_timer_new(s->config.loop, audit_look, a);
    if (!a->tick || memfd_from_bytes(ask->job.data, ask->job.len, &a->job_fd, NULL) ||
        pool_find(s->config.pool, ask->compiler, peer->uid, &a->toolchain, NULL) ||
        uv_queue_work(s->config.loop, &a->work, audit_read, on_read)) {
        loop_timer_free(a->tick);
        if (a->job_fd >= 0)
            close(a->job_fd);
        free(a);
        return;
    }
    s->audit = a;
}

void audit_shutdown(struct service *s)
{
    struct audit *a = s->audit;
    if (!a)
        return;
    a->cancelled = true;
    if (a->running)
        pool_cancel(s->config.pool, a->running);
    else if (loop_timer_runs(a->tick))
        audit_free(a);
}

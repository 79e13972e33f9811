/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.c - compiles the job of a few hits once more, and compares the bytes with the stored ones.
 *
 * The happy path:
 *   1. one of `verify_hits` hits on a result that read no files says that an AUDIT is welcome;
 *   2. the client, which has its value, sends the job again; it waits for nothing;
 *   3. a pool thread computes the job's keys: one of them must be that of the entry;
 *   4. when no compile waits or runs, a worker compiles it;
 *   5. a pool thread hashes the bytes: their digest is that of the entry.
 * If they differ, the key lacks something that decides the result, or one of the two compiles went wrong.
 * That is an alarm in the log and in STATS, and the entry is set aside (quarantined). The next client
 * that asks makes it anew.
 *
 * Any other end has no effect: the entry has gone, the compile failed or asked for a file, there is
 * another audit. Results with debug information are left out: not every compiler repeats their bytes.
 *
 * ask.c asks audit_wanted for each hit; native.c passes the job on.
 *
 * Thread: loop thread, but for audit_read and audit_hash. Memory: one audit at a time.
 */
#include <assert.h>
#include <stddef.h>
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

#define LOOK_MS 500u              /* between two checks that the compilers are idle */
#define AUDIT_RARE (1u << 30)     /* hits: almost never */
#define GIVE_UP_MS (600u * 1000u) /* how long an audit waits for idle compilers */

struct audit {
    struct service *service;
    struct service_work work;
    struct loop_timer *tick;
    uint64_t begun_ms;
    const struct toolchain *toolchain;
    struct store_id id; /* of the entry */
    uint32_t uid;
    int job_fd;
    uint64_t job_len;
    struct pool_job *running;
    bool cancelled;
    struct artifact *made;
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

bool audit_wanted(const struct ask *ask, const struct store_row *row)
{
    static const struct key none;
    struct service *s = ask->service;
    uint64_t one_of = s->config.config->verify_hits;
    if (!one_of || s->audit || row->kind != STORE_CUBIN || !ask->compile || ask->ops->is_child ||
        !key_equal(&ask->compile->checked, &none) || s->n_before_audit--)
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
    artifact_unref(a->made);
    free(a);
}

static struct audit *audit_of(struct service_work *work)
{
    return (struct audit *)(void *)((char *)work - offsetof(struct audit, work));
}

/* ---- the comparison ---- */

static void audit_hash(struct service_work *work)
{
    struct audit *a = audit_of(work);
    a->code = artifact_hash(a->made, NULL);
}

/* Compares the digest of the compiled bytes with the entry's. */
static void on_hashed(struct service_work *work)
{
    struct audit *a = audit_of(work);
    struct service *s = a->service;
    struct store_row row;
    if (!a->code && store_peek(s->config.store, &a->id, &row, NULL) == 0 &&
        row.kind == STORE_CUBIN) {
        stats_add(&s->stats, STATS_audits, row.kind, 1);
        if (row.len != a->made->len || !key_equal(&row.check, &a->made->check)) {
            char key[WARM_KEY_TEXT];
            key_to_text(&row.id.key, key);
            stats_add(&s->stats, STATS_audit_differences, row.kind, 1);
            log_error(
                "ALARM: %s (%.*s, for uid %u) is not what its source compiles to: set aside. Run "
                "`warm doctor`, and check memory and disk",
                key, (int)row.label.len, (const char *)row.label.data, (unsigned)row.maker);
            store_refuse(s->config.store, &row.id, &row.check);
        }
    }
    audit_free(a);
}

static void on_compiled(void *arg, struct pool_result *done)
{
    struct audit *a = arg;
    bool is_sound = done->keep && !done->nvrtc_status && !done->n_paths;
    a->running = NULL;
    assert(a->service->audit == a);
    if (done->status || artifact_from_fd(done->fd, done->len, NULL, &a->made, NULL) || !is_sound ||
        !service_work_start(a->service, &a->work, audit_hash, on_hashed))
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
static void audit_read(struct service_work *work)
{
    struct audit *a = audit_of(work);
    struct job job;
    void *bytes = mmap(NULL, a->job_len, PROT_READ, MAP_PRIVATE, a->job_fd, 0);
    a->code = bytes != MAP_FAILED ? job_decode(bytes, a->job_len, &job, NULL) : WARM_ENOMEM;
    if (!a->code) {
        a->code = read_keys(a, &job);
        job_close(&job);
    }
    if (bytes != MAP_FAILED)
        munmap(bytes, a->job_len);
}

static void on_read(struct service_work *work)
{
    struct audit *a = audit_of(work);
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
                        .job_len = ask->job.len};
    a->tick = loop_timer_new(s->config.loop, audit_look, a);
    if (!a->tick || memfd_from_bytes(ask->job.data, ask->job.len, &a->job_fd, NULL) ||
        pool_find(s->config.pool, ask->compiler, peer->uid, &a->toolchain, NULL) ||
        !service_work_start(s, &a->work, audit_read, on_read)) {
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool.c - the life of the worker pool with real NVRTC: deaths, deadlines, clients that vanish,
 * slots, the sandbox from outside.
 *
 * Needs a toolchain, see tests/support/pool.h.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "daemon/process/log.h"
#include "tests/support/pool.h"
#include "tests/support/pool_reference.h"
#include "tests/support/support.h"
#include "tests/support/warmd.h"

TestSuite(pool, .timeout = 300);

Test(pool, compiles_a_kernel)
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

Test(pool, a_log_has_no_time)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct ask a = {.source = SAXPY, .options = {{"-arch=sm_90", "-Xptxas=-v"}}};
    struct outcome o;
    ask_run(&r, &a, &o);
    char *log = outcome_log(&o);
    cr_expect_not_null(strstr(log, "registers"), "%s", log);
    cr_expect_null(strstr(log, " ms"), "%s", log);
    cr_expect(o.keep);
    free(log);
    outcome_close(&o);
    rig_stop(&r);
}

/* ---- deaths ---- */

static bool has_one_worker(void *pids) { return worker_pids(pids) == 1; }
static bool has_no_server(void *pids) { return server_pids(pids) == 0; }

static bool was_asked(void *arg) { return ((struct header_server *)arg)->n_asked >= 1; }
static bool was_asked_again(void *arg) { return ((struct header_server *)arg)->n_asked >= 2; }

/* A compile that keeps its slot: its client answers no question, or none before the gate opens. */
struct held {
    struct header_server server;
    struct ask ask;
    struct outcome outcome;
    sem_t gate;
};

/* Makes the compile of a source that includes h.h. */
static void held_make(struct rig *r, struct held *h, enum manner manner)
{
    free(in_dir(r, "h.h", "#define H 1\n"));
    *h = (struct held){.server = {.manner = manner, .root = r->dir}};
    sem_init(&h->gate, 0, 0);
    h->server.gate = manner == SERVES ? &h->gate : NULL;
    h->ask = (struct ask){
        .source = "#include \"h.h\"\n" SAXPY, .options = {{"-arch=sm_90"}}, .server = &h->server};
}

/* Starts the compile, and waits for its first question. */
static void held_start(struct rig *r, struct held *h, enum manner manner)
{
    held_make(r, h, manner);
    ask_start(r, &h->ask, &h->outcome);
    run_until_condition(r, was_asked, &h->server);
}

/* Starts a user's compile, which may have to wait for a slot. */
static void held_start_for(struct rig *r, struct held *h, uint32_t uid)
{
    held_make(r, h, SERVES);
    h->ask.uid = uid;
    ask_start(r, &h->ask, &h->outcome);
}

/* Opens the gate, and waits for the end of the compile, which must work. */
static void held_end(struct rig *r, struct held *h)
{
    for (int i = 0; i < 100; i++)
        sem_post(&h->gate);
    ask_finish(r, &h->ask, &h->outcome);
    cr_assert_eq(h->outcome.status, 0, "%s", h->outcome.text);
}

/* Does the same, and frees the outcome. */
static void held_close(struct rig *r, struct held *h)
{
    held_end(r, h);
    outcome_close(&h->outcome);
}

static void kill_all(size_t (*find)(pid_t out[16]))
{
    pid_t pids[16];
    size_t n = find(pids);
    cr_assert_gt(n, 0u);
    for (size_t i = 0; i < n; i++)
        kill(pids[i], SIGKILL);
}

Test(pool, tries_again_when_a_worker_is_killed_in_mid_compile)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct held held;
    held_start(&r, &held, SERVES);
    kill_all(worker_pids);
    held_end(&r, &held);
    cr_assert_eq(held.outcome.nvrtc_status, 0);
    struct pool_stats stats;
    pool_stats(r.pool, &stats);
    cr_assert_eq(stats.n_crashes, 1u);
    cr_assert_eq(stats.n_compiles, 1u);
    size_t want_len, got_len;
    char *want = reference(&r, versions[0], &held.ask, &want_len);
    char *got = outcome_form(&held.outcome, &got_len);
    cr_assert(want_len == got_len && memcmp(want, got, got_len) == 0);
    free(want);
    free(got);
    outcome_close(&held.outcome);
    rig_stop(&r);
}

Test(pool, gives_up_when_a_second_worker_dies_too)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct held held;
    held_start(&r, &held, SILENT);
    kill_all(worker_pids);
    run_until_condition(&r, was_asked_again, &held.server);
    kill_all(worker_pids);
    ask_finish(&r, &held.ask, &held.outcome);
    cr_assert_eq(held.outcome.status, WARM_ECRASHED);
    cr_assert(strstr(held.outcome.text, "signal 9"), "%s", held.outcome.text);
    outcome_close(&held.outcome);
    expect_saxpy(&r);
    rig_stop(&r);
}

/* Sends descriptors that nobody receives, as the user of a pool's workers: more than one of these may have open. Returns the
 * socket that has them. */
static int descriptors_on_their_way(void)
{
    int pair[2], status;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct passwd *own = getpwnam("warm");
        uid_t uid = geteuid() ? geteuid() : own ? own->pw_uid : 65534;
        bool ok = setresuid(uid, uid, uid) == 0;
        for (int i = 0; ok && i < 40; i++)
            ok = packet_send(pair[1], "x", 1, pair, 2) == 0;
        _exit(!ok);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
    close(pair[1]);
    return pair[0];
}

static bool is_past(void *time_ms) { return clock_now_ms() >= *(uint64_t *)time_ms; }

Test(pool, an_answer_waits_while_many_descriptors_are_on_their_way)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    int way = descriptors_on_their_way();
    struct ask a = {.source = SAXPY, .options = {{"-arch=sm_90"}}};
    struct outcome o;
    ask_start(&r, &a, &o);
    uint64_t until = clock_now_ms() + 2000;
    run_until_condition(&r, is_past, &until);
    cr_expect_not(o.finished);
    close(way);
    ask_finish(&r, &a, &o);
    struct pool_stats stats;
    pool_stats(r.pool, &stats);
    cr_assert_eq(o.status, 0, "%s", o.text);
    cr_assert_eq(stats.n_crashes, 0u);
    outcome_close(&o);
    rig_stop(&r);
}

Test(pool, an_idle_fork_server_that_dies_costs_nothing)
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

Test(pool, tries_again_when_a_fork_server_dies_with_its_workers)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct held held;
    pid_t worker[16];
    held_start(&r, &held, SERVES);
    run_until_condition(&r, has_one_worker, worker);
    kill_all(server_pids);
    for (int tries = 0; kill(worker[0], 0) == 0; tries++) {
        cr_assert_lt(tries, 2000, "a worker outlived its fork server");
        poll(NULL, 0, 5);
    }
    held_close(&r, &held);
    rig_stop(&r);
}

Test(pool, a_stopped_process_holds_nobody)
{
    NEEDS_TOOLCHAIN();
    bool (*const is_one[])(void *pids) = {has_one_worker, has_one_server};
    for (size_t i = 0; i < 2; i++) {
        struct rig r;
        struct held held;
        pid_t pids[16];
        rig_start(&r);
        log_set_level(0);
        held_start(&r, &held, SERVES);
        run_until_condition(&r, is_one[i], pids);
        kill(pids[0], SIGSTOP);
        uint64_t began_ms = uv_hrtime() / 1000000;
        held_close(&r, &held); /* its second attempt works */
        cr_expect_lt(uv_hrtime() / 1000000 - began_ms, 20000u);
        rig_stop(&r);
    }
}

static pid_t kill_spawner(void)
{
    pid_t spawner[16];
    cr_assert_eq(children_of(getpid(), spawner), 1u);
    kill(spawner[0], SIGKILL);
    return spawner[0];
}

Test(pool, another_spawner_takes_over_when_one_dies)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    struct held held;
    pid_t workers[16];
    rig_start(&r);
    log_set_level(0);
    held_start(&r, &held, SERVES);
    size_t n_workers = worker_pids(workers);
    kill_spawner();
    held_close(&r, &held); /* its second attempt works */
    expect_saxpy(&r);
    for (size_t i = 0; i < n_workers; i++)
        for (int tries = 0; kill(workers[i], 0) == 0; tries++) {
            cr_assert_lt(tries, 2000, "a worker outlived the spawner");
            poll(NULL, 0, 5);
        }
    rig_stop(&r);
}

static bool has_spawner(void *pool)
{
    struct pool_stats stats;
    pool_stats(pool, &stats);
    return !stats.spawner_gone;
}
static bool has_no_spawner(void *pool) { return !has_spawner(pool); }

static bool has_another_than(void *pid)
{
    pid_t spawner[16];
    return children_of(getpid(), spawner) == 1 && spawner[0] != *(pid_t *)pid;
}

Test(pool, a_spawner_that_dies_at_once_again_is_replaced_after_a_while)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    struct outcome o;
    rig_start(&r);
    log_set_level(0);
    expect_saxpy(&r);
    pid_t first = kill_spawner();
    run_until_condition(&r, has_another_than, &first);
    kill_spawner(); /* less than a second later, on a busy machine too: nothing compiles meanwhile */
    run_until_condition(&r, has_no_spawner, r.pool);
    ask_run(&r, &(struct ask){.source = SAXPY}, &o);
    cr_expect_eq(o.status, WARM_EIO, "meanwhile compiles fail: %s", o.text);
    outcome_close(&o);
    run_until_condition(&r, has_spawner, r.pool);
    expect_saxpy(&r);
    rig_stop(&r);
}

/* ---- clients ---- */

Test(pool, says_closed_when_the_client_goes_away)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct held held;
    held_make(&r, &held, LEAVES);
    held.server.leaves_after = 1;
    ask_run(&r, &held.ask, &held.outcome);
    cr_assert_eq(held.outcome.status, WARM_ECLOSED, "%s", held.outcome.text);
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(pool, a_client_that_never_answers_meets_the_deadline)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct held held;
    held_make(&r, &held, SILENT);
    held.ask.timeout_ms = 500;
    ask_run(&r, &held.ask, &held.outcome);
    cr_assert_eq(held.outcome.status, WARM_ETIMEOUT, "%s", held.outcome.text);
    rig_stop(&r);
}

Test(pool, a_client_that_never_answers_holds_a_slot_for_ten_seconds_at_most)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_start(&r);
    struct held held;
    held_make(&r, &held, SILENT);
    uint64_t begun = uv_hrtime();
    ask_run(&r, &held.ask, &held.outcome);
    cr_assert_eq(held.outcome.status, WARM_ETIMEOUT);
    cr_assert(strstr(held.outcome.text, "does not answer"), "%s", held.outcome.text);
    cr_assert_lt(uv_hrtime() - begun, 20000000000ull);
    rig_stop(&r);
}

Test(pool, gives_slots_to_users_in_turn_and_one_more_to_who_has_none)
{
    enum { ALICE = 100, BOB = 200, CAROL = 300 };
    NEEDS_TOOLCHAIN();
    struct rig r;
    static struct held alice[3], bob[2], carol;
    rig_configure(&r);
    r.config.limits.jobs = 1;
    rig_open(&r);
    for (int i = 0; i < 3; i++)
        held_start_for(&r, &alice[i], ALICE);
    run_until_condition(&r, was_asked, &alice[0].server);
    for (int i = 0; i < 2; i++)
        held_start_for(&r, &bob[i], BOB);
    held_start_for(&r, &carol, CAROL);
    run_until_condition(&r, was_asked, &bob[0].server); /* the one slot more */
    struct pool_stats stats;
    pool_stats(r.pool, &stats);
    cr_assert_eq(stats.n_queued, 4u);
    cr_assert_eq(stats.n_workers, 2u);
    held_close(&r, &alice[0]); /* the next is CAROL: she follows BOB, and has none */
    run_until_condition(&r, was_asked, &carol.server);
    cr_assert(!was_asked(&alice[1].server) && !was_asked(&bob[1].server));
    held_close(&r, &bob[0]);
    run_until_condition(&r, was_asked, &alice[1].server);
    cr_assert(!was_asked(&bob[1].server));
    held_close(&r, &carol);
    run_until_condition(&r, was_asked, &bob[1].server);
    held_close(&r, &alice[1]);
    held_close(&r, &bob[1]); /* ALICE has the slot when nobody else has one */
    held_close(&r, &alice[2]);
    rig_stop(&r);
}

Test(pool, cancels_what_runs_and_what_waits)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.jobs = 1;
    rig_open(&r);
    struct held running;
    struct ask waiting = {.source = SAXPY, .options = {{"-arch=sm_90"}}};
    struct outcome o2, o3;
    held_start(&r, &running, SILENT);
    ask_start(&r, &waiting, &o2);
    ask_start(&r, &waiting, &o3);
    pool_cancel(r.pool, o2.compile);
    cr_assert(!o2.finished);
    run_until(&r, &o2.finished);
    cr_assert_eq(o2.status, WARM_ECANCELLED);
    cr_assert(!running.outcome.finished && !o3.finished);
    pool_cancel(r.pool, running.outcome.compile);
    ask_finish(&r, &running.ask, &running.outcome);
    cr_assert_eq(running.outcome.status, WARM_ECANCELLED);
    ask_finish(&r, &waiting, &o3);
    cr_assert_eq(o3.status, 0, "the slot came back");
    outcome_close(&o3);
    rig_stop(&r);
}

/* ---- the pool ---- */

Test(pool, runs_no_more_workers_than_jobs_and_answers_all)
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
        struct pool_stats stats;
        pool_stats(r.pool, &stats);
        cr_assert_leq(stats.n_workers, 2u);
        cr_assert_eq(outcomes[i].status, 0, "%s", outcomes[i].text);
        outcome_close(&outcomes[i]);
    }
    rig_stop(&r);
}

/* Compiles, and tells which process did it. */
static pid_t worker_of_compile(struct rig *r)
{
    struct held held;
    pid_t pids[16];
    held_start(r, &held, SERVES);
    run_until_condition(r, has_one_worker, pids);
    held_close(r, &held);
    return pids[0];
}

Test(pool, no_process_sees_two_sources)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.jobs = 1;
    rig_open(&r);
    pid_t before[16], after[16];
    pid_t first = worker_of_compile(&r);
    run_until_condition(&r, has_one_server, before);
    pid_t second = worker_of_compile(&r);
    run_until_condition(&r, has_one_server, after);
    cr_assert_eq(before[0], after[0], "the fork server stays");
    cr_assert_neq(first, second);
    cr_assert(kill(first, 0) < 0 && errno == ESRCH, "the first ended before the second began");
    rig_stop(&r);
}

static bool no_workers(void *arg)
{
    struct pool_stats stats;
    pool_stats(arg, &stats);
    return stats.n_workers == 0;
}

Test(pool, ends_fork_servers_that_are_idle)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    rig_configure(&r);
    r.config.limits.idle_ms = 50;
    rig_open(&r);
    expect_saxpy(&r);
    run_until_condition(&r, no_workers, r.pool);
    pid_t pids[16];
    run_until_condition(&r, has_no_server, pids);
    expect_saxpy(&r);
    rig_stop(&r);
}

Test(pool, closes_with_compiles_running_and_waiting)
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

/* Expects the confinement that worker and fork server share. */
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
    int ours = getpriority(PRIO_PROCESS, 0);
    cr_expect_geq(getpriority(PRIO_PROCESS, (id_t)pid), ours < 14 ? ours + 5 : 19);
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(environment, 1, sizeof environment - 1, f) : 0;
    if (f)
        fclose(f);
    cr_expect_gt(n, 0u);
    cr_expect_null(memmem(environment, n, "WARM_TEST_SECRET", 16));
}

Test(pool, workers_run_confined)
{
    NEEDS_TOOLCHAIN();
    struct rig r;
    setenv("WARM_TEST_SECRET", "must not be handed on", 1);
    rig_start(&r);
    struct held held;
    pid_t servers[16], pids[16];
    held_start(&r, &held, SILENT);
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
    pool_cancel(r.pool, held.outcome.compile);
    ask_finish(&r, &held.ask, &held.outcome);
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

Test(pool, keeps_nothing_that_was_made_without_confinement)
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
    struct pool_stats stats;
    pool_stats(r.pool, &stats);
    cr_expect_eq(stats.landlock, 0);
    cr_expect(!stats.seccomp);
    outcome_close(&o);
    rig_stop(&r);
}

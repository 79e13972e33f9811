/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_crash.c - SIGKILL at any moment loses no acknowledged entry and leaves no wrong byte.
 *
 * A child process opens the store and puts, replaces, removes and evicts as fast as it can. It writes each
 * step, and then its acknowledgement, into memory that it shares with this process. This process kills it
 * after a random time, opens the store, and compares.
 *
 * WARM_CRASH_CYCLES says how often; a few dozen if it is not set.
 */
#include <signal.h>
#include <sys/wait.h>

#include "tests/support/store_kit.h"

#define HERE STORE_MADE_HERE
#define ENTRIES 64u
#define CYCLES 60u

/* Per entry, in the order in which the child writes them. 0: none; else a version, removal odd. */
struct ledger {
    _Atomic uint64_t asked[ENTRIES]; /* the newest that was asked for, */
    _Atomic uint64_t acked[ENTRIES]; /* and acknowledged */
    _Atomic uint64_t n_operations;
    _Atomic bool may_evict; /* entries may be missing */
};

static struct store_kit k;
static struct ledger *ledger;

static void end(void) { kit_end(&k); }

TestSuite(store_crash, .fini = end, .timeout = 36000);

static uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Most are small; some are files; the length follows from entry and version. */
static size_t len_of(uint64_t n, uint64_t version)
{
    uint64_t x = n * 31 + version * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    return x % 8 == 0 ? 65537 + x % 100000 : x % 3000;
}

struct pending {
    uint64_t n, version;
};

static void on_put(void *arg, int status, bool existed, const struct err *e)
{
    struct pending *p = arg;
    (void)existed, (void)e;
    if (status == 0)
        atomic_store(&ledger->acked[p->n], p->version);
    ledger->n_operations++;
    free(p);
}

static void on_removed(void *arg, int status, const struct store_report *r, const struct err *e)
{
    (void)r;
    on_put(arg, status, false, e);
}

static struct pending *ask(uint64_t n, bool removal)
{
    struct pending *p = malloc(sizeof *p);
    uint64_t version = (atomic_load(&ledger->asked[n]) / 2 + 1) * 2;
    *p = (struct pending){n, removal ? version + 1 : version};
    atomic_store(&ledger->asked[n], p->version);
    return p;
}

static void churn(struct store_kit *c, uint64_t seed)
{
    for (uint64_t state = seed;;) {
        for (unsigned i = 0; i < 8; i++) {
            uint64_t n = random_next(&state) % ENTRIES;
            bool removal = random_next(&state) % 5 == 0;
            struct pending *p = ask(n, removal);
            struct store_id id = kit_id(HERE, n);
            if (removal) {
                store_remove(c->store, &id, 1, on_removed, p, NULL);
                continue;
            }
            struct store_put put = kit_put_of(c, HERE, n, len_of(n, p->version));
            uint8_t *value = kit_value(n, p->version, (size_t)put.row.len);
            put.data = value;
            put.on_done = on_put;
            put.arg = p;
            if (store_put(c->store, &put, NULL) != 0)
                _exit(1);
            free(value);
        }
        struct timespec wait = {0, (long)(random_next(&state) % 300) * 1000};
        nanosleep(&wait, NULL);
        store_poll(c->store);
    }
}

static void child(uint64_t seed, uint64_t max_bytes)
{
    struct store_kit c;
    kit_begin_in(&c, max_bytes, k.dir);
    if (kit_try_open(&c) != 0)
        _exit(1);
    churn(&c, seed);
}

/* The entry is in its acknowledged version or in one asked for later; removed likewise. */
static void check_entry(uint64_t n, uint64_t cycle)
{
    struct store_value v;
    struct store_id id = kit_id(HERE, n);
    uint64_t acked = atomic_load(&ledger->acked[n]), asked = atomic_load(&ledger->asked[n]);
    int rc = store_get(k.store, &id, &v, NULL);
    cr_assert(rc == 0 || rc == WARM_ENOT_FOUND, "cycle %d: entry %d: error %d", (int)cycle, (int)n,
              rc);
    bool right = false, may_be_missing = acked % 2 == 1 || acked == 0 || ledger->may_evict;
    for (uint64_t version = acked; version <= asked; version++) {
        if (version % 2 == 1)
            may_be_missing = true;
        else if (rc == 0 && version > 0 && v.row.len == len_of(n, version))
            right |= kit_is_value(&v, n, version);
    }
    if (rc == 0)
        cr_assert(right, "cycle %d: entry %d is in no version from %d to %d", (int)cycle, (int)n,
                  (int)acked, (int)asked);
    else
        cr_assert(may_be_missing, "cycle %d: entry %d is lost in version %d", (int)cycle, (int)n,
                  (int)acked);
    store_turn_end(k.store);
}

/* What is there now is what counts as acknowledged for the next cycle; what is not there is as good as
 * removed, and must not turn up later. */
static void settle_ledger(void)
{
    for (uint64_t n = 0; n < ENTRIES; n++) {
        struct store_value v;
        struct store_id id = kit_id(HERE, n);
        uint64_t acked = atomic_load(&ledger->acked[n]), asked = atomic_load(&ledger->asked[n]);
        bool there = store_get(k.store, &id, &v, NULL) == 0;
        uint64_t found = 0;
        for (uint64_t version = acked; there && version <= asked; version++)
            if (version && version % 2 == 0 && v.row.len == len_of(n, version) &&
                kit_is_value(&v, n, version))
                found = version;
        if (!there)
            found = asked | 1; /* odd: a removal */
        atomic_store(&ledger->asked[n], found);
        atomic_store(&ledger->acked[n], found);
        store_turn_end(k.store);
    }
}

/* Waits for the moment at which a cycle kills its child. Some cycles end at a random time, perhaps before the child has
 * its store open. Most end after some operations, however fast those are. */
static void await_moment(pid_t child, uint64_t *state)
{
    uint64_t before = ledger->n_operations, after = 1 + random_next(state) % 60;
    int status;
    if (random_next(state) % 4 == 0)
        after = 0;
    for (unsigned i = 0; ledger->n_operations - before < after; i++) {
        cr_assert_lt(i, KIT_WAIT_S * 1000u);
        cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "the child gave up");
        usleep(1000);
    }
    usleep((useconds_t)(random_next(state) % (after ? 3000 : 20000)));
}

static void run(uint64_t max_bytes)
{
    const char *set = getenv("WARM_CRASH_CYCLES");
    uint64_t cycles = set ? strtoull(set, NULL, 10) : CYCLES, state = max_bytes + cycles;
    for (uint64_t cycle = 0; cycle < cycles; cycle++) {
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0)
            child(cycle * 7919 + 1, max_bytes);
        await_moment(pid, &state);
        kill(pid, SIGKILL);
        int status;
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFSIGNALED(status), "cycle %d: the child gave up", (int)cycle);
        kit_open(&k);
        for (uint64_t n = 0; n < ENTRIES; n++)
            check_entry(n, cycle);
        settle_ledger();
        cr_assert_eq(kit_stats(&k).n_corrupt, 0, "cycle %d", (int)cycle);
        cr_assert(!kit_stats(&k).rebuilt);
        kit_close(&k);
    }
    cr_log_info("%d cycles, %d operations", (int)cycles, (int)ledger->n_operations);
    cr_assert(cycles < 20 || ledger->n_operations > cycles); /* it worked when it was killed */
}

static void begin(uint64_t max_bytes, bool may_evict)
{
    ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(ledger, MAP_FAILED);
    ledger->may_evict = may_evict;
    kit_begin_in(&k, max_bytes, temp_dir_new());
}

Test(store_crash, killed_at_any_moment_loses_nothing_that_was_acknowledged)
{
    begin(256 * KIT_MIB, false);
    run(256 * KIT_MIB);
}

Test(store_crash, killed_while_evicting_serves_nothing_wrong)
{
    begin(KIT_MIB, true);
    run(KIT_MIB);
}

Test(store_crash, files_and_rows_agree_after_the_sweep)
{
    begin(256 * KIT_MIB, false);
    run(256 * KIT_MIB);
    kit_open(&k);
    size_t blobs = SIZE_MAX, rows = 0;
    for (int i = 0; i < 10000 && blobs != rows; i++) { /* the sweep begins two seconds after open */
        blobs = kit_files(&k, "blobs");
        rows = 0;
        for (uint64_t n = 0; n < ENTRIES; n++) {
            struct store_row row;
            struct store_id id = kit_id(HERE, n);
            rows += store_peek(k.store, &id, &row, NULL) == 0 && row.is_blob;
            store_turn_end(k.store);
        }
        usleep(1000);
    }
    cr_assert_eq(blobs, rows);
    kit_until_files(&k, "tmp", 0);
}

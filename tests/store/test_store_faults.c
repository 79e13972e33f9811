/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_faults.c - each call that can fail, fails: the first, the second, the third … until an
 * operation makes fewer calls than that. Once as a passing fault, once as one that stays (a full
 * disk). After each: no crash, no leak of descriptors, and a store that, opened again, has every
 * entry that was acknowledged, with the right bytes.
 *
 * Calls into LMDB fail before LMDB sees them: its own system calls fail in the tests with a full disk.
 */
#include <limits.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "store/fault.h"
#include "store/index.h"
#include "tests/support/store_kit.h"

#define HERE STORE_MADE_HERE
#define SMALL 500
#define LARGE 70000
#define FAULTS_MAX 2000 /* no operation makes so many calls */

static struct store_kit k;

static void end(void) { kit_end(&k); }

TestSuite(store_faults, .fini = end, .timeout = 600);

/* The effect of an operation that the store has confirmed. */
struct outcome {
    uint64_t version[8]; /* acknowledged version of entries 0 to 7; 0: never */
    uint64_t tried[8];   /* the last version that was asked for: may be there too */
    bool removed[8];     /* was asked to go */
};

static void put(struct outcome *o, uint64_t n, uint64_t version, size_t len)
{
    o->tried[n] = version;
    if (kit_put_version(&k, HERE, n, version, len) == 0) {
        o->version[n] = version;
        o->removed[n] = false;
    }
}

/* An acknowledged entry is there in its version, or in a later one that was tried. */
static void check(const struct outcome *o, const char *what, long nth)
{
    for (uint64_t n = 0; n < 8; n++) {
        struct store_value v;
        struct store_id id = kit_id(HERE, n);
        int rc = store_get(k.store, &id, &v, NULL);
        bool must = o->version[n] && !o->removed[n];
        cr_assert(rc == 0 || (rc == WARM_ENOT_FOUND && !must), "%s, fault %ld: entry %d: %d", what,
                  nth, (int)n, rc);
        if (rc == 0)
            cr_assert(kit_is_value(&v, n, o->version[n]) || kit_is_value(&v, n, o->tried[n]),
                      "%s, fault %ld: entry %d has wrong bytes", what, nth, (int)n);
        store_turn_end(k.store);
    }
}

/* ---- operations ---- */

static void op_put_small(struct outcome *o) { put(o, 0, 2, SMALL); }
static void op_put_large(struct outcome *o) { put(o, 1, 2, LARGE); }
static void op_replace_large(struct outcome *o) { put(o, 3, 2, LARGE + 1); }
static void op_put_known_bytes(struct outcome *o)
{
    uint8_t *value = kit_value(3, 1, LARGE); /* those of entry 3: its file gets a second trailer */
    struct store_put p = kit_put_of(&k, HERE, 100, LARGE);
    p.data = value;
    kit_put_with(&k, &p);
    free(value);
    (void)o;
}
static void op_remove(struct outcome *o)
{
    o->removed[2] = o->removed[3] = true;
    kit_remove(&k, HERE, 2);
    kit_remove(&k, HERE, 3);
}
static void op_pin(struct outcome *o)
{
    (void)o;
    kit_pin(&k, HERE, 2, true);
}
static void op_evict(struct outcome *o)
{
    struct store_filter f = store_filter_all();
    for (size_t n = 0; n < 8; n++)
        o->removed[n] = true;
    kit_evict(&k, &f, 0, false);
}
static void op_get(struct outcome *o)
{
    (void)o;
    for (uint64_t n = 2; n < 4; n++) {
        int rc = kit_get_version(&k, HERE, n, 1); /* wrong bytes abort the test */
        cr_assert(rc == 0 || rc == WARM_EIO || rc == WARM_ENOMEM || rc == WARM_EFULL ||
                      rc == WARM_ENOT_FOUND,
                  "%d", rc);
    }
}
static void op_verify(struct outcome *o)
{
    (void)o;
    kit_verify(&k, 0);
    cr_assert_eq(k.report.n_corrupt, 0);
}
static void op_meta(struct outcome *o)
{
    (void)o;
    store_meta_put(k.store, "name", "value", 5);
    kit_put(&k, 4242, 1, 1);
}
static void op_reopen(struct outcome *o)
{
    (void)o;
    kit_close(&k);
    if (kit_try_open(&k) != 0) {
        bool reached = fault_disarm();
        cr_assert(reached, "cannot open: %s", k.last_event);
        kit_open(&k);
    }
}

static const struct {
    const char *name;
    void (*run)(struct outcome *o);
} ops[] = {
    {"put small", op_put_small},   {"put large", op_put_large},
    {"replace", op_replace_large}, {"put known bytes", op_put_known_bytes},
    {"remove", op_remove},         {"pin", op_pin},
    {"evict", op_evict},           {"get", op_get},
    {"verify", op_verify},         {"meta", op_meta},
    {"reopen", op_reopen},
};

/* A store with entries 2 (small) and 3 (large) in version 1. True if the fault was reached. */
static bool run_with_fault(size_t op, long nth, int errnum, bool lasting)
{
    struct outcome o = {.version = {0}};
    size_t before = open_descriptors();
    kit_begin(&k, 16 * KIT_MIB);
    put(&o, 2, 1, SMALL);
    put(&o, 3, 1, LARGE);
    cr_assert(o.version[2] && o.version[3]);
    fault_arm(nth, errnum, lasting);
    ops[op].run(&o);
    bool reached = fault_disarm();
    check(&o, ops[op].name, nth);
    put(&o, 5, 1, SMALL);
    put(&o, 6, 1, LARGE);
    cr_assert(o.version[5] && o.version[6], "%s, fault %ld: it stores again", ops[op].name, nth);
    kit_reopen(&k);
    check(&o, ops[op].name, nth);
    cr_assert_eq(kit_stats(&k).n_corrupt, 0);
    kit_end(&k);
    cr_assert_eq(open_descriptors(), before, "%s, fault %ld leaks a descriptor", ops[op].name, nth);
    return reached;
}

static void sweep(int errnum, bool lasting)
{
    for (size_t op = 0; op < sizeof ops / sizeof *ops; op++) {
        long nth = 1;
        while (nth < FAULTS_MAX && run_with_fault(op, nth, errnum, lasting))
            nth++;
        cr_assert_lt(nth, FAULTS_MAX);
        cr_assert_gt(nth, 1, "%s makes no call that could fail", ops[op].name);
        cr_log_info("%s: %ld calls", ops[op].name, nth - 1);
    }
    kit_begin(&k, 16 * KIT_MIB); /* for `end` */
}

Test(store_faults, passing_io_error_at_each_call) { sweep(EIO, false); }
Test(store_faults, lasting_full_disk_from_each_call_on) { sweep(ENOSPC, true); }
Test(store_faults, no_memory_at_each_call) { sweep(ENOMEM, false); }

/* ---- LMDB says that it is broken ---- */

/* Waits until a rebuild, which is done in the background, has come to entry n. */
static void until_there(uint64_t n, const char *what)
{
    for (unsigned i = 0; kit_get(&k, HERE, n) != 0; i++) {
        cr_assert_lt(i, KIT_WAIT_S * 1000u, "%s: entry %d", what, (int)n);
        usleep(1000);
    }
}

static void break_at_each_call(int code)
{
    for (long nth = 1; nth < 40; nth++) {
        kit_begin(&k, 16 * KIT_MIB);
        cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
        fault_arm(nth, code, false);
        int rc = kit_put(&k, HERE, 2, SMALL);
        bool reached = fault_disarm();
        if (rc == 0)
            cr_assert_eq(kit_get(&k, HERE, 2), 0);
        cr_assert_eq(kit_put(&k, HERE, 3, SMALL), 0, "%s", k.last_event);
        cr_assert_eq(kit_get(&k, HERE, 3), 0);
        until_there(1, "the blob is there, or there again");
        kit_end(&k);
        if (!reached) {
            kit_begin(&k, 16 * KIT_MIB);
            return;
        }
    }
    cr_assert(false, "a put makes more calls than that?");
}

Test(store_faults, corrupted_index_while_running_is_rebuilt) { break_at_each_call(MDB_CORRUPTED); }
Test(store_faults, environment_that_panics_is_opened_again) { break_at_each_call(MDB_PANIC); }
Test(store_faults, full_map_is_met_by_eviction_and_another_try)
{
    break_at_each_call(MDB_MAP_FULL);
}

/* Whatever call of a rebuild fails, in the end all is there, and at the next start too: more files than
 * one step of the walk takes. */
enum { N_BLOBS = 34 };

/* False if the rebuild made fewer calls than that. */
static bool rebuild_with_fault(const char *index, long nth, int errnum)
{
    kit_close(&k);
    cr_assert_eq(unlink(index), 0);
    fault_arm(nth, errnum, false);
    while (kit_try_open(&k) != 0)
        cr_assert(fault_disarm(), "cannot open: %s", k.last_event);
    for (uint64_t n = 0; n < N_BLOBS; n++)
        until_there(n, "every blob is there again");
    bool reached = fault_disarm();
    kit_reopen(&k);
    for (uint64_t n = 0; n < N_BLOBS; n++)
        until_there(n, "and after the next start");
    return reached;
}

/* At each of the first calls, some of those in the midst, which repeat, and each of the last. */
static void rebuild_with_a_fault_at_each_call(int errnum)
{
    long nth = 1;
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < N_BLOBS; n++)
        cr_assert_eq(kit_put(&k, HERE, n, LARGE), 0);
    char *index = path_join(k.dir, "index/data.mdb");
    while (nth < FAULTS_MAX && rebuild_with_fault(index, nth, errnum))
        nth += nth < 20 ? 1 : 9;
    cr_assert(nth > 20 && nth < FAULTS_MAX);
    for (nth -= 8; rebuild_with_fault(index, nth, errnum); nth++)
        cr_assert_lt(nth, FAULTS_MAX);
    cr_assert_eq(kit_stats(&k).n_corrupt, 0);
    free(index);
}

Test(store_faults, index_that_breaks_while_it_is_rebuilt_is_rebuilt_from_the_start)
{
    rebuild_with_a_fault_at_each_call(MDB_CORRUPTED);
}
Test(store_faults, file_that_cannot_be_read_during_a_rebuild_is_kept_and_read_later)
{
    rebuild_with_a_fault_at_each_call(EMFILE);
}

/* ---- limits of the machine ---- */

Test(store_faults, no_descriptors_left_is_an_error_and_passes)
{
    struct rlimit was, none;
    kit_begin(&k, 64 * KIT_MIB);
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    kit_reopen(&k);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){3, was.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    cr_assert_eq(kit_get(&k, HERE, 1), WARM_EIO);
    cr_assert_eq(kit_put(&k, HERE, 2, LARGE), WARM_EIO);
    cr_assert_eq(kit_put(&k, HERE, 3, SMALL), 0, "small ones need none");
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    cr_assert_eq(kit_put(&k, HERE, 2, LARGE), 0);
    cr_assert_eq(kit_stats(&k).n_corrupt, 0);
}

/* Mounts a small file system. NULL, with a line on stderr, if the test may not mount. */
static char *small_disk(const char *options)
{
    char *dir = temp_dir_new();
    if (mount("warm-test", dir, "tmpfs", MS_NOSUID | MS_NODEV, options) == 0)
        return dir;
    temp_dir_free(dir);
    return NULL;
}

static void small_disk_end(char *dir)
{
    umount2(dir, MNT_DETACH);
    temp_dir_free(dir);
}

static bool fill_disk(const char *dir, uint64_t leave)
{
    char *path = path_join(dir, "ballast");
    struct statvfs vfs;
    cr_assert_eq(statvfs(dir, &vfs), 0);
    uint64_t space = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool done = space > leave && posix_fallocate(fd, 0, (off_t)(space - leave)) == 0;
    close(fd);
    free(path);
    return done;
}

/* Opens the kit's store, with entries 1 and 2, on a disk of 24 MiB; small_disk_end frees that. Skips the
 * test if it may mount none. */
static char *small_disk_with_store(void)
{
    char *disk = small_disk("size=24m");
    if (!disk) {
        kit_begin(&k, KIT_MIB);
        cr_skip_test("needs the right to mount a tmpfs");
    }
    kit_begin_in(&k, 1024 * KIT_MIB, path_join(disk, "store"));
    kit_open(&k);
    cr_assert_eq(kit_put(&k, HERE, 1, SMALL), 0);
    cr_assert_eq(kit_put(&k, HERE, 2, LARGE), 0);
    return disk;
}

Test(store_faults, full_disk_stops_storing_and_not_serving)
{
    char *disk = small_disk_with_store();
    cr_assert(fill_disk(disk, 100000));
    cr_assert_eq(kit_put(&k, HERE, 3, 1u << 20), WARM_EFULL);
    int rc = 0; /* small ones go on until the index cannot grow */
    uint64_t n = 10;
    for (; rc == 0 && n < 1000; n++)
        rc = kit_put(&k, HERE, n, 30000);
    cr_assert_eq(rc, WARM_EFULL, "%s", k.last_event);
    cr_assert(kit_stats(&k).read_only);
    int events = k.n_events;
    for (int i = 0; i < 20; i++)
        cr_assert_eq(kit_put(&k, HERE, 2000, 60000), WARM_EFULL);
    cr_assert_eq(k.n_events, events, "it says so once");
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    cr_assert_eq(kit_get(&k, HERE, 2), 0);
    for (uint64_t i = 10; i + 1 < n; i++)
        cr_assert_eq(kit_get(&k, HERE, i), 0, "entry %d was acknowledged", (int)i);
    kit_reopen(&k);
    cr_assert_eq(kit_get(&k, HERE, 2), 0, "a store on a full disk opens");
    char *ballast = path_join(disk, "ballast");
    cr_assert_eq(unlink(ballast), 0);
    cr_assert_eq(kit_put(&k, HERE, 3, 1u << 20), 0, "recovers by itself");
    cr_assert_eq(kit_get(&k, HERE, 3), 0);
    cr_assert(!kit_stats(&k).read_only);
    cr_assert_eq(kit_stats(&k).n_corrupt, 0);
    kit_close(&k);
    free(ballast);
    char *dir = k.dir;
    kit_begin(&k, KIT_MIB); /* for `end` */
    free(dir);
    small_disk_end(disk);
}

Test(store_faults, read_only_disk_is_an_error_that_says_so)
{
    char *disk = small_disk_with_store();
    kit_close(&k);
    cr_assert_eq(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, "size=24m"), 0);
    struct err e;
    cr_assert_eq(store_open(&k.store, &k.config, &e), WARM_EIO, "it says so at the start");
    cr_assert_not_null(strstr(e.text, "Read-only"), "%s", e.text);
    cr_assert_eq(mount(NULL, disk, NULL, MS_REMOUNT, "size=24m"), 0);
    kit_open(&k);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    cr_assert_eq(kit_get(&k, HERE, 2), 0);
    kit_close(&k);
    char *dir = k.dir;
    kit_begin(&k, KIT_MIB);
    free(dir);
    small_disk_end(disk);
}

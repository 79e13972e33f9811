/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - the promises of store.h, on real LMDB in a folder of its own. */
#include <sched.h>
#include <sys/resource.h>

#include "store/clock.h"
#include "tests/support/page_size.h"
#include "tests/support/store_kit.h"

#define HERE STORE_MADE_HERE
#define SMALL 1000
#define LARGE (200u << 10)

static struct store_kit k;

static void begin(void) { kit_begin(&k, 64 * KIT_MIB); }
static void end(void) { kit_end(&k); }

TestSuite(store, .init = begin, .fini = end, .timeout = 120);

static const size_t lens[] = {0,     1,     7,     100,   1000,  2000,  2001,    4096,
                              20000, 65535, 65536, 65537, 70000, LARGE, 3u << 20};
#define N_LENS (sizeof lens / sizeof *lens)

Test(store, gives_back_values_of_every_size)
{
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_put(&k, HERE, i, lens[i]), 0, "put %zu: %s", lens[i], k.last_event);
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_get(&k, HERE, i), 0, "get %zu", lens[i]);
    kit_reopen(&k);
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_get(&k, HERE, i), 0, "get %zu after reopening", lens[i]);
    cr_assert_eq(kit_stats(&k).n_entries, N_LENS);
    cr_assert_eq(kit_get(&k, HERE, 999), WARM_ENOT_FOUND);
}

static int fd_with(const void *data, size_t len)
{
    int fd = memfd_create("value", MFD_CLOEXEC);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, data, len), (ssize_t)len);
    return fd;
}

static int put_from_fd(uint64_t n, size_t len, size_t said)
{
    uint8_t *value = kit_value(n, 0, len);
    struct store_put put = kit_put_of(&k, HERE, n, said);
    put.fd = fd_with(value, len);
    free(value);
    int rc = kit_put_with(&k, &put);
    cr_assert_eq(fcntl(put.fd, F_GETFD), -1, "the descriptor was taken and so is closed");
    return rc;
}

Test(store, takes_values_from_descriptors)
{
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(put_from_fd(i, lens[i], lens[i]), 0);
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_get(&k, HERE, i), 0);
}

Test(store, descriptor_with_fewer_bytes_than_said_is_truncated)
{
    cr_assert_eq(put_from_fd(1, SMALL, SMALL + 1), WARM_ETRUNCATED);
    cr_assert_eq(put_from_fd(2, LARGE, LARGE + 1), WARM_ETRUNCATED);
    cr_assert_eq(kit_stats(&k).n_entries, 0);
    kit_until_files(&k, "tmp", 0);
    cr_assert_eq(kit_files(&k, "blobs"), 0);
}

Test(store, refuses_a_value_above_the_limit_and_leaves_the_descriptor)
{
    struct store_put put = kit_put_of(&k, HERE, 1, STORE_VALUE_MAX + 1);
    put.fd = fd_with("x", 1);
    cr_assert_eq(kit_put_with(&k, &put), WARM_ETOO_BIG);
    cr_assert_eq(close(put.fd), 0);
}

static bool is_text(struct view v, const char *s)
{
    return v.len == strlen(s) && memcmp(v.data, s, v.len) == 0;
}

Test(store, row_keeps_all_that_it_was_given)
{
    static const size_t both[] = {SMALL, LARGE};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *value = kit_value(i, 0, both[i]);
        struct store_put put = kit_put_of(&k, 1000, i, both[i]);
        put.data = value;
        put.row.kind = STORE_TRITON;
        put.row.maker = 1234;
        put.row.proof = proof_of_bytes("asked", 5);
        put.row.group = key_of_bytes("group", 5);
        put.row.compiler = key_of_bytes("compiler", 8);
        put.row.graph = key_of_bytes("graph", 5);
        put.row.cost_ms = 777;
        put.row.hardware = view_of_text("sm_90a");
        put.row.compiler_text = view_of_text("NVRTC 13.0");
        put.row.name = view_of_text("pt2:some-name");
        put.row.label = view_of_text("kernel.cu");
        cr_assert_eq(kit_put_with(&k, &put), 0);
        free(value);
    }
    kit_reopen(&k);
    for (size_t i = 0; i < 2; i++) {
        struct store_row row;
        struct store_id id = kit_id(1000, i);
        cr_assert_eq(store_peek(k.store, &id, &row, NULL), 0);
        struct proof proof = proof_of_bytes("asked", 5);
        struct key group = key_of_bytes("group", 5), compiler = key_of_bytes("compiler", 8);
        cr_assert_eq(row.kind, STORE_TRITON);
        cr_assert_eq(row.maker, 1234);
        cr_assert_eq(row.cost_ms, 777);
        cr_assert_eq(row.len, both[i]);
        cr_assert_eq(row.is_blob, both[i] == LARGE);
        cr_assert_eq(memcmp(&row.proof, &proof, sizeof proof), 0);
        cr_assert(key_equal(&row.group, &group));
        cr_assert(key_equal(&row.compiler, &compiler));
        cr_assert(is_text(row.hardware, "sm_90a"));
        cr_assert(is_text(row.compiler_text, "NVRTC 13.0"));
        cr_assert(is_text(row.name, "pt2:some-name"));
        cr_assert(is_text(row.label, "kernel.cu"));
        cr_assert(row.created_ms > 0 && row.accessed_ms >= row.created_ms);
        store_turn_end(k.store);
    }
}

Test(store, replacing_gives_the_new_value_and_frees_the_old)
{
    static const size_t steps[] = {SMALL, LARGE, LARGE, 70000, 20000, 0, LARGE};
    for (size_t v = 0; v < sizeof steps / sizeof *steps; v++) {
        cr_assert_eq(kit_put_version(&k, HERE, 1, v, steps[v]), 0);
        cr_assert_eq(kit_get_version(&k, HERE, 1, v), 0);
        struct store_stats st = kit_stats(&k);
        cr_assert_eq(st.n_entries, 1);
        cr_assert_eq(st.n_bytes, steps[v]);
        cr_assert_eq(kit_files(&k, "blobs"), steps[v] > STORE_INLINE_MAX ? 1 : 0);
    }
}

Test(store, put_of_the_same_large_value_again_is_harmless)
{
    for (int i = 0; i < 3; i++)
        cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    cr_assert_eq(kit_files(&k, "blobs"), 1);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    cr_assert_eq(kit_remove(&k, HERE, 1), 0);
    cr_assert_eq(kit_files(&k, "blobs"), 0);
}

Test(store, keep_existing_keeps)
{
    cr_assert_eq(kit_put_version(&k, HERE, 1, 0, SMALL), 0);
    uint8_t *value = kit_value(1, 1, LARGE);
    struct store_put put = kit_put_of(&k, HERE, 1, LARGE);
    put.data = value;
    put.keep_existing = true;
    cr_assert_eq(kit_put_with(&k, &put), 0);
    cr_assert(k.existed);
    cr_assert_eq(kit_get_version(&k, HERE, 1, 0), 0);
    kit_until_files(&k, "tmp", 0);
    cr_assert_eq(kit_files(&k, "blobs"), 0);
    cr_assert_eq(kit_remove(&k, HERE, 1), 0);
    cr_assert_eq(kit_put_with(&k, &put), 0);
    cr_assert(!k.existed);
    cr_assert_eq(kit_get_version(&k, HERE, 1, 1), 0);
    free(value);
}

static int put_bytes(uint32_t owner, uint64_t n, const void *data, size_t len)
{
    struct store_put put = kit_put_of(&k, owner, n, len);
    put.data = data;
    return kit_put_with(&k, &put);
}

static bool has_bytes(uint32_t owner, uint64_t n, const void *data, size_t len)
{
    struct store_value v;
    struct store_id id = kit_id(owner, n);
    char *have = malloc(len);
    bool same = store_get(k.store, &id, &v, NULL) == 0 && v.row.len == len &&
                pread(v.fd, have, len, 0) == (ssize_t)len && memcmp(have, data, len) == 0;
    free(have);
    store_turn_end(k.store);
    return same;
}

Test(store, identical_bytes_are_one_file_for_one_owner_and_never_across_owners)
{
    uint8_t *value = kit_value(7, 7, LARGE);
    for (uint64_t n = 0; n < 5; n++)
        cr_assert_eq(put_bytes(1000, n, value, LARGE), 0);
    cr_assert_eq(kit_files(&k, "blobs"), 1);
    cr_assert_eq(kit_stats(&k).n_bytes, LARGE);
    cr_assert_eq(put_bytes(1001, 0, value, LARGE), 0);
    cr_assert_eq(put_bytes(HERE, 0, value, LARGE), 0);
    cr_assert_eq(kit_files(&k, "blobs"), 3);
    for (uint64_t n = 0; n < 4; n++) {
        cr_assert_eq(kit_remove(&k, 1000, n), 0);
        cr_assert(has_bytes(1000, 4, value, LARGE));
    }
    cr_assert_eq(kit_remove(&k, 1000, 4), 0);
    cr_assert_eq(kit_files(&k, "blobs"), 2);
    cr_assert(has_bytes(1001, 0, value, LARGE));
    free(value);
}

Test(store, owners_do_not_see_or_replace_each_other)
{
    cr_assert_eq(kit_put_version(&k, 1000, 1, 1, SMALL), 0);
    cr_assert_eq(kit_get(&k, 1001, 1), WARM_ENOT_FOUND);
    cr_assert_eq(kit_get(&k, HERE, 1), WARM_ENOT_FOUND);
    cr_assert_eq(kit_put_version(&k, 1001, 1, 2, SMALL), 0);
    cr_assert_eq(kit_get_version(&k, 1000, 1, 1), 0);
    cr_assert_eq(kit_get_version(&k, 1001, 1, 2), 0);
    cr_assert_eq(kit_remove(&k, 1001, 1), 0);
    cr_assert_eq(kit_get_version(&k, 1000, 1, 1), 0);
}

Test(store, removes_many_in_one_call)
{
    enum { N = 1000 };
    struct store_id ids[N];
    for (uint64_t n = 0; n < N; n++) {
        ids[n] = kit_id(HERE, n);
        struct store_put put = kit_put_of(&k, HERE, n, 8);
        put.data = "8 bytes!";
        put.on_done = NULL;
        cr_assert_eq(store_put(k.store, &put, NULL), 0);
    }
    k.done = false;
    cr_assert_eq(store_remove(k.store, ids, N, kit_on_report, &k, NULL), 0);
    kit_wait(&k, &k.done);
    cr_assert_eq(k.status, 0);
    cr_assert_eq(k.report.n_entries, N);
    cr_assert_eq(k.report.n_bytes, N * 8);
    cr_assert_eq(kit_stats(&k).n_entries, 0);
    cr_assert_eq(kit_stats(&k).n_bytes, 0);
}

Test(store, pin_is_kept_by_a_replacement_and_a_reopening)
{
    struct store_row row;
    struct store_id id = kit_id(HERE, 1);
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    cr_assert_eq(kit_pin(&k, HERE, 1, true), 0);
    cr_assert_eq(k.report.n_entries, 1);
    cr_assert_eq(kit_pin(&k, HERE, 1, true), 0);
    cr_assert_eq(k.report.n_entries, 0, "was pinned already");
    cr_assert_eq(kit_put_version(&k, HERE, 1, 1, SMALL), 0);
    kit_reopen(&k);
    cr_assert_eq(store_peek(k.store, &id, &row, NULL), 0);
    cr_assert(row.pinned);
    cr_assert_eq(kit_pin(&k, HERE, 1, false), 0);
    cr_assert_eq(store_peek(k.store, &id, &row, NULL), 0);
    cr_assert(!row.pinned);
}

static bool is_empty(const struct store_stats *st) { return st->n_entries == 0; }

Test(store, expired_entry_is_not_found_and_goes)
{
    static const size_t both[] = {SMALL, LARGE};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *value = kit_value(i, 0, both[i]);
        struct store_put put = kit_put_of(&k, HERE, i, both[i]);
        put.data = value;
        put.row.expires_ms = 1000; /* long ago */
        cr_assert_eq(kit_put_with(&k, &put), 0);
        free(value);
        cr_assert_eq(kit_get(&k, HERE, i), WARM_ENOT_FOUND);
    }
    kit_until(&k, is_empty);
    cr_assert_eq(kit_files(&k, "blobs"), 0);
}

Test(store, entry_that_expires_later_is_found)
{
    struct store_put put = kit_put_of(&k, HERE, 1, 3);
    uint8_t *value = kit_value(1, 0, 3);
    put.data = value;
    put.row.expires_ms = 4102444800000; /* the year 2100 */
    cr_assert_eq(kit_put_with(&k, &put), 0);
    free(value);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
}

Test(store, hit_writes_nothing_and_is_counted)
{
    struct store_row row;
    struct store_id id = kit_id(HERE, 1);
    cr_assert_eq(kit_put(&k, HERE, 1, SMALL), 0);
    uint64_t commits = kit_stats(&k).n_commits;
    for (int i = 0; i < 10; i++)
        cr_assert_eq(kit_get(&k, HERE, 1), 0);
    cr_assert_eq(store_peek(k.store, &id, &row, NULL), 0);
    cr_assert_eq(row.hits, 10);
    cr_assert(row.heat > 10.9 && row.heat <= 11);
    cr_assert_eq(kit_stats(&k).n_commits, commits);
    kit_reopen(&k);
    cr_assert_eq(store_peek(k.store, &id, &row, NULL), 0);
    cr_assert_eq(row.hits, 10, "written when the store was closed");
}

Test(store, hits_on_more_entries_than_the_table_holds_lose_no_entry)
{
    enum { N = 5000 };
    for (uint64_t n = 0; n < N; n++) {
        uint8_t *value = kit_value(n, 0, 20);
        struct store_put put = kit_put_of(&k, HERE, n, 20);
        put.data = value;
        put.on_done = NULL;
        cr_assert_eq(store_put(k.store, &put, NULL), 0);
        free(value);
    }
    cr_assert_eq(kit_put(&k, HERE, N, 20), 0);
    for (int round = 0; round < 2; round++)
        for (uint64_t n = 0; n < N; n++)
            cr_assert_eq(kit_get(&k, HERE, n), 0);
    kit_reopen(&k);
    for (uint64_t n = 0; n < N; n++)
        cr_assert_eq(kit_get(&k, HERE, n), 0);
}

struct seen {
    size_t n;
    uint64_t bytes;
    struct store_id last;
    bool sorted;
};

static void on_row(void *arg, const struct store_row *row)
{
    struct seen *seen = arg;
    int order = memcmp(seen->last.key.bytes, row->id.key.bytes, sizeof row->id.key.bytes);
    seen->sorted &= seen->n == 0 || seen->last.owner < row->id.owner || order < 0;
    seen->last = row->id;
    seen->n++;
    seen->bytes += row->len;
}

static struct seen scan_all(size_t chunk)
{
    struct store_cursor cursor = {{0}};
    struct seen seen = {.sorted = true};
    struct err e;
    int rc;
    while ((rc = store_scan(k.store, &cursor, chunk, on_row, &seen, &e)) == 1)
        store_turn_end(k.store);
    cr_assert_eq(rc, 0);
    store_turn_end(k.store);
    return seen;
}

Test(store, scan_in_chunks_sees_each_row_once_in_order)
{
    for (uint64_t n = 0; n < 100; n++)
        cr_assert_eq(kit_put(&k, n % 3 ? HERE : 1000, n, 10 + n), 0);
    static const size_t chunks[] = {1, 7, 99, 100, 101, 1000};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct seen seen = scan_all(chunks[i]);
        cr_assert_eq(seen.n, 100);
        cr_assert_eq(seen.bytes, kit_stats(&k).n_bytes);
        cr_assert(seen.sorted);
    }
}

Test(store, scan_from_any_cursor_is_bounded)
{
    cr_assert_eq(kit_put(&k, HERE, 1, 10), 0);
    struct store_cursor cursor;
    struct seen seen = {.sorted = true};
    memset(cursor.bytes, 0xff, sizeof cursor.bytes);
    cr_assert_eq(store_scan(k.store, &cursor, 10, on_row, &seen, NULL), 0);
    cr_assert_eq(seen.n, 0);
}

Test(store, small_named_values_are_kept)
{
    char out[8];
    size_t len;
    cr_assert_eq(store_meta_get(k.store, "counters", out, sizeof out, &len), WARM_ENOT_FOUND);
    cr_assert_eq(store_meta_put(k.store, "counters", "12345678", 8), 0);
    cr_assert_eq(store_meta_put(k.store, "empty", "", 0), 0);
    kit_reopen(&k);
    cr_assert_eq(store_meta_get(k.store, "counters", out, sizeof out, &len), 0);
    cr_assert_eq(len, 8);
    cr_assert_eq(memcmp(out, "12345678", 8), 0);
    cr_assert_eq(store_meta_get(k.store, "empty", out, sizeof out, &len), 0);
    cr_assert_eq(len, 0);
    cr_assert_eq(store_meta_get(k.store, "counters", out, 7, &len), WARM_ETOO_BIG);
    char big[4097] = "";
    cr_assert_eq(store_meta_put(k.store, "big", big, sizeof big), WARM_ETOO_BIG);
    cr_assert_eq(kit_stats(&k).n_entries, 0, "not counted");
}

Test(store, second_opening_is_refused_and_names_the_process)
{
    struct store *second;
    struct err e;
    char pid[32];
    cr_assert_eq(store_open(&second, &k.config, &e), WARM_EBUSY);
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    cr_assert_not_null(strstr(e.text, pid), "%s", e.text);

    char *alias = path_join(k.dir, "alias"); /* the same folder by another name */
    cr_assert_eq(symlink(k.dir, alias), 0);
    struct store_config config = k.config;
    config.dir = alias;
    cr_assert_eq(store_open(&second, &config, &e), WARM_EBUSY);
    unlink(alias);
    free(alias);
    cr_assert_eq(kit_put(&k, HERE, 1, SMALL), 0, "the first goes on");
}

Test(store, folder_that_is_none_is_an_error_with_its_name)
{
    struct store *second;
    struct err e;
    char *file = path_join(k.dir, "file");
    file_write(file, "x", 1);
    struct store_config config = k.config;
    config.dir = file;
    cr_assert_eq(store_open(&second, &config, &e), WARM_EIO);
    cr_assert_not_null(strstr(e.text, file), "%s", e.text);
    config.dir = "/proc/no-such-folder/store";
    cr_assert_eq(store_open(&second, &config, &e), WARM_EIO);
    free(file);
}

Test(store, served_descriptor_cannot_be_written_through)
{
    struct store_value v;
    struct store_id id = kit_id(HERE, 1);
    struct stat st;
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    cr_assert_eq(store_get(k.store, &id, &v, NULL), 0);
    cr_assert_eq(fcntl(v.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    cr_assert_eq(write(v.fd, "x", 1), -1);
    cr_assert_eq(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, v.fd, 0), MAP_FAILED);
    cr_assert_eq(fstat(v.fd, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0400);
}

Test(store, value_that_is_being_read_outlives_its_entry)
{
    struct store_value v;
    struct store_id id = kit_id(HERE, 1);
    char *have = malloc(LARGE);
    uint8_t *want = kit_value(1, 0, LARGE);
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    cr_assert_eq(store_get(k.store, &id, &v, NULL), 0);
    int fd = dup(v.fd);
    const uint8_t *map = mmap(NULL, LARGE, PROT_READ, MAP_SHARED, fd, 0);
    cr_assert_neq(map, MAP_FAILED);
    cr_assert_eq(kit_remove(&k, HERE, 1), 0);
    kit_close(&k);
    cr_assert_eq(pread(fd, have, LARGE, 0), LARGE);
    cr_assert_eq(memcmp(have, want, LARGE), 0);
    cr_assert_eq(memcmp(map, want, LARGE), 0);
    munmap((void *)(uintptr_t)map, LARGE);
    close(fd);
    free(have);
    free(want);
}

Test(store, what_is_asked_for_one_id_happens_in_that_order)
{
    for (uint64_t round = 0; round < 20; round++) {
        uint8_t *large = kit_value(1, 2 * round, LARGE),
                *small = kit_value(1, 2 * round + 1, SMALL);
        struct store_put put = kit_put_of(&k, HERE, 1, LARGE);
        struct store_id id = kit_id(HERE, 1);
        put.on_done = NULL;
        put.data = large; /* takes the way through the copier, */
        cr_assert_eq(store_put(k.store, &put, NULL), 0);
        if (round % 2) /* and this must not overtake it there */
            cr_assert_eq(store_remove(k.store, &id, 1, NULL, NULL, NULL), 0);
        put.data = small;
        put.row.len = SMALL;
        put.on_done = kit_on_done;
        cr_assert_eq(kit_put_with(&k, &put), 0);
        cr_assert_eq(kit_get_version(&k, HERE, 1, 2 * round + 1), 0);
        free(large);
        free(small);
    }
    cr_assert_eq(kit_files(&k, "blobs"), 0);
}

static int status_in_callback;

static void on_done_get(void *arg, int status, bool existed, const struct err *e)
{
    struct store_value v;
    struct store_id id = kit_id(HERE, 1);
    status_in_callback = store_get(k.store, &id, &v, NULL);
    kit_on_done(arg, status, existed, e);
}

Test(store, entry_is_found_from_the_callback_of_its_put)
{
    struct store_id id = kit_id(HERE, 1);
    struct store_value v;
    cr_assert_eq(store_get(k.store, &id, &v, NULL), WARM_ENOT_FOUND); /* begins a turn */
    struct store_put put = kit_put_of(&k, HERE, 1, 4);
    put.data = "four";
    put.on_done = on_done_get;
    status_in_callback = 1;
    cr_assert_eq(kit_put_with(&k, &put), 0);
    cr_assert_eq(status_in_callback, 0);
}

Test(store, closing_commits_what_is_queued)
{
    for (uint64_t n = 0; n < 50; n++) {
        uint8_t *value = kit_value(n, 0, n % 5 ? SMALL : LARGE);
        struct store_put put = kit_put_of(&k, HERE, n, n % 5 ? SMALL : LARGE);
        put.data = value;
        cr_assert_eq(store_put(k.store, &put, NULL), 0);
        free(value);
    }
    kit_reopen(&k);
    cr_assert(!k.done, "no callback runs from store_close");
    for (uint64_t n = 0; n < 50; n++)
        cr_assert_eq(kit_get(&k, HERE, n), 0);
}

static int prepared;

static void on_prepared(void *arg, int status)
{
    prepared = status;
    *(bool *)arg = true;
}

Test(store, large_blob_can_be_verified_off_the_loop)
{
    struct store_value v;
    struct store_id id = kit_id(HERE, 1);
    bool done = false;
    cr_assert_eq(kit_put(&k, HERE, 1, 3u << 20), 0);
    cr_assert_eq(kit_get(&k, HERE, 1), 0, "just written: known to be right");
    k.config.async_check_bytes = 1u << 20;
    kit_reopen(&k);
    cr_assert_eq(store_get(k.store, &id, &v, NULL), WARM_EBUSY);
    cr_assert_eq(store_prepare(k.store, &id, on_prepared, &done, NULL), 0);
    kit_wait(&k, &done);
    cr_assert_eq(prepared, 0);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    struct store_id none = kit_id(HERE, 2);
    cr_assert_eq(store_prepare(k.store, &none, on_prepared, &done, NULL), WARM_ENOT_FOUND);
}

Test(store, verify_reads_every_entry_and_finds_nothing_wrong)
{
    for (size_t i = 0; i < N_LENS; i++)
        cr_assert_eq(kit_put(&k, i % 2 ? HERE : 1000, i, lens[i]), 0);
    cr_assert_eq(kit_verify(&k, 0), 0);
    cr_assert_eq(k.report.n_entries, N_LENS);
    cr_assert_eq(k.report.n_bytes, kit_stats(&k).n_bytes);
    cr_assert_eq(k.report.n_corrupt, 0);
    cr_assert_eq(kit_verify(&k, 5), 0);
    cr_assert_eq(k.report.n_entries, 5);
}

Test(store, suspicion_of_a_sound_entry_removes_nothing)
{
    static const size_t both[] = {SMALL, LARGE};
    for (uint64_t i = 0; i < 2; i++) {
        struct store_id id = kit_id(HERE, i);
        cr_assert_eq(kit_put(&k, HERE, i, both[i]), 0);
        for (int times = 0; times < 100; times++)
            store_suspect(k.store, &id);
        cr_assert_eq(kit_put(&k, HERE, 9, SMALL), 0);
        cr_assert_eq(kit_get(&k, HERE, i), 0);
    }
    kit_reopen(&k);
    cr_assert_eq(kit_stats(&k).n_corrupt, 0);
    cr_assert_eq(kit_get(&k, HERE, 0), 0);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
}

Test(store, what_its_user_refused_goes_to_quarantine)
{
    static const size_t both[] = {SMALL, LARGE};
    for (uint64_t i = 0; i < 2; i++) {
        struct store_id id = kit_id(HERE, i);
        struct store_row row;
        cr_assert_eq(kit_put(&k, HERE, i, both[i]), 0);
        cr_assert_eq(store_peek(k.store, &id, &row, NULL), 0);
        struct key another = row.check, check = row.check;
        another.bytes[0] ^= 1;
        store_refuse(k.store, &id, &another);
        cr_assert_eq(kit_put(&k, HERE, 9, SMALL), 0); /* by then the writer has seen it */
        cr_assert_eq(kit_get(&k, HERE, i), 0);
        store_refuse(k.store, &id, &check);
        cr_assert_eq(kit_put(&k, HERE, 9, SMALL), 0);
        cr_assert_eq(kit_get(&k, HERE, i), WARM_ENOT_FOUND);
        cr_assert_eq(kit_stats(&k).n_corrupt, i + 1);
        cr_assert_eq(kit_put(&k, HERE, i, both[i]), 0);
        cr_assert_eq(kit_get(&k, HERE, i), 0);
    }
}

Test(store, mark_of_suspicion_has_the_index_checked_and_written_anew)
{
    for (uint64_t n = 0; n < 500; n++)
        cr_assert_eq(kit_put(&k, n % 2 ? HERE : 1000, n, n * 50), 0);
    for (uint64_t n = 0; n < 500; n += 3)
        cr_assert_eq(kit_remove(&k, n % 2 ? HERE : 1000, n), 0);
    store_mark_suspect();
    char *mark = path_join(k.dir, "suspect"), *index = path_join(k.dir, "index/data.mdb");
    char *fresh = path_join(k.dir, "index.new");
    struct stat before, after;
    cr_assert_eq(access(mark, F_OK), 0);
    cr_assert_eq(stat(index, &before), 0);
    kit_reopen(&k);
    cr_assert_neq(access(mark, F_OK), 0);
    cr_assert_eq(stat(index, &after), 0);
    cr_assert_neq(before.st_ino, after.st_ino, "it was not written anew");
    cr_assert_neq(access(fresh, F_OK), 0);
    cr_assert(!kit_stats(&k).rebuilt, "%s", k.last_event);
    for (uint64_t n = 0; n < 500; n++)
        cr_assert_eq(kit_get(&k, n % 2 ? HERE : 1000, n), n % 3 ? 0 : WARM_ENOT_FOUND);
    free(mark), free(index), free(fresh);
}

static bool has_three_large(const struct store_stats *st) { return st->n_entries == 3; }

Test(store, lost_index_is_rebuilt_from_the_files)
{
    uint8_t *value = kit_value(9, 9, LARGE);
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    cr_assert_eq(kit_put(&k, HERE, 2, SMALL), 0);
    cr_assert_eq(put_bytes(1000, 3, value, LARGE), 0);
    cr_assert_eq(put_bytes(1000, 4, value, LARGE), 0); /* a second row of the same file */
    kit_close(&k);
    char *data = path_join(k.dir, "index/data.mdb");
    cr_assert_eq(unlink(data), 0);
    kit_open(&k);
    kit_until(&k, has_three_large);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    cr_assert_eq(kit_get(&k, HERE, 2), WARM_ENOT_FOUND, "inline values are in the index");
    cr_assert(has_bytes(1000, 3, value, LARGE));
    cr_assert(has_bytes(1000, 4, value, LARGE));
    cr_assert_eq(kit_files(&k, "blobs"), 2);
    cr_assert_eq(kit_remove(&k, 1000, 3), 0);
    cr_assert_eq(kit_remove(&k, 1000, 4), 0);
    cr_assert_eq(kit_files(&k, "blobs"), 1, "references were counted again");
    free(value);
    free(data);
}

Test(store, leftovers_of_a_crash_are_swept)
{
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    char *blob = kit_blob_path(&k);
    size_t len;
    char *bytes = file_read(blob, &len);
    char *orphan = strdup(blob);
    orphan[strlen(orphan) - 1] ^= 1; /* the last hex digit: another name in the same folder */
    kit_close(&k);
    file_write(orphan, bytes, len);
    char *left = path_join(k.dir, "tmp/0-put-0");
    file_write(left, bytes, len);
    kit_open(&k);
    for (int i = 0; i < 30000 && (kit_files(&k, "blobs") > 1 || kit_files(&k, "tmp") > 0); i++)
        usleep(1000);
    cr_assert_eq(kit_files(&k, "blobs"), 1);
    kit_until_files(&k, "tmp", 0);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    free(left);
    free(orphan);
    free(bytes);
    free(blob);
}

/* ---- against a model ---- */

#define MODEL 64u
struct model {
    bool there;
    uint64_t version, len;
};

static uint64_t random_step(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void check_model(const struct model *m)
{
    uint64_t n_entries = 0, n_bytes = 0, n_blobs = 0;
    for (uint64_t n = 0; n < MODEL; n++) {
        cr_assert_eq(kit_get_version(&k, HERE, n, m[n].version), m[n].there ? 0 : WARM_ENOT_FOUND);
        n_entries += m[n].there;
        n_bytes += m[n].there ? m[n].len : 0;
        n_blobs += m[n].there && m[n].len > STORE_INLINE_MAX;
    }
    cr_assert_eq(kit_stats(&k).n_entries, n_entries);
    cr_assert_eq(kit_stats(&k).n_bytes, n_bytes);
    cr_assert_eq(kit_stats(&k).kind_entries[STORE_CUBIN], n_entries);
    cr_assert_eq(kit_stats(&k).kind_bytes[STORE_CUBIN], n_bytes);
    cr_assert_eq(kit_files(&k, "blobs"), n_blobs);
}

Test(store, does_what_a_model_does)
{
    struct model m[MODEL] = {{0}};
    uint64_t state = 42;
    for (unsigned step = 1; step <= 1500; step++) {
        uint64_t n = random_step(&state) % MODEL, what = random_step(&state) % 10;
        if (what < 6) {
            uint64_t len = random_step(&state) % (what < 2 ? 120000 : 3000);
            cr_assert_eq(kit_put_version(&k, HERE, n, step, len), 0);
            m[n] = (struct model){true, step, len};
        } else if (what < 9) {
            cr_assert_eq(kit_remove(&k, HERE, n), 0);
            m[n].there = false;
        } else if (step % 50 == 0) {
            kit_reopen(&k);
        }
        if (step % 100 == 0)
            check_model(m);
    }
    check_model(m);
}

Test(store, a_snapshot_that_is_kept_for_the_next_turn_holds_no_old_pages)
{
    if (page_bytes() != 4096)
        cr_skip_test("its numbers are for pages of 4 KiB");
    enum { REPLACED = 400, LEN = 8192 };
    for (uint64_t version = 0; version < REPLACED; version++) {
        cr_assert_eq(kit_put_version(&k, HERE, 1, version, LEN), 0);
        cr_assert_eq(kit_get_version(&k, HERE, 1, version), 0, "what was committed is seen");
        store_turn_end(k.store);
    }
    cr_assert_lt(kit_stats(&k).disk_bytes, 100 * (uint64_t)LEN, "pages are used again");
}

/* As under `ulimit -v`, and under qemu-user, for which the map is memory. */
Test(store, a_process_short_of_address_space_has_a_smaller_map)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    cr_assert(statm && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    rlim_t room = pages * (rlim_t)sysconf(_SC_PAGESIZE) + 2048 * KIT_MIB;
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){room, room}), 0);
    k.config.index_bytes = 40960 * KIT_MIB;
    kit_reopen(&k);
    cr_expect_eq(kit_put(&k, HERE, 1, SMALL), 0);
    kit_reopen(&k);
    cr_expect_eq(kit_get(&k, HERE, 1), 0);
}

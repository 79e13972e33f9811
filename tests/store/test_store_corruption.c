/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_corruption.c - no damage to any file of a store makes it serve wrong bytes.
 *
 * Blobs, inline values and rows: a miss and quarantine. Index pages: a rebuild, or at worst one
 * crash, after which the next start finds the damage. What may crash runs in a child process that
 * handles fatal signals as the daemon does: store_mark_suspect, then die.
 *
 * WARM_TEST_FLIPS=1 flips each byte; otherwise a sample of them.
 */
#include <signal.h>
#include <sys/wait.h>

#include "tests/support/page_size.h"
#include "tests/support/store_kit.h"

#define HERE STORE_MADE_HERE
#define LARGE 70000
#define SMALL 3000
#define LABEL "a label that is found nowhere else"

static struct store_kit k;

static void begin(void) { kit_begin(&k, 64 * KIT_MIB); }
static void end(void) { kit_end(&k); }

TestSuite(store_corruption, .init = begin, .fini = end, .timeout = 600);

/* Returns the distance of two tries: odd, so that each place in a word has its turn. */
static size_t stride(size_t some)
{
    return getenv("WARM_TEST_FLIPS") ? 1 : getenv("WARM_TEST_ALL") ? some : 2 * some + 1;
}

/* Writes one byte of a file, whatever its mode; mtime and ctime change as they would. */
static void poke(const char *path, size_t at, uint8_t change)
{
    uint8_t byte;
    cr_assert_eq(chmod(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert(fd >= 0);
    cr_assert_eq(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= change;
    cr_assert_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
    cr_assert_eq(chmod(path, 0400), 0);
}

/* Waits until the writer has done the work that a get has queued. */
static void settle(void) { cr_assert_eq(kit_put(&k, 4242, 1, 1), 0); }

static bool has_corrupt(const struct store_stats *st) { return st->n_corrupt > 0; }

/* ---- blobs ---- */

static void expect_quarantine(uint64_t n)
{
    cr_assert_eq(kit_get(&k, HERE, n), WARM_ECORRUPT);
    settle();
    cr_assert_eq(kit_get(&k, HERE, n), WARM_ENOT_FOUND);
    cr_assert_eq(kit_files(&k, "blobs"), 0);
}

Test(store_corruption, each_kind_of_byte_of_a_blob)
{
    uint64_t corrupt = 0;
    for (size_t at = 0; at < LARGE; at += stride(1777)) {
        cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
        cr_assert_eq(kit_get(&k, HERE, 1), 0);
        char *path = kit_blob_path(&k);
        poke(path, at, (uint8_t)(1u << at % 8));
        expect_quarantine(1);
        cr_assert_eq(kit_stats(&k).n_corrupt, ++corrupt);
        free(path);
    }
    size_t kept = kit_files(&k, "quarantine");
    cr_assert(kept > 0 && kept <= 32, "%zu files in quarantine", kept);
}

Test(store_corruption, flipped_blob_is_found_by_the_first_hit_after_opening)
{
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    char *path = kit_blob_path(&k);
    kit_close(&k);
    poke(path, LARGE / 2, 1);
    kit_open(&k);
    expect_quarantine(1);
    free(path);
}

Test(store_corruption, trailer_of_a_blob_does_not_matter_to_its_value)
{
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    char *path = kit_blob_path(&k);
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_gt(st.st_size, LARGE);
    for (size_t at = LARGE; at < (size_t)st.st_size; at += stride(5)) {
        poke(path, at, 0x40);
        cr_assert_eq(kit_get(&k, HERE, 1), 0);
    }
    cr_assert(chmod(path, 0600) == 0 && truncate(path, LARGE) == 0 && chmod(path, 0400) == 0);
    cr_assert_eq(kit_get(&k, HERE, 1), 0);
    free(path);
}

Test(store_corruption, each_truncation_of_a_blob)
{
    static const off_t cuts[] = {0, 1, 4095, 4096, 65536, LARGE - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
        char *path = kit_blob_path(&k);
        if (i % 2)
            kit_close(&k);
        chmod(path, 0600);
        cr_assert_eq(truncate(path, cuts[i]), 0);
        if (i % 2)
            kit_open(&k);
        expect_quarantine(1);
        free(path);
    }
}

Test(store_corruption, swapped_blobs)
{
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    char *first = kit_blob_path(&k);
    char *aside = path_join(k.dir, "aside");
    size_t len;
    char *bytes = file_read(first, &len);
    kit_close(&k);
    cr_assert_eq(rename(first, aside), 0);
    kit_open(&k);
    cr_assert_eq(kit_put(&k, HERE, 2, LARGE), 0);
    char *second = kit_blob_path(&k);
    kit_close(&k);
    cr_assert_eq(rename(second, first), 0);
    cr_assert_eq(rename(aside, second), 0);
    kit_open(&k);
    cr_assert_eq(kit_get(&k, HERE, 1), WARM_ECORRUPT);
    cr_assert_eq(kit_get(&k, HERE, 2), WARM_ECORRUPT);
    free(bytes);
    free(first);
    free(second);
    free(aside);
}

Test(store_corruption, blob_that_is_gone_or_no_file_is_a_miss)
{
    for (int what = 0; what < 3; what++) {
        cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
        char *path = kit_blob_path(&k);
        kit_close(&k);
        cr_assert_eq(unlink(path), 0);
        if (what == 1)
            cr_assert_eq(mkdir(path, 0700), 0);
        if (what == 2)
            cr_assert_eq(symlink("/dev/zero", path), 0);
        kit_open(&k);
        int rc = kit_get(&k, HERE, 1);
        cr_assert(rc == WARM_ENOT_FOUND || rc == WARM_ECORRUPT || rc == WARM_EIO, "%d", rc);
        settle();
        cr_assert_eq(kit_get(&k, HERE, 1), WARM_ENOT_FOUND);
        cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0, "and can be made anew");
        cr_assert_eq(kit_get(&k, HERE, 1), 0);
        cr_assert_eq(kit_remove(&k, HERE, 1), 0);
        free(path);
    }
}

Test(store_corruption, verify_finds_what_no_hit_has_touched)
{
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    char *path = kit_blob_path(&k);
    poke(path, 100, 1);
    cr_assert_eq(kit_verify(&k, 0), 0);
    cr_assert_eq(k.report.n_corrupt, 1);
    kit_until(&k, has_corrupt);
    cr_assert_eq(kit_get(&k, HERE, 1), WARM_ENOT_FOUND);
    free(path);
}

Test(store_corruption, client_that_read_wrong_bytes_is_believed_after_a_look)
{
    struct store_id id = kit_id(HERE, 1);
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    char *path = kit_blob_path(&k);
    poke(path, 100, 1);
    store_suspect(k.store, &id);
    kit_until(&k, has_corrupt);
    cr_assert_eq(kit_get(&k, HERE, 1), WARM_ENOT_FOUND);
    free(path);
}

Test(store_corruption, damaged_trailers_cost_a_rebuild_at_most_the_entry)
{
    for (size_t at = 0; at < 400; at += stride(23)) {
        cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
        char *path = kit_blob_path(&k);
        struct stat st;
        cr_assert_eq(stat(path, &st), 0);
        kit_close(&k);
        if (LARGE + at < (size_t)st.st_size)
            poke(path, LARGE + at, 0x10);
        char *data = path_join(k.dir, "index/data.mdb");
        cr_assert_eq(unlink(data), 0);
        kit_open(&k);
        settle();
        for (int i = 0; i < 5000; i++) { /* adopted, or swept away */
            int rc = kit_get(&k, HERE, 1);
            cr_assert(rc == 0 || rc == WARM_ENOT_FOUND);
            if (rc == 0 || kit_files(&k, "blobs") == 0)
                break;
            usleep(1000);
        }
        free(data);
        free(path);
    }
}

/* ---- records in the index ---- */

static void fill_index(void)
{
    for (uint64_t n = 0; n < 40; n++)
        cr_assert_eq(kit_put(&k, n % 4 ? HERE : 1000, n, n % 10 ? 50 + 71 * n : SMALL), 0);
}

/* All entries of fill_index but one are there and right. */
static void check_others(uint64_t but)
{
    for (uint64_t n = 0; n < 40; n++)
        if (n != but)
            cr_assert_eq(kit_get(&k, n % 4 ? HERE : 1000, n), 0, "entry %" PRIu64, n);
}

static char *data_path(void) { return path_join(k.dir, "index/data.mdb"); }

/* Flips bits in the last copy of `needle` in the closed index, `at` bytes into it. */
static void poke_index(const void *needle, size_t needle_len, size_t at, uint8_t change)
{
    size_t len;
    char *path = data_path(), *bytes = file_read(path, &len), *found = NULL;
    for (char *p = bytes; (p = memmem(p, len - (size_t)(p - bytes), needle, needle_len)); p++) {
        found = p;
        found[at] ^= (char)change; /* older copies, in free pages, too */
    }
    cr_assert_not_null(found);
    file_write(path, bytes, len);
    free(bytes);
    free(path);
}

Test(store_corruption, each_kind_of_byte_of_an_inline_value)
{
    fill_index();
    uint8_t *value = kit_value(10, 0, SMALL);
    for (size_t at = 0; at < SMALL; at += stride(299)) {
        kit_close(&k);
        poke_index(value + (at < 100 ? 0 : at - 100), 101, at < 100 ? at : 100, 0x80);
        kit_open(&k);
        cr_assert_eq(kit_get(&k, HERE, 10), WARM_ECORRUPT);
        settle();
        cr_assert_eq(kit_get(&k, HERE, 10), WARM_ENOT_FOUND);
        check_others(10);
        cr_assert_eq(kit_put(&k, HERE, 10, SMALL), 0);
    }
    cr_assert_eq(kit_stats(&k).n_entries, 41);
    free(value);
}

static void put_labelled(uint64_t n, size_t len)
{
    uint8_t *value = kit_value(n, 0, len);
    struct store_put put = kit_put_of(&k, HERE, n, len);
    put.data = value;
    put.row.label = (struct view){LABEL, strlen(LABEL)};
    cr_assert_eq(kit_put_with(&k, &put), 0);
    free(value);
}

/* The row's bytes lie before its label: 96 fixed ones, 32 of content, 8 of text lengths. */
static void flip_rows(size_t len, size_t row_before_label)
{
    fill_index();
    for (size_t at = 0; at < row_before_label + strlen(LABEL) + 8; at += stride(7)) {
        put_labelled(10, len);
        uint64_t n_bytes = kit_stats(&k).n_bytes;
        kit_close(&k);
        poke_index(LABEL, strlen(LABEL), at - row_before_label, (uint8_t)(1u << at % 8));
        kit_open(&k);
        cr_assert_eq(kit_get(&k, HERE, 10), WARM_ECORRUPT, "byte %zu of the row", at);
        settle();
        cr_assert_eq(kit_get(&k, HERE, 10), WARM_ENOT_FOUND);
        check_others(10);
        cr_assert_eq(kit_stats(&k).n_entries, 40, "byte %zu of the row", at);
        if (len <= STORE_INLINE_MAX)
            cr_assert_eq(kit_stats(&k).n_bytes, n_bytes - len + (at == 0));
        for (int i = 0; i < 10000 && kit_files(&k, "blobs") > 0; i++)
            usleep(1000);
        cr_assert_eq(kit_files(&k, "blobs"), 0, "byte %zu of the row", at);
        put_labelled(10, len);
        cr_assert_eq(kit_get(&k, HERE, 10), 0);
    }
}

Test(store_corruption, each_byte_of_a_row_with_an_inline_value) { flip_rows(SMALL, 96 + 8); }

Test(store_corruption, each_byte_of_a_row_with_a_blob) { flip_rows(LARGE, 96 + 32 + 8); }

Test(store_corruption, row_of_another_entry_is_not_believed)
{
    cr_assert_eq(kit_put_version(&k, HERE, 1, 1, 64), 0);
    cr_assert_eq(kit_put_version(&k, HERE, 2, 2, 64), 0);
    kit_close(&k);
    /* Give each entry the other's key in the tables: their rows now say something else. */
    size_t len;
    char *path = data_path(), *bytes = file_read(path, &len);
    struct store_id ids[2] = {kit_id(HERE, 1), kit_id(HERE, 2)};
    for (size_t i = 0; i + 24 <= len; i++) {
        bool is_table_key = memcmp(bytes + i, "\xff\xff\xff\xfe", 4) == 0;
        for (size_t j = 0; is_table_key && j < 2; j++)
            if (memcmp(bytes + i + 4, ids[j].key.bytes, 16) == 0) {
                memcpy(bytes + i + 4, ids[1 - j].key.bytes, 16);
                break;
            }
    }
    file_write(path, bytes, len);
    kit_open(&k);
    for (uint64_t n = 1; n <= 2; n++) {
        int rc = kit_get_version(&k, HERE, n, n); /* aborts on wrong bytes */
        cr_assert_neq(rc, 0);
    }
    free(bytes);
    free(path);
}

/* ---- pages of the index ---- */

static void on_fatal(int sig)
{
    store_mark_suspect();
    signal(sig, SIG_DFL);
    raise(sig);
}

enum { RIGHT = 0, SANITIZER = 1, WRONG_BYTES = 3, NOT_SERVING = 4 };

static int get_all(struct store_kit *child, uint64_t from, uint64_t to, bool must)
{
    for (uint64_t n = from; n < to; n++) {
        struct store_value v;
        struct store_id id = kit_id(n % 4 ? HERE : 1000, n);
        int rc = store_get(child->store, &id, &v, NULL);
        if (rc == 0 && !kit_is_value(&v, n, 0))
            return WRONG_BYTES;
        if (rc != 0 && must)
            return NOT_SERVING;
        store_turn_end(child->store);
    }
    return RIGHT;
}

/* Puts entries 100 to 129, and waits for the last. */
static int put_new(struct store_kit *child)
{
    child->done = false;
    for (uint64_t n = 100; n < 130; n++) {
        uint8_t value[SMALL];
        struct store_put put = kit_put_of(child, n % 4 ? HERE : 1000, n, n % 10 ? 100 : SMALL);
        kit_fill(value, n, 0, (size_t)put.row.len);
        put.data = value;
        put.on_done = n == 129 ? kit_on_done : NULL;
        if (store_put(child->store, &put, NULL) != 0)
            return NOT_SERVING;
    }
    kit_wait(child, &child->done);
    return child->status == 0 ? RIGHT : NOT_SERVING;
}

/* Opens the store, reads everything, writes and reads more. In a child; the exit status says what
 * came of it, a signal that it crashed. */
static int use_store(bool must_serve_new)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct store_kit child;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], on_fatal);
    alarm(60);
    kit_begin_in(&child, 64 * KIT_MIB, k.dir);
    if (kit_try_open(&child) != 0)
        return NOT_SERVING;
    int rc = get_all(&child, 0, 40, false);
    rc = rc ? rc : put_new(&child);
    rc = rc ? rc : get_all(&child, 100, 130, must_serve_new);
    rc = rc ? rc : get_all(&child, 0, 40, false);
    store_close(child.store);
    return rc;
}

static int in_child(bool must_serve_new)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2); /* LMDB and sanitizers say why they abort */
        _exit(use_store(must_serve_new));
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void mark_suspect(void)
{
    char *mark = path_join(k.dir, "suspect");
    file_write(mark, "", 0);
    free(mark);
}

/* With the index damaged: nothing wrong is served, and after at most one crash all is well. True if
 * there was a crash. */
static bool expect_recovery(const char *what, size_t at)
{
    int status = in_child(false);
    bool crashed = WIFSIGNALED(status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SANITIZER) {
        mark_suspect(); /* a sanitizer saw LMDB go astray, and ended it before a signal could */
        crashed = true;
    }
    cr_assert(crashed || WEXITSTATUS(status) == RIGHT, "%s %zu: exit %d", what, at,
              WEXITSTATUS(status));
    if (!crashed)
        return false;
    status = in_child(true);
    cr_assert(WIFEXITED(status), "%s %zu: crashed twice, signal %d", what, at, WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), RIGHT, "%s %zu: exit %d", what, at, WEXITSTATUS(status));
    return true;
}

/* A fresh copy of the same healthy store for each try. */
static void restore(const char *path, const char *bytes, size_t len)
{
    char *lock = path_join(k.dir, "index/lock.mdb"), *mark = path_join(k.dir, "suspect");
    char *command;
    unlink(lock);
    unlink(mark);
    cr_assert(asprintf(&command, "rm -rf %s/index.broken-*", k.dir) > 0);
    cr_assert_eq(system(command), 0);
    file_write(path, bytes, len);
    free(command);
    free(lock);
    free(mark);
}

Test(store_corruption, each_kind_of_byte_of_an_index_page)
{
    fill_index();
    for (uint64_t n = 0; n < 40; n += 3) /* some free pages, too */
        cr_assert_eq(kit_put(&k, n % 4 ? HERE : 1000, n, n % 10 ? 50 + 71 * n : SMALL), 0);
    kit_close(&k);
    size_t len, crashes = 0, n = 0;
    char *path = data_path(), *bytes = file_read(path, &len);
    for (size_t page = 0; page < len; page += page_bytes())
        for (size_t in = 0; in < page_bytes(); in += stride(in < 128 ? 7 : 1021)) {
            char was = bytes[page + in];
            bytes[page + in] ^= (char)(0x11 << in % 4);
            restore(path, bytes, len);
            crashes += expect_recovery("byte", page + in);
            bytes[page + in] = was;
            n++;
        }
    cr_log_info("%zu flips, %zu crashes", n, crashes);
    free(bytes);
    free(path);
}

Test(store_corruption, each_truncation_of_the_index)
{
    fill_index();
    kit_close(&k);
    size_t len;
    char *path = data_path(), *bytes = file_read(path, &len);
    for (size_t cut = 0; cut < len; cut += stride(cut < 8192 ? 601 : 2048)) {
        restore(path, bytes, cut);
        expect_recovery("cut at", cut);
    }
    free(bytes);
    free(path);
}

Test(store_corruption, index_of_rubbish_is_set_aside_and_service_goes_on)
{
    cr_assert_eq(kit_put(&k, HERE, 1, LARGE), 0);
    kit_close(&k);
    char *path = data_path();
    char rubbish[20000];
    memset(rubbish, 0x5a, sizeof rubbish);
    file_write(path, rubbish, sizeof rubbish);
    kit_open(&k);
    cr_assert(kit_stats(&k).rebuilt);
    cr_assert_eq(k.n_events > 0, true);
    cr_assert_eq(kit_put(&k, HERE, 2, SMALL), 0, "new puts work at once");
    cr_assert_eq(kit_get(&k, HERE, 2), 0);
    for (int i = 0; i < 10000 && kit_get(&k, HERE, 1) != 0; i++)
        usleep(1000);
    cr_assert_eq(kit_get(&k, HERE, 1), 0, "the blob was adopted");
    free(path);
}

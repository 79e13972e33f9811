/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_kit.c - uses a store as if it had no threads: each call waits until the store has done it. The
 * suites of the store call it. Each test has a folder of its own.
 *
 * Thread: the test's own; the store's threads call on_wake and on_event.
 */
#include "tests/support/store_kit.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/support.h"

static void kit_on_wake(void *arg) { sem_post(&((struct store_kit *)arg)->woken); }

static void kit_on_event(void *arg, const char *line)
{
    struct store_kit *k = arg;
    snprintf(k->last_event, sizeof k->last_event, "%s", line);
    k->n_events++;
    if (getenv("WARM_TEST_EVENTS"))
        fprintf(stderr, "event: %s\n", line);
}

int kit_try_open(struct store_kit *k)
{
    struct err e = {0};
    int rc = store_open(&k->store, &k->config, &e);
    if (rc != 0)
        snprintf(k->last_event, sizeof k->last_event, "%s", e.text);
    return rc;
}

void kit_open(struct store_kit *k)
{
    cr_assert_eq(kit_try_open(k), 0, "store_open: %s", k->last_event);
}

void kit_begin_in(struct store_kit *k, uint64_t max_bytes, char *dir)
{
    memset(k, 0, sizeof *k);
    k->dir = dir;
    sem_init(&k->woken, 0, 0);
    k->config = (struct store_config){.dir = k->dir,
                                      .max_bytes = max_bytes,
                                      .on_wake = kit_on_wake,
                                      .on_wake_arg = k,
                                      .on_event = kit_on_event,
                                      .on_event_arg = k};
}

void kit_begin(struct store_kit *k, uint64_t max_bytes)
{
    kit_begin_in(k, max_bytes, memory_dir_new());
    kit_open(k);
}

void kit_close(struct store_kit *k)
{
    if (k->store)
        store_close(k->store);
    k->store = NULL;
}

void kit_reopen(struct store_kit *k)
{
    kit_close(k);
    kit_open(k);
}

void kit_end(struct store_kit *k)
{
    kit_close(k);
    temp_dir_free(k->dir);
    sem_destroy(&k->woken);
}

void kit_wait(struct store_kit *k, const bool *flag)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += KIT_WAIT_S;
    for (store_poll(k->store); !*flag; store_poll(k->store))
        while (sem_timedwait(&k->woken, &until) != 0)
            cr_assert_eq(errno, EINTR, "the store does not answer");
}

struct store_id kit_id(uint32_t owner, uint64_t n)
{
    return (struct store_id){owner, key_of_bytes(&n, sizeof n)};
}

void kit_fill(uint8_t *out, uint64_t n, uint64_t version, size_t len)
{
    uint64_t x = (n * 0x9e3779b97f4a7c15u) ^ (version + 1) * 0xd1342543de82ef95u;
    for (size_t i = 0; i < len; i++) {
        if (i % 8 == 0)
            x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] = (uint8_t)(x >> (8 * (i % 8)));
    }
}

uint8_t *kit_value(uint64_t n, uint64_t version, size_t len)
{
    uint8_t *value = malloc(len ? len : 1);
    cr_assert_not_null(value);
    kit_fill(value, n, version, len);
    return value;
}

void kit_on_done(void *arg, int status, bool existed, const struct err *e)
{
    struct store_kit *k = arg;
    k->done = true;
    k->status = status;
    k->existed = existed;
    if (e)
        snprintf(k->last_event, sizeof k->last_event, "%s", e->text);
}

void kit_on_report(void *arg, int status, const struct store_report *r, const struct err *e)
{
    struct store_kit *k = arg;
    (void)e;
    k->done = true;
    k->status = status;
    k->report = *r;
}

/* Waits for the end of what `code` began. Returns its status, or the error that kept it from beginning. */
static int end_of(struct store_kit *k, int code)
{
    if (code != 0)
        return code;
    kit_wait(k, &k->done);
    return k->status;
}

struct store_put kit_put_of(struct store_kit *k, uint32_t owner, uint64_t n, size_t len)
{
    struct store_put put = {.fd = -1, .on_done = kit_on_done, .arg = k};
    put.row.id = kit_id(owner, n);
    put.row.kind = STORE_CUBIN;
    put.row.maker = owner == STORE_MADE_HERE ? 0 : owner;
    put.row.len = len;
    put.row.cost_ms = 100;
    return put;
}

int kit_put_with(struct store_kit *k, const struct store_put *put)
{
    struct err e;
    k->done = false;
    return end_of(k, store_put(k->store, put, &e));
}

int kit_put_version(struct store_kit *k, uint32_t owner, uint64_t n, uint64_t version, size_t len)
{
    struct store_put put = kit_put_of(k, owner, n, len);
    uint8_t *value = kit_value(n, version, len);
    put.data = value;
    int rc = kit_put_with(k, &put);
    free(value);
    return rc;
}

int kit_put(struct store_kit *k, uint32_t owner, uint64_t n, size_t len)
{
    return kit_put_version(k, owner, n, 0, len);
}

bool kit_is_value(const struct store_value *v, uint64_t n, uint64_t version)
{
    size_t len = (size_t)v->row.len;
    uint8_t *want = kit_value(n, version, len);
    uint8_t *have = malloc(len ? len : 1);
    cr_assert_not_null(have);
    if (v->data)
        memcpy(have, v->data, len);
    else
        cr_assert_eq(pread(v->fd, have, len, 0), (ssize_t)len);
    bool same = memcmp(want, have, len) == 0;
    free(want);
    free(have);
    return same;
}

int kit_get_version(struct store_kit *k, uint32_t owner, uint64_t n, uint64_t version)
{
    struct store_value v;
    struct err e;
    struct store_id id = kit_id(owner, n);
    int rc = store_get(k->store, &id, &v, &e);
    if (rc == 0)
        cr_assert(kit_is_value(&v, n, version), "wrong bytes for entry %" PRIu64, n);
    store_turn_end(k->store);
    return rc;
}

int kit_get(struct store_kit *k, uint32_t owner, uint64_t n)
{
    return kit_get_version(k, owner, n, 0);
}

int kit_remove(struct store_kit *k, uint32_t owner, uint64_t n)
{
    struct store_id id = kit_id(owner, n);
    struct err e;
    k->done = false;
    return end_of(k, store_remove(k->store, &id, 1, kit_on_report, k, &e));
}

int kit_pin(struct store_kit *k, uint32_t owner, uint64_t n, bool pinned)
{
    struct store_id id = kit_id(owner, n);
    struct err e;
    k->done = false;
    return end_of(k, store_pin(k->store, &id, 1, pinned, kit_on_report, k, &e));
}

int kit_evict(struct store_kit *k, const struct store_filter *f, uint64_t to_bytes, bool dry)
{
    struct err e;
    k->done = false;
    return end_of(k, store_evict(k->store, f, to_bytes, dry, kit_on_report, k, &e));
}

int kit_verify(struct store_kit *k, uint64_t sample)
{
    struct err e;
    k->done = false;
    return end_of(k, store_verify(k->store, sample, NULL, kit_on_report, k, &e));
}

struct store_stats kit_stats(struct store_kit *k)
{
    struct store_stats st;
    store_stats(k->store, &st);
    return st;
}

/* Waits until `cond` of the statistics holds; the writer thread changes them by itself. */
void kit_until(struct store_kit *k, kit_cond cond)
{
    for (unsigned i = 0; i < KIT_WAIT_S * 1000; i++) {
        struct store_stats st = kit_stats(k);
        if (cond(&st))
            return;
        struct timespec wait = {0, 1000000};
        nanosleep(&wait, NULL);
        store_poll(k->store);
    }
    cr_assert(false, "the store does not get there");
}

size_t kit_count_files(const char *dir, uint64_t *out_bytes)
{
    size_t n = 0;
    DIR *listing = opendir(dir);
    struct dirent *entry;
    while (listing && (entry = readdir(listing))) {
        struct stat st;
        if (entry->d_name[0] == '.')
            continue;
        char *path = path_join(dir, entry->d_name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            n += kit_count_files(path, out_bytes);
        } else {
            n++;
            *out_bytes += (uint64_t)st.st_blocks * 512;
        }
        free(path);
    }
    if (listing)
        closedir(listing);
    return n;
}

size_t kit_files(struct store_kit *k, const char *name)
{
    uint64_t bytes = 0;
    char *path = path_join(k->dir, name);
    size_t n = kit_count_files(path, &bytes);
    free(path);
    return n;
}

void kit_until_files(struct store_kit *k, const char *name, size_t n)
{
    for (unsigned i = 0; kit_files(k, name) != n; i++) {
        cr_assert(i < KIT_WAIT_S * 1000, "%s still has %d files", name, (int)kit_files(k, name));
        usleep(1000);
    }
}

char *kit_only_file(const char *dir)
{
    char *found = NULL;
    DIR *listing = opendir(dir);
    struct dirent *entry;
    while (!found && listing && (entry = readdir(listing))) {
        struct stat st;
        if (entry->d_name[0] == '.')
            continue;
        char *path = path_join(dir, entry->d_name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            found = kit_only_file(path);
            free(path);
        } else {
            found = path;
        }
    }
    if (listing)
        closedir(listing);
    return found;
}

char *kit_blob_path(struct store_kit *k)
{
    char *blobs = path_join(k->dir, "blobs");
    char *path = kit_only_file(blobs);
    free(blobs);
    cr_assert_not_null(path);
    return path;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_kit.h - a store in a folder of its own, used as if it had no threads: each call waits
 * until the store has done it. Entries are numbered. An entry's value follows from its number, a
 * version and a length: a test knows the right bytes without keeping them.
 *
 * Thread: the test's own. Memory: kit_end frees what kit_begin made.
 */
#ifndef WARM_TESTS_SUPPORT_STORE_KIT_H
#define WARM_TESTS_SUPPORT_STORE_KIT_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"
#include "tests/support/support.h"

#define KIT_MIB (1ull << 20)
#define KIT_WAIT_S 60 /* for anything; reaching it fails the test */

struct store_kit {
    struct store *store;
    struct store_config config;
    char *dir;
    sem_t woken;
    atomic_int n_events;
    char last_event[512]; /* or the text of the last error */
    /* of the last operation */
    bool done;
    int status;
    bool existed;
    struct store_report report;
};

/* ---- its life ---- */

/* Fills the kit with a configuration for `dir`, which it takes; opens nothing. */
void kit_begin_in(struct store_kit *k, uint64_t max_bytes, char *dir);
/* Makes a folder and opens a new store in it. */
void kit_begin(struct store_kit *k, uint64_t max_bytes);
/* Opens the store. Returns what store_open returns; an error's text is in last_event. */
int kit_try_open(struct store_kit *k);
/* Opens the store, which must work. */
void kit_open(struct store_kit *k);
/* Closes the store if it is open. */
void kit_close(struct store_kit *k);
/* Closes and opens it. */
void kit_reopen(struct store_kit *k);
/* Closes the store and removes its folder. */
void kit_end(struct store_kit *k);
/* Polls the store until *flag is true. */
void kit_wait(struct store_kit *k, const bool *flag);

/* ---- entries ---- */

/* Returns the id of entry n. */
struct store_id kit_id(uint32_t owner, uint64_t n);
/* Fills `out` with the first `len` bytes of entry n in a version. */
void kit_fill(uint8_t *out, uint64_t n, uint64_t version, size_t len);
/* Returns these bytes in memory; free() it. */
uint8_t *kit_value(uint64_t n, uint64_t version, size_t len);
/* True if the value is entry n in that version. */
bool kit_is_value(const struct store_value *v, uint64_t n, uint64_t version);

/* Returns a put of a cubin without bytes, which the caller may change before kit_put_with. */
struct store_put kit_put_of(struct store_kit *k, uint32_t owner, uint64_t n, size_t len);
/* Puts and waits. Returns 0 or the error. */
int kit_put_with(struct store_kit *k, const struct store_put *put);
/* Puts entry n in a version. */
int kit_put_version(struct store_kit *k, uint32_t owner, uint64_t n, uint64_t version, size_t len);
/* Puts entry n in version 0. */
int kit_put(struct store_kit *k, uint32_t owner, uint64_t n, size_t len);
/* Returns 0 if entry n is in the store with the right bytes, or store_get's error. Wrong bytes
 * fail the test. */
int kit_get_version(struct store_kit *k, uint32_t owner, uint64_t n, uint64_t version);
/* Does the same for version 0. */
int kit_get(struct store_kit *k, uint32_t owner, uint64_t n);
/* Removes entry n. Returns 0 or the error. */
int kit_remove(struct store_kit *k, uint32_t owner, uint64_t n);
/* Pins or unpins entry n. Returns 0 or the error. */
int kit_pin(struct store_kit *k, uint32_t owner, uint64_t n, bool pinned);

/* ---- the whole store ---- */

/* Evicts; the report is in the kit. Returns 0 or the error. */
int kit_evict(struct store_kit *k, const struct store_filter *f, uint64_t to_bytes, bool dry);
/* Verifies one of `sample` entries; the report is in the kit. Returns 0 or the error. */
int kit_verify(struct store_kit *k, uint64_t sample);
/* Returns the statistics. */
struct store_stats kit_stats(struct store_kit *k);
/* Waits until the statistics satisfy the condition; the writer thread changes them by itself. */
typedef bool (*kit_cond)(const struct store_stats *st);
void kit_until(struct store_kit *k, kit_cond cond);

/* ---- its folder ---- */

/* Returns the number of files below `dir`, and adds their bytes on disk to *out_bytes. */
size_t kit_count_files(const char *dir, uint64_t *out_bytes);
/* Returns the number of files below NAME in the store's folder. */
size_t kit_files(struct store_kit *k, const char *name);
/* Waits until there are `n` files below NAME: the store unlinks them later. */
void kit_until_files(struct store_kit *k, const char *name, size_t n);
/* Returns the path of some file below `dir`, NULL if there is none; free() it. */
char *kit_only_file(const char *dir);
/* Returns the path of the only blob; free() it. */
char *kit_blob_path(struct store_kit *k);

/* Notes status and `existed`: a callback for store_put, with the kit as its argument. */
void kit_on_done(void *arg, int status, bool existed, const struct err *e);
/* Notes a report: a callback for operations, with the kit as its argument. */
void kit_on_report(void *arg, int status, const struct store_report *r, const struct err *e);

#endif

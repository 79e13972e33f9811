/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.c - opens the LMDB environment and reads its tables. open.c, transaction.c and all readers of
 * entries call it. It decides which of LMDB's codes mean damage.
 *
 * LMDB's known traps, and our answers:
 *
 *   only one process, one open per file     flock in open.c, before this is called
 *   never across fork                       index_guard.c checks in a child before the parent opens
 *   resizing a map under readers            the map is reserved once, far too large (index_map_size)
 *   large values fragment the free list     nothing above STORE_INLINE_MAX goes in
 *   large transactions spill pages          CHANGE_PAGES_MAX
 *   a reader that stalls pins old pages     the loop's read transaction ends at the next commit; verify.c
 *                                           works in chunks; slots of dead processes are cleared each
 *                                           minute
 *   no page checksums                       every record has its own; index_guard.c; a code of damage
 *                                           leads to a rebuild (index_is_damage)
 *   MDB_NOSYNC, MDB_WRITEMAP                never: one loses the index at a power failure, the other
 *                                           lets a stray write into it
 *   a failed meta page write ends the       MDB_PANIC is damage too: the environment is reopened
 *   environment
 *   an assertion aborts the process         on_abort leaves a mark; the next start checks all entries
 *
 * Thread: see index.h.
 */
#include "store/index.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/clock.h"
#include "store/fault.h"
#include "store/table.h"

#define MAP_LEAST (64ull << 20)
#define MAP_STEP 65536u /* the largest page of a kernel that we run on */
#define INDEX_MODE 0600
#define PATH_BYTES 4096
static void on_assert(MDB_env *env, const char *text)
{
    const struct index *x = mdb_env_get_userctx(env);
    (void)text;
    if (x->on_abort)
        x->on_abort();
}

/* ---- codes ---- */

bool index_is_damage(int rc)
{
    switch (rc) {
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PANIC:
    case MDB_VERSION_MISMATCH:
    case MDB_INVALID:
    case MDB_CURSOR_FULL:
    case MDB_PAGE_FULL:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_DBI:
    case MDB_BAD_TXN:
    case MDB_BAD_VALSIZE:
    case MDB_MAP_RESIZED: /* a last page that lies outside the map */
    case EINVAL:          /* a page number or a length led a read or write to an impossible place */
    case EFAULT:
    case EOVERFLOW:
    case EFBIG: return true;
    default: return false;
    }
}

int index_error(int rc, struct err *e)
{
    if (rc == 0)
        return 0;
    if (rc < 0 && rc > -1000)
        return err_set(e, rc, "%s", err_text(rc));
    int code = WARM_EIO;
    if (rc == MDB_MAP_FULL || rc == ENOSPC || rc == EDQUOT)
        code = WARM_EFULL;
    else if (rc == ENOMEM)
        code = WARM_ENOMEM;
    else if (rc == MDB_NOTFOUND)
        code = WARM_ENOT_FOUND;
    else if (index_is_damage(rc))
        code = WARM_ECORRUPT;
    return err_set(e, code, "index: %s", mdb_strerror(rc));
}

/* ---- keys ---- */

void index_key(const struct store_id *id, uint8_t out[INDEX_KEY])
{
    owner_encode(id->owner, out);
    memcpy(out + 4, id->key.bytes, sizeof id->key.bytes);
}

/* ---- opening ---- */

/* Returns the size of the map: address space, not disk, and never resized. It is larger than asked if
 * the file came from a store with a larger cap. */
static size_t index_map_size(const char *path, uint64_t map_bytes)
{
    char file[PATH_BYTES + 16];
    struct stat st;
    snprintf(file, sizeof file, "%s/data.mdb", path);
    if (stat(file, &st) == 0 && (uint64_t)st.st_size + (st.st_size >> 1) > map_bytes)
        map_bytes = (uint64_t)st.st_size * 2;
    return (size_t)((map_bytes + MAP_STEP - 1) / MAP_STEP * MAP_STEP);
}

static int open_env(struct index *x, const char *path, size_t map_bytes)
{
    const unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | MDB_NOMETASYNC;
    int rc = fault_index();
    if (rc == 0)
        rc = mdb_env_create(&x->env);
    if (rc != 0)
        return rc;
    mdb_env_set_maxdbs(x->env, 8);
    mdb_env_set_userctx(x->env, x);
    mdb_env_set_assert(x->env, on_assert);
    rc = mdb_env_set_mapsize(x->env, map_bytes);
    return rc ? rc : mdb_env_open(x->env, path, flags, INDEX_MODE);
}

/* Takes a smaller map, for fewer entries, where address space is short: `ulimit -v`, qemu-user. */
static int open_env_that_fits(struct index *x, const char *path, uint64_t map_bytes)
{
    for (;; map_bytes /= 2) {
        x->map_bytes = index_map_size(path, map_bytes);
        int rc = open_env(x, path, (size_t)x->map_bytes);
        if (rc != ENOMEM || map_bytes < MAP_LEAST)
            return rc;
        index_close(x);
    }
}

static int open_tables(struct index *x, MDB_txn *txn, unsigned create)
{
    int rc = mdb_dbi_open(txn, "row", create, &x->row);
    rc = rc ? rc : mdb_dbi_open(txn, "value", create, &x->value);
    rc = rc ? rc : mdb_dbi_open(txn, "blob", create, &x->blob);
    rc = rc ? rc : mdb_dbi_open(txn, "group", create | MDB_DUPSORT | MDB_DUPFIXED, &x->group);
    rc = rc ? rc : mdb_dbi_open(txn, "usage", create, &x->usage);
    rc = rc ? rc : mdb_dbi_open(txn, "share", create, &x->share);
    return rc ? rc : mdb_dbi_open(txn, "meta", create, &x->meta);
}

int index_put_totals(struct index *x, MDB_txn *txn, const struct totals *totals)
{
    uint64_t numbers[TOTALS_NUMBERS];
    memcpy(numbers, totals, sizeof numbers);
    return numbers_put(txn, x->meta, name_val("totals"), numbers, TOTALS_NUMBERS);
}

_Static_assert(TOTALS_NUMBERS <= NUMBERS_MAX, "totals are one record");

static int make_tables(struct index *x)
{
    MDB_txn *txn;
    uint64_t format = INDEX_FORMAT, yes = 1;
    int rc = table_begin(x->env, 0, &txn);
    if (rc != 0)
        return rc;
    x->totals = (struct totals){0};
    x->adopting = true;
    rc = open_tables(x, txn, MDB_CREATE);
    rc = rc ? rc : numbers_put(txn, x->meta, name_val("format"), &format, 1);
    rc = rc ? rc : numbers_put(txn, x->meta, name_val("adopting"), &yes, 1);
    rc = rc ? rc : index_put_totals(x, txn, &x->totals);
    if (rc == 0)
        return table_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static int read_tables(struct index *x)
{
    MDB_txn *txn;
    uint64_t adopting = 0, numbers[TOTALS_NUMBERS];
    int rc = table_begin(x->env, MDB_RDONLY, &txn);
    if (rc != 0)
        return rc;
    rc = mdb_dbi_open(txn, "meta", 0, &x->meta);
    rc = rc ? rc : numbers_get(txn, x->meta, name_val("format"), &x->format, 1);
    if (rc == 0 && x->format != INDEX_FORMAT)
        rc = MDB_VERSION_MISMATCH; /* its tables may be others */
    rc = rc ? rc : open_tables(x, txn, 0);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    rc = numbers_get(txn, x->meta, name_val("totals"), numbers, TOTALS_NUMBERS);
    if (rc == 0)
        memcpy(&x->totals, numbers, sizeof numbers);
    if (rc == 0)
        rc = numbers_get(txn, x->meta, name_val("adopting"), &adopting, 1);
    if (rc == WARM_ENOT_FOUND)
        rc = MDB_CORRUPTED;
    x->adopting = adopting != 0;
    mdb_txn_commit(txn); /* keeps the table handles */
    return rc;
}

int index_open(struct index *x, const char *dir, uint64_t map_bytes, void (*on_abort)(void),
               struct err *e)
{
    char path[PATH_BYTES];
    *x = (struct index){.format = INDEX_FORMAT, .on_abort = on_abort};
    snprintf(path, sizeof path, "%s/index", dir);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_sys(e, WARM_EIO, errno, "store: cannot make %s", path);
    int rc = open_env_that_fits(x, path, map_bytes);
    MDB_envinfo info;
    MDB_stat stat;
    if (rc == 0)
        rc = mdb_env_info(x->env, &info);
    if (rc == 0)
        rc = mdb_env_stat(x->env, &stat);
    if (rc == 0)
        x->page_bytes = stat.ms_psize;
    if (rc == 0)
        index_check_readers(x);
    if (rc == 0)
        rc = info.me_last_txnid == 0 ? make_tables(x) : read_tables(x);
    if (rc == 0)
        return 0;
    index_close(x);
    if (rc == MDB_NOTFOUND) /* tables that are not there */
        rc = MDB_CORRUPTED;
    return index_error(rc, e);
}

void index_close(struct index *x)
{
    if (x->env)
        mdb_env_close(x->env);
    x->env = NULL;
}

/* Removes DIR/NAME and the files in it. */
static void remove_folder(const char *dir, const char *name)
{
    char path[PATH_BYTES];
    static const char *const files[] = {"data.mdb", "lock.mdb"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", dir, name, files[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/%s", dir, name);
    rmdir(path);
}

void index_renew(const char *dir, bool take)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    snprintf(from, sizeof from, "%s/index" INDEX_FRESH "/data.mdb", dir);
    snprintf(to, sizeof to, "%s/index/data.mdb", dir);
    if (take && rename(from, to) == 0) {
        snprintf(to, sizeof to, "%s/index/lock.mdb", dir); /* of other transactions */
        unlink(to);
    }
    remove_folder(dir, "index" INDEX_FRESH);
}

int index_set_aside(const char *dir, struct err *e)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    DIR *listing = opendir(dir);
    struct dirent *entry;
    while (listing && (entry = readdir(listing)))
        if (strncmp(entry->d_name, "index.broken-", 13) == 0)
            remove_folder(dir, entry->d_name);
    if (listing)
        closedir(listing);
    snprintf(from, sizeof from, "%s/index", dir);
    snprintf(to, sizeof to, "%s/index.broken-%" PRIu64, dir, clock_wall_ms());
    if (rename(from, to) != 0 && errno != ENOENT)
        return err_sys(e, WARM_EIO, errno, "store: cannot set the broken index aside");
    return 0;
}

uint64_t index_last_commit(const struct index *x)
{
    MDB_envinfo info;
    mdb_env_info(x->env, &info);
    return info.me_last_txnid;
}

void index_sync(struct index *x) { mdb_env_sync(x->env, 1); }

uint64_t index_file_bytes(const struct index *x)
{
    MDB_envinfo info;
    mdb_env_info(x->env, &info);
    return (uint64_t)(info.me_last_pgno + 1) * x->page_bytes;
}

void index_check_readers(struct index *x)
{
    int n_dead;
    mdb_reader_check(x->env, &n_dead);
}

/* ---- reading ---- */

int index_read_begin(struct index *x, MDB_txn **txn)
{
    assert(x->env);
    return *txn ? mdb_txn_renew(*txn) : table_begin(x->env, MDB_RDONLY, txn);
}

bool index_is_latest(const struct index *x, MDB_txn *txn)
{
    MDB_envinfo info;
    return mdb_env_info(x->env, &info) == 0 && info.me_last_txnid == mdb_txn_id(txn);
}

static int decode_row(MDB_val data, const struct store_id *id, struct store_row *out)
{
    if (row_decode(data.mv_data, data.mv_size, out) != 0 || out->id.owner != id->owner ||
        !key_equal(&out->id.key, &id->key))
        return WARM_ECORRUPT;
    return 0;
}

int index_row(const struct index *x, MDB_txn *txn, const struct store_id *id, struct store_row *out)
{
    uint8_t key[INDEX_KEY];
    MDB_val data;
    index_key(id, key);
    int rc = table_get(txn, x->row, bytes_val(key, sizeof key), &data);
    return rc ? rc : decode_row(data, id, out);
}

int index_value(const struct index *x, MDB_txn *txn, const struct store_id *id, uint64_t len,
                struct view *out)
{
    uint8_t key[INDEX_KEY];
    MDB_val data;
    index_key(id, key);
    int rc = table_get(txn, x->value, bytes_val(key, sizeof key), &data);
    if (rc == 0 && data.mv_size != len)
        rc = WARM_ECORRUPT;
    if (rc == 0)
        *out = (struct view){data.mv_data, data.mv_size};
    return rc;
}

int index_check_value(const struct store_row *row, struct view value)
{
    struct key found = key_of_bytes(value.data, value.len);
    return key_equal(&found, &row->check) ? 0 : WARM_ECORRUPT;
}

/* Reads the three numbers of an owner or user; all zero if there are none. */
static int account_get(MDB_txn *txn, MDB_dbi table, uint32_t owner, uint64_t out[3])
{
    uint8_t key[4];
    owner_encode(owner, key);
    int rc = numbers_get(txn, table, bytes_val(key, sizeof key), out, 3);
    if (rc)
        memset(out, 0, 3 * sizeof *out);
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

int index_usage(const struct index *x, MDB_txn *txn, uint32_t owner, struct usage *out)
{
    uint64_t n[3];
    int rc = account_get(txn, x->usage, owner, n);
    *out = (struct usage){n[0], n[1], n[2]};
    return rc;
}

int index_share(const struct index *x, MDB_txn *txn, uint32_t user, struct store_share *out)
{
    uint64_t n[3];
    int rc = account_get(txn, x->share, user, n);
    *out = (struct store_share){n[0], n[1], n[2]};
    return rc;
}

/* Reads the next row of a table of three numbers for each owner or user. MDB_NOTFOUND at its end. */
static int next_numbers(MDB_cursor *cursor, uint32_t *out_owner, uint64_t out[3])
{
    MDB_val key, data;
    int rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT);
    if (rc != 0)
        return rc;
    if (key.mv_size != 4 || !numbers_decode(data.mv_data, data.mv_size, out, 3))
        return MDB_CORRUPTED;
    *out_owner = owner_decode(key.mv_data);
    return 0;
}

int index_largest_share(const struct index *x, MDB_txn *txn, uint32_t *out)
{
    MDB_cursor *cursor;
    uint32_t user;
    uint64_t most = 0, numbers[3];
    int rc = mdb_cursor_open(txn, x->share, &cursor);
    if (rc != 0)
        return rc;
    while ((rc = next_numbers(cursor, &user, numbers)) == 0)
        if (numbers[1] > most) {
            most = numbers[1];
            *out = user;
        }
    mdb_cursor_close(cursor);
    if (rc != MDB_NOTFOUND)
        return rc;
    return most ? 0 : WARM_ENOT_FOUND;
}

int index_listed(MDB_txn *txn, MDB_dbi dbi, uint32_t *out, size_t cap, size_t *out_n)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    size_t n = 0;
    int rc = mdb_cursor_open(txn, dbi, &cursor);
    if (rc != 0)
        return rc;
    while (n < cap && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0 && key.mv_size == 4)
        out[n++] = owner_decode(key.mv_data);
    mdb_cursor_close(cursor);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    *out_n = n;
    return 0;
}

bool index_group_key(const struct store_row *row, uint8_t out[INDEX_GROUP])
{
    static const struct key none;
    owner_encode(row->id.owner, out);
    memcpy(out + 4, row->group.bytes, sizeof row->group.bytes);
    return !key_equal(&row->group, &none);
}

int index_group(const struct index *x, MDB_txn *txn, const struct store_row *row, struct key *out,
                size_t cap, size_t *out_n)
{
    uint8_t group[INDEX_GROUP];
    MDB_cursor *cursor;
    *out_n = 0;
    int rc = index_group_key(row, group) ? mdb_cursor_open(txn, x->group, &cursor) : MDB_NOTFOUND;
    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    MDB_val key = {sizeof group, group}, data;
    rc = mdb_cursor_get(cursor, &key, &data, MDB_SET);
    for (; rc == 0 && *out_n < cap; rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT_DUP))
        if (data.mv_size == sizeof *out)
            memcpy(&out[(*out_n)++], data.mv_data, sizeof *out);
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int index_pick_owner(const struct index *x, MDB_txn *txn, uint64_t (*next_random)(void *arg),
                     void *arg, uint32_t *out)
{
    MDB_cursor *cursor;
    uint32_t owner;
    uint64_t total = 0, numbers[3];
    int rc = mdb_cursor_open(txn, x->usage, &cursor);
    if (rc != 0)
        return rc;
    while ((rc = next_numbers(cursor, &owner, numbers)) == 0) {
        /* Each owner replaces the choice so far with the probability weight / total. */
        uint64_t weight = numbers[2] ? numbers[2] : 1;
        total += weight;
        if (next_random(arg) % total < weight)
            *out = owner;
    }
    mdb_cursor_close(cursor);
    if (rc != MDB_NOTFOUND)
        return rc;
    return total ? 0 : WARM_ENOT_FOUND;
}

int index_blob(const struct index *x, MDB_txn *txn, const struct blob_id *id,
               uint64_t numbers[BLOB_NUMBERS])
{
    uint8_t key[BLOB_KEY];
    blob_key(id, key);
    return numbers_get(txn, x->blob, bytes_val(key, sizeof key), numbers, BLOB_NUMBERS);
}

bool index_has_blob(const struct index *x, MDB_txn *txn, const struct blob_id *id)
{
    uint64_t numbers[BLOB_NUMBERS];
    return index_blob(x, txn, id, numbers) != WARM_ENOT_FOUND;
}

int index_meta(const struct index *x, MDB_txn *txn, const char *name, struct view *out)
{
    MDB_val data;
    int rc = table_get(txn, x->meta, name_val(name), &data);
    if (rc == 0)
        *out = (struct view){data.mv_data, data.mv_size};
    return rc;
}

int index_next(const struct index *x, MDB_cursor *cursor, struct index_place *place,
               struct store_row *out)
{
    (void)x;
    MDB_val key = bytes_val(place->key, INDEX_KEY), data;
    int rc = mdb_cursor_get(cursor, &key, &data, place->standing ? MDB_NEXT : MDB_SET_RANGE);
    if (rc == 0 && place->after && !place->standing && key.mv_size == INDEX_KEY &&
        memcmp(key.mv_data, place->key, INDEX_KEY) == 0)
        rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT);
    place->standing = rc == 0;
    if (rc != 0)
        return rc == MDB_NOTFOUND ? WARM_ENOT_FOUND : rc;
    if (key.mv_size != INDEX_KEY)
        return MDB_CORRUPTED;
    memcpy(place->key, key.mv_data, INDEX_KEY);
    place->after = true;
    struct store_id id = {.owner = owner_decode(place->key)};
    memcpy(id.key.bytes, place->key + 4, sizeof id.key.bytes);
    rc = decode_row(data, &id, out);
    out->id = id;
    return rc;
}

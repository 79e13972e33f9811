/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.c - the LMDB environment. LMDB's known traps, and where each is met:
 *
 *   only one process, one open per file     flock in store.c, before this is called
 *   never across fork                       index_guard.c checks in a child before the parent opens
 *   resizing a map under readers            the map is reserved once, far too large (index_map_size)
 *   large values fragment the free list     nothing above STORE_INLINE_MAX goes in
 *   large transactions spill pages          CHANGE_PAGES_MAX
 *   a reader that stalls pins old pages     the loop's read transaction ends when something is
 *                                           committed; verify.c works in chunks; slots of dead
 *                                           processes are cleared each minute
 *   no page checksums                       every record has its own; index_guard.c; codes that tell of
 *                                           damage lead to rebuild (index_is_damage)
 *   MDB_NOSYNC, MDB_WRITEMAP                never: one loses the index at a power failure, the other
 *                                           lets a stray write into it
 *   a failed meta page write ends the       MDB_PANIC is damage too: the environment is reopened
 *   environment
 *   an assertion aborts the process         on_assert leaves a mark; the next start checks all pages
 */
#include "store/index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/fault.h"

#define PAGE 4096u
#define BLOB_NUMBERS 4 /* references, length, bytes on disk, whose share they are in */
#define FORMAT_1 1u    /* no table `share`; a blob's record does not say whose share it is in */
#define FORMAT_1_BLOB_NUMBERS 3
#define INDEX_MODE 0600
#define PATH_BYTES 4096
/* Smaller values lie in leaf pages, which random keys fill to about 0.7; larger ones in pages of
 * their own, with 16 bytes of header. */
#define LEAF_VALUE_MAX 2000u
#define LEAF_NODE(len) (((len) + INDEX_KEY + 10) * 10 / 7)

static void on_assert(MDB_env *env, const char *text)
{
    (void)env, (void)text;
    store_mark_suspect(); /* LMDB aborts the process next */
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
    case EINVAL: /* a read or write where a page number or a length points that cannot be */
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

/* ---- LMDB through the fault hook ---- */

static int begin(MDB_env *env, unsigned flags, MDB_txn **out)
{
    int rc = fault_index();
    return rc ? rc : mdb_txn_begin(env, NULL, flags, out);
}

static int commit(MDB_txn *txn)
{
    int rc = fault_index();
    if (rc == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static int get(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val *out)
{
    int rc = mdb_get(txn, dbi, &key, out);
    return rc == MDB_NOTFOUND ? WARM_ENOT_FOUND : rc;
}

static int put(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val data, unsigned flags)
{
    int rc = fault_index();
    return rc ? rc : mdb_put(txn, dbi, &key, &data, flags);
}

static int del(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val *data)
{
    int rc = fault_index();
    if (rc == 0)
        rc = mdb_del(txn, dbi, &key, data);
    return rc == MDB_NOTFOUND ? WARM_ENOT_FOUND : rc;
}

static MDB_val val(const void *data, size_t len)
{
    union {
        const void *in;
        void *out;
    } p = {data}; /* LMDB reads only, its type says otherwise */
    return (MDB_val){len, p.out};
}

/* ---- keys ---- */

static void put_owner(uint32_t owner, uint8_t *out)
{
    for (size_t i = 0; i < 4; i++)
        out[i] = (uint8_t)(owner >> (24 - 8 * i));
}

static uint32_t get_owner(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void index_key(const struct store_id *id, uint8_t out[INDEX_KEY])
{
    put_owner(id->owner, out);
    memcpy(out + 4, id->key.bytes, sizeof id->key.bytes);
}

static struct store_id id_of_key(const uint8_t key[INDEX_KEY])
{
    struct store_id id = {.owner = get_owner(key)};
    memcpy(id.key.bytes, key + 4, sizeof id.key.bytes);
    return id;
}

#define BLOB_KEY (4 + 32)
static void blob_key(const struct blob_id *id, uint8_t out[BLOB_KEY])
{
    put_owner(id->owner, out);
    memcpy(out + 4, id->content.bytes, sizeof id->content.bytes);
}

/* ---- opening ---- */

/* The map is address space, not disk: twice what the values may take, and never resized. It grows
 * at open if the file came from a store with a larger cap. */
static size_t index_map_size(const char *path, uint64_t map_bytes)
{
    char file[PATH_BYTES + 16];
    struct stat st;
    snprintf(file, sizeof file, "%s/data.mdb", path);
    if (stat(file, &st) == 0 && (uint64_t)st.st_size + (st.st_size >> 1) > map_bytes)
        map_bytes = (uint64_t)st.st_size * 2;
    return (size_t)((map_bytes + PAGE - 1) / PAGE * PAGE);
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
    mdb_env_set_assert(x->env, on_assert);
    rc = mdb_env_set_mapsize(x->env, map_bytes);
    return rc ? rc : mdb_env_open(x->env, path, flags, INDEX_MODE);
}

/* All but `share`, which format 1 does not have. */
static int open_tables(struct index *x, MDB_txn *txn, unsigned create)
{
    int rc = mdb_dbi_open(txn, "row", create, &x->row);
    rc = rc ? rc : mdb_dbi_open(txn, "value", create, &x->value);
    rc = rc ? rc : mdb_dbi_open(txn, "blob", create, &x->blob);
    rc = rc ? rc : mdb_dbi_open(txn, "group", create | MDB_DUPSORT | MDB_DUPFIXED, &x->group);
    rc = rc ? rc : mdb_dbi_open(txn, "usage", create, &x->usage);
    return rc ? rc : mdb_dbi_open(txn, "meta", create, &x->meta);
}

static int open_share(struct index *x, MDB_txn *txn, unsigned create)
{
    return mdb_dbi_open(txn, "share", create, &x->share);
}

static MDB_val name_val(const char *name) { return val(name, strlen(name)); }

static int put_numbers(MDB_txn *txn, MDB_dbi dbi, MDB_val key, const uint64_t *numbers, size_t n)
{
    uint8_t bytes[NUMBERS_SIZE(TOTALS_NUMBERS)];
    numbers_encode(bytes, numbers, n);
    return put(txn, dbi, key, val(bytes, NUMBERS_SIZE(n)), 0);
}

static int get_numbers(MDB_txn *txn, MDB_dbi dbi, MDB_val key, uint64_t *out, size_t n)
{
    MDB_val data;
    int rc = get(txn, dbi, key, &data);
    if (rc == 0 && !numbers_decode(data.mv_data, data.mv_size, out, n))
        rc = MDB_CORRUPTED; /* unlike a row, it cannot be made anew by itself */
    return rc;
}

static int put_totals(MDB_txn *txn, struct index *x, const struct totals *totals)
{
    uint64_t numbers[TOTALS_NUMBERS];
    memcpy(numbers, totals, sizeof numbers);
    return put_numbers(txn, x->meta, name_val("totals"), numbers, TOTALS_NUMBERS);
}

static int make_tables(struct index *x)
{
    MDB_txn *txn;
    uint64_t format = INDEX_FORMAT, yes = 1;
    int rc = begin(x->env, 0, &txn);
    if (rc != 0)
        return rc;
    x->totals = (struct totals){0};
    x->adopting = true;
    rc = open_tables(x, txn, MDB_CREATE);
    rc = rc ? rc : open_share(x, txn, MDB_CREATE);
    rc = rc ? rc : put_numbers(txn, x->meta, name_val("format"), &format, 1);
    rc = rc ? rc : put_numbers(txn, x->meta, name_val("adopting"), &yes, 1);
    rc = rc ? rc : put_totals(txn, x, &x->totals);
    if (rc == 0)
        return commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static int read_tables(struct index *x, uint64_t *format)
{
    MDB_txn *txn;
    uint64_t adopting = 0, numbers[TOTALS_NUMBERS];
    int rc = begin(x->env, MDB_RDONLY, &txn);
    if (rc != 0)
        return rc;
    rc = open_tables(x, txn, 0);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    rc = get_numbers(txn, x->meta, name_val("format"), format, 1);
    if (rc == 0 && *format != FORMAT_1)
        rc = *format == INDEX_FORMAT ? open_share(x, txn, 0) : MDB_VERSION_MISMATCH;
    rc = rc ? rc : get_numbers(txn, x->meta, name_val("totals"), numbers, TOTALS_NUMBERS);
    if (rc == 0)
        memcpy(&x->totals, numbers, sizeof numbers);
    if (rc == 0)
        rc = get_numbers(txn, x->meta, name_val("adopting"), &adopting, 1);
    if (rc == WARM_ENOT_FOUND)
        rc = MDB_CORRUPTED;
    x->adopting = adopting != 0;
    mdb_txn_commit(txn); /* keeps the table handles */
    return rc;
}

static int take_over(struct index *x);

int index_open(struct index *x, const char *dir, uint64_t map_bytes, struct err *e)
{
    char path[PATH_BYTES];
    uint64_t format = INDEX_FORMAT;
    *x = (struct index){0};
    snprintf(path, sizeof path, "%s/index", dir);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_sys(e, WARM_EIO, errno, "store: cannot make %s", path);
    x->map_bytes = index_map_size(path, map_bytes);
    int rc = open_env(x, path, (size_t)x->map_bytes);
    MDB_envinfo info;
    if (rc == 0)
        rc = mdb_env_info(x->env, &info);
    if (rc == 0)
        index_check_readers(x);
    if (rc == 0)
        rc = info.me_last_txnid == 0 ? make_tables(x) : read_tables(x, &format);
    if (rc == 0 && format == FORMAT_1)
        rc = take_over(x);
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

static void remove_older_broken(const char *dir)
{
    DIR *listing = opendir(dir);
    struct dirent *entry;
    while (listing && (entry = readdir(listing)))
        if (strncmp(entry->d_name, "index.broken-", 13) == 0)
            remove_folder(dir, entry->d_name);
    if (listing)
        closedir(listing);
}

int index_set_aside(const char *dir, struct err *e)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    remove_older_broken(dir);
    snprintf(from, sizeof from, "%s/index", dir);
    snprintf(to, sizeof to, "%s/index.broken-%lld%03ld", dir, (long long)now.tv_sec,
             now.tv_nsec / 1000000);
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
    return (uint64_t)(info.me_last_pgno + 1) * PAGE;
}

void index_check_readers(struct index *x)
{
    int n_dead;
    mdb_reader_check(x->env, &n_dead);
}

/* ---- reading ---- */

int index_read_begin(struct index *x, MDB_txn **txn)
{
    return *txn ? mdb_txn_renew(*txn) : begin(x->env, MDB_RDONLY, txn);
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
    int rc = get(txn, x->row, val(key, sizeof key), &data);
    return rc ? rc : decode_row(data, id, out);
}

int index_value(const struct index *x, MDB_txn *txn, const struct store_id *id, uint64_t len,
                struct view *out)
{
    uint8_t key[INDEX_KEY];
    MDB_val data;
    index_key(id, key);
    int rc = get(txn, x->value, val(key, sizeof key), &data);
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

int index_usage(const struct index *x, MDB_txn *txn, uint32_t owner, struct usage *out)
{
    uint8_t key[4];
    uint64_t numbers[3];
    put_owner(owner, key);
    int rc = get_numbers(txn, x->usage, val(key, sizeof key), numbers, 3);
    *out = rc ? (struct usage){0} : (struct usage){numbers[0], numbers[1], numbers[2]};
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

int index_share(const struct index *x, MDB_txn *txn, uint32_t user, struct share *out)
{
    uint8_t key[4];
    uint64_t numbers[3];
    put_owner(user, key);
    int rc = get_numbers(txn, x->share, val(key, sizeof key), numbers, 3);
    *out = rc ? (struct share){0} : (struct share){numbers[0], numbers[1], numbers[2]};
    return rc == WARM_ENOT_FOUND ? 0 : rc;
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
    *out_owner = get_owner(key.mv_data);
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

/* The keys of a table that are owners or users, the first `cap` of them. */
static int list_keys(MDB_txn *txn, MDB_dbi dbi, uint32_t *out, size_t cap, size_t *out_n)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    size_t n = 0;
    int rc = mdb_cursor_open(txn, dbi, &cursor);
    if (rc != 0)
        return rc;
    while (n < cap && (rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0 && key.mv_size == 4)
        out[n++] = get_owner(key.mv_data);
    mdb_cursor_close(cursor);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;
    *out_n = n;
    return 0;
}

int index_owners(const struct index *x, MDB_txn *txn, uint32_t *out, size_t cap, size_t *out_n)
{
    return list_keys(txn, x->usage, out, cap, out_n);
}

int index_users(const struct index *x, MDB_txn *txn, uint32_t *out, size_t cap, size_t *out_n)
{
    return list_keys(txn, x->share, out, cap, out_n);
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
        /* Each owner in turn replaces the choice so far with its share of the total so far. */
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

static int get_blob(const struct index *x, MDB_txn *txn, const struct blob_id *id,
                    uint64_t numbers[BLOB_NUMBERS])
{
    uint8_t key[BLOB_KEY];
    blob_key(id, key);
    return get_numbers(txn, x->blob, val(key, sizeof key), numbers, BLOB_NUMBERS);
}

bool index_has_blob(const struct index *x, MDB_txn *txn, const struct blob_id *id)
{
    uint64_t numbers[BLOB_NUMBERS];
    return get_blob(x, txn, id, numbers) != WARM_ENOT_FOUND;
}

int index_meta(const struct index *x, MDB_txn *txn, const char *name, struct view *out)
{
    MDB_val data;
    int rc = get(txn, x->meta, name_val(name), &data);
    if (rc == 0)
        *out = (struct view){data.mv_data, data.mv_size};
    return rc;
}

int index_next(const struct index *x, MDB_cursor *cursor, struct index_place *place,
               struct store_row *out)
{
    (void)x;
    MDB_val key = val(place->key, INDEX_KEY), data;
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
    struct store_id id = id_of_key(place->key);
    rc = decode_row(data, &id, out);
    out->id = id;
    return rc;
}

/* ---- changes ---- */

int change_begin(struct change *c, struct index *x)
{
    *c = (struct change){.index = x, .totals = x->totals};
    return begin(x->env, 0, &c->txn);
}

int change_commit(struct change *c)
{
    int rc = memcmp(&c->totals, &c->index->totals, sizeof c->totals) == 0
                 ? 0
                 : put_totals(c->txn, c->index, &c->totals);
    MDB_txn *txn = c->txn;
    c->txn = NULL;
    if (rc == 0)
        rc = commit(txn);
    else
        mdb_txn_abort(txn);
    if (rc == 0)
        c->index->totals = c->totals;
    else
        c->n_doomed = 0;
    return rc;
}

void change_abort(struct change *c)
{
    if (c->txn)
        mdb_txn_abort(c->txn);
    c->txn = NULL;
    c->n_doomed = 0;
}

void change_close(struct change *c)
{
    change_abort(c);
    writer_close(&c->scratch);
    free(c->doomed);
    c->doomed = NULL;
    c->cap_doomed = 0;
}

static uint64_t pages_of(uint64_t len) { return (len + 16 + PAGE - 1) / PAGE; }

uint64_t entry_disk_bytes(const struct store_row *row)
{
    uint64_t bytes = LEAF_NODE(row_encoded_len(row));
    if (!row->is_blob)
        bytes += row->len <= LEAF_VALUE_MAX ? LEAF_NODE(row->len)
                                            : LEAF_NODE(8) + pages_of(row->len) * PAGE;
    return bytes;
}

uint64_t blob_disk_bytes(uint64_t len)
{
    return (len + ROW_FIXED + 64 + BLOB_FOOTER + PAGE - 1) / PAGE * PAGE + LEAF_NODE(BLOB_KEY);
}

/* Never below zero: a damaged row may have been counted otherwise than it now says. */
static void add(uint64_t *n, int64_t delta)
{
    *n = delta < 0 && *n < -(uint64_t)delta ? 0 : *n + (uint64_t)delta;
}

uint32_t entry_user(const struct store_row *row)
{
    return row->id.owner == STORE_MADE_HERE ? row->maker : row->id.owner;
}

uint64_t entry_pinned_bytes(const struct store_row *row)
{
    return entry_disk_bytes(row) + (row->is_blob ? blob_disk_bytes(row->len) : 0);
}

/* What a change does to the books. */
struct delta {
    int64_t entries, bytes, disk;
    int64_t blob_disk; /* of `disk`: what is in the share of `blob_user` */
    uint32_t blob_user;
    int64_t pinned;
};

static int count_share(struct change *c, uint32_t user, int64_t entries, int64_t disk,
                       int64_t pinned)
{
    uint8_t key[4];
    struct share s;
    if (!entries && !disk && !pinned)
        return 0;
    put_owner(user, key);
    int rc = index_share(c->index, c->txn, user, &s);
    if (rc != 0)
        return rc;
    add(&s.n_entries, entries);
    add(&s.disk_bytes, disk);
    add(&s.pinned_bytes, pinned);
    uint64_t numbers[3] = {s.n_entries, s.disk_bytes, s.pinned_bytes};
    c->n_pages++;
    rc = s.n_entries || s.disk_bytes
             ? put_numbers(c->txn, c->index->share, val(key, sizeof key), numbers, 3)
             : del(c->txn, c->index->share, val(key, sizeof key), NULL);
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

/* Adds to what is counted of the store, of the row's owner, of its user and of its kind. */
static int count(struct change *c, const struct store_row *row, struct delta d)
{
    uint8_t key[4];
    struct usage u;
    int shares = count_share(c, entry_user(row), d.entries, d.disk - d.blob_disk, d.pinned);
    shares = shares ? shares : count_share(c, d.blob_user, 0, d.blob_disk, 0);
    if (shares)
        return shares;
    put_owner(row->id.owner, key);
    int rc = index_usage(c->index, c->txn, row->id.owner, &u);
    if (rc != 0)
        return rc;
    add(&u.n_entries, d.entries);
    add(&u.n_bytes, d.bytes);
    add(&u.disk_bytes, d.disk);
    uint64_t numbers[3] = {u.n_entries, u.n_bytes, u.disk_bytes};
    rc = u.n_entries || u.disk_bytes
             ? put_numbers(c->txn, c->index->usage, val(key, sizeof key), numbers, 3)
             : del(c->txn, c->index->usage, val(key, sizeof key), NULL);
    if (rc != 0 && rc != WARM_ENOT_FOUND)
        return rc;
    struct totals *t = &c->totals;
    unsigned kind = row->kind % INDEX_KINDS;
    add(&t->n_entries, d.entries);
    add(&t->n_bytes, d.bytes);
    add(&t->disk_bytes, d.disk);
    add(&t->kind_entries[kind], d.entries);
    add(&t->kind_bytes[kind], d.entries * (int64_t)row->len);
    return 0;
}

static int put_blob(struct change *c, const struct blob_id *id,
                    const uint64_t numbers[BLOB_NUMBERS])
{
    uint8_t key[BLOB_KEY];
    blob_key(id, key);
    return put_numbers(c->txn, c->index->blob, val(key, sizeof key), numbers, BLOB_NUMBERS);
}

int change_doom(struct change *c, const struct blob_id *id)
{
    if (c->n_doomed == c->cap_doomed) {
        size_t cap = c->cap_doomed ? 2 * c->cap_doomed : 64;
        struct blob_id *more = realloc(c->doomed, cap * sizeof *more);
        if (!more)
            return ENOMEM;
        c->doomed = more;
        c->cap_doomed = cap;
    }
    c->doomed[c->n_doomed++] = *id;
    return 0;
}

bool change_spare_blob(struct change *c, const struct blob_id *id)
{
    for (size_t i = 0; i < c->n_doomed; i++)
        if (blob_id_equal(&c->doomed[i], id)) {
            c->doomed[i] = c->doomed[--c->n_doomed];
            return true;
        }
    return false;
}

/* One more reference to a row's blob; the first brings its bytes. */
static int ref_blob(struct change *c, const struct store_row *row, struct delta *d)
{
    struct blob_id id = {row->id.owner, row->content};
    uint64_t numbers[BLOB_NUMBERS];
    int rc = get_blob(c->index, c->txn, &id, numbers);
    if (rc == WARM_ENOT_FOUND) {
        numbers[0] = 0;
        numbers[1] = row->len;
        numbers[2] = blob_disk_bytes(row->len);
        numbers[3] = entry_user(row);
        d->blob_disk += (int64_t)numbers[2];
        d->blob_user = entry_user(row);
        d->bytes += (int64_t)numbers[1];
        d->disk += (int64_t)numbers[2];
        c->totals.blob_disk_bytes += numbers[2];
    } else if (rc != 0) {
        return rc;
    }
    numbers[0]++;
    return put_blob(c, &id, numbers);
}

/* Takes a blob's record away, and its bytes off the books. */
static int drop_blob(struct change *c, const struct blob_id *id,
                     const uint64_t numbers[BLOB_NUMBERS], struct delta *d)
{
    uint8_t key[BLOB_KEY];
    blob_key(id, key);
    d->blob_disk -= (int64_t)numbers[2];
    d->blob_user = (uint32_t)numbers[3];
    d->bytes -= (int64_t)numbers[1];
    d->disk -= (int64_t)numbers[2];
    add(&c->totals.blob_disk_bytes, -(int64_t)numbers[2]);
    int rc = del(c->txn, c->index->blob, val(key, sizeof key), NULL);
    return rc ? rc : change_doom(c, id);
}

/* One reference fewer; dooms the blob with the last. */
static int unref_blob(struct change *c, const struct store_row *row, struct delta *d)
{
    struct blob_id id = {row->id.owner, row->content};
    uint64_t numbers[BLOB_NUMBERS];
    int rc = get_blob(c->index, c->txn, &id, numbers);
    if (rc != 0)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    if (--numbers[0] > 0)
        return put_blob(c, &id, numbers);
    return drop_blob(c, &id, numbers, d);
}

int change_forget_blob(struct change *c, const struct blob_id *id)
{
    uint64_t numbers[BLOB_NUMBERS];
    struct delta d = {0};
    int rc = get_blob(c->index, c->txn, id, numbers);
    rc = rc ? rc : drop_blob(c, id, numbers, &d);
    return rc ? rc : count(c, &(struct store_row){.id.owner = id->owner, .maker = d.blob_user}, d);
}

#define GROUP_KEY (4 + 16)
static bool group_key(const struct store_row *row, uint8_t out[GROUP_KEY])
{
    static const struct key none;
    put_owner(row->id.owner, out);
    memcpy(out + 4, row->group.bytes, sizeof row->group.bytes);
    return !key_equal(&row->group, &none);
}

static int put_row(struct change *c, const struct store_row *row)
{
    uint8_t key[INDEX_KEY];
    index_key(&row->id, key);
    c->scratch.len = 0;
    row_encode(row, &c->scratch);
    if (c->scratch.failed)
        return ENOMEM;
    c->n_pages += 2;
    return put(c->txn, c->index->row, val(key, sizeof key), val(c->scratch.data, c->scratch.len),
               0);
}

int change_insert(struct change *c, const struct store_row *row, const void *value)
{
    uint8_t key[INDEX_KEY], group[GROUP_KEY];
    struct delta d = {.entries = 1,
                      .disk = (int64_t)entry_disk_bytes(row),
                      .pinned = row->pinned ? (int64_t)entry_pinned_bytes(row) : 0};
    index_key(&row->id, key);
    int rc = put_row(c, row);
    if (rc == 0 && row->is_blob) {
        rc = ref_blob(c, row, &d);
    } else if (rc == 0) {
        d.bytes += (int64_t)row->len;
        rc = put(c->txn, c->index->value, val(key, sizeof key), val(value, row->len), 0);
    }
    if (rc == 0 && group_key(row, group))
        rc = put(c->txn, c->index->group, val(group, sizeof group), val(key + 4, 16), 0);
    c->n_pages += 2 + (row->is_blob ? 0 : (unsigned)pages_of(row->len));
    return rc ? rc : count(c, row, d);
}

void change_tell(struct change *c, const struct store_id *id, enum store_cause cause)
{
    if (c->n_left < CHANGE_LEFT_MAX)
        c->left[c->n_left++] = (struct store_departure){.id = *id, .cause = cause};
}

int change_remove(struct change *c, const struct store_row *row)
{
    uint8_t key[INDEX_KEY], group[GROUP_KEY];
    struct delta d = {.entries = -1,
                      .disk = -(int64_t)entry_disk_bytes(row),
                      .pinned = row->pinned ? -(int64_t)entry_pinned_bytes(row) : 0};
    struct store_row fixed = *row; /* its texts die with the first write */
    index_key(&fixed.id, key);
    int rc = 0;
    if (group_key(&fixed, group)) {
        MDB_val member = val(key + 4, 16);
        rc = del(c->txn, c->index->group, val(group, sizeof group), &member);
    }
    if (rc != 0 && rc != WARM_ENOT_FOUND)
        return rc;
    if (fixed.is_blob) {
        rc = unref_blob(c, &fixed, &d);
    } else {
        d.bytes -= (int64_t)fixed.len;
        rc = del(c->txn, c->index->value, val(key, sizeof key), NULL);
    }
    if (rc == 0 || rc == WARM_ENOT_FOUND)
        rc = del(c->txn, c->index->row, val(key, sizeof key), NULL);
    c->n_pages += 5;
    return rc ? rc : count(c, &fixed, d);
}

int change_remove_broken(struct change *c, const struct store_id *id)
{
    uint8_t key[INDEX_KEY];
    uint64_t numbers[BLOB_NUMBERS];
    struct store_row row = {0};
    MDB_val data;
    index_key(id, key);
    c->broke = true;
    int rc = get(c->txn, c->index->row, val(key, sizeof key), &data);
    if (rc != 0)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    if (!row_salvage(data.mv_data, data.mv_size, &row))
        row = (struct store_row){0};
    row.id = *id;
    /* Lengths as they were counted, not as the row now says. */
    struct blob_id blob = {id->owner, row.content};
    rc = get(c->txn, c->index->value, val(key, sizeof key), &data);
    row.is_blob = rc == WARM_ENOT_FOUND;
    row.len = rc == 0 ? data.mv_size : 0;
    if (row.is_blob && (rc = get_blob(c->index, c->txn, &blob, numbers)) == 0)
        row.len = numbers[1];
    return rc == 0 || rc == WARM_ENOT_FOUND ? change_remove(c, &row) : rc;
}

int change_rewrite(struct change *c, const struct store_row *row) { return put_row(c, row); }

int change_pin(struct change *c, const struct store_row *row, bool pinned)
{
    struct store_row changed = *row;
    int64_t bytes = (int64_t)entry_pinned_bytes(row);
    changed.pinned = pinned;
    int rc = put_row(c, &changed);
    return rc ? rc : count_share(c, entry_user(row), 0, 0, pinned ? bytes : -bytes);
}

int change_group(struct change *c, const struct store_row *row, size_t max, group_cb cb, void *arg)
{
    uint8_t group[GROUP_KEY];
    if (!group_key(row, group))
        return 0;
    struct key *keys = fault_malloc(max * sizeof *keys);
    MDB_cursor *cursor;
    int rc = keys ? mdb_cursor_open(c->txn, c->index->group, &cursor) : ENOMEM;
    if (rc != 0) {
        free(keys);
        return rc;
    }
    size_t n = 0;
    MDB_val key = val(group, sizeof group), data;
    rc = mdb_cursor_get(cursor, &key, &data, MDB_SET);
    for (; rc == 0 && n < max; rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT_DUP))
        if (data.mv_size == sizeof *keys)
            memcpy(&keys[n++], data.mv_data, sizeof *keys);
    mdb_cursor_close(cursor);
    if (rc == MDB_NOTFOUND)
        rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = cb(arg, &(struct store_id){row->id.owner, keys[i]});
    free(keys);
    return rc;
}

int change_meta(struct change *c, const char *name, const void *data, size_t len)
{
    c->n_pages += 2;
    return put(c->txn, c->index->meta, name_val(name), val(data, len), 0);
}

int change_adopted(struct change *c)
{
    uint64_t no = 0;
    return put_numbers(c->txn, c->index->meta, name_val("adopting"), &no, 1);
}

/* ---- an index of format 1 ---- */

/* Counts a blob in a user's share, unless it is in one already. */
static int take_over_blob(struct change *c, const struct blob_id *id, uint32_t user)
{
    uint8_t key[BLOB_KEY];
    uint64_t numbers[BLOB_NUMBERS];
    MDB_val data;
    blob_key(id, key);
    int rc = get(c->txn, c->index->blob, val(key, sizeof key), &data);
    if (rc != 0 || data.mv_size == NUMBERS_SIZE(BLOB_NUMBERS))
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    if (!numbers_decode(data.mv_data, data.mv_size, numbers, FORMAT_1_BLOB_NUMBERS))
        return MDB_CORRUPTED;
    numbers[FORMAT_1_BLOB_NUMBERS] = user;
    rc = put_blob(c, id, numbers);
    return rc ? rc : count_share(c, user, 0, (int64_t)numbers[2], 0);
}

static int take_over_row(struct change *c, const struct store_row *row)
{
    struct blob_id blob = {row->id.owner, row->content};
    uint32_t user = entry_user(row);
    int64_t pinned = row->pinned ? (int64_t)entry_pinned_bytes(row) : 0;
    int rc = count_share(c, user, 1, (int64_t)entry_disk_bytes(row), pinned);
    return rc == 0 && row->is_blob ? take_over_blob(c, &blob, user) : rc;
}

/* A damaged row is in no share; whoever reads it removes it. */
static int take_over_rows(struct change *c)
{
    MDB_cursor *cursor;
    MDB_stat stat;
    struct index_place place = {.after = false};
    uint64_t *n = &c->index->n_taken_over;
    int rc = mdb_stat(c->txn, c->index->row, &stat);
    rc = rc ? rc : mdb_cursor_open(c->txn, c->index->row, &cursor);
    if (rc != 0)
        return rc;
    for (*n = 0; rc == 0; ++*n) {
        struct store_row row;
        rc = index_next(c->index, cursor, &place, &row);
        if (rc == WARM_ENOT_FOUND)
            break;
        if (*n == stat.ms_entries)
            rc = MDB_CORRUPTED; /* a damaged tree may lead around in it */
        if (rc == 0)
            rc = take_over_row(c, &row);
        else if (rc == WARM_ECORRUPT)
            rc = 0;
    }
    mdb_cursor_close(cursor);
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

/* Blobs of damaged rows: they are in the share of their owner. */
static int take_over_blobs(struct change *c)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    int rc = mdb_cursor_open(c->txn, c->index->blob, &cursor);
    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
        struct blob_id id;
        uint8_t bytes[BLOB_KEY];
        if (key.mv_size != BLOB_KEY) {
            rc = MDB_CORRUPTED;
            break;
        }
        if (data.mv_size == NUMBERS_SIZE(BLOB_NUMBERS))
            continue;
        memcpy(bytes, key.mv_data, sizeof bytes);
        id.owner = get_owner(bytes);
        memcpy(id.content.bytes, bytes + 4, sizeof id.content.bytes);
        rc = take_over_blob(c, &id, id.owner);
        key = val(bytes, sizeof bytes);
        rc = rc ? rc : mdb_cursor_get(cursor, &key, &data, MDB_SET);
        if (rc != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Computes the shares and makes the index one of this format: all of it, or nothing. Reads each row
 * once; memory: the pages of `blob`, which are written anew. */
static int take_over(struct index *x)
{
    struct change c;
    uint64_t format = INDEX_FORMAT;
    int rc = change_begin(&c, x);
    rc = rc ? rc : open_share(x, c.txn, MDB_CREATE);
    rc = rc ? rc : take_over_rows(&c);
    rc = rc ? rc : take_over_blobs(&c);
    rc = rc ? rc : put_numbers(c.txn, x->meta, name_val("format"), &format, 1);
    rc = rc ? rc : change_commit(&c);
    change_close(&c);
    x->taken_over = rc == 0;
    return rc;
}

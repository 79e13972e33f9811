/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - tells if this version can use a store, without changing it. `warmd --check-store` calls it,
 * before an upgrade or after an accident.
 *
 *   1. the store's lock: no daemon may write meanwhile
 *   2. every entry of the index, in a child (index_guard.c)
 *   3. the index's format
 *   4. every row, and every value against its checksum
 *
 * Thread: the caller's. It needs no open store.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "store/internal.h"

struct check {
    struct index index;
    struct files files;
    struct store_findings *out;
    void *piece; /* BLOB_PIECE bytes */
};

static int lock(const char *dir, int *out_fd, struct err *e)
{
    char path[PATH_MAX], holder[32] = "";
    snprintf(path, sizeof path, "%s/lock", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, WARM_EIO, errno, "%s is no store", dir);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *out_fd = fd;
        return 0;
    }
    int errnum = errno;
    if (errnum == EWOULDBLOCK && pread(fd, holder, sizeof holder - 1, 0) > 0)
        err_set(e, WARM_EBUSY, "%s is in use by process %ld: stop it first, or run `warm verify`",
                dir, strtol(holder, NULL, 10));
    else
        err_sys(e, WARM_EIO, errnum, "cannot lock %s", dir);
    close(fd);
    return e->code;
}

/* Hashes one value. CORRUPT or NOT_FOUND: for the daemon a miss. */
static int check_value(struct check *c, MDB_txn *txn, const struct store_row *row)
{
    struct view value;
    struct blob_state state;
    struct blob_id blob = {row->id.owner, row->content};
    int fd = -1;
    if (!row->is_blob) {
        int rc = index_value(&c->index, txn, &row->id, row->len, &value);
        return rc ? rc : index_check_value(row, value);
    }
    int rc = blob_open(&c->files, &blob, row->len, &fd, &state, NULL);
    if (rc == 0)
        rc = blob_check(fd, row->len, &row->check, c->piece, NULL, NULL);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int check_rows(struct check *c, MDB_txn *txn)
{
    struct index_place place = {0};
    struct store_row row;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, c->index.row, &cursor);
    if (rc != 0)
        return rc;
    while ((rc = index_next(&c->index, cursor, &place, &row)) == 0 || rc == WARM_ECORRUPT) {
        c->out->n_entries++;
        if (rc == 0) {
            c->out->n_bytes += row.len;
            rc = check_value(c, txn, &row);
        }
        if (rc == WARM_ECORRUPT || rc == WARM_ENOT_FOUND)
            c->out->n_unreadable++;
        else if (rc != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

/* Reads format and entries of an index whose pages are sound. */
static int check_entries(struct check *c, const char *dir, struct err *e)
{
    MDB_txn *txn = NULL;
    int code = index_open(&c->index, dir, 0, NULL, e);
    c->out->format = c->index.format;
    c->out->is_known = code == 0;
    if (code == WARM_ECORRUPT && c->out->format != INDEX_FORMAT)
        return 0; /* another daemon's: that is the finding */
    if (code != 0)
        return code;
    int rc = index_read_begin(&c->index, &txn);
    rc = rc ? rc : check_rows(c, txn);
    if (txn)
        mdb_txn_abort(txn);
    index_close(&c->index);
    return index_error(rc, e);
}

int store_check(const char *dir, struct store_findings *out, struct err *e)
{
    char file[PATH_MAX];
    struct check c = {.out = out};
    int fd = -1;
    assert(dir && out && e);
    *out = (struct store_findings){.fault = ""};
    int code = lock(dir, &fd, e);
    if (code != 0)
        return code;
    snprintf(file, sizeof file, "%s/index/data.mdb", dir);
    if (access(file, F_OK) != 0) {
        code = err_set(e, WARM_ENOT_FOUND, "%s has no index", dir);
    } else if (!index_guard_check(dir, fd, true, false, &out->fault)) {
        code = 0; /* the fault is the finding */
    } else if (!(c.piece = malloc(BLOB_PIECE))) {
        code = err_set(e, WARM_ENOMEM, "%s", err_text(WARM_ENOMEM));
    } else if ((code = files_open(&c.files, dir, e)) == 0) {
        code = check_entries(&c, dir, e);
        files_close(&c.files);
    }
    free(c.piece);
    close(fd);
    return code;
}

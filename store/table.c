/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - reads and writes one record of a table. index.c and change.c call it. All
 * writes pass the fault hook here, so that a test can fail any one of them.
 *
 * Thread: any; no state.
 */
#include "store/table.h"

#include <assert.h>
#include <string.h>

#include "store/fault.h"
#include "store/row.h"

int table_begin(MDB_env *env, unsigned flags, MDB_txn **out)
{
    int rc = fault_index();
    return rc ? rc : mdb_txn_begin(env, NULL, flags, out);
}

int table_commit(MDB_txn *txn)
{
    int rc = fault_index();
    if (rc == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

int table_get(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val *out)
{
    int rc = mdb_get(txn, dbi, &key, out);
    return rc == MDB_NOTFOUND ? WARM_ENOT_FOUND : rc;
}

int table_put(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val data, unsigned flags)
{
    int rc = fault_index();
    return rc ? rc : mdb_put(txn, dbi, &key, &data, flags);
}

int table_del(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val *data)
{
    int rc = fault_index();
    if (rc == 0)
        rc = mdb_del(txn, dbi, &key, data);
    return rc == MDB_NOTFOUND ? WARM_ENOT_FOUND : rc;
}

MDB_val bytes_val(const void *data, size_t len)
{
    union {
        const void *in;
        void *out;
    } p = {data}; /* LMDB reads only, its type says otherwise */
    return (MDB_val){len, p.out};
}

void owner_encode(uint32_t owner, uint8_t *out)
{
    for (size_t i = 0; i < 4; i++)
        out[i] = (uint8_t)(owner >> (24 - 8 * i));
}

uint32_t owner_decode(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void blob_key(const struct blob_id *id, uint8_t out[BLOB_KEY])
{
    owner_encode(id->owner, out);
    memcpy(out + 4, id->content.bytes, sizeof id->content.bytes);
}

MDB_val name_val(const char *name) { return bytes_val(name, strlen(name)); }

int numbers_put(MDB_txn *txn, MDB_dbi dbi, MDB_val key, const uint64_t *numbers, size_t n)
{
    uint8_t bytes[NUMBERS_SIZE(NUMBERS_MAX)];
    assert(n <= NUMBERS_MAX);
    numbers_encode(bytes, numbers, n);
    return table_put(txn, dbi, key, bytes_val(bytes, NUMBERS_SIZE(n)), 0);
}

int numbers_get(MDB_txn *txn, MDB_dbi dbi, MDB_val key, uint64_t *out, size_t n)
{
    MDB_val data;
    int rc = table_get(txn, dbi, key, &data);
    if (rc == 0 && !numbers_decode(data.mv_data, data.mv_size, out, n))
        rc = MDB_CORRUPTED; /* unlike a row, it cannot be made anew by itself */
    return rc;
}

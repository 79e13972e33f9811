/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - records of LMDB tables: their keys, and values that are rows of numbers.
 *
 * Codes: 0, WARM_ENOT_FOUND, or LMDB's code (index.h).
 *
 * Thread: any; no state. Memory: a value that was read lives until its transaction ends, in a write
 * transaction until its next write.
 */
#ifndef WARM_STORE_TABLE_H
#define WARM_STORE_TABLE_H

#include <lmdb.h>

#include "store/blob.h"

#define BLOB_KEY (4 + 32) /* owner and SHA-256 */
#define NUMBERS_MAX 40u   /* in one record */

/* Begins a transaction; `flags` are LMDB's. */
int table_begin(MDB_env *env, unsigned flags, MDB_txn **out);
/* Commits a transaction, or aborts it on an error: it is gone in any case. */
int table_commit(MDB_txn *txn);
/* Reads one record. */
int table_get(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val *out);
/* Writes one record; `flags` are LMDB's. */
int table_put(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val data, unsigned flags);
/* Deletes one record; of a table of duplicates the one with this data, unless NULL. */
int table_del(MDB_txn *txn, MDB_dbi dbi, MDB_val key, MDB_val *data);

/* Returns a view of bytes, or of a string without its NUL, for LMDB to read. */
MDB_val bytes_val(const void *data, size_t len);
MDB_val name_val(const char *name);

/* Writes an owner or a user as a key: 4 bytes, big-endian. */
void owner_encode(uint32_t owner, uint8_t *out);
/* Reads an owner or a user. */
uint32_t owner_decode(const uint8_t *p);
/* Writes the key of a blob. */
void blob_key(const struct blob_id *id, uint8_t out[BLOB_KEY]);

/* Writes a record of `n` numbers and their checksum. */
int numbers_put(MDB_txn *txn, MDB_dbi dbi, MDB_val key, const uint64_t *numbers, size_t n);
/* Reads such a record. MDB_CORRUPTED if it is not `n` numbers with their checksum. */
int numbers_get(MDB_txn *txn, MDB_dbi dbi, MDB_val key, uint64_t *out, size_t n);

#endif

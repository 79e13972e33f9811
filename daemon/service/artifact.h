/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artifact.h - a value on its way from its maker to the waiters and to the store.
 *
 * Immutable and counted: the store's put, each answer that is not yet sent and each flight that
 * hands it out hold a reference. Up to ARTIFACT_INLINE_MAX the bytes are in memory, above they are
 * in a memfd that nobody else can write.
 *
 * Thread: loop thread, but for artifact_hash. Memory: artifact_ref and artifact_unref.
 */
#ifndef WARM_DAEMON_SERVICE_ARTIFACT_H
#define WARM_DAEMON_SERVICE_ARTIFACT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/wire.h"
#include "keygen/err.h"
#include "keygen/key.h"
#include "store/store.h"

#define ARTIFACT_INLINE_MAX WIRE_INLINE_MAX /* bytes: what fits a reply */

struct manifest;

struct artifact {
    unsigned refs;
    enum store_kind kind;
    bool failed; /* the compiler refused: a bundle with its status and its log */
    uint32_t cost_ms;
    struct key key;   /* under which the store has it, or will */
    struct key check; /* XXH3-128 of the bytes, */
    bool hashed;      /* if that is known */
    bool from_tier;   /* it is not sent there; and */
    uint32_t signer;  /* who signed it there (struct store_row) */
    uint64_t len;     /* bytes */
    uint8_t *data;    /* NULL if they are in */
    int fd;           /* a sealed memfd, from offset 0; else -1 */
    /* Set if the compiler read files of the client: the alternative of this result. Only clients
     * with the same files may have it. NULL otherwise. */
    struct manifest *manifest;
};

/* Returns a copy of the bytes with one reference; the caller fills in the other fields. NULL: no
 * memory. */
struct artifact *artifact_from_bytes(const void *data, size_t len);
/* Does the same with bytes whose XXH3-128 is known: they are not hashed again. */
struct artifact *artifact_from_known(const void *data, size_t len, const struct key *check);

/* Makes an artifact of a stored value, which may go meanwhile. NULL: no memory, or no descriptor. */
struct artifact *artifact_from_stored(const struct store_value *v);
/* Returns an artifact as if it were stored; the bytes stay the artifact's. */
struct store_value artifact_as_stored(const struct artifact *a);

/* Makes an artifact from a sealed memfd, which is taken, also on failure. A short value is read
 * into memory. `check` is its announced digest; NULL: unknown, and a long value is not hashed.
 * Errors: NOMEM, IO, TRUNCATED. */
int artifact_from_fd(int fd, uint64_t len, const struct key *check, struct artifact **out,
                     struct err *e);
/* Hashes a value that is not hashed; takes time. Any thread, while no other uses the artifact. IO,
 * TRUNCATED, NOMEM. */
int artifact_hash(struct artifact *a, struct err *e);

/* Adds a reference and returns the artifact. */
struct artifact *artifact_ref(struct artifact *a);
/* Drops a reference; the last one frees the artifact. NULL is fine. */
void artifact_unref(struct artifact *a);

/* Checks that nobody can change or shorten the file behind a descriptor that a client passed. It
 * must be a sealed memfd of `len` bytes, most of them written: holes cost the client nothing and
 * the daemon time. The client seals it, since sealing may wait for pages in use. INVALID,
 * TRUNCATED, IO. */
int memfd_check(int fd, uint64_t len, struct err *e);

/* Makes a memfd with a copy of the bytes. NOMEM, IO. */
int memfd_from_bytes(const void *data, size_t len, int *out, struct err *e);

/* Opens the same file again, read-only: the new description shares no offset, flags or locks with
 * others. -1, and errno, if that fails. Any thread. */
int fd_reopen(int fd);

/* Reads `len` bytes of a file, from `from` on. IO, TRUNCATED. */
int file_read_at(int fd, void *out, size_t len, uint64_t from, struct err *e);
/* Reads `len` bytes from the start of a file. IO, TRUNCATED. */
int file_read_start(int fd, void *out, size_t len, struct err *e);

#endif

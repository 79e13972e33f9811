/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artifact.h - a value on its way from who made it to who waits for it and to the store.
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
    bool failed; /* the compiler said no: a bundle with its status and its log */
    uint32_t cost_ms;
    struct key key;   /* under which the store has it, or will */
    struct key check; /* XXH3-128 of the bytes, */
    bool hashed;      /* if that is known */
    uint64_t len;     /* bytes */
    uint8_t *data;    /* NULL if they are in */
    int fd;           /* a sealed memfd, from offset 0; else -1 */
    /* The one alternative that this is the result of, where the compiler read files of the client:
     * only who has the same files may have it. NULL otherwise. */
    struct manifest *manifest;
};

/* Gives a copy of the bytes with one reference; the rest is the caller's to fill in. NULL: no
 * memory. */
struct artifact *artifact_from_bytes(const void *data, size_t len);

/* The same from a sealed memfd, which is taken, also on failure. Short ones are read into memory.
 * `check` is what they are said to be; NULL: not known, and long ones are not hashed. Errors: NOMEM,
 * IO, TRUNCATED. */
int artifact_from_fd(int fd, uint64_t len, const struct key *check, struct artifact **out,
                     struct err *e);
/* Hashes it, if it is not hashed. Any thread, as long as no other has it: it takes time. IO, TRUNCATED,
 * NOMEM. */
int artifact_hash(struct artifact *a, struct err *e);

struct artifact *artifact_ref(struct artifact *a);
void artifact_unref(struct artifact *a); /* NULL is fine */

/*
 * Makes sure that nobody can change or shorten the file behind a descriptor that a client passed: it
 * must be a sealed memfd and hold `len` bytes, most of them written: holes cost the client nothing and
 * us time. To seal it is the client's: it may have to wait, for pages that somebody uses. INVALID says
 * what is wrong.
 */
int memfd_check(int fd, uint64_t len, struct err *e);

/* A memfd with a copy of the bytes. NOMEM, IO. */
int memfd_from_bytes(const void *data, size_t len, int *out, struct err *e);

/* An open file description of its own, read-only, of the same file: whoever is given it shares no
 * offset, flags or locks with anybody. -1, and errno, if there is none to be had. Any thread. */
int fd_reopen(int fd);

/* Reads `len` bytes of a file, from `from` on or from the start. IO, TRUNCATED. */
int file_read_at(int fd, void *out, size_t len, uint64_t from, struct err *e);
int file_read_start(int fd, void *out, size_t len, struct err *e);

#endif

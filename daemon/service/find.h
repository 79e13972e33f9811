/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.h - looks up one entry that the daemon made: among the puts on their way to the store, then in
 * the store.
 *
 *     (id, proof) ──▶ put on its way? ──▶ in the store? ──▶ to be verified first, or other proof? FOUND_NONE
 *                                                       ──▶ FOUND_RESULT, FOUND_MANIFEST, FOUND_ALIAS
 *
 * An entry with another proof was made from other bytes: it is never found.
 *
 * Thread: loop thread. Memory: see enum found.
 */
#ifndef WARM_DAEMON_SERVICE_FIND_H
#define WARM_DAEMON_SERVICE_FIND_H

#include "daemon/headers/manifest.h"
#include "daemon/service/artifact.h"

struct pending_put;
struct service;

enum found {
    FOUND_NONE,   /* `code` says why */
    FOUND_RESULT, /* `value`, borrowed until the store's turn ends; or, if that is on its way to the
                       store, `pending` (borrowed) */
    FOUND_MANIFEST, /* `manifest`: given, manifest_unref */
    FOUND_ALIAS,    /* `alias`: its bases are given, bases_unref */
};

struct find {
    int code;                        /* CORRUPT: it is there, damaged; BUSY: to be verified first */
    struct err err;                  /* of the code */
    const struct store_value *value; /* &stored, or NULL */
    struct artifact *pending;
    struct manifest *manifest;
    struct alias alias;
    struct store_value stored;
};

/* Finds the newest put on its way to the store under an id with this proof (NULL: any). */
const struct pending_put *find_put(const struct service *s, const struct store_id *id,
                                   const struct proof *proof);

/* Looks for the entry of an id with this proof. */
enum found find_made(struct service *s, const struct store_id *id, const struct proof *proof,
                     struct find *out);

/* Tells the maker and the checksum of the entry of an id with this proof (NULL: any), stored or on its
 * way. False if there is none. */
bool find_maker(struct service *s, const struct store_id *id, const struct proof *proof,
                uint32_t *out_maker, struct key *out_check);

#endif

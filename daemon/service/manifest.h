/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h - which of a client's files a compile read, and which result came of it.
 *
 * A compile that asked its client for headers has a key that its source alone does not tell. Under
 * the source's key the store then has a manifest: up to MANIFEST_ALTERNATIVES_MAX times "where
 * these paths are as follows, the result is there". The asker says what is at the paths now; the
 * alternative that matches names the result's own key.
 *
 *     source's key ──▶ manifest ──┬─ a.h: 12ab…, b.h: absent ──▶ result's key
 *                                 └─ a.h: 77c0…, b.h: 5e1f…  ──▶ another
 *
 *     offset  size  field (little-endian)
 *     0       4     "WMAN"
 *     4       2     version, 4
 *     6       2     a, alternatives, the newest first
 *     8       4     p, paths
 *     12      -     p × blob path
 *     -       -     a × alternative: u32 maker (uid), key result, proof of the result, 32 bytes: the
 *                   -I folders that the asker must have (manifest_paths.h), or zero: any, u8 1 if it
 *                   counts which paths are one file,
 *                   u32 n, n × state: u32 index of the path, u8 0 absent, 1 file,
 *                   then for a file its SHA-256 (32 bytes) and u32 the number of the first of these
 *                   states that is of the same file: its own if none before it is
 *
 * A compiler leaves out what has `#pragma once` if it read that very file before, by device and inode,
 * and not if it read a copy. So where a text that it read may have one, the asker's paths must be one
 * file where they were, and only there. The forms of a path (manifest_paths.h) count as paths: for the asker
 * one of them may be read for one #include, and another for the next.
 *
 * Where a result is kept under a shared key (keygen/cuda/job.h), the store has under the exact key of each
 * job that led there an alias:
 *
 *     offset  size  field (little-endian)
 *     0       4     "WALS"
 *     4       2     version, 2
 *     6       16    the shared key, as the store is asked for it
 *     22      32    its proof
 *     54      -     blob folder of the name of this job's program, u32 n, n × blob absolute -I folder:
 *                   struct bases (manifest_paths.h)
 *
 * What has another version is as good as none.
 *
 * Thread: any; counted references are the loop thread's. Memory: a manifest owns a copy of its
 * bytes, and its views point into that.
 */
#ifndef WARM_DAEMON_SERVICE_MANIFEST_H
#define WARM_DAEMON_SERVICE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/wire.h"
#include "daemon/service/manifest_paths.h"
#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define MANIFEST_VERSION 4u
#define ALIAS_VERSION 2u
#define MANIFEST_ALTERNATIVES_MAX 16u
#define MANIFEST_PATHS_MAX WIRE_CHECK_PATHS_MAX /* paths of all alternatives together */
#define MANIFEST_MAX                                                                               \
    (2u << 20) /* bytes, which the loop reads and writes; the oldest alternatives are left out */

struct manifest_state {
    uint32_t path; /* index */
    bool absent;
    struct proof sha256; /* of the content, unless absent */
    uint32_t same;       /* the first state of the alternative that is of the same file */
};

struct manifest_alternative {
    uint32_t maker; /* uid whose files these are */
    struct key result;
    struct proof proof;  /* of the source's proof, the paths and their SHA-256: manifest_seal */
    struct proof places; /* of the asker's -I folders (struct bases); zero: any */
    bool one_file;       /* it counts which states are of the same file */
    uint32_t n_states;
    struct manifest_state *states;
};

struct manifest {
    unsigned refs;
    uint32_t n_paths;
    struct view *paths;
    uint32_t n_alternatives;
    struct manifest_alternative *alternatives;
    uint8_t *bytes;
    struct key digest;   /* of the bytes: two that are equal say the same */
    struct bases *bases; /* of who is asked: what the marks in the paths stand for; NULL: none */
};

/* Reads a manifest; gives *out with one reference. MALFORMED, TRUNCATED, VERSION, TOO_BIG, NOMEM.
 */
int manifest_decode(const void *data, size_t len, struct manifest **out, struct err *e);
/* A manifest of one alternative: `n` paths, states[i] is what is at paths[i], its `same` a number
 * of these; a path that comes again is left out. The rest of *alternative is taken over as it is. All is copied. NULL: no memory. */
struct manifest *manifest_new(const struct view *paths, const struct manifest_state *states,
                              uint32_t n, const struct manifest_alternative *alternative);
/* One of a manifest's alternatives as a manifest by itself, for who has these bases (may be NULL).
 * NULL: no memory, or manifest_set_bases says no. */
struct manifest *manifest_of_one(const struct manifest *m, const struct manifest_alternative *a,
                                 struct bases *bases);
/* For whom it is from now on; NULL: for who has no such folders. False if a path of it means a folder
 * that these are not, or is too long there: nobody is to be asked about it. */
bool manifest_set_bases(struct manifest *m, struct bases *bases);
struct manifest *manifest_ref(struct manifest *m);
void manifest_unref(struct manifest *m); /* NULL is fine */

/* What of a stored manifest, which is taken, is for who has these bases (NULL: none), under the same
 * digest: alternatives that show other -I folders, and their paths, are left out. NULL: nothing is, or
 * no memory, or manifest_set_bases says no. */
struct manifest *manifest_for(struct manifest *m, struct bases *bases);

/* Appends the bytes of the first alternative of `fresh`, then those of `old` (NULL: none) that lead
 * to other results, as many as there is room for: those of other makers first. Check out->failed. */
void manifest_write(const struct manifest *fresh, const struct manifest *old, struct writer *out);

/* The graph key and the proof of a result: over those of the source, the -I folders that it is for,
 * and each path with what is there. */
void manifest_seal(const struct key *graph, const struct proof *proof, const struct proof *places,
                   const struct view *paths, const struct manifest_state *states, uint32_t n,
                   struct key *out_graph, struct proof *out_proof);

/* The first alternative that what the asker has agrees with; NULL if none does, or memory ran out.
 * `states` has one for each path. A path that the asker's client does not give out counts as absent,
 * as it did for the compiler. */
const struct manifest_alternative *manifest_match(const struct manifest *m,
                                                  const struct wire_path_seen *states);
/* True if this state alone is not as the asker has it. */
bool manifest_differs(const struct manifest_state *was, const struct wire_path_seen *is);
/* The first state that is one file with another, or is not, other than in the alternative, where all
 * contents agree; n_states if there is none. 0 if memory ran out. */
uint32_t manifest_other_file(const struct manifest *m, const struct manifest_alternative *a,
                             const struct wire_path_seen *states);

struct alias {
    struct key key;
    struct proof proof;
    struct bases *bases; /* borrowed by alias_write, given by alias_read */
};
void alias_write(const struct alias *alias, struct writer *out);
/* False if that is no alias, or memory ran out. */
bool alias_read(const void *data, size_t len, struct alias *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest.h - which of a client's files a compile read, and which result came of them.
 *
 * The key of a compile that asked its client for headers depends on more than its source. Under the
 * source's key the store then has a manifest of up to MANIFEST_ALTERNATIVES_MAX alternatives. Each says:
 * if these paths have these contents, the result is there. The client describes its files at the paths;
 * the alternative that agrees names the result's own key.
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
 *                   -I folders that the client must have (manifest_paths.h), or zero: any, u8 1 if it
 *                   counts which paths are one file,
 *                   u32 n, n × state: u32 index of the path, u8 0 absent, 1 file,
 *                   then for a file its SHA-256 (32 bytes) and u32 the number of the first of these
 *                   states that is of the same file: its own if none before it is
 *
 * A compiler leaves out a file with `#pragma once` if it read that very file before: device and
 * inode tell. It reads a copy again. So if a text that it read may have one, the client's paths
 * must be one file if they were one, and only then. The forms of a path (manifest_paths.h) count
 * as paths: the client's compiler may read one of them for one #include, and another for the next.
 *
 * A result may be kept under a shared key (keygen/cuda/job.h). Then the store has an alias under the exact
 * key of each job that led there:
 *
 *     offset  size  field (little-endian)
 *     0       4     "WALS"
 *     4       2     version, 2
 *     6       16    the shared key, as the store is asked for it
 *     22      32    its proof
 *     54      -     blob folder of the name of this job's program, u32 n, n × blob absolute -I folder:
 *                   struct bases (manifest_paths.h)
 *
 * A reader treats another version as absent.
 *
 * Thread: any, but references are counted on the loop thread. Memory: a manifest owns a copy of its
 * bytes, and its views point into that.
 */
#ifndef WARM_DAEMON_HEADERS_MANIFEST_H
#define WARM_DAEMON_HEADERS_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/wire.h"
#include "daemon/headers/manifest_paths.h"
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
    struct proof proof;  /* over the source's proof, the paths and their SHA-256: manifest_seal */
    struct proof places; /* of the client's -I folders (struct bases); zero: any */
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
    struct key digest; /* of the bytes */
    struct bases
        *bases; /* of the client that is asked: they resolve the marks in the paths; NULL: none */
};

/* Reads a manifest; gives *out with one reference. MALFORMED, TRUNCATED, VERSION, TOO_BIG, NOMEM.
 */
int manifest_decode(const void *data, size_t len, struct manifest **out, struct err *e);
/* Makes a manifest of one alternative, with one reference. states[i] describes paths[i]; its `same`
 * counts in these. A path that comes again is left out. The other fields of *alternative are
 * copied. NULL: no memory. */
struct manifest *manifest_new(const struct view *paths, const struct manifest_state *states,
                              uint32_t n, const struct manifest_alternative *alternative);
/* Makes a manifest of one alternative of `m`, for a client with these bases (may be NULL). NULL: no
 * memory, or the bases do not fit (manifest_set_bases). */
struct manifest *manifest_of_one(const struct manifest *m, const struct manifest_alternative *a,
                                 struct bases *bases);
/* Sets the bases of the client that is asked (NULL: it has no such folders). False if a path names
 * a folder that these lack, or is too long there: that client must not be asked. */
bool manifest_set_bases(struct manifest *m, struct bases *bases);
/* Adds a reference and returns the manifest. Loop thread. */
struct manifest *manifest_ref(struct manifest *m);
/* Drops a reference; the last one frees the manifest. NULL is fine. Loop thread. */
void manifest_unref(struct manifest *m);

/* Selects from a stored manifest, which is taken, the alternatives for a client with these bases
 * (NULL: none), under the same digest. Alternatives that show other -I folders are left out, with
 * their paths. NULL: none is left, or no memory, or the bases do not fit. */
struct manifest *manifest_for(struct manifest *m, struct bases *bases);

/* Appends the bytes of the first alternative of `fresh`. Then come alternatives of `old` (NULL:
 * none) that lead to other results, as many as fit, those of other makers first. Check out->failed.
 * */
void manifest_write(const struct manifest *fresh, const struct manifest *old, struct writer *out);

/* Computes graph key and proof of a result. They cover those of the source, the -I folders that it
 * is for, and each path with its content. */
void manifest_seal(const struct key *graph, const struct proof *proof, const struct proof *places,
                   const struct view *paths, const struct manifest_state *states, uint32_t n,
                   struct key *out_graph, struct proof *out_proof);

/* Finds the first alternative that agrees with the client's files; NULL if none does, or memory ran
 * out. `states` has one for each path. A path that the client refuses to show counts as absent, as
 * it did for the compiler. */
const struct manifest_alternative *manifest_match(const struct manifest *m,
                                                  const struct wire_path_seen *states);
/* True if the client's file at this one path differs. */
bool manifest_differs(const struct manifest_state *was, const struct wire_path_seen *is);
/* Finds the first state that shares its file with another one on one side only: in the
 * alternative, or at the client. All contents must agree. Returns n_states if there is none; 0 if
 * memory ran out. */
uint32_t manifest_other_file(const struct manifest *m, const struct manifest_alternative *a,
                             const struct wire_path_seen *states);

struct alias {
    struct key key;
    struct proof proof;
    struct bases *bases; /* borrowed by alias_write, given by alias_read */
};
/* Appends the bytes of an alias. Check out->failed. */
void alias_write(const struct alias *alias, struct writer *out);
/* Reads an alias. False if that is no alias, or memory ran out. */
bool alias_read(const void *data, size_t len, struct alias *out);

#endif

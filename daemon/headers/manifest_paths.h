/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_paths.h - how a manifest names a file, so that every client with the same key finds its own.
 *
 * A compiler's path is the text of a folder, then the text of the #include. The folder is the
 * client's working folder, that of the program's name, or an absolute -I folder. An exact key has
 * the name and the -I folders, but no working folder. A shared key has none of the three, only the
 * number of absolute -I folders. So a path is written down as
 *
 *     beneath the working folder                  "h.h"
 *     beneath the name's folder, shared key       "\1h.h"
 *     beneath the n-th absolute -I, shared key    "\2n/h.h", n counts from 0
 *     beneath an absolute folder of the key       as it is: "/inc/h.h"
 *
 * If the text does not tell the folder, the path is written down in each form that applies. A
 * client must then have the same content in all of them. If a text of the program may name files by
 * absolute paths itself, the path is written down as it is, too.
 *
 * A result that shows where a header lies, as __FILE__ does, is for clients with the same -I folders
 * alone. Their paths are then written down as they are, and the manifest tells which folders these are.
 *
 * Several '/' in a row count as one in all texts, as they do for the compiler.
 *
 * Thread: any; references are counted without a lock. Memory: owns copies of the job's texts.
 */
#ifndef WARM_DAEMON_SERVICE_MANIFEST_PATHS_H
#define WARM_DAEMON_SERVICE_MANIFEST_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/cuda/job.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define MANIFEST_PATHS_IN_FOLDER '\1' /* begins a path beneath the folder of the program's name */
#define MANIFEST_PATHS_IN_PLACE '\2'  /* begins a path beneath an absolute -I */
#define MANIFEST_PATHS_FORMS_MAX 6u
#define MANIFEST_PATHS_NESTED_MAX                                                                  \
    3u /* absolute -I folders in one another; with more, no path can move */
#define MANIFEST_PATHS_PLACES_MAX 256u /* absolute -I folders of a job with a shared key */

/* The folders of one job that these marks stand for. Texts end with '/'. */
struct bases {
    unsigned refs;
    struct view folder; /* of the program's name as the job gives it; empty: the working folder */
    uint32_t n_places;
    struct view *places;       /* the absolute folders of -I, in order */
    struct proof places_proof; /* SHA-256 of their texts */
};
/* Makes bases with one reference; copies the texts. NULL: no memory. */
struct bases *bases_new(struct view folder, const struct view *places, size_t n_places);
/* Adds a reference and returns the bases. */
struct bases *bases_ref(struct bases *b);
/* Drops a reference; the last one frees the bases. NULL is fine. */
void bases_unref(struct bases *b);

/* Splits a manifest's path, for a client with these bases (NULL: none), into a folder and its rest.
 * False if its mark stands for a folder that these lack. */
bool bases_find(const struct bases *b, struct view path, struct view *out_folder,
                struct view *out_rest);
/* Writes that path with NUL, cut to `cap` bytes. Returns its length. */
size_t bases_path(const struct bases *b, struct view path, char *out, size_t cap);

struct manifest_paths {
    char *cwd;
    struct bases *bases;
    char **others; /* absolute folders of -include files */
    size_t n_others;
    bool can_move; /* the text of a path tells beneath which -I folder it is */
};

/* Collects the folders of a job. NOMEM; INVALID, REFUSED for options that cannot be read. */
int manifest_paths_open(struct manifest_paths *out, const struct job *job, struct err *e);
/* Frees them; all zero is fine. */
void manifest_paths_close(struct manifest_paths *p);

enum manifest_paths_how {
    MANIFEST_PATHS_SHARED = 1, /* for the manifest of a shared key */
    MANIFEST_PATHS_MOVED = 2,  /* clients with other -I folders may have the result */
    MANIFEST_PATHS_NAMED = 4,  /* an absolute path may stand in a text as it is */
    MANIFEST_PATHS_INNER =
        8, /* a text may lead from the working folder, or the name's, into a -I folder */
};
/* Appends the forms of a path, each as a blob; returns how many, at most MANIFEST_PATHS_FORMS_MAX.
 * `how` is a set of enum manifest_paths_how. Check out->failed. */
unsigned manifest_paths_forms(const struct manifest_paths *p, struct view path, unsigned how,
                              struct writer *out);
/* True if it is known from which folders a path may stem. */
bool manifest_paths_know(const struct manifest_paths *p, struct view path);

#endif

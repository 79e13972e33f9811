/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.h - describes what an artifact was made of, in parts that a person can compare.
 *
 *     name       value
 *     arch       sm_90
 *     compiler   NVRTC 13.5 (libnvrtc.so.13, 1a2b3c4d)
 *     option -D  N=4
 *     source     5e1f0a77c0129b3d (812 bytes)
 *
 * Two keys tell that two artifacts differ; their recipes tell which parts differ. Parts are sorted by
 * name, then value; a name may come more than once. Long texts are cut, contents are digests: a recipe
 * is some hundred bytes and holds no source.
 *
 *     bytes: n × (blob name, blob value), a blob being a u32 length and that many bytes
 *
 * Thread: any; no state. Memory: views borrow the recipe's bytes.
 */
#ifndef WARM_DAEMON_HISTORY_RECIPE_H
#define WARM_DAEMON_HISTORY_RECIPE_H

#include <stdbool.h>
#include <stddef.h>

#include "keygen/bytes.h"
#include "keygen/cuda/job.h"

#define RECIPE_PARTS_MAX 192u /* further parts are compared, but not named */
#define RECIPE_TEXT_MAX 200u  /* bytes of a name or a value */
#define RECIPE_MAX 8192u      /* bytes */

struct recipe {
    struct {
        char name[64], value[RECIPE_TEXT_MAX + 1];
    } part[RECIPE_PARTS_MAX];
    size_t n;
    uint64_t others; /* digest of the parts that had no room */
};

/* Empties a recipe. */
void recipe_begin(struct recipe *r);
/* Adds a part. */
void recipe_add(struct recipe *r, const char *name, struct view value);
/* Writes the parts, sorted; check out->failed. */
void recipe_end(struct recipe *r, struct writer *out);

/* Adds the parts of a job, but for its target and its compiler. */
void recipe_add_job(struct recipe *r, const struct job *job);
/* Adds the parts of a client's description: "sm_90", or, with further parts, "kernel.ptx; -O3;
 * driver=550.54". The first is called `name`; a part with "=" has its name before that; others are
 * options. */
void recipe_add_text(struct recipe *r, const char *name, struct view text);

/* Finds the first value of a name; false if there is none. */
bool recipe_find(struct view recipe, const char *name, struct view *out);

struct recipe_change {
    struct view part, old, now; /* empty: there was none, there is none */
};
/* Finds the differences of two recipes: returns how many, of which up to `cap` are in `out`. */
size_t recipe_compare(struct view old, struct view now, struct recipe_change *out, size_t cap);

#endif

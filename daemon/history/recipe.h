/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.h - what an artifact was made of, in parts that a person can compare.
 *
 *     name       value
 *     arch       sm_90
 *     compiler   NVRTC 13.5 (libnvrtc.so.13, 1a2b3c4d)
 *     option -D  N=4
 *     source     5e1f0a77c0129b3d (812 bytes)
 *
 * A key says that two things differ; their recipes say in what. Parts are sorted by name, then
 * value; a name may come more than once. Long texts are cut, contents are digests: a recipe is some
 * hundred bytes and holds no source.
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

#define RECIPE_PARTS_MAX 192u /* further ones are told apart, but not named */
#define RECIPE_TEXT_MAX 200u  /* bytes of a name or a value */
#define RECIPE_MAX 8192u      /* bytes */

struct recipe {
    struct {
        char name[64], value[RECIPE_TEXT_MAX + 1];
    } part[RECIPE_PARTS_MAX];
    size_t n;
    uint64_t others; /* of the parts that had no room */
};

/* Empties *r, adds parts, and writes them sorted; check out->failed. */
void recipe_begin(struct recipe *r);
void recipe_add(struct recipe *r, const char *name, struct view value);
void recipe_end(struct recipe *r, struct writer *out);

/* The parts of a compile that the daemon does, but for its target and its compiler. */
void recipe_add_job(struct recipe *r, const struct job *job);
/*
 * A text in which a client says what it made something of: "sm_90", or, with further parts,
 * "kernel.ptx; -O3; driver=550.54". The first is called `name`; one with "=" is called by what is in
 * front of it; others are options.
 */
void recipe_add_text(struct recipe *r, const char *name, struct view text);

/* The first value of that name; false if there is none. */
bool recipe_find(struct view recipe, const char *name, struct view *out);

struct recipe_change {
    struct view part, old, now; /* empty: was not there, is not there */
};
/* What is not the same in both: returns how many changes, of which up to `cap` are in `out`. */
size_t recipe_compare(struct view old, struct view now, struct recipe_change *out, size_t cap);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * siege.h - what the well-behaved user, the honest crowd and the hostile one share.
 *
 *     siege.c    the daemon, the two phases, the verdict
 *     user.c     the well-behaved user's three programs, and the honest crowd
 *     hostile.c  one function for each way to harm others
 *     helper.c   a warm-tier that somebody took over
 *
 * Every program is a process with a uid of its own, but for the user's three, which share one. They end
 * when the siege kills them. Thread: one a process. Memory: `shared` is mapped by all.
 */
#ifndef WARM_TESTS_SIEGE_H
#define WARM_TESTS_SIEGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "keygen/key.h"

#define USER_UID 41000u    /* the well-behaved user */
#define CROWD_UID 42000u   /* the first of the others */
#define TIMES 2048u        /* 32 steps for each power of two nanoseconds */
#define COMPILED_MAX 4096u /* sources whose results are looked at again afterwards */

struct phase { /* what the user saw */
    _Atomic uint64_t n_hits, n_puts, n_compiles, n_failed, n_wrong;
    _Atomic uint64_t times[TIMES];
    char first[256]; /* of what failed or was wrong */
};

struct shared {
    char socket[108], folder[108]; /* the folder has include/h.h */
    struct phase phases[2];
    _Atomic unsigned phase;
    _Atomic unsigned n_compiled; /* the user's sources, 0 to this */
    struct key compiled[COMPILED_MAX];
    _Atomic uint64_t n_attacks[64]; /* by each hostile program */
    _Atomic uint64_t n_lies;        /* requests that the hostile helper took */
    _Atomic bool squats;            /* all leases of the tier are taken */
    _Atomic uint64_t n_squatted;    /* the user's compiles that ended then */
};
extern struct shared *shared;

uint64_t now_ns(void);
uint64_t random_next(uint64_t *state);

/* ---- sources that everybody knows: hostile users name them too ---- */

/* The user's source number `n`, alone in its file; `text` has at least 256 bytes. */
void source_plain(unsigned n, char *text);
/* Includes h.h, and changes each second. */
void source_popular(char *text);
/* Its result is larger than what goes into a frame. */
extern const char source_big[];

/* ---- programs: none returns ---- */

void user_hits(void);
void user_puts(void);
void user_compiles(void);
void honest_one(unsigned n);
void helper_listen(void);

/* The digest of what a compile yields; with `anew` it is neither looked for nor kept. 0, or an error. */
struct warm;
int compile_plain(struct warm *w, unsigned n, bool anew, struct key *out);

struct hostile {
    const char *name;
    void (*once)(uint64_t *state); /* called again and again */
};
extern const struct hostile hostiles[];
extern const unsigned n_hostiles;

#endif

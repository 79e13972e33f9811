/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_kit.h - what the suites of the shims share: a daemon, and a vendor's library in this process. The suite
 * calls the library's functions, and the stand-ins for them, side by side.
 *
 *     tests/fake…/NAME.c ── cc ──▶ DIR/NAME.so ── dlopen ──▶ the real functions
 *                                                                  │ X_stand_in(name, real)
 *                                                                  ▼
 *                                                               the stand-ins, which ask the daemon
 *
 * A library of tests/fake… notes each of its calls by a word, so that a test sees which calls reach it. The
 * libraries of the vendor are those that tests/clients installs in its virtual environments.
 *
 * Thread: the test's own. Memory: a test embeds it; shim_kit_down frees all. Libraries stay loaded.
 */
#ifndef WARM_TESTS_SUPPORT_SHIM_KIT_H
#define WARM_TESTS_SUPPORT_SHIM_KIT_H

#include "client/lib/warm.h"
#include "tests/support/warmd.h"

struct shim_kit {
    struct warmd daemon;
    struct warm *w; /* the test's own connection */
};

/* Starts a daemon, and makes it that of this process. */
void shim_kit_up(struct shim_kit *k);
/* Ends the daemon, if it runs. */
void shim_kit_down(struct shim_kit *k);
/* Kills the daemon at once: connections end. */
void shim_kit_kill(struct shim_kit *k);

/* Compiles `source` to a library in the kit's folder. Returns its path; free() it. */
char *shim_kit_build(const struct shim_kit *k, const char *name, const char *source,
                     const char *flags);
/* Loads a library, or fails the test. */
void *shim_kit_load(const char *path);
/* Returns the path of a library of the vendor; free() it. NULL: no environment of tests/clients has it.
 * `pattern` is for glob, beneath the packages' folder "nvidia". */
char *shim_kit_vendor(const char *pattern);
/* Returns the calls that a library of tests/fake… has noted since the last time, a space after each. */
const char *shim_kit_notes(void *library);

/* Writes bytes that a program sees to `out`, NUL as $. */
void shim_kit_show(FILE *out, const void *bytes, size_t len);

/* Returns how many bytes this process has allocated, to find memory that is kept though nobody needs it; 0
 * without AddressSanitizer. A leak check finds only what no pointer leads to. */
size_t shim_kit_allocated(void);

/* Returns how many entries have a name that begins with `prefix`. */
size_t shim_kit_count(const struct shim_kit *k, const char *prefix);
/* Writes the name of the only entry with this prefix. */
void shim_kit_name(const struct shim_kit *k, const char *prefix, char out[128]);
/* Stores bytes as an entry that leased_entry.h calls whole; its name ends with the proof in hex. */
void shim_kit_put_whole(const struct shim_kit *k, const char *name, const void *data, size_t len);

#endif

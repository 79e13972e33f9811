/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchains.h - the compilers that the configuration names, and those that clients name by path,
 * as they are right now.
 *
 *     a place (path) ──▶ current toolchain ──file changed──▶ identified again on a pool thread;
 *       of the configuration      ▲                          BUSY meanwhile, and waiters are told
 *       or of a client            └─────────────────────────────┘
 *
 * A client's place is made when it is first asked for. TOOLCHAINS_NAMED_MAX of them are kept; the one
 * that was not used for longest makes room. Only root and the daemon's own user may be able to change
 * the files behind it (toolchain_locate_trusted). Like a configured library it is kept under the identity
 * of its content: the same library is the same toolchain either way.
 *
 * The daemon's own user may name any place: that user could load it as well. Everybody else may name
 * libraries beneath the folders of the setting nvrtc_from, or in the folder of a configured library.
 * No other path is looked at for them, and they get one answer whatever is wrong: it does not tell whether
 * another user's path exists.
 *
 * A toolchain that was handed out stays in memory until toolchains_free, replaced or not.
 *
 * Thread: loop thread. Memory: opaque; texts of the configuration are copied.
 */
#ifndef WARM_DAEMON_COMPILER_TOOLCHAINS_H
#define WARM_DAEMON_COMPILER_TOOLCHAINS_H

#include <uv.h>

#include "daemon/compiler/toolchain.h"

#define TOOLCHAINS_NAMED_MAX 16u /* places that clients named */

struct toolchains_config {
    uv_loop_t *loop;
    const struct worker_program *program; /* borrowed until toolchains_free */
    char *const *given;
    size_t n_given;
    char *const *from; /* folders from which users other than the daemon's own may name libraries */
    size_t n_from;
    int (*recall)(void *arg, const char *name, void *out, size_t cap, size_t *out_len);
    int (*remember)(void *arg, const char *name, const void *data, size_t len);
    void *memory_arg;
    /* Gives the fork server that was started to identify a library. */
    void (*on_started)(void *arg, const struct toolchain *toolchain,
                       const struct worker_started *server);
    /* Tells that toolchains_busy has become false. */
    void (*on_idle)(void *arg);
    void *arg;
};

struct toolchains;
/* Identifies the libraries that are not remembered, and blocks for that. A library that cannot be
 * used is left out, with a line in the log. NOMEM. */
int toolchains_open(struct toolchains **out, const struct toolchains_config *config, struct err *e);

/* Finds a toolchain, as pool_find does. */
int toolchains_find(struct toolchains *t, struct view selector, uint32_t uid,
                    const struct toolchain **out, struct err *e);
/* Waits after BUSY, as pool_await does. */
void toolchains_await(struct toolchains *t, struct toolchain_wait *wait);
/* Lists the toolchains, at most `cap`; returns how many. */
size_t toolchains_list(const struct toolchains *t, const struct toolchain **out, size_t cap);

/* Lists the paths that lead to no usable library, at most `cap`: configured ones, and those that the user
 * `uid` named last (-1: anybody). Borrowed until the next call of another function. */
size_t toolchains_refused(const struct toolchains *t, int64_t uid, struct toolchain_refusal *out,
                          size_t cap);

/* Returns the files of a toolchain that was found here. */
const struct toolchain_files *toolchains_files(const struct toolchain *toolchain);

/* Stops identifying. toolchains_free is allowed when toolchains_busy is false. */
void toolchains_stop(struct toolchains *t);
/* True while any is being identified. */
bool toolchains_busy(const struct toolchains *t);
/* Frees all; none may be busy. NULL is fine. */
void toolchains_free(struct toolchains *t);

#endif

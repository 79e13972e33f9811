/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchains.h - the compilers that the configuration names, and those that clients name by path,
 * as they are right now.
 *
 *     a place (path) ──▶ current toolchain ──file changed──▶ identified again on a pool thread;
 *       of the configuration      ▲                          BUSY meanwhile, and who waits is told
 *       or of a client            └─────────────────────────────┘
 *
 * A place of a client is made when it is first asked for; TOOLCHAINS_NAMED_MAX of them are kept, the
 * one that was not used for longest gives way. What it leads to must be what nobody but root and the
 * daemon's own user can change (toolchain_locate_trusted), and is kept under the identity of its
 * content as what the configuration names is: the same library is the same toolchain either way.
 *
 * The daemon's own user may name any place: that user could load it as well. Everybody else may name
 * what lies beneath the folders of the setting nvrtc_from, or in the folder of a configured library.
 * Nothing else is looked at for them, and they get one answer whatever is wrong: whether a path of
 * somebody else's exists is not told.
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
    char *const *from; /* folders from which others than the daemon's own user may name libraries */
    size_t n_from;
    int (*recall)(void *arg, const char *name, void *out, size_t cap, size_t *out_len);
    int (*remember)(void *arg, const char *name, const void *data, size_t len);
    void *memory_arg;
    /* The fork server that was started to identify a library; its descriptor is given. */
    void (*on_started)(void *arg, const struct toolchain *toolchain,
                       const struct worker_started *server);
    /* toolchains_busy has become false. */
    void (*on_idle)(void *arg);
    void *arg;
};

struct toolchains;
/* Identifies what is not remembered, and blocks for that. What cannot be used is left out, with a
 * line in the log. NOMEM. */
int toolchains_open(struct toolchains **out, const struct toolchains_config *config, struct err *e);

/* As pool_find, pool_await and pool_toolchains. */
int toolchains_find(struct toolchains *t, struct view selector, uint32_t uid,
                    const struct toolchain **out, struct err *e);
void toolchains_await(struct toolchains *t, struct toolchain_wait *wait);
size_t toolchains_list(const struct toolchains *t, const struct toolchain **out, size_t cap);

/* The files of a toolchain that was found here. */
const struct toolchain_files *toolchains_files(const struct toolchain *toolchain);

/* No more is identified from now on; toolchains_free is allowed once nothing is. */
void toolchains_stop(struct toolchains *t);
bool toolchains_busy(const struct toolchains *t);
void toolchains_free(struct toolchains *t);

#endif

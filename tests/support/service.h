/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - a service for one test, without a wire: a loop, a real store and a pool of workers, with or
 * without a toolchain.
 *
 * Thread: the test's own, which runs the loop. Memory: service_rig_down frees all.
 */
#ifndef WARM_TESTS_SUPPORT_SERVICE_H
#define WARM_TESTS_SUPPORT_SERVICE_H

#include <stdbool.h>
#include <uv.h>

#include "daemon/service/service.h"

struct service_rig {
    uv_loop_t loop;
    uv_async_t wake;
    struct config config;
    struct spawner *spawner;
    struct pool *pool;
    struct store *store;
    struct service *service;
    char *dir;
};

/* Starts all; the pool has no toolchain. */
void service_rig_up(struct service_rig *r);
/* Does so with these settings: pairs of a name and a value, and NULL. */
void service_rig_up_with(struct service_rig *r, const char *const *settings);
/* Starts all, with NVRTC and two workers. False, and nothing is started, if there is no toolchain. */
bool service_rig_up_with_nvrtc(struct service_rig *r);
/* Runs the loop until *flag; fails the test after a minute. */
void service_rig_until(struct service_rig *r, const bool *flag);
/* Returns a put of a text under a name, of kind OTHER. */
struct service_put service_rig_text(const char *name, const char *value);

/* The end of a put. */
struct service_rig_put {
    bool done, existed;
    int status;
};
/* Begins a put, which fills in *out when it ends. Returns the code of service_put. */
int service_rig_put_begin(struct service_rig *r, const struct peer *peer, struct service_put put,
                          struct service_rig_put *out);
/* Waits until a put has ended. Returns its status. */
int service_rig_put_end(struct service_rig *r, const struct service_rig_put *put);
/* Puts a value. Returns 0 once it is stored, or the error. */
int service_rig_put(struct service_rig *r, const struct peer *peer, struct service_put put);

/* Adds an answer to `seen`, of `size` bytes, as a letter: N NEED, W WAIT, C CHECK, L LEASE, and the last one:
 * = VALUE, M MISS, F FAILED, E ERROR, O OVER. Returns true if it is the last; fails the test after that. */
bool service_rig_note(char *seen, size_t size, enum answer_kind kind);

/* Drains and frees all; expects that no handle is left. */
void service_rig_down(struct service_rig *r);

#endif

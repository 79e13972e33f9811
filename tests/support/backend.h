/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - for suites of tier/backends: a backend on a loop of its own, and its requests one by one.
 *
 *     backend_open ─▶ backend_run … ─▶ backend_close
 *
 * Thread: the test's own. Memory: backend_close frees the backend and its loop.
 */
#ifndef WARM_TESTS_SUPPORT_BACKEND_H
#define WARM_TESTS_SUPPORT_BACKEND_H

#include "tier/backend.h"

struct backend_kit {
    uv_loop_t loop;
    struct tier_backend *backend;
};

/* Opens the backend of a URL, which must be a good one. `credentials`: a file, or NULL. */
void backend_open(struct backend_kit *kit, const char *url, const char *credentials);
/* Opens the backend of these settings. */
void backend_open_with(struct backend_kit *kit, const struct tier_settings *settings);
/* Closes the backend; nothing of it may be left on the loop. */
void backend_close(struct backend_kit *kit);

/* Counts in *request->user, an unsigned, that the request is done. */
void backend_on_done(struct tier_request *request);
/* Runs a request to its end, which must come once. Without a time limit it gets 5 s. Returns its outcome. */
enum tier_outcome backend_run(struct backend_kit *kit, struct tier_request *request);
/* Runs a request whose value is a text. It lies inside a longer file. Returns the outcome. */
enum tier_outcome backend_send(struct backend_kit *kit, struct tier_request request,
                               const char *text);
/* Does the same. Returns the request with its answer. */
struct tier_request backend_send_whole(struct backend_kit *kit, struct tier_request request,
                                       const char *text);

#endif

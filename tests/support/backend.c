/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.c - opens a backend and runs requests on it. The suites of tier/backends call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/backend.h"

#include <criterion/criterion.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void backend_open_with(struct backend_kit *kit, const struct tier_settings *settings)
{
    char why[200] = "";
    cr_assert_eq(uv_loop_init(&kit->loop), 0);
    kit->backend = tier_backend_new(&kit->loop, settings, why, sizeof why);
    cr_assert(kit->backend, "%s", why);
}

void backend_open(struct backend_kit *kit, const char *url, const char *credentials)
{
    backend_open_with(kit, &(struct tier_settings){.url = url, .credentials = credentials});
}

static void on_closed(void *user) { *(bool *)user = true; }

void backend_close(struct backend_kit *kit)
{
    bool closed = false;
    kit->backend->functions->close(kit->backend, on_closed, &closed);
    uv_run(&kit->loop, UV_RUN_DEFAULT);
    cr_assert(closed);
    cr_assert_eq(uv_loop_close(&kit->loop), 0);
}

void backend_on_done(struct tier_request *request) { *(unsigned *)request->user += 1; }

enum tier_outcome backend_run(struct backend_kit *kit, struct tier_request *request)
{
    unsigned n = 0;
    request->user = &n;
    request->done = backend_on_done;
    if (!request->timeout_ms)
        request->timeout_ms = 5000;
    kit->backend->functions->start(kit->backend, request);
    cr_assert_eq(n, 0, "not from within the call");
    while (!n)
        uv_run(&kit->loop, UV_RUN_ONCE);
    cr_assert_eq(n, 1);
    return request->outcome;
}

enum tier_outcome backend_send(struct backend_kit *kit, struct tier_request request,
                               const char *text)
{
    return backend_send_whole(kit, request, text).outcome;
}

struct tier_request backend_send_whole(struct backend_kit *kit, struct tier_request request,
                                       const char *text)
{
    size_t len = strlen(text);
    request.fd = memfd_create("test", MFD_CLOEXEC);
    request.offset = 3;
    request.length = len;
    cr_assert_eq(pwrite(request.fd, text, len, 3), (ssize_t)len);
    SHA256((const unsigned char *)text, len, request.sha256);
    cr_assert_eq(pwrite(request.fd, "more", 4, (off_t)len + 3), 4);
    backend_run(kit, &request);
    close(request.fd);
    return request;
}

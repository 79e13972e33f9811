/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3.c - s3://BUCKET[/PREFIX][?endpoint=…&region=…&style=…&profile=…]: Amazon's store and those that speak as it does.
 * backends.c chooses it.
 *
 *     PREFIX/v1/HH/e-ID     an object: GET and PUT are one transfer each
 *
 * s3_job.c sends and signs, s3_lease.c has the leases, s3_probe.c tells what the server can do. What may go wrong stands
 * there.
 *
 * Thread: loop thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tier/backends/backends.h"
#include "tier/backends/s3_internal.h"
#include "tier/url.h"

#define PROBE_AGAIN_MS 5000u /* after one that told nothing */

static void on_got(struct job *j)
{
    if (s3_take_object(j))
        http_job_end(&j->http, TIER_ABSENT, j->answer.said);
}

static void on_put(struct job *j)
{
    if (j->answer.outcome == TIER_CANNOT &&
        *j->condition) { /* an honest server without conditions */
        j->backend->conditions = CONDITIONS_IGNORED;
        s3_send_put(j, j->http.request->name, NULL, "", on_put);
    } else {
        job_fail(j);
    }
}

static void begin_with_lease(struct job *j)
{
    struct s3_backend *b = j->backend;
    bool is_due = !b->probed_ms || uv_now(b->http.loop) - b->probed_ms > PROBE_AGAIN_MS;
    if (b->conditions == CONDITIONS_UNKNOWN && !b->probing && is_due)
        s3_start_probe(b);
    if (b->probing)
        job_wait(j);
    else if (b->conditions == CONDITIONS_UNKNOWN)
        http_job_give_up(&j->http, 0, b->probe.outcome == TIER_OK ? TIER_CANNOT : b->probe.outcome,
                         *b->probe.said ? b->probe.said : b->probe.capabilities.said);
    else if (b->conditions == CONDITIONS_IGNORED)
        http_job_give_up(&j->http, 0, TIER_CANNOT,
                         "the server has no conditional writes, so no leases");
    else if (j->http.request->operation == TIER_ASK)
        s3_ask(j);
    else if (j->http.request->operation == TIER_FINISH)
        s3_finish(j);
    else
        s3_change_lease(j);
}

static void job_begin(struct job *j)
{
    struct tier_request *r = j->http.request;
    bool conditional = r->only_if_absent && j->backend->conditions != CONDITIONS_IGNORED;
    j->step = 0;
    if (r->operation == TIER_GET)
        s3_send_get(j, r->name, true, on_got);
    else if (r->operation == TIER_PUT)
        s3_send_put(j, r->name, NULL, conditional ? "If-None-Match: *" : "", on_put);
    else if (r->operation == TIER_PROBE)
        s3_probe(j);
    else
        begin_with_lease(j);
}

static void s3_start(struct tier_backend *backend, struct tier_request *r)
{
    job_begin(job_new((struct s3_backend *)backend, r));
}

static const struct tier_backend_functions s3_functions = {"s3", s3_start, http_backend_cancel,
                                                           http_backend_close};

static void on_identity(void *user) { s3_wake_jobs(user); }

static void dispose(struct http_backend *b)
{
    aws_identity_free(((struct s3_backend *)b)->identity);
}

/* ---- its URL ---- */

/* Writes origin and host. `endpoint` is [http[s]://]HOST[:PORT], or NULL: Amazon's. */
static bool set_endpoint(struct s3_backend *b, const char *bucket, const char *endpoint,
                         const char *style, char *why, size_t why_size)
{
    char host[200];
    const char *scheme = "https", *rest = endpoint;
    bool in_path = style ? strcmp(style, "path") == 0 : endpoint || strchr(bucket, '.');
    if (style && !in_path && strcmp(style, "virtual") != 0) {
        snprintf(why, why_size, "style=%.20s is neither path nor virtual", style);
        return false;
    }
    if (!endpoint)
        snprintf(host, sizeof host, "s3.%s.amazonaws.com", b->region);
    else if (strncmp(endpoint, "https://", 8) == 0)
        rest = endpoint + 8;
    else if (strncmp(endpoint, "http://", 7) == 0)
        rest = endpoint + 7, scheme = "http";
    if (endpoint) {
        size_t len = strlen(rest);
        while (len && rest[len - 1] == '/')
            len--;
        const char *usual = *(scheme + 4) ? ":443" : ":80";
        if (len > strlen(usual) && memcmp(rest + len - strlen(usual), usual, strlen(usual)) == 0)
            len -= strlen(usual);
        snprintf(host, sizeof host, "%.*s", (int)len, rest);
        if (!len || len >= sizeof host || strchr(host, '/')) {
            snprintf(why, why_size, "endpoint= is not https://HOST or https://HOST:PORT");
            return false;
        }
    }
    if (in_path)
        snprintf(b->bucket, sizeof b->bucket, "%.63s", bucket);
    snprintf(b->host, sizeof b->host, "%.63s%s%s", in_path ? "" : bucket, in_path ? "" : ".", host);
    snprintf(b->origin, sizeof b->origin, "%s://%s", scheme, b->host);
    return true;
}

static bool set_url(struct s3_backend *b, const struct tier_url *u, char *why, size_t why_size)
{
    static const char *const known[] = {"endpoint", "region", "style", "profile", NULL};
    const char *region = tier_url_option(u, "region"), *profile = tier_url_option(u, "profile");
    if (!tier_url_check_options(u, known, why, why_size))
        return false;
    if (u->port || *u->user || strlen(u->host) > 63) {
        snprintf(why, why_size,
                 "the URL of a bucket is s3://BUCKET[/PREFIX]; a server of your own is "
                 "?endpoint=https://HOST[:PORT]");
        return false;
    }
    snprintf(b->prefix, sizeof b->prefix, "%s", u->path);
    snprintf(b->profile, sizeof b->profile, "%s", profile ? profile : "");
    if (region)
        snprintf(b->region, sizeof b->region, "%.63s", region);
    else if (!credentials_read_region(profile, b->region, sizeof b->region))
        snprintf(b->region, sizeof b->region, "us-east-1");
    return set_endpoint(b, u->host, tier_url_option(u, "endpoint"), tier_url_option(u, "style"),
                        why, why_size);
}

struct tier_backend *tier_s3_new(uv_loop_t *loop, const struct tier_settings *settings, char *why,
                                 size_t why_size)
{
    struct tier_url url;
    struct s3_backend *b = calloc(1, sizeof *b);
    if (!b)
        abort(); /* warmd starts the helper again */
    b->begin = job_begin;
    b->http.dispose = dispose;
    if (!tier_url_parse(settings->url, &url, why, why_size) || !set_url(b, &url, why, why_size) ||
        !http_backend_init(&b->http, &s3_functions, loop, settings, why, why_size)) {
        free(b);
        return NULL;
    }
    b->identity = aws_identity_new(b->http.pool, b->http.credentials,
                                   *b->profile ? b->profile : NULL, on_identity, b);
    if (!b->identity)
        abort();
    return &b->http.base;
}

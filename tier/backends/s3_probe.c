/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_probe.c - finds out what a server that speaks S3 can do, by trying it. s3.c calls it, for TIER_PROBE and before
 * the first lease.
 *
 * It puts an object seven times or so and removes it. A server that ignores conditions or checksums answers 200 where
 * it must refuse: rclone 1.75 does. Nothing is assumed from a server's name.
 *
 * Thread: loop thread.
 */
#include <stdio.h>
#include <string.h>

#include "tier/backends/s3_internal.h"

#define OWN_PROBE_MS 5000u
#define OTHER_ETAG "If-Match: \"00000000000000000000000000000000\""

/* The requests of a probe, in this order. */
enum { PUT_IT, PUT_ABSENT, PUT_OTHER, PUT_SAME, PUT_DAMAGED, GET_IT, DELETE_IT, PROBES };

static void on_probed(struct job *j);

static void send_step(struct job *j)
{
    const char *name = j->http.request->name;
    char same[220];
    snprintf(same, sizeof same, "If-Match: %s", j->lease.etag);
    switch (j->step) {
    case PUT_IT: s3_send_put(j, name, "probe 1", "", on_probed); break;
    case PUT_ABSENT: s3_send_put(j, name, "probe 2", "If-None-Match: *", on_probed); break;
    case PUT_OTHER: s3_send_put(j, name, "probe 3", OTHER_ETAG, on_probed); break;
    case PUT_SAME: s3_send_put(j, name, "probe 4", same, on_probed); break;
    case PUT_DAMAGED: s3_send_damaged(j, name, "probe 5", on_probed); break;
    case GET_IT: s3_send_get(j, name, false, on_probed); break;
    default: s3_send_delete(j, name, on_probed);
    }
}

static void take_step(struct job *j)
{
    struct tier_capabilities *c = &j->http.request->capabilities;
    struct transfer *t = &j->http.transfer;
    enum tier_outcome outcome = j->answer.outcome;
    bool refused = t->status >= 400 && t->status < 500;
    bool tells = outcome == TIER_OK || outcome == TIER_EXISTS || outcome == TIER_ABSENT ||
                 outcome == TIER_CANNOT;
    if (j->step <= PUT_SAME && !tells)
        j->is_unsure = true;
    switch (j->step) {
    case PUT_IT:
        c->writes = outcome == TIER_OK;
        snprintf(j->lease.etag, sizeof j->lease.etag, "%s", t->etag);
        break;
    case PUT_ABSENT: c->conditional = outcome == TIER_EXISTS; break;
    case PUT_OTHER: c->conditional = c->conditional && refused; break;
    case PUT_SAME: c->conditional = c->conditional && outcome == TIER_OK; break;
    case PUT_DAMAGED: c->checksums = t->status == 400; break;
    case GET_IT:
        c->reads = c->writes ? outcome == TIER_OK && strncmp(t->text, "probe ", 6) == 0
                             : outcome == TIER_ABSENT;
        if (c->writes && c->reads)
            j->backend->own_read_ms = uv_now(j->backend->http.loop);
        break;
    default: break;
    }
    if ((j->step == PUT_IT && !c->writes) || (j->step == GET_IT && !c->reads)) {
        j->http.given_up = outcome == TIER_OK ? TIER_FAILED : outcome;
        snprintf(j->http.why, sizeof j->http.why, "%s",
                 outcome == TIER_OK ? "the server returned other bytes" : j->answer.said);
    }
}

static void end_probe(struct job *j)
{
    struct tier_capabilities *c = &j->http.request->capabilities;
    char more[120];
    c->leases = c->conditional;
    if (c->conditional)
        j->backend->conditions = CONDITIONS_WORK;
    else if (!j->is_unsure) /* a failed transfer says nothing about the server */
        j->backend->conditions = CONDITIONS_IGNORED;
    snprintf(more, sizeof more, "%s; %s",
             c->conditional ? "so do conditional writes, and so leases"
                            : "conditional writes do not, so there are no leases",
             c->checksums ? "a wrong checksum is refused" : "checksums are not looked at");
    http_job_end_probe(&j->http, more);
}

static void on_probed(struct job *j)
{
    struct tier_capabilities *c = &j->http.request->capabilities;
    int64_t differs = j->http.transfer.date ? (int64_t)j->http.transfer.date - time(NULL) : 0;
    c->clock_skew_ms = (uint64_t)(differs < 0 ? -differs : differs) * 1000;
    take_step(j);
    j->step = j->step == PUT_IT && !c->writes ? GET_IT : j->step + 1;
    if (j->step == PROBES || (j->step == DELETE_IT && !c->writes))
        end_probe(j);
    else
        send_step(j);
}

void s3_probe(struct job *j)
{
    j->http.request->capabilities = (struct tier_capabilities){0};
    j->is_unsure = false;
    send_step(j);
}

static void on_own_probe(struct tier_request *r)
{
    struct s3_backend *b = r->user;
    b->probing = false;
    b->probed_ms = uv_now(b->http.loop);
    s3_wake_jobs(b);
}

void s3_start_probe(struct s3_backend *b)
{
    char word[33];
    s3_random_hex(word, 8);
    b->probing = true;
    b->probe = (struct tier_request){.operation = TIER_PROBE,
                                     .fd = -1,
                                     .timeout_ms = OWN_PROBE_MS,
                                     .done = on_own_probe,
                                     .user = b};
    snprintf(b->probe.name, sizeof b->probe.name, "probe-%s", word);
    b->begin(job_new(b, &b->probe));
}

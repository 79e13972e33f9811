/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - the parts of `warm report`: what the daemon knows of a session, and the pages made of it.
 *
 *     commands/report.c ──▶ fetch.c   asks the daemon: session, events, misses; packs events into lanes
 *                       ──▶ html.c    one page without scripts and without network
 *                       ──▶ trace.c   Trace Event format, for Perfetto and chrome://tracing
 *     export, tier push ──▶ uses.c    the entries that a session used
 *
 * A lane is a row of the timeline: the events of one process in it do not overlap.
 *
 * Thread: main. Memory: report_free frees a report.
 */
#ifndef WARM_CLI_REPORT_REPORT_H
#define WARM_CLI_REPORT_REPORT_H

#include <inttypes.h>
#include <stdio.h>

#include "client/cli/filter.h"
#include "client/cli/listing.h"
#include "client/cli/remote.h"
#include "keygen/bytes.h"

#define REPORT_TEXT 128u
enum report_what {
    REPORT_HIT,
    REPORT_WAIT,
    REPORT_COMPILE, /* the daemon made it */
    REPORT_MAKE,    /* the program made it */
    REPORT_LEASE,   /* the program was to make it, and has not */
    REPORT_MISS,
    REPORT_ERROR,
    REPORT_WHATS
};
/* The words of the daemon's JSON, in this order. */
extern const char *const report_what_names[REPORT_WHATS];

struct report_event {
    enum report_what what;
    uint64_t at_us, us; /* since the session's first event; until the answer */
    uint64_t pid, cost_ms, bytes, miss;
    unsigned lane;
    char kind[24], key[40], label[REPORT_TEXT];
    const char *framework; /* static */
    struct view why;       /* JSON of the miss; empty if there is none */
};

struct report {
    struct view session;               /* JSON */
    char id[REPORT_TEXT];              /* of the session */
    struct writer json, pages, misses; /* own the JSON; `pages` is an array of events */
    struct report_event *event;        /* sorted by process, lane, time */
    size_t n_events;
    uint64_t n_forgotten;  /* events that the daemon no longer has */
    uint64_t began_us, us; /* Unix time of the first event; until the end of the last one */
};

/* ---- fetch.c ---- */

/* Asks for a session; for the one that asked last if `id` is empty. 0 or an exit status, after printing the
 * reason. */
int report_fetch(struct remote *r, const char *id, struct report *out);
/* Frees a report; a zeroed one is fine. */
void report_free(struct report *report);
/* Reads a text of an object, cut to REPORT_TEXT; "" if there is none. */
void report_text(struct view object, const char *path, char out[REPORT_TEXT]);

/* ---- uses.c ---- */

/* Entries of a session that a list of them lacks. */
struct report_missing {
    uint64_t gone; /* not in the store, or not this user's to see */
    uint64_t lost; /* the daemon no longer knows which, and how many is the least */
};
/* Lists the entries that a session used and all that belongs to them, in the order of their first use, if they
 * match. Waits at most 2 s for those that are being stored. An empty `session` is the one that asked last. 0 or
 * an exit status, after printing the reason. The caller closes *out in any case. */
int report_uses(struct remote *r, const char *session, struct wire_filter filter,
                struct listing *out, struct report_missing *missing);

/* ---- html.c ---- */

/* Writes the page. `before` is the session to compare with; NULL: none. */
void report_html(const struct report *report, const struct report *before, FILE *out);

/* ---- trace.c ---- */

/* Writes the trace. */
void report_trace(const struct report *report, FILE *out);

#endif

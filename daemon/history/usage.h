/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h - counts requests by hour, user and project, for `warm stats --since`.
 *
 *     (hour, uid, project) ──▶ a row of counters; the last USAGE_ROWS of them, at most USAGE_OF_USER of a user
 *
 * A project is the text in a client's $WARM_PROJECT. A user who has had the most rows loses the oldest one
 * when a user needs a new one. The rows are a part of the history's file.
 *
 * Thread: loop thread. Memory: embedded in struct history.
 */
#ifndef WARM_DAEMON_HISTORY_USAGE_H
#define WARM_DAEMON_HISTORY_USAGE_H

#include <stdint.h>

#include "client/wire/wire.h"
#include "keygen/bytes.h"

#define USAGE_ROWS 2048u
#define USAGE_OF_USER 512u
#define USAGE_CACHE 64u
#define USAGE_HOUR_MS 3600000u

/* What is counted; the names are those of the JSON. In the file they are in this order: append only. */
#define USAGE_COUNTERS(X) X(hits) X(misses) X(coalesced) X(errors) X(saved_ms)
enum usage_counter {
#define X(name) USAGE_##name,
    USAGE_COUNTERS(X)
#undef X
        USAGE_N_COUNTERS
};

struct usage_row {
    uint32_t hour, uid; /* hours since 1970; 0: a free row */
    char project[WIRE_PROJECT_MAX + 1];
    uint64_t n[USAGE_N_COUNTERS];
};

struct usage {
    struct usage_row row[USAGE_ROWS];
    uint16_t cache[USAGE_CACHE]; /* the last row of users and projects with one hash */
};

/* Adds to a counter. `project` is "" for none. */
void usage_count(struct usage *u, uint32_t uid, const char *project, enum usage_counter what,
                 uint64_t n, uint64_t now_ms);
/* Appends "[{…}, …]" with the rows of one user; -1: of all. */
void usage_write_json(const struct usage *u, int64_t uid, struct writer *out);

/* Appends the rows in use, as history.h has them in the file. */
void usage_encode(const struct usage *u, struct writer *out);
/* Reads what usage_encode wrote, into an empty table. */
void usage_decode(struct usage *u, struct reader *r);

#endif

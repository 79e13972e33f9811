/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top.h - the parts of `warm top`: samples of the daemon's counters, tables of them, a screen.
 *
 *     commands/top.c ──▶ sample.c   STATS and INFO ──▶ counters, rates, rows of the tables
 *                    ──▶ screen.c   draws them, reads keys (ncurses)
 *
 * Thread: main. Memory: everything is embedded in struct top.
 */
#ifndef WARM_CLI_TOP_TOP_H
#define WARM_CLI_TOP_TOP_H

#include "client/cli/remote.h"
#include "client/cli/units.h"
#include "keygen/bytes.h"

#define TOP_RATES 120u /* past samples of each counter */
#define TOP_COLUMNS 9u
#define TOP_ROWS 128u
#define TOP_TEXT 128u /* bytes of a name, NUL included */

/* name in STATS, name for people */
#define TOP_COUNTER_LIST(X)                                                                        \
    X(hits, "hits")                                                                                \
    X(misses, "misses")                                                                            \
    X(compiles, "compiles")                                                                        \
    X(coalesced, "waits")                                                                          \
    X(tier_hits, "from tier")                                                                      \
    X(puts, "puts")                                                                                \
    X(evictions, "evictions")                                                                      \
    X(errors, "errors")                                                                            \
    X(saved_ms, "saved")

enum top_counter {
#define X(name, title) TOP_##name,
    TOP_COUNTER_LIST(X)
#undef X
        TOP_COUNTERS
};

enum top_unit { TOP_COUNT, TOP_BYTES, TOP_MS, TOP_PERCENT, TOP_UID, TOP_MAKER };

enum top_table { TOP_KINDS, TOP_MAKING, TOP_USERS, TOP_TIER, TOP_TABLES };

struct top_column {
    const char *title;
    enum top_unit unit;
    const char *field; /* path in the row's JSON; the first column has the row's name */
};
struct top_layout {
    const char *name; /* member of STATS */
    struct top_column column[TOP_COLUMNS];
    size_t n_columns;
    size_t sort; /* the column by which it is sorted at first */
};
/* The columns of each table. */
extern const struct top_layout top_layouts[TOP_TABLES];

struct top_row {
    char name[TOP_TEXT];        /* without control characters */
    double number[TOP_COLUMNS]; /* negative: unknown */
};

struct top {
    struct remote remote;
    uint64_t at_ms; /* time of the last sample, monotonic; 0: none */
    double counter[TOP_COUNTERS];
    double rate[TOP_COUNTERS]
               [TOP_RATES]; /* a second; the newest is [.][(n_samples - 1) % TOP_RATES] */
    size_t n_samples;
    double entries, bytes, max_bytes, uptime_s, hit_us_p50, hit_us_p99;
    double workers, busy, queued;
    unsigned n_making, n_waiting; /* keys that are being made; requests that wait for them */
    enum top_table table;
    struct top_row row[TOP_ROWS]; /* of that table, those that the filter passes, sorted */
    size_t n_rows;
    size_t sort[TOP_TABLES];
    bool reversed;
    char filter[TOP_TEXT]; /* part of a row's name; empty: all rows */
    struct writer stats;   /* the last STATS */
};

/* ---- sample.c ---- */

/* Asks the daemon. Returns 0, or an error code. */
int top_sample(struct top *t);
/* Fills the rows of the chosen table from the last sample. */
void top_fill_rows(struct top *t);
/* Returns the rate of a counter, `back` samples ago; 0 if there was none. */
double top_rate(const struct top *t, enum top_counter what, size_t back);
/* Writes a number with its unit. */
void top_number_text(enum top_unit unit, double n, char out[UNITS_TEXT]);

/* ---- screen.c ---- */

enum top_key { TOP_NO_KEY, TOP_REDRAW, TOP_QUIT };

/* Takes the terminal. False if ncurses does not know it, or it cannot move its cursor. */
bool screen_open(void);
/* Gives the terminal back. */
void screen_close(void);
/* Draws everything. */
void screen_draw(struct top *t);
/* Waits for a key, at most `wait_ms`, and obeys it. */
enum top_key screen_key(struct top *t, int wait_ms);

#endif

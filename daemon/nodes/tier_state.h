/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_state.h - what the files tier*.c share.
 *
 * The files, from the top; a file calls those below it:
 *
 *     tier.c         composes: settings, keys, helper, timers
 *     tier_report.c  STATS, metrics
 *     tier_send.c    sends what was put
 *     tier_lease.c   leases on keys that this daemon makes for all nodes
 *     tier_queue.c   what is sent, and next
 *     tier_cost.c    how long it takes to make something
 *     tier_rules.c   what travels, breakers ──▶ signers.c: whose signatures count
 *
 * Thread: loop thread. Memory: tier_close frees it.
 */
#ifndef WARM_DAEMON_NODES_TIER_STATE_H
#define WARM_DAEMON_NODES_TIER_STATE_H

#include "daemon/nodes/tier.h"
#include "daemon/process/loop_timer.h"
#include "daemon/tier/link.h"
#include "tier/entry.h"

#define TICK_MS 20u     /* of fetches and leases */
#define LATER_MS 1000u  /* until the next request, if an overloaded backend names no time */
#define ASK_MS 1800u    /* for the entry; the link adds its grace */
#define SEND_MS 30000u  /* for an upload, */
#define RATE_MIN 1048u  /* bytes a millisecond: a large value may take longer */
#define FAILURES_MAX 3u /* in a row */
#define ABSENT_MS 10000u
#define ABSENTS 1024u /* a power of two */
#define QUEUE_MAX 4096u
#define UPLOADS_MAX 16u
#define UNMARK_MAX 64u
#define SCAN_ROWS 256u /* of a slice */
#define COSTS 64u

/* One direction: reads or writes. */
struct tier_breaker {
    const char *what;
    unsigned n_failures;
    uint64_t off_until_ms;
    char said[TIER_SAID_MAX]; /* logged last; empty: it works */
};

/* An entry that waits to be sent. */
struct tier_item {
    struct store_id id;
    float value;
    bool is_urgent;      /* other nodes may wait for it */
    bool is_leased;      /* to other nodes it is the sign that all is there */
    uint64_t since_ms;   /* Unix time */
    uint64_t offered_ns; /* monotonic; 0: found by a scan */
};

struct tier_upload {
    struct tier *tier;
    bool runs, is_prepared; /* it was verified */
    bool is_outdated;       /* another value came meanwhile */
    struct tier_item item;
    enum store_kind kind;
    uint64_t n_bytes;
    struct key check; /* XXH3-128 of the value that is sent */
    struct tier_errand errand;
    struct writer entry; /* its object */
    int entry_fd;        /* a memfd with it */
    char name[ENTRY_NAME];
};

/* A key that this daemon makes for all nodes. */
struct tier_lease {
    struct tier_lease *prev, *next;
    struct tier *tier;
    struct store_id id;
    char name[ENTRY_NAME];
    uint8_t token[TIER_TOKEN_SIZE];
    uint32_t slot;
    uint64_t next_ms;               /* the time of the next request */
    uint64_t offered_ms;            /* its entry waits to be sent since; 0: not yet */
    bool is_lost, is_over, is_busy; /* over: it is freed when the errand has ended */
    bool is_owed;                   /* over, and must be given back first */
    uint64_t give_up_ms;            /* until then */
    struct tier_errand errand;
};

/* Marks of `warm tier push` on their way to the disk. */
struct tier_push {
    struct tier_push *prev, *next;
    struct tier *tier;
    store_report_cb cb; /* the caller's */
    void *arg;
};

/* The mean cost of what has one kind and one compiler, or names that begin alike. */
struct tier_cost {
    uint64_t hash; /* 0: free */
    float mean_ms,
        made_ms; /* of all; of those that this machine made: no other one has a say in it */
    uint32_t n, n_made;
};

struct tier {
    struct tier_host host;
    struct tier_link *link;
    bool has_key, reads_it, closing;
    struct tier_breaker reads, writes;
    struct loop_timer *probe_timer;
    struct tier_errand probe;
    bool probes, was_ready;

    struct tier_fetch *fetches; /* tier_fetch.c of the service: */
    size_t n_fetches;
    struct loop_timer *tick; /* runs while there are fetches or leases */
    bool has_no_leases;      /* the backend cannot, or may not */
    uint64_t
        no_waits_until_ms; /* other nodes made an asker wait for too long: nobody waits for them */
    struct {
        struct store_id id;
        uint64_t until_ms;
    } absent[ABSENTS];
    char refused[200], kept[200];            /* logged last */
    uint64_t n_unsigned, n_damaged, n_other; /* of tier_refused: why */

    struct tier_lease *leases;

    struct tier_item items[QUEUE_MAX];
    size_t n_items;
    uint64_t n_marked; /* entries that wait, roughly */
    bool is_partial;   /* more wait than there are items */
    struct tier_push *pushes;
    struct store_id unmark[UNMARK_MAX];
    size_t n_unmark;
    struct store_cursor cursor;
    bool scans;
    uint64_t n_scanned;
    struct loop_timer *scan_timer, *unmark_timer;

    struct tier_upload uploads[UPLOADS_MAX];
    size_t n_uploads;
    uint64_t send_at_ms; /* by tier_bandwidth */
    struct loop_timer *send_timer;

    struct tier_cost costs[COSTS];
    bool costs_changed;
};

/* Returns the loop's monotonic clock, in ms. */
static inline uint64_t tier_now_ms(const struct tier *t) { return uv_now(t->host.loop); }

/* Starts the clock of fetches and leases. */
static inline void tier_tick_start(struct tier *t)
{
    if (!loop_timer_runs(t->tick))
        loop_timer_start(t->tick, TICK_MS, TICK_MS);
}

/* ---- tier_rules.c ---- */

/* True if an entry may leave the machine; *space is then its space there. */
bool tier_travels(const struct tier *t, const struct store_row *row, struct view *space);
/* Finds the space in which a peer with this space asks for an entry. False if it asks for nothing there. */
bool tier_space(const struct tier *t, uint32_t peer_space, uint32_t owner, struct view *space);
/* Counts an answer; logs each new failure once. True if it was no failure of the tier. */
bool tier_note(struct tier *t, struct tier_breaker *b, const struct tier_answer *a);
/* True if a direction is left alone now. */
bool tier_is_off(const struct tier *t, const struct tier_breaker *b);
/* Leaves a direction alone for a while: a probe or an upload then tries it again. */
void tier_leave_alone(struct tier *t, struct tier_breaker *b, uint64_t ms);
/* Logs "WHAT: WHY", unless `last` has this reason, and writes the reason to `last`. */
void tier_log_once(struct tier *t, char last[200], const char *what, const char *why);
/* True if an entry has waited for too long to be sent. */
bool tier_is_too_old(const struct tier *t, const struct store_row *row);

/* ---- tier_queue.c ---- */

/* Adds an entry that is on disk now. `is_leased`: other nodes hear by it that all is there. */
void tier_queue_add(struct tier *t, const struct store_row *row, bool is_leased);
/* Reads all rows for entries that wait, in slices: scan_timer runs. */
void tier_queue_scan(struct tier *t);
/* Reads the next slice. */
void tier_queue_read(struct tier *t);
/* Takes the entry that is to be sent next; false if there is none. *out_early is set if one has to wait for
 * others, which must be there first. */
bool tier_queue_take(struct tier *t, struct tier_item *out, bool *out_early);
/* Puts an item back. */
void tier_queue_return(struct tier *t, const struct tier_item *item);
/* Takes the mark off an entry, soon. */
void tier_queue_done(struct tier *t, const struct store_id *id);
/* Takes an entry out that need not be sent. */
void tier_queue_forget(struct tier *t, const struct store_id *id);
/* True if the entry waits here, or is being sent. */
bool tier_queue_has(const struct tier *t, const struct store_id *id);
/* Takes off all marks that are due. */
void tier_queue_flush(struct tier *t);
/* Returns roughly how many entries wait. */
uint64_t tier_queue_length(const struct tier *t);
/* Returns for how long the oldest item has waited. */
uint64_t tier_queue_oldest_ms(const struct tier *t);

/* ---- tier_send.c ---- */

/* Sends what the helper can take now. */
void tier_send_next(struct tier *t);

/* ---- tier_lease.c ---- */

/* Fills the token of a new lease. */
void tier_lease_token(uint8_t out[TIER_TOKEN_SIZE]);
/* Notes a lease that was given. NOMEM is silent: it then ends by its time. */
void tier_lease_add(struct tier *t, const struct store_id *id, const struct tier_ask *ask);
/* Gives a lease back at once that nobody wants, or that perhaps was given. */
void tier_lease_decline(struct tier *t, const struct store_id *id, const struct tier_ask *ask);
/* Finds the lease on an entry; NULL if there is none. */
struct tier_lease *tier_lease_find(const struct tier *t, const struct store_id *id);
/* Notes that the entry is in the queue. True if it has a lease. */
bool tier_lease_offered(struct tier *t, const struct store_id *id);
/* Forgets the lease on an entry that was sent with it. */
void tier_lease_sent(struct tier *t, const struct store_id *id);
/* Gives the lease on an entry back, if there is one. */
void tier_lease_end(struct tier *t, const struct store_id *id);
/* Renews and ends leases. */
void tier_leases_tick(struct tier *t);
/* Returns how many there are. */
size_t tier_leases_count(const struct tier *t);
/* Gives all leases back. */
void tier_leases_close(struct tier *t);
/* Frees those that could not be given back. The link has ended all requests. */
void tier_leases_free(struct tier *t);

/* ---- tier_cost.c ---- */

/* Adds the time that making an entry took. */
void tier_cost_note(struct tier *t, const struct store_row *row, bool from_tier);
/* Tells how long it takes to make what a compiler makes, or, with NULL, what has a user's name; in ms, 0: unknown. */
struct tier_cost tier_cost_of(const struct tier *t, const struct key *compiler, struct view name,
                              uint32_t uid);
/* Reads the means from the store. */
void tier_costs_load(struct tier *t);
/* Writes them, if they have changed. */
void tier_costs_save(struct tier *t);

#endif

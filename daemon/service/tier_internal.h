/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_internal.h - what tier.c, tier_fetch.c and tier_send.c share.
 *
 * Thread: loop thread. Memory: tier_close frees it.
 */
#ifndef WARM_DAEMON_SERVICE_TIER_INTERNAL_H
#define WARM_DAEMON_SERVICE_TIER_INTERNAL_H

#include "daemon/service/internal.h"
#include "daemon/service/tier.h"
#include "daemon/tier/link.h"
#include "tier/entry.h"

#define ASK_MS 1800u    /* for the entry; the link adds its grace */
#define SEND_MS 30000u  /* for an upload, */
#define RATE_MIN 1048u  /* bytes a millisecond: a large value may take longer */
#define FAILURES_MAX 3u /* in a row */
#define OFF_MS 45000u
#define ABSENT_MS 10000u
#define ABSENTS 1024u /* a power of two */
#define QUEUE_MAX 4096u

/* One direction: reads or writes. */
struct tier_breaker {
    const char *what;
    unsigned n_failures;
    uint64_t off_until_ms;
    char said[TIER_SAID_MAX]; /* logged last */
};

struct tier {
    struct service *service;
    struct tier_link *link;
    struct trusted_keys trusted;
    struct signing_key key;
    bool has_key, closing;
    struct tier_breaker reads, writes;

    struct tier_fetch *fetches;
    struct {
        struct key key;
        uint64_t until_ms;
    } absent[ABSENTS];
    char refused[200]; /* logged last */

    struct store_id queue[QUEUE_MAX]; /* a ring */
    size_t queue_at, n_queue;
    struct tier_errand sending;
    bool is_sending;
    bool is_prepared;    /* the first of the queue was verified */
    struct writer entry; /* its object, */
    int entry_fd;        /* in a memfd */
    char next_name[ENTRY_NAME];
    struct loop_timer *retry;
};

/* Returns the name of the space of an owner's entries. */
struct view tier_space(uint32_t owner);
/* Returns the proof that stands for an entry beyond the machine: its own, or its name's SHA-256. */
struct proof tier_proof(const struct store_id *id, const struct proof *proof, struct view name);
/* Counts an answer; logs each new failure once. True if it was no failure of the tier. */
bool tier_note(struct tier *t, struct tier_breaker *b, const struct tier_answer *a);

/* Sends the next entry of the queue, if the helper can take it now. */
void tier_send_next(struct tier *t);

#endif

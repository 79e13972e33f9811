/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_rig.h - a service with a tier for one test, without a wire and without a network: a real store, a real
 * link, and fake_helper.h in place of warm-tier.
 *
 *     tier_rig_up ─▶ tier_rig_ask, tier_rig_put ─▶ tier_rig_take: what the service asks the tier for
 *                                               ─▶ tier_rig_answer …
 *                 ─▶ tier_rig_down: nothing may have been asked for that the test did not take
 *
 * Thread: the test's own, which runs the loop. Memory: tier_rig_down frees all.
 */
#ifndef WARM_TESTS_SUPPORT_TIER_RIG_H
#define WARM_TESTS_SUPPORT_TIER_RIG_H

#include "daemon/nodes/tier_state.h"
#include "daemon/service/internal.h"
#include "tests/support/fake_helper.h"
#include "tests/support/service.h"

struct tier_rig {
    struct service_rig base;
    struct service *service; /* base.service, */
    struct tier *tier;       /* and its tier */
    struct fake_helper helper;
    struct signing_key key; /* the service's own */
    struct peer peer;       /* the daemon's own user, who asks and puts */
};

/* Starts all, with further settings: pairs of a name and a value, and NULL. Without one for it, what takes no
 * time to make is sent, too. */
void tier_rig_up(struct tier_rig *r, const char *const *settings);
/* Ends and frees all. The daemon gives back what it owes; all else fails the test. */
void tier_rig_down(struct tier_rig *r);

/* Waits until the link has connected, and tells it that the helper has a backend. After the helper's death. */
void tier_rig_accept(struct tier_rig *r);

/* Runs the loop once, and takes a millisecond. */
void tier_rig_step(void *rig);
#define TIER_RIG_AWAIT(r, condition) FAKE_HELPER_AWAIT(&(r)->helper, condition)
/* Returns a counter of the service, over all kinds. */
uint64_t tier_rig_count(const struct tier_rig *r, enum stats_counter what);

/* ---- askers ---- */

struct tier_call {
    struct ask ask; /* its first member */
    char seen[16];  /* all answers, a letter each: service_rig_note */
    char name[32];
    char value[64]; /* of =, if it is a short one */
    uint64_t len;
    bool ended;
};

/* Asks for a name as the own user. */
void tier_rig_ask(struct tier_rig *r, struct tier_call *c, enum ask_mode mode, const char *name);
/* Runs the loop until these are the call's answers. */
void tier_rig_until(struct tier_rig *r, const struct tier_call *c, const char *seen);
/* Ends a call without an answer: its client is gone. */
void tier_rig_leave(struct tier_call *c);

/* ---- values ---- */

/* Puts a value and waits until it is stored. */
void tier_rig_put(struct tier_rig *r, const char *name, struct view value, uint32_t cost_ms);
/* Returns the id of a name of the own user. */
struct store_id tier_rig_id(const struct tier_rig *r, const char *name);
/* True if the store has this text under a name. */
bool tier_rig_has(struct tier_rig *r, const char *name, const char *value);
/* Returns the marks of the entry of a name: enum store_tier. */
uint32_t tier_rig_marks(struct tier_rig *r, const char *name);

/* ---- the tier's side ---- */

/* Fills the entry of a name as another node with this key would send it: a short value stands in it. */
void tier_rig_entry(const char *name, struct view value, struct tier_entry *out);
/* Takes the next request, which must have this operation. */
struct tier_ask tier_rig_take(struct tier_rig *r, enum tier_operation operation);
/* Takes the next request: one that sends an object. Gives its bytes: free() them. */
struct tier_ask tier_rig_take_sent(struct tier_rig *r, enum tier_operation operation,
                                   uint8_t **out_bytes);
/* Answers a request without an object. */
void tier_rig_answer(struct tier_rig *r, const struct tier_ask *ask, enum tier_outcome outcome);
/* Answers with an entry, signed by `key`. */
void tier_rig_answer_entry(struct tier_rig *r, const struct tier_ask *ask,
                           const struct tier_entry *entry, const struct signing_key *key);
/* Answers with the bytes of an object, in the packet. */
void tier_rig_answer_bytes(struct tier_rig *r, const struct tier_ask *ask, struct view bytes);
/* Answers with a value in a sealed memfd. */
void tier_rig_answer_value(struct tier_rig *r, const struct tier_ask *ask, struct view value);

/* Fails the test unless a request names the entry of a name. */
void tier_rig_expect_entry_of(const struct tier_ask *ask, const char *name);

#endif

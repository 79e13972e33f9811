/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.c - tells answers that a warm-tier gives from those of somebody who plays one. daemon/tier/link.c and
 * client/cli/run/probe.c ask, so that nothing behind them sees an outcome that its request cannot have.
 *
 * Thread: any; no state.
 */
#include "tier/message.h"

#include <string.h>

#define OUTCOME(name) (1u << TIER_##name)
#define FAULTS                                                                                     \
    (OUTCOME(LATER) | OUTCOME(DENIED) | OUTCOME(MISSET) | OUTCOME(FAILED) | OUTCOME(CANNOT))

/* Returns the outcomes that an operation can have, a bit for each. */
static uint32_t outcomes_of(uint32_t operation)
{
    switch (operation) {
    case TIER_GET: return OUTCOME(OK) | OUTCOME(ABSENT) | OUTCOME(TOO_LARGE) | FAULTS;
    case TIER_ASK:
        return OUTCOME(OK) | OUTCOME(ABSENT) | OUTCOME(TOO_LARGE) | OUTCOME(LEASE) | OUTCOME(WAIT) |
               FAULTS;
    case TIER_PUT:
    case TIER_FINISH:
        return OUTCOME(OK) | OUTCOME(ABSENT) | OUTCOME(EXISTS) | OUTCOME(TOO_LARGE) | FAULTS;
    case TIER_RENEW:
    case TIER_RELEASE: return OUTCOME(OK) | OUTCOME(ABSENT) | FAULTS;
    case TIER_PROBE: return OUTCOME(OK) | OUTCOME(ABSENT) | FAULTS;
    default: return 0;
    }
}

/* True if the flags are flags: a bool with another byte in it is no value of the language. */
static bool has_flags(const struct tier_capabilities *c)
{
    const bool *const flags[] = {&c->reads, &c->writes, &c->conditional, &c->checksums, &c->leases};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        unsigned char byte;
        memcpy(&byte, flags[i], 1);
        if (byte > 1)
            return false;
    }
    return true;
}

const char *tier_answer_fault(struct tier_answer *a, const struct tier_ask *ask, size_t n_bytes,
                              bool has_fd)
{
    uint32_t outcomes = ask ? outcomes_of(ask->operation) : OUTCOME(OK) | OUTCOME(MISSET);
    bool has_object =
        ask && a->outcome == TIER_OK && (ask->operation == TIER_GET || ask->operation == TIER_ASK);
    a->said[sizeof a->said - 1] = '\0';
    a->capabilities.said[sizeof a->capabilities.said - 1] = '\0';
    if (a->wait_ms > TIER_WAIT_MAX_MS)
        a->wait_ms = TIER_WAIT_MAX_MS;
    if (a->outcome > TIER_TOO_LARGE || !(outcomes >> a->outcome & 1))
        return "an outcome that its request cannot have";
    if (!has_flags(&a->capabilities))
        return "a flag that is neither set nor not";
    if (n_bytes &&
        (!has_object || !ask->wants_bytes || n_bytes != a->length || n_bytes > ask->limit))
        return "bytes that nobody asked for";
    if (has_fd && (!has_object || ask->wants_bytes))
        return "a descriptor that nobody asked for";
    return NULL;
}

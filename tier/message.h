/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - the messages between warmd and warm-tier, its helper with the network.
 *
 *     warmd                                              warm-tier
 *     ───── ASK + [the object's bytes, for a PUT] ─────▶ starts the backend's request
 *     ◀──── ANSWER + [the object: its bytes, or a memfd]  in any order, one for each ASK
 *     ───── (end of the socket) ───────────────────────▶ ends
 *
 * The first ANSWER has id 0: TIER_OK if the helper has a backend, else TIER_MISSET with the reason, and the
 * helper ends. Both programs come from one build and run on one machine, so packets are structs. warmd
 * believes nothing in them: a helper that somebody took over may send anything. tier_answer_fault says if an
 * answer belongs to its request, entry.h what makes an object count.
 *
 * The bytes of a small object come in the packet itself: a memfd for each costs ten times as much.
 *
 * TIER_CANCEL gives the request of that id up. It has no answer of its own.
 *
 * Thread: any. Memory: nothing is owned.
 */
#ifndef WARM_TIER_MESSAGE_H
#define WARM_TIER_MESSAGE_H

#include "tier/backend.h"
#include "tier/entry.h"

#define TIER_FD 3         /* the helper's end of the socket */
#define TIER_ASKS_MAX 64u /* requests at once */
#define TIER_BYTES_MAX ENTRY_OBJECT_MAX
#define TIER_CANCEL 255u /* beside the numbers of enum tier_operation */

struct tier_ask {
    uint64_t id;        /* from 1 on */
    uint32_t operation; /* enum tier_operation */
    uint32_t timeout_ms;
    char name[TIER_NAME_MAX + 1];
    uint64_t length;    /* PUT, FINISH: bytes of the descriptor */
    uint8_t sha256[32]; /* PUT, FINISH: of these bytes */
    uint64_t limit;     /* GET, ASK */
    uint64_t expire_ms; /* PUT, FINISH */
    bool only_if_absent;
    bool wants_bytes; /* GET, ASK: the object in the packet; limit <= TIER_BYTES_MAX */
    uint8_t token[TIER_TOKEN_SIZE]; /* ASK, FINISH, RENEW, RELEASE; and */
    uint64_t lease_ms;
    uint32_t slot;
    char job[65]; /* ASK */
};

struct tier_answer {
    uint64_t id;
    uint32_t outcome; /* enum tier_outcome */
    uint64_t length;  /* GET, ASK: of the object */
    uint64_t wait_ms;
    struct tier_capabilities capabilities; /* PROBE */
    char said[TIER_SAID_MAX];
};

#define TIER_WAIT_MAX_MS 3600000u /* that a backend may ask to be left alone */

/* Checks an answer of somebody whom the receiver does not believe, before it reads anything else in it: its
 * outcome must be one of this operation, and an object of `n_bytes` in the packet, or of a descriptor, must be one
 * that was asked for. Ends the texts and cuts wait_ms, which nobody must trust. Returns NULL, or what is wrong.
 * `ask` is NULL for the first answer. */
const char *tier_answer_fault(struct tier_answer *answer, const struct tier_ask *ask,
                              size_t n_bytes, bool has_fd);

#endif

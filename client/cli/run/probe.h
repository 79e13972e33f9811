/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - shared by `warm tier probe` and `warm doctor`: what the store beyond the machine can do. A warm-tier of this
 * command's own tries it; no daemon is asked.
 *
 *     probe_tier ─▶ starts warm-tier ─▶ TIER_PROBE ─▶ ends it
 *
 * Thread: main. Memory: nothing is owned.
 */
#ifndef WARM_CLI_RUN_PROBE_H
#define WARM_CLI_RUN_PROBE_H

#include "tier/message.h"

struct probe {
    const char *url;
    const char *credentials, *ca; /* files; "": none */
};

/* Probes a tier, for at most some seconds. False with one line in `why` if there is no answer. */
bool probe_tier(const struct probe *probe, struct tier_answer *out, char *why, size_t why_size);

/* Writes one line for a person: what an answer's tier can do and cannot, or why there is none. True if it can be read. */
bool probe_words(const struct tier_answer *answer, char *out, size_t cap);

#endif

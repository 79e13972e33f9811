/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_answer.h - what an answer of S3 with another status than 200 means.
 *
 *     404 <Error><Code>NoSuchKey</Code>…     TIER_ABSENT
 *     404 <html>…                            TIER_FAILED: somebody else's page is no miss
 *
 * Thread: any. Memory: nothing is owned.
 */
#ifndef WARM_TIER_BACKENDS_S3_ANSWER_H
#define WARM_TIER_BACKENDS_S3_ANSWER_H

#include "tier/backend.h"

struct s3_answer {
    enum tier_outcome outcome;
    char code[64];    /* <Code> of the answer, or "" */
    bool old_keys;    /* newer credentials may help */
    bool other_clock; /* our clock and the server's differ */
    char said[TIER_SAID_MAX];
};

/* Reads a status and the body that came with it. `region` and `location` are headers of the answer, or "". */
void s3_answer_read(int status, const char *text, size_t len, const char *region,
                    const char *location, struct s3_answer *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scripted.h - a server of the test's own on loopback that answers with bytes of the test's choice: also such as no real
 * engine sends.
 *
 * It takes one connection after the other, and goes through one list of answers over all of them. After the last answer it
 * keeps the connection and says nothing more.
 *
 * Thread: the test's own; the server is a process. Memory: the caller's.
 */
#ifndef WARM_TESTS_SUPPORT_SCRIPTED_H
#define WARM_TESTS_SUPPORT_SCRIPTED_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/engine.h"

struct scripted_answer {
    const char *
        await; /* it comes once these bytes have come, after those of the answer before; NULL: at once */
    const char *bytes; /* NULL: none */
    size_t len;        /* 0: `bytes` is a text */
    bool in_pieces;    /* one byte at a time */
    bool then_closes;  /* the next answer is for the next connection */
};

/* Starts the server; engine_stop ends it. */
void scripted_start(struct engine *s, const struct scripted_answer *answers, size_t n);

#endif

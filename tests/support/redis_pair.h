/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_pair.h - a warmd and a real redis-server that hear the same commands: their answers are compared byte by byte.
 *
 *     redis_pair_up ─▶ redis_pair_same, redis_pair_refuse, … ─▶ redis_pair_down
 *
 * Thread: the test's own. Memory: redis_pair_down frees all.
 */
#ifndef WARM_TESTS_SUPPORT_REDIS_PAIR_H
#define WARM_TESTS_SUPPORT_REDIS_PAIR_H

#include "tests/support/redis_server.h"
#include "tests/support/warmd.h"

enum { PAIR_WARM, PAIR_REDIS, PAIR_BOTH };

/* One of the two. */
struct redis_side {
    int fd;
    struct writer in; /* bytes that came; the answer that was read last begins them */
    size_t len;       /* of that answer; 0: none was read */
};

struct redis_pair {
    struct warmd warmd;
    struct redis_server server;
    struct redis_side side[PAIR_BOTH];
};

/* Starts both, empty, and connects to them. */
void redis_pair_up(struct redis_pair *p);
/* Ends both. */
void redis_pair_down(struct redis_pair *p);

/* Sends bytes to both. */
void redis_pair_send(struct redis_pair *p, const void *bytes, size_t len);
/* Sends a command of words with their lengths to both. */
void redis_pair_words(struct redis_pair *p, size_t n, const struct view *words);
/* Reads the next answer of one of them. Valid until the next answer of that one. */
struct view redis_pair_answer(struct redis_pair *p, int which);
/* Reads the next answer of both: they must be equal. `what` names the command in a failure. */
struct view redis_pair_equal(struct redis_pair *p, const char *what);

/* Sends a line to both: the answers must be equal. */
void redis_pair_same(struct redis_pair *p, const char *line);
/* Sends a line to both: the answers must have the same words, in any order. */
void redis_pair_same_set(struct redis_pair *p, const char *line);
/* Sends a line to both: both must answer with an error, whatever its text is. */
void redis_pair_refuse(struct redis_pair *p, const char *line);

#endif

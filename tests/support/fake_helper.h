/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_helper.h - plays warm-tier at the socket of a service, for answers that a real one rarely gives: it takes
 * requests one by one, answers them in any order, and dies when the test says so.
 *
 *     fake_helper_up ─▶ (the link connects) ─▶ fake_helper_accept ─▶ take, answer … ─▶ fake_helper_down
 *
 * Thread: the test's own. While the helper waits, it runs the link's loop by `step`. Memory: the test embeds it;
 * down frees all.
 */
#ifndef WARM_TESTS_SUPPORT_FAKE_HELPER_H
#define WARM_TESTS_SUPPORT_FAKE_HELPER_H

#include <criterion/criterion.h>

#include "tier/message.h"

struct fake_helper {
    char *dir, *path;        /* its folder, and its socket there */
    int listener, fd;        /* fd: our end of the connection; -1: none */
    void (*step)(void *arg); /* runs the loop once, and takes a millisecond */
    void *arg;
};

#define FAKE_HELPER_STEPS_MAX 60000 /* of a millisecond: a minute, for anything that must happen */
/* Runs the loop until a condition holds; fails the test after a minute. */
#define FAKE_HELPER_AWAIT(h, condition)                                                            \
    do {                                                                                           \
        for (int steps = 0; !(condition); steps++) {                                               \
            cr_assert_lt(steps, FAKE_HELPER_STEPS_MAX, "never: " #condition);                      \
            (h)->step((h)->arg);                                                                   \
        }                                                                                          \
    } while (0)

/* Listens in a new folder. */
void fake_helper_up(struct fake_helper *h, void (*step)(void *arg), void *arg);
/* Waits until the link has connected. */
void fake_helper_accept(struct fake_helper *h);
/* Waits for the next request, and returns it. Gives its descriptor in *out_fd, unless that is NULL. */
struct tier_ask fake_helper_take(struct fake_helper *h, int *out_fd);
/* True if a request is there that was not taken. */
bool fake_helper_is_asked(const struct fake_helper *h);
/* Sends an answer, with the bytes of an object or its descriptor, which stays the caller's; -1: none. */
void fake_helper_answer(struct fake_helper *h, const struct tier_answer *answer, struct view bytes,
                        int fd);
/* Ends the connection, as if the helper had died. */
void fake_helper_die(struct fake_helper *h);
/* Ends and frees all. */
void fake_helper_down(struct fake_helper *h);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_daemon.h - a daemon with a script, for the answers that a real one rarely gives: it takes frames,
 * sends frames, and hangs up where the test says.
 *
 *     fake_daemon_up ──▶ thread: script ─┬─ fake_daemon_meet: the next client, HELLO, WELCOME
 *                                        ├─ fake_daemon_take: its next frame
 *                                        └─ fake_daemon_send: the frames in `out`
 *     fake_daemon_end: waits for the script's end
 *     fake_daemon_down: the same, and fails the test if the client said something else
 *
 * After the client or the daemon has hung up, `take` and `send` do nothing until the next `meet`. So a script
 * needs no ifs.
 *
 * Thread: `script` runs on a thread of its own, and the functions after fake_daemon_down belong to it. It must
 * not use cr_assert: fake_daemon_expect notes a failure. Memory: the test embeds it; down frees all.
 */
#ifndef WARM_TESTS_SUPPORT_FAKE_DAEMON_H
#define WARM_TESTS_SUPPORT_FAKE_DAEMON_H

#include <pthread.h>
#include <stdint.h>

#include "client/lib/warm.h"
#include "client/wire/wire.h"

struct fake_daemon {
    char *dir, *path; /* its folder, and its socket there */
    void (*script)(struct fake_daemon *d);
    void *arg;               /* the script's */
    size_t left;             /* bytes that it sends before it hangs up; SIZE_MAX at first */
    size_t sent;             /* bytes, to all clients */
    uint8_t *in;             /* bytes of `frame` */
    struct wire_frame frame; /* that was taken last, of type 0 if there was none */
    int fds[WIRE_FDS_MAX];   /* that came with it, until the next take; -1: none */
    struct writer out;       /* frames to send */
    int listener, fd;        /* fd: the client that it talks with; -1: none */
    pthread_t thread;
    bool ended;
    char wrong[256]; /* the first unexpected thing; empty: none */
};

/* Listens in a new folder, and starts the thread. */
void fake_daemon_up(struct fake_daemon *d, void (*script)(struct fake_daemon *d), void *arg);
/* Opens libwarm's connection to it. Its deadlines are long: a busy machine must not end them. */
struct warm *fake_daemon_libwarm(const struct fake_daemon *d);
/* Waits until the script has ended: its fields are then the test's. The test closes its connections first. */
void fake_daemon_end(struct fake_daemon *d);
/* Ends and frees all, and fails the test if something was unexpected. */
void fake_daemon_down(struct fake_daemon *d);

/* Hangs up, and welcomes the next client. */
void fake_daemon_meet(struct fake_daemon *d);
#define FAKE_DAEMON_END 0 /* in place of a frame: the client hangs up */
/* Takes the next frame, with its descriptors. Notes a failure if it has another type, or if the client hangs
 * up before the daemon does. */
void fake_daemon_take(struct fake_daemon *d, enum wire_type type);
/* Sends and empties `out`, the descriptors with its first byte. */
void fake_daemon_send(struct fake_daemon *d, const int *fds, size_t n_fds);
/* Sends one frame without fields. */
void fake_daemon_say(struct fake_daemon *d, enum wire_type type);
/* Ends the conversation. */
void fake_daemon_hang_up(struct fake_daemon *d);
/* True until one side has hung up. */
bool fake_daemon_talks(const struct fake_daemon *d);
/* Notes `what` as unexpected if `is_so` is false. */
void fake_daemon_expect(struct fake_daemon *d, bool is_so, const char *what);

#endif

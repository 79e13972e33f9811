/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_call.h - for suites of the service's compile path: calls that ask a service for a compile, with real
 * NVRTC and without a daemon. Each call also plays its client: it has a job, a channel, and an h.h.
 *
 * A compile waits as long as a call with `silent` does not answer the compiler's question about h.h.
 *
 * Thread: the test's own, which runs the loop. Memory: the caller holds a call; compile_call_close ends it.
 */
#ifndef WARM_TESTS_SUPPORT_COMPILE_CALL_H
#define WARM_TESTS_SUPPORT_COMPILE_CALL_H

#include "keygen/cuda/job.h"
#include "tests/support/service.h"

/* Starts a rig with NVRTC; skips the test if there is none. */
#define NEEDS_COMPILER(rig)                                                                        \
    if (!service_rig_up_with_nvrtc(rig))                                                           \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

struct compile_call {
    struct ask ask; /* its first member */
    struct service_rig *rig;
    struct writer job;
    struct wire_compile wanted; /* the test may change it before compile_call_ask */
    char hardware[WARM_HARDWARE_MAX];
    const char *header; /* content of its h.h; NULL: it has none */
    bool silent;
    int channel;   /* our end; -1: none */
    char seen[64]; /* all answers, a letter each: service_rig_note */
    bool ended;
    enum wire_outcome outcome; /* of VALUE and FAILED, and */
    struct key key, check;
    int code; /* of ERROR */
};

/* What the tests of these suites have: two users, and three calls on a service with NVRTC. */
extern const struct peer alice, bob;
extern struct service_rig rig;
extern struct compile_call first, second, third;
/* Ends the calls and the service, if there is one: the .fini of a suite. */
void compile_calls_down(void);

#define GOOD "extern \"C\" __global__ void f(float *x) { x[threadIdx.x] *= 2; }\n"
#define WITH_HEADER "#include \"h.h\"\nextern \"C\" __global__ void f(float *x) { *x = N; }\n"

/* Makes a call of a peer with this CUDA source, for sm_90. In its h.h, N is 1. */
void compile_call_init(struct compile_call *c, const struct peer *peer, const char *source);
/* Sends COMPILE. */
void compile_call_ask(struct compile_call *c, uint32_t flags);
/* Sends SOURCE: the job, and a channel. */
void compile_call_source(struct compile_call *c);
/* Answers CHECK with its h.h, and "absent" for other files. */
void compile_call_checked(struct compile_call *c);
/* Runs the loop until the last answer. Sends the source after NEED, and answers CHECK. */
void compile_call_finish(struct compile_call *c);
/* Sends COMPILE and does that. */
void compile_call_run(struct compile_call *c, uint32_t flags);
/* Runs the loop until these are its answers; fails the test after a minute. */
void compile_call_until(struct compile_call *c, const char *seen);
/* Runs the loop until the compiler asks this silent call for a file: its compile waits. */
void compile_call_until_asked(struct compile_call *c);
/* Expects the answers of a call, which end with VALUE of this outcome. */
void compile_call_expect(const struct compile_call *c, const char *seen, enum wire_outcome outcome);
/* Ends a call without an answer unless it has ended; the client is gone. */
void compile_call_close(struct compile_call *c);

#define COMPILE_CALLS_STEPS_MAX 60000 /* of a millisecond */
/* Serves the channels, and runs the loop once. */
void compile_calls_step(struct service_rig *r);
/* Runs the loop until a condition holds; fails the test after a minute. */
#define COMPILE_CALLS_AWAIT(r, condition)                                                          \
    do {                                                                                           \
        for (int steps = 0; !(condition); steps++) {                                               \
            cr_assert_lt(steps, COMPILE_CALLS_STEPS_MAX, "never: " #condition);                    \
            compile_calls_step(r);                                                                 \
        }                                                                                          \
    } while (0)
/* Runs the loop until all puts are stored. */
void compile_calls_stored(struct service_rig *r);
/* Returns how many compiles there were. */
uint64_t compile_calls_compiles(const struct service_rig *r);

#endif

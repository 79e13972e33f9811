/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.h - for suites that send compiles to a real warmd frame by frame: the jobs, and both sides of
 * the questions about source and headers.
 *
 * Tests hold a compile up with the protocol's own gate. A client that was told NEED makes others wait
 * until it sends its source, ends, or is hedged; a worker waits for the answer about each header.
 *
 * Thread: the test's own. Memory: compile_teardown frees the jobs and the folder.
 */
#ifndef WARM_TESTS_SUPPORT_COMPILE_H
#define WARM_TESTS_SUPPORT_COMPILE_H

#include "keygen/cuda/job.h"
#include "keygen/key.h"
#include "tests/support/warmd.h"

/* Defines `nvrtc` as the folder of libnvrtc; skips the test if there is none. */
#define NEEDS_TOOLCHAIN(nvrtc)                                                                     \
    char *nvrtc = nvrtc_folder();                                                                  \
    if (!nvrtc)                                                                                    \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* Returns the folder of the libnvrtc to use; NULL if there is none. compile_teardown frees it. */
char *nvrtc_folder(void);
/* Starts warmd with that folder, two workers, and one more option with its value (or NULL, NULL). */
struct warmd warmd_with_nvrtc(char *nvrtc, char *option, char *value);

/* Frees the jobs that ask_of made. */
void compile_teardown_jobs(void);
/* Frees all that this file made for the test: the .fini of a suite. */
void compile_teardown(void);

struct ask {
    struct writer job;
    struct key graph;
    struct proof proof;
    char hardware[WARM_HARDWARE_MAX];
};

/* Returns the job of one CUDA source for sm_90, with its keys; at most four a test. */
struct ask ask_of(const char *source);
/* Sends COMPILE. */
void send_compile(int fd, uint64_t tag, const struct ask *a, uint32_t flags);
/* Sends SOURCE; returns our end of the channel, on which the worker asks for headers. */
int send_source(int fd, uint64_t tag, const struct ask *a);
/* Answers the worker's questions on the channel until it ends: each h.h has this content, and other
 * headers are absent. */
void serve_headers(int channel, const char *content);
/* Sends COMPILE, and expects an answer of this type. */
void ask_compile(int fd, uint64_t tag, const struct ask *a, uint32_t flags, uint8_t type);
/* Sends COMPILE as the first that asks, then SOURCE, and answers the worker as serve_headers does. */
void lead_compile(int fd, uint64_t tag, const struct ask *a, uint32_t flags, const char *content);
/* Answers CHECK as a client whose h.h has this content. */
void answer_check(int fd, const struct warmd_frame *f, const char *content);

/* Reads frames up to the one that ends the compile; answers CHECK on the way as answer_check does. */
void await_end(int fd, uint64_t tag, const char *content, struct warmd_frame *f);
/* Awaits the end, which must be a frame of this type. */
void expect_end(int fd, uint64_t tag, const char *content, uint8_t type);
/* Awaits a HIT with a cubin; returns its outcome, and the bundle's check in *out_check unless NULL. */
enum wire_outcome expect_cubin_with(int fd, uint64_t tag, const char *content,
                                    struct key *out_check);
/* The same with an empty h.h. */
enum wire_outcome expect_cubin(int fd, uint64_t tag, struct key *out_check);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - for suites of daemon/compiler: a pool of workers with real NVRTC, without a daemon around it.
 *
 *     rig_start ─▶ ask_start ─▶ ask_finish ─▶ outcome_close ─▶ rig_stop
 *                     └─ a server thread answers the worker's questions about headers
 *
 * Needs a toolchain in $WARM_TOOLCHAIN, or beside the tests' folder.
 *
 * Thread: the test's own. Memory: each _start has its _stop, _finish or _close.
 */
#ifndef WARM_TESTS_SUPPORT_POOL_H
#define WARM_TESTS_SUPPORT_POOL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/wire/bundle.h"
#include "daemon/compiler/pool.h"

/* Skips the test if a toolchain is missing. */
#define NEEDS_TOOLCHAIN()                                                                          \
    if (!have_toolchains())                                                                        \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* The versions of the toolchains, the default first. */
extern const char *const versions[2];

/* Returns "FOLDER OF THIS PROGRAM/../NAME"; free() it. */
char *beside_tests(const char *name);
/* Returns the folder of one toolchain, or NULL; free() it. */
char *toolchain_folder(const char *version);
/* True if all versions are there. */
bool have_toolchains(void);

/* ---- one pool ---- */

struct rig {
    uv_loop_t loop;
    struct spawner *spawner;
    struct pool *pool;
    char *dir, *worker;
    char *nvrtc[2];
    struct pool_config config;
};

/* Starts the spawner and fills r->config, which the test may change before rig_open. */
void rig_configure(struct rig *r);
/* Opens the pool. */
void rig_open(struct rig *r);
/* Does both. */
void rig_start(struct rig *r);
/* Closes the pool and expects that no handle is left. */
void rig_stop(struct rig *r);
/* Runs the loop until *flag; fails the test after two minutes. */
void run_until(struct rig *r, const bool *flag);
/* Runs the loop until a condition holds that no callback reports. */
void run_until_condition(struct rig *r, bool (*condition)(void *arg), void *arg);
/* Writes a file in the rig's folder. Returns its path; free() it. */
char *in_dir(const struct rig *r, const char *name, const char *content);

/* ---- the client's end of the channel ---- */

enum manner { SERVES, SILENT, LEAVES };
struct header_server {
    pthread_t thread;
    int fd, worker_fd;
    enum manner manner;
    int leaves_after; /* questions */
    _Atomic int n_asked;
    sem_t *gate;      /* taken before each answer, if there is one */
    const char *root; /* serves only beneath */
};

/* Starts a thread that answers as the struct says; ask_finish joins it. */
void header_server_start(struct header_server *s);

/* ---- one compile ---- */

struct text_list {
    const char *texts[16];
};
struct ask { /* one compile */
    const char *source;
    size_t source_len; /* 0: strlen */
    const char *name;
    struct text_list options, expressions;
    struct text_list header_names, headers;
    struct header_server *server; /* NULL: no channel */
    const char *version;          /* NULL: the default */
    uint64_t timeout_ms;
    uint32_t uid;
};

struct outcome {
    bool finished;
    int status, nvrtc_status;
    bool keep;
    char text[244];
    void *bundle;
    uint64_t len;
    char **paths;
    struct proof *digests;
    bool *absent;
    size_t n_paths;
    struct pool_job *compile;
    int job_fd;
};

/* Starts a compile. It must not end before this returns. */
void ask_start(struct rig *r, const struct ask *a, struct outcome *o);
/* Waits for its end. */
void ask_finish(struct rig *r, const struct ask *a, struct outcome *o);
/* Does both. */
void ask_run(struct rig *r, const struct ask *a, struct outcome *o);
/* Does both with versions[v] and a client that serves the rig's folder. The compile must work. Returns the
 * number of questions to the client. */
int ask_serving(struct rig *r, const struct ask *a, size_t v, struct outcome *o);
/* Frees an outcome. */
void outcome_close(struct outcome *o);
/* Returns a section of the bundle, empty if it has none. */
struct view outcome_section(const struct outcome *o, uint32_t type);
/* Returns the log as a string; free() it. */
char *outcome_log(const struct outcome *o);

/* A source that compiles. */
#define SAXPY                                                                                      \
    "extern \"C\" __global__ void saxpy(int n, float a, const float *x, float *y)\n"               \
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }\n"

/* Compiles a source, expects this status of NVRTC, and returns the log; free() it. */
char *log_of(struct rig *r, const char *source, int want);
/* A thousand million statements: the front end neither ends nor listens. */
#define TEN(a) a a a a a a a a a a
#define BOMB                                                                                       \
    "#define A0 x[0]+=x[1]*3;\n"                                                                   \
    "#define A1 A0 A0 A0 A0 A0 A0 A0 A0 A0 A0\n#define A2 A1 A1 A1 A1 A1 A1 A1 A1 A1 A1\n"         \
    "#define A3 A2 A2 A2 A2 A2 A2 A2 A2 A2 A2\n#define A4 A3 A3 A3 A3 A3 A3 A3 A3 A3 A3\n"         \
    "#define A5 A4 A4 A4 A4 A4 A4 A4 A4 A4 A4\n#define A6 A5 A5 A5 A5 A5 A5 A5 A5 A5 A5\n"         \
    "#define A7 A6 A6 A6 A6 A6 A6 A6 A6 A6 A6\n#define A8 A7 A7 A7 A7 A7 A7 A7 A7 A7 A7\n"         \
    "#define A9 A8 A8 A8 A8 A8 A8 A8 A8 A8 A8\n"                                                   \
    "extern \"C\" __global__ void k(volatile int *x) { A9 }\n"

/* Expects that the pool compiles SAXPY. */
void expect_saxpy(struct rig *r);

/* ---- the pool's processes ---- */

/* Lists the processes with this parent, at most 16; returns their number. */
size_t children_of(pid_t parent, pid_t out[16]);
/* Lists the fork servers; returns their number. */
size_t server_pids(pid_t out[16]);
/* Lists the workers; returns their number. */
size_t worker_pids(pid_t out[16]);
/* True if there is one fork server: a condition for run_until_condition. */
bool has_one_server(void *pids);

#endif

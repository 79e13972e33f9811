/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warm-nvrtc, the worker process: one library, one thread, one job at a time.
 *
 *     warm-nvrtc LIBRARY BUILTINS SCRATCH-FOLDER UID GID
 *
 *  1. opens its scratch files (as whoever started it);
 *  2. gives up its user, new privileges, and all files but the system's own libraries;
 *  3. loads the library, from the descriptors that the daemon sends: its constructors run here;
 *  4. gives up files, sockets and processes (sandbox.h);
 *  5. says READY, then answers jobs from descriptor WORKER_FD until that ends.
 *
 * It reads nothing that a client wrote before step 5. It is started by the daemon's spawner only.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "daemon/worker/compile.h"
#include "daemon/worker/files.h"
#include "daemon/worker/message.h"
#include "daemon/worker/nvrtc.h"
#include "daemon/worker/pch.h"
#include "daemon/worker/sandbox.h"

#define THREAD_STACK (8u << 20) /* bytes: else each thread would map our own large stack limit */
#define CPU_THREADS 4           /* code generation may use some: CPU time for each of wall time */
#define CPU_SLACK_S 10          /* the daemon's deadline comes first */

struct arguments {
    const char *library, *builtins, *scratch;
    uid_t uid;
    gid_t gid;
};

static int describe_library(const struct nvrtc *n, struct worker_ready *ready, struct err *e)
{
    ready->major = n->major;
    ready->minor = n->minor;
    int count = 0;
    if (n->GetNumSupportedArchs(&count) || count < 0 || count > (int)WORKER_ARCHS_MAX ||
        n->GetSupportedArchs(ready->archs))
        return err_set(e, WARM_ENO_TOOLCHAIN, "the library does not tell its targets");
    ready->n_archs = (uint32_t)count;
    return 0;
}

/* The files to load, and which they are. fds[1] is -1 if there are no builtins. */
static int receive_files(int fds[2], struct worker_ready *ready, struct err *e)
{
    struct worker_files files = {0};
    struct stat st;
    ssize_t n;
    do
        n = worker_receive(WORKER_FD, &files, sizeof files, fds, 2);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof files || files.type != WORKER_FILES || fds[0] < 0 ||
        files.has_builtins != (fds[1] >= 0))
        return err_set(e, WARM_EMALFORMED, "a worker is told which files to load");
    if (fstat(fds[0], &st))
        return err_sys(e, WARM_ENO_TOOLCHAIN, errno, "cannot look at the library");
    ready->library = worker_file_of(&st);
    if (fds[1] >= 0 && fstat(fds[1], &st))
        return err_sys(e, WARM_ENO_TOOLCHAIN, errno, "cannot look at the builtins");
    if (fds[1] >= 0)
        ready->builtins = worker_file_of(&st);
    return 0;
}

static int prepare(const struct arguments *args, struct nvrtc *n, struct worker_ready *ready,
                   struct err *e)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    pthread_setattr_default_np(&attributes);
    signal(SIGXFSZ, SIG_IGN); /* a full scratch file is an error to the compiler, not our death */
    tzset();                  /* reads its file now: the compiler looks at the clock, used or not */
    int fds[2] = {-1, -1};
    struct sandbox sandbox = {0};
    int code = receive_files(fds, ready, e);
    if (!code)
        code = files_init(args->scratch, e);
    if (!code)
        code = sandbox_drop_user(args->uid, args->gid, e);
    if (!code)
        code = sandbox_load_only(fds, 2, e);
    if (!code)
        code = nvrtc_open(n, fds[0], fds[1], args->library, e);
    if (!code && n->SetPCHHeapSize)
        n->SetPCHHeapSize(PCH_HEAP_SIZE);
    if (!code)
        code = describe_library(n, ready, e);
    if (!code)
        code = sandbox_enter(&sandbox, e);
    for (size_t i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    ready->landlock = sandbox.landlock;
    ready->seccomp = sandbox.seccomp;
    return code;
}

/* A second line behind the daemon's deadline: CPU time from now on. The hard limit stays, so that
 * the next job can have its own. */
static void limit_cpu(uint64_t timeout_ms)
{
    struct rusage used;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &used) || getrlimit(RLIMIT_CPU, &limit))
        return;
    rlim_t spent = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
    limit.rlim_cur = spent + CPU_THREADS * (timeout_ms / 1000) + CPU_SLACK_S;
    if (limit.rlim_cur > limit.rlim_max)
        limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CPU, &limit);
}

/* Compiles what is in the memfd, which the daemon has sealed. */
static int run_job(const struct nvrtc *n, const struct worker_job *job, const int *fds,
                   struct compile_result *out, struct err *e)
{
    void *encoded = mmap(NULL, job->len, PROT_READ, MAP_PRIVATE, fds[0], 0);
    if (encoded == MAP_FAILED)
        return err_sys(e, WARM_ENOMEM, errno, "cannot map the job");
    limit_cpu(job->timeout_ms);
    struct view bytes = {encoded, job->len};
    int code = compile_job(n, bytes, job->compiler, job->has_channel ? fds[1] : -1, out, e);
    munmap(encoded, job->len);
    return code;
}

static bool answer_job(const struct nvrtc *n, const struct worker_job *job, const int *fds)
{
    struct compile_result result = {0};
    struct err e = {0};
    struct worker_done done = {.type = WORKER_DONE, .id = job->id};
    done.status = run_job(n, job, fds, &result, &e);
    done.spent = result.spent;
    if (done.status) {
        snprintf(done.text, sizeof done.text, "%s", e.text);
        return worker_send(WORKER_FD, &done, sizeof done, NULL, 0) == 0;
    }
    done.nvrtc_status = result.nvrtc_status;
    done.keep = result.keep;
    done.shareable = result.shareable;
    done.names_places = result.names_places;
    done.ms = result.ms;
    done.n_paths = result.n_paths;
    done.len = result.bundle_len;
    done.paths_len = result.paths_len;
    int out[] = {result.bundle_fd, result.paths_fd};
    bool sent = worker_send(WORKER_FD, &done, sizeof done, out, 2) == 0;
    close(out[0]);
    close(out[1]);
    return sent;
}

/* True if a job came and was answered. */
static bool serve_one(const struct nvrtc *n)
{
    struct worker_job job;
    int fds[2];
    ssize_t got = worker_receive(WORKER_FD, &job, sizeof job, fds, 2);
    if (got < 0 && errno == EINTR)
        return true;
    bool ok = got == (ssize_t)sizeof job && job.type == WORKER_JOB && fds[0] >= 0 &&
              (!job.has_channel || fds[1] >= 0);
    ok = ok && answer_job(n, &job, fds);
    for (int i = 0; i < 2; i++)
        if (got > 0 && fds[i] >= 0)
            close(fds[i]);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "warm-nvrtc is started by warmd\n");
        return 2;
    }
    fcntl(WORKER_FD, F_SETFD, FD_CLOEXEC);
    struct arguments args = {argv[1], argv[2], argv[3], (uid_t)strtoul(argv[4], NULL, 10),
                             (gid_t)strtoul(argv[5], NULL, 10)};
    static struct nvrtc nvrtc;
    static struct worker_ready ready = {.type = WORKER_READY};
    struct err e = {0};
    ready.pid = getpid();
    ready.status = prepare(&args, &nvrtc, &ready, &e);
    snprintf(ready.text, sizeof ready.text, "%s", e.text);
    if (worker_send(WORKER_FD, &ready, sizeof ready, NULL, 0) || ready.status)
        return 1;
    while (serve_one(&nvrtc))
        ;
    _exit(0); /* the library's own clean-up is not worth waiting for */
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warm-nvrtc: the fork server of one library, and the workers that it forks.
 *
 *     warm-nvrtc LIBRARY BUILTINS UID GID
 *
 *   1. It gives up its user, new privileges, and all files but the system's own libraries.
 *   2. It loads the library, from the descriptors that the daemon sends: its constructors run here.
 *   3. It gives up all files (sandbox.h).
 *   4. It says READY, and compiles a kernel of its own if no job comes at once.
 *   5. For each JOB it forks a worker, which gives up all further system calls, compiles, answers and
 *      ends. It reports each worker's end, and kills workers when it is told to.
 *
 * The fork server itself never reads a byte that a client wrote. A worker reads one job: no source is
 * compiled in a process that has seen another. Only the daemon's spawner starts it.
 *
 * Thread: the main thread.
 */
#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/worker/compile.h"
#include "daemon/worker/files.h"
#include "daemon/worker/message.h"
#include "daemon/worker/nvrtc.h"
#include "daemon/worker/sandbox.h"
#include "keygen/expect.h"

#define THREAD_STACK                                                                               \
    (8u << 20)             /* bytes; else each thread would map the process's large stack limit */
#define CPU_THREADS 4      /* code generation may use some: CPU time for each of wall time */
#define CPU_SLACK_S 10     /* the daemon's deadline comes first */
#define WORKERS_MAX 1024u  /* at once */
#define WARM_UP_AFTER_MS 5 /* a job that waits already comes within this time */

/* The address sanitizer's shadow memory takes terabytes of address space, and its reports must be
 * seen. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true
#else
#define SANITIZED false
#endif

struct arguments {
    const char *library, *builtins;
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

/* Receives the files to load. fds[1] is -1 if there are no builtins. */
static int receive_files(int fds[2], struct worker_ready *ready, struct err *e)
{
    struct worker_files files = {0};
    struct stat st;
    ssize_t n;
    do
        n = packet_receive(WORKER_FD, &files, sizeof files, fds, 2);
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
    signal(SIGXFSZ,
           SIG_IGN); /* a full file is an error for the compiler, and does not kill the process */
    tzset();         /* reads its file now: every compile looks at the clock */
    int fds[2] = {-1, -1};
    int code = receive_files(fds, ready, e);
    if (!code)
        code = sandbox_drop_user(args->uid, args->gid, e);
    if (!code)
        code = sandbox_load_only(fds, 2, e);
    if (!code)
        code = nvrtc_open(n, fds[0], fds[1], args->library, e);
    if (!code)
        code = describe_library(n, ready, e);
    if (!code)
        code = sandbox_close_files(&ready->landlock, e);
    for (size_t i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    ready->seccomp = sandbox_has_filter();
    return code;
}

/* ---- a worker ---- */

static void limit(int resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) == 0 && now.rlim_max > value)
        setrlimit(resource, &(struct rlimit){value, value});
}

/* Compiles the job in the memfd, which the daemon has sealed. */
static int run_job(const struct nvrtc *n, const struct worker_job *job, const int *fds,
                   struct compile_result *out, struct err *e)
{
    int code = sandbox_close_calls(e);
    if (code)
        return code;
    void *encoded = mmap(NULL, job->len, PROT_READ, MAP_PRIVATE, fds[0], 0);
    if (encoded == MAP_FAILED)
        return err_sys(e, WARM_ENOMEM, errno, "cannot map the job");
    struct view bytes = {encoded, job->len};
    return compile_job(n, bytes, job->compiler, job->has_channel ? fds[2] : -1, out, e);
}

static void answer_job(const struct nvrtc *n, const struct worker_job *job, const int *fds)
{
    struct compile_result result = {0};
    struct err e = {0};
    struct worker_done done = {.type = WORKER_DONE, .id = job->id};
    done.status = run_job(n, job, fds, &result, &e);
    if (done.status) {
        snprintf(done.text, sizeof done.text, "%s", e.text);
        packet_send(WORKER_FD, &done, sizeof done, NULL, 0);
        return;
    }
    done.nvrtc_status = result.nvrtc_status;
    done.keep = result.keep;
    done.shareable = result.shareable;
    done.names_places = result.names_places;
    done.names_inner = result.names_inner;
    done.movable = result.movable;
    done.has_once = result.has_once;
    done.ms = result.ms;
    done.n_paths = result.n_paths;
    done.len = result.bundle_len;
    done.paths_len = result.paths_len;
    int out[] = {result.bundle_fd, result.paths_fd};
    /* The kernel takes no descriptor while more of this user's are on their way than this process may have open; should they
     * stay there, the job's deadline ends it. */
    while (packet_send(WORKER_FD, &done, sizeof done, out, 2) && errno == ETOOMANYREFS)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- the fork server ---- */

static struct {
    struct nvrtc nvrtc;
    int signals; /* signalfd of SIGCHLD */
    int null;    /* /dev/null, for the workers' messages */
    struct {
        uint64_t id;
        pid_t pid;
    } workers[WORKERS_MAX];
    size_t n_workers;
} server;

/* Runs a worker, after the fork. Text that the compiler writes to the standard error is dropped:
 * the log is the daemon's. */
static _Noreturn void worker_main(const struct worker_job *job, const int *fds, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(fds[1], WORKER_FD) < 0 ||
        (!SANITIZED && dup2(server.null, STDERR_FILENO) < 0))
        _exit(1);
    fcntl(WORKER_FD, F_SETFD, FD_CLOEXEC);
    close(fds[1]);
    close(server.null);
    close(server.signals);
    sigprocmask(SIG_SETMASK, &none, NULL);
    limit(RLIMIT_CPU,
          CPU_THREADS * (job->timeout_ms / 1000) + CPU_SLACK_S); /* behind the deadline */
    if (job->memory && !SANITIZED)
        limit(RLIMIT_AS, job->memory);
    answer_job(&server.nvrtc, job, fds);
    _exit(0); /* the library's own clean-up would take time for nothing */
}

static void tell_exited(uint64_t id, int status, int error)
{
    struct worker_exited exited = {
        .type = WORKER_EXITED, .id = id, .status = status, .error = error};
    packet_send(WORKER_FD, &exited, sizeof exited, NULL, 0);
}

static void take_job(const struct worker_job *job, const int *fds)
{
    assert(server.n_workers <= WORKERS_MAX && fds[1] >= 0);
    pid_t parent = getpid();
    if (server.n_workers == WORKERS_MAX) {
        tell_exited(job->id, -1, EAGAIN);
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        worker_main(job, fds, parent);
    if (pid < 0) {
        tell_exited(job->id, -1, errno);
        return;
    }
    server.workers[server.n_workers].id = job->id;
    server.workers[server.n_workers++].pid = pid;
}

static void take_kill(uint64_t id)
{
    for (size_t i = 0; i < server.n_workers; i++)
        if (server.workers[i].id == id)
            kill(server.workers[i].pid, SIGKILL);
}

static void reap(void)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(server.signals, &info, sizeof info) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (WIFSTOPPED(status)) {
            kill(pid, SIGKILL); /* it would hold its clients for as long as a compile may take */
            continue;
        }
        for (size_t i = 0; i < server.n_workers; i++)
            if (server.workers[i].pid == pid) {
                tell_exited(server.workers[i].id, status, 0);
                server.workers[i] = server.workers[--server.n_workers];
                break;
            }
    }
}

/* Takes one message; false if the daemon is gone, or the message is malformed. */
static bool take_message(void)
{
    union {
        uint32_t type;
        struct worker_job job;
        struct worker_kill kill;
    } message;
    int fds[3];
    ssize_t got = packet_receive(WORKER_FD, &message, sizeof message, fds, 3);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    bool ok = true;
    if (got == (ssize_t)sizeof message.job && message.type == WORKER_JOB && fds[1] >= 0 &&
        (!message.job.has_channel || fds[2] >= 0))
        take_job(&message.job, fds);
    else if (got == (ssize_t)sizeof message.kill && message.type == WORKER_KILL)
        take_kill(message.kill.id);
    else
        ok = false;
    for (int i = 0; got > 0 && i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return ok;
}

static bool serve_setup(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    server.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return server.signals >= 0 && server.null >= 0;
}

static void serve(void)
{
    struct pollfd fds[] = {{.fd = WORKER_FD, .events = POLLIN},
                           {.fd = server.signals, .events = POLLIN}};
    bool is_warm = false;
    for (;;) {
        int n = poll(fds, 2, is_warm ? -1 : WARM_UP_AFTER_MS);
        if (n < 0 && errno != EINTR)
            return;
        if (n == 0) {
            compile_warm_up(&server.nvrtc);
            is_warm = true;
            continue;
        }
        reap();
        if (n > 0 && fds[0].revents && !take_message())
            return;
    }
}

int main(int argc, char **argv)
{
    expect_abort();
    if (argc != 5) {
        fprintf(stderr, "warm-nvrtc is started by warmd\n");
        return 2;
    }
    fcntl(WORKER_FD, F_SETFD, FD_CLOEXEC);
    struct arguments args = {argv[1], argv[2], (uid_t)strtoul(argv[3], NULL, 10),
                             (gid_t)strtoul(argv[4], NULL, 10)};
    static struct worker_ready ready = {.type = WORKER_READY};
    struct err e = {0};
    server.null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ready.status = prepare(&args, &server.nvrtc, &ready, &e);
    snprintf(ready.text, sizeof ready.text, "%s", e.text);
    if (!serve_setup() || packet_send(WORKER_FD, &ready, sizeof ready, NULL, 0) || ready.status)
        return 1;
    serve();
    _exit(0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler_run.c - runs the real compiler, copies its output through, and records it and the trace.
 * run_cached.c calls it on a miss; compiler_run.h has the contract.
 *
 *     wait for the next tick of the files' clock ──▶ fork ──▶ exec, traced
 *          └─ so that a file that changes during      │ pipes: copied through, and recorded
 *             the run has a later stamp                ▼
 *                                                  its exit status, the trace
 *
 * Thread: main, beside the compiler's process.
 */
#define XXH_INLINE_ALL
#include "client/tool/compiler_run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/whole_io.h"
#include "client/tool/process_tree.h"
#include "client/trace/trace.h"

#define TEXT_MAX (64u << 20) /* bytes of recorded output; longer output is passed on, not kept */
#define LOG_MAX (64u << 20)
#define TICK_MAX_MS 20 /* of any kernel's coarse clock */

static volatile sig_atomic_t compiler; /* its process, for on_signal */
static volatile sig_atomic_t got_signal;

static void on_signal(int number)
{
    got_signal = 1;
    if (compiler > 0)
        kill(compiler, number);
}

static void catch_signals(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction old, action = {.sa_handler = handler, .sa_flags = SA_RESTART};
        sigaction(numbers[i], NULL, &old);
        if (old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

/* ---- the child ---- */

static int preload_path(char out[PATH_MAX])
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return WARM_ENOT_FOUND;
    self[len] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (!slash)
            return WARM_ENOT_FOUND;
        *slash = '\0';
    }
    int n = snprintf(out, PATH_MAX, "%s/libexec/warm/libwarm-trace.so", self);
    return n > 0 && n < PATH_MAX && access(out, R_OK) == 0 ? 0 : WARM_ENOT_FOUND;
}

static int set_trace(const char *library, int log)
{
    char preload[2 * PATH_MAX], cwd[PATH_MAX], file[64];
    snprintf(preload, sizeof preload, "%s", library);
    /* The user's libraries follow. Our own preload library would have nothing to do there. */
    const char *at = getenv("LD_PRELOAD");
    size_t n;
    while ((at = tool_next_preload(at, &n))) {
        size_t len = strlen(preload);
        snprintf(preload + len, sizeof preload - len, ":%.*s", (int)n, at);
        at += n;
    }
    snprintf(file, sizeof file, "/proc/%d/fd/%d", (int)getppid(), log);
    if (!getcwd(cwd, sizeof cwd))
        return -1;
    return setenv("LD_PRELOAD", preload, 1) || setenv(TRACE_FILE_VARIABLE, file, 1) ||
           setenv(TRACE_CWD_VARIABLE, cwd, 1);
}

/* ---- the parent ---- */

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Waits for the next tick and returns its time: files written from now on get a later stamp than
 * all present ones. Stamps come from the coarse clock, which may be behind by one tick, or, since
 * Linux 6.13, from the fine one. */
static struct timespec next_tick(void)
{
    struct timespec fine, now, nap = {0, 500000};
    clock_gettime(CLOCK_REALTIME, &fine);
    for (int i = 0; i < 4 * TICK_MAX_MS; i++) {
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        if (is_later(&now, &fine))
            break;
        nanosleep(&nap, NULL);
    }
    return now;
}

/* Copies the next bytes of a pipe to `to` (-1: nowhere) and records them. False at its end. */
static bool copy_some(int from, int to, struct writer *kept)
{
    char data[16384];
    ssize_t n = read(from, data, sizeof data);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0)
        return false;
    if (to >= 0)
        whole_write(to, data, (size_t)n); /* without a reader the compiler goes on, as without us */
    writer_bytes(kept, data, (size_t)n);
    return true;
}

/* Tells the watcher of progress, if a period is over. Returns the milliseconds until the next one ends; -1: nobody
 * watches. */
static int look(const struct compiler_watch *watch, uint64_t *next_ms, uint64_t *ticks)
{
    uint64_t now = conn_now_ms();
    if (!watch->on_progress)
        return -1;
    if (now >= *next_ms) {
        uint64_t before = *ticks;
        *ticks = process_tree_ticks(compiler);
        *next_ms = now + watch->period_ms;
        if (*ticks != before)
            watch->on_progress(watch->arg);
    }
    return (int)(*next_ms - now);
}

static void copy_all(int out, int err, bool held, const struct compiler_watch *watch,
                     struct compiler_run *run)
{
    struct pollfd p[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    uint64_t next_ms = conn_now_ms() + watch->period_ms, ticks = 0;
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (poll(p, 2, look(watch, &next_ms, &ticks)) < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        if (p[0].revents && !copy_some(out, held ? -1 : STDOUT_FILENO, &run->out))
            p[0].fd = -1;
        if (p[1].revents && !copy_some(err, held ? -1 : STDERR_FILENO, &run->err))
            p[1].fd = -1;
    }
}

static int read_log(int log, struct compiler_run *run, struct err *e)
{
    struct stat st;
    if (fstat(log, &st) < 0 || (uint64_t)st.st_size > LOG_MAX)
        return err_set(e, WARM_ETOO_BIG, "the compiler's trace has more than 64 MiB");
    run->log = malloc((size_t)st.st_size + 1);
    if (!run->log)
        return err_set(e, WARM_ENOMEM, "no memory for a trace");
    ssize_t n = pread(log, run->log, (size_t)st.st_size, 0);
    run->log_len = n > 0 ? (size_t)n : 0;
    return 0;
}

struct pipes {
    int out[2], err[2], log; /* -1: none */
};

static void close_pipes(struct pipes *p)
{
    int fds[] = {p->out[0], p->out[1], p->err[0], p->err[1], p->log};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Opens the compiler's output in place of `fd`: a pipe, or a terminal of the same width if `fd` is one. So the
 * compiler colours and folds its messages as usual. ends[0] is ours. */
static int open_channel(int fd, int ends[2])
{
    struct termios mode;
    struct winsize size;
    if (!isatty(fd))
        return pipe2(ends, O_CLOEXEC);
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0 || grantpt(ends[0]) || unlockpt(ends[0]))
        return -1;
    ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[1] < 0 || tcgetattr(ends[1], &mode) < 0)
        return -1;
    mode.c_oflag &= ~(tcflag_t)OPOST; /* unchanged bytes: the real terminal processes them */
    if (ioctl(fd, TIOCGWINSZ, &size) == 0)
        ioctl(ends[1], TIOCSWINSZ, &size);
    return tcsetattr(ends[1], TCSANOW, &mode);
}

static int open_pipes(const struct tool_job *job, struct pipes *p, struct err *e)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}, -1};
    if (open_channel(STDOUT_FILENO, p->out) < 0 ||
        (!tool_prints_to_one_place() && open_channel(STDERR_FILENO, p->err) < 0) ||
        (job->traced && (p->log = memfd_create("warm-trace", MFD_CLOEXEC)) < 0)) {
        int code = err_sys(e, WARM_EIO, errno, "cannot make a pipe for the compiler's output");
        close_pipes(p);
        return code;
    }
    return 0;
}

static int start(const struct tool_job *job, const char *library, struct pipes *p, struct err *e)
{
    compiler = fork();
    if (compiler < 0)
        return err_sys(e, WARM_EIO, errno, "cannot start a process for the compiler");
    if (compiler == 0) {
        catch_signals(SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (dup2(p->out[1], STDOUT_FILENO) < 0 ||
            dup2(p->err[1] >= 0 ? p->err[1] : p->out[1], STDERR_FILENO) < 0 ||
            setenv("WARM_TOOL_ACTIVE", "1", 1) || (job->traced && set_trace(library, p->log)))
            _exit(126);
        execv(job->program, job->given ? job->given : job->argv);
        _exit(errno == ENOENT ? 127 : 126);
    }
    close(p->out[1]);
    if (p->err[1] >= 0)
        close(p->err[1]);
    p->out[1] = p->err[1] = -1;
    return 0;
}

struct output_state output_state_of(const char *path)
{
    assert(path);
    struct statx st;
    const unsigned what = STATX_MODE | STATX_INO | STATX_BTIME | STATX_CTIME;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, what, &st) < 0)
        return (struct output_state){0};
    return (struct output_state){true, st.stx_mode & S_IXUSR, st.stx_ino, st.stx_btime,
                                 st.stx_ctime};
}

bool output_is_same(const struct output_state *a, const struct output_state *b)
{
    assert(a && b);
    return a->is_there && b->is_there && a->inode == b->inode &&
           a->birth.tv_sec == b->birth.tv_sec && a->birth.tv_nsec == b->birth.tv_nsec;
}

int compiler_run_job(const struct tool_job *job, const struct compiler_watch *watch,
                     struct compiler_run *out, struct err *e)
{
    assert(job && job->program && job->argv && watch && out);
    char library[PATH_MAX] = "";
    struct pipes p;
    struct compiler_run run = {0};
    if (job->traced && preload_path(library))
        return err_set(e, WARM_ENOT_FOUND,
                       "libwarm-trace.so is not in libexec/warm beside the folder of warm: install "
                       "warm again");
    int code = open_pipes(job, &p, e);
    if (code)
        return code;
    writer_init(&run.out, TEXT_MAX);
    writer_init(&run.err, TEXT_MAX);
    bool is_over = false;
    for (size_t i = 0; i < job->n_outputs; i++) {
        run.before[i] = output_state_of(job->outputs[i]);
        is_over |= run.before[i].is_there;
    }
    catch_signals(on_signal);
    if (job->traced || is_over)
        run.started = next_tick(); /* whatever is written from now on has a later time */
    uint64_t begun = conn_now_ms();
    code = start(job, library, &p, e);
    if (!code) {
        if (watch->on_progress)
            watch->on_progress(watch->arg);
        copy_all(p.out[0], p.err[0], job->given != NULL, watch, &run);
        while (waitpid(compiler, &run.wait_status, 0) < 0 && errno == EINTR)
            continue;
        compiler = 0;
        run.got_signal = got_signal;
        run.cost_ms = (uint32_t)(conn_now_ms() - begun);
        if (p.log >= 0 && read_log(p.log, &run, e))
            run.log_len = 0; /* without a trace, nothing is kept */
    }
    catch_signals(SIG_DFL);
    close_pipes(&p);
    if (code)
        compiler_run_close(&run);
    else
        *out = run;
    return code;
}

void compiler_run_show(const struct compiler_run *run)
{
    assert(run);
    whole_write(STDOUT_FILENO, (const char *)run->out.data, run->out.len);
    whole_write(STDERR_FILENO, (const char *)run->err.data, run->err.len);
}

void compiler_run_close(struct compiler_run *run)
{
    writer_close(&run->out);
    writer_close(&run->err);
    free(run->log);
    *run = (struct compiler_run){0};
}

int compiler_run_end(const struct compiler_run *run)
{
    assert(run);
    if (WIFSIGNALED(run->wait_status)) {
        signal(WTERMSIG(run->wait_status), SIG_DFL);
        raise(WTERMSIG(run->wait_status));
    }
    return WIFEXITED(run->wait_status) ? WEXITSTATUS(run->wait_status) : 126;
}

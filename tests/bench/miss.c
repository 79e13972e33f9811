/* SPDX-License-Identifier: Apache-2.0 */
/*
 * miss.c - P12: a miss of a header-heavy source through a worker, beside the same library in
 * a fresh process.
 *
 *     miss WARM-NVRTC TOOLCHAIN FILE.cu FOLDER
 *
 * The worker is forked off a process that has loaded the library; each round adds a kernel of its own,
 * so that no two compiles are the same. Headers come through the channel, as from a client, and are
 * hashed. The fresh process loads the library, compiles and ends, as a program without us does. The two
 * take turns, without and with line tables; also shown: a small kernel without headers.
 */
#include "tests/bench/bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/wire/wire.h"
#include "daemon/worker/message.h"
#include "daemon/worker/nvrtc.h"
#include "keygen/cuda/job.h"

enum { N_ROUNDS = 7, N_OPTIONS = 4 };

static char *text(const char *format, const char *a, const char *b)
{
    char *out;
    if (asprintf(&out, format, a, b) < 0)
        bench_die("out of memory");
    return out;
}

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        bench_die("%s: %s", path, strerror(errno));
    long len = ftell(f);
    char *data = calloc(1, (size_t)len + 1);
    rewind(f);
    if (!data || fread(data, 1, (size_t)len, f) != (size_t)len)
        bench_die("%s: cannot be read", path);
    fclose(f);
    return data;
}

/* The source with one kernel more, so that no two rounds compile the same. */
static char *variant(const char *source, int round)
{
    char *out;
    if (asprintf(&out, "%s\nextern \"C\" __global__ void round_%d(int *x) { x[%d] *= 3; }\n",
                 source, round, round) < 0)
        bench_die("out of memory");
    return out;
}

/* ---- the library in a fresh process ---- */

static void *must_find(void *library, const char *symbol)
{
    void *found = library ? dlsym(library, symbol) : NULL;
    if (!found)
        bench_die("%s: %s", symbol, dlerror());
    return found;
}

static void fresh_compile(const char *folder, const char *source, const char *const *given)
{
    const char *options[N_OPTIONS + 1]; /* the driver's own cache is another benchmark */
    memcpy(options, given, N_OPTIONS * sizeof *given);
    options[N_OPTIONS] = "--no-cache";
    nvrtc_CreateProgram_fn create;
    nvrtc_CompileProgram_fn compile;
    nvrtc_program program;
    if (!dlopen(text("%s/%s", folder, "lib/libnvrtc-builtins.so.13.5"), RTLD_LAZY))
        bench_die("%s", dlerror());
    void *library = dlopen(text("%s/%s", folder, "lib/libnvrtc.so.13"), RTLD_NOW);
    void *found[] = {must_find(library, "nvrtcCreateProgram"),
                     must_find(library, "nvrtcCompileProgram")};
    memcpy(&create, &found[0], sizeof create);
    memcpy(&compile, &found[1], sizeof compile);
    if (create(&program, source, "k.cu", 0, NULL, NULL) || compile(program, N_OPTIONS + 1, options))
        bench_die("the source does not compile");
    _exit(0);
}

static double fresh_ms(const char *folder, const char *source, const char *const *options)
{
    int status;
    uint64_t start = bench_now_ns();
    pid_t pid = fork();
    if (pid == 0)
        fresh_compile(folder, source, options);
    if (waitpid(pid, &status, 0) != pid || status)
        bench_die("the compile in a fresh process failed");
    return (double)(bench_now_ns() - start) / 1e6;
}

/* ---- the worker ---- */

static int server_fd;

/* Opens what the fork server is to load, and sends it. */
static void send_files(int fd, const char *library, const char *builtins)
{
    struct worker_files message = {.type = WORKER_FILES, .has_builtins = true};
    int fds[] = {open(library, O_RDONLY | O_CLOEXEC), open(builtins, O_RDONLY | O_CLOEXEC)};
    if (fds[0] < 0 || fds[1] < 0 || packet_send(fd, &message, sizeof message, fds, 2))
        bench_die("%s: %s", library, strerror(errno));
    close(fds[0]);
    close(fds[1]);
}

static void server_begin(const char *program, const char *folder)
{
    int pair[2];
    struct worker_ready ready;
    static char *const environment[] = {"LC_ALL=C", "TMPDIR=" WORKER_TMP, NULL};
    char *argv[] = {text("%s%s", program, ""),
                    text("%s/%s", folder, "lib/libnvrtc.so.13"),
                    text("%s/%s", folder, "lib/libnvrtc-builtins.so.13.5"),
                    text("%s%s", "65534", ""),
                    text("%s%s", "65534", ""),
                    NULL};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        bench_die("socketpair: %s", strerror(errno));
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pair[1] == WORKER_FD)
            fcntl(pair[1], F_SETFD, 0);
        else
            dup2(pair[1], WORKER_FD);
        execve(program, argv, environment);
        _exit(127);
    }
    close(pair[1]);
    server_fd = pair[0];
    send_files(server_fd, argv[1], argv[2]);
    if (packet_receive(server_fd, &ready, sizeof ready, NULL, 0) != (ssize_t)sizeof ready ||
        ready.status)
        bench_die("%s does not start", program);
}

static int encode(const char *source, const char *const *options, uint64_t *out_len)
{
    struct view views[N_OPTIONS];
    char cwd[4096];
    if (!getcwd(cwd, sizeof cwd))
        bench_die("getcwd: %s", strerror(errno));
    for (int i = 0; i < N_OPTIONS; i++)
        views[i] = (struct view){options[i], strlen(options[i])};
    struct job job = {.language = JOB_CUDA,
                      .name = {"k.cu", 4},
                      .cwd = {cwd, strlen(cwd)},
                      .source = {source, strlen(source)},
                      .options = views,
                      .n_options = N_OPTIONS};
    struct writer w;
    writer_init(&w, 0);
    job_encode(&job, &w);
    int fd = memfd_create("job", MFD_CLOEXEC);
    if (w.failed || fd < 0 || write(fd, w.data, w.len) != (ssize_t)w.len)
        bench_die("cannot make a job");
    *out_len = w.len;
    writer_close(&w);
    return fd;
}

/* Answers one question about a header. */
static void serve(int channel)
{
    char packet[WIRE_OPEN_MAX], path[4097];
    struct wire_open question;
    ssize_t n = recv(channel, packet, sizeof packet, 0);
    if (n <= 0 || wire_get_open(packet, (size_t)n, &question, NULL) || question.path.len > 4096)
        bench_die("a question about a header is not valid");
    memcpy(path, question.path.data, question.path.len);
    path[question.path.len] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct wire_opened answer = {question.id, fd < 0 ? WIRE_PATH_ABSENT : WIRE_PATH_FILE};
    struct writer w;
    writer_init(&w, 0);
    wire_put_opened(&w, &answer);
    packet_send(channel, w.data, w.len, &fd, fd >= 0);
    writer_close(&w);
    if (fd >= 0)
        close(fd);
}

static double worker_ms(const char *source, const char *const *options)
{
    int channel[2], answer[2], fds[3];
    uint64_t start = bench_now_ns();
    struct worker_job job = {
        .type = WORKER_JOB, .has_channel = true, .id = 1, .timeout_ms = 600000};
    struct worker_done done;
    struct worker_exited exited;
    fds[0] = encode(source, options, &job.len);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answer))
        bench_die("socketpair: %s", strerror(errno));
    fds[1] = answer[1];
    fds[2] = channel[1];
    if (packet_send(server_fd, &job, sizeof job, fds, 3))
        bench_die("the fork server has gone");
    close(answer[1]);
    struct pollfd ready[] = {{channel[0], POLLIN, 0}, {answer[0], POLLIN, 0}};
    while (poll(ready, 2, -1) > 0 && !ready[1].revents)
        serve(channel[0]);
    close(fds[0]);
    close(channel[0]);
    close(channel[1]);
    if (packet_receive(answer[0], &done, sizeof done, fds, 2) != (ssize_t)sizeof done ||
        done.status || done.nvrtc_status)
        bench_die("the compile in the worker failed");
    double ms = (double)(bench_now_ns() - start) / 1e6;
    close(fds[0]);
    close(fds[1]);
    close(answer[0]);
    if (packet_receive(server_fd, &exited, sizeof exited, NULL, 0) != (ssize_t)sizeof exited)
        bench_die("the fork server has gone");
    return ms;
}

/* One row: what is measured, of the same source in a worker and in a fresh process. */
static void compare(const char *folder, const char *source, const char *const *options,
                    const char *what, double target)
{
    static int round;
    const size_t n_rounds = bench_rounds(N_ROUNDS);
    double ratios[N_ROUNDS], fresh[N_ROUNDS], warm[N_ROUNDS];
    for (size_t i = 0; i < n_rounds; i++) {
        const char *text_of_round = variant(source, round++);
        fresh[i] = fresh_ms(folder, text_of_round, options);
        warm[i] = worker_ms(text_of_round, options);
        ratios[i] = warm[i] / fresh[i];
    }
    bench_row("P12", what, ratios, n_rounds, BENCH_AT_MOST, target);
    printf("     fresh process %.0f ms, worker %.0f ms\n", bench_quantile(fresh, n_rounds, 0.5),
           bench_quantile(warm, n_rounds, 0.5));
}

int main(int argc, char **argv)
{
    if (argc != 4)
        bench_die("usage: miss WARM-NVRTC TOOLCHAIN FILE.cu");
    const char *folder = argv[2];
    const char *source = slurp(argv[3]);
    const char *options[N_OPTIONS] = {"--gpu-architecture=sm_90",
                                      text("-I%s/%s", folder, "include-bundled"),
                                      text("-I%s/%s", folder, "include-bundled/cccl"), "-DROW=1"};
    server_begin(argv[1], folder);
    compare(folder, source, options, "miss with many headers: worker / fresh process", 1.00);
    options[N_OPTIONS - 1] = "-lineinfo";
    compare(folder, source, options, "the same with -lineinfo", 1.00);
    compare(folder, "", options, "miss of a small kernel: worker / fresh process", 1.00);
    return 0;
}

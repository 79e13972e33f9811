/* SPDX-License-Identifier: Apache-2.0 */
/*
 * siege.c - hostile users against a well-behaved one, all at once, on a daemon of root.
 *
 *     siege --seconds N [--nvrtc FOLDER] [--only NAME]
 *
 * The user shares the daemon with hostile programs and, for a third of the time, with as many honest busy ones.
 * The two take turns, so that other load on the machine counts for both. Then:
 *
 *   - no request of the user's failed, and no byte was wrong: sources that were compiled under siege are
 *     compiled once more in peace, and compared;
 *   - in a run of five minutes or more, the 99th percentile of its 1 KiB hits is at most three times
 *     that among the honest;
 *   - the daemon's memory stayed below the sum of its budgets, and it ends with status 0.
 *
 * Needs root, to be many users. Exit status 77 without.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/warm.h"
#include "daemon/users/budget.h"
#include "tests/siege/siege.h"
#include "tests/support/support.h"

#define SLACK_RATIO 3.0
#define JUDGED_FROM_S 300 /* a shorter run says more of the machine than of the daemon */
#define FIXED_BYTES                                                                                \
    (192ull << 20) /* the daemon with nothing in its budgets, and its allocator's gaps */
#define TURNS 5u
#define AGAIN 40u /* sources that are compiled once more */

struct shared *shared;

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ---- programs ---- */

static pid_t start(uint32_t uid, void (*run)(void *arg), void *arg)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct rlimit files = {4096, 4096};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_NOFILE, &files);
    if (setgroups(0, NULL) || setgid(uid) || setuid(uid) || chdir("/"))
        _exit(2);
    run(arg);
    _exit(3);
}

static void run_user(void *arg)
{
    void (*const programs[])(void) = {user_hits, user_puts, user_compiles};
    programs[(size_t)arg]();
}

static void run_honest(void *arg) { honest_one((unsigned)(size_t)arg); }

static void run_helper(void *arg)
{
    (void)arg;
    helper_listen();
}

static void run_hostile(void *arg)
{
    size_t n = (size_t)arg;
    uint64_t state = n + 1;
    for (;;) {
        hostiles[n].once(&state);
        shared->n_attacks[n]++;
    }
}

static void stop(pid_t *pids, unsigned n)
{
    int status;
    for (unsigned i = 0; i < n; i++)
        kill(pids[i], SIGKILL);
    for (unsigned i = 0; i < n; i++)
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
            ;
}

/* ---- the daemon ---- */

static char *folder, *store;
static const char *only; /* the one hostile program; the others are honest. NULL: all are hostile */

static char *nvrtc_folder(void)
{
    char *out = toolchain_lib("13.5.37");
    if (!out)
        fprintf(stderr, "siege: no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`\n");
    return out;
}

/* Makes the key with which the daemon signs for its tier. */
static void make_key(const char *path)
{
    char *program = bin_path("warm"), *out;
    if (run_command(&out, "'%s' tier keygen siege '%s'", program, path) != 0)
        fprintf(stderr, "siege: no key: %s\n", out);
    free(out);
    free(program);
}

static pid_t start_daemon(char *nvrtc)
{
    char *program = bin_path("warmd"), *log = path_join(folder, "log");
    char *key = path_join(folder, "tier.key"), *helper = path_join(folder, "tier.sock");
    make_key(key);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
        execl(program, "warmd", "--socket", shared->socket, "--store", store, "--nvrtc", nvrtc,
              "--max-size", "512M", "--jobs", "2", "--tier-hedge", "1s", "--tier", "redis://siege",
              "--tier-socket", helper, "--tier-key", key, (char *)NULL);
        _exit(127);
    }
    struct warm_options options = {.socket = shared->socket};
    struct warm *w = NULL;
    for (int i = 0; i < 3000 && warm_open(&w, &options) != 0; i++)
        usleep(10000);
    warm_close(w);
    free(program);
    free(log);
    free(key);
    free(helper);
    return pid;
}

/* Bytes of memory that are the daemon's own: what it maps of files is the kernel's to take back. */
static uint64_t resident(pid_t pid)
{
    char path[64], line[256];
    unsigned long long kib, sum = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %llu", &kib) == 1 || sscanf(line, "RssShmem: %llu", &kib) == 1)
            sum += kib << 10;
    if (f)
        fclose(f);
    return sum;
}

static uint64_t budgets(void)
{
    uint64_t sum = FIXED_BYTES;
    for (unsigned i = 0; i < BUDGETS; i++)
        if (strcmp(budget_unit(i), "bytes") == 0)
            sum += budget_total_limit(i);
    return sum;
}

/* ---- the two phases ---- */

static double p99_us(const struct phase *p)
{
    uint64_t n = 0, sum = 0;
    for (unsigned i = 0; i < TIMES; i++)
        n += p->times[i];
    for (unsigned i = 0; i < TIMES; i++) {
        sum += p->times[i];
        if (sum * 100 >= n * 99)
            return (double)((32ull + i % 32 + 1) << (i / 32 - 5)) / 1000;
    }
    return 0;
}

/* Runs the crowd for a time; gives the most memory that the daemon had, and how many of the crowd died. */
static uint64_t run_phase(unsigned phase, pid_t daemon, double seconds, unsigned *out_died)
{
    pid_t crowd[64];
    uint64_t most = 0, end = now_ns() + (uint64_t)(seconds * 1e9);
    shared->phase = phase;
    for (unsigned i = 0; i < n_hostiles; i++) {
        bool is_hostile = phase && (!only || strcmp(only, hostiles[i].name) == 0);
        crowd[i] = start(CROWD_UID + i + 100 * phase, is_hostile ? run_hostile : run_honest,
                         (void *)(size_t)i);
    }
    while (now_ns() < end) {
        uint64_t now = resident(daemon);
        most = now > most ? now : most;
        usleep(100000);
    }
    *out_died = 0;
    for (unsigned i = 0; i < n_hostiles; i++)
        *out_died += waitpid(crowd[i], NULL, WNOHANG) == crowd[i];
    stop(crowd, n_hostiles);
    return most;
}

static bool check(bool good, const char *what)
{
    printf("%-4s  %s\n", good ? "ok" : "FAIL", what);
    return good;
}

/* In peace: the same sources once more. Returns how many have other bytes. */
static unsigned compile_again(void)
{
    struct warm_options options = {.socket = shared->socket, .connect_timeout_ms = 10000};
    struct warm *w;
    unsigned n = shared->n_compiled, other = 0;
    if (warm_open(&w, &options) != 0)
        return UINT_MAX;
    for (unsigned i = 0; i < n; i += n / AGAIN + 1) {
        struct key digest;
        other +=
            compile_plain(w, i, true, &digest) != 0 || !key_equal(&digest, &shared->compiled[i]);
    }
    warm_close(w);
    return other;
}

static void print_phase(const char *name, const struct phase *p, uint64_t memory)
{
    printf("%-8s %8llu hits, p99 %8.0f us; %6llu puts; %5llu compiles; %llu failed, %llu wrong; "
           "daemon %llu MiB%s%s\n",
           name, (unsigned long long)p->n_hits, p99_us(p), (unsigned long long)p->n_puts,
           (unsigned long long)p->n_compiles, (unsigned long long)p->n_failed,
           (unsigned long long)p->n_wrong, (unsigned long long)(memory >> 20),
           p->first[0] ? "\n         first: " : "", p->first);
}

static int siege(double seconds, char *nvrtc)
{
    pid_t helper = start(0, run_helper, NULL), user[3], daemon = start_daemon(nvrtc);
    unsigned died[2] = {0};
    uint64_t memory[2] = {0};
    int status = 0;
    bool good = true;
    char text[200];
    for (size_t i = 0; i < 3; i++)
        user[i] = start(USER_UID, run_user, (void *)i);
    sleep(2);
    for (unsigned turn = 0; turn < TURNS; turn++)
        for (unsigned phase = 0; phase < 2; phase++) {
            unsigned n;
            double share = (phase ? 2 : 1) * seconds / (3 * TURNS);
            shared->squats = turn % 2;
            uint64_t most = run_phase(phase, daemon, share, &n);
            memory[phase] = most > memory[phase] ? most : memory[phase];
            died[phase] += n;
        }
    stop(user, 3);
    const struct phase *honest = &shared->phases[0], *hostile = &shared->phases[1];
    print_phase("honest", honest, memory[0]);
    print_phase("hostile", hostile, memory[1]);
    for (unsigned i = 0; i < n_hostiles; i++)
        printf("         %-24s %llu times\n", hostiles[i].name,
               (unsigned long long)shared->n_attacks[i]);
    good &= check(honest->n_failed + hostile->n_failed == 0, "no request of the user failed");
    good &= check(honest->n_wrong + hostile->n_wrong == 0, "no byte was wrong");
    good &= check(hostile->n_hits && hostile->n_puts && hostile->n_compiles, "the user got on");
    snprintf(text, sizeof text, "p99 of hits is %.2f times that among the honest, at most %.0f",
             p99_us(hostile) / p99_us(honest), SLACK_RATIO);
    if (seconds >= JUDGED_FROM_S)
        good &= check(p99_us(hostile) <= SLACK_RATIO * p99_us(honest), text);
    else
        printf("         %s, if it runs for %d s\n", text, JUDGED_FROM_S);
    snprintf(text, sizeof text, "the daemon's memory stayed below its budgets, %llu MiB",
             (unsigned long long)(budgets() >> 20));
    good &= check(memory[1] <= budgets(), text);
    good &= check(died[1] == 0, "nobody wrote to what is the daemon's");
    snprintf(text, sizeof text, "a helper that was taken over lied to %llu requests",
             (unsigned long long)shared->n_lies);
    good &= check(shared->n_lies, text);
    snprintf(text, sizeof text, "%llu compiles ended while all leases of the tier were taken",
             (unsigned long long)shared->n_squatted);
    good &= check(shared->n_squatted, text);
    unsigned other = compile_again();
    snprintf(text, sizeof text, "of %u sources compiled once more, %u have other bytes",
             shared->n_compiled < AGAIN ? shared->n_compiled : AGAIN, other);
    good &= check(other == 0, text);
    kill(daemon, SIGTERM);
    waitpid(daemon, &status, 0);
    good &= check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the daemon drains and ends");
    stop(&helper, 1);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    double seconds = 30;
    char *nvrtc = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--nvrtc") == 0)
            nvrtc = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (geteuid() != 0 || !two_users_can_be()) {
        printf("siege: needs root, and folders that another user reaches\n");
        return 77;
    }
    if (!nvrtc && !(nvrtc = nvrtc_folder()))
        return 1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    folder = temp_dir_new();
    store = path_join(folder, "store");
    snprintf(shared->folder, sizeof shared->folder, "%s", folder);
    snprintf(shared->socket, sizeof shared->socket, "%.90s/warmd.sock", folder);
    char *include = path_join(folder, "include"), *header = path_join(include, "h.h");
    chmod(folder, 0755);
    mkdir(include, 0755);
    file_write(header, "typedef float T;\n", 17);
    chmod(header, 0644);
    int status = siege(seconds, nvrtc);
    if (status == 0)
        temp_dir_free(folder);
    else
        printf("siege: the daemon's log is %s/log\n", folder);
    return status;
}

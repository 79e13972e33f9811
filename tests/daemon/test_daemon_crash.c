/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_daemon_crash.c - the daemon is killed at random moments under load; nothing that it
 * acknowledged is lost, and no value is ever another's.
 *
 * One cycle: start warmd on the same store, check what earlier cycles were promised, put values of
 * all sizes until SIGKILL strikes. WARM_CRASH_CYCLES sets how many (1 000 unless set).
 */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/warm.h"
#include "tests/support/support.h"

enum { N_KEYS = 512, VALUE_MAX = 300000 };

/* What the daemon has promised for each key: the version that it acknowledged, and the newer one,
 * if any, that was on its way when it died. Either may be there; nothing else may. */
struct promise {
    uint32_t acknowledged, sent;
};

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The value of (key, version): its length and every byte follow from the two. */
static size_t value_of(unsigned key, uint32_t version, unsigned char *out)
{
    uint64_t state = (uint64_t)(key + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)version << 17;
    random_next(&state);
    size_t len =
        random_next(&state) % 8 ? random_next(&state) % 4096 : random_next(&state) % VALUE_MAX;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = random_next(&state);
        memcpy(out + i, &word, len - i < 8 ? len - i : 8);
    }
    return len;
}

static pid_t daemon_start(const char *socket, const char *store)
{
    char *program = bin_path("warmd");
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        execl(program, "warmd", "--socket", socket, "--store", store, "--max-size", "4G",
              (char *)NULL);
        _exit(127);
    }
    free(program);
    return pid;
}

static struct warm *daemon_connect(const char *socket)
{
    struct warm *w;
    for (int i = 0; i < 5000; i++) {
        if (warm_open(&w, &(struct warm_options){.socket = socket, .request_timeout_ms = 20000}) ==
            0)
            return w;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    cr_assert_fail("the daemon does not answer");
    return NULL;
}

static void check_key(struct warm *w, unsigned key, struct promise *p, unsigned char *scratch)
{
    char name[32];
    int name_len = snprintf(name, sizeof name, "crash-%u", key);
    struct warm_value v;
    int rc = warm_get(w, name, (size_t)name_len, 0, &v);
    if (rc) {
        cr_assert_eq(p->acknowledged, 0, "key %u, acknowledged as version %u, is lost: %s", key,
                     p->acknowledged, warm_message(w));
        return;
    }
    for (uint32_t version = p->acknowledged; version <= p->sent; version++) {
        size_t len = value_of(key, version, scratch);
        if (version && len == v.len && memcmp(v.data, scratch, len) == 0) {
            p->acknowledged = p->sent = version;
            warm_value_free(&v);
            return;
        }
    }
    cr_assert_fail("key %u holds bytes that nobody put there", key);
}

/* Kills the daemon after some microseconds, from a process of its own. */
static pid_t killer_start(pid_t victim, unsigned after_us)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        usleep(after_us);
        kill(victim, SIGKILL);
        _exit(0);
    }
    return pid;
}

static void put_until_killed(struct warm *w, struct promise *promises, uint64_t *random,
                             unsigned char *scratch)
{
    for (;;) {
        unsigned key = random_next(random) % N_KEYS;
        struct promise *p = &promises[key];
        char name[32];
        int name_len = snprintf(name, sizeof name, "crash-%u", key);
        size_t len = value_of(key, p->sent + 1, scratch);
        p->sent++;
        if (warm_put(w, name, (size_t)name_len, scratch, len, NULL))
            return;
        p->acknowledged = p->sent;
    }
}

Test(daemon_crash, loses_nothing_acknowledged_and_serves_no_wrong_byte, .timeout = 900)
{
    const char *cycles_text = getenv("WARM_CRASH_CYCLES");
    unsigned n_cycles = cycles_text ? (unsigned)atoi(cycles_text) : 1000;
    char *dir = temp_dir_new(), *socket = path_join(dir, "s"), *store = path_join(dir, "store");
    struct promise *promises = calloc(N_KEYS, sizeof *promises);
    unsigned char *scratch = malloc(VALUE_MAX + 8);
    cr_assert(promises && scratch);
    uint64_t random = 0x2545f4914f6cdd1du;
    for (unsigned cycle = 0; cycle <= n_cycles; cycle++) {
        pid_t daemon = daemon_start(socket, store);
        struct warm *w = daemon_connect(socket);
        unsigned n_checks = cycle == n_cycles ? N_KEYS : 24;
        for (unsigned i = 0; i < n_checks; i++) {
            unsigned key = cycle == n_cycles ? i : random_next(&random) % N_KEYS;
            check_key(w, key, &promises[key], scratch);
        }
        pid_t killer = killer_start(daemon, 200 + random_next(&random) % 8000);
        put_until_killed(w, promises, &random, scratch);
        warm_close(w);
        waitpid(killer, NULL, 0);
        waitpid(daemon, NULL, 0);
    }
    free(promises), free(scratch), free(socket), free(store);
    temp_dir_free(dir);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_restart.c - a daemon that fails starts again at once, under the same number, and SIGTERM ends it whatever
 * it does. Damaged pages of the index, under a daemon that serves, are the fault that it is made for.
 */
#include <sys/mman.h>
#include <sys/resource.h>

#include "daemon/process/restart.h"
#include "daemon/process/watch.h"
#include "tests/support/warmd.h"

#define PAGE 4096u
#define ROUNDS 6

TestSuite(restart, .timeout = 300);

/* Waits until the daemon has said a number of times that it is ready. */
static void await_ready(const struct warmd *k, unsigned times)
{
    for (int i = 0; i < WARMD_WAIT_MS / 10; i++) {
        size_t len;
        unsigned n = 0;
        char *log = file_read(k->log, &len);
        for (const char *at = log; (at = strstr(at, "ready on")); at++)
            n++;
        free(log);
        if (n >= times)
            return;
        poll(NULL, 0, 10);
    }
    cr_assert(false, "it does not start again");
}

static void put(const struct warmd *k, const char *name, const char *value)
{
    struct warm *w = warmd_libwarm(k);
    cr_assert_eq(warm_put(w, name, strlen(name), value, strlen(value), NULL), 0);
    warm_close(w);
}

Test(restart, after_a_fatal_signal_the_same_process_serves_again)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct warmd k = warmd_up(NULL);
        struct warm_value v;
        put(&k, "name", "value");
        await_ready(&k, 1);
        kill(k.pid, signals[i]);
        await_ready(&k, 2);
        struct warm *w = warmd_libwarm(&k);
        cr_expect_eq(warm_get(w, "name", 4, 0, &v), 0, "the index is sound: the entry is kept");
        warm_value_free(&v);
        warm_close(w);
        warmd_down(&k);
    }
}

Test(restart, a_fault_that_comes_again_at_once_ends_it)
{
    struct warmd k = warmd_up(NULL);
    await_ready(&k, 1);
    kill(k.pid, SIGSEGV);
    await_ready(&k, 2);
    kill(k.pid, SIGSEGV);
    int status = warmd_reap(k.pid);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "%x", status);
    warmd_free(&k);
}

/* ---- the index ---- */

/* Overwrites pages of the index in place, as a failing disk does, while the daemon maps them. */
static void spoil(const struct warmd *k, unsigned *state, bool all)
{
    char *path = path_join(k->store, "index/data.mdb");
    struct stat st;
    uint32_t noise[PAGE / 4];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    off_t n_pages = st.st_size / PAGE;
    for (off_t page = 2; page < n_pages; page++) {
        if (!all && rand_r(state) % 3)
            continue;
        for (size_t i = 0; i < PAGE / 4; i++)
            noise[i] = (uint32_t)rand_r(state) << 16 ^ (uint32_t)rand_r(state);
        if (rand_r(state) % 2) /* a header that looks sound, before noise */
            cr_assert_eq(pwrite(fd, (char *)noise + 16, PAGE - 16, page * PAGE + 16), PAGE - 16);
        else
            cr_assert_eq(pwrite(fd, noise, PAGE, page * PAGE), PAGE);
    }
    close(fd);
    free(path);
}

/* Asks and puts; whatever comes is fine, but for other bytes. */
static void use(const struct warmd *k)
{
    struct warm_options options = {.socket = k->socket, .request_timeout_ms = 5000};
    struct warm *w;
    struct warm_value v;
    char name[16], value[32];
    for (int i = 0; i < 60; i++) {
        if (warm_open(&w, &options) != 0) {
            poll(NULL, 0, 50);
            continue;
        }
        for (int n = 0; n < 40; n++) {
            snprintf(name, sizeof name, "k%d", (i * 40 + n) % 300);
            snprintf(value, sizeof value, "value %s", name);
            if (warm_get(w, name, strlen(name), 0, &v) != 0)
                continue;
            cr_expect(v.len == strlen(value) && memcmp(v.data, value, v.len) == 0, "%s", name);
            warm_value_free(&v);
        }
        snprintf(name, sizeof name, "k%d", i);
        snprintf(value, sizeof value, "value %s", name);
        warm_put(w, name, strlen(name), value, strlen(value), NULL);
        warm_close(w);
    }
}

Test(restart, noise_in_the_index_neither_ends_nor_holds_a_daemon_that_serves)
{
    unsigned state = 5;
    for (int round = 0; round < ROUNDS; round++) {
        struct warmd k = warmd_up(NULL);
        char name[16], value[32];
        struct warm *w = warmd_libwarm(&k);
        for (int i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "k%d", i);
            snprintf(value, sizeof value, "value %s", name);
            cr_assert_eq(warm_put(w, name, strlen(name), value, strlen(value), NULL), 0);
        }
        warm_close(w);
        spoil(&k, &state, round % 2);
        use(&k);
        warmd_expect_alive(&k);
        put(&k, "new", "value");
        warmd_down(&k); /* by SIGTERM, with 0 */
    }
}

/* ---- the watch ---- */

static volatile bool is_stuck, is_late;
static void on_stuck(const char *who) { (void)who, is_stuck = true; }
static void on_late(void) { is_late = true; }

Test(restart, a_thread_that_turns_for_ever_is_found_and_one_that_waits_is_not)
{
    struct watch_config config = {
        .stuck_ms = 300, .end_ms = 1000, .on_stuck = on_stuck, .on_late = on_late};
    watch_start(&config);
    poll(NULL, 0, 2000);
    cr_expect_not(is_stuck, "it only waited");
    while (!is_stuck)
        ;
    is_stuck = false;
    watch_beat();
    watch_asked();
    poll(NULL, 0, 600);
    cr_expect_not(is_late);
    for (int i = 0; i < 500 && !is_late; i++)
        poll(NULL, 0, 10);
    cr_expect(is_late, "it was told to end");
}

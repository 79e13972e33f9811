/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_lock.c - how long opening waits for a store that is locked, by whom the lock says that it is held.
 *
 * A child holds the lock of a real store's folder. The lock's text names whoever the test says.
 */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "store/clock.h"
#include "tests/support/store_kit.h"

static struct store_kit k;

static void begin(void)
{
    kit_begin(&k, 64 * KIT_MIB);
    kit_close(&k);
}

static void end(void) { kit_end(&k); }

TestSuite(store_lock, .init = begin, .fini = end, .timeout = 120);

/* Returns the number of a process that has ended. */
static pid_t dead_process(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

/* Has a child hold the lock for so long, with this text in it. Returns the child once it has the lock. */
static pid_t hold_lock(unsigned ms, const char *text)
{
    int ready[2];
    char byte, path[4096];
    snprintf(path, sizeof path, "%s/lock", k.dir);
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR);
        bool good = fd >= 0 && flock(fd, LOCK_EX) == 0 && ftruncate(fd, 0) == 0 &&
                    write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
                    write(ready[1], "", 1) == 1;
        poll(NULL, 0, good ? (int)ms : 0);
        _exit(!good);
    }
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* Opens the store. Returns what store_open returns, and how long it took. */
static int open_timed(uint64_t *out_ms)
{
    uint64_t began = clock_mono_ms();
    int code = kit_try_open(&k);
    *out_ms = clock_mono_ms() - began;
    return code;
}

/* Was: its number is no process of this machine, so it counted as dead, and each start took 10 s. */
Test(store_lock, a_holder_on_another_machine_is_not_waited_for)
{
    char text[100];
    uint64_t ms;
    snprintf(text, sizeof text, "%d another-node\n", (int)dead_process());
    pid_t holder = hold_lock(60000, text);
    cr_assert_eq(open_timed(&ms), WARM_EBUSY, "two never have it");
    cr_expect_lt(ms, 3000u);
    cr_expect_not_null(strstr(k.last_event, " on another-node"), "%s", k.last_event);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    cr_assert_eq(open_timed(&ms), 0, "%s", k.last_event);
}

Test(store_lock, a_killed_daemon_of_this_machine_is_waited_for)
{
    char host[HOST_NAME_MAX + 1] = "", text[100];
    uint64_t ms;
    for (int named = 0; named <= 1; named++) {
        gethostname(host, HOST_NAME_MAX);
        snprintf(text, sizeof text, "%d %s\n", (int)dead_process(), named ? host : "");
        pid_t holder = hold_lock(1500, text);
        cr_assert_eq(open_timed(&ms), 0, "%s", k.last_event);
        cr_expect_geq(ms, 1000u);
        waitpid(holder, NULL, 0);
        kit_close(&k);
    }
}

Test(store_lock, a_living_holder_of_this_machine_is_not_waited_for)
{
    char text[100];
    uint64_t ms;
    snprintf(text, sizeof text, "%d\n", (int)getpid());
    pid_t holder = hold_lock(60000, text);
    cr_assert_eq(open_timed(&ms), WARM_EBUSY);
    cr_expect_lt(ms, 3000u);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
}

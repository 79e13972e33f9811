/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_hostile.c - fork servers and workers that somebody took over: whatever they send, and whenever, each
 * compile has one answer, none says what only the daemon may say, and the pool goes on.
 *
 * The fork server is this very program under another name, by a link "hostile-MANNER": then it plays one before
 * any test begins.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/pool.h"
#include "tests/support/support.h"

#include "daemon/worker/message.h"

/* ---- the fork server ---- */

static const char *manner;
static bool is(const char *name) { return strcmp(manner, name) == 0; }

static void tell(const void *message, size_t len) { packet_send(WORKER_FD, message, len, NULL, 0); }

static void be_ready(void)
{
    struct worker_files files;
    struct worker_ready ready = {.type = WORKER_READY, .major = 13, .n_archs = 1, .seccomp = 1};
    struct stat st;
    int fds[2];
    if (packet_receive(WORKER_FD, &files, sizeof files, fds, 2) != sizeof files)
        _exit(1);
    if (fstat(fds[0], &st) == 0)
        ready.library = worker_file_of(&st);
    if (fds[1] >= 0 && fstat(fds[1], &st) == 0)
        ready.builtins = worker_file_of(&st);
    memset(ready.text, 'x', sizeof ready.text); /* it does not end */
    tell(&ready, sizeof ready);
}

/* Answers a job in this server's manner. */
static void answer(const struct worker_job *job, int fd)
{
    static char long_packet[4096];
    struct worker_done done = {.type = WORKER_DONE, .id = job->id};
    struct worker_exited exited = {.type = WORKER_EXITED, .id = job->id};
    int objects[2] = {memfd_create("bundle", MFD_ALLOW_SEALING), memfd_create("paths", 0)};
    size_t n_fds = 0, len = sizeof done;
    memset(done.text, 'x', sizeof done.text);
    if (is("shutdown")) {
        done.status = WARM_ESHUTDOWN;
    } else if (is("cancelled")) {
        done.status = WARM_ECANCELLED;
    } else if (is("positive")) {
        done.status = 7;
    } else if (is("flags")) {
        memset(&done.keep, 0xff, 6);
        done.status = WARM_EREFUSED;
    } else if (is("no-objects")) {
        done.len = done.paths_len = UINT64_MAX;
        done.n_paths = UINT32_MAX;
    } else if (is("unsealed")) {
        n_fds = 2;
        done.len = 5;
        if (ftruncate(objects[0], 5) != 0)
            _exit(1);
    } else if (is("others-job")) {
        done.id++;
        done.status = WARM_EREFUSED;
    } else if (is("long")) {
        len = sizeof long_packet;
    } else if (is("exits-of-all")) {
        for (exited.id = 0; exited.id < 100; exited.id++)
            tell(&exited, sizeof exited);
        exited.id = job->id;
    } else if (is("ready-again")) {
        struct worker_ready ready = {.type = WORKER_READY};
        tell(&ready, sizeof ready);
    }
    memcpy(long_packet, &done, sizeof done);
    packet_send(fd, long_packet, len, objects, n_fds);
    packet_send(fd, long_packet, len, NULL, 0); /* and once more */
    tell(&exited, sizeof exited);
    tell(&exited, sizeof exited);
}

/* Plays the fork server if this program was started as one. */
__attribute__((constructor)) static void play(int argc, char **argv)
{
    const char *name = argc ? strrchr(argv[0], '/') : NULL;
    union {
        uint32_t type;
        struct worker_job job;
    } message;
    int fds[3];
    if (!name || strncmp(name, "/hostile-", 9) != 0)
        return;
    manner = name + 9;
    be_ready();
    while (packet_receive(WORKER_FD, &message, sizeof message, fds, 3) > 0) {
        if (message.type == WORKER_JOB)
            answer(&message.job, fds[1]);
        for (size_t i = 0; i < 3; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    }
    _exit(0);
}

/* ---- the pool ---- */

static void expect_survived(const char *how)
{
    struct rig r;
    struct ask a = {.source = SAXPY, .options = {{"-arch=sm_90"}}};
    struct outcome first, second;
    char name[64], self[4096];
    rig_configure(&r);
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert_gt(len, 0);
    self[len] = '\0';
    snprintf(name, sizeof name, "hostile-%s", how);
    char *link = path_join(r.dir, name);
    cr_assert_eq(symlink(self, link), 0);
    r.config.worker_path = link;
    rig_open(&r);
    ask_start(&r, &a, &first);
    ask_start(&r, &a, &second);
    ask_finish(&r, &a, &first);
    ask_finish(&r, &a, &second);
    struct outcome *both[] = {&first, &second};
    for (size_t i = 0; i < 2; i++) {
        int status = both[i]->status;
        cr_expect(status != WARM_ESHUTDOWN && status != WARM_ECANCELLED && status < 0,
                  "%s: status %d: %s", how, status, both[i]->text);
        outcome_close(both[i]);
    }
    rig_stop(&r);
    free(link);
}

Test(pool_hostile, a_worker_cannot_speak_for_the_daemon, .timeout = 120)
{
    NEEDS_TOOLCHAIN();
    static const char *const manners[] = {"shutdown", "cancelled", "positive"};
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        expect_survived(manners[i]);
}

Test(pool_hostile, an_answer_of_any_shape_ends_its_own_compile_alone, .timeout = 120)
{
    NEEDS_TOOLCHAIN();
    static const char *const manners[] = {"flags",      "no-objects", "unsealed",
                                          "others-job", "long",       "silent"};
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        expect_survived(manners[i]);
}

Test(pool_hostile, a_fork_server_may_say_anything_at_any_time, .timeout = 120)
{
    NEEDS_TOOLCHAIN();
    static const char *const manners[] = {"exits-of-all", "ready-again"};
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++)
        expect_survived(manners[i]);
}

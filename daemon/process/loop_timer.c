/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_timer.c - timers of the loop that wait in timerfds.
 *
 * The service, the server and the pool have such timers; loop_timer.h tells when one pays.
 *
 * Thread: loop thread.
 */
#include "daemon/process/loop_timer.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct loop_timer {
    uv_poll_t poll;
    int fd;
    bool runs, repeats;
    void (*on_tick)(void *arg);
    void *arg;
};

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct loop_timer *t = poll->data;
    uint64_t n_ticks;
    assert(t->runs); /* a stopped one is not watched */
    (void)status, (void)events;
    if (read(t->fd, &n_ticks, sizeof n_ticks) != (ssize_t)sizeof n_ticks)
        return; /* it was started again after it fired */
    if (!t->repeats)
        loop_timer_stop(t);
    t->on_tick(t->arg);
}

struct loop_timer *loop_timer_new(uv_loop_t *loop, void (*on_tick)(void *arg), void *arg)
{
    struct loop_timer *t = malloc(sizeof *t);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (!t || fd < 0 || uv_poll_init(loop, &t->poll, fd) != 0) {
        if (fd >= 0)
            close(fd);
        free(t);
        return NULL;
    }
    t->poll.data = t;
    t->fd = fd;
    t->runs = t->repeats = false;
    t->on_tick = on_tick;
    t->arg = arg;
    return t;
}

static void on_closed(uv_handle_t *handle) { free(handle->data); }

void loop_timer_free(struct loop_timer *t)
{
    if (!t)
        return;
    uv_close((uv_handle_t *)&t->poll, on_closed);
    close(t->fd);
}

static struct timespec timespec_of(uint64_t ms)
{
    return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

void loop_timer_start(struct loop_timer *t, uint64_t after_ms, uint64_t repeat_ms)
{
    assert(!uv_is_closing((const uv_handle_t *)&t->poll));
    struct itimerspec when = {timespec_of(repeat_ms), timespec_of(after_ms)};
    if (after_ms == 0)
        when.it_value.tv_nsec = 1; /* 0 would stop it */
    timerfd_settime(t->fd, 0, &when, NULL);
    t->repeats = repeat_ms != 0;
    if (!t->runs)
        uv_poll_start(&t->poll, UV_READABLE, on_readable);
    t->runs = true;
}

void loop_timer_stop(struct loop_timer *t)
{
    if (!t->runs)
        return;
    assert(!uv_is_closing((const uv_handle_t *)&t->poll));
    t->runs = false;
    timerfd_settime(t->fd, 0, &(struct itimerspec){.it_value = {0}}, NULL);
    uv_poll_stop(&t->poll);
}

bool loop_timer_runs(const struct loop_timer *t) { return t->runs; }

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_script.c - the steps of scripts about a compile: what the daemon says, and what the client must say.
 * Suites of libwarm put them together.
 *
 * Thread: the daemon's.
 */
#include "tests/support/compile_script.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/wire/bundle.h"
#include "keygen/cuda/job.h"
#include "tests/support/support.h"

/* ---- what the daemon says ---- */

void script_add_result(struct fake_daemon *d, enum wire_type type, uint64_t tag, const char *cubin,
                       uint32_t status, bool is_damaged)
{
    struct writer bundle;
    const struct bundle_section sections[] = {{BUNDLE_STATUS, {&status, sizeof status}},
                                              {BUNDLE_CUBIN, view_of_text(cubin)}};
    writer_init(&bundle, 0);
    bundle_write(&bundle, sections, 2);
    struct wire_hit hit = {.len = bundle.len,
                           .check = key_of_bytes(bundle.data, bundle.len),
                           .value = {bundle.data, bundle.len}};
    hit.check.bytes[0] ^= is_damaged;
    if (type == WIRE_HIT)
        wire_put_hit(&d->out, tag, &hit);
    else
        wire_put_failed(&d->out, tag, &hit);
    writer_close(&bundle);
}

void script_say_hit(struct fake_daemon *d)
{
    script_add_result(d, WIRE_HIT, d->frame.tag, "cubin", 0, false);
    fake_daemon_send(d, NULL, 0);
}

void script_say_damaged(struct fake_daemon *d)
{
    script_add_result(d, WIRE_HIT, d->frame.tag, "wrong", 0, true);
    fake_daemon_send(d, NULL, 0);
}

void script_say_need(struct fake_daemon *d, uint64_t max_bytes)
{
    wire_put_need(&d->out, d->frame.tag, &(struct wire_need){max_bytes});
    fake_daemon_send(d, NULL, 0);
}

void script_say_error(struct fake_daemon *d, int code)
{
    wire_put_error(&d->out, d->frame.tag,
                   &(struct wire_error){(uint32_t)-code, view_of_text("so it is")});
    fake_daemon_send(d, NULL, 0);
}

void script_add_paths(struct writer *list)
{
    wire_paths_add(list, "part.h", 6);
    wire_paths_add(list, "none.h", 6);
}

void script_say_check(struct fake_daemon *d)
{
    struct writer list;
    writer_init(&list, 0);
    script_add_paths(&list);
    wire_put_check(&d->out, d->frame.tag, &(struct wire_check){2, list.len, {list.data, list.len}});
    fake_daemon_send(d, NULL, 0);
    writer_close(&list);
}

/* ---- what the client must say ---- */

void script_take_compile(struct fake_daemon *d, uint32_t flags)
{
    struct wire_compile m = {.flags = ~flags};
    struct err e;
    fake_daemon_take(d, WIRE_COMPILE);
    if (fake_daemon_talks(d))
        fake_daemon_expect(d, wire_get_compile(&d->frame, &m, &e) == 0 && m.flags == flags,
                           "COMPILE with other flags");
}

void script_take_checked(struct fake_daemon *d)
{
    struct wire_checked m;
    struct wire_path_seen states[2] = {{.state = WIRE_PATH_REFUSED}};
    struct proof right = proof_of_bytes(SCRIPT_PART, sizeof SCRIPT_PART - 1);
    struct err e;
    fake_daemon_take(d, WIRE_CHECKED);
    if (!fake_daemon_talks(d))
        return;
    bool is_right = wire_get_checked(&d->frame, &m, &e) == 0 && m.n == 2;
    struct reader r = reader_over(m.list.data, m.list.len);
    is_right = is_right && wire_states_next(&r, states, 0) && wire_states_next(&r, states, 1);
    fake_daemon_expect(d,
                       is_right && states[0].state == WIRE_PATH_FILE &&
                           memcmp(&states[0].sha256, &right, sizeof right) == 0 &&
                           states[1].state == WIRE_PATH_ABSENT,
                       "CHECKED with other states");
}

int script_take_source(struct fake_daemon *d)
{
    struct wire_source m;
    struct job job;
    struct err e;
    fake_daemon_take(d, WIRE_SOURCE);
    if (!fake_daemon_talks(d))
        return -1;
    bool is_right =
        wire_get_source(&d->frame, &m, &e) == 0 && job_decode(m.job.data, m.job.len, &job, &e) == 0;
    fake_daemon_expect(d, is_right, "SOURCE without a job");
    if (!is_right)
        return -1;
    fake_daemon_expect(d,
                       job.source.len == sizeof SCRIPT_SOURCE - 1 &&
                           memcmp(job.source.data, SCRIPT_SOURCE, job.source.len) == 0,
                       "SOURCE of another job");
    job_close(&job);
    int channel = d->fds[0];
    d->fds[0] = -1;
    return channel;
}

void script_ask_on(struct fake_daemon *d, int channel)
{
    char content[16] = "", control[CMSG_SPACE(sizeof(int))];
    uint8_t packet[64];
    struct iovec part = {packet, sizeof packet};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    struct writer w;
    int fd = -1;
    if (channel < 0)
        return;
    writer_init(&w, 0);
    wire_put_open(&w, &(struct wire_open){7, view_of_text("part.h")});
    send_with_fds(channel, w.data, w.len, NULL, 0);
    writer_close(&w);
    if (recvmsg(channel, &m, MSG_CMSG_CLOEXEC) > 0 && CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    fake_daemon_expect(d,
                       fd >= 0 &&
                           pread(fd, content, sizeof content - 1, 0) == sizeof SCRIPT_PART - 1 &&
                           strcmp(content, SCRIPT_PART) == 0,
                       "the compiler did not get its header");
    if (fd >= 0)
        close(fd);
}

void script_close_channel(int channel)
{
    if (channel >= 0)
        close(channel);
}

bool script_is_closed(int channel)
{
    char byte;
    return channel >= 0 && recv(channel, &byte, 1, 0) == 0;
}

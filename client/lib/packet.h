/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packet.h - a packet with descriptors over a SOCK_SEQPACKET socket: between warmd, its fork servers, their
 * workers and warm-tier.
 *
 * Thread: any. Memory: nothing is owned; received descriptors are the caller's.
 */
#ifndef WARM_CLIENT_PACKET_H
#define WARM_CLIENT_PACKET_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define PACKET_FDS_MAX 3u /* descriptors with one packet */

/* Sends the parts as one packet with descriptors, which stay the caller's. Returns 0, or -1 with errno. */
static inline int packet_send_parts(int fd, struct iovec *parts, size_t n_parts, const int *fds,
                                    size_t n_fds)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = n_parts};
    if (n_fds) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

/* Returns a part of a packet. */
static inline struct iovec packet_part(const void *data, size_t len)
{
    struct iovec part = {.iov_len = len};
    memcpy(&part.iov_base, &data, sizeof data); /* sendmsg does not write to it */
    return part;
}

/* Sends one packet with descriptors, which stay the caller's. Returns 0, or -1 with errno. */
static inline int packet_send(int fd, const void *data, size_t len, const int *fds, size_t n_fds)
{
    struct iovec part = packet_part(data, len);
    return packet_send_parts(fd, &part, 1, fds, n_fds);
}

/* Receives one packet; gives its descriptors in fds[0..n_fds), -1 if there are fewer. Returns its
 * bytes, 0 at the end, or -1 with errno (EMSGSIZE: longer than `cap`). */
static inline ssize_t packet_receive(int fd, void *data, size_t cap, int *fds, size_t n_fds)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = cap};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
    for (size_t i = 0; i < n_fds; i++)
        fds[i] = -1;
    ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return n;
    size_t got = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
                int passed;
                memcpy(&passed, CMSG_DATA(c) + i * sizeof(int), sizeof passed);
                if (got < n_fds)
                    fds[got++] = passed;
                else
                    close(passed); /* CMSG_SPACE rounds up: one more may fit */
            }
    if (!(m.msg_flags & MSG_TRUNC))
        return n;
    for (size_t i = 0; i < got; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
    errno = EMSGSIZE;
    return -1;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper.c - a warm-tier that somebody took over, at the socket of the service that the daemon connects to. In the
 * honest phase it has no object; in the hostile one it answers each request with anything. In each second turn of that it
 * says instead what somebody can make it say who may only write the store behind it: another node makes the key.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "tests/siege/siege.h"
#include "tier/message.h"

#define MEMORY 64u /* requests that it remembers, to answer them again */

static uint64_t state = 1;
static uint64_t roll(uint64_t n) { return random_next(&state) % n; }

static uint64_t some_number(void)
{
    static const uint64_t numbers[] = {0, 1, 100, 65536, 70000, 1ull << 31, 1ull << 63, UINT64_MAX};
    return numbers[roll(sizeof numbers / sizeof *numbers)];
}

/* Answers a request, or another one: any outcome, number, text, object. */
static void lie(int fd, uint64_t id)
{
    static uint8_t packet[sizeof(struct tier_answer) + TIER_BYTES_MAX + 64];
    struct tier_answer a = {.id = roll(10) ? id : roll(100),
                            .outcome = (uint32_t)roll(roll(10) ? 11 : UINT32_MAX),
                            .length = some_number(),
                            .wait_ms = some_number()};
    size_t n_bytes = roll(3) ? 0 : (size_t)some_number() % (TIER_BYTES_MAX + 64);
    int object = roll(4) ? -1 : memfd_create("object", MFD_CLOEXEC);
    if (!roll(3))
        a.length = n_bytes;
    if (!roll(4))
        memset(&a.capabilities, (int)roll(256), sizeof a.capabilities + sizeof a.said);
    memcpy(packet, &a, sizeof a);
    size_t len = roll(50) ? sizeof a + n_bytes : roll(sizeof a);
    packet_send(fd, packet, len, &object, object >= 0);
    if (object >= 0)
        close(object);
}

/* Serves one connection until it ends. */
static void serve(int fd)
{
    struct tier_answer hello = {.outcome = TIER_OK};
    uint64_t ids[MEMORY] = {0};
    struct tier_ask ask;
    int object;
    packet_send(fd, &hello, sizeof hello, NULL, 0);
    while (packet_receive(fd, &ask, sizeof ask, &object, 1) == (ssize_t)sizeof ask) {
        if (object >= 0)
            close(object);
        if (ask.operation == TIER_CANCEL)
            continue;
        if (shared->phase && shared->squats) {
            struct tier_answer taken = {
                .id = ask.id, .outcome = ask.operation == TIER_ASK ? TIER_WAIT : TIER_ABSENT};
            packet_send(fd, &taken, sizeof taken, NULL, 0);
            continue;
        }
        shared->n_lies += shared->phase;
        ids[ask.id % MEMORY] = ask.id;
        struct tier_answer none = {.id = ask.id, .outcome = TIER_ABSENT};
        for (uint64_t n = roll(3); shared->phase && n; n--)
            lie(fd, roll(2) ? ask.id : ids[roll(MEMORY)]);
        if (!shared->phase || roll(4)) /* and sometimes as it should */
            packet_send(fd, &none, sizeof none, NULL, 0);
    }
}

void helper_listen(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%.90s/tier.sock", shared->folder);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) != 0 || listen(listener, 8) != 0)
        _exit(2);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            serve(fd);
        if (fd >= 0)
            close(fd);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_helper.c - a warm-tier that somebody took over, against a service with a real store: it answers any
 * request with anything, in any order, while users ask, leave and put. Nothing that it sends may end the daemon.
 *
 * The input is a script: a byte names a step, and the bytes after it are the step's arguments.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "client/wire/memfd.h"
#include "daemon/process/log.h"
#include "tests/support/tier_rig.h"

#define CALLS 6u
#define PUTS 4u
#define ASKS 32u
#define STEPS_MAX 200u /* of one script */
#define NAMES 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tier_rig rig;
static struct tier_call calls[CALLS];
static struct service_rig_put stored[PUTS];
static size_t n_calls, n_puts;
static struct tier_ask asks[ASKS]; /* that wait for an answer */
static size_t n_asks;
static const uint8_t *at, *end;

static uint8_t next(void) { return at < end ? *at++ : 0; }

static void run_loop(unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        uv_run(&rig.base.loop, UV_RUN_NOWAIT);
        store_turn_end(rig.base.store);
    }
}

/* ---- users ---- */

static void ask(enum ask_mode mode)
{
    static const char *const names[NAMES] = {"a", "b", "pt2:c", "d"};
    if (n_calls < CALLS)
        tier_rig_ask(&rig, &calls[n_calls++], mode, names[next() % NAMES]);
}

static void leave(void)
{
    if (n_calls)
        tier_rig_leave(&calls[next() % n_calls]);
}

static void put(void)
{
    static uint8_t value[70000];
    char name[2] = {(char)('a' + next() % NAMES), '\0'};
    if (n_puts == PUTS)
        return;
    struct service_put what = {.name = view_of_text(name),
                               .kind = STORE_OTHER,
                               .data = value,
                               .len = next() % 2 ? 10 : sizeof value,
                               .fd = -1,
                               .cost_ms = 5000};
    value[0] = next();
    if (service_rig_put_begin(&rig.base, &rig.peer, what, &stored[n_puts]) == 0)
        n_puts++;
}

/* ---- the helper ---- */

static void take_asks(void)
{
    struct tier_ask got;
    int fd;
    while (rig.helper.fd >= 0 && n_asks < ASKS &&
           packet_receive(rig.helper.fd, &got, sizeof got, &fd, 1) == sizeof got) {
        if (fd >= 0)
            close(fd);
        if (got.operation != TIER_CANCEL)
            asks[n_asks++] = got;
    }
}

static void send_packet(const void *packet, size_t len, int fd)
{
    if (rig.helper.fd >= 0)
        packet_send(rig.helper.fd, packet, len, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
}

/* A descriptor of some kind, or -1. */
static int some_descriptor(uint8_t kind)
{
    static const char bytes[100] = "an object";
    switch (kind % 8) {
    case 0: return memfd_sealed("object", bytes, next() % sizeof bytes, NULL);
    case 1: return memfd_create("object", MFD_CLOEXEC);
    case 2: return open("/dev/zero", O_RDONLY | O_CLOEXEC);
    default: return -1;
    }
}

/* Answers one of the requests that wait: any outcome, length and object. */
static void lie(void)
{
    enum { TOO_MANY = 70000 }; /* more bytes than an answer may carry */
    static_assert(TOO_MANY > TIER_BYTES_MAX, "the longest answer is refused");
    static const uint64_t numbers[] = {0,        1,          10,         69632,
                                       TOO_MANY, 1ull << 31, 1ull << 63, UINT64_MAX};
    static uint8_t packet[sizeof(struct tier_answer) + TOO_MANY];
    size_t which = n_asks ? next() % n_asks : 0, n_bytes = 0;
    uint8_t how = next();
    struct tier_answer a = {.id = n_asks ? asks[which].id : 0,
                            .outcome = next() % 13,
                            .length = numbers[next() % 8],
                            .wait_ms = numbers[next() % 8]};
    if (how & 1)
        n_bytes = next() % 4 ? next() : (size_t)numbers[next() % 5];
    if (how & 2)
        a.length = n_bytes;
    if (how & 4)
        memset(&a.capabilities, next(), sizeof a.capabilities + sizeof a.said);
    if (how & 8)
        a.id = next() % 40;
    memcpy(packet, &a, sizeof a);
    send_packet(packet, sizeof a + n_bytes, how & 16 ? some_descriptor(next()) : -1);
    if (n_asks && !(how & 32))
        asks[which] = asks[--n_asks];
}

/* Appends a signed entry, which begins at its own place. */
static void entry_write_after(const struct tier_entry *entry, struct writer *out)
{
    struct writer w;
    writer_init(&w, 0);
    entry_write(entry, &rig.key, &w);
    writer_bytes(out, w.data, w.len);
    writer_close(&w);
}

/* Answers with what a real helper would send: an entry that counts, of a value in it or beside it. */
static void tell_the_truth(void)
{
    static uint8_t value[70000];
    static const char *const names[NAMES] = {"a", "b", "pt2:c", "d"};
    struct tier_answer head = {.outcome = TIER_OK};
    struct tier_entry entry;
    struct writer w;
    if (!n_asks)
        return;
    const struct tier_ask *a = &asks[--n_asks];
    const char *name = names[next() % NAMES];
    struct view whole = {value, next() % 2 ? 10 : sizeof value};
    int fd = -1;
    writer_init(&w, 0);
    writer_bytes(&w, &head, sizeof head);
    tier_rig_entry(name, whole, &entry);
    head.id = a->id;
    if (a->wants_bytes) {
        entry_write_after(&entry, &w);
        head.length = w.len - sizeof head;
    } else if (a->operation == TIER_GET) {
        fd = memfd_sealed("value", whole.data, whole.len, NULL);
        head.length = whole.len;
    }
    memcpy(w.data, &head, sizeof head);
    send_packet(w.data, w.len, fd);
    writer_close(&w);
}

static void send_anything(void)
{
    size_t len = (size_t)(end - at) < 500 ? (size_t)(end - at) : 500;
    size_t n =
        next() % 2 && len > sizeof(struct tier_answer) ? sizeof(struct tier_answer) : len / 2;
    if (n && n <= (size_t)(end - at)) {
        send_packet(at, n, -1);
        at += n;
    }
}

static void step(void)
{
    switch (next() % 12) {
    case 0: ask(ASK_KNOWN); break;
    case 1: ask(ASK_LEASE); break;
    case 2: put(); break;
    case 3: leave(); break;
    case 4:
    case 5:
    case 6: lie(); break;
    case 7:
    case 8: tell_the_truth(); break;
    case 9: send_anything(); break;
    case 10: run_loop(next() % 8); break;
    default: usleep(next() * 200u); break; /* the clocks of waits and polls */
    }
    run_loop(2);
    take_asks();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at = data;
    end = data + size;
    n_calls = n_puts = n_asks = 0;
    tier_rig_up(&rig, NULL);
    log_set_level(LOG_LEVEL_ERROR);
    for (unsigned i = 0; at < end && i < STEPS_MAX; i++)
        step();
    fake_helper_die(&rig.helper);
    for (size_t i = 0; i < n_calls; i++)
        tier_rig_leave(&calls[i]);
    for (size_t i = 0; i < n_puts; i++)
        service_rig_put_end(&rig.base, &stored[i]);
    tier_rig_down(&rig);
    return 0;
}

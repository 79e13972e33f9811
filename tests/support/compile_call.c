/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_call.c - plays clients that ask a service for compiles. The suites of compile_request, build and
 * build_store call it.
 *
 * Thread: the test's own. It serves the channels of its calls between two runs of the loop.
 */
#include "tests/support/compile_call.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "daemon/headers/manifest.h"
#include "daemon/service/internal.h"

#define CALLS_MAX 8

const struct peer alice = {.uid = 1000, .space = 1000}, bob = {.uid = 1001, .space = 1001};
struct service_rig rig;
struct compile_call first = {.channel = -1}, second = {.channel = -1}, third = {.channel = -1};

static struct compile_call *calls[CALLS_MAX]; /* with a channel */

static bool is_header(struct view path)
{
    return path.len >= 3 && memcmp((const char *)path.data + path.len - 3, "h.h", 3) == 0;
}

/* Answers one question of the compiler, if there is one. */
static void serve(struct compile_call *c)
{
    char packet[WIRE_OPEN_MAX];
    struct wire_open open;
    struct writer w;
    ssize_t n = recv(c->channel, packet, sizeof packet, MSG_DONTWAIT);
    if (n <= 0)
        return;
    cr_assert_eq(wire_get_open(packet, (size_t)n, &open, NULL), 0);
    bool there = c->header && is_header(open.path);
    int file = memfd_create("header", MFD_CLOEXEC);
    if (there)
        cr_assert_eq(write(file, c->header, strlen(c->header)), (ssize_t)strlen(c->header));
    lseek(file, 0, SEEK_SET);
    writer_init(&w, 0);
    wire_put_opened(&w, &(struct wire_opened){open.id, there ? WIRE_PATH_FILE : WIRE_PATH_ABSENT});
    packet_send(c->channel, w.data, w.len, &file, there);
    writer_close(&w);
    close(file);
}

void compile_calls_step(struct service_rig *r)
{
    for (int i = 0; i < CALLS_MAX; i++)
        if (calls[i] && !calls[i]->silent)
            serve(calls[i]);
    uv_run(&r->loop, UV_RUN_NOWAIT);
    store_turn_end(r->store);
    usleep(1000);
}

static void on_answer(struct ask *ask, const struct answer *a)
{
    struct compile_call *c = (struct compile_call *)ask;
    cr_assert_not(c->ended, "answered after the last answer: %s", c->seen);
    c->ended = service_rig_note(c->seen, sizeof c->seen, a->kind);
    if (a->kind == ANSWER_ERROR)
        c->code = a->err->code;
    if (a->kind != ANSWER_VALUE && a->kind != ANSWER_FAILED)
        return;
    c->outcome = a->outcome;
    c->key = a->value ? a->value->row.id.key : a->artifact->key;
    c->check = a->value ? a->value->row.check : a->artifact->check;
}

void compile_call_init(struct compile_call *c, const struct peer *peer, const char *source)
{
    struct view option = view_of_text("--gpu-architecture=sm_90");
    struct job job = {.language = JOB_CUDA,
                      .name = {"f.cu", 4},
                      .cwd = {"/", 1},
                      .source = {source, strlen(source)},
                      .options = &option,
                      .n_options = 1};
    struct err e;
    *c =
        (struct compile_call){.ask = {.service = rig.service, .peer = peer, .on_answer = on_answer},
                              .rig = &rig,
                              .wanted = {.language = JOB_CUDA,
                                         .compiler = view_of_text(""),
                                         .label = view_of_text("f.cu")},
                              .header = "#define N 1\n",
                              .channel = -1};
    writer_init(&c->job, 0);
    job_encode(&job, &c->job);
    cr_assert_eq(job_key(&job, c->hardware, &c->wanted.graph, &c->wanted.proof, &e), 0, "%s",
                 e.text);
}

void compile_call_ask(struct compile_call *c, uint32_t flags)
{
    c->wanted.flags = flags;
    c->wanted.hardware = view_of_text(c->hardware);
    service_compile(&c->ask, &c->wanted);
}

static void close_channel(struct compile_call *c)
{
    for (int i = 0; i < CALLS_MAX; i++)
        if (calls[i] == c)
            calls[i] = NULL;
    if (c->channel >= 0)
        close(c->channel);
    c->channel = -1;
}

void compile_call_source(struct compile_call *c)
{
    int ends[2], i = 0;
    close_channel(c);
    while (calls[i])
        cr_assert_lt(++i, CALLS_MAX);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    calls[i] = c;
    c->channel = ends[0];
    service_source(&c->ask, c->job.data, c->job.len, -1, ends[1]);
}

void compile_call_checked(struct compile_call *c)
{
    const struct manifest *m = ask_checking(&c->ask);
    cr_assert(m);
    struct wire_path_seen *states = calloc(m->n_paths + 1, sizeof *states);
    uint32_t header = UINT32_MAX; /* all names of h.h lead to one file */
    for (uint32_t i = 0; i < m->n_paths; i++) {
        char path[WIRE_PATH_MAX + 1];
        size_t len = bases_path(m->bases, m->paths[i], path, sizeof path);
        if (!c->header || !is_header((struct view){path, len}))
            continue;
        header = header < i ? header : i;
        states[i] = (struct wire_path_seen){WIRE_PATH_FILE,
                                            proof_of_bytes(c->header, strlen(c->header)), header};
    }
    service_checked(&c->ask, states);
    free(states);
}

static char last_answer(const struct compile_call *c)
{
    return *c->seen ? c->seen[strlen(c->seen) - 1] : '\0';
}

void compile_call_finish(struct compile_call *c)
{
    for (int i = 0; !c->ended; i++) {
        cr_assert_lt(i, COMPILE_CALLS_STEPS_MAX, "no end after %s", c->seen);
        if (last_answer(c) == 'N' && c->ask.n_sources < c->ask.n_needs)
            compile_call_source(c);
        else if (ask_checking(&c->ask))
            compile_call_checked(c);
        else
            compile_calls_step(c->rig);
    }
    close_channel(c);
    store_turn_end(c->rig->store);
}

void compile_call_run(struct compile_call *c, uint32_t flags)
{
    compile_call_ask(c, flags);
    compile_call_finish(c);
}

void compile_call_until(struct compile_call *c, const char *seen)
{
    for (int i = 0; strcmp(c->seen, seen) != 0; i++) {
        cr_assert_lt(i, COMPILE_CALLS_STEPS_MAX, "its answers are %s, not %s", c->seen, seen);
        compile_calls_step(c->rig);
    }
}

void compile_call_until_asked(struct compile_call *c)
{
    char byte;
    for (int i = 0; recv(c->channel, &byte, 1, MSG_DONTWAIT | MSG_PEEK) <= 0; i++) {
        cr_assert_lt(i, COMPILE_CALLS_STEPS_MAX, "the compiler asks for no file; answers: %s",
                     c->seen);
        compile_calls_step(c->rig);
    }
}

void compile_call_expect(const struct compile_call *c, const char *seen, enum wire_outcome outcome)
{
    cr_expect_str_eq(c->seen, seen);
    cr_expect_eq(c->outcome, outcome, "outcome %d", (int)c->outcome);
}

void compile_call_close(struct compile_call *c)
{
    close_channel(c);
    if (!c->ended && c->ask.ops)
        ask_drop(&c->ask, false);
    c->ended = true;
    writer_close(&c->job);
}

void compile_calls_down(void)
{
    if (!rig.service)
        return;
    compile_call_close(&first);
    compile_call_close(&second);
    compile_call_close(&third);
    service_rig_down(&rig);
}

void compile_calls_stored(struct service_rig *r)
{
    for (int i = 0; r->service->n_puts || r->service->n_preparing; i++) {
        cr_assert_lt(i, COMPILE_CALLS_STEPS_MAX, "%u puts are on their way", r->service->n_puts);
        compile_calls_step(r);
    }
}

uint64_t compile_calls_compiles(const struct service_rig *r)
{
    return service_stats(r->service)->now[STATS_compiles][STORE_CUBIN];
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - plays the client of a compile frame by frame: sends the job, answers the questions of
 * warmd and of the worker about headers, and reads the result. Suites of compiles call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/compile.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/wire/bundle.h"
#include "tests/support/support.h"

/* Freed at the test's end. */
static char *folder;
static struct writer jobs[8];
static size_t n_jobs;

void compile_teardown_jobs(void)
{
    while (n_jobs)
        writer_close(&jobs[--n_jobs]);
}

void compile_teardown(void)
{
    free(folder);
    compile_teardown_jobs();
}

char *nvrtc_folder(void) { return folder = toolchain_lib("13.5.37"); }

struct warmd warmd_with_nvrtc(char *nvrtc, char *option, char *value)
{
    char *options[] = {"--nvrtc", nvrtc, "--jobs", "2", option, value, NULL};
    return warmd_up(options);
}

struct ask ask_of(const char *source)
{
    static const char arch[] = "--gpu-architecture=sm_90";
    struct view option = {arch, sizeof arch - 1};
    struct job job = {.language = JOB_CUDA,
                      .name = {"f.cu", 4},
                      .cwd = {"/", 1},
                      .source = {source, strlen(source)},
                      .options = &option,
                      .n_options = 1};
    struct ask a;
    struct err e;
    writer_init(&a.job, 0);
    job_encode(&job, &a.job);
    cr_assert_eq(job_key(&job, a.hardware, &a.graph, &a.proof, &e), 0, "%s", e.text);
    cr_assert_lt(n_jobs, sizeof jobs / sizeof *jobs);
    jobs[n_jobs++] = a.job;
    return a;
}

void send_compile(int fd, uint64_t tag, const struct ask *a, uint32_t flags)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_compile(&w, tag,
                     &(struct wire_compile){.flags = flags,
                                            .language = JOB_CUDA,
                                            .graph = a->graph,
                                            .proof = a->proof,
                                            .hardware = {a->hardware, strlen(a->hardware)}});
    warmd_flush(fd, &w);
    writer_close(&w);
}

int send_source(int fd, uint64_t tag, const struct ask *a)
{
    int ends[2];
    struct writer w;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    writer_init(&w, 0);
    wire_put_source(&w, tag,
                    &(struct wire_source){.len = a->job.len, .job = {a->job.data, a->job.len}});
    warmd_send_fds(fd, w.data, w.len, &ends[1], 1);
    writer_close(&w);
    close(ends[1]);
    return ends[0];
}

void serve_headers(int channel, const char *content)
{
    char packet[WIRE_OPEN_MAX];
    ssize_t n;
    while ((n = recv(channel, packet, sizeof packet, 0)) > 0) {
        struct wire_open open;
        struct writer w;
        int file = memfd_create("header", MFD_CLOEXEC);
        cr_assert_eq(wire_get_open(packet, (size_t)n, &open, NULL), 0);
        bool there = open.path.len >= 3 &&
                     memcmp((const char *)open.path.data + open.path.len - 3, "h.h", 3) == 0;
        cr_assert_eq(write(file, content, strlen(content)), (ssize_t)strlen(content));
        lseek(file, 0, SEEK_SET);
        writer_init(&w, 0);
        wire_put_opened(&w,
                        &(struct wire_opened){open.id, there ? WIRE_PATH_FILE : WIRE_PATH_ABSENT});
        warmd_send_fds(channel, w.data, w.len, &file, there);
        writer_close(&w);
        close(file);
    }
    close(channel);
}

void ask_compile(int fd, uint64_t tag, const struct ask *a, uint32_t flags, uint8_t type)
{
    send_compile(fd, tag, a, flags);
    warmd_expect(fd, tag, type);
}

void lead_compile(int fd, uint64_t tag, const struct ask *a, uint32_t flags, const char *content)
{
    ask_compile(fd, tag, a, flags, WIRE_NEED);
    serve_headers(send_source(fd, tag, a), content);
}

void answer_check(int fd, const struct warmd_frame *f, const char *content)
{
    struct wire_check check;
    struct writer w, states;
    struct view path;
    cr_assert_eq(wire_get_check(&f->frame, &check, NULL), 0);
    writer_init(&w, 0);
    writer_init(&states, 0);
    struct reader list = reader_over(check.list.data, check.list.len);
    uint32_t n = 0, first = UINT32_MAX; /* all names of h.h lead to one file */
    while (wire_paths_next(&list, &path)) {
        struct wire_path_seen seen = {.state = WIRE_PATH_ABSENT};
        if (path.len >= 3 && memcmp((const char *)path.data + path.len - 3, "h.h", 3) == 0) {
            seen.state = WIRE_PATH_FILE;
            seen.sha256 = proof_of_bytes(content, strlen(content));
            seen.same = first = first < n ? first : n;
        }
        wire_states_add(&states, &seen, n++);
    }
    wire_put_checked(&w, f->frame.tag,
                     &(struct wire_checked){check.n, states.len, {states.data, states.len}});
    warmd_flush(fd, &w);
    writer_close(&w);
    writer_close(&states);
}

void await_end(int fd, uint64_t tag, const char *content, struct warmd_frame *f)
{
    do {
        cr_assert(warmd_frame_try(fd, f));
        cr_assert_eq(f->frame.tag, tag);
        if (f->frame.type == WIRE_CHECK)
            answer_check(fd, f, content);
    } while (f->frame.type == WIRE_CHECK || f->frame.type == WIRE_WAIT);
}

void expect_end(int fd, uint64_t tag, const char *content, uint8_t type)
{
    static struct warmd_frame f;
    await_end(fd, tag, content, &f);
    cr_assert_eq(f.frame.type, type, "expected %s, got %s", wire_type_name(type),
                 wire_type_name(f.frame.type));
}

enum wire_outcome expect_cubin_with(int fd, uint64_t tag, const char *content,
                                    struct key *out_check)
{
    static struct warmd_frame f;
    struct wire_hit hit;
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n;
    await_end(fd, tag, content, &f);
    cr_assert_eq(f.frame.type, WIRE_HIT, "got %s", wire_type_name(f.frame.type));
    cr_assert_eq(wire_get_hit(&f.frame, &hit, NULL), 0);
    cr_assert_eq(bundle_read(hit.value.data, hit.value.len, sections, &n, NULL), 0);
    cr_assert_gt(bundle_find(sections, n, BUNDLE_CUBIN).len, 100);
    if (out_check)
        *out_check = hit.check;
    return hit.outcome;
}

enum wire_outcome expect_cubin(int fd, uint64_t tag, struct key *out_check)
{
    return expect_cubin_with(fd, tag, "", out_check);
}

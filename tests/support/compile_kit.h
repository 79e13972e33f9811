/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_kit.h - for suites that send compiles to a real warmd frame by frame: the jobs, and both
 * ends of what a client says about its source and its headers.
 *
 * The gate is the protocol's own: a client that was told NEED holds others up until it sends its
 * source, ends, or is hedged; and a worker waits for the answer about each header.
 */
#ifndef WARM_TESTS_SUPPORT_COMPILE_KIT_H
#define WARM_TESTS_SUPPORT_COMPILE_KIT_H

#include <sys/mman.h>

#include "client/wire/bundle.h"
#include "keygen/cuda/job.h"
#include "tests/support/daemon_kit.h"

/* What a test has made, freed at its end. */
static char *folder;
static struct writer jobs[4];
static size_t n_jobs;

static inline void compile_teardown_jobs(void)
{
    while (n_jobs)
        writer_close(&jobs[--n_jobs]);
}

static inline void compile_teardown(void)
{
    free(folder);
    compile_teardown_jobs();
}

/* The folder of the libnvrtc to use; NULL if there is none. */
static inline char *nvrtc_folder(void)
{
    static char exe[4096];
    const char *root = getenv("WARM_TOOLCHAIN");
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 16);
    cr_assert_gt(n, 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    strcpy(strrchr(exe, '/'), "/toolchain");
    folder = path_join(root ? root : exe, "13.5.37/lib");
    return access(folder, R_OK) == 0 ? folder : NULL;
}

static inline struct kit compile_kit(char *nvrtc, char *option, char *value)
{
    char *options[] = {"--nvrtc", nvrtc, "--jobs", "2", option, value, NULL};
    return kit_up(options);
}

#define NEEDS_TOOLCHAIN(nvrtc)                                                                     \
    char *nvrtc = nvrtc_folder();                                                                  \
    if (!nvrtc)                                                                                    \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* ---- a compile, step by step ---- */

struct ask {
    struct writer job;
    struct key graph;
    struct proof proof;
    char hardware[WARM_HARDWARE_MAX];
};

static inline struct ask ask_of(const char *source)
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
    jobs[n_jobs++] = a.job;
    return a;
}

static inline void send_compile(int fd, uint64_t tag, const struct ask *a, uint32_t flags)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_compile(&w, tag,
                     &(struct wire_compile){.flags = flags,
                                            .language = JOB_CUDA,
                                            .graph = a->graph,
                                            .proof = a->proof,
                                            .hardware = {a->hardware, strlen(a->hardware)}});
    kit_flush(fd, &w);
    writer_close(&w);
}

/* Sends the source; returns our end of the channel, on which the worker asks for headers. */
static inline int send_source(int fd, uint64_t tag, const struct ask *a)
{
    int ends[2];
    struct writer w;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    writer_init(&w, 0);
    wire_put_source(&w, tag,
                    &(struct wire_source){.len = a->job.len, .job = {a->job.data, a->job.len}});
    kit_send_fds(fd, w.data, w.len, &ends[1], 1);
    writer_close(&w);
    close(ends[1]);
    return ends[0];
}

/* Answers what the worker asks on the channel with this content, until it ends. */
static inline void serve_headers(int channel, const char *content)
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
        kit_send_fds(channel, w.data, w.len, &file, there);
        writer_close(&w);
        close(file);
    }
    close(channel);
}

/* Answers CHECK with what a client has whose h.h holds `content`. */
static inline void answer_check(int fd, const struct kit_frame *f, const char *content)
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
    kit_flush(fd, &w);
    writer_close(&w);
    writer_close(&states);
}

/* The next frame that says how it went; on the way a client whose h.h holds `content` answers what it
 * is asked about its files. */
static inline void await_end(int fd, uint64_t tag, const char *content, struct kit_frame *f)
{
    do {
        cr_assert(kit_frame_try(fd, f));
        cr_assert_eq(f->frame.tag, tag);
        if (f->frame.type == WIRE_CHECK)
            answer_check(fd, f, content);
    } while (f->frame.type == WIRE_CHECK || f->frame.type == WIRE_WAIT);
}

static inline void expect_end(int fd, uint64_t tag, const char *content, uint8_t type)
{
    static struct kit_frame f;
    await_end(fd, tag, content, &f);
    cr_assert_eq(f.frame.type, type, "expected %s, got %s", wire_type_name(type),
                 wire_type_name(f.frame.type));
}

static inline enum wire_outcome expect_cubin_with(int fd, uint64_t tag, const char *content,
                                                  struct key *out_check)
{
    static struct kit_frame f;
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

static inline enum wire_outcome expect_cubin(int fd, uint64_t tag, struct key *out_check)
{
    return expect_cubin_with(fd, tag, "", out_check);
}

static inline bool stats_say(const struct kit *k, const char *text, bool quiet)
{
    char *json = kit_stats(k);
    bool has = strstr(json, text) != NULL;
    if (!has && !quiet)
        fprintf(stderr, "%s not in %s\n", text, json);
    free(json);
    return has;
}

static inline bool stats_have(const struct kit *k, const char *text)
{
    return stats_say(k, text, false);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_compile.c - libwarm's warm_compile: a compile job through the daemon. Programs, the
 * preload library and `warm compile` call it; warm.h has the contract.
 *
 *   Happy path:                               And else:
 *     1. COMPILE (key and proof of the job)     - CHECK (paths of headers) ─▶ CHECKED (their state)
 *     2. ◀─ HIT: verify, unpack                 - WAIT: another client's compile of the job runs
 *   On a miss:                                  - ERROR: a code and one line
 *     2. ◀─ NEED                                - a value that does not match its checksum: the
 *     3. SOURCE (the job, one end of a            daemon is told, and asked once more
 *        channel); answer the compiler's        - no answer by the deadline, a malformed one, the
 *        questions on the channel                 end of the connection: the connection is given up
 *     4. ◀─ HIT or FAILED
 *
 * Thread: one at a time for each connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/deadlines.h"
#include "client/lib/debug.h"
#include "client/lib/digests.h"
#include "client/lib/headers.h"
#include "client/lib/identity.h"
#include "client/lib/nvrtc_id.h"
#include "client/lib/request.h"
#include "client/wire/bundle.h"
#include "client/wire/memfd.h"
#include "keygen/bytes.h"
#include "keygen/cuda/options.h"
#include "keygen/domains.h"
#include "keygen/expect.h"

#define AUDIT_SEND_MS 5u /* the daemon reads at once, or does without */

struct remote_compile {
    struct warm *w;
    struct job job;
    struct view *texts; /* options, then expressions: memory of job.options and job.expressions */
    char cwd[WIRE_PATH_MAX];
    char hardware[WARM_HARDWARE_MAX];
    struct wire_compile message;
    uint64_t tag, deadline_ms;
    struct headers *headers; /* NULL until the daemon asks for paths */
    int channel;             /* our end; -1: none */
};

/* ---- the job ---- */

/* Returns the label of a job: its name, or the end of a long one, which tells more than its
 * beginning.
 */
static struct view label_of(const char *name)
{
    struct view v = view_of_text(name);
    size_t len = v.len < WIRE_NAME_MAX ? v.len : WIRE_NAME_MAX;
    return (struct view){(const char *)v.data + v.len - len, len};
}

/* Writes the working folder by the name that $PWD has for it, if that is one without "." and "..": NVRTC writes that
 * name into debug information and LTO IR. Else by its own. False if there is none. */
static bool find_cwd(char *out, size_t cap)
{
    const char *pwd = getenv("PWD");
    struct stat named, here;
    bool is_plain = pwd && pwd[0] == '/' && strlen(pwd) < cap && !strstr(pwd, "//") &&
                    !strstr(pwd, "/./") && !strstr(pwd, "/../") && !text_ends(pwd, "/") &&
                    !text_ends(pwd, "/.") && !text_ends(pwd, "/..");
    if (is_plain && stat(pwd, &named) == 0 && stat(".", &here) == 0 &&
        named.st_dev == here.st_dev && named.st_ino == here.st_ino) {
        memcpy(out, pwd, strlen(pwd) + 1);
        return true;
    }
    return getcwd(out, cap) != NULL;
}

static int job_fill(struct remote_compile *c, const struct warm_job *from)
{
    size_t n = from->n_options + from->n_expressions;
    struct view *texts = calloc(n ? n : 1, sizeof *texts);
    struct job_header *headers = calloc(from->n_headers ? from->n_headers : 1, sizeof *headers);
    c->texts = texts;
    c->job = (struct job){.language = JOB_CUDA,
                          .name = view_of_text(from->name),
                          .source = {from->source, from->source_len},
                          .options = texts,
                          .n_options = from->n_options,
                          .headers = headers,
                          .n_headers = from->n_headers,
                          .expressions = texts ? texts + from->n_options : NULL,
                          .n_expressions = from->n_expressions};
    if (!texts || !headers)
        return err_set(&c->w->err, WARM_ENOMEM, "no memory for a compile job");
    for (size_t i = 0; i < from->n_options; i++)
        texts[i] = view_of_text(from->options[i]);
    for (size_t i = 0; i < from->n_expressions; i++)
        texts[from->n_options + i] = view_of_text(from->expressions[i]);
    for (size_t i = 0; i < from->n_headers; i++)
        headers[i] = (struct job_header){view_of_text(from->headers[i].name),
                                         {from->headers[i].bytes, from->headers[i].len}};
    if (!from->cwd && !find_cwd(c->cwd, sizeof c->cwd))
        return err_sys(&c->w->err, WARM_EIO, errno, "cannot tell the working folder");
    c->job.cwd = view_of_text(from->cwd ? from->cwd : c->cwd);
    return 0;
}

static int compile_open(struct remote_compile *c, struct warm *w, const struct warm_job *from,
                        const char *compiler)
{
    *c = (struct remote_compile){.w = w, .channel = -1};
    unsigned timeout_ms = from->timeout_ms ? from->timeout_ms : DEADLINE_COMPILE_MS;
    c->deadline_ms = conn_now_ms() + timeout_ms;
    int code = job_fill(c, from);
    if (!code)
        code = job_key(&c->job, c->hardware, &c->message.graph, &c->message.proof, &w->err);
    if (code)
        return code;
    c->message.flags = from->flags | (w->recache ? WIRE_COMPILE_RECACHE : 0) |
                       (w->read_only ? WIRE_COMPILE_NO_STORE : 0);
    /* The daemon must give up a little earlier, so that its answer arrives. */
    c->message.deadline_ms = from->timeout_ms - from->timeout_ms / 10;
    c->message.language = (uint16_t)c->job.language;
    c->message.hardware = view_of_text(c->hardware);
    c->message.compiler = view_of_text(compiler);
    c->message.label = label_of(from->name);
    return 0;
}

static void close_channel(struct remote_compile *c)
{
    if (c->channel >= 0)
        close(c->channel);
    c->channel = -1;
}

static void compile_close(struct remote_compile *c)
{
    close_channel(c);
    headers_close(c->headers);
    free(c->job.headers);
    free(c->texts);
}

/* ---- paths ---- */

static int ensure_headers(struct remote_compile *c)
{
    if (c->headers)
        return 0;
    int code = headers_open(&c->headers, &c->job, &c->w->err);
    if (!c->w->digests)
        c->w->digests = digests_new();
    if (!code)
        headers_remember_in(c->headers, c->w->digests);
    return code;
}

static int send_states(struct remote_compile *c, const struct wire_check *check,
                       struct writer *states)
{
    struct wire_checked checked = {.n = check->n, .len = states->len};
    int fd = -1;
    if (!WARM_EXPECT(check->n == 0 || states->len))
        return err_set(&c->w->err, WARM_EINVALID, "no states of %u paths", check->n);
    if (states->len <= WIRE_INLINE_MAX) {
        checked.list = (struct view){states->data, states->len};
    } else {
        fd = memfd_sealed("warm", states->data, states->len, &c->w->err);
        if (fd < 0)
            return fd;
    }
    request_renew(c->w);
    wire_put_checked(&c->w->request, c->tag, &checked);
    int code = request_tell(c->w, &fd, fd >= 0, c->deadline_ms);
    if (fd >= 0)
        close(fd);
    return code;
}

/* Maps the list of a CHECK that came as a descriptor. */
static int map_list(int fd, uint64_t len, struct view *out, struct err *e)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size < len)
        return err_set(e, WARM_EMALFORMED, "CHECK: the list is shorter than it should be");
    void *map = mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return err_sys(e, WARM_EIO, errno, "cannot map a list of paths");
    *out = (struct view){map, (size_t)len};
    return 0;
}

static int answer_check(struct remote_compile *c, struct answer *answer)
{
    struct wire_check check;
    int code = wire_get_check(&answer->frame, &check, &c->w->err);
    if (code)
        return request_unexpected(c->w, answer);
    struct view paths = check.list, map = {NULL, 0};
    if (check.list.len == 0 && check.len)
        code = map_list(answer->fds[0], check.len, &map, &c->w->err);
    if (map.data)
        paths = map;
    conn_fds_close(answer->fds);
    struct writer states;
    writer_init(&states, WIRE_CHECK_MAX);
    if (!code)
        code = ensure_headers(c);
    if (!code)
        code = headers_check(c->headers, &check, paths, &states, &c->w->err);
    if (!code)
        code = send_states(c, &check, &states);
    writer_close(&states);
    if (map.data)
        munmap((void *)(uintptr_t)map.data, map.len);
    return code;
}

/* ---- the source ---- */

/* Sends SOURCE with its descriptors: a large job's memfd, and the channel's other end. */
static int send_source(struct remote_compile *c, const struct writer *job, int other_end)
{
    struct wire_source source = {.len = job->len};
    int fds[WIRE_FDS_MAX];
    size_t n_fds = 0;
    int job_fd = -1;
    if (!WARM_EXPECT(job->len && other_end >= 0))
        return err_set(&c->w->err, WARM_EINVALID, "a source without bytes, or without a channel");
    if (job->len <= WIRE_INLINE_MAX) {
        source.job = (struct view){job->data, job->len};
    } else {
        job_fd = memfd_sealed("warm", job->data, job->len, &c->w->err);
        if (job_fd < 0)
            return job_fd;
        fds[n_fds++] = job_fd;
    }
    fds[n_fds++] = other_end;
    request_renew(c->w);
    wire_put_source(&c->w->request, c->tag, &source);
    int code = request_tell(c->w, fds, n_fds, c->deadline_ms);
    if (job_fd >= 0)
        close(job_fd);
    return code;
}

static int encode_job(struct remote_compile *c, uint64_t max_bytes, struct writer *out)
{
    job_encode(&c->job, out);
    if (out->failed)
        return err_set(&c->w->err, WARM_ENOMEM, "no memory for a compile job");
    if (out->len > max_bytes)
        return err_set(&c->w->err, WARM_ETOO_BIG,
                       "the job has %zu bytes, the daemon takes up to %llu", out->len,
                       (unsigned long long)max_bytes);
    return 0;
}

static int answer_need(struct remote_compile *c, struct answer *answer)
{
    struct wire_need need;
    if (wire_get_need(&answer->frame, &need, &c->w->err))
        return request_unexpected(c->w, answer);
    close_channel(c); /* of a first try */
    int ends[2];
    struct writer job;
    writer_init(&job, 0);
    int code = encode_job(c, need.max_bytes, &job);
    if (!code)
        code = ensure_headers(c);
    if (!code && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        code = err_sys(&c->w->err, WARM_EIO, errno, "cannot make a channel");
    if (!code) {
        c->channel = ends[0];
        code = send_source(c, &job, ends[1]);
        close(ends[1]);
    }
    writer_close(&job);
    return code;
}

/* ---- the result ---- */

static struct warm_part part_of(const struct bundle_section *sections, size_t n, uint32_t type)
{
    struct view v = bundle_find(sections, n, type);
    return (struct warm_part){v.data, v.len};
}

static int fill_lowered(struct warm_result *r, struct view section, struct err *e)
{
    struct reader list = reader_over(section.data, section.len);
    struct view expression, lowered;
    size_t n = 0;
    while (bundle_lowered_next(&list, &expression, &lowered))
        n++;
    if (list.failed)
        return err_set(e, WARM_ECORRUPT, "the lowered names of a result are damaged");
    r->lowered = calloc(n ? n : 1, sizeof *r->lowered);
    if (!r->lowered)
        return err_set(e, WARM_ENOMEM, "no memory for a result");
    list = reader_over(section.data, section.len);
    while (bundle_lowered_next(&list, &expression, &lowered)) {
        if (!WARM_EXPECT(r->n_lowered < n))
            break;
        r->lowered[r->n_lowered][0] = (struct warm_part){expression.data, expression.len};
        r->lowered[r->n_lowered][1] = (struct warm_part){lowered.data, lowered.len};
        r->n_lowered++;
    }
    return 0;
}

int request_unpack(struct warm *w, struct warm_value *value, struct view bundle,
                   struct warm_result *out)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n;
    struct warm_result r = {.value = *value};
    int code = bundle_read(bundle.data, bundle.len, sections, &n, &w->err);
    if (!code) {
        r.status = (int)bundle_status(sections, n);
        r.log = part_of(sections, n, BUNDLE_LOG);
        r.cubin = part_of(sections, n, BUNDLE_CUBIN);
        r.ptx = part_of(sections, n, BUNDLE_PTX);
        r.ltoir = part_of(sections, n, BUNDLE_LTOIR);
        r.optixir = part_of(sections, n, BUNDLE_OPTIXIR);
        r.compiler = part_of(sections, n, BUNDLE_COMPILER);
        code = fill_lowered(&r, bundle_find(sections, n, BUNDLE_LOWERED), &w->err);
    }
    if (code)
        warm_result_free(&r);
    else
        *out = r;
    return code;
}

static int take_result(struct remote_compile *c, struct answer *answer, struct warm_result *out)
{
    struct wire_hit hit;
    struct warm_value value;
    int code = answer->frame.type == WIRE_HIT ? wire_get_hit(&answer->frame, &hit, &c->w->err)
                                              : wire_get_failed(&answer->frame, &hit, &c->w->err);
    if (code)
        return request_unexpected(c->w, answer);
    code = request_value(c->w, answer, &hit, &value);
    if (!code)
        code = request_unpack(c->w, &value, (struct view){value.data, value.len}, out);
    if (!code && hit.outcome == WIRE_WAS_HIT_AUDIT) {
        /* The daemon compiles the job of a hit once more to compare the results. Nothing depends on it: a job that
         * cannot be sent at once is not sent. */
        struct err before = c->w->err;
        struct writer job;
        writer_init(&job, WIRE_INLINE_MAX);
        job_encode(&c->job, &job);
        if (!job.failed) {
            struct wire_audit m = {hit.key, c->message.compiler, {job.data, job.len}};
            request_renew(c->w);
            wire_put_audit(&c->w->request, c->tag, &m);
            request_tell(c->w, NULL, 0, conn_now_ms() + AUDIT_SEND_MS);
        }
        writer_close(&job);
        c->w->err = before;
    }
    return code;
}

void warm_result_free(struct warm_result *r)
{
    warm_value_free(&r->value);
    free(r->lowered);
    *r = (struct warm_result){0};
}

/* ---- the conversation ---- */

/* Waits for the next answer, and answers the compiler's questions meanwhile. */
static int await(struct remote_compile *c, struct answer *answer)
{
    for (;;) {
        struct err ignored;
        int code = request_next(c->w, c->tag, c->channel, c->deadline_ms, answer);
        if (code != CONN_OTHER)
            return code;
        /* The end of the channel is the end of the questions, not of the compile. */
        if (headers_serve(c->headers, c->channel, &ignored))
            close_channel(c);
    }
}

/* Handles one frame: 1 if the conversation goes on, 0 with *out, or an error. */
static int on_answer(struct remote_compile *c, struct answer *answer, struct warm_result *out)
{
    int code;
    switch (answer->frame.type) {
    case WIRE_HIT:
    case WIRE_FAILED: return take_result(c, answer, out);
    case WIRE_WAIT: return 1;
    case WIRE_CHECK: code = answer_check(c, answer); return code ? code : 1;
    case WIRE_NEED: code = answer_need(c, answer); return code ? code : 1;
    case WIRE_MISS: return err_set(&c->w->err, WARM_ENOT_FOUND, "not in the cache");
    default: return request_unexpected(c->w, answer);
    }
}

static int converse(struct remote_compile *c, struct warm_result *out)
{
    struct answer answer;
    uint64_t first_ms = conn_now_ms() + c->w->request_timeout_ms;
    c->tag = request_begin(c->w);
    wire_put_compile(&c->w->request, c->tag, &c->message);
    int code = request_ask(c->w, c->tag, NULL, 0,
                           first_ms < c->deadline_ms ? first_ms : c->deadline_ms, &answer);
    while (!code) {
        code = on_answer(c, &answer, out);
        if (code <= 0)
            break;
        code = await(c, &answer);
    }
    return code;
}

/* Tells the daemon not to wait for us after a failure on our side. */
static void cancel(struct remote_compile *c)
{
    if (!c->w->connected)
        return;
    request_renew(c->w);
    wire_put_empty(&c->w->request, WIRE_CANCEL, c->tag);
    struct err first = c->w->err;
    request_tell(c->w, NULL, 0, conn_now_ms() + c->w->connect_timeout_ms);
    c->w->err = first;
}

void request_tell_uncached(struct warm *w, const struct warm_job *job)
{
    request_note(w, &(struct wire_note){WIRE_REASON_UNCACHEABLE, label_of(job->name),
                                        view_of_text(w->err.text)});
}

static int compile_with(struct warm *w, const struct warm_job *job, const char *compiler,
                        struct warm_result *out)
{
    unsigned long long began_us = debug_now_us();
    struct remote_compile c;
    int code = compile_open(&c, w, job, compiler);
    if (code == WARM_EREFUSED)
        request_tell_uncached(w, job);
    if (!code) {
        code = converse(&c, out);
        for (unsigned i = 0; code == WARM_ECORRUPT && i < 2; i++) {
            close_channel(&c);
            if (i) /* the stored result stays damaged: compile again */
                c.message.flags |= WIRE_COMPILE_RECACHE;
            code = converse(&c, out);
        }
        if (code && code != WARM_ENOT_FOUND)
            cancel(&c);
    }
    if (!code)
        out->refused = c.headers && headers_refused(c.headers);
    if (!code && out->status && out->refused)
        err_set(&w->err, 0, "outside the include folders, so not shown to the compiler: %s",
                headers_refused(c.headers));
    else if (!code)
        w->err = (struct err){0};
    if (began_us) {
        struct view label = label_of(job->name);
        static const char *const words[] = {"hit", "compiled", "compiled for another"};
        debug_request("compile", label.data, label.len,
                      code ? w->err.text : words[out->value.outcome], code ? 0 : out->value.len,
                      began_us);
    }
    compile_close(&c);
    return code;
}

/* ---- a compiler that the daemon does not load ---- */

static bool identify_file(struct warm *w, const char *path, struct nvrtc_file *out)
{
    struct stat st;
    char text[WARM_IDENTITY_TEXT];
    if (stat(path, &st) || warm_file_identity(w, path, text))
        return false;
    out->len = (uint64_t)st.st_size;
    return identity_sha256(text, &out->sha256);
}

bool request_nvrtc_id(struct warm *w, const char *path, struct key *out)
{
    struct nvrtc_file library, builtins;
    char *beside = nvrtc_builtins_of(path);
    bool known = beside && identify_file(w, path, &library) &&
                 (!*beside || identify_file(w, beside, &builtins));
    if (known)
        *out = nvrtc_id(&library, *beside ? &builtins : NULL);
    free(beside);
    return known;
}

/* Fills in w->nvrtc. False if the files cannot be read. */
static bool identify_nvrtc(struct warm *w, const char *path)
{
    struct stat st;
    struct key id;
    if (stat(path, &st) || !request_nvrtc_id(w, path, &id))
        return false;
    free(w->nvrtc.path);
    w->nvrtc = (struct own_nvrtc){.path = strdup(path), .file = st};
    key_to_text(&id, w->nvrtc.id);
    return w->nvrtc.path;
}

static bool nvrtc_is_identified(const struct warm *w, const char *path)
{
    struct stat st;
    return w->nvrtc.path && strcmp(w->nvrtc.path, path) == 0 && stat(path, &st) == 0 &&
           stat_is_same(&w->nvrtc.file, &st);
}

/* Forgets an identity that the daemon does not know. */
static int without_compiler(struct warm *w, const struct err *why)
{
    free(w->nvrtc.path);
    w->nvrtc.path = NULL;
    w->err = *why;
    return w->err.code;
}

/*
 * Compiles with the library that the job names, or with the daemon's copy of it. A daemon loads no
 * library that another user could change, such as one in a virtual environment. It often has a
 * copy: equal content is the same compiler.
 */
int request_compile(struct warm *w, const struct warm_job *job, struct warm_result *out)
{
    const char *path = job->compiler;
    if (!path || *path != '/')
        return compile_with(w, job, path, out);
    int code = WARM_ENO_TOOLCHAIN;
    struct err first = {0};
    if (!nvrtc_is_identified(w, path)) {
        code = compile_with(w, job, path, out);
        first = w->err;
        if (code != WARM_ENO_TOOLCHAIN || !identify_nvrtc(w, path))
            return code == WARM_ENO_TOOLCHAIN ? without_compiler(w, &first) : code;
    }
    code = compile_with(w, job, w->nvrtc.id, out);
    return code == WARM_ENO_TOOLCHAIN ? without_compiler(w, first.code ? &first : &w->err) : code;
}

int warm_compile(struct warm *w, const struct warm_job *job, struct warm_result *out)
{
    int code = request_compile(w, job, out);
    if (code == WARM_ENO_TOOLCHAIN)
        request_tell_uncached(w, job);
    return code;
}

/* ---- many jobs at once ---- */

#define UNANSWERED 1 /* among the codes */

/* Jobs whose requests are under way together, with tags that follow one another. */
struct batch {
    struct warm *w;
    struct remote_compile *jobs;
    size_t n, left;
    struct warm_result *out;
    int *codes;
    int channels; /* an epoll of the compilers' questions */
};

/* Answers one question of a compiler. */
static void serve_channel(struct batch *b)
{
    struct epoll_event event;
    struct err ignored;
    if (epoll_wait(b->channels, &event, 1, 0) != 1)
        return;
    struct remote_compile *c = &b->jobs[event.data.u64];
    if (c->channel >= 0 && headers_serve(c->headers, c->channel, &ignored))
        close_channel(c);
}

/* Handles one answer. Returns 0, or the code that ends all. */
static int take_answer(struct batch *b, struct answer *answer, int code)
{
    size_t i = (size_t)(answer->frame.tag - b->jobs[0].tag);
    struct remote_compile *c = &b->jobs[i];
    uint64_t n_tags = b->w->n_tags;
    int channel = c->channel;
    if (!WARM_EXPECT(i < b->n) || b->codes[i] != UNANSWERED)
        return request_unexpected(b->w, answer);
    if (!code)
        code = on_answer(c, answer, &b->out[i]);
    b->w->n_tags = n_tags; /* a damaged value was reported in between */
    if (!b->w->connected)
        return code ? code : WARM_ECLOSED;
    if (c->channel >= 0 && c->channel != channel)
        epoll_ctl(b->channels, EPOLL_CTL_ADD, c->channel,
                  &(struct epoll_event){.events = EPOLLIN, .data.u64 = i});
    if (code == 1) /* it goes on */
        return 0;
    b->codes[i] = code;
    b->left--;
    close_channel(c);
    return 0;
}

/* Sends all COMPILEs, and takes answers until each job has one. */
static int converse_all(struct batch *b)
{
    struct answer answer = {.frame.type = 0}; /* a request that cannot be sent has none */
    struct remote_compile *first = b->jobs;
    uint64_t tag = request_begin_many(b->w, b->n);
    for (size_t i = 0; i < b->n; i++) {
        b->jobs[i].tag = tag + i;
        wire_put_compile(&b->w->request, tag + i, &b->jobs[i].message);
    }
    uint64_t soon_ms = conn_now_ms() + b->w->request_timeout_ms;
    int code = request_ask(b->w, tag, NULL, 0,
                           soon_ms < first->deadline_ms ? soon_ms : first->deadline_ms, &answer);
    for (;;) {
        if (!b->w->connected || (code && code != CONN_OTHER && answer.frame.type != WIRE_ERROR))
            return code;
        if (code == CONN_OTHER)
            serve_channel(b);
        else if ((code = take_answer(b, &answer, code)))
            return code;
        if (b->left == 0)
            return 0;
        code = request_next(b->w, tag, b->channels, first->deadline_ms, &answer);
    }
}

int request_compile_many(struct warm *w, const struct warm_job *jobs, size_t n,
                         struct warm_result *out, int *out_codes)
{
    struct batch b = {.w = w, .n = n, .left = n, .out = out, .codes = out_codes, .channels = -1};
    if (!WARM_EXPECT(n > 0 && n <= COMPILE_MANY_MAX))
        return err_set(&w->err, WARM_EINVALID, "%zu jobs at once", n);
    if (n == 1 ||
        (jobs[0].compiler && *jobs[0].compiler == '/')) { /* the daemon may have to identify it */
        for (size_t i = 0; i < n; i++)
            out_codes[i] = warm_compile(w, &jobs[i], &out[i]);
        return 0;
    }
    b.jobs = calloc(n, sizeof *b.jobs);
    b.channels = epoll_create1(EPOLL_CLOEXEC);
    int code = b.jobs && b.channels >= 0
                   ? 0
                   : err_set(&w->err, WARM_ENOMEM, "no memory for %zu compile jobs", n);
    size_t n_open = 0;
    for (; n_open < n && !code; n_open++) {
        out_codes[n_open] = UNANSWERED;
        code = compile_open(&b.jobs[n_open], w, &jobs[n_open], jobs[n_open].compiler);
    }
    if (!code) {
        code = converse_all(&b);
        if (code) {
            /* free what there is, and tell the daemon not to wait for us */
            for (size_t i = 0; i < b.n; i++) {
                if (b.codes[i] == UNANSWERED)
                    cancel(&b.jobs[i]);
                else if (b.codes[i] == 0)
                    warm_result_free(&b.out[i]);
            }
        }
    }
    for (size_t i = 0; i < n_open; i++)
        compile_close(&b.jobs[i]);
    free(b.jobs);
    if (b.channels >= 0)
        close(b.channels);
    for (size_t i = 0; !code && i < n; i++)
        if (out_codes[i] == WARM_ECORRUPT)
            out_codes[i] = warm_compile(w, &jobs[i], &out[i]);
    return code;
}

/* ---- a compiler that the daemon has no copy of ---- */

/* Adds what a library and its builtins are to a key. */
static int add_own_files(struct warm *w, const char *path, struct key_builder *b)
{
    char text[WARM_IDENTITY_TEXT];
    char *beside = nvrtc_builtins_of(path);
    int code = beside ? warm_file_identity(w, path, text) : WARM_ENOMEM;
    if (!code) {
        key_add_text(b, 1, text);
        if (*beside)
            code = warm_file_identity(w, beside, text);
        key_add_text(b, 2, *beside ? text : "");
    }
    free(beside);
    return code;
}

/* Refuses a job whose compile could see more than the job: files, lines, the clock. */
static int check_alone(const struct job *job, bool *out_shows_cwd, struct err *e)
{
    struct options options;
    int code = options_parse(OPTIONS_NVRTC, 0, job->options, job->n_options, &options, e);
    if (code)
        return code;
    struct cuda_scan scan = options.defines;
    bool shows_lines = options.debug || options.line_info;
    bool reads_files = options.n_pre_includes != 0;
    *out_shows_cwd = options.shows_cwd;
    options_close(&options);
    cuda_scan(job->source.data, job->source.len, &scan);
    for (size_t i = 0; i < job->n_expressions; i++)
        cuda_scan(job->expressions[i].data, job->expressions[i].len, &scan);
    if (reads_files || cuda_scan_has_includes(&scan))
        return err_set(e, WARM_EREFUSED, "it includes headers");
    if (shows_lines || cuda_scan_uses_clock(&scan))
        return err_set(e, WARM_EREFUSED, "its result shows %s", shows_lines ? "lines" : "the time");
    return 0;
}

int request_own_proof(struct warm *w, const struct warm_job *job,
                      char out_hardware[WARM_HARDWARE_MAX], bool *out_shows_cwd, struct proof *out)
{
    struct remote_compile c;
    struct key_builder b;
    struct key unused;
    int code = compile_open(&c, w, job, job->compiler);
    if (!code)
        code = check_alone(&c.job, out_shows_cwd, &w->err);
    key_begin(&b, DOMAIN_OWN_NVRTC);
    if (!code)
        code = add_own_files(w, job->compiler, &b);
    key_add_text(&b, 3, c.hardware);
    key_add(&b, 4, &c.message.proof, sizeof c.message.proof);
    key_end(&b, &unused, out);
    memcpy(out_hardware, c.hardware, sizeof c.hardware);
    compile_close(&c);
    return code;
}

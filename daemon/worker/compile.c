/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - drives NVRTC for one job, decides whether the result may be kept and shared, and packs it.
 *
 * The options are the client's own, in their order, without those about precompiled headers and
 * NVRTC's own cache: these decide nothing about the result. No compile here writes or reads a
 * precompiled header: NVRTC checks nothing about the headers behind one, and it is good only in the
 * process that made it, which serves no second job.
 *
 * main.c calls it in a worker.
 *
 * Thread: main thread.
 */
#include "daemon/worker/compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/lib/inodes.h"
#include "client/lib/nvrtc_outputs.h"
#include "client/wire/bundle.h"
#include "client/wire/memfd.h"
#include "daemon/worker/files.h"
#include "daemon/worker/line_digests.h"
#include "keygen/cuda/cuda.h"
#include "keygen/cuda/job.h"
#include "keygen/cuda/options.h"
#include "keygen/cuda/reach.h"

#define OWN_OPTIONS 1u /* options that the worker adds */

/* ---- the job as C strings ---- */

/* Everything that NVRTC borrows while it compiles. Each array has a count. */
struct input {
    char *source, *name, *cwd;
    char **header_bytes, **header_names, **expressions;
    char **options; /* with room for the worker's own behind the client's */
    struct view *passed;
    size_t n_passed;
};

static char *copy(struct view text)
{
    char *out = malloc(text.len + 1);
    if (out) {
        if (text.len)
            memcpy(out, text.data, text.len);
        out[text.len] = '\0';
    }
    return out;
}

/* Returns the number of arguments of an option that the worker decides; 0 for all others. */
static size_t is_ours(struct view option, const struct view *next)
{
    static const char *const prefixes[] = {"pch", "create-pch", "use-pch", "no-cache",
                                           "instantiate-templates-in-pch"};
    size_t dashes = view_begins(option, "--") ? 2 : view_begins(option, "-") ? 1 : 0;
    struct view word = {(const char *)option.data + dashes, option.len - dashes};
    for (size_t i = 0; dashes && i < sizeof prefixes / sizeof *prefixes; i++) {
        if (!view_begins(word, prefixes[i]))
            continue;
        bool takes_file = view_begins(word, "pch-dir") || view_begins(word, "create-pch") ||
                          view_begins(word, "use-pch");
        bool apart = takes_file && !memchr(word.data, '=', word.len) && next;
        return apart ? 2 : 1;
    }
    return 0;
}

static bool take_options(struct input *in, const struct job *job)
{
    in->passed = calloc(job->n_options + 1, sizeof *in->passed);
    in->options = calloc(job->n_options + OWN_OPTIONS + 1, sizeof *in->options);
    if (!in->passed || !in->options)
        return false;
    for (size_t i = 0; i < job->n_options;) {
        bool last = i + 1 == job->n_options;
        size_t skip = is_ours(job->options[i], last ? NULL : &job->options[i + 1]);
        if (skip) {
            i += skip;
            continue;
        }
        in->passed[in->n_passed] = job->options[i++];
        in->options[in->n_passed] = copy(in->passed[in->n_passed]);
        if (!in->options[in->n_passed++])
            return false;
    }
    return true;
}

static char **copy_list(const struct view *first, size_t stride, size_t n)
{
    char **list = calloc(n + 1, sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = copy(*(const struct view *)(const void *)((const char *)first + i * stride));
    return list;
}

static bool list_is_whole(char *const *list, size_t n)
{
    if (!list)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!list[i])
            return false;
    return true;
}

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

static bool input_take(struct input *in, const struct job *job)
{
    *in =
        (struct input){.source = copy(job->source), .name = copy(job->name), .cwd = copy(job->cwd)};
    const struct job_header *h = job->headers;
    in->header_names = copy_list(h ? &h->name : NULL, sizeof *h, job->n_headers);
    in->header_bytes = copy_list(h ? &h->bytes : NULL, sizeof *h, job->n_headers);
    in->expressions = copy_list(job->expressions, sizeof *job->expressions, job->n_expressions);
    return in->source && in->name && in->cwd && list_is_whole(in->header_names, job->n_headers) &&
           list_is_whole(in->header_bytes, job->n_headers) &&
           list_is_whole(in->expressions, job->n_expressions) && take_options(in, job);
}

static void input_close(struct input *in)
{
    free(in->source);
    free(in->name);
    free(in->cwd);
    free(in->passed);
    free_list(in->header_bytes);
    free_list(in->header_names);
    free_list(in->expressions);
    free_list(in->options);
}

/* Refuses a NUL: NVRTC takes C strings, and the source would end there. */
static int check_nul(struct view text, const char *what, struct err *e)
{
    const char *nul = text.len ? memchr(text.data, '\0', text.len) : NULL;
    if (!nul)
        return 0;
    unsigned line = 1;
    for (const char *p = text.data; p < nul; p++)
        line += *p == '\n';
    int code = err_set(e, WARM_EINVALID, "%s has a NUL byte in line %u", what, line);
    e->line = line;
    return code;
}

static int check_job(const struct job *job, struct err *e)
{
    if (job->language != JOB_CUDA)
        return err_set(e, WARM_EUNSUPPORTED, "this compiler takes CUDA C++ only");
    int code = check_nul(job->source, "the source", e);
    for (size_t i = 0; i < job->n_headers && !code; i++)
        code = check_nul(job->headers[i].bytes, "a header", e);
    return code;
}

/* ---- compiling ---- */

/* One run of NVRTC over the source. */
struct run {
    nvrtc_program program;
    int status;
    const char *compiler; /* its name in the result */
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Compiles once; `hide`: the files that every compile looks for are absent (files_hide). */
static void compile_once(const struct nvrtc *n, struct input *in, const struct job *job, bool hide,
                         struct run *a)
{
    static char no_cache[] = "--no-cache";
    size_t n_options = in->n_passed;
    if (n->major * 100 + n->minor >= 1209)
        in->options[n_options++] = no_cache; /* the driver's cache: the daemon has its own */
    *a = (struct run){.compiler = a->compiler};
    files_hide(hide);
    a->status = n->CreateProgram(&a->program, in->source, in->name, (int)job->n_headers,
                                 (const char *const *)in->header_bytes,
                                 (const char *const *)in->header_names);
    for (size_t i = 0; i < job->n_expressions && !a->status; i++)
        a->status = n->AddNameExpression(a->program, in->expressions[i]);
    if (!a->status)
        a->status = n->CompileProgram(a->program, (int)n_options, (const char *const *)in->options);
    for (size_t i = in->n_passed; i < n_options; i++)
        in->options[i] = NULL; /* the worker's own must not be freed */
}

/* True for -G and -lineinfo. */
static bool asks_for_lines(const struct input *in)
{
    static const char *const debug[] = {"-G",        "--device-debug",       "-device-debug",
                                        "-lineinfo", "--generate-line-info", "-generate-line-info"};
    bool asks = false;
    for (size_t i = 0; i < in->n_passed; i++)
        for (size_t k = 0; k < sizeof debug / sizeof *debug; k++)
            asks |= view_begins(in->passed[i], debug[k]);
    return asks;
}

static void compile(const struct nvrtc *n, struct input *in, const struct job *job, struct run *a)
{
    compile_once(n, in, job, !asks_for_lines(in), a);
    if (!files_hidden_met())
        return;
    n->DestroyProgram(&a->program);
    compile_once(n, in, job, false, a);
}

/* ---- whether the result may be kept ---- */

/* True if options, source and the headers that came along allow a shared key. */
static bool has_shared_key(const struct job *job)
{
    struct key graph;
    struct proof proof;
    return job_shared_key(job, 0, &graph, &proof, NULL) == 0; /* only whether there is one */
}

/* True if a path is beneath a folder that an option names absolutely: so it is in every job with
 * these options, whatever the program's name and the working folder. */
static bool is_in_fixed_place(const struct options *options, const char *path)
{
    for (size_t i = 0; i < options->n_include_dirs; i++) {
        struct view dir = options->include_dirs[i];
        const char *text = dir.data;
        bool ends = dir.len && text[dir.len - 1] == '/';
        if (dir.len && *text == '/' && strncmp(path, text, dir.len) == 0 &&
            (ends || path[dir.len] == '/'))
            return true;
    }
    return false;
}

/* True if some text may show where a file lies; `anywhere`: texts in fixed places count, too.
 * Options are texts: of -DX=PLACE, and of paths that look like it. */
static bool shows_place(struct cuda_reach *r, const struct job *job, const struct options *options,
                        bool anywhere)
{
    bool shows = cuda_reach_shows_place(r, job->source.data, job->source.len);
    for (size_t i = 0; !shows && i < job->n_options; i++)
        shows = cuda_reach_shows_place(r, job->options[i].data, job->options[i].len);
    for (size_t i = 0; !shows && i < files_count(); i++) {
        const struct file *file = files_at(i);
        if (!file->absent && (anywhere || !is_in_fixed_place(options, file->path)))
            shows = cuda_reach_shows_place(r, file->bytes.data, file->bytes.len);
    }
    return shows;
}

/* Headers may use __FILE__ or __LINE__, as those of CUDA's libraries do. True if neither the
 * program's name and folder nor its line breaks can show all the same. *out_movable: nor the -I
 * folders. */
static bool hides_place(const struct job *job, const struct cuda_scan *scan, bool *out_movable)
{
    struct options options;
    struct cuda_reach *r = cuda_reach_new();
    if (!r || scan->opaque || cuda_scan_uses_clock(scan) ||
        options_parse(OPTIONS_NVRTC, 0, job->options, job->n_options, &options, NULL)) {
        cuda_reach_free(r);
        return false;
    }
    cuda_reach_add(r, job->source.data, job->source.len);
    for (size_t i = 0; i < job->n_headers; i++)
        cuda_reach_add(r, job->headers[i].bytes.data, job->headers[i].bytes.len);
    for (size_t i = 0; i < files_count(); i++)
        cuda_reach_add(r, files_at(i)->bytes.data, files_at(i)->bytes.len);
    bool hides = !shows_place(r, job, &options, false);
    *out_movable = hides && !shows_place(r, job, &options, true);
    options_close(&options);
    cuda_reach_free(r);
    return hides;
}

static bool some_text_has(const struct job *job, const char *what, size_t len)
{
    bool has = job->source.len && memmem(job->source.data, job->source.len, what, len);
    for (size_t i = 0; i < job->n_options && !has; i++) {
        struct view option = job->options[i];
        bool defines = view_begins(option, "-D") || view_begins(option, "--define-macro");
        has = defines && memmem(option.data, option.len, what, len);
    }
    for (size_t i = 0; i < job->n_headers && !has; i++) {
        struct view bytes = job->headers[i].bytes;
        has = bytes.len && memmem(bytes.data, bytes.len, what, len);
    }
    for (size_t i = 0; i < files_count() && !has; i++) {
        struct view bytes = files_at(i)->bytes;
        has = bytes.len && memmem(bytes.data, bytes.len, what, len);
    }
    return has;
}

/* True if `what` stands in a text of the job: a header's name, a relative name of the program,
 * or an option that is no absolute -I. */
static bool some_word_has(const struct job *job, struct view what)
{
    bool has = job->name.len && *(const char *)job->name.data != '/' &&
               memmem(job->name.data, job->name.len, what.data, what.len);
    for (size_t i = 0; i < job->n_headers && !has; i++)
        has = memmem(job->headers[i].name.data, job->headers[i].name.len, what.data, what.len);
    for (size_t i = 0; i < job->n_options && !has; i++) {
        struct view option = job->options[i];
        bool place = view_begins(option, "-I/") || view_begins(option, "--include-path=/") ||
                     (view_begins(option, "/") && i);
        has = !place && memmem(option.data, option.len, what.data, what.len);
    }
    return has;
}

/* True if some text may have `#pragma once` or `#import`: it has the words, or may put them
 * together for a _Pragma. */
static bool has_once(const struct job *job, const struct cuda_scan *scan)
{
    return scan->opaque || some_text_has(job, "once", 4) || some_text_has(job, "import", 6) ||
           (scan->pastes && some_text_has(job, "ragma", 5));
}

/* Returns the first component of a path, without the '/' before and behind it. */
static struct view first_component(const char *path)
{
    while (*path == '/')
        path++;
    return (struct view){path, strcspn(path, "/")};
}

/* True if some text may begin an absolute path as the folder's view_begins. It looks for the first
 * component alone: between the others a text may have more '/' than the compiler asks for. */
static bool names_folder(const struct job *job, struct view folder)
{
    char text[JOB_TEXT_MAX + 3], path[JOB_TEXT_MAX + 1];
    snprintf(path, sizeof path, "%.*s", (int)folder.len, (const char *)folder.data);
    struct view first = first_component(path);
    if (!first.len) /* the root: every absolute path is beneath it */
        return some_text_has(job, "\"/", 2) || some_text_has(job, "</", 2);
    int n = snprintf(text, sizeof text, "/%.*s/", (int)first.len, (const char *)first.data);
    return some_text_has(job, text, (size_t)n);
}

static bool names_places(const struct job *job, const struct cuda_scan *scan)
{
    const char *slash = job->name.len ? memrchr(job->name.data, '/', job->name.len) : NULL;
    size_t len = slash ? (size_t)(slash - (const char *)job->name.data) : 0;
    bool absolute = job->name.len && *(const char *)job->name.data == '/';
    return scan->opaque || scan->includes_macro || names_folder(job, job->cwd) ||
           (absolute && names_folder(job, (struct view){job->name.data, len}));
}

#define FOLDER_SIZE (2u * JOB_TEXT_MAX + 3u)

/* Writes a folder's text with a '/' at its end and one for several in a row; beneath `above` if it
 * is relative. */
static void folder_text(char out[FOLDER_SIZE], struct view above, struct view folder)
{
    char whole[FOLDER_SIZE], *to = out;
    bool absolute = folder.len && *(const char *)folder.data == '/';
    snprintf(whole, sizeof whole, "%.*s/%.*s/", absolute ? 0 : (int)above.len,
             (const char *)above.data, (int)folder.len, (const char *)folder.data);
    for (const char *from = whole; *from; from++)
        if (*from != '/' || to == out || to[-1] != '/')
            *to++ = *from;
    *to = '\0';
}

/* True if a path beneath an absolute -I folder may have been found from the folder `base` as well.
 * If the -I folder is beneath `base`, a text or an option then view_begins with the -I folder's first
 * component below it. */
static bool leads_inside(const struct job *job, const struct options *options, const char *base)
{
    for (size_t i = 0; i < options->n_include_dirs; i++) {
        char place[FOLDER_SIZE], text[FOLDER_SIZE];
        struct view dir = options->include_dirs[i];
        if (!dir.len || *(const char *)dir.data != '/')
            continue;
        folder_text(place, job->cwd, dir);
        if (text_begins(base, place))
            return true;
        if (!text_begins(place, base))
            continue;
        struct view first = first_component(place + strlen(base));
        int n = snprintf(text, sizeof text, "%.*s/", (int)first.len, (const char *)first.data);
        if (some_text_has(job, text, (size_t)n) || some_word_has(job, first))
            return true;
    }
    return false;
}

/* True if that holds for the working folder or the program's folder. */
static bool names_inner(const struct job *job, const struct cuda_scan *scan)
{
    char base[FOLDER_SIZE];
    struct options options;
    if (scan->opaque || scan->unclear || scan->includes_computed ||
        options_parse(OPTIONS_NVRTC, 0, job->options, job->n_options, &options, NULL))
        return true;
    folder_text(base, job->cwd, job->cwd);
    bool inner = leads_inside(job, &options, base);
    const char *slash = job->name.len ? memrchr(job->name.data, '/', job->name.len) : NULL;
    if (slash && !inner) {
        size_t len = (size_t)(slash - (const char *)job->name.data);
        folder_text(base, job->cwd,
                    len ? (struct view){job->name.data, len} : (struct view){"/", 1});
        inner = leads_inside(job, &options, base);
    }
    options_close(&options);
    return inner;
}

/* True if line tables hold the time at which each file was modified, as before 13.5: the same bytes
 * then have another result after a `touch`. */
static bool shows_file_times(const struct nvrtc *n, const struct input *in)
{
    bool any = false;
    for (size_t i = 0; i < files_count(); i++)
        any |= !files_at(i)->absent;
    return any && n->major * 100 + n->minor < 1305 && asks_for_lines(in);
}

static bool may_keep(const struct nvrtc *n, const struct input *in, const struct cuda_scan *scan,
                     const struct run *a, struct view log)
{
    bool had_no_memory = log.len && memmem(log.data, log.len, "out of memory", 13);
    return (a->status == NVRTC_SUCCESS || a->status == NVRTC_INVALID_OPTION ||
            a->status == NVRTC_COMPILATION) &&
           !had_no_memory && !files_refused() && !shows_file_times(n, in) &&
           !cuda_scan_uses_clock(scan);
}

/* ---- the result ---- */

/* Writes everything that the program handle would tell. */
static bool pack_bundle(const struct nvrtc *n, const struct run *a, const struct input *in,
                        const struct job *job, struct writer *w, struct compile_result *out)
{
    struct bundle_section s[8];
    size_t count = 0;
    uint32_t *status = malloc(sizeof *status);
    if (!status)
        return false;
    *status = htole32((uint32_t)a->status);
    s[count++] = (struct bundle_section){BUNDLE_STATUS, {status, sizeof *status}};
    nvrtc_program p = a->program;
    char *compiler = strdup(a->compiler);
    bool ok = compiler != NULL;
    if (ok)
        s[count++] = (struct bundle_section){BUNDLE_COMPILER, {compiler, strlen(compiler)}};
    ok = ok &&
         nvrtc_take_output(p, n->GetProgramLogSize, n->GetProgramLog, BUNDLE_LOG, true, s, &count);
    struct view log = bundle_find(s, count, BUNDLE_LOG);
    struct cuda_scan scan = {0};
    cuda_scan(job->source.data, job->source.len, &scan);
    for (size_t i = 0; i < job->n_options; i++)
        cuda_scan(job->options[i].data, job->options[i].len, &scan);
    for (size_t i = 0; i < job->n_headers; i++)
        cuda_scan(job->headers[i].bytes.data, job->headers[i].bytes.len, &scan);
    for (size_t i = 0; i < files_count(); i++)
        cuda_scan(files_at(i)->bytes.data, files_at(i)->bytes.len, &scan);
    out->keep = may_keep(n, in, &scan, a, log);
    out->movable = cuda_scan_allows_canonical(&scan);
    out->shareable = out->keep && a->status == NVRTC_SUCCESS && !log.len && has_shared_key(job) &&
                     (out->movable || hides_place(job, &scan, &out->movable));
    out->names_places = files_count() && names_places(job, &scan);
    out->has_once = files_count() && has_once(job, &scan);
    out->names_inner = files_count() && names_inner(job, &scan);
    if (a->status == NVRTC_SUCCESS || a->status == NVRTC_COMPILATION) /* PTX that ptxas refused */
        ok = ok && NVRTC_TAKE_BINARIES(n, p, s, &count);
    if (a->status == NVRTC_SUCCESS)
        ok = ok && nvrtc_take_lowered(p, n->GetLoweredName, in->expressions, job->n_expressions, s,
                                      &count);
    if (ok)
        bundle_write(w, s, count);
    nvrtc_sections_free(s, count);
    return ok && !w->failed;
}

static bool pack_paths(struct writer *w)
{
    struct names seen = {0};
    struct inode *ids = calloc(files_count() + 1, sizeof *ids);
    bool ok = ids;
    for (uint32_t i = 0; ok && i < files_count(); i++) {
        const struct file *file = files_at(i);
        uint32_t same = i;
        if (!file->absent)
            ok &= inodes_first(&seen, &ids[i], &file->st, i, &same);
        writer_text(w, file->path);
        writer_u8(w, !file->absent);
        writer_bytes(w, &file->sha256, sizeof file->sha256);
        writer_u32(w, same);
        /* digests of the lines, so that a miss can name the changed line */
        struct line_digests lines;
        struct writer bytes;
        writer_init(&bytes, 0);
        if (!file->absent && line_digests_of(file->bytes, &lines))
            line_digests_write(&lines, &bytes);
        writer_blob(w, bytes.data, bytes.failed ? 0 : bytes.len);
        writer_close(&bytes);
    }
    names_close(&seen);
    free(ids);
    return ok && !w->failed;
}

static int pack(const struct nvrtc *n, const struct run *a, const struct input *in,
                const struct job *job, struct compile_result *out, struct err *e)
{
    struct writer bundle, paths;
    writer_init(&bundle, 0);
    writer_init(&paths, 0);
    int code = WARM_ENOMEM;
    if (!a->program || !pack_bundle(n, a, in, job, &bundle, out) || !pack_paths(&paths))
        goto out;
    code = WARM_EIO;
    out->bundle_fd = memfd_sealed("warm-result", bundle.data, bundle.len, NULL);
    out->paths_fd =
        out->bundle_fd < 0 ? -1 : memfd_sealed("warm-result", paths.data, paths.len, NULL);
    if (out->paths_fd < 0) {
        if (out->bundle_fd >= 0)
            close(out->bundle_fd);
        goto out;
    }
    out->bundle_len = bundle.len;
    out->paths_len = paths.len;
    out->n_paths = (uint32_t)files_count();
    out->nvrtc_status = a->status;
    code = 0;
out:
    writer_close(&bundle);
    writer_close(&paths);
    if (code)
        err_set(e, code, "no room for the compiler's result");
    return code;
}

static int compile_decoded(const struct nvrtc *n, const struct job *job, const char *compiler,
                           int channel, struct compile_result *out, struct err *e)
{
    int code = check_job(job, e);
    if (code)
        return code;
    struct input in;
    struct run a = {.compiler = compiler};
    if (!input_take(&in, job)) {
        input_close(&in);
        return err_set(e, WARM_ENOMEM, "no memory for the source");
    }
    uint64_t begun = now_ms();
    files_begin(channel, in.cwd, in.name);
    compile(n, &in, job, &a);
    code = files_status(e);
    if (!code)
        code = pack(n, &a, &in, job, out, e);
    out->ms = (uint32_t)(now_ms() - begun);
    if (a.program)
        n->DestroyProgram(&a.program);
    files_end();
    input_close(&in);
    return code;
}

int compile_job(const struct nvrtc *nvrtc, struct view encoded, const char *compiler, int channel,
                struct compile_result *out, struct err *e)
{
    struct job job;
    int code = job_decode(encoded.data, encoded.len, &job, e);
    if (code)
        return code;
    code = compile_decoded(nvrtc, &job, compiler, channel, out, e);
    job_close(&job);
    return code;
}

/* ---- warming up ---- */

void compile_warm_up(const struct nvrtc *n)
{
    static const char source[] = "extern \"C\" __global__ void warm_up(float *x, float a)\n"
                                 "{ x[threadIdx.x] = a * x[threadIdx.x] + 1.0f; }\n";
    int archs[WORKER_ARCHS_MAX], n_archs = 0;
    char arch[32];
    const char *options[] = {arch, "--no-cache"};
    nvrtc_program program = NULL;
    if (n->GetNumSupportedArchs(&n_archs) || n_archs < 1 || n_archs > (int)WORKER_ARCHS_MAX ||
        n->GetSupportedArchs(archs))
        return;
    snprintf(arch, sizeof arch, "-arch=sm_%d", archs[n_archs / 2]);
    files_begin(-1, "/", "warm_up.cu");
    files_hide(true);
    if (n->CreateProgram(&program, source, "warm_up.cu", 0, NULL, NULL) == NVRTC_SUCCESS)
        n->CompileProgram(program, n->major * 100 + n->minor >= 1209 ? 2 : 1, options);
    if (program)
        n->DestroyProgram(&program);
    files_end();
}

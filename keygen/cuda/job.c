/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c - encodes and decodes a compile job and computes its keys; job.h has the layout.
 *
 * Both sides compute the key: the client for its question, the daemon from the job that it received. So
 * a result under a key was made from exactly the bytes that the key names.
 *
 * Thread: any; no state.
 */
#include "keygen/cuda/job.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/canon.h"
#include "keygen/cuda/cuda.h"
#include "keygen/cuda/options.h"
#include "keygen/domains.h"
#include "keygen/expect.h"

static const char magic[4] = {'W', 'J', 'O', 'B'};

/* ---- bytes ---- */

static void put_texts(struct writer *out, const struct view *texts, size_t n)
{
    out->failed |= !WARM_EXPECT(n <= UINT32_MAX && (texts || !n));
    writer_u32(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        writer_blob(out, texts[i].data, texts[i].len);
}

void job_encode(const struct job *job, struct writer *out)
{
    writer_bytes(out, magic, sizeof magic);
    writer_u16(out, JOB_VERSION);
    writer_u16(out, (uint16_t)job->language);
    writer_blob(out, job->name.data, job->name.len);
    writer_blob(out, job->cwd.data, job->cwd.len);
    writer_blob(out, job->source.data, job->source.len);
    put_texts(out, job->options, job->n_options);
    writer_u32(out, (uint32_t)job->n_headers);
    for (size_t i = 0; i < job->n_headers; i++) {
        writer_blob(out, job->headers[i].name.data, job->headers[i].name.len);
        writer_blob(out, job->headers[i].bytes.data, job->headers[i].bytes.len);
    }
    put_texts(out, job->expressions, job->n_expressions);
}

/* A job while it is decoded, with its first wrong field. */
struct parse {
    struct reader r;
    const char *field; /* NULL so far */
    int code;
};

static void parse_fail(struct parse *p, const char *field, int code)
{
    if (!p->field) {
        p->field = field;
        p->code = code;
    }
    p->r.failed = true;
}

static struct view take_blob(struct parse *p, const char *field, size_t max_len)
{
    uint32_t len = reader_u32(&p->r);
    if (!p->r.failed && len > max_len)
        parse_fail(p, field, WARM_ETOO_BIG);
    struct view v = reader_bytes(&p->r, len);
    if (p->r.failed)
        parse_fail(p, field, WARM_ETRUNCATED);
    return v;
}

static struct view take_text(struct parse *p, const char *field)
{
    struct view v = take_blob(p, field, JOB_TEXT_MAX);
    if (v.len && memchr(v.data, '\0', v.len))
        parse_fail(p, field, WARM_EMALFORMED);
    return v;
}

/* Reads a count and returns zeroed room for that many items. Each item takes at least `item_bytes` of the
 * remaining bytes, so a count that the job cannot hold never allocates. */
static void *take_list(struct parse *p, const char *field, size_t item_bytes, size_t item_size,
                       size_t *out_n)
{
    uint32_t n = reader_u32(&p->r);
    if (p->r.failed || n > p->r.len / item_bytes)
        parse_fail(p, field, WARM_ETRUNCATED);
    else if (n > JOB_LIST_MAX)
        parse_fail(p, field, WARM_ETOO_BIG);
    if (p->r.failed || n == 0)
        return NULL;
    void *items = calloc(n, item_size);
    if (!items)
        parse_fail(p, field, WARM_ENOMEM);
    else
        *out_n = n;
    return items;
}

static struct view *take_texts(struct parse *p, const char *field, size_t *out_n)
{
    struct view *texts = take_list(p, field, 4, sizeof *texts, out_n);
    for (size_t i = 0; i < *out_n; i++)
        texts[i] = take_text(p, field);
    return texts;
}

static int parse_end(struct parse *p, struct err *e)
{
    if (!p->field && p->r.len)
        return err_set(e, WARM_EMALFORMED, "job: %zu bytes after its last field", p->r.len);
    if (!p->field)
        return 0;
    return err_set(e, p->code, "job: %s %s", p->field,
                   p->code == WARM_ETRUNCATED   ? "is cut short"
                   : p->code == WARM_ETOO_BIG   ? "is above its limit"
                   : p->code == WARM_EMALFORMED ? "holds a NUL"
                                                : "does not fit into memory");
}

int job_decode(const void *data, size_t len, struct job *out, struct err *e)
{
    struct parse p = {.r = reader_over(data, len)};
    struct view found = reader_bytes(&p.r, sizeof magic);
    uint16_t version = reader_u16(&p.r), language = reader_u16(&p.r);
    if (p.r.failed)
        return err_set(e, WARM_ETRUNCATED, "job: the header is cut short");
    if (memcmp(found.data, magic, sizeof magic) != 0)
        return err_set(e, WARM_EMALFORMED, "not a compile job");
    if (version != JOB_VERSION)
        return err_set(e, WARM_EVERSION, "job of version %u; this program reads %u", version,
                       JOB_VERSION);
    if (language != JOB_CUDA && language != JOB_PTX)
        return err_set(e, WARM_EMALFORMED, "job: no language has the number %u", language);
    struct job job = {.language = language};
    job.name = take_text(&p, "name");
    job.cwd = take_text(&p, "working folder");
    job.source = take_blob(&p, "source", JOB_SOURCE_MAX);
    job.options = take_texts(&p, "options", &job.n_options);
    job.headers = take_list(&p, "headers", 8, sizeof *job.headers, &job.n_headers);
    for (size_t i = 0; i < job.n_headers; i++) {
        job.headers[i].name = take_text(&p, "header name");
        job.headers[i].bytes = take_blob(&p, "header bytes", JOB_SOURCE_MAX);
    }
    job.expressions = take_texts(&p, "name expressions", &job.n_expressions);
    int code = parse_end(&p, e);
    if (code)
        job_close(&job);
    else
        *out = job;
    return code;
}

void job_close(struct job *job)
{
    free(job->options);
    free(job->headers);
    free(job->expressions);
    *job = (struct job){0};
}

/* ---- key ---- */

/* Numbers of the fields in the key: CUDA.md. */
enum job_tag {
    TAG_NAME = 1,
    TAG_SOURCE,
    TAG_OPTIONS,
    TAG_HEADERS, /* their number, then name and bytes of each */
    TAG_EXPRESSIONS,
    TAG_CWD,
};

/* Scans the source, the in-memory headers and the -D values. */
static struct cuda_scan scan_of(const struct job *job, const struct options *options)
{
    struct cuda_scan scan = options->defines;
    cuda_scan(job->source.data, job->source.len, &scan);
    for (size_t i = 0; i < job->n_headers; i++)
        cuda_scan(job->headers[i].bytes.data, job->headers[i].bytes.len, &scan);
    return scan;
}

/* Refuses a job whose source, in-memory headers or -D values may read the clock. (Headers on disk are not
 * known yet: the worker that compiles checks those.) */
static int check_clock(const struct job *job, const struct options *options, struct err *e)
{
    struct cuda_scan scan = scan_of(job, options);
    if (cuda_scan_uses_clock(&scan))
        return err_set(e, WARM_EREFUSED,
                       "the source may read the clock (__TIME__, __DATE__ or __TIMESTAMP__)");
    return 0;
}

static void add_view(struct key_builder *b, uint32_t tag, struct view v)
{
    key_add(b, tag, v.data, v.len);
}

/* Adds the fields that both keys have after name, source and options. */
static void add_rest(struct key_builder *b, const struct job *job)
{
    key_add_u64(b, TAG_HEADERS, job->n_headers);
    for (size_t i = 0; i < job->n_headers; i++) {
        add_view(b, TAG_HEADERS, job->headers[i].name);
        add_view(b, TAG_HEADERS, job->headers[i].bytes);
    }
    key_add_u64(b, TAG_EXPRESSIONS, job->n_expressions);
    for (size_t i = 0; i < job->n_expressions; i++)
        add_view(b, TAG_EXPRESSIONS, job->expressions[i]);
}

int job_key(const struct job *job, char out_hardware[WARM_HARDWARE_MAX], struct key *out_graph,
            struct proof *out_proof, struct err *e)
{
    if (!WARM_EXPECT(job && out_hardware && out_graph && out_proof &&
                     (job->source.data || !job->source.len)))
        return err_set(e, WARM_EINVALID, "no job");
    bool cuda = job->language == JOB_CUDA;
    struct options options;
    int code = options_parse(cuda ? OPTIONS_NVRTC : OPTIONS_PTXAS, 0, job->options, job->n_options,
                             &options, e);
    if (code)
        return code;
    if (cuda)
        code = check_clock(job, &options, e);
    if (!code) {
        struct key_builder b;
        key_begin(&b, cuda ? DOMAIN_CUDA_EXACT : DOMAIN_PTX_EXACT);
        add_view(&b, TAG_NAME, job->name);
        add_view(&b, TAG_SOURCE, job->source);
        options_add(&options, &b, TAG_OPTIONS);
        add_rest(&b, job);
        if (options.shows_cwd)
            add_view(&b, TAG_CWD, job->cwd);
        key_end(&b, out_graph, out_proof);
        (void)WARM_EXPECT(*options.hardware && memchr(options.hardware, '\0', WARM_HARDWARE_MAX));
        memcpy(out_hardware, options.hardware, WARM_HARDWARE_MAX);
    }
    options_close(&options);
    return code;
}

/* Returns the last component of the name: only symbols of internal linkage show the name, and they show no
 * more than this. */
static struct view name_base(struct view name)
{
    const char *slash = name.len ? memrchr(name.data, '/', name.len) : NULL;
    if (!slash)
        return name;
    const char *base = slash + 1, *end = (const char *)name.data + name.len;
    return (struct view){base, (size_t)(end - base)};
}

/* True if the job may have a shared key. A source with a NUL has none: there a compiler sees its end. */
static bool job_is_shareable(const struct job *job, const struct options *options)
{
    if (job->source.len && memchr(job->source.data, '\0', job->source.len))
        return false;
    struct cuda_scan scan = scan_of(job, options);
    return options->allows_canonical && cuda_scan_allows_canonical(&scan);
}

static int shared_key(const struct job *job, const struct options *options, struct key *out_graph,
                      struct proof *out_proof, struct err *e)
{
    struct canon_input input = {
        .data = job->source.data, .len = job->source.len, .kind = CANON_CUDA};
    struct canon_result source;
    if (!job_is_shareable(job, options))
        return err_set(e, WARM_EUNSUPPORTED, "lines, names or the text may show in the result");
    int code = canon_key(&input, &source, NULL, e);
    if (code)
        return code;
    struct key_builder b;
    key_begin(&b, DOMAIN_CUDA_SHARED);
    add_view(&b, TAG_NAME, name_base(job->name));
    key_add(&b, TAG_SOURCE, &source.proof, sizeof source.proof);
    options_add_shared(options, &b, TAG_OPTIONS);
    add_rest(&b, job);
    key_end(&b, out_graph, out_proof);
    return 0;
}

int job_shared_key(const struct job *job, unsigned version, struct key *out_graph,
                   struct proof *out_proof, struct err *e)
{
    if (!WARM_EXPECT(job && out_graph && out_proof))
        return err_set(e, WARM_EINVALID, "no job");
    struct options options;
    if (job->language != JOB_CUDA)
        return err_set(e, WARM_EUNSUPPORTED, "only CUDA C++ has a shared key");
    int code = options_parse(OPTIONS_NVRTC, version, job->options, job->n_options, &options, e);
    if (code)
        return code;
    code = shared_key(job, &options, out_graph, out_proof, e);
    options_close(&options);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* pch.c - remembers what was seen and which precompiled headers there are; see pch.h. Main thread.
 */
#include "daemon/worker/pch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/worker/files.h"
#include "keygen/key.h"

#define SEEN_MAX 64             /* kinds of compiles that are remembered */
#define WORTHWHILE (256u << 10) /* bytes of headers: below, a plain compile is as fast */
#define DIRTY_MAX 2             /* compiles that had to be done twice, then no more trying */
#define HEADER_FIRST 1u         /* scratch files from this on are precompiled headers */
#define HEADERS (FILES_SCRATCH - HEADER_FIRST)

static struct seen {
    struct key key;
    unsigned count, n_dirty;
    size_t header_bytes; /* of the last compile */
    uint64_t used;
} seen[SEEN_MAX];

static struct header {
    bool valid;
    struct key key;
    char *name_folder; /* where the program must lie, if its folder was searched; NULL: anywhere */
    struct header_path {
        char *path;
        bool absent;
        struct proof sha256;
    } * paths;
    size_t n_paths;
    uint64_t used;
} headers[HEADERS];

static uint64_t use_count;

/* ---- what makes two compiles the same ---- */

/* Skips one comment, blank or line end that may stand between directives. */
static const char *skip_blank(const char *p, const char *end)
{
    if (p < end && strchr(" \t\r\n\v\f", *p) && *p)
        return p + 1;
    if (end - p < 2 || *p != '/')
        return p;
    if (p[1] == '/') {
        while (p < end && *p != '\n')
            p += *p == '\\' && end - p > 1 ? 2 : 1;
        return p;
    }
    const char *close = p[1] == '*' ? memmem(p + 2, (size_t)(end - p - 2), "*/", 2) : NULL;
    return close ? close + 2 : p;
}

static const char *skip_directive(const char *p, const char *end)
{
    while (p < end && *p != '\n') {
        const char *after = *p == '/' ? skip_blank(p, end) : p;
        p = after > p ? after : p + (*p == '\\' && end - p > 1 ? 2 : 1);
    }
    return p;
}

/* The source up to its first token that belongs to no directive. The compiler's own idea of the
 * same place may lie before this one, never behind it. */
static struct view prefix_of(struct view source)
{
    const char *begin = source.data, *end = begin + source.len, *p = begin;
    while (p < end) {
        const char *next = *p == '#' ? skip_directive(p, end) : skip_blank(p, end);
        if (next == p)
            break;
        p = next;
    }
    return (struct view){begin, (size_t)(p - begin)};
}

static struct key key_of(const struct job *job, struct view prefix, const struct view *options,
                         size_t n_options)
{
    struct key_builder b;
    key_begin(&b, "pch/1");
    key_add(&b, 1, job->cwd.data, job->cwd.len);
    key_add(&b, 2, prefix.data, prefix.len);
    for (size_t i = 0; i < n_options; i++)
        key_add(&b, 3, options[i].data, options[i].len);
    for (size_t i = 0; i < job->n_headers; i++) {
        key_add(&b, 4, job->headers[i].name.data, job->headers[i].name.len);
        key_add(&b, 5, job->headers[i].bytes.data, job->headers[i].bytes.len);
    }
    struct key key;
    struct proof proof;
    key_end(&b, &key, &proof);
    return key;
}

/* The entry for a key, in the place of the one least recently used if it is new. */
static struct seen *see(const struct key *key)
{
    struct seen *oldest = seen;
    for (struct seen *s = seen; s < seen + SEEN_MAX; s++) {
        if (s->count && key_equal(&s->key, key))
            return s;
        if (s->used < oldest->used)
            oldest = s;
    }
    *oldest = (struct seen){.key = *key};
    return oldest;
}

/* ---- one precompiled header ---- */

static void header_forget(struct header *h)
{
    for (size_t i = 0; i < h->n_paths; i++)
        free(h->paths[i].path);
    free(h->paths);
    free(h->name_folder);
    files_discard(HEADER_FIRST + (unsigned)(h - headers));
    *h = (struct header){0};
}

static bool header_still_holds(const struct header *h)
{
    for (size_t i = 0; i < h->n_paths; i++) {
        const struct file *now = files_ask(h->paths[i].path);
        if (!now || now->absent != h->paths[i].absent ||
            (!now->absent && memcmp(&now->sha256, &h->paths[i].sha256, sizeof now->sha256) != 0))
            return false;
    }
    return true;
}

/* The folder of the program's name as it was given, and as an absolute path. */
static void name_folder(const struct job *job, char *out, size_t cap)
{
    const char *name = job->name.data;
    const char *slash = memrchr(name, '/', job->name.len);
    size_t len = slash ? (size_t)(slash - name) + 1 : 0, at = 0;
    if (!len || *name != '/') {
        at = job->cwd.len < cap - 2 ? job->cwd.len : cap - 2;
        memcpy(out, job->cwd.data, at);
        out[at++] = '/';
    }
    if (len > cap - 1 - at)
        len = cap - 1 - at;
    memcpy(out + at, name, len);
    out[at + len] = '\0';
}

/* Paths about the program itself, which the compiler asks for whatever its source says. */
static bool is_about_program(const char *path, const char *folder, const struct job *job)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *name = memrchr(job->name.data, '/', job->name.len);
    size_t skipped = name ? (size_t)(name + 1 - (const char *)job->name.data) : 0;
    const char *program = (const char *)job->name.data + skipped;
    bool in_folder = *path != '/' || (size_t)(base - path) == strlen(folder);
    return in_folder && (strncmp(base, "__nv_", 5) == 0 ||
                         (strlen(base) == job->name.len - skipped &&
                          memcmp(base, program, job->name.len - skipped) == 0));
}

static bool header_add_path(struct header *h, const struct file *file)
{
    struct header_path *p = &h->paths[h->n_paths];
    *p = (struct header_path){strdup(file->path), file->absent, file->sha256};
    if (!p->path)
        return false;
    h->n_paths++;
    return true;
}

/* Takes over what the compiler has just written, with the paths it had asked for until then. */
static void header_adopt(struct header *h, const struct key *key, const struct job *job)
{
    char folder[2 * JOB_TEXT_MAX];
    name_folder(job, folder, sizeof folder);
    size_t n = files_written_at(HEADER_FIRST + (unsigned)(h - headers));
    *h = (struct header){.key = *key, .used = ++use_count};
    h->paths = calloc(n ? n : 1, sizeof *h->paths);
    bool ok = h->paths != NULL;
    for (size_t i = 0; i < n && ok; i++) {
        const struct file *file = files_at(i);
        if (is_about_program(file->path, folder, job))
            continue;
        bool searched = *file->path != '/' || strncmp(file->path, folder, strlen(folder)) == 0;
        if (searched && !h->name_folder)
            ok = (h->name_folder = strdup(folder)) != NULL;
        ok = ok && header_add_path(h, file);
    }
    h->valid = true;
    if (!ok)
        header_forget(h);
}

static struct header *header_find(const struct key *key, const struct job *job)
{
    char folder[2 * JOB_TEXT_MAX];
    name_folder(job, folder, sizeof folder);
    for (struct header *h = headers; h < headers + HEADERS; h++)
        if (h->valid && key_equal(&h->key, key) &&
            (!h->name_folder || strcmp(h->name_folder, folder) == 0))
            return h;
    return NULL;
}

/* An empty place for a new one: the least recently used goes. */
static struct header *header_room(void)
{
    struct header *oldest = headers;
    for (struct header *h = headers; h < headers + HEADERS; h++)
        if (h->used < oldest->used)
            oldest = h;
    header_forget(oldest);
    return oldest;
}

/* ---- one compile ---- */

struct pch_plan pch_plan(const struct job *job, const struct view *options, size_t n_options)
{
    struct pch_plan plan = {.mode = PCH_NONE, .seen = SEEN_MAX};
    struct view prefix = prefix_of(job->source);
    if (!prefix.len || !memmem(prefix.data, prefix.len, "include", 7))
        return plan;
    struct key key = key_of(job, prefix, options, n_options);
    struct seen *s = see(&key);
    s->used = ++use_count;
    s->count++;
    plan.seen = (size_t)(s - seen);
    if (s->count < 2 || s->header_bytes < WORTHWHILE || s->n_dirty >= DIRTY_MAX)
        return plan;
    struct header *h = header_find(&key, job);
    plan.mode = PCH_USE;
    if (!h || !header_still_holds(h)) {
        if (h)
            header_forget(h);
        h = header_room();
        plan.mode = PCH_CREATE;
    }
    h->used = ++use_count;
    plan.scratch = HEADER_FIRST + (unsigned)(h - headers);
    files_offer(plan.scratch, plan.mode == PCH_USE ? FILES_READ : FILES_WRITE);
    return plan;
}

void pch_done(const struct pch_plan *plan, const struct job *job, bool clean)
{
    if (plan->seen == SEEN_MAX)
        return;
    struct seen *s = &seen[plan->seen];
    s->header_bytes = files_bytes();
    if (plan->mode == PCH_NONE)
        return;
    s->n_dirty += !clean;
    struct header *h = &headers[plan->scratch - HEADER_FIRST];
    files_offer(plan->scratch, FILES_HIDDEN);
    if (plan->mode == PCH_CREATE && clean && files_written_at(plan->scratch) != SIZE_MAX)
        header_adopt(h, &s->key, job);
    else if (plan->mode == PCH_CREATE)
        header_forget(h);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_paths.c - finds the folders that a compiler's path may stem from, and writes the forms of the
 * path that a manifest has.
 *
 * build_store.c writes forms; the wires and bookkeeping.c turn a form back into the client's path.
 *
 * Thread: any; no state of its own.
 */
#include "daemon/headers/manifest_paths.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire/wire.h"
#include "keygen/cuda/options.h"
#include "keygen/domains.h"

#define PATH_SIZE (2 * WIRE_PATH_MAX + 2)

enum { PLACES_COUNT = 1, PLACES_TEXT = 2 };

/* ---- bases ---- */

struct bases *bases_new(struct view folder, const struct view *places, size_t n_places)
{
    size_t len = folder.len;
    for (size_t i = 0; i < n_places; i++)
        len += places[i].len;
    struct bases *b = calloc(1, sizeof *b + n_places * sizeof *places + len);
    if (!b)
        return NULL;
    struct key_builder key;
    struct key unused;
    *b = (struct bases){.refs = 1, .n_places = (uint32_t)n_places, .places = (void *)(b + 1)};
    char *text = (char *)(b->places + n_places);
    key_begin(&key, DOMAIN_INCLUDE_FOLDERS);
    key_add_u64(&key, PLACES_COUNT, n_places);
    for (size_t i = 0; i < n_places; i++) {
        memcpy(text, places[i].data, places[i].len);
        b->places[i] = (struct view){text, places[i].len};
        key_add(&key, PLACES_TEXT, places[i].data, places[i].len);
        text += places[i].len;
    }
    key_end(&key, &unused, &b->places_proof);
    if (folder.len)
        memcpy(text, folder.data, folder.len);
    b->folder = (struct view){text, folder.len};
    return b;
}

struct bases *bases_ref(struct bases *b)
{
    assert(!b || b->refs);
    if (b)
        b->refs++;
    return b;
}

void bases_unref(struct bases *b)
{
    assert(!b || b->refs);
    if (b && --b->refs == 0)
        free(b);
}

/* Finds the folder of a path that begins with "\2n/", and takes that mark from *path. False if
 * there is none. */
static bool take_place(const struct bases *b, struct view *path, struct view *out)
{
    const char *at = (const char *)path->data + 1, *end = at + path->len - 1;
    uint32_t n = 0;
    while (at < end && *at >= '0' && *at <= '9' && n < MANIFEST_PATHS_PLACES_MAX)
        n = n * 10 + (uint32_t)(*at++ - '0');
    bool digits = at > (const char *)path->data + 1;
    if (!b || !digits || at == end || *at != '/' || n >= b->n_places)
        return false;
    *path = (struct view){at + 1, (size_t)(end - at - 1)};
    *out = b->places[n];
    return true;
}

bool bases_find(const struct bases *b, struct view path, struct view *out_folder,
                struct view *out_rest)
{
    char mark = path.len ? *(const char *)path.data : '\0';
    *out_folder = (struct view){"", 0};
    if (mark == MANIFEST_PATHS_IN_FOLDER) {
        *out_folder = b ? b->folder : *out_folder;
        path = (struct view){(const char *)path.data + 1, path.len - 1};
    }
    bool known = mark != MANIFEST_PATHS_IN_PLACE || take_place(b, &path, out_folder);
    *out_rest = path;
    return known;
}

size_t bases_path(const struct bases *b, struct view path, char *out, size_t cap)
{
    struct view folder, rest;
    bases_find(b, path, &folder, &rest);
    int n = snprintf(out, cap, "%.*s%.*s", (int)folder.len, (const char *)folder.data,
                     (int)rest.len, (const char *)rest.data);
    return (size_t)n < cap ? (size_t)n : cap - 1;
}

/* ---- folders of a job ---- */

/* Replaces several '/' in a row by one, in place. */
static void join_slashes(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '/' || to == text || to[-1] != '/')
            *to++ = *from;
    *to = '\0';
}

/* Copies a folder's text with one '/' at its end; NULL: no memory. */
static char *as_folder(struct view text)
{
    char *out = malloc(text.len + 2);
    if (!out)
        return NULL;
    if (text.len)
        memcpy(out, text.data, text.len);
    strcpy(out + text.len, "/");
    join_slashes(out);
    return out;
}

static char *folder_of_name(struct view name)
{
    const char *slash = name.len ? memrchr(name.data, '/', name.len) : NULL;
    if (!slash)
        return strdup("");
    return as_folder((struct view){name.data, (size_t)(slash - (const char *)name.data)});
}

static bool is_absolute(struct view text) { return text.len && *(const char *)text.data == '/'; }

static bool add_others(struct manifest_paths *p, const struct options *options)
{
    p->others = calloc(options->n_pre_includes + 1, sizeof *p->others);
    for (size_t i = 0; p->others && i < options->n_pre_includes; i++) {
        struct view file = options->pre_includes[i];
        if (!is_absolute(file))
            continue;
        p->others[p->n_others] = folder_of_name(file);
        if (!p->others[p->n_others++])
            return false;
    }
    return p->others != NULL;
}

/* True if few enough -I folders lie in one another, and none is the root. */
static bool places_can_move(const struct view *places, size_t n)
{
    for (size_t i = 0; i < n && n <= MANIFEST_PATHS_PLACES_MAX; i++) {
        unsigned around = 0;
        for (size_t k = 0; k < n; k++)
            around += places[i].len >= places[k].len &&
                      memcmp(places[i].data, places[k].data, places[k].len) == 0;
        if (around > MANIFEST_PATHS_NESTED_MAX || places[i].len == 1)
            return false;
    }
    return n <= MANIFEST_PATHS_PLACES_MAX;
}

/* Sets the bases; takes the texts. */
static bool make_bases(struct manifest_paths *p, char *folder, char **texts, size_t n)
{
    struct view *places = calloc(n + 1, sizeof *places);
    bool ok = places && folder;
    for (size_t i = 0; i < n && ok; i++) {
        ok = texts[i] != NULL;
        if (ok)
            places[i] = (struct view){texts[i], strlen(texts[i])};
    }
    if (ok) {
        p->can_move = places_can_move(places, n);
        p->bases = bases_new((struct view){folder, strlen(folder)}, places, n);
    }
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(places);
    free(folder);
    return p->bases != NULL;
}

static bool add_bases(struct manifest_paths *p, const struct job *job,
                      const struct options *options)
{
    char **texts = calloc(options->n_include_dirs + 1, sizeof *texts);
    size_t n = 0;
    for (size_t i = 0; texts && i < options->n_include_dirs; i++)
        if (is_absolute(options->include_dirs[i]))
            texts[n++] = as_folder(options->include_dirs[i]);
    bool ok = texts && make_bases(p, folder_of_name(job->name), texts, n);
    free(texts);
    return ok;
}

int manifest_paths_open(struct manifest_paths *out, const struct job *job, struct err *e)
{
    struct options options;
    *out = (struct manifest_paths){0};
    int code = options_parse(OPTIONS_NVRTC, 0, job->options, job->n_options, &options, e);
    if (code)
        return code;
    out->cwd = as_folder(job->cwd);
    bool ok = out->cwd && add_bases(out, job, &options) && add_others(out, &options);
    options_close(&options);
    if (ok)
        return 0;
    manifest_paths_close(out);
    return err_set(e, WARM_ENOMEM, "no memory for the folders of a job");
}

void manifest_paths_close(struct manifest_paths *p)
{
    for (size_t i = 0; i < p->n_others; i++)
        free(p->others[i]);
    free(p->others);
    free(p->cwd);
    bases_unref(p->bases);
    *p = (struct manifest_paths){0};
}

/* ---- forms ---- */

/* A path, and its rest behind each folder that it may stem from: NULL if it is not beneath that
 * one. */
struct found {
    char text[PATH_SIZE];
    bool relative;
    const char *in_cwd, *in_folder;
    unsigned n_places; /* -I folders that it is beneath */
    bool in_other;
};

static const char *beneath(const char *path, const char *folder, size_t n)
{
    return strncmp(path, folder, n) == 0 && path[n] ? path + n : NULL;
}

static const char *in_place(const char *path, struct view place)
{
    return beneath(path, place.data, place.len);
}

static void find(struct found *f, const struct manifest_paths *p, struct view asked)
{
    char folder[PATH_SIZE];
    struct view name = p->bases->folder;
    *f = (struct found){.relative = !is_absolute(asked)};
    snprintf(f->text, sizeof f->text, "%s%.*s", f->relative ? p->cwd : "", (int)asked.len,
             (const char *)asked.data);
    join_slashes(f->text);
    snprintf(folder, sizeof folder, "%s%.*s", is_absolute(name) ? "" : p->cwd, (int)name.len,
             (const char *)name.data);
    f->in_cwd = beneath(f->text, p->cwd, strlen(p->cwd));
    f->in_folder = beneath(f->text, folder, strlen(folder));
    for (uint32_t i = 0; i < p->bases->n_places; i++)
        f->n_places += in_place(f->text, p->bases->places[i]) != NULL;
    for (size_t i = 0; i < p->n_others; i++)
        f->in_other |= beneath(f->text, p->others[i], strlen(p->others[i])) != NULL;
}

bool manifest_paths_know(const struct manifest_paths *p, struct view path)
{
    struct found f;
    find(&f, p, path);
    return f.in_cwd || f.in_folder || f.n_places || f.in_other;
}

static unsigned put_form(struct writer *out, const char *mark, const char *text)
{
    char whole[PATH_SIZE + 16];
    int n = snprintf(whole, sizeof whole, "%s%s", mark, text);
    writer_blob(out, whole, (uint32_t)n);
    return 1;
}

static unsigned put_place_forms(const struct manifest_paths *p, const char *path,
                                struct writer *out)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < p->bases->n_places; i++) {
        const char *rest = in_place(path, p->bases->places[i]);
        char mark[16];
        snprintf(mark, sizeof mark, "%c%u/", MANIFEST_PATHS_IN_PLACE, i);
        if (rest)
            n += put_form(out, mark, rest);
    }
    return n;
}

unsigned manifest_paths_forms(const struct manifest_paths *p, struct view asked, unsigned how,
                              struct writer *out)
{
    static const char mark[] = {MANIFEST_PATHS_IN_FOLDER, '\0'};
    struct found f;
    unsigned n = 0;
    find(&f, p, asked);
    bool shared = how & MANIFEST_PATHS_SHARED, moved = how & MANIFEST_PATHS_MOVED;
    bool by_name = !shared && is_absolute(p->bases->folder) && f.in_folder;
    bool placed = !f.relative && (f.n_places || f.in_other || by_name);
    bool named = !f.relative && how & MANIFEST_PATHS_NAMED;
    if (!placed || how & MANIFEST_PATHS_INNER || f.in_other ||
        by_name) { /* it may stem from these, too */
        if (f.in_cwd)
            n += put_form(out, "", f.in_cwd);
        if (f.in_folder && shared)
            n += put_form(out, mark, f.in_folder);
    }
    if (moved && !f.relative)
        n += put_place_forms(p, f.text, out);
    if (named || f.in_other || by_name || (placed && !moved) || !n)
        n += put_form(out, "", f.text);
    return n;
}

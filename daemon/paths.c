/* SPDX-License-Identifier: Apache-2.0 */
/* paths.c - the forms of a path in manifests; see paths.h. Any thread, no state. */
#include "daemon/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/wire.h"
#include "daemon/manifest.h"
#include "keygen/options.h"

/* A folder's text with one '/' at its end; NULL: no memory. */
static char *as_folder(struct view text)
{
    while (text.len && ((const char *)text.data)[text.len - 1] == '/')
        text.len--;
    char *out = malloc(text.len + 2);
    if (!out)
        return NULL;
    memcpy(out, text.len ? text.data : "", text.len);
    strcpy(out + text.len, "/");
    return out;
}

static char *folder_of_name(struct view name)
{
    const char *slash = name.len ? memrchr(name.data, '/', name.len) : NULL;
    if (!slash)
        return strdup("");
    return as_folder((struct view){name.data, (size_t)(slash - (const char *)name.data)});
}

static bool add_place(struct paths *p, struct view folder)
{
    if (!folder.len || *(const char *)folder.data != '/')
        return true;
    p->places[p->n_places] = as_folder(folder);
    return p->places[p->n_places++] != NULL;
}

static bool add_places(struct paths *p, const struct options *options)
{
    p->places = calloc(options->n_include_dirs + options->n_pre_includes + 1, sizeof *p->places);
    bool ok = p->places != NULL;
    for (size_t i = 0; ok && i < options->n_include_dirs; i++)
        ok = add_place(p, options->include_dirs[i]);
    for (size_t i = 0; ok && i < options->n_pre_includes; i++) {
        struct view file = options->pre_includes[i];
        const char *slash = file.len ? memrchr(file.data, '/', file.len) : NULL;
        if (slash)
            ok = add_place(p, (struct view){file.data, (size_t)(slash - (const char *)file.data)});
    }
    return ok;
}

int paths_open(struct paths *out, const struct job *job, struct err *e)
{
    struct options options;
    *out = (struct paths){0};
    int code = options_parse(OPTIONS_NVRTC, 0, job->options, job->n_options, &options, e);
    if (code)
        return code;
    out->cwd = as_folder(job->cwd);
    out->folder = folder_of_name(job->name);
    bool ok = out->cwd && out->folder && add_places(out, &options);
    options_close(&options);
    if (ok)
        return 0;
    paths_close(out);
    return err_set(e, WARM_ENOMEM, "no memory for the folders of a job");
}

void paths_close(struct paths *p)
{
    for (size_t i = 0; i < p->n_places; i++)
        free(p->places[i]);
    free(p->places);
    free(p->cwd);
    free(p->folder);
    *p = (struct paths){0};
}

/* What follows a folder in a path; NULL if it is not beneath it, or is the folder itself. */
static const char *beneath(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    if (strncmp(path, folder, n) != 0)
        return NULL;
    for (path += n; *path == '/'; path++)
        ;
    return *path ? path : NULL;
}

static void put_form(struct writer *out, const char *mark, const char *text)
{
    char whole[2 * WIRE_PATH_MAX + 2];
    int n = snprintf(whole, sizeof whole, "%s%s", mark, text);
    writer_blob(out, whole, (uint32_t)n);
}

static bool is_in_a_place(const struct paths *p, const char *path, bool shared)
{
    for (size_t i = 0; i < p->n_places; i++)
        if (beneath(path, p->places[i]))
            return true;
    return !shared && *p->folder == '/' && beneath(path, p->folder);
}

unsigned paths_forms(const struct paths *p, struct view asked, bool shared, bool named,
                     struct writer *out)
{
    static const char mark[] = {MANIFEST_FOLDER, '\0'};
    char path[2 * WIRE_PATH_MAX], folder[2 * WIRE_PATH_MAX];
    bool relative = !asked.len || *(const char *)asked.data != '/';
    snprintf(path, sizeof path, "%s%.*s", relative ? p->cwd : "", (int)asked.len,
             (const char *)asked.data);
    snprintf(folder, sizeof folder, "%s%s", *p->folder == '/' ? "" : p->cwd, p->folder);
    const char *in_cwd = beneath(path, p->cwd);
    const char *in_folder = shared ? beneath(path, folder) : NULL;
    bool as_it_is =
        (named && !relative) || is_in_a_place(p, path, shared) || (!in_cwd && !in_folder);
    if (in_cwd)
        put_form(out, "", in_cwd);
    if (in_folder)
        put_form(out, mark, in_folder);
    if (as_it_is)
        put_form(out, "", path);
    return (in_cwd != NULL) + (in_folder != NULL) + as_it_is;
}

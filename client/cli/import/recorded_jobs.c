/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorded_jobs.c - decides with which compiler a recorded job is compiled: with the one at its path if that
 * is the same by content, else with the daemon's copy of it. commands/replay.c calls it.
 *
 * Thread: main.
 */
#include "client/cli/import/recorded_jobs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/progress.h"
#include "client/lib/job_file.h"
#include "client/lib/request.h"

/* A job as warm_compile takes it. */
struct texts {
    struct warm_job job;
    char **copies;
    size_t n;
};

/* Copies bytes as a C string, which texts_close frees. NULL without memory. */
static const char *text_copy(struct texts *t, struct view v)
{
    char *copy = malloc(v.len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, v.len ? v.data : "", v.len);
    copy[v.len] = '\0';
    return t->copies[t->n++] = copy;
}

static void texts_close(struct texts *t)
{
    while (t->n > 0)
        free(t->copies[--t->n]);
    free(t->copies);
    free((void *)(uintptr_t)t->job.options);
    free((void *)(uintptr_t)t->job.headers);
}

/* False without memory; the caller closes *t in any case. */
static bool texts_open(struct texts *t, const struct job *from)
{
    size_t n = from->n_options + from->n_expressions;
    const char **texts = calloc(n + 1, sizeof *texts);
    struct warm_header *headers = calloc(from->n_headers + 1, sizeof *headers);
    *t = (struct texts){.copies = calloc(n + from->n_headers + 2, sizeof *t->copies)};
    t->job.options = texts;
    t->job.headers = headers;
    if (!texts || !headers || !t->copies)
        return false;
    bool ok = (t->job.name = text_copy(t, from->name)) && (t->job.cwd = text_copy(t, from->cwd));
    for (size_t i = 0; ok && i < from->n_options; i++)
        ok = (texts[i] = text_copy(t, from->options[i]));
    for (size_t i = 0; ok && i < from->n_expressions; i++)
        ok = (texts[from->n_options + i] = text_copy(t, from->expressions[i]));
    for (size_t i = 0; ok && i < from->n_headers; i++) {
        headers[i].bytes = from->headers[i].bytes.data;
        headers[i].len = from->headers[i].bytes.len;
        ok = (headers[i].name = text_copy(t, from->headers[i].name));
    }
    t->job.source = from->source.data;
    t->job.source_len = from->source.len;
    t->job.n_options = from->n_options;
    t->job.n_headers = from->n_headers;
    t->job.n_expressions = from->n_expressions;
    t->job.expressions = texts + from->n_options;
    return ok;
}

/* Compiles a decoded job. Returns 0 or an error, with its text in *e. */
static int compile(struct warm *w, const struct job_file *file, struct err *e)
{
    char path[PATH_MAX], digits[WARM_KEY_TEXT];
    struct texts t;
    struct warm_result result;
    struct key there;
    snprintf(path, sizeof path, "%.*s", (int)file->path.len, (const char *)file->path.data);
    key_to_text(&file->id, digits);
    bool same = request_nvrtc_id(w, path, &there) && key_equal(&there, &file->id);
    if (!texts_open(&t, &file->job)) {
        texts_close(&t);
        return err_set(e, WARM_ENOMEM, "no memory");
    }
    t.job.compiler = same ? path : digits;
    int code = warm_compile(w, &t.job, &result);
    if (code)
        err_set(e, code, "%s: %s", t.job.name, warm_message(w));
    else
        warm_result_free(&result);
    texts_close(&t);
    return code;
}

static int compile_file(struct remote *r, const char *folder, const char *name, struct err *e)
{
    char path[PATH_MAX];
    struct cli_input in;
    struct job_file file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int error = cli_input_open(&in, path);
    if (error)
        return err_sys(e, WARM_EIO, error, "cannot read it");
    int code = job_file_read(name, in.data, in.len, &file, e);
    if (!code) {
        code = compile(r->w, &file, e);
        job_close(&file.job);
    }
    cli_input_close(&in);
    return code;
}

static int is_job(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return *entry->d_name != '.' && len > 4 && strcmp(entry->d_name + len - 4, ".job") == 0;
}

int recorded_jobs_compile(struct remote *r, const char *folder, uint64_t ends_ms,
                          uint64_t *out_n_bad, bool *out_late)
{
    struct dirent **list;
    int n = scandir(folder, &list, is_job, alphasort), code = 0;
    if (n < 0) {
        cli_say("%s: %s", folder, strerror(errno));
        return CLI_USAGE;
    }
    for (int i = 0; i < n; i++) {
        struct err e = {0};
        *out_late = *out_late || conn_now_ms() >= ends_ms;
        if (!*out_late && code != WARM_ENO_DAEMON) {
            progress_show("jobs", (uint64_t)i, (uint64_t)n);
            code = compile_file(r, folder, list[i]->d_name, &e);
            if (code) {
                progress_end();
                cli_say("%s/%s: %s", folder, list[i]->d_name, e.text);
                ++*out_n_bad;
            }
        }
        free(list[i]);
    }
    progress_end();
    free(list);
    return code == WARM_ENO_DAEMON ? CLI_NO_DAEMON : CLI_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own.c - asks for a result of the program's own NVRTC, and packs a new one as a worker does.
 * program.c calls it after the daemon said that it has no such compiler.
 *
 * Thread: any.
 */
#include "client/preload/nvrtc/own.h"

#include <dlfcn.h>
#include <endian.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/nvrtc_id.h"
#include "client/lib/nvrtc_outputs.h"
#include "client/lib/request.h"
#include "client/preload/connection_pool.h"
#include "client/wire/bundle.h"
#include "keygen/cuda/options.h"

#define PREFIX "nvrtc:1:"
#define FOLDER_MAX 400 /* bytes of the working folder in a description */

/* Describes the compile, with the working folder if its key has it. */
static void describe(struct own_compile *own, const struct warm_job *job, bool shows_cwd)
{
    char cwd[PATH_MAX];
    bool names = shows_cwd && getcwd(cwd, sizeof cwd);
    snprintf(own->label, sizeof own->label, "%s", job->name);
    snprintf(own->compiler, sizeof own->compiler, "NVRTC of the program%s%.*s",
             names ? "; working folder=" : "", FOLDER_MAX, names ? cwd : "");
}

int own_begin(struct own_compile *own, struct warm *w, const struct warm_job *job,
              struct warm_result *out)
{
    struct proof proof;
    struct view bundle;
    bool shows_cwd = false;
    int code = request_own_proof(w, job, own->hardware, &shows_cwd, &proof);
    if (code == WARM_EREFUSED) {
        /* `warm why` tells that nothing is kept of this job, and what the user can do. */
        struct err why = w->err;
        err_set(&w->err, why.code,
                "%.160s, and the daemon has no copy of %.160s: see nvrtc_from in warmd.conf(5)",
                why.text, job->compiler);
        request_tell_uncached(w, job);
    }
    if (code)
        return code;
    leased_entry_begin(&own->entry, w, PREFIX, &proof);
    code = leased_entry_get(&own->entry, &bundle);
    if (code == 0 && (code = request_unpack(w, &own->entry.value, bundle, out)) == 0) {
        own->entry = (struct leased_entry){0}; /* the result owns the value */
        return 0;
    }
    if (code == WARM_LEASE) {
        describe(own, job, shows_cwd);
        own->began_ms = conn_now_ms();
        return code;
    }
    leased_entry_end(&own->entry);
    own->entry.w = NULL;
    return code;
}

/* ---- storing ---- */

static bool pack(const struct nvrtc_library *l, nvrtc_program p, char *const *expressions,
                 size_t n_expressions, struct writer *out)
{
    struct bundle_section s[8];
    size_t n = 0;
    uint32_t *status = calloc(1, sizeof *status); /* success */
    if (!status)
        return false;
    s[n++] = (struct bundle_section){BUNDLE_STATUS, {status, sizeof *status}};
    bool ok =
        nvrtc_take_output(p, l->GetProgramLogSize, l->GetProgramLog, BUNDLE_LOG, true, s, &n) &&
        NVRTC_TAKE_BINARIES(l, p, s, &n) &&
        nvrtc_take_lowered(p, l->GetLoweredName, expressions, n_expressions, s, &n);
    if (ok)
        bundle_write(out, s, n);
    nvrtc_sections_free(s, n);
    return ok && !out->failed;
}

/* True if the library has loaded the builtins that are in the entry's key. LD_LIBRARY_PATH may lead it
 * to others. */
static bool has_its_builtins(const struct nvrtc_library *library)
{
    char *path = nvrtc_builtins_of(library->at.path);
    void *handle = path && *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    bool has = path && (!*path || handle);
    if (handle)
        dlclose(handle);
    free(path);
    return has;
}

bool own_options_last(size_t n, const char *const *options)
{
    struct view *views = calloc(n + 1, sizeof *views);
    struct options parsed;
    bool known = views && n <= OPTIONS_MAX_ARGS;
    for (size_t i = 0; known && i < n; i++) {
        known = options[i] &&
                !text_has_one_of(options[i], ONE_OF("restrict", "opt-info", "optimization-info",
                                                    "Ofc", "Ofast-compile"));
        views[i] = (struct view){options[i], known ? strlen(options[i]) : 0};
    }
    known = known && options_parse(OPTIONS_NVRTC, 0, views, n, &parsed, NULL) == 0;
    if (known)
        options_close(&parsed);
    free(views);
    return !known;
}

void own_end(struct own_compile *own, const struct nvrtc_library *library, nvrtc_program program,
             char *const *expressions, size_t n_expressions, int rc)
{
    struct warm *w = own->entry.w;
    struct writer bundle;
    if (!w)
        return;
    uint64_t cost_ms = conn_now_ms() - own->began_ms;
    struct warm_put_options options = {.kind = "cubin",
                                       .cost_ms = (uint32_t)cost_ms,
                                       .hardware = own->hardware,
                                       .compiler = own->compiler,
                                       .label = own->label};
    writer_init(&bundle, 0);
    if (rc == NVRTC_COMPILATION)
        leased_entry_mark(&own->entry, "the program's own NVRTC refused the source",
                          LEASED_ENTRY_RETRY_MS);
    else if (rc != NVRTC_SUCCESS)
        warm_note(w, "uncacheable", own->entry.name, "the program's own NVRTC gave up");
    else if (atomic_load(&library->n_lasting))
        warm_note(w, "uncacheable", own->entry.name,
                  "this process gave its own NVRTC options before that NVRTC does not forget");
    else if (!has_its_builtins(library))
        warm_note(w, "uncacheable", own->entry.name,
                  "NVRTC loaded other builtins than those beside it: see LD_LIBRARY_PATH");
    else if (pack(library, program, expressions, n_expressions, &bundle))
        leased_entry_put(&own->entry, bundle.data, bundle.len, options);
    writer_close(&bundle);
    leased_entry_end(&own->entry);
    connection_pool_return(w);
}

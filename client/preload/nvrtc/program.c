/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c - decides if a program's compile is served from the cache, and answers every function
 * on a handle. The stand-ins of nvrtc.c call it; nvrtc.h draws the states.
 *
 *   Compile, happy path:                       And else:
 *     1. a FRESH handle that we know             - unknown, or compiled before: the real compile
 *     2. the flow callback does not cancel       - it does: the real compile, which reports that
 *     3. warm_compile with this libnvrtc         - no daemon, an error, a result that is no
 *     4. SERVED, the result's status               replacement (below): the real compile
 *                                                - the daemon has no such NVRTC: own.h
 *
 * A result can replace a compile if the compiler succeeded or refused the source, and got every
 * file that it asked for. The real compile reaches all other states (wrong options, out of memory)
 * as fast.
 *
 * Thread: any for different programs, no lock.
 */
#include "client/preload/nvrtc/nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/request.h"
#include "client/preload/compiler_variables.h"
#include "client/preload/connection_pool.h"
#include "client/preload/handle_table.h"
#include "client/preload/nvrtc/own.h"
#include "client/preload/refused_images.h"

enum program_state { FRESH, SERVED, REAL };

struct program {
    struct nvrtc_library *library;
    enum program_state state;
    nvrtc_callback callback;
    void *payload;
    /* Its input; kept while FRESH. */
    char *source, *name;
    struct warm_header *headers;
    size_t n_headers;
    /* Kept while SERVED: for the skipped compile. */
    char **options;
    size_t n_options;
    /* Kept until the end: the program may hold pointers to the texts. */
    char **expressions;
    size_t n_expressions;
    char **lowered; /* by expression; NULL: no result yet, or no name */
    struct warm_result result;
};

static struct handle_table table;

static struct program *program_of(const void *handle) { return handle_table_find(&table, handle); }

/* Returns the program of a handle that answers from a result; NULL: the real library answers. */
static struct program *served(const void *handle)
{
    struct program *p = program_of(handle);
    return p && p->state == SERVED ? p : NULL;
}

/* ---- programs ---- */

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; list && i < n; i++)
        free(list[i]);
    free(list);
}

/* Frees the input, which is unused after the compile. */
static void drop_input(struct program *p)
{
    for (size_t i = 0; i < p->n_headers; i++) {
        free((void *)(uintptr_t)p->headers[i].name);
        free((void *)(uintptr_t)p->headers[i].bytes);
    }
    free(p->headers);
    free(p->source);
    free(p->name);
    p->headers = NULL;
    p->n_headers = 0;
    p->source = p->name = NULL;
}

static void drop_options(struct program *p)
{
    free_list(p->options, p->n_options);
    p->options = NULL;
    p->n_options = 0;
}

static void program_free(void *state)
{
    struct program *p = state;
    if (!p)
        return;
    drop_input(p);
    drop_options(p);
    free_list(p->lowered, p->n_expressions);
    free_list(p->expressions, p->n_expressions);
    warm_result_free(&p->result);
    free(p);
}

/* Returns a copy of `list`; NULL if memory ran out or a text is missing. */
static char **copy_list(const char *const *list, size_t n)
{
    char **copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = list[i] ? strdup(list[i]) : NULL;
        if (!copy[i]) {
            free_list(copy, n);
            return NULL;
        }
    }
    return copy;
}

static bool copy_headers(struct program *p, size_t n, const char *const *texts,
                         const char *const *names)
{
    p->headers = calloc(n + 1, sizeof *p->headers);
    if (!p->headers)
        return false;
    p->n_headers = n;
    for (size_t i = 0; i < n; i++) {
        struct warm_header *h = &p->headers[i];
        h->name = names[i] ? strdup(names[i]) : NULL;
        h->bytes = texts[i] ? strdup(texts[i]) : NULL;
        if (!h->name || !h->bytes)
            return false;
        h->len = strlen(h->bytes);
    }
    return true;
}

/* Returns our state of a new handle; NULL without memory. The real library has accepted the arguments. */
static struct program *program_new(struct nvrtc_library *library, const char *source,
                                   const char *name, size_t n_headers, const char *const *headers,
                                   const char *const *include_names)
{
    struct program *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->library = library;
    p->source = strdup(source);
    p->name = strdup(name ? name : "default_program");
    if (p->source && p->name && copy_headers(p, n_headers, headers, include_names))
        return p;
    program_free(p);
    return NULL;
}

/* Leaves the handle to the real library from now on. */
static void program_pass_on(struct program *p)
{
    p->state = REAL;
    drop_input(p);
    drop_options(p);
}

/* ---- asking the daemon ---- */

#define SKIP_MS 60000u /* pause after a daemon refused a compiler */

static bool wants_pch(const struct program *p)
{
    for (size_t i = 0; i < p->n_options; i++)
        if (strcmp(p->options[i], "--pch") == 0 || strcmp(p->options[i], "-pch") == 0)
            return true;
    return false;
}

/* Asks for the daemon's result; if it has no such compiler, for one of this program's own. */
static int ask(struct program *p, struct own_compile *own, struct warm_result *out)
{
    struct nvrtc_library *library = p->library;
    uint64_t skip = atomic_load_explicit(&library->skip_until_ms, memory_order_relaxed);
    if (!preload_file_is(library->at.path, &library->at.file))
        return WARM_ENO_TOOLCHAIN;
    struct warm *w = connection_pool_borrow();
    if (!w)
        return WARM_ENO_DAEMON;
    const char *variable = compiler_variables_find();
    if (variable) {
        char why[256];
        snprintf(why, sizeof why, "%.*s is set, which changes what NVRTC makes: unset it",
                 (int)strcspn(variable, "="), variable);
        warm_note(w, "uncacheable", p->name, why);
        connection_pool_return(w);
        return WARM_EREFUSED;
    }
    struct warm_job job = {.name = p->name,
                           .source = p->source,
                           .source_len = strlen(p->source),
                           .options = (const char *const *)p->options,
                           .n_options = p->n_options,
                           .headers = p->headers,
                           .n_headers = p->n_headers,
                           .expressions = (const char *const *)p->expressions,
                           .n_expressions = p->n_expressions,
                           .compiler = library->at.path};
    int code = WARM_ENO_TOOLCHAIN;
    if (!skip || conn_now_ms() >= skip) {
        code = request_compile(w, &job, out);
        if (code == WARM_ENO_TOOLCHAIN)
            atomic_store_explicit(&library->skip_until_ms, conn_now_ms() + SKIP_MS,
                                  memory_order_relaxed);
    }
    if (code == WARM_ENO_TOOLCHAIN && !wants_pch(p))
        code = own_begin(own, w, &job, out);
    if (code != WARM_LEASE)
        connection_pool_return(w);
    return code;
}

static const struct warm_part *find_lowered(const struct warm_result *r, const char *expression)
{
    for (size_t i = 0; i < r->n_lowered; i++)
        if (view_is((struct view){r->lowered[i][0].data, r->lowered[i][0].len}, expression))
            return &r->lowered[i][1];
    return NULL;
}

/* Copies the lowered names as C strings. False without memory, or if a successful compile lacks
 * one. */
static bool take_lowered(struct program *p, const struct warm_result *r)
{
    if (!WARM_EXPECT(!p->lowered)) /* a program is served once */
        return false;
    p->lowered = calloc(p->n_expressions + 1, sizeof *p->lowered);
    if (!p->lowered)
        return false;
    for (size_t i = 0; i < p->n_expressions && r->status == NVRTC_SUCCESS; i++) {
        const struct warm_part *name = find_lowered(r, p->expressions[i]);
        p->lowered[i] = name ? strndup(name->data, name->len) : NULL;
        if (!p->lowered[i])
            return false;
    }
    return true;
}

static bool is_cancelled(const struct program *p)
{
    return p->callback && p->callback(p->payload, NULL) != 0;
}

/* True for options whose output is missing in results. */
static bool is_about_tiles(size_t n_options, const char *const *options)
{
    for (size_t i = 0; i < n_options; i++)
        if (options[i] && strstr(options[i], "tile"))
            return true;
    return false;
}

/* True if an option names a folder for precompiled headers that NVRTC may refuse. The key and the workers lack it. */
static bool names_bad_pch_folder(size_t n_options, const char *const *options)
{
    bool is_bad = false;
    for (size_t i = 0; i < n_options; i++) {
        const char *at = options[i] ? strstr(options[i], "-pch-dir=") : NULL;
        struct stat st;
        is_bad |= at && (stat(at + strlen("-pch-dir="), &st) || !S_ISDIR(st.st_mode) ||
                         access(at + strlen("-pch-dir="), R_OK | W_OK | X_OK));
    }
    return is_bad;
}

/* Asks the daemon. True if the FRESH program is SERVED now. Otherwise only its options have
 * changed, and `own` may hold a lease to store what the real compile makes. */
static bool serve(struct program *p, size_t n_options, const char *const *options,
                  struct own_compile *own)
{
    struct warm_result r;
    if (!WARM_EXPECT(p->state == FRESH && p->source && !p->options))
        return false;
    p->options = copy_list(options, n_options);
    p->n_options = p->options ? n_options : 0;
    if (!p->options || is_about_tiles(n_options, options) ||
        names_bad_pch_folder(n_options, options) || is_cancelled(p) || ask(p, own, &r))
        return false;
    bool stands = (r.status == NVRTC_SUCCESS || r.status == NVRTC_COMPILATION) && !r.refused;
    if (!stands || is_cancelled(p) || !take_lowered(p, &r)) {
        warm_result_free(&r);
        return false;
    }
    (void)WARM_EXPECT(p->state == FRESH);
    p->result = r;
    p->state = SERVED;
    drop_input(p);
    return true;
}

static int compile_for_real(struct nvrtc_library *library, nvrtc_program handle, int n_options,
                            const char *const *options)
{
    bool last = n_options > 0 && options && own_options_last((size_t)n_options, options);
    if (last)
        atomic_fetch_add(&library->n_lasting, 1);
    int rc = library->CompileProgram(handle, n_options, options);
    if (last && rc == NVRTC_INVALID_OPTION)
        atomic_fetch_sub(&library->n_lasting, 1);
    return rc;
}

/* Runs the skipped compile, so that the real handle is in the state that the program expects. The
 * result stays, because the program may hold its names. */
static void make_up(struct program *p, nvrtc_program handle)
{
    if (p->state == SERVED)
        compile_for_real(p->library, handle, (int)p->n_options, (const char *const *)p->options);
    program_pass_on(p);
}

/* ---- life ---- */

int nvrtc_on_CreateProgram(struct nvrtc_library *library, nvrtc_program *out, const char *source,
                           const char *name, int n_headers, const char *const *headers,
                           const char *const *include_names)
{
    int rc = library->CreateProgram(out, source, name, n_headers, headers, include_names);
    if (!rc)
        handle_table_renew(
            &table, *out,
            program_new(library, source, name, (size_t)n_headers, headers, include_names),
            program_free);
    return rc;
}

/* Destroys a handle. It leaves the table first, because NVRTC may reuse its address at once. */
int nvrtc_on_DestroyProgram(struct nvrtc_library *library, nvrtc_program *program)
{
    struct program *p = program ? handle_table_take(&table, *program) : NULL;
    int rc = p ? p->library->DestroyProgram(program) : library->DestroyProgram(program);
    program_free(p);
    return rc;
}

/* Adds a name to the real handle, and to ours. Without memory the handle becomes REAL. */
int nvrtc_on_AddNameExpression(struct nvrtc_library *library, nvrtc_program program,
                               const char *expression)
{
    struct program *p = program_of(program);
    if (p && p->state == SERVED && expression)
        return NVRTC_NAMES_AFTER_COMPILATION;
    int rc = library->AddNameExpression(program, expression);
    if (rc || !p || p->state != FRESH)
        return rc;
    char **grown = realloc(p->expressions, (p->n_expressions + 1) * sizeof *grown);
    if (grown)
        p->expressions = grown;
    char *copy = grown ? strdup(expression) : NULL;
    if (copy)
        p->expressions[p->n_expressions++] = copy;
    else
        program_pass_on(p);
    return 0;
}

int nvrtc_on_SetFlowCallback(struct nvrtc_library *library, nvrtc_program program,
                             nvrtc_callback callback, void *payload)
{
    if (!library->SetFlowCallback)
        return NVRTC_INTERNAL_ERROR;
    int rc = library->SetFlowCallback(program, callback, payload);
    struct program *p = rc ? NULL : program_of(program);
    if (p) {
        p->callback = callback;
        p->payload = payload;
    }
    return rc;
}

int nvrtc_on_CompileProgram(struct nvrtc_library *library, nvrtc_program program, int n_options,
                            const char *const *options)
{
    struct program *p = program_of(program);
    bool is_valid = n_options == 0 || (n_options > 0 && options);
    struct own_compile own = {0};
    if (p && p->state == FRESH && is_valid && serve(p, (size_t)n_options, options, &own))
        return p->result.status;
    if (p && is_valid)
        make_up(p, program);
    int rc = compile_for_real(library, program, n_options, options);
    if (p)
        own_end(&own, library, program, p->expressions, p->n_expressions, rc);
    return rc;
}

/* ---- answers of a handle ---- */

/* Returns the size of a text. NVRTC counts its NUL, and always has a text, which may be empty. */
static int show_text_size(const struct program *p, const struct warm_part *part, size_t *out)
{
    (void)p;
    *out = part->len + 1;
    return NVRTC_SUCCESS;
}

static int show_bytes_size(const struct program *p, const struct warm_part *part, size_t *out)
{
    (void)p;
    *out = part->len;
    return NVRTC_SUCCESS;
}

static int show_bytes(const struct program *p, const struct warm_part *part, char *out)
{
    (void)p;
    if (part->len)
        memcpy(out, part->data, part->len);
    return NVRTC_SUCCESS;
}

static int show_text(const struct program *p, const struct warm_part *part, char *out)
{
    out[part->len] = '\0';
    return show_bytes(p, part, out);
}

/* Remembers an image that the program may load into a driver. */
static void note_image(const struct program *p, const struct warm_part *part)
{
    unsigned sm = refused_images_target((const char *const *)p->options, p->n_options);
    refused_images_remember(part->data, part->len, sm, &p->result.value);
}

static int show_ptx(const struct program *p, const struct warm_part *part, char *out)
{
    note_image(p, part);
    return show_text(p, part, out);
}

static int show_cubin(const struct program *p, const struct warm_part *part, char *out)
{
    note_image(p, part);
    return show_bytes(p, part, out);
}

/* Returns the served program, unless it asked for a precompiled header: then it becomes REAL. Only
 * the real compile knows the header's status and log, which depend on earlier compiles of the
 * process. */
static struct program *served_but_pch(nvrtc_program handle)
{
    struct program *p = served(handle);
    if (!p || !wants_pch(p))
        return p;
    make_up(p, handle);
    return NULL;
}

/* Answers from the result, or passes on. The real library refuses missing arguments. */
#define SHOW(name, out_type, find, show, part)                                                     \
    int nvrtc_on_##name(struct nvrtc_library *library, nvrtc_program program, out_type *out)       \
    {                                                                                              \
        struct program *p = find(program);                                                         \
        if (p && out)                                                                              \
            return show(p, &p->result.part, out);                                                  \
        return library->name ? library->name(program, out) : NVRTC_INTERNAL_ERROR;                 \
    }
SHOW(GetPTXSize, size_t, served, show_text_size, ptx)
SHOW(GetPTX, char, served, show_ptx, ptx)
SHOW(GetCUBINSize, size_t, served, show_bytes_size, cubin)
SHOW(GetCUBIN, char, served, show_cubin, cubin)
SHOW(GetLTOIRSize, size_t, served, show_bytes_size, ltoir)
SHOW(GetLTOIR, char, served, show_bytes, ltoir)
SHOW(GetOptiXIRSize, size_t, served, show_bytes_size, optixir)
SHOW(GetOptiXIR, char, served, show_bytes, optixir)
SHOW(GetProgramLogSize, size_t, served_but_pch, show_text_size, log)
SHOW(GetProgramLog, char, served_but_pch, show_text, log)

/* Runs the skipped compile for the older name of LTO-IR, which results lack. */
#define MAKE_UP(name, out_type)                                                                    \
    int nvrtc_on_##name(struct nvrtc_library *library, nvrtc_program program, out_type *out)       \
    {                                                                                              \
        struct program *p = served(program);                                                       \
        if (p && out)                                                                              \
            make_up(p, program);                                                                   \
        return library->name ? library->name(program, out) : NVRTC_INTERNAL_ERROR;                 \
    }
MAKE_UP(GetNVVMSize, size_t)
MAKE_UP(GetNVVM, char)

/* Passes on. Programs with tile functions are not served; real handles of other programs have no
 * tile IR, compiled or not. */
#define PASS_ON(name, out_type)                                                                    \
    int nvrtc_on_##name(struct nvrtc_library *library, nvrtc_program program, out_type *out)       \
    {                                                                                              \
        return library->name ? library->name(program, out) : NVRTC_INTERNAL_ERROR;                 \
    }
PASS_ON(GetTileIRSize, size_t)
PASS_ON(GetTileIR, char)

/* Passes on. Without --pch, a handle that was not compiled gives the same answer. */
int nvrtc_on_GetPCHHeapSizeRequired(struct nvrtc_library *library, nvrtc_program program,
                                    size_t *out)
{
    if (out)
        served_but_pch(program);
    return library->GetPCHHeapSizeRequired ? library->GetPCHHeapSizeRequired(program, out)
                                           : NVRTC_INTERNAL_ERROR;
}

int nvrtc_on_GetLoweredName(struct nvrtc_library *library, nvrtc_program program,
                            const char *expression, const char **out)
{
    struct program *p = served(program);
    if (!p || !expression || !out)
        return library->GetLoweredName ? library->GetLoweredName(program, expression, out)
                                       : NVRTC_INTERNAL_ERROR;
    *out = NULL;
    if (p->result.status != NVRTC_SUCCESS)
        return NVRTC_NO_NAMES_BEFORE_COMPILATION;
    for (size_t i = 0; i < p->n_expressions; i++)
        if (strcmp(p->expressions[i], expression) == 0) {
            *out = p->lowered[i];
            return NVRTC_SUCCESS;
        }
    return NVRTC_NAME_NOT_VALID;
}

int nvrtc_on_GetPCHCreateStatus(struct nvrtc_library *library, nvrtc_program program)
{
    if (served_but_pch(program))
        return NVRTC_NO_PCH_ATTEMPTED;
    return library->GetPCHCreateStatus ? library->GetPCHCreateStatus(program)
                                       : NVRTC_INTERNAL_ERROR;
}

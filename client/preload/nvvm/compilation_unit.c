/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compilation_unit.c - decides if a compile of libNVVM is served from the cache, and answers the getters of a
 * served one. The stand-ins of nvvm.c call it; nvvm.h draws the states.
 *
 * The value is a bundle of two sections: the result and the log, as the real library returns them.
 *
 * Thread: any for different handles, no lock.
 */
#include "client/preload/nvvm/nvvm.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/preload/compiler_variables.h"
#include "client/preload/connection_pool.h"
#include "client/preload/handle_table.h"
#include "client/preload/leased_entry.h"
#include "client/wire/bundle.h"
#include "keygen/bytes.h"
#include "keygen/domains.h"
#include "keygen/key.h"

enum { SECTION_RESULT = 64, SECTION_LOG }; /* no types of a compile's result */
enum { OPTIONS_MAX = 64, INVALID_OPTION = 7 /* what libNVVM returns */ };

enum state { FRESH, SERVED, REAL };

struct nvvm_program {
    enum state state;
    struct proof so_far;     /* SHA-256 of the library and of all that the program was given, */
    bool has_key;            /* if this is set */
    char **options;          /* SERVED: of the compile, */
    int n_options;           /* to repeat it */
    struct warm_value value; /* SERVED: both sections lie in it */
    struct view result, log;
};

static struct handle_table table;

static struct nvvm_program *program_of(const void *handle)
{
    return handle_table_find(&table, handle);
}

static void drop_options(struct nvvm_program *p)
{
    for (int i = 0; i < p->n_options; i++)
        free(p->options[i]);
    free(p->options);
    p->options = NULL;
    p->n_options = 0;
}

static void program_free(void *state)
{
    struct nvvm_program *p = state;
    if (!p)
        return;
    drop_options(p);
    warm_value_free(&p->value);
    free(p);
}

/* True for the options of nvvm.h, 13.5, and numba-cuda's. */
static bool is_known(const char *option)
{
    return text_is_one_of(option,
                          ONE_OF("-g", "-generate-line-info", "-gen-lto", "-numba-debug")) ||
           text_begins_with_one(
               option, ONE_OF("-opt=", "-arch=", "-ftz=", "-prec-div=", "-prec-sqrt=", "-fma="));
}

typedef int (*options_fn)(nvvm_handle handle, int n, const char **options);

/* Verifies or compiles with the real library. Notes options that we do not know, unless the library refuses them: they
 * may change later compiles. */
static int call_real(struct nvvm_library *library, options_fn real, nvvm_handle handle, int n,
                     const char **options)
{
    bool known = n <= OPTIONS_MAX;
    for (int i = 0; known && options && i < n; i++)
        known = options[i] && is_known(options[i]);
    if (!known)
        atomic_fetch_add(&library->n_unknown, 1);
    int rc = real(handle, n, options);
    if (!known && rc == INVALID_OPTION)
        atomic_fetch_sub(&library->n_unknown, 1);
    return rc;
}

static int compile_for_real(struct nvvm_library *library, nvvm_handle handle, int n,
                            const char **options)
{
    return call_real(library, library->CompileProgram, handle, n, options);
}

/* Makes a program REAL. If it is SERVED, the real library compiles it first, and so has the same result. */
static void pass_on(struct nvvm_program *p, struct nvvm_library *library, nvvm_handle handle)
{
    const char *options[OPTIONS_MAX];
    for (int i = 0; i < p->n_options; i++)
        options[i] = p->options[i];
    if (p->state == SERVED)
        compile_for_real(library, handle, p->n_options, options);
    p->state = REAL;
    drop_options(p);
    warm_value_free(&p->value);
    p->value = (struct warm_value){0};
}

/* ---- keys ---- */

/* Begins the key with the library's content. False: no daemon, or the library's file was replaced. */
static bool key_open(struct nvvm_program *p, const struct nvvm_library *library, struct warm *w)
{
    char identity[WARM_IDENTITY_TEXT];
    struct key_builder b;
    struct key key;
    if (p->has_key)
        return true;
    if (!library_identity(&library->at, w, identity))
        return false;
    key_begin(&b, DOMAIN_NVVM);
    key_add_text(&b, 1, identity);
    key_end(&b, &key, &p->so_far);
    p->has_key = true;
    return true;
}

/* Adds one call to the key: its function, a module's name and bytes, or options. */
static void key_next(struct nvvm_program *p, const char *function, const char *name,
                     const struct proof *content, int n_options, const char **options)
{
    struct key_builder b;
    struct key key;
    (void)WARM_EXPECT(p->has_key); /* key_open comes first */
    key_begin(&b, DOMAIN_NVVM);
    key_add(&b, 2, p->so_far.bytes, sizeof p->so_far.bytes);
    key_add_text(&b, 3, function);
    if (name)
        key_add_text(&b, 4, name);
    if (content)
        key_add(&b, 5, content->bytes, sizeof content->bytes);
    for (int i = 0; i < n_options; i++)
        key_add_text(&b, 6, options[i]);
    key_end(&b, &key, &p->so_far);
}

/* Adds a call to the key of a FRESH program that the real library has accepted. The program becomes REAL if that
 * cannot be. */
static void note(struct nvvm_program *p, struct nvvm_library *library, nvvm_handle handle,
                 const char *function, const char *name, const struct proof *content, int n_options,
                 const char **options)
{
    struct warm *w = connection_pool_borrow();
    bool good = w && key_open(p, library, w) && n_options >= 0 && n_options <= OPTIONS_MAX;
    for (int i = 0; good && i < n_options; i++)
        good = options[i] && is_known(options[i]);
    connection_pool_return(w);
    if (good)
        key_next(p, function, name, content, n_options, options);
    else
        pass_on(p, library, handle);
}

/* ---- calls ---- */

int nvvm_on_CreateProgram(struct nvvm_library *library, nvvm_handle *out)
{
    int rc = library->CreateProgram(out);
    if (!rc)
        handle_table_renew(
            &table, *out, compiler_variables_find() ? NULL : calloc(1, sizeof(struct nvvm_program)),
            program_free);
    return rc;
}

int nvvm_on_DestroyProgram(struct nvvm_library *library, nvvm_handle *handle)
{
    struct nvvm_program *p = handle ? handle_table_take(&table, *handle) : NULL;
    program_free(p);
    return library->DestroyProgram(handle);
}

typedef int (*add_fn)(nvvm_handle handle, const char *data, size_t size, const char *name);

static int add(struct nvvm_library *library, add_fn real, const char *function, nvvm_handle handle,
               const char *data, size_t size, const char *name)
{
    struct nvvm_program *p = program_of(handle);
    if (p && p->state == SERVED)
        pass_on(p, library, handle);
    int rc = real(handle, data, size, name);
    if (!p || p->state != FRESH)
        return rc;
    if (rc || !data) {
        pass_on(p, library, handle);
        return rc;
    }
    struct proof content = proof_of_bytes(data, size);
    note(p, library, handle, function, name, &content, 0, NULL);
    return rc;
}

int nvvm_on_AddModuleToProgram(struct nvvm_library *library, nvvm_handle handle, const char *data,
                               size_t size, const char *name)
{
    return add(library, library->AddModuleToProgram, "add", handle, data, size, name);
}

int nvvm_on_LazyAddModuleToProgram(struct nvvm_library *library, nvvm_handle handle,
                                   const char *data, size_t size, const char *name)
{
    return add(library, library->LazyAddModuleToProgram, "lazy", handle, data, size, name);
}

int nvvm_on_VerifyProgram(struct nvvm_library *library, nvvm_handle handle, int n_options,
                          const char **options)
{
    struct nvvm_program *p = program_of(handle);
    if (p && p->state == SERVED)
        pass_on(p, library, handle);
    int rc = call_real(library, library->VerifyProgram, handle, n_options, options);
    if (p && p->state == FRESH && rc == 0)
        note(p, library, handle, "verify", NULL, NULL, n_options, options);
    else if (p)
        pass_on(p, library, handle);
    return rc;
}

/* ---- compiles ---- */

static bool keep_options(struct nvvm_program *p, int n, const char **options)
{
    p->options = calloc((size_t)n + 1, sizeof *p->options);
    for (int i = 0; p->options && i < n; i++, p->n_options++)
        if (!(p->options[i] = strdup(options[i])))
            return false;
    return p->options != NULL;
}

/* Makes the program SERVED with a stored bundle, and takes the value that it lies in. False if it is damaged. */
static bool unpack(struct nvvm_program *p, struct leased_entry *entry, struct view bundle)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n = 0;
    bool ok = bundle_read(bundle.data, bundle.len, sections, &n, NULL) == 0;
    p->result = ok ? bundle_find(sections, n, SECTION_RESULT) : (struct view){0};
    p->log = ok ? bundle_find(sections, n, SECTION_LOG) : (struct view){0};
    if (!p->result.data || !p->log.data)
        return false;
    p->value = entry->value;
    entry->value = (struct warm_value){0};
    p->state = SERVED;
    return true;
}

/* Stores the result and the log of the real library. */
static void store(const struct nvvm_library *library, nvvm_handle handle,
                  struct leased_entry *entry, uint64_t took_ms)
{
    size_t n_result = 0, n_log = 0;
    struct writer bundle;
    bool good = library->GetCompiledResultSize(handle, &n_result) == 0 &&
                library->GetProgramLogSize(handle, &n_log) == 0;
    char *result = good ? calloc(1, n_result + 1) : NULL, *log = good ? calloc(1, n_log + 1) : NULL;
    writer_init(&bundle, 0);
    good = result && log && library->GetCompiledResult(handle, result) == 0 &&
           (n_log == 0 || library->GetProgramLog(handle, log) == 0);
    if (good)
        bundle_write(&bundle,
                     (struct bundle_section[]){{SECTION_RESULT, {result, n_result}},
                                               {SECTION_LOG, {log, n_log}}},
                     2);
    if (good && !bundle.failed)
        leased_entry_put(entry, bundle.data, bundle.len,
                         (struct warm_put_options){.kind = "object",
                                                   .cost_ms = (uint32_t)took_ms,
                                                   .compiler = "libNVVM",
                                                   .label = "libNVVM"});
    writer_close(&bundle);
    free(result);
    free(log);
}

/* Compiles a FRESH program whose key is complete, or serves it. */
static int compile(struct nvvm_program *p, struct nvvm_library *library, nvvm_handle handle,
                   int n_options, const char **options, struct leased_entry *entry)
{
    struct view bundle;
    int got = leased_entry_get(entry, &bundle);
    if (got == 0 && unpack(p, entry, bundle)) {
        if (keep_options(p, n_options, options))
            return 0;
        p->state = REAL; /* without memory for the options it could not be compiled later */
        pass_on(p, library, handle);
        return compile_for_real(library, handle, n_options, options);
    }
    uint64_t start_ms = conn_now_ms();
    int rc = compile_for_real(library, handle, n_options, options);
    if (rc == 0 && leased_entry_is_ours(got) && !atomic_load(&library->n_unknown))
        store(library, handle, entry, conn_now_ms() - start_ms);
    pass_on(p, library, handle);
    return rc;
}

int nvvm_on_CompileProgram(struct nvvm_library *library, nvvm_handle handle, int n_options,
                           const char **options)
{
    struct nvvm_program *p = program_of(handle);
    struct leased_entry entry;
    if (p && p->state == FRESH)
        note(p, library, handle, "compile", NULL, NULL, n_options, options);
    else if (p)
        pass_on(p, library, handle);
    struct warm *w = p && p->state == FRESH ? connection_pool_borrow() : NULL;
    if (!w) {
        if (p)
            pass_on(p, library, handle);
        return compile_for_real(library, handle, n_options, options);
    }
    leased_entry_begin(&entry, w, "nvvm:2:", &p->so_far);
    int rc = compile(p, library, handle, n_options, options, &entry);
    leased_entry_end(&entry);
    connection_pool_return(w);
    return rc;
}

/* ---- getters ---- */

static struct nvvm_program *served(const void *handle)
{
    struct nvvm_program *p = program_of(handle);
    return p && p->state == SERVED ? p : NULL;
}

/* The real library refuses missing arguments. */
#define SHOW_SIZE(name, part)                                                                      \
    int nvvm_on_##name(struct nvvm_library *library, nvvm_handle handle, size_t *out)              \
    {                                                                                              \
        const struct nvvm_program *p = served(handle);                                             \
        if (!p || !out)                                                                            \
            return library->name(handle, out);                                                     \
        *out = p->part.len;                                                                        \
        return 0;                                                                                  \
    }
#define SHOW(name, part)                                                                           \
    int nvvm_on_##name(struct nvvm_library *library, nvvm_handle handle, char *out)                \
    {                                                                                              \
        const struct nvvm_program *p = served(handle);                                             \
        if (!p || !out)                                                                            \
            return library->name(handle, out);                                                     \
        memcpy(out, p->part.data, p->part.len);                                                    \
        return 0;                                                                                  \
    }
SHOW_SIZE(GetCompiledResultSize, result)
SHOW(GetCompiledResult, result)
SHOW_SIZE(GetProgramLogSize, log)
SHOW(GetProgramLog, log)

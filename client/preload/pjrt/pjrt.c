/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pjrt.c - decides if a compile of a PJRT plugin is served from the cache. It stands in for
 * GetPjrtApi: the program gets a copy of the plugin's table, in which PJRT_Client_Compile, and the
 * registration of custom calls, are ours. dl.c asks it for the stand-in.
 *
 * A compile:
 *     key (program_key.c) ─▶ get, with a lease ─┬─ a hit: PJRT_Executable_DeserializeAndLoad
 *                                               └─ a lease: the real compile, Serialize, put
 * Failure modes:
 *     no daemon, a table or arguments of another version, a refused key: the real compile only;
 *     an entry that is damaged or does not load: the real compile, whose result replaces the entry;
 *     the real compile fails: the program gets its error, and the lease goes to the next waiter.
 *
 * A function of the table cannot know in which table it was called. So there is one set of
 * functions for each plugin; plugins beyond those of PLUGIN_LIST are passed through.
 *
 * Thread: any; no locks.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/environment.h"
#include "client/preload/connection_pool.h"
#include "client/preload/leased_entry.h"
#include "client/preload/pjrt/program_key.h"
#include "client/preload/preload.h"
#include "keygen/domains.h"

/* The plugins that one process may load: X(n). */
#define PLUGIN_LIST(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

typedef struct pjrt_api *(*get_api)(void);

struct table {
    const struct pjrt_api *real;
    struct pjrt_api *as_found; /* a copy, which shows if another plugin took its place */
    struct pjrt_api *ours;
};
struct plugin {
    _Atomic(get_api) get;
    _Atomic(struct table *) table;
    _Atomic(struct pjrt_identity *) identity;
    _Atomic(struct pjrt_target *) targets;
};
#define X(n) {0},
static struct plugin plugins[] = {PLUGIN_LIST(X)};
#undef X

/* ---- one compile ---- */

/* A compile that has a key. */
struct pjrt_job {
    const struct table *table;
    struct pjrt_compile_args *args;
    struct pjrt_key key;
    struct leased_entry entry;
};

static struct pjrt_error *compile_real(const struct table *t, struct pjrt_compile_args *args)
{
    return ((pjrt_call)t->real->fn[PJRT_CLIENT_COMPILE])(args);
}

static bool job_load(struct pjrt_job *j, struct view executable)
{
    struct pjrt_deserialize_args load = {.head = {sizeof load, NULL},
                                         .client = j->args->client,
                                         .data = executable.data,
                                         .len = executable.len};
    if (!pjrt_ask(j->table->real, PJRT_EXECUTABLE_DESERIALIZE_AND_LOAD, &load))
        return false;
    j->args->executable = load.executable;
    return true;
}

/* Copies a text for people, as one line. */
static void to_line(struct view text, char *out, size_t cap)
{
    snprintf(out, cap, "%.*s", (int)text.len, (const char *)text.data);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

/* Writes the target and the device's name, "sm_90 NVIDIA H100": filters find the target in front. */
static void write_hardware(const struct pjrt_platform *platform, char *out, size_t cap)
{
    char target[16] = "";
    size_t at = 0;
    for (size_t i = 0; i < platform->capability.len && at + 1 < sizeof target - 4; i++) {
        char c = ((const char *)platform->capability.data)[i];
        if (c >= '0' && c <= '9')
            target[at++] = c;
    }
    target[at] = '\0';
    size_t len = *target ? (size_t)snprintf(out, cap, "sm_%s ", target) : 0;
    to_line(platform->device_kind, out + len, cap - len);
}

/* Stores the executable. One that cannot be is remembered as such, so that nobody waits for it. */
static void job_store(struct pjrt_job *j, uint32_t cost_ms)
{
    const struct pjrt_api *api = j->table->real;
    struct pjrt_get_executable_args get = {{sizeof get, NULL}, j->args->executable, NULL};
    if (!pjrt_ask(api, PJRT_LOADED_EXECUTABLE_GET_EXECUTABLE, &get))
        return;
    struct pjrt_serialize_args serialize = {.head = {sizeof serialize, NULL},
                                            .executable = get.executable};
    if (pjrt_ask(api, PJRT_EXECUTABLE_SERIALIZE, &serialize)) {
        if (serialize.len) {
            char hardware[80], compiler[64];
            write_hardware(&j->key.platform, hardware, sizeof hardware);
            to_line(j->key.platform.version, compiler, sizeof compiler);
            leased_entry_put(&j->entry, serialize.data, serialize.len,
                             (struct warm_put_options){.kind = "executable",
                                                       .cost_ms = cost_ms,
                                                       .hardware = hardware,
                                                       .compiler = compiler});
        }
        if (serialize.free_serialized)
            serialize.free_serialized(serialize.serialized);
    }
    if (!serialize.len)
        leased_entry_mark(&j->entry, "the plugin does not serialize this executable",
                          LEASED_ENTRY_RETRY_MS);
    struct pjrt_object_args destroy = {{sizeof destroy, NULL}, get.executable};
    pjrt_ask(api, PJRT_EXECUTABLE_DESTROY, &destroy);
}

static struct pjrt_error *job_run(struct pjrt_job *j)
{
    struct view executable;
    int code = leased_entry_get(&j->entry, &executable);
    if (code == 0 && job_load(j, executable))
        return NULL;
    uint64_t start_ms = conn_now_ms();
    struct pjrt_error *error = compile_real(j->table, j->args);
    if (!error && leased_entry_is_ours(code))
        job_store(j, (uint32_t)(conn_now_ms() - start_ms));
    return error;
}

/* Returns the plugin's identity, found once: a loaded plugin does not change. NULL if unknown. */
static const struct pjrt_identity *identity_of(struct plugin *p, struct warm *w,
                                               const struct pjrt_api *api,
                                               struct pjrt_client *client)
{
    struct pjrt_identity *known = atomic_load(&p->identity), *found;
    char path[4096];
    void *get;
    get_api real = atomic_load(&p->get);
    memcpy(&get, &real, sizeof get);
    if (known || !preload_library_of(get, path, sizeof path) || !(found = malloc(sizeof *found)))
        return known;
    if (pjrt_identity_find(w, path, !pjrt_is_cpu(api, client), found) &&
        atomic_compare_exchange_strong(&p->identity, &known, found))
        return found;
    free(found);
    return known;
}

/* True if the arguments have all fields that we read and write. */
static bool arguments_are_known(const struct pjrt_compile_args *args)
{
    return args->head.struct_size >= sizeof *args && args->client && args->program &&
           args->program->head.struct_size >= sizeof *args->program && args->program->code;
}

static struct pjrt_error *plugin_compile(struct plugin *p, struct pjrt_compile_args *args)
{
    struct pjrt_job j = {.table = atomic_load(&p->table), .args = args};
    struct pjrt_error *error;
    const struct pjrt_api *real = j.table->real;
    struct warm *w = arguments_are_known(args) ? connection_pool_borrow() : NULL;
    if (!w)
        return compile_real(j.table, args);
    const struct pjrt_identity *identity = identity_of(p, w, real, args->client);
    if (identity && pjrt_key_make(real, identity, atomic_load(&p->targets), args, &j.key) == 0) {
        leased_entry_begin(&j.entry, w, "pjrt:1:", &j.key.proof);
        error = job_run(&j);
        leased_entry_end(&j.entry);
    } else {
        error = compile_real(j.table, args);
    }
    connection_pool_return(w);
    return error;
}

/* ---- custom calls that the program registers ---- */

static void note_target(struct plugin *p, int extension, const struct pjrt_register_args *args)
{
    struct pjrt_target *t = malloc(sizeof *t + args->target_len);
    struct key_builder b;
    struct proof unused;
    if (!t)
        return;
    memcpy(t->name, args->target, args->target_len);
    t->len = args->target_len;
    key_begin(&b, DOMAIN_PJRT_TARGET);
    key_add_u64(&b, 1, (uint64_t)extension);
    key_add_u64(&b, 2, (uint64_t)args->api_version);
    key_end(&b, &t->how, &unused);
    struct pjrt_target *first = atomic_load(&p->targets);
    do
        t->next = first;
    while (!atomic_compare_exchange_weak(&p->targets, &first, t));
}

static const struct pjrt_extension *extension_find(const struct pjrt_extension *e, int type)
{
    enum { MOST = 256 };
    for (int i = 0; e && i < MOST; i++, e = e->next)
        if (e->type == type)
            return e;
    return NULL;
}

static struct pjrt_error *plugin_register(struct plugin *p, int extension,
                                          struct pjrt_register_args *args)
{
    const struct pjrt_api *real = atomic_load(&p->table)->real;
    const struct pjrt_extension *e = extension_find(real->extensions, extension);
    struct pjrt_error *error = extension == PJRT_EXTENSION_FFI
                                   ? ((const struct pjrt_ffi_extension *)e)->register_call(args)
                                   : ((const struct pjrt_gpu_extension *)e)->register_call(args);
    if (!error && args->struct_size >= sizeof *args)
        note_target(p, extension, args);
    return error;
}

/* ---- the table ---- */

struct functions {
    get_api get;
    pjrt_call compile;
    struct pjrt_error *(*register_gpu)(struct pjrt_register_args *args);
    struct pjrt_error *(*register_ffi)(struct pjrt_register_args *args);
};

static bool version_is_known(const struct pjrt_api *api)
{
    return api->struct_size >=
               offsetof(struct pjrt_api, fn) +
                   (PJRT_EXECUTABLE_DESERIALIZE_AND_LOAD + 1) * sizeof(pjrt_function) &&
           api->version.major == PJRT_MAJOR && api->version.minor >= PJRT_MINOR_MIN &&
           api->version.minor <= PJRT_MINOR_MAX;
}

static void *copy_of(const void *data, size_t len)
{
    void *copy = malloc(len);
    return copy ? memcpy(copy, data, len) : NULL;
}

/* Returns a copy of the chain in which the registration of custom calls is ours. The rest of the
 * chain stays the plugin's if memory runs out, or if an extension is too small. */
static struct pjrt_extension *copy_extensions(struct pjrt_extension *e, const struct functions *f)
{
    enum { MOST = 256 };
    struct pjrt_extension *first = e, **link = &first;
    for (int i = 0; e && i < MOST && e->struct_size >= sizeof *e; i++, e = e->next) {
        struct pjrt_extension *copy = copy_of(e, e->struct_size);
        if (!copy)
            break;
        struct pjrt_gpu_extension *gpu = (struct pjrt_gpu_extension *)copy;
        struct pjrt_ffi_extension *ffi = (struct pjrt_ffi_extension *)copy;
        if (copy->type == PJRT_EXTENSION_GPU_CUSTOM_CALL && copy->struct_size >= sizeof *gpu)
            gpu->register_call = f->register_gpu;
        else if (copy->type == PJRT_EXTENSION_FFI && copy->struct_size >= sizeof *ffi)
            ffi->register_call = f->register_ffi;
        *link = copy;
        link = &copy->next;
    }
    return first;
}

static struct table *table_make(const struct pjrt_api *real, const struct functions *f)
{
    struct table *t = malloc(sizeof *t);
    if (!t)
        return NULL;
    t->real = real;
    t->as_found = copy_of(real, real->struct_size);
    t->ours = copy_of(real, real->struct_size);
    if (!t->as_found || !t->ours) {
        free(t->as_found);
        free(t->ours);
        free(t);
        return NULL;
    }
    t->ours->fn[PJRT_CLIENT_COMPILE] = (pjrt_function)f->compile;
    t->ours->extensions = copy_extensions(t->ours->extensions, f);
    return t;
}

/* Returns the table for the program: ours, or the real one. If two threads make ours at once, one
 * copy stays unused; tables are never freed. */
static struct pjrt_api *plugin_api(struct plugin *p, const struct functions *f)
{
    struct pjrt_api *real = atomic_load(&p->get)();
    struct table *t = atomic_load(&p->table), *made;
    if (!real || !version_is_known(real) || environment_is_set("WARM_DISABLE"))
        return real;
    if (!t && (made = table_make(real, f)) != NULL)
        t = atomic_compare_exchange_strong(&p->table, &t, made) ? made : t;
    bool same = t && t->real == real && t->as_found->struct_size == real->struct_size &&
                memcmp(t->as_found, real, real->struct_size) == 0;
    return same ? t->ours : real;
}

#define X(n)                                                                                       \
    static struct pjrt_api *get_##n(void);                                                         \
    static struct pjrt_error *compile_##n(void *args)                                              \
    {                                                                                              \
        return plugin_compile(&plugins[n], args);                                                  \
    }                                                                                              \
    static struct pjrt_error *register_gpu_##n(struct pjrt_register_args *args)                    \
    {                                                                                              \
        return plugin_register(&plugins[n], PJRT_EXTENSION_GPU_CUSTOM_CALL, args);                 \
    }                                                                                              \
    static struct pjrt_error *register_ffi_##n(struct pjrt_register_args *args)                    \
    {                                                                                              \
        return plugin_register(&plugins[n], PJRT_EXTENSION_FFI, args);                             \
    }
PLUGIN_LIST(X)
#undef X
#define X(n) {get_##n, compile_##n, register_gpu_##n, register_ffi_##n},
static const struct functions functions[] = {PLUGIN_LIST(X)};
#undef X
#define X(n)                                                                                       \
    static struct pjrt_api *get_##n(void) { return plugin_api(&plugins[n], &functions[n]); }
PLUGIN_LIST(X)
#undef X

/* Returns the set of functions of a plugin; the same one each time. */
void *pjrt_stand_in(const char *name, void *real)
{
    get_api get;
    void *stand_in;
    memcpy(&get, &real, sizeof get);
    if (!preload_may_stand_in(name, real) || strcmp(name, "GetPjrtApi") != 0)
        return real;
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
        get_api there = NULL;
        if (atomic_compare_exchange_strong(&plugins[i].get, &there, get) || there == get) {
            memcpy(&stand_in, &functions[i].get, sizeof stand_in);
            return stand_in;
        }
    }
    return real;
}

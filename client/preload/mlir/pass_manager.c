/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass_manager.c - decides if a run of MLIR passes is served from the cache. It stands in for
 * mlirPassManagerRunOnOp, which Reactant.jl calls, if WARM_MLIR=1: the module that an earlier run
 * made takes the place of the program's module. dl.c asks it for the stand-in.
 *
 * A run:
 *     module and pipeline as text ─▶ key ─▶ get, with a lease ─┬─ there: parse, put in its place
 *                                                              └─ ours to make: the real run, put
 * Failure modes:
 *     no daemon, no module, addresses or elided constants in it: the real run, nothing stored;
 *     an entry that does not parse: the real run, and its result replaces the entry;
 *     the real run fails: the program gets the failure, and the lease goes to the next waiter.
 *
 * The key covers the text without locations and without the module's own name, the pipeline, and
 * the library by content. The order of statements counts, because a gradient adds up in that order.
 *
 * The program may hold operations of the module's block: Reactant holds the function that it
 * compiles. An operation that has the same name before and after stays the same object, with
 * another body. Operations inside of functions are destroyed, as any pass may do.
 *
 * Thread: the caller's, the only one that uses the module; one library in a process.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/environment.h"
#include "client/preload/connection_pool.h"
#include "client/preload/leased_entry.h"
#include "client/preload/mlir/api.h"
#include "client/preload/preload.h"
#include "keygen/domains.h"

enum { TAG_LIBRARY = 1, TAG_PIPELINE, TAG_HEAD, TAG_BODY };

static _Atomic(const struct mlir_api *) the_api;

/* ---- text ---- */

static void on_text(mlir_text text, void *user) { writer_bytes(user, text.data, text.len); }

static mlir_text text_of_name(const char *name) { return (mlir_text){name, strlen(name)}; }

static bool text_equal(mlir_text a, mlir_text b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* True if another process can use the text: it has no addresses, no numbers of one process, and no elided
 * constants. */
static bool may_keep(const struct writer *text)
{
    if (!WARM_EXPECT(text->data || !text->len))
        return false;
    static const char *const denied[] = {
        "enzymexla_compile_",  "cuResultHandlerPtr=",    "python_cpu_callback",
        "python_gpu_callback", "CustomSPMDPartitioning", "InspectSharding",
        "__elided__"};
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
        if (memmem(text->data, text->len, denied[i], strlen(denied[i])))
            return false;
    return !text->failed;
}

/* Finds the name in `module @name attributes`; aliases may come before. Empty if there is none. */
static struct view module_name(struct view text)
{
    static const char start[] = "module @";
    const char *at = text.data, *end = at + text.len;
    while (at && end - at >= (ptrdiff_t)sizeof start) {
        if (memcmp(at, start, sizeof start - 1) == 0) {
            const char *name = at + sizeof start - 1, *to = name;
            bool quoted = *name == '"';
            for (to += quoted; to < end && *to != '\n' && *to != (quoted ? '"' : ' '); to++)
                ;
            return (struct view){name, (size_t)(to - name) + (quoted && to < end)};
        }
        if (memcmp(at, "module", 6) == 0)
            break; /* no name; a nested module may have one */
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    return (struct view){text.data, 0};
}

static bool key_of_run(struct warm *w, const struct writer *pipeline, const struct writer *source,
                       struct proof *out)
{
    char path[4096], identity[WARM_IDENTITY_TEXT];
    const struct mlir_api *api = atomic_load(&the_api);
    void *run;
    struct key unused;
    struct key_builder b;
    memcpy(&run, &api->run, sizeof run);
    if (!preload_library_of(run, path, sizeof path) || warm_file_identity(w, path, identity))
        return false;
    struct view name = module_name((struct view){source->data, source->len});
    size_t head = (size_t)((const char *)name.data - (const char *)source->data);
    if (!WARM_EXPECT(head <= source->len && name.len <= source->len - head)) /* it is a part */
        return false;
    key_begin(&b, DOMAIN_MLIR_PASSES);
    key_add_text(&b, TAG_LIBRARY, identity);
    key_add(&b, TAG_PIPELINE, pipeline->data, pipeline->len);
    key_add(&b, TAG_HEAD, source->data, head);
    key_add(&b, TAG_BODY, (const char *)name.data + name.len, source->len - head - name.len);
    key_end(&b, &unused, out);
    return true;
}

/* ---- putting one module in the place of another ---- */

/* Returns the operations of a module's block (free()). NULL if there is more than one block, or an
 * operation with results, which others of the block may use. */
static mlir_operation *operations_of(const struct mlir_api *api, mlir_operation module,
                                     mlir_block *out_block, size_t *out_n)
{
    mlir_block block = api->first_block(api->region(module, 0));
    if (!block.ptr || api->next_block(block).ptr)
        return NULL;
    size_t n = 0;
    for (mlir_operation o = api->first(block); o.ptr; o = api->next(o), n++)
        if (api->n_results(o) != 0)
            return NULL;
    mlir_operation *all = calloc(n + 1, sizeof *all), *to = all;
    for (mlir_operation o = api->first(block); all && o.ptr; o = api->next(o))
        *to++ = o;
    if (all && !WARM_EXPECT((size_t)(to - all) == n)) { /* nobody else changes the block */
        free(all);
        return NULL;
    }
    *out_block = block;
    *out_n = n;
    return all;
}

static bool is_same_symbol(const struct mlir_api *api, mlir_operation a, mlir_operation b)
{
    mlir_text name = text_of_name("sym_name");
    mlir_attribute left = api->attribute(a, name), right = api->attribute(b, name);
    return left.ptr && right.ptr && api->attribute_equal(left, right) && api->n_regions(a) == 1 &&
           api->n_regions(b) == 1 &&
           text_equal(api->text_of(api->name_of(a)), api->text_of(api->name_of(b)));
}

/* Copies the attributes of `from` to `to`, which keeps its own name. */
static void copy_attributes(const struct mlir_api *api, mlir_operation to, mlir_operation from)
{
    mlir_text own = text_of_name("sym_name");
    for (intptr_t i = api->n_attributes(to); i-- > 0;) {
        mlir_text name = api->text_of(api->attribute_at(to, i).name);
        if (!api->attribute(from, name).ptr && !text_equal(name, own))
            api->remove_attribute(to, name);
    }
    for (intptr_t i = 0; i < api->n_attributes(from); i++) {
        mlir_named a = api->attribute_at(from, i);
        if (!text_equal(api->text_of(a.name), own))
            api->set_attribute(to, api->text_of(a.name), a.attribute);
    }
}

static void replace_body(const struct mlir_api *api, mlir_block block, mlir_operation *old,
                         size_t n_old, const mlir_operation *made, size_t n_made)
{
    for (size_t i = 0; i < n_made; i++) {
        mlir_operation stays = made[i];
        for (size_t k = 0; k < n_old; k++) {
            if (old[k].ptr && is_same_symbol(api, old[k], made[i])) {
                stays = old[k];
                old[k].ptr = NULL;
                api->take_body(api->region(stays, 0), api->region(made[i], 0));
                copy_attributes(api, stays, made[i]);
                break;
            }
        }
        api->remove(stays);
        api->append(block, stays);
    }
    for (size_t k = 0; k < n_old; k++)
        if (old[k].ptr)
            api->destroy(old[k]);
}

static bool put_in_place(const struct mlir_api *api, mlir_operation module, struct view text)
{
    mlir_module parsed =
        api->parse(api->context_of(module), (mlir_text){(const char *)text.data, text.len});
    if (!parsed.ptr)
        return false;
    mlir_operation from = api->module_operation(parsed);
    mlir_block block = {0}, unused;
    size_t n_old = 0, n_made = 0;
    mlir_operation *old = operations_of(api, module, &block, &n_old);
    mlir_operation *made = operations_of(api, from, &unused, &n_made);
    if (old && made) {
        copy_attributes(api, module, from);
        replace_body(api, block, old, n_old, made, n_made);
    }
    bool done = old && made;
    free(old);
    free(made);
    api->module_destroy(parsed);
    return done;
}

/* ---- one run ---- */

struct pass_run {
    const struct mlir_api *api;
    mlir_pass_manager manager;
    mlir_operation module;
    struct writer pipeline, source;
};

static void run_put(struct pass_run *r, struct leased_entry *e, uint64_t cost_ms)
{
    struct writer result;
    bool is_gradient = memmem(r->source.data, r->source.len, "enzyme.", 7) != NULL;
    writer_init(&result, 0);
    r->api->print(r->module, on_text, &result);
    if (may_keep(&result))
        leased_entry_put(e, result.data, result.len,
                         (struct warm_put_options){.kind = is_gradient ? "backward" : "graph",
                                                   .cost_ms = (uint32_t)cost_ms,
                                                   .compiler = "MLIR passes"});
    else
        leased_entry_mark(e, "the module that the passes made holds an address of this process",
                          LEASED_ENTRY_RETRY_MS);
    writer_close(&result);
}

static mlir_result run_kept(struct pass_run *r, struct leased_entry *e)
{
    struct view text;
    int code = leased_entry_get(e, &text);
    if (code == 0 && put_in_place(r->api, r->module, text))
        return (mlir_result){1};
    uint64_t start_ms = conn_now_ms();
    mlir_result result = r->api->run(r->manager, r->module);
    if (result.value && leased_entry_is_ours(code))
        run_put(r, e, conn_now_ms() - start_ms);
    return result;
}

static mlir_result run_with(struct pass_run *r, struct warm *w)
{
    struct leased_entry entry;
    struct proof proof;
    const struct mlir_api *api = r->api;
    if (!WARM_EXPECT(r->api && w && !r->pipeline.len && !r->source.len))
        return r->api->run(r->manager, r->module);
    api->print_passes(api->passes_of(r->manager), on_text, &r->pipeline);
    api->print(r->module, on_text, &r->source);
    if (!may_keep(&r->pipeline) || !may_keep(&r->source) ||
        !key_of_run(w, &r->pipeline, &r->source, &proof))
        return api->run(r->manager, r->module);
    leased_entry_begin(&entry, w, "mlir:1:", &proof);
    mlir_result result = run_kept(r, &entry);
    leased_entry_end(&entry);
    return result;
}

static mlir_result stand_in_run(mlir_pass_manager manager, mlir_operation module)
{
    const struct mlir_api *api = atomic_load(&the_api);
    struct pass_run r = {.api = api, .manager = manager, .module = module};
    bool is_module = module.ptr && !expect_is_off() &&
                     text_equal(api->text_of(api->name_of(module)), text_of_name("builtin.module"));
    struct warm *w = is_module ? connection_pool_borrow() : NULL;
    if (!w)
        return api->run(manager, module);
    writer_init(&r.pipeline, 0);
    writer_init(&r.source, 0);
    mlir_result result = run_with(&r, w);
    writer_close(&r.pipeline);
    writer_close(&r.source);
    connection_pool_return(w);
    return result;
}

/* ---- the library ---- */

/* Returns all functions of the library of `run`; NULL if one is missing. */
static struct mlir_api *api_find(void *run)
{
    char path[4096];
    struct mlir_api *api = calloc(1, sizeof *api);
    void *handle = preload_library_of(run, path, sizeof path)
                       ? preload_open_library(path, "mlirPassManagerRunOnOp", run)
                       : NULL;
    bool whole = api && handle;
    void *found;
#define X(type, name, symbol, parameters)                                                          \
    found = whole ? preload_real_dlsym(handle, symbol) : NULL;                                     \
    if (found)                                                                                     \
        memcpy(&api->name, &found, sizeof found);                                                  \
    whole = whole && found;
    MLIR_FUNCTIONS(X)
#undef X
    if (!whole) {
        free(api);
        return NULL;
    }
    return api;
}

/* Returns the stand-in for the first library of the process only. The passes of another one run as without
 * us. */
void *mlir_stand_in(const char *name, void *real)
{
    mlir_result (*function)(mlir_pass_manager, mlir_operation) = stand_in_run;
    const struct mlir_api *known = atomic_load(&the_api);
    void *stand_in, *run = NULL;
    if (!preload_may_stand_in(name, real) || strcmp(name, "mlirPassManagerRunOnOp") != 0 ||
        !environment_is_set("WARM_MLIR"))
        return real;
    if (!known) {
        struct mlir_api *api = api_find(real);
        if (!api)
            return real;
        if (!atomic_compare_exchange_strong(&the_api, &known, api))
            free(api);
        known = atomic_load(&the_api);
    }
    memcpy(&run, &known->run, sizeof run);
    memcpy(&stand_in, &function, sizeof stand_in);
    return run == real ? stand_in : real;
}

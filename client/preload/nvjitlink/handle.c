/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c - decides if a link is served from the cache, and answers every function on a handle.
 * The stand-ins of nvjitlink.c call it; nvjitlink.h draws the states.
 *
 *   Complete, happy path:                        And else:
 *     1. make the key of all inputs                 - options that we do not know, files: REAL
 *     2. GET with a lease; a hit: SERVED            - no daemon, no answer in time: REAL
 *     3. a lease: link for real, PUT the outputs    - a link that fails is not stored: the lease is
 *        and, for each input, that it was accepted    given back
 *
 * The value is a bundle: for each of the five outputs one section, u32 return code, then the bytes.
 *
 * Thread: any for different handles, no lock.
 */
#include "client/preload/nvjitlink/nvjitlink.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/ptx_files.h"
#include "client/lib/ptxas_log.h"
#include "client/preload/compiler_variables.h"
#include "client/preload/connection_pool.h"
#include "client/preload/handle_table.h"
#include "client/preload/leased_entry.h"
#include "client/preload/refused_images.h"
#include "client/wire/bundle.h"
#include "keygen/cuda/options.h"
#include "keygen/domains.h"
#include "keygen/key.h"

enum { CUBIN, PTX, LTOIR, ERROR_LOG, INFO_LOG, OUTPUTS };
enum { TYPE_CUBIN = 1, TYPE_PTX, TYPE_LTOIR };
enum { SECTION_FIRST = 64 /* + output: no type of a compile's result */ };
enum { INPUTS_MAX = 256, NAME_BYTES = 96 };
#define PTXAS "-Xptxas="

enum state { FRESH, SERVED, REAL };

struct jit_input {
    int type;
    bool kept_back; /* not yet added to the real handle */
    char *name;     /* NULL: none */
    void *data;     /* its bytes while it is kept back */
    size_t len;
    char accepted[NAME_BYTES]; /* name of the entry "accepted" to store; "": stored already */
};

struct link {
    struct jitlink_library *library;
    enum state state;
    char **options;
    size_t n_options;
    bool has_lines;      /* the linker is asked for line tables */
    struct proof so_far; /* SHA-256 of library, options and inputs; zero unless has_key */
    bool has_key;
    struct jit_input inputs[INPUTS_MAX];
    size_t n_inputs;
    int refused; /* what the real library returned for an input that was kept back; 0: it took all */
    struct warm_value value; /* SERVED: the outputs lie in it */
    struct {
        int rc;
        struct view bytes;
    } outputs[OUTPUTS];
};

static struct handle_table table;

static struct link *link_of(const void *handle) { return handle_table_find(&table, handle); }

static struct link *served(const void *handle)
{
    struct link *l = link_of(handle);
    return l && l->state == SERVED ? l : NULL;
}

/* ---- life ---- */

static void drop_inputs(struct link *l)
{
    for (size_t i = 0; i < l->n_inputs; i++) {
        free(l->inputs[i].name);
        free(l->inputs[i].data);
    }
    l->n_inputs = 0;
}

static void link_free(void *state)
{
    struct link *l = state;
    if (!l)
        return;
    drop_inputs(l);
    for (size_t i = 0; l->options && i < l->n_options; i++)
        free(l->options[i]);
    free(l->options);
    warm_value_free(&l->value);
    free(l);
}

/* True for the options of nvJitLink.h, 12.0 to 13.5, that change code or logs alone. Not -time and -verbose, whose logs
 * have times, and not -Xnvvm and -Ofc, for ptxas too, which may change later links of the process. */
static bool option_is_known(const char *option)
{
    if (text_has_one_of(option, ONE_OF("-Ofc", "-Ofast")))
        return false;
    return text_is_one_of(option,
                          ONE_OF("-lto", "-dlto", "-ptx", "-ltoir", "-g", "-lineinfo", "-r", "-O0",
                                 "-O1", "-O2", "-O3", "-no-cache", "-optimize-unused-variables")) ||
           text_begins_with_one(option,
                                ONE_OF("-arch=", "-maxrregcount=", "-ftz=", "-prec-div=",
                                       "-prec-sqrt=", "-fma=", "-kernels-used=", "-variables-used=",
                                       "-split-compile=", "-split-compile-extended=",
                                       "-jump-table-density=", "-device-stack-protector=", PTXAS));
}

/* True if all options for ptxas are in its table, and name no file. */
static bool ptxas_takes(uint32_t n, const char **options)
{
    struct view *given = calloc((size_t)n + 1, sizeof *given);
    struct options parsed;
    size_t n_given = 0;
    for (uint32_t i = 0; given && i < n; i++)
        if (text_begins(options[i], PTXAS))
            given[n_given++] =
                (struct view){options[i] + sizeof PTXAS - 1, strlen(options[i]) - sizeof PTXAS + 1};
    bool takes = given && options_parse(OPTIONS_PTXAS, 0, given, n_given, &parsed, NULL) == 0;
    if (takes) {
        takes = parsed.input < 0 && parsed.output < 0;
        options_close(&parsed);
    }
    free(given);
    return takes;
}

static struct link *link_new(struct jitlink_library *library, uint32_t n, const char **options)
{
    struct link *l = calloc(1, sizeof *l);
    if (l)
        l->options = calloc((size_t)n + 1, sizeof *l->options);
    bool known = n == 0 || options, ok = l && l->options, has_times = false;
    for (uint32_t i = 0; known && i < n; i++) {
        bool times = options[i] && text_is_one_of(options[i], ONE_OF("-time", "-verbose"));
        known = options[i] && (times || option_is_known(options[i]));
        has_times |= times;
    }
    if (!known)
        atomic_store(&library->took_unknown, true);
    ok = ok && known && !has_times && ptxas_takes(n, options) && !compiler_variables_find();
    for (uint32_t i = 0; ok && i < n; i++) {
        l->options[i] = strdup(options[i]);
        ok = l->options[i];
        l->n_options += ok;
        l->has_lines |= text_is_one_of(options[i], ONE_OF("-g", "-lineinfo"));
    }
    if (ok) {
        l->library = library;
        return l;
    }
    link_free(l);
    return NULL;
}

/* Adds the inputs kept back. The real library accepted the same before; if it now does not, the link fails: the
 * library itself would link without that input. */
static void catch_up(struct link *l, jitlink_handle handle)
{
    for (size_t i = 0; i < l->n_inputs; i++) {
        struct jit_input *in = &l->inputs[i];
        (void)WARM_EXPECT(!in->kept_back || in->data);
        int rc =
            in->kept_back ? l->library->AddData(handle, in->type, in->data, in->len, in->name) : 0;
        l->refused = l->refused ? l->refused : rc;
        in->kept_back = false;
        free(in->data);
        in->data = NULL;
    }
}

/* Leaves the handle to the real library from now on. If it is SERVED, the real library links first: after a
 * link it refuses further inputs, and the program must see that. */
static void pass_on(struct link *l, jitlink_handle handle)
{
    catch_up(l, handle);
    if (l->state == SERVED)
        l->library->Complete(handle);
    l->state = REAL;
    drop_inputs(l);
    warm_value_free(&l->value);
}

/* ---- keys ---- */

/* Begins the key with the library's content. False: no daemon, or the library's file was
 * replaced. */
static bool key_open(struct link *l, struct warm *w)
{
    char identity[WARM_IDENTITY_TEXT];
    struct key_builder b;
    struct key key;
    if (l->has_key)
        return true;
    if (!library_identity(&l->library->at, w, identity))
        return false;
    key_begin(&b, DOMAIN_NVJITLINK);
    key_add_text(&b, 1, identity);
    key_add_text(&b, 2, l->library->at.suffix);
    for (size_t i = 0; i < l->n_options; i++)
        key_add_text(&b, 3, l->options[i]);
    key_end(&b, &key, &l->so_far);
    l->has_key = true;
    return true;
}

/* ---- inputs ---- */

static bool is_known(struct warm *w, const char *name)
{
    struct warm_value v;
    if (warm_get(w, name, strlen(name), 0, &v))
        return false;
    warm_value_free(&v);
    return true;
}

/* Copies an input. A NUL follows: nvJitLink looks for the end of PTX beyond the size that it is given. */
static bool keep_back(struct jit_input *in, const void *data, size_t len)
{
    in->data = calloc(1, len + 1);
    if (!in->data)
        return false;
    if (len)
        memcpy(in->data, data, len);
    in->len = len;
    in->kept_back = true;
    return true;
}

/* True for libraries whose ptxas writes no times of source files beside line tables. */
static bool writes_no_times(const struct jitlink_library *library)
{
    int (*version)(unsigned *major, unsigned *minor) = NULL;
    unsigned major = 0, minor = 0;
    void *handle = dlopen(library->at.path, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? preload_real_dlsym(handle, "nvJitLinkVersion") : NULL;
    memcpy(&version, &found, sizeof found);
    bool known = version && version(&major, &minor) == 0;
    if (handle)
        dlclose(handle);
    return known && (major > 13 || (major == 13 && minor >= 4));
}

/* True if the input may name source files that we cannot read out of it, and the linker writes their times into the cubin. */
static bool hides_files(const struct link *l, int type)
{
    bool may_hold_ptx = type == TYPE_LTOIR ? l->has_lines : type != TYPE_CUBIN && type != TYPE_PTX;
    return may_hold_ptx && !writes_no_times(l->library);
}

/* Adds an input to the key, and counts it in l->n_inputs. True if it is kept back; else the caller must add it
 * to the real handle. If it was not counted, the link cannot be served any more. */
static bool note_input(struct link *l, int type, const void *data, size_t len, const char *name)
{
    if (!WARM_EXPECT(l->state == FRESH && l->n_inputs <= INPUTS_MAX) || hides_files(l, type))
        return false;
    const struct jit_input *before = l->n_inputs ? &l->inputs[l->n_inputs - 1] : NULL;
    bool behind = before && (before->kept_back || before->accepted[0]); /* it is costly */
    struct jit_input *in = &l->inputs[l->n_inputs];
    struct warm *w = l->n_inputs < INPUTS_MAX ? connection_pool_borrow() : NULL;
    if (!w || !key_open(l, w)) {
        connection_pool_return(w);
        return false;
    }
    struct key_builder b;
    struct proof content = proof_of_bytes(data, len);
    struct key key;
    (void)WARM_EXPECT(l->has_key); /* key_open comes first */
    key_begin(&b, DOMAIN_NVJITLINK_INPUT);
    key_add(&b, 1, l->so_far.bytes, sizeof l->so_far.bytes);
    key_add_u64(&b, 2, (uint64_t)type);
    if (name)
        key_add_text(&b, 3, name);
    key_add(&b, 4, content.bytes, sizeof content.bytes);
    if (type == TYPE_PTX)
        ptx_files_add(&b, 5, data, len);
    key_end(&b, &key, &l->so_far);
    *in = (struct jit_input){.type = type, .name = name ? strdup(name) : NULL};
    l->n_inputs++;
    bool is_costly = type == TYPE_PTX || behind;
    if (is_costly) {
        static const char prefix[] = "nvjitlink-input:2:";
        memcpy(in->accepted, prefix, sizeof prefix - 1);
        bytes_to_hex(&l->so_far, sizeof l->so_far, in->accepted + sizeof prefix - 1);
    }
    bool kept =
        is_costly && (!name || in->name) && is_known(w, in->accepted) && keep_back(in, data, len);
    if (kept)
        in->accepted[0] = '\0';
    connection_pool_return(w);
    return kept;
}

int jitlink_on_Create(struct jitlink_library *library, jitlink_handle *out, uint32_t n_options,
                      const char **options)
{
    int rc = library->Create(out, n_options, options);
    if (!rc)
        handle_table_renew(&table, *out, link_new(library, n_options, options), link_free);
    return rc;
}

int jitlink_on_Destroy(struct jitlink_library *library, jitlink_handle *handle)
{
    struct link *l = handle ? handle_table_take(&table, *handle) : NULL;
    int rc = library->Destroy(handle);
    link_free(l);
    return rc;
}

int jitlink_on_AddData(struct jitlink_library *library, jitlink_handle handle, int type,
                       const void *data, size_t size, const char *name)
{
    struct link *l = link_of(handle);
    if (l && l->state == SERVED)
        pass_on(l, handle);
    if (!l || l->state != FRESH)
        return library->AddData(handle, type, data, size, name);
    size_t n = l->n_inputs;
    if (data && note_input(l, type, data, size, name))
        return 0;
    bool is_noted = l->n_inputs > n;
    catch_up(l, handle);
    int rc = library->AddData(handle, type, data, size, name);
    if (rc || !is_noted)
        pass_on(l, handle);
    return rc;
}

/* Leaves the handle to the real library, which alone knows how it reads the file. */
int jitlink_on_AddFile(struct jitlink_library *library, jitlink_handle handle, int type,
                       const char *path)
{
    struct link *l = link_of(handle);
    if (l)
        pass_on(l, handle);
    return library->AddFile(handle, type, path);
}

/* ---- completing ---- */

typedef int (*size_fn)(jitlink_handle handle, size_t *out);

/* Stands for an output that the library has no function for. */
#define NOT_THERE (-1)

/* Writes one output of the real handle as a section, a log without ptxas's times. False if memory
 * ran out. */
static bool take_output(const struct jitlink_library *library, jitlink_handle handle, int output,
                        struct writer *w)
{
    size_fn sizes[OUTPUTS] = {library->GetLinkedCubinSize, library->GetLinkedPtxSize,
                              library->GetLinkedLTOIRSize, library->GetErrorLogSize,
                              library->GetInfoLogSize};
    size_t len = 0;
    int rc = sizes[output] ? sizes[output](handle, &len) : NOT_THERE;
    char *data = rc ? NULL : calloc(1, len + 1);
    if (!rc && !data)
        return false;
    if (!rc && len)
        switch (output) {
        case CUBIN: rc = library->GetLinkedCubin(handle, data); break;
        case PTX: rc = library->GetLinkedPtx(handle, data); break;
        case LTOIR: rc = library->GetLinkedLTOIR(handle, data); break;
        case ERROR_LOG: rc = library->GetErrorLog(handle, data); break;
        default: rc = library->GetInfoLog(handle, data); break;
        }
    if (!rc && (output == ERROR_LOG || output == INFO_LOG))
        len = ptxas_log_drop_times(data, len);
    writer_u32(w, (uint32_t)rc);
    if (!rc)
        writer_bytes(w, data, len);
    free(data);
    return !w->failed;
}

static bool pack(struct link *l, jitlink_handle handle, struct writer *out)
{
    struct writer parts[OUTPUTS];
    struct bundle_section sections[OUTPUTS];
    bool ok = true;
    for (int i = 0; i < OUTPUTS; i++) {
        writer_init(&parts[i], 0);
        ok = ok && take_output(l->library, handle, i, &parts[i]);
        sections[i] =
            (struct bundle_section){(uint32_t)(SECTION_FIRST + i), {parts[i].data, parts[i].len}};
    }
    if (ok)
        bundle_write(out, sections, OUTPUTS);
    for (int i = 0; i < OUTPUTS; i++)
        writer_close(&parts[i]);
    return ok && !out->failed;
}

/* Makes the link SERVED with a stored bundle, and takes the value that it lies in. False if it is damaged. */
static bool unpack(struct link *l, struct leased_entry *entry, struct view bundle)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n;
    bool ok = bundle_read(bundle.data, bundle.len, sections, &n, NULL) == 0;
    for (int i = 0; ok && i < OUTPUTS; i++) {
        struct view v = bundle_find(sections, n, (uint32_t)(SECTION_FIRST + i));
        struct reader r = reader_over(v.data, v.len);
        l->outputs[i].rc = (int)reader_u32(&r);
        ok = v.data && !r.failed;
        if (ok)
            l->outputs[i].bytes = (struct view){(const char *)v.data + 4, v.len - 4};
    }
    if (!ok)
        return false;
    l->value = entry->value;
    entry->value = (struct warm_value){0};
    l->state = SERVED;
    return true;
}

/* Stores the outputs, and an entry "accepted" for each input that has none. */
static void store(struct link *l, struct leased_entry *entry, jitlink_handle handle,
                  uint64_t took_ms)
{
    struct writer bundle;
    struct warm_put_options options = {.kind = "cubin",
                                       .cost_ms = (uint32_t)took_ms,
                                       .compiler = "nvJitLink",
                                       .label = "nvJitLink"};
    writer_init(&bundle, 0);
    bool stored =
        pack(l, handle, &bundle) && leased_entry_put(entry, bundle.data, bundle.len, options) == 0;
    writer_close(&bundle);
    options = (struct warm_put_options){.cost_ms = (uint32_t)took_ms, .label = "nvJitLink input"};
    for (size_t i = 0; stored && i < l->n_inputs; i++)
        if (l->inputs[i].accepted[0])
            warm_put(entry->w, l->inputs[i].accepted, strlen(l->inputs[i].accepted), "ok", 2,
                     &options);
}

/* Links the inputs of a FRESH link, or serves it. */
static int complete(struct link *l, jitlink_handle handle, struct leased_entry *entry)
{
    struct view bundle;
    int got = leased_entry_get(entry, &bundle);
    if (got == 0 && unpack(l, entry, bundle))
        return 0;
    uint64_t start_ms = conn_now_ms();
    catch_up(l, handle);
    int rc = l->refused ? l->refused : l->library->Complete(handle);
    if (rc == 0 && leased_entry_is_ours(got) && !atomic_load(&l->library->took_unknown))
        store(l, entry, handle, conn_now_ms() - start_ms);
    pass_on(l, handle);
    return rc;
}

int jitlink_on_Complete(struct jitlink_library *library, jitlink_handle handle)
{
    struct link *l = link_of(handle);
    struct leased_entry entry;
    bool may_serve = l && l->state == FRESH && l->n_inputs;
    struct warm *w = may_serve ? connection_pool_borrow() : NULL;
    if (!w) {
        if (l)
            pass_on(l, handle);
        return l && l->refused ? l->refused : library->Complete(handle);
    }
    leased_entry_begin(&entry, w, "nvjitlink:2:", &l->so_far);
    int rc = complete(l, handle, &entry);
    leased_entry_end(&entry);
    connection_pool_return(w);
    return rc;
}

/* ---- answers of a handle ---- */

static int show_size(const struct link *l, int output, size_t *out)
{
    if (l->outputs[output].rc == 0)
        *out = l->outputs[output].bytes.len;
    return l->outputs[output].rc;
}

static int show_bytes(const struct link *l, int output, void *out)
{
    if (l->outputs[output].rc == 0 && l->outputs[output].bytes.len)
        memcpy(out, l->outputs[output].bytes.data, l->outputs[output].bytes.len);
    return l->outputs[output].rc;
}

/* Shows the cubin, and remembers it: the program will load it into a driver. */
static int show_cubin(const struct link *l, int output, void *out)
{
    struct view cubin = l->outputs[output].bytes;
    refused_images_remember(cubin.data, cubin.len,
                            refused_images_target((const char *const *)l->options, l->n_options),
                            &l->value);
    return show_bytes(l, output, out);
}

/* Shows a log. The real library ends even an empty one with a NUL. */
static int show_log(const struct link *l, int output, void *out)
{
    if (l->outputs[output].rc == 0 && l->outputs[output].bytes.len == 0)
        *(char *)out = '\0';
    return show_bytes(l, output, out);
}

/* Answers from the stored outputs, or passes on. Logs of an incomplete link depend on its inputs,
 * so those kept back are added first. The real library refuses missing arguments. */
#define SHOW(name, out_type, show, output)                                                         \
    int jitlink_on_##name(struct jitlink_library *library, jitlink_handle handle, out_type *out)   \
    {                                                                                              \
        struct link *l = link_of(handle);                                                          \
        if (served(handle) && out)                                                                 \
            return show(l, output, out);                                                           \
        if (l && l->state == FRESH)                                                                \
            catch_up(l, handle);                                                                   \
        return library->name(handle, out);                                                         \
    }
SHOW(GetLinkedCubinSize, size_t, show_size, CUBIN)
SHOW(GetLinkedCubin, void, show_cubin, CUBIN)
SHOW(GetLinkedPtxSize, size_t, show_size, PTX)
SHOW(GetLinkedPtx, char, show_bytes, PTX)
SHOW(GetLinkedLTOIRSize, size_t, show_size, LTOIR)
SHOW(GetLinkedLTOIR, void, show_bytes, LTOIR)
SHOW(GetErrorLogSize, size_t, show_size, ERROR_LOG)
SHOW(GetErrorLog, char, show_log, ERROR_LOG)
SHOW(GetInfoLogSize, size_t, show_size, INFO_LOG)
SHOW(GetInfoLog, char, show_log, INFO_LOG)

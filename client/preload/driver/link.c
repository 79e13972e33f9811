/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - decides if a link of the program (cuLinkCreate, …AddData, …AddFile, …Complete) is served
 * from the cache. driver.c hands out these functions.
 *
 *     create ─▶ create the real link too; begin the key with options and device
 *     add ────▶ extend the key; did the driver accept these inputs before?
 *                 yes: hold the input back       no: add it to the real link now
 *     complete ▶ whole key: a hit ─▶ our cubin and logs
 *                 a miss ─▶ add the inputs held back, complete; store cubin and logs, and for each
 *                 input so far that the driver accepts it
 *     destroy ─▶ destroy the real link too
 *
 * So an input that the driver refuses is refused when it is added, as without us. Inputs count byte
 * for byte, with their names; files by content. Anything unusual (options of one input, unknown
 * options, a second completion) leaves the link to the driver: it gets all inputs held back, and
 * every later call. So does an object that is linked with the driver's cuLink functions, or gets them from the
 * driver: it may add inputs that no key has.
 *
 * Invariant (1): n_given <= n <= MOST_INPUTS; the driver has the first n_given inputs.
 *
 * Thread: one at a time for each link, as the driver demands.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/conn.h"
#include "client/lib/environment.h"
#include "client/lib/ptx_files.h"
#include "client/lib/ptxas_log.h"
#include "client/preload/connection_pool.h"
#include "client/preload/driver/driver.h"
#include "client/preload/handle_table.h"
#include "client/preload/imports.h"
#include "client/preload/leased_entry.h"
#include "client/preload/preload.h"
#include "keygen/domains.h"
#include "keygen/expect.h"

enum { MOST_INPUTS = 256 };
#define KEPT_MAX ((size_t)256 * 1024 * 1024) /* bytes of all inputs held back */

enum tag { TAG_INPUT = 100, TAG_NAME, TAG_DATA, TAG_FILE, TAG_COMPLETE };

struct link_input {
    bool is_file, known; /* known: the driver accepted it before */
    int type;
    char *name; /* or the path of a file; NULL if there is none */
    void *data;
    size_t len;
    char identity[WARM_IDENTITY_TEXT]; /* of a file */
    struct proof so_far;
};

struct link {
    struct cu_link *real;
    struct jit_options options;
    unsigned info_cap, error_cap;
    struct key_builder *key; /* aligned to 64 bytes */
    struct link_input inputs[MOST_INPUTS];
    size_t n, n_given, held; /* inputs; those that the driver has; bytes held back */
    uint32_t cost_ms;
    bool ours; /* false: left to the driver */
    void *cubin;
    char hardware[64];
};

static struct handle_table table;

static struct link *link_find(const struct cu_link *real)
{
    return handle_table_find(&table, real);
}

static void input_free(struct link_input *in)
{
    free(in->name);
    free(in->data);
}

static void link_free(void *state)
{
    struct link *l = state;
    for (size_t i = 0; i < l->n; i++)
        input_free(&l->inputs[i]);
    free(l->key);
    free(l->cubin);
    free(l);
}

/* ---- the driver's side ---- */

static atomic_bool is_left; /* all links are */

void driver_leave_links(void) { atomic_store(&is_left, true); }

/* True if every call that works on a link comes here: the program has no other functions for it, and no object is
 * linked with the driver's. */
static bool links_are_ours(void)
{
    static const char *const names[] = {"cuLink", "cuGetProcAddress", NULL};
    static _Atomic uint64_t seen;
    if (!atomic_load(&is_left) && imports_any(names, &seen))
        driver_leave_links();
    return !atomic_load(&is_left);
}

/* True if a file that the driver gets now still is the one in the key. */
static bool is_same_file(const struct link_input *in)
{
    char now[WARM_IDENTITY_TEXT];
    return !in->is_file ||
           (warm_file_identity(NULL, in->name, now) == 0 && strcmp(now, in->identity) == 0);
}

/* Gives the driver all inputs held back. */
static int give_all(struct link *l)
{
    (void)WARM_EXPECT(l->n_given <= l->n && l->n <= MOST_INPUTS); /* (1) */
    int code = CU_SUCCESS;
    while (l->n_given < l->n && code == CU_SUCCESS) {
        const struct link_input *in = &l->inputs[l->n_given++];
        const struct driver *d = driver_get();
        uint64_t start_ms = conn_now_ms();
        code = in->is_file ? d->link_add_file(l->real, in->type, in->name, 0, NULL, NULL)
                           : d->link_add_data(l->real, in->type, in->data, in->len, in->name, 0,
                                              NULL, NULL);
        l->cost_ms += (uint32_t)(conn_now_ms() - start_ms);
        if (code != CU_SUCCESS || !is_same_file(in))
            l->ours = false;
    }
    return code;
}

/* Leaves the link to the driver from now on. */
static int leave_to_driver(struct link *l)
{
    l->ours = false;
    return give_all(l);
}

/* ---- creating ---- */

static bool link_begin(struct link *l, unsigned n, int *options, void **values)
{
    struct warm *w;
    jit_options_read(n, options, values, &l->options);
    if (!l->options.plain || !links_are_ours() || !(w = connection_pool_borrow()))
        return false;
    l->key = aligned_alloc(64, (sizeof *l->key + 63) / 64 * 64);
    if (l->key) {
        key_begin(l->key, DOMAIN_DRIVER_LINK);
        jit_options_add(l->key, &l->options);
        l->info_cap = l->options.info.size ? (unsigned)(uintptr_t)*l->options.info.size : 0;
        l->error_cap = l->options.error.size ? (unsigned)(uintptr_t)*l->options.error.size : 0;
        l->ours = driver_add_target(
            driver_get(), w, (struct driver_target){.has_log = jit_options_have_log(&l->options)},
            l->key, l->hardware, sizeof l->hardware);
    }
    connection_pool_return(w);
    return l->ours;
}

int driver_link_create(unsigned n, int *options, void **values, struct cu_link **link)
{
    const struct driver *d = driver_get();
    int code = d->link_create(n, options, values, link);
    if (code != CU_SUCCESS)
        return code;
    struct link *l = calloc(1, sizeof *l);
    if (l)
        l->real = *link;
    if (l && !link_begin(l, n, options, values)) {
        link_free(l);
        l = NULL;
    }
    handle_table_renew(&table, *link, l, link_free);
    return code;
}

/* ---- adding ---- */

static void name_entry(struct leased_entry *e, struct warm *w, const struct proof *proof)
{
    leased_entry_begin(e, w, "cuda-link-input:1:", proof);
}

static bool was_added_before(struct warm *w, const struct proof *so_far)
{
    struct warm_value v;
    struct leased_entry e;
    name_entry(&e, w, so_far);
    if (environment_is_set("WARM_RECACHE") || warm_get(w, e.name, strlen(e.name), 0, &v))
        return false;
    bool same = v.len == sizeof *so_far && memcmp(v.data, so_far, v.len) == 0;
    warm_value_free(&v);
    return same;
}

/* Adds an input to the key. False if the link is full, or a file cannot be known. */
static bool add_to_key(struct link *l, struct warm *w, struct link_input *in, const void *data)
{
    struct key_builder so_far;
    struct key unused;
    bool is_open = WARM_EXPECT(l->ours && l->key && !l->cubin && l->held <= KEPT_MAX);
    if (!is_open || l->n == MOST_INPUTS || in->len > KEPT_MAX - l->held ||
        (in->is_file && warm_file_identity(w, in->name, in->identity) != 0))
        return false;
    key_add_u64(l->key, TAG_INPUT, (uint64_t)in->type);
    key_add_text(l->key, TAG_NAME, in->name ? in->name : "");
    if (in->is_file)
        key_add_text(l->key, TAG_FILE, in->identity);
    else
        key_add(l->key, TAG_DATA, data, in->len);
    if (!in->is_file && in->type == CU_JIT_INPUT_PTX)
        ptx_files_add(l->key, TAG_FILE, data, in->len);
    so_far = *l->key;
    key_end(&so_far, &unused, &in->so_far);
    in->known = was_added_before(w, &in->so_far);
    return true;
}

/* Copies the bytes of an input, with a NUL behind them: a reader of PTX looks for its end. */
static bool hold_back(struct link *l, struct link_input *in, const void *data)
{
    if (!in->is_file && !(in->data = calloc(1, in->len + 1)))
        return false;
    if (!in->is_file)
        memcpy(in->data, data, in->len);
    l->held += in->len;
    return true;
}

/* Decides what becomes of an input. True if it is held back. Else the program's call goes to the driver, behind
 * all earlier inputs; *out_code is an error of one of those. */
static bool take(struct link *l, struct link_input in, const char *name, const void *data,
                 int *out_code)
{
    struct warm *w = links_are_ours() ? connection_pool_borrow() : NULL;
    bool is_added = w && (!name || (in.name = strdup(name)) != NULL) && add_to_key(l, w, &in, data);
    connection_pool_return(w);
    if (!is_added) {
        input_free(&in);
        *out_code = leave_to_driver(l);
        return false;
    }
    bool is_held = in.known && hold_back(l, &in, data);
    if (!is_held)
        *out_code = give_all(l);
    l->inputs[l->n++] = in;
    return is_held;
}

/* Notes what the driver said of the newest input, which the program itself gave to it. */
static int given(struct link *l, uint64_t start_ms, int code)
{
    if (!l->ours)
        return code;
    l->cost_ms += (uint32_t)(conn_now_ms() - start_ms);
    l->n_given = l->n;
    l->ours = code == CU_SUCCESS && is_same_file(&l->inputs[l->n - 1]);
    return code;
}

/* Returns the link if the input may be held back. Else *out_code is an error of an earlier input, or success. */
static struct link *link_for_adding(struct cu_link *link, unsigned n_options, int *out_code)
{
    struct link *l = link_find(link);
    *out_code = CU_SUCCESS;
    if (l && (n_options || l->cubin))
        *out_code = leave_to_driver(l);
    return l && l->ours ? l : NULL;
}

int driver_link_add_data(struct cu_link *link, int type, void *data, size_t len, const char *name,
                         unsigned n, int *options, void **values)
{
    int code;
    struct link *l = link_for_adding(link, n, &code);
    struct link_input in = {.type = type, .len = len};
    if (l && !data)
        code = leave_to_driver(l);
    else if (l && take(l, in, name, data, &code))
        return CU_SUCCESS;
    if (code != CU_SUCCESS)
        return code;
    uint64_t start_ms = conn_now_ms();
    code = driver_get()->link_add_data(link, type, data, len, name, n, options, values);
    return l ? given(l, start_ms, code) : code;
}

int driver_link_add_file(struct cu_link *link, int type, const char *path, unsigned n, int *options,
                         void **values)
{
    int code;
    struct link *l = link_for_adding(link, n, &code);
    struct link_input in = {.type = type, .is_file = true};
    if (l && !path)
        code = leave_to_driver(l);
    else if (l && take(l, in, path, NULL, &code))
        return CU_SUCCESS;
    if (code != CU_SUCCESS)
        return code;
    uint64_t start_ms = conn_now_ms();
    code = driver_get()->link_add_file(link, type, path, n, options, values);
    return l ? given(l, start_ms, code) : code;
}

/* ---- completing ---- */

/* Returns a log as the driver left it: *size, which was the capacity, is its length. */
static struct view log_view(const char *buffer, void *const *size, unsigned cap)
{
    size_t len = size ? (uint32_t)(uintptr_t)*size : 0;
    return (struct view){buffer, len < cap ? len : cap};
}

static void log_give(struct view log, char *buffer, void **size, unsigned cap)
{
    if (!buffer)
        return;
    size_t len = log.len < cap ? log.len : cap;
    memcpy(buffer, log.data, len);
    if (len < cap)
        buffer[len] = 0;
    *size = (void *)(uintptr_t)len;
}

static bool take_kept(struct link *l, struct view kept, void **cubin, size_t *len)
{
    struct reader r = reader_over(kept.data, kept.len);
    struct view info = reader_blob(&r, l->info_cap), error = reader_blob(&r, l->error_cap);
    if (r.failed || r.len == 0 || !WARM_EXPECT(!l->cubin) || !(l->cubin = malloc(r.len)))
        return false;
    memcpy(l->cubin, r.data, r.len);
    log_give(info, l->options.info.buffer, l->options.info.size, l->info_cap);
    log_give(error, l->options.error.buffer, l->options.error.size, l->error_cap);
    *cubin = l->cubin;
    if (len)
        *len = r.len;
    return true;
}

/* Appends a log of the program as a blob, without ptxas's times. */
static void write_log(struct writer *out, struct view log)
{
    struct writer kept;
    writer_init(&kept, 0);
    writer_bytes(&kept, log.data, log.len);
    writer_blob(out, kept.data, ptxas_log_drop_times(kept.data, kept.len));
    out->failed |= kept.failed;
    writer_close(&kept);
}

static void keep(struct link *l, struct leased_entry *e, const void *cubin, size_t len)
{
    struct writer out;
    struct view info = log_view(l->options.info.buffer, l->options.info.size, l->info_cap);
    struct view error = log_view(l->options.error.buffer, l->options.error.size, l->error_cap);
    writer_init(&out, 0);
    write_log(&out, info);
    write_log(&out, error);
    writer_bytes(&out, cubin, len);
    if (!out.failed) {
        leased_entry_put(e, out.data, out.len,
                         (struct warm_put_options){.kind = "cubin",
                                                   .cost_ms = l->cost_ms,
                                                   .hardware = l->hardware,
                                                   .compiler = "CUDA driver"});
        struct warm_put_options options = {.flags = WARM_KEEP_EXISTING,
                                           .kind = "other",
                                           .hardware = l->hardware,
                                           .label = "an input of a link"};
        for (size_t i = 0; i < l->n; i++) {
            struct leased_entry input;
            const struct proof *so_far = &l->inputs[i].so_far;
            name_entry(&input, e->w, so_far);
            if (!l->inputs[i].known)
                warm_put(e->w, input.name, strlen(input.name), so_far, sizeof *so_far, &options);
        }
    }
    writer_close(&out);
}

static int complete_real(struct link *l, struct leased_entry *e, void **cubin, size_t *len)
{
    size_t n = 0;
    int code = give_all(l);
    uint64_t start_ms = conn_now_ms();
    if (code == CU_SUCCESS)
        code = driver_get()->link_complete(l->real, cubin, &n);
    l->cost_ms += (uint32_t)(conn_now_ms() - start_ms);
    if (code == CU_SUCCESS && l->ours && n && leased_entry_may_put())
        keep(l, e, *cubin, n);
    if (code == CU_SUCCESS && len)
        *len = n;
    return code;
}

int driver_link_complete(struct cu_link *link, void **cubin, size_t *len)
{
    struct link *l = link_find(link);
    struct warm *w = NULL;
    struct leased_entry e;
    struct proof proof;
    struct key unused;
    struct view kept;
    bool is_whole = l && l->ours && !l->cubin && cubin && links_are_ours();
    int code = l && !is_whole ? leave_to_driver(l) : CU_SUCCESS;
    if (code != CU_SUCCESS)
        return code;
    if (!l || !l->ours || !l->n || !(w = connection_pool_borrow())) {
        code = l ? leave_to_driver(l) : CU_SUCCESS;
        return code == CU_SUCCESS ? driver_get()->link_complete(link, cubin, len) : code;
    }
    key_add_u64(l->key, TAG_COMPLETE, l->n);
    key_end(l->key, &unused, &proof);
    leased_entry_begin(&e, w, "cuda-link:1:", &proof);
    code = leased_entry_get(&e, &kept);
    if (code == 0 && take_kept(l, kept, cubin, len))
        code = CU_SUCCESS;
    else
        code = complete_real(l, &e, cubin, len);
    l->ours = l->cubin != NULL;
    leased_entry_end(&e);
    connection_pool_return(w);
    return code;
}

int driver_link_destroy(struct cu_link *link)
{
    struct link *l = handle_table_take(&table, link);
    if (l)
        link_free(l);
    return driver_get()->link_destroy(link);
}

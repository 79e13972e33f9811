/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit.c - decides if a program's PTX is loaded as the cubin that the same driver made of it before.
 * The stand-ins of driver.c call it for each load.
 *
 * A load:
 *     suitable PTX, options and device ─▶ key ─▶ get, with a lease
 *     a hit ──────────▶ load the cubin
 *     a lease ────────▶ cuLinkCreate, AddData, Complete ─▶ load the cubin ─▶ put
 * Failure modes:
 *     PTX, options or device are not suitable: the program's PTX is loaded, as without us;
 *     the stored cubin does not load: it is made again and replaces the entry;
 *     the link fails, or its cubin does not load: the program's PTX is loaded, and the program gets
 *     the errors and the log of that;
 *     the linker warns: its cubin is loaded, unless the program asked for logs.
 * In the last two cases a mark is stored instead of a cubin: no later load links, or waits for one that does.
 *
 * Thread: any; no state.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/ptx_files.h"
#include "client/preload/compiler_variables.h"
#include "client/preload/connection_pool.h"
#include "client/preload/driver/driver.h"
#include "client/preload/leased_entry.h"
#include "client/preload/preload.h"
#include "client/preload/refused_images.h"
#include "keygen/canon/canon.h"
#include "keygen/domains.h"

#define PTX_MAX ((size_t)256 * 1024 * 1024)

enum tag {
    TAG_LIBRARY = 1,
    TAG_COMPILER,
    TAG_VERSION,
    TAG_DEVICE,
    TAG_PTX,
    TAG_OPTION,
    TAG_LOG,
    TAG_LIBRARY_LOAD
};

/* ---- options ---- */

static void read_option(int option, void **value, struct jit_options *out)
{
    enum { MOST = sizeof out->code / sizeof *out->code };
    switch (option) {
    case CU_JIT_INFO_LOG: out->info.buffer = *value; break;
    case CU_JIT_INFO_LOG_SIZE: out->info.size = value; break;
    case CU_JIT_ERROR_LOG: out->error.buffer = *value; break;
    case CU_JIT_ERROR_LOG_SIZE: out->error.size = value; break;
    case CU_JIT_LOG_VERBOSE: out->verbose = (int)(uintptr_t)*value != 0; break;
    case CU_JIT_TARGET: out->has_target = true; /* fall through */
    case CU_JIT_MAX_REGISTERS:
    case CU_JIT_OPTIMIZATION_LEVEL:
    case CU_JIT_TARGET_FROM_CONTEXT:
    case CU_JIT_GENERATE_DEBUG_INFO:
    case CU_JIT_GENERATE_LINE_INFO:
        if (out->n_code < MOST) {
            out->code[out->n_code] = option;
            out->code_values[out->n_code++] = *value;
            break;
        }
        out->plain = false;
        break;
    default: out->plain = false; /* options for a fallback, times or caches, and unknown ones */
    }
}

void jit_options_read(unsigned n, const int *options, void **values, struct jit_options *out)
{
    *out = (struct jit_options){.plain = n == 0 || (options && values)};
    for (unsigned i = 0; out->plain && i < n; i++)
        read_option(options[i], &values[i], out);
    if (!out->info.buffer != !out->info.size || !out->error.buffer != !out->error.size)
        out->plain = false;
}

bool jit_options_have_log(const struct jit_options *o) { return o->info.buffer || o->error.buffer; }

/* Adds the options. A value is an unsigned int, stored as a pointer. */
void jit_options_add(struct key_builder *b, const struct jit_options *o)
{
    if (!WARM_EXPECT(o->plain && o->n_code <= sizeof o->code / sizeof *o->code))
        return;
    for (unsigned i = 0; i < o->n_code; i++) {
        key_add_u64(b, TAG_OPTION, (uint64_t)o->code[i]);
        key_add_u64(b, TAG_OPTION, (uint32_t)(uintptr_t)o->code_values[i]);
    }
    key_add_u64(b, TAG_LOG, o->verbose);
    key_add_u64(b, TAG_LOG, o->info.size ? (uint32_t)(uintptr_t)*o->info.size : 0);
    key_add_u64(b, TAG_LOG, o->error.size ? (uint32_t)(uintptr_t)*o->error.size : 0);
}

/* ---- driver and device ---- */

struct identity {
    char library[WARM_IDENTITY_TEXT];
    char compiler[WARM_IDENTITY_TEXT]; /* of the JIT compiler's own library; "": there is none */
    int version;
};

static bool identity_find(const struct driver *d, struct warm *w, struct identity *out)
{
    char path[sizeof d->path + 64];
    const char *slash = strrchr(d->path, '/');
    out->compiler[0] = 0;
    if (!WARM_EXPECT(slash)) /* preload_library_of gives absolute paths */
        return false;
    snprintf(path, sizeof path, "%.*s/libnvidia-ptxjitcompiler.so.1", (int)(slash - d->path),
             d->path);
    return d->driver_version(&out->version) == CU_SUCCESS &&
           warm_file_identity(w, d->path, out->library) == 0 &&
           (access(path, F_OK) != 0 || warm_file_identity(w, path, out->compiler) == 0);
}

/* Returns the driver's identity, found once: a loaded library does not change. */
static const struct identity *identity_of(const struct driver *d, struct warm *w)
{
    static _Atomic(struct identity *) found;
    struct identity *known = atomic_load(&found), *it;
    if (known || !(it = malloc(sizeof *it)))
        return known;
    if (identity_find(d, w, it) && atomic_compare_exchange_strong(&found, &known, it))
        return it;
    free(it);
    return known;
}

/* Writes a device's target, and its name if that counts: "sm_90", "sm_90 NVIDIA H200". */
static bool describe(const struct driver *d, int device, bool has_name, char *out, size_t cap)
{
    char name[256] = "";
    int major, minor;
    if (d->device_attribute(&major, CU_CC_MAJOR, device) != CU_SUCCESS ||
        d->device_attribute(&minor, CU_CC_MINOR, device) != CU_SUCCESS ||
        (has_name && d->device_name(name, sizeof name, device) != CU_SUCCESS))
        return false;
    snprintf(out, cap, "sm_%d%d%s%s", major, minor, has_name ? " " : "", name);
    return true;
}

/* Writes what is true of all devices. False unless they are the same. */
static bool describe_all(const struct driver *d, bool has_name, char *out, size_t cap)
{
    int n, device;
    if (d->device_count(&n) != CU_SUCCESS || n < 1)
        return false;
    for (int i = 0; i < n; i++) {
        char other[320];
        if (d->device_get(&device, i) != CU_SUCCESS ||
            !describe(d, device, has_name, i ? other : out, i ? sizeof other : cap) ||
            (i && strcmp(other, out) != 0))
            return false;
    }
    return true;
}

/* Writes for which target an image is. The code is for a target, whatever the device's name. The name
 * counts beside devices of another target, and if a log may tell it. */
static bool describe_target(const struct driver *d, struct driver_target who, char *out, size_t cap)
{
    int device = 0;
    if (!who.any_device && d->context_device(&device) != CU_SUCCESS)
        return false;
    if (!who.has_log && describe_all(d, false, out, cap))
        return true;
    return who.any_device ? describe_all(d, true, out, cap) : describe(d, device, true, out, cap);
}

bool driver_add_target(const struct driver *d, struct warm *w, struct driver_target who,
                       struct key_builder *b, char *out_hardware, size_t cap)
{
    if (!WARM_EXPECT(d && w && cap >= sizeof "sm_"))
        return false;
    char target[320];
    if (getenv("CUDA_FORCE_PTX_JIT") || getenv("CUDA_DISABLE_PTX_JIT") ||
        getenv("CUDA_FORCE_JIT") || getenv("CUDA_DISABLE_JIT") || compiler_variables_find() ||
        !describe_target(d, who, target, sizeof target))
        return false;
    const struct identity *it = identity_of(d, w);
    if (!it)
        return false;
    key_add_text(b, TAG_DEVICE, target);
    key_add_text(b, TAG_LIBRARY, it->library);
    key_add_text(b, TAG_COMPILER, it->compiler);
    key_add_u64(b, TAG_VERSION, (uint64_t)it->version);
    snprintf(out_hardware, cap, "%.*s", (int)strcspn(target, " "), target);
    return true;
}

/* ---- PTX ---- */

/* True for text; false for a cubin or a fat binary. */
static bool is_text(const void *image)
{
    const unsigned char *text = image;
    for (size_t i = 0; i < 64; i++)
        if (text[i] == 0 || text[i] >= 0x80 || (text[i] < ' ' && !strchr("\t\n\r", text[i])))
            return false;
    return true;
}

/* True if the text begins, after comments and white space, as PTX must. */
static bool begins_with_version(struct view text)
{
    static const char directive[] = ".version";
    const char *at = text.data, *end = at + text.len;
    for (;;) {
        while (at < end && strchr(" \t\r\n", *at))
            at++;
        if (end - at < (ptrdiff_t)sizeof directive || memcmp(at, "//", 2) != 0)
            break;
        const char *line = memchr(at, '\n', (size_t)(end - at));
        at = line ? line : end;
    }
    return end - at >= (ptrdiff_t)sizeof directive &&
           memcmp(at, directive, sizeof directive - 1) == 0;
}

/* Finds the PTX of an image; *out_cc is the compute capability that a fat binary demands, or 0. */
static bool find_ptx(const void *image, struct view *out, unsigned *out_cc)
{
    *out_cc = 0;
    if (is_text(image)) {
        *out = (struct view){image, strnlen(image, PTX_MAX)};
    } else if (!driver_fat_ptx(image, out, out_cc)) {
        if (driver_fat_has_ptx(image))
            driver_tell_unserved(UNSERVED_FAT);
        return false;
    }
    return out->len < PTX_MAX && begins_with_version(*out);
}

/* True if white space and `then` follow every `word` in the text. */
static bool only_before(struct view text, const char *word, const char *then)
{
    struct reader r = reader_over(text.data, text.len);
    const uint8_t *at;
    while ((at = memmem(r.data, r.len, word, strlen(word))) != NULL) {
        reader_bytes(&r, (size_t)(at - r.data) + strlen(word));
        while (r.len && (*r.data == ' ' || *r.data == '\t' || *r.data == '\n' || *r.data == '\r'))
            reader_u8(&r);
        if (r.len < strlen(then) || memcmp(r.data, then, strlen(then)) != 0)
            return false;
    }
    return true;
}

/* True if the PTX leaves nothing to a linker or a debugger. Common symbols are fine: there is
 * nothing to merge them with. */
static bool stands_alone(struct view ptx)
{
    return only_before(ptx, ".extern", ".shared") && !memmem(ptx.data, ptx.len, ".section", 8);
}

/* Adds the canonical form of PTX, or its bytes if `exact`. False if it must not be kept. */
static bool add_ptx(struct key_builder *b, struct view ptx, bool exact)
{
    if (!WARM_EXPECT(ptx.data))
        return false;
    struct canon_input in = {.data = ptx.data,
                             .len = ptx.len,
                             .kind = exact ? CANON_RAW : CANON_PTX,
                             .debug_info = exact};
    struct canon_result result;
    if (canon_key(&in, &result, NULL, NULL))
        return false;
    key_add(b, TAG_PTX, &result.proof, sizeof result.proof);
    ptx_files_add(b, TAG_PTX, ptx.data, ptx.len);
    return true;
}

static bool wants_debug(const struct jit_options *o)
{
    for (unsigned i = 0; i < o->n_code; i++)
        if (o->code[i] == CU_JIT_GENERATE_DEBUG_INFO || o->code[i] == CU_JIT_GENERATE_LINE_INFO)
            return true;
    return false;
}

/* ---- one load ---- */

struct jit_load {
    const struct driver *driver;
    const struct load *load;
    const void *image; /* the program's */
    struct view ptx;   /* in it */
    unsigned least_cc;
    struct jit_options options;
    char hardware[64];
    struct leased_entry entry;
};

/* Loads a cubin in the place of the PTX. Its log is empty, as that of the PTX was; the driver leaves buffers for
 * logs alone if it has nothing to compile. */
static int load_cubin(const struct load *l, const void *cubin)
{
    enum { MOST = 64 };
    int options[MOST];
    void *values[MOST];
    struct load attempt = *l;
    if (l->n > MOST)
        return CU_INVALID_VALUE;
    attempt.n = 0;
    attempt.options = options;
    attempt.values = values;
    for (unsigned i = 0; i < l->n; i++)
        if (l->options[i] < CU_JIT_INFO_LOG || l->options[i] > CU_JIT_ERROR_LOG_SIZE) {
            options[attempt.n] = l->options[i];
            values[attempt.n++] = l->values[i];
        }
    if (attempt.n == 0)
        attempt.options = NULL, attempt.values = NULL;
    int code = l->load(&attempt, cubin);
    for (unsigned i = 0; code == CU_SUCCESS && i < l->n; i++)
        if (l->options[i] == CU_JIT_INFO_LOG_SIZE || l->options[i] == CU_JIT_ERROR_LOG_SIZE)
            l->values[i] = NULL;
    return code;
}

static bool is_images_fault(int code)
{
    return code == CU_INVALID_IMAGE || code == CU_NO_BINARY_FOR_GPU || code == CU_INVALID_SOURCE ||
           code == CU_INVALID_PTX || code == CU_UNSUPPORTED_PTX || code == CU_INVALID_VALUE;
}

/* What the driver's linker made of a PTX. */
struct linked {
    void *cubin; /* free(); NULL: it failed */
    size_t len;
    int code;
    uint32_t cost_ms;
    char info[1024], errors[1024]; /* what it wrote to its logs */
};

/* Links the PTX with the driver's linker. */
static void link_ptx(struct jit_load *r, struct linked *out)
{
    enum { LOGS = 4, MOST = LOGS + sizeof r->options.code / sizeof *r->options.code };
    int options[MOST] = {CU_JIT_INFO_LOG, CU_JIT_INFO_LOG_SIZE, CU_JIT_ERROR_LOG,
                         CU_JIT_ERROR_LOG_SIZE};
    void *values[MOST] = {out->info, (void *)sizeof out->info, out->errors,
                          (void *)sizeof out->errors};
    uint64_t start_ms = conn_now_ms();
    struct cu_link *link;
    *out = (struct linked){.code = CU_OUT_OF_MEMORY};
    char *text =
        WARM_EXPECT(r->options.n_code + LOGS <= MOST) ? strndup(r->ptx.data, r->ptx.len) : NULL;
    memcpy(options + LOGS, r->options.code, sizeof r->options.code);
    memcpy(values + LOGS, r->options.code_values, sizeof r->options.code_values);
    if (text)
        out->code = r->driver->link_create(LOGS + r->options.n_code, options, values, &link);
    if (out->code == CU_SUCCESS) {
        static const char nothing[] = "";
        void *cubin;
        out->code = r->driver->link_add_data(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1,
                                             nothing, 0, NULL, NULL);
        if (out->code == CU_SUCCESS)
            out->code = r->driver->link_complete(link, &cubin, &out->len);
        if (out->code == CU_SUCCESS && out->len && (out->cubin = malloc(out->len)) != NULL)
            memcpy(out->cubin, cubin, out->len);
        r->driver->link_destroy(link);
    }
    free(text);
    out->cost_ms = (uint32_t)(conn_now_ms() - start_ms);
}

/* Writes why a cubin must not be kept. False if it may be. */
static bool must_not_be_kept(const struct linked *l, bool is_loaded, char *out, size_t cap)
{
    const char *said = l->errors[0] ? l->errors : l->info;
    int len = (int)strcspn(said, "\n");
    if (l->code != CU_SUCCESS)
        snprintf(out, cap, "the driver's linker failed: error %d %.*s", l->code, len, said);
    else if (said[0])
        snprintf(out, cap, "the driver's linker said: %.*s", len, said);
    else if (!is_loaded)
        snprintf(out, cap, "the driver did not load what its linker made");
    else
        return false;
    return true;
}

/* Stores the cubin, or a mark with the reason why there is none. What failed may have failed for the state of the
 * machine: it is tried again later. */
static void keep(struct jit_load *r, const struct linked *l, bool is_loaded)
{
    char reason[160];
    bool has_failed = l->code != CU_SUCCESS || !(is_loaded || l->info[0] || l->errors[0]);
    if (must_not_be_kept(l, is_loaded, reason, sizeof reason))
        leased_entry_mark(&r->entry, reason, has_failed ? LEASED_ENTRY_RETRY_MS : 0);
    else
        leased_entry_put(&r->entry, l->cubin, l->len,
                         (struct warm_put_options){.kind = "cubin",
                                                   .cost_ms = l->cost_ms,
                                                   .hardware = r->hardware,
                                                   .compiler = "CUDA driver"});
}

/* Links, loads and keeps the PTX. A program that asked for logs gets those of its own load. */
static int load_and_keep(struct jit_load *r)
{
    struct linked l;
    bool wants_logs = jit_options_have_log(&r->options);
    link_ptx(r, &l);
    bool is_usable = l.cubin && WARM_EXPECT(l.len) && !(wants_logs && (l.info[0] || l.errors[0]));
    int code = is_usable ? load_cubin(r->load, l.cubin) : CU_INVALID_IMAGE;
    if (is_images_fault(code) ? l.code == CU_SUCCESS || is_images_fault(l.code)
                              : code == CU_SUCCESS)
        keep(r, &l, code == CU_SUCCESS);
    free(l.cubin);
    return code == CU_SUCCESS ? code : r->load->load(r->load, r->image);
}

static int load_known(struct jit_load *r)
{
    struct view cubin;
    int code = leased_entry_get(&r->entry, &cubin);
    if (code == 0) {
        int loaded = load_cubin(r->load, cubin.data);
        if (loaded == CU_SUCCESS)
            return loaded;
        if (!is_images_fault(loaded))
            return r->load->load(r->load, r->image);
    }
    return leased_entry_is_ours(code) ? load_and_keep(r) : r->load->load(r->load, r->image);
}

static bool make_key(struct jit_load *r, struct warm *w, struct proof *out)
{
    struct key_builder b;
    struct key unused;
    key_begin(&b, DOMAIN_DRIVER_JIT);
    key_add_u64(&b, TAG_LIBRARY_LOAD, r->load->any_device);
    jit_options_add(&b, &r->options);
    struct driver_target who = {.any_device = r->load->any_device,
                                .has_log = jit_options_have_log(&r->options)};
    if (!driver_add_target(r->driver, w, who, &b, r->hardware, sizeof r->hardware) ||
        !WARM_EXPECT(strncmp(r->hardware, "sm_", 3) == 0) ||
        strtoul(r->hardware + strlen("sm_"), NULL, 10) < r->least_cc ||
        !add_ptx(&b, r->ptx, wants_debug(&r->options)))
        return false;
    key_end(&b, &unused, out);
    return true;
}

static int load(const struct driver *d, const struct load *l, const void *image)
{
    struct jit_load r = {.driver = d, .load = l, .image = image};
    struct proof proof;
    struct warm *w;
    int code;
    jit_options_read(l->n, l->options, l->values, &r.options);
    if (!image || !r.options.plain || r.options.verbose || r.options.has_target ||
        !d->link_create || !d->link_add_data || !d->link_complete || !d->link_destroy ||
        !find_ptx(image, &r.ptx, &r.least_cc) || !(w = connection_pool_borrow()))
        return l->load(l, image);
    if (stands_alone(r.ptx) && make_key(&r, w, &proof)) {
        leased_entry_begin(&r.entry, w, "cuda-jit:1:", &proof);
        code = load_known(&r);
        leased_entry_end(&r.entry);
    } else {
        code = l->load(l, image);
    }
    connection_pool_return(w);
    return code;
}

/* Loads an image, and reports one that the driver refused: it may have come from the cache. PTX for
 * a newer driver is not reported, because it is not damaged. */
int driver_load(const struct driver *d, const struct load *l, const void *image)
{
    int code = load(d, l, image), device, major, minor;
    if (!image || !is_images_fault(code) || code == CU_INVALID_VALUE || code == CU_UNSUPPORTED_PTX)
        return code;
    unsigned cc = 0;
    if ((d->context_device(&device) == CU_SUCCESS || d->device_get(&device, 0) == CU_SUCCESS) &&
        d->device_attribute(&major, CU_CC_MAJOR, device) == CU_SUCCESS &&
        d->device_attribute(&minor, CU_CC_MINOR, device) == CU_SUCCESS)
        cc = (unsigned)(10 * major + minor);
    refused_images_report(image, cc);
    return code;
}

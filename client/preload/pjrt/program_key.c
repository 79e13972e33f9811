/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program_key.c - decides what counts in the key of a compile, and which compiles are refused.
 * pjrt.c calls it for each compile; program_key.h draws the parts.
 *
 * Thread: any; no state.
 */
#include "client/preload/pjrt/program_key.h"

#include <stdlib.h>
#include <string.h>

#include "client/preload/pjrt/compile_options.h"
#include "keygen/canon/canon.h"
#include "keygen/domains.h"
#include "keygen/expect.h"

/* Fields of the key. Numbers are never reused under one domain. */
enum tag {
    TAG_FORMAT = 1,
    TAG_PROGRAM,
    TAG_TARGET,
    TAG_OPTIONS,
    TAG_PLUGIN,
    TAG_PLATFORM,
    TAG_VERSION,
    TAG_PROCESS,
    TAG_N_DEVICES,
    TAG_DEVICE,
    TAG_HOST,
    TAG_GPU,
    TAG_ENVIRONMENT,
    TAG_N_OWN = 15 /* 14 was the program's bytes */
};

/* ---- asking the plugin ---- */

bool pjrt_ask(const struct pjrt_api *api, enum pjrt_slot slot, void *args)
{
    struct pjrt_error *error = ((pjrt_call)api->fn[slot])(args);
    if (!error)
        return true;
    struct pjrt_object_args destroy = {{sizeof destroy, NULL}, error};
    ((void (*)(void *))api->fn[PJRT_ERROR_DESTROY])(&destroy);
    return false;
}

static bool ask_text(const struct pjrt_api *api, enum pjrt_slot slot, void *object,
                     struct view *out)
{
    struct pjrt_text_args args = {{sizeof args, NULL}, object, NULL, 0};
    if (!pjrt_ask(api, slot, &args))
        return false;
    *out = (struct view){args.text, args.len};
    return true;
}

static bool ask_device_kind(const struct pjrt_api *api, struct pjrt_device *device,
                            struct view *out)
{
    struct pjrt_description_args args = {{sizeof args, NULL}, device, NULL};
    return pjrt_ask(api, PJRT_DEVICE_GET_DESCRIPTION, &args) &&
           ask_text(api, PJRT_DEVICE_DESCRIPTION_KIND, args.description, out);
}

/* Finds the compute capability of a CUDA device, "9.0"; empty for other devices. It is for people alone. */
static struct view ask_capability(const struct pjrt_api *api, struct pjrt_device *device)
{
    static const char wanted[] = "compute_capability";
    struct pjrt_description_args of = {{sizeof of, NULL}, device, NULL};
    struct pjrt_attributes_args args = {.head = {sizeof args, NULL}};
    if (!pjrt_ask(api, PJRT_DEVICE_GET_DESCRIPTION, &of))
        return (struct view){"", 0};
    args.description = of.description;
    if (!pjrt_ask(api, PJRT_DEVICE_DESCRIPTION_ATTRIBUTES, &args))
        return (struct view){"", 0};
    const struct pjrt_named_value *at = args.attributes;
    for (size_t i = 0; i < args.n_attributes && at->head.struct_size >= sizeof *at; i++) {
        if (at->type == 0 && at->name_len == strlen(wanted) &&
            memcmp(at->name, wanted, at->name_len) == 0)
            return (struct view){at->value.text, at->len};
        at = (const struct pjrt_named_value *)(const void *)((const char *)at +
                                                             at->head.struct_size);
    }
    return (struct view){"", 0};
}

static void add_view(struct key_builder *b, uint32_t tag, struct view v)
{
    key_add(b, tag, v.data, v.len);
}

bool pjrt_is_cpu(const struct pjrt_api *api, struct pjrt_client *client)
{
    struct view name;
    return ask_text(api, PJRT_CLIENT_PLATFORM_NAME, client, &name) && view_is(name, "cpu");
}

/* Adds all devices in their order; the program's options choose among them. Sets out->shared if
 * other processes own some of them. */
static bool add_devices(const struct pjrt_api *api, struct pjrt_client *client,
                        struct key_builder *b, struct pjrt_platform *out)
{
    struct pjrt_process_index_args process = {{sizeof process, NULL}, client, 0};
    struct pjrt_devices_args devices = {{sizeof devices, NULL}, client, NULL, 0}, own = devices;
    if (!pjrt_ask(api, PJRT_CLIENT_PROCESS_INDEX, &process) ||
        !pjrt_ask(api, PJRT_CLIENT_DEVICES, &devices) || devices.n_devices == 0 ||
        !pjrt_ask(api, PJRT_CLIENT_ADDRESSABLE_DEVICES, &own))
        return false;
    out->shared = own.n_devices != devices.n_devices;
    key_add_u64(b, TAG_PROCESS, (uint64_t)process.process_index);
    key_add_u64(b, TAG_N_DEVICES, devices.n_devices);
    if (out->shared)
        key_add_u64(b, TAG_N_OWN, own.n_devices);
    for (size_t i = 0; i < devices.n_devices; i++) {
        struct view kind;
        if (!ask_device_kind(api, devices.devices[i], &kind))
            return false;
        add_view(b, TAG_DEVICE, kind);
        if (i == 0) {
            out->device_kind = kind;
            out->capability = ask_capability(api, devices.devices[i]);
        }
    }
    return true;
}

static int add_platform(const struct pjrt_api *api, struct pjrt_client *client,
                        const struct pjrt_identity *identity, struct key_builder *b,
                        struct pjrt_platform *out)
{
    if (!ask_text(api, PJRT_CLIENT_PLATFORM_NAME, client, &out->name) ||
        !ask_text(api, PJRT_CLIENT_PLATFORM_VERSION, client, &out->version))
        return WARM_EUNSUPPORTED;
    key_add_text(b, TAG_PLUGIN, identity->plugin);
    add_view(b, TAG_PLATFORM, out->name);
    add_view(b, TAG_VERSION, out->version);
    /* Code for a GPU does not depend on the processor beside it. */
    bool gpu = view_is(out->name, "cuda") || view_is(out->name, "rocm");
    if (!gpu)
        key_add(b, TAG_HOST, &identity->host, sizeof identity->host);
    if (!view_is(out->name, "cpu"))
        key_add(b, TAG_GPU, &identity->device, sizeof identity->device);
    return add_devices(api, client, b, out) ? 0 : WARM_EUNSUPPORTED;
}

/* ---- variables that XLA reads by itself ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds XLA_FLAGS. A value that does not begin with a dash names a file of flags, and is refused. */
static int add_flags(struct key_builder *b, const char *value)
{
    enum { N_FLAGS = 256 };
    char *copy, *rest, *flags[N_FLAGS];
    size_t n = 0;
    bool refused = false;
    if (!value || !*value)
        return 0;
    if (value[strspn(value, " \t\n")] != '-' || !(copy = strdup(value)))
        return WARM_EREFUSED;
    for (char *flag = strtok_r(copy, " \t\n", &rest); flag; flag = strtok_r(NULL, " \t\n", &rest)) {
        refused |= pjrt_flag_is_refused(flag);
        if (!text_begins_with_one(
                flag, ONE_OF("--xla_dump_", "--xla_enable_dumping", "--xla_detailed_logging")) &&
            n < N_FLAGS)
            flags[n++] = flag;
    }
    if (n) {
        /* The order of flags does not count, unless one is given twice: then the last one counts. */
        bool distinct = true;
        char **sorted = malloc(n * sizeof *sorted);
        if (sorted) {
            memcpy(sorted, flags, n * sizeof *sorted);
            qsort(sorted, n, sizeof *sorted, compare_texts);
        }
        for (size_t i = 1; sorted && i < n; i++) {
            size_t name = strcspn(sorted[i - 1], "=");
            distinct &=
                name != strcspn(sorted[i], "=") || strncmp(sorted[i - 1], sorted[i], name) != 0;
        }
        for (size_t i = 0; i < n; i++)
            key_add_text(b, TAG_ENVIRONMENT, sorted && distinct ? sorted[i] : flags[i]);
        free(sorted);
    }
    free(copy);
    return n < N_FLAGS && !refused ? 0 : WARM_EREFUSED;
}

static int add_environment(struct key_builder *b)
{
    static const char *const others[] = {"TF_XLA_FLAGS", "NVIDIA_TF32_OVERRIDE"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *value = getenv(others[i]);
        key_add_text(b, TAG_ENVIRONMENT, value ? value : "");
    }
    return add_flags(b, getenv("XLA_FLAGS"));
}

/* ---- the program ---- */

/* Custom calls that the compiler itself handles: notes on sharding, layout and memory. */
static const char *const known_targets[] = {"Sharding",
                                            "SPMDFullToShardShape",
                                            "SPMDShardToFullShape",
                                            "annotate_device_placement",
                                            "LayoutConstraint",
                                            "MoveToHost",
                                            "MoveToDevice",
                                            "TopK",
                                            "mhlo.topk",
                                            "mhlo.erf",
                                            "xla.sdy.GlobalToLocalShape",
                                            "xla.sdy.LocalToGlobalShape",
                                            "xla.sdy.FuncResultSharding",
                                            NULL};

static int add_target(struct key_builder *b, const struct pjrt_target *targets, struct view name)
{
    if (view_is_one_of(name, known_targets))
        return 0;
    for (const struct pjrt_target *t = targets; t; t = t->next)
        if (t->len == name.len && memcmp(t->name, name.data, name.len) == 0) {
            add_view(b, TAG_TARGET, name);
            key_add(b, TAG_TARGET, &t->how, sizeof t->how);
            return 0;
        }
    return WARM_EREFUSED;
}

/* Adds the targets in a canonical text. A name with an escape in it is never found, and so
 * refused. */
static int add_targets(struct key_builder *b, const struct pjrt_target *targets,
                       const struct writer *text)
{
    static const char mark[] = "call_target_name = \"";
    struct reader r = reader_over(text->data, text->len);
    const uint8_t *at, *end;
    while ((at = memmem(r.data, r.len, mark, sizeof mark - 1)) != NULL) {
        reader_bytes(&r, (size_t)(at - r.data) + sizeof mark - 1);
        end = memchr(r.data, '"', r.len);
        int code = end ? add_target(b, targets, (struct view){r.data, (size_t)(end - r.data)})
                       : WARM_EREFUSED;
        if (code)
            return code;
    }
    return 0;
}

static enum canon_kind kind_of(const struct pjrt_program *program)
{
    if (!view_is((struct view){program->format, program->format_len}, "mlir"))
        return CANON_RAW;
    return program->code_len >= 4 && memcmp(program->code, "ML\xefR", 4) == 0 ? CANON_MLIR_BYTECODE
                                                                              : CANON_MLIR;
}

static bool mentions(const struct pjrt_program *program, const char *text)
{
    return memmem(program->code, program->code_len, text, strlen(text)) != NULL;
}

/* Adds the program. `shared`: other processes compile it, each for itself. */
static int add_program(struct key_builder *b, const struct pjrt_program *program,
                       const struct pjrt_target *targets, bool shared)
{
    if (!WARM_EXPECT(program->code))
        return WARM_EINVALID;
    struct canon_input in = {.data = program->code,
                             .len = program->code_len,
                             .kind = kind_of(program),
                             .many_processes = shared};
    struct canon_result result;
    struct writer text;
    bool calls = mentions(program, "custom_call") || mentions(program, "custom-call");
    writer_init(&text, 0);
    int code = canon_key(&in, &result, calls ? &text : NULL, NULL);
    if (!code && calls && (result.exact || result.kind == CANON_RAW))
        code = WARM_EREFUSED;
    if (!code) {
        key_add(b, TAG_FORMAT, program->format, program->format_len);
        key_add(b, TAG_PROGRAM, &result.proof, sizeof result.proof);
        if (calls)
            code = text.failed ? WARM_ENOMEM : add_targets(b, targets, &text);
    }
    writer_close(&text);
    return code;
}

/* ---- all of it ---- */

int pjrt_key_make(const struct pjrt_api *api, const struct pjrt_identity *identity,
                  const struct pjrt_target *targets, const struct pjrt_compile_args *args,
                  struct pjrt_key *out)
{
    if (!WARM_EXPECT(api && identity && args && args->client && args->program && out))
        return WARM_EINVALID;
    struct key_builder b;
    struct key unused;
    key_begin(&b, DOMAIN_PJRT);
    int code = add_platform(api, args->client, identity, &b, &out->platform);
    if (!code)
        code = add_environment(&b);
    if (!code)
        code = add_program(&b, args->program, targets, out->platform.shared);
    if (!code)
        code = pjrt_options_add(&b, args->options, args->options_len);
    if (code)
        return code;
    key_end(&b, &unused, &out->proof);
    return 0;
}

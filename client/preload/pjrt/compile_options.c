/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_options.c - decides which compile options count in a key: reads a protocol-buffer message
 * as a set of fields. program_key.c calls it.
 *
 *     message: (varint: number << 3 | wire type) (payload) …
 *     payload: 0 varint, 1 eight bytes, 2 varint length and bytes, 5 four bytes
 *
 * Source of the encoding: https://protobuf.dev/programming-guides/encoding; of the fields:
 * xla/xla.proto and xla/pjrt/proto/compile_options.proto.
 *
 * Thread: any; no state.
 */
#include "client/preload/pjrt/compile_options.h"

#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"

#include "keygen/expect.h"

#define OPTIONS_MAX ((size_t)64 * 1024 * 1024)

enum proto_type { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 };

struct field {
    uint32_t number, type;
    uint32_t order; /* as it came */
    struct view whole, payload;
    struct view map_key; /* entries of a map; empty otherwise */
};

/* The treatment of the fields of one message. Lists end with 0. A refused field may be present if it is
 * empty. */
struct message {
    const uint32_t *dropped, *maps, *refused;
    uint32_t nested; /* the number of a field that is a message of the next level; 0: none */
    const struct message *next;
};

/* xla_dump_*, xla_enable_dumping, xla_detailed_logging, xla_enable_scoped_logging_timers, and the
 * folders of XLA's own caches: 306 xla_gpu_kernel_cache_file, 310, 407 the autotuner's. */
static const uint32_t dump_fields[] = {109, 110, 111, 112, 113, 114, 115, 116, 118, 131, 132, 144,
                                       149, 151, 153, 154, 164, 182, 185, 252, 253, 290, 306, 310,
                                       381, 405, 407, 433, 436, 466, 495, 498, 502, 0};
/* xla_gpu_analytical_latency_estimator_options, …_cost_model_gemm_tiling_options,
 * xla_backend_extra_options */
static const uint32_t debug_maps[] = {357, 474, 500, 0};
static const uint32_t override_maps[] = {7, 0}; /* env_option_overrides */
static const uint32_t none[] = {0};

/* Options that name files which change the code, as the files' content is not in a key. Options that
 * make XLA dump (109, 112 to 116, 118, 164), as a hit would write no dump: client/python/warm/_dumps.py
 * has the list for all frameworks. */
static const uint32_t refused_fields[] = {109, 112, 113, 114, 115, 116, 118, 127, 128,
                                          150, 164, 210, 223, 261, 377, 383, 434, 0};
static const char *const refused_flags[] = {"xla_dump_to",
                                            "xla_dump_hlo_as_text",
                                            "xla_dump_hlo_as_proto",
                                            "xla_dump_hlo_as_dot",
                                            "xla_dump_hlo_as_url",
                                            "xla_dump_hlo_as_html",
                                            "xla_dump_hlo_as_long_text",
                                            "xla_dump_hlo_snapshots",
                                            "xla_dump_hlo_unoptimized_snapshots",
                                            "xla_gpu_dump_hlo_unoptimized_snapshots",
                                            "xla_gpu_dump_autotune_results_to",
                                            "xla_gpu_dump_autotune_logs_to",
                                            "xla_gpu_dump_autotuned_gemm_fusions",
                                            "xla_gpu_dump_llvmir",
                                            "xla_hlo_profile",
                                            "xla_gpu_ptx_file",
                                            "xla_gpu_algorithm_denylist_path",
                                            "xla_gpu_llvm_ir_file",
                                            "xla_gpu_pgle_profile_file_or_directory_path",
                                            "xla_gpu_load_autotune_results_from",
                                            "xla_gpu_target_config_filename",
                                            "xla_gpu_experimental_collective_perf_table_path",
                                            "xla_gpu_experimental_matmul_perf_table_path",
                                            "xla_gpu_gemm_autotuner_override_file",
                                            NULL};

static const struct message debug_options = {dump_fields, debug_maps, refused_fields, 0, NULL};
static const struct message build_options = {none, none, none, 3, &debug_options};
static const struct message compile_options = {none, override_maps, none, 3, &build_options};

static bool holds(const uint32_t *list, uint32_t number)
{
    while (*list && *list != number)
        list++;
    return *list != 0;
}

static uint64_t read_varint(struct reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = reader_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    r->failed = true;
    return 0;
}

static struct view read_payload(struct reader *r, unsigned type)
{
    struct view at = {r->data, 0};
    switch (type) {
    case VARINT:
        read_varint(r);
        at.len = (size_t)(r->data - (const uint8_t *)at.data);
        return at;
    case EIGHT_BYTES: return reader_bytes(r, 8);
    case FOUR_BYTES: return reader_bytes(r, 4);
    case LENGTH: return reader_bytes(r, read_varint(r));
    default: r->failed = true; return at;
    }
}

static bool read_field(struct reader *r, struct field *out)
{
    const uint8_t *start = r->data;
    uint64_t tag = read_varint(r);
    if (tag >> 3 == 0 || tag > UINT32_MAX)
        r->failed = true;
    *out = (struct field){
        .number = (uint32_t)(tag >> 3), .type = tag & 7, .payload = read_payload(r, tag & 7)};
    out->whole = (struct view){start, r->failed ? 0 : (size_t)(r->data - start)};
    return !r->failed;
}

/* Returns the first field of a map's entry, if it is the key. */
static struct view key_of_entry(struct view entry)
{
    struct reader r = reader_over(entry.data, entry.len);
    struct field first;
    if (r.len && read_field(&r, &first) && first.number == 1)
        return first.payload;
    return (struct view){0};
}

/* Orders fields by number, entries of a map by key. Repeated fields, and entries with one key, of
 * which the last counts, keep their order. */
static int compare_fields(const void *one, const void *other)
{
    const struct field *a = one, *b = other;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    int order = view_order(a->map_key, b->map_key);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

/* True if a field, or the option that an entry of a map names, is refused. */
static bool is_refused(const struct message *m, const struct field *f)
{
    if (holds(m->maps, f->number))
        return view_is_one_of(key_of_entry(f->payload), refused_flags);
    const uint8_t *at = f->payload.data;
    bool is_empty = f->payload.len == 0 || (f->type == VARINT && at[0] == 0);
    return holds(m->refused, f->number) && !is_empty;
}

bool pjrt_flag_is_refused(const char *flag)
{
    size_t dashes = strspn(flag, "-"), len = strcspn(flag + dashes, "=");
    const char *value = flag + dashes + len;
    if (strcmp(value, "=false") == 0 || strcmp(value, "=0") == 0 || strcmp(value, "=") == 0)
        return false;
    return view_is_one_of((struct view){flag + dashes, len}, refused_flags);
}

/* Gives the fields that count, sorted (free()). Errors: REFUSED, MALFORMED, NOMEM. */
static int split(struct view bytes, const struct message *m, struct field **out, size_t *out_n)
{
    struct reader r = reader_over(bytes.data, bytes.len);
    struct field one, *fields;
    size_t n = 0, kept = 0;
    while (r.len && read_field(&r, &one)) {
        if (is_refused(m, &one))
            return WARM_EREFUSED;
        n++;
    }
    if (r.failed)
        return WARM_EMALFORMED;
    fields = calloc(n + 1, sizeof *fields);
    if (!fields)
        return WARM_ENOMEM;
    r = reader_over(bytes.data, bytes.len);
    while (r.len && read_field(&r, &one)) {
        if (!WARM_EXPECT(kept < n)) /* as many as were counted */
            break;
        if (holds(m->dropped, one.number))
            continue;
        one.order = (uint32_t)kept;
        if (holds(m->maps, one.number))
            one.map_key = key_of_entry(one.payload);
        fields[kept++] = one;
    }
    qsort(fields, kept, sizeof *fields, compare_fields);
    *out = fields;
    *out_n = kept;
    return 0;
}

/* Adds a message to the key. Recursion ends after three levels, as struct message does. */
static int add_message(struct key_builder *b, struct view bytes, const struct message *m)
{
    struct field *fields;
    size_t n;
    int code = split(bytes, m, &fields, &n);
    if (code)
        return code;
    key_add_u64(b, 0, n);
    for (size_t i = 0; i < n && !code; i++) {
        if (fields[i].number == m->nested && WARM_EXPECT(m->next))
            code = fields[i].type == LENGTH ? add_message(b, fields[i].payload, m->next)
                                            : WARM_EMALFORMED;
        else
            key_add(b, fields[i].number, fields[i].whole.data, fields[i].whole.len);
    }
    free(fields);
    return code;
}

int pjrt_options_add(struct key_builder *b, const void *data, size_t len)
{
    if (len > OPTIONS_MAX)
        return WARM_ETOO_BIG;
    return add_message(b, (struct view){data, len}, &compile_options);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_bundle.c - writes a compiled graph to bytes, and reads and checks such bytes. `warm compile` writes,
 * `warm show` reads. Bytes come from a file: nothing is allocated by a length of theirs, and a bundle with a
 * number that is out of range is refused whole.
 *
 * Thread: any; no state.
 */
#include "kernels/bundle/graph_bundle.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "keygen/expect.h"

#define CHECKED_FROM 32u /* the checksum is of all bytes from here */
#define CUBIN_MAX ((size_t)1 << 30)
#define THREADS_MAX                                                                                \
    1024u /* of a block: CUDA C++ Programming Guide, table of compute capabilities */

/* ---- writing ---- */

void graph_bundle_write(const struct graph_bundle *b, struct writer *out)
{
    size_t begin = out->len;
    writer_bytes(out, GRAPH_BUNDLE_MAGIC, 8);
    writer_u32(out, GRAPH_BUNDLE_VERSION);
    writer_u32(out, b->n_arguments);
    writer_u64(out, b->arena);
    writer_u64(out, 0); /* the checksum */
    writer_u32(out, b->kernels.n);
    writer_u32(out, b->buffers.n);
    writer_u32(out, b->n_forward);
    writer_blob(out, b->target.data, b->target.len);
    writer_blob(out, b->compiler.data, b->compiler.len);
    for (uint32_t i = 0; i < b->kernels.n; i++) {
        writer_blob(out, b->kernels.at[i].key.data, b->kernels.at[i].key.len);
        writer_blob(out, b->kernels.at[i].cubin.data, b->kernels.at[i].cubin.len);
    }
    for (uint32_t i = 0; i < b->buffers.n; i++) {
        const struct graph_buffer *buffer = &b->buffers.at[i];
        writer_u8(out, (uint8_t)buffer->place);
        writer_u8(out, (uint8_t)buffer->type.elem);
        writer_u16(out, (uint16_t)buffer->type.rank);
        writer_u64(out, buffer->at);
        for (uint32_t d = 0; d < buffer->type.rank; d++)
            writer_u64(out, (uint64_t)buffer->type.dims[d]);
    }
    writer_u32(out, b->results.n);
    for (uint32_t i = 0; i < b->results.n; i++)
        writer_u32(out, b->results.at[i]);
    writer_u32(out, b->launches.n);
    for (uint32_t i = 0; i < b->launches.n; i++) {
        const struct graph_launch *l = &b->launches.at[i];
        writer_u32(out, l->kernel);
        writer_u32(out, l->blocks);
        writer_u32(out, l->threads);
        writer_u32(out, l->n_args);
        writer_u32(out, l->n_writes);
        for (uint32_t k = 0; k < l->n_args; k++)
            writer_u32(out, b->operands.at[l->args + k]);
    }
    writer_u32(out, b->loops.n);
    for (uint32_t i = 0; i < b->loops.n; i++) {
        writer_u32(out, b->loops.at[i].first);
        writer_u32(out, b->loops.at[i].end);
        writer_u64(out, b->loops.at[i].trips);
        writer_u32(out, b->loops.at[i].condition);
    }
    writer_blob(out, b->constants.data, b->constants.len);
    writer_blob(out, b->module.data, b->module.len);
    writer_blob(out, b->optimizer.data, b->optimizer.len);
    writer_u8(out, b->derives);
    writer_u32(out, b->gradients.n);
    for (uint32_t i = 0; i < b->gradients.n; i++)
        writer_u32(out, b->gradients.at[i]);
    if (!out->failed)
        bytes_store(out->data + begin + 24,
                    XXH3_64bits(out->data + begin + CHECKED_FROM, out->len - begin - CHECKED_FROM),
                    8);
}

/* ---- reading ---- */

static bool read_buffer(struct reader *r, struct graph_buffer *out)
{
    uint8_t place = reader_u8(r), elem = reader_u8(r);
    *out = (struct graph_buffer){.place = place,
                                 .type = {.elem = elem, .rank = reader_u16(r), .n = 1}};
    out->at = reader_u64(r);
    if (r->failed || place >= PLACE_N || elem >= ELEM_N || out->type.rank > PROGRAM_RANK_MAX)
        return false;
    for (uint32_t d = 0; d < out->type.rank; d++) {
        uint64_t dim = reader_u64(r);
        if (dim > (uint64_t)PROGRAM_ELEMENTS_MAX ||
            (dim && (uint64_t)out->type.n > (uint64_t)PROGRAM_ELEMENTS_MAX / dim))
            return false;
        out->type.dims[d] = (int64_t)dim;
        out->type.n *= (int64_t)dim;
    }
    return !r->failed;
}

/* True if the buffer is within its place. */
static bool buffer_fits(const struct graph_bundle *b, uint32_t i)
{
    const struct graph_buffer *buffer = &b->buffers.at[i];
    uint64_t bytes = graph_tensor_bytes(&buffer->type),
             most = buffer->place == PLACE_ARENA ? b->arena : b->constants.len;
    if (i < b->n_arguments || buffer->place == PLACE_ARGUMENT)
        return i < b->n_arguments && buffer->place == PLACE_ARGUMENT && buffer->at == i;
    return buffer->at % GRAPH_BUNDLE_ALIGN == 0 && buffer->at <= most && bytes <= most - buffer->at;
}

static bool read_launch(struct reader *r, struct graph_bundle *b)
{
    struct graph_launch l = {.args = b->operands.n};
    l.kernel = reader_u32(r);
    l.blocks = reader_u32(r);
    l.threads = reader_u32(r);
    l.n_args = reader_u32(r);
    l.n_writes = reader_u32(r);
    if (r->failed || l.kernel >= b->kernels.n || !l.blocks || l.blocks > CODEGEN_BLOCKS_MAX ||
        !l.threads || l.threads > THREADS_MAX || !l.n_writes || l.n_writes > l.n_args)
        return false;
    for (uint32_t k = 0; k < l.n_args; k++) {
        uint32_t operand = reader_u32(r);
        if (r->failed || operand >= b->buffers.n ||
            (k >= l.n_args - l.n_writes && b->buffers.at[operand].place != PLACE_ARENA))
            return false;
        PUSH(b, b->operands, operand);
    }
    PUSH(b, b->launches, l);
    return true;
}

/* Reads the loops: each inside of the one that is open, or behind it. */
static bool read_loops(struct reader *r, struct graph_bundle *b, uint32_t version)
{
    uint32_t ends[GRAPH_LOOPS_OPEN_MAX], depth = 0, from = 0;
    for (uint32_t i = 0, n = reader_u32(r); i < n; i++) {
        struct graph_loop l = {.first = reader_u32(r)};
        l.end = reader_u32(r);
        l.trips = reader_u64(r);
        l.condition = version > 2 ? reader_u32(r) : GRAPH_NONE;
        if (l.condition != GRAPH_NONE &&
            (l.condition >= b->buffers.n || b->buffers.at[l.condition].type.elem != ELEM_I1 ||
             b->buffers.at[l.condition].type.n != 1))
            return false;
        while (depth && ends[depth - 1] <= l.first)
            depth--;
        bool crosses = depth && l.end > ends[depth - 1];
        bool both = l.first < b->n_forward && l.end > b->n_forward;
        if (r->failed || l.first < from || l.first >= l.end || l.end > b->launches.n || crosses ||
            both || depth == GRAPH_LOOPS_OPEN_MAX)
            return false;
        from = l.first;
        ends[depth++] = l.end;
        PUSH(b, b->loops, l);
    }
    return true;
}

/* Reads what was compiled. The gradients' numbers count the module's arguments, of which a training step packs
 * some: wanted_function checks them. */
static bool read_module(struct reader *r, struct graph_bundle *b)
{
    b->module = reader_blob(r, SIZE_MAX);
    b->optimizer = reader_blob(r, SIZE_MAX);
    uint8_t derives = reader_u8(r);
    b->derives = derives;
    if (derives > 1)
        return false;
    for (uint32_t i = 0, n = reader_u32(r); i < n; i++) {
        uint32_t argument = reader_u32(r);
        if (r->failed)
            return false;
        PUSH(b, b->gradients, argument);
    }
    return !r->failed;
}

static bool read_body(struct reader *r, struct graph_bundle *b, uint32_t n_kernels,
                      uint32_t n_buffers, uint32_t version)
{
    b->target = reader_blob(r, 64);
    b->compiler = reader_blob(r, 256);
    for (uint32_t i = 0; i < n_kernels && !r->failed; i++) {
        struct graph_kernel k = {.key = reader_blob(r, 64)};
        k.cubin = reader_blob(r, CUBIN_MAX);
        PUSH(b, b->kernels, k);
    }
    for (uint32_t i = 0; i < n_buffers; i++) {
        struct graph_buffer buffer;
        if (!read_buffer(r, &buffer))
            return false;
        PUSH(b, b->buffers, buffer);
    }
    for (uint32_t i = 0, n = reader_u32(r); i < n; i++) {
        uint32_t result = reader_u32(r);
        if (r->failed || result >= b->buffers.n)
            return false;
        PUSH(b, b->results, result);
    }
    for (uint32_t i = 0, n = reader_u32(r); i < n; i++)
        if (!read_launch(r, b))
            return false;
    if (b->n_forward > b->launches.n || !read_loops(r, b, version))
        return false;
    struct view constants = reader_blob(r, SIZE_MAX);
    writer_bytes(&b->constants, constants.data, constants.len);
    b->failed |= b->constants.failed;
    if (version > 2 && !read_module(r, b))
        return false;
    if (b->failed || !reader_done(r) || b->n_arguments > b->buffers.n ||
        b->arena > GRAPH_BUNDLE_ARENA_MAX)
        return false;
    for (uint32_t i = 0; i < b->buffers.n; i++)
        if (!buffer_fits(b, i))
            return false;
    return true;
}

bool graph_bundle_is(const void *data, size_t len)
{
    return len >= 8 && memcmp(data, GRAPH_BUNDLE_MAGIC, 8) == 0;
}

int graph_bundle_read(const void *data, size_t len, struct graph_bundle *out, struct err *e)
{
    struct reader r = reader_over(data, len);
    *out = (struct graph_bundle){.n_arguments = 0};
    writer_init(&out->constants, 0);
    if (!graph_bundle_is(data, len))
        return err_set(e, WARM_EMALFORMED, "not a compiled graph");
    reader_bytes(&r, 8);
    uint32_t version = reader_u32(&r);
    if (!r.failed && (version < GRAPH_BUNDLE_OLDEST || version > GRAPH_BUNDLE_VERSION))
        return err_set(e, WARM_EVERSION,
                       "a compiled graph of version %u; this program reads %u to %u", version,
                       GRAPH_BUNDLE_OLDEST, GRAPH_BUNDLE_VERSION);
    out->n_arguments = reader_u32(&r);
    out->arena = reader_u64(&r);
    uint64_t sum = reader_u64(&r);
    uint32_t n_kernels = reader_u32(&r), n_buffers = reader_u32(&r);
    out->n_forward = reader_u32(&r);
    if (r.failed)
        return err_set(e, WARM_ETRUNCATED, "a compiled graph of %zu bytes", len);
    if (sum != XXH3_64bits((const uint8_t *)data + CHECKED_FROM, len - CHECKED_FROM))
        return err_set(e, WARM_ECORRUPT, "the compiled graph is damaged: its checksum is another");
    if (!read_body(&r, out, n_kernels, n_buffers, version))
        return out->failed
                   ? err_set(e, WARM_ENOMEM, "a compiled graph")
                   : err_set(e, WARM_EMALFORMED, "a compiled graph with a number out of range");
    return 0;
}

void graph_bundle_close(struct graph_bundle *b)
{
    free(b->kernels.at);
    free(b->buffers.at);
    free(b->launches.at);
    free(b->loops.at);
    free(b->operands.at);
    free(b->results.at);
    free(b->gradients.at);
    writer_close(&b->constants);
}

/* ---- running ---- */

int graph_bundle_run(const struct graph_bundle *b, uint32_t first, uint32_t end,
                     int (*launch)(void *context, const struct graph_launch *l),
                     int (*goes_on)(void *context, uint32_t buffer, bool *out), void *context)
{
    if (!WARM_EXPECT(first <= end && end <= b->launches.n))
        return WARM_EINVALID;
    struct {
        uint32_t loop;
        uint64_t round;
    } open[GRAPH_LOOPS_OPEN_MAX];
    uint32_t depth = 0, next = 0, i = first; /* next: the loop to open next */
    int rc = 0;
    while (next < b->loops.n && b->loops.at[next].first < first)
        next++;
    while (rc == 0 && (i < end || depth)) {
        const struct graph_loop *l = depth ? &b->loops.at[open[depth - 1].loop] : NULL;
        bool ends = l && i == l->end,
             opens = !ends && next < b->loops.n && b->loops.at[next].first == i;
        if (!ends && !opens) {
            rc = launch(context, &b->launches.at[i++]);
            continue;
        }
        if (opens) {
            if (!WARM_EXPECT(depth < GRAPH_LOOPS_OPEN_MAX))
                return WARM_EINVALID; /* reading and codegen see to it */
            open[depth].loop = next++;
            open[depth++].round = 0;
            l = &b->loops.at[open[depth - 1].loop];
        } else {
            open[depth - 1].round++;
        }
        bool again = open[depth - 1].round < (l->condition == GRAPH_NONE ? l->trips : 1);
        if (l->condition != GRAPH_NONE && goes_on)
            rc = goes_on(context, l->condition, &again);
        i = again ? l->first : l->end;
        if (again)
            next = open[depth - 1].loop + 1;
        depth -= !again;
        while (!again && next < b->loops.n && b->loops.at[next].first < i)
            next++; /* inside of one that is over */
    }
    return rc;
}

struct count {
    uint64_t n, most;
};

static int count_launch(void *context, const struct graph_launch *l)
{
    struct count *count = context;
    (void)l;
    return ++count->n >= count->most ? WARM_ETOO_BIG : 0; /* ends the run */
}

uint64_t graph_bundle_count(const struct graph_bundle *b, uint64_t most)
{
    struct count count = {0, most};
    for (uint32_t i = 0; i < b->loops.n; i++)
        if (b->loops.at[i].condition != GRAPH_NONE)
            return most;
    graph_bundle_run(b, 0, b->launches.n, count_launch, NULL, &count);
    return count.n;
}

/* ---- cubins ---- */

#define ELF_HEADER 64u
#define SECTION 64u
#define REGISTERS 0x2f04u /* EIATTR_REGCOUNT: u16 4 and 0x2f, u16 8, u32 symbol, u32 registers */

/* Returns a window of a cubin; failed if it is outside. */
static struct reader window(struct view of, uint64_t at, uint64_t len)
{
    struct reader r = reader_over(of.data, of.len);
    reader_bytes(&r, at <= of.len ? (size_t)at : SIZE_MAX);
    struct view v = reader_bytes(&r, len <= of.len ? (size_t)len : SIZE_MAX);
    return (struct reader){.data = v.data, .len = v.len, .failed = r.failed};
}

/* Reads attributes in order until the registers. */
static bool find_registers(struct reader r, uint32_t *out)
{
    while (!r.failed && r.len) {
        uint16_t kind = reader_u16(&r), len = reader_u16(&r);
        if (kind == REGISTERS && len == 8) {
            reader_u32(&r);
            *out = reader_u32(&r);
            return !r.failed;
        }
        if ((kind & 0xFF) == 4) /* other formats have their value in place of a length */
            reader_bytes(&r, len);
    }
    return false;
}

bool graph_cubin_needs(struct view cubin, uint32_t *out_registers, uint64_t *out_shared)
{
    struct reader header = window(cubin, 0, ELF_HEADER);
    bool found = false, seen = false;
    *out_shared = 0;
    if (header.failed || memcmp(header.data, "\177ELF\2\1", 6) != 0)
        return false;
    reader_bytes(&header, 0x28);
    uint64_t sections = reader_u64(&header);
    reader_bytes(&header, 12);
    uint32_t n = reader_u16(&header), names = reader_u16(&header);
    struct reader r = window(cubin, sections, (uint64_t)n * SECTION);
    if (r.failed || names >= n)
        return false;
    uint64_t names_at = bytes_load(r.data + names * SECTION + 24, 8);
    for (uint32_t i = 0; i < n; i++) {
        struct reader s = reader_over(r.data + i * SECTION, SECTION);
        uint64_t name = names_at + reader_u32(&s);
        reader_bytes(&s, 20);
        uint64_t at = reader_u64(&s), len = reader_u64(&s);
        struct reader info = window(cubin, name, sizeof ".nv.info"),
                      shared = window(cubin, name, sizeof ".nv.shared.kernel");
        if (!seen && !info.failed && memcmp(info.data, ".nv.info", sizeof ".nv.info") == 0) {
            seen = true; /* there is one; a file with many would be read many times */
            found = find_registers(window(cubin, at, len), out_registers);
        }
        if (!shared.failed &&
            memcmp(shared.data, ".nv.shared.kernel", sizeof ".nv.shared.kernel") == 0)
            *out_shared = len;
    }
    return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_plan.c - the name of a graph's plan, and its bytes. graph_compile.c calls it; graph_plan.h has both.
 *
 * Thread: one at a time for each connection.
 */
#include "client/lib/graph_plan.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "keygen/canon/canon.h"
#include "keygen/domains.h"
#include "keygen/key.h"

#define PLAN_MAX (64u << 20) /* bytes: a graph with larger constants is planned each time */

/* ---- the name ---- */

/* The linker defines it: the begin of this program or library. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Finds the description of the note NT_GNU_BUILD_ID in the notes of a segment. */
static struct view build_id_in(const char *notes, size_t size)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, notes, sizeof note);
        size_t name = (note.n_namesz + 3u) & ~(size_t)3, text = (note.n_descsz + 3u) & ~(size_t)3;
        if (size - sizeof note < name || size - sizeof note - name < text)
            break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + sizeof note, "GNU", 4) == 0)
            return (struct view){notes + sizeof note + name, note.n_descsz};
        notes += sizeof note + name + text;
        size -= sizeof note + name + text;
    }
    return (struct view){NULL, 0};
}

/* Returns the build ID of the program or library that this code is in. It is read from memory: the file may
 * be a newer one. Empty if there is none. */
static struct view build_id(void)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)(const void *)__ehdr_start;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)(const void *)(__ehdr_start + head->e_phoff);
    size_t first = SIZE_MAX;
    struct view id = {NULL, 0};
    for (unsigned i = 0; i < head->e_phnum; i++)
        if (part[i].p_type == PT_LOAD && part[i].p_vaddr < first)
            first = part[i].p_vaddr; /* where __ehdr_start was linked */
    for (unsigned i = 0; i < head->e_phnum && !id.len; i++)
        if (part[i].p_type == PT_NOTE)
            id = build_id_in(__ehdr_start + (part[i].p_vaddr - first), part[i].p_filesz);
    return id;
}

bool graph_plan_name(const struct warm_graph *graph, char out[GRAPH_PLAN_NAME])
{
    struct canon_input input = {.data = graph->data, .len = graph->len};
    struct view build = build_id();
    struct canon_result form;
    struct key_builder b;
    struct key key;
    struct proof proof;
    char hex[2 * sizeof proof.bytes + 1];
    if (!build.len || canon_key(&input, &form, NULL, NULL) != 0)
        return false;
    key_begin(&b, DOMAIN_GRAPH_PLAN);
    key_add(&b, 1, build.data, build.len);
    key_add(&b, 2, form.proof.bytes, sizeof form.proof.bytes);
    key_add_u64(&b, 3, graph->flags);
    for (size_t i = 0; i < graph->n_arguments; i++)
        key_add_u64(&b, 4, graph->arguments[i]);
    if (graph->optimizer)
        key_add_text(&b, 5, graph->optimizer);
    key_end(&b, &key, &proof);
    bytes_to_hex(proof.bytes, sizeof proof.bytes, hex);
    snprintf(out, GRAPH_PLAN_NAME, "graph:1:%s", hex);
    return true;
}

/* ---- the value ---- */

static bool read_code(struct reader *r, struct codegen *out)
{
    struct view source = reader_blob(r, PLAN_MAX);
    *out = (struct codegen){.n_kernels = 0};
    writer_init(&out->source, 0);
    writer_bytes(&out->source, source.data, source.len);
    size_t end = 0;
    for (uint32_t i = 0, n = reader_u32(r); i < n; i++) {
        struct kernel_text text = {.at = reader_u64(r)};
        text.len = reader_u64(r);
        if (r->failed || text.at < end || text.at > source.len || text.len > source.len - text.at)
            return false;
        end = text.at + text.len;
        PUSH(out, out->texts, text);
    }
    out->n_kernels = out->texts.n;
    return !r->failed && !out->failed && !out->source.failed;
}

/* Clears the cubins, the target, the compiler and the module: a plan has none of them. */
static void strip(struct graph_bundle *b)
{
    for (uint32_t i = 0; i < b->kernels.n; i++)
        b->kernels.at[i] = (struct graph_kernel){{NULL, 0}, {NULL, 0}};
    b->target = b->compiler = b->module = b->optimizer = (struct view){NULL, 0};
    b->gradients.n = 0;
}

bool graph_plan_get(struct warm *w, const char *name, struct codegen *code,
                    struct graph_bundle *bundle)
{
    struct warm_value value;
    *bundle = (struct graph_bundle){.n_arguments = 0};
    *code = (struct codegen){.n_kernels = 0};
    if (warm_get(w, name, strlen(name), 0, &value) != 0)
        return false;
    struct reader r = reader_over(value.data, value.len);
    bool good = read_code(&r, code);
    if (good) {
        struct view rest = reader_bytes(&r, r.len);
        good = graph_bundle_read(rest.data, rest.len, bundle, NULL) == 0 &&
               bundle->kernels.n == code->n_kernels;
    }
    strip(bundle); /* it lies in the value */
    warm_value_free(&value);
    return good;
}

void graph_plan_put(struct warm *w, const char *name, const struct codegen *code,
                    struct graph_bundle *bundle, uint64_t cost_ms)
{
    struct writer value;
    const struct warm_put_options options = {.kind = "graph",
                                             .cost_ms = cost_ms < UINT32_MAX ? (uint32_t)cost_ms
                                                                             : UINT32_MAX,
                                             .label = "plan of a graph"};
    writer_init(&value, PLAN_MAX);
    writer_blob(&value, code->source.data, code->source.len);
    writer_u32(&value, code->texts.n);
    for (uint32_t i = 0; i < code->texts.n; i++) {
        writer_u64(&value, code->texts.at[i].at);
        writer_u64(&value, code->texts.at[i].len);
    }
    strip(bundle);
    graph_bundle_write(bundle, &value);
    if (!value.failed)
        warm_put(w, name, strlen(name), value.data, value.len, &options);
    writer_close(&value);
}

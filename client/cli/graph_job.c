/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_job.c - compiles StableHLO: read → calls written out, or the derivative → CUDA C++ → plan → one compile
 * for each kernel → bundle. commands/compile.c and commands/ls.c call it.
 *
 * Each kernel is a CUDA C++ program of its own, with one name for all. So equal kernels of any two graphs
 * are one entry of the store.
 *
 * Thread: main.
 */
#include "client/cli/graph_job.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/json_writer.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "kernels/bundle/graph_bundle.h"
#include "kernels/vjp/vjp.h"

#define LAUNCHES_MAX 1000000u

struct compiled {
    const struct graph_job *g;
    struct graph_bundle bundle;
    struct warm_result *results; /* by kernel: own the cubins */
    uint32_t n_results, n_hits;
};

/* Gives the function that is compiled: the only public one, without calls, or its derivative. */
static int wanted(const struct graph_job *g, const struct program *p, struct program **out,
                  struct err *e)
{
    uint32_t f = program_function(p, NULL), n = 0;
    if (f == PROGRAM_NONE)
        return err_set(e, WARM_EINVALID, "a module must have one public function");
    if (!g->vjp)
        return vjp_inline(p, f, out, e);
    const struct block *b = &p->blocks.at[p->functions.at[f].block];
    uint32_t *arguments = malloc(((size_t)b->n_args + 1) * sizeof *arguments);
    if (!arguments)
        return err_set(e, WARM_ENOMEM, "arguments");
    for (uint32_t i = 0; i < b->n_args; i++)
        if (program_tensor(p, b->args + i)->elem == ELEM_F32)
            arguments[n++] = i;
    int rc = n ? vjp_function(p, f, arguments, n, out, e)
               : err_set(e, WARM_EINVALID, "no argument is f32: nothing has a gradient");
    free(arguments);
    return rc;
}

/* Generates the code and the plan of a graph. */
static int plan_graph(struct compiled *c, const struct cli_input *in, struct codegen *code,
                      struct err *e)
{
    struct program *p = NULL, *f = NULL;
    int rc = program_read(in->data, in->len, &p, e);
    if (rc == 0)
        rc = wanted(c->g, p, &f, e);
    program_free(p);
    if (rc == 0)
        rc = codegen_function(f, program_function(f, NULL), code, e);
    if (rc == 0 && code->launches.n > LAUNCHES_MAX)
        rc = err_set(e, WARM_ETOO_BIG, "more than %u launches", LAUNCHES_MAX);
    if (rc == 0)
        rc = graph_bundle_plan(f, program_function(f, NULL), code, &c->bundle, e);
    program_free(f);
    return rc;
}

/* Compiles kernel i, or takes it from the cache. Returns an exit status. */
static int compile_kernel(struct compiled *c, const struct codegen *code, uint32_t i)
{
    struct writer source;
    struct warm_job job = c->g->job;
    struct warm_result *r = &c->results[i];
    writer_init(&source, 0);
    codegen_write_kernel(code, i, &source);
    if (source.failed) {
        writer_close(&source);
        cli_say("out of memory");
        return CLI_USAGE;
    }
    job.name = "graph.cu";
    job.source = source.data;
    job.source_len = source.len;
    int rc = warm_compile(c->g->w, &job, r);
    writer_close(&source);
    if (rc) {
        progress_end();
        cli_say("%s: kernel %u: %s", c->g->file, i, warm_message(c->g->w));
        return rc == WARM_ETIMEOUT ? CLI_FINDING : remote_exit_status(rc);
    }
    c->n_results++;
    c->n_hits += r->value.outcome == WARM_HIT;
    if (r->status || !r->cubin.len) {
        progress_end();
        cli_say("%s: kernel %u: %s: %.*s", c->g->file, i,
                r->status ? "the compiler refused it" : "the compiler made no cubin",
                (int)(r->log.len < 400 ? r->log.len : 400), (const char *)r->log.data);
        return CLI_FINDING;
    }
    c->bundle.kernels.at[i] =
        (struct graph_kernel){view_of_text(r->value.key), {r->cubin.data, r->cubin.len}};
    c->bundle.compiler = (struct view){r->compiler.data, r->compiler.len};
    return CLI_OK;
}

static int compile_kernels(struct compiled *c, const struct codegen *code)
{
    int status = CLI_OK;
    c->results = calloc((size_t)code->n_kernels + 1, sizeof *c->results);
    if (!c->results) {
        cli_say("out of memory");
        return CLI_USAGE;
    }
    c->bundle.target = view_of_text(c->g->target);
    for (uint32_t i = 0; i < code->n_kernels && !status; i++) {
        progress_show("compiling", i, code->n_kernels);
        status = compile_kernel(c, code, i);
    }
    progress_end();
    return status;
}

static void print_compiled(const struct compiled *c, const char *path, size_t bytes, double ms)
{
    struct json j;
    json_init(&j, stdout);
    json_open(&j, '{');
    json_key(&j, "file"), json_text(&j, c->g->file);
    json_key(&j, "output"), json_text(&j, path);
    json_key(&j, "arch"), json_text(&j, c->g->target);
    json_key(&j, "kernels"), json_u64(&j, c->bundle.kernels.n);
    json_key(&j, "hits"), json_u64(&j, c->n_hits);
    json_key(&j, "launches"), json_u64(&j, c->bundle.launches.n);
    json_key(&j, "arena"), json_u64(&j, c->bundle.arena);
    json_key(&j, "bytes"), json_u64(&j, bytes);
    json_key(&j, "ms"), json_f64(&j, (double)(uint64_t)(ms * 1000 + 0.5) / 1000);
    json_close(&j, '}');
}

static int write_bundle(const struct compiled *c, double began_ms)
{
    char path[PATH_MAX];
    struct writer bytes;
    const char *output = c->g->output ? c->g->output : path;
    if (!c->g->output && !output_name(c->g->file, "bundle", path)) {
        cli_say("%s: the output's name would be too long; give -o", c->g->file);
        return CLI_USAGE;
    }
    writer_init(&bytes, 0);
    graph_bundle_write(&c->bundle, &bytes);
    if (bytes.failed)
        cli_say("out of memory");
    int status = bytes.failed ? CLI_USAGE : output_write(output, bytes.data, bytes.len);
    if (!status && c->g->as_json)
        print_compiled(c, output, bytes.len, remote_clock_ms() - began_ms);
    writer_close(&bytes);
    return status;
}

int graph_job_compile(const struct graph_job *g, const struct cli_input *in)
{
    struct compiled c = {.g = g};
    struct codegen code = {.n_kernels = 0};
    struct err e = {0};
    double began_ms = remote_clock_ms();
    int status = CLI_USAGE;
    if (strncmp(g->target, "sm_", 3) != 0) {
        cli_say("%s: --arch %s makes no cubin of StableHLO: take one like sm_90", g->file,
                g->target);
        return CLI_USAGE;
    }
    if (plan_graph(&c, in, &code, &e) == 0)
        status = compile_kernels(&c, &code);
    else if (e.line)
        cli_say("%s: %s (line %u of `warm hash --explain`)", g->file, e.text, e.line);
    else
        cli_say("%s: %s", g->file, e.text);
    if (!status)
        status = write_bundle(&c, began_ms);
    for (uint32_t i = 0; i < c.n_results; i++)
        warm_result_free(&c.results[i]);
    free(c.results);
    graph_bundle_close(&c.bundle);
    codegen_free(&code);
    return status;
}

/* ---- warm show ---- */

static void show_kernels(const struct graph_bundle *b, struct json *j)
{
    uint32_t *launches = calloc((size_t)b->kernels.n + 1, sizeof *launches);
    for (uint32_t i = 0; launches && i < b->launches.n; i++)
        launches[b->launches.at[i].kernel]++;
    for (uint32_t i = 0; launches && i < b->kernels.n; i++) {
        const struct graph_kernel *k = &b->kernels.at[i];
        uint32_t registers = 0;
        uint64_t shared = 0;
        bool known = graph_cubin_needs(k->cubin, &registers, &shared);
        if (!j) {
            printf("%.*s  launches %" PRIu32 "  cubin %zu bytes", (int)k->key.len,
                   (const char *)k->key.data, launches[i], k->cubin.len);
            if (known)
                printf("  registers %" PRIu32 "  shared memory %" PRIu64 " bytes", registers,
                       shared);
            putchar('\n');
            continue;
        }
        json_open(j, '{');
        json_key(j, "key"), json_bytes(j, k->key.data, k->key.len);
        json_key(j, "launches"), json_u64(j, launches[i]);
        json_key(j, "bytes"), json_u64(j, k->cubin.len);
        if (known) {
            json_key(j, "registers"), json_u64(j, registers);
            json_key(j, "shared"), json_u64(j, shared);
        }
        json_close(j, '}');
    }
    free(launches);
}

static void show_json(const struct graph_bundle *b)
{
    struct json j;
    json_init(&j, stdout);
    json_open(&j, '{');
    json_key(&j, "target"), json_bytes(&j, b->target.data, b->target.len);
    json_key(&j, "compiler"), json_bytes(&j, b->compiler.data, b->compiler.len);
    json_key(&j, "arguments"), json_u64(&j, b->n_arguments);
    json_key(&j, "results"), json_u64(&j, b->results.n);
    json_key(&j, "launches"), json_u64(&j, b->launches.n);
    json_key(&j, "arena"), json_u64(&j, b->arena);
    json_key(&j, "constants"), json_u64(&j, b->constants.len);
    json_key(&j, "kernels");
    json_open(&j, '[');
    show_kernels(b, &j);
    json_close(&j, ']');
    json_close(&j, '}');
}

int graph_job_show(const char *path, bool as_json)
{
    struct cli_input in;
    struct graph_bundle b = {.n_arguments = 0};
    struct err e = {0};
    if (strcmp(path, "-") == 0 || cli_input_open(&in, path) != 0)
        return -1;
    int status = -1;
    if (graph_bundle_is(in.data, in.len)) {
        status = graph_bundle_read(in.data, in.len, &b, &e) ? CLI_USAGE : CLI_OK;
        if (status) {
            cli_say("%s: %s", path, e.text);
        } else if (as_json) {
            show_json(&b);
        } else {
            printf("target     %.*s\ncompiler   %.*s\narguments  %" PRIu32 "\nresults    %" PRIu32
                   "\nlaunches   %" PRIu32 "\narena      %" PRIu64 " bytes\nconstants  %zu bytes\n"
                   "kernels    %" PRIu32 "\n",
                   (int)b.target.len, (const char *)b.target.data, (int)b.compiler.len,
                   (const char *)b.compiler.data, b.n_arguments, b.results.n, b.launches.n, b.arena,
                   b.constants.len, b.kernels.n);
            show_kernels(&b, NULL);
        }
        graph_bundle_close(&b);
    }
    cli_input_close(&in);
    return status;
}

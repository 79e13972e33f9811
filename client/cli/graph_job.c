/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_job.c - compiles StableHLO by libwarm, writes the bundle, and prints one. commands/compile.c and
 * commands/ls.c call it.
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

static void show_progress(void *context, unsigned done, unsigned kernels)
{
    (void)context;
    progress_show("compiling", done, kernels);
}

static int write_bundle(const struct graph_job *g, const struct warm_graph_result *r,
                        double began_ms)
{
    char path[PATH_MAX];
    const char *output = g->output ? g->output : path;
    if (!g->output && !output_name(g->file, "bundle", path)) {
        cli_say("%s: the output's name would be too long; give -o", g->file);
        return CLI_USAGE;
    }
    int status = output_write(output, r->data, r->len);
    if (!status && g->as_json) {
        struct json j = {.out = stdout};
        json_open(&j, '{');
        json_key(&j, "file"), json_text(&j, g->file);
        json_key(&j, "output"), json_text(&j, output);
        json_key(&j, "arch"), json_text(&j, g->target);
        json_key(&j, "kernels"), json_u64(&j, r->n_kernels);
        json_key(&j, "hits"), json_u64(&j, r->n_hits);
        json_key(&j, "launches"), json_u64(&j, r->n_launches);
        json_key(&j, "arena"), json_u64(&j, r->arena);
        json_key(&j, "bytes"), json_u64(&j, r->len);
        json_key(&j, "cost_ms"), json_u64(&j, r->cost_ms);
        json_key(&j, "ms"),
            json_f64(&j, (double)(uint64_t)((remote_clock_ms() - began_ms) * 1000 + 0.5) / 1000);
        json_close(&j, '}');
    }
    return status;
}

/* Takes the options that name a target out of the list: libwarm adds its own. */
static size_t without_target(const char **options, size_t n)
{
    static const char *const names[] = {"-arch", "--gpu-architecture"};
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_target = false;
        for (size_t k = 0; k < 2; k++) {
            size_t len = strlen(names[k]);
            if (strncmp(options[i], names[k], len) == 0 &&
                (options[i][len] == '=' || options[i][len] == '\0')) {
                is_target = true;
                i += options[i][len] == '\0'; /* the value is the next one */
                break;
            }
        }
        if (!is_target)
            options[kept++] = options[i];
    }
    return kept;
}

int graph_job_compile(const struct graph_job *g, const struct cli_input *in)
{
    struct warm_graph graph = {.data = in->data,
                               .len = in->len,
                               .target = g->target,
                               .flags = g->vjp ? WARM_GRAPH_VJP : 0,
                               .arguments = g->arguments,
                               .n_arguments = g->n_arguments,
                               .optimizer = g->optimizer,
                               .options = g->options,
                               .n_options = without_target(g->options, g->n_options),
                               .compiler = g->compiler,
                               .timeout_ms = g->timeout_ms,
                               .job_flags = g->flags,
                               .progress = show_progress};
    struct warm_graph_result r;
    double began_ms = remote_clock_ms();
    if (strncmp(g->target, "sm_", 3) != 0) {
        cli_say("%s: --arch %s makes no cubin of StableHLO: take one like sm_90", g->file,
                g->target);
        return CLI_USAGE;
    }
    int code = warm_graph_compile(g->w, &graph, &r);
    progress_end();
    if (code) {
        cli_say("%s: %s", g->file, warm_message(g->w));
        return code == WARM_ETIMEOUT                                ? CLI_FINDING
               : code == WARM_EMALFORMED || code == WARM_ETRUNCATED ? CLI_USAGE
                                                                    : remote_exit_status(code);
    }
    int status = write_bundle(g, &r, began_ms);
    warm_graph_result_free(&r);
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
            cli_print(k->key);
            printf("  launches %" PRIu32 "  cubin %zu bytes", launches[i], k->cubin.len);
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
    struct json j = {.out = stdout};
    json_open(&j, '{');
    json_key(&j, "target"), json_bytes(&j, b->target.data, b->target.len);
    json_key(&j, "compiler"), json_bytes(&j, b->compiler.data, b->compiler.len);
    json_key(&j, "arguments"), json_u64(&j, b->n_arguments);
    json_key(&j, "results"), json_u64(&j, b->results.n);
    json_key(&j, "launches"), json_u64(&j, b->launches.n);
    json_key(&j, "forward"), json_u64(&j, b->n_forward);
    json_key(&j, "loops"), json_u64(&j, b->loops.n);
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
            printf("target     ");
            cli_print(b.target);
            printf("\ncompiler   ");
            cli_print(b.compiler);
            printf("\narguments  %" PRIu32 "\nresults    %" PRIu32 "\nlaunches   %" PRIu32
                   ", %" PRIu32 " of the forward pass, in %" PRIu32 " loops\narena      %" PRIu64
                   " bytes\nconstants  %zu bytes\n"
                   "kernels    %" PRIu32 "\n",
                   b.n_arguments, b.results.n, b.launches.n, b.n_forward, b.loops.n, b.arena,
                   b.constants.len, b.kernels.n);
            show_kernels(&b, NULL);
        }
        graph_bundle_close(&b);
    }
    cli_input_close(&in);
    return status;
}

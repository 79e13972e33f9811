/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_mlp.c - trains five multilayer perceptrons from their StableHLO, without the framework that made them.
 * It prints the time from the graph to the first step, cold and warm.
 *
 *     warm run build/bin/train_mlp [--cold] [--models FOLDER] [--arch sm_90] [--steps N] [--json] [MODEL...]
 *
 * The points are y = x² - 2x + noise on [-2, 2], 128 of them; the loss is the mean squared error; the optimizer
 * is Adam with rate 0.03. FOLDER (kernels/examples) has the loss of each model; models.py wrote them.
 *
 *     MODEL.mlir ──warm_graph_compile, with gradients and Adam──▶ bundle ──▶ graph_exec ──▶ step, step, …
 *
 *     a step:  p, count, moments, x, y ─▶ p, count, moments (copied to where they were), loss
 *
 * p has all weights and biases packed, as kernels/vjp/optimizer.h says.
 *
 * Each model is compiled and trained twice: as the cache is, where models of one width share kernels, and again,
 * warm. With --cold the first time takes nothing from the cache. The first step is launched, the others are
 * replayed as one CUDA graph. Without a GPU the times are those of compiling.
 *
 * Exit status: 0 done, also without a GPU; 1 a fault of the daemon or the GPU; 2 usage.
 *
 * Thread: main.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/warm.h"
#include "kernels/exec/exec.h"

#define POINTS 128
#define OPTIMIZER "adam,lr=0.03"
#define STATES 4u /* p, count, two moments: the first arguments, and the first results */
#define PARAMETERS_MAX 16u
#define STEPS_MAX 1000000L
#define GRAPH_MAX ((size_t)1 << 20)

static const char *const MODELS[] = {"mlp_1_16_1", "mlp_1_256_1", "mlp_1_16_16_1",
                                     "mlp_1_16_16_16_1", "mlp_1_16_16_16_16_1"};

struct settings {
    const char *folder, *arch;
    long steps;
    bool cold, as_json;
    struct driver *driver; /* NULL: no GPU */
};

struct model {
    const struct settings *s;
    const char *name; /* mlp_1_16_1: with the widths */
    struct warm_graph_result made;
    struct graph_bundle bundle;
    struct graph_exec *exec;              /* NULL: no GPU */
    double compile_ms, first_ms, each_ms; /* first: from the text to the end of step 1 */
    float *losses;                        /* by step */
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- numbers ---- */

/* Returns the i-th of a row of numbers from 0 to 1 that look random; data.py has the same. */
static double number(uint32_t i)
{
    uint32_t h = (i + 1) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    return ((h ^ h >> 13) & 0xFFFFFF) / (double)(1 << 24);
}

static void fill_points(float *x, float *y)
{
    for (uint32_t i = 0; i < POINTS; i++) {
        double noise = -1.5;
        for (uint32_t k = 0; k < 3; k++)
            noise += number(1000000 + 3 * i + k);
        x[i] = (float)(-2 + 4.0 * i / (POINTS - 1));
        y[i] = (float)((double)x[i] * (double)x[i] - 2 * (double)x[i] + 0.2 * noise);
    }
}

/* Returns the next width in a model's name, and moves behind it; 0 at the end. */
static uint32_t next_width(const char **name)
{
    const char *at = strchr(*name, '_');
    *name = at ? at + 1 : *name + strlen(*name);
    return (uint32_t)strtoul(*name, NULL, 10);
}

/* Returns how many tensors of parameters a model has: weights and biases of each layer. */
static uint32_t parameters_of(const char *name)
{
    uint32_t n = 0;
    for (next_width(&name); next_width(&name);)
        n += 2;
    return n;
}

/* Fills weights by Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
 * networks", 2010, and biases with 0. */
static void fill_parameters(const char *name, float *out)
{
    uint32_t from = next_width(&name), i = 0;
    for (uint32_t to; (to = next_width(&name)); from = to) {
        double limit = sqrt(6.0 / (from + to));
        for (uint32_t k = 0; k < from * to; k++, i++)
            *out++ = (float)((2 * number(i) - 1) * limit);
        for (uint32_t k = 0; k < to; k++, i++)
            *out++ = 0;
    }
}

/* ---- compiling ---- */

/* Reads a file of at most GRAPH_MAX bytes. Gives them (free()), or NULL. */
static char *read_graph(const char *path, size_t *out_len)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(GRAPH_MAX) : NULL;
    *out_len = text ? fread(text, 1, GRAPH_MAX, f) : 0;
    if (f)
        fclose(f);
    return text;
}

/* Compiles a model's step. Returns an error code; e has its text. */
static int compile_model(struct model *m, bool recache, struct err *e)
{
    uint32_t parameters[PARAMETERS_MAX];
    char path[4096];
    struct warm *w = NULL;
    struct warm_graph g = {.target = m->s->arch,
                           .flags = WARM_GRAPH_VJP,
                           .job_flags = recache ? WARM_RECACHE : 0,
                           .arguments = parameters,
                           .n_arguments = parameters_of(m->name),
                           .optimizer = OPTIMIZER};
    double began = now_ms();
    for (uint32_t i = 0; i < PARAMETERS_MAX; i++)
        parameters[i] = i;
    snprintf(path, sizeof path, "%s/%s.mlir", m->s->folder, m->name);
    char *text = read_graph(path, &g.len);
    g.data = text;
    int rc = text && g.n_arguments && g.n_arguments <= PARAMETERS_MAX
                 ? warm_open(&w, NULL)
                 : err_set(e, WARM_ENOT_FOUND, "%s: there is no such model", path);
    if (rc == WARM_ENO_DAEMON)
        err_set(e, rc, "no daemon: start this program by `warm run`");
    if (rc == 0 && (rc = warm_graph_compile(w, &g, &m->made)))
        err_set(e, rc, "%s: %s", path, warm_message(w));
    free(text);
    warm_close(w);
    m->compile_ms = now_ms() - began;
    return rc ? rc : graph_bundle_read(m->made.data, m->made.len, &m->bundle, e);
}

/* ---- a step ---- */

static int write_arguments(struct model *m, struct err *e)
{
    float x[POINTS], y[POINTS];
    int32_t count = 0;
    size_t n = (size_t)m->bundle.buffers.at[0].type.n;
    float *values = calloc(n, sizeof *values);
    int rc = values ? 0 : err_set(e, WARM_ENOMEM, "parameters");
    fill_points(x, y);
    if (rc == 0 && (rc = graph_exec_write(m->exec, 1, &count, e)) == 0 &&
        (rc = graph_exec_write(m->exec, 2, values, e)) == 0 &&
        (rc = graph_exec_write(m->exec, 3, values, e)) == 0 &&
        (rc = graph_exec_write(m->exec, STATES, x, e)) == 0 &&
        (rc = graph_exec_write(m->exec, STATES + 1, y, e)) == 0) {
        fill_parameters(m->name, values);
        rc = graph_exec_write(m->exec, 0, values, e);
    }
    free(values);
    return rc;
}

/* Puts a step on the stream. */
static int step(struct model *m, struct err *e)
{
    const struct graph_bundle *b = &m->bundle;
    int rc = graph_exec_launch(m->exec, e);
    for (uint32_t i = 0; i < STATES && rc == 0; i++) /* to where they come from */
        rc = driver_copy(m->s->driver, graph_exec_argument(m->exec, i),
                         graph_exec_result(m->exec, i), graph_tensor_bytes(&b->buffers.at[i].type),
                         e);
    return rc;
}

/* Records a step. Gives *out (driver_recording_free). */
static int record(struct model *m, void **out, struct err *e)
{
    struct err ignored;
    int rc = driver_capture_begin(m->s->driver, e);
    if (rc)
        return rc;
    rc = step(m, e);
    int end = driver_capture_end(m->s->driver, out, rc ? &ignored : e);
    return rc ? rc : end;
}

/* Trains from step 2 on. Reads each loss only if they are printed: that waits for the GPU. */
static int train_on(struct model *m, struct err *e)
{
    void *recording = NULL;
    int rc = record(m, &recording, e);
    double began = now_ms();
    for (long i = 1; i < m->s->steps && rc == 0; i++) {
        rc = driver_replay(m->s->driver, recording, e);
        if (rc == 0 && (m->s->as_json || i + 1 == m->s->steps))
            rc = graph_exec_read(m->exec, STATES, &m->losses[i], e);
    }
    if (m->s->steps > 1)
        m->each_ms = (now_ms() - began) / (double)(m->s->steps - 1);
    driver_recording_free(m->s->driver, recording);
    return rc;
}

/* ---- a model ---- */

static void print_model(const struct model *m, bool again)
{
    if (m->s->as_json) {
        printf("{\"model\":\"%s\",\"again\":%s,\"kernels\":%u,\"hits\":%u,\"compile_ms\":%.3f,"
               "\"nvrtc_ms\":%llu,\"launches\":%u",
               m->name, again ? "true" : "false", m->made.n_kernels, m->made.n_hits, m->compile_ms,
               (unsigned long long)m->made.cost_ms, m->made.n_launches);
        if (m->s->driver) {
            printf(",\"first_ms\":%.3f,\"each_ms\":%.6f,\"losses\":[", m->first_ms, m->each_ms);
            for (long i = 0; i < m->s->steps; i++)
                printf("%s%.9g", i ? "," : "", (double)m->losses[i]);
            putchar(']');
        }
        puts("}");
        return;
    }
    printf("%-20s %s compiled in %8.1f ms (%u kernels, %u from the cache, %u launches a step)",
           m->name, again ? "again:" : "first:", m->compile_ms, m->made.n_kernels, m->made.n_hits,
           m->made.n_launches);
    if (m->s->driver)
        printf(", first step after %8.1f ms, then %.4f ms each; loss %.4g -> %.4g", m->first_ms,
               m->each_ms, (double)m->losses[0], (double)m->losses[m->s->steps - 1]);
    putchar('\n');
    fflush(stdout);
}

/* Compiles and trains one model, from its text on. */
static int run_model(const struct settings *s, const char *name, bool again, struct err *e)
{
    struct model m = {.s = s, .name = name};
    double began = now_ms();
    m.losses = calloc((size_t)s->steps, sizeof *m.losses);
    int rc = m.losses ? compile_model(&m, s->cold && !again, e) : err_set(e, WARM_ENOMEM, "losses");
    if (rc == 0 && s->driver) {
        rc = graph_exec_new(s->driver, &m.bundle, true, &m.exec, e);
        if (rc == 0)
            rc = write_arguments(&m, e);
        if (rc == 0)
            rc = step(&m, e);
        if (rc == 0)
            rc = graph_exec_read(m.exec, STATES, m.losses, e);
        m.first_ms = now_ms() - began;
        if (rc == 0)
            rc = train_on(&m, e);
    }
    if (rc == 0)
        print_model(&m, again);
    graph_exec_free(m.exec);
    graph_bundle_close(&m.bundle);
    warm_graph_result_free(&m.made);
    free(m.losses);
    return rc;
}

static int parse(struct settings *s, int argc, char **argv)
{
    static const struct option longs[] = {
        {"models", required_argument, NULL, 'm'}, {"arch", required_argument, NULL, 'a'},
        {"steps", required_argument, NULL, 's'},  {"cold", no_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},         {NULL, 0, NULL, 0}};
    char *end = NULL;
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (c) {
        case 'm': s->folder = optarg; break;
        case 'a': s->arch = optarg; break;
        case 's': s->steps = strtol(optarg, &end, 10); break;
        case 'c': s->cold = true; break;
        case 'j': s->as_json = true; break;
        default: return -1;
        }
    }
    return s->steps < 1 || s->steps > STEPS_MAX || (end && *end) ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct settings s = {.folder = "kernels/examples", .steps = 100};
    struct err e = {0};
    if (parse(&s, argc, argv)) {
        fprintf(stderr, "usage: train_mlp [--cold] [--models FOLDER] [--arch sm_90] [--steps N] "
                        "[--json] [MODEL...]\n");
        return 2;
    }
    if (driver_open(0, &s.driver, &e))
        fprintf(stderr, "no GPU, so the models are only compiled: %s\n", e.text);
    if (!s.arch)
        s.arch = s.driver ? driver_arch(s.driver) : "sm_90";
    int n = optind < argc ? argc - optind : (int)(sizeof MODELS / sizeof *MODELS), rc = 0;
    for (int i = 0; i < n && rc == 0; i++) {
        const char *name = optind < argc ? argv[optind + i] : MODELS[i];
        for (int again = 0; again < 2 && rc == 0; again++)
            rc = run_model(&s, name, again, &e);
        if (rc)
            fprintf(stderr, "train_mlp: %s: %s\n", name, e.text);
    }
    driver_close(s.driver);
    return rc ? 1 : 0;
}

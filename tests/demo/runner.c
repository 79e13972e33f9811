/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runner.c - one check for each .cu file: inputs, launches, comparison.
 *
 * A check is a straight list of steps on a `struct run`, which remembers the first error and turns
 * every later step into nothing; so the list needs no error handling of its own:
 *
 *   1. inputs from a fixed sequence of pseudo-random numbers, copied to the device
 *   2. launches, with the grids that the .cu file documents
 *   3. outputs copied back and compared with the reference's, element by element
 */
#include "tests/demo/runner.h"
#include "tests/demo/reference.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Float32 sums of at most some hundred products of numbers up to 1, in another order than the
 * reference's, and an exponential to 2 ulp: errors stay below 1e-5. */
static const double ALLOWED = 5e-5;

enum {
    ARENA_WORDS = 1 << 20, /* of 4 bytes; the largest check takes a quarter */
    ALIGN_WORDS = 64,
    TILE = 16, /* of the dense kernels */
};

/* Arrays lie in two arenas, one here and one on the device, at the same places. */
struct array {
    void *host;
    uint64_t device;
    int len; /* in words of 4 bytes */
};

struct run {
    struct device *device;
    struct err *err;
    int rc; /* of the first step that failed */
    double worst;
    uint32_t random;
    char *host_arena;
    uint64_t device_arena;
    size_t used_words;
};

/* Returns an array of `len` words that no other array of the check overlaps. */
static struct array run_array(struct run *r, int len)
{
    size_t at = r->used_words * 4;
    r->used_words += ((size_t)len + ALIGN_WORDS - 1) / ALIGN_WORDS * ALIGN_WORDS;
    assert(r->used_words <= ARENA_WORDS);
    return (struct array){r->host_arena + at, r->device_arena + at, len};
}

static void run_upload(struct run *r, struct array a)
{
    if (r->rc == 0)
        r->rc = r->device->write(r->device, a.device, a.host, (size_t)a.len * 4, r->err);
}

/* Returns numbers evenly spread over [-1, 1): Marsaglia's xorshift32. */
static float run_random(struct run *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 17;
    r->random ^= r->random << 5;
    return (float)((double)r->random / 2147483648.0 - 1.0);
}

/* Makes an array of random numbers up to `size`, on the device too. */
static struct array run_input(struct run *r, int len, float size)
{
    struct array a = run_array(r, len);
    float *x = a.host;
    for (int i = 0; i < len; i++)
        x[i] = size * run_random(r);
    run_upload(r, a);
    return a;
}

#define ARGS(...) ((void *[]){__VA_ARGS__})

static void run_launch(struct run *r, const char *kernel, struct dims grid, struct dims block,
                       void **args)
{
    if (r->rc == 0)
        r->rc = r->device->launch(r->device, kernel, grid, block, args, r->err);
}

static const void *run_download(struct run *r, struct array a)
{
    struct array got = run_array(r, a.len);
    if (r->rc == 0)
        r->rc = r->device->read(r->device, got.host, a.device, (size_t)a.len * 4, r->err);
    return got.host;
}

/* Checks that the device's copy of the array holds the floats of `expected`. */
static void run_compare(struct run *r, const char *what, struct array a, const float *expected)
{
    const float *got = run_download(r, a);
    for (int i = 0; i < a.len && r->rc == 0; i++) {
        double error = fabs((double)got[i] - expected[i]) / (1 + fabs((double)expected[i]));
        if (!(error <= r->worst))
            r->worst = error;
        if (!(error <= ALLOWED)) /* written so that a NaN is wrong */
            r->rc = err_set(r->err, WARM_ECORRUPT, "%s[%d] is %.9g, expected %.9g", what, i,
                            (double)got[i], (double)expected[i]);
    }
}

/* Checks integers, which must be equal. */
static void run_compare_ints(struct run *r, const char *what, struct array a, const int *expected)
{
    const int *got = run_download(r, a);
    for (int i = 0; i < a.len && r->rc == 0; i++)
        if (got[i] != expected[i])
            r->rc = err_set(r->err, WARM_ECORRUPT, "%s[%d] is %d, expected %d", what, i, got[i],
                            expected[i]);
}

static const struct dims SQUARE = {TILE, TILE};

/* Returns a grid of tiles over a matrix. */
static struct dims tiles(int rows, int cols)
{
    return (struct dims){(unsigned)(cols + TILE - 1) / TILE, (unsigned)(rows + TILE - 1) / TILE};
}

/* The layers of Chain(Dense(1=>16, relu), Dense(16=>16, relu), Dense(16=>1)) on 128 points, and one
 * layer of which no size is a multiple of a tile. */
static const struct layer {
    int batch, n_in, n_out, relu;
} LAYERS[] = {{128, 1, 16, 1}, {128, 16, 16, 1}, {128, 16, 1, 0}, {37, 19, 45, 0}};
enum { N_LAYERS = sizeof LAYERS / sizeof *LAYERS };

static void check_dense_forward(struct run *r, int variant)
{
    struct layer s = LAYERS[variant];
    struct array x = run_input(r, s.batch * s.n_in, 1);
    struct array w = run_input(r, s.n_out * s.n_in, 1);
    struct array b = run_input(r, s.n_out, 1);
    struct array y = run_array(r, s.batch * s.n_out);

    run_launch(r, s.relu ? "dense_relu_forward" : "dense_forward", tiles(s.batch, s.n_out), SQUARE,
               ARGS(&x.device, &w.device, &b.device, &y.device, &s.batch, &s.n_in, &s.n_out));
    reference_dense(x.host, w.host, b.host, y.host, s.batch, s.n_in, s.n_out, s.relu);
    run_compare(r, "y", y, y.host);
}

static void check_mse_forward(struct run *r, int variant)
{
    int n = variant == 0 ? 128 : 777;
    struct array y = run_input(r, n, 1);
    struct array target = run_input(r, n, 1);
    struct array loss = run_array(r, 1);

    run_launch(r, "mse_forward", (struct dims){1, 1}, (struct dims){256, 1},
               ARGS(&y.device, &target.device, &loss.device, &n));
    float expected = (float)reference_mse(y.host, target.host, n);
    run_compare(r, "loss", loss, &expected);
}

static void check_mse_backward(struct run *r, int variant)
{
    int n = variant == 0 ? 128 : 777;
    struct array y = run_input(r, n, 1);
    struct array target = run_input(r, n, 1);
    struct array dy = run_array(r, n);

    run_launch(r, "mse_backward", (struct dims){(unsigned)(n + 127) / 128, 1},
               (struct dims){128, 1}, ARGS(&y.device, &target.device, &dy.device, &n));
    reference_mse_backward(y.host, target.host, dy.host, n);
    run_compare(r, "dy", dy, dy.host);
}

static void check_dense_backward(struct run *r, int variant)
{
    struct layer s = LAYERS[variant];
    struct array dy = run_input(r, s.batch * s.n_out, 1);
    struct array x = run_input(r, s.batch * s.n_in, 1);
    struct array w = run_input(r, s.n_out * s.n_in, 1);
    struct array dx = run_array(r, s.batch * s.n_in);
    struct array dw = run_array(r, s.n_out * s.n_in);
    struct array db = run_array(r, s.n_out);

    run_launch(r, "dense_backward_input", tiles(s.batch, s.n_in), SQUARE,
               ARGS(&dy.device, &w.device, &x.device, &dx.device, &s.batch, &s.n_in, &s.n_out));
    reference_dense_backward_input(dy.host, w.host, x.host, dx.host, s.batch, s.n_in, s.n_out);
    run_compare(r, "dx", dx, dx.host);

    run_launch(r, "dense_backward_weights", tiles(s.n_out, s.n_in), SQUARE,
               ARGS(&dy.device, &x.device, &dw.device, &db.device, &s.batch, &s.n_in, &s.n_out));
    reference_dense_backward_weights(dy.host, x.host, dw.host, db.host, s.batch, s.n_in, s.n_out);
    run_compare(r, "dw", dw, dw.host);
    run_compare(r, "db", db, db.host);
}

/* Checks ten steps, each with new gradients, on a vector longer than the grid. */
static void check_adam(struct run *r, int variant)
{
    (void)variant;
    int n = 1000;
    float rate = 0.03f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
    struct array p = run_input(r, n, 1);
    struct array m = run_input(r, n, 0);
    struct array v = run_input(r, n, 0);

    for (int step = 1; step <= 10; step++) {
        struct array g = run_input(r, n, 1);
        run_launch(r, "adam_step", (struct dims){3, 1}, (struct dims){128, 1},
                   ARGS(&p.device, &m.device, &v.device, &g.device, &n, &rate, &beta1, &beta2,
                        &epsilon, &step));
        reference_adam_step(p.host, m.host, v.host, g.host, n, rate, beta1, beta2, epsilon, step);
    }
    run_compare(r, "p", p, p.host);
    run_compare(r, "m", m, m.host);
    run_compare(r, "v", v, v.host);
}

/* Checks a length that is no multiple of a tile. A few keys dominate, because q and k are large:
 * so the running maximum moves. */
static void check_attention(struct run *r, int causal)
{
    enum { HEADS = 2, DIM = 64, ROWS = 64 };
    int length = 150, n = HEADS * length * DIM;
    float scale = 0.125f;
    struct array q = run_input(r, n, 3);
    struct array k = run_input(r, n, 3);
    struct array v = run_input(r, n, 1);
    struct array o = run_array(r, n);
    struct array lse = run_array(r, HEADS * length);

    run_launch(
        r, "flash_attention_forward", (struct dims){(unsigned)(length + ROWS - 1) / ROWS, HEADS},
        SQUARE,
        ARGS(&q.device, &k.device, &v.device, &o.device, &lse.device, &length, &scale, &causal));
    reference_attention(q.host, k.host, v.host, o.host, lse.host, HEADS, length, DIM, scale,
                        causal);
    run_compare(r, "o", o, o.host);
    run_compare(r, "lse", lse, lse.host);
}

/* Checks whole logits, of which many are equal: their order counts. */
static void check_top_p(struct run *r, int variant)
{
    enum { ROWS = 6 };
    int n_cols = variant == 0 ? 1000 : 33;
    float p = 0.9f;
    struct array logits = run_input(r, ROWS * n_cols, 8);
    float *x = logits.host;
    for (int i = 0; i < logits.len; i++)
        x[i] = rintf(x[i]);
    run_upload(r, logits);
    struct array token = run_array(r, logits.len);
    struct array prob = run_array(r, logits.len);
    struct array kept = run_array(r, ROWS);

    run_launch(r, "top_p_rows", (struct dims){ROWS, 1}, (struct dims){128, 1},
               ARGS(&logits.device, &token.device, &prob.device, &kept.device, &n_cols, &p));
    reference_top_p(logits.host, token.host, prob.host, kept.host, ROWS, n_cols, p);
    run_compare_ints(r, "token", token, token.host);
    run_compare(r, "prob", prob, prob.host);
    run_compare_ints(r, "kept", kept, kept.host);
}

static const struct check {
    const char *file;
    void (*run)(struct run *r, int variant);
    int n_variants;
} CHECKS[] = {
    {"mlp_forward", check_dense_forward, N_LAYERS},
    {"mlp_forward", check_mse_forward, 2},
    {"mlp_backward", check_mse_backward, 2},
    {"mlp_backward", check_dense_backward, N_LAYERS},
    {"adam", check_adam, 1},
    {"flash_attention", check_attention, 2},
    {"cub_block", check_top_p, 2},
};

static int run_checks(struct run *r, const char *file)
{
    int found = 0;
    for (size_t i = 0; i < sizeof CHECKS / sizeof *CHECKS; i++) {
        if (strcmp(CHECKS[i].file, file) != 0)
            continue;
        found = 1;
        for (int variant = 0; variant < CHECKS[i].n_variants && r->rc == 0; variant++) {
            r->used_words = 0;
            CHECKS[i].run(r, variant);
        }
    }
    return found ? r->rc : err_set(r->err, WARM_ENOT_FOUND, "no check for %s", file);
}

int runner_check(struct device *device, const char *file, struct runner_result *out,
                 struct err *err)
{
    struct run r = {.device = device, .err = err, .random = 2463534242u};
    r.host_arena = calloc(ARENA_WORDS, 4);
    if (!r.host_arena)
        return err_set(err, WARM_ENOMEM, "the arrays of a check");
    int rc = device->alloc(device, ARENA_WORDS * (size_t)4, &r.device_arena, err);
    if (rc == 0)
        rc = run_checks(&r, file);
    if (rc == 0 || rc == WARM_ECORRUPT)
        *out = (struct runner_result){r.worst, ALLOWED};
    device->release(device, r.device_arena);
    free(r.host_arena);
    return rc;
}

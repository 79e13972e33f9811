/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kernels.c - the demo's kernels. The CPU reference is checked against mathematics, the kernels against
 * the reference: on threads of the CPU everywhere, on the GPU where there is one. Wrong kernels must fail.
 */
#include "tests/demo/gpu.h"
#include "tests/demo/reference.h"
#include "tests/demo/runner.h"
#include "tests/kernels/cuda_on_cpu.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reference ------------------------------------------------------------------------- */

/* A 1 -> 16 -> 16 -> 1 network on 128 points, its parameters in one vector as adam.cu wants them.
 */
enum { BATCH = 128, WIDTH = 16, N_LAYERS = 3, N_PARAMS = 16 + 16 + 256 + 16 + 16 + 1 };
static const int SIZES[] = {1, WIDTH, WIDTH, 1};

struct net {
    float p[N_PARAMS], g[N_PARAMS], m[N_PARAMS], v[N_PARAMS];
    float act[N_LAYERS + 1][BATCH * WIDTH]; /* act[0] is the input */
    float target[BATCH];
};

static float evenly(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* y = x^2 - 2x + noise, as in the first of the training programs that this project is for. */
static struct net *net_new(void)
{
    struct net *net = calloc(1, sizeof *net);
    cr_assert_not_null(net);
    unsigned state = 1;
    for (int i = 0; i < N_PARAMS; i++)
        net->p[i] = 0.5f * evenly(&state);
    for (int i = 0; i < BATCH; i++) {
        float x = -2.0f + 4.0f * (float)i / BATCH;
        net->act[0][i] = x;
        net->target[i] = x * x - 2 * x + 0.1f * evenly(&state);
    }
    return net;
}

/* Where the weights of a layer begin; its biases follow them. */
static int weights_at(int layer)
{
    int at = 0;
    for (int l = 0; l < layer; l++)
        at += SIZES[l] * SIZES[l + 1] + SIZES[l + 1];
    return at;
}

static double net_loss(struct net *net)
{
    for (int l = 0; l < N_LAYERS; l++) {
        const float *w = net->p + weights_at(l), *b = w + SIZES[l] * SIZES[l + 1];
        reference_dense(net->act[l], w, b, net->act[l + 1], BATCH, SIZES[l], SIZES[l + 1],
                        l + 1 < N_LAYERS);
    }
    return reference_mse(net->act[N_LAYERS], net->target, BATCH);
}

static void net_gradient(struct net *net)
{
    float dy[BATCH * WIDTH], dx[BATCH * WIDTH];
    reference_mse_backward(net->act[N_LAYERS], net->target, dy, BATCH);
    for (int l = N_LAYERS - 1; l >= 0; l--) {
        int at = weights_at(l), n_in = SIZES[l], n_out = SIZES[l + 1];
        reference_dense_backward_weights(dy, net->act[l], net->g + at, net->g + at + n_in * n_out,
                                         BATCH, n_in, n_out);
        reference_dense_backward_input(dy, net->p + at, net->act[l], dx, BATCH, n_in, n_out);
        memcpy(dy, dx, sizeof dy);
    }
}

Test(kernels, reference_gradient_is_the_slope_of_the_loss)
{
    struct net *net = net_new();
    net_loss(net);
    net_gradient(net);
    for (int i = 0; i < N_PARAMS; i++) {
        const float step = 2e-4f, p = net->p[i];
        net->p[i] = p + step;
        double above = net_loss(net);
        net->p[i] = p - step;
        double below = net_loss(net);
        net->p[i] = p;
        double slope = (above - below) / (2.0 * step);
        cr_expect_float_eq(net->g[i], slope, 5e-3 * (1 + fabs(slope)), "parameter %d: %g, slope %g",
                           i, net->g[i], slope);
    }
    free(net);
}

Test(kernels, reference_training_learns_the_parabola)
{
    struct net *net = net_new();
    double first = net_loss(net);
    for (int step = 1; step <= 300; step++) {
        net_gradient(net);
        reference_adam_step(net->p, net->m, net->v, net->g, N_PARAMS, 0.03, 0.9, 0.999, 1e-8, step);
        net_loss(net);
    }
    double last = net_loss(net);
    cr_expect_gt(first, 1.0);
    cr_expect_lt(last, 0.02, "loss %g after 300 steps, %g before", last, first);
    free(net);
}

Test(kernels, reference_first_adam_step_has_the_length_of_the_rate)
{
    float p[] = {1, 1, 1}, m[3] = {0}, v[3] = {0}, g[] = {5, -0.01f, 0};
    reference_adam_step(p, m, v, g, 3, 0.03, 0.9, 0.999, 1e-8, 1);
    cr_expect_float_eq(p[0], 0.97f, 1e-6);
    cr_expect_float_eq(p[1], 1.03f, 1e-6);
    cr_expect_eq(p[2], 1.0f);
}

enum { LENGTH = 5, DIM = 4 };

Test(kernels, reference_attention_of_equal_scores_is_the_mean_of_what_is_seen)
{
    float q[LENGTH * DIM] = {0}, k[LENGTH * DIM], v[LENGTH * DIM], o[LENGTH * DIM], lse[LENGTH];
    for (int i = 0; i < LENGTH * DIM; i++) {
        k[i] = (float)(i % 7);
        v[i] = (float)(i / DIM); /* the key's number */
    }
    reference_attention(q, k, v, o, lse, 1, LENGTH, DIM, 0.5, 0);
    for (int i = 0; i < LENGTH; i++) {
        cr_expect_float_eq(o[i * DIM], 2.0f, 1e-6);
        cr_expect_float_eq(lse[i], logf(LENGTH), 1e-6);
    }
    reference_attention(q, k, v, o, lse, 1, LENGTH, DIM, 0.5, 1);
    for (int i = 0; i < LENGTH; i++) {
        cr_expect_float_eq(o[i * DIM], (float)i / 2, 1e-6, "query %d sees the keys up to itself",
                           i);
        cr_expect_float_eq(lse[i], logf((float)i + 1), 1e-6);
    }
}

Test(kernels, reference_attention_weighs_keys_by_the_softmax_of_their_scores)
{
    /* One query, two heads: scores 0 and 2 in the first, 3 and 3 in the second. */
    float q[] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    float k[] = {0, 9, 9, 9, 4, 9, 9, 9, 6, 9, 9, 9, 6, 9, 9, 9};
    float v[] = {0, 1, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0};
    float o[16], lse[4];
    reference_attention(q, k, v, o, lse, 2, 2, DIM, 0.5, 0);
    cr_expect_float_eq(o[0], exp(2) / (1 + exp(2)), 1e-6);
    cr_expect_float_eq(o[1], 1 / (1 + exp(2)), 1e-6);
    cr_expect_float_eq(lse[0], log(1 + exp(2)), 1e-6);
    cr_expect_float_eq(o[8], 6, 1e-6);
    cr_expect_float_eq(lse[2], 3 + log(2), 1e-6);
}

Test(kernels, reference_top_p_keeps_the_fewest_tokens_that_reach_the_mass)
{
    /* Probabilities 0.2, 0.5, 0.1, 0.2. */
    float logits[] = {logf(2), logf(5), logf(1), logf(2)}, prob[4];
    int token[4], kept;
    reference_top_p(logits, token, prob, &kept, 1, 4, 0.65);
    cr_expect_eq(kept, 2);
    const int in_order[] = {1, 0, 3, 2};
    cr_expect_arr_eq(token, in_order, sizeof token);
    cr_expect_float_eq(prob[0], 0.5, 1e-6);
    cr_expect_float_eq(prob[3], 0.1, 1e-6);
    reference_top_p(logits, token, prob, &kept, 1, 4, 0.4);
    cr_expect_eq(kept, 1);
    reference_top_p(logits, token, prob, &kept, 1, 4, 2.0);
    cr_expect_eq(kept, 4);
}

/* ---- the kernels, on threads of the CPU ----------------------------------------------------- */

static void expect_right(const char *file)
{
    struct runner_result result = {0};
    struct err err = {0};
    int rc = runner_check(cuda_on_cpu(), file, &result, &err);
    cr_expect_eq(rc, 0, "%s: %s", file, err.text);
    cr_expect_leq(result.worst, result.allowed);
}

Test(kernels, mlp_forward_agrees_with_the_reference) { expect_right("mlp_forward"); }
Test(kernels, mlp_backward_agrees_with_the_reference) { expect_right("mlp_backward"); }
Test(kernels, adam_agrees_with_the_reference) { expect_right("adam"); }
Test(kernels, flash_attention_agrees_with_the_reference) { expect_right("flash_attention"); }

/* ---- the checks ----------------------------------------------------------------------------- */

/* The CPU's device with one fault: the n-th word read back has a bit flipped, or is no number. */
struct faulty {
    struct device device;
    long countdown;
    uint32_t flip;
};

static int faulty_read(struct device *device, void *to, uint64_t from, size_t len, struct err *err)
{
    struct faulty *f = (struct faulty *)device;
    int rc = cuda_on_cpu()->read(cuda_on_cpu(), to, from, len, err);
    long n = (long)(len / sizeof(uint32_t));
    if (f->countdown >= 0 && f->countdown < n)
        ((uint32_t *)to)[f->countdown] ^= f->flip;
    f->countdown -= n;
    return rc;
}

static int faulty_check(const char *file, long word, uint32_t flip, struct err *err)
{
    struct runner_result result = {0};
    struct faulty f = {*cuda_on_cpu(), word, flip};
    f.device.read = faulty_read;
    return runner_check(&f.device, file, &result, err);
}

Test(kernels, check_sees_one_wrong_word_among_thousands)
{
    struct err err = {0};
    cr_expect_eq(faulty_check("mlp_forward", 2047, 1u << 30, &err), WARM_ECORRUPT);
    cr_expect_not_null(strstr(err.text, "y[2047] is "), "%s", err.text);
    cr_expect_eq(faulty_check("adam", 2999, 1u << 30, &err), WARM_ECORRUPT);
    cr_expect_not_null(strstr(err.text, "v[999] is "), "%s", err.text);
}

Test(kernels, check_takes_not_a_number_for_wrong)
{
    struct err err = {0};
    cr_expect_eq(faulty_check("adam", 5, 0x7fc00000u, &err), WARM_ECORRUPT);
}

Test(kernels, check_of_an_unknown_file_is_not_found)
{
    struct runner_result result = {0};
    struct err err = {0};
    cr_expect_eq(runner_check(cuda_on_cpu(), "saxpy", &result, &err), WARM_ENOT_FOUND);
}

static int refuse_launch(struct device *device, const char *kernel, struct dims grid,
                         struct dims block, void **args, struct err *err)
{
    (void)device, (void)grid, (void)block, (void)args;
    return err_set(err, WARM_EIO, "%s: refused", kernel);
}

Test(kernels, check_reports_what_the_device_said_first)
{
    struct runner_result result = {0};
    struct err err = {0};
    struct device device = *cuda_on_cpu();
    device.launch = refuse_launch;
    cr_expect_eq(runner_check(&device, "mlp_backward", &result, &err), WARM_EIO);
    cr_expect_str_eq(err.text, "mse_backward: refused");
}

/* ---- the driver ----------------------------------------------------------------------------- */

Test(kernels, driver_opens_or_says_why_not)
{
    struct gpu *gpu = NULL;
    struct err err = {0};
    int rc = gpu_open(&gpu, &err);
    if (rc == 0)
        cr_expect_eq(strncmp(driver_arch(gpu_driver(gpu)), "sm_", 3), 0, "%s",
                     driver_arch(gpu_driver(gpu)));
    else
        cr_expect(rc == WARM_EUNSUPPORTED && err.text[0], "%d: %s", rc, err.text);
    gpu_close(gpu);
}

Test(kernels, driver_refuses_a_cubin_that_was_cut_off)
{
    struct gpu *gpu = NULL;
    struct err err = {0};
    if (gpu_open(&gpu, &err) != 0)
        cr_skip("no GPU: skipped (%s)", err.text);
    static const unsigned char half[100] = {0x7f, 'E', 'L', 'F', [40] = 0xff, [60] = 64, [58] = 64};
    cr_expect_eq(gpu_load(gpu, half, sizeof half, &err), WARM_EMALFORMED);
    cr_expect_eq(gpu_load(gpu, half, 10, &err), WARM_EMALFORMED);
    gpu_close(gpu);
}

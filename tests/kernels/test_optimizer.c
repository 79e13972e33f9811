/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_optimizer.c - the training step: the models of case 0 learn as JAX and optax train them
 * (tests/data/case0_curves.txt). The interpreter runs the steps; their code has one launch for the update.
 */
#include "kernels/vjp/optimizer.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/codegen/codegen.h"
#include "kernels/eval/eval.h"
#include "tests/kernels/jax_graphs.h"
#include "tests/support/support.h"

#define NUMBERS_MAX 1024
#define POINTS 128

/* JAX computes on f32, the interpreter on doubles: 100 steps of a loss of 10 agree to this part of it. */
#define CURVE_OK 2e-3
#define PARAMETERS_OK 1e-4

struct numbers {
    double at[NUMBERS_MAX];
    int64_t n;
};

struct model {
    char name[64];
    struct numbers parameters, x, y, adam, sgd, momentum, adamw;
};

static struct numbers *numbers_of(struct model *m, const char *word)
{
    const struct {
        const char *word;
        struct numbers *at;
    } WORDS[] = {{"parameters", &m->parameters},
                 {"x", &m->x},
                 {"y", &m->y},
                 {"momentum", &m->momentum},
                 {"sgd", &m->sgd},
                 {"adam", &m->adam},
                 {"adamw", &m->adamw}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcmp(WORDS[i].word, word) == 0)
            return WORDS[i].at;
    return NULL;
}

/* Reads the models. Returns how many there are. */
static size_t read_models(struct model *out, size_t max)
{
    FILE *f = fopen("tests/data/case0_curves.txt", "r");
    static char line[1 << 16];
    size_t n = 0;
    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f)) {
        char word[32], *at = line, *next;
        int skip = 0;
        sscanf(line, "%31s%n", word, &skip);
        if (strcmp(word, "model") == 0) {
            cr_assert_lt(n, max);
            memset(&out[n], 0, sizeof out[n]);
            sscanf(line, "model %63s", out[n++].name);
            continue;
        }
        struct numbers *to = n ? numbers_of(&out[n - 1], word) : NULL;
        for (at += skip; to && to->n < NUMBERS_MAX; at = next) {
            double x = strtod(at, &next);
            if (next == at)
                break;
            to->at[to->n++] = x;
        }
    }
    fclose(f);
    return n;
}

/* Returns the training step of a model. */
static struct program *step_of(const char *name, const char *optimizer)
{
    char path[128], *text = malloc(1 << 16);
    struct program *p = NULL, *step = NULL;
    struct optimizer o;
    struct err e = {0};
    uint32_t arguments[16], n = 0;
    snprintf(path, sizeof path, "kernels/examples/%s.mlir", name);
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f, "%s", path);
    size_t len = fread(text, 1, 1 << 16, f);
    fclose(f);
    cr_assert_eq(program_read(text, len, &p, &e), 0, "%s: %s", path, e.text);
    const struct block *b = &p->blocks.at[p->functions.at[program_function(p, NULL)].block];
    for (; n < b->n_args - 2; n++) /* x and y are the last ones */
        arguments[n] = n;
    cr_assert_eq(optimizer_parse(optimizer, &o, &e), 0, "%s", e.text);
    cr_assert_eq(optimizer_step(p, program_function(p, NULL), arguments, n, &o, &step, &e), 0,
                 "%s: %s", name, e.text);
    program_free(p);
    free(text);
    return step;
}

/* Runs steps. Gives the loss before each in `losses`, and leaves the parameters in m->parameters. */
static void train(struct model *m, const char *optimizer, int steps, double *losses)
{
    struct program *step = step_of(m->name, optimizer);
    const struct block *b = &step->blocks.at[step->functions.at[0].block];
    uint32_t n_states = b->n_args - 3;
    double *now[4], *next[4], *results[5];
    const double *args[6];
    struct err e = {0};
    for (uint32_t i = 0; i <= n_states; i++) {
        cr_assert_eq(program_tensor(step, b->args + i)->n,
                     i == 1 && n_states == 3 ? 1 : m->parameters.n);
        now[i] = calloc(NUMBERS_MAX, sizeof **now);
        next[i] = calloc(NUMBERS_MAX, sizeof **next);
    }
    memcpy(now[0], m->parameters.at, sizeof m->parameters.at);
    for (int k = 0; k < steps; k++) {
        for (uint32_t i = 0; i <= n_states; i++) {
            args[i] = now[i];
            results[i] = next[i];
        }
        args[1 + n_states] = m->x.at;
        args[2 + n_states] = m->y.at;
        results[1 + n_states] = &losses[k];
        cr_assert_eq(eval_doubles(step, 0, args, results, &e), 0, "%s", e.text);
        for (uint32_t i = 0; i <= n_states; i++) {
            double *was = now[i];
            now[i] = next[i];
            next[i] = was;
        }
    }
    memcpy(m->parameters.at, now[0], sizeof m->parameters.at);
    for (uint32_t i = 0; i <= n_states; i++) {
        free(now[i]);
        free(next[i]);
    }
    program_free(step);
}

Test(optimizer, the_five_models_of_case_0_learn_as_with_jax)
{
    static struct model models[8];
    size_t n = read_models(models, 8);
    cr_assert_eq(n, (size_t)5);
    for (size_t i = 0; i < n; i++) {
        double losses[101];
        cr_assert_eq(models[i].x.n, POINTS);
        train(&models[i], "adam,lr=0.03", 101, losses);
        for (int k = 0; k < 101; k++)
            cr_assert_float_eq(losses[k], models[i].adam.at[k], CURVE_OK * models[i].adam.at[0],
                               "%s: the loss of step %d is %g, not %g", models[i].name, k,
                               losses[k], models[i].adam.at[k]);
        cr_expect_lt(losses[100], 0.2 * losses[0], "%s", models[i].name);
    }
}

Test(optimizer, each_update_is_that_of_optax)
{
    static const struct {
        const char *optimizer, *word;
    } CASES[] = {{"sgd,lr=0.03", "sgd"},
                 {"momentum,momentum=0.9,lr=0.03", "momentum"},
                 {"adamw,lr=0.03,decay=0.25", "adamw"}};
    static struct model models[8];
    for (size_t i = 0; i < 3; i++) {
        double losses[3];
        read_models(models, 8);
        const struct numbers *want = numbers_of(&models[0], CASES[i].word);
        train(&models[0], CASES[i].optimizer, 3, losses);
        cr_assert_eq(want->n, models[0].parameters.n);
        for (int64_t k = 0; k < want->n; k++)
            cr_assert_float_eq(models[0].parameters.at[k], want->at[k], PARAMETERS_OK,
                               "%s: parameter %ld is %g, not %g", CASES[i].word, (long)k,
                               models[0].parameters.at[k], want->at[k]);
    }
}

/* The second case's carry of 192 arrays: however many tensors there are, the update is in one launch. */
Test(optimizer, the_update_of_all_parameters_is_one_launch)
{
    struct program *step = step_of("mlp_1_16_16_16_16_1", "adam,lr=0.03");
    struct codegen c;
    struct err e = {0};
    uint32_t launches[3];
    cr_assert_eq(codegen_function(step, 0, &c, &e), 0, "%s", e.text);
    const struct block *b = &c.p->blocks.at[c.p->functions.at[0].block];
    for (uint32_t r = 0; r < 3; r++) { /* parameters, count, first moment */
        uint32_t value = c.places[c.p->operands.at[b->results + r]];
        launches[r] = UINT32_MAX;
        for (uint32_t i = 0; i < c.launches.n; i++) {
            const struct launch *l = &c.launches.at[i];
            for (uint32_t k = l->n_args - l->n_writes; k < l->n_args; k++)
                if (c.args.at[l->args + k] == value)
                    launches[r] = i;
        }
        cr_expect_eq(launches[r], launches[0], "result %u is written by launch %u, not %u", r,
                     launches[r], launches[0]);
    }
    cr_expect_leq(c.launches.n, 16u, "%u launches for a step of five layers", c.launches.n);
    codegen_free(&c);
    program_free(step);
}

Test(optimizer, wrong_words_are_named)
{
    static const struct {
        const char *text, *says;
    } CASES[] = {{"lion,lr=1", "lion,lr=1: no such optimizer"},
                 {"adam", "adam has no learning rate"},
                 {"adam,lr=", "lr=: not a number of adam"},
                 {"adam,lr=nan", "lr=nan: not a number"},
                 {"adam,lr=1,", ": not a number of adam"},
                 {"sgd,lr=1,beta1=0.9", "beta1=0.9: not a number of sgd"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct optimizer o;
        struct err e = {0};
        cr_expect_eq(optimizer_parse(CASES[i].text, &o, &e), WARM_EINVALID, "%s", CASES[i].text);
        cr_expect_not_null(strstr(e.text, CASES[i].says), "%s: %s", CASES[i].text, e.text);
    }
}

/* Numbers as in Germany: LC_NUMERIC of glibc's localedef, with ',' before the fraction. */
static const uint8_t COMMAS[] = {0x14, 0x11, 3,   0x20, 6,   0, 0, 0, 0x20, 0, 0, 0, 0x22, 0, 0, 0,
                                 36,   0,    0,   0,    40,  0, 0, 0, 44,   0, 0, 0, 48,   0, 0, 0,
                                 ',',  0,    '.', 0,    3,   3, 0, 0, ',',  0, 0, 0, '.',  0, 0, 0,
                                 'U',  'T',  'F', '-',  '8', 0};

/* The name of a plan has the text alone: it must mean the same in each program. */
Test(optimizer, numbers_do_not_depend_on_the_locale)
{
    char *folder = temp_dir_new(), *locale = path_join(folder, "commas"),
         *path = path_join(locale, "LC_NUMERIC");
    struct optimizer o;
    struct err e = {0};
    cr_assert_eq(mkdir(locale, 0700), 0);
    file_write(path, COMMAS, sizeof COMMAS);
    setenv("LOCPATH", folder, 1);
    cr_assert_not_null(setlocale(LC_NUMERIC, "commas"));
    cr_assert_eq(strtod("0,5", NULL), 0.5);
    cr_expect_eq(optimizer_parse("sgd,lr=0.5", &o, &e), 0, "%s", e.text);
    cr_expect_eq(o.lr, 0.5f);
    cr_expect_eq(optimizer_parse("sgd,lr=1,5", &o, &e), WARM_EINVALID);
    cr_expect_not_null(setlocale(LC_NUMERIC, "C"));
    free(path);
    free(locale);
    temp_dir_free(folder);
}

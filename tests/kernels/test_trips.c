/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_trips.c - loops that write what they carry over the old values: slices, exchanges, and values that others
 * still read. The plan of each loop and of its derivative runs on the CPU and has the numbers of the interpreter.
 *
 * A block's threads run one after the other up to each barrier. So a missing one gives wrong numbers; under
 * ThreadSanitizer (`make tsan`) it is a race.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/eval/eval.h"
#include "kernels/vjp/vjp.h"
#include "tests/kernels/for_cpu.h"
#include "tests/kernels/jax_graphs.h"

#define TOLERANCE 1e-3 /* of f32 against doubles, through some twenty operations */
#define TEXT_MAX 8192
#define LARGE 40000 /* elements: too many for a single block */

/* ---- programs ---- */

/* A loop's text, or its derivative. */
struct trips {
    char *text;
    bool vjp;
    struct program *p;
    struct graph_bundle bundle;
};

static struct program *program_of(const char *text, bool vjp)
{
    static const uint32_t ALL[] = {0, 1, 2, 3};
    struct program *p = NULL, *made = NULL;
    struct err e = {0};
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%u:%u: %s\n%s", e.line, e.column,
                 e.text, text);
    uint32_t f = program_function(p, NULL), n = p->blocks.at[p->functions.at[f].block].n_args;
    int rc = vjp ? vjp_function(p, f, ALL, n, &made, &e) : program_flatten(p, f, &made, &e);
    cr_assert_eq(rc, 0, "%s\n%s", e.text, text);
    program_free(p);
    return made;
}

/* Plans a program, and writes its kernels and run_N. */
static void write_trips(struct trips *t, FILE *f, size_t n)
{
    struct codegen c;
    struct err e = {0};
    t->p = program_of(t->text, t->vjp);
    uint32_t function = program_function(t->p, NULL);
    cr_assert_eq(codegen_function(t->p, function, &c, &e), 0, "%s\n%s", e.text, t->text);
    cr_assert_eq(graph_bundle_plan(&c, &t->bundle, &e), 0, "%s", e.text);
    if (getenv("WARM_TEST_SHOW"))
        fprintf(stderr, "%s\n%.*s\n", t->text, (int)c.source.len, (const char *)c.source.data);
    for_cpu_plan(f, n, &t->bundle, &c);
    codegen_free(&c);
}

/* ---- numbers ---- */

/* Fills an argument with numbers between -1 and 1, none of them twice in a row of 200. */
static void fill(float *x, int64_t n, uint32_t argument)
{
    for (int64_t j = 0; j < n; j++)
        x[j] = (float)((j * 7919 + argument * 31) % 201 - 100) / 100;
}

static double *doubles(const float *x, int64_t n)
{
    double *wide = calloc((size_t)n + 1, sizeof *wide);
    for (int64_t j = 0; x && j < n; j++)
        wide[j] = (double)x[j];
    return wide;
}

/* Returns the results of the interpreter: result i in [i]. */
static double **wanted(const struct program *p, float *const *args)
{
    uint32_t f = program_function(p, NULL);
    const struct block *b = &p->blocks.at[p->functions.at[f].block];
    double **x = calloc((size_t)b->n_args + 1, sizeof *x),
           **out = calloc((size_t)b->n_results + 1, sizeof *out);
    struct err e = {0};
    for (uint32_t i = 0; i < b->n_args; i++)
        x[i] = doubles(args[i], program_tensor(p, b->args + i)->n);
    for (uint32_t i = 0; i < b->n_results; i++)
        out[i] = doubles(NULL, program_tensor(p, p->operands.at[b->results + i])->n);
    cr_assert_eq(eval_doubles(p, f, (const double *const *)x, out, &e), 0, "%s", e.text);
    for (uint32_t i = 0; i < b->n_args; i++)
        free(x[i]);
    free(x);
    return out;
}

/* Runs the plan on an arena of bytes that are no numbers, and compares. */
static void run_trips(const struct trips *t, void (*run)(void **))
{
    const struct graph_bundle *b = &t->bundle;
    void **at = calloc((size_t)b->buffers.n + 1, sizeof *at);
    float **args = calloc((size_t)b->n_arguments + 1, sizeof *args);
    char *arena = malloc((size_t)b->arena + 1);
    memset(arena, 0xFF, (size_t)b->arena);
    for (uint32_t i = 0; i < b->buffers.n; i++) {
        const struct graph_buffer *buffer = &b->buffers.at[i];
        at[i] = buffer->place == PLACE_ARENA ? arena + buffer->at
                                             : (void *)(b->constants.data + buffer->at);
        if (buffer->place != PLACE_ARGUMENT)
            continue;
        at[i] = args[i] = calloc((size_t)buffer->type.n + 1, sizeof(float));
        fill(args[i], buffer->type.n, i);
    }
    run(at);
    double **want = wanted(t->p, args);
    for (uint32_t i = 0; i < b->results.n; i++) {
        const struct graph_buffer *buffer = &b->buffers.at[b->results.at[i]];
        const float *is = at[b->results.at[i]];
        for (int64_t k = 0; k < buffer->type.n; k++)
            cr_assert(fabs((double)is[k] - want[i][k]) <= TOLERANCE * (1 + fabs(want[i][k])),
                      "%s%s: result %u, element %ld is %g, not %g", t->text,
                      t->vjp ? "its derivative" : "", i, (long)k, (double)is[k], want[i][k]);
        free(want[i]);
    }
    for (uint32_t i = 0; i < b->n_arguments; i++)
        free(args[i]);
    free(want);
    free(args);
    free(arena);
    free(at);
}

/* Runs n programs, and frees their texts. */
static void agree(struct trips *t, size_t n)
{
    struct for_cpu cpu = for_cpu_open();
    for (size_t i = 0; i < n; i++)
        write_trips(&t[i], cpu.f, i);
    for_cpu_compile(&cpu);
    for (size_t i = 0; i < n; i++) {
        run_trips(&t[i], for_cpu_run(&cpu, i));
        graph_bundle_close(&t[i].bundle);
        program_free(t[i].p);
        free(t[i].text);
    }
    for_cpu_close(&cpu);
}

/* ---- loops of two carried values ---- */

#define T "tensor<6xf32>"
#define TWO "tensor<2xf32>"

/* Returns a loop of four trips over two values, with this body: the new values are %r0 and %r1. */
static char *loop_of(const char *body)
{
    char *text = malloc(TEXT_MAX);
    snprintf(text, TEXT_MAX,
             "func.func public @main(%%x0: " T ", %%x1: " T ") -> (" T ", " T ") {\n"
             "%%zero = stablehlo.constant dense<0> : tensor<i32>\n"
             "%%one = stablehlo.constant dense<1> : tensor<i32>\n"
             "%%four = stablehlo.constant dense<4> : tensor<i32>\n"
             "%%half = stablehlo.constant dense<0.5> : " T "\n"
             "%%o:3 = stablehlo.while(%%i = %%zero, %%h0 = %%x0, %%h1 = %%x1) : tensor<i32>, " T
             ", " T "\ncond {\n%%c = stablehlo.compare LT, %%i, %%four, SIGNED : (tensor<i32>, "
             "tensor<i32>) -> tensor<i1>\nstablehlo.return %%c : tensor<i1>\n} do {\n"
             "%%j = stablehlo.add %%i, %%one : tensor<i32>\n%s"
             "stablehlo.return %%j, %%r0, %%r1 : tensor<i32>, " T ", " T "\n}\n"
             "return %%o#1, %%o#2 : " T ", " T "\n}\n",
             body);
    return text;
}

#define PART(to, of, at)                                                                           \
    "%" to " = stablehlo.dynamic_slice %" of ", %" at ", sizes = [2] : (" T                        \
    ", tensor<i32>) -> " TWO "\n"
#define UPDATED(to, of, by, at)                                                                    \
    "%" to " = stablehlo.dynamic_update_slice %" of ", %" by ", %" at " : (" T ", " TWO            \
    ", tensor<i32>) -> " T "\n"
#define ROTATED(to, of)                                                                            \
    "%" to "a = stablehlo.slice %" of " [1:6] : (" T ") -> tensor<5xf32>\n"                        \
    "%" to "b = stablehlo.slice %" of " [0:1] : (" T ") -> tensor<1xf32>\n"                        \
    "%" to " = stablehlo.concatenate %" to "a, %" to "b, dim = 0 : (tensor<5xf32>, "               \
    "tensor<1xf32>) -> " T "\n"

/* Bodies, and the barriers of their code. */
static const struct {
    const char *text;
    size_t barriers;
} BODIES[] = {
    /* each writes a slice, and reads the other's old value */
    {PART("u", "h1", "i") UPDATED("r0", "h0", "u", "j") PART("v", "h0", "i")
         UPDATED("r1", "h1", "v", "j"),
     3},
    /* a slice of a value that another one reads element by element */
    {"%r1 = stablehlo.multiply %h0, %half : " T "\n" PART("u", "h1", "i")
         UPDATED("r0", "h0", "u", "j"),
     2},
    /* the new value of one is the old one of the other, which changes by a slice */
    {"%r1 = stablehlo.reshape %h0 : (" T ") -> " T
     "\n" PART("u", "h0", "i") "%n = stablehlo.negate %u : " TWO "\n" UPDATED("r0", "h0", "n", "j"),
     2},
    /* exchanges */
    {"%r0 = stablehlo.multiply %h1, %half : " T "\n%r1 = stablehlo.negate %h0 : " T "\n", 0},
    {ROTATED("r0", "h1") ROTATED("r1", "h0"), 2},
    /* each thread reads the elements that it writes */
    {"%r0 = stablehlo.multiply %h0, %half : " T "\n%r1 = stablehlo.add %h1, %h0 : " T "\n", 0},
    /* a value that is read at other elements than it is written */
    {ROTATED("r0", "h0") "%r1 = stablehlo.add %h1, %h0 : " T "\n", 1},
    {ROTATED("r1", "h0") "%r0 = stablehlo.multiply %h0, %half : " T "\n", 1},
    /* a slice of a slice's result */
    {PART("u", "h1", "i") UPDATED("s", "h0", "u", "j") PART("v", "s", "j")
         UPDATED("r0", "s", "v", "i") "%r1 = stablehlo.negate %h1 : " T "\n",
     3}};
#define N_BODIES (sizeof BODIES / sizeof *BODIES)

Test(trips, carried_values_are_written_behind_their_readers)
{
    struct trips t[2 * N_BODIES];
    for (size_t i = 0; i < 2 * N_BODIES; i++)
        t[i] = (struct trips){.text = loop_of(BODIES[i / 2].text), .vjp = i % 2};
    agree(t, 2 * N_BODIES);
}

/* Returns the barriers in the code of a loop. */
static size_t barriers_of(const char *body)
{
    char *text = loop_of(body);
    struct program *p = program_of(text, false);
    struct codegen c;
    struct err e = {0};
    size_t n = 0;
    cr_assert_eq(codegen_function(p, program_function(p, NULL), &c, &e), 0, "%s", e.text);
    writer_u8(&c.source, 0);
    for (const char *at = (const char *)c.source.data; (at = strstr(at, "__syncthreads")); at++)
        n++;
    codegen_free(&c);
    program_free(p);
    free(text);
    return n;
}

Test(trips, threads_wait_for_elements_of_others_alone)
{
    for (size_t i = 0; i < N_BODIES; i++)
        cr_expect_eq(barriers_of(BODIES[i].text), BODIES[i].barriers, "%s%zu", BODIES[i].text,
                     barriers_of(BODIES[i].text));
}

/* ---- loops at random ---- */

struct random {
    uint64_t state;
    char *at, *end;
    char type[32], part[32], rest[32];
    int64_t n;
    unsigned names, carried;
};

/* Returns a number below `below`, the next of a sequence (Steele, Lea and Flood, SplitMix, 2014). */
static unsigned any(struct random *r, unsigned below)
{
    uint64_t x = r->state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (unsigned)((x ^ x >> 31) % below);
}

__attribute__((format(printf, 2, 3))) static void say(struct random *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(r->at, (size_t)(r->end - r->at), format, args);
    va_end(args);
    cr_assert_lt(n, r->end - r->at);
    r->at += n;
}

/* Writes the update of slice of value x by a part of value y. Returns the name of the result. */
static unsigned say_update(struct random *r, unsigned x, unsigned y)
{
    static const char *const STARTS[] = {"i", "one", "two", "i", "j"};
    unsigned u = r->names++, v = r->names++, to = r->names++;
    say(r, "%%v%u = stablehlo.dynamic_slice %%v%u, %%%s, sizes = [2] : (%s, tensor<i32>) -> %s\n",
        u, y, STARTS[any(r, 5)], r->type, r->part);
    say(r, "%%v%u = stablehlo.%s %%v%u : %s\n", v, any(r, 2) ? "negate" : "tanh", u, r->part);
    say(r,
        "%%v%u = stablehlo.dynamic_update_slice %%v%u, %%v%u, %%%s : (%s, %s, tensor<i32>) -> "
        "%s\n",
        to, x, v, STARTS[any(r, 5)], r->type, r->part, r->type);
    return to;
}

/* Writes x with its elements moved by one place. */
static unsigned say_rotated(struct random *r, unsigned x)
{
    unsigned a = r->names++, b = r->names++, to = r->names++;
    say(r, "%%v%u = stablehlo.slice %%v%u [1:%ld] : (%s) -> %s\n", a, x, (long)r->n, r->type,
        r->rest);
    say(r, "%%v%u = stablehlo.slice %%v%u [0:1] : (%s) -> tensor<1xf32>\n", b, x, r->type);
    say(r, "%%v%u = stablehlo.concatenate %%v%u, %%v%u, dim = 0 : (%s, tensor<1xf32>) -> %s\n", to,
        a, b, r->rest, r->type);
    return to;
}

/* Writes an operation on values before. Returns the name of its result. */
static unsigned say_op(struct random *r, unsigned x, unsigned y)
{
    unsigned kind = any(r, 7), to;
    if (kind == 0)
        return say_rotated(r, x);
    if (kind == 1)
        return say_update(r, x, y);
    to = r->names++;
    if (kind < 4)
        say(r, "%%v%u = stablehlo.%s %%v%u : %s\n", to, kind == 2 ? "tanh" : "negate", x, r->type);
    else
        say(r, "%%v%u = stablehlo.%s %%v%u, %%%s%u : %s\n", to,
            kind == 4   ? "maximum"
            : kind == 5 ? "subtract"
                        : "multiply",
            x, kind == 6 ? "half" : "v", kind == 6 ? 0 : y, r->type);
    return to;
}

/* Writes the body of a loop, which returns new values. */
static void say_body(struct random *r)
{
    unsigned pool[16], n = 0, n_ops = any(r, 5);
    for (; n < r->carried; n++)
        pool[n] = n;
    for (unsigned i = 0; i < n_ops; i++, n++)
        pool[n] = say_op(r, pool[any(r, n)], pool[any(r, n)]);
    for (unsigned k = 0; k < r->carried; k++) {
        unsigned kind = any(r, 6), x = pool[any(r, n)];
        pool[n + k] = kind < 2    ? say_update(r, k, x)
                      : kind == 2 ? say_op(r, x, pool[any(r, n)])
                                  : x;
    }
    say(r, "stablehlo.return %%j");
    for (unsigned k = 0; k < r->carried; k++)
        say(r, ", %%v%u", pool[n + k]);
}

static void say_types(struct random *r, const char *begin, unsigned n, const char *name)
{
    for (unsigned k = 0; k < n; k++)
        say(r, "%s%s%s", k ? ", " : begin, name, r->type);
}

/* Returns a function with a loop that carries two to four values. */
static char *loop_at_random(uint64_t seed, int64_t n)
{
    char *text = malloc(TEXT_MAX);
    struct random r = {.state = seed, .at = text, .end = text + TEXT_MAX, .n = n};
    snprintf(r.type, sizeof r.type, "tensor<%ldxf32>", (long)n);
    snprintf(r.rest, sizeof r.rest, "tensor<%ldxf32>", (long)n - 1);
    snprintf(r.part, sizeof r.part, TWO);
    r.names = r.carried = 2 + any(&r, 3);
    say(&r, "func.func public @main(");
    for (unsigned k = 0; k < r.carried; k++)
        say(&r, "%s%%x%u: %s", k ? ", " : "", k, r.type);
    say_types(&r, ") -> (", r.carried, "");
    say(&r, ") {\n");
    for (unsigned k = 0; k < 4; k++)
        say(&r, "%%%s = stablehlo.constant dense<%u> : tensor<i32>\n",
            (const char *[]){"zero", "one", "two", "three"}[k], k);
    say(&r, "%%half0 = stablehlo.constant dense<0.5> : %s\n", r.type);
    say(&r, "%%o:%u = stablehlo.while(%%i = %%zero", r.carried + 1);
    for (unsigned k = 0; k < r.carried; k++)
        say(&r, ", %%v%u = %%x%u", k, k);
    say(&r, ") : tensor<i32>");
    say_types(&r, ", ", r.carried, "");
    say(&r, "\ncond {\n%%c = stablehlo.compare LT, %%i, %%three, SIGNED : (tensor<i32>, "
            "tensor<i32>) -> tensor<i1>\nstablehlo.return %%c : tensor<i1>\n} do {\n"
            "%%j = stablehlo.add %%i, %%one : tensor<i32>\n");
    say_body(&r);
    say(&r, " : tensor<i32>");
    say_types(&r, ", ", r.carried, "");
    say(&r, "\n}\nreturn ");
    for (unsigned k = 0; k < r.carried; k++)
        say(&r, "%s%%o#%u", k ? ", " : "", k + 1);
    say_types(&r, " : ", r.carried, "");
    say(&r, "\n}\n");
    return text;
}

/* WARM_TEST_SEED: other ones. */
Test(trips, loops_at_random_have_the_numbers_of_the_interpreter)
{
    enum { N = 80 };
    struct trips t[N];
    const char *seed = getenv("WARM_TEST_SEED");
    uint64_t first = seed ? strtoull(seed, NULL, 10) * N : 0;
    for (size_t i = 0; i < N; i++)
        t[i] = (struct trips){.text = loop_at_random(first + i / 2, i % 16 < 14 ? 6 : LARGE),
                              .vjp = i % 2};
    agree(t, N);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_codegen.c - the generated CUDA C++: NVRTC compiles it for three architectures; equal layers share
 * kernels; loops have one place for what they carry. test_graph_bundle.c runs it.
 */
#include "kernels/codegen/codegen.h"
#include "kernels/codegen/tiled.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/vjp/optimizer.h"
#include "kernels/vjp/vjp.h"
#include "tests/kernels/for_cpu.h"
#include "tests/support/support.h"

static struct codegen code_of(const char *name, const struct program *p)
{
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(codegen_function(p, program_function(p, NULL), &c, &e), 0, "%s: %s", name, e.text);
    return c;
}

/* ---- NVRTC ---- */

/* Loads an NVRTC. Its builtins come first: under ASan its own RUNPATH is not searched. */
static void *nvrtc_loaded(const char *folder, bool new)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libnvrtc-builtins.so.%s", folder, new ? "13.5" : "12.9");
    cr_assert_not_null(dlopen(path, RTLD_LAZY), "%s", dlerror());
    snprintf(path, sizeof path, "%s/libnvrtc.so.%s", folder, new ? "13" : "12");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(handle, "%s", dlerror());
    return handle;
}

static const char *const ARCHS[] = {"sm_80", "sm_90", "sm_100"};

/* The two NVRTCs. */
struct nvrtcs {
    char *folders[2];
    void *handles[2];
};

static struct nvrtcs nvrtcs_open(void)
{
    struct nvrtcs n = {.folders = {toolchain_lib("12.9.86"), toolchain_lib("13.5.37")}};
    if (!n.folders[0] || !n.folders[1])
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    for (int i = 0; i < 2; i++)
        n.handles[i] = nvrtc_loaded(n.folders[i], i);
    return n;
}

static void nvrtcs_close(struct nvrtcs *n)
{
    free(n->folders[0]);
    free(n->folders[1]);
}

/* Compiles a source for an architecture, with at most this many registers. Returns the log: empty without a
 * warning and a spilled register. Static memory. */
static const char *nvrtc_log(void *handle, const char *name, const char *source, const char *arch,
                             int registers)
{
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *), (*log_of)(void *, char *), (*cubin_size)(void *, size_t *),
        (*destroy)(void **);
    *(void **)&create = dlsym(handle, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(handle, "nvrtcCompileProgram");
    *(void **)&log_size = dlsym(handle, "nvrtcGetProgramLogSize");
    *(void **)&log_of = dlsym(handle, "nvrtcGetProgramLog");
    *(void **)&cubin_size = dlsym(handle, "nvrtcGetCUBINSize");
    *(void **)&destroy = dlsym(handle, "nvrtcDestroyProgram");

    static char log[4096];
    char option[32], limit[32];
    const char *options[] = {option, "--no-cache", "--ptxas-options=--warn-on-spills", limit};
    void *program;
    size_t len = 0, cubin = 0;
    snprintf(option, sizeof option, "-arch=%s", arch);
    snprintf(limit, sizeof limit, "--maxrregcount=%d", registers);
    cr_assert_eq(create(&program, source, "graph.cu", 0, NULL, NULL), 0);
    int rc = compile(program, registers ? 4 : 3, options);
    snprintf(log, sizeof log, "a long log");
    if (log_size(program, &len) == 0 && len < sizeof log)
        log_of(program, log);
    cr_expect_eq(rc, 0, "%s for %s: %d\n%s", name, arch, rc, log);
    cr_expect_eq(cubin_size(program, &cubin), 0);
    cr_expect_gt(cubin, (size_t)0);
    destroy(&program);
    return log;
}

/* Compiles a source for an architecture; expects no error and no spilled register. */
static void nvrtc_takes(void *handle, const char *name, const char *source, const char *arch)
{
    const char *log = nvrtc_log(handle, name, source, arch, 0);
    cr_expect_str_eq(log, "", "%s for %s: %s", name, arch, log);
}

/* Compiles a source by both NVRTCs for all architectures. */
static void all_take(const struct nvrtcs *n, const char *name, const char *source)
{
    for (size_t k = 0; k < 6; k++)
        nvrtc_takes(n->handles[k % 2], name, source, ARCHS[k / 2]);
}

Test(codegen, both_nvrtcs_compile_tiles_without_a_spill)
{
    static const char BOUNDS[] = "__launch_bounds__(256)";
    static const char *const CASES[][4] = {
        {"512x512xf32", "512x512xf32", "512x512xf32",
         "dot_general %a, %b, contracting_dims = [1] x [0]"},
        /* both transposed, with edges */
        {"65x511xf32", "300x65xf32", "511x300xf32",
         "dot_general %a, %b, contracting_dims = [0] x [1]"},
        {"24x100x32xf64", "24x32x64xf64", "24x100x64xf64",
         "dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]"},
        {"8x29x29x60xf32", "3x3x60x90xf32", "8x15x15x90xf32",
         "convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = "
         "{stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, "
         "feature_group_count = 1 : i64}"},
        {"8x60x29x29xf16", "90x30x3x3xf16", "8x90x29x29xf32",
         "convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = "
         "{pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}"}};
    struct nvrtcs n = nvrtcs_open();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct writer source;
        struct program *p =
            for_cpu_program(CASES[i][0], CASES[i][1], CASES[i][2], CASES[i][3], false);
        struct codegen c = code_of(CASES[i][3], p);
        bool found = false;
        for (uint32_t k = 0; k < c.n_kernels && !found; k++) {
            writer_init(&source, 0);
            codegen_write_kernel(&c, k, &source);
            writer_u8(&source, 0);
            found = strstr((const char *)source.data, "tile_a");
            if (!found)
                writer_close(&source);
        }
        cr_assert(found, "%s", CASES[i][3]);
        codegen_free(&c);
        program_free(p);
        all_take(&n, "tiles", (const char *)source.data);
        char *bounds =
            strstr((char *)source.data, BOUNDS); /* they go before a limit of registers */
        memset(bounds, ' ', strlen(BOUNDS));
        for (size_t k = 0; k < 6 && i == 0; k++) { /* a spilled register would be seen */
            const char *log =
                nvrtc_log(n.handles[k % 2], "tiles", (const char *)source.data, ARCHS[k / 2], 32);
            cr_expect(strstr(log, "spill"), "%s: %s", ARCHS[k / 2], log);
        }
        writer_close(&source);
    }
    nvrtcs_close(&n);
}

/* The codes of a graph. The first is that of its derivative, or of the graph if it has none. A forward pass
 * alone has other code if it has a loop, and a training step always. */
enum { CODES = 3 };
static bool code_number(const struct jax_graph *g, int i, struct codegen *out)
{
    struct optimizer adam;
    struct program *p = NULL, *made = NULL;
    struct err e = {0};
    uint32_t arguments[JAX_TENSORS_MAX];
    bool trains = strncmp(g->name, "mlp", 3) == 0 || strncmp(g->name, "chain", 5) == 0;
    if (i && (!g->n_gradients ||
              !(i == 1 ? memmem(g->module, g->module_len, "stablehlo.while", 15) != NULL : trains)))
        return false;
    for (uint32_t k = 0; k < JAX_TENSORS_MAX; k++)
        arguments[k] = k + 2; /* behind x and y */
    cr_assert_eq(program_read(g->module, g->module_len, &p, &e), 0, "%s", e.text);
    uint32_t f = program_function(p, NULL);
    int rc = optimizer_parse("adam,lr=0.03", &adam, &e);
    if (i == 0)
        made = for_cpu_derivative(g);
    else if (i == 1)
        rc = program_flatten(p, f, &made, &e);
    else
        rc = optimizer_step(p, f, arguments, (uint32_t)g->n_args - 2, &adam, &made, &e);
    cr_assert_eq(rc, 0, "%s: %s", g->name, e.text);
    *out = code_of(g->name, made);
    writer_u8(&out->source, 0);
    program_free(made);
    program_free(p);
    return true;
}

/* Returns the next number of a sequence (Steele, Lea and Flood, SplitMix, 2014). */
static uint64_t any_number(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Codes are compiled whole by each NVRTC for each architecture: a sample, chosen by WARM_TEST_SEED. */
Test(codegen, both_nvrtcs_compile_the_code)
{
    const char *seed = getenv("WARM_TEST_SEED");
    uint64_t state = seed ? strtoull(seed, NULL, 10) : 1;
    struct nvrtcs nvrtcs = nvrtcs_open();
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), n_codes = 0, n_compiles = 0;
    for (size_t i = 0; i < n; i++)
        for (int code = 0; code < CODES; code++) {
            struct codegen c;
            if (!code_number(&graphs[i], code, &c))
                continue;
            n_codes++;
            for (size_t k = 0; k < 6; k++) {
                if (any_number(&state) % 160)
                    continue;
                nvrtc_takes(nvrtcs.handles[k % 2], graphs[i].name, (const char *)c.source.data,
                            ARCHS[k / 2]);
                n_compiles++;
            }
            codegen_free(&c);
        }
    cr_expect_gt(n_codes, (size_t)320);
    cr_expect(n_compiles >= 5 && n_compiles < 30, "%zu of %zu", n_compiles, 6 * n_codes);
    nvrtcs_close(&nvrtcs);
}

/* Kernels of different texts. */
struct texts {
    VECTOR(char *) at;
    size_t n_all; /* with those that are equal to others */
    bool failed;
};

static void add_texts(struct texts *t, const struct codegen *c)
{
    for (uint32_t k = 0; k < c->n_kernels; k++) {
        const struct kernel_text *text = &c->texts.at[k];
        char *copy = strndup((const char *)c->source.data + text->at, text->len);
        uint32_t i = 0;
        while (i < t->at.n && strcmp(t->at.at[i], copy) != 0)
            i++;
        if (i == t->at.n)
            PUSH(t, t->at, copy);
        else
            free(copy);
        t->n_all++;
    }
}

/* Returns the declarations in front of a code's kernels. free() them. */
static char *prelude_of(const struct codegen *c)
{
    const char *source = (const char *)c->source.data, *end = strstr(source, "extern \"C\"");
    cr_assert_not_null(end);
    return strndup(source, (size_t)(end - source));
}

/* Compiles kernels `first` to `end` - 1 by both NVRTCs for each architecture. */
static void compile_texts(const struct nvrtcs *nvrtcs, const char *prelude, const struct texts *t,
                          uint32_t first, uint32_t end)
{
    struct writer source;
    char name[64];
    writer_init(&source, 0);
    writer_format(&source, "%s", prelude);
    for (uint32_t i = first; i < end; i++)
        writer_format(&source, "extern \"C\" __global__ void kernel_%u%s", i, t->at.at[i]);
    writer_u8(&source, 0);
    cr_assert(!source.failed);
    snprintf(name, sizeof name, "kernels %u to %u", first, end - 1);
    if (getenv("WARM_TEST_SHOW"))
        fprintf(stderr, "%s of %u\n", name, t->at.n);
    for (size_t k = 0; k < 6; k++)
        nvrtc_takes(nvrtcs->handles[k % 2], name, (const char *)source.data, ARCHS[k / 2]);
    writer_close(&source);
}

/* Each kernel of each code is compiled, once: `make test-codegen`. */
Test(codegen, both_nvrtcs_compile_each_kernel)
{
    enum { TOGETHER = 64 };
    if (!getenv("WARM_TEST_ALL"))
        cr_skip_test("minutes long: set WARM_TEST_ALL, or run `make test-codegen`");
    struct nvrtcs nvrtcs = nvrtcs_open();
    struct jax_graph *graphs;
    struct texts texts = {.n_all = 0};
    char *prelude = NULL;
    size_t n = jax_graphs_read(&graphs);
    for (size_t i = 0; i < n; i++)
        for (int code = 0; code < CODES; code++) {
            struct codegen c;
            if (!code_number(&graphs[i], code, &c))
                continue;
            add_texts(&texts, &c);
            prelude = prelude ? prelude : prelude_of(&c);
            codegen_free(&c);
        }
    cr_assert(!texts.failed);
    cr_expect_gt(texts.at.n, 1000u, "%u of %zu", texts.at.n, texts.n_all);
    for (uint32_t i = 0; i < texts.at.n; i += TOGETHER)
        compile_texts(&nvrtcs, prelude, &texts, i,
                      i + TOGETHER < texts.at.n ? i + TOGETHER : texts.at.n);
    for (uint32_t i = 0; i < texts.at.n; i++)
        free(texts.at.at[i]);
    free(texts.at.at);
    free(prelude);
    nvrtcs_close(&nvrtcs);
}

/* ---- sharing and refusals ---- */

#define X "tensor<8x16xf32>"
#define W "tensor<16x16xf32>"
#define B "tensor<16xf32>"

/* Returns one linear, and then n layers: linear, relu, sigmoid, linear, relu. Each has weights of its own.
 * With a head, a product and a sum follow. free() it. */
static char *layers(int n, bool head)
{
    char *text = malloc((size_t)n * 2048 + 4096), *at = text;
    at += sprintf(at, "func.func public @main(");
    for (int i = 0; i <= 2 * n; i++)
        at += sprintf(at, "%%w%d: " W ", %%b%d: " B ", ", i, i);
    at += sprintf(at,
                  "%%h: tensor<16x1xf32>, %%y0: " X ") -> %s {\n"
                  "%%zero = stablehlo.constant dense<0.0> : " X "\n",
                  head ? "tensor<f32>" : X);
    for (int i = 0; i <= 2 * n; i++) {
        at += sprintf(at,
                      "%%d%d = stablehlo.dot_general %%y%d, %%w%d, contracting_dims = [1] x [0] : "
                      "(" X ", " W ") -> " X "\n"
                      "%%e%d = stablehlo.broadcast_in_dim %%b%d, dims = [1] : (" B ") -> " X "\n"
                      "%%%c%d = stablehlo.add %%d%d, %%e%d : " X "\n",
                      i, i, i, i, i, i ? 'a' : 'y', i ? i : 1, i, i);
        if (i)
            at += sprintf(at, "%%%c%d = stablehlo.maximum %%a%d, %%zero : " X "\n",
                          i % 2 ? 'r' : 'y', i % 2 ? i : i + 1, i);
        if (i % 2)
            at += sprintf(at, "%%y%d = stablehlo.logistic %%r%d : " X "\n", i + 1, i);
    }
    if (head)
        sprintf(at,
                "%%p = stablehlo.dot_general %%y%d, %%h, contracting_dims = [1] x [0] : (" X
                ", tensor<16x1xf32>) -> tensor<8x1xf32>\n"
                "%%s = stablehlo.constant dense<0.0> : tensor<f32>\n"
                "%%loss = stablehlo.reduce(%%p init: %%s) applies stablehlo.add across dimensions "
                "= [0, 1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<f32>\n"
                "return %%loss : tensor<f32>\n}\n",
                2 * n + 1);
    else
        sprintf(at, "return %%y%d : " X "\n}\n", 2 * n + 1);
    return text;
}

/* Returns the code of a chain of n layers with the gradients of all parameters. */
static struct codegen code_of_layers(int n, bool head)
{
    uint32_t all[2 * 64 * 2 + 3];
    char *text = layers(n, head);
    struct program *p, *d;
    struct err e = {0};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
        all[i] = i;
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s", e.text);
    cr_assert_eq(vjp_function(p, 0, all, (uint32_t)n * 4 + 2 + head, &d, &e), 0, "%s", e.text);
    struct codegen c = code_of("layers", d);
    program_free(d);
    program_free(p);
    free(text);
    return c;
}

/* A layer is one region for each direction and product, whatever stands before and behind it. */
Test(codegen, a_layer_alone_has_the_kernels_of_64)
{
    for (int head = 0; head < 2; head++) {
        struct codegen one = code_of_layers(1, head), all = code_of_layers(64, head);
        cr_expect_eq(all.n_kernels, one.n_kernels, "%u kernels for 64 layers, %u for one",
                     all.n_kernels, one.n_kernels);
        cr_expect_eq(all.launches.n - one.launches.n, 63u * 4); /* two products, forward and back */
        cr_expect_eq(all.source.len, one.source.len);
        codegen_free(&one);
        codegen_free(&all);
    }
}

/* Returns the launches of a function and its gradients for all n arguments. */
static uint32_t n_launches(const char *arguments, uint32_t n, const char *body)
{
    static const uint32_t ALL[] = {0, 1, 2, 3};
    char text[1024];
    struct program *p, *d;
    struct err e = {0};
    snprintf(text, sizeof text, "func.func public @main(%s) -> " X " {\n%sreturn %%y : " X "\n}\n",
             arguments, body);
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s\n%s", e.text, text);
    cr_assert_eq(vjp_function(p, 0, ALL, n, &d, &e), 0, "%s", e.text);
    struct codegen c = code_of(text, d);
    uint32_t launches = c.launches.n;
    codegen_free(&c);
    program_free(d);
    program_free(p);
    return launches;
}

#define DOT                                                                                        \
    "%d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (" X ", " W ") -> " X "\n"
#define BIAS "%e = stablehlo.broadcast_in_dim %b, dims = [1] : (" B ") -> " X "\n"
#define SCALED "%a = stablehlo.add %d, %e : " X "\n%y = stablehlo.multiply %a, %s : " X "\n"

/* Behind a product a launch ends before a value of the function that is computed again, and before no other. */
Test(codegen, gradients_that_need_no_value_again_share_a_launch)
{
    cr_expect_eq(n_launches("%x: " X ", %w: " X, 2, "%y = stablehlo.multiply %x, %w : " X "\n"),
                 2u); /* forward and back */
    static const char ARGUMENTS[] = "%x: " X ", %w: " W ", %b: " B ", %z: " X ", %s: " X;
    uint32_t layer = n_launches(ARGUMENTS, 3, DOT BIAS SCALED);
    cr_expect_eq(n_launches(ARGUMENTS, 3, BIAS DOT SCALED), layer,
                 "the gradient of the bias comes behind those of the product");
    cr_expect_eq(n_launches(ARGUMENTS, 4, DOT BIAS SCALED), layer,
                 "the gradient of an argument without a use is zero");
}

/* True if launch i of two codes is the same: the same kernel on as many blocks. */
static bool same_launch(const struct codegen *a, const struct codegen *b, uint32_t i)
{
    const struct launch *x = &a->launches.at[i], *y = &b->launches.at[i];
    const struct kernel_text *t = &a->texts.at[x->kernel], *u = &b->texts.at[y->kernel];
    return t->len == u->len && x->blocks == y->blocks && x->threads == y->threads &&
           memcmp(a->source.data + t->at, b->source.data + u->at, t->len) == 0;
}

/* So who compiles the forward pass alone has its kernels for the derivative, and the other way round. A loop
 * that keeps rows for its way back has kernels of its own. */
Test(codegen, a_forward_pass_has_the_same_kernels_with_a_derivative_and_without)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), n_compared = 0;
    for (size_t i = 0; i < n; i++) {
        struct program *p = NULL, *f = NULL;
        struct err e = {0};
        if (!graphs[i].n_gradients ||
            memmem(graphs[i].module, graphs[i].module_len, "stablehlo.while", 15))
            continue;
        cr_assert_eq(program_read(graphs[i].module, graphs[i].module_len, &p, &e), 0, "%s", e.text);
        cr_assert_eq(program_flatten(p, program_function(p, NULL), &f, &e), 0, "%s", e.text);
        struct program *d = for_cpu_derivative(&graphs[i]);
        struct codegen alone = code_of(graphs[i].name, f), both = code_of(graphs[i].name, d);
        cr_assert_eq(alone.launches.n, both.n_forward, "%s", graphs[i].name);
        for (uint32_t k = 0; k < both.n_forward; k++)
            cr_expect(same_launch(&alone, &both, k), "%s: launch %u", graphs[i].name, k);
        n_compared++;
        codegen_free(&alone);
        codegen_free(&both);
        program_free(d);
        program_free(f);
        program_free(p);
    }
    cr_expect_gt(n_compared, (size_t)150);
}

Test(codegen, calls_are_refused)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}\n"
        "func.func private @f(%x: tensor<f32>) -> tensor<f32> {\nreturn %x : tensor<f32>\n}\n";
    struct program *p;
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(program_read(MODULE, strlen(MODULE), &p, &e), 0, "%s", e.text);
    cr_expect_eq(codegen_function(p, program_function(p, NULL), &c, &e), WARM_EUNSUPPORTED);
    cr_expect_not_null(strstr(e.text, "call: no code"), "%s", e.text);
    cr_expect_eq(e.line, 2);
    codegen_free(&c);
    program_free(p);
}

/* ---- loops ---- */

/* Returns the code of a graph of jax_graphs.txt, or of its derivative. */
static struct codegen code_of_graph(const char *name)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), i = 0;
    while (i < n && strcmp(graphs[i].name, name) != 0)
        i++;
    cr_assert_lt(i, n, "%s", name);
    struct program *d = for_cpu_derivative(&graphs[i]);
    struct codegen c = code_of(name, d);
    if (getenv("WARM_TEST_SHOW"))
        fprintf(stderr, "%s: %u kernels, %u launches, %u loops\n%.*s\n", name, c.n_kernels,
                c.launches.n, c.loops.n, (int)c.source.len, (const char *)c.source.data);
    program_free(d);
    return c;
}

/* The third case of the programs that this project is for: 16 equal modules, in three forms. */
Test(codegen, a_chain_of_equal_modules_has_the_kernels_of_one)
{
    struct codegen chain = code_of_graph("chain"), scanned = code_of_graph("chain_scanned"),
                   trained = code_of_graph("chain_trained");
    cr_expect_leq(chain.n_kernels, 40u, "%u", chain.n_kernels);
    cr_expect_leq(scanned.n_kernels, 40u, "%u", scanned.n_kernels);
    cr_expect_eq(scanned.loops.n, 2u); /* forward and back */
    cr_expect_eq(trained.loops.n, 3u); /* steps; in each of them, forward and back */
    cr_expect_leq(trained.launches.n, 64u, "%u", trained.launches.n);
    codegen_free(&chain);
    codegen_free(&scanned);
    codegen_free(&trained);
}

/* All of i64: its arithmetic, and counters and indices forward and back. */
Test(codegen, both_nvrtcs_compile_i64)
{
    static const char *const NAMES[] = {"whole_numbers_of_64_bits", "counted_by_64_bits"};
    struct nvrtcs n = nvrtcs_open();
    for (size_t i = 0; i < 2; i++) {
        struct codegen c = code_of_graph(NAMES[i]);
        writer_u8(&c.source, 0);
        all_take(&n, NAMES[i], (const char *)c.source.data);
        codegen_free(&c);
    }
    nvrtcs_close(&n);
}

/* ---- what is stored ---- */

/* Returns the tensors that the code of tanh(a) and a·a writes, a being computed by `op` from x and z. */
static uint32_t n_written(const char *op)
{
    char text[1024];
    struct program *p;
    struct err e = {0};
    uint32_t n = 0;
    snprintf(text, sizeof text,
             "func.func public @main(%%x: tensor<99xf32>, %%z: tensor<99xf32>) -> (tensor<99xf32>, "
             "tensor<99xf32>) {\n%%c = stablehlo.constant dense<0.0> : tensor<99xf32>\n"
             "%%a = %s : tensor<99xf32>\n%%0 = stablehlo.tanh %%a : tensor<99xf32>\n"
             "%%1 = stablehlo.multiply %%a, %%a : tensor<99xf32>\n"
             "return %%0, %%1 : tensor<99xf32>, tensor<99xf32>\n}\n",
             op);
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s", e.text);
    struct codegen c = code_of(op, p);
    for (uint32_t i = 0; i < c.launches.n; i++)
        n += c.launches.at[i].n_writes;
    codegen_free(&c);
    program_free(p);
    return n;
}

Test(codegen, a_value_is_stored_if_that_costs_less)
{
    cr_expect_eq(n_written("stablehlo.maximum %x, %c"), 2u); /* 4 bytes each time, or 4 once more */
    cr_expect_eq(n_written("stablehlo.subtract %x, %z"), 3u); /* 8 bytes each time */
    cr_expect_eq(n_written("stablehlo.tanh %x"), 2u); /* 20 operations in the time of 1 byte */
    cr_expect_eq(n_written("stablehlo.power %x, %z"), 3u);
}

/* ---- indices ---- */

/* A gradient of a slice is padding, and the way back over that a slice. So x is read where it was written, and
 * no barrier is between the two. */
Test(codegen, a_slice_of_padding_reads_the_element_itself)
{
    static const struct {
        const char *pad, *slice, *reads;
    } CASES[] = {
        {"low = [0], high = [0], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>",
         "[0:5:2] : (tensor<5xf32>) -> tensor<3xf32>", "p0[t0]"},
        {"low = [2], high = [1], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>",
         "[2:5] : (tensor<6xf32>) -> tensor<3xf32>", "p0[t0]"},
        {"low = [0], high = [0], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>",
         "[0:3] : (tensor<3xf32>) -> tensor<3xf32>", "p0[t0]"},
        {"low = [-1], high = [3], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>",
         "[0:2] : (tensor<5xf32>) -> tensor<2xf32>", "1 + 1 * t1"},
        {"low = [1], high = [0], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>",
         "[0:6:2] : (tensor<6xf32>) -> tensor<3xf32>", "? t"}, /* padding */
        {"low = [0], high = [3], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<6xf32>",
         "[0:4] : (tensor<6xf32>) -> tensor<4xf32>", "? t"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *type = strstr(CASES[i].slice, "-> ") + 3;
        char text[1024];
        struct program *p;
        struct err e = {0};
        snprintf(text, sizeof text,
                 "func.func public @main(%%x: tensor<3xf32>) -> %s {\n"
                 "%%c = stablehlo.constant dense<7.0> : tensor<f32>\n"
                 "%%0 = stablehlo.pad %%x, %%c, %s\n"
                 "%%1 = stablehlo.slice %%0 %s\nreturn %%1 : %s\n}\n",
                 type, CASES[i].pad, CASES[i].slice, type);
        cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s\n%s", e.text, text);
        struct codegen c = code_of(text, p);
        writer_u8(&c.source, 0);
        const char *source = (const char *)c.source.data + c.texts.at[0].at;
        cr_expect_not_null(strstr(source, CASES[i].reads), "%s\n%s", text, source);
        cr_expect_eq(strstr(source, "? t") != NULL, *CASES[i].reads == '?', "%s", source);
        codegen_free(&c);
        program_free(p);
    }
}

/* Reads main's body of results 3xf32 and 3xi32 from x and k of these types, and returns the source of its kernels. */
static char *source_of(const char *body)
{
    char text[1024];
    struct program *p;
    struct err e = {0};
    size_t len;
    snprintf(text, sizeof text,
             "func.func public @main(%%x: tensor<3xf32>, %%k: tensor<3xi32>) -> (tensor<3xf32>, "
             "tensor<3xi32>) {\n%s}\n",
             body);
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s\n%s", e.text, text);
    struct codegen c = code_of(text, p);
    writer_u8(&c.source, 0);
    char *source = (char *)writer_take(&c.source, &len);
    codegen_free(&c);
    program_free(p);
    return source;
}

Test(codegen, a_slice_of_all_elements_needs_no_barrier)
{
    char *source = source_of("%0 = stablehlo.add %k, %k : tensor<3xi32>\n"
                             "%1 = stablehlo.sine %x : tensor<3xf32>\n"
                             "%2 = stablehlo.slice %1 [0:3] : (tensor<3xf32>) -> tensor<3xf32>\n"
                             "%3 = stablehlo.multiply %2, %1 : tensor<3xf32>\n"
                             "%4 = stablehlo.cosine %3 : tensor<3xf32>\n"
                             "%5 = stablehlo.multiply %4, %3 : tensor<3xf32>\n"
                             "return %5, %0 : tensor<3xf32>, tensor<3xi32>\n");
    cr_expect_null(strstr(source, "1 * t"), "%s", source);
    cr_expect_null(strstr(source, "__syncthreads"), "%s", source);
    free(source);
}

/* A sort finds an element's new place from the keys alone. It must not read the other tensors for that. */
Test(codegen, what_is_sorted_along_is_not_compared)
{
    char *source = source_of(
        "%0 = stablehlo.add %k, %k : tensor<3xi32>\n"
        "%1:2 = \"stablehlo.sort\"(%x, %0) <{dimension = 0 : i64, is_stable = true}> ({\n"
        "^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):\n"
        "%2 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %2 : tensor<i1>\n"
        "}) : (tensor<3xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>)\n"
        "return %1#0, %1#1 : tensor<3xf32>, tensor<3xi32>\n");
    char *rank = strstr(source, " = 0;\n    const float t");
    cr_assert_not_null(rank, "%s", source);
    char *end = strstr(rank, "}\n");
    cr_assert(end && memmem(rank, (size_t)(end - rank), "ordered(", 8), "%s", source);
    cr_expect_null(memmem(rank, (size_t)(end - rank), "p1[", 3), "%s", source);
    free(source);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_plan.c - plans of graphs as entries, with a real daemon and NVRTC: a plan from the cache makes the
 * bundle that planning makes, and what is damaged is planned anew.
 */
#include "client/lib/graph_plan.h"
#include "kernels/bundle/graph_bundle.h"
#include "tests/support/compile.h"
#include "tests/support/compile_script.h"
#include "tests/support/warmd.h"

TestSuite(graph_plan, .fini = compile_teardown);

static const char small[] =
    "module @m {\n  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    "    %s = stablehlo.sine %a : tensor<4xf32>\n    return %s : tensor<4xf32>\n  }\n}\n";
static const char renamed[] =
    "module @other {\n  // a comment\n  func.func public @main(%x: tensor<4xf32>) -> "
    "tensor<4xf32> {\n    %0 = stablehlo.sine %x : tensor<4xf32> loc(\"a.py\":1:1)\n"
    "    return %0 : tensor<4xf32>\n  }\n}\n";
static const char other[] =
    "module @m {\n  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    "    %s = stablehlo.cosine %a : tensor<4xf32>\n    return %s : tensor<4xf32>\n  }\n}\n";

static struct warm_graph graph_of(const char *text)
{
    return (struct warm_graph){.data = text, .len = strlen(text), .target = "sm_90"};
}

static struct warm_graph_result compile(struct warm *w, const struct warm_graph *g)
{
    struct warm_graph_result r;
    cr_assert_eq(warm_graph_compile(w, g, &r), 0, "%s", warm_message(w));
    return r;
}

static bool same(const struct warm_graph_result *a, const struct warm_graph_result *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* True if both bundles have the same cubin; what they were compiled of may differ. */
static bool has_kernels_of(const struct warm_graph_result *a, const struct warm_graph_result *b)
{
    struct graph_bundle x, y;
    struct err e;
    cr_assert(!graph_bundle_read(a->data, a->len, &x, &e) &&
              !graph_bundle_read(b->data, b->len, &y, &e));
    cr_assert(x.kernels.n == 1 && y.kernels.n == 1);
    struct view of_a = x.kernels.at[0].cubin, of_b = y.kernels.at[0].cubin;
    bool is_same = view_equal(of_a, of_b);
    graph_bundle_close(&x);
    graph_bundle_close(&y);
    return is_same;
}

static struct warm_value plan_value(struct warm *w, const struct warm_graph *g)
{
    char name[GRAPH_PLAN_NAME];
    struct warm_value v;
    cr_assert(graph_plan_name(g, name));
    cr_assert_eq(warm_get(w, name, strlen(name), 0, &v), 0, "%s", warm_message(w));
    return v;
}

Test(graph_plan, the_name_covers_all_that_a_plan_is_made_of)
{
    static const uint32_t first[] = {0}, second[] = {1}, both[] = {0, 1};
    struct warm_graph g[] = {graph_of(small), graph_of(small), graph_of(small), graph_of(small),
                             graph_of(small), graph_of(small), graph_of(small), graph_of(other)};
    char names[8][GRAPH_PLAN_NAME], name[GRAPH_PLAN_NAME];
    for (int i = 1; i < 7; i++)
        g[i].flags = WARM_GRAPH_VJP;
    g[2].arguments = first, g[2].n_arguments = 1;
    g[3].arguments = second, g[3].n_arguments = 1;
    g[4].arguments = both, g[4].n_arguments = 2;
    g[5].optimizer = "sgd,lr=0.1";
    g[6].optimizer = "sgd,lr=0.2";
    for (int i = 0; i < 8; i++) {
        cr_assert(graph_plan_name(&g[i], names[i]));
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(names[i], names[k], "%d and %d", i, k);
    }
    struct warm_graph same_graph = graph_of(renamed), bad = graph_of("module {");
    cr_expect(graph_plan_name(&same_graph, name));
    cr_expect_str_eq(name, names[0], "another spelling of the same graph");
    same_graph.target = "sm_80";
    cr_expect(graph_plan_name(&same_graph, name));
    cr_expect_str_eq(name, names[0], "another GPU");
    cr_expect(!graph_plan_name(&bad, name));
}

Test(graph_plan, forward_and_gradients_are_entries_that_make_the_same_bundles)
{
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_nvrtc(lib, NULL, NULL);
    struct warm *w = warmd_libwarm(&k);
    static const char *const models[] = {"mlp_1_16_1", "mlp_1_16_16_1"};
    for (size_t i = 0; i < 6; i++) {
        char path[128];
        size_t len;
        snprintf(path, sizeof path, "kernels/examples/%s.mlir", models[i / 3]);
        char *text = file_read(path, &len);
        struct warm_graph g = graph_of(text);
        static const uint32_t weights[] = {0, 1, 2, 3};
        g.flags = i % 3 ? WARM_GRAPH_VJP : 0;
        g.optimizer = i % 3 == 2 ? "adam,lr=0.03" : NULL;
        g.arguments = weights;
        g.n_arguments = i % 3 ? 4 : 0;
        g.job_flags = WARM_NO_STORE;
        struct warm_graph_result unkept = compile(w, &g);
        char name[GRAPH_PLAN_NAME];
        struct warm_value v;
        cr_assert(graph_plan_name(&g, name));
        cr_expect_eq(warm_get(w, name, strlen(name), 0, &v), WARM_ENOT_FOUND, "WARM_NO_STORE");
        g.job_flags = 0;
        struct warm_graph_result first = compile(w, &g), again = compile(w, &g);
        g.job_flags = WARM_RECACHE;
        struct warm_graph_result planned = compile(w, &g);
        v = plan_value(w, &g);
        warm_value_free(&v);
        cr_expect(same(&planned, &first) && same(&planned, &again), "%zu", i);
        cr_expect_eq(again.n_hits, again.n_kernels);
        warm_graph_result_free(&unkept);
        warm_graph_result_free(&planned);
        warm_graph_result_free(&first);
        warm_graph_result_free(&again);
        free(text);
    }
    warm_close(w);
    warmd_down(&k);
}

Test(graph_plan, the_plan_of_the_cache_is_used_unless_the_caller_wants_a_new_one)
{
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_nvrtc(lib, NULL, NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_graph g = graph_of(small), cosine = graph_of(other);
    char name[GRAPH_PLAN_NAME];
    struct warm_graph_result sine = compile(w, &g), of_cosine = compile(w, &cosine);
    struct warm_value v = plan_value(w, &cosine);
    cr_assert(graph_plan_name(&g, name));
    cr_assert_eq(warm_put(w, name, strlen(name), v.data, v.len, NULL), 0);
    warm_value_free(&v);
    struct warm_graph_result wrong = compile(w, &g);
    cr_expect(has_kernels_of(&wrong, &of_cosine), "the plan under this name");
    cr_expect(!has_kernels_of(&wrong, &sine));
    g.job_flags = WARM_RECACHE;
    struct warm_graph_result anew = compile(w, &g);
    cr_expect(same(&anew, &sine));
    g.job_flags = 0;
    struct warm_graph_result last = compile(w, &g);
    cr_expect(same(&last, &sine), "the new plan took the place of the wrong one");
    warm_graph_result_free(&sine);
    warm_graph_result_free(&of_cosine);
    warm_graph_result_free(&wrong);
    warm_graph_result_free(&anew);
    warm_graph_result_free(&last);
    warm_close(w);
    warmd_down(&k);
}

Test(graph_plan, a_damaged_plan_is_none)
{
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct codegen code = {.n_kernels = 1}, got_code;
    struct graph_bundle bundle = {.n_arguments = 0}, got;
    writer_init(&code.source, 0);
    writer_format(&code.source, "0123456789");
    PUSH(&code, code.texts, ((struct kernel_text){2, 8}));
    PUSH(&bundle, bundle.kernels, ((struct graph_kernel){{NULL, 0}, {NULL, 0}}));
    graph_plan_put(w, "graph:1:test", &code, &bundle, 5);
    cr_assert(graph_plan_get(w, "graph:1:test", &got_code, &got));
    cr_expect(got_code.n_kernels == 1 && got_code.texts.at[0].at == 2 && got_code.source.len == 10);
    codegen_free(&got_code);
    graph_bundle_close(&got);
    struct warm_value v;
    cr_assert_eq(warm_get(w, "graph:1:test", 12, 0, &v), 0);
    uint8_t *bytes = malloc(v.len);
    memcpy(bytes, v.data, v.len);
    size_t len = v.len;
    warm_value_free(&v);
    for (size_t i = 0; i <= len; i++) { /* each byte of the numbers changed, then the value cut */
        bool cut = i >= 30 || i == len;
        bytes[cut ? 0 : i] ^= cut ? 0 : 0x80;
        cr_assert_eq(warm_put(w, "cut", 3, bytes, cut && i < len ? i : len, NULL), 0);
        bool good = graph_plan_get(w, "cut", &got_code, &got);
        bool is_text = i >= 4 && i < 14; /* the code itself has no other check than the store's */
        cr_expect_eq(good, i == len || is_text, "byte %zu", i);
        codegen_free(&got_code);
        graph_bundle_close(&got);
        bytes[cut ? 0 : i] ^= cut ? 0 : 0x80;
    }
    cr_expect(!graph_plan_get(w, "absent", &got_code, &got));
    codegen_free(&got_code);
    graph_bundle_close(&got);
    free(bytes);
    codegen_free(&code);
    graph_bundle_close(&bundle);
    warm_close(w);
    warmd_down(&k);
}

/* So the code of a plan is as long as its value at most, however many kernels it names. */
Test(graph_plan, kernels_that_share_code_are_none)
{
    static const struct kernel_text TEXTS[][2] = {
        {{0, 6}, {6, 4}}, {{0, 6}, {5, 5}}, {{0, 10}, {0, 10}}, {{6, 4}, {0, 6}}};
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    for (size_t i = 0; i < 4; i++) {
        struct codegen code = {.n_kernels = 2}, got_code;
        struct graph_bundle bundle = {.n_arguments = 0}, got;
        writer_init(&code.source, 0);
        writer_format(&code.source, "0123456789");
        for (size_t j = 0; j < 2; j++) {
            PUSH(&code, code.texts, TEXTS[i][j]);
            PUSH(&bundle, bundle.kernels, ((struct graph_kernel){{NULL, 0}, {NULL, 0}}));
        }
        graph_plan_put(w, "graph:1:test", &code, &bundle, 5);
        cr_expect_eq(graph_plan_get(w, "graph:1:test", &got_code, &got), i == 0, "%zu", i);
        codegen_free(&got_code);
        graph_bundle_close(&got);
        codegen_free(&code);
        graph_bundle_close(&bundle);
    }
    warm_close(w);
    warmd_down(&k);
}

static void hangs_up_at_plan(struct fake_daemon *d)
{
    fake_daemon_meet(d);
    fake_daemon_take(d, WIRE_GET);
    fake_daemon_say(d, WIRE_MISS);
    script_take_compile(d, 0);
    script_say_hit(d);
    fake_daemon_take(d, WIRE_PUT);
    fake_daemon_meet(d); /* libwarm tries once more */
    fake_daemon_take(d, WIRE_PUT);
}

Test(graph_plan, a_plan_that_cannot_be_stored_fails_no_compile)
{
    struct fake_daemon d;
    struct graph_bundle b;
    struct err e = {0};
    fake_daemon_up(&d, hangs_up_at_plan, NULL);
    struct warm *w = fake_daemon_libwarm(&d);
    struct warm_graph g = graph_of(small);
    struct warm_graph_result r = compile(w, &g);
    cr_assert_eq(graph_bundle_read(r.data, r.len, &b, &e), 0, "%s", e.text);
    cr_assert_eq(b.kernels.n, 1u);
    cr_expect(b.kernels.at[0].cubin.len == 5 &&
              memcmp(b.kernels.at[0].cubin.data, "cubin", 5) == 0);
    graph_bundle_close(&b);
    warm_graph_result_free(&r);
    warm_close(w);
    fake_daemon_down(&d);
}

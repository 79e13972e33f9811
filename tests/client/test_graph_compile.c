/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_compile.c - libwarm's warm_graph_compile with a real daemon and NVRTC: the models of case 0 share
 * kernels, gradients are those that were asked for, and what is refused is named.
 */
#include "client/lib/request.h"
#include "kernels/bundle/graph_bundle.h"
#include "tests/support/compile.h"
#include "tests/support/warmd.h"

TestSuite(graph_compile, .fini = compile_teardown);

/* Compiles a module. Gives *out on success. */
static int compile(struct warm *w, const char *text, size_t len, const uint32_t *arguments,
                   size_t n_arguments, struct warm_graph_result *out)
{
    struct warm_graph g = {.data = text,
                           .len = len,
                           .target = "sm_90",
                           .flags = arguments ? WARM_GRAPH_VJP : 0,
                           .arguments = arguments,
                           .n_arguments = n_arguments};
    return warm_graph_compile(w, &g, out);
}

/* Compiles a model of kernels/examples with the gradients of its parameters. */
static struct warm_graph_result compile_model(struct warm *w, const char *name, size_t n_parameters)
{
    static const uint32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    char path[128];
    size_t len;
    struct warm_graph_result r;
    snprintf(path, sizeof path, "kernels/examples/%s.mlir", name);
    char *text = file_read(path, &len);
    cr_assert_eq(compile(w, text, len, all, n_parameters, &r), 0, "%s: %s", name, warm_message(w));
    free(text);
    return r;
}

Test(graph_compile, models_of_one_width_share_their_kernels)
{
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_nvrtc(lib, NULL, NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_graph_result three = compile_model(w, "mlp_1_16_16_1", 6),
                             again = compile_model(w, "mlp_1_16_16_1", 6),
                             five = compile_model(w, "mlp_1_16_16_16_16_1", 10);
    cr_expect_eq(three.n_hits, 0u);
    cr_expect_eq(again.n_hits, again.n_kernels);
    cr_expect_eq(five.n_hits, five.n_kernels, "%u of %u", five.n_hits, five.n_kernels);
    cr_expect(again.len == three.len && memcmp(again.data, three.data, three.len) == 0);
    cr_expect_eq(three.n_arguments, 9u); /* six parameters, x, y, a cotangent */
    cr_expect_eq(three.n_results, 7u);   /* the loss, six gradients */
    cr_expect_gt(three.cost_ms, 0u);
    struct graph_bundle b;
    struct err e = {0};
    cr_assert_eq(graph_bundle_read(three.data, three.len, &b, &e), 0, "%s", e.text);
    cr_expect_eq(b.kernels.n, three.n_kernels);
    cr_expect_eq(b.buffers.at[b.results.at[3]].type.n, 256); /* of weights 16 x 16 */
    graph_bundle_close(&b);
    warm_graph_result_free(&three);
    warm_graph_result_free(&again);
    warm_graph_result_free(&five);
    warm_close(w);
    warmd_down(&k);
}

/* Counts the kernels of one bundle that another one has, by the keys of their entries. */
static uint32_t n_shared(const struct warm_graph_result *of, const struct warm_graph_result *with)
{
    struct graph_bundle a, b;
    struct err e = {0};
    uint32_t n = 0;
    cr_assert_eq(graph_bundle_read(of->data, of->len, &a, &e), 0, "%s", e.text);
    cr_assert_eq(graph_bundle_read(with->data, with->len, &b, &e), 0, "%s", e.text);
    for (uint32_t i = 0; i < a.kernels.n; i++)
        for (uint32_t k = 0; k < b.kernels.n; k++)
            n += a.kernels.at[i].key.len == b.kernels.at[k].key.len &&
                 memcmp(a.kernels.at[i].key.data, b.kernels.at[k].key.data,
                        a.kernels.at[i].key.len) == 0;
    graph_bundle_close(&a);
    graph_bundle_close(&b);
    return n;
}

/* Returns how many cubins the store has, once there are n or the wait is over: they are written after the answer. */
static unsigned long n_cubins(const struct warmd *k, unsigned long n)
{
    uint64_t until_ms = clock_now_ms() + WARMD_WAIT_MS;
    char *program = bin_path("warm");
    unsigned long is;
    do {
        char *out;
        run_command(&out, "WARM_SOCKET=%s %s ls | grep -c cubin", k->socket, program);
        is = strtoul(out, NULL, 10);
        free(out);
    } while (is < n && clock_now_ms() < until_ms);
    free(program);
    return is;
}

/* Compiles the forward pass alone, and then with gradients on another connection. */
Test(graph_compile, a_forward_pass_and_its_derivative_share_entries)
{
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_nvrtc(lib, NULL, NULL);
    struct warm *w = warmd_libwarm(&k), *later = warmd_libwarm(&k);
    size_t len;
    struct warm_graph_result forward;
    char *text = file_read("kernels/examples/mlp_1_16_16_1.mlir", &len);
    cr_assert_eq(compile(w, text, len, NULL, 0, &forward), 0, "%s", warm_message(w));
    struct warm_graph_result both = compile_model(later, "mlp_1_16_16_1", 6);
    cr_expect_eq(forward.n_hits, 0u);
    cr_expect_eq(both.n_hits, forward.n_kernels, "%u of %u", both.n_hits, forward.n_kernels);
    cr_expect_eq(n_shared(&forward, &both), forward.n_kernels);
    cr_expect_gt(both.n_kernels, forward.n_kernels);
    free(text);
    text = file_read("kernels/examples/mlp_1_16_16_16_16_1.mlir", &len);
    warm_graph_result_free(&forward);
    cr_assert_eq(compile(w, text, len, NULL, 0, &forward), 0, "%s", warm_message(w));
    cr_expect_eq(forward.n_hits, forward.n_kernels); /* another depth, the same width */
    free(text);
    cr_expect_eq(n_cubins(&k, both.n_kernels), both.n_kernels); /* and no others */
    warm_graph_result_free(&forward);
    warm_graph_result_free(&both);
    warm_close(later);
    warm_close(w);
    warmd_down(&k);
}

/* Expects an error, with these words in its message. */
static void refused(struct warm *w, const char *text, const uint32_t *arguments, size_t n, int code,
                    const char *words)
{
    struct warm_graph_result r;
    cr_expect_eq(compile(w, text, strlen(text), arguments, n, &r), code, "%s", warm_message(w));
    cr_expect(strstr(warm_message(w), words), "%s: %s", words, warm_message(w));
}

Test(graph_compile, what_is_refused_is_named)
{
    static const char ADD[] =
        "func.func public @main(%x: tensor<3xf32>, %i: tensor<i32>) -> tensor<3xf32> {\n"
        "%0 = stablehlo.add %x, %x : tensor<3xf32>\nreturn %0 : tensor<3xf32>\n}\n";
    static const char CBRT[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = \"stablehlo.fft\"(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}\n";
    static const char CBRT_LAST[] =
        "func.func private @f(%x: tensor<2xi32>) -> tensor<2xi32> {\n// fft of\n"
        "%0 = stablehlo.add %x, %x : tensor<2xi32>\nreturn %0 : tensor<2xi32>\n}\n"
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = stablehlo.add %x, %x : tensor<f32>\n%1 = \"stablehlo.fft\"(%0) : (tensor<f32>) -> "
        "tensor<f32>\n"
        "return %1 : tensor<f32>\n}\n";
    static const char CALLED[] =
        "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xcomplex<f32>>\n"
        "%1 = stablehlo.abs %0 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>\n"
        "return %1 : tensor<4xf32>\n}\n"
        "func.func private @f(%x: tensor<4xf32>) -> tensor<4xcomplex<f32>> {\n"
        "%0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xcomplex<f32>>\n"
        "return %0 : tensor<4xcomplex<f32>>\n}\n";
    static const char DYNAMIC[] =
        "func.func private @f(%x: tensor<2xi32>) -> tensor<2xi32> {\nreturn %x : tensor<2xi32>\n}\n"
        "func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
        "return %x : tensor<?xf32>\n}\n";
    static const char UNFIT[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = stablehlo.add %x, %x : tensor<2xf32>\nreturn %x : tensor<f32>\n}\n";
    static const char ELIDED[] =
        "func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        "%0 = stablehlo.constant dense<...> : tensor<3xf32>\nreturn %0 : tensor<3xf32>\n}\n";
    static const char CBRT_SAID[] = /* two of that name, and one operation */
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n// stablehlo.fft\n"
        "%0 = \"stablehlo.fft\"(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}\n";
    static const char SEVERAL[] = /* each once, by its first place */
        "func.func public @main(%x: tensor<3x3xf32>, %y: tensor<8xf32>) -> tensor<3x3xf32> {\n"
        "%0 = stablehlo.cholesky %x, lower = true : tensor<3x3xf32>\n"
        "%1 = stablehlo.add %0, %0 : tensor<3x3xf32>\n"
        "%2 = stablehlo.fft %y, type = RFFT, length = [8] : (tensor<8xf32>) -> "
        "tensor<5xcomplex<f32>>\n"
        "  %3 = stablehlo.cholesky %1, lower = true : tensor<3x3xf32>\n"
        "  %4 = \"stablehlo.all_reduce_it\"(%3) : (tensor<3x3xf32>) -> tensor<3x3xf32>\n"
        "  %5 = \"stablehlo.all\"(%4) : (tensor<3x3xf32>) -> tensor<3x3xf32>\n"
        "return %5 : tensor<3x3xf32>\n}\n";
    static const uint32_t second[] = {1}, third[] = {2}, three[] = {0, 0, 0};
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_graph other = {.data = ADD, .len = sizeof ADD - 1, .target = "compute_90"};
    struct warm_graph_result r;
    refused(w, "module {", NULL, 0, WARM_ETRUNCATED, "line 1, column 9: ");
    refused(w, CBRT, NULL, 0, WARM_EUNSUPPORTED, "line 2, column 7: stablehlo.fft: ");
    refused(w, CBRT_LAST, NULL, 0, WARM_EUNSUPPORTED,
            "line 8, column 7: stablehlo.fft: "); /* not f's */
    refused(w, CALLED, NULL, 0, WARM_EUNSUPPORTED, "line 2, column 6: tensor<4xcomplex<f32>>: ");
    refused(w, SEVERAL, NULL, 0, WARM_EUNSUPPORTED, "line 2, column 6: stablehlo.cholesky: ");
    refused(w, SEVERAL, NULL, 0, WARM_EUNSUPPORTED,
            "; also stablehlo.fft (line 4, column 6), stablehlo.all_reduce_it (line 6, column 9)");
    refused(w, DYNAMIC, NULL, 0, WARM_EUNSUPPORTED, "line 4, column 1: a dynamic shape");
    refused(w, UNFIT, NULL, 0, WARM_EMALFORMED,
            "line 2, column 6: a statement of unknown syntax, or");
    refused(w, ELIDED, NULL, 0, WARM_EREFUSED, "line 2, column ");
    refused(w, CBRT_SAID, NULL, 0, WARM_EUNSUPPORTED, "line 2 of `warm hash --explain`: ");
    refused(w, ADD, second, 1, WARM_EINVALID, "argument 1");
    refused(w, ADD, third, 1, WARM_EINVALID, "the gradient of argument 2, and there are 2");
    refused(w, ADD, three, 3, WARM_EINVALID, "gradients of 3 arguments of 2");
    cr_expect_eq(warm_graph_compile(w, &other, &r), WARM_EINVALID);
    cr_expect(strstr(warm_message(w), "compute_90"), "%s", warm_message(w));
    warm_close(w);
    warmd_down(&k);
}

/* JAX made the modules of loss.py: of a function of jax.numpy's own, the place is that of its call. */
Test(graph_compile, refusals_of_bytecode_say_the_line_of_the_users_program)
{
    static const char *const FILES[] = {"tests/data/refused.mlirbc",
                                        "tests/data/refused_exported.mlirbc"};
    struct warmd k = warmd_up(NULL);
    struct warm *w = warmd_libwarm(&k);
    for (int i = 0; i < 2; i++) {
        char data[8192];
        FILE *f = fopen(FILES[i], "rb");
        cr_assert_not_null(f);
        struct warm_graph g = {
            .data = data, .len = fread(data, 1, sizeof data, f), .target = "sm_90"};
        struct warm_graph_result r;
        fclose(f);
        cr_expect_eq(warm_graph_compile(w, &g, &r), WARM_EUNSUPPORTED);
        cr_expect(strncmp(warm_message(w), "loss.py:7:16: ", 14) == 0, "%s", warm_message(w));
        cr_expect(strstr(warm_message(w), "; also stablehlo.fft (loss.py:7:16)"), "%s",
                  warm_message(w));
    }
    warm_close(w);
    warmd_down(&k);
}

/* The daemon closes a connection that does not greet in ten seconds. A plan may take longer, so the greeting
 * goes first: the end of a connection that says nothing tells when that time is over. */
Test(graph_compile, a_plan_that_takes_long_keeps_the_connection)
{
    static const char BAD[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = \"stablehlo.fft\"(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}\n";
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_nvrtc(lib, NULL, NULL);
    struct warm *w = warmd_libwarm(&k);
    struct warm_graph_result r;
    size_t len;
    char *text = file_read("kernels/examples/mlp_1_16_1.mlir", &len);
    int silent = warmd_connect(&k);
    cr_expect_eq(compile(w, BAD, strlen(BAD), NULL, 0, &r), WARM_EUNSUPPORTED); /* planned */
    cr_expect(warmd_is_closed(silent));
    cr_assert_eq(compile(w, text, len, NULL, 0, &r), 0, "%s", warm_message(w));
    warm_graph_result_free(&r);
    close(silent);
    free(text);
    warm_close(w);
    warmd_down(&k);
}

/* Expects that `warm compile` of a file refuses it with one line. */
static void file_is_refused(const struct warmd *k, const char *name, const char *text,
                            const char *options, const char *line)
{
    char *out, want[256], *path = path_join(k->dir, name), *program = bin_path("warm");
    file_write(path, text, strlen(text));
    int status = run_command(&out, "WARM_SOCKET=%s %s compile %s --arch sm_90 %s -o %s.out 2>&1",
                             k->socket, program, path, options, path);
    snprintf(want, sizeof want, "warm: %s: %s\n", path, line);
    cr_expect_eq(status, 2, "%d", status);
    cr_expect_str_eq(out, want, "%s", out);
    free(out);
    free(path);
    free(program);
}

Test(graph_compile, a_file_of_another_kind_is_no_source_of_cuda)
{
    struct warmd k = warmd_up(NULL);
    for (int vjp = 0; vjp < 2; vjp++) {
        const char *options = vjp ? "--vjp" : "";
        file_is_refused(&k, "empty.mlir", "", options, "it is empty");
        file_is_refused(&k, "hello.mlir", "hello", options, "not MLIR text or bytecode");
        file_is_refused(&k, "cut.mlirbc", "ML\xefR", options,
                        "line 1, column 5: the bytecode ends in its header");
    }
    warmd_down(&k);
}

/* Each includes a header of its own, which its compiler asks for while the others are under way. */
Test(graph_compile, jobs_at_once_are_answered_each_for_itself)
{
    enum { N = 12, OF_HIT = 3, BROKEN = 7 };
    static const char *const options[] = {"--gpu-architecture=sm_90", "-I."};
    char sources[N][320], names[N][16];
    struct warm_job jobs[N];
    struct warm_result results[N], alone;
    int codes[N];
    NEEDS_TOOLCHAIN(lib);
    struct warmd k = warmd_with_nvrtc(lib, NULL, NULL);
    struct warm *w = warmd_libwarm(&k);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "h%d.h", i);
        snprintf(sources[i], sizeof sources[i],
                 "#include \"%s\"\nextern \"C\" __global__ void k(float *p) { *p = VALUE; }",
                 i == BROKEN ? "nowhere.h" : names[i]);
        char *path = path_join(k.dir, names[i]);
        file_write(path, "#define VALUE 2\n", 16);
        free(path);
        jobs[i] = (struct warm_job){.name = "k.cu",
                                    .source = sources[i],
                                    .source_len = strlen(sources[i]),
                                    .options = options,
                                    .n_options = 2,
                                    .cwd = k.dir};
    }
    cr_assert_eq(warm_compile(w, &jobs[OF_HIT], &alone), 0, "%s", warm_message(w));
    cr_assert_eq(request_compile_many(w, jobs, N, results, codes), 0, "%s", warm_message(w));
    for (int i = 0; i < N; i++) {
        cr_assert_eq(codes[i], 0, "job %d: %s", i, warm_message(w));
        cr_expect_eq(results[i].value.outcome, i == OF_HIT ? WARM_HIT : WARM_MISS, "job %d", i);
        cr_expect_eq(results[i].status == 0, i != BROKEN, "job %d", i);
        if (i != BROKEN)
            cr_expect(results[i].cubin.len == alone.cubin.len &&
                          memcmp(results[i].cubin.data, alone.cubin.data, alone.cubin.len) == 0,
                      "job %d", i);
        warm_result_free(&results[i]);
        jobs[i].flags = WARM_ONLY_IF_CACHED;
    }
    jobs[0].source = "__global__ void k() {}", jobs[0].source_len = 22;
    cr_assert_eq(request_compile_many(w, jobs, N, results, codes), 0, "%s", warm_message(w));
    for (int i = 0; i < N; i++) {
        if (i != BROKEN) /* a failure is remembered for some seconds */
            cr_expect_eq(codes[i], i == 0 ? WARM_ENOT_FOUND : 0, "job %d: %d", i, codes[i]);
        if (codes[i] == 0)
            warm_result_free(&results[i]);
    }
    warm_result_free(&alone);
    warm_close(w);
    warmd_down(&k);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shared.c - shared keys, through a real daemon and libwarm: jobs that differ in what cannot
 * show in the result cost one compile, and what they are given is what their own compile yields.
 *
 * Needs a toolchain: see support/pool.h.
 */
#include <limits.h>

#include "tests/support/spelling.h"

enum { N_PROCESSES = 8, N_KERNELS = 20 };

/* ---- many processes ---- */

struct report {
    struct key digests[N_KERNELS];
};

/* One rank: its own folder, names, order and comments. */
static void run_rank(const struct warmd *kit, int rank, struct report *out)
{
    struct warm *w = warmd_libwarm(kit);
    char *folder = path_join(kit->dir, (char[]){'r', (char)('0' + rank), '\0'});
    cr_assert_eq(mkdir(folder, 0755), 0);
    for (int i = 0; i < N_KERNELS; i++) {
        int k = (i * 7 + rank * 3) % N_KERNELS;
        char source[512], name[PATH_MAX];
        snprintf(source, sizeof source,
                 "// rank %d of %d, made in %s\nstatic __device__ int table[%d];\n"
                 "extern \"C\" __global__   void k%d(float *x) { /* %d */ x[threadIdx.x] *= %d + "
                 "table[1]; }\n",
                 rank, N_PROCESSES, folder, k + 2, k, rank * 1000 + k, k);
        snprintf(name, sizeof name, "%s/tmp%d/kernel%d.cu", folder, rank * 31 + k, k);
        spelling_compile(w, &(struct spelling){.name = name, .cwd = folder, .source = source},
                         &out->digests[k]);
    }
    free(folder);
    warm_close(w);
}

Test(shared, eight_processes_that_compile_the_same_twenty_kernels_compile_twenty)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    pid_t pids[N_PROCESSES];
    int pipes[N_PROCESSES][2];
    static struct report reports[N_PROCESSES];
    for (int i = 0; i < N_PROCESSES; i++) {
        cr_assert_eq(pipe(pipes[i]), 0);
        pids[i] = fork();
        cr_assert_geq(pids[i], 0);
        if (pids[i] == 0) {
            run_rank(&r.kit, i, &reports[i]);
            _exit(write(pipes[i][1], &reports[i], sizeof reports[i]) == (ssize_t)sizeof reports[i]
                      ? 0
                      : 1);
        }
        close(pipes[i][1]);
    }
    for (int i = 0; i < N_PROCESSES; i++) {
        size_t got = 0;
        ssize_t n;
        while ((n = read(pipes[i][0], (char *)&reports[i] + got, sizeof reports[i] - got)) > 0)
            got += (size_t)n;
        cr_assert_eq(got, sizeof reports[i], "process %d", i);
        close(pipes[i][0]);
        int status;
        cr_assert_eq(waitpid(pids[i], &status, 0), pids[i]);
        cr_assert_eq(status, 0);
        cr_assert_eq(memcmp(&reports[i], &reports[0], sizeof reports[0]), 0,
                     "process %d has other bytes", i);
    }
    cr_assert_eq(n_compiles(&r.kit), (unsigned long long)N_KERNELS);
    rig_down(&r);
}

/* ---- the bytes ---- */

static const struct {
    const char *what;
    const char *first, *second; /* two spellings of one source */
    const char *options[4], *expressions[2];
} same[] = {
    {"comments and blanks",
     "extern \"C\" __global__ void f(float *x) { x[0] += 1; }\n",
     "/* a */ extern \"C\"\n\n__global__ void f( float * x )\n{\n  x[0]+=1; // b\n}\n",
     {0},
     {0}},
    {"symbols of internal linkage",
     "static __device__ int a[3];\nnamespace { __device__ int b; }\n"
     "__global__ void k(int *x) { x[0] = a[x[1]] + b; a[x[2]] = 1; b = 2; }\n",
     "// one line more\nstatic __device__ int a[3];\nnamespace { __device__ int b; }\n"
     "__global__ void k(int *x) { x[0] = a[x[1]] + b;\n a[x[2]] = 1; b = 2; }\n",
     {"-rdc=true"},
     {0}},
    {"name expressions",
     "template <class T> __global__ void k(T *x) { *x = 3; }\n",
     "template <class T> /* */ __global__ void k(T *x) { *x = 3; }\n",
     {"-std=c++17"},
     {"k<float>", "k<int>"}},
    {"order of options",
     "__global__ void k(float *x) { x[0] = x[1] * x[2] + x[3]; }\n",
     "__global__ void k(float *x) {\n x[0] = x[1] * x[2] + x[3]; }\n",
     {"-fmad=false", "-DA=1", "--pch"},
     {0}},
    {"no cubin",
     "__global__ void k(float *x) { x[0] = A; }\n",
     "__global__ void k(float *x) { x[0] = A; } //\n",
     {"-DA=2", "-maxrregcount=32"},
     {0}},
    {"macros",
     "#define F(x) (x) + 1\n#if 1\n__global__ void k(int *x) { *x = F(2); }\n#endif\n",
     "#define   F(x)   (x) + 1\n#if 1 // yes\n__global__ void k(int *x) { *x = F( 2 ); }\n#endif\n",
     {0},
     {0}},
};

Test(shared, what_is_served_is_what_its_own_compile_yields)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    char *here = path_join(r.kit.dir, "here"), *there = path_join(r.kit.dir, "there");
    cr_assert_eq(mkdir(here, 0755) | mkdir(there, 0755), 0);
    for (size_t v = 0; v < 2; v++)
        for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
            char first[PATH_MAX], second[PATH_MAX];
            snprintf(first, sizeof first, "%s/k%zu.cu", here, i);
            snprintf(second, sizeof second, "%s/k%zu.cu", there, i);
            struct spelling a = {
                .name = first, .cwd = here, .source = same[i].first, .version = versions[v]};
            memcpy(a.options, same[i].options, sizeof a.options);
            memcpy(a.expressions, same[i].expressions, sizeof a.expressions);
            struct spelling b = a;
            b.name = second;
            b.cwd = there;
            b.source = same[i].second;
            struct key of_a, of_b, again, own = spelling_own_result(r.warm, &b);
            cr_assert_eq(spelling_compile(r.warm, &a, &of_a), WARM_MISS, "%s", same[i].what);
            cr_assert_eq(spelling_compile(r.warm, &b, &of_b), WARM_HIT, "%s, %s", same[i].what,
                         versions[v]);
            cr_assert_eq(spelling_compile(r.warm, &b, &again), WARM_HIT, "%s, by its alias",
                         same[i].what);
            cr_expect(key_equal(&of_b, &own), "%s, %s", same[i].what, versions[v]);
            cr_expect(key_equal(&of_b, &of_a) && key_equal(&of_b, &again));
        }
    free(here);
    free(there);
    rig_down(&r);
}

Test(shared, where_lines_names_or_a_log_may_show_each_spelling_has_its_own)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const struct {
        const char *source, *options[4];
    } own[] = {
        {"__global__ void k(int *x) { *x = __LINE__; }\n", {0}},
        {"__global__ void k(int *x) { *x = __FILE__[*x]; }\n", {0}},
        {"__global__ void k(int *x) { int unused; *x = 1; }\n", {0}},
        {"__global__ void k(int *x) { *x = 1; }\n", {"-lineinfo"}},
        {"__global__ void k(int *x) { *x = 1; }\n", {"-G"}},
        {"__global__ void k(int *x) { *x = 1; }\n", {"-dlto", "-rdc=true"}},
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        struct spelling a = {.name = "/nowhere/one/k.cu", .source = own[i].source}, b;
        memcpy(a.options, own[i].options, sizeof a.options);
        b = a;
        b.name = "/nowhere/two/k.cu";
        struct key of_b, by_itself = spelling_own_result(r.warm, &b);
        cr_assert_eq(spelling_compile(r.warm, &a, NULL), WARM_MISS);
        cr_assert_eq(spelling_compile(r.warm, &b, &of_b), WARM_MISS, "%s %s", own[i].source,
                     own[i].options[0] ? own[i].options[0] : "");
        cr_expect(key_equal(&of_b, &by_itself), "%s", own[i].source);
    }
    rig_down(&r);
}

Test(shared, another_last_component_of_the_name_is_another_job)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    struct spelling a = {.name = "one.cu", .source = same[1].first, .options = {"-rdc=true"}};
    struct spelling b = a;
    b.name = "two.cu";
    struct key of_a, of_b;
    cr_assert_eq(spelling_compile(r.warm, &a, &of_a), WARM_MISS);
    cr_assert_eq(spelling_compile(r.warm, &b, &of_b), WARM_MISS);
    cr_assert(!key_equal(&of_a, &of_b), "the name is in the symbols");
    rig_down(&r);
}

static const char *const both[] = {"13.5", "12.9"};

/* An option that states the default is the same job. */
Test(shared, explicit_defaults_hit)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const defaults[] = {"-ftz=false", "--fmad=true", "-prec-div=true"};
    for (size_t v = 0; v < 2; v++) {
        struct spelling s = {.name = "k.cu",
                             .version = both[v],
                             .source = "__global__ void k(float *x) { *x = *x * 3.f / x[1]; }\n"};
        cr_expect_eq(spelling_expect_own(r.warm, &s), WARM_MISS);
        for (size_t i = 0; i < 3; i++) {
            s.options[0] = defaults[i];
            cr_expect_eq(spelling_expect_own(r.warm, &s), WARM_HIT, "%s: %s", both[v], defaults[i]);
        }
        s.options[0] = "-ftz=true";
        cr_expect_eq(spelling_expect_own(r.warm, &s), WARM_MISS);
        s.options[1] = "-ftz=false";
        struct warm_result result = {0};
        cr_expect_eq(spelling_try(r.warm, &s, &result), 0);
        warm_result_free(&result);
    }
    rig_down(&r);
}

Test(shared, what_was_made_lasts_through_a_restart)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    struct spelling a = {.name = "/nowhere/a/k.cu", .source = same[0].first};
    struct spelling b = {.name = "/nowhere/b/k.cu", .source = same[0].second}, c = b;
    c.name = "/nowhere/c/k.cu";
    cr_assert_eq(spelling_compile(r.warm, &a, NULL), WARM_MISS);
    cr_assert_eq(spelling_compile(r.warm, &b, NULL), WARM_HIT);
    warm_close(r.warm);
    kill(r.kit.pid, SIGTERM);
    cr_assert_eq(warmd_reap(r.kit.pid), 0);
    char *options[] = {"--nvrtc", r.lib13, "--nvrtc", r.lib12, NULL};
    warmd_start(&r.kit, options);
    r.warm = warmd_libwarm(&r.kit);
    cr_assert_eq(spelling_compile(r.warm, &a, NULL), WARM_HIT);
    cr_assert_eq(spelling_compile(r.warm, &b, NULL), WARM_HIT);
    cr_assert_eq(spelling_compile(r.warm, &c, NULL), WARM_HIT);
    cr_assert_eq(n_compiles(&r.kit), 0ull);
    rig_down(&r);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shared.c - shared keys, through a real daemon and libwarm: jobs that differ in what cannot
 * show in the result cost one compile, and what they are given is what their own compile yields.
 *
 * Needs a toolchain: see support/pool.h.
 */
#include <limits.h>

#include "client/lib/warm.h"
#include "keygen/key.h"
#include "tests/support/collision.h"
#include "tests/support/warmd.h"

enum { N_PROCESSES = 8, N_KERNELS = 20 };

struct rig {
    struct warmd kit;
    char *lib13, *lib12;
    struct warm *warm;
};

static void connect_to(const struct warmd *kit, struct warm **out)
{
    struct warm_options to = {.socket = kit->socket,
                              .connect_timeout_ms = WARMD_WAIT_MS,
                              .request_timeout_ms = WARMD_WAIT_MS};
    cr_assert_eq(warm_open(out, &to), 0);
}

static void rig_up(struct rig *r)
{
    char *options[] = {"--nvrtc", r->lib13, "--nvrtc", r->lib12, "--jobs", "2", NULL};
    r->kit = warmd_up(options);
    connect_to(&r->kit, &r->warm);
}

static void rig_down(struct rig *r)
{
    warm_close(r->warm);
    free(r->lib13);
    free(r->lib12);
    warmd_down(&r->kit);
}

#define NEEDS_TOOLCHAIN(r)                                                                         \
    struct rig r = {.lib13 = toolchain_lib("13.5.37"), .lib12 = toolchain_lib("12.9.86")};         \
    if (!r.lib13 || !r.lib12)                                                                      \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* One spelling of a job. */
struct spelling {
    const char *name, *cwd, *source, *version;
    const char *options[4], *expressions[2];
    unsigned flags;
};

static int try_compile(struct warm *w, const struct spelling *s, struct warm_result *out)
{
    const char *options[6] = {"--gpu-architecture=sm_90"};
    struct warm_job job = {.name = s->name,
                           .source = s->source,
                           .source_len = strlen(s->source),
                           .options = options,
                           .n_options = 1,
                           .expressions = s->expressions,
                           .cwd = s->cwd ? s->cwd : "/",
                           .compiler = s->version,
                           .flags = s->flags};
    for (size_t i = 0; i < 4 && s->options[i]; i++)
        options[job.n_options++] = s->options[i];
    while (job.n_expressions < 2 && s->expressions[job.n_expressions])
        job.n_expressions++;
    return warm_compile(w, &job, out);
}

/* The outcome; *out_digest (may be NULL) is that of everything in the result. */
static int compile(struct warm *w, const struct spelling *s, struct key *out_digest)
{
    struct warm_result result;
    int code = try_compile(w, s, &result);
    cr_assert_eq(code, 0, "%s: %s: %s", s->name, warm_error_name(code), warm_message(w));
    cr_assert_eq(result.status, 0, "%.*s", (int)result.log.len, (const char *)result.log.data);
    cr_assert_gt(result.ptx.len + result.ltoir.len, 100);
    if (out_digest)
        *out_digest = key_of_bytes(result.value.data, result.value.len);
    int outcome = result.value.outcome;
    warm_result_free(&result);
    return outcome;
}

/* What this very spelling's own compile yields. */
static struct key compiled_by_itself(struct warm *w, const struct spelling *s)
{
    struct spelling own = *s;
    struct key digest;
    own.flags = WARM_RECACHE | WARM_NO_STORE;
    cr_assert_eq(compile(w, &own, &digest), WARM_MISS);
    return digest;
}

static unsigned long long n_compiles(const struct warmd *k)
{
    char *json = warmd_stats(k);
    const char *at = strstr(json, "\"compiles\": ");
    cr_assert_not_null(at);
    unsigned long long n = strtoull(at + 12, NULL, 10);
    free(json);
    return n;
}

/* ---- many processes ---- */

struct report {
    struct key digests[N_KERNELS];
};

/* One rank: its own folder, names, order and comments. */
static void run_rank(const struct warmd *kit, int rank, struct report *out)
{
    struct warm *w;
    connect_to(kit, &w);
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
        compile(w, &(struct spelling){.name = name, .cwd = folder, .source = source},
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
            struct key of_a, of_b, again, own = compiled_by_itself(r.warm, &b);
            cr_assert_eq(compile(r.warm, &a, &of_a), WARM_MISS, "%s", same[i].what);
            cr_assert_eq(compile(r.warm, &b, &of_b), WARM_HIT, "%s, %s", same[i].what, versions[v]);
            cr_assert_eq(compile(r.warm, &b, &again), WARM_HIT, "%s, by its alias", same[i].what);
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
        struct key of_b, by_itself = compiled_by_itself(r.warm, &b);
        cr_assert_eq(compile(r.warm, &a, NULL), WARM_MISS);
        cr_assert_eq(compile(r.warm, &b, &of_b), WARM_MISS, "%s %s", own[i].source,
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
    cr_assert_eq(compile(r.warm, &a, &of_a), WARM_MISS);
    cr_assert_eq(compile(r.warm, &b, &of_b), WARM_MISS);
    cr_assert(!key_equal(&of_a, &of_b), "the name is in the symbols");
    rig_down(&r);
}

/* ---- headers ---- */

static void write_in(const char *folder, const char *name, const char *text)
{
    char *path = path_join(folder, name);
    file_write(path, text, strlen(text));
    free(path);
}

Test(shared, headers_beside_the_program_move_with_it)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    static const char source[] = "#include \"near.h\"\n#include <far.h>\n"
                                 "__global__ void k(int *x) { *x = NEAR + FAR; }\n";
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char *inc = path_join(r.kit.dir, "inc"), include[PATH_MAX], name_1[PATH_MAX], name_2[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755) | mkdir(inc, 0755), 0);
    snprintf(include, sizeof include, "-I%s", inc);
    snprintf(name_1, sizeof name_1, "%s/k.cu", one);
    snprintf(name_2, sizeof name_2, "%s/k.cu", two);
    for (size_t v = 0; v < 2; v++) {
        write_in(inc, "far.h", "#define FAR 5\n");
        write_in(one, "near.h", "#include \"deep.h\"\n");
        write_in(one, "deep.h", "#define NEAR 7\n");
        write_in(two, "near.h", "#include \"deep.h\"\n");
        write_in(two, "deep.h", "#define NEAR 7\n");
        struct spelling a = {.name = name_1,
                             .cwd = r.kit.dir,
                             .source = source,
                             .version = versions[v],
                             .options = {include}};
        struct spelling b = a;
        b.name = name_2;
        struct key of_a, of_b, changed;
        cr_assert_eq(compile(r.warm, &a, &of_a), WARM_MISS);
        cr_assert_eq(compile(r.warm, &b, &of_b), WARM_HIT, "%s", versions[v]);
        cr_assert(key_equal(&of_a, &of_b));
        cr_assert_eq(compile(r.warm, &b, NULL), WARM_HIT, "by its alias");
        write_in(two, "deep.h", "#define NEAR 8\n");
        cr_assert_eq(compile(r.warm, &b, &changed), WARM_MISS);
        cr_assert(!key_equal(&changed, &of_b));
        cr_assert_eq(compile(r.warm, &a, NULL), WARM_HIT, "what it had is still there");
        write_in(two, "far.h", "#define FAR 6\n"); /* angle brackets do not look there */
        cr_assert_eq(compile(r.warm, &b, &of_b), WARM_HIT);
        cr_assert(key_equal(&changed, &of_b));
        write_in(inc, "far.h", "#define FAR 9\n");
        cr_assert_eq(compile(r.warm, &b, NULL), WARM_MISS);
        char *left = path_join(two, "far.h");
        unlink(left);
        free(left);
    }
    free(one);
    free(two);
    free(inc);
    rig_down(&r);
}

/* The same exact key in two working folders: where a file was looked for and absent, it is the
 * asker's own folder that counts. */
Test(shared, a_header_that_only_the_asker_has_in_its_folder_counts)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char *inc = path_join(r.kit.dir, "inc"), include[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755) | mkdir(inc, 0755), 0);
    snprintf(include, sizeof include, "-I%s", inc);
    write_in(inc, "cfg.h", "#define CFG 1\n");
    write_in(two, "cfg.h", "#define CFG 2\n");
    for (size_t v = 0; v < 2; v++)
        for (int lines = 0; lines < 2; lines++) { /* without and with a shared key */
            struct spelling a = {.name = "k.cu",
                                 .cwd = one,
                                 .version = versions[v],
                                 .source = lines
                                               ? "#include \"cfg.h\"\n__global__ void k(int *x) { "
                                                 "*x = CFG * __LINE__; }\n"
                                               : "#include \"cfg.h\"\n__global__ void k(int *x) { "
                                                 "*x = CFG; }\n",
                                 .options = {include}};
            struct spelling b = a;
            b.cwd = two;
            struct key of_b, own = compiled_by_itself(r.warm, &b);
            cr_assert_eq(compile(r.warm, &a, NULL), WARM_MISS);
            cr_assert_eq(compile(r.warm, &b, &of_b), WARM_MISS, "%s", versions[v]);
            cr_assert(key_equal(&of_b, &own), "%s", versions[v]);
            cr_assert_eq(compile(r.warm, &a, NULL), WARM_HIT);
            cr_assert_eq(compile(r.warm, &b, NULL), WARM_HIT);
        }
    free(one);
    free(two);
    free(inc);
    rig_down(&r);
}

/* Whether a file is found by its absolute path, or beside the program, its path does not tell. */
Test(shared, a_header_with_an_absolute_path_is_that_file_for_everybody)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char direct[PATH_MAX], by_macro[PATH_MAX], name_1[PATH_MAX], name_2[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755), 0);
    snprintf(name_1, sizeof name_1, "%s/k.cu", one);
    snprintf(name_2, sizeof name_2, "%s/k.cu", two);
    snprintf(direct, sizeof direct, "#include \"%s/near.h\"\n%s", one,
             "__global__ void k(int *x) { *x = NEAR; }\n");
    snprintf(by_macro, sizeof by_macro, "#define S(x) #x\n#define T(x) S(x)\n%s%s/one\n%s%s",
             "#define DIR ", r.kit.dir, "#include T(DIR/near.h)\n",
             "__global__ void k(int *x) { *x = NEAR; }\n");
    for (size_t i = 0; i < 4; i++)
        for (int shared = 0; shared < 2; shared++) {
            struct spelling a = {.name = shared ? name_1 : name_2,
                                 .cwd = shared ? "/nowhere" : one,
                                 .source = i < 2 ? direct : by_macro,
                                 .version = versions[i % 2],
                                 .options = {shared ? "-DN" : "-I../one"}};
            struct spelling b = a;
            b.name = name_2;
            b.cwd = shared ? one : two;
            write_in(two, "near.h", "#define NEAR 7\n");
            write_in(one, "near.h", "#define NEAR 7\n");
            compile(r.warm, &a, NULL);
            write_in(one, "near.h", "#define NEAR 8\n");
            struct key of_b, own = compiled_by_itself(r.warm, &b);
            compile(r.warm, &b, &of_b);
            cr_expect(key_equal(&of_b, &own), "%s, %d: %s", versions[i % 2], shared, a.source);
        }
    free(one);
    free(two);
    rig_down(&r);
}

/* Whoever asks with the same shared key has another header beside its program, and in its working
 * folder the one that the first had. */
Test(shared, a_header_is_the_one_beside_the_program_however_its_name_is_spelt)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const versions[] = {"13.5", "12.9"};
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char *three = path_join(r.kit.dir, "three"), *sub = path_join(one, "sub");
    char name_2[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755) | mkdir(three, 0755) | mkdir(sub, 0755), 0);
    snprintf(name_2, sizeof name_2, "%s/k.cu", two);
    write_in(one, "near.h", "#define NEAR 7\n");
    write_in(three, "near.h", "#define NEAR 7\n");
    write_in(two, "near.h", "#define NEAR 8\n");
    static const char *const names[] = {"k.cu",           "./k.cu",      ".//k.cu",
                                        "sub/../k.cu",    "../one/k.cu", "%s/./k.cu",
                                        "%s/sub/../k.cu", "%s//k.cu",    "%s/k.cu"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        char name_1[PATH_MAX], source[200], option[20];
        snprintf(name_1, sizeof name_1, names[i / 2], one);
        snprintf(source, sizeof source,
                 "#include \"near.h\"\n__global__ void k(int *x) { *x = NEAR; }\n");
        snprintf(option, sizeof option, "-DN=%zu", i); /* each round is for itself */
        struct spelling a = {.name = name_1,
                             .cwd = one,
                             .source = source,
                             .version = versions[i % 2],
                             .options = {option}};
        struct spelling b = a;
        b.name = name_2;
        b.cwd = three;
        struct key of_b, own = compiled_by_itself(r.warm, &b);
        compile(r.warm, &a, NULL);
        compile(r.warm, &b, &of_b);
        cr_expect(key_equal(&of_b, &own), "%s, %s", name_1, versions[i % 2]);
        struct spelling c = b; /* and the other way round */
        c.name = name_1;
        c.cwd = one;
        struct key of_c, own_c = compiled_by_itself(r.warm, &c);
        compile(r.warm, &c, &of_c);
        cr_expect(key_equal(&of_c, &own_c), "%s, %s", name_1, versions[i % 2]);
    }
    free(one);
    free(two);
    free(three);
    free(sub);
    rig_down(&r);
}

Test(shared, an_include_folder_of_the_options_stays_where_it_is)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    char *one = path_join(r.kit.dir, "one"), *two = path_join(r.kit.dir, "two");
    char include[PATH_MAX];
    cr_assert_eq(mkdir(one, 0755) | mkdir(two, 0755), 0);
    snprintf(include, sizeof include, "-I%s", one);
    write_in(one, "h.h", "#define H 1\n");
    write_in(two, "h.h", "#define H 1\n");
    struct spelling a = {.name = "/nowhere/k.cu",
                         .cwd = one,
                         .source = "#include <h.h>\n__global__ void k(int *x) { *x = H; }\n",
                         .options = {include}};
    struct spelling b = a;
    b.cwd = two;
    cr_assert_eq(compile(r.warm, &a, NULL), WARM_MISS);
    write_in(one, "h.h", "#define H 3\n");
    struct key of_b, own = compiled_by_itself(r.warm, &b);
    cr_assert_eq(compile(r.warm, &b, &of_b), WARM_MISS, "its -I leads to the first folder");
    cr_assert(key_equal(&of_b, &own));
    free(one);
    free(two);
    rig_down(&r);
}

/* What a compile yields of a source that reads the headers of a folder, as a hit or not, is its own
 * compile's. */
static int expect_own(struct warm *w, const struct spelling *s)
{
    struct key own = compiled_by_itself(w, s), got;
    int outcome = compile(w, s, &got);
    cr_expect(key_equal(&got, &own), "%s, %s: another's result", s->version, s->source);
    return outcome;
}

/* An author's next version has the same XXH3-128, by chance or not. */
Test(shared, a_header_of_equal_xxh3_is_another_header)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static char one[COLLISION_LEN + 1], two[COLLISION_LEN + 1];
    collision_make(one, two);
    struct key first = key_of_bytes(one, COLLISION_LEN), second = key_of_bytes(two, COLLISION_LEN);
    cr_assert(key_equal(&first, &second) && memcmp(one, two, COLLISION_LEN) != 0);
    for (int shares = 0; shares < 2; shares++) {
        struct spelling s = {.name = "k.cu",
                             .cwd = r.kit.dir,
                             .version = "13.5",
                             .source =
                                 "#include \"h.h\"\n__global__ void k(int *x) { *x = VALUE; }\n",
                             .options = {shares ? "-DN" : "-lineinfo"}};
        write_in(r.kit.dir, "h.h", one);
        cr_assert_eq(compile(r.warm, &s, NULL), WARM_MISS);
        cr_assert_eq(compile(r.warm, &s, NULL), WARM_HIT);
        write_in(r.kit.dir, "h.h", two);
        cr_expect_eq(expect_own(r.warm, &s), WARM_MISS);
        cr_expect_eq(compile(r.warm, &s, NULL), WARM_HIT);
    }
    rig_down(&r);
}

/* `#pragma once` goes by device and inode: what is a copy and what the same file decides. */
Test(shared, copies_of_a_header_are_not_the_header_itself)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char once[] = "#pragma once\n#ifndef A1\n#define A1\n#else\n#define A2\n#endif\n";
    static const char *const versions[] = {"13.5", "12.9"};
    static const char *const ways[] = {"cp a/h.h b/h.h", "ln -s ../a/h.h b/h.h", "ln a/h.h b/h.h",
                                       "rmdir b && ln -s a b"};
    for (size_t v = 0; v < 2; v++) {
        struct spelling s = {.name = "k.cu",
                             .cwd = r.kit.dir,
                             .version = versions[v],
                             .source = "#include \"a/h.h\"\n#include \"b/h.h\"\n#ifdef A2\n"
                                       "#define V 2\n#else\n#define V 1\n#endif\n"
                                       "__global__ void k(int *x) { *x = V; }\n"};
        struct key first = {{0}}, got;
        for (size_t i = 0; i < 8; i++) {
            char *out;
            cr_assert_eq(run_command(&out,
                                     "cd %s && rm -rf a b && mkdir a b && printf '%s' >a/h.h && %s",
                                     r.kit.dir, once, ways[i % 4]),
                         0);
            free(out);
            int outcome = expect_own(r.warm, &s);
            cr_expect_eq(outcome, i < 2 ? WARM_MISS : WARM_HIT, "%s: %d", ways[i % 4], outcome);
            compile(r.warm, &s, &got);
            if (i == 0)
                first = got;
            cr_expect_eq(key_equal(&got, &first), i % 4 == 0, "the pragma counts: %s", ways[i % 4]);
        }
    }
    rig_down(&r);
}

/* Two checkouts of one project in the kit's folder: inc/h.h, inc/deep.h, and what a test adds. */
static void check_out(const struct warmd *kit, const char *name)
{
    char *folder = path_join(kit->dir, name), *inc = path_join(folder, "inc");
    char *src = path_join(folder, "src");
    cr_assert_eq(mkdir(folder, 0755) | mkdir(inc, 0755) | mkdir(src, 0755), 0);
    write_in(inc, "h.h", "#pragma once\n#include \"deep.h\"\n");
    write_in(inc, "deep.h", "#pragma once\n#define H 3\n");
    free(folder);
    free(inc);
    free(src);
}

/* A job in one of them. */
struct checkout {
    char cwd[PATH_MAX], include[PATH_MAX], name[PATH_MAX];
    struct spelling job;
};

static const char uses_h[] = "#include \"h.h\"\n__global__ void k(int *x) { *x = H; }\n";

static void checkout_job(struct checkout *c, const struct warmd *kit, const char *name,
                         const char *version)
{
    snprintf(c->cwd, sizeof c->cwd, "%s/%s", kit->dir, name);
    snprintf(c->include, sizeof c->include, "-I%s/%s/inc", kit->dir, name);
    snprintf(c->name, sizeof c->name, "%s/%s/src/k.cu", kit->dir, name);
    c->job = (struct spelling){.name = "k.cu",
                               .cwd = c->cwd,
                               .source = uses_h,
                               .version = version,
                               .options = {c->include}};
}

static const char *const both[] = {"13.5", "12.9"};

Test(shared, a_checkout_that_moved_hits)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    for (size_t v = 0; v < 2; v++) {
        struct checkout one, two;
        checkout_job(&one, &r.kit, "one", both[v]);
        checkout_job(&two, &r.kit, "two", both[v]);
        cr_expect_eq(expect_own(r.warm, &one.job), WARM_MISS);
        cr_expect_eq(expect_own(r.warm, &two.job), WARM_HIT, "%s: other -I and folder", both[v]);
        cr_expect_eq(expect_own(r.warm, &two.job), WARM_HIT, "by its alias");
        two.job.cwd = "/";
        cr_expect_eq(expect_own(r.warm, &two.job), WARM_HIT, "%s: other folder", both[v]);
        two.job.name = two.name;
        cr_expect_eq(expect_own(r.warm, &two.job), WARM_HIT, "%s: the program's folder", both[v]);
        char *deep = path_join(two.cwd, "inc/deep.h");
        file_write(deep, "#define H 4\n", 12);
        cr_expect_eq(expect_own(r.warm, &two.job), WARM_MISS, "its own header counts");
        cr_expect_eq(expect_own(r.warm, &one.job), WARM_HIT);
        file_write(deep, "#pragma once\n#define H 3\n", 25);
        free(deep);
    }
    rig_down(&r);
}

/* A header that shows where it is stays where it is. */
Test(shared, a_header_that_shows_its_folder_does_not_move)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "second"); /* of another length */
    static const char *const shows[] = {
        "#define H sizeof(__FILE__)\n", "#define H (__FILE__[0] ? sizeof(__FILE__) : 0)\n",
        "#define P(a, b) a##b\n#define H sizeof(P(__FI, LE__))\n",
        "static __device__ inline int f(const char *p = __builtin_FILE()) { int n = 0; "
        "while (p[n]) n++; return n; }\n#define H f()\n"};
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++)
        for (size_t v = 0; v < 2; v++) {
            struct checkout one, two;
            checkout_job(&one, &r.kit, "one", both[v]);
            checkout_job(&two, &r.kit, "second", both[v]);
            char *a = path_join(one.cwd, "inc/deep.h"), *b = path_join(two.cwd, "inc/deep.h");
            file_write(a, shows[i], strlen(shows[i]));
            file_write(b, shows[i], strlen(shows[i]));
            expect_own(r.warm, &one.job);
            cr_expect_eq(expect_own(r.warm, &two.job), WARM_MISS, "%s: %s", both[v], shows[i]);
            cr_expect_eq(expect_own(r.warm, &one.job), WARM_HIT);
            cr_expect_eq(expect_own(r.warm, &two.job), WARM_HIT);
            free(a);
            free(b);
        }
    rig_down(&r);
}

/* A path beneath the working folder and an -I folder may stem from either: what the source and the
 * options say decides whether it can. */
Test(shared, a_header_found_from_the_working_folder_is_the_askers)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    static const struct {
        const char *source, *option, *name;
    } ways[] = {
        {"#include \"inc/h.h\"\n__global__ void k(int *x) { *x = H; }\n", NULL, "k.cu"},
        {"#include \"inc//h.h\"\n__global__ void k(int *x) { *x = H; }\n", NULL, "k.cu"},
        {"#include <h.h>\n__global__ void k(int *x) { *x = H; }\n", "-Iinc", "k.cu"},
        {"#include <inc/h.h>\n__global__ void k(int *x) { *x = H; }\n", "-I.", "k.cu"},
        {"#include \"h.h\"\n__global__ void k(int *x) { *x = H; }\n", NULL, "inc/k.cu"},
        {"#include X\n__global__ void k(int *x) { *x = H; }\n", "-DX=\"inc/h.h\"", "k.cu"},
        {"#define S(x) #x\n#define T(x) S(x)\n#define D inc\n#include T(D/h.h)\n"
         "__global__ void k(int *x) { *x = H; }\n",
         NULL, "k.cu"},
        {"__global__ void k(int *x) { *x = H; }\n", "--pre-include=inc/h.h", "k.cu"},
        {"#if __has_include(\"inc/h.h\")\n#define V 1\n#else\n#define V 2\n#endif\n"
         "__global__ void k(int *x) { *x = V; }\n",
         NULL, "k.cu"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t v = 0; v < 2; v++) {
            struct checkout one;
            checkout_job(&one, &r.kit, "one", both[v]);
            one.job.source = ways[i].source;
            one.job.name = ways[i].name;
            one.job.options[0] = ways[i].option ? ways[i].option : one.include;
            one.job.options[1] = ways[i].option ? one.include : NULL;
            struct spelling two = one.job;
            char cwd[PATH_MAX];
            snprintf(cwd, sizeof cwd, "%s/two", r.kit.dir);
            two.cwd = cwd; /* and the -I of the first */
            expect_own(r.warm, &one.job);
            expect_own(r.warm, &two);
            char *other = path_join(cwd, "inc/deep.h");
            file_write(other, "#define H 5\n", 12);
            cr_expect(expect_own(r.warm, &two) == WARM_MISS || i == 8, "%s: %zu", both[v], i);
            free(other);
            other = path_join(cwd, "inc/h.h");
            unlink(other);
            struct warm_result result;
            cr_expect_eq(try_compile(r.warm, &two, &result), 0);
            struct spelling own = two;
            own.flags = WARM_RECACHE | WARM_NO_STORE;
            int status = result.status;
            warm_result_free(&result);
            cr_expect_eq(try_compile(r.warm, &own, &result), 0);
            cr_expect_eq(result.status, status, "%s: %zu", both[v], i);
            warm_result_free(&result);
            file_write(other, "#pragma once\n#include \"deep.h\"\n", 31);
            free(other);
            other = path_join(cwd, "inc/deep.h");
            file_write(other, "#pragma once\n#define H 3\n", 25);
            free(other);
        }
    rig_down(&r);
}

/* What its maker read once, under one path, the asker may read from two folders. */
Test(shared, one_path_of_the_maker_may_be_two_files_of_the_asker)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    static const char counts[] = "#pragma once\n#ifdef A1\n#define A2\n#endif\n#define A1\n";
    static const char source[] = "#include <c.h>\n#include \"inc/c.h\"\n#ifdef A2\n#define V 2\n"
                                 "#else\n#define V 1\n#endif\n"
                                 "__global__ void k(int *x) { *x = V; }\n";
    for (int i = 0; i < 2; i++) {
        char *path = path_join(r.kit.dir, i ? "one/inc/c.h" : "two/inc/c.h");
        file_write(path, counts, sizeof counts - 1);
        free(path);
    }
    for (size_t v = 0; v < 2; v++) {
        struct checkout one, two;
        checkout_job(&one, &r.kit, "one", both[v]);
        checkout_job(&two, &r.kit, "two", both[v]);
        one.job.source = two.job.source = source;
        cr_expect_eq(expect_own(r.warm, &one.job), WARM_MISS);
        cr_expect_eq(expect_own(r.warm, &two.job), WARM_HIT);
        two.job.options[0] = one.include;
        cr_expect_eq(expect_own(r.warm, &two.job), WARM_MISS, "%s", both[v]);
        cr_expect_eq(expect_own(r.warm, &one.job), WARM_HIT);
    }
    rig_down(&r);
}

/* The compiler makes one '/' of several, in the working folder and the program's name too. */
Test(shared, slashes_in_a_row_hide_no_folder)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    check_out(&r.kit, "one");
    check_out(&r.kit, "two");
    static const char tests[] = "#if __has_include(\"near.h\")\n#define V 1\n#else\n#define V 2\n"
                                "#endif\n__global__ void k(int *x) { *x = V; }\n";
    char *near = path_join(r.kit.dir, "two/near.h");
    for (size_t v = 0; v < 2; v++)
        for (int by_name = 0; by_name < 2; by_name++) {
            char first[PATH_MAX], second[PATH_MAX];
            snprintf(first, sizeof first, "%s//one%s", r.kit.dir, by_name ? "//k.cu" : "");
            snprintf(second, sizeof second, "%s//two%s", r.kit.dir, by_name ? "//k.cu" : "");
            struct spelling a = {.name = by_name ? first : "k.cu",
                                 .cwd = by_name ? "/" : first,
                                 .source = tests,
                                 .version = both[v]};
            struct spelling b = a;
            b.name = by_name ? second : "k.cu";
            b.cwd = by_name ? "/" : second;
            expect_own(r.warm, &a);
            file_write(near, "", 0);
            cr_expect_eq(expect_own(r.warm, &b), WARM_MISS, "%s, %d", both[v], by_name);
            unlink(near);
            cr_expect_eq(expect_own(r.warm, &b), WARM_HIT, "%s, %d", both[v], by_name);
        }
    free(near);
    rig_down(&r);
}

/* An option that says what the compiler does anyway. */
Test(shared, explicit_defaults_hit)
{
    NEEDS_TOOLCHAIN(r);
    rig_up(&r);
    static const char *const defaults[] = {"-ftz=false", "--fmad=true", "-prec-div=true"};
    for (size_t v = 0; v < 2; v++) {
        struct spelling s = {.name = "k.cu",
                             .version = both[v],
                             .source = "__global__ void k(float *x) { *x = *x * 3.f / x[1]; }\n"};
        cr_expect_eq(expect_own(r.warm, &s), WARM_MISS);
        for (size_t i = 0; i < 3; i++) {
            s.options[0] = defaults[i];
            cr_expect_eq(expect_own(r.warm, &s), WARM_HIT, "%s: %s", both[v], defaults[i]);
        }
        s.options[0] = "-ftz=true";
        cr_expect_eq(expect_own(r.warm, &s), WARM_MISS);
        s.options[1] = "-ftz=false";
        cr_expect_eq(try_compile(r.warm, &s, &(struct warm_result){0}), 0);
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
    cr_assert_eq(compile(r.warm, &a, NULL), WARM_MISS);
    cr_assert_eq(compile(r.warm, &b, NULL), WARM_HIT);
    warm_close(r.warm);
    kill(r.kit.pid, SIGTERM);
    cr_assert_eq(warmd_reap(r.kit.pid), 0);
    char *options[] = {"--nvrtc", r.lib13, "--nvrtc", r.lib12, NULL};
    warmd_start(&r.kit, options);
    connect_to(&r.kit, &r.warm);
    cr_assert_eq(compile(r.warm, &a, NULL), WARM_HIT);
    cr_assert_eq(compile(r.warm, &b, NULL), WARM_HIT);
    cr_assert_eq(compile(r.warm, &c, NULL), WARM_HIT);
    cr_assert_eq(n_compiles(&r.kit), 0ull);
    rig_down(&r);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc_client.c - a program that uses NVRTC and has never heard of warm. It prints everything that
 * its program handles show, so that two runs can be compared as texts.
 *
 *     nvrtc_client LIBRARY cases FOLDER     sources × options, with headers from FOLDER
 *     nvrtc_client LIBRARY one FOLDER       one of them
 *     nvrtc_client LIBRARY simple           another, without what only one line of versions has
 *     nvrtc_client LIBRARY debug            the same with -G
 *     nvrtc_client LIBRARY refused          one that ptxas refuses
 *     nvrtc_client LIBRARY nowhere          the simple one, with a folder for precompiled headers that is absent
 *     nvrtc_client LIBRARY plain            one that could be inlined further, without options
 *     nvrtc_client LIBRARY remarks          the same behind a compile with remarks about that
 *     nvrtc_client LIBRARY hidden FOLDER    the one that looks for a file that a daemon does not read
 *     nvrtc_client LIBRARY pch FOLDER       with a precompiled header: made, used, and told of in the log
 *     nvrtc_client LIBRARY edges            calls out of order, missing arguments, twice, callbacks
 *     nvrtc_client LIBRARY threads N        N threads, eight kernels each
 *     nvrtc_client LIBRARY fork N           a child while N threads compile, and what the child gets
 *     nvrtc_client LIBRARY steps            creates, prints "created", waits for a line, compiles; again
 *                                           for each line
 *     nvrtc_client LIBRARY default          whether the global scope has NVRTC, if nobody opened it
 *
 * LIBRARY is what dlopen gets; NOLOAD: and DEEPBIND: in front are flags; LINKED: this program was
 * linked with it (-DLINKED); DEFAULT: it is linked with it, and looks functions up without a handle.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *program;
typedef int (*callback)(void *payload, void *reserved);

#define FUNCTIONS(X)                                                                               \
    X(CreateProgram,                                                                               \
      (program *, const char *, const char *, int, const char *const *, const char *const *))      \
    X(DestroyProgram, (program *))                                                                 \
    X(AddNameExpression, (program, const char *))                                                  \
    X(CompileProgram, (program, int, const char *const *))                                         \
    X(GetPTXSize, (program, size_t *))                                                             \
    X(GetPTX, (program, char *))                                                                   \
    X(GetCUBINSize, (program, size_t *))                                                           \
    X(GetCUBIN, (program, char *))                                                                 \
    X(GetLTOIRSize, (program, size_t *))                                                           \
    X(GetLTOIR, (program, char *))                                                                 \
    X(GetOptiXIRSize, (program, size_t *))                                                         \
    X(GetOptiXIR, (program, char *))                                                               \
    X(GetProgramLogSize, (program, size_t *))                                                      \
    X(GetProgramLog, (program, char *))                                                            \
    X(GetLoweredName, (program, const char *, const char **))                                      \
    X(SetFlowCallback, (program, callback, void *))                                                \
    X(GetPCHCreateStatus, (program))                                                               \
    X(GetPCHHeapSizeRequired, (program, size_t *))

/* In 12.x or in 13.x only: NULL where the library lacks them, or the program is linked with it. */
static int (*nvrtcGetNVVMSize)(program, size_t *), (*nvrtcGetNVVM)(program, char *);
static int (*nvrtcGetTileIRSize)(program, size_t *), (*nvrtcGetTileIR)(program, char *);

#ifdef LINKED
#define X(name, parameters) int nvrtc##name parameters;
#else
#define X(name, parameters) static int(*nvrtc##name) parameters;
#endif
FUNCTIONS(X)
#undef X

static void die(const char *what)
{
    fprintf(stderr, "nvrtc_client: %s\n", what);
    exit(1);
}

static void *open_library(const char *name)
{
    int flags = RTLD_NOW | RTLD_LOCAL;
    if (strcmp(name, "DEFAULT:") == 0)
        return RTLD_DEFAULT;
    if (strncmp(name, "DEEPBIND:", 9) == 0) {
        name += 9;
        flags |= RTLD_DEEPBIND;
    } else if (strncmp(name, "NOLOAD:", 7) == 0) {
        name += 7;
        if (dlopen(name, flags | RTLD_NOLOAD))
            die("found though nobody opened it");
        dlopen(name, flags);
        flags |= RTLD_NOLOAD;
    }
    void *handle = dlopen(name, flags);
    if (!handle)
        die(dlerror());
    return handle;
}

static void load(const char *name)
{
#ifdef LINKED
    (void)name;
    (void)open_library;
#else
    void *handle = open_library(name), *found;
    dlerror();
#define X(name, parameters)                                                                        \
    found = dlsym(handle, "nvrtc" #name);                                                          \
    if (!found || dlerror())                                                                       \
        die("has no nvrtc" #name);                                                                 \
    memcpy(&nvrtc##name, &found, sizeof found);
    FUNCTIONS(X)
#undef X
    static const char *const names[] = {"nvrtcGetNVVMSize", "nvrtcGetNVVM", "nvrtcGetTileIRSize",
                                        "nvrtcGetTileIR"};
    void *const functions[] = {&nvrtcGetNVVMSize, &nvrtcGetNVVM, &nvrtcGetTileIRSize,
                               &nvrtcGetTileIR};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found = dlsym(handle, names[i]);
        memcpy(functions[i], &found, sizeof found);
    }
#endif
}

/* ---- what a handle shows ---- */

static uint64_t digest(const char *data, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)data[i]) * UINT64_C(1099511628211);
    return h;
}

static void show(FILE *out, const char *what, program p, int (*get_size)(program, size_t *),
                 int (*get)(program, char *))
{
    size_t size = 77;
    int size_rc = get_size(p, &size);
    char *data = calloc(1, size + 16);
    memset(data, 0x55, size + 16);
    int rc = get(p, data);
    int is_kept = data[size] == 0x55; /* nothing behind the end was written */
    fprintf(out, " %s %d/%d/%zu/%016llx%s", what, size_rc, rc, size,
            (unsigned long long)digest(data, size), is_kept ? "" : " OVERFLOW");
    free(data);
}

static void show_all(FILE *out, program p)
{
    size_t heap = 77;
    int heap_rc = nvrtcGetPCHHeapSizeRequired(p, &heap);
    show(out, "ptx", p, nvrtcGetPTXSize, nvrtcGetPTX);
    show(out, "cubin", p, nvrtcGetCUBINSize, nvrtcGetCUBIN);
    show(out, "ltoir", p, nvrtcGetLTOIRSize, nvrtcGetLTOIR);
    show(out, "optixir", p, nvrtcGetOptiXIRSize, nvrtcGetOptiXIR);
    show(out, "log", p, nvrtcGetProgramLogSize, nvrtcGetProgramLog);
    fprintf(out, " pch %d heap %d/%zu\n", nvrtcGetPCHCreateStatus(p), heap_rc, heap);
}

/* What only one line of versions has. After it the handle has been compiled for real. */
static void show_rest(FILE *out, program p)
{
    if (nvrtcGetTileIRSize)
        show(out, "tileir", p, nvrtcGetTileIRSize, nvrtcGetTileIR);
    if (nvrtcGetNVVMSize)
        show(out, "nvvm", p, nvrtcGetNVVMSize, nvrtcGetNVVM);
    fprintf(out, "\n");
}

static void show_name(FILE *out, program p, const char *expression)
{
    const char *name = "untouched";
    int rc = nvrtcGetLoweredName(p, expression, &name);
    fprintf(out, " %s: %d %s", expression, rc, name ? name : "(null)");
}

static program create(const char *source, const char *name)
{
    program p = NULL;
    int rc = nvrtcCreateProgram(&p, source, name, 0, NULL, NULL);
    if (rc)
        fprintf(stderr, "nvrtcCreateProgram: %d\n", rc);
    return p;
}

static int compile(program p, const char *option)
{
    return nvrtcCompileProgram(p, option ? 1 : 0, &option);
}

/* ---- cases ---- */

static const struct {
    const char *name, *text;
} sources[] = {
    {"saxpy.cu", "extern \"C\" __global__ void saxpy(float a, float *x, float *y)\n"
                 "{ int i = threadIdx.x + blockIdx.x * blockDim.x; y[i] += a * x[i]; }\n"},
    {"names.cu", "template <class T, int N> __global__ void k(T *x) { x[threadIdx.x] *= N; }\n"
                 "__constant__ int table[4]; namespace n { __device__ float g; }\n"},
    {"warns.cu", "__global__ void f(float *x) { int unused; goto l; l: x[0] = 1; }\n"},
    {"wrong.cu", "__global__ void f(float *x) { x[0] = nothing; }\n"},
    {"quotes.cu", "#include \"part.h\"\n__global__ void f(float *x) { x[0] = PART; }\n"},
    {"memory.cu", "#include <given.h>\n__global__ void f(float *x) { x[0] = GIVEN; }\n"},
    {"absolute.cu", "#if __has_include(\"/etc/passwd\")\n#define V 1\n#else\n#define V 2\n#endif\n"
                    "__global__ void f(float *x) { x[0] = V; }\n"},
    {"where.cu",
     "extern \"C\" __global__ void f(int *x) { x[0] = __LINE__; x[1] = __FILE__[0]; }\n"},
    {"empty.cu", ""},
};

static const char *const option_sets[][4] = {
    {"--gpu-architecture=sm_90"},       {"-arch=compute_80"},
    {"-arch=sm_80", "-lineinfo"},       {"-arch=sm_90", "-dlto", "-rdc=true"},
    {"-arch=compute_75", "--optix-ir"}, {"-arch=sm_90", "-use_fast_math", "--std=c++17", "-DX=1"},
    {"-arch=sm_75", "-nonsense"},       {NULL},
};

static const char *const expressions[] = {"k<float, 3>", "&table", "n::g"};

static void run_case(size_t source, size_t set, const char *folder)
{
    static const char *const headers[] = {"#define GIVEN 5\n", "#define OTHER 6\n"};
    static const char *const header_names[] = {"given.h", "other.h"};
    const char *options[6];
    char include[4096];
    int n = 0;
    for (size_t i = 0; i < 4 && option_sets[set][i]; i++)
        options[n++] = option_sets[set][i];
    snprintf(include, sizeof include, "-I%s", folder);
    options[n++] = include;
    program p = NULL;
    int has_names = strcmp(sources[source].name, "names.cu") == 0;
    printf("%s %zu:", sources[source].name, set);
    printf(" create %d", nvrtcCreateProgram(&p, sources[source].text, sources[source].name, 2,
                                            headers, header_names));
    for (size_t i = 0; has_names && i < 3; i++)
        printf(" add %d", nvrtcAddNameExpression(p, expressions[i]));
    printf(" compile %d", nvrtcCompileProgram(p, n, options));
    for (size_t i = 0; has_names && i < 3; i++)
        show_name(stdout, p, expressions[i]);
    show_all(stdout, p);
    show_rest(stdout, p);
    show_all(stdout, p);
    printf(" destroy %d %s\n", nvrtcDestroyProgram(&p), p ? "left" : "gone");
}

/* Every source with two sets of options, every set with two sources. */
static void run_cases(const char *folder)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        for (size_t k = 0; k < sizeof option_sets / sizeof *option_sets; k++)
            if (i < 2 || k == 0 || k == 3)
                run_case(i, k, folder);
}

/* ---- edges ---- */

static int on_flow(void *payload, void *reserved)
{
    int *state = payload; /* [0]: what to say; [1]: has been asked */
    state[1] = 1;
    return reserved ? 2 : state[0];
}

static void run_callback(int answer)
{
    int state[2] = {answer, 0};
    program p = create(sources[0].text, "flow.cu");
    printf("callback: set %d", nvrtcSetFlowCallback(p, on_flow, state));
    printf(" compile %d asked %d", compile(p, "-arch=sm_90"), state[1]);
    show_all(stdout, p);
    state[0] = 0;
    printf("callback again: %d", compile(p, "-arch=sm_90"));
    show_all(stdout, p);
    nvrtcDestroyProgram(&p);
}

static void run_missing(void)
{
    program p = create(sources[1].text, "missing.cu"), none = NULL;
    size_t size;
    char byte;
    const char *name;
    for (int compiled = 0; compiled < 2; compiled++) {
        printf("missing: %d %d %d %d %d %d", nvrtcGetPTXSize(p, NULL), nvrtcGetPTX(p, NULL),
               nvrtcGetCUBINSize(p, NULL), nvrtcGetCUBIN(p, NULL), nvrtcGetProgramLogSize(p, NULL),
               nvrtcGetProgramLog(p, NULL));
        printf(" %d %d %d %d", nvrtcGetPTXSize(NULL, &size), nvrtcGetCUBIN(NULL, &byte),
               nvrtcGetLoweredName(NULL, "k", &name), nvrtcGetLoweredName(p, NULL, &name));
        printf(" %d %d %d", nvrtcGetLoweredName(p, "k", NULL), nvrtcAddNameExpression(p, NULL),
               nvrtcAddNameExpression(NULL, "k"));
        show_name(stdout, p, "k<float, 2>");
        show_name(stdout, p, "never added");
        printf(" add %d\n", nvrtcAddNameExpression(p, "k<float, 2>"));
        if (!compiled)
            printf("compile %d\n", compile(p, "-arch=sm_90"));
    }
    printf("compile: %d %d %d\n", nvrtcCompileProgram(NULL, 0, NULL),
           nvrtcCompileProgram(p, 1, NULL), nvrtcCompileProgram(p, -1, NULL));
    printf("create: %d %d\n", nvrtcCreateProgram(NULL, "", NULL, 0, NULL, NULL),
           nvrtcCreateProgram(&none, NULL, NULL, 0, NULL, NULL));
    printf("destroy: %d %d", nvrtcDestroyProgram(&p), nvrtcDestroyProgram(NULL));
    printf(" %d\n", nvrtcDestroyProgram(&none));
}

/* A second compile builds on the first: what it does not make stays from before. */
static void run_twice(void)
{
    static const char *const orders[][3] = {{"-arch=sm_80", "-arch=compute_80", "-arch=sm_90"},
                                            {"-nonsense", "-arch=sm_90", "-nonsense"},
                                            {"-arch=sm_90", "-dlto", "-arch=sm_90"}};
    for (size_t i = 0; i < 3; i++) {
        program p = create(sources[0].text, NULL);
        show_all(stdout, p);
        for (size_t k = 0; k < 3; k++) {
            printf("twice: %d", compile(p, orders[i][k]));
            show_all(stdout, p);
        }
        nvrtcDestroyProgram(&p);
    }
    program p = create(sources[3].text, "wrong.cu");
    printf("wrong: %d", compile(p, "-arch=sm_90"));
    printf(" %d", compile(p, "-arch=sm_90"));
    show_all(stdout, p);
    nvrtcDestroyProgram(&p);
}

static void run_edges(void)
{
    run_missing();
    run_twice();
    run_callback(0);
    run_callback(1);
}

/* ---- precompiled headers ---- */

/* The header's file has another name in each process, so of a log that names it only shows that it
 * does. */
static void run_pch(const char *folder)
{
    char include[4096], log[4096] = "";
    snprintf(include, sizeof include, "-I%s", folder);
    for (int i = 0; i < 4; i++) {
        const char *options[] = {"-arch=sm_90", include, "--pch",
                                 i < 3 ? "--pch-messages=false" : "--pch-messages=true"};
        program p = create("#include <part.h>\n__global__ void f(float *x) { x[0] = PART; }\n",
                           i < 3 ? "pch.cu" : "told.cu");
        printf("pch %d: compile %d", i, nvrtcCompileProgram(p, 4, options));
        show(stdout, "cubin", p, nvrtcGetCUBINSize, nvrtcGetCUBIN);
        if (i == 1)
            printf(" status first %d", nvrtcGetPCHCreateStatus(p));
        if (i < 3)
            show_all(stdout, p);
        else
            printf(" log %d %s\n", nvrtcGetProgramLog(p, log),
                   strstr(log, "precompiled") ? "tells" : "-");
        nvrtcDestroyProgram(&p);
    }
}

/* ---- threads, forks, steps ---- */

static void numbered(char *out, size_t cap, unsigned number)
{
    snprintf(out, cap, "extern \"C\" __global__ void f%u(float *x) { x[threadIdx.x] *= %u; }\n",
             number, number);
}

static void *on_thread(void *arg)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    for (unsigned i = 0; i < 8; i++) {
        char source[128];
        numbered(source, sizeof source, (unsigned)(uintptr_t)arg * 8 + i);
        program p = create(source, "t.cu");
        fprintf(out, "%d", compile(p, "-arch=sm_90"));
        show_all(out, p);
        nvrtcDestroyProgram(&p);
    }
    fclose(out);
    return text;
}

static void run_threads(unsigned n)
{
    pthread_t threads[64];
    for (unsigned i = 0; i < n && i < 64; i++)
        pthread_create(&threads[i], NULL, on_thread, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < n && i < 64; i++) {
        void *text;
        pthread_join(threads[i], &text);
        fputs(text, stdout);
        free(text);
    }
}

/*
 * A child forked while N threads compile, which reads a handle and compiles another. With the real
 * NVRTC at work in the threads that may hang, as its locks do not survive a fork; nothing of the
 * threads is printed, so that N does not show.
 */
static void run_fork(unsigned n)
{
    pthread_t threads[8];
    program made = create(sources[0].text, "before.cu");
    program done = create(sources[0].text, "done.cu");
    compile(done, "-arch=sm_90");
    for (unsigned i = 0; i < n && i < 8; i++)
        pthread_create(&threads[i], NULL, on_thread, (void *)(uintptr_t)i);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        printf("child: done");
        show_all(stdout, done);
        printf("child: %d", compile(made, "-arch=sm_90"));
        show_all(stdout, made);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child ended with %d\n", status);
    for (unsigned i = 0; i < n && i < 8; i++) {
        void *text;
        pthread_join(threads[i], &text);
        free(text);
    }
    printf("parent: %d", compile(made, "-arch=sm_90"));
    show_all(stdout, made);
}

/* Takes some seconds to compile. */
static void run_large(void)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    for (int i = 0; i < 60; i++)
        fprintf(out,
                "__global__ void f%d(float *x) { float v = 0;\n#pragma unroll\n"
                "for (int i = 0; i < 400; i++) v += x[i] * v; x[0] = v; }\n",
                i);
    fclose(out);
    program p = create(text, "large.cu");
    printf("created\n");
    fflush(stdout);
    printf("%d", compile(p, "-arch=sm_90"));
    show_all(stdout, p);
    free(text);
}

/* What a program that is started after a compile has open. */
static void run_child(void)
{
    program p = create(sources[0].text, "before.cu");
    printf("%d\n", compile(p, "-arch=sm_90"));
    fflush(stdout);
    if (system("for fd in /proc/$$/fd/*; do [ -e $fd ] && echo open: ${fd##*/}; done"))
        die("no shell");
}

static void run_simple(const char *option)
{
    program p = create(sources[0].text, sources[0].name);
    printf("%d", compile(p, option));
    show_all(stdout, p);
    nvrtcDestroyProgram(&p);
}

static void run_refused(void)
{
    program p = create("__global__ void k() { asm(\"no such instruction;\"); }\n", "refused.cu");
    printf("%d", compile(p, "-arch=sm_90"));
    show_all(stdout, p);
    nvrtcDestroyProgram(&p);
}

static void run_plain(const char *before)
{
    static const char source[] = "__device__ __noinline__ int f(int a) { return a * a; }\n"
                                 "__global__ void k(int *a) { *a = f(*a); }\n";
    program p;
    if (before) {
        p = create(source, "remarks.cu");
        compile(p, before);
        nvrtcDestroyProgram(&p);
    }
    p = create(source, "plain.cu");
    printf("%d", compile(p, NULL));
    show_all(stdout, p);
    nvrtcDestroyProgram(&p);
}

static void run_steps(void)
{
    char line[64];
    for (unsigned i = 0;; i++) {
        char source[128];
        numbered(source, sizeof source, i);
        program p = create(source, "step.cu");
        printf("created\n");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            return;
        printf("%d", compile(p, "-arch=sm_90"));
        show_all(stdout, p);
        fflush(stdout);
        nvrtcDestroyProgram(&p);
    }
}

static void run_default(void)
{
    dlerror();
    printf("compile %s,", dlsym(RTLD_DEFAULT, "nvrtcCompileProgram") ? "found" : "absent");
    printf(" error %s,", dlerror() ? "told" : "none");
    printf(" version %s,", dlsym(RTLD_DEFAULT, "nvrtcVersion") ? "found" : "absent");
    printf(" next %s\n", dlsym(RTLD_NEXT, "nvrtcCompileProgram") ? "found" : "absent");
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("usage: nvrtc_client LIBRARY COMMAND");
    const char *what = argv[2];
    if (strcmp(what, "default") == 0)
        return run_default(), 0;
    load(argv[1]);
    if (strcmp(what, "cases") == 0)
        run_cases(argc > 3 ? argv[3] : ".");
    else if (strcmp(what, "one") == 0)
        run_case(0, 0, argc > 3 ? argv[3] : ".");
    else if (strcmp(what, "simple") == 0)
        run_simple("-arch=sm_90");
    else if (strcmp(what, "debug") == 0)
        run_simple("-G");
    else if (strcmp(what, "nowhere") == 0)
        run_simple("-pch-dir=/nowhere/at/all");
    else if (strcmp(what, "refused") == 0)
        run_refused();
    else if (strcmp(what, "plain") == 0)
        run_plain(NULL);
    else if (strcmp(what, "remarks") == 0)
        run_plain("-opt-info=inline");
    else if (strcmp(what, "hidden") == 0)
        run_case(6, 0, argc > 3 ? argv[3] : ".");
    else if (strcmp(what, "pch") == 0)
        run_pch(argc > 3 ? argv[3] : ".");
    else if (strcmp(what, "edges") == 0)
        run_edges();
    else if (strcmp(what, "threads") == 0)
        run_threads(argc > 3 ? (unsigned)atoi(argv[3]) : 4);
    else if (strcmp(what, "fork") == 0)
        run_fork(argc > 3 ? (unsigned)atoi(argv[3]) : 2);
    else if (strcmp(what, "child") == 0)
        run_child();
    else if (strcmp(what, "large") == 0)
        run_large();
    else if (strcmp(what, "steps") == 0)
        run_steps();
    else
        die("no such command");
    fflush(stdout); /* a plugin may have a C library of its own */
    return 0;
}

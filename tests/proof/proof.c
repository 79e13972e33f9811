/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proof.c - the proof of canonical keys by the compilers themselves.
 *
 *     proof [--nvrtc BUILTINS,LIBRARY]... [--ptxas PROGRAM]... [--arch SM] [-I FOLDER]...
 *           [--cases N] [--compiles N] [--seed N] FILE.cu|FILE.ptx...
 *
 * 1. Keys alone, --cases times: of a random file, a variant that means the same must have the same
 *    key, and one with a changed token another key.
 * 2. With each NVRTC, --compiles variants of each CUDA source: cubin and PTX must be the base's,
 *    byte for byte. Then as many pairs of equal command lines, spelt and ordered at random.
 * 3. With each ptxas, --compiles variants of each PTX text, those that NVRTC made as well: the
 *    cubin must be the base's (--suppress-debug-info: .loc lines are among the changes).
 *
 * Each compile runs in a child of its own: NVRTC keeps some options from one compile to the next.
 * A source that does not compile as it stands is named and left out. Exit status 0 if nothing
 * failed and something was compared; the seed repeats a run.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keygen/canon/canon.h"
#include "keygen/cuda/cuda.h"
#include "keygen/cuda/options.h"
#include "tests/proof/variants.h"
#include "tests/support/support.h"

#define MAX_BASES 512
#define MAX_TOOLS 8
#define MAX_ARGS 64
#define MAX_FAILURES 20

/* The part of nvrtc.h that is used; its functions and types as NVIDIA documents them. */
typedef void *nvrtc_program;
struct nvrtc {
    const char *name;
    int (*create)(nvrtc_program *, const char *src, const char *name, int n, const char *const *,
                  const char *const *);
    int (*compile)(nvrtc_program, int n, const char *const *options);
    int (*cubin_size)(nvrtc_program, size_t *);
    int (*cubin)(nvrtc_program, char *);
    int (*ptx_size)(nvrtc_program, size_t *);
    int (*ptx)(nvrtc_program, char *);
};

struct base {
    const char *name;
    struct text text;
    bool is_ptx;
    bool lines_count;
    struct key key;
};

/* What a compile gave. */
struct outcome {
    int rc;
    struct key cubin, ptx;
    size_t cubin_len, ptx_len;
};

struct proof_run {
    struct nvrtc nvrtc[MAX_TOOLS];
    const char *ptxas[MAX_TOOLS];
    size_t n_nvrtc, n_ptxas;
    const char *arch;
    const char *options[MAX_ARGS]; /* for every source: folders */
    size_t n_options;
    struct base bases[MAX_BASES];
    size_t n_bases;
    unsigned long n_cases, n_compiles;
    struct random random;
    unsigned long n_failed, n_compared;
};

static void die(const char *what, const char *about)
{
    fprintf(stderr, "proof: %s: %s\n", what, about);
    exit(2);
}

/* A failure keeps both texts, for a person to compare. */
static void failed(struct proof_run *run, const struct base *base, const struct text *variant,
                   const char *what)
{
    char path[64];
    run->n_failed++;
    snprintf(path, sizeof path, "proof-failed-%lu", run->n_failed);
    fprintf(stderr, "FAILED %s: %s (see %s)\n", base->name, what, path);
    if (variant != NULL && variant->data != NULL)
        file_write(path, variant->data, variant->len);
    if (run->n_failed == MAX_FAILURES)
        die("too many failures", "the rest is not tried");
}

/* --- keys --- */

static int key_of(const struct base *base, struct text text, struct key *out)
{
    struct canon_input input = {.data = text.data,
                                .len = text.len,
                                .kind = base->is_ptx ? CANON_PTX : CANON_CUDA,
                                .drops_debug_info = true}; /* it compares code */
    struct canon_result result;
    struct err e = {0};
    int rc = canon_key(&input, &result, NULL, &e);
    if (rc < 0) {
        fprintf(stderr, "%s:%u:%u: %s\n", base->name, e.line, e.column, e.text);
        return rc;
    }
    *out = result.key;
    return result.exact ? 1 : 0;
}

static struct text variant_of(struct proof_run *run, const struct base *base)
{
    return base->is_ptx ? variant_of_ptx(&run->random, base->text, true)
                        : variant_of_cuda(&run->random, base->text, base->lines_count);
}

static void check_variant(struct proof_run *run, const struct base *base)
{
    struct text v = variant_of(run, base);
    struct key key;
    if (key_of(base, v, &key) < 0 || !key_equal(&key, &base->key))
        failed(run, base, &v, "the key of the same program in another spelling is another");
    free(v.data);
}

static void check_mutant(struct proof_run *run, const struct base *base)
{
    const char *what = "";
    struct text v = {NULL, 0};
    struct key key;
    for (int i = 0; i < 100 && v.data == NULL; i++)
        v = base->is_ptx ? mutant_of_ptx(&run->random, base->text, &what)
                         : mutant_of_cuda(&run->random, base->text, &what);
    if (v.data != NULL && key_of(base, v, &key) >= 0 && key_equal(&key, &base->key))
        failed(run, base, &v, what);
    free(v.data);
}

static void check_keys(struct proof_run *run)
{
    for (unsigned long i = 0; i < run->n_cases; i++) {
        const struct base *base = &run->bases[random_below(&run->random, (uint32_t)run->n_bases)];
        check_variant(run, base);
        check_mutant(run, base);
    }
    printf("keys: %lu variants kept theirs, %lu mutants got another: %lu failed\n", run->n_cases,
           run->n_cases, run->n_failed);
}

/* --- NVRTC, in a child --- */

static void fetch(nvrtc_program p, int (*size)(nvrtc_program, size_t *),
                  int (*get)(nvrtc_program, char *), struct key *out, size_t *out_len, int fd)
{
    size_t len = 0;
    char *data;
    if (size(p, &len) != 0 || len < 2 || (data = malloc(len)) == NULL)
        return;
    if (get(p, data) == 0) {
        *out = key_of_bytes(data, len);
        *out_len = len;
        if (fd >= 0 && write(fd, data, len) != (ssize_t)len)
            _exit(1);
    }
    free(data);
}

static void compile_here(const struct nvrtc *n, const char *source, const char *const *options,
                         size_t n_options, int out_fd, int ptx_fd)
{
    struct outcome o = {0};
    nvrtc_program p = NULL;
    n->create(&p, source, "proof.cu", 0, NULL, NULL);
    o.rc = n->compile(p, (int)n_options, options);
    if (o.rc == 0) {
        fetch(p, n->cubin_size, n->cubin, &o.cubin, &o.cubin_len, -1);
        fetch(p, n->ptx_size, n->ptx, &o.ptx, &o.ptx_len, ptx_fd);
    }
    _exit(write(out_fd, &o, sizeof o) == sizeof o ? 0 : 1);
}

/* With ptx_path, the PTX is written there as well. */
static struct outcome compile_cuda(const struct nvrtc *n, struct text source,
                                   const char *const *options, size_t n_options, FILE *ptx)
{
    struct outcome o = {.rc = -1};
    int fds[2];
    if (pipe(fds) != 0)
        die("pipe", "failed");
    pid_t pid = fork();
    if (pid == 0)
        compile_here(n, source.data, options, n_options, fds[1], ptx != NULL ? fileno(ptx) : -1);
    close(fds[1]);
    if (pid < 0 || read(fds[0], &o, sizeof o) != sizeof o)
        o.rc = -1;
    close(fds[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return o;
}

static bool same(const struct outcome *a, const struct outcome *b)
{
    return a->rc == b->rc && a->cubin_len == b->cubin_len && a->ptx_len == b->ptx_len &&
           key_equal(&a->cubin, &b->cubin) && key_equal(&a->ptx, &b->ptx);
}

static size_t usual_options(const struct proof_run *run, const char **out)
{
    size_t n = 0;
    out[n++] = run->arch;
    out[n++] = "--no-cache";
    for (size_t i = 0; i < run->n_options; i++)
        out[n++] = run->options[i];
    return n;
}

static void check_sources(struct proof_run *run, const struct nvrtc *nvrtc)
{
    const char *options[MAX_ARGS + 2];
    size_t n = usual_options(run, options);
    unsigned long compared = 0, left_out = 0;

    for (size_t i = 0; i < run->n_bases; i++) {
        const struct base *base = &run->bases[i];
        if (base->is_ptx)
            continue;
        struct outcome first = compile_cuda(nvrtc, base->text, options, n, NULL);
        if (first.rc != 0) {
            printf("  %s: left out, status %d\n", base->name, first.rc);
            left_out++;
            continue;
        }
        for (unsigned long k = 0; k < run->n_compiles; k++) {
            struct text v = variant_of(run, base);
            struct outcome o = compile_cuda(nvrtc, v, options, n, NULL);
            if (!same(&o, &first))
                failed(run, base, &v, "NVRTC gives other bytes for the same key");
            compared++;
            free(v.data);
        }
    }
    run->n_compared += compared;
    printf("%s: %lu variants compiled, %lu sources left out\n", nvrtc->name, compared, left_out);
}

/* --- command lines --- */

/* Ways to say the same, each of one or two arguments ('|' between them). */
static const struct saying {
    unsigned subject; /* 0: none of the others' business */
    const char *ways[4];
} sayings[] = {
    {0, {"-ftz=true", "--ftz=true", "-ftz|true", "--ftz|true"}},
    {0, {"-prec-div=false", "--prec-div=false", "-prec-div|false", NULL}},
    {4, {"-prec-sqrt=true", "--prec-sqrt=true", "", NULL}},
    {4, {"-fmad=true", "--fmad=true", "", NULL}},
    {4, {"--use_fast_math", "-use_fast_math", NULL, NULL}},
    {0, {"-maxrregcount=40", "--maxrregcount=40", "-maxrregcount|40", NULL}},
    {0, {"-restrict", "--restrict", NULL, NULL}},
    {0, {"-std=c++17", "--std=c++17", "", NULL}},
    {1, {"-w", "--disable-warnings", NULL, NULL}},
    {2, {"-lineinfo", "--generate-line-info", NULL, NULL}},
    {2, {"-G", "--device-debug", NULL, NULL}},
    {0, {"-rdc=true", "--relocatable-device-code=true", "-rdc|true", NULL}},
    {3, {"-DSCALE=1", "-DSCALE", "--define-macro=SCALE", "-D|SCALE=1"}},
    {3, {"-UNOTHING", "--undefine-macro=NOTHING", "-U|NOTHING", NULL}},
    {0,
     {"-I/usr/include/proof", "--include-path=/usr/include/proof", "-I|/usr/include/proof", NULL}},
    {0, {"-extra-device-vectorization", "--extra-device-vectorization", NULL, NULL}},
    {0, {"-default-device", "--device-as-default-execution-space", NULL, NULL}},
    {2, {"-dopt=on", "--dopt=on", "", NULL}},
    {0, {"-builtin-move-forward=true", "--builtin-move-forward=true", "", NULL}},
    {0, {"-builtin-initializer-list=true", "", NULL, NULL}},
    {0, {"-device-int128", "--device-int128", NULL, NULL}},
    {0, {"-Xptxas=-O2", "--ptxas-options=-O2", "-Xptxas|-O2", NULL}},
    {0, {"-split-compile=1", "--split-compile=1", NULL, NULL}},
    {0, {"-no-source-include", "--no-source-include", NULL, NULL}},
    {0, {"-pch-messages=false", "--modify-stack-limit=false", "--no-cache", ""}},
    {1, {"-diag-suppress=177", "--diag-suppress=177", "-diag-suppress|177", NULL}},
};
#define N_SAYINGS (sizeof sayings / sizeof sayings[0])

struct command {
    char bytes[2048]; /* the texts that `args` point into */
    size_t used;
    const char *args[2 * N_SAYINGS + 4];
    size_t n;
};

static void say(struct command *c, const char *text)
{
    const char *bar = strchr(text, '|');
    size_t len = bar != NULL ? (size_t)(bar - text) : strlen(text);
    if (len == 0)
        return;
    char *to = c->bytes + c->used;
    memcpy(to, text, len);
    to[len] = '\0';
    c->used += len + 1;
    c->args[c->n++] = to;
    if (bar != NULL)
        say(c, bar + 1);
}

/* The chosen meanings, in the order of `order`, each said in a way of its own. */
static void speak(struct proof_run *run, const char *arch, const uint32_t *order, size_t n,
                  struct command *c)
{
    c->used = c->n = 0;
    size_t arch_at = random_below(&run->random, (uint32_t)n + 1);
    for (size_t i = 0; i <= n; i++) {
        if (i == arch_at)
            say(c, arch);
        if (i == n)
            break;
        size_t ways = 0;
        while (ways < 4 && sayings[order[i]].ways[ways] != NULL)
            ways++;
        say(c, sayings[order[i]].ways[random_below(&run->random, (uint32_t)ways)]);
    }
    say(c, "--no-cache");
}

static struct key key_of_command(const struct command *c, unsigned version, bool *out_good)
{
    struct view views[2 * N_SAYINGS + 4];
    struct options o;
    struct err e = {0};
    struct key key = {{0}};
    struct proof proof;
    struct key_builder b;
    for (size_t i = 0; i < c->n; i++)
        views[i] = (struct view){c->args[i], strlen(c->args[i])};
    *out_good = options_parse(OPTIONS_NVRTC, version, views, c->n, &o, &e) == 0;
    if (!*out_good) {
        fprintf(stderr, "options: %s\n", e.text);
        return key;
    }
    key_begin(&b, "command");
    key_add_text(&b, 1, o.hardware);
    options_add(&o, &b, 2);
    key_end(&b, &key, &proof);
    options_close(&o);
    return key;
}

static void shuffle(struct random *r, uint32_t *order, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        uint32_t k = random_below(r, (uint32_t)i), t = order[i - 1];
        order[i - 1] = order[k];
        order[k] = t;
    }
}

static void check_command_pair(struct proof_run *run, const struct nvrtc *nvrtc,
                               const struct base *source)
{
    uint32_t order[N_SAYINGS];
    size_t n = 0;
    struct command a, b;
    bool a_good, b_good;
    /* options of one subject stay in order, so at most one of each subject is drawn */
    unsigned subjects = 0;
    for (uint32_t i = 0; i < N_SAYINGS; i++) {
        if (random_below(&run->random, 4) != 0 || (subjects >> sayings[i].subject & 1))
            continue;
        subjects |= sayings[i].subject != 0 ? 1u << sayings[i].subject : 0;
        order[n++] = i;
    }
    speak(run, "-arch=sm_90", order, n, &a);
    shuffle(&run->random, order, n);
    speak(run, "--gpu-architecture|sm_90", order, n, &b);

    struct key a_key = key_of_command(&a, 1305, &a_good), b_key = key_of_command(&b, 1305, &b_good);
    if (!a_good || !b_good || !key_equal(&a_key, &b_key)) {
        for (size_t i = 0; i < a.n || i < b.n; i++)
            fprintf(stderr, "    %-32s %s\n", i < a.n ? a.args[i] : "", i < b.n ? b.args[i] : "");
        failed(run, source, NULL, "equal command lines have other keys");
        return;
    }
    struct outcome first = compile_cuda(nvrtc, source->text, a.args, a.n, NULL);
    struct outcome second = compile_cuda(nvrtc, source->text, b.args, b.n, NULL);
    run->n_compared++;
    if (!same(&first, &second)) {
        for (size_t i = 0; i < a.n || i < b.n; i++)
            fprintf(stderr, "    %-32s %s\n", i < a.n ? a.args[i] : "", i < b.n ? b.args[i] : "");
        failed(run, source, NULL, "NVRTC gives other bytes for equal command lines");
    }
}

static void check_commands(struct proof_run *run, const struct nvrtc *nvrtc)
{
    static const char source[] =
        "extern \"C\" __global__ void k(float *a, const float *b, const float *c, int n)\n"
        "{\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    for (int j = i; j < n; j += 4)\n"
        "        a[j] = sqrtf(b[j]) / c[j] + b[j + 1] * c[j];\n"
        "}\n";
    char *copy = strdup(source);
    struct base base = {.name = "command lines", .text = {copy, sizeof source - 1}};
    for (unsigned long i = 0; i < run->n_compiles * 4; i++)
        check_command_pair(run, nvrtc, &base);
    free(copy);
    printf("%s: %lu pairs of command lines\n", nvrtc->name, run->n_compiles * 4);
}

/* --- ptxas --- */

static struct outcome assemble(const char *ptxas, const char *folder, struct text text,
                               const char *arch)
{
    struct outcome o = {.rc = -1};
    char *input = path_join(folder, "x.ptx"), *output = path_join(folder, "x.cubin");
    file_write(input, text.data, text.len);
    unlink(output);
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        execl(ptxas, ptxas, "-arch", arch, "--suppress-debug-info", input, "-o", output, NULL);
        _exit(1);
    }
    int status = -1;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0) {
        char *data = file_read(output, &o.cubin_len);
        o.cubin = key_of_bytes(data, o.cubin_len);
        o.rc = 0;
        free(data);
    }
    free(input);
    free(output);
    return o;
}

/* "sm_90a" of ".target sm_90a". */
static bool target_of(struct text text, char out[16])
{
    const char *at = memmem(text.data, text.len, ".target ", 8);
    size_t n = 0;
    if (at == NULL)
        return false;
    for (at += 8;
         n < 15 && (*at == '_' || (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z')); at++)
        out[n++] = *at;
    out[n] = '\0';
    return n > 0;
}

static void check_ptx(struct proof_run *run, const char *ptxas, const char *folder)
{
    unsigned long compared = 0, left_out = 0;
    char arch[16];
    for (size_t i = 0; i < run->n_bases; i++) {
        const struct base *base = &run->bases[i];
        if (!base->is_ptx)
            continue;
        struct outcome first = {.rc = -1};
        if (target_of(base->text, arch))
            first = assemble(ptxas, folder, base->text, arch);
        if (first.rc != 0) {
            left_out++;
            printf("  %s: left out\n", base->name);
            continue;
        }
        for (unsigned long k = 0; k < run->n_compiles; k++) {
            struct text v = variant_of_ptx(&run->random, base->text, false);
            struct outcome o = assemble(ptxas, folder, v, arch);
            if (!same(&o, &first))
                failed(run, base, &v, "ptxas gives other bytes for the same key");
            compared++;
            free(v.data);
        }
    }
    run->n_compared += compared;
    printf("%s: %lu variants assembled, %lu texts left out\n", ptxas, compared, left_out);
}

/* --- what to work on --- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static void add_base(struct proof_run *run, const char *name, struct text text, bool is_ptx)
{
    struct base base = {.name = name, .text = text, .is_ptx = is_ptx};
    if (run->n_bases == MAX_BASES)
        die("too many files", name);
    base.lines_count = strstr(text.data, "__LINE__") != NULL || strstr(text.data, "assert") != NULL;
    int rc = key_of(&base, text, &base.key);
    if (rc != 0) {
        printf("  %s: left out, its key is %s\n", name, rc > 0 ? "the exact text's" : "refused");
        free(text.data);
        return;
    }
    run->bases[run->n_bases++] = base;
}

static void load_files(struct proof_run *run, char *const *paths)
{
    for (; *paths != NULL; paths++) {
        struct text text;
        if (!ends_with(*paths, ".cu") && !ends_with(*paths, ".ptx"))
            die("neither .cu nor .ptx", *paths);
        text.data = file_read(*paths, &text.len);
        add_base(run, *paths, text, ends_with(*paths, ".ptx"));
    }
}

/* The PTX that NVRTC makes of the sources is worked on too. */
static void add_generated_ptx(struct proof_run *run, const char *folder)
{
    const char *options[MAX_ARGS + 2];
    size_t n = usual_options(run, options), n_sources = run->n_bases;
    for (size_t i = 0; i < n_sources; i++) {
        if (run->bases[i].is_ptx)
            continue;
        char *path = path_join(folder, "made.ptx");
        FILE *f = fopen(path, "w+");
        if (f == NULL)
            die("cannot write", path);
        struct outcome o = compile_cuda(&run->nvrtc[0], run->bases[i].text, options, n, f);
        fclose(f);
        if (o.rc == 0 && o.ptx_len > 1) {
            struct text text;
            text.data = file_read(path, &text.len);
            text.len = strlen(text.data);
            add_base(run, run->bases[i].name, text, true);
        }
        free(path);
    }
}

static void *need(void *handle, const char *name)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL)
        die("symbol missing", name);
    return symbol;
}

/* BUILTINS,LIBRARY: the builtins first, since not every release finds its own. */
static void open_nvrtc(struct proof_run *run, char *arg)
{
    char *comma = strchr(arg, ',');
    struct nvrtc *n = &run->nvrtc[run->n_nvrtc++];
    if (comma == NULL || run->n_nvrtc == MAX_TOOLS)
        die("--nvrtc takes BUILTINS,LIBRARY", arg);
    *comma = '\0';
    n->name = comma + 1;
    void *handle = dlopen(arg, RTLD_LAZY) != NULL ? dlopen(n->name, RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (handle == NULL)
        die("cannot load", dlerror());
    *(void **)&n->create = need(handle, "nvrtcCreateProgram");
    *(void **)&n->compile = need(handle, "nvrtcCompileProgram");
    *(void **)&n->cubin_size = need(handle, "nvrtcGetCUBINSize");
    *(void **)&n->cubin = need(handle, "nvrtcGetCUBIN");
    *(void **)&n->ptx_size = need(handle, "nvrtcGetPTXSize");
    *(void **)&n->ptx = need(handle, "nvrtcGetPTX");
}

static char *const *parse_arguments(struct proof_run *run, char **argv)
{
    while (*argv != NULL && **argv == '-') {
        char *name = *argv++, *value = *argv != NULL ? *argv++ : NULL;
        if (value == NULL)
            die("needs a value", name);
        if (strcmp(name, "--nvrtc") == 0)
            open_nvrtc(run, value);
        else if (strcmp(name, "--ptxas") == 0 && run->n_ptxas < MAX_TOOLS)
            run->ptxas[run->n_ptxas++] = value;
        else if (strcmp(name, "--arch") == 0)
            run->arch = value;
        else if (strcmp(name, "-I") == 0 && run->n_options + 2 <= MAX_ARGS)
            run->options[run->n_options++] = name, run->options[run->n_options++] = value;
        else if (strcmp(name, "--cases") == 0)
            run->n_cases = strtoul(value, NULL, 10);
        else if (strcmp(name, "--compiles") == 0)
            run->n_compiles = strtoul(value, NULL, 10);
        else if (strcmp(name, "--seed") == 0)
            run->random.state = strtoul(value, NULL, 10);
        else
            die("unknown option", name);
    }
    return argv;
}

int main(int argc, char **argv)
{
    static struct proof_run run = {.arch = "-arch=sm_90", .n_cases = 1000, .n_compiles = 4};
    (void)argc;

    setvbuf(stdout, NULL, _IOLBF, 0);
    char *const *files = parse_arguments(&run, argv + 1);
    char *folder = temp_dir_new();
    load_files(&run, files);
    if (run.n_nvrtc > 0)
        add_generated_ptx(&run, folder);
    if (run.n_bases == 0)
        die("nothing to work on", "give it .cu and .ptx files");
    check_keys(&run);
    for (size_t i = 0; i < run.n_nvrtc; i++) {
        check_sources(&run, &run.nvrtc[i]);
        check_commands(&run, &run.nvrtc[i]);
    }
    for (size_t i = 0; i < run.n_ptxas; i++)
        check_ptx(&run, run.ptxas[i], folder);
    temp_dir_free(folder);
    for (size_t i = 0; i < run.n_bases; i++)
        free(run.bases[i].text.data);
    printf("%lu compared by a compiler, %lu failed\n", run.n_compared, run.n_failed);
    return run.n_failed != 0;
}

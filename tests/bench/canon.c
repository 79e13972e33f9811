/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canon.c - how fast canonical keys are made, proof and all, beside XXH3 and SHA-256 of the same
 * bytes in the same run.
 *
 *     canon [--ms N] [FILE...]
 *
 * A line for each file: kind, bytes, median MB/s of canon_key, the same of XXH3-128 with SHA-256, and the time of
 * one key. From 1 MB on also the memory, as a multiple of the file's size: the peak of a process that maps the file
 * and makes its key, less the file and the peak of an idle process. Then a line for each kind, with all its files
 * together. A file without a key is named and left out.
 * Times are the thread's own, so that what else runs on the machine shows little.
 *
 * Without files: for each kind a program of many layers, of 1 MB and of 64 MB, with its memory; and XXH3
 * of bytes of which nothing is to be canonicalized, by us and by the library.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keygen/canon/canon.h"
#include "tests/bench/bench.h"

#define ROUNDS_MAX 1000
#define N_KINDS (CANON_RAW + 1)

struct totals {
    double bytes, canon_s, xxh_s;
    unsigned files;
};

static void *read_file(const char *path, size_t *out_len)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        bench_die("%s: cannot read", path);
    long len = ftell(f);
    rewind(f);
    void *data = malloc((size_t)len + 1);
    if (!data || fread(data, 1, (size_t)len, f) != (size_t)len)
        bench_die("%s: cannot read", path);
    fclose(f);
    *out_len = (size_t)len;
    return data;
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Median seconds of one call over `budget_ms`: of canon_key, or of both digests of the bytes. */
static double median_s(const struct canon_input *input, bool raw, unsigned budget_ms)
{
    static double times[ROUNDS_MAX];
    uint64_t start = bench_now_ns();
    size_t n = 0;
    while (n < ROUNDS_MAX && (n < 3 || bench_now_ns() - start < budget_ms * UINT64_C(1000000))) {
        struct canon_result result;
        uint64_t before = thread_ns();
        if (raw) {
            result.key = key_of_bytes(input->data, input->len);
            result.proof = proof_of_bytes(input->data, input->len);
        } else if (canon_key(input, &result, NULL, NULL)) {
            bench_die("a key that there was is no more");
        }
        times[n++] = (double)(thread_ns() - before) / 1e9;
    }
    return bench_quantile(times, n, 0.5);
}

static void print_line(const char *kind, double bytes, double canon_s, double xxh_s, double peak,
                       const char *name)
{
    printf("%-7s %12.0f B %9.1f MB/s  plain %7.1f MB/s  %10.3f ms  ", kind, bytes,
           bytes / canon_s / 1e6, bytes / xxh_s / 1e6, canon_s * 1e3);
    if (peak > 0 && bytes >= 1e6) /* of a small file it is the program's own pages */
        printf("memory %5.2f x  ", peak / bytes);
    puts(name);
}

/* Returns the peak of resident memory, in bytes, of a child that maps a file and makes its key, as `warm hash` does;
 * 0 if the file has none. The child starts with this process's memory, so this gives back what it can first. With
 * len 0 the child does nothing. */
static size_t peak_of_child(int fd, size_t len, enum canon_kind kind)
{
    int status;
    struct rusage usage;
    fflush(stdout);
    malloc_trim(0);
    pid_t child = fork();
    if (child == 0) {
        struct canon_input input = {.len = len, .kind = kind};
        struct canon_result result;
        if (!len)
            _exit(0);
        mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* as `warm hash`: what is freed is given back */
        input.data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
        _exit(input.data == MAP_FAILED || canon_key(&input, &result, NULL, NULL) ? 1 : 0);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child)
        bench_die("no process");
    if (status)
        return 0;
    return (size_t)usage.ru_maxrss * 1024;
}

static size_t peak_bytes(int fd, size_t len, enum canon_kind kind)
{
    size_t idle = peak_of_child(fd, 0, kind), peak = peak_of_child(fd, len, kind);
    return peak > idle + len ? peak - idle - len : 0;
}

static size_t peak_bytes_at(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st))
        bench_die("%s: cannot read", path);
    size_t peak = peak_bytes(fd, (size_t)st.st_size, CANON_AUTO);
    close(fd);
    return peak;
}

static void bench_file(const char *path, unsigned budget_ms, struct totals totals[N_KINDS])
{
    struct canon_input input = {.file_name = path};
    struct canon_result result;
    struct err e = {0};
    double peak = (double)peak_bytes_at(path);
    void *data = read_file(path, &input.len);
    input.data = data;
    if (canon_key(&input, &result, NULL, &e)) {
        printf("%s:%u:%u: %s\n", path, e.line, e.column, e.text);
        free(data);
        return;
    }
    input.kind = result.kind;
    double canon_s = median_s(&input, false, budget_ms), xxh_s = median_s(&input, true, budget_ms);
    print_line(canon_kind_name(result.kind), (double)input.len, canon_s, xxh_s, peak, path);
    struct totals *t = &totals[result.kind];
    t->bytes += (double)input.len;
    t->canon_s += canon_s;
    t->xxh_s += xxh_s;
    t->files++;
    free(data);
}

/* ---- programs of any length ---- */

/* A program is `head`, any number of `layer`, and `tail`. In a layer "~" stands for its number and "^" for that of
 * the one before it; in `tail` "^" is the last layer's. */
struct made {
    enum canon_kind kind;
    const char *head, *layer, *tail;
};

static const struct made programs[] = {
    {CANON_MLIR,
     "module @jit_step {\n  func.func public @main(%x0: tensor<32x64xf32>, %w: tensor<64x64xf32>, "
     "%b: tensor<64xf32>) -> tensor<32x64xf32> {\n",
     "    %d~ = stablehlo.dot_general %x^, %w, contracting_dims = [1] x [0], precision = [DEFAULT, "
     "DEFAULT] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>\n"
     "    %e~ = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>\n"
     "    %f~ = stablehlo.broadcast_in_dim %e~, dims = [0, 1] : (tensor<1x64xf32>) -> "
     "tensor<32x64xf32>\n"
     "    %s~ = stablehlo.add %d~, %f~ : tensor<32x64xf32>\n"
     "    %cst_~ = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
     "    %z~ = stablehlo.broadcast_in_dim %cst_~, dims = [] : (tensor<f32>) -> tensor<32x64xf32>\n"
     "    %x~ = stablehlo.maximum %s~, %z~ : tensor<32x64xf32>\n",
     "    return %x^ : tensor<32x64xf32>\n  }\n}\n"},
    {CANON_HLO,
     "HloModule jit_step\n\nENTRY %main.1 (x.0: f32[32,64], w.1: f32[64,64], b.2: f32[64]) -> "
     "f32[32,64] {\n  %x.0 = f32[32,64]{1,0} parameter(0)\n  %w.1 = f32[64,64]{1,0} parameter(1)\n"
     "  %b.2 = f32[64]{0} parameter(2)\n",
     "  %dot.~ = f32[32,64]{1,0} dot(%x.^, %w.1), lhs_contracting_dims={1}, "
     "rhs_contracting_dims={0}, "
     "metadata={op_name=\"jit(step)/dot_general\" source_file=\"/home/me/step.py\" "
     "source_line=~}\n"
     "  %wide.~ = f32[32,64]{1,0} broadcast(%b.2), dimensions={1}\n"
     "  %add.~ = f32[32,64]{1,0} add(%dot.~, %wide.~), metadata={op_name=\"jit(step)/add\"}\n"
     "  %x.~ = f32[32,64]{1,0} maximum(%add.~, %wide.~)\n",
     "  ROOT %out.1 = f32[32,64]{1,0} negate(%x.^)\n}\n"},
    {CANON_PTX,
     "//\n// Generated by NVIDIA NVVM Compiler\n//\n.version 8.5\n.target sm_90\n.address_size "
     "64\n",
     ".visible .entry k~(\n\t.param .u64 k~_param_0,\n\t.param .u32 k~_param_1\n)\n{\n"
     "\t.reg .pred %p<2>;\n\t.reg .b32 %r<6>;\n\t.reg .b64 %rd<5>;\n\n"
     "\tld.param.u64 %rd1, [k~_param_0];\n\tld.param.u32 %r1, [k~_param_1];\n"
     "\t.loc 1 7 3\n\tmov.u32 %r2, %ctaid.x;\n\tmov.u32 %r3, %ntid.x;\n"
     "\tmov.u32 %r4, %tid.x;\n\tmad.lo.s32 %r5, %r2, %r3, %r4;\n"
     "\tsetp.ge.s32 %p1, %r5, %r1;\n\t@%p1 bra $L__BB_2;\n\n"
     "\tcvta.to.global.u64 %rd2, %rd1;\n\tmul.wide.s32 %rd3, %r5, 4;\n"
     "\tadd.s64 %rd4, %rd2, %rd3;\n\tst.global.u32 [%rd4], %r5;\n\n$L__BB_2:\n\tret;\n\n}\n",
     ""},
    {CANON_CUDA, "",
     "// the kernel of layer ~\n__global__ void layer~(float *out, const float *in, int n)\n{\n"
     "    int i = blockIdx.x * blockDim.x + threadIdx.x; /* which element */\n"
     "    if (i < n)\n        out[i] = in[i] > 0.0f ? in[i] * 2.0f : 0.0f;\n}\n\n",
     ""},
};

/* Writes a text with its numbers to `to`, or only counts if that is NULL. */
static size_t text_put(char *to, const char *text, unsigned number)
{
    size_t n = 0;
    char digits[16];
    for (; *text; text++) {
        size_t len = 1;
        const char *from = text;
        if (*text == '~' || *text == '^') {
            len = (size_t)sprintf(digits, "%u", *text == '~' ? number : number - 1);
            from = digits;
        }
        if (to)
            memcpy(to + n, from, len);
        n += len;
    }
    return n;
}

/* A program of about `bytes`; free() it. */
static char *program_make(const struct made *made, size_t bytes, size_t *out_len)
{
    char *text = malloc(bytes + 65536);
    if (!text)
        bench_die("no memory for a program");
    size_t n = text_put(text, made->head, 1);
    unsigned layer = 1;
    while (n < bytes)
        n += text_put(text + n, made->layer, layer++);
    n += text_put(text + n, made->tail, layer);
    *out_len = n;
    return text;
}

/* ---- memory ---- */

/* The same of a program, which is no longer in memory then. */
static size_t peak_bytes_of(const struct made *made, size_t bytes)
{
    size_t len;
    FILE *f = tmpfile();
    char *text = program_make(made, bytes, &len);
    if (!f || fwrite(text, 1, len, f) != len || fflush(f))
        bench_die("no temporary file for a program");
    free(text);
    size_t peak = peak_bytes(fileno(f), len, made->kind);
    fclose(f);
    return peak;
}

static void bench_made(unsigned budget_ms)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t bytes = 1000000; bytes <= 64000000; bytes *= 64) {
            struct canon_input input = {.kind = programs[i].kind};
            double peak = (double)peak_bytes_of(&programs[i], bytes);
            void *data = program_make(&programs[i], bytes, &input.len);
            input.data = data;
            double s = median_s(&input, false, budget_ms),
                   plain = median_s(&input, true, budget_ms);
            printf("%-7s %9zu B %8.1f MB/s  plain %7.1f MB/s  memory %5.2f x\n",
                   canon_kind_name(input.kind), input.len, (double)input.len / s / 1e6,
                   (double)input.len / plain / 1e6, peak / (double)input.len);
            free(data);
        }
}

/* Nothing to canonicalize: XXH3-128 of bytes, ours beside the library's. */
static void bench_raw(unsigned budget_ms)
{
    static double ours[ROUNDS_MAX], library[ROUNDS_MAX];
    const size_t len = 64000000;
    uint8_t *data = malloc(len);
    if (!data)
        bench_die("no memory for raw bytes");
    memset(data, 0x5A, len);
    uint64_t start = bench_now_ns(), sum = 0;
    size_t n = 0;
    for (; n < ROUNDS_MAX && (n < 5 || bench_now_ns() - start < budget_ms * UINT64_C(1000000));
         n++) {
        uint64_t before = thread_ns();
        sum += key_of_bytes(data, len).bytes[0];
        uint64_t between = thread_ns();
        sum += XXH3_128bits(data, len).low64;
        ours[n] = (double)(between - before);
        library[n] = (double)(thread_ns() - between);
    }
    double us = bench_quantile(ours, n, 0.5), them = bench_quantile(library, n, 0.5);
    printf("raw bytes, XXH3-128: ours %.0f MB/s, the library's %.0f MB/s: %.2f x%s\n",
           (double)len / us * 1e3, (double)len / them * 1e3, them / us, sum ? "" : " ");
    free(data);
}

int main(int argc, char **argv)
{
    struct totals totals[N_KINDS] = {0};
    unsigned budget_ms = 300;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--ms") == 0) {
        budget_ms = (unsigned)atoi(argv[2]);
        first = 3;
    }
    for (int i = first; i < argc; i++)
        bench_file(argv[i], budget_ms, totals);
    if (first == argc) {
        bench_made(budget_ms);
        bench_raw(budget_ms);
    }
    for (int k = 0; k < N_KINDS; k++) {
        char name[32];
        snprintf(name, sizeof name, "all %u files", totals[k].files);
        if (totals[k].files)
            print_line(canon_kind_name((enum canon_kind)k), totals[k].bytes, totals[k].canon_s,
                       totals[k].xxh_s, 0, name);
    }
    return 0;
}

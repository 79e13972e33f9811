/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_canon.c - how fast canonical keys are made, beside XXH3 of the same bytes in the same run.
 *
 *     canon [--ms N] FILE...
 *
 * One line a file: kind, bytes, median MB/s of canon_key and of XXH3-128, time of one key; then one
 * line for each kind with all its files together. A file that has no key is named and left out.
 * Times are the thread's own, so that what else runs on the machine shows little.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "keygen/canon.h"
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

/* Median seconds of one call over `budget_ms`: of canon_key, or of XXH3 of the bytes. */
static double median_s(const struct canon_input *input, bool raw, unsigned budget_ms)
{
    static double times[ROUNDS_MAX];
    uint64_t start = bench_now_ns();
    size_t n = 0;
    while (n < ROUNDS_MAX && (n < 3 || bench_now_ns() - start < budget_ms * UINT64_C(1000000))) {
        struct canon_result result;
        uint64_t before = thread_ns();
        if (raw)
            result.key = key_of_bytes(input->data, input->len);
        else if (canon_key(input, &result, NULL, NULL))
            bench_die("a key that there was is no more");
        times[n++] = (double)(thread_ns() - before) / 1e9;
    }
    return bench_quantile(times, n, 0.5);
}

static void print_line(const char *kind, double bytes, double canon_s, double xxh_s,
                       const char *name)
{
    printf("%-7s %12.0f B %9.1f MB/s  xxh3 %9.1f MB/s  %10.3f ms  %s\n", kind, bytes,
           bytes / canon_s / 1e6, bytes / xxh_s / 1e6, canon_s * 1e3, name);
}

static void bench_file(const char *path, unsigned budget_ms, struct totals totals[N_KINDS])
{
    struct canon_input input = {.file_name = path};
    struct canon_result result;
    struct err e = {0};
    void *data = read_file(path, &input.len);
    input.data = data;
    if (canon_key(&input, &result, NULL, &e)) {
        printf("%s:%u:%u: %s\n", path, e.line, e.column, e.text);
        free(data);
        return;
    }
    input.kind = result.kind;
    double canon_s = median_s(&input, false, budget_ms), xxh_s = median_s(&input, true, budget_ms);
    print_line(canon_kind_name(result.kind), (double)input.len, canon_s, xxh_s, path);
    struct totals *t = &totals[result.kind];
    t->bytes += (double)input.len;
    t->canon_s += canon_s;
    t->xxh_s += xxh_s;
    t->files++;
    free(data);
}

int main(int argc, char **argv)
{
    struct totals totals[N_KINDS] = {0};
    unsigned budget_ms = 300;
    if (argc < 2)
        bench_die("usage: canon [--ms N] FILE...");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ms") == 0 && i + 1 < argc)
            budget_ms = (unsigned)atoi(argv[++i]);
        else
            bench_file(argv[i], budget_ms, totals);
    }
    for (int k = 0; k < N_KINDS; k++) {
        char name[32];
        snprintf(name, sizeof name, "all %u files", totals[k].files);
        if (totals[k].files)
            print_line(canon_kind_name((enum canon_kind)k), totals[k].bytes, totals[k].canon_s,
                       totals[k].xxh_s, name);
    }
    return 0;
}

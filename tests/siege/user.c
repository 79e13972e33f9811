/* SPDX-License-Identifier: Apache-2.0 */
/* user.c - the user whom nothing may disturb, and others who are as busy and mean no harm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/warm.h"
#include "tests/siege/siege.h"

#define HIT_NAMES 64u
#define HIT_BYTES 1024u
#define PUT_NAMES 500u
#define COMPUTE_NS 1000000u /* of an honest program between two requests */
/* For what takes milliseconds: the machine has many more busy programs than CPUs, which is not the daemon's
 * fault. How long it did take is for the percentile to say. */
#define PATIENCE_MS 10000u

const char source_big[] = "__device__ int table[40000] = {7, 8, 9};\n"
                          "extern \"C\" __global__ void big(int *x) { *x += table[*x]; }\n";

void source_plain(unsigned n, char *text)
{
    snprintf(text, 256, "extern \"C\" __global__ void k%u(float *x) { x[threadIdx.x] *= %u; }\n", n,
             n + 2);
}

void source_popular(char *text)
{
    snprintf(text, 256,
             "#include \"h.h\"\nextern \"C\" __global__ void p(T *x) { x[threadIdx.x] += %llu; }\n",
             (unsigned long long)(now_ns() / 1000000000));
}

/* ---- what went wrong ---- */

static struct phase *phase(void) { return &shared->phases[shared->phase]; }

static void note(_Atomic uint64_t *counter, const char *what, int code, const char *message)
{
    struct phase *p = phase();
    if ((*counter)++ == 0)
        snprintf(p->first, sizeof p->first, "%s: %s: %s", what, warm_error_name(code), message);
}

static void note_time(uint64_t ns)
{
    unsigned power = 63 - (unsigned)__builtin_clzll(ns | 32);
    unsigned step = (unsigned)(ns >> (power - 5)) & 31;
    phase()->times[power * 32 + step]++;
}

static struct warm *connect_to(void)
{
    struct warm_options options = {.socket = shared->socket,
                                   .connect_timeout_ms = PATIENCE_MS,
                                   .request_timeout_ms = PATIENCE_MS};
    struct warm *w;
    int code;
    while ((code = warm_open(&w, &options)) != 0) {
        note(&phase()->n_failed, "connect", code, "");
        usleep(100000);
    }
    return w;
}

static void fill(uint8_t *out, size_t len, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)random_next(&state);
}

/* ---- hits and puts ---- */

static int put(struct warm *w, const char *name, uint64_t seed, size_t len)
{
    struct warm_put_options options = {.cost_ms = 100};
    uint8_t *value = malloc(len);
    fill(value, len, seed);
    int code = warm_put(w, name, strlen(name), value, len, &options);
    free(value);
    return code;
}

/* Whether the entry has just these bytes. */
static int get(struct warm *w, const char *name, uint64_t seed, size_t len, bool *out_right)
{
    struct warm_value v;
    uint8_t *want = malloc(len);
    int code = warm_get(w, name, strlen(name), 0, &v);
    fill(want, len, seed);
    *out_right = code != 0 || (v.len == len && memcmp(v.data, want, len) == 0);
    if (code == 0)
        warm_value_free(&v);
    free(want);
    return code;
}

void user_hits(void)
{
    struct warm *w = connect_to();
    char name[32];
    for (unsigned i = 0; i < HIT_NAMES; i++) {
        snprintf(name, sizeof name, "hit %u", i);
        int code = put(w, name, i, HIT_BYTES);
        if (code)
            note(&phase()->n_failed, "first put", code, warm_message(w));
    }
    for (unsigned i = 0;; i++) {
        struct warm_value v;
        snprintf(name, sizeof name, "hit %u", i % HIT_NAMES);
        uint64_t began = now_ns();
        int code = warm_get(w, name, strlen(name), 0, &v);
        note_time(now_ns() - began);
        uint8_t want[HIT_BYTES];
        fill(want, sizeof want, i % HIT_NAMES);
        if (code)
            note(&phase()->n_failed, "hit", code, warm_message(w));
        else if (v.len != sizeof want || memcmp(v.data, want, sizeof want) != 0)
            note(&phase()->n_wrong, "hit", 0, name);
        if (code == 0)
            warm_value_free(&v);
        phase()->n_hits++;
        usleep(1000);
    }
}

void user_puts(void)
{
    struct warm *w = connect_to();
    for (unsigned i = 0;; i++) {
        char name[32];
        bool right = true;
        size_t len = i % 10 == 0 ? 100000 : 1024 + i % 3000;
        snprintf(name, sizeof name, "put %u", i % PUT_NAMES);
        int code = put(w, name, i, len);
        if (!code)
            code = get(w, name, i, len, &right);
        if (code)
            note(&phase()->n_failed, "put", code, warm_message(w));
        else if (!right)
            note(&phase()->n_wrong, "put", 0, name);
        phase()->n_puts++;
        usleep(20000);
    }
}

/* ---- compiles ---- */

static int compile(struct warm *w, const char *name, const char *source, unsigned flags,
                   struct key *out)
{
    char include[128];
    snprintf(include, sizeof include, "-I%s/include", shared->folder);
    const char *options[] = {"--gpu-architecture=sm_90", include};
    struct warm_job job = {.name = name,
                           .source = source,
                           .source_len = strlen(source),
                           .options = options,
                           .n_options = 2,
                           .cwd = shared->folder,
                           .flags = flags};
    struct warm_result result;
    int code = warm_compile(w, &job, &result);
    if (code)
        return code;
    *out = key_of_bytes(result.value.data, result.value.len);
    code = result.status == 0 && result.cubin.len > 100 ? 0 : WARM_EMALFORMED;
    warm_result_free(&result);
    return code;
}

int compile_plain(struct warm *w, unsigned n, bool anew, struct key *out)
{
    char source[256];
    source_plain(n, source);
    return compile(w, "plain.cu", source, anew ? WARM_RECACHE | WARM_NO_STORE : 0, out);
}

void user_compiles(void)
{
    struct warm *w = connect_to();
    struct key big = {0}, digest;
    int code = compile(w, "big.cu", source_big, 0, &big);
    if (code)
        note(&phase()->n_failed, "first compile", code, warm_message(w));
    for (;;) {
        char popular[256];
        unsigned n = shared->n_compiled;
        code = compile_plain(w, n, false, &digest);
        if (code) {
            note(&phase()->n_failed, "compile", code, warm_message(w));
        } else if (n < COMPILED_MAX) {
            shared->compiled[n] = digest;
            shared->n_compiled = n + 1;
        }
        phase()->n_compiles++;
        shared->n_squatted += !code && shared->phase && shared->squats;
        source_popular(popular);
        code = compile(w, "popular.cu", popular, 0, &digest);
        if (code)
            note(&phase()->n_failed, "compile with a header", code, warm_message(w));
        phase()->n_compiles++;
        shared->n_squatted += !code && shared->phase && shared->squats;
        code = compile(w, "big.cu", source_big, 0, &digest);
        if (code)
            note(&phase()->n_failed, "hit of a large result", code, warm_message(w));
        else if (!key_equal(&big, &digest))
            note(&phase()->n_wrong, "large result", 0, "");
        phase()->n_compiles++;
        usleep(200000);
    }
}

/* ---- the honest crowd ---- */

/* Computes, as programs do between what they ask a cache for. */
static void compute(uint64_t ns)
{
    for (uint64_t end = now_ns() + ns; now_ns() < end;)
        ;
}

/* As busy as it can be with what is its own. */
void honest_one(unsigned n)
{
    struct warm *w = NULL;
    struct warm_options options = {.socket = shared->socket};
    struct key digest;
    bool right;
    while (warm_open(&w, &options) != 0)
        usleep(10000);
    for (unsigned i = 0;; i++) {
        char name[32];
        snprintf(name, sizeof name, "own %u", i % 100);
        if (i < 100 || i % 50 == 0)
            put(w, name, i % 100, 1024 + n);
        get(w, name, i % 100, 1024 + n, &right);
        compute(COMPUTE_NS);
        if (i % 500 == 499)
            compile_plain(w, 1000000 + n * 10000 + i / 500, false, &digest);
    }
}

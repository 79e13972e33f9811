/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_reference.c - compiles with the library itself, in a forked child, and compares that with a worker's
 * result. The suites of daemon/compiler call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/pool_reference.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/worker/nvrtc.h"
#include "keygen/cuda/job.h"
#include "tests/support/support.h"

/* Ends the test's child with a message if `good` is false. The framework's assertions would wait
 * for ever in a child. */
static void child_needs(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "cannot use %s\n", what);
    _exit(1);
}

static void *must_find(void *library, const char *symbol)
{
    void *found = dlsym(library, symbol);
    child_needs(found != NULL, symbol);
    return found;
}

static void reference_load(struct nvrtc *n, const char *folder)
{
    bool new = strstr(folder, "/13.") != NULL;
    char *builtins =
        path_join(folder, new ? "lib/libnvrtc-builtins.so.13.5" : "lib/libnvrtc-builtins.so.12.9");
    char *path = path_join(folder, new ? "lib/libnvrtc.so.13" : "lib/libnvrtc.so.12");
    child_needs(dlopen(builtins, RTLD_LAZY) != NULL, builtins);
    void *library = dlopen(path, RTLD_NOW);
    child_needs(library != NULL, path);
#define FN(name, parameters)                                                                       \
    void *name##_found = must_find(library, "nvrtc" #name);                                        \
    memcpy(&n->name, &name##_found, sizeof name##_found);
#define FN_OPTIONAL(name, parameters) FN(name, parameters)
#include "daemon/worker/nvrtc.fn"
#undef FN
#undef FN_OPTIONAL
    free(builtins);
    free(path);
}

static size_t list_length(const struct text_list *list)
{
    size_t n = 0;
    while (n < 16 && list->texts[n])
        n++;
    return n;
}

static void put_output(FILE *out, nvrtc_program p, int (*size)(nvrtc_program, size_t *),
                       int (*bytes)(nvrtc_program, char *), bool is_text)
{
    size_t len = 0;
    char *data = NULL;
    if (size(p, &len) || len <= (is_text ? 1u : 0u) || bytes(p, data = malloc(len)))
        len = 0;
    len -= is_text && len;
    fprintf(out, "%zu:", len);
    if (len)
        fwrite(data, 1, len, out);
    free(data);
}

/* Compiles in this process and writes everything down. */
static void reference_compile(const char *folder, const struct ask *a, FILE *out)
{
    struct nvrtc n;
    nvrtc_program p;
    reference_load(&n, folder);
    struct text_list options = a->options;
    int n_options = (int)list_length(&options);
    options.texts[n_options++] = "--no-cache";
    child_needs(n.CreateProgram(&p, a->source, a->name ? a->name : "k.cu",
                                (int)list_length(&a->header_names), a->headers.texts,
                                a->header_names.texts) == 0,
                "nvrtcCreateProgram");
    for (size_t i = 0; i < list_length(&a->expressions); i++)
        n.AddNameExpression(p, a->expressions.texts[i]);
    int rc = n.CompileProgram(p, n_options, options.texts);
    fprintf(out, "%d:", rc);
    put_output(out, p, n.GetProgramLogSize, n.GetProgramLog, true);
    put_output(out, p, n.GetCUBINSize, n.GetCUBIN, false);
    put_output(out, p, n.GetPTXSize, n.GetPTX, true);
    put_output(out, p, n.GetLTOIRSize, n.GetLTOIR, false);
    put_output(out, p, n.GetOptiXIRSize, n.GetOptiXIR, false);
    for (size_t i = 0; i < list_length(&a->expressions); i++) {
        const char *lowered;
        if (rc == 0 && n.GetLoweredName(p, a->expressions.texts[i], &lowered) == 0)
            fprintf(out, "%s=%s;", a->expressions.texts[i], lowered);
    }
}

char *reference(const struct rig *r, const char *version, const struct ask *a, size_t *out_len)
{
    char *file = path_join(r->dir, "reference");
    char *folder = toolchain_folder(version);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        FILE *out = fopen(file, "wb");
        if (chdir(r->dir) || !out)
            _exit(1);
        setenv("PWD", r->dir, 1);
        reference_compile(folder, a, out);
        fclose(out);
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "the compile in process died");
    char *data = file_read(file, out_len);
    unlink(file);
    free(file);
    free(folder);
    return data;
}

char *outcome_form(const struct outcome *o, size_t *out_len)
{
    static const uint32_t order[] = {BUNDLE_LOG, BUNDLE_CUBIN, BUNDLE_PTX, BUNDLE_LTOIR,
                                     BUNDLE_OPTIXIR};
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "%d:", o->nvrtc_status);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        struct view v = outcome_section(o, order[i]);
        writer_format(&w, "%zu:", v.len);
        writer_bytes(&w, v.data, v.len);
    }
    struct view lowered = outcome_section(o, BUNDLE_LOWERED);
    struct reader in = reader_over(lowered.data, lowered.len);
    while (in.len) {
        struct view from = reader_blob(&in, JOB_TEXT_MAX), to = reader_blob(&in, 1 << 20);
        writer_format(&w, "%.*s=%.*s;", (int)from.len, (const char *)from.data, (int)to.len,
                      (const char *)to.data);
    }
    struct view status = outcome_section(o, BUNDLE_STATUS);
    struct reader s = reader_over(status.data, status.len);
    cr_assert_eq((int)reader_u32(&s), o->nvrtc_status);
    return writer_take(&w, out_len);
}

void expect_same(struct rig *r, const struct ask *given)
{
    for (size_t v = 0; v < 2; v++) {
        struct outcome o;
        size_t want_len, got_len;
        ask_serving(r, given, v, &o);
        char *want = reference(r, versions[v], given, &want_len);
        char *got = outcome_form(&o, &got_len);
        cr_expect(want_len == got_len && memcmp(want, got, got_len) == 0,
                  "NVRTC %s, option %s: in process\n%.400s\nthrough a worker\n%.400s", versions[v],
                  given->options.texts[1], want, got);
        free(want);
        free(got);
        outcome_close(&o);
    }
}

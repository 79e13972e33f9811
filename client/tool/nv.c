/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nv.c - front ends for NVIDIA's other tools, all traced.
 *
 *     nvcc -cubin, -ptx, -fatbin, -c, -dc   options as keygen/options.h knows them; what it does not
 *                                           know is run for real
 *     cicc, nvlink, fatbinary               the command line as it is, but for the names of
 *                                           outputs and of temporary inputs; for cicc, which
 *                                           completes names and puts them into what it makes,
 *                                           the working folder too
 *
 * A temporary input is a root by itself (tool.h): its name does not count, its content does. These
 * tools start each other through a PATH of their own making, so all of PATH is in the key.
 *
 * One thread; no state.
 */
#define XXH_INLINE_ALL
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tool/tool.h"
#include "keygen/options.h"

#define SOURCE_MAX_BYTES (64u << 20)

enum field { PROGRAM = 1, OPTION, HARDWARE, PATHS, SOURCE, VARIABLES, FOLDER, HOW };

/* Source: the CUDA Compiler Driver documentation; and what the host compiler looks at (cc.c). What
 * else the tools ask the environment for shows in the trace. Not CUDA_VISIBLE_DEVICES, which differs
 * between the ranks of a job. */
static const char *const environment[] = {"PATH",
                                          "LD_LIBRARY_PATH",
                                          "NVCC_*",
                                          "NVVM*",
                                          "CICC_*",
                                          "CUDAFE_*",
                                          "CPATH",
                                          "LIBRARY_PATH",
                                          "GCC_*",
                                          "C_INCLUDE_PATH",
                                          "CC",
                                          "CUDAHOSTCXX",
                                          "SOURCE_DATE_EPOCH",
                                          "CPLUS_*",
                                          "INCLUDES",
                                          "CXX",
                                          "LIBRARIES",
                                          "CUDA_INC_PATH",
                                          "CUDA_LIB_PATH",
                                          NULL};

static int refuse(struct err *e, const char *what)
{
    return err_set(e, WARM_EREFUSED, "%s: not kept", what);
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int begin(struct tool_job *job, struct key_builder *key, const char *domain, struct err *e)
{
    job->loud = true;
    key_begin(key, domain);
    key_add_text(key, PROGRAM, job->program);
    key_add_text(key, PROGRAM, job->argv[0]);
    tool_key_messages(job, key, HOW);
    key_add_u64(key, HOW, job->n_roots);
    tool_key_preloads(key, VARIABLES);
    return tool_key_environment(key, VARIABLES, environment) ? 0 : refuse(e, "so many variables");
}

static void add_folder(struct tool_job *job, struct key_builder *key)
{
    job->keys_cwd = true;
    key_add_text(key, FOLDER, job->cwd);
}

/* ---- nvcc ---- */

static const char *const nvcc_modes[][2] = {
    {"-cubin", "cubin"},   {"--cubin", "cubin"},   {"-ptx", "ptx"}, {"--ptx", "ptx"},
    {"-fatbin", "fatbin"}, {"--fatbin", "fatbin"}, {"-c", "o"},     {"--compile", "o"},
    {"-dc", "o"},          {"--device-c", "o"},    {"-dw", "o"},    {"--device-w", "o"},
};

/* The output's ending, or NULL: it links, or prints. */
static const char *nvcc_ending(const struct tool_job *job)
{
    for (int i = 1; i < job->argc; i++)
        for (size_t m = 0; m < sizeof nvcc_modes / sizeof nvcc_modes[0]; m++)
            if (strcmp(job->argv[i], nvcc_modes[m][0]) == 0)
                return nvcc_modes[m][1];
    return NULL;
}

static int nvcc_output(struct tool_job *job, const struct options *o, const struct view *args,
                       const char *ending, struct err *e)
{
    char *text = NULL;
    const char *input = base_of(args[o->input].data), *dot = strrchr(input, '.');
    if (o->output >= 0) {
        const char *given = args[o->output].data, *equals = strchr(given, '=');
        return tool_add_output(job, given[0] == '-' && equals ? equals + 1 : given, e);
    }
    int len = (int)(dot ? (size_t)(dot - input) : strlen(input));
    if (asprintf(&text, "%.*s.%s", len, input, ending) < 0)
        text = NULL;
    return tool_add_output(job, tool_job_keep(job, text), e);
}

static int nvcc_key(struct tool_job *job, const struct options *o, const char *input, struct err *e)
{
    struct key_builder key;
    struct cuda_scan scan = {0};
    uint8_t *source;
    size_t len;
    const char *slash = strrchr(input, '/');
    int code = tool_read_file(input, SOURCE_MAX_BYTES, &source, &len, e);
    if (code)
        return code;
    cuda_scan(source, len, &scan);
    bool names_show = job->exact || o->debug || o->line_info || cuda_scan_uses_file(&scan);
    job->times_show = o->debug || o->line_info; /* ptxas writes them beside the lines */
    if (!names_show && slash && tool_is_temporary(input) &&
        !tool_add_root(job, input, (size_t)(slash - input)))
        code = refuse(e, "so many folders");
    if (!code)
        code = begin(job, &key, "nvcc/2", e);
    if (!code) {
        key_add_text(&key, HARDWARE, o->hardware);
        options_add(o, &key, OPTION);
        tool_key_path(job, &key, PATHS, input);
        key_add(&key, SOURCE, source, len);
        if (names_show)
            add_folder(job, &key);
        tool_key_end(job, &key);
        job->sources[job->n_sources++] = input;
        job->expands_macros = true;
    }
    free(source);
    return code;
}

/* Options from the environment may ask for this machine's own GPU or CPU, which is not in the key. */
static bool asks_for_native(const char *variable)
{
    const char *value = getenv(variable);
    return value && strstr(value, "native");
}

static int nvcc_plan(struct tool_job *job, struct err *e)
{
    struct options o;
    const char *ending = nvcc_ending(job);
    if (asks_for_native("NVCC_APPEND_FLAGS") || asks_for_native("NVCC_PREPEND_FLAGS"))
        return refuse(e, "native, from the environment,");
    if (!ending)
        return refuse(e, "nvcc without -cubin, -ptx, -fatbin or -c");
    size_t n = (size_t)(job->argc - 1);
    struct view *args = tool_arguments(job);
    if (!args)
        return err_set(e, WARM_ENOMEM, "no memory");
    int code = options_parse(OPTIONS_NVCC, 0, args, n, &o, e);
    if (code) {
        free(args);
        return code;
    }
    if (strcmp(o.hardware, "native") == 0)
        code = refuse(e, "-arch=native");
    else if (o.input < 0)
        code = refuse(e, "no input");
    if (!code)
        code = nvcc_output(job, &o, args, ending, e);
    if (!code)
        code = nvcc_key(job, &o, args[o.input].data, e);
    options_close(&o);
    free(args);
    return code;
}

/* ---- cicc, nvlink, fatbinary ---- */

/* Options that name outputs, with the name after '=' or in the next argument. */
static const char *const output_options[] = {
    "-o",
    "--output-file",
    "--create",
    "-create",
    "--embedded-fatbin",
    "-embedded-fatbin",
    "--gen_c_file_name",
    "--stub_file_name",
    "--gen_device_file_name",
    "--module_id_file_name",
    "--register-link-binaries",
};

/* One that is not made is read. */
static bool is_made(const struct tool_job *job, const char *option)
{
    if (strcmp(option, "--module_id_file_name") != 0)
        return true;
    for (int i = 1; i < job->argc; i++)
        if (strcmp(job->argv[i], "--gen_module_id_file") == 0)
            return true;
    return false;
}

/* The name in argument `i` if that is an output; *next if it is the argument after. */
static const char *output_in(const struct tool_job *job, int i, bool *next)
{
    const char *arg = job->argv[i];
    for (size_t n = 0; n < sizeof output_options / sizeof output_options[0]; n++) {
        size_t len = strlen(output_options[n]);
        if (strncmp(arg, output_options[n], len) != 0 || !is_made(job, output_options[n]))
            continue;
        *next = arg[len] == '\0';
        if (*next)
            return i + 1 < job->argc ? job->argv[i + 1] : NULL;
        if (arg[len] == '=')
            return arg + len + 1;
    }
    return NULL;
}

/* The file that an argument names, alone or after its last '='. */
static const char *file_in(const char *arg)
{
    const char *equals = strrchr(arg, '='), *path = equals ? equals + 1 : arg;
    struct stat st;
    return path[0] != '-' && stat(path, &st) == 0 && S_ISREG(st.st_mode) ? path : NULL;
}

static int add_files(struct tool_job *job, struct err *e)
{
    bool next = false;
    for (int i = 1; i < job->argc; i++) {
        const char *output = output_in(job, i, &next), *file = file_in(job->argv[i]);
        int code = 0;
        if (job->argv[i][0] == '@')
            return refuse(e, job->argv[i]);
        if (output)
            code = tool_add_output(job, output, e);
        else if (file && job->n_sources < TOOL_SOURCES_MAX)
            job->sources[job->n_sources++] = file;
        if (!code && file && !output && tool_is_temporary(file) &&
            !tool_add_root(job, file, strlen(file)))
            code = refuse(e, "so many files");
        if (code)
            return code;
        i += output && next;
    }
    return job->n_outputs ? 0 : refuse(e, "no output");
}

static void add_arguments(struct tool_job *job, struct key_builder *key)
{
    bool next = false;
    for (int i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i], *output = output_in(job, i, &next), *file = file_in(arg);
        const char *path = output && !next ? output : file;
        key_add(key, OPTION, arg, path ? (size_t)(path - arg) : strlen(arg));
        if (file && !output)
            tool_key_path(job, key, PATHS, file);
        i += output && next;
    }
}

static int plain_plan(struct tool_job *job, struct err *e)
{
    struct key_builder key;
    int code = add_files(job, e);
    job->any_source = true;
    if (!code)
        code = begin(job, &key, "nv/2", e);
    if (code)
        return code;
    add_arguments(job, &key);
    job->short_names = strstr(base_of(job->program), "cicc") != NULL;
    job->expands_macros = job->short_names;
    if (job->short_names || job->exact)
        add_folder(job, &key);
    tool_key_end(job, &key);
    return 0;
}

int nv_plan(struct tool_job *job, struct warm *w, struct err *e)
{
    bool is_nvcc = strstr(base_of(job->program), "nvcc") != NULL;
    (void)w;
    job->family = is_nvcc ? "nvcc" : "nv";
    job->traced = job->keys_path = true;
    int code = is_nvcc ? nvcc_plan(job, e) : plain_plan(job, e);
    snprintf(job->label, sizeof job->label, "%s %s", base_of(job->argv[0]),
             job->n_sources ? base_of(job->sources[0]) : "");
    return code;
}

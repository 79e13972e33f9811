/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia.c - front ends for NVIDIA's tools other than ptxas, all traced. They decide what counts in
 * the key of a command; commands/tool.c and run_cached.c call nvidia_plan.
 *
 *     nvcc -cubin -ptx -fatbin -c -dc   options of keygen/cuda/options.h, and of cc_options.h for
 *                                       the host's compiler; a command with any other option
 *                                       runs and is not kept. The folders of the command are
 *                                       roots (tool.h), but not if the output is relocatable, or
 *                                       has names that are made of the path (path_names.h). Of
 *                                       generated sources __FILE__ loses them, as in cc.c
 *     cicc, nvlink, fatbinary, tileiras options of nvidia_options.h, as written, without
 *                                       the names of outputs and of temporary inputs; for cicc,
 *                                       which writes completed names into its output, the
 *                                       working folder too
 *
 * A temporary input is a root by itself (tool.h): its name does not count, its content does.
 *
 * PATH counts by what it leads to (trace_log.c). nvcc puts folders of its own before it, where the trace shows each
 * look. If a run takes another program than the first on PATH, all of PATH is in the key of its result.
 *
 * Thread: main; no state.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tool/cc_options.h"
#include "client/tool/dependencies.h"
#include "client/tool/nvidia_options.h"
#include "client/tool/tool.h"
#include "keygen/cuda/options.h"
#include "keygen/domains.h"

#define SOURCE_MAX_BYTES (64u << 20)

enum field {
    PROGRAM = 1,
    OPTION,
    HARDWARE,
    PATHS,
    SOURCE,
    VARIABLES,
    FOLDER,
    HOW,
    CPU,
    OUTPUTS,
    REACH
};

/* Variables that count. Source: the CUDA Compiler Driver documentation, and the host compiler's
 * (cc.c). Others show in the trace: nvcc reads all by getenv. Not CUDA_VISIBLE_DEVICES, which differs between the ranks of a
 * job, and not LD_LIBRARY_PATH: libraries that are found on it are inputs. */
static const char *const environment[] = {"NVCC_*",
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
                                          "GLIBC_TUNABLES",
                                          "LD_HWCAP_MASK",
                                          "LD_ASSUME_KERNEL",
                                          "LD_ORIGIN_PATH",
                                          NULL};

static int refuse(struct err *e, const char *what, const char *why)
{
    return err_set(e, WARM_EREFUSED, "%.100s: %s", what, why);
}

static int begin(struct tool_job *job, struct key_builder *key, const char *domain, struct err *e)
{
    const char *path = getenv("PATH");
    key_begin(key, domain);
    tool_key_program(job, key, PROGRAM);
    if (job->keys_path)
        key_add_text(key, PROGRAM, path ? path : "");
    tool_key_messages(job, key, HOW);
    tool_key_roots(job, key, HOW);
    key_add_u64(key, HOW, job->maps_roots);
    tool_key_preloads(key, VARIABLES);
    return tool_key_environment(key, VARIABLES, environment)
               ? 0
               : refuse(e, "the environment", "more than 256 variables can change the result");
}

/* Adds the working folder, also by the name that $PWD has for it: debug information has that one. */
static void add_folder(struct tool_job *job, struct key_builder *key)
{
    const char *pwd = getenv("PWD");
    struct stat a, b;
    bool is_same = pwd && pwd[0] == '/' && stat(pwd, &a) == 0 && stat(".", &b) == 0 &&
                   a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    job->keys_cwd = true;
    key_add_text(key, FOLDER, job->cwd);
    key_add_text(key, FOLDER, is_same ? pwd : "");
}

/* ---- nvcc ---- */

#define WORDS_MAX 4096

/* All words of the command: options of the environment stand before and behind the arguments. */
struct words {
    struct view list[WORDS_MAX];
    size_t n;
};

static const char *const nvcc_modes[][2] = {
    {"-cubin", "cubin"},   {"--cubin", "cubin"},   {"-ptx", "ptx"}, {"--ptx", "ptx"},
    {"-fatbin", "fatbin"}, {"--fatbin", "fatbin"}, {"-c", "o"},     {"--compile", "o"},
    {"-dc", "o"},          {"--device-c", "o"},    {"-dw", "o"},    {"--device-w", "o"},
};

/* Returns the output's ending; NULL if the command links, or prints. */
static const char *nvcc_ending(const struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        for (size_t m = 0; m < sizeof nvcc_modes / sizeof nvcc_modes[0]; m++)
            if (strcmp(w->list[i].data, nvcc_modes[m][0]) == 0)
                return nvcc_modes[m][1];
    return NULL;
}

/* Returns the value of an option, "-o" "X" or "-o=X"; `at` is an index of struct options. */
static const char *value_at(const struct words *w, int at)
{
    const char *text = w->list[at].data, *equals = strchr(text, '=');
    return text[0] == '-' && equals ? equals + 1 : text;
}

/* Returns `path` with another ending, in the working folder if `here`. */
static char *with_ending(struct tool_job *job, const char *path, bool here, const char *ending)
{
    char *text = NULL;
    const char *base = tool_base(path), *dot = strrchr(base, '.');
    const char *from = here ? base : path;
    int len = (int)(dot ? (size_t)(dot - from) : strlen(from));
    if (asprintf(&text, "%.*s.%s", len, from, ending) < 0)
        text = NULL;
    return tool_job_keep(job, text);
}

static int nvcc_outputs(struct tool_job *job, const struct options *o, const struct words *w,
                        const char *ending, struct err *e)
{
    const char *input = w->list[o->input].data;
    const char *output =
        o->output >= 0 ? value_at(w, o->output) : with_ending(job, input, true, ending);
    int code = tool_add_output(job, output, e);
    if (code || !o->dependencies)
        return code;
    job->dependencies = o->dependency_file >= 0 ? value_at(w, o->dependency_file)
                                                : with_ending(job, output, false, "d");
    return tool_add_output(job, job->dependencies, e);
}

/* True if a folder to search stands in this argument. */
static bool is_include(const struct options *o, const char *arg)
{
    for (size_t i = 0; i < o->n_include_dirs; i++) {
        const char *at = o->include_dirs[i].data;
        if (at >= arg && at <= arg + strlen(arg))
            return true;
    }
    return false;
}

/* True if the value belongs to an option with one of two names. */
static bool is_value_of(const struct words *w, struct view value, const char *const names[2])
{
    const char *at = value.data;
    for (size_t k = 0; k < 2 * w->n; k++) {
        const char *word = w->list[k / 2].data, *name = names[k % 2];
        const char *next = k / 2 + 1 < w->n ? w->list[k / 2 + 1].data : "";
        if (strncmp(word, name, strlen(name)) == 0 &&
            (at == next || (at >= word && at <= word + strlen(word))))
            return true;
    }
    return false;
}

/* Gives all folders to search (free()); NULL without memory. The host's compiler may be GCC. -MT has a name for a file of
 * dependencies, which leads nowhere. */
static struct tool_folder *folders_of(const struct options *o, const struct words *w, size_t *out_n)
{
    static const char *const system[] = {"-isystem", "--system-include"};
    static const char *const target[] = {"-MT", "--dependency-target-name"};
    struct tool_folder *folders = calloc(o->n_include_dirs + 1, sizeof *folders);
    *out_n = 0;
    for (size_t i = 0; folders && i < o->n_include_dirs; i++)
        if (!is_value_of(w, o->include_dirs[i], target))
            folders[(*out_n)++] =
                (struct tool_folder){.path = o->include_dirs[i],
                                     .is_system = is_value_of(w, o->include_dirs[i], system)};
    return folders;
}

/* True if the working folder is a part of names of headers that GCC shortens. */
static bool has_relative_system(const struct tool_folder *folders, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (folders[i].is_system && *(const char *)folders[i].path.data != '/')
            return true;
    return false;
}

/* True if an argument beside the input, the outputs and the folders to search names a root, or a variable does. */
static bool spells_root(const struct tool_job *job, const struct options *o, const char *input)
{
    for (int i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];
        if (strcmp(arg, input) != 0 && !tool_is_output(job, arg) && !is_include(o, arg) &&
            tool_names_root(job, arg, strlen(arg)))
            return true;
    }
    return tool_environment_names_root(job, environment);
}

/* True if nvcc's file of dependencies names the files of each root alike. */
static bool depends_alike(const struct tool_job *job, const struct tool_folder *folders, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (folders[i].is_system && tool_may_shorten(job, folders[i].path))
            return false;
    for (size_t i = 0; i < job->n_roots; i++)
        if (!dependencies_can_name(job->roots[i], false))
            return false;
    return true;
}

static int add_roots(struct tool_job *job, const struct options *o,
                     const struct tool_folder *folders, size_t n, const char *input, struct err *e)
{
    const char *slash = input[0] == '/' ? strrchr(input, '/') : NULL;
    bool ok = tool_add_places(job, input, slash ? (size_t)(slash - input) : 0);
    /* Can the host's compiler, which preprocesses, replace these roots in __FILE__? */
    bool maps = job->n_roots && job->counts < COUNTS_SOURCE && tool_is_of_jit(input);
    for (size_t i = 0; i < job->n_roots; i++)
        maps = maps && dependencies_can_name(job->roots[i], false) && !strchr(job->roots[i], ',');
    for (size_t i = 0; job->counts == COUNTS_NO_PLACE && !maps && i < n; i++)
        tool_add_folder(job, folders[i].path.data, folders[i].path.len);
    while (job->n_roots &&
           (spells_root(job, o, input) || (job->dependencies && !depends_alike(job, folders, n))))
        tool_drop_root(job);
    if (ok && maps && job->n_roots)
        return tool_map_roots(job, "-Xcompiler", e);
    return ok ? 0 : refuse(e, input, "the command names too many folders");
}

static int nvcc_key(struct tool_job *job, const struct options *o,
                    const struct tool_folder *folders, size_t n_folders, const char *input,
                    bool native, struct err *e)
{
    struct key_builder key;
    uint8_t *source;
    size_t len;
    int code = tool_read_file(input, SOURCE_MAX_BYTES, &source, &len, e);
    if (code)
        return code;
    bool names_show = job->exact || job->in_top || o->shows_cwd || o->relocatable ||
                      has_relative_system(folders, n_folders);
    if (job->counts < COUNTS_SOURCE && root_names_may_show(job, input, source, len))
        job->counts = COUNTS_SOURCE;
    job->path_names = !names_show;
    job->times_show = o->debug || o->line_info; /* ptxas writes them beside the lines */
    if (!names_show)
        code = add_roots(job, o, folders, n_folders, input, e);
    if (!code)
        code = begin(job, &key, DOMAIN_NVCC, e);
    if (!code) {
        key_add_text(&key, HARDWARE, o->hardware);
        options_add_shared(o, &key, OPTION);
        for (size_t i = 0; i < o->n_include_dirs; i++) {
            char *dir = strndup(o->include_dirs[i].data, o->include_dirs[i].len);
            if (!dir)
                code = err_set(e, WARM_ENOMEM, "no memory");
            else
                tool_key_path(job, &key, PATHS, dir);
            if (dir)
                tool_key_reach(job, &key, REACH, dir, strlen(dir));
            free(dir);
        }
        code = tool_key_folders(job, &key, REACH, folders, n_folders, e);
        key_add_u64(&key, HOW, job->counts);
        for (size_t i = 0; o->dependencies && i < job->n_outputs; i++)
            tool_key_path(job, &key, PATHS, job->outputs[i]);
        tool_key_path(job, &key, PATHS, input);
        tool_key_reach(job, &key, REACH, input, tool_folder_len(input));
        key_add(&key, SOURCE, source, len);
        if (names_show)
            add_folder(job, &key);
        for (size_t i = 0; names_show && i < job->n_outputs; i++)
            tool_key_path(job, &key, OUTPUTS, job->outputs[i]); /* each run has names of its own */
        if (native && !cpu_add(&key, CPU))
            code = refuse(e, "native", "warm cannot identify this kind of processor");
        tool_key_end(job, &key);
        job->sources[job->n_sources++] = input;
        job->expands_macros = true;
    }
    free(source);
    return code;
}

/* ---- nvcc's command line ---- */

static int add_word(struct words *w, char *text, struct err *e)
{
    if (w->n == WORDS_MAX)
        return refuse(e, "nvcc", "the command has more than 4096 arguments");
    w->list[w->n++] = (struct view){text, strlen(text)};
    return 0;
}

static int add_variable(struct tool_job *job, const char *name, struct words *w, struct err *e)
{
    const char *value = getenv(name);
    if (!value || !*value)
        return 0;
    if (strpbrk(value, "'\"\\"))
        return refuse(e, name, "warm does not read quotes and backslashes in this variable");
    char *rest, *copy = tool_job_keep(job, strdup(value));
    int code = copy ? 0 : err_set(e, WARM_ENOMEM, "no memory");
    for (char *word = copy ? strtok_r(copy, " \t\n", &rest) : NULL; !code && word;
         word = strtok_r(NULL, " \t\n", &rest))
        code = add_word(w, word, e);
    return code;
}

/* Refuses a text with "$" or "`". nvcc gives its steps to a shell, which replaces them by variables and output of
 * programs that no trace shows. */
static int check_shell(const char *text, struct err *e)
{
    return text && strpbrk(text, "$`") ? refuse(e, text, "nvcc's shell replaces $ and ` in it") : 0;
}

static int add_words(struct tool_job *job, struct words *w, struct err *e)
{
    static const char *const pasted[] = {"INCLUDES",     "SYSTEM_INCLUDES", "LIBRARIES",
                                         "CUDAFE_FLAGS", "PTXAS_FLAGS",     "NVVM_FLAGS",
                                         "OCG_FLAGS",    "NVCC_CCBIN",      "NVLINK_FLAGS"};
    int code = add_variable(job, "NVCC_PREPEND_FLAGS", w, e);
    for (int i = 1; !code && i < job->argc; i++)
        code = add_word(w, job->argv[i], e);
    if (!code)
        code = add_variable(job, "NVCC_APPEND_FLAGS", w, e);
    if (!code)
        code = check_shell(job->cwd, e);
    for (size_t i = 0; !code && i < w->n; i++)
        code = check_shell(w->list[i].data, e);
    for (size_t i = 0; !code && i < sizeof pasted / sizeof pasted[0]; i++)
        code = check_shell(getenv(pasted[i]), e);
    return code;
}

#define HOST_OPTION "an option for the host's compiler that warm does not know, or does not keep"

/* True if the option changes code or messages alone. *shows: it may show the names of sources. */
static bool is_for_host(const char *text, bool *shows)
{
    const struct cc_option *o = text[0] == '-' ? cc_option_find(text) : NULL;
    bool whole = o && (o->form == ALONE || o->form == PREFIX ||
                       (o->form == EITHER && text[strlen(o->name)]));
    *shows |= o && (o->rule == DEBUG || o->rule == SHOWS);
    return whole &&
           (o->rule == KEEP || o->rule == SHOWS || o->rule == DEBUG || o->rule == NO_DEBUG);
}

static int check_option(const char *tool, const char *option, struct err *e)
{
    enum nvidia_rule rule = nvidia_option_rule(tool, option);
    return rule == NVIDIA_KEPT
               ? 0
               : refuse(e, option,
                        rule == NVIDIA_UNKNOWN ? "warm does not know this option"
                                               : "with it the tool does more than warm can replay");
}

/* Checks options for another tool, which programs quote once more. Each must be in that tool's table. */
static int check_inner(const struct inner_options *inner, bool *shows, bool *native, struct err *e)
{
    char text[4096], *rest, *value = text;
    int n =
        snprintf(text, sizeof text, "%.*s", (int)inner->value.len, (const char *)inner->value.data);
    if (n < 0 || (size_t)n >= sizeof text)
        return refuse(e, "nvcc", "the options for another tool have more than 4095 bytes");
    if (n > 1 && (text[0] == '\'' || text[0] == '"') && text[n - 1] == text[0]) {
        text[n - 1] = '\0';
        value++;
    }
    if (strpbrk(value, "'\"\\ "))
        return refuse(e, value, "warm does not read quotes and blanks in options for another tool");
    *native |= inner->tool == INNER_HOST && strstr(value, "native");
    for (char *o = strtok_r(value, ",", &rest); o; o = strtok_r(NULL, ",", &rest)) {
        if (inner->tool == INNER_HOST && !is_for_host(o, shows))
            return refuse(e, o, HOST_OPTION);
        if (inner->tool != INNER_HOST &&
            check_option(inner->tool == INNER_FATBINARY ? "fatbinary" : "cicc", o, e))
            return WARM_EREFUSED;
    }
    return 0;
}

static int nvcc_parsed(struct tool_job *job, struct options *o, const struct words *w,
                       struct err *e)
{
    const char *ending = nvcc_ending(w);
    bool native = false;
    int code = 0;
    for (size_t i = 0; !code && i < o->n_inner; i++)
        code = check_inner(&o->inner[i], &o->shows_cwd, &native, e);
    if (code)
        return code;
    if (o->input < 0)
        return refuse(e, "nvcc", "the command names no input file");
    if (!ending)
        return refuse(e, "nvcc",
                      "warm keeps only commands with -cubin, -ptx, -fatbin, -c, -dc or -dw");
    if ((code = nvcc_outputs(job, o, w, ending, e)))
        return code;
    size_t n_folders;
    struct tool_folder *folders = folders_of(o, w, &n_folders);
    code = folders ? nvcc_key(job, o, folders, n_folders, w->list[o->input].data, native, e)
                   : err_set(e, WARM_ENOMEM, "no memory for folders");
    free(folders);
    return code;
}

static int nvcc_plan(struct tool_job *job, struct err *e)
{
    struct options o;
    struct words *w = calloc(1, sizeof *w);
    int code = w ? add_words(job, w, e) : err_set(e, WARM_ENOMEM, "no memory");
    if (!code)
        code = options_parse(OPTIONS_NVCC, 0, w->list, w->n, &o, e);
    if (!code) {
        code = nvcc_parsed(job, &o, w, e);
        options_close(&o);
    }
    free(w);
    return code;
}

/* ---- cicc, nvlink, fatbinary, tileiras ---- */

/* Options that name outputs, with the name after '=' or in the next argument. */
static const char *const output_options[] = {
    "-o",
    "--output-file",
    "--create",
    "-create",
    "--embedded-fatbin",
    "-embedded-fatbin",
    "-fatbin",
    "--gen_c_file_name",
    "--stub_file_name",
    "--gen_device_file_name",
    "--module_id_file_name",
    "--register-link-binaries",
    "--remarks-output-file",
};

static bool names_module_id(const char *option)
{
    return strncmp(option, "--module_id_file_name", 21) == 0;
}

/* True if the option's file is written; otherwise it is read. */
static bool is_made(const struct tool_job *job, const char *option)
{
    if (!names_module_id(option))
        return true;
    for (int i = 1; i < job->argc; i++)
        if (strcmp(job->argv[i], "--gen_module_id_file") == 0)
            return true;
    return false;
}

/* Returns the name of an output in argument `i`, or NULL; *next if it is the next argument. */
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

/* Returns the file that an argument names, alone or after its last '='. */
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
        bool is_option = job->argv[i][0] == '-' || job->argv[i][0] == '@';
        if (is_option && !output && !names_module_id(job->argv[i]))
            code = check_option(tool_base(job->program), job->argv[i], e);
        if (output)
            code = tool_add_output(job, output, e);
        else if (file && job->n_sources < TOOL_SOURCES_MAX)
            job->sources[job->n_sources++] = file;
        if (!code && file && !output && tool_is_temporary(file) &&
            !tool_add_root(job, file, strlen(file)))
            code = refuse(e, file, "one of too many temporary input files");
        if (code)
            return code;
        i += output && next;
    }
    return job->n_outputs ? 0
                          : refuse(e, tool_base(job->program), "the command names no output file");
}

static int plain_plan(struct tool_job *job, struct err *e)
{
    struct key_builder key;
    int code = add_files(job, e);
    job->any_source = job->loud = true;
    if (!code)
        code = begin(job, &key, DOMAIN_NV, e);
    if (code)
        return code;
    bool next = false;
    for (int i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i], *output = output_in(job, i, &next), *file = file_in(arg);
        const char *path = output && !next ? output : file;
        key_add(&key, OPTION, arg, path ? (size_t)(path - arg) : strlen(arg));
        if (file && !output)
            tool_key_path(job, &key, PATHS, file);
        i += output && next;
    }
    job->short_names = strstr(tool_base(job->program), "cicc") != NULL;
    job->expands_macros = job->reads_marks = job->short_names;
    if (job->short_names || job->exact || job->in_top)
        add_folder(job, &key);
    tool_key_end(job, &key);
    return 0;
}

int nvidia_plan(struct tool_job *job, struct warm *w, struct err *e)
{
    assert(job && job->program && job->argc >= 1);
    bool is_nvcc = strstr(tool_base(job->program), "nvcc") != NULL;
    (void)w;
    job->family = is_nvcc ? "nvcc" : "nv";
    job->traced = job->reads_back = true;
    job->keys_path = job->exact;
    job->timed_log = is_nvcc;
    if (is_nvcc)
        tool_expand(job, true);
    int code = is_nvcc ? nvcc_plan(job, e) : plain_plan(job, e);
    tool_label(job);
    return code;
}

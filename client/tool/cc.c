/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cc.c - front end for host compilers that take GCC's command line: gcc, g++, cc, c++, clang.
 *
 * It decides what counts in the key of a command. Whole commands are served: compile and link in
 * one, objects, shared libraries, precompiled headers, -E, and commands that only print (--version,
 * -v, -dumpversion). cc_options.c has the table of options, and the effect of each on the key. A
 * command with an option that is not in the table runs and is not kept. The files that are read are
 * traced. commands/tool.c and run_cached.c call cc_plan.
 *
 * Places. Checkouts, homes and temporary folders differ. Roots (tool.h) are the one folder of all sources, the
 * working folder, the folder in which both lie, and a temporary folder of -include, if arguments name them. PyTensor
 * compiles where its user works, and names no file there: that folder is a root too. A result in which a root
 * shows, or that a text may have computed from its name (root_names.c), is kept for its own folder. So are all
 * results with -g, and with WARM_TOOL_EXACT=1. But generated sources have roots under -g: the debug information
 * then names the folder where the result was first compiled, and a debugger finds one of several equal copies there.
 *
 * Folders to search that lie elsewhere are roots, too, whose spelling does not count (tool.h). If it shows, it counts, and the
 * other roots do not. For generated sources environments of Python are roots instead, wherever they lead, so that an equal one
 * in another folder hits: the compiler replaces them in names, too.
 *
 * TorchInductor's sources reach __FILE__ by macros for messages, PyTensor's by assert. GCC gets -fmacro-prefix-map=ROOT/=
 * for each root of them, on every miss: messages then name "cabc.main.cpp", without its folder. The
 * option covers __FILE__, __BASE_FILE__, __builtin_FILE and source_location, before any text can
 * compute with them. A root that shows otherwise is found in the bytes, and the command runs as it
 * was written (spelling.c). Other sources, which may open files beside them by __FILE__, keep it.
 * A preprocessed text is packed instead (preprocessed.h).
 * Clang keeps it: its __PRETTY_FUNCTION__ names files, and the option does not cover that.
 *
 * A folder that the command itself replaces in names is the only root, and may have -g (user_map.h).
 *
 * The compiler gets most sources in one spelling (spelling.c).
 *
 * The working folder is in the key if debug information or an argument names it. A file of
 * dependencies is written anew for the roots of each job (dependencies.h). If the
 * folder shows without that (.loc in assembler), the result is kept for that folder alone.
 *
 * Thread: main; no state.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tool/cc_options.h"
#include "client/tool/dependencies.h"
#include "client/tool/file_state.h"
#include "client/tool/pch.h"
#include "client/tool/tool.h"
#include "client/tool/unity.h"
#include "client/tool/user_map.h"
#include "keygen/cuda/cuda.h"
#include "keygen/domains.h"

#define SOURCE_MAX_BYTES (64u << 20)
#define NOT_KNOWN "warm does not know this option, or a part of it"

/* Variables that count. Source: GCC's manual, "Environment Variables Affecting GCC", clang's, and
 * binutils', and ld.so's. Not TMPDIR, and not PATH or LD_LIBRARY_PATH: programs and libraries that
 * are found on them are inputs. Others show in the trace. */
static const char *const environment[] = {"CPATH",
                                          "C_INCLUDE_PATH",
                                          "CPLUS_INCLUDE_PATH",
                                          "OBJC_INCLUDE_PATH",
                                          "LIBRARY_PATH",
                                          "COMPILER_PATH",
                                          "GCC_EXEC_PREFIX",
                                          "GCC_COMPARE_DEBUG",
                                          "COLLECT_*",
                                          "SOURCE_DATE_EPOCH",
                                          "LD_RUN_PATH",
                                          "LDEMULATION",
                                          "GNUTARGET",
                                          "POSIXLY_CORRECT",
                                          "CLANG_*",
                                          "SDKROOT",
                                          "RC_DEBUG_OPTIONS",
                                          "RC_DEBUG_PREFIX_MAP",
                                          "QA_OVERRIDE_GCC3_OPTIONS",
                                          "GLIBC_TUNABLES", /* the loader chooses variants by it */
                                          "LD_HWCAP_MASK",
                                          "LD_ASSUME_KERNEL",
                                          "LD_ORIGIN_PATH",
                                          NULL};
/* Variables that write files, or change the command line. */
static const char *const refused_environment[] = {
    "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "CCC_OVERRIDE_OPTIONS", "CC_PRINT_OPTIONS",
    "CC_PRINT_HEADERS",    "CC_LOG_DIAGNOSTICS",  "CC_PRINT_PROC_STAT"};

enum field { PROGRAM = 1, ARGUMENT, VALUE, SOURCE, CPU, VARIABLES, FOLDER, OUTPUTS, HOW, REACH };

struct command {
    struct tool_job *job;
    char **args;                            /* those that the compiler gets */
    const char *files[TOOL_SOURCES_MAX];    /* arguments that are no options */
    const char *included[TOOL_SOURCES_MAX]; /* of each: unity_names; NULL: it is another source */
    int at[TOOL_SOURCES_MAX];               /* their indices */
    size_t n_files;
    const char *output, *dependency_file, *include;
    int n_stops;
    bool stops, prints, dependencies, debug, preprocesses, assembles;
    bool tells_folders; /* its output may name absent folders */
    bool header;        /* -x c++-header */
    bool has_language;  /* -x: any file may be a source */
    bool verbose;
    bool splits, lto, seeded;
    bool reads_input; /* the source is standard input */
    bool links;       /* it compiles nothing: all its files are objects and libraries */
    bool shows_names, maps_names;
    bool warns_of_headers; /* -Winvalid-pch: the compiler would warn of a stub */
    bool native;
};

/* ---- the command line ---- */

static int refuse(struct err *e, const char *arg, const char *why)
{
    return err_set(e, WARM_EREFUSED, "%s: %s", arg, why);
}

static int take_language(struct command *c, const char *language, struct err *e)
{
    static const char *const names[] = {
        "c",         "c++",  "c-header",           "c++-header", "cpp-output", "c++-cpp-output",
        "assembler", "none", "assembler-with-cpp", NULL};
    if (!text_is_one_of(language, names))
        return refuse(e, language, "warm does not know this language of -x");
    c->header = strstr(language, "-header") != NULL;
    c->has_language = true;
    return 0;
}

/* Takes the value of -Wp: "-MD,FILE" or "-MMD,FILE", by which Linux names the file of dependencies of each object, or one macro. */
static int take_preprocessor(struct command *c, const char *arg, const char *value, struct err *e)
{
    const char *file = strchr(value, ',');
    if (!file || strchr(file + 1, ',') ||
        (strncmp(value, "-MD,", 4) != 0 && strncmp(value, "-MMD,", 5) != 0))
        return cc_preprocessor_knows(value) ? 0 : refuse(e, arg, NOT_KNOWN);
    c->dependencies = true;
    c->dependency_file = file + 1;
    return 0;
}

/* False for the values of -I and the like that mean another folder, in that of --sysroot, or none: "-I-". */
static bool is_folder(const char *value)
{
    return strcmp(value, "-") != 0 && *value != '=' && *value != '$';
}

static int take_option(struct command *c, const struct cc_option *o, const char *arg,
                       const char *value, struct err *e)
{
    switch (o->rule) {
    case REFUSE: return refuse(e, arg, o->note);
    case OUTPUT: c->output = value; return 0;
    case LANGUAGE: return take_language(c, value, e);
    case STOP:
        c->stops = true;
        c->n_stops++;
        c->preprocesses = c->preprocesses || arg[1] == 'E';
        c->assembles = c->assembles || arg[1] == 'S';
        return 0;
    case PRINT: c->stops = c->prints = true; return 0;
    case VERBOSE: c->tells_folders = c->verbose = true; return 0;
    case DEPENDENCIES: c->dependencies = true; return 0;
    case DEPENDENCY_FILE: c->dependency_file = value; return 0;
    case INCLUDE: c->include = value; return 0;
    case SHOWS:
        c->maps_names |= user_map_is_option(arg);
        c->shows_names |= !user_map_is_option(arg);
        return 0;
    case DEBUG: c->debug = true; return 0;
    case NO_DEBUG: c->debug = false; return 0;
    case SPLIT: c->debug = c->splits = true; return 0;
    case LTO: c->lto = c->shows_names = true; return 0;
    case SEED: c->seeded = c->shows_names = true; return 0;
    case STDIN: c->reads_input = c->has_language = true; return 0;
    case LINKER: return cc_linker_knows(value) ? 0 : refuse(e, arg, NOT_KNOWN);
    case PREPROCESSOR: return take_preprocessor(c, arg, value, e);
    case ASSEMBLER: return cc_assembler_knows(value) ? 0 : refuse(e, arg, NOT_KNOWN);
    case FOLDER_TO_SEARCH:
        return is_folder(value) ? 0 : refuse(e, arg, "the value means no folder of that name");
    case PATH:
    case KEEP: return 0;
    }
    return 0;
}

static int take_argument(struct command *c, int *at, struct err *e)
{
    const char *arg = c->job->argv[*at];
    if (arg[0] != '-' && arg[0] != '@') {
        if (c->n_files == TOOL_SOURCES_MAX)
            return refuse(e, arg, "one of more than 64 input files of the command");
        c->at[c->n_files] = *at;
        c->files[c->n_files++] = arg;
        return 0;
    }
    if (strstr(arg, "native"))
        c->native = true;
    c->warns_of_headers |= strcmp(arg, "-Winvalid-pch") == 0;
    if (strstr(arg, "missing-include-dirs"))
        c->tells_folders = true;
    const struct cc_option *o = cc_option_find(arg);
    if (!o)
        return refuse(e, arg, NOT_KNOWN);
    if (strstr(arg, "record-gcc-switches") && !tool_is_gcc(c->job))
        return refuse(e, arg, "Clang writes the whole command line into the result");
    const char *value = arg + strlen(o->name);
    if (o->form == SEPARATE || (o->form == EITHER && *value == '\0'))
        value = c->job->argv[++*at];
    return value ? take_option(c, o, arg, value, e)
                 : refuse(e, arg, "the value of the option is missing");
}

/* ---- outputs ---- */

static const char *extension(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot ? dot : "";
}

/* True for texts that are compiled: their content is a part of the key. */
static bool is_source(const char *path)
{
    static const char *const names[] = {".c",  ".cc", ".cpp", ".cxx", ".c++", ".C", ".i",
                                        ".ii", ".h",  ".hh",  ".hpp", ".hxx", ".H", ".s",
                                        ".S",  ".cp", ".CPP", ".tcc", NULL};
    return text_is_one_of(extension(path), names);
}

/* True for files that no preprocessor reads. Of others, such as .m and .cl, Clang knows more than warm. */
static bool has_no_macros(const char *path)
{
    static const char *const names[] = {".s", ".o", ".a", ".so", NULL};
    return text_is_one_of(extension(path), names);
}

/* True for files that are linked as they are. */
static bool is_linked(const char *path)
{
    static const char *const names[] = {".o", ".a", ".so", NULL};
    return text_is_one_of(extension(path), names);
}

static bool is_header_name(const char *path)
{
    static const char *const names[] = {".h", ".hh", ".hpp", ".hxx", ".H", ".tcc", NULL};
    return text_is_one_of(extension(path), names);
}

/* Returns the name of an output: "b.o" for "a/b.cpp" and ".o", in the working folder if `here`. */
static char *derived(struct command *c, const char *path, const char *suffix, bool here)
{
    char *text = NULL;
    const char *slash = strrchr(path, '/'), *from = here && slash ? slash + 1 : path;
    int len = (int)(strlen(from) - strlen(extension(from)));
    if (asprintf(&text, "%.*s%s", len, from, suffix) < 0)
        text = NULL;
    return tool_job_keep(c->job, text);
}

static int add_objects(struct command *c, const char *suffix, struct err *e)
{
    int code = 0;
    for (size_t i = 0; !code && i < c->n_files; i++)
        if (is_source(c->files[i]))
            code = tool_add_output(c->job, derived(c, c->files[i], suffix, true), e);
    return code;
}

static int add_dependencies(struct command *c, struct err *e)
{
    if (!c->dependency_file && (!c->output || !c->stops))
        return refuse(e, "-MD",
                      "the compiler chooses the name of the dependency file: name it with -MF");
    const char *path = c->dependency_file ? c->dependency_file : derived(c, c->output, ".d", false);
    if (path && strcmp(path, "-") == 0)
        return refuse(e, "-MF -", "it prints the dependencies");
    c->job->dependencies = path;
    return tool_add_output(c->job, path, e);
}

/* True in the folder where TorchInductor makes precompiled headers for itself. It never says -Winvalid-pch.
 * Another header may have users outside of warm, whose compiler would warn of a stub. */
static bool is_inductors(const char *path)
{
    const char *cache = strstr(path, "/torchinductor_");
    return cache && strstr(cache, "/precompiled_headers/");
}

static int add_header_output(struct command *c, struct err *e)
{
    char *text = NULL;
    if (!c->output && asprintf(&text, "%s%s", c->files[0], PCH_SUFFIX) < 0)
        text = NULL;
    const char *output = c->output ? c->output : tool_job_keep(c->job, text);
    size_t len = output ? strlen(output) : 0;
    if (len < 4 || strcmp(output + len - 4, PCH_SUFFIX) != 0)
        return refuse(e, c->files[0],
                      "the name of the precompiled header does not end in " PCH_SUFFIX);
    if (c->warns_of_headers)
        return refuse(e, "-Winvalid-pch",
                      "it needs a real precompiled header, and a hit leaves a stub");
    if (!c->job->header && !is_inductors(output))
        return refuse(
            e, c->files[0],
            "a hit leaves a stub of a precompiled header, which only TorchInductor can use");
    c->job->lazy = true;
    return tool_add_output(c->job, output, e);
}

/* True if the result is printed. GCC's assembler and linker take "-" for the name of a file. */
static bool to_standard_output(const struct command *c)
{
    return c->output && strcmp(c->output, "-") == 0 &&
           (c->preprocesses || c->assembles || !tool_is_gcc(c->job));
}

static int add_outputs(struct command *c, struct err *e)
{
    int code = c->dependencies ? add_dependencies(c, e) : 0;
    if (code || (c->n_files == 0 && !c->reads_input))
        return code;
    if (c->lto && c->stops && !c->preprocesses && !c->seeded && tool_is_gcc(c->job))
        return refuse(e, "-flto",
                      "GCC puts random numbers into names of the object: add -frandom-seed");
    if (c->reads_input && (c->n_files || (!c->output && !c->preprocesses && !c->prints)))
        return refuse(e, "-", "the source is standard input: name the output, and no other source");
    bool makes_header = c->header || (!c->stops && c->n_files && is_header_name(c->files[0]));
    if (makes_header && !c->preprocesses && !c->prints && !c->assembles)
        return c->n_files == 1 && !c->dependencies ? add_header_output(c, e)
                                                   : refuse(e, c->n_files ? c->files[0] : "-",
                                                            "the command makes several precompiled "
                                                            "headers, or a dependency file of one");
    if (c->output && c->prints)
        return refuse(e, "-o", "it names a file for a command that only prints");
    if (c->splits && (!c->stops || !c->output || c->n_files != 1))
        return refuse(e, "-gsplit-dwarf",
                      "it also writes a file that has no name here: use -c and -o");
    if (c->splits && !c->preprocesses && !c->assembles) {
        c->job->reads_back = true; /* objcopy takes one from the other */
        code = tool_add_output(c->job, derived(c, c->output, ".dwo", false), e);
    }
    if (c->output)
        return code || to_standard_output(c) ? code : tool_add_output(c->job, c->output, e);
    if (c->preprocesses || c->prints)
        return 0;
    return c->stops ? add_objects(c, c->assembles ? ".s" : ".o", e)
                    : tool_add_output(c->job, "a.out", e);
}

/* ---- roots ---- */

/* True for files that TorchInductor generates in its cache folder, and PyTorch (load_inline), PyTensor, FlashInfer or
 * TVM FFI partly from a user's code. In the latter, only __FILE__ from the user's own hand must be the
 * whole name. */
static bool is_generated(const char *path, bool names_show)
{
    return strstr(path, "/torchinductor_") || tool_is_in(path, "TORCHINDUCTOR_CACHE_DIR") ||
           (!names_show && (tool_is_of_extension(path) || tool_is_of_pytensor(path) ||
                            tool_is_of_jit(path) || tool_is_of_keops(path)));
}

/* Returns the next folder to search from argument *at on, and moves *at behind it. False at the end. */
static bool next_folder(const struct command *c, int *at, struct tool_folder *out)
{
    while (*at < c->job->argc) {
        const char *arg = c->job->argv[(*at)++];
        const struct cc_option *o = arg[0] == '-' ? cc_option_find(arg) : NULL;
        if (!o || (o->form != SEPARATE && o->form != EITHER))
            continue;
        const char *value = arg + strlen(o->name);
        value = *value ? value : c->job->argv[(*at)++];
        if (o->rule != FOLDER_TO_SEARCH)
            continue;
        *out = (struct tool_folder){{value, strlen(value)},
                                    strcmp(o->name, "-I") != 0 && strcmp(o->name, "-iquote") != 0 &&
                                        tool_is_gcc(c->job)};
        return true;
    }
    return false;
}

/* Returns the length of a folder of pip's for one build, in which a path lies; 0: it lies in none. */
static size_t pip_len(const char *path) { return tool_is_temporary(path) ? tool_pip_len(path) : 0; }

/* True if folders of pip's for one build count by their places alone: nobody finds a file there by debug information, as the
 * name is random and pip removes the folder. */
static bool is_of_pip(const struct command *c)
{
    struct tool_folder f;
    bool names = pip_len(c->job->cwd) > 0;
    for (int at = 1; c->debug && !names && next_folder(c, &at, &f);)
        names = pip_len(f.path.data) > 0;
    return names && c->job->counts == COUNTS_NO_PLACE && !c->preprocesses && !c->assembles &&
           (c->debug || c->links);
}

static bool takes_roots(const struct command *c)
{
    bool hides = !c->shows_names && (!c->debug || is_of_pip(c));
    return !c->job->exact && !c->prints && c->n_files &&
           (c->preprocesses || hides || is_generated(c->files[0], false));
}

/* Returns the length of the first file's folder, if all others lie in or below it, too; else 0. */
static size_t common_folder(const struct command *c)
{
    const char *slash = c->n_files && c->files[0][0] == '/' ? strrchr(c->files[0], '/') : NULL;
    size_t len = slash ? (size_t)(slash - c->files[0]) : 0;
    for (size_t i = 1; len && i < c->n_files; i++)
        if (strncmp(c->files[i], c->files[0], len + 1) != 0)
            return 0;
    return len;
}

/* Returns the rest of the working folder behind what an option of a link replaces in names: a link has no other use for the
 * option, unless it compiles LTO IR. NULL for other arguments. */
static const char *mapped_rest(const struct command *c, const char *arg)
{
    const char *value = c->links && user_map_is_option(arg) ? strchr(arg, '=') + 1 : NULL;
    size_t len = value ? strcspn(value, "=") : 0;
    bool is = len > 1 && value[len] == '=' && strncmp(value, c->job->cwd, len) == 0 &&
              strchr("/", c->job->cwd[len]);
    return is ? c->job->cwd + len : NULL;
}

/* True if an argument that counts as it is written, or a variable, names a root. */
static bool spells_root(const struct command *c)
{
    const struct tool_job *job = c->job;
    for (int i = 1; i < job->argc; i++) {
        const struct cc_option *o = cc_option_find(job->argv[i]);
        bool valued = o && (o->form == SEPARATE || o->form == EITHER);
        bool is_path = o && (o->rule == PATH || o->rule == FOLDER_TO_SEARCH || o->rule == INCLUDE ||
                             o->rule == OUTPUT || o->rule == DEPENDENCY_FILE);
        if (job->argv[i][0] != '-')
            continue;
        if (valued && job->argv[i][strlen(o->name)] == '\0' && i + 1 < job->argc)
            i++;
        if (!(valued && is_path) && !(job->user_maps && user_map_is_option(job->argv[i])) &&
            !mapped_rest(c, job->argv[i]) &&
            tool_names_root(job, job->argv[i], strlen(job->argv[i])))
            return true;
    }
    return tool_environment_names_root(job, environment);
}

/* True if an argument but -o names a place below the working folder: the result may name it too. */
static bool spells_folder(const struct command *c)
{
    for (int i = 1; i < c->job->argc; i++) {
        if (strcmp(c->args[i], "-o") == 0)
            i++;
        else if (strncmp(c->args[i], "-o", 2) != 0 && strstr(c->args[i], c->job->cwd) &&
                 !mapped_rest(c, c->args[i]))
            return true;
    }
    return false;
}

/* True if GCC may name a header of a root by another name than that in the root. */
static bool may_shorten(const struct command *c)
{
    struct tool_folder f;
    for (int at = 1; next_folder(c, &at, &f);)
        if (f.is_system && tool_may_shorten(c->job, f.path))
            return true;
    return false;
}

/* True if -MT gives a target in the root, which gets no escapes. */
static bool is_target_in(const struct command *c, const char *root)
{
    for (int i = 1; i < c->job->argc; i++)
        if (strncmp(c->job->argv[i], "-MT", 3) == 0 &&
            (strstr(c->job->argv[i], root) ||
             (i + 1 < c->job->argc && strstr(c->job->argv[i + 1], root))))
            return true;
    return false;
}

/* True if a file of dependencies names files of the roots in each folder alike. */
static bool depends_alike(const struct command *c)
{
    const struct tool_job *job = c->job;
    for (size_t i = 0; i < job->n_roots; i++)
        if (!dependencies_can_name(job->roots[i], false) &&
            !(tool_is_gcc(job) && dependencies_can_name(job->roots[i], true) &&
              !is_target_in(c, job->roots[i])))
            return false;
    return !may_shorten(c);
}

/* True if a source spells the folder, as a comment of TorchInductor does for a line of a package. */
static bool is_spelled_in_source(const struct command *c, const char *folder)
{
    bool is = false;
    for (size_t i = 0; !is && i < c->n_files; i++) {
        uint8_t *data = NULL;
        size_t len = 0;
        if (is_source(c->files[i]) &&
            tool_read_file(c->files[i], SOURCE_MAX_BYTES, &data, &len, NULL))
            return true;
        is = len && memmem(data, len, folder, strlen(folder));
        free(data);
    }
    return is;
}

/* Adds the folders to search as roots, if they may show where a check finds them. The compiler can replace those of
 * Python's environments. */
static bool add_folders(struct command *c, bool maps)
{
    struct tool_job *job = c->job;
    struct tool_folder f;
    const char *rest;
    bool ok = true;
    for (int at = 1; ok && next_folder(c, &at, &f);) {
        size_t n = job->n_roots;
        if (maps || tool_root_of(job, f.path.data, &rest) < 0)
            ok = tool_add_python(job, f.path.data, f.path.len);
        if (ok && !maps)
            tool_add_folder(job, f.path.data, f.path.len);
        if (maps && job->n_roots > n && is_spelled_in_source(c, job->roots[n]))
            tool_drop_root(job);
    }
    return ok;
}

/* Adds the folders of pip that the command names, and its working folder. */
static bool add_pip(struct command *c)
{
    struct tool_job *job = c->job;
    struct tool_folder f;
    size_t len = pip_len(job->cwd);
    bool ok = !len || tool_add_root(job, job->cwd, len);
    for (int at = 1; ok && next_folder(c, &at, &f);)
        if (pip_len(f.path.data))
            ok = tool_add_root(job, f.path.data, pip_len(f.path.data));
    for (size_t i = 0; ok && i < c->n_files; i++)
        if (pip_len(c->files[i]))
            ok = tool_add_root(job, c->files[i], pip_len(c->files[i]));
    return ok;
}

/* Returns the next name that a source of a unity build includes, from file *at on and behind `name`. NULL at the end. */
static const char *next_included(const struct command *c, size_t *at, const char *name)
{
    name = name ? name + strlen(name) + 1 : NULL;
    for (; *at < c->n_files; (*at)++, name = NULL) {
        name = name ? name : c->included[*at];
        if (name && *name)
            return name;
    }
    return NULL;
}

/* Adds the places of the command, and the folders that it searches. */
static bool add_places(struct command *c, size_t len, bool maps)
{
    const char *cwd = c->job->cwd;
    const char *slash = c->include ? strrchr(c->include, '/') : NULL;
    bool ok = tool_add_places(c->job, c->files[0], len);
    if (slash && slash > c->include && tool_is_temporary(c->include))
        ok = ok && tool_add_root(c->job, c->include, (size_t)(slash - c->include));
    if ((len && tool_is_temporary(c->files[0]) && tool_is_temporary(cwd) &&
         c->job->counts < COUNTS_SOURCE) ||
        (tool_is_of_pytensor(c->files[0]) && !c->job->in_top && !spells_folder(c)))
        ok = ok && tool_add_root(c->job, cwd, strlen(cwd));
    if (c->job->counts == COUNTS_NO_PLACE && (maps || !c->job->lazy))
        ok = ok && add_folders(c, maps);
    const char *name = NULL;
    for (size_t at = 0; c->job->counts == COUNTS_NO_PLACE && (name = next_included(c, &at, name));)
        tool_add_folder(c->job, name, tool_folder_len(name));
    return ok;
}

/* Adds the roots. A root must not be named by anything that counts as it is written: there it
 * means the one folder. `maps`: the compiler replaces them in names. */
static bool add_roots(struct command *c, size_t len, bool maps)
{
    bool of_pip = is_of_pip(c) && !maps;
    bool ok = of_pip ? add_pip(c) : add_places(c, len, maps);
    while (c->job->n_roots && (spells_root(c) || (c->dependencies && !depends_alike(c)) ||
                               ((c->preprocesses || c->assembles) && may_shorten(c))))
        tool_drop_root(c->job);
    c->job->debug_shows = (c->debug || of_pip) && c->job->n_roots;
    return ok;
}

/* ---- spelling ---- */

/* True if roots hide the name of the one temporary folder of all sources better. It is then not the working
 * folder, or arguments other than the sources and -o name it, too. */
static bool is_left_to_roots(const struct command *c)
{
    bool is_temporary = c->n_files && tool_is_temporary(c->files[0]);
    size_t len = is_temporary ? common_folder(c) : 0, file = 0;
    char *spelled = len ? spelling_of(c->job, c->files[0]) : NULL;
    bool is_here = spelled && !strchr(spelled, '/');
    free(spelled);
    if (len && !is_here)
        return true;
    for (int i = 1; len && i < c->job->argc; i++) {
        const char *arg = c->job->argv[i];
        bool is_file = file < c->n_files && c->at[file] == i;
        file += is_file;
        if (!is_file && strncmp(arg, "-o", 2) != 0 && strcmp(c->job->argv[i - 1], "-o") != 0 &&
            memmem(arg, strlen(arg), c->files[0], len))
            return true;
    }
    return false;
}

/* True for a plain compile of C or C++. */
static bool is_plain(const struct command *c)
{
    static const char *const names[] = {".c", ".cc", ".cpp", ".cxx", ".c++",
                                        ".C", ".cp", ".CPP", NULL};
    for (size_t i = 0; i < c->n_files; i++)
        if (is_source(c->files[i]) && !text_is_one_of(extension(c->files[i]), names))
            return false;
    return !c->shows_names && !c->prints && !c->preprocesses && !c->assembles && !c->has_language &&
           !c->tells_folders && !c->lto;
}

/* True if only texts, messages and bytes can tell how the sources are spelled. */
static bool hides_spelling(const struct command *c)
{
    return is_plain(c) && c->job->counts < COUNTS_SOURCE && !c->job->loud && !c->debug &&
           !c->dependencies;
}

/* Takes the sources in their one spelling, in the key and in the compiler's arguments. */
static int spell(struct command *c, struct err *e)
{
    struct tool_job *job = c->job;
    char *spelled[TOOL_SOURCES_MAX] = {0};
    bool differs = false;
    if (!hides_spelling(c) || is_left_to_roots(c))
        return 0;
    for (size_t i = 0; i < c->n_files; i++) {
        char *text = is_source(c->files[i]) ? spelling_of(job, c->files[i]) : NULL;
        if (text && !(spelled[i] = tool_job_keep(job, text)))
            return refuse(e, c->files[i], "no memory, or too many input files in one command");
        differs |= spelled[i] && strcmp(spelled[i], c->files[i]) != 0;
    }
    if (differs && !(job->given = calloc((size_t)job->argc + 1, sizeof *job->given)))
        return err_set(e, WARM_ENOMEM, "no memory for arguments");
    if (differs)
        memcpy(job->given, job->argv, (size_t)job->argc * sizeof *job->given);
    for (size_t i = 0; i < c->n_files; i++) {
        if (!spelled[i])
            continue;
        if (differs)
            job->given[c->at[i]] = spelled[i];
        job->spelled[job->n_spelled++] = job->sources[i] = c->files[i] = spelled[i];
    }
    c->args = differs ? job->given : job->argv;
    return 0;
}

/* ---- names without roots ---- */

/* True if the compiler can replace the roots that the command will have. The option ends a name at
 * the first '='. */
static bool can_map_roots(const struct command *c, bool names_show)
{
    const struct tool_job *job = c->job;
    return takes_roots(c) && job->counts < COUNTS_SOURCE && c->n_files &&
           is_generated(c->files[0], names_show) && !c->preprocesses && !c->assembles &&
           tool_is_gcc(job) && !strchr(c->files[0], '=') && !strchr(job->cwd, '=') &&
           !(c->include && strchr(c->include, '='));
}

/* True if GCC names each header of a system's folder by the name that the command has for that. */
static bool has_plain_systems(const struct command *c)
{
    char folder[PATH_MAX], real[PATH_MAX];
    struct tool_folder f;
    for (int at = 1; next_folder(c, &at, &f);) {
        if (!f.is_system)
            continue;
        if (f.path.len >= sizeof folder)
            return false;
        memcpy(folder, f.path.data, f.path.len);
        folder[f.path.len] = '\0';
        if (realpath(folder, real) && strcmp(real, folder) != 0)
            return false;
    }
    return true;
}

/* Adds the folder that the command's own option replaces in names as the only root. False if there is none, or it may show
 * in another way. */
static bool takes_user_map(struct command *c)
{
    struct tool_job *job = c->job;
    bool ok = c->maps_names && job->counts == COUNTS_NO_PLACE && tool_is_gcc(job) && is_plain(c) &&
              c->stops && !c->splits && !c->header && c->n_files == 1 && has_plain_systems(c) &&
              user_map_add_root(job, c->files[0], c->debug);
    if (ok && (spells_root(c) || (c->dependencies && !depends_alike(c)))) {
        tool_drop_root(job);
        ok = job->maps_roots = job->user_maps = false;
    }
    return ok;
}

/* ---- the key ---- */

/* True for an absent folder to search: it has no effect, and does not count. */
static bool is_missing_folder(const struct command *c, const struct cc_option *s, const char *value)
{
    struct stat st;
    return s->rule == FOLDER_TO_SEARCH && !c->tells_folders && stat(value, &st) < 0 &&
           errno == ENOENT;
}

/* Adds an option that replaces names, if the folder that it replaces does not count. */
static bool add_map(struct command *c, struct key_builder *key, const char *arg)
{
    const char *rest = mapped_rest(c, arg);
    if (!rest)
        return user_map_key(c->job, key, ARGUMENT, arg);
    key_add(key, ARGUMENT, arg, strcspn(arg, "="));
    key_add_text(key, ARGUMENT, rest);
    key_add_text(key, ARGUMENT, strchr(strchr(arg, '=') + 1, '='));
    return true;
}

/* Adds the arguments in their order, without -o and one -c, -S or -E, which may stand anywhere. */
static void add_arguments(struct command *c, struct key_builder *key)
{
    key_add_u64(key, HOW, c->output != NULL);
    key_add_u64(key, HOW,
                (uint64_t)c->stops | (uint64_t)c->preprocesses << 1 | (uint64_t)c->assembles << 2 |
                    (uint64_t)c->n_stops << 3);
    key_add_u64(key, HOW,
                (uint64_t)c->job->counts << 4 | (uint64_t)(c->job->n_spelled > 0) << 1 |
                    (uint64_t)c->job->maps_roots << 2 |
                    (uint64_t)(c->preprocesses && c->job->n_roots) << 3); /* packed: result.h */
    for (int i = 1; i < c->job->argc; i++) {
        const char *arg = c->args[i];
        const struct cc_option *s = arg[0] == '-' ? cc_option_find(arg) : NULL;
        bool valued = s && (s->form == SEPARATE || s->form == EITHER);
        if (arg[0] != '-') {
            tool_key_path(c->job, key, ARGUMENT, arg);
            tool_key_reach(c->job, key, REACH, arg, tool_folder_len(arg));
        } else if (!valued) {
            if ((!s || s->rule != STOP || c->n_stops > 1) && !add_map(c, key, arg))
                key_add_text(key, ARGUMENT, arg);
        } else {
            const char *value = arg + strlen(s->name);
            value = *value ? value : c->args[++i];
            if (s->rule == OUTPUT || is_missing_folder(c, s, value))
                continue;
            key_add_text(key, ARGUMENT, s->name);
            if (s->rule == PATH || s->rule == FOLDER_TO_SEARCH || s->rule == INCLUDE) {
                bool is_target = strncmp(s->name, "-M", 2) == 0;
                (is_target ? tool_key_output : tool_key_path)(c->job, key, VALUE, value);
                tool_key_reach(c->job, key, REACH, value,
                               s->rule == FOLDER_TO_SEARCH ? strlen(value)
                                                           : tool_folder_len(value));
            } else if (s->rule != OUTPUT && s->rule != DEPENDENCY_FILE) {
                key_add_text(key, VALUE, value);
            }
        }
    }
}

/* Adds which folders to search are one, and the like. */
static int add_searched(struct command *c, struct key_builder *key, struct err *e)
{
    struct tool_folder *folders = calloc((size_t)c->job->argc, sizeof *folders);
    size_t n = 0;
    if (!folders)
        return err_set(e, WARM_ENOMEM, "no memory for folders");
    for (int at = 1; next_folder(c, &at, &folders[n]);)
        n++;
    int code = tool_key_folders(c->job, key, REACH, folders, n, e);
    free(folders);
    return code;
}

static int add_sources(struct command *c, struct key_builder *key, bool *names_show, struct err *e)
{
    for (size_t i = 0; i < c->n_files; i++) {
        uint8_t *data;
        size_t len;
        c->job->sources[c->job->n_sources++] = c->files[i];
        c->job->expands_macros |= !has_no_macros(c->files[i]);
        if (!is_source(c->files[i]))
            continue;
        int code = tool_read_file(c->files[i], SOURCE_MAX_BYTES, &data, &len, e);
        if (code)
            return code;
        size_t all = len;
        c->included[i] = tool_job_keep(c->job, unity_names(c->files[i], data, len));
        bool shows = c->preprocesses || (c->debug && !tool_is_gcc(c->job));
        if (!shows) /* -C, and Clang's debug information has an MD5 of the text */
            len = tool_hide_includes(c->files[i], data, len);
        key_add(key, SOURCE, data, len);
        *names_show = *names_show || root_names_may_show(c->job, c->files[i], data, len);
        free(data);
        if (len != all && unity_is_name(c->files[i]) && !c->included[i])
            return refuse(e, c->files[i], "no memory for the names that it includes");
    }
    return 0;
}

/* Adds the working folder, if it can show in the result. */
static void add_place(struct command *c, struct key_builder *key)
{
    struct tool_job *job = c->job;
    const char *pwd = getenv("PWD"), *rest;
    int root = tool_root_of(job, job->cwd, &rest);
    tool_key_messages(job, key, HOW);
    tool_key_roots(job, key, HOW);
    key_add_u64(key, FOLDER, (uint64_t)(root + 1));
    if (root >= 0 && (job->user_maps || (job->debug_shows && c->debug)))
        key_add_text(key, FOLDER, rest); /* debug information names it */
    bool hides = c->lto && (c->stops || !tool_is_of_keops(c->files[0])); /* in packed sections */
    job->keys_cwd =
        root < 0 && (job->exact || c->debug || hides || job->in_top || spells_folder(c));
    if (job->keys_cwd)
        key_add_text(key, FOLDER, job->cwd), key_add_text(key, FOLDER, pwd ? pwd : "");
    for (size_t i = 0; (c->dependencies || c->header || c->splits) && i < c->job->n_outputs; i++)
        tool_key_output(c->job, key, OUTPUTS, c->job->outputs[i]);
}

/* Adds standard input, which the compiler then reads again. */
static int add_input(struct key_builder *key, struct err *e)
{
    uint8_t *data;
    size_t len;
    int code = tool_read_input(SOURCE_MAX_BYTES, &data, &len, e);
    if (code)
        return code;
    key_add(key, SOURCE, data, len);
    free(data);
    return 0;
}

static int make_key(struct command *c, struct err *e)
{
    struct key_builder sources, key;
    struct key sources_key;
    struct proof sources_proof;
    bool names_show = false;
    c->job->expands_macros = c->has_language;
    key_begin(&sources, DOMAIN_CC_SOURCES);
    int code = add_sources(c, &sources, &names_show, e);
    if (!code && c->reads_input)
        code = add_input(&sources, e);
    key_end(&sources, &sources_key, &sources_proof);
    bool maps = can_map_roots(
        c, names_show); /* by the user's own name for the source, as in a larger key */
    bool user_maps = !code && !maps && takes_user_map(c);
    c->shows_names |= c->maps_names && !user_maps;
    if (!code && !names_show && !maps && !user_maps)
        code = spell(c, e);
    size_t folder = common_folder(c);
    bool rooted =
        takes_roots(c) && !user_maps && (maps || c->preprocesses || !names_show || !folder);
    if (code || (rooted && !add_roots(c, folder, maps)))
        return code ? code : refuse(e, c->files[0], "the command names too many temporary folders");
    if (c->job->n_roots && maps && (code = tool_map_roots(c->job, NULL, e)))
        return code;
    key_begin(&key, DOMAIN_CC);
    tool_key_program(c->job, &key, PROGRAM);
    if (c->job->loud)
        key_add_text(&key, PROGRAM, c->job->argv[0]);
    add_place(c, &key);
    add_arguments(c, &key);
    if ((code = add_searched(c, &key, e)))
        return code;
    key_add(&key, SOURCE, sources_proof.bytes, sizeof sources_proof.bytes);
    const char *name = NULL;
    for (size_t at = 0; (name = next_included(c, &at, name));) {
        tool_key_path(c->job, &key, SOURCE, name);
        tool_key_reach(c->job, &key, REACH, name, tool_folder_len(name));
    }
    if (c->native && !cpu_add(&key, CPU))
        return refuse(e, "native",
                      "warm cannot identify this kind of processor: name one in -march and -mtune");
    tool_key_preloads(&key, VARIABLES);
    key_add_u64(&key, VARIABLES, 0);
    if (!tool_key_environment(&key, VARIABLES, environment))
        return refuse(e, "the environment", "more than 256 variables can change the result");
    tool_key_end(c->job, &key);
    return 0;
}

static int add_header(struct command *c, char *path, struct err *e)
{
    if (!tool_job_keep(c->job, path) || c->job->n_headers == TOOL_HEADERS_MAX)
        return err_set(e, WARM_EREFUSED, "the command can use more than %d precompiled headers",
                       TOOL_HEADERS_MAX);
    c->job->headers[c->job->n_headers++] = path;
    return 0;
}

/* Adds the stubs in a folder. The compiler may find them, and would warn that they are no headers. */
static int add_stubs(struct command *c, const char *folder, size_t len, struct err *e)
{
    char *path = NULL;
    int code = 0;
    DIR *d = asprintf(&path, "%.*s", (int)len, folder) >= 0 ? opendir(path) : NULL;
    free(path);
    for (struct dirent *entry; !code && d && (entry = readdir(d));) {
        if (strcmp(extension(entry->d_name), PCH_SUFFIX) != 0)
            continue;
        if (asprintf(&path, "%.*s/%s", (int)len, folder, entry->d_name) < 0)
            code = err_set(e, WARM_ENOMEM, "no memory");
        else if (pch_is_stub(path))
            code = add_header(c, path, e);
        else
            free(path);
    }
    if (d)
        closedir(d);
    return code;
}

/* Adds precompiled headers that this run would use, or warn of. */
static int add_headers(struct command *c, struct err *e)
{
    char *text = NULL;
    int code = 0;
    if (c->include && asprintf(&text, "%s%s", c->include, PCH_SUFFIX) < 0)
        return err_set(e, WARM_ENOMEM, "no memory");
    if (c->include)
        code = add_header(c, text, e);
    for (size_t i = 0; !code && c->warns_of_headers && i < c->n_files; i++) {
        const char *slash = strrchr(c->files[i], '/');
        code =
            add_stubs(c, slash ? c->files[i] : ".", slash ? (size_t)(slash - c->files[i]) : 1, e);
    }
    for (int i = 1; !code && c->warns_of_headers && i < c->job->argc; i++) {
        const struct cc_option *o = cc_option_find(c->job->argv[i]);
        if (c->job->argv[i][0] != '-' || !o || o->rule != FOLDER_TO_SEARCH)
            continue;
        const char *value = c->job->argv[i] + strlen(o->name);
        value = *value ? value : c->job->argv[++i];
        code = add_stubs(c, value, strlen(value), e);
    }
    return code;
}

/* Notes a link of compiled files: -g and options that replace names do nothing there, so they bind it to no folder. Not with -gz:
 * it compresses sections, in which result.c would not find a folder's name. */
static void take_link(struct command *c)
{
    c->links = c->n_files && !c->has_language && !c->lto;
    for (size_t i = 0; i < c->n_files; i++)
        c->links &= is_linked(c->files[i]);
    for (int i = 1; i < c->job->argc; i++)
        c->links &= strncmp(c->job->argv[i], "-gz", 3) != 0;
    if (!c->links)
        return;
    c->debug = c->maps_names = false;
    for (int i = 1; i < c->job->argc; i++)
        c->maps_names |= user_map_is_option(c->job->argv[i]) && !mapped_rest(c, c->job->argv[i]);
}

/* True if a source leads to an output: the compiler says so, and makes nothing. */
static bool overwrites_source(const struct tool_job *job)
{
    struct stat source, output;
    for (size_t i = 0; i < job->n_outputs; i++)
        for (size_t k = 0; stat(job->outputs[i], &output) == 0 && k < job->n_sources; k++)
            if (stat(job->sources[k], &source) == 0 && source.st_ino == output.st_ino &&
                source.st_dev == output.st_dev)
                return true;
    return false;
}

int cc_plan(struct tool_job *job, struct warm *w, struct err *e)
{
    assert(job && job->program && job->argc >= 1);
    tool_expand(job, false);
    struct command c = {.job = job, .args = job->argv};
    (void)w;
    job->family = "cc";
    job->traced = true;
    for (size_t i = 0; i < sizeof refused_environment / sizeof refused_environment[0]; i++)
        if (getenv(refused_environment[i]))
            return refuse(e, refused_environment[i],
                          "this variable changes the command, or adds files: unset it");
    int code = 0;
    for (int i = 1; !code && i < job->argc; i++)
        code = take_argument(&c, &i, e);
    job->preprocesses = c.preprocesses;
    if (!code)
        take_link(&c);
    if (!code && c.verbose && (c.n_files || c.reads_input) && !c.preprocesses)
        code = refuse(e, "-v", "it prints the names of temporary files, which differ in each run");
    if (!code)
        code = add_outputs(&c, e);
    if (!code)
        code = make_key(&c, e);
    if (!code && overwrites_source(job))
        code = refuse(e, job->outputs[0], "the output is a source of the command");
    if (!code && !job->lazy)
        code = add_headers(&c, e);
    tool_label(job);
    return code;
}

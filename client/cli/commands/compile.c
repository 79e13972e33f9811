/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - `warm compile`: CUDA C++ through the daemon, like a compiler on the command line. StableHLO
 * goes on to graph_job.c, PTX to ptxas by `warm tool`. main.c calls it.
 *
 * The command line is split in two: our own options, and all others, which go to NVRTC unchanged.
 * For each file: read → warm_compile → log to stderr, output beside its place and renamed. A hit is
 * a handful of system calls, so this file does no work that a hit does not need.
 *
 * Thread: main.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/graph_job.h"
#include "client/cli/json_writer.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "client/cli/run/find_ptxas.h"
#include "client/cli/run/run.h"
#include "keygen/canon/canon.h"
#include "keygen/cuda/options.h"
#include "keygen/quantity.h"

#define PART_LIST(X)                                                                               \
    X(cubin, "cubin")                                                                              \
    X(ltoir, "ltoir")                                                                              \
    X(optixir, "optixir")                                                                          \
    X(ptx, "ptx")

struct compile_run {
    const struct command *self;
    struct remote remote;
    const char **files;
    int n_files;
    const char **options; /* for NVRTC */
    size_t n_options;
    const char **expressions;
    size_t n_expressions;
    char arch_option[sizeof "--gpu-architecture=" + WARM_HARDWARE_MAX];
    const char *arch; /* "sm_90": the value of the last option that names a target */
    const char *output, *name, *compiler;
    bool want_ptx, vjp, recache, no_store, only_if_cached, help;
    const char *optimizer;
    uint32_t *arguments; /* of --wrt */
    size_t n_arguments;
    unsigned flags, timeout_ms;
};

/* ---- the command line ---- */

/* Finds one of our own options: `--name VALUE` or `--name=VALUE`. *out_value is NULL if the value
 * is the next argument. */
static const struct cli_option *find_own(const struct cli_option *own, const char *arg,
                                         const char **out_value)
{
    *out_value = NULL;
    for (; own->name; own++) {
        size_t len = strlen(own->name);
        if (own->letter && arg[1] == own->letter && !arg[2])
            return own;
        if (arg[1] != '-' || strncmp(arg + 2, own->name, len) != 0)
            continue;
        if (own->take && arg[2 + len] == '=')
            *out_value = arg + 2 + len + 1;
        if (*out_value || !arg[2 + len])
            return own;
    }
    return NULL;
}

/* Writes "sm_90", the target of this machine's first GPU. False if there is none. A static program cannot load the
 * driver's library; nvidia-smi comes with every driver, and takes tens of milliseconds. */
static bool gpu_target(char *out, size_t cap)
{
    FILE *tool =
        popen("nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader 2>/dev/null", "re");
    unsigned major, minor;
    int n_fields = tool ? fscanf(tool, "%3u.%1u", &major, &minor) : 0;
    if (!tool || pclose(tool) != 0 || n_fields != 2)
        return false;
    snprintf(out, cap, "sm_%u%u", major, minor);
    return true;
}

/* ---- what our own options take: `to` is the run ---- */

/* Takes the value of --arch, such as sm_90; "native" is this machine's GPU. The last --arch counts. Prints what is wrong
 * with it. */
static bool take_arch(const char *arch, void *to)
{
    struct compile_run *run = to;
    assert(run->options && arch); /* it has room for each argument, and one more */
    bool first = run->arch_option[0] == '\0';
    char target[16];
    if (strcmp(arch, "native") == 0) {
        if (!gpu_target(target, sizeof target))
            return cli_usage(run->self,
                             "--arch native: nvidia-smi names no GPU here; name the target, "
                             "like --arch sm_90"),
                   false;
        arch = target;
    }
    int n = snprintf(run->arch_option, sizeof run->arch_option, "--gpu-architecture=%s", arch);
    if (n < 0 || (size_t)n >= sizeof run->arch_option)
        return cli_usage(run->self, "--arch: the name is too long for a target"), false;
    if (first)
        run->options[run->n_options++] = run->arch_option;
    run->arch = run->arch_option + strlen("--gpu-architecture=");
    return true;
}

static bool take_timeout(const char *value, void *to)
{
    struct compile_run *run = to;
    uint64_t ms;
    if (!quantity_span(value, &ms) || ms == 0 || ms > 24u * 3600 * 1000)
        return false;
    run->timeout_ms = (unsigned)ms;
    return true;
}

/* Takes "0,2". */
static bool take_arguments(const char *value, void *to)
{
    struct compile_run *run = to;
    free(run->arguments);
    run->n_arguments = 0;
    run->arguments = calloc(strlen(value) + 1, sizeof *run->arguments);
    for (const char *at = value; run->arguments; at++) {
        char *end;
        unsigned long n = strtoul(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || n > UINT32_MAX || (*end && *end != ','))
            return false;
        run->arguments[run->n_arguments++] = (uint32_t)n;
        at = end;
        if (!*end)
            return true;
    }
    return false;
}

static bool take_expression(const char *value, void *to)
{
    struct compile_run *run = to;
    run->expressions[run->n_expressions++] = value;
    return true;
}

/* Adds an option for NVRTC, and the next argument if that is its value. Returns an exit status. */
static int add_nvrtc(struct compile_run *run, const char *arg, char ***next)
{
    assert(run->options && arg);
    static const char *const arch_names[] = {"-arch", "--gpu-architecture"};
    const char *equals = strchr(arg, '=');
    size_t n_before = run->n_options;
    bool takes_next = options_takes_next(OPTIONS_NVRTC, (struct view){arg, strlen(arg)});
    run->options[run->n_options++] = arg;
    if (takes_next && **next)
        run->options[run->n_options++] = *(*next)++;
    for (size_t k = 0; k < 2; k++) {
        size_t len = strlen(arch_names[k]);
        if (equals && (size_t)(equals - arg) == len && memcmp(arg, arch_names[k], len) == 0)
            run->arch = equals + 1;
        else if (takes_next && strcmp(arg, arch_names[k]) == 0)
            run->arch = run->options[run->n_options - 1];
    }
    if (!run->arch || strcmp(run->arch, "native") != 0)
        return 0;
    run->n_options = n_before; /* NVRTC does not know it */
    return take_arch("native", run) ? 0 : CLI_USAGE;
}

/* Takes one of our own options; its value may be the next argument. Returns an exit status. */
static int add_own(struct compile_run *run, const struct cli_option *own, const char *value,
                   char ***next)
{
    if (!own->take) {
        *(bool *)own->to = true;
        return 0;
    }
    if (!value && !(value = **next))
        return cli_usage(run->self, "option --%s needs a value", own->name);
    *next += value == **next;
    if (own->take(value, own->to))
        return 0;
    return own->what ? cli_usage(run->self, "--%s %s is not %s", own->name, value, own->what)
                     : CLI_USAGE; /* it said so itself */
}
/* Reads the command line, as far as --help. Returns an exit status. */
static int parse_arguments(struct compile_run *run, char **argv)
{
    const struct cli_option own_options[] = {
        {"help", 'h', NULL, &run->help, NULL},
        {"output", 'o', cli_take_text, &run->output, "a path"},
        {"arch", '\0', take_arch, run, NULL},
        {"nvrtc", '\0', cli_take_text, &run->compiler, "a compiler"},
        {"name", '\0', cli_take_text, &run->name, "a name"},
        {"name-expression", '\0', take_expression, run, "an expression"},
        {"ptx", '\0', NULL, &run->want_ptx, NULL},
        {"vjp", '\0', NULL, &run->vjp, NULL},
        {"wrt", '\0', take_arguments, run, "a list of arguments like 0,2"},
        {"optimizer", '\0', cli_take_text, &run->optimizer, "an optimizer"},
        {"timeout", '\0', take_timeout, run, "a span of time like 90s or 5m"},
        {"recache", '\0', NULL, &run->recache, NULL},
        {"no-store", '\0', NULL, &run->no_store, NULL},
        {"only-if-cached", '\0', NULL, &run->only_if_cached, NULL},
        REMOTE_ROWS(run->remote),
        {0}};
    bool only_files = false;
    int status = 0;
    for (char **next = argv + 1; *next && !status && !run->help;) {
        char *arg = *next++;
        const char *value;
        const struct cli_option *own;
        if (only_files || arg[0] != '-' || arg[1] == '\0')
            run->files[run->n_files++] = arg;
        else if (strcmp(arg, "--") == 0)
            only_files = true;
        else if ((own = find_own(own_options, arg, &value)))
            status = add_own(run, own, value, &next);
        else
            status = add_nvrtc(run, arg, &next);
    }
    run->flags = (run->recache ? WARM_RECACHE : 0u) | (run->no_store ? WARM_NO_STORE : 0u) |
                 (run->only_if_cached ? WARM_ONLY_IF_CACHED : 0u);
    return status;
}

/* Sets the GPU's own target if the command line has none. NVRTC's default is PTX for an old GPU. */
static int default_arch(struct compile_run *run)
{
    char target[16];
    if (gpu_target(target, sizeof target))
        return take_arch(target, run) ? 0 : CLI_USAGE;
    return cli_usage(run->self,
                     "no target given, and no GPU to take it from: add --arch sm_90 for a "
                     "cubin of that GPU, or --arch compute_80 for PTX");
}

static int check_arguments(struct compile_run *run)
{
    if (run->n_files == 0)
        return cli_usage(run->self, "no file given");
    if (run->n_files > 1 && (run->output || run->name))
        return cli_usage(run->self, "-o and --name go with one file only");
    if (run->n_files == 1 && strcmp(run->files[0], "-") == 0 && !run->output)
        return cli_usage(run->self, "a source from stdin needs -o");
    return run->arch ? 0 : default_arch(run);
}

/* ---- one file ---- */

/* Returns the requested part of a result, and the ending of its file's name. */
static struct warm_part choose_part(const struct compile_run *run, const struct warm_result *r,
                                    const char **out_ending)
{
    *out_ending = "ptx";
    if (run->want_ptx)
        return r->ptx;
#define X(member, ending)                                                                          \
    if (r->member.len) {                                                                           \
        *out_ending = ending;                                                                      \
        return r->member;                                                                          \
    }
    PART_LIST(X)
#undef X
    return (struct warm_part){NULL, 0};
}

/* Prints the compiler's log, as the compiler prints it. */
static void print_log(const struct compile_run *run, const struct warm_result *r)
{
    const char *log = r->log.data;
    size_t len = r->log.len;
    const char *note = warm_message(run->remote.w);
    while (len && log[len - 1] == '\0')
        len--;
    if (len) {
        fwrite(log, 1, len, stderr);
        if (log[len - 1] != '\n')
            fputc('\n', stderr);
    }
    if (r->status && *note)
        cli_say("%s", note);
}

struct report {
    const char *file, *output;
    size_t bytes;
    double ms;
};

static void print_json(const struct compile_run *run, const struct warm_result *r,
                       const struct report *report)
{
    static const char *const outcomes[] = {"hit", "miss", "coalesced"};
    struct json j = {.out = stdout};
    json_open(&j, '{');
    json_key(&j, "key"), json_text(&j, r->value.key);
    json_key(&j, "outcome"), json_text(&j, outcomes[r->value.outcome]);
    json_key(&j, "ms"), json_f64(&j, (double)(uint64_t)(report->ms * 1000 + 0.5) / 1000);
    json_key(&j, "bytes"), json_u64(&j, report->bytes);
    json_key(&j, "file"), json_text(&j, report->file);
    json_key(&j, "output");
    if (report->output)
        json_text(&j, report->output);
    else
        json_null(&j);
    json_key(&j, "arch"), json_text(&j, run->arch);
    json_key(&j, "compiler");
    if (r->compiler.len)
        json_bytes(&j, r->compiler.data, r->compiler.len);
    else
        json_text(&j, run->compiler ? run->compiler : "default");
    json_key(&j, "status"), json_u64(&j, (uint64_t)r->status);
    json_key(&j, "cost_ms"), json_u64(&j, r->value.cost_ms);
    json_key(&j, "log"), json_bytes(&j, r->log.data ? r->log.data : "", r->log.len);
    json_close(&j, '}');
}

static int write_result(const struct compile_run *run, const struct warm_result *r,
                        struct report *report)
{
    char path[PATH_MAX];
    const char *ending;
    struct warm_part part = choose_part(run, r, &ending);
    if (!part.len) {
        cli_say("%s: the compiler made no %s", report->file, run->want_ptx ? "PTX" : "output");
        return CLI_FINDING;
    }
    if (!run->output && !output_name(report->file, ending, path)) {
        cli_say("%s: the output's name would be too long; give -o", report->file);
        return CLI_USAGE;
    }
    report->output = run->output ? run->output : path;
    report->bytes = part.len;
    int status = output_write(report->output, part.data, part.len);
    if (!status && run->remote.as_json)
        print_json(run, r, report);
    return status;
}

/* Says what a source is that NVRTC cannot compile. */
static void print_kind(const char *file, const struct cli_input *in)
{
    enum canon_kind kind = canon_detect(file, in->data, in->len);
    if (kind != CANON_CUDA && kind != CANON_RAW)
        cli_say("%s is of the kind %s: `warm compile` takes CUDA C++, PTX and "
                "StableHLO",
                file, canon_kind_name(kind));
}

static int compile_source(struct compile_run *run, const char *file, const struct cli_input *in)
{
    bool is_stdin = strcmp(file, "-") == 0;
    struct warm_job job = {.name = run->name  ? run->name
                                   : is_stdin ? "stdin"
                                              : file,
                           .source = in->data,
                           .source_len = in->len,
                           .options = run->options,
                           .n_options = run->n_options,
                           .expressions = run->expressions,
                           .n_expressions = run->n_expressions,
                           .compiler = run->compiler,
                           .timeout_ms = run->timeout_ms,
                           .flags = run->flags};
    struct warm_result result;
    struct report report = {.file = file};
    double began_ms = remote_clock_ms();
    int code = warm_compile(run->remote.w, &job, &result);
    if (code) {
        cli_say("%s: %s", file, warm_message(run->remote.w));
        if (code == WARM_EREFUSED || code == WARM_EINVALID)
            print_kind(file, in);
        return code == WARM_ETIMEOUT ? CLI_FINDING : remote_exit_status(code);
    }
    report.ms = remote_clock_ms() - began_ms;
    progress_end();
    print_log(run, &result);
    if (result.status)
        print_kind(file, in);
    int status = CLI_FINDING;
    if (result.status == 0)
        status = write_result(run, &result, &report);
    else if (run->remote.as_json)
        print_json(run, &result, &report);
    warm_result_free(&result);
    return status;
}

/* ---- PTX ---- */

static void print_assembled(const struct compile_run *run, const char *file, const char *output,
                            const char *ptxas)
{
    struct json j = {.out = stdout};
    json_open(&j, '{');
    json_key(&j, "file"), json_text(&j, file);
    json_key(&j, "output"), json_text(&j, output);
    json_key(&j, "arch"), json_text(&j, run->arch);
    json_key(&j, "compiler"), json_text(&j, ptxas);
    json_close(&j, '}');
}

/* Assembles PTX: `warm tool -- ptxas`, with the options of the command line as they are. */
static int compile_ptx(const struct compile_run *run, const char *file)
{
    static struct run_places places;
    char ptxas[PATH_MAX], path[PATH_MAX], arch[WARM_HARDWARE_MAX + 16];
    char tool[] = "tool", end[] = "--", output_option[] = "-o";
    if (strcmp(file, "-") == 0 || (run->output && strcmp(run->output, "-") == 0))
        return cli_usage(run->self, "PTX is assembled from a file into a file");
    if (!ptxas_find(ptxas)) {
        cli_say(
            "%s is PTX, and no ptxas is on PATH, in CUDA_HOME, in this Python environment or in "
            "/usr/local/cuda: `pip install nvidia-cuda-nvcc`",
            file);
        return CLI_USAGE;
    }
    if (!run->output && !output_name(file, "cubin", path))
        return cli_usage(run->self, "%s: the output's name would be too long; give -o", file);
    if (!run_places_fill(&places, run->remote.socket))
        return CLI_NO_DAEMON;
    const char *output = run->output ? run->output : path;
    snprintf(arch, sizeof arch, "-arch=%s", run->arch);
    char **argv = calloc(run->n_options + 9, sizeof *argv);
    size_t n = 0;
    if (!argv)
        return remote_fail(&run->remote, WARM_ENOMEM);
    argv[n++] = places.exe;
    argv[n++] = tool;
    argv[n++] = end;
    argv[n++] = ptxas;
    argv[n++] = arch;
    for (size_t i = 0; i < run->n_options; i++)
        if (run->options[i] != run->arch_option && !strstr(run->options[i], "arch"))
            argv[n++] = (char *)(uintptr_t)run->options[i];
    argv[n++] = output_option;
    argv[n++] = (char *)(uintptr_t)output;
    argv[n++] = (char *)(uintptr_t)file;
    if (run->remote.socket)
        setenv("WARM_SOCKET", run->remote.socket, 1);
    int status = run_wait(argv);
    free(argv);
    if (status == 0 && run->remote.as_json)
        print_assembled(run, file, output, ptxas);
    return status == 0 ? CLI_OK : CLI_FINDING;
}

static int compile_graph(struct compile_run *run, const char *file, const struct cli_input *in)
{
    if (!run->vjp && (run->arguments || run->optimizer))
        return cli_usage(run->self, "%s goes with --vjp", run->optimizer ? "--optimizer" : "--wrt");
    struct graph_job g = {.w = run->remote.w,
                          .file = file,
                          .output = run->output,
                          .target = run->arch,
                          .vjp = run->vjp,
                          .arguments = run->arguments,
                          .n_arguments = run->n_arguments,
                          .optimizer = run->optimizer,
                          .as_json = run->remote.as_json,
                          .options = run->options,
                          .n_options = run->n_options,
                          .compiler = run->compiler,
                          .timeout_ms = run->timeout_ms,
                          .flags = run->flags};
    return graph_job_compile(&g, in);
}

/* True if a name says that the file is MLIR. */
static bool is_named_mlir(const char *file)
{
    const char *ending = strrchr(file, '.');
    return ending && (strcmp(ending, ".mlir") == 0 || strcmp(ending, ".mlirbc") == 0);
}

static int compile_file(struct compile_run *run, const char *file)
{
    struct cli_input in;
    int error = cli_input_open(&in, file);
    if (error) {
        cli_say("%s: %s", file, cli_input_text(error));
        return CLI_USAGE;
    }
    enum canon_kind kind = canon_detect(file, in.data, in.len);
    int status = CLI_USAGE;
    if (kind == CANON_MLIR || kind == CANON_MLIR_BYTECODE)
        status = compile_graph(run, file, &in);
    else if (is_named_mlir(file))
        cli_say("%s: %s", file, in.len ? "not MLIR text or bytecode" : "it is empty");
    else if (run->vjp)
        status = cli_usage(run->self, "--vjp is for StableHLO, and %s is %s", file,
                           canon_kind_name(kind));
    else if (kind == CANON_PTX)
        status = compile_ptx(run, file);
    else
        status = compile_source(run, file, &in);
    cli_input_close(&in);
    return status;
}

static int compile_files(struct compile_run *run)
{
    int status = remote_open(&run->remote);
    if (status)
        return status;
    for (int i = 0; i < run->n_files; i++) {
        if (run->n_files > 1)
            progress_show("compiling", (uint64_t)i, (uint64_t)run->n_files);
        int one = compile_file(run, run->files[i]);
        status = one > status ? one : status;
    }
    progress_end();
    remote_close(&run->remote);
    return status;
}

static int compile_run(const struct command *self, int argc, char **argv)
{
    /* Each argument goes to at most one of the three lists. */
    const char **lists = calloc((size_t)argc * 3, sizeof *lists);
    if (!lists) {
        cli_say("out of memory");
        return CLI_USAGE;
    }
    struct compile_run run = {
        .self = self, .files = lists, .options = lists + argc, .expressions = lists + 2 * argc};
    int status = parse_arguments(&run, argv);
    if (!status && run.help)
        status = cli_help(self);
    else if (!status && !(status = check_arguments(&run)))
        status = compile_files(&run);
    free(run.arguments);
    free(lists);
    return status;
}

const struct command cmd_compile = {
    .name = "compile",
    .run = compile_run,
    .summary = "Compile CUDA C++, PTX or StableHLO, or take the result from the cache",
    .synopsis = "FILE... [--arch ARCH] [-o OUT] [--json] [NVRTC option]...",
    .help =
        "Compiles each FILE (`-` is stdin) with NVRTC in the daemon, or takes the result of an\n"
        "earlier compile of the same bytes. The compiler's messages go to stderr. Options that\n"
        "are not listed here go to NVRTC as they are; so do -I, -D and -arch=ARCH.\n"
        "Of StableHLO, text or bytecode, it makes a bundle: cubins and the order of their "
        "launches.\n"
        "Of PTX, ptxas makes a cubin, as `warm tool -- ptxas` does; other options go to ptxas.\n\n"
        "      --arch ARCH       target: sm_90 makes a cubin, compute_80 makes PTX, native\n"
        "                        is this machine's GPU (default: native)\n"
        "  -o, --output OUT      the output's file, `-` for stdout (default: FILE with .cubin,\n"
        "                        .ptx, .ltoir or .bundle in the working folder)\n"
        "      --ptx             write the PTX, which NVRTC makes beside the cubin\n"
        "      --vjp             of StableHLO: also gradients, of all f32 arguments\n"
        "      --wrt 0,2         the arguments that have a gradient, by position\n"
        "      --optimizer SPEC  a training step in place of gradients: adam,lr=0.03; also sgd,\n"
        "                        momentum, adamw. Its parameters are one packed tensor\n"
        "      --nvrtc VERSION   a compiler of the daemon: 12.9, 13, its id in hex,\n"
        "                        or the absolute path of a libnvrtc.so\n"
        "      --name NAME       the program's name (default: FILE); -I of its folder is implied\n"
        "      --name-expression EXPR   a kernel instance to keep, e.g. 'k<float>'; may be "
        "repeated\n"
        "      --timeout SPAN    give up after 90s, 5m, …\n"
        "      --recache         compile even if the cache has the result\n"
        "      --no-store        do not keep the result\n"
        "      --only-if-cached  do not compile: a miss is exit status 1\n"
        "      --json            one object for each file: key, outcome (hit, miss, coalesced), "
        "ms,\n"
        "                        bytes, file, output, arch, compiler, status, cost_ms, log\n"
        "      --socket PATH     the daemon's socket ($WARM_SOCKET, or this user's default)\n"
        "  -h, --help            print this\n\n"
        "Headers are read with your rights, and only beneath the working folder, FILE's folder "
        "and\n"
        "the -I folders. Exit status: 1 the compiler refused the source (or a miss), 2 usage or\n"
        "unusable input, 3 no daemon.\n\n"
        "Example:\n"
        "  $ warm compile saxpy.cu --arch sm_90 -o saxpy.cubin -Iinclude --std=c++17\n",
};

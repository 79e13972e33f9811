/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptxas.c - front end for ptxas, which reads one PTX file and writes one cubin. It makes two keys,
 * and commands/tool.c and run_cached.c call ptxas_plan for them.
 *
 *     exact      the tool, the canonical options, the PTX byte for byte; size and time of the files
 *                that its .file directives name, which ptxas writes beside line information
 *     canonical  the same with the PTX's canonical form (keygen): comments and names of its own do
 *                not count. Only if the cubin has no line table: the table has the lines of the
 *                source and of the PTX itself
 *
 * It asks for the exact result first, as "ptxas:exact:…". That miss is not counted.
 * WARM_TOOL_EXACT=1 turns the canonical key off. Options follow keygen/cuda/options.h. The file names
 * count with -g alone, which writes the command into the cubin. The name by which the tool was
 * called always does: ptxas writes it into cubins and messages.
 *
 * Thread: main; no state.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/ptx_files.h"
#include "client/tool/tool.h"
#include "keygen/canon/canon.h"
#include "keygen/cuda/options.h"
#include "keygen/domains.h"

#define PTX_MAX_BYTES (256u << 20)
#define DEFAULT_OUTPUT "elf.o"

enum field { TOOL = 1, OPTION, HARDWARE, INPUT, HOW, FILES, VARIABLES, COMMAND };

/* Variables that count: those that ptxas was seen to read, and others of NVIDIA's. */
static const char *const environment[] = {"CAN_FINALIZE_*", "FINALIZER_*", "PTXAS_*",
                                          "OCG_*",          "NVVM_*",      NULL};
static const char *const refused_environment[] = {"DUMP_KNOBS_TO_FILE", "FINALIZER_CUBIE"};

/* True for commands that only print: `--version`, `--help`. */
static bool prints_only(const struct tool_job *job)
{
    return job->argc == 2 && text_is_one_of(job->argv[1], ONE_OF("--version", "-V", "--help", "-h",
                                                                 "--list-version", "-version-ls"));
}

static void begin(struct tool_job *job, struct key_builder *key, const char *domain,
                  const char *tool)
{
    key_begin(key, domain);
    key_add_text(key, TOOL, tool);
    key_add_text(key, TOOL, tool_base(job->argv[0]));
    tool_key_messages(job, key, HOW);
    tool_key_preloads(key, VARIABLES);
    tool_key_environment(key, VARIABLES, environment);
}

static void add_options(const struct tool_job *job, struct key_builder *key,
                        const struct options *o)
{
    key_add_text(key, HARDWARE, o->hardware);
    options_add(o, key, OPTION);
    for (int i = 1; o->debug && i < job->argc; i++)
        key_add_text(key, COMMAND, job->argv[i]);
}

static int add_names(struct tool_job *job, const char *tool, const struct options *o,
                     const uint8_t *ptx, size_t len)
{
    struct canon_input input = {.data = ptx,
                                .len = len,
                                .kind = CANON_PTX,
                                .debug_info = o->debug || (o->line_info && !o->no_debug_sections),
                                .drops_debug_info = o->no_debug_sections};
    struct canon_result canon;
    struct key_builder key;
    bool has_canonical = !job->exact && canon_key(&input, &canon, NULL, NULL) == 0 && !canon.exact;
    begin(job, &key, DOMAIN_PTXAS, tool);
    add_options(job, &key, o);
    key_add(&key, INPUT, ptx, len);
    ptx_files_add(&key, FILES, ptx, len);
    tool_name(job, has_canonical ? "exact" : "2", &key, job->names[job->n_names++]);
    if (!has_canonical)
        return 0;
    job->by_form = true;
    begin(job, &key, DOMAIN_PTXAS_CANONICAL, tool);
    add_options(job, &key, o);
    key_add(&key, INPUT, canon.proof.bytes, sizeof canon.proof.bytes);
    tool_key_end(job, &key);
    return 0;
}

static int plan_files(struct tool_job *job, const struct options *o, const struct view *args,
                      struct err *e)
{
    if (o->input < 0)
        return err_set(e, WARM_EREFUSED, "ptxas: the command names no input file");
    const char *input = args[o->input].data, *output = DEFAULT_OUTPUT;
    if (o->output >= 0) {
        const char *text = args[o->output].data, *equals = strchr(text, '=');
        output = text[0] == '-' && equals ? equals + 1 : text;
    }
    int code = tool_add_output(job, output, e);
    if (code)
        return code;
    job->sources[job->n_sources++] = input;
    snprintf(job->label, sizeof job->label, "ptxas %s", tool_base(input));
    return o->debug || input[0] != '/' || tool_add_root(job, input, strlen(input))
               ? 0
               : err_set(e, WARM_ENOMEM, "no memory");
}

static int plan_compile(struct tool_job *job, const char *tool, const struct options *o,
                        const struct view *args, struct err *e)
{
    uint8_t *ptx;
    size_t len;
    int code = plan_files(job, o, args, e);
    if (!code)
        code = tool_read_file(args[o->input].data, PTX_MAX_BYTES, &ptx, &len, e);
    if (code)
        return code;
    code = add_names(job, tool, o, ptx, len);
    free(ptx);
    return code;
}

int ptxas_plan(struct tool_job *job, struct warm *w, struct err *e)
{
    assert(job && job->program && job->argc >= 1);
    char tool[WARM_IDENTITY_TEXT];
    struct options o;
    job->family = "ptxas";
    job->loud = job->timed_log = true;
    snprintf(job->label, sizeof job->label, "ptxas %s", job->argc > 1 ? job->argv[1] : "");
    for (size_t i = 0; i < sizeof refused_environment / sizeof refused_environment[0]; i++)
        if (getenv(refused_environment[i]))
            return err_set(e, WARM_EREFUSED,
                           "%s: ptxas writes a file that a hit would not write: unset it",
                           refused_environment[i]);
    int code = warm_file_identity(w, job->program, tool);
    if (code)
        return err_set(e, code, "cannot read %s", job->program);
    if (prints_only(job)) {
        struct key_builder key;
        begin(job, &key, DOMAIN_PTXAS_PRINT, tool);
        key_add_text(&key, OPTION, job->argv[1]);
        tool_key_end(job, &key);
        return 0;
    }
    size_t n = (size_t)(job->argc - 1);
    struct view *args = tool_arguments(job);
    if (!args)
        return err_set(e, WARM_ENOMEM, "no memory");
    code = options_parse(OPTIONS_PTXAS, 0, args, n, &o, e);
    if (!code) {
        code = plan_compile(job, tool, &o, args, e);
        options_close(&o);
    }
    free(args);
    return code;
}

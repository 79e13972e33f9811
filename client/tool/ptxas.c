/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptxas.c - front end for ptxas: one PTX file in, one cubin out, nothing else is read.
 *
 *     exact      the tool, the canonical options, the PTX byte for byte
 *     canonical  the same with the PTX's canonical form (keygen): comments, names of its own and,
 *                unless full debug output is asked for, line information do not count
 *
 * The exact result is looked for first. The canonical one differs from it at most in what -lineinfo
 * puts beside the code: it may name another place of the same kernel's source. WARM_TOOL_EXACT=1
 * leaves it out. Options follow keygen/options.h; the file names do not count.
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
#include "keygen/canon.h"
#include "keygen/options.h"

#define PTX_MAX_BYTES (256u << 20)
#define DEFAULT_OUTPUT "elf.o"

enum field { TOOL = 1, OPTION, HARDWARE, INPUT, HOW };

/* What only prints: `--version`, `--help`. */
static bool prints_only(const struct tool_job *job)
{
    static const char *const names[] = {"--version",      "-V",         "--help", "-h",
                                        "--list-version", "-version-ls"};
    for (size_t i = 0; job->argc == 2 && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(job->argv[1], names[i]) == 0)
            return true;
    return false;
}

static void begin(struct key_builder *key, const char *domain, const char *tool)
{
    struct stat out, err;
    bool together = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
                    out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    key_begin(key, domain);
    key_add_text(key, TOOL, tool);
    key_add_u64(key, HOW, together);
}

static int plan_print(struct tool_job *job, const char *tool)
{
    struct key_builder key;
    begin(&key, "ptxas-print/1", tool);
    key_add_text(&key, OPTION, job->argv[0]);
    key_add_text(&key, OPTION, job->argv[1]);
    tool_key_end(job, &key);
    return 0;
}

static void add_options(struct key_builder *key, const struct options *o)
{
    key_add_text(key, HARDWARE, o->hardware);
    options_add(o, key, OPTION);
}

static int add_names(struct tool_job *job, const char *tool, const struct options *o,
                     const uint8_t *ptx, size_t len)
{
    const char *exact = getenv("WARM_TOOL_EXACT");
    struct canon_input input = {.data = ptx, .len = len, .kind = CANON_PTX, .debug_info = o->debug};
    struct canon_result canon;
    struct key_builder key;
    begin(&key, "ptxas/1", tool);
    add_options(&key, o);
    key_add(&key, INPUT, ptx, len);
    tool_key_end(job, &key);
    if ((exact && strcmp(exact, "1") == 0) || canon_key(&input, &canon, NULL, NULL) || canon.exact)
        return 0;
    begin(&key, "ptxas-canonical/1", tool);
    add_options(&key, o);
    key_add(&key, INPUT, canon.proof.bytes, sizeof canon.proof.bytes);
    tool_key_end(job, &key);
    return 0;
}

static int plan_files(struct tool_job *job, const struct options *o, const struct view *args,
                      struct err *e)
{
    if (o->input < 0)
        return err_set(e, WARM_EREFUSED, "no input file");
    const char *input = args[o->input].data, *output = DEFAULT_OUTPUT;
    if (o->output >= 0) {
        const char *text = args[o->output].data, *equals = strchr(text, '=');
        output = text[0] == '-' && equals ? equals + 1 : text;
    }
    int code = tool_add_output(job, output, e);
    if (code)
        return code;
    const char *slash = strrchr(input, '/');
    snprintf(job->label, sizeof job->label, "ptxas %s", slash ? slash + 1 : input);
    return input[0] != '/' || tool_add_root(job, input, strlen(input))
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
    char tool[WARM_IDENTITY_TEXT];
    struct options o;
    job->family = "ptxas";
    snprintf(job->label, sizeof job->label, "ptxas %s", job->argc > 1 ? job->argv[1] : "");
    int code = warm_file_identity(w, job->program, tool);
    if (code)
        return err_set(e, code, "cannot read %s", job->program);
    if (prints_only(job))
        return plan_print(job, tool);
    size_t n = (size_t)(job->argc - 1);
    struct view *args = calloc(n + 1, sizeof *args);
    if (!args)
        return err_set(e, WARM_ENOMEM, "no memory");
    for (size_t i = 0; i < n; i++)
        args[i] = (struct view){job->argv[i + 1], strlen(job->argv[i + 1])};
    code = options_parse(OPTIONS_PTXAS, 0, args, n, &o, e);
    if (!code) {
        code = plan_compile(job, tool, &o, args, e);
        options_close(&o);
    }
    free(args);
    return code;
}

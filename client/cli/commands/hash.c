/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.c - `warm hash`: the canonical key of each file, or its canonical form. main.c calls it; it
 * needs no daemon.
 *
 * Each file goes the same way: open → canon_key → one report on stdout. A file that cannot be opened or
 * parsed is one line on stderr and exit status 2; the others are still reported.
 *
 * Thread: main.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/json_writer.h"
#include "keygen/canon/canon.h"

#define OWN_PAGES_FROM (128 * 1024) /* bytes of a block that is given back as soon as it is freed */

struct hash_run {
    enum canon_kind kind;
    bool explain, as_json, debug_info;
    int n_files;
    struct json json;
};

/* Ends the program with a message: a mapped file faults if another process makes it shorter. */
static void on_bus_error(int signal_number)
{
    static const char text[] = "warm: an input was truncated while it was read\n";
    (void)signal_number;
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(CLI_USAGE);
}

static void report_key_json(struct hash_run *run, const char *file, const struct canon_result *r,
                            const struct writer *text)
{
    char key[WARM_KEY_TEXT], sha256[65];
    key_to_text(&r->key, key);
    bytes_to_hex(&r->proof, sizeof r->proof, sha256);
    struct json *j = &run->json;
    json_open(j, '{');
    json_key(j, "key"), json_text(j, key);
    json_key(j, "file"), json_text(j, file);
    json_key(j, "kind"), json_text(j, canon_kind_name(r->kind));
    json_key(j, "exact"), json_bool(j, r->exact);
    json_key(j, "sha256"), json_text(j, sha256);
    if (r->exact && r->why_exact)
        json_key(j, "why_exact"), json_text(j, r->why_exact);
    if (run->explain)
        json_key(j, "canonical"), json_bytes(j, text->data, text->len);
    json_close(j, '}');
}

/* Prints the form alone, so that diff can compare the output for two files. Several files get a
 * title each, as with head(1). */
static void report_form(const struct hash_run *run, const char *file, const struct canon_result *r,
                        const struct writer *text)
{
    if (r->exact)
        cli_say("%s: the key is of the exact bytes: %s", file,
                r->why_exact ? r->why_exact : "nothing to canonicalize");
    if (run->n_files > 1)
        printf("==> %s <==\n", file);
    fwrite(text->data, 1, text->len, stdout);
    if (text->len && text->data[text->len - 1] != '\n')
        putchar('\n');
}

static int hash_key(struct hash_run *run, const char *file, const struct canon_input *input,
                    struct err *e)
{
    struct canon_result r;
    struct writer text;
    writer_init(&text, 0);
    int code = canon_key(input, &r, run->explain ? &text : NULL, e);
    if (!code && text.failed)
        code = err_set(e, WARM_ENOMEM, "no memory for the canonical form");
    if (!code && run->as_json) {
        report_key_json(run, file, &r, &text);
    } else if (!code && run->explain) {
        report_form(run, file, &r, &text);
    } else if (!code) {
        char key[WARM_KEY_TEXT];
        key_to_text(&r.key, key);
        printf("%s  %s\n", key, file);
    }
    writer_close(&text);
    return code;
}

static int hash_file(struct hash_run *run, const char *file)
{
    struct cli_input in;
    int error = cli_input_open(&in, file);
    if (error) {
        cli_say("%s:0:0: cannot read: %s", file, cli_input_text(error));
        return CLI_USAGE;
    }
    struct canon_input input = {.data = in.data,
                                .len = in.len,
                                .file_name = strcmp(file, "-") == 0 ? NULL : file,
                                .kind = run->kind,
                                .debug_info = run->debug_info};
    struct err e = {0};
    int code = hash_key(run, file, &input, &e);
    if (code)
        cli_say("%s:%u:%u: %s", file, e.line, e.column, e.text[0] ? e.text : err_text(code));
    cli_input_close(&in);
    return code ? CLI_USAGE : CLI_OK;
}

static bool take_kind(const char *value, void *to) { return canon_kind_from_name(value, to); }

static int hash_run(const struct command *self, int argc, char **argv)
{
    struct hash_run run = {.kind = CANON_AUTO, .json = {.out = stdout}};
    const struct cli_option options[] = {
        {"kind", 'k', take_kind, &run.kind, "one of auto, mlir, mlirbc, hlo, ptx, cuda and raw"},
        {"explain", '\0', NULL, &run.explain, NULL},
        {"json", '\0', NULL, &run.as_json, NULL},
        {"debug-info", '\0', NULL, &run.debug_info, NULL},
        {0}};
    int status;
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    status = CLI_OK;
    run.n_files = argc - optind;
    if (run.n_files == 0)
        return cli_usage(self, "no file given");
    signal(SIGBUS, on_bus_error);
    mallopt(M_MMAP_THRESHOLD, OWN_PAGES_FROM); /* a threshold that is set does not grow */
    if (run.as_json)
        json_open(&run.json, '[');
    for (int i = optind; i < argc; i++) {
        int one = hash_file(&run, argv[i]);
        status = one ? one : status;
    }
    if (run.as_json)
        json_close(&run.json, ']');
    return status;
}

const struct command cmd_hash = {
    .name = "hash",
    .run = hash_run,
    .summary = "Print the canonical key of graphs and sources",
    .synopsis = "[--kind KIND] [--explain] [--json] [--debug-info] FILE...",
    .help =
        "Prints one line for each FILE: its key (32 hex digits), two spaces, its name. `-` is\n"
        "stdin. Two files with one key compile to the same result. Needs no daemon.\n\n"
        "  -k, --kind KIND   auto (default), mlir, mlirbc, hlo, ptx, cuda or raw\n"
        "      --explain     print the canonical form instead of its key\n"
        "      --json        an array of objects: key, file, kind, exact, sha256\n"
        "      --debug-info  debug output is wanted: locations and line numbers count\n"
        "  -h, --help        print this\n\n"
        "A file that cannot be used is one line `warm: FILE:LINE:COLUMN: reason` on stderr and\n"
        "exit status 2; the others are still done.\n\n"
        "Example:\n"
        "  $ warm hash step.mlir\n"
        "  3f0c2a5b9d6e41f7a8b1c2d3e4f50617  step.mlir\n"
        "  $ diff <(warm hash --explain a.mlir) <(warm hash --explain b.mlir)\n",
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get.c - `warm get` and `warm put`: values by key or name, as they are. main.c calls it.
 *
 * A KEY of 32 hex digits is first looked up as a key of the store, as `warm ls` prints it. If there
 * is no such entry, it is a name, as any other KEY.
 *
 * Thread: main.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/find.h"
#include "client/cli/json_writer.h"
#include "client/cli/output.h"
#include "client/cli/remote.h"
#include "client/wire/bundle.h"
#include "keygen/quantity.h"

/* ---- get ---- */

struct part_name {
    const char *name;
    uint32_t type;
};
static const struct part_name part_names[] = {
    {"log", BUNDLE_LOG},
    {"cubin", BUNDLE_CUBIN},
    {"ptx", BUNDLE_PTX},
    {"ltoir", BUNDLE_LTOIR},
    {"optixir", BUNDLE_OPTIXIR},
    {"compiler", BUNDLE_COMPILER},
    {NULL, 0},
};

static int get_value(struct warm *w, const char *key, struct warm_value *out)
{
    struct key unused;
    size_t len = strlen(key);
    int code = WARM_ENOT_FOUND;
    if (key_from_text(key, len, &unused))
        code = warm_get(w, key, len, WARM_BY_KEY, out);
    return code == WARM_ENOT_FOUND ? warm_get(w, key, len, 0, out) : code;
}

/* Finds the requested part of a compile's result, or the value as it is. 0 or an exit status. */
static int find_part(const struct warm_value *value, const struct part_name *part, struct view *out)
{
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    struct err e;
    size_t n;
    *out = (struct view){value->data, value->len};
    if (!part)
        return 0;
    if (bundle_read(value->data, value->len, sections, &n, &e)) {
        cli_say("--part: the entry is not the result of a compile");
        return CLI_USAGE;
    }
    *out = bundle_find(sections, n, part->type);
    if (!out->data)
        cli_say("the result has no %s", part->name);
    return out->data ? 0 : CLI_FINDING;
}

static int get_to_file(struct remote *r, const char *key, const char *output,
                       const struct part_name *part)
{
    struct warm_value value;
    struct view bytes;
    if (!getenv("WARM_SESSION") && !getenv("WARM_PROJECT"))
        conn_administer(); /* a person looks: no program used it */
    int status = remote_open(r);
    if (status)
        return status;
    int code = get_value(r->w, key, &value);
    if (code == WARM_ENOT_FOUND && find_is_part(key)) {
        char whole[WARM_KEY_TEXT];
        status = find_key(r, key, whole);
        code = status ? code : get_value(r->w, whole, &value);
    }
    if (status) {
        /* the reason is printed */
    } else if (code) {
        status = remote_fail(r, code);
    } else {
        status = find_part(&value, part, &bytes);
        if (!status)
            status = output_write(output, bytes.data, bytes.len);
        if (!status && r->as_json) {
            struct json j = {.out = stdout};
            json_open(&j, '{');
            json_key(&j, "key"), json_text(&j, value.key);
            json_key(&j, "bytes"), json_u64(&j, bytes.len);
            json_key(&j, "cost_ms"), json_u64(&j, value.cost_ms);
            json_key(&j, "output"), json_text(&j, output);
            json_close(&j, '}');
        }
        warm_value_free(&value);
    }
    remote_close(r);
    return status;
}

static bool take_part(const char *value, void *to)
{
    const struct part_name *p = part_names;
    while (p->name && strcmp(p->name, value) != 0)
        p++;
    *(const struct part_name **)to = p;
    return p->name;
}

static int get_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    const char *output = NULL;
    const struct part_name *part = NULL;
    int status;
    const struct cli_option options[] = {
        {"output", 'o', cli_take_text, &output, "a file"},
        {"part", '\0', take_part, &part, "a part: log, cubin, ptx, ltoir, optixir or compiler"},
        REMOTE_ROWS(r),
        {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (argc - optind != 1)
        return cli_usage(self, "one KEY is needed");
    if (!output && (isatty(STDOUT_FILENO) || r.as_json))
        return cli_usage(self, "name the output with -o FILE, `-` for the terminal");
    if (output && strcmp(output, "-") == 0 && r.as_json)
        return cli_usage(self, "--json and the value cannot both go to stdout");
    return get_to_file(&r, argv[optind], output ? output : "-", part);
}

const struct command cmd_get = {
    .name = "get",
    .run = get_run,
    .summary = "Write an entry's value to a file",
    .synopsis = "KEY -o FILE [--part PART] [--json]",
    .help =
        "Writes the value of KEY, verified, to FILE. KEY is 32 hex digits, as `warm ls` prints\n"
        "them, or its first eight digits or more, or a name of up to 512 bytes. The result of\n"
        "a compile is one value with several parts (client/wire/PROTOCOL.md); --part writes one\n"
        "of them.\n\n"
        "  -o, --output FILE     `-` for stdout, which is the default in a pipe\n"
        "      --part PART       log, cubin, ptx, ltoir, optixir or compiler\n" REMOTE_HELP
        "\nExit status 1 if there is no such entry.\n\n"
        "Example:\n"
        "  $ warm get 3f0c2a5b9d6e41f7a8b1c2d3e4f50617 --part ptx -o k.ptx\n",
};

/* ---- put ---- */

static int put_file(struct remote *r, const char *name, const char *file,
                    const struct warm_put_options *options)
{
    struct cli_input in;
    struct json j = {.out = stdout};
    int error = cli_input_open(&in, file);
    if (error) {
        cli_say("%s: %s", file, cli_input_text(error));
        return CLI_USAGE;
    }
    int status = remote_open(r);
    if (!status) {
        int code = warm_put(r->w, name, strlen(name), in.data, in.len, options);
        if (code) {
            status = remote_fail(r, code);
        } else if (r->as_json) {
            json_open(&j, '{');
            json_key(&j, "name"), json_text(&j, name);
            json_key(&j, "bytes"), json_u64(&j, in.len);
            json_close(&j, '}');
        }
        remote_close(r);
    }
    cli_input_close(&in);
    return status;
}

static int put_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct warm_put_options options = {0};
    uint64_t cost_ms = 0;
    bool keep = false;
    int status;
    const struct cli_option rows[] = {
        {"kind", '\0', cli_take_text, &options.kind, "a kind"},
        {"label", '\0', cli_take_text, &options.label, "a text"},
        {"arch", '\0', cli_take_text, &options.hardware, "a text"},
        {"compiler", '\0', cli_take_text, &options.compiler, "a text"},
        {"group", '\0', cli_take_text, &options.group, "a name"},
        {"ttl", '\0', cli_take_span, &options.ttl_ms, CLI_SPAN},
        {"cost-ms", '\0', cli_take_count, &cost_ms, CLI_COUNT},
        {"keep-existing", '\0', NULL, &keep, NULL},
        REMOTE_ROWS(r),
        {0}};
    if (!cli_options(self, argc, argv, rows, &status))
        return status;
    options.cost_ms = cost_ms < UINT32_MAX ? (uint32_t)cost_ms : UINT32_MAX;
    options.flags = keep ? WARM_KEEP_EXISTING : 0;
    if (argc - optind != 2)
        return cli_usage(self, "a NAME and a FILE are needed");
    return put_file(&r, argv[optind], argv[optind + 1], &options);
}

const struct command cmd_put = {
    .name = "put",
    .run = put_run,
    .summary = "Store a file under a name",
    .synopsis = "[options] NAME FILE",
    .help =
        "Stores FILE (`-` is stdin) under NAME, 1 to 512 bytes, and returns when it is on disk.\n"
        "The entry is yours: other users neither see nor replace it.\n\n"
        "      --kind KIND       backward, executable, fx-graph, triton, …: for `ls` and `evict`\n"
        "      --label TEXT, --arch TEXT, --compiler TEXT   likewise\n"
        "      --group NAME      entries of one group leave the cache together\n"
        "      --ttl SPAN        expires after 90s, 30m, 12h or 7d\n"
        "      --cost-ms N       time to make it: expensive entries are evicted last\n"
        "      --keep-existing   leave an entry of that name as it is\n" REMOTE_HELP "\nExample:\n"
        "  $ warm put my-model/step-1 step.bin --kind backward --ttl 7d\n",
};

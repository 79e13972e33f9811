/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ls.c - `warm ls` and `warm show`: the entries of the store. main.c calls it.
 *
 * Without --sort rows are printed as they come, so a list of any length costs no memory. With
 * --sort they are kept, sorted and printed.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client/cli/filter.h"
#include "client/cli/listing.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "client/cli/rows.h"
#include "client/cli/units.h"

#define KEY_PART_MIN 4u /* digits of the beginning of a key */

/* name, value of a row to sort by: the highest first */
#define SORT_LIST(X)                                                                               \
    X("size", row->len)                                                                            \
    X("used", row->accessed_ms)                                                                    \
    X("created", row->created_ms)                                                                  \
    X("hits", row->hits)                                                                           \
    X("cost", row->cost_ms)

struct ls_run {
    struct remote remote;
    struct wire_list message;
    const char *sort; /* NULL: as they come */
    uint64_t limit, n_printed, now_ms;
    struct json json;
    struct listing kept;
};

static bool sort_value(const char *sort, const struct wire_row *row, uint64_t *out)
{
#define X(name, value)                                                                             \
    if (strcmp(sort, name) == 0) {                                                                 \
        *out = value;                                                                              \
        return true;                                                                               \
    }
    SORT_LIST(X)
#undef X
    return false;
}

static void print_row(struct ls_run *run, const struct wire_row *row)
{
    if (run->n_printed == run->limit)
        return;
    if (run->remote.as_json)
        row_json(&run->json, row);
    else if (run->n_printed == 0)
        rows_title(colour_wanted(stdout));
    if (!run->remote.as_json)
        row_line(row, run->now_ms);
    run->n_printed++;
}

static void print_kept(struct ls_run *run)
{
    struct wire_row row;
    listing_sort(&run->kept);
    for (size_t i = 0; i < run->kept.n; i++)
        if (listing_row(&run->kept, i, &row))
            print_row(run, &row);
    listing_close(&run->kept);
}

static int on_row(void *arg, const struct wire_row *row, struct view frame)
{
    struct ls_run *run = arg;
    uint64_t value;
    if (run->sort && sort_value(run->sort, row, &value))
        return listing_keep(&run->kept, frame, value);
    print_row(run, row);
    return 0;
}

static int list_all(struct ls_run *run)
{
    int status = remote_open(&run->remote);
    if (status)
        return status;
    json_init(&run->json, stdout);
    if (run->remote.as_json)
        json_open(&run->json, '[');
    run->now_ms = rows_now_ms();
    int code;
    do
        code = listing_ask(&run->remote, &run->message, on_row, run);
    while (code == 1 && (run->sort || run->n_printed < run->limit));
    print_kept(run);
    if (run->remote.as_json)
        json_close(&run->json, ']');
    else if (code >= 0 && !run->n_printed && isatty(STDOUT_FILENO))
        puts("no entries");
    if (code < 0)
        status = remote_fail(&run->remote, code);
    remote_close(&run->remote);
    return status;
}

static int ls_run(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {{"sort", required_argument, NULL, 's'},
                                          {"limit", required_argument, NULL, 'n'},
                                          FILTER_OPTIONS,
                                          REMOTE_OPTIONS,
                                          {0}};
    static const struct wire_row no_row;
    struct ls_run run = {.message.filter = filter_all(), .limit = UINT64_MAX};
    uint64_t unused;
    int status;
    for (int c; (c = cli_option(self, argc, argv, ":s:n:h", longs)) != -1;) {
        if (cli_option_ends(c, &status))
            return status;
        int taken = filter_option(self, &run.message.filter, c);
        if (taken < 0)
            return CLI_USAGE;
        if (c == 's' && !sort_value(run.sort = optarg, &no_row, &unused))
            return cli_usage(self, "entries are not sorted by %s", optarg);
        else if (c == 'n' && !units_parse_number(optarg, UINT64_MAX, &run.limit))
            return cli_usage(self, "--limit %s is not a number", optarg);
        else if (!taken)
            remote_option(&run.remote, c);
    }
    if (optind < argc)
        return cli_usage(self, "it takes no keys; `warm show` does");
    return list_all(&run);
}

const struct command cmd_ls = {
    .name = "ls",
    .run = ls_run,
    .summary = "List the entries of the cache",
    .synopsis = "[filters] [--sort FIELD] [--limit N] [--json]",
    .help =
        "Lists your entries that match all filters; the administrator lists those of all users.\n"
        "An empty list is no failure.\n\n"
        "  -s, --sort FIELD      size, used, created, hits or cost, the highest first\n"
        "  -n, --limit N         at most N entries\n" FILTER_HELP REMOTE_HELP
        "\n--json is an array of objects: key, kind, bytes, hits, cost_ms, arch, compiler, name,\n"
        "label, made_here, owner, maker, pinned, file, created_ms, accessed_ms, expires_ms, xxh3,\n"
        "sha256, compiler_key, graph_key, proof, group.\n\n"
        "Example:\n"
        "  $ warm ls --arch sm_90 --older-than 7d --sort size --limit 10\n",
};

/* ---- show ---- */

static int show_one(struct remote *r, const struct wire_show *message, struct answer *answer)
{
    uint64_t tag = request_begin(r->w);
    wire_put_show(&r->w->request, tag, message);
    return remote_ask(r, tag, WIRE_ROW, answer);
}

struct part_search {
    const char *text;
    struct listing found;
};

/* True if the key begins with the text, or the label is the text. */
static bool is_named(const struct wire_row *row, const char *text)
{
    char key[WARM_KEY_TEXT];
    size_t len = strlen(text);
    key_to_text(&row->key, key);
    return (len >= KEY_PART_MIN && strncasecmp(key, text, len) == 0) ||
           (row->label.len == len && memcmp(row->label.data, text, len) == 0);
}

static int on_candidate(void *arg, const struct wire_row *row, struct view frame)
{
    struct part_search *search = arg;
    return is_named(row, search->text) ? listing_keep(&search->found, frame, row->accessed_ms) : 0;
}

/* Finds the one entry whose key begins with the text, or that has it as its label. */
static int find_by_part(struct remote *r, const char *text, struct listing *out_kept,
                        struct wire_row *out)
{
    struct part_search search = {.text = text};
    struct wire_list message = {.filter = filter_all()};
    int code;
    do
        code = listing_ask(r, &message, on_candidate, &search);
    while (code == 1);
    *out_kept = search.found;
    if (code < 0)
        return remote_fail(r, code);
    if (search.found.n == 1 && listing_row(&search.found, 0, out))
        return CLI_OK;
    if (search.found.n == 0)
        cli_say("%s: no such entry", text);
    else
        cli_say("%s: %zu entries are called so; give a key", text, search.found.n);
    for (size_t i = 0; search.found.n > 1 && i < search.found.n; i++)
        if (listing_row(&search.found, i, out))
            row_line(out, rows_now_ms());
    return CLI_FINDING;
}

/* Finds an entry by its key, name, the beginning of its key, or its label. The row borrows from the answer
 * or from *out_kept, which the caller closes. */
/* Asks for one entry. 0 and *out, or an exit status. *out borrows the connection's buffer. */
static int find_row(struct remote *r, const char *text, struct listing *out_kept,
                    struct wire_row *out)
{
    struct key key;
    struct answer answer;
    int status = CLI_FINDING;
    if (key_from_text(text, strlen(text), &key))
        status = show_one(r, &(struct wire_show){WIRE_SPACE_KEY, {key.bytes, sizeof key.bytes}},
                          &answer);
    if (status == CLI_FINDING)
        status = show_one(r, &(struct wire_show){WIRE_SPACE_NAME, {text, strlen(text)}}, &answer);
    if (status == CLI_FINDING)
        return find_by_part(r, text, out_kept, out);
    if (!status && wire_get_row(&answer.frame, out, &r->w->err))
        status = remote_fail(r, request_unexpected(r->w, &answer));
    return status;
}

static int show_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct wire_row row;
    struct listing kept = {0};
    int status;
    if (!remote_options(&r, self, argc, argv, &status))
        return status;
    if (argc - optind != 1 || !*argv[optind] || strlen(argv[optind]) > WIRE_NAME_MAX)
        return cli_usage(self, "one KEY of 1 to %u bytes is needed", WIRE_NAME_MAX);
    status = remote_open(&r);
    if (status)
        return status;
    status = find_row(&r, argv[optind], &kept, &row);
    if (!status && r.as_json) {
        struct json j;
        json_init(&j, stdout);
        row_json(&j, &row);
    } else if (!status) {
        row_fields(&row, rows_now_ms());
    }
    listing_close(&kept);
    remote_close(&r);
    return status;
}

const struct command cmd_show = {
    .name = "show",
    .run = show_run,
    .summary = "Show all fields of one entry",
    .synopsis = "KEY [--json]",
    .help =
        "KEY is 32 hex digits, as `warm ls` prints them, or a name; or a label, or the first four\n"
        "digits or more of a key, if one entry alone has them. Showing an entry does not count as\n"
        "a hit. Exit status 1 if there is no such entry.\n\n" REMOTE_HELP "\nExample:\n"
        "  $ warm show 3f0c2a5b9d6e41f7a8b1c2d3e4f50617\n",
};

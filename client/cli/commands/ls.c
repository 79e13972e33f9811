/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ls.c - `warm ls` and `warm show`: the entries of the store. main.c calls it.
 *
 * For programs, rows are printed as they come, so a list of any length costs no memory. With --sort, and for
 * people, they are kept, sorted and printed: for people the newest first, one line for each group of entries.
 *
 * Thread: main.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/cli/filter.h"
#include "client/cli/find.h"
#include "client/cli/graph_job.h"
#include "client/cli/listing.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "client/cli/rows.h"
#include "client/cli/run/run.h"
#include "client/cli/units.h"
#include "keygen/quantity.h"

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
    bool all;         /* --all: a line for each entry, as in a pipe */
    bool brief;       /* for people */
    bool closure;     /* --closure */
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

/* ---- for people ---- */

/* One line: an entry, or the group of several. */
struct line {
    size_t first; /* its place among the sorted rows */
    size_t shown; /* the row that stands for the group: the largest one that is no manifest */
    uint64_t len, bytes;
    size_t n;
    struct key group;
};

static int by_group(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int order = memcmp(&x->group, &y->group, sizeof x->group);
    return order ? order : (x->first > y->first) - (x->first < y->first);
}

static int by_first(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Makes one line of each group; returns how many lines there are. */
static size_t fold(struct line *line, size_t n)
{
    static const struct key none;
    size_t kept = 0;
    if (n)
        qsort(line, n, sizeof *line, by_group);
    for (size_t i = 0; i < n; i++) {
        struct line *to = kept ? &line[kept - 1] : NULL;
        if (!to || key_equal(&line[i].group, &none) || !key_equal(&to->group, &line[i].group)) {
            line[kept++] = line[i];
            continue;
        }
        assert(to->first < line[i].first); /* by_group put them in this order */
        to->n++;
        to->bytes += line[i].bytes;
        if (line[i].len > to->len) {
            to->len = line[i].len;
            to->shown = line[i].shown;
        }
    }
    if (kept)
        qsort(line, kept, sizeof *line, by_first);
    return kept;
}

static int print_brief(struct ls_run *run)
{
    struct wire_row row;
    struct winsize size;
    bool has_width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    unsigned width = has_width ? size.ws_col : 80;
    size_t n = 0;
    uint64_t bytes = 0;
    char text[UNITS_TEXT];
    struct line *line = calloc(run->kept.n ? run->kept.n : 1, sizeof *line);
    if (!line)
        return WARM_ENOMEM;
    listing_sort(&run->kept);
    for (size_t i = 0; i < run->kept.n; i++)
        if (listing_row(&run->kept, i, &row)) {
            bool stands = row.kind != WIRE_KIND_MANIFEST;
            line[n++] = (struct line){i, i, stands ? row.len + 1 : 0, row.len, 1, row.group};
            bytes += row.len;
        }
    size_t n_lines = fold(line, n);
    assert(n_lines <= n && n <= run->kept.n);
    for (size_t i = 0; i < n_lines && i < run->limit; i++)
        if (listing_row(&run->kept, line[i].shown, &row)) {
            if (i == 0)
                rows_brief_title(colour_wanted(stdout));
            row_brief(&row, run->now_ms, line[i].n, line[i].bytes, width);
        }
    units_size_text(bytes, text);
    if (n)
        printf("%zu %s, %s\n", n, n == 1 ? "entry" : "entries", text);
    else
        puts("no entries");
    free(line);
    return 0;
}

static int on_row(void *arg, const struct wire_row *row, struct view frame)
{
    struct ls_run *run = arg;
    if (!run->all && (wire_name_is_note(row->name) || wire_name_is_catalogue(row->name)))
        return 0;
    uint64_t value = 0;
    if (run->brief && row->kind == WIRE_KIND_FORM && run->message.filter.kind < 0)
        return 0; /* a part of another entry */
    bool sorts = run->sort && sort_value(run->sort, row, &value);
    if (sorts || run->closure)
        return listing_keep(&run->kept, frame, value);
    print_row(run, row);
    return run->n_printed == run->limit; /* 1: no more rows are wanted */
}

static int list_all(struct ls_run *run)
{
    run_daemon_wake(run->remote.socket);
    int status = remote_open(&run->remote);
    if (status)
        return status;
    if (run->remote.as_json)
        json_open(&run->json, '[');
    run->now_ms = rows_now_ms();
    int code = listing_ask(&run->remote, &run->message, on_row, run);
    if (!code && run->closure)
        code = listing_add_closure(&run->remote, &run->kept, on_row, run);
    if (!code && run->closure)
        code = listing_unique(&run->kept);
    if (!code && run->brief)
        code = print_brief(run);
    else if (!run->brief) {
        struct wire_row row;
        listing_sort(&run->kept);
        for (size_t i = 0; i < run->kept.n; i++)
            if (listing_row(&run->kept, i, &row))
                print_row(run, &row);
    }
    listing_close(&run->kept);
    if (run->remote.as_json)
        json_close(&run->json, ']');
    if (code < 0)
        status = remote_fail(&run->remote, code);
    remote_close(&run->remote);
    return status;
}

static bool take_sort(const char *value, void *to)
{
    static const struct wire_row no_row;
    uint64_t unused;
    *(const char **)to = value;
    return sort_value(value, &no_row, &unused);
}

static int ls_run(const struct command *self, int argc, char **argv)
{
    struct ls_run run = {
        .message.filter = filter_all(), .limit = UINT64_MAX, .json = {.out = stdout}};
    int status;
    const struct cli_option options[] = {
        {"sort", 's', take_sort, &run.sort, "one of size, used, created, hits and cost"},
        {"limit", 'n', cli_take_count, &run.limit, CLI_COUNT},
        {"all", 'a', NULL, &run.all, NULL},
        {"closure", '\0', NULL, &run.closure, NULL},
        FILTER_ROWS(run.message.filter),
        REMOTE_ROWS(run.remote),
        {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (optind < argc)
        return cli_usage(self, "it takes no keys; `warm show` does");
    run.brief = !run.all && !run.remote.as_json && isatty(STDOUT_FILENO);
    if (run.brief && !run.sort)
        run.sort = "created";
    return list_all(&run);
}

const struct command cmd_ls = {
    .name = "ls",
    .run = ls_run,
    .summary = "List the entries of the cache",
    .synopsis = "[filters] [--sort FIELD] [--limit N] [--all] [--closure] [--json]",
    .help =
        "Lists your entries that match all filters; the administrator lists those of all users.\n"
        "An empty list is no failure. On a terminal, lists the newest first, with a total and\n"
        "one line for entries that belong together (+2: two more). Its keys are short; show,\n"
        "get, rm and pin take them.\n\n"
        "  -s, --sort FIELD      size, used, created, hits or cost, the highest first\n"
        "  -n, --limit N         at most N entries\n"
        "  -a, --all             on a terminal, too, a line with the whole key for each "
        "entry;\n"
        "                        also the notes that programs keep for themselves\n"
        "      --closure         also what the entries need, as `warm export` takes "
        "it\n" FILTER_HELP REMOTE_HELP
        "\n--json is an array of objects: key, kind, bytes, hits, cost_ms, arch, compiler, name,\n"
        "label, made_here, owner, maker, pinned, tier (waits, came, stays), signer, file, "
        "created_ms, accessed_ms,\n"
        "expires_ms, xxh3, sha256, compiler_key, graph_key, proof, group.\n\n"
        "Example:\n"
        "  $ warm ls --arch sm_90 --older-than 7d --sort size --limit 10\n",
};

/* ---- show ---- */

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
    status = graph_job_show(argv[optind], r.as_json);
    if (status >= 0)
        return status;
    status = remote_open(&r);
    if (status)
        return status;
    status = find_entry(&r, argv[optind], &kept, &row);
    if (!status && r.as_json) {
        struct json j = {.out = stdout};
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
    .summary = "Show all fields of one entry, or a compiled graph",
    .synopsis = "KEY|FILE.bundle [--json]",
    .help =
        "KEY is 32 hex digits, as `warm ls` prints them, or a name; or a label, or the first "
        "eight\n"
        "digits or more of a key, if one entry alone has them. Showing an entry does not count as\n"
        "a hit. Exit status 1 if there is no such entry. Of a bundle that `warm compile` made of\n"
        "StableHLO it shows kernels, registers, shared memory and bytes.\n\n" REMOTE_HELP
        "\nExample:\n"
        "  $ warm show 3f0c2a5b9d6e41f7a8b1c2d3e4f50617\n",
};

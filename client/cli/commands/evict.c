/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict.c - `warm evict`, `warm clear` and `warm verify`: work on many entries, with a report. The
 * daemon does the work, this file asks for it; main.c calls it.
 *
 * Thread: main.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/filter.h"
#include "client/cli/json_writer.h"
#include "client/cli/remote.h"
#include "client/cli/units.h"
#include "keygen/quantity.h"

static int evict(struct remote *r, const struct wire_evict *message)
{
    struct wire_report report;
    int status = remote_open(r);
    if (status)
        return status;
    uint64_t tag = request_begin(r->w);
    wire_put_evict(&r->w->request, tag, message);
    status = remote_report(r, tag, "evicting", &report);
    if (!status)
        remote_print_report(r, "evicted", &report, message->dry_run);
    remote_close(r);
    return status;
}

/* ---- evict ---- */

static int evict_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct wire_evict message = {.filter = filter_all()};
    const struct cli_option options[] = {
        {"to-size", '\0', cli_take_size, &message.to_bytes, CLI_SIZE},
        {"dry-run", 'n', NULL, &message.dry_run, NULL},
        FILTER_ROWS(message.filter),
        REMOTE_ROWS(r),
        {0}};
    int status;
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (optind < argc)
        return cli_usage(self, "%s is no option; `warm rm` takes keys", argv[optind]);
    if (filter_is_all(&message.filter) && message.to_bytes == 0)
        return cli_usage(self,
                         "choose entries, or give --to-size above 0; `warm clear` evicts all");
    return evict(&r, &message);
}

const struct command cmd_evict = {
    .name = "evict",
    .run = evict_run,
    .summary = "Evict the entries that match, or down to a size",
    .synopsis = "[filters] [--to-size SIZE] [--dry-run] [--json]",
    .help =
        "Evicts entries that match all filters and are not pinned, the least valuable first, and\n"
        "what only led to them. The size is what that frees: entries may share a value.\n\n"
        "      --to-size SIZE    stop when the whole store has this size, e.g. 10G\n"
        "  -n, --dry-run         only print what would be evicted\n" FILTER_HELP REMOTE_HELP
        "\nExample:\n"
        "  $ warm evict --idle 30d --arch sm_80 --dry-run\n"
        "  would have evicted 214 entries, 31 MiB\n",
};

/* ---- clear ---- */

/* Asks the person, and says what would go. Returns an exit status. */
static int confirm(struct remote *r)
{
    struct wire_evict message = {.filter = filter_all(), .dry_run = true};
    struct wire_report report;
    char answer[16], size[UNITS_TEXT];
    int status = remote_open(r);
    if (status)
        return status;
    uint64_t tag = request_begin(r->w);
    wire_put_evict(&r->w->request, tag, &message);
    status = remote_report(r, tag, "looking", &report);
    struct stat st; /* may only administrators use this socket? */
    bool of_all = stat(r->w->socket, &st) == 0 && (st.st_mode & 077) == 0;
    remote_close(r);
    if (status)
        return status;
    units_size_text(report.n_bytes, size);
    fprintf(stderr, "Evict %" PRIu64 " %s of %s, all that are not pinned? It frees %s. [y/N] ",
            report.n_entries, report.n_entries == 1 ? "entry" : "entries",
            of_all ? "all users" : "yours", size);
    bool yes = fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
    return yes ? CLI_OK : CLI_FINDING;
}

static int clear_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct wire_evict message = {.filter = filter_all()};
    bool yes = false;
    int status;
    const struct cli_option options[] = {{"yes", 'y', NULL, &yes, NULL},
                                         {"dry-run", 'n', NULL, &message.dry_run, NULL},
                                         REMOTE_ROWS(r),
                                         {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (optind < argc)
        return cli_usage(self, "it takes no keys; `warm rm` does");
    if (!yes && !message.dry_run && isatty(STDIN_FILENO) && (status = confirm(&r)))
        return status;
    return evict(&r, &message);
}

const struct command cmd_clear = {
    .name = "clear",
    .run = clear_run,
    .summary = "Evict all entries that are not pinned",
    .synopsis = "[--yes] [--dry-run] [--json]",
    .help = "Evicts every entry of yours that is not pinned; for the administrator (root, or the\n"
            "user whom the daemon runs as) every entry. Asks first if stdin is a terminal.\n\n"
            "  -y, --yes             do not ask\n"
            "  -n, --dry-run         only print what would be evicted\n" REMOTE_HELP "\nExample:\n"
            "  $ warm clear --yes\n"
            "  evicted 1204 entries, 96 MiB\n",
};

/* ---- verify ---- */

static int print_verify(const struct remote *r, const struct wire_report *report)
{
    char size[UNITS_TEXT];
    if (r->as_json) {
        struct json j = {.out = stdout};
        json_open(&j, '{');
        json_key(&j, "entries"), json_u64(&j, report->n_entries);
        json_key(&j, "bytes"), json_u64(&j, report->n_bytes);
        json_key(&j, "corrupt"), json_u64(&j, report->n_corrupt);
        json_close(&j, '}');
    } else {
        units_size_text(report->n_bytes, size);
        printf("checked %" PRIu64 " %s, %s: %" PRIu64 " damaged\n", report->n_entries,
               report->n_entries == 1 ? "entry" : "entries", size, report->n_corrupt);
    }
    return report->n_corrupt ? CLI_FINDING : CLI_OK;
}

static bool take_sample(const char *value, void *to)
{
    return cli_take_count(value, to) && *(uint64_t *)to;
}

static int verify_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct wire_verify message = {0};
    struct wire_report report;
    int status;
    const struct cli_option options[] = {
        {"sample", '\0', take_sample, &message.sample, "a number of entries"}, REMOTE_ROWS(r), {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (optind < argc)
        return cli_usage(self, "it takes no keys");
    status = remote_open(&r);
    if (status)
        return status;
    uint64_t tag = request_begin(r.w);
    wire_put_verify(&r.w->request, tag, &message);
    status = remote_report(&r, tag, "verifying", &report);
    if (!status)
        status = print_verify(&r, &report);
    remote_close(&r);
    return status;
}

const struct command cmd_verify = {
    .name = "verify",
    .run = verify_run,
    .summary = "Check every stored value against its checksum",
    .synopsis = "[--sample N] [--json]",
    .help =
        "Reads entries from disk again and compares them with their checksums. Damaged entries\n"
        "go to quarantine, and are made again on demand. Exit status 1 if there were any.\n\n"
        "      --sample N        only N entries, taken at random\n" REMOTE_HELP "\nExample:\n"
        "  $ warm verify\n"
        "  checked 1204 entries, 96 MiB: 0 damaged\n",
};

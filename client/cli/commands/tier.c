/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.c - `warm tier`: makes the key that signs what this user's daemons send beyond the machine, and tries what a
 * store there can do. main.c calls it.
 *
 * Thread: main.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/commands/tier_moves.h"
#include "client/cli/filter.h"
#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/remote.h"
#include "client/cli/run/probe.h"
#include "client/cli/units.h"
#include "keygen/quantity.h"
#include "tier/signing.h"

/* Writes the secret key to a new file that its owner alone can read. Returns 0 or an errno. */
static int write_key(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    size_t len = strlen(text);
    int error = write(fd, text, len) == (ssize_t)len && fsync(fd) == 0 ? 0 : errno ? errno : EIO;
    close(fd);
    if (error)
        unlink(path);
    return error;
}

static int keygen(const char *name, const char *path)
{
    struct signing_key key;
    struct err e = {0};
    char text[KEY_TEXT_MAX], whole[PATH_MAX];
    if (!signing_init() || signing_make(name, &key, &e) != 0) {
        cli_say("%s", *e.text ? e.text : "libsodium cannot start");
        return CLI_USAGE;
    }
    signing_write(&key, text);
    int error = write_key(path, text);
    if (error) {
        cli_say("cannot write %s: %s", path, strerror(error));
        return CLI_USAGE;
    }
    struct trusted_key public = signing_public(&key);
    signing_write_public(&public, text);
    printf(
        "# here, in warmd.conf; the file is the secret:\ntier_key = %s\n"
        "# in warmd.conf of each machine that may use what this key signed:\ntier_trusted = %s\n",
        realpath(path, whole) ? whole : path, text); /* a daemon has another working folder */
    return CLI_OK;
}

/* Prints what was found. */
static int print_probe(const struct remote *r, const char *url, const struct tier_answer *a)
{
    const struct tier_capabilities *c = &a->capabilities;
    const struct {
        const char *name, *works, *fails;
        bool is;
    } rows[] = {
        {"reads", "objects can be read", "nothing can be read", c->reads},
        {"writes", "objects can be written", "nothing can be written", c->writes},
        {"conditional", "of two writers at once, one is told that it was late",
         "a write replaces what is there", c->conditional},
        {"leases", "one machine compiles, the others wait for it",
         "machines that miss at once compile at once", c->leases},
        {"checksums", "a write that was damaged on the way is refused",
         "damage shows when the object is read", c->checksums},
    };
    char words[400];
    bool good = probe_words(a, words, sizeof words);
    struct json j = {.out = stdout};
    if (r->as_json) {
        json_open(&j, '{');
        json_key(&j, "url"), json_text(&j, url);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            json_key(&j, rows[i].name), json_bool(&j, rows[i].is);
        json_key(&j, "clock_skew_ms"), json_u64(&j, c->clock_skew_ms);
        json_key(&j, "said"), json_text(&j, words);
        json_close(&j, '}');
        return good ? CLI_OK : CLI_FINDING;
    }
    if (a->outcome != TIER_OK) {
        cli_say("%s: %s", url, words);
        return CLI_FINDING;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("%-12s %-3s  %s\n", rows[i].name, rows[i].is ? "yes" : "no",
               rows[i].is ? rows[i].works : rows[i].fails);
    printf("%s\n", words);
    return good ? CLI_OK : CLI_FINDING;
}

/* Probes a URL, or the daemon's tier. */
static int probe(struct remote *r, const char *named, const char *credentials, const char *ca)
{
    char url[1024] = "", file[PATH_MAX] = "", certificates[PATH_MAX] = "", why[300];
    struct tier_answer found = {0};
    struct wire_text text;
    int status = named ? CLI_OK : remote_open(r);
    if (!named && status == CLI_OK)
        status = remote_text(r, WIRE_INFO, &text);
    if (!named && status == CLI_OK) {
        json_reader_copy(text.text, "settings.tier.value", url, sizeof url);
        json_reader_copy(text.text, "settings.tier_credentials.value", file, sizeof file);
        json_reader_copy(text.text, "settings.tier_ca.value", certificates, sizeof certificates);
    }
    if (!named)
        remote_close(r);
    if (status)
        return status;
    struct probe p = {.url = named ? named : url,
                      .credentials = credentials ? credentials : file,
                      .ca = ca ? ca : certificates};
    if (!*p.url) {
        cli_say("the daemon has no tier: give a URL, or set tier in warmd.conf");
        return CLI_USAGE;
    }
    if (probe_tier(&p, &found, why, sizeof why))
        return print_probe(r, p.url, &found);
    cli_say("%s", why);
    return CLI_FINDING;
}

static int tier_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct tier_moves moves = {
        .filter = filter_all(), .max_entries = UINT64_MAX, .max_bytes = UINT64_MAX / 2};
    const char *credentials = NULL, *ca = NULL;
    int status;
    const struct cli_option options[] = {
        {"credentials", '\0', cli_take_text, &credentials, "a file"},
        {"ca", '\0', cli_take_text, &ca, "a file"},
        {"session", '\0', cli_take_text, &moves.session, "an ID"},
        {"since", '\0', filter_take_since, &moves.since_ms, CLI_SPAN},
        {"max-entries", '\0', cli_take_count, &moves.max_entries, CLI_COUNT},
        {"max-bytes", '\0', cli_take_size, &moves.max_bytes, CLI_SIZE},
        {"dry-run", 'n', NULL, &moves.dry_run, NULL},
        FILTER_ROWS(moves.filter),
        REMOTE_ROWS(r),
        {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    int n = argc - optind;
    const char *verb = n ? argv[optind] : "";
    if (strcmp(verb, "keygen") == 0 && n == 3)
        return keygen(argv[optind + 1], argv[optind + 2]);
    if (strcmp(verb, "probe") == 0 && n <= 2)
        return probe(&r, n == 2 ? argv[optind + 1] : NULL, credentials, ca);
    if (strcmp(verb, "status") == 0 && n == 1)
        return tier_moves_status(&r);
    if (strcmp(verb, "push") == 0 && n == 1)
        return tier_moves_push(&r, &moves);
    if (strcmp(verb, "pull") == 0 && n == 2)
        return tier_moves_pull(&r, &moves, argv[optind + 1]);
    return cli_usage(self, "it takes keygen NAME FILE, probe [URL], status, push or pull LIST");
}

const struct command cmd_tier = {
    .name = "tier",
    .run = tier_run,
    .summary = "A store beyond the machine: its key, its state, what goes there",
    .synopsis = "keygen NAME FILE | probe [URL] | status | push [filters] | pull LIST",
    .help = "keygen makes a key that signs what the daemon sends to its tier, in a new FILE, and\n"
            "prints the lines for warmd.conf.\n"
            "probe writes, reads and removes an object of the tier, and says what works: reads, "
            "writes,\n"
            "conditional writes, leases, checksums, the clock. Without a URL it takes the daemon's "
            "tier.\n"
            "It runs as you, so you must be able to read a system daemon's credentials.\n"
            "status says what came from the tier, what went there, what waits, and what fails.\n"
            "push has the daemon send the entries that match, the costliest first.\n"
            "pull brings the entries of a list that `warm ls --json` wrote on another machine.\n"
            "\n      --credentials FILE  probe: as tier_credentials in warmd.conf\n"
            "      --ca FILE         probe: as tier_ca\n"
            "      --session ID      push: what this session used\n"
            "      --since SPAN      push: made or used in the last 12h or 7d\n"
            "      --max-entries N, --max-bytes SIZE   push and pull: no more\n"
            "  -n, --dry-run         push and pull: only print what would be moved\n" FILTER_HELP
                REMOTE_HELP "\nExamples:\n"
            "  $ warm tier keygen cluster-1 ~/.config/warm/tier.key\n"
            "  $ warm tier probe 's3://ml-cache/warm?region=eu-central-1'\n"
            "  $ warm tier push --since 7d --kind cubin --dry-run\n"
            "  $ warm ls --json >list; ssh other warm tier pull - <list\n",
};

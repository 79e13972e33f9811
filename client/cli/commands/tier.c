/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.c - `warm tier`: makes the key that signs what this user's daemons send beyond the machine. main.c
 * calls it.
 *
 * Thread: main.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
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
    char text[KEY_TEXT_MAX];
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
        path, text);
    return CLI_OK;
}

static int tier_run(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
    int status, c;
    while ((c = cli_option(self, argc, argv, "", longs)) != -1)
        if (cli_option_ends(c, &status))
            return status;
    if (argc - optind != 3 || strcmp(argv[optind], "keygen") != 0)
        return cli_usage(self, "it takes keygen, a name and a file");
    return keygen(argv[optind + 1], argv[optind + 2]);
}

const struct command cmd_tier = {
    .name = "tier",
    .run = tier_run,
    .summary = "Make a key for a store beyond the machine",
    .synopsis = "keygen NAME FILE",
    .help =
        "Makes a key that signs what the daemon sends to its tier, in a new FILE, and prints the\n"
        "lines for warmd.conf.\n"
        "\n  -h, --help            print this\n"
        "\nExample:\n"
        "  $ warm tier keygen cluster-1 ~/.config/warm/tier.key\n",
};

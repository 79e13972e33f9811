/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rm.c - `warm rm`, `warm pin` and `warm unpin`: work on entries that the user names one by one.
 * The daemon does the work; main.c calls this file.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/find.h"
#include "client/cli/remote.h"

enum keys_action { KEYS_REMOVE, KEYS_PIN, KEYS_UNPIN };

/* Adds entries by the beginnings of their keys, and says which keys lead to no entry of this user. */
static void add_parts(struct remote *r, char **keys, int n_keys, struct writer *list, uint32_t *n)
{
    for (int i = 0; i < n_keys; i++) {
        struct answer answer;
        char key[WARM_KEY_TEXT];
        if (find_exact(r, keys[i], &answer) != CLI_FINDING)
            continue;
        if (!find_is_part(keys[i]))
            cli_say("%s: not in the cache, or not yours", keys[i]);
        else if (find_key(r, keys[i], key) == CLI_OK)
            *n += remote_add_key(list, key);
    }
}

static int act_on_keys(struct remote *r, enum keys_action action, char **keys, int n_keys)
{
    static const char *const done[] = {"removed", "pinned", "unpinned"};
    struct writer list;
    struct wire_report report;
    uint32_t n = 0;
    int status = remote_open(r);
    if (status)
        return status;
    writer_init(&list, 0);
    add_parts(r, keys, n_keys, &list, &n);
    for (int i = 0; i < n_keys; i++)
        n += remote_add_key(&list, keys[i]);
    struct view view = {list.data, list.len};
    uint64_t tag = request_begin(r->w);
    if (action == KEYS_REMOVE)
        wire_put_remove(&r->w->request, tag, &(struct wire_remove){n, view});
    else
        wire_put_pin(&r->w->request, tag, &(struct wire_pin){action == KEYS_PIN, n, view});
    if (list.failed || n > WIRE_KEYS_MAX)
        cli_say("too many keys at once, or a key above %u bytes", WIRE_NAME_MAX),
            status = CLI_USAGE;
    else
        status = remote_report(r, tag, "entries", &report);
    writer_close(&list);
    if (!status) {
        remote_print_report(r, done[action], &report, false);
        status = report.n_entries >= (uint64_t)n_keys ? CLI_OK : CLI_FINDING;
    }
    remote_close(r);
    return status;
}

static int keys_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    int status;
    if (!remote_options(&r, self, argc, argv, &status))
        return status;
    if (optind == argc)
        return cli_usage(self, "no key given");
    enum keys_action action = strcmp(self->name, "rm") == 0    ? KEYS_REMOVE
                              : strcmp(self->name, "pin") == 0 ? KEYS_PIN
                                                               : KEYS_UNPIN;
    return act_on_keys(&r, action, argv + optind, argc - optind);
}

#define KEYS_HELP                                                                                  \
    "KEY is 32 hex digits, as\n`warm ls` prints them, or a name, or the first eight digits or "    \
    "more "                                                                                        \
    "of a key.\nExit status 1 if one of them is missing.\n\n" REMOTE_HELP

const struct command cmd_rm = {
    .name = "rm",
    .run = keys_run,
    .summary = "Remove entries",
    .synopsis = "KEY... [--json]",
    .help =
        "Removes entries, pinned ones too, and prints the freed bytes. " KEYS_HELP "\nExample:\n"
        "  $ warm rm 3f0c2a5b9d6e41f7a8b1c2d3e4f50617\n"
        "  removed 1 entry, 14 KiB\n",
};

const struct command cmd_pin = {
    .name = "pin",
    .run = keys_run,
    .summary = "Keep entries from being evicted",
    .synopsis = "KEY... [--json]",
    .help =
        "Pinned entries stay until they are unpinned or removed by name, with all that belongs to\n"
        "them. " KEYS_HELP "\nExample:\n"
        "  $ warm pin 3f0c2a5b9d6e41f7a8b1c2d3e4f50617\n"
        "  pinned 1 entry, 14 KiB\n",
};

const struct command cmd_unpin = {
    .name = "unpin",
    .run = keys_run,
    .summary = "Let pinned entries be evicted again",
    .synopsis = "KEY... [--json]",
    .help =
        "Undoes `warm pin`: the entries, and what belongs to them, can be evicted again. " KEYS_HELP
        "\nExample:\n"
        "  $ warm unpin 3f0c2a5b9d6e41f7a8b1c2d3e4f50617\n"
        "  unpinned 1 entry, 14 KiB\n",
};

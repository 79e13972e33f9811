/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the `warm` command: finds the command by name and runs it. The shell calls main.
 *
 * Nothing happens before the dispatch: no locale, no allocation, no environment. A hit on a cached
 * artifact must cost little more than starting a process.
 *
 * Thread: main.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/wire/version.h"
#include "keygen/expect.h"

/* In the order in which `warm --help` lists them. */
static const struct command *const commands[] = {
    &cmd_run,    &cmd_compile, &cmd_exec,       &cmd_hash,   &cmd_get,       &cmd_put,
    &cmd_ls,     &cmd_show,    &cmd_stats,      &cmd_top,    &cmd_why,       &cmd_report,
    &cmd_rm,     &cmd_evict,   &cmd_pin,        &cmd_unpin,  &cmd_verify,    &cmd_clear,
    &cmd_export, &cmd_import,  &cmd_config,     &cmd_daemon, &cmd_toolchain, &cmd_tier,
    &cmd_doctor, &cmd_ping,    &cmd_completion, &cmd_tool,
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fputs("Usage: warm COMMAND [ARGUMENT...]\n\n"
          "A persistent compilation cache.\n\nCommands:\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`warm COMMAND --help` explains one, with an example.\n"
          "Exit status: 0 done, 1 a finding or a miss, 2 usage or unusable input, 3 no daemon.\n",
          out);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

#define MISTAKES_MAX 2u
#define NAME_LEN_MAX 15u
/* Returns the number of letters to insert, remove, replace or swap that turn `b` into `a`: the
 * optimal string alignment distance, at most MISTAKES_MAX + 1. */
static unsigned mistakes(const char *a, const char *b)
{
    unsigned d[NAME_LEN_MAX + 1][NAME_LEN_MAX + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > NAME_LEN_MAX || n > NAME_LEN_MAX)
        return MISTAKES_MAX + 1;
    for (size_t i = 0; i <= m; i++)
        for (size_t j = 0; j <= n; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned least = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < least)
                least = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < least)
                least = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < least)
                least = d[i - 2][j - 2] + 1;
            d[i][j] = least;
        }
    return d[m][n];
}

static int no_command(const char *name)
{
    const struct command *nearest = NULL;
    unsigned least = MISTAKES_MAX + 1;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        unsigned n = mistakes(name, commands[i]->name);
        if (n < least) {
            least = n;
            nearest = commands[i];
        }
    }
    if (nearest && least < strlen(nearest->name))
        cli_say("no command `%s`: did you mean `%s`?", name, nearest->name);
    else
        cli_say("no command `%s` (see `warm --help`)", name);
    return CLI_USAGE;
}

/* Returns `status`, or a failure if the output did not arrive: a full disk, a closed pipe. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    cli_say("cannot write: %s", strerror(errno));
    return status ? status : CLI_USAGE;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    expect_abort();
    cli_set_commands(commands, N_COMMANDS);
    if (!name) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const struct command *command = find_command(name);
    if (command)
        return finish(command->run(command, argc - 1, argv + 1));
    bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
    if (help && argc > 2) {
        const struct command *topic = find_command(argv[2]);
        return topic ? finish(cli_help(topic)) : no_command(argv[2]);
    }
    if (help) {
        print_help(stdout);
        return finish(CLI_OK);
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("warm " WARM_VERSION);
        return finish(CLI_OK);
    }
    return no_command(name);
}

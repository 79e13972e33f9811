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
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/wire/version.h"
#include "keygen/expect.h"
#include "keygen/misspelt.h"

/* In the order in which `warm --help` lists them. */
static const struct command *const commands[] = {
    &cmd_run,    &cmd_compile, &cmd_exec,       &cmd_hash,   &cmd_get,       &cmd_put,
    &cmd_ls,     &cmd_show,    &cmd_stats,      &cmd_top,    &cmd_why,       &cmd_report,
    &cmd_rm,     &cmd_evict,   &cmd_pin,        &cmd_unpin,  &cmd_verify,    &cmd_clear,
    &cmd_export, &cmd_import,  &cmd_config,     &cmd_daemon, &cmd_toolchain, &cmd_tier,
    &cmd_doctor, &cmd_ping,    &cmd_completion, &cmd_tool,   &cmd_events,
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

static int no_command(const char *name)
{
    struct misspelt m = {.word = name};
    for (size_t i = 0; i < N_COMMANDS; i++)
        misspelt_try(&m, commands[i]->name);
    if (misspelt_meant(&m))
        cli_say("no command `%s`: did you mean `%s`?", name, misspelt_meant(&m));
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

/* Takes --socket PATH in front of the command, where it holds for every command. False without a path. */
static bool take_socket(int *argc, char ***argv)
{
    static const char option[] = "--socket";
    char *word = *argc > 1 ? (*argv)[1] : NULL;
    if (!word || strncmp(word, option, strlen(option)) != 0 || !strchr("=", word[strlen(option)]))
        return true;
    bool is_one = word[strlen(option)] == '=';
    const char *path = is_one ? word + strlen(option) + 1 : *argc > 2 ? (*argv)[2] : "";
    if (!*path || setenv("WARM_SOCKET", path, 1) != 0) {
        cli_say("--socket needs a path");
        return false;
    }
    int n = is_one ? 1 : 2;
    (*argv)[n] = (*argv)[0];
    *argv += n;
    *argc -= n;
    return true;
}

int main(int argc, char **argv)
{
    expect_abort();
    cli_set_commands(commands, N_COMMANDS);
    if (!take_socket(&argc, &argv))
        return CLI_USAGE;
    const char *name = argc > 1 ? argv[1] : NULL;
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
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
        puts("warm " WARM_VERSION);
        return finish(CLI_OK);
    }
    return no_command(name);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_completion.c - `warm completion`: scripts that complete the commands in bash, zsh and fish,
 * made from the table of commands. Main thread only. */
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"

/* Options that every command has, and the few that are worth a key less. */
static const char common_options[] = "--help --json --socket";

static void print_names(const char *between)
{
    size_t n;
    const struct command *const *all = cli_commands(&n);
    for (size_t i = 0; i < n; i++)
        printf("%s%s", i ? between : "", all[i]->name);
}

static void print_bash(void)
{
    fputs("_warm() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]}\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    print_names(" ");
    printf("' -- \"$word\"))\n"
           "    elif [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W '%s' -- \"$word\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -o filenames -F _warm warm\n",
           common_options);
}

static void print_zsh(void)
{
    size_t n;
    const struct command *const *all = cli_commands(&n);
    fputs("#compdef warm\n"
          "_warm() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          stdout);
    for (size_t i = 0; i < n; i++)
        printf("        '%s:%s'\n", all[i]->name, all[i]->summary);
    printf("    )\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe command commands\n"
           "    else\n"
           "        _alternative 'options:option:(%s)' 'files:file:_files'\n"
           "    fi\n"
           "}\n"
           "_warm \"$@\"\n",
           common_options);
}

static void print_fish(void)
{
    size_t n;
    const struct command *const *all = cli_commands(&n);
    for (size_t i = 0; i < n; i++)
        printf("complete -c warm -n __fish_use_subcommand -f -a %s -d '%s'\n", all[i]->name,
               all[i]->summary);
    fputs("complete -c warm -l help -d 'explain the command'\n"
          "complete -c warm -l json -d 'print JSON'\n"
          "complete -c warm -l socket -r -d 'the socket of the daemon'\n",
          stdout);
}

static int completion_run(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {{"help", no_argument, NULL, 'h'}, {0}};
    int status;
    for (int c; (c = cli_option(self, argc, argv, ":h", longs)) != -1;)
        if (cli_option_ends(c, &status))
            return status;
    const char *shell = argc - optind == 1 ? argv[optind] : "";
    if (strcmp(shell, "bash") == 0)
        print_bash();
    else if (strcmp(shell, "zsh") == 0)
        print_zsh();
    else if (strcmp(shell, "fish") == 0)
        print_fish();
    else
        return cli_usage(self, "name one of bash, zsh and fish");
    return CLI_OK;
}

const struct command cmd_completion = {
    .name = "completion",
    .run = completion_run,
    .summary = "Print a completion script for a shell",
    .synopsis = "bash|zsh|fish",
    .help = "Prints a script that completes the commands of `warm`.\n\n"
            "  -h, --help        print this\n\n"
            "Example:\n"
            "  $ source <(warm completion bash)\n",
};

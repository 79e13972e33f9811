/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion.c - `warm completion`: scripts that complete commands and their options in bash, zsh
 * and fish. main.c calls it.
 *
 * The shell's script has no list of words. It runs `warm completion --words` for those that may come next. If there
 * are none, it completes names of files. The options of a command are in its help, on lines that begin with an option.
 *
 * Thread: main.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/filter.h"
#include "client/cli/json_reader.h"
#include "client/cli/listing.h"
#include "client/cli/run/settings.h"
#include "client/lib/deadlines.h"

#define OPTION_MAX 40

/* ---- the options of a command ---- */

/* Walks over a help text: first on a line of options, then on its words. */
struct options {
    const char *at;
    bool in_line;
};

/* Moves to the next line whose first word is an option, past its blanks. */
static bool next_line(struct options *o)
{
    while (*o->at) {
        const char *word = o->at + strspn(o->at, " ");
        if (word > o->at && *word == '-') {
            o->at = word;
            return true;
        }
        o->at += strcspn(o->at, "\n");
        o->at += *o->at == '\n';
    }
    return false;
}

/* Finds the next "--name" of a line. An option's description follows after two blanks, and is
 * skipped. */
static bool next_option(struct options *o, char out[OPTION_MAX])
{
    for (;;) {
        if (!o->in_line && !next_line(o))
            return false;
        size_t len = strcspn(o->at, " ,\n");
        const char *word = o->at;
        o->at += len;
        o->in_line = *o->at == ',' || (*o->at == ' ' && o->at[1] != ' ');
        o->at += strspn(o->at, ", ");
        if (len > 2 && len < OPTION_MAX && memcmp(word, "--", 2) == 0) {
            snprintf(out, OPTION_MAX, "%.*s", (int)len, word);
            return true;
        }
    }
}

static void print_options(const struct command *c)
{
    struct options o = {.at = c->help};
    char option[OPTION_MAX];
    while (next_option(&o, option))
        puts(option);
}

/* ---- the words of one place ---- */

#define KEYS_MAX 500u
#define KEY_DIGITS 12 /* enough for the commands that take a part of a key */

static int keep_newest(void *arg, const struct wire_row *row, struct view frame)
{
    return listing_keep(arg, frame, row->accessed_ms);
}

/* Prints the beginnings of the keys that were used last. Without a daemon it prints nothing. */
static void print_keys(void)
{
    struct remote r = {.w = NULL};
    struct listing rows = {0};
    struct wire_list message = {.filter = filter_all()};
    struct wire_row row;
    char key[WARM_KEY_TEXT];
    conn_administer();
    if (warm_open(&r.w, &(struct warm_options){.connect_timeout_ms = DEADLINE_PERSON_CONNECT_MS}))
        return;
    listing_ask(&r, &message, keep_newest, &rows);
    listing_sort(&rows);
    for (size_t i = 0; i < rows.n && i < KEYS_MAX; i++)
        if (listing_row(&rows, i, &row)) {
            key_to_text(&row.key, key);
            printf("%.*s\n", KEY_DIGITS, key);
        }
    listing_close(&rows);
    warm_close(r.w);
}

/* Prints the first word of each alternative of a synopsis, "show|get KEY|path": the verbs of a command. */
static void print_verbs(const char *synopsis)
{
    assert(synopsis && *synopsis);
    for (const char *at = synopsis; at; at = strchr(at, '|'), at += at != NULL) {
        at += strspn(at, " ");
        size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        if (!len)
            return; /* an option, or the name of a value */
        printf("%.*s\n", (int)len, at);
    }
}

/* Prints the ids of the sessions that the daemon remembers. */
static void print_sessions(void)
{
    struct remote r = {.w = NULL};
    struct wire_text text;
    struct view list, item;
    char id[WIRE_SESSION_MAX + 1];
    if (remote_open(&r))
        return;
    if (!remote_history(&r, &(struct wire_history){.of = WIRE_HISTORY_USAGE}, &text) &&
        json_reader_find(text.text, "sessions", &list))
        while (json_reader_next(&list, &item)) {
            json_reader_copy(item, "id", id, sizeof id);
            puts(id);
        }
    remote_close(&r);
}

/* Prints the names of the daemon's settings. */
static void print_settings(void)
{
    struct remote r = {.w = NULL};
    struct wire_text text;
    struct view settings, name, setting;
    char key[64];
    if (remote_open(&r))
        return;
    if (!remote_text(&r, WIRE_INFO, &text) && json_reader_find(text.text, "settings", &settings))
        for (size_t i = 0; json_reader_member(settings, i, &name, &setting); i++) {
            snprintf(key, sizeof key, "%.*s", (int)name.len, (const char *)name.data);
            settings_cut_unit(key);
            puts(key);
        }
    remote_close(&r);
}

/* Prints each command, a tab, and what it does. */
static void print_commands(void)
{
    size_t n;
    const struct command *const *all = cli_commands(&n);
    for (size_t i = 0; i < n; i++)
        printf("%s\t%s\n", all[i]->name, all[i]->summary);
}

/* Prints the words that may come after the word `before`, one a line. `word` is what the user has typed of the next one.
 * Prints nothing if a file may come. */
static void print_words(const char *command, const char *before, const char *word)
{
    size_t n;
    const struct command *const *all = cli_commands(&n), *of = NULL;
    for (size_t i = 0; i < n; i++)
        of = strcmp(all[i]->name, command) == 0 ? all[i] : of;
    static const char *const takes_keys[] = {"show", "get", "rm", "pin", "unpin", "why", NULL};
    if (!*command)
        print_commands(), puts("help\tExplain a command");
    else if (*word == '-' && of)
        print_options(of);
    else if (strcmp(before, "--kind") == 0 && strcmp(command, "hash") == 0)
        puts("auto\nmlir\nmlirbc\nhlo\nptx\ncuda\nraw");
    else if (strcmp(before, "--kind") == 0)
#define X(name, number, text) puts(text);
    {
        WIRE_KIND_LIST(X)
    }
#undef X
    else if (strcmp(before, "--sort") == 0)
        puts("size\nused\ncreated\nhits\ncost");
    else if (strcmp(before, "--from") == 0 || strcmp(before, "--as") == 0)
        puts("jax\ntriton\ninductor");
    else if (strcmp(before, "--format") == 0 && strcmp(command, "report") == 0)
        puts("html\njson\ntrace");
    else if (strcmp(before, "--session") == 0 || strcmp(before, "--compare") == 0)
        print_sessions();
    else if (strcmp(command, "config") == 0 &&
             (strcmp(before, "get") == 0 || strcmp(before, "set") == 0))
        print_settings();
    else if (strcmp(command, "help") == 0)
        print_commands();
    else if (strcmp(command, before) == 0 && of && of->synopsis[0] >= 'a' && of->synopsis[0] <= 'z')
        print_verbs(of->synopsis);
    else if (text_is_one_of(command, takes_keys) && *before != '-')
        print_keys();
}

/* ---- the shells ---- */

#define ASK "warm completion --words -- "

static const struct {
    const char *name, *script;
} shells[] = {
    {"bash",
     "_warm() {\n"
     "    local word=${COMP_WORDS[COMP_CWORD]} command= before= programs=\n"
     "    [ \"$COMP_CWORD\" = 1 ] || command=${COMP_WORDS[1]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
     "    local values=$(" ASK "\"$command\" \"$before\" \"$word\" 2>/dev/null | cut -f1)\n"
     "    case $command in run|tool) programs=-c ;; esac\n"
     "    if [[ $values || $word == -* ]]; then\n"
     "        COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
     "    else\n"
     "        COMPREPLY=($(compgen -f $programs -- \"$word\"))\n"
     "    fi\n"
     "}\n"
     "complete -o filenames -F _warm warm\n"},
    {"zsh", "#compdef warm\n"
            "_warm() {\n"
            "    local command= before=\n"
            "    (( CURRENT == 2 )) || command=$words[2] before=$words[CURRENT-1]\n"
            "    local -a values=(${(f)\"$(" ASK "\"$command\" \"$before\" \"$words[CURRENT]\" "
            "2>/dev/null)\"})\n"
            "    if (( CURRENT == 2 )); then\n"
            "        values=(${values//$'\\t'/:})\n"
            "        _describe command values\n"
            "    elif (( $#values )); then\n"
            "        compadd -- ${values%%$'\\t'*}\n"
            "    else\n"
            "        case $command in run|tool) _command_names ;; *) _files ;; esac\n"
            "    fi\n"
            "}\n"
            "_warm \"$@\"\n"},
    {"fish", "function __warm_words\n"
             "    set -l words (commandline -opc)\n"
             "    set -l word (commandline -ct)\n"
             "    set -l before\n"
             "    test (count $words) -gt 1; and set before $words[-1]\n"
             "    " ASK "\"$words[2]\" \"$before\" \"$word\" 2>/dev/null\n"
             "end\n"
             "complete -c warm -n __fish_use_subcommand -f\n"
             "complete -c warm -a '(__warm_words)'\n"},
};

static int completion_run(const struct command *self, int argc, char **argv)
{
    bool words = false;
    const struct cli_option options[] = {{"words", '\0', NULL, &words, NULL}, {0}};
    int status;
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (words && argc - optind == 3) {
        print_words(argv[optind], argv[optind + 1], argv[optind + 2]);
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof shells / sizeof *shells && argc - optind == 1; i++)
        if (strcmp(argv[optind], shells[i].name) == 0)
            return fputs(shells[i].script, stdout), CLI_OK;
    return cli_usage(self, "name one of bash, zsh and fish");
}

const struct command cmd_completion = {
    .name = "completion",
    .run = completion_run,
    .summary = "Print a completion script for a shell",
    .synopsis = "bash|zsh|fish",
    .help = "Prints a script that completes the commands of `warm`, their options, the values of "
            "these,\n"
            "keys and files.\n\n"
            "  -h, --help        print this\n\n"
            "Example:\n"
            "  $ source <(warm completion bash)\n",
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - `warm config`: shows the daemon's settings with their origins, and changes this user's file
 * of settings. main.c calls it.
 *
 * The daemon tells its settings in INFO. A change goes into a new file beside the old one. `warmd
 * --check-config` reads it, so that one parser decides; only then it takes the old one's place.
 *
 * Thread: main.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/json_reader.h"
#include "client/cli/remote.h"
#include "client/cli/run/run.h"

/* ---- show, get ---- */

/* Cuts the unit from a name in INFO: "max_size_bytes" is the setting max_size. Returns the unit. */
static const char *cut_unit(char *name)
{
    static const char *const units[] = {"_bytes", "_ms"};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i]);
        if (len > n && strcmp(name + len - n, units[i]) == 0) {
            name[len - n] = '\0';
            return units[i];
        }
    }
    return "";
}

/* Writes a number as the file takes it: in the largest unit that keeps it whole. */
static void number_text(unsigned long long n, const char *unit, char out[32])
{
    static const struct {
        const char *of, *name;
        unsigned long long factor;
    } units[] = {
        {"_bytes", "T", 1ull << 40}, {"_bytes", "G", 1ull << 30}, {"_bytes", "M", 1u << 20},
        {"_bytes", "K", 1024},       {"_ms", "d", 86400000},      {"_ms", "h", 3600000},
        {"_ms", "m", 60000},         {"_ms", "s", 1000},          {"_ms", "ms", 1}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].of) == 0 && n && n % units[i].factor == 0) {
            snprintf(out, 32, "%llu%s", n / units[i].factor, units[i].name);
            return;
        }
    snprintf(out, 32, "%llu", n);
}

static void print_value(struct view value, const char *unit)
{
    char text[PATH_MAX];
    struct view item;
    double number;
    if (json_reader_item(value, 0, &item)) {
        for (size_t i = 0; json_reader_item(value, i, &item); i++) {
            json_reader_text(item, text, sizeof text);
            printf("%s%s", i ? ", " : "", text);
        }
    } else if (json_reader_number(value, &number)) {
        number_text(strtoull((const char *)value.data, NULL, 10), unit, text);
        fputs(text, stdout);
    } else if (!json_reader_is(value, "[]")) {
        json_reader_text(value, text, sizeof text);
        fputs(text, stdout);
    }
}

/* True if two names are the same but for - and _. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(*a == '-' && *b == '_'))
            return false;
    return *a == *b;
}

/* Prints all settings, or the value of one. Returns the exit status. */
static int print_settings(struct view settings, const char *only)
{
    struct view name, setting, value, field;
    char key[64], origin[32];
    for (size_t i = 0; json_reader_member(settings, i, &name, &setting); i++) {
        snprintf(key, sizeof key, "%.*s", (int)name.len, (const char *)name.data);
        const char *unit = cut_unit(key);
        if ((only && !same_name(only, key)) || !json_reader_find(setting, "value", &value) ||
            !json_reader_find(setting, "origin", &field))
            continue;
        json_reader_text(field, origin, sizeof origin);
        if (!only)
            printf("%-25s %-11s ", key, origin);
        print_value(value, unit);
        putchar('\n');
        if (only)
            return CLI_OK;
    }
    if (only)
        cli_say("there is no setting \"%s\"", only);
    return only ? CLI_USAGE : CLI_OK;
}

static int show(struct remote *r, const char *only)
{
    struct answer answer;
    struct wire_text text;
    struct view settings;
    int status = remote_open(r);
    if (status)
        return status;
    status = remote_text(r, WIRE_INFO, &answer, &text);
    if (!status && !json_reader_find(text.text, "settings", &settings))
        status = CLI_FINDING;
    else if (!status && r->as_json)
        printf("%.*s\n", (int)settings.len, (const char *)settings.data);
    else if (!status)
        status = print_settings(settings, only);
    remote_close(r);
    return status;
}

/* ---- path, set ---- */

/* Writes the path of the settings' file of this user's daemon. False if it is not known. */
static bool file_path(char out[PATH_MAX])
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (geteuid() == 0)
        n = snprintf(out, PATH_MAX, "/etc/warm/warmd.conf");
    else if (base && *base == '/')
        n = snprintf(out, PATH_MAX, "%s/warm/warmd.conf", base);
    else if (home && *home == '/')
        n = snprintf(out, PATH_MAX, "%s/.config/warm/warmd.conf", home);
    if (n > 0 && n < PATH_MAX)
        return true;
    cli_say("neither XDG_CONFIG_HOME nor HOME is set: there is no place for settings");
    return false;
}

static int print_path(void)
{
    char path[PATH_MAX];
    if (!file_path(path))
        return CLI_FINDING;
    printf("%s%s\n", path, access(path, R_OK) == 0 ? "" : " (not there)");
    return CLI_OK;
}

/* Makes the folder of a path, and its missing parents. */
static bool make_folders(const char *path)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0755) != 0 && errno != EEXIST && access(part, X_OK) != 0) {
            cli_say("%s: %s", part, strerror(errno));
            return false;
        }
    }
    return true;
}

/* True if a line of the file sets `key`. */
static bool sets(const char *line, const char *key)
{
    line += strspn(line, " \t");
    size_t len = strcspn(line, " \t=");
    char name[64];
    return len < sizeof name && line[len + strspn(line + len, " \t")] == '=' &&
           (snprintf(name, sizeof name, "%.*s", (int)len, line), same_name(name, key));
}

/* Copies the file with the new value: in the place of the old one, else at the end. */
static bool write_changed(FILE *from, FILE *to, const char *key, const char *value)
{
    char *line = NULL;
    size_t cap = 0;
    bool done = false, ended = true;
    while (from && getline(&line, &cap, from) > 0) {
        if (!sets(line, key)) {
            fputs(line, to);
            ended = strchr(line, '\n') != NULL;
            continue;
        }
        if (!done)
            fprintf(to, "%s = %s\n", key, value);
        done = ended = true;
    }
    free(line);
    if (!done)
        fprintf(to, "%s%s = %s\n", ended ? "" : "\n", key, value);
    return fflush(to) == 0 && fsync(fileno(to)) == 0;
}

/* True if warmd accepts the file; it prints what is wrong. */
static bool warmd_accepts(const char *path)
{
    struct run_places places;
    char program[PATH_MAX], name[] = "warmd", option[] = "--check-config";
    char *argv[] = {name, option, (char *)(uintptr_t)path, NULL};
    int status;
    if (!run_places_fill(&places, NULL))
        return false;
    run_find_warmd(&places, program);
    pid_t child = fork();
    if (child == 0) {
        execvp(program, argv);
        cli_say("%s: %s", program, strerror(errno));
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int set(const char *key, const char *value)
{
    char path[PATH_MAX], fresh[PATH_MAX + 8], name[64];
    struct stat st;
    int status = CLI_USAGE;
    snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (strpbrk(key, "\n=# \t") || strchr(value, '\n')) {
        cli_say("a setting is one line");
        return CLI_USAGE;
    }
    if (!file_path(path) || !make_folders(path))
        return CLI_FINDING;
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    int fd = mkstemp(fresh);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL, *from = fopen(path, "re");
    if (!to || (!from && errno != ENOENT)) {
        cli_say("%s: %s", path, strerror(errno));
        status = CLI_FINDING;
    } else if (fchmod(fd, from && fstat(fileno(from), &st) == 0 ? st.st_mode & 07777 : 0644) != 0 ||
               !write_changed(from, to, name, value)) {
        cli_say("%s: %s", fresh, strerror(errno));
        status = CLI_FINDING;
    } else if (warmd_accepts(fresh)) {
        status = rename(fresh, path) == 0 ? CLI_OK : CLI_FINDING;
        if (status)
            cli_say("%s: %s", path, strerror(errno));
    }
    if (from)
        fclose(from);
    if (to)
        fclose(to);
    if (status && fd >= 0)
        unlink(fresh);
    if (!status)
        printf("%s: %s = %s\na daemon that runs reads it after SIGHUP or `warm daemon restart`\n",
               path, name, value);
    return status;
}

static int config_run(const struct command *self, int argc, char **argv)
{
    static const struct option longs[] = {REMOTE_OPTIONS, {0}};
    struct remote r = {0};
    int status;
    for (int c; (c = cli_option(self, argc, argv, ":h", longs)) != -1;) {
        if (cli_option_ends(c, &status))
            return status;
        remote_option(&r, c);
    }
    int n = argc - optind;
    const char *verb = n ? argv[optind] : "";
    if (strcmp(verb, "show") == 0 && n == 1)
        return show(&r, NULL);
    if (strcmp(verb, "get") == 0 && n == 2)
        return show(&r, argv[optind + 1]);
    if (strcmp(verb, "path") == 0 && n == 1)
        return print_path();
    if (strcmp(verb, "set") == 0 && n == 3)
        return set(argv[optind + 1], argv[optind + 2]);
    return cli_usage(self, "it takes show, get KEY, path or set KEY VALUE");
}

const struct command cmd_config = {
    .name = "config",
    .run = config_run,
    .summary = "Show or change the daemon's settings",
    .synopsis = "show|get KEY|path|set KEY VALUE [--json]",
    .help =
        "show prints the settings of the running daemon: name, origin and value. The origin is\n"
        "default, found (on this machine), file, environment or option. get prints one value;\n"
        "path prints the file that a daemon of this user reads. set changes that file, if warmd\n"
        "accepts the value, and keeps all other lines; a running daemon reads it after SIGHUP or\n"
        "a restart.\n\n" REMOTE_HELP "\nExample:\n"
        "  $ warm config set max_size 20G\n"
        "  $ warm config get max_size\n"
        "  20G\n",
};

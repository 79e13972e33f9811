/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - `warm config`: shows the daemon's settings with their origins, and changes this user's file
 * of settings. main.c calls it.
 *
 * The daemon tells its settings in INFO. run/settings.c changes the file.
 *
 * Thread: main.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/remote.h"
#include "client/cli/run/settings.h"
#include "keygen/misspelt.h"
#include "tier/setting_line.h"

/* ---- show, get ---- */

/* Writes a number as the file takes it: in the largest unit that keeps it whole. */
static void number_text(unsigned long long n, const char *unit, char out[32])
{
    static const struct {
        const char *of, *name;
        unsigned long long factor;
    } units[] = {{"_bytes", "T", 1ull << 40}, {"_bytes", "G", 1ull << 30},
                 {"_bytes", "M", 1u << 20},   {"_bytes", "K", 1024},
                 {"_bytes", "B", 1},          {"_ms", "d", 86400000},
                 {"_ms", "h", 3600000},       {"_ms", "m", 60000},
                 {"_ms", "s", 1000},          {"_ms", "ms", 1}};
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
    } else if (!view_is(value, "[]")) {
        json_reader_text(value, text, sizeof text);
        fputs(text, stdout);
    }
}

/* Says that there is no such setting, and which one is nearest. Returns the exit status. */
static int no_setting(struct view settings, const char *name)
{
    char key[64], nearest[64];
    struct misspelt m = {.word = name};
    struct view exists, setting;
    for (size_t i = 0; json_reader_member(settings, i, &exists, &setting); i++) {
        snprintf(key, sizeof key, "%.*s", (int)exists.len, (const char *)exists.data);
        settings_cut_unit(key);
        misspelt_try(&m, key);
        if (m.nearest == key)
            m.nearest = strcpy(nearest, key);
    }
    const char *meant = misspelt_meant(&m);
    cli_say("there is no setting \"%s\"%s%s%s", name, meant ? ": did you mean " : "",
            meant ? meant : "", meant ? "?" : "");
    return CLI_USAGE;
}

/* Prints all settings, or the value of one. Returns the exit status. */
static int print_settings(struct view settings, const char *only)
{
    struct view name, setting, value, field;
    char key[64], origin[32];
    for (size_t i = 0; json_reader_member(settings, i, &name, &setting); i++) {
        snprintf(key, sizeof key, "%.*s", (int)name.len, (const char *)name.data);
        const char *unit = settings_cut_unit(key);
        if ((only && !setting_is(only, key)) || !json_reader_find(setting, "value", &value) ||
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
    return only ? no_setting(settings, only) : CLI_OK;
}

/* Prints one setting as the daemon tells it: name, value and origin. */
static int print_one_json(struct view settings, const char *only)
{
    struct view name, setting;
    char key[64];
    for (size_t i = 0; json_reader_member(settings, i, &name, &setting); i++) {
        snprintf(key, sizeof key, "%.*s", (int)name.len, (const char *)name.data);
        settings_cut_unit(key);
        if (!setting_is(only, key))
            continue;
        json_print(stdout, setting);
        return CLI_OK;
    }
    return no_setting(settings, only);
}

static int show(struct remote *r, const char *only)
{
    struct wire_text text;
    struct view settings;
    int status = remote_open(r);
    if (status)
        return status;
    status = remote_text(r, WIRE_INFO, &text);
    if (!status && !json_reader_find(text.text, "settings", &settings))
        status = CLI_FINDING;
    else if (!status && r->as_json && only)
        status = print_one_json(settings, only);
    else if (!status && r->as_json)
        json_print(stdout, settings);
    else if (!status)
        status = print_settings(settings, only);
    remote_close(r);
    return status;
}

/* ---- path, set ---- */

static int print_path(bool as_json)
{
    char path[PATH_MAX];
    struct json j = {.out = stdout};
    if (!settings_path(path))
        return CLI_FINDING;
    if (as_json) {
        json_open(&j, '{');
        json_key(&j, "path"), json_text(&j, path);
        json_key(&j, "exists"), json_bool(&j, access(path, R_OK) == 0);
        json_close(&j, '}');
        return CLI_OK;
    }
    printf("%s%s\n", path, access(path, R_OK) == 0 ? "" : " (not there)");
    return CLI_OK;
}

static int config_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    int status;
    if (!remote_options(&r, self, argc, argv, &status))
        return status;
    int n = argc - optind;
    const char *verb = n ? argv[optind] : "";
    if (strcmp(verb, "show") == 0 && n == 1)
        return show(&r, NULL);
    if (strcmp(verb, "get") == 0 && n == 2)
        return show(&r, argv[optind + 1]);
    if (strcmp(verb, "path") == 0 && n == 1)
        return print_path(r.as_json);
    if (strcmp(verb, "set") == 0 && n == 3)
        return settings_set(argv[optind + 1], argv[optind + 2]);
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
        "accepts the value, and keeps all other lines; `warm daemon reload` makes a running "
        "daemon\n"
        "read it.\n\n" REMOTE_HELP "\nExample:\n"
        "  $ warm config set max_size 20G\n"
        "  $ warm config get max_size\n"
        "  20G\n",
};

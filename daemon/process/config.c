/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - decides the value of each setting: one table made from CONFIG_LIST serves the file, the
 * environment, the command line, --help and INFO.
 *
 * main.c reads the settings at the start and again at SIGHUP.
 *
 * Thread: loop thread, or main before there is a loop.
 */
#include "daemon/process/config.h"

#include <assert.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/nvrtc_id.h"
#include "client/lib/owned_path.h"
#include "daemon/process/defaults.h"
#include "daemon/process/log.h"
#include "daemon/process/room.h"
#include "keygen/json.h"
#include "keygen/misspelt.h"
#include "keygen/quantity.h"
#include "store/store.h"
#include "tier/setting_line.h"

#define CONFIG_LINE_MAX 4096 /* bytes of a line in the file */
#define CONFIG_LIST_MAX 64   /* values of one list */
#define JOBS_MAX 64          /* compiles take all CPUs, at low priority, but no more than these */

enum config_type {
    CONFIG_TEXT,
    CONFIG_SIZE,
    CONFIG_COUNT,
    CONFIG_TIME,
    CONFIG_LIST_OF_TEXT,
    CONFIG_SHARE
};

/* The type of each member of struct config; a list's count and a share's percentage are beside
 * it. */
#define CONFIG_AT_SHARE(name)                                                                      \
    CONFIG_SHARE, offsetof(struct config, name), offsetof(struct config, name##_percent)
#define CONFIG_AT_TEXT(name) CONFIG_TEXT, offsetof(struct config, name), 0
#define CONFIG_AT_SIZE(name) CONFIG_SIZE, offsetof(struct config, name), 0
#define CONFIG_AT_COUNT(name) CONFIG_COUNT, offsetof(struct config, name), 0
#define CONFIG_AT_TIME(name) CONFIG_TIME, offsetof(struct config, name##_ms), 0
#define CONFIG_AT_LIST(name)                                                                       \
    CONFIG_LIST_OF_TEXT, offsetof(struct config, name), offsetof(struct config, n_##name)

static const struct config_entry {
    const char *name;
    enum config_type type;
    size_t at, count_at; /* offsets in struct config */
    const char *standard, *help;
} config_entries[CONFIG_KEYS] = {
#define X(type, name, standard, help) {#name, CONFIG_AT_##type(name), standard, help},
    CONFIG_LIST(X)
#undef X
};

static void *config_at(struct config *c, size_t offset) { return (char *)c + offset; }
static char **config_text_at(const struct config *c, size_t offset)
{
    return (char **)(uintptr_t)((const char *)c + offset);
}
static uint64_t config_number_at(const struct config *c, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)c + offset);
}
static size_t config_count_at(const struct config *c, size_t offset)
{
    return *(const size_t *)(const void *)((const char *)c + offset);
}

/* ---- values ---- */

static void config_clear_list(char **list, size_t *count)
{
    while (*count)
        free(list[--*count]);
    free(list);
}

static int config_add_text(char ***list, size_t *count, const char *value, struct err *e)
{
    assert(*count <= CONFIG_LIST_MAX && (*list || !*count));
    if (*count == CONFIG_LIST_MAX)
        return err_set(e, WARM_EINVALID, "more than %d values of one kind", CONFIG_LIST_MAX);
    char **grown = realloc(*list, (*count + 1) * sizeof *grown);
    char *copy = strdup(value);
    if (grown)
        *list = grown;
    if (!grown || !copy) {
        free(copy);
        return err_set(e, WARM_ENOMEM, "no memory for a setting");
    }
    (*list)[(*count)++] = copy;
    return 0;
}

/* Notes a size without a unit in a file or a variable, where older versions took it; elsewhere it is an error. */
static int config_bare_size(struct config *c, const struct config_entry *entry, const char *value,
                            struct err *e)
{
    char text[160];
    snprintf(text, sizeof text,
             "%s = %s is %s bytes: write the unit (%sB, %sG); the next version wants it",
             entry->name, value, value, value, value);
    if (c->reading != CONFIG_FILE && c->reading != CONFIG_ENVIRONMENT)
        return err_set(e, WARM_EINVALID,
                       "%s: %s needs a unit, such as %sM or %sG, or %sB for bytes", entry->name,
                       value, value, value, value);
    return config_add_text(&c->warnings, &c->n_warnings, text, e);
}

static int config_set_size(struct config *c, uint64_t *out, const struct config_entry *entry,
                           const char *value, struct err *e)
{
    bool is_bare;
    if (!quantity_size(value, out, &is_bare))
        return err_set(e, WARM_EINVALID, "%s: \"%s\" is not a size (such as 512M or 10G)",
                       entry->name, value);
    return is_bare ? config_bare_size(c, entry, value, e) : 0;
}

/* Reads a size; or a percentage, of which config_resolve makes a size. */
static int config_set_share(struct config *c, uint64_t *out, uint64_t *out_percent,
                            const struct config_entry *entry, const char *value, struct err *e)
{
    char digits[8];
    size_t len = strcspn(value, "%");
    if (!value[len]) {
        *out_percent = 0;
        return config_set_size(c, out, entry, value, e);
    }
    snprintf(digits, sizeof digits, "%.*s", (int)len, value);
    if (!value[len + 1] && len < sizeof digits && quantity_count(digits, 100, out_percent))
        return 0;
    return err_set(e, WARM_EINVALID, "%s: \"%s\" is no percentage", entry->name, value);
}

static int config_set_number(uint64_t *out, const struct config_entry *entry, const char *value,
                             struct err *e)
{
    bool is_time = entry->type == CONFIG_TIME;
    if (is_time ? quantity_span(value, out) : quantity_count(value, UINT64_MAX, out))
        return 0;
    return err_set(e, WARM_EINVALID, "%s: \"%s\" is not %s", entry->name, value,
                   is_time ? "a time (such as 500ms, 30s or 10m)" : "a number");
}

static int config_set_text(char **out, const char *value, struct err *e)
{
    char *copy = strdup(value);
    if (!copy)
        return err_set(e, WARM_ENOMEM, "no memory for a setting");
    free(*out);
    *out = copy;
    return 0;
}

static int config_set_entry(struct config *c, enum config_key key, const char *value, struct err *e)
{
    assert(key < CONFIG_KEYS);
    const struct config_entry *entry = &config_entries[key];
    int code = 0;
    if (entry->type == CONFIG_TEXT) {
        code = config_set_text(config_at(c, entry->at), value, e);
    } else if (entry->type == CONFIG_SHARE) {
        code = config_set_share(c, config_at(c, entry->at), config_at(c, entry->count_at), entry,
                                value, e);
    } else if (entry->type == CONFIG_SIZE) {
        code = config_set_size(c, config_at(c, entry->at), entry, value, e);
    } else if (entry->type == CONFIG_LIST_OF_TEXT) {
        char ***list = config_at(c, entry->at);
        size_t *count = config_at(c, entry->count_at);
        if (c->origin[key] != c->reading) {
            config_clear_list(*list, count);
            *list = NULL;
        }
        if (*value)
            code = config_add_text(list, count, value, e);
    } else {
        code = config_set_number(config_at(c, entry->at), entry, value, e);
    }
    if (code == 0)
        c->origin[key] = c->reading;
    return code;
}

bool config_has(const char *name)
{
    for (unsigned i = 0; i < CONFIG_KEYS; i++)
        if (setting_is(name, config_entries[i].name))
            return true;
    return false;
}

const char *config_meant(const char *name)
{
    struct misspelt m = {.word = name};
    for (unsigned i = 0; i < CONFIG_KEYS; i++)
        misspelt_try(&m, config_entries[i].name);
    return misspelt_meant(&m);
}

int config_set(struct config *c, const char *name, const char *value, struct err *e)
{
    enum log_level level;
    enum log_format format;
    for (unsigned i = 0; i < CONFIG_KEYS; i++) {
        if (!setting_is(name, config_entries[i].name))
            continue;
        if (!*config_entries[i].help && c->reading == CONFIG_FILE) {
            /* an older file may have a line for a setting that is gone */
            char text[120];
            snprintf(text, sizeof text, "%s is %s and no setting any more: remove the line",
                     config_entries[i].name, config_entries[i].standard);
            return config_add_text(&c->warnings, &c->n_warnings, text, e);
        }
        if (i == CONFIG_KEY_log_level && !log_level_from_name(value, &level))
            return err_set(e, WARM_EINVALID,
                           "log_level: \"%s\" is none of error, warning, info, debug", value);
        if (i == CONFIG_KEY_log_format && !log_format_from_name(value, &format))
            return err_set(e, WARM_EINVALID, "log_format: \"%s\" is none of text, logfmt, json",
                           value);
        return config_set_entry(c, i, value, e);
    }
    const char *meant = config_meant(name);
    return err_set(e, WARM_EINVALID, "there is no setting \"%s\"%s%s%s", name,
                   meant ? ": did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

int config_init(struct config *out, struct err *e)
{
    *out = (struct config){.reading = CONFIG_DEFAULT};
    for (unsigned i = 0; i < CONFIG_KEYS; i++) {
        int code = config_set_entry(out, i, config_entries[i].standard, e);
        if (code) {
            config_close(out);
            return code;
        }
    }
    out->reading = CONFIG_OPTION;
    return 0;
}

void config_close(struct config *c)
{
    for (unsigned i = 0; i < CONFIG_KEYS; i++) {
        const struct config_entry *entry = &config_entries[i];
        if (entry->type == CONFIG_TEXT)
            free(*config_text_at(c, entry->at));
        if (entry->type == CONFIG_LIST_OF_TEXT)
            config_clear_list(*(char ***)config_at(c, entry->at), config_at(c, entry->count_at));
    }
    config_clear_list(c->warnings, &c->n_warnings);
    free(c->file);
    *c = (struct config){0};
}

/* ---- the file ---- */

/* Puts the place in front of the warnings from `first` on. */
static void config_place_warnings(struct config *c, size_t first, const char *place, unsigned line)
{
    for (size_t i = first; i < c->n_warnings; i++) {
        char *text;
        int n = line ? asprintf(&text, "%s:%u: %s", place, line, c->warnings[i])
                     : asprintf(&text, "%s: %s", place, c->warnings[i]);
        if (n < 0)
            return;
        free(c->warnings[i]);
        c->warnings[i] = text;
    }
}

static int config_read_line(struct config *c, char *line, struct err *e)
{
    char *name, *value;
    if (!setting_line_split(line, &name, &value))
        return err_set(e, WARM_EINVALID, "\"%s\" is not of the form key = value",
                       setting_trim(line));
    return name ? config_set(c, name, value, e) : 0;
}

int config_read_file(struct config *c, const char *path, struct err *e)
{
    free(c->file);
    c->file = strdup(path);
    int owned = owned_path_check(path, "the settings", e);
    if (owned)
        return owned;
    FILE *f = fopen(path, "re");
    if (!f)
        return err_sys(e, WARM_EIO, errno, "cannot read %s", path);
    char line[CONFIG_LINE_MAX];
    int code = 0;
    c->reading = CONFIG_FILE;
    for (unsigned n = 1; code == 0 && fgets(line, sizeof line, f); n++) {
        struct err cause = {0};
        size_t n_warnings = c->n_warnings;
        if (!strchr(line, '\n') && !feof(f))
            code = err_set(&cause, WARM_EINVALID, "longer than %d bytes", CONFIG_LINE_MAX - 2);
        else
            code = config_read_line(c, line, &cause);
        config_place_warnings(c, n_warnings, path, n);
        if (code) {
            err_set(e, code, "%s:%u: %s", path, n, cause.text);
            if (e)
                e->line = n;
        }
    }
    if (code == 0 && ferror(f))
        code = err_sys(e, WARM_EIO, errno, "cannot read %s", path);
    c->reading = CONFIG_OPTION;
    fclose(f);
    return code;
}

/* ---- the environment ---- */

int config_read_environment(struct config *c, struct err *e)
{
    static const struct {
        const char *name;
        enum config_key key;
    } variables[] = {{"WARM_STORE", CONFIG_KEY_store},
                     {"WARM_MAX_SIZE", CONFIG_KEY_max_size},
                     {"WARM_NVRTC", CONFIG_KEY_nvrtc},
                     {"WARM_JOBS", CONFIG_KEY_jobs}};
    int code = 0;
    c->reading = CONFIG_ENVIRONMENT;
    for (size_t i = 0; code == 0 && i < sizeof variables / sizeof *variables; i++) {
        struct err cause = {0};
        size_t n_warnings = c->n_warnings;
        const char *value = getenv(variables[i].name);
        if (value && *value)
            code = config_set_entry(c, variables[i].key, value, &cause);
        config_place_warnings(c, n_warnings, variables[i].name, 0);
        if (code)
            err_set(e, code, "%s: %s", variables[i].name, cause.text);
    }
    c->reading = CONFIG_OPTION;
    return code;
}

/* ---- values that depend on the machine and the user ---- */

static int config_found(struct config *c, enum config_key key, const char *value, struct err *e)
{
    c->reading = CONFIG_FOUND;
    int code = config_set_entry(c, key, value, e);
    c->reading = CONFIG_OPTION;
    return code;
}

static int config_resolve_socket(struct config *c, struct err *e)
{
    char path[PATH_MAX];
    const char *named = getenv("WARM_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (named && *named)
        return config_found(c, CONFIG_KEY_socket, named, e);
    if (geteuid() == 0)
        snprintf(path, sizeof path, "/run/warm/warmd.sock");
    else if (runtime && *runtime == '/')
        snprintf(path, sizeof path, "%s/warm/warmd.sock", runtime);
    else { /* as clients find it (warm_default_socket) */
        snprintf(path, sizeof path, "/run/user/%u", (unsigned)geteuid());
        if (access(path, X_OK) == 0)
            snprintf(path, sizeof path, "/run/user/%u/warm/warmd.sock", (unsigned)geteuid());
        else
            snprintf(path, sizeof path, "/tmp/warm-%u/warmd.sock", (unsigned)geteuid());
    }
    return config_found(c, CONFIG_KEY_socket, path, e);
}

static int config_resolve_store(struct config *c, struct err *e)
{
    char path[PATH_MAX];
    int code = defaults_store(path, sizeof path, e);
    return code ? code : config_found(c, CONFIG_KEY_store, path, e);
}

static int config_resolve_jobs(struct config *c, struct err *e)
{
    cpu_set_t cpus;
    char text[16];
    int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    snprintf(text, sizeof text, "%d", n > JOBS_MAX ? JOBS_MAX : n);
    return config_found(c, CONFIG_KEY_jobs, text, e);
}

/* Writes the folder of this program, with a slash at its end. */
static bool config_own_folder(char out[PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (len < 0)
        return false;
    out[len] = '\0';
    *(strrchr(out, '/') + 1) = '\0';
    return true;
}

/* Finds warm-nvrtc: beside warmd, or in ../libexec/warm of its folder. */
static int config_resolve_worker(struct config *c, struct err *e)
{
    static const char *const places[] = {"warm-nvrtc", "../libexec/warm/warm-nvrtc"};
    char self[PATH_MAX], path[PATH_MAX + 32];
    if (!config_own_folder(self))
        return err_sys(e, WARM_EIO, errno, "cannot tell where warmd is: use --worker PATH");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s", self, places[i]);
        if (access(path, X_OK) == 0)
            break;
    }
    return config_found(c, CONFIG_KEY_worker, path, e);
}

static int config_order_libraries(const void *a, const void *b)
{
    return -strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the newest libnvrtc of a folder, unless the list has the same file. */
static int config_find_nvrtc(struct config *c, const char *folder, struct err *e)
{
    char pattern[PATH_MAX], real[PATH_MAX], known[PATH_MAX];
    snprintf(pattern, sizeof pattern, "%s/libnvrtc.so.[0-9]*", folder);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, config_order_libraries);
    bool fresh = realpath(found.gl_pathv[0], real) != NULL;
    for (size_t i = 0; fresh && i < c->n_nvrtc; i++)
        fresh = !realpath(c->nvrtc[i], known) || strcmp(known, real) != 0;
    int code =
        fresh && c->n_nvrtc < CONFIG_LIST_MAX ? config_found(c, CONFIG_KEY_nvrtc, real, e) : 0;
    globfree(&found);
    return code;
}

static int config_find_nvrtc_in(struct config *c, const char *folders, struct err *e)
{
    glob_t found;
    if (glob(folders, GLOB_ONLYDIR, NULL, &found) != 0)
        return 0;
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, config_order_libraries);
    int code = 0;
    for (size_t i = 0; code == 0 && i < found.gl_pathc; i++)
        code = config_find_nvrtc(c, found.gl_pathv[i], e);
    globfree(&found);
    return code;
}

/* Finds NVRTC: in the toolkit that the environment names, on the loader's path, where toolkits are
 * installed; else in the toolchain of the build tree that this program is in. */
static int config_resolve_nvrtc(struct config *c, struct err *e)
{
    static const char *const homes[] = {"CUDA_HOME", "CUDA_PATH"};
    static const char *const folders[] = {"/usr/local/cuda/lib64",
                                          "/usr/local/cuda" CUDA_TARGET_LIB,
                                          "/usr/local/cuda-*/lib64",
                                          "/usr/local/cuda-*" CUDA_TARGET_LIB,
                                          "/opt/cuda/lib64",
                                          "/opt/cuda" CUDA_TARGET_LIB,
                                          "/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/usr/lib64"};
    static const char *const below[] = {"/lib64", CUDA_TARGET_LIB};
    char path[PATH_MAX], self[PATH_MAX], built[PATH_MAX + 32];
    int code = 0;
    for (size_t i = 0; code == 0 && i < 4; i++) {
        const char *home = getenv(homes[i / 2]);
        if (home && *home == '/' &&
            snprintf(path, sizeof path, "%s%s", home, below[i % 2]) < PATH_MAX)
            code = config_find_nvrtc(c, path, e);
    }
    const char *at = getenv("LD_LIBRARY_PATH");
    while (code == 0 && at && *at) {
        size_t len = strcspn(at, ":");
        if (len && len < sizeof path && *at == '/') {
            snprintf(path, sizeof path, "%.*s", (int)len, at);
            code = config_find_nvrtc(c, path, e);
        }
        at += len + (at[len] == ':');
    }
    for (size_t i = 0; code == 0 && i < sizeof folders / sizeof *folders; i++)
        code = config_find_nvrtc_in(c, folders[i], e);
    if (code == 0 && c->n_nvrtc == 0 && config_own_folder(self)) {
        snprintf(built, sizeof built, "%s../toolchain/*/lib", self);
        code = config_find_nvrtc_in(c, built, e);
    }
    return code;
}

static int config_resolve_nvrtc_from(struct config *c, struct err *e)
{
    int code = config_found(c, CONFIG_KEY_nvrtc_from, "/usr", e);
    return code ? code : config_found(c, CONFIG_KEY_nvrtc_from, "/opt", e);
}

/* Lowers a size that nobody has set to a part of the store's file system. */
static void config_resolve_room(struct config *c)
{
    static const enum config_key keys[] = {CONFIG_KEY_max_size, CONFIG_KEY_min_free};
    uint64_t *const sizes[] = {&c->max_size, &c->min_free};
    uint64_t total, unused;
    if (!room_of(c->store, &total, &unused))
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t most = total / ROOM_SHARE > ROOM_LEAST ? total / ROOM_SHARE : ROOM_LEAST;
        if (c->origin[keys[i]] != CONFIG_DEFAULT || *sizes[i] <= most)
            continue;
        *sizes[i] = most;
        c->origin[keys[i]] = CONFIG_FOUND;
    }
}

int config_check_store(const char *store, struct err *e)
{
    char part[PATH_MAX];
    int code = owned_path_check(store, "the store", e);
    for (size_t i = 0; code == 0 && store_parts[i]; i++) {
        snprintf(part, sizeof part, "%s/%s", store, store_parts[i]);
        code = owned_path_check(part, "the store", e);
    }
    return code;
}

/* Checks what the daemon will believe, before it reads any of it. Only a named worker counts: one beside
 * warmd is as good as warmd. */
static int config_check_owners(const struct config *c, struct err *e)
{
    int code = config_check_store(c->store, e);
    if (code == 0 && c->origin[CONFIG_KEY_worker] != CONFIG_FOUND)
        code = owned_path_check(c->worker, "the worker", e);
    return code;
}

int config_resolve(struct config *c, struct err *e)
{
    int code = 0;
    if (!*c->socket)
        code = config_resolve_socket(c, e);
    if (code == 0 && !*c->store)
        code = config_resolve_store(c, e);
    if (code == 0)
        config_resolve_room(c);
    /* A user's own daemon protects nobody from that user. */
    if (c->origin[CONFIG_KEY_quota] == CONFIG_DEFAULT && geteuid() != 0)
        c->quota_percent = c->quota = 0;
    if (c->quota_percent)
        c->quota = c->max_size / 100 * c->quota_percent;
    if (code == 0 && c->jobs == 0)
        code = config_resolve_jobs(c, e);
    if (code == 0 && !*c->worker)
        code = config_resolve_worker(c, e);
    if (code == 0 && c->n_nvrtc == 0)
        code = config_resolve_nvrtc(c, e);
    if (code == 0 && c->n_nvrtc_from == 0)
        code = config_resolve_nvrtc_from(c, e);
    if (code == 0)
        code = config_check_owners(c, e);
    return code;
}

/* ---- texts for people ---- */

void config_help(struct writer *out)
{
    static const char *const placeholders[] = {"TEXT", "SIZE", "N", "TIME", "PATH", "SIZE|N%"};
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_entry *entry = &config_entries[i];
        char option[64];
        if (!*entry->help)
            continue;
        int n = snprintf(option, sizeof option, "--%s %s", entry->name, placeholders[entry->type]);
        for (int k = 2; k < n; k++)
            option[k] = option[k] == '_' ? '-' : option[k];
        writer_format(out, "  %s\n        %s", option, entry->help);
        if (*entry->standard)
            writer_format(out, " [%s]", entry->standard);
        writer_format(out, "\n");
    }
}

static void config_write_value(const struct config *c, const struct config_entry *entry,
                               struct writer *out)
{
    if (entry->type == CONFIG_TEXT) {
        const char *text = *config_text_at(c, entry->at);
        json_write_text(out, text, strlen(text));
    } else if (entry->type == CONFIG_LIST_OF_TEXT) {
        char *const *list = (char **)*config_text_at(c, entry->at);
        writer_u8(out, '[');
        for (size_t i = 0; i < config_count_at(c, entry->count_at); i++) {
            writer_bytes(out, ", ", i ? 2 : 0);
            json_write_text(out, list[i], strlen(list[i]));
        }
        writer_u8(out, ']');
    } else {
        writer_format(out, "%llu", (unsigned long long)config_number_at(c, entry->at));
    }
}

void config_write_json(const struct config *c, struct writer *out)
{
    static const char *const origins[] = {"default", "found", "file", "environment", "option"};
    static const char *const units[] = {"", "_bytes", "", "_ms", "", "_bytes"};
    writer_u8(out, '{');
    for (size_t i = 0; i < CONFIG_KEYS; i++) {
        const struct config_entry *entry = &config_entries[i];
        if (!*entry->help)
            continue;
        writer_format(out, "%s\"%s%s\": {\"value\": ", i ? ", " : "", entry->name,
                      units[entry->type]);
        config_write_value(c, entry, out);
        writer_format(out, ", \"origin\": \"%s\"}", origins[c->origin[i]]);
    }
    writer_u8(out, '}');
}

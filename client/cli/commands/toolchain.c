/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain.c - `warm toolchain`: the NVRTCs that the daemon knows, those on this machine, and how to
 * make it know another. main.c calls it.
 *
 * A library is known by its content, so `find` compares identities, not paths.
 *
 * Thread: main.
 */
#include <assert.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/remote.h"
#include "client/cli/run/settings.h"
#include "client/lib/nvrtc_id.h"

#define LIBRARY "libnvrtc.so"
#define FOUND_MAX 64u

/* ---- list ---- */

static void print_field(struct view object, const char *name, const char *format)
{
    char text[PATH_MAX];
    json_reader_copy(object, name, text, sizeof text);
    printf(format, text);
}

static int print_json(struct view info)
{
    static const char *const names[] = {"toolchains", "refused"};
    printf("{\"schema\": %u", JSON_SCHEMA);
    for (size_t i = 0; i < 2; i++) {
        struct view value = {"[]", 2};
        json_reader_find(info, names[i], &value);
        printf(", \"%s\": %.*s", names[i], (int)value.len, (const char *)value.data);
    }
    puts("}");
    return CLI_OK;
}

static int list(struct remote *r)
{
    struct wire_text text;
    struct view all, item;
    size_t n = 0;
    int status = remote_text(r, WIRE_INFO, &text);
    if (status || r->as_json)
        return status ? status : print_json(text.text);
    if (json_reader_find(text.text, "toolchains", &all))
        for (; json_reader_item(all, n, &item); n++) {
            print_field(item, "text", n ? "%s\n" : "%s (the default)\n");
            print_field(item, "path", "  path     %s\n");
            print_field(item, "id", "  id       %s\n");
            print_field(item, "archs", "  targets  %s\n");
        }
    if (json_reader_find(text.text, "refused", &all))
        for (size_t i = 0; json_reader_item(all, i, &item); i++) {
            print_field(item, "path", "not used: %s\n");
            print_field(item, "why", "  %s\n");
        }
    if (n == 0)
        puts("The daemon has no NVRTC, so programs compile CUDA C++ themselves. To change that:\n"
             "  pip install nvidia-cuda-nvrtc     # or install a CUDA toolkit\n"
             "  warm toolchain find               # where it is\n"
             "  warm toolchain add PATH && warm daemon restart");
    return n ? CLI_OK : CLI_FINDING;
}

/* ---- find ---- */

struct found {
    char *path[FOUND_MAX]; /* without links */
    size_t n;
};

/* Adds the library of a folder, once. */
static void add_folder(struct found *f, const char *folder)
{
    char name[NAME_MAX + 1], path[PATH_MAX];
    if (f->n == FOUND_MAX || !nvrtc_newest_entry(folder, LIBRARY, name) ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return;
    assert(f->n < FOUND_MAX);
    char *real = realpath(path, NULL);
    for (size_t i = 0; real && i < f->n; i++)
        if (strcmp(f->path[i], real) == 0) {
            free(real);
            return;
        }
    if (real)
        f->path[f->n++] = real;
}

/* Adds those of all folders that match. */
static void add_pattern(struct found *f, const char *base, const char *pattern)
{
    char text[PATH_MAX];
    glob_t g;
    if (!base || !*base || snprintf(text, sizeof text, "%s%s", base, pattern) >= (int)sizeof text ||
        glob(text, 0, NULL, &g) != 0)
        return;
    for (size_t i = 0; i < g.gl_pathc; i++)
        add_folder(f, g.gl_pathv[i]);
    globfree(&g);
}

static void add_python(struct found *f, const char *prefix)
{
    add_pattern(f, prefix, "/lib/python3*/site-packages/nvidia/c*/lib");
    add_pattern(f, prefix, "/lib/python3*/dist-packages/nvidia/c*/lib");
}

/* Adds the libraries of the Python that PATH finds first. */
static void add_path_python(struct found *f)
{
    const char *path = getenv("PATH");
    char folder[PATH_MAX];
    for (size_t len; path && *path; path += len + (path[len] == ':')) {
        len = strcspn(path, ":");
        if (snprintf(folder, sizeof folder, "%.*s/python3", (int)len, path) >= (int)sizeof folder ||
            access(folder, X_OK) != 0)
            continue;
        strcpy(strrchr(folder, '/'), "/..");
        add_python(f, folder);
        return;
    }
}

static void search(struct found *f)
{
    static const char *const toolkits[] = {"CUDA_HOME", "CUDA_PATH"};
    for (size_t i = 0; i < 2; i++) {
        add_pattern(f, getenv(toolkits[i]), "/lib64");
        add_pattern(f, getenv(toolkits[i]), "/lib");
        add_pattern(f, getenv(toolkits[i]), CUDA_TARGET_LIB);
    }
    const char *path = getenv("LD_LIBRARY_PATH");
    char folder[PATH_MAX];
    for (size_t len; path && *path; path += len + (path[len] == ':')) {
        len = strcspn(path, ":");
        if (len && snprintf(folder, sizeof folder, "%.*s", (int)len, path) < (int)sizeof folder)
            add_folder(f, folder);
    }
    add_python(f, getenv("VIRTUAL_ENV"));
    add_python(f, getenv("CONDA_PREFIX"));
    add_pattern(f, getenv("CONDA_PREFIX"), "/lib");
    add_pattern(f, getenv("CONDA_PREFIX"), CUDA_TARGET_LIB);
    add_path_python(f);
    add_pattern(f, getenv("HOME"), "/.local/lib/python3*/site-packages/nvidia/c*/lib");
    add_pattern(f, "/usr/local", "/cuda*/lib64");
    add_pattern(f, "/usr/local", "/cuda*" CUDA_TARGET_LIB);
    add_pattern(f, "/opt", "/cuda*/lib64");
    add_pattern(f, "/opt", "/cuda*" CUDA_TARGET_LIB);
    add_pattern(f, "/usr", "/lib64");
    add_pattern(f, "/usr", "/lib/x86_64-linux-gnu");
    add_pattern(f, "/usr", "/lib/aarch64-linux-gnu");
}

/* True if the daemon has a library with this content. */
static bool daemon_has(struct view info, const struct key *id)
{
    struct view all, item;
    char want[WARM_KEY_TEXT], text[WARM_KEY_TEXT] = "";
    key_to_text(id, want);
    if (json_reader_find(info, "toolchains", &all))
        while (strcmp(text, want) != 0 && json_reader_next(&all, &item))
            json_reader_copy(item, "id", text, sizeof text);
    return strcmp(text, want) == 0;
}

/* Prints a library, as JSON if there is a writer. */
static void print_found(struct json *j, const char *path, const char *state)
{
    if (!j) {
        printf("%-8s %s\n", state, path);
        return;
    }
    json_open(j, '{');
    json_key(j, "path"), json_text(j, path);
    json_key(j, "state"), json_text(j, state);
    json_close(j, '}');
}

static int find(struct remote *r)
{
    struct wire_text text;
    struct found f = {.n = 0};
    struct key id[FOUND_MAX];
    bool readable[FOUND_MAX];
    search(&f);
    for (size_t i = 0; i < f.n; i++) /* before INFO, which is borrowed from the connection */
        readable[i] = request_nvrtc_id(r->w, f.path[i], &id[i]);
    int status = remote_text(r, WIRE_INFO, &text);
    struct json j = {.out = stdout};
    if (!status && r->as_json)
        json_open(&j, '[');
    for (size_t i = 0; i < f.n; i++) {
        if (!status)
            print_found(r->as_json ? &j : NULL, f.path[i],
                        !readable[i]                    ? "damaged"
                        : daemon_has(text.text, &id[i]) ? "known"
                                                        : "new");
        free(f.path[i]);
    }
    if (!status && r->as_json)
        json_close(&j, ']');
    else if (!status && !f.n)
        puts("no NVRTC found: `pip install nvidia-cuda-nvrtc`, or install a CUDA toolkit");
    return status ? status : f.n ? CLI_OK : CLI_FINDING;
}

/* ---- add ---- */

static int add(const char *given, const char *socket)
{
    char name[NAME_MAX + 1];
    struct stat st;
    char *path = realpath(given, NULL);
    int status = CLI_USAGE;
    if (!path || stat(path, &st) != 0)
        cli_say("%s: there is nothing", given);
    else if (S_ISDIR(st.st_mode) && !nvrtc_newest_entry(path, LIBRARY, name))
        cli_say("%s: there is no " LIBRARY " in it", given);
    else if (!S_ISDIR(st.st_mode) && strncmp(strrchr(path, '/') + 1, LIBRARY, strlen(LIBRARY)) != 0)
        cli_say("%s is no " LIBRARY, given);
    else
        status = settings_add("nvrtc", path);
    if (!status) {
        struct warm *w;
        struct warm_options options = {.socket = socket,
                                       .connect_timeout_ms = DEADLINE_PERSON_CONNECT_MS};
        bool of_another = false;
        if (warm_open(&w, &options) == 0) {
            of_another = request_connect(w) == 0 && w->conn.daemon_uid != geteuid();
            warm_close(w);
        }
        puts("The daemon uses only the libraries that the file names, and reads it after "
             "`warm daemon restart`.");
        if (of_another)
            puts("The daemon that answers is another user's, which has its own file.");
    }
    free(path);
    return status;
}

static int toolchain_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    int status;
    if (!remote_options(&r, self, argc, argv, &status))
        return status;
    int n = argc - optind;
    const char *verb = n ? argv[optind] : "";
    bool lists = strcmp(verb, "list") == 0;
    if (strcmp(verb, "add") == 0 && n == 2)
        return add(argv[optind + 1], r.socket);
    if ((!lists && strcmp(verb, "find") != 0) || n != 1)
        return cli_usage(self, "it takes list, find or add PATH");
    status = remote_open(&r);
    if (status)
        return status;
    status = lists ? list(&r) : find(&r);
    remote_close(&r);
    return status;
}

const struct command cmd_toolchain = {
    .name = "toolchain",
    .run = toolchain_run,
    .summary = "Show, find or add an NVRTC",
    .synopsis = "list|find|add PATH [--json]",
    .help =
        "list prints the NVRTCs that the daemon compiles with, and why another is not used.\n"
        "find prints those on this machine: known (the daemon has this content), new or damaged.\n"
        "It looks into CUDA toolkits, LD_LIBRARY_PATH, and the environments of Python and Conda.\n"
        "add writes a library, or a folder that has one, into this user's file of "
        "settings.\n\n" REMOTE_HELP "\nExample:\n"
        "  $ warm toolchain add .venv/lib/python3.11/site-packages/nvidia/cu13/lib\n"
        "  $ warm daemon restart\n",
};

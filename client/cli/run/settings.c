/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - changes this user's file of the daemon's settings. `warm config` and `warm toolchain` call it.
 *
 * A change goes into a new file beside the old one. `warmd --check-config` reads it, so that one parser
 * decides; only then it takes the old one's place. If the path is a link, both are where it leads.
 *
 * Thread: main.
 */
#include "client/cli/run/settings.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/output.h"
#include "client/cli/run/run.h"
#include "client/lib/request.h"
#include "tier/setting_line.h"

bool settings_path(char out[PATH_MAX])
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

const char *settings_cut_unit(char *name)
{
    assert(name);
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

/* Writes where the path leads through links: the path itself if there is no file yet. */
static bool follow(const char *path, char out[PATH_MAX])
{
    struct stat st;
    if (realpath(path, out))
        return true;
    if (errno != ENOENT)
        cli_say("%s: %s", path, strerror(errno));
    else if (lstat(path, &st) == 0)
        cli_say("%s: a link to a file that does not exist", path);
    else
        return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    return false;
}

/* True if a line of the file sets `key`. */
static bool sets(const char *line, const char *key)
{
    line += strspn(line, " \t");
    size_t len = strcspn(line, " \t=");
    char name[64];
    return len < sizeof name && line[len + strspn(line + len, " \t")] == '=' &&
           (snprintf(name, sizeof name, "%.*s", (int)len, line), setting_is(name, key));
}

/* Copies the file with the new value: in the place of the old one, else at the end. With `add` the old ones
 * stay. */
static bool write_changed(FILE *from, FILE *to, const char *key, const char *value, bool add)
{
    char *line = NULL;
    size_t cap = 0;
    bool done = false, ended = true;
    while (from && getline(&line, &cap, from) > 0) {
        if (add || !sets(line, key)) {
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

/* Reads what a child says, to its end. */
static size_t read_all(int fd, char *out, size_t cap)
{
    size_t len = 0;
    for (ssize_t n; len + 1 < cap;) {
        n = read(fd, out + len, cap - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    return len;
}

/* Runs `warmd --check-config FILE [--KEY VALUE]`. True if warmd accepts both; `said` has what it says. */
static bool ask_warmd(const char *file, const char *key, const char *value, char *said, size_t cap)
{
    struct run_places places;
    char program[PATH_MAX], name[] = "warmd", check[] = "--check-config", option[80];
    char *argv[] = {
        name, check, (char *)(uintptr_t)file, key ? option : NULL, (char *)(uintptr_t)value, NULL};
    int status, pipe_fds[2];
    assert(!key == !value);
    *said = '\0';
    if (!run_places_fill(&places, NULL) || pipe2(pipe_fds, O_CLOEXEC) < 0)
        return false;
    snprintf(option, sizeof option, "--%s", key ? key : "");
    run_find_warmd(&places, program);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_fds[1], STDERR_FILENO);
        execvp(program, argv);
        cli_say("%s: %s", program, strerror(errno));
        _exit(127);
    }
    close(pipe_fds[1]);
    read_all(pipe_fds[0], said, cap);
    close(pipe_fds[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* True if warmd accepts the new file, and the value as that of an option, which is stricter. Prints what warmd
 * says, with the user's own file in place of the new one. */
static bool warmd_accepts(const char *fresh, const char *path, const char *key, const char *value)
{
    char said[4096];
    const char *text = said;
    bool accepts = ask_warmd(fresh, key, value, said, sizeof said);
    for (const char *at; (at = strstr(text, fresh)); text = at + strlen(fresh))
        fprintf(stderr, "%.*s%s", (int)(at - text), text, path);
    fputs(text, stderr);
    return accepts;
}

bool settings_check(const char *path, char *said, size_t cap)
{
    assert(path && said && cap);
    static const char by[] = "warmd: ";
    bool accepts = ask_warmd(path, NULL, NULL, said, cap);
    said[strcspn(said, "\n")] = '\0';
    if (strncmp(said, by, strlen(by)) == 0)
        memmove(said, said + strlen(by), strlen(said + strlen(by)) + 1);
    return accepts;
}

/* Changes the file. Returns an exit status. */
static int change(const char *key, const char *value, bool add)
{
    assert(key && value);
    char path[PATH_MAX], file[PATH_MAX], fresh[PATH_MAX + 8], name[64];
    struct stat st;
    int status = CLI_USAGE;
    snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (strpbrk(key, "\n=# \t") || strchr(value, '\n')) {
        cli_say("a setting is one line");
        return CLI_USAGE;
    }
    if (!settings_path(path))
        return CLI_FINDING;
    int errnum = output_make_folders(path, 0755, file);
    if (errnum)
        cli_say("%s: %s", file, strerror(errnum));
    if (errnum || !follow(path, file))
        return CLI_FINDING;
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", file);
    int fd = mkstemp(fresh);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL, *from = fopen(file, "re");
    if (!to || (!from && errno != ENOENT)) {
        cli_say("%s: %s", file, strerror(errno));
        status = CLI_FINDING;
    } else if (fchmod(fd, from && fstat(fileno(from), &st) == 0 ? st.st_mode & 07777 : 0644) != 0 ||
               !write_changed(from, to, name, value, add)) {
        cli_say("%s: %s", fresh, strerror(errno));
        status = CLI_FINDING;
    } else if (warmd_accepts(fresh, path, name, value)) {
        status = rename(fresh, file) == 0 ? CLI_OK : CLI_FINDING;
        if (status)
            cli_say("%s: %s", file, strerror(errno));
    }
    if (from)
        fclose(from);
    if (to)
        fclose(to);
    if (status && fd >= 0)
        unlink(fresh);
    if (!status)
        printf("%s: %s = %s\n", path, name, value);
    return status;
}

/* True for settings that a daemon reads only when it starts. */
static bool needs_restart(const char *key)
{
    static const char *const fixed[] = {"socket",     "admin",  "store",      "nvrtc",
                                        "nvrtc_from", "worker", "trust_group"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (setting_is(key, fixed[i]))
            return true;
    return strncmp(key, "tier", 4) == 0;
}

int settings_set(const char *key, const char *value)
{
    int status = change(key, value, false);
    if (!status) {
        struct warm *w = NULL;
        if (warm_open(&w, NULL) != 0 || request_connect(w) != 0)
            puts("no daemon runs now: the next one reads it");
        else if (w->conn.daemon_uid != geteuid())
            printf(
                "%s is a daemon of uid %u with settings of its own: this file is for a daemon of "
                "yours\n",
                w->socket, (unsigned)w->conn.daemon_uid);
        else
            printf("`warm daemon %s` makes your daemon read it\n",
                   needs_restart(key) ? "restart" : "reload");
        warm_close(w);
    }
    return status;
}

int settings_add(const char *key, const char *value) { return change(key, value, true); }

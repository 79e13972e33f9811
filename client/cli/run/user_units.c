/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_units.c - `warm daemon install` and `uninstall`: hands the user's own daemon to systemd.
 *
 *   1. the units of this installation: PREFIX/share/systemd/user or PREFIX/lib/systemd/user
 *   2. if systemd does not look there: copies in ~/.config/systemd/user, with this installation's warmd
 *   3. systemctl --user daemon-reload, enable --now
 *
 * Failures: no units (a build tree); a folder that cannot be written; no systemd for this user. Each is
 * one line. Copies that were written stay: systemd finds them at the next login.
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

#include "client/cli/cli.h"
#include "client/cli/output.h"
#include "client/cli/run/run.h"

#define UNIT_MAX 16384 /* bytes of a unit's text */
#define N_UNITS 2
static const char *const units[N_UNITS] = {"warmd.socket", "warmd.service"};

/* Writes the folder of this installation's units. False if there is none. */
static bool find_units(const struct run_places *places, char out[PATH_MAX])
{
    static const char *const below[] = {"share/systemd/user", "lib/systemd/user"};
    char unit[PATH_MAX];
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (snprintf(out, PATH_MAX, "%s/%s", places->prefix, below[i]) < PATH_MAX &&
            snprintf(unit, sizeof unit, "%s/%s", out, units[0]) < (int)sizeof unit &&
            access(unit, R_OK) == 0)
            return true;
    return false;
}

/* True if systemd looks for users' units below this prefix (systemd.unit(5), "Unit File Load Path"). */
static bool is_searched(const char *prefix)
{
    const char *home = getenv("HOME");
    char local[PATH_MAX];
    snprintf(local, sizeof local, "%s/.local", home ? home : "");
    return strcmp(prefix, "/usr") == 0 || strcmp(prefix, "/usr/local") == 0 ||
           strcmp(prefix, local) == 0;
}

/* Writes the user's folder of units. False without a home. */
static bool user_folder(char out[PATH_MAX])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = config && *config == '/' ? snprintf(out, PATH_MAX, "%s/systemd/user", config)
            : home && *home == '/'   ? snprintf(out, PATH_MAX, "%s/.config/systemd/user", home)
                                     : PATH_MAX;
    if (n >= PATH_MAX)
        cli_say("neither XDG_CONFIG_HOME nor HOME names a folder for the units");
    return n < PATH_MAX;
}

/* Copies a unit; the line ExecStart names this installation's warmd. 0, or an errno. */
static int copy_unit(const char *from, const char *to, const char *warmd)
{
    char line[1024];
    FILE *in = fopen(from, "re"), *out = in ? fopen(to, "we") : NULL;
    int errnum = out ? 0 : errno;
    while (out && fgets(line, sizeof line, in))
        if (strncmp(line, "ExecStart=", 10) == 0)
            fprintf(out, "ExecStart=%s\n", warmd);
        else
            fputs(line, out);
    if (out && (ferror(in) || ferror(out)))
        errnum = EIO;
    if (out && fclose(out) != 0 && !errnum)
        errnum = errno;
    if (in)
        fclose(in);
    return errnum;
}

/* Copies both units of `from` into the user's folder, which it makes. False after printing the reason. */
static bool copy_units(const struct run_places *places, const char *from)
{
    char folder[PATH_MAX], source[PATH_MAX + 16], target[PATH_MAX + 16], warmd[PATH_MAX];
    if (!user_folder(folder))
        return false;
    run_find_warmd(places, warmd);
    snprintf(source, sizeof source, "%s/", folder);
    int errnum = output_make_folders(source, 0700, target);
    for (size_t i = 0; i < N_UNITS && errnum == 0; i++) {
        snprintf(source, sizeof source, "%s/%s", from, units[i]);
        snprintf(target, sizeof target, "%s/%s", folder, units[i]);
        if ((errnum = copy_unit(source, target, warmd)) == 0)
            printf("wrote %s\n", target);
    }
    if (errnum)
        cli_say("%s: %s", target, strerror(errnum));
    return errnum == 0;
}

/* Runs `systemctl --user` with up to four more arguments. True if it ends with 0. */
static bool systemctl(const char *a, const char *b, const char *c, const char *d)
{
    const char *argv[] = {"systemctl", "--user", a, b, c, d, NULL};
    int status;
    fflush(stdout); /* its lines come behind ours */
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool reload(void) { return systemctl("daemon-reload", NULL, NULL, NULL); }

int run_units_install(const struct run_places *places)
{
    char from[PATH_MAX];
    if (!find_units(places, from)) {
        cli_say("%s has no units for systemd: a build tree or a copy of the program alone",
                places->prefix);
        return CLI_FINDING;
    }
    if (!is_searched(places->prefix) && !copy_units(places, from))
        return CLI_FINDING;
    if (!reload() || !systemctl("enable", "--now", units[0], NULL)) {
        cli_say("systemctl --user failed: is there a systemd for this user? `warm run` starts a "
                "daemon without it");
        return CLI_FINDING;
    }
    printf("systemd starts the daemon when the first client connects\n");
    return CLI_OK;
}

int run_units_uninstall(void)
{
    char folder[PATH_MAX], unit[PATH_MAX + 16];
    if (!user_folder(folder))
        return CLI_FINDING;
    bool off = systemctl("disable", "--now", units[0], units[1]);
    for (size_t i = 0; i < N_UNITS; i++) {
        snprintf(unit, sizeof unit, "%s/%s", folder, units[i]);
        if (unlink(unit) == 0)
            printf("removed %s\n", unit);
        else if (errno != ENOENT)
            cli_say("%s: %s", unit, strerror(errno)), off = false;
    }
    return off && reload() ? CLI_OK : CLI_FINDING;
}

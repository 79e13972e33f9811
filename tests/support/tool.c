/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool.c - runs shell commands with `warm tool` beside a daemon of its own, and counts in the tool's
 * debug file what the tool did. The suites of `warm tool` call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/tool.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/support.h"

bool lab_up(struct lab *lab) { return lab_up_with(lab, NULL); }

bool lab_up_with(struct lab *lab, char *const *options)
{
    char *bin = bin_path("warm");
    lab->warm = bin;
    cr_assert(asprintf(&lab->trace, "%.*s/libexec/warm/libwarm-trace.so",
                       (int)(strlen(bin) - strlen("/bin/warm")), bin) > 0);
    if (access(lab->trace, R_OK) < 0) {
        free(lab->trace);
        free(bin);
        fprintf(stderr, "skipped: no libwarm-trace.so in this build\n");
        return false;
    }
    lab->d = warmd_up(options);
    lab->debug = path_join(lab->d.dir, "debug");
    return true;
}

void lab_down(struct lab *lab)
{
    free(lab->warm);
    free(lab->debug);
    free(lab->trace);
    warmd_down(&lab->d);
}

void write_text(struct lab *lab, const char *name, const char *text)
{
    char *path = path_join(lab->d.dir, name);
    file_write(path, text, strlen(text));
    free(path);
}

int sh(struct lab *lab, char **out, const char *format, ...)
{
    char *command, *text;
    va_list args;
    va_start(args, format);
    cr_assert(vasprintf(&command, format, args) >= 0);
    va_end(args);
    int status = run_command(
        &text,
        "cd %s && export LC_ALL=C WARM_SOCKET=%s WARM_TIMEOUT_MS=30000 WARM_TOOL_DEBUG=%s "
        "T='%s tool --argv0' && "
        "unset WARM_DISABLE WARM_READONLY WARM_RECACHE && { %s; } 2>&1",
        lab->d.dir, lab->d.socket, lab->debug, lab->warm, command);
    if (out)
        *out = text;
    else
        free(text);
    free(command);
    return status;
}

int told(struct lab *lab, const char *what)
{
    char *text, *line;
    int n = 0;
    if (access(lab->debug, R_OK) < 0)
        return 0;
    size_t len;
    text = file_read(lab->debug, &len);
    for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        n += strncmp(line, what, strlen(what)) == 0;
    free(text);
    return n;
}

void forget(struct lab *lab) { unlink(lab->debug); }

void expect_told(struct lab *lab, const char *what, int n)
{
    int seen = told(lab, what);
    if (seen != n) {
        char *text;
        sh(lab, &text, "cat %s", lab->debug);
        cr_assert_fail("%d times `%s`, not %d: %s", seen, what, n, text);
    }
    forget(lab);
}

void expect_cached(struct lab *lab, const char *command)
{
    forget(lab);
    cr_assert_eq(sh(lab, NULL, "%s", command), 0, "%s", command);
    cr_assert_eq(sh(lab, NULL, "%s", command), 0, "%s", command);
    cr_assert_eq(told(lab, "hit"), 1, "%s", command);
    expect_told(lab, "miss", 1);
}

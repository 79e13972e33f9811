/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - decides how an output file is written: beside its place and renamed, exchanged, or in
 * place. The commands compile and get call it, and the formats of cache folders.
 *
 * Thread: main.
 */
#include "client/cli/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/lib/whole_io.h"

static int write_in_place(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno;
    int error = whole_write(fd, data, len);
    if (close(fd) < 0 && !error)
        error = errno;
    return error;
}

/* Puts a file in the place of another. A rename makes ext4 write the new file out at once, which
 * takes longer than a whole hit; an exchange is as atomic and does not. */
static int replace(const char *temporary, const char *path)
{
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return unlink(temporary) == 0 ? 0 : errno;
    return rename(temporary, path) == 0 ? 0 : errno; /* no file there, or no support for it */
}

static int write_and_rename(const char *path, const void *data, size_t len)
{
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary)
        return ENAMETOOLONG;
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return errno;
    int error = whole_write(fd, data, len);
    if (close(fd) < 0 && !error)
        error = errno;
    if (!error)
        error = replace(temporary, path);
    if (error)
        unlink(temporary);
    return error;
}

bool output_goes_in_place(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

int output_write(const char *path, const void *data, size_t len)
{
    assert(path && (data || len == 0));
    int error;
    if (strcmp(path, "-") == 0)
        error = whole_write(STDOUT_FILENO, data, len);
    else if (output_goes_in_place(path))
        error = write_in_place(path, data, len);
    else
        error = write_and_rename(path, data, len);
    if (error)
        cli_say("cannot write %s: %s", path, strerror(error));
    return error ? CLI_USAGE : 0;
}

int output_make_folders(const char *path, mode_t mode, char out_failed[PATH_MAX])
{
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(out_failed, PATH_MAX, "%.*s", (int)(slash - path), path);
        if (mkdir(out_failed, mode) != 0 && errno != EEXIST && access(out_failed, X_OK) != 0)
            return errno;
    }
    return 0;
}

bool output_name(const char *file, const char *ending, char out[PATH_MAX])
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    int len = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    int n = snprintf(out, PATH_MAX, "%.*s.%s", len, base, ending);
    return n > 0 && n < PATH_MAX;
}

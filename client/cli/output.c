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

/* Writes all bytes. 0 or an errno. */
static int write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int write_in_place(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno;
    int error = write_all(fd, data, len);
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
    int error = write_all(fd, data, len);
    if (close(fd) < 0 && !error)
        error = errno;
    if (!error)
        error = replace(temporary, path);
    if (error)
        unlink(temporary);
    return error;
}

int output_write(const char *path, const void *data, size_t len)
{
    assert(path && (data || len == 0));
    struct stat st;
    int error;
    if (strcmp(path, "-") == 0)
        error = write_all(STDOUT_FILENO, data, len);
    else if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* /dev/null, a pipe, a link */
        error = write_in_place(path, data, len);
    else
        error = write_and_rename(path, data, len);
    if (error)
        cli_say("cannot write %s: %s", path, strerror(error));
    return error ? CLI_USAGE : 0;
}

bool output_name(const char *file, const char *ending, char out[PATH_MAX])
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    int len = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    int n = snprintf(out, PATH_MAX, "%.*s.%s", len, base, ending);
    return n > 0 && n < PATH_MAX;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whole_io.h - reads and writes all bytes that were asked for, in as many calls as the kernel wants.
 *
 * Thread: any. Memory: nothing is owned.
 */
#ifndef WARM_CLIENT_WHOLE_IO_H
#define WARM_CLIENT_WHOLE_IO_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* Writes `len` bytes. Returns 0, or an errno. */
static inline int whole_write(int fd, const void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, (const char *)data + done, len - done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return n < 0 ? errno : EIO;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Reads `len` bytes of a file from `from` on. Returns their number, which is smaller at the end of the file, or -1 with
 * errno. */
static inline ssize_t whole_read(int fd, void *out, size_t len, off_t from)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd, (char *)out + done, len - done, from + (off_t)done);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n == 0)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

#endif

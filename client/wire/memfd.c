/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memfd.c - fills and seals memory files. libwarm sends values, jobs and lists in them, workers their
 * results; the daemon serves pending values from them.
 *
 * Thread: any; no state.
 */
#include "client/wire/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SEAL_TRIES 5u /* sealing fails while the kernel uses a page */

_Static_assert(WARM_EIO < 0, "errors differ from descriptors");

static int memfd_filled(const char *name, unsigned flags, const void *data, size_t len,
                        struct err *e)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < len)
        return err_set(e, WARM_ENOMEM, "the limit on the size of files is below %zu bytes", len);
    int fd = memfd_create(name, MFD_CLOEXEC | flags);
    if (fd < 0)
        return err_sys(e, errno == ENOMEM ? WARM_ENOMEM : WARM_EIO, errno, "cannot make a memfd");
    for (size_t at = 0; at < len;) {
        ssize_t n = pwrite(fd, (const uint8_t *)data + at, len - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int error = errno;
            close(fd);
            return err_sys(e, WARM_ENOMEM, error, "cannot fill a memfd");
        }
        at += (size_t)n;
    }
    return fd;
}

int memfd_of_bytes(const char *name, const void *data, size_t len, struct err *e)
{
    return memfd_filled(name, 0, data, len, e);
}

int memfd_sealed(const char *name, const void *data, size_t len, struct err *e)
{
    int fd = memfd_filled(name, MFD_ALLOW_SEALING, data, len, e);
    for (unsigned i = 0; fd >= 0 && i < SEAL_TRIES; i++) /* the daemon takes no other */
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
            return fd;
    if (fd < 0)
        return fd;
    int error = errno;
    close(fd);
    return err_sys(e, WARM_EIO, error, "cannot seal a memfd");
}

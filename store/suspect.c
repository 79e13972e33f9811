/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suspect.c - keeps a mark in the store's folder. It means that a damaged index may have killed the
 * process that had the store open, so the next open checks every entry. open.c reads and clears the
 * mark. The daemon's handler of fatal signals sets it, and so does index.c before LMDB aborts the process.
 *
 * Thread: the one that opens the store; store_mark_suspect any.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "store/internal.h"

static const char mark[] = "suspect";
static atomic_int marked_dir = -1; /* the folder of the store that this process opened last */

void store_mark_suspect(void)
{
    int errnum = errno;
    int fd = openat(atomic_load(&marked_dir), mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    errno = errnum;
}

bool suspect_is_marked(int dir) { return faccessat(dir, mark, F_OK, 0) == 0; }

void suspect_begin(int dir)
{
    unlinkat(dir, mark, 0);
    atomic_store(&marked_dir, dir);
}

void suspect_end(int dir)
{
    if (dir >= 0)
        atomic_compare_exchange_strong(&marked_dir, &dir, -1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* processors.c - preloaded into a peer's server, says that it may use eight processors: a node's, not this machine's. */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *out)
{
    (void)pid;
    memset(out, 0, size);
    for (int i = 0; i < 8; i++)
        CPU_SET_S(i, size, out);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.c - asks the file system for its size, and computes the cap. config.c calls it for the defaults,
 * main.c each few seconds.
 *
 * Thread: any; no state.
 */
#include "daemon/process/room.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

bool room_of(const char *folder, uint64_t *out_total, uint64_t *out_free)
{
    char path[PATH_MAX];
    struct statvfs fs;
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
        return false;
    while (statvfs(path, &fs) != 0) {
        char *slash = strrchr(path, '/');
        if (!slash || strcmp(path, "/") == 0)
            return false;
        slash[slash == path] = '\0';
    }
    *out_total = (uint64_t)fs.f_blocks * fs.f_frsize;
    *out_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    return *out_total != 0;
}

uint64_t room_cap(uint64_t max_size, uint64_t min_free, uint64_t disk_bytes, uint64_t free_bytes)
{
    uint64_t there = disk_bytes + free_bytes;
    uint64_t cap = there > min_free ? there - min_free : 0;
    if (cap < ROOM_LEAST)
        cap = ROOM_LEAST;
    return cap < max_size ? cap : max_size;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_tree.c - reads /proc: PID/stat, and PID/task/TID/children of each thread. compiler_run.c asks it while a compiler
 * runs. A process that ends meanwhile counts in its parent.
 *
 * Thread: any; no state.
 */
#include "client/tool/process_tree.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 32 /* nvcc needs four: itself, a shell, a driver, a compiler */

/* Returns the ticks of one process, user and system, with those of its children that ended. */
static uint64_t own_ticks(pid_t pid)
{
    char path[64], text[1024];
    unsigned long ticks[4] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[len] = '\0';
    const char *rest = strrchr(text, ')'); /* the name before it may have blanks */
    if (rest)
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &ticks[0],
               &ticks[1], &ticks[2], &ticks[3]);
    return (uint64_t)ticks[0] + ticks[1] + ticks[2] + ticks[3];
}

static uint64_t tree_ticks(pid_t pid, unsigned depth);

/* Returns the ticks of all below one thread. */
static uint64_t children_ticks(pid_t pid, const char *thread, unsigned depth)
{
    char path[PATH_MAX];
    uint64_t sum = 0;
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, thread);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%d", &child) == 1)
        sum += tree_ticks(child, depth);
    if (f)
        fclose(f);
    return sum;
}

static uint64_t tree_ticks(pid_t pid, unsigned depth)
{
    char path[64];
    uint64_t sum = own_ticks(pid);
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            sum += children_ticks(pid, d->d_name, depth + 1);
    if (dir)
        closedir(dir);
    return sum;
}

uint64_t process_tree_ticks(pid_t pid) { return tree_ticks(pid, 0); }

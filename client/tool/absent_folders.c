/* SPDX-License-Identifier: Apache-2.0 */
/*
 * absent_folders.c - groups the absent files of a run by folder, so that one look at an unchanged
 * folder replaces many (inputs.h, FOLDER). A C++ compile asks for thousands of absent headers in
 * some dozens of folders. trace_log.c calls it.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/file_state.h"
#include "client/tool/trace_log.h"

#define COVERED_MIN 3 /* absent files for which a look at the folder is cheaper */

static bool same_folder(const struct input *a, const struct input *b)
{
    size_t len = tool_folder_len(a->path);
    return a->kind == INPUT_ABSENT && b->kind == INPUT_ABSENT && a->root == b->root && len &&
           len == tool_folder_len(b->path) && memcmp(a->path, b->path, len) == 0;
}

/* Orders absent inputs last, by folder. */
static int by_folder(const void *pa, const void *pb)
{
    const struct input *a = pa, *b = pb;
    bool absent_a = a->kind == INPUT_ABSENT, absent_b = b->kind == INPUT_ABSENT;
    if (absent_a != absent_b)
        return absent_a - absent_b;
    if (!absent_a) /* in the order in which they were first seen */
        return (a->path > b->path) - (a->path < b->path);
    if (a->root != b->root)
        return a->root - b->root;
    size_t len_a = tool_folder_len(a->path), len_b = tool_folder_len(b->path);
    int order = memcmp(a->path, b->path, len_a < len_b ? len_a : len_b);
    if (order == 0)
        order = (len_a > len_b) - (len_a < len_b);
    return order ? order : strcmp(a->path, b->path);
}

/* Returns the stamp of a folder; zero if a new entry might not change it. */
static struct stamp folder_stamp(const struct tool_job *job, uint64_t started_ns,
                                 const struct input *absent)
{
    struct stat st;
    char path[PATH_MAX];
    const char *root = absent->root ? job->roots[absent->root - 1] : "";
    int n =
        snprintf(path, PATH_MAX, "%s%.*s", root, (int)tool_folder_len(absent->path), absent->path);
    if (n < 0 || n >= PATH_MAX || stat(path, &st) < 0)
        return (struct stamp){0};
    struct stamp stamp = stamp_of(&st);
    return stamp_is_before(&stamp, started_ns) ? stamp : (struct stamp){0};
}

static struct input folder_of(const struct tool_job *job, uint64_t started_ns,
                              const struct input *absent, size_t n, struct writer *folders)
{
    struct input folder = {.kind = INPUT_FOLDER,
                           .root = absent->root,
                           .stamp = folder_stamp(job, started_ns, absent),
                           .covers = (uint32_t)n,
                           .path = (const char *)(uintptr_t)folders->len};
    writer_bytes(folders, absent->path, tool_folder_len(absent->path));
    writer_u8(folders, 0);
    return folder;
}

int inputs_group(const struct tool_job *job, uint64_t started_ns, struct input *list, size_t n,
                 struct inputs *out, struct writer *folders)
{
    assert(job && out && folders && (list || n == 0));
    *out = (struct inputs){.list = calloc(n + n / COVERED_MIN + 1, sizeof *out->list)};
    if (!out->list)
        return WARM_ENOMEM;
    if (n)
        qsort(list, n, sizeof *list, by_folder);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_folder(&list[i], &list[end]);)
            end++;
        if (end - i >= COVERED_MIN)
            out->list[out->n++] = folder_of(job, started_ns, &list[i], end - i, folders);
        assert(out->n + (end - i) <= n + n / COVERED_MIN);
        memcpy(&out->list[out->n], &list[i], (end - i) * sizeof *list);
        out->n += end - i;
    }
    return folders->failed ? WARM_ENOMEM : 0;
}

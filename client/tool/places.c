/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.c - decides if a result may depend on the place of a source in a root. trace_log.c calls
 * it at the end of a traced run.
 *
 * result.c finds a root's name that shows in the bytes. This file looks for texts that compute with
 * the name: its length, a hash, wide characters. A file's name comes from three places:
 *     __FILE__         names the file in which it is expanded: a file in a root that spells it, or
 *                      a macro of any header that leads to it
 *     __BASE_FILE__,   name the source, or the caller's file, from any header: so no header outside
 *     __builtin_FILE,  of the system's folders may spell them
 *     source_location
 *     ##               may join any of them: no such text may spell a long piece of one
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
#include "keygen/cuda/cuda.h"
#include "keygen/cuda/reach.h"

#define TEXT_MAX_BYTES (64u << 20)
#define PIECE_MIN 4 /* letters of a piece of a name; shorter words occur everywhere */

static const char *const caller_names[] = {"__BASE_FILE__", "__builtin_FILE", "__builtin_FILE_NAME",
                                           "source_location", "__builtin_source_location"};

static bool is_system(const char *path)
{
    static const char *const folders[] = {"/include/c++/", "/lib/gcc/", "/lib/clang/",
                                          "/lib/llvm-"};
    if (strncmp(path, "/usr/include/", 13) == 0 || strncmp(path, "/usr/lib/", 9) == 0)
        return true;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strstr(path, folders[i]))
            return true;
    return false;
}

static bool is_piece(struct view word)
{
    static const char *const names[] = {"__FILE__", "__BASE_FILE__", "__builtin_FILE"};
    if (word.len < PIECE_MIN || (word.len == 4 && memcmp(word.data, "FILE", 4) == 0))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (word.len < strlen(names[i]) && memmem(names[i], strlen(names[i]), word.data, word.len))
            return true;
    return false;
}

static void on_word(void *self, enum cuda_place place, struct view word)
{
    bool *asks = self;
    (void)place;
    for (size_t i = 0; i < sizeof caller_names / sizeof caller_names[0]; i++)
        if (word.len == strlen(caller_names[i]) &&
            memcmp(word.data, caller_names[i], word.len) == 0)
            *asks = true;
    *asks = *asks || is_piece(word);
}

static int read_text(const struct tool_job *job, const struct input *i, uint8_t **out,
                     size_t *out_len)
{
    char path[PATH_MAX];
    const char *root = i->root ? job->roots[i->root - 1] : "";
    int n = snprintf(path, sizeof path, "%s%s", root, i->path);
    if (n < 0 || n >= PATH_MAX)
        return WARM_ETOO_BIG;
    if (file_is_binary(path)) {
        *out = NULL;
        *out_len = 0;
        return 0;
    }
    return tool_read_file(path, TEXT_MAX_BYTES, out, out_len, NULL);
}

struct texts {
    struct view *list; /* of each input; empty if it is no text */
    struct cuda_reach *reach;
};

/* Reads all texts and adds them. False if one cannot be read. */
static bool read_all(const struct tool_job *job, const struct inputs *in, struct texts *t)
{
    t->list = calloc(in->n + 1, sizeof *t->list);
    t->reach = cuda_reach_new();
    for (size_t i = 0; t->list && t->reach && i < in->n; i++) {
        uint8_t *data;
        size_t len;
        if (in->list[i].kind != INPUT_FILE)
            continue;
        if (read_text(job, &in->list[i], &data, &len))
            return false;
        t->list[i] = (struct view){data, len};
        cuda_reach_add(t->reach, data, len);
    }
    return t->list && t->reach;
}

static bool may_show(const struct inputs *in, const struct texts *t)
{
    for (size_t i = 0; i < in->n; i++) {
        bool asks = false;
        struct view text = t->list[i];
        if (text.len == 0 || (in->list[i].root == 0 && is_system(in->list[i].path)))
            continue;
        cuda_read_words(text.data, text.len, on_word, &asks);
        if (asks || (in->list[i].root && cuda_reach_spells_file(t->reach, text.data, text.len)))
            return true;
    }
    return false;
}

int places_check(const struct tool_job *job, const struct inputs *in, struct err *e)
{
    assert(job && in);
    struct texts t = {0};
    if (job->n_roots == 0 || !job->expands_macros || job->reads_marks)
        return 0;
    bool shows = !read_all(job, in, &t) || may_show(in, &t);
    for (size_t i = 0; t.list && i < in->n; i++)
        free((void *)(uintptr_t)t.list[i].data);
    free(t.list);
    cuda_reach_free(t.reach);
    return shows ? err_set(e, WARM_EREFUSED, "the name of a temporary folder may show") : 0;
}

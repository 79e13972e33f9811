/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs.c - decides if the inputs of an earlier run are still the same. run_cached.c calls it for
 * each traced compile; inputs.h has the contract. input_sets.c reads and writes the inputs.
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include "client/tool/inputs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exec/programs.h"
#include "client/tool/file_state.h"
#include "client/tool/libraries.h"
#include "client/tool/pch.h"
#include "keygen/domains.h"

/* ---- looking ---- */

/* Returns the whole path of an input; writes it to `out` if the input has a root. */
static const char *whole_path(const struct tool_job *job, const struct input *i, char out[PATH_MAX])
{
    if (i->root == 0)
        return i->path;
    if (i->root > job->n_roots)
        return "";
    int n = snprintf(out, PATH_MAX, "%s%s", job->roots[i->root - 1], i->path);
    return n > 0 && n < PATH_MAX ? out : "";
}

static bool same_stamp(const struct stamp *a, const struct stamp *b)
{
    return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns && a->device == b->device;
}

static bool look_at_file(const struct tool_job *job, struct warm *w, const char *path,
                         struct input *i)
{
    char real[PATH_MAX];
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    if (i->type && real_name(job, path, real) != (char)i->type)
        return false;
    struct stamp now = stamp_of(&st);
    if (same_stamp(&now, &i->stamp))
        return true;
    struct proof digest;
    if (file_digest(w, path, &now, &digest, &i->may_change) != 0)
        return false;
    i->is_renewed = !i->may_change;
    i->digest = digest;
    i->stamp = now;
    return true;
}

static bool look_at_real_name(const struct tool_job *job, const char *path, const struct input *i)
{
    char real[PATH_MAX];
    return real_name(job, path, real) == (char)i->type && strcmp(real, i->program) == 0;
}

static bool look_at_library(struct warm *w, struct input *i)
{
    return !strchr(i->path, '/') && library_digest(w, i->path, UINT64_MAX, &i->digest) == 0;
}

/* True if a real precompiled header is up to date, is a stub, or is absent. Compilers do not check that, and
 * use an old header. */
static bool look_at_header(const struct tool_job *job, struct warm *w, const char *path)
{
    struct inputs made;
    bool same = true;
    if (pch_is_absent_or_stub(path))
        return true;
    if (pch_read_inputs(path, &made, NULL))
        return false;
    for (size_t i = 0; same && i < made.n; i++) {
        struct input *input = &made.list[i];
        struct proof then = input->digest;
        if (input->kind == INPUT_FILE)
            same = look_at_file(job, w, input->path, input);
        else if (input->kind == INPUT_REAL)
            same = look_at_real_name(job, input->path, input);
        else if (input->kind == INPUT_LIBRARY)
            same = look_at_library(w, input);
        same = same && memcmp(&then, &input->digest, sizeof then) == 0;
    }
    inputs_close(&made);
    return same;
}

void input_look_at_variable(struct input *i)
{
    assert(i && i->path);
    const char *value = getenv(i->path);
    i->type = value ? 's' : 'u';
    i->digest = proof_of_bytes(value ? value : "", value ? strlen(value) : 0);
}

/* Brings an input up to date. False if it is not of that kind now. */
static bool look(const struct tool_job *job, struct warm *w, struct input *i)
{
    char buffer[PATH_MAX], found[PATH_MAX];
    const char *path = whole_path(job, i, buffer);
    struct stat st;
    switch (i->kind) {
    case INPUT_FILE: return look_at_file(job, w, path, i);
    case INPUT_ABSENT: return lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
    case INPUT_EXISTS:
        return i->type == EXISTS_RUNNABLE ? access(path, X_OK) == 0
                                          : stat(path, &st) == 0 && file_type(&st) == (char)i->type;
    case INPUT_LIST: return folder_digest(path, &i->digest) == 0;
    case INPUT_PROGRAM: return strcmp(program_find(i->path, found) ? found : "", i->program) == 0;
    case INPUT_HEADER: return look_at_header(job, w, path);
    case INPUT_REAL: return look_at_real_name(job, path, i);
    case INPUT_VARIABLE: input_look_at_variable(i); return true;
    case INPUT_LIBRARY: return look_at_library(w, i);
    default: return false;
    }
}

/* ---- outputs in the place of inputs ---- */

/* Writes the folder of a path without links. False if there is none. */
static bool real_folder(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX];
    int len = (int)(tool_base(path) - path);
    int n = snprintf(folder, sizeof folder, "%.*s", len, len ? path : ".");
    return n > 0 && n < PATH_MAX && realpath(folder, out);
}

static bool is_same_place(const char *a, const char *b)
{
    char a_folder[PATH_MAX], b_folder[PATH_MAX];
    return strcmp(tool_base(a), tool_base(b)) == 0 && real_folder(a, a_folder) &&
           real_folder(b, b_folder) && strcmp(a_folder, b_folder) == 0;
}

/* True if an output is this input, or will stand where nothing was: compilers may write before they read. */
static bool is_output(const struct tool_job *job, const struct stat *outputs, const struct input *i)
{
    char buffer[PATH_MAX];
    for (size_t k = 0; k < job->n_outputs; k++) {
        if (i->kind == INPUT_FILE && i->stamp.inode == outputs[k].st_ino &&
            i->stamp.device == outputs[k].st_dev)
            return true;
        if (i->kind == INPUT_ABSENT && is_same_place(whole_path(job, i, buffer), job->outputs[k]))
            return true;
    }
    return false;
}

/* True if a folder is unchanged: then the absent inputs that it covers are absent still. Otherwise *out_now is
 * its stamp, for use after a look at each of them. */
static bool is_folder_as_it_was(const struct tool_job *job, const struct input *folder,
                                struct stamp *out_now)
{
    char buffer[PATH_MAX];
    struct stat st;
    *out_now = (struct stamp){0};
    if (stat(whole_path(job, folder, buffer), &st) < 0 || !S_ISDIR(st.st_mode))
        return false;
    *out_now = stamp_of(&st);
    return same_stamp(out_now, &folder->stamp);
}

static void add_input(const struct tool_job *job, struct key_builder *key, const struct input *i,
                      bool as_it_was)
{
    key_add_u64(key, 2,
                (uint64_t)i->kind | (uint64_t)i->root << 8 | (uint64_t)i->type << 16 |
                    (uint64_t)as_it_was << 24);
    key_add_text(key, 2, i->path);
    if (input_has_digest(i))
        key_add(key, 2, i->digest.bytes, sizeof i->digest.bytes);
    if (i->kind == INPUT_FILE && job->times_show)
        key_add_u64(key, 2, i->stamp.mtime_ns / 1000000000u);
    if (input_has_text(i))
        key_add_text(key, 2, i->program);
}

/* ---- files of equal content ---- */

/* A hash table of files by digest: each slot has the last file of a content, and each file links to
 * the one before it. Indices + 1; 0: none. */
struct equals {
    uint32_t *slots, *before;
    size_t n_slots;
};

/* Adds file `i` and returns the last file before it of the same content, + 1. */
static uint32_t equals_add(struct equals *q, const struct input *list, uint32_t i)
{
    uint64_t hash;
    memcpy(&hash, list[i].digest.bytes, sizeof hash);
    size_t at = (size_t)hash & (q->n_slots - 1);
    while (q->slots[at] &&
           memcmp(&list[q->slots[at] - 1].digest, &list[i].digest, sizeof list[i].digest) != 0)
        at = (at + 1) & (q->n_slots - 1);
    q->before[i] = q->slots[at];
    q->slots[at] = i + 1;
    return q->before[i];
}

static bool same_file(const struct stamp *a, const struct stamp *b)
{
    return a->inode == b->inode && a->device == b->device;
}

static bool same_second(const struct stamp *a, const struct stamp *b)
{
    return a->mtime_ns / 1000000000u == b->mtime_ns / 1000000000u;
}

/* Returns the first file of equal content that is the same as file `i` by `same`. */
static uint32_t first_same(const struct equals *q, const struct input *list, uint32_t i,
                           bool (*same)(const struct stamp *, const struct stamp *))
{
    uint32_t first = i;
    for (uint32_t at = q->before[i]; at; at = q->before[at - 1])
        if (same(&list[at - 1].stamp, &list[i].stamp))
            first = at - 1;
    return first;
}

/* Adds to the key which files of equal content a compiler may take for one (inputs.h). */
static bool add_equals(struct key_builder *key, const struct input *list, size_t n)
{
    struct equals q = {0};
    for (q.n_slots = 64; q.n_slots < 2 * n;)
        q.n_slots *= 2;
    q.slots = calloc(q.n_slots, sizeof *q.slots);
    q.before = calloc(n + 1, sizeof *q.before);
    bool ok = q.slots && q.before;
    for (uint32_t i = 0; ok && i < n; i++) {
        if (list[i].kind != INPUT_FILE || list[i].stamp.size == 0 || !equals_add(&q, list, i))
            continue;
        key_add_u64(key, 3, i);
        key_add_u64(key, 3, first_same(&q, list, i, same_file));
        key_add_u64(key, 3, first_same(&q, list, i, same_second));
    }
    free(q.slots);
    free(q.before);
    return ok;
}

static void begin_name(const struct tool_job *job, struct key_builder *key)
{
    key_begin(key, DOMAIN_TOOL_RESULT);
    key_add_text(key, 1, job->names[0]);
}

int inputs_name(const struct tool_job *job, const struct input *list, size_t n,
                char out[TOOL_NAME_TEXT])
{
    assert(job && (list || n == 0));
    struct key_builder key;
    begin_name(job, &key);
    for (size_t i = 0; i < n; i++)
        if (list[i].kind != INPUT_FOLDER)
            add_input(job, &key, &list[i], true);
    if (!add_equals(&key, list, n))
        return WARM_ENOMEM;
    tool_name(job, "2r", &key, out);
    return 0;
}

/* Looks at the inputs that a folder covers. True if all are still absent. */
static bool look_in_folder(const struct tool_job *job, struct warm *w, struct input *folder)
{
    struct stamp now;
    bool all = true;
    if (is_folder_as_it_was(job, folder, &now))
        return true;
    for (uint32_t i = 1; i <= folder->covers; i++) {
        bool absent = look(job, w, folder + i);
        folder[i].is_there = !absent;
        all = all && absent;
    }
    if (all && stamp_is_settled(&now)) {
        folder->stamp = now;
        folder->is_renewed = true;
    }
    return all;
}

bool inputs_now(const struct tool_job *job, struct warm *w, struct inputs *in, size_t set,
                char out[TOOL_NAME_TEXT])
{
    assert(job && in && set < in->n_sets);
    struct key_builder key;
    const struct input *changed = NULL;
    struct stat outputs[TOOL_OUTPUTS_MAX] = {{0}};
    bool all = true;
    uint32_t covered = 0;
    for (size_t i = 0; i < job->n_outputs; i++)
        stat(job->outputs[i], &outputs[i]);
    begin_name(job, &key);
    for (size_t i = 0; i < in->set_len[set]; i++) {
        struct input *input = &in->sets[set][i];
        struct proof then = input->digest;
        uint8_t type = input->type;
        bool as_it_was;
        if (input->kind == INPUT_FOLDER) {
            covered = input->covers;
            as_it_was = look_in_folder(job, w, input);
        } else if (covered) {
            covered--;
            as_it_was = !input->is_there;
        } else {
            as_it_was = look(job, w, input);
        }
        as_it_was = as_it_was && !is_output(job, outputs, input);
        if (!as_it_was && all)
            tool_debug("no hit with these inputs: %s has changed", input->path);
        all = all && as_it_was;
        bool differs = !as_it_was || type != input->type ||
                       (input_has_digest(input) && memcmp(&then, &input->digest, sizeof then) != 0);
        if (!changed && differs && input->kind != INPUT_FOLDER)
            changed = input;
        if (input->kind != INPUT_FOLDER)
            add_input(job, &key, input, as_it_was);
    }
    if (set == 0)
        in->changed = changed;
    all = add_equals(&key, in->sets[set], in->set_len[set]) && all;
    tool_name(job, "2r", &key, out);
    return all;
}

void input_describe_change(const struct tool_job *job, const struct input *i, char *out, size_t cap)
{
    assert(job && i && out && cap);
    static const char *const formats[] = {
        [INPUT_FILE] = "%s has changed",
        [INPUT_ABSENT] = "%s was absent",
        [INPUT_EXISTS] = "%s is gone, or of another type",
        [INPUT_LIST] = "the names of files in %s have changed",
        [INPUT_PROGRAM] = "PATH leads to another %s",
        [INPUT_HEADER] = "%s has changed",
        [INPUT_VARIABLE] = "the variable %s has changed",
        [INPUT_LIBRARY] = "the loader finds another %s",
        [INPUT_REAL] = "%s leads elsewhere",
    };
    char buffer[PATH_MAX];
    bool known = i->kind < sizeof formats / sizeof formats[0] && formats[i->kind];
    snprintf(out, cap, known ? formats[i->kind] : "%s", whole_path(job, i, buffer)); /* NOLINT */
}

bool inputs_are_renewed(const struct inputs *in, size_t set)
{
    assert(in && set < in->n_sets);
    for (size_t i = 0; i < in->set_len[set]; i++)
        if (in->sets[set][i].is_renewed)
            return true;
    return false;
}

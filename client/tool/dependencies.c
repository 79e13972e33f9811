/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dependencies.c - decides how a file of dependencies reads in another folder. result.c calls it for
 * runs whose job has roots; dependencies.h has the contract.
 *
 * The file is one rule, "TARGETS: FILES", then with -MP a line "FILE:" for each file but the first.
 * GCC's algorithm (libcpp/mkdeps.cc, make_write, the same since GCC 4): names have a space between
 * them. A name that would go beyond column 72 gets a new line, after " \". nvcc writes "TARGET : FILE \", then a
 * line for each other file, as they are included (13.0, 13.5): there only the names change.
 *
 * Thread: any; no state.
 */
#define XXH_INLINE_ALL
#include "client/tool/dependencies.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/trace/trace.h"

#define ROOT_MARK 1 /* the byte before a root's digit, as in texts (result.h) */
#define LINE_MAX_COLUMN 72u

bool dependencies_can_name(const char *root, bool is_escaped)
{
    assert(root);
    for (const char *c = root; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("/._+,@-", *c) && !(is_escaped && *c == ' '))
            return false;
    return true;
}

/* Returns the length of the name at `at`: up to a space without a backslash, or the line's end. */
static size_t name_len(const char *at, const char *end)
{
    const char *c = at;
    while (c < end && *c != '\n' && (*c != ' ' || (c > at && c[-1] == '\\')))
        c++;
    return (size_t)(c - at);
}

/* ---- packing ---- */

/* True if the run opened this very path to read it. For a system header GCC may write the name of a link's
 * target instead, which it did not open. */
static bool was_read(struct view log, const char *path, size_t len)
{
    char record[PATH_MAX + 2];
    if (len >= PATH_MAX)
        return false;
    record[0] = TRACE_READ;
    memcpy(record + 1, path, len);
    record[len + 1] = '\0';
    return log.len && memmem(log.data, log.len, record, len + 2);
}

/* Appends a relative target with a root inside as a mark: "t.dir/home/u/m.cc.o". */
static bool pack_inner(const struct tool_job *job, const char *name, size_t len, struct writer *out)
{
    char path[PATH_MAX];
    size_t at = 0;
    snprintf(path, sizeof path, "%.*s", (int)len, name);
    int root = tool_inner_root(job, path, &at);
    if (root < 0 || !dependencies_can_name(job->roots[root], false))
        return false;
    writer_bytes(out, name, at);
    writer_u8(out, ROOT_MARK);
    writer_u8(out, (uint8_t)('0' + root));
    at += strlen(job->roots[root]);
    writer_bytes(out, name + at, len - at);
    return true;
}

/* Appends a name with its root as a mark. False if it names a root in another way. */
static bool pack_name(const struct tool_job *job, const char *name, size_t len, bool is_target,
                      struct view log, struct writer *out)
{
    char path[PATH_MAX];
    const char *rest;
    size_t n = 0, at = 0;
    bool has_colon = len && name[len - 1] == ':';
    if (len >= sizeof path)
        return false;
    if (is_target && pack_inner(job, name, len, out))
        return true;
    len -= has_colon;
    for (size_t i = 0; i < len; i++)
        if (!(name[i] == '\\' && i + 1 < len && name[i + 1] == ' '))
            path[n++] = name[i];
    path[n] = '\0';
    int root = tool_root_of(job, path, &rest);
    if (root >= 0 && !is_target && !was_read(log, path, n))
        return false;
    if (tool_names_root(job, rest, strlen(rest)))
        return false;
    if (root >= 0) {
        writer_u8(out, ROOT_MARK);
        writer_u8(out, (uint8_t)('0' + root));
        for (const char *c = job->roots[root]; *c; c++)
            at += 1 + (*c == ' ');
    }
    writer_bytes(out, name + at, len - at);
    if (has_colon)
        writer_u8(out, ':');
    return true;
}

/* True if the compiler breaks lines by the lengths of names. nvcc puts each name on a line of its own. */
static bool breaks_lines(const struct tool_job *job) { return strcmp(job->family, "nvcc") != 0; }

static bool pack_all(const struct tool_job *job, struct view file, struct view log,
                     struct writer *out)
{
    const char *at = file.data, *end = at + file.len;
    size_t indent = tool_is_gcc(job) ? 1 : 2;
    bool is_target = true;
    while (at < end) {
        size_t len = name_len(at, end);
        if (breaks_lines(job) && len == 1 && *at == '\\' && at + 1 < end &&
            at[1] == '\n') { /* the rule goes on */
            at += 2;
            if ((size_t)(end - at) < indent || memcmp(at, "  ", indent) != 0)
                return false;
            at += indent;
            continue;
        }
        if (len && !pack_name(job, at, len, is_target, log, out))
            return false;
        is_target = is_target && !(len && at[len - 1] == ':');
        at += len;
        if (at == end)
            return false; /* the last line must end, too */
        writer_u8(out, (uint8_t)*at++);
    }
    return true;
}

int dependencies_pack(const struct tool_job *job, struct view file, struct view log,
                      struct writer *out, struct err *e)
{
    assert(job && out && (file.data || file.len == 0));
    struct writer again;
    size_t from = out->len;
    bool ok = !(file.len && memchr(file.data, ROOT_MARK, file.len)) &&
              pack_all(job, file, log, out) && !out->failed &&
              !tool_names_root(job, (const char *)out->data + from, out->len - from);
    writer_init(&again, 0);
    ok = ok && dependencies_unpack(job, (struct view){out->data + from, out->len - from}, &again) &&
         !again.failed && again.len == file.len &&
         (file.len == 0 || memcmp(again.data, file.data, file.len) == 0);
    writer_close(&again);
    return ok ? 0
              : err_set(e, WARM_EREFUSED,
                        "warm cannot rewrite its dependency file for another folder");
}

/* ---- unpacking ---- */

/* Appends a name with the root in place of its mark. */
static bool unpack_name(const struct tool_job *job, const char *name, size_t len,
                        struct writer *out)
{
    const char *mark = memchr(name, ROOT_MARK, len);
    size_t at = mark ? (size_t)(mark - name) : 0;
    if (mark) {
        size_t root = len >= at + 2 ? (size_t)(mark[1] - '0') : job->n_roots;
        if (root >= job->n_roots)
            return false;
        writer_bytes(out, name, at);
        for (const char *c = job->roots[root]; *c; c++)
            writer_bytes(out, "\\", *c == ' '), writer_u8(out, (uint8_t)*c);
        name += at + 2;
        len -= at + 2;
    }
    writer_bytes(out, name, len);
    return true;
}

/* Appends the space before a name of `len` bytes, or a new line. Returns the column behind it. */
static size_t separate(bool is_gcc, bool in_targets, size_t column, size_t len, struct writer *out)
{
    bool breaks = column + len > LINE_MAX_COLUMN + (!is_gcc && in_targets);
    writer_bytes(out, " \\\n  ", breaks ? (is_gcc ? 4 : 5) : 1);
    return breaks ? (is_gcc ? 1 : in_targets ? 2 : 3) : column + 1; /* as each counts them */
}

bool dependencies_unpack(const struct tool_job *job, struct view packed, struct writer *out)
{
    assert(job && out && (packed.data || packed.len == 0));
    const char *at = packed.data, *end = at + packed.len;
    size_t column = 0;
    bool in_rule = breaks_lines(job), in_targets = true, ok = true, is_gcc = tool_is_gcc(job);
    while (ok && at < end) {
        struct writer name;
        size_t len = name_len(at, end);
        bool ends_targets = in_targets && len && at[len - 1] == ':';
        writer_init(&name, PATH_MAX * 2);
        ok = unpack_name(job, at, len, &name) && !name.failed && at + len < end;
        if (ok && in_rule && column)
            column = separate(is_gcc, in_targets, column, name.len - ends_targets, out);
        writer_bytes(out, name.data, name.len);
        column += name.len;
        in_targets = in_targets && !ends_targets;
        if (ok && at[len] == '\n') {
            writer_u8(out, '\n');
            in_rule = false;
        } else if (ok && !breaks_lines(job)) {
            writer_u8(out, ' ');
        } else if (ok && !in_rule) {
            ok = false;
        }
        writer_close(&name);
        at += len + 1;
    }
    return ok;
}

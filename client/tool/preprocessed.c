/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preprocessed.c - decides how a preprocessed text reads in another folder. result.c calls it for
 * runs whose job has roots; preprocessed.h has the contract.
 *
 * Thread: any; no state.
 */
#define XXH_INLINE_ALL
#include "client/tool/preprocessed.h"

#include <assert.h>
#include <string.h>

#define ROOT_MARK 1 /* the byte before a root's digit, as in texts (result.h) */

/* Returns the longest root at `at`, or -1. */
static int root_at(const struct tool_job *job, const char *at, size_t left)
{
    int best = -1;
    for (size_t i = 0; i < job->n_roots; i++) {
        size_t len = strlen(job->roots[i]);
        if (len <= left && memcmp(at, job->roots[i], len) == 0 &&
            (best < 0 || len > strlen(job->roots[best])))
            best = (int)i;
    }
    return best;
}

int preprocessed_pack(const struct tool_job *job, struct view text, struct writer *out,
                      struct err *e)
{
    assert(job && out && (text.data || text.len == 0));
    const char *data = text.data;
    bool ok = !(text.len && memchr(data, ROOT_MARK, text.len));
    for (size_t i = 0; ok && i < text.len;) {
        int root = data[i] == '/' ? root_at(job, data + i, text.len - i) : -1;
        if (root < 0) {
            writer_u8(out, (uint8_t)data[i++]);
            continue;
        }
        size_t end = i + strlen(job->roots[root]);
        ok = i > 0 && data[i - 1] == '"' && end < text.len && data[end] == '/';
        writer_u8(out, ROOT_MARK);
        writer_u8(out, (uint8_t)('0' + root));
        i = end;
    }
    return ok && !out->failed ? 0
                              : err_set(e, WARM_EREFUSED,
                                        "the preprocessed text names a temporary folder "
                                        "outside of the names of files");
}

bool preprocessed_unpack(const struct tool_job *job, struct view packed, struct writer *out)
{
    assert(job && out && (packed.data || packed.len == 0));
    const char *at = packed.data, *end = at + packed.len;
    while (at < end) {
        const char *mark = memchr(at, ROOT_MARK, (size_t)(end - at));
        writer_bytes(out, at, (size_t)((mark ? mark : end) - at));
        if (!mark)
            break;
        size_t root = mark + 1 < end ? (size_t)(mark[1] - '0') : TOOL_ROOTS_MAX;
        if (root >= job->n_roots)
            return false;
        writer_bytes(out, job->roots[root], strlen(job->roots[root]));
        at = mark + 2;
    }
    return true;
}

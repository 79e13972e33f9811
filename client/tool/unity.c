/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unity.c - reads the sources of unity builds. cc.c adds their names to keys; front_end.c hides these in texts. See unity.h.
 *
 * Thread: main; no state.
 */
#include "client/tool/unity.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"

#define MARK 3 /* the byte in place of a name */

bool unity_is_name(const char *path)
{
    assert(path);
    const char *cmake = strstr(path, "/Unity/unity_"), *slash = strrchr(path, '/');
    const char *meson = strstr(slash ? slash : path, "-unity");
    return (cmake && cmake + strlen("/Unity") == slash) ||
           (meson && meson[strlen("-unity")] >= '0' && meson[strlen("-unity")] <= '9');
}

/* Returns the whole name that a line includes: "#include "/a/b.cc"". Empty: it is another line. */
static struct view name_in(struct view line)
{
    static const char *const heads[] = {"#include \"/", "#include </", "#include</"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t n = strlen(heads[i]) - 1;
        const char *from = (const char *)line.data + n, *end = (const char *)line.data + line.len;
        if (line.len <= n + 2 || memcmp(line.data, heads[i], n + 1) != 0)
            continue;
        char close = heads[i][n - 1] == '<' ? '>' : '"';
        bool is_plain = end[-1] == close && !memchr(from, close, (size_t)(end - 1 - from)) &&
                        !memchr(from, '\\', (size_t)(end - from));
        return is_plain ? (struct view){from, (size_t)(end - 1 - from)} : (struct view){"", 0};
    }
    return (struct view){"", 0};
}

/* True for an empty line, and for a whole comment. */
static bool says_nothing(struct view line)
{
    const char *text = line.data, *end = text + line.len;
    if (line.len == 0)
        return true;
    if (line.len < 2 || text[0] != '/' || memchr(text, '\\', line.len) ||
        memchr(text, '?', line.len))
        return false;
    return text[1] == '/' ||
           (text[1] == '*' && line.len >= 4 && memmem(text + 2, line.len - 2, "*/", 2) == end - 2);
}

/* Cuts the next line off a text, without its end. False at the end of the text. */
static bool next_line(struct view *text, struct view *out)
{
    const char *from = text->data, *nl = memchr(from, '\n', text->len);
    size_t len = nl ? (size_t)(nl - from) : text->len, all = len + (nl != NULL);
    *out = (struct view){from, len};
    *text = (struct view){from + all, text->len - all};
    return all > 0;
}

static bool is_unity(const char *path, struct view text)
{
    struct view line;
    bool includes = false;
    if (!unity_is_name(path) || memchr(text.data, MARK, text.len) || memchr(text.data, 0, text.len))
        return false;
    while (next_line(&text, &line)) {
        bool has_name = name_in(line).len > 0;
        if (!has_name && !says_nothing(line))
            return false;
        includes |= has_name;
    }
    return includes;
}

char *unity_names(const char *path, const uint8_t *text, size_t len)
{
    assert(path && (text || len == 0));
    struct view rest = {text, len}, line;
    char *names = len && is_unity(path, rest) ? calloc(1, len + 2) : NULL, *to = names;
    while (names && next_line(&rest, &line)) {
        struct view name = name_in(line);
        memcpy(to, name.data, name.len);
        to += name.len + (name.len > 0);
    }
    return names;
}

size_t unity_hide(const char *path, uint8_t *text, size_t len)
{
    assert(path && (text || len == 0));
    struct view rest = {text, len}, line;
    uint8_t *to = text;
    if (!len || !is_unity(path, rest))
        return len;
    while (next_line(&rest, &line)) {
        struct view name = name_in(line);
        if (name.len) {
            *to++ = MARK;
        } else {
            memmove(to, line.data, line.len);
            to += line.len;
        }
        *to++ = '\n';
    }
    return (size_t)(to - text);
}

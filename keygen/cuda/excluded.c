/* SPDX-License-Identifier: Apache-2.0 */
/*
 * excluded.c - finds what no compile reads of a text if a macro is defined throughout, as NDEBUG is in a release. root_names.c
 * calls it: macros that name a file then lead nowhere.
 *
 *     #ifdef NDEBUG
 *     #define CHECK(x) ((void)(x))
 *     #else                                     blank from here
 *     #define CHECK(x) ((x) ? 0 : fail(__FILE__))
 *     #endif                                    to here
 *
 * Only conditions of this one name count. Groups of all others stay, whatever they say.
 *
 * Thread: any; no state.
 */
#include "keygen/cuda/internal.h"

#define CONDITIONS_MAX 64 /* of one in another */

/* What a condition tells: nothing; that no compile reads its first group; that no compile reads the others. */
enum says { NOTHING, NOT_FIRST, NOT_OTHERS };

struct excluding {
    struct lexer x;
    struct token t;
    char *text;               /* what the lexer reads */
    const char *start, *from; /* from: where the excluded group begins; NULL: this one is none */
    size_t depth, outer;      /* outer: the depth of the condition that excludes it */
    enum says says[CONDITIONS_MAX];
};

/* Moves to the next token if this one is `word` in the same line. */
static bool take(struct excluding *s, const char *word)
{
    bool is = !s->t.starts_line && cuda_token_is(&s->t, word);
    if (is)
        cuda_next(&s->x, &s->t);
    return is;
}

static void go_to_next_line(struct excluding *s)
{
    while (!s->t.starts_line)
        cuda_next(&s->x, &s->t);
}

static void begin_group(struct excluding *s)
{
    go_to_next_line(s);
    s->from = s->t.data;
    s->outer = s->depth;
}

static void end_group(struct excluding *s, const char *at)
{
    for (char *c = s->text + (s->from - s->start); c < s->text + (at - s->start); c++)
        if (*c != '\n')
            *c = ' ';
    s->from = NULL;
}

static bool is_one_of(const struct token *t, const char *const *words)
{
    for (; *words; words++)
        if (cuda_token_is(t, *words))
            return true;
    return false;
}

/* Reads a directive from the token behind its '#', which stands at `at`. False if its condition has no beginning, or too many
 * are open. */
static bool read_directive(struct excluding *s, const char *at, const char *name)
{
    static const char *const begins[] = {"if", "ifdef", "ifndef", NULL};
    static const char *const changes[] = {"else", "elif", "elifdef", "elifndef", NULL};
    if (cuda_is_include(&s->t)) {
        cuda_take_header(&s->x);
    } else if (is_one_of(&s->t, begins)) {
        if (++s->depth == CONDITIONS_MAX)
            return false;
        bool is_negative = take(s, "ifndef"), is_known = is_negative || take(s, "ifdef");
        if (!is_known) {
            cuda_next(&s->x, &s->t); /* behind `if` */
            is_negative = take(s, "!");
            is_known = take(s, "defined");
        }
        bool opens = is_known && take(s, "(");
        is_known = is_known && take(s, name) && (!opens || take(s, ")")) && s->t.starts_line;
        s->says[s->depth] = !is_known ? NOTHING : is_negative ? NOT_FIRST : NOT_OTHERS;
        if (!s->from && s->says[s->depth] == NOT_FIRST)
            begin_group(s);
    } else if (is_one_of(&s->t, changes)) {
        if (!s->depth)
            return false;
        if (!s->from && s->says[s->depth] == NOT_OTHERS)
            begin_group(s);
        else if (s->from && s->outer == s->depth && s->says[s->depth] == NOT_FIRST)
            end_group(s, at);
    } else if (cuda_token_is(&s->t, "endif")) {
        if (!s->depth)
            return false;
        if (s->from && s->outer == s->depth)
            end_group(s, at);
        s->depth--;
    }
    return true;
}

void cuda_blank_excluded(void *text, size_t len, const char *name)
{
    struct cuda_scan scan = {0};
    struct excluding s = {.x = cuda_lexer_over(text, len, &scan), .text = text};
    bool ok = true;
    s.start = s.x.at;
    cuda_next(&s.x, &s.t);
    while (ok && s.t.kind != END && !scan.unclear && !scan.opaque) {
        const char *at = s.t.data;
        bool is_directive = cuda_begins_directive(&s.t);
        cuda_next(&s.x, &s.t);
        if (is_directive && !s.t.starts_line) {
            ok = read_directive(&s, at, name);
            go_to_next_line(&s);
        }
    }
}

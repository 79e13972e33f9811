/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_pair.c - sends commands to a warmd and to a redis-server, and compares the answers. The suites of daemon/redis
 * call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/redis_pair.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/engine.h"
#include "tier/resp_reply.h"

#define ANSWER_MAX (64u << 20)
#define ITEMS_MAX 100000u
#define SHOWN 200 /* bytes of an answer in a failure */

void redis_pair_up(struct redis_pair *p)
{
    p->warmd = warmd_up(NULL);
    redis_server_start(&p->server, "--maxclients", "100");
    p->side[PAIR_WARM].fd = warmd_connect(&p->warmd);
    p->side[PAIR_REDIS].fd = engine_connect(p->server.port);
    cr_assert_geq(p->side[PAIR_REDIS].fd, 0);
    for (int i = 0; i < PAIR_BOTH; i++) {
        writer_init(&p->side[i].in, 0);
        p->side[i].len = 0;
    }
}

void redis_pair_down(struct redis_pair *p)
{
    for (int i = 0; i < PAIR_BOTH; i++) {
        close(p->side[i].fd);
        writer_close(&p->side[i].in);
    }
    redis_server_stop(&p->server);
    warmd_down(&p->warmd);
}

void redis_pair_send(struct redis_pair *p, const void *bytes, size_t len)
{
    for (int i = 0; i < PAIR_BOTH; i++)
        warmd_send(p->side[i].fd, bytes, len);
}

void redis_pair_words(struct redis_pair *p, size_t n, const struct view *words)
{
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) {
        writer_format(&w, "$%zu\r\n", words[i].len);
        writer_bytes(&w, words[i].data, words[i].len);
        writer_bytes(&w, "\r\n", 2);
    }
    cr_assert_not(w.failed);
    redis_pair_send(p, w.data, w.len);
    writer_close(&w);
}

/* Measures a reply with all levels of its arrays. Returns its bytes, 0 if some are not there yet, or -1. */
static long resp_whole(const char *data, size_t len, size_t bulk_max, size_t items_max)
{
    size_t at = 0;
    for (uint64_t left = 1, seen = 0; left; left--) {
        struct resp_item item;
        if (++seen > items_max)
            return -1;
        long n = resp_item_parse(data + at, len - at, bulk_max, &item);
        if (n <= 0)
            return n;
        at += (size_t)n;
        if (item.type == RESP_ARRAY && (uint64_t)item.number > items_max)
            return -1;
        left += item.type == RESP_ARRAY ? (uint64_t)item.number : 0;
    }
    return (long)at;
}

struct view redis_pair_answer(struct redis_pair *p, int which)
{
    static char piece[256u << 10];
    struct redis_side *s = &p->side[which];
    long len;
    if (s->len)
        memmove(s->in.data, s->in.data + s->len, s->in.len - s->len);
    s->in.len -= s->len;
    s->len = 0;
    while ((len = resp_whole((char *)s->in.data, s->in.len, ANSWER_MAX, ITEMS_MAX)) == 0) {
        ssize_t n = read(s->fd, piece, sizeof piece);
        cr_assert_gt(n, 0, "the connection ended");
        writer_bytes(&s->in, piece, (size_t)n);
        cr_assert_not(s->in.failed);
    }
    cr_assert_gt(len, 0, "rubbish: %.*s", (int)(s->in.len < SHOWN ? s->in.len : SHOWN), s->in.data);
    s->len = (size_t)len;
    return (struct view){s->in.data, s->len};
}

static int shown(struct view v) { return (int)(v.len < SHOWN ? v.len : SHOWN); }

struct view redis_pair_equal(struct redis_pair *p, const char *what)
{
    struct view ours = redis_pair_answer(p, PAIR_WARM), theirs = redis_pair_answer(p, PAIR_REDIS);
    cr_assert(ours.len == theirs.len && memcmp(ours.data, theirs.data, ours.len) == 0,
              "to %s warm says %.*s, Redis %.*s", what, shown(ours), (const char *)ours.data,
              shown(theirs), (const char *)theirs.data);
    return ours;
}

static void send_line(struct redis_pair *p, const char *line)
{
    redis_pair_send(p, line, strlen(line));
    redis_pair_send(p, "\r\n", 2);
}

void redis_pair_same(struct redis_pair *p, const char *line)
{
    send_line(p, line);
    redis_pair_equal(p, line);
}

/* A word of an answer. */
struct word {
    struct view bytes;
};

static int compare_words(const void *a, const void *b)
{
    const struct view *x = &((const struct word *)a)->bytes, *y = &((const struct word *)b)->bytes;
    int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Reads the words of an array of texts, or of a page of SCAN, sorted. Returns their number. */
static size_t sorted_words(struct view answer, struct word **out)
{
    struct resp_item item;
    static const char scan[] = "*2\r\n$1\r\n0\r\n"; /* of one page */
    const char *at = answer.data, *end = at + answer.len;
    size_t skipped = answer.len > sizeof scan && memcmp(at, scan, sizeof scan - 1) == 0;
    at += skipped * (sizeof scan - 1);
    long took = resp_item_parse(at, (size_t)(end - at), ANSWER_MAX, &item);
    cr_assert(took > 0 && item.type == RESP_ARRAY, "%.*s", shown(answer), at);
    size_t n = (size_t)item.number;
    *out = calloc(n + 1, sizeof **out);
    for (size_t i = 0; i < n; i++) {
        at += took;
        took = resp_item_parse(at, (size_t)(end - at), ANSWER_MAX, &item);
        cr_assert(took > 0 && item.type == RESP_BULK);
        (*out)[i].bytes = (struct view){item.data, item.len};
    }
    qsort(*out, n, sizeof **out, compare_words);
    return n;
}

void redis_pair_same_set(struct redis_pair *p, const char *line)
{
    struct word *ours, *theirs;
    send_line(p, line);
    size_t n = sorted_words(redis_pair_answer(p, PAIR_WARM), &ours);
    size_t n_theirs = sorted_words(redis_pair_answer(p, PAIR_REDIS), &theirs);
    cr_assert_eq(n, n_theirs, "%s: %zu words, in Redis %zu", line, n, n_theirs);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(compare_words(&ours[i], &theirs[i]), 0, "%s: %.*s, in Redis %.*s", line,
                     (int)ours[i].bytes.len, (const char *)ours[i].bytes.data,
                     (int)theirs[i].bytes.len, (const char *)theirs[i].bytes.data);
    free(ours);
    free(theirs);
}

void redis_pair_refuse(struct redis_pair *p, const char *line)
{
    send_line(p, line);
    for (int i = 0; i < PAIR_BOTH; i++) {
        struct view answer = redis_pair_answer(p, i);
        cr_assert_eq(*(const char *)answer.data, '-', "%s: %s says %.*s", line,
                     i == PAIR_WARM ? "warm" : "Redis", shown(answer), (const char *)answer.data);
    }
}

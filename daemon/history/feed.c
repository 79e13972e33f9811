/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.c - keeps the newest things that happened, for `warm events`: answers, puts, reasons of misses,
 * evictions. A reader asks for what came after the last one that it has, so a slow one delays nobody; it
 * learns how many it has missed.
 *
 * Each user's things are numbered by themselves: nobody learns how much others do. A daemon has one feed, as it
 * has one log. Nothing of it outlives the daemon.
 *
 *     bookkeeping.c, history.c ─▶ history_feed ─▶ ring ─▶ history_feed_write ─▶ report.c
 *
 * Thread: loop thread. Memory: one ring, FEED_THINGS records.
 */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/history/internal.h"
#include "keygen/json.h"
#include "store/clock.h"

#define FEED_THINGS 4096u
#define FEED_USERS 128u /* further ones share a lane */
#define FEED_TEXT 96u
#define FEED_JSON_MAX 2048u /* bytes of one thing */

struct thing {
    uint64_t number, of_user; /* counted over all, and in the user's lane; from 1 on */
    uint64_t at_ms;
    uint32_t uid;
    uint8_t kind;
    const char *what;
    char session[WIRE_SESSION_MAX + 1], label[FEED_TEXT], why[FEED_TEXT];
};

static struct {
    struct thing ring[FEED_THINGS];
    uint64_t n;
    struct {
        uint32_t uid;
        uint64_t n;
    } lane[FEED_USERS];
} feed;

/* Returns the count of a user's things. */
static uint64_t *lane_of(uint32_t uid)
{
    size_t i = 0;
    while (i < FEED_USERS - 1 && feed.lane[i].n && feed.lane[i].uid != uid)
        i++;
    feed.lane[i].uid = uid;
    return &feed.lane[i].n;
}

static void copy(char out[FEED_TEXT], struct view text)
{
    snprintf(out, FEED_TEXT, "%.*s", (int)(text.len < FEED_TEXT ? text.len : FEED_TEXT - 1),
             text.data ? (const char *)text.data : "");
}

void history_feed(const struct feed_thing *from)
{
    struct thing *t = &feed.ring[feed.n % FEED_THINGS];
    t->number = ++feed.n;
    t->of_user = ++*lane_of(from->uid);
    t->at_ms = clock_wall_ms();
    t->uid = from->uid;
    t->kind = (uint8_t)from->kind;
    t->what = from->what;
    snprintf(t->session, sizeof t->session, "%s", from->session ? from->session : "");
    copy(t->label, from->label);
    copy(t->why, from->why);
}

void history_feed_write(const struct history_query *q, struct writer *out)
{
    uint64_t last = q->uid < 0 ? feed.n : *lane_of((uint32_t)q->uid), dropped = 0;
    uint64_t first = feed.n > FEED_THINGS ? feed.n - FEED_THINGS : 0, next = last;
    bool is_new = q->id.len == 0; /* wants nothing older */
    char text[24];
    snprintf(text, sizeof text, "%.*s", (int)(q->id.len < 20 ? q->id.len : 20),
             is_new ? "" : (const char *)q->id.data);
    uint64_t seen = is_new ? last : strtoull(text, NULL, 10);
    if (seen > last) /* an earlier daemon's number */
        seen = 0;
    const char *comma = "";
    writer_format(out, "{\"events\": [");
    for (uint64_t i = first; i < feed.n; i++) {
        const struct thing *t = &feed.ring[i % FEED_THINGS];
        uint64_t number = q->uid < 0 ? t->number : t->of_user;
        if ((q->uid >= 0 && t->uid != q->uid) || number <= seen)
            continue;
        if (!*comma)
            dropped = number - seen - 1;
        if (out->len + FEED_JSON_MAX > q->max_bytes) {
            next = number - 1;
            break;
        }
        writer_format(out, "%s", comma);
        writer_format(out, "{\"time_ms\": %llu, \"event\": \"%s\", \"uid\": %lu, \"kind\": \"%s\"",
                      (unsigned long long)t->at_ms, t->what, (unsigned long)t->uid,
                      wire_kind_name(t->kind));
        const char *const texts[] = {"session", t->session, "label", t->label, "why", t->why};
        for (size_t k = 0; k < 6; k += 2) {
            writer_format(out, ", \"%s\": ", texts[k]);
            json_write_text(out, texts[k + 1], strlen(texts[k + 1]));
        }
        writer_u8(out, '}');
        comma = ", ";
    }
    if (!*comma && last > seen) /* all of them are gone */
        dropped = last - seen;
    writer_format(out, "], \"dropped\": %llu, \"next\": \"%llu\"}", (unsigned long long)dropped,
                  (unsigned long long)next);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old.c - decides which entries have keys that a newer program no longer makes, and counts them. evict.c
 * takes them first; idle.c lets it count.
 *
 * An entry is old if its key is a digest of content, and its last use was before store_expect_old's time.
 * A hit makes it a current one. Counting reads a few thousand rows at a time: once after each start, then
 * each hour while there are some.
 *
 * Thread: store_expect_old the loop, all others the writer.
 */
#include <string.h>

#include "store/internal.h"

#define COUNT_ROWS 2000u  /* in one step */
#define COUNT_PACE_MS 20u /* between steps */
#define COUNT_RETRY_MS 60000u
#define COUNT_AGAIN_MS 3600000u
#define NAME_DIGEST 32u /* hex digits at the end of the names that our clients make */
#define NEVER UINT64_MAX

/* True for "KIND:VERSION:DIGEST", as our clients name entries by key. Other programs have other names. */
static bool is_digest_name(struct view name)
{
    const char *text = name.data;
    size_t i = name.len, end;
    while (i && strchr("0123456789abcdef", text[i - 1]) && text[i - 1])
        i--;
    if (name.len - i < NAME_DIGEST || i < 3 || text[--i] != ':')
        return false;
    for (end = i; i && text[i - 1] >= '0' && text[i - 1] <= '9';)
        i--;
    return i > 1 && i < end && text[i - 1] == ':';
}

bool old_row(const struct store *s, const struct store_row *row)
{
    return row->accessed_ms < s->old_before_ms &&
           (row->id.owner == STORE_MADE_HERE || is_digest_name(row->name));
}

void store_expect_old(struct store *s, uint64_t before_ms, bool tell)
{
    pthread_mutex_lock(&s->lock);
    s->old_before_ms = before_ms;
    s->tell_old = tell;
    s->caps_changed = true; /* wakes it */
    pthread_cond_signal(&s->writer_wake);
    pthread_mutex_unlock(&s->lock);
}

void old_gone(struct store *s, uint64_t n)
{
    s->stats.n_old -= n < s->stats.n_old ? n : s->stats.n_old;
}

static int count_rows(struct store *s, struct old_count *count)
{
    MDB_txn *txn = NULL;
    MDB_cursor *cursor;
    int rc = index_read_begin(&s->index, &txn);
    if (rc != 0)
        return rc;
    rc = mdb_cursor_open(txn, s->index.row, &cursor);
    bool open = rc == 0;
    count->place.standing = false;
    for (size_t i = 0; rc == 0 && i < COUNT_ROWS; i++) {
        struct store_row row;
        rc = index_next(&s->index, cursor, &count->place, &row);
        if (rc == 0)
            count->n += old_row(s, &row);
        else if (rc == WARM_ECORRUPT)
            rc = 0; /* verification removes it */
    }
    if (open)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc;
}

uint64_t old_step(struct store *s, uint64_t now_ms)
{
    struct old_count *count = &s->idle.old;
    int rc = count_rows(s, count);
    if (rc == 0)
        return now_ms + COUNT_PACE_MS;
    uint64_t n = count->n;
    *count = (struct old_count){.n = 0};
    if (rc != WARM_ENOT_FOUND)
        return now_ms + COUNT_RETRY_MS;
    pthread_mutex_lock(&s->lock);
    bool tell = s->tell_old && n > 0;
    s->tell_old = false;
    s->stats.n_old = n;
    pthread_mutex_unlock(&s->lock);
    if (tell)
        store_event(s, "%llu %s of older key versions, to be evicted first", (unsigned long long)n,
                    n == 1 ? "entry" : "entries");
    return n ? now_ms + COUNT_AGAIN_MS : NEVER;
}

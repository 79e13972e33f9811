/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.c - finds the row of a request, and chooses the one that gives way to a new row.
 *
 * bookkeeping.c counts with it by history.h; report.c and file.c read and write it.
 *
 * Thread: loop thread.
 */
#include "daemon/history/usage.h"

#include <stdio.h>
#include <string.h>

#include "keygen/json.h"

static const char *const names[] = {
#define X(name) #name,
    USAGE_COUNTERS(X)
#undef X
};

static bool is_row(const struct usage_row *row, uint32_t hour, uint32_t uid, const char *project)
{
    return row->hour == hour && row->uid == uid && strcmp(row->project, project) == 0;
}

static size_t n_of(const struct usage *u, uint32_t uid)
{
    size_t n = 0;
    for (size_t i = 0; i < USAGE_ROWS; i++)
        n += u->row[i].hour && u->row[i].uid == uid;
    return n;
}

/* Returns the oldest row of a user; NULL if there is none. */
static struct usage_row *oldest_of(struct usage *u, uint32_t uid)
{
    struct usage_row *oldest = NULL;
    for (struct usage_row *row = u->row; row < u->row + USAGE_ROWS; row++)
        if (row->hour && row->uid == uid && (!oldest || row->hour < oldest->hour))
            oldest = row;
    return oldest;
}

/* Returns the user who has the most rows. It counts all users in one pass, because each new row of a full table calls it
 * on the loop thread. */
static uint32_t largest_user(const struct usage *u)
{
    enum { SLOTS = 2 * USAGE_ROWS };
    struct {
        uint32_t uid, n;
    } users[SLOTS] = {0}, *most = users;
    for (const struct usage_row *row = u->row; row < u->row + USAGE_ROWS; row++) {
        size_t i = row->uid * 0x9e3779b1u % SLOTS;
        while (users[i].n && users[i].uid != row->uid)
            i = (i + 1) % SLOTS;
        users[i].uid = row->uid;
        if (++users[i].n > most->n)
            most = &users[i];
    }
    return most->uid;
}

/* Returns a row for a user: a free one, else the oldest of the user who has the most. */
static struct usage_row *place_for(struct usage *u, uint32_t uid)
{
    if (n_of(u, uid) >= USAGE_OF_USER)
        return oldest_of(u, uid);
    for (struct usage_row *row = u->row; row < u->row + USAGE_ROWS; row++)
        if (!row->hour)
            return row;
    return oldest_of(u, largest_user(u));
}

static struct usage_row *find(struct usage *u, uint32_t hour, uint32_t uid, const char *project)
{
    unsigned hash = uid * 0x9e3779b1u;
    for (const char *c = project; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    uint16_t *cached = &u->cache[(hash >> 8) % USAGE_CACHE];
    if (is_row(&u->row[*cached], hour, uid, project))
        return &u->row[*cached];
    struct usage_row *row = u->row;
    while (row < u->row + USAGE_ROWS && !is_row(row, hour, uid, project))
        row++;
    if (row == u->row + USAGE_ROWS) {
        row = place_for(u, uid);
        *row = (struct usage_row){.hour = hour, .uid = uid};
        snprintf(row->project, sizeof row->project, "%s", project);
    }
    *cached = (uint16_t)(row - u->row);
    return row;
}

void usage_count(struct usage *u, uint32_t uid, const char *project, enum usage_counter what,
                 uint64_t n, uint64_t now_ms)
{
    uint64_t *count = &find(u, (uint32_t)(now_ms / USAGE_HOUR_MS), uid, project)->n[what];
    *count +=
        *count || n != UINT64_MAX ? n : 0; /* one less, of a row that was given away meanwhile */
}

void usage_write_json(const struct usage *u, int64_t uid, struct writer *out)
{
    bool comma = false;
    writer_u8(out, '[');
    for (size_t i = 0; i < USAGE_ROWS; i++) {
        const struct usage_row *row = &u->row[i];
        if (!row->hour || (uid >= 0 && row->uid != uid))
            continue;
        writer_format(out, "%s{\"hour_ms\": %llu, \"uid\": %lu, \"project\": ", comma ? ", " : "",
                      (unsigned long long)row->hour * USAGE_HOUR_MS, (unsigned long)row->uid);
        json_write_text(out, row->project, strlen(row->project));
        for (size_t k = 0; k < USAGE_N_COUNTERS; k++)
            writer_format(out, ", \"%s\": %llu", names[k], (unsigned long long)row->n[k]);
        writer_u8(out, '}');
        comma = true;
    }
    writer_u8(out, ']');
}

/* ---- the file ---- */

void usage_encode(const struct usage *u, struct writer *out)
{
    uint32_t n = 0;
    for (size_t i = 0; i < USAGE_ROWS; i++)
        n += u->row[i].hour != 0;
    writer_u32(out, n);
    for (size_t i = 0; i < USAGE_ROWS; i++) {
        const struct usage_row *row = &u->row[i];
        if (!row->hour)
            continue;
        writer_u32(out, row->hour);
        writer_u32(out, row->uid);
        writer_text(out, row->project);
        writer_u32(out, USAGE_N_COUNTERS);
        for (size_t k = 0; k < USAGE_N_COUNTERS; k++)
            writer_u64(out, row->n[k]);
    }
}

void usage_decode(struct usage *u, struct reader *r)
{
    uint32_t n = reader_u32(r);
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        struct usage_row row = {.hour = reader_u32(r)};
        row.uid = reader_u32(r);
        struct view project = reader_blob(r, WIRE_PROJECT_MAX);
        uint32_t counters = reader_u32(r);
        for (uint32_t k = 0; k < counters && !r->failed; k++) {
            uint64_t value = reader_u64(r);
            if (k < USAGE_N_COUNTERS)
                row.n[k] = value;
        }
        if (r->failed || i >= USAGE_ROWS || !row.hour)
            continue;
        if (project.len)
            memcpy(row.project, project.data, project.len);
        u->row[i] = row;
    }
}

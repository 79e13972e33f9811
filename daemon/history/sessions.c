/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions.c - keeps which entries each session used, in memory and in a file for each session, so that
 * `warm export --session` has all of them, also after the daemon was started again.
 *
 *     history_used ─▶ id_set.h ──history_save, once a minute──▶ PATH.sessions/DIGEST
 *                        └─▶ PATH.sessions/DIGEST.open: it has more than its file
 *
 * What may go wrong: the daemon is killed before it writes the file, and DIGEST.open tells the next one that
 * entries are missing; all sessions together have too many, and the oldest of the user with the most gives way.
 * Both count as lost entries of the session. A file that is damaged is no session.
 *
 *     offset  size  field of a file (little-endian)
 *     0       4     "WSES"
 *     4       4     version, 2
 *     8       4     uid
 *     12      4+n   id, then as further blobs the project and the command line
 *     -       8     started_ms, then 8 last_ms, 8 n_events, 4 entries that are lost
 *     -       4     c, counters, then c × u64
 *     -       4     n, then n × (u32 owner, key): entries in the order of their first use
 *     -       16    XXH3-128 of all before
 *
 * history.c calls it when a session begins or gives way, and when it saves; report.c before it answers.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/history/internal.h"

#define MAGIC "WSES"
#define VERSION 2u
#define OPEN ".open"
#define MARK_S (7 * 24 * 3600)                            /* until then a session may go on */
#define SESSION_FILE_MAX (1024u + 20u * HISTORY_USED_MAX) /* bytes */

/* ---- paths ---- */

/* Writes the path of a session's file, with an ending. False without a folder. */
static bool session_path(const struct history *h, const struct session *s, const char *ending,
                         char out[PATH_MAX])
{
    char text[WIRE_SESSION_MAX + 16], digest[WARM_KEY_TEXT];
    int len = snprintf(text, sizeof text, "%u %s", (unsigned)s->uid, s->id);
    if (!h->path || len < 0)
        return false;
    struct key key = key_of_bytes(text, (size_t)len);
    key_to_text(&key, digest);
    return snprintf(out, PATH_MAX, "%s.sessions/%s%s", h->path, digest, ending) < PATH_MAX;
}

/* ---- a file ---- */

static void encode(const struct session *s, struct writer *w)
{
    writer_bytes(w, MAGIC, 4);
    writer_u32(w, VERSION);
    writer_u32(w, s->uid);
    writer_blob(w, s->id, strlen(s->id));
    writer_blob(w, s->project, strlen(s->project));
    writer_blob(w, s->command, strlen(s->command));
    writer_u64(w, s->started_ms);
    writer_u64(w, s->last_ms);
    writer_u64(w, s->n_events);
    writer_u32(w, s->lost);
    writer_u32(w, HISTORY_N_COUNTERS);
    for (size_t i = 0; i < HISTORY_N_COUNTERS; i++)
        writer_u64(w, s->counters[i]);
    writer_u32(w, s->used.n);
    for (uint32_t i = 0; i < s->used.n; i++) {
        writer_u32(w, s->used.id[i].owner);
        writer_bytes(w, s->used.id[i].key.bytes, sizeof s->used.id[i].key.bytes);
    }
}

static void copy_text(char *out, size_t cap, struct view text)
{
    snprintf(out, cap, "%.*s", (int)text.len, (const char *)text.data);
}

/* Reads the entries behind the head. */
static void decode_used(struct reader *r, struct id_set *out)
{
    uint32_t n = reader_u32(r);
    if (n > HISTORY_USED_MAX || n > r->len / 20)
        r->failed = true;
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        struct store_id id = {.owner = reader_u32(r)};
        reader_copy(r, id.key.bytes, sizeof id.key.bytes);
        if (!r->failed)
            id_set_add(out, &id);
    }
}

bool history_session_read(const void *data, size_t len, struct session *out)
{
    struct reader r = reader_over(data, len);
    struct view magic = reader_bytes(&r, 4);
    if (reader_u32(&r) != VERSION || r.failed || memcmp(magic.data, MAGIC, 4) != 0)
        return false;
    *out = (struct session){.uid = reader_u32(&r)};
    struct view id = reader_blob(&r, WIRE_SESSION_MAX), project = reader_blob(&r, WIRE_PROJECT_MAX),
                command = reader_blob(&r, WIRE_NAME_MAX);
    out->started_ms = reader_u64(&r);
    out->last_ms = reader_u64(&r);
    out->n_events = reader_u64(&r);
    out->lost = reader_u32(&r);
    uint32_t n = reader_u32(&r);
    for (uint32_t i = 0; i < n && !r.failed; i++) {
        uint64_t count = reader_u64(&r);
        if (i < HISTORY_N_COUNTERS)
            out->counters[i] = count;
    }
    if (!r.failed)
        decode_used(&r, &out->used);
    if (reader_done(&r) && wire_session_ok(id.data, id.len)) {
        copy_text(out->id, sizeof out->id, id);
        copy_text(out->project, sizeof out->project, project);
        copy_text(out->command, sizeof out->command, command);
        return true;
    }
    id_set_clear(&out->used);
    return false;
}

/* Reads the file at a path. False if there is none, or it is damaged. */
static bool load(const char *path, struct session *out)
{
    struct writer w;
    bool read = false;
    writer_init(&w, SESSION_FILE_MAX);
    if (history_file_read(path, &w))
        read = history_session_read(w.data, w.len, out);
    writer_close(&w);
    return read;
}

static void save(struct history *h, struct session *s)
{
    char path[PATH_MAX], open[PATH_MAX];
    struct writer w;
    if (!session_path(h, s, "", path) || !session_path(h, s, OPEN, open))
        return;
    writer_init(&w, SESSION_FILE_MAX);
    encode(s, &w);
    if (history_file_write(path, &w)) {
        s->unsaved = false;
        unlink(open);
    }
    writer_close(&w);
}

/* Notes on the disk that a session has more than its file. */
static void mark_open(const struct history *h, struct session *s)
{
    char path[PATH_MAX];
    s->unsaved = true;
    if (!session_path(h, s, OPEN, path))
        return;
    FILE *file = fopen(path, "we");
    if (!file) {
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s.sessions", h->path);
        mkdir(folder, 0700);
        file = fopen(path, "we");
    }
    if (file)
        fclose(file);
}

/* ---- what a session used ---- */

/* Returns the oldest session with entries of the user who has the most, but for `not_this`. */
static struct session *largest(struct history *h, const struct session *not_this)
{
    uint64_t most = 0;
    struct session *oldest = NULL;
    for (size_t i = 0; i < HISTORY_SESSIONS; i++) {
        uint64_t sum = 0;
        struct session *first = NULL;
        for (size_t j = 0; j < HISTORY_SESSIONS; j++) {
            struct session *s = &h->session[j];
            if (!*s->id || s->uid != h->session[i].uid)
                continue;
            sum += s->used.n;
            if (s->used.n && s != not_this && (!first || s->last_ms < first->last_ms))
                first = s;
        }
        if (first && sum > most) {
            most = sum;
            oldest = first;
        }
    }
    return oldest;
}

/* Frees what a session used; all of it counts as lost. */
static void drop_used(struct session *s)
{
    s->lost += s->used.n;
    id_set_clear(&s->used);
}

static bool make_room(struct history *h, struct session *s)
{
    if (h->n_used < HISTORY_USED_MAX)
        return true;
    struct session *victim = largest(h, s);
    if (!victim)
        return false;
    h->n_used -= victim->used.n;
    drop_used(victim);
    if (!victim->unsaved)
        mark_open(h, victim);
    return true;
}

void history_used(struct history *h, uint32_t session, const struct store_id *id)
{
    if (session == HISTORY_NO_SESSION)
        return;
    assert(session <= HISTORY_SESSIONS);
    struct session *s = &h->session[session - 1];
    if (id_set_has(&s->used, id))
        return;
    if (!s->unsaved)
        mark_open(h, s);
    if (make_room(h, s) && id_set_add(&s->used, id))
        h->n_used++;
    else
        s->lost++;
}

/* ---- the life of a session ---- */

/* Chooses a free place, which has neither time; else a session that asked nothing, which has no last one; else the
 * oldest. */
struct session *history_session_place(struct history *h)
{
    struct session *best = NULL;
    for (size_t i = 0; i < HISTORY_SESSIONS; i++) {
        struct session *s = &h->session[i];
        if (s->refs == 0 && (!best || s->last_ms < best->last_ms ||
                             (s->last_ms == best->last_ms && s->started_ms < best->started_ms)))
            best = s;
    }
    return best;
}

void history_session_begin(struct history *h, struct session *s)
{
    char path[PATH_MAX], open[PATH_MAX];
    struct session before;
    if (!session_path(h, s, "", path) || !session_path(h, s, OPEN, open))
        return;
    bool was_open = access(open, F_OK) == 0;
    if (load(path, &before)) {
        before.number = s->number;
        *s = before;
        if (h->n_used + s->used.n > HISTORY_USED_MAX)
            drop_used(s);
        h->n_used += s->used.n;
    }
    s->unsaved = was_open;
    s->lost += was_open;
}

void history_session_drop(struct history *h, struct session *s)
{
    char path[PATH_MAX];
    h->n_used -= s->used.n;
    id_set_clear(&s->used);
    if (*s->id && session_path(h, s, "", path))
        unlink(path);
    if (*s->id && session_path(h, s, OPEN, path))
        unlink(path);
    *s = (struct session){.uid = 0};
}

/* True if a session of this user and id is in memory. */
static bool is_known(const struct history *h, const struct session *s)
{
    for (size_t i = 0; i < HISTORY_SESSIONS; i++)
        if (h->session[i].uid == s->uid && strcmp(h->session[i].id, s->id) == 0)
            return true;
    return false;
}

/* Takes a session of an earlier daemon into memory, if it is newer than the one that gives way for it. */
static void take_back(struct history *h, const char *path)
{
    struct session before;
    if (!load(path, &before))
        return;
    struct session *place = is_known(h, &before) ? NULL : history_session_place(h);
    if (place && (!*place->id || place->last_ms < before.last_ms)) {
        char id[sizeof before.id];
        uint32_t uid = before.uid;
        history_session_drop(h, place);
        memcpy(id, before.id, sizeof id);
        *place = (struct session){.uid = uid, .number = ++h->last_session};
        memcpy(place->id, id, sizeof id);
        history_session_begin(h, place);
    } else if (place) {
        unlink(path);
    }
    id_set_clear(&before.used);
}

static void save_all(struct history *h)
{
    for (size_t i = 0; i < HISTORY_SESSIONS; i++)
        if (h->session[i].unsaved)
            save(h, &h->session[i]);
}

void history_sessions_load(struct history *h)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct stat st;
    if (h->sessions_loaded || !h->path)
        return;
    h->sessions_loaded = true;
    save_all(h);
    snprintf(folder, sizeof folder, "%s.sessions", h->path);
    DIR *listing = opendir(folder);
    for (const struct dirent *d; listing && (d = readdir(listing));) {
        size_t len = strlen(d->d_name);
        if (snprintf(path, sizeof path, "%s/%s", folder, d->d_name) >= PATH_MAX)
            continue;
        if (len == WARM_KEY_TEXT - 1)
            take_back(h, path);
        else if (len == WARM_KEY_TEXT - 1 + strlen(OPEN) && stat(path, &st) == 0 &&
                 time(NULL) - st.st_mtime > MARK_S)
            unlink(path); /* of a session that never got a file: nothing else goes with it */
    }
    if (listing)
        closedir(listing);
}

void history_sessions_save(struct history *h)
{
    save_all(h);
    history_sessions_load(h); /* old files give way */
}

void history_sessions_free(struct history *h)
{
    for (size_t i = 0; i < HISTORY_SESSIONS; i++)
        id_set_clear(&h->session[i].used);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchains.c - decides which compiler each path leads to right now; see toolchains.h for the picture.
 *
 * Identifying a place:
 *   1. a pool thread finds the files (and for a client's path, if they may be trusted);
 *   2. the loop looks whether they are known, or were remembered at an earlier start; else
 *   3. a pool thread reads them and starts a fork server, which tells version and targets;
 *   4. the loop sets the place and tells the waiters to ask again.
 * Every failure ends at 4 with the place empty and the reason kept. A configured place is looked at again
 * when another file lies there or after CONFIGURED_RETRY_MS, a client's place after NAMED_RETRY_MS.
 *
 * pool.c calls it.
 *
 * Thread: loop thread, but for locate_work and read_work.
 */
#include "daemon/compiler/toolchains.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "daemon/process/log.h"

#define ID_DIGITS_MIN 8u     /* of a selector that is an identity */
#define NAMED_RETRY_MS 1000u /* how long a client's path that led nowhere is not looked at again */

#define CONFIGURED_RETRY_MS 5000u /* the same of a configured path, unless its file changes */

struct known { /* one identified library; `toolchain` is first, callers hold pointers to it */
    struct toolchain toolchain;
    struct toolchain_files files;
    struct known *next; /* all that were ever identified: they live until toolchains_free */
};

struct place {             /* one path */
    char *given;           /* NULL: a free slot for clients' paths */
    bool named;            /* by a client, not by the configuration */
    bool is_own;           /* that client runs as the daemon's own user */
    uint32_t uid;          /* of the client that named it last */
    struct known *current; /* NULL: no usable library is there */
    bool identifying;
    struct worker_file failed; /* the last file that could not be used */
    struct err why;            /* the reason of that */
    uint64_t failed_ms;        /* its time, on the loop's clock */
    uint64_t used;             /* clock at its last use */
};

struct toolchains {
    struct toolchains_config config;
    struct place *places;
    size_t n_places;
    struct place named[TOOLCHAINS_NAMED_MAX];
    struct toolchain_folders folders; /* for clients of other users; read by pool threads too */
    uint64_t clock;
    struct known *known;
    size_t n_identifying;
    struct toolchain_wait *waits, *waking;
    bool stopped;
};

/* ---- libraries that are known ---- */

/* Adds a known library; takes both, even if it fails. NULL: no memory. */
static struct known *known_add(struct toolchains *t, struct toolchain *toolchain,
                               struct toolchain_files *files)
{
    /* A known library may have the same paths and content: its files were touched or written again. */
    struct known *k = t->known;
    while (k && !(key_equal(&k->toolchain.id, &toolchain->id) &&
                  strcmp(k->files.library, files->library) == 0 &&
                  strcmp(k->files.builtins, files->builtins) == 0))
        k = k->next;
    if (k) {
        k->files.library_file = files->library_file;
        k->files.builtins_file = files->builtins_file;
    } else if ((k = calloc(1, sizeof *k))) {
        *k = (struct known){*toolchain, *files, t->known};
        t->known = k;
        return k;
    }
    toolchain_close(toolchain);
    toolchain_files_close(files);
    return k;
}

static void remember(struct toolchains *t, const struct toolchain *found,
                     const struct toolchain_files *files)
{
    char name[TOOLCHAIN_NAME_MAX];
    struct writer w;
    if (!t->config.remember)
        return;
    toolchain_record_name(files, name);
    writer_init(&w, TOOLCHAIN_RECORD_MAX);
    toolchain_encode(found, &w);
    if (!w.failed && t->config.remember(t->config.memory_arg, name, w.data, w.len))
        log_debug("%s could not be remembered: it is identified anew at the next start",
                  found->text);
    writer_close(&w);
}

static bool recall(struct toolchains *t, const struct toolchain_files *files, struct toolchain *out)
{
    char name[TOOLCHAIN_NAME_MAX], record[TOOLCHAIN_RECORD_MAX];
    size_t len;
    if (!t->config.recall)
        return false;
    toolchain_record_name(files, name);
    return t->config.recall(t->config.memory_arg, name, record, sizeof record, &len) == 0 &&
           toolchain_decode(files, record, len, out, NULL) == 0;
}

/* Returns the file behind a place's own path right now; all zero if there is none. */
static struct worker_file place_look(const struct place *p)
{
    struct stat st;
    return stat(p->given, &st) ? (struct worker_file){0} : worker_file_of(&st);
}

/* Identifies a place at once; before the loop runs. */
static int place_open(struct toolchains *t, struct place *p, struct err *e)
{
    struct toolchain_files files;
    struct toolchain toolchain;
    struct worker_started server;
    int code = toolchain_locate(p->given, &files, e);
    if (code)
        return code;
    if (!recall(t, &files, &toolchain)) {
        code = toolchain_identify(t->config.program, &files, &toolchain, &server, e);
        if (code) {
            toolchain_files_close(&files);
            return code;
        }
        close(server.fd); /* the loop that would watch it does not run yet */
        remember(t, &toolchain, &files);
    }
    p->current = known_add(t, &toolchain, &files);
    return p->current ? 0 : err_set(e, WARM_ENOMEM, "out of memory");
}

/* ---- identifying while the loop runs ---- */

struct identify { /* a place that is being identified */
    uv_work_t work;
    struct toolchains *toolchains;
    struct place *place; /* the place stays as it is meanwhile */
    struct toolchain_files files;
    struct toolchain toolchain;
    struct worker_started server;
    struct err err;
    int code;
};

/* Tells all waiters; a waiter that waits again meanwhile is not told twice. */
static void wake_all(struct toolchains *t)
{
    if (t->waking)
        return; /* a waiter that is being told called */
    t->waking = t->waits;
    t->waits = NULL;
    if (t->waking)
        t->waking->at = &t->waking;
    while (t->waking) {
        struct toolchain_wait *wait = t->waking;
        toolchain_wait_cancel(wait);
        wait->on_change(wait);
    }
}

void toolchains_await(struct toolchains *t, struct toolchain_wait *wait)
{
    assert(!wait->at && wait->on_change);
    wait->next = t->waits;
    wait->at = &t->waits;
    if (t->waits)
        t->waits->at = &wait->next;
    t->waits = wait;
}

/* Sets the place to the library that was found; NULL: the failure is in i->err. */
static void identify_end(struct identify *i, struct known *found)
{
    struct toolchains *t = i->toolchains;
    struct place *p = i->place;
    p->identifying = false;
    assert(t->n_identifying);
    t->n_identifying--;
    if (found) {
        p->current = found;
        if (p->named)
            log_user(p->uid, LOG_LEVEL_INFO, "%s is %s", p->given, found->toolchain.text);
        else
            log_info("%s is %s", p->given, found->toolchain.text);
    } else {
        bool is_news = strcmp(p->why.text, i->err.text) != 0;
        p->current = NULL;
        p->failed = place_look(p);
        p->failed_ms = uv_now(t->config.loop);
        p->why = i->err;
        if (p->why.code == WARM_EBUSY) /* it changed while it was read: do not wait for it */
            p->why.code = WARM_ENO_TOOLCHAIN;
        if (p->named)
            log_user(p->uid, LOG_LEVEL_INFO, "refused to uid %u: %s", (unsigned)p->uid,
                     i->err.text);
        else if (is_news)
            log_error("%s", i->err.text);
    }
    free(i);
    wake_all(t);
    if (!t->n_identifying)
        t->config.on_idle(t->config.arg);
}

static struct known *identify_keep(struct identify *i)
{
    struct known *k = known_add(i->toolchains, &i->toolchain, &i->files);
    if (!k)
        err_set(&i->err, WARM_ENOMEM, "out of memory");
    return k;
}

static void read_work(uv_work_t *work)
{
    struct identify *i = work->data;
    i->code = toolchain_identify(i->toolchains->config.program, &i->files, &i->toolchain,
                                 &i->server, &i->err);
}

static void on_read(uv_work_t *work, int status)
{
    struct identify *i = work->data;
    (void)status;
    if (i->code) {
        toolchain_files_close(&i->files);
        identify_end(i, NULL);
        return;
    }
    struct toolchains *t = i->toolchains;
    remember(t, &i->toolchain, &i->files);
    struct known *k = identify_keep(i);
    if (k && !t->stopped)
        t->config.on_started(t->config.arg, &k->toolchain, &i->server);
    else
        close(i->server.fd);
    identify_end(i, k);
}

static void locate_work(uv_work_t *work)
{
    struct identify *i = work->data;
    const struct place *p = i->place;
    const struct toolchain_folders *folders = p->is_own ? NULL : &i->toolchains->folders;
    i->code = p->named ? toolchain_locate_trusted(p->given, folders, &i->files, &i->err)
                       : toolchain_locate(p->given, &i->files, &i->err);
}

static void on_located(uv_work_t *work, int status)
{
    struct identify *i = work->data;
    struct toolchains *t = i->toolchains;
    (void)status;
    if (i->code) {
        identify_end(i, NULL);
        return;
    }
    /* A known library may have these very files. */
    struct known *k = t->known;
    while (k && !(worker_file_equal(&k->files.library_file, &i->files.library_file) &&
                  worker_file_equal(&k->files.builtins_file, &i->files.builtins_file) &&
                  toolchain_files_hold(&k->files)))
        k = k->next;
    if (k) {
        toolchain_files_close(&i->files);
        identify_end(i, k);
    } else if (recall(t, &i->files, &i->toolchain)) {
        identify_end(i, identify_keep(i));
    } else if (uv_queue_work(t->config.loop, &i->work, read_work, on_read)) {
        toolchain_files_close(&i->files);
        err_set(&i->err, WARM_ENOMEM, "out of memory");
        identify_end(i, NULL);
    }
}

/* Begins to identify a place. BUSY: it is under way. SHUTDOWN, NOMEM: it is not. */
static int place_identify(struct toolchains *t, struct place *p, struct err *e)
{
    if (t->stopped)
        return err_set(e, WARM_ESHUTDOWN, "the daemon is stopping");
    struct identify *i = p->identifying ? NULL : calloc(1, sizeof *i);
    if (i) {
        *i = (struct identify){.work.data = i, .toolchains = t, .place = p};
        if (uv_queue_work(t->config.loop, &i->work, locate_work, on_located) == 0) {
            p->identifying = true;
            t->n_identifying++;
        } else {
            free(i);
        }
    }
    return p->identifying ? err_set(e, WARM_EBUSY, "%s is being identified", p->given)
                          : err_set(e, WARM_ENOMEM, "out of memory");
}

/* ---- finding ---- */

/* True if a place without a usable file must be looked at again: another file lies there now, or
 * some time has passed. An installation may have been under way, or the machine too busy. */
static bool place_may_be_back(const struct toolchains *t, const struct place *p)
{
    struct worker_file now = place_look(p);
    return !p->current && (!worker_file_equal(&now, &p->failed) ||
                           uv_now(t->config.loop) - p->failed_ms >= CONFIGURED_RETRY_MS);
}

/* Returns how well a toolchain matches a selector: 0 not at all, else the higher the newer. */
static int selector_matches(struct view selector, const struct toolchain *t)
{
    char id[WARM_KEY_TEXT], version[32], major[16];
    key_to_text(&t->id, id);
    snprintf(version, sizeof version, "%d.%d", t->major, t->minor);
    snprintf(major, sizeof major, "%d", t->major);
    bool is_version =
        (selector.len == strlen(version) && memcmp(selector.data, version, selector.len) == 0) ||
        (selector.len == strlen(major) && memcmp(selector.data, major, selector.len) == 0);
    bool is_id = selector.len >= ID_DIGITS_MIN && selector.len < sizeof id &&
                 strncasecmp(selector.data, id, selector.len) == 0;
    return is_version || is_id ? t->major * 1000 + t->minor + 1 : 0;
}

static struct place *place_find(struct toolchains *t, struct view selector)
{
    struct place *best = NULL;
    int best_match = 0;
    for (struct place *p = t->places; p < t->places + t->n_places; p++) {
        if (!p->current)
            continue;
        if (!selector.len)
            return p;
        int match = selector_matches(selector, &p->current->toolchain);
        if (match > best_match) {
            best = p;
            best_match = match;
        }
    }
    return best;
}

/* Fails with one line: the selector, and the toolchains that exist. */
static int no_toolchain(struct toolchains *t, struct view selector, struct err *e)
{
    char list[160] = "";
    for (struct place *p = t->places; p < t->places + t->n_places; p++)
        if (p->current) {
            size_t at = strlen(list);
            snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "",
                     p->current->toolchain.text);
        }
    if (!*list)
        return err_set(e, WARM_ENO_TOOLCHAIN,
                       "this daemon has no NVRTC: see `warm toolchain list`");
    return err_set(e, WARM_ENO_TOOLCHAIN, "no NVRTC '%.*s'; there is: %s",
                   (int)(selector.len < 40 ? selector.len : 40), (const char *)selector.data, list);
}

/* Returns the slot of a client's path; NULL if all are being identified, or there is no memory. */
static struct place *named_place(struct toolchains *t, struct view path, bool is_own)
{
    struct place *oldest = NULL;
    for (struct place *p = t->named; p < t->named + TOOLCHAINS_NAMED_MAX; p++) {
        if (p->given && p->is_own == is_own && strlen(p->given) == path.len &&
            memcmp(p->given, path.data, path.len) == 0)
            return p;
        if (!p->identifying && (!oldest || p->used < oldest->used))
            oldest = p;
    }
    char *given = oldest ? strndup(path.data, path.len) : NULL;
    if (!given)
        return NULL;
    free(oldest->given);
    *oldest = (struct place){.given = given, .named = true, .is_own = is_own};
    return oldest;
}

/* True if the path still leads to its known files. Two or three calls of stat. */
static bool named_holds(const struct place *p)
{
    if (!p->current || !toolchain_files_hold(&p->current->files))
        return false;
    if (strcmp(p->given, p->current->files.library) == 0)
        return true;
    struct worker_file now = place_look(p);
    return worker_file_equal(&now, &p->current->files.library_file);
}

/* Fails with the one answer that other users get. */
static int not_for_others(struct view path, struct err *e)
{
    return err_set(e, WARM_ENO_TOOLCHAIN, "no libnvrtc.so that this daemon loads for you at %.*s",
                   (int)path.len, (const char *)path.data);
}

static int find_named(struct toolchains *t, struct view path, uint32_t uid,
                      const struct toolchain **out, struct err *e)
{
    bool is_own = uid == geteuid();
    if (memchr(path.data, '\0', path.len))
        return err_set(e, WARM_ENO_TOOLCHAIN, "a path with a NUL byte");
    if (!is_own && !toolchain_folders_have(&t->folders, path))
        return not_for_others(path, e);
    struct place *p = named_place(t, path, is_own);
    if (!p)
        return t->n_identifying && !t->stopped
                   ? err_set(e, WARM_EBUSY, "too many compilers are being identified")
                   : err_set(e, WARM_ENOMEM, "out of memory");
    p->used = ++t->clock;
    p->uid = uid;
    if (named_holds(p)) {
        *out = &p->current->toolchain;
        return 0;
    }
    if (p->why.code && !p->identifying && uv_now(t->config.loop) - p->failed_ms < NAMED_RETRY_MS) {
        if (!is_own && p->why.code == WARM_ENO_TOOLCHAIN)
            return not_for_others(path, e);
        *e = p->why;
        return e->code;
    }
    p->why.code = 0;
    return place_identify(t, p, e);
}

int toolchains_find(struct toolchains *t, struct view selector, uint32_t uid,
                    const struct toolchain **out, struct err *e)
{
    if (selector.len && *(const char *)selector.data == '/')
        return find_named(t, selector, uid, out, e);
    for (struct place *p = t->places; p < t->places + t->n_places; p++)
        if (place_may_be_back(t, p))
            place_identify(t, p, NULL);
    struct place *p = place_find(t, selector);
    if (!p && t->n_identifying && !t->stopped)
        return err_set(e, WARM_EBUSY, "a compiler is being identified");
    if (!p)
        return no_toolchain(t, selector, e);
    if (!toolchain_files_hold(&p->current->files))
        return place_identify(t, p, e);
    *out = &p->current->toolchain;
    return 0;
}

/* Adds a place's toolchain, unless the list has it. */
static size_t list_add(const struct place *p, const struct toolchain **out, size_t n)
{
    if (!p->current)
        return n;
    for (size_t i = 0; i < n; i++)
        if (out[i] == &p->current->toolchain)
            return n;
    out[n] = &p->current->toolchain;
    return n + 1;
}

size_t toolchains_list(const struct toolchains *t, const struct toolchain **out, size_t cap)
{
    size_t n = 0;
    for (const struct place *p = t->places; p < t->places + t->n_places && n < cap; p++)
        n = list_add(p, out, n);
    for (const struct place *p = t->named; p < t->named + TOOLCHAINS_NAMED_MAX && n < cap; p++)
        n = list_add(p, out, n);
    return n;
}

static size_t refusal_add(const struct place *p, struct toolchain_refusal *out, size_t n)
{
    if (!p->given || p->current || !*p->why.text)
        return n;
    out[n] = (struct toolchain_refusal){p->given, p->why.text};
    return n + 1;
}

size_t toolchains_refused(const struct toolchains *t, int64_t uid, struct toolchain_refusal *out,
                          size_t cap)
{
    size_t n = 0;
    for (const struct place *p = t->places; p < t->places + t->n_places && n < cap; p++)
        n = refusal_add(p, out, n);
    for (const struct place *p = t->named; p < t->named + TOOLCHAINS_NAMED_MAX && n < cap; p++)
        if (uid < 0 || p->uid == uid)
            n = refusal_add(p, out, n);
    return n;
}

const struct toolchain_files *toolchains_files(const struct toolchain *toolchain)
{
    return &((const struct known *)(const void *)toolchain)->files;
}

/* ---- opening and closing ---- */

static int open_places(struct toolchains *t, struct err *e)
{
    assert(!t->places);
    t->places = calloc(t->config.n_given ? t->config.n_given : 1, sizeof *t->places);
    if (!t->places)
        return err_set(e, WARM_ENOMEM, "out of memory");
    for (; t->n_places < t->config.n_given; t->n_places++) {
        struct place *p = &t->places[t->n_places];
        struct err why;
        p->given = strdup(t->config.given[t->n_places]);
        if (!p->given)
            return err_set(e, WARM_ENOMEM, "out of memory");
        if (place_open(t, p, &why)) {
            p->failed = place_look(p);
            p->why = why;
            log_warning("left out: %s", why.text);
        }
    }
    return 0;
}

/* Adds a folder as it is written and, if it has links, also without them. */
static int folders_add(struct toolchain_folders *f, const char *folder, struct err *e)
{
    char *names[] = {strdup(folder), realpath(folder, NULL)};
    char **grown = realloc(f->list, (f->n + 2) * sizeof *grown);
    if (grown)
        f->list = grown;
    for (size_t i = 0; grown && i < 2; i++)
        if (names[i] && (i == 0 || !names[0] || strcmp(names[0], names[1]) != 0)) {
            size_t len = strlen(names[i]);
            while (len && names[i][len - 1] == '/')
                names[i][--len] = '\0';
            f->list[f->n++] = names[i];
            names[i] = NULL;
        }
    free(names[0]);
    free(names[1]);
    return grown ? 0 : err_set(e, WARM_ENOMEM, "out of memory");
}

/* Collects the folders of the setting, and the folders of the configured libraries. */
static int open_folders(struct toolchains *t, struct err *e)
{
    int code = 0;
    for (size_t i = 0; !code && i < t->config.n_from; i++)
        code = folders_add(&t->folders, t->config.from[i], e);
    for (struct place *p = t->places; !code && p < t->places + t->n_places; p++) {
        char folder[PATH_MAX];
        if (!p->current)
            continue;
        snprintf(folder, sizeof folder, "%s", p->current->files.library);
        *(strrchr(folder, '/') + (folder[0] == '/' && strrchr(folder, '/') == folder)) = '\0';
        code = folders_add(&t->folders, folder, e);
    }
    return code;
}

int toolchains_open(struct toolchains **out, const struct toolchains_config *config, struct err *e)
{
    struct toolchains *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    t->config = *config;
    int code = open_places(t, e);
    if (!code)
        code = open_folders(t, e);
    if (code) {
        toolchains_free(t);
        return code;
    }
    *out = t;
    return 0;
}

void toolchains_stop(struct toolchains *t)
{
    t->stopped = true;
    wake_all(t);
}

bool toolchains_busy(const struct toolchains *t) { return t->n_identifying > 0; }

void toolchains_free(struct toolchains *t)
{
    assert(!t || !t->n_identifying);
    if (!t)
        return;
    for (struct known *k = t->known, *next; k; k = next) {
        next = k->next;
        toolchain_close(&k->toolchain);
        toolchain_files_close(&k->files);
        free(k);
    }
    for (size_t i = 0; i < t->n_places; i++)
        free(t->places[i].given);
    for (size_t i = 0; i < TOOLCHAINS_NAMED_MAX; i++)
        free(t->named[i].given);
    for (size_t i = 0; i < t->folders.n; i++)
        free(t->folders.list[i]);
    free(t->folders.list);
    free(t->places);
    free(t);
}

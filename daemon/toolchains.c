/* SPDX-License-Identifier: Apache-2.0 */
/* toolchains.c - which compiler each configured path leads to; see toolchains.h. Loop thread, but
 * for identify_work. */
#include "daemon/toolchains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/log.h"

#define ID_DIGITS_MIN 8u /* of a selector that is an identity */

struct known { /* one identified library; `toolchain` first, callers hold pointers to it */
    struct toolchain toolchain;
    struct toolchain_files files;
    struct known *next; /* all there ever were: they live until toolchains_free */
};

struct place { /* one path of the configuration */
    char *given;
    struct known *current;     /* NULL: nothing usable there */
    struct worker_file failed; /* what was there when that was found out */
    bool identifying;
};

struct toolchains {
    struct toolchains_config config;
    struct place *places;
    size_t n_places;
    struct known *known;
    size_t n_identifying;
    bool stopped;
};

/* Makes what was found the one that a place stands for. Takes both, even if it fails; NOMEM. */
static int place_set(struct toolchains *t, struct place *p, struct toolchain *toolchain,
                     struct toolchain_files *files)
{
    struct known *k = calloc(1, sizeof *k);
    if (!k) {
        toolchain_close(toolchain);
        toolchain_files_close(files);
        return WARM_ENOMEM;
    }
    k->toolchain = *toolchain;
    k->files = *files;
    k->next = t->known;
    t->known = k;
    p->current = k;
    return 0;
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

/* What a place's own path leads to right now; all zero if to nothing. */
static struct worker_file place_look(const struct place *p)
{
    struct stat st;
    return stat(p->given, &st) ? (struct worker_file){0} : worker_file_of(&st);
}

/* Identifies what a place leads to, at once; before the loop runs. */
static int place_open(struct toolchains *t, struct place *p, struct err *e)
{
    struct toolchain_files files;
    struct toolchain toolchain;
    struct worker_ready ready;
    int code = toolchain_locate(p->given, &files, e);
    if (code)
        return code;
    if (!recall(t, &files, &toolchain)) {
        code = toolchain_identify(t->config.program, &files, &toolchain, &ready, e);
        if (code) {
            toolchain_files_close(&files);
            return code;
        }
        t->config.on_ready(t->config.arg, &ready);
        remember(t, &toolchain, &files);
    }
    code = place_set(t, p, &toolchain, &files);
    return code ? err_set(e, code, "out of memory") : 0;
}

struct identify { /* a library that changed, on its way to a new identity */
    uv_work_t work;
    struct toolchains *toolchains;
    struct place *place;
    struct toolchain_files files;
    struct toolchain toolchain;
    struct worker_ready ready;
    struct err err;
    int code;
};

static void identify_work(uv_work_t *work)
{
    struct identify *i = work->data;
    i->code = toolchain_locate(i->place->given, &i->files, &i->err);
    if (i->code)
        return;
    i->code = toolchain_identify(i->toolchains->config.program, &i->files, &i->toolchain, &i->ready,
                                 &i->err);
    if (i->code)
        toolchain_files_close(&i->files);
}

static void identify_done(uv_work_t *work, int status)
{
    struct identify *i = work->data;
    struct toolchains *t = i->toolchains;
    struct place *p = i->place;
    (void)status;
    p->identifying = false;
    t->n_identifying--;
    if (!i->code && place_set(t, p, &i->toolchain, &i->files))
        i->code = err_set(&i->err, WARM_ENOMEM, "out of memory");
    if (!i->code) {
        remember(t, &p->current->toolchain, &p->current->files);
        log_info("%s is now %s", p->given, p->current->toolchain.text);
    } else {
        p->current = NULL;
        p->failed = place_look(p);
        log_error("%s", i->err.text);
    }
    free(i);
    if (!t->n_identifying)
        t->config.on_idle(t->config.arg);
}

static void place_identify(struct toolchains *t, struct place *p)
{
    struct identify *i = p->identifying || t->stopped ? NULL : calloc(1, sizeof *i);
    if (!i)
        return;
    i->work.data = i;
    i->toolchains = t;
    i->place = p;
    if (uv_queue_work(t->config.loop, &i->work, identify_work, identify_done)) {
        free(i);
        return;
    }
    p->identifying = true;
    t->n_identifying++;
}

/* A place that had nothing usable and where something else lies now. */
static bool place_may_be_back(const struct place *p)
{
    struct worker_file now = place_look(p);
    return !p->current && !worker_file_equal(&now, &p->failed);
}

/* How well a toolchain answers a selector: 0 not at all, else the higher the newer. */
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

/* One line: what was asked for and what there is. */
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
                       "this daemon has no NVRTC: name a libnvrtc.so with --nvrtc");
    return err_set(e, WARM_ENO_TOOLCHAIN, "no NVRTC '%.*s'; there is: %s",
                   (int)(selector.len < 40 ? selector.len : 40), (const char *)selector.data, list);
}

int toolchains_find(struct toolchains *t, struct view selector, const struct toolchain **out,
                    struct err *e)
{
    for (struct place *p = t->places; p < t->places + t->n_places; p++)
        if (place_may_be_back(p))
            place_identify(t, p); /* for a later request */
    struct place *p = place_find(t, selector);
    if (!p)
        return no_toolchain(t, selector, e);
    if (!toolchain_files_hold(&p->current->files)) {
        place_identify(t, p);
        return err_set(e, WARM_EBUSY, "%s changed and is being identified: ask again", p->given);
    }
    *out = &p->current->toolchain;
    return 0;
}

size_t toolchains_list(const struct toolchains *t, const struct toolchain **out, size_t cap)
{
    size_t n = 0;
    for (struct place *p = t->places; p < t->places + t->n_places && n < cap; p++)
        if (p->current)
            out[n++] = &p->current->toolchain;
    return n;
}

const struct toolchain_files *toolchains_files(const struct toolchain *toolchain)
{
    return &((const struct known *)(const void *)toolchain)->files;
}

/* ---- opening and closing ---- */

static int open_places(struct toolchains *t, struct err *e)
{
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
            log_warning("left out: %s", why.text);
        }
    }
    return 0;
}

int toolchains_open(struct toolchains **out, const struct toolchains_config *config, struct err *e)
{
    struct toolchains *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    t->config = *config;
    int code = open_places(t, e);
    if (code) {
        toolchains_free(t);
        return code;
    }
    *out = t;
    return 0;
}

void toolchains_stop(struct toolchains *t) { t->stopped = true; }
bool toolchains_busy(const struct toolchains *t) { return t->n_identifying > 0; }

void toolchains_free(struct toolchains *t)
{
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
    free(t->places);
    free(t);
}

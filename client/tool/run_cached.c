/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_cached.c - decides if a job is served from the cache, and runs and stores it otherwise.
 * commands/tool.c calls it with a planned job; tool.h has the contract.
 *
 * Direct:  GET each name ──▶ hit
 *          GET the last with a lease ──▶ hit (another made it) │ lease: run, PUT all names
 *
 * Traced:  GET the manifest ──▶ look at the inputs of each set ──▶ GET the result ──▶ hit
 *          none fits: lease on the state of the inputs now (no manifest: on its name)
 *             ──▶ another process was running it: look again
 *             ──▶ lease: run, PUT the result, then the manifest, which leads to it
 *
 * Failure modes:
 *    no daemon, or none that answers in time: the caller runs the real tool;
 *    the run must not be kept: a mark that lives some seconds tells the waiters, so that they do not
 *    wait for each other in turn;
 *    a result is damaged, or cannot be written to its place: this run treats it as a miss.
 *
 * The first key covers only what most results need. If a run needs more, the same command is
 * planned again with a larger key, under which the result is kept. A mark at the first key leads
 * there:
 *    places the result shows a folder, as by __FILE__ in a header: it counts as it is written. First those to search
 *           do (enum tool_counts), then that of the sources, then all
 *    loud   the run printed something: the locale and the terminal count
 * A run with job->given that needs either is dropped: the user's own command runs, and its result is
 * kept under the larger key (spelling.c).
 *
 * Thread: main.
 */
#define XXH_INLINE_ALL
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/deadlines.h"
#include "client/tool/inputs.h"
#include "client/tool/pch.h"
#include "client/tool/result.h"
#include "client/tool/user_map.h"

#define RENEWAL_MS 5000u        /* how often the holder of a lease says that it makes progress */
#define MARK "not to be kept: " /* then the reason */
#define MARK_MAX 256
#define MARK_TTL_MS 3000u
#define AGAIN "ask again: "
#define AGAIN_TTL_MS (7u * 24 * 3600 * 1000) /* until then headers may have changed */

/* The parts of a key beyond the first. */
struct more {
    enum tool_counts counts;
    bool loud;
};

struct serving {
    struct tool_job *job;
    struct warm *quick, *patient; /* patient() opens the second when it is needed */
    bool has_manifest;
    struct inputs manifest;
    char leased[TOOL_NAME_TEXT];
    uint64_t token;         /* 0: none */
    uint32_t lease_ms;      /* how long it lasts without progress */
    bool is_marked;         /* a mark: the result must not be kept, or needs a larger key */
    char reason[MARK_MAX];  /* why it must not be kept */
    struct more more;       /* the parts of that larger key */
    struct tool_job replan; /* the same command with that key */
};

static struct warm *patient(struct serving *s)
{
    struct warm_options options = {.request_timeout_ms = DEADLINE_TOOL_WAIT_MS};
    if (!s->patient && warm_open(&s->patient, &options))
        s->patient = NULL;
    return s->patient ? s->patient : s->quick;
}

static int get(struct warm *w, const char *name, unsigned flags, struct warm_value *out)
{
    int code = warm_get(w, name, strlen(name), flags, out);
    if (code < 0 && code != WARM_ENOT_FOUND)
        tool_debug("no answer from the daemon to a look-up: %s", warm_message(w));
    return code;
}

/* Returns the group of all entries of this command: one is of no use without the others. */
static const char *group_of(const struct tool_job *job)
{
    return *job->group ? job->group : job->names[0];
}

#define PLACE_MAX 150   /* bytes of a place in a description, */
#define OPTIONS_MAX 150 /* of all its options, */
#define SOURCES_DESCRIBED 4
#define DESCRIPTION_MAX 500 /* and of it all; a compiler's text may have 512 */

/* Appends a part to a description. Of a long place the end tells more. */
static void add_place(char out[DESCRIPTION_MAX], const char *part, const char *place)
{
    size_t at = strlen(out), len = strlen(place), skip = len > PLACE_MAX ? len - PLACE_MAX : 0;
    snprintf(out + at, DESCRIPTION_MAX - at, "; %s=%s%s", part, skip ? "..." : "", place + skip);
}

/* Adds the digest of a source under its name without folders: another text is not taken for another place. */
static void add_source(char out[DESCRIPTION_MAX], const char *path)
{
    char text[17], part[80];
    uint8_t *data;
    size_t len;
    if (tool_read_file(path, TOOL_RESULT_MAX, &data, &len, NULL))
        return;
    struct proof sha256 = proof_of_bytes(data, len);
    bytes_to_hex(&sha256, 8, text);
    snprintf(part, sizeof part, "source %.60s", tool_base(path));
    add_place(out, part, text);
    free(data);
}

/* Describes a command for `warm why`: its family, options and source, and the places that its key names. */
static void describe(const struct tool_job *job, char out[DESCRIPTION_MAX])
{
    const char *source = job->n_sources ? job->sources[0] : "", *rest;
    snprintf(out, DESCRIPTION_MAX, "%s", job->family);
    for (size_t i = 0; i < job->n_sources && i < SOURCES_DESCRIBED; i++)
        add_source(out, job->sources[i]);
    /* The options that fit. A level of optimization, "-O2", is a value of one option. */
    size_t left = OPTIONS_MAX;
    for (size_t i = 1; i < (size_t)job->argc; i++) {
        const char *option = job->argv[i], *value = job->argv[i + 1];
        if (!value || *value == '-' || strpbrk(value, "/."))
            value = ""; /* the next argument is another option, or a path */
        size_t at = strlen(out), len = strlen(option) + strlen(value) + 6;
        if (*option != '-' || strncmp(option, "-o", 2) == 0 || len > left)
            continue;
        bool is_level = strncmp(option, "-O", 2) == 0 && option[2];
        snprintf(out + at, DESCRIPTION_MAX - at, "; %s%s%s%s", is_level ? "-O=" : "", option,
                 *value ? "=" : "", value);
        left -= len;
    }
    if (job->keys_cwd)
        add_place(out, "working folder", job->cwd);
    if (*source && tool_root_of(job, source, &rest) < 0)
        add_place(out, "source file", source);
}

static int put(struct serving *s, const char *name, const struct writer *value, const char *kind,
               uint32_t cost_ms)
{
    char description[DESCRIPTION_MAX];
    size_t of_command = s->job->traced ? 0 : s->job->n_names - 1; /* the name that missed */
    bool is_command = strcmp(name, s->job->names[of_command]) == 0;
    struct warm_put_options options = {.token = strcmp(name, s->leased) == 0 ? s->token : 0,
                                       .kind = kind,
                                       .cost_ms = cost_ms,
                                       .label = s->job->label,
                                       .compiler = is_command ? description : s->job->family,
                                       .group = group_of(s->job)};
    if (is_command)
        describe(s->job, description);
    int code = value->failed
                   ? WARM_ETOO_BIG
                   : warm_put(patient(s), name, strlen(name), value->data, value->len, &options);
    if (!code && options.token)
        s->token = 0;
    if (code == WARM_ELEASE_LOST) { /* it took longer than the lease: store it without */
        s->token = options.token = 0;
        code = warm_put(patient(s), name, strlen(name), value->data, value->len, &options);
    }
    if (code)
        tool_debug("the daemon did not store it: %s", warm_message(patient(s)));
    return code;
}

/* Writes the text of a mark that leads to a larger key. */
static void again_text(struct more more, char out[MARK_MAX])
{
    static const char *const counts[] = {"", "searched", "source", "all"};
    snprintf(out, MARK_MAX, AGAIN "%s%s", counts[more.counts], more.loud ? ", loud" : "");
}

/* True if the value names a larger key. */
static bool read_again(const struct warm_value *value, struct more *out)
{
    char text[MARK_MAX];
    for (unsigned i = 1; i <= 2 * COUNTS_ALL + 1; i++) {
        struct more more = {.counts = i / 2, .loud = i % 2};
        again_text(more, text);
        if (view_is((struct view){value->data, value->len}, text)) {
            *out = more;
            return true;
        }
    }
    return false;
}

/* True if the value is a mark. It has the reason why there is no result, or the parts of a larger key. */
static bool read_mark(struct serving *s, const struct warm_value *value)
{
    size_t len = strlen(MARK);
    s->is_marked |= read_again(value, &s->more);
    if (value->len >= len && memcmp(value->data, MARK, len) == 0) {
        snprintf(s->reason, sizeof s->reason, "%.*s", (int)(value->len - len),
                 (const char *)value->data + len);
        s->is_marked = true;
    }
    return s->is_marked;
}

/* Leaves a mark for waiters and later processes. */
static void leave_mark(struct serving *s, const char *text, uint32_t ttl_ms)
{
    struct warm_put_options options = {.token = s->token,
                                       .ttl_ms = ttl_ms,
                                       .kind = "manifest",
                                       .label = s->job->label,
                                       .group = group_of(s->job)};
    if (s->token &&
        warm_put(patient(s), s->leased, strlen(s->leased), text, strlen(text), &options))
        warm_release(patient(s), s->token);
    s->token = 0;
}

static void leave_again(struct serving *s)
{
    char text[MARK_MAX];
    again_text(s->more, text);
    leave_mark(s, text, AGAIN_TTL_MS);
}

static void leave_reason(struct serving *s, const char *reason)
{
    char text[sizeof MARK + MARK_MAX];
    snprintf(text, sizeof text, MARK "%s", reason);
    leave_mark(s, text, MARK_TTL_MS);
}

/* Plans the same command with a larger key. REFUSED if the present key has those parts. */
static int plan_again(const struct tool_job *job, struct more more, struct warm *w,
                      struct tool_job *out, struct err *e)
{
    if (more.counts <= job->counts && (!more.loud || job->loud))
        return WARM_EREFUSED;
    *out = (struct tool_job){.program = job->program,
                             .argv = job->argv,
                             .argc = job->argc,
                             .plan = job->plan,
                             .header = job->header,
                             .counts = more.counts > job->counts ? more.counts : job->counts,
                             .loud = job->loud || more.loud};
    memcpy(out->group, group_of(job), sizeof out->group);
    return tool_plan(out, w, e);
}

/* ---- hits ---- */

/* Replays a value, which it takes. Returns the exit status, or -1 if the value is a mark, or no result. */
static int replay(struct serving *s, struct warm_value *value)
{
    struct result result;
    int status = -1;
    if (!read_mark(s, value) && result_read(value->data, value->len, &result, NULL) == 0)
        status = result_replay(s->job, &result);
    warm_value_free(value);
    return status;
}

static int replay_name(struct serving *s, const char *name)
{
    struct warm_value value;
    return get(s->quick, name, 0, &value) == 0 ? replay(s, &value) : -1;
}

/* Loads the manifest again. True if there is one that was not seen before. */
static bool load_manifest(struct serving *s)
{
    struct warm_value value;
    struct inputs fresh;
    if (get(s->quick, s->job->names[0], 0, &value))
        return false;
    bool news = !s->has_manifest || value.len != s->manifest.len ||
                memcmp(value.data, s->manifest.bytes, value.len) != 0;
    news = news && !read_mark(s, &value) && inputs_read(value.data, value.len, &fresh, NULL) == 0;
    warm_value_free(&value);
    if (!news)
        return false;
    inputs_close(&s->manifest);
    s->manifest = fresh;
    s->has_manifest = true;
    return true;
}

/* Stores the manifest with new stamps after files were touched without a change, so that the next
 * look is cheap again. */
static void renew_manifest(struct serving *s, size_t set)
{
    struct writer w;
    struct inputs fresh = {.n_sets = 1};
    char description[DESCRIPTION_MAX];
    describe(s->job, description);
    fresh.sets[0] = s->manifest.sets[set];
    fresh.set_len[0] = s->manifest.set_len[set];
    writer_init(&w, INPUTS_BYTES_MAX);
    inputs_write(&fresh, &s->manifest, &w);
    if (!w.failed)
        warm_put(s->quick, s->job->names[0], strlen(s->job->names[0]), w.data, w.len,
                 &(struct warm_put_options){.kind = "manifest",
                                            .label = s->job->label,
                                            .compiler = description,
                                            .group = group_of(s->job)});
    writer_close(&w);
}

/* Replays the result of a set that fits. `now`: the name for the first set's state, for the
 * lease. */
static int hit_traced(struct serving *s, char now[TOOL_NAME_TEXT])
{
    char name[TOOL_NAME_TEXT];
    for (size_t set = 0; set < s->manifest.n_sets; set++) {
        bool fits = inputs_now(s->job, s->quick, &s->manifest, set, name);
        if (set == 0)
            memcpy(now, name, sizeof name);
        if (fits && !user_map_fits(s->job, &s->manifest, set)) {
            s->is_marked = true;
            s->more.counts = COUNTS_SEARCHED;
            return -1;
        }
        int status = fits ? replay_name(s, name) : -1;
        if (status >= 0) {
            if (inputs_are_renewed(&s->manifest, set))
                renew_manifest(s, set);
            return status;
        }
    }
    return -1;
}

/* ---- leases ---- */

/* Asks for a lease on `name`, and waits for its holder. True if a value came. */
static bool lease(struct serving *s, const char *name, struct warm_value *value)
{
    int code = get(patient(s), name, WARM_WANT_LEASE, value);
    if (code != WARM_LEASE)
        return code == 0;
    s->token = value->token;
    s->lease_ms = value->lease_ms;
    memcpy(s->leased, name, strlen(name) + 1);
    return false;
}

/* Returns -1, with or without a lease; the exit status if another process made the result
 * meanwhile. */
static int wait_traced(struct serving *s, const char *now)
{
    char again[TOOL_NAME_TEXT];
    struct warm_value value;
    const char *name = s->has_manifest ? now : s->job->names[0];
    if (lease(s, name, &value)) {
        int status = s->has_manifest ? replay(s, &value) : -1;
        if (!s->has_manifest) {
            read_mark(s, &value);
            warm_value_free(&value);
        }
        if (status >= 0 || s->is_marked)
            return status;
    }
    bool is_ours = s->token && !s->has_manifest; /* the lease says that there is none */
    if (is_ours || !load_manifest(s))
        return -1;
    int status = hit_traced(s, again);
    if (status >= 0 && s->token) {
        warm_release(patient(s), s->token);
        s->token = 0;
    }
    return status;
}

static int wait_direct(struct serving *s)
{
    struct warm_value value;
    return lease(s, s->job->names[s->job->n_names - 1], &value) ? replay(s, &value) : -1;
}

/* ---- misses ---- */

/* Stores the result first, then the manifest, which never leads to a missing result. */
static int keep_traced(struct serving *s, const struct compiler_run *run,
                       const struct writer *result, struct err *e)
{
    struct inputs in;
    struct writer manifest;
    char name[TOOL_NAME_TEXT];
    int code = inputs_from_trace(s->job, s->quick, run->log, run->log_len, run->started, &in, e);
    if (code)
        return code;
    writer_init(&manifest, INPUTS_BYTES_MAX);
    inputs_write(&in, s->has_manifest ? &s->manifest : NULL, &manifest);
    if (s->job->lazy && run->wait_status == 0)
        pch_write_inputs(s->job, s->job->header ? s->job->header : s->job->outputs[0], &in, NULL);
    code = inputs_name(s->job, in.list, in.n, name);
    if (!code)
        code = put(s, name, result, "object", run->cost_ms);
    if (!code)
        code = put(s, s->job->names[0], &manifest, "manifest", run->cost_ms);
    if (code)
        err_set(e, code, "the daemon did not store the result: %s", warm_error_name(code));
    writer_close(&manifest);
    inputs_close(&in);
    return code;
}

static int keep_direct(struct serving *s, const struct compiler_run *run,
                       const struct writer *result, struct err *e)
{
    int code = 0;
    for (size_t i = 0; !code && i < s->job->n_names; i++)
        code = put(s, s->job->names[i], result, "cubin", run->cost_ms);
    return code ? err_set(e, code, "the daemon did not store the result: %s", warm_error_name(code))
                : 0;
}

static int write_and_put(struct serving *s, const struct compiler_run *run, struct err *e)
{
    struct writer result;
    writer_init(&result, TOOL_RESULT_MAX);
    int code = result_write(s->job, run, &result, e);
    if (!code)
        code = s->job->traced ? keep_traced(s, run, &result, e) : keep_direct(s, run, &result, e);
    writer_close(&result);
    return code;
}

/* Changes to a larger key, and leaves a mark at the first one. */
static int need_more(struct serving *s, struct more more, struct err *e)
{
    struct tool_job job;
    int code = plan_again(s->job, more, s->quick, &job, e);
    if (code)
        return code;
    tool_job_close(&s->replan);
    s->replan = job;
    s->job = &s->replan;
    inputs_close(&s->manifest); /* of the other key */
    s->has_manifest = false;
    s->more.counts = more.counts > s->more.counts ? more.counts : s->more.counts;
    s->more.loud |= more.loud;
    return 0;
}

/* Keeps a result; one that shows places for commands in the same places, of `most` at most. */
static int keep_by_places(struct serving *s, const struct compiler_run *run, enum tool_counts most,
                          struct err *e)
{
    struct err unused;
    int code = write_and_put(s, run, e);
    while (code == WARM_EREFUSED && s->job->counts < most) {
        if (need_more(s, (struct more){.counts = s->job->counts + 1}, &unused))
            break;
        tool_debug("tries the key of %s: %s",
                   s->job->exact                     ? "these folders alone"
                   : s->job->counts == COUNTS_SOURCE ? "this source"
                                                     : "folders as they are written",
                   e->text);
        code = write_and_put(s, run, e);
    }
    return code;
}

/* True if the key is larger than the first. */
static bool is_more(struct more more) { return more.counts || more.loud; }

static void keep(struct serving *s, const struct compiler_run *run)
{
    struct err e = {0};
    bool prints = run->out.len || run->err.len;
    bool shows = s->job->by_form && result_shows_source(run);
    struct err unused;
    need_more(s, (struct more){shows ? COUNTS_ALL : COUNTS_NO_PLACE, prints}, &unused);
    int code = keep_by_places(s, run, COUNTS_ALL, &e);
    if (code)
        tool_not_kept(s->job, s->quick, s->leased, e.text);
    if (code && code != WARM_ENO_DAEMON)
        leave_reason(s, e.text);
    else if (is_more(s->more))
        leave_again(s);
    else if (s->token)
        warm_release(patient(s), s->token);
}

/* Lets those who ask for this result wait on: the compiler makes progress. */
static void on_progress(void *arg)
{
    struct serving *s = arg;
    warm_renew(patient(s), s->token);
}

static bool run_once(struct serving *s, struct compiler_run *out)
{
    struct err e = {0};
    uint32_t quarter_ms = s->lease_ms / 4;
    struct compiler_watch watch = {.on_progress = s->token ? on_progress : NULL,
                                   .arg = s,
                                   .period_ms =
                                       quarter_ms < RENEWAL_MS ? quarter_ms + 1 : RENEWAL_MS};
    if (compiler_run_job(s->job, &watch, out, &e)) {
        tool_debug("%s", e.text);
        leave_reason(s, e.text);
        return false;
    }
    if (s->job->header && out->wait_status == 0)
        rename(s->job->outputs[0], s->job->header);
    return true;
}

/* True if the messages of a run with job->given may be those of the user's own command. */
static bool may_speak(const struct serving *s, const struct compiler_run *run)
{
    bool is_silent = run->out.len == 0 && run->err.len == 0;
    return run->wait_status == 0 && !run->out.failed && !run->err.failed &&
           (is_silent || s->job->maps_roots);
}

/* Keeps a run with job->given, and passes its messages on. False if its result must not stand. */
static bool keep_given(struct serving *s, const struct compiler_run *run)
{
    struct err unused, e = {.text = "it failed, or its messages may have the changed names"};
    bool prints = run->out.len || run->err.len;
    if (may_speak(s, run)) {
        need_more(s, (struct more){.loud = prints}, &unused);
        /* what the compiler replaced is a part of that key's arguments */
        if (keep_by_places(s, run, s->job->maps_roots ? COUNTS_NO_PLACE : COUNTS_SEARCHED, &e) ==
            0) {
            if (is_more(s->more))
                leave_again(s);
            else if (s->token)
                warm_release(patient(s), s->token);
            compiler_run_show(run);
            return true;
        }
    }
    tool_debug("runs again as it was written: %s", e.text);
    return false;
}

/* Reads the note that the command had to run as it was written, and under which key. */
static bool read_note(struct serving *s, struct more *out)
{
    char name[TOOL_NAME_TEXT];
    struct warm_value value;
    spelling_note_name(s->job, name);
    if (get(s->quick, name, 0, &value))
        return false;
    bool noted = read_again(&value, out);
    warm_value_free(&value);
    return noted;
}

/* Runs the user's own command in place of job->given. False if it did not start. */
static bool run_as_written(struct serving *s, struct more more, struct compiler_run *out)
{
    struct err e = {0};
    if (need_more(s, more, &e)) {
        leave_reason(s, e.text);
        return false;
    }
    return run_once(s, out);
}

/* Runs job->given, or the user's own command if its result needs that. *out_kept: the result is kept. */
static bool run_given(struct serving *s, struct compiler_run *out, bool *out_kept)
{
    struct more more;
    if (read_note(s, &more))
        return run_as_written(s, more, out);
    if (!run_once(s, out))
        return false;
    *out_kept = WIFSIGNALED(out->wait_status) || keep_given(s, out);
    if (*out_kept)
        return true;
    more.loud = out->wait_status || out->out.len || out->err.len;
    more.counts = !more.loud || s->job->maps_roots ? COUNTS_ALL : COUNTS_NO_PLACE;
    char name[TOOL_NAME_TEXT];
    struct warm_put_options options = {.ttl_ms = AGAIN_TTL_MS,
                                       .kind = "manifest",
                                       .label = s->job->label,
                                       .group = group_of(s->job)};
    char text[MARK_MAX];
    again_text(more, text);
    spelling_note_name(s->job, name);
    warm_put(s->quick, name, strlen(name), text, strlen(text), &options);
    compiler_run_close(out);
    return run_as_written(s, more, out);
}

/* Tells the daemon, for `warm why`, which input of the last run has changed. */
static void tell_change(struct serving *s, const char *missed)
{
    char text[PATH_MAX];
    if (!s->has_manifest || !s->manifest.changed || !*missed)
        return;
    input_describe_change(s->job, s->manifest.changed, text, sizeof text);
    tool_debug("differs: %s", text);
    warm_note(s->quick, "differs", missed, text);
}

static int run_and_keep(struct serving *s)
{
    struct compiler_run run;
    struct err e = {0};
    for (size_t i = 0; i < s->job->n_headers; i++)
        if (pch_make_real(s->job->headers[i], &e))
            tool_debug("%s", e.text);
    bool kept = false;
    if (s->job->given ? !run_given(s, &run, &kept) : !run_once(s, &run))
        return -1;
    if (!kept)
        keep(s, &run);
    int status = compiler_run_end(&run);
    compiler_run_close(&run);
    return status;
}

static int serve(struct serving *s)
{
    char now[TOOL_NAME_TEXT] = "";
    int status = -1;
    if (s->job->traced) {
        if (load_manifest(s))
            status = hit_traced(s, now);
    } else {
        for (size_t i = 0; status < 0 && i < s->job->n_names; i++)
            status = replay_name(s, s->job->names[i]);
    }
    const char *read_only = getenv("WARM_READONLY");
    if (status < 0 && read_only && *read_only && strcmp(read_only, "0") != 0)
        return -1;
    if (status < 0 && !s->is_marked)
        status = s->job->traced ? wait_traced(s, now) : wait_direct(s);
    if (status >= 0) {
        tool_debug("hit: %s", s->job->label);
        return status;
    }
    if (s->is_marked && !is_more(s->more)) {
        tool_debug("passed on: the same command ran a moment ago and was not kept: %s", s->reason);
        warm_note(s->quick, "uncacheable", s->job->label, s->reason);
    }
    if (s->is_marked)
        return -1;
    tool_debug("miss: %s", s->job->label);
    tell_change(s, s->leased);
    return run_and_keep(s);
}

#define PLANS_MAX 5 /* the first, and four larger ones */

int tool_run_cached(struct tool_job *job, struct warm *quick)
{
    assert(job && job->n_names >= 1 && job->n_names <= 2 && quick);
    struct tool_job plans[PLANS_MAX] = {{0}};
    const struct tool_job *now = job;
    struct err e;
    int status = -1;
    for (size_t i = 0; i < PLANS_MAX; i++) {
        struct serving s = {.job = i ? &plans[i] : job, .quick = quick};
        struct more more = {0};
        status = s.job->header ? run_and_keep(&s) : serve(&s);
        inputs_close(&s.manifest);
        warm_close(s.patient);
        if (status < 0)
            more = s.more;
        tool_job_close(&s.replan);
        if (status >= 0 || i + 1 == PLANS_MAX || plan_again(now, more, quick, &plans[i + 1], &e))
            break;
        now = &plans[i + 1];
    }
    for (size_t i = 1; i < PLANS_MAX; i++)
        tool_job_close(&plans[i]);
    return status;
}

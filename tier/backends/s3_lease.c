/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_lease.c - leases as conditional objects of S3. s3.c calls it once a probe has shown that conditions work.
 *
 *     PREFIX/v1/HH/l-ID     "warm-lease", the maker's token, milliseconds, a random word; a line each
 *
 *     PREFIX/v1/HH/j-ID-JOB     "warm-told", "h" or "m": what a job's first rank was told, a random word; for 10 minutes
 *
 *     ASK       GET object, absent ─▶ GET lease ─▶ wait for it; absent ─▶ PUT lease If-None-Match: * ─▶ taken ─▶ GET
 *               lease …; or, if it is over, GET object once more ─▶ PUT lease If-Match: the ETag that was read
 *     ASK of a job    GET object ─▶ PUT told If-None-Match: * ─▶ another was first ─▶ GET told. After "h" the object is the
 *               answer. After "m" the lease is, or TIER_ABSENT: another's object would be no answer for this job
 *     FINISH    PUT object ─▶ RELEASE
 *     RENEW     GET lease, still ours ─▶ PUT lease If-Match
 *     RELEASE   the same, with 0 milliseconds: not all servers delete conditionally
 *
 * An ETag is a digest of the bytes. So a lease has a random word: after each change it has another ETag.
 * The server's clock alone says whether a lease is over: Date minus Last-Modified.
 *
 * A server may answer writers of one object one after the other: SeaweedFS 4.48 takes about a second for each. So
 * when others who asked at once hear of the first one's lease, it may be over. They then take it over, unless it was
 * renewed.
 *
 * What may go wrong: others take and release the lease while we look (a few rounds, then TIER_FAILED); the maker puts
 * its object between our looks (one compile too many); the release of FINISH fails (the lease ends by itself).
 *
 * Thread: loop thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"
#include "tier/backends/s3_internal.h"

#define ROUNDS 3u
#define CLOCK_GRAIN_MS 1000u /* of Date and Last-Modified */
#define LONGEST_MS 3600000u  /* a lease for longer is none */
#define MAGIC "warm-lease\n"
#define TOLD_MAGIC "warm-told\n"
#define TOLD_S 600 /* as in Redis */
#define TOKEN_LEN (2 * TIER_TOKEN_SIZE)
#define NAME_TEXT (2 * TIER_NAME_MAX + 1)

/* Writes the name of an object's lease, or of a slot beside it, or of what a job was told: HH/l-ID, HH/l1-ID,
 * HH/j-ID-JOB. */
static void name_of(const struct job *j, bool is_told, char out[NAME_TEXT])
{
    const struct tier_request *r = j->http.request;
    const char *slash = strchr(r->name, '/'), *kind = slash ? slash + 1 : r->name;
    char letter[12] = "l";
    if (!is_told && r->slot)
        snprintf(letter, sizeof letter, "l%u", r->slot % 1000);
    snprintf(out, NAME_TEXT, "%.*s%s%s%s%s", (int)(kind - r->name), r->name, is_told ? "j" : letter,
             kind + strcspn(kind, "-"), is_told ? "-" : "", is_told ? r->job : "");
}

/* Reads the lease in the job's answer. False if it is none of ours. */
static bool read_lease(struct job *j)
{
    const struct transfer *t = &j->http.transfer;
    struct s3_lease *l = &j->lease;
    const char *at = t->text + strlen(MAGIC);
    char *end;
    if (!t->date || !t->modified || strncmp(t->text, MAGIC, strlen(MAGIC)) != 0 ||
        strspn(at, "0123456789abcdef") != TOKEN_LEN || at[TOKEN_LEN] != '\n')
        return false;
    snprintf(l->token, sizeof l->token, "%s", at);
    l->ms = strtoull(at + TOKEN_LEN + 1, &end, 10);
    l->age_ms = t->date > t->modified ? (uint64_t)(t->date - t->modified) * 1000 : 0;
    snprintf(l->etag, sizeof l->etag, "%s", t->etag);
    return *end == '\n';
}

/* Puts a text, with a random word behind it, if there is none yet, or in the place of the one that was read. */
static void put_text(struct job *j, bool is_told, const char *text, bool replaces,
                     void (*then)(struct job *j))
{
    char name[NAME_TEXT], condition[220], word[33];
    name_of(j, is_told, name);
    s3_random_hex(word, 16);
    snprintf(j->lease.body, sizeof j->lease.body, "%s%s\n", text, word);
    if (replaces)
        snprintf(condition, sizeof condition, "If-Match: %s", j->lease.etag);
    s3_send_put(j, name, j->lease.body, replaces ? condition : "If-None-Match: *", then);
}

static void put_lease(struct job *j, uint64_t ms, bool replaces, void (*then)(struct job *j))
{
    char token[TOKEN_LEN + 1], text[sizeof MAGIC + TOKEN_LEN + 24];
    bytes_to_hex(j->http.request->token, TIER_TOKEN_SIZE, token);
    snprintf(text, sizeof text, MAGIC "%s\n%llu\n", token, (unsigned long long)ms);
    put_text(j, false, text, replaces, then);
}

static void get_lease(struct job *j, void (*then)(struct job *j))
{
    char name[NAME_TEXT];
    name_of(j, false, name);
    s3_send_get(j, name, false, then);
}

/* Ends an ASK whose lease another one has. */
static void end_waiting(struct job *j, uint64_t left_ms)
{
    if (*j->http.request->job) {
        http_job_end(&j->http, TIER_ABSENT, "the job began without it");
        return;
    }
    j->http.request->wait_ms = left_ms + CLOCK_GRAIN_MS;
    http_job_end(&j->http, TIER_WAIT, "another one makes it");
}

/* ---- ASK ---- */

static void on_taken_over(struct job *j)
{
    switch (j->answer.outcome) {
    case TIER_OK: http_job_end(&j->http, TIER_LEASE, "the lease is ours"); break;
    case TIER_EXISTS:
    case TIER_LATER:
    case TIER_ABSENT: end_waiting(j, j->http.request->lease_ms); break; /* another one was faster */
    default: job_fail(j);
    }
}

/* Takes over a lease that is over, unless its maker has put the object since we looked. */
static void on_looked_again(struct job *j)
{
    if (s3_take_object(j))
        put_lease(j, j->http.request->lease_ms, true, on_taken_over);
}

static void on_lease_asked(struct job *j);

static void on_lease_read(struct job *j)
{
    struct s3_lease *l = &j->lease;
    if (j->answer.outcome == TIER_ABSENT && j->round++ < ROUNDS)
        put_lease(j, j->http.request->lease_ms, false, on_lease_asked);
    else if (j->answer.outcome == TIER_ABSENT)
        http_job_end(&j->http, TIER_FAILED, "the lease comes and goes");
    else if (j->answer.outcome != TIER_OK)
        job_fail(j);
    else if (!read_lease(j))
        http_job_end(&j->http, TIER_FAILED, "the lease's object is none of ours");
    else if (l->ms && l->ms <= LONGEST_MS && l->age_ms <= l->ms + CLOCK_GRAIN_MS)
        end_waiting(j, l->ms > l->age_ms ? l->ms - l->age_ms : 0);
    else if (*j->http.request->job)
        put_lease(j, j->http.request->lease_ms, true, on_taken_over);
    else
        s3_send_get(j, j->http.request->name, true, on_looked_again);
}

static void on_lease_asked(struct job *j)
{
    switch (j->answer.outcome) {
    case TIER_OK: http_job_end(&j->http, TIER_LEASE, "the lease is ours"); break;
    case TIER_EXISTS: get_lease(j, on_lease_read); break;
    default:
        if (strcmp(j->answer.code, "ConditionalRequestConflict") == 0)
            end_waiting(j, 0); /* two asked at once; neither has it yet */
        else
            job_fail(j);
    }
}

/* ---- ASK of a job ---- */

static void on_told_put(struct job *j);

/* Tells the job's other ranks what this one found, unless another rank was first. */
static void put_told(struct job *j, bool replaces)
{
    put_text(j, true, j->http.held_fd >= 0 ? TOLD_MAGIC "h\n" : TOLD_MAGIC "m\n", replaces,
             on_told_put);
}

/* Answers as the job's first rank was answered. */
static void answer_as_told(struct job *j, char told)
{
    struct tier_request *r = j->http.request;
    if (told == 'h' && j->http.held_fd >= 0) {
        r->result_fd = j->http.held_fd;
        r->result_length = j->held_length;
        j->http.held_fd = -1;
        http_job_end(&j->http, TIER_OK, "");
    } else {
        j->round = 0;
        put_lease(j, r->lease_ms, false, on_lease_asked);
    }
}

static void on_told_read(struct job *j)
{
    const struct transfer *t = &j->http.transfer;
    bool is_ours = j->answer.outcome == TIER_OK && t->date && t->modified &&
                   strncmp(t->text, TOLD_MAGIC, strlen(TOLD_MAGIC)) == 0;
    char told = is_ours ? t->text[strlen(TOLD_MAGIC)] : '\0';
    if (j->answer.outcome != TIER_OK) {
        job_fail(j);
    } else if (told != 'h' && told != 'm') {
        http_job_end(&j->http, TIER_FAILED, "the object of the job's answer is none of ours");
    } else if (t->date - t->modified > TOLD_S && j->round++ < ROUNDS) {
        snprintf(j->lease.etag, sizeof j->lease.etag, "%s", t->etag);
        put_told(j, true);
    } else {
        answer_as_told(j, told);
    }
}

static void on_told_put(struct job *j)
{
    char name[NAME_TEXT];
    if (j->answer.outcome == TIER_OK) {
        answer_as_told(j, j->http.held_fd >= 0 ? 'h' : 'm');
    } else if (j->answer.outcome == TIER_EXISTS || j->answer.outcome == TIER_LATER) {
        name_of(j, true, name);
        s3_send_get(j, name, false, on_told_read);
    } else {
        job_fail(j);
    }
}

static void on_asked_object(struct job *j)
{
    bool found = j->answer.outcome == TIER_OK && j->http.transfer.result_fd >= 0;
    if (*j->http.request->job && found) {
        j->http.held_fd = j->http.transfer.result_fd;
        j->held_length = j->http.transfer.result_length;
        put_told(j, false);
    } else if (s3_take_object(j)) {
        if (*j->http.request->job)
            put_told(j, false);
        else
            get_lease(j, on_lease_read); /* most askers wait: a GET is cheaper than a PUT */
    }
}

void s3_ask(struct job *j) { s3_send_get(j, j->http.request->name, true, on_asked_object); }

/* ---- FINISH, RENEW, RELEASE ---- */

static void on_changed(struct job *j)
{
    enum tier_outcome outcome = j->answer.outcome;
    if (outcome == TIER_OK || j->http.request->operation == TIER_FINISH)
        http_job_end(&j->http, TIER_OK, "");
    else if (outcome == TIER_EXISTS || outcome == TIER_ABSENT)
        http_job_end(&j->http, TIER_ABSENT, "the lease is lost");
    else
        job_fail(j);
}

static void on_own_read(struct job *j)
{
    struct tier_request *r = j->http.request;
    char token[TOKEN_LEN + 1];
    bytes_to_hex(r->token, TIER_TOKEN_SIZE, token);
    bool read = j->answer.outcome == TIER_OK;
    if (read && read_lease(j) && strcmp(j->lease.token, token) == 0 && j->lease.ms)
        put_lease(j, r->operation == TIER_RENEW ? r->lease_ms : 0, true, on_changed);
    else if (r->operation == TIER_FINISH)
        http_job_end(&j->http, TIER_OK, "");
    else if (read || j->answer.outcome == TIER_ABSENT)
        http_job_end(&j->http, TIER_ABSENT, "the lease is lost");
    else
        job_fail(j);
}

static void on_finished(struct job *j)
{
    if (j->answer.outcome == TIER_OK)
        get_lease(j, on_own_read);
    else
        job_fail(j);
}

void s3_finish(struct job *j) { s3_send_put(j, j->http.request->name, NULL, "", on_finished); }

void s3_change_lease(struct job *j) { get_lease(j, on_own_read); }

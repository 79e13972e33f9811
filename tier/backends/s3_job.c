/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_job.c - signs the transfers of a job, sends them, and sends them again if that may help. s3.c, s3_lease.c and
 * s3_probe.c call it.
 *
 * What may go wrong:
 * 1. Keys are refused: they are read again, and if they are others, the transfer is made once more.
 * 2. The clocks differ: the transfer is signed once more with the server's time, and so are all after it.
 * 3. A page of some proxy has status 200: an object has an ETag and is no text/html.
 * 4. A GET is answered 403 AccessDenied. To those who may not list the bucket S3 answers so for an absent object, too
 *    (API reference, GetObject, "Permissions"). If the rights to read are there, it is absent: an entry that we wrote is
 *    read to find out. Without such an entry it stays a refusal.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "keygen/bytes.h"
#include "tier/backends/s3_internal.h"

#define OWN_READ_MS 600000u /* for so long one read of our own shows that the rights are there */
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* ---- the life of a job ---- */

struct job *job_new(struct s3_backend *b, struct tier_request *r)
{
    struct job *j = (struct job *)http_job_new(&b->http, r, sizeof *j);
    j->backend = b;
    return j;
}

void job_fail(struct job *j)
{
    j->http.request->wait_ms = j->answer.outcome == TIER_LATER ? j->http.transfer.retry_ms : 0;
    http_job_end(&j->http, j->answer.outcome, j->answer.said);
}

void job_wait(struct job *j)
{
    uint64_t now = uv_now(j->backend->http.loop);
    char why[64];
    snprintf(why, sizeof why, "timed out after %llu ms",
             (unsigned long long)j->http.request->timeout_ms);
    http_job_give_up(&j->http, j->http.ends_ms > now ? j->http.ends_ms - now : 0, TIER_FAILED, why);
    j->http.waits = true;
}

bool s3_take_object(struct job *j)
{
    struct transfer *t = &j->http.transfer;
    struct tier_request *r = j->http.request;
    assert(r->result_fd < 0);
    if (j->answer.outcome == TIER_ABSENT)
        return true;
    if (j->answer.outcome == TIER_OK && t->result_fd >= 0) {
        r->result_fd = t->result_fd;
        r->result_length = t->result_length;
        http_job_end(&j->http, TIER_OK, "");
        return false;
    }
    if (t->result_fd >= 0)
        close(t->result_fd);
    if (j->answer.outcome == TIER_OK)
        http_job_end(&j->http, TIER_FAILED, "200 without an object");
    else
        job_fail(j);
    return false;
}

void s3_wake_jobs(struct s3_backend *b)
{
    struct http_job *at;
    if (b->http.closing)
        return;
    for (at = b->http.jobs; at; at = at->next) {
        ((struct job *)at)->is_due = at->waits;
        at->waits = false;
    }
    do {
        for (at = b->http.jobs; at && !((struct job *)at)->is_due; at = at->next)
            ;
        if (at) {
            ((struct job *)at)->is_due = false;
            uv_timer_stop(&at->timer);
            b->begin((struct job *)at);
        }
    } while (at);
}

/* ---- a signed transfer ---- */

void s3_random_hex(char *out, size_t n_bytes)
{
    assert(n_bytes <= sizeof(uint8_t[16]));
    uint8_t bytes[16];
    if (getrandom(bytes, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    bytes_to_hex(bytes, n_bytes, out);
}

/* Adds the headers of the job's transfer, signed. False if they do not fit. */
static bool add_headers(struct job *j, const struct credentials *keys, const char *path)
{
    static const char *const methods[] = {"GET", "PUT", "DELETE", "MKCOL"};
    struct s3_backend *b = j->backend;
    struct transfer *t = &j->http.transfer;
    char date[SIGV4_DATE_SIZE], authorization[SIGV4_TEXT_MAX];
    struct sigv4_header h[5] = {{"host", b->host}};
    size_t n = 1;
    sigv4_date(time(NULL) + b->clock_s, date);
    if (*j->checksum)
        h[n++] = (struct sigv4_header){"x-amz-checksum-sha256", j->checksum};
    h[n++] = (struct sigv4_header){"x-amz-content-sha256", j->payload};
    h[n++] = (struct sigv4_header){"x-amz-date", date};
    if (*keys->session_token)
        h[n++] = (struct sigv4_header){"x-amz-security-token", keys->session_token};
    struct sigv4_request s = {.access_key = keys->access_key,
                              .secret_key = keys->secret_key,
                              .region = b->region,
                              .service = "s3",
                              .date = date,
                              .method = methods[t->method],
                              .path = path,
                              .query = "",
                              .headers = h,
                              .n_headers = n,
                              .payload = j->payload};
    if (!sigv4_sign(&s, authorization))
        return false;
    t->n_headers = 0;
    snprintf(j->lines[0], sizeof *j->lines, "Authorization: %s", authorization);
    t->headers[t->n_headers++] = j->lines[0];
    for (size_t i = 1; i < n; i++) { /* libcurl writes Host itself */
        bool is_token = h[i].value == keys->session_token;
        char *line = is_token ? j->token_line : j->lines[i];
        snprintf(line, is_token ? sizeof j->token_line : sizeof *j->lines, "%s: %s", h[i].name,
                 h[i].value);
        t->headers[t->n_headers++] = line;
    }
    if (t->method == TRANSFER_PUT)
        t->headers[t->n_headers++] = "Content-Type: application/octet-stream";
    if (*j->condition)
        t->headers[t->n_headers++] = j->condition;
    return true;
}

static void job_send(struct job *j);

/* Takes the server's time if it refuses ours. True if the transfer is to be made again. */
static bool takes_clock(struct job *j)
{
    struct s3_answer *a = &j->answer;
    int64_t differs = j->http.transfer.date ? (int64_t)j->http.transfer.date - time(NULL) : 0;
    if (!a->other_clock || j->was_skewed || !differs)
        return false;
    j->was_skewed = true;
    snprintf(a->said, sizeof a->said, "%d %s: this machine's clock is %lld s %s the server's",
             j->http.transfer.status, a->code, (long long)(differs < 0 ? -differs : differs),
             differs > 0 ? "behind" : "ahead of");
    if (j->backend->clock_s != differs)
        fprintf(stderr, "warm-tier: %s; requests are signed with the server's time\n", a->said);
    j->backend->clock_s = differs;
    return true;
}

/* Reads the keys again if the server refuses them. True if there are others now, or may be soon. */
static bool takes_keys(struct job *j)
{
    struct aws_identity *id = j->backend->identity;
    struct credentials before;
    const struct credentials *keys;
    char why[TIER_SAID_MAX];
    if (!j->answer.old_keys || j->was_refused)
        return false;
    j->was_refused = true;
    if (aws_identity_get(id, &keys, why, sizeof why) != AWS_IDENTITY_READY)
        return false;
    before = *keys;
    aws_identity_doubt(id);
    enum aws_identity_state now = aws_identity_get(id, &keys, why, sizeof why);
    bool newer =
        now == AWS_IDENTITY_ASKED || /* job_send waits for it */
        (now == AWS_IDENTITY_READY && (strcmp(before.access_key, keys->access_key) != 0 ||
                                       strcmp(before.secret_key, keys->secret_key) != 0 ||
                                       strcmp(before.session_token, keys->session_token) != 0));
    credentials_wipe(&before);
    return newer;
}

/* Reads what the answer means. */
static void read_answer(struct job *j)
{
    const struct transfer *t = &j->http.transfer;
    struct s3_answer *a = &j->answer;
    s3_answer_read(t->status, t->text, t->text_length, t->region, t->location, a);
    if (t->status < 200 || t->status >= 300)
        return;
    bool deletes = t->method == TRANSFER_DELETE;
    bool is_of_s3 = deletes || (*t->etag && strncmp(t->content_type, "text/html", 9) != 0);
    if (is_of_s3 && (t->status == 200 || deletes)) {
        a->outcome = TIER_OK;
    } else {
        a->outcome = TIER_FAILED;
        snprintf(a->said, sizeof a->said, "%d, but not from S3: %s", t->status,
                 *t->etag ? "a page for people" : "it has no ETag");
    }
}

/* True if the answer may be that to an absent object. A probe must see what the server says. */
static bool may_be_absent(const struct job *j)
{
    return j->http.transfer.method == TRANSFER_GET && j->http.request->operation != TIER_PROBE &&
           !j->then_denied && strcmp(j->answer.code, "AccessDenied") == 0;
}

/* Takes a refusal for the absence of the object if our own were read lately. */
static bool takes_absence(struct job *j)
{
    const struct s3_backend *b = j->backend;
    if (!may_be_absent(j) || !b->own_read_ms || uv_now(b->http.loop) - b->own_read_ms > OWN_READ_MS)
        return false;
    j->answer.outcome = TIER_ABSENT;
    snprintf(j->answer.said, sizeof j->answer.said, "403: absent, as those hear who may not list");
    return true;
}

static void on_own_entry(struct job *j)
{
    struct s3_backend *b = j->backend;
    bool is_read = j->answer.outcome == TIER_OK;
    if (is_read)
        b->own_read_ms = uv_now(b->http.loop);
    else
        *b->own = '\0'; /* that one tells nothing any more: it may be gone, too */
    j->answer = j->denied;
    j->then = j->then_denied;
    j->then_denied = NULL;
    takes_absence(j);
    j->then(j);
}

/* Reads our own entry, to find out whether a refusal is one. False if there is none. */
static bool reads_own(struct job *j)
{
    if (!may_be_absent(j) || !*j->backend->own)
        return false;
    j->denied = j->answer;
    j->then_denied = j->then;
    s3_send_get(j, j->backend->own, false, on_own_entry);
    return true;
}

static void on_transfer(struct transfer *t)
{
    struct job *j = t->user;
    assert(j->then);
    if (t->outcome != TIER_OK) {
        http_job_end(&j->http, t->outcome, t->said);
        return;
    }
    read_answer(j);
    if (t->method == TRANSFER_PUT && j->answer.outcome == TIER_OK && strstr(j->name, "/e-"))
        memcpy(j->backend->own, j->name, sizeof j->backend->own);
    if (takes_clock(j) || (!takes_absence(j) && takes_keys(j)))
        job_send(j);
    else if (j->answer.outcome == TIER_ABSENT || !reads_own(j))
        j->then(j);
}

/* Sends, or sends again, what the job's fields say. */
static void job_send(struct job *j)
{
    struct s3_backend *b = j->backend;
    struct transfer *t = &j->http.transfer;
    const struct credentials *keys;
    char why[TIER_SAID_MAX], path[TRANSFER_URL_MAX - 320];
    uint64_t now = uv_now(b->http.loop);
    switch (aws_identity_get(b->identity, &keys, why, sizeof why)) {
    case AWS_IDENTITY_READY: break;
    case AWS_IDENTITY_ASKED: job_wait(j); return;
    default: http_job_give_up(&j->http, 0, TIER_DENIED, why); return;
    }
    snprintf(path, sizeof path, "%s%s/%s%sv1/%s", *b->bucket ? "/" : "", b->bucket, b->prefix,
             *b->prefix ? "/" : "", j->name);
    snprintf(t->url, sizeof t->url, "%s%s", b->origin, path);
    if (now >= j->http.ends_ms) {
        job_wait(j); /* its time is over */
    } else if (!add_headers(j, keys, path)) {
        http_job_give_up(&j->http, 0, TIER_MISSET, "the credentials are too long");
    } else {
        t->timeout_ms = j->http.ends_ms - now;
        t->user = j;
        t->done = on_transfer;
        transfer_start(b->http.pool, t);
    }
}

static void prepare(struct job *j, enum transfer_method method, const char *name,
                    void (*then)(struct job *j))
{
    snprintf(j->name, sizeof j->name, "%s", name);
    snprintf(j->payload, sizeof j->payload, EMPTY_SHA256);
    *j->checksum = *j->condition = '\0';
    j->then = then;
    j->http.transfer.method = method;
    j->http.transfer.wants_file = false;
}

void s3_send_get(struct job *j, const char *name, bool wants_file, void (*then)(struct job *j))
{
    prepare(j, TRANSFER_GET, name, then);
    j->http.transfer.wants_file = wants_file;
    j->http.transfer.limit = j->http.request->limit;
    job_send(j);
}

void s3_send_delete(struct job *j, const char *name, void (*then)(struct job *j))
{
    prepare(j, TRANSFER_DELETE, name, then);
    job_send(j);
}

/* Fills a PUT. The checksum is of `sum`, 32 bytes; the hash that is signed is always right. */
static void prepare_put(struct job *j, const char *name, const char *text, const uint8_t *sum,
                        const char *condition, void (*then)(struct job *j))
{
    struct tier_request *r = j->http.request;
    struct transfer *t = &j->http.transfer;
    uint8_t digest[32];
    prepare(j, TRANSFER_PUT, name, then);
    if (text)
        SHA256((const uint8_t *)text, strlen(text), digest);
    else
        memcpy(digest, r->sha256, sizeof digest);
    bytes_to_hex(digest, sizeof digest, j->payload);
    EVP_EncodeBlock((uint8_t *)j->checksum, sum ? sum : digest, sizeof digest);
    snprintf(j->condition, sizeof j->condition, "%s", condition);
    t->fd = text ? -1 : r->fd;
    t->body = text;
    t->offset = text ? 0 : r->offset;
    t->length = text ? strlen(text) : r->length;
}

void s3_send_put(struct job *j, const char *name, const char *text, const char *condition,
                 void (*then)(struct job *j))
{
    prepare_put(j, name, text, NULL, condition, then);
    job_send(j);
}

void s3_send_damaged(struct job *j, const char *name, const char *text, void (*then)(struct job *j))
{
    static const uint8_t other[32] = {1};
    prepare_put(j, name, text, other, "", then);
    job_send(j);
}

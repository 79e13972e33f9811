/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web.c - https://[USER@]HOST[:PORT][/PATH] and http://…: servers that keep what is PUT, such as nginx with its DAV
 * module, Apache, or a plain store of artifacts. backends.c chooses it.
 *
 *     PATH/v1/HH/e-ID     an object
 *
 * GET and PUT are one request each. A server that answers PUT with 409, or nginx with 500, may want the folders first:
 * MKCOL v1, MKCOL v1/HH, PUT. A name and a password go as basic authentication, a token as a bearer's. There are no
 * leases: a WebDAV lock does not end when its owner's machine dies.
 *
 * What may go wrong:
 * 1. The credentials are refused: once in five seconds their file is read again, and the request is sent once more.
 * 2. A page of some proxy has status 200: text/html is no object, and no answer to a PUT.
 * 3. The server moved: redirects are not followed, so that no other host sees the credentials.
 *
 * Thread: loop thread.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tier/backends/backends.h"
#include "tier/backends/credentials.h"
#include "tier/backends/transfer.h"
#include "tier/url.h"

#define READ_AGAIN_MS 5000u

struct web_backend {
    struct tier_backend base;
    uv_loop_t *loop;
    struct transfer_pool *pool;
    struct job *jobs;
    unsigned n_timers;
    char origin[300], path[516], user[64]; /* path begins with "/" or is "" */
    char credentials[PATH_MAX];
    char authorization[6200]; /* the header, or "" */
    uint64_t read_ms;
    bool closing, pool_closed;
    void (*closed)(void *user);
    void *closed_user;
};

struct job {
    struct job *next;
    struct web_backend *backend;
    struct tier_request *request;
    uv_timer_t timer; /* ends what never began */
    uint64_t ends_ms;
    bool was_refused;
    unsigned step, n_folders;
    char why[TIER_SAID_MAX];
    enum tier_outcome given_up;
    void (*then)(struct job *job);
    struct transfer transfer;
};

/* ---- the life of a job ---- */

static void backend_settle(struct web_backend *b)
{
    if (!b->closing || !b->pool_closed || b->n_timers)
        return;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    explicit_bzero(b->authorization, sizeof b->authorization);
    free(b);
    closed(user);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct job *j = timer->data;
    struct web_backend *b = j->backend;
    free(j);
    b->n_timers--;
    backend_settle(b);
}

static void job_end(struct job *j, enum tier_outcome outcome, const char *said)
{
    struct tier_request *r = j->request;
    struct job **at = &j->backend->jobs;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    uv_close((uv_handle_t *)&j->timer, on_timer_closed);
    r->backend_data = NULL;
    r->outcome = outcome;
    snprintf(r->said, sizeof r->said, "%s", outcome == TIER_OK ? "" : said);
    r->done(r);
}

static void on_job_timer(uv_timer_t *timer)
{
    struct job *j = timer->data;
    job_end(j, j->given_up, j->why);
}

/* Ends a job in the loop's next turn. */
static void job_give_up(struct job *j, enum tier_outcome outcome, const char *why)
{
    j->given_up = outcome;
    snprintf(j->why, sizeof j->why, "%s", why);
    uv_timer_start(&j->timer, on_job_timer, 0, 0);
}

/* ---- credentials ---- */

/* Makes the header of the file's name and password, or token. False with one line in `why`. */
static bool read_credentials(struct web_backend *b, char *why, size_t why_size)
{
    struct credentials c;
    char pair[1200], *out = b->authorization;
    if (!credentials_read_file(b->credentials, &c, why, why_size))
        return false;
    *out = '\0';
    if (*c.token) {
        snprintf(out, sizeof b->authorization, "Authorization: Bearer %s", c.token);
    } else if (*c.password) {
        int n = snprintf(pair, sizeof pair, "%s:%s", *c.user ? c.user : b->user, c.password);
        int at = snprintf(out, sizeof b->authorization, "Authorization: Basic ");
        EVP_EncodeBlock((uint8_t *)out + at, (const uint8_t *)pair, n);
        explicit_bzero(pair, sizeof pair);
    }
    credentials_wipe(&c);
    b->read_ms = uv_now(b->loop);
    return true;
}

/* Reads the credentials again if the server refuses them. True if they are others now. */
static bool takes_credentials(struct job *j)
{
    struct web_backend *b = j->backend;
    char before[sizeof b->authorization], why[TIER_SAID_MAX];
    bool is_refusal = j->transfer.status == 401 || j->transfer.status == 403;
    if (!is_refusal || j->was_refused || uv_now(b->loop) - b->read_ms < READ_AGAIN_MS)
        return false;
    j->was_refused = true;
    memcpy(before, b->authorization, sizeof before);
    bool newer = read_credentials(b, why, sizeof why) && strcmp(before, b->authorization) != 0;
    explicit_bzero(before, sizeof before);
    return newer;
}

/* ---- a transfer ---- */

/* Returns what an answer means, and says it. */
static enum tier_outcome read_answer(struct job *j, char said[TIER_SAID_MAX])
{
    const struct transfer *t = &j->transfer;
    bool is_page = strncmp(t->content_type, "text/html", 9) == 0;
    bool gets = t->method == TRANSFER_GET;
    int s = t->status;
    snprintf(said, TIER_SAID_MAX, "%d", s);
    if (is_page && s == 200) {
        snprintf(said, TIER_SAID_MAX, "200, but a page for people");
        return TIER_FAILED;
    }
    if (gets ? s == 200 : s == 200 || s == 201 || s == 204)
        return TIER_OK;
    if (s >= 300 && s < 400) {
        snprintf(said, TIER_SAID_MAX, "%d: the server leads to %.80s; write that URL", s,
                 *t->location ? t->location : "nowhere");
        return TIER_MISSET;
    }
    switch (s) {
    case 404:
    case 410: return gets ? TIER_ABSENT : TIER_MISSET;
    case 401:
    case 403: return TIER_DENIED;
    case 412: return TIER_EXISTS;
    case 413: return TIER_TOO_LARGE;
    case 405:
    case 501: snprintf(said, TIER_SAID_MAX, "%d: the server takes no PUT", s); return TIER_CANNOT;
    case 409:
    case 429:
    case 503:
    case 507: return TIER_LATER;
    default: return s >= 400 && s < 500 ? TIER_MISSET : TIER_FAILED;
    }
}

static void job_send(struct job *j);

static void on_transfer(struct transfer *t)
{
    struct job *j = t->user;
    if (t->outcome != TIER_OK)
        job_end(j, t->outcome, t->said);
    else if (takes_credentials(j))
        job_send(j);
    else
        j->then(j);
}

/* Sends, or sends again, what the job's transfer says. */
static void job_send(struct job *j)
{
    struct web_backend *b = j->backend;
    struct transfer *t = &j->transfer;
    uint64_t now = uv_now(b->loop);
    if (t->result_fd >= 0)
        close(t->result_fd);
    t->n_headers = 0;
    if (*b->authorization)
        t->headers[t->n_headers++] = b->authorization;
    if (t->method == TRANSFER_PUT)
        t->headers[t->n_headers++] = "Content-Type: application/octet-stream";
    if (t->method == TRANSFER_PUT && j->request->only_if_absent)
        t->headers[t->n_headers++] = "If-None-Match: *";
    t->timeout_ms = j->ends_ms > now ? j->ends_ms - now : 1;
    t->done = on_transfer;
    t->user = j;
    transfer_start(b->pool, t);
}

static void prepare(struct job *j, enum transfer_method method, const char *name,
                    void (*then)(struct job *j))
{
    struct web_backend *b = j->backend;
    struct transfer *t = &j->transfer;
    t->method = method;
    snprintf(t->url, sizeof t->url, "%s%s/v1/%s", b->origin, b->path, name);
    t->wants_file = method == TRANSFER_GET;
    t->limit = j->request->limit;
    j->then = then;
}

/* ---- GET, PUT ---- */

/* Ends a job with what its answer says. */
static void end_with_answer(struct job *j)
{
    struct transfer *t = &j->transfer;
    struct tier_request *r = j->request;
    char said[TIER_SAID_MAX];
    enum tier_outcome outcome = read_answer(j, said);
    bool has_object = outcome == TIER_OK && t->method == TRANSFER_GET && t->result_fd >= 0;
    if (has_object) {
        r->result_fd = t->result_fd;
        r->result_length = t->result_length;
    } else if (t->result_fd >= 0) {
        close(t->result_fd);
    }
    if (outcome == TIER_OK && t->method == TRANSFER_GET && !has_object) {
        job_end(j, TIER_FAILED, "200 without an object");
        return;
    }
    r->wait_ms = outcome == TIER_LATER ? t->retry_ms : 0;
    job_end(j, outcome, said);
}

static void send_put(struct job *j, void (*then)(struct job *j))
{
    struct tier_request *r = j->request;
    prepare(j, TRANSFER_PUT, r->name, then);
    j->transfer.fd = r->fd;
    j->transfer.offset = r->offset;
    j->transfer.length = r->length;
    job_send(j);
}

/* Makes the folders, one a call, then sends the PUT again. */
static void on_folder(struct job *j)
{
    const char *slash = strchr(j->request->name, '/');
    char folder[TIER_NAME_MAX + 1] = "";
    if (j->n_folders && j->transfer.status >= 500) { /* it is no folder that is missing */
        end_with_answer(j);
        return;
    }
    if (j->n_folders++ == 2 || (j->n_folders == 2 && !slash)) {
        send_put(j, end_with_answer);
        return;
    }
    if (j->n_folders == 2)
        snprintf(folder, sizeof folder, "%.*s/", (int)(slash - j->request->name), j->request->name);
    prepare(j, TRANSFER_MKCOL, folder, on_folder);
    job_send(j);
}

/* True if an answer to PUT may mean that a folder is missing. */
static bool wants_folders(const struct job *j)
{
    return j->transfer.status == 409 || j->transfer.status == 500;
}

static void on_put(struct job *j)
{
    if (wants_folders(j))
        on_folder(j);
    else
        end_with_answer(j);
}

/* ---- PROBE ---- */

enum { PUT_IT, PUT_AGAIN, GET_IT, DELETE_IT };

static void on_probed(struct job *j);

static void probe_send(struct job *j)
{
    struct transfer *t = &j->transfer;
    static const enum transfer_method methods[] = {TRANSFER_PUT, TRANSFER_PUT, TRANSFER_GET,
                                                   TRANSFER_DELETE};
    prepare(j, methods[j->step], j->request->name, on_probed);
    t->wants_file = false; /* the bytes are few: into its text */
    t->fd = -1;
    t->body = j->step == PUT_IT ? "probe 1" : "probe 2";
    t->length = strlen(t->body);
    j->request->only_if_absent = j->step == PUT_AGAIN;
    job_send(j);
}

/* Takes PUT_IT's 409: the folder v1 is missing. */
static void on_probe_folder(struct job *j)
{
    j->n_folders = 1;
    probe_send(j);
}

static void probe_end(struct job *j)
{
    struct tier_capabilities *c = &j->request->capabilities;
    if (!c->reads && !c->writes) {
        job_end(j, j->given_up, j->why);
        return;
    }
    if (c->reads && c->writes)
        snprintf(c->said, sizeof c->said, "reads and writes work; conditional writes %s; no leases",
                 c->conditional ? "do, too" : "do not");
    else
        snprintf(c->said, sizeof c->said, "%s work; no %s: %s", c->reads ? "reads" : "writes",
                 c->reads ? "writes" : "reads", j->why);
    job_end(j, TIER_OK, "");
}

static void on_probed(struct job *j)
{
    struct tier_capabilities *c = &j->request->capabilities;
    struct transfer *t = &j->transfer;
    char said[TIER_SAID_MAX];
    enum tier_outcome outcome = read_answer(j, said);
    int64_t differs = t->date ? (int64_t)t->date - time(NULL) : 0;
    c->clock_skew_ms = (uint64_t)(differs < 0 ? -differs : differs) * 1000;
    if (j->step == PUT_IT && wants_folders(j) && !j->n_folders) {
        prepare(j, TRANSFER_MKCOL, "", on_probe_folder);
        job_send(j);
        return;
    }
    if (j->step == PUT_IT)
        c->writes = outcome == TIER_OK;
    else if (j->step == PUT_AGAIN)
        c->conditional = outcome == TIER_EXISTS;
    else if (j->step == GET_IT)
        c->reads = c->writes ? outcome == TIER_OK && strncmp(t->text, "probe ", 6) == 0
                             : outcome == TIER_ABSENT;
    if ((j->step == PUT_IT && !c->writes) || (j->step == GET_IT && !c->reads)) {
        j->given_up = outcome == TIER_OK ? TIER_FAILED : outcome;
        snprintf(j->why, sizeof j->why, "%s", said);
    }
    j->step = j->step == PUT_IT && !c->writes ? GET_IT : j->step + 1;
    if (j->step > DELETE_IT || (j->step == DELETE_IT && !c->writes))
        probe_end(j);
    else
        probe_send(j);
}

/* ---- requests ---- */

static void web_start(struct tier_backend *backend, struct tier_request *r)
{
    struct web_backend *b = (struct web_backend *)backend;
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        abort(); /* warmd starts the helper again */
    j->backend = b;
    j->request = r;
    j->next = b->jobs;
    b->jobs = j;
    j->transfer.result_fd = r->result_fd = -1;
    r->backend_data = j;
    uv_update_time(b->loop);
    j->ends_ms = uv_now(b->loop) + r->timeout_ms;
    uv_timer_init(b->loop, &j->timer);
    j->timer.data = j;
    b->n_timers++;
    if (r->operation == TIER_GET) {
        prepare(j, TRANSFER_GET, r->name, end_with_answer);
        job_send(j);
    } else if (r->operation == TIER_PUT) {
        send_put(j, on_put);
    } else if (r->operation == TIER_PROBE) {
        r->capabilities = (struct tier_capabilities){0};
        probe_send(j);
    } else {
        job_give_up(j, TIER_CANNOT, "a server of HTTP has no leases");
    }
}

static void web_cancel(struct tier_backend *backend, struct tier_request *r)
{
    struct job *j = r->backend_data;
    (void)backend;
    if (j && j->transfer.exchange)
        transfer_cancel(&j->transfer);
}

static void on_pool_closed(void *user)
{
    struct web_backend *b = user;
    b->pool_closed = true;
    backend_settle(b);
}

static void web_close(struct tier_backend *backend, void (*closed)(void *user), void *user)
{
    struct web_backend *b = (struct web_backend *)backend;
    b->closing = true;
    b->closed = closed;
    b->closed_user = user;
    transfer_pool_close(b->pool, on_pool_closed, b);
    while (b->jobs)
        job_end(b->jobs, TIER_FAILED, "closed");
}

static const struct tier_backend_functions web_functions = {"https", web_start, web_cancel,
                                                            web_close};

/* Warns of credentials that travel readable. */
static void warn_of_plain(const struct web_backend *b, const struct tier_url *u)
{
    const char *host = u->host;
    bool near =
        strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
    if (strcmp(u->scheme, "http") == 0 && *b->authorization && !near)
        fprintf(stderr,
                "warm-tier: http:// shows the credentials to all on the way: use https://\n");
}

struct tier_backend *tier_web_new(uv_loop_t *loop, const struct tier_settings *settings, char *why,
                                  size_t why_size)
{
    static const char *const known[] = {NULL};
    struct tier_url u;
    struct credentials c;
    struct web_backend *b = calloc(1, sizeof *b);
    if (!b)
        abort(); /* warmd starts the helper again */
    b->loop = loop;
    snprintf(b->credentials, sizeof b->credentials, "%s",
             settings->credentials ? settings->credentials : "");
    bool good = tier_url_parse(settings->url, &u, why, why_size) &&
                tier_url_check_options(&u, known, why, why_size);
    if (good)
        snprintf(b->user, sizeof b->user, "%s", u.user);
    if (!good || !read_credentials(b, why, why_size) ||
        !credentials_read_file(b->credentials, &c, why, why_size)) {
        free(b);
        return NULL;
    }
    const char *open = strchr(u.host, ':') ? "[" : "", *close_it = *open ? "]" : "";
    size_t n = (size_t)snprintf(b->origin, sizeof b->origin, "%s://%s%s%s", u.scheme, open, u.host,
                                close_it);
    if (u.port)
        snprintf(b->origin + n, sizeof b->origin - n, ":%u", u.port);
    snprintf(b->path, sizeof b->path, "%s%s", *u.path ? "/" : "", u.path);
    warn_of_plain(b, &u);
    struct transfer_settings t = {.ca = settings->ca,
                                  .certificate = c.certificate,
                                  .key = c.key,
                                  .proxy = c.proxy,
                                  .connections = settings->connections,
                                  .min_rate = settings->min_rate};
    b->base.functions = &web_functions;
    b->pool = transfer_pool_new(loop, &t, why, why_size);
    credentials_wipe(&c);
    if (!b->pool) {
        free(b);
        return NULL;
    }
    return &b->base;
}

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
#include "tier/backends/http_job.h"
#include "tier/url.h"

#define READ_AGAIN_MS 5000u

struct web_backend {
    struct http_backend http;
    char origin[300], path[516], user[64]; /* path begins with "/" or is "" */
    char authorization[6200];              /* the header, or "" */
    uint64_t read_ms;
};

struct job {
    struct http_job http;
    struct web_backend *backend;
    bool was_refused;
    unsigned step, n_folders;
    void (*then)(struct job *job);
};

/* ---- credentials ---- */

/* Makes the header of the file's name and password, or token. False with one line in `why`. */
static bool read_credentials(struct web_backend *b, char *why, size_t why_size)
{
    struct credentials c;
    char pair[1200], *out = b->authorization;
    if (!credentials_read_file(b->http.credentials, &c, why, why_size))
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
    b->read_ms = uv_now(b->http.loop);
    return true;
}

/* Reads the credentials again if the server refuses them. True if they are others now. */
static bool takes_credentials(struct job *j)
{
    struct web_backend *b = j->backend;
    char before[sizeof b->authorization], why[TIER_SAID_MAX];
    bool is_refusal = j->http.transfer.status == 401 || j->http.transfer.status == 403;
    if (!is_refusal || j->was_refused || uv_now(b->http.loop) - b->read_ms < READ_AGAIN_MS)
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
    const struct transfer *t = &j->http.transfer;
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
        http_job_end(&j->http, t->outcome, t->said);
    else if (takes_credentials(j))
        job_send(j);
    else
        j->then(j);
}

/* Sends, or sends again, what the job's transfer says. */
static void job_send(struct job *j)
{
    struct web_backend *b = j->backend;
    struct transfer *t = &j->http.transfer;
    uint64_t now = uv_now(b->http.loop);
    if (t->result_fd >= 0)
        close(t->result_fd);
    t->n_headers = 0;
    if (*b->authorization)
        t->headers[t->n_headers++] = b->authorization;
    if (t->method == TRANSFER_PUT)
        t->headers[t->n_headers++] = "Content-Type: application/octet-stream";
    if (t->method == TRANSFER_PUT && j->http.request->only_if_absent)
        t->headers[t->n_headers++] = "If-None-Match: *";
    t->timeout_ms = j->http.ends_ms > now ? j->http.ends_ms - now : 1;
    t->done = on_transfer;
    t->user = j;
    transfer_start(b->http.pool, t);
}

static void prepare(struct job *j, enum transfer_method method, const char *name,
                    void (*then)(struct job *j))
{
    struct web_backend *b = j->backend;
    struct transfer *t = &j->http.transfer;
    t->method = method;
    snprintf(t->url, sizeof t->url, "%s%s/v1/%s", b->origin, b->path, name);
    t->wants_file = method == TRANSFER_GET;
    t->limit = j->http.request->limit;
    j->then = then;
}

/* ---- GET, PUT ---- */

/* Ends a job with what its answer says. */
static void end_with_answer(struct job *j)
{
    struct transfer *t = &j->http.transfer;
    struct tier_request *r = j->http.request;
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
        http_job_end(&j->http, TIER_FAILED, "200 without an object");
        return;
    }
    r->wait_ms = outcome == TIER_LATER ? t->retry_ms : 0;
    http_job_end(&j->http, outcome, said);
}

static void send_put(struct job *j, void (*then)(struct job *j))
{
    struct tier_request *r = j->http.request;
    prepare(j, TRANSFER_PUT, r->name, then);
    j->http.transfer.fd = r->fd;
    j->http.transfer.offset = r->offset;
    j->http.transfer.length = r->length;
    job_send(j);
}

/* Makes the folders, one a call, then sends the PUT again. */
static void on_folder(struct job *j)
{
    const char *slash = strchr(j->http.request->name, '/');
    char folder[TIER_NAME_MAX + 1] = "";
    if (j->n_folders && j->http.transfer.status >= 500) { /* it is no folder that is missing */
        end_with_answer(j);
        return;
    }
    if (j->n_folders++ == 2 || (j->n_folders == 2 && !slash)) {
        send_put(j, end_with_answer);
        return;
    }
    if (j->n_folders == 2)
        snprintf(folder, sizeof folder, "%.*s/", (int)(slash - j->http.request->name),
                 j->http.request->name);
    prepare(j, TRANSFER_MKCOL, folder, on_folder);
    job_send(j);
}

/* True if an answer to PUT may mean that a folder is missing. */
static bool wants_folders(const struct job *j)
{
    return j->http.transfer.status == 409 || j->http.transfer.status == 500;
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
    struct transfer *t = &j->http.transfer;
    static const enum transfer_method methods[] = {TRANSFER_PUT, TRANSFER_PUT, TRANSFER_GET,
                                                   TRANSFER_DELETE};
    prepare(j, methods[j->step], j->http.request->name, on_probed);
    t->wants_file = false; /* the bytes are few: into its text */
    t->fd = -1;
    t->body = j->step == PUT_IT ? "probe 1" : "probe 2";
    t->length = strlen(t->body);
    j->http.request->only_if_absent = j->step == PUT_AGAIN;
    job_send(j);
}

/* Takes PUT_IT's 409: the folder v1 is missing. */
static void on_probe_folder(struct job *j)
{
    j->n_folders = 1;
    probe_send(j);
}

static void on_probed(struct job *j)
{
    struct tier_capabilities *c = &j->http.request->capabilities;
    struct transfer *t = &j->http.transfer;
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
        j->http.given_up = outcome == TIER_OK ? TIER_FAILED : outcome;
        snprintf(j->http.why, sizeof j->http.why, "%s", said);
    }
    j->step = j->step == PUT_IT && !c->writes ? GET_IT : j->step + 1;
    if (j->step > DELETE_IT || (j->step == DELETE_IT && !c->writes))
        http_job_end_probe(&j->http, c->conditional ? "conditional writes do, too; no leases"
                                                    : "conditional writes do not; no leases");
    else
        probe_send(j);
}

/* ---- requests ---- */

static void web_start(struct tier_backend *backend, struct tier_request *r)
{
    struct web_backend *b = (struct web_backend *)backend;
    struct job *j = (struct job *)http_job_new(&b->http, r, sizeof *j);
    j->backend = b;
    if (r->operation == TIER_GET) {
        prepare(j, TRANSFER_GET, r->name, end_with_answer);
        job_send(j);
    } else if (r->operation == TIER_PUT) {
        send_put(j, on_put);
    } else if (r->operation == TIER_PROBE) {
        r->capabilities = (struct tier_capabilities){0};
        probe_send(j);
    } else {
        http_job_give_up(&j->http, 0, TIER_CANNOT, "a server of HTTP has no leases");
    }
}

static const struct tier_backend_functions web_functions = {"https", web_start, http_backend_cancel,
                                                            http_backend_close};

static void forget(struct http_backend *backend)
{
    struct web_backend *b = (struct web_backend *)backend;
    explicit_bzero(b->authorization, sizeof b->authorization);
}

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
    struct web_backend *b = calloc(1, sizeof *b);
    if (!b)
        abort(); /* warmd starts the helper again */
    b->http.dispose = forget;
    if (!tier_url_parse(settings->url, &u, why, why_size) ||
        !tier_url_check_options(&u, known, why, why_size) ||
        !http_backend_init(&b->http, &web_functions, loop, settings, why, why_size)) {
        free(b);
        return NULL;
    }
    snprintf(b->user, sizeof b->user, "%s", u.user);
    read_credentials(b, why, why_size); /* the file can be read: see above */
    const char *open = strchr(u.host, ':') ? "[" : "", *close_it = *open ? "]" : "";
    size_t n = (size_t)snprintf(b->origin, sizeof b->origin, "%s://%s%s%s", u.scheme, open, u.host,
                                close_it);
    if (u.port)
        snprintf(b->origin + n, sizeof b->origin - n, ":%u", u.port);
    snprintf(b->path, sizeof b->path, "%s%s", *u.path ? "/" : "", u.path);
    warn_of_plain(b, &u);
    return &b->http.base;
}

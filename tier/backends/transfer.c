/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c - runs HTTP requests with libcurl on a libuv loop. s3.c, web.c and aws_identity.c call it.
 *
 * 1. transfer_start makes an exchange: an easy handle of libcurl, and a timer for what libcurl's own limits miss.
 * 2. libcurl says which sockets it waits for (on_socket) and when it wants to be called (on_timeout).
 * 3. Each event goes to curl_multi_socket_action; then take_ended ends what libcurl has finished.
 *
 * What may go wrong:
 * - The request's time is over, or less than min_rate came: on_exchange_timer ends it. libcurl's own LOW_SPEED_TIME
 *   ends an upload into a black hole only after twice that time.
 * - A kept connection is dead: the transfer is made once more, on a new one.
 * - The answer is longer than `limit`: its headers or its body end the transfer.
 * - libcurl closes a socket that libuv still watches: on_close_socket ends the watch first.
 *
 * Thread: loop thread.
 */
#include "tier/backends/transfer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "keygen/list.h"
#include "tier/backends/libcurl.h"

#define CONNECTIONS 16u
#define BUFFER_BYTES (128l << 10) /* as large as curl's own: a read is one system call */
#define CONNECT_MS 1500l
#define IDLE_S 300l /* a new connection with TLS costs 50 ms: the certificates are read again */
#define EXPECT_ABOVE (1u << 20) /* bytes of a PUT that first asks whether it may */
#define RATE_GRACE_MS 2000u
#define RATE_TICK_MS 200u

struct exchange;

static const struct libcurl *curl; /* once a pool has loaded it */

/* A socket of libcurl's that libuv watches. */
struct watch {
    struct watch *prev, *next;
    struct transfer_pool *pool;
    uv_poll_t poll;
    curl_socket_t fd;
};

struct transfer_pool {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct exchange *exchanges;
    struct watch *watches;
    unsigned n_handles; /* of libuv, not closed yet */
    char *ca, *certificate, *key, *proxy;
    uint64_t min_rate;
    bool closing;
    void (*closed)(void *user);
    void *user;
};

struct exchange {
    struct exchange *prev, *next;
    struct transfer_pool *pool;
    struct transfer *transfer; /* NULL: ended */
    CURL *easy;
    struct curl_slist *headers;
    uv_timer_t timer;
    uint64_t moved_ms; /* when its first byte came or went: before, it may wait for a connection */
    uint64_t ends_ms, sent, received;
    bool cancelled, too_large, no_memory;
    bool has_head, is_second; /* some of the answer came; the transfer is made once more */
    char error[CURL_ERROR_SIZE];
};

/* ---- the end of an exchange ---- */

static void pool_settle(struct transfer_pool *p)
{
    if (!p->closing || p->n_handles)
        return;
    assert(!p->exchanges);
    void (*closed)(void *user) = p->closed;
    void *user = p->user;
    free(p->ca);
    free(p->certificate);
    free(p->key);
    free(p->proxy);
    free(p);
    closed(user);
}

static void on_exchange_closed(uv_handle_t *timer)
{
    struct exchange *x = timer->data;
    struct transfer_pool *p = x->pool;
    free(x);
    p->n_handles--;
    pool_settle(p);
}

/* Ends the exchange with the outcome in its transfer. */
static void exchange_end(struct exchange *x, enum tier_outcome outcome, const char *said)
{
    struct transfer *t = x->transfer;
    assert(t && t->exchange == x); /* it ends once */
    LIST_REMOVE(x->pool->exchanges, x);
    x->transfer = NULL;
    curl->multi_remove_handle(x->pool->multi, x->easy);
    curl->easy_cleanup(x->easy);
    curl->slist_free_all(x->headers);
    uv_close((uv_handle_t *)&x->timer, on_exchange_closed);
    t->exchange = NULL;
    t->outcome = outcome;
    snprintf(t->said, sizeof t->said, "%s", said);
    t->text[t->text_length] = '\0';
    if (outcome != TIER_OK && t->result_fd >= 0) {
        close(t->result_fd);
        t->result_fd = -1;
    }
    t->done(t);
}

/* Returns the outcome for a failure of libcurl: a fault that a person must mend, or one of the
 * network. */
static enum tier_outcome failure_outcome(CURLcode code, const char *said)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_URL_MALFORMAT: return TIER_MISSET;
    case CURLE_SSL_CONNECT_ERROR: /* a server without TLS, or one that wants a certificate */
        return strstr(said, "SYSCALL") || strstr(said, "reset") ? TIER_FAILED : TIER_MISSET;
    default: return TIER_FAILED;
    }
}

/* Makes the transfer once more if a kept connection was dead before any of the answer came. */
static bool starts_again(struct exchange *x, CURLcode code)
{
    long connects = 1;
    curl->easy_getinfo(x->easy, CURLINFO_NUM_CONNECTS, &connects);
    if (connects > 0 || x->has_head || x->is_second ||
        (code != CURLE_SEND_ERROR && code != CURLE_RECV_ERROR && code != CURLE_GOT_NOTHING))
        return false;
    x->is_second = true;
    x->sent = 0;
    *x->error = '\0';
    curl->multi_remove_handle(x->pool->multi, x->easy);
    curl->easy_setopt(x->easy, CURLOPT_FRESH_CONNECT, 1l);
    return curl->multi_add_handle(x->pool->multi, x->easy) == CURLM_OK;
}

/* Ends what libcurl has finished. `done` may close the pool: then libcurl has nothing more to say. */
static void take_ended(struct transfer_pool *p)
{
    CURLMsg *m;
    int left;
    while (!p->closing && (m = curl->multi_info_read(p->multi, &left))) {
        struct exchange *x;
        char said[TIER_SAID_MAX];
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
        long status = 0;
        curl->easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
        x->transfer->status = (int)status;
        if (code != CURLE_OK && starts_again(x, code))
            continue;
        if (code == CURLE_OK && status >= 100) {
            exchange_end(x, TIER_OK, "");
        } else if (x->too_large) {
            exchange_end(x, TIER_TOO_LARGE, "larger than expected");
        } else if (x->no_memory) {
            exchange_end(x, TIER_FAILED, "no memory for the object");
        } else {
            snprintf(said, sizeof said, "%.150s", *x->error ? x->error : curl->easy_strerror(code));
            exchange_end(x, code ? failure_outcome(code, said) : TIER_FAILED, said);
        }
    }
}

/* True if an exchange moves fewer bytes than it must. All that move at once share the smallest rate. A body that is sent
 * waits for the server's answer until the request's time is over. */
static bool is_slow(const struct exchange *x, uint64_t now)
{
    uint64_t bytes = x->sent + x->received, rate = x->pool->min_rate;
    uint64_t n_moving = 0;
    bool is_sent = x->transfer->method == TRANSFER_PUT && x->sent == x->transfer->length;
    for (const struct exchange *each = x->pool->exchanges; each; each = each->next)
        n_moving += each->moved_ms != 0;
    return rate && x->moved_ms && !is_sent &&
           now - x->moved_ms > RATE_GRACE_MS + bytes * n_moving * 1000 / rate;
}

/* Ends what is late, too slow or cancelled; else looks again soon. */
static void on_exchange_timer(uv_timer_t *timer)
{
    struct exchange *x = timer->data;
    uint64_t now = uv_now(x->pool->loop);
    char said[TIER_SAID_MAX];
    if (x->cancelled) {
        exchange_end(x, TIER_FAILED, "cancelled");
        return;
    }
    if (now >= x->ends_ms) {
        snprintf(said, sizeof said, "timed out after %llu ms",
                 (unsigned long long)x->transfer->timeout_ms);
        exchange_end(x, TIER_FAILED, said);
        return;
    }
    if (is_slow(x, now)) {
        snprintf(said, sizeof said, "too slow: %llu bytes in %llu ms",
                 (unsigned long long)(x->sent + x->received),
                 (unsigned long long)(now - x->moved_ms));
        exchange_end(x, TIER_FAILED, said);
        return;
    }
    uint64_t left = x->ends_ms - now;
    uv_timer_start(timer, on_exchange_timer, left < RATE_TICK_MS ? left : RATE_TICK_MS, 0);
}

/* ---- libcurl's sockets and timer on the loop ---- */

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *w = handle->data;
    struct transfer_pool *p = w->pool;
    free(w);
    p->n_handles--;
    pool_settle(p);
}

static void watch_end(struct watch *w)
{
    assert(!uv_is_closing((uv_handle_t *)&w->poll));
    LIST_REMOVE(w->pool->watches, w);
    uv_poll_stop(&w->poll); /* takes the descriptor out of epoll at once */
    uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *w = poll->data;
    struct transfer_pool *p = w->pool;
    int running, flags = 0;
    if (status < 0 || events & UV_READABLE) /* reading tells what the error is */
        flags |= CURL_CSELECT_IN;
    if (status < 0 || events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl->multi_socket_action(p->multi, w->fd, flags, &running);
    take_ended(p);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
    struct transfer_pool *p = user;
    struct watch *w = known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            curl->multi_assign(p->multi, fd, NULL);
            watch_end(w);
        }
        return 0;
    }
    if (!w) {
        w = calloc(1, sizeof *w);
        if (!w || uv_poll_init_socket(p->loop, &w->poll, fd) != 0)
            abort(); /* warmd starts the helper again */
        w->pool = p;
        w->fd = fd;
        w->poll.data = w;
        LIST_ADD(p->watches, w);
        p->n_handles++;
        curl->multi_assign(p->multi, fd, w);
    }
    uv_poll_start(&w->poll,
                  (what == CURL_POLL_IN ? 0 : UV_WRITABLE) |
                      (what == CURL_POLL_OUT ? 0 : UV_READABLE),
                  on_poll);
    return 0;
}

static int on_close_socket(void *user, curl_socket_t fd)
{
    struct transfer_pool *p = user;
    for (struct watch *w = p->watches; w; w = w->next)
        if (w->fd == fd) {
            curl->multi_assign(p->multi, fd, NULL);
            watch_end(w);
            break;
        }
    return close(fd);
}

static void on_timer(uv_timer_t *timer)
{
    struct transfer_pool *p = timer->data;
    int running;
    curl->multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_ended(p);
}

/* Starts the timer. Never calls libcurl from here, not even for 0 ms. */
static int on_timeout(CURLM *multi, long ms, void *user)
{
    struct transfer_pool *p = user;
    (void)multi;
    if (p->closing || ms < 0)
        uv_timer_stop(&p->timer);
    else
        uv_timer_start(&p->timer, on_timer, (uint64_t)ms, 0);
    return 0;
}

/* ---- bytes ---- */

static void exchange_moves(struct exchange *x)
{
    if (!x->moved_ms)
        x->moved_ms = uv_now(x->pool->loop);
}

static size_t on_read(char *to, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    struct transfer *t = x->transfer;
    assert(x->sent <= t->length);
    size_t want = size * n;
    exchange_moves(x);
    if (want > t->length - x->sent)
        want = (size_t)(t->length - x->sent);
    ssize_t got = (ssize_t)want;
    if (t->fd >= 0)
        got = want ? pread(t->fd, to, want, (off_t)(t->offset + x->sent)) : 0;
    else
        memcpy(to, t->body + x->sent, want);
    if (got < 0 || (want && got == 0))
        return CURL_READFUNC_ABORT; /* the file is shorter than it should be */
    x->sent += (uint64_t)got;
    return (size_t)got;
}

/* Rewinds the body: libcurl sends it again if a connection that it kept was dead. */
static int on_seek(void *user, curl_off_t offset, int origin)
{
    struct exchange *x = user;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > x->transfer->length)
        return CURL_SEEKFUNC_CANTSEEK;
    x->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t keep_text(struct transfer *t, const char *data, size_t len)
{
    assert(t->text_length <= TRANSFER_TEXT_MAX);
    size_t left = TRANSFER_TEXT_MAX - t->text_length;
    size_t kept = len < left ? len : left;
    memcpy(t->text + t->text_length, data, kept);
    t->text_length += kept;
    return len;
}

static size_t keep_object(struct exchange *x, const char *data, size_t len)
{
    struct transfer *t = x->transfer;
    assert(t->result_length <= t->limit);
    if (t->result_length + len > t->limit) {
        x->too_large = true;
        return 0;
    }
    if (t->result_fd < 0)
        t->result_fd = memfd_create("warm-tier", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    for (size_t at = 0; at < len;) {
        ssize_t n = t->result_fd < 0 ? -1 : write(t->result_fd, data + at, len - at);
        if (n <= 0) {
            x->no_memory = true;
            return 0;
        }
        at += (size_t)n;
    }
    t->result_length += len;
    return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    long status = 0;
    curl->easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    x->received += size * n;
    return status == 200 && x->transfer->wants_file ? keep_object(x, data, size * n)
                                                    : keep_text(x->transfer, data, size * n);
}

/* Copies the value of a header, without spaces at its ends and without bytes that no log should have. */
static void copy_value(const char *at, size_t len, char *out, size_t cap)
{
    size_t n = 0;
    while (len && (*at == ' ' || *at == '\t'))
        at++, len--;
    while (len && (unsigned char)at[len - 1] <= ' ')
        len--;
    for (; n < len && n + 1 < cap; n++)
        out[n] = at[n] >= ' ' && at[n] < 127 ? at[n] : '?';
    out[n] = '\0';
}

/* Takes Retry-After: seconds, or a date. */
static void take_retry(struct transfer *t, const char *value)
{
    char *end;
    unsigned long seconds = strtoul(value, &end, 10);
    if (end != value && *end == '\0') {
        t->retry_ms = seconds < 86400 ? seconds * 1000 : 86400000;
        return;
    }
    time_t at = curl->getdate(value, NULL), now = t->date ? t->date : time(NULL);
    if (at > now)
        t->retry_ms = (uint64_t)(at - now) * 1000;
}

static void take_header(struct exchange *x, const char *name, const char *value)
{
    struct transfer *t = x->transfer;
    const struct {
        const char *name;
        char *to;
        size_t cap;
    } kept[] = {{"etag", t->etag, sizeof t->etag},
                {"content-type", t->content_type, sizeof t->content_type},
                {"x-amz-bucket-region", t->region, sizeof t->region},
                {"location", t->location, sizeof t->location}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strcasecmp(name, kept[i].name) == 0)
            snprintf(kept[i].to, kept[i].cap, "%s", value);
    if (strcasecmp(name, "date") == 0 || strcasecmp(name, "last-modified") == 0) {
        time_t at = curl->getdate(value, NULL);
        *(*name == 'd' || *name == 'D' ? &t->date : &t->modified) = at > 0 ? at : 0;
    }
    if (strcasecmp(name, "retry-after") == 0)
        take_retry(t, value);
    if (strcasecmp(name, "content-length") == 0)
        t->has_length = true;
    if (strcasecmp(name, "content-length") == 0 && t->wants_file) {
        long status = 0;
        curl->easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
        x->too_large = status == 200 && strtoull(value, NULL, 10) > t->limit;
    }
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    struct exchange *x = user;
    size_t len = size * n;
    char name[64], value[256];
    const char *colon = memchr(data, ':', len);
    exchange_moves(x);
    x->has_head = true;
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0) { /* of an answer after 100 Continue, too */
        struct transfer *t = x->transfer;
        *t->etag = *t->content_type = *t->region = *t->location = '\0';
        t->date = t->modified = 0;
        t->retry_ms = 0;
        t->has_length = false;
    } else if (colon && (size_t)(colon - data) < sizeof name) {
        snprintf(name, sizeof name, "%.*s", (int)(colon - data), data);
        copy_value(colon + 1, len - (size_t)(colon + 1 - data), value, sizeof value);
        take_header(x, name, value);
    }
    return x->too_large ? 0 : len;
}

/* ---- its start ---- */

static void set_options(struct exchange *x)
{
    struct transfer *t = x->transfer;
    struct transfer_pool *p = x->pool;
    const char *ca = p->ca ? p->ca : getenv("SSL_CERT_FILE");
    CURL *e = x->easy;
    curl->easy_setopt(e, CURLOPT_URL, t->url);
    curl->easy_setopt(e, CURLOPT_PRIVATE, x);
    curl->easy_setopt(e, CURLOPT_NOSIGNAL, 1l);
    curl->easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(e, CURLOPT_HTTP_VERSION,
                      (long)CURL_HTTP_VERSION_1_1); /* faster than 2 here */
    curl->easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl->easy_setopt(e, CURLOPT_MAXAGE_CONN, IDLE_S);
    curl->easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1l);
    curl->easy_setopt(e, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    curl->easy_setopt(e, CURLOPT_ERRORBUFFER, x->error);
    curl->easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (ca)
        curl->easy_setopt(e, CURLOPT_CAINFO, ca);
    if (p->certificate)
        curl->easy_setopt(e, CURLOPT_SSLCERT, p->certificate);
    if (p->key)
        curl->easy_setopt(e, CURLOPT_SSLKEY, p->key);
    if (p->proxy || t->avoids_proxy)
        curl->easy_setopt(e, CURLOPT_PROXY, t->avoids_proxy ? "" : p->proxy);
    curl->easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(e, CURLOPT_WRITEDATA, x);
    curl->easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(e, CURLOPT_HEADERDATA, x);
    curl->easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
    curl->easy_setopt(e, CURLOPT_CLOSESOCKETDATA, p);
    if (t->method == TRANSFER_DELETE || t->method == TRANSFER_MKCOL)
        curl->easy_setopt(e, CURLOPT_CUSTOMREQUEST,
                          t->method == TRANSFER_DELETE ? "DELETE" : "MKCOL");
    if (t->method == TRANSFER_PUT) {
        curl->easy_setopt(e, CURLOPT_UPLOAD, 1l);
        curl->easy_setopt(e, CURLOPT_READFUNCTION, on_read);
        curl->easy_setopt(e, CURLOPT_READDATA, x);
        curl->easy_setopt(e, CURLOPT_SEEKFUNCTION, on_seek);
        curl->easy_setopt(e, CURLOPT_SEEKDATA, x);
        curl->easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)t->length);
    }
    for (size_t i = 0; i < t->n_headers; i++)
        x->headers = curl->slist_append(x->headers, t->headers[i]);
    if (t->method != TRANSFER_PUT || t->length <= EXPECT_ABOVE)
        x->headers = curl->slist_append(x->headers, "Expect:");
    x->headers = curl->slist_append(x->headers, "User-Agent: warm-tier");
    curl->easy_setopt(e, CURLOPT_HTTPHEADER, x->headers);
}

void transfer_start(struct transfer_pool *p, struct transfer *t)
{
    assert(!p->closing && t->done && t->n_headers <= TRANSFER_HEADERS_MAX);
    assert(t->method != TRANSFER_PUT || t->fd >= 0 || t->body || !t->length);
    struct exchange *x = calloc(1, sizeof *x);
    if (!x || !(x->easy = curl->easy_init()))
        abort(); /* warmd starts the helper again */
    t->exchange = x;
    t->result_fd = -1;
    t->result_length = t->text_length = 0;
    t->status = 0;
    x->pool = p;
    x->transfer = t;
    LIST_ADD(p->exchanges, x);
    uv_timer_init(p->loop, &x->timer);
    x->timer.data = x;
    p->n_handles++;
    uv_update_time(p->loop);
    x->ends_ms = uv_now(p->loop) + t->timeout_ms;
    uv_timer_start(&x->timer, on_exchange_timer,
                   t->timeout_ms < RATE_TICK_MS ? t->timeout_ms : RATE_TICK_MS, 0);
    set_options(x);
    if (curl->multi_add_handle(p->multi, x->easy) != CURLM_OK)
        transfer_cancel(t);
}

void transfer_cancel(struct transfer *t)
{
    struct exchange *x = t->exchange;
    if (!x)
        return;
    x->cancelled = true;
    uv_timer_start(&x->timer, on_exchange_timer, 0, 0);
}

/* ---- the pool ---- */

static char *copy_text(const char *text) { return text && *text ? strdup(text) : NULL; }

struct transfer_pool *transfer_pool_new(uv_loop_t *loop, const struct transfer_settings *s,
                                        char *why, size_t why_size)
{
    curl = libcurl_load(why, why_size);
    if (!curl)
        return NULL;
    struct transfer_pool *p = calloc(1, sizeof *p);
    if (!p || !(p->multi = curl->multi_init()))
        abort(); /* warmd starts the helper again */
    long connections = (long)(s->connections ? s->connections : CONNECTIONS);
    p->loop = loop;
    p->ca = copy_text(s->ca);
    p->certificate = copy_text(s->certificate);
    p->key = copy_text(s->key);
    p->proxy = copy_text(s->proxy);
    p->min_rate = s->min_rate;
    uv_timer_init(loop, &p->timer);
    p->timer.data = p;
    p->n_handles = 1;
    curl->multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl->multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl->multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    curl->multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    curl->multi_setopt(p->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
    curl->multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, connections);
    return p;
}

static void on_pool_timer_closed(uv_handle_t *timer)
{
    struct transfer_pool *p = timer->data;
    p->n_handles--;
    pool_settle(p);
}

void transfer_pool_close(struct transfer_pool *p, void (*closed)(void *user), void *user)
{
    assert(!p->closing && closed);
    while (p->exchanges)
        exchange_end(p->exchanges, TIER_FAILED, "closed");
    p->closing = true;
    p->closed = closed;
    p->user = user;
    curl->multi_cleanup(p->multi);
    uv_close((uv_handle_t *)&p->timer, on_pool_timer_closed);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aws_identity.c - decides which keys sign, and when to look for newer ones. s3.c calls it before each request.
 *
 * Of a container (ECS, EKS): one GET of the URL in AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI. Of a machine
 * of EC2: PUT for a session's token, GET of the role's name, GET of its keys (IMDSv2; version 1 is not used).
 * Both answer JSON with AccessKeyId, SecretAccessKey, Token and Expiration.
 *
 * What may go wrong: no endpoint, an error, other JSON. Then there are no keys for RETRY_S seconds; keys that have
 * not expired stay in use.
 *
 * Thread: loop thread.
 */
#include "tier/backends/aws_identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCAL_S 60  /* files and variables are read again */
#define RETRY_S 10  /* an endpoint that failed is asked again */
#define DOUBT_S 5   /* at most one refusal in so many seconds leads to a new look */
#define EARLY_S 300 /* before keys expire */
#define SPARE_S 10  /* keys that expire within it are not used */
#define ENDPOINT_MS 1000u
#define EC2 "http://169.254.169.254"
#define CONTAINER "http://169.254.170.2"

struct aws_identity {
    struct transfer_pool *pool;
    const char *file, *profile;
    void (*changed)(void *user);
    void *user;
    struct credentials keys;
    time_t look_at; /* for newer keys */
    time_t doubted;
    bool is_remote, is_doubted;
    char why[TIER_SAID_MAX]; /* there are no keys */

    struct transfer transfer; /* to an endpoint */
    bool asking;
    char token_header[4200], role[128];
};

/* ---- endpoints ---- */

static void ask_end(struct aws_identity *id, const char *why)
{
    id->asking = id->is_doubted = false;
    id->transfer.text_length = 0;
    explicit_bzero(id->transfer.text, sizeof id->transfer.text);
    snprintf(id->why, sizeof id->why, "%s", why);
    if (*why)
        id->look_at = time(NULL) + RETRY_S;
    id->changed(id->user);
}

/* Finds "name": "value" in JSON without escapes, as these endpoints write it. */
static bool json_find(const char *text, const char *name, char *out, size_t cap)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *at = strstr(text, quoted);
    if (!at)
        return false;
    at += strlen(quoted);
    at += strspn(at, " \t\r\n:");
    size_t len = *at == '"' ? strcspn(at + 1, "\"\\") : 0;
    if (len == 0 || at[1 + len] != '"' || len >= cap)
        return false;
    memcpy(out, at + 1, len);
    out[len] = '\0';
    return true;
}

/* Takes the keys out of an answer. False if it has none. */
static bool take_keys(struct aws_identity *id, const char *from)
{
    struct credentials k = {0};
    const char *text = id->transfer.text;
    char expires[40];
    struct tm utc = {0};
    if (!json_find(text, "AccessKeyId", k.access_key, sizeof k.access_key) ||
        !json_find(text, "SecretAccessKey", k.secret_key, sizeof k.secret_key) ||
        !json_find(text, "Token", k.session_token, sizeof k.session_token) ||
        !json_find(text, "Expiration", expires, sizeof expires) ||
        !strptime(expires, "%Y-%m-%dT%H:%M:%S", &utc))
        return false;
    time_t now = time(NULL);
    k.expires = timegm(&utc);
    if (k.expires <= now)
        return false;
    snprintf(k.from, sizeof k.from, "%s", from);
    id->keys = k;
    credentials_wipe(&k);
    id->is_remote = true;
    id->look_at = now + (id->keys.expires - now) / 2;
    if (id->look_at < id->keys.expires - EARLY_S)
        id->look_at = id->keys.expires - EARLY_S;
    if (id->look_at > id->keys.expires - SPARE_S)
        id->look_at = id->keys.expires - SPARE_S;
    return true;
}

/* True if the endpoint answered 200; else ends the question. */
static bool has_answer(struct aws_identity *id, const char *what)
{
    struct transfer *t = &id->transfer;
    char why[TIER_SAID_MAX];
    if (t->outcome == TIER_OK && t->status == 200)
        return true;
    if (t->outcome == TIER_OK)
        snprintf(why, sizeof why, "no keys in files or the environment; %s says %d", what,
                 t->status);
    else
        snprintf(why, sizeof why, "no keys in files or the environment, and %s: %.80s", what,
                 t->said);
    ask_end(id, why);
    return false;
}

static void ask(struct aws_identity *id, enum transfer_method method, const char *header,
                void (*done)(struct transfer *transfer))
{
    struct transfer *t = &id->transfer;
    t->method = method;
    t->fd = -1;
    t->body = "";
    t->length = 0;
    t->headers[0] = header;
    t->n_headers = header != NULL;
    t->timeout_ms = ENDPOINT_MS;
    t->avoids_proxy = true;
    t->done = done;
    t->user = id;
    transfer_start(id->pool, t);
}

static void on_container(struct transfer *t)
{
    struct aws_identity *id = t->user;
    if (has_answer(id, "the container's endpoint"))
        ask_end(id, take_keys(id, "the container's endpoint")
                        ? ""
                        : "the container's endpoint gave no keys that are valid now");
}

/* Reads the token that the container's endpoint wants, anew each time. */
static const char *container_token(struct aws_identity *id)
{
    const char *path = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *said = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char token[4096] = "";
    FILE *f = path && *path ? fopen(path, "re") : NULL;
    if (f && !fgets(token, sizeof token, f))
        *token = '\0';
    if (f)
        fclose(f);
    else if (said)
        snprintf(token, sizeof token, "%s", said);
    token[strcspn(token, "\r\n")] = '\0';
    snprintf(id->token_header, sizeof id->token_header, "Authorization: %s", token);
    return *token ? id->token_header : NULL;
}

/* True if a URL may be asked for keys: over TLS, or on this machine and its link. */
static bool is_near(const char *url)
{
    static const char *const near[] = {"https://",
                                       "http://127.0.0.1",
                                       "http://localhost",
                                       "http://[::1]",
                                       "http://169.254.170.2",
                                       "http://169.254.170.23",
                                       "http://[fd00:ec2::23]"};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        size_t len = strlen(near[i]);
        if (strncmp(url, near[i], len) == 0 && (i == 0 || strchr(":/", url[len])))
            return true;
    }
    return false;
}

static void ec2_url(struct aws_identity *id, const char *path)
{
    const char *said = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *base = said && *said ? said : EC2;
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    snprintf(id->transfer.url, sizeof id->transfer.url, "%.*s/latest/%s", (int)len, base, path);
}

static void on_ec2_keys(struct transfer *t)
{
    struct aws_identity *id = t->user;
    if (has_answer(id, "EC2's endpoint"))
        ask_end(id, take_keys(id, "EC2's role") ? ""
                                                : "EC2's endpoint gave no keys that are valid now");
}

static void on_ec2_role(struct transfer *t)
{
    struct aws_identity *id = t->user;
    char path[200];
    if (!has_answer(id, "EC2's endpoint"))
        return;
    snprintf(id->role, sizeof id->role, "%.*s", (int)strcspn(t->text, " \r\n"), t->text);
    if (!*id->role || strspn(id->role, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789+=,.@_-") != strlen(id->role)) {
        ask_end(id, "EC2's endpoint names no role");
        return;
    }
    snprintf(path, sizeof path, "meta-data/iam/security-credentials/%s", id->role);
    ec2_url(id, path);
    ask(id, TRANSFER_GET, id->token_header, on_ec2_keys);
}

static void on_ec2_token(struct transfer *t)
{
    struct aws_identity *id = t->user;
    if (!has_answer(id, "EC2's endpoint"))
        return;
    snprintf(id->token_header, sizeof id->token_header, "X-aws-ec2-metadata-token: %.*s",
             (int)strcspn(t->text, "\r\n"), t->text);
    ec2_url(id, "meta-data/iam/security-credentials/");
    ask(id, TRANSFER_GET, id->token_header, on_ec2_role);
}

/* Asks an endpoint for keys. False if there is none to be asked. */
static bool ask_endpoint(struct aws_identity *id)
{
    const char *whole = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *part = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *off = getenv("AWS_EC2_METADATA_DISABLED");
    struct transfer *t = &id->transfer;
    if (part && *part == '/') {
        snprintf(t->url, sizeof t->url, CONTAINER "%s", part);
        ask(id, TRANSFER_GET, container_token(id), on_container);
    } else if (whole && *whole && is_near(whole)) {
        snprintf(t->url, sizeof t->url, "%s", whole);
        ask(id, TRANSFER_GET, container_token(id), on_container);
    } else if (whole && *whole) {
        snprintf(id->why, sizeof id->why,
                 "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor on this machine");
        return false;
    } else if (off && strcmp(off, "true") == 0) {
        snprintf(id->why, sizeof id->why,
                 "no keys: write access_key and secret_key into the file of tier_credentials");
        return false;
    } else {
        ec2_url(id, "api/token");
        ask(id, TRANSFER_PUT, "X-aws-ec2-metadata-token-ttl-seconds: 21600", on_ec2_token);
    }
    id->asking = true;
    return true;
}

/* ---- the choice ---- */

/* Reads files and variables. False if they have no keys. */
static bool read_local(struct aws_identity *id, time_t now)
{
    struct credentials k;
    char why[TIER_SAID_MAX] = "";
    bool good = credentials_read_file(id->file, &k, why, sizeof why) &&
                credentials_read_aws(id->profile, &k, why, sizeof why);
    bool found = good && *k.access_key;
    if (found) {
        id->keys = k;
        id->is_remote = false;
        id->look_at = now + LOCAL_S;
    }
    credentials_wipe(&k);
    snprintf(id->why, sizeof id->why, "%s", why);
    return found;
}

enum aws_identity_state aws_identity_get(struct aws_identity *id, const struct credentials **out,
                                         char *why, size_t why_size)
{
    time_t now = time(NULL);
    if (!id->asking && now >= id->look_at && !read_local(id, now)) {
        if (!id->is_remote)
            credentials_wipe(&id->keys); /* they are in no file any more */
        if (*id->why || !ask_endpoint(id))
            id->look_at = now + RETRY_S;
    }
    *out = &id->keys;
    bool are_good = !(id->asking && id->is_doubted); /* else better ones may come */
    if (are_good && *id->keys.access_key && (!id->keys.expires || now < id->keys.expires - SPARE_S))
        return AWS_IDENTITY_READY;
    if (id->asking)
        return AWS_IDENTITY_ASKED;
    snprintf(why, why_size, "%s", *id->why ? id->why : "the keys expired, and there are no newer");
    return AWS_IDENTITY_NONE;
}

void aws_identity_doubt(struct aws_identity *id)
{
    time_t now = time(NULL);
    if (now - id->doubted < DOUBT_S)
        return;
    id->doubted = now;
    id->look_at = 0;
    id->is_doubted = true;
}

struct aws_identity *aws_identity_new(struct transfer_pool *pool, const char *file,
                                      const char *profile, void (*changed)(void *user), void *user)
{
    struct aws_identity *id = calloc(1, sizeof *id);
    if (id)
        *id = (struct aws_identity){
            .pool = pool, .file = file, .profile = profile, .changed = changed, .user = user};
    return id;
}

void aws_identity_free(struct aws_identity *id)
{
    if (id)
        explicit_bzero(id, sizeof *id);
    free(id);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigv4.c - signs requests to S3. s3_job.c calls it for each request.
 *
 * Thread: any.
 */
#define OPENSSL_SUPPRESS_DEPRECATED /* the plain functions need no provider */

#include "tier/backends/sigv4.h"

#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"

#define CANONICAL_MAX 8192u

static void hmac(const void *key, size_t key_len, const char *text, uint8_t out[32])
{
    uint8_t mac[32]; /* the key may lie in `out` */
    if (!HMAC(EVP_sha256(), key, (int)key_len, (const uint8_t *)text, strlen(text), mac, NULL))
        abort(); /* no memory: warmd starts the helper again */
    memcpy(out, mac, sizeof mac);
}

struct text {
    char at[CANONICAL_MAX];
    size_t len;
    bool fits;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->at + t->len, sizeof t->at - t->len, format, args);
    va_end(args);
    t->fits = t->fits && n >= 0 && (size_t)n < sizeof t->at - t->len;
    t->len = t->fits ? t->len + (size_t)n : t->len;
}

static void add_names(struct text *t, const struct sigv4_request *r)
{
    for (size_t i = 0; i < r->n_headers; i++)
        add(t, "%s%s", i ? ";" : "", r->headers[i].name);
}

static void sign_text(const struct sigv4_request *r, const char *day, const char *text,
                      char out[65])
{
    char secret[256];
    uint8_t key[32];
    int n = snprintf(secret, sizeof secret, "AWS4%s", r->secret_key);
    hmac(secret, n < (int)sizeof secret ? (size_t)n : sizeof secret - 1, day, key);
    hmac(key, sizeof key, r->region, key);
    hmac(key, sizeof key, r->service, key);
    hmac(key, sizeof key, "aws4_request", key);
    hmac(key, sizeof key, text, key);
    bytes_to_hex(key, sizeof key, out);
    explicit_bzero(secret, sizeof secret);
}

void sigv4_date(time_t at, char out[SIGV4_DATE_SIZE])
{
    struct tm utc;
    gmtime_r(&at, &utc);
    strftime(out, SIGV4_DATE_SIZE, "%Y%m%dT%H%M%SZ", &utc);
}

bool sigv4_sign(const struct sigv4_request *r, char out[SIGV4_TEXT_MAX])
{
    struct text t = {.fits = true};
    char day[9], scope[160], to_sign[512], hash[65];
    uint8_t digest[32];
    add(&t, "%s\n%s\n%s\n", r->method, r->path, r->query);
    for (size_t i = 0; i < r->n_headers; i++)
        add(&t, "%s:%s\n", r->headers[i].name, r->headers[i].value);
    add(&t, "\n");
    add_names(&t, r);
    add(&t, "\n%s", r->payload);
    if (!t.fits)
        return false;
    SHA256((const uint8_t *)t.at, t.len, digest);
    bytes_to_hex(digest, sizeof digest, hash);
    snprintf(day, sizeof day, "%s", r->date);
    int n = snprintf(scope, sizeof scope, "%s/%s/%s/aws4_request", day, r->region, r->service);
    int m = snprintf(to_sign, sizeof to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", r->date, scope, hash);
    if (n >= (int)sizeof scope || m >= (int)sizeof to_sign)
        return false;
    sign_text(r, day, to_sign, hash);
    t.len = 0;
    add(&t, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=", r->access_key, scope);
    add_names(&t, r);
    add(&t, ", Signature=%s", hash);
    if (!t.fits || t.len >= SIGV4_TEXT_MAX)
        return false;
    memcpy(out, t.at, t.len + 1);
    return true;
}

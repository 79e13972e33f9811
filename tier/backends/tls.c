/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.c - keeps one TLS connection in two buffers of OpenSSL's. redis_link.c calls it; libcurl has its own for HTTP.
 *
 * Thread: loop thread.
 */
#include "tier/backends/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tls_settings {
    SSL_CTX *context;
};

struct tls {
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    char why[120];
    bool is_misset;
};

static bool say(char *why, size_t why_size, const char *what, const char *file)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    snprintf(why, why_size, "%s %.150s: %s", what, file, reason ? reason : "it cannot be used");
    ERR_clear_error();
    return false;
}

/* Returns the system's file of authorities. The place that OpenSSL was built with is Debian's, and a portable
 * warm-tier has its own OpenSSL. */
static const char *find_authorities(void)
{
    static const char *const places[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], R_OK) == 0)
            return places[i];
    return NULL;
}

/* Loads all files. */
static bool load(SSL_CTX *c, const char *ca, const char *certificate, const char *key, char *why,
                 size_t why_size)
{
    const char *from_environment = getenv("SSL_CERT_FILE");
    bool is_named = ca || (from_environment && *from_environment);
    const char *authority = ca ? ca : is_named ? from_environment : find_authorities();
    if (authority && *authority) {
        if (SSL_CTX_load_verify_locations(c, authority, NULL) != 1)
            return say(why, why_size, "the certificates in", authority);
    } else if (SSL_CTX_set_default_verify_paths(c) != 1) {
        return say(why, why_size, "the system's certificates", "");
    }
    if (certificate && *certificate && SSL_CTX_use_certificate_chain_file(c, certificate) != 1)
        return say(why, why_size, "the certificate", certificate);
    if (key && *key && SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1)
        return say(why, why_size, "the key", key);
    return true;
}

struct tls_settings *tls_settings_new(const char *ca, const char *certificate, const char *key,
                                      char *why, size_t why_size)
{
    struct tls_settings *s = calloc(1, sizeof *s);
    ERR_clear_error();
    if (!s || !(s->context = SSL_CTX_new(TLS_client_method())))
        abort(); /* warmd starts the helper again */
    SSL_CTX_set_min_proto_version(s->context, TLS1_2_VERSION);
    SSL_CTX_set_verify(s->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(s->context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(s->context, SSL_OP_NO_RENEGOTIATION); /* no write then waits for a read */
    if (load(s->context, ca, certificate, key, why, why_size))
        return s;
    tls_settings_free(s);
    return NULL;
}

void tls_settings_free(struct tls_settings *s)
{
    if (s)
        SSL_CTX_free(s->context);
    free(s);
}

struct tls *tls_new(struct tls_settings *s, const char *host)
{
    struct tls *t = calloc(1, sizeof *t);
    unsigned char address[16];
    if (!t || !(t->ssl = SSL_new(s->context)))
        abort(); /* warmd starts the helper again */
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    SSL_set_bio(t->ssl, t->in, t->out);
    bool is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    bool is_set = is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), host) == 1
                             : SSL_set1_host(t->ssl, host) == 1 &&
                                   SSL_set_tlsext_host_name(t->ssl, host) == 1;
    if (!is_set)
        abort(); /* no memory: never a connection to just any host */
    SSL_set_connect_state(t->ssl);
    SSL_do_handshake(t->ssl); /* writes the first message */
    return t;
}

void tls_free(struct tls *t)
{
    if (t)
        SSL_free(t->ssl);
    free(t);
}

/* Keeps why a call failed. Returns true if it only wants more bytes. */
static bool wants_more(struct tls *t, int result)
{
    int error = SSL_get_error(t->ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return true;
    long verified = SSL_get_verify_result(t->ssl);
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);
    t->is_misset = error == SSL_ERROR_SSL;
    if (verified != X509_V_OK)
        snprintf(t->why, sizeof t->why, "TLS: the server's certificate: %s",
                 X509_verify_cert_error_string(verified));
    else
        snprintf(t->why, sizeof t->why, "TLS: %s", reason ? reason : "the connection ended");
    ERR_clear_error();
    return false;
}

bool tls_receive(struct tls *t, const char *data, size_t len)
{
    BIO_write(t->in, data, (int)len);
    if (SSL_is_init_finished(t->ssl))
        return true;
    int n = SSL_do_handshake(t->ssl);
    return n == 1 || wants_more(t, n);
}

bool tls_write(struct tls *t, const char *data, size_t len)
{
    while (len) {
        int piece = len < (1 << 20) ? (int)len : 1 << 20;
        int n = SSL_write(t->ssl, data, piece);
        if (n <= 0) {
            wants_more(t, n);
            return false;
        }
        data += n;
        len -= (size_t)n;
    }
    return true;
}

long tls_read(struct tls *t, char *out, size_t cap)
{
    int n = SSL_read(t->ssl, out, cap < (1 << 20) ? (int)cap : 1 << 20);
    return n > 0 ? n : wants_more(t, n) ? 0 : -1;
}

size_t tls_take(struct tls *t, char *out, size_t cap)
{
    int n = BIO_read(t->out, out, cap < (1 << 20) ? (int)cap : 1 << 20);
    return n > 0 ? (size_t)n : 0;
}

bool tls_is_ready(const struct tls *t) { return SSL_is_init_finished(t->ssl); }

bool tls_why(const struct tls *t, char *out, size_t cap)
{
    snprintf(out, cap, "%s", *t->why ? t->why : "TLS: the connection ended");
    return t->is_misset;
}

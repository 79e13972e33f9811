/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h - TLS as a filter between a connection's bytes and what is said on it, by OpenSSL.
 *
 *     network ──tls_receive──▶ │ ──tls_read───▶ plain
 *             ◀──tls_take───── │ ◀──tls_write── plain
 *
 * The server's certificate must lead to a known authority and be for the name that was asked for. TLS 1.2 at least.
 *
 * Thread: loop thread. Memory: tls_free and tls_settings_free free.
 */
#ifndef WARM_TIER_BACKENDS_TLS_H
#define WARM_TIER_BACKENDS_TLS_H

#include <stdbool.h>
#include <stddef.h>

struct tls_settings;
struct tls;

/* Reads the files of an authority (NULL: the system's) and of a client's certificate and key (NULL: none). Returns NULL
 * and one line in `why` if one cannot be used. */
struct tls_settings *tls_settings_new(const char *ca, const char *certificate, const char *key,
                                      char *why, size_t why_size);
/* Frees them. NULL is fine. */
void tls_settings_free(struct tls_settings *settings);

/* Begins a connection to a host, a name or an address. */
struct tls *tls_new(struct tls_settings *settings, const char *host);
/* Frees it. NULL is fine. */
void tls_free(struct tls *tls);

/* Takes bytes of the network, and answers the handshake. False if TLS fails. */
bool tls_receive(struct tls *tls, const char *data, size_t len);
/* Writes plain bytes. Before the handshake is done, they wait in the caller. False if TLS fails. */
bool tls_write(struct tls *tls, const char *data, size_t len);
/* Reads plain bytes. Returns their number, 0 if there are none now, or -1 if TLS failed. */
long tls_read(struct tls *tls, char *out, size_t cap);
/* Takes bytes for the network. Returns their number, or 0 if there are none. */
size_t tls_take(struct tls *tls, char *out, size_t cap);
/* True once the handshake is done. */
bool tls_is_ready(const struct tls *tls);
/* Says why TLS failed, in words. True if a person must mend it: a certificate that does not verify, another protocol. */
bool tls_why(const struct tls *tls, char *out, size_t cap);

#endif

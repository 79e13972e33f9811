/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigv4.h - Amazon's Signature Version 4 of one HTTP request, in the header Authorization.
 *
 *     canonical request ─SHA-256─▶ text to sign ─HMAC by the day's key─▶ signature
 *
 * It follows "Create a signed AWS API request" of the AWS Identity and Access Management User Guide.
 *
 * Not libcurl's own: version 7.88 of Debian 12 signs neither x-amz-content-sha256 nor the session's token, and leaves
 * the query unsorted; S3 refuses that.
 *
 * Thread: any. Memory: everything is borrowed for the call.
 */
#ifndef WARM_TIER_BACKENDS_SIGV4_H
#define WARM_TIER_BACKENDS_SIGV4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    SIGV4_DATE_SIZE = 17, /* "20130524T000000Z" and NUL */
    SIGV4_TEXT_MAX = 1024 /* of the header's value */
};

struct sigv4_header {
    const char *name, *value; /* lower case; no space at the ends */
};

struct sigv4_request {
    const char *access_key, *secret_key, *region, *service;
    const char *date; /* as sigv4_date writes it; x-amz-date has it, too */
    const char *method;
    const char *path;                   /* encoded as it is sent, "/" at least */
    const char *query;                  /* encoded and sorted by name, each with a "="; or "" */
    const struct sigv4_header *headers; /* all that are signed, sorted by name */
    size_t n_headers;
    const char *payload; /* SHA-256 of the body in hex */
};

/* Writes a time as x-amz-date takes it. */
void sigv4_date(time_t at, char out[SIGV4_DATE_SIZE]);

/* Writes the value of Authorization. False if the request is longer than any of ours. */
bool sigv4_sign(const struct sigv4_request *request, char out[SIGV4_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_answer.c - classifies errors of S3 by their code, or else by their status. s3_job.c calls it.
 *
 * Of the XML, two elements count, and they hold a word each. So this searches for them, and does not parse.
 *
 * Thread: any.
 */
#include "tier/backends/s3_answer.h"

#include <stdio.h>
#include <string.h>

enum { OLD_KEYS = 1, OTHER_CLOCK = 2 };

static const struct {
    const char *code;
    enum tier_outcome outcome;
    unsigned flags;
    const char *hint; /* after the status and the code, or NULL */
} codes[] = {
    {"NoSuchKey", TIER_ABSENT, 0, NULL},
    {"NoSuchBucket", TIER_MISSET, 0, "the bucket is not there"},
    {"InvalidBucketName", TIER_MISSET, 0, "the bucket's name is wrong"},
    {"PermanentRedirect", TIER_MISSET, 0, "the region or the endpoint is wrong"},
    {"TemporaryRedirect", TIER_MISSET, 0, "the region or the endpoint is wrong"},
    {"AuthorizationHeaderMalformed", TIER_MISSET, 0, "the region is wrong"},
    {"IllegalLocationConstraintException", TIER_MISSET, 0, "the region is wrong"},
    {"NotImplemented", TIER_CANNOT, 0, NULL},
    {"SlowDown", TIER_LATER, 0, NULL},
    {"SlowDownRead", TIER_LATER, 0, NULL},
    {"SlowDownWrite", TIER_LATER, 0, NULL},
    {"ServiceUnavailable", TIER_LATER, 0, NULL},
    {"TooManyRequests", TIER_LATER, 0, NULL},
    {"RequestLimitExceeded", TIER_LATER, 0, NULL},
    {"QuotaExceeded", TIER_LATER, 0, "the bucket is full"},
    {"XMinioStorageFull", TIER_LATER, 0, "the store is full"},
    {"ConditionalRequestConflict", TIER_LATER, 0, NULL},
    {"OperationAborted", TIER_LATER, 0, NULL},
    {"PreconditionFailed", TIER_EXISTS, 0, NULL},
    {"InvalidAccessKeyId", TIER_DENIED, OLD_KEYS, "the server does not know access_key"},
    {"SignatureDoesNotMatch", TIER_DENIED, OLD_KEYS, "secret_key is wrong"},
    {"ExpiredToken", TIER_DENIED, OLD_KEYS, "the credentials have expired"},
    {"InvalidToken", TIER_DENIED, OLD_KEYS, "session_token is wrong"},
    {"TokenRefreshRequired", TIER_DENIED, OLD_KEYS, NULL},
    {"AccessDenied", TIER_DENIED, OLD_KEYS,
     "the policy does not allow it; without s3:ListBucket, an absent object looks so, too"},
    {"AllAccessDisabled", TIER_DENIED, 0, NULL},
    {"RequestTimeTooSkewed", TIER_DENIED, OTHER_CLOCK, "the clocks differ"},
    {"RequestExpired", TIER_DENIED, OTHER_CLOCK, "the clocks differ"},
    {"BadDigest", TIER_FAILED, 0, "the bytes changed on the way"},
    {"XAmzContentSHA256Mismatch", TIER_FAILED, 0, "the bytes changed on the way"},
    {"XAmzContentChecksumMismatch", TIER_FAILED, 0, "the bytes changed on the way"},
    {"InternalError", TIER_FAILED, 0, NULL},
};

/* Copies the text between <NAME> and </NAME> in the first such element. False if there is none, it does not fit, or has
 * another byte than letters, digits and "-._". */
static bool take_element(const char *text, size_t len, const char *name, char *out, size_t cap)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    char tag[40];
    int n = snprintf(tag, sizeof tag, "<%s>", name);
    const char *at = memmem(text, len, tag, (size_t)n), *end = text + len;
    if (!at)
        return false;
    at += n;
    size_t size = 0;
    while (at + size < end && at[size] && strchr(word, at[size]))
        size++;
    snprintf(tag, sizeof tag, "</%s>", name);
    if (size == 0 || size >= cap || (size_t)(end - at) - size < (size_t)n + 1 ||
        memcmp(at + size, tag, (size_t)n + 1) != 0)
        return false;
    memcpy(out, at, size);
    out[size] = '\0';
    return true;
}

/* Returns what a status means that came without a code that is known. */
static enum tier_outcome status_outcome(int status)
{
    switch (status) {
    case 401:
    case 403: return TIER_DENIED;
    case 409:
    case 429:
    case 503:
    case 507: return TIER_LATER;
    case 412: return TIER_EXISTS;
    case 501: return TIER_CANNOT;
    case 404: /* S3 would say what is absent */
    case 408: return TIER_FAILED;
    default: return status >= 300 && status < 500 ? TIER_MISSET : TIER_FAILED;
    }
}

/* Writes the other region or address that the answer names. */
static void say_region(const char *text, size_t len, const char *region, const char *location,
                       struct s3_answer *out)
{
    char named[64];
    if (*region)
        snprintf(named, sizeof named, "%s", region);
    else if (!take_element(text, len, "Region", named, sizeof named))
        *named = '\0';
    size_t at = strlen(out->said);
    if (*named)
        snprintf(out->said + at, sizeof out->said - at, ": write region=%s", named);
    else if (*location)
        snprintf(out->said + at, sizeof out->said - at, ", it leads to %.60s", location);
}

void s3_answer_read(int status, const char *text, size_t len, const char *region,
                    const char *location, struct s3_answer *out)
{
    *out = (struct s3_answer){.outcome = status_outcome(status)};
    const char *hint = NULL;
    if (!take_element(text, len, "Code", out->code, sizeof out->code))
        *out->code = '\0';
    for (size_t i = 0; status >= 300 && i < sizeof codes / sizeof *codes; i++)
        if (strcmp(codes[i].code, out->code) == 0) {
            out->outcome = codes[i].outcome;
            out->old_keys = codes[i].flags & OLD_KEYS;
            out->other_clock = codes[i].flags & OTHER_CLOCK;
            hint = codes[i].hint;
        }
    snprintf(out->said, sizeof out->said, "%d%s%s%s%s", status, *out->code ? " " : "",
             *out->code ? out->code : " without a code of S3's", hint ? ": " : "",
             hint ? hint : "");
    if (out->outcome == TIER_MISSET && strcmp(out->code, "NoSuchBucket") != 0)
        say_region(text, len, region, location, out);
}

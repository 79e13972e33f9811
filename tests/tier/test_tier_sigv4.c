/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_sigv4.c - our signer against the signatures that AWS publishes: "Authenticating Requests: Using the
 * Authorization Header" of the Amazon S3 API Reference, and aws-sig-v4-test-suite.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tier/backends/sigv4.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct sigv4_request s3(const char *method, const char *path, const char *query,
                               const struct sigv4_header *headers, size_t n, const char *payload)
{
    return (struct sigv4_request){.access_key = "AKIAIOSFODNN7EXAMPLE",
                                  .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                  .region = "us-east-1",
                                  .service = "s3",
                                  .date = "20130524T000000Z",
                                  .method = method,
                                  .path = path,
                                  .query = query,
                                  .headers = headers,
                                  .n_headers = n,
                                  .payload = payload};
}

static void expect_signature(struct sigv4_request r, const char *signature)
{
    char out[SIGV4_TEXT_MAX];
    cr_assert(sigv4_sign(&r, out));
    const char *at = strstr(out, ", Signature=");
    cr_assert(at);
    cr_assert_str_eq(at + strlen(", Signature="), signature, "%s", out);
}

Test(tier_sigv4, a_get_with_a_range)
{
    static const struct sigv4_header h[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                            {"range", "bytes=0-9"},
                                            {"x-amz-content-sha256", EMPTY},
                                            {"x-amz-date", "20130524T000000Z"}};
    expect_signature(s3("GET", "/test.txt", "", h, 4, EMPTY),
                     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    char out[SIGV4_TEXT_MAX];
    struct sigv4_request r = s3("GET", "/test.txt", "", h, 4, EMPTY);
    cr_assert(sigv4_sign(&r, out));
    cr_assert(strstr(out, "AWS4-HMAC-SHA256 "
                          "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                          "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=") ==
              out);
}

Test(tier_sigv4, a_put)
{
    static const char payload[] =
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    static const struct sigv4_header h[] = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                            {"host", "examplebucket.s3.amazonaws.com"},
                                            {"x-amz-content-sha256", payload},
                                            {"x-amz-date", "20130524T000000Z"},
                                            {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
    expect_signature(s3("PUT", "/test%24file.text", "", h, 5, payload),
                     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

Test(tier_sigv4, queries)
{
    static const struct sigv4_header h[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                            {"x-amz-content-sha256", EMPTY},
                                            {"x-amz-date", "20130524T000000Z"}};
    expect_signature(s3("GET", "/", "lifecycle=", h, 3, EMPTY),
                     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    expect_signature(s3("GET", "/", "max-keys=2&prefix=J", h, 3, EMPTY),
                     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

/* "get-vanilla" and "post-sts-header-before" of aws-sig-v4-test-suite. */
Test(tier_sigv4, a_token_of_a_session_is_signed)
{
    static const char token[] =
        "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxf"
        "pSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPk"
        "yQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBA"
        "z+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
    static const struct sigv4_header plain[] = {{"host", "example.amazonaws.com"},
                                                {"x-amz-date", "20150830T123600Z"}};
    static const struct sigv4_header with[] = {{"host", "example.amazonaws.com"},
                                               {"x-amz-date", "20150830T123600Z"},
                                               {"x-amz-security-token", token}};
    struct sigv4_request r = {.access_key = "AKIDEXAMPLE",
                              .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                              .region = "us-east-1",
                              .service = "service",
                              .date = "20150830T123600Z",
                              .method = "GET",
                              .path = "/",
                              .query = "",
                              .headers = plain,
                              .n_headers = 2,
                              .payload = EMPTY};
    expect_signature(r, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
    r.method = "POST";
    r.headers = with;
    r.n_headers = 3;
    expect_signature(r, "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}

Test(tier_sigv4, dates_are_in_utc)
{
    char date[SIGV4_DATE_SIZE];
    sigv4_date(1369353600, date);
    cr_assert_str_eq(date, "20130524T000000Z");
}

Test(tier_sigv4, what_does_not_fit_is_not_signed)
{
    static char long_value[9000];
    memset(long_value, 'x', sizeof long_value - 1);
    struct sigv4_header h[] = {{"host", long_value}};
    char out[SIGV4_TEXT_MAX];
    struct sigv4_request r = s3("GET", "/", "", h, 1, EMPTY);
    cr_assert_not(sigv4_sign(&r, out));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_url.c - URLs of tiers: their parts, and one line without the secret for each bad one. */
#include <criterion/criterion.h>
#include <string.h>

#include "tier/url.h"

static bool parse(const char *text, struct tier_url *url)
{
    char why[200] = "";
    return tier_url_parse(text, url, why, sizeof why);
}

Test(tier_url, its_parts)
{
    struct tier_url u;
    cr_assert(parse(
        "S3://ml-cache/warm/x/?region=eu-central-1&endpoint=https://s3.example.com:9000", &u));
    cr_assert_str_eq(u.scheme, "s3");
    cr_assert_str_eq(u.host, "ml-cache");
    cr_assert_eq(u.port, 0);
    cr_assert_str_eq(u.path, "warm/x");
    cr_assert_str_eq(tier_url_option(&u, "region"), "eu-central-1");
    cr_assert_str_eq(tier_url_option(&u, "endpoint"), "https://s3.example.com:9000");
    cr_assert_null(tier_url_option(&u, "style"));

    cr_assert(parse("redis://warm@[::1]:7000", &u));
    cr_assert_str_eq(u.user, "warm");
    cr_assert_str_eq(u.host, "::1");
    cr_assert_eq(u.port, 7000);
    cr_assert_str_eq(u.path, "");
}

Test(tier_url, a_secret_is_refused_and_not_repeated)
{
    static const char *const bad[] = {
        "redis://warm:hunter2@r1/0",
        "redis://:hunter2@r1",
        "redis://warm:hun/hunter2@r1",
        "s3://b/p?secret_key=hunter2",
        "s3://b/p?AWS_SESSION_TOKEN=hunter2",
        "redis://r1?Password=hunter2",
        "http://h/p?endpoint=https://u:hunter2@h",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tier_url u;
        char why[200];
        cr_assert_not(tier_url_parse(bad[i], &u, why, sizeof why), "%s", bad[i]);
        cr_assert(strstr(why, "tier_credentials"), "%s: %s", bad[i], why);
        cr_assert_null(strstr(why, "hunter2"), "%s", why);
    }
}

Test(tier_url, malformed_ones_are_refused)
{
    static const char *const bad[] = {
        "",
        "redis",
        "redis:/h",
        "://h",
        "redis://",
        "redis://h:0",
        "redis://h:",
        "redis://h:7a",
        "redis://h:65536",
        "redis://h:123456",
        "redis://h,",
        "redis://,h",
        "redis://[::1",
        "redis://[::1]x",
        "redis://@h",
        "redis://h h",
        "s3://b/../c",
        "s3://b/a//c",
        "s3://b/./c",
        "s3://b/%2e",
        "s3://b/p#x",
        "s3://b?region",
        "s3://b?=x",
        "s3://b?region=",
        "s3://b?a=1&a=2",
        "redis://a,b",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tier_url u;
        char why[200] = "";
        cr_assert_not(tier_url_parse(bad[i], &u, why, sizeof why), "%s", bad[i]);
        cr_assert(*why, "%s: it says why", bad[i]);
    }
}

Test(tier_url, unknown_options_are_named)
{
    static const char *const known[] = {"region", "style", NULL};
    struct tier_url u;
    char why[200] = "";
    cr_assert(parse("s3://b?region=x&style=path", &u));
    cr_assert(tier_url_check_options(&u, known, why, sizeof why));
    cr_assert(parse("s3://b?regoin=x", &u));
    cr_assert_not(tier_url_check_options(&u, known, why, sizeof why));
    cr_assert_str_eq(why, "s3:// has no option regoin");
}

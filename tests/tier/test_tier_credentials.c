/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_credentials.c - where the keys of S3 come from: a file, the environment, a profile, a container, EC2. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/backend.h"
#include "tests/support/engine.h"
#include "tests/support/support.h"
#include "tier/backends/credentials.h"

static struct engine s3;
static struct backend_kit kit;
static char *dir, url[200];

static void set_up(void)
{
    static const char *const argv[] = {"python3", "tests/tier/fake_s3.py", NULL};
    static const char *const variables[] = {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",     "AWS_PROFILE",
        "AWS_REGION",        "AWS_DEFAULT_REGION",    "CREDENTIALS_DIRECTORY", "http_proxy"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    dir = temp_dir_new();
    setenv("HOME", dir, 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    engine_start(&s3, argv);
    snprintf(url, sizeof url, "s3://warm?endpoint=http://127.0.0.1:%d", s3.port);
}

static void tear_down(void)
{
    engine_stop(&s3);
    temp_dir_free(dir);
}

TestSuite(tier_credentials, .init = set_up, .fini = tear_down);

static char *write_file(const char *name, const char *text, mode_t mode)
{
    char *path = path_join(dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    chmod(path, mode);
    return path;
}

static struct tier_request get(void)
{
    struct tier_request r = {.operation = TIER_GET, .fd = -1, .limit = 100, .name = "ab/e-1"};
    backend_run(&kit, &r);
    return r;
}

static void expect(enum tier_outcome outcome, const char *said)
{
    struct tier_request r = get();
    cr_assert_eq(r.outcome, outcome, "%d: %s", r.outcome, r.said);
    cr_assert(strstr(r.said, said), "%s", r.said);
}

Test(tier_credentials, of_another_user_are_not_read)
{
    NEEDS_TWO_USERS();
    char why[300];
    struct credentials c;
    char *path = write_file("keys", "access_key = a\nsecret_key = b\n", 0600);
    cr_assert(credentials_read_file(path, &c, why, sizeof why), "%s", why);
    cr_assert_eq(chown(path, 65534, 65534), 0);
    cr_assert_not(credentials_read_file(path, &c, why, sizeof why));
    cr_assert(strstr(why, "belongs to another user (uid 65534)"), "%s", why);
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    cr_assert_not(credentials_read_aws(NULL, &c, why, sizeof why));
    cr_assert(strstr(why, "belongs to another user (uid 65534)"), "%s", why);
    free(path);
}

Test(tier_credentials, of_nowhere)
{
    backend_open(&kit, url, NULL);
    expect(TIER_DENIED, "no keys: write access_key");
    backend_close(&kit);
}

Test(tier_credentials, of_a_profile)
{
    char *folder = path_join(dir, ".aws");
    mkdir(folder, 0700);
    free(folder);
    free(write_file(".aws/credentials",
                    "[default]\naws_access_key_id = NONE\naws_secret_access_key = NONE\n"
                    "[ci]\n# of the farm\naws_access_key_id=AKID\naws_secret_access_key = SECRET\n"
                    "[half]\naws_access_key_id = AKID\n",
                    0600));
    free(write_file(".aws/config", "[profile ci]\nregion = eu-north-9\n", 0600));
    backend_open(&kit, url, NULL);
    expect(TIER_DENIED, "InvalidAccessKeyId");
    backend_close(&kit);
    setenv("AWS_PROFILE", "ci", 1);
    engine_tell(&s3, "region=eu-north-9", NULL, 0);
    backend_open(&kit, url, NULL);
    expect(TIER_ABSENT, "");
    backend_close(&kit);
    unsetenv("AWS_PROFILE");
    strcat(url, "&profile=ci");
    backend_open(&kit, url, NULL);
    expect(TIER_ABSENT, "");
    backend_close(&kit);
    setenv("AWS_PROFILE", "half", 1);
    url[strlen(url) - strlen("&profile=ci")] = '\0';
    backend_open(&kit, url, NULL);
    expect(TIER_DENIED, "half of its keys");
    backend_close(&kit);
    setenv("AWS_PROFILE", "none", 1);
    backend_open(&kit, url, NULL);
    expect(TIER_DENIED, "the profile none is not in");
    backend_close(&kit);
}

Test(tier_credentials, of_systemd)
{
    char *path = write_file("keys", "access_key = AKID\nsecret_key = SECRET\n", 0440);
    backend_open_with(&kit, &(struct tier_settings){.url = url});
    backend_close(&kit);
    char why[200];
    struct credentials c;
    cr_assert_not(credentials_read_file("keys", &c, why, sizeof why));
    cr_assert(strstr(why, "LoadCredential=keys:PATH"), "%s", why);
    setenv("CREDENTIALS_DIRECTORY", dir, 1);
    backend_open(&kit, url, "keys");
    expect(TIER_ABSENT, "");
    backend_close(&kit);
    chmod(path, 0444);
    cr_assert_not(credentials_read_file("keys", &c, why, sizeof why));
    cr_assert(strstr(why, "others can read"), "%s", why);
    free(path);
}

Test(tier_credentials, of_a_container)
{
    char endpoint[100], *token = write_file("token", "container-token\n", 0600);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d/container", s3.port);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", endpoint, 1);
    engine_tell(&s3, "issue=CID:CSECRET:CTOKEN:3600", NULL, 0);
    engine_tell(&s3, "keys=CID:CSECRET:CTOKEN", NULL, 0);
    backend_open(&kit, url, NULL);
    expect(TIER_DENIED, "the container's endpoint says 401");
    backend_close(&kit);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token, 1);
    backend_open(&kit, url, NULL);
    expect(TIER_ABSENT, "");
    engine_tell(&s3, "x=", NULL, 0);
    expect(TIER_ABSENT, "");
    char count[200];
    engine_tell(&s3, "x=", count, sizeof count);
    cr_assert_str_eq(count, "GET 1\n", "the keys are kept");
    /* Other keys, long before these expire: the refusal leads to them, in the same request. */
    engine_tell(&s3, "issue=DID:DSECRET:DTOKEN:3600", NULL, 0);
    engine_tell(&s3, "keys=DID:DSECRET:DTOKEN", NULL, 0);
    expect(TIER_ABSENT, "");
    backend_close(&kit);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/x", 1);
    backend_open(&kit, url, NULL);
    expect(TIER_DENIED, "neither https:// nor on this machine");
    backend_close(&kit);
    free(token);
}

Test(tier_credentials, of_ec2_read_again_before_they_expire)
{
    char endpoint[100], count[400];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d/", s3.port);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint, 1);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    engine_tell(&s3, "issue=EID:ESECRET:ETOKEN:12", NULL, 0);
    engine_tell(&s3, "keys=EID:ESECRET:ETOKEN", NULL, 0);
    backend_open(&kit, url, NULL);
    expect(TIER_ABSENT, "");
    engine_tell(&s3, "x=", count, sizeof count);
    cr_assert(strstr(count, "/latest/api/token 1"), "%s", count);
    for (unsigned n = 0; n < 2;) { /* twice more, and no request notices */
        expect(TIER_ABSENT, "");
        engine_tell(&s3, "x=", count, sizeof count);
        n += strstr(count, "role-1 1") != NULL;
        usleep(20000);
    }
    backend_close(&kit);
}

Test(tier_credentials, malformed_files_are_named)
{
    static const struct {
        const char *text, *why;
    } bad[] = {{"access_key AKID\n", "line 1 is not"},
               {"# x\n\npassword = a\nsecret = b\n", "line 4 is unknown"},
               {"access_key = AKID\n", "one of access_key and secret_key alone"}};
    struct credentials c;
    char why[200];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *path = write_file("bad", bad[i].text, 0600);
        cr_assert_not(credentials_read_file(path, &c, why, sizeof why));
        cr_assert(strstr(why, bad[i].why), "%s", why);
        free(path);
    }
    char *path =
        write_file("good", "user = ada\n  password =  two words \nproxy=http://p:1\n", 0600);
    cr_assert(credentials_read_file(path, &c, why, sizeof why));
    cr_assert_str_eq(c.password, "two words");
    cr_assert_str_eq(c.proxy, "http://p:1");
    free(path);
    cr_assert_not(credentials_read_file("/nonexistent/x", &c, why, sizeof why));
    cr_assert(strstr(why, "/nonexistent/x"), "%s", why);
}

/* A proxy gets the requests, with its own name and password. */
Test(tier_credentials, of_a_proxy)
{
    char text[200];
    snprintf(text, sizeof text,
             "access_key = AKID\nsecret_key = SECRET\nproxy = http://127.0.0.1:%d\n", s3.port);
    char *path = write_file("keys", text, 0600);
    backend_open(&kit, "s3://warm?endpoint=http://elsewhere.invalid", path);
    expect(TIER_ABSENT, "404 NoSuchKey"); /* the stand-in, as a proxy, saw the whole URL */
    backend_close(&kit);
    free(path);
}

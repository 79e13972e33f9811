/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_web.c - HTTP as a backend: nginx with its DAV module, over TLS, with passwords and client certificates. */
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

static struct engine nginx;
static struct backend_kit kit;
static char *dir, *credentials, *ca;

static void set_up(void)
{
    static const char conf[] =
        "daemon off; master_process off; pid %s/pid; error_log %s/error;\n"
        "events {}\n"
        "http { access_log off; default_type application/octet-stream;\n"
        "client_body_temp_path %s/body; proxy_temp_path %s/p; "
        "fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n"
        "server { listen 127.0.0.1:%d ssl; ssl_certificate %s/server.crt; "
        "ssl_certificate_key %s/server.key; ssl_client_certificate %s/ca.crt; "
        "ssl_verify_client optional; root %s/data; client_max_body_size 4g;\n"
        "dav_methods PUT DELETE MKCOL;\n"
        "location / { create_full_put_path on; auth_basic x; "
        "auth_basic_user_file %s/users; }\n"
        "location /shallow/ { }\n"
        "location /mutual/ { create_full_put_path on; "
        "if ($ssl_client_verify != SUCCESS) { return 403; } }\n"
        "location /moved/ { return 301 https://other.example/; }\n"
        "location /busy/ { add_header Retry-After 3 always; return 503; }\n"
        "location /page/ { default_type text/html; return 200 '<html>'; }\n"
        "location /readonly/ { dav_methods off; } } }\n";
    char *out, *path;
    dir = temp_dir_new();
    credentials = path_join(dir, "credentials");
    ca = path_join(dir, "ca.crt");
    path = path_join(dir, "nginx.conf");
    engine_make_certificates(dir);
    nginx.port = engine_free_port();
    cr_assert_eq(run_command(&out,
                             "cd %s && mkdir data data/shallow data/mutual data/readonly && "
                             "echo \"ada:$(openssl passwd -apr1 hunter2)\" >users && "
                             "chmod -R a+rwX . && chmod 755 . ",
                             dir),
                 0, "%s", out);
    free(out);
    FILE *f = fopen(path, "w");
    cr_assert(f);
    fprintf(f, geteuid() ? "" : "user root;\n");
    fprintf(f, conf, dir, dir, dir, dir, dir, dir, dir, nginx.port, dir, dir, dir, dir, dir);
    fclose(f);
    const char *const argv[] = {"/usr/sbin/nginx", "-e", "/dev/null", "-c", path, NULL};
    engine_start_on_port(&nginx, argv);
    free(path);
}

static void tear_down(void)
{
    engine_stop(&nginx);
    free(credentials);
    free(ca);
    temp_dir_free(dir);
}

TestSuite(tier_web, .init = set_up, .fini = tear_down);

static void write_credentials(const char *text)
{
    int fd = open(credentials, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void open_at(const char *path, const char *text, const char *authority)
{
    char url[200];
    write_credentials(text);
    snprintf(url, sizeof url, "https://127.0.0.1:%d%s", nginx.port, path);
    backend_open_with(
        &kit, &(struct tier_settings){.url = url, .credentials = credentials, .ca = authority});
}

static struct tier_request request(enum tier_operation op, const char *name)
{
    struct tier_request r = {.operation = op, .fd = -1, .limit = 64 << 20};
    snprintf(r.name, sizeof r.name, "%s", name);
    return r;
}

static void expect(enum tier_outcome outcome, struct tier_request *r, const char *said)
{
    cr_assert_eq(backend_run(&kit, r), outcome, "%d: %s", r->outcome, r->said);
    cr_assert(strstr(r->said, said), "%s", r->said);
}

static void expect_round_trip(const char *value)
{
    struct tier_request get = request(TIER_GET, "ab/e-1"), put = request(TIER_PUT, "ab/e-1");
    char out[64] = "";
    expect(TIER_ABSENT, &get, "404");
    cr_assert_eq(backend_send(&kit, put, value), TIER_OK);
    expect(TIER_OK, &get, "");
    cr_assert_eq(get.result_length, strlen(value));
    cr_assert_eq(pread(get.result_fd, out, 63, 0), (ssize_t)strlen(value));
    cr_assert_str_eq(out, value);
    close(get.result_fd);
    get.limit = 3;
    expect(TIER_TOO_LARGE, &get, "");
}

Test(tier_web, an_object_comes_back_over_tls_with_a_password)
{
    open_at("/pre/fix", "user = ada\npassword = hunter2\n", ca);
    expect_round_trip("value");
    struct tier_request probe = request(TIER_PROBE, "probe-x"), ask = request(TIER_ASK, "ab/e-2");
    expect(TIER_OK, &probe, "");
    struct tier_capabilities c = probe.capabilities;
    cr_assert(c.reads && c.writes && !c.conditional && !c.leases, "%s", c.said);
    expect(TIER_CANNOT, &ask, "no leases");
    struct tier_request gone = request(TIER_GET, "probe-x");
    expect(TIER_ABSENT, &gone, "");
    backend_close(&kit);
}

Test(tier_web, a_wrong_password_until_the_file_has_the_right_one)
{
    struct tier_request get = request(TIER_GET, "ab/e-1"), probe = request(TIER_PROBE, "probe-x");
    open_at("", "user = ada\npassword = wrong\n", ca);
    expect(TIER_DENIED, &get, "401");
    expect(TIER_DENIED, &probe, "401");
    write_credentials("user = ada\npassword = hunter2\n");
    for (int i = 0; i < 1000 && backend_run(&kit, &get) == TIER_DENIED; i++)
        usleep(10000);
    cr_assert_eq(get.outcome, TIER_ABSENT, "%s", get.said);
    backend_close(&kit);
}

Test(tier_web, a_server_whose_certificate_does_not_verify_is_misset)
{
    struct tier_request get = request(TIER_GET, "ab/e-1");
    char *other = path_join(dir, "other.crt");
    open_at("", "user = ada\npassword = hunter2\n", other);
    expect(TIER_MISSET, &get, "certificate");
    cr_assert_eq(backend_send(&kit, request(TIER_PUT, "ab/e-1"), "x"), TIER_MISSET);
    backend_close(&kit);
    open_at("", "user = ada\npassword = hunter2\n", NULL); /* the system's know it less still */
    expect(TIER_MISSET, &get, "certificate");
    backend_close(&kit);
    free(other);
}

Test(tier_web, a_client_certificate)
{
    char text[600];
    struct tier_request get = request(TIER_GET, "ab/e-1");
    open_at("/mutual", "", ca);
    expect(TIER_DENIED, &get, "403");
    backend_close(&kit);
    snprintf(text, sizeof text, "certificate = %s/client.crt\nkey = %s/client.key\n", dir, dir);
    open_at("/mutual", text, ca);
    expect_round_trip("value");
    backend_close(&kit);
}

Test(tier_web, folders_are_made_where_the_server_does_not)
{
    open_at("/shallow", "", ca);
    struct tier_request probe = request(TIER_PROBE, "probe-x");
    expect(TIER_OK, &probe, "");
    cr_assert(probe.capabilities.writes, "%s", probe.capabilities.said);
    expect_round_trip("value");
    backend_close(&kit);
}

Test(tier_web, other_answers)
{
    static const struct {
        const char *path, *said;
        enum tier_outcome get, put;
    } rows[] = {{"/moved", "other.example", TIER_MISSET, TIER_MISSET},
                {"/busy", "503", TIER_LATER, TIER_LATER},
                {"/page", "200, but a page", TIER_FAILED, TIER_FAILED},
                {"/readonly", "404", TIER_ABSENT, TIER_CANNOT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tier_request get = request(TIER_GET, "ab/e-1");
        open_at(rows[i].path, "", ca);
        expect(rows[i].get, &get, rows[i].said);
        cr_assert(get.outcome != TIER_LATER || get.wait_ms == 3000);
        cr_assert_eq(backend_send(&kit, request(TIER_PUT, "ab/e-1"), "x"), rows[i].put);
        backend_close(&kit);
    }
}

Test(tier_web, a_bearers_token)
{
    static const char *const argv[] = {"python3", "tests/tier/fake_s3.py", NULL};
    struct tier_request get = request(TIER_GET, "ab/e-1");
    struct engine other;
    char url[100];
    engine_start(&other, argv);
    engine_tell(&other, "bearer=s3cret", NULL, 0);
    snprintf(url, sizeof url, "http://localhost:%d/x", other.port);
    write_credentials("token = wrong\n");
    backend_open(&kit, url, credentials);
    expect(TIER_DENIED, &get, "401");
    backend_close(&kit);
    write_credentials("token = s3cret\n");
    backend_open(&kit, url, credentials);
    expect_round_trip("value");
    backend_close(&kit);
    engine_stop(&other);
}

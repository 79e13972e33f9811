/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metrics.c - GET /metrics on the daemon's socket: curl's request, whatever else may come, and the
 * official parser of OpenMetrics (Debian's python3-prometheus-client).
 */
#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/engine.h"
#include "tests/support/warmd.h"

#define REQUEST "GET /metrics HTTP/1.1\r\nHost: warm\r\n\r\n"

/* Returns all that the daemon sends until it ends the connection; free() it. */
static char *answer_to(const struct warmd *k, const char *request, size_t len)
{
    int fd = warmd_connect(k);
    warmd_send(fd, request, len);
    shutdown(fd, SHUT_WR);
    size_t at = 0, cap = 1 << 20;
    char *out = calloc(1, cap);
    for (ssize_t n; at + 1 < cap && (n = recv(fd, out + at, cap - 1 - at, 0)) > 0;)
        at += (size_t)n;
    close(fd);
    return out;
}

static void expect_answer(const struct warmd *k, const char *request, const char *status,
                          const char *text)
{
    char *out = answer_to(k, request, strlen(request));
    cr_expect_eq(strncmp(out, status, strlen(status)), 0, "%s: %s", request, out);
    cr_expect_not_null(strstr(out, text), "%s: no %s in %s", request, text, out);
    free(out);
}

static void put_and_get(const struct warmd *k)
{
    int fd = warmd_native(k);
    warmd_put(fd, 1, "name", "value", 0);
    warmd_expect(fd, 1, WIRE_OK);
    warmd_get(fd, 2, "name", false, 0);
    warmd_expect_hit(fd, 2, "value");
    warmd_get(fd, 3, "nothing", false, 0);
    warmd_expect(fd, 3, WIRE_MISS);
    close(fd);
}

Test(metrics, count_what_happened)
{
    struct warmd k = warmd_up(NULL);
    put_and_get(&k);
    expect_answer(&k, REQUEST, "HTTP/1.1 200 OK\r\n", "application/openmetrics-text");
    expect_answer(&k, REQUEST, "HTTP/1.1 200 OK\r\n", "\nwarm_hits_total{kind=\"other\"} 1\n");
    expect_answer(&k, REQUEST, "HTTP/1.1 200 OK\r\n", "\nwarm_misses_total{kind=\"other\"} 1\n");
    expect_answer(&k, REQUEST, "HTTP/1.1 200 OK\r\n",
                  "\nwarm_hit_seconds_count{kind=\"other\"} 1\n");
    expect_answer(&k, REQUEST, "HTTP/1.1 200 OK\r\n", "\nwarm_store_entries{kind=\"other\"} 1\n");
    expect_answer(&k, REQUEST, "HTTP/1.1 200 OK\r\n", "\n# EOF\n");
    warmd_down(&k);
}

/* Returns the number behind "NAME " at the beginning of a line. */
static double number_of(const char *text, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(text, line);
    cr_assert_not_null(at, "no %s in %s", name, text);
    return strtod(at + strlen(line), NULL);
}

Test(metrics, times_and_evictions_are_told_by_kind_and_reason)
{
    struct warmd k = warmd_up(NULL);
    char *warm = bin_path("warm"), *out;
    int rc = run_command(&out,
                         "cd %s && export WARM_SOCKET=%s && echo value >v && "
                         "%s put one v --kind triton --cost-ms 100 2>&1 && %s put two v 2>&1 && "
                         "%s clear --yes 2>&1",
                         k.dir, k.socket, warm, warm, warm);
    cr_assert_eq(rc, 0, "%s", out);
    free(out);
    free(warm);
    out = answer_to(&k, REQUEST, strlen(REQUEST));
    cr_expect_eq(number_of(out, "warm_put_seconds_count{kind=\"triton\"}"), 1);
    cr_expect_eq(number_of(out, "warm_put_seconds_bucket{kind=\"other\",le=\"+Inf\"}"), 1);
    cr_expect_eq(number_of(out, "warm_compile_seconds_sum{kind=\"triton\"}"), 0.1);
    cr_expect_eq(number_of(out, "warm_compile_seconds_bucket{kind=\"triton\",le=\"0.067108864\"}"),
                 0);
    cr_expect_eq(number_of(out, "warm_compile_seconds_bucket{kind=\"triton\",le=\"0.268435456\"}"),
                 1);
    cr_expect_null(strstr(out, "warm_compile_seconds_count{kind=\"other\"}"), "it told no time");
    cr_expect_eq(number_of(out, "warm_evictions_total{reason=\"asked\"}"), 2);
    cr_expect_eq(number_of(out, "warm_evicted_bytes_total{reason=\"asked\"}"), 12);
    cr_expect_eq(number_of(out, "warm_evicted_bytes_total{reason=\"quota\"}"), 0);
    free(out);
    warmd_down(&k);
}

Test(metrics, are_read_by_the_official_parser)
{
    static const char script[] =
        "import sys\n"
        "from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n"
        "text = sys.stdin.read()\n"
        "families = {f.name: f for f in parse(text[text.index('# TYPE'):])}\n"
        "count = [s.value for s in families['warm_hit_seconds'].samples if "
        "s.name.endswith('count')]\n"
        "print(len(families) > 25, families['warm_hits'].type, count, "
        "families['warm_put_seconds'].type)\n";
    struct warmd k = warmd_up(NULL);
    put_and_get(&k);
    char *text = answer_to(&k, REQUEST, strlen(REQUEST)), *out;
    char *body = path_join(k.dir, "metrics"), *program = path_join(k.dir, "parse.py");
    file_write(body, text, strlen(text));
    file_write(program, script, strlen(script));
    cr_expect_eq(run_command(&out, "/usr/bin/python3 %s <%s 2>&1", program, body), 0, "%s", out);
    cr_expect_str_eq(out, "True counter [1] histogram\n");
    free(out);
    free(body);
    free(program);
    free(text);
    warmd_down(&k);
}

Test(metrics, nothing_else_is_served_over_http)
{
    struct warmd k = warmd_up(NULL);
    char *head = answer_to(&k, "HEAD /metrics HTTP/1.1\r\n\r\n", 26);
    cr_expect_eq(strncmp(head, "HTTP/1.1 200 OK\r\n", 17), 0, "%s", head);
    cr_expect_str_eq(strstr(head, "\r\n\r\n"), "\r\n\r\n", "HEAD has no body: %s", head);
    free(head);
    expect_answer(&k, "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "/metrics");
    expect_answer(&k, "GET /metricsx HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", "/metrics");
    expect_answer(&k, "POST /metrics HTTP/1.1\r\n\r\n", "-ERR unknown command", "");
    warmd_down(&k);
}

Test(metrics, a_long_request_is_refused)
{
    struct warmd k = warmd_up(NULL);
    char *request = malloc(10000);
    memset(request, 'x', 10000);
    memcpy(request, "GET /", 5);
    char *out = answer_to(&k, request, 10000);
    cr_expect_eq(strncmp(out, "HTTP/1.1 431 ", 13), 0, "%s", out);
    free(out);
    free(request);
    warmd_down(&k);
}

/* The daemon tells the protocols apart by the first bytes, which may come one by one. */
Test(metrics, a_request_in_pieces_is_one)
{
    struct warmd k = warmd_up(NULL);
    int fd = warmd_connect(&k), redis = warmd_connect(&k);
    for (const char *c = REQUEST; *c; c++)
        warmd_send(fd, c, 1);
    char status[16];
    cr_assert(warmd_recv(fd, status, 15));
    cr_expect_eq(memcmp(status, "HTTP/1.1 200 OK", 15), 0);
    for (const char *c = "GET name\r\n"; *c; c++)
        warmd_send(redis, c, 1);
    char nothing[5];
    cr_assert(warmd_recv(redis, nothing, 5));
    cr_expect_eq(memcmp(nothing, "$-1\r\n", 5), 0);
    close(fd);
    close(redis);
    warmd_down(&k);
}

Test(metrics, a_loopback_port_answers_and_tells_of_no_user)
{
    struct warmd k = warmd_new();
    char port[32], *out, *more;
    int fds[40], number = engine_free_port();
    snprintf(port, sizeof port, "127.0.0.1:%d", number);
    char *options[] = {"--metrics-listen", port, NULL};
    warmd_start(&k, options);
    put_and_get(&k);
    cr_assert_eq(run_command(&out, "curl -fsS http://%s/metrics", port), 0, "%s", out);
    cr_expect_not_null(strstr(out, "\nwarm_hits_total{kind=\"other\"} 1\n"), "%s", out);
    cr_expect_null(strstr(out, "uid="), "%s", out);
    cr_expect_neq(run_command(&more, "curl -fsS http://%s/ 2>&1", port), 0);
    cr_expect_not_null(strstr(more, "404"), "%s", more);
    free(more);
    free(out);
    /* Those who say nothing make room. */
    for (size_t i = 0; i < 40; i++) {
        fds[i] = engine_connect(number);
        cr_assert_geq(fds[i], 0);
    }
    cr_assert_eq(run_command(&out, "curl -fsS http://%s/metrics", port), 0);
    cr_expect_not_null(strstr(out, "# EOF"), "%s", out);
    for (size_t i = 0; i < 40; i++)
        close(fds[i]);
    free(out);
    warmd_down(&k);
}

/* Builds a library that makes each accept slow. */
static void make_slow_accept(const struct warmd *k, char *out_library)
{
    static const char source[] =
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <sys/socket.h>\n#include <unistd.h>\n"
        "int accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)\n{\n"
        "    int (*real)(int, struct sockaddr *, socklen_t *, int);\n"
        "    *(void **)&real = dlsym(RTLD_NEXT, \"accept4\");\n"
        "    int got = real(fd, a, len, flags);\n"
        "    if (got >= 0)\n        usleep(5000);\n    return got;\n}\n";
    char *path = path_join(k->dir, "slow.c"), *out;
    snprintf(out_library, PATH_MAX, "%s/slow.so", k->dir);
    file_write(path, source, strlen(source));
    cr_assert_eq(run_command(&out, "cc -shared -fPIC -o %s %s -ldl 2>&1", out_library, path), 0,
                 "%s", out);
    free(out);
    free(path);
}

/* Connects to a port and goes away, as often as it can. Returns when that is under way. */
static pid_t flood(int port)
{
    int told[2];
    char byte = 0;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger reset = {1, 0};
    cr_assert_eq(pipe2(told, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid) {
        cr_assert_eq(read(told[0], &byte, 1), 1);
        close(told[0]);
        close(told[1]);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0;; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fd, (struct sockaddr *)&at, sizeof at);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
        if (i == 1000 && write(told[1], &byte, 1) != 1)
            _exit(1);
    }
}

Test(metrics, connections_to_the_port_without_end_leave_turns_for_others)
{
    struct warmd k = warmd_new();
    char port[32], library[PATH_MAX];
    int number = engine_free_port();
    snprintf(port, sizeof port, "%d", number);
    char *options[] = {"--metrics-listen", port, NULL};
    make_slow_accept(&k, library);
    setenv("LD_PRELOAD", library, 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    warmd_start(&k, options);
    unsetenv("LD_PRELOAD");
    unsetenv("ASAN_OPTIONS");
    int redis = warmd_connect(&k);
    warmd_redis(redis, "PING\r\n", "+PONG\r\n");
    pid_t others[] = {flood(number), flood(number), flood(number)};
    for (unsigned i = 0; i < 3; i++)
        warmd_redis(redis, "PING\r\n", "+PONG\r\n");
    for (size_t i = 0; i < 3; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
    close(redis);
    warmd_down(&k);
}

Test(metrics, only_loopback_addresses_are_listened_on)
{
    static const char *const bad[] = {"0.0.0.0:9477", "192.168.0.1:9477",
                                      "[::]:9477",    "localhost:1",
                                      ":9477",        "127.0.0.1",
                                      "99999",        "0",
                                      "[::1]",        "1x"};
    char *warmd = bin_path("warmd"), *dir = temp_dir_new(), *out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(
            run_command(&out, "timeout 10 %s --socket %s/s --store %s/t --metrics-listen '%s' 2>&1",
                        warmd, dir, dir, bad[i]),
            2, "%s: %s", bad[i], out);
        cr_expect_not_null(strstr(out, "of this machine alone"), "%s", out);
        free(out);
    }
    free(warmd);
    temp_dir_free(dir);
}

Test(metrics, a_user_sees_no_other_users_space)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up(NULL);
    int fd = warmd_native_as(&k, 65534);
    warmd_put(fd, 1, "name", "value", 0);
    warmd_expect(fd, 1, WIRE_OK);
    char *out = answer_to(&k, REQUEST, strlen(REQUEST));
    cr_expect_not_null(strstr(out, "warm_user_disk_bytes{uid=\"0\"} 0\n"), "%s", out);
    cr_expect_null(strstr(out, "uid=\"65534\""), "%s", out);
    free(out);
    close(fd);
    warmd_down(&k);
}

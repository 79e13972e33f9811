/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c - starts servers on loopback and ends them. The suites of tier/backends call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/engine.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/support.h"

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int engine_free_port(void)
{
    struct sockaddr_in a = loopback(0);
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

int engine_connect(int port)
{
    struct sockaddr_in a = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
        /* a second small write would wait 40 ms for the peer's acknowledgement of the first */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        return fd;
    }
    close(fd);
    return -1;
}

/* Starts a program whose output goes to `out`. */
static void run_program(struct engine *s, const char *const *argv, int out)
{
    char *args[40];
    size_t n = 0;
    for (; argv[n]; n++)
        memcpy(&args[n], &argv[n], sizeof *args);
    args[n] = NULL;
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out, STDOUT_FILENO);
        execvp(args[0], args);
        _exit(127);
    }
    cr_assert_gt(s->pid, 0);
}

void engine_start(struct engine *s, const char *const *argv)
{
    int ends[2];
    char line[16];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    run_program(s, argv, ends[1]);
    close(ends[1]);
    FILE *f = fdopen(ends[0], "r");
    cr_assert(fgets(line, sizeof line, f), "%s does not start", argv[0]);
    s->port = atoi(line);
    fclose(f);
}

void engine_start_on_port(struct engine *s, const char *const *argv)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    run_program(s, argv, null);
    close(null);
    for (int i = 0; i < 1000; i++, usleep(10000)) {
        int fd = engine_connect(s->port);
        if (fd < 0)
            continue;
        close(fd);
        return;
    }
    cr_assert_fail("%s does not listen on %d", argv[0], s->port);
}

void engine_stop(struct engine *s)
{
    kill(s->pid, SIGCONT);
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

void engine_tell(const struct engine *s, const char *text, char *out, size_t cap)
{
    char answer[4096];
    size_t len = 0;
    ssize_t n;
    int fd = engine_connect(s->port);
    cr_assert_geq(fd, 0);
    cr_assert_gt(dprintf(fd, "GET /-/%s HTTP/1.1\r\nHost: -\r\nConnection: close\r\n\r\n", text),
                 0);
    while ((n = read(fd, answer + len, sizeof answer - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    answer[len] = '\0';
    char *body = strstr(answer, "\r\n\r\n");
    cr_assert(body && strstr(answer, " 200 "), "%s", answer);
    if (out)
        snprintf(out, cap, "%s", body + 4);
}

void engine_make_certificates(const char *folder)
{
    char *out;
    int code = run_command(
        &out,
        "cd %s && exec 2>&1 && key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes' && "
        "for ca in ca other; do openssl req -x509 $key -keyout $ca.key -out $ca.crt -days 2 "
        "-subj /CN=$ca || exit; done && "
        "echo subjectAltName=IP:127.0.0.1,DNS:localhost >names && "
        "for who in server client; do openssl req $key -keyout $who.key -out $who.csr "
        "-subj /CN=$who && openssl x509 -req -in $who.csr -CA ca.crt -CAkey ca.key "
        "-CAcreateserial -days 2 -extfile names -out $who.crt || exit; done && "
        "openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days -1 "
        "-extfile names -out expired.crt && echo subjectAltName=DNS:other.example >names && "
        "openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile names -out elsewhere.crt",
        folder);
    cr_assert_eq(code, 0, "%s", out);
    free(out);
}

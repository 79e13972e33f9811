/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - starts warm-tier as warmd does, asks it for one probe, and ends it. `warm tier probe` and `warm doctor`
 * call it.
 *
 * What may go wrong: the program is not there; the URL is none (its first answer says why); it does not answer in time.
 *
 * Thread: main.
 */
#include "client/cli/run/probe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"
#include "client/lib/packet.h"

#define PROBE_MS 8000u /* several requests, one after another */
#define GRACE_MS 1000u
#define SKEW_SHOWN_MS 5000u

static pid_t start_helper(const char *program, const struct probe *p, int fd)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd == TIER_FD)
        fcntl(fd, F_SETFD, 0);
    else if (dup2(fd, TIER_FD) < 0)
        _exit(127);
    execl(program, program, p->url, p->credentials, p->ca, (char *)NULL);
    _exit(127);
}

/* Receives the answer to a request, or the first one. False, with a reason, if none comes. */
static bool receive(int fd, const struct tier_ask *ask, struct tier_answer *out, char *why,
                    size_t why_size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int passed = -1, n;
    do
        n = poll(&p, 1, (int)(PROBE_MS + GRACE_MS));
    while (n < 0 && errno == EINTR);
    if (n == 0)
        snprintf(why, why_size, "warm-tier does not answer");
    if (n <= 0)
        return false;
    bool came = packet_receive(fd, out, sizeof *out, &passed, 1) == (ssize_t)sizeof *out;
    const char *fault = came ? tier_answer_fault(out, ask, 0, passed >= 0) : NULL;
    if (passed >= 0)
        close(passed);
    if (came && !fault)
        return true;
    snprintf(why, why_size, fault ? "warm-tier sent %s" : "warm-tier ended without an answer",
             fault);
    return false;
}

static bool ask(int fd, struct tier_answer *out, char *why, size_t why_size)
{
    struct tier_ask probe = {.id = 1, .operation = TIER_PROBE, .timeout_ms = PROBE_MS, .limit = 64};
    /* probe-HOST: names of objects have small letters, digits, "/" and "-". */
    char host[40] = "here";
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
    snprintf(probe.name, TIER_NAME_MAX + 1, "probe-%s-%d", host, (int)getpid());
    if (!receive(fd, NULL, out, why, why_size))
        return false;
    if (out->outcome != TIER_OK) {
        snprintf(why, why_size, "%s", out->said);
        return false;
    }
    if (packet_send(fd, &probe, sizeof probe, NULL, 0) != 0) {
        snprintf(why, why_size, "warm-tier ended: %s", strerror(errno));
        return false;
    }
    return receive(fd, &probe, out, why, why_size);
}

bool probe_tier(const struct probe *p, struct tier_answer *out, char *why, size_t why_size)
{
    struct run_places places;
    char program[PATH_MAX + 32];
    int pair[2];
    if (!run_places_fill(&places, "")) {
        snprintf(why, why_size, "cannot find the folder of this program");
        return false;
    }
    snprintf(program, sizeof program, "%s/libexec/warm/warm-tier", places.prefix);
    if (access(program, X_OK) != 0) {
        snprintf(why, why_size, "%s: %s", program, strerror(errno));
        return false;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        snprintf(why, why_size, "cannot make a socket: %s", strerror(errno));
        return false;
    }
    pid_t pid = start_helper(program, p, pair[1]);
    close(pair[1]);
    bool good = pid > 0 && ask(pair[0], out, why, why_size);
    close(pair[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    } else {
        snprintf(why, why_size, "cannot start warm-tier: %s", strerror(errno));
    }
    return good;
}

bool probe_words(const struct tier_answer *a, char *out, size_t cap)
{
    const struct tier_capabilities *c = &a->capabilities;
    if (a->outcome != TIER_OK) {
        snprintf(out, cap, "%s", *a->said ? a->said : c->said);
        return false;
    }
    int n = snprintf(out, cap, "%s", c->said);
    if (c->clock_skew_ms > SKEW_SHOWN_MS && n >= 0 && (size_t)n < cap)
        snprintf(out + n, cap - (size_t)n, "; its clock is %llu s from this machine's",
                 (unsigned long long)c->clock_skew_ms / 1000);
    return c->reads;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.c - finds this program's own files, the daemon's socket and the session. `warm run`,
 * `warm daemon` and settings.c call it.
 *
 * Thread: main.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/run/run.h"
#include "client/lib/warm.h"

/* Makes a session's id: 16 hex digits, or the id of an outer `warm run`. */
static bool fill_session(struct run_places *p)
{
    const char *outer = getenv("WARM_SESSION");
    unsigned char bytes[8];
    if (outer && *outer)
        return snprintf(p->session, sizeof p->session, "%s", outer) < (int)sizeof p->session;
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(p->session + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* Finds our own files: BUILD/bin/warm and PREFIX/bin/warm have the same folders beside them. */
bool run_places_fill(struct run_places *p, const char *socket)
{
    ssize_t len = readlink("/proc/self/exe", p->exe, sizeof p->exe - 1);
    if (len <= 0)
        cli_say("cannot read /proc/self/exe: %s", strerror(errno));
    if (len <= 0 || !fill_session(p))
        return false;
    p->exe[len] = '\0';
    strcpy(p->prefix, p->exe);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(p->prefix, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    if (socket)
        return snprintf(p->socket, sizeof p->socket, "%s", socket) < (int)sizeof p->socket;
    return warm_default_socket(p->socket, sizeof p->socket) == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.c - draws the line of progress, and decides if an output wants colours. compile.c
 * and remote.c call it.
 *
 * Thread: main.
 */
#include "client/cli/progress.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR_WIDTH 32
#define DRAW_MS 50 /* between two pictures */

static bool shown;

void progress_show(const char *what, uint64_t done, uint64_t total)
{
    assert(what);
    static struct timespec last;
    struct timespec now;
    if (!shown && !isatty(STDERR_FILENO))
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (shown && done < total &&
        (now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000 < DRAW_MS)
        return;
    shown = true;
    last = now;
    double part = total ? (double)(done < total ? done : total) / (double)total : 0;
    int filled = (int)(part * BAR_WIDTH);
    fprintf(stderr, "\r%s [", what);
    for (int i = 0; i < BAR_WIDTH; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %3d%%  %" PRIu64 " of %" PRIu64 "\033[K", (int)(part * 100), done, total);
    fflush(stderr);
}

void progress_end(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}

bool colour_wanted(FILE *out)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no_color && *no_color) && term && strcmp(term, "dumb") != 0 && isatty(fileno(out));
}

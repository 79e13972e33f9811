/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler.c - a stand-in for gcc in runs of peers.py. It sleeps for a source's cost, counts itself, and its object is
 * the source. It reads no include: its preprocessed text is the source too. All else is the real compiler's work.
 *
 *     $NODE/costs/NAME.c    the seconds that NAME.c costs on this node
 *     $NODE/made            a line for each compile
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

/* Finds what a compile of `source` costs. False: it is none of ours. */
static int find_cost(const char *source, double *out_s)
{
    char path[4096];
    const char *node = getenv("NODE"), *slash = strrchr(source, '/');
    snprintf(path, sizeof path, "%s/costs/%s", node ? node : "", slash ? slash + 1 : source);
    FILE *f = fopen(path, "r");
    int found = f && fscanf(f, "%lf", out_s) == 1;
    if (f)
        fclose(f);
    return found;
}

static void count_compile(const char *source)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/made", getenv("NODE"));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    dprintf(fd, "%s\n", source);
    close(fd);
}

int main(int argc, char *argv[])
{
    const char *source = "", *out = NULL;
    int compiles = 0, preprocesses = 0;
    double cost_s = 0;
    for (int i = 1; i < argc; i++) {
        size_t len = strlen(argv[i]);
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            out = argv[++i];
        else if (len > 2 && strcmp(argv[i] + len - 2, ".c") == 0)
            source = argv[i];
        compiles |= strcmp(argv[i], "-c") == 0;
        preprocesses |= strcmp(argv[i], "-E") == 0;
    }
    if (!(compiles || preprocesses) || !find_cost(source, &cost_s)) {
        argv[0] = "cc"; /* gcc looks for its parts beside it */
        execvp("cc", argv);
        return 127;
    }
    if (!preprocesses) {
        struct timespec left = {(time_t)cost_s, (long)((cost_s - (double)(time_t)cost_s) * 1e9)};
        while (nanosleep(&left, &left) != 0)
            ;
        count_compile(source);
    }
    int from = open(source, O_RDONLY), to = out ? open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644) : 1;
    ssize_t n;
    while ((n = sendfile(to, from, NULL, 1 << 20)) > 0)
        ;
    return n == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_job.h - StableHLO on the command line: `warm compile` of a graph, `warm show` of a compiled one.
 *
 * Thread: main. Memory: borrows all.
 */
#ifndef WARM_CLI_GRAPH_JOB_H
#define WARM_CLI_GRAPH_JOB_H

#include "client/cli/cli.h"
#include "client/lib/warm.h"

struct graph_job {
    struct warm *w;
    const char *file, *output; /* output: NULL for FILE.bundle in the working folder */
    const char *target;        /* "sm_90" */
    const char **options;      /* for NVRTC; those that name a target are taken out */
    size_t n_options;
    const char *compiler; /* these three as in struct warm_job */
    unsigned timeout_ms, flags;
    bool vjp;                  /* with gradients */
    const uint32_t *arguments; /* that have one; n_arguments 0: all of f32 */
    size_t n_arguments;
    const char *optimizer; /* NULL: none */
    bool as_json;
};

/* Compiles a graph, each kernel as a program of its own, and writes the bundle. Prints why if it cannot.
 * Returns an exit status. */
int graph_job_compile(const struct graph_job *g, const struct cli_input *in);

/* Prints a bundle. Returns an exit status; -1 if the file is none, and then it has printed nothing. */
int graph_job_show(const char *path, bool as_json);

#endif

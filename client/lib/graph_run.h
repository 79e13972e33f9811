/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_run.h - shared by graph_xla.c: what a caller of warm_graph_run with many streams needs.
 *
 * Thread: as warm_graph_run. Memory: none.
 */
#ifndef WARM_LIB_GRAPH_RUN_H
#define WARM_LIB_GRAPH_RUN_H

struct warm_exec;

/* Waits for all streams of its GPU, also for those that are no more. Does nothing on the CPU. Errors: IO. */
int graph_run_wait_for_all(struct warm_exec *x);

#endif

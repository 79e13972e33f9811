/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_plan.h - shared by graph_compile.c: the plan of a graph as an entry of the cache. A plan is all but the
 * cubins: the code of the kernels, their launches, and where each tensor is.
 *
 *     graph, arguments, optimizer ──▶ name ──▶ GET ──▶ the plan: nothing is read or differentiated again
 *                                               └ no ─▶ graph_compile.c plans and compiles ──▶ PUT
 *
 * The forward pass of a graph and the graph with its gradients are two entries. Their kernels are entries of
 * their own, which both share (kernels/BUNDLE.md).
 *
 * The name covers the graph's canonical text, from which alone a program is read (program_read); the gradients
 * and the optimizer that were asked for; and the build of this code, by the build ID that the linker made of
 * it. So another build plans anew. GPU and compiler are no part of a plan. The value:
 *
 *     | blob | the code, one kernel after the other (struct codegen) |
 *     | u32, then 2 × u64 for each | kernels: where each begins in the code, and its length |
 *     | the rest | the bundle (kernels/BUNDLE.md), with empty keys and cubins |
 *
 * Thread: one at a time for each connection. Memory: as each function says.
 */
#ifndef WARM_LIB_GRAPH_PLAN_H
#define WARM_LIB_GRAPH_PLAN_H

#include "client/lib/warm.h"
#include "kernels/bundle/graph_bundle.h"

#define GRAPH_PLAN_NAME 80 /* bytes, NUL included */

/* Writes the name of a graph's plan. False if it has none: the graph has no key, or this build no ID. */
bool graph_plan_name(const struct warm_graph *graph, char out[GRAPH_PLAN_NAME]);

/* Gets a plan from the cache: fills the bundle, but for target, compiler, keys and cubins, and of the code what
 * codegen_write_kernel reads (graph_bundle_close and codegen_free, also after false). False if the cache has
 * none, or a damaged one. */
bool graph_plan_get(struct warm *w, const char *name, struct codegen *code,
                    struct graph_bundle *bundle);

/* Stores a plan that took `cost_ms`. Empties the bundle's target, compiler, keys and cubins. A failure costs the
 * next process the time of a plan; it may end the connection, so compile first. */
void graph_plan_put(struct warm *w, const char *name, const struct codegen *code,
                    struct graph_bundle *bundle, uint64_t cost_ms);

#endif

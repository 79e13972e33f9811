/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_variants.h - other texts of the same graph, and texts of another one: variants.h for MLIR
 * and HLO as JAX prints them, one operation a line.
 *
 * The generators know nothing of keygen: they cut lines and words by themselves. A variant applies
 * several changes at once; which ones, and where, is drawn.
 *
 * Thread: any; the state is in struct random. Memory: what is returned is free()d by the caller.
 */
#ifndef WARM_TESTS_PROOF_GRAPH_VARIANTS_H
#define WARM_TESTS_PROOF_GRAPH_VARIANTS_H

#include "tests/proof/variants.h"

enum graph_language { GRAPH_MLIR, GRAPH_HLO };

/* Other names, locations or metadata, comments, white space; attributes of arguments and results that do
 * not count. The key must stay. */
struct text variant_of_graph(struct random *r, enum graph_language language, struct text base);

/* One change: another operation, digit of a constant or an attribute, type, layout or comparison; two
 * operands or two neighbouring statements in the other order; a statement twice, or not at all; an
 * attribute that counts on an operation, and on an argument does not.
 * *out_what says which (static memory). data is NULL if the draw found nothing to change: try again.
 * The key must change. */
struct text mutant_of_graph(struct random *r, enum graph_language language, struct text base,
                            const char **out_what);

#endif

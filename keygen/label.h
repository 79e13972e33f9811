/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h - labels of entries and misses that compilers made: the compiler and its files, "g++ a.cc b.cc".
 *
 * Thread: any; no state.
 */
#ifndef WARM_KEYGEN_LABEL_H
#define WARM_KEYGEN_LABEL_H

#include "keygen/bytes.h"

/* True if a label has the file with the name of `path`, whose folders do not count. */
bool label_has_file(struct view label, struct view path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - sees which of many Python objects refer to others than before: cells, dictionaries, lists, sets.
 * client/python/warm/_marks.py uses it. A first graph of PyTorch leaves some 50,000 such objects.
 *
 * Python 3.12 and older give a dictionary a new version at each change (PEP 509): it has changed only if that has.
 * Of all others the addresses are compared. A watch keeps alive all that it compares, so an address is an identity.
 *
 * Objects pass as PyObject pointers, which ctypes makes of Python's values.
 *
 * Thread: the caller holds the interpreter's lock from call to call. Memory: watch_close frees all.
 */
#ifndef WARM_WATCH_H
#define WARM_WATCH_H

#include "client/walk/cpython.h"

struct watch;

/* Returns a watch of nothing; NULL without memory. `has_versions`: each change of a dictionary gives it a new version, and
 * nothing else does. `compares`: one with another version has changed only if it has other keys or values. */
struct watch *watch_open(int has_versions, int compares);
/* Frees a watch, and ends its references. */
void watch_close(struct watch *w);
/* Watches objects from now on, a list, each under a name of the list `names`; but none twice under equal names. Returns 0;
 * -1 without memory, or if the type of one does not tell what its objects refer to. */
int watch_add(struct watch *w, PyObject *names, PyObject *objects);
/* Returns the names of those that refer to others than at the last look, a list. New reference; NULL without memory. */
PyObject *watch_changed(struct watch *w);

#endif

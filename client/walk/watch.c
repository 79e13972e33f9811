/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - compares what objects refer to with what they referred to.
 *
 *     watch_changed ─▶ has_changed ─▶ read_now ─▶ the type's traverse function ─▶ visit     fills `now`, which is compared
 *                                                                                          with what the object had
 *
 * An object's type visits what it refers to for the garbage collector, so no layout is known here but that of a
 * dictionary's version: _marks.py has tried it.
 *
 * Thread: the caller holds the interpreter's lock.
 */
#include "client/walk/watch.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/walk/table.h"

#define AHEAD                                                                                      \
    16 /* objects: they are anywhere in memory, so fetching one takes as long as comparing ten */
#define VERSION_AT 24 /* bytes, in a dictionary: behind its header and its number of entries */

struct watched {
    PyObject *object, *name;
    traverseproc traverse; /* NULL: a dictionary */
    uint64_t version;
    union {
        PyObject *one, **many; /* many: if n is not 1 */
    } held;                    /* the objects it referred to: a dictionary's keys and values */
    size_t n;
    size_t older; /* 1 + the index of the same object under another name; 0: there is none */
};

struct watch {
    bool has_versions, compares;
    struct watched *all;
    size_t n, cap;
    struct table places; /* object: 1 + the index of the newest */
    PyObject **now;      /* what the object refers to that is read now */
    size_t n_now, cap_now;
};

static uint64_t version_of(const struct watched *one)
{
    uint64_t version;
    memcpy(&version, (const char *)one->object + VERSION_AT, sizeof version);
    return version;
}

static PyObject **held_of(struct watched *one)
{
    return one->n == 1 ? &one->held.one : one->held.many;
}

static void release(struct watched *one)
{
    for (size_t i = 0; i < one->n; i++)
        Py_DecRef(held_of(one)[i]);
    if (one->n != 1)
        free(one->held.many);
}

/* ---- what an object refers to now ---- */

static bool reserve(struct watch *w, size_t n)
{
    if (w->n_now + n <= w->cap_now)
        return true;
    size_t cap = 2 * (w->n_now + n);
    PyObject **grown = realloc(w->now, cap * sizeof *grown);
    if (!grown)
        return false;
    w->now = grown;
    w->cap_now = cap;
    return true;
}

/* Adds one object, as a traverse function's visitor. */
static int visit(PyObject *one, void *context)
{
    struct watch *w = context;
    if (!reserve(w, 1))
        return -1;
    w->now[w->n_now++] = one;
    return 0;
}

/* Fills `now`. False without memory. */
static bool read_now(struct watch *w, const struct watched *one)
{
    w->n_now = 0;
    if (one->traverse)
        return one->traverse(one->object, visit, w) == 0;
    PyObject *pair[2];
    for (Py_ssize_t at = 0; PyDict_Next(one->object, &at, &pair[0], &pair[1]);) {
        if (!reserve(w, 2))
            return false;
        memcpy(w->now + w->n_now, pair, sizeof pair);
        w->n_now += 2;
    }
    return true;
}

/* Keeps `now` in the place of what an object held. False without memory. */
static bool keep(struct watch *w, struct watched *one)
{
    struct watched old = *one;
    if (w->n_now != 1) {
        PyObject **many = malloc((w->n_now + 1) * sizeof *many);
        if (!many)
            return false;
        one->held.many = many;
    }
    one->n = w->n_now;
    for (size_t i = 0; i < one->n; i++)
        Py_IncRef(held_of(one)[i] = w->now[i]);
    release(&old);
    return true;
}

/* Notes how an object is. False without memory. */
static bool note(struct watch *w, struct watched *one)
{
    if (!one->traverse)
        one->version = version_of(one);
    return !(one->traverse || w->compares || !w->has_versions) ||
           (read_now(w, one) && keep(w, one));
}

/* ---- what is watched ---- */

static bool is_known(const struct watch *w, PyObject *object, PyObject *name)
{
    const struct table_slot *slot = table_find(&w->places, object);
    for (size_t i = slot ? slot->low : 0; i; i = w->all[i - 1].older)
        if (PyObject_RichCompareBool(w->all[i - 1].name, name, PYTHON_EQUAL) == 1)
            return true;
    return false;
}

static bool find_traverse(struct watched *one)
{
    PyObject *type = PyObject_Type(one->object);
    bool is_dict = PyType_GetFlags(type) & PYTHON_IS_DICT;
    void *traverse = is_dict ? NULL : PyType_GetSlot(type, PYTHON_TRAVERSE);
    memcpy(&one->traverse, &traverse, sizeof traverse);
    Py_DecRef(type);
    return is_dict || traverse;
}

static bool watch_one(struct watch *w, PyObject *name, PyObject *object)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 1024;
        struct watched *grown = realloc(w->all, cap * sizeof *grown);
        if (!grown)
            return false;
        w->all = grown;
        w->cap = cap;
    }
    struct watched *one = &w->all[w->n];
    *one = (struct watched){.object = object, .name = name};
    struct table_slot *slot = table_find(&w->places, object);
    if (!find_traverse(one) || !note(w, one) ||
        (!slot && !(slot = table_add(&w->places, object)))) {
        release(one);
        return false;
    }
    one->older = slot->low;
    slot->low = ++w->n;
    Py_IncRef(object);
    Py_IncRef(name);
    return true;
}

int watch_add(struct watch *w, PyObject *names, PyObject *objects)
{
    Py_ssize_t n = PyList_Size(objects);
    assert(PyList_Size(names) == n);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyList_GetItem(names, i), *object = PyList_GetItem(objects, i);
        if (!is_known(w, object, name) && !watch_one(w, name, object))
            return -1;
    }
    return 0;
}

/* Returns 1 if an object refers to others than at the last look, and notes it; -1 without memory. */
static int has_changed(struct watch *w, struct watched *one)
{
    if (!one->traverse && w->has_versions) {
        uint64_t version = version_of(one);
        if (version == one->version)
            return 0;
        one->version = version;
        if (!w->compares)
            return 1;
    }
    if (!read_now(w, one))
        return -1;
    if (w->n_now == one->n && !memcmp(w->now, held_of(one), one->n * sizeof *w->now))
        return 0;
    return keep(w, one) ? 1 : -1;
}

PyObject *watch_changed(struct watch *w)
{
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names && i < w->n; i++) {
        if (i + AHEAD < w->n)
            __builtin_prefetch(w->all[i + AHEAD].object);
        int changed = has_changed(w, &w->all[i]);
        if (changed < 0 || (changed && PyList_Append(names, w->all[i].name))) {
            Py_DecRef(names);
            names = NULL;
        }
    }
    return names;
}

struct watch *watch_open(int has_versions, int compares)
{
    struct watch *w = calloc(1, sizeof *w);
    if (w) {
        w->has_versions = has_versions;
        w->compares = compares;
    }
    return w;
}

void watch_close(struct watch *w)
{
    for (size_t i = 0; i < w->n; i++) {
        release(&w->all[i]);
        Py_DecRef(w->all[i].object);
        Py_DecRef(w->all[i].name);
    }
    table_free(&w->places);
    free(w->all);
    free(w->now);
    free(w);
}

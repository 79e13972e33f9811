/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - libwarm-python.so: digests of Python values, for client/python/warm/_values.py. Two values with one digest do
 * the same in each process. A first graph of PyTorch looks at some 50,000 functions and objects: this takes a tenth of
 * the time that it takes in Python.
 *
 *     _values.py ── a value, or a namespace ──▶ walker ── a type, met for the first time ──▶ kind_of() of _values.py
 *               ◀─────────── digests ─────────        ◀── how to read its objects ─────────
 *
 * A digest is the begin of the SHA-256 of what a value consists of; parts that have an own digest stand as that. A walker remembers
 * the digests of all that it met, and keeps it alive, so it lives only as long as nothing changes. A value that contains
 * itself has no digest of its own: it depends on where its circle was entered.
 *
 * Objects pass as PyObject pointers, which ctypes makes of Python's values.
 *
 * Thread: the caller holds the interpreter's lock from call to call. Memory: walk_close frees all.
 */
#ifndef WARM_WALK_H
#define WARM_WALK_H

#include "client/walk/cpython.h"

/* How the objects of a type are read. kind_of() returns the number first. */
enum walk_how {
    WALK_NAME,       /* all are equal: their type's label counts */
    WALK_STR,        /* label and characters */
    WALK_BYTES,      /* label and bytes */
    WALK_INT,        /* label and value */
    WALK_REPR,       /* label and repr() */
    WALK_TEXT,       /* label and the text that a function returns */
    WALK_ATTRIBUTES, /* label and some attributes */
    WALK_MAPPING,    /* label, keys and values in their order */
    WALK_SET, /* label and values in any order. If it has its values in an attribute, that can change in place */
    WALK_SEQUENCE, /* label and values in their order */
    WALK_OBJECT,   /* label, the type, the attributes by name, slots */
    WALK_FUNCTION, /* the code, the variables that it encloses, defaults */
    WALK_CODE,     /* a file and a line, or instructions and constants */
    WALK_WRAPPED,  /* label and __wrapped__, if it refers to that in C */
    WALK_N_HOW,
};

/* What else counts about a type. A sum of these is the second that kind_of() returns. */
enum walk_flag {
    WALK_COUNTS = 1,   /* in a namespace its objects count whole */
    WALK_CONSTANT = 2, /* in a namespace its objects count as constants */
    WALK_CLASS = 4,    /* a type of types */
    WALK_MODULE = 8,   /* a type of modules */
    WALK_HOLDS = 16,   /* its objects are namespaces, too */
    WALK_OPERATOR =
        32, /* as a callable object in a namespace it counts by its digest, not by its type */
    WALK_CHANGES = 64, /* its objects can change in place */
    WALK_STATE = 128,  /* a plain value, which a variable that its function sets may hold */
};

/* The first byte of an entry of a namespace: walk_space. */
enum walk_entry { WALK_OTHER = 'o', WALK_VALUE = '=', WALK_UNKNOWN = '?' };

enum walk_owner { WALK_OF_MODULE, WALK_OF_CLASS, WALK_OF_OBJECT };

struct walker;

/* Returns a walker; NULL without memory. Borrows `rules`, a tuple, until walk_close:
 *     kind_of           function: type -> (how, flags, label: str, argument), or it raises for what has no digest.
 *                       The argument is WALK_TEXT's function, WALK_ATTRIBUTES' names or WALK_OBJECT's slots, a tuple;
 *                       WALK_SET's attribute, or None
 *     sets_of           function: code -> a set of the variables of enclosing functions that it sets
 *     referents         gc.get_referents
 *     states            set of names of variables and attributes that do not count
 *     store             number of the instruction that sets a variable of an enclosing function
 *     libraries         tuple of folders: code of files in them counts by file and line. That of the first one, torch,
 *                       by the path below it
 *     shallow           a folder name, between slashes: what functions of files in it enclose does not count in a
 *                       namespace
 *     modules           sys.modules: in a namespace a module counts if it is not found there by its name
 *     none              None */
struct walker *walk_open(PyObject *rules);
/* Frees a walker, and ends its references to all that it read. */
void walk_close(struct walker *w);

/* Returns the digest of a value, bytes; without a byte if it has none. New reference. `path` is noted with what can
 * change in place (walk_parts). */
PyObject *walk_value(struct walker *w, PyObject *path, PyObject *value);

/* Returns the digest of a table, a dictionary, list or set: of its keys and values one by one, so that one which contains
 * the table has a digest as well; without a byte if one has none. The order counts for a list alone. New reference; NULL with an exception. */
PyObject *walk_table(struct walker *w, PyObject *path, PyObject *table);

/* Returns a tuple of a namespace, the dictionary `held` of `owner`:
 *     a digest of all entries
 *     entries           None if `known`, a tuple, has the digest; else a dictionary: name -> bytes: walk_entry, 8 bytes of
 *                       a digest. Of what is unknown, the former alone
 *     inner             list of (name, value, dictionary) of the classes and objects that are namespaces in it
 * New reference; NULL with an exception. `scope` is a tuple: walk_owner; of a module its name, of a class the begin of its
 * inner classes' qualified names; a set of names that do not count; True if constants and inner classes do not; `known`. */
PyObject *walk_space(struct walker *w, PyObject *path, PyObject *owner, PyObject *held,
                     PyObject *scope);

/* Returns what can change in place of all that was read: a list of paths, and one of cells, lists, dictionaries and sets, each
 * once. They are not tuples, because Python would look at these whenever it collects garbage. New reference. */
PyObject *walk_parts(struct walker *w);

#endif

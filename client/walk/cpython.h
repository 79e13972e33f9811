/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpython.h - the functions of CPython that libwarm-python.so calls. The Python that loads the library has them: it is
 * linked with none, and built without Python's headers. Each is a function in every CPython from 3.9 on, so the layout of
 * objects does not count.
 *
 * "New": the caller owns the reference and ends it with Py_DecRef. "borrowed": it lives as long as its owner. NULL means
 * that an exception is set, if nothing else is said.
 *
 * Thread: the caller holds the interpreter's lock.
 */
#ifndef WARM_CPYTHON_H
#define WARM_CPYTHON_H

#include <stddef.h>

typedef struct python_object PyObject;
typedef ptrdiff_t Py_ssize_t;

/* References and exceptions. */
void Py_IncRef(PyObject *o); /* adds a reference */
void Py_DecRef(PyObject *o); /* ends one; takes NULL */
void PyErr_Clear(void);      /* forgets the exception */

/* Objects. All of these that return an object return a new one; PyObject_GenericGetAttr without asking the class's own
 * __getattr__. The arguments of a call end with NULL. */
PyObject *PyObject_Type(PyObject *o);
PyObject *PyObject_GetAttr(PyObject *o, PyObject *name);
PyObject *PyObject_GenericGetAttr(PyObject *o, PyObject *name);
PyObject *PyObject_Repr(PyObject *o);
PyObject *PyObject_CallFunctionObjArgs(PyObject *function, ...);
int PyCallable_Check(PyObject *o);                               /* true if a call may work */
int PyObject_RichCompareBool(PyObject *a, PyObject *b, int how); /* 1, 0 or -1 */

/* Types. PyType_GetSlot: NULL with an exception: there is none, or Python is older than 3.10 and the type is its own. */
unsigned long PyType_GetFlags(PyObject *type); /* Py_TPFLAGS_… */
void *PyType_GetSlot(PyObject *type, int slot);

enum { PYTHON_EQUAL = 2 };         /* PyObject_RichCompareBool: Py_EQ */
#define PYTHON_IS_DICT (1ul << 29) /* PyType_GetFlags: Py_TPFLAGS_DICT_SUBCLASS */
enum { PYTHON_TRAVERSE = 71 };     /* PyType_GetSlot: Py_tp_traverse */
typedef int (*visitproc)(PyObject *one,
                         void *context); /* not 0: ends the visit, which returns it */
typedef int (*traverseproc)(PyObject *o, visitproc visit, void *context);

/* Functions: borrowed; NULL without an exception: it has none. The closure is a tuple of cells, the defaults are a tuple and
 * a dictionary. PyCell_Get: new; NULL without an exception: the cell is empty. */
PyObject *PyFunction_GetCode(PyObject *function);
PyObject *PyFunction_GetGlobals(PyObject *function);
PyObject *PyFunction_GetClosure(PyObject *function);
PyObject *PyFunction_GetDefaults(PyObject *function);
PyObject *PyFunction_GetKwDefaults(PyObject *function);
PyObject *PyCell_Get(PyObject *cell);

/* Texts, bytes and numbers: new objects, and borrowed characters. -1 is a number, or an exception. */
PyObject *PyUnicode_FromString(const char *text);
const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *out_len); /* of its own */
PyObject *PyUnicode_AsEncodedString(PyObject *text, const char *encoding, const char *if_failed);
PyObject *PyBytes_FromStringAndSize(const char *bytes, Py_ssize_t len);
int PyBytes_AsStringAndSize(PyObject *bytes, char **out, Py_ssize_t *out_len); /* of its own */
long PyLong_AsLong(PyObject *number);                                          /* or -1 */
long long PyLong_AsLongLongAndOverflow(PyObject *number, int *out_overflow);   /* or -1 */

/* Containers: a whole one is new, an item is borrowed. -1: an exception. PyDict_GetItemWithError: NULL without an exception:
 * there is no such key. */
Py_ssize_t PyTuple_Size(PyObject *tuple);
PyObject *PyTuple_GetItem(PyObject *tuple, Py_ssize_t i);
PyObject *PyTuple_Pack(Py_ssize_t n, ...);
int PySequence_Contains(PyObject *sequence, PyObject *o); /* 1, 0 or -1 */
PyObject *PySequence_List(PyObject *iterable);
PyObject *PyList_New(Py_ssize_t n);
Py_ssize_t PyList_Size(PyObject *list);
PyObject *PyList_GetItem(PyObject *list, Py_ssize_t i);
int PyList_Append(PyObject *list, PyObject *o); /* 0 or -1 */
int PyList_Sort(PyObject *list);                /* 0 or -1 */
int PySet_Contains(PyObject *set, PyObject *o); /* 1, 0 or -1 */
PyObject *PyDict_New(void);
int PyDict_SetItem(PyObject *dict, PyObject *key, PyObject *value); /* 0 or -1 */
PyObject *PyDict_GetItemWithError(PyObject *dict, PyObject *key);
int PyDict_Next(PyObject *dict, Py_ssize_t *at, PyObject **out_key,
                PyObject **out_value); /* 0: the end */
PyObject *PyDict_Items(PyObject *dict);
PyObject *PyDict_Keys(PyObject *dict);
PyObject *PyMapping_Items(PyObject *mapping);
Py_ssize_t PyObject_Size(PyObject *container);

#endif

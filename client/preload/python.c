/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python.c - tells our Python package that Python loads a library for which it has an adapter. Packages without
 * entry points, such as CuTe DSL, import nothing of ours; but Python looks up the first function of their library
 * with dlsym, after it was loaded and before its package can compile.
 *
 *     dlsym(…, "PyInit__cutlass_ir") ──▶ warm._autoload.library("PyInit__cutlass_ir") ──▶ the real function
 *
 * Thread: any; it takes Python's lock, which an import has already. Memory: none.
 */
#include <dlfcn.h>

#include "client/preload/preload.h"

/* X(type of the result, name, parameters): what we call of CPython; objects are pointers */
#define PY_FUNCTIONS(X)                                                                            \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int))                                                             \
    X(void *, PyImport_ImportModule, (const char *))                                               \
    X(void *, PyObject_CallMethod, (void *, const char *, const char *, ...))                      \
    X(void, Py_DecRef, (void *))                                                                   \
    X(void, PyErr_Clear, (void))

#define MEMBER(type, name, parameters) type(*name) parameters;
struct python {
    PY_FUNCTIONS(MEMBER)
};

/* Finds the process's Python. */
static bool find_python(struct python *py)
{
#define FIND(type, name, parameters)                                                               \
    if (!(*(void **)&py->name = preload_real_dlsym(RTLD_DEFAULT, #name)))                          \
        return false;
    PY_FUNCTIONS(FIND)
    return true;
}

void *python_stand_in(const char *name, void *real)
{
    struct python py;
    if (preload_may_stand_in(name, real) && find_python(&py)) {
        /* A Python that cannot import warm._autoload goes on without. */
        int state = py.PyGILState_Ensure();
        void *module = py.PyImport_ImportModule("warm._autoload");
        void *result = module ? py.PyObject_CallMethod(module, "library", "s", name) : NULL;
        if (!result)
            py.PyErr_Clear();
        py.Py_DecRef(result);
        py.Py_DecRef(module);
        py.PyGILState_Release(state);
    }
    return real;
}

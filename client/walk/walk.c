/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - libwarm-python.so: digests of Python values. client/python/warm/_values.py loads it and has the rules.
 *
 *     walk_value ─▶ add ─▶ add_part ─▶ readers[how] ─▶ add …    the bytes of open values lie one behind the other in `bytes`;
 *                                                              a value that ends leaves its digest in their place
 *
 * What may go wrong: a value has no digest, Python raises an exception, memory ends, or a value has too many parts. Then the
 * value is unknown, and no graph is kept that needs it.
 *
 * Thread: the caller holds the interpreter's lock.
 */
#include "client/walk/walk.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OPENSSL_API_COMPAT                                                                         \
    0x10100000L /* the SHA256_* calls: no context to allocate, nothing to fail */
#include <openssl/sha.h>

#include "client/walk/table.h"

#define DEPTH_MAX 60
#define STEPS_MAX 20000 /* parts of one value */
#define NEVER (DEPTH_MAX + 1)
#define TABLE_MIN 32 /* entries: a larger default is a table */
#define ENTRY_LEN 9  /* of walk_space: a walk_entry and 8 bytes */

/* The first bytes of a SHA-256. */
struct digest {
    uint64_t low, high;
};

struct kind {
    enum walk_how how;
    unsigned flags;
    bool is_known; /* False: kind_of() raised */
    const char *label;
    size_t label_len;
    PyObject *argument;
    PyObject *answer; /* of kind_of(): has the label and the argument */
};

/* What a code is, and which of the variables that its function encloses count by being there alone. */
struct code {
    struct digest digest;
    bool is_torch, is_shallow, is_known;
    PyObject *free_names; /* tuple */
    PyObject *sets;       /* NULL: none */
};

enum rule {
    KIND_OF,
    SETS_OF,
    REFERENTS,
    STATES,
    STORE,
    LIBRARIES,
    SHALLOW,
    MODULES,
    NONE,
    N_RULES
};

/* clang-format off */
#define NAMES(X) \
    X(__dict__) X(__module__) X(__qualname__) X(__bases__) X(__name__) X(co_name) X(co_qualname) X(co_filename) \
    X(co_firstlineno) X(co_code) X(co_consts) X(co_names) X(co_varnames) X(co_freevars) X(co_flags) X(co_argcount) \
    X(co_kwonlyargcount) X(co_posonlyargcount) X(__wrapped__) X(__loader__)
/* clang-format on */

struct walker {
    PyObject *rules[N_RULES]; /* borrowed */
    int store;
#define X(name) PyObject *name;
    NAMES(X)
#undef X
    struct table kinds; /* type: struct kind */
    struct table codes; /* code: struct code */
    struct table known; /* value: its digest. Keeps it alive */
    struct table seen;  /* what can change in place */
    PyObject *parts;    /* list of what can change in place */
    PyObject *paths;    /* list of their paths */
    PyObject *path;     /* of the value that is read now; borrowed */
    PyObject *none;     /* borrowed from the rules */

    char *bytes;
    size_t len, cap;
    PyObject *open[DEPTH_MAX]; /* values that are being read */
    int depth;
    int low; /* the least depth of an open value that was met again inside of itself */
    int steps;
};

/* ---- bytes ---- */

static bool put(struct walker *w, const void *bytes, size_t len)
{
    if (w->len + len > w->cap) {
        size_t cap = 2 * (w->len + len);
        char *grown = realloc(w->bytes, cap);
        if (!grown)
            return false;
        w->bytes = grown;
        w->cap = cap;
    }
    memcpy(w->bytes + w->len, bytes, len);
    w->len += len;
    return true;
}

/* Adds a text with its length in front, so that two texts never run into one another. */
static bool put_text(struct walker *w, const char *text, size_t len)
{
    return put(w, &len, sizeof len) && put(w, text, len);
}

static bool put_tag(struct walker *w, char tag) { return put(w, &tag, 1); }
static bool put_digest(struct walker *w, struct digest d) { return put(w, &d, sizeof d); }

static struct digest digest_end(SHA256_CTX *sha)
{
    uint8_t all[SHA256_DIGEST_LENGTH];
    struct digest d;
    SHA256_Final(all, sha);
    memcpy(&d, all, sizeof d);
    return d;
}

static struct digest digest_of(const void *bytes, size_t len)
{
    SHA256_CTX sha; /* not SHA256(), which looks providers up and links all of libcrypto */
    SHA256_Init(&sha);
    SHA256_Update(&sha, bytes, len);
    return digest_end(&sha);
}

/* Returns the digest of the bytes behind `at`, and drops them. */
static struct digest close_bytes(struct walker *w, size_t at)
{
    assert(at <= w->len);
    struct digest d = digest_of(w->bytes + at, w->len - at);
    w->len = at;
    return d;
}

/* Adds a text; a lone surrogate has no UTF-8. */
static bool put_str(struct walker *w, PyObject *text)
{
    Py_ssize_t len;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &len);
    if (bytes)
        return put_text(w, bytes, (size_t)len);
    PyErr_Clear();
    PyObject *encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    char *inside;
    bool ok = encoded && !PyBytes_AsStringAndSize(encoded, &inside, &len) &&
              put_text(w, inside, (size_t)len);
    Py_DecRef(encoded);
    if (!ok)
        PyErr_Clear();
    return ok;
}

static bool put_bytes(struct walker *w, PyObject *value)
{
    char *bytes;
    Py_ssize_t len;
    return !PyBytes_AsStringAndSize(value, &bytes, &len) && put_text(w, bytes, (size_t)len);
}

/* ---- kinds ---- */

static bool kind_read(struct kind *k, PyObject *answer)
{
    long how = PyLong_AsLong(PyTuple_GetItem(answer, 0)),
         flags = PyLong_AsLong(PyTuple_GetItem(answer, 1));
    Py_ssize_t len;
    k->label = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(answer, 2), &len);
    if (how < 0 || how >= WALK_N_HOW || flags < 0 || !k->label)
        return false;
    k->how = (enum walk_how)how;
    k->flags = (unsigned)flags;
    k->label_len = (size_t)len;
    k->argument = PyTuple_GetItem(answer, 3);
    return true;
}

/* Returns how a value is read; NULL without memory. */
static const struct kind *kind_of(struct walker *w, PyObject *value)
{
    PyObject *type = PyObject_Type(value);
    const struct table_slot *found = table_find(&w->kinds, type);
    if (found) {
        Py_DecRef(type); /* the table has it, too */
        return (const struct kind *)(uintptr_t)found->low;
    }
    struct kind *k = calloc(1, sizeof *k);
    struct table_slot *slot = k ? table_add(&w->kinds, type) : NULL; /* keeps the type */
    if (!slot) {
        free(k);
        Py_DecRef(type);
        return NULL;
    }
    slot->low = (uintptr_t)k;
    k->answer = PyObject_CallFunctionObjArgs(w->rules[KIND_OF], type, NULL);
    k->is_known = k->answer && kind_read(k, k->answer);
    if (!k->is_known)
        PyErr_Clear();
    return k;
}

/* ---- values ---- */

static bool add(struct walker *w, PyObject *value);

static bool note_part(struct walker *w, PyObject *part)
{
    return table_find(&w->seen, part) ||
           (!PyList_Append(w->paths, w->path) && !PyList_Append(w->parts, part) &&
            table_add(&w->seen, part));
}

/* Adds an attribute; false if there is none. */
static bool add_attribute(struct walker *w, PyObject *value, PyObject *name)
{
    PyObject *attribute = PyObject_GetAttr(value, name);
    bool ok = attribute && add(w, attribute);
    Py_DecRef(attribute);
    return ok;
}

static bool add_attributes(struct walker *w, PyObject *value, PyObject *names)
{
    Py_ssize_t n = PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!add_attribute(w, value, PyTuple_GetItem(names, i)))
            return false;
    return true;
}

static bool add_list(struct walker *w, PyObject *list)
{
    Py_ssize_t n = PyList_Size(list);
    bool ok = put(w, &n, sizeof n);
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = add(w, PyList_GetItem(list, i));
    return ok;
}

static bool add_sequence(struct walker *w, PyObject *value)
{
    PyObject *list = PySequence_List(value);
    bool ok = list && add_list(w, list);
    Py_DecRef(list);
    return ok;
}

static bool add_mapping(struct walker *w, PyObject *value)
{
    PyObject *items = PyMapping_Items(value);
    Py_ssize_t n = items ? PyList_Size(items) : 0;
    bool ok = items && put(w, &n, sizeof n);
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *pair = PyList_GetItem(items, i);
        ok = add(w, PyTuple_GetItem(pair, 0)) && add(w, PyTuple_GetItem(pair, 1));
    }
    Py_DecRef(items);
    return ok;
}

static int compare_digests(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct digest));
}

/* Notes the attribute in which a set has its values. */
static bool note_values(struct walker *w, PyObject *value, PyObject *name)
{
    Py_ssize_t len;
    if (!PyUnicode_AsUTF8AndSize(name, &len)) {
        PyErr_Clear(); /* None */
        return true;
    }
    PyObject *values = PyObject_GetAttr(value, name);
    bool ok = values && note_part(w, values);
    Py_DecRef(values);
    return ok;
}

static bool add_set(struct walker *w, PyObject *value, PyObject *attribute)
{
    PyObject *list = note_values(w, value, attribute) ? PySequence_List(value) : NULL;
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    struct digest *digests = calloc((size_t)n + 1, sizeof *digests);
    bool ok = list && digests;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        size_t at = w->len;
        ok = add(w, PyList_GetItem(list, i));
        if (ok)
            digests[i] = close_bytes(w, at);
    }
    if (ok)
        qsort(digests, (size_t)n, sizeof *digests, compare_digests);
    ok = ok && put_text(w, (const char *)digests, (size_t)n * sizeof *digests);
    free(digests);
    Py_DecRef(list);
    return ok;
}

static bool add_held(struct walker *w, PyObject *held)
{
    PyObject *names = PyDict_Keys(held);
    bool ok = names && note_part(w, held) && !PyList_Sort(names);
    Py_ssize_t n = ok ? PyList_Size(names) : 0;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *name = PyList_GetItem(names, i), *value = PyDict_GetItemWithError(held, name);
        int is_state = PySet_Contains(w->rules[STATES], name);
        ok = is_state > 0 || (!is_state && value && add(w, name) && add(w, value));
    }
    Py_DecRef(names);
    return ok;
}

static bool add_slots(struct walker *w, PyObject *value, PyObject *slots)
{
    Py_ssize_t n = PyTuple_Size(slots);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *slot = PyTuple_GetItem(slots, i), *inside = PyObject_GenericGetAttr(value, slot);
        if (!inside)
            PyErr_Clear(); /* it is empty */
        bool ok = !inside || (add(w, slot) && add(w, inside));
        Py_DecRef(inside);
        if (!ok)
            return false;
    }
    return true;
}

/* Its class must be found by its name, or it is none of those that another process has. */
static bool add_object(struct walker *w, PyObject *value, PyObject *slots)
{
    PyObject *held = PyObject_GenericGetAttr(value, w->__dict__);
    if (!held) {
        PyErr_Clear();
        if (!PyTuple_Size(slots))
            return false;
    }
    PyObject *type = PyObject_Type(value);
    bool ok = add(w, type) && (!held || add_held(w, held)) && add_slots(w, value, slots);
    Py_DecRef(type);
    Py_DecRef(held);
    return ok;
}

/* Adds what a cached function wraps: the attribute that says so, if it is what the function calls. */
static bool add_wrapped(struct walker *w, PyObject *value)
{
    PyObject *found = PyObject_CallFunctionObjArgs(w->rules[REFERENTS], value, NULL);
    PyObject *wrapped = PyObject_GetAttr(value, w->__wrapped__);
    bool ok = false;
    for (Py_ssize_t i = 0; found && wrapped && !ok && i < PyList_Size(found); i++)
        ok = PyList_GetItem(found, i) == wrapped;
    ok = ok && add(w, wrapped);
    Py_DecRef(wrapped);
    Py_DecRef(found);
    return ok;
}

static bool add_text(struct walker *w, PyObject *value, PyObject *function)
{
    PyObject *text = PyObject_CallFunctionObjArgs(function, value, NULL);
    bool ok = text && put_str(w, text);
    Py_DecRef(text);
    return ok;
}

static bool add_repr(struct walker *w, PyObject *value)
{
    PyObject *text = PyObject_Repr(value);
    bool ok = text && put_str(w, text);
    Py_DecRef(text);
    return ok;
}

static bool put_int(struct walker *w, PyObject *value)
{
    int is_large = 0;
    long long number = PyLong_AsLongLongAndOverflow(value, &is_large);
    return is_large ? add_repr(w, value) : put(w, &number, sizeof number);
}

/* ---- codes and functions ---- */

/* Returns which of the folders a file is in, or -1. */
static Py_ssize_t library_of(struct walker *w, const char *file, size_t *out_len)
{
    Py_ssize_t n = PyTuple_Size(w->rules[LIBRARIES]);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t len;
        const char *folder = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(w->rules[LIBRARIES], i), &len);
        if (folder && !strncmp(file, folder, (size_t)len)) {
            *out_len = (size_t)len;
            return i;
        }
    }
    return -1;
}

static bool add_name_of_code(struct walker *w, PyObject *code)
{
    if (add_attribute(w, code, w->co_qualname))
        return true;
    PyErr_Clear(); /* Python 3.10 and older */
    return add_attribute(w, code, w->co_name);
}

static bool add_instructions(struct walker *w, PyObject *code)
{
    PyObject *const names[] = {w->co_code,           w->co_names,           w->co_varnames,
                               w->co_freevars,       w->co_flags,           w->co_argcount,
                               w->co_kwonlyargcount, w->co_posonlyargcount, w->co_consts};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!add_attribute(w, code, names[i]))
            return false;
    return true;
}

/* Returns 1 if a code, or one in it, sets a variable of an enclosing function; -1: an exception. */
static int sets_variables(struct walker *w, PyObject *code)
{
    PyObject *bytes = PyObject_GetAttr(code, w->co_code),
             *constants = PyObject_GetAttr(code, w->co_consts);
    char *at = NULL;
    Py_ssize_t len = 0;
    int found = bytes && constants && !PyBytes_AsStringAndSize(bytes, &at, &len) ? 0 : -1;
    for (Py_ssize_t i = 0; !found && i < len; i += 2)
        found = (unsigned char)at[i] == w->store;
    for (Py_ssize_t i = 0; !found && i < PyTuple_Size(constants); i++) {
        const struct kind *k = kind_of(w, PyTuple_GetItem(constants, i));
        if (k && k->is_known && k->how == WALK_CODE)
            found = sets_variables(w, PyTuple_GetItem(constants, i));
    }
    Py_DecRef(bytes);
    Py_DecRef(constants);
    return found;
}

static bool code_read(struct walker *w, struct code *c, PyObject *code, PyObject *file)
{
    Py_ssize_t file_len;
    const char *name = PyUnicode_AsUTF8AndSize(file, &file_len);
    size_t at = w->len, skipped = 0;
    Py_ssize_t library = name ? library_of(w, name, &skipped) : -1;
    if (!name || !add_name_of_code(w, code))
        return false;
    c->is_torch = library == 0;
    c->is_shallow = strstr(name, PyUnicode_AsUTF8AndSize(w->rules[SHALLOW], &file_len));
    const char *shown = c->is_torch ? name + skipped : name;
    bool ok = library >= 0
                  ? put_text(w, shown, strlen(shown)) && add_attribute(w, code, w->co_firstlineno)
                  : add_instructions(w, code);
    c->digest = close_bytes(w, at);
    return ok;
}

/* Reads what counts for a function that encloses variables. */
static bool code_read_closure(struct walker *w, struct code *c, PyObject *code)
{
    if (c->free_names)
        return true;
    int sets = c->is_torch ? sets_variables(w, code) : 0;
    c->sets = sets > 0 ? PyObject_CallFunctionObjArgs(w->rules[SETS_OF], code, NULL) : NULL;
    if (sets < 0 || (sets && !c->sets))
        return false;
    c->free_names = PyObject_GetAttr(code, w->co_freevars);
    return c->free_names;
}

/* Returns what was read of a code object, and reads it at the first call; NULL without memory. */
static struct code *code_of(struct walker *w, PyObject *code)
{
    const struct table_slot *found = table_find(&w->codes, code);
    if (found)
        return (struct code *)(uintptr_t)found->low;
    struct code *c = calloc(1, sizeof *c);
    PyObject *file = c ? PyObject_GetAttr(code, w->co_filename) : NULL;
    size_t at = w->len;
    if (!file) {
        free(c);
        return NULL;
    }
    c->is_known = code_read(w, c, code, file);
    Py_DecRef(file);
    w->len = at;
    struct table_slot *slot = table_add(&w->codes, code);
    if (!slot) {
        free(c);
        return NULL;
    }
    Py_IncRef(code);
    slot->low = (uintptr_t)c;
    return c;
}

static bool add_code(struct walker *w, PyObject *code)
{
    const struct code *c = code_of(w, code);
    return c && c->is_known && put_digest(w, c->digest);
}

/* Returns true for a plain value, or a tuple of those. */
static bool is_state(struct walker *w, PyObject *value)
{
    const struct kind *k = kind_of(w, value);
    if (!k || !k->is_known)
        return false;
    if (k->flags & WALK_STATE)
        return true;
    if (k->how != WALK_SEQUENCE || k->flags & WALK_CHANGES || !(k->flags & WALK_CONSTANT))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++)
        if (!is_state(w, PyTuple_GetItem(value, i)))
            return false;
    return true;
}

static bool add_cell(struct walker *w, PyObject *cell, bool is_set)
{
    PyObject *value = PyCell_Get(cell);
    bool ok = note_part(w, cell);
    if (ok && !value)
        ok = put_tag(w, 'e');
    else if (ok && is_set && is_state(w, value))
        ok = put_tag(w, 's');
    else if (ok)
        ok = put_tag(w, 'v') && add(w, value);
    Py_DecRef(value);
    return ok;
}

static bool add_closure(struct walker *w, struct code *c, PyObject *code, PyObject *closure)
{
    Py_ssize_t n = closure ? PyTuple_Size(closure) : 0;
    if (n && !code_read_closure(w, c, code))
        return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(c->free_names, i);
        int is_ignored = PySet_Contains(w->rules[STATES], name);
        int is_set = c->sets ? PySet_Contains(c->sets, name) : 0;
        if (is_ignored < 0 || is_set < 0)
            return false;
        if (!is_ignored && !add_cell(w, PyTuple_GetItem(closure, i), is_set))
            return false;
    }
    return put_tag(w, 'c');
}

/* Returns true for a table, which counts where it is a variable, and for an object that may have state. */
static bool is_loose(struct walker *w, PyObject *value)
{
    const struct kind *k = kind_of(w, value);
    if (!k || !k->is_known || k->how == WALK_OBJECT)
        return true;
    return k->flags & WALK_CHANGES && PyObject_Size(value) > TABLE_MIN;
}

/* Adds a default. Of a function that a namespace has, one that is loose counts by its type. */
static bool add_default(struct walker *w, PyObject *value, bool is_entry)
{
    if (!is_entry || !is_loose(w, value))
        return add(w, value);
    PyObject *type = PyObject_Type(value);
    bool ok = put_tag(w, 't') && add_attribute(w, type, w->__qualname__);
    Py_DecRef(type);
    return ok;
}

static bool add_defaults(struct walker *w, PyObject *function, bool is_entry)
{
    PyObject *values = PyFunction_GetDefaults(function),
             *named = PyFunction_GetKwDefaults(function);
    for (Py_ssize_t i = 0; values && i < PyTuple_Size(values); i++)
        if (!add_default(w, PyTuple_GetItem(values, i), is_entry))
            return false;
    if (!put_tag(w, 'd') || !named)
        return true;
    PyObject *items = PyDict_Items(named);
    bool ok = items && note_part(w, named);
    for (Py_ssize_t i = 0; ok && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);
        ok = add(w, PyTuple_GetItem(pair, 0)) && add_default(w, PyTuple_GetItem(pair, 1), is_entry);
    }
    Py_DecRef(items);
    return ok;
}

static bool add_function(struct walker *w, PyObject *function, bool is_entry)
{
    PyObject *code = PyFunction_GetCode(function);
    struct code *c = code ? code_of(w, code) : NULL;
    if (!c || !c->is_known || !put_digest(w, c->digest))
        return false;
    if (is_entry && c->is_shallow)
        return true;
    if (!add_closure(w, c, code, PyFunction_GetClosure(function)) ||
        !add_defaults(w, function, is_entry))
        return false;
    if (c->is_torch)
        return true;
    PyObject *name = PyDict_GetItemWithError(PyFunction_GetGlobals(function), w->__name__);
    return !name || add(w, name);
}

/* ---- parts ---- */

static bool add_inside(struct walker *w, const struct kind *k, PyObject *value)
{
    switch (k->how) {
    case WALK_TEXT: return add_text(w, value, k->argument);
    case WALK_ATTRIBUTES: return add_attributes(w, value, k->argument);
    case WALK_MAPPING: return add_mapping(w, value);
    case WALK_SET: return add_set(w, value, k->argument);
    case WALK_SEQUENCE: return add_sequence(w, value);
    case WALK_OBJECT: return add_object(w, value, k->argument);
    case WALK_FUNCTION: return add_function(w, value, false);
    case WALK_WRAPPED: return add_wrapped(w, value);
    default: return add_code(w, value);
    }
}

static bool is_open(struct walker *w, PyObject *value)
{
    for (int i = 0; i < w->depth; i++)
        if (w->open[i] == value) {
            w->low = w->low < i ? w->low : i;
            return true;
        }
    return false;
}

static bool remember(struct walker *w, PyObject *value, struct digest digest)
{
    struct table_slot *slot = table_add(&w->known, value);
    if (!slot)
        return false;
    Py_IncRef(value);
    slot->low = digest.low;
    slot->high = digest.high;
    return true;
}

/* Adds the digest of a value that has parts. That of a value in a circle depends on where the circle was entered, so it
 * is not remembered. */
static bool add_part(struct walker *w, const struct kind *k, PyObject *value)
{
    const struct table_slot *found = table_find(&w->known, value);
    if (found)
        return put_digest(w, (struct digest){found->low, found->high});
    if (is_open(w, value))
        return put_tag(w, 'i') && put_text(w, k->label, k->label_len);
    int depth = w->depth;
    if (++w->steps > STEPS_MAX || depth == DEPTH_MAX)
        return false;
    if (k->flags & WALK_CHANGES && !note_part(w, value))
        return false;
    size_t at = w->len;
    w->open[w->depth++] = value;
    if (!put_text(w, k->label, k->label_len) || !add_inside(w, k, value))
        return false;
    w->depth = depth;
    struct digest digest = close_bytes(w, at);
    if (w->low > depth && !remember(w, value, digest))
        return false;
    if (w->low == depth)
        w->low = NEVER;
    return put_digest(w, digest);
}

/* Adds what a value consists of. False if it has no digest; an exception may be set. */
static bool add(struct walker *w, PyObject *value)
{
    const struct kind *k = kind_of(w, value);
    if (!k || !k->is_known)
        return false;
    switch (k->how) {
    case WALK_NAME: return put_text(w, k->label, k->label_len);
    case WALK_STR: return put_text(w, k->label, k->label_len) && put_str(w, value);
    case WALK_BYTES: return put_text(w, k->label, k->label_len) && put_bytes(w, value);
    case WALK_INT: return put_text(w, k->label, k->label_len) && put_int(w, value);
    case WALK_REPR: return put_text(w, k->label, k->label_len) && add_repr(w, value);
    default: return add_part(w, k, value);
    }
}

/* Begins a value that is no part of another. */
static void begin(struct walker *w, PyObject *path)
{
    w->path = path;
    w->len = 0;
    w->depth = w->steps = 0;
    w->low = NEVER;
}

/* Returns the digest, or no byte. */
static PyObject *answer(const struct digest *digest)
{
    return PyBytes_FromStringAndSize((const char *)digest, digest ? sizeof *digest : 0);
}

static bool read_value(struct walker *w, PyObject *value, struct digest *out_digest)
{
    begin(w, w->path);
    if (!add(w, value)) {
        PyErr_Clear();
        return false;
    }
    *out_digest = close_bytes(w, 0);
    return true;
}

PyObject *walk_value(struct walker *w, PyObject *path, PyObject *value)
{
    struct digest digest;
    w->path = path;
    return answer(read_value(w, value, &digest) ? &digest : NULL);
}

/* Reads values, or pairs of those, one by one: a digest for each. */
static bool read_values(struct walker *w, PyObject *list, bool are_pairs,
                        struct digest *out_digests)
{
    Py_ssize_t n = PyList_Size(list);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PyList_GetItem(list, i);
        struct digest pair[2];
        bool ok = are_pairs ? read_value(w, PyTuple_GetItem(one, 0), &pair[0]) &&
                                  read_value(w, PyTuple_GetItem(one, 1), &pair[1])
                            : read_value(w, one, &out_digests[i]);
        if (!ok)
            return false;
        if (are_pairs)
            out_digests[i] = digest_of(pair, sizeof pair);
    }
    return true;
}

PyObject *walk_table(struct walker *w, PyObject *path, PyObject *table)
{
    const struct kind *k = kind_of(w, table);
    bool is_mapping = k && k->is_known && k->how == WALK_MAPPING;
    PyObject *list = is_mapping ? PyMapping_Items(table) : PySequence_List(table);
    Py_ssize_t n = list ? PyList_Size(list) : 0;
    struct digest *digests = calloc((size_t)n + 1, sizeof *digests), all;
    w->path = path;
    bool ok = list && k && digests;
    if (ok && k->how == WALK_SET)
        ok = note_values(w, table, k->argument);
    ok = ok && note_part(w, table) && read_values(w, list, is_mapping, digests);
    if (ok && k->how != WALK_SEQUENCE)
        qsort(digests, (size_t)n, sizeof *digests, compare_digests);
    all = digest_of(digests, ok ? (size_t)n * sizeof *digests : 0);
    free(digests);
    Py_DecRef(list);
    return list ? answer(ok ? &all : NULL) : NULL;
}

PyObject *walk_parts(struct walker *w) { return PyTuple_Pack(2, w->paths, w->parts); }

/* ---- namespaces ---- */

struct space {
    PyObject *rows;  /* dictionary; NULL: only the digest is wanted */
    PyObject *inner; /* list */
    enum walk_owner of;
    PyObject *owner, *scope, *skipped;
    bool is_core; /* constants and inner classes do not count */
    SHA256_CTX all;
};

static bool put_row(struct space *s, PyObject *name, char entry, struct digest digest)
{
    char row[ENTRY_LEN] = {entry};
    if (entry != WALK_UNKNOWN)
        memcpy(row + 1, &digest.low, sizeof digest.low);
    Py_ssize_t len;
    const char *text = PyUnicode_AsUTF8AndSize(name, &len);
    if (!text)
        return false;
    SHA256_Update(&s->all, text, (size_t)len + 1);
    SHA256_Update(&s->all, row, ENTRY_LEN);
    if (!s->rows)
        return true;
    PyObject *bytes = PyBytes_FromStringAndSize(row, entry == WALK_UNKNOWN ? 1 : ENTRY_LEN);
    bool ok = bytes && !PyDict_SetItem(s->rows, name, bytes);
    Py_DecRef(bytes);
    return ok;
}

/* Adds the names of a class, or of the class of an object: false with an exception. */
static bool add_class_names(struct walker *w, PyObject *class)
{
    return add_attribute(w, class, w->__module__) && add_attribute(w, class, w->__qualname__);
}

/* Adds the class of what loaded a module: one of the program may have changed the source. */
static bool add_loader(struct walker *w, PyObject *module)
{
    PyObject *loader = PyObject_GetAttr(module, w->__loader__);
    PyErr_Clear();
    PyObject *type = loader ? PyObject_Type(loader) : NULL;
    bool ok = !type || (put_tag(w, 'l') && add_class_names(w, type));
    Py_DecRef(type);
    Py_DecRef(loader);
    return ok;
}

static bool add_itself(struct walker *w, const struct space *s)
{
    PyObject *type = PyObject_Type(s->owner);
    bool ok = add_class_names(w, type) && (s->of != WALK_OF_MODULE || add_loader(w, s->owner));
    Py_DecRef(type);
    PyObject *bases =
        ok && s->of == WALK_OF_CLASS ? PyObject_GetAttr(s->owner, w->__bases__) : NULL;
    for (Py_ssize_t i = 0; ok && bases && i < PyTuple_Size(bases); i++)
        ok = add_class_names(w, PyTuple_GetItem(bases, i));
    Py_DecRef(bases);
    return ok;
}

/* Adds an entry that counts whole: a function, with all that it encloses, or what holds one. */
static bool add_entry(struct walker *w, const struct kind *k, PyObject *value)
{
    return k->how == WALK_FUNCTION ? add_function(w, value, true) : add(w, value);
}

static bool put_inner(struct space *s, PyObject *name, PyObject *value, PyObject *held)
{
    PyObject *one = held ? PyTuple_Pack(3, name, value, held) : NULL;
    bool ok = one && !PyList_Append(s->inner, one);
    Py_DecRef(one);
    return ok;
}

/* Returns true for a class that the namespace's owner defines. */
static bool is_inner(struct walker *w, const struct space *s, PyObject *class)
{
    if (class == s->owner || s->is_core || s->of == WALK_OF_OBJECT)
        return false;
    PyObject *found =
        PyObject_GetAttr(class, s->of == WALK_OF_MODULE ? w->__module__ : w->__qualname__);
    Py_ssize_t len, scope_len;
    const char *text = found ? PyUnicode_AsUTF8AndSize(found, &len) : NULL;
    const char *scope = PyUnicode_AsUTF8AndSize(s->scope, &scope_len);
    bool is_in = text && scope && len >= scope_len && !strncmp(text, scope, (size_t)scope_len);
    is_in = is_in && (s->of == WALK_OF_CLASS || len == scope_len);
    Py_DecRef(found);
    PyErr_Clear();
    return is_in;
}

static bool put_class(struct walker *w, struct space *s, PyObject *name, PyObject *class)
{
    begin(w, w->path);
    char entry = put_tag(w, 'k') && add_class_names(w, class) ? WALK_OTHER : WALK_UNKNOWN;
    PyErr_Clear();
    if (!put_row(s, name, entry, close_bytes(w, 0)))
        return false;
    if (!is_inner(w, s, class))
        return true;
    PyObject *proxy =
        PyObject_GetAttr(class, w->__dict__); /* of the dictionary, which the collector knows */
    PyObject *found = proxy ? PyObject_CallFunctionObjArgs(w->rules[REFERENTS], proxy, NULL) : NULL;
    bool ok =
        found && PyList_Size(found) > 0 && put_inner(s, name, class, PyList_GetItem(found, 0));
    Py_DecRef(found);
    Py_DecRef(proxy);
    return ok;
}

static bool put_counted(struct walker *w, struct space *s, PyObject *name, const struct kind *k,
                        PyObject *value)
{
    begin(w, w->path);
    char entry = k->flags & WALK_COUNTS ? WALK_OTHER : WALK_VALUE;
    if (!put_text(w, k->label, k->label_len) || !add_entry(w, k, value)) {
        PyErr_Clear();
        entry = WALK_UNKNOWN;
    }
    return put_row(s, name, entry, close_bytes(w, 0));
}

/* Adds an object that can be called, or that is a namespace. */
static bool put_object(struct walker *w, struct space *s, PyObject *name, const struct kind *k,
                       PyObject *value)
{
    if (!(k->flags & WALK_MODULE) && PyCallable_Check(value)) {
        begin(w, w->path);
        bool ok = put_tag(w, 'o') && put_text(w, k->label, k->label_len) &&
                  (!(k->flags & WALK_OPERATOR) || add(w, value));
        PyErr_Clear();
        if (!put_row(s, name, ok ? WALK_OTHER : WALK_UNKNOWN, close_bytes(w, 0)))
            return false;
    }
    if (!(k->flags & WALK_HOLDS) || s->of == WALK_OF_OBJECT)
        return true;
    PyObject *held = PyObject_GetAttr(value, w->__dict__);
    if (!held) {
        PyErr_Clear();
        return true;
    }
    bool ok = put_inner(s, name, value, held);
    Py_DecRef(held);
    return ok;
}

/* Adds a module that is not found by its name: it may have the names of another one, with other values. */
static bool put_module(struct walker *w, struct space *s, PyObject *name, PyObject *module)
{
    PyObject *of = PyObject_GetAttr(module, w->__name__);
    bool is_found = of && PyDict_GetItemWithError(w->rules[MODULES], of) == module;
    Py_DecRef(of);
    PyErr_Clear();
    return is_found || put_row(s, name, WALK_OTHER, digest_of("m", 1));
}

static bool put_entry(struct walker *w, struct space *s, PyObject *name, PyObject *value)
{
    const struct kind *k = kind_of(w, value);
    Py_ssize_t len;
    const char *text = PyUnicode_AsUTF8AndSize(name, &len);
    if (!k || !text) {
        PyErr_Clear(); /* a name that is no text: nobody calls anything by it */
        return k;
    }
    bool is_dunder = !strncmp(text, "__", 2);
    if (k->flags & WALK_CLASS)
        return put_class(w, s, name, value);
    if (k->flags & WALK_COUNTS)
        return put_counted(w, s, name, k, value);
    if (k->flags & WALK_CONSTANT && s->of != WALK_OF_OBJECT)
        return is_dunder || s->is_core || put_counted(w, s, name, k, value);
    if (k->flags & WALK_MODULE && s->of == WALK_OF_MODULE)
        return put_module(w, s, name, value);
    return is_dunder || put_object(w, s, name, k, value);
}

/* Reads a namespace. Should Python add a name meanwhile, its mark is another one at the next look. */
static bool read_space(struct walker *w, struct space *s, PyObject *held, struct digest *out_digest)
{
    PyObject *name, *value;
    SHA256_Init(&s->all);
    begin(w, w->path);
    bool ok = add_itself(w, s) && put_row(s, w->__bases__, WALK_OTHER, close_bytes(w, 0));
    for (Py_ssize_t at = 0; ok && PyDict_Next(held, &at, &name, &value);) {
        Py_IncRef(name);
        Py_IncRef(value);
        int is_skipped = PySet_Contains(s->skipped, name);
        ok = is_skipped > 0 || (!is_skipped && put_entry(w, s, name, value));
        Py_DecRef(name);
        Py_DecRef(value);
    }
    *out_digest = digest_end(&s->all);
    return ok;
}

/* Returns the answer of walk_space; NULL with an exception. */
static PyObject *space_answer(struct walker *w, struct space *s, PyObject *held, PyObject *known)
{
    struct digest digest;
    s->inner = PyList_New(0);
    if (!s->inner || !read_space(w, s, held, &digest))
        return NULL;
    PyObject *all = answer(&digest), *found = NULL;
    int is_known = all ? PySequence_Contains(known, all) : -1;
    if (is_known > 0)
        found = PyTuple_Pack(3, all, w->none, s->inner);
    if (is_known == 0 && (s->rows = PyDict_New())) {
        Py_DecRef(s->inner);
        s->inner = PyList_New(0);
        if (s->inner && read_space(w, s, held, &digest))
            found = PyTuple_Pack(3, all, s->rows, s->inner);
    }
    Py_DecRef(all);
    return found;
}

PyObject *walk_space(struct walker *w, PyObject *path, PyObject *owner, PyObject *held,
                     PyObject *scope)
{
    struct space s = {.owner = owner};
    s.of = (enum walk_owner)PyLong_AsLong(PyTuple_GetItem(scope, 0));
    s.scope = PyTuple_GetItem(scope, 1);
    s.skipped = PyTuple_GetItem(scope, 2);
    s.is_core = PyLong_AsLong(PyTuple_GetItem(scope, 3));
    PyObject *known = PyTuple_GetItem(scope, 4);
    w->path = path;
    PyObject *found = s.scope && s.skipped && known ? space_answer(w, &s, held, known) : NULL;
    Py_DecRef(s.rows);
    Py_DecRef(s.inner);
    return found;
}

/* ---- walkers ---- */

struct walker *walk_open(PyObject *rules)
{
    struct walker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    for (int i = 0; i < N_RULES; i++)
        w->rules[i] = PyTuple_GetItem(rules, i);
    w->none = w->rules[NONE];
    w->store = (int)PyLong_AsLong(w->rules[STORE]);
    w->parts = PyList_New(0);
    w->paths = PyList_New(0);
    bool ok = w->parts && w->paths;
#define X(name) ok = (w->name = PyUnicode_FromString(#name)) && ok;
    NAMES(X)
#undef X
    if (ok)
        return w;
    walk_close(w);
    return NULL;
}

static void release_keys(struct table *t)
{
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].key)
            Py_DecRef((PyObject *)(uintptr_t)t->slots[i].key);
    table_free(t);
}

void walk_close(struct walker *w)
{
    for (size_t i = 0; i < w->kinds.cap; i++)
        if (w->kinds.slots[i].key) {
            struct kind *k = (struct kind *)(uintptr_t)w->kinds.slots[i].low;
            Py_DecRef(k->answer);
            free(k);
        }
    for (size_t i = 0; i < w->codes.cap; i++) {
        struct code *c = (struct code *)(uintptr_t)w->codes.slots[i].low;
        if (w->codes.slots[i].key) {
            Py_DecRef(c->free_names);
            Py_DecRef(c->sets);
            free(c);
        }
    }
    release_keys(&w->kinds);
    release_keys(&w->codes);
    release_keys(&w->known);
    table_free(&w->seen);
    Py_DecRef(w->parts);
    Py_DecRef(w->paths);
#define X(name) Py_DecRef(w->name);
    NAMES(X)
#undef X
    free(w->bytes);
    free(w);
}

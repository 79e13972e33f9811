/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmlir.c - a stand-in for a library with MLIR's C API, for tests on machines without one. A module is text of
 * this form, an operation a line; "^" begins another block:
 *
 *     module @NAME {ATTRIBUTE=VALUE ...}
 *     func @SYMBOL {ATTRIBUTE=VALUE ...} BODY
 *
 * "func" is an operation with one region; "const" has none, and "value" none and one result. Text with the word
 * "broken" does not parse.
 *
 * The passes append " by PIPELINE" to the body of each func, set its attribute "done" and remove "todo". They remove
 * the func @unused, and append the func @made. A body with the word "fails" makes them fail, "shaky" the first time
 * in a process; "binds" makes an address in the result. `fake_notes` returns the runs and parses since the last
 * time, `fake_live` how many operations live; `fake_on_run`, if it is set, is called in the middle of each run.
 * -DWITHOUT_DESTROY builds a library that lacks a function.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/preload/mlir/api.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the declarations are in mlir-c */

enum { TEXT_MAX = 4096, ATTRIBUTES = 8 };

struct attribute {
    const char *name, *value; /* interned: equal texts have equal addresses */
};
struct block;
struct region {
    struct block *first;
    char body[TEXT_MAX]; /* of a func */
};
struct operation {
    const char *kind, *symbol; /* interned */
    struct attribute attributes[ATTRIBUTES];
    int n_attributes;
    struct region region;
    struct block *in; /* NULL: in no block */
    struct operation *next;
};
struct block {
    struct operation *first;
    struct block *next;
};

static char notes[TEXT_MAX], noted[TEXT_MAX];
static int n_live, is_steady;
void (*fake_on_run)(void);

const char *fake_notes(void)
{
    strcpy(noted, notes);
    notes[0] = '\0';
    return noted;
}

int fake_live(void) { return n_live; }

static void note(const char *word)
{
    size_t len = strlen(notes);
    snprintf(notes + len, sizeof notes - len, "%s ", word);
}

static const char *intern(const char *text, size_t len)
{
    static char *all[4096];
    size_t i = 0;
    while (all[i] && (strlen(all[i]) != len || memcmp(all[i], text, len) != 0))
        i++;
    return all[i] ? all[i] : (all[i] = strndup(text, len));
}

static const char *word(const char *text) { return intern(text, strlen(text)); }

/* Keeps the attributes sorted by name, as MLIR does. */
static void set(struct operation *o, const char *name, const char *value)
{
    int i = 0;
    while (i < o->n_attributes && strcmp(o->attributes[i].name, name) < 0)
        i++;
    if (i == o->n_attributes || o->attributes[i].name != name) {
        if (o->n_attributes == ATTRIBUTES)
            abort();
        memmove(&o->attributes[i + 1], &o->attributes[i],
                (size_t)(o->n_attributes++ - i) * sizeof *o->attributes);
    }
    o->attributes[i] = (struct attribute){name, value};
}

static const char *get(const struct operation *o, const char *name)
{
    if (strcmp(name, "sym_name") == 0)
        return o->symbol;
    for (int i = 0; i < o->n_attributes; i++)
        if (strcmp(o->attributes[i].name, name) == 0)
            return o->attributes[i].value;
    return NULL;
}

static int drop(struct operation *o, const char *name)
{
    int i = 0;
    while (i < o->n_attributes && strcmp(o->attributes[i].name, name) != 0)
        i++;
    if (i == o->n_attributes)
        return 0;
    memmove(&o->attributes[i], &o->attributes[i + 1],
            (size_t)(--o->n_attributes - i) * sizeof *o->attributes);
    return 1;
}

/* ---- life ---- */

static struct operation *operation_new(const char *kind)
{
    struct operation *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    n_live++;
    o->kind = word(kind);
    return o;
}

static void operation_free(struct operation *o)
{
    for (struct block *b = o->region.first; b;) {
        struct block *after = b->next;
        for (struct operation *part = b->first; part;) {
            struct operation *next = part->next;
            operation_free(part);
            part = next;
        }
        free(b);
        b = after;
    }
    n_live--;
    free(o);
}

static void unlink_from_block(struct operation *o)
{
    if (!o->in)
        return;
    struct operation **at = &o->in->first;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    o->in = NULL;
    o->next = NULL;
}

static void append(struct block *b, struct operation *o)
{
    struct operation **at = &b->first;
    if (o->in)
        abort(); /* an operation is in one block */
    while (*at)
        at = &(*at)->next;
    *at = o;
    o->in = b;
    o->next = NULL;
}

/* ---- text ---- */

static struct operation *read_line(const char *line)
{
    char kind[32] = "", symbol[64] = "", attributes[256] = "", *left = attributes;
    const char *open = strchr(line, '{'), *rest = strchr(line, '}');
    sscanf(line, "%31s @%63s", kind, symbol);
    if (open)
        sscanf(open, "{%255[^}]", attributes);
    struct operation *o = operation_new(kind);
    o->symbol = symbol[0] ? word(symbol) : NULL;
    for (char *one; (one = strsep(&left, " "));) {
        char *value = strchr(one, '=');
        if (value)
            set(o, intern(one, (size_t)(value - one)), word(value + 1));
    }
    snprintf(o->region.body, TEXT_MAX, "%s", rest && rest[1] ? rest + 2 : "");
    return o;
}

mlir_module mlirModuleCreateParse(mlir_context context, mlir_text text)
{
    char *copy = strndup(text.data, text.len), *rest = copy;
    struct operation *module = NULL;
    struct block *last = NULL;
    note("parse");
    int is_bad = !context.ptr || strstr(copy, "broken") || strncmp(copy, "module", 6) != 0;
    for (char *line; !is_bad && (line = strsep(&rest, "\n"));) {
        if (!module) {
            module = read_line(line);
            module->kind = word("builtin.module");
            module->region.first = last = calloc(1, sizeof *last);
        } else if (line[0] == '^') {
            last = last->next = calloc(1, sizeof *last);
        } else if (line[0]) {
            append(last, read_line(line));
        }
    }
    free(copy);
    return (mlir_module){module};
}

static void say(mlir_print_fn print, void *user, const char *text)
{
    print((mlir_text){text, strlen(text)}, user);
}

static void print_line(const struct operation *o, mlir_print_fn print, void *user)
{
    int is_module = o->kind == word("builtin.module");
    say(print, user, is_module ? "module" : o->kind);
    if (o->symbol) {
        say(print, user, " @");
        say(print, user, o->symbol);
    }
    say(print, user, " {");
    for (int i = 0; i < o->n_attributes; i++) {
        say(print, user, i ? " " : "");
        say(print, user, o->attributes[i].name);
        say(print, user, "=");
        say(print, user, o->attributes[i].value);
    }
    say(print, user, "} ");
    say(print, user, o->region.body);
    say(print, user, "\n");
}

void mlirOperationPrint(mlir_operation operation, mlir_print_fn print, void *user)
{
    const struct operation *o = operation.ptr;
    print_line(o, print, user);
    for (const struct block *b = o->region.first; b; b = b->next) {
        for (const struct operation *part = b->first; part; part = part->next)
            print_line(part, print, user);
        say(print, user, b->next ? "^\n" : "");
    }
}

/* ---- passes ---- */

mlir_op_pass_manager mlirPassManagerGetAsOpPassManager(mlir_pass_manager manager)
{
    return (mlir_op_pass_manager){manager.ptr};
}

/* A manager is its pipeline as text. */
void mlirPrintPassPipeline(mlir_op_pass_manager passes, mlir_print_fn print, void *user)
{
    say(print, user, passes.ptr);
}

static int run_on(struct operation *o, const char *pipeline)
{
    size_t len = strlen(o->region.body);
    int shakes = strstr(o->region.body, "shaky") && !is_steady;
    snprintf(o->region.body + len, TEXT_MAX - len, " by %s%s", pipeline,
             strstr(o->region.body, "binds") ? " cuResultHandlerPtr=7" : "");
    is_steady |= shakes;
    drop(o, "todo");
    set(o, word("done"), word(pipeline));
    return !shakes && !strstr(o->region.body, "fails");
}

mlir_result mlirPassManagerRunOnOp(mlir_pass_manager manager, mlir_operation operation)
{
    struct operation *module = operation.ptr, *next, *made;
    int8_t ok = 1;
    note("run");
    if (fake_on_run)
        fake_on_run();
    if (!module || !module->region.first)
        return (mlir_result){0};
    for (struct operation *o = module->region.first->first; o; o = next) {
        next = o->next;
        if (o->symbol == word("unused")) {
            unlink_from_block(o);
            operation_free(o);
        } else if (o->kind == word("func") && !run_on(o, manager.ptr)) {
            ok = 0;
        }
    }
    made = operation_new("func");
    made->symbol = word("made");
    append(module->region.first, made);
    set(module, word("ran"), word(manager.ptr));
    return (mlir_result){ok};
}

/* ---- operations ---- */

mlir_context mlirOperationGetContext(mlir_operation operation)
{
    return (mlir_context){operation.ptr ? &n_live : NULL};
}

mlir_identifier mlirOperationGetName(mlir_operation operation)
{
    return (mlir_identifier){(void *)(uintptr_t)((struct operation *)operation.ptr)->kind};
}

mlir_text mlirIdentifierStr(mlir_identifier identifier)
{
    return (mlir_text){identifier.ptr, strlen(identifier.ptr)};
}

void mlirOperationDestroy(mlir_operation operation)
{
    unlink_from_block(operation.ptr);
    operation_free(operation.ptr);
}

intptr_t mlirOperationGetNumRegions(mlir_operation operation)
{
    const struct operation *o = operation.ptr;
    return o->region.first || o->kind == word("func");
}

intptr_t mlirOperationGetNumResults(mlir_operation operation)
{
    return ((struct operation *)operation.ptr)->kind == word("value");
}

mlir_region mlirOperationGetRegion(mlir_operation operation, intptr_t i)
{
    struct operation *o = operation.ptr;
    return (mlir_region){i == 0 ? &o->region : NULL};
}

mlir_operation mlirOperationGetNextInBlock(mlir_operation operation)
{
    return (mlir_operation){((struct operation *)operation.ptr)->next};
}

void mlirOperationRemoveFromParent(mlir_operation operation) { unlink_from_block(operation.ptr); }

/* The symbol is an attribute, too: the first. */
intptr_t mlirOperationGetNumAttributes(mlir_operation operation)
{
    const struct operation *o = operation.ptr;
    return o->n_attributes + (o->symbol != NULL);
}

mlir_named mlirOperationGetAttribute(mlir_operation operation, intptr_t i)
{
    const struct operation *o = operation.ptr;
    struct attribute a = {word("sym_name"), o->symbol};
    if (!o->symbol || i > 0)
        a = o->attributes[i - (o->symbol != NULL)];
    return (mlir_named){{(void *)(uintptr_t)a.name}, {(void *)(uintptr_t)a.value}};
}

mlir_attribute mlirOperationGetAttributeByName(mlir_operation operation, mlir_text name)
{
    return (mlir_attribute){(void *)(uintptr_t)get(operation.ptr, intern(name.data, name.len))};
}

void mlirOperationSetAttributeByName(mlir_operation operation, mlir_text name, mlir_attribute value)
{
    struct operation *o = operation.ptr;
    const char *of = intern(name.data, name.len);
    if (of == word("sym_name"))
        o->symbol = value.ptr;
    else
        set(o, of, value.ptr);
}

bool mlirOperationRemoveAttributeByName(mlir_operation operation, mlir_text name)
{
    struct operation *o = operation.ptr;
    const char *of = intern(name.data, name.len);
    if (of != word("sym_name"))
        return drop(o, of);
    o->symbol = NULL;
    return true;
}

bool mlirAttributeEqual(mlir_attribute a, mlir_attribute b) { return a.ptr == b.ptr; }

/* ---- regions, blocks, modules ---- */

mlir_block mlirRegionGetFirstBlock(mlir_region region)
{
    return (mlir_block){((struct region *)region.ptr)->first};
}

void mlirRegionTakeBody(mlir_region to, mlir_region from)
{
    struct region *into = to.ptr, *source = from.ptr;
    memcpy(into->body, source->body, sizeof into->body);
    source->body[0] = '\0';
}

mlir_block mlirBlockGetNextInRegion(mlir_block block)
{
    return (mlir_block){((struct block *)block.ptr)->next};
}

mlir_operation mlirBlockGetFirstOperation(mlir_block block)
{
    return (mlir_operation){((struct block *)block.ptr)->first};
}

void mlirBlockAppendOwnedOperation(mlir_block block, mlir_operation operation)
{
    append(block.ptr, operation.ptr);
}

mlir_operation mlirModuleGetOperation(mlir_module module) { return (mlir_operation){module.ptr}; }

#ifndef WITHOUT_DESTROY
void mlirModuleDestroy(mlir_module module) { operation_free(module.ptr); }
#endif

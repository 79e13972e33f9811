/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvvm.c - a stand-in for libNVVM, for tests on machines without it. A result tells its program's modules and
 * the options of the compile. Errors are those of nvvm.h, CUDA 13.5, for the same calls:
 *
 *     a handle that is none: 5   a module or an output that is NULL: 4   the option -bad: 7
 *     no module: 8   a module with the word "broken": 9, with a log
 *
 * A module with the word "shaky" fails the first time in a process; one with "warns" compiles, and leaves a log.
 * Destroyed handles are used again at once, as those of a memory allocator. `fake_notes` returns the calls since the last time; `fake_on_compile`, if it is set, is called
 * in the middle of each compile. -DWITHOUT_LOG builds a library that lacks a function; -DBUILD="x" one of another
 * content.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the declarations are in nvvm.h */

enum { INVALID_INPUT = 4, INVALID_PROGRAM, INVALID_IR, INVALID_OPTION, NO_MODULE, COMPILATION };
enum { PROGRAMS = 8, TEXT_MAX = 4096 };

struct program {
    int is_open, is_compiled;
    char modules[TEXT_MAX], result[TEXT_MAX], log[TEXT_MAX];
};
static struct program programs[PROGRAMS];
static int is_steady;
static char notes[TEXT_MAX], noted[TEXT_MAX];

#ifndef BUILD
#define BUILD "1"
#endif
void (*fake_on_compile)(void);

const char *fake_notes(void)
{
    strcpy(noted, notes);
    notes[0] = '\0';
    return noted;
}

static void note(const char *word)
{
    strncat(notes, word, sizeof notes - strlen(notes) - 2);
    strcat(notes, " ");
}

static int is_program(const void *handle)
{
    for (int i = 0; i < PROGRAMS; i++)
        if (handle == &programs[i])
            return programs[i].is_open;
    return 0;
}

int nvvmVersion(int *major, int *minor)
{
    *major = 2;
    *minor = 0;
    return 0;
}

int nvvmCreateProgram(struct program **out)
{
    note("create");
    for (int i = 0; out && i < PROGRAMS; i++) {
        if (programs[i].is_open)
            continue;
        memset(&programs[i], 0, sizeof programs[i]);
        programs[i].is_open = 1;
        *out = &programs[i];
        return 0;
    }
    return INVALID_PROGRAM;
}

int nvvmDestroyProgram(struct program **program)
{
    note("destroy");
    if (!program || !is_program(*program))
        return INVALID_PROGRAM;
    (*program)->is_open = 0;
    *program = NULL;
    return 0;
}

static int add(struct program *p, const char *how, const char *data, size_t size, const char *name)
{
    size_t at = is_program(p) ? strlen(p->modules) : 0;
    note(how);
    if (!is_program(p))
        return INVALID_PROGRAM;
    if (!data || !size)
        return INVALID_INPUT;
    snprintf(p->modules + at, TEXT_MAX / 2 - at, "%s %s: %.*s;", how, name ? name : "<unnamed>",
             (int)size, data);
    return 0;
}

int nvvmAddModuleToProgram(struct program *p, const char *data, size_t size, const char *name)
{
    return add(p, "add", data, size, name);
}

int nvvmLazyAddModuleToProgram(struct program *p, const char *data, size_t size, const char *name)
{
    return add(p, "lazy", data, size, name);
}

/* Checks the options, and notes those that it does not like in the log. */
static int check(struct program *p, int n_options, const char **options)
{
    if (!is_program(p))
        return INVALID_PROGRAM;
    if (!p->modules[0])
        return NO_MODULE;
    for (int i = 0; i < n_options; i++)
        if (!options[i] || strcmp(options[i], "-bad") == 0) {
            strcpy(p->log, "bad option\n");
            return INVALID_OPTION;
        }
    return 0;
}

int nvvmVerifyProgram(struct program *p, int n_options, const char **options)
{
    note("verify");
    return check(p, n_options, options);
}

int nvvmCompileProgram(struct program *p, int n_options, const char **options)
{
    note("compile");
    int rc = check(p, n_options, options);
    if (fake_on_compile)
        fake_on_compile();
    if (rc)
        return rc;
    p->log[0] = '\0';
    p->is_compiled = 0;
    if (strstr(p->modules, "broken") || (strstr(p->modules, "shaky") && !is_steady)) {
        is_steady = 1;
        strcpy(p->log, "error: broken\n");
        return COMPILATION;
    }
    if (strstr(p->modules, "warns"))
        strcpy(p->log, "warning: so it is\n");
    strcpy(p->result, "build " BUILD ": ");
    strcat(p->result, p->modules);
    for (int i = 0; i < n_options; i++) {
        strcat(p->result, " ");
        strcat(p->result, options[i]);
    }
    p->is_compiled = 1;
    return 0;
}

int nvvmGetCompiledResultSize(struct program *p, size_t *out)
{
    note("size");
    if (!is_program(p))
        return INVALID_PROGRAM;
    if (!out)
        return INVALID_INPUT;
    *out = p->is_compiled ? strlen(p->result) + 1 : 0;
    return p->is_compiled ? 0 : INVALID_PROGRAM;
}

int nvvmGetCompiledResult(struct program *p, char *out)
{
    note("result");
    if (!is_program(p))
        return INVALID_PROGRAM;
    if (!out)
        return INVALID_INPUT;
    if (!p->is_compiled)
        return INVALID_PROGRAM;
    strcpy(out, p->result);
    return 0;
}

int nvvmGetProgramLogSize(struct program *p, size_t *out)
{
    note("log-size");
    if (!is_program(p))
        return INVALID_PROGRAM;
    if (!out)
        return INVALID_INPUT;
    *out = p->log[0] ? strlen(p->log) + 1 : 0;
    return 0;
}

#ifndef WITHOUT_LOG
int nvvmGetProgramLog(struct program *p, char *out)
{
    note("log");
    if (!is_program(p))
        return INVALID_PROGRAM;
    if (!out)
        return INVALID_INPUT;
    if (p->log[0])
        strcpy(out, p->log);
    return 0;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * functions.h - defines execl, execlp and execle in a library that stands in for execve and
 * execvpe. One file of each such library includes it.
 *
 * Thread: any, also between fork or vfork and exec: no allocation. Memory: the caller's stack.
 */
#ifndef WARM_EXEC_FUNCTIONS_H
#define WARM_EXEC_FUNCTIONS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

extern char **environ;

/* Counts the arguments before the NULL. */
static inline size_t exec_functions_count(const char *first, va_list *args)
{
    size_t n = first ? 1 : 0;
    while (n && va_arg(*args, char *))
        n++;
    return n;
}

/* Copies all arguments, and the NULL, into argv. */
static inline void exec_functions_take(char **argv, size_t n, const char *first, va_list *args)
{
    argv[0] = (char *)(uintptr_t)first;
    for (size_t i = 1; i <= n; i++)
        argv[i] = va_arg(*args, char *);
}

#define EXEC_FUNCTION(name, run, environment)                                                      \
    int name(const char *path, const char *arg, ...)                                               \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, arg);                                                                       \
        size_t n = exec_functions_count(arg, &args);                                               \
        va_end(args);                                                                              \
        char *argv[n + 1];                                                                         \
        va_start(args, arg);                                                                       \
        exec_functions_take(argv, n, arg, &args);                                                  \
        char *const *env = environment;                                                            \
        va_end(args);                                                                              \
        return run(path, argv, env);                                                               \
    }
EXEC_FUNCTION(execl, execve, environ)
EXEC_FUNCTION(execlp, execvpe, environ)
EXEC_FUNCTION(execle, execve, va_arg(args, char *const *))

#endif

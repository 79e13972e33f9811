/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf.h - two facts about a program, read from its file: its dynamic linker, and whether AddressSanitizer's
 * runtime must be the first library in it. `warm run` asks before it preloads a library; exec.c of the
 * preload asks for each program that its program starts.
 *
 * Thread: any, also between fork or vfork and exec: no allocation. Memory: the caller's.
 */
#ifndef WARM_EXEC_ELF_H
#define WARM_EXEC_ELF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes the path of the dynamic linker that a program, or a script's interpreter, asks for. `program` is a path, or
 * a name that $PATH has. False if there is none: it is static, of another kind, or cannot be read. */
bool elf_loader_of(const char *program, char out[PATH_MAX]);

/* True if a program, or a script's interpreter, is linked with the shared runtime of AddressSanitizer. That
 * runtime ends the program unless it is the first library, so nothing may be preloaded in front of it. */
bool elf_needs_asan_first(const char *program);

/* True if a library's path, `len` bytes, is that of the shared runtime of AddressSanitizer. */
bool elf_is_asan_runtime(const char *path, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf.h - facts about a program, read from its file: its dynamic linker, whether AddressSanitizer's runtime must
 * be the first library in it, whether it can load ours, and which build it is. `warm run` asks before it preloads a library; exec.c of
 * the preload asks for each program that its program starts; `warm doctor` compares builds.
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

/* True if a program, or a script's interpreter, ends or complains with our library in front of it: as
 * elf_needs_asan_first says, or it is not loaded by glibc's dynamic linker, or is for another processor. */
bool elf_cannot_load_ours(const char *program);

#define ELF_BUILD_TEXT 65 /* bytes of a build's id as text, NUL included */
/* Writes the id that the linker gave a build of a program, in hex; "" if the file has none. `path` has a slash. */
void elf_build_id(const char *path, char out[ELF_BUILD_TEXT]);

/* True if a library's path, `len` bytes, is that of the shared runtime of AddressSanitizer. */
bool elf_is_asan_runtime(const char *path, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compilers.h - recognizes compilers that `warm tool` stands in for, by their names.
 *
 * Thread: any, also between fork and exec: allocates nothing, keeps errno. Memory: none.
 */
#ifndef WARM_EXEC_COMPILERS_H
#define WARM_EXEC_COMPILERS_H

/*
 * Returns the plain name of the compiler at `path`, from the last component of the path. It is "g++" for
 * g++, g++-12 and x86_64-linux-gnu-g++-12.2. NULL for anything else (gcc-ar, ccg++).
 */
const char *compiler_name(const char *path);

/* Returns the same of the program at `path`. If it is a link of another name to gcc or g++ (mpicxx), the name of that.
 * Other compilers do something else by another name (clang-cpp). NULL for a link to ccache or the like, which starts
 * the compiler itself. May change errno. */
const char *compiler_at(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the records that libwarm-trace.so writes about a running compiler, for `warm tool`.
 *
 * The library is loaded (LD_PRELOAD) into the compiler and every process that it starts. Each
 * process appends records to the file that WARM_TRACE names, one write each, so that records do not
 * mix:
 *
 *     1 byte kind, the path, NUL
 *
 *     B  a process began: its program          X  a program is about to be executed
 *     L  a shared library is in use            Y  exec of it failed
 *     N  a library was looked for by its name  H  the same in F/glibc-hwcaps: "F/glibc-hwcaps/NAME"
 *     S  the process's LD_LIBRARY_PATH
 *     R  opened for reading                    P  a program was found on PATH, here
 *     E  exists, and was only looked at        W  opened for writing, or made
 *     K  exists, and its name without links was asked for
 *     A  looked for and absent                 ?  an act that no record describes: the run's
 *     D  a folder was listed                      result must not be kept
 *     V  the value of an environment variable was read: its name
 *     T  the local time was read: compilers do that for __DATE__, __TIME__ and __TIMESTAMP__
 *     M  the file of a W: "DEVICE:INODE:SECONDS:NANOSECONDS:PATH", hex; the times are its birth
 *     U  could not be opened for writing
 *
 * Invariant (1): there is one B for each X without Y, and one for the first process. If not, a
 * process ran without the library. Relative paths are relative to the folder in WARM_TRACE_CWD; a
 * process that changes its folder writes full paths.
 *
 * Thread: any, and between vfork and exec: no allocation, no lock. Memory: static.
 */
#ifndef WARM_TRACE_H
#define WARM_TRACE_H

#define TRACE_FILE_VARIABLE "WARM_TRACE"
#define TRACE_CWD_VARIABLE "WARM_TRACE_CWD"

enum trace_what {
    TRACE_BEGIN = 'B',
    TRACE_EXEC = 'X',
    TRACE_EXEC_FAILED = 'Y',
    TRACE_LIBRARY = 'L',
    TRACE_NAME = 'N',
    TRACE_VARIANTS = 'H',
    TRACE_SEARCH = 'S',
    TRACE_READ = 'R',
    TRACE_EXISTS = 'E',
    TRACE_REAL = 'K',
    TRACE_ABSENT = 'A',
    TRACE_LIST = 'D',
    TRACE_FOUND = 'P',
    TRACE_WRITE = 'W',
    TRACE_MADE = 'M',
    TRACE_UNWRITTEN = 'U',
    TRACE_VARIABLE = 'V',
    TRACE_CLOCK = 'T',
    TRACE_UNKNOWN = '?',
};

#endif

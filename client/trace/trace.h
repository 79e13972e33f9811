/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - libwarm-trace.so and what it tells `warm tool` about a compiler that runs.
 *
 * Loaded (LD_PRELOAD) into the compiler and every process that it starts. Each appends records to
 * the file that WARM_TRACE names, one write each, so that records of several processes do not mix:
 *
 *     1 byte what, the path, NUL
 *
 *     B  a process began: its program          X  a program is about to be executed
 *     L  a shared library is in use            Y  …it was not: exec failed
 *     R  opened for reading                    P  a program was found on PATH, here
 *     E  there, but only looked at             W  opened for writing, or made
 *     A  looked for and absent                 ?  something that cannot be told: the run's result
 *     D  a folder was listed                      must not be kept
 *     V  a variable of the environment was asked for: its name
 *     T  the local time was asked for: compilers do that for __DATE__, __TIME__ and __TIMESTAMP__
 *     M  what W made or opened: "DEVICE:INODE:SECONDS:NANOSECONDS:PATH", hex, the file's birth last
 *
 * As many B as X without Y, and one more for the first: then no process ran without the library.
 * Relative paths are relative to the folder in WARM_TRACE_CWD; those of a process that went
 * elsewhere are told in full.
 *
 * Thread: any, and between vfork and exec: no allocation, no lock.
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
    TRACE_READ = 'R',
    TRACE_EXISTS = 'E',
    TRACE_ABSENT = 'A',
    TRACE_LIST = 'D',
    TRACE_FOUND = 'P',
    TRACE_WRITE = 'W',
    TRACE_MADE = 'M',
    TRACE_VARIABLE = 'V',
    TRACE_CLOCK = 'T',
    TRACE_UNKNOWN = '?',
};

#endif

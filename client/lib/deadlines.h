/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadlines.h - times, in milliseconds, that a program waits for the daemon, and for artifacts that
 * other processes make.
 *
 * The daemon answers every request at once, with WAIT if there is nothing yet, and answers RELEASE
 * of the token 0 whatever else it does. So a daemon that says nothing for DEADLINE_SILENCE_MS
 * hangs, and WAIT is no sign of life. A hang costs a process this time once, and then at most one
 * part in DEADLINE_PAUSE_FACTOR of its time. $WARM_TIMEOUT_MS replaces the first two values.
 *
 * client/python/warm/_client.py has the same values for Python.
 *
 * Thread: any; constants only. Memory: none.
 */
#ifndef WARM_LIB_DEADLINES_H
#define WARM_LIB_DEADLINES_H

#define DEADLINE_CONNECT_MS 50u   /* connecting, and the hand-shake */
#define DEADLINE_SILENCE_MS 1000u /* or as long as connecting may take, if that is longer */
#define DEADLINE_PAUSE_FACTOR 100u
#define DEADLINE_PAUSE_MAX_MS (10u * 60 * 1000)

#define DEADLINE_REQUEST_MS 5000u             /* a get or a put, of libwarm */
#define DEADLINE_COMPILE_MS (30u * 60 * 1000) /* a compile for which no time was set */
#define DEADLINE_ENTRY_MS (10u * 60 * 1000)   /* an artifact that another process makes */
#define DEADLINE_TOOL_MS 2000u                /* a compiler's results, if they are there */
#define DEADLINE_TOOL_WAIT_MS                                                                      \
    (30u * 60 * 1000) /* the same run of a compiler, that makes progress */

#define DEADLINE_PERSON_CONNECT_MS 2000u /* a person waits longer than a program should */
#define DEADLINE_PERSON_ANSWER_MS 60000u /* for requests that walk over many entries */

#endif

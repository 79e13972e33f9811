/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printed.h - what the code under test prints: the test's own stdout and stderr go to a file in a folder of its
 * own.
 *
 *     printed_setup ─▶ printed_expect, printed_has, printed_take … ─▶ printed_teardown
 *
 * Each of these forgets what it has seen. Thread: the test's own. Memory: printed_teardown frees the folder.
 */
#ifndef WARM_TESTS_SUPPORT_PRINTED_H
#define WARM_TESTS_SUPPORT_PRINTED_H

/* The folder, in which the test may keep other files; its file "printed" has what was printed. */
extern char *printed_folder;

/* Makes the folder, and sends stdout and stderr there: the .init of a suite. */
void printed_setup(void);
/* Frees all: its .fini. */
void printed_teardown(void);

/* Returns all that was printed since the last call; free() it. */
char *printed_take(void);
/* Expects this text and no other. */
void printed_expect(const char *text);
/* Expects that this text is a part of it. */
void printed_has(const char *text);

#endif

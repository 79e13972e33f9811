/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collision.h - two headers of equal length and equal XXH3-128 with different text, so that a test sees
 * if an XXH3 alone decides.
 */
#ifndef WARM_TESTS_SUPPORT_COLLISION_H
#define WARM_TESTS_SUPPORT_COLLISION_H

#define COLLISION_LEN 3200u

/* Fills both with COLLISION_LEN bytes: the first defines VALUE as 1, the second as 2. */
void collision_make(char *one, char *two);

#endif

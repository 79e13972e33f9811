/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.h - the version that `warm --version` and `warmd --version` print.
 *
 * Thread: any. Memory: none.
 */
#ifndef WARM_WIRE_VERSION_H
#define WARM_WIRE_VERSION_H

#define WARM_VERSION "0.1.0"

#endif

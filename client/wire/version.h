/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.h - the version that `warm --version` and `warmd --version` print, with the commit behind a release:
 * packaging/version.sh says how. The Makefile writes it into the header that is included here.
 *
 * Thread: any. Memory: none.
 */
#ifndef WARM_WIRE_VERSION_H
#define WARM_WIRE_VERSION_H

#include <warm_version.h> /* WARM_VERSION */

#endif

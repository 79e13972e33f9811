/* SPDX-License-Identifier: Apache-2.0 */
/* fx.c - FX graph code. */
#define FORM CANON_FX
#include "tests/fuzz/form.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* ptx.c - PTX. */
#define FORM CANON_PTX
#include "tests/fuzz/form.h"

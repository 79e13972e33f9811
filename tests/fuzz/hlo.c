/* SPDX-License-Identifier: Apache-2.0 */
/* hlo.c - HLO text. */
#define FORM CANON_HLO
#include "tests/fuzz/form.h"

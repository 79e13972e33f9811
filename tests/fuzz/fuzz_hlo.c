/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hlo.c - HLO text. */
#define FORM CANON_HLO
#include "tests/fuzz/form.h"

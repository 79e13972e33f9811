/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearest_form.h - says in which line the program of a miss differs from the nearest one before it.
 *
 *     form of the miss ─┐
 *     forms of earlier ─┴▶ the one with most lines in common ─▶ first difference: old → new
 *
 * Forms are texts that clients put beside the entries that they made: PROTOCOL.md, kind 10.
 *
 * Thread: main. Memory: as each function says.
 */
#ifndef WARM_CLI_IMPORT_NEAREST_FORM_H
#define WARM_CLI_IMPORT_NEAREST_FORM_H

#include "client/cli/remote.h"

#define FORMS_PREFIX "form:"
#define FORMS_TEXT 160 /* bytes of each text below */

struct forms_change {
    size_t line;             /* of the program, from 1; 0: an option differs */
    char option[FORMS_TEXT]; /* "option num_warps" */
    char old[FORMS_TEXT], now[FORMS_TEXT];
    char label[FORMS_TEXT]; /* of the nearest one; else the beginning of its name */
    uint64_t made_ms;       /* when that was */
    size_t n_lines;         /* that differ */
};

/* Compares the form of the entry `name` with earlier ones of the same kind. False if there is no form of it,
 * or none before it. */
bool forms_explain(struct remote *r, struct view name, struct forms_change *out);

/* Finds the first difference of two texts. False if they are equal. Ignores out->label and made_ms. */
bool forms_differ(struct view old, struct view now, struct forms_change *out);

#endif

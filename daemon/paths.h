/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths.h - how a manifest names a file, so that it is found for whoever asks with the same key.
 *
 * A compiler's path may stem from the client's working folder, from the folder of the program's
 * name, or from an include folder given as an absolute path. Of these the key has the last, and the
 * name unless it is a shared key; it has no working folder. So a path is written down
 *
 *     beneath the working folder               from there: "h.h"            (FORM_CWD)
 *     beneath the name's folder, shared key    from there: "\1h.h"          (FORM_NAME)
 *     beneath an absolute folder of the key    as it is: "/inc/h.h"         (FORM_PLACE)
 *
 * and in each form that applies, since its text does not tell which it stems from: whoever asks must
 * then have the same in all of them. Where a text of the program may itself name files beneath these
 * folders by absolute paths (struct compile_done, names_places), a path is written down as it is too.
 *
 * Thread: any. Memory: struct paths owns copies of the job's texts.
 */
#ifndef WARM_DAEMON_PATHS_H
#define WARM_DAEMON_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/job.h"

#define PATHS_FORMS_MAX 3u

struct paths {
    char *cwd;     /* with a '/' at its end */
    char *folder;  /* of the name as it is given, with a '/' at its end, or empty */
    char **places; /* absolute folders that the options name, with a '/' at their ends */
    size_t n_places;
};

/* The folders of a job. NOMEM; INVALID, REFUSED for options that cannot be read. */
int paths_open(struct paths *out, const struct job *job, struct err *e);
void paths_close(struct paths *p); /* all zero is fine */

/* Appends the forms of a path, each as a blob; gives how many, 1 to PATHS_FORMS_MAX. `shared`: for
 * the manifest of a shared key; `named`: it may stand in a text as it is. Check out->failed. */
unsigned paths_forms(const struct paths *p, struct view path, bool shared, bool named,
                     struct writer *out);

#endif

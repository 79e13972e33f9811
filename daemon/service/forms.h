/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forms.h - bounds the texts that clients keep for `warm why`: entries of kind FORM (PROTOCOL.md).
 *
 * Together they have at most a fiftieth of max_size. When three quarters of that are used, forms go until
 * half is: first those of the user who puts, then, if that is not enough, those of all users.
 *
 * Thread: loop thread.
 */
#ifndef WARM_DAEMON_SERVICE_FORMS_H
#define WARM_DAEMON_SERVICE_FORMS_H

#include "daemon/service/service.h"

#define FORMS_PREFIX "form:"
#define FORMS_MAX (256u << 10) /* bytes of one */
#define FORMS_SHARE 50u        /* of max_size: one in so many bytes */

/* Decides on a form of `len` bytes. 0, TOO_BIG, or FULL: there is no room for it. */
int forms_admit(struct service *s, uint32_t uid, uint64_t len, struct err *e);

#endif

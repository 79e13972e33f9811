/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_script.h - steps of a fake daemon's script about the compile of one small job.
 *
 * Thread: the daemon's (fake_daemon.h). Memory: channels belong to the script, which closes them.
 */
#ifndef WARM_TESTS_SUPPORT_COMPILE_SCRIPT_H
#define WARM_TESTS_SUPPORT_COMPILE_SCRIPT_H

#include "tests/support/fake_daemon.h"

/* The job's source and header. Its folder holds part.h, and no none.h. */
#define SCRIPT_SOURCE "#include \"part.h\"\n__global__ void k() {}"
#define SCRIPT_PART "int part;"

/* Appends a HIT or FAILED whose bundle has this cubin and status. */
void script_add_result(struct fake_daemon *d, enum wire_type type, uint64_t tag, const char *cubin,
                       uint32_t status, bool is_damaged);
/* Sends a HIT with "cubin". */
void script_say_hit(struct fake_daemon *d);
/* Sends a HIT with "wrong", which does not match its checksum. */
void script_say_damaged(struct fake_daemon *d);
/* Sends NEED. */
void script_say_need(struct fake_daemon *d, uint64_t max_bytes);
/* Sends ERROR. */
void script_say_error(struct fake_daemon *d, int code);
/* Appends the paths part.h and none.h to the list of a CHECK. */
void script_add_paths(struct writer *list);
/* Sends CHECK with these paths. */
void script_say_check(struct fake_daemon *d);

/* Takes COMPILE, which must have these flags. */
void script_take_compile(struct fake_daemon *d, uint32_t flags);
/* Takes CHECKED, which must have the digest of part.h, and none.h as absent. */
void script_take_checked(struct fake_daemon *d);
/* Takes SOURCE, which must hold the job. Returns its channel, or -1. */
int script_take_source(struct fake_daemon *d);
/* Asks for part.h as a compiler does, and expects its content. */
void script_ask_on(struct fake_daemon *d, int channel);
/* True if the client has closed its end; waits for that. */
bool script_is_closed(int channel);
/* Closes a channel; -1 is fine. */
void script_close_channel(int channel);

#endif

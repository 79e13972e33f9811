/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_nvrtc.c - starts a daemon for suites that compile by both NVRTCs. The suites of shared keys and of
 * toolchains call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/two_nvrtc.h"

#include <stdlib.h>

void rig_up_with(struct rig *r, char *const *options)
{
    r->kit = warmd_up(options);
    r->warm = warmd_libwarm(&r->kit);
}

void rig_up(struct rig *r)
{
    char *options[] = {"--nvrtc", r->lib13, "--nvrtc", r->lib12, "--jobs", "2", NULL};
    rig_up_with(r, options);
}

void rig_down(struct rig *r)
{
    warm_close(r->warm);
    free(r->own);
    free(r->lib13);
    free(r->lib12);
    warmd_down(&r->kit);
}

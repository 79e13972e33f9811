/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda.c - a stand-in for libcuda.so.1, for tests on machines without a GPU: devices whose memory is the
 * host's. It is as hard on a program as the real driver, as far as that costs little. Its parts are in driver/;
 * driver.h names them.
 *
 *     FAKECUDA_CC        compute capabilities, one a device: 90; 90,80
 *     FAKECUDA_NAME      the name of the devices: Stand-in, with their capability behind it
 *     FAKECUDA_DRIVER    the version of the driver: 13000
 *     FAKECUDA_MEMORY    bytes of a device: 1 GiB
 *     FAKECUDA_INIT      anything: calls need cuInit (devices.c)
 *     FAKECUDA_CALLS     a file: every call, with arguments and results (calls.c)
 *     FAKECUDA_LOG       a file: what it did, a word each: jit, link, load cubin, load ptx, graph, launch NAME
 *     FAKECUDA_KERNELS   a library of kernels that it can run (image.h)
 *     FAKECUDA_STAMP, FAKECUDA_REFUSE, FAKECUDA_BREAKS, FAKECUDA_SAYS: images.c, links.c
 *
 * Its own tests: tests/preload/test_stand_in.c. Built by the tests that use it, with -Bsymbolic, so that no call
 * of its own goes through a preloaded library.
 */
#include "tests/fakecuda/driver/driver.h"

#include "tests/fakecuda/driver/calls.c"
#include "tests/fakecuda/driver/devices.c"
#include "tests/fakecuda/driver/find.c"
#include "tests/fakecuda/driver/handles.c"
#include "tests/fakecuda/driver/images.c"
#include "tests/fakecuda/driver/memory.c"
#include "tests/fakecuda/driver/modules.c"
/* links.c and launch.c use functions of those above */
#include "tests/fakecuda/driver/launch.c"
#include "tests/fakecuda/driver/links.c"

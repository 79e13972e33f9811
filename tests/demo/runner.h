/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runner.h - does a compiled kernel compute what it should? Runs one of the .cu files of kernels/ on
 * inputs made here and compares every output with the CPU reference.
 *
 * Thread: uses the device on the calling thread. Memory: keeps nothing.
 */
#ifndef WARM_TESTS_DEMO_RUNNER_H
#define WARM_TESTS_DEMO_RUNNER_H

#include "tests/demo/device.h"

struct runner_result {
    double worst;   /* the largest |got - expected| / (1 + |expected|) of all outputs */
    double allowed; /* how large that may be */
};

/* Runs the kernels of `file` ("mlp_forward", the name of a .cu file without its ending), which the
 * device must have loaded. 0 if every output is right; WARM_ENOT_FOUND if there is no check for
 * `file`; WARM_ECORRUPT with the first wrong element if one is wrong, *out is then set too; or what
 * the device said. */
int runner_check(struct device *device, const char *file, struct runner_result *out,
                 struct err *err);

#endif

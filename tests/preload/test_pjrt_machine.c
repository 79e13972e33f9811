/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pjrt_machine.c - the part of a PJRT key that describes the processor.
 *
 * The source is included: the shim is a library of its own, and no archive has it.
 */
#include "client/preload/pjrt/machine.c"

#include <criterion/criterion.h>

static struct key key_of_processor(const char *cpuinfo)
{
    char text[1024];
    struct key_builder b;
    struct key key;
    struct proof unused;
    snprintf(text, sizeof text, "%s", cpuinfo);
    key_begin(&b, "test");
    add_processor(&b, text);
    key_end(&b, &key, &unused);
    return key;
}

#define CPU(model, mhz, flags)                                                                     \
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: " model                \
    "\ncpu MHz\t\t: " mhz "\nflags\t\t: fpu sse2 " flags "\n\nprocessor\t: 1\n"

Test(pjrt_machine, features_and_model_count_and_the_clock_does_not)
{
    struct key base = key_of_processor(CPU("143", "2100.0", "avx2 avx512f"));
    struct key clock = key_of_processor(CPU("143", "3500.0", "avx2 avx512f"));
    struct key feature = key_of_processor(CPU("143", "2100.0", "avx2"));
    struct key model = key_of_processor(CPU("85", "2100.0", "avx2 avx512f"));
    struct key arm = key_of_processor("Features\t: fp asimd sve\nCPU part\t: 0xd40\n");
    struct key arm_without = key_of_processor("Features\t: fp asimd\nCPU part\t: 0xd40\n");
    cr_expect(key_equal(&base, &clock));
    cr_expect(!key_equal(&base, &feature));
    cr_expect(!key_equal(&base, &model));
    cr_expect(!key_equal(&arm, &arm_without));
}

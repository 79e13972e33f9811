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
    struct key_builder b;
    struct key key;
    struct proof unused;
    FILE *f = fmemopen((void *)(uintptr_t)cpuinfo, strlen(cpuinfo), "r");
    key_begin(&b, "test");
    cr_expect(add_processors(&b, f));
    key_end(&b, &key, &unused);
    fclose(f);
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

#define CORE(part) "processor\t: 0\nFeatures\t: fp asimd sve\nCPU part\t: " part "\n\n"

Test(pjrt_machine, cores_of_another_kind_count_and_their_number_does_not)
{
    struct key small = key_of_processor(CORE("0xd87") CORE("0xd87"));
    struct key one = key_of_processor(CORE("0xd87"));
    struct key mixed = key_of_processor(CORE("0xd87") CORE("0xd85"));
    cr_expect(key_equal(&small, &one));
    cr_expect(!key_equal(&small, &mixed));
}

Test(pjrt_machine, x86_is_known_by_its_first_processor)
{
    struct key one = key_of_processor(CPU("143", "2100.0", "avx2"));
    struct key more = key_of_processor(CPU("143", "2100.0", "avx2") "flags\t\t: other\n\n");
    cr_expect(key_equal(&one, &more));
}

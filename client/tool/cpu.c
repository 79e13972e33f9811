/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - what -march=native means here: all that CPUID says of the processor, as the compiler asks
 * it, but for what differs between the cores of one (their numbers). One thread.
 */
#include "client/tool/tool.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* leaf, subleaf: features, caches, extended state, extended features. Family, model and stepping
 * are in leaf 1; the caches of leaves 2 and 4 become --param options. */
static const unsigned leaves[][2] = {
    {0, 0},          {1, 0},          {2, 0},          {4, 0},          {4, 1},
    {4, 2},          {4, 3},          {7, 0},          {7, 1},          {7, 2},
    {0xd, 0},        {0xd, 1},        {0x14, 0},       {0x19, 0},       {0x1e, 0},
    {0x24, 0},       {0x80000000, 0}, {0x80000001, 0}, {0x80000002, 0}, {0x80000003, 0},
    {0x80000004, 0}, {0x80000005, 0}, {0x80000006, 0}, {0x80000008, 0}, {0x8000001d, 0},
};

#define LEAF_1_APIC_ID 0xff000000u

/* Which register sets the system saves: AVX without that is no AVX. */
static void add_saved_state(struct key_builder *key, uint32_t tag, unsigned leaf_1_ecx)
{
    unsigned low = 0, high = 0;
    if (leaf_1_ecx & bit_OSXSAVE)
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    key_add_u64(key, tag, (uint64_t)high << 32 | low);
}

bool cpu_add(struct key_builder *key, uint32_t tag)
{
    unsigned highest = __get_cpuid_max(0, NULL), highest_extended = __get_cpuid_max(1u << 31, NULL);
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        unsigned r[4] = {0}, leaf = leaves[i][0];
        if (leaf > (leaf >> 31 ? highest_extended : highest))
            continue;
        __cpuid_count(leaf, leaves[i][1], r[0], r[1], r[2], r[3]);
        if (leaf == 1) {
            r[1] &= ~LEAF_1_APIC_ID;
            add_saved_state(key, tag, r[2]);
        }
        key_add_u64(key, tag, leaf);
        key_add(key, tag, r, sizeof r);
    }
    return true;
}

#else

bool cpu_add(struct key_builder *key, uint32_t tag)
{
    (void)key, (void)tag;
    return false;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - decides what -march=native means here: all answers of CPUID that a compiler reads; on Arm the fields of
 * /proc/cpuinfo that GCC and clang read, and the kernel's list of features. The numbers of cores do not count,
 * because they differ between the cores of one processor. cc.c calls it for such options, libraries.c for
 * variants of a library.
 *
 * Thread: any; no state.
 */
#define XXH_INLINE_ALL
#include <stdio.h>
#include <string.h>

#include "client/tool/tool.h"

#if defined(__aarch64__) || defined(WARM_TEST_ARM)

#define ARM_LINE 4096
#define ARM_FIELDS 5

/* Adds the kind of each core, and what it can do; of cores that are alike those of the first. False if
 * the file does not say, as under emulation. */
static bool arm_add(FILE *cpuinfo, struct key_builder *key, uint32_t tag)
{
    static const char *const names[ARM_FIELDS] = {"Features", "CPU implementer", "CPU architecture",
                                                  "CPU variant", "CPU part"};
    char line[ARM_LINE], last[ARM_FIELDS][ARM_LINE] = {{0}};
    while (fgets(line, sizeof line, cpuinfo))
        for (size_t i = 0; i < ARM_FIELDS; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0 && strcmp(line, last[i]) != 0) {
                memcpy(last[i], line, sizeof line);
                key_add_text(key, tag, line);
            }
    return *last[0] && *last[4];
}

#endif

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
enum { LEAVES = sizeof leaves / sizeof leaves[0] };

struct cpu {
    struct {
        unsigned leaf, r[4]; /* eax, ebx, ecx, edx */
    } said[LEAVES];
    size_t n;
    uint64_t saved; /* register sets that the system saves: without that, AVX cannot be used */
};

static uint64_t read_saved_state(unsigned leaf_1_ecx)
{
    unsigned low = 0, high = 0;
    if (leaf_1_ecx & bit_OSXSAVE)
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static void cpu_read(struct cpu *out)
{
    unsigned highest = __get_cpuid_max(0, NULL), highest_extended = __get_cpuid_max(1u << 31, NULL);
    *out = (struct cpu){.n = 0};
    for (size_t i = 0; i < LEAVES; i++) {
        unsigned leaf = leaves[i][0], *r = out->said[out->n].r;
        if (leaf > (leaf >> 31 ? highest_extended : highest))
            continue;
        out->said[out->n++].leaf = leaf;
        __cpuid_count(leaf, leaves[i][1], r[0], r[1], r[2], r[3]);
        if (leaf == 1)
            out->saved = read_saved_state(r[2]);
    }
}

static void cpu_add_to(const struct cpu *cpu, struct key_builder *key, uint32_t tag)
{
    for (size_t i = 0; i < cpu->n; i++) {
        unsigned r[4];
        memcpy(r, cpu->said[i].r, sizeof r);
        if (cpu->said[i].leaf == 1)
            r[1] &= ~LEAF_1_APIC_ID;
        key_add_u64(key, tag, cpu->said[i].leaf);
        key_add(key, tag, r, sizeof r);
    }
    key_add_u64(key, tag, cpu->saved);
}

bool cpu_add(struct key_builder *key, uint32_t tag)
{
    struct cpu cpu;
    cpu_read(&cpu);
    cpu_add_to(&cpu, key, tag);
    return true;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

bool cpu_add(struct key_builder *key, uint32_t tag)
{
    FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
    bool known = cpuinfo && arm_add(cpuinfo, key, tag);
    if (cpuinfo)
        fclose(cpuinfo);
    key_add_u64(key, tag, getauxval(AT_HWCAP));
    key_add_u64(key, tag, getauxval(AT_HWCAP2));
    return known;
}

#else

bool cpu_add(struct key_builder *key, uint32_t tag)
{
    (void)key, (void)tag;
    return false;
}

#endif

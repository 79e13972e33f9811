/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a compile with -march=native holds all that the processor says of itself: each bit of
 * it, taken away or added, is another key. No compiler and no daemon.
 */
#include <criterion/criterion.h>

#define WARM_TEST_ARM
#include "client/tool/cpu.c"

#define CORE(features, part)                                                                       \
    "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: " features                                   \
    "\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: " part        \
    "\nCPU revision\t: 0\n\n"
#define V2 CORE("fp asimd sve sve2", "0xd4f")

/* Returns the key of a /proc/cpuinfo, all zero if it does not say what -mcpu=native is. */
static struct key arm_key(const char *text)
{
    struct key_builder b;
    struct key key;
    struct proof proof;
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    key_begin(&b, "test");
    bool known = arm_add(f, &b, 1);
    key_end(&b, &key, &proof);
    fclose(f);
    return known ? key : (struct key){{0}};
}

Test(tool_cpu, arm_core_is_known_by_its_part_and_its_features)
{
    static const struct key none;
    struct key v2 = arm_key(V2), more = arm_key(V2 V2 V2);
    struct key wider = arm_key(CORE("fp asimd sve sve2 bf16", "0xd4f")),
               mixed = arm_key(V2 CORE("fp asimd", "0xd40"));
    struct key other = arm_key(CORE("fp asimd sve sve2", "0xd40"));
    cr_expect(key_equal(&v2, &more), "the number of cores does not count");
    cr_expect(!key_equal(&v2, &wider) && !key_equal(&v2, &other) && !key_equal(&v2, &mixed));
    struct key emulated = arm_key("processor\t: 0\nflags\t: fpu sse\n");
    cr_expect(key_equal(&emulated, &none), "qemu-user shows the host's file");
}

#if defined(__x86_64__) || defined(__i386__)

static struct proof proof_of(const struct cpu *cpu)
{
    struct key_builder b;
    struct key key;
    struct proof proof;
    key_begin(&b, "test");
    cpu_add_to(cpu, &b, 1);
    key_end(&b, &key, &proof);
    return proof;
}

static bool same(const struct cpu *a, const struct cpu *b)
{
    struct proof pa = proof_of(a), pb = proof_of(b);
    return memcmp(&pa, &pb, sizeof pa) == 0;
}

Test(tool_cpu, each_feature_counts)
{
    struct cpu here, other;
    cpu_read(&here);
    cr_assert_gt(here.n, 4);
    for (size_t i = 0; i < here.n; i++)
        for (unsigned bit = 0; bit < 128; bit++) {
            bool is_own_number = here.said[i].leaf == 1 && bit >= 32 + 24 && bit < 64;
            other = here;
            other.said[i].r[bit / 32] ^= 1u << bit % 32;
            cr_assert_eq(same(&here, &other), is_own_number, "leaf %x bit %u", here.said[i].leaf,
                         bit);
        }
    for (unsigned bit = 0; bit < 64; bit++) {
        other = here;
        other.saved ^= UINT64_C(1) << bit;
        cr_assert_not(same(&here, &other), "saved register set %u", bit);
    }
    other = here;
    other.n--;
    cr_assert_not(same(&here, &other));
}

Test(tool_cpu, all_cores_of_a_processor_are_alike)
{
    struct cpu here, again;
    cpu_read(&here);
    for (int i = 0; i < 100; i++) {
        cpu_read(&again); /* on whichever core it is by now */
        cr_assert(same(&here, &again));
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test_path_names.c - names that are made of a path, in files as nvcc writes them. */
#include <criterion/criterion.h>
#include <string.h>
#include <zstd.h>

#include "client/tool/path_names.h"

static bool shows(const char *source, const void *data, size_t len)
{
    return path_names_show(source, false, (struct view){data, len});
}

Test(path_names, each_sort_of_name_is_found)
{
    static const char *const names[] = {
        "_ZN29_GLOBAL__N__2d9c9a17_4_a_cu_g1fEPf",
        "__nv_static_23__d78c0503_4_s_cu__Z1hPf_t",
        "__cudaRegisterLinkedBinary_42217a73_4_k_cu_5cb939b5_28075",
        "_42217a73_4_k_cu_5cb939b5_28075",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_expect(shows("p1/k.cu", names[i], strlen(names[i])), "%s", names[i]);
    static const char *const others[] = {"_ZN12_GLOBAL__N_11fEPf", "k.cu", "_5_k_cu_x", ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect(!shows("p1/k.cu", others[i], strlen(others[i])), "%s", others[i]);
    static const char odd[] = "_8c4d223d_8_a_b_c_cu_g";
    cr_expect(shows("/p/a-b+c.cu", odd, sizeof odd - 1), "each other character is a '_'");
}

static bool shows_process(const char *source, const char *name)
{
    return path_names_show(source, true, (struct view){name, strlen(name)});
}

Test(path_names, of_a_source_that_counts_only_those_of_a_process_do)
{
    cr_expect(!shows_process("a.cu", "_ZN29_GLOBAL__N__2d9c9a17_4_a_cu_g1fEPf"));
    cr_expect(!shows_process("s.cu", "__nv_static_23__d78c0503_4_s_cu__Z1hPf_t"));
    cr_expect(shows_process("k.cu", "__fatbinwrap_42217a73_4_k_cu_5cb939b5_28075"));
    cr_expect(shows_process("k.cu", "_d78c0503_4_k_cu__Z1f _42217a73_4_k_cu_5cb939b5_28075"));
    cr_expect(shows_process("k.cu", "_ZN29_GLOBAL__N__2d9c9a17_4_a_cu_g1fEPf"), "another file's");
}

/* Writes a fat binary with one entry behind some bytes of a host's object. Returns its length. */
static size_t fat(uint8_t *out, uint64_t flags, const void *content, size_t len, uint32_t packed)
{
    static const uint8_t before[] = {0x7f, 'E', 'L', 'F', 0x50, 0xed, 0x55, 0xba, 9};
    uint64_t padded = (len + 7) / 8 * 8, all = 80 + padded;
    memset(out, 0, 512);
    memcpy(out, before, sizeof before);
    uint8_t *at = out + sizeof before;
    memcpy(at, "\x50\xed\x55\xba\x01\0\x10\0", 8);
    memcpy(at + 8, &all, 8);
    at += 16;
    memcpy(at, "\x01\0\x01\x01\x50\0\0\0", 8);
    memcpy(at + 8, &padded, 8);
    memcpy(at + 16, &packed, 4);
    memcpy(at + 40, &flags, 8);
    memcpy(at + 80, content, len);
    return (size_t)(at - out) + all;
}

Test(path_names, compressed_parts_of_a_fat_binary_are_read)
{
    static const char with[] = ".visible .entry _ZN29_GLOBAL__N__2d9c9a17_4_a_cu_g1fEPf()";
    static const char without[] = ".visible .entry _Z1fPf() _Z1fPf_param_0";
    uint8_t file[512], packed[256];
    for (int i = 0; i < 2; i++) {
        const char *text = i ? with : without;
        size_t len = ZSTD_compress(packed, sizeof packed, text, strlen(text), 19);
        cr_assert(!ZSTD_isError(len));
        size_t n = fat(file, 0x8011, packed, len, (uint32_t)len);
        cr_expect_eq(shows("a.cu", file, n), i == 1);
    }
}

Test(path_names, what_cannot_be_read_may_have_one)
{
    static const char text[] = "content";
    uint8_t file[512];
    size_t n = fat(file, 0x11, text, sizeof text, 0);
    cr_expect(!shows("a.cu", file, n));
    n = fat(file, 0x2011, text, sizeof text, sizeof text);
    cr_expect(shows("a.cu", file, n), "another compression");
    n = fat(file, 0x11, text, sizeof text, sizeof text);
    cr_expect(shows("a.cu", file, n), "compressed, it does not say how");
    n = fat(file, 0x8011, text, sizeof text, sizeof text);
    cr_expect(shows("a.cu", file, n), "no frame");
    n = fat(file, 0x8011, text, sizeof text, 400);
    cr_expect(shows("a.cu", file, n), "longer than it is");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compile_options.c - the part of a PJRT key that describes the compile options, a protobuf message.
 *
 * The source is included: the shim is a library of its own, and no archive has it.
 */
#include "client/preload/pjrt/compile_options.c"

#include <criterion/criterion.h>

static struct key key_of(int *out_code, const char *bytes, size_t len)
{
    struct key_builder b;
    struct key key;
    struct proof proof;
    key_begin(&b, "test");
    *out_code = pjrt_options_add(&b, bytes, len);
    key_end(&b, &key, &proof);
    return key;
}

#define KEY(bytes) key_of(&code, bytes, sizeof(bytes) - 1)
#define EQUAL(a, b)                                                                                \
    {                                                                                              \
        struct key one = KEY(a), other = KEY(b);                                                   \
        cr_expect_eq(code, 0);                                                                     \
        cr_expect(key_equal(&one, &other));                                                        \
    }
#define DIFFERENT(a, b)                                                                            \
    {                                                                                              \
        struct key one = KEY(a), other = KEY(b);                                                   \
        cr_expect_eq(code, 0);                                                                     \
        cr_expect(!key_equal(&one, &other));                                                       \
    }
/* Field 3 in field 3: DebugOptions. 357: tag ea 16... a map from text to text; 109 xla_dump_to. */
#define DEBUG_4(fields) "\x1a\x06\x1a\x04" fields
#define MAP_A                                                                                      \
    "\xaa\x16\x06\x0a\x01"                                                                         \
    "a\x12\x01"                                                                                    \
    "1"
#define MAP_B                                                                                      \
    "\xaa\x16\x06\x0a\x01"                                                                         \
    "b\x12\x01"                                                                                    \
    "2"

Test(compile_options, order_of_a_map_does_not_count)
{
    int code;
    EQUAL("\x1a\x14\x1a\x12" MAP_A MAP_B, "\x1a\x14\x1a\x12" MAP_B MAP_A);
    DIFFERENT("\x1a\x14\x1a\x12" MAP_A MAP_B, "\x1a\x14\x1a\x12" MAP_A MAP_A);
    /* of two entries with one key the last counts */
    DIFFERENT("\x1a\x14\x1a\x12\xaa\x16\x06\x0a\x01"
              "a\x12\x01"
              "2" MAP_A,
              "\x1a\x14\x1a\x12" MAP_A "\xaa\x16\x06\x0a\x01"
              "a\x12\x01"
              "2");
}

Test(compile_options, a_dump_is_refused)
{
    int code;
    KEY("\x1a\x06\x1a\x04\xea\x06\x01x"); /* 109: the folder of dumps */
    cr_expect_eq(code, WARM_EREFUSED);
    KEY("\x1a\x05\x1a\x03\x80\x07\x01"); /* 112: dumps as text */
    cr_expect_eq(code, WARM_EREFUSED);
    EQUAL("\x1a\x05\x1a\x03\xea\x06\x00", "\x1a\x02\x1a\x00");
    EQUAL("\x1a\x05\x1a\x03\x80\x07\x00", "\x1a\x02\x1a\x00");
}

Test(compile_options, how_a_dump_looks_does_not_count_and_everything_else_does)
{
    int code;
    EQUAL("\x1a\x05\x1a\x03\xa0\x08\x09", "\x1a\x02\x1a\x00");         /* 132: at most 9 modules */
    DIFFERENT("\x1a\x05\x1a\x03\xf8\x01\x01", "\x1a\x02\x1a\x00");     /* 31 */
    DIFFERENT("\x1a\x04\x4a\x02\x08\x01", "\x1a\x04\x4a\x02\x08\x02"); /* device assignment */
    DIFFERENT("\x10\x01", "\x10\x00");
    DIFFERENT("\xfa\x3f\x01x", "\xfa\x3f\x01y"); /* a field that nobody knows */
    DIFFERENT("\xea\x06\x01x", "");              /* 109 of another message is not a dump */
}

Test(compile_options, what_a_key_cannot_hold_is_refused)
{
    int code;
    KEY("\x1a\x06\x1a\x04\xfa\x0d\x01x"); /* 223: results of autotuning in a file */
    cr_expect_eq(code, WARM_EREFUSED);
    KEY("\x1a\x05\x1a\x03\xfa\x0d\x00");
    cr_expect_eq(code, 0);
    KEY("\x3a\x12\x0a\x10xla_gpu_ptx_file"); /* 7: env_option_overrides */
    cr_expect_eq(code, WARM_EREFUSED);
    KEY("\x3a\x1a\x0a\x18xla_cpu_enable_fast_math");
    cr_expect_eq(code, 0);
    cr_expect(!pjrt_flag_is_refused("--xla_cpu_enable_fast_math=true"), "an option like others");
    cr_expect(pjrt_flag_is_refused("--xla_gpu_ptx_file=a.ptx"));
    cr_expect(!pjrt_flag_is_refused("--xla_gpu_ptx_file="));
    cr_expect(!pjrt_flag_is_refused("--xla_cpu_enable_fast_min_max=true"));
}

Test(compile_options, repeated_fields_keep_their_order)
{
    int code;
    DIFFERENT("\x0a\x01"
              "a\x0a\x01"
              "b",
              "\x0a\x01"
              "b\x0a\x01"
              "a");
    EQUAL("\x0a\x01"
          "a\x10\x01",
          "\x10\x01\x0a\x01"
          "a");
}

Test(compile_options, damaged_messages_are_refused)
{
    int code;
    static const char whole[] = DEBUG_4("\xf8\x01\x01\x00");
    for (size_t len = 1; len + 1 < sizeof whole; len++) {
        key_of(&code, whole, len);
        cr_expect_eq(code, WARM_EMALFORMED, "%zu bytes", len);
    }
    KEY("\x18\x01"); /* field 3 as a number */
    cr_expect_eq(code, WARM_EMALFORMED);
    KEY("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    cr_expect_eq(code, WARM_EMALFORMED);
    KEY("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"); /* longer than anything */
    cr_expect_eq(code, WARM_EMALFORMED);
    KEY("\x0b"); /* a group */
    cr_expect_eq(code, WARM_EMALFORMED);
}

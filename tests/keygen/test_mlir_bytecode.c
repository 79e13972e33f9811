/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mlir_bytecode.c - MLIR bytecode: the key of the text, and no trust in its lengths and numbers.
 *
 * tests/data/step.mlir and the files beside it are one module: printed, and written as bytecode of
 * versions 6 and 1 with locations; portable.mlir and .vhlo likewise, the second as a portable
 * artifact (VHLO 1.9.0). layers.mlir and .mlirbc are the training step of three layers.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "keygen/bytes.h"
#include "tests/support/canon_kit.h"
#include "tests/support/support.h"

static int try_key(const void *data, size_t len, struct canon_result *out, struct err *e)
{
    struct canon_input input = {.data = data, .len = len, .kind = CANON_AUTO};
    return canon_key(&input, out, NULL, e);
}

static struct canon_result result_of(const char *path)
{
    size_t len;
    char *data = file_read(path, &len);
    struct canon_result result = {0};
    struct err e = {0};
    int code = try_key(data, len, &result, &e);
    cr_assert_eq(code, 0, "%s: %s", path, e.text);
    cr_expect(!result.exact, "%s: exact bytes: %s", path, result.why_exact);
    free(data);
    return result;
}

Test(mlir_bytecode, has_the_key_of_its_text)
{
    struct canon_result text = result_of("tests/data/step.mlir"),
                        bytes = result_of("tests/data/step.mlirbc");
    cr_assert_eq(bytes.kind, CANON_MLIR_BYTECODE);
    cr_assert(key_equal(&text.key, &bytes.key));
    cr_assert_arr_eq(text.proof.bytes, bytes.proof.bytes, sizeof text.proof.bytes);
}

Test(mlir_bytecode, of_an_old_version_has_the_same_key)
{
    struct canon_result new = result_of("tests/data/step.mlirbc"),
                        old = result_of("tests/data/step.v1.mlirbc");
    cr_assert(key_equal(&new.key, &old.key));
}

Test(mlir_bytecode, of_a_portable_artifact_has_the_key_of_its_stablehlo)
{
    struct canon_result text = result_of("tests/data/portable.mlir"),
                        bytes = result_of("tests/data/portable.vhlo");
    cr_assert(key_equal(&text.key, &bytes.key));
}

/* Reductions of two kinds, three times each: their regions are read once. */
Test(mlir_bytecode, of_layers_has_the_key_of_its_text)
{
    struct canon_result text = result_of("tests/data/layers.mlir"),
                        bytes = result_of("tests/data/layers.mlirbc");
    cr_assert(key_equal(&text.key, &bytes.key));
}

Test(mlir_bytecode, of_small_floats_and_composites_has_the_key_of_its_text)
{
    struct canon_result text = result_of("tests/data/small_floats.mlir"),
                        bytes = result_of("tests/data/small_floats.mlirbc");
    cr_expect(key_equal(&text.key, &bytes.key), "f8E4M3FN and chlo.top_k");
    text = result_of("tests/data/small_constants.txt"); /* all numbers of 4, 6 and 8 bits */
    bytes = result_of("tests/data/small_constants.mlirbc");
    cr_expect(key_equal(&text.key, &bytes.key), "constants of small floats");
    text = result_of("tests/data/composite.mlir");
    bytes = result_of("tests/data/composite.vhlo");
    cr_expect(key_equal(&text.key, &bytes.key), "a composite in VHLO");
}

Test(mlir_bytecode, key_is_golden)
{
    static const char *const files[] = {"tests/data/step.mlirbc", "tests/data/portable.vhlo"};
    for (size_t i = 0; i < 2; i++) {
        size_t len;
        char *data = file_read(files[i], &len);
        canon_expect_golden(i ? "portable" : "step", CANON_AUTO, data, len);
        free(data);
    }
}

/* The file with the bytes `from` replaced by `to`, and whether its key is another. */
static bool changes(const char *path, const void *from, const void *to, size_t len)
{
    size_t size;
    char *data = file_read(path, &size), *at = memmem(data, size, from, len);
    cr_assert_not_null(at);
    memcpy(at, to, len);
    struct canon_result before = result_of(path), after = {0};
    struct err e = {0};
    int code = try_key(data, size, &after, &e);
    cr_assert_eq(code, 0, "%s", e.text);
    cr_expect(!after.exact, "%s", after.why_exact);
    free(data);
    return !key_equal(&before.key, &after.key);
}

Test(mlir_bytecode, places_and_module_names_do_not_count)
{
    cr_expect(!changes("tests/data/step.mlirbc", "a.py", "b.py", 4), "the file of a location");
    cr_expect(!changes("tests/data/step.mlirbc", "jit_step", "module_7", 8));
    cr_expect(!changes("tests/data/step.mlirbc", "relu", "gelu", 4), "a private function");
    cr_expect(!changes("tests/data/step.mlirbc", "MLIR", "RLIM", 4), "the producer");
    cr_expect(!changes("tests/data/portable.vhlo", "jit_step", "module_7", 8));
}

Test(mlir_bytecode, an_attribute_is_dropped_in_its_own_places_alone)
{
    static const char path[] = "tests/data/attributes.mlirbc";
    struct canon_result text = result_of("tests/data/attributes.mlir"), bytes = result_of(path);
    cr_expect(key_equal(&text.key, &bytes.key));
    cr_expect(!changes(path, "of_a_result", "of_its_mean", 11));
    cr_expect(changes(path, "of_a_call", "of_a_cull", 9), "on an operation");
    cr_expect(changes(path, "of_the_function", "of_the_fraction", 15));
    cr_expect(changes(path, "of_the_module", "of_the_models", 13));
}

Test(mlir_bytecode, constants_and_operations_count)
{
    static const float from[] = {1.5f, -2.0f}, to[] = {1.5f, -2.0000002f};
    cr_expect(changes("tests/data/step.mlirbc", from, to, sizeof from));
    cr_expect(changes("tests/data/portable.vhlo", from, to, sizeof from));
    cr_expect(changes("tests/data/step.mlirbc", "tanh", "sine", 4));
    cr_expect(changes("tests/data/portable.vhlo", "tanh_v1", "sine_v1", 7));
    cr_expect(changes("tests/data/step.mlirbc", "maximum", "minimum", 7));
    cr_expect(changes("tests/data/step.mlirbc", "tf.aliasing_output", "tf.aliasing_outpux", 18));
}

/* The key is that of the exact bytes, if `len` bytes of the module are replaced. */
static void expect_exact(const char *from, const char *to, size_t len)
{
    size_t size;
    char *data = file_read("tests/data/step.mlirbc", &size), *at = memmem(data, size, from, len);
    cr_assert_not_null(at);
    memcpy(at, to, len);
    struct canon_result result = {0};
    struct err e = {0};
    cr_assert_eq(try_key(data, size, &result, &e), 0, "%s", e.text);
    cr_assert(result.exact, "%s", to);
    cr_assert_not_null(result.why_exact);
    free(data);
}

Test(mlir_bytecode, what_is_not_known_is_keyed_by_its_bytes)
{
    expect_exact("pad", "pud", 3); /* an operation that has properties, but none that are known */
    expect_exact("tanh", "t\\nh", 4); /* a name that means another one if it is text */
    expect_exact("tanh", "tan\"", 4);
}

Test(mlir_bytecode, of_a_later_version_is_keyed_by_its_bytes)
{
    size_t len;
    char *data = file_read("tests/data/step.mlirbc", &len);
    data[4] = (char)(99 << 1 | 1);
    struct canon_result result = {0};
    struct err e = {0};
    cr_assert_eq(try_key(data, len, &result, &e), 0, "%s", e.text);
    cr_assert(result.exact);
    free(data);
}

/* ---- bytecode that no writer makes ---- */

static void put_varint(struct writer *w, uint64_t v)
{
    unsigned n = 1;
    while (v >> 7 * n)
        n++;
    for (unsigned i = 0; i < n; i++)
        writer_u8(w, (uint8_t)((v << n | 1u << (n - 1)) >> 8 * i));
}

static void put_varints(struct writer *w, const uint8_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_varint(w, numbers[i]);
}

static void put_section(struct writer *w, uint8_t id, struct writer *content)
{
    writer_u8(w, id);
    put_varint(w, content->len);
    writer_bytes(w, content->data, content->len);
    writer_close(content);
}

/* A module with the attribute x, which is a sharding of a mesh that is a sharding of a mesh, and so on. */
static struct canon_result nested_shardings(uint32_t n)
{
    enum { STRINGS, DIALECTS, ATTRS, ATTR_OFFSETS, IR, SHARDING_CODE = 6, X_ATTR = 1, FIRST = 2 };
    static const char names[] = "builtin\0sdy\0module\0x";
    static const uint8_t lengths[] = {4, 2, 7, 4, 8};       /* how many; the last one's first */
    static const uint8_t dialects[] = {2, 0, 1 << 1};       /* their names */
    static const uint8_t opnames[] = {1, 0, 1, 2 << 1 | 1}; /* of the first dialect: module */
    static const uint8_t dictionary[] = {1, 1, X_ATTR, FIRST}, string[] = {2, 3};
    static const uint8_t module[] = {1 << 1, 0};     /* one operation, the first name */
    static const uint8_t rest[] = {0, 0, 1 << 1, 0}; /* location, attributes, a region, no blocks */
    struct writer file, part, entries;
    writer_init(&file, 0);
    writer_init(&part, 0);
    writer_init(&entries, 0);
    writer_bytes(&file, "ML\xefR\x0dtest", 10); /* version 6, producer */
    put_varints(&part, lengths, sizeof lengths);
    writer_bytes(&part, names, sizeof names);
    put_section(&file, STRINGS, &part);
    put_varints(&part, dialects, sizeof dialects);
    put_varints(&part, opnames, sizeof opnames);
    put_section(&file, DIALECTS, &part);
    put_varint(&part, n + FIRST);
    put_varints(
        &part,
        (const uint8_t[]){0, 0, FIRST, sizeof dictionary << 1 | 1, sizeof string << 1 | 1, 1},
        6); /* no types; of builtin two; of Shardy */
    put_varint(&part, n);
    put_varints(&entries, dictionary, sizeof dictionary);
    put_varints(&entries, string, sizeof string);
    for (uint32_t i = 1; i <= n; i++) {
        size_t before = entries.len;
        put_varint(&entries, SHARDING_CODE);
        put_varint(&entries, i < n ? FIRST + i : X_ATTR);
        put_varints(&entries, (const uint8_t[]){0, 0}, 2); /* no dimensions, no replicated axes */
        put_varint(&part, (entries.len - before) << 1 | 1);
    }
    put_section(&file, ATTRS, &entries);
    put_section(&file, ATTR_OFFSETS, &part);
    put_varints(&part, module, sizeof module);
    writer_u8(&part, 1 | 16); /* it has attributes and regions */
    put_varints(&part, rest, sizeof rest);
    put_section(&file, IR, &part);
    struct canon_result result = {0};
    struct err e = {0};
    cr_assert_eq(try_key(file.data, file.len, &result, &e), 0, "%u: %s", n, e.text);
    writer_close(&file);
    return result;
}

Test(mlir_bytecode, of_shardings_that_nest_too_deep_is_keyed_by_its_bytes)
{
    cr_expect(!nested_shardings(3).exact, "%s", nested_shardings(3).why_exact);
    cr_expect(nested_shardings(100).exact);
    cr_expect(nested_shardings(1000000).exact);
}

#ifndef __SANITIZE_ADDRESS__ /* its shadow lies above any limit */
/* Leaves this process 64 MiB more addresses than it has. Returns the limit before. qemu-user knows no such limit. */
static struct rlimit memory_limit(void)
{
    size_t len;
    struct rlimit before, limit;
    char *pages = file_read("/proc/self/statm", &len);
    cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = strtoul(pages, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) + (64u << 20);
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    free(pages);
    if (mmap(NULL, 128u << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        cr_skip_test("no limit of addresses holds here");
    return before;
}

Test(mlir_bytecode, without_memory_is_an_error)
{
    const uint32_t n = 1u << 25; /* strings, of which the table takes 128 MiB */
    struct writer file, part;
    writer_init(&file, 0);
    writer_init(&part, 0);
    writer_bytes(&file, "ML\xefR\x0dtest", 10);
    put_varint(&part, n);
    memset(writer_reserve(&part, n), 1, n);
    put_section(&file, 0, &part);
    for (uint8_t id = 1; id <= 4; id++)
        put_section(&file, id, &part);
    struct canon_result result = {0};
    struct err e = {0};
    struct rlimit before = memory_limit();
    int code = try_key(file.data, file.len, &result, &e);
    setrlimit(RLIMIT_AS, &before);
    cr_expect_eq(code, WARM_ENOMEM, "%d: %s", code, e.text);
    writer_close(&file);
}
#endif

static void each_truncation(const char *path)
{
    size_t len;
    char *data = file_read(path, &len);
    struct canon_result whole = result_of(path);
    for (size_t n = 4; n < len; n++) {
        char *cut = malloc(n); /* no byte after it, so that a read past its end is seen */
        memcpy(cut, data, n);
        struct canon_result result = {0};
        struct err e = {0};
        int code = try_key(cut, n, &result, &e);
        cr_expect(code || !key_equal(&result.key, &whole.key), "%zu bytes: the whole's key", n);
        cr_expect(!code || e.text[0], "%zu bytes: an error without a text", n);
        free(cut);
    }
    free(data);
}

Test(mlir_bytecode, every_truncation_is_an_error_or_another_key)
{
    each_truncation("tests/data/step.mlirbc");
    each_truncation("tests/data/step.v1.mlirbc");
    each_truncation("tests/data/portable.vhlo");
}

static void each_changed_bit(const char *path)
{
    size_t len;
    char *data = file_read(path, &len);
    for (size_t i = 4 * 8; i < len * 8; i++) {
        struct canon_result result = {0};
        struct err e = {0};
        data[i / 8] = (char)(data[i / 8] ^ (1 << i % 8));
        int code = try_key(data, len, &result, &e);
        cr_expect(!code || e.text[0], "bit %zu: an error without a text", i);
        data[i / 8] = (char)(data[i / 8] ^ (1 << i % 8));
    }
    free(data);
}

Test(mlir_bytecode, every_changed_bit_is_a_key_or_an_error)
{
    each_changed_bit("tests/data/step.mlirbc");
    each_changed_bit("tests/data/portable.vhlo");
}

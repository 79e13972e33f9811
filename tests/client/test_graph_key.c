/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph_key.c - libwarm's keys of graphs are keygen's, and say when they are of exact bytes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/warm.h"
#include "keygen/err.h"
#include "tests/support/support.h"

static int key_of_file(const char *kind, const char *path, char out[33])
{
    size_t len;
    char *data = file_read(path, &len);
    int code = warm_graph_key(kind, data, len, out);
    free(data);
    return code;
}

Test(graph_key, is_the_same_for_text_and_bytecode_with_the_kind_given_or_found)
{
    char text[33], bytes[33], found[33];
    cr_assert_eq(key_of_file("mlir", "tests/data/step.mlir", text), 0);
    cr_assert_eq(key_of_file("mlirbc", "tests/data/step.mlirbc", bytes), 0);
    cr_assert_eq(key_of_file(NULL, "tests/data/step.mlirbc", found), 0);
    size_t len;
    char *golden = file_read("tests/data/golden/step.txt", &len);
    cr_assert_eq(memcmp(text, golden, strlen(text)), 0);
    free(golden);
    cr_assert_str_eq(bytes, text);
    cr_assert_str_eq(found, text);
}

Test(graph_key, the_form_of_text_and_bytecode_is_one)
{
    char text[65536], bytes[65536];
    size_t len, text_len;
    char *data = file_read("tests/data/step.mlir", &len);
    long n = warm_graph_form("mlir", data, len, text, sizeof text);
    cr_expect_eq(warm_graph_form("mlir", data, len, bytes, 10), n,
                 "what does not fit is not written");
    free(data);
    data = file_read("tests/data/step.mlirbc", &text_len);
    cr_expect_eq(warm_graph_form("mlirbc", data, text_len, bytes, sizeof bytes), n);
    cr_assert_gt(n, 100);
    cr_expect_eq(memcmp(text, bytes, (size_t)n), 0);
    cr_expect_eq(warm_graph_form("no such kind", data, text_len, bytes, sizeof bytes),
                 WARM_EINVALID);
    free(data);
}

Test(graph_key, of_exact_bytes_says_so)
{
    static const char two[] = "module {\n}\nmodule {\n}\n";
    char key[33];
    cr_assert_eq(warm_graph_key("mlir", two, sizeof two - 1, key), WARM_EXACT);
    cr_assert_eq(strlen(key), 32);
}

Test(graph_key, is_refused_where_it_could_not_tell_graphs_apart)
{
    static const char elided[] =
        "module {\n  %0 = stablehlo.constant dense<...> : tensor<64xf32>\n}\n";
    char key[33] = "untouched";
    cr_assert_eq(warm_graph_key("mlir", elided, sizeof elided - 1, key), WARM_EREFUSED);
    cr_assert_eq(warm_graph_key("no such kind", elided, sizeof elided - 1, key), WARM_EINVALID);
    cr_assert_eq(warm_graph_key("mlirbc", "ML\xefR", 4, key), WARM_ETRUNCATED);
    cr_assert_str_eq(key, "untouched");
}

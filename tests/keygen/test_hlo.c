/* SPDX-License-Identifier: Apache-2.0 */
/* test_hlo.c - HLO text: changes that keep its key, changes that do not, and refusals. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/canon_kit.h"

/* A reducer, a private function that is called, a loop, a sharded argument and a collective. */
static const char base[] =
    "HloModule jit_step, entry_computation_layout={(f32[8,16]{1,0}, f32[16]{0})->(f32[8,16]{1,0}, "
    "f32[8]{0})}, input_output_alias={ {0}: (0, {}, may-alias) }, num_partitions=4, "
    "frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, \"y\"=2]>}}\n"
    "\n"
    "FileNames\n"
    "1 \"/home/a/train.py\"\n"
    "\n"
    "FileLocations\n"
    "1 {file_name_id=1 function_name_id=1 line=32 end_line=32 column=24 end_column=87}\n"
    "\n"
    "%region_0.1 (a.1: f32[], b.1: f32[]) -> f32[] {\n"
    "  %a.1 = f32[] parameter(0)\n"
    "  %b.1 = f32[] parameter(1)\n"
    "  ROOT %add.1 = f32[] add(%a.1, %b.1), metadata={op_name=\"add\" stack_frame_id=1}\n"
    "}\n"
    "\n"
    "%relu.2 (Arg_0.1: f32[8,16]) -> f32[8,16] {\n"
    "  %Arg_0.1 = f32[8,16]{1,0} parameter(0)\n"
    "  %constant.3 = f32[] constant(0)\n"
    "  %max.2 = f32[8,16]{1,0} broadcast(%constant.3), dimensions={}\n"
    "  ROOT %max.3 = f32[8,16]{1,0} maximum(%Arg_0.1, %max.2)\n"
    "}\n"
    "\n"
    "ENTRY %main.3 (p.1: f32[8,16], q.1: f32[16]) -> (f32[8,16], f32[8]) {\n"
    "  %p.1 = f32[8,16]{1,0} parameter(0), sharding={devices=[2,1,2]<=[4] "
    "last_tile_dim_replicate}, "
    "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [{\\\"x\\\"}, {}]>\"}\n"
    "  %q.1 = f32[16]{0} parameter(1)\n"
    "  %bias.4 = f32[8,16]{1,0} broadcast(%q.1), dimensions={1}, metadata={op_name=\"bias\"}\n"
    "  %sub.5 = f32[8,16]{1,0} subtract(%p.1, %bias.4)\n"
    "  %call.6 = f32[8,16]{1,0} call(%sub.5), to_apply=%relu.2\n"
    "  %scale.7 = f32[] constant(0.5)\n"
    "  %wide.8 = f32[8,16]{1,0} broadcast(%scale.7), dimensions={}\n"
    "  %mul.9 = f32[8,16]{1,0} multiply(%call.6, %wide.8)\n"
    "  %sum.10 = f32[8,16]{1,0} all-reduce(%mul.9), channel_id=7, replica_groups={{0,2},{1,3}}, "
    "use_global_device_ids=true, to_apply=%region_0.1\n"
    "  %other.11 = f32[8,16]{1,0} all-reduce(%sum.10), channel_id=9, "
    "replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%region_0.1\n"
    "  %zero.12 = f32[] constant(0)\n"
    "  %rows.13 = f32[8]{0} reduce(%other.11, %zero.12), dimensions={1}, to_apply=%region_0.1\n"
    "  ROOT %out.14 = (f32[8,16]{1,0}, f32[8]{0}) tuple(%other.11, %rows.13)\n"
    "}\n";

static int try_key(const char *text, size_t len, struct key *out, struct err *e)
{
    struct canon_input input = {.data = text, .len = len, .kind = CANON_HLO};
    struct canon_result result;
    int code = canon_key(&input, &result, NULL, e);
    if (!code)
        *out = result.key;
    return code;
}

static struct key key_of(const char *text)
{
    struct key key = {{0}};
    struct err e = {0};
    int code = try_key(text, strlen(text), &key, &e);
    cr_assert_eq(code, 0, "%u:%u: %s", e.line, e.column, e.text);
    return key;
}

/* The text with every `from` as `to`; there must be one. */
static char *with(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "%s is not in the text", from);
    char *out = calloc(1, strlen(text) * (strlen(to) + 1) + 1), *end = out;
    for (const char *next; (next = strstr(text, from)); text = next + strlen(from)) {
        memcpy(end, text, (size_t)(next - text));
        end = stpcpy(end + (next - text), to);
    }
    strcpy(end, text);
    return out;
}

static bool changes(const char *text, const char *from, const char *to)
{
    char *other = with(text, from, to);
    struct key a = key_of(text), b = key_of(other);
    free(other);
    return !key_equal(&a, &b);
}

static void refused(const char *text, int code, unsigned line, unsigned column)
{
    struct key key;
    struct err e = {0};
    cr_expect_eq(try_key(text, strlen(text), &key, &e), code, "%s", text);
    cr_expect_eq(e.line, line, "line %u: %s", e.line, e.text);
    cr_expect_eq(e.column, column, "column %u: %s", e.column, e.text);
}

Test(hlo, is_found_by_its_first_word)
{
    cr_assert_eq(canon_detect(NULL, base, sizeof base - 1), CANON_HLO);
    cr_assert_eq(canon_detect(NULL, "\n\nHloModule x\n", 14), CANON_HLO);
    cr_assert_neq(canon_detect(NULL, "HloModules", 10), CANON_HLO);
}

Test(hlo, key_is_golden) { canon_expect_golden("hlo", CANON_HLO, base, strlen(base)); }

Test(hlo, names_numbers_and_places_do_not_count)
{
    static const char *const same[][2] = {
        {"HloModule jit_step", "HloModule module_0076.reactant_loop!"},
        {"%region_0.1", "%sum_of_two.77"},
        {"%relu.2", "%jit_relu_.9"},
        {"%main.3", "%main.999"},
        {"%mul.9", "%scaled.1.clone"},
        {"%", ""},
        {"stack_frame_id=1", "stack_frame_id=8 source_file=\"/x.py\" source_line=3"},
        {", metadata={op_name=\"bias\"}", ""},
        {"dimensions={1}", "dimensions={1}, metadata={op_type=\"mul\" op_name=\"pad.5725\"}"},
        {"/home/a/train.py", "/srv/other.py"},
        {"FileLocations\n1 {file_name_id=1 function_name_id=1 line=32 end_line=32 column=24 "
         "end_column=87}\n",
         ""},
        {"call(%sub.5)", "call(f32[8,16]{1,0} %sub.5)"},
        {", f32[16]{0})", ", /*index=1*/f32[16]{0})"},
        {"parameter(0)", "parameter( 0 ) /* the first */"},
        {"f32[8,16]{1,0} parameter(0)", "f32[8, 16]{1, 0} parameter(0)"},
        {"f32[16]{0} parameter(1)", "/* a ] b [ */ f32[16]{0} parameter(1)"},
        {"={{0,2},{1,3}}", "={ {0, 2},\n\t{1,3} }"},
        {"\n", "\r\n"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        cr_expect(!changes(base, same[i][0], same[i][1]), "%s -> %s", same[i][0], same[i][1]);
}

Test(hlo, everything_that_means_something_counts)
{
    static const char *const other[][2] = {
        {"subtract(%p.1, %bias.4)", "subtract(%bias.4, %p.1)"},
        {"subtract(", "add("},
        {"constant(0.5)", "constant(0.50000006)"},
        {"constant(0.5)", "constant(-0.5)"},
        {"constant(0.5)", "constant(nan(0x400001))"},
        {"f32[16]{0} parameter(1)", "f32[16]{0:T(128)} parameter(1)"},
        {"f32[8]", "f32[9]"},
        {"f32[]", "f16[]"},
        {"f32[8,16]{1,0}", "f32[8,16]{0,1}"},
        {"dimensions={1}", "dimensions={0}"},
        {"devices=[2,1,2]<=[4]", "devices=[2,1,2]<=[2,2]T(1,0)"},
        {"[{\\\"x\\\"}, {}]", "[{}, {\\\"x\\\"}]"},
        {"replica_groups={{0,2},{1,3}}", "replica_groups={{0,1},{2,3}}"},
        {"use_global_device_ids=true, ", ""},
        {"channel_id=9", "channel_id=7"},
        {"channel_id=9", "channel_id=10"},
        {"channel_id=7, ", ""},
        {"num_partitions=4", "num_partitions=2"},
        {"may-alias", "must-alias"},
        {"input_output_alias={ {0}: (0, {}, may-alias) }, ", ""},
        {"{1,0}, f32[16]{0})->", "{0,1}, f32[16]{0})->"},
        {"ROOT %add.1 = f32[] add(", "ROOT %add.1 = f32[] maximum("},
        {"maximum(%Arg_0.1", "minimum(%Arg_0.1"},
        {"tuple(%other.11,", "tuple(%sum.10,"},
        {"HloModule jit_step,", "HloModule jit_step, is_scheduled=true,"},
        {"dimensions={1}, to_apply", "dimensions={1}, unknown_to_us=3, to_apply"},
        {"%zero.12 = f32[] constant(0)", "%zero.12 = f32[] constant(1)"},
        {"call(%sub.5), to_apply=%relu.2",
         "call(%sub.5), to_apply=%relu.2, frontend_attributes={inlineable=\"false\"}"},
        {"metadata={op_name=\"bias\"}", "metadata={op_name=\"bias\" preserve_layout=true}"},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        cr_expect(changes(base, other[i][0], other[i][1]), "%s -> %s", other[i][0], other[i][1]);
}

Test(hlo, names_of_mesh_axes_do_not_count)
{
    cr_expect(!changes(base, "\"x", "\"data"), "in the mesh and in the sharding");
    cr_expect(changes(base, "\"x\"=2", "\"data\"=2"), "in the mesh alone");
    cr_expect(changes(base, "\\\"x\\\"", "\\\"y\\\""), "another axis");
    cr_expect(changes(base, "\\\"x\\\"", "\\\"z\\\""), "an axis of no mesh");
    cr_expect(changes(base, "\"x\"=2, \"y\"=2", "\"y\"=2, \"x\"=2"), "the order of axes");
    refused("HloModule m, frontend_attributes={a=\"#sdy.sharding<@mesh, [{#0}]>\"}\n",
            WARM_EREFUSED, 1, 61);
}

Test(hlo, strings_outside_of_shardings_keep_the_names_of_axes)
{
    char *text = with(base, "call(%sub.5), to_apply=%relu.2",
                      "call(%sub.5), to_apply=%relu.2, frontend_attributes={a=\"<\\\"x\\\">\"}");
    cr_expect(changes(text, "\"x", "\"t"));
    free(text);
}

Test(hlo, replica_groups_over_a_mesh_are_read_whole)
{
    char *mesh = with(base, "replica_groups={{0,2},{1,3}}",
                      "replica_groups=mesh['axis_0'=2,'axis_1'=2] {'axis_1'}");
    cr_expect(changes(base, "replica_groups={{0,2},{1,3}}",
                      "replica_groups=mesh['axis_0'=2,'axis_1'=2] {'axis_1'}"));
    cr_expect(changes(mesh, "{'axis_1'}", "{'axis_0'}"));
    cr_expect(changes(mesh, "'axis_1'=2]", "'axis_1'=4]"));
    free(mesh);
}

Test(hlo, a_control_edge_counts)
{
    static const char text[] = "HloModule m\n"
                               "ENTRY %e {\n"
                               "  %p = s32[4]{0} parameter(0)\n"
                               "  %a = s32[4]{0} copy(%p)\n"
                               "  %b = s32[4]{0} negate(%p), control-predecessors={%a}\n"
                               "  ROOT %s = s32[4]{0} subtract(%a, %b)\n"
                               "}\n";
    cr_expect(changes(text, ", control-predecessors={%a}", ""));
    cr_expect(changes(text, "predecessors={%a}", "predecessors={%p}"));
    cr_expect(!changes(text, "%a", "%copy.1"));
}

Test(hlo, the_bytes_of_a_custom_calls_backend_config_count)
{
    static const char text[] = "HloModule m\n"
                               "ENTRY %e {\n"
                               "  %p = s32[4]{0} parameter(0)\n"
                               "  ROOT %b = s32[4]{0} custom-call(%p), custom_call_target=\"f\", "
                               "backend_config={\"a\":1,\"b\":2}\n"
                               "}\n";
    cr_expect(changes(text, "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"));
    cr_expect(changes(text, "1,\"b\"", "1, \"b\""), "white space is a byte, too");
}

Test(hlo, elided_constants_are_refused_with_their_place)
{
    refused("HloModule m\nENTRY e {\n  ROOT c = f32[9]{0} constant({...})\n}\n", WARM_EREFUSED, 3,
            32);
}

Test(hlo, what_refers_to_its_process_is_refused)
{
    static const char *const targets[] = {"enzymexla_compile_gpu", "xla_ffi_python_cpu_callback",
                                          "xla_python_cpu_callback", "CustomSPMDPartitioning"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "HloModule m\nENTRY e {\n  ROOT c = f32[] custom-call(), "
                 "custom_call_target=\"%s\"\n}\n",
                 targets[i]);
        refused(text, WARM_EREFUSED, 3, 52);
    }
}

Test(hlo, a_comment_in_a_literal_hides_its_brackets)
{
    static const char text[] = "HloModule m\nENTRY e {\n  ROOT c = f32[2]{0} constant({1, 2})\n}\n";
    cr_expect(!changes(text, "{1, 2}", "{1, /*) ,*/ 2}"));
    cr_expect(!changes(text, "{1, 2}", "{1,2 // )\n}"));
    refused("HloModule m\nENTRY e {\n  ROOT c = f32[2]{0} constant({1, 2/*) */", WARM_ETRUNCATED, 3,
            42);
}

Test(hlo, malformed_text_is_an_error_with_its_place)
{
    refused("HloModule m\nENTRY e {\n  ROOT c = f32[] add(x, x)\n}\n", WARM_EMALFORMED, 3, 22);
    refused("HloModule m\nENTRY e {\n  c = f32[] constant(1)\n  c = f32[] constant(2)\n}\n",
            WARM_EMALFORMED, 4, 3);
    refused("HloModule m\nENTRY e {\n  ROOT c = f32[] reduce(), to_apply=f\n}\n", WARM_EMALFORMED,
            3, 37);
    refused("HloModule m\nENTRY e {\n  c f32[]\n}\n", WARM_EMALFORMED, 3, 5);
    refused("HloModule m\nENTRY e {\n}\n", WARM_EMALFORMED, 3, 1);
    refused("HloModule m\nf {\n  ROOT x = f32[] parameter(0)\n}\ng {\n}\nENTRY e {\n"
            "  ROOT y = f32[] constant(1)\n}\n",
            WARM_EMALFORMED, 6, 1);
    refused("HloModule m\nHloModule n\n", WARM_EMALFORMED, 2, 1);
    refused("HloModule m\n", WARM_ETRUNCATED, 2, 1);
}

Test(hlo, every_truncation_is_an_error_and_no_crash)
{
    size_t len = sizeof base - 1;
    for (size_t n = 0; n + 1 < len; n++) {
        char *cut = malloc(n ? n : 1); /* no byte after it, so that a read past its end is seen */
        memcpy(cut, base, n);
        struct key key;
        struct err e = {0};
        if (n < len - 2)
            cr_expect_neq(try_key(cut, n, &key, &e), 0, "%zu bytes have a key", n);
        free(cut);
    }
}

Test(hlo, every_changed_byte_is_a_key_or_an_error)
{
    char *text = malloc(sizeof base);
    for (size_t i = 0; i < sizeof base - 1; i++) {
        memcpy(text, base, sizeof base);
        for (unsigned bit = 0; bit < 8; bit++) {
            struct key key;
            struct err e = {0};
            text[i] = (char)(base[i] ^ (1 << bit));
            int code = try_key(text, sizeof base - 1, &key, &e);
            cr_expect(code == 0 || e.text[0], "byte %zu: %d without a text", i, code);
        }
    }
    free(text);
}

/* Whatever compiles it: a program in another order is another program. */
Test(hlo, the_programs_own_order_counts)
{
    static const char program[] = "HloModule m\n"
                                  "%f {\n  %x = s32[4]{0} parameter(0)\n"
                                  "  ROOT %n = s32[4]{0} negate(%x)\n}\n"
                                  "%g {\n  %x = s32[4]{0} parameter(0)\n"
                                  "  ROOT %n = s32[4]{0} abs(%x)\n}\n"
                                  "ENTRY %e {\n"
                                  "  %p = s32[4]{0} parameter(0)\n"
                                  "  %q = s32[4]{0} parameter(1)\n"
                                  "  %a = s32[4]{0} call(%p), to_apply=%f\n"
                                  "  %b = s32[4]{0} call(%p), to_apply=%g\n"
                                  "  ROOT %s = s32[4]{0} add(%a, %b)\n}\n";
    static const char *const other[][2] = {
        {"add(%a, %b)", "add(%b, %a)"},
        {"  %a = s32[4]{0} call(%p), to_apply=%f\n  %b = s32[4]{0} call(%p), to_apply=%g\n",
         "  %b = s32[4]{0} call(%p), to_apply=%g\n  %a = s32[4]{0} call(%p), to_apply=%f\n"},
        {"  %p = s32[4]{0} parameter(0)\n  %q = s32[4]{0} parameter(1)\n",
         "  %q = s32[4]{0} parameter(1)\n  %p = s32[4]{0} parameter(0)\n"},
        {"call(%p), to_apply=%f", "negate(%p)"},
        {"  ROOT %s", "  %dead = s32[] constant(1)\n  ROOT %s"},
        {"ROOT %s = s32[4]{0} add(%a, %b)", "ROOT %s = s32[4]{0} add(%a, %a)"},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        cr_expect(changes(program, other[i][0], other[i][1]), "%s", other[i][1]);
    char *swapped = with(program, "negate(%x)", "tanh(%x)"),
         *late = with(swapped, "abs(%x)", "negate(%x)"),
         *exchanged = with(late, "tanh(%x)", "abs(%x)"), *f_as_z = with(exchanged, "%f", "%z"),
         *g_as_f = with(f_as_z, "%g", "%f"), *calls = with(g_as_f, "%z", "%g");
    struct key a = key_of(program), b = key_of(calls);
    cr_expect(!key_equal(&a, &b), "the computations in the other order");
    free(swapped), free(late), free(exchanged), free(f_as_z), free(g_as_f), free(calls);
}

/* A word in an attribute that this project does not know may be the name of anything. */
Test(hlo, what_an_unknown_attribute_names_counts)
{
    static const char text[] = "HloModule m\n"
                               "f {\n  x = s32[4]{0} parameter(0)\n  ROOT y = s32[4]{0} abs(x)\n}\n"
                               "ENTRY e {\n"
                               "  p = s32[4]{0} parameter(0)\n"
                               "  q = s32[4]{0} parameter(1)\n"
                               "  a = s32[4]{0} new-opcode(p), apply_later=f, near=q, far=z\n"
                               "  z = s32[4]{0} negate(p)\n"
                               "  w = s32[4]{0} negate(z)\n"
                               "  ROOT r = s32[4]{0} add(a, w)\n"
                               "}\n";
    cr_expect(changes(text, "near=q", "near=p"));
    cr_expect(changes(text, "far=z", "far=w"));
    cr_expect(changes(text, "  q =", "  u ="), "it names nothing any more");
    char *renamed = with(text, "negate(p)", "negate(q)"), *other = with(renamed, "  z =", "  o ="),
         *used = with(other, "negate(z)", "negate(o)"), *of_z = with(renamed, "far=z", "far=o");
    struct key a = key_of(renamed), b = key_of(used), c = key_of(of_z);
    cr_expect(!key_equal(&a, &b), "a name that a word before it may have meant");
    cr_expect(!key_equal(&a, &c) && !key_equal(&b, &c));
    char *plain = with(text, "w =", "v ="), *same = with(plain, "(a, w)", "(a, v)");
    a = key_of(text), b = key_of(same);
    cr_expect(key_equal(&a, &b), "a name that no word meant");
    free(plain), free(same);
    free(renamed), free(other), free(used), free(of_z);
}

Test(hlo, what_stands_inside_something_else_has_no_key)
{
#define ROOT_IS(what) "HloModule m\nENTRY e {\n  ROOT r = f32[] " what "\n}\n"
    refused(ROOT_IS("negate(f32[] constant(1))"), WARM_EMALFORMED, 3, 42);
    refused(ROOT_IS("call(), to_apply={ ROOT x = f32[] constant(1) }"), WARM_EMALFORMED, 3, 37);
    refused(ROOT_IS("rng(), unknown=#0"), WARM_EREFUSED, 3, 33);
    refused(ROOT_IS("rng(), unknown=}"), WARM_EMALFORMED, 3, 33);
    refused(ROOT_IS("rng(), metadata={=\"x\"}"), WARM_EMALFORMED, 3, 35);
    refused("HloModule m\nENTRY e {\n  ROOT r = }\n", WARM_ETRUNCATED, 4, 1);
    key_of(ROOT_IS("rng(), unknown=0"));
}

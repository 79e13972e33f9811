/* SPDX-License-Identifier: Apache-2.0 */
/* test_hlo.c - HLO text: what must not change its key, what must, and what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon.h"

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

Test(hlo, key_is_golden)
{
    char text[WARM_KEY_TEXT];
    struct key key = key_of(base);
    key_to_text(&key, text);
    cr_assert_str_eq(text, "1cbe5a0c3781ece7c97448f1dbcd0604");
}

Test(hlo, real_products_do_not_commute)
{
    /* XLA makes x * (c * c) of (x * c) * c, and only where the constants stand second */
    static const char product[] = "HloModule m\n\nENTRY %e {\n"
                                  "  %x = f32[4]{0} parameter(0)\n"
                                  "  %k = f32[] constant(0.333333343)\n"
                                  "  %c = f32[4]{0} broadcast(%k), dimensions={}\n"
                                  "  %y = f32[4]{0} multiply(%x, %c)\n"
                                  "  ROOT %r = f32[4]{0} multiply(%y, %c)\n}\n";
    cr_expect(changes(product, "(%y, %c)", "(%c, %y)"));
}

Test(hlo, nothing_commutes_beside_a_sum_of_products)
{
    /* which product is fused depends on the order in which operands are loaded */
    static const char sum[] = "HloModule m\n\nENTRY %e {\n"
                              "  %x = f32[4]{0} parameter(0)\n"
                              "  %i = s32[4]{0} parameter(1)\n"
                              "  %j = s32[4]{0} parameter(2)\n"
                              "  %n = s32[4]{0} maximum(%i, %j)\n"
                              "  %y = f32[4]{0} convert(%n)\n"
                              "  ROOT %r = f32[4]{0} SUM(%x, %y)\n}\n";
    for (int adds = 0; adds < 2; adds++) {
        char *text = with(sum, "SUM", adds ? "add" : "multiply");
        char *swapped = with(text, "(%i, %j)", "(%j, %i)");
        struct key key = key_of(text), other = key_of(swapped);
        cr_expect_eq(key_equal(&key, &other), !adds);
        free(swapped), free(text);
    }
}

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
        {"channel_id=7", "channel_id=700"},
        {"call(%sub.5)", "call(f32[8,16]{1,0} %sub.5)"},
        {", f32[16]{0})", ", /*index=1*/f32[16]{0})"},
        {"parameter(0)", "parameter( 0 ) /* the first */"},
        {"f32[8,16]{1,0} parameter(0)", "f32[8, 16]{1, 0} parameter(0)"},
        {"f32[16]{0} parameter(1)", "/* a ] b [ */ f32[16]{0} parameter(1)"},
        {"={{0,2},{1,3}}", "={ {0, 2},\n\t{1,3} }"},
        {"\n", "\r\n"},
        {"last_tile_dim_replicate}", "last_tile_dim_replicate metadata={op_name=\"w\"}}"},
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

Test(hlo, names_of_mesh_axes_do_not_count_but_their_places_do)
{
    char *renamed = with(base, "\"x\"=2", "\"data\"=2");
    char *both = with(renamed, "\\\"x\\\"", "\\\"data\\\"");
    char *moved = with(base, "\\\"x\\\"", "\\\"y\\\"");
    struct key k = key_of(base), k_both = key_of(both), k_half = key_of(renamed),
               k_moved = key_of(moved);
    cr_expect(key_equal(&k, &k_both));
    cr_expect(!key_equal(&k, &k_half), "an axis that no mesh has is not an axis of the mesh");
    cr_expect(!key_equal(&k, &k_moved));
    free(renamed);
    free(both);
    free(moved);
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

/* The program without what says how it is divided, and without sums over devices. */
static char *on_one_device(const char *text)
{
    static const char *const said[][2] = {
        {", num_partitions=4, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, "
         "\"y\"=2]>}}",
         ""},
        {", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, "
         "frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [{\\\"x\\\"}, {}]>\"}",
         ""},
        {"all-reduce(%mul.9), channel_id=7, replica_groups={{0,2},{1,3}}, "
         "use_global_device_ids=true, to_apply=%region_0.1",
         "negate(%mul.9)"},
        {"all-reduce(%sum.10), channel_id=9, replica_groups={{0,1},{2,3}}, "
         "use_global_device_ids=true, to_apply=%region_0.1",
         "negate(%sum.10)"}};
    char *out = strdup(text);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char *less = with(out, said[i][0], said[i][1]);
        free(out);
        out = less;
    }
    return out;
}

Test(hlo, an_inlined_call_has_the_key_of_the_call)
{
    char *inlined = with(base, "  %call.6 = f32[8,16]{1,0} call(%sub.5), to_apply=%relu.2\n",
                         "  %c.1 = f32[] constant(0)\n"
                         "  %c.2 = f32[8,16]{1,0} broadcast(%c.1), dimensions={}\n"
                         "  %call.6 = f32[8,16]{1,0} maximum(%sub.5, %c.2)\n");
    char *call_on_one = on_one_device(base), *on_one = on_one_device(inlined);
    struct key a = key_of(base), b = key_of(inlined);
    cr_assert(!key_equal(&a, &b), "devices share it as it is written");
    a = key_of(call_on_one), b = key_of(on_one);
    cr_assert(key_equal(&a, &b));
    free(on_one);
    free(call_on_one);
    free(inlined);
}

Test(hlo, an_inlined_call_is_another_where_numbers_have_not_all_as_many_bits)
{
#define BESIDE(type, what)                                                                         \
    "HloModule m\n" F_OF_X "ENTRY %e (x: f32[4]) -> f32[4] {\n  %x = f32[4]{0} parameter(0)\n"      \
    "  %w = " type "[4]{0} convert(%x)\n  %y = f32[4]{0} convert(%w)\n"                            \
    "  %c = f32[4]{0} " what "\n  ROOT %r = f32[4]{0} power(%y, %c)\n}\n"
#define F_OF_X                                                                                     \
    "%f (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n"                                  \
    "  ROOT %n = f32[4]{0} negate(%p)\n}\n"
#define ARE_ONE(type)                                                                              \
    (a = key_of(BESIDE(type, "call(%x), to_apply=%f")), b = key_of(BESIDE(type, "negate(%x)")),    \
     key_equal(&a, &b))
    struct key a, b;
    cr_expect(ARE_ONE("f32") && ARE_ONE("s32") && ARE_ONE("u32"));
    cr_expect(!ARE_ONE("pred") && !ARE_ONE("bf16") && !ARE_ONE("f64") && !ARE_ONE("u8"));
    cr_expect(!ARE_ONE("c64") && !ARE_ONE("f8e4m3fn"));
}

Test(hlo, order_of_computations_and_of_independent_operations_does_not_count)
{
    static const char late[] = "HloModule m\n"
                               "ENTRY %e (p: s32[4], q: s32[4]) -> s32[4] {\n"
                               "  %z = s32[] constant(0)\n"
                               "  %p = s32[4]{0} parameter(0)\n"
                               "  %q = s32[4]{0} parameter(1)\n"
                               "  %b = s32[4]{0} negate(%p)\n"
                               "  %a = s32[4]{0} abs(%p)\n"
                               "  %r = s32[] reduce(%a, %z), dimensions={0}, to_apply=%f\n"
                               "  %w = s32[4]{0} broadcast(%r), dimensions={}\n"
                               "  %m = s32[4]{0} maximum(%b, %w)\n"
                               "  %d = s32[4]{0} add(%p, %q)\n"
                               "  ROOT %s = s32[4]{0} add(%m, %d)\n"
                               "}\n"
                               "%f (x: s32[], y: s32[]) -> s32[] {\n"
                               "  %x = s32[] parameter(0)\n"
                               "  %y = s32[] parameter(1)\n"
                               "  ROOT %a = s32[] add(%x, %y)\n"
                               "}\n";
    static const char early[] = "HloModule m\n"
                                "%f (x: s32[], y: s32[]) -> s32[] {\n"
                                "  %y = s32[] parameter(1)\n"
                                "  %x = s32[] parameter(0)\n"
                                "  ROOT %a = s32[] add(%x, %y)\n"
                                "}\n"
                                "ENTRY %e (p: s32[4], q: s32[4]) -> s32[4] {\n"
                                "  %p = s32[4]{0} parameter(0)\n"
                                "  %q = s32[4]{0} parameter(1)\n"
                                "  %d = s32[4]{0} add(%q, %p)\n"
                                "  %a = s32[4]{0} abs(%p)\n"
                                "  %z = s32[] constant(0)\n"
                                "  %r = s32[] reduce(%a, %z), dimensions={0}, to_apply=%f\n"
                                "  %w = s32[4]{0} broadcast(%r), dimensions={}\n"
                                "  %b = s32[4]{0} negate(%p)\n"
                                "  %m = s32[4]{0} maximum(%b, %w)\n"
                                "  ROOT %s = s32[4]{0} add(%m, %d)\n"
                                "}\n";
    struct key a = key_of(late), b = key_of(early);
    cr_assert(key_equal(&a, &b));
    cr_assert(changes(early, "add(%x, %y)", "add(%y, %x)"), "in a computation that is no call's");
    cr_assert(changes(early, "maximum(%b, %w)", "maximum(%w, %b)"), "what comes from a reduction");
}

/* Nobody knows that a branch has no effect before its call is inlined. */
Test(hlo, what_nothing_needs_counts_but_for_constants)
{
    static const char program[] = "HloModule m\n"
                                  "%f (x: s32[4]) -> s32[4] {\n"
                                  "  %x = s32[4]{0} parameter(0)\n"
                                  "  %one = s32[] constant(1)\n"
                                  "  %idle = s32[4]{0} negate(%x)\n"
                                  "  ROOT %n = s32[4]{0} negate(%x)\n"
                                  "}\n"
                                  "ENTRY %e (a: s32[4]) -> s32[4] {\n"
                                  "  %a = s32[4]{0} parameter(0)\n"
                                  "  %two = s32[] constant(2)\n"
                                  "  %m = s32[4]{0} multiply(%a, %a)\n"
                                  "  %dead = s32[4]{0} abs(%m)\n"
                                  "  %c = s32[4]{0} call(%a), to_apply=%f\n"
                                  "  ROOT %r = s32[4]{0} abs(%c)\n"
                                  "}\n";
    cr_expect(changes(program, "  %idle = s32[4]{0} negate(%x)\n", ""));
    cr_expect(changes(program, "  %dead = s32[4]{0} abs(%m)\n", ""));
    cr_expect(changes(program, "%dead = s32[4]{0} abs(%m)", "%dead = s32[4]{0} negate(%m)"));
    cr_expect(!changes(program, "  %one = s32[] constant(1)\n", ""));
    cr_expect(!changes(program, "  %two = s32[] constant(2)\n", ""));
}

Test(hlo, in_a_scheduled_module_order_counts)
{
    static const char scheduled[] = "HloModule m, is_scheduled=true\n"
                                    "ENTRY %e {\n"
                                    "  %p = s32[4]{0} parameter(0)\n"
                                    "  %a = s32[4]{0} abs(%p)\n"
                                    "  %b = s32[4]{0} negate(%p)\n"
                                    "  ROOT %s = s32[4]{0} subtract(%a, %b)\n"
                                    "}\n";
    cr_assert(changes(scheduled, "  %a = s32[4]{0} abs(%p)\n  %b = s32[4]{0} negate(%p)\n",
                      "  %b = s32[4]{0} negate(%p)\n  %a = s32[4]{0} abs(%p)\n"));
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

Test(hlo, fields_of_a_backend_config_have_no_order_but_values)
{
    static const char text[] =
        "HloModule m\n"
        "ENTRY %e {\n"
        "  %p = s32[4]{0} parameter(0)\n"
        "  ROOT %b = s32[4]{0} negate(%p), "
        "backend_config={\"trip\":{\"n\":\"10\"},\"parts\":[1,2],\"none\":[]}\n"
        "}\n";
    cr_expect(!changes(text, "{\"trip\":{\"n\":\"10\"},\"parts\":[1,2],\"none\":[]}",
                       "{\"none\":[], \"parts\":[1,2], \"trip\":{\"n\":\"10\"}}"));
    cr_expect(changes(text, "[1,2]", "[2,1]"));
    cr_expect(changes(text, "\"10\"", "10"));
    cr_expect(changes(text, "\"none\":[]", "\"none\":{}"));
    cr_expect(changes(text, ",\"none\":[]", ""));
    cr_expect(changes(text, "{\"n\":\"10\"}", "{\"m\":\"10\"}"));
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
    char *blas = with(text, "\"f\"", "\"__cublas$gemm\"");
    cr_expect(!changes(blas, "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"));
    free(blas);
}

Test(hlo, an_unknown_attribute_that_names_a_computation_brings_it_along)
{
    static const char text[] = "HloModule m\n"
                               "f {\n  x = s32[4]{0} parameter(0)\n  ROOT y = s32[4]{0} abs(x)\n}\n"
                               "g {\n  x = s32[4]{0} parameter(0)\n  ROOT y = s32[4]{0} negate(x)\n"
                               "}\n"
                               "ENTRY e {\n"
                               "  p = s32[4]{0} parameter(0)\n"
                               "  ROOT r = s32[4]{0} new-opcode(p), apply_later=f\n"
                               "}\n";
    cr_expect(changes(text, "abs(x)", "sign(x)"), "the body that is named counts");
    cr_expect(changes(text, "apply_later=f", "apply_later=g"));
    cr_expect(!changes(text, "negate(x)", "cosine(x)"), "one that nothing names does not");
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
            31);
}

Test(hlo, malformed_text_is_an_error_with_its_place)
{
    refused("HloModule m\nENTRY e {\n  ROOT c = f32[] add(x, x)\n}\n", WARM_EMALFORMED, 3, 22);
    refused("HloModule m\nENTRY e {\n  c = f32[] constant(1)\n  c = f32[] constant(2)\n}\n",
            WARM_EMALFORMED, 4, 3);
    refused("HloModule m\nENTRY e {\n  ROOT c = f32[] reduce(), to_apply=f\n}\n", WARM_EMALFORMED,
            3, 37);
    refused("HloModule m\nENTRY e {\n  ROOT c = f32[] parameter(1)\n}\n", WARM_EMALFORMED, 3, 28);
    refused("HloModule m\nENTRY e {\n  c f32[]\n}\n", WARM_EMALFORMED, 3, 5);
    refused("HloModule m\nENTRY e {\n}\n", WARM_EMALFORMED, 3, 2);
    refused("HloModule m\nf {\n  ROOT x = f32[] parameter(0)\n}\ng {\n}\nENTRY e {\n"
            "  ROOT y = f32[] constant(1)\n}\n",
            WARM_EMALFORMED, 6, 2);
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

Test(hlo, regions_are_the_computations)
{
    struct canon_input input = {.data = base, .len = sizeof base - 1, .kind = CANON_HLO};
    struct canon_region *regions = NULL;
    size_t n = 0;
    struct err e = {0};
    cr_assert_eq(canon_regions(&input, &regions, &n, &e), 0, "%s", e.text);
    uint64_t reducers = 0;
    for (size_t i = 0; i < n; i++)
        reducers += strstr(regions[i].label, "region_0") != NULL;
    cr_expect_eq(reducers, 1, "the reducer is one region");
    cr_expect_geq(n, 2);
    free(regions);
}

/* The key of the region with this name. */
static struct key region_of(const char *text, const char *name)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_HLO};
    struct canon_region *regions = NULL;
    struct key key = {{0}};
    size_t n = 0, i = 0;
    struct err e = {0};
    cr_assert_eq(canon_regions(&input, &regions, &n, &e), 0, "%s", e.text);
    while (i < n && !strstr(regions[i].label, name))
        i++;
    cr_assert_lt(i, n, "there is a region %s", name);
    key = regions[i].key;
    free(regions);
    return key;
}

Test(hlo, what_the_module_says_of_its_entry_is_the_entrys_alone)
{
    static const char *const other[][2] = {
        {"input_output_alias={ {0}: (0, {}, may-alias) }, ", ""},
        {"{1,0}, f32[16]{0})->", "{0,1}, f32[16]{0})->"},
    };
    struct key reducer = region_of(base, "region_0"), entry = region_of(base, "main");
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char *text = with(base, other[i][0], other[i][1]);
        struct key r = region_of(text, "region_0"), m = region_of(text, "main");
        cr_expect(key_equal(&reducer, &r), "%s is not of the reducer", other[i][0]);
        cr_expect(!key_equal(&entry, &m), "%s is of the entry", other[i][0]);
        free(text);
    }
    char *text = with(base, "num_partitions=4", "num_partitions=2");
    struct key r = region_of(text, "region_0");
    cr_expect(!key_equal(&reducer, &r), "partitions are of all");
    free(text);
}

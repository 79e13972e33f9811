/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_reach.c - which sources can show their name and their lines through macros. */
#include <criterion/criterion.h>
#include <string.h>

#include "keygen/cuda/reach.h"

static bool shows(const char *header, const char *source)
{
    struct cuda_reach *r = cuda_reach_new();
    cuda_reach_add(r, header, strlen(header));
    cuda_reach_add(r, source, strlen(source));
    bool it = cuda_reach_shows_place(r, source, strlen(source));
    cuda_reach_free(r);
    return it;
}

static const char header[] = "#define CHECK(x) ((x) ? 0 : \\\n    fail(__FILE__, __LINE__))\n"
                             "#  define /* two */ TWICE(x) CHECK(x), CHECK(x)\n"
                             "#define MANY(x) TWICE(x); TWICE(x)\n"
                             "#define PLAIN(x) (x + 1) // __FILE__\n"
                             "#define JOIN(a, b) a ## b\n"
                             "#define /* a\n comment */ SPLIT(x) f(x, /*\n*/ __LINE__)\n"
                             "inline int f() { return CHECK(__LINE__); }\n";

Test(cuda_reach, what_a_header_shows_of_itself_is_no_place_of_the_source)
{
    cr_expect(!shows(header, "int a = PLAIN(f());\n"));
    cr_expect(!shows(header, "// CHECK\nconst char *s = \"CHECK(x) __FILE__\";\n"));
    cr_expect(!shows(header, "#define OWN(x) PLAIN(x)\nint a = OWN(1);\n"));
}

static bool spells_file(const char *text, const char *source)
{
    struct cuda_reach *r = cuda_reach_new();
    cuda_reach_add(r, text, strlen(text));
    cuda_reach_add(r, source, strlen(source));
    bool it = cuda_reach_spells_file(r, source, strlen(source));
    cuda_reach_free(r);
    return it;
}

Test(cuda_reach, a_file_name_is_spelt_or_named_by_macros_that_spell_it)
{
    cr_expect(spells_file("", "const char *f = __FILE__;\n"));
    cr_expect(spells_file(header, "int a = MANY(1);\n"));
    cr_expect(!spells_file(header, "int a = PLAIN(1) + SPLIT(1) + JOIN(b, c) + __LINE__;\n"));
    cr_expect(!spells_file("", "#define HERE __FILE__\n"), "a definition alone shows nothing");
    cr_expect(spells_file("", "#define HERE __FILE__\nconst char *f = HERE;\n"));
    cr_expect(!spells_file("std::source_location l;\n", "int a;\n"));
}

Test(cuda_reach, macros_lead_to_a_place_through_others)
{
    cr_expect(shows(header, "int a = CHECK(1);\n"));
    cr_expect(shows(header, "int a = TWICE(1);\n"));
    cr_expect(shows(header, "int a = MANY(1);\n"));
    cr_expect(shows(header, "int a = SPLIT(1);\n"));
    cr_expect(shows(header, "#define OWN MANY\n"));
    cr_expect(shows(header, "int a = PLAIN(assert);\n"));
    cr_expect(shows("", "int a = __LINE__;\n"));
    cr_expect(shows("#define A B\n#define B C\n#define C D\n#define D __FILE__\n", "A\n"));
}

Test(cuda_reach, what_is_pasted_may_be_anything)
{
    cr_expect(shows(header, "int a = JOIN(CHE, CK)(1);\n"));
    cr_expect(shows("#define J(a, b) a#\\\n#b\n", "int a = J(CHE, CK)(1);\n"));
    cr_expect(shows("#define J(a, b) a%:%:b\n", "int a = J(CHE, CK)(1);\n"));
    cr_expect(shows("%:define J __FILE__\n", "const char *a = J;\n"));
}

Test(cuda_reach, who_asks_for_its_caller_makes_it_unclear)
{
    cr_expect(shows("void f(int line = __builtin_LINE());\n", "int a;\n"));
    cr_expect(shows("void f(source_location = source_location::current());\n", "int a;\n"));
    cr_expect(shows("const char *base = __BASE_FILE__;\n", "int a;\n"));
    cr_expect(shows("#define HERE() __builtin_FILE()\nvoid f(char *s = HERE());\n", "int a;\n"));
    cr_expect(shows("#define J(a, b) a##b\nvoid f(char *s = J(__builtin_, FILE)());\n", "int a;"));
    cr_expect(shows("#define H4E() __builtin_LINE()\n#define J(a, b) a##b\n"
                    "void f(int s = J(H, 4E)());\n",
                    "int a;"));
}

Test(cuda_reach, a_name_of_callers_that_nobody_uses_does_nothing)
{
    static const char unused[] = "#if HAS(__builtin_LINE)\n#define HERE() __builtin_LINE()\n"
                                 "#else\n#define HERE() __LINE__\n#endif\n"
                                 "#define J(a, b) a##b\nint J(x, y);\n";
    cr_expect(!shows(unused, "int a;\n"));
    cr_expect(shows(unused, "int a = HERE();\n"));
    cr_expect(shows("int a;", "#if __LINE__ > 1\nint b;\n#endif\n"));
}

static bool can_paste(const char *systems, const char *source)
{
    struct cuda_reach *r = cuda_reach_new();
    cuda_reach_add_systems(r, systems, strlen(systems));
    cuda_reach_add(r, source, strlen(source));
    bool it = cuda_reach_can_paste(r, "__FILE__");
    cuda_reach_free(r);
    return it;
}

Test(cuda_reach, words_of_system_texts_are_pieces_in_macros_alone)
{
    static const char join[] = "#define SLOT(type, name) type##_##name\n";
    cr_expect(!can_paste("typedef struct file FILE;\n", join));
    cr_expect(can_paste("typedef struct file FILE;\n",
                        "#define SLOT(type, name) type##_##name\nFILE *f;\n"));
    cr_expect(!can_paste("#define STREAM FILE\n", join), "a macro that nobody names");
    cr_expect(can_paste("#define STREAM STREAM_\n#define STREAM_ FILE\n",
                        "#define SLOT(type, name) type##_##name\nint x = STREAM;\n"));
    cr_expect(can_paste("#define JOIN_FILE(a, b) a##FILE##b\n", "#define X(_) JOIN_FILE(_, _)\n"));
    cr_expect(can_paste("SLOT(SLOT(,), FILE);\n", join), "it uses a macro of the source");
    cr_expect(!can_paste("#ifdef SLOT\nint FILE;\n#endif\n", join));
}

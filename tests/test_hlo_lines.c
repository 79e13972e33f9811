/* SPDX-License-Identifier: Apache-2.0 */
/* test_hlo_lines.c - an HLO instruction like one before is what it would be if it had been read alone. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon.h"

/* A program that is written twice: as printers write it, and with other blanks in each instruction, so
 * that none is like another and each is read by itself. */
struct twin {
    char plain[1 << 16], spaced[1 << 16];
    size_t n_plain, n_spaced;
    unsigned blanks;
};

/* "~" stands for blanks. */
static void put(struct twin *t, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (const char *p = line; *p; p++) {
        cr_assert(t->n_spaced + 300 < sizeof t->spaced);
        t->plain[t->n_plain++] = *p == '~' ? ' ' : *p;
        if (*p != '~') {
            t->spaced[t->n_spaced++] = *p;
            continue;
        }
        unsigned n = ++t->blanks % 251 + 1;
        memset(t->spaced + t->n_spaced, ' ', n);
        t->n_spaced += n;
    }
}

static int key_of(const char *text, size_t len, struct key *out, struct err *e)
{
    struct canon_input input = {.data = text, .len = len, .kind = CANON_HLO};
    struct canon_result result = {0};
    int code = canon_key(&input, &result, NULL, e);
    *out = result.key;
    return code;
}

static struct key key_of_text(const char *text)
{
    struct key key;
    struct err e = {0};
    cr_assert_eq(key_of(text, strlen(text), &key, &e), 0, "%u:%u: %s\n%s", e.line, e.column, e.text,
                 text);
    return key;
}

/* True if they have a key. */
static bool agree(struct twin *t)
{
    struct key plain, spaced;
    struct err a = {0}, b = {0};
    t->plain[t->n_plain] = '\0';
    int code = key_of(t->plain, t->n_plain, &plain, &a);
    cr_assert_eq(code, key_of(t->spaced, t->n_spaced, &spaced, &b), "%s / %s\n%s", a.text, b.text,
                 t->plain);
    if (!code)
        cr_assert(key_equal(&plain, &spaced), "%s", t->plain);
    else
        cr_assert_str_eq(a.text, b.text);
    return !code;
}

static unsigned next(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* An instruction of a few sorts, with attributes that refer to what may be there or not. */
static void put_random_instr(struct twin *t, unsigned *seed, unsigned i)
{
    static const char *const metadata[] = {
        "",
        "",
        ", metadata={op_name=\"a\" source_line=%u}",
        ", metadata={op_name=\"a\" source_line=%u}",
        ", metadata={op_name=\"preserve_layout\" source_line=%u}",
        ", metadata={op_name=\"a\" preserve_layout=true source_line=%u}",
        ", metadata={op_name=\"a \\\" b\nc\" source_line=%u}",
        ", metadata={op_type=\"b\"}, hint={x.2}",
        ", metadata={}, hint=w",
    };
    static const char *const names[] = {"x.%u", "odd_name.%u", "x%u",
                                        "very.long.word.of.a.name.%u"};
    static const char *const hints[] = {"", "", "", ", hint=x.5", ", hint={w, x.7}", ", hint=w"};
    char last[64], name[64];
    static unsigned kind; /* of names: one for a program */
    if (i == 1)
        kind = next(seed, 4);
    snprintf(last, sizeof last, names[kind], i - 1 - next(seed, i > 4 ? 2 : 1));
    snprintf(name, sizeof name, names[kind], i);
    if (i == 17)
        snprintf(name, sizeof name, "w");
    switch (next(seed, 7)) {
    case 0: put(t, "  %%%s = f32[8]{0}~constant({1, 2, %u})", name, next(seed, 2)); break;
    case 1: put(t, "  %%%s = f32[8]{0}~call(%%%s), to_apply=%%one.1", name, last); break;
    case 2: put(t, "  %%%s = f32[8]{0}~add(%%%s, /*index=1*/%%p.0)", name, last); break;
    case 3:
        put(t, "  %%%s = f32[8]{0}~multiply(f32[8]{0} %%%s, f32[8]{0} %%p.0)", name, last);
        break;
    case 4:
        put(t, "  %%%s = f32[8]{0}~custom-call(%%%s), custom_call_target=\"f\"", name, last);
        break;
    case 5:
        put(t, "  %%%s = f32[8]{0}~all-reduce(%%%s), channel_id=%u, to_apply=%%two.1", name, last,
            1 + next(seed, 2));
        break;
    default: put(t, "  %%%s = f32[8]{0}~negate(%%%s)", name, last); break;
    }
    put(t, hints[next(seed, 6)]);
    if (next(seed, 20) == 0)
        put(t, ", control-predecessors={%%%s}", last);
    put(t, metadata[next(seed, 9)], i);
    put(t, "\n");
    if (strcmp(name, "w") == 0) {
        snprintf(name, sizeof name, names[kind], i);
        put(t, "  %%%s = f32[8]{0}~copy(%%w)\n", name);
    }
}

static void put_computation(struct twin *t, unsigned *seed, const char *head, unsigned n)
{
    put(t, "%s (p.0: f32[8]) -> f32[8] {\n", head);
    put(t, "  %%p.0 = f32[8]{0} parameter(0), metadata={op_name=\"p\"}\n");
    /* a first value under each of the names */
    put(t, "  %%x.0 = f32[8]{0}~sine(%%p.0)\n  %%odd_name.0 = f32[8]{0}~sine(%%p.0)\n");
    put(t,
        "  %%x0 = f32[8]{0}~sine(%%p.0)\n  %%very.long.word.of.a.name.0 = f32[8]{0}~sine(%%p.0)\n");
    for (unsigned i = 1; i < n; i++)
        put_random_instr(t, seed, i);
    put(t, "  ROOT %%r = f32[8]{0}~negate(%%p.0)\n}\n\n");
}

Test(hlo_lines, random_programs_have_the_keys_that_they_have_read_alone)
{
    static struct twin t;
    unsigned n_keys = 0;
    for (unsigned seed = 1, round = 0; round < 400; round++) {
        memset(&t, 0, sizeof t);
        put(&t, "HloModule m%s\n\n", next(&seed, 4) ? "" : ", is_scheduled=true");
        put(&t, "%%one.1 (a.1: f32[8]) -> f32[8] {\n  %%a.1 = f32[8]{0} parameter(0)\n"
                "  ROOT %%b.1 = f32[8]{0}~cosine(%%a.1)\n}\n\n");
        put(&t, "%%two.1 (a.1: f32[], b.1: f32[]) -> f32[] {\n  %%a.1 = f32[] parameter(0)\n"
                "  %%b.1 = f32[] parameter(1)\n  ROOT %%c.1 = f32[]~add(%%a.1, %%b.1)\n}\n\n");
        put_computation(&t, &seed, "%three.1", 1 + next(&seed, 30));
        put_computation(&t, &seed, "ENTRY %main.1", 1 + next(&seed, 60));
        n_keys += agree(&t);
    }
    cr_assert_gt(n_keys, 200);
}

#define LAYER(n, before, more)                                                                     \
    "  %a." n " = f32[8]{0} add(%x." before ", %p.0)" more "\n"                                    \
    "  %x." n " = f32[8]{0} negate(%a." n "), metadata={op_name=\"n\" source_line=" n "}\n"
#define PROGRAM(layers, root)                                                                      \
    "HloModule m\n\nENTRY %main.1 (p.0: f32[8]) -> f32[8] {\n  %p.0 = f32[8]{0} parameter(0)\n"    \
    "  %x.0 = f32[8]{0} sine(%p.0)\n" layers "  ROOT %r = f32[8]{0} negate(%x." root ")\n}\n"
#define THREE LAYER("1", "0", "") LAYER("2", "1", "") LAYER("3", "2", "")

Test(hlo_lines, a_word_means_the_instruction_that_has_its_name_by_then)
{
    struct key none = key_of_text(PROGRAM(THREE LAYER("4", "3", ", hint=h"), "4"));
    struct key word = key_of_text(PROGRAM(
        LAYER("1", "0", ", hint=h") LAYER("2", "1", ", hint=h") LAYER("3", "2", ", hint=h"), "3"));
    struct key name = key_of_text(PROGRAM(
        LAYER("1", "0", ", hint=h") LAYER(
            "2", "1", ", hint=h") "  %h = f32[8]{0} cosine(%p.0)\n" LAYER("3", "2", ", hint=h"),
        "3"));
    struct key other = key_of_text(PROGRAM(
        LAYER("1", "0", ", hint=h")
            LAYER("2", "1", ", hint=h") "  %h = f32[8]{0} tan(%p.0)\n" LAYER("3", "2", ", hint=h"),
        "3"));
    cr_assert(!key_equal(&word, &none));
    cr_assert(!key_equal(&word, &name));
    cr_assert(!key_equal(&other, &name)); /* what the word names counts */
}

Test(hlo_lines, metadata_that_means_something_counts_where_other_metadata_was_left_out)
{
    const char *kept = ", metadata={op_name=\"a\" preserve_layout=true}";
    char text[4096];
    struct key all = key_of_text(PROGRAM(THREE, "3"));
    const char *format = PROGRAM(LAYER("1", "0", ", metadata={op_name=\"a\"}")
                                     LAYER("2", "1", ", metadata={op_name=\"a\"}")
                                         LAYER("3", "2", ", metadata={op_name=\"b\"}"),
                                 "3");
    struct key origins = key_of_text(format);
    cr_assert(key_equal(&all, &origins));
    const char *last = strstr(format, ", metadata={op_name=\"b\"}");
    snprintf(text, sizeof text, "%.*s%s%s", (int)(last - format), format, kept,
             last + strlen(", metadata={op_name=\"b\"}"));
    struct key layout = key_of_text(text);
    cr_assert(!key_equal(&all, &layout));
}

Test(hlo_lines, where_lines_end_does_not_count)
{
    struct key plain = key_of_text(PROGRAM(THREE, "3"));
    static const char *const others[] = {
        PROGRAM(LAYER("1", "0", "\n    , metadata={op_name=\"a\"}") LAYER("2", "1", "")
                    LAYER("3", "2", ""),
                "3"),
        PROGRAM(LAYER("1", "0", "") LAYER("2", "1", ", metadata={op_name=\"a\n  }\n\"}")
                    LAYER("3", "2", ", metadata={op_name=\"a\n  }\n\"}"),
                "3"),
        PROGRAM(LAYER("1", "0", "") LAYER("2", "1", " // parameter(7)") LAYER("3", "2", " /* } */"),
                "3"),
        PROGRAM(LAYER("1", "0", "") LAYER("2", "1", "") "  %a.3 =\n f32[8]{0} add(%x.2, %p.0) %x.3 "
                                                        "= f32[8]{0} negate(%a.3)\n",
                "3"),
        PROGRAM(LAYER("1", "0", "") LAYER("2", "1", "\r") LAYER("3", "2", "\r"), "3"),
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct key key = key_of_text(others[i]);
        cr_assert(key_equal(&plain, &key), "%s", others[i]);
    }
}

Test(hlo_lines, a_name_that_is_there_twice_is_an_error_with_its_place)
{
    const char *text = PROGRAM(THREE LAYER("3", "2", ""), "3");
    struct key key;
    struct err e = {0};
    cr_assert_eq(key_of(text, strlen(text), &key, &e), WARM_EMALFORMED);
    cr_assert_eq(e.line, 12);
    cr_assert_eq(e.column, 4);
}

Test(hlo_lines, names_of_many_words_and_numbers_are_apart)
{
    static char text[1 << 18];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "HloModule m\n\nENTRY %%main (p.0: f32[8]) -> f32[8] "
                                "{\n  %%p.0 = f32[8]{0} parameter(0)\n");
    /* More words than there are families; "a.1", "a.01", "a.10", "a1" and numbers that are too large. */
    const char *before = "p.0";
    static char name[600][40];
    for (unsigned i = 0; i < 600; i++) {
        switch (i % 5) {
        case 0:
            snprintf(name[i], sizeof name[i], "word%c%c.%u", 'a' + i % 26, 'a' + i / 26, i);
            break;
        case 1: snprintf(name[i], sizeof name[i], "a.%u", i); break;
        case 2: snprintf(name[i], sizeof name[i], "a.0%u", i - 1); break;
        case 3: snprintf(name[i], sizeof name[i], "a%u", i - 2); break;
        default: snprintf(name[i], sizeof name[i], "a.%u", 4000000000u + i); break;
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "  %%%s = f32[%u]{0} copy(%%%s)\n",
                              name[i], i + 1, before);
        before = name[i];
    }
    for (unsigned i = 0; i < 600; i++) /* of each its own shape comes back */
        n += (size_t)snprintf(text + n, sizeof text - n, "  %%z.%u = f32[%u]{0} copy(%%%s)\n", i,
                              i + 1, name[i]);
    n += (size_t)snprintf(text + n, sizeof text - n, "  ROOT %%r = (f32[1]{0}) tuple(");
    for (unsigned i = 0; i < 600; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%%z.%u", i ? ", " : "", i);
    snprintf(text + n, sizeof text - n, ")\n}\n");
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_HLO};
    struct canon_result result;
    struct writer out;
    struct err e = {0};
    writer_init(&out, 0);
    cr_assert_eq(canon_key(&input, &result, &out, &e), 0, "%s", e.text);
    writer_bytes(&out, "", 1);
    for (unsigned i = 0; i < 600; i++) { /* of each shape a value, and a copy of it */
        char type[32], copy[64];
        snprintf(type, sizeof type, " : f32[%u]{0}\n", i + 1);
        const char *line = strstr((const char *)out.data, type);
        cr_assert(line);
        while (line[-1] != '\n')
            line--;
        snprintf(copy, sizeof copy, "copy %.*s%s", (int)strcspn(line + 2, " "), line + 2, type);
        cr_assert(strstr(line, copy), "%s", copy);
    }
    writer_close(&out);
}

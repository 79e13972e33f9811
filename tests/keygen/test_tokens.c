/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokens.c - which bytes of a dump are tokens, which blanks of it count, and where reading stops. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/tokens.h"

/* A language with all classes. Bytes without a line here are words. */
static const uint8_t classes[256] = {
    ['\0'] = CLASS_BAD,   ['$'] = CLASS_BAD,   [' '] = CLASS_BLANK, ['\t'] = CLASS_BLANK,
    ['\n'] = CLASS_BLANK, ['/'] = CLASS_SLASH, ['"'] = CLASS_QUOTE, ['\''] = CLASS_QUOTE,
    ['('] = CLASS_OPEN,   ['['] = CLASS_OPEN,  [')'] = CLASS_CLOSE, [']'] = CLASS_CLOSE,
    ['<'] = CLASS_MARK,   ['='] = CLASS_MARK,  ['-'] = CLASS_MARK,  [','] = CLASS_MARK,
    ['*'] = CLASS_MARK,   [';'] = CLASS_MARK,
};

static struct tokens t;
static struct form *form;
static struct writer written;
static struct err e;

static void up(void)
{
    cr_assert_eq(posix_memalign((void **)&form, 64, sizeof *form), 0);
    memset(form, 0, sizeof *form);
}

static void down(void)
{
    writer_close(&written);
    free(form);
}
TestSuite(tokens, .init = up, .fini = down);

static void begin(const char *text, size_t len)
{
    struct canon_input input = {.data = text, .len = len};
    writer_close(&written);
    writer_init(&written, 0);
    form->text = &written;
    form_begin(form, "tokens");
    t = (struct tokens){.classes = classes, .language = "dump"};
    e = (struct err){.code = 0};
    cr_assert_eq(tokens_begin(&t, &input, form, &e), 0);
}

/* Ends the form and returns it as a string. */
static const char *form_text(void)
{
    struct key key;
    struct proof proof;
    form_end(form, &key, &proof);
    writer_u8(&written, 0);
    return (const char *)written.data + form->text_start;
}

/* Puts all tokens of a text as they are. Returns the code. */
static int copy(const char *text)
{
    begin(text, strlen(text));
    for (tokens_next(&t); t.now.kind != TOKEN_END; tokens_next(&t))
        tokens_put(&t, &t.now);
    return tokens_end(&t);
}

static void expect_form(const char *text, const char *want)
{
    cr_expect_eq(copy(text), 0, "%s: %s", text, e.text);
    cr_expect_str_eq(form_text(), want, "%s", text);
}

static void expect_error(const char *text, int code, unsigned line, unsigned column)
{
    cr_expect_eq(copy(text), code, "%s", text);
    cr_expect_eq(e.line, line, "%s", text);
    cr_expect_eq(e.column, column, "%s", text);
    tokens_next(&t);
    cr_expect_eq(t.now.kind, TOKEN_END, "no token follows an error");
}

/* ---- blanks and comments ---- */

Test(tokens, one_blank_stays_where_two_tokens_could_become_one)
{
    expect_form("  a \t b ", "a b");
    expect_form("a , b", "a,b");
    expect_form("a < = b", "a< =b");
    expect_form("a <= b", "a<=b");
    expect_form("a - - b", "a- -b");
    expect_form("x , , y", "x,,y");
    expect_form("\"a\" \"b\"", "\"a\" \"b\"");
    expect_form("\"a\"\"b\"", "\"a\"\"b\"");
    expect_form("", "");
    expect_form(" \t", "");
}

Test(tokens, a_comment_is_a_blank)
{
    expect_form("a/**/b", "a b");
    expect_form("a/* , */,b", "a,b");
    expect_form("<// x\n", "<");
    expect_form("a/*/b*/c", "a c");
    expect_form("a /* never ends", "a");
    expect_form("a/b", "a/b");
    expect_form("a / b /", "a/b/");
    expect_form("\"/* no comment */\" '#'", "\"/* no comment */\" '#'");
}

Test(tokens, brackets_are_counted)
{
    expect_form("a\nb", "a b");
    expect_form("f(a,\n  b)\nc", "f(a,b)c");
    expect_form("f(a // x )\n b)", "f(a b)");
    begin("(\n[a]\n)\n", 8);
    static const struct {
        uint32_t depth;
        uint8_t kind;
    } want[] = {{0, TOKEN_MARK}, {1, TOKEN_MARK}, {2, TOKEN_WORD},
                {1, TOKEN_MARK}, {0, TOKEN_MARK}, {0, TOKEN_END}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        tokens_next(&t);
        cr_expect_eq(t.now.kind, want[i].kind, "%zu", i);
        cr_expect_eq(t.now.depth, want[i].depth, "%zu", i);
    }
}

/* ---- strings ---- */

Test(tokens, a_string_ends_at_its_own_quote)
{
    expect_form("'a\"b'", "'a\"b'");
    expect_form("\"a\\\"b\" c", "\"a\\\"b\" c");
    expect_form("\"\\\\\" c", "\"\\\\\" c");
    expect_form("\"a  b\n\tc\"", "\"a  b\n\tc\"");
    expect_error("a\n \"b\\\"", WARM_ETRUNCATED, 2, 2);
    expect_error("'", WARM_ETRUNCATED, 1, 1);
    expect_error("'\\", WARM_ETRUNCATED, 1, 1);
}

/* ---- errors ---- */

Test(tokens, brackets_have_partners)
{
    expect_error("a)", WARM_EMALFORMED, 1, 2);
    expect_error("f(a", WARM_ETRUNCATED, 1, 4);
    expect_error("f(a))", WARM_EMALFORMED, 1, 5);
}

Test(tokens, the_first_error_stays_and_nothing_more_is_put)
{
    expect_error("a\nb $ c )", WARM_EMALFORMED, 2, 3);
    tokens_fail(&t, WARM_ENOMEM, 0, "a later one");
    tokens_expected(&t, "nor this");
    cr_expect_eq(tokens_end(&t), WARM_EMALFORMED);
    cr_expect_null(strstr(e.text, "later"));
    tokens_put(&t, &(struct token){.at = 0, .len = 1, .kind = TOKEN_WORD});
    tokens_put_number(&t, (struct token){.at = 0, .len = 1}, '%', 7);
    tokens_end(&t);
    cr_expect_str_eq(form_text(), "a b");
}

Test(tokens, what_is_missing_at_the_end_is_a_cut_text)
{
    begin("a ", 2);
    tokens_next(&t);
    tokens_expected(&t, "a number");
    cr_expect_eq(tokens_end(&t), WARM_EMALFORMED);
    begin("a ", 2);
    tokens_next(&t);
    tokens_next(&t);
    tokens_expected(&t, "a number");
    cr_expect_eq(tokens_end(&t), WARM_ETRUNCATED);
}

Test(tokens, a_text_of_4_gib_is_refused_unread)
{
    struct canon_input input = {.data = "", .len = UINT32_MAX};
    t = (struct tokens){.classes = classes, .language = "dump"};
    cr_expect_eq(tokens_begin(&t, &input, form, &e), WARM_ETOO_BIG);
}

Test(tokens, a_zero_byte_is_no_end)
{
    begin("a\0b", 3);
    tokens_next(&t);
    tokens_next(&t);
    cr_expect_eq(tokens_end(&t), WARM_EMALFORMED);
}

/* ---- numbers and texts of the form's own ---- */

Test(tokens, a_number_stands_for_its_word)
{
    struct names names = {0};
    uint32_t n = 0;
    const char *text = "add.1 mul.2(add.1,mul.2) add.1";
    begin(text, strlen(text));
    for (tokens_next(&t); t.now.kind != TOKEN_END; tokens_next(&t)) {
        bool is_new = false;
        if (t.now.kind != TOKEN_WORD) {
            tokens_put(&t, &t.now);
            continue;
        }
        uint32_t *number = tokens_number(&t, &names, t.now, &is_new);
        cr_assert_not_null(number);
        *number = is_new ? n++ : *number;
        tokens_put_number(&t, t.now, '$', *number);
    }
    cr_expect_eq(tokens_end(&t), 0);
    cr_expect_str_eq(form_text(), "$0 $1($0,$1)$0");
    names_close(&names);
}

Test(tokens, a_text_of_the_forms_own_separates)
{
    begin("a  b   c", 8);
    tokens_next(&t);
    tokens_put(&t, &t.now);
    tokens_put_text(&t, "|");
    tokens_next(&t);
    tokens_put(&t, &t.now);
    tokens_put_exact(&t, 4, 7);
    tokens_next(&t);
    cr_expect(tokens_is(&t, "c") && !tokens_is(&t, "cc") && !tokens_is(&t, ""));
    tokens_put(&t, &t.now);
    cr_expect_eq(tokens_end(&t), 0);
    cr_expect_str_eq(form_text(), "a|b   c");
}

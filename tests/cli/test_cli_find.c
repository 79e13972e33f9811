/* SPDX-License-Identifier: Apache-2.0 */
/* test_cli_find.c - which entry a user means by a key, a name, a label, or the beginning of a key. */
#include "client/cli/find.h"
#include "tests/support/warmd.h"

static struct warmd k;
static struct remote r;
static struct listing kept;
static struct wire_row row;

static void up(void)
{
    k = warmd_up(NULL);
    r = (struct remote){.socket = k.socket};
    cr_assert_eq(remote_open(&r), 0);
}
static void down(void)
{
    remote_close(&r);
    warmd_down(&k);
}
TestSuite(cli_find, .init = up, .fini = down, .timeout = 120);

static void put(const char *name, const char *label)
{
    struct warm *w = warmd_libwarm(&k);
    struct warm_put_options options = {.label = label};
    cr_assert_eq(warm_put(w, name, strlen(name), name, strlen(name), &options), 0, "%s",
                 warm_message(w));
    warm_close(w);
}

/* True if the text finds the entry of that name. */
static bool finds(const char *text, const char *name)
{
    bool same = false;
    kept = (struct listing){0};
    int status = find_entry(&r, text, &kept, &row);
    if (status == CLI_OK)
        same =
            name && row.name.len == strlen(name) && memcmp(row.name.data, name, row.name.len) == 0;
    else
        cr_expect_eq(status, CLI_FINDING);
    listing_close(&kept);
    return name ? same : status == CLI_FINDING;
}

/* Writes the key of an entry. */
static void key_of(const char *name, char out[WARM_KEY_TEXT])
{
    cr_assert(finds(name, name));
    key_to_text(&row.key, out);
}

Test(cli_find, an_entry_is_found_by_each_of_its_names)
{
    char key[WARM_KEY_TEXT], part[WARM_KEY_TEXT];
    cr_expect(finds("one", NULL), "in an empty store");
    put("one", "step");
    put("two", NULL);
    key_of("one", key);
    cr_expect(finds(key, "one"));
    cr_expect(finds("step", "one"));
    cr_expect(finds("ste", NULL), "a label is the whole of it");
    for (size_t len = 8; len < WARM_KEY_TEXT - 1; len++) {
        snprintf(part, sizeof part, "%.*s", (int)len, key);
        cr_expect(finds(part, "one"), "%s", part);
    }
    snprintf(part, sizeof part, "%.7s", key);
    cr_expect(finds(part, NULL), "seven digits are too few");
    for (char *c = key; *c; c++)
        *c = (char)(*c >= 'a' ? *c - 'a' + 'A' : *c);
    key[20] = '\0';
    cr_expect(finds(key, "one"), "in capitals");
}

Test(cli_find, a_name_comes_before_a_label_or_a_part)
{
    char key[WARM_KEY_TEXT];
    put("one", "two");
    put("two", NULL);
    cr_expect(finds("two", "two"));
    key_of("one", key);
    put(key, NULL); /* its name has the form of a key */
    cr_expect(finds(key, "one"), "a key comes first");
    key[6] = '\0';
    put(key, NULL);
    cr_expect(finds(key, key));
}

Test(cli_find, of_two_entries_none_is_taken)
{
    put("one", "step");
    put("two", "step");
    cr_expect(finds("step", NULL));
    cr_expect(finds("one", "one") && finds("two", "two"));
}

Test(cli_find, a_label_is_found_behind_thousands_of_others)
{
    int fd = warmd_connect(&k);
    struct writer w;
    writer_init(&w, 0);
    for (unsigned i = 0; i < 4200; i++) /* more than one LIST answers */
        writer_format(&w, "SET n%u v\r\n", i);
    warmd_send(fd, w.data, w.len);
    for (unsigned i = 0; i < 4200; i++)
        warmd_redis(fd, "", "+OK\r\n");
    put("last", "step");
    cr_expect(finds("step", "last"));
    cr_expect(finds("n4199", "n4199"));
    writer_close(&w);
    close(fd);
}

Test(cli_find, the_beginning_of_a_key_has_8_digits_to_be_sure)
{
    cr_expect(find_is_part("01234567") && find_is_part("abcdefABCDEF"));
    cr_expect(find_is_part("0123456789abcdef0123456789abcde"));
    cr_expect_not(find_is_part("0123456789abcdef0123456789abcdef"), "a whole key");
    cr_expect_not(find_is_part("0123456"));
    cr_expect_not(find_is_part("0123456g"));
    cr_expect_not(find_is_part(""));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_forms.c - the daemon bounds the texts that clients keep for `warm why`. test_nearest_form.c reads them. */
#include "client/wire/memfd.h"
#include "tests/support/warmd.h"

/* Puts a form of `len` random bytes as a user; the daemon's answer: 0 or its error. */
static uint32_t put_form(int fd, uint64_t tag, const char *name, size_t len)
{
    static struct warmd_frame f;
    static char bytes[300 << 10];
    struct wire_error error;
    struct writer w;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 2654435761u >> 7 ^ tag);
    struct wire_put put = {.kind = WIRE_KIND_FORM,
                           .len = len,
                           .check = key_of_bytes(bytes, len),
                           .key = view_of_text(name)};
    int value = memfd_sealed("test", bytes, len, NULL);
    cr_assert_geq(value, 0);
    writer_init(&w, 0);
    wire_put_put(&w, tag, &put);
    w.data[2] = 1; /* one descriptor */
    warmd_send_fds(fd, w.data, w.len, &value, 1);
    writer_close(&w);
    close(value);
    cr_assert(warmd_frame_try(fd, &f) && f.frame.tag == tag);
    if (f.frame.type == WIRE_OK)
        return 0;
    cr_assert_eq(f.frame.type, WIRE_ERROR);
    cr_assert_eq(wire_get_error(&f.frame, &error, NULL), 0);
    return error.code;
}

static unsigned long long form_bytes(const struct warmd *k)
{
    char *stats = warmd_stats(k), *at = strstr(stats, "\"form\": {");
    at = at ? strstr(at, "\"bytes\": ") : NULL;
    unsigned long long n = at ? strtoull(at + 9, NULL, 10) : 0;
    free(stats);
    return n;
}

static bool has(const struct warmd *k, int fd, uint64_t tag, const char *name)
{
    static struct warmd_frame f;
    (void)k;
    warmd_get(fd, tag, name, false, 0);
    cr_assert(warmd_frame_try(fd, &f));
    if (f.fd >= 0)
        close(f.fd);
    return f.frame.type == WIRE_HIT;
}

Test(forms, they_have_a_fiftieth_of_the_store_and_one_user_leaves_room_for_others)
{
    NEEDS_TWO_USERS();
    struct warmd k = warmd_up((char *[]){(char *)"--max-size", (char *)"100M", NULL});
    int alice = warmd_native_as(&k, 12345), bob = warmd_native_as(&k, 23456);
    const unsigned long long most = (100ull << 20) / 50;
    char name[32];
    cr_expect_eq(put_form(alice, 1, "form:large", (256u << 10) + 1), (uint32_t)-WARM_ETOO_BIG);
    unsigned refused = 0;
    for (unsigned i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "form:a%u", i);
        uint32_t code = put_form(alice, 2 + i, name, 200u << 10);
        cr_assert(code == 0 || code == (uint32_t)-WARM_EFULL, "%u", code);
        refused += code != 0;
        cr_assert_leq(form_bytes(&k), most);
    }
    cr_expect_lt(refused, 60u, "room is made");
    uint64_t tag = 100;
    for (unsigned i = 0; i < 20 && !has(&k, bob, tag++, "form:b"); i++)
        put_form(bob, tag++, "form:b", 100u << 10);
    cr_expect(has(&k, bob, tag, "form:b"), "Bob finds room beside Alice's");
    close(alice);
    close(bob);
    warmd_down(&k);
}

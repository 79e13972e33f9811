/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_torch_store.c - PyTorch's values on their way into a real store, and the groups of its entries.
 * test_torch_value.c has the form, test_torch.c the protocol.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/wire/memfd.h"
#include "daemon/pytorch/torch_store.h"
#include "daemon/pytorch/torch_value.h"
#include "daemon/service/artifact.h"
#include "tests/support/service.h"

#define FX "pt2:fx-graph-v1::%s:c1%s"
#define ENTRY "pt2:autograd-experimental::key:c1"
#define JSON "{\"data\": \"gASVBQ==\", \"time_taken_ms\": 30499}"
#define STORED_LEN (TORCH_VALUE_MAGIC + 4) /* of JSON */

static const struct peer ada = {.uid = 1000, .space = 1000}, bob = {.uid = 1001, .space = 1001};
static struct service_rig rig;
static struct err e;
static const char *names_end = ""; /* of graphs */

static void setup(void) { service_rig_up(&rig); }
static void teardown(void) { service_rig_down(&rig); }

TestSuite(torch_store, .init = setup, .fini = teardown, .timeout = 120);

/* Moves the value of a put into a file. */
static void to_file(struct service_put *put)
{
    put->fd = memfd_of_bytes("test", put->data, put->len, &e);
    cr_assert(put->fd >= 0, "%s", e.text);
    put->data = NULL;
}

/* ---- values ---- */

Test(torch_store, json_of_its_caches_is_taken_apart)
{
    struct service_put put = service_rig_text(ENTRY, JSON);
    void *bytes;
    cr_assert_eq(torch_store_take_apart(&put, &bytes, &e), 0);
    cr_assert_not_null(bytes);
    cr_expect(put.data == bytes && put.len == STORED_LEN);
    cr_expect_eq(put.cost_ms, 30499);
    cr_expect(torch_store_is_stored(put.data, -1, put.len));
    free(bytes);
}

Test(torch_store, other_values_and_other_names_stay_as_they_came)
{
    static const char *const kept[][2] = {{ENTRY, "{\"data\": \"gASV"},
                                          {ENTRY, "{\"data\": \"!!!!\", \"time_taken_ms\": 1}"},
                                          {ENTRY, ""},
                                          {"my:key", JSON}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        struct service_put put = service_rig_text(kept[i][0], kept[i][1]);
        void *bytes = &put;
        cr_expect_eq(torch_store_take_apart(&put, &bytes, &e), 0);
        cr_expect_null(bytes);
        cr_expect(put.data == kept[i][1] && put.len == strlen(kept[i][1]) && put.cost_ms == 0);
        to_file(&put);
        cr_expect_eq(torch_store_is_long(&put), i < 2);
        close(put.fd);
    }
}

/* Or a client could store a pickle that comes back in a JSON that nobody put. */
Test(torch_store, bytes_of_the_stored_form_are_refused_from_outside)
{
    static const char value[] = "\0torch1\n\x80\x04.";
    struct service_put put = service_rig_text("my:key", "");
    void *bytes;
    put.data = value, put.len = sizeof value - 1;
    cr_expect_eq(torch_store_take_apart(&put, &bytes, &e), WARM_EINVALID);
    to_file(&put);
    cr_expect_eq(torch_store_take_apart(&put, &bytes, &e), WARM_EINVALID);
    cr_expect_null(bytes);
    cr_expect(!torch_store_is_stored(NULL, put.fd, 4), "its announced length is shorter");
    close(put.fd);
    put.data = value, put.fd = -1, put.len = TORCH_VALUE_MAGIC;
    cr_expect(!torch_store_is_stored(put.data, -1, put.len), "without a pickle");
}

Test(torch_store, a_file_is_taken_apart_into_another_one)
{
    struct service_put put = service_rig_text(ENTRY, JSON);
    to_file(&put);
    cr_expect(torch_store_is_long(&put));
    torch_store_take_file_apart(&put);
    cr_expect_eq(put.len, STORED_LEN);
    cr_expect_eq(put.cost_ms, 30499);
    cr_expect_eq(lseek(put.fd, 0, SEEK_END), STORED_LEN, "and no byte more");
    cr_expect(torch_store_is_stored(NULL, put.fd, put.len));
    close(put.fd);
}

Test(torch_store, a_file_that_is_something_else_is_left_alone)
{
    static const char text[] = "{\"data\": \"gASVBQ==\", \"time_taken_ms\": x}";
    struct service_put put = service_rig_text(ENTRY, text);
    char bytes[sizeof text] = "";
    to_file(&put);
    int fd = put.fd;
    torch_store_take_file_apart(&put);
    cr_expect(put.fd == fd && put.len == sizeof text - 1 && put.cost_ms == 0);
    cr_expect_eq(pread(fd, bytes, sizeof text, 0), (ssize_t)put.len);
    cr_expect_str_eq(bytes, text);
    close(fd);
}

/* ---- groups ---- */

/* Writes a key of an FX graph: "f" and 51 letters. */
static const char *fx_key(char letter)
{
    static char keys[4][TORCH_VALUE_FX_KEY + 1];
    static unsigned next;
    char *key = keys[next++ % 4];
    memset(key, letter, TORCH_VALUE_FX_KEY);
    key[0] = 'f';
    return key;
}

/* Returns the bytes of an entry that refers to these graphs, one for each letter. */
static struct artifact *entry_of(const char *letters)
{
    char bytes[1000];
    size_t len = 0;
    for (; *letters; letters++)
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, "X.\x8c\x34%s", fx_key(*letters));
    struct artifact *a = artifact_from_bytes(bytes, len);
    cr_assert_not_null(a);
    return a;
}

/* Stores a graph as its client does. */
static void put_graph(const struct peer *peer, char letter)
{
    char name[100];
    snprintf(name, sizeof name, FX, fx_key(letter), names_end);
    cr_assert_eq(service_rig_put(&rig, peer, service_rig_text(name, "graph")), 0);
}

/* Waits until the store has written all that was queued: a put comes behind them. */
static void settle(void) { put_graph(&bob, '7'); }

static struct key group_in_store(const struct peer *peer, char letter)
{
    char name[100];
    struct store_row row;
    snprintf(name, sizeof name, FX, fx_key(letter), names_end);
    struct store_id id = service_name_id(peer, view_of_text(name));
    cr_assert_eq(store_peek(rig.store, &id, &row, &e), 0, "%c: %s", letter, e.text);
    return row.group;
}

/* Returns the group of an entry that refers to these graphs. */
static struct key group_of(const struct peer *peer, const char *name, const char *letters)
{
    struct artifact *a = entry_of(letters);
    struct key group = torch_store_group(rig.service, peer, view_of_text(name), a);
    store_turn_end(rig.store);
    artifact_unref(a);
    return group;
}

static const struct key none;

Test(torch_store, an_entry_takes_its_graphs_into_its_group)
{
    put_graph(&ada, 'a'), put_graph(&ada, 'b'), put_graph(&ada, 'c');
    put_graph(&bob, 'a');
    struct key group = group_of(&ada, ENTRY, "ab"), in_store;
    settle();
    cr_expect(!key_equal(&group, &none));
    in_store = group_in_store(&ada, 'a');
    cr_expect(key_equal(&in_store, &group));
    in_store = group_in_store(&ada, 'b');
    cr_expect(key_equal(&in_store, &group));
    in_store = group_in_store(&ada, 'c');
    cr_expect(key_equal(&in_store, &none), "nobody refers to it");
    in_store = group_in_store(&bob, 'a');
    cr_expect(key_equal(&in_store, &none), "another user's");
}

Test(torch_store, a_checked_entry_takes_checked_graphs)
{
    put_graph(&ada, 'a');
    names_end = ":checked";
    put_graph(&ada, 'a');
    struct key group = group_of(&ada, ENTRY ":checked", "a"), in_store;
    settle();
    in_store = group_in_store(&ada, 'a');
    cr_expect(key_equal(&in_store, &group));
    names_end = "";
    in_store = group_in_store(&ada, 'a');
    cr_expect(key_equal(&in_store, &none), "another one's");
}

Test(torch_store, a_graph_keeps_its_value)
{
    struct store_value v;
    char name[100];
    put_graph(&ada, 'a');
    group_of(&ada, ENTRY, "a");
    settle();
    snprintf(name, sizeof name, FX, fx_key('a'), names_end);
    struct question q = {.space = WIRE_SPACE_NAME, .key = view_of_text(name)};
    cr_assert_eq(service_get(rig.service, &ada, &q, &v, &e), 0);
    cr_expect(v.row.len == 5 && memcmp(v.data, "graph", 5) == 0);
    store_turn_end(rig.store);
}

Test(torch_store, the_set_of_graphs_makes_the_group)
{
    struct key ab = group_of(&ada, ENTRY, "ab"), other = group_of(&ada, ENTRY, "abab");
    cr_expect(key_equal(&ab, &other), "once is enough");
    other = group_of(&ada, ENTRY, "ba");
    cr_expect(key_equal(&ab, &other), "in any order");
    other = group_of(&ada, ENTRY, "ac");
    cr_expect(!key_equal(&ab, &other));
    other = group_of(&ada, ENTRY, "a");
    cr_expect(!key_equal(&ab, &other));
}

Test(torch_store, what_is_no_entry_with_graphs_has_no_group)
{
    struct key group = group_of(&ada, ENTRY, "");
    cr_expect(key_equal(&group, &none));
    group = group_of(&ada, "pt2:fx-graph-v1::key:c1", "ab");
    cr_expect(key_equal(&group, &none));
    group = group_of(&ada, "pt2:autograd-experimental::", "ab");
    cr_expect(key_equal(&group, &none));
}

Test(torch_store, an_entry_in_a_file_is_read)
{
    size_t len = ARTIFACT_INLINE_MAX + 100;
    char *bytes = calloc(1, len);
    struct artifact *a;
    struct key want = group_of(&ada, ENTRY, "a");
    snprintf(bytes + len - 60, 60, "\x8c\x34%s", fx_key('a'));
    int fd = memfd_of_bytes("test", bytes, len, &e);
    cr_assert_eq(artifact_from_fd(fd, len, NULL, &a, &e), 0);
    struct key got = torch_store_group(rig.service, &ada, view_of_text(ENTRY), a);
    cr_expect(key_equal(&got, &want));
    artifact_unref(a);
    free(bytes);
}

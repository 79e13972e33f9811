/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.c - decides which entry a user means: by its key, its name, its label, or the beginning of its key.
 * The commands show, get, rm, pin and unpin call it.
 *
 * Thread: main.
 */
#include "client/cli/find.h"

#include <string.h>
#include <strings.h>

#include "client/cli/filter.h"
#include "client/cli/rows.h"
#include "keygen/label.h"

#define KEY_PART_MIN 8u /* digits of the beginning of a key: fewer may be a name */

int find_shown(struct remote *r, enum wire_space space, struct view id, struct answer *out)
{
    uint64_t tag = request_begin(r->w);
    wire_put_show(&r->w->request, tag, &(struct wire_show){space, id});
    return remote_ask(r, tag, WIRE_ROW, out);
}

int find_exact(struct remote *r, const char *text, struct answer *out)
{
    struct key key;
    int status = CLI_FINDING;
    if (key_from_text(text, strlen(text), &key))
        status = find_shown(r, WIRE_SPACE_KEY, (struct view){key.bytes, sizeof key.bytes}, out);
    return status == CLI_FINDING ? find_shown(r, WIRE_SPACE_NAME, view_of_text(text), out) : status;
}

struct part_search {
    const char *text;
    struct listing found;
};

/* True if the key begins with the text, or the label is the text or has that file. */
static bool is_named(const struct wire_row *row, const char *text)
{
    char key[WARM_KEY_TEXT];
    size_t len = strlen(text);
    key_to_text(&row->key, key);
    return (len >= KEY_PART_MIN && strncasecmp(key, text, len) == 0) ||
           (row->label.len == len && memcmp(row->label.data, text, len) == 0) ||
           label_has_file(row->label, view_of_text(text));
}

static int on_candidate(void *arg, const struct wire_row *row, struct view frame)
{
    struct part_search *search = arg;
    if (row->kind == WIRE_KIND_MANIFEST && label_has_file(row->label, view_of_text(search->text)))
        return 0; /* it only leads to the result that is meant */
    return is_named(row, search->text) ? listing_keep(&search->found, frame, row->accessed_ms) : 0;
}

/* Finds the one entry whose key begins with the text, or that has it as its label or file. */
static int find_by_part(struct remote *r, const char *text, struct listing *out_kept,
                        struct wire_row *out)
{
    struct part_search search = {.text = text};
    struct wire_list message = {.filter = filter_all()};
    int code = listing_ask(r, &message, on_candidate, &search);
    *out_kept = search.found;
    if (code < 0)
        return remote_fail(r, code);
    if (search.found.n == 1 && listing_row(&search.found, 0, out))
        return CLI_OK;
    if (search.found.n == 0)
        cli_say("%s: no such entry", text);
    else
        cli_say("%s: %zu entries match; give a key", text, search.found.n);
    for (size_t i = 0; !r->as_json && search.found.n > 1 && i < search.found.n; i++)
        if (listing_row(&search.found, i, out))
            row_line(out, rows_now_ms());
    return CLI_FINDING;
}

int find_entry(struct remote *r, const char *text, struct listing *out_kept, struct wire_row *out)
{
    struct answer answer;
    int status = find_exact(r, text, &answer);
    if (status == CLI_FINDING)
        return find_by_part(r, text, out_kept, out);
    if (!status && wire_get_row(&answer.frame, out, &r->w->err))
        status = remote_fail(r, request_unexpected(r->w, &answer));
    return status;
}

int find_key(struct remote *r, const char *text, char out[WARM_KEY_TEXT])
{
    struct listing kept = {0};
    struct wire_row row;
    int status = find_entry(r, text, &kept, &row);
    if (!status)
        key_to_text(&row.key, out);
    listing_close(&kept);
    return status;
}

bool find_is_part(const char *text)
{
    size_t len = strlen(text);
    return len >= KEY_PART_MIN && len < WARM_KEY_TEXT - 1 &&
           strspn(text, "0123456789abcdefABCDEF") == len;
}

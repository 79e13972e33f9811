/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine.c - takes an entry that is damaged, or that its user refused, out of the store. It keeps
 * the bytes, which a person may look at. The writer, eviction and the idle work call it, inside a change.
 *
 * Other threads only suspect: quarantine_damaged looks again before it acts, because the entry may have
 * been replaced since.
 *
 * Thread: writer.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "store/internal.h"

static int quarantine_blob(struct store *s, struct change *c, const struct store_row *row,
                           const char *why)
{
    struct blob_id id = {row->id.owner, row->content};
    int rc = change_remove(c, row);
    if (rc != 0)
        return rc;
    change_spare_blob(c, &id);
    if (blob_quarantine(&s->files, &id) != 0) {
        char name[DOOMED_NAME]; /* no later lookup may find it */
        if (blob_doom(&s->files, &id, name) == 0)
            copier_bury(s, name);
    }
    store_note_dropped(s, &id);
    store_event(s, "store: quarantined a damaged value of %" PRIu64 " bytes: %s", row->len, why);
    return 0;
}

int quarantine_entry(struct store *s, struct change *c, const struct store_id *id,
                     enum store_cause cause, const char *why)
{
    struct store_row row;
    struct view value;
    assert(c->txn);
    char hex[WARM_KEY_TEXT];
    int rc = index_row(&s->index, c->txn, id, &row);
    if (rc != 0 && rc != WARM_ECORRUPT)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    c->n_corrupt++;
    change_tell(c, id, cause);
    if (rc == 0 && row.is_blob)
        return quarantine_blob(s, c, &row, why);
    key_to_text(&id->key, hex);
    store_event(s, "store: removed a damaged entry %s of owner %" PRIu32 ": %s", hex, id->owner,
                why);
    if (rc == WARM_ECORRUPT)
        return change_remove_broken(c, id);
    if (index_value(&s->index, c->txn, id, row.len, &value) == 0)
        value_quarantine(&s->files, id, value.data, value.len);
    return change_remove(c, &row);
}

int quarantine_refused(struct store *s, struct change *c, const struct task *t)
{
    struct store_row row;
    int rc = index_row(&s->index, c->txn, &t->row.id, &row);
    if (rc == WARM_ENOT_FOUND || (rc == 0 && !key_equal(&row.check, &t->row.check)))
        return 0;
    return rc ? rc : quarantine_entry(s, c, &row.id, STORE_LEFT_REFUSED, "its user refused it");
}

int quarantine_damaged(struct store *s, struct change *c, struct task *t)
{
    struct store_row row;
    struct view value;
    int rc = index_row(&s->index, c->txn, &t->row.id, &row);
    if (rc == WARM_ENOT_FOUND)
        return 0;
    if (rc == WARM_ECORRUPT)
        return quarantine_entry(s, c, &t->row.id, STORE_LEFT_DAMAGED, "its row cannot be read");
    if (rc != 0)
        return rc;
    if (!row.is_blob) {
        rc = index_value(&s->index, c->txn, &row.id, row.len, &value);
        rc = rc ? rc : index_check_value(&row, value);
        if (rc == WARM_ECORRUPT || rc == WARM_ENOT_FOUND)
            return quarantine_entry(s, c, &row.id, STORE_LEFT_DAMAGED, "its bytes changed");
        return rc;
    }
    if (memcmp(&row.content, &t->row.content, sizeof row.content) != 0)
        return 0;
    struct blob_id id = {row.id.owner, row.content};
    struct blob_state state;
    int fd = -1;
    rc = blob_open(&s->files, &id, row.len, &fd, &state, NULL);
    if (fd >= 0)
        close(fd);
    if (rc == WARM_ENOT_FOUND)
        return quarantine_entry(s, c, &row.id, STORE_LEFT_DAMAGED, "its file is missing");
    if (rc == WARM_ECORRUPT)
        return quarantine_entry(s, c, &row.id, STORE_LEFT_DAMAGED, "its file is too short");
    if (rc == 0 && t->status == WARM_ECORRUPT && blob_state_equal(&state, &t->state))
        return quarantine_entry(s, c, &row.id, STORE_LEFT_DAMAGED, "its bytes changed");
    return 0;
}

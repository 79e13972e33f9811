/* SPDX-License-Identifier: Apache-2.0 */
/*
 * damaged.c - decides what follows a client's DAMAGED: its bytes are not those of the entry, or it refuses
 * the entry's bytes.
 *
 * Bytes that differ: the entry is verified from disk, and quarantined if it is damaged there.
 * Nothing else follows, not even for an administrator.
 *
 * A value that is refused as it is:
 *   - in the client's own space, or made here for this user, or the client is an administrator:
 *     quarantined;
 *   - made here for another user: others rely on it. It is quarantined if a second user refuses the same
 *     value. Until then the user who refused it does not get it any more: a COMPILE makes it anew for
 *     that user alone, and the stored value stays.
 *
 * The native wire calls service_damaged. refused.c remembers.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <string.h>

#include "daemon/process/log.h"
#include "daemon/service/find.h"
#include "daemon/service/internal.h"

#define VERIFY_AGAIN_MS                                                                            \
    10000u /* how often users that are no administrators have an entry verified */

/* Takes the refusal of a value that was made here for `maker`. */
static void refuse(struct service *s, const struct peer *peer, uint32_t maker,
                   const struct key *key, const struct key *check)
{
    assert(peer && key && check);
    char text[WARM_KEY_TEXT];
    bool may = peer->is_admin || maker == peer->uid;
    key_to_text(key, text);
    if (!may && !refused_by_another(s, peer->uid, key, check)) {
        refused_note(s, peer->uid, key, check);
        log_user(peer->uid, LOG_LEVEL_WARNING,
                 "uid %u (pid %ld) has no use for %s, made for uid %u: kept for the others",
                 (unsigned)peer->uid, (long)peer->pid, text, (unsigned)maker);
        return;
    }
    log_user(peer->uid, LOG_LEVEL_WARNING, "uid %u (pid %ld) has no use for %s%s: put aside",
             (unsigned)peer->uid, (long)peer->pid, text, may ? "" : ", and is the second");
    refused_forget(s, key, check);
    store_refuse(s->config.store, &(struct store_id){STORE_MADE_HERE, *key}, check);
}

static bool was_verified_just_now(struct service *s, const struct store_id *id)
{
    uint64_t now = service_clock_ms(s);
    for (size_t i = 0; i < VERIFIED; i++)
        if (s->verified[i].at_ms && now - s->verified[i].at_ms < VERIFY_AGAIN_MS &&
            store_id_equal(&s->verified[i].id, id))
            return true;
    s->verified[s->next_verified++ % VERIFIED] = (struct verified){*id, now + 1};
    return false;
}

static void verify(struct service *s, const struct peer *peer, const struct store_id *id)
{
    if (peer->is_admin || !was_verified_just_now(s, id))
        store_suspect(s->config.store, id);
}

/* Takes the report of a client. A value that was just made may not be in the index yet: find_maker
 * knows its maker from the pending puts. A client that names the checksum has had the bytes. */
void service_damaged(struct service *s, const struct peer *peer, const struct key *key,
                     const struct key *seen)
{
    struct store_id own = {peer->space, *key}, here = {STORE_MADE_HERE, *key};
    struct key check;
    uint32_t maker;
    verify(s, peer, &own);
    store_refuse(s->config.store, &own, seen); /* if it has this checksum */
    if (!find_maker(s, &here, NULL, &maker, &check))
        return;
    if (key_equal(&check, seen))
        refuse(s, peer, maker, key, seen);
    else
        verify(s, peer, &here);
}

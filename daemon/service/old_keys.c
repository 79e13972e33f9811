/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_keys.c - decides whether the daemon makes other keys than the one before it, and tells the store.
 *
 * main.c calls it once, when the store is open.
 *
 * Thread: loop thread.
 */
#include "daemon/service/old_keys.h"

#include <stdio.h>
#include <string.h>

#include "daemon/headers/manifest.h"
#include "daemon/process/log.h"
#include "keygen/bytes.h"
#include "keygen/domains.h"
#include "keygen/key.h"
#include "store/clock.h"

#define TEXT_MAX 2048 /* bytes */

void old_keys_begin(struct store *s)
{
    char text[TEXT_MAX];
    uint8_t kept[8 + TEXT_MAX];
    struct store_stats stats;
    size_t len = 0;
    snprintf(text, sizeof text, "%skeys/%u manifests/%u aliases/%u ", DOMAINS_ALL, WARM_KEY_FORMAT,
             MANIFEST_VERSION, ALIAS_VERSION);
    int code = store_meta_get(s, OLD_KEYS_META, kept, sizeof kept, &len);
    store_turn_end(s);
    struct reader r = reader_over(kept, code == 0 ? len : 0);
    uint64_t since_ms = reader_u64(&r);
    bool same = r.len == strlen(text) && memcmp(r.data, text, r.len) == 0;
    store_stats(s, &stats);
    if (!same) {
        /* A new store, or one that was rebuilt and lost its text, has no older keys. */
        bool none = code == WARM_ENOT_FOUND && (stats.n_entries == 0 || stats.rebuilt);
        since_ms = none ? 0 : clock_wall_ms();
        struct writer w;
        writer_init(&w, 0);
        writer_u64(&w, since_ms);
        writer_bytes(&w, text, strlen(text));
        if (w.failed || store_meta_put(s, OLD_KEYS_META, w.data, w.len) != 0)
            log_warning("the versions of the keys are not stored: out of memory");
        writer_close(&w);
    }
    if (since_ms)
        store_expect_old(s, since_ms, !same);
}

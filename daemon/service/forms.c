/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forms.c - refuses forms beyond their share of the store, and makes room in it. put.c asks it.
 *
 *   forms_admit: three quarters are used ──▶ evict the user's own ──▶ on_own_evicted: still above half?
 *                                                                       └─▶ evict of all users
 *
 * Thread: loop thread.
 */
#include "daemon/service/forms.h"

#include "daemon/service/internal.h"

static uint64_t bytes_now(const struct service *s, struct store_stats *out)
{
    store_stats(s->config.store, out);
    return out->kind_bytes[STORE_FORM];
}

static bool evict(struct service *s, int64_t uid, store_report_cb cb)
{
    struct store_filter filter = store_filter_all();
    struct store_stats stats;
    struct err e;
    uint64_t used = bytes_now(s, &stats), keep = stats.max_bytes / FORMS_SHARE / 2;
    if (used <= keep)
        return false;
    filter.kind = STORE_FORM;
    filter.owner = filter.maker = uid;
    uint64_t to = stats.n_bytes - (used - keep);
    return store_evict(s->config.store, &filter, to ? to : 1, false, cb, s, &e) == 0;
}

static void on_all_evicted(void *arg, int status, const struct store_report *r, const struct err *e)
{
    struct service *s = arg;
    (void)status, (void)r, (void)e;
    s->evicts_forms = false;
}

static void on_own_evicted(void *arg, int status, const struct store_report *r, const struct err *e)
{
    struct service *s = arg;
    (void)status, (void)r, (void)e;
    s->evicts_forms = evict(s, -1, on_all_evicted);
}

int forms_admit(struct service *s, uint32_t uid, uint64_t len, struct err *e)
{
    struct store_stats stats;
    uint64_t used = bytes_now(s, &stats), most = stats.max_bytes / FORMS_SHARE;
    if (len > FORMS_MAX)
        return err_set(e, WARM_ETOO_BIG, "a form has at most %u bytes", FORMS_MAX);
    if (used + len > most / 4 * 3 && !s->evicts_forms)
        s->evicts_forms = evict(s, uid, on_own_evicted);
    if (used + len > most)
        return err_set(e, WARM_EFULL, "forms have their share of the store already");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closure.c - finds the entries that must travel, stay or go with an entry: closure.h says which.
 * native/admin.c calls it for each key of a CLOSURE, PIN or PUSH.
 *
 * Thread: loop thread.
 */
#include "daemon/service/closure.h"

#include <assert.h>

#include "daemon/service/service.h"

static int add(struct id_set *out, const struct store_id *id, struct err *e)
{
    assert(out->n <= CLOSURE_MAX);
    if (out->n == CLOSURE_MAX && !id_set_has(out, id))
        return err_set(e, WARM_ETOO_BIG, "more than %u entries belong together", CLOSURE_MAX);
    return id_set_add(out, id) ? 0 : err_set(e, WARM_ENOMEM, "no memory for a list of entries");
}

int closure_add(struct service *s, const struct store_id *id, struct id_set *out, struct err *e)
{
    static struct store_id group[STORE_GROUP_MAX]; /* large for the stack */
    size_t n = store_group(service_store(s), id, group);
    int code = add(out, id, e);
    for (size_t i = 0; i < n && !code; i++)
        code = add(out, &group[i], e);
    return code;
}

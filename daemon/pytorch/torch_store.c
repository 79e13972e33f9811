/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_store.c - decides which of PyTorch's values are stored in another form, and which entries leave the
 * store together.
 *
 * redis/ calls it for values in and out; put.c asks for groups, through service_config.group_of.
 *
 * Thread: loop thread, but for torch_store_take_file_apart: any.
 */
#include "daemon/pytorch/torch_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/pytorch/torch_value.h"

#define SCAN_MAX (2u << 20) /* bytes of an entry that are searched for references */
#define REFERENCES_MAX 8u   /* FX graphs of one entry: a forward and a backward, seldom more */
#define FX_NAME "pt2:fx-graph-v1::%.*s:c1%s"
#define FX_NAME_MAX 88u
#define CHECKED ":checked" /* ends the names of client/python/warm/torch.py */
#define ENTRY "pt2:autograd-experimental::"

/* ---- in ---- */

/* Makes a memfd of `len` bytes and maps it for writing. NULL: no memory. */
static void *memfd_map(size_t len, int *out_fd)
{
    int fd = memfd_create("warm-value", MFD_CLOEXEC);
    void *map = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)len) == 0)
        map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) {
        *out_fd = fd;
        return map;
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* True if the value may be PyTorch's JSON. */
static bool is_json(const struct service_put *put)
{
    return torch_value_is_name(put->name) && put->len > 0 && put->len <= TORCH_VALUE_MAX;
}

static void take_bytes_apart(struct service_put *put, void **out_bytes)
{
    uint8_t *stored = malloc(put->len + TORCH_VALUE_MAGIC);
    struct view json = {put->data, put->len};
    uint32_t cost_ms;
    size_t len = stored ? torch_value_take_apart(json, stored, &cost_ms) : 0;
    if (len == 0) {
        free(stored);
        return;
    }
    *out_bytes = stored;
    put->data = stored;
    put->len = len;
    put->cost_ms = cost_ms;
}

void torch_store_take_file_apart(struct service_put *put)
{
    size_t room = put->len + TORCH_VALUE_MAGIC;
    const void *json = mmap(NULL, put->len, PROT_READ, MAP_SHARED, put->fd, 0);
    int fd;
    if (json == MAP_FAILED)
        return;
    uint8_t *stored = memfd_map(room, &fd);
    if (stored) {
        struct view view = {json, put->len};
        uint32_t cost_ms;
        size_t len = torch_value_take_apart(view, stored, &cost_ms);
        munmap(stored, room);
        if (len && ftruncate(fd, (off_t)len) == 0) {
            close(put->fd);
            put->fd = fd;
            put->len = len;
            put->cost_ms = cost_ms;
        } else {
            close(fd);
        }
    }
    munmap((void *)(uintptr_t)json, put->len);
}

bool torch_store_is_stored(const void *data, int fd, uint64_t len)
{
    uint8_t start[TORCH_VALUE_MAGIC + 1];
    if (len < sizeof start)
        return false;
    if (!data && pread(fd, start, sizeof start, 0) != (ssize_t)sizeof start)
        return false;
    return torch_value_is_stored(data ? data : start, sizeof start);
}

int torch_store_take_apart(struct service_put *put, void **out_bytes, struct err *e)
{
    *out_bytes = NULL;
    if (torch_store_is_stored(put->data, put->fd, put->len))
        return err_set(e, WARM_EINVALID, "its first bytes are those of another form");
    if (put->data && is_json(put))
        take_bytes_apart(put, out_bytes);
    return 0;
}

bool torch_store_is_long(const struct service_put *put) { return !put->data && is_json(put); }

/* ---- groups ---- */

struct references {
    struct view keys[REFERENCES_MAX];
    size_t n;
};

static int compare_keys(const void *a, const void *b)
{
    const struct view *one = a, *other = b;
    return memcmp(one->data, other->data, TORCH_VALUE_FX_KEY);
}

/* Lists the FX graphs that an entry refers to, each once, sorted. */
static void find_references(struct view entry, struct references *out)
{
    size_t at = 0;
    out->n = 0;
    while (out->n < REFERENCES_MAX) {
        struct view key = torch_value_next_fx_key(entry, &at);
        bool known = false;
        if (key.len == 0)
            break;
        for (size_t i = 0; i < out->n; i++)
            known |= compare_keys(&out->keys[i], &key) == 0;
        if (!known)
            out->keys[out->n++] = key;
    }
    qsort(out->keys, out->n, sizeof *out->keys, compare_keys);
}

static void on_regrouped(void *arg, int status, bool existed, const struct err *e)
{
    (void)arg, (void)status, (void)existed, (void)e; /* without its group it is evicted by itself */
}

/* Stores a row again with another group, since rows never change in place. */
static void regroup(struct service *s, const struct store_id *id, const struct key *group)
{
    struct store_value v;
    if (store_get(service_store(s), id, &v, NULL) != 0 || key_equal(&v.row.group, group))
        return;
    struct store_put put = {.row = v.row,
                            .data = v.data,
                            .fd = v.data ? -1 : fcntl(v.fd, F_DUPFD_CLOEXEC, 3),
                            .on_done = on_regrouped};
    put.row.group = *group;
    if ((!v.data && put.fd < 0) || store_put(service_store(s), &put, NULL) != 0)
        if (put.fd >= 0)
            close(put.fd);
}

/* Returns the group of an entry, whose graphs' names end with `end`, and moves them into it. */
static struct key group_of(struct service *s, const struct peer *peer, struct view entry,
                           const char *end)
{
    struct references found;
    struct key group = {{0}};
    uint8_t all[REFERENCES_MAX * TORCH_VALUE_FX_KEY];
    char name[FX_NAME_MAX];
    find_references(entry, &found);
    for (size_t i = 0; i < found.n; i++)
        memcpy(all + i * TORCH_VALUE_FX_KEY, found.keys[i].data, TORCH_VALUE_FX_KEY);
    if (found.n)
        group = key_of_bytes(all, found.n * TORCH_VALUE_FX_KEY);
    for (size_t i = 0; i < found.n; i++) {
        int len = snprintf(name, sizeof name, FX_NAME, (int)TORCH_VALUE_FX_KEY,
                           (const char *)found.keys[i].data, end);
        struct store_id id = service_name_id(peer, (struct view){name, (size_t)len});
        regroup(s, &id, &group);
    }
    return group;
}

struct key torch_store_group(struct service *s, const struct peer *peer, struct view name,
                             const struct artifact *entry)
{
    struct key none = {{0}};
    const size_t n = sizeof CHECKED - 1;
    const char *end =
        name.len > n && memcmp(name.data + name.len - n, CHECKED, n) == 0 ? CHECKED : "";
    if (name.len < sizeof ENTRY || memcmp(name.data, ENTRY, sizeof ENTRY - 1) != 0 ||
        entry->len == 0 || entry->len > TORCH_VALUE_MAX)
        return none;
    if (entry->data)
        return group_of(s, peer, (struct view){entry->data, entry->len}, end);
    void *copy = entry->len <= SCAN_MAX ? malloc(entry->len) : NULL;
    struct key group = none;
    if (copy && file_read_start(entry->fd, copy, entry->len, NULL) == 0)
        group = group_of(s, peer, (struct view){copy, entry->len}, end);
    free(copy);
    return group;
}

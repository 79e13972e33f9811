/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_nodes.c - keeps the map from slots to servers of a Redis Cluster. redis.c asks it for each command.
 *
 * What may go wrong: a server that has the map does not answer (another one is asked next); the map is rubbish (it is
 * dropped, MOVED leads on); there are more servers than NODES_MAX (their slots go by MOVED, and fail).
 *
 * Thread: loop thread.
 */
#include "tier/backends/redis_nodes.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 16384u
#define NODES_MAX 128u
#define UNKNOWN 255u
#define PORT 6379u
#define REFRESH_MS 200u /* between two looks at the map */

struct node {
    char host[256];
    uint16_t port;
    struct redis_link *link, *large; /* made when they are needed */
};

struct redis_nodes {
    struct redis_link_settings settings;
    bool is_cluster, wants_map, closing, timer_closed;
    struct node node[NODES_MAX];
    unsigned n_nodes, n_seeds, next_asked, n_links;
    uint8_t slot[SLOTS];
    uv_timer_t timer;
    struct redis_command ask; /* CLUSTER SLOTS */
    bool asking, failed;
    unsigned asked;
    uint64_t asked_ms;
    void (*closed)(void *user);
    void *user;
};

/* Computes CRC-16/XMODEM, as the specification of Redis Cluster says. */
static uint16_t crc16(const char *at, size_t len)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint16_t)((uint8_t)at[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

unsigned redis_nodes_slot(const char *key)
{
    const char *open = strchr(key, '{'), *end = open ? strchr(open, '}') : NULL;
    bool tagged = end && end > open + 1;
    return crc16(tagged ? open + 1 : key, tagged ? (size_t)(end - open) - 1 : strlen(key)) % SLOTS;
}

/* Finds a server, or adds it. Returns NULL if there are too many. */
static struct node *find_node(struct redis_nodes *n, const char *host, uint16_t port)
{
    for (unsigned i = 0; i < n->n_nodes; i++)
        if (n->node[i].port == port && strcmp(n->node[i].host, host) == 0)
            return &n->node[i];
    if (n->n_nodes == NODES_MAX)
        return NULL;
    struct node *node = &n->node[n->n_nodes++];
    *node = (struct node){.port = port};
    snprintf(node->host, sizeof node->host, "%s", host);
    return node;
}

static struct redis_link *link_of(struct redis_nodes *n, struct node *node, bool is_large)
{
    struct redis_link **link = is_large ? &node->large : &node->link;
    if (!*link) {
        *link = redis_link_new(&n->settings, node->host, node->port);
        n->n_links++;
    }
    return *link;
}

/* ---- the map ---- */

/* A place in the reply to CLUSTER SLOTS. */
struct cursor {
    const char *at;
    size_t left;
    bool failed;
};

static struct resp_item next_item(struct cursor *c)
{
    struct resp_item item = {.type = RESP_NIL};
    long n = c->failed ? -1 : resp_item_parse(c->at, c->left, 4096, &item);
    if (n <= 0) {
        c->failed = true;
        return (struct resp_item){.type = RESP_NIL};
    }
    c->at += n;
    c->left -= (size_t)n;
    return item;
}

static void skip_whole(struct cursor *c)
{
    long n = c->failed ? -1 : resp_whole(c->at, c->left, 4096, SLOTS);
    c->failed = n <= 0;
    c->at += n > 0 ? n : 0;
    c->left -= n > 0 ? (size_t)n : 0;
}

/* Reads [host, port, id, …]. Returns the server, or NULL. An empty host is the one that was asked. */
static struct node *take_node(struct redis_nodes *n, struct cursor *c)
{
    assert(n->asked < n->n_nodes);
    char host[256];
    struct resp_item list = next_item(c), name = next_item(c), port = next_item(c);
    if (list.type != RESP_ARRAY || list.number < 2 || port.type != RESP_NUMBER ||
        port.number <= 0 || port.number > UINT16_MAX || name.len >= sizeof host)
        c->failed = true;
    for (int64_t i = 2; !c->failed && i < list.number; i++)
        skip_whole(c);
    if (c->failed)
        return NULL;
    bool is_same = name.type != RESP_BULK || name.len == 0 || *name.data == '?';
    if (is_same)
        snprintf(host, sizeof host, "%s", n->node[n->asked].host);
    else
        snprintf(host, sizeof host, "%.*s", (int)name.len, name.data);
    return find_node(n, host, (uint16_t)port.number);
}

/* Reads [first, last, master, replica, …]. */
static void take_range(struct redis_nodes *n, struct cursor *c)
{
    struct resp_item list = next_item(c), first = next_item(c), last = next_item(c);
    if (list.type != RESP_ARRAY || list.number < 3 || first.type != RESP_NUMBER ||
        last.type != RESP_NUMBER || first.number < 0 || last.number >= (int64_t)SLOTS)
        c->failed = true;
    struct node *master = c->failed ? NULL : take_node(n, c);
    for (int64_t i = 3; !c->failed && i < list.number; i++)
        skip_whole(c);
    for (int64_t s = first.number; !c->failed && s <= last.number; s++)
        n->slot[s] = master ? (uint8_t)(master - n->node) : UNKNOWN;
}

static void on_map(struct redis_command *command, const char *data, size_t len)
{
    struct redis_nodes *n =
        (struct redis_nodes *)((char *)command - offsetof(struct redis_nodes, ask));
    struct cursor c = {data, len, false};
    struct resp_item all = next_item(&c);
    n->failed = all.type != RESP_ARRAY || all.number == 0;
    for (int64_t i = 0; !n->failed && !c.failed && i < all.number; i++)
        take_range(n, &c);
    n->failed = n->failed || c.failed;
}

static void ask_map(uv_timer_t *timer);

static void on_map_end(struct redis_command *command, enum tier_outcome outcome, const char *why)
{
    struct redis_nodes *n =
        (struct redis_nodes *)((char *)command - offsetof(struct redis_nodes, ask));
    assert(n->asking);
    (void)why;
    n->asking = false;
    if (n->closing)
        return;
    if (outcome != TIER_OK || n->failed)
        n->wants_map = true; /* of another server, in a while */
    if (n->wants_map)
        uv_timer_start(&n->timer, ask_map, REFRESH_MS, 0);
}

/* Sends CLUSTER SLOTS to the next server that may answer. */
static void ask_map(uv_timer_t *timer)
{
    struct redis_nodes *n = timer->data;
    struct redis_arg args[] = {redis_text("CLUSTER"), redis_text("SLOTS")};
    if (n->asking)
        return;
    for (unsigned i = 0; i < n->n_nodes; i++) {
        n->asked = n->next_asked++ % n->n_nodes;
        if (!redis_link_is_off(link_of(n, &n->node[n->asked], false)))
            break;
    }
    n->asking = true;
    n->wants_map = false;
    n->failed = true;
    n->asked_ms = uv_now(n->settings.loop);
    n->ask = (struct redis_command){
        .is_nested = true, .on_nested = on_map, .on_end = on_map_end, .on_reply = NULL};
    redis_command_add(&n->ask, args, 2);
    redis_link_send(n->node[n->asked].link, &n->ask);
}

void redis_nodes_doubt(struct redis_nodes *n)
{
    uint64_t now = uv_now(n->settings.loop), at = n->asked_ms + REFRESH_MS;
    if (!n->is_cluster || n->closing || n->wants_map)
        return;
    n->wants_map = true;
    if (!n->asking)
        uv_timer_start(&n->timer, ask_map, at > now ? at - now : 0, 0);
}

/* ---- the choice ---- */

struct redis_link *redis_nodes_find(struct redis_nodes *n, unsigned slot, bool is_large)
{
    assert(slot < SLOTS && n->n_nodes);
    if (!n->is_cluster)
        return link_of(n, &n->node[0], is_large);
    if (!n->asked_ms)
        redis_nodes_doubt(n);
    if (n->slot[slot] != UNKNOWN)
        return link_of(n, &n->node[n->slot[slot]], is_large);
    for (unsigned i = 0; i < n->n_seeds; i++) {
        struct redis_link *link = link_of(n, &n->node[i], is_large);
        if (!redis_link_is_off(link))
            return link;
    }
    return link_of(n, &n->node[0], is_large);
}

struct redis_link *redis_nodes_follow(struct redis_nodes *n, const struct resp_item *error,
                                      bool is_large)
{
    char text[300], host[256];
    unsigned slot, port;
    bool moved = redis_error_is(error, "MOVED");
    if (!n->is_cluster)
        return NULL;
    snprintf(text, sizeof text, "%.*s", (int)(error->len < 299 ? error->len : 299), error->data);
    char *colon = strrchr(text, ':'), *space = strchr(text, ' ');
    char *name = space ? strchr(space + 1, ' ') : NULL;
    if (!colon || !name || colon < name || sscanf(space, " %5u", &slot) != 1 || slot >= SLOTS ||
        sscanf(colon, ":%5u", &port) != 1 || port == 0 || port > UINT16_MAX)
        return NULL;
    *colon = '\0';
    snprintf(host, sizeof host, "%s", name + 1);
    if (!*host) /* the server that answered */
        snprintf(host, sizeof host, "%s",
                 n->node[n->slot[slot] < n->n_nodes ? n->slot[slot] : 0].host);
    struct node *node = find_node(n, host, (uint16_t)port);
    if (node && moved)
        n->slot[slot] = (uint8_t)(node - n->node);
    if (moved)
        redis_nodes_doubt(n);
    return node ? link_of(n, node, is_large) : NULL;
}

/* ---- life ---- */

struct redis_nodes *redis_nodes_new(const struct redis_link_settings *settings,
                                    const struct tier_url *url, bool is_cluster)
{
    assert(url->n_hosts > 0);
    struct redis_nodes *n = calloc(1, sizeof *n);
    if (!n)
        abort(); /* warmd starts the helper again */
    n->settings = *settings;
    n->is_cluster = is_cluster;
    memset(n->slot, UNKNOWN, sizeof n->slot);
    for (unsigned i = 0; i < url->n_hosts; i++)
        find_node(n, url->hosts[i].name, url->hosts[i].port ? url->hosts[i].port : PORT);
    n->n_seeds = n->n_nodes;
    uv_timer_init(settings->loop, &n->timer);
    n->timer.data = n;
    return n;
}

static void nodes_settle(struct redis_nodes *n)
{
    if (n->n_links || !n->timer_closed)
        return;
    void (*closed)(void *user) = n->closed;
    void *user = n->user;
    free(n);
    closed(user);
}

static void on_link_closed(void *user)
{
    struct redis_nodes *n = user;
    assert(n->n_links);
    n->n_links--;
    nodes_settle(n);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct redis_nodes *n = timer->data;
    n->timer_closed = true;
    nodes_settle(n);
}

void redis_nodes_close(struct redis_nodes *n, void (*closed)(void *user), void *user)
{
    n->closing = true;
    n->closed = closed;
    n->user = user;
    for (unsigned i = 0; i < n->n_nodes; i++) {
        if (n->node[i].link)
            redis_link_close(n->node[i].link, on_link_closed, n);
        if (n->node[i].large)
            redis_link_close(n->node[i].large, on_link_closed, n);
    }
    uv_close((uv_handle_t *)&n->timer, on_timer_closed);
}

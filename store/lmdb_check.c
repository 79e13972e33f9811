/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_check.c - decides if the pages of an LMDB file fit together, by a walk over all of them.
 * index_guard.c calls it in a child process, after a crash that a damaged index explains.
 *
 * Thread: any; no state.
 *
 * The format, as LMDB 0.9 writes it on 64-bit little-endian machines:
 *
 *     page   offset  size  field              node   offset  size  field
 *            0       8     its number                0       2     size or page number, low
 *            8       2     LEAF2: key size           2       2     …, middle
 *            10      2     flags                     4       2     flags; page number, high
 *            12      2     end of offsets            6       2     key length
 *            14      2     begin of nodes            8       -     key, then value
 *            12      4     overflow: pages
 *            16      -     offsets of nodes
 *
 *     table  0       4     page size, of the free list      meta   16      4     0xBEEFC0DE
 *     record 4       2     flags                     20      4     1
 *            6       2     depth                     40      48    table record: free list
 *            8       24    branch, leaf,             88      48    table record: main
 *                          overflow pages            136     8     last page
 *            32      8     entries                   144     8     transaction
 *            40      8     root page, or -1
 */
#include "store/lmdb_check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MIN 4096u
#define PAGE_MAX 32768u /* LMDB takes no larger ones, whatever the kernel's are */
#define PAGE_HEAD 16u
#define NODE_HEAD 8u
#define TABLE_SIZE 48u
#define KEY_MAX 511u
#define DEPTH_MAX 32u
#define NO_PAGE UINT64_MAX
#define META_MAGIC 0xBEEFC0DEu

enum page_flag {
    BRANCH = 0x01,
    LEAF = 0x02,
    OVERFLOW = 0x04,
    DIRTY = 0x10, /* in memory; LMDB clears it in pages that it writes, but not in sub-pages */
    LEAF2 = 0x20,
    SUBPAGE = 0x40
};
enum node_flag { BIG = 0x01, SUBTABLE = 0x02, DUPLICATES = 0x04 };

struct table {
    uint64_t branches, leaves, overflows, entries, root;
    unsigned depth, flags;
};

struct walk {
    const uint8_t *file;
    uint64_t page;    /* bytes of one */
    uint64_t n_pages; /* as the meta page says */
    uint64_t n_whole; /* whole pages in the file */
    uint8_t *used;    /* a bit for each page */
    const char *fault;
};

/* The kind of table; it decides what a leaf holds. */
enum role { FREE_LIST, MAIN, PLAIN, DUPLICATE_TREE };

static uint64_t number(const uint8_t *p, unsigned size)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < size; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static bool fail(struct walk *w, const char *fault)
{
    if (!w->fault)
        w->fault = fault;
    return false;
}

static struct table read_table(const uint8_t *p)
{
    return (struct table){.flags = (unsigned)number(p + 4, 2),
                          .depth = (unsigned)number(p + 6, 2),
                          .branches = number(p + 8, 8),
                          .leaves = number(p + 16, 8),
                          .overflows = number(p + 24, 8),
                          .entries = number(p + 32, 8),
                          .root = number(p + 40, 8)};
}

/* Marks a page as used. False if its number is impossible, or if it is used already. */
static bool claim(struct walk *w, uint64_t page)
{
    if (page < 2 || page >= w->n_pages)
        return fail(w, "a page number lies outside the file");
    uint8_t bit = (uint8_t)(1u << page % 8);
    if (w->used[page / 8] & bit)
        return fail(w, "a page is used twice");
    w->used[page / 8] |= bit;
    return true;
}

/* Returns the page in memory, claimed, with its number checked. */
static const uint8_t *take_page(struct walk *w, uint64_t page)
{
    if (!claim(w, page))
        return NULL;
    if (page >= w->n_whole) {
        fail(w, "a page lies behind the end of the file");
        return NULL;
    }
    const uint8_t *p = w->file + page * w->page;
    if (number(p, 8) != page) {
        fail(w, "a page has another's number");
        return NULL;
    }
    return p;
}

/* Returns the `len` bytes on overflow pages from `page` on. */
static const uint8_t *take_overflow(struct walk *w, uint64_t page, uint64_t len, struct table *seen)
{
    const uint8_t *p = take_page(w, page);
    if (!p)
        return NULL;
    uint64_t n = (PAGE_HEAD + len + w->page - 1) / w->page;
    if (number(p + 10, 2) != OVERFLOW || number(p + 12, 4) != n || page + n > w->n_whole) {
        fail(w, "a large value's pages are wrong");
        return NULL;
    }
    for (uint64_t i = 1; i < n; i++)
        if (!claim(w, page + i))
            return NULL;
    seen->overflows += n;
    return p + PAGE_HEAD;
}

/* Checks a record of the free list: the number of pages, then their numbers in falling order. */
static bool check_free(struct walk *w, const uint8_t *data, uint64_t len)
{
    uint64_t n = len >= 8 ? number(data, 8) : 0, last = NO_PAGE;
    if (len < 8 || n > len / 8 - 1)
        return fail(w, "the list of free pages is too short");
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t page = number(data + 8 * i, 8);
        if (page >= last)
            return fail(w, "the list of free pages is out of order");
        if (!claim(w, page))
            return false;
        last = page;
    }
    return true;
}

static bool check_tree(struct walk *w, const uint8_t *record, enum role role,
                       uint64_t *out_entries);

/* Checks the bounds of a page or sub-page of `size` bytes. */
static bool check_bounds(struct walk *w, const uint8_t *p, uint64_t size)
{
    uint64_t lower = number(p + 12, 2), upper = number(p + 14, 2);
    if (lower < PAGE_HEAD || lower % 2 || lower > upper || upper > size)
        return fail(w, "the bounds of a page are wrong");
    return true;
}

/* Checks duplicates that lie inside a node: keys of one size, one behind the other. */
static bool check_subpage(struct walk *w, const uint8_t *p, uint64_t len, uint64_t *out_entries)
{
    if (len < PAGE_HEAD || (number(p + 10, 2) & ~(uint64_t)DIRTY) != (LEAF | LEAF2 | SUBPAGE))
        return fail(w, "a node's duplicates are no sub-page");
    uint64_t n = (number(p + 12, 2) - PAGE_HEAD) / 2, key = number(p + 8, 2);
    if (!check_bounds(w, p, len))
        return false;
    if (key == 0 || key > KEY_MAX || PAGE_HEAD + n * key > len)
        return fail(w, "a sub-page is too short");
    *out_entries += n;
    return true;
}

static bool check_leaf_node(struct walk *w, const uint8_t *node, uint64_t room, enum role role,
                            struct table *seen)
{
    uint64_t len = number(node, 4), flags = number(node + 4, 2), key = number(node + 6, 2);
    const uint8_t *data = node + NODE_HEAD + key;
    uint64_t in_page = flags & BIG ? 8 : len;
    if (key == 0 || key > KEY_MAX || NODE_HEAD + key + in_page > room)
        return fail(w, "a node does not fit its page");
    if (flags & BIG)
        data = take_overflow(w, number(data, 8), len, seen);
    if (!data)
        return false;
    switch (flags & ~(uint64_t)BIG) {
    case 0: seen->entries++; return role == FREE_LIST ? check_free(w, data, len) : true;
    case SUBTABLE:
        seen->entries++;
        if (role != MAIN || flags & BIG || len != TABLE_SIZE)
            return fail(w, "a table's record is wrong");
        return check_tree(w, data, PLAIN, NULL);
    case DUPLICATES:
        if (role != PLAIN || flags & BIG)
            return fail(w, "a node has duplicates in a tree that cannot have any");
        return check_subpage(w, data, len, &seen->entries);
    case SUBTABLE | DUPLICATES:
        if (role != PLAIN || flags & BIG || len != TABLE_SIZE)
            return fail(w, "a table of duplicates is wrong");
        return check_tree(w, data, DUPLICATE_TREE, &seen->entries);
    default: return fail(w, "a node is of no known kind");
    }
}

static bool check_page(struct walk *w, uint64_t page, unsigned levels, enum role role,
                       struct table *seen);

static bool check_branch_node(struct walk *w, const uint8_t *node, uint64_t room, unsigned levels,
                              enum role role, struct table *seen)
{
    uint64_t key = number(node + 6, 2);
    if (key > KEY_MAX || NODE_HEAD + key > room)
        return fail(w, "a node does not fit its page");
    return check_page(w, number(node, 6), levels - 1, role, seen);
}

/* Checks a page whose distance from the leaves is `levels` - 1, and all pages below it. */
static bool check_page(struct walk *w, uint64_t page, unsigned levels, enum role role,
                       struct table *seen)
{
    const uint8_t *p = take_page(w, page);
    if (!p)
        return false;
    uint64_t flags = number(p + 10, 2), lower = number(p + 12, 2), upper = number(p + 14, 2);
    uint64_t n = (lower - PAGE_HEAD) / 2, used = 0;
    bool leaf = levels == 1;
    if (leaf && flags == (LEAF | LEAF2) && role == DUPLICATE_TREE) {
        uint64_t key = number(p + 8, 2);
        if (!check_bounds(w, p, w->page) || key == 0 || key > KEY_MAX ||
            PAGE_HEAD + n * key > w->page)
            return fail(w, "a page of duplicates is wrong");
        seen->leaves++;
        seen->entries += n;
        return true;
    }
    if (flags != (leaf ? LEAF : BRANCH))
        return fail(w, "a page is of another kind than its place in the tree");
    if (!check_bounds(w, p, w->page))
        return false;
    if (n < (leaf ? 1u : 2u))
        return fail(w, "a page has too few entries");
    *(leaf ? &seen->leaves : &seen->branches) += 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = number(p + PAGE_HEAD + 2 * i, 2);
        if (at < upper || at % 2 || at + NODE_HEAD > w->page)
            return fail(w, "a node lies outside its page");
        const uint8_t *node = p + at;
        bool sound = leaf ? check_leaf_node(w, node, w->page - at, role, seen)
                          : check_branch_node(w, node, w->page - at, levels, role, seen);
        if (!sound)
            return false;
        uint64_t len = leaf ? (number(node + 4, 2) & BIG ? 8 : number(node, 4)) : 0;
        used += (NODE_HEAD + number(node + 6, 2) + len + 1) & ~(uint64_t)1;
    }
    return used <= w->page - upper ? true : fail(w, "nodes of a page overlap");
}

/* Checks a whole tree against its record. Adds the number of entries to *out_entries, unless NULL. */
static bool check_tree(struct walk *w, const uint8_t *record, enum role role, uint64_t *out_entries)
{
    struct table said = read_table(record), seen = {0};
    if (out_entries)
        *out_entries += said.entries;
    if (said.root == NO_PAGE)
        return said.depth == 0 && said.entries == 0 ? true : fail(w, "a table lost its root");
    if (said.depth == 0 || said.depth > DEPTH_MAX)
        return fail(w, "a table's depth is wrong");
    if (!check_page(w, said.root, said.depth, role, &seen))
        return false;
    return seen.branches == said.branches && seen.leaves == said.leaves &&
                   seen.overflows == said.overflows && seen.entries == said.entries
               ? true
               : fail(w, "a table does not have as many pages or entries as it says");
}

/* Returns the newer meta page; NULL if one of the two is damaged. */
static const uint8_t *newest_meta(const uint8_t *file, uint64_t page)
{
    const uint8_t *newest = NULL;
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *p = file + i * page;
        if (number(p + 16, 4) != META_MAGIC || number(p + 20, 4) != 1 || number(p + 40, 4) != page)
            return NULL; /* LMDB reads both, so both must be sound */
        if (!newest || number(p + 144, 8) > number(newest + 144, 8))
            newest = p;
    }
    return newest;
}

const char *lmdb_check(const uint8_t *file, uint64_t size)
{
    uint64_t page = size < 2 * PAGE_MIN ? 0 : number(file + 40, 4);
    bool possible = page >= PAGE_MIN && page <= PAGE_MAX && (page & (page - 1)) == 0;
    struct walk w = {.file = file, .page = page, .n_whole = possible ? size / page : 0};
    const uint8_t *meta = w.n_whole < 2 ? NULL : newest_meta(file, page);
    if (!meta)
        return "a meta page is damaged";
    w.n_pages = number(meta + 136, 8) + 1;
    /* The file may lack pages at its end: those that were freed before they were ever written. */
    if (w.n_pages < 2 || w.n_pages > 2 * w.n_whole + (1u << 16))
        return "it is far shorter than it says";
    w.used = calloc(1, (size_t)(w.n_pages / 8 + 1));
    if (!w.used)
        return NULL; /* no memory: no fault of the file */
    if (check_tree(&w, meta + 40, FREE_LIST, NULL))
        check_tree(&w, meta + 88, MAIN, NULL);
    free(w.used);
    return w.fault;
}

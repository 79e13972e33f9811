/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - doubly linked lists of structs that have `prev` and `next`. A list is a pointer to its first
 * item, or NULL. `item` is evaluated several times.
 *
 *     head ─▶ first ⇄ second ⇄ last ─▶ NULL
 *
 * Thread: that of the list's owner. Memory: a list owns nothing.
 */
#ifndef WARM_KEYGEN_LIST_H
#define WARM_KEYGEN_LIST_H

#include <assert.h>
#include <stddef.h>

/* Adds an item in front. */
#define LIST_ADD(head, item)                                                                       \
    do {                                                                                           \
        (item)->prev = NULL;                                                                       \
        (item)->next = (head);                                                                     \
        if (head)                                                                                  \
            (head)->prev = (item);                                                                 \
        (head) = (item);                                                                           \
    } while (0)

/* Removes an item, which must be in this list. */
#define LIST_REMOVE(head, item)                                                                    \
    do {                                                                                           \
        assert((item)->prev || (head) == (item));                                                  \
        if ((item)->next)                                                                          \
            (item)->next->prev = (item)->prev;                                                     \
        *((item)->prev ? &(item)->prev->next : &(head)) = (item)->next;                            \
        (item)->prev = (item)->next = NULL;                                                        \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h - one piece of work on its way between the threads of a store, and lists of them.
 *
 *     loop ──store_queue──▶ [copier ──▶] writer ──store_finish──▶ loop: the callback, task_free
 *
 * Thread: a task belongs to the thread that took it from a list; a list to the lock of its owner.
 * Memory: task_new gives, task_free frees; a list frees nothing.
 */
#ifndef WARM_STORE_TASK_H
#define WARM_STORE_TASK_H

#include "store/blob.h"
#include "store/store.h"
#include "store/touch.h"

enum task_type {
    TASK_PUT,
    TASK_META,    /* store_meta_put */
    TASK_REMOVE,  /* ids */
    TASK_PIN,     /* ids */
    TASK_MARK,    /* ids */
    TASK_EVICT,   /* filter; evict_plan.c takes it step by step */
    TASK_CHECK,   /* copier: hash a blob; becomes DAMAGED if it is */
    TASK_DAMAGED, /* writer: look again, quarantine */
    TASK_REFUSED, /* writer: quarantine it if it is still the same value */
    TASK_TOUCH,   /* write a table of hits */
    TASK_VERIFY,  /* the report of a verify thread, or its progress */
};

/* One piece of work and its result. The views in it point into `bytes`. */
struct task {
    struct task *next;
    enum task_type type;
    uint64_t serial;    /* order in the copier's lanes */
    uint64_t queued_ms; /* monotonic */
    int status;
    struct err err;

    struct store_row
        row;         /* PUT; for CHECK, DAMAGED and REFUSED the row that was read, without texts */
    void *data;      /* PUT, META: the value; owned */
    size_t reserved; /* of queued_bytes */
    int fd;          /* PUT: or where to read it; owned */
    bool keep_existing, existed;
    struct draft draft;
    struct hashing *hashing; /* of a large value, between two slices; owned */
    bool expects;            /* its digest must be `expected` */
    struct key expected;
    bool hashed;              /* row.check is the value's */
    struct key *out_check;    /* PUT: where the caller wants it; may be NULL */
    bool appended;            /* the trailer is in a blob that was there before */
    bool state_known;         /* the file's bytes were verified in `state` */
    struct blob_state state;  /* DAMAGED: the state in which they were wrong */
    struct blob_state before; /* appended: bytes that were right in `before` are right in `state` */
    void (*on_done)(void *arg, int status, bool existed, const struct err *e);

    struct {                            /* those with ids, TOUCH: a piece of it in each change */
        struct store_id *ids;           /* owned */
        size_t n_ids, next_id, mark_id; /* mark: where the present change began */
        bool pinned;
        uint32_t off, on;               /* MARK */
        size_t n_refused, mark_refused; /* PIN: those above the user's share of pins */
        struct touches *touches;        /* TOUCH; the store's */
    } many;
    struct { /* EVICT */
        struct store_filter filter;
        uint64_t to_bytes;
        bool dry_run;
    } evict;
    struct { /* VERIFY */
        struct store *store;
        uint64_t sample; /* entries; 0: all */
        void (*on_progress)(void *arg, uint64_t done, uint64_t total);
        uint64_t done, total;
    } verify;

    struct store_report report, mark_report;
    store_report_cb on_report;
    void (*on_prepared)(void *arg, int status); /* CHECK, of store_prepare */
    void *arg;
    uint8_t bytes[];
};

struct task_list {
    struct task *first, **last;
    size_t n;
};
/* Makes a list empty. A list that is moved must be made anew: it points at itself. */
void task_list_init(struct task_list *l);
/* Adds a task at the end. */
void task_list_add(struct task_list *l, struct task *t);
/* Adds a task in front. */
void task_list_push(struct task_list *l, struct task *t);
/* Removes the first task; NULL if there is none. */
struct task *task_list_take(struct task_list *l);

/* Makes a task with `n_bytes` of room in t->bytes. NULL without memory. */
struct task *task_new(enum task_type type, size_t n_bytes);
/* Makes a task that checks an entry that looks damaged, and quarantines it; `state` may be NULL. NULL without memory:
 * the next hit finds it again. */
struct task *task_damaged(const struct store_row *row, int status, const struct blob_state *state);
/* Frees a task, its descriptors, and its draft in tmp/. */
void task_free(struct store *s, struct task *t);

#endif

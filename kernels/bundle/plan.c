/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - decides where each tensor of a function is. It walks over the launches once: before a launch its
 * result gets a room in the arena; behind it the rooms of tensors that no later launch reads are free.
 * Sizes are rounded up to eight steps for each power of two, and a free room serves the next tensor of its
 * size: so planning is linear, and rounding costs at most an eighth. `warm compile` calls it.
 *
 * Thread: any; no state.
 */
#include <stdlib.h>

#include "keygen/expect.h"

#include "kernels/bundle/graph_bundle.h"

#define STEPS 8u
#define CLASSES (64u * STEPS)
#define NEVER UINT32_MAX

_Static_assert(PROGRAM_DEPTH_MAX <= GRAPH_LOOPS_OPEN_MAX, "program_flatten refuses deeper loops");

struct room {
    uint64_t at;
    uint32_t below; /* the free room of the same size below it, + 1; 0: none */
};

struct plan {
    const struct program *p;
    struct graph_bundle *out;
    uint32_t *buffers;      /* by value: its buffer + 1, or 0 */
    uint32_t *first;        /* by value: the first launch that names it */
    uint32_t *last;         /* by value: the last launch that needs it, or NEVER for results */
    uint32_t free[CLASSES]; /* rooms + 1 */
    VECTOR(struct room) rooms;
    bool failed;
};

uint64_t graph_tensor_bytes(const struct tensor *t)
{
    return (uint64_t)t->n * program_elem_size(t->elem);
}

/* Rounds bytes up to a size of rooms. Returns the size's number. */
static uint32_t class_of(uint64_t *bytes)
{
    uint64_t units = (*bytes + GRAPH_BUNDLE_ALIGN - 1) / GRAPH_BUNDLE_ALIGN;
    uint32_t shift = 0;
    units += units == 0;
    while ((units + ((uint64_t)1 << shift) - 1) >> shift >= 2 * STEPS)
        shift++;
    units = (units + ((uint64_t)1 << shift) - 1) >> shift;
    *bytes = (units << shift) * GRAPH_BUNDLE_ALIGN;
    return shift * STEPS + (uint32_t)units;
}

static void add_buffer(struct plan *plan, uint32_t value, enum graph_place place, uint64_t at)
{
    plan->failed |= !WARM_EXPECT(!plan->buffers[value]); /* a value has one buffer */
    struct graph_buffer b = {.place = place, .at = at, .type = *program_tensor(plan->p, value)};
    PUSH(plan->out, plan->out->buffers, b);
    plan->buffers[value] = plan->out->buffers.n;
}

static void add_arena(struct plan *plan, uint32_t value)
{
    uint64_t bytes = graph_tensor_bytes(program_tensor(plan->p, value)), at = plan->out->arena;
    uint32_t *top = &plan->free[class_of(&bytes)];
    if (*top) {
        at = plan->rooms.at[*top - 1].at;
        *top = plan->rooms.at[*top - 1].below;
    } else {
        plan->out->arena += bytes;
    }
    add_buffer(plan, value, PLACE_ARENA, at);
}

/* Frees the room of a value whose last reader is launch `now`. */
static void release(struct plan *plan, uint32_t value, uint32_t now)
{
    const struct graph_buffer *b = &plan->out->buffers.at[plan->buffers[value] - 1];
    if (plan->last[value] != now || b->place != PLACE_ARENA)
        return;
    uint64_t bytes = graph_tensor_bytes(&b->type);
    uint32_t *top = &plan->free[class_of(&bytes)];
    plan->last[value] = NEVER; /* the launch may name it twice */
    PUSH(plan, plan->rooms, (struct room){b->at, *top});
    *top = plan->rooms.n;
}

/* Finds when values are needed. What a loop reads and did not write itself is needed until its last trip ends. */
static void find_last(struct plan *plan, const struct codegen *code)
{
    uint32_t open[GRAPH_LOOPS_OPEN_MAX], depth = 0, next = 0;
    for (uint32_t i = 0; i < code->launches.n; i++) {
        const struct launch *l = &code->launches.at[i];
        while (depth && code->loops.at[open[depth - 1]].end == i)
            depth--;
        for (; next < code->loops.n && code->loops.at[next].first == i; next++) {
            plan->failed |= !WARM_EXPECT(depth < GRAPH_LOOPS_OPEN_MAX); /* PROGRAM_DEPTH_MAX */
            if (plan->failed)
                return;
            open[depth++] = next;
        }
        for (uint32_t k = 0; k < l->n_args; k++) {
            uint32_t value = code->args.at[l->args + k], last = i;
            if (plan->first[value] == NEVER)
                plan->first[value] =
                    k < l->n_args - l->n_writes ? 0 : i; /* made before all launches */
            for (uint32_t d = depth; d-- > 0;)
                if (plan->first[value] < code->loops.at[open[d]].first)
                    last = code->loops.at[open[d]].end - 1;
            plan->last[value] = last > plan->last[value] ? last : plan->last[value];
        }
    }
}

static void plan_launches(struct plan *plan, const struct codegen *code)
{
    struct graph_bundle *out = plan->out;
    for (uint32_t i = 0; i < code->launches.n && !plan->failed && !out->failed; i++) {
        const struct launch *l = &code->launches.at[i];
        const uint32_t *args = code->args.at + l->args;
        plan->failed |=
            !WARM_EXPECT(l->n_writes && l->n_writes <= l->n_args && l->kernel < code->n_kernels);
        if (out->arena > GRAPH_BUNDLE_ARENA_MAX)
            return;
        PUSH(out, out->launches,
             (struct graph_launch){l->kernel, l->blocks, l->threads, out->operands.n, l->n_args,
                                   l->n_writes});
        for (uint32_t k = 0; k < l->n_args; k++) {
            if (!plan->buffers[args[k]]) /* the launch makes it; or it has no elements */
                add_arena(plan, args[k]);
            PUSH(out, out->operands, plan->buffers[args[k]] - 1);
        }
        for (uint32_t k = 0; k < l->n_args && !out->failed; k++)
            release(plan, args[k], i);
    }
}

/* Returns the buffer of a loop's condition. */
static uint32_t condition_buffer(struct plan *plan, uint32_t value)
{
    if (value == PROGRAM_NONE)
        return GRAPH_NONE;
    plan->failed |= !WARM_EXPECT(plan->buffers[value]); /* a launch writes it */
    return plan->buffers[value] - 1;
}

static void plan_all(struct plan *plan, const struct block *b, const struct codegen *code)
{
    const struct program *p = plan->p;
    struct graph_bundle *out = plan->out;
    for (uint32_t i = 0; i < b->n_args; i++)
        add_buffer(plan, b->args + i, PLACE_ARGUMENT, i);
    for (uint32_t i = 0; i < p->values.n; i++)
        plan->first[i] = NEVER;
    find_last(plan, code);
    for (uint32_t i = 0; i < b->n_results; i++)
        plan->last[code->places[p->operands.at[b->results + i]]] = NEVER;
    for (uint32_t i = 0; i < p->ops.n; i++) { /* of loops, too */
        const struct operation *op = &p->ops.at[i];
        if (op->op == OP_CONSTANT && !p->ints.at[op->ints + 1] &&
            (plan->last[op->results] || plan->first[op->results] != NEVER)) {
            static const uint8_t zeros[GRAPH_BUNDLE_ALIGN];
            struct writer *w = &plan->out->constants;
            uint64_t at = w->len;
            writer_bytes(w, plan->p->data.at + plan->p->ints.at[op->ints],
                         graph_tensor_bytes(program_tensor(plan->p, op->results)));
            writer_bytes(w, zeros,
                         (GRAPH_BUNDLE_ALIGN - w->len % GRAPH_BUNDLE_ALIGN) % GRAPH_BUNDLE_ALIGN);
            add_buffer(plan, op->results, PLACE_CONSTANT, at);
        }
    }
    plan_launches(plan, code);
    out->n_forward = code->n_forward;
    for (uint32_t i = 0; i < code->loops.n && !out->failed; i++)
        PUSH(out, out->loops,
             (struct graph_loop){code->loops.at[i].first, code->loops.at[i].end,
                                 code->loops.at[i].trips,
                                 condition_buffer(plan, code->loops.at[i].condition)});
    for (uint32_t i = 0; i < b->n_results && !out->failed; i++) {
        uint32_t value = code->places[p->operands.at[b->results + i]];
        if (!plan->buffers[value])
            add_arena(plan, value);
        PUSH(out, out->results, plan->buffers[value] - 1);
    }
    for (uint32_t i = 0; i < code->n_kernels; i++)
        PUSH(out, out->kernels, (struct graph_kernel){{NULL, 0}, {NULL, 0}});
}

int graph_bundle_plan(const struct codegen *code, struct graph_bundle *out, struct err *e)
{
    const struct program *p = code->p;
    const struct block *b = &p->blocks.at[p->functions.at[0].block];
    size_t n = (size_t)p->values.n + 1;
    struct plan plan = {.p = p,
                        .out = out,
                        .buffers = calloc(n, sizeof *plan.buffers),
                        .first = calloc(n, sizeof *plan.first),
                        .last = calloc(n, sizeof *plan.last)};
    *out = (struct graph_bundle){.n_arguments = b->n_args};
    writer_init(&out->constants, 0);
    plan.failed = !plan.buffers || !plan.first || !plan.last;
    if (!plan.failed)
        plan_all(&plan, b, code);
    free(plan.buffers);
    free(plan.first);
    free(plan.last);
    free(plan.rooms.at);
    if (plan.failed || out->failed || out->constants.failed)
        return err_set(e, WARM_ENOMEM, "a plan");
    if (out->arena > GRAPH_BUNDLE_ARENA_MAX)
        return err_set(e, WARM_ETOO_BIG, "the tensors need more than 2^50 bytes");
    return 0;
}

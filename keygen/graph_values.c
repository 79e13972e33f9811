/* SPDX-License-Identifier: Apache-2.0 */
/* graph_values.c - see graph_values.h. No state of its own. */
#include "keygen/graph_values.h"

#include <stdlib.h>

#define NODES_FREE                                                                                 \
    (128u * 1024) /* to be gone through, calls opened, beside twice as many as there are */
#define SETTLES_MAX 16
#define SMALL_CONSTANT 256 /* bytes of its text: it may be what something else comes out as */
#define CLASS_CONSTANT 0   /* of what is computed from constants alone */

/* By the name as StableHLO or HLO has it. What is not here may give anything (power: 1). */
static const struct role_name {
    char name[24];
    enum role role;
} roles[] = {
    /* sorted */
    {"abs", MAPS},
    {"add", ADDS},
    {"and", MAPS},
    {"atan2", PAIRS},
    {"bitcast", MOVES},
    {"broadcast", MOVES},
    {"broadcast_in_dim", MOVES},
    {"case", BRANCH},
    {"cbrt", MAPS},
    {"ceil", MAPS},
    {"clamp", MAPS},
    {"compare", COMPARE},
    {"composite", OPENED},
    {"conditional", OPENED},
    {"convert", COPIES},
    {"convolution", CONVOLUTION},
    {"copy", COPIES},
    {"cosine", MAPS},
    {"divide", SCALES},
    {"dot", PRODUCT},
    {"dot_general", PRODUCT},
    {"dynamic-slice", TAKES},
    {"dynamic-update-slice", PUTS},
    {"dynamic_conv", CONVOLUTION},
    {"dynamic_slice", TAKES},
    {"dynamic_update_slice", PUTS},
    {"einsum", PRODUCT},
    {"erf", MAPS},
    {"exponential", MAPS},
    {"exponential-minus-one", MAPS},
    {"exponential_minus_one", MAPS},
    {"floor", MAPS},
    {"fusion", OPENED},
    {"gather", TAKES},
    {"if", BRANCH},
    {"log", MAPS},
    {"log-plus-one", MAPS},
    {"log_plus_one", MAPS},
    {"logistic", MAPS},
    {"maximum", PAIRS},
    {"minimum", PAIRS},
    {"multiply", SCALES},
    {"negate", MAPS},
    {"not", MAPS},
    {"optimization_barrier", BARRIER},
    {"or", MAPS},
    {"ragged-dot", PRODUCT},
    {"ragged_dot", PRODUCT},
    {"reduce", REDUCES},
    {"reduce-precision", MAPS},
    {"reduce_precision", MAPS},
    {"reshape", MOVES},
    {"reverse", MOVES},
    {"rsqrt", MAPS},
    {"scaled-dot", PRODUCT},
    {"select", SELECT},
    {"sign", MAPS},
    {"sine", MAPS},
    {"slice", MOVES},
    {"sqrt", MAPS},
    {"subtract", ADDS},
    {"tanh", MAPS},
    {"transpose", MOVES},
    {"tuple", TUPLE},
    {"while", LOOP},
};

/* ---- classes ---- */

uint32_t values_class(const struct values *v, uint32_t class)
{
    struct value_class *c = v->classes.at;
    while (c[class].is != class)
        class = c[class].is = c[c[class].is].is; /* the next who asks has a short way */
    return class;
}

/* How a class is made of others; or it is found by a hash. */
enum { OF_ALL, OF_PRODUCT, OF_COMPARE, OF_HASH };

/* What a class is made of, as far as that is known by now: a hash of it; if it is only one, that, or NONE; and
 * where the newest of them is. */
struct made {
    uint64_t hash;
    uint32_t one, near;
};

static struct made made_of(const struct values *v, uint32_t made)
{
    const uint32_t *of = v->made.at + made + 1;
    uint32_t n_of = v->made.at[made] >> 2, how = v->made.at[made] & 3, last = NONE, n = 0;
    struct made m = {.one = NONE};
    if (how == OF_HASH) {
        memcpy(&m.hash, of, sizeof m.hash);
        m.near = (uint32_t)m.hash;
        return m;
    }
    for (; n_of--; of++) {
        uint32_t class = values_class(v, *of);
        if (class == last)
            continue;
        last = class;
        m.hash += mix(mix(class, 2), 1);
        m.near = class > m.near ? class : m.near;
        n++;
    }
    if (how == OF_ALL && n == 1)
        m.one = last;
    m.hash = mix(m.hash, how == OF_PRODUCT ? n == 1 : how);
    return m;
}

/* The class that is made of the same; or none, 0, and *p is where it would be. */
static uint32_t class_find(const struct values *v, const struct made *m, struct probe *p)
{
    uint32_t id;
    *p = finder_probe(&v->by_made, m->hash, m->near);
    while ((id = finder_next(&v->by_made, p)) && made_of(v, v->classes.at[id].made).hash != m->hash)
        ;
    return id;
}

static bool classes_room(struct values *v)
{
    uint32_t n = v->by_made.n;
    v->failed |= !finder_room(&v->by_made, 1);
    for (uint32_t id = 0; id < v->classes.n && v->by_made.n != n && !v->failed; id++) {
        if (!v->classes.at[id].made)
            continue;
        struct made m = made_of(v, v->classes.at[id].made);
        finder_add(&v->by_made, m.hash, m.near, id);
    }
    return !v->failed;
}

/* One more class; `made`: what it is made of. */
static uint32_t class_add(struct values *v, uint32_t made)
{
    uint32_t id = v->classes.n;
    v->unknown |= id > FINDER_MAX;
    if (!v->unknown)
        PUSH(v, v->classes, (struct value_class){.is = id, .made = made});
    return v->failed || v->unknown ? CLASS_CONSTANT : id;
}

/* The class that is made of what values.made says from `made` on; that is taken back if it says nothing new. */
static uint32_t class_made(struct values *v, uint32_t made)
{
    if (v->failed || !classes_room(v))
        return CLASS_CONSTANT;
    struct made m = made_of(v, made);
    struct probe p;
    uint32_t class = m.one == NONE ? class_find(v, &m, &p) : m.one;
    if (class || m.one != NONE) {
        v->made.n = made;
        return class;
    }
    class = class_add(v, made);
    if (class)
        finder_put(&v->by_made, &p, class);
    return class;
}

/* The class of a hash. */
static uint32_t class_of(struct values *v, uint64_t hash)
{
    uint32_t made = v->made.n;
    PUSH(v, v->made, 2u << 2 | OF_HASH);
    PUSH(v, v->made, (uint32_t)hash);
    PUSH(v, v->made, (uint32_t)(hash >> 32));
    return class_made(v, made);
}

static void classes_join(struct values *v, uint32_t a, uint32_t b)
{
    a = values_class(v, a);
    b = values_class(v, b);
    v->classes.at[a < b ? b : a].is = a < b ? a : b;
    v->n_joined += a != b;
}

/* Once all is gone through: what is made of the same classes is one class, also where that came out later. */
static void classes_settle(struct values *v)
{
    uint32_t n_joined = 0, turns = 0;
    if (!v->by_made.slots) /* none is made of others */
        return;
    while (v->n_joined != n_joined && turns++ < SETTLES_MAX) {
        n_joined = v->n_joined;
        finder_clear(&v->by_made);
        for (uint32_t id = 0; id < v->classes.n; id++) {
            struct probe p;
            if (!v->classes.at[id].made)
                continue;
            struct made m = made_of(v, v->classes.at[id].made);
            uint32_t one = m.one == NONE ? class_find(v, &m, &p) : m.one;
            if (one || m.one != NONE)
                classes_join(v, id, one);
            else
                finder_put(&v->by_made, &p, id);
        }
    }
    v->unknown |= v->n_joined != n_joined;
}

/* ---- what operations say ---- */

static int role_compare(const void *key, const void *item)
{
    const struct view *name = key;
    const struct role_name *r = item;
    int way = memcmp(name->data, r->name, name->len < sizeof r->name ? name->len : sizeof r->name);
    return way ? way : (name->len > strlen(r->name)) - (name->len < strlen(r->name));
}

enum role values_role(const struct graph *g, uint32_t opname)
{
    const struct text *name = &g->names.items.at[opname];
    const char *dot = memrchr(name->data, '.', name->len), *at = dot ? dot + 1 : name->data;
    struct view last = {.data = at, .len = (size_t)(name->data + name->len - at)};
    const struct role_name *r =
        bsearch(&last, roles, sizeof roles / sizeof *roles, sizeof *roles, role_compare);
    return r ? r->role : OTHER;
}

/* Which elements a type has: its text without their type. */
static struct view type_dims(const struct graph *g, uint32_t type)
{
    struct view t = graph_type_text(g, type);
    const char *text = t.data, *at = memchr(text, '[', t.len);
    if (at)
        return (struct view){.data = at, .len = (size_t)(text + t.len - at)};
    while (t.len && text[t.len - 1] != 'x')
        t.len--;
    return t;
}

/* What counts of a type here. */
static struct type_kind type_kind(const struct graph *g, uint32_t type)
{
    struct view t = graph_type_text(g, type), dims = type_dims(g, type);
    const char *text = t.data, *of = dims.data;
    struct type_kind kind = {.dims = 1};
    for (size_t i = 0; i < dims.len; i++)
        kind.dims = mix(kind.dims, (unsigned char)of[i]);
    const char *at = memchr(text, '[', t.len) ? text : text + dims.len;
    if (!dims.len) {
        kind.dims = 0;
        at = memchr(text, '<', t.len);
        if (at)
            at++;
    }
    kind.real = at && at + 1 < text + t.len && (*at == 'f' || (at[0] == 'b' && at[1] == 'f'));
    return kind;
}

static bool same_dims(const struct values *v, uint32_t a, uint32_t b)
{
    return v->types[a].dims && v->types[a].dims == v->types[b].dims;
}

/* The function that an operation calls, or NULL. */
static const struct func *callee_of(const struct graph *g, const struct shape *s)
{
    const struct func *f = s->traits & GRAPH_CALL ? graph_func_of(g, s->callee) : NULL;
    return f && f->defined ? f : NULL;
}

/* ---- loops ---- */

/* What a constant of at most 64 bits is in memory. False if it is none. */
static bool bits_of(const struct graph *g, const struct shape *s, uint64_t *out, unsigned *bits)
{
    const struct dict *d = &g->dicts.at[s->dict];
    const char *at = memmem(d->text, d->len, "dense<", 6), *end = d->text + d->len;
    *out = *bits = 0;
    for (at = at ? at + 6 : end; at + 1 < end && at[0] != '>'; at += 2, *bits += 8) {
        unsigned byte = 0;
        for (int i = 0; i < 2; i++)
            byte = byte << 4 | (unsigned)(at[i] <= '9' ? at[i] - '0' : at[i] - 'A' + 10);
        if (byte > 255 || *bits >= 64)
            return false;
        *out |= (uint64_t)byte << *bits;
    }
    return *bits && at < end;
}

/* A whole number that is written, of at most 31 bits; or -1. */
static int64_t number_of(const struct graph *g, uint32_t value)
{
    const struct node *o = &g->nodes.at[value];
    uint64_t n;
    unsigned bits;
    if (!node_is_op(o) || ~op_shape(g, o)->traits & GRAPH_CONSTANT ||
        !bits_of(g, op_shape(g, o), &n, &bits))
        return -1;
    return n < (uint64_t)1 << 31 && n < (uint64_t)1 << (bits - 1) ? (int64_t)n : -1;
}

/* The first block of a region, or NULL. */
static const struct block *region_block(const struct graph *g, uint32_t region)
{
    uint32_t b = region == NONE ? NONE : g->regions.at[region].block;
    return b == NONE ? NULL : &g->blocks.at[b];
}

/* The i-th of the values that a block ends with, of `n`; or NONE. */
static uint32_t block_gives(const struct graph *g, const struct block *b, uint32_t i, uint32_t n)
{
    if (!b || b->last == NONE || b->next != NONE)
        return NONE;
    const struct node *ret = &g->nodes.at[b->last];
    const struct shape *s = op_shape(g, ret);
    return s->n_operands == n ? op_operands(g, ret, s)[i] : NONE;
}

/* The block of a loop's second region, of as many values; or NULL. */
static const struct block *loop_body(const struct graph *g, const struct node *o,
                                     const struct shape *s)
{
    uint32_t first = op_region(g, o), second = first == NONE ? NONE : g->regions.at[first].next;
    const struct block *condition = region_block(g, first), *b = region_block(g, second);
    bool fits = condition && b && s->n_operands == s->n_results && b->n_args == s->n_operands &&
                condition->n_args == s->n_operands;
    return fits ? b : NULL;
}

/* Is the i-th value of a loop one that no turn changes? */
static bool loop_keeps(const struct graph *g, const struct block *body, uint32_t i)
{
    return block_gives(g, body, i, body->n_args) == body->args + i;
}

/* What an argument of a loop's condition is at first, a number; else a number that is written. */
static int64_t loop_number(const struct graph *g, const struct block *condition,
                           const uint32_t *operands, uint32_t value)
{
    if (value - condition->args < condition->n_args)
        value = operands[value - condition->args];
    return number_of(g, value);
}

/* Whether a loop surely turns twice: it counts up to a number, both written. */
static bool loop_turns(const struct graph *g, const struct node *o, const struct shape *s)
{
    const struct block *body = loop_body(g, o, s);
    if (!body)
        return false;
    const struct block *condition = region_block(g, op_region(g, o));
    const uint32_t *operands = op_operands(g, o, s);
    uint32_t test = block_gives(g, condition, 0, 1);
    if (test == NONE || !node_is_op(&g->nodes.at[test]))
        return false;
    const struct shape *compare = op_shape(g, &g->nodes.at[test]);
    const struct dict *d = &g->dicts.at[compare->dict];
    if (compare->n_operands != 2 || !memmem(d->text, d->len, "comparison_direction LT", 23))
        return false;
    const uint32_t *sides = op_operands(g, &g->nodes.at[test], compare);
    uint32_t i = sides[0] - condition->args, end = sides[1] - condition->args;
    if (i >= condition->n_args || (end < condition->n_args && !loop_keeps(g, body, end)))
        return false;
    uint32_t next = block_gives(g, body, i, body->n_args);
    if (next == NONE || !node_is_op(&g->nodes.at[next]))
        return false;
    const struct shape *add = op_shape(g, &g->nodes.at[next]);
    const uint32_t *terms = op_operands(g, &g->nodes.at[next], add);
    if (add->n_operands != 2 || ~add->traits & GRAPH_SUM || ~add->traits & GRAPH_COMMUTES)
        return false;
    int64_t from = number_of(g, operands[i]), to = loop_number(g, condition, operands, sides[1]),
            by = number_of(g, terms[terms[0] == body->args + i]);
    return (terms[0] == body->args + i || terms[1] == body->args + i) && from >= 0 && by > 0 &&
           from + by < to;
}

/* ---- values ---- */

uint32_t values_loop(const struct values *v, uint32_t id)
{
    for (const struct around *a; (a = &v->around[node_block(&v->g->nodes.at[id])])->op != NONE;
         id = a->op)
        if (a->turns)
            return a->loop;
    return v->calls.at[v->calls.n - 1].loop;
}

static struct value value_new(uint64_t hash, uint32_t loop, unsigned sure, uint32_t class)
{
    return (struct value){.exact = hash >> (64 - EXACT_BITS),
                          .loop = loop,
                          .sure = sure,
                          .value = hash >> (64 - VALUE_BITS),
                          .class = class};
}

/* A hash that no other value has. */
static uint64_t hash_own(const struct values *v, uint32_t id)
{
    return mix(mix(v->calls.at[v->calls.n - 1].number, UINT64_C(1) << 32), id);
}

/* The number of the loop whose block this is, which begins with its first argument. */
static uint32_t loop_begin(struct values *v, uint32_t block, uint32_t argument)
{
    struct around *a = &v->around[block];
    if (argument == v->g->blocks.at[block].args) {
        PUSH(v, v->loops, values_loop(v, a->op));
        v->unknown |= (v->loops.n >> LOOP_BITS) != 0;
        a->loop = v->loops.n - 1;
    }
    return a->loop;
}

/* An argument of an operation's region; of the public function. */
static struct value argument_is(struct values *v, uint32_t id)
{
    const struct graph *g = v->g;
    const struct node *n = &g->nodes.at[id];
    const struct around *around = &v->around[node_block(n)];
    const struct node *o = around->op == NONE ? NULL : &g->nodes.at[around->op];
    const struct shape *s = o ? op_shape(g, o) : NULL;
    uint64_t hash = hash_own(v, id);
    uint32_t i = value_index(g, id), loop = o ? values_loop(v, around->op) : 0;
    unsigned sure = n->where & NODE_VARIES ? SURE : 0;
    if (!s || i >= s->n_operands)
        return value_new(hash, loop, sure, class_add(v, 0));
    const struct block *body = v->role[s->name] == LOOP ? loop_body(g, o, s) : NULL;
    struct value first = value_at(v, op_operands(g, o, s)[i]);
    if (around->turns)
        loop = loop_begin(v, node_block(n), id);
    if (body && block_gives(g, body, i, body->n_args) == body->args + i)
        return first;
    if (!around->turns)
        return value_new(hash, loop, sure, first.class);
    struct value made = value_new(hash, loop, first.sure & VARIES ? SURE : 0, class_add(v, 0));
    hash = mix(hash_own(v, around->op), first.exact); /* as all that begin as it does */
    made.exact = hash >> (64 - EXACT_BITS);
    return made;
}

static void loop_give(struct values *v, uint32_t id, const struct shape *s)
{
    const struct graph *g = v->g;
    const struct node *o = &g->nodes.at[id];
    const struct block *body = loop_body(g, o, s);
    if (!body) {
        v->unknown = true;
        return;
    }
    const struct around *around = &v->around[body - g->blocks.at];
    for (uint32_t i = 0; i < s->n_results; i++) {
        struct value first = value_at(v, op_operands(g, o, s)[i]);
        uint32_t last = block_gives(g, body, i, body->n_args);
        bool here = around->op == id && last != NONE;
        if (here && loop_keeps(g, body, i)) {
            value_set(v, id + i, first);
            continue;
        }
        struct value given = {.exact = i};
        if (here)
            given = value_at(v, last);
        uint64_t hash = mix(mix(hash_own(v, id), given.exact), first.exact);
        unsigned sure = around->turns && given.sure & VARIES ? SURE : 0;
        struct value out = value_new(hash, values_loop(v, id), sure, class_of(v, hash));
        value_set(v, id + i, out);
        if (around->turns && here) { /* what begins as one and goes on as one is one */
            classes_join(v, value_at(v, body->args + i).class, class_of(v, mix(hash, 1)));
            continue;
        }
        classes_join(v, out.class, first.class);
        classes_join(v, first.class, here ? given.class : value_at(v, id).class);
    }
}

/* What comes out of an operation's regions may be any of its results. */
static void regions_join(struct values *v, uint32_t id, uint32_t i, uint32_t class)
{
    const struct graph *g = v->g;
    const struct node *o = &g->nodes.at[id];
    for (uint32_t r = op_region(g, o); r != NONE; r = g->regions.at[r].next) {
        const struct block *b = region_block(g, r);
        uint32_t given = block_gives(g, b, i, op_shape(g, o)->n_results);
        v->unknown |= !b || b->next != NONE;
        if (given != NONE && v->around[b - g->blocks.at].op == id) /* else: nothing from here */
            classes_join(v, class, value_at(v, given).class);
    }
}

/* A branch gives what one of its regions does. */
static void branch_give(struct values *v, uint32_t id, const struct shape *s)
{
    for (uint32_t i = 0; i < s->n_results; i++) {
        uint32_t class = class_add(v, 0);
        value_set(v, id + i, value_new(hash_own(v, id + i), values_loop(v, id), 0, class));
        regions_join(v, id, i, class);
    }
}

/* Which of its operands what an operation gives may be: from *first on. */
static uint32_t operands_moved(enum role role, const struct shape *s, uint32_t *first)
{
    uint32_t end = role == TAKES ? 1 : role == PUTS ? 2 : s->n_operands;
    *first = role == SELECT;
    return end < s->n_operands ? end : s->n_operands;
}

/* Are these regions ones that depend on nothing around them? */
static bool is_body(const struct graph *g, uint32_t region)
{
    uint32_t low = 0, high = g->bodies.n;
    while (low < high) { /* they are in the order of the text */
        uint32_t mid = low + (high - low) / 2;
        if (g->bodies.at[mid].from.regions == region)
            return true;
        if (g->bodies.at[mid].from.regions < region)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

/* Does it follow from an operation's operands what it gives? */
static bool is_pure(const struct graph *g, const struct node *o, const struct shape_kind *kind)
{
    return kind->pure && op_class(o) == GRAPH_PURE &&
           (!op_has_regions(g, o) || is_body(g, op_region(g, o)));
}

/* What an operation says, as a hash, its operands left out. */
static uint64_t op_hash(const struct values *v, uint32_t id, const struct shape *s, bool pure)
{
    uint64_t hash = mix(s->hash, s->has_holes ? s->dict : 0);
    if (!pure)
        return mix(hash, hash_own(v, id));
    return shape_has_regions(s) ? mix(hash, op_region(v->g, &v->g->nodes.at[id])) : hash;
}

/* Is this all that the program gives? */
static bool is_end(const struct values *v, uint32_t id)
{
    const struct func *f = v->calls.at[0].f;
    return v->calls.n == 1 && block_gives(v->g, &v->g->blocks.at[f->block], 0, 1) == id;
}

/* How a reduction takes two numbers to one that both go into; OTHER if it does something else. */
static enum role reduces_how(const struct values *v, const struct node *o)
{
    const struct graph *g = v->g;
    const struct block *b = region_block(g, op_region(g, o));
    uint32_t given = b && b->n_args == 2 ? block_gives(g, b, 0, 1) : NONE;
    if (given == NONE || !node_is_op(&g->nodes.at[given]))
        return OTHER;
    const struct shape *s = op_shape(g, &g->nodes.at[given]);
    const uint32_t *operands = op_operands(g, &g->nodes.at[given], s);
    enum role role = v->role[s->name];
    bool both = s->n_operands == 2 && operands[0] - b->args < 2 && operands[1] - b->args < 2 &&
                operands[0] != operands[1] && v->types[s->type].real;
    return both && role >= ADDS && role <= PAIRS ? role : OTHER;
}

/* What a real number that is written surely is not. */
static unsigned constant_sure(const struct graph *g, const struct shape *s)
{
    static const struct {
        const char *type;
        uint64_t one;
    } ones[] = {
        {"bf16>", 0x3F80}, {"f16>", 0x3C00}, {"f32>", 0x3F800000}, {"f64>", UINT64_C(0x3FF) << 52}};
    struct view type = graph_type_text(g, s->type);
    unsigned bits;
    uint64_t number;
    for (size_t i = 0; i < sizeof ones / sizeof *ones && bits_of(g, s, &number, &bits); i++) {
        size_t n = strlen(ones[i].type);
        if (type.len < n || memcmp((const char *)type.data + type.len - n, ones[i].type, n))
            continue;
        if (bits != strtoul(strchr(ones[i].type, 'f') + 1, NULL, 10))
            return 0; /* several numbers */
        number &= ~(UINT64_C(1) << (bits - 1));
        return number == 0             ? NOT_ONE | ONLY_ZERO
               : number == ones[i].one ? NOT_ZERO
                                       : NOT_ZERO | NOT_ONE;
    }
    return 0;
}

/* What operations of a shape do. */
static struct shape_kind shape_kind(const struct values *v, const struct shape *s)
{
    enum role role = v->role[s->name];
    return (struct shape_kind){
        .looked = true,
        .pure = !(s->traits & GRAPH_CALL),
        .real = v->types[s->type].real,
        .varies = (type_sure(v->g, s->type) & NODE_VARIES) != 0,
        .role = (uint8_t)role,
        .needs = role == ADDS     ? NOT_ZERO
                 : role == SCALES ? NOT_ONE
                                  : VARIES,
        .sure = (uint8_t)(s->facts & SHAPE_CONSTANT ? constant_sure(v->g, s) : 0),
    };
}

/* What the result of an operation surely is not; `n_vary`: how many of its operands vary. Of real numbers any
 * that does will do: compilers make no constants of such operations. But of comparisons with constants they do,
 * and then of selections. */
static unsigned op_sure(const struct values *v, uint32_t id, const struct shape *s,
                        const struct shape_kind *kind, uint32_t n_vary)
{
    const struct graph *g = v->g;
    const uint32_t *operands = op_operands(g, &g->nodes.at[id], s);
    struct value of[3] = {{0}};
    if (!kind->varies)
        return 0;
    if (s->facts & SHAPE_CONSTANT)
        return kind->sure;
    for (uint32_t i = 0; i < 3 && i < s->n_operands; i++)
        of[i] = value_at(v, operands[i]);
    unsigned any = n_vary ? SURE : 0,
             all = any && n_vary == s->n_operands && s->sure.if_all & NODE_VARIES ? SURE : 0;
    const unsigned zero = NOT_ONE | ONLY_ZERO;
    switch ((enum role)kind->role) {
    case PRODUCT:
    case CONVOLUTION: return any;
    case COPIES:
        if (s->n_operands && s->type == value_type(g, operands[0]))
            return of[0].sure;
        return n_vary ? SURE : of[0].sure & ONLY_ZERO ? zero : 0;
    case MAPS:
    case ADDS:
    case SCALES:
    case PAIRS:
        if (!kind->real)
            return all;
        if ((kind->role == ADDS && of[0].sure & of[1].sure & ONLY_ZERO) ||
            (kind->role == SCALES && of[0].sure & ONLY_ZERO))
            return any | zero;
        return any;
    case COMPARE: return n_vary == 2 && of[0].value != of[1].value ? SURE : 0;
    case SELECT: return of[0].sure & VARIES && n_vary > 1 ? SURE : of[1].sure & of[2].sure;
    case MOVES:
    case TAKES: return of[0].sure;
    case PUTS: return of[1].sure & VARIES ? SURE : of[0].sure & of[1].sure;
    case REDUCES: {
        enum role how = reduces_how(v, &g->nodes.at[id]);
        if (how == ADDS && of[0].sure & of[1].sure & ONLY_ZERO)
            return zero | (of[0].sure & VARIES ? SURE : 0);
        return how != OTHER && of[0].sure & VARIES ? SURE : 0;
    }
    default: return all;
    }
}

/* Whether what an operation gives is surely none of its operands; `n_safe`: how many leave none over, `n_other`:
 * how many it may be, constants and such as are known to be equal apart. */
static bool op_makes(const struct values *v, uint32_t id, const struct shape *s,
                     const struct shape_kind *kind, uint32_t n_safe, uint32_t n_other)
{
    const struct graph *g = v->g;
    switch ((enum role)kind->role) {
    case PRODUCT:
    case CONVOLUTION: return true;
    case ADDS:
    case SCALES:
    case PAIRS: return n_safe == s->n_operands && n_other > 1 && kind->real;
    case COMPARE:
        return s->n_operands &&
               v->types[value_type(g, op_operands(g, &g->nodes.at[id], s)[0])].real;
    case TUPLE: return is_end(v, id);
    default: return false;
    }
}

/* The class of what an operation makes. */
static uint32_t op_class_made(struct values *v, uint32_t id, const struct shape *s)
{
    const uint32_t *operands = op_operands(v->g, &v->g->nodes.at[id], s);
    enum role role = v->role[s->name];
    uint32_t made = v->made.n, n = 0;
    PUSH(v, v->made, role == COMPARE ? OF_COMPARE : role <= CONVOLUTION ? OF_PRODUCT : OF_ALL);
    for (uint32_t i = 0; i < s->n_operands; i++) {
        struct value from = value_at(v, operands[i]);
        if (role == COMPARE && from.constant)
            continue;
        PUSH(v, v->made, from.class);
        n++;
    }
    if (!v->failed)
        v->made.at[made] |= n << 2;
    return class_made(v, made);
}

/* What an operation gives that is no loop, branch or barrier. */
static void op_give(struct values *v, uint32_t id, const struct shape *s)
{
    const struct graph *g = v->g;
    struct shape_kind *kind = &v->shapes[s - g->shapes.at];
    if (!kind->looked)
        *kind = shape_kind(v, s);
    enum role role = kind->role;
    const uint32_t *operands = op_operands(g, &g->nodes.at[id], s);
    bool pure = is_pure(g, &g->nodes.at[id], kind), constant = pure;
    uint64_t hash = op_hash(v, id, s, pure), other = 0;
    uint32_t first, end = operands_moved(role, s, &first), n_other = 0, n_vary = 0;
    uint32_t n_safe = 0, needs = kind->needs;
    uint32_t loop = pure ? 0 : values_loop(v, id);
    for (uint32_t i = 0; i < s->n_operands; i++) {
        struct value from = value_at(v, operands[i]);
        hash = mix(hash, from.exact);
        constant &= from.constant;
        loop = from.loop > loop ? from.loop : loop;
        n_vary += (from.sure & VARIES) != 0;
        n_safe += (from.sure & needs) == needs;
        if (i < first || i >= end || from.constant || (n_other && from.value == other))
            continue;
        other = from.value;
        n_other++;
    }
    struct value made = value_new(hash, loop, op_sure(v, id, s, kind, n_vary), CLASS_CONSTANT);
    bool makes = op_makes(v, id, s, kind, n_safe, n_other), taken = makes && role != TUPLE;
    made.constant = constant;
    if (taken)
        made.class = op_class_made(v, id, s);
    /* of two of which one may be left out it is the other, or made of both */
    bool left =
        !makes && role >= ADDS && role <= PAIRS && n_other == 2 && n_safe == 1 && kind->real;
    for (uint32_t i = first; i < end && !makes; i++) {
        struct value from = value_at(v, operands[i]);
        if ((from.constant && !constant) || (left && (from.sure & needs) != needs))
            continue;
        if (taken)
            classes_join(v, made.class, from.class);
        else
            made.class = from.class;
        taken = true;
        if (n_other == 1 && s->n_results == 1 && role >= MAPS && role <= SELECT &&
            same_dims(v, s->type, value_type(g, operands[i])))
            made.value = from.value;
    }
    if (left)
        classes_join(v, made.class, op_class_made(v, id, s));
    bool large = !s->n_operands && g->dicts.at[s->dict].len >= SMALL_CONSTANT;
    if (!taken && (!constant || large))
        made.class = class_of(v, hash);
    for (uint32_t i = 0; i < s->n_results; i++) {
        if (s->n_results > 1) {
            made.exact = mix(hash, i) >> (64 - EXACT_BITS);
            made.value = mix(hash, i) >> (64 - VALUE_BITS);
        }
        value_set(v, id + i, made);
        if (shape_has_regions(s))
            regions_join(v, id, i, made.class);
    }
}

static void barrier_give(struct values *v, uint32_t id, const struct shape *s)
{
    for (uint32_t i = 0; i < s->n_results; i++)
        value_set(v, id + i, value_at(v, op_operands(v->g, &v->g->nodes.at[id], s)[i]));
}

static void values_give(struct values *v, uint32_t id, const struct shape *s)
{
    enum role role = v->role[s->name];
    if (role == LOOP && shape_has_regions(s))
        loop_give(v, id, s);
    else if (role == BRANCH)
        branch_give(v, id, s);
    else if (role == BARRIER && s->n_results == s->n_operands)
        barrier_give(v, id, s);
    else
        op_give(v, id, s);
    v->unknown |= role == OPENED || (role == LOOP && !shape_has_regions(s));
}

/* ---- the whole ---- */

/* Begins to go through a function; `call` is where, in the one before it. */
static void activation_push(struct values *v, const struct func *f, uint32_t call)
{
    struct activation a = {.f = f, .at = f->nodes, .call = call};
    if (f->recursive || f->n_nodes > v->room) {
        v->unknown = true;
        return;
    }
    a.loop = v->calls.n ? values_loop(v, call) : 0;
    a.number = ++v->number;
    v->room -= f->n_nodes;
    PUSH(v, v->calls, a);
}

/* An activation's arguments are the operands of its call. */
static void call_begin(struct values *v, const struct func *f, uint32_t id, const struct shape *s)
{
    const struct graph *g = v->g;
    const struct block *b = &g->blocks.at[f->block];
    const uint32_t *operands = op_operands(g, &g->nodes.at[id], s);
    if (s->n_operands != b->n_args || block_gives(g, b, 0, s->n_results) == NONE) {
        v->unknown = true;
        return;
    }
    activation_push(v, f, id);
    for (uint32_t i = 0; i < b->n_args && !v->unknown && !v->failed; i++)
        value_set(v, b->args + i, value_at(v, operands[i]));
}

/* A call gives what its activation ends with. */
static void call_end(struct values *v)
{
    const struct graph *g = v->g;
    struct activation done = v->calls.at[--v->calls.n];
    if (!v->calls.n)
        return;
    uint32_t n = op_shape(g, &g->nodes.at[done.call])->n_results;
    const struct block *b = &g->blocks.at[done.f->block];
    for (uint32_t i = 0; i < n; i++)
        value_set(v, done.call + i, value_at(v, block_gives(g, b, i, n)));
}

static void func_walk(struct values *v, const struct func *f,
                      void (*at_op)(struct values *v, uint32_t id, void *ctx), void *ctx)
{
    const struct graph *g = v->g;
    activation_push(v, f, NONE);
    while (v->calls.n && !v->unknown && !v->failed) {
        struct activation *a = &v->calls.at[v->calls.n - 1];
        if (a->at == a->f->nodes + a->f->n_nodes) {
            call_end(v);
            continue;
        }
        uint32_t id = a->at++;
        const struct node *n = &g->nodes.at[id];
        const struct shape *s = node_is_op(n) ? op_shape(g, n) : NULL;
        const struct func *called = s ? callee_of(g, s) : NULL;
        if (called) {
            call_begin(v, called, id, s);
        } else if (s) {
            if (s->n_results)
                values_give(v, id, s);
            at_op(v, id, ctx);
        } else if (n->shape == NODE_ARG && (node_block(n) != a->f->block || v->calls.n == 1)) {
            value_set(v, id, argument_is(v, id));
        }
    }
    v->calls.n = 0;
}

void values_walk(struct values *v, void (*at_op)(struct values *v, uint32_t id, void *ctx),
                 void *ctx)
{
    const struct graph *g = v->g;
    for (uint32_t i = 0; i < g->funcs.n && !v->unknown && !v->failed; i++)
        if (g->funcs.at[i].is_public && g->funcs.at[i].defined)
            func_walk(v, &g->funcs.at[i], at_op, ctx);
    if (!v->unknown && !v->failed)
        classes_settle(v);
}

/* Finds the operation around each block. */
static void blocks_look(struct values *v)
{
    const struct graph *g = v->g;
    for (uint32_t b = 0; b < g->blocks.n; b++)
        v->around[b].op = NONE;
    for (uint32_t id = 0; id < g->nodes.n; id++) {
        const struct node *o = &g->nodes.at[id];
        if (!node_is_op(o) || !op_has_regions(g, o))
            continue;
        bool turns = v->role[op_shape(g, o)->name] == LOOP && loop_turns(g, o, op_shape(g, o));
        for (uint32_t r = op_region(g, o); r != NONE; r = g->regions.at[r].next)
            for (uint32_t b = g->regions.at[r].block; b != NONE; b = g->blocks.at[b].next)
                if (v->around[b].op == NONE)
                    v->around[b] = (struct around){.op = id, .turns = turns};
    }
}

bool values_begin(struct values *v, struct graph *g)
{
    *v = (struct values){.g = g};
    v->role = vector_zeroes(g->names.items.n, sizeof *v->role);
    v->around = vector_zeroes(g->blocks.n, sizeof *v->around);
    v->types = vector_zeroes(g->types.items.n, sizeof *v->types);
    v->shapes = vector_zeroes(g->shapes.n, sizeof *v->shapes);
    v->known = vector_zeroes(g->nodes.n, sizeof *v->known);
    v->room = (uint64_t)g->nodes.n * 2 + NODES_FREE;
    PUSH(v, v->loops, 0); /* outside of all */
    PUSH(v, v->made, 0);
    PUSH(v, v->classes, (struct value_class){.is = CLASS_CONSTANT});
    if (!v->role || !v->around || !v->types || !v->shapes || !v->known)
        v->failed = true;
    if (v->failed)
        return false;
    for (uint32_t i = 0; i < g->names.items.n; i++)
        v->role[i] = values_role(g, i);
    for (uint32_t i = 0; i < g->types.items.n; i++)
        v->types[i] = type_kind(g, i);
    blocks_look(v);
    return true;
}

void values_end(struct values *v)
{
    free(v->role);
    free(v->around);
    free(v->types);
    free(v->shapes);
    free(v->calls.at);
    free(v->known);
    free(v->loops.at);
    free(v->classes.at);
    free(v->made.at);
    finder_free(&v->by_made);
    for (uint32_t i = 0; i < v->g->nodes.n; i++) {
        struct node *n = &v->g->nodes.at[i];
        node_hash_set(n, 0);
        n->same = i;
    }
}

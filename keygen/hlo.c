/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo.c - HLO text, before and after optimization, into a graph.
 *
 *     HloModule name, attribute=value, ...            the module's dictionary
 *     FileNames / FunctionNames / ... tables          source locations: dropped
 *     %name (p: shape, ...) -> shape { ... }          a private function
 *     ENTRY %name ... { ... }                         the public one
 *       ROOT %x = shape opcode(%a, %b), attribute=value, ...
 *
 * A computation is walked twice, because its parameters may stand anywhere in it: first to find
 * them, and all that is no HLO; then parameters become the function's arguments and each other
 * instruction an operation, with the root as the operand of a final "return".
 * Names, `metadata`, comments and white space end here; what an attribute that we do not know
 * says is kept. KEYS.md, section HLO, argues each thing that is dropped.
 *
 * Nothing recurses: values of attributes are scanned with a depth count.
 *
 * Thread: any; no state. Memory: views into the input; some 30 bytes for each name of the
 * computation at hand.
 */
#include "keygen/hlo_internal.h"

#include <stdlib.h>
#include <string.h>

#define LITERAL_SMALL 4096u /* bytes of a literal that is cleaned on the stack */

/* ---- instructions into views ---- */

/* A value may go on in brackets behind a blank: "mesh['x'=2,'y'=2] {'y'}". */
static struct span take_attr_value(struct hlo *h)
{
    struct span value = hlo_take_value(h, true);
    while (value.len && !h->code) {
        uint32_t at = h->at;
        while (at < h->len && (h->base[at] == ' ' || h->base[at] == '\t'))
            at++;
        if (at == h->at || at >= h->len || hlo_class_of(h->base[at]) != OPEN)
            break;
        h->at = at;
        hlo_take_value(h, true);
        value.len = h->at - value.at;
    }
    return value;
}

static void take_attrs(struct hlo *h, uint32_t *n)
{
    *n = 0;
    while (!h->code && hlo_take_byte(h, ',')) {
        hlo_skip_blank(h);
        struct attr a = {.key = hlo_take_word(h)};
        if (!a.key.len || !hlo_take_byte(h, '=')) {
            hlo_expected(h, "an attribute `name=value` was expected");
            return;
        }
        hlo_skip_blank(h);
        a.value = take_attr_value(h);
        if (!a.value.len)
            hlo_expected(h, "an attribute without a value");
        if (!h->code && hlo_grow(h, &h->attrs, h->n_attrs, &h->cap_attrs, sizeof *h->attrs)) {
            h->attrs[h->n_attrs++] = a;
            (*n)++;
        }
    }
}

static void add_operand(struct hlo *h, struct instr *in, struct span operand)
{
    if (hlo_grow(h, &h->operands, h->n_operands, &h->cap_operands, sizeof *h->operands)) {
        h->operands[h->n_operands++] = operand;
        in->n_operands++;
    }
}

/* "%a, f32[2]{0} %b": an operand's name is the last word; the shape before it repeats what its
 * definition says. h->at is after the opening bracket; leaves it after the closing one. */
static void take_operands(struct hlo *h, struct instr *in)
{
    struct span last = {0};
    while (!h->code) {
        hlo_skip_blank(h);
        if (h->at >= h->len) {
            hlo_expected(h, "`)` was expected");
            return;
        }
        char c = h->base[h->at];
        if (c == ',' || c == ')') {
            if (last.len)
                add_operand(h, in, hlo_without_percent(h, last));
            else if (c == ',' || in->n_operands)
                hlo_expected(h, "an operand was expected");
            last.len = 0;
            h->at++;
            if (c == ')')
                return;
            continue;
        }
        last = hlo_take_value(h, true);
        if (!last.len)
            hlo_expected(h, "an operand was expected");
    }
}

/* The literal of a constant or the number of a parameter: all up to the closing bracket. */
static void take_literal(struct hlo *h, struct instr *in)
{
    uint32_t start = h->at, depth = 1, i = start;
    while (i < h->len && !h->code) {
        char c = h->base[i];
        enum byte_class class = hlo_class_of(c);
        if (class != OPEN && class != CLOSE && class != QUOTE && class != SLASH) {
            i++;
            continue;
        }
        depth += c == '(';
        depth -= c == ')';
        if (!depth)
            break;
        uint32_t next = class == QUOTE   ? hlo_after_string(h, i)
                        : class == SLASH ? hlo_after_comment(h, i)
                                         : i + 1;
        i = next > i ? next : i + 1;
    }
    h->at = i < h->len ? i + 1 : h->len;
    if (depth)
        hlo_fail(h, WARM_ETRUNCATED, start, "literal without end");
    add_operand(h, in, (struct span){start, i - start});
}

/* One instruction, from its name to its last attribute. */
static void take_instr(struct hlo *h, struct span name, struct instr *in)
{
    *in = (struct instr){.name = hlo_without_percent(h, name)};
    if (!in->name.len || !hlo_take_byte(h, '=')) {
        hlo_expected(h, "an instruction `name = shape opcode(...)` was expected");
        return;
    }
    hlo_skip_blank(h);
    in->type = hlo_take_value(h, false);
    hlo_skip_blank(h);
    in->opcode = hlo_take_word(h);
    if (!in->type.len || !in->opcode.len || !hlo_take_byte(h, '(')) {
        hlo_expected(h, "an instruction `name = shape opcode(...)` was expected");
        return;
    }
    in->operands = h->n_operands;
    if (hlo_span_is(h, in->opcode, "constant") || hlo_span_is(h, in->opcode, "parameter"))
        take_literal(h, in);
    else
        take_operands(h, in);
    in->end = h->at;
    in->attrs = h->n_attrs;
    take_attrs(h, &in->n_attrs);
    if (in->n_attrs) {
        struct span last = h->attrs[h->n_attrs - 1].value;
        in->end = last.at + last.len;
    }
}

static bool is_parameter(const struct hlo *h, const struct instr *in)
{
    return hlo_span_is(h, in->opcode, "parameter");
}

/* The next instruction of a body, with its operands and attributes behind those that are there; false
 * after the last, or with an error. */
static bool take_next(struct hlo *h, struct instr *in, bool *is_root)
{
    hlo_skip_blank(h);
    if (h->code || hlo_take_byte(h, '}'))
        return false;
    struct span name = hlo_take_word(h);
    *is_root = hlo_span_is(h, name, "ROOT");
    if (*is_root) {
        hlo_skip_blank(h);
        name = hlo_take_word(h);
    }
    take_instr(h, name, in);
    return !h->code;
}

/* What a body says that is needed before its first operation. */
static void note_instr(struct hlo *h, const struct instr *in, bool is_root, uint32_t at)
{
    if (is_root && h->has_root)
        hlo_fail(h, WARM_EMALFORMED, at, "a computation with two roots");
    if (is_root || !h->has_root) /* the parser of HLO takes the last where none is marked */
        h->root = *in;
    h->has_root |= is_root;
    h->n_noted++;
}

static void note_parameter(struct hlo *h, const struct instr *in)
{
    if (hlo_grow(h, &h->instrs, h->n_instrs, &h->cap_instrs, sizeof *h->instrs))
        h->instrs[h->n_instrs++] = *in;
}

/* The instructions between the braces: `root`, and the parameters into `instrs`. h->at is after the
 * opening brace. */
static void take_body(struct hlo *h)
{
    struct instr in = {0};
    bool is_root, empty = true;
    for (uint32_t at = h->at; take_next(h, &in, &is_root); at = h->at, empty = false) {
        note_instr(h, &in, is_root, at);
        if (is_parameter(h, &in)) {
            note_parameter(h, &in);
        } else {
            h->n_operands = in.operands;
            h->n_attrs = in.attrs;
        }
    }
    if (empty)
        hlo_expected(h, "a computation without instructions");
}

/* The text is to be read again, with the care that text needs of which instructions go over lines. */
static void not_by_lines(struct hlo *h)
{
    hlo_fail(h, WARM_EMALFORMED, h->at, "an instruction that goes over lines");
}

/* Moves to the first blank behind the shape at h->at; false if there is none. */
static bool shape_passed(struct hlo *h)
{
    if (h->at < h->len && h->base[h->at] == '(')
        return hlo_take_value(h, false).len > 0;
    const char *blank = memchr(h->base + h->at, ' ', h->len - h->at);
    if (blank)
        h->at = (uint32_t)(blank - h->base);
    return blank != NULL;
}

/* One line "name = shape opcode(": parameters are read, of others what stands behind the name is passed
 * over. A shape that has a blank in it, and is no tuple, hides a parameter: put_body counts them. */
static void take_line(struct hlo *h)
{
    uint32_t start = h->at;
    struct instr in = {.name = hlo_take_word(h)};
    bool is_root = hlo_span_is(h, in.name, "ROOT");
    if (is_root) {
        hlo_skip_blank(h);
        in.name = hlo_take_word(h);
    }
    in.name = hlo_without_percent(h, in.name);
    if (!in.name.len || !hlo_starts_with(h, h->at, " = ")) {
        not_by_lines(h);
        return;
    }
    h->at += 3;
    in.type.at = h->at;
    if (shape_passed(h) && hlo_starts_with(h, h->at, " parameter(")) {
        h->at = start;
        take_next(h, &in, &is_root);
        note_parameter(h, &in);
        h->at = in.end; /* it looked for more behind it */
    }
    const char *end = memchr(h->base + h->at, '\n', h->len - h->at);
    if (end)
        h->at = (uint32_t)(end - h->base);
    else
        not_by_lines(h);
    if (!h->code)
        note_instr(h, &in, is_root, start);
}

/* As take_body, of text that has an instruction on each line: its lines are as long as they are, and what
 * stands on them is seen by put_body, which finds out whether it is so. */
static void take_lines(struct hlo *h)
{
    while (!h->code && !hlo_take_byte(h, '}'))
        take_line(h);
    if (!h->n_noted)
        not_by_lines(h);
    uint32_t end = h->at;
    h->at = h->root.type.at; /* of all others it was not looked at */
    h->root.type = hlo_take_value(h, false);
    h->at = end;
}

/* ---- computations into the graph ---- */

static const struct attr *attr_of(const struct hlo *h, const struct instr *in, const char *key)
{
    for (uint32_t i = 0; i < in->n_attrs; i++)
        if (hlo_span_is(h, h->attrs[in->attrs + i].key, key))
            return &h->attrs[in->attrs + i];
    return NULL;
}

/* A custom call is the program's own code: it may only be moved and dropped, and not even that if
 * it says that it has a side effect, or may be a sharding. */
static unsigned custom_call_traits(const struct hlo *h, const struct instr *in)
{
    const struct attr *a = attr_of(h, in, "custom_call_has_side_effect");
    return a && !hlo_span_is(h, a->value, "false") ? GRAPH_EFFECT
                                                       : GRAPH_DISTINCT | GRAPH_STAYS;
}

/* Shapes as the printer gives them have no blanks; tuples have them, and comments. */
static uint32_t type_of(struct hlo *h, struct span type)
{
    const char *text = h->base + type.at;
    uint32_t blank = 0;
    while (blank < type.len && hlo_class_of(text[blank]) != SPACE &&
           hlo_class_of(text[blank]) != SLASH)
        blank++;
    if (blank == type.len)
        return graph_type(h->g, text, type.len);
    char *clean_shape = malloc(type.len);
    if (!clean_shape) {
        hlo_fail(h, WARM_ENOMEM, type.at, "out of memory");
        return 0;
    }
    size_t n = 0;
    for (uint32_t i = 0; i < type.len;) {
        enum byte_class c = hlo_class_of(text[i]);
        uint32_t next = c == SLASH ? hlo_after_comment(h, type.at + i) - type.at : i;
        if (c != SPACE && next == i)
            clean_shape[n++] = text[i];
        i = next > i ? next : i + 1;
    }
    uint32_t id = graph_type(h->g, clean_shape, n);
    free(clean_shape);
    return id;
}

/* Copies a literal without blanks and comments: its values are apart by commas. Returns its length,
 * which is at most the literal's. */
static size_t clean_literal(struct hlo *h, struct span literal, char *out)
{
    const char *text = h->base + literal.at;
    size_t n = 0;
    if (!memchr(text, '/', literal.len)) {
        for (uint32_t i = 0; i < literal.len; i++) { /* blanks are every third byte: no branch */
            out[n] = text[i];
            n += hlo_class_of(text[i]) != SPACE;
        }
        return n;
    }
    for (uint32_t i = 0; i < literal.len;) {
        uint32_t next = hlo_after_comment(h, literal.at + i) - literal.at;
        out[n] = text[i];
        n += next == i && hlo_class_of(text[i]) != SPACE;
        i = next > i ? next : i + 1;
    }
    return n;
}

static void put_literal(struct hlo *h, struct span literal)
{
    const char *text = h->base + literal.at;
    const char *elided = memmem(text, literal.len, "...", 3);
    if (elided) {
        hlo_fail(h, WARM_EREFUSED, (uint32_t)(elided - h->base),
                 "the value of a constant is elided: print it with --xla_dump_large_constants");
        return;
    }
    graph_dict_key(h->g, "literal", 7);
    if (literal.len <= LITERAL_SMALL) {
        char small[LITERAL_SMALL];
        graph_dict_text(h->g, small, clean_literal(h, literal, small));
        return;
    }
    struct literal *large = malloc(sizeof *large + literal.len);
    if (!large) {
        hlo_fail(h, WARM_ENOMEM, literal.at, "out of memory");
        return;
    }
    large->next = h->literals;
    h->literals = large;
    graph_dict_borrow(h->g, large->text, clean_literal(h, literal, large->text));
}

static void refuse_process_bound(struct hlo *h, const struct instr *in)
{
    const struct attr *target = attr_of(h, in, "custom_call_target");
    if (!target)
        return;
    const char *t = h->base + target->value.at;
    size_t len = target->value.len;
    if (form_is_process_bound(t, len))
        hlo_fail(h, WARM_EREFUSED, target->value.at, FORM_PROCESS_BOUND);
}

/* The bytes of a custom call's backend_config are for the custom call to read, but for the
 * libraries that XLA itself calls (__cublas$gemm, __cudnn$convForward): it prints and reads theirs.
 */
static bool config_is_json(const struct hlo *h, const struct instr *in)
{
    if (!hlo_span_is(h, in->opcode, "custom-call"))
        return true;
    const struct attr *target = attr_of(h, in, "custom_call_target");
    return target && target->value.len > 5 && memcmp(h->base + target->value.at, "\"__cu", 5) == 0;
}

/* A call that says nothing but what it calls: XLA's first pass puts the body in its place. */
static const struct attr *plain_callee(const struct hlo *h, const struct instr *in)
{
    const struct attr *callee = NULL;
    for (uint32_t i = 0; i < in->n_attrs; i++) {
        const struct attr *a = &h->attrs[in->attrs + i];
        if (hlo_span_is(h, a->key, "to_apply") && !callee)
            callee = a;
        else if (!hlo_span_is(h, a->key, "metadata") ||
                 memmem(h->base + a->value.at, a->value.len, "preserve_layout", 15))
            return NULL;
    }
    return callee;
}

static void put_operands(struct hlo *h, const struct instr *in)
{
    for (uint32_t i = 0; i < in->n_operands; i++) {
        struct span name = h->operands[in->operands + i];
        uint32_t value = hlo_value_find(h, name);
        if (value == GRAPH_NONE)
            hlo_fail(h, WARM_EMALFORMED, name.at, "no such instruction before this one");
        else
            graph_op_operand(h->g, value);
    }
    for (uint32_t i = 0; i < h->n_extra; i++)
        graph_op_operand(h->g, h->extra[i]);
}

/* Ends the operation at hand, which is remembered. */
static uint32_t op_end(struct hlo *h, const struct instr *in)
{
    uint32_t type = type_of(h, in->type);
    hlo_line_record(h, type);
    graph_op_result(h->g, type);
    return graph_op_end(h->g);
}

/* Puts a call whose body may take its place. */
static uint32_t put_call(struct hlo *h, const struct instr *in, const struct attr *callee,
                         unsigned traits)
{
    struct span name = hlo_without_percent(h, callee->value);
    struct computation *of = hlo_computation_of(h, name);
    if (!of)
        return GRAPH_NONE;
    if (!of->used)
        of->first_use = callee->value;
    of->used = true;
    graph_op_begin(h->g, graph_opname(h->g, "call", 4, GRAPH_CALL | GRAPH_EFFECT));
    graph_op_traits(h->g, traits | GRAPH_CALL);
    graph_op_callee(h->g, of->symbol);
    put_operands(h, in);
    return op_end(h, in);
}

static uint32_t put_op(struct hlo *h, const struct instr *in)
{
    bool is_constant = hlo_span_is(h, in->opcode, "constant");
    unsigned traits = hlo_traits_of(h, in);
    if (hlo_span_is(h, in->opcode, "custom-call")) {
        refuse_process_bound(h, in);
        traits = custom_call_traits(h, in);
    }
    const struct attr *callee = NULL;
    if (hlo_span_is(h, in->opcode, "call")) {
        traits = GRAPH_PURE;
        callee = h->scheduled ? NULL : plain_callee(h, in);
    }
    h->n_extra = 0;
    if (callee)
        return put_call(h, in, callee, traits);
    h->config_is_json = config_is_json(h, in);
    graph_dict_begin(h->g);
    if (is_constant)
        put_literal(h, h->operands[in->operands]);
    for (uint32_t i = 0; i < in->n_attrs; i++)
        hlo_put_attr(h, &h->attrs[in->attrs + i]);
    uint32_t dict = graph_dict_end(h->g);
    if (h->scheduled || h->n_extra)
        traits = GRAPH_EFFECT; /* a schedule and control edges say when: nothing may move */
    graph_op_begin(h->g, graph_opname(h->g, h->base + in->opcode.at, in->opcode.len, traits));
    graph_op_traits(h->g, traits);
    graph_op_dict(h->g, dict);
    if (!is_constant)
        put_operands(h, in);
    return op_end(h, in);
}

/* In a module that is scheduled also the places of the parameters are kept. */
static void put_scheduled_parameter(struct hlo *h, uint32_t value)
{
    graph_op_begin(h->g, graph_opname(h->g, "parameter", 9, GRAPH_EFFECT));
    graph_op_operand(h->g, value);
    graph_op_end(h->g);
}

/* True if the literal of a parameter is a number. */
static bool parameter_number(const struct hlo *h, const struct instr *in, int64_t *out)
{
    struct span s = h->operands[in->operands];
    while (s.len && hlo_class_of(h->base[s.at]) == SPACE)
        s = (struct span){s.at + 1, s.len - 1};
    while (s.len && hlo_class_of(h->base[s.at + s.len - 1]) == SPACE)
        s.len--;
    return hlo_number_of(h, s, out);
}

/* Makes the arguments in the order of their numbers, though the instructions may stand anywhere. */
static void put_parameters(struct hlo *h)
{
    uint32_t n = h->n_instrs;
    if (!n)
        return;
    uint32_t *instr_of = malloc(n * sizeof *instr_of);
    if (!instr_of) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return;
    }
    memset(instr_of, 0xff, n * sizeof *instr_of);
    for (uint32_t i = 0; i < h->n_instrs; i++) {
        const struct instr *in = &h->instrs[i];
        int64_t number;
        if (!parameter_number(h, in, &number) || number >= n || instr_of[number] != UINT32_MAX) {
            hlo_fail(h, WARM_EMALFORMED, h->operands[in->operands].at,
                     "parameters must be numbered from 0, each once");
            break;
        }
        instr_of[number] = i;
    }
    for (uint32_t i = 0; i < n && !h->code; i++) {
        const struct instr *in = &h->instrs[instr_of[i]];
        h->n_extra = 0;
        uint32_t dict = hlo_dict_of(h, in->attrs, in->n_attrs);
        uint32_t value = graph_func_arg(h->g, type_of(h, in->type), dict);
        if (h->n_extra)
            hlo_fail(h, WARM_EMALFORMED, in->name.at, "a parameter that depends on an instruction");
        if (!hlo_value_add(h, in->name, value, true))
            hlo_fail(h, WARM_EMALFORMED, in->name.at, "an instruction with this name exists");
    }
    free(instr_of);
}

static void put_return(struct hlo *h)
{
    uint32_t value = hlo_value_find(h, h->root.name);
    if (value == GRAPH_NONE)
        return; /* only after an error */
    graph_op_begin(h->g, graph_opname(h->g, "return", 6, GRAPH_PURE));
    graph_op_operand(h->g, value);
    graph_op_end(h->g);
}

/* True if the instruction that begins at `at` is what its line holds. */
static bool is_a_line(const struct hlo *h, uint32_t at, const struct instr *in)
{
    uint32_t end = in->end;
    while (end < h->len && (h->base[end] == ' ' || h->base[end] == '\r'))
        end++;
    return end < h->len && h->base[end] == '\n' && !memchr(h->base + at, '\n', end - at);
}

/* The operation of an instruction, as one before it if it is like that. */
static void put_instr(struct hlo *h, const struct instr *in)
{
    hlo_line_split(h, in);
    uint32_t value = hlo_line_known(h);
    if (value == GRAPH_NONE)
        value = put_op(h, in);
    if (!h->code && !hlo_value_add(h, in->name, value, false))
        hlo_fail(h, WARM_EMALFORMED, in->name.at, "an instruction with this name exists");
}

/* The operations of the body behind h->at, up to its end. */
static void put_body(struct hlo *h)
{
    struct instr in;
    bool is_root;
    uint32_t n_parameters = 0;
    for (;;) {
        hlo_lines_repeat(h);
        hlo_skip_blank(h);
        uint32_t at = h->at;
        if (!take_next(h, &in, &is_root))
            break;
        if (h->by_lines && !is_a_line(h, at, &in))
            not_by_lines(h);
        if (!is_parameter(h, &in))
            put_instr(h, &in);
        else if (++n_parameters && h->scheduled)
            put_scheduled_parameter(h, hlo_value_find(h, in.name));
        h->n_operands = in.operands;
        h->n_attrs = in.attrs;
        h->n_noted--;
    }
    if (n_parameters != h->n_instrs || h->n_noted)
        not_by_lines(h);
}

/* The computation whose body has been walked. Its own attributes stand behind it. */
static void put_computation(struct hlo *h, struct span name, bool entry, struct span body,
                            uint32_t first_attr, uint32_t n_attrs)
{
    struct computation *c = hlo_computation_of(h, name);
    if (!c)
        return;
    if (c->defined)
        hlo_fail(h, WARM_EMALFORMED, name.at, "a computation with this name exists");
    if (c->loose)
        hlo_unsupported(h, "an unknown attribute may name a computation that comes later");
    uint32_t index = (uint32_t)(c - h->computations); /* the array may move */
    hlo_values_clear(h);
    graph_func_begin(h->g, c->symbol, entry);
    put_parameters(h);
    graph_func_result(h->g, type_of(h, h->root.type), 0);
    graph_func_dict(h->g, hlo_dict_of(h, first_attr, n_attrs));
    uint32_t end = h->at;
    h->at = body.at;
    put_body(h);
    if (!h->code && h->at != body.at + body.len)
        not_by_lines(h);
    if (!h->code)
        put_return(h);
    h->at = end;
    graph_func_end(h->g);
    h->computations[index].defined = true;
}

/* "%name (p: shape, ...) -> shape {": only the name says what the instructions do not. */
static void take_computation(struct hlo *h, struct span name, bool entry)
{
    hlo_skip_blank(h);
    if (h->at < h->len && h->base[h->at] == '(') {
        hlo_take_value(h, false);
        hlo_skip_blank(h);
        if (!hlo_starts_with(h, h->at, "->")) {
            hlo_expected(h, "`-> shape {` was expected");
            return;
        }
        h->at += 2;
        hlo_skip_blank(h);
        hlo_take_value(h, false);
    }
    if (!hlo_take_byte(h, '{')) {
        hlo_expected(h, "`{` was expected");
        return;
    }
    struct span body = {h->at, 0};
    h->n_instrs = h->n_operands = h->n_attrs = h->n_noted = 0;
    h->has_root = false;
    if (h->by_lines)
        take_lines(h);
    else
        take_body(h);
    body.len = h->at - body.at;
    uint32_t first_attr = h->n_attrs, n_attrs = 0;
    if (!h->code)
        take_attrs(h, &n_attrs);
    if (entry && h->has_entry)
        hlo_fail(h, WARM_EMALFORMED, name.at, "a module with two entries");
    h->has_entry |= entry;
    if (!h->code)
        put_computation(h, hlo_without_percent(h, name), entry, body, first_attr, n_attrs);
}

/* ---- the module ---- */

static void add_axis(struct hlo *h, struct span name)
{
    if (hlo_axis_of(h, name) != GRAPH_NONE)
        return;
    if (h->n_axes == HLO_AXIS_MAX) {
        hlo_unsupported(h, "more mesh axes than are followed");
        return;
    }
    h->axes[h->n_axes++] = name;
}

/* The quoted words of "{mesh = #sdy.mesh<["x"=2, "y"=2]>}", or of the same inside a string. */
static void add_axes(struct hlo *h, struct span key, struct span value)
{
    if (!hlo_span_is(h, key, "xla.sdy.meshes") || !value.len)
        return;
    bool escaped = h->base[value.at] == '"';
    uint32_t i = value.at + escaped, end = value.at + value.len - escaped;
    for (;;) {
        const char *open = memchr(h->base + i, '"', end - i);
        const char *close = open ? memchr(open + 1, '"', (size_t)(h->base + end - open) - 1) : NULL;
        if (!close)
            return;
        uint32_t at = (uint32_t)(open - h->base) + 1;
        uint32_t len = (uint32_t)(close - open) - 1;
        add_axis(h, (struct span){at, len > 0 && escaped ? len - 1 : len});
        i = (uint32_t)(close - h->base) + 1;
    }
}

/* Of the first n attributes, moves those to the front that hold for any computation of the module, and
 * gives their number. The others speak of the parameters and results of the entry computation. */
static uint32_t attrs_of_regions(struct hlo *h, uint32_t n)
{
    static const char *const entry[] = {"entry_computation_layout", "input_output_alias",
                                        "buffer_donor"};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool of_entry = false;
        for (size_t k = 0; k < sizeof entry / sizeof *entry; k++)
            of_entry |= hlo_span_is(h, h->attrs[i].key, entry[k]);
        if (!of_entry)
            h->attrs[kept++] = h->attrs[i];
    }
    return kept;
}

static void take_header(struct hlo *h)
{
    hlo_skip_blank(h);
    if (!hlo_span_is(h, hlo_take_word(h), "HloModule")) {
        hlo_expected(h, "`HloModule` was expected");
        return;
    }
    hlo_skip_blank(h);
    /* The name is any text that the program chose: up to the comma or the end of the line. */
    while (h->at < h->len && h->base[h->at] != ',' && h->base[h->at] != '\n')
        h->at++;
    uint32_t n = 0;
    take_attrs(h, &n);
    for (uint32_t i = 0; i < n; i++) {
        const struct attr *a = &h->attrs[i];
        if (hlo_span_is(h, a->key, "is_scheduled") && !hlo_span_is(h, a->value, "false"))
            h->scheduled = true;
        if (hlo_span_is(h, a->key, "frontend_attributes") && hlo_in_braces(h, a->value))
            hlo_for_each_field(h, a->value, add_axes);
    }
    graph_module_dict(h->g, hlo_dict_of(h, 0, n));
    graph_module_regions_dict(h->g, hlo_dict_of(h, 0, attrs_of_regions(h, n)));
}

/* The tables of source locations: a number and a text or fields on each line. */
static void skip_table(struct hlo *h)
{
    for (;;) {
        hlo_skip_blank(h);
        if (h->code || h->at >= h->len || h->base[h->at] < '0' || h->base[h->at] > '9')
            return;
        hlo_take_word(h);
        hlo_skip_blank(h);
        if (!hlo_take_value(h, false).len)
            hlo_expected(h, "an entry of the table was expected");
    }
}

static void take_module(struct hlo *h)
{
    static const char *const tables[] = {"FileNames", "FunctionNames", "FileLocations",
                                         "StackFrames"};
    take_header(h);
    for (;;) {
        hlo_skip_blank(h);
        if (h->code || h->at >= h->len)
            return;
        struct span word = hlo_take_word(h);
        bool entry = hlo_span_is(h, word, "ENTRY");
        if (hlo_key_in(h, word, tables, COUNT(tables))) {
            skip_table(h);
            continue;
        }
        if (hlo_span_is(h, word, "HloModule"))
            hlo_fail(h, WARM_EMALFORMED, word.at, "more than one module in one input");
        if (entry) {
            hlo_skip_blank(h);
            word = hlo_take_word(h);
        }
        if (!word.len)
            hlo_expected(h, "a computation was expected");
        if (!h->code)
            take_computation(h, word, entry);
    }
}

static void check_references(struct hlo *h)
{
    if (!h->code && !h->has_entry)
        hlo_expected(h, "a module without an entry computation");
    for (uint32_t i = 0; i < h->n_computations && !h->code; i++)
        if (h->computations[i].used && !h->computations[i].defined)
            hlo_fail(h, WARM_EMALFORMED, h->computations[i].first_use.at,
                     "a computation that the module does not define");
}

/* What was needed to read the text and is not to write the graph. */
static void tables_free(struct hlo *h)
{
    hlo_values_close(&h->values);
    hlo_names_close(&h->computed_names);
    hlo_names_close(&h->opcodes);
    hlo_names_close(&h->keys);
    hlo_lines_close(&h->lines);
    free(h->computations);
    free(h->instrs);
    free(h->operands);
    free(h->attrs);
    free(h->extra);
}

/* The graph, and the literals that it borrows. */
static void graph_close(struct hlo *h)
{
    graph_free(h->g);
    for (struct literal *next; h->literals; h->literals = next) {
        next = h->literals->next;
        free(h->literals);
    }
}

/* Reads the module into a new graph. */
static int module_read(struct hlo *h)
{
    h->g = graph_new(h->len);
    if (!h->g)
        return h->code = err_set(h->e, WARM_ENOMEM, "out of memory");
    graph_keeps_unused(h->g);
    take_module(h);
    check_references(h);
    tables_free(h);
    return h->code;
}

int form_hlo(const struct canon_input *input, struct form *out, struct err *e)
{
    if (input->len >= UINT32_MAX)
        return err_set(e, WARM_ETOO_BIG, "HLO text of 4 GiB and more is not read");
    struct hlo fresh = {.base = input->data, .len = (uint32_t)input->len, .out = out, .e = e};
    fresh.values.number_max = fresh.len / 64 + 4096;
    struct hlo h = fresh;
    h.by_lines = true;
    if (module_read(&h)) { /* what is wrong with it, if it is not the lines, is said by this: */
        graph_close(&h);
        h = fresh;
        out->why_exact = NULL;
        module_read(&h);
    }
    int code = h.code ? h.code : graph_write(h.g, "hlo/11", out, e);
    graph_close(&h);
    return code;
}

bool form_hlo_claims(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && hlo_class_of(data[i]) == SPACE)
        i++;
    return len - i > 10 && memcmp(data + i, "HloModule", 9) == 0 &&
           hlo_class_of(data[i + 9]) == SPACE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx.c - decides the canonical form of PTX assembly (CUDA.md, "PTX"). canon.c calls it through its
 * table of kinds.
 *
 * It makes one pass over the tokens and drops comments; .file, .loc and debug sections too, if the
 * output has none. In a function, it numbers registers and parameters by first appearance. A
 * register has its type at its first appearance, so the form drops declarations too. Labels become
 * numbers. Their places follow at the end of the function:
 *
 *     $L__BB0_1:                       add.s32 #3<.b32>,#1,#2;
 *       add.s32 %r9, %r7, %r8;    ─▶   @#4<.pred> bra #L0;
 *       @%p1 bra $L__BB0_1;            label #L0 7         (before statement 7)
 *
 * '#' is in no name of PTX. Other names stay. An unknown construct makes the whole text exact.
 *
 * Blocks { } have scopes. A symbol lives in the scope that declares it. A label reference begins in
 * its own scope. If that scope closes without the label, the reference moves outwards.
 *
 * Thread: any; no state.
 */
#include "keygen/domains.h"
#include "keygen/expect.h"
#include "keygen/ptx/internal.h"

#include <stdlib.h>

/* --- putting --- */

static bool is_operator(char c) { return memchr("<>=&|!+-*/^~?", c, 13) != NULL; }

/* Puts a gap. White space counts between two words, and between marks that could make one. */
static void put_gap(struct ptx *p, struct token t)
{
    bool word = t.kind != MARK && t.kind != STRING;
    if (word && p->last == 'w' && !(t.kind == DOT_WORD && t.glued))
        form_put(p->out, " ", 1);
    else if (t.kind == MARK && !t.glued && is_operator(p->last) && is_operator(p->text[t.at]))
        form_put(p->out, " ", 1);
    p->last = word ? 'w' : p->text[t.at];
}

static void put_token(struct ptx *p, struct token t)
{
    put_gap(p, t);
    if (WARM_EXPECT(t.at <= p->len && t.len <= p->len - t.at))
        form_put(p->out, p->text + t.at, t.len);
}

static void put_line_end(struct ptx *p)
{
    form_put(p->out, "\n", 1);
    p->last = '\n';
}

static void put_register(struct ptx *p, struct token t, struct sym *s)
{
    put_gap(p, t);
    form_put(p->out, "#", 1);
    if (s->id != NONE) {
        form_put_u64(p->out, s->id);
        return;
    }
    s->id = p->n_registers++;
    form_put_u64(p->out, s->id);
    if (s->more == NONE) /* a parameter: its type is in front of it */
        return;
    form_put(p->out, "<", 1);
    uint32_t back = p->at;
    p->at = s->more;
    for (struct token type = ptx_next(p); type.kind == DOT_WORD; type = ptx_next(p))
        form_put(p->out, p->text + type.at, type.len);
    p->at = back;
    if (s->depth != p->depth) { /* declared outside this block */
        form_put(p->out, "^", 1);
        form_put_u64(p->out, p->depth - s->depth);
    }
    form_put(p->out, ">", 1);
}

static void put_name(struct ptx *p, struct token t, bool is_branch)
{
    uint32_t hash = ptx_hash_name(p->text + t.at, t.len);
    uint32_t i = ptx_find(p, DECLARED, t.at, t.len, hash, ANY_DEPTH);

    if (i == NONE || p->syms[i].depth < p->family_depth) {
        uint32_t member = ptx_find_in_family(p, t, hash, i == NONE ? 0 : p->syms[i].depth + 1);
        i = member != NONE ? member : i;
    }
    if (i != NONE && p->syms[i].kind == REGISTER) {
        put_register(p, t, &p->syms[i]);
        return;
    }
    if (i == NONE) {
        uint32_t entity = ptx_refer(p, t, hash);
        if (entity == NONE)
            return;
        if (is_branch) {
            p->entities[entity].numbered = true;
            put_gap(p, t);
            form_put(p->out, "#L", 2);
            form_put_u64(p->out, entity);
            return;
        }
        p->entities[entity].named = true;
    }
    put_token(p, t);
}

static void put_labels(struct ptx *p)
{
    for (uint32_t i = 0; i < p->n_entities; i++) {
        struct entity *o = &p->entities[i], *to = &p->entities[ptx_entity_of(p, i)];
        if (o->alias != NONE) /* an alias refers to the last entity: chains stay short */
            o->alias = ptx_entity_of(p, i);
        bool defined = to->statement != NONE;
        if (!o->numbered && !o->stands && !(o->named && defined))
            continue;
        form_put_text(p->out, "label");
        if (o->numbered) {
            form_put_text(p->out, " #L");
            form_put_u64(p->out, i);
        }
        if (o->named || !defined) { /* the form has this name at each use */
            form_put(p->out, " ", 1);
            form_put(p->out, p->text + o->at, o->len);
        }
        if (defined) {
            form_put(p->out, " ", 1);
            form_put_u64(p->out, to->statement);
        }
        put_line_end(p);
    }
}

/* --- .loc, .file, debug sections: they show in the output, or are dropped --- */

/* True if the output has no debug sections. Else gives up: the line table has the PTX's own lines too. */
static bool drops_debug_info(struct ptx *p)
{
    if (!p->drops_debug_info)
        ptx_give_up(p, "it has line information, which shows in the output");
    return p->drops_debug_info;
}

static bool skip_numbers(struct ptx *p, int n)
{
    for (int i = 0; i < n; i++)
        if (ptx_next(p).kind != NUMBER)
            return false;
    return true;
}

/* Skips .loc FILE LINE COLUMN [, function_name LABEL [+ N], inlined_at FILE LINE COLUMN]. */
static void skip_loc(struct ptx *p)
{
    bool good = drops_debug_info(p) && skip_numbers(p, 3);
    if (good && ptx_is_mark(p, ptx_peek(p), ',')) {
        ptx_next(p);
        good = ptx_is(p, ptx_next(p), "function_name") && ptx_next(p).kind == NAME;
        if (good && ptx_is_mark(p, ptx_peek(p), '+')) {
            ptx_next(p);
            good = skip_numbers(p, 1);
        }
        good = good && ptx_is_mark(p, ptx_next(p), ',') && ptx_is(p, ptx_next(p), "inlined_at") &&
               skip_numbers(p, 3);
    }
    if (!good)
        ptx_give_up(p, "a .loc that is not understood");
}

/* Skips .file N "NAME" [, TIME, SIZE]. */
static void skip_file(struct ptx *p)
{
    bool good = drops_debug_info(p) && skip_numbers(p, 1) && ptx_next(p).kind == STRING;
    for (int i = 0; i < 2 && good && ptx_is_mark(p, ptx_peek(p), ','); i++) {
        ptx_next(p);
        good = skip_numbers(p, 1);
    }
    if (!good)
        ptx_give_up(p, "a .file that is not understood");
}

/* Skips .section .debug_NAME { ... }. The braces hold only data. */
static void skip_section(struct ptx *p)
{
    if (!drops_debug_info(p))
        return;
    struct token name = ptx_next(p), t = ptx_next(p);
    uint32_t begin = name.at;

    if (name.kind != DOT_WORD || name.len < 7 || memcmp(p->text + name.at, ".debug_", 7) != 0 ||
        !ptx_is_mark(p, t, '{')) {
        ptx_give_up(p, "a section that is not debug information");
        return;
    }
    do {
        t = ptx_next(p);
        if (ptx_is_mark(p, t, '{'))
            ptx_give_up(p, "a debug section that is not understood");
    } while (t.kind != END && !ptx_is_mark(p, t, '}'));
    if (t.kind == END)
        ptx_fail(p, WARM_ETRUNCATED, begin, "a section is not closed");
}

/* --- functions --- */

/* Reads a count in decimal. A leading zero would make it octal: 010 would be 8. */
static bool read_count(const struct ptx *p, struct token n, uint64_t *out)
{
    if (n.kind != NUMBER || n.len > 10 || (n.len > 1 && p->text[n.at] == '0'))
        return false;
    *out = 0;
    for (uint32_t i = 0; i < n.len; i++) {
        if (p->text[n.at + i] < '0' || p->text[n.at + i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(p->text[n.at + i] - '0');
    }
    return true;
}

/* Reads .reg TYPE NAME[<N>] {, NAME[<N>]}; puts nothing, because each register brings its type
 * along. */
static void take_registers(struct ptx *p)
{
    uint32_t type = p->at;
    struct token t = ptx_next(p);

    while (t.kind == DOT_WORD)
        t = ptx_next(p);
    for (;; t = ptx_next(p)) {
        struct token after = ptx_next(p);
        if (t.kind != NAME)
            break;
        bool family = ptx_is_mark(p, after, '<');
        uint32_t i = ptx_declare(p, family ? FAMILY : REGISTER, t);
        if (i == NONE)
            return;
        p->syms[i].more = type;
        if (family) {
            struct token n = ptx_next(p);
            uint64_t count = 0;
            if (!read_count(p, n, &count) || !ptx_is_mark(p, ptx_next(p), '>'))
                break;
            p->syms[i].count = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
            p->family_depth = p->depth;
            after = ptx_next(p);
        }
        if (ptx_is_mark(p, after, ';'))
            return;
        if (!ptx_is_mark(p, after, ','))
            break;
    }
    ptx_give_up(p, "a register declaration that is not understood");
}

static void end_statement(struct ptx *p)
{
    put_line_end(p);
    p->n_statements++;
}

/* Puts .param, .shared, .local, ... in a block. Parameters get numbers. The names of memory stay,
 * because they are in the symbol table. */
static void put_variables(struct ptx *p, struct token t)
{
    bool is_param = ptx_is(p, t, ".param");
    bool in_value = false;

    for (; t.kind != END; t = ptx_next(p)) {
        if (t.kind == NAME && !in_value) {
            uint32_t i = ptx_declare(p, is_param ? REGISTER : KEPT, t);
            if (i == NONE)
                return;
            if (is_param)
                put_register(p, t, &p->syms[i]);
            else
                put_token(p, t);
            if (ptx_is_mark(p, ptx_peek(p), '<'))
                ptx_give_up(p, "variables that are declared by number");
            continue;
        }
        if (t.kind == NAME) {
            put_name(p, t, false);
            continue;
        }
        in_value |= ptx_is_mark(p, t, '=');
        put_token(p, t);
        if (ptx_is_mark(p, t, ';')) {
            end_statement(p);
            return;
        }
    }
}

/* Puts the rest of a statement, up to its ';'. */
static void put_operands(struct ptx *p, bool is_branch)
{
    for (struct token t = ptx_next(p); t.kind != END; t = ptx_next(p)) {
        if (t.kind == NAME) {
            put_name(p, t, is_branch);
            continue;
        }
        put_token(p, t);
        if (ptx_is_mark(p, t, ';')) {
            end_statement(p);
            return;
        }
    }
}

/* Puts [@[!]p] opcode operands; */
static void put_instruction(struct ptx *p, struct token t)
{
    if (ptx_is_mark(p, t, '@')) {
        put_token(p, t);
        t = ptx_next(p);
        if (ptx_is_mark(p, t, '!')) {
            put_token(p, t);
            t = ptx_next(p);
        }
        if (t.kind != NAME) {
            ptx_give_up(p, "a guard that is not understood");
            return;
        }
        put_name(p, t, false);
        t = ptx_next(p);
    }
    if (t.kind != NAME) {
        ptx_give_up(p, "a statement that is not understood");
        return;
    }
    put_token(p, t);
    put_operands(p, ptx_is(p, t, "bra") || ptx_is(p, t, "brx"));
}

static void put_directive(struct ptx *p, struct token t)
{
    static const char *const memory[] = {".param", ".local", ".shared", ".global", ".const"};

    if (ptx_is(p, t, ".loc")) {
        skip_loc(p);
        return;
    }
    if (ptx_is(p, t, ".file")) {
        skip_file(p);
        return;
    }
    if (ptx_is(p, t, ".reg")) {
        take_registers(p);
        return;
    }
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        if (ptx_is(p, t, memory[i])) {
            put_variables(p, t);
            return;
        }
    }
    put_token(p, t);
    put_operands(p, ptx_is(p, t, ".branchtargets"));
}

/* Reads a label: a name and a single ':' at a statement's beginning. False if there is none. */
static bool take_label(struct ptx *p, struct token t)
{
    if (t.kind != NAME)
        return false;
    struct token colon = ptx_peek(p);
    if (!ptx_is_mark(p, colon, ':'))
        return false;
    ptx_next(p);
    ptx_define_label(p, t);
    return true;
}

static void put_brace(struct ptx *p, struct token t)
{
    if (ptx_is_mark(p, t, '{'))
        ptx_open_scope(p);
    put_token(p, t);
    end_statement(p);
}

/* Puts a function's body, from behind its '{' to its '}'. */
static void put_body(struct ptx *p)
{
    uint32_t outside = p->depth, begin = p->at;
    ptx_open_scope(p);
    while (p->rc == 0) {
        struct token t = ptx_next(p);
        if (t.kind == END) {
            ptx_fail(p, WARM_ETRUNCATED, begin, "a function is not closed");
        } else if (ptx_is_mark(p, t, '}')) {
            ptx_close_scope(p);
            put_brace(p, t);
            if (p->depth == outside)
                return;
        } else if (ptx_is_mark(p, t, '{')) {
            put_brace(p, t);
        } else if (t.kind == DOT_WORD) {
            put_directive(p, t);
        } else if (!take_label(p, t)) {
            put_instruction(p, t);
        }
    }
}

/* Puts all from behind .entry or .func to the end of the function or of its prototype. A
 * declaration in parentheses is a parameter. Other names stay. */
static void put_function(struct ptx *p)
{
    int parens = 0;
    bool declares = false;

    p->n_registers = p->n_statements = p->n_entities = 0;
    ptx_open_scope(p);
    for (struct token t = ptx_next(p); p->rc == 0; t = ptx_next(p)) {
        if (t.kind == END) {
            ptx_fail(p, WARM_ETRUNCATED, p->at, "a function has no end");
            return;
        }
        parens += ptx_is_mark(p, t, '(') - ptx_is_mark(p, t, ')');
        if (ptx_is_mark(p, t, '(') || ptx_is_mark(p, t, ',') || ptx_is_mark(p, t, ')'))
            declares = false;
        declares |= parens > 0 && (ptx_is(p, t, ".param") || ptx_is(p, t, ".reg"));
        if (t.kind == NAME && declares && !(t.len == 1 && p->text[t.at] == '_')) {
            uint32_t i = ptx_declare(p, REGISTER, t);
            if (i != NONE)
                put_register(p, t, &p->syms[i]);
            continue;
        }
        if (ptx_is_mark(p, t, '{') && parens == 0) {
            put_line_end(p);
            put_token(p, t);
            put_line_end(p);
            put_body(p);
            break;
        }
        put_token(p, t);
        if (ptx_is_mark(p, t, ';')) {
            put_line_end(p);
            break;
        }
    }
    if (p->rc == 0)
        ptx_close_scope(p);
    if (p->rc == 0)
        put_labels(p);
}

/* --- the module --- */

/* True if ptxas finds the number of .version here. ptxas looks for .version before it reads the
 * rest: only blanks may precede the number, no comment and no line's end. */
static bool is_version_line(const struct ptx *p)
{
    uint32_t at = p->at;
    while (at < p->len && (p->text[at] == ' ' || p->text[at] == '\t'))
        at++;
    return at < p->len && p->text[at] >= '0' && p->text[at] <= '9';
}

/* Puts .version N, .target A {, B} or .address_size N. Each ends with its operands. */
static bool put_header(struct ptx *p, struct token t)
{
    bool target = ptx_is(p, t, ".target"), version = ptx_is(p, t, ".version");
    if (!target && !version && !ptx_is(p, t, ".address_size"))
        return false;
    if (version && !is_version_line(p))
        ptx_give_up(p, "a .version that ptxas does not find");
    do {
        put_token(p, t);
        t = ptx_next(p);
        if (ptx_is(p, t, "debug"))
            ptx_give_up(p, "the target asks for debug output, which shows names and lines");
        put_token(p, t);
        t = target ? ptx_peek(p) : (struct token){.kind = END};
    } while (ptx_is_mark(p, t, ',') && ptx_next(p).kind == MARK && p->rc == 0);
    put_line_end(p);
    return true;
}

/* Puts one directive of the module, to its ';' or the end of its function. */
static void put_module_statement(struct ptx *p, struct token t)
{
    uint32_t begin = t.at;
    int braces = 0;

    for (; p->rc == 0; t = ptx_next(p)) {
        if (t.kind == END) {
            ptx_fail(p, WARM_ETRUNCATED, begin, "a directive has no end");
            return;
        }
        put_token(p, t);
        if (ptx_is(p, t, ".entry") || ptx_is(p, t, ".func")) {
            put_function(p);
            return;
        }
        braces += ptx_is_mark(p, t, '{') - ptx_is_mark(p, t, '}');
        if (ptx_is_mark(p, t, ';') && braces <= 0) {
            put_line_end(p);
            return;
        }
    }
}

static void put_module(struct ptx *p)
{
    struct token t = ptx_next(p);
    if (!ptx_is(p, t, ".version"))
        ptx_fail(p, WARM_EMALFORMED, t.at, "it does not begin with .version");
    for (; t.kind != END && p->rc == 0; t = ptx_next(p)) {
        if (ptx_is(p, t, ".file"))
            skip_file(p);
        else if (ptx_is(p, t, ".loc"))
            skip_loc(p);
        else if (ptx_is(p, t, ".section"))
            skip_section(p);
        else if (t.kind != DOT_WORD)
            ptx_give_up(p, "a statement that is not understood");
        else if (!put_header(p, t))
            put_module_statement(p, t);
    }
}

int form_ptx(const struct canon_input *input, struct form *out, struct err *e)
{
    size_t len = input->len;
    const char *text = input->data;

    while (len > 0 && text[len - 1] == '\0') /* as nvrtcGetPTX returns it */
        len--;
    if (len >= NONE)
        return err_set(e, WARM_ETOO_BIG, "PTX: more than 4 GiB");
    if (input->debug_info) {
        out->why_exact = "debug output was asked for: it shows lines, names and the text itself";
        return WARM_EUNSUPPORTED;
    }
    struct ptx p = {.text = text,
                    .len = (uint32_t)len,
                    .drops_debug_info = input->drops_debug_info,
                    .out = out,
                    .e = e,
                    .free_syms = NONE};
    form_begin(out, DOMAIN_PTX);
    if (ptx_grow(&p, &p.scopes, &p.cap_scopes, 0, sizeof *p.scopes)) {
        p.scopes[0].first = NONE;
        put_module(&p);
    }
    free(p.syms);
    free(p.buckets);
    free(p.scopes);
    free(p.entities);
    return p.rc;
}

/* Claims what begins with .version. Comments may precede it. */
bool form_ptx_claims(const char *data, size_t len)
{
    struct form no_form;
    no_form.why_exact = NULL;
    struct ptx p = {.text = data, .len = (uint32_t)len, .out = &no_form, .free_syms = NONE};
    struct token t = ptx_next(&p);
    return p.rc == 0 && t.kind == DOT_WORD && ptx_is(&p, t, ".version") &&
           ptx_peek(&p).kind == NUMBER;
}

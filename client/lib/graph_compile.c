/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_compile.c - libwarm's warm_graph_compile: StableHLO to a bundle of cubins. Programs, `warm compile` and
 * Python call it; warm.h has the contract.
 *
 *   read → calls written out, or the derivative → CUDA C++ → plan → a compile for each kernel → bundle
 *   └───────────── or the plan from the cache (graph_plan.h) ─────────────┘
 *
 * Each kernel is a CUDA C++ program of its own, with one name for all. So equal kernels of any two graphs are
 * one entry of the store.
 *
 * Thread: one at a time for each connection.
 */
#include "client/lib/warm.h" /* first: its own error codes are the ones that are checked in client.c */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/graph_plan.h"
#include "client/lib/request.h"
#include "kernels/bundle/graph_bundle.h"
#include "kernels/vjp/wanted.h"
#include "keygen/canon/canon.h"

#define LAUNCHES_MAX 1000000u
#define TARGET_LEN_MAX 31u
#define PLACE_MAX 256u
#define LOG_SHOWN_BYTES 160 /* of the compiler's log, in the message */

struct compiling {
    struct warm *w;
    const struct warm_graph *g;
    char target[sizeof "--gpu-architecture=" + TARGET_LEN_MAX];
    const char **options;
    struct codegen code;
    struct graph_bundle bundle;
    char name[GRAPH_PLAN_NAME];  /* of the plan, if it is to be stored */
    uint64_t plan_ms;            /* that it took */
    struct warm_result *results; /* by kernel: own the cubins */
    uint32_t n_results, n_hits;
};

/* ---- the plan ---- */

/* Generates the code and the plan of a graph. */
static int plan_graph(struct compiling *c, struct err *e)
{
    struct program *p = NULL, *f = NULL;
    int rc = program_read(c->g->data, c->g->len, &p, e);
    if (rc == 0)
        rc = wanted_function(p,
                             &(struct wanted){c->g->flags & WARM_GRAPH_VJP, c->g->arguments,
                                              c->g->n_arguments, c->g->optimizer},
                             &f, e);
    program_free(p);
    if (rc == 0)
        rc = codegen_function(f, program_function(f, NULL), &c->code, e);
    if (rc == 0 && c->code.launches.n > LAUNCHES_MAX)
        rc = err_set(e, WARM_ETOO_BIG, "more than %u launches", LAUNCHES_MAX);
    if (rc == 0)
        rc = graph_bundle_plan(&c->code, &c->bundle, e);
    program_free(f);
    return rc;
}

/* True if a character may be part of an operation's name. */
static bool is_of_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* Returns the number of bytes up to the end of line `line`, from 1 on; *out_begin is where it begins. */
static size_t find_line(struct view text, uint32_t line, size_t *out_begin)
{
    size_t at = 0;
    for (uint32_t i = 0; i < line && at < text.len; i++) {
        const char *end = memchr((const char *)text.data + at, '\n', text.len - at);
        *out_begin = at;
        at = end ? (size_t)(end - (const char *)text.data) + 1 : text.len;
    }
    return at;
}

/* Returns the operation's name in a line of the canonical form: "stablehlo.add" of "%3 = stablehlo.add %1". */
static struct view op_of_line(struct view line)
{
    const char *text = line.data, *dot = memchr(text, '.', line.len);
    size_t first = dot ? (size_t)(dot - text) : 0, end = first;
    while (first && is_of_name(text[first - 1]))
        first--;
    while (end < line.len && is_of_name(text[end]))
        end++;
    return (struct view){text + first, end - first};
}

/* Counts how often a name stands in a text, as a word. Sets *out to the place of number `nth`, if *out is NULL. */
static size_t count_name(struct view text, struct view name, size_t nth, const char **out)
{
    const char *from = text.data, *at = from, *end = from + text.len, *hit;
    size_t n = 0;
    while (name.len && (hit = memmem(at, (size_t)(end - at), name.data, name.len))) {
        at = hit + name.len;
        n += (hit == from || !is_of_name(hit[-1])) && (at == end || !is_of_name(*at));
        if (n == nth && !*out)
            *out = hit;
    }
    return n;
}

/* Returns the line of the first call of the function that line `line` is in; 0 if there is none. */
static uint32_t line_of_call(struct view form, uint32_t line)
{
    const char *text = form.data, *end = text + form.len, *head = NULL, *at = text, *next;
    char call[64];
    for (uint32_t i = 1; at < end; i++, at = next) {
        next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next + 1 : end;
        if (i <= line && next - at > 5 && memcmp(at, "func ", 5) == 0)
            head = memchr(at, '#', (size_t)(next - at));
    }
    if (!head)
        return 0;
    snprintf(call, sizeof call, "{callee = @#%lu}", strtoul(head + 1, NULL, 10));
    const char *found = memmem(text, form.len, call, strlen(call));
    uint32_t n = found != NULL;
    for (at = text; found && at < found; at++)
        n += *at == '\n';
    return n;
}

/* Finds the location of an operation of bytecode, "loss.py:12:8". False if it has none. `count`: of its name. */
static bool location(const struct warm_graph *g, struct view op, size_t nth, size_t count,
                     char *out, size_t cap)
{
    struct canon_sought sought = {.op = op, .nth = nth};
    struct canon_input input = {.data = g->data, .len = g->len, .sought = &sought};
    struct canon_result ignored;
    if (canon_key(&input, &ignored, NULL, NULL) || sought.total != count || !*sought.place)
        return false;
    snprintf(out, cap, "%s", sought.place);
    return true;
}

/* Writes where line `line` of the canonical form is in the text that was given, or of bytecode in the user's program.
 * Form and module have their operations in the same order, so it is the place of as many operations of that name.
 * False if that is not known. */
static bool find_place(const struct warm_graph *g, struct view form, uint32_t line, char *out,
                       size_t cap)
{
    struct view text = {g->data, g->len};
    const char *data = form.data, *at = NULL, *ignored = data;
    size_t begin = 0, end = find_line(form, line, &begin);
    bool head = end - begin > 5 && memcmp(data + begin, "func ", 5) == 0;
    struct view op =
        head ? view_of_text("func") : op_of_line((struct view){data + begin, end - begin});
    struct view name = head ? view_of_text("func.func") : op;
    size_t n = count_name((struct view){data, end}, op, 0, &ignored);
    struct err place = {0};
    size_t count = count_name(form, op, 0, &ignored);
    if (location(g, name, n, count, out, cap))
        return true;
    bool is_there = count == count_name(text, name, n, &at) && at;
    if (!is_there && view_begins(name, "func.")) { /* a text may leave that out */
        name = (struct view){(const char *)name.data + 5, name.len - 5};
        at = NULL;
        is_there = count == count_name(text, name, n, &at) && at;
    }
    if (is_there)
        err_place(&place, text.data, text.len, (size_t)(at - (const char *)text.data));
    if (place.line)
        snprintf(out, cap, "line %u, column %u", place.line, place.column);
    return place.line;
}

/* Writes the place of a line of the form. A function that the framework made has none: then that of its call. */
static void say_place(const struct warm_graph *g, struct view form, uint32_t line, char *out,
                      size_t cap)
{
    uint32_t at = line;
    for (int depth = 0; depth < PROGRAM_CALLS_MAX && at; depth++, at = line_of_call(form, at))
        if (find_place(g, form, at, out, cap))
            return;
    snprintf(out, cap, "line %u of `warm hash --explain`", line);
}

/* Appends the names of other operations that have no code, each with its first place behind line `line`. */
static void say_others(const struct warm_graph *g, struct view form, uint32_t line, struct err *e)
{
    const char *at = (const char *)form.data, *end = at + form.len, *next;
    const char *ignored = at, *begin = "; also";
    size_t from = 0;
    at += find_line(form, line, &from);
    for (; at < end; at = next) {
        char place[PLACE_MAX];
        next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next + 1 : end;
        line++;
        struct view op = program_line_op((struct view){at, (size_t)(next - at)});
        if (!op.len || program_has_op(op) || count_name(view_of_text(e->text), op, 0, &ignored))
            continue;
        say_place(g, form, line, place, sizeof place);
        size_t len = strlen(e->text), room = sizeof e->text - len;
        if (room < sizeof " ...")
            return;
        int n = snprintf(e->text + len, room, "%s %.*s (%s)", begin, (int)op.len,
                         (const char *)op.data, place);
        if ((size_t)n >= room) { /* the rest would be cut off */
            memcpy(e->text + len, " ...", sizeof " ...");
            return;
        }
        begin = ",";
    }
}

/* Plans, and says of an error where it is: in the text that was given, or in its canonical form. */
static int plan(struct compiling *c)
{
    struct canon_input input = {.data = c->g->data, .len = c->g->len};
    struct canon_result result;
    struct writer form;
    struct err e = {0}, *out = &c->w->err;
    char place[PLACE_MAX];
    int rc = plan_graph(c, &e);
    if (rc && e.column) /* keygen's */
        return err_set(out, rc, "line %u, column %u: %s", e.line, e.column, e.text);
    if (!rc || !e.line)
        return rc ? err_set(out, rc, "%s", e.text) : 0;
    writer_init(&form, 0);
    if (canon_key(&input, &result, &form, NULL) == 0 && !form.failed) {
        struct view text = {form.data, form.len};
        say_place(c->g, text, e.line, place, sizeof place);
        err_set(out, rc, "%s: %s", place, e.text);
        if (rc == WARM_EUNSUPPORTED)
            say_others(c->g, text, e.line, out);
    } else {
        err_set(out, rc, "%s", e.text);
    }
    writer_close(&form);
    return rc;
}

/* Takes the plan from the cache, or makes it. */
static int find_plan(struct compiling *c)
{
    char name[GRAPH_PLAN_NAME];
    bool named = graph_plan_name(c->g, name);
    if (named && !(c->g->job_flags & WARM_RECACHE)) {
        if (graph_plan_get(c->w, name, &c->code, &c->bundle))
            return 0;
        codegen_free(&c->code);
        graph_bundle_close(&c->bundle);
        c->code = (struct codegen){.n_kernels = 0};
        c->bundle = (struct graph_bundle){.n_arguments = 0};
    }
    uint64_t start_ms = conn_now_ms();
    int rc = plan(c);
    c->plan_ms = conn_now_ms() - start_ms;
    if (rc == 0 && named && !(c->g->job_flags & WARM_NO_STORE))
        memcpy(c->name, name, sizeof name);
    return rc;
}

/* ---- kernels ---- */

/* Makes the options of each kernel: the caller's, and the target. */
static int fill_options(struct compiling *c)
{
    const struct warm_graph *g = c->g;
    if (!g->target || strncmp(g->target, "sm_", 3) != 0 || strlen(g->target) > TARGET_LEN_MAX)
        return err_set(&c->w->err, WARM_EINVALID,
                       "a graph is compiled for a GPU like sm_90, not for %.40s",
                       g->target ? g->target : "none");
    c->options = calloc(g->n_options + 1, sizeof *c->options);
    if (!c->options)
        return err_set(&c->w->err, WARM_ENOMEM, "options");
    snprintf(c->target, sizeof c->target, "--gpu-architecture=%s", g->target);
    for (size_t i = 0; i < g->n_options; i++)
        c->options[i] = g->options[i];
    c->options[g->n_options] = c->target;
    return 0;
}

static int take_cubin(struct compiling *c, uint32_t i, const struct warm_result *r)
{
    if (r->status || !r->cubin.len)
        return err_set(&c->w->err, WARM_EUNSUPPORTED, "kernel %u: %s: %.*s", i,
                       r->status ? "the compiler refused it" : "the compiler made no cubin",
                       (int)(r->log.len < LOG_SHOWN_BYTES ? r->log.len : LOG_SHOWN_BYTES),
                       r->log.data ? (const char *)r->log.data : "");
    c->bundle.kernels.at[i] =
        (struct graph_kernel){view_of_text(r->value.key), {r->cubin.data, r->cubin.len}};
    c->bundle.compiler = (struct view){r->compiler.data, r->compiler.len};
    return 0;
}

/* Compiles n kernels from `first` on, or takes them from the cache: all at once. */
static int compile_some(struct compiling *c, uint32_t first, uint32_t n)
{
    struct warm_job jobs[COMPILE_MANY_MAX];
    struct writer sources[COMPILE_MANY_MAX];
    int codes[COMPILE_MANY_MAX], rc = 0;
    for (uint32_t i = 0; i < n; i++) {
        writer_init(&sources[i], 0);
        codegen_write_kernel(&c->code, first + i, &sources[i]);
        jobs[i] = (struct warm_job){.name = "graph.cu",
                                    .source = sources[i].data,
                                    .source_len = sources[i].len,
                                    .options = c->options,
                                    .n_options = c->g->n_options + 1,
                                    .compiler = c->g->compiler,
                                    .timeout_ms = c->g->timeout_ms,
                                    .flags = c->g->job_flags};
        if (sources[i].failed)
            rc = err_set(&c->w->err, WARM_ENOMEM, "the source of a kernel");
    }
    if (rc == 0)
        rc = request_compile_many(c->w, jobs, n, c->results + first, codes);
    for (uint32_t i = 0; i < n; i++)
        writer_close(&sources[i]);
    if (rc)
        return rc;
    c->n_results += n; /* those without a result are empty */
    for (uint32_t i = 0; i < n; i++) {
        struct warm_result *r = &c->results[first + i];
        if (codes[i])
            *r = (struct warm_result){0};
        c->n_hits += codes[i] == 0 && r->value.outcome == WARM_HIT;
        if (rc == 0)
            rc = codes[i] ? codes[i] : take_cubin(c, first + i, r);
    }
    return rc;
}

static int compile_kernels(struct compiling *c)
{
    uint32_t n = c->code.n_kernels;
    c->results = calloc((size_t)n + 1, sizeof *c->results);
    int rc = c->results ? 0 : err_set(&c->w->err, WARM_ENOMEM, "results");
    c->bundle.target = view_of_text(c->g->target);
    for (uint32_t i = 0; i < n && rc == 0; i += COMPILE_MANY_MAX) {
        if (c->g->progress)
            c->g->progress(c->g->context, i, n);
        rc = compile_some(c, i, n - i < COMPILE_MANY_MAX ? n - i : COMPILE_MANY_MAX);
    }
    return rc;
}

/* ---- the bundle ---- */

static int fill_result(struct compiling *c, struct warm_graph_result *out)
{
    struct writer bytes;
    uint64_t made_ms = 0;
    writer_init(&bytes, 0);
    c->bundle.module = (struct view){c->g->data, c->g->len};
    c->bundle.optimizer = view_of_text(c->g->optimizer ? c->g->optimizer : "");
    c->bundle.derives = c->g->flags & WARM_GRAPH_VJP;
    for (size_t i = 0; i < c->g->n_arguments; i++)
        PUSH(&c->bundle, c->bundle.gradients, c->g->arguments[i]);
    if (c->bundle.failed)
        return err_set(&c->w->err, WARM_ENOMEM, "a bundle");
    graph_bundle_write(&c->bundle, &bytes);
    for (uint32_t i = 0; i < c->n_results; i++)
        made_ms += c->results[i].value.cost_ms;
    *out = (struct warm_graph_result){.n_kernels = c->bundle.kernels.n,
                                      .n_hits = c->n_hits,
                                      .n_launches = c->bundle.launches.n,
                                      .n_arguments = c->bundle.n_arguments,
                                      .n_results = c->bundle.results.n,
                                      .arena = c->bundle.arena,
                                      .cost_ms = made_ms};
    out->data = writer_take(&bytes, &out->len);
    return out->data ? 0 : err_set(&c->w->err, WARM_ENOMEM, "a bundle");
}

int warm_graph_compile(struct warm *w, const struct warm_graph *g, struct warm_graph_result *out)
{
    struct compiling c = {.w = w, .g = g};
    int rc = fill_options(&c);
    if (rc == 0) /* a plan may take longer than the daemon waits for a greeting */
        rc = request_connect(w);
    if (rc == 0)
        rc = find_plan(&c);
    if (rc == 0)
        rc = compile_kernels(&c);
    if (rc == 0)
        rc = fill_result(&c, out);
    if (rc == 0 && *c.name) /* last: a failure must not end the connection of the compile */
        graph_plan_put(w, c.name, &c.code, &c.bundle, c.plan_ms);
    for (uint32_t i = 0; i < c.n_results; i++)
        warm_result_free(&c.results[i]);
    free(c.results);
    free(c.options);
    graph_bundle_close(&c.bundle);
    codegen_free(&c.code);
    return rc;
}

void warm_graph_result_free(struct warm_graph_result *r)
{
    free(r->data);
    *r = (struct warm_graph_result){0};
}

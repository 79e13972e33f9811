/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - parses the command lines of all three tools, with one table of options for each
 * (options_tables.c), and adds them to a key. Jobs, the shims and `warm tool` call it; options.h has the
 * contract.
 *
 * The canonical form of an option is its long name and its value. Options of one `group` may contradict
 * each other, so they keep their order. Groups commute and are sorted. CUDA.md says for each kind of rule
 * why it is sound, and tests/proof compares with the compilers.
 *
 * Thread: any; no state.
 */
#include "keygen/cuda/options.h"

#include <stdlib.h>
#include <string.h>

#include "keygen/cuda/cuda.h"
#include "keygen/cuda/options_internal.h"
#include "keygen/domains.h"
#include "keygen/expect.h"

struct option {
    const struct spec *spec;
    struct view value;
    struct view written; /* the argument as it was given, for the table that is not sorted */
    bool dropped;
};

struct parse {
    const struct options_table *table;
    const struct view *args;
    size_t n_args;
    size_t next; /* index of the argument to parse */
    struct options *out;
    struct view *dirs, *pre, *pass;
    struct view *for_ptxas; /* its options, checked together at the end */
    size_t n_for_ptxas;
    struct inner_options *inner;
    const struct spec *dropped; /* the last one that the list lacks */
    size_t unknown; /* index of the first option that no row has, for the host's compiler */
    unsigned n_arch;
    bool of_nvcc, forwards;
};

/* The row of such an option. nvcc puts it elsewhere than those of -Xcompiler. */
static const struct spec forwarded = {"a forwarded option", NULL, SEPARATE, TO_HOST, HOST, 0, NULL};

/* --- finding the option --- */

static bool view_starts(struct view v, const char *text, size_t *out_len)
{
    size_t len = strlen(text);
    *out_len = len;
    return v.len > len && memcmp(v.data, text, len) == 0;
}

static struct view view_from(struct view v, size_t at)
{
    return (struct view){(const char *)v.data + at, v.len - at};
}

static bool view_has(struct view v, char c)
{
    return v.len > 0 && memchr(v.data, c, v.len) != NULL;
}

enum match { NO_MATCH, BARE, WITH_VALUE };

/* Matches `arg` with this option and sets its value. With `joined`, "-DX" matches too. */
static enum match match_name(const struct spec *spec, const char *name, struct view arg,
                             bool joined, struct view *out_value)
{
    if (name == NULL)
        return NO_MATCH;
    const char *equals = arg.len > 0 ? memchr(arg.data, '=', arg.len) : NULL;
    size_t name_len = equals != NULL ? (size_t)(equals - (const char *)arg.data) : arg.len;
    size_t len;

    if (view_is((struct view){arg.data, name_len}, name)) {
        if (equals == NULL)
            return BARE;
        *out_value = view_from(arg, name_len + 1);
        return WITH_VALUE;
    }
    if (joined && spec->value == JOINED && name[1] != '-' && view_starts(arg, name, &len)) {
        *out_value = view_from(arg, len);
        return WITH_VALUE;
    }
    return NO_MATCH;
}

static const struct spec *find_spec(const struct options_table *table, struct view arg,
                                    enum match *out, struct view *out_value)
{
    for (int joined = 0; joined < 2; joined++) {
        for (size_t i = 0; i < table->n_specs; i++) {
            const struct spec *spec = &table->specs[i];
            *out = match_name(spec, spec->long_name, arg, joined, out_value);
            if (*out == NO_MATCH)
                *out = match_name(spec, spec->short_name, arg, joined, out_value);
            if (*out != NO_MATCH)
                return spec;
        }
    }
    return NULL;
}

/* Takes the next argument as the value if the option needs one. */
static int settle_value(struct parse *p, const struct spec *spec, enum match match,
                        struct view *value, struct err *e)
{
    const char *tool = p->table->tool;

    if (match == WITH_VALUE && spec->value == NONE)
        return err_set(e, WARM_EINVALID, "%s: %s takes no value", tool, spec->long_name);
    if (match == WITH_VALUE || spec->value == NONE || spec->value == OPTIONAL)
        return 0;
    if (spec->value == EQUALS || p->next == p->n_args)
        return err_set(e, WARM_EINVALID, "%s: %s needs a value", tool, spec->long_name);
    *value = p->args[p->next++];
    return 0;
}

bool options_takes_next(enum options_tool tool, struct view arg)
{
    enum match match = NO_MATCH;
    struct view value;
    const struct spec *spec = find_spec(&options_tables[tool], arg, &match, &value);
    return spec != NULL && match == BARE && (spec->value == SEPARATE || spec->value == JOINED);
}

/* --- what an option does --- */

/* True for "sm_90a" or "compute_80": letters, '_', digits, at most one letter. */
static bool is_target(struct view v)
{
    const char *s = v.data;
    size_t i = 0;
    while (i < v.len && s[i] >= 'a' && s[i] <= 'z')
        i++;
    if (i == 0 || i == v.len || s[i] != '_')
        return false;
    size_t digits = ++i;
    while (i < v.len && s[i] >= '0' && s[i] <= '9')
        i++;
    if (i == digits || i - digits > 4)
        return false;
    return i == v.len || (i + 1 == v.len && s[i] >= 'a' && s[i] <= 'z');
}

static void append_hardware(struct options *out, const char *text, size_t len)
{
    size_t used = strlen(out->hardware);
    if (!WARM_EXPECT(len < WARM_HARDWARE_MAX - used))
        return;
    memcpy(out->hardware + used, text, len);
    out->hardware[used + len] = '\0';
}

/* Adds a target of nvcc, which may have several. A list that does not fit becomes a digest. */
static void add_target(struct parse *p, struct view value)
{
    struct options *out = p->out;
    size_t used = p->n_arch == 0 ? 0 : strlen(out->hardware);

    if (!p->of_nvcc)
        used = 0; /* the last one decides */
    out->hardware[used] = '\0';
    if (used + 1 + value.len < WARM_HARDWARE_MAX - WARM_KEY_TEXT - 1) {
        if (used > 0)
            append_hardware(out, "+", 1);
        append_hardware(out, value.data, value.len);
    } else {
        char text[WARM_KEY_TEXT];
        struct key_builder b;
        struct key key;
        struct proof proof;
        key_begin(&b, DOMAIN_TARGETS);
        key_add(&b, 1, out->hardware, used);
        key_add(&b, 2, value.data, value.len);
        key_end(&b, &key, &proof);
        key_to_text(&key, text);
        out->hardware[0] = '\0';
        append_hardware(out, text, strlen(text));
    }
    p->n_arch++;
}

static int take_arch(struct parse *p, const struct spec *spec, struct view value, struct err *e)
{
    if (!p->of_nvcc && !is_target(value))
        return err_set(e, WARM_EREFUSED, "%s: %s names an unknown target", p->table->tool,
                       spec->long_name);
    if (value.len == 0 || view_is(value, "native"))
        return err_set(e, WARM_EREFUSED,
                       "%s: %s depends on this machine's GPU: name the architecture, as sm_90",
                       p->table->tool, spec->long_name);
    p->out->lto |= memmem(value.data, value.len, "lto_", 4) != NULL;
    add_target(p, value);
    return 0;
}

/* Refuses a value that begins with a blank: the compiler may read it with or without the blank. */
static int take_path(struct parse *p, const struct spec *spec, struct view value, struct err *e)
{
    const char *s = value.data;
    if (value.len == 0 || s[0] == ' ' || s[0] == '\t' || memchr(s, '\0', value.len) != NULL)
        return err_set(e, WARM_EREFUSED,
                       "%s: %s is given a path that begins with a blank or is "
                       "empty",
                       p->table->tool, spec->long_name);
    if (p->of_nvcc && view_has(value, ','))
        return err_set(e, WARM_EREFUSED, "%s: %s is given a list", p->table->tool, spec->long_name);
    if (!WARM_EXPECT(p->out->n_include_dirs + p->out->n_pre_includes < p->n_args))
        return err_set(e, WARM_EINVALID, "%s: more paths than arguments", p->table->tool);
    if (spec->rule == INCLUDE)
        p->dirs[p->out->n_include_dirs++] = value;
    else
        p->pre[p->out->n_pre_includes++] = value;
    if (spec->rule == PREINCLUDE)
        p->out->allows_canonical = false;
    return 0;
}

static int take_define(struct parse *p, const struct spec *spec, struct view value, struct err *e)
{
    struct cuda_scan scan = {0};
    const char *s = value.data;

    if (value.len > 0 && (s[0] == ' ' || s[0] == '\t'))
        return err_set(e, WARM_EREFUSED, "%s: the value of %s begins with a blank", p->table->tool,
                       spec->long_name);
    cuda_scan(value.data, value.len, &scan);
    if (cuda_scan_uses_clock(&scan))
        return err_set(e, WARM_EREFUSED, "%s: %s defines a macro by the clock", p->table->tool,
                       spec->long_name);
    cuda_scan_merge(&p->out->defines, &scan);
    if (!cuda_scan_allows_canonical(&scan) || view_has(value, '#') || view_has(value, '%') ||
        view_has(value, '?') || view_has(value, '('))
        p->out->allows_canonical = false;
    return 0;
}

static void take_effects(struct parse *p, const struct spec *spec, struct view value)
{
    struct options *out = p->out;
    unsigned effects = spec->effects;
    if ((effects & IF_TRUE) && view_is(value, "false"))
        return;
    out->debug |= (effects & DEBUG) != 0;
    out->line_info |= (effects & LINE_INFO) != 0;
    out->no_debug_sections |= (effects & NO_DEBUG_SECTIONS) != 0;
    out->relocatable |= (effects & RELOCATABLE) != 0;
    out->lto |= (effects & LTO) != 0;
    out->verbose_log |= (effects & VERBOSE) != 0;
    out->no_source_include |= (effects & NO_SOURCE_INCLUDE) != 0;
    p->forwards |= (effects & FORWARDS) != 0;
}

static int take_inner(struct parse *p, enum inner_tool tool, struct view value)
{
    p->inner[p->out->n_inner++] = (struct inner_options){tool, value};
    return 0;
}

static int take_option(struct parse *p, const struct spec *spec, struct view value, struct err *e)
{
    switch (spec->rule) {
    case REFUSE:
        return err_set(e, WARM_EREFUSED, "%s: %s: %s", p->table->tool, spec->long_name, spec->note);
    case ARCH: return take_arch(p, spec, value, e);
    case DEFINE: return take_define(p, spec, value, e);
    case INCLUDE:
    case PREINCLUDE: return take_path(p, spec, value, e);
    case TO_PTXAS: p->for_ptxas[p->n_for_ptxas++] = value; return 0;
    case TO_HOST: return take_inner(p, INNER_HOST, value);
    case TO_FATBINARY: return take_inner(p, INNER_FATBINARY, value);
    case TO_CUDAFE: return take_inner(p, INNER_CUDAFE, value);
    case DEPENDENCIES: p->out->dependencies = true; return 0;
    case DEPENDENCY_FILE:
    case KEEP:
    case DROP:
    case OUTPUT: return 0;
    }
    return 0;
}

static int refuse_unknown(const struct parse *p, size_t at, struct err *e)
{
    struct view arg = p->args[at];
    return err_set(e, WARM_EREFUSED, "%s: argument %zu is an unknown option: %.*s", p->table->tool,
                   at + 1, (int)(arg.len < 60 ? arg.len : 60), (const char *)arg.data);
}

/* Takes an argument that is in no row: the input file, or an option that may be the host compiler's. */
static int take_other(struct parse *p, size_t at, struct err *e)
{
    struct view arg = p->args[at];
    bool is_option = arg.len > 1 && *(const char *)arg.data == '-';
    if (is_option && p->of_nvcc) {
        p->unknown = p->unknown < at ? p->unknown : at;
        p->pass[p->out->n_pass++] = arg;
        p->out->list[p->out->n_list++] = (struct option){&forwarded, arg, arg, false};
        return take_option(p, &forwarded, arg, e);
    }
    if (!p->table->takes_input || arg.len == 0 || *(const char *)arg.data == '-')
        return refuse_unknown(p, at, e);
    if (p->out->input >= 0)
        return err_set(e, WARM_EREFUSED, "%s: more than one input", p->table->tool);
    p->out->input = (int)at;
    return 0;
}

static int take_argument(struct parse *p, struct err *e)
{
    struct options *out = p->out;
    size_t at = p->next++;
    struct view arg = p->args[at], value = {NULL, 0};
    enum match match;

    if (!WARM_EXPECT(at < p->n_args) || (arg.len > 0 && memchr(arg.data, '\0', arg.len) != NULL))
        return err_set(e, WARM_EINVALID, "%s: argument %zu holds a NUL", p->table->tool, at + 1);
    const struct spec *spec = find_spec(p->table, arg, &match, &value);
    if (spec == NULL)
        return take_other(p, at, e);
    int rc = settle_value(p, spec, match, &value, e);
    if (rc == 0)
        rc = take_option(p, spec, value, e);
    if (rc < 0)
        return rc;
    take_effects(p, spec, value);
    bool is_second = (spec->rule == OUTPUT && out->output >= 0) ||
                     (spec->rule == DEPENDENCY_FILE && out->dependency_file >= 0) ||
                     (spec->rule == DROP && spec->value != NONE && p->dropped == spec);
    if (is_second) /* the tool warns, and the list has neither of them */
        return err_set(e, WARM_EREFUSED, "%s: %s is given twice", p->table->tool, spec->long_name);
    if (spec->rule == OUTPUT)
        out->output = (int)p->next - 1;
    if (spec->rule == DEPENDENCY_FILE)
        out->dependency_file = (int)p->next - 1;
    if (spec->rule == DROP)
        p->dropped = spec;
    if (spec->rule == DROP || spec->rule == OUTPUT || spec->rule == DEPENDENCY_FILE)
        return 0;
    for (size_t i = at; i < p->next; i++)
        p->pass[out->n_pass++] = p->args[i];
    out->list[out->n_list++] = (struct option){spec, value, arg, false};
    (void)WARM_EXPECT(out->n_list <= out->n_pass &&
                      out->n_pass <= p->next); /* each is one or two */
    return 0;
}

/* --- the list in canonical order --- */

/* Returns an option's group. MATH options override each other alike in any order: each is a group. */
static int group_of(const struct parse *p, const struct option *o)
{
    if (!p->table->sorted)
        return 0;
    if (o->spec->group != 0 && o->spec->group != MATH)
        return o->spec->group;
    return 100 + (int)(o->spec - p->table->specs);
}

/* Sorts by group, stably, in one pass for each group: the lists are short. */
static void sort_list(struct parse *p, struct option *sorted)
{
    struct options *out = p->out;
    size_t n = 0;
    int last = p->table->sorted ? 100 + (int)p->table->n_specs : 0;

    for (int group = 0; group <= last; group++)
        for (size_t i = 0; i < out->n_list; i++)
            if (group_of(p, &out->list[i]) == group)
                sorted[n++] = out->list[i];
    if (!WARM_EXPECT(n == out->n_list)) /* each option is in one group */
        return;
    memcpy(out->list, sorted, n * sizeof *sorted);
}

static bool is_dropped_default(const struct parse *p, size_t at)
{
    const struct option *list = p->out->list;
    const struct spec *spec = list[at].spec;

    if (spec->rule != KEEP || spec->note == NULL || !view_is(list[at].value, spec->note))
        return false;
    for (size_t i = 0; i < p->out->n_list; i++) {
        if (i != at && list[i].spec == spec)
            return false;
        if (spec->group != 0 && list[i].spec->group == spec->group &&
            (list[i].spec->effects & OVERRIDES))
            return false;
    }
    return true;
}

static void drop_defaults(struct parse *p, unsigned version)
{
    struct options *out = p->out;
    if (version < p->table->first_version || version > p->table->last_version)
        return;
    for (size_t i = 0; i < out->n_list; i++)
        out->list[i].dropped = is_dropped_default(p, i);
}

/* --- the options for ptxas --- */

#define PTXAS_ARGS_MAX 64

/* Splits the values into arguments; of nvcc each may have several, joined by commas. Returns their number; 0 if
 * they are too many. */
static size_t split_for_ptxas(const struct parse *p, struct view out[PTXAS_ARGS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_for_ptxas; i++) {
        struct view left = p->for_ptxas[i];
        for (bool more = true; more;) {
            const char *comma = p->of_nvcc && left.len ? memchr(left.data, ',', left.len) : NULL;
            size_t len = comma ? (size_t)(comma - (const char *)left.data) : left.len;
            if (n == PTXAS_ARGS_MAX)
                return 0;
            out[n++] = (struct view){left.data, len};
            more = comma != NULL;
            left = more ? view_from(left, len + 1) : left;
        }
    }
    return n;
}

static int check_for_ptxas(struct parse *p, struct err *e)
{
    struct options inner;
    struct err inner_error;
    struct view args[PTXAS_ARGS_MAX];

    if (p->n_for_ptxas == 0)
        return 0;
    size_t n = split_for_ptxas(p, args);
    if (n == 0)
        return err_set(e, WARM_EREFUSED, "%s: --ptxas-options: more than %d", p->table->tool,
                       PTXAS_ARGS_MAX);
    int rc = options_parse(OPTIONS_PTXAS, 0, args, n, &inner, &inner_error);
    if (rc < 0)
        return err_set(e, rc, "%s: --ptxas-options: %.200s", p->table->tool, inner_error.text);
    p->out->debug |= inner.debug;
    p->out->line_info |= inner.line_info;
    p->out->verbose_log |= inner.verbose_log;
    bool has_files = inner.input >= 0 || inner.output >= 0;
    options_close(&inner);
    if (has_files)
        return err_set(e, WARM_EREFUSED, "%s: --ptxas-options name a file", p->table->tool);
    return 0;
}

/* --- the whole --- */

static int check_size(const struct options_table *table, const struct view *args, size_t n_args,
                      struct err *e)
{
    size_t total = 0;
    if (n_args > OPTIONS_MAX_ARGS)
        return err_set(e, WARM_ETOO_BIG, "%s: more than %d arguments", table->tool,
                       OPTIONS_MAX_ARGS);
    for (size_t i = 0; i < n_args; i++) {
        if (args[i].len > OPTIONS_MAX_BYTES - total)
            return err_set(e, WARM_ETOO_BIG, "%s: more than %u bytes of arguments", table->tool,
                           OPTIONS_MAX_BYTES);
        total += args[i].len;
    }
    return 0;
}

static int parse_all(struct parse *p, unsigned version, struct option *sorted, struct err *e)
{
    struct options *out = p->out;
    while (p->next < p->n_args) {
        int rc = take_argument(p, e);
        if (rc < 0)
            return rc;
    }
    int rc = check_for_ptxas(p, e);
    if (rc < 0)
        return rc;
    if (p->unknown < p->n_args && !p->forwards)
        return refuse_unknown(p, p->unknown, e);
    sort_list(p, sorted);
    drop_defaults(p, version);
    /* A single target is a part of the address. Several targets, in their order, are fields too. */
    for (size_t i = 0; i < p->out->n_list; i++)
        if (p->out->list[i].spec->rule == ARCH && p->n_arch == 1 && !p->of_nvcc)
            p->out->list[i].dropped = true;
    if (p->n_arch == 0)
        memcpy(out->hardware, "default", sizeof "default");
    out->shows_cwd = out->debug || out->line_info || out->lto;
    if (out->shows_cwd || out->verbose_log)
        out->allows_canonical = false;
    return 0;
}

int options_parse(enum options_tool tool, unsigned version, const struct view *args, size_t n_args,
                  struct options *out, struct err *e)
{
    const struct options_table *table = &options_tables[tool];
    int rc = check_size(table, args, n_args, e);
    if (rc < 0)
        return rc;

    /* One block: the list, a copy to sort it in, four arrays of views, and one of options for other tools. */
    size_t n = n_args + 1;
    struct option *list =
        calloc(n, 2 * sizeof *list + 4 * sizeof(struct view) + sizeof(struct inner_options));
    if (list == NULL)
        return err_set(e, WARM_ENOMEM, "%s: no memory for the arguments", table->tool);
    struct view *views = (struct view *)(void *)(list + 2 * n);

    struct options options = {
        .tool = tool, .input = -1, .output = -1, .dependency_file = -1, .allows_canonical = true};
    options.list = list;
    options.memory = list;
    options.include_dirs = views;
    options.pre_includes = views + n;
    options.pass = views + 2 * n;
    struct parse p = {.table = table,
                      .args = args,
                      .n_args = n_args,
                      .unknown = n_args,
                      .out = &options,
                      .of_nvcc = tool == OPTIONS_NVCC};
    p.dirs = views;
    p.pre = views + n;
    p.pass = views + 2 * n;
    p.for_ptxas = views + 3 * n;
    p.inner = (struct inner_options *)(void *)(views + 4 * n);
    options.inner = p.inner;

    rc = parse_all(&p, version, list + n, e);
    if (rc < 0) {
        free(list);
        return rc;
    }
    *out = options;
    return 0;
}

/* --- fields and text --- */

/* Sets the pieces of one canonical option and returns their number. */
static size_t option_pieces(const struct options *options, const struct option *o,
                            struct view out[4])
{
    size_t n = 0;
    if (options->tool == OPTIONS_PTXAS) { /* as written */
        out[n++] = o->written;
        if (o->value.data != NULL &&
            !((const char *)o->value.data >= (const char *)o->written.data &&
              (const char *)o->value.data <= (const char *)o->written.data + o->written.len)) {
            out[n++] = (struct view){" ", 1};
            out[n++] = o->value;
        }
        return n;
    }
    out[n++] = (struct view){o->spec->long_name, strlen(o->spec->long_name)};
    if (o->spec->value == NONE)
        return n;
    out[n++] = (struct view){"=", 1};
    out[n++] = o->value;
    if (o->spec->rule == DEFINE && !view_has(o->value, '='))
        out[n++] = (struct view){"=1", 2};
    return n;
}

/* Returns the number of pieces without the folder of an absolute -I. No field with a folder equals it. */
static size_t drop_place(const struct option *o, size_t n)
{
    bool absolute = o->value.len && *(const char *)o->value.data == '/';
    return o->spec->rule == INCLUDE && absolute ? 1 : n;
}

static void add_fields(const struct options *options, bool shared, struct key_builder *builder,
                       uint32_t tag)
{
    uint64_t count = 0;
    for (size_t i = 0; i < options->n_list; i++)
        count += !options->list[i].dropped;
    key_add_u64(builder, tag, count);
    for (size_t i = 0; i < options->n_list; i++) {
        struct view pieces[4];
        uint64_t len = 0;
        if (options->list[i].dropped)
            continue;
        size_t n = option_pieces(options, &options->list[i], pieces);
        if (shared)
            n = drop_place(&options->list[i], n);
        for (size_t k = 0; k < n; k++)
            len += pieces[k].len;
        key_add_open(builder, tag, len);
        for (size_t k = 0; k < n; k++)
            key_add_piece(builder, pieces[k].data, pieces[k].len);
    }
}

void options_add(const struct options *options, struct key_builder *builder, uint32_t tag)
{
    add_fields(options, false, builder, tag);
}

void options_add_shared(const struct options *options, struct key_builder *builder, uint32_t tag)
{
    add_fields(options, true, builder, tag);
}

void options_close(struct options *options)
{
    free(options->memory);
    options->memory = NULL;
}

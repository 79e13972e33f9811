/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_map.c - finds the folder that -ffile-prefix-map or -fmacro-prefix-map replaces, and says if a result may stand for
 * another one. See user_map.h.
 *
 * Thread: main; no state.
 */
#define XXH_INLINE_ALL
#include "client/tool/user_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/cc_options.h"
#include "client/tool/trace_log.h"

static const char *const names[] = {"-ffile-prefix-map=", "-fmacro-prefix-map="};

/* Returns the value of an option that replaces names; NULL: another argument. */
static const char *value_of(const char *arg, bool debugs)
{
    for (size_t i = 0; i < (debugs ? 1 : sizeof names / sizeof names[0]); i++)
        if (strncmp(arg, names[i], strlen(names[i])) == 0)
            return arg + strlen(names[i]);
    return NULL;
}

/* Returns the value of the one option for names, however often it is given; NULL: none, several, or one behind an option
 * that takes it for its value. */
static const char *find(const struct tool_job *job, bool debugs)
{
    const char *found = NULL;
    bool is_value = false;
    for (int i = 1; i < job->argc; i++) {
        const char *arg = job->argv[i];
        const struct cc_option *o = arg[0] == '-' && !is_value ? cc_option_find(arg) : NULL;
        if (strncmp(arg, "-gz", 3) == 0) /* no search finds a name in packed debug information */
            return NULL;
        bool names_map = strstr(arg, "prefix-map") != NULL;
        if (names_map && (is_value || !value_of(arg, debugs) || (found && strcmp(found, arg) != 0)))
            return NULL;
        found = names_map ? arg : found;
        is_value = o && (o->form == SEPARATE || (o->form == EITHER && !arg[strlen(o->name)]));
    }
    return found ? value_of(found, debugs) : NULL;
}

/* True if debug information has this name for the working folder, and no other. */
static bool has_one_name(const char *cwd)
{
    const char *pwd = getenv("PWD");
    return !pwd || strcmp(pwd, cwd) == 0;
}

static bool is_in(const char *path, const char *folder)
{
    return strcmp(path, folder) == 0 || tool_is_below(path, folder);
}

bool user_map_add_root(struct tool_job *job, const char *source, bool debugs)
{
    assert(job && source && job->n_roots == 0);
    char folder[PATH_MAX], real[PATH_MAX];
    const char *value = find(job, debugs), *equals = value ? strchr(value, '=') : NULL;
    size_t len = equals ? (size_t)(equals - value) : 0;
    if (len && value[len - 1] == '/' && !debugs)
        len--; /* the working folder itself then keeps its name */
    if (len < 2 || len >= sizeof folder || value[0] != '/' || !memchr(value + 1, '/', len - 1))
        return false;
    memcpy(folder, value, len);
    folder[len] = '\0';
    if (!realpath(folder, real) || strcmp(real, folder) != 0 || tool_has_more(folder) ||
        strncmp(folder, "/usr/", 5) == 0 || !has_one_name(job->cwd) || !is_in(job->cwd, folder) ||
        (source[0] == '/' && !is_in(source, folder)) || !tool_add_root(job, folder, len))
        return false;
    job->maps_roots = job->user_maps = true;
    return true;
}

bool user_map_is_option(const char *arg)
{
    assert(arg);
    return value_of(arg, false) != NULL;
}

bool user_map_key(const struct tool_job *job, struct key_builder *key, uint32_t tag,
                  const char *arg)
{
    assert(job && key && arg);
    if (!job->user_maps || !user_map_is_option(arg))
        return false;
    const char *value = value_of(arg, false);
    key_add(key, tag, arg, (size_t)(value - arg));
    key_add_text(key, tag, value + strlen(job->roots[0]));
    return true;
}

bool user_map_fits(const struct tool_job *job, const struct inputs *in, size_t set)
{
    assert(job && in && set < in->n_sets);
    const struct inputs one = {.list = in->sets[set], .n = in->set_len[set]};
    return !job->user_maps || root_names_check(job, &one, NULL) == 0;
}

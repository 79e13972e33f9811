/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvjitlink.c - a stand-in for libnvJitLink, for tests on machines without it. A cubin tells the options and
 * the inputs of its link. Errors are those of nvJitLink.h, CUDA 13.5, for the same calls:
 *
 *     a handle or an output that is none: 10   the option -bad: 1   no -arch: 2
 *     an input that is NULL or empty, PTX without a NUL behind its bytes, or any if `fake_refuses_ptx`: 3
 *     PTX with the word "broken": 4
 *     a link of an input with the word "unresolved": 6; "shaky": the first time in a process
 *     an input or a link on a handle that is linked already: 6
 *
 * Each link has a cubin, also that of no input; with the option -ptx also PTX, with -ltoir also LTO IR. -Xptxas=-v
 * fills the info log, as ptxas does, with the time of this very link. Destroyed handles are used again at once.
 * `fake_notes` returns the calls since the last time, "get" for each getter. `fake_on_complete`, if it is set, is
 * called in the middle of each link. Functions have both names, as in the real library: nvJitLinkX and __nvJitLinkX_13_5.
 *
 * -DWITHOUT_LTOIR builds a library as 12.x is; -DWITHOUT_LOG one that lacks a function; -DBUILD="x" one of another
 * content.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the declarations are in nvJitLink.h */

enum { UNRECOGNIZED_OPTION = 1, MISSING_ARCH, INVALID_INPUT, PTX_COMPILE };
enum { INTERNAL = 6, NULL_INPUT = 10 };
enum { TYPE_PTX = 2, LINKS = 8, TEXT_MAX = 1 << 15 };

struct link {
    int is_open, is_complete, has_ptx, has_ltoir, is_verbose;
    char options[TEXT_MAX], inputs[TEXT_MAX], cubin[2 * TEXT_MAX + 64], error[256], info[256];
};
static struct link links[LINKS];
static char notes[TEXT_MAX], noted[TEXT_MAX];
static int n_completes, is_steady;

#ifndef BUILD
#define BUILD "1"
#endif
void (*fake_on_complete)(void);
int fake_refuses_ptx;

/* Gives a function its second name. */
#define ALSO(name)                                                                                 \
    extern __typeof__(nvJitLink##name) __nvJitLink##name##_13_5                                    \
        __attribute__((alias("nvJitLink" #name)));

const char *fake_notes(void)
{
    strcpy(noted, notes);
    notes[0] = '\0';
    return noted;
}

static void note(const char *word)
{
    size_t len = strlen(notes);
    snprintf(notes + len, sizeof notes - len, "%s ", word);
}

static int is_link(const void *handle)
{
    for (int i = 0; i < LINKS; i++)
        if (handle == &links[i])
            return links[i].is_open;
    return 0;
}

static void append(char *text, const char *more)
{
    size_t len = strlen(text);
    snprintf(text + len, TEXT_MAX - len, "%s", more);
}

int nvJitLinkVersion(unsigned *major, unsigned *minor)
{
    *major = 13;
    *minor = 5;
    return 0;
}

int nvJitLinkCreate(struct link **out, uint32_t n_options, const char **options)
{
    struct link *l = NULL;
    int has_arch = 0;
    note("create");
    for (int i = 0; out && !l && i < LINKS; i++)
        l = links[i].is_open ? NULL : &links[i];
    if (!l)
        return NULL_INPUT;
    memset(l, 0, sizeof *l);
    for (uint32_t i = 0; i < n_options; i++) {
        if (!options[i] || strcmp(options[i], "-bad") == 0)
            return UNRECOGNIZED_OPTION;
        has_arch |= strncmp(options[i], "-arch=", 6) == 0;
        l->has_ptx |= strcmp(options[i], "-ptx") == 0;
        l->has_ltoir |= strcmp(options[i], "-ltoir") == 0;
        l->is_verbose |= strcmp(options[i], "-Xptxas=-v") == 0;
        append(l->options, options[i]);
        append(l->options, " ");
    }
    if (!has_arch)
        return MISSING_ARCH;
    l->is_open = 1;
    *out = l;
    return 0;
}
ALSO(Create)

int nvJitLinkDestroy(struct link **handle)
{
    note("destroy");
    if (!handle || !is_link(*handle))
        return NULL_INPUT;
    (*handle)->is_open = 0;
    *handle = NULL;
    return 0;
}
ALSO(Destroy)

/* Refuses an input after the end of a link. */
static int late(struct link *l)
{
    strcpy(l->error, "error: it is complete\n");
    return INTERNAL;
}

int nvJitLinkAddData(struct link *l, int type, const void *data, size_t size, const char *name)
{
    char text[4096];
    note("add");
    if (!is_link(l))
        return NULL_INPUT;
    if (!data || !size)
        return INVALID_INPUT;
    if (l->is_complete)
        return late(l);
    snprintf(text, sizeof text, "%d %s: %.*s;", type, name ? name : "<unnamed>", (int)size,
             (const char *)data);
    if (type == TYPE_PTX && (fake_refuses_ptx || ((const char *)data)[size])) {
        strcpy(l->error, "error: no PTX\n");
        return INVALID_INPUT;
    }
    if (type == TYPE_PTX && strstr(text, "broken")) {
        strcpy(l->error, "error: broken\n");
        return PTX_COMPILE;
    }
    append(l->inputs, text);
    return 0;
}
ALSO(AddData)

int nvJitLinkAddFile(struct link *l, int type, const char *path)
{
    char text[4096];
    note("file");
    if (!is_link(l) || !path)
        return NULL_INPUT;
    if (l->is_complete)
        return late(l);
    snprintf(text, sizeof text, "%d file %s;", type, path);
    append(l->inputs, text);
    return 0;
}
ALSO(AddFile)

int nvJitLinkComplete(struct link *l)
{
    note("complete");
    if (fake_on_complete)
        fake_on_complete();
    if (!is_link(l))
        return NULL_INPUT;
    if (l->is_complete)
        return INTERNAL;
    if (strstr(l->inputs, "unresolved") || (strstr(l->inputs, "shaky") && !is_steady)) {
        is_steady = 1;
        strcpy(l->error, "error: unresolved\n");
        return INTERNAL;
    }
    snprintf(l->cubin, sizeof l->cubin, "build " BUILD ": %s%s", l->options, l->inputs);
    if (l->is_verbose)
        snprintf(l->info, sizeof l->info,
                 "ptxas info    : Used 8 registers\nptxas info    : Compile time = %d.000 ms\n",
                 ++n_completes);
    l->is_complete = 1;
    return 0;
}
ALSO(Complete)

/* The size of a log counts its NUL; an empty log has none. */
static int size_of(const struct link *l, int is_there, const char *text, int has_end, size_t *out)
{
    note("get");
    if (!is_link(l) || !out)
        return NULL_INPUT;
    if (!is_there)
        return INTERNAL;
    *out = strlen(text) + (size_t)(has_end && *text);
    return 0;
}

static int copy_of(const struct link *l, int is_there, const char *text, int has_end, char *out)
{
    note("get");
    if (!is_link(l) || !out)
        return NULL_INPUT;
    if (!is_there)
        return INTERNAL;
    memcpy(out, text, strlen(text) + (size_t)has_end);
    return 0;
}

/* Defines the two getters of an output; a text ends with a NUL. */
#define OUTPUT(name, type, is_there, text, has_end)                                                \
    int nvJitLinkGet##name##Size(struct link *l, size_t *out)                                      \
    {                                                                                              \
        return size_of(l, is_link(l) && (is_there), text, has_end, out);                           \
    }                                                                                              \
    ALSO(Get##name##Size)                                                                          \
    int nvJitLinkGet##name(struct link *l, type *out)                                              \
    {                                                                                              \
        return copy_of(l, is_link(l) && (is_there), text, has_end, (char *)out);                   \
    }                                                                                              \
    ALSO(Get##name)

OUTPUT(LinkedCubin, void, l->is_complete, l->cubin, 0)
OUTPUT(LinkedPtx, char, l->is_complete && l->has_ptx, "the PTX", 1)
#ifndef WITHOUT_LTOIR
OUTPUT(LinkedLTOIR, void, l->is_complete && l->has_ltoir, "the LTO IR", 0)
#endif
#ifndef WITHOUT_LOG
OUTPUT(ErrorLog, char, 1, l->error, 1)
#endif
OUTPUT(InfoLog, char, 1, l->info, 1)

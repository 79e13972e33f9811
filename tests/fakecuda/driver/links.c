/* SPDX-License-Identifier: Apache-2.0 */
/*
 * links.c - the driver's linker: PTX is compiled when it is added, cubins are joined. What it makes of PTX takes
 * other registers than what the loader makes of it. $FAKECUDA_SAYS is what it writes to the log. Only cuLinkCreate needs
 * a context, as its documentation has it.
 *
 * Thread: any, one at a time for each link.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/fakecuda/driver/driver.h"

struct cu_link {
    struct handle handle;
    int cc;
    unsigned most;
    char text[TEXT_MAX], cubin[2 * TEXT_MAX];
    char *info_log;
    void **info_size;
};

CALL(cuLinkCreate_v2, ".coH", (unsigned n, int *options, void **values, struct cu_link **out), n,
     options, values, out)
{
    struct cu_link *l = handle_new(LINK, sizeof *l);
    l->cc = (int)option_of(n, options, values, CU_JIT_TARGET);
    l->cc = l->cc ? l->cc : device_cc(context_current()->device);
    l->most = option_of(n, options, values, CU_JIT_MAX_REGISTERS);
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CU_JIT_INFO_LOG)
            l->info_log = values[i];
        if (options[i] == CU_JIT_INFO_LOG_SIZE)
            l->info_size = &values[i];
    }
    *out = l;
    return CU_SUCCESS;
}

static int link_input(struct cu_link *l, int type, const char *data, size_t len)
{
    char one[TEXT_MAX];
    int code = CU_SUCCESS;
    if (type == CU_JIT_INPUT_CUBIN)
        snprintf(one, sizeof one, "%.*s", (int)len, data);
    else
        code = ptx_compile(data, len, l->cc, l->most, true, one);
    if (code == CU_SUCCESS)
        strncat(l->text, strchr(one, ':') + 1, sizeof l->text - strlen(l->text) - 1);
    return code;
}

CALL(cuLinkAddData_v2, ".ihidlso",
     (struct cu_link * link, int type, void *data, size_t len, const char *name, unsigned n,
      int *options, void **values),
     link, type, data, len, name, n, options, values)
{
    struct cu_link *l = handle_of(link, LINK);
    (void)name, (void)n, (void)options, (void)values;
    return l ? link_input(l, type, data, len) : INVALID_HANDLE;
}

/* Invented: a later version with other parameters (find.c). */
CALL(cuLinkAddData_v3, ".iph", (const void *inputs, struct cu_link *link), inputs, link)
{
    (void)inputs;
    return handle_of(link, LINK) ? NOT_SUPPORTED : INVALID_HANDLE;
}

CALL(cuLinkAddFile_v2, ".ihiso",
     (struct cu_link * link, int type, const char *path, unsigned n, int *options, void **values),
     link, type, path, n, options, values)
{
    struct cu_link *l = handle_of(link, LINK);
    char *data = read_file(path);
    (void)n, (void)options, (void)values;
    int code = !l      ? INVALID_HANDLE
               : !data ? FILE_NOT_FOUND
                       : link_input(l, type, data, strlen(data));
    free(data);
    return code;
}

CALL(cuLinkComplete, ".ihMZ", (struct cu_link * link, void **cubin, size_t *len), link, cubin, len)
{
    struct cu_link *l = handle_of(link, LINK);
    if (!l)
        return INVALID_HANDLE;
    note("link", "");
    snprintf(l->cubin, sizeof l->cubin,
             "\x7f"
             "ELF sm_%d %s:%s",
             l->cc, setting("FAKECUDA_STAMP", "first"), l->text);
    const char *said = setting("FAKECUDA_SAYS", "");
    if (l->info_log && *said) {
        strcpy(l->info_log, said);
        *l->info_size = (void *)strlen(said);
    } else if (l->info_size) {
        *l->info_size = NULL;
    }
    *cubin = l->cubin;
    if (len)
        *len = strlen(l->cubin) + 1;
    return CU_SUCCESS;
}

CALL(cuLinkDestroy, ".ix", (struct cu_link * link), link)
{
    struct cu_link *l = handle_of(link, LINK);
    if (!l)
        return INVALID_HANDLE;
    handle_end(l);
    return CU_SUCCESS;
}

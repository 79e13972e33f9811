/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.c - reads the names of symbols in the memory of loaded libraries, of each once.
 *
 * Thread: the caller holds the interpreter's lock.
 */
#include "client/walk/libraries.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/walk/table.h"

struct look {
    const char *own;
    const char *const *signs;
    int n_signs;
    bool registers;
};

static struct table seen;        /* libraries, by their headers: low is 1 if it registers */
static unsigned long long ended; /* libraries that this process had unloaded then */

static int count(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    *(unsigned long long *)out = info->dlpi_adds;
    return 1;
}

unsigned long long libraries_loaded(void)
{
    unsigned long long n = 0;
    dl_iterate_phdr(count, &n);
    return n;
}

/* Returns an address of the dynamic section, which glibc may have relocated. */
static const char *address(const struct dl_phdr_info *info, ElfW(Addr) at)
{
    return (const char *)(at < info->dlpi_addr ? at + info->dlpi_addr : at);
}

/* Returns true if a name of the library's symbols has a sign in it. */
static bool registers(const struct look *l, const struct dl_phdr_info *info)
{
    const char *names = NULL;
    size_t len = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + header->p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_STRTAB)
                names = address(info, entry->d_un.d_ptr);
            if (entry->d_tag == DT_STRSZ)
                len = entry->d_un.d_val;
        }
    }
    for (int i = 0; names && i < l->n_signs; i++)
        if (memmem(names, len, l->signs[i], strlen(l->signs[i])))
            return true;
    return false;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct look *l = context;
    if (info->dlpi_name[0] != '/') /* the program itself, the kernel's */
        return 0;
    if (info->dlpi_subs != ended) { /* others may stand at the same addresses */
        table_free(&seen);
        ended = info->dlpi_subs;
    }
    struct table_slot *slot = table_find(&seen, info->dlpi_phdr);
    if (!slot) {
        slot = table_add(&seen, info->dlpi_phdr);
        if (!slot)
            return -1;
        slot->low = strncmp(info->dlpi_name, l->own, strlen(l->own)) && registers(l, info);
    }
    l->registers = l->registers || slot->low;
    return 0;
}

int libraries_register(const char *own, const char *const *signs, int n)
{
    struct look l = {.own = own, .signs = signs, .n_signs = n};
    return dl_iterate_phdr(look_at, &l) ? -1 : l.registers;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imports.c - reads the relocations of all loaded objects. The driver's links ask it, because an input that a plugin
 * adds to a link is not in the link's key if the plugin is linked with the driver.
 *
 * Source: ELF-64, the gABI's chapter "Dynamic Linking"; dl_iterate_phdr(3).
 *
 * Thread: any, no lock but the dynamic linker's.
 */
#include "client/preload/imports.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "keygen/bytes.h"

/* What the dynamic section of an object says. */
struct object {
    const ElfW(Sym) * symbols;
    const char *names;
    struct {
        const ElfW(Rela) * first;
        size_t len; /* bytes */
    } tables[2];
    size_t n_relative; /* relocations without a symbol, first in tables[0] */
};

struct search {
    const char *const *prefixes;
    uint64_t n_loaded, seen; /* objects that were ever loaded; at the last call */
    bool found;
};

/* Returns an address of a dynamic section, which the dynamic linker has relocated or not. */
static const void *at(const struct dl_phdr_info *of, ElfW(Addr) address)
{
    return (const void *)(address < of->dlpi_addr ? of->dlpi_addr + address : address);
}

static void read_entry(const struct dl_phdr_info *of, const ElfW(Dyn) * d, struct object *out)
{
    switch (d->d_tag) {
    case DT_SYMTAB: out->symbols = at(of, d->d_un.d_ptr); break;
    case DT_STRTAB: out->names = at(of, d->d_un.d_ptr); break;
    case DT_RELA: out->tables[0].first = at(of, d->d_un.d_ptr); break;
    case DT_RELASZ: out->tables[0].len = d->d_un.d_val; break;
    case DT_RELACOUNT: out->n_relative = d->d_un.d_val; break;
    case DT_JMPREL: out->tables[1].first = at(of, d->d_un.d_ptr); break;
    case DT_PLTRELSZ: out->tables[1].len = d->d_un.d_val; break;
    default: break;
    }
}

static struct object object_of(const struct dl_phdr_info *of)
{
    struct object out = {0};
    for (size_t i = 0; i < of->dlpi_phnum; i++)
        if (of->dlpi_phdr[i].p_type == PT_DYNAMIC)
            for (const ElfW(Dyn) *d = (const void *)(of->dlpi_addr + of->dlpi_phdr[i].p_vaddr);
                 d->d_tag != DT_NULL; d++)
                read_entry(of, d, &out);
    return out;
}

static bool imports(const struct object *o, const char *const *prefixes)
{
    for (size_t t = 0; t < 2 && o->symbols && o->names; t++)
        for (size_t i = t ? 0 : o->n_relative; i < o->tables[t].len / sizeof(ElfW(Rela)); i++) {
            const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(o->tables[t].first[i].r_info)];
            if (symbol->st_shndx == SHN_UNDEF &&
                text_begins_with_one(o->names + symbol->st_name, prefixes))
                return true;
        }
    return false;
}

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *s = arg;
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds)
        s->n_loaded = info->dlpi_adds;
    if (s->n_loaded && s->n_loaded == s->seen)
        return 1;
    struct object o = object_of(info);
    s->found = imports(&o, s->prefixes);
    return s->found;
}

bool imports_any(const char *const *prefixes, _Atomic uint64_t *seen)
{
    struct search s = {.prefixes = prefixes, .seen = atomic_load(seen)};
    dl_iterate_phdr(on_object, &s);
    if (!s.found)
        atomic_store(seen, s.n_loaded);
    return s.found;
}

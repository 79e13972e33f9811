/* SPDX-License-Identifier: Apache-2.0 */
/*
 * needed.c - reads the names of the libraries that an ELF file needs. trace_log.c calls it for what a
 * linker has read. Files may be large, and change meanwhile: it reads only the parts that matter.
 *
 * Thread: any; no state.
 */
#include "client/tool/needed.h"

#include <assert.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADERS_MAX 64
#define DYNAMIC_MAX 4096 /* entries */
#define NAME_MAX_BYTES 256

struct file {
    int fd;
    Elf64_Phdr headers[HEADERS_MAX];
    size_t n;
    Elf64_Dyn dynamic[DYNAMIC_MAX];
};

static bool read_at(int fd, void *out, size_t len, uint64_t at)
{
    return at <= INT64_MAX && pread(fd, out, len, (off_t)at) == (ssize_t)len;
}

/* Finds where in the file an address is. */
static bool offset_of(const struct file *f, uint64_t address, uint64_t *out)
{
    for (size_t i = 0; i < f->n; i++) {
        const Elf64_Phdr *p = &f->headers[i];
        if (p->p_type != PT_LOAD || address < p->p_vaddr || address - p->p_vaddr >= p->p_filesz)
            continue;
        *out = p->p_offset + (address - p->p_vaddr);
        return true;
    }
    return false;
}

static bool read_name(const struct file *f, uint64_t at, char out[NAME_MAX_BYTES])
{
    ssize_t n = at <= INT64_MAX ? pread(f->fd, out, NAME_MAX_BYTES, (off_t)at) : -1;
    return n > 0 && memchr(out, 0, (size_t)n);
}

static int read_dynamic(struct file *f, const Elf64_Phdr *p,
                        int (*on_name)(void *self, const char *name), void *self)
{
    size_t n = p->p_filesz / sizeof(Elf64_Dyn);
    uint64_t texts = 0;
    char name[NAME_MAX_BYTES];
    int code = 0;
    if (n > DYNAMIC_MAX || !read_at(f->fd, f->dynamic, n * sizeof(Elf64_Dyn), p->p_offset))
        return WARM_EREFUSED;
    for (size_t i = 0; i < n; i++)
        if (f->dynamic[i].d_tag == DT_STRTAB && !offset_of(f, f->dynamic[i].d_un.d_ptr, &texts))
            return WARM_EREFUSED;
    for (size_t i = 0; !code && i < n; i++) {
        if (f->dynamic[i].d_tag != DT_NEEDED)
            continue;
        bool ok = texts && read_name(f, texts + f->dynamic[i].d_un.d_val, name);
        code = ok ? on_name(self, name) : WARM_EREFUSED;
    }
    return code;
}

static int read_headers(struct file *f, int (*on_name)(void *self, const char *name), void *self)
{
    Elf64_Ehdr head;
    int code = 0;
    if (!read_at(f->fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return 0; /* a text, an archive */
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
        return WARM_EREFUSED;
    f->n = head.e_phnum;
    if (f->n > HEADERS_MAX || (f->n && head.e_phentsize != sizeof f->headers[0]) ||
        !read_at(f->fd, f->headers, f->n * sizeof f->headers[0], head.e_phoff))
        return WARM_EREFUSED;
    for (size_t i = 0; !code && i < f->n; i++)
        if (f->headers[i].p_type == PT_DYNAMIC)
            code = read_dynamic(f, &f->headers[i], on_name, self);
    return code;
}

int needed_libraries(const char *path, int (*on_name)(void *self, const char *name), void *self)
{
    assert(path && on_name);
    int code = WARM_ENOMEM, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return WARM_EREFUSED;
    struct file *f = malloc(sizeof *f);
    if (f) {
        f->fd = fd;
        code = read_headers(f, on_name, self);
    }
    free(f);
    close(fd);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf.c - reads the dynamic linker (PT_INTERP), the libraries (DT_NEEDED) and the build's id (PT_NOTE) of a
 * program from its file.
 * `warm run` and the preload's exec.c call it. With another linker, such as musl's, a program cannot load a
 * library that needs the C library of this machine, and would end.
 *
 * Source: System V ABI, "Program Header", "Dynamic Section".
 *
 * Thread: any, also between fork or vfork and exec; no state.
 */
#include "client/exec/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "client/exec/programs.h"
#include "keygen/bytes.h"
#include "keygen/expect.h"

#define HEADERS_MAX 64u  /* program headers */
#define DYNAMIC_MAX 128u /* entries of the dynamic section that are read */
#define LIBRARY_MAX 64u  /* bytes of a library's name that are read */
#ifdef __aarch64__
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_X86_64
#endif

struct elf {
    int fd;
    bool is_foreign; /* of another processor or word size: no parts were read */
    unsigned n_parts;
    Elf64_Phdr parts[HEADERS_MAX];
};

/* Reads the interpreter behind "#!" in the first bytes of a script. */
static bool read_script(int fd, char out[PATH_MAX])
{
    char line[PATH_MAX];
    ssize_t n = pread(fd, line, sizeof line - 1, 0);
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = '\0';
    char *path = line + 2 + strspn(line + 2, " \t");
    path[strcspn(path, " \t\n")] = '\0';
    strcpy(out, path);
    return *path == '/';
}

static bool read_headers(struct elf *elf)
{
    Elf64_Ehdr head;
    elf->n_parts = 0;
    elf->is_foreign = false;
    if (pread(elf->fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    elf->is_foreign = head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != OWN_MACHINE;
    if (elf->is_foreign)
        return true;
    if (head.e_phentsize != sizeof *elf->parts || head.e_phnum > HEADERS_MAX)
        return false;
    size_t size = head.e_phnum * sizeof *elf->parts;
    elf->n_parts = head.e_phnum;
    return pread(elf->fd, elf->parts, size, (off_t)head.e_phoff) == (ssize_t)size;
}

static const Elf64_Phdr *part_of(const struct elf *elf, uint32_t type)
{
    for (unsigned i = 0; i < elf->n_parts; i++)
        if (elf->parts[i].p_type == type)
            return &elf->parts[i];
    return NULL;
}

/* Opens a program, or a script's interpreter. `program` is a path. */
static bool elf_open(const char *program, struct elf *elf)
{
    char path[PATH_MAX];
    if (strlen(program) >= sizeof path)
        return false;
    strcpy(path, program);
    for (int i = 0; i < 2; i++) {
        elf->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (elf->fd < 0)
            return false;
        if (read_headers(elf))
            return true;
        bool is_script = read_script(elf->fd, path);
        close(elf->fd);
        if (!is_script)
            return false;
    }
    return false;
}

/* Opens a program that is a path, or a name that $PATH has. */
static bool find_and_open(const char *program, struct elf *elf)
{
    char found[PATH_MAX];
    const char *path = strchr(program, '/') ? program : program_find(program, found) ? found : "";
    return elf_open(path, elf);
}

static bool read_loader(const struct elf *elf, char out[PATH_MAX])
{
    const Elf64_Phdr *part = part_of(elf, PT_INTERP);
    ssize_t n = 0;
    if (part && part->p_filesz && part->p_filesz < PATH_MAX)
        n = pread(elf->fd, out, part->p_filesz, (off_t)part->p_offset);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

bool elf_loader_of(const char *program, char out[PATH_MAX])
{
    struct elf elf;
    if (!WARM_EXPECT(program && out) || !find_and_open(program, &elf))
        return false;
    bool found = read_loader(&elf, out);
    close(elf.fd);
    return found;
}

/* ---- libraries ---- */

bool elf_is_asan_runtime(const char *path, size_t len)
{
    static const char *const starts[] = {"libasan.so", "libclang_rt.asan"};
    const char *slash = len ? memrchr(path, '/', len) : NULL, *name = slash ? slash + 1 : path;
    len -= (size_t)(name - path);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (len >= strlen(starts[i]) && memcmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* Returns the place in the file of an address of the loaded program; -1 if it has none. */
static off_t place_of(const struct elf *elf, uint64_t address)
{
    for (unsigned i = 0; i < elf->n_parts; i++) {
        const Elf64_Phdr *part = &elf->parts[i];
        if (part->p_type == PT_LOAD && address >= part->p_vaddr &&
            address - part->p_vaddr < part->p_filesz)
            return (off_t)(part->p_offset + (address - part->p_vaddr));
    }
    return -1;
}

static bool needs_asan(const struct elf *elf)
{
    Elf64_Dyn dynamic[DYNAMIC_MAX];
    char name[LIBRARY_MAX];
    const Elf64_Phdr *part = part_of(elf, PT_DYNAMIC);
    size_t size = part ? part->p_filesz : 0;
    if (size > DYNAMIC_MAX * sizeof *dynamic)
        size = DYNAMIC_MAX * sizeof *dynamic;
    ssize_t got = size ? pread(elf->fd, dynamic, size, (off_t)part->p_offset) : 0;
    size_t n = got > 0 ? (size_t)got / sizeof *dynamic : 0; /* entries */
    off_t names = -1;
    for (size_t i = 0; i < n && names < 0; i++)
        if (dynamic[i].d_tag == DT_STRTAB)
            names = place_of(elf, dynamic[i].d_un.d_ptr);
    for (size_t i = 0; i < n && names >= 0 && dynamic[i].d_tag != DT_NULL; i++) {
        if (dynamic[i].d_tag != DT_NEEDED)
            continue;
        ssize_t len = pread(elf->fd, name, sizeof name, names + (off_t)dynamic[i].d_un.d_val);
        if (len > 0 && elf_is_asan_runtime(name, strnlen(name, (size_t)len)))
            return true;
    }
    return false;
}

bool elf_needs_asan_first(const char *program)
{
    struct elf elf;
    if (!WARM_EXPECT(program) || !find_and_open(program, &elf))
        return false;
    bool needs = needs_asan(&elf);
    close(elf.fd);
    return needs;
}

/* True for the dynamic linkers of glibc, wherever they lie. */
static bool is_glibcs(const char *loader)
{
    const char *slash = strrchr(loader, '/');
    return strncmp(slash ? slash + 1 : loader, "ld-linux", strlen("ld-linux")) == 0;
}

bool elf_cannot_load_ours(const char *program)
{
    char loader[PATH_MAX];
    struct elf elf;
    if (!WARM_EXPECT(program) || !find_and_open(program, &elf))
        return false;
    bool cannot =
        elf.is_foreign || needs_asan(&elf) || (read_loader(&elf, loader) && !is_glibcs(loader));
    close(elf.fd);
    return cannot;
}

/* ---- builds ---- */

#define NOTE_MAX 1024u /* bytes of a note section that are read */

void elf_build_id(const char *path, char out[ELF_BUILD_TEXT])
{
    uint8_t notes[NOTE_MAX];
    struct elf elf;
    Elf64_Nhdr head;
    *out = '\0';
    if (!elf_open(path, &elf))
        return;
    for (unsigned i = 0; i < elf.n_parts && !*out; i++) {
        const Elf64_Phdr *part = &elf.parts[i];
        size_t size = part->p_filesz < sizeof notes ? part->p_filesz : sizeof notes;
        if (part->p_type != PT_NOTE ||
            pread(elf.fd, notes, size, (off_t)part->p_offset) != (ssize_t)size)
            continue;
        for (size_t at = 0; at + sizeof head <= size;) {
            memcpy(&head, notes + at, sizeof head);
            size_t name = at + sizeof head, id = name + ((head.n_namesz + 3u) & ~3u);
            if (head.n_namesz > size || head.n_descsz > size || id + head.n_descsz > size)
                break;
            if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
                memcmp(notes + name, "GNU", 4) == 0 && 2 * head.n_descsz < ELF_BUILD_TEXT) {
                bytes_to_hex(notes + id, head.n_descsz, out);
                break;
            }
            at = id + ((head.n_descsz + 3u) & ~3u);
        }
    }
    close(elf.fd);
}

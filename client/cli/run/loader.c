/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c - finds the dynamic linker that a program asks the kernel for (PT_INTERP). env.c compares two
 * programs by it: with another one, such as musl's, a program cannot load a library that needs the C library of
 * this machine, and would end.
 *
 * Thread: main.
 */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/run/run.h"
#include "client/exec/programs.h"

#define HEADERS_MAX 64u

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

static bool read_elf(int fd, char out[PATH_MAX])
{
    Elf64_Ehdr head;
    Elf64_Phdr part[HEADERS_MAX];
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof *part || head.e_phnum > HEADERS_MAX)
        return false;
    size_t size = head.e_phnum * sizeof *part;
    if (pread(fd, part, size, (off_t)head.e_phoff) != (ssize_t)size)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++)
        if (part[i].p_type == PT_INTERP && part[i].p_filesz && part[i].p_filesz < PATH_MAX) {
            ssize_t n = pread(fd, out, part[i].p_filesz, (off_t)part[i].p_offset);
            out[n > 0 ? n : 0] = '\0';
            return n > 0;
        }
    return false;
}

bool run_loader_of(const char *program, char out[PATH_MAX])
{
    char found[PATH_MAX], path[PATH_MAX];
    if (strlen(program) >= sizeof path)
        return false;
    strcpy(path, strchr(program, '/') ? program : program_find(program, found) ? found : "");
    for (int i = 0; i < 2; i++) { /* a program, or a script and its interpreter */
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        bool is_elf = fd >= 0 && read_elf(fd, out),
             is_script = !is_elf && fd >= 0 && read_script(fd, path);
        if (fd >= 0)
            close(fd);
        if (is_elf || !is_script)
            return is_elf;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images.c - what is in an image: kernels and their limits. The compiler makes of PTX a "cubin" that is a text:
 *
 *     \x7f ELF sm_90 STAMP: NAME r32 s1200 t1024 p0+8 p16+16; NAME …
 *
 * r registers, s bytes of shared memory, t threads of a block, p a parameter's offset and size. $FAKECUDA_STAMP is
 * the stamp; cubins with the stamp $FAKECUDA_REFUSE do not load, and PTX that holds $FAKECUDA_BREAKS does not
 * compile. Cubins for a GPU are read as well: names, parameters and limits are in their sections. Fat binaries are
 * those of nvcc, also compressed: the cubin that the device can run, else the newest PTX that it can.
 *
 * The linker's compiler takes more registers than the loader's, as NVIDIA's does.
 *
 * Thread: any; no state but the library of zstd.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>

#include "tests/fakecuda/driver/driver.h"

enum {
    REGISTERS = 32,
    REGISTERS_LINKED = 104,
    SHARED_MAX = 48 * 1024,
    PARAMETER_BYTES_MAX = 32764, /* since sm_70 and CUDA 12.1 */
    FAT_HEADER = 16,
    FAT_PTX = 1,
    FAT_CUBIN = 2,
    FAT_LEN_MAX = 1 << 28
};
#define FAT_IS_LZ4 0x2000u
#define FAT_IS_ZSTD 0x8000u
#define FAT_MAGIC 0xba55ed50u
#define FAT_WRAPPER 0x466243b1u

static __thread bool was_compiled;

static bool is_elf(const void *image)
{
    return memcmp(image,
                  "\x7f"
                  "ELF",
                  4) == 0;
}

static bool is_for_gpu(const void *image)
{
    return is_elf(image) && ((const char *)image)[EI_CLASS] == ELFCLASS64;
}

/* Returns the fat binary that an image is or points to, or NULL. */
static const char *fat_of(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == FAT_WRAPPER)
        memcpy(&image, (const char *)image + 8, sizeof image);
    return magic == FAT_WRAPPER || magic == FAT_MAGIC ? image : NULL;
}

static const char *image_kind(const void *image)
{
    return is_elf(image) ? "cubin" : fat_of(image) ? "fat" : "ptx";
}

static size_t image_len(const void *image)
{
    const char *fat = fat_of(image);
    Elf64_Ehdr header;
    if (is_for_gpu(image)) {
        memcpy(&header, image, sizeof header);
        return header.e_shoff + (size_t)header.e_shentsize * header.e_shnum;
    }
    return fat ? FAT_HEADER + *(const uint64_t *)(const void *)(fat + 8) : strlen(image);
}

/* ---- PTX ---- */

/* Returns the bytes of a type, as .u64. */
static unsigned type_size(const char *type)
{
    unsigned bits = (unsigned)atoi(type + 2);
    return bits ? bits / 8 : 1;
}

/* Returns how many bytes a declaration takes: ".param .align 8 .b8 name[16]"; and its alignment. */
static unsigned declared_size(const char *at, const char *end, unsigned *out_align)
{
    unsigned size = 1, align = 1, n = 1;
    for (; at < end; at++) {
        if (strncmp(at, ".align", 6) == 0)
            align = (unsigned)atoi(at + 6);
        else if (*at == '.' && strchr("busf", at[1]) && isdigit((unsigned char)at[2]))
            size = type_size(at);
        else if (*at == '[')
            n = (unsigned)atoi(at + 1);
    }
    *out_align = align > size ? align : size;
    return size * n;
}

static void read_parameters(struct kernel *k, const char *at, const char *end)
{
    while ((at = strstr(at, ".param")) && at < end) {
        const char *next = at + strcspn(at, ",)");
        unsigned align, size = declared_size(at, next, &align), n = k->n_parameters;
        unsigned offset = (k->parameter_bytes + align - 1) / align * align;
        if (n < PARAMETERS_MAX) {
            k->parameters[n].at = offset;
            k->parameters[n].size = size;
            k->n_parameters++;
        }
        k->parameter_bytes = offset + size;
        at = next;
    }
}

/* Returns the threads that .maxntid or .reqntid allows, or 1024. */
static unsigned threads_of(const char *at, const char *end)
{
    const char *found = strstr(at, ".maxntid");
    if (!found || found >= end)
        found = strstr(at, ".reqntid");
    if (!found || found >= end)
        return 1024;
    unsigned n = 1;
    for (const char *c = found + strlen(".maxntid"); *c && strchr(" ,0123456789", *c); c++)
        if (isdigit((unsigned char)*c)) {
            n *= (unsigned)strtoul(c, (char **)&c, 10);
            c--;
        }
    return n;
}

static unsigned shared_bytes(const char *at, const char *end)
{
    unsigned all = 0, align;
    while ((at = strstr(at, ".shared ")) && at < end) {
        const char *next = at + strcspn(at, ";");
        all += declared_size(at, next, &align) * !!memchr(at, '[', (size_t)(next - at));
        at = next;
    }
    return all;
}

/* Reads the kernel at `at`, which follows ".entry". Returns the end of its head. */
static const char *read_entry(struct kernel *k, const char *at)
{
    size_t len = strcspn(at, " (\n{");
    const char *open = at + strcspn(at, "({"), *body = strchr(at, '{');
    snprintf(k->name, sizeof k->name, "%.*s", (int)len, at);
    if (!body)
        return NULL;
    if (*open == '(')
        read_parameters(k, open, body);
    k->max_threads = threads_of(at, body);
    return body;
}

static int ptx_compile(const char *ptx, size_t len, int cc, unsigned most, bool linked,
                       char out[TEXT_MAX])
{
    char *text = strndup(ptx, len);
    const char *target = strstr(text, ".target sm_"), *at = text;
    unsigned registers = linked ? REGISTERS_LINKED : REGISTERS, shared;
    size_t n = (size_t)snprintf(out, TEXT_MAX,
                                "\x7f"
                                "ELF sm_%d %s:",
                                cc, setting("FAKECUDA_STAMP", "first"));
    int code = strstr(text, setting("FAKECUDA_BREAKS", "broken")) ||
                       (target && atoi(target + strlen(".target sm_")) > cc)
                   ? CU_INVALID_PTX
                   : CU_SUCCESS;
    note("jit", "");
    was_compiled = true;
    shared = shared_bytes(text, text + strlen(text));
    if (shared > SHARED_MAX)
        code = CU_INVALID_PTX;
    while (code == CU_SUCCESS && (at = strstr(at, ".entry "))) {
        struct kernel k = {.registers = most && most < registers ? most : registers};
        if (!(at = read_entry(&k, at + strlen(".entry "))) ||
            k.parameter_bytes > PARAMETER_BYTES_MAX) {
            code = CU_INVALID_PTX;
            break;
        }
        n += (size_t)snprintf(out + n, TEXT_MAX - n, " %s r%u s%u t%u", k.name, k.registers, shared,
                              k.max_threads);
        for (unsigned i = 0; i < k.n_parameters && n < TEXT_MAX; i++)
            n += (size_t)snprintf(out + n, TEXT_MAX - n, " p%u+%u", k.parameters[i].at,
                                  k.parameters[i].size);
        n += n < TEXT_MAX ? (size_t)snprintf(out + n, TEXT_MAX - n, ";") : 0;
        if (n >= TEXT_MAX)
            code = OUT_OF_MEMORY;
    }
    free(text);
    return code;
}

/* ---- cubins of ours ---- */

static void read_limit(struct kernel *k, const char *word)
{
    unsigned a = 0, b = 0, n = (unsigned)sscanf(word + 1, "%u+%u", &a, &b);
    if (*word == 'r')
        k->registers = a;
    else if (*word == 's')
        k->shared = a;
    else if (*word == 't')
        k->max_threads = a;
    else if (*word == 'p' && n == 2 && k->n_parameters < PARAMETERS_MAX) {
        k->parameters[k->n_parameters].at = a;
        k->parameters[k->n_parameters++].size = b;
        k->parameter_bytes = a + b;
    }
}

static void text_read(struct code *out, const char *text)
{
    char *copy = strdup(strchr(text, ':') ? strchr(text, ':') + 1 : ""), *rest = copy, *one;
    while ((one = strsep(&rest, ";")) && out->n < KERNELS_MAX) {
        struct kernel *k = &out->kernels[out->n];
        char *words = one, *word;
        *k = (struct kernel){.registers = REGISTERS, .max_threads = 1024};
        while ((word = strsep(&words, " ")))
            if (*word && !k->name[0])
                snprintf(k->name, sizeof k->name, "%s", word);
            else if (*word)
                read_limit(k, word);
        out->n += k->name[0] != 0;
    }
    free(copy);
}

static int text_load(struct code *out, const char *text, int cc)
{
    char refused[128], target[32];
    snprintf(refused, sizeof refused, " %s:", setting("FAKECUDA_REFUSE", "-"));
    snprintf(target, sizeof target, "ELF sm_%d ", cc);
    if (strstr(text, refused) || strncmp(text + 1, target, strlen(target)) != 0)
        return CU_NO_BINARY_FOR_GPU;
    text_read(out, text);
    return CU_SUCCESS;
}

/* ---- cubins for a GPU ---- */

/* Attributes in sections .nv.info: a format, an attribute, a value of 16 bits or a length and its bytes. */
enum {
    INFO_HAS_BYTES = 4,
    INFO_MAX_THREADS = 0x05,
    INFO_REQUIRED_THREADS = 0x10,
    INFO_PARAMETER = 0x17,
    INFO_PARAMETER_BYTES = 0x19,
    INFO_REGISTERS = 0x2f
};

static void read_info(struct kernel *k, int attribute, unsigned value, const uint32_t *bytes)
{
    if (attribute == INFO_MAX_THREADS || attribute == INFO_REQUIRED_THREADS)
        k->max_threads = bytes[0] * bytes[1] * bytes[2];
    if (attribute == INFO_PARAMETER_BYTES)
        k->parameter_bytes = value;
    unsigned ordinal = attribute == INFO_PARAMETER ? bytes[1] & 0xffff : PARAMETERS_MAX;
    if (ordinal < PARAMETERS_MAX) {
        k->parameters[ordinal].at = bytes[1] >> 16;
        k->parameters[ordinal].size = bytes[2] >> 18;
        k->n_parameters += k->n_parameters <= ordinal ? ordinal + 1 - k->n_parameters : 0;
    }
}

struct elf {
    const char *base, *names;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
};

static const char *section_name(const struct elf *e, unsigned i)
{
    return e->names + e->sections[i].sh_name;
}

/* Reads the attributes of a section. `k`: those of this kernel. NULL: those of all kernels, by symbol. */
static void read_infos(const struct elf *e, unsigned section, struct code *out, struct kernel *k)
{
    const char *at = e->base + e->sections[section].sh_offset;
    const char *end = at + e->sections[section].sh_size;
    const Elf64_Shdr *symbols = &e->sections[e->sections[section].sh_link];
    while (at + 4 <= end) {
        unsigned value = *(const uint16_t *)(const void *)(at + 2);
        uint32_t bytes[3] = {0};
        bool has_bytes = at[0] == INFO_HAS_BYTES;
        if (has_bytes)
            memcpy(bytes, at + 4, value < sizeof bytes ? value : sizeof bytes);
        if (k)
            read_info(k, at[1], value, bytes);
        else if (at[1] == INFO_REGISTERS) {
            const Elf64_Sym *s =
                (const Elf64_Sym *)(const void *)(e->base + symbols->sh_offset) + bytes[0];
            const char *name = e->base + e->sections[symbols->sh_link].sh_offset + s->st_name;
            for (unsigned i = 0; i < out->n; i++)
                if (strcmp(out->kernels[i].name, name) == 0)
                    out->kernels[i].registers = bytes[1];
        }
        at += 4 + (has_bytes ? value : 0);
    }
}

static void read_kernels(const struct elf *e, struct code *out)
{
    for (unsigned i = 1; i < e->header->e_shnum && out->n < KERNELS_MAX; i++)
        if (strncmp(section_name(e, i), ".nv.info.", 9) == 0) {
            struct kernel *k = &out->kernels[out->n++];
            *k = (struct kernel){.registers = REGISTERS, .max_threads = 1024};
            snprintf(k->name, sizeof k->name, "%s", section_name(e, i) + 9);
            read_infos(e, i, out, k);
        }
    for (unsigned i = 1; i < e->header->e_shnum; i++) {
        const char *name = section_name(e, i);
        for (unsigned j = 0; strncmp(name, ".nv.shared.", 11) == 0 && j < out->n; j++)
            if (strcmp(out->kernels[j].name, name + 11) == 0)
                out->kernels[j].shared = (unsigned)e->sections[i].sh_size;
        if (strcmp(name, ".nv.info") == 0)
            read_infos(e, i, out, NULL);
    }
}

static int elf_load(struct code *out, const void *image, int cc)
{
    const Elf64_Ehdr *header = image;
    struct elf e = {image, NULL, header, NULL};
    out->original = image;
    if (strcmp(setting("FAKECUDA_REFUSE", "-"), "real") == 0)
        return CU_INVALID_IMAGE;
    if (!header->e_shnum) { /* a test's own, which only says that it is one */
        out->has_any = true;
        return CU_SUCCESS;
    }
    int target =
        (int)(header->e_ident[EI_ABIVERSION] >= 8 ? header->e_flags >> 8 : header->e_flags);
    target &= 0xff;
    if (target && (target / 10 != cc / 10 || target > cc))
        return CU_NO_BINARY_FOR_GPU;
    e.sections = (const Elf64_Shdr *)(const void *)(e.base + header->e_shoff);
    e.names = e.base + e.sections[header->e_shstrndx].sh_offset;
    read_kernels(&e, out);
    return CU_SUCCESS;
}

/* ---- fat binaries ---- */

struct fat_entry {
    uint16_t kind, version;
    uint32_t header;
    uint64_t len;
    uint32_t compressed, options, ptx, cc;
    uint64_t name, flags, none, whole;
};
_Static_assert(sizeof(struct fat_entry) == 64, "as nvcc writes it");

/* Returns a length of LZ4, which goes on in further bytes if its 4 bits are all set. */
static size_t lz4_length(size_t bits, const unsigned char **at, const unsigned char *end)
{
    size_t len = bits;
    while (bits == 15 && *at < end) {
        len += **at;
        if (*(*at)++ != 255)
            break;
    }
    return len;
}

/* Expands a block of LZ4: literals, then an earlier part of the output, and so on. Returns its length, 0 if it is
 * damaged. Source: lz4_Block_format.md of github.com/lz4/lz4. */
static size_t lz4_expand(char *out, size_t cap, const void *data, size_t len)
{
    enum { MATCH_MIN = 4 };
    const unsigned char *at = data, *end = at + len;
    size_t n = 0;
    while (at < end) {
        unsigned token = *at++;
        size_t literals = lz4_length(token >> 4, &at, end);
        if (literals > cap - n || literals > (size_t)(end - at))
            return 0;
        memcpy(out + n, at, literals);
        n += literals;
        at += literals;
        if (end - at < 2)
            return n;
        size_t back = at[0] | (size_t)at[1] << 8;
        at += 2;
        size_t match = lz4_length(token & 15, &at, end) + MATCH_MIN;
        if (!back || back > n || match > cap - n)
            return 0;
        for (; match; match--, n++)
            out[n] = out[n - back];
    }
    return n;
}

static size_t zstd_expand(char *out, size_t cap, const void *data, size_t len)
{
    size_t (*expand)(void *, size_t, const void *, size_t) = NULL;
    void *zstd = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (zstd)
        *(void **)&expand = dlsym(zstd, "ZSTD_decompress");
    return expand ? expand(out, cap, data, len) : 0;
}

/* Returns the bytes of an entry (free()), with a NUL; NULL if they cannot be had. */
static char *entry_bytes(const struct fat_entry *e)
{
    const char *data = (const char *)e + e->header;
    size_t len = e->compressed ? e->whole : e->len, n = 0;
    char *out = len < FAT_LEN_MAX ? calloc(1, len + 1) : NULL;
    if (!out || !e->compressed)
        return out ? memcpy(out, data, len) : NULL;
    if (e->flags & FAT_IS_ZSTD)
        n = zstd_expand(out, len, data, e->compressed);
    else if (e->flags & FAT_IS_LZ4)
        n = lz4_expand(out, len, data, e->compressed);
    if (n == len)
        return out;
    free(out);
    return NULL;
}

/* True if a device can run an entry. */
static bool is_entry_for(const struct fat_entry *e, unsigned cc)
{
    return e->cc <= cc && (e->kind == FAT_PTX || (e->kind == FAT_CUBIN && e->cc / 10 == cc / 10));
}

/* Returns the entry that a device runs: a cubin rather than PTX, the newest of them; or NULL. */
static const struct fat_entry *fat_choose(const char *fat, unsigned cc)
{
    const struct fat_entry *best = NULL;
    const char *at = fat + FAT_HEADER, *end = at + *(const uint64_t *)(const void *)(fat + 8);
    while (at + sizeof *best <= end) {
        const struct fat_entry *e = (const struct fat_entry *)(const void *)at;
        if (is_entry_for(e, cc) &&
            (!best || e->kind > best->kind || (e->kind == best->kind && e->cc > best->cc)))
            best = e;
        at += e->header + e->len;
    }
    return best;
}

static int fat_load(struct code *out, const char *fat, int device, unsigned most)
{
    const struct fat_entry *e = fat_choose(fat, (unsigned)device_cc(device));
    char *bytes = e ? entry_bytes(e) : NULL;
    int code = !e ? CU_NO_BINARY_FOR_GPU : bytes ? CU_SUCCESS : CU_INVALID_IMAGE;
    if (code == CU_SUCCESS)
        code = code_load(out, bytes, device, most);
    if (out->original != bytes) /* else the code lives in it */
        free(bytes);
    return code;
}

static int code_load(struct code *out, const void *image, int device, unsigned most)
{
    char text[TEXT_MAX];
    if (fat_of(image))
        return fat_load(out, fat_of(image), device, most);
    if (is_elf(image)) {
        note("load cubin", "");
        return is_for_gpu(image) ? elf_load(out, image, device_cc(device))
                                 : text_load(out, image, device_cc(device));
    }
    note("load ptx", "");
    int code = ptx_compile(image, strlen(image), device_cc(device), most, false, text);
    if (code == CU_SUCCESS)
        text_read(out, text);
    return code;
}
